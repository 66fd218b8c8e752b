#!/usr/bin/env python3
"""How well configs/tiny.yaml finds seizures in patients nobody trained on: fresh synthetic corpora, a training job, an evaluation of
what it left behind, and beside it detectors that look at band power or line length alone, their thresholds chosen on the test recordings
themselves.

    BRR_BUILD_DIR=build /usr/bin/python3 tests/bench/detection.py [--seed N] [--runs K] [--set KEY=VALUE ...] [--json FILE]

Each run makes 6 patients of 2 h with 10 seizures each (seed N) and 3 other patients of 8 h with 10 seizures each (seed N + 1); N is
drawn unless given and grows by 2 with every run. A run takes some twelve minutes on two cores. Definitions: docs/scores.md.
"""
import argparse
import datetime
import glob
import json
import os
import platform
import random
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
BUILD = os.path.abspath(os.environ.get("BRR_BUILD_DIR", "build"))
os.environ.setdefault("BRR_BIN", os.path.join(BUILD, "bin"))
os.environ.setdefault("BRR_SOURCE_DIR", os.path.abspath(os.path.join(HERE, "..", "..")))
from baseline_bandpower import best_f1, line_lengths  # noqa: E402
from daemon import SOURCE, Daemon, make_corpus, temporary  # noqa: E402

TRAIN, TEST = {"patients": 6, "hours": 2, "seizures": 10}, {"patients": 3, "hours": 8, "seizures": 10}
LONGEST_S = 3600


def evaluate(daemon, job, recordings):
    code, out, err = daemon.ctl("submit", f"{SOURCE}/configs/eval.yaml", "--set", f"data.source=file://{recordings}", "--set",
                                f"evaluate.checkpoint=job:{job}", "--watch", timeout=LONGEST_S)
    assert code == 0, out + err
    with open(max(glob.glob(f"{daemon.dir}/results/jobs/evaluate*/report.json"), key=os.path.getmtime), encoding="utf-8") as f:
        return json.load(f)


def run(seed, sets, size):
    with temporary() as tmp:
        make_corpus(f"{tmp}/train", seed=seed, **{**TRAIN, "hours": TRAIN["hours"] * size})
        make_corpus(f"{tmp}/test", seed=seed + 1, **{**TEST, "hours": TEST["hours"] * size})
        daemon = Daemon(tmp).start()
        begun = time.monotonic()
        code, job, err = daemon.submit(f"data.source=file://{tmp}/train", *sets, timeout=LONGEST_S)
        trained = time.monotonic() - begun
        assert code == 0, err
        report = evaluate(daemon, job["job"], f"{tmp}/test")
        daemon.stop()
        baseline, lines = best_f1(f"{tmp}/test"), best_f1(f"{tmp}/test", line_lengths)
    event = report["scores"]["pooled"]["event"]
    return {"train_seed": seed, "test_seed": seed + 1, "trained_s": round(trained, 1), "steps": job["result"]["steps"],
            "best_step": job["result"]["best_step"], "f1": event["f1"], "sensitivity": event["sensitivity"], "precision": event["precision"],
            "false_alarms_per_24h": event["false_alarms_per_24h"], "tp": event["tp"], "fp": event["fp"], "ref": event["ref"],
            "auroc": report["auroc"], "on": report["events"]["on"], "off": report["events"]["off"],
            "alarm_delay_p50_s": report["alarms"]["delay_p50_s"], "baseline_f1": baseline["f1"], "line_length_f1": lines["f1"],
            "baselines": report["baselines"], "definition": report["definition"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 10**8))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the training job")
    parser.add_argument("--size", type=float, default=1, help="share of the hours, to try this program")
    parser.add_argument("--json", metavar="FILE")
    o = parser.parse_args()
    rows = []
    print("    seeds            training    event F1  sensitivity  FA/24 h   AUROC   thresholds       F1 of band power, line length", flush=True)
    for i in range(o.runs):
        r = run(o.seed + 2 * i, o.set, o.size)
        rows.append(r)
        print(f"{r['train_seed']:>9}/{r['test_seed']:<9} {r['trained_s']:6.0f} s    {r['f1'] or 0:8.3f}  {r['tp']:>5.0f} of {r['ref']:<3.0f}"
              f"  {r['false_alarms_per_24h']:7.1f}  {r['auroc']:6.4f}   {r['on']:.4g}/{r['off']:<8.4g}  {r['baseline_f1']:8.3f} {r['line_length_f1']:8.3f}", flush=True)
    if o.json:
        with open(o.json, "w", encoding="utf-8") as f:
            json.dump({"date": datetime.date.today().isoformat(), "machine": platform.processor() or platform.machine(),
                       "cores": os.cpu_count(), "config": "configs/tiny.yaml", "set": o.set, "size": o.size, "runs": rows}, f, indent=1)
            f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
