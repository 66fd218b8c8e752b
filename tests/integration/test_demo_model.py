#!/usr/bin/env python3
"""The models that ship: a daemon that was just started finds the seizures of synthetic patients with `--model demo`, streamed as offline; where no
model is named, it uses `ward`; its events are corrected by a reader, and training reads the corrections; their cards name these files; a program without
demo's says where it should be. A trained network beside them: what it says of itself, and a share of what it has learned."""
import csv
import glob
import hashlib
import json
import math
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import numpy as np

import daemon
from daemon import BIN, PATIENCE, SOURCE, Daemon, make_corpus, temporary, NOTICE, trained_network


def check_card(name, path):
    with open(path, "rb") as f:
        data = f.read()
    with open(f"{SOURCE}/models/{name}.md", encoding="utf-8") as f:
        card = f.read()
    digest = hashlib.sha256(data).hexdigest()
    assert digest in card and len(data) <= 4e6 and "Not for clinical use" in card, digest


def said_by(path):
    with open(path, "rb") as f:
        return json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))["__metadata__"]


def check_ward(d, tmp):
    """The command of its card makes its file, the same bytes everywhere. It has learned from nobody."""
    code, _, err = d.ctl("checkpoint", "get", "ward", "--out", f"{tmp}/ward.safetensors")
    assert code == 0, err
    check_card("ward", f"{tmp}/ward.safetensors")
    said = said_by(f"{tmp}/ward.safetensors")
    assert said["brr.patients"] == "[]" and "brr.notice" not in said, said


def detect_with_ward(d, tmp):
    """Where no model is named."""
    for name, words in (("unnamed", []), ("named", ["--model", "ward"])):
        code, _, err = d.ctl("detect", f"{SOURCE}/examples", "--output", f"{tmp}/{name}", *words)
        assert code == 0, err
    found = [glob.glob(f"{tmp}/{name}/**/*_events.tsv", recursive=True)[0] for name in ("unnamed", "named")]
    with open(found[0], "rb") as unnamed, open(found[1], "rb") as named:
        assert unnamed.read() == named.read()
    code, out, err = d.ctl("score", f"{SOURCE}/examples", f"{tmp}/unnamed", "--json")
    score = json.loads(out)["pooled"]["event"]
    assert (score["tp"], score["fp"], score["ref"]) == (1, 0, 1), score


def show_network(d, network):
    """What a network can miss stands in its description and on the page."""
    assert json.loads(d.ctl("models", network, "--json")[1])["most_missing"] == 10
    assert "--partial 8 runs it" in d.ctl("models", network)[1]
    assert d.ctl("load", "bedside", network)[0] == 0
    text, end = "", time.monotonic() + PATIENCE
    while "<dt>montage</dt>" not in text and time.monotonic() < end:
        with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/models", timeout=PATIENCE) as f:
            text = f.read().decode()
    assert "--partial 8 runs it" in text and d.ctl("unload", "bedside")[0] == 0, text


def detect(d, tmp):
    code, _, err = d.ctl("detect", f"{tmp}/eeg", "--model", "demo", "--output", f"{tmp}/found")
    assert code == 0, err
    code, out, err = d.ctl("score", f"{tmp}/eeg", f"{tmp}/found", "--json")
    assert code == 0, err
    found = re.search(r'"event":\s*\{"sensitivity":\s*([\d.]+),\s*"precision":\s*([\d.]+)', out)
    assert float(found[1]) >= 0.75 and float(found[2]) >= 0.75, out[:600]


def check_review_without_events(d, tmp):
    """A model that could not look at any recording begins no review."""
    os.makedirs(f"{tmp}/cut")
    with open(f"{SOURCE}/examples/sub-01/sub-01_run-01_eeg.edf", "rb") as whole, open(f"{tmp}/cut/a.edf", "wb") as cut:
        cut.write(whole.read(3000))
    code, _, err = d.ctl("review", f"{tmp}/none", "--eeg", f"{tmp}/cut", "--model", "line_length")
    assert code == 1 and f"brrctl: {tmp}/cut/a.edf ends inside its header" in err and "line_length could look at no recording" in err, err
    assert "begin one with" in d.ctl("review", f"{tmp}/none")[2]


