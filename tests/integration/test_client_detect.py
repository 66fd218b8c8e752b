#!/usr/bin/env python3
"""detect does whole folders, goes on over a bad file and says so; gaps of EDF+D files stay gaps; pacing keeps its pace."""
import csv
import glob
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time

import numpy

from daemon import BIN, PATIENCE, SOURCE, until, trained_network
from page_beds import write_holes
from stream_fixture import RATE, streaming_daemon, trace

SHIFT_AT, SHIFT_S = 50, 12


def discontinuous(source, target, shift_s=SHIFT_S):
    """The recording as EDF+D, its records from SHIFT_AT on shift_s seconds later."""
    with open(source, "rb") as f:
        data = bytearray(f.read())
    n, records = int(data[252:256]), int(data[236:244])
    data[192:197] = b"EDF+D"
    sizes = [2 * int(data[256 + n * 216 + 8 * i:256 + n * 216 + 8 * i + 8]) for i in range(n)]
    labels = [data[256 + 16 * i:256 + 16 * i + 16].decode().strip() for i in range(n)]
    at = 256 * (n + 1) + sum(sizes[:labels.index("EDF Annotations")])
    for r in range(records):
        tal = b"+%.1f\x14\x14" % (r + (shift_s if r >= SHIFT_AT else 0))
        room = sizes[labels.index("EDF Annotations")]
        data[at + r * sum(sizes):at + r * sum(sizes) + room] = tal.ljust(room, b"\0")
    with open(target, "wb") as f:
        f.write(data)


def check_folder(d, model):
    eeg, out = f"{d.dir}/eeg", f"{d.dir}/hyp"
    bad = f"{eeg}/sub-09/sub-09_run-01_eeg.edf"
    os.makedirs(os.path.dirname(bad))
    with open(bad, "wb") as f:
        f.write(b"this is no recording" * 100)
    twin = f"{eeg}/sub-01/sub-01_run-01_eeg.vhdr"
    with open(twin, "w") as f:
        f.write("Brain Vision Data Exchange Header File Version 1.0\n")
    code, text, err = d.ctl("detect", eeg, "--model", model, "--out", out)
    assert code == 1 and "1 of 3 recordings failed" in err and "sub-09" in text, (text, err)
    assert "sub-01_run-01_eeg.vhdr is left out: sub-01/sub-01_run-01_eeg.edf is the same recording" in err, err
    os.remove(twin)
    recordings = sorted(glob.glob(f"{eeg}/sub-0[12]/**/*.edf", recursive=True))
    for path in recordings:
        events = os.path.join(out, os.path.relpath(path, eeg)).replace("_eeg.edf", "_events.tsv")
        with open(events, "rb") as f:
            assert f.read() == trace(d, path, model)[0], f"detect and stream differ for {path}"
    assert not os.path.exists(f"{out}/sub-09/sub-09_run-01_events.tsv")
    again = recordings[0]
    events = os.path.join(out, os.path.relpath(again, eeg)).replace("_eeg.edf", "_events.tsv")
    with open(again, "r+b") as f: # what an earlier run found does not stay for a recording that fails now
        whole = f.read()
        f.seek(0)
        f.write(b"damaged!")
    code, text, err = d.ctl("detect", again, "--model", model, "--out", os.path.dirname(events))
    assert code == 1 and "is of an earlier run and was moved to" in err, (text, err)
    assert not os.path.exists(events) and os.path.exists(events + ".earlier")
    os.rename(events + ".earlier", events)
    with open(again, "wb") as f:
        f.write(whole)
    code, text, err = d.ctl("detect", *recordings, "--model", "no-such-model", "--out", os.path.dirname(events))
    assert code == 3 and err.count("no-such-model") == 1 and os.path.exists(events), "a wrong model is one error, and moves no result"
    shutil.rmtree(os.path.dirname(bad))
    code, text, err = d.ctl("detect", *recordings, "--model", model, "--out", f"{d.dir}/flat", "--json", "--parallel", "1")
    rows = [json.loads(line) for line in text.splitlines()]
    assert code == 0 and [r["error"] for r in rows] == [None, None] and all(os.path.dirname(r["output"]) == f"{d.dir}/flat" for r in rows)
    code, text, err = d.ctl("score", eeg, out, "--json")
    assert code == 0 and json.loads(text)["pooled"]["event"]["ref"] == 2, (text, err)
    code, text, err = d.ctl("score", eeg, out, "--events")
    assert code == 0 and sum(line.startswith(("found ", "missed ")) for line in text.splitlines()) == 2, text
    code, text, err = d.ctl("detect", recordings[0], recordings[0], "--model", model, "--out", out)
    assert code == 1 and "both" in err, "two recordings that write one file are refused"


