#!/usr/bin/env python3
"""edfgen: the same seed gives the same bytes, other seeds others; seizures keep their distances and lengths; the labels are valid and
agree with the signal files; the amplitude of seizures overlaps the background's."""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
import baseline_bandpower as baseline

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import edfgen_spectra as spectra

EDFGEN = os.path.join(os.environ.get("BRR_BIN", "build/bin"), "edfgen")
REFERENTIAL = [f"EEG {n}-REF" for n in "Fp1 F3 C3 P3 F7 T3 T5 O1 Fz Cz Pz Fp2 F4 C4 P4 F8 T4 T6 O2".split()]
BIPOLAR = ("Fp1-F7 F7-T3 T3-T5 T5-O1 Fp1-F3 F3-C3 C3-P3 P3-O1 Fp2-F4 F4-C4 C4-P4 P4-O2 Fp2-F8 F8-T4 T4-T6 T6-O2 Fz-Cz Cz-Pz").split()


def generate(out, patients=1, hours="0.5", seizures=3, seed=1, *more):
    return subprocess.run([EDFGEN, "--out", out, "--patients", str(patients), "--hours-per-patient", str(hours),
                           "--seizures-per-patient", str(seizures), "--seed", str(seed), *more], capture_output=True, text=True)


def hashes(folder):
    found = {}
    for where, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(where, name)
            found[os.path.relpath(path, folder)] = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    return found


def header(path):
    raw = pathlib.Path(path).read_bytes()[:256 * 25]
    ns = int(raw[252:256])
    labels = [raw[256 + 16 * i:272 + 16 * i].decode().strip() for i in range(ns)]
    return {"records": int(raw[236:244]), "record_s": float(raw[244:252]), "reserved": raw[192:236].decode().strip(), "labels": labels,
            "start": raw[168:184].decode(), "bytes": int(raw[184:192]), "ns": ns}


