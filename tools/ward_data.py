#!/usr/bin/env python3
"""What the model `ward` learns from, as a training reads it: OUT/CORPUS/PERSON/, links to the recordings with labels beside them.
usage: tools/ward_data.py EEG OUT [PERSON ...]

EEG/chbmit holds clips of CHB-MIT whose names say where they are cut from, EEG/eegmat and EEG/eegmmidb recordings of healthy people as they are on PhysioNet.
Persons: chb01 and chb02, Subject00 and so on, S001 and so on; default: all that are there."""
import glob
import os
import sys

# file: seconds before the seizure, the seizure, in file time. A "gap" clip is twenty seconds long and leaves out the ten between.
CLIPS = {
    "chb01": {"chb01_03_2986-3036": ((0, 10), (10, 50)), "chb01_04_1457-1494": ((0, 10), (10, 37)),
              "chb01_15_1722-1772": ((0, 10), (10, 50)), "chb01_18_gap_D": ((0, 10), (20, 30)),
              "chb01_21_gap_D": ((0, 10), (20, 30)), "chb01_26_gap_D": ((0, 10), (20, 30))},
    "chb02": {"chb02_16_gap_D": ((0, 10), (20, 30)), "chb02_16plus_gap_D": ((0, 10), (20, 30))},
}


def people(eeg):
    """Each person's recordings: {PERSON: (CORPUS, [path, …])}."""
    found = {child: ("chbmit", [f"{eeg}/chbmit/{name}.edf" for name in clips]) for child, clips in CLIPS.items()}
    for path in sorted(glob.glob(f"{eeg}/eegmat/Subject??_?.edf")):
        found.setdefault(os.path.basename(path)[:9], ("eegmat", []))[1].append(path)
    for path in sorted(glob.glob(f"{eeg}/eegmmidb/**/S???R??.edf", recursive=True) + glob.glob(f"{eeg}/format/eegmmidb_S???R??_*.edf")):
        found.setdefault(os.path.basename(path).removeprefix("eegmmidb_")[:4], ("eegmmidb", []))[1].append(path)
    return found


def length_of(path):
    with open(path, "rb") as f:
        header = f.read(256)
    return int(header[236:244]) * float(header[244:252])


def labels_of(path):
    """Rows (first, end, type) of its events file, in seconds. A recording of eegmmidb may end with zeros, so nobody knows its last second."""
    name, length = os.path.basename(path).removesuffix(".edf"), length_of(path)
    for clips in CLIPS.values():
        if name in clips:
            return [(*clips[name][1], "sz")], clips[name][1][1]
    unknown = [] if name.startswith("Subject") else [(length - 1, length, "unknown")]
    return [(0, length, "bckg"), *unknown], length


def lay_out(eeg, out, persons=()):
    """Links and labels of these persons, or of all."""
    found = people(eeg)
    for person in persons or found:
        corpus, paths = found[person]
        folder = f"{out}/{corpus}/{person}"
        os.makedirs(folder, exist_ok=True)
        for path in paths:
            link = f"{folder}/{os.path.basename(path)}"
            if not os.path.islink(link):
                os.symlink(os.path.realpath(path), link)
            rows, length = labels_of(path)
            with open(link.removesuffix(".edf") + "_events.tsv", "w", encoding="utf-8") as f:
                f.write("onset\tduration\teventType\tconfidence\tchannels\tdateTime\trecordingDuration\n")
                for first, end, what in rows:
                    f.write(f"{first:.2f}\t{end - first:.2f}\t{what}\tn/a\tn/a\tn/a\t{length:.2f}\n")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    lay_out(sys.argv[1], sys.argv[2], sys.argv[3:])
