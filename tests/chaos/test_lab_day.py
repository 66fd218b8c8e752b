#!/usr/bin/env python3
"""A lab's day over recordings and labels that no writer of brrd wrote (lab_study.py), drawn from a seed: dataset, labels, detect, score, benchmark,
validate, a training that is stopped before its first step, resume, evaluate, tune, export, predict. Judges: the samples that the writers
got, MNE's readers, SciPy, scikit-learn's ranks, SzCORE's rules (tests/golden/szcore_reference.py), fractions, onnxruntime.

    ./dev day lab [--seed S] [--short]

--short, which the suite runs, takes one recording in each format and leaves out Octave, BioSig, scikit-learn and onnxruntime. What is not
installed is skipped and counted. Every check is counted, and a failure does not end the day: exit status 1, with the files kept, if there was one."""
import argparse
import collections
import contextlib
import fractions
import glob
import json
import math
import os
import pathlib
import re
import resource
import shutil
import struct
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), *(os.path.join(os.path.dirname(HERE), name) for name in ("integration", "golden"))]

try:
    import numpy as np
    import scipy.interpolate
    import lab_study as study
except ImportError:
    print("skipped: package: SciPy (python3-scipy) is not installed")
    sys.exit(77)

import szcore_reference  # noqa: E402
from daemon import MINI, SOURCE, Daemon  # noqa: E402
from fake_s3 import FakeS3  # noqa: E402
from package_reading import brr  # noqa: E402
from seed import test_seed  # noqa: E402
from test_auroc import ranks  # noqa: E402
from test_untrained import stopped  # noqa: E402

EASY = ["--on", "0.3", "--off", "0.2"]  # of line_length, on rhythms of 150 uV


class Day:
    """What was drawn, checked, skipped and lost."""

    def __init__(self, seed, short, folder):
        self.rng, self.seed, self.short, self.dir = np.random.default_rng(seed), seed, short, pathlib.Path(folder)
        self.checks, self.skipped, self.lost = collections.Counter(), [], []
        self.part, self.d = "", Daemon(folder)

    def folder(self, name):
        (self.dir / name).mkdir()
        return self.dir / name

    @contextlib.contextmanager
    def check(self, what):
        self.checks[self.part] += 1
        try:
            yield
        except Exception as e:  # the day goes on
            self.lost.append(f"{self.part}, {what}: {e}"[:3000])
            traceback.print_exc()
            print(f"lost: {self.part}, {what}", flush=True)

    def skip(self, what):
        self.skipped.append(what)
        print(f"skipped: package: {what}", flush=True)

    def take(self, rate=None, seconds=None, gaps=(), rhythm_uv=150, n=1):
        """With n seizures of 8 to 14 s, at hundredths of a second."""
        seconds = seconds or int(self.rng.integers(60, 90))
        spans, at = [], 12.0 + sum(gap for _, gap in gaps)
        for _ in range(n):
            at += round(float(self.rng.uniform(3, 9)), 2)
            spans.append((round(at, 2), round(at + float(self.rng.uniform(8, 14)), 2)))
            at = spans[-1][1] + 5
        rate = rate or int(self.rng.choice([128, 200, 250, 256, 300, 480, 500, 512, 600]))
        return study.Take(self.rng, rate, max(seconds, math.ceil(at) + 3), spans, gaps, rhythm_uv)

    def ctl(self, *words, code=0):
        got, out, err = self.d.ctl(*map(str, words))
        assert code is None or got == code, (words, got, out[-1500:], err[-1500:])
        return out, err

    def rows(self, *words):
        return [json.loads(line) for line in self.ctl(*words, "--json")[0].splitlines()]


def texts_of(take, name="seizure"):
    return [(a, round(b - a, 2), name) for a, b in take.seizures]


def events_of(path):
    """(onset, end) of the seizures of an events file, and the length that it states."""
    with open(path, encoding="utf-8") as f:
        head, *rows = [line.rstrip("\n").split("\t") for line in f]
    cell = lambda row, name: row[head.index(name)]
    spans = [(float(cell(r, "onset")), round(float(cell(r, "onset")) + float(cell(r, "duration")), 2)) for r in rows if cell(r, "eventType").startswith("sz")]
    return spans, float(cell(rows[0], "recordingDuration")) if rows else None


def events_below(folder):
    """stem -> events_of, of an output of detect."""
    return {os.path.basename(p)[:-len("_events.tsv")]: events_of(p) for p in glob.glob(f"{glob.escape(str(folder))}/**/*_events.tsv", recursive=True)}


def near(spans, seizures, most=4):
    return len(spans) == len(seizures) and all(abs(a - c) < most and abs(b - d) < most for (a, b), (c, d) in zip(spans, seizures))


# ---- recordings ----

