#!/usr/bin/env python3
"""How well a training finds seizures in patients that it never saw, by draws of fresh synthetic corpora: events of the record trace, alarms of
the model's own rule for 5 false alarms per 24 h, onset errors and delays, beside line length and band power in the same run.

    BRR_BUILD_DIR=build /usr/bin/python3 tests/bench/detection.py [--draws 5] [--seed N] [--style simple|rich|both] [--config configs/alarm.yaml]
        [--arm "NAME [FILE.yaml] [KEY=VALUE ...]" ...] [--small] [--train PxHxS] [--test PxHxS] [--tune PxHxS] [--target-fa N]
        [--alarm-hop S] [--alarm-rates N,N] [--json FILE] [--keep DIR | --judge DIR]

Draw k makes patients to train on (seed N + 3k), others to test on (seed N + 3k + 1) and, with --tune, others to choose on (seed N + 3k + 2);
every arm trains on the same patients with a job file and keys of its own and is judged on the same others. N is drawn unless given. With
style both each patient has recordings of both styles, and each style is judged for itself. Checkpoint, thresholds and alarm rules are chosen
on patients of the training corpus, with --tune the latter two by `brrctl tune` on patients of their own; nothing is chosen on the test. Figures of every draw are printed and kept, with 95 % intervals: Wilson's for shares of
seizures, Byar's for counts of false alarms. --judge DIR trains nothing: it judges the models that --keep DIR left, on the same test patients. Definitions: docs/scores.md; --alarm-hop 0 leaves alarms out. --small: the sizes of the ablation in docs/models.md; --train 12x1x5: 12 patients of 1 h with 5 seizures each. Real EEG: tests/bench/clips.py.
"""
import argparse
import datetime
import glob
import json
import math
import os
import platform
import random
import shutil
import subprocess
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
BUILD = os.path.abspath(os.environ.get("BRR_BUILD_DIR", "build"))
os.environ.setdefault("BRR_BIN", os.path.join(BUILD, "bin"))
os.environ.setdefault("BRR_SOURCE_DIR", os.path.abspath(os.path.join(HERE, "..", "..")))
from daemon import BIN, SOURCE, Daemon, temporary  # noqa: E402

SIZES = {False: ({"patients": 6, "hours": 2, "seizures": 10}, {"patients": 3, "hours": 8, "seizures": 10}),
         True: ({"patients": 8, "hours": 0.5, "seizures": 4}, {"patients": 4, "hours": 2, "seizures": 8})}
LONGEST_S = 4 * 3600


def size(text):
    """PxHxS: patients, hours of each, seizures of each."""
    patients, hours, seizures = text.split("x")
    return {"patients": int(patients), "hours": float(hours), "seizures": int(seizures)}


def wilson(k, n):
    if not n:
        return [None, None]
    z, p = 1.96, k / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return [max(0, (middle - half) / (1 + z * z / n)), min(1, (middle + half) / (1 + z * z / n))]


def byar(k, days):
    """Limits of a rate per day from a count."""
    low = 0 if not k else k * (1 - 1 / (9 * k) - 1.96 / (3 * math.sqrt(k))) ** 3
    return [low / days, (k + 1) * (1 - 1 / (9 * (k + 1)) + 1.96 / (3 * math.sqrt(k + 1))) ** 3 / days]


def make(directory, patients, seed, styles):
    """A corpus of each style, in a folder of its own: DIRECTORY/STYLE/sub-NN."""
    for style in styles:
        subprocess.run([f"{BIN}/edfgen", "--out", f"{directory}/{style}", "--patients", str(patients["patients"]), "--hours-per-patient",
                        str(patients["hours"]), "--seizures-per-patient", str(patients["seizures"]), "--seed", str(seed), "--style", style],
                       check=True, stdout=subprocess.DEVNULL)


def alarms_of(report, hours):
    """The report's alarms by the model's rule, with intervals."""
    a = report["alarms"]
    return {"sensitivity": a["sensitivity"], "sensitivity_95": wilson(a["alarmed"], a["references"]), "hit": a["alarmed"], "ref": a["references"],
            "false": a["false_alarms"], "false_per_24h": a["false_alarms_per_24h"], "false_per_24h_95": byar(a["false_alarms"], hours / 24),
            "delay_p50_s": a["delay_p50_s"], "delay_p95_s": a["delay_p95_s"]}


