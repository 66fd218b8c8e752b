#!/usr/bin/env python3
"""How cases of brr-bench fare beside other programs of the machine: with and without in turn, the median and the slowest tenth
of each case, as multiples of its own median without.

usage: neighbours.py [--beside loop,mixed] [--filter TEXT]… [--rounds 3] [--seconds 0.5] [--threads 0] [--nice 0]
                     [--json FILE]

loop: one process at niceness 0 that never waits. mixed: a NumPy program of short products on two threads at niceness 19,
and a shell that starts one program after the other. A figure says little where others_cpu, the processors that programs
of somebody else took without neighbours, is not near 0: where they are root's, --nice -10 puts neighbours and cases before
them. Ends with 1 if a case is above 2.5 times, or its slowest tenth above 4 times, its median without."""
import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(f"{os.path.dirname(os.path.abspath(__file__))}/../..")
BENCH = os.path.join(os.environ.get("BRR_BUILD_DIR", f"{ROOT}/build"), "bin", "brr-bench")
sys.path.insert(0, f"{ROOT}/tests/bench")
from page_load import busy, tree  # noqa: E402

FILTERS = ("detector.step", "detector.train causal", "scan eeg bwd", "ssd eeg bwd")
LOOP = "while True: pass"
PRODUCTS = "import numpy\na = numpy.random.rand(160, 160)\nwhile True: a @ a"
MEDIAN_MOST, SLOW_MOST = 2.5, 4


def program(command, more, **environment):
    """Started with the niceness of this program and `more`; ended by its own id."""
    return subprocess.Popen(["nice", "-n", str(more), *command], env={**os.environ, **environment})


@contextlib.contextmanager
def neighbours(kind):
    started = []
    if kind == "loop":
        started = [program([sys.executable, "-c", LOOP], 0)]
    elif kind == "mixed":
        started = [program(["/usr/bin/python3", "-c", PRODUCTS], 19, OPENBLAS_NUM_THREADS="2", OMP_NUM_THREADS="2"),
                   program(["sh", "-c", "while :; do ls / >/dev/null; sleep 0.01; od -N 200000 /dev/zero >/dev/null; done"], 0)]
    try:
        yield
        assert all(p.poll() is None for p in started), "a neighbour has ended before the cases"
    finally:
        for p in started:
            p.kill()
            p.wait()


def measure(args, kind):
    """{(bench, case): [median_ms, p90_ms]}"""
    rows = {}
    with neighbours(kind), tempfile.NamedTemporaryFile() as file:
        for text in args.filter or FILTERS:
            command = [BENCH, "--filter", text, "--seconds", str(args.seconds), "--threads", str(args.threads), "--json"]
            subprocess.run([*command, file.name], check=True, stdout=subprocess.DEVNULL)
            with open(file.name, encoding="utf-8") as f:
                rows.update({(r["bench"], r["case"]): (r["median_ms"], r["p90_ms"]) for r in json.load(f)["results"]})
    return rows


def alone(args):
    before, own, began = busy(), tree([os.getpid()]), time.monotonic()
    rows = measure(args, None)
    others = busy() - before - tree([os.getpid()]) + own
    return rows, max(0, others) / (time.monotonic() - began)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--beside", default="loop,mixed")
    p.add_argument("--filter", action="append")
    for name, value in (("rounds", 3), ("threads", 0), ("nice", 0)):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--seconds", type=float, default=0.5)
    p.add_argument("--json")
    args = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the neighbours end too
    if args.nice:
        os.setpriority(os.PRIO_PROCESS, 0, args.nice)
    kinds, found, others = args.beside.split(","), {}, []
    for _ in range(args.rounds):
        rows, share = alone(args)
        others.append(share)
        print(f"others_cpu {share:.2f}", flush=True)
        for kind, measured in [("alone", rows), *[(k, measure(args, k)) for k in kinds]]:
            for case, figures in measured.items():
                found.setdefault(case, {}).setdefault(kind, []).append(figures)
    results = []
    for (bench, case), by_kind in found.items():
        own = statistics.median(m for m, _ in by_kind["alone"])
        for kind in kinds:
            row = {"bench": bench, "case": case, "beside": kind, "alone_ms": own}
            row.update(median=statistics.median(m for m, _ in by_kind[kind]) / own,
                       p90=statistics.median(s for _, s in by_kind[kind]) / own,
                       p90_alone=statistics.median(s for _, s in by_kind["alone"]) / own)
            results.append(row)
            slow = row["median"] > MEDIAN_MOST or row["p90"] > SLOW_MOST
            print(f"{bench}, {case}, beside {kind}: alone {own:.3g} ms (p90 {row['p90_alone']:.2f}); "
                  f"median {row['median']:.2f}, p90 {row['p90']:.2f}{' above' if slow else ''}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"rounds": args.rounds, "others_cpu": statistics.median(others), "load": os.getloadavg(), "results": results}, f)
            f.write("\n")
    return int(any(r["median"] > MEDIAN_MOST or r["p90"] > SLOW_MOST for r in results))


if __name__ == "__main__":
    sys.exit(main())
