#!/usr/bin/env python3
"""The band-power baseline counts events as SzCORE does, finds seizures that power alone gives away, and fails on edfgen's corpora."""
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import baseline_bandpower as baseline

EDFGEN = os.path.join(os.environ.get("BRR_BIN", "build/bin"), "edfgen")


def mask(seconds, *runs):
    values = np.zeros(seconds, bool)
    for a, b in runs:
        values[a:b] = True
    return values


class Baseline(unittest.TestCase):
    def counts(self, hyp, ref, seconds=2000):
        return list(baseline.count_events(mask(seconds, *hyp), ref))

    def test_events_are_counted_with_tolerance_merging_and_splitting(self):
        self.assertEqual(self.counts([(75, 76)], [(100, 150)]), [1, 0, 1], "30 s before the onset counts")
        self.assertEqual(self.counts([(69, 70)], [(100, 150)]), [0, 1, 1])
        self.assertEqual(self.counts([(209, 212)], [(100, 150)]), [1, 0, 1], "60 s after the end counts")
        self.assertEqual(self.counts([(210, 212)], [(100, 150)]), [0, 1, 1])
        self.assertEqual(self.counts([(500, 510), (599, 610)], []), [0, 1, 0], "a gap of 89 s is closed")
        self.assertEqual(self.counts([(500, 510), (600, 610)], []), [0, 2, 0], "one of 90 s is not")
        self.assertEqual(self.counts([(500, 1200)], []), [0, 3, 0], "300, 300 and 100 s")
        self.assertEqual(self.counts([], [(100, 150), (200, 220)]), [0, 0, 1], "reference events merge too")

    def test_short_detections_are_dropped(self):
        self.assertEqual(baseline.runs_of(baseline.drop_short(mask(100, (3, 5), (10, 20)), 6)), [(10, 20)])

    def test_all_thresholds_at_once_count_as_one_after_the_other(self):
        rng = np.random.default_rng(7)
        for _ in range(20):
            trace = baseline.smooth(rng.normal(0, 1, 2000), int(rng.choice([1, 5, 41])))
            starts = rng.integers(0, 1990, 4)
            ref = sorted((int(a), int(a + rng.integers(1, 400))) for a in starts)
            thresholds = np.unique(np.append(np.quantile(trace, [0, 0.3, 0.9, 0.99]), [trace.max(), trace.min() - 1]))
            counts = baseline.count_thresholds(trace, thresholds, ref)
            for t, of_threshold in zip(thresholds, counts):
                for minimum, found in zip(baseline.MINIMUM_S, of_threshold):
                    want = baseline.count_events(baseline.drop_short(trace > t, minimum), ref)
                    self.assertEqual(list(found), list(want), (t, minimum, ref))

    def test_power_bursts_are_found(self):
        rng = np.random.default_rng(1)
        signals = rng.normal(0, 10, (4, 256 * 120)).astype(np.float32)
        t = np.arange(256 * 120) / 256
        signals[:, 256 * 60:256 * 80] += (80 * np.sin(2 * np.pi * 5 * t))[256 * 60:256 * 80].astype(np.float32)
        powers = baseline.band_powers(signals, 256)
        inside, outside = powers["theta"][:, 62:78].min(), powers["theta"][:, :55].max()
        self.assertGreater(inside, 5 * outside)
        self.assertLess(powers["gamma"][:, 62:78].mean(), 2 * powers["gamma"][:, :55].mean())

    def check_power(self, *arguments):
        with tempfile.TemporaryDirectory(prefix="brr-baseline-") as folder:
            subprocess.run([EDFGEN, "--out", folder, *arguments], check=True)
            best = baseline.best_f1(folder)
        self.assertLessEqual(best["f1"], 0.6, (arguments, best))

    def test_edfgen_seizures_do_not_stand_out_in_band_power(self):
        self.check_power("--patients", "2", "--hours-per-patient", "4", "--seizures-per-patient", "5", "--seed", "31")

    def test_rich_seizures_do_not_stand_out_in_any_of_five_draws(self):
        for seed in range(41, 46):
            self.check_power("--style", "rich", "--patients", "2", "--hours-per-patient", "4", "--seizures-per-patient", "5", "--seed", str(seed))


if __name__ == "__main__":
    unittest.main()
