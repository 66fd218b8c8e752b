#!/usr/bin/env python3
"""Models without a network through the commands that people use: by name, their traces against NumPy, streams of any chunk size
against detect, a fit to labelled recordings, and their scores beside those of another model."""
import glob
import json
import os
import sys

import numpy as np

from baseline_bandpower import read_edf
from daemon import MINI, SOURCE, Daemon, make_corpus, temporary

PAIRS = ("Fp1-F7 F7-T3 T3-T5 T5-O1 Fp1-F3 F3-C3 C3-P3 P3-O1 Fp2-F4 F4-C4 C4-P4 P4-O2 Fp2-F8 F8-T4 T4-T6 T6-O2 Fz-Cz Cz-Pz").split()
RATE, BLOCK = 256, 16
LEARNED = 60 * 16  # blocks
# name: band, seconds of the mean, whether it is of squares, where the median begins, weight and bias
FEATURES = {"line_length": ((1, 25), 1, False, 4, 10, -3), "band_power": ((2.5, 8), 2, True, 20, 6, -3)}
NAMES = "Fp1 F3 C3 P3 F7 T3 T5 O1 Fz Cz Pz Fp2 F4 C4 P4 F8 T4 T6 O2".split()


def labels(path):
    with open(path, "rb") as f:
        head = f.read(256)
        names = [f.read(16).decode().strip() for _ in range(int(head[252:256]))]
    return [n.removeprefix("EEG ").removesuffix("-REF") for n in names if "Annotations" not in n]


def settled(signal, sos, x):
    """A filter that begins in the steady state of the first sample."""
    return signal.sosfilt(sos, x, axis=1, zi=signal.sosfilt_zi(sos)[:, None, :] * x[None, :, :1])[0]


def quantile(prior, heard):
    """Below which lie 40 % of a prior worth 5 s and of what was heard."""
    from scipy import optimize, stats
    return optimize.bisect(lambda x: 80 * stats.norm.cdf(x, prior, 0.6) + np.sum(heard <= x) - 0.4 * (80 + len(heard)), -16, 16, xtol=1e-6)


def expected(path, name, highest=120):
    """The probabilities by the definition in docs/models.md."""
    if name == "ward":
        log_odds = [np.log(p / (1 - p)) for p in (expected(path, one, 40) for one in FEATURES)]
        return 1 / (1 + np.exp(-np.mean(log_odds, axis=0) / 0.58))
    from scipy import signal
    (band, seconds, square, prior, weight, bias), (uv, rate) = FEATURES[name], read_edf(path)
    assert rate == RATE
    row = {n: uv[i].astype(float) for i, n in enumerate(labels(path))}
    x = np.stack([row[a] - row[b] for a, b in (pair.split("-") for pair in PAIRS)])
    x = settled(signal, signal.butter(3, [0.5, highest], "bandpass", fs=RATE, output="sos"), x)
    for hz in (50, 60):
        x = settled(signal, signal.tf2sos(*signal.iirnotch(hz, 30, RATE)), x)
    y = settled(signal, signal.butter(3, band, "bandpass", fs=RATE, output="sos"), x.astype(np.float16).astype(float))
    q = y * y if square else np.abs(np.diff(y, axis=1, prepend=0))
    before = np.full((len(q), seconds * RATE), prior**2 if square else prior)
    sums = np.cumsum(np.concatenate([before, q], axis=1), axis=1)
    mean = (sums[:, seconds * RATE:] - sums[:, :-seconds * RATE])[:, BLOCK - 1::BLOCK] / (seconds * RATE)
    now = np.log(np.median(np.sqrt(mean) if square else mean, axis=0) + 0.3)
    level, z, heard = np.log(prior + 0.3), [0.0] * (BLOCK - 1), []
    for i, v in enumerate(now):
        if i + 1 >= seconds * RATE // BLOCK and len(heard) < LEARNED:
            heard.append(v)
            level = min(quantile(np.log(prior + 0.3), np.array(heard)), np.log(prior + 0.3))
        elif len(heard) == LEARNED:
            level += np.log(2) / (240 * RATE / BLOCK) * np.clip((v - level) / 0.25, -1, 1)
        z += [v - level] * BLOCK
    return 1 / (1 + np.exp(-(weight * np.array(z[:x.shape[1]]) + bias)))


def stream(d, path, model, chunk):
    out = f"{d.dir}/stream-{chunk}"
    code, text, err = d.ctl("stream", path, "--model", model, "--chunk-samples", str(chunk), "--out", f"{out}.tsv", "--probs", f"{out}.npy",
                            "--alarms", "--on", "0.4", "--off", "0.3", "--json")
    assert code == 0, err or text
    with open(f"{out}.tsv", "rb") as f, open(f"{out}_alarms.tsv", "rb") as alarms:
        return np.load(f"{out}.npy"), f.read(), alarms.read()


def check_streams(d, path, model):
    p, events, alarms = stream(d, path, model, 2560)
    other, *texts = stream(d, path, model, 331)
    assert other.tobytes() == p.tobytes() and texts == [events, alarms]
    code, text, err = d.ctl("detect", path, "--model", model, "--out", f"{d.dir}/detected", "--on", "0.4", "--off", "0.3")
    assert code == 0, err or text
    with open(glob.glob(f"{d.dir}/detected/*_events.tsv")[0], "rb") as f:
        assert f.read() == events
    return p


def check_definition(path, name, p):
    try:
        want = expected(path, name)
    except ImportError:
        return
    assert p.shape == want.shape and np.isfinite(p).all()
    assert np.abs(p - want).max() < 0.01, np.abs(p - want).max()  # binary16 of the samples and of the feature
    assert np.ptp(p) > 0.1


