#!/usr/bin/env python3
"""Hundreds of recordings laid out like TUSZ, sparse: the manifest finds every hour and seizure, the second opening gives the same from its
index without opening a recording, memory stays small, and windows come out of the cache in order. Times are measured by tests/bench/scale.py."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from sparse_corpus import write_corpus

DRIVER = pathlib.Path(os.environ.get("BRR_BUILD_DIR", "build")) / "tests" / "data_scale"
RECORDINGS, WORKERS, PEAK_MB = 800, 2, 100


def run(*args):
    done = subprocess.run([str(DRIVER), *map(str, args)], stdout=subprocess.PIPE, check=False)
    assert done.returncode == 0, args
    return json.loads(done.stdout)


def main():
    with tempfile.TemporaryDirectory() as tmp:
        hours, seizures = write_corpus(f"{tmp}/corpus", RECORDINGS)
        first = run("index", f"{tmp}/corpus", f"{tmp}/cache", WORKERS)
        assert first["recordings"] == first["usable"] == first["segments"] == RECORDINGS, first
        assert abs(first["hours"] - hours) < 1e-6 and first["seizures"] == seizures and first["held"] == 0, (first, hours, seizures)
        assert first["partial"] > 0 and first["none"] > first["partial"]
        again = run("index", f"{tmp}/corpus", f"{tmp}/cache", 5)
        same = [k for k in first if k not in ("open_s", "ready_s", "ready_cpu_s", "peak_mb")]
        assert all(first[k] == again[k] for k in same), (first, again)
        assert first["peak_mb"] < PEAK_MB and again["peak_mb"] < PEAK_MB, (first["peak_mb"], again["peak_mb"])
        assert not list(pathlib.Path(f"{tmp}/cache").rglob("*.win")), "an index alone decodes nothing"
        write_corpus(f"{tmp}/small", 22, seed=2, longest_s=300, mean_s=150)
        fed = run("feed", f"{tmp}/small", f"{tmp}/cache", WORKERS, 0.2)
        assert fed["windows"] > 0 and fed["valid"] > 0 and fed["windows_per_s"] > 0, fed
        built = list(pathlib.Path(f"{tmp}/cache").rglob("*.win"))
        assert 0 < len(built) <= 22, built
    print(f"{RECORDINGS} recordings, {hours:.0f} h: {first['ready_s']:.2f} s, then {again['ready_s']:.2f} s; {first['peak_mb']:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
