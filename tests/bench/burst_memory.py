#!/usr/bin/env python3
"""What stays resident after a burst of hostile calls: large injections, job files and lists from many connections at
once, as much as docs/protocol.md lets callers send. The daemon gives back what it has freed a minute after a burst.

usage: burst_memory.py [--mib 900] [--connections 150] [--wait-s 90] [--allowed-mib 96]

Two bursts. Exit 1 where more than --allowed-mib stay after the first, or the second adds more than a sixth of that."""
import argparse
import os
import re
import sys
import threading
import time

os.environ.setdefault("BRR_SOURCE_DIR", os.path.abspath(f"{os.path.dirname(os.path.abspath(__file__))}/../.."))
os.environ.setdefault("BRR_BUILD_DIR", f"{os.environ['BRR_SOURCE_DIR']}/build")
os.environ.setdefault("BRR_BIN", f"{os.environ['BRR_BUILD_DIR']}/bin")
sys.path[:0] = [f"{os.environ['BRR_SOURCE_DIR']}/{folder}" for folder in ("tests/integration", "client/python")]
from brr import client  # noqa: E402
from daemon import Daemon, temporary  # noqa: E402

CONTROL, DATA = 250 << 10, 4 << 20  # bytes of a message: almost the limits


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


INJECTION = field(1, b"nobody") + field(4, b"\0" * (DATA - 1000))
JOB = field(1, field(1, b"kind: train\n" + b"# a long job file\n" * (CONTROL // 18)))
SMALL = [(f"/brr.v1.{method}", b"") for method in ("Jobs/List", "Models/List", "Alarms/List", "Metrics/Get")]
CALLS = (("/brr.v1.Burst/Inject", INJECTION), ("/brr.v1.Jobs/Submit", JOB), ("/brr.v1.Jobs/Validate", JOB), *SMALL)


def caller(d, left, refused):
    """Calls until all bytes are sent; each large message is followed by the small ones."""
    with client.connect(d.env["BRR_ENDPOINT"]) as c:
        while left[0] > 0:
            for method, request in CALLS:
                left[0] -= len(request)
                try:
                    c.call(method, request, timeout_s=600)
                except client.Error as e:
                    refused[method] = str(e)[:100]


def memory(d, name="VmRSS"):
    with open(f"/proc/{d.process.pid}/status", encoding="ascii") as f:
        return int(re.search(rf"{name}:\s+(\d+)", f.read())[1]) / 1024


def burst(d, args):
    left, refused = [args.mib << 20], {}
    threads = [threading.Thread(target=caller, args=(d, left, refused)) for _ in range(args.connections)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return refused


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("mib", 900), ("connections", 150), ("wait-s", 90), ("allowed-mib", 96)):
        p.add_argument(f"--{name}", type=int, default=value)
    args = p.parse_args()
    with temporary() as tmp:
        d = Daemon(tmp).start()
        try:
            d.ctl("version")
            before = memory(d)
            print(f"before: {before:.0f} MiB", flush=True)
            after = []
            for _ in range(2):
                refused = burst(d, args)
                at_once = memory(d)
                time.sleep(args.wait_s)
                after.append(memory(d))
                most = memory(d, "VmHWM")
                print(f"burst: {most:.0f} MiB at most, {at_once:.0f} at its end, {after[-1]:.0f} a while later", flush=True)
            print("; ".join(f"{method}: {why}" for method, why in sorted(refused.items())))
        finally:
            d.stop()
    kept, more = after[0] - before, after[1] - after[0]
    print(f"{kept:+.0f} MiB stay, the second burst adds {more:+.0f} MiB")
    return 0 if kept <= args.allowed_mib and more <= args.allowed_mib / 6 else 1


if __name__ == "__main__":
    sys.exit(main())