def evaluate(d, data, *sets):
    code, end, err = d.submit(data, *sets, file=f"{SOURCE}/configs/eval.yaml")
    assert code == 0 and end["state"] == "succeeded", (end, err)
    with open(f"{d.dir}/results/jobs/{end['job']}/report.json", encoding="utf-8") as f:
        report = json.load(f)
    assert report["baselines"] == end["result"]["baselines"]
    return report


def check_fit(d, data, name):
    code, end, err = d.submit(data, f"model.type={name}", file=f"{SOURCE}/configs/baseline.yaml")
    assert code == 0 and end["state"] == "succeeded", (end, err)
    files = [f for f in glob.glob(f"{d.dir}/results/jobs/{end['job']}/checkpoints/*.safetensors") if ".state." not in f]
    assert files and all(os.path.getsize(f) < 4096 for f in files), files
    fitted, built_in = (evaluate(d, data, f"evaluate.checkpoint={ref}") for ref in (f"job:{end['job']}", name))
    assert fitted["loss"] < built_in["loss"], (fitted["loss"], built_in["loss"])
    assert abs(fitted["auroc"] - built_in["auroc"]) < 0.02, (fitted["auroc"], built_in["auroc"])  # another montage changes nothing but a monotone map
    return f"job:{end['job']}"


def check_begin(d, data, model, path, p, *sets):
    """A network that begins as a model without one, whatever its two numbers are, is that model before it learns."""
    words = ["data.montage=bipolar-18", f"model.init_from={model}", "training.max_steps=1", "training.learning_rate=1e-8"]
    code, end, err = d.submit(*MINI, data, *words, *sets)
    assert code == 0 and end["state"] == "succeeded", (end, err)
    out = ["--probs", f"{d.dir}/begun.npy", "--out", f"{d.dir}/begun.tsv"]
    code, _, err = d.ctl("stream", path, "--model", f"job:{end['job']}", *out)
    assert code == 0, err
    begun = np.load(f"{d.dir}/begun.npy")
    assert begun.shape == p.shape and np.abs(begun - p).max() < 1e-5, np.abs(begun - p).max()


def check_beside(d, data, name, beside):
    """As a baseline and as a model of its own the scores are the same."""
    sets = [] if name in FEATURES else [f"evaluate.baselines=[{', '.join(beside)}]"]
    report = evaluate(d, data, f"evaluate.checkpoint={name}", *sets)
    rows = {row["name"]: row for row in report["baselines"]}
    assert list(rows) == beside
    assert abs(rows[name]["auroc"] - report["auroc"]) < 1e-6, (rows[name], report["auroc"])
    assert rows[name]["event"]["f1"] == report["scores"]["pooled"]["event"]["f1"]
    assert evaluate(d, data, f"evaluate.checkpoint={name}", "evaluate.baselines=[]")["baselines"] == []
    code, _, err = d.submit(data, f"evaluate.checkpoint={name}", "evaluate.baselines=[seizure]", file=f"{SOURCE}/configs/eval.yaml")
    assert code != 0 and "no built-in model 'seizure'" in err, err


def check_refused(d, data):
    for sets, says in ((["data.normalize=causal"], "remove the key"), (["data.augment.enabled=true"], "data.augment"),
                       (["data.window_s=30.5"], "multiple of 256")):
        code, _, err = d.submit(data, *sets, file=f"{SOURCE}/configs/baseline.yaml")
        assert code != 0 and says in err, (sets, err)
    code, end, err = d.submit(*MINI, data, "model.init_from=line_length", "training.max_steps=1")
    assert code != 0 and "data.normalize" in (err + str(end)), (end, err)


def check_tune(d, name):
    code, _, err = d.ctl("tune", name, f"{d.dir}/eeg", "--out", f"{d.dir}/tuned.safetensors")
    assert code == 0, err
    code, out, err = d.ctl("models", f"{d.dir}/tuned.safetensors", "--json")
    model = json.loads(out)
    assert model["type"] == name and (model["threshold_on"], model["threshold_off"]) != (0.75, 0.5), (model, err)


def check_description(d, name):
    code, out, err = d.ctl("models", name, "--json")
    assert code == 0, err
    model = json.loads(out)
    assert model["type"] == name and model["preset"] == "none" and model["mixer"] == "" and model["parameters"] == 2, model
    code, out, err = d.ctl("load", "beside", name)
    assert code == 0, err
    code, out, err = d.ctl("models")
    assert code == 0 and "type" in out.splitlines()[0] and name in out.splitlines()[1], out
    code, out, err = d.ctl("unload", "beside")
    assert code == 0, err


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=31, hours=0.1, seizures=2)
        d = Daemon(tmp).start()
        data = f"data.source=file://{tmp}/eeg"
        path = sorted(glob.glob(f"{tmp}/eeg/**/*_eeg.edf", recursive=True))[0]
        for name in (*FEATURES, "ward"):
            p = check_streams(d, path, name)
            check_definition(path, name, p)
            check_description(d, name)
        check_beside(d, data, "band_power", ["line_length", "band_power"])
        check_beside(d, data, "ward", ["ward", "line_length"])
        check_tune(d, "band_power")
        fitted = check_fit(d, data, "line_length")
        check_begin(d, data, "ward", path, p, "data.normalize=baselines", "data.bandpass_hz=[0.5,40]")
        check_begin(d, data, fitted, path, check_streams(d, path, fitted), "data.normalize=baseline")
        code, end, err = d.submit(*MINI, data, "model.init_from=ward", "training.max_steps=1", "data.normalize=baseline")
        assert code != 0 and "for ward baselines" in err + str(end), (end, err)
        check_refused(d, data)
        assert d.stop() == 0
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