def check_two_headers(d):
    """Two headers on one file of samples are one recording; under two patients they are an error that names both."""
    folder = f"{d.dir}/headers"
    os.makedirs(folder)
    header = write_holes(f"{folder}/a")
    shutil.copy(header, f"{folder}/b.vhdr")
    code, text, err = d.ctl("detect", folder, "--model", "line_length", "--out", f"{d.dir}/headers_found", "--json")
    assert code == 0 and len(text.splitlines()) == 1 and "a.vhdr and b.vhdr are one file: it is one recording" in err, (text, err)
    with open(f"{d.dir}/headers.yaml", "w", encoding="utf-8") as f:
        f.write(f"kind: detect\ndata: {{ source: 'file://{folder}', loader_workers: 1 }}\ndetect: {{ model: line_length }}\n")
    code, end, err = d.submit(file=f.name)
    log = d.ctl("logs", end["job"])[1]
    assert code == 0 and "a.vhdr and b.vhdr are one file: it is one recording" in log, (end, err, log)
    for patient in ("sub-01", "sub-02"):
        shutil.copy(header, f"{folder}/{patient}_eeg.vhdr")
    code, text, err = d.ctl("detect", folder, "--model", "line_length", "--out", f"{d.dir}/headers_found", "--json")
    assert code == 1 and not text and "sub-01_eeg.vhdr and sub-02_eeg.vhdr are one file under two patients (sub-01, sub-02)" in err, (text, err)


def check_benchmark(d):
    """Detectors on the same recordings: the scores are those of detect and score, in one table, as CSV, LaTeX and a picture."""
    out = f"{d.dir}/compared"
    models = ["--model", "line_length", "--model", "band_power"]
    code, text, err = d.ctl("benchmark", f"{d.dir}/eeg", *models, "--output", out, "--json")
    rows = [json.loads(line) for line in text.splitlines()]
    assert code == 0 and [r["model"] for r in rows] == ["line_length", "band_power"], (text, err)
    for r in rows:
        code, text, err = d.ctl("score", f"{d.dir}/eeg", f"{out}/{r['model']}", "--json")
        event = json.loads(text)["pooled"]["event"]
        assert code == 0 and r["found"] == event["tp"] and r["seizures"] == event["ref"] > 0 and r["sensitivity"] == event["sensitivity"], (r, event)
        assert r["sensitivity_low"] <= r["sensitivity"] <= r["sensitivity_high"] and r["false_alarms_per_24h"] < r["false_alarms_per_24h_high"], r
    with open(f"{out}/benchmark.csv", newline="") as f:
        table = list(csv.DictReader(f))
    assert [r["model"] for r in table] == ["line_length", "band_power"] and float(table[0]["sensitivity"]) == round(rows[0]["sensitivity"], 4), table
    with open(f"{out}/benchmark.tex") as tex, open(f"{out}/benchmark.svg") as svg:
        assert "line\\_length & " in tex.read() and "line_length" in svg.read()
    code, text, err = d.ctl("benchmark", f"{d.dir}/eeg", *models, "--table", "csv", "--plot", f"{d.dir}/compared.png")
    assert code == 0 and text.splitlines()[0].startswith("model,hours,") and os.path.getsize(f"{d.dir}/compared.png") > 1000, (text, err)
    with open(f"{out}/benchmark.csv", "a") as f:
        f.write("my,own,line\n")
    code, text, err = d.ctl("benchmark", f"{d.dir}/eeg", *models, "--output", out)
    assert code == 1 and f"{out}/benchmark.csv exists" in err and "1 of 2" not in err, err  # before a model runs
    for words, said in ((["--model", "ward"], "twice or more"), ([*models, "--model", "band_power"], "band_power is given twice")):
        code, text, err = d.ctl("benchmark", f"{d.dir}/eeg", *words)
        assert code == 2 and said in err and not text, err
    code, text, err = d.ctl("benchmark", f"{d.dir}/eeg", *models, "--model", "nobody")
    assert code == 3 and "nobody did not run" in err and "no model is served as 'nobody'" in err and not text, (code, err)


