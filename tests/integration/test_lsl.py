#!/usr/bin/env python3
"""Streams of the Lab Streaming Layer through the real liblsl (of the npm package lsl.js): nothing is lost, results are those of the file;
a sender that is frozen, killed, restarted, or whose clock jumps, is a gap within two seconds and never a wrong sample; units of all
spellings mean the same; `lsl out` gives probability and markers.

The parts wait for clocks nearly all of their time, so they run side by side, each with a stream of its own name.

BRR_TEST_LSL=long: an hour at thirty times its speed and five minutes in real time, instead of a minute and a quarter of one."""
import atexit
import concurrent.futures
import ctypes
import glob
import json
import os
import signal
import subprocess
import sys
import time

import numpy

import lsl
from daemon import BIN, PATIENCE, SOURCE, Daemon, make_corpus, temporary, until
from npm import npm_modules

DRIVER = f"{os.environ['BRR_BUILD_DIR']}/tests/lsl_driver"
LONG = os.environ.get("BRR_TEST_LSL") == "long"
RATE = 256
UNITS = (("microvolts", 1, ""), ("\u00b5V", 1, ""), ("-6", 1, ""), ("mV", 1e-3, ""), ("V", 1e-6, ""), ("0", 1e-6, ""), ("-3", 1e-3, ""), (None, 1, ""),
         (None, 1e-6, "V"), ("counts", 1e-3, "mV"))  # what the sender says, µV in it, what --unit says
NO_UNITS = ((None, 1e-6, "looks like V"), ("mmHg", 1, "no voltage"), (None, 1e6, "--unit"))
SIDE_BY_SIDE = 6
IDLE_S = 1.4  # below the 1.5 s after which silence is a gap


def name_of(stream):
    """The names of this run are its own, as is its session of liblsl (lsl.environment): a second run on this machine neither sees its streams nor
    takes them for its own."""
    return f"brrd test {os.getpid()} {stream}"


def id_of(stream):
    return f"amp-{os.getpid()}-{stream}"