class Edfgen(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="brr-edfgen-")
        self.addCleanup(self.dir.cleanup)

    def out(self, name):
        return os.path.join(self.dir.name, name)

    def test_same_seed_same_bytes_and_other_seeds_other_bytes(self):
        for name, seed in (("a", 7), ("b", 7), ("c", 8)):
            self.assertEqual(generate(self.out(name), 2, "0.2", 1, seed).returncode, 0)
        a, b, c = (hashes(self.out(n)) for n in "abc")
        self.assertEqual(sorted(a), [f"sub-0{p}/sub-0{p}_run-01_{k}" for p in (1, 2) for k in ("eeg.edf", "events.tsv")])
        self.assertEqual(a, b)
        self.assertEqual(sorted(a), sorted(c))
        self.assertFalse(set(a.values()) & set(c.values()))
        self.assertEqual(len(set(a.values())), 4, "patients differ")

    def test_patients_do_not_depend_on_how_many_there_are(self):
        generate(self.out("one"), 1, "0.2", 1, 5)
        generate(self.out("two"), 2, "0.2", 1, 5)
        one, two = hashes(self.out("one")), hashes(self.out("two"))
        self.assertEqual(one, {k: v for k, v in two.items() if k in one})

    def test_hours_are_exact_and_runs_are_numbered(self):
        self.assertEqual(generate(self.out("h"), 1, "2.25", 6, 3).returncode, 0)
        folder = self.out("h/sub-01")
        self.assertEqual(sorted(os.listdir(folder)), [f"sub-01_run-0{r}_{k}" for r in (1, 2, 3) for k in ("eeg.edf", "events.tsv")])
        heads = [header(f"{folder}/sub-01_run-0{r}_eeg.edf") for r in (1, 2, 3)]
        self.assertEqual([h["records"] * h["record_s"] for h in heads], [3600, 3600, 900])
        self.assertEqual([h["start"] for h in heads], [f"01.01.30{h:02d}.00.00" for h in (8, 9, 10)])
        for r, h in zip((1, 2, 3), heads):
            self.assertEqual(os.path.getsize(f"{folder}/sub-01_run-0{r}_eeg.edf"), h["bytes"] + h["records"] * 2 * (19 * 256 + 16))

    def test_seizures_keep_their_distances_and_lengths(self):
        self.assertEqual(generate(self.out("s"), 3, "1.5", 14, 11).returncode, 0)
        for p in (1, 2, 3):
            total = 0
            for r, length in ((1, 3600), (2, 1800)):
                events = baseline.read_events(self.out(f"s/sub-0{p}/sub-0{p}_run-0{r}_events.tsv"))
                total += len(events)
                for start, end in events:
                    self.assertGreaterEqual(start, 30)
                    self.assertLessEqual(end, length - 30)
                    self.assertTrue(15 <= end - start <= 90)
                for (_, end), (start, _) in zip(events, events[1:]):
                    self.assertGreaterEqual(start - end, 120)
            self.assertEqual(total, 14)

    def test_events_tsv_is_valid_with_and_without_seizures(self):
        generate(self.out("t"), 1, "0.1", 0, 2, "--labels", "csv_bi")
        folder = self.out("t/sub-01")
        text = pathlib.Path(f"{folder}/sub-01_run-01_events.tsv").read_text()
        self.assertEqual(text, "onset\tduration\teventType\tconfidence\tchannels\tdateTime\trecordingDuration\ttrial_type\n"
                               "0.00\t360.00\tbckg\tn/a\tn/a\t2030-01-01 08:00:00\t360.00\tbckg\n")
        self.assertIn("TERM,0.0000,360.0000,bckg,1.0000", pathlib.Path(f"{folder}/sub-01_run-01_eeg.csv_bi").read_text())
        generate(self.out("u"), 1, "0.2", 1, 2, "--labels", "csv_bi")
        rows = [line.split("\t") for line in pathlib.Path(self.out("u/sub-01/sub-01_run-01_events.tsv")).read_text().splitlines()]
        self.assertEqual(len(rows), 2)
        self.assertEqual(rows[1][2:6], ["sz", "n/a", "n/a", "2030-01-01 08:00:00"])
        onset, duration = float(rows[1][0]), float(rows[1][1])
        bi = pathlib.Path(self.out("u/sub-01/sub-01_run-01_eeg.csv_bi")).read_text().splitlines()[-1].split(",")
        self.assertEqual((bi[0], bi[3]), ("TERM", "seiz"))
        self.assertAlmostEqual(float(bi[1]), onset, delta=0.011)
        self.assertAlmostEqual(float(bi[2]), onset + duration, delta=0.011)

    def test_montages_and_record_layout(self):
        generate(self.out("r"), 1, "0.05", 0, 4)
        generate(self.out("b"), 1, "0.05", 0, 4, "--montage", "bipolar")
        paths = [self.out(f"{m}/sub-01/sub-01_run-01_eeg.edf") for m in "rb"]
        heads = [header(p) for p in paths]
        self.assertEqual(heads[0]["labels"], REFERENTIAL + ["EDF Annotations"])
        self.assertEqual(heads[1]["labels"], BIPOLAR + ["EDF Annotations"])
        self.assertEqual({h["reserved"] for h in heads}, {"EDF+C"})
        referential, rate = baseline.read_edf(paths[0])
        bipolar, _ = baseline.read_edf(paths[1])
        self.assertEqual((rate, referential.shape, bipolar.shape), (256, (19, 180 * 256), (18, 180 * 256)))
        where = {n[4:-4]: i for i, n in enumerate(REFERENTIAL)}
        for i, pair in enumerate(BIPOLAR):
            a, b = (where[n] for n in pair.split("-"))
            self.assertLess(np.abs(referential[a] - referential[b] - bipolar[i]).max(), 0.16)

    def test_burst_suppression_alternates_and_is_no_seizure(self):
        arguments = ("--burst-suppression", "0.8", "--labels", "csv_bi")
        for name, seed in (("a", 5), ("b", 5), ("c", 6)):
            self.assertEqual(generate(self.out(name), 2, "1.1", 0, seed, *arguments).returncode, 0)
        a, b, c = (hashes(self.out(n)) for n in "abc")
        self.assertEqual(a, b)
        self.assertFalse({a[k] for k in a if k.endswith(("edf", "tsv"))} & {c[k] for k in c if k.endswith(("edf", "tsv"))})
        suppressed = total = 0
        for r, length in ((1, 3600), (2, 360)):
            stem = self.out(f"a/sub-01/sub-01_run-0{r}_")
            rows = [line.split("\t") for line in pathlib.Path(stem + "events.tsv").read_text().splitlines()[1:]]
            self.assertEqual({row[2] for row in rows}, {"suppression"})
            self.assertEqual(baseline.read_events(stem + "events.tsv"), [])
            self.assertIn("bckg", pathlib.Path(stem + "eeg.csv_bi").read_text())
            spans = [(float(row[0]), float(row[0]) + float(row[1])) for row in rows]
            self.assertEqual((spans[0][0], spans[-1][1]), (0, length))
            for (_, end), (start, _) in zip(spans, spans[1:]):
                self.assertTrue(1.18 <= start - end <= 3.02)
            for start, end in spans[1:-1]:
                self.assertTrue(4.18 <= end - start <= 12.62)  # 2.1 s · 0.8 / 0.2, times 0.5 to 1.5
            suppressed += sum(b - a for a, b in spans)
            total += length
            signals, rate = baseline.read_edf(stem + "eeg.edf")
            inside, outside = np.zeros(length * int(rate), bool), np.zeros(length * int(rate), bool)
            for (_, end), (start, _) in zip(spans, spans[1:]):
                inside[int((end + 0.3) * rate):int((start - 0.3) * rate)] = True
            for start, end in spans:
                outside[int((start + 0.1) * rate):int((end - 0.1) * rate)] = True
            for channel in signals:
                self.assertLess(channel[outside].std(), 2.5)
                self.assertGreater(channel[inside].std(), 10)
        # About 376 pairs of a burst and a suppression, each with a standard deviation of a quarter of its length.
        self.assertAlmostEqual(suppressed / total, 0.8, delta=0.02)

    def test_seizure_amplitude_overlaps_the_background(self):
        generate(self.out("m"), 2, 1, 10, 21)
        inside, outside = [], []
        for p in (1, 2):
            signals, rate = baseline.read_edf(self.out(f"m/sub-0{p}/sub-0{p}_run-01_eeg.edf"))
            rms = np.sqrt((signals.reshape(19, -1, int(rate) * 10) ** 2).mean(axis=2)).mean(axis=0)
            rms /= np.median(rms)
            ictal = np.zeros(len(rms), bool)
            for start, end in baseline.read_events(self.out(f"m/sub-0{p}/sub-0{p}_run-01_events.tsv")):
                ictal[int(start // 10):int(end // 10) + 1] = True
            inside += list(rms[ictal])
            outside += list(rms[~ictal])
        self.assertLess(np.median(inside), np.quantile(outside, 0.97))
        self.assertGreater(np.median(inside), np.quantile(outside, 0.3))

    def test_rich_patients_differ_in_reference_and_mains(self):
        for name in "ab":
            self.assertEqual(generate(self.out(name), 8, "0.05", 0, 3, "--style", "rich").returncode, 0)
        self.assertEqual(hashes(self.out("a")), hashes(self.out("b")))
        self.assertEqual(generate(self.out("simple"), 8, "0.05", 0, 3, "--style", "simple").returncode, 0)
        rich, simple = ({h for k, h in hashes(self.out(name)).items() if k.endswith("edf")} for name in ("a", "simple"))
        self.assertFalse(rich & simple)
        mains, averages = [], []
        for p in range(1, 9):
            signals, rate = baseline.read_edf(self.out(f"a/sub-{p:02}/sub-{p:02}_run-01_eeg.edf"))
            spectrum = (np.abs(np.fft.rfft(signals, axis=1)) ** 2).sum(axis=0)
            hz = np.fft.rfftfreq(signals.shape[1], 1 / rate)
            at = [spectrum[np.abs(hz - f) < 0.1].max() for f in (50, 60)]
            mains.append(at[0] > at[1])
            averages.append(np.abs(signals.mean(axis=0)).max() < 0.1)
        self.assertEqual(set(mains), {True, False})
        self.assertEqual(set(averages), {True, False}, "some are referred to the common average")

    def test_rich_seizures_grow_and_slow_down(self):
        self.assertEqual(generate(self.out("r"), 3, 1, 10, 21, "--style", "rich").returncode, 0)
        growth, slowing = [], []
        for p in (1, 2, 3):
            stem = self.out(f"r/sub-0{p}/sub-0{p}_run-01_")
            signals, rate = baseline.read_edf(stem + "eeg.edf")
            hz = np.fft.rfftfreq(int(5 * rate), 1 / rate)
            band = (hz >= 1.8) & (hz < 12)
            for start, end in baseline.read_events(stem + "events.tsv"):
                # in the channel where the seizure is strongest: 5 s at its beginning, in the middle, and before it fades
                whole = signals[:, int(start * rate):int(end * rate)]
                channel = whole[np.argmax(whole.std(axis=1))]
                n, width = len(channel), int(5 * rate)
                spectra = [np.abs(np.fft.rfft(channel[at:at + width] * np.hanning(width))) ** 2 for at in (0, n // 2, n - int(6.5 * rate))]
                first, middle, last = (s[band] for s in spectra)
                growth.append(last.sum() / first.sum())
                slowing.append(hz[band][middle.argmax()] - hz[band][last.argmax()])  # the beginning is too faint for a frequency
        self.assertEqual(len(growth), 30)
        self.assertGreater(np.median(growth), 1)
        self.assertGreater(np.median(slowing), 0, "Hz")

    def test_the_background_of_people_is_as_measured(self):
        """Quieter and steeper than that of rich patients, as tools/edfgen_spectra.py fits both."""
        fits = {}
        for style in ("people", "rich"):
            self.assertEqual(generate(self.out(style), 3, "0.05", 0, 3, "--style", style).returncode, 0)
            fits[style] = np.mean([spectra.fitted(self.out(f"{style}/sub-0{p}/sub-0{p}_run-01_eeg.edf")).x for p in (1, 2, 3)], axis=0)
        self.assertTrue(2.2 < fits["people"][0] < fits["rich"][0] - 0.3, fits)  # ln µV; 2.32 in people awake, and more in sleep
        self.assertTrue(fits["rich"][1] + 0.1 < fits["people"][1] < 0.95, fits)  # slope

    def test_wide_seizures_are_of_all_kinds(self):
        for name in "ab":
            self.assertEqual(generate(self.out(name), 4, "0.5", 5, 31, "--style", "wide").returncode, 0)
        self.assertEqual(hashes(self.out("a")), hashes(self.out("b")))
        louder, fastest = [], []
        for p in (1, 2, 3, 4):
            stem = self.out(f"a/sub-0{p}/sub-0{p}_run-01_")
            signals, rate = baseline.read_edf(stem + "eeg.edf")
            for start, end in baseline.read_events(stem + "events.tsv"):
                before, inside = (signals[:, int(a * rate):int(b * rate)] for a, b in ((start - 20, start), (start, end)))
                louder.append(np.median(inside.std(axis=1)) / np.median(before.std(axis=1)))
                first = inside[inside.std(axis=1).argmax()][:int(4 * rate)]
                hz = np.fft.rfftfreq(len(first), 1 / rate)
                spectrum = np.where((hz >= 1) & (hz < 30), np.abs(np.fft.rfft(first * np.hanning(len(first)))) ** 2, 0)
                fastest.append(hz[spectrum.argmax()])
        self.assertEqual(len(louder), 20)
        self.assertTrue(min(louder) < 1.3 < 3 < max(louder), louder)
        self.assertTrue(min(fastest) < 4 < 8 < max(fastest), fastest)

    def test_patterns_of_intensive_care_begin_at_once_and_are_no_seizures(self):
        def rhythm(x, rate):
            """The second peak of the autocorrelation, within 2.1 s."""
            power = np.abs(np.fft.rfft(x - x.mean(), 2 * len(x))) ** 2
            hz = np.fft.rfftfreq(2 * len(x), 1 / rate)
            a = np.fft.irfft(np.where((hz > 0.4) & (hz < 25), power, 0))[:int(2.1 * rate)]
            return a[max(np.argmax(a < 0), int(0.2 * rate)):].max() / a[0]

        rhythmic = {"icu": [], "wide": []}  # of the most rhythmic channel in the first 8 s
        for style, found in rhythmic.items():
            self.assertEqual(generate(self.out(style), 12, "0.02", 0, 7, "--style", style).returncode, 0)
            for p in range(1, 13):
                stem = self.out(f"{style}/sub-{p:02d}/sub-{p:02d}_run-01_")
                signals, rate = baseline.read_edf(stem + "eeg.edf")
                self.assertEqual(baseline.read_events(stem + "events.tsv"), [])
                found.append(max(rhythm(x[:int(8 * rate)], rate) for x in signals))
        self.assertGreater(np.median(rhythmic["icu"]), np.median(rhythmic["wide"]))
        self.assertGreater(max(rhythmic["icu"]), 0.75)

    def test_what_does_not_fit_or_make_sense_is_refused(self):
        crowded = generate(self.out("x"), 1, "0.1", 50, 1)
        self.assertEqual(crowded.returncode, 1)
        self.assertIn("do not fit", crowded.stderr)
        for arguments in (["--patients", "0"], ["--montage", "circular"], ["--labels", "xml"], ["--style", "poor"], ["--seed", "-1"], ["--unknown"], ["extra"],
                          ["--burst-suppression", "0.4"], ["--burst-suppression", "1"], ["--burst-suppression", "0.8", "--seizures-per-patient", "1"]):
            wrong = generate(self.out("y"), 1, "0.1", 0, 1, *arguments)
            self.assertEqual(wrong.returncode, 2, arguments)
            self.assertTrue(wrong.stderr)
        self.assertEqual(subprocess.run([EDFGEN, "--out", self.out("z")], capture_output=True).returncode, 2)
        self.assertFalse(os.path.exists(self.out("z")))

    def test_the_last_line_says_what_was_made(self):
        made = generate(self.out("made"), 2, "1.01", 1)
        self.assertEqual((made.returncode, made.stdout), (0, ""), made)
        self.assertEqual(made.stderr, f"edfgen: 4 recordings of 2 patients, 2.02 hours, 2 seizures in {self.out('made')}\n")


if __name__ == "__main__":
    unittest.main()
