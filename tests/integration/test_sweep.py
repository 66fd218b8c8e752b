#!/usr/bin/env python3
"""`brrctl sweep`: all combinations of a grid, and folds that leave out each patient, whose evaluations see that patient alone and add up to the
pooled row."""
import json
import os
import sqlite3
import subprocess
import sys

from daemon import BIN, MINI, PATIENCE, SOURCE, Daemon, make_corpus, temporary


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


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=21, patients=3, hours=0.05)
        d = Daemon(tmp).start()
        grid(d, f"{tmp}/eeg")
        refused(d, f"{tmp}/eeg")
        folds(d, f"{tmp}/eeg")
        d.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