def check_files_of_others(d, recording, model):
    """No command replaces what somebody else wrote or corrected; its own files it does."""
    folder, out = f"{d.dir}/ward", f"{d.dir}/found"
    os.makedirs(folder)
    shutil.copy(recording, f"{folder}/night_eeg.edf")
    code, text, err = d.ctl("detect", folder, "--model", model, "--out", folder)
    assert code == 1 and "is the folder of the recordings" in err and os.listdir(folder) == ["night_eeg.edf"], err
    labels = "onset\tduration\teventType\n10\t40\tsz\n"
    for events, again in ((f"{folder}/night_events.tsv", ["detect", folder, "--model", model, "--out", folder]),
                          (f"{folder}/night_events.tsv", ["stream", f"{folder}/night_eeg.edf", "--model", model, "--out", folder])):
        with open(events, "w") as f:
            f.write(labels)
        code, text, err = d.ctl(*again)
        assert code == 1 and "brrd did not write it" in err and "--force" in err, (text, err)
        with open(events) as f:
            assert f.read() == labels
    os.unlink(events)
    for _ in range(2):  # its own file is replaced, and is no label
        code, text, err = d.ctl("stream", f"{folder}/night_eeg.edf", "--model", model, "--out", folder, "--alarms", "--json")
        assert code == 0 and json.loads(text.splitlines()[-1])["reference"] is None, (text, err)
    with open(f"{folder}/.brrd-output.json") as f:
        assert sorted(json.load(f)["files"]) == ["night_alarms.tsv", "night_events.tsv"]
    code, text, err = d.ctl("score", folder, folder)
    assert code == 0 and "detections, not with labels" in err, (text, err)
    shutil.copy(events, f"{d.dir}/copy.tsv")
    with open(events, "a") as f:  # corrected by somebody: his now
        f.write("70\t5\tsz\tn/a\tn/a\tn/a\tn/a\n")
    code, text, err = d.ctl("stream", f"{folder}/night_eeg.edf", "--model", model, "--out", folder)
    assert code == 1 and "--force" in err, (text, err)
    code, text, err = d.ctl("stream", f"{folder}/night_eeg.edf", "--model", model, "--out", folder, "--force")
    assert code == 0, err
    os.makedirs(out)
    for name, *words in (("a.npy", "stream", recording, "--model", model, "--probs"), ("a.svg", "stream", recording, "--model", model, "--plot"),
                         ("a.html", "report", f"{d.dir}/hyp", "--out"), ("a.safetensors", "windows", recording, "--window", "16", "--out"),
                         ("b.safetensors", "burst", "generate", "ring", "--out"), ("c.edf", "store", "get", f"file://{recording}", "--out"),
                         ("d.edf", "store", "get", f"file://{recording}"), ("d.safetensors", "checkpoint", "get", model, "--out")):
        with open(f"{out}/{name}", "w") as f:
            f.write("mine")
        code, text, err = d.ctl(*words, f"{out}/{name}")
        assert code == 1 and "--force" in err, (name, text, err)
        with open(f"{out}/{name}") as f:
            assert f.read() == "mine", name
        code, text, err = d.ctl(*words, f"{out}/{name}", "--force")
        assert code == 0, (name, text, err)
        if words[0] != "store":
            code, text, err = d.ctl(*words, f"{out}/{name}")
            assert code == 0, (name, text, err)


def check_bad_weights(d, model):
    """A model file with NaN is refused by name wherever it is read; the good model goes on serving."""
    good, bad = f"{d.dir}/good.safetensors", f"{d.dir}/nan.safetensors"
    code, text, err = d.ctl("checkpoint", "get", model, "--out", good)
    assert code == 0, err
    with open(good, "rb") as f:
        data = bytearray(f.read())
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    name = next(k for k in header if k.endswith("conv1.weight"))
    at = 8 + int.from_bytes(data[:8], "little") + header[name]["data_offsets"][0]
    data[at:at + 4] = b"\x00\x00\xc0\x7f"
    with open(bad, "wb") as f:
        f.write(data)
    assert d.ctl("load", "ward", good)[0] == 0
    served = [m for m in map(json.loads, d.ctl("models", "--json")[1].splitlines()) if m["name"] == "ward"]
    for words in (["load", "ward", bad], ["checkpoint", "put", bad], ["checkpoint", "verify", bad],
                  ["ensemble", good, bad, "--out", f"{d.dir}/both.safetensors"]):
        code, text, err = d.ctl(*words)
        assert code == 1 and name in text + err and "NaN" in text + err, (words, text, err)
    at = 8 + int.from_bytes(data[:8], "little") + header["head.out.bias"]["data_offsets"][0]
    good_data = bytearray(open(good, "rb").read())
    good_data[at:at + 4] = struct.pack("<f", -1e30)
    with open(bad, "wb") as f:
        f.write(good_data)
    for words in (["load", "ward", bad], ["checkpoint", "verify", bad]):
        code, text, err = d.ctl(*words)
        assert code == 1 and "the probability is 0 at every sample" in text + err, (words, text, err)
    now = [m for m in map(json.loads, d.ctl("models", "--json")[1].splitlines()) if m["name"] == "ward"]
    assert now == served, (now, served)
    assert d.ctl("unload", "ward")[0] == 0


