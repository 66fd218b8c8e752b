#!/usr/bin/env python3
"""A network of spiking neurons, written here with numpy and run by brrd, with nothing but grpcio (Debian: python3-grpcio,
python3-grpc-tools, python3-numpy).

    ./burst.py [NEURONS [TICKS]]        # BRR_ENDPOINT names another daemon than this user's or the machine's

Creates the network, injects potentials, and prints "tick<TAB>id" for each neuron that fires, live. The messages are compiled from the
proto files at start; BRR_PROTO names their folder (installed: share/brrd/proto).
"""
import json
import os
import struct
import sys
import tempfile

import grpc
import numpy as np
from grpc_tools import protoc

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.environ.get("BRR_PROTO") or next((p for p in (f"{HERE}/../../proto", f"{HERE}/../proto") if os.path.isdir(p)), "proto")
PART = 1 << 20


def load_messages():
    """brr.v1.Burst's messages and stub, compiled into a temporary folder."""
    out = tempfile.TemporaryDirectory(prefix="brr-proto-")
    files = [f"{PROTO}/brr/v1/{name}.proto" for name in ("common", "burst")]
    if protoc.main(["protoc", f"-I{PROTO}", f"--python_out={out.name}", f"--grpc_python_out={out.name}", *files]):
        sys.exit(f"burst.py: cannot compile the proto files in {PROTO}")
    sys.path.insert(0, out.name)
    from brr.v1 import burst_pb2, burst_pb2_grpc, common_pb2
    return out, common_pb2, burst_pb2, burst_pb2_grpc


def connect():
    """A channel to BRR_ENDPOINT, else to this user's daemon or the machine's: TLS with the CA of BRR_TLS_CA, and the token of BRR_TOKEN_FILE
    with every call."""
    own = (os.environ.get("XDG_RUNTIME_DIR", ""), os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"))
    found = (f"{folder}/brrd/brrd.sock" for folder in own if os.path.exists(f"{folder}/brrd/brrd.sock"))
    endpoint = os.environ.get("BRR_ENDPOINT") or f"unix:{next(found, '/run/brrd/brrd.sock')}"
    if endpoint.startswith("unix:") or not os.environ.get("BRR_TLS_CA"):
        return grpc.insecure_channel(endpoint)
    with open(os.environ["BRR_TLS_CA"], "rb") as f:
        credentials = grpc.ssl_channel_credentials(f.read())
    if os.environ.get("BRR_TOKEN_FILE"):
        with open(os.environ["BRR_TOKEN_FILE"], encoding="ascii") as f:
            token = grpc.access_token_call_credentials(f.read().strip())
        credentials = grpc.composite_channel_credentials(credentials, token)
    return grpc.secure_channel(endpoint, credentials)


def network(n, seed=1, fan_out=20):
    """n neurons with synapses to random ones, a fifth of the neurons inhibitory: the arrays of a network file (docs/burst.md)."""
    rng = np.random.default_rng(seed)
    src = np.repeat(np.arange(n, dtype="<u4"), fan_out)
    return {"neuron.threshold": np.full(n, 300, "<f4"), "neuron.leak": np.full(n, 0.2, "<f4"), "neuron.refractory": np.full(n, 3, "<u2"),
            "synapse.src": src, "synapse.dst": rng.integers(0, n, len(src)).astype("<u4"),
            "synapse.weight": rng.integers(1, 256, len(src)).astype("<u1"), "synapse.psp": np.ones(len(src), "<u1"),
            "synapse.type": (src % 5 == 0).astype("<u1")}


def as_file(arrays):
    """safetensors: the length of a JSON header, the header, the arrays one after another."""
    header, at = {"__metadata__": {"brr.kind": "burst-network", "brr.areas": json.dumps([{"name": "all"}])}}, 0
    for name, a in arrays.items():
        dtype = {"f": "F32", "u": f"U{8 * a.itemsize}"}[a.dtype.kind]
        header[name] = {"dtype": dtype, "shape": a.shape, "data_offsets": [at, at := at + a.nbytes]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in arrays.values())


def injections(n, ticks, seed=1):
    """Every tenth tick a tenth of the neurons, enough to make them fire."""
    rng = np.random.default_rng(seed)
    return [(t, int(i), 400.0) for t in range(1, ticks + 1, 10) for i in rng.choice(n, max(1, n // 10), replace=False)]


def requests(pb, data):
    """How large the file is, and the file in parts."""
    yield pb.CreateNetworkRequest(bytes=len(data))
    for at in range(0, len(data), PART):
        yield pb.CreateNetworkRequest(part=data[at:at + PART])


def run(stub, pb, n, ticks):
    name = stub.Create(requests(pb, as_file(network(n)))).name
    try:
        tick, neuron, potential = zip(*injections(n, ticks))
        stub.Inject(pb.InjectRequest(name=name, tick=tick, id=neuron, potential=potential))
        frames = stub.Observe(pb.ObserveNetworkRequest(name=name, queue_frames=ticks))
        next(frames)  # the first message is empty: from here on no tick is left out
        step = stub.Step.future(pb.StepRequest(name=name, ticks=ticks))
        for message in frames:
            for frame in message.frames:
                for neuron in frame.ids:
                    print(f"{frame.tick}\t{neuron}", flush=True)
            if message.frames and message.frames[-1].tick == ticks:
                break
        print(f"{step.result().fired} spikes in {ticks} ticks, {message.missed} frames missed", file=sys.stderr)
    finally:
        stub.Destroy(pb.DestroyNetworkRequest(name=name))


def main():
    if len(sys.argv) > 3:
        sys.exit("usage: burst.py [NEURONS [TICKS]]")
    n, ticks = (int(a) for a in (sys.argv[1:] + ["1000", "100"][len(sys.argv) - 1:]))
    keep, common, pb, stubs = load_messages()
    with keep, connect() as channel:
        try:
            run(stubs.BurstStub(channel), pb, n, ticks)
        except grpc.RpcError as error:
            detail = common.ErrorDetail.FromString(dict(error.trailing_metadata() or ()).get("brr-error-bin", b""))
            sys.exit(f"burst.py: {detail.message or error.details()} {detail.reason}")


if __name__ == "__main__":
    main()
