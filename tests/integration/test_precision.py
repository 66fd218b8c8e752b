#!/usr/bin/env python3
"""Models in bf16 by serve_precision, detect.precision and evaluate.precision: near fp32, streamed as offline, and only within the bound that the
model file names. A CPU without bf16 refuses them."""
import glob
import os
import sys

import numpy

from daemon import MINI
from stream_fixture import metadata, streaming_daemon, trace, with_metadata

BOUND = 0.25  # training.bf16_bound by default: of logits, so probabilities are off by a quarter of it at most


def has_bf16():
    with open("/proc/cpuinfo") as f:
        return "avx512_bf16" in f.read()


def job(d, kind, source, model, precision):
    """Submits it; its end, and what was said."""
    name, path = {"detect": "model", "evaluate": "checkpoint"}[kind], f"{d.dir}/{kind}.yaml"
    with open(path, "w") as f:
        f.write(f"kind: {kind}\ndata: {{ source: file://{source}, loader_workers: 1 }}\n{kind}: {{ {name}: {model}, precision: {precision} }}\n")
    code, end, err = d.submit(file=path)
    return code, end, err + (d.ctl("logs", end["job"])[1] if end else "")


def events_of(d, recording, job_id):
    [path] = glob.glob(f"{d.dir}/results/jobs/{job_id}/events/**/{os.path.basename(recording)[:-8]}_events.tsv", recursive=True)
    with open(path, "rb") as f:
        return f.read()


def jobs_say_how_far_they_are(d, recording, model, strict):
    source = f"{d.dir}/eeg"
    for kind in ("detect", "evaluate"):
        code, end, said = job(d, kind, source, strict, "bf16")
        assert code == 1 and end["state"] == "failed" and "allows 1e-09 (brr.bf16_bound); use it in fp32" in said, (end, said)
        code, end, said = job(d, kind, source, strict, "fp32")
        assert code == 0 and "in bf16" not in said, (end, said)
        code, end, said = job(d, kind, source, model, "bf16")
        assert code == 0 and "in bf16: logits differ from fp32 by at most" in said and "the model allows 0.25" in said, (end, said)
        if kind == "detect":
            events = events_of(d, recording, end["job"])
    return events


def streams_in_bf16(d, recording, model, strict, precise, events):
    got, rounded, _ = trace(d, recording, model)
    far = float(numpy.max(numpy.abs(precise - rounded)))
    assert rounded.shape == precise.shape and 0 < far <= BOUND / 4, far
    assert got == events, "a stream and a detect job differ in bf16"
    code, _, err = d.ctl("stream", recording, "--model", strict)
    assert code == 1 and "brr.bf16_bound" in err, (code, err)
    assert d.ctl("load", "ward", model)[0] == 0 and "precision=bf16 bf16_difference=0." in d.read_log(), d.read_log()[-2000:]
    code, _, err = d.ctl("load", "strict", strict)
    assert code == 1 and "brr.bf16_bound" in err, (code, err)
    assert d.ctl("stream", recording, "--model", "line_length")[0] == 0, "a model without a network computes in fp32"


def main():
    with streaming_daemon() as (d, recording, model):
        assert metadata(model)["brr.bf16_bound"] == "0.25"
        code, end, err = d.submit(*MINI, f"data.source=file://{d.dir}/eeg", "data.validation_fraction=0", "training.max_steps=1", "training.bf16_bound=0.5")
        assert code == 0 and metadata(end["checkpoint"])["brr.bf16_bound"] == "0.5", (end, err)
        strict = with_metadata(model, f"{d.dir}/strict.safetensors", lambda pairs: pairs.update({"brr.bf16_bound": "1e-9"}))
        precise = trace(d, recording, model)[1]
        if has_bf16():
            events = jobs_say_how_far_they_are(d, recording, model, strict)
        else:
            code, end, said = job(d, "detect", f"{d.dir}/eeg", model, "bf16")
            assert code == 1 and "no bf16 arithmetic" in said, (end, said)
        code, end, said = job(d, "detect", f"{d.dir}/eeg", strict, "auto")
        assert code == 0 and end["result"]["precision"] == "fp32" and "in bf16" not in said, "a CPU computes in fp32 unless it is told"
        assert d.stop() == 0
        d.extra += ["serve_precision=bf16"]
        d.start()
        if has_bf16():
            streams_in_bf16(d, recording, model, strict, precise, events)
        else:
            code, _, err = d.ctl("stream", recording, "--model", model)
            assert code == 1 and "no bf16 arithmetic" in err, (code, err)
    return 0


if __name__ == "__main__":
    sys.exit(main())