def check_words(d, recording, model):
    """A mistyped option is named on one line; a picture and a table without a model; labels of metrics are an object."""
    for words, said in ((["brrd", "--confg", "x"], "there is no option '--confg'; did you mean --config?"), (["brrd", "--config"], "--config needs a value"),
                        (["brrctl", "--jsn"], "there is no option '--jsn'; did you mean --json?"), (["brrd", "run", "--jsn"], "--jsn: not an option")):
        r = subprocess.run([f"{BIN}/{words[0]}", *words[1:]], capture_output=True, text=True)
        assert r.returncode == 2 and said in r.stderr and r.stderr.count("\n") == 1, (words, r.stderr)
    r = subprocess.run([f"{BIN}/brrctl", "version", "--endpoint", f"unix:{d.dir}/nothing"], capture_output=True, text=True)
    assert r.returncode == 4 and r.stdout.startswith("brrctl "), r
    code, text, err = d.ctl("plot", recording, "--from", "20", "--seconds", "5", "--output", f"{d.dir}/page.svg")
    with open(f"{d.dir}/page.svg", encoding="utf-8") as f:
        assert code == 0 and "Fp1-F7" in f.read(), err
    assert d.ctl("plot", recording, "--from", "1e6", "--output", f"{d.dir}/page.svg")[0] == 1
    code, text, err = d.ctl("score", f"{d.dir}/eeg", f"{d.dir}/hyp", "--table", "csv", "--by", "patient")
    head, *rows = [line.split(",") for line in text.splitlines()]
    assert code == 0 and [r[0] for r in rows] == ['"sub-01"', '"sub-02"', '"all"'] and {len(r) for r in rows} == {len(head)}, text
    sensitivity = [float(rows[-1][head.index(k)]) for k in ("sensitivity_low", "sensitivity", "sensitivity_high")]
    assert sensitivity == sorted(sensitivity), rows
    assert "\\begin{tabular}" in d.ctl("score", f"{d.dir}/eeg", f"{d.dir}/hyp", "--table", "latex")[1]
    labels = [json.loads(line)["labels"] for line in d.ctl("metrics", "brrd_stream", "--json")[1].splitlines()]
    assert labels and all(isinstance(x, dict) for x in labels) and any("model" in x for x in labels), labels


def write_few(recording, path, electrodes):
    """A copy that has no other electrodes."""
    with open(recording, "rb") as f:
        data = bytearray(f.read())
    for i in range(int(data[252:256])):
        at = 256 + 16 * i
        if data[at:at + 16].decode().split()[-1].split("-")[0].capitalize() not in electrodes:
            data[at:at + 16] = f"AUX{i}".ljust(16).encode()
    with open(path, "wb") as f:
        f.write(data)


def check_partial(d, recording):
    """Without all channels of its montage a model of a feature runs on those there are, if it was asked to; a network if it can miss them; demo does not."""
    path, out = f"{d.dir}/few_eeg.edf", f"{d.dir}/few"
    write_few(recording, path, ("Fp1", "Fp2", "C3", "C4", "T3", "T4", "O1", "O2"))
    code, text, err = d.ctl("detect", path, "--model", "line_length", "--output", out)
    assert code == 1 and "--partial N" in text, (text, err)
    code, text, err = d.ctl("detect", path, "--model", "line_length", "--partial", "9", "--output", out)
    assert code == 1 and "8 channels can be used, and at least 9 were asked for" in text, (text, err)
    network = trained_network(f"{d.dir}/network")
    code, text, err = d.ctl("detect", path, "--model", network, "--partial", "8", "--output", out)
    assert code == 1 and "0 of the 18 channels of montage bipolar-18 can be made, and at least 8 are needed" in text, (text, err)
    code, text, err = d.ctl("detect", path, "--model", "demo", "--partial", "8", "--output", out)
    assert code == 1 and "is a network, which needs all of them" in text, (text, err)
    code, text, err = d.ctl("detect", path, "--model", "line_length", "--partial", "8", "--output", out)
    assert code == 0 and "only part of the montage" in err and "Fp1-T3,T3-O1,Fp1-C3,C3-O1" in err and os.path.exists(f"{out}/few_events.tsv"), (text, err)
    code, text, err = d.ctl("detect", path, "--partial", "8", "--output", f"{out}-ward")  # too few of its own channels are there
    assert code == 0 and "Fp1-T3,T3-O1,Fp1-C3,C3-O1" in err, (text, err)
    central = f"{d.dir}/central_eeg.edf"
    write_few(recording, central, ("Fp1", "F3", "C3", "P3", "O1", "Fp2", "F4", "C4", "P4", "O2"))
    code, text, err = d.ctl("detect", central, "--output", out)
    assert code == 1 and "--partial N" in text, (text, err)
    for model in ([], ["--model", network]):
        code, text, err = d.ctl("detect", central, *model, "--partial", "8", "--output", f"{out}{len(model)}")
        assert code == 0 and "only part of the montage" in err and "Fp1-F3,F3-C3,C3-P3,P3-O1,Fp2-F4" in err, (text, err)
    code, text, err = d.ctl("detect", central, "--partial", "10", "--output", f"{out}10")  # of the recording, whatever is made of them
    assert code == 0 and "Fp1-F3,F3-C3,C3-P3,P3-O1,Fp2-F4" in err and "Fp1-O1" not in err, (text, err)
    whole = [d.ctl("stream", recording, "--model", "line_length", "--json", *more)[1].splitlines()[-1] for more in ([], ["--partial", "8"])]
    assert json.loads(whole[0])["events"] == json.loads(whole[1])["events"] and "only part" not in whole[1], whole  # all channels are there


