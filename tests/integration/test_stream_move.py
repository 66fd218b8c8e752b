#!/usr/bin/env python3
"""Live streams of two daemons that share their snapshots (sessions.shared), while one of them at a time is killed: the streams move to the other
one, brrctl writes the files of an undisturbed run, and each alarm comes once. An alarm that was answered moves to the other daemon and back, with
the standby of its bed, which somebody ends at the other daemon.
BRR_TEST_KILLS: how many (3)."""
import contextlib
import glob
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

from daemon import BIN, PATIENCE, SOURCE, Daemon, until
from stream_fixture import Edf, command, files_of, streaming_daemon
from test_stream_resume import alarms

sys.path.insert(0, f"{SOURCE}/tests")
from seed import test_seed  # noqa: E402

KILLS = int(os.environ.get("BRR_TEST_KILLS", 3))
PAUSE_S = (0.0, 2.0)  # between the samples and the kill: they have arrived in part or whole, a snapshot has them or not


def where(daemons):
    """Which daemon has the stream of brrctl and how many of its samples, or None."""
    for i, d in enumerate(daemons):
        if d.process.poll() is None:
            _, out, _ = d.ctl("sessions", "--json")
            for s in map(json.loads, out.splitlines()):
                if s["client"] == "mover" and s["connected"]:
                    return i, s["received_through"]
    return None


