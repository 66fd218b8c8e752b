#!/usr/bin/env python3
"""A training that is stopped before its first step has saved its untrained network as step 0. No reference but job:ID@0 stands for that
network, and once the training has gone on, job:ID is what it has learned, with validations or without."""
import json
import os
import shutil
import subprocess
import sys

from daemon import BIN, MINI, SOURCE, Daemon, make_corpus, temporary
from fake_s3 import FakeS3
from test_store_arrival import upload

BLIND = ["data.validation_fraction=0", "events.threshold=fixed"]


def stopped(s3, d, prefix, *sets):
    """The id of a job whose time ends while the bucket holds its recordings back."""
    s3.open_doors(0)
    _, end, err = d.submit(*MINI, f"data.source=store://bucket/{prefix}", "training.max_steps=3", "limits.wall_clock=2s", *sets)
    s3.open_doors(None)
    assert end, err
    assert end["state"] == "interrupted" and end["reason"] == "time_limit", (end, err)
    assert end["checkpoint"] is None, f"a network that has learned nothing is no result: {end}"
    lines = [line for line in d.ctl("checkpoints", end["job"])[1].splitlines() if f"job:{end['job']}@" in line]
    assert len(lines) == 1 and f"job:{end['job']}@0" in lines[0] and "best" not in lines[0], lines
    return end["job"]


def commands(ref, tmp):
    """Everything that takes a model."""
    folder = ["--set", f"data.source=file://{tmp}/eeg"]
    small = [a for s in MINI for a in ("--set", s)]
    return (["detect", f"{tmp}/eeg", "--model", ref, "--out", f"{tmp}/none"], ["load", "none", ref],
            ["checkpoint", "get", ref, "--out", f"{tmp}/none.safetensors"], ["checkpoint", "get", f"{ref}@best", "--out", f"{tmp}/none.safetensors"],
            ["checkpoint", "get", f"{ref}@last", "--out", f"{tmp}/none.safetensors"], ["export", ref, "--onnx", f"{tmp}/none.onnx"],
            ["tune", ref, f"{tmp}/eeg", "--out", f"{tmp}/none.safetensors"], ["benchmark", f"{tmp}/eeg", "--model", "ward", "--model", ref],
            ["submit", f"{SOURCE}/configs/eval.yaml", "--watch", *folder, "--set", f"evaluate.checkpoint={ref}"],
            ["submit", f"{SOURCE}/configs/tiny.yaml", "--watch", *folder, *small, "--set", f"model.init_from={ref}"])


def check(s3, d, tmp, sets, best):
    prefix = f"eeg-{len(sets)}"  # of its own, so that the cache has nothing of it
    upload(s3, f"{tmp}/eeg", prefix)
    job = stopped(s3, d, prefix, *sets)
    ref = f"job:{job}"
    for args in commands(ref, tmp):
        code, out, err = d.ctl(*args)
        assert code not in (0, 75) and f"nothing learned yet; {ref}@0 is the untrained network" in out + err, (args, code, out, err)
    alone = subprocess.run([shutil.copy(f"{BIN}/brrctl", tmp), "export", ref, "--onnx", f"{tmp}/none.onnx"], env=d.env, capture_output=True, text=True)
    assert "nothing learned yet" in alone.stderr and "Python" not in alone.stderr, alone  # before the package that it lacks
    assert d.ctl("checkpoint", "get", f"{ref}@0", "--out", f"{tmp}/zero.safetensors")[0] == 0
    code, out, err = d.ctl("load", "early", f"{ref}@0")
    assert code == 0 and "no validation has run yet" in out and "were chosen on" not in out, (out, err)
    assert d.ctl("resume", job, "--set", "limits.wall_clock=none")[0] == 0
    end = d.wait(job, lambda j: j["state"] == "succeeded")
    assert json.loads(end["result_json"]).get("best_step") == best if "result_json" in end else end["result"].get("best_step") == best, end
    code, _, err = d.ctl("checkpoint", "get", ref, "--out", f"{tmp}/learned.safetensors")
    assert ("were chosen on these patients" in d.ctl("load", "early", ref)[1]) == (best is not None)
    assert code == 0 and b'"brr.step":"3"' in open(f"{tmp}/learned.safetensors", "rb").read(), err
    assert b'"brr.step":"0"' in open(f"{tmp}/zero.safetensors", "rb").read()
    os.unlink(f"{tmp}/learned.safetensors")
    os.unlink(f"{tmp}/zero.safetensors")


def main():
    with temporary() as tmp, FakeS3() as s3:
        make_corpus(f"{tmp}/eeg", seed=5, patients=3, hours=0.03)
        os.environ.update(s3.environment())
        d = Daemon(tmp, [f"stores={{bucket: {{url: 's3://eeg', endpoint: '{s3.endpoint}', stall: 60s}}}}"]).start()
        check(s3, d, tmp, [], 3)
        check(s3, d, tmp, BLIND, None)
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
