#!/usr/bin/env python3
"""Every file of configs/ is accepted: daemon configurations by brrd --check-config, job files by brrctl validate. The stores that job files
speak of are defined as their own comments say, so that what people copy is what was checked."""
import glob
import json
import os
import re
import subprocess
import sys

from daemon import BIN, MINI, SOURCE, Daemon, make_corpus, temporary

DAEMON = {"daemon.yaml", "demo.yaml"}


def store_of(text):
    """The line "stores: { NAME: … }" of a job file's comments, as a value for --set; placeholders get names that exist nowhere."""
    found = re.search(r"^#\s+stores: (\{.*\})$", text, re.M)
    return found and found.group(1).replace("YOUR-BUCKET", "bucket-of-a-test").replace("YOUR-REGION", "eu-west-1").replace("systemd:tusz", "env")


def check_daemon_files(directories):
    for name in DAEMON:  # their directories may be reserved for the daemon's user
        r = subprocess.run([f"{BIN}/brrd", "--config", f"{SOURCE}/configs/{name}", "--check-config", *directories], capture_output=True, text=True)
        assert r.returncode == 0, (name, r.stderr)


def keys(text):
    """The keys of a job file and their values: "data.augment.enabled" → "true". Two spaces a level; the files of configs/ have no lists."""
    found, path = {}, []
    for line in text.splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).rstrip()
        if line:
            key, _, value = line.strip().partition(":")
            del path[(len(line) - len(line.lstrip())) // 2 :]
            path.append(key)
            found[".".join(path)] = value.strip()
    return found


def read(name):
    with open(f"{SOURCE}/configs/{name}", encoding="utf-8") as f:
        return f.read()


def check_smoke():
    """What passes the smoke run must be what the long run does."""
    smoke, long = keys(read("smoke_a100.yaml")), keys(read("train_a100.yaml"))
    may_differ = {"name", "data.max_files", "training.epochs", "training.max_steps", "limits.wall_clock", "checkpoint.keep"}
    differ = {k for k in smoke.keys() | long.keys() if smoke.get(k) != long.get(k)}
    assert len(long) > 30 and {"name", "data.max_files"} <= differ <= may_differ, differ - may_differ


def check_time_limits(names):
    """A training goes on after its time limit by itself; tiny.yaml's is a safety net."""
    limited = {name for name in names if "limits.wall_clock" in keys(read(name)) and keys(read(name))["kind"] == "train"}
    stays = {name for name in limited if keys(read(name)).get("limits.auto_resume") != "true"}
    assert {"train.yaml", "train_a100.yaml", "tusz.yaml"} <= limited and stays == {"tiny.yaml"}, (limited, stays)


def main():
    names = sorted(os.path.basename(p) for p in glob.glob(f"{SOURCE}/configs/*.yaml"))
    assert DAEMON | {"tiny.yaml", "chbmit.yaml", "tusz.yaml", "eval.yaml"} <= set(names), names
    check_smoke()
    check_time_limits(names)
    checked, with_store = 0, 0
    with temporary() as tmp:
        check_daemon_files(["--set", f"paths.cache={tmp}/cache", "--set", f"paths.results={tmp}/results"])
        make_corpus(f"{tmp}/eeg", seed=5, patients=2, hours=0.05)
        local = f"data.source=file://{tmp}/eeg"
        for name in sorted(set(names) - DAEMON):
            text = read(name)
            store = store_of(text)
            os.makedirs(f"{tmp}/{name}")
            d = Daemon(f"{tmp}/{name}", [f"stores={store}"] if store else []).start()
            sets = [] if store else ["--set", local, "--set", "data.labels=auto"]
            if "kind: train" in text:  # the corpus has few windows
                sets += ["--set", "training.batch_size=2", "--set", "training.micro_batch_size=1"]
            if "kind: geodesic" in text or "kind: burst" in text:
                sets = []
            if "kind: evaluate" in text:
                code, end, err = d.submit(*MINI, local, "data.validation_fraction=0", "training.max_steps=2")
                assert code == 0, err
                sets += ["--set", f"evaluate.checkpoint=job:{end['job']}"]
            code, out, err = d.ctl("validate", f"{SOURCE}/configs/{name}", "--json", *sets)
            assert out, (name, code, err)
            answer = json.loads(out.splitlines()[-1])
            fits = answer["memory_bytes"] <= answer["memory_available_bytes"]  # a file is right on machines too small for it, too
            assert answer["valid"] and code == (0 if fits else 1), (name, code, out, err)
            print(name, {k: answer[k] for k in ("kind", "parameters", "memory_bytes", "recordings") if k in answer})
            assert answer["kind"] in ("train", "evaluate", "geodesic", "burst"), answer
            checked += 1
            with_store += store is not None
            assert d.stop() == 0
    assert checked == len(names) - len(DAEMON) and with_store == 2, (checked, with_store)
    return 0


if __name__ == "__main__":
    sys.exit(main())
