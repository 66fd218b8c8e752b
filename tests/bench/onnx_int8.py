#!/usr/bin/env python3
"""What INT8 costs: event F1 and AUROC of the exported networks in onnxruntime (onnxruntime-node of npm), fp32 and INT8, on synthetic recordings and,
with a folder of real ones (EEG/chbmit, EEG/eegmat as docs/models.md has them), on those. INT8 is calibrated on recordings that are not scored.

    BRR_SOURCE_DIR=. BRR_BUILD_DIR=build BRR_BIN=build/bin python3 tests/bench/onnx_int8.py [EEG]"""
import csv
import glob
import json
import os
import subprocess
import sys
import tempfile

import mne
import numpy as np
import scipy.stats

SOURCE = os.environ["BRR_SOURCE_DIR"]
sys.path[:0] = [f"{SOURCE}/{folder}" for folder in ("client/python", "tests/integration", "tests")]
from brr import Detector, onnx  # noqa: E402
from npm import npm_modules  # noqa: E402

RATE, MODELS, PATIENTS = 256, ("demo",), 6
CLIPS = {"chb01_03_2986-3036": (10, 50), "chb01_04_1457-1494": (10, 37), "chb01_15_1722-1772": (10, 50)}
mne.set_log_level("error")


def read(path):
    raw = mne.io.read_raw_edf(path)
    return (raw.get_data() * 1e6).astype(np.float32), raw.info["sfreq"], raw.ch_names


def seizures(path):
    with open(path.removesuffix("_eeg.edf") + "_events.tsv", encoding="utf-8") as f:
        return [(float(r["onset"]), float(r["onset"]) + float(r["duration"])) for r in csv.DictReader(f, delimiter="\t") if r["eventType"].startswith("sz")]


def synthetic(folder, patients, seed):
    subprocess.run([f"{os.environ['BRR_BIN']}/edfgen", "--out", f"{folder}/{seed}", "--patients", str(patients), "--hours-per-patient", "0.1",
                    "--seizures-per-patient", "1", "--seed", str(seed)], check=True, stdout=subprocess.DEVNULL)
    return [(path, seizures(path)) for path in sorted(glob.glob(f"{folder}/{seed}/*/*_eeg.edf"))]


def real(folder):
    """Recordings to score, and the one to calibrate on."""
    clips = [(f"{folder}/chbmit/{name}.edf", [span]) for name, span in CLIPS.items()]
    rest = sorted(glob.glob(f"{folder}/eegmat/*_1.edf"))
    return clips + [(path, []) for path in rest[:-1]], rest[-1:]


def logits(graph, path, rows, modules):
    with open(f"{path}.json", "w", encoding="ascii") as f:
        json.dump({"samples": rows.shape[1], "columns": rows.shape[2], "state": graph.inputs[1][1][1] if len(graph.inputs) > 1 else 0}, f)
    rows.tofile(f"{path}.rows")
    subprocess.run(["node", f"{SOURCE}/tests/golden/onnx/run.js", path, f"{path}.rows", str(len(rows)), f"{path}.out"], check=True,
                   env={**os.environ, "NODE_PATH": modules}, stdout=subprocess.DEVNULL)
    return np.fromfile(f"{path}.out", np.float32).reshape(rows.shape[:2])


def trace(p, hop, samples):
    """One value for each sample: the mean of the windows that cover it."""
    total, count = np.zeros(len(p) * hop + p.shape[1]), np.zeros(len(p) * hop + p.shape[1])
    for k, window in enumerate(p):
        total[k * hop:k * hop + len(window)] += window
        count[k * hop:k * hop + len(window)] += 1
    return total[:samples] / np.maximum(count[:samples], 1)


