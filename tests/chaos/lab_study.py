"""Recordings that no writer of brrd wrote: EDF+ and BDF+ by EDFlib, GDF and BDF by BioSig's save2gdf, EEGLAB sets by SciPy's savemat with the
dictionaries of eeglabio and mnelab and by Octave's `save -v7`, BrainVision and Persyst by hand from their specifications; and label files of
every form. Samples are whole microvolts, so that every format holds the same numbers."""
import ctypes
import ctypes.util
import datetime
import json
import pathlib
import shutil
import subprocess

import numpy as np
import scipy.io

LABELS = "Fp1 F3 C3 P3 F7 T3 T5 O1 Fz Cz Pz Fp2 F4 C4 P4 F8 T4 T6 O2".split()
START = datetime.datetime(2024, 1, 31, 23, 58, 30)
EDFLIB = ctypes.util.find_library("edf")
EDF_PLUS, BDF_PLUS = 1, 3


class Take:
    """uv: whole numbers (channels, samples); seizures: (onset, end) in seconds of the recording, gaps counted; gaps: (sample, seconds that are missing
    before it)."""

    def __init__(self, rng, rate, seconds, seizures, gaps=(), rhythm_uv=150):
        self.rate, self.seizures, self.gaps = rate, seizures, list(gaps)
        self.uv = np.rint(rng.normal(0, 8, (len(LABELS), rate * seconds))).astype(np.int32)
        t = self.times()
        wave = np.rint(rhythm_uv * np.sign(np.sin(2 * np.pi * 3 * t))).astype(np.int32)
        wave[~np.any([(t >= a) & (t < b) for a, b in seizures] or [t < 0], axis=0)] = 0
        self.uv += np.rint(np.linspace(-1, 1, len(LABELS))[:, None] * wave).astype(np.int32)

    def times(self):
        """Seconds of the recording of each sample."""
        t = np.arange(self.uv.shape[1]) / self.rate
        for sample, missing in self.gaps:
            t[sample:] += missing
        return t

    def seconds(self):
        """From the first sample to the end of the last."""
        return self.uv.shape[1] / self.rate + sum(missing for _, missing in self.gaps)

    def starts(self):
        """(first sample, seconds of the recording) of each segment."""
        return [(0, 0.0)] + [(sample, self.times()[sample]) for sample, _ in self.gaps]


