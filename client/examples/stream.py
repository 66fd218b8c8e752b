#!/usr/bin/env python3
"""An EDF recording through a model with nothing but grpcio (Debian: python3-grpcio, python3-grpc-tools).

    ./stream.py RECORDING.edf MODEL [CHUNK_SAMPLES]        # MODEL: ward, a served name, job:ID; BRR_ENDPOINT names another daemon

Prints "onset_s<TAB>end_s<TAB>confidence" for each seizure as soon as it is final, and goes on after a lost connection or a restart of
the daemon. The messages are compiled from the proto files
at start; BRR_PROTO names their folder (installed: share/brrd/proto).
"""
import array
import os
import queue
import random
import struct
import sys
import tempfile
import time

import grpc
from grpc_tools import protoc

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.environ.get("BRR_PROTO") or next((p for p in (f"{HERE}/../../proto", f"{HERE}/../proto") if os.path.isdir(p)), "proto")
NAME = f"stream.py of {os.environ.get('USER') or os.getuid()}@{os.uname().nodename}"
RESULT_HZ = 256
OPTIONS = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000)]
FIRST_PAUSE_S, LONGEST_PAUSE_S, RESUME_S = 0.1, 5, 120  # between attempts to reach a daemon that is away; and all of them


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
    """A channel to BRR_ENDPOINT, else to this user's daemon or the machine's: TLS with the CA of BRR_TLS_CA, and the token of BRR_TOKEN_FILE
    with every call."""
    own = (os.environ.get("XDG_RUNTIME_DIR", ""), os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"))
    found = (f"{folder}/brrd/brrd.sock" for folder in own if os.path.exists(f"{folder}/brrd/brrd.sock"))
    endpoint = os.environ.get("BRR_ENDPOINT") or f"unix:{next(found, '/run/brrd/brrd.sock')}"
    if endpoint.startswith("unix:") or not os.environ.get("BRR_TLS_CA"):
        return grpc.insecure_channel(endpoint, options=OPTIONS)
    with open(os.environ["BRR_TLS_CA"], "rb") as f:
        credentials = grpc.ssl_channel_credentials(f.read())
    if os.environ.get("BRR_TOKEN_FILE"):
        with open(os.environ["BRR_TOKEN_FILE"], encoding="ascii") as f:
            token = grpc.access_token_call_credentials(f.read().strip())
        credentials = grpc.composite_channel_credentials(credentials, token)
    return grpc.secure_channel(endpoint, credentials, options=OPTIONS)


class Stream:
    """One recording as one session, over as many connections as it takes: a lost one is opened again with the session's token."""

    def __init__(self, pb, common, recording, model, chunk):
        self.pb, self.common, self.chunk = pb, common, chunk
        self.labels, self.rate, self.rows = recording
        self.model = model
        self.token, self.next_result, self.reconnects = "", 0, 0

    def requests(self, start):
        """Open; then, from the sample that the daemon asks for, every sample once. grpcio pulls the next message when there is room."""
        pb = self.pb
        yield pb.ClientMessage(open=pb.Open(model=self.model, channels=self.labels, rate_hz=self.rate, format=pb.SAMPLE_FORMAT_F32_UV,
                                            client_name=NAME, alarm_hop_s=-1, resumable=True, resume_token=self.token,
                                            next_result_seq=self.next_result))
        first, end = start.get(), len(self.rows[0])
        while first is not None and first < end:
            part = [row[first:first + self.chunk] for row in self.rows]
            yield pb.ClientMessage(chunk=pb.Chunk(first_sample=first, samples=len(part[0]), data=b"".join(p.tobytes() for p in part)))
            first += len(part[0])

    def events(self, stub):
        """The new events of one connection."""
        start = queue.Queue()
        try:
            for m in stub.Run(self.requests(start)):
                if m.HasField("opened"):
                    self.reconnects += bool(self.token)
                    self.token = m.opened.resume_token
                    start.put(m.opened.next_sample)
                elif m.HasField("result") and m.result.result_seq >= self.next_result:
                    self.next_result = m.result.result_seq + 1
                    yield from m.result.events
        finally:
            start.put(None)

    def passing(self, error):
        """Whether a later connection may go on; and what the daemon said."""
        detail = self.common.ErrorDetail.FromString(dict(error.trailing_metadata() or ()).get("brr-error-bin", b""))
        passes = not detail.reason or detail.reason == "DRAINING" or detail.retry_after_ms > 0
        return bool(self.token) and passes, f"{detail.message or error.details()} {detail.reason}"

    def run(self, stub):
        """All events, in order, each once."""
        lost, pause = None, FIRST_PAUSE_S
        while True:
            before = self.reconnects
            try:
                yield from self.events(stub)
                return
            except grpc.RpcError as error:
                passes, text = self.passing(error)
                if self.reconnects > before:
                    lost, pause = None, FIRST_PAUSE_S
                lost = lost or time.monotonic()
                if not passes or time.monotonic() - lost > RESUME_S:
                    sys.exit(f"stream.py: {text}")
                time.sleep(random.uniform(pause / 2, pause))
                pause = min(2 * pause, LONGEST_PAUSE_S)


def main():
    if len(sys.argv) not in (3, 4) or not sys.argv[-1].isdigit() and len(sys.argv) == 4:
        sys.exit("usage: stream.py RECORDING.edf MODEL [CHUNK_SAMPLES]")
    try:
        recording = read_edf(sys.argv[1])
    except (OSError, ValueError, IndexError, ZeroDivisionError, struct.error) as error:
        sys.exit(f"stream.py: {sys.argv[1]} is no plain EDF file that can be read ({error})")
    keep, common, pb, stubs = load_messages()
    with keep, connect() as channel:
        stream = Stream(pb, common, recording, sys.argv[2], int(sys.argv[3]) if len(sys.argv) == 4 else 2048)
        for e in stream.run(stubs.StreamStub(channel)):
            print(f"{e.first_sample / RESULT_HZ:.6f}\t{e.end_sample / RESULT_HZ:.6f}\t{e.confidence:.6f}", flush=True)
        if stream.reconnects:
            print(f"stream.py: the connection was lost {stream.reconnects} times", file=sys.stderr)


if __name__ == "__main__":
    main()
