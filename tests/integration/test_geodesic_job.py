#!/usr/bin/env python3
"""Jobs of kind geodesic: killed and resumed they end with the same bits; selection, reports, errors of the table; and through the daemon."""
import hashlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import xml.dom.minidom

from daemon import BIN, SOURCE, Daemon, temporary

DRIVER = os.path.join(BIN, "..", "tests", "task_driver")
CONFIG = f"{SOURCE}/configs/geodesic.yaml"
SMALL = ["training.epochs=6", "training.batch_wavelengths=7", "checkpoint.every=1s"]


def write_table(path, bad=None, width=20):
    with open(path, "w", encoding="utf-8") as f:
        f.write("Wavelength,0,10,20,40\n")
        for i in range(width):
            row = [200 + 20 * i] + [0.1 + 0.1 * math.exp(-i / 3) + 0.002 * c / (c + 15) * i for c in (0, 10, 20, 40)]
            if bad == i:
                row[2] = "nan"
            f.write(",".join(str(x) for x in row) + "\n")


def drive(directory, *sets, **options):
    return subprocess.run([DRIVER, CONFIG, directory, f"{directory}.cache", *sets], capture_output=True, text=True, **options)


def digest(directory):
    with open(f"{directory}/model.safetensors", "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def result_of(output):
    line = [x for x in output.splitlines() if x.startswith("result ")][-1]
    return json.loads(line.removeprefix("result "))


def check_report(directory, folds):
    with open(f"{directory}/report.json", encoding="utf-8") as f:
        report = json.load(f)
    assert len(report["per_fold"]) == folds and len(report["per_fold"][0]["loss"]) == report["epochs"], report
    assert set(report["baselines"]) >= {"linear_clamped", "pchip", "cubic_not_a_knot", "gp_rbf"}, report["baselines"].keys()
    for name in ("spectra.svg", "metric.svg"):
        xml.dom.minidom.parse(f"{directory}/{name}")
    best = min(report["baselines"], key=lambda rule: report["baselines"][rule]["mean_rmse"])
    assert f"{best}, the best rule without learning" in read(f"{directory}/spectra.svg"), best
    with open(f"{directory}/predictions.csv", encoding="utf-8") as f:
        rows = f.read().splitlines()
    assert len(rows[0].split(",")) == 1 + 3 * folds and len(rows) > 2, rows[0]
    return report


def check_resume(tmp, csv, name, *more):
    sets = [f"data.csv={csv}", *SMALL, *more]
    whole = drive(f"{tmp}/{name}", *sets)
    assert whole.returncode == 0, whole.stderr
    cut = drive(f"{tmp}/{name}-cut", *sets, "stop_after=7")
    assert cut.returncode == 0, cut.stderr
    if "model.prior=gaussian_process" not in more and "training.selection=nested" not in more:
        assert re.search(r"mean RMSE [0-9.]+ after [1-5] of 6 epochs", read(f"{tmp}/{name}-cut/spectra.svg")), "the running fit"
    rest = drive(f"{tmp}/{name}-cut", *sets)
    assert rest.returncode == 0 and "resuming from" in rest.stderr, rest.stderr
    assert digest(f"{tmp}/{name}") == digest(f"{tmp}/{name}-cut")
    a, b = result_of(whole.stdout), result_of(rest.stdout)
    assert (a["mean_rmse"], a["per_fold"]) == (b["mean_rmse"], b["per_fold"]), (a, b)
    return check_report(f"{tmp}/{name}-cut", 4)


def check_prior(tmp, csv):
    """The answer lies between the process and the network, where the weight says; all three are told, and resumed to the same bits."""
    report = check_resume(tmp, csv, "prior", "model.prior=gaussian_process", "training.learning_rate=0.05")
    assert report["prior"] == "gp_evidence" and report["mean_rmse_network"] > 0, report
    alone = report["baselines"]["gp_evidence"]["per_fold"]
    weights = [fold["prior_weight"] for fold in report["per_fold"]]
    assert all(0 <= w <= 1 for w in weights) and 1 in weights and min(weights) < 1, weights
    for fold, prior in zip(report["per_fold"], alone):
        assert fold["all"]["rmse"] <= max(fold["network"]["rmse"], prior["rmse"]) + 1e-12, (fold, prior)
        if fold["prior_weight"] == 1:
            assert abs(fold["all"]["rmse"] - prior["rmse"]) < 1e-12 and fold["network"]["rmse"] != prior["rmse"], (fold, prior)
    with open(f"{tmp}/three.csv", "w", encoding="utf-8") as f:
        f.write("nm,0,10,20\n200,1,2,3\n201,2,3,5\n")
    three = drive(f"{tmp}/three", f"data.csv={tmp}/three.csv", *SMALL, "model.prior=gaussian_process")
    assert three.returncode != 0 and "model.prior leaves two spectra out; expected at least 4, found 3" in three.stderr, three.stderr


def check_few_epochs(tmp, csv):
    """A selection among fewer epochs than marks chooses by the scores there are."""
    for epochs in (1, 3):
        sets = [f"data.csv={csv}", *SMALL, "training.selection=nested", "training.decays=[0, 1]", f"training.epochs={epochs}"]
        r = drive(f"{tmp}/few-{epochs}", *sets)
        assert r.returncode == 0 and r.stderr.count("chosen by an inner RMSE of 0.") == 4, r.stderr
        with open(f"{tmp}/few-{epochs}/report.json", encoding="utf-8") as f:
            folds = [fold["epochs"] for fold in json.load(f)["per_fold"]]
        assert all(1 <= n <= epochs for n in folds), folds


def check_kill(tmp, csv):
    """SIGKILL once a checkpoint stands, more than once."""
    sets = [f"data.csv={csv}", *SMALL, "training.epochs=60"]
    whole = drive(f"{tmp}/k", *sets)
    assert whole.returncode == 0, whole.stderr
    for _ in range(2):
        p = subprocess.Popen([DRIVER, CONFIG, f"{tmp}/killed", f"{tmp}/killed.cache", *sets], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen = set(os.listdir(f"{tmp}/killed/checkpoints")) if os.path.isdir(f"{tmp}/killed/checkpoints") else set()
        while p.poll() is None:
            now = set(os.listdir(f"{tmp}/killed/checkpoints")) if os.path.isdir(f"{tmp}/killed/checkpoints") else set()
            if any(name.endswith(".safetensors") for name in now - seen):
                p.send_signal(signal.SIGKILL)
                p.wait()
                break
            time.sleep(0.02)
    rest = drive(f"{tmp}/killed", *sets)
    assert rest.returncode == 0, rest.stderr
    assert digest(f"{tmp}/k") == digest(f"{tmp}/killed")


def check_client(tmp, directory):
    """Predictions and metric of a model file, and what is said of files that are none."""
    model = f"{directory}/model.safetensors"

    def ctl(*args):
        return subprocess.run([f"{BIN}/brrctl", "geodesic", *args], capture_output=True, text=True)

    r = ctl("predict", model, "--at", "15", "--csv", f"{tmp}/p.csv")
    assert r.returncode == 0, r.stderr
    assert re.search(r"with each of \d+ spectra left out once, the error of this model is \S+ and that of \w+ \S+, [\d.]+ times less; --rule \w+", r.stderr), r.stderr
    with open(f"{tmp}/p.csv", encoding="utf-8") as f:
        rows = [line.split(",") for line in f.read().splitlines()]
    assert rows[0][:3] == ["wavelength", "absorbance", "spread"] and len(rows) == 21 and len(rows[0]) == 7, rows[0]
    assert all(0 < float(row[1]) < 1 and float(row[2]) >= 0 for row in rows[1:]), rows
    r = ctl("metric", model, "--csv", f"{tmp}/m.csv")
    assert r.returncode == 0, r.stderr
    with open(f"{tmp}/m.csv", encoding="utf-8") as f:
        rows = [line.split(",") for line in f.read().splitlines()]
    for row in rows[1:]:
        w = [math.sqrt(float(x)) for x in row[1:]]
        assert abs(sum((a + b) / 2 for a, b in zip(w, w[1:])) * 2 / (len(w) - 1) - 2) < 1e-3, row
    assert not r.stderr, r
    r = ctl("predict", model, "--at", "15", "--rule", "linear_extrapolated", "--csv", f"{tmp}/rule.csv")
    assert r.returncode == 0 and "left out" not in r.stderr, r.stderr
    with open(f"{tmp}/spectra.csv", encoding="utf-8") as f:
        table = [[float(x) for x in line.split(",")] for line in f.read().splitlines()[1:]]
    with open(f"{tmp}/rule.csv", encoding="utf-8") as f:
        answers = [[float(x) for x in line.split(",")] for line in f.read().splitlines()[1:]]
    for (wavelength, _, ten, twenty, _), answer in zip(table, answers):
        assert answer[0] == wavelength and abs(answer[1] - (ten + twenty) / 2) < 1e-6, (answer, ten, twenty)
    r = ctl("predict", model, "--at", "15", "--rule", "gp_rbf", "--csv", f"{tmp}/no.csv")
    assert r.returncode == 1 and "expected one of linear_clamped" in r.stderr, r.stderr
    r = ctl("predict", model, "--at", "1e4", "--csv", f"{tmp}/p.csv")
    assert r.returncode == 0 and "extrapolation" in r.stderr, r
    r = ctl("predict", model, "--csv", f"{tmp}/p.csv")
    assert r.returncode == 2 and "--at" in r.stderr, r
    r = ctl("predict", f"{tmp}/spectra.csv", "--at", "15", "--csv", f"{tmp}/p.csv")
    assert r.returncode != 0 and "spectra.csv" in r.stderr, r.stderr


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def check_validate(d, csv, bad):
    """Memory grows with the models, steps with the weight decays that are tried; the table is read."""

    def need(*sets):
        code, out, err = d.ctl("validate", CONFIG, "--json", *[word for x in (f"data.csv={csv}", *SMALL, *sets) for word in ("--set", x)])
        assert code == 0, err
        return json.loads(out)

    fixed, nested = need(), need("training.selection=nested", "training.decays=[0, 1]")
    assert fixed["kind"] == "geodesic" and fixed["steps"] == 6 * 3 and nested["steps"] == 3 * fixed["steps"], (fixed, nested)
    assert fixed["parameters"] == 5 * (33665 + 8705), fixed
    assert nested["memory_bytes"] > fixed["memory_bytes"] > 4 * 4 * fixed["parameters"], (fixed, nested)
    assert need("training.final_model=false")["memory_bytes"] < fixed["memory_bytes"]
    for x in (fixed, nested, need("training.solver=ode", "training.smoothness=0")):
        assert x["seconds_per_step"] > 0 and abs(x["seconds_total"] / x["seconds_per_step"] / x["steps"] - 1) < 1e-6, x
    code, out, err = d.ctl("validate", CONFIG, "--set", f"data.csv={bad}")
    assert code != 0 and "bad.csv:5: column '10' holds 'nan'" in out + err, (out, err)


def check_job_model(d, tmp, job, model):
    """job:ID stands for the job's model file."""
    for name, ref in (("file", model), ("job", f"job:{job}")):
        assert d.ctl("geodesic", "predict", ref, "--at", "15", "--csv", f"{tmp}/{name}-p.csv")[0] == 0
        assert d.ctl("geodesic", "metric", ref, "--csv", f"{tmp}/{name}-m.csv")[0] == 0
    assert read(f"{tmp}/file-p.csv") == read(f"{tmp}/job-p.csv") and read(f"{tmp}/file-m.csv") == read(f"{tmp}/job-m.csv")
    code, _, err = d.ctl("geodesic", "metric", "job:geodesic-000101-1", "--csv", f"{tmp}/none.csv")
    assert code == 3 and "geodesic-000101-1" in err and not os.path.exists(f"{tmp}/none.csv"), (code, err)


def check_daemon(tmp, csv):
    d = Daemon(f"{tmp}/daemon").start()
    code, end, err = d.submit(f"data.csv={csv}", *SMALL, "model.prior=gaussian_process", file=CONFIG)
    assert code == 0 and end["state"] == "succeeded" and end["kind"] == "geodesic", (end, err)
    result = end["result"]
    assert result["mean_rmse"] > 0 and len(result["per_fold"]) == 4 and result["geodesics_per_s"] > 0 and result["wall_s"] > 0, result
    assert result["baselines"]["linear_clamped"] > 0, result
    assert end["checkpoint"] and os.path.exists(end["checkpoint"]), end
    best, rmse = min(result["baselines"].items(), key=lambda rule: rule[1])
    code, out, err = d.ctl("watch", end["job"])  # the last lines name the rules beside the models
    assert code == 0 and f"; {best}, the best rule without learning, has {rmse:.5f} (" in out and "rules are better)" in out, out
    prior, network = result["baselines"]["gp_evidence"], result["mean_rmse_network"]
    assert f" (its prior alone {prior:.5f}, its networks alone {network:.5f}); {best}" in out, out
    both = [result[key] for key in ("r2_with_prior", "r2_networks_alone")]
    assert list(both[0].values()) == [f["r2"] for f in result["per_fold"]] and list(both[0]) == list(both[1]) and len(both[0]) == 4, result
    log = d.ctl("logs", end["job"])[1]
    assert all(f"networks alone R² {r2:.3f}" in log for r2 in both[1].values()), log
    with open(f"{d.job(end['job'])['directory']}/report.json", encoding="utf-8") as f:
        assert [x["network"]["r2"] for x in json.load(f)["per_fold"]] == list(both[1].values())
    with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/jobs/{end['job']}") as page:
        text = page.read().decode()
    rows = dict(re.findall(r"mean rmse of (\w+)</th><td>[^<:]*(: better than the geodesic)?", text))
    assert all(f"R² at {c}</th><td>with the prior" in text for c in both[0]), text
    assert "r2_networks_alone" in text and {k: v < result["mean_rmse"] for k, v in result["baselines"].items()} == {k: bool(v) for k, v in rows.items()}, rows
    assert "\n  r2_with_prior\n" in out and "\n  r2_networks_alone\n" in out, out
    code, out, err = d.ctl("job", end["job"])
    assert "\n  r2_with_prior\n" in out and "\n  r2_networks_alone\n" in out, out
    assert "\n  baselines\n    linear_clamped " in out, out
    check_job_model(d, tmp, end["job"], end["checkpoint"])
    write_table(f"{tmp}/bad.csv", bad=3)
    check_validate(d, csv, f"{tmp}/bad.csv")
    code, end, err = d.submit(f"data.csv={tmp}/bad.csv", *SMALL, file=CONFIG)
    assert code != 0 and "bad.csv:5: column '10' holds 'nan'" in json.dumps(end) + err, (end, err)
    assert d.stop() == 0


def main():
    with temporary() as tmp:
        csv = f"{tmp}/spectra.csv"
        write_table(csv)
        check_resume(tmp, csv, "fixed")
        report = check_resume(tmp, csv, "nested", "training.selection=nested", "training.decays=[0, 1]", "training.epochs=4")
        assert len(report["selection"]) == 8 and all(x > 0 for row in report["selection"] for x in row["rmse_without_each"]), report["selection"]
        check_prior(tmp, csv)
        check_resume(tmp, csv, "decoder", "model.head=decoder", "training.final_model=false")
        check_few_epochs(tmp, csv)
        check_client(tmp, f"{tmp}/fixed")
        check_kill(tmp, csv)
        check_daemon(tmp, csv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
