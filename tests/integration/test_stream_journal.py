#!/usr/bin/env python3
"""The journal of streams: every alarm that a client heard is on the disk when the daemon is killed at that moment, and stands there once
after the stream has gone on; events, gaps, quality and connections; times in UTC; filters, pages, CSV and following."""
import csv
import datetime
import glob
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import time

import grpc
import numpy

from daemon import BIN, PATIENCE, Daemon, make_corpus, temporary
from stream_fixture import endpoint, messages

RULE = ("--model", "line_length", "--on", "0.2", "--off", "0.15", "--alarms", "--json")


def journal(d, *options):
    code, out, err = d.ctl("journal", "--json", *options)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def soon(condition):
    deadline = time.time() + PATIENCE
    while not condition():
        assert time.time() < deadline
        time.sleep(0.05)


def alarms_of(lines):
    found = [json.loads(line)["alarm"] for line in lines if line.startswith('{"alarm":')]
    return [("alarm_on" if a["on"] else "alarm_off", a["time_s"]) for a in found]


def alarms_in(entries):
    return [(e["kind"], e["start_s"]) for e in entries if e["kind"].startswith("alarm")]


def header_start(path):
    """The start in the header, as a machine in Tokyo reads it."""
    with open(path, "rb") as f:
        text = f.read(184)[168:].decode()
    zone = datetime.timezone(datetime.timedelta(hours=9))
    return datetime.datetime.strptime(text, "%d.%m.%y%H.%M.%S").replace(tzinfo=zone)


def check_undisturbed(d, path):
    """A whole stream; its alarms as brrctl printed them."""
    code, out, err = d.ctl("stream", path, "--client", "bed-1", *RULE, "--output", f"{d.dir}/x.tsv")
    assert code == 0, err
    want = alarms_of(out.splitlines())
    assert [kind for kind, _ in want[:2]] == ["alarm_on", "alarm_off"], "the recording has no alarm to look for"
    soon(lambda: "ended" in [e["kind"] for e in journal(d)])
    entries = journal(d, "--bed", "bed-1")
    assert alarms_in(entries) == want, (entries, want)
    kinds = [e["kind"] for e in entries]
    assert kinds[0] == "opened" and kinds[-1] == "ended" and entries[-1]["detail"] == "done" and "event" in kinds, kinds
    assert len({e["session"] for e in entries}) == 1 and {e["client"] for e in entries} == {"bed-1"}
    first = next(e for e in entries if e["kind"] == "alarm_on")
    assert first["principal"] == f"uid:{os.getuid()}" and first["address"] == "unix" and first["model"] == "line_length"
    assert len(first["model_sha256"]) == 64 and 0 < first["value"] <= 1
    assert abs(datetime.datetime.fromisoformat(first["received"].replace("Z", "+00:00")).timestamp() - time.time()) < PATIENCE
    recorded = datetime.datetime.fromisoformat(first["recorded"].replace("Z", "+00:00"))
    assert abs((recorded - header_start(path)).total_seconds() - first["start_s"]) < 0.002, (first, header_start(path))
    return want


def check_printed(d):
    """The table, CSV and filters."""
    table = d.ctl("journal", "--bed", "bed-*", "--kind", "alarm_on")[1].splitlines()
    assert table[0].startswith("received ") and "alarm_on" in table[1] and "bed-1" in table[1], table
    rows = list(csv.DictReader(io.StringIO(d.ctl("journal", "--csv", "--since", "1h")[1])))
    entries = journal(d)
    assert [(int(r["id"]), r["kind"], r["session"]) for r in rows] == [(e["id"], e["kind"], e["session"]) for e in entries]
    assert journal(d, "--bed", "ward-*") == [] and journal(d, "--until", "2020-01-01T00:00Z") == []
    assert journal(d, "--session", entries[0]["session"][:6]) == entries and journal(d, "--last", "2") == entries[-2:]
    for words in ((), ("--since", "1h"), ("--follow",), ("--csv",)):
        code, out, err = d.ctl("journal", "--kind", "alarms", *words)
        assert code == 2 and not out and err.startswith("brrctl: --kind: ") and "alarm_on, alarm_off" in err, (words, out, err)
    code, _, err = d.ctl("journal", "--since", "yesterday")
    assert code == 2 and "expected a time ago such as 2h" in err, err


def on_disk(d):
    """Without the daemon."""
    with sqlite3.connect(f"{d.dir}/results/journal.sqlite") as db:
        return db.execute("SELECT client, kind, start_s FROM journal WHERE kind LIKE 'alarm%' ORDER BY id").fetchall()


