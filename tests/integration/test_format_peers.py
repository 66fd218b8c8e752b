#!/usr/bin/env python3
"""Recordings of other formats than EDF through lib/formats, brr.read and MNE (Debian python3-mne): the same samples to one rounding of a float,
the same rate, names and annotations; a training on a folder of five formats leaves the weights of the same folder in EDF. The files are written here from the definitions of the formats; where the optional folder of small
recordings by other programs (BRR_FORMATS_DIR) is, those are compared too. Skips without MNE and NumPy."""
import datetime
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

SOURCE = os.environ.get("BRR_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
FOLDER = pathlib.Path(os.environ.get("BRR_FORMATS_DIR") or os.path.join(SOURCE, "..", "shared", "formats"))
BIN = os.environ.get("BRR_BIN", os.path.join(SOURCE, "build", "bin"))
BRRD, BRRCTL = os.path.join(BIN, "brrd"), os.path.join(BIN, "brrctl")
PROGRAM = os.path.join(os.environ.get("BRR_BUILD_DIR", os.path.join(SOURCE, "build")), "tests", "edf_samples")
try:
    import mne
    import numpy as np
    from package_reading import brr, check_reading
    mne.set_log_level("ERROR")
except ImportError:
    print("skipped: package: MNE (python3-mne) is not installed")
    sys.exit(77)

LABELS = ["Fp1", "F3", "C3", "P3", "O1"]
RATE, POINTS = 250, 5000
READERS = {".vhdr": mne.io.read_raw_brainvision, ".ahdr": mne.io.read_raw_brainvision, ".set": mne.io.read_raw_eeglab,
           ".lay": mne.io.read_raw_persyst, ".EEG": mne.io.read_raw_nihon, ".gdf": mne.io.read_raw_gdf}


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


def write_plain_brainvision(stem):
    samples().T.astype("<i2").tofile(stem + ".eeg")
    with open(stem + ".vhdr", "w", encoding="utf-8") as f:
        f.write("BrainVision Data Exchange Header File Version 1.0\n[Common Infos]\nDataFile=$b.eeg\nDataFormat=BINARY\nDataOrientation=MULTIPLEXED\n"
                f"NumberOfChannels={len(LABELS)}\nSamplingInterval={1e6 / RATE:g}\n[Binary Infos]\nBinaryFormat=INT_16\n[Channel Infos]\n" +
                "".join(f"Ch{i + 1}={n},,0.5,uV\n" for i, n in enumerate(LABELS)))
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


# ---- Persyst and Nihon Kohden ----

def write_persyst(stem, bits, times="", comments="", header=0, folder="", calibration=0.1953125):
    x = samples(3)
    with open(stem + ".dat", "wb") as f:
        f.write(b"\0" * header + x.T.astype("<i4" if bits == 32 else "<i2").tobytes())
    with open(stem + ".lay", "w", encoding="latin-1", newline="\r\n") as f:
        f.write(f"[FileInfo]\nFile={folder}{os.path.basename(stem)}.dat\nFileType=Interleaved\nSamplingRate={RATE}\nHeaderLength={header}\n"
                f"Calibration={calibration}\nWaveformCount={len(LABELS)}\nDataType={7 if bits == 32 else 0}\n[Patient]\nID=0\nBirthDate=19-NOV-97\n"
                "TestDate=2014.12.19\nTestTime=02:37:48\n[ChannelMap]\n" + "".join(f"{n}={i + 1}\n" for i, n in enumerate(LABELS)) +
                f"[SampleTimes]\n{times}[Comments]\n{comments}")
    return stem + ".lay"


def bcd(*values):
    return bytes(v // 10 << 4 | v % 10 for v in values)


def write_nihon(stem, blocks=((16, 0, 16), ), log=(), fine=(), name=b"X1", channels=(0, 1, 26, 42, 76)):
    """blocks: (hour, minute, second) of each; the samples are shared out among them."""
    version, rate = b"EEG-1100C V01.00", 200
    x = samples(4)[:, :4000]
    parts = np.split(x, len(blocks), axis=1)
    eeg = bytearray(0x17FE)
    eeg[:16], eeg[0x81:0x91], eeg[0x91] = version, version, 1
    eeg[0x92:0x96], eeg[0x400 + 17] = struct.pack("<I", 0x400), len(blocks)
    for j, ((h, m, s), part) in enumerate(zip(blocks, parts)):
        eeg[0x400 + 18 + 20 * j:0x400 + 22 + 20 * j] = struct.pack("<I", len(eeg))
        head = b"\1" + bytes(0x13) + bcd(19, 4, 3, h, m, s) + struct.pack("<HI", 0xC000 | rate, part.shape[1] * 10 // rate) + bytes(6) + bytes([len(channels)])
        assert len(head) == 0x27
        marked = np.vstack([part, np.zeros((1, part.shape[1]), int)])
        eeg += head + b"".join(bytes([c]) + bytes(9) for c in channels) + (marked.T + 0x8000).astype("<u2").tobytes()
    pathlib.Path(stem + ".EEG").write_bytes(eeg)
    if name:
        pathlib.Path(stem + ".21E").write_bytes(b"[ELECTRODE]\r\n0000=Fp2\r\n0001=Fp1\r\n0026=" + name + b"\r\n[OTHER]\r\n0042=no\r\n")
    entries = bytearray(0x2000)
    entries[:16], entries[0x91] = version, 1
    for at, rows in ((0, log), (22, fine)):
        place = 0x800 if not at else 0x1000
        entries[0x92 + 20 * at:0x96 + 20 * at] = struct.pack("<I", place)
        entries[place + 0x12] = len(rows)
        for i, row in enumerate(rows):
            entries[place + 0x14 + 45 * i:place + 0x14 + 45 * i + len(row)] = row
    pathlib.Path(stem + ".LOG").write_bytes(entries)
    pathlib.Path(stem + ".PNT").write_bytes(version + bytes(0x30) + b"20190403160016")
    return stem + ".EEG"


# ---- GDF ----

def write_gdf(stem, version="2.20", kind=3, per_record=1, events=(), mode=3, unit=4275, physical=(-3000, 3000), x=None, names=None, rate=None, codes=b""):
    """kind: of samples, by its number; events: (position from 1, code, signal, length); codes: their names, each with a NUL, that of 0 first."""
    x, names, rate = samples(6) if x is None else x, names or LABELS, rate or RATE
    n, points = x.shape
    types = {1: "<i1", 3: "<i2", 5: "<i4", 7: "<i8", 16: "<f4", 17: "<f8", 279: "i3"}
    start = int((738000 + 9.5 / 24) * 2**32)
    head = f"GDF {version}".encode().ljust(8) + b"P1 X".ljust(66) + bytes(14) + b"rec".ljust(64) + bytes(16) + struct.pack("<QQH", start, 0, n + 1 + bool(codes))
    head = head.ljust(236, b"\0") + struct.pack("<qIIHH", points // per_record, per_record, rate, n, 0)
    field = lambda code, values: b"".join(struct.pack("<" + code, v) for v in values)
    head += b"".join(s.encode().ljust(16, b"\0") for s in names) + bytes(86 * n) + field("H", [unit] * n)
    head += field("d", [physical[0]] * n) + field("d", [physical[1]] * n) + field("d", [-32768] * n) + field("d", [32767] * n) + bytes(80 * n)
    head += field("I", [per_record] * n) + field("I", [kind] * n) + bytes(32 * n)
    head += (b"\1" + struct.pack("<I", len(codes))[:3] + codes).ljust(256, b"\0") if codes else b""
    blocks = x.reshape(n, -1, per_record).transpose(1, 0, 2)
    data = blocks.astype("<i4")[..., None].view("u1").reshape(-1, 4)[:, :3].tobytes() if kind == 279 else blocks.astype(types[kind]).tobytes()
    early = float(version) < 1.94
    table = bytes([mode]) + (struct.pack("<I", rate)[:3] + struct.pack("<I", len(events)) if early else struct.pack("<I", len(events))[:3] + struct.pack("<f", rate))
    columns = list(zip(*events)) or [()] * 4
    table += field("I", columns[0]) + field("H", columns[1]) + (field("H", columns[2]) + field("I", columns[3]) if mode & 2 else b"") + bytes(8 * len(events) if mode & 4 else 0)
    pathlib.Path(stem + ".gdf").write_bytes(head + data + table)
    return stem + ".gdf"


# ---- the same recording in EDF ----

def write_edf(path, x, rate, low, high):
    n, points = x.shape
    field = lambda values, width: "".join(str(v).ljust(width) for v in values)
    head = field(["0"], 8) + " " * 160 + "01.01.2000.00.00" + field([256 * (n + 1)], 8) + " " * 44 + field([points // rate], 8) + field([1], 8) + field([n], 4)
    head += field(NAMES, 16) + " " * 80 * n + field(["uV"] * n, 8) + field([low] * n, 8) + field([high] * n, 8) + field([-32768] * n, 8) + field([32767] * n, 8)
    head += " " * 80 * n + field([rate] * n, 8) + " " * 32 * n
    with open(path, "wb") as f:
        f.write(head.encode() + x.reshape(n, points // rate, rate).transpose(1, 0, 2).astype("<i2").tobytes())


NAMES = ["FP1", "FP2", "F3", "F4", "C3", "C4", "P3", "P4", "O1", "O2", "F7", "F8", "T3", "T4", "T5", "T6", "FZ", "CZ", "PZ"]


# ---- comparison ----

def tensor(path):
    raw = pathlib.Path(path).read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    begin, end = json.loads(raw[8:8 + n])["x"]["data_offsets"]
    return raw[8 + n + begin:8 + n + end]


def read(path, scratch):
    out = os.path.join(scratch, "samples.bin")
    r = subprocess.run([PROGRAM, str(path), out], check=True, capture_output=True, text=True)
    facts = json.loads(r.stdout)
    x = None if "error" in facts else np.fromfile(out, "<f4").reshape(len(facts["signals"]), -1)
    check_reading(str(path), facts, x)
    return facts, x


class Peers(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.stem = os.path.join(self.scratch.name, "rec")

    def compare(self, path, names=True, atol=1e-9):
        facts, x = read(path, self.scratch.name)
        self.assertNotIn("error", facts, path)
        raw = READERS[os.path.splitext(path)[1]](str(path), preload=True)
        d = raw.get_data() * 1e6
        self.assertEqual(x.shape, d.shape, path)
        self.assertTrue(np.all(np.abs(x - d) <= atol + 1.2e-7 * np.abs(d)), (path, np.abs(x - d).max()))
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

    def test_samples_in_a_tag_and_an_empty_array_of_any_size(self):
        data = matrix(6, (1, 2), small(3, struct.pack("<hh", -5, 7)))  # four bytes lie in the tag of their element
        empty = matrix(6, (0, 2**31 - 1, 2**31 - 1, 2**31 - 1), element(9, b""))
        fields = {"nbchan": number(1), "trials": number(1), "pnts": number(2), "srate": number(RATE), "icaact": numbers(np.zeros((0, 0))), "data": data}
        for compressed in (False, True):
            for name, array, said in (("icaact", fields["icaact"], None), ("icaact", empty, None),  # which nobody reads
                                      ("event", empty, "the dimensions of an array")):
                with open(self.stem + ".set", "wb") as f:
                    f.write(b"MATLAB 5.0 MAT-file, written by a test".ljust(124) + struct.pack("<H", 0x100) + b"IM")
                    changed = {**fields, name: array}
                    f.write(variable(structs(list(changed), [list(changed.values())], b"EEG"), compressed))
                facts, x = read(self.stem + ".set", self.scratch.name)
                if said:
                    self.assertIn(said, facts["error"])
                else:
                    self.assertEqual(x.tolist(), [[-5, 7]])

    def test_epochs_and_hdf5_are_named(self):
        path = write_eeglab(self.stem, "f4")
        whole = pathlib.Path(path).read_bytes()
        with open(path, "wb") as f:
            f.write(b"MATLAB 7.3 MAT-file, Platform".ljust(124) + struct.pack("<H", 0x200) + b"IM" + whole[128:])
        facts, _ = read(path, self.scratch.name)
        self.assertIn("'version', '6'", facts["error"])

    def test_persyst(self):
        comments = "1.5,2.0,0,100,seizure, left\n3.0,0.0,0,100,other\n"
        for bits in (16, 32):
            facts, raw = self.compare(write_persyst(self.stem, bits, comments=comments), names=False)
            self.assertEqual([s["label"].upper() for s in facts["signals"]], raw.ch_names)
            self.assertEqual(facts["annotations"], [[1.5, 2, "seizure, left"], [3, None, "other"]])
            self.assertEqual([(a["onset"], a["description"]) for a in raw.annotations], [(o, t) for o, _, t in facts["annotations"]])
            self.assertEqual(facts["start"], raw.info["meas_date"].strftime("%Y-%m-%d %H:%M:%S"))

    def test_sample_times_of_persyst_are_gaps(self):
        facts, x = read(write_persyst(self.stem, 16, times="0=86395.0\n1000=86399.01\n2000=33.01\n", header=100, folder="C:\\Data\\some where\\"), self.scratch.name)
        self.assertEqual(facts["segments"], [[0, 2000, 0], [2000, 3000, 38]])
        self.assertTrue(np.array_equal(x, (samples(3) * 0.1953125).astype("f4")))

    def test_nihon_kohden(self):
        log = [b"seizure start".ljust(20, b"\0") + b"000012(190403160028)", b"end".ljust(20, b"\0") + b"000015(190403160031)"]
        facts, raw = self.compare(write_nihon(self.stem, log=log, fine=[bytes(24) + b"500000"]), names=False)
        self.assertEqual([s["label"] for s in facts["signals"]], ["Fp2", "Fp1", "X1", "DC01", "Mark1"])
        self.assertEqual(facts["annotations"], [[12.5, None, "seizure start"], [15, None, "end"]])
        self.assertEqual([a["description"] for a in raw.annotations], ["seizure start", "end"])
        self.assertEqual(facts["start"], raw.info["meas_date"].strftime("%Y-%m-%d %H:%M:%S"))

    def test_a_name_in_latin_1(self):  # which MNE takes for an input of volts
        facts, x = read(write_nihon(self.stem, name=b"\xb5X"), self.scratch.name)
        self.assertEqual(facts["signals"][2]["label"], "\u00b5X")
        self.assertAlmostEqual(facts["signals"][2]["gain"], 6399.902 / 65535, 12)

    def test_blocks_of_nihon_kohden_are_apart_by_their_clock(self):
        facts, raw = self.compare(write_nihon(self.stem, blocks=((16, 0, 16), (16, 0, 26), (16, 2, 0), (16, 2, 5))), names=False)
        self.assertEqual(facts["segments"], [[0, 1000, 0], [1000, 1000, 10], [2000, 2000, 104]])

    def test_gdf(self):
        events = [(251, 769, 0, 500), (1001, 770, 2, 25)]
        for version, kind, per_record in (("2.20", 3, 1), ("1.99", 16, 250), ("1.93", 5, 50), ("2.51", 17, 1), ("2.00", 7, 125)):
            for mode in (1, 3):
                facts, raw = self.compare(write_gdf(self.stem, version, kind, per_record, events, mode), atol=1e-4 if kind == 16 else 1e-9)  # MNE scales floats as floats
                self.assertEqual([(round(o, 6), t) for o, _, t in facts["annotations"]], [(round(a["onset"], 6), str(a["description"])) for a in raw.annotations])
                self.assertEqual([d for _, d, _ in facts["annotations"]], [2, 0.1] if mode == 3 else [None, None])
                theirs = raw.info["meas_date"] + datetime.timedelta(milliseconds=1)  # a stamp is 2^-32 of a day, and MNE cuts it to microseconds
                self.assertEqual(facts["start"], theirs.strftime("%Y-%m-%d %H:%M:%S"))

    def test_durations_of_gdf_are_doubles_from_2_21_on(self):  # MNE reads integers there
        whole = bytearray(pathlib.Path(write_gdf(self.stem, "2.51")).read_bytes())
        for rate in (RATE, 49, 256, 300, 1000 / 3, 0.125):
            whole[244:252] = struct.pack("<d", 1 / rate)
            pathlib.Path(self.stem + ".gdf").write_bytes(whole)
            facts, x = read(self.stem + ".gdf", self.scratch.name)
            self.assertEqual((x.shape[1], facts["signals"][0]["rate"]), (POINTS, rate))

    def test_names_and_times_of_events_of_gdf(self):  # as BioSig writes them; MNE does not read these modes
        events = [(251, 1, 0, 500), (1001, 770, 2, 25), (1501, 3, 0, 0)]
        for mode in (5, 7):
            facts, _ = read(write_gdf(self.stem, events=events, mode=mode, codes=b"\0Anfall\0\0\xc3\x84rger\0\0"), self.scratch.name)
            lengths = [2, 0.1, None] if mode == 7 else [None] * 3
            self.assertEqual(facts["annotations"], [[1, lengths[0], "Anfall"], [4, lengths[1], "770"], [6, lengths[2], "\u00c4rger"]])
        facts, _ = read(write_gdf(self.stem, events=events, codes=b"\0Anfall"), self.scratch.name)  # cut
        self.assertEqual([t for _, _, t in facts["annotations"]], ["Anfall", "770", "3"])

    def test_24_bits_of_gdf(self):  # which MNE does not read
        self.assertTrue(np.array_equal(*(read(write_gdf(self.stem, kind=kind, per_record=10), self.scratch.name)[1] for kind in (5, 279))))

    def test_parts_of_gdf_that_are_wrong_are_named(self):
        whole = pathlib.Path(write_gdf(self.stem, events=[(1, 769, 0, 5)])).read_bytes()
        for at, value, said in ((4, b"1.25", "GDF 1.25 is not read"), (252, b"\0\0", "expected numbers above 0"), (244, b"\0" * 4, "expected numbers above 0"),
                                (256 + 220 * 5, b"\x63\0\0\0", "samples of type 99"),
                                (len(whole) - 19, b"\2", "has 2 events in")):
            pathlib.Path(self.stem + ".gdf").write_bytes(whole[:at] + value + whole[at + len(value):])
            self.assertIn(said, read(self.stem + ".gdf", self.scratch.name)[0]["error"])
        pathlib.Path(self.stem + ".gdf").write_bytes(whole[:1536 + 5 * 2 * 100 + 7])  # cut within a record
        facts, x = read(self.stem + ".gdf", self.scratch.name)
        self.assertEqual((x.shape[1], facts["annotations"]), (100, []))

    def test_another_table_of_events_of_gdf_is_left_out_by_name(self):
        path = write_gdf(self.stem, x=samples(7)[[0] * len(NAMES)], names=NAMES, events=[(1, 769, 0, 5)], mode=2)
        facts, x = read(path, self.scratch.name)
        self.assertEqual((x.shape[1], facts["annotations"]), (POINTS, []))
        r = subprocess.run([BRRCTL, "dataset", path, "--json", "--unlabeled", "background"], check=True, capture_output=True, text=True)
        self.assertEqual(json.loads(r.stdout)["notes"], ["rec.gdf: its table of 1 events has the mode 2, not 1, 3, 5 or 7, and was left out"])

    def learned(self, recordings):
        """The weights that two steps on these recordings leave, the events that the model finds in them, and their scores. A recording is named by
        its stem, its files by (source, ending)."""
        folder, run = (tempfile.mkdtemp(dir=self.scratch.name) for _ in range(2))
        for stem, files in recordings.items():
            for source, ending in files:
                shutil.copyfile(os.path.join(self.scratch.name, source), os.path.join(folder, stem + ending))  # links to one file are one recording
            pathlib.Path(folder, stem + "_events.tsv").write_text("onset\tduration\teventType\n8\t6\tsz\n", encoding="utf-8")
        call = lambda *words: subprocess.run(words, check=True, capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": run}).stdout
        sets = [f"data.source=file://{folder}", "data.window_s=16", "data.hop_s=2", "data.validation_fraction=0", "training.max_steps=2", "training.batch_size=4",
                "model.encoder_channels=[8,8,8,16]", "model.rescnn_blocks=1", "model.mamba_layers=1", "model.headdim=8", "model.d_state=4", "events.threshold=fixed"]
        call(BRRD, "run", os.path.join(SOURCE, "configs", "tiny.yaml"), "--directory", run, *(word for one in sets for word in ("--set", one)))
        model = next(pathlib.Path(run).rglob("step-*2.safetensors"))
        raw, found = model.read_bytes(), os.path.join(run, "job", "events")
        header = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])
        job = {"kind": "detect", "data": {"source": f"file://{folder}"}, "detect": {"model": str(model), "on": 0.05, "off": 0.03}}
        pathlib.Path(run, "detect.yaml").write_text(json.dumps(job), encoding="utf-8")
        call(BRRD, "run", os.path.join(run, "detect.yaml"), "--directory", os.path.join(run, "job"))
        detector = brr.Detector(str(model))
        for stem, files in recordings.items():
            path = os.path.join(folder, stem + files[0][1])
            read, saved = brr.read(path), os.path.join(run, "saved.tsv")
            detector.detect(read, on=0.05, off=0.03).save(saved, read.seconds)
            ours, theirs = (pathlib.Path(p).read_text(encoding="utf-8").splitlines() for p in (saved, os.path.join(found, stem + "_events.tsv")))
            self.assertEqual([line.split("\t")[:4] for line in ours], [line.split("\t")[:4] for line in theirs], stem)
            self.assertEqual(read.seizures().tolist()[0][:3], (8, 6, "sz"))
        events = {stem: [line.split("\t")[:4] for line in pathlib.Path(found, stem + "_events.tsv").read_text(encoding="utf-8").splitlines()] for stem in recordings}
        score = json.loads(call(BRRCTL, "score", folder, found, "--json"))
        return {name: at["data_offsets"] for name, at in header.items() if name != "__metadata__"}, raw[8 + struct.unpack("<Q", raw[:8])[0]:], events, score

    def test_a_network_is_fed_the_same_in_every_format(self):
        global LABELS, POINTS, RATE, samples
        old = LABELS, POINTS, RATE, samples
        x = np.random.default_rng(5).integers(-3000, 3000, (len(NAMES), 200 * 20)).cumsum(axis=1) % 6001 - 3000
        try:
            LABELS, RATE, POINTS = NAMES, 200, x.shape[1]
            samples = lambda seed=0: x * 0.5 if seed == 2 else x  # EEGLAB stores microvolts
            folder, windows = self.scratch.name, {}
            write_edf(os.path.join(folder, "a.edf"), x, RATE, -16384, 16383.5)
            write_edf(os.path.join(folder, "n.edf"), x, RATE, -3200, 3199.902)
            paths = [os.path.join(folder, name) for name in ("a.edf", "n.edf")]
            paths += [write_plain_brainvision(os.path.join(folder, "b")), write_eeglab(os.path.join(folder, "e"), "fdt"), write_eeglab(os.path.join(folder, "f"), "f8", True)]
            paths += [write_persyst(os.path.join(folder, "p"), 32, calibration=0.5), write_nihon(os.path.join(folder, "k"), channels=tuple(range(19)), name=None)]
            paths.append(write_gdf(os.path.join(folder, "g"), per_record=RATE, physical=(-16384, 16383.5), x=x, names=NAMES, rate=RATE))
            for path in paths:
                out = os.path.join(folder, "windows.safetensors")
                subprocess.run([BRRCTL, "windows", path, "--montage", "referential-19", "--out", out], check=True, capture_output=True)
                windows[os.path.basename(path)] = tensor(out)
            for name in ("b.vhdr", "e.set", "f.set", "p.lay", "g.gdf"):
                self.assertTrue(windows[name] == windows["a.edf"], name)
            self.assertTrue(windows["k.EEG"] == windows["n.edf"])
            self.assertFalse(windows["a.edf"] == windows["n.edf"])
            r = subprocess.run([BRRCTL, "dataset", folder, "--json"], check=False, capture_output=True, text=True)
            self.assertEqual(json.loads(r.stdout)["files"], len(paths), r.stdout + r.stderr)
            mixed = {"b": (".vhdr", ".eeg"), "e": (".set", ".fdt"), "p": (".lay", ".dat"), "g": (".gdf",), "k": (".EEG", ".LOG", ".PNT")}
            mixed, plain = (self.learned(recordings) for recordings in (
                {n: [(f"{n}{ending}", ending) for ending in endings] for n, endings in mixed.items()},
                {n: [("n.edf" if n == "k" else "a.edf", ".edf")] for n in mixed}))
            self.assertEqual(mixed, plain)
            self.assertTrue(any(row[2].startswith("sz") for rows in plain[2].values() for row in rows[1:]), plain[2])
        finally:
            LABELS, POINTS, RATE, samples = old

    @unittest.skipUnless(FOLDER.is_dir(), "data: no recordings of other formats (BRR_FORMATS_DIR)")
    def test_recordings_of_other_programs(self):
        for path in sorted(FOLDER.rglob("*")):
            if path.suffix in READERS and "_h5" not in path.name and "_hdf5" not in path.name:
                with self.subTest(path.name):
                    floats = path.suffix == ".gdf"  # which MNE scales as floats of 32 bits
                    self.compare(str(path), names=path.suffix not in (".set", ".lay"), atol=1e-4 if floats else 1e-9)  # MNE changes names of these


if __name__ == "__main__":
    unittest.main(verbosity=2)
