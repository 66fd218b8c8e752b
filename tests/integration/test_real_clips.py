#!/usr/bin/env python3
"""Real EEG end to end: minutes of CHB-MIT train a small detector, which tells a seizure it never saw from what came before it.
A smoke test of the whole path on real files, not a claim of accuracy: with one background recording (asleep) to learn from, awake EEG
of another patient still looks like a seizure to it, which is printed. Skips where the recordings are not at hand (BRR_EEG_DIR)."""
import json
import os
import shutil
import sys

import numpy as np

from daemon import SOURCE, Daemon, temporary

EEG = os.environ.get("BRR_EEG_DIR") or os.path.join(SOURCE, "..", "shared", "eeg")
SEIZURES = {"chb01_03_2986-3036": (10, 50, 50), "chb01_04_1457-1494": (10, 37, 37)}
SETS = ["data.montage=bipolar-18", "data.unlabeled=background", "data.validation_fraction=0", "data.window_s=16", "data.hop_s=1",
        "data.balance.none=8", "data.bandpass_hz=[0.5,25]", "training.max_steps=80", "training.loss.kind=bce", "events.threshold=fixed"]
RATE = 256


def lay_out(directory):
    os.makedirs(directory)
    for name, (onset, end, length) in SEIZURES.items():
        shutil.copy(f"{EEG}/chbmit/{name}.edf", directory)
        with open(f"{directory}/{name}_events.tsv", "w", encoding="utf-8") as f:
            f.write("onset\tduration\teventType\tconfidence\tchannels\tdateTime\trecordingDuration\n")
            f.write(f"{onset:.2f}\t{end - onset:.2f}\tsz\tn/a\tn/a\tn/a\t{length:.2f}\n")
    shutil.copy(f"{EEG}/chbmit/crop301_a_mnelab.edf", directory)


def trace(d, tmp, name, model):
    out = f"{tmp}/{name}.npy"
    code, text, err = d.ctl("stream", f"{EEG}/chbmit/{name}.edf", "--model", model, "--probs", out, "--json")
    assert code == 0, err
    p = np.load(out)
    end = json.loads(text.splitlines()[-1])
    assert p.dtype == np.float32 and len(p) > 10 * RATE, (p.shape, end)
    return p


def main():
    if not os.path.isdir(f"{EEG}/chbmit"):
        print(f"skipped: no recordings at {EEG}")
        return 77
    with temporary() as tmp:
        lay_out(f"{tmp}/train")
        d = Daemon(tmp).start()
        code, end, err = d.submit(*SETS, f"data.source=file://{tmp}/train", timeout=900)
        assert code == 0 and end["state"] == "succeeded", (end, err)
        model = f"job:{end['job']}"
        seizure = trace(d, tmp, "chb01_15_1722-1772", model)
        background = trace(d, tmp, "crop301_b_mnelab", model)
        ictal, before, other = np.nanmean(seizure[10 * RATE : 50 * RATE]), np.nanmean(seizure[: 10 * RATE]), np.nanmean(background)
        print(f"mean probability: seizure {ictal:.3f}, the 10 s before it {before:.3f}, background of another recording {other:.3f}")
        for name in ("chb01_18_gap_D", "chb02_16_gap_D"):
            p = trace(d, tmp, name, model)
            print(f"{name}: before {np.nanmean(p[: 10 * RATE]):.3f}, gap {np.isnan(p[10 * RATE : 20 * RATE]).mean():.0%} NaN, "
                  f"seizure {np.nanmean(p[20 * RATE :]):.3f}")
        assert ictal >= before + 0.3, "the unseen seizure must stand out from what came before it"
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
