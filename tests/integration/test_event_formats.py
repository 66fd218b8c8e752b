#!/usr/bin/env python3
"""Every format of --format: EDFlib (Debian libedf1) and MNE (Debian python3-mne) read the events that were written, whatever their number,
also where the recording starts within a second or has gaps; detect, stream and a detect job write the same files; score and the labels of a
training take each of them."""
import ctypes
import ctypes.util
import glob
import json
import os
import shutil
import subprocess
import sys
import xml.dom.minidom

import numpy

from daemon import BIN, Daemon, make_corpus, temporary
from test_client_detect import discontinuous

PROGRAM = f"{os.environ['BRR_BUILD_DIR']}/tests/events_driver"
MODEL = ["--model", "line_length", "--on", "0.06", "--off", "0.03"]  # several events in one of the recordings, none in the other
ENDINGS = {"tsv": "_events.tsv", "edf+": "_annotations.edf", "mne": "_annotations.txt", "csv_bi": "_eeg.csv_bi", "json": "_annotations.json"}


class Annotation(ctypes.Structure):  # edf_annotation_struct of edflib.h 1.23
    _fields_ = [("onset", ctypes.c_longlong), ("duration_l", ctypes.c_longlong), ("duration", ctypes.c_char * 16), ("text", ctypes.c_char * 513)]


def edflib_events(path):
    """(onset, duration, text) of each annotation, patient field and fraction of the start, as EDFlib has them."""
    from test_edf_peers import EDFLIB, Header
    lib, header = ctypes.CDLL(EDFLIB), Header()
    assert lib.edfopen_file_readonly(os.fsencode(path), ctypes.byref(header), 2) == 0, f"EDFlib refuses {path}: {header.filetype}"
    assert header.filetype == 1 and header.edfsignals == 0
    rows = []
    for i in range(header.annotations_in_file):
        a = Annotation()
        assert lib.edf_get_annotation(header.handle, i, ctypes.byref(a)) == 0
        rows.append((a.onset / 1e7, a.duration_l / 1e7, a.text.decode()))
    lib.edfclose_file(header.handle)
    names = [getattr(header, f).decode().strip() for f in ("patientcode", "patient_name")]
    return rows, names, header.starttime_subsecond / 1e7


def mne_events(mne, path):
    a = mne.read_annotations(path)
    assert a.orig_time is None
    return list(zip(a.onset.tolist(), a.duration.tolist(), a.description.tolist()))


def with_start(source, target, patient, fraction):
    """The recording with another patient field, its first sample a fraction of a second after the start of the header."""
    with open(source, "rb") as f:
        data = bytearray(f.read())
    n, records = int(data[252:256]), int(data[236:244])
    data[8:88] = patient.ljust(80).encode()
    sizes = [2 * int(data[256 + n * 216 + 8 * i:256 + n * 216 + 8 * i + 8]) for i in range(n)]
    for r in range(records):
        at = 256 * (n + 1) + r * sum(sizes) + sum(sizes[:-1])
        data[at:at + sizes[-1]] = (b"+%d%s\x14\x14" % (r, fraction)).ljust(sizes[-1], b"\0")
    with open(target, "wb") as f:
        f.write(data)


def equal(rows, n):
    want = [(77 / 256 + 20 * i, 2924 / 256, "sz") for i in range(n)]
    assert len(rows) == n, (len(rows), n)
    for got, wanted in zip(rows, want):
        assert abs(got[0] - wanted[0]) < 2e-7 and abs(got[1] - wanted[1]) < 2e-7 and got[2] == wanted[2], (got, wanted)


def check_readers(scratch, recording):
    import mne
    mne.set_log_level("ERROR")
    gaps, later, plain = f"{scratch}/gaps_eeg.edf", f"{scratch}/later_eeg.edf", f"{scratch}/plain_eeg.edf"
    discontinuous(recording, gaps)
    with_start(recording, later, "MCH-0234567 F 02-MAY-1951 Haagse_Harry", b".39")
    with_start(recording, plain, "Harry, from The Hague", b"")
    for path, name, fraction in ((recording, None, 0), (gaps, None, 0), (later, "Haagse Harry", 0.39), (plain, "Harry, from The Hague", 0)):
        for n in (0, 3, 5000):
            edf, text = f"{scratch}/n_annotations.edf", f"{scratch}/n_annotations.txt"
            for form, out in (("edf+", edf), ("mne", text)):
                subprocess.run([PROGRAM, form, path, str(n), out], check=True)
            rows, names, subsecond = edflib_events(edf)
            equal(rows, n)
            equal(mne_events(mne, edf), n)
            equal(mne_events(mne, text), n)
            assert abs(subsecond - fraction) < 1e-7 and (name is None or name in names), (names, subsecond)
    raw = mne.io.read_raw_edf(later, preload=False)
    raw.set_annotations(mne.read_annotations(f"{scratch}/n_annotations.edf"))  # how a recording gets the events of a file
    spanned = int(numpy.ceil((raw.n_times / raw.info["sfreq"] - 77 / 256) / 20))
    assert len(raw.annotations) == spanned, (len(raw.annotations), spanned)
    print(f"EDFlib and MNE {mne.__version__} read 0, 3 and 5000 events alike, of 4 recordings")