class Replay:
    """`brrctl stream - --replay` of a recording, which gets its next record once a daemon has all before it: it is never over too early."""

    def __init__(self, daemons, recording, model):
        self.daemons, self.edf, self.at = daemons, Edf(recording), 0
        self.process = subprocess.Popen(
            command(daemons[0], "-", model, "--replay", "--alarms", "--json", "--client", "mover", "--move-after", "0.5", "--realtime", "40"),
            env={**daemons[0].env, "BRR_ENDPOINT": ",".join(d.env["BRR_ENDPOINT"] for d in daemons)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.process.stdin.write(self.edf.counted(self.edf.records))
        self.send()

    def send(self):
        assert self.at < self.edf.records, "the recording is over" + "".join(d.read_log()[-3000:] for d in self.daemons)
        self.process.stdin.write(self.edf.body[self.at * self.edf.record:(self.at + 1) * self.edf.record])
        self.process.stdin.flush()
        self.at += 1

    def moves(self, other_than):
        """The daemon to which the stream has moved, once it gets samples there: a client that sends was told that its stream is open."""
        first = {}

        def sends():
            assert self.process.poll() is None, "the stream ended early: " + self.process.stderr.read().decode()
            at, received = where(self.daemons) or (None, 0)
            if at is not None and received >= self.at * self.samples():
                self.send()
            return at not in (None, other_than) and received > first.setdefault(at, received) and (at,)
        return until(sends, f"the stream did not move from {other_than}", pause_s=0.05)[0]

    def samples(self):
        """Samples of one record of the first signal."""
        return int(self.edf.header[256 + self.edf.signals * 216:][:8])

    def goes_on_to(self, record):
        while self.at < record:
            self.send()

    def ends(self):
        self.goes_on_to(self.edf.records)
        out, err = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, err.decode() + "".join(d.read_log()[-4000:] for d in self.daemons)
        return out.decode()


def check(daemons, recording, model, want, dice):
    stream = Replay(daemons, recording, model)
    try:
        at = stream.moves(None)
        for kill in range(KILLS):
            stream.goes_on_to((kill + dice.uniform(0.5, 1)) * stream.edf.records / (KILLS + 1))
            time.sleep(dice.uniform(*PAUSE_S))
            daemons[at].process.send_signal(signal.SIGKILL)
            daemons[at].process.wait()
            then = stream.moves(at)
            daemons[at].start()
            at = then
        out = stream.ends()
        end = json.loads(out.splitlines()[-1])
        assert alarms(out) == want[0], "alarms differ after the moves"
        assert files_of(daemons[0], recording) == want[1], "files differ after the moves"
        assert end["reconnects"] >= KILLS, end
    finally:
        stream.process.kill()
        stream.process.wait()
    print(f"{KILLS} kills: {end['reconnects']} reconnects, the same alarms and files")


def rows(d):
    """(kind, alarm, detail) of the entries about alarms, in the order in which they were written."""
    with contextlib.closing(sqlite3.connect(f"file:{d.dir}/results/journal.sqlite?mode=ro", uri=True)) as db:
        return db.execute("SELECT kind, alarm, detail FROM journal WHERE kind IN "
                          "('alarm_on', 'alarm_off', 'moved', 'told', 'answered', 'escalated') ORDER BY id").fetchall()


def waiting(d):
    """How many messages to hooks are on the disk as not told."""
    with contextlib.closing(sqlite3.connect(f"file:{d.dir}/results/journal.sqlite?mode=ro", uri=True)) as db:
        return db.execute("SELECT count(*) FROM outbox").fetchone()[0]


def told(d):
    """(hook, kind) of each message that a hook got."""
    text, found = "", []
    with contextlib.suppress(FileNotFoundError), open(f"{d.dir}/told", encoding="utf-8") as f:
        text = f.read().strip()
    while text:
        message, end = json.JSONDecoder().raw_decode(text)
        found.append((message["hook"], message["entry"]["kind"]))
        text = text[end:].strip()
    return found


def open_alarms(d):
    return [a for a in map(json.loads, d.ctl("alarms", "--open", "--json")[1].splitlines()) if a["kind"] == "alarm"]


def count(d, kind):
    return [row[0] for row in rows(d)].count(kind)


class Bed:
    """`brrctl stream -` of a live recorder, which sends a second whenever it is asked for one."""

    def __init__(self, pair, recording):
        self.edf, self.at = Edf(recording), 0
        self.process = subprocess.Popen(
            [f"{BIN}/brrctl", "stream", "-", "--live", "--client", "mover", "--move-after", "0.5", "--model", "line_length",
             "--on", "0.001", "--off", "0.0005"],
            env={**pair[0].env, "BRR_ENDPOINT": ",".join(d.env["BRR_ENDPOINT"] for d in pair)},
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.process.stdin.write(self.edf.counted(-1))

    def send(self):
        assert self.process.poll() is None, self.process.stderr.read()
        assert self.at < self.edf.records, "the recording is over"
        self.process.stdin.write(self.edf.body[self.at * self.edf.record:(self.at + 1) * self.edf.record])
        self.process.stdin.flush()
        self.at += 1

    def send_until(self, condition, what):
        return until(lambda: condition() or self.send(), what, pause_s=0.2)

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=PATIENCE) == 0, self.process.stderr.read()


class Teller(Daemon):
    """Its hooks, which are those of all daemons of this machine, write into its own folder."""

    def command(self):
        return ["env", f"TOLD={self.dir}/told", *super().command()]


def ward(folder, second_s, *more):
    """Two daemons of one machine that share their streams and commands; each calls the second people so long after an alarm began."""
    pair = []
    for name in "ab":
        os.makedirs(f"{folder}/{name}")
        write = "command: [/bin/sh, -c, 'cat >>$TOLD'], environment: [TOLD]"
        hooks = (f"{{name: all, {write}, kinds: [alarm_on, alarm_off, answered]}}, {{name: first, {write}}}, "
                 f"{{name: second, {write}}}")
        pair.append(Teller(f"{folder}/{name}", [
            *more, f"sessions.shared={folder}/shared", f"sessions.name={name}", f"alarms.hooks=[{hooks}]", "alarms.repeat=1h",
            f"alarms.escalation=[{{after: 1s, hooks: [first]}}, {{after: {second_s}s, hooks: [second]}}]"]).start())
    return pair


def an_alarm_that_moved_is_escalated_by_one_daemon(folder, recording):
    a, b = pair = ward(folder, 8)
    log = lambda: f"{rows(a)} {told(a)}\n{rows(b)} {told(b)}\n{a.read_log()[-3000:]}\n{b.read_log()[-3000:]}"
    bed = Bed(pair, recording)
    bed.send_until(lambda: ("first", "escalated") in told(a), log)
    (alarm,) = {alarm for kind, alarm, _ in rows(a) if kind == "alarm_on"}
    a.kill()
    bed.send_until(lambda: ("second", "escalated") in told(b), log)
    a.start()
    until(lambda: count(a, "moved"), log)
    assert count(a, "escalated") == 1 and ("second", "escalated") not in told(a), log()
    until(lambda: ("told", alarm, "alarm_on: told already") in rows(b), log)
    assert ("all", "alarm_on") not in told(b), log()
    bed.process.kill()
    bed.process.wait()
    for d in pair:
        d.stop()


def snapshots(folder, name):
    return [path for path in glob.glob(f"{folder}/shared/{name}/*") if len(os.path.basename(path)) == 32]


def an_alarm_that_is_newer_than_the_snapshot_goes_after_its_stream(folder, recording):
    a, b = pair = ward(folder, 600, "limits.resume_ttl=20s")
    log = lambda: f"{rows(a)} {told(a)}\n{rows(b)} {told(b)}\n{a.read_log()[-3000:]}\n{b.read_log()[-3000:]}"
    bed = Bed(pair, recording)
    bed.send_until(lambda: snapshots(folder, "a"), log)
    (path,) = snapshots(folder, "a")
    with open(path, "rb") as f:
        before = f.read()
    bed.send_until(lambda: ("all", "alarm_on") in told(a), log)
    (alarm,) = {alarm for kind, alarm, _ in rows(a) if kind == "alarm_on"}

    def saved():
        with open(path, "rb") as f:
            return alarm.encode() in f.read()
    bed.send_until(saved, log)  # the client keeps no samples from before
    a.kill()
    with open(path, "wb") as f:
        f.write(before)
    bed.send_until(lambda: (where(pair) or (None,))[0] == 1, log)
    a.start()
    bed.send_until(lambda: count(a, "moved"), log)
    bed.send_until(lambda: alarm in [x["alarm"] for x in open_alarms(b)], log)
    assert alarm not in [x["alarm"] for x in open_alarms(a)], log()
    bed.process.kill()
    bed.process.wait()
    until(lambda: ("alarm_off", alarm) in [(kind, x) for kind, x, _ in rows(b)], log)
    for d in pair:
        d.stop()


def standby(d):
    """Its end, of the bed's tile; 0: the bed is in none."""
    def shown():
        return [int(b["standby_until_ms"]) for b in map(json.loads, d.ctl("beds", "--json")[1].splitlines()) if b["name"] == "mover"]
    return until(shown, "no tile of the bed")[0]


def end_standby(bed, folder, d, name):
    """Until a snapshot of the stream knows it."""
    code, _, err = d.ctl("alarms", "standby", "mover", "off")
    assert code == 0, err
    ended, (path,) = time.time(), snapshots(folder, name)
    bed.send_until(lambda: os.path.getmtime(path) > ended + 2, "no snapshot")


def an_answered_alarm_moves_and_comes_back(folder, recording):
    pair = ward(folder, 2)
    a, b = pair
    log = lambda: f"{rows(a)} {told(a)}\n{rows(b)} {told(b)}\n{a.read_log()[-3000:]}\n{b.read_log()[-3000:]}"
    bed = Bed(pair, recording)
    bed.send_until(lambda: {"first", "second"} <= {hook for hook, _ in told(a)}, log)
    (alarm,) = {alarm for kind, alarm, _ in rows(a) if kind == "alarm_on"}
    for words in (("standby", "mover", "1h"), ("ack", alarm, "--person", "Ana B")):
        code, _, err = a.ctl("alarms", *words)
        assert code == 0, err
    until(lambda: ("all", "answered") in told(a), log)
    before = told(a)
    until(lambda: not waiting(a), log)  # what was told is told again after a kill until the disk says that it was
    assert sorted(before) == [("all", "alarm_on"), ("all", "answered"), *((x, "escalated") for x in ("first", "second"))], before

    def saved():
        with open(max(glob.glob(f"{folder}/shared/a/" + "[0-9a-f]" * 32)), "rb") as f:
            return b"acknowledge" in f.read()
    bed.send_until(saved, log)
    for now, then in ((a, b), (b, a)):
        now.kill()
        bed.send_until(lambda: (where(pair) or (None,))[0] == pair.index(then), log)  # noqa: B023
        now.start()
        until(lambda: count(now, "moved"), log)  # noqa: B023
        assert not open_alarms(now), log()
        (x,) = open_alarms(then)
        assert x["alarm"] == alarm and not x["off_ms"] and "Ana B" in json.dumps(x), x
        assert bool(standby(then)) == (then is b), log()
        if then is b:
            end_standby(bed, folder, b, "b")
    bed.end()
    until(lambda: ("all", "alarm_off") in told(a), log)
    for d, changes in ((a, ["alarm_on", "moved", "alarm_off"]), (b, ["alarm_on", "moved"])):
        assert [kind for kind, _, _ in rows(d) if kind not in ("answered", "escalated", "told")] == changes, log()
        assert {x for _, x, _ in rows(d) if x} == {alarm} and count(d, "answered") == 1, log()
    assert told(a) == [*before, ("all", "alarm_off")] and not told(b), log()
    assert count(a, "escalated") == 2 and not count(b, "escalated"), log()
    for d in pair:
        d.stop()


def main():
    dice = random.Random(test_seed())
    with streaming_daemon() as (alone, recording, model):
        r = subprocess.run(command(alone, recording, model, "--alarms", "--json"), env=alone.env, capture_output=True, text=True, timeout=PATIENCE,
                           check=True)
        want = alarms(r.stdout), files_of(alone, recording)
        assert want[0], "the recording has no alarm to compare"
        daemons = []
        for name in "ab":
            os.makedirs(f"{alone.dir}/{name}")
            daemons.append(Daemon(f"{alone.dir}/{name}", [f"sessions.shared={alone.dir}/shared", f"sessions.name={name}"]).start())
        refused = Daemon(f"{alone.dir}/c", [f"sessions.shared={alone.dir}/shared", "sessions.name=a"])
        refused.spawn()
        assert refused.process.wait(timeout=PATIENCE) != 0 and "another daemon has this sessions.name" in refused.read_log(), refused.read_log()
        check(daemons, recording, model, want, dice)
        left = [name for d in "ab" for name in os.listdir(f"{alone.dir}/shared/{d}") if len(name) == 32]
        assert len(left) <= 1, left  # the ended stream's, in case its client did not hear the Summary
        for d in daemons:
            d.stop()
        an_answered_alarm_moves_and_comes_back(f"{alone.dir}/answered", recording)
        an_alarm_that_is_newer_than_the_snapshot_goes_after_its_stream(f"{alone.dir}/newer", recording)
        an_alarm_that_moved_is_escalated_by_one_daemon(f"{alone.dir}/escalated", recording)
    return 0


if __name__ == "__main__":
    sys.exit(main())
