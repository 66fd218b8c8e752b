"""What a day in a ward must leave: read from the journal, from what the receivers were told and from the draw. The wall clock of the daemon
is stepped, so entries are placed by the CLOCK_BOOTTIME that they have; one without it decides nothing. Each daemon has a journal and receivers of
its own: what it tells is judged by what it knew."""
import bisect
import sqlite3
import time
import types

from pager import Account, delivery_id, journal_of, twice

REJOIN_S = 10  # alarms.rejoin
STATUS_S = AGAIN_S = 300  # an alarm that is on for so long, or is on again so late, sounds as if nobody had answered it
NOISE_S = 0.2  # from the attempt's begin until the receiver has it, on a machine at rest
LONG_MIN = 6  # a longer day has enough of everything
TIMES, MORE_S, ENOUGH, FEW = 2, 0.2, 30, 10  # what a hostile token may cost; of so many figures a 99th percentile is taken, of fewer the highest
FLOOD = "flood"  # so begin the names of the hostile token's streams
PLACES = 4  # attempts of a hook at a time, half of them of one owner while others wait
FLIGHT_S = 15  # the longest attempt for which another one waits
SETTLED_S = 10  # after a fault: clients are back, and streams have caught up
STARTED_S = 2  # after its start a daemon makes attempts as ever
BED_FAULTS = ("cable_out", "network", "client_killed", "handed over")
DIED_S = ANSWERED_S = 1  # around a daemon's end: it may not have known that its receiver had it; and after so long without an answer
UNWRITTEN_S = 0.5  # for which an alarm waits for the journal before it is told
AWAY = ("kill -9", "SIGTERM", "daemon away")
OF_STRANGERS = ("hostile token", *AWAY)  # causes of all technical alarms of streams that are of no bed of the ward
CAUSES = {  # of each technical alarm: what may have been drawn, at any bed for those of the daemon
    "lost": ("network", "client_killed", *AWAY, "full results volume", "closed"), "no_signal": ("cable_out", "network", "daemon away", "moved", "closed"),
    "electrodes": ("electrodes",), "late": ("network", "cable_out", *AWAY, "held results volume", "moved"),
    "receiver": ("receiver fails",), "journal": ("full results volume", "held results volume", "hung fsync of results"), "clock": ("wall clock stepped",),
    "model": (*AWAY, "moved"), "rate": (), "twice": (), "learning": ("network", "cable_out", "electrodes", "client_killed", *AWAY, "moved")}
LINGERS_S = 95  # after its cause: the delay of its kind, ALARMS_RETURN_MS after a restart, and a standby in which it is not told


def rows(d, *kinds):
    """In the order in which they were written; "at": when each was made, monotonic, or None."""
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    with journal_of(d) as db:
        db.row_factory = sqlite3.Row
        found = [dict(r) for r in db.execute(f"SELECT * FROM journal WHERE kind IN ({','.join('?' * len(kinds))}) ORDER BY id", kinds)]
    return [{**r, "at": r["made_boot_ms"] / 1000 - since_boot if r["made_boot_ms"] else None} for r in found]


def causes_at(day, d):
    """What was drawn, as this daemon saw it: its own ends by their names, and "moved", the streams that it took from the other one. What the
    other daemon had drawn is a cause for it only where a client came from there."""
    own = dict(zip(sorted(d.faults, key=lambda name: "away" not in name), ("daemon away", "kill -9", "SIGTERM")))
    others = {name for x in day.daemons if x is not d for name in x.faults}
    drawn = [(own.get(what, what), bed, begin, end) for what, bed, begin, end in day.draw if what not in others]
    came = [("moved", r["client"], r["at"], r["at"]) for r in rows(d, "resumed", "opened") if r["at"] is not None and r["client"] in day.names]
    return drawn + came