def check_gap(d, recording, model):
    path = f"{d.dir}/gap_eeg.edf"
    discontinuous(recording, path)
    _, p, text = trace(d, path, model)
    summary = json.loads(text.splitlines()[-1])
    first, end = SHIFT_AT * RATE, (SHIFT_AT + SHIFT_S) * RATE
    assert summary["gaps"] == 1 and summary["samples"] == len(p) == summary["source_samples"]
    assert numpy.isnan(p[first:end]).all() and not numpy.isnan(p[:first]).any() and not numpy.isnan(p[end:]).any()
    code, text, err = d.ctl("windows", path, "--window", "16", "--hop", "8", "--json")
    assert code == 0 and json.loads(text)["segments"] == 2 and json.loads(text)["windows"] == summary["windows"], (text, summary)


def check_gap_in_scores(d, recording):
    """No score counts the seconds of a gap that docs/scores.md names, whether the trace has numbers there or not."""
    path = f"{d.dir}/gaps/sub-01_eeg.edf"
    os.makedirs(os.path.dirname(path))
    for shift_s, missing in ((1.5, {"line_length": 0, "ward": 0}), (5, {"line_length": 5, "ward": 0}), (12, {"line_length": 12, "ward": 12})):
        discontinuous(recording, path, shift_s)
        for model, seconds in missing.items():
            p = trace(d, path, model)[1]
            assert numpy.isnan(p).sum() == seconds * RATE and numpy.isnan(p[SHIFT_AT * RATE:][:seconds * RATE]).all(), (shift_s, model)
        recorded = len(p) / RATE - shift_s
        for name, row in (("gaps", ""), ("found", f"{SHIFT_AT - 2}\t{shift_s + 4}\tsz\n")):
            os.makedirs(f"{d.dir}/{name}", exist_ok=True)
            with open(f"{d.dir}/{name}/sub-01_events.tsv", "w", encoding="utf-8") as f:
                f.write(f"onset\tduration\teventType\n{row}")
        found = json.loads(d.ctl("score", f"{d.dir}/gaps", f"{d.dir}/found", "--json")[1])
        assert abs(found["hours"] * 3600 - recorded) < 1e-6 and found["pooled"]["sample"]["fp"] == 4, (shift_s, found)
        code, end, err = d.submit("evaluate.checkpoint=ward", f"data.source=file://{d.dir}/gaps", "evaluate.plots=0", file=f"{SOURCE}/configs/eval.yaml")
        assert code == 0 and abs(end["result"]["hours"] * 3600 - recorded) < 1e-6, (shift_s, end, err)


def check_gap_of_days(d, recording, model):
    """Behind a wrong date detect goes on, as behind a gap of a day; a trace of all samples is refused before the daemon is asked."""
    path, day, found = f"{d.dir}/days_eeg.edf", 86400, {}
    hours = [line for line in d.ctl("detect", recording, "--model", model, "--output", f"{d.dir}/days0")[1].splitlines() if " hours, " in line]
    for days in (1, 40):
        discontinuous(recording, path, days * day)
        code, text, err = d.ctl("detect", path, "--model", model, "--on", "0.001", "--output", f"{d.dir}/days{days}")
        assert [line.split(",")[1] for line in text.splitlines() if " hours, " in line] == [line.split(",")[1] for line in hours] != [], (text, hours)
        with open(f"{d.dir}/days{days}/days_events.tsv", encoding="utf-8") as f:
            found[days] = [float(row["onset"]) - (days * day if float(row["onset"]) > day else 0) for row in csv.DictReader(f, delimiter="\t")]
        assert code == 0 and ("a gap of 40.0 days at 50 s" in err and "is probably wrong" in err) == (days == 40), (code, err)
    assert found[1] == found[40] and found[1][0] < SHIFT_AT <= found[1][-1], found
    for more in ([], ["--probs", f"{d.dir}/p.npy"]):
        code, _, err = d.ctl("stream", path, "--model", model, *more)
        assert code == 1 and "a gap of 40.0 days at 50 s" in err and "expected at most 24 h" in err, (code, err)


