#!/usr/bin/env python3
"""./dev up and down of two clones: each has a daemon and a directory of its own, and down says what it deletes."""
import os
import shlex
import shutil
import subprocess
import sys

from daemon import BIN, SOURCE, temporary


def clone(path):
    """As much of one as `up` and `down` need, with the programs of this build."""
    os.makedirs(f"{path}/configs")
    shutil.copy(f"{SOURCE}/dev", path)
    shutil.copy(f"{SOURCE}/configs/demo.yaml", f"{path}/configs")


def dev(path, verb):
    env = {k: v for k, v in os.environ.items() if k not in ("BRR_UP_DIR", "BRR_UP_BUILD")}
    r = subprocess.run([f"{path}/dev", verb], env={**env, "BRR_BUILD_DIR": os.path.dirname(BIN)}, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert r.returncode == 0, r
    return dict(shlex.split(line)[0].split("=", 1) for line in r.stdout.splitlines()), r.stderr


def answers(endpoint):
    return subprocess.run([f"{BIN}/brrctl", "jobs"], env={**os.environ, "BRR_ENDPOINT": endpoint}, capture_output=True).returncode == 0


def main():
    with temporary() as tmp:
        one, other = f"{tmp}/one", f"{tmp}/other"
        for path in (one, other):
            clone(path)
        try:
            first, second = dev(one, "up")[0], dev(other, "up")[0]
            assert set(first) == {"BRR_ENDPOINT", "METRICS_URL"} and first["BRR_ENDPOINT"] != second["BRR_ENDPOINT"], (first, second)
            assert len(first["BRR_ENDPOINT"]) <= 100 and answers(first["BRR_ENDPOINT"]) and answers(second["BRR_ENDPOINT"])
            said = dev(other, "down")[1]
            folder = os.path.dirname(second["BRR_ENDPOINT"].removeprefix("unix:"))
            assert f"deleting {folder}: " in said and " in all" in said and not os.path.exists(folder), said
            assert answers(first["BRR_ENDPOINT"]) and not answers(second["BRR_ENDPOINT"])
            assert dev(other, "down") == ({}, "")  # nothing is left to do
        finally:
            for path in (one, other):
                dev(path, "down")
    return 0


if __name__ == "__main__":
    sys.exit(main())
