#!/usr/bin/env python3
"""`brrctl sweep`: all combinations of a grid; folds that leave out each patient, whose evaluations see that patient alone and add up to the
pooled row; and configs/chbmit.yaml over a bucket with the keys and summaries of CHB-MIT, which goes on where a killed brrctl left it."""
import json
import os
import re
import sqlite3
import subprocess
import sys
import time

from daemon import BIN, MINI, PATIENCE, SOURCE, Daemon, make_corpus, temporary
from fake_s3 import FakeS3


def sweep(d, source, *options):
    sets = [*MINI, f"data.source=file://{source}", "training.max_steps=3", "data.validation_fraction=0.4"]
    r = subprocess.run([f"{BIN}/brrctl", "sweep", f"{SOURCE}/configs/tiny.yaml", *[a for s in sets for a in ("--set", s)], *options], env=d.env,
                       capture_output=True, text=True, timeout=PATIENCE)
    return r.returncode, r.stdout, r.stderr


def grid(d, source):
    code, out, err = sweep(d, source, "--grid", "training.learning_rate=1e-3,2e-3", "--output", f"{d.dir}/grid.tsv")
    assert code == 0, err
    with open(f"{d.dir}/grid.tsv", encoding="utf-8") as f:
        assert f.read() == out
    head, *rows = [line.split("\t") for line in out.splitlines()]
    assert head == ["job", "training.learning_rate", "state", "event_f1", "false_alarms_per_24h", "auroc"], head
    assert [row[1:3] for row in rows] == [["1e-3", "succeeded"], ["2e-3", "succeeded"]], rows
    for row in rows:
        assert f"training.learning_rate={row[1]}" in d.job(row[0])["file"]["overrides"]
        assert abs(float(row[5]) - d.job(row[0])["result"]["auroc"]) < 1e-3


def watched(d, source):
    """Lines of progress claim no step that was not done, and scores that are not defined are called none."""
    words = [a for s in (*MINI, "training.max_steps=40", "training.validate_every=4") for a in ("--set", s)]
    code, out, err = d.ctl("submit", f"{SOURCE}/configs/tiny.yaml", "--watch", "--set", f"data.source=file://{source}", *words)
    shown = [int(step) for step in re.findall(r"^train +\S+ (\d+)/40", out, re.M)]
    assert code == 0 and shown == sorted(set(shown)) and ", step " in out, (shown, out, err)
    quiet = f"{d.dir}/quiet"
    make_corpus(quiet, 4, patients=1, hours=0.02, seizures=0)
    code, out, err = d.ctl("submit", f"{SOURCE}/configs/eval.yaml", "--watch", "--set", f"data.source=file://{quiet}", "--set", "evaluate.checkpoint=demo",
                           "--set", "data.unlabeled=background")
    assert code == 0 and "AUROC none" in out and "nan" not in out, (out, err)
    code, _, err = d.ctl("labels", "import", __file__, f"{d.dir}/nowhere")
    assert code and f"there is no folder or recording {d.dir}/nowhere" in err, err


def folds(d, source):
    os.makedirs(f"{d.dir}/more")  # several sources, which the evaluations need too, as they do what the grid says of data
    os.rename(f"{source}/sub-03", f"{d.dir}/more/sub-03")
    code, out, err = sweep(d, source, "--folds", "patients", "--json", "--output", f"{d.dir}/folds.tsv", "--set", f'data.source=["file://{source}", "file://{d.dir}/more"]', "--grid",
                           "data.loader_workers=2")
    assert code == 0, err
    with open(f"{d.dir}/folds.tsv", encoding="utf-8") as f:
        head, *rows = [line.rstrip("\n").split("\t") for line in f]
    assert {len(row) for row in rows} == {len(head)} and head[-5:] == ["sensitivity", "sensitivity_low", "sensitivity_high", "fa_low", "fa_high"], (head, rows)
    assert rows[-1][0] == "pooled" and all(value == "-" or float(value) >= 0 for row in rows for value in row[-9:]), rows
    *members, pooled = map(json.loads, out.splitlines())
    assert [m["left_out"] for m in members] == ["eeg/sub-01", "eeg/sub-02", "more/sub-03"], members
    total = dict.fromkeys(("found", "seizures", "false_events", "hours"), 0)
    for m in members:
        ended = d.job(m["evaluation"])
        assert ended["name"] == d.job(m["job"])["name"] == f"tiny without {m['left_out']}", (ended, m)
        result = ended["result"]
        with sqlite3.connect(f"{d.dir}/jobs.sqlite") as db:
            ((text,),) = db.execute("SELECT yaml FROM jobs WHERE id=?", (m["evaluation"],))
        assert '"loader_workers":2' in text, text
        assert result["seen_patients"] == 0 and result["recordings"] == 1, result
        with open(f"{ended['directory']}/report.json", encoding="utf-8") as f:
            report = json.load(f)
        assert list(report["scores"]["per_subject"]) == [m["left_out"]], report["scores"]["per_subject"]
        for key in total:
            assert m[key] == result[key], (m, result)
            total[key] += m[key]
    assert pooled["missing"] == 0 and pooled["folds"] == 3 and {k: pooled[k] for k in total} == total, (pooled, total)
    assert total["seizures"] > 0 and pooled["sensitivity_low"] <= pooled["sensitivity"] <= pooled["sensitivity_high"], pooled


def refused(d, source):
    for options, text in ((("--folds", "7"), "have 3 patients"), (("--folds", "none"), "expected patients"), (("--grid", "a=1,,2"), "empty value"),
                          (("--grid", "training.learning_rate=fast"), "training.learning_rate")):
        code, _, err = sweep(d, source, *options)
        assert code != 0 and text in err, (options, err)