def check_trends(d):
    """A row for each ten seconds, without numbers where the gap is; the same as a picture."""
    for name in ("trends.tsv", "trends.svg"):
        code, _, err = d.ctl("detect", f"{d.dir}/gap_eeg.edf", "--model", "line_length", "--out", f"{d.dir}/trends", "--trends", f"{d.dir}/{name}", "--force")
        assert code == 0, err
    with open(f"{d.dir}/trends.tsv", encoding="utf-8") as f:
        names, *lines = [line.rstrip("\n").split("\t") for line in f]
    empty = [float(line[0]) for line in lines if line[2] == "n/a"]
    assert names[:3] == ["onset", "duration", "aeeg_left_low"] and [float(line[0]) for line in lines] == [10.0 * i for i in range(len(lines))], names
    assert empty == [10.0 * i for i in range(len(lines)) if 10 * i < SHIFT_AT + SHIFT_S and 10 * i + 10 > SHIFT_AT], empty
    with open(f"{d.dir}/trends.svg", encoding="utf-8") as f:
        text = f.read()
    assert "Suppression ratio" in text and text.index("Detection: highest probability") < text.index("aEEG of"), text[:2000]
    holes = write_holes(f"{d.dir}/holes", seconds=40)
    code, _, err = d.ctl("detect", holes, "--model", "line_length", "--out", f"{d.dir}/trends", "--trends", f"{d.dir}/holes.tsv")
    with open(f"{d.dir}/holes.tsv", encoding="utf-8") as f:
        empty = [row["onset"] for row in csv.DictReader(f, delimiter="\t") if row["aeeg_left_low"] == "n/a"]
    assert code == 0 and empty == ["0", "10"], (err, empty)


def with_unit(source, target, channels, unit):
    """The recording with another unit for its first channels."""
    with open(source, "rb") as f:
        data = bytearray(f.read())
    n = int(data[252:256])
    for c in range(channels):
        data[256 + 96 * n + 8 * c:256 + 96 * n + 8 * c + 8] = unit.ljust(8).encode()
    with open(target, "wb") as f:
        f.write(data)
    return target


def check_units(d, recording, model):
    code, text, err = d.ctl("stream", with_unit(recording, f"{d.dir}/mm.edf", 1, "mm"), "--model", model)
    assert code == 1 and "has the unit 'mm'; expected a voltage" in err, (text, err)
    same = trace(d, recording, model)[1]
    for unit, note in (("", "2 channels, EEG Fp1-REF the first of them, have no unit: their values are read as uV"), ("uVolts", "")):
        _, p, text = trace(d, with_unit(recording, f"{d.dir}/unit.edf", 2, unit), model)
        assert json.loads(text.splitlines()[-1])["note"] == note and numpy.array_equal(p, same), text


def common_signal(data, labels, sizes, first):
    """All electrodes measure what the first does, as where the reference is off: nothing is left between them."""
    common = bytearray(data)
    eeg = [i for i, label in enumerate(labels) if label.startswith("EEG ")]
    for record in range(first, len(data), sum(sizes)):
        ends = [record + sum(sizes[:i]) for i in range(len(sizes) + 1)]
        for i in eeg:
            common[ends[i]:ends[i + 1]] = data[ends[eeg[0]]:ends[eeg[0] + 1]]
    return common


def check_common(d):
    """One signal on all electrodes silences the alarms as flat ones do, and is told in the same place."""
    code, text, err = d.ctl("stream", f"{d.dir}/still/common_eeg.edf", "--model", "ward", "--alarms", "--json")
    assert code == 0, err or text
    rows = [json.loads(line) for line in d.ctl("journal", "--kind", "quality", "--json")[1].splitlines()]
    assert any(row["detail"].count(" flat") == 19 for row in rows), rows


