#!/usr/bin/env python3
"""training.temperature: auto. The number in the model file is the one of least cross entropy over the validation's seconds, found here
from the traces of the same network without it; it divides logits in streams; a training that was stopped ends with the same file; and
an ensemble of models with temperatures answers with the mean of their divided logits."""
import glob
import hashlib
import json
import os
import struct
import subprocess
import sys

import numpy as np

from daemon import MINI, SOURCE, Daemon, make_corpus, temporary

DRIVER = os.path.join(os.environ["BRR_BUILD_DIR"], "tests", "task_driver")
SETS = [*MINI[2:], "model.type=causal", "model.preset=tiny", "model.encoder_channels=[8,8,8,16]", "model.rescnn_blocks=0",
        "data.normalize=envelope", "training.max_steps=12", "training.validate_every=6", "training.precision=fp32", "training.temperature=auto", "training.early_stopping.patience=0"]
RATE = 256


def train(tmp, name, *sets):
    r = subprocess.run([DRIVER, f"{SOURCE}/configs/tiny.yaml", f"{tmp}/{name}", f"{tmp}/train-cache", f"data.source=file://{tmp}/eeg", *SETS, *sets],
                       capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stdout[-2000:] + r.stderr[-4000:]
    last = max(glob.glob(f"{tmp}/{name}/checkpoints/step-????????.safetensors"))
    with open(f"{tmp}/{name}/report.json", encoding="utf-8") as f:
        return last, json.load(f)


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def read_header(path):
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack_from("<Q", data)[0]
    return json.loads(data[8:8 + size]), data[8 + size:]


def without_temperature(path, out):
    header, tensors = read_header(path)
    temperature = float(header["__metadata__"].pop("brr.temperature"))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(out, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + tensors)
    return temperature


def trace(d, recording, model, name):
    out = f"{d.dir}/{name}.npy"
    code, text, err = d.ctl("stream", recording, "--model", model, "--out", f"{d.dir}/{name}.tsv", "--probs", out, "--json")
    assert code == 0, err or text
    return np.load(out).astype(np.float64)


def seizures_of(recording, n):
    label = np.zeros(n)
    with open(recording.replace("_eeg.edf", "_events.tsv"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f]
    at = {name: i for i, name in enumerate(rows[0])}
    for row in rows[1:]:
        if row[at["eventType"]].startswith("sz"):
            first = round(float(row[at["onset"]]) * RATE)
            label[first:first + round(float(row[at["duration"]]) * RATE)] = 1
    return label


def log_odds(p):
    p = np.clip(p, 1e-7, 1 - 1e-7)
    return np.log(p) - np.log1p(-p)


def best_temperature(z, y):
    """The minimum by golden section, over the logarithm of the temperature, of the mean cross entropy."""
    def loss(x):
        a = z / np.exp(x)
        return np.mean(np.logaddexp(0, a) - y * a)
    low, high, ratio = np.log(0.05), np.log(20), (np.sqrt(5) - 1) / 2
    for _ in range(100):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if loss(left) < loss(right):
            high = right
        else:
            low = left
    return np.exp((low + high) / 2), loss


def check_fit(d, model, report):
    plain = f"{d.dir}/plain.safetensors"
    temperature = without_temperature(model, plain)
    assert temperature != 1 and report["result"]["temperature"] == temperature, (report, temperature)
    z, y, recordings = [], [], []
    for patient in report["split"]["validation"]:
        recordings += sorted(glob.glob(f"{d.dir}/eeg/{patient}/**/*_eeg.edf", recursive=True))
    assert recordings, report["split"]
    for i, recording in enumerate(recordings):
        raw, divided = trace(d, recording, plain, f"raw-{i}"), trace(d, recording, model, f"divided-{i}")
        inner = (raw > 1e-5) & (raw < 1 - 1e-5)
        assert inner.mean() > 0.5
        want = 1 / (1 + np.exp(-log_odds(raw[inner]) / temperature))
        assert np.abs(divided[inner] - want).max() < 1e-5, np.abs(divided[inner] - want).max()
        n = len(raw) // RATE
        z.append(log_odds(raw[:n * RATE].reshape(n, RATE).mean(axis=1)))
        y.append(seizures_of(recording, len(raw))[:n * RATE].reshape(n, RATE).mean(axis=1))
    z, y = np.concatenate(z), np.concatenate(y)
    assert 0 < y.mean() < 1
    want, loss = best_temperature(z, y)
    assert 0.051 < want < 19.9, want  # a minimum inside
    assert abs(temperature / want - 1) < 1e-4, (temperature, want)
    assert loss(np.log(temperature)) < loss(0)
    return recordings[0], plain, temperature


def check_ensemble(d, model, plain, recording, temperature):
    """A model with and one without its temperature: the mean of two logits."""
    both = f"{d.dir}/both.safetensors"
    code, text, err = d.ctl("ensemble", model, plain, "--out", both)
    assert code == 0, err or text
    raw, mean = trace(d, recording, plain, "raw"), trace(d, recording, both, "both")
    inner = (raw > 1e-4) & (raw < 1 - 1e-4)
    want = 1 / (1 + np.exp(-log_odds(raw[inner]) * (1 + 1 / temperature) / 2))
    assert np.abs(mean[inner] - want).max() < 1e-5, np.abs(mean[inner] - want).max()


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=31, hours=0.07)
        model, report = train(tmp, "whole")
        cut = [read_header(train(tmp, "parts", f"stop_after={step}")[0])[0]["__metadata__"] for step in (8, 9)]
        assert cut[0]["brr.temperature"] == cut[1]["brr.temperature"] and int(cut[1]["brr.step"]) == 9, cut  # of step 6
        again, _ = train(tmp, "parts")
        assert digest(again) == digest(model), "a training that was stopped ended with another file"
        d = Daemon(tmp).start()
        recording, plain, temperature = check_fit(d, model, report)
        check_ensemble(d, model, plain, recording, temperature)
        assert d.stop() == 0
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
