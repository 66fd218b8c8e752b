#!/usr/bin/env python3
"""`brrctl score` over folders of events TSV equals the second implementation: pairing, ignored rows, and what counts as empty."""
import json
import math
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import szcore_reference

HEADER = "onset\tduration\teventType\tconfidence\tchannels\tdateTime\trecordingDuration\n"
DATE = "2016-11-06 13:43:04"


def write(path, events, duration, extra=""):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(HEADER)
        for onset, length in events:
            kind = "sz_foc_ia_nm" if int(onset) % 2 else "sz"
            out.write(f"{onset:.2f}\t{length:.2f}\t{kind}\tn/a\tn/a\t{DATE}\t{duration:.2f}\n")
        out.write(extra)
        if not events:
            out.write(f"0.00\t{duration:.2f}\tbckg\tn/a\tn/a\t{DATE}\t{duration:.2f}\n")


def random_events(rng, duration):
    events, at = [], rng.uniform(0, 300)
    while at < duration - 100:
        length = round(rng.uniform(1, 90), 2)
        events.append((round(at, 2), length))
        at += length + rng.choice([10, 89, 91, rng.uniform(100, 1500)])
    return events


def main():
    brrctl = os.path.join(os.environ["BRR_BIN"], "brrctl")
    rng = random.Random(20260116)
    recordings = []
    with tempfile.TemporaryDirectory() as folder:
        ref_dir, hyp_dir = os.path.join(folder, "ref"), os.path.join(folder, "hyp")
        for i in range(24):
            subject, duration = f"sub-{i % 5 + 1:02d}", round(rng.uniform(600, 7200), 2)
            name = f"{subject}/ses-01/eeg/{subject}_ses-01_task-szMonitoring_run-{i:02d}_events.tsv"
            ref, hyp = random_events(rng, duration), random_events(rng, duration)
            if i % 3 == 0:
                hyp = [(max(0, a + rng.randrange(-40, 40)), b) for a, b in ref if rng.random() < 0.7]
            if i in (0, 10):
                ref = []
            extra = f"5.00\t50.00\timpd\tn/a\tn/a\t{DATE}\t{duration:.2f}\n" if i % 4 == 0 else ""
            write(os.path.join(ref_dir, name), ref, duration, extra)
            if i == 5:
                hyp = []  # missing: no event
            elif i == 6:  # another length: no event
                write(os.path.join(hyp_dir, name), hyp, duration + 2)
                hyp = []
            elif i == 7:  # unreadable: no event
                os.makedirs(os.path.dirname(os.path.join(hyp_dir, name)), exist_ok=True)
                with open(os.path.join(hyp_dir, name), "wb") as out:
                    out.write(b"\x00\x01 not a table")
                hyp = []
            elif i == 8:  # found by its name
                write(os.path.join(hyp_dir, os.path.basename(name)), hyp, duration)
            else:
                write(os.path.join(hyp_dir, name), hyp, duration)
            spans = [[(a, a + b) for a, b in events] for events in (ref, hyp)]
            recordings.append({"name": name, "subject": subject, "duration": duration, "ref": spans[0], "hyp": spans[1]})
        for directory in (ref_dir, hyp_dir):  # a name that ends behind the patient, who has another recording
            with open(os.path.join(directory, "sub-05.csv_bi"), "w", encoding="utf-8") as out:
                out.write("# version = csv_v1.0.0\n# duration = 600.00 secs\nchannel,start_time,stop_time,label,confidence\n"
                          "TERM,100.0,160.0,seiz,1.0\n")
        recordings.append({"name": "sub-05.csv_bi", "subject": "sub-05", "duration": 600, "ref": [(100, 160)], "hyp": [(100, 160)]})
        with open(os.path.join(ref_dir, "participants.tsv"), "w", encoding="utf-8") as out:
            out.write("participant_id\tage\nsub-01\t30\n")
        endless = os.path.join(folder, "endless_events.tsv")
        write(endless, [], 600, f"100.00\tn/a\tsz\tn/a\tn/a\t{DATE}\t600.00\n")
        refused = subprocess.run([brrctl, "score", endless, endless], capture_output=True, text=True, check=False)
        assert refused.returncode == 1 and "the event sz at 100.00 s has no duration" in refused.stderr, refused
        unsure = os.path.join(folder, "unsure_events.tsv")
        write(unsure, [], 600, f"0.00\t600.00\tunknown\tn/a\tn/a\t{DATE}\t600.00\n")
        none = subprocess.run([brrctl, "score", unsure, unsure], capture_output=True, text=True, check=False)
        assert none.returncode == 0 and "nan" not in none.stdout and none.stdout.splitlines()[2].split()[:5] == ["event", "-", "-", "-", "-"], none
        done = subprocess.run([brrctl, "score", ref_dir, hyp_dir, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 1:  # some hypotheses cannot be used
        sys.exit(f"brrctl score ended with {done.returncode}: {done.stderr}")
    got, want = json.loads(done.stdout), szcore_reference.evaluate(recordings)
    assert sorted(got["per_subject"]) == sorted(want["per_subject"])
    for part in ("pooled", "subject_mean"):
        compare(part, want[part], got[part])
    for subject, value in want["per_subject"].items():
        compare(subject, value, got["per_subject"][subject])
    for reason in ("run-06", "run-07"):
        assert reason in done.stderr, f"nothing was said about {reason}: {done.stderr}"
    print("brrctl score equals the reference:", json.dumps(got["pooled"]["event"]))


def compare(path, want, got):
    for kind, values in want.items():
        for key, value in values.items():
            other = got[kind][key]
            same = other is None if math.isnan(value) else other is not None and abs(value - other) < 1e-9 * max(1, abs(value))
            assert same, f"{path}.{kind}.{key}: {other}, expected {value}"


main()
