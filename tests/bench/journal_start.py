#!/usr/bin/env python3
"""A start beside a large journal: until when, and for how much processor time, the daemon reads the alarms that are
open, with their answers and the standbys of beds; and whether it forgets any. The rows are those of a ward: most are
quality, gaps and events, one in ten is of an alarm.

usage: journal_start.py [--mib 1024] [--alarms 0.1] [--days 30] [--open 40] [--upgrade]

--alarms: the share of rows that are of alarms; --days: over which the rows lie, evenly; --upgrade: the journal is one
of before the index of alarms. An empty journal is the comparison. Exit 1 when something was forgotten or the reading
took more than 1 s of processor time."""
import argparse
import itertools
import json
import os
import random
import re
import shutil
import sqlite3
import sys
import time
import urllib.request

os.environ.setdefault("BRR_SOURCE_DIR", os.path.abspath(f"{os.path.dirname(os.path.abspath(__file__))}/../.."))
os.environ.setdefault("BRR_BUILD_DIR", f"{os.environ['BRR_SOURCE_DIR']}/build")
os.environ.setdefault("BRR_BIN", f"{os.environ['BRR_BUILD_DIR']}/bin")
sys.path.insert(0, f"{os.environ['BRR_SOURCE_DIR']}/tests/integration")
from daemon import Daemon, temporary, until  # noqa: E402

BEDS, DAY_MS, ALLOWED_S = 12, 24 * 3600 * 1000, 1.0
ANSWERED, LISTED = 2, 1000  # of the open ones; LISTED: what one list has at most
ROW_BYTES = 376  # of these rows, with their places in the indexes
KEYS = ("kind", "number", "received_ms", "sample_ms", "start_s", "end_s", "value", "session", "principal", "client",
        "address", "model", "sha256", "detail", "live", "alarm", "person", "step", "until_ms", "on_ms", "made_boot",
        "made_boot_ms")
ANSWER = {"person": "token:icu", "detail": "acknowledge via brrctl by Ana"}
FLAWS = "Fp1 noisy, F7 flat, T3 clipped noisy, O2 flat"


class Ward:
    """Rows of beds, each in a session of six hours."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = 0

    def row(self, kind, at_ms, bed, **more):
        session = f"{bed:02x}{int(at_ms // (DAY_MS // 4)):030x}"
        start_s = at_ms % (DAY_MS // 4) / 1000
        self.numbers += 1
        known = {"kind": kind, "number": self.numbers, "received_ms": at_ms, "sample_ms": at_ms - 300,
                 "start_s": start_s, "end_s": start_s + 4, "value": 0.75, "session": session, "principal": "token:ward",
                 "client": f"bed-{bed}", "address": "10.1.2.3:40522", "model": "ward", "sha256": "ab" * 32,
                 "detail": "", "live": 1, "alarm": "", "person": "", "step": 0, "until_ms": 0, "on_ms": 0, "made_boot": "",
                 "made_boot_ms": 0}
        known.update(more)
        return tuple(known[key] for key in KEYS)

    def alarm(self, at_ms, bed, is_open=False):
        """An alarm from its beginning to the answer, or one that is over and nobody has answered."""
        alarm = f"{bed:02x}{int(at_ms // (DAY_MS // 4)):030x}-{int(at_ms % (DAY_MS // 4) * 0.256)}"
        given = {"alarm": alarm, "on_ms": at_ms}
        yield self.row("alarm_on", at_ms, bed, **given)
        yield self.row("told", at_ms + 200, bed, **given, person="pager", detail="alarm_on: delivered")
        yield self.row("escalated", at_ms + 60000, bed, **given, step=1)
        yield self.row("alarm_off", at_ms + 70000, bed, **given, detail="ended")
        if not is_open:
            yield self.row("answered", at_ms + 90000, bed, **given, **ANSWER)

    def rows(self, n, share, first_ms, last_ms):
        done = 0
        while done < n:
            at, bed = int(first_ms + (last_ms - first_ms) * done / n), self.random.randrange(1, BEDS + 1)
            if self.random.random() < share / 5:
                for row in self.alarm(at, bed):
                    done += 1
                    yield row
                continue
            kind = self.random.choice(("quality",) * 6 + ("gap",) * 2 + ("event",))
            done += 1
            yield self.row(kind, at, bed, detail=FLAWS if kind == "quality" else "hole" if kind == "gap" else "")


def insert(db, rows):
    db.executemany(f"INSERT OR IGNORE INTO journal({', '.join(KEYS)}) VALUES({', '.join('?' * len(KEYS))})", rows)


def fill(path, args):
    """A journal of so many MiB, whose newest three days have open alarms, the last two answered, and a standby."""
    now, db, ward = int(time.time() * 1000), sqlite3.connect(path), Ward(1)
    db.execute("PRAGMA synchronous=OFF")
    rows = ward.rows(args.mib * 1024 * 1024 // ROW_BYTES, args.alarms, now - args.days * DAY_MS, now - 1000)
    while batch := list(itertools.islice(rows, 50000)):
        insert(db, batch)
        db.commit()
    alarms = []
    for i in range(args.open):
        at = now - int(2.9 * DAY_MS * (args.open - i) / (args.open + 1))
        mine = list(ward.alarm(at, 100 + i, is_open=True))
        insert(db, mine if i % 2 else mine[:3])  # the others are on
        alarms.append(mine[0][KEYS.index("alarm")])
    for i in range(-ANSWERED, 0):
        insert(db, [ward.row("answered", now - 60000, 100 + args.open + i, alarm=alarms[i], **ANSWER)])
    insert(db, [ward.row("standby", now - 50000, 7, until_ms=now + 3600 * 1000, session="", person="token:icu",
                         detail="via brrctl by Ana")])
    if args.upgrade:
        db.execute("DROP INDEX journal_register")
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return alarms


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        v = f.read().rpartition(")")[2].split()
    return (int(v[11]) + int(v[12])) / os.sysconf("SC_CLK_TCK")


def listed(d):
    """Open alarms, and the newest of the others."""
    out = d.ctl("alarms", "--json")[1] + d.ctl("alarms", "--open", "--json")[1]
    return {a["alarm"]: a for a in map(json.loads, out.splitlines()) if "alarm" in a}


def waiting(d):
    """How many alarms wait for an answer, which costs the daemon less than a list of them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/metrics", timeout=600) as r:
        found = re.search(r'^brrd_alarms_waiting\{kind="alarm"\} (\d+)$', r.read().decode(), re.M)
    return int(found[1]) if found else 0


