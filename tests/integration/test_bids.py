#!/usr/bin/env python3
"""edfgen --bids and brrctl detect --bids write BIDS datasets: the validator of the standard (bids-validator of npm) finds no error, and rules
that it does not know hold as well; brrctl dataset names what a folder lacks."""
import csv
import glob
import json
import os
import re
import shutil
import subprocess

from daemon import BIN, PATIENCE, SOURCE, Daemon, temporary
from npm import npm_modules
from test_client_detect import discontinuous

REQUIRED = {"TaskName": str, "EEGReference": str, "SamplingFrequency": (int, float), "PowerLineFrequency": (int, float, str),
            "SoftwareFilters": (dict, str), "RecordingDuration": (int, float), "RecordingType": str, "EEGChannelCount": int}
NAME = re.compile(r"(sub-[A-Za-z0-9]+)/eeg/\1_task-[A-Za-z0-9]+(_acq-[A-Za-z0-9]+)?(_run-\d+)?_eeg\.edf")


def validate(folder):
    """Errors and warnings of the validator, as keys."""
    modules = npm_modules(f"{SOURCE}/tests/integration/bids")
    r = subprocess.run(["node", f"{modules}/bids-validator/bin/bids-validator", folder, "--json"], capture_output=True, text=True, timeout=PATIENCE)
    found = json.loads(r.stdout)["issues"]
    return [i["key"] for i in found["errors"]], [i["key"] for i in found["warnings"]]


def table(path):
    with open(path, encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f, delimiter="\t"))


def labels_of(edf):
    """Labels, units and the length in seconds."""
    with open(edf, "rb") as f:
        head = f.read(256)
        n = int(head[252:256])
        text = f.read(256 * n).decode("latin-1")
    labels = [text[16 * i:16 * i + 16].strip() for i in range(n)]
    units = [text[96 * n + 8 * i:96 * n + 8 * i + 8].strip() for i in range(n)]
    return [(a, u) for a, u in zip(labels, units) if a != "EDF Annotations"], int(head[236:244]) * float(head[244:252])


def check_rules(folder, mains, gap_s=0):
    """What the newer, schema-based rules ask for: task and names of files, required keys, the order of columns, a description of every
    column, channels as in the recording, events within it."""
    with open(f"{folder}/dataset_description.json", encoding="utf-8") as f:
        about = json.load(f)
    assert about["Name"] and re.fullmatch(r"\d+\.\d+\.\d+", about["BIDSVersion"]) and about["GeneratedBy"][0]["Name"] == "brrd"
    assert os.path.getsize(f"{folder}/README") > 150
    recordings = sorted(glob.glob(f"{folder}/**/*_eeg.edf", recursive=True))
    for path in recordings:
        relative, stem = os.path.relpath(path, folder), path[:-len("_eeg.edf")]
        assert NAME.fullmatch(relative), relative
        with open(f"{stem}_eeg.json", encoding="utf-8") as f:
            eeg = json.load(f)
        for key, kind in REQUIRED.items():
            assert isinstance(eeg[key], kind) and not isinstance(eeg[key], bool), (key, eeg)
        assert f"_task-{eeg['TaskName']}_" in relative and eeg["PowerLineFrequency"] == mains and eeg["EEGReference"] == "REF"
        labels, seconds = labels_of(path)
        channels = table(f"{stem}_channels.tsv")
        assert list(channels[0])[:3] == ["name", "type", "units"]
        assert [(c["name"], c["units"]) for c in channels] == labels and eeg["EEGChannelCount"] == len(labels) == 19
        assert {c["type"] for c in channels} == {"EEG"} and {float(c["sampling_frequency"]) for c in channels} == {256}
        long = eeg["RecordingDuration"]
        assert long in (seconds, seconds + gap_s) and eeg["RecordingType"] == ("continuous" if long == seconds else "discontinuous")
        events = table(f"{stem}_events.tsv")
        assert list(events[0])[:2] == ["onset", "duration"] and list(events[0])[-1] == "trial_type"
        with open(f"{stem}_events.json", encoding="utf-8") as f:
            described = json.load(f)
        for e in events:
            assert float(e["onset"]) >= 0 and float(e["duration"]) >= 0 and float(e["onset"]) + float(e["duration"]) <= long + 0.01, e
            assert e["trial_type"] == e["eventType"] and e["trial_type"].split("_")[0] in described["trial_type"]["Levels"]
        assert set(described) == set(events[0]) and all(described[c]["Description"] for c in described)
    return recordings


def lacks(path):
    r = subprocess.run([f"{BIN}/brrctl", "dataset", path, "--unlabeled", "background", "--json"], capture_output=True, text=True)
    return json.loads(r.stdout)["not_bids"]


