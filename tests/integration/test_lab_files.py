#!/usr/bin/env python3
"""A lab's own files through brrctl and brr, without a daemon: sets that SciPy writes as eeglabio and mnelab do, rates of 300 Hz, names in a Windows code
page, volts, two headers on one file of samples, times with a zone, tables of one recording. Skips without NumPy and SciPy."""
import datetime
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unicodedata
import unittest
import warnings

SOURCE = os.environ.get("BRR_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BIN = os.environ.get("BRR_BIN", os.path.join(SOURCE, "build", "bin"))
BRRCTL = os.path.join(BIN, "brrctl")
try:
    import numpy as np
    import scipy.io
    from package_reading import brr
except ImportError:
    print("skipped: package: SciPy (python3-scipy) is not installed")
    sys.exit(77)

LABELS = "Fp1 F3 C3 P3 F7 T3 T5 O1 Fz Cz Pz Fp2 F4 C4 P4 F8 T4 T6 O2".split()


def samples(rate=256, seconds=60, scale=1.0):
    """Noise of 8 uV, and from second 20 to 40 a rhythm of 3 Hz that differs between the channels."""
    x = np.random.default_rng(3).normal(0, 8, (len(LABELS), rate * seconds))
    rhythm = np.sign(np.sin(2 * np.pi * 3 * np.arange(rate * seconds) / rate)) * 150
    rhythm[:20 * rate] = rhythm[40 * rate:] = 0
    x += np.linspace(-1, 1, len(LABELS))[:, None] * rhythm
    return (x * scale).astype("<f4")


def brainvision(stem, x, interval, data=None, marker=None, encoding="utf-8", unit="\u00b5V", extra="", markers=None):
    stem = pathlib.Path(stem)
    data = data or stem.with_suffix(".eeg").name
    x.T.astype("<f4").tofile(stem.parent / data)
    channels = "".join(f"Ch{i + 1}={name},,1,{unit}\r\n" for i, name in enumerate(LABELS))
    text = ("Brain Vision Data Exchange Header File Version 1.0\r\n[Common Infos]\r\n" f"DataFile={data}\r\n" + (f"MarkerFile={marker}\r\n" if marker else "") +
            f"DataFormat=BINARY\r\nDataOrientation=MULTIPLEXED\r\nNumberOfChannels={len(LABELS)}\r\nSamplingInterval={interval}\r\n{extra}"
            f"[Binary Infos]\r\nBinaryFormat=IEEE_FLOAT_32\r\n[Channel Infos]\r\n{channels}")
    stem.with_suffix(".vhdr").write_bytes(text.encode(encoding))
    if marker:
        (stem.parent / marker).write_text("Brain Vision Data Exchange Marker File, Version 1.0\n[Marker Infos]\n" + (markers or "Mk1=Comment,sz,5121,5120,0\n"))
    return str(stem.with_suffix(".vhdr"))


def dataset(path, *more):
    found = subprocess.run([BRRCTL, "dataset", str(path), "--json", *more], capture_output=True, text=True)
    return json.loads(found.stdout.splitlines()[-1]), found.stdout + found.stderr


class LabFiles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="brr-lab-")
        self.dir = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def usable(self, path, *more):
        facts, said = dataset(path, *more)
        self.assertNotIn("problem", [k for k, v in facts.items() if k == "problem" and v], said)
        return said

    def write_set(self, name, form):
        """As eeglabio (fields) and mnelab (EEG) build it: integers of Python are 64 bits in the file; types in cells; fields that nobody reads."""
        events = np.rec.fromarrays([np.array(["seizure"], object), np.array([5121.0], object), np.array([5120.0], object)], names=["type", "latency", "duration"])
        if form == "cells":
            events["type"][0] = np.array(["seizure"], object)
        locations = np.rec.fromarrays([np.array(LABELS, object)], names=["labels"])
        deep = "end"
        for _ in range(20):
            deep = {"inside": deep}
        fields = {"setname": "night", "nbchan": len(LABELS), "pnts": 60 * 256, "trials": 1, "srate": 256, "xmin": 0, "xmax": 59.99, "data": samples(),
                  "chanlocs": locations, "event": events, "etc": deep, "history": "x" * 100, "icawinv": np.zeros((0, 0))}
        scipy.io.savemat(self.dir / name, {"EEG": fields} if form == "struct" else fields, appendmat=False, do_compression=form == "struct")
        return str(self.dir / name)

    def test_sets_of_scipy_are_read(self):
        for form in ("struct", "fields", "cells"):
            night = brr.read(self.write_set(f"{form}.set", form))
            self.assertEqual((night.rate, night.labels), (256, LABELS))
            np.testing.assert_array_equal(night.data, samples())
            self.assertEqual(len(night.annotations), 1)
            self.assertEqual([(a[0], a[1]) for a in [tuple(row)[:2] for row in night.annotations]], [(20, 20)])

    def test_eight_bits_in_a_set(self):
        x = np.random.default_rng(1).integers(0, 200, (len(LABELS), 2560)).astype(np.uint8)
        scipy.io.savemat(self.dir / "bytes.set", {"data": x, "srate": 256.0, "nbchan": float(len(LABELS)), "pnts": 2560.0, "trials": 1.0}, appendmat=False)
        np.testing.assert_array_equal(brr.read(self.dir / "bytes.set").data, x)

    def test_rates_with_a_factor_of_three(self):
        for rate in (300, 480, 600, 1200):
            for interval in (f"{1e6 / rate:.6g}", f"{1e6 / rate:.9g}", repr(1e6 / rate)):
                self.assertEqual(brr.read(brainvision(self.dir / "r", samples(rate, 2), interval)).rate, rate)

    def test_names_in_a_windows_code_page(self):
        path = brainvision(self.dir / "M", samples(), "3906.25", data="M\u00fcller.eeg", marker="M\u00fcller.vmrk", encoding="cp1252")
        self.assertIn('"recordings":1', self.usable(path).replace(" ", ""))
        self.assertEqual(len(brr.read(path).annotations), 1)

    def test_volts_are_no_microvolts(self):
        x = samples(scale=1e-6)
        path = brainvision(self.dir / "volts", x, "3906.25", unit="", marker="volts.vmrk")
        self.assertIn("looks like V", dataset(path)[1])
        self.assertNotIn("looks like V", dataset(path, "--unit", "V")[1])
        self.assertNotIn("looks like V", dataset(brainvision(self.dir / "stated", x, "3906.25", unit="V", marker="stated.vmrk"))[1])
        wrong = brainvision(self.dir / "wrong", x, "3906.25", marker="wrong.vmrk")
        facts, said = dataset(wrong)
        self.assertEqual(facts["usable"], 1, said)
        self.assertIn("looks like V, though the file says uV", " ".join(facts["notes"]))
        self.assertNotIn("looks like V", dataset(brainvision(self.dir / "right", samples(), "3906.25", marker="right.vmrk"))[1])
        detector = brr.Detector("line_length")
        for stated in (lambda: detector.detect(brr.read(wrong)), lambda: detector.detect(x, 256, LABELS, unit="uV")):
            with self.assertWarnsRegex(UserWarning, "looks like V, though"):
                stated()
        with self.assertRaisesRegex(ValueError, "looks like V"):
            detector.detect(x, 256, LABELS)
        with self.assertRaisesRegex(ValueError, "looks like V"):
            detector.detect(brr.read(path))
        right = detector.detect(samples(), 256, LABELS).probabilities
        self.assertGreater(right.max(), 0.01)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for found in (detector.detect(x, 256, LABELS, unit="V"), detector.detect(brr.read(path, unit="V"))):
                np.testing.assert_allclose(found.probabilities, right, atol=1e-3)

    def test_gaps_and_the_fraction_of_the_start(self):
        markers = "Mk1=New Segment,,1,1,0,20240131100000250000\nMk2=New Segment,,7681,1,0,20240131100042250000\n"
        night = brr.read(brainvision(self.dir / "gap", samples(), "3906.25", marker="gap.vmrk", markers=markers))
        self.assertEqual(night.start, datetime.datetime(2024, 1, 31, 10, 0, 0, 250000))
        mask = night.mask()
        self.assertEqual((len(mask), int(mask.sum()), list(mask[[7679, 7680, 42 * 256 - 1, 42 * 256]])), (72 * 256, 60 * 256, [True, False, False, True]))
        found = brr.Detector("line_length").detect(night)
        self.assertEqual(len(found.probabilities), len(mask))
        np.testing.assert_array_equal(np.isnan(found.probabilities), ~mask)
        self.assertEqual(len(night.mask(300)), 72 * 300)

    def test_channels_under_other_names(self):
        path = pathlib.Path(brainvision(self.dir / "names", samples(), "3906.25"))
        path.write_text(path.read_text(encoding="utf-8").replace("Ch1=Fp1,", "Ch1=EEG LOC,").replace("Ch2=F3,", "Ch2=F3-XY,"), encoding="utf-8")
        night = brr.read(path, rename={"*-xy": "*", "EEG LOC": "Fp1"})
        self.assertEqual(night.labels, LABELS)
        detector = brr.Detector("line_length")
        found = detector.detect(night)
        self.assertIn(f"{len(found.probabilities)} probabilities", repr(found))
        self.assertIn("19 channels", repr(detector.stream(256, LABELS)))

    def test_masked_arrays(self):
        """Masked samples are none, as NaN and infinite ones: the last number of the channel stands in their place, not what lies under the mask."""
        x, detector = samples(), brr.Detector("line_length")
        off = np.ma.masked_array(x, np.zeros(x.shape, bool))
        np.testing.assert_array_equal(detector.detect(off, 256, LABELS).probabilities, detector.detect(x, 256, LABELS).probabilities)
        off[3, 700:] = np.ma.masked
        held, nan, infinite = x.copy(), x.copy(), x.copy()
        held[3, 700:], nan[3, 700:], infinite[3, 700:] = x[3, 699], np.nan, -np.inf
        expected = detector.detect(held, 256, LABELS).probabilities
        self.assertFalse(np.array_equal(expected, detector.detect(x, 256, LABELS).probabilities))
        for other in (off, nan, infinite):
            np.testing.assert_array_equal(detector.detect(other, 256, LABELS).probabilities, expected)
        stream = detector.stream(256, LABELS)
        parts = [stream.push(nan[:, at:at + 500]).probabilities for at in range(0, nan.shape[1], 500)]
        np.testing.assert_array_equal(np.concatenate([*parts, stream.finish().probabilities]), expected)
        with_others = np.ma.vstack([x[:2], off])  # whatever else the array has
        np.testing.assert_array_equal(detector.detect(with_others, 256, ["ECG", "EMG"] + [f"EEG {name}-REF" for name in LABELS]).probabilities, expected)

    def test_parts_that_are_not_here(self):
        for pointer in ("/annex/objects/MD5E-s1--2.eeg\n", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"):
            path = brainvision(self.dir / "part", samples(), "3906.25")
            (self.dir / "part.eeg").write_text(pointer)
            with self.assertRaisesRegex(brr.Error, "the content of its file part.eeg is not here; fetch it"):
                brr.read(path)

    def test_texts_in_an_encoding_that_is_named(self):
        for encoding, name in (("gb18030", "\u53d1\u4f5c"), ("shift_jis", "\u767a\u4f5c")):
            path = brainvision(self.dir / "far", samples(), "3906.25", marker="far.vmrk")
            (self.dir / "far.vmrk").write_bytes("Brain Vision Data Exchange Marker File, Version 1.0\n[Marker Infos]\n"
                                                f"Mk1=Comment,{name},5121,5120,0\n".encode(encoding))
            read = f"import sys; sys.path[:0] = {sys.path!r}; from package_reading import brr; print(ascii(brr.read({path!r}).annotations.eventType[0]))"
            said = subprocess.run([sys.executable, "-c", read], env={**os.environ, "BRR_TEXT_ENCODING": encoding}, capture_output=True, text=True)
            self.assertEqual(said.stdout.strip(), ascii(name), said.stderr)

    def test_a_gap_of_days_is_refused(self):
        stream = brr.Detector("line_length").stream(256, LABELS)
        stream.push(samples(256, 1))
        stream.gap(20 * 3600 * 256)
        with self.assertRaisesRegex(brr.Error, "a gap of 1.7 days; expected at most 24 h"):
            stream.gap(20 * 3600 * 256)

    def test_one_file_of_samples_is_one_recording(self):
        brainvision(self.dir / "a", samples(), "3906.25", marker="a.vmrk")
        (self.dir / "b.vhdr").write_bytes((self.dir / "a.vhdr").read_bytes())
        self.assertIn("one file", dataset(self.dir)[1])
        for patient in ("sub-01", "sub-02"):
            (self.dir / f"{patient}_eeg.vhdr").write_bytes((self.dir / "a.vhdr").read_bytes())
        found = subprocess.run([BRRCTL, "dataset", str(self.dir)], capture_output=True, text=True)
        self.assertIn("one file under two patients", found.stderr)
        self.assertNotEqual(found.returncode, 0)

    def score(self, *more):
        found = subprocess.run([BRRCTL, "score", str(self.dir / "ref"), str(self.dir / "hyp"), "--json", *more], capture_output=True, text=True)
        return json.loads(found.stdout) if found.stdout else None, found.stderr

    def test_one_file_of_samples_is_scored_once(self):
        for folder in ("ref", "hyp"):
            (self.dir / folder).mkdir()
        brainvision(self.dir / "ref" / "a", samples(), "3906.25", marker="a.vmrk")
        for name in ("a", "b"):
            (self.dir / "ref" / f"{name}.vhdr").write_bytes((self.dir / "ref" / "a.vhdr").read_bytes())
            (self.dir / "hyp" / f"{name}_events.tsv").write_text("onset\tduration\teventType\n50\t5\tsz\n")
        for labels in ("annotations", "files"):
            found, said = self.score()
            self.assertEqual((found["hours"] * 3600, found["pooled"]["any_overlap"]["ref"], found["pooled"]["any_overlap"]["fp"]), (60, 1, 1), said)
            self.assertIn("a.vhdr and b.vhdr are one file", said)
            for name in ("a", "b"):
                (self.dir / "ref" / f"{name}_events.tsv").write_text("onset\tduration\teventType\n20\t20\tsz\n")
        (self.dir / "ref" / "a.set").write_bytes(pathlib.Path(self.write_set("a.set", "struct")).read_bytes())  # one recording in two formats has one label file
        self.assertEqual(self.score()[0]["hours"] * 3600, 60)
        for patient in ("sub-01", "sub-02"):
            (self.dir / "ref" / f"{patient}_eeg.vhdr").write_bytes((self.dir / "ref" / "a.vhdr").read_bytes())
        found, said = self.score()
        self.assertIsNone(found)
        self.assertIn("sub-01_eeg.vhdr and sub-02_eeg.vhdr are one file under two patients", said)

    def test_a_gap_counts_in_no_hours(self):
        """A minute of signal, and three days between its halves: the false alarm came in a minute."""
        for folder in ("ref", "hyp"):
            (self.dir / folder).mkdir()
        markers = "Mk1=New Segment,,1,1,0,20240131100000000000\nMk2=New Segment,,7681,1,0,20240203100030000000\n"
        brainvision(self.dir / "ref" / "days", samples(), "3906.25", marker="days.vmrk", markers=markers)
        length = 3 * 86400 + 60
        for stated in ("", str(length)):
            for folder, onset in (("ref", 20), ("hyp", 50 + 3 * 86400)):
                row = f"{onset}\t5\tsz" + (f"\t{stated}" if stated else "")
                (self.dir / folder / "days_events.tsv").write_text("onset\tduration\teventType" + ("\trecordingDuration" if stated else "") + f"\n{row}\n")
            found, said = self.score()
            self.assertEqual((found["hours"] * 3600, found["pooled"]["event"]["fp"]), (60, 1), said)
            self.assertAlmostEqual(found["pooled"]["any_overlap"]["false_alarms_per_24h"], 1440)
        self.assertEqual(dataset(self.dir / "ref")[0]["splits"]["all"]["hours"] * 3600, 60)
        (self.dir / "ref" / "days.vhdr").write_text("Brain Vision Data Exchange Header File Version 1.0\n")
        found, said = self.score()
        self.assertIn("gaps count as hours, the recording cannot be read", said)
        self.assertEqual(found["hours"] * 3600, length)

    def test_built_in_names_are_no_files(self):
        before = os.getcwd()
        os.chdir(self.dir)
        self.addCleanup(os.chdir, before)
        wanted = brr.Detector("line_length").sha256
        os.mkdir("line_length")
        self.assertEqual(brr.Detector("line_length").sha256, wanted)
        os.rmdir("line_length")
        pathlib.Path("line_length").write_text("no model")
        self.assertEqual(brr.Detector("line_length").sha256, wanted)
        for file in ("./line_length", pathlib.Path("line_length")):
            with self.assertRaisesRegex(brr.Error, "line_length"):
                brr.Detector(file)
        for make in (os.mkdir, lambda name: pathlib.Path(name).write_text("no model")):
            make("demo")
            found = subprocess.run([BRRCTL, "export", "demo", "--onnx", "demo.onnx"], capture_output=True, text=True)
            self.assertEqual(found.returncode, 0, found.stderr)
            os.rmdir("demo") if os.path.isdir("demo") else os.unlink("demo")
            os.unlink("demo.onnx")

    def test_pipes_are_no_label_files(self):
        """A FIFO in place of labels is named, and nobody waits for its writer."""
        for folder in ("ref", "hyp"):
            (self.dir / folder).mkdir()
        path = pathlib.Path(brainvision(self.dir / "ref" / "a", samples(), "3906.25"))
        for name in ("a_events.tsv", "a.csv", "a.csv_bi", "a_annotations.txt", "a_annotations.json", "a_annotations.edf"):
            os.mkfifo(path.parent / name)
            facts, said = dataset(path)
            self.assertEqual(facts["usable"], 0)
            self.assertIn(name, said)
            with self.assertRaisesRegex(brr.Error, name):
                brr.read(path).seizures()
            (self.dir / "ref" / "b_events.tsv").write_text("onset\tduration\teventType\trecordingDuration\n5\t5\tsz\t60\n")
            os.mkfifo(self.dir / "hyp" / name)
            (self.dir / "hyp" / "b_events.tsv").write_text("onset\tduration\teventType\n5\t5\tsz\n")
            self.assertRegex(self.score()[1], f"{path.parent / name} is no(t a regular file| file that can be read)")
            os.rename(path.parent / name, self.dir / "pipe")
            self.assertIn(f"left out: {self.dir / 'hyp' / name} is no file that can be read", self.score()[1])
            os.rename(self.dir / "pipe", path.parent / name)
            said = subprocess.run([BRRCTL, "score", str(path.parent / name), str(self.dir / "hyp" / "b_events.tsv")], capture_output=True, text=True)
            self.assertIn(name, said.stderr)
            self.assertNotEqual(said.returncode, 0)
            os.unlink(path.parent / name)
            os.unlink(self.dir / "hyp" / name)
        os.mkfifo(path.parent / "night.edf")
        self.assertIn("night.edf is left out: it is a FIFO", " ".join(dataset(path.parent, "--unlabeled", "background")[0]["notes"]))
        self.assertIn("night.edf is left out: it is a FIFO", self.score()[1])
        self.assertIn("is not a regular file", " ".join(dataset(path.parent / "night.edf")[0]["problems"]))
        os.mkfifo(self.dir / "table.csv")
        for words in (("labels", "import", "table.csv", str(path)), ("dataset", str(path.parent), "--patient", "table.csv")):
            said = subprocess.run([BRRCTL, *words], capture_output=True, text=True, cwd=self.dir)
            self.assertNotEqual(said.returncode, 0)
            self.assertIn("table.csv is not a regular file", said.stderr)

    def test_names_in_either_way_of_writing_marks(self):
        """macOS writes é as e and a mark; labels that somebody typed have it as one character."""
        joined, apart = (functools.partial(unicodedata.normalize, form) for form in ("NFC", "NFD"))
        for patient in ("sub-\u00e9", "sub-M\u00fcller", "sub-Vi\u1ec7t", "sub-\ud55c\uad6d", "sub-\u304c", "sub-\u0419\u043e\u0434"):
            for of_file, of_label in ((apart, joined), (joined, apart)):
                folder = self.dir / f"{len(os.listdir(self.dir))}"
                for name in ("ref", "hyp"):
                    (folder / name).mkdir(parents=True)
                path = pathlib.Path(brainvision(folder / "ref" / of_file(f"{patient}_eeg"), samples(), "3906.25", data=of_file(f"{patient}.eeg")))
                path.write_bytes(path.read_bytes().replace(of_file(patient).encode(), of_label(patient).encode()))  # the header was typed too
                (folder / "who.csv").write_text(f"\ufeffFile;Patient\n{of_label(path.name)};P7\n", encoding="utf-8")
                facts, said = dataset(path.parent, "--unlabeled", "background", "--patient", str(folder / "who.csv"))
                self.assertEqual((facts["usable"], "name no patient" in said), (1, False), said)
                (folder / "table.csv").write_text(f"file,onset,end\n{of_label(patient)},5,15\n", encoding="utf-8")
                found = subprocess.run([BRRCTL, "labels", "import", str(folder / "table.csv"), str(folder / "ref")], capture_output=True, text=True)
                self.assertEqual(found.returncode, 0, found.stderr)
                events = path.with_name(f"{of_file(patient)}_events.tsv")
                os.rename(events, events.with_name(f"{of_label(patient)}_events.tsv"))
                self.assertEqual([tuple(row)[:2] for row in brr.read(path).seizures()], [(5, 10)])
                (folder / "hyp" / f"{of_label(patient)}_events.tsv").write_text("onset\tduration\teventType\n7\t5\tsz\n")
                found = subprocess.run([BRRCTL, "score", str(folder / "ref"), str(folder / "hyp"), "--json"], capture_output=True, text=True)
                scores = json.loads(found.stdout)
                self.assertEqual((scores["hours"] * 3600, scores["pooled"]["event"]["tp"], scores["pooled"]["event"]["ref"]), (60, 1, 1), found.stderr)
                self.assertEqual(list(scores["per_subject"]), [joined(patient)])
                shutil.copy(path, path.with_name(f"{of_label(patient)}_run-02_eeg.vhdr"))  # of two patients that would be an error
                facts, said = dataset(path.parent, "--unlabeled", "background")
                self.assertEqual([x["patients"] for x in facts["splits"].values()], [1], said)

    def test_detections_in_a_folder_of_the_recordings(self):
        (self.dir / "ref" / "found").mkdir(parents=True)
        (self.dir / "hyp").symlink_to(self.dir / "ref" / "found")
        for folder in ("ref", "hyp"):
            (self.dir / folder / "a_events.tsv").write_text("onset\tduration\teventType\trecordingDuration\n5\t10\tsz\t60\n")
        found, said = self.score()
        self.assertEqual((found["hours"] * 3600, found["pooled"]["event"]["tp"], found["pooled"]["event"]["ref"], said), (60, 1, 1, ""))

    def test_lengths_that_labels_state(self):
        """The header's length counts; labels that state another one, or two, are named."""
        for folder in ("ref", "hyp"):
            (self.dir / folder).mkdir()
        path = pathlib.Path(brainvision(self.dir / "ref" / "a", samples(), "3906.25"))
        head, row = "onset\tduration\teventType\trecordingDuration\n", "5\t10\tsz\t{}\n"
        (self.dir / "hyp" / "a_events.tsv").write_text(head + row.format(60))
        events = path.with_name("a_events.tsv")
        events.write_text(head + row.format(3600))
        found, said = self.score()
        self.assertEqual((found["hours"] * 3600, found["pooled"]["event"]["tp"]), (60, 1), said)
        self.assertIn("it says that the recording lasts 3600.00 s, and a.vhdr lasts 60.00 s, which counts", said)
        events.write_text(head + row.format(60) + "50\t30\tsz\t60\n")
        self.assertIn("a_events.tsv:3: seizure from 50 s to 80 s is cut, the recording ends at 60 s", " ".join(dataset(path)[0]["notes"]))
        for lengths, words in (((60, 120), "a_events.tsv:3: recordingDuration is 120.00 s, and 60.00 s above"), ((-60,), "recordingDuration -60 is no length")):
            events.write_text(head + "".join(map(row.format, lengths)))
            self.assertIn(words, " ".join(dataset(path)[0]["problems"]))

    def test_changed_samples_under_the_other_name_are_seen(self):
        """The key of what is cached covers a part that the header names in the other way; two headers on it are one recording."""
        for i, (of_file, of_header) in enumerate((("NFC", "NFD"), ("NFD", "NFC"))):
            folder = self.dir / str(i)
            folder.mkdir()
            path = pathlib.Path(brainvision(folder / "a", samples(), "3906.25", data=unicodedata.normalize(of_file, "Caf\u00e9.eeg")))
            names = [unicodedata.normalize(form, "Caf\u00e9.eeg") for form in (of_file, of_header)]
            path.write_bytes(path.read_bytes().replace(*[name.encode() for name in names]))
            shutil.copy(path, folder / "b.vhdr")
            self.assertIn("a.vhdr and b.vhdr are one file", dataset(folder, "--unlabeled", "background")[1])
            stamp = lambda: subprocess.run([BRRCTL, "windows", str(path), "--json"], capture_output=True, text=True).stdout
            first = json.loads(stamp())
            (folder / names[0]).write_bytes(samples(256, 40).T.astype("<f4").tobytes())
            self.assertEqual((first["duration_s"], json.loads(stamp())["duration_s"]), (60, 40))

    def test_segmented_files_are_refused(self):
        self.assertIn("SegmentationType=MARKERBASED is not read", dataset(brainvision(self.dir / "cut", samples(), "3906.25", extra="SegmentationType=MARKERBASED\r\n"))[1])

    def labels(self, table, target, *more):
        path = self.dir / "table.csv"
        path.write_text(table)
        return subprocess.run([BRRCTL, "labels", "import", str(path), str(target), *more], capture_output=True, text=True)

    def test_tables_of_labels(self):
        path = brainvision(self.dir / "night", samples(), "3906.25")
        events = self.dir / "night_events.tsv"
        found = self.labels("file,onset,end\nnight.vhdr,2024-01-31 10:00:05+01:00,2024-01-31 10:00:15+01:00\n", self.dir)
        self.assertNotEqual(found.returncode, 0)
        self.assertIn("recordings have no zone", found.stderr)
        found = self.labels('file,onset,end,type\nnight.vhdr,5,15,"sz\tx"\n', self.dir)
        self.assertIn("expected plain text", found.stderr)
        found = self.labels("Datei;Arzt;Beginn;Ende;Typ;;\nnight.vhdr;B;5;15;Bewegung;;\n", self.dir)  # an artefact is no seizure
        self.assertIn("(the first one is 'Bewegung')", found.stderr)
        self.assertIn("note: columns not used: Arzt\n", found.stderr)
        self.assertFalse(events.exists())
        found = self.labels("Seizure start,Seizure end\n5,15\n", path)  # the columns have other names, and the recording is named
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertIn("5.00\t10.00\tsz", events.read_text())
        found = self.labels("file,onset,end,seizure\nnight.vhdr,5,9,no\n", self.dir)  # it says that there is none
        self.assertIn("0 seizures in 0 recordings; 1 recording without\n  ignored, no seizure: no 1\n", found.stdout, found.stderr)
        found = self.labels("file,onset,end,seizure\nnight.vhdr,5,9,no\nnight.vhdr,11,15,yes\n", self.dir)
        self.assertIn("11.00\t4.00\tsz", (text := events.read_text()), found.stderr)
        self.assertNotIn("5.00\t4.00", text)
        found = self.labels("file,onset,end,type\nnight.vhdr,5,9,sz\nnight.vhdr,11,15,\n", self.dir)
        self.assertIn("2 seizures in 1 recording", found.stdout)
        self.assertIn("note: 1 row without a type, taken as a seizure\n", found.stderr)

    def test_a_process_that_forks_says_so(self):
        detector = brr.Detector("line_length")
        stream = detector.stream(256, LABELS)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                stream.push(samples(256, 1))
                answer = b"none"
            except RuntimeError as e:
                answer = str(e).encode()
            os.write(write, answer)
            del stream, detector
            os._exit(0)
        os.close(write)
        said = os.read(read, 1000).decode()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertIn("which was forked from it", said)


if __name__ == "__main__":
    unittest.main()