def shows_standby(d):
    """Whether the page of the beds does, which is made each second."""
    def page():
        with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/streams", timeout=600) as r:
            return "standby" in r.read().decode()
    try:
        return until(page, seconds=20)
    except AssertionError:
        return False


def start(folder, journal, alarms):
    """A daemon beside the journal: (seconds until it answers, until all alarms are listed, its processor time then, its
    memory in MiB, alarms, whether the standby is known, log)"""
    os.makedirs(folder, exist_ok=True)
    d = Daemon(folder, [f"journal.file={journal}", "journal.retention.size=4GiB", "beds=[bed-7]"])
    begun = time.monotonic()
    d.start()
    ready = time.monotonic() - begun
    try:
        until(lambda: waiting(d) == max(0, len(alarms) - ANSWERED), seconds=60, pause_s=0.05)
    except AssertionError:
        print(f"{waiting(d)} wait, of {len(alarms)} of which {ANSWERED} are answered")
    seconds, used = time.monotonic() - begun, cpu_s(d.process.pid)
    found = listed(d)
    with open(f"/proc/{d.process.pid}/status", encoding="ascii") as f:
        peak = int(re.search(r"VmHWM:\s+(\d+)", f.read())[1]) >> 10
    standby = alarms and shows_standby(d)
    d.stop()
    return ready, seconds, used, peak, found, standby, d.read_log()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mib", type=int, default=1024)
    p.add_argument("--alarms", type=float, default=0.1)
    p.add_argument("--days", type=int, default=30)
    p.add_argument("--open", type=int, default=40)
    p.add_argument("--upgrade", action="store_true")
    args = p.parse_args()
    with temporary() as tmp:
        start(f"{tmp}/a", f"{tmp}/empty.sqlite", [])  # makes the tables
        shutil.copy(f"{tmp}/empty.sqlite", f"{tmp}/large.sqlite")
        empty = start(f"{tmp}/b", f"{tmp}/empty.sqlite", [])
        alarms = fill(f"{tmp}/large.sqlite", args)
        with sqlite3.connect(f"{tmp}/large.sqlite") as db:
            n, of_alarms = db.execute("SELECT count(*), sum(alarm != '') FROM journal").fetchone()
        size = os.path.getsize(f"{tmp}/large.sqlite") >> 20
        print(f"{size} MiB, {n} rows, {of_alarms} of alarms, {args.days} days, {len(alarms)} to be known", flush=True)
        ready, seconds, used, peak, found, standby, log = start(f"{tmp}/c", f"{tmp}/large.sqlite", alarms)
        late = "are still being read" in log
    mine = [found[a] for a in alarms if a in found]
    answered = sum("answered" in a and bool(a["answered"]) for a in mine)
    print(f"answers after {ready:.2f} s, all listed after {seconds:.2f} s{', later than it waits' if late else ''};"
          f" processor time {used:.2f} s, beside an empty journal {empty[2]:.2f} s; {peak} MiB at most, empty"
          f" {empty[3]} MiB; {len(mine)} of {len(alarms)} alarms, {answered} of 2 answers, standby {'kept' if standby else 'unknown'}")
    good = len(mine) == len(alarms) and answered == ANSWERED or len(mine) >= LISTED  # then the count has been compared
    return 0 if good and used - empty[2] <= ALLOWED_S else 1


if __name__ == "__main__":
    sys.exit(main())
