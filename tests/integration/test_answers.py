#!/usr/bin/env python3
"""A test alarm of a bed takes the way of an alarm: the hooks of its escalation are told when nobody answers, an answer ends that, and
both survive kill -9. All alarms of a bed are acknowledged by the ids that were listed, and one that began later is not. Rights: a
token without the word `answer`, and one for other beds, are refused."""
import csv
import glob
import http.client
import json
import os
import pty
import re
import subprocess
import sys
import time
import urllib.parse

from daemon import BIN, PATIENCE, Daemon, make_corpus, temporary, until
from secured import Secured
from test_alarm_hooks import Hooked, lines, script, soon
from test_stream_journal import RULE, journal


class Ward(Hooked):
    def __init__(self, directory, hooks, extra):
        super().__init__(directory, hooks)
        with open(f"{directory}/daemon.yaml", "a", encoding="utf-8") as f:
            f.write(extra)


def alarms(d, *options):
    return [json.loads(line) for line in d.ctl("alarms", *options, "--json")[1].splitlines()]


def steps(path):
    """How often the hook that writes this file was told of a step."""
    kinds = [json.loads(line)["entry"]["kind"] for line in lines(path)]
    assert set(kinds) <= {"escalated"}, kinds
    return len(kinds)


def rows(d, kind):
    return [json.loads(line) for line in d.ctl("journal", "--kind", kind, "--json")[1].splitlines()]


def steps_when_told(d, path, hook, first_step=1):
    """How often the hook was told of a step, once it has been told of each that was taken: no call is under way."""
    def told():
        return [row for row in rows(d, "told") if row["person"] == hook and row["detail"].startswith("escalated")]
    until(lambda: len(told()) == sum(row["step"] >= first_step for row in rows(d, "escalated")), lambda: (told(), rows(d, "escalated")))
    return steps(path)


