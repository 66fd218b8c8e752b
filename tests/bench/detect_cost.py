#!/usr/bin/env python3
"""What `detect` and `evaluate` of a long recording cost through the daemon: seconds on the clock, and processor seconds
of the daemon and its job processes. edfgen makes the hours; they are one EDF file (--files one) or stay one file each
(--files hours). Daemon and cache are fresh each time.

usage: detect_cost.py [--hours 24] [--models ward,line_length] [--workers 1,4] [--files one] [--rounds 3] [--evaluate]
                      [--style rich] [--nice 0] [--keep DIR | --source DIR] [--perf FILE] [--output FILE]

--workers: data.loader_workers. --evaluate evaluates the same recordings beside. --keep leaves the recordings in a folder,
and --source takes them from there. Medians of --rounds; others_cpu says how much other work there was, in processors.
--perf records where the first job's time goes (perf record -g)."""
import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

os.environ.setdefault("BRR_SOURCE_DIR", os.path.abspath(f"{os.path.dirname(os.path.abspath(__file__))}/../.."))
os.environ.setdefault("BRR_BUILD_DIR", f"{os.environ['BRR_SOURCE_DIR']}/build")
os.environ.setdefault("BRR_BIN", f"{os.environ['BRR_BUILD_DIR']}/bin")
sys.path.insert(0, f"{os.environ['BRR_SOURCE_DIR']}/tests/integration")
from daemon import BIN, Daemon, temporary  # noqa: E402
from page_load import busy, tree  # noqa: E402

MEASURED = ("seconds", "processor_s", "others_cpu")


def header(path):
    """(fixed part, fields of each signal, samples of each signal in a record, bytes of the header)"""
    widths = (16, 80, 8, 8, 8, 8, 8, 80, 8, 32)
    with open(path, "rb") as f:
        fixed = f.read(256)
        n = int(fixed[252:256])
        fields = [[f.read(w) for _ in range(n)] for w in widths]
    return fixed, fields, [int(v) for v in fields[8]], 256 * (n + 1)


def records(path):
    samples, start = header(path)[2:]
    with open(path, "rb") as f:
        f.seek(start)
        yield from iter(lambda: f.read(2 * sum(samples)), b"")


def shifted(path, hour):
    """The lines of an events file, of seconds of the whole recording."""
    with open(path, encoding="utf-8") as f:
        head, *rows = f.read().splitlines()
    for row in rows:
        onset, rest = row.split("\t", 1)
        yield f"{float(onset) + 3600 * hour:.4f}\t{rest}"
    if not hour:
        yield head


def join(paths, out):
    """The hours as one plain EDF file, without their annotations, which are the last signal; events of all beside it."""
    fixed, fields, samples, _ = header(paths[0])
    n = sum(b"Annotations" not in label for label in fields[0])
    kept, count, size = 2 * sum(samples[:n]), 0, 256 * (n + 1)
    os.makedirs(os.path.dirname(out), exist_ok=True)
    with open(out, "wb") as f:
        f.seek(size)
        for path in paths:
            for record in records(path):
                f.write(record[:kept])
                count += 1
        f.seek(0)
        f.write(fixed[:184] + f"{size:<8}{'':44}{count:<8}".encode() + fixed[244:252] + f"{n:<4}".encode())
        f.writelines(value for values in fields for value in values[:n])
    lines = [line for hour, path in enumerate(paths) for line in shifted(path.replace("_eeg.edf", "_events.tsv"), hour)]
    with open(out.replace("_eeg.edf", "_events.tsv"), "w", encoding="utf-8") as f:
        f.writelines(f"{line}\n" for line in sorted(lines, key=lambda line: not line.startswith("onset")))


def make(args, folder):
    made = f"{folder}/hours"
    command = [f"{BIN}/edfgen", "--out", made, "--patients", "1", "--hours-per-patient", str(args.hours), "--seed", "1",
               "--seizures-per-patient", str(max(1, args.hours // 4)), "--style", args.style]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    if args.files == "hours":
        return made
    join(sorted(glob.glob(f"{made}/*/*.edf")), f"{folder}/one/sub-01/sub-01_run-01_eeg.edf")
    shutil.rmtree(made)
    return f"{folder}/one"


def measure(args, d, source, case):
    kind, model, workers = case
    name, job = {"detect": "model", "evaluate": "checkpoint"}[kind], f"{d.dir}/job.yaml"
    with open(job, "w", encoding="utf-8") as f:
        f.write(f"kind: {kind}\ndata: {{ source: 'file://{source}', loader_workers: {workers} }}\n{kind}: {{ {name}: {model} }}\n")
    before, all_before, own_before, begun = tree([d.process.pid]), busy(), tree([os.getpid()]), time.monotonic()
    code, end, err = d.submit(file=job)
    seconds = time.monotonic() - begun
    assert code == 0 and end["state"] == "succeeded", f"{end}{err}{d.read_log()[-2000:]}"
    used, others = tree([d.process.pid]) - before, busy() - all_before - tree([os.getpid()]) + own_before
    values = dict(zip(MEASURED, (seconds, used, others / seconds)))
    return {"kind": kind, "model": model, "workers": workers, "files": args.files, "hours": args.hours,
            **{key: round(value, 2) for key, value in values.items()}}


def fresh(args, source, case):
    """With a daemon and a cache of its own."""
    with temporary() as tmp:
        d = Daemon(tmp, [f"paths.data={source}"]).start()
        perf = None
        try:
            if args.perf:
                perf = subprocess.Popen(["perf", "record", "-q", "-g", "-F", "499", "-a", "-o", args.perf])
            return measure(args, d, source, case)
        finally:
            if perf:
                perf.terminate()
                perf.wait()
                args.perf = None
            d.stop()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("hours", 24), ("rounds", 3), ("nice", 0)):
        p.add_argument(f"--{name}", type=int, default=value)
    for name, value in (("models", "ward,line_length"), ("workers", "1,4"), ("style", "rich")):
        p.add_argument(f"--{name}", default=value)
    p.add_argument("--files", choices=("one", "hours"), default="one")
    p.add_argument("--evaluate", action="store_true")
    for name in ("source", "keep", "perf", "output"):
        p.add_argument(f"--{name}")
    args = p.parse_args()
    if args.nice:
        os.setpriority(os.PRIO_PROCESS, 0, args.nice)
    kinds = ("detect", "evaluate") if args.evaluate else ("detect",)
    rows = {(kind, model, int(workers)): [] for model in args.models.split(",") for workers in args.workers.split(",")
            for kind in kinds}
    with temporary() as tmp:
        source = args.source or make(args, args.keep or tmp)
        for _ in range(args.rounds):
            for case, of in rows.items():
                of.append(fresh(args, source, case))
                print(json.dumps(of[-1]), flush=True)
    middle = [{**of[0], "rounds": len(of), **{key: round(statistics.median(r[key] for r in of), 2) for key in MEASURED}}
              for of in rows.values()]
    for r in middle:
        print("{kind:<9} {model:<12} {workers} readers: {seconds:6.2f} s, {processor_s:6.2f} processor seconds".format(**r))
    if args.output:
        with open(args.output, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(r) + "\n" for r in middle)


if __name__ == "__main__":
    main()
