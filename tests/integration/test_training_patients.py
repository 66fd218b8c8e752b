#!/usr/bin/env python3
"""The patients of a training: drawn once and kept by every attempt, named in the log and the report, hashed in the model file, and
recognised by an evaluation. Recordings whose samples cannot be read are left out and stay so."""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

from daemon import MINI, SOURCE, make_corpus, temporary, tensors

DRIVER = os.path.join(os.environ["BRR_BUILD_DIR"], "tests", "task_driver")


bad_sectors = {}  # variables of a program whose disk has some (held/failing_reads.c)


def drive(tmp, job, name, *sets, code=0):
    r = subprocess.run([DRIVER, f"{SOURCE}/configs/{job}.yaml", f"{tmp}/{name}", f"{tmp}/cache", f"data.source=file://{tmp}/eeg", *sets],
                       capture_output=True, text=True, check=False, env={**os.environ, **bad_sectors})
    assert r.returncode == code, r.stdout[-2000:] + r.stderr[-4000:]
    results = [json.loads(line[7:]) for line in r.stdout.splitlines() if line.startswith("result ")]
    return r.stderr, results[-1] if results else None


def train(tmp, name, *sets, code=0):
    return drive(tmp, "tiny", name, *MINI, "training.validate_every=2", "training.max_steps=4", *sets, code=code)


def report(tmp, name):
    with open(f"{tmp}/{name}/report.json", encoding="utf-8") as f:
        return json.load(f)


