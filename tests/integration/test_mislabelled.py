#!/usr/bin/env python3
"""A channel whose sign contradicts the others is named by every kind of work that reads the recording, or stops the job that asks for it."""
import glob
import json
import os
import subprocess
import sys

from daemon import BIN, MINI, SOURCE, Daemon, temporary

SENTENCE = "mislabelled channels: the loop of the left chains does not close"
MONTAGE = "bipolar recording: electrodes from the minimum-norm inverse"


def invert_first(path):
    """Exchange physical minimum and maximum of the first channel."""
    with open(path, "r+b") as f:
        n = int(f.read(256)[252:])
        for at in (104, 112):
            f.seek(256 + at * n)
            value = f.read(8)
            f.seek(256 + at * n)
            f.write(value.strip().removeprefix(b"-").ljust(8) if value[:1] == b"-" else (b"-" + value)[:8])


def train(d, *sets):
    return d.submit(*MINI, f"data.source=file://{d.dir}/eeg", "training.max_steps=12", *sets)


def check_training(d, bad):
    code, end, err = train(d)
    assert code == 0, (end, err)
    log = d.ctl("logs", end["job"])[1]
    assert log.count(f"{bad}: {SENTENCE}") == 1, log
    assert log.count("3 recordings, sub-01/sub-01_run-01_eeg.edf the first: " + MONTAGE) == 1, log
    code, strict, err = train(d, "data.on_mislabelled=fail")
    assert code == 1 and strict["state"] == "failed" and f"{bad}: {SENTENCE}" in strict["reason"], (strict, err)
    return end["job"]


def check_others(d, job, bad):
    with open(f"{d.dir}/detect.yaml", "w") as f:
        f.write(f"kind: detect\ndata: {{ source: 'file://{d.dir}/eeg' }}\ndetect: {{ model: 'job:{job}' }}\n")
    code, end, err = d.submit(file=f"{d.dir}/detect.yaml")
    assert code == 0, (end, err)
    with open(f"{d.dir}/results/jobs/{end['job']}/recordings.jsonl") as f:
        rows = {r["recording"]: r for r in map(json.loads, f)}
    assert SENTENCE in rows[bad]["mislabelled"] and rows[bad]["note"].endswith(rows[bad]["mislabelled"]), rows
    assert all("mislabelled" not in r and r["note"].startswith(MONTAGE) for name, r in rows.items() if name != bad), rows
    code, end, err = d.submit("data.on_mislabelled=fail", file=f"{d.dir}/detect.yaml")
    assert code == 1 and f"{bad}: {SENTENCE}" in end["reason"], (end, err)
    code, end, err = d.submit(f"data.source=file://{d.dir}/eeg", f"evaluate.checkpoint=job:{job}", "evaluate.plots=0", file=f"{SOURCE}/configs/eval.yaml")
    assert code == 0, (end, err)
    assert d.ctl("logs", end["job"])[1].count(SENTENCE) == 1
    with open(f"{d.dir}/results/jobs/{end['job']}/report.json") as f:
        rows = {r["recording"]: r for r in json.load(f)["recordings"]}
    assert SENTENCE in rows[bad]["mislabelled"] and sum("mislabelled" in r for r in rows.values()) == 1, rows


def check_another_attempt(d, job, bad):
    """An attempt that finds all recordings done leaves the list as it is."""
    files = glob.glob(f"{d.dir}/results/jobs/{job}/checkpoints/step-*.safetensors")
    model = next(f for f in sorted(files) if ".state." not in f)
    lists = []
    for _ in range(2):
        subprocess.run([f"{BIN}/brrd", "run", f"{d.dir}/detect.yaml", "--directory", f"{d.dir}/twice", "--set", f"detect.model={model}"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(f"{d.dir}/twice/recordings.jsonl") as f:
            lists.append(f.read())
    assert lists[0] == lists[1] and SENTENCE in lists[0], lists


def check_stream(d, job, bad):
    code, out, err = d.ctl("stream", f"{d.dir}/eeg/{bad}", "--model", f"job:{job}", "--json")
    last = json.loads(out.splitlines()[-1])
    assert code == 0 and SENTENCE in last["mislabelled"] and SENTENCE in last["note"], (last, err)
    code, out, err = d.ctl("detect", f"{d.dir}/eeg", "--model", f"job:{job}", "--out", f"{d.dir}/hyp")
    assert code == 0 and err.count(f"and 1 other: {MONTAGE}") == 1 and err.count(SENTENCE) == 1, err


def main():
    with temporary() as tmp:
        subprocess.run([f"{BIN}/edfgen", "--out", f"{tmp}/eeg", "--patients", "3", "--hours-per-patient", "0.05", "--seizures-per-patient", "1", "--seed", "31",
                        "--montage", "bipolar"], check=True, stdout=subprocess.DEVNULL)
        path = sorted(glob.glob(f"{tmp}/eeg/sub-02/*.edf"))[0]
        invert_first(path)
        bad = os.path.relpath(path, f"{tmp}/eeg")
        d = Daemon(tmp).start()
        job = check_training(d, bad)
        check_others(d, job, bad)
        check_stream(d, job, bad)
        check_another_attempt(d, job, bad)
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