def review(d, tmp, *words, want=0):
    code, out, err = d.ctl("review", f"{tmp}/mine", *words)
    assert code == want, (words, out, err)
    return [json.loads(line) for line in out.splitlines()] if "--json" in words else out + err


def events_of(folder, patient):
    """Onset, end, type and reader of a patient's rows."""
    with open(f"{folder}/sub-{patient:02d}/sub-{patient:02d}_run-01_events.tsv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f, delimiter="\t"))
    return [(float(r["onset"]), round(float(r["onset"]) + float(r["duration"]), 2), r["eventType"], r.get("reader")) for r in rows]


def answer_on_page(d, tmp, event):
    """The page of a review saves into its folder: what the command said first is there, and the command goes on with what the page saved."""
    page = review(d, tmp, "view", event).strip()
    at = float(event.partition("@")[2])
    with urllib.request.urlopen(page, timeout=PATIENCE) as f:
        text = f.read().decode()
    assert f'data-at="{at:.2f}"' in text and "<form" in text, text
    with urllib.request.urlopen(f"{page}/answers", timeout=PATIENCE) as f:
        before = json.load(f)
    assert before["file"] == f"{tmp}/mine/sub-02/sub-02_run-01_events.tsv" and {a["type"] for a in before["answers"]} == {"unknown", "sz"}, before
    form = {"action": "add", "onset": 200, "end": 201.5, "reader": "Bo", "seen": before["revision"]}
    with urllib.request.urlopen(f"{page}/answers", urllib.parse.urlencode(form).encode(), timeout=PATIENCE) as f:
        assert [200, 201.5, "sz", "Bo"] in [[a["onset"], a["end"], a["type"], a["reader"]] for a in json.load(f)["answers"]]
    assert (200, 201.5, "sz", "Bo") in events_of(f"{tmp}/mine", 2)


def opens_browser(d, recording):
    """On a terminal with a display the page opens; a pipe and a machine without a display get the address alone."""
    terminal, end = pty.openpty()
    with open(f"{d.dir}/xdg-open", "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
        f.write(f"#!/bin/sh\necho \"$1\" >> {d.dir}/opened\n")
    for display, out in ((":9", subprocess.PIPE), ("", end), (":9", end)):
        assert not os.path.exists(f"{d.dir}/opened"), (display, out)
        subprocess.run([f"{BIN}/brrctl", "view", recording], check=True, stdout=out, timeout=PATIENCE,
                       env={**d.env, "DISPLAY": display, "WAYLAND_DISPLAY": "", "PATH": f"{d.dir}:{os.environ['PATH']}"})
    deadline = time.time() + PATIENCE
    while not os.path.exists(f"{d.dir}/opened") or not os.path.getsize(f"{d.dir}/opened"):  # nobody waits for a browser
        assert time.time() < deadline
        time.sleep(0.02)
    with open(f"{d.dir}/opened", encoding="utf-8") as f:
        assert "/recordings/" in f.read() and b"/recordings/" in os.read(terminal, 4096)


def correct(d, tmp):
    """The events that models found, in the order of their worth, corrected into label files of their own."""
    text = review(d, tmp, want=3)
    assert "begin one with" in text, text
    shutil.copytree(f"{tmp}/found", f"{tmp}/other")  # the same model, which also found what nobody labelled and missed a seizure
    with open(f"{tmp}/other/sub-01/sub-01_run-01_events.tsv", "w", encoding="utf-8") as f:
        f.write("onset\tduration\teventType\tconfidence\n600\t20\tsz\t0.9\n")
    with open(f"{tmp}/eeg/sub-01/sub-01_run-01_events.tsv", encoding="utf-8") as f:
        theirs = f.read()
    text = review(d, tmp, "--eeg", f"{tmp}/eeg", "--found", f"{tmp}/found", "--found", f"{tmp}/other", "--model", "line_length")
    assert text.splitlines()[1].startswith("sub-01/sub-01_run-01@600 ") and "not in the labels, 1 of 3 models" in text, text
    queue = review(d, tmp, "--json")
    assert len(queue) == 5 and [e["worth"] for e in queue] == sorted((e["worth"] for e in queue), reverse=True), queue
    first, second = (next(e for e in queue if f"sub-0{k}" in e["event"] and e["in_labels"]) for k in (1, 2))
    end = round(first["end_s"] - 4, 2)
    review(d, tmp, "accept", first["event"], "--end", str(end), "--type", "sz_foc_ia_nm", "--reader", "Ana B", "--comment", "chewing")
    review(d, tmp, "reject", "sub-01_run-01@600", "--reader", "Ana B")
    assert "no type of events" in review(d, tmp, "accept", second["event"], "--type", "szz", "--reader", "x", want=1)
    review(d, tmp, "unsure", second["event"], "--reader", "Ana B")
    review(d, tmp, "add", "sub-02_run-01", "--onset", "10", "--end", "50", "--reader", "Ana B")
    once_more = ("add", "sub-02_run-01", "--onset", "20", "--end", "50", "--reader", "Bo")
    assert "10.00 to 50.00 s has the answer sz by Ana B already" in review(d, tmp, *once_more, want=1)
    review(d, tmp, *once_more[:3], "10", *once_more[4:], "--replace")
    answer_on_page(d, tmp, second["event"])
    opens_browser(d, second["recording"])
    text = review(d, tmp)
    assert f"brrctl submit configs/few.yaml --set data.source=file://{tmp}/mine --watch" in text and "2 events without an answer" in text, text
    assert {e["answer"] for e in review(d, tmp, "--all", "--json")} == {"sz_foc_ia_nm", "bckg", "unknown", None}
    rows = events_of(f"{tmp}/mine", 1)
    assert (first["onset_s"], end, "sz_foc_ia_nm", "Ana B") in rows and (600, 620, "bckg", "Ana B") in rows, rows
    assert sum(row[3] == "n/a" and row[2] == "sz" for row in rows) == 1, rows  # the label that nobody has corrected
    with open(f"{tmp}/eeg/sub-01/sub-01_run-01_events.tsv", encoding="utf-8") as f:
        assert f.read() == theirs
    with open(f"{tmp}/mine/sub-01/sub-01_run-01_events.tsv", "a", encoding="utf-8") as f:
        f.write("700\t5\tsz\tn/a\tn/a\tn/a\tn/a\tsz\tby hand\tn/a\n")
    assert "--force" in review(d, tmp, "reject", "sub-01_run-01@600", "--reader", "x", want=1)


def train_on_corrections(d, tmp, network):
    """What training reads are the corrected labels; a model that begins as another one keeps its notice."""
    for origin, notice in (([f"model.init_from={network}"], NOTICE), ([], None)):
        sets = ["training.max_steps=2", f"data.source=file://{tmp}/mine", *origin]
        code, end, err = d.submit(*sets, file=f"{SOURCE}/configs/few.yaml")
        assert code == 0 and said_by(end["checkpoint"]).get("brr.notice") == notice, err
    with open(f"{tmp}/ward.safetensors", "rb") as f:
        assert said_by(end["checkpoint"])["brr.init_from_sha256"] == hashlib.sha256(f.read()).hexdigest()
    seizures = [row[:2] for row in events_of(f"{tmp}/mine", 1) + events_of(f"{tmp}/mine", 2) if row[2].startswith("sz")]
    full = sum(max(0, math.floor(end - 12) - math.ceil(onset) + 1) for onset, end in seizures)  # windows of 12 s, one each second
    assert f" {full} full" in d.ctl("logs", end["job"])[1], (full, d.ctl("logs", end["job"])[1])


def draw_curve(tmp):
    """Scores over the answers, on the patient that is held back; after a kill between two points those that are missing are made, with the same bytes."""
    words = [f"data.source=file://{tmp}/mine", f"model.init_from={tmp}/ward.safetensors", "data.validation_fraction=0.5", "training.max_steps=2",
             "training.batch_size=4", "training.answers_curve=2"]

    def run():
        done = subprocess.run([f"{BIN}/brrd", "run", f"{SOURCE}/configs/few.yaml", "--directory", f"{tmp}/curve", *[a for w in words for a in ("--set", w)]],
                              capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        files = {}
        for name in ("answers.json", "answers.svg", "report.json"):
            with open(f"{tmp}/curve/{name}", encoding="utf-8") as f:
                files[name] = f.read()
        assert not os.path.exists(f"{tmp}/curve/answers")
        return files
    first = run()
    curve = json.loads(first["answers.json"])
    trained = {"sub-01": 1, "sub-02": 2}[json.loads(first["report.json"])["split"]["training"][0]]
    rows = [row for row in events_of(f"{tmp}/mine", trained) if row[3] != "n/a"]
    assert [p["answers"] for p in curve["points"]] == [0, (len(rows) + 1) // 2, len(rows)] and curve["answers"] == len(rows) > 2, (curve, rows)
    assert [p["seizures"] for p in curve["points"]][2] == sum(row[2].startswith("sz") for row in rows) and curve["points"][1]["seizures"] > 0, (curve, rows)
    auroc = [p["auroc"] for p in curve["points"]]
    assert auroc[0] != auroc[1] and all(0 <= v <= 1 for v in auroc), auroc  # the last answer may be `unsure`, from which nothing is learned
    assert json.loads(first["report.json"])["result"]["answers_curve"] == curve["points"] and "AUROC at 0: " in first["answers.svg"]
    curve["points"].pop()
    with open(f"{tmp}/curve/answers.json", "w", encoding="utf-8") as f:
        json.dump(curve, f)
    os.makedirs(f"{tmp}/curve/answers/{curve['basis'][:12]}-{len(rows)}")
    assert run() == first


def log_odds(d, tmp, model):
    out = f"{tmp}/probabilities.npy"
    code, _, err = d.ctl("stream", f"{SOURCE}/examples/sub-01/sub-01_run-01_eeg.edf", "--model", model, "--probs", out, "--output", f"{tmp}/x.tsv", "--force")
    assert code == 0, err
    p = np.clip(np.load(out).astype(float), 1e-12, 1 - 1e-12)
    return np.log(p / (1 - p))


def blend(d, tmp, network):
    """A share of what a model has learned is that share of its log-odds; without any it is what it began as: `ward`, bit for bit."""
    at = {1: log_odds(d, tmp, network)}
    for share in (0, 0.25):
        tool = f"{SOURCE}/tools/model_blend.py"
        subprocess.run([sys.executable, tool, network, str(share), f"{tmp}/{share}.safetensors"], check=True)
        at[share] = log_odds(d, tmp, f"{tmp}/{share}.safetensors")
    told = np.maximum(at[1], at[0]) < 8  # closer to 1 the log-odds of a float32 have few digits
    assert told.mean() > 0.5 and np.abs(at[0.25] - (0.25 * at[1] + 0.75 * at[0]))[told].max() < 0.01 < 0.1 < np.abs(at[1] - at[0])[told].max()
    assert log_odds(d, tmp, "ward").tobytes() == at[0].tobytes()
    line, band = log_odds(d, tmp, "line_length"), log_odds(d, tmp, "band_power")
    until = 62 * 256  # its event has lasted for nearly ten seconds; then ward holds the background, and they do not
    assert np.corrcoef(at[0][:until], ((line + band) / 2)[:until])[0, 1] > 0.99  # another band and temperature


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
    check_card("demo", f"{SOURCE}/models/demo.safetensors")
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", 91, patients=2, hours=0.2, seizures=2)
        with open(f"{tmp}/run.yaml", "w", encoding="utf-8") as f:
            f.write(f"kind: detect\ndetect: {{ model: demo }}\ndata: {{ source: 'file://{tmp}/eeg' }}\n")
        d = Daemon(tmp).start()
        network = trained_network(f"{tmp}/network")
        detect(d, tmp)
        check_ward(d, tmp)
        detect_with_ward(d, tmp)
        show_network(d, network)
        check_review_without_events(d, tmp)
        correct(d, tmp)
        train_on_corrections(d, tmp, network)
        draw_curve(tmp)
        blend(d, tmp, network)
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