def write_all(day, folder, take):
    """One recording in every format, each under a name of its own; what each is."""
    texts = texts_of(take)
    yield study.edflib(folder / "edf.edf", take, texts=texts)
    yield study.edflib(folder / "bdf.bdf", take, study.BDF_PLUS, texts)
    yield study.eeglab(folder / "mnelab.set", take, "EEG", texts)
    yield study.eeglab(folder / "eeglabio.set", take, "fields", texts, compressed=True)
    yield study.eeglab_pair(folder / "pair.set", take, texts)
    yield study.brainvision(folder / "bv16.vhdr", take, texts, interval=f"{1e6 / take.rate:.{int(day.rng.integers(6, 17))}g}")
    yield study.brainvision(folder / "bv32.vhdr", take, texts, "IEEE_FLOAT_32", data="B\u00e4r \u00dcbung", encoding="cp1252")
    yield study.persyst(folder / "persyst.lay", take, texts, data="\u00d6ffnung")
    if not day.short and study.have("octave-cli"):
        yield study.octave(folder / "octave.set", take, texts)
    if not day.short and study.have("save2gdf"):
        for kind, ending in (("GDF", "gdf"), ("BDF", "bdf")):
            yield study.biosig(folder / "edf.edf", kind, folder / f"biosig_{ending}.{ending}")


def mne_reads(path, take):
    """Where MNE reads the format: the same samples, rate and names."""
    import mne
    mne.set_log_level("ERROR")
    readers = {".edf": mne.io.read_raw_edf, ".bdf": mne.io.read_raw_bdf, ".gdf": mne.io.read_raw_gdf, ".set": mne.io.read_raw_eeglab,
               ".vhdr": mne.io.read_raw_brainvision, ".lay": mne.io.read_raw_persyst}
    raw = readers[path.suffix](str(path), preload=True)
    return raw.get_data() * 1e6, raw.info["sfreq"], raw.ch_names


def check_recordings(day):
    takes = [day.take(300)] + ([] if day.short else [day.take() for _ in range(3)])
    for k, take in enumerate(takes):
        folder = day.folder(f"formats-{k}")
        paths = list(write_all(day, folder, take))
        for path in paths:
            with day.check(f"{path.name} at {take.rate} Hz"):
                read = brr.read(path)
                assert fractions.Fraction(read.rate) == take.rate, read.rate
                np.testing.assert_array_equal(read.data, take.uv)
                assert [name.removesuffix("-Ref") for name in read.labels] == study.LABELS, read.labels
                assert abs(read.seconds - take.seconds()) < 1e-9, read.seconds
                if path.stem != "biosig_bdf":  # BioSig writes no annotations there
                    got = [(round(a.onset, 2), round(a.duration, 2), a.eventType) for a in read.annotations]
                    most = 0 if path.suffix in (".edf", ".bdf", ".lay") else 1 / take.rate + 0.011
                    both = list(zip(got, texts_of(take)))
                    assert len(got) == len(take.seizures) and all(abs(a - c) <= most and abs(d - f) <= most for (a, d, _), (c, f, _) in both), got
                    assert [row.onset for row in read.seizures()] == [a.onset for a in read.annotations]
                if read.start is not None and "biosig" not in path.name:  # which cuts it to whole seconds before
                    assert read.start.replace(microsecond=0) == study.START, read.start
        if mne_is_here(day):
            for path in paths:
                try:
                    data, rate, names = mne_reads(path, take)
                except Exception as e:  # whatever MNE says about a file that it cannot read
                    print(f"MNE does not read {path.name}: {type(e).__name__}")
                    continue
                with day.check(f"{path.name} by MNE"):
                    read = brr.read(path)
                    assert data.shape == read.data.shape and np.abs(data - read.data).max() < 1e-4, np.abs(data - read.data).max()
                    assert abs(rate / read.rate - 1) < 1e-5 or "biosig" in path.name, (rate, read.rate)
                    assert len(names) == len(read.labels)
        check_same_events(day, folder, paths, take)


def mne_is_here(day):
    try:
        import mne  # noqa: F401
    except ImportError:
        if "MNE" not in day.skipped:
            day.skip("MNE")
        return False
    return True


def check_same_events(day, folder, paths, take):
    out = day.dir / f"{folder.name}-found"
    with day.check("dataset of all formats"):
        facts = day.rows("dataset", folder, "--unlabeled", "background")[0]
        whole = facts["splits"]["all"]
        assert facts["usable"] == len(paths) == whole["recordings"] and not facts["problems"], facts
        labelled = sum(p.stem != "biosig_bdf" for p in paths)
        assert whole["seizures"] == labelled * len(take.seizures), whole
        assert abs(whole["hours"] - len(paths) * take.seconds() / 3600) < 1e-6, whole
    with day.check("detect of all formats"):
        day.ctl("detect", folder, "--model", "line_length", *EASY, "--out", out)
        found = events_below(out)
        assert set(found) == {p.stem for p in paths}, found
        assert near(found["edf"][0], take.seizures), (found["edf"], take.seizures)
        assert all(f == found["edf"] for f in found.values()), found


