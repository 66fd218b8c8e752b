#!/usr/bin/env python3
"""A day in a ward, drawn from a seed: beds of a roster over TLS, each with a recorder and a client that is started again, staff, receivers that
fail, a hostile token every other minute, a daemon that is killed, stopped, away, without room and wrong about the time, a second one that shares its
streams and takes them over and gives them back, and somebody who looks at all pages.

Lost is: a client or daemon that ends without cause; an alarm that is owed to a receiver and not told, or told twice; an id whose on and off do
not alternate or whose last is not off; a message "on" or "nobody has answered" whose attempt began 200 ms after the end or the answer; a technical
alarm without a cause; a look at which the tiles are not the roster; a page that does not answer; an answer that does not go with its alarm to the
other daemon and back; a bed's alarm whose first attempt begins later than 200 ms and the attempts that it waits for; and delays in the minutes of the
hostile token whose 99th percentile (of fewer than 30 the highest) is above twice that of the other minutes plus 200 ms.

    ./dev day ward [--minutes N] [--seed S] [--beds N] [--daemons N] [--told-within S] [--json FILE]

Exit status 1 if anything was lost: the directory is then kept, and its path printed with the seed. The last line is JSON."""
import argparse
import contextlib
import http.client
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "integration")]

import flood  # noqa: E402
import judge  # noqa: E402
from beds import Bed  # noqa: E402
from daemon import PATIENCE, until  # noqa: E402
from delays import Delays  # noqa: E402
from faults import FAULTS, draw, fault  # noqa: E402
from pager import PATIENCE_S, Pager  # noqa: E402
from secured import Secured  # noqa: E402
from supervised import Supervised  # noqa: E402

OF_SECOND = {"second daemon away", "second daemon killed"}
AT_WORK = {"kill -9", "SIGTERM", "full results volume", "hung fsync of results", "receiver fails", "wall clock stepped", "daemon away", *OF_SECOND}
TICK_S, LOOK_S = 0.05, 2
LATE_S = 0.5  # a machine that is so late with a thread that sleeps is no measure of a page that has 3 s
STEPS_S = (8, 12)  # of the escalation
HANDED_AT_S, HANDED_S, SAVED_S = 14, 200, 4  # an answered alarm goes to the other daemon and back, each within HANDED_S; until snapshots have its answer


def stop_for(d, seconds):
    """Until it is started again."""
    process, d.again_s = d.process, seconds
    try:
        d.signal(15)
        yield
        until(lambda: d.process is not process)
    finally:
        d.again_s = None


@fault("daemon away", (3, 20))
def daemon_away(day, rng):
    return stop_for(day.d, rng.uniform(*rng.choice(((2, 20), (2, 20), (2, 20), (20, 2 * day.o.longest)))))


@fault("second daemon away", (3, 20))
def second_away(day, rng):
    return stop_for(day.second, rng.uniform(*rng.choice(((2, 20), (2, 20), (2, 20), (20, day.o.longest)))))


@fault("second daemon killed", (0, 0))
def second_killed(day, _rng):
    day.second.signal(9)
    yield


class Hospital(Supervised, Secured):
    """A daemon that is started again, behind TLS and tokens. faults: those of the draw that end it."""

    faults, away = {"kill -9", "SIGTERM", "daemon away"}, "daemon away"

    def answers(self):
        return self.ctl("version", timeout=30)[0] == 0

    def ends(self):
        return [self.began + e["at_s"] for e in self.exits]

    def alarms(self, *words):
        code, out, _ = self.ctl("alarms", *words, "--json", timeout=30)
        return list(map(json.loads, out.splitlines())) if code == 0 else None


class Second(Hospital):
    """The other daemon, with a token file and a volume of sessions in common."""

    faults, away = {"second daemon away", "second daemon killed"}, "second daemon away"

    def __init__(self, first, folder, settings):
        os.makedirs(folder)
        os.symlink(first.ca, f"{folder}/tls")
        super().__init__(folder, settings, volumes=first.volumes, roles=("admin",))


def said_of(error):
    """What an error page says, without its frame."""
    text = error.read().decode(errors="replace") if isinstance(error, urllib.error.HTTPError) else ""
    return " ".join(re.sub("<[^>]*>", " ", text.partition("<main")[2] or text).split())[:300]


