#!/usr/bin/env python3
"""A short training without a daemon, as the task machinery alone: it ends with a checkpoint, and one that was stopped on the way
ends with the same bytes. BRR_WRAP (such as "valgrind --error-exitcode=9") goes in front of every run."""
import hashlib
import json
import os
import shlex
import subprocess
import sys
import xml.etree.ElementTree

from daemon import MINI, SOURCE, make_corpus, temporary

DRIVER = os.path.join(os.environ["BRR_BUILD_DIR"], "tests", "task_driver")
WRAP = shlex.split(os.environ.get("BRR_WRAP", ""))
STEPS = 4


def run(tmp, name, *extra):
    args = [DRIVER, f"{SOURCE}/configs/tiny.yaml", f"{tmp}/{name}", f"{tmp}/cache", f"data.source=file://{tmp}/eeg", *MINI,
            f"training.max_steps={STEPS}", "training.validate_every=2", *extra]
    r = subprocess.run(WRAP + args, capture_output=True, text=True)
    assert r.returncode == 0, r.stdout[-2000:] + r.stderr[-8000:]
    paths = [line.split()[1] for line in r.stdout.splitlines() if line.startswith("checkpoint ")]
    result = json.loads(next(line for line in r.stdout.splitlines() if line.startswith("result "))[7:])
    return paths, result


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def validations(directory):
    with open(f"{directory}/metrics.jsonl", encoding="utf-8") as f:
        return [line for line in map(json.loads, f) if line["kind"] == "validation"]


def scores_are_those_of_the_best(tmp):
    """Steps this long spoil the network: the model of the job is that of the first validation, and so are scores and thresholds,
    after a stop as well."""
    spoiled = ("training.early_stopping.metric=loss", "training.learning_rate=0.03", "training.warmup_ratio=0", "training.schedule=constant")
    _, whole = run(tmp, "spoiled", *spoiled)
    first, last = validations(f"{tmp}/spoiled")
    assert whole["best_step"] == first["step"] < last["step"] == whole["steps"], (whole, first, last)
    run(tmp, "spoiled-parts", *spoiled, "stop_after=3")
    _, rest = run(tmp, "spoiled-parts", *spoiled)
    with open(f"{tmp}/spoiled/report.json", encoding="utf-8") as f:
        report = json.load(f)["result"]
    for result in whole, rest, report:
        for key in ("event_f1", "auroc", "validation_loss", "threshold_on", "threshold_off", "false_alarms_per_24h"):
            assert result[key] == first[key], (key, result, first, last)
        assert result["best"] == result["validation_loss"] and result["seizures"] == whole["seizures"], result


def average_is_what_is_validated_and_kept(tmp):
    """With training.ema, the numbers of a validation are those of the model file beside it, and stopping in mid-validation
    changes nothing. The validation patient, evaluated from the file, has to give the same AUROC and loss."""
    kept, _ = run(tmp, "average", "training.ema=0.8")
    newest = validations(f"{tmp}/average")[-1]
    found = []

    def evaluate(patient, *extra):
        args = [DRIVER, f"{SOURCE}/configs/eval.yaml", f"{tmp}/eval-{patient}", f"{tmp}/cache",
                f"data.source=file://{tmp}/eeg/{patient}", f"evaluate.checkpoint={kept[-1]}", *extra]
        return subprocess.run(WRAP + args, capture_output=True, text=True)

    patients = sorted(p for p in os.listdir(f"{tmp}/eeg") if p.startswith("sub-"))
    for patient in patients:
        r = evaluate(patient)  # windows begin every 8 s, and alarms are decided as often
        assert r.returncode == 0, r.stderr[-4000:]
        with open(f"{tmp}/eval-{patient}/report.json", encoding="utf-8") as f:
            report = json.load(f)
        found.append((report["auroc"], report["loss"]))
    r = evaluate(patients[0], "evaluate.alarm_hop_s=5")
    assert r.returncode and "evaluate.alarm_hop_s 5 does not divide the model's hop of 8 s; expected a divisor" in r.stderr + r.stdout, r
    assert any(abs(a - newest["auroc"]) < 1e-9 and abs(l - newest["validation_loss"]) < 1e-9 for a, l in found), (newest, found)
    run(tmp, "average-parts", "training.ema=0.8", "stop_after=validate")
    rest, _ = run(tmp, "average-parts", "training.ema=0.8")
    assert digest(rest[-1]) == digest(kept[-1]), "weights differ after a stop in mid-validation"


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=11, patients=2, hours=0.03)
        whole, result = run(tmp, "whole")
        assert whole and isinstance(result, dict) and result, "no checkpoint or no result"
        with open(f"{tmp}/whole/metrics.jsonl", encoding="utf-8") as f:
            steps = [line for line in map(json.loads, f) if line["kind"] == "step"]
        assert steps and all(s["first_step_s"] > 0 for s in steps), "the time to the first step is a metric"
        first, _ = run(tmp, "parts", "stop_after=2")
        assert first, "stopping writes a checkpoint"
        rest, _ = run(tmp, "parts")
        assert digest(rest[-1]) == digest(whole[-1]), "weights differ after a stop"
        picture = xml.etree.ElementTree.parse(f"{tmp}/whole/training.svg").getroot()
        texts = {e.text for e in picture.iter() if e.text}
        assert {"training loss", "validation loss", "event F1", "AUROC", "best"} <= texts, texts
        assert digest(f"{tmp}/parts/training.svg") == digest(f"{tmp}/whole/training.svg"), "another picture after a stop"
        assert result["metric"] == "event_f1" and 0 <= result["best"] <= 1, result
        _, result = run(tmp, "by-loss", "training.early_stopping.metric=loss")
        least = min(v["validation_loss"] for v in validations(f"{tmp}/by-loss"))
        assert result["best"] > 0 and abs(result["best"] - least) < 2e-5, (result, least)
        scores_are_those_of_the_best(tmp)
        average_is_what_is_validated_and_kept(tmp)
        r = subprocess.run([DRIVER, f"{SOURCE}/configs/tiny.yaml", f"{tmp}/none", f"{tmp}/cache", f"data.source=file://{tmp}/none"],
                           capture_output=True, text=True)
        assert r.returncode == 1 and f"{tmp}/none" in r.stderr, r.stderr
    return 0


if __name__ == "__main__":
    sys.exit(main())
