#!/usr/bin/env python3
"""A daemon at work while faults that are drawn from a seed come over it: kill -9, SIGTERM, also while a job cannot save, full and held volumes, no descriptors, no memory,
fsync that hangs, steps of the clock, a receiver of alarms that fails, floods of a stream, cuts, slow and half-open connections, malformed frames and messages, a failing store, promotions. Streams of
two kinds of client, trainings from a bucket, small jobs, downloads, and a reader of metrics and pages run meanwhile.

Afterwards nothing that was acknowledged may be lost: every stream has the results and alarms of an undisturbed one under the model it
began with; every training has the files of an undisturbed one, bit for bit; acknowledged jobs, cancels and promotions stand; each alarm
of a live stream that the journal has was told to the hook by one delivery, and has an end; memory and descriptors are where they were. Exit status 1 if anything was lost: the directory is then kept, and its path printed with the seed.

    ./dev chaos [--minutes N] [--seed S] [--streams N] [--without FAULT,…] [--told-within S] [--json FILE]

The last lines are a table of the faults, how often each came, was survived, and came before a loss, and the same as JSON."""
import argparse
import faulthandler
import glob
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "integration")]

import numpy  # noqa: E402
import pager  # noqa: E402

from daemon import PATIENCE, make_corpus  # noqa: E402
from faults import FAULTS, draw  # noqa: E402
from fake_s3 import FakeS3  # noqa: E402
from relay import Relay  # noqa: E402
from seed import test_seed  # noqa: E402
from stream_fixture import RATE, trace, train, with_events  # noqa: E402
from supervised import DEVICE_FAULT, Supervised, is_crash  # noqa: E402
from ward import Ward  # noqa: E402

GROWTH = 96 << 20  # bytes that the daemon may have more than before
KEPT_BYTES = 1 << 20  # more for each stream that has ended within limits.resume_ttl
DESCRIPTORS = 16
NEEDS_VOLUMES = ("full results volume", "full cache volume")
EXCUSES = {"no memory", "no descriptors", "full results volume"}  # under which a process may end, or not begin


class Record:
    """What came, what ended the daemon, what was lost."""

    def __init__(self, w):
        self.w, self.came, self.began = w, [], time.monotonic()

    def now(self):
        return time.monotonic() - self.began

    def under(self, at, names):
        return any(e["fault"] in names and e["at"] <= at <= e.get("healed", 1e9) + 2 for e in self.came)

    def notice(self, end):
        at, status = self.now(), end["status"]
        fine = end["asked"] or status == DEVICE_FAULT or self.under(at, EXCUSES)
        print(f"{at:7.1f} s  the daemon ended with status {status} after {end['life_s']:.1f} s{'' if fine else ', which nothing explains'}", flush=True)
        if not fine or (is_crash(status) and not self.under(at, {"no memory"})):
            self.w.lose("the daemon died", f"status {status}")

    def inject(self, kind, lasts, rng_seed):
        entry = {"fault": kind.name, "at": self.now(), "survived": False}
        self.came.append(entry)
        print(f"{entry['at']:7.1f} s  {kind.name}, {lasts:.1f} s", flush=True)
        try:
            with kind.act(self.w, random.Random(rng_seed)):
                time.sleep(lasts)
        except (ProcessLookupError, FileNotFoundError):  # the daemon ended under another fault at this moment
            entry["missed"] = True
        entry["healed"] = self.now()
        entry["survived"] = self.w.d.until_it_answers()
        if not entry["survived"]:
            self.w.lose(f"no answer after: {kind.name}")
            self.w.d.signal(signal.SIGKILL)  # so that the rest of the schedule finds a daemon
        self.w.check_served()

    def table(self):
        rows = {k.name: {"times": 0, "survived": 0, "lost": 0} for k in FAULTS}
        for e in self.came:
            rows[e["fault"]]["times"] += 1
            rows[e["fault"]]["survived"] += e["survived"]
        for loss in self.w.losses:
            before = [e for e in self.came if e["at"] <= loss["at"] - self.began]
            if before:
                rows[before[-1]["fault"]]["lost"] += 1
        return rows