class Receiver(Pager):
    """.attempts: [[begin, message, end]] of all messages, also those that are not taken."""

    def __init__(self, folder, name, words, owes):
        self.attempts, self.owes = [], owes
        super().__init__(folder, name, words)

    def attempted(self, body):
        attempt = [time.monotonic(), body, float("inf")]
        with self.lock:
            self.attempts.append(attempt)
        return attempt

    def attempt_ended(self, attempt):
        attempt[2] = time.monotonic()


class Day:
    def __init__(self, o, tmp):
        self.o, self.tmp, self.lock, self.over, self.closed, self.threads = o, tmp, threading.Lock(), threading.Event(), threading.Event(), []
        self.losses, self.draw, self.late, self.facts, self.began = [], [], [], {"seed": o.seed, "minutes": o.minutes}, time.monotonic()
        self.names, self.lags = [f"bed-{k}" for k in range(1, o.beds + 1)], []  # lags: (when, bed, seconds)
        self.handed, self.handed_over = None, 0  # handed: the bed whose alarm staff leave to hand_over
        self.d = self.hospital(lambda settings: Hospital(tmp, settings, roles=("admin",)), tmp, "a")
        self.second = self.hospital(lambda settings: Second(self.d, f"{tmp}/second", settings), f"{tmp}/receivers", "b")
        self.daemons = [self.d, self.second][:o.daemons]
        self.pagers = [p for d in self.daemons for p in d.pagers]
        self.d.new_token("stream", "ward", "--names", "bed-*")
        self.d.new_token("stream", "hostile")
        self.delays = Delays(self.d.clock_steps)

    def hospital(self, make, folder, name):
        os.makedirs(folder, exist_ok=True)
        pagers = [Receiver(folder, "pager", "", True), Receiver(folder, "book", ", person: false, kinds: [alarm_on, alarm_off, technical_on, technical_off]", True),
                  Receiver(folder, "doctor", "", False)]
        hooks = ", ".join(p.hook() for p in pagers)
        steps = ", ".join(f"{{after: {after_s}s, hooks: [doctor]}}" for after_s in STEPS_S)
        d = make([f"alarms.hooks=[{hooks}]", f"alarms.escalation=[{steps}]", "alarms.repeat=20s", "limits.resume_ttl=40s", f"alarms.rejoin={judge.REJOIN_S}s",
                  f"beds=[{', '.join(self.names)}]", f"sessions.shared={self.tmp}/results/shared", f"sessions.name={name}"])
        d.name, d.pagers = name, pagers
        return d

    @property
    def pager(self):
        """The receiver that fails next."""
        return random.choice(self.pagers)

    def now(self):
        return time.monotonic() - self.began

    def lose(self, what, detail=""):
        with self.lock:
            self.losses.append({"at": self.now(), "what": what, "detail": str(detail)[:1500]})
        print(f"{self.now():7.1f} s  LOST: {what}: {detail}", flush=True)

    def thread(self, target, *args):
        def run():
            try:
                target(*args)
            except Exception as error:  # a failure of the program itself must not pass for success
                self.lose(f"{target.__name__} ended", f"{type(error).__name__}: {error}")
        thread = threading.Thread(target=run, daemon=True, name=target.__name__)
        self.threads.append(thread)
        thread.start()
        return thread

    @contextlib.contextmanager
    def drawn(self, what, bed=""):
        entry = [what, bed, time.monotonic(), float("inf")]
        with self.lock:
            self.draw.append(entry)
        yield
        entry[3] = time.monotonic()

    def keep(self):
        """What the judge had besides the journals."""
        kept = {"began": self.began, "draw": self.draw, "late": self.late, "lags": self.lags,
                "daemons": [{"name": d.name, "ends": d.ends(), "pagers": [{"name": p.name, "told": p.told, "attempts": p.attempts} for p in d.pagers]} for d in self.daemons]}
        with open(f"{self.tmp}/day.json", "w", encoding="utf-8") as f:
            json.dump(kept, f)

    # ---- the machine: how late it is with what should be done now ----

    def measure(self):
        """Until nothing is owed any more, which is after the day is over."""
        while not self.closed.is_set():
            at = time.monotonic()
            time.sleep(TICK_S)
            if (late := time.monotonic() - at - TICK_S) > TICK_S / 5:
                self.late.append((time.monotonic(), late))

    def slack(self, at, before=2):
        return max((late for then, late in self.late if at - before <= then <= at + 1), default=0)

    def is_up(self, d, since):
        """Whether the daemon was at work from then on."""
        with self.lock:
            drawn = [e for e in self.draw if e[0] in d.faults and e[3] + 20 > since]
        return not drawn and d.process.poll() is None and not any(end + 20 > since for end in d.ends())

    # ---- people ----

    def staff(self, n):
        rng = random.Random(f"{self.o.seed} staff {n}")
        while not self.over.wait(rng.uniform(1, 5)):
            d = rng.choice(self.daemons)
            alarms = [a for a in d.alarms("--open") or [] if not a.get("answered") and a["bed"] in self.names and a["bed"] != self.handed]
            if not alarms:
                continue
            alarm = rng.choice(alarms)
            words = rng.choice([("ack", alarm["alarm"])] * 6 + [("silence", alarm["alarm"]), ("note", alarm["alarm"], "looked"), ("standby", alarm["bed"], "20s")])
            d.ctl("alarms", *words, *(("--person", f"Ana {n}") if words[0] != "standby" else ()))

    def get(self, d, path):
        """A page, or None where the daemon was not at work."""
        since = time.monotonic()
        try:
            return d.scrape(path, self.d.tokens["admin"])
        except (OSError, http.client.HTTPException) as error:
            gone = isinstance(error, urllib.error.HTTPError) and error.code == 404 and path.startswith(("/streams/", "/alarms/"))
            if not gone and self.is_up(d, since) and not self.over.is_set() and self.slack(time.monotonic(), time.monotonic() - since) < LATE_S:
                self.lose("a page does not answer", f"{d.name}: {path}: {error} {said_of(error)} after {time.monotonic() - since:.1f} s")
            return None

    def look(self, d):
        seen, waiting, looks = set(), ["/"], 0
        while not self.over.wait(LOOK_S):
            page = self.get(d, "/streams")
            if page is not None:
                looks += 1
                tiles = re.findall(r'<li class="tile".*?<h2[^>]*>(?:<a[^>]*>)?([^<]*)', page, re.S)
                if sorted(t for t in tiles if t.startswith("bed-")) != sorted(self.names):
                    self.lose("the tiles are not the roster", f"{d.name}: {tiles}")
            streams = [path for path in seen if path.startswith("/streams/")]  # also of a stream that another one of its bed has replaced
            for path in [*waiting[:5], *random.sample(streams, min(3, len(streams)))]:
                text = self.get(d, path) or ""
                seen.add(path)
                waiting += [p for p in re.findall(r'href="(/[^"#]*)', text) if p not in seen and p not in waiting]
            waiting = waiting[5:] or ["/", "/alarms"]
        with self.lock:
            self.facts[f"looks at {d.name}"], self.facts[f"pages of {d.name}"] = looks, len(seen)

    def read_lags(self, d):
        """How far behind its newest sample each bed's stream is, every second."""
        while not self.over.wait(1):
            at, (code, out, _) = time.monotonic(), d.ctl("sessions", "--json", timeout=30)
            self.lags += [(at, s["client"], s["lag_s"]) for s in (map(json.loads, out.splitlines()) if code == 0 else ())
                          if s["client"] in self.names and s["connected"]]

    def hostile(self):
        """Every other minute: alarms of ever new names, and one other kind of the flood."""
        kinds, minute = random.Random(self.o.seed).sample(flood.KINDS, len(flood.KINDS)), 1
        while not self.over.wait(max(0, 60 * minute - self.now())):
            seconds = min(60 * (minute + 1), 60 * self.o.minutes) - self.now()
            o = argparse.Namespace(port=self.d.tcp, http=self.d.port, ca=f"{self.d.ca}/ca.crt", token=self.d.token_file("hostile"), seconds=max(1, seconds - 5))
            words = [word for name, value in vars(o).items() for word in (f"--{name}", str(value))]
            with self.drawn("hostile token"):
                running = [subprocess.Popen([sys.executable, flood.__file__, "--kind", kind, *words], stdout=subprocess.DEVNULL)
                           for kind in ("alarms", kinds[minute // 2 % len(kinds)])]
                if any([process.wait(PATIENCE) for process in running]):
                    self.lose("the flood failed", running)
            minute += 2
            if minute >= self.o.minutes:
                return

    # ---- the two daemons ----

    def hand_over(self, bed):
        """An alarm of this bed is answered at step 2, goes to the other daemon, and comes back; its daemon is away meanwhile."""
        def comes(condition, what):
            deadline = time.monotonic() + HANDED_S
            while not (found := condition()):
                if time.monotonic() > deadline:
                    raise TimeoutError(what)
                time.sleep(0.3)
            return found

        def is_on(a):
            return a["bed"] == bed.name and a["kind"] == "alarm" and not a.get("off_ms")

        def alarm_at(d, condition):
            return next((a for a in d.alarms("--open") or [] if is_on(a) and condition(a)), None)

        def is_over(d):
            return (alarms := d.alarms("--open")) is not None and not any(map(is_on, alarms))
        self.handed = bed.name
        bed.client_killed()  # what its model knows of this patient is seizures by half
        comes(lambda: all(map(is_over, self.daemons)), "the alarm before is not over")
        time.sleep(max(judge.REJOIN_S + 2, bed.learned_at - time.monotonic()))  # else it would go on, with its answer
        bed.signal = "seizure"
        here, alarm = comes(lambda: next(((d, a) for d in self.daemons if (a := alarm_at(d, lambda a: a["step"] >= 2))), None), "no step 2")
        if (said := here.ctl("alarms", "ack", alarm["alarm"], "--person", "Eva"))[0]:
            raise ValueError(f"the answer: {said}")
        there = self.daemons[here is self.d]
        for there, away in ((there, here), (here, there)):
            time.sleep(SAVED_S)
            with self.drawn(away.away), away.stays_away():
                found = comes(lambda: alarm_at(there, lambda a: a["alarm"] == alarm["alarm"]), f"{alarm['alarm']} did not come to {there.name}")  # noqa: B023
            if (found.get("answered") or {}).get("person") != "Eva":
                self.lose("an answer did not go with its alarm", f"to {there.name}: {found}")
            if not away.until_it_answers():
                self.lose("no answer after", f"{away.name} was away")
        self.handed_over += 1

    def hand_one_over(self, beds):
        """Of a bed at which nothing else happens meanwhile."""
        bed = until(lambda: next((b for b in random.sample(beds, len(beds)) if b.held.acquire(blocking=False)), None))
        try:
            with self.drawn("handed over", bed.name):
                self.hand_over(bed)
        except (TimeoutError, ValueError) as error:
            self.lose("an answered alarm was not handed over", f"{bed.name}: {error}")
        finally:
            self.handed, bed.signal = None, "quiet"
            bed.held.release()

    # ---- the whole ----

    def notice(self, end):
        if not end["asked"] and not (end["status"] == 1 and any(e[0] == "full results volume" and e[3] + 2 > time.monotonic() - end["life_s"] for e in self.draw)):
            self.lose("the daemon died", end)

    def disturb(self, plan, beds):
        """plan: as of draw(), and (second, None): an alarm is handed over while there is no other fault; what follows is as much later."""
        later, running = 0, []
        for at, kind, lasts, seed in plan:
            time.sleep(max(0, at + later - self.now()))
            if self.now() > 60 * self.o.minutes:
                return
            print(f"{self.now():7.1f} s  {kind.name if kind else 'handed over'}, {lasts:.1f} s", flush=True)
            if kind:
                running.append(self.thread(self.inject, kind, lasts, seed))
                continue
            for t in running:
                t.join()
            self.hand_one_over(beds)
            later, running = self.now() - at, []

    def inject(self, kind, lasts, seed):
        with self.drawn(kind.name):
            with contextlib.suppress(ProcessLookupError, FileNotFoundError), kind.act(self, random.Random(seed)):
                time.sleep(lasts)
            for d in self.daemons:  # one that stays away by another fault is none of this one's
                if (kind.name in d.faults or not d.again_s) and not d.until_it_answers():
                    self.lose("no answer after", f"{kind.name}: {d.name}")

    def run(self):
        for d in self.daemons:
            d.start()
        for d in self.daemons:
            d.supervise(self.notice)
            d.bitten = lambda: self.lose("the watchdog was not fed")
        beds = [Bed(self, name, k) for k, name in enumerate(self.names)]
        for target, *args in ((self.measure,), *((f, d) for d in self.daemons for f in (self.look, self.read_lags)), (self.staff, 1), (self.staff, 2), (self.hostile,)):
            self.thread(target, *args)
        left = {k.name for k in FAULTS} - AT_WORK
        if not self.d.volumes.work:
            left.add("full results volume")
        hand_overs = []
        if len(self.daemons) > 1:
            hand_overs = [(at, None, HANDED_S, 0) for at in (HANDED_AT_S, 20 * self.o.minutes, 40 * self.o.minutes)]
        else:
            left |= OF_SECOND
        faults = draw(self.o.seed, 60 * self.o.minutes - HANDED_AT_S, left)
        self.disturb(sorted([*hand_overs, *((at + HANDED_AT_S, *rest) for at, *rest in faults)], key=lambda e: e[0]), beds)
        time.sleep(max(0, 60 * self.o.minutes - self.now()))
        self.finish(beds)

    def is_quiet(self):
        alarms = [d.alarms() for d in self.daemons]
        return None not in alarms and not any(a["kind"] == "alarm" and not a.get("off_ms") for found in alarms for a in found)

    def join(self, *names):
        """All threads but these have ended."""
        for t in self.threads:
            if t.name not in names:
                t.join(PATIENCE)

    def finish(self, beds):
        """Nothing happens any more, the streams of the beds end, and what is owed is told."""
        for p in self.pagers:
            p.mode = "ok"
        self.over.set()
        self.join("keep", "record", "measure")
        for d in self.daemons:
            d.until_it_answers()
        for bed in beds:
            bed.signal = "quiet"
            bed.cable.set()
            bed.plug()
        until(self.is_quiet, "an alarm never went off")
        for bed in beds:
            bed.close()
        self.join("measure")

        def owed():
            return [judge.untold(self, p.name) for p in self.d.pagers if p.owes]
        left, since = owed(), time.monotonic()
        while any(left) and time.monotonic() - since < PATIENCE_S:
            time.sleep(1)
            before, left = left, owed()
            since = since if left == before else time.monotonic()
        self.closed.set()
        judge.judge(self)
        for d in self.daemons:
            if (status := d.end()) != 0:
                self.lose("the last stop", f"{d.name}: {status}")
        self.facts.update(losses=self.losses, exits=[len(d.exits) for d in self.daemons], handed_over=self.handed_over, slack_s=round(max((late for _, late in self.late), default=0), 2),
                          drawn={what: sum(e[0] == what for e in self.draw) for what in {e[0] for e in self.draw}})


def main():
    parser = argparse.ArgumentParser(description="A day in a ward, drawn from a seed.")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=20260722)
    parser.add_argument("--beds", type=int, help="8; of a day of more than 6 minutes 12")
    parser.add_argument("--daemons", type=int, choices=(1, 2), help="1; of a day of more than 6 minutes 2, which share the streams")
    parser.add_argument("--longest", type=float, metavar="S", help="for which a cable or a network is out, and half as long as the daemon is away "
                        "(20; of a day of more than 6 minutes 90)")
    parser.add_argument("--told-within", type=float, metavar="S", help="seconds: a loss if the 99th percentile of alarms came later to the hook")
    parser.add_argument("--json", help="file for the report")
    o = parser.parse_args()
    is_long = o.minutes > judge.LONG_MIN
    o.beds, o.longest, o.daemons = o.beds or (12 if is_long else 8), o.longest or (90 if is_long else 20), o.daemons or (2 if is_long else 1)
    os.environ["BRR_STOP_AT_NULL"] = "1"
    print(f"seed {o.seed}", flush=True)
    judge.prove_attempts()
    judge.prove_causes()
    tmp = tempfile.mkdtemp(prefix="brr-ward-day-")
    day = None
    try:
        day = Day(o, tmp)
        day.run()
    finally:
        if day is None or day.losses or sys.exc_info()[0]:
            if day:
                day.d.volumes.keep(tmp)
                day.keep()
            print(f"seed {o.seed}; everything is kept in {tmp}", flush=True)
        else:
            shutil.rmtree(tmp)
        if day:
            day.d.volumes.close()
    text = json.dumps(day.facts)
    if o.json:
        with open(o.json, "w", encoding="utf-8") as f:
            f.write(text + "\n")
    print(text, flush=True)
    return 1 if day.losses else 0


if __name__ == "__main__":
    sys.exit(main())
