#!/usr/bin/env python3
"""Every file of the optional EEG folder read twice: by lib/formats/edf (test_edf --dump) and by the independent reader below. Samples, lengths,
rates, segments and annotations must agree; facts known about single files are checked besides."""
import fractions
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import numpy as np

SOURCE = os.environ.get("BRR_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
FOLDER = pathlib.Path(os.environ.get("BRR_EEG_DIR") or os.path.join(SOURCE, "..", "shared", "eeg"))
DUMP = os.path.join(os.environ.get("BRR_BUILD_DIR", os.path.join(SOURCE, "build")), "tests", "test_edf")
MALFORMED = {"malformed_shifted_header.edf", "prerau_0_01s_records.edf"}
UNITS = {"uv": 1.0, "\u00b5v": 1.0, "mv": 1e3, "v": 1e6, "nv": 1e-3}


def clean(raw):
    return raw.split(b"\0")[0].decode("latin-1").strip()


class Reference:
    """One file, straight from the format's description."""

    def __init__(self, path):
        raw = path.read_bytes()
        self.width = 3 if raw[0] == 255 else 2
        ns = int(clean(raw[252:256]))
        block = raw[256:256 * (ns + 1)]

        def column(offset, width):
            return [clean(block[offset * ns + i * width:offset * ns + (i + 1) * width]) for i in range(ns)]

        self.labels, self.units = column(0, 16), column(96, 8)
        self.limits = [column(offset, 8) for offset in (104, 112, 120, 128)]
        self.samples = [int(v) for v in column(216, 8)]
        self.duration = fractions.Fraction(clean(raw[244:252]))
        size = sum(self.samples) * self.width
        self.records = (len(raw) - 256 * (ns + 1)) // size
        declared = int(clean(raw[236:244]))
        self.discontinuous = clean(raw[192:236])[:5] in ("EDF+D", "BDF+D")
        body = np.frombuffer(raw, np.uint8, offset=256 * (ns + 1))[:self.records * size].reshape(self.records, size)
        starts = np.cumsum([0] + self.samples) * self.width
        self.bytes = [body[:, a:b] for a, b in zip(starts, starts[1:])]
        self.declared = declared

    def annotation_signals(self):
        return [i for i, label in enumerate(self.labels) if label in ("EDF Annotations", "BDF Annotations")]

    def values(self, i):
        low, high, digital_low, digital_high = (float(column[i]) for column in self.limits)
        raw = np.ascontiguousarray(self.bytes[i]).reshape(-1)
        if self.width == 2:
            digital = raw.view("<i2").astype(np.int64)
        else:
            triples = raw.reshape(-1, 3).astype(np.int64)
            digital = triples[:, 0] + (triples[:, 1] << 8) + (triples[:, 2] << 16)
            digital = np.where(digital >= 1 << 23, digital - (1 << 24), digital)
        factor = UNITS.get(self.units[i].lower(), 1.0)
        return ((digital - digital_low) * ((high - low) / (digital_high - digital_low)) + low) * factor

    def time_keepers(self):
        signals = self.annotation_signals()
        if not signals:
            return []
        found = []
        for record in self.bytes[signals[0]]:
            match = re.match(rb"([+-][\d.]+)\x14[\x14\0]", record.tobytes())
            found.append(float(match.group(1)) if match else None)
        return found

    def annotations(self):
        """(onset, text) of everything but time-keepers. A number behind the first text opens another list (no NUL between them)."""
        found = []
        for record in (r.tobytes() for i in self.annotation_signals() for r in self.bytes[i]):
            for tal in record.split(b"\0"):
                onset = None
                pieces = tal.split(b"\x14")
                for k, piece in enumerate(pieces):
                    match = re.fullmatch(rb"([+-]\d+(?:\.\d*)?)(?:\x15([\d.]*))?", piece)
                    if match and (onset is None or texts_before) and k + 1 < len(pieces):
                        onset, texts_before = float(match.group(1)), 0
                    elif onset is not None:
                        texts_before += 1
                        try:
                            text = piece.decode("utf-8").strip()
                        except UnicodeDecodeError:
                            text = piece.decode("latin-1").strip()
                        found += [(onset, text)] if text else []
        return found


def dump(path):
    return json.loads(subprocess.run([DUMP, "--dump", str(path)], capture_output=True, check=True).stdout)


class EdfValues(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = sorted(p for p in FOLDER.rglob("*") if p.suffix in (".edf", ".bdf"))
        cls.dumps = {p: dump(p) for p in cls.files}

    def each(self, check):
        for path in self.files:
            if path.name not in MALFORMED:
                with self.subTest(path.name):
                    check(self.dumps[path], Reference(path))

    def test_only_the_malformed_files_are_refused(self):
        refused = {p.name: d["error"] for p, d in self.dumps.items() if "error" in d}
        self.assertEqual(set(refused), MALFORMED)
        for name, message in refused.items():
            self.assertIn(name, message)
            self.assertIn("expected", message)

    def test_samples_agree(self):
        compared = []

        def check(got, want):
            self.assertEqual(len(got["signals"]), len(want.labels))
            self.assertEqual(got["records"], want.records)
            for i, signal in enumerate(got["signals"]):
                self.assertEqual(signal["annotation"], i in want.annotation_signals())
                if not signal["usable"]:
                    continue
                values = want.values(i)
                self.assertEqual(signal["n"], len(values))
                self.assertEqual(signal["rate"], float(want.samples[i] / want.duration))
                scale = np.abs(values).max() + 1e-12
                self.assertLess(abs(signal["sum"] - values.sum()), 1e-6 * scale * len(values))
                self.assertLess(abs(signal["square"] - (values ** 2).sum()), 1e-6 * scale ** 2 * len(values))
                spots = values[[(len(values) - 1) * k // 7 for k in range(8)]]
                self.assertLess(np.abs(np.array(signal["spots"]) - spots).max(), 1e-6 * scale)
                compared.append(i)

        self.each(check)
        self.assertGreater(len(compared), 1300)

    def test_segments_follow_the_time_keepers(self):
        def check(got, want):
            if not want.duration:
                self.assertEqual(got["segments"], [])
                return
            covered = sum(n for _, n, _ in got["segments"])
            self.assertEqual(covered, want.records)
            if not want.discontinuous:
                self.assertEqual(got["segments"], [[0, want.records, 0]])
                return
            keepers = want.time_keepers()
            for first, n, start in got["segments"]:
                for r in range(first, first + n):
                    self.assertAlmostEqual(keepers[r] - keepers[0], start + (r - first) * float(want.duration), delta=2e-3)
            for (a, n, start), (b, _, later) in zip(got["segments"], got["segments"][1:]):
                self.assertEqual(a + n, b)
                self.assertGreater(later, start + n * float(want.duration) + 1e-3)

        self.each(check)

    def test_annotations_agree(self):
        def check(got, want):
            keepers = want.time_keepers()
            shift = keepers[0] if keepers and keepers[0] is not None else 0
            expected = sorted((round(onset - shift, 4), text) for onset, text in want.annotations())
            self.assertEqual(sorted((round(onset, 4), text) for onset, _, text in got["annotations"]), expected)

        self.each(check)

    def test_known_facts(self):
        by_name = {p.name: d for p, d in self.dumps.items()}
        self.assertEqual([s[2] for s in by_name["edfreader_bdfPlusD.bdf"]["segments"]], [0, 3, 5, 7, 10, 13, 16, 19])
        self.assertEqual(by_name["edfjl_test_merged_D.edf"]["segments"], [[0, 6, 0], [6, 6, 43200]])
        self.assertEqual(by_name["chb01_18_gap_D.edf"]["segments"], [[0, 10, 0], [10, 10, 20]])
        self.assertEqual(by_name["chb01_18_gap_D.edf"]["annotations"], [[20, 10, "seizure"]])
        self.assertEqual(len(by_name["wfdb_edfann_only.edf"]["annotations"]), 856)
        self.assertEqual(len(by_name["mnetd_overlapping_annotations.edf"]["annotations"]), 38)
        self.assertAlmostEqual(by_name["pyedflib_subsecond.edf"]["subsecond"], 0.3945312, places=9)
        self.assertEqual(by_name["mne_edf_stim_channel_fractional_record.edf"]["duration_s"], 9.59375)
        for name, word in (("eeglab_biosemi_nrec_minus1.bdf", "-1"), ("wavcns_truncated_badheader.edf", "2104"),
                           ("edfjl_uneven_samp.edf", "1 bytes"), ("prerau_LE_20ch_350s.edf", "1 bytes")):
            self.assertTrue(any(word in r for r in by_name[name]["repairs"]), name)
        self.assertEqual(by_name["chb01_03_2986-3036.edf"]["repairs"], [])
        rates = sorted({s["rate"] for s in by_name["pyedflib_datarec_2s.bdf"]["signals"] if s["usable"]})
        self.assertEqual(rates, [250, 400, 487.5, 499.5, 500])

    def test_samples_beyond_the_digital_range_survive(self):
        path = next(p for p in self.files if p.name == "chb01_04_1457-1494.edf")
        values = np.stack([Reference(path).values(i) for i in range(23)])
        beyond = int((np.abs(values) > 800.0001).sum())
        self.assertEqual(beyond, 27)
        got = self.dumps[path]["signals"]
        for i in range(23):
            self.assertAlmostEqual(got[i]["square"] / (values[i] ** 2).sum(), 1, places=6)


if __name__ == "__main__":
    if not FOLDER.is_dir():
        print("skipped: data: no EEG recordings (BRR_EEG_DIR)")
        sys.exit(77)
    unittest.main()