def evaluate(daemon, model, test, rate):
    """The report, and whether its alarms are by the model's rule for so many false alarms in 24 h (0: none is asked for): a training whose
    validation found no rule for this rate has none to judge."""
    code, out, err = daemon.ctl("submit", f"{SOURCE}/configs/eval.yaml", "--set", f"data.source=file://{test}", "--set",
                                f"evaluate.checkpoint={model}", "--set", "evaluate.plots=0", "--set",
                                f"evaluate.alarm_rate={rate}" if rate else "evaluate.alarm_hop_s=0", "--watch", timeout=LONGEST_S)
    if code and rate and "no alarm thresholds" in err + out:
        return evaluate(daemon, model, test, 0)
    assert code == 0, out + err
    with open(max(glob.glob(f"{daemon.dir}/results/jobs/evaluat*/report.json"), key=os.path.getmtime), encoding="utf-8") as f:
        return json.load(f), bool(rate)


def train(daemon, folder, arm, o):
    """The job of an arm, and how long it took."""
    config = next((word for word in arm if word.endswith(".yaml")), o.config)
    sets = [word for word in arm if not word.endswith(".yaml")]
    begun = time.monotonic()
    code, job, err = daemon.submit(f"data.source=file://{folder}/train", *sets, file=f"{SOURCE}/{config}", timeout=LONGEST_S)
    assert code == 0 and job["state"] == "succeeded", (job, err)
    return job, {"config": config, "set": sets, "trained_s": round(time.monotonic() - begun, 1), "steps": job["result"]["steps"],
                 "best_step": job["result"]["best_step"]}


def tuned(daemon, folder, name, model, o):
    """The model that is judged: the training's own choice of thresholds, or those and the alarm rules of the patients for that."""
    if not o.tune:
        return model
    path = f"{folder}/{name}.safetensors"
    more = ["--target-fa", str(o.target_fa)] if o.target_fa else []
    code, out, err = daemon.ctl("tune", model, f"{folder}/tune", "--alarm-hop", str(o.alarm_hop), *more, "--out", path, "--json", timeout=LONGEST_S)
    assert code == 0, out + err
    return path


def judge(daemon, folder, model, style, o):
    """A model on the draw's test patients of one style."""
    test, hours = f"{folder}/test/{style}", o.test["patients"] * o.test["hours"]
    rates = o.alarm_rates if o.alarm_hop else [0]
    reports = [evaluate(daemon, model, test, rate) for rate in rates]
    alarms = {rate: alarms_of(report, hours) for rate, (report, by_rule) in zip(rates, reports) if by_rule}
    report = reports[0][0]
    event, onset = report["scores"]["pooled"]["event"], report["scores"]["onset_error"]
    return {"style": style, **{k: event[k] for k in ("f1", "sensitivity", "precision", "false_alarms_per_24h", "tp", "fp", "ref")},
            "sensitivity_95": wilson(event["tp"], event["ref"]), "false_alarms_per_24h_95": byar(event["fp"], hours / 24),
            "onset_p50_s": onset["p50_s"], "onset_p90_s": onset["p90_s"], "auroc": report["auroc"],
            "on": report["events"]["on"], "off": report["events"]["off"],
            "alarms": alarms.get(rates[0]), "alarms_by_rate": alarms,
            "baselines": report["baselines"], "definition": report["definition"]}


def run(daemon, folder, arm, o, seed):
    """One training on the draw's patients, judged on the draw's others: a row for each style."""
    name, *words = arm.split()
    if o.judge:
        for style in o.styles:
            yield {"arm": name, "train_seed": seed, "test_seed": seed + 1, "trained_s": 0, **judge(daemon, folder, f"{o.judge}/{name}-{seed}.safetensors", style, o)}
        return
    job, trained = train(daemon, folder, words, o)
    model = tuned(daemon, folder, name, f"job:{job['job']}", o)
    if o.keep:
        shutil.copy(model if o.tune else job["checkpoint"], f"{o.keep}/{name}-{seed}.safetensors")
    for style in o.styles:
        yield {"arm": name, "train_seed": seed, "test_seed": seed + 1, **trained, **judge(daemon, folder, model, style, o)}


def number(value, form="{:.1f}"):
    return "–" if value is None else form.format(value)