def check_killed(d, path, want, client, *options):
    """kill -9 at the moment when the client prints an alarm."""
    command = [f"{BIN}/brrctl", "stream", path, "--client", client, *RULE, "--realtime", "80", "--output", f"{d.dir}/k.tsv", *options]
    stream = subprocess.Popen(command, env=d.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = []
    try:
        while not alarms_of(lines):
            lines.append(stream.stdout.readline())
            assert lines[-1], stream.communicate()[1]
        d.kill()
        assert (client, *alarms_of(lines)[0]) in on_disk(d), (lines, on_disk(d))
        d.start()
        lines += stream.stdout.read().splitlines()  # communicate() would lose what readline() has read ahead
        stream.wait(timeout=PATIENCE)
    finally:
        stream.kill()
        stream.wait()
    if options:
        found = alarms_in(e for e in journal(d, "--bed", client) if e["kind"] != "alarm_off" or e["detail"] == "ended")  # not by the restart
        assert stream.returncode != 0 and found and found == want[:len(found)], found
        return
    assert stream.returncode == 0 and alarms_of(lines) == want
    soon(lambda: "ended" in [e["kind"] for e in journal(d, "--bed", client)])
    entries = journal(d, "--bed", client)
    assert alarms_in(entries) == want, (alarms_in(entries), want)
    kinds = [e["kind"] for e in entries]
    assert [k for k in kinds if k in ("opened", "restored", "resumed", "ended")] == ["opened", "restored", "resumed", "ended"], kinds
    events = [e["start_s"] for e in entries if e["kind"] == "event"]
    assert len(events) == len(set(events)) == len([e for e in journal(d, "--bed", "bed-1") if e["kind"] == "event"]), entries


def check_repeated_hour(d, path):
    """An hour that the clock shows twice in the night in which summer time ends: the earlier one is taken, and said."""
    with open(path, "rb") as f:
        data = bytearray(f.read())
    data[168:184] = b"25.10.2602.30.00"
    with open(f"{d.dir}/autumn.edf", "wb") as f:
        f.write(data)
    r = subprocess.run([f"{BIN}/brrctl", "stream", f"{d.dir}/autumn.edf", "--client", "autumn", *RULE, "--output", f"{d.dir}/x.tsv"],
                       env={**d.env, "TZ": "CET-1CEST,M3.5.0,M10.5.0/3"}, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert r.returncode == 0 and "the clock showed the start, 02:30, twice that day" in r.stderr, r.stderr
    first = next(e for e in journal(d, "--bed", "autumn") if e["kind"] == "alarm_on")
    begun = datetime.datetime.fromisoformat(first["recorded"]) - datetime.timedelta(seconds=first["start_s"])
    assert abs(begun.timestamp() - datetime.datetime(2026, 10, 25, 0, 30, tzinfo=datetime.timezone.utc).timestamp()) < 1, first


def raw_stream(d, labels):
    """A stream whose second channel is flat for its first 20 s, with a gap, and whose client goes without a word."""
    folder, _, pb, stubs = messages()
    rng = numpy.random.default_rng(7)

    def chunk(first, flat):
        uv = rng.normal(0, 30, (len(labels), 2560)).astype("<f4")
        if flat:
            uv[1] = 0
        return pb.ClientMessage(chunk=pb.Chunk(first_sample=first, samples=2560, data=uv.tobytes()))

    def say():
        yield pb.ClientMessage(open=pb.Open(model="line_length", channels=labels, rate_hz=256, format=pb.SAMPLE_FORMAT_F32_UV,
                                            client_name="bed-9", start_time_ms=1_000_000_000_000))
        for i in range(2):
            yield chunk(2560 * i, True)
        yield chunk(10240, False)
        yield chunk(12800, False)
        deadline = time.time() + PATIENCE
        while "good" not in [e["detail"] for e in journal(d, "--bed", "bed-9")] and time.time() < deadline:
            time.sleep(0.1)

    with folder, grpc.insecure_channel(endpoint(d)) as channel:
        call = stubs.StreamStub(channel).Run(say())
        for message in call:
            if message.HasField("summary"):
                break
        else:
            raise AssertionError("no summary")


def check_signal(d):
    labels = "Fp1 F3 C3 P3 F7 T3 T5 O1 Fz Cz Pz Fp2 F4 C4 P4 F8 T4 T6 O2".split()
    raw_stream(d, labels)
    entries = journal(d, "--bed", "bed-9")
    gap = [e for e in entries if e["kind"] == "gap"]
    assert [(e["start_s"], e["end_s"], e["detail"]) for e in gap] == [(20, 40, "hole")], gap
    assert gap[0]["recorded"] == "2001-09-09T01:47:00.000Z", gap
    quality = [e["detail"] for e in entries if e["kind"] == "quality"]
    assert quality[0] == "F3 flat" and quality[-1] == "good", quality


def check_volts(d):
    """A live stream whose samples are in V is taken, and its state says what they look like."""
    labels = "Fp1 F3 C3 P3 F7 T3 T5 O1 Fz Cz Pz Fp2 F4 C4 P4 F8 T4 T6 O2".split()
    folder, _, pb, stubs = messages()
    volts = numpy.random.default_rng(7).normal(0, 30e-6, (len(labels), 2560)).astype("<f4").tobytes()
    said, note = [], "the samples look like V, not µV"

    def say():
        yield pb.ClientMessage(open=pb.Open(model="line_length", channels=labels, rate_hz=256, format=pb.SAMPLE_FORMAT_F32_UV, realtime=True,
                                            client_name="bed-8"))
        yield pb.ClientMessage(chunk=pb.Chunk(samples=2560, data=volts))
        deadline = time.time() + PATIENCE
        while not said and time.time() < deadline:
            said.extend(row for row in map(json.loads, d.ctl("sessions", "--json")[1].splitlines()) if row["client"] == "bed-8" and row["note"])
            time.sleep(0.1)
        said.append(d.ctl("sessions")[1])

    with folder, grpc.insecure_channel(endpoint(d)) as channel:
        assert any(message.HasField("summary") for message in stubs.StreamStub(channel).Run(say()))
    assert said[0]["note"] == note and note in said[1], said
    assert [e["detail"] for e in journal(d, "--bed", "bed-8") if e["kind"] == "quality"][0].startswith(f"{note}, Fp1 flat"), said


def check_patient(d, path):
    """The next stream of the same patient goes on with what was learned, and says so; others begin anew."""
    def stream(client, *options):
        out = f"{d.dir}/{client}.npy"
        code, text, err = d.ctl("stream", path, "--client", client, "--model", "line_length", "--probabilities", out, "--json", *options)
        assert code == 0, err
        return numpy.load(out), json.loads(text.splitlines()[-1])["learning_s"], [e["detail"] for e in journal(d, "--bed", client) if e["kind"] == "opened"]

    alone, learning_s, opened = stream("alone")
    assert opened == ["replay"] and 61 <= learning_s < 90, (opened, learning_s)  # the first mean and a minute that is heard
    for client, code in (("first", "code 7"), ("other", "code 8")):
        p, _, opened = stream(client, "--patient", code)
        assert opened == ["replay"] and numpy.array_equal(p, alone), opened
    p, _, opened = stream("again", "--patient", "code 7")
    assert len(opened) == 1 and re.fullmatch(r"replay, with what was learned of this patient until \d+ s before", opened[0]), opened
    assert len(p) == len(alone) and not numpy.array_equal(p[:2560], alone[:2560])
    with open(f"{d.dir}/brrd.log", encoding="utf-8") as f:
        assert "code 7" not in f.read()
    code, table, err = d.ctl("detect", path, "--model", "line_length", "--output", f"{d.dir}/events")
    assert code == 0 and f" {learning_s} " in table.splitlines()[1] and "learning s" in table.splitlines()[0], (table, err)


def check_forgetful(tmp, path):
    """A daemon that keeps nothing of patients says so to a stream that names one, and to no other."""
    os.mkdir(f"{tmp}/forgetful")
    d = Daemon(f"{tmp}/forgetful").start()
    for words, told in ((["--patient", "code 7"], 1), ([], 0)):
        code, text, err = d.ctl("stream", path, "--model", "line_length", *words)
        assert code == 0 and err.count("--patient") == told and text.count("limits.patient_memory") == told, (text, err)
    assert d.stop() == 0


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=31, patients=1, hours=0.1, seizures=2)
        d = Daemon(tmp, ["limits.patient_memory=10m"])
        d.env["TZ"] = "Asia/Tokyo"
        d.start()
        path = sorted(glob.glob(f"{tmp}/eeg/**/*_eeg.edf", recursive=True))[0]
        follow = subprocess.Popen([f"{BIN}/brrctl", "journal", "--follow", "--since", "1h", "--json"], env=d.env, stdout=subprocess.PIPE, text=True)
        want = check_undisturbed(d, path)
        followed = [json.loads(follow.stdout.readline()) for _ in journal(d)]
        assert followed == journal(d), followed
        follow.kill()
        follow.wait()
        check_printed(d)
        check_repeated_hour(d, path)
        check_killed(d, path, want, "bed-2")
        check_killed(d, path, want, "bed-3", "--no-resume")
        check_signal(d)
        check_volts(d)
        check_patient(d, path)
        assert d.stop() == 0
        check_forgetful(tmp, path)
    print(f"{len(want)} alarms, once each, after kill -9 too")
    return 0


if __name__ == "__main__":
    sys.exit(main())