class Timeline:
    """When each alarm was on, over and answered at this daemon, by the monotonic clock: {id: [(when, kind)]}. An alarm that is on and begins in
    another stream of its bed goes on there."""

    def __init__(self, d):
        self.of, on_in, known = {}, {}, 0
        of_alarms = ("alarm_on", "alarm_off", "answered")
        for r in rows(d, *of_alarms, "moved", "opened", "restored", "resumed", "lost", "escalated", "technical_on", "technical_off", "standby"):
            known = max(known, r["at"] or 0)
            if r["kind"] not in of_alarms:
                continue
            if r["kind"] == "answered" and r["at"] is not None:
                r["at"] = known  # an answer that was given at the other daemon is known when it comes
            if r["kind"] != "answered" or r["detail"].startswith("acknowledge"):
                goes_on = r["kind"] == "alarm_on" and on_in.get(r["alarm"], r["session"]) != r["session"]
                if r["kind"] == "alarm_on":
                    on_in[r["alarm"]] = r["session"]
                elif r["kind"] == "alarm_off":
                    on_in.pop(r["alarm"], None)
                if not goes_on:
                    self.of.setdefault(r["alarm"], []).append((r["at"], r["kind"]))

    def state(self, alarm, before):
        """(an answer covers it, for how long it was over) at that time, by the entries whose time is known."""
        answered, status, off, first, sounded = False, False, None, None, None
        for at, kind in [*((at, kind) for at, kind in self.of.get(alarm, ()) if at is not None and at <= before), (before, "")]:
            if kind == "alarm_on":
                again = answered and off is not None and at - sounded >= AGAIN_S
                first, sounded, answered, off = first or at, at if again or not first else sounded, answered and not again, None
            if first and not off and not status and at - first >= STATUS_S:
                answered, status = False, True
            answered |= kind == "answered"
            off = at if kind == "alarm_off" else off
        return answered, before - off if off else 0


def changes_of_all(day):
    """The alarm entries of all daemons in their order, each once: a stream that moves brings its newest ones along."""
    found, known = [], set()
    for d in day.daemons:
        last = 0
        for r in rows(d, "alarm_on", "alarm_off"):
            last = r["at"] if r["at"] is not None else last
            found.append((last, r))
    for _, r in sorted(found, key=lambda e: e[0]):
        key = r["session"], r["kind"], r["number"], r["alarm"]
        if key not in known or r["number"] is None:
            known.add(key)
            yield r


def is_from_before(day, r, last):
    """Whether this end is of a stream that a daemon has from before the end which the other daemon told. While the volume takes no snapshots, a stream
    does not survive a crash, as its client is told; the daemon that has its old snapshot waits for a client that has opened another stream. Nor does
    the daemon that had it before learn there that it moved: at its next start nobody knows of the stream any more."""
    if last is not None and r["kind"] == last["kind"] == "alarm_off" and r["detail"].startswith("not known whether"):
        return True  # the other daemon's folder did not answer within the seconds for which a start waits: this one had to cut its alarm
    unwritten = ("full results volume", "hung fsync of results")
    return (last is not None and r["kind"] == last["kind"] == "alarm_off" and (r["detail"] == "failed" or (r["detail"] == "expired" and r["number"] < last["number"]))
            and last["at"] is not None
            and any(e[0] in unwritten and e[2] - SETTLED_S <= last["at"] <= e[3] + SETTLED_S for e in day.draw))


def check_ends(day):
    kinds, on_in, last = {}, {}, {}
    for r in changes_of_all(day):
        if is_from_before(day, r, last.get(r["alarm"])):
            continue
        last[r["alarm"]] = r
        if r["kind"] == "alarm_off":
            on_in.pop(r["alarm"], None)
        elif on_in.setdefault(r["alarm"], r["session"]) != r["session"]:
            on_in[r["alarm"]] = r["session"]
            continue
        kinds.setdefault(r["alarm"], []).append(r["kind"])
    for alarm, of in kinds.items():
        if last[alarm]["client"].startswith(FLOOD) and of[0] == "alarm_off":
            of.insert(0, "alarm_on")  # it was among the oldest of that token's rows, which go first on a full volume
        if of != [("alarm_on", "alarm_off")[i % 2] for i in range(len(of))]:
            day.lose("on and off do not alternate", f"{alarm}: {of}")
        elif of[-1] != "alarm_off":
            day.lose("an alarm never went off", alarm)
    day.facts["alarms"] = len(kinds)


