#!/usr/bin/env python3
"""A results volume that fills up ends a job with one clear error; checkpoints before it stay whole, the daemon stays up, and the job
goes on once there is room. A full cache volume refuses the job likewise. Needs a mount namespace (root, or user namespaces)."""
import hashlib
import os
import subprocess
import sys
import time

from daemon import MINI, Daemon, make_corpus, temporary

RESULTS_KIB = 600  # the network's pair of model and state has about 200 KiB


class SmallDisks(Daemon):
    """brrd in a mount namespace where results and cache are small file systems."""

    def __init__(self, directory, sizes_kib, extra=()):
        super().__init__(directory, extra)
        self.sizes = sizes_kib
        for name in sizes_kib:
            os.makedirs(os.path.join(directory, name), exist_ok=True)

    def command(self):
        mounts = " && ".join(f"mount -t tmpfs -o size={kib}k none '{self.dir}/{name}'" for name, kib in self.sizes.items())
        return ["unshare", "-rm", "sh", "-c", f"{mounts} && exec \"$@\"", "sh", *super().command()]

    def inside(self, path):
        return f"/proc/{self.process.pid}/root{path}"


def namespaces_work(directory):
    mount = f"mount -t tmpfs -o size=64k none '{directory}'"
    return subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, check=False).returncode == 0


def sha256(path):
    return hashlib.sha256(open(path, "rb").read()).hexdigest()


def results_volume(tmp, source):
    d = SmallDisks(f"{tmp}/a", {"results": RESULTS_KIB}).start()
    sets = [*MINI, source, "training.max_steps=120", "training.validate_every=40", "checkpoint.every=1s", "checkpoint.keep=50", "limits.restarts=0"]
    code, end, err = d.submit(*sets)
    assert code == 1 and end["state"] == "failed", (end, err)
    for words in ("No space left", "free some space", "the ones before are untouched"):
        assert words in end["reason"], end["reason"]
    kept = sorted(f for f in os.listdir(d.inside(f"{tmp}/a/results/jobs/{end['job']}/checkpoints")) if f.endswith(".safetensors"))
    assert kept and not any(".tmp" in f for f in os.listdir(d.inside(f"{tmp}/a/results/jobs/{end['job']}/checkpoints"))), kept
    assert d.ctl("version")[0] == 0, "the daemon must stay up"
    folder = d.inside(f"{tmp}/a/results/jobs/{end['job']}/checkpoints")
    steps = sorted(f for f in os.listdir(folder) if f.endswith(".state.safetensors"))
    for name in steps[:-1]:  # somebody makes room
        os.unlink(f"{folder}/{name}")
        os.unlink(f"{folder}/{name.replace('.state', '')}")
    code, _, err = d.ctl("resume", end["job"])
    assert code == 0, err
    job = d.wait(end["job"], lambda j: j["state"] in ("succeeded", "failed", "running"))
    log = ""
    deadline = time.time() + 60
    while "resumed at step" not in log and time.time() < deadline:
        log = d.ctl("logs", end["job"])[1]
        time.sleep(0.1)
    assert "resumed at step" in log, (job, log)
    d.ctl("cancel", end["job"])
    assert d.stop() == 0


def cache_volume(tmp, source):
    d = SmallDisks(f"{tmp}/b", {"cache": 256}).start()
    code, end, err = d.submit(*MINI, source, "training.max_steps=4", "limits.restarts=0")
    assert code == 1 and end["state"] == "failed", (end, err)
    for words in ("No space left", "free some space"):
        assert words in end["reason"], end["reason"]
    assert d.ctl("version")[0] == 0, "the daemon must stay up"
    assert d.stop() == 0


def main():
    with temporary() as tmp:
        os.makedirs(f"{tmp}/probe")
        if not namespaces_work(f"{tmp}/probe"):
            print("skipped: no mount namespaces here, so no small file system can be made")
            return 77
        for name in ("a", "b"):
            os.makedirs(f"{tmp}/{name}")
        make_corpus(f"{tmp}/eeg", seed=9)
        source = f"data.source=file://{tmp}/eeg"
        results_volume(tmp, source)
        print("full results volume: one error, earlier checkpoints whole, resumed after room was made")
        cache_volume(tmp, source)
        print("full cache volume: one error")
    return 0


if __name__ == "__main__":
    sys.exit(main())