def header(path):
    with open(path, "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        return size, json.loads(f.read(size))


def digest(tmp, name):
    return tensors(max(glob.glob(f"{tmp}/{name}/checkpoints/step-????????.safetensors")))


def lowest(patients, count, seed=1):
    return sorted(sorted(patients, key=lambda p: hashlib.sha256(f"{seed}:{p}".encode()).hexdigest())[:count])


def patient(number):
    return f"sub-{number:02d}"


def roles_are_named_and_kept(tmp):
    began = [patient(i) for i in range(1, 6)]
    log, _ = train(tmp, "kept", "stop_after=2", "training.seed=5")
    split = report(tmp, "kept")["split"]
    assert split["validation"] == lowest(began, 1) and split["test"] == [], split
    assert sorted(split["training"] + split["validation"]) == began, split
    assert f"validation patients: {split['validation'][0]}\n" in log and f"training patients: {', '.join(split['training'])}\n" in log, log
    everyone = [*began]  # patients who take the place of the one that validates, were it drawn again
    while lowest(everyone, round(0.2 * len(everyone))) == split["validation"] or len(everyone) < 7:
        everyone.append(patient(len(everyone) + 1))
        shutil.copytree(f"{tmp}/eeg/sub-01", f"{tmp}/eeg/{everyone[-1]}")
        for file in glob.glob(f"{tmp}/eeg/{everyone[-1]}/*"):
            os.rename(file, file.replace("sub-01_", f"{everyone[-1]}_"))
    log, result = train(tmp, "kept", "training.seed=5")
    assert report(tmp, "kept")["split"] == split, report(tmp, "kept")
    fresh = everyone[len(began):]
    assert f"{len(fresh)} patients came after this training began and are not used: {', '.join(fresh)}" in log, log
    assert result["selected_on"] == "validation" and report(tmp, "kept")["result"]["selected_on"] == "validation", result
    train(tmp, "drawn", "training.seed=5", "training.max_steps=2")
    assert report(tmp, "drawn")["split"]["validation"] != split["validation"], "the new patients would not show a new draw"
    return split, fresh


def changed_labels_end_a_resumed_training(tmp):
    """It goes on with the windows that it began with, or not at all, and names what is different."""
    train(tmp, "began", "training.seed=5", "stop_after=2")
    labels = sorted(glob.glob(f"{tmp}/eeg/sub-01/*_events.tsv"))[0]
    name = os.path.relpath(labels, f"{tmp}/eeg").replace("_events.tsv", "_eeg.edf")
    with open(labels, encoding="utf-8") as f:
        before = f.read()
    with open(labels, "w", encoding="utf-8") as f:
        f.write("onset\tduration\teventType\n5\t40\tsz\n")
    log, _ = train(tmp, "began", "training.seed=5", code=1)
    assert f"the labels or the length of 1 recording changed since this training began ({name})" in log and "submit a new job" in log, log
    with open(labels, "w", encoding="utf-8") as f:
        f.write(before)
    added = []
    for ending in ("_eeg.edf", "_events.tsv"):  # of a patient who trains
        added.append(f"{tmp}/eeg/sub-01/sub-01_run-99{ending}")
        shutil.copy(labels.replace("_events.tsv", ending), added[-1])
    log, result = train(tmp, "began", "training.seed=5")
    assert "1 recording came after this training began and are not used: sub-01/sub-01_run-99_eeg.edf" in log and result["steps"] == 4, log
    for path in added:
        os.unlink(path)
    train(tmp, "undivided", "training.seed=5")
    assert digest(tmp, "began") == digest(tmp, "undivided"), "a recording that came later changed the weights"


def states_without_roles_are_refused(tmp):
    train(tmp, "older", "training.seed=5", "stop_after=2")
    for state in glob.glob(f"{tmp}/older/checkpoints/*.state.safetensors"):
        size, content = header(state)
        del content["__metadata__"]["patients"]
        text = json.dumps(content, separators=(",", ":")).encode()
        with open(state, "r+b") as f:
            f.seek(8)
            f.write(text + b" " * (size - len(text)))
    log, _ = train(tmp, "older", "training.seed=5", code=1)
    assert "does not say which patients trained" in log, log


def a_test_patient_stays_out(tmp):
    train(tmp, "tested", "data.split.test=[sub-02]", "training.max_steps=2")
    split = report(tmp, "tested")["split"]
    assert split["test"] == ["sub-02"] and "sub-02" not in split["training"] + split["validation"], split


def evaluations_know_the_patients(tmp, split, fresh):
    model = f"evaluate.checkpoint={max(glob.glob(f'{tmp}/kept/checkpoints/step-????????.safetensors'))}"
    (group,) = json.loads(header(model.partition("=")[2])[1]["__metadata__"]["brr.patients"])
    assert group["validation"] == [hashlib.sha256(f"{group['salt']}:{split['validation'][0]}".encode()).hexdigest()[:16]], group
    small = ("evaluate.plots=0", "evaluate.alarm_hop_s=0")
    log, result = drive(tmp, "eval", "all", model, *small)
    seen = len(split["training"] + split["validation"])
    assert result["seen_patients"] == seen and re.search(f"trained on {seen - 1} and selected on 1: the scores do not transfer", log), log
    found = report(tmp, "all")["patients"]
    assert found == {"known": True, "training": split["training"], "validation": split["validation"], "unseen": fresh}, found
    log, result = drive(tmp, "eval", "unseen", model, *small, "evaluate.patients=unseen")
    assert result["seen_patients"] == 0 and result["recordings"] == len(fresh), result
    assert {r["subject"] for r in report(tmp, "unseen")["recordings"]} == set(fresh)
    for name in fresh:
        shutil.rmtree(f"{tmp}/eeg/{name}")
    log, _ = drive(tmp, "eval", "none", model, *small, "evaluate.patients=unseen", code=1)
    assert "the model has seen all 5 patients" in log, log


def folders_can_be_patients(tmp):
    for i in range(1, 4):
        os.makedirs(f"{tmp}/eeg/PN{i:02d}")
        for file in glob.glob(f"{tmp}/eeg/sub-{i:02d}/*"):
            for run in (1, 2):
                shutil.copy(file, f"{tmp}/eeg/PN{i:02d}/PN{i:02d}-{run}_{file.rpartition('_')[2]}")
    for i in range(1, 6):
        shutil.rmtree(f"{tmp}/eeg/sub-{i:02d}")
    log, _ = train(tmp, "files", "training.max_steps=2")
    assert "6 recordings in 3 folders count as a patient each, such as PN01/PN01-1_eeg.edf" in log, log
    log, _ = train(tmp, "folders", "training.max_steps=2", "data.patient=folder")
    assert "count as a patient each" not in log, log
    split = report(tmp, "folders")["split"]
    assert sorted(split["training"] + split["validation"]) == ["PN01", "PN02", "PN03"], split


def spoil(tmp, path):
    """Bytes that are no EDF behind an unchanged size and time, so that the fault shows when the samples are read."""
    stat = os.stat(f"{tmp}/eeg/{path}")
    with open(f"{tmp}/eeg/{path}", "r+b") as f:
        f.write(b"no longer an EDF")
    os.utime(f"{tmp}/eeg/{path}", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    for name in os.listdir(f"{tmp}/cache"):
        if name != "manifests":
            shutil.rmtree(f"{tmp}/cache/{name}") if os.path.isdir(f"{tmp}/cache/{name}") else os.remove(f"{tmp}/cache/{name}")


def unreadable_recordings_are_left_out(tmp):
    lists = ("data.split.validation=[sub-01,sub-02]", "training.max_steps=4")
    train(tmp, "whole", *lists)
    shutil.copytree(f"{tmp}/eeg", f"{tmp}/eeg-whole")
    shutil.copytree(f"{tmp}/cache", f"{tmp}/cache-whole")
    bad = [os.path.relpath(glob.glob(f"{tmp}/eeg/{p}/*.edf")[0], f"{tmp}/eeg") for p in ("sub-01", "sub-03")]
    spoil(tmp, bad[0])
    bad_sectors.update(LD_PRELOAD=f"{os.environ['BRR_BUILD_DIR']}/tests/libfailing_reads.so", BRR_BAD_BYTE=str(1 << 16),
                       BRR_BAD_FILES=os.path.realpath(f"{tmp}/eeg/{bad[1]}"))
    model = f"evaluate.checkpoint={max(glob.glob(f'{tmp}/whole/checkpoints/step-????????.safetensors'))}"
    log, result = drive(tmp, "eval", "some", model, "evaluate.plots=0", "evaluate.threshold=auto")
    assert report(tmp, "some")["selected_on"] == "evaluation", report(tmp, "some")
    assert result["recordings"] == 3 and log.count("the evaluation goes on without a recording") == 2, log
    unusable = report(tmp, "some")["unusable"]
    assert [r["recording"] for r in unusable] == bad and "Input/output error" in unusable[1]["error"], unusable
    drive(tmp, "eval", "strict", model, "data.on_bad_file=fail", code=1)
    for name, *sets in (("read",), ("resident", "data.resident=on")):
        log, _ = train(tmp, name, *lists, *sets, "stop_after=3")
        assert log.count("the training goes on without a recording") == 2 and report(tmp, name)["left_out"] == bad, log
    log, result = train(tmp, "read", *lists)
    assert result["steps"] == 4 and log.count("stays left out") == 2 and "goes on without" not in log, log
    first, _ = train(tmp, "undisturbed", *lists)
    plan = [re.search("windows: .*", text)[0] for text in (first, log)]
    assert plan[0] == plan[1], f"a resumed training planned its schedule and pos_weight anew: {plan}"
    assert digest(tmp, "read") == digest(tmp, "undisturbed"), "a resumed training went another way"
    assert digest(tmp, "read") != digest(tmp, "whole"), "weights do not show that a recording is missing"
    train(tmp, "refused", *lists, "data.on_bad_file=fail", code=1)
    bad_sectors.clear()
    for name in ("eeg", "cache"):
        shutil.rmtree(f"{tmp}/{name}")
        os.rename(f"{tmp}/{name}-whole", f"{tmp}/{name}")


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=11, patients=5, hours=0.03)
        unreadable_recordings_are_left_out(tmp)
        split, fresh = roles_are_named_and_kept(tmp)
        changed_labels_end_a_resumed_training(tmp)
        states_without_roles_are_refused(tmp)
        a_test_patient_stays_out(tmp)
        evaluations_know_the_patients(tmp, split, fresh)
        folders_can_be_patients(tmp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