def untold(day, name):
    """What a daemon owed to its receiver of this name, none of them was told, and none has settled. Nobody is told of an alarm that came from the
    other daemon with its answer."""
    told, accounts = {i for p in day.pagers if p.name == name for i in p.told}, [Account(d, name) for d in day.daemons]
    moved = {r["session"] for d in day.daemons for r in rows(d, "moved")}
    answered = {delivery_id(name, r["session"], r["kind"], r["number"]) for d in day.daemons for r in rows(d, "alarm_on") if r["person"] and r["session"] in moved}
    missing = [{i: key for i, key in a.owed.items() if key in a.missing(told)} for a in accounts]
    return [key for a, of in zip(accounts, missing) for i, key in of.items()
            if i not in answered and not any(i in other.owed and i not in its for other, its in zip(accounts, missing))]


def attempts_for(d, name, i):
    return [a for p in d.pagers if p.name == name for a in p.attempts if i in (a[1]["id"], *a[1]["covers"])]


def told_by_both(day, name):
    """Ids that the receivers of two daemons took, although the first daemon did not end meanwhile, had its answer soon, and the other one began its
    attempt after that."""
    first_of = {}
    for d in day.daemons:
        for p in d.pagers:
            if p.name == name:
                for i, at in p.told.items():
                    first_of.setdefault(i, []).append((at[0], d))
    for i, of in first_of.items():
        if len(of) < 2:
            continue
        (at, d), (again, other) = sorted(of, key=lambda e: e[0])[:2]
        ended = any(e[0] in d.faults and e[2] - DIED_S <= at <= e[3] + DIED_S for e in day.draw)
        slow = any(begin <= at and end - begin > ANSWERED_S for begin, _, end in attempts_for(d, name, i))
        answered = max((end for begin, _, end in attempts_for(d, name, i) if begin <= at), default=at)
        later = any(answered < begin <= again for begin, _, _ in attempts_for(other, name, i))
        if later and not ended and not slow:
            yield i


def check_told(day):
    for name in [p.name for p in day.d.pagers if p.owes]:
        accounts = [Account(d, name) for d in day.daemons]
        told = [next(p.told for p in d.pagers if p.name == name) for d in day.daemons]
        owed = {i: key for account in accounts for i, key in account.owed.items()}
        if (missing := untold(day, name)):
            day.lose("alarms were owed and not told", f"{name}: {len(missing)} of {len(owed)}: {missing[:3]}")
        for d, its in zip(day.daemons, told):
            if (again := twice(its, d.ends())):
                day.lose("alarms were told twice", f"{name} of {d.name}: {[(owed.get(i), its[i]) for i in again[:3]]}")
        if (both := list(told_by_both(day, name))):
            day.lose("both daemons told an alarm", f"{name}: {len(both)}: {[owed.get(i) for i in both[:3]]}")
        day.facts[f"told by {name}"] = f"{sum(any(i in its for its in told) for i in owed)} of {len(owed)}"


def check_last(day, d):
    """Whoever heard that an alarm is on hears that it is over."""
    last = {r["alarm"]: (r["session"], r["start_s"]) for r in rows(d, "alarm_on", "alarm_off")}
    for r in rows(d, "told"):
        kind, _, outcome = r["detail"].partition(": ")
        if kind == "alarm_off" and (r["session"], r["start_s"]) == last.get(r["alarm"]) and outcome.startswith("not told"):
            day.lose("the end of an alarm was not told", f"{d.name}: {r['person']}: {r['alarm']}: {outcome}")


def check_messages(day, d, timeline):
    """None whose attempt began after the answer, or after an end that could be told: an alarm may go on within alarms.rejoin."""
    for pager in d.pagers:
        for at, body, _ in pager.attempts:
            e, text = body["entry"], body["text"]
            if e["kind"] not in ("alarm_on", "escalated") or any(words in text for words in ("acknowledged", "is unknown")):
                continue
            answered, over_s = timeline.state(e["alarm"], at - NOISE_S - day.slack(at))
            over_s = min(over_s, timeline.state(e["alarm"], at)[1])  # it is on again
            if answered or (e["kind"] == "alarm_on" and over_s > REJOIN_S):
                day.lose("a message after the answer or the end", f"{pager.name} of {d.name} at {at - day.began:.1f} s: {text!r}, answered {answered}, over for {over_s:.1f} s")


