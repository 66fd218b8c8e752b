#!/usr/bin/env python3
"""The C scores equal a second implementation of the published definitions on random annotations. BRR_TEST_SEED repeats a run."""
import json
import math
import os
import random
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import szcore_reference  # noqa: E402
from seed import test_seed  # noqa: E402

DATA_SETS = 400


def random_events(rng, duration, dense):
    """Not overlapping, in random order; onsets and lengths on a coarse or a fine grid, so that exact boundaries occur."""
    events, at = [], rng.uniform(0, 200)
    step = rng.choice([1, 0.5, 0.01])
    while at < duration:
        length = rng.choice([0.3, 2, 10, 40, 89, 90, 299, 300, 301, 700]) * rng.choice([1, 1, rng.uniform(0.2, 1.5)])
        onset, end = round(at / step) * step, min(round((at + length) / step) * step, duration)
        if end >= onset and (not events or onset >= events[-1][1]):
            events.append((onset, end))
        at = end + rng.choice([1, 20, 30, 60, 89, 90, 91, rng.uniform(0, 100)]) * (1 if dense else rng.uniform(1, 20)) + 0.01
    rng.shuffle(events)
    return events


def disturbed(rng, events, duration):
    """A hypothesis near the reference: moved, stretched, dropped, and some invented."""
    out = []
    for onset, end in sorted(events):
        if rng.random() < 0.25:
            continue
        a = max(0, onset + rng.choice([0, -30, -31, 5, rng.uniform(-60, 60)]))
        b = min(duration, end + rng.choice([0, 30, 60, 61, rng.uniform(-40, 200)]))
        if b > a:
            out.append((a, b))
    return out + random_events(rng, duration, False)[:rng.randrange(3)]


def random_data_set(rng):
    recordings = []
    for i in range(rng.randrange(1, 7)):
        duration = rng.choice([600, 3600, 3600.5, 7200.25, rng.uniform(60, 20000)])
        ref = random_events(rng, duration, rng.random() < 0.3) if rng.random() < 0.8 else []
        hyp = disturbed(rng, ref, duration) if rng.random() < 0.6 else random_events(rng, duration, rng.random() < 0.3)
        recordings.append({"name": f"r{i}", "subject": f"sub-{rng.randrange(4):02d}", "duration": duration, "ref": ref, "hyp": hyp})
    return recordings


def as_text(data_sets):
    for recordings in data_sets:
        for rec in recordings:
            yield f"recording\t{rec['name']}\t{rec['subject']}\t{rec['duration']!r}"
            for kind in ("ref", "hyp"):
                for onset, end in rec[kind]:
                    yield f"{kind}\t{onset!r}\t{end!r}"
        yield "end"


def differences(path, want, got):
    if isinstance(want, dict):
        for key, value in want.items():
            yield from differences(f"{path}.{key}", value, got.get(key, "missing")) if isinstance(got, dict) else [f"{path}: {got}"]
    elif got == "missing" or (math.isnan(want) != (got is None)) or (got is not None and abs(want - got) > 1e-9 * max(1, abs(want))):
        yield f"{path}: {got}, expected {want}"


def main():
    seed = test_seed()
    rng = random.Random(seed)
    data_sets = [random_data_set(rng) for _ in range(DATA_SETS)]
    driver = os.path.join(os.environ["BRR_BUILD_DIR"], "tests", "score_driver")
    done = subprocess.run([driver], input="\n".join(as_text(data_sets)) + "\n", capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"seed {seed}: {driver} ended with {done.returncode}: {done.stderr}")
    lines = done.stdout.splitlines()
    assert len(lines) == DATA_SETS, f"{len(lines)} results for {DATA_SETS} data sets"
    defined = dict.fromkeys(szcore_reference.KINDS, 0)
    for i, (recordings, line) in enumerate(zip(data_sets, lines)):
        want, got = szcore_reference.evaluate(recordings), json.loads(line)
        wrong = list(differences("", want, got))
        if wrong:
            print(json.dumps(recordings))
            sys.exit(f"seed {seed}, data set {i}:\n" + "\n".join(wrong[:20]))
        for kind in defined:
            defined[kind] += 0 < want["pooled"][kind]["tp"] and 0 < want["pooled"][kind]["fp"]
    assert min(defined.values()) > DATA_SETS / 4, f"seed {seed}: too few data sets with hits and false alarms: {defined}"
    print(f"{DATA_SETS} data sets equal (seed {seed}); with hits and false alarms: {defined}")


main()
