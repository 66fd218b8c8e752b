#!/usr/bin/env python3
"""How long the daemon's loop is held by thousands of open streams: the processor time of its turns
(brrd_loop_turn_seconds), part by part. brr-load opens beds that send a little; then come pages with their events, lists
and scrapes, silent beds that come back, and the end of all streams.

usage: loop_turns.py [--streams 8000] [--seconds 60] [--connections 40] [--allowed-ms 20] [--perf FOLDER]

Takes about --seconds for each part, and 4 GB of memory for 8,000 streams. The last column counts turns that took longer
than --allowed-ms; the exit status is 1 if there are any. --perf records the loop's thread in each part."""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

os.environ.setdefault("BRR_SOURCE_DIR", os.path.abspath(f"{os.path.dirname(os.path.abspath(__file__))}/../.."))
os.environ.setdefault("BRR_BUILD_DIR", f"{os.environ['BRR_SOURCE_DIR']}/build")
os.environ.setdefault("BRR_BIN", f"{os.environ['BRR_BUILD_DIR']}/bin")
sys.path.insert(0, f"{os.environ['BRR_SOURCE_DIR']}/tests/integration")
from daemon import BIN, Daemon, temporary, until  # noqa: E402

WARD = ["limits.sessions=10000", "limits.calls=12000", "viewer.memory=64MiB", "limits.lag=1h", "limits.session_idle=1h",
        "alarms.hooks=[{name: log, command: [/bin/true]}]"]


def scrape(d):
    with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/metrics", timeout=600) as r:
        return r.read().decode()


def number(text, line):
    found = re.search("^" + re.escape(line) + r" (\S+)$", text, re.M)
    return float(found[1]) if found else 0


def turns(text):
    """How many turns took at most so long, by its milliseconds, and the processor seconds of all."""
    rows = re.findall(r'^brrd_loop_turn_seconds_bucket\{le="([^"]+)"\} (\d+)$', text, re.M)
    return {float(le) * 1000: int(n) for le, n in rows}, number(text, "brrd_loop_turn_seconds_sum")


class Part:
    """Processor time of the loop's turns while the body of `with` runs."""

    def __init__(self, d, name, args):
        self.d, self.name, self.args, self.perf = d, name, args, None

    def __enter__(self):
        self.before = turns(scrape(self.d))
        if self.args.perf:
            out = f"{self.args.perf}/{self.name.replace(' ', '-')}.perf"
            command = ["perf", "record", "-q", "-F", "999", "-g", "-t", str(self.d.process.pid), "-o", out]
            self.perf = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        if self.perf:
            self.perf.terminate()
            self.perf.wait()
        after = turns(scrape(self.d))
        n = {le: after[0][le] - self.before[0].get(le, 0) for le in after[0]}
        all_turns = n[float("inf")]
        longest = min(le for le in n if n[le] == all_turns)
        over = all_turns - n[self.args.allowed_ms]
        mean = 1000 * (after[1] - self.before[1]) / max(1, all_turns)
        print(f"| {self.name} | {all_turns} | {mean:.2f} ms | ≤ {longest:g} ms | {over} |", flush=True)
        self.args.over += over


def load(d, args):
    command = ["nice", "-n", "10", f"{BIN}/brr-load", "--model", "line_length", "--sessions", str(args.streams),
               "--seconds", "90", "--chunk-ms", "250", "--every-s", "20", "--ramp-s", "60",
               "--jitter-ms", "20000", "--connections", str(args.connections), "--json"]
    return subprocess.Popen(command, env=d.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def opened(d):
    return number(scrape(d), "brrd_stream_sessions")


def again(args, body):
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        body()
        time.sleep(1)


def look(d, args):
    run = load(d, args)
    with Part(d, "streams open", args):
        until(lambda: run.poll() is not None or opened(d) == args.streams, lambda: f"{opened(d)} opened", pause_s=1)
        assert run.poll() is None, run.communicate()
    with Part(d, "open", args):
        time.sleep(args.seconds)
    page = f"http://127.0.0.1:{d.port}"
    pages = [subprocess.Popen(["curl", "-sN", "-o", "/dev/null", f"{page}/events?page={p}"]) for p in ("/", "/streams")]
    with Part(d, "pages", args):
        again(args, lambda: urllib.request.urlopen(f"{page}/streams", timeout=600).read())
    with Part(d, "lists and scrapes", args):
        again(args, lambda: (d.ctl("sessions"), d.ctl("alarms"), scrape(d)))
    with Part(d, "silent and back", args):
        run.send_signal(signal.SIGSTOP)
        time.sleep(args.seconds)
        run.send_signal(signal.SIGCONT)
        time.sleep(args.seconds)
    with Part(d, "streams end", args):
        run.terminate()
        run.wait()
        until(lambda: number(scrape(d), "brrd_stream_sessions_parked") == opened(d), pause_s=1)
    for reader in pages:
        reader.terminate()
        reader.wait()
    with open(f"/proc/{d.process.pid}/status", encoding="ascii") as f:
        print(re.search(r"VmHWM:\s+(.*)", f.read())[0])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("streams", 8000), ("seconds", 60), ("connections", 40), ("allowed-ms", 20)):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--perf")
    args = p.parse_args()
    args.over = 0
    with temporary() as tmp:
        d = Daemon(tmp, WARD).start()
        try:
            print("| part | turns | mean | longest | above |\n|---|---|---|---|---|", flush=True)
            look(d, args)
        finally:
            d.stop()
    return 1 if args.over else 0


if __name__ == "__main__":
    sys.exit(main())