EEG = os.environ.get("BRR_EEG_DIR") or os.path.join(SOURCE, "..", "shared", "eeg")
# recordings of CHB-MIT and what its summaries say of them: the seizure, in seconds; chb21 is chb01 again
RECORDINGS = {"chb01": {"chb01_21": (327, 420)}, "chb02": {"chb02_16": (130, 212)}, "chb05": {"chb05_06": (417, 532)}, "chb21": {"chb21_01": None}}
CHBMIT = ["model.encoder_channels=[8,8,8,16]", "model.rescnn_blocks=1", "model.mamba_layers=1", "model.headdim=8", "model.d_state=4", "training.batch_size=4",
          "training.max_steps=3", "data.validation_fraction=0.4", "data.loader_workers=1"]


def summary(recordings):
    lines = ["Data Sampling Rate: 256 Hz", ""]
    for name, seizure in recordings.items():
        lines += [f"File Name: {name}.edf", "File Start Time: 11:42:54", f"Number of Seizures in File: {1 if seizure else 0}"]
        lines += [f"Seizure Start Time: {seizure[0]} seconds", f"Seizure End Time: {seizure[1]} seconds"] if seizure else []
    return "\n".join([*lines, ""]).encode()


def fill_bucket(s3, folder):
    """PhysioNet's keys; the real summaries of all 24 cases where they are at hand."""
    make_corpus(folder, seed=22, patients=len(RECORDINGS), hours=0.16)
    for i, (case, recordings) in enumerate(RECORDINGS.items(), 1):
        s3.objects[f"chbmit/1.0.0/{case}/{case}-summary.txt"] = summary(recordings)
        for name in recordings:
            with open(f"{folder}/sub-{i:02}/sub-{i:02}_run-01_eeg.edf", "rb") as f:
                s3.objects[f"chbmit/1.0.0/{case}/{name}.edf"] = f.read()
            s3.objects[f"chbmit/1.0.0/{case}/{name}.edf.seizures"] = b"not read"
    s3.objects["chbmit/1.0.0/RECORDS"] = b"chb01/chb01_21.edf\n"
    for case in range(1, 25):
        path = f"{EEG}/chbmit/chb{case:02}-summary.txt"
        if os.path.exists(path):
            with open(path, "rb") as f:
                s3.objects[f"chbmit/1.0.0/chb{case:02}/chb{case:02}-summary.txt"] = f.read()


def jobs_of(record):
    """The trainings that a sweep has recorded; "" for those that are still to be queued."""
    if not os.path.exists(record):
        return [""]
    with open(record, encoding="utf-8") as f:
        return [line.split("\t")[0].strip("-") for line in f.read().splitlines()[2:]]


def chbmit(tmp):
    record = f"{tmp}/folds.jobs"
    with FakeS3("physionet-open") as s3:
        fill_bucket(s3, f"{tmp}/chb")
        s3.public = True
        d = Daemon(f"{tmp}/d", [f"stores={{physionet: {{url: 's3://physionet-open', endpoint: '{s3.endpoint}', anonymous: true}}}}"]).start()
        command = [f"{BIN}/brrctl", "sweep", f"{SOURCE}/configs/chbmit.yaml", *[a for s in CHBMIT for a in ("--set", s)], "--folds", "patients", "--record", record]
        estimate = subprocess.run([*command, "--estimate", "--price", "2.5"], env=d.env, capture_output=True, text=True, timeout=PATIENCE)
        assert estimate.returncode == 0 and "3 trainings of 3 steps, each about " in estimate.stderr and " at 2.5 an hour" in estimate.stderr, estimate.stderr
        assert not os.path.exists(record)
        killed = subprocess.Popen(command, env=d.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while killed.poll() is None and "" in jobs_of(record):
            time.sleep(0.05)
        killed.kill()
        killed.communicate()
        r = subprocess.run([*command, "--json"], env=d.env, capture_output=True, text=True, timeout=PATIENCE)
        assert r.returncode == 0, r.stderr
        assert "brrctl: 0 jobs are queued, 3 go on from " in r.stderr, r.stderr
        *members, pooled = map(json.loads, r.stdout.splitlines())
        assert [m["left_out"] for m in members] == ["chb01", "chb02", "chb05"] and pooled["seizures"] == 3 and pooled["missing"] == 0, (members, pooled)
        assert pooled["mean"]["auroc"] == sum(m["auroc"] for m in members) / 3, pooled
        assert pooled["hours"] > 0.6, pooled  # chb21, too
        jobs = [m["job"] for m in members]
        r = subprocess.run([*command, "--set", "training.seed=7"], env=d.env, capture_output=True, text=True, timeout=PATIENCE)
        assert r.returncode != 0 and "is the record of another sweep" in r.stderr, r.stderr
        assert d.ctl("delete", jobs[1])[0] == 0
        r = subprocess.run([*command, "--json"], env=d.env, capture_output=True, text=True, timeout=PATIENCE)
        again = [json.loads(line)["job"] for line in r.stdout.splitlines()[:3]]
        assert r.returncode == 0 and "1 jobs are queued, 2 go on from " in r.stderr, r.stderr
        assert again[0] == jobs[0] and again[2] == jobs[2] and again[1] != jobs[1], (again, jobs)
        d.stop()


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=21, patients=3, hours=0.05)
        d = Daemon(tmp).start()
        watched(d, f"{tmp}/eeg")
        grid(d, f"{tmp}/eeg")
        refused(d, f"{tmp}/eeg")
        folds(d, f"{tmp}/eeg")
        d.stop()
        os.makedirs(f"{tmp}/d")
        chbmit(tmp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