def check_causes(day, d, timeline, drawn, begun):
    """begun: the rows of technical alarms that began at this daemon; drawn: their causes."""
    counts = {}
    for r in begun:
        kind, at = r["detail"].partition(":")[0], r["at"]
        counts[kind] = counts.get(kind, 0) + 1
        if at is None:
            continue
        if kind == "unanswered":
            answered, _ = timeline.state(r["detail"].partition(": ")[2], at - 1)
            if answered:
                day.lose("nobody answers, although somebody did", f"{d.name}: {r['detail']}")
            continue
        may = OF_STRANGERS if r["client"] and r["client"] not in day.names else CAUSES[kind]
        causes = [(bed, begin, end) for what, bed, begin, end in drawn if what in may]
        if kind == "late" and day.slack(at, LINGERS_S) > 1:
            continue
        if not any((not bed or bed == r["client"]) and begin <= at <= end + LINGERS_S for bed, begin, end in causes):
            day.lose("a technical alarm without a cause", f"{d.name}: {r['detail']} at {r['client']!r}, {at - day.began:.1f} s")
    day.facts[f"technical at {d.name}"] = counts


def prove_causes():
    """The check of causes finds technical alarms of beds and of strangers that nothing in the draw explains, and no others."""
    found = []
    day = types.SimpleNamespace(began=0, names=["bed-1", "bed-2"], slack=lambda *_: 0, facts={}, lose=lambda _, detail: found.append(detail))
    drawn = [("hostile token", "", 60, 115), ("electrodes", "bed-1", 300, 330), ("closed", "bed-1", 900, float("inf")), ("kill -9", "", 600, 600)]
    held = [("twice", "flood", 80), ("electrodes", "flood", 150), ("rate", "flood 7", 189), ("late", "flood", 100), ("electrodes", "bed-1", 335), ("lost", "bed-1", 915),
            ("no_signal", "bed-1", 930), ("lost", "bed-2", 620), ("lost", "flood 7", 620)]
    broken = [("twice", "bed-1", 80), ("electrodes", "bed-1", 150), ("rate", "bed-1", 100), ("twice", "flood", 50), ("electrodes", "flood", 335), ("late", "flood", 250),
              ("electrodes", "bed-2", 335), ("lost", "bed-1", 890), ("lost", "bed-2", 915), ("late", "bed-1", 915), ("no_signal", "bed-2", 930), ("receiver", "", 80)]
    check_causes(day, types.SimpleNamespace(name="a"), None, drawn, [{"detail": f"{kind}: why", "client": bed, "at": at} for kind, bed, at in held + broken])
    assert found == [f"a: {kind}: why at {bed!r}, {at:.1f} s" for kind, bed, at in broken], found


# ---- how late: of alarms, and of streams ----

def disturbed(day, bed, begin, end, daemons, settled_s):
    """Whether a fault of this bed, an end of one of these daemons or a full volume lies in this time, or just before. A seizure is no fault."""
    names = {"full results volume"}.union(*(d.faults for d in daemons))
    drawn = any(((e[1] == bed and e[0] in BED_FAULTS) or e[0] in names) and e[2] <= end and e[3] + settled_s > begin for e in day.draw)
    return drawn or any(begin - settled_s < at <= end for d in daemons for at in d.ends())


def minute_of(day, at):
    """Of the hostile token, or without it; the minute in which it begins or ends counts by the moment."""
    return "with" if any(e[0] == "hostile token" and e[2] <= at <= e[3] for e in day.draw) else "without"


def p99(values):
    return round(sorted(values)[int(0.99 * (len(values) - 1))], 3) if values else None


def most_at_once(flights):
    return max((sum(a <= begin < end for a, _, end in flights) for begin, *_ in flights), default=0)


