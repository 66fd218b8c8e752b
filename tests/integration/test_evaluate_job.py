#!/usr/bin/env python3
"""An evaluation that is killed in the middle goes on with the recordings whose traces are missing, and ends with the files of an
undisturbed one; its memory follows the signal of a recording, and not the time that a file spans."""
import glob
import json
import os
import shutil
import subprocess
import sys
import time

from daemon import MINI, PATIENCE, SOURCE, make_corpus, temporary
from test_client_detect import discontinuous

DRIVER = os.path.join(os.environ["BRR_BUILD_DIR"], "tests", "task_driver")
DAY_S = 86400


def start(tmp, job, name, *sets, eeg="eeg"):
    return subprocess.Popen([DRIVER, f"{SOURCE}/configs/{job}.yaml", f"{tmp}/{name}", f"{tmp}/cache", f"data.source=file://{tmp}/{eeg}", *sets],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(process):
    """The log and the most memory in bytes."""
    log = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, log[-4000:]
    return log, usage.ru_maxrss * 1024


def files(folder):
    found = {}
    for path in glob.glob(f"{folder}/**", recursive=True):
        if os.path.isfile(path) and not path.endswith("recordings.jsonl"):
            with open(path, "rb") as f:
                found[os.path.relpath(path, folder)] = f.read()
    return found


def listed(folder):
    try:
        with open(f"{folder}/recordings.jsonl", encoding="utf-8") as f:
            return [json.loads(line)["recording"] for line in f if line.endswith("\n")]
    except FileNotFoundError:
        return []


def killed_goes_on(tmp, model):
    log, _ = finish(start(tmp, "eval", "whole", *model))
    want, recordings = files(f"{tmp}/whole"), listed(f"{tmp}/whole")
    assert {"report.json", "operating.svg"} <= set(want) and "evaluated before" not in log and not os.path.exists(f"{tmp}/whole/traces"), want.keys()
    process = start(tmp, "eval", "killed", *model)
    deadline = time.time() + PATIENCE
    while len(listed(f"{tmp}/killed")) < 2:
        assert time.time() < deadline and process.poll() is None, process.poll()
        time.sleep(0.002)
    process.kill()
    process.communicate()
    done = listed(f"{tmp}/killed")
    assert 2 <= len(done) < len(recordings), (done, "killed too late to tell")
    stamps = {path: os.stat(path).st_mtime_ns for path in glob.glob(f"{tmp}/killed/traces/*.safetensors")}
    assert len(stamps) >= len(done), (stamps, done)
    with open(f"{tmp}/killed/recordings.jsonl", "a", encoding="utf-8") as f:
        f.write('{"recording":"sub-0')  # as a power loss may leave it
    log, _ = finish(start(tmp, "eval", "killed", *model))
    assert f"{len(done)} recordings evaluated before" in log, log
    assert sorted(listed(f"{tmp}/killed")) == sorted(recordings), "each recording is computed once"
    assert files(f"{tmp}/killed") == want, [name for name in want if files(f"{tmp}/killed").get(name) != want[name]]


def time_without_signal_is_free(tmp, model, source):
    """Twenty days between two records are 1.8 GB at four bytes per sample of file time; a year is the file's fault."""
    os.makedirs(f"{tmp}/spread")
    for name, days in (("sub-01", 20), ("sub-02", 365)):
        discontinuous(source, f"{tmp}/spread/{name}_eeg.edf", days * DAY_S)
        shutil.copy(source.replace("_eeg.edf", "_events.tsv"), f"{tmp}/spread/{name}_events.tsv")
    log, memory = finish(start(tmp, "eval", "jumps", *model, "data.unlabeled=background", eeg="spread"))
    with open(f"{tmp}/jumps/report.json", encoding="utf-8") as f:
        report = json.load(f)
    (left_out,) = report["unusable"]
    assert left_out["recording"] == "sub-02_eeg.edf" and "it lasts 365 days by its clock" in left_out["error"], left_out
    (recording,) = report["recordings"]
    assert abs(recording["duration_s"] - 20 * DAY_S - 180) < 1, recording
    assert abs(recording["recorded_s"] - 180) < 1 and abs(report["scores"]["hours"] * 3600 - 180) < 2, (recording, report["scores"]["hours"])
    assert abs(report["alarms"]["hours"] * 3600 - 180) < 1, report["alarms"]
    assert memory < 600 << 20, (memory, log)


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=11, patients=6, hours=0.05)
        source = sorted(glob.glob(f"{tmp}/eeg/**/*_eeg.edf", recursive=True))[0]
        finish(start(tmp, "tiny", "train", *MINI, "training.max_steps=2", "training.validate_every=2"))
        model = (f"evaluate.checkpoint={max(glob.glob(f'{tmp}/train/checkpoints/step-????????.safetensors'))}", "evaluate.threshold=auto",
                 "evaluate.plots=3")
        killed_goes_on(tmp, model)
        time_without_signal_is_free(tmp, model, source)
    return 0


if __name__ == "__main__":
    sys.exit(main())
