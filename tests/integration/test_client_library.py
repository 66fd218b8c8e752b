#!/usr/bin/env python3
"""The installed library builds the C example by pkg-config alone, exports only brr_*, and both examples agree with brrctl."""
import json
import os
import subprocess
import sys

import numpy


from daemon import PATIENCE, sanitizers
from stream_fixture import load_example, streaming_daemon, trace

BUILD = os.environ["BRR_BUILD_DIR"]


def run(*command, env=None, stdin=None):
    r = subprocess.run(command, env=env, stdin=stdin, capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 0, f"{' '.join(command)}: {r.stderr or r.stdout}"
    return r.stdout


def build_example(prefix):
    run("cmake", "--install", BUILD, "--prefix", prefix)
    pc = [root for root, _, files in os.walk(prefix) if "brr.pc" in files]
    env = {**os.environ, "PKG_CONFIG_PATH": pc[0]}
    flags = run("pkg-config", "--cflags", "--libs", "brr", env=env).split()
    program, library = f"{prefix}/stream", os.path.dirname(pc[0])
    run("cc", *sanitizers(), "-std=c99", "-Wall", "-Wextra", "-Werror", f"{prefix}/share/brrd/examples/stream.c", *flags, f"-Wl,-rpath,{library}", "-o", program)
    exported = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", f"{library}/libbrr.so").splitlines()}
    assert "brr_stream_push" in exported
    assert all(name.startswith("brr_") or name == "BRR_1" for name in exported), exported
    assert run(f"{prefix}/bin/brrctl", "help").startswith("usage: brrctl"), "the installed brrctl finds its library"
    return program


def main():
    with streaming_daemon() as (d, recording, model):
        program = build_example(f"{d.dir}/prefix")
        trace(d, recording, model)
        with open(f"{d.dir}/x.tsv", encoding="utf-8") as f:
            want = [line.split("\t") for line in f.read().splitlines()[1:]]
        want = [(float(r[0]), float(r[0]) + float(r[1])) for r in want if r[2] == "sz"]
        example = load_example()
        labels, rate, rows = example.read_edf(recording)
        frames = f"{d.dir}/frames.f32"
        numpy.array([numpy.frombuffer(r, dtype=numpy.float32) for r in rows]).T.copy().tofile(frames)
        with open(frames, "rb") as f:
            c = run(program, model, str(rate), ",".join(labels), env=d.env, stdin=f)
        folder = os.open(d.dir, os.O_RDONLY)  # every read of it fails
        r = subprocess.run([program, model, str(rate), ",".join(labels)], env=d.env, capture_output=True, text=True, stdin=folder, timeout=PATIENCE)
        os.close(folder)
        assert r.returncode != 0 and "cannot read the samples" in r.stderr, r
        python = run(sys.executable, f"{d.dir}/prefix/share/brrd/examples/stream.py", recording, model, "777", env=d.env)
        names = {json.loads(line)["client"] for line in d.ctl("journal", "--json")[1].splitlines()}
        assert any(name.startswith("stream.py of ") and "@" in name for name in names), names
        assert c == python and c, f"C and Python differ:\n{c}\n{python}"
        got = [tuple(float(x) for x in line.split("\t")[:2]) for line in c.splitlines()]
        assert len(got) == len(want) and numpy.allclose(got, want, atol=0.011), (got, want)
        print(f"{len(got)} events: C, Python and brrctl agree")

        r = subprocess.run([program, "nobody", "256", "Fp1"], env=d.env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
        assert r.returncode == 1 and "NOT_FOUND" in r.stderr and "nobody" in r.stderr, r.stderr
        r = subprocess.run([program, model, "256", "Fp1"], env={**d.env, "BRR_ENDPOINT": f"unix:{d.dir}/none"}, capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, timeout=PATIENCE)
        assert r.returncode == 1 and "no daemon answers" in r.stderr, r.stderr
    return 0


if __name__ == "__main__":
    sys.exit(main())