def check_gaps(day):
    """Segments whose markers stand in any order; boundaries; sample times."""
    folder = day.folder("gaps")
    rate = int(day.rng.choice([256, 300, 500]))
    most_s = 60 if day.short else 400
    gaps = [(second * rate + int(day.rng.integers(rate)), float(day.rng.integers(20, most_s))) for second in (5, 9)]
    take = day.take(rate, gaps=gaps)
    order = [int(i) for i in day.rng.permutation(3)]
    texts = texts_of(take)
    paths = [study.brainvision(folder / "bv.vhdr", take, texts, order=order), study.eeglab(folder / "set.set", take, "EEG", texts),
             study.persyst(folder / "lay.lay", take, texts)]
    for path in paths:
        with day.check(f"{path.name}, markers in the order {order}"):
            read = brr.read(path)
            np.testing.assert_array_equal(read.data, take.uv)
            assert [g.sample for g in read.gaps] == [s for s, _ in gaps], read.gaps
            assert np.abs(read.times() - take.times()).max() < 1e-5, np.abs(read.times() - take.times()).max()
            got = [(a.onset, a.eventType) for a in read.annotations]
            assert len(got) == 1 and abs(got[0][0] - take.seizures[0][0]) < 1 / rate + 1e-6, (got, take.seizures)
    with day.check("the end of summer time"):
        back = study.brainvision(day.folder("summer") / "back.vhdr", night := day.take(256), texts_of(night), back=(20 * 256, 3600))
        read = brr.read(back)
        assert not len(read.gaps) and read.repairs, (read.gaps, read.repairs)
        assert abs(read.annotations[0].onset - night.seizures[0][0]) < 1 / 256, read.annotations
        np.testing.assert_array_equal(read.data, night.uv)
    check_days(day)
    with day.check("detect behind gaps"):
        day.ctl("detect", folder, "--model", "line_length", *EASY, "--out", day.dir / "gaps-found")
        found = events_below(day.dir / "gaps-found")
        assert len(found) == 3 and all(f == found["bv"] for f in found.values()) and near(found["bv"][0], take.seizures), (found, take.seizures)


