"""What a day in a ward must leave: read from the journal, from what the receivers were told and from the draw. The wall clock of the daemon
is stepped, so entries are placed by the CLOCK_BOOTTIME that they have; one without it decides nothing."""
import sqlite3
import time

from pager import Account, delivery_id, journal_of, twice

REJOIN_S = 10  # alarms.rejoin
STATUS_S = AGAIN_S = 300  # an alarm that is on for so long, or is on again so late, sounds as if nobody had answered it
NOISE_S = 0.2  # from the attempt's begin until the receiver has it, on a machine at rest
CAUSES = {  # of each technical alarm: what may have been drawn, at any bed for those of the daemon
    "lost": ("network", "client_killed", "kill -9", "SIGTERM", "daemon away", "full results volume"), "no_signal": ("cable_out", "network", "daemon away"),
    "electrodes": ("electrodes",), "late": ("network", "cable_out", "kill -9", "SIGTERM", "daemon away", "hostile token", "held results volume"),
    "receiver": ("receiver fails",), "journal": ("full results volume", "held results volume", "hung fsync of results"), "clock": ("wall clock stepped",),
    "model": ("kill -9", "SIGTERM", "daemon away"), "rate": (), "twice": (),
    "learning": ("network", "cable_out", "electrodes", "client_killed", "kill -9", "SIGTERM", "daemon away")}
LINGERS_S = 75  # after its cause: the delay of its kind, and ALARMS_RETURN_MS after a restart


def rows(d, *kinds):
    """In the order in which they were written; "at": when each was made, monotonic, or None."""
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    with journal_of(d) as db:
        db.row_factory = sqlite3.Row
        found = [dict(r) for r in db.execute(f"SELECT * FROM journal WHERE kind IN ({','.join('?' * len(kinds))}) ORDER BY id", kinds)]
    return [{**r, "at": r["made_boot_ms"] / 1000 - since_boot if r["made_boot_ms"] else None} for r in found]


class Timeline:
    """When each alarm was on, over and answered, by the monotonic clock: {id: [(when, kind)]}. An alarm that is on and begins in another stream of
    its bed goes on there."""

    def __init__(self, day):
        self.of, on_in = {}, {}
        for r in rows(day.d, "alarm_on", "alarm_off", "answered"):
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


def check_told(day):
    for pager in day.pagers:
        if not pager.owes:
            continue
        account = Account(day.d, pager.name)
        missing = account.missing(pager.told)
        if missing:
            day.lose("alarms were owed and not told", f"{pager.name}: {len(missing)} of {len(account.owed)}: {missing[:3]}")
        if (again := twice(pager.told, day.ends())):
            day.lose("alarms were told twice", f"{pager.name}: {again[:3]}")
        day.facts[f"told by {pager.name}"] = f"{sum(i in pager.told for i in account.owed)} of {len(account.owed)}"


def check_ends(day, timeline):
    for alarm, changes in timeline.of.items():
        kinds = [kind for _, kind in changes if kind != "answered"]
        if kinds != [("alarm_on", "alarm_off")[i % 2] for i in range(len(kinds))]:
            day.lose("on and off do not alternate", f"{alarm}: {kinds}")
        elif kinds and kinds[-1] != "alarm_off":
            day.lose("an alarm never went off", alarm)
    day.facts["alarms"] = len(timeline.of)


def check_last(day):
    """Whoever heard that an alarm is on hears that it is over."""
    ends = {(r["alarm"], r["start_s"]): None for r in rows(day.d, "alarm_on", "alarm_off")}
    last = {alarm: start_s for alarm, start_s in ends}
    for r in rows(day.d, "told"):
        kind, _, outcome = r["detail"].partition(": ")
        if r["alarm"] in last and kind == "alarm_off" and r["start_s"] == last[r["alarm"]] and outcome.startswith("not told"):
            day.lose("the end of an alarm was not told", f"{r['person']}: {r['alarm']}: {outcome}")


def check_messages(day, timeline):
    """None whose attempt began after the answer, or after an end that could be told: an alarm may go on within alarms.rejoin."""
    for pager in day.pagers:
        for at, body in pager.attempts:
            e, text = body["entry"], body["text"]
            if e["kind"] not in ("alarm_on", "escalated") or any(words in text for words in ("acknowledged", "is unknown")):
                continue
            answered, over_s = timeline.state(e["alarm"], at - NOISE_S - day.slack(at))
            over_s = min(over_s, timeline.state(e["alarm"], at)[1])  # it is on again
            if answered or (e["kind"] == "alarm_on" and over_s > REJOIN_S):
                day.lose("a message after the answer or the end", f"{pager.name} at {at - day.began:.1f} s: {text!r}, answered {answered}, over for {over_s:.1f} s")


def check_causes(day, timeline):
    counts = {}
    for r in rows(day.d, "technical_on"):
        kind, at = r["detail"].partition(":")[0], r["at"]
        counts[kind] = counts.get(kind, 0) + 1
        if at is None:
            continue
        if kind == "unanswered":
            answered, _ = timeline.state(r["detail"].partition(": ")[2], at - 1)
            if answered:
                day.lose("nobody answers, although somebody did", r["detail"])
            continue
        causes = [(bed, begin, end) for what, bed, begin, end in day.draw if what in CAUSES[kind]]
        if kind == "late" and day.slack(at, LINGERS_S) > 1:
            continue
        if not any((not bed or bed == r["client"]) and begin <= at <= end + LINGERS_S for bed, begin, end in causes):
            day.lose("a technical alarm without a cause", f"{r['detail']} at {r['client']!r}, {at - day.began:.1f} s")
    day.facts["technical"] = counts


def check_delays(day, limit_s):
    """Alarms of beds whose owner did nothing wrong, from the decision to the receiver's answer."""
    begun = [r for r in rows(day.d, "alarm_on") if r["live"] and r["client"] in day.names]
    for pager in day.pagers[:1]:
        ids = [(r["at"], delivery_id(pager.name, r["session"], r["kind"], round(r["start_s"] * 256))) for r in begun if r["at"] is not None]
        figures = day.delays.of_decided((at, pager.told[i][0]) for at, i in ids if i in pager.told)
        day.facts["hook after s"] = figures
        if limit_s is not None and (figures["p99"] or 0) > limit_s:
            day.lose("alarms came late", f"{pager.name}: {figures}")


def judge(day):
    timeline = Timeline(day)
    check_told(day)
    check_ends(day, timeline)
    check_last(day)
    check_messages(day, timeline)
    check_causes(day, timeline)
    check_delays(day, day.o.told_within)
