"""What the stream tests share: a daemon with a small model that finds a handful of events, a recording, and raw access to the RPC."""
import contextlib
import glob
import importlib.util
import os

import numpy

from daemon import MINI, SOURCE, Daemon, make_corpus, temporary

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


def train(d, source, *sets):
    code, end, err = d.submit(*MINI, f"data.source=file://{source}", "data.validation_fraction=0", "training.max_steps=6", *sets)
    assert code == 0 and end["state"] == "succeeded", (end, err)
    return f"job:{end['job']}"


@contextlib.contextmanager
def streaming_daemon(hours=0.05, extra=()):
    """(daemon, recording, REF of a model). Thresholds are set into the trace of the model, so that there are events to compare."""
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=21, patients=2, hours=hours)
        d = Daemon(tmp, extra).start()
        try:
            recording = sorted(glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True))[0]
            p = trace(d, recording, train(d, f"{tmp}/eeg"))[1]
            smooth = numpy.convolve(p, numpy.ones(2 * RATE) / (2 * RATE), "same")
            on = float(numpy.quantile(smooth, 0.7))
            model = train(d, f"{tmp}/eeg", f"events.on={on:.6f}", f"events.off={0.98 * on:.6f}", "events.min_onset=8", "events.min_offset=8",
                          "events.min_duration_s=0.5", "events.merge_gap_s=0.1")
            yield d, recording, model
            assert d.process.poll() is None, "the daemon died:\n" + d.read_log()
        finally:
            if d.process.poll() is None:
                d.stop()


def messages():
    """(folder to keep, common_pb2, stream_pb2, stubs) compiled from the proto files."""
    os.environ["BRR_PROTO"] = f"{SOURCE}/proto"
    return load_example().load_messages()