def answers_and_escalation():
    with temporary() as tmp:
        write = script(f"{tmp}/write", 'printf "%s\\n" "$(cat)" >> "$1"\n')
        told = [f"{tmp}/told-{name}" for name in ("all", "first", "last", "technical")]
        d = Ward(tmp, [{"name": "all", "command": [write, told[0]]}, {"name": "first", "command": [write, told[1]]},
                       {"name": "last", "command": [write, told[2]]},
                       {"name": "technical", "command": [write, told[3]], "kinds": ["technical_on", "technical_off"]}],
                 "  escalation: [{after: 1s, hooks: [first]}, {after: 2s, hooks: [last]}]\n  repeat: 1s\n").start()
        code, out, err = d.ctl("alarms", "test", "bed 7", "--json")
        assert code == 0, err
        alarm = json.loads(out)
        assert alarm["bed"] == "bed 7" and alarm["test"] and alarm["live"] and alarm["open"] and alarm["sound"] == "high", alarm
        soon(lambda: lines(told[0]), lambda: d.read_log()[-2000:])
        assert json.loads(lines(told[0])[0])["entry"]["kind"] == "alarm_on"
        soon(lambda: steps(told[2]) > 0, lambda: d.read_log()[-2000:])
        soon(lambda: [row for row in rows(d, "told") if row["person"] == "first"], lambda: rows(d, "told"))  # else it may be told twice
        d.kill()
        d.start()
        soon(lambda: len(rows(d, "escalated")) > 2, lambda: d.read_log()[-2000:])
        assert steps(told[1]) == 1 and [row["step"] for row in rows(d, "escalated")][:3] == [1, 2, 3], rows(d, "escalated")
        unanswered = until(lambda: [a for a in alarms(d, "--open") if a["kind"] == "unanswered"], lambda: alarms(d))
        assert [a["bed"] for a in unanswered] == ["bed 7"] and unanswered[0]["why"] == alarm["alarm"], unanswered
        began = until(lambda: rows(d, "technical_on"), "no row of the technical alarm")
        assert [(row["alarm"], row["client"], row["detail"]) for row in began] == [(unanswered[0]["alarm"], "bed 7", f"unanswered: {alarm['alarm']}")], began

        code, out, err = d.ctl("alarms", "ack", alarm["alarm"], "--person", "Ana B")
        assert code == 0 and "acknowledged by Ana B" in out, (out, err)
        assert d.ctl("alarms", "ack", alarm["alarm"])[0] == 0
        assert d.ctl("alarms", "mark", alarm["alarm"], "false")[0] == 0
        assert d.ctl("alarms", "note", alarm["alarm"], "a drill: nothing to do")[0] == 0
        for field in ({"note": 150 * "ü"}, {"note": "call 1", "person": 160 * "ü"}):  # what does not fit takes nothing away
            assert post(d, {"alarm": alarm["alarm"], "action": "note", **field}) == 400, field
        n = steps_when_told(d, told[2], "last", first_step=2)
        soon(lambda: rows(d, "technical_off"), lambda: alarms(d))
        d.kill()
        d.start()
        time.sleep(1.8)  # longer than alarms.repeat
        assert steps(told[2]) == n
        again = [a for a in alarms(d) if a["alarm"] == alarm["alarm"]]
        assert again[0]["answered"]["person"] == "Ana B" and again[0]["answered"]["via"] == "brrctl", again
        assert again[0]["mark"] == "false" and again[0]["note"] == "a drill: nothing to do", again
        assert [row["detail"] for row in rows(d, "answered")] == ["acknowledge via brrctl by Ana B", "mark false via brrctl",
                                                   "note via brrctl: a drill: nothing to do"], rows(d, "answered")

        soon(lambda: lines(told[3]), lambda: d.read_log()[-2000:])
        assert "nobody answers" in json.loads(lines(told[3])[0])["text"], lines(told[3])
        assert len(rows(d, "technical_on")) == len(rows(d, "technical_off")) == 1

        check_test_page(d, json.loads(lines(told[0])[0])["url"])
        over = begin(d, "bed 8")
        check_labels(d, tmp)
        check_order(d, over)
        check_lost(d, tmp)
        check_ended(d, tmp)
        check_replay(d, tmp)
        assert d.ctl("alarms", "test", '=HYPERLINK("http://x")')[0] == 0  # a table must take no name for a formula
        table = list(csv.DictReader(d.ctl("journal", "--kind", "alarm_on", "--csv")[1].splitlines()))
        assert table[-1]["client"] == """'=HYPERLINK("http://x")""" and table[0]["client"] == "bed 7", table
        assert d.ctl("alarms", "standby", "bed 7", "30m")[0] == 0 and d.ctl("alarms", "standby", "bed 7", "off")[0] == 0
        began, over = d.ctl("journal", "--kind", "standby")[1].splitlines()[-2:]
        assert re.search(r": until \d{4}-.*, via brrctl", began) and ": over, via brrctl" in over, (began, over)
        assert d.ctl("alarms", "--since", "1h", "--bed", "bed*", "--json")[0] == 0  # the verb may be left out before options too
        for words, code, text in ((("ack", "nothing"), 3, "no alarm"), (("mark", alarm["alarm"], "maybe"), 1, "true, false"),
                                  (("silence", alarm["alarm"], "--for", "11m"), 1, "10 min"), (("standby", "b", "25h"), 1, "24 h"),
                                  (("ak", "x"), 2, "did you mean ack"), (("ack",), 2, "ALARM")):
            got = d.ctl("alarms", *words)
            assert got[0] == code and text in got[2], (words, got)
        assert d.stop() == 0


def check_test_page(d, url):
    """The link in the message of a test alarm says what it was: when, by whom, who was told, who answered."""
    assert url.startswith("https://eeg.example/streams/test") and "?" not in url, url
    said = ("<dt>made</dt>", "<dt>told</dt><dd>all, alarm_on: delivered", "<dt>told</dt><dd>first, escalated: delivered", "<dt>told</dt><dd>last, escalated: delivered", "<dt>nobody had answered</dt><dd>call 2, <time", "<dt>answered</dt><dd>Ana B, <time", "a drill: nothing to do” (uid:", "<h1>bed 7</h1><p>Test alarm</p>")
    until(lambda: (answer := get(d, url.removeprefix("https://eeg.example")))[0] == 200 and all(text in answer[1] for text in said),
          lambda: (said, get(d, url.removeprefix("https://eeg.example"))))
    zone = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z+-][\w+-]+"
    assert re.search(rf"acknowledged by Ana B {zone}, false alarm, \"a drill: nothing to do\" \(uid:\d+ {zone}\)", d.ctl("alarms")[1]), d.ctl("alarms")
    assert re.search(rf"^{zone} +- +bed 7 +answered .* acknowledge via brrctl by Ana B$", d.ctl("journal")[1], re.M), d.ctl("journal")
    until(lambda: get(d, "/streams/test0")[0] == 404, "a page of nothing")