def had_a_place(day, flights, bed):
    """Whether one was free for an alarm of this bed all the time, so that it had to wait for no attempt."""
    own = [f for f in flights if f[1]["entry"]["client"] in day.names]
    return most_at_once(flights) < PLACES and most_at_once(own) < PLACES // 2 and not any(body["entry"]["client"] == bed for _, body, _ in own)


def check_attempts(day, d, begun):
    """The first attempt for an alarm of a bed begins at once, or after the attempts that hold the places of its owner. begun: the rows of alarms, and of
    streams that go on from a snapshot, which bring alarms of before. Returns how late those were that had a place, however many attempts of others there were."""
    lags, came = {"with": [], "without": []}, [(r["session"], r["at"]) for r in begun if r["kind"] == "restored" and r["at"] is not None]
    begun = [r for r in begun if r["kind"] == "alarm_on" and r["live"] and r["client"] in day.names and r["at"] is not None]
    for pager in d.pagers:
        if not pager.owes:
            continue
        attempts = sorted(pager.attempts, key=lambda a: a[0])
        first, begins = {}, [a[0] for a in attempts]
        for at, body, _ in attempts:
            for i in (body["id"], *body["covers"]):
                first.setdefault(i, at)
        for r in begun:
            told = first.get(delivery_id(pager.name, r["session"], r["kind"], r["number"]))
            if told is None or any(session == r["session"] and r["at"] - STARTED_S <= at <= told for session, at in came) or disturbed(day, "", r["at"], told, [d], STARTED_S):
                continue
            between = attempts[:bisect.bisect_right(begins, told)]
            flights = [(a, body, min(end, told)) for a, body, end in between if end >= r["at"] and a < told]
            own = sum(a > r["at"] and body["entry"]["client"] in day.names for a, body, _ in flights)
            longest = min(FLIGHT_S, max((end - a for a, _, end in flights), default=0))
            hung = any(e[0] == "hung fsync of results" and e[2] <= told and e[3] + 1 > r["at"] for e in day.draw)
            may = NOISE_S + longest * (1 + (own + 1) // 2) + UNWRITTEN_S * hung + day.slack(told, told - r["at"] + 2)
            late = told - r["at"]
            if had_a_place(day, flights, r["client"]):
                lags[minute_of(day, r["at"])].append(max(0, late - UNWRITTEN_S * hung - day.slack(told, late + 2)))
            if late > may:
                day.lose("an attempt began late", f"{pager.name} of {d.name}: {r['alarm']} of {r['client']} at {r['at'] - day.began:.1f} s after {late:.2f} s; "
                         f"may be {may:.2f} s: {len(flights)} attempts, {own} of its owner, the longest of {longest:.2f} s")
    return lags


def compare(day, what, values):
    """Of fewer than ENOUGH figures with the hostile token none may be higher, since each is a larger part of them than a 99th percentile leaves out."""
    found = {which: {"n": len(v), "p99": p99(v), "highest": round(max(v, default=0), 3)} for which, v in values.items()}
    day.facts[what] = found
    n, judged = min(f["n"] for f in found.values()), "p99" if found["with"]["n"] >= ENOUGH else "highest"
    if day.o.minutes > LONG_MIN and n < FEW:
        day.lose("too few figures to compare", f"{what}: {found}")
    elif n >= FEW and found["with"][judged] > TIMES * found["without"]["p99"] + MORE_S:
        day.lose("a hostile token makes others late", f"{what}: {found}")


def check_flood(day):
    """The hostile token has alarms that are told; else a long day compares nothing."""
    n = sum(a[1]["entry"]["client"].startswith(FLOOD) for d in day.daemons for p in d.pagers for a in p.attempts)
    day.facts["attempts for the hostile token"] = n
    if day.o.minutes > LONG_MIN and n < ENOUGH:
        day.lose("the hostile token had hardly an alarm", n)


def check_lags(day):
    streams, attempts = {"with": [], "without": []}, {"with": [], "without": []}
    for at, bed, lag_s in day.lags:
        if not disturbed(day, bed, at - 1, at, day.daemons, SETTLED_S):
            streams[minute_of(day, at)].append(max(0, lag_s - day.slack(at)))
    for d in day.daemons:
        for which, lags in check_attempts(day, d, rows(d, "alarm_on", "restored")).items():
            attempts[which] += lags
    compare(day, "attempt after s", attempts)
    compare(day, "streams behind s", streams)


def prove_attempts():
    """The checks of attempts find what they are for: an alarm of a bed that waits behind attempts of others, and alarms that begin late while the
    hostile token is at work, beside whose attempts there was a place. Every other alarm here is told at once, also beside an attempt that hangs."""
    found, at, rows_of, attempts = [], {"hang": 100, "queue": 200, "with": 300, "without": 700}, [], []
    day = types.SimpleNamespace(began=0, names=["bed-1"], draw=[("hostile token", "", 300, 650)], slack=lambda *_: 0, facts={}, o=types.SimpleNamespace(minutes=20),
                                lose=lambda what, detail="": found.append((what, detail)))
    d = types.SimpleNamespace(name="a", faults=set(), ends=lambda: [], pagers=[types.SimpleNamespace(name="pager", owes=True, attempts=attempts)])

    def attempt(begin, end, bed, alarm=None):
        attempts.append([begin, {"id": alarm and delivery_id("pager", alarm, "alarm_on", 0), "covers": [], "entry": {"client": bed}}, end])

    def alarm(begin, late_s):
        rows_of.append({"live": 1, "client": "bed-1", "at": begin, "session": f"at {begin}", "kind": "alarm_on", "number": 0, "alarm": f"at {begin}"})
        attempt(begin + late_s, begin + late_s + 0.01, "bed-1", f"at {begin}")
    attempt(at["hang"] - 1, at["hang"] + 5, "another")
    alarm(at["hang"], 0.1)
    for k in range(5 * PLACES):
        attempt(at["queue"] + k // PLACES, at["queue"] + k // PLACES + 1, "another")
    alarm(at["queue"], 5.01)
    for which, late_s in (("with", 0.4), ("without", 0.05)):
        for k in range(ENOUGH):
            alarm(at[which] + 10 * k, late_s if which == "without" or k % 2 else 0.15)
            for _ in range(PLACES - 1 if which == "with" else 0):
                attempt(at[which] + 10 * k - 0.01, at[which] + 10 * k + 0.02, "flood 1")
    lags = check_attempts(day, d, rows_of)
    compare(day, "attempt after s", lags)
    for with_s in ([0.05] * FEW, [0.05] * (ENOUGH - 2) + [0.4], [0.05] * (FEW - 1)):  # the second one is late, the third too few
        compare(day, "few", {"with": with_s, "without": [0.05] * ENOUGH})
    what = [w for w, _ in found]
    assert [len(lags[which]) for which in ("with", "without")] == [ENOUGH, ENOUGH + 1], lags  # of the queue none, beside what hangs one
    late, slow, few = map(what.count, ("an attempt began late", "a hostile token makes others late", "too few figures to compare"))
    assert (late, slow, few, len(what)) == (1 + ENOUGH // 2, 2, 1, 4 + ENOUGH // 2), found


def check_delays(day, limit_s):
    """Alarms of beds whose owner did nothing wrong, from the decision to the receiver's answer."""
    delays = []
    for d in day.daemons:
        ids = [(r["at"], delivery_id("pager", r["session"], r["kind"], r["number"])) for r in rows(d, "alarm_on")
               if r["live"] and r["client"] in day.names and r["at"] is not None]
        told = next(p.told for p in d.pagers if p.name == "pager")
        delays += [(at, told[i][0]) for at, i in ids if i in told]
    figures = day.delays.of_decided(delays)
    day.facts["hook after s"] = figures
    if limit_s is not None and (figures["p99"] or 0) > limit_s:
        day.lose("alarms came late", f"{figures}")


def judge(day):
    check_told(day)
    check_ends(day)
    for d in day.daemons:
        timeline = Timeline(d)
        check_last(day, d)
        check_messages(day, d, timeline)
        check_causes(day, d, timeline, causes_at(day, d), rows(d, "technical_on"))
    check_flood(day)
    check_lags(day)
    check_delays(day, day.o.told_within)