class Sender:
    def __init__(self, env, scratch, stream, **options):
        o = {"name": name_of(stream), "id": id_of(stream), "unit": "uV", **options}
        self.process = subprocess.Popen([sys.executable, f"{SOURCE}/tests/integration/lsl.py", "send", env["LSL_LIBRARY"], scratch, json.dumps(o)],
                                        env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)
        if options.get("held"):  # ready: the time until it appears is not that of starting a program
            assert self.line() == ["held"]

    def line(self):
        return self.process.stdout.readline().split()

    def appear(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Driver:
    """lsl_driver: what became of a stream, as pieces of samples and gaps between them."""

    def __init__(self, env, scratch, stream, unit="", idle_s=IDLE_S):
        self.out = f"{scratch}.{stream}.out"
        self.process = subprocess.Popen([DRIVER, id_of(stream), unit, str(idle_s), self.out], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        atexit.register(self.process.kill)

    def result(self, channels):
        text, err = self.process.communicate(timeout=PATIENCE)
        rows = [line.split() for line in text.splitlines()]
        pieces, gaps, at = [], [], 0
        samples = numpy.fromfile(self.out, numpy.float32).reshape(-1, channels)
        for r in rows:
            if r[0] == "gap":
                gaps.append((int(r[1]), int(r[2]), float(r[3])))
            elif r[0] == "samples":
                if pieces and pieces[-1][0] + len(pieces[-1][1]) == int(r[1]):
                    pieces[-1][1] = samples[at - len(pieces[-1][1]):at + int(r[2])]
                else:
                    pieces.append([int(r[1]), samples[at:at + int(r[2])]])
                at += int(r[2])
        assert at == len(samples) and self.process.returncode == 0, (text, err)
        return pieces, gaps, " ".join(rows[-1]), err


def first_of(piece, samples):
    """Where these samples lie in the recording: each piece must be a stretch of it, unchanged."""
    starts = numpy.flatnonzero((samples[:, 0] == piece[0, 0]) & (samples[:, 1] == piece[0, 1]))
    found = [s for s in starts if s + len(piece) <= len(samples) and numpy.array_equal(samples[s:s + len(piece)], piece)]
    assert len(found) == 1, f"a piece of {len(piece)} samples is no stretch of the recording"
    return found[0]


def check_frozen_and_killed(env, scratch, samples):
    """Frozen, killed, and restarted with its channels in another order and unit, at its own speed."""
    n = samples.shape[1]
    driver = Driver(env, scratch, "faults", idle_s=12)
    again = Sender(env, scratch, "faults", first=30 * RATE, seconds=5, jump_at=0, jump_s=-3000, order=list(range(n))[::-1], unit="mV", scale=1e-3,
                   held=True)  # another clock
    sender = Sender(env, scratch, "faults")
    assert sender.line() == ["connected"]
    time.sleep(4)
    frozen = time.time()
    sender.process.send_signal(signal.SIGSTOP)
    time.sleep(4)
    sender.process.send_signal(signal.SIGCONT)
    time.sleep(4)
    killed = time.time()
    sender.kill()
    time.sleep(4)
    again.appear()
    assert again.line() == ["connected"]
    assert again.line()[0] == "sent"
    pieces, gaps, remark, err = driver.result(n)
    again.kill()
    for moment, what in ((frozen, "frozen"), (killed, "killed")):
        assert any(0 <= g[2] - moment <= (2.0 if LONG else PATIENCE) for g in gaps), (what, moment, gaps)
    starts = [first_of(p[1], samples) for p in pieces[:-1]]
    assert starts == sorted(starts) and starts[0] == 0, (starts, remark)
    assert len(pieces[-1][1]) == 5 * RATE and numpy.allclose(pieces[-1][1], samples[30 * RATE:35 * RATE], rtol=2e-7, atol=1e-4), remark
    for p, start in zip(pieces[:-1], starts):  # before the clock changed, every sample is where it was recorded
        assert abs(p[0] - start) <= 1, (p[0], start, remark)
    assert "is back" in err, err
    lags = [round(min(g[2] - m for g in gaps if g[2] >= m), 2) for m in (frozen, killed)]
    print(f"frozen and killed: a gap after {lags[0]} and {lags[1]} s; {len(pieces)} pieces, all unchanged; {remark}")


def check_jump(env, scratch, samples, jump_s):
    """Stamps that jump: a clock's (a gap of no length), or over a hole."""
    driver = Driver(env, scratch, f"jump{jump_s}")
    sender = Sender(env, scratch, f"jump{jump_s}", seconds=6, jump_at=3 * RATE, jump_s=jump_s, speed=3)
    assert sender.line() == ["connected"]
    jumped = float(sender.line()[1])
    pieces, gaps, remark, err = driver.result(samples.shape[1])
    sender.kill()
    assert len(pieces) == 2 and len(gaps) == 1, (jump_s, gaps, remark)
    assert [first_of(p[1], samples) for p in pieces] == [0, 3 * RATE] and sum(len(p[1]) for p in pieces) == 6 * RATE, (jump_s, gaps)
    assert gaps[0][0] == 3 * RATE and (gaps[0][1] == 2 * RATE if jump_s == 2 else gaps[0][1] <= RATE), (jump_s, gaps)
    lag_s = gaps[0][2] - jumped
    assert not LONG or lag_s <= 2, (jump_s, gaps, jumped)
    print(f"stamps jump by {jump_s} s: a gap at their sample {lag_s:.2f} s after it was sent, all samples kept")


def check_unit(env, scratch, samples, unit, scale, given):
    """µV in every way that senders write it; a stream without units by its amplitude."""
    n, stream = samples.shape[1], f"{unit} {scale} {given}"
    driver, sender = Driver(env, scratch, stream, unit=given), Sender(env, scratch, stream, unit=unit, scale=scale, seconds=3, speed=3)
    pieces, gaps, remark, err = driver.result(n)
    sender.kill()
    got = numpy.concatenate([p[1] for p in pieces])
    assert got.shape == (3 * RATE, n) and numpy.allclose(got, samples[:3 * RATE], rtol=2e-7, atol=1e-4), (unit, given, remark)
    assert ("uV is assumed" in remark) == (unit is None and not given), remark


def check_no_unit(env, scratch, unit, scale, want):
    """What is no voltage is refused, and what can hardly be µV."""
    stream = f"{unit} {scale} refused"
    driver, sender = Driver(env, scratch, stream), Sender(env, scratch, stream, unit=unit, scale=scale, seconds=3, speed=3)
    text, err = driver.process.communicate(timeout=PATIENCE)
    sender.kill()
    assert driver.process.returncode == 1 and want in err, (unit, scale, err)


def check_other_recording(d, env, scratch):
    """A sender that comes back with other channels is another recording: another stream, with files of its own, and nobody else's."""
    probs, found, name = f"{d.dir}/twice.npy", f"{d.dir}/found", name_of("other")
    os.mkdir(found)
    for path in (f"{d.dir}/twice-2.npy", f"{found}/{name}-3_events.tsv"):
        with open(path, "w") as f:
            f.write("somebody's")
    process = detection(d, env, "lsl", "in", name, "--model", "line_length", "--partial", "4", "--probs", probs, "--output", found, "--wait", "60", "--idle-timeout", "3.5", "--json")
    with open(f"{scratch}.json", encoding="utf-8") as f:
        labels = json.load(f)[0]
    again = Sender(env, scratch, "other", first=30 * RATE, seconds=12, speed=3, labels=[*labels[:-1], "ECG 2"], held=True)
    sender = Sender(env, scratch, "other", seconds=3, speed=3)
    assert sender.line() == ["connected"] and sender.line()[0] == "sent"
    time.sleep(0.5)
    sender.kill()
    again.appear()
    text, err = process.communicate(timeout=PATIENCE)
    again.kill()
    ends = [line for line in map(json.loads, text.splitlines()) if "ended" in line]
    assert process.returncode == 0 and [end["ended"] for end in ends] == ["changed", "idle"], (text, err)
    n = ends[1]["samples"]  # what came while this one ended belongs to neither
    assert 3 * RATE < n <= 12 * RATE and os.path.exists(probs) and len(numpy.load(f"{d.dir}/twice-4.npy")) == n and ends[0]["samples"] == 3 * RATE, (text, err)
    assert {f"{name}_events.tsv", f"{name}-4_events.tsv"} < set(os.listdir(found)), os.listdir(found)
    for path in (f"{d.dir}/twice-2.npy", f"{found}/{name}-3_events.tsv"):
        with open(path) as f:
            assert f.read() == "somebody's"
    print(f"other channels under the name: another stream, of {n} samples")


def detection(d, env, *args):
    return subprocess.Popen([f"{BIN}/brrctl", *args], env={**d.env, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_results(d, env, scratch, recording, seconds, speed):
    """The probabilities of the stream are, to the bit, those of the file."""
    stream = f"at{speed}"
    probs, want = f"{d.dir}/{stream}.npy", f"{d.dir}/{stream}-file.npy"
    code, _, err = d.ctl("stream", recording, "--model", "line_length", "--probs", want)
    assert code == 0, err
    process = detection(d, env, "lsl", "in", name_of(stream), "--model", "line_length", "--probs", probs, "--wait", "60", "--idle-timeout",
                        f"{IDLE_S}", "--json")
    sender = Sender(env, scratch, stream, seconds=seconds, speed=speed)
    text, err = process.communicate(timeout=PATIENCE)
    sender.kill()
    assert process.returncode == 0, (text, err)
    summary = json.loads(text.splitlines()[-1])
    got, wanted = numpy.load(probs), numpy.load(want)
    n = int(seconds * RATE)
    assert summary["samples"] == n and summary["gaps"] == 0 and summary["remark"].startswith("0 gaps"), summary
    if n == len(wanted):
        assert got.tobytes() == wanted.tobytes(), "the probabilities differ"
    else:  # the last windows of a shorter record are others
        sure = n - 120 * RATE if n > 240 * RATE else 0
        assert got[:sure].tobytes() == wanted[:sure].tobytes()
    print(f"{seconds:g} s at {speed} times real time: {n} samples, none lost; {summary['remark']}")


def check_list(d, env, scratch):
    sender = Sender(env, scratch, "listed")

    def listed():
        text, err = detection(d, env, "lsl", "list", "--json").communicate(timeout=PATIENCE)
        return [row for row in map(json.loads, text.splitlines()) if row["source_id"] == id_of("listed")]
    rows = until(listed, "the sender is never listed")
    sender.kill()
    assert [(row["name"], row["type"], row["channels"], row["rate_hz"]) for row in rows] == [(name_of("listed"), "EEG", 19, 256)], rows
    process = detection(d, env, "lsl", "in", "nobody", "--model", "line_length", "--wait", "1")
    text, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3 and "no stream nobody" in err, (process.returncode, err)
    process = detection(d, {**env, "LSL_LIBRARY": "/proc/nonexistent.so"}, "lsl", "list")
    text, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3 and "LSL_LIBRARY" in err, (process.returncode, err)


def check_out(d, env):
    """What another program receives of `lsl out`: regular probabilities, and markers of alarms."""
    make_corpus(f"{d.dir}/more", 11, patients=2, hours=0.1)  # the second has events under line_length
    recording = glob.glob(f"{d.dir}/more/sub-02/*_eeg.edf")[0]
    stream = detection(d, env, "stream", recording, "--model", "line_length", "--realtime", "12", "--alarms", "--alarm-hop", "1", "--on", "0.06", "--off",
                       "0.03", "--client", "out", "--json")
    session = until(lambda: [row["session"] for row in map(json.loads, d.ctl("sessions", "--json")[1].splitlines()) if row["client"] == "out"],
                    "the stream has no session")[0]
    refused = detection(d, env, "lsl", "out", session)
    _, err = refused.communicate(timeout=PATIENCE)
    assert refused.returncode == 2 and "--yes" in err, err
    out = detection(d, env, "lsl", "out", session, "--yes")
    native = lsl.library(env["LSL_LIBRARY"])
    values, stamps, markers = [], [], []
    inlets = []
    for name in (b"brrd probability", b"brrd events"):
        info = ctypes.c_void_p()
        own = name.replace(b" ", f"-{session}-".encode())
        assert native.lsl_resolve_byprop(ctypes.byref(info), 1, b"source_id", own, 1, PATIENCE) == 1, own
        inlets.append(native.lsl_create_inlet(info, 360, 0, 0))
        assert native.lsl_get_nominal_srate(info) == (0 if markers is None or name == b"brrd events" else RATE)
        code = ctypes.c_int32()
        native.lsl_open_stream(inlets[-1], PATIENCE, ctypes.byref(code))
        assert code.value == 0
    value, text, code = ctypes.c_float(), ctypes.c_char_p(), ctypes.c_int32()
    while stream.poll() is None:
        stamp = native.lsl_pull_sample_f(inlets[0], ctypes.byref(value), 1, 0.02, ctypes.byref(code))
        while stamp:
            values.append(value.value)
            stamps.append(stamp)
            stamp = native.lsl_pull_sample_f(inlets[0], ctypes.byref(value), 1, 0.0, ctypes.byref(code))
        if native.lsl_pull_sample_str(inlets[1], ctypes.byref(text), 1, 0.0, ctypes.byref(code)):
            markers.append(text.value.decode())
    told, err = stream.communicate(timeout=PATIENCE)
    _, out_err = out.communicate(timeout=PATIENCE)  # ends with the session
    said = [json.loads(line) for line in told.splitlines() if '"alarm":' in line]
    assert stream.returncode == 0 and len(values) > 60 * RATE, (len(values), err, out_err)
    assert all(0 <= v <= 1 or v != v for v in values) and markers and set(markers) <= {"alarm_on", "alarm_off", "sz_on", "sz_off"}, markers
    assert abs(sum(m.startswith("alarm") for m in markers) - len(said)) <= 1, (markers, said)  # the last may come with the end
    print(f"lsl out: {len(values)} probabilities, markers {markers}")


def main():
    modules = npm_modules(f"{SOURCE}/tests/integration/lsl")
    with temporary() as folder:
        env = {**os.environ, **lsl.environment(folder, modules)}
        hours = 1.0 if LONG else 0.05
        make_corpus(f"{folder}/data", 11, patients=1, hours=hours)
        recording = glob.glob(f"{folder}/data/sub-01/*_eeg.edf")[0]
        scratch = f"{folder}/samples"
        samples = lsl.recording(recording, scratch)
        os.environ.update(env)  # for the liblsl of this process
        d = Daemon(folder).start()
        parts = [(check_frozen_and_killed, env, scratch, samples), (check_out, d, env), (check_results, d, env, scratch, recording, 300 if LONG else 15, 1),
                 (check_results, d, env, scratch, recording, hours * 3600, 30), (check_other_recording, d, env, scratch), (check_list, d, env, scratch)]
        parts += [(check_jump, env, scratch, samples, jump_s) for jump_s in (200000, -200000, 2)]
        parts += [(check_unit, env, scratch, samples, *words) for words in UNITS] + [(check_no_unit, env, scratch, *words) for words in NO_UNITS]
        with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            for part in [pool.submit(*part) for part in parts]:
                part.result()
        print(f"units: {len(UNITS)} ways of saying it give the same samples, {len(NO_UNITS)} are refused")
        assert d.stop() == 0
    print("ok")


if __name__ == "__main__":
    main()