def check_order(d, over):
    """What is on stands before what is over and waits, on the page and in brrctl."""
    until(lambda: [a for a in alarms(d) if a["alarm"] == over and a["off_ms"]], lambda: alarms(d))
    on, answered = begin(d, "bed 11"), begin(d, "bed 12")
    assert d.ctl("alarms", "ack", answered)[0] == 0
    listed = [a["alarm"] for a in alarms(d) if a["alarm"] in (over, on, answered)]
    assert listed == [on, answered, over], listed
    shown = lambda: [i for i in re.findall(r'id="a-([^"]+)"', page(d)) if i in listed]
    until(lambda: shown() == listed, lambda: (shown(), listed))  # the page may be of the second before the answer
    for alarm in (on, over):
        assert d.ctl("alarms", "ack", alarm)[0] == 0


def check_labels(d, tmp):
    """Marks become labels: true is the event that overlaps the alarm, false is background, all other time is unknown."""
    make_corpus(f"{tmp}/eeg", seed=31, patients=1, hours=0.1, seizures=2)
    path = sorted(glob.glob(f"{tmp}/eeg/**/*_eeg.edf", recursive=True))[0]
    code, _, err = d.ctl("stream", path, "--client", "bed 9", *RULE, "--realtime", "200", "--as-live", "--output", f"{tmp}/x.tsv")
    assert code == 0, err
    found = [a for a in alarms(d) if a["bed"] == "bed 9" and a["kind"] == "alarm"]  # not that results are late on a busy machine
    spans = [(row["start_s"], row["end_s"]) for row in journal(d, "--bed", "bed 9") if row["kind"] == "event"]
    ends = {row["alarm"]: row["start_s"] for row in journal(d, "--bed", "bed 9") if row["kind"] == "alarm_off"}
    hit = next(a for a in found if any(start <= ends[a["alarm"]] and end >= a["start_s"] for start, end in spans))
    span = next((start, end) for start, end in spans if start <= ends[hit["alarm"]] and end >= hit["start_s"])
    other = next(a for a in found if ends[a["alarm"]] < span[0] or a["start_s"] > span[1])
    for words in (("mark", hit["alarm"], "true", "--person", "Ana"), ("mark", other["alarm"], "false", "--person", "Ana"), ("ack", hit["alarm"]), ("ack", other["alarm"])):
        assert d.ctl("alarms", *words)[0] == 0, words
    bed = [json.loads(line) for line in d.ctl("alarms", "report", "--since", "1h", "--bed", "bed*9", "--json")[1].splitlines()][0]
    assert [bed[name] for name in ("bed", "alarms", "true", "false", "acknowledged")] == ["bed 9", len(found), 1, 1, 2], bed
    began = {a["alarm"]: a["on_ms"] for a in found}
    waits = [(row["received_ms"] - began[row["alarm"]]) / 1000 for row in journal(d, "--bed", "bed 9") if row["kind"] == "answered" and "acknowledge" in row["detail"]]
    assert len(waits) == 2 and abs(bed["acknowledged_after_s_median"] - sum(waits) / 2) < 0.002, (bed, waits)
    code, _, err = d.ctl("alarms", "export", "--as", "labels", "--output", f"{tmp}/labels")
    assert code == 0, err
    written = glob.glob(f"{tmp}/labels/bed-9_*_events.tsv")
    assert len(written) == 1 and set(os.listdir(f"{tmp}/labels")) == {os.path.basename(written[0]), ".brrd-output.json"}, os.listdir(f"{tmp}/labels")
    table = [line.split("\t") for line in lines(written[0])][1:]
    assert {row[2] for row in table} == {"sz", "bckg", "unknown"}
    for before, after in zip(table, table[1:]):
        assert abs(float(before[0]) + float(before[1]) - float(after[0])) < 0.011, table  # no time is without a row
    assert {row[8] for row in table if row[2] != "unknown"} == {"Ana"}, table
    assert len(sz := seizures(table)) == 1 and close(sz[0], span), (sz, span)
    assert {row[9] for row in table if row[8] == "Ana"} == {f"alarm {hit['alarm']} marked true", f"alarm {other['alarm']} marked false"}, table


