#!/usr/bin/env python3
"""Burst suppression: synthetic recordings with truth through the front end and the detector. The detector equals a second implementation
in float64 on the same filtered rows, and finds each suppression and burst of the truth within the bounds of method and filter."""
import math
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import seed as seeds

BIN = os.environ.get("BRR_BIN", "build/bin")
DRIVER = os.path.join(os.environ.get("BRR_BUILD_DIR", "build"), "tests", "suppression_driver")
RATE, SHORT, THRESHOLD, FORGET_S = 256, 128, 12.5, 0.1047
# A burst rises within this time (edfgen), plus the samples until the variance follows.
RISE_S = 0.1 + 0.05


def runs(values):
    """(first, end, value) of equal neighbours."""
    edges = np.concatenate([[0], np.nonzero(np.diff(values))[0] + 1, [len(values)]])
    return [(int(a), int(b), values[a]) for a, b in zip(edges, edges[1:])]


def reference(rows):
    """Suppressions and starts of bursts of a recording without gaps."""
    keep = math.exp(-1 / (FORGET_S * RATE))
    mean, variance = rows[0].astype(np.float64), np.zeros(rows.shape[1])
    active = np.empty(len(rows), np.int64)
    for t, row in enumerate(rows.astype(np.float64)):
        mean = keep * mean + (1 - keep) * row
        variance = keep * variance + (1 - keep) * (row - mean) ** 2
        active[t] = (variance >= THRESHOLD).sum()
    on = active * 10 >= 6 * rows.shape[1]
    suppressions = [(a, b) for a, b, v in runs(on) if not v and b - a >= SHORT]
    starts = []
    for i, (_, end) in enumerate(suppressions):
        until = suppressions[i + 1][0] if i + 1 < len(suppressions) else len(on) - int(np.argmax(on[::-1]))
        if end < len(on) and until - end >= SHORT:
            starts.append(end)
    return suppressions, starts


class Suppression(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="brr-suppression-")
        self.addCleanup(self.dir.cleanup)

    def detect(self, ratio, montage, seed):
        out = os.path.join(self.dir.name, f"{ratio}-{montage}")
        subprocess.run([os.path.join(BIN, "edfgen"), "--out", out, "--patients", "1", "--hours-per-patient", "0.15", "--seed", str(seed),
                        "--seizures-per-patient", "0", "--montage", montage, "--burst-suppression", str(ratio)], check=True)
        stem = os.path.join(out, "sub-01", "sub-01_run-01_")
        with open(stem + "events.tsv", encoding="utf-8") as f:
            table = [line.split("\t") for line in f.read().splitlines()[1:]]
        truth = [(float(r[0]) * RATE, (float(r[0]) + float(r[1])) * RATE) for r in table if r[2] == "suppression"]
        channels = {"referential": 19, "bipolar": 18}[montage]
        done = subprocess.run([DRIVER, stem + "eeg.edf", f"{montage}-{channels}", stem + "rows"], check=True, capture_output=True, text=True)
        lines = [line.split() for line in done.stdout.splitlines()]
        rows = np.fromfile(stem + "rows", "<f4").reshape(-1, channels)
        return truth, rows, {kind: [tuple(float(v) for v in line[1:]) for line in lines if line[0] == kind]
                             for kind in ("report", "segment", "totals")}

    def check_reference(self, rows, found):
        suppressions, starts = reference(rows)
        self.assertEqual(found["segment"], suppressions)
        label = np.zeros(len(rows), np.int64)
        for a, b in suppressions:
            label[a:b] = 1
        began = np.zeros(len(rows), np.int64)
        began[starts] = 1
        self.assertEqual(found["totals"], [(len(rows), label.sum(), began.sum())])
        self.assertEqual([r[0] for r in found["report"]], list(range(RATE, len(rows) + 1, RATE)))
        for sample, observed, ratio, bursts in found["report"]:
            window = slice(max(0, int(sample) - 60 * RATE), int(sample))
            self.assertEqual(observed, label[window].size)
            self.assertAlmostEqual(ratio, label[window].mean(), delta=1e-6)
            self.assertAlmostEqual(bursts, began[window].sum() * 60 * RATE / observed, delta=1e-5 * max(1, bursts))

    def check_truth(self, truth, rows, found):
        # After a burst of peak p the recursion forgets with 0.1047 s; the 0.5 Hz high-pass (Butterworth, order 3, slowest pole at π·0.5
        # per second) rings on, of which the recursion passes at most |sτ / (1 + sτ)| = 0.36 for |s| = π; its square fades in 0.318 s,
        # summed over the recursion's memory 1 / (1 − 0.1047/0.318) = 1.5 times. Each may leave a third of the threshold.
        p = float(np.abs(rows).max())
        third = THRESHOLD / 3
        late_s = max(FORGET_S * math.log(4 * p * p / third), 0.318 * math.log(1.5 * (0.36 * p) ** 2 / third))
        fall_s = 0.2
        segments = found["segment"]
        self.assertEqual(len(segments), len(truth))
        for (first, end), (a, b) in zip(segments, truth):
            # Rows of the labels are rounded to 0.01 s.
            self.assertTrue(a == 0 or -fall_s - 0.01 <= (first - a) / RATE <= late_s + 0.01, (first, a, late_s))
            self.assertTrue(b == len(rows) or -0.01 <= (end - b) / RATE <= RISE_S + 0.01, (end, b))
        minutes = len(rows) / RATE / 60
        observed, suppressed, bursts = found["totals"][0]
        true_ratio = sum(b - a for a, b in truth) / len(rows)
        self.assertLessEqual(suppressed / observed, true_ratio + bursts * (RISE_S + fall_s) / (60 * minutes))
        self.assertGreaterEqual(suppressed / observed, true_ratio - bursts * late_s / (60 * minutes))
        self.assertEqual(bursts, len(truth) - 1)
        for sample, _, ratio, rate in found["report"][60:]:
            low, high = sample - 60 * RATE, sample
            began = sum(low < b <= high and b < len(rows) for _, b in truth)
            self.assertLessEqual(abs(rate - began), 1)  # one at either edge of the minute, never both: they move the same way
            share = sum(max(0, min(b, high) - max(a, low)) for a, b in truth) / (60 * RATE)
            # A fading burst before the minute counts as well.
            self.assertTrue(share - (began + 1) * late_s / 60 - 1e-6 <= ratio <= share + (began + 1) * (RISE_S + fall_s) / 60 + 1e-6)

    def test_detector_finds_the_truth_as_the_reference_does(self):
        for i, (ratio, montage) in enumerate(((0.8, "referential"), (0.9, "bipolar"), (0.85, "bipolar"))):
            with self.subTest(ratio=ratio, montage=montage):
                truth, rows, found = self.detect(ratio, montage, seeds.test_seed() + i)
                self.assertGreater(len(truth), 10)
                self.check_reference(rows, found)
                self.check_truth(truth, rows, found)


if __name__ == "__main__":
    unittest.main()
