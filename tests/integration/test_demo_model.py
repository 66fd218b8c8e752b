#!/usr/bin/env python3
"""The model that ships: a daemon that was just started finds the seizures of synthetic patients with `--model demo`, streamed as offline; its
card names this file; a program without it says where it should be."""
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys

import daemon
from daemon import BIN, SOURCE, Daemon, make_corpus, temporary


def check_card():
    with open(f"{SOURCE}/models/demo.safetensors", "rb") as f:
        data = f.read()
    with open(f"{SOURCE}/models/demo.md", encoding="utf-8") as f:
        card = f.read()
    assert hashlib.sha256(data).hexdigest() in card and len(data) <= 4e6 and "Not for clinical use" in card


def detect(d, tmp):
    code, _, err = d.ctl("detect", f"{tmp}/eeg", "--model", "demo", "--output", f"{tmp}/found")
    assert code == 0, err
    code, out, err = d.ctl("score", f"{tmp}/eeg", f"{tmp}/found", "--json")
    assert code == 0, err
    found = re.search(r'"event":\s*\{"sensitivity":\s*([\d.]+),\s*"precision":\s*([\d.]+)', out)
    assert float(found[1]) >= 0.75 and float(found[2]) >= 0.75, out[:600]


def stream(d, tmp, recording, chunk):
    out = f"{tmp}/{chunk}.tsv"
    code, _, err = d.ctl("stream", recording, "--model", "demo", "--output", out, "--chunk-samples", str(chunk), "--plot", f"{tmp}/{chunk}.svg")
    assert code == 0, err
    with open(out, "rb") as f:
        return f.read()


def check_missing(tmp):
    """A program that was copied without what belongs to it."""
    os.makedirs(f"{tmp}/alone/bin")
    for name in ("brrd", "brrctl"):
        shutil.copy(f"{BIN}/{name}", f"{tmp}/alone/bin")
    d = Daemon(f"{tmp}/alone")
    bin_before, daemon.BIN = daemon.BIN, f"{tmp}/alone/bin"
    d.start()
    recording = glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True)[0]
    code, _, err = d.ctl("stream", recording, "--model", "demo")
    assert code == 3 and "not installed" in err and "share/brrd/models/demo.safetensors" in err, (code, err)
    code, _, err = d.ctl("stream", recording, "--model", "line_length", "--output", f"{tmp}/x.tsv")
    assert code == 0, err
    assert d.stop() == 0
    daemon.BIN = bin_before


def main():
    check_card()
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", 91, patients=2, hours=0.2, seizures=2)
        with open(f"{tmp}/run.yaml", "w", encoding="utf-8") as f:
            f.write(f"kind: detect\ndetect: {{ model: demo }}\ndata: {{ source: 'file://{tmp}/eeg' }}\n")
        d = Daemon(tmp).start()
        detect(d, tmp)
        recording = sorted(glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True))[0]
        name = os.path.basename(recording).replace("_eeg.edf", "")
        with open(glob.glob(f"{tmp}/found/**/{name}*events.tsv", recursive=True)[0], "rb") as f:
            assert stream(d, tmp, recording, 2560) == stream(d, tmp, recording, 997) == f.read()
        assert d.stop() == 0
        r = subprocess.run([f"{BIN}/brrd", "run", f"{tmp}/run.yaml", "--directory", f"{tmp}/run"], capture_output=True, text=True, timeout=daemon.PATIENCE)
        assert r.returncode == 0, r.stderr
        check_missing(tmp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
