#!/usr/bin/env python3
"""Recordings that are still being written: `stream -` and `stream FILE --follow` give bit for bit what the finished file gives. What is
live, and so told to hooks, for each source and flag; a live pipe is read on while the daemon is away."""
import fcntl
import glob
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time

import numpy

from daemon import BIN, PATIENCE, SOURCE, make_corpus, temporary, until
from stream_fixture import Edf, start, streaming_daemon, trace

ODD = (1, 255, 257, 4093, 9973, 65537)


def discontinuous(source, target, holes):
    """The same samples as EDF+D: before record r, seconds that are missing: {r: s}."""
    edf, n = Edf(source), Edf(source).signals
    columns, at, parts = (16, 80, 8, 8, 8, 8, 8, 80, 8, 32), 256, []
    keeper = ("EDF Annotations", "", "", "-1", "1", "-32768", "32767", "", "16", "")
    for width, text in zip(columns, keeper):
        parts.append(text.encode().ljust(width) + edf.header[at:at + width * n])  # the first of its kind keeps the time
        at += width * n
    fixed = edf.header[:184] + b"%-8d" % (256 * (n + 2)) + b"EDF+D".ljust(44) + edf.header[236:252] + b"%-4d" % (n + 1)
    record_s, onset = float(edf.header[244:252]), 0.0
    with open(target, "wb") as f:
        f.write(fixed + b"".join(parts))
        for r in range(edf.records):
            onset += holes.get(r, 0)
            f.write((b"+%g\x14\x14" % onset).ljust(32, b"\0") + edf.body[r * edf.record:(r + 1) * edf.record])
            onset += record_s
    return target


def pieces(data, sizes=ODD, seed=5):
    rng, at = random.Random(seed), 0
    while at < len(data):
        n = rng.choice(sizes)
        yield data[at:at + n]
        at += n


def pipe(d, data, model, *options, sizes=ODD):
    """`stream -` with data written to it in odd pieces by another thread."""
    process = start(d, "-", model, *options, *(() if "--live" in options else ("--replay",)), stdin=subprocess.PIPE)

    def write():
        try:
            for piece in pieces(data, sizes):
                process.stdin.write(piece)
                process.stdin.flush()
            process.stdin.close()
        except BrokenPipeError:
            pass  # it ended early and says why

    writer = threading.Thread(target=write)
    writer.start()
    out, err = process.stdout.read(), process.stderr.read()
    process.wait(timeout=PATIENCE)
    writer.join()
    return process.returncode, out.decode(), err.decode()


def files(d, recording):
    with open(f"{d.dir}/f.tsv", "rb") as f:
        return f.read().replace(b"stdin", os.path.basename(recording).encode()), numpy.load(f"{d.dir}/f.npy")


def same(what, found, wanted):
    assert found[0] == wanted[0], f"{what}: events differ\n{found[0].decode()}\n{wanted[0].decode()}"
    assert found[1].tobytes() == wanted[1].tobytes(), f"{what}: probabilities differ"
    print(f"{what}: byte-identical", flush=True)


def standard_input(d, recording, model, wanted):
    with open(recording, "rb") as f:
        data = f.read()
    code, out, err = pipe(d, data, model, "--json")
    assert code == 0, err
    same("a pipe in odd pieces", files(d, recording), wanted)
    lines = [json.loads(line) for line in out.splitlines()]
    whole = json.loads(wanted[2].splitlines()[-1])
    assert lines[-1]["events"] == whole["events"] and [x["event"] for x in lines if "event" in x] == whole["events"]
    assert lines[-1]["ended"] == "input" and lines[-1]["unfinished_bytes"] == 0 and whole["ended"] == "file", lines[-1]
    with open(recording, "rb") as f:
        process = start(d, "-", model, "--replay", stdin=f)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and b"as it comes" in out and b"ended      input" in out, (out, err)
    same("a redirected file", files(d, recording), wanted)


