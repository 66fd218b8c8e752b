#!/usr/bin/env python3
"""Recordings of other formats than EDF through lib/formats and through MNE (Debian python3-mne): the same samples to one rounding of a float,
the same rate, names and annotations. The files are written here from the definitions of the formats; where the optional folder of small
recordings by other programs (BRR_FORMATS_DIR) is, those are compared too. Skips without MNE and NumPy."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

SOURCE = os.environ.get("BRR_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
FOLDER = pathlib.Path(os.environ.get("BRR_FORMATS_DIR") or os.path.join(SOURCE, "..", "shared", "formats"))
PROGRAM = os.path.join(os.environ.get("BRR_BUILD_DIR", os.path.join(SOURCE, "build")), "tests", "edf_samples")
try:
    import mne
    import numpy as np
    mne.set_log_level("ERROR")
except ImportError:
    print("skipped: package: MNE (python3-mne) is not installed")
    sys.exit(77)

LABELS = ["Fp1", "F3", "C3", "P3", "O1"]
RATE, POINTS = 250, 5000
READERS = {".vhdr": mne.io.read_raw_brainvision, ".ahdr": mne.io.read_raw_brainvision, ".set": mne.io.read_raw_eeglab}


def samples(seed=1):
    return np.random.default_rng(seed).integers(-3000, 3000, (len(LABELS), POINTS))


# ---- BrainVision ----

def write_brainvision(stem, kind, orientation, markers=True):
    x = samples()
    types = {"INT_16": "<i2", "INT_32": "<i4", "IEEE_FLOAT_32": "<f4"}
    resolutions = ["0.1", "0.5", "", "1", "0.0488281"]
    units = ["\u00b5V", "uV", "\u00b5V", "mV", ""]
    values = x.astype(types[kind])
    (values if orientation == "VECTORIZED" else values.T).tofile(stem + ".eeg")
    channels = "".join(f"Ch{i + 1}={n}\\1a,,{r},{u}\n" for i, (n, r, u) in enumerate(zip(LABELS, resolutions, units)))
    with open(stem + ".vhdr", "w", encoding="utf-8") as f:
        f.write("Brain Vision Data Exchange Header File Version 1.0\n\n[Common Infos]\nCodepage=UTF-8\n"
                f"DataFile={os.path.basename(stem)}.eeg\n" + (f"MarkerFile={os.path.basename(stem)}.vmrk\n" if markers else "") +
                f"DataFormat=BINARY\nDataOrientation={orientation}\nNumberOfChannels={len(LABELS)}\nSamplingInterval={1e6 / RATE:g}\n"
                f"DataPoints={POINTS}\n\n[Binary Infos]\nBinaryFormat={kind}\n\n[Channel Infos]\n" + channels)
    if markers:
        with open(stem + ".vmrk", "w", encoding="utf-8") as f:
            f.write("Brain Vision Data Exchange Marker File, Version 1.0\n\n[Common Infos]\nCodepage=UTF-8\n"
                    f"DataFile={os.path.basename(stem)}.eeg\n\n[Marker Infos]\nMk1=New Segment,,1,1,0,20240131120001500000\n"
                    "Mk2=Comment,seizure,251,500,0\nMk3=Stimulus,S  1,1001,1,0\n")
    return stem + ".vhdr"


# ---- MAT 5, as the definition of the format says ----

def element(kind, data):
    return struct.pack("<II", kind, len(data)) + data + b"\0" * (-len(data) % 8)


def small(kind, data):
    return struct.pack("<HH", kind, len(data)) + data.ljust(4, b"\0") if 0 < len(data) <= 4 else element(kind, data)


def matrix(cls, dims, body, name=b""):
    return element(14, element(6, struct.pack("<II", cls, 0)) + element(5, struct.pack(f"<{len(dims)}i", *dims)) + small(1, name) + body)


def text(s, name=b""):
    return matrix(4, (1, len(s)), small(16, s.encode("utf-8")) if s else element(16, b""), name)


def numbers(a, name=b""):
    a = np.atleast_2d(np.asarray(a))
    code, cls = {"f4": (7, 7), "f8": (9, 6), "i2": (3, 10)}[a.dtype.str[1:]]
    return matrix(cls, a.shape, small(code, a.T.tobytes()), name)


def number(v):
    return numbers(np.array([[v]], "<f8"))


def structs(fields, rows, name=b""):
    names = b"".join(f.encode().ljust(32, b"\0") for f in fields)
    body = small(5, struct.pack("<i", 32)) + element(1, names) + b"".join(v for row in rows for v in row)
    return matrix(2, (1, len(rows)), body, name)


def variable(element_bytes, compressed):
    if not compressed:
        return element_bytes
    packed = zlib.compress(element_bytes)
    return struct.pack("<II", 15, len(packed)) + packed


def write_eeglab(stem, where, compressed=False, flat=False, events=()):
    """where: "fdt", "f4", "f8", or "i2": numbers stored as small as they allow, as MATLAB does for doubles."""
    x = samples(2)
    if where == "fdt":
        x.T.astype("<f4").tofile(stem + ".fdt")
        data = text(os.path.basename(stem) + ".fdt")
    elif where == "i2":
        data = matrix(6, x.shape, element(3, x.T.astype("<i2").tobytes()))
    else:
        data = numbers(x.astype("<" + where))
    chanlocs = structs(["labels", "type"], [[text(n), text("EEG")] for n in LABELS])
    event = structs(["type", "latency", "duration"], [[text(t), number(at), number(n)] for t, at, n in events])
    fields = {"setname": text("x"), "nbchan": number(len(LABELS)), "trials": number(1), "pnts": number(POINTS), "srate": number(RATE), "xmin": number(0),
              "xmax": number((POINTS - 1) / RATE), "times": numbers(np.zeros((0, 0))), "icawinv": numbers(np.zeros((0, 0))), "icaweights": numbers(np.zeros((0, 0))),
              "icasphere": numbers(np.zeros((0, 0))), "icaact": numbers(np.zeros((0, 0))), "data": data, "chanlocs": chanlocs,
              "event": event, "epoch": numbers(np.zeros((0, 0))), "ref": text("common")}
    with open(stem + ".set", "wb") as f:
        f.write(b"MATLAB 5.0 MAT-file, written by a test".ljust(124) + struct.pack("<H", 0x100) + b"IM")
        if flat:
            for name, value in fields.items():  # the same element with a name
                f.write(variable(rename(value[8:], name), compressed))
        else:
            f.write(variable(structs(list(fields), [list(fields.values())], b"EEG"), compressed))
    return stem + ".set"


def rename(body, name):
    """An array without a name, given as its inner bytes, with one."""
    flags, rest = body[:16], body[16:]
    n = struct.unpack("<I", rest[4:8])[0]
    dims_bytes = 8 + n + (-n % 8)
    dims, rest = rest[:dims_bytes], rest[dims_bytes:]
    assert rest[:8] == struct.pack("<II", 1, 0)
    return element(14, flags + dims + small(1, name.encode()) + rest[8:])


# ---- comparison ----

def read(path, scratch):
    out = os.path.join(scratch, "samples.bin")
    r = subprocess.run([PROGRAM, str(path), out], check=True, capture_output=True, text=True)
    facts = json.loads(r.stdout)
    return facts, None if "error" in facts else np.fromfile(out, "<f4").reshape(len(facts["signals"]), -1)


class Peers(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.stem = os.path.join(self.scratch.name, "rec")

    def compare(self, path, names=True):
        facts, x = read(path, self.scratch.name)
        self.assertNotIn("error", facts, path)
        raw = READERS[os.path.splitext(path)[1]](str(path), preload=True)
        d = raw.get_data() * 1e6
        self.assertEqual(x.shape, d.shape, path)
        self.assertTrue(np.all(np.abs(x - d) <= 1e-9 + 1.2e-7 * np.abs(d)), (path, np.abs(x - d).max()))
        self.assertAlmostEqual(facts["signals"][0]["rate"], raw.info["sfreq"], 9)
        if names:
            self.assertEqual([s["label"] for s in facts["signals"]], raw.ch_names)
        return facts, raw

    def test_brainvision(self):
        for kind in ("INT_16", "INT_32", "IEEE_FLOAT_32"):
            for orientation in ("MULTIPLEXED", "VECTORIZED"):
                facts, raw = self.compare(write_brainvision(self.stem, kind, orientation))
                theirs = [(a["onset"], a["duration"], a["description"].split("/")[1]) for a in raw.annotations if not a["description"].startswith("New Seg")]
                self.assertEqual([(round(o, 6), t) for o, _, t in facts["annotations"]], [(round(o, 6), t) for o, _, t in theirs])
                self.assertEqual(facts["annotations"][0][1], theirs[0][1])
                self.assertEqual(facts["start"], raw.info["meas_date"].strftime("%Y-%m-%d %H:%M:%S"))

    def test_eeglab(self):
        events = [("seizure", 251, 500), ("square", 1000.5, 1)]
        for where in ("fdt", "f4", "f8", "i2"):
            for compressed in (False, True):
                for flat in (False, True):
                    facts, raw = self.compare(write_eeglab(self.stem, where, compressed, flat, events))
                    theirs = [(a["onset"], a["description"]) for a in raw.annotations]
                    self.assertEqual([(round(o, 6), t) for o, _, t in facts["annotations"]], [(round(o, 6), t) for o, t in theirs])
                    self.assertEqual(facts["annotations"][0][1], 2)

    def test_a_boundary_is_a_gap(self):
        facts, _ = read(write_eeglab(self.stem, "f4", events=[("boundary", 1000.5, 2500), ("seizure", 1251, 250)]), self.scratch.name)
        self.assertEqual(facts["segments"], [[0, 1000, 0], [1000, 4000, 14]])
        self.assertEqual(facts["annotations"], [[15, 1, "seizure"]])

    def test_epochs_and_hdf5_are_named(self):
        path = write_eeglab(self.stem, "f4")
        whole = pathlib.Path(path).read_bytes()
        with open(path, "wb") as f:
            f.write(b"MATLAB 7.3 MAT-file, Platform".ljust(124) + struct.pack("<H", 0x200) + b"IM" + whole[128:])
        facts, _ = read(path, self.scratch.name)
        self.assertIn("'version', '6'", facts["error"])

    @unittest.skipUnless(FOLDER.is_dir(), "data: no recordings of other formats (BRR_FORMATS_DIR)")
    def test_recordings_of_other_programs(self):
        for path in sorted(FOLDER.rglob("*")):
            if path.suffix in READERS and "_h5" not in path.name and "_hdf5" not in path.name:
                with self.subTest(path.name):
                    self.compare(str(path), names=path.suffix != ".set")  # MNE names channels without a place in its own way


if __name__ == "__main__":
    unittest.main(verbosity=2)
