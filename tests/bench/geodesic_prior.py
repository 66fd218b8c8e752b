#!/usr/bin/env python3
"""Is a geodesic job with model.prior no worse than its prior? The built-in formula with noise, each spectrum left out, five seeds; another table as the
second argument. Ends with 1 if the mean error of a seed is above that of the prior.

    python3 tests/bench/geodesic_prior.py build/tests/task_driver [TABLE.csv]"""
import json
import math
import os
import random
import subprocess
import sys
import tempfile

CONCENTRATIONS, NOISE, STEP_NM, SEEDS = (0, 10, 20, 30, 40, 60), 0.002, 10, range(1, 6)
OWN = ["training.epochs=300", "training.batch_wavelengths=21"]  # 61 wavelengths; other tables: 100 epochs of the configuration
CONFIG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "configs", "geodesic.yaml")


def formula(c, nm):
    band = 0.6 + 0.4 * math.exp(-((nm - 663) / 60) ** 2)
    return 0.09 + 0.16 * math.exp(-(nm - 200) / 14) + 0.03 * math.exp(-((c - 20) / 14) ** 2) * band + 0.012 * c / (c + 15) * nm / 800


def noisy(path):
    draw = random.Random(1)
    with open(path, "w", encoding="ascii") as f:
        print("Wavelength", *CONCENTRATIONS, sep=",", file=f)
        for nm in range(200, 801, STEP_NM):
            print(nm, *(round(formula(c, nm) + draw.gauss(0, NOISE), 6) for c in CONCENTRATIONS), sep=",", file=f)
    return path


def main():
    worse = 0
    with tempfile.TemporaryDirectory() as folder:
        table, more = (sys.argv[2], ["training.epochs=100"]) if len(sys.argv) > 2 else (noisy(f"{folder}/noisy.csv"), OWN)
        for seed in SEEDS:
            sets = [f"data.csv={os.path.abspath(table)}", "model.prior=gaussian_process", "training.final_model=false", f"training.seed={seed}", *more]
            r = subprocess.run([sys.argv[1], CONFIG, f"{folder}/{seed}", f"{folder}/cache", *sets], capture_output=True, text=True)
            assert r.returncode == 0, r.stderr
            with open(f"{folder}/{seed}/report.json", encoding="utf-8") as f:
                report = json.load(f)
            prior = report["baselines"][report["prior"]]["mean_rmse"]
            worse += report["mean_rmse"] > prior
            print(f"seed {seed}: mean RMSE {report['mean_rmse']:.5f}, prior {prior:.5f}, networks {report['mean_rmse_network']:.5f}; shares "
                  + " ".join(f"{1 - fold['prior_weight']:.2f}" for fold in report["per_fold"]), flush=True)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