def check_flat(d, recording, model):
    """Channels that never change are named, in detect as in the log of a job: EEG in volts that was written in steps of 0.1 uV is all of one value."""
    with open(recording, "rb") as f:
        data = bytearray(f.read())
    n, first = int(data[252:256]), 256 * (int(data[252:256]) + 1)
    sizes = [2 * int(data[256 + n * 216 + 8 * i:264 + n * 216 + 8 * i]) for i in range(n)]
    labels = [data[256 + 16 * i:272 + 16 * i].decode().strip() for i in range(n)]
    os.makedirs(f"{d.dir}/still")
    with open(f"{d.dir}/still/common_eeg.edf", "wb") as f:
        f.write(common_signal(data, labels, sizes, first))
    for name, flat in (("one", ["EEG Fp1-REF"]), ("all", [x for x in labels if x.startswith("EEG ")])):
        for record in range(first, len(data), sum(sizes)):
            for i, at in ((i, record + sum(sizes[:i])) for i in range(n) if labels[i] in flat):
                data[at:at + sizes[i]] = bytes(sizes[i])
        with open(f"{d.dir}/still/{name}_eeg.edf", "wb") as f:
            f.write(data)
    code, text, err = d.ctl("detect", f"{d.dir}/still", "--model", model, "--output", f"{d.dir}/still_found", "--json")
    rows = {os.path.basename(row["recording"])[:3]: row for row in map(json.loads, text.splitlines())}
    assert code == 0 and "1 channel of 19, EEG Fp1-REF the first of them, is flat: the same value throughout" in rows["one"]["note"], (rows, err)
    assert "all 19 channels are flat: the same value throughout" in rows["all"]["note"], rows
    assert "all 19 channels have the same signal: nothing is left between the electrodes" in rows["com"]["note"], rows
    with open(f"{d.dir}/still.yaml", "w", encoding="utf-8") as f:
        json.dump({"kind": "detect", "data": {"source": f"file://{d.dir}/still"}, "detect": {"model": model}}, f)
    code, end, err = d.submit(file=f"{d.dir}/still.yaml")
    log = d.ctl("logs", end["job"])[1]
    assert code == 0 and "all_eeg.edf" in log and "all 19 channels are flat" in log and "1 channel of 19, EEG Fp1-REF" in log, (log, err)
    assert "common_eeg.edf" in log and "all 19 channels have the same signal" in log, log


def check_pace(d, recording, model):
    start = time.time()
    _, p, text = trace(d, recording, model, "--realtime", "60")
    took, expected = time.time() - start, len(p) / RATE / 60
    assert 0.95 * expected < took, f"{took:.2f} s for a recording that lasts {expected:.2f} s at this pace"
    assert json.loads(text.splitlines()[-1])["duplicate_samples"] == 0


def summary(d, *args):
    code, text, err = d.ctl("stream", *args, "--json")
    assert code == 0, err
    return json.loads(text.splitlines()[-1])


def check_thresholds(d, recording, model):
    """--on and --off take the place of the model's thresholds; where nothing is found, the highest probability is named."""
    low, high = (summary(d, recording, "--model", model, "--on", on) for on in ("0.0001", "0.9999"))
    assert low["events"] and low["threshold_on"] == low["threshold_off"] == 0.0001 and not high["events"], (low, high)
    assert low["highest_probability"] == high["highest_probability"] and 0 < high["highest_probability"] < 0.9999, high
    assert 0 <= high["highest_s"] < high["duration_s"], high
    text = d.ctl("stream", recording, "--model", model, "--on", "0.9999")[1]
    assert f"highest    probability {high['highest_probability']:.3f} at " in text and "an event begins at 1" in text, text
    code, text, err = d.ctl("detect", recording, "--model", model, "--on", "0.9999", "--out", f"{d.dir}/none")
    assert code == 0 and f"the highest probability is {high['highest_probability']:.3f}" in text, text
    code, text, err = d.ctl("stream", recording, "--model", model, "--on", "0.5", "--off", "0.6")
    assert code == 1 and "expected 0 < off <= on" in err, err
    shutil.copy(recording, f"{d.dir}/other.edf")
    for words, code, text in ((("--on", "0.3", "--off", "0.9"), 2, "brrctl: --off is 0.9; expected at most --on (0.3)"),
                              (("--off", "0.9999"), 1, "expected 0 < off <= on")):
        two = (recording, f"{d.dir}/other.edf", "--parallel", "1", "--out", f"{d.dir}/wrong")
        got = d.ctl("detect", *two, "--model", model, *words)
        assert got[0] == code and got[2].count(text) == 1 and "2/2" not in got[2], got
    # the same of a job of the daemon
    job = f"{d.dir}/detect.yaml"
    with open(job, "w", encoding="utf-8") as f:
        json.dump({"kind": "detect", "data": {"source": f"file://{os.path.dirname(recording)}"}, "detect": {"model": model, "on": 0.9999}}, f)
    code, end, err = d.submit(file=job)
    assert code == 0 and end["result"]["events"] == 0 and end["result"]["threshold_on"] == 0.9999, (end, err)
    with open(f"{d.job(end['job'])['directory']}/recordings.jsonl", encoding="utf-8") as f:
        row = json.loads(f.readline())
    assert abs(row["highest_probability"] - high["highest_probability"]) < 1e-6, (row, high)