def edflib(path, take, kind=EDF_PLUS, texts=()):
    """texts: (onset, duration or None, text)."""
    lib, n = ctypes.CDLL(EDFLIB), len(LABELS)
    handle = lib.edfopen_file_writeonly(str(path).encode(), kind, n)
    assert handle >= 0, (path, handle)
    most = 32767 if kind == EDF_PLUS else 8388607
    for i, name in enumerate(LABELS):
        ok = lib.edf_set_samplefrequency(handle, i, take.rate), lib.edf_set_label(handle, i, name.encode()), \
            lib.edf_set_physical_dimension(handle, i, b"uV"), lib.edf_set_physical_maximum(handle, i, ctypes.c_double(most)), \
            lib.edf_set_physical_minimum(handle, i, ctypes.c_double(-most - 1)), lib.edf_set_digital_maximum(handle, i, most), \
            lib.edf_set_digital_minimum(handle, i, -most - 1)
        assert not any(ok), ok
    assert not lib.edf_set_startdatetime(handle, *START.timetuple()[:6])
    for second in range(take.uv.shape[1] // take.rate):
        block = np.ascontiguousarray(take.uv[:, second * take.rate:(second + 1) * take.rate], np.int32)
        assert not lib.edf_blockwrite_digital_samples(handle, block.ctypes.data_as(ctypes.c_void_p))
    for onset, duration, text in texts:
        lasts = -1 if duration is None else round(duration * 1e4)
        assert not lib.edfwrite_annotation_utf8(handle, ctypes.c_longlong(round(onset * 1e4)), ctypes.c_longlong(lasts), text.encode())
    assert not lib.edfclose_file(handle)
    return path


def biosig(source, kind, path):
    r = subprocess.run(["save2gdf", f"-f={kind}", str(source), str(path)], capture_output=True, text=True)
    assert r.returncode == 0 and path.exists(), (path, r.stdout, r.stderr)
    return path


def eeglab_fields(take, name, form, texts):
    """What eeglabio ("fields", variables of their own) and mnelab ("EEG", one structure) hand to savemat; gaps as EEGLAB's boundaries."""
    rows = [(text, onset * take.rate, duration * take.rate) for onset, duration, text in texts]
    at = {sample: missing for sample, missing in take.gaps}
    shift = lambda latency: latency - sum(missing for sample, missing in at.items() if latency / take.rate >= take.times()[sample]) * take.rate
    rows = sorted([(kind, shift(latency) + 1, length) for kind, latency, length in rows] +
                  [("boundary", sample + 0.5, missing * take.rate) for sample, missing in take.gaps], key=lambda row: row[1])
    events = np.rec.fromarrays([[r[0] for r in rows], [float(r[1]) for r in rows], [float(r[2]) for r in rows]], names=["type", "latency", "duration"]) \
        if rows else np.array([])
    n, points = take.uv.shape
    fields = {"setname": name, "data": take.uv.astype(np.float64 if form == "EEG" else np.float32), "nbchan": n, "pnts": points, "trials": 1,
              "srate": float(take.rate) if form == "EEG" else take.rate, "xmin": 0.0, "xmax": (points - 1) / take.rate, "ref": "common",
              "chanlocs": np.rec.fromarrays([LABELS], names=["labels"]), "event": events, "icawinv": [], "icasphere": [], "icaweights": []}
    return {"EEG": fields} if form == "EEG" else fields


def eeglab(path, take, form, texts=(), compressed=False):
    scipy.io.savemat(path, eeglab_fields(take, path.stem, form, texts), appendmat=False, do_compression=compressed)
    return path


def eeglab_pair(path, take, texts=()):
    """With the samples in a file beside it, as pop_saveset writes it."""
    fields = eeglab_fields(take, path.stem, "EEG", texts)
    fields["EEG"].update(data=path.with_suffix(".fdt").name, datfile=path.with_suffix(".fdt").name)
    take.uv.T.astype("<f4").tofile(path.with_suffix(".fdt"))
    scipy.io.savemat(path, fields, appendmat=False)
    return path


def octave(path, take, texts=()):
    raw = path.with_suffix(".raw")
    take.uv.T.astype("<f4").tofile(raw)
    cell = lambda values: "{" + ",".join(values) + "}"
    events = ("struct('type'," + cell(f"'{t}'" for _, _, t in texts) + ",'latency'," + cell(repr(o * take.rate + 1) for o, _, _ in texts) +
              ",'duration'," + cell(repr(d * take.rate) for _, d, _ in texts) + ")") if texts else "[]"
    script = f"""f = fopen('{raw}'); EEG.setname = 'night'; EEG.nbchan = {len(LABELS)}; EEG.pnts = {take.uv.shape[1]}; EEG.trials = 1;
EEG.srate = {take.rate}; EEG.xmin = 0; EEG.xmax = (EEG.pnts - 1) / EEG.srate; EEG.data = reshape(single(fread(f, Inf, 'single')), EEG.nbchan, EEG.pnts);
EEG.chanlocs = struct('labels', {cell(f"'{name}'" for name in LABELS)}); EEG.event = {events}; EEG.icawinv = []; EEG.icasphere = []; EEG.icaweights = [];
save('-v7', '{path}', 'EEG');"""
    subprocess.run(["octave-cli", "--norc", "--quiet", "--eval", script], check=True, capture_output=True)
    raw.unlink()
    return path


def stamp(seconds):
    return (START + datetime.timedelta(seconds=seconds)).strftime("%Y%m%d%H%M%S%f")


def brainvision(path, take, texts=(), kind="INT_16", unit="\u00b5V", data=None, encoding="utf-8", scale=1, interval=None, order=None, extra="", back=None):
    """Header, samples and markers, named `data`; order: of the segments' markers; texts are in seconds of the recording; back: (sample, seconds) at which
    the recorder's clock was put back."""
    data = data or path.stem
    types = {"INT_16": "<i2", "INT_32": "<i4", "IEEE_FLOAT_32": "<f4"}
    (take.uv.T * scale).astype(types[kind]).tofile(path.with_name(data + ".eeg"))
    channels = "".join(f"Ch{i + 1}={name},,1,{unit}\r\n" for i, name in enumerate(LABELS))
    page = {"utf-8": "Codepage=UTF-8\r\n"}.get(encoding, "")
    path.write_bytes((f"Brain Vision Data Exchange Header File Version 1.0\r\n\r\n[Common Infos]\r\n{page}DataFile={data}.eeg\r\nMarkerFile={data}.vmrk\r\n"
                      f"DataFormat=BINARY\r\nDataOrientation=MULTIPLEXED\r\nNumberOfChannels={len(LABELS)}\r\n"
                      f"SamplingInterval={interval or repr(1e6 / take.rate)}\r\n{extra}\r\n[Binary Infos]\r\nBinaryFormat={kind}\r\n\r\n"
                      f"[Channel Infos]\r\n{channels}").encode(encoding))
    marks = [("New Segment", "", first, 1, stamp(at)) for first, at in take.starts()]
    marks = [marks[i] for i in order] if order else marks
    marks += [("New Segment", "", back[0], 1, stamp(take.times()[back[0]] - back[1]))] if back else []
    first = lambda seconds: int(np.searchsorted(take.times(), seconds - 1e-9))
    marks += [("Comment", text, first(onset), round(duration * take.rate), "") for onset, duration, text in texts]
    rows = "".join(f"Mk{i + 1}={kind},{text},{at + 1},{length},0{',' if date else ''}{date}\r\n" for i, (kind, text, at, length, date) in enumerate(marks))
    path.with_name(data + ".vmrk").write_bytes(("Brain Vision Data Exchange Marker File, Version 1.0\r\n\r\n[Common Infos]\r\n"
                                                f"{page}DataFile={data}.eeg\r\n\r\n[Marker Infos]\r\n{rows}").encode(encoding))
    return path


def persyst(path, take, texts=(), data=None, encoding="cp1252"):
    data = data or path.stem
    take.uv.T.astype("<i2").tofile(path.with_name(data + ".dat"))
    day = (START - START.replace(hour=0, minute=0, second=0)).total_seconds()
    times = "".join(f"{first}={day + at:.6f}\r\n" for first, at in take.starts())
    comments = "".join(f"{onset:.6f},{duration:.6f},0,100,{text}\r\n" for onset, duration, text in texts)
    path.write_bytes((f"[FileInfo]\r\nFile={data}.dat\r\nFileType=Interleaved\r\nSamplingRate={take.rate}\r\nHeaderLength=0\r\nCalibration=1\r\n"
                      f"WaveformCount={len(LABELS)}\r\nDataType=0\r\n[Patient]\r\nID=M\u00fcller\r\nTestDate={START:%Y.%m.%d}\r\nTestTime={START:%H:%M:%S}\r\n"
                      "[ChannelMap]\r\n" + "".join(f"{name}-Ref={i + 1}\r\n" for i, name in enumerate(LABELS)) +
                      f"[SampleTimes]\r\n{times}[Comments]\r\n{comments}").encode(encoding))
    return path


def label_files(folder, stem, take):
    """name of data.labels -> the file, for the label files that people and programs write by hand; times have two decimals."""
    rows = [(f"{a:.2f}", f"{b - a:.2f}", f"{b:.2f}") for a, b in take.seizures]
    comma = lambda text: text.replace(".", ",")
    seconds = take.times()[-1] + 1 / take.rate
    forms = {
        "bids-tsv": ("_events.tsv", "onset\tduration\teventType\n" + "".join(f"{a}\t{n}\tsz_foc_ia\n" for a, n, _ in rows) + "1.00\t2.00\tblink\n", "utf-8"),
        "tsv": ("_events.tsv", "eventType\tonset\tduration\r\n" + "".join(f"seizure\t{comma(a)}\t{comma(n)}\r\n" for a, n, _ in rows), "utf-16"),
        "tusz-csv": (".csv", "# version = csv_v1.0.0\nchannel,start_time,stop_time,label,confidence\n" +
                     "".join(f"{pair},{a},{b},fnsz,1.0\n" for a, _, b in rows for pair in ("FP1-F7", "F7-T3")) + "FP1-F7,0.0,2.0,bckg,1.0\n", "utf-8"),
        "tusz-csv_bi": (".csv_bi", f"# version = csv_v1.0.0\n# duration = {seconds:.4f} secs\nchannel,start_time,stop_time,label,confidence\n" +
                        "".join(f"TERM,{a},{b},seiz,1.0\n" for a, _, b in rows), "utf-8"),
        "mne": ("_annotations.txt", "# MNE-Annotations\n# onset, duration, description\n" + "".join(f"{a}, {n}, seizure\n" for a, n, _ in rows), "utf-8"),
        "json": ("_annotations.json", json.dumps({"recording": stem + ".edf", "duration_s": seconds, "events": [
            {"onset_s": float(a), "end_s": float(b), "type": "sz", "confidence": 1} for a, _, b in rows]}), "utf-8"),
    }
    for form, (ending, text, encoding) in forms.items():
        path = pathlib.Path(folder, form, stem + ending)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(encoding))
        yield form, path


def have(program):
    return shutil.which(program) is not None

