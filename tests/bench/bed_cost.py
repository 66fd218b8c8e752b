#!/usr/bin/env python3
"""What a second of a live stream (a bed) costs the daemon: processor time by thread, as a table. brr-load runs streams
of a model in real time against a daemon of its own; what counts is the time of its threads while all streams are open.

usage: bed_cost.py [--model ward] [--beds 100,200,500] [--seconds 40] [--rounds 3] [--settle 15] [--ended 0] [--nice 0]
                   [--no-resume] [--perf] [--output FILE]

A fresh daemon for each figure; medians of --rounds. --no-resume: streams without snapshots. --ended N lets N short
streams end first, which the daemon then remembers. --perf adds the functions that take most. Beside other work streams
wait, which shares wake-ups between them and makes them cheaper: --nice N (as root) gives daemon and load that niceness;
others_cpu says how much other work there was, in processors."""
import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("BRR_SOURCE_DIR", os.path.abspath(f"{os.path.dirname(os.path.abspath(__file__))}/../.."))
os.environ.setdefault("BRR_BUILD_DIR", f"{os.environ['BRR_SOURCE_DIR']}/build")
os.environ.setdefault("BRR_BIN", f"{os.environ['BRR_BUILD_DIR']}/bin")
sys.path.insert(0, f"{os.environ['BRR_SOURCE_DIR']}/tests/integration")
from daemon import BIN, SOURCE, Daemon, temporary, until  # noqa: E402
from page_load import busy, tree  # noqa: E402

GIVEN = ("ack_p50_ms", "result_lag_p50_ms", "result_lag_p99_ms", "samples_lost", "server_rss_bytes")


def threads(pid):
    """Processor seconds of a process by the names of its threads."""
    found = collections.Counter()
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as f:
                name = f.read().strip()
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as f:
                found["loop" if int(task) == pid else name] += int(f.read().split()[0]) / 1e9
        except OSError:
            pass  # the thread has ended
    return found


def load(d, args, beds, seconds, *more):
    command = [f"{BIN}/brr-load", "--model", args.model, "--sessions", str(beds), "--seconds", str(seconds), "--json"]
    return subprocess.Popen([*command, *more], env=d.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def perf(pid, seconds):
    data = f"/tmp/bed_cost.{pid}.perf"
    command = ["perf", "record", "-q", "-F", "499", "-p", str(pid), "-o", data, "--", "sleep", str(seconds)]
    subprocess.run(command, check=False, capture_output=True)
    for keys in ("comm", "comm,sym"):
        command = ["perf", "report", "-i", data, "--sort", keys, "--stdio"]
        out = subprocess.run(command, check=False, capture_output=True, text=True).stdout
        print("\n".join(line for line in out.splitlines() if line.strip() and line[0] != "#")[:6000], flush=True)
    print(f"kept: {data}", flush=True)


def served(args):
    """The daemon's settings for the model: a file of the source tree, or one that it has without."""
    model = f"{SOURCE}/models/{args.model}.safetensors"
    return [f"serve=[{{name: {args.model}, checkpoint: {model}}}]"] if os.path.exists(model) else []


def during(args, d, beds, ramp):
    """(daemon's seconds by thread, brr-load's, others' processors, brr-load's report, seconds)"""
    more = ["--ramp-s", str(ramp), *(["--no-resume"] if args.no_resume else [])]
    run = load(d, args, beds, args.settle + args.seconds + ramp + 5, *more)
    time.sleep(ramp + args.settle)
    begun, pids = time.monotonic(), (d.process.pid, run.pid)
    before, all_before, ours_before = [threads(pid) for pid in pids], busy(), tree([os.getpid()])
    if args.perf:
        perf(pids[0], args.seconds)
    else:
        time.sleep(args.seconds)
    after, seconds = [threads(pid) for pid in pids], time.monotonic() - begun
    others = (busy() - all_before - tree([os.getpid()]) + ours_before) / seconds
    out, err = run.communicate()
    assert run.returncode == 0, f"{err}{d.read_log()[-2000:]}"
    return after[0] - before[0], sum((after[1] - before[1]).values()), others, json.loads(out.splitlines()[-1]), seconds


def measure(args, beds):
    with temporary() as tmp:
        d = Daemon(tmp, [f"limits.sessions={max(2 * beds, 1024) + args.ended}", *served(args)]).start()
        try:
            until(lambda: 'component="models"} 1' in d.ctl("metrics", "brrd_ready")[1], "the model was not loaded")
            if args.ended:
                first = load(d, args, args.ended, 2, "--ramp-s", "20", "--connections", "8")
                _, err = first.communicate()
                assert first.returncode == 0, err
            used, client, others, got, seconds = during(args, d, beds, max(2, beds // 20))
        finally:
            d.stop()
    ms = {name: round(1000 * t / seconds / beds, 3) for name, t in used.most_common()}
    return {"beds": beds, "ended": args.ended, "ms": round(sum(ms.values()), 3), "threads": ms,
            "client_ms": round(1000 * client / seconds / beds, 3), "others_cpu": round(others, 2),
            **{key: got[key] for key in GIVEN}}


def median(rows):
    """One row for rows of the same number of beds."""
    of = lambda value: round(statistics.median(map(value, rows)), 3)  # noqa: E731
    names = sorted({name for r in rows for name in r["threads"]})
    numbers = {key: of(lambda r: r[key]) for key in rows[0] if key not in ("beds", "threads")}  # noqa: B023
    ms = {name: of(lambda r: r["threads"].get(name, 0)) for name in names}  # noqa: B023
    return {"beds": rows[0]["beds"], "rounds": len(rows), **numbers, "threads": ms}


def table(rows):
    names = sorted(rows[-1]["threads"], key=lambda name: -rows[-1]["threads"][name])
    print("| beds | all | " + " | ".join(names) + " | brr-load | lag p99 |\n" + "|---" * (len(names) + 4) + "|")
    for r in rows:
        values = [r["ms"], *[r["threads"].get(name, 0) for name in names], r["client_ms"]]
        print(f"| {r['beds']} | " + " | ".join(f"{v:.2f}" for v in values) + f" | {r['result_lag_p99_ms']:.0f} ms |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("seconds", 40), ("rounds", 3), ("ended", 0), ("settle", 15), ("nice", 0)):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--model", default="ward")
    p.add_argument("--beds", default="100,200,500")
    p.add_argument("--perf", action="store_true")
    p.add_argument("--no-resume", action="store_true")
    p.add_argument("--output")
    args = p.parse_args()
    if args.nice:
        os.setpriority(os.PRIO_PROCESS, 0, args.nice)
    rows = []
    for _ in range(args.rounds):
        for beds in map(int, args.beds.split(",")):
            rows.append(measure(args, beds))
            print(json.dumps(rows[-1]), flush=True)
    medians = [median([r for r in rows if r["beds"] == beds]) for beds in sorted({r["beds"] for r in rows})]
    table(medians)
    if args.output:
        with open(args.output, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(r) + "\n" for r in medians)


if __name__ == "__main__":
    main()
