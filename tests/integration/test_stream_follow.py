#!/usr/bin/env python3
"""Recordings that are still being written: `stream -` and `stream FILE --follow` give bit for bit what the finished file gives."""
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy

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
    process = start(d, "-", model, *options, stdin=subprocess.PIPE)

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
    process.wait(timeout=120)
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
        process = start(d, "-", model, stdin=f)
        out, err = process.communicate(timeout=120)
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
    process = start(d, target, model, "--follow", "--idle-timeout", "2" if end == "idle" else "600", "--json" if end == "idle" else "--alarms")
    time.sleep(0.3)
    append(target, edf, 5)
    if end == "interrupted":
        line = process.stdout.readline()
        assert b"as it comes" in line, line
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
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
    for options, word in ((["-", "--plot", "x.svg"], "finished recording"), ([recording, "--idle-timeout", "3"], "--follow"),
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
    time.sleep(0.3)
    os.truncate(target, len(edf.header) + edf.record)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and b"became shorter" in err, err


def main():
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
        shortened(d, recording, model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
