#!/usr/bin/env python3
"""A short training without a daemon, as the task machinery alone: it ends with a checkpoint, and one that was stopped on the way
ends with the same bytes. BRR_WRAP (such as "valgrind --error-exitcode=9") goes in front of every run."""
import hashlib
import json
import os
import shlex
import subprocess
import sys

from daemon import MINI, SOURCE, make_corpus, temporary

DRIVER = os.path.join(os.environ["BRR_BUILD_DIR"], "tests", "task_driver")
WRAP = shlex.split(os.environ.get("BRR_WRAP", ""))
STEPS = 4


def run(tmp, name, *extra):
    args = [DRIVER, f"{SOURCE}/configs/tiny.yaml", f"{tmp}/{name}", f"{tmp}/cache", f"data.source=file://{tmp}/eeg", *MINI,
            f"training.max_steps={STEPS}", "training.validate_every=2", *extra]
    r = subprocess.run(WRAP + args, capture_output=True, text=True)
    assert r.returncode == 0, r.stdout[-2000:] + r.stderr[-8000:]
    paths = [line.split()[1] for line in r.stdout.splitlines() if line.startswith("checkpoint ")]
    result = json.loads(next(line for line in r.stdout.splitlines() if line.startswith("result "))[7:])
    return paths, result


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=11, patients=2, hours=0.03)
        whole, result = run(tmp, "whole")
        assert whole and isinstance(result, dict) and result, "no checkpoint or no result"
        with open(f"{tmp}/whole/metrics.jsonl", encoding="utf-8") as f:
            steps = [line for line in map(json.loads, f) if line["kind"] == "step"]
        assert steps and all(s["first_step_s"] > 0 for s in steps), "the time to the first step is a metric"
        first, _ = run(tmp, "parts", "stop_after=2")
        assert first, "stopping writes a checkpoint"
        rest, _ = run(tmp, "parts")
        assert digest(rest[-1]) == digest(whole[-1]), "weights differ after a stop"
        r = subprocess.run([DRIVER, f"{SOURCE}/configs/tiny.yaml", f"{tmp}/none", f"{tmp}/cache", f"data.source=file://{tmp}/none"],
                           capture_output=True, text=True)
        assert r.returncode == 1 and f"{tmp}/none" in r.stderr, r.stderr
    return 0


if __name__ == "__main__":
    sys.exit(main())