def check_edfgen(scratch):
    folder = f"{scratch}/made"
    subprocess.run([f"{BIN}/edfgen", "--bids", "--out", folder, "--patients", "2", "--hours-per-patient", "0.05", "--seizures-per-patient", "1", "--seed",
                    "11"], check=True)
    assert len(check_rules(folder, 60)) == 2 and lacks(folder) == [], lacks(folder)
    assert validate(folder)[0] == []
    return folder


def check_lacks(made, scratch):
    """Each piece that is taken away is named."""
    stem = "sub-01/eeg/sub-01_task-szMonitoring_run-01"
    with open(f"{made}/{stem}_eeg.json", encoding="utf-8") as f:
        eeg = json.load(f)
    del eeg["PowerLineFrequency"]
    for name, text, want in (("README", None, "README: missing"), ("dataset_description.json", None, "dataset_description.json: missing"),
                             ("dataset_description.json", "{\"Name\":\"x\"}", "dataset_description.json: has no BIDSVersion"),
                             (f"{stem}_channels.tsv", None, f"{stem}_channels.tsv: missing or no table"),
                             (f"{stem}_channels.tsv", "type\tname\tunits\nEEG\tFp1\tuV\n", f"{stem}_channels.tsv: 1 rows, the recording has 19 signals"),
                             (f"{stem}_channels.tsv", "type\tname\tunits\nEEG\tFp1\tuV\n", f"{stem}_channels.tsv: column 1 is not name"),
                             (f"{stem}_events.json", None, f"{stem}_events.json: missing"), (f"{stem}_events.tsv", None, f"{stem}_events.tsv: missing"),
                             (f"{stem}_eeg.json", json.dumps(eeg), f"{stem}_eeg.edf: its _eeg.json has no PowerLineFrequency")):
        copy = f"{scratch}/copy"
        shutil.copytree(made, copy)
        os.unlink(f"{copy}/{name}")
        if text:
            with open(f"{copy}/{name}", "w", encoding="utf-8") as f:
                f.write(text)
        assert want in lacks(copy), (want, lacks(copy))
        shutil.rmtree(copy)
    os.makedirs(f"{scratch}/plain")
    shutil.copy(f"{made}/{stem}_eeg.edf", f"{scratch}/plain/night.edf")
    named = "night.edf: expected the name sub-night/eeg/sub-night_task-szMonitoring_eeg.edf"
    assert sorted(lacks(f"{scratch}/plain")) == sorted(["README: missing", "dataset_description.json: missing", named]), lacks(f"{scratch}/plain")


def check_detect(d, made):
    """Recordings of any name become a dataset: runs of a patient, a recording with a gap, one that is there already."""
    source, out = f"{d.dir}/loose", f"{d.dir}/dataset"
    os.makedirs(f"{source}/b")
    one, two = sorted(glob.glob(f"{made}/**/*_eeg.edf", recursive=True))
    shutil.copy(one, f"{source}/chb01_03.edf")
    discontinuous(two, f"{source}/chb01_04.edf")
    shutil.copy(one, f"{source}/b/sub-x7_task-sleep_acq-ward_run-3_eeg.edf")
    for _ in range(2):  # once more into the same folder: the same dataset
        code, text, err = d.ctl("detect", source, "--model", "line_length", "--out", out, "--bids", "--mains", "50")
        assert code == 0, (text, err)
        names = [os.path.relpath(p, out) for p in check_rules(out, 50, gap_s=12)]
        assert names == ["sub-chb01/eeg/sub-chb01_task-szMonitoring_run-01_eeg.edf", "sub-chb01/eeg/sub-chb01_task-szMonitoring_run-02_eeg.edf",
                         "sub-x7/eeg/sub-x7_task-sleep_acq-ward_run-3_eeg.edf"], names
    with open(f"{out}/{names[1]}", "rb") as f, open(f"{source}/chb01_04.edf", "rb") as g:
        assert f.read() == g.read()
    assert lacks(out) == [] and validate(out)[0] == []
    os.rename(f"{source}/chb01_04.edf", f"{source}/chb01_02.edf")  # the runs would change places
    code, text, err = d.ctl("detect", source, "--model", "line_length", "--out", out, "--bids")
    assert code == 1 and "is another recording than" in err, (text, err)
    code, text, err = d.ctl("detect", source, "--model", "line_length", "--out", out, "--bids", "--format", "edf+")
    assert code == 2 and "--bids" in err, (text, err)


def main():
    with temporary() as scratch:
        made = check_edfgen(scratch)
        check_lacks(made, scratch)
        d = Daemon(scratch).start()
        check_detect(d, made)
        assert d.stop() == 0
    print("ok")


if __name__ == "__main__":
    main()
