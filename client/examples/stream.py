#!/usr/bin/env python3
"""An EDF recording through a model with nothing but grpcio (Debian: python3-grpcio, python3-grpc-tools).

    BRR_ENDPOINT=unix:/run/brrd/brrd.sock ./stream.py RECORDING.edf MODEL [CHUNK_SAMPLES]

Prints "onset_s<TAB>end_s<TAB>confidence" for each seizure as soon as it is final. The messages are compiled from the proto files
at start; BRR_PROTO names their folder (installed: share/brrd/proto).
"""
import array
import os
import struct
import sys
import tempfile

import grpc
from grpc_tools import protoc

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.environ.get("BRR_PROTO") or next((p for p in (f"{HERE}/../../proto", f"{HERE}/../proto") if os.path.isdir(p)), "proto")
RESULT_HZ = 256


def load_messages():
    """brr.v1.Stream's messages and stub, compiled into a temporary folder."""
    out = tempfile.TemporaryDirectory(prefix="brr-proto-")
    files = [f"{PROTO}/brr/v1/{name}.proto" for name in ("common", "stream")]
    if protoc.main(["protoc", f"-I{PROTO}", f"--python_out={out.name}", f"--grpc_python_out={out.name}", *files]):
        sys.exit(f"stream.py: cannot compile the proto files in {PROTO}")
    sys.path.insert(0, out.name)
    from brr.v1 import common_pb2, stream_pb2, stream_pb2_grpc
    return out, common_pb2, stream_pb2, stream_pb2_grpc


def read_edf(path):
    """Labels, rate and float32 microvolt rows of the signals that have the rate of the first one. Plain EDF in µV."""
    with open(path, "rb") as f:
        data = f.read()
    records, seconds, n = int(data[236:244]), float(data[244:252]), int(data[252:256])

    def column(at, width):
        return [data[256 + at * n + i * width:256 + at * n + (i + 1) * width].decode("latin-1").strip() for i in range(n)]
    labels, per_record = column(0, 16), [int(x) for x in column(216, 8)]
    limits = list(zip(*[[float(x) for x in column(at, 8)] for at in (104, 112, 120, 128)]))
    chosen = [i for i in range(n) if per_record[i] == per_record[0] and "Annotations" not in labels[i]]
    rows = {i: array.array("f") for i in chosen}
    at = 256 * (n + 1)
    for _ in range(records):
        for i in range(n):
            if i in rows:
                low, high, digital_low, digital_high = limits[i]
                gain = (high - low) / (digital_high - digital_low)
                offset = low - digital_low * gain
                rows[i].extend(d * gain + offset for d in struct.unpack_from(f"<{per_record[i]}h", data, at))
            at += 2 * per_record[i]
    return [labels[i] for i in chosen], per_record[0] / seconds, [rows[i] for i in chosen]


def connect():
    """A channel to BRR_ENDPOINT: TLS with the CA of BRR_TLS_CA, and the token of BRR_TOKEN_FILE with every call."""
    endpoint = os.environ.get("BRR_ENDPOINT", "unix:/run/brrd/brrd.sock")
    if endpoint.startswith("unix:") or not os.environ.get("BRR_TLS_CA"):
        return grpc.insecure_channel(endpoint)
    with open(os.environ["BRR_TLS_CA"], "rb") as f:
        credentials = grpc.ssl_channel_credentials(f.read())
    if os.environ.get("BRR_TOKEN_FILE"):
        with open(os.environ["BRR_TOKEN_FILE"], encoding="ascii") as f:
            token = grpc.access_token_call_credentials(f.read().strip())
        credentials = grpc.composite_channel_credentials(credentials, token)
    return grpc.secure_channel(endpoint, credentials)


def requests(pb, recording, model, chunk):
    """Open, then every sample once; grpcio pulls the next message when the daemon has room for it."""
    labels, rate, rows = recording
    yield pb.ClientMessage(open=pb.Open(model=model, channels=labels, rate_hz=rate, format=pb.SAMPLE_FORMAT_F32_UV,
                                        client_name="stream.py", alarm_hop_s=-1))
    for first in range(0, len(rows[0]), chunk):
        part = [row[first:first + chunk] for row in rows]
        yield pb.ClientMessage(chunk=pb.Chunk(first_sample=first, samples=len(part[0]), data=b"".join(p.tobytes() for p in part)))


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: stream.py RECORDING.edf MODEL [CHUNK_SAMPLES]")
    try:
        recording = read_edf(sys.argv[1])
    except (OSError, ValueError, IndexError, ZeroDivisionError, struct.error) as error:
        sys.exit(f"stream.py: {sys.argv[1]} is no plain EDF file that can be read ({error})")
    keep, common, pb, stubs = load_messages()
    with keep, connect() as channel:
        chunk = int(sys.argv[3]) if len(sys.argv) == 4 else 2048
        try:
            for m in stubs.StreamStub(channel).Run(requests(pb, recording, sys.argv[2], chunk)):
                for e in m.result.events if m.HasField("result") else ():
                    print(f"{e.first_sample / RESULT_HZ:.6f}\t{e.end_sample / RESULT_HZ:.6f}\t{e.confidence:.6f}", flush=True)
        except grpc.RpcError as error:
            detail = common.ErrorDetail.FromString(dict(error.trailing_metadata() or ()).get("brr-error-bin", b""))
            sys.exit(f"stream.py: {detail.message or error.details()} {detail.reason}")


if __name__ == "__main__":
    main()