def check_lost(d, tmp):
    """A client that is gone after an alarm that nobody has answered: lists say that the connection is lost, not only that it was on."""
    path = sorted(glob.glob(f"{tmp}/eeg/**/*_eeg.edf", recursive=True))[0]
    words = ["stream", path, "--client", "bed 13", *RULE, "--realtime", "40", "--as-live", "--output", f"{tmp}/y.tsv"]
    client = subprocess.Popen([f"{BIN}/brrctl", *words], env=d.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: [a for a in alarms(d, "--open") if a["bed"] == "bed 13" and a["kind"] == "alarm"], lambda: alarms(d))
    client.kill()
    client.wait(PATIENCE)
    for listing in ("sessions", "beds"):
        row = r"(?:was on|ALARM, blind:|ALARM),? connection lost"
        until(lambda: [line for line in d.ctl(listing)[1].splitlines() if "bed 13" in line and re.search(row, line)], lambda: d.ctl(listing))
    until(lambda: re.search(r">(?:blind: )?connection lost[;,] ", page(d, "/streams")), lambda: page(d, "/streams"))
    assert d.ctl("alarms", "ack", "bed 13", "--yes")[0] == 0


def check_ended(d, tmp):
    """A stream that ended in order after such an alarm: lists say so, and nothing of its connection."""
    path = sorted(glob.glob(f"{tmp}/eeg/**/*_eeg.edf", recursive=True))[0]
    code, _, err = d.ctl("stream", path, "--client", "bed 15", *RULE, "--realtime", "400", "--as-live", "--output", f"{tmp}/z.tsv")
    assert code == 0, err
    until(lambda: re.search("^bed 15 .*was on, ended ", d.ctl("beds")[1], re.M), lambda: d.ctl("beds"))
    assert d.ctl("alarms", "ack", "bed 15", "--yes")[0] == 0