def make_models(d, tmp):
    """Two models of other weights, whose thresholds lie in the trace so that there are events and alarms."""
    recordings = sorted(glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True))
    models = {}
    for name, seed in (("a", 42), ("b", 43)):
        trained = train(d, f"{tmp}/eeg", f"training.seed={seed}")
        file = f"{tmp}/{name}.safetensors"
        shutil.copyfile(d.inside(trained), file)
        p = trace(d, recordings[0], file)[1]
        on = float(numpy.quantile(numpy.convolve(p, numpy.ones(2 * RATE) / (2 * RATE), "same"), 0.7))
        models[name] = with_events(file, f"{tmp}/data/{name}.safetensors", on=on, off=0.98 * on, min_onset=8, min_offset=8, min_duration_s=0.5,
                                   merge_gap_s=0.1)
    return recordings, models


def without_electrodes(recording, path):
    """A copy whose channels are all flat for a third of each minute, so that electrodes come off while an alarm is on."""
    with open(recording, "rb") as f:
        data = bytearray(f.read())
    head, records, seconds = int(data[184:192]), int(data[236:244]), float(data[244:252])
    size = (len(data) - head) // records
    for r in range(records):
        if 20 <= r * seconds % 60 < 40:
            data[head + r * size:head + (r + 1) * size] = bytes(size)
    with open(path, "wb") as f:
        f.write(data)
    return path


def check_delays(w, alarms, limit_s):
    """limit_s: of the 99th percentile; None: only reported, as on a machine that has other work."""
    for who in ("hook_after_s", "client_after_s"):
        if limit_s is not None and (alarms[who]["p99"] or 0) > limit_s:
            w.lose("alarms came late", f"{who}: {alarms[who]}")
    if w.slow_stops and not any(w.slow_stops):
        w.lose("streams stood still while a job saved", f"{len(w.slow_stops)} times")


def disturb(w, record, plan):
    threads = []
    for at, kind, lasts, rng_seed in plan:
        time.sleep(max(0.0, at - record.now()))
        threads.append(threading.Thread(target=w.guarded, args=(record.inject, (kind, lasts, rng_seed)), daemon=True, name=kind.name))
        threads[-1].start()
    for t in threads:
        t.join(PATIENCE)


def check_files(w):
    """What the daemon leaves on its volumes."""
    results = w.d.inside(f"{w.d.dir}/results")
    rejected = glob.glob(f"{results}/sessions/rejected/*")
    if rejected:
        w.lose("snapshots were rejected", f"{len(rejected)}: {rejected[:3]}")
    left = [f for f in glob.glob(f"{results}/**/*", recursive=True) if ".tmp" in os.path.basename(f)]
    if left:
        w.lose("temporary files are left", left[:5])
    for suffix in ("", "-wal"):  # a copy, because SQLite does not follow /proc/PID/root
        if os.path.exists(f"{results}/jobs.sqlite{suffix}"):
            shutil.copyfile(f"{results}/jobs.sqlite{suffix}", f"{w.d.dir}/copy.sqlite{suffix}")
    with sqlite3.connect(f"{w.d.dir}/copy.sqlite") as db:
        if (found := db.execute("PRAGMA integrity_check").fetchall()) != [("ok",)]:
            w.lose("the database", found[:5])
    with open(f"{w.d.dir}/brrd.log", encoding="utf-8", errors="replace") as f:
        log = f.read()
    for word in ("AddressSanitizer", "runtime error:", "LeakSanitizer", "Bad file descriptor"):
        if word in log:
            w.lose("the log", log[log.index(word) - 200:][:2000])


def check_size(w, before):
    """Memory and descriptors once nobody is connected."""
    deadline = time.monotonic() + 60
    while (after := w.look()) and after["descriptors"] > before["descriptors"] + DESCRIPTORS and time.monotonic() < deadline:
        time.sleep(1)
    if after["descriptors"] > before["descriptors"] + DESCRIPTORS:
        w.lose("descriptors", f"{before['descriptors']} before, {after['descriptors']} after")
    kept = len(glob.glob(w.d.inside(f"{w.d.dir}/results/sessions/*")))  # ended streams whose clients may still ask
    if after["rss"] > before["rss"] + GROWTH + kept * KEPT_BYTES:
        w.lose("memory", f"{before['rss'] >> 20} MiB before, {after['rss'] >> 20} MiB after")
    return after


