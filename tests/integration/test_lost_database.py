#!/usr/bin/env python3
"""A job database that is gone, empty or malformed beside results: the check of the configuration names the fix, the daemon starts all the same
and streams go on, it is not ready and takes no job, and with the file back everything is as before."""
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

from daemon import BIN, PATIENCE, Daemon, temporary, until

JOB = "kind: burst\nnetwork: { neurons: 100, synapses: 5 }\ninput: { random: 0.5, potential: 1000 }\nticks: 10\n"


def ready(d):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/readyz", timeout=PATIENCE) as answer:
            return answer.status
    except urllib.error.HTTPError as e:
        return e.code


def lose(d, how, said):
    path = f"{d.dir}/jobs.sqlite"
    shutil.move(path, f"{d.dir}/kept")
    how(path)
    r = subprocess.run([*d.command(), "--check-config"], capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode != 0 and said in r.stderr and "--restore" in r.stderr, (r.stderr, said)
    d.start()
    r = subprocess.run([f"{BIN}/brr-load", "--model", "line_length", "--sessions", "1", "--seconds", "1", "--json"], env=d.env, capture_output=True,
                       text=True, timeout=PATIENCE)
    assert r.returncode == 0 and json.loads(r.stdout)["finished"] == 1, r.stderr
    until(lambda: ready(d) == 503, "a daemon without its jobs is ready")
    code, _, err = d.submit(file=f"{d.dir}/job.yaml", watch=False)
    assert code != 0 and "--restore" in err, err
    code, listed, err = d.ctl("checkpoints", "--json")
    assert code == 0, (listed, err)
    assert d.stop() == 0
    for name in (path, f"{path}-wal", f"{path}-shm"):
        if os.path.exists(name):
            os.remove(name)
    shutil.move(f"{d.dir}/kept", path)


def corrupt(d, path):
    shutil.copy(f"{d.dir}/kept", path)
    with open(path, "r+b") as f:
        f.seek(4096)
        f.write(b"\x5a" * 8192)


def main():
    with temporary() as tmp:
        with open(f"{tmp}/job.yaml", "w", encoding="ascii") as f:
            f.write(JOB)
        os.makedirs(f"{tmp}/results/models")
        shutil.copy(f"{tmp}/job.yaml", f"{tmp}/results/models/own.safetensors")  # no sign of an earlier daemon
        d = Daemon(tmp).start()
        code, job, err = d.submit(file=f"{tmp}/job.yaml")
        assert code == 0, err
        assert d.stop() == 0 and not os.path.exists(f"{tmp}/jobs.sqlite-wal")
        lose(d, lambda path: None, "is missing")
        lose(d, lambda path: open(path, "wb").close(), "is empty")
        lose(d, lambda path: corrupt(d, path), "is malformed")
        d.start()
        until(lambda: ready(d) == 200, d.read_log)
        assert d.job(job["job"])["state"] == "succeeded"
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
