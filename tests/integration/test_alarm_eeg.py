#!/usr/bin/env python3
"""The EEG around an alarm's onset is in a file when the alarm goes on, has the samples that were sent, outlives kill -9, is in the backup and in a daemon that is
restored from it, and is for callers who see the bed alone. A longer list is said to be one. That of a stream that goes on after kill -9 has the minute after the onset too."""
import glob
import json
import os
import signal
import subprocess
import sys
import time

import numpy

from daemon import BIN, PATIENCE, Daemon, make_corpus, temporary, until
from page_beds import LABELS, RATE, Bed
from secured import Secured
from stream_fixture import Edf

POLE = 1 - 2 * 3.14159265358979 * 0.1 / RATE  # of the high-pass
ONSETS = ["journal.onsets=64MiB"]


def read(path):
    """(labels, µV (rows, n), annotations as bytes) of such a file."""
    edf = Edf(path)
    labels = [edf.header[256 + 16 * i:272 + 16 * i].decode().strip() for i in range(edf.signals)]
    assert labels[-1] == "EDF Annotations" and edf.header[192:197] == b"EDF+C", labels
    records = numpy.frombuffer(edf.body, "<i2").reshape(edf.records, -1)
    voltages = records[:, :RATE * (edf.signals - 1)].reshape(edf.records, edf.signals - 1, RATE)
    notes = records[:, RATE * (edf.signals - 1):].tobytes()
    return labels[:-1], voltages.transpose(1, 0, 2).reshape(edf.signals - 1, -1) * 0.1, notes


def sent(bed, label):
    """What the stream sent in this channel, without what is slower than 0.1 Hz."""
    uv = numpy.concatenate(bed.sent, 1).astype(float)
    names = [LABELS.index({"T7": "T3", "T8": "T4", "P7": "T5", "P8": "T6"}.get(n, n)) for n in label.split("-")]
    x = uv[names[0]] - (uv[names[1]] if len(names) > 1 else 0)
    y = numpy.zeros(len(x))
    for i in range(1, len(x)):
        y[i] = x[i] - x[i - 1] + POLE * y[i - 1]
    return y


def files(d):
    return sorted(glob.glob(f"{d.dir}/results/onsets/*"))


def alarm_of(d, bed):
    found = [a for a in map(json.loads, d.ctl("alarms", "--json")[1].splitlines()) if a["bed"] == bed and a["kind"] == "alarm"]
    return found[0]["alarm"] if found else None


