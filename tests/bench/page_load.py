#!/usr/bin/env python3
"""What open pages cost live streams: brr-load with many streams, in turn without and with browsers that show /streams, and the lag of
their results. usage: page_load.py [--streams 200] [--seconds 60] [--rounds 2] [--browsers 3] [--model line_length]
Give the daemon and the load their processors first (as root: chrt -f 10 page_load.py …; browsers run without)."""
import argparse
import json
import os
import subprocess
import sys
import time

os.environ.setdefault("BRR_SOURCE_DIR", os.path.abspath(f"{os.path.dirname(os.path.abspath(__file__))}/../.."))
os.environ.setdefault("BRR_BUILD_DIR", f"{os.environ['BRR_SOURCE_DIR']}/build")
os.environ.setdefault("BRR_BIN", f"{os.environ['BRR_BUILD_DIR']}/bin")
sys.path.insert(0, f"{os.environ['BRR_SOURCE_DIR']}/tests/integration")
from chromium import Chromium  # noqa: E402
from daemon import BIN, Daemon, temporary  # noqa: E402


def load(d, args):
    command = [f"{BIN}/brr-load", "--model", args.model, "--sessions", str(args.streams), "--seconds", str(args.seconds), "--ramp-s", "5",
               "--connections", "8", "--json"]
    r = subprocess.run(command, env=d.env, capture_output=True, text=True, check=True)
    return json.loads(r.stdout.splitlines()[-1])


def main():
    p = argparse.ArgumentParser()
    for name, value in (("streams", 200), ("seconds", 60), ("rounds", 2), ("browsers", 3)):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--model", default="line_length")
    args = p.parse_args()
    with temporary() as tmp:
        d = Daemon(tmp).start()
        try:
            for i in range(2 * args.rounds):
                browsers = [Chromium(prefix=("chrt", "-o", "0")) for _ in range(args.browsers if i % 2 else 0)]
                for b in browsers:
                    b.size(1920, 1080)
                    b.open(f"http://127.0.0.1:{d.port}/streams")
                begun = time.time()
                result = load(d, args)
                print(json.dumps({"browsers": len(browsers), "seconds": round(time.time() - begun, 1), **result}), flush=True)
                for b in browsers:
                    b.close()
        finally:
            d.stop()


if __name__ == "__main__":
    main()
