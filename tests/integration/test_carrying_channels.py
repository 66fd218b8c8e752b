#!/usr/bin/env python3
"""Which channels carry an event: a seizure that one chain or one electrode carries names these derivations and the side, also where an electrode of
the other side comes loose with it, in detect, in a stream of any chunks, in one that goes on after the daemon was killed in it, in the journal, in
alarms and in what hooks are told. A network names none."""
import json
import math
import os
import random
import struct
import subprocess
import sys

from daemon import BIN, PATIENCE, temporary, until
from test_alarm_hooks import Hooked

RATE, SECONDS, ONSET, END = 256, 120, 60, 90
CHAINS = {"left": ["Fp1-F7", "F7-T3", "T3-T5", "T5-O1"], "right": ["Fp2-F8", "F8-T4", "T4-T6", "T6-O2"]}
OTHERS = ["Fp1-F3", "F3-C3", "C3-P3", "P3-O1", "Fp2-F4", "F4-C4", "C4-P4", "P4-O2", "Fz-Cz", "Cz-Pz"]
ELECTRODES = "Fp1 Fp2 F7 F3 Fz F4 F8 T3 C3 Cz C4 T4 T5 P3 Pz P4 T6 O1 O2".split()


def write_edf(path, signals):
    """One record a second, 0.1 µV a step."""
    n = len(signals)
    head = [(8, "0"), (80, "X X X X"), (80, "Startdate X X X X"), (8, "01.01.20"), (8, "00.00.00"), (8, str(256 * (n + 1))), (44, ""),
            (8, str(SECONDS)), (8, "1"), (4, str(n))]
    for width, text in ((16, None), (80, ""), (8, "uV"), (8, "-3276.8"), (8, "3276.7"), (8, "-32768"), (8, "32767"), (80, ""),
                        (8, str(RATE)), (32, "")):
        head += [(width, name if text is None else text) for name in signals]
    with open(path, "wb") as f:
        f.write("".join(text.ljust(width) for width, text in head).encode())
        for at in range(0, SECONDS * RATE, RATE):
            for values in signals.values():
                f.write(struct.pack(f"<{RATE}h", *(round(10 * v) for v in values[at:at + RATE])))


def record(path, names, loud, seed, loose=None):
    """Waves of 6 Hz and noise; in the seizure what is loud is twelve times as large, all else a little more than twice. `loose`: an electrode
    that comes loose in its first second."""
    rng, signals = random.Random(seed), {}
    for name in names:
        phase, size, grown = rng.uniform(0, 6), rng.uniform(6, 12), 12 if name in loud else 2.2
        signals[name] = [(size * math.sin(2 * math.pi * 6 * i / RATE + phase) + rng.gauss(0, 2)) *
                         (grown if ONSET * RATE <= i < END * RATE else 1) for i in range(SECONDS * RATE)]
    noise = [rng.gauss(0, 150) if i >= ONSET * RATE else 0 for i in range(SECONDS * RATE)] if loose else ()
    for name in (n for n in names if loose in n.split("-")):
        sign = 1 if name.startswith(loose) else -1
        signals[name] = [v + sign * n for v, n in zip(signals[name], noise)]
    write_edf(path, signals)
    return path


def table(path):
    with open(path, encoding="utf-8") as f:
        head, *rows = [line.split("\t") for line in f.read().splitlines()]
    return [dict(zip(head, row)) for row in rows]


def bytes_of(path):
    with open(path, "rb") as f:
        return f.read()


def ran(d, *options):
    code, out, err = d.ctl(*options)
    assert code == 0, err
    return out


def check_detect(d, recording, chain, side):
    """The table of detect and that of a stream, JSON, and what people read."""
    want, found, live = ",".join(chain), f"{d.dir}/found", f"{d.dir}/found/live"
    name = os.path.basename(recording).replace(".edf", "_events.tsv")
    stream = ("stream", recording, "--model", "ward")
    ran(d, "detect", recording, "--model", "ward", "--output", found, "--force")
    assert [r["channels"] for r in table(f"{found}/{name}")] == [want], table(f"{found}/{name}")
    shown = json.loads(ran(d, *stream, "--json", "--output", f"{live}.tsv").splitlines()[-1])
    assert bytes_of(f"{live}.tsv") == bytes_of(f"{found}/{name}")
    ran(d, *stream, "--format", "json", "--output", f"{live}.json")
    for event in (shown["events"][0], json.loads(bytes_of(f"{live}.json"))["events"][0]):
        assert (event["channels"], event["side"]) == (want, side), event
    ran(d, "report", found, "--eeg", f"{d.dir}/data", "--output", f"{d.dir}/r.html", "--force")
    assert bytes_of(f"{d.dir}/r.html").decode().count(f"{side}: {chain[0]}, ") >= 2  # in the list and over the page of EEG
    assert f"{side}: {chain[0]}, " in ran(d, *stream, "--output", f"{live}.tsv")