def check_samples(path, bed, alarm, least_s):
    labels, uv, notes = read(path)
    at, n = int(alarm.rpartition("-")[2]), uv.shape[1]
    first = at - min(60, -(-at // RATE)) * RATE
    assert n >= least_s * RATE and f"alarm of {bed.name}, probability".encode() in notes and alarm.encode() in notes, (n, notes[:400])
    skip = -first if first < 0 else 0
    for row, label in enumerate(labels):
        want = sent(bed, label)[first + skip:first + n]
        got = uv[row, skip:skip + len(want)]  # its last second may not have been whole
        have = numpy.flatnonzero(got)[-1] + 1
        worst = numpy.abs(got[:have] - numpy.clip(want[:have], -3276.6, 3276.7)).max()
        assert worst < 0.11 and have > n - skip - 2 * RATE, (label, worst, have, n, skip)


def check_rights(d, alarm, tmp):
    for token, sees in (("screen", True), ("seven", True), ("nine", False), ("read", False), (None, False)):
        path = f"{tmp}/{token}.edf"
        code, _, err = d.as_role(token, "alarms", "eeg", alarm, "--output", path)
        assert (code == 0) == sees == os.path.exists(path), (token, code, err)
        assert sees or token is None or "no EEG of an alarm" in err, err
        code, out, err = d.as_role(token, "alarms", "report", "--json")
        assert token is None or [json.loads(line)["eeg_kept"] for line in out.splitlines()][-1] == sees, (token, out, err)
    for wrong in ("", "0" * 32 + "-1", f"../{alarm}", alarm[:-1], alarm + "0", alarm[:6], "x" * 300):
        code, _, err = d.as_role("screen", "alarms", "eeg", wrong, "--output", f"{tmp}/wrong.edf")
        assert code and not os.path.exists(f"{tmp}/wrong.edf"), (wrong, err)


def check_bed(tmp):
    d = Secured(f"{tmp}/d", ONSETS)
    for name, options in (("screen", ["--all"]), ("seven", ["--names", "bed-7"]), ("nine", ["--names", "bed-9"])):
        d.new_token("read", name, *options)
    d.start()
    bed = Bed(d, "bed-7")
    try:
        bed.seizure.set()
        assert bed.alarm.wait(PATIENCE), bed.error
        alarm = until(lambda: alarm_of(d, "bed-7"), "the alarm")
        [file] = until(lambda: [f for f in files(d) if f.endswith(".edf")], "its EEG")
        assert os.stat(file).st_mode & 0o777 == 0o600 and os.stat(os.path.dirname(file)).st_mode & 0o777 == 0o700
        before = os.path.getsize(file)
        until(lambda: os.path.getsize(file) > before, "20 s more", seconds=90)
        d.kill()
        assert files(d) == [file]
        d.start()
        code, out, err = d.ctl("alarms", "export", "--as", "edf", "--output", f"{tmp}/night")
        assert code == 0 and os.listdir(f"{tmp}/night") == [f"bed-7_{alarm}.edf"], (out, err)
        check_samples(f"{tmp}/night/bed-7_{alarm}.edf", bed, alarm, 50)
        code, out, err = d.ctl("view", f"{tmp}/night/bed-7_{alarm}.edf")
        assert code == 0, err
        check_rights(d, alarm, tmp)
        check_restored(d, tmp, alarm, file)
        check_many(d)
    finally:
        bed.close()
        if d.process.poll() is None:
            d.stop()


def check_many(d):
    """A list has 1000 files at most, and says so."""
    now_ms = int(time.time() * 1000)
    for i in range(1000):
        with open(f"{d.dir}/results/onsets/{now_ms + i:013d}-{0:08x}-{0:08x}-{0:032x}-{i}.edf", "xb"):
            pass
    for token, said in (("screen", True), ("seven", False)):
        code, _, err = d.as_role(token, "alarms", "report")
        assert code == 0 and ("(older: 1)" in err) == said, (token, err)


def check_restored(d, tmp, alarm, file):
    code, _, err = d.ctl("backup", f"{tmp}/backup")
    assert code == 0, err
    then = Daemon(f"{tmp}/then", ONSETS)
    os.makedirs(then.dir, exist_ok=True)
    subprocess.run([*then.command(), "--restore", f"{tmp}/backup"], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
    assert os.stat(f"{then.dir}/results/onsets").st_mode & 0o777 == 0o700
    then.start()
    try:
        code, _, err = then.ctl("alarms", "eeg", alarm, "--output", f"{tmp}/restored.edf")
        assert code == 0, err
    finally:
        then.stop()
    with open(f"{tmp}/restored.edf", "rb") as got, open(file, "rb") as want:
        assert got.read() == want.read()


def check_resumed(tmp):
    """kill -9 while the minute after the onset is on its way, eight times as fast as time."""
    make_corpus(f"{tmp}/eeg", seed=21, patients=1, hours=0.1)
    d = Daemon(f"{tmp}/r", ONSETS).start()
    recording = sorted(glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True))[0]
    stream = subprocess.Popen([f"{BIN}/brrctl", "stream", recording, "--model", "line_length", "--on", "0.001", "--off", "0.0005", "--realtime", "4", "--as-live",
                               "--client", "bed-7"], env=d.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        [file] = until(lambda: [f for f in files(d) if f.endswith(".edf")], "the EEG of the alarm")
        before = len(read(file)[1][0])
        until(lambda: len(read(file)[1][0]) > before, "20 s more")
        d.process.send_signal(signal.SIGKILL)
        d.process.wait()
        d.start()
        alarm = os.path.basename(file)[32:-4]
        at = int(alarm.rpartition("-")[2])
        until(lambda: len(read(file)[1][0]) >= min(60 * RATE, at // RATE * RATE) - 30 * RATE + 60 * RATE, "the minute after the onset")
        assert files(d) == [file] and stream.poll() is None, stream.communicate()
    finally:
        stream.kill()
        stream.wait()
        d.stop()


def main():
    with temporary() as tmp:
        check_bed(tmp)
        check_resumed(tmp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