def events(p, rule):
    """Hysteresis, look-back, shortest duration and merging, as docs/models.md says; without opening and closing, which move ends by samples."""
    found, start, above, below = [], None, 0, 0
    for i, value in enumerate(p):
        above, below = (above + 1 if value >= rule["on"] else 0), (below + 1 if value < rule["off"] else 0)
        if start is None and above == rule["min_onset"]:
            start = i + 1 - above
            while start > 0 and p[start - 1] >= rule["off"] and i - start < rule["lookback_s"] * RATE:
                start -= 1
        if start is not None and (below == rule["min_offset"] or i + 1 == len(p)):
            found.append((start, i + 1 - below))
            start = None
    merged = []
    for first, end in found:
        if end - first < rule["min_duration_s"] * RATE:
            continue
        if merged and first - merged[-1][1] <= rule["merge_gap_s"] * RATE:
            first = merged.pop()[0]
        merged.append((first, end))
    return [(first / RATE, end / RATE) for first, end in merged]


def score(traces, labels, rule):
    """Event F1 by any overlap, and the AUROC of seconds."""
    hit = false = total = 0
    values, truth = [], []
    for p, spans in zip(traces, labels):
        found = events(p, rule)
        total += len(spans)
        hit += sum(any(a < end and b > first for a, b in found) for first, end in spans)
        false += sum(not any(a < end and b > first for first, end in spans) for a, b in found)
        seconds = p[:len(p) // RATE * RATE].reshape(-1, RATE).mean(1)
        values.append(seconds)
        truth.append([any(first <= t < end for first, end in spans) for t in range(len(seconds))])
    ranks, truth = scipy.stats.rankdata(np.concatenate(values)), np.concatenate(truth).astype(bool)
    n, m = truth.sum(), (~truth).sum()
    return 2 * hit / max(2 * hit + false + total - hit, 1), (ranks[truth].sum() - n * (n + 1) / 2) / (n * m), hit, false


def judge(name, corpus, recordings, calibration, folder, modules):
    detector, model = Detector(name), f"{SOURCE}/models/{name}.safetensors"
    about = onnx.read_model(model)[1]
    rule, temperature, hop = json.loads(about["brr.events"]), float(about.get("brr.temperature", 1)), int(detector.hop_s * RATE)
    uv = [read(path) for path, _ in recordings]
    rows, labels = [detector.rows(*x) for x in uv], [spans for _, spans in recordings]
    taken = detector.rows(*read(calibration))
    taken = taken[:240] if hop <= RATE else taken[::6]
    found = {}
    for kind, int8 in (("fp32", None), ("INT8", taken)):
        path = f"{folder}/{name}-{kind}.onnx"
        graph = onnx.export(model, path, int8=int8)
        step = rows[0].shape[1] if len(graph.inputs) > 1 else hop
        traces = [trace(1 / (1 + np.exp(-logits(graph, path, r, modules) / temperature)), step, int(x[0].shape[1] * RATE / x[1])) for r, x in zip(rows, uv)]
        found[kind] = score(traces, labels, rule)
    own = score([detector.detect(*x).probabilities for x in uv], labels, rule)
    assert own[0] == found["fp32"][0] and abs(own[1] - found["fp32"][1]) < 1e-4, (own, found["fp32"])  # the file is the detector
    hours = sum(x[0].shape[1] / x[1] for x in uv) / 3600
    (f32, a32, hit, false), (f8, a8, hit8, false8) = found["fp32"], found["INT8"]
    print(f"| {name} | {corpus}: {hours:.2f} h, {sum(map(len, labels))} seizures | {f32:.3f} ({hit} found, {false} false) | {f8:.3f} ({hit8}, {false8}) | {a32:.4f} |"
          f" {a8:.4f} | {f32 - f8:.3f}, {abs(a32 - a8):.4f} |", flush=True)


def main():
    modules = npm_modules(f"{SOURCE}/tests/golden/onnx")
    print("| model | recordings | F1 fp32 | F1 INT8 | AUROC fp32 | AUROC INT8 | loss of F1, AUROC |\n|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        cases = [("synthetic", synthetic(folder, PATIENTS, 101), synthetic(folder, 1, 102)[0][0])]
        if len(sys.argv) > 1:
            scored, other = real(sys.argv[1])
            cases.append(("real", scored, other[0]))
        for name in MODELS:
            for corpus, recordings, calibration in cases:
                judge(name, corpus, recordings, calibration, folder, modules)


if __name__ == "__main__":
    main()