def check_replay(d, tmp):
    """Lists say of a replay in alarm that it is one: no patient has that alarm now."""
    path = sorted(glob.glob(f"{tmp}/eeg/**/*_eeg.edf", recursive=True))[0]
    words = ["stream", "-", "--replay", "--client", "bed 14", "--model", "line_length", "--on", "0.002", "--off", "0.001", "--alarms"]
    client = subprocess.Popen([f"{BIN}/brrctl", *words], env=d.env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    with open(path, "rb") as f:
        client.stdin.write(f.read())  # its end does not come, so the stream stays in alarm
    client.stdin.flush()
    for listing in ("sessions", "beds"):
        until(lambda: [line for line in d.ctl(listing)[1].splitlines() if "bed 14" in line and "replay: alarm" in line], lambda: d.ctl(listing))
    assert [s["replay"] for s in map(json.loads, d.ctl("sessions", "--json")[1].splitlines()) if s["client"] == "bed 14"] == [True]
    client.stdin.close()
    client.wait(PATIENCE)


def seizures(table):
    return [(float(row[0]), float(row[0]) + float(row[1])) for row in table if row[2] == "sz"]


def close(a, b):
    return all(abs(x - y) < 0.02 for x, y in zip(a, b))


def check_rejoined(d, tmp):
    """An alarm that goes on after a client's restart is marked once: each stream's file has its part, by the samples of that stream."""
    make_corpus(f"{tmp}/two", seed=31, patients=1, hours=0.1, seizures=2)
    path = glob.glob(f"{tmp}/two/**/*_eeg.edf", recursive=True)[0]
    for _ in range(2):
        assert d.ctl("stream", path, "--client", "bed 10", *RULE, "--realtime", "200", "--as-live", "--output", f"{tmp}/x.tsv")[0] == 0
    on = [row for row in journal(d, "--bed", "bed 10") if row["kind"] == "alarm_on"]
    first, second = dict.fromkeys(row["session"] for row in on)
    joined = next(row["alarm"] for row in on if row["session"] == second)
    assert joined == [row["alarm"] for row in on if row["session"] == first][-1], on
    assert d.ctl("alarms", "mark", joined, "true")[0] == 0
    code, _, err = d.ctl("alarms", "export", "--as", "labels", "--bed", "bed 10", "--output", f"{tmp}/rejoined")
    assert code == 0, err
    for session in (first, second):
        start, *_, end = [row["start_s"] for row in journal(d, "--bed", "bed 10", "--session", session) if row["alarm"] == joined and row["kind"].startswith("alarm_")]
        with open(f"{tmp}/rejoined/bed-10_{session[:8]}_events.tsv", encoding="utf-8") as f:
            table = [row for row in (line.split("\t") for line in f.read().splitlines()[1:]) if row[9].startswith(f"alarm {joined} marked true")]
        assert len(table) == 1 and float(table[0][0]) < end and start < float(table[0][0]) + float(table[0][1]), (table, start, end)
        events = [row for row in journal(d, "--bed", "bed 10", "--session", session) if row["kind"] == "event" and row["start_s"] <= end and row["end_s"] >= start]
        assert table[0][2] == ("sz" if events else "unknown") and ("no event" in table[0][9]) == (not events), (table, events)


def begin(d, bed):
    return json.loads(d.ctl("alarms", "test", bed, "--json")[1])["alarm"]


def waiting(d, bed):
    return {a["alarm"] for a in alarms(d, "--open") if a["bed"] == bed and not a.get("answered")}


def ask_at_terminal(d, say, meanwhile):
    """`ack BED` at a terminal: what it lists and says."""
    master, slave = pty.openpty()
    asking = subprocess.Popen([f"{BIN}/brrctl", "alarms", "ack", "bed 5"], env=d.env, stdin=slave, stderr=slave, stdout=subprocess.PIPE,
                              text=True)
    os.close(slave)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(master, 1000)
    begun = meanwhile()
    os.write(master, say)
    out = asking.communicate(timeout=PATIENCE)[0]
    os.close(master)
    return asking.returncode, out, begun


def post(d, fields):
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=PATIENCE)
    c.request("POST", "/alarms", urllib.parse.urlencode(fields), {"Origin": f"http://127.0.0.1:{d.port}"})
    return c.getresponse().status


def get(d, path):
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=PATIENCE)
    c.request("GET", path, headers={"Accept": "text/html"})
    answer = c.getresponse()
    return answer.status, answer.read().decode()


def page(d, path="/alarms"):
    return get(d, path)[1]


def offered(d, form, shown):
    """The ids of this form of the page, once they are those."""
    found = re.search(form, page(d))
    ids = re.search(r'name="alarm" value="([^"]+)"', found[0])[1].split() if found else []
    return ids if len(ids) == len(shown) and set(ids) == shown else None


