"""What the stream tests share: a daemon with a small model that finds a handful of events, a recording, and raw access to the RPC."""
import contextlib
import glob
import importlib.util
import json
import os
import struct
import subprocess

import numpy

from daemon import BIN, MINI, SOURCE, Daemon, make_corpus, temporary

RATE = 256


def load_example():
    """client/examples/stream.py as a module: its EDF reader and its compiled messages serve the tests too."""
    spec = importlib.util.spec_from_file_location("example_stream", f"{SOURCE}/client/examples/stream.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def endpoint(d):
    return d.env["BRR_ENDPOINT"]


def trace(d, path, model, *options):
    """Events file and probabilities of `brrctl stream`, as bytes and as an array."""
    out, probs = f"{d.dir}/x.tsv", f"{d.dir}/x.npy"
    code, text, err = d.ctl("stream", path, "--model", model, "--output", out, "--probabilities", probs, "--json", *options)
    assert code == 0, err
    with open(out, "rb") as f:
        return f.read(), numpy.load(probs), text


def command(d, path, model, *options):
    out, probs = f"{d.dir}/f.tsv", f"{d.dir}/f.npy"
    for name in (out, probs):
        if os.path.exists(name):
            os.remove(name)
    return [f"{BIN}/brrctl", "stream", path, "--model", model, "--output", out, "--probabilities", probs, *options]


def start(d, path, model, *options, stdin=subprocess.DEVNULL):
    """`brrctl stream` at work, which writes f.tsv and f.npy."""
    return subprocess.Popen(command(d, path, model, *options), env=d.env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def files_of(d, recording):
    """What such a stream of standard input wrote, as bytes, under the recording's name."""
    with open(f"{d.dir}/f.tsv", "rb") as f:
        return f.read().replace(b"stdin", os.path.basename(recording).encode()), numpy.load(f"{d.dir}/f.npy").tobytes()


class Edf:
    """A file as header and records, to be written piece by piece."""

    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read()
        self.header, body = data[:256 * (int(data[252:256]) + 1)], data[256 * (int(data[252:256]) + 1):]
        self.signals = int(data[252:256])
        self.records = int(data[236:244])
        self.record = len(body) // self.records
        self.body = body
        assert self.record * self.records == len(body)

    def counted(self, n):
        """The header with another record count."""
        return self.header[:236] + b"%-8d" % n + self.header[244:]


def train(d, source, *sets):
    code, end, err = d.submit(*MINI, f"data.source=file://{source}", "data.validation_fraction=0", "training.max_steps=3", *sets)
    assert code == 0 and end["state"] == "succeeded", (end, err)
    return end["checkpoint"]


def with_metadata(model, target, change):
    """A copy of a model file whose metadata (name: text) were changed by change(metadata)."""
    with open(model, "rb") as f:
        data = f.read()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + size])
    change(header["__metadata__"])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data[8 + size:])
    return target


def metadata(model):
    with open(model, "rb") as f:
        return json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))["__metadata__"]


def with_events(model, target, **events):
    """A copy of a model file whose event rules are changed."""
    def change(pairs):
        pairs["brr.events"] = json.dumps({**json.loads(pairs["brr.events"]), **events})
    return with_metadata(model, target, change)


@contextlib.contextmanager
def streaming_daemon(hours=0.04, extra=()):
    """(daemon, recording, model file). Thresholds are set into the trace of the model, so that there are events to compare."""
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=21, patients=2, hours=hours)
        d = Daemon(tmp, extra).start()
        try:
            recording = sorted(glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True))[0]
            trained = train(d, f"{tmp}/eeg")
            p = trace(d, recording, trained)[1]
            on = float(numpy.quantile(numpy.convolve(p, numpy.ones(2 * RATE) / (2 * RATE), "same"), 0.7))
            model = with_events(trained, f"{tmp}/model.safetensors", on=on, off=0.98 * on, min_onset=8, min_offset=8, min_duration_s=0.5,
                                merge_gap_s=0.1)
            yield d, recording, model
            assert d.process.poll() is None, "the daemon died:\n" + d.read_log()
        finally:
            if d.process.poll() is None:
                d.stop()


def messages():
    """(folder to keep, common_pb2, stream_pb2, stubs) compiled from the proto files."""
    os.environ["BRR_PROTO"] = f"{SOURCE}/proto"
    return load_example().load_messages()
