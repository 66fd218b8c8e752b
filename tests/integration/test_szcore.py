#!/usr/bin/env python3
"""What the SzCORE image runs (deploy/szcore/detect), with the mounts of the evaluation: the events file is there before it, empty, in a folder
that is not writable; it is valid at each moment, also when the program is killed."""
import os
import shutil
import signal
import subprocess
import sys
import time

from daemon import BIN, PATIENCE, SOURCE, make_corpus, temporary

COLUMNS = ["onset", "duration", "eventType", "confidence", "channels", "dateTime", "recordingDuration"]
EEG = os.environ.get("BRR_EEG_DIR") or os.path.join(SOURCE, "..", "shared", "eeg")
PROGRAM = f"{SOURCE}/deploy/szcore/detect"


def rows(path, seconds):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    assert text.endswith("\n"), "the last line is cut"
    lines = [line.split("\t") for line in text.splitlines()]
    assert lines[0] == COLUMNS and all(len(line) == 7 for line in lines), lines
    assert lines[1] == ["0.00", f"{seconds:.2f}", "bckg", "n/a", "n/a", "n/a", f"{seconds:.2f}"], lines[1]
    for onset, duration, kind, *_, length in lines[2:]:
        assert kind.startswith("sz") and float(onset) >= 0 and float(onset) + float(duration) <= seconds + 0.01 and float(length) == seconds, lines
    return lines[2:]


def start(scratch, recording, **more):
    """The program on a recording below /data; the output file is made as the evaluation makes it."""
    output = f"{scratch}/output/X.tsv"
    os.makedirs(os.path.dirname(output), exist_ok=True)
    open(output, "w", encoding="ascii").close()
    os.chmod(output, 0o776)
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "BRR_DATA": f"{scratch}/data", "BRR_OUTPUT": f"{scratch}/output", "INPUT": recording,
           "OUTPUT": "X.tsv", "TMPDIR": scratch, **more}
    return output, subprocess.Popen([PROGRAM], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finish(process):
    text, err = process.communicate(timeout=PATIENCE)
    return process.returncode, text + err


def main():
    with temporary() as scratch:
        make_corpus(f"{scratch}/data", 11, patients=1, hours=2 / 3600, seizures=0)
        make_corpus(f"{scratch}/data/long", 7, patients=1, hours=0.05)
        short, long = "sub-01/sub-01_run-01_eeg.edf", "long/sub-01/sub-01_run-01_eeg.edf"
        output, process = start(scratch, short)
        code, text = finish(process)
        assert code == 0 and rows(output, 2) == [], text
        inode = os.stat(output).st_ino
        output, process = start(scratch, long)
        code, text = finish(process)
        found = rows(output, 180)
        assert code == 0 and os.stat(output).st_ino == inode and os.listdir(f"{scratch}/output") == ["X.tsv"], text
        print(f"180 s: {len(found)} seizures")
        for moment in (0, 0.3, 1, 2):  # from the first line on
            output, process = start(scratch, long)
            while not os.path.getsize(output) and process.poll() is None:
                time.sleep(0.005)
            time.sleep(moment)
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            rows(output, 180)
        with open(f"{scratch}/data/bad.edf", "wb") as f:
            f.write(b"0".ljust(236) + b"-1".ljust(8) + b"1".ljust(8) + b"x" * 4)
        output, process = start(scratch, "bad.edf")
        code, text = finish(process)
        assert code == 1 and rows(output, 0) == [] and text, "a recording that cannot be read leaves a valid file, too"
    find_real_seizures()
    print("ok")


def find_real_seizures():
    """The image's default model finds the seizures of three clips of CHB-MIT, where they are at hand."""
    clips = [f"{EEG}/chbmit/{name}.edf" for name in ("chb01_03_2986-3036", "chb01_04_1457-1494", "chb01_15_1722-1772")]
    if not all(map(os.path.exists, clips)):
        print(f"skipped: data: no EEG recordings at {EEG} (BRR_EEG_DIR)")
        return
    with temporary() as scratch:
        os.makedirs(f"{scratch}/data")
        for clip in clips:
            shutil.copy(clip, f"{scratch}/data/clip.edf")
            output, process = start(scratch, "clip.edf")
            code, text = finish(process)
            with open(output, encoding="utf-8") as f:
                found = [line.split("\t") for line in f.read().splitlines()[2:]]
            assert code == 0 and any(float(onset) + float(duration) > 10 for onset, duration, *_ in found), f"{clip}: {found} {text}"


if __name__ == "__main__":
    sys.exit(main())