def report(o, record, w, alarms, before, after):
    rows = record.table()
    print(f"\n{'fault':26}{'times':>7}{'survived':>10}{'lost':>6}")
    for name, row in rows.items():
        print(f"{name:26}{row['times']:7}{row['survived']:10}{row['lost']:6}")
    facts = {"seed": o.seed, "minutes": o.minutes, "faults": rows, "done": w.counts, "losses": w.losses, "connections_ended": w.refused,
             "alarms": alarms, "slow_stops": w.slow_stops, "exits": w.d.exits, "longest_silence_s": round(max(w.silences, default=0), 1),
             "rss_mib": [x and x["rss"] >> 20 for x in (before, after)], "rss_highest_mib": max((x["rss"] for x in w.looks), default=0) >> 20,
             "descriptors": [x and x["descriptors"] for x in (before, after)]}
    text = json.dumps(facts)
    print(text, flush=True)
    if o.json:
        with open(o.json, "w", encoding="utf-8") as f:
            f.write(text + "\n")


def chaos(o, tmp):
    make_corpus(f"{tmp}/eeg", seed=21, patients=2, hours=0.04)
    with FakeS3() as store:
        store.bucket = "eeg"
        os.environ.update(store.environment())
        receiver = pager.Pager(tmp)
        d = Supervised(tmp, [receiver.setting(), "alarms.rejoin=0s", f"stores={{bucket: {{url: 's3://eeg', endpoint: '{store.endpoint}'}}}}", "cache.max_size=7MiB"])
        without = set(o.without) | (set() if d.volumes.work else set(NEEDS_VOLUMES))
        if not d.volumes.work:
            print("no mount namespaces here: volumes are never full")
        d.start()
        relays = [Relay(tmp, d.socket, o.seed), Relay(tmp, d.tcp, o.seed)]
        recordings, models = make_models(d, tmp)
        recordings.append(without_electrodes(recordings[0], f"{tmp}/data/electrodes.edf"))
        w = Ward(d, relays, recordings, models, store, o.seed)
        w.pager = receiver
        w.promote("a")
        w.take_references()
        before, record = w.look(), Record(w)
        print(f"undisturbed: {before['rss'] >> 20} MiB, {before['descriptors']} descriptors; now {o.minutes:g} minutes with seed {o.seed}", flush=True)
        d.supervise(record.notice)
        d.bitten = lambda: w.lose("the watchdog was not fed")
        w.start(o.streams, o.commands)
        disturb(w, record, draw(o.seed, 60 * o.minutes, without))
        print(f"{record.now():7.1f} s  no more faults; what is under way ends", flush=True)
        w.finish()
        w.check_records()
        w.check_served()
        alarms = pager.check(w, w.pager, [d.began + e["at_s"] for e in d.exits])
        check_delays(w, alarms, o.told_within)
        after = check_size(w, before)
        if (status := d.end()) != 0:
            w.lose("the last stop", f"exit status {status}")
        check_files(w)
        report(o, record, w, alarms, before, after)
        if w.losses:
            d.volumes.keep(tmp)
        d.volumes.close()
        return len(w.losses)


def main():
    parser = argparse.ArgumentParser(description="A daemon at work under faults that are drawn from a seed.")
    parser.add_argument("--minutes", type=float, default=1.5)
    parser.add_argument("--seed", type=int, default=test_seed())
    parser.add_argument("--streams", type=int, default=5)
    parser.add_argument("--commands", type=int, default=2)
    parser.add_argument("--without", type=lambda text: [name for name in text.split(",") if name], default=[], help="faults to leave out")
    parser.add_argument("--told-within", type=float, metavar="S", help="seconds: a loss if the 99th percentile of alarms came later to clients or the hook")
    parser.add_argument("--json", help="file for the report")
    o = parser.parse_args()
    unknown = set(o.without) - {k.name for k in FAULTS}
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}; there are: {', '.join(k.name for k in FAULTS)}")
    print(f"seed {o.seed}")
    faulthandler.register(signal.SIGUSR1)  # prints what every thread waits for
    tmp = tempfile.mkdtemp(prefix="brr-chaos-")
    try:
        lost = chaos(o, tmp)
    except BaseException:
        print(f"seed {o.seed}; everything is kept in {tmp}")
        raise
    if lost:
        print(f"{lost} losses; seed {o.seed}; everything is kept in {tmp}")
        return 1
    shutil.rmtree(tmp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