def check_days(day):
    """A gap of days, as a wrong date makes: detect goes on behind it, what would need a number for each missing sample says no at once."""
    days = int(day.rng.integers(2, 4000))
    take = day.take(256, seconds=60)
    late = study.Take(day.rng, 256, take.uv.shape[1] // 256, [(a + 86400 * days, b + 86400 * days) for a, b in take.seizures], [(5 * 256, 86400.0 * days)])
    for path in (study.brainvision(day.folder("days") / "bv.vhdr", late), study.eeglab(day.dir / "days/set.set", late, "EEG")):
        with day.check(f"a gap of {days} days, {path.name}"):
            out, err = day.ctl("detect", path, "--model", "line_length", *EASY, "--out", day.dir / f"days-{path.stem}")
            spans, seconds = events_of(day.dir / f"days-{path.stem}/{path.stem}_events.tsv")
            assert near(spans, late.seizures) and seconds == late.seconds(), (spans, late.seizures, seconds)
            assert re.search(r"date.*wrong|wrong.*date", out + err), (out, err)
            out, err = day.ctl("stream", path, "--model", "line_length", "--output", day.dir / "none.tsv", code=None)
            assert not (day.dir / "none.tsv").exists() and "gap" in out + err, (out, err)
            try:
                brr.Detector("line_length").detect(brr.read(path))
                raise AssertionError("a number for each missing sample")
            except (ValueError, brr.Error) as e:
                assert "gap" in str(e), e


def check_units(day):
    """Volts where no unit is stated; numbers that are none."""
    folder, take = day.folder("units"), day.take(256)
    volts = study.brainvision(folder / "volts.vhdr", take, (), "IEEE_FLOAT_32", unit="", scale=1e-6)
    with day.check("volts without a unit"):
        out, err = day.ctl("detect", volts, "--model", "line_length", *EASY, "--out", day.dir / "volts", code=1)
        assert "--unit V" in out + err, (out, err)
        day.ctl("detect", volts, "--model", "line_length", *EASY, "--unit", "V", "--out", day.dir / "volts-found")
        assert near(events_below(day.dir / "volts-found")["volts"][0], take.seizures)
    with day.check("an array of volts"):
        detector = brr.Detector("line_length")
        try:
            detector.detect(take.uv * 1e-6, 256, study.LABELS)
            raise AssertionError("volts were taken for microvolts")
        except ValueError as e:
            assert "unit='V'" in str(e), e
        of_volts, of_microvolts = (detector.detect(uv, 256, study.LABELS, unit=unit).probabilities for uv, unit in ((take.uv * 1e-6, "V"), (take.uv, "uV")))
        assert np.abs(of_volts - of_microvolts).max() < 1e-3
    nan = study.Take.__new__(study.Take)
    nan.__dict__.update(take.__dict__, uv=take.uv.astype(np.float32))
    channel, (a, b) = int(day.rng.integers(len(study.LABELS))), take.seizures[0]
    nan.uv[channel, int(a * 256):int(b * 256)] = np.nan
    path = study.eeglab(folder / "nan.set", nan, "EEG")
    with day.check("samples that are no numbers"):
        out, err = day.ctl("detect", path, "--model", "line_length", *EASY, "--out", day.dir / "nan-found", "--json")
        count = int(np.isnan(nan.uv).sum())
        assert re.search(rf"\b{count:,}\b|\b{count}\b", out + err), (count, out, err)
        assert np.array_equal(np.isnan(brr.read(path).data), np.isnan(nan.uv))
    with day.check("a recording that is cut into segments"):
        cut = study.brainvision(folder / "cut.vhdr", take, extra="SegmentationType=MARKERBASED\r\n")
        assert "SegmentationType" in "".join(day.ctl("dataset", cut, code=None))
    if not day.short and study.have("save2gdf"):
        with day.check("BIDS of a format that it does not take"):
            gdf = study.biosig(study.edflib(folder / "x.edf", take), "GDF", folder / "x.gdf")
            (folder / "x.edf").unlink()
            out, err = day.ctl("detect", gdf, "--model", "line_length", "--bids", "--out", day.dir / "gdf-bids", code=None)
            written = glob.glob(f"{day.dir}/gdf-bids/**/*_eeg.edf", recursive=True)
            assert "BIDS takes" in out + err if not written else all(open(p, "rb").read(1) == b"0" for p in written), (out, err, written)


def check_parts(day):
    """Parts that were renamed together, their samples exchanged since; two headers on one file of samples."""
    folder, first, second = day.folder("parts"), day.take(256), day.take(256)
    day.folder("parts/raw")
    study.eeglab_pair(folder / "raw/old.set", first)
    os.rename(folder / "raw/old.set", folder / "sub-01.set")
    os.rename(folder / "raw/old.fdt", folder / "sub-01.fdt")
    os.rmdir(folder / "raw")
    for k, take in enumerate((first, second)):
        with day.check(f"renamed parts, samples {k}"):
            take.uv.T.astype("<f4").tofile(folder / "sub-01.fdt")
            n = take.uv.shape[1]
            (folder / "sub-01_events.tsv").write_text("onset\tduration\teventType\n" + "".join(f"{a:.2f}\t{b - a:.2f}\tsz\n" for a, b in take.seizures))
            if n != first.uv.shape[1]:  # the header states the length
                take = study.Take(day.rng, 256, first.uv.shape[1] // 256, first.seizures)
                take.uv.T.astype("<f4").tofile(folder / "sub-01.fdt")
            np.testing.assert_array_equal(brr.read(folder / "sub-01.set").data, take.uv)
            sets = [f"data.source=file://{folder}", "evaluate.checkpoint=line_length", "evaluate.plots=0"]
            code, end, err = day.d.submit(*sets, file=f"{SOURCE}/configs/eval.yaml")
            assert code == 0, (end, err)
            events = events_below(f"{day.d.dir}/results/jobs/{end['job']}/events")
            day.ctl("detect", folder, "--model", "line_length", "--out", day.dir / f"parts-found-{k}")
            assert events_below(day.dir / f"parts-found-{k}") == events, (events, "detect and evaluate differ")
    writers = {".vhdr": study.brainvision, ".set": study.eeglab_pair, ".lay": study.persyst, ".edf": study.edflib}
    for ending, write in writers.items():
        with day.check(f"two names of one file, {ending}"):
            folder = day.folder(f"twice{ending}")
            path = write(folder / f"sub-01_run-01_eeg{ending}", first)
            copy = os.link if ending == ".edf" else shutil.copy  # the others: headers on one file of samples
            copy(path, folder / f"sub-01_run-02_eeg{ending}")
            facts = day.rows("dataset", folder, "--unlabeled", "background")[0]
            assert facts["splits"]["all"]["recordings"] == 1 and "one file" in str(facts["notes"]), facts
            copy(path, folder / f"sub-02_eeg{ending}")
            out, err = day.ctl("dataset", folder, "--unlabeled", "background", code=1)
            assert "sub-01_run" in out + err and f"sub-02_eeg{ending}" in out + err, (out, err)


# ---- labels ----

def check_labels(day):
    """Every form of label files, each beside a recording of its own; exact times."""
    take = day.take(256, n=2)
    recording = study.edflib(day.dir / "night.edf", take)
    truth = [(fractions.Fraction(f"{a:.2f}"), fractions.Fraction(f"{b:.2f}")) for a, b in take.seizures]
    folder = day.folder("labels")
    for form, path in study.label_files(folder, "night", take):
        shutil.copy(recording, path.parent / "night.edf")
        with day.check(form):
            for rule in ("auto", form):
                found = brr.read(path.parent / "night.edf").seizures(rule)
                exact = lambda seconds: fractions.Fraction(seconds).limit_denominator(100)
                got = [(exact(r.onset), exact(r.onset + r.duration)) for r in found]
                assert got == truth, (rule, got, truth)
    chb = day.folder("labels/chb01")
    shutil.copy(recording, chb / "chb01_03.edf")
    whole = [(math.floor(a), math.ceil(b)) for a, b in take.seizures]
    (chb / "chb01-summary.txt").write_text(f"Data Sampling Rate: 256 Hz\n\nFile Name: chb01_03.edf\nFile Start Time: 23:58:30\nFile End Time: 24:00:00\n"
                                           f"Number of Seizures in File: {len(whole)}\n" +
                                           "".join(f"Seizure {i + 1} Start Time: {a} seconds\nSeizure {i + 1} End Time: {b} seconds\n"
                                                   for i, (a, b) in enumerate(whole)))
    with day.check("chbmit-summary"):
        assert [(r.onset, r.onset + r.duration) for r in brr.read(chb / "chb01_03.edf").seizures()] == whole
    with day.check("EDF+ of annotations by EDFlib"):
        plus = day.folder("labels/plus")
        marks = [(at, None, text) for span in take.seizures for at, text in zip(span, ("seizure start", "seizure end"))]
        study.edflib(plus / "night.edf", take, texts=marks)
        assert near([(r.onset, r.onset + r.duration) for r in brr.read(plus / "night.edf").seizures()], take.seizures, 1e-3)
    if mne_is_here(day):
        import mne
        with day.check("mne.Annotations.save"):
            saved = day.folder("labels/saved")
            shutil.copy(recording, saved / "night.edf")
            annotations = mne.Annotations([a for a, _ in take.seizures], [round(b - a, 2) for a, b in take.seizures], ["sz"] * len(truth))
            annotations.save(saved / "night_annotations.txt")
            assert near([(r.onset, r.onset + r.duration) for r in brr.read(saved / "night.edf").seizures()], take.seizures, 1e-9)


def check_codes(day):
    """Markers of codes: a pattern of digits is found where the number is, and nowhere else."""
    wanted = str(int(day.rng.integers(1, 10)))
    forms = ["{}", "S {}", "S{}", "code {} x", "{}0", "1{}", "-{}", "{}.5", "{},5", "0.{}", "S {}1", "{}2{}"]
    texts = [f.format(wanted, wanted) for f in forms]
    take = day.take(200, seconds=200)
    marks = [(10 + 10 * i, 4, text) for i, text in enumerate(texts)]
    folder = day.folder("codes")
    study.edflib(folder / "codes.edf", take, texts=marks)
    alone = re.compile(rf"(?<![\d])(?<![-+.,]){wanted}(?!\d)(?![.,]\d)")
    want = [(float(at), at + 4.0) for at, _, text in marks if alone.search(text)]
    with day.check(f"--seizure {wanted}"):
        facts = day.rows("dataset", folder, "--labels", "edf-annotations", "--seizure", wanted)[0]
        assert facts["splits"]["all"]["seizures"] == len(want), (facts["splits"], facts["other_event_types"], want)
        numbers = day.folder("codes/numbers")
        codes = [int(wanted), 10 * int(wanted), 100 + int(wanted)]
        study.eeglab(numbers / "codes.set", take, "EEG", [(10 + 10 * i, 4, float(code)) for i, code in enumerate(codes)])
        facts = day.rows("dataset", numbers, "--labels", "edf-annotations", "--seizure", wanted)[0]
        assert facts["splits"]["all"]["seizures"] == 1, facts
        study.edflib(folder / "codes.edf", take)
        shutil.rmtree(numbers)
        (folder / "table.csv").write_text("file;onset;end;type\n" + "".join(f"codes;{at};{at + 4};\"{text}\"\n" for at, _, text in marks), encoding="utf-16")
        day.ctl("labels", "import", folder / "table.csv", folder, "--seizure", wanted)
        assert events_of_labels(folder / "codes_events.tsv") == want, (events_of_labels(folder / "codes_events.tsv"), want)


def events_of_labels(path):
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return [(float(r[0]), round(float(r[0]) + float(r[1]), 2)) for r in rows if r[2].startswith("sz")]


def check_ends(day):
    """An annotation that says an end nobody began is a note, not the end of the work."""
    take = day.take(256)
    path = study.brainvision(day.folder("ends") / "end.vhdr", take, [(5, 0, "seizure ends -Anna")])
    with day.check("a label without a begin"):
        out, err = day.ctl("stream", path, "--model", "line_length", *EASY, "--output", day.dir / "end.tsv")
        assert near(events_of(day.dir / "end.tsv")[0], take.seizures), (out, err)
        day.ctl("windows", path, "--window", "16", "--hop", "8")


def check_tables(day):
    """One table of seizures as people keep it, in Windows-1252 with decimal commas and clocks; times with a zone and types with a tab are errors."""
    folder, take = day.folder("tables"), day.take(256, n=2)
    study.edflib(folder / "M\u00fcller.edf", take)
    clock = lambda s: f"{int(s) // 3600}:{int(s) // 60 % 60:02d}:{s % 60:05.2f}".replace(".", ",")
    table = folder / "Anf\u00e4lle.csv"
    rows = "".join(f"M\u00fcller.edf;{clock(a)};{clock(b)};Gro\u00dfer Anfall\r\n" for a, b in take.seizures)
    table.write_text(f"Datei;Beginn;Ende;Art\r\n{rows}", encoding="cp1252")
    words = ["labels", "import", table, folder, "--file", "Datei", "--onset", "Beginn", "--end", "Ende", "--type", "Art", "--seizure", "anfall"]
    with day.check("a table in Windows-1252"):
        day.ctl(*words)
        assert near(events_of_labels(folder / "M\u00fcller_events.tsv"), take.seizures, 0.011), (folder / "M\u00fcller_events.tsv").read_text()
        (folder / "M\u00fcller_events.tsv").unlink()
    for what, row in (("a zone", "M\u00fcller.edf;2024-02-01 00:00:05+01:00;2024-02-01 00:00:15+01:00;Anfall"),
                      ("a tab in a cell", 'M\u00fcller.edf;5;15;"Anfall\tzwei"')):
        with day.check(what):
            table.write_text(f"Datei;Beginn;Ende;Art\r\n{row}\r\n", encoding="cp1252")
            out, err = day.ctl(*words, code=1)
            assert "2" in err and not (folder / "M\u00fcller_events.tsv").exists(), (out, err)


# ---- the network ----

def make_people(day, name, first, n):
    """n patients in formats that change from one to the next, and their labels in forms that do."""
    folder = day.folder(name)
    for k in range(n):
        take = day.take(int(day.rng.choice([256, 300])), seconds=60 if day.short else 120, n=2)
        stem, texts = folder / f"sub-{first + k:02d}" / f"sub-{first + k:02d}_run-01_eeg", texts_of(take)
        stem.parent.mkdir()
        write = (lambda: study.edflib(stem.with_suffix(".edf"), take, texts=texts), lambda: study.brainvision(stem.with_suffix(".vhdr"), take, texts),
                 lambda: study.eeglab(stem.with_suffix(".set"), take, "EEG", texts), lambda: study.persyst(stem.with_suffix(".lay"), take, texts))[k % 4]
        path, form = write(), ("bids-tsv", "tusz-csv_bi", "json", "mne")[(k + int(day.rng.integers(4))) % 4]
        scratch = day.dir / "forms" / name / str(k)
        made = dict(study.label_files(scratch, stem.name.removesuffix("_eeg") if form != "tusz-csv_bi" else stem.name, take))[form]
        shutil.move(made, stem.parent / made.name)
        yield path, take


def judged(people, found):
    """Scores by SzCORE's rules of what detect wrote, against what the writers were told."""
    recordings = []
    for path, take in people:
        labels = [(r.onset, r.onset + r.duration) for r in brr.read(path).seizures()]
        assert near(labels, take.seizures, 1e-6), (labels, take.seizures)
        hyp, duration = found[path.stem.removesuffix("_eeg")]
        assert duration == take.seconds(), (path, duration)
        recordings.append({"name": path.stem, "subject": path.stem.split("_")[0], "duration": duration, "ref": labels, "hyp": hyp})
    return szcore_reference.evaluate(recordings)


def same_scores(ours, theirs):
    for kind in szcore_reference.KINDS:
        for key, want in theirs[kind].items():
            got = math.nan if ours[kind][key] is None else ours[kind][key]
            assert abs(got - want) < 1e-6 * max(1, abs(want)) or math.isnan(got) and math.isnan(want), (kind, key, got, want)


def check_scores(day, folder, people):
    with day.check("score"):
        day.ctl("detect", folder, "--model", "line_length", *EASY, "--out", day.dir / "scored")
        score = day.rows("score", folder, day.dir / "scored")[0]
        want = judged(people, events_below(day.dir / "scored"))
        same_scores(score["pooled"], want["pooled"])
        same_scores(score["subject_mean"], want["subject_mean"])
        for subject, kinds in want["per_subject"].items():
            same_scores(score["per_subject"][subject], kinds)


def check_benchmark(day, folder, people, refs, out):
    """refs: model -> patients that it has seen."""
    with day.check("benchmark"):
        rows = day.rows("benchmark", folder, *[w for ref in refs for w in ("--model", ref)], "--out", day.dir / out, "--dataset", folder.name)
        assert [r["model"] for r in rows] == list(refs), rows
        for row, (ref, seen) in zip(rows, refs.items()):
            want = judged(people, events_below(day.dir / out / ref.replace(":", "-")))["pooled"]["event"]
            assert (row["seizures"], row["found"], row["false_events"]) == (want["ref"], want["tp"], want["fp"]), (row, want)
            assert abs(row["f1"] - want["f1"]) < 1e-9 and (row["patients_seen"], row["patients"]) == (seen, len(people)), (row, want)


def train(day, s3, folder, people):
    """A training that ends before its first step has learned nothing; it goes on to the end. The bucket has all recordings as EDF, which it
    holds back, beside their files of labels."""
    samples = {".edf", ".vhdr", ".vmrk", ".eeg", ".set", ".fdt", ".lay", ".dat"}
    for path in (p for p in folder.rglob("*") if p.is_file() and p.suffix not in samples):
        s3.objects[f"alpha/{path.relative_to(folder)}"] = path.read_bytes()
    for path, take in people:
        study.edflib(day.dir / "held.edf", take, texts=texts_of(take))
        s3.objects[f"alpha/{path.relative_to(folder).with_suffix('.edf')}"] = (day.dir / "held.edf").read_bytes()
    job = stopped(s3, day.d, "alpha", "data.dataset=alpha", "training.max_steps=6")
    ref = f"job:{job}"
    with day.check("nothing learned yet"):
        for words in (("detect", folder, "--model", ref, "--out", day.dir / "nothing"), ("checkpoint", "get", ref, "--out", day.dir / "nothing.safetensors"),
                      ("tune", ref, folder, "--out", day.dir / "nothing.safetensors"), ("export", ref, "--onnx", day.dir / "nothing.onnx")):
            out, err = day.ctl(*words, code=None)
            assert "nothing learned yet" in out + err, (words, out, err)
    with day.check("the exit status of an interrupted job"):
        out, err = day.ctl("watch", job, code=75)
        assert err.splitlines()[-1].endswith(f"go on with brrctl resume {job}"), (out, err)
    day.ctl("resume", job, "--set", "limits.wall_clock=none")
    end = day.d.wait(job, lambda j: j["state"] == "succeeded")
    with day.check("what was learned"):
        day.ctl("checkpoint", "get", ref, "--out", day.dir / "learned.safetensors")
        about = json.loads((raw := (day.dir / "learned.safetensors").read_bytes())[8:8 + struct.unpack_from("<Q", raw)[0]])["__metadata__"]
        assert int(about["brr.step"]) > 0, about
        assert end["kind"] == "train"
    return ref


def auroc_of(day, p, labels):
    if not day.short:
        try:
            from sklearn.metrics import roc_auc_score
            there = ~np.isnan(p)
            return float(roc_auc_score(labels[there], p[there]))
        except ImportError:
            if "scikit-learn" not in day.skipped:
                day.skip("scikit-learn")
    return ranks(p, labels)


def check_evaluate(day, folder, people, ref, **more):
    with day.check(f"evaluate on {folder.name}"):
        code, end, err = day.d.submit(f"data.source=file://{folder}", f"evaluate.checkpoint={ref}", "evaluate.plots=0", *more.get("sets", ()),
                                      file=f"{SOURCE}/configs/eval.yaml")
        assert code == 0, (end, err)
        results = pathlib.Path(f"{day.d.dir}/results/jobs/{end['job']}")
        report = json.loads((results / "report.json").read_text())
        want = judged(people, events_below(results / "events"))["pooled"]["event"]
        result = end["result"]
        assert (result["seizures"], result["found"], result["false_events"]) == (want["ref"], want["tp"], want["fp"]), (result, want)
        assert result["seen_patients"] == more["seen"] and result["patients"] == len(people), result
        all_p, all_labels = [], []
        for path, _ in people:
            day.ctl("stream", path, "--model", ref, "--output", day.dir / "x.tsv", "--probabilities", day.dir / "x.npy", "--force")
            all_p.append(np.load(day.dir / "x.npy").astype(np.float64))
            labels = np.zeros(len(all_p[-1]), bool)
            for row in brr.read(path).seizures():
                labels[round(row.onset * 256):round((row.onset + row.duration) * 256)] = True
            all_labels.append(labels)
        auroc = auroc_of(day, np.concatenate(all_p), np.concatenate(all_labels))
        assert abs(report["auroc"] - auroc) <= report["auroc_error_most"] + 1e-12, (report["auroc"], auroc, report["auroc_error_most"])
        assert abs(report["auroc"] - auroc) < (1e-3 if ref.startswith("job:") else 1e-5), (report["auroc"], auroc)  # few steps: all close to .5


def check_tune(day, folder, people, ref):
    with day.check("tune"):
        tuned = day.dir / "tuned.safetensors"
        code, out, err = day.d.ctl("tune", ref, str(folder), "--out", str(tuned), "--json")
        if code == 1 and "no pair of thresholds finds any of the" in err:  # some draws of so few steps tell nothing apart
            assert not out and not tuned.exists(), (out, err)
            return
        assert code == 0, err
        told = json.loads(out.splitlines()[-1])
        for name, model, row in (("before", ref, told["before"]), ("after", tuned, told)):
            day.ctl("detect", folder, "--model", model, "--out", day.dir / f"tune-{name}")
            want = judged(people, events_below(day.dir / f"tune-{name}"))["pooled"]["event"]
            assert (row["found"], row["false_events"]) == (want["tp"], want["fp"]), (name, row, want)
            listed = json.loads((day.dir / f"tune-{name}/.brrd-output.json").read_text())["model"]
            assert (listed["name"], listed["patients_seen"], listed["patients"]) == (str(model), len(people), len(people)), listed
            assert day.rows("score", folder, day.dir / f"tune-{name}")[0]["patients_seen"] == len(people)
            assert abs((row["event_f1"] or 0) - (0 if math.isnan(want["f1"]) else want["f1"])) < 1e-9, (name, row, want)


def check_export(day, people, ref):
    """The file in onnxruntime gives the logits of the network's graph, and those are the daemon's probabilities."""
    with day.check("export"):
        day.ctl("export", ref, "--onnx", day.dir / "model.onnx")
        assert (day.dir / "model.onnx").stat().st_size > 10000
    if day.short:
        return
    try:
        from npm import npm_modules
        from test_onnx import in_onnxruntime
        modules = npm_modules(f"{SOURCE}/tests/golden/onnx")
    except SystemExit:
        day.skip("onnxruntime")
        return
    with day.check("export in onnxruntime"):
        from brr import onnx
        path, take = people[0]
        graph, _ = onnx.graph_of(day.dir / "learned.safetensors")
        detector = brr.Detector(str(day.dir / "learned.safetensors"))
        rows = detector.rows(take.uv[:, :20 * take.rate].astype(np.float32), take.rate, study.LABELS)
        found, _ = in_onnxruntime(modules, str(day.dir / "model.onnx"), graph, rows)
        logits = found.reshape(rows.shape[:2]).astype(np.float64)
        first = 1 / (1 + np.exp(-logits[0]))
        hop = int(detector.hop_s * 256)
        want = detector.detect(take.uv[:, :20 * take.rate].astype(np.float32), take.rate, study.LABELS).probabilities[:hop]
        assert np.abs(first[:hop] - want).max() < 1e-4, np.abs(first[:hop] - want).max()


def check_predict(day):
    """Spectra of a spreadsheet, with semicolons and decimal commas: rules by SciPy."""
    at = [0, 10, 20, 40, 60]
    waves = np.arange(400, 460, 5)
    table = 0.1 + 0.3 * np.exp(-((waves[:, None] - 430) / 20) ** 2) * np.array([c / (c + 15) for c in at]) + 0.01 * day.rng.random((len(waves), len(at)))
    table = np.round(table, 6)
    path, comma = day.dir / "spectra.csv", lambda v: str(v).replace(".", ",")
    rows = "".join(f"{w};" + ";".join(comma(v) for v in row) + "\r\n" for w, row in zip(waves, table))
    path.write_text("Wellenl\u00e4nge;" + ";".join(f"{c} ppb" for c in at) + f"\r\n{rows}", encoding="cp1252")
    with day.check("predict"):
        code, end, err = day.d.submit(f"data.csv={path}", "training.epochs=4", "training.batch_wavelengths=5", file=f"{SOURCE}/configs/geodesic.yaml")
        assert code == 0, (end, err)
        ref, c = f"job:{end['job']}", float(day.rng.integers(11, 39))
        _, err = day.ctl("geodesic", "predict", ref, "--at", c, "--csv", day.dir / "network.csv")
        assert "--rule" in err, err
        rules = {"cubic_natural": scipy.interpolate.CubicSpline(at, table.T, bc_type="natural"),
                 "cubic_not_a_knot": scipy.interpolate.CubicSpline(at, table.T),
                 "pchip": scipy.interpolate.PchipInterpolator(at, table.T)}
        for rule, of in rules.items():
            day.ctl("geodesic", "predict", ref, "--at", c, "--rule", rule, "--csv", day.dir / f"{rule}.csv")
            got = np.loadtxt(day.dir / f"{rule}.csv", delimiter=",", skiprows=1)
            assert np.array_equal(got[:, 0], waves) and np.abs(got[:, 1] - of(c)).max() < 1e-6, (rule, np.abs(got[:, 1] - of(c)).max())


def check_network(day):
    alpha, beta = list(make_people(day, "alpha", 1, 3 if day.short else 6)), list(make_people(day, "beta", 1, 1 if day.short else 2))
    a, b = day.dir / "alpha", day.dir / "beta"
    check_scores(day, a, alpha)
    with day.check("validate"):
        sets = [*MINI, f"data.source=file://{a}", "training.max_steps=6"]
        facts = day.rows("validate", f"{SOURCE}/configs/tiny.yaml", *[w for s in sets for w in ("--set", s)])[0]
        hours = sum(take.seconds() for _, take in alpha) / 3600
        assert facts["recordings"] == len(alpha) and facts["steps"] == 6 and abs(float(facts["facts"]["hours"]) - hours) < 0.006, facts
    ref = train(day, day.s3, a, alpha)
    check_evaluate(day, b, beta, ref, seen=0, sets=["data.dataset=beta"])  # other people of the same names
    check_evaluate(day, b, beta, "line_length", seen=0)
    check_benchmark(day, a, alpha, {ref: len(alpha), "line_length": 0}, "compared-alpha")
    if not day.short:
        check_evaluate(day, a, alpha, ref, seen=len(alpha), sets=["data.dataset=alpha"])
        check_evaluate(day, b, beta, "ward", seen=0)
        check_evaluate(day, b, beta, ref, seen=len(beta))  # nobody says so
        check_benchmark(day, b, beta, {ref: 0, "ward": 0}, "compared-beta")
    check_tune(day, a, alpha, ref)
    check_export(day, alpha, ref)


PARTS = (check_recordings, check_gaps, check_units, check_parts, check_labels, check_codes, check_ends, check_tables, check_network, check_predict)


def used_s():
    return sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def run(day):
    with FakeS3() as day.s3:
        os.environ.update(day.s3.environment())
        day.d = Daemon(str(day.dir), [f"stores={{bucket: {{url: 's3://eeg', endpoint: '{day.s3.endpoint}', stall: 60s}}}}"]).start()
        for part in PARTS:
            day.part, began = part.__name__.removeprefix("check_"), time.monotonic()
            with day.check("to its end"):
                part(day)
            print(f"{day.part}: {time.monotonic() - began:.1f} s", flush=True)
        day.part = "end"
        with day.check("the daemon stops"):
            assert day.d.stop() == 0


def main():
    parser = argparse.ArgumentParser(description="A lab's day over recordings that no writer of brrd wrote.")
    parser.add_argument("--seed", type=int, default=test_seed())
    parser.add_argument("--short", action="store_true", help="one recording in each format, in a minute: the default of this program, not of ./dev day lab")
    parser.add_argument("--whole", action="store_true", help="all of it")
    o = parser.parse_args()
    o.short = o.short or not o.whole
    print(f"seed {o.seed}", flush=True)
    day = Day(o.seed, o.short, tempfile.mkdtemp(prefix="brr-day-"))
    for program, part in (("octave-cli", "Octave"), ("save2gdf", "BioSig")):
        if not o.short and not study.have(program):
            day.skip(part)
    run(day)
    print(f"{used_s():.0f} s of processor time")
    parts = ", ".join(f"{k} {n}" for k, n in day.checks.items())
    print(f"seed {o.seed}: {sum(day.checks.values())} checks ({parts}), {len(day.skipped)} parts skipped, {len(day.lost)} lost")
    for text in day.lost:
        print(f"lost: {text}")
    if day.lost:
        print(f"files kept: {day.dir}")
        return 1
    shutil.rmtree(day.dir)
    return 0


if __name__ == "__main__":
    sys.exit(main())