def check_network(d, recording):
    ran(d, "detect", recording, "--model", "demo", "--on", "0.02", "--off", "0.01", "--output", f"{d.dir}/network", "--force")
    found = table(f"{d.dir}/network/left_events.tsv")
    assert {r["channels"] for r in found} == {"n/a"} and [r for r in found if r["eventType"] == "sz"], found


def streaming(d, recording, *options):
    command = ["stream", recording, "--model", "ward", "--alarms", "--json", "--output", f"{d.dir}/s.tsv", *options]
    return subprocess.Popen([f"{BIN}/brrctl", *command], env=d.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def results(d, process):
    """Its files and alarms, without the daemon's clock."""
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    alarms = [{**a, "wall_time_ms": 0} for a in (json.loads(line).get("alarm") for line in out.splitlines()) if a]
    return (bytes_of(f"{d.dir}/s.tsv"), bytes_of(f"{d.dir}/s_alarms.tsv"), alarms), err


def check_live(d, recording, chain):
    """The alarm names what the event names; a stream whose daemon is killed in the seizure writes the same files."""
    want, _ = results(d, streaming(d, recording))
    first = want[2][0]
    assert (first["on"], first["channels"], first["side"]) == (True, ",".join(chain), "left"), first
    assert table(f"{d.dir}/s_alarms.tsv")[0]["channels"] == ",".join(chain)
    assert results(d, streaming(d, recording, "--chunk-samples", "77"))[0] == want
    killed = streaming(d, recording, "--realtime", "20")
    until(lambda: any(json.loads(line).get("alarm") for line in d.ctl("sessions", "--json")[1].splitlines()))
    d.kill()
    d.start()
    again, err = results(d, killed)
    assert "the stream goes on" in err and again == want, err


def check_told(d, recording, chain):
    """A hook, the journal, the alarms and the beds, also after a restart; what is later than the onset says so."""
    words, told = f"left: {', '.join(chain)}", f"{d.dir}/told"
    results(d, streaming(d, recording, "--realtime", "40", "--as-live", "--client", "bed-7"))
    until(lambda: os.path.exists(told) and words in bytes_of(told).decode())
    message = json.loads(bytes_of(told).splitlines()[0])
    assert message["entry"]["where"] == words and words in message["text"], message
    for restarted in (False, True):
        entries = [json.loads(line) for line in ran(d, "journal", "--json", "--bed", "bed-7").splitlines()]
        for e in entries:
            assert e["where"] == (words if e["kind"] in ("alarm_on", "event", "told") else ""), e
        until(lambda: words in [json.loads(line).get("where") for line in d.ctl("alarms", "--json")[1].splitlines()])
        later = f"at the onset: {words}"
        until(lambda: later in ran(d, "alarms") and later in ran(d, "beds"), lambda: ran(d, "alarms") + ran(d, "beds"))
        rows = {kind: ran(d, "journal", "--bed", "bed-7", "--kind", kind) for kind in ("alarm_on", "event", "told")}
        assert all(words in text and (later in text) == (kind == "told") for kind, text in rows.items()), rows
        if not restarted:
            d.kill()
            d.start()


def main():
    with temporary() as tmp:
        told = f"printf '%s\\n' \"$(cat)\" >> {tmp}/told"
        d = Hooked(tmp, [{"name": "file", "command": ["/bin/sh", "-c", told], "kinds": ["alarm_on"]}]).start()
        derivations = [*CHAINS["left"], *CHAINS["right"], *OTHERS]
        left = record(f"{tmp}/data/left.edf", derivations, CHAINS["left"], 1)
        check_detect(d, left, CHAINS["left"], "left")
        check_detect(d, record(f"{tmp}/data/right.edf", derivations, CHAINS["right"], 2), CHAINS["right"], "right")
        check_detect(d, record(f"{tmp}/data/one.edf", ELECTRODES, ["T4"], 3), ["F8-T4", "T4-T6"], "right")
        loose = record(f"{tmp}/data/loose.edf", derivations, CHAINS["left"], 4, "T4")
        check_detect(d, loose, CHAINS["left"], "left")
        check_network(d, left)
        check_live(d, loose, CHAINS["left"])
        check_told(d, left, CHAINS["left"])
        d.stop()


if __name__ == "__main__":
    sys.exit(main())
