#!/usr/bin/env python3
"""What open pages cost live streams. brr-load runs many streams, without browsers and with some that show /streams, alternating (a b b a …), and
the last lines compare the lag of results. One command for a quiet machine, which takes 42 minutes: page_load.py

usage: page_load.py [--streams 200] [--seconds 600] [--rounds 2] [--browsers 3] [--readers | --eeg | --idle] [--model line_length] [--nice 0] [--fifo 0] [--output FILE]

Each run prints one JSON line. others_cpu in it is what the rest of the machine computed meanwhile, in processors: above 0.05 the lag may be
theirs. --readers has clients that follow the events of /streams and draw nothing, which is what browsers on machines of their own cost this one; --eeg has clients
that ask for the EEG of one stream four times a second, as the page of a stream does; --idle
lets browsers compute only where nothing else would (SCHED_IDLE). --nice N (as root) gives daemon and load that niceness, -10 as the unit of the system does,
and browsers the normal one. --fifo N (as root) gives daemon and load the real-time priority N, and browsers the normal one."""
import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time

os.environ.setdefault("BRR_SOURCE_DIR", os.path.abspath(f"{os.path.dirname(os.path.abspath(__file__))}/../.."))
os.environ.setdefault("BRR_BUILD_DIR", f"{os.environ['BRR_SOURCE_DIR']}/build")
os.environ.setdefault("BRR_BIN", f"{os.environ['BRR_BUILD_DIR']}/bin")
sys.path.insert(0, f"{os.environ['BRR_SOURCE_DIR']}/tests/integration")
from chromium import Chromium  # noqa: E402
from daemon import BIN, Daemon, temporary  # noqa: E402

QUIET, ALLOWED = 0.05, 1.10
TICKS = os.sysconf("SC_CLK_TCK")


def fields(path):
    with open(path, encoding="ascii", errors="replace") as f:
        return f.read()


def busy():
    """Processor seconds of the whole machine: user, nice, system, interrupts."""
    v = [int(x) for x in fields("/proc/stat").splitlines()[0].split()[1:]]
    return (v[0] + v[1] + v[2] + v[5] + v[6]) / TICKS


def tree(roots):
    """Processor seconds of these processes, of all that they started, and of those of them that ended."""
    stats = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            stats[int(name)] = fields(f"/proc/{name}/stat").rpartition(")")[2].split()
        except OSError:
            pass  # it has ended
    found, news = set(), set(roots)
    while news:
        found |= news
        news = {pid for pid, s in stats.items() if int(s[1]) in found} - found
    return sum(sum(map(int, stats[pid][11:15])) for pid in found if pid in stats) / TICKS


class Reader:
    """What a browser asks of the daemon, without the browser: the page, then its events."""

    def __init__(self, d):
        subprocess.run(["curl", "-sf", "-o", "/dev/null", f"http://127.0.0.1:{d.port}/streams"], check=True)
        self.process = subprocess.Popen(["curl", "-sfN", "-o", "/dev/null", f"http://127.0.0.1:{d.port}/events?page=/streams"])

    def close(self):
        assert self.process.poll() is None, "the events ended early"
        self.process.terminate()
        self.process.wait()


class Viewer:
    """What the page of a stream asks for: its newest samples, again and again."""

    def __init__(self, d, number):
        self.d, self.number, self.over, self.answers, self.samples = d, number, threading.Event(), 0, 0
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        c, path, at = http.client.HTTPConnection("127.0.0.1", self.d.port), None, 0
        while not self.over.wait(0.25):
            if not path:
                c.request("GET", "/streams", headers={"Accept": "text/html"})
                ids = re.findall(r'id="s-(\w+)" data-mood="(?!ended|standby|absent)', c.getresponse().read().decode())
                path = ids and f"/streams/{ids[self.number % len(ids)]}/eeg"
                continue
            c.request("GET", f"{path}?from={at}&n=3840")
            answer = c.getresponse()
            body = answer.read()
            if answer.status == 200:
                head = json.loads(body.partition(b"\n")[0])
                self.answers, self.samples, at = self.answers + 1, self.samples + head["n"], head["from"] + head["n"]
        c.close()

    def close(self):
        self.over.set()
        self.thread.join()
        assert self.samples > 256, "no EEG came"