def unfinished(d, recording, model):
    """A record cut short is left out, as of a finished file that ends so."""
    edf, cut = Edf(recording), f"{d.dir}/cut.edf"
    with open(cut, "wb") as f:
        f.write(edf.counted(-1) + edf.body[:70 * edf.record + 17])
    wanted = trace(d, cut, model)
    with open(cut, "rb") as f:
        code, out, err = pipe(d, f.read(), model, "--json")
    assert code == 0, err
    same("a record cut short", files(d, cut), wanted)
    assert json.loads(out.splitlines()[-1])["unfinished_bytes"] == 17


def append(target, edf, slowly):
    """A recorder: half a header first, then odd pieces, resting in the middle of records; the count stays behind."""
    with open(target, "ab", buffering=0) as f:
        f.write(edf.counted(-1)[300:])
        for i, piece in enumerate(pieces(edf.body, seed=9)):
            f.write(piece)
            if slowly and i % slowly == 0:
                time.sleep(0.02)
    with open(target, "r+b") as f:
        f.seek(236)
        f.write(b"%-8d" % edf.records)


def followed(d, recording, model, wanted, end):
    edf, target = Edf(recording), f"{d.dir}/{os.path.basename(recording)}"
    with open(target, "wb") as f:
        f.write(edf.counted(-1)[:300])
    process = start(d, target, model, "--follow", "--idle-timeout", "5" if end == "idle" else "600", "--json" if end == "idle" else "--alarms")
    time.sleep(0.3)
    append(target, edf, 5)
    if end == "interrupted":
        line = process.stdout.readline()
        assert b"as it comes" in line, line
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err.decode()
    assert end.encode() in out, out
    same(f"a growing file, {end}", files(d, recording), wanted)
    if end == "idle":
        assert json.loads(out.decode().splitlines()[-1])["ended"] == "idle"


def refusals(d, recording, model):
    edf = Edf(recording)
    for data, word in ((b"", "0 bytes"), (b"x" * 5000, "does not begin like"), (edf.header[:700], "ends inside its header")):
        code, _, err = pipe(d, data, model)
        assert code == 1 and word in err and "standard input" in err, (code, err)
    for options, word in ((["-", "--replay", "--plot", "x.svg"], "finished recording"), ([recording, "--idle-timeout", "3"], "--follow"),
                          ([recording, "--follow", "--plot", "x.svg"], "finished recording")):
        code, _, err = d.ctl("stream", *options, "--model", model)
        assert code == 2 and word in err, (code, err)
    code, _, err = d.ctl("stream", f"{d.dir}/nothing.edf", "--follow", "--model", model)
    assert code == 3 and "nothing.edf" in err, (code, err)
    with open(f"{d.dir}/head.edf", "wb") as f:
        f.write(edf.header[:700])
    code, _, err = d.ctl("stream", f"{d.dir}/head.edf", "--follow", "--idle-timeout", "0.3", "--model", model)
    assert code == 1 and "700 bytes were read" in err, (code, err)


def shortened(d, recording, model):
    """A file that loses what was sent already is an error, not a result."""
    edf, target = Edf(recording), f"{d.dir}/short.edf"
    with open(target, "wb") as f:
        f.write(edf.counted(-1) + edf.body[:5 * edf.record])
    process = start(d, target, model, "--follow")
    assert b"as it comes" in process.stdout.readline()
    await_session(d, process, more_than=2 * 256 * float(edf.header[244:252]))
    os.truncate(target, len(edf.header) + edf.record)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1 and b"became shorter" in err, err


LIVE, DRILL, REPLAY = "live: hooks are told", "live, a drill: hooks are told", "replay: nobody is told"
TOLD = {  # words of `brrctl stream`: the first line
    "file": ((), REPLAY), "file-replay": (("--replay",), REPLAY), "file-paced": (("--realtime", "200", "--alarms"), REPLAY),
    "file-drill": (("--realtime", "200", "--as-live"), DRILL), "pipe-live": (("-", "--live"), LIVE),
    "pipe-replay": (("-", "--replay", "--alarms"), REPLAY), "follow": (("--follow", "--idle-timeout", "1"), LIVE),
    "follow-replay": (("--follow", "--replay", "--idle-timeout", "1"), REPLAY)}