def check_alarms(d, recording, model):
    """Alarms are in a file beside the events and in the picture, from on to off."""
    out, plot = f"{d.dir}/bed_events.tsv", f"{d.dir}/bed.svg"
    code, text, err = d.ctl("stream", recording, "--model", model, "--alarms", "--on", "0.0001", "--out", out, "--plot", plot, "--json")
    assert code == 0, err
    marks = [a["alarm"] for a in map(json.loads, text.splitlines()) if "alarm" in a]
    reasons = [m["reason"] for m in marks]
    assert all((r is None) == m["on"] for r, m in zip(reasons, marks)) and set(reasons) <= {None, "ended", "closed"}, marks
    shown = d.ctl("stream", recording, "--model", model, "--alarms", "--on", "0.0001", "--out", f"{d.dir}/shown_events.tsv")[1]
    assert (shown.count(", over\n"), shown.count(": the recording or the stream ended\n")) == (reasons.count("ended"), reasons.count("closed")), shown
    with open(f"{d.dir}/bed_alarms.tsv", encoding="utf-8") as f:
        rows = [line.split("\t") for line in f.read().splitlines()[1:]]
    on = [m["time_s"] for m in marks if m["on"]]
    assert on and [r[2] for r in rows] == ["alarm"] * len(on) and all(abs(float(r[0]) - t) < 0.01 for r, t in zip(rows, on)), (rows, marks)
    with open(out, encoding="utf-8") as f:
        assert "alarm" not in f.read()
    with open(plot, encoding="utf-8") as f:
        picture = f.read()
    assert picture.count("<title>alarm at") == len(on) and ">clock<" in picture and "without filters" in picture and model in picture
    assert not os.path.exists(f"{d.dir}/x_alarms.tsv")  # nobody asked


def check_tune(d, recording, model):
    """Thresholds chosen on labelled recordings become a new model; the old one stays."""
    out = f"{d.dir}/tuned.safetensors"
    code, text, err = d.ctl("tune", model, f"{d.dir}/eeg", "--out", out, "--json")
    assert code == 0, (text, err)
    tuned = json.loads(text.splitlines()[-1])
    assert tuned["recordings"] == 2 and tuned["seizures"] == 2 >= tuned["found"] > 0 and tuned["selected_on"] == "these recordings", tuned
    assert tuned["lookback_s"] == 60, tuned
    low, high = tuned["sensitivity_95"]
    assert 0 <= low < tuned["sensitivity"] <= high <= 1 and tuned["false_alarms_per_24h_95"][1] > tuned["false_alarms_per_24h"], tuned
    before, after = (summary(d, recording, "--model", m) for m in (model, out))
    assert (after["threshold_on"], after["threshold_off"]) == (tuned["threshold_on"], tuned["threshold_off"]), (after, tuned)
    assert after["highest_probability"] == before["highest_probability"] and after["model_sha256"] == tuned["sha256"], (before, after)
    assert not os.path.exists(out + ".part") and before["model_sha256"] == tuned["model_sha256"]
    code, text, err = d.ctl("tune", model, f"{d.dir}/eeg", "--out", out)
    assert code == 0 and "95 % interval" in text and "test them on other patients" in text, text
    assert d.ctl("tune", model, f"{d.dir}/nothing", "--out", out)[0] == 3


def check_interrupt(d, recording, model):
    """Ctrl-C keeps what is done, and leaves no session behind."""
    many, out, n = f"{d.dir}/many", f"{d.dir}/interrupted", 60
    for i in range(n):
        os.makedirs(f"{many}/sub-{i:02d}")
        os.link(recording, f"{many}/sub-{i:02d}/sub-{i:02d}_eeg.edf")
    found = lambda: glob.glob(f"{out}/*/*_events.tsv")
    client = subprocess.Popen([f"{BIN}/brrctl", "detect", many, "--model", model, "--out", out, "--parallel", "2"], env=d.env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
    while not found() and client.poll() is None:
        time.sleep(0.01)
    client.send_signal(signal.SIGINT)
    _, err = client.communicate(timeout=PATIENCE)
    assert client.returncode == 130 and "interrupted; " in err and 0 < len(found()) < n, (client.returncode, len(found()), err)
    until(lambda: not d.ctl("sessions", "--json")[1], lambda: d.ctl("sessions", "--json")[1])
    code, text, err = d.ctl("detect", many, "--model", model, "--out", out)
    assert code == 0 and len(found()) == n, err


def main():
    with streaming_daemon() as (d, recording, model):
        check_folder(d, model)
        check_files_of_others(d, recording, model)
        check_bad_weights(d, model)
        check_benchmark(d)
        check_two_headers(d)
        check_words(d, recording, model)
        check_partial(d, recording)
        check_gap(d, recording, model)
        check_gap_in_scores(d, recording)
        check_gap_of_days(d, recording, model)
        check_trends(d)
        check_units(d, recording, model)
        check_flat(d, recording, model)
        check_common(d)
        check_pace(d, recording, model)
        check_thresholds(d, recording, model)
        check_alarms(d, recording, model)
        check_tune(d, recording, model)
        check_interrupt(d, recording, model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