def open_page(d, args, number):
    if args.eeg:
        return Viewer(d, number)
    if args.readers:
        return Reader(d)
    browser = Chromium(prefix=("chrt", "-i", "0") if args.idle else ("chrt", "-o", "0") if args.fifo else ("nice", "-n", str(-args.nice)) if args.nice else ())
    browser.size(1920, 1080)
    browser.open(f"http://127.0.0.1:{d.port}/streams")
    return browser


def run(d, args, n):
    """One load with n pages open."""
    browsers = [open_page(d, args, i) for i in range(n)]
    command = [f"{BIN}/brr-load", "--model", args.model, "--sessions", str(args.streams), "--seconds", str(args.seconds), "--ramp-s", "5",
               "--connections", "8", "--json"]
    begun, all_before, ours_before = time.time(), busy(), tree([os.getpid()])
    r = subprocess.run(command, env=d.env, capture_output=True, text=True, check=False)
    seconds, ours, total = time.time() - begun, tree([os.getpid()]) - ours_before, busy() - all_before
    for b in browsers:
        b.close()
    if r.returncode:
        sys.exit(f"brr-load failed with {r.returncode}: {r.stderr[-2000:]}{d.read_log()[-2000:]}")
    return {"browsers": n, **json.loads(r.stdout.splitlines()[-1]), "seconds": round(seconds, 1), "others_cpu": round(max(0, total - ours) / seconds, 3),
            "loadavg": os.getloadavg()[0]}


def compare(runs, file):
    """False when open pages cost more than a tenth of the lag."""
    kinds = [[r for r in runs if bool(r["browsers"]) is with_pages] for with_pages in (False, True)]
    print("| browsers | runs | p50 lag of results | p99 | p99 of alarms | processor time of the daemon |\n|---|---|---|---|---|---|", file=file)
    for rows in kinds:
        m = {key: statistics.median(r[key] for r in rows) for key in ("result_lag_p50_ms", "result_lag_p99_ms", "alarm_lag_p99_ms", "server_cpu_s")}
        print(f"| {rows[0]['browsers']} | {len(rows)} | {m['result_lag_p50_ms']:.2f} ms | {m['result_lag_p99_ms']:.2f} ms | {m['alarm_lag_p99_ms']:.2f} ms "
              f"| {m['server_cpu_s']:.1f} s |", file=file)
    without, with_pages = (statistics.median(r["result_lag_p99_ms"] for r in rows) for rows in kinds)
    loud = [r["others_cpu"] for r in runs if r["others_cpu"] > QUIET]
    print(f"p99 with pages / without: {with_pages / without:.3f} (allowed: {ALLOWED:.2f})"
          + (f"; the machine was not quiet: other work took up to {max(loud):.2f} processors" if loud else "; the machine was quiet"), file=file, flush=True)
    return with_pages <= ALLOWED * without


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("streams", 200), ("seconds", 600), ("rounds", 2), ("browsers", 3), ("nice", 0), ("fifo", 0)):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--model", default="line_length")
    p.add_argument("--readers", action="store_true")
    p.add_argument("--eeg", action="store_true")
    p.add_argument("--idle", action="store_true")
    p.add_argument("--output")
    args = p.parse_args()
    if args.browsers < 1 or args.rounds < 1:
        p.error("--browsers and --rounds must be at least 1")
    if args.nice:
        os.setpriority(os.PRIO_PROCESS, 0, args.nice)
    if args.fifo:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(args.fifo))
    order = [n for i in range(args.rounds) for n in ((0, args.browsers) if i % 2 == 0 else (args.browsers, 0))]
    print(f"{len(order)} runs of {args.seconds} s: about {len(order) * (args.seconds + 20) // 60 + 1} minutes", file=sys.stderr, flush=True)
    runs = []
    with temporary() as tmp:
        d = Daemon(tmp).start()
        try:
            for n in order:
                runs.append(run(d, args, n))
                print(json.dumps(runs[-1]), flush=True)
        finally:
            d.stop()
    good = compare(runs, sys.stdout)
    if args.output:
        with open(args.output, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(r) + "\n" for r in runs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
