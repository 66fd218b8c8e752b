#!/usr/bin/env python3
"""A day in a ward, drawn from a seed: beds of a roster over TLS, each with a recorder and a client that is started again, staff, receivers that
fail, a hostile token, a daemon that is killed, stopped, away, without room and wrong about the time, and somebody who looks at all pages.

Lost is: a client or daemon that ends without cause; an alarm that is owed to a receiver and not told, or told twice; an id whose on and off do
not alternate or whose last is not off; a message "on" or "nobody has answered" whose attempt began 200 ms after the end or the answer; a technical
alarm without a cause; a look at which the tiles are not the roster; a page that does not answer.

    ./dev day ward [--minutes N] [--seed S] [--beds N] [--told-within S] [--json FILE]

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
from pager import Pager  # noqa: E402
from secured import Secured  # noqa: E402
from supervised import Supervised  # noqa: E402

AT_WORK = {"kill -9", "SIGTERM", "full results volume", "hung fsync of results", "receiver fails", "wall clock stepped", "daemon away", "hostile token"}
DAEMON = {"kill -9", "SIGTERM", "daemon away"}
TICK_S, LOOK_S = 0.05, 2
QUIET_S = 180  # until the last alarm of a bed is over: resume_ttl, and what a stream brings late


@fault("daemon away", (3, 20))
def daemon_away(day, rng):
    day.d.again_s = rng.uniform(2, day.o.longest)
    day.d.signal(15)
    yield
    day.d.again_s = None


@fault("hostile token", (5, 12))
def hostile(day, rng):
    """Alarms of ever new names at short hops, and one other kind of the flood."""
    o = argparse.Namespace(port=day.d.tcp, http=day.d.port, ca=f"{day.d.ca}/ca.crt", token=day.d.token_file("hostile"), seconds=6)
    words = [word for name, value in vars(o).items() for word in (f"--{name}", str(value))]
    running = [subprocess.Popen([sys.executable, flood.__file__, "--kind", kind, *words], stdout=subprocess.DEVNULL) for kind in ("alarms", rng.choice(flood.KINDS))]
    yield
    for process in running:
        process.wait(PATIENCE)


class Hospital(Supervised, Secured):
    """A daemon that is started again, behind TLS and tokens."""

    def answers(self):
        return self.ctl("version", timeout=30)[0] == 0


class Receiver(Pager):
    """.attempts: [(when, body)] of all messages, also those that are not taken."""

    def __init__(self, folder, name, words, owes):
        self.attempts, self.owes = [], owes
        super().__init__(folder, name, words)

    def attempted(self, body):
        with self.lock:
            self.attempts.append((time.monotonic(), body))


class Day:
    def __init__(self, o, tmp):
        self.o, self.tmp, self.lock, self.over, self.threads = o, tmp, threading.Lock(), threading.Event(), []
        self.losses, self.draw, self.late, self.facts, self.began = [], [], [], {"seed": o.seed, "minutes": o.minutes}, time.monotonic()
        self.names = [f"bed-{k}" for k in range(1, o.beds + 1)]
        self.pagers = [Receiver(tmp, "pager", "", True), Receiver(tmp, "book", ", person: false, kinds: [alarm_on, alarm_off, technical_on, technical_off]", True),
                       Receiver(tmp, "doctor", "", False)]
        hooks = ", ".join(p.hook() for p in self.pagers)
        self.d = Hospital(tmp, [f"alarms.hooks=[{hooks}]", "alarms.escalation=[{after: 8s, hooks: [doctor]}]", "alarms.repeat=20s", "limits.resume_ttl=40s", f"alarms.rejoin={judge.REJOIN_S}s",
                                f"beds=[{', '.join(self.names)}]"], roles=("admin",))
        self.d.new_token("stream", "ward", "--names", "bed-*")
        self.d.new_token("stream", "hostile")
        self.delays = Delays(self.d.clock_steps)

    @property
    def pager(self):
        """The receiver that fails next."""
        return random.choice(self.pagers)

    def now(self):
        return time.monotonic() - self.began

    def ends(self):
        return [self.d.began + e["at_s"] for e in self.d.exits]

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
        self.threads.append(threading.Thread(target=run, daemon=True, name=target.__name__))
        self.threads[-1].start()

    @contextlib.contextmanager
    def drawn(self, what, bed=""):
        entry = [what, bed, time.monotonic(), float("inf")]
        with self.lock:
            self.draw.append(entry)
        yield
        entry[3] = time.monotonic()

    # ---- the machine: how late it is with what should be done now ----

    def measure(self):
        while not self.over.is_set():
            at = time.monotonic()
            time.sleep(TICK_S)
            if (late := time.monotonic() - at - TICK_S) > TICK_S:
                self.late.append((time.monotonic(), late))

    def slack(self, at, before=2):
        return max((late for then, late in self.late if at - before <= then <= at + 1), default=0)

    def is_up(self, since):
        """Whether the daemon was at work from then on."""
        with self.lock:
            drawn = [e for e in self.draw if e[0] in DAEMON and e[3] + 20 > since]
        return not drawn and self.d.process.poll() is None and not any(end + 20 > since for end in self.ends())

    # ---- people ----

    def staff(self, n):
        rng = random.Random(f"{self.o.seed} staff {n}")
        while not self.over.wait(rng.uniform(1, 5)):
            code, out, _ = self.d.ctl("alarms", "--open", "--json")
            alarms = [a for a in map(json.loads, out.splitlines()) if not a.get("answered")] if code == 0 else []
            if not alarms:
                continue
            alarm = rng.choice(alarms)
            words = rng.choice([("ack", alarm["alarm"])] * 6 + [("silence", alarm["alarm"]), ("note", alarm["alarm"], "looked"), ("standby", alarm["bed"], "20s")])
            self.d.ctl("alarms", *words, *(("--person", f"Ana {n}") if words[0] != "standby" else ()))

    def get(self, path):
        """A page, or None where the daemon was not at work."""
        since = time.monotonic()
        try:
            return self.d.scrape(path, self.d.tokens["admin"])
        except (OSError, http.client.HTTPException) as error:
            gone = isinstance(error, urllib.error.HTTPError) and error.code == 404 and path.startswith(("/streams/", "/alarms/"))
            if not gone and self.is_up(since) and not self.over.is_set():
                self.lose("a page does not answer", f"{path}: {error}")
            return None

    def look(self):
        seen, waiting, looks = set(), ["/"], 0
        while not self.over.wait(LOOK_S):
            page = self.get("/streams")
            if page is not None:
                looks += 1
                tiles = re.findall(r'<li class="tile".*?<h2[^>]*>(?:<a[^>]*>)?([^<]*)', page, re.S)
                if sorted(t for t in tiles if t.startswith("bed-")) != sorted(self.names):
                    self.lose("the tiles are not the roster", tiles)
            streams = [path for path in seen if path.startswith("/streams/")]  # also of a stream that another one of its bed has replaced
            for path in [*waiting[:5], *random.sample(streams, min(3, len(streams)))]:
                text = self.get(path) or ""
                seen.add(path)
                waiting += [p for p in re.findall(r'href="(/[^"#]*)', text) if p not in seen and p not in waiting]
            waiting = waiting[5:] or ["/", "/alarms"]
        self.facts["looks"], self.facts["pages"] = looks, len(seen)

    # ---- the whole ----

    def notice(self, end):
        if not end["asked"] and not (end["status"] == 1 and any(e[0] == "full results volume" and e[3] + 2 > time.monotonic() - end["life_s"] for e in self.draw)):
            self.lose("the daemon died", end)

    def disturb(self, plan):
        for at, kind, lasts, seed in plan:
            time.sleep(max(0, at - self.now()))
            if self.now() > 60 * self.o.minutes:
                return
            print(f"{self.now():7.1f} s  {kind.name}, {lasts:.1f} s", flush=True)
            self.thread(self.inject, kind, lasts, seed)

    def inject(self, kind, lasts, seed):
        with self.drawn(kind.name), contextlib.suppress(ProcessLookupError, FileNotFoundError), kind.act(self, random.Random(seed)):
            time.sleep(lasts)
        if not self.d.until_it_answers():
            self.lose("no answer after", kind.name)

    def run(self):
        self.d.start()
        self.d.supervise(self.notice)
        self.d.bitten = lambda: self.lose("the watchdog was not fed")
        beds = [Bed(self, name, k) for k, name in enumerate(self.names)]
        for target, *args in ((self.measure,), (self.look,), (self.staff, 1), (self.staff, 2)):
            self.thread(target, *args)
        left = {k.name for k in FAULTS} - AT_WORK
        if not self.d.volumes.work:
            left.add("full results volume")
        self.disturb([(at + 20, *rest) for at, *rest in draw(self.o.seed, 60 * self.o.minutes - 20, left)])
        time.sleep(max(0, 60 * self.o.minutes - self.now()))
        self.finish(beds)

    def is_quiet(self):
        code, out, _ = self.d.ctl("alarms", "--json", timeout=30)
        return code == 0 and not any(a["kind"] == "alarm" and not a.get("off_ms") for a in map(json.loads, out.splitlines()))

    def finish(self, beds):
        """The beds are quiet; what is owed is told."""
        for p in self.pagers:
            p.mode = "ok"
        self.over.set()
        self.d.until_it_answers()
        for bed in beds:
            bed.signal = "quiet"
            bed.cable.set()
            bed.relay.release()
        until(self.is_quiet, "an alarm never went off", QUIET_S)
        for bed in beds:
            bed.close()
        for t in self.threads:
            t.join(PATIENCE)
        deadline = time.monotonic() + 150
        while any(p.owes and judge.Account(self.d, p.name).missing(p.told) for p in self.pagers) and time.monotonic() < deadline:
            time.sleep(1)
        judge.judge(self)
        if (status := self.d.end()) != 0:
            self.lose("the last stop", status)
        self.facts.update(losses=self.losses, exits=len(self.d.exits), slack_s=round(max((late for _, late in self.late), default=0), 2),
                          drawn={what: sum(e[0] == what for e in self.draw) for what in {e[0] for e in self.draw}})


def main():
    parser = argparse.ArgumentParser(description="A day in a ward, drawn from a seed.")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=20260722)
    parser.add_argument("--beds", type=int, default=8)
    parser.add_argument("--longest", type=float, default=20, metavar="S", help="for which a cable is out, a network or the daemon away (20)")
    parser.add_argument("--told-within", type=float, metavar="S", help="seconds: a loss if the 99th percentile of alarms came later to the hook")
    parser.add_argument("--json", help="file for the report")
    o = parser.parse_args()
    os.environ["BRR_STOP_AT_NULL"] = "1"
    print(f"seed {o.seed}", flush=True)
    tmp = tempfile.mkdtemp(prefix="brr-ward-day-")
    day = None
    try:
        day = Day(o, tmp)
        day.run()
    finally:
        if day is None or day.losses or sys.exc_info()[0]:
            if day:
                day.d.volumes.keep(tmp)
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
