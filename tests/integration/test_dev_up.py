#!/usr/bin/env python3
"""./dev up and down of two clones: each has a daemon and a directory of its own, and down says what it deletes. --help of a verb starts nothing."""
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


def check_help(tmp):
    """--help of each verb says what it does; nothing is built, installed or released. What a verb does not know is an error."""
    clone(f"{tmp}/helped")
    run = lambda *words: subprocess.run([f"{tmp}/helped/dev", *words], env={**os.environ, "BRR_BUILD_DIR": f"{tmp}/none"}, capture_output=True, text=True,
                                        stdin=subprocess.DEVNULL)
    before = sorted(os.listdir(f"{tmp}/helped"))
    verbs = [line.split()[0] for line in run("help").stdout.splitlines() if line.startswith("  ") and line[2] != " "]
    assert {"release", "package", "lint", "deps", "day", "gpu-bundle"} <= set(verbs), verbs
    for words in [(verb, "--help") for verb in verbs] + [("release", "-h"), ("test", "-L", "quick", "--help")]:
        r = run(*words)
        assert r.returncode == 0 and r.stdout.startswith("usage: ") and f"\n  {words[0]} " in r.stdout and not r.stderr, (words, r)
    assert "--without image" in run("release", "--help").stdout
    for words, said in ((("release", "--now"), "release takes --without image, not '--now'"), (("lint", "all"), "lint takes no arguments, not 'all'")):
        r = run(*words)
        assert r.returncode == 1 and said in r.stderr, r
    assert sorted(os.listdir(f"{tmp}/helped")) == before and not os.path.exists(f"{tmp}/none")


def answers(endpoint):
    return subprocess.run([f"{BIN}/brrctl", "jobs"], env={**os.environ, "BRR_ENDPOINT": endpoint}, capture_output=True).returncode == 0


def main():
    with temporary() as tmp:
        check_help(tmp)
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