def check_programs(d):
    """The files of detect, stream and a detect job in each format, and what score and a training read from them."""
    eeg = f"{d.dir}/data"
    recordings = sorted(glob.glob(f"{eeg}/**/*.edf", recursive=True))
    scores = {}
    for form, ending in ENDINGS.items():
        out, job = f"{d.dir}/out-{form}", f"{d.dir}/job-{form}"
        code, text, err = d.ctl("detect", eeg, *MODEL, "--out", out, "--format", form)
        assert code == 0, (text, err)
        files = [os.path.join(out, os.path.relpath(r, eeg)).replace("_eeg.edf", ending) for r in recordings]
        assert all(os.path.exists(f) for f in files), (files, glob.glob(f"{out}/**", recursive=True))
        path = f"{d.dir}/one{os.path.splitext(ending)[1]}"
        code, text, err = d.ctl("stream", recordings[0], *MODEL, "--out", path, "--format", form, "--alarms")
        assert code == 0 and open(path, "rb").read() == open(files[0], "rb").read(), (form, text, err)
        assert len(glob.glob(f"{d.dir}/one_alarms*")) == 1, form
        for f in glob.glob(f"{d.dir}/one*"):
            os.unlink(f)
        code, text, err = d.ctl("detect", "store://here", *MODEL, "--out", job, "--format", form)
        assert code == 0, (text, err)
        for r, f in zip(recordings, files):
            other = os.path.join(job, os.path.relpath(r, eeg)).replace("_eeg.edf", ending)
            assert open(other, "rb").read() == open(f, "rb").read(), f"{form}: {other} differs from {f}"
        code, text, err = d.ctl("score", eeg, out, "--json")
        assert code == 0, (form, text, err)
        scores[form] = json.loads(text)["pooled"]
    assert scores["tsv"]["event"]["ref"] == 2 and scores["tsv"]["event"]["tp"] > 0, scores["tsv"]
    for form, pooled in scores.items():
        assert pooled["event"] == scores["tsv"]["event"], (form, pooled, scores["tsv"])
    for form, ending in ENDINGS.items():  # as labels beside the recordings: the same seizures as those of the detections
        for r in recordings:
            link = r.replace("_eeg.edf", ending)
            if os.path.exists(link):
                os.unlink(link)
            with open(f"{d.dir}/out-{form}/" + os.path.relpath(link, eeg), "rb") as f, open(link, "wb") as g:
                g.write(f.read())
        code, text, err = d.ctl("dataset", eeg, "--labels", form, "--json")
        rows = json.loads(text)
        assert code == 0 and rows["usable"] == len(recordings), (form, text, err)
        scores[form] = rows["splits"]["all"]["seizures"]
        source = {"tsv": "bids-tsv", "csv_bi": "tusz-csv_bi"}.get(form, form)
        assert rows["label_sources"] == {source: len(recordings)}, rows
        code, text, err = d.ctl("score", f"{d.dir}/out-{form}", f"{d.dir}/out-tsv", "--json")  # also as references
        assert code == 0 or form in ("edf+", "mne"), (form, err)  # which do not state the length of the recording
    assert len(set(scores.values())) == 1 and scores["tsv"] >= 1, scores