def told(d, recording, heard):
    """Source, flag, and whether a hook is told of the alarm that all of them have. `lsl in` takes the same way as `--follow`."""
    rule = ("--model", "line_length", "--on", "0.2", "--off", "0.15")
    for name, (words, line) in TOLD.items():
        source = () if words[:1] == ("-",) else (recording,)
        with open(recording, "rb") as f:
            r = subprocess.run([f"{BIN}/brrctl", "stream", *source, *words, *rule, "--client", name, "--output", f"{d.dir}/told"], env=d.env,
                               stdin=f, capture_output=True, text=True, timeout=PATIENCE)
        assert r.returncode == 0 and r.stdout.splitlines()[0].startswith(line + "; "), (name, r)
    wanted, deadline = {name for name, (_, line) in TOLD.items() if line != REPLAY}, time.monotonic() + PATIENCE

    def names():
        if not os.path.exists(heard):
            return set()
        with open(heard, encoding="utf-8") as f:
            return {json.loads(line)["entry"]["client"] for line in f if line.endswith("}\n")}
    while not wanted <= names():
        assert time.monotonic() < deadline, (wanted, names(), d.read_log()[-2000:])
        time.sleep(0.1)
    time.sleep(1)
    assert names() == wanted, names()
    for words, text in ((("-",), ("--live", "--replay", "hooks are told", "nobody is told")), (("-", "--live", "--replay"), ("--live or --replay",)),
                        ((recording, "--live"), ("standard input", "--follow", "--as-live"))):
        code, out, err = d.ctl("stream", *words, "--model", "line_length")
        assert code == 2 and not out and all(word in err for word in text), (words, out, err)


def read_on(d, recording, model):
    """The writer of a live pipe never waits for a daemon that is away; 150 s are kept, and what came then is one gap."""
    edf = Edf(recording)
    process = start(d, "-", model, "--live", "--json", stdin=subprocess.PIPE)
    process.stdin.write(edf.counted(-1) + edf.body)
    process.stdin.flush()
    await_session(d, process)
    d.kill()
    assert b"no connection to the daemon" in process.stderr.readline()
    for _ in range(3):
        process.stdin.write(edf.body)
        process.stdin.flush()
    until(lambda: fcntl.ioctl(process.stdin, termios.FIONREAD, b"    ") == b"\0\0\0\0", "the pipe was never read")
    d.start()
    assert b"connected again" in process.stderr.readline()
    process.stdin.write(edf.body)
    process.stdin.close()
    out, err = process.stdout.read(), process.stderr.read()
    assert process.wait(timeout=PATIENCE) == 0, err
    end, seconds = json.loads(out.splitlines()[-1]), edf.records * float(edf.header[244:252])
    assert end["gaps"] == 1 and end["live"] and end["reconnects"] >= 1, end
    trace_of = numpy.load(f"{d.dir}/f.npy")
    missing = numpy.isnan(trace_of).sum() / 256
    assert abs(len(trace_of) / 256 - 5 * seconds) < 1 and 3 * seconds - 152 <= missing <= 4 * seconds - 140, (missing, seconds)


def bed_command(bed, **variables):
    """What the unit brrd-bed@.service runs for a bed, with these variables in its file."""
    with open(f"{SOURCE}/systemd/brrd-bed@.service", encoding="utf-8") as f:
        unit = dict(line.rstrip("\n").split("=", 1) for line in f if "=" in line and not line.startswith("#"))
    words = shlex.split(unit["ExecStart"].replace("$$", "$").replace("/usr/bin", BIN))
    assert unit["Restart"] == "always" and words[-1] == "%I"
    return [*words[:-1], bed], {**os.environ, **variables}