def show(r):
    alarms = "; ".join(f"by the rule for {rate}: {a['hit']} of {a['ref']}, {a['false_per_24h']:.1f} FA/24h, delay {number(a['delay_p50_s'])}/{number(a['delay_p95_s'])} s"
                       for rate, a in r["alarms_by_rate"].items()) or "no rule"
    print(f"{r['arm']:<18} {r['style']:<6} {r['train_seed']:>9} {r['trained_s']:6.0f} s  F1 {number(r['f1'], '{:.3f}')}  {r['tp']:.0f} of {r['ref']:.0f}, "
          f"{r['false_alarms_per_24h']:.1f} FA/24h, AUROC {r['auroc']:.4f}, onset {number(r['onset_p50_s'])}/{number(r['onset_p90_s'])} s  "
          f"alarms {alarms}", flush=True)


def show_baselines(r):
    for b in r["baselines"]:
        event = b["event"]
        print(f"{b['name']:<18} {r['style']:<6} {r['train_seed']:>9}           F1 {number(event['f1'], '{:.3f}')}  sensitivity {number(event['sensitivity'], '{:.2f}')}, "
              f"{event['false_alarms_per_24h']:.1f} FA/24h, AUROC {b['auroc']:.4f}", flush=True)


def summarise(rows):
    for arm, style in dict.fromkeys((r["arm"], r["style"]) for r in rows):
        own = [r for r in rows if (r["arm"], r["style"]) == (arm, style)]
        f1 = sorted(r["f1"] or 0 for r in own)
        print(f"{arm}, {style}: F1 median {np.median(f1):.3f}, worst {f1[0]:.3f}; most false alarms in 24 h "
              f"{max(r['false_alarms_per_24h'] for r in own):.1f}; {len(own)} draws")


def draw(tmp, seed, o):
    for k, (name, patients) in enumerate((("train", o.train), ("test", o.test), ("tune", o.tune))):
        if patients and not (o.judge and name != "test"):
            make(f"{tmp}/{name}", patients, seed + k, o.styles)
    daemon = Daemon(tmp).start()
    arms = o.arm or ["default"]
    for arm in arms:
        for row in run(daemon, tmp, arm, o, seed):
            if row["arm"] == arms[0].split()[0]:
                show_baselines(row)
            show(row)
            yield row
    daemon.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 10**8))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--style", choices=("simple", "rich", "both"), default="simple")
    parser.add_argument("--config", default="configs/alarm.yaml", help="job file, from the root of the sources")
    parser.add_argument("--arm", action="append", default=[], metavar="NAME [FILE.yaml] [KEY=VALUE ...]",
                        help="job file and keys of a training; default: one with --config as it is")
    parser.add_argument("--small", action="store_true", help="4 h of training EEG and 8 h of test EEG, instead of 12 and 24")
    parser.add_argument("--train", type=size, metavar="PxHxS", help="patients, hours and seizures of each to train on")
    parser.add_argument("--test", type=size, metavar="PxHxS", help="the same of those to test on")
    parser.add_argument("--tune", type=size, metavar="PxHxS", help="the same of those to choose thresholds and alarm rules on; default: the training's choice")
    parser.add_argument("--target-fa", type=float, default=0, metavar="N", help="false alarms per 24 h that the thresholds of --tune may have; default: those of the best F1")
    parser.add_argument("--alarm-hop", type=float, default=5, help="seconds between alarm decisions where --tune chooses them; 0: no alarms; default %(default)s")
    parser.add_argument("--alarm-rates", type=lambda text: [int(n) for n in text.split(",")], default=[5], metavar="N,N",
                        help="rules to judge alarms by: those for so many false alarms in 24 h; default 5")
    parser.add_argument("--judge", metavar="DIR", help="judge the models that --keep left there, without training")
    parser.add_argument("--json", metavar="FILE", help="written again after every run")
    parser.add_argument("--keep", metavar="DIR", help="keeps the models there as ARM-SEED.safetensors, to be tuned or judged again")
    o = parser.parse_args()
    o.train, o.test = o.train or SIZES[o.small][0], o.test or SIZES[o.small][1]
    o.styles = ("simple", "rich") if o.style == "both" else (o.style,)
    rows = []
    if o.keep:
        os.makedirs(o.keep, exist_ok=True)
    for k in range(o.draws):
        with temporary() as tmp:
            for row in draw(tmp, o.seed + 3 * k, o):
                rows.append(row)
                if o.json:
                    with open(o.json, "w", encoding="utf-8") as f:
                        json.dump({"date": datetime.date.today().isoformat(), "machine": platform.processor() or platform.machine(),
                                   "cores": os.cpu_count(), "config": o.config, "style": o.style, "train": o.train, "test": o.test, "tune": o.tune, "target_fa": o.target_fa,
                                   "runs": rows}, f, indent=1)
                        f.write("\n")
    summarise(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