def check_import(d):
    """One table of seizures, as a spreadsheet writes it, becomes label files that a training and score read; whoever corrects one keeps it."""
    eeg, labels, table = f"{d.dir}/data", f"{d.dir}/labels", f"{d.dir}/seizures.csv"
    recordings = sorted(os.path.relpath(r, eeg) for r in glob.glob(f"{eeg}/**/*.edf", recursive=True))
    with open(table, "w") as f:  # the second recording without a seizure
        f.write("sep=;\r\nDatei;Art;Beginn;Ende\r\n" + f"C:\\eeg\\{os.path.basename(recordings[0])};Anfall;0:00:10;0:00:20,5\r\n"
                f"{recordings[0]};Artefakt;30;40\r\n{recordings[1].replace('.edf', '')};;;\r\n")
    bare = f"{d.dir}/bare/night.edf"
    os.makedirs(os.path.dirname(bare))
    os.link(f"{eeg}/{recordings[0]}", bare)
    assert f"`brrctl labels import TABLE.csv {d.dir}/bare`" in d.ctl("dataset", f"{d.dir}/bare")[1]
    words = ["labels", "import", table, eeg, "--file", "Datei", "--onset", "Beginn", "--end", "Ende", "--type", "Art"]
    code, out, err = d.ctl(*words, "--output", labels)
    assert code == 1 and "the first one is 'Anfall'" in err and not os.path.exists(labels), err
    code, out, err = d.ctl(*words, "--seizure", "anfall", "--output", labels)
    assert code == 0 and "1 seizure in 1 recording; 1 recording without" in out and "Artefakt 1" in out, (out, err)
    twin = f"{eeg}/{recordings[0].replace('.edf', '.bdf')}"  # the same recording in another format has the same label file
    shutil.copy(f"{eeg}/{recordings[0]}", twin)
    code, out, err = d.ctl(*words, "--seizure", "anfall", "--complete", "--output", labels)
    os.unlink(twin)
    assert code == 0 and f"{len(recordings)} label files written" in out, (out, err)
    code, out, err = d.ctl("score", labels, labels, "--json")
    assert code == 0 and json.loads(out)["pooled"]["event"]["ref"] == 1, (out, err)
    path = f"{labels}/{recordings[0].replace('_eeg.edf', '_events.tsv')}"
    assert d.ctl(*words, "--seizure", "anfall", "--output", labels)[0] == 0  # brrd's own copies are replaced
    with open(path, "a") as f:
        f.write("60\t5\tsz\n")
    code, out, err = d.ctl(*words, "--seizure", "anfall", "--output", labels)
    assert code == 1 and f"{path} exists" in err, err
    with open(table, "a") as f:
        f.write("nobody.edf;Anfall;1;2\r\n" + f"{recordings[0]};Anfall;99999;100000\r\n")
    code, out, err = d.ctl(*words, "--seizure", "anfall", "--output", labels, "--force")
    assert code == 1 and "seizures.csv:6: there is no recording nobody.edf" in err and "2 rows" in err and "nothing was written" in err, err


def check_plot(d):
    """Some seconds of a recording as a picture, with its labels and without a daemon or a model."""
    recording, svg, png = glob.glob(f"{d.dir}/data/sub-01/*_eeg.edf")[0], f"{d.dir}/page.svg", f"{d.dir}/page.png"
    for montage, channel in (("bipolar-18", "Fp1-F7"), ("referential-19", "Fp1")):
        code, out, err = d.ctl("plot", recording, "--from", "20", "--seconds", "12", "--montage", montage, "--output", svg)
        assert code == 0 and out == f"{svg}\n", (out, err)
        texts = [t.firstChild.data for t in xml.dom.minidom.parse(svg).getElementsByTagName("text") if t.firstChild]
        assert channel in texts and "true" in texts and "detected" not in texts, texts
    assert d.ctl("plot", recording, "--output", png)[0] == 0
    with open(png, "rb") as f:
        assert f.read(8) == b"\x89PNG\r\n\x1a\n"
    code, out, err = d.ctl("plot", recording, "--from", "99999", "--output", svg)
    assert code == 1 and "lasts 360.0 s" in err, err


def main():
    with temporary() as scratch:
        d = Daemon(scratch, [f"stores.here.url=file://{scratch}/data"])
        make_corpus(f"{scratch}/data", 11, patients=2, hours=0.1)
        check_readers(scratch, glob.glob(f"{scratch}/data/sub-01/*_eeg.edf")[0])
        check_import(d)
        check_plot(d)
        d.start()
        check_programs(d)
        assert d.stop() == 0
    print("ok")


if __name__ == "__main__":
    try:
        import mne  # noqa: F401
    except ImportError:
        print("skipped: package: there is no MNE; ./dev deps installs python3-mne")
        sys.exit(77)
    if not ctypes.util.find_library("edf"):
        print("skipped: package: there is no EDFlib; ./dev deps installs libedf-dev")
        sys.exit(77)
    main()
