#!/usr/bin/env python3
"""The AUROC of an evaluation is that of the ranks of the probabilities, as SciPy counts them, on the recording that
ships and on synthetic ones; report.json bounds what the bins can change."""
import glob
import json
import os
import shutil
import sys

import numpy as np
from scipy.stats import rankdata

from daemon import SOURCE, Daemon, make_corpus, temporary, trained_network

RATE = 256


def ranks(p, labels):
    """Of all samples that have a probability."""
    there = ~np.isnan(p)
    p, labels = p[there], labels[there]
    positive = int(labels.sum())
    return (rankdata(p)[labels].sum() - positive * (positive + 1) / 2) / (positive * (len(p) - positive))


def labels_of(path, n):
    labels = np.zeros(n, bool)
    with open(path, encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f]
    at = {name: i for i, name in enumerate(rows[0])}
    for row in rows[1:]:
        if row[at["eventType"]].startswith("sz"):
            onset = float(row[at["onset"]])
            labels[round(onset * RATE):round((onset + float(row[at["duration"]])) * RATE)] = True
    return labels


def expected(d, folder, model, tmp):
    all_p, all_labels = [], []
    for path in sorted(glob.glob(f"{folder}/**/*.edf", recursive=True)):
        code, _, err = d.ctl("stream", path, "--model", model, "--output", f"{tmp}/x.tsv", "--probabilities", f"{tmp}/x.npy", "--force")
        assert code == 0, err
        p = np.load(f"{tmp}/x.npy").astype(np.float64)
        all_p.append(p)
        all_labels.append(labels_of(path.replace("_eeg.edf", "_events.tsv"), len(p)))
    return ranks(np.concatenate(all_p), np.concatenate(all_labels))


def check(d, folder, model, tmp):
    code, end, err = d.submit(f"data.source=file://{folder}", f"evaluate.checkpoint={model}", "evaluate.plots=0",
                              file=f"{SOURCE}/configs/eval.yaml")
    assert code == 0 and end["state"] == "succeeded", (end, err)
    with open(f"{d.dir}/results/jobs/{end['job']}/report.json", encoding="utf-8") as f:
        report = json.load(f)
    want = expected(d, folder, model, tmp)
    print(f"{os.path.basename(folder)}, {model}: {report['auroc']:.6f}, by ranks {want:.6f}, error at most {report['auroc_error_most']:.1e}")
    assert abs(report["auroc"] - want) < 1e-5 and abs(report["auroc"] - want) <= report["auroc_error_most"] + 1e-12, (model, report["auroc"], want)
    assert all(row["auroc_error_most"] <= 3e-4 for row in [report, *report["baselines"]]), report
    assert end["result"]["auroc"] == report["auroc"]


def main():
    with temporary() as tmp:
        shutil.copytree(f"{SOURCE}/examples", f"{tmp}/shipped", ignore=shutil.ignore_patterns("*.ipynb", "*.py"))
        make_corpus(f"{tmp}/eeg", seed=9, patients=2, hours=0.15)
        d = Daemon(tmp).start()
        network = trained_network(f"{tmp}/network")
        for folder in (f"{tmp}/shipped", f"{tmp}/eeg"):
            for model in (network, "ward", "demo", "line_length", "band_power"):
                check(d, folder, model, tmp)
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