def retries(d, recording, model):
    """A bed's client starts before the daemon, and outlives a daemon that has lost its streams; each time it goes on by itself, in the time of its
    source."""
    edf, fifo = Edf(recording), f"{d.dir}/recorder"
    os.mkfifo(fifo)
    assert d.stop() == 0
    words, env = bed_command("bed 7", RECORDER=f"cat {fifo}", MODEL=model, BRR_ENDPOINT=d.env["BRR_ENDPOINT"],
                             OPTIONS=f"--json --output {d.dir}/f.tsv --probabilities {d.dir}/f.npy")
    process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with open(fifo, "wb", buffering=0) as recorder:
        recorder.write(edf.counted(-1) + edf.body[:20 * edf.record])
        assert "trying until there is one" in process.stderr.readline()
        time.sleep(5)  # longer than other commands look for a daemon
        d.start()
        assert "connected again" in process.stderr.readline()
        await_session(d, process, more_than=-1)
        recorder.write(edf.body[20 * edf.record:])
        [first] = await_session(d, process)
        assert first["client"] == "bed 7"
        d.kill()
        shutil.rmtree(f"{d.dir}/results/sessions")
        d.start()
        while "connected again" not in (line := process.stderr.readline()):
            assert line, "it ended"
        recorder.write(edf.body)
        [second] = await_session(d, process)
        assert second["session"] != first["session"] and second["client"] == "bed 7"
        recorder.write(edf.body)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    end, seconds = json.loads(out.splitlines()[-1]), edf.records * float(edf.header[244:252])
    assert abs(len(numpy.load(f"{d.dir}/f.npy")) / 256 - 3 * seconds) < 1 and end["reconnects"] >= 1, end


def await_session(d, process, more_than=0):
    """The stream, once the daemon has more than so many samples of it: a client that sends was told that its stream is open."""
    def sends():
        assert process.poll() is None
        return [s for s in map(json.loads, d.ctl("sessions", "--json")[1].splitlines()) if s["connected"] and s["received_through"] > more_than]
    return until(sends, "the daemon got no samples of the stream")


def live():
    with temporary() as tmp:
        hook = f"{tmp}/hook"
        with open(hook, "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\nprintf "%s\\n" "$(cat)" >> "$1"\n')
        os.chmod(hook, 0o755)
        hooks = json.dumps([{"name": "pager", "command": [hook, f"{tmp}/heard"], "kinds": ["alarm_on"]}])
        with streaming_daemon(extra=[f"alarms.hooks={hooks}", "alarms.rejoin=0s"]) as (d, recording, model):
            make_corpus(f"{tmp}/told", seed=31, patients=1, hours=0.1, seizures=2)
            told(d, glob.glob(f"{tmp}/told/**/*_eeg.edf", recursive=True)[0], f"{tmp}/heard")
            read_on(d, recording, model)
            retries(d, recording, model)


def header_twice(d, recording, model):
    """Behind a second header its samples would be text, in a pipe as in a file."""
    with open(recording, "rb") as f:
        data = f.read()
    for sizes in ((1 << 20,), (97, 3001)):
        code, _, err = pipe(d, data[:int(data[184:192])] + data, model, sizes=sizes)
        assert code == 1 and "standard input: the header stands twice" in err, err


def main():
    live()
    with streaming_daemon() as (d, recording, model):
        wanted = trace(d, recording, model)
        assert json.loads(wanted[2].splitlines()[-1])["events"], "no event to compare"
        standard_input(d, recording, model, wanted)
        unfinished(d, recording, model)
        for end in ("idle", "interrupted"):
            followed(d, recording, model, wanted, end)
        gaps = discontinuous(recording, f"{d.dir}/gaps.edf", {20: 1.5, 61: 30.25, 62: 4})
        wanted = trace(d, gaps, model)
        assert numpy.isnan(wanted[1]).any() and json.loads(wanted[2].splitlines()[-1])["gaps"] == 3, wanted[2]
        with open(gaps, "rb") as f:
            code, _, err = pipe(d, f.read(), model, sizes=(97, 3001))
        assert code == 0, err
        same("a pipe with gaps", files(d, gaps), wanted)
        refusals(d, recording, model)
        header_twice(d, recording, model)
        shortened(d, recording, model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