def all_of_a_bed():
    with temporary() as tmp:
        d = Daemon(tmp, ["beds=[bed 5, bed 6]"]).start()
        first, second, other = begin(d, "bed 5"), begin(d, "bed 5"), begin(d, "bed 6")
        code, out, err = d.ctl("alarms", "ack", "bed 5")
        assert code == 2 and first in out and second in out and other not in out and "--yes" in err, (code, out, err)
        assert ask_at_terminal(d, b"n\n", lambda: None)[0] == 1 and waiting(d, "bed 5") == {first, second}
        code, out, third = ask_at_terminal(d, b"y\n", lambda: begin(d, "bed 5"))
        assert code == 0 and f"acknowledged {first}\n" in out and f"acknowledged {second}\n" in out and third not in out, out
        assert waiting(d, "bed 5") == {third} and waiting(d, "bed 6") == {other}
        code, out, err = d.ctl("alarms", "ack", "bed 5", "--yes", "--person", "Ana B", "--json")
        assert code == 0 and [json.loads(line)["answered"]["person"] for line in out.splitlines()] == ["Ana B"], err
        assert "acknowledged" in d.ctl("alarms", "ack", "bed 5", "--yes")[1] and not waiting(d, "bed 5")
        assert "no alarm 'bed 7'" in d.ctl("alarms", "ack", "bed 7", "--yes")[2]
        for bed, shown in (("bed 6", {"bed 6"}), ("bed*", {"bed 5", "bed 6"}), ("bed", set())):
            assert {a["bed"] for a in alarms(d, "--bed", bed)} == shown, bed
        code, _, err = d.ctl("alarms", "test", "bed 7")
        assert code == 3 and "no bed 'bed 7'" in err and "roster" in err, err
        code, _, err = d.ctl("alarms", "standby", "bed 5", "30")
        assert code == 2 and "expected one such as 30m" in err, err

        shown = {begin(d, "bed 5"), begin(d, "bed 5")}
        code, _, err = d.ctl("alarms", "ack", "test1")
        assert code == 3, err  # too short
        code, _, err = d.ctl("alarms", "ack", os.path.commonprefix([*shown, other]))
        named = re.findall(r"(test\S+) \(bed [56]\)", err)  # those that are over and acknowledged are none of them
        assert code == 1 and len(named) in (3, 4) and {a["alarm"] for a in alarms(d)} >= {*named} and "give more" in err, err
        form = r'<form class="answer"(?:(?!</form>).)*Acknowledge all 2 of bed 5</button>'
        ids = until(lambda: offered(d, form, shown), lambda: page(d))  # the page may be a second old, and then offers the first two
        later = begin(d, "bed 5")
        assert post(d, {"alarm": " ".join(ids), "action": "acknowledge", "person": "Ana B"}) == 303
        assert waiting(d, "bed 5") == {later}, waiting(d, "bed 5")
        until(lambda: "Acknowledge all" not in page(d))
        assert "acknowledged" in d.ctl("alarms", "ack", "bed 6", "--yes")[1]
        until(lambda: all(a["bed"] != "bed 6" for a in alarms(d, "--open")))
        assert "acknowledged" in d.ctl("alarms", "ack", "bed 6", "--yes")[1]  # also when they are over
        assert d.stop() == 0


def rights():
    cases = (("seer", ("--all",), 1, "word answer"), ("other", ("--all", "--answer", "--names", "icu-*"), 1, "names="),
             ("blind", ("--answer",), 3, "no such alarm"), ("nurse", ("--all", "--answer", "--names", "bed-*"), 0, ""))
    with temporary() as tmp:
        d = Secured(tmp, ["log.names=false", "alarms.rejoin=1h"], roles=("admin",))  # for a machine that is slow with the second client
        d.tokens.update({name: d.new_token("read", name, *words) for name, words, _, _ in cases})
        d.start()
        alarm = json.loads(d.as_role("admin", "alarms", "test", "bed-7", "--json")[1])["alarm"]
        for name, _, code, text in cases:
            got = d.as_role(name, "alarms", "ack", alarm)
            assert got[0] == code and text in got[2], (name, got)
        assert [a["answered"]["by"] for a in map(json.loads, d.as_role("nurse", "alarms", "--json")[1].splitlines())] == ["token:nurse"]
        assert d.as_role("blind", "alarms", "--json")[1] == ""
        make_corpus(f"{tmp}/eeg", seed=31, patients=1, hours=0.02, seizures=0)
        path = glob.glob(f"{tmp}/eeg/**/*_eeg.edf", recursive=True)[0]
        os.rename(path, f"{os.path.dirname(path)}/Doe_John.edf")
        code, _, err = d.ctl("stream", f"{os.path.dirname(path)}/Doe_John.edf", "--model", "line_length", "--client", "Doe", "--output", f"{tmp}/x.tsv")
        assert code == 0, err
        d.ctl("stream", f"{os.path.dirname(path)}/Doe_John.edf", "--model", "nothing", "--client", "Doe")  # refused
        for root, _, names in os.walk(f"{tmp}/results"):
            for name in names:
                assert not os.stat(f"{root}/{name}").st_mode & (0o077 if name.endswith((".sqlite", "-wal")) else 0o027), f"{root}/{name}"
        check_rejoined(d, tmp)
        log = d.read_log()
        assert "what=opened session=" in log and "what=answered" in log and "Doe" not in log and 'bed="bed-7"' not in log, log
        assert d.stop() == 0


if __name__ == "__main__":
    answers_and_escalation()
    all_of_a_bed()
    rights()
    sys.exit(0)
