#!/usr/bin/env python3
"""A corpus of TUSZ's size: how long its index takes to build and to open again, in what memory, and how fast windows reach a training
job from a warm cache. usage: scale.py [--recordings N] [--workers N] [--json FILE]    needs a build with tests (BRR_BUILD_DIR)

7,000 sparse recordings (headers, label files and holes: 1,300 hours, 60 MB of disk) for the index; 40 recordings with samples decoded
into the window cache for the feed. Everything lies in TMPDIR and goes afterwards."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))
from sparse_corpus import write_corpus  # noqa: E402

DRIVER = pathlib.Path(os.environ.get("BRR_BUILD_DIR", ROOT / "build")) / "tests" / "data_scale"


def run(*args):
    return json.loads(subprocess.run([str(DRIVER), *map(str, args)], check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recordings", type=int, default=7000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        write_corpus(f"{tmp}/corpus", args.recordings)
        build = run("index", f"{tmp}/corpus", f"{tmp}/cache", args.workers)
        again = [run("index", f"{tmp}/corpus", f"{tmp}/cache", args.workers) for _ in range(5)]
        again.sort(key=lambda r: r["ready_s"])
        warm = again[len(again) // 2]
        assert warm["hash"] == build["hash"] and warm["usable"] == args.recordings
        print(f"{build['recordings']} recordings, {build['hours']:.0f} h, {build['partial'] + build['full'] + build['none']} windows: index built in "
              f"{build['ready_s']:.2f} s ({build['ready_cpu_s']:.2f} CPU s), {build['peak_mb']:.0f} MB; opened again in {warm['ready_s']:.2f} s "
              f"({warm['ready_cpu_s']:.2f} CPU s), {warm['peak_mb']:.0f} MB")
        write_corpus(f"{tmp}/small", 40, seed=2)
        fed = run("feed", f"{tmp}/small", f"{tmp}/cache", args.workers, 5)
        print(f"{fed['windows_per_s']:.0f} windows/s (60 s, 19 channels) with {args.workers} readers, {fed['windows_per_cpu_s']:.0f} per CPU second; "
              f"{fed['hours']:.1f} h decoded and filtered on one core in {fed['load_s']:.1f} s ({fed['load_cpu_s']:.1f} CPU s) before")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"workers": args.workers, "index": build, "again": warm, "feed": fed}, f)
            f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
