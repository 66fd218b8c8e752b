#!/usr/bin/env python3
"""Each wrong input gives one clear error that names what, where and the fix; the daemon stays up and nothing is lost."""
import glob
import os
import shutil
import subprocess
import sys

from daemon import BIN, MINI, PATIENCE, SOURCE, Daemon, make_corpus, temporary


def expect(text, *words):
    for word in words:
        assert word in text, f"{word!r} is not in: {text}"


def both_refuse(d, *sets):
    """Submit and Validate report the same error; returns it."""
    code, _, err = d.submit(*sets, watch=False)
    same = d.ctl("validate", f"{SOURCE}/configs/tiny.yaml", *[a for s in sets for a in ("--set", s)])
    assert code and same == (code, "", err), (code, err, same)
    return code, err


def check_split(d, source):
    """A split that the recordings cannot have: Submit does not read them, Validate does."""
    code, out, err = d.ctl("validate", f"{SOURCE}/configs/tiny.yaml", *[a for s in (*MINI, source, "data.split.validation=[sub-99]") for a in ("--set", s)])
    assert code == 3 and "sub-99 has no usable recording" in err, (code, out, err)


def check_faults(d, corpus, faulty):
    """The job's log names what was repaired or ignored in recordings; without validation a training has no scores."""
    shutil.copytree(corpus, faulty)
    first, second = [os.path.join(r, f) for r, _, fs in sorted(os.walk(faulty)) for f in sorted(fs) if f.endswith(".edf")][:2]
    os.truncate(first, os.path.getsize(first) - 5000)
    events = second.replace("_eeg.edf", "_events.tsv")
    with open(events, encoding="utf-8") as f:
        row = f.read().splitlines()[1].split("\t")
    with open(events, "a", encoding="utf-8") as f:
        f.write("\t".join(["5000", "10", *row[2:]]) + "\n")
    code, end, err = d.submit(*MINI, f"data.source=file://{faulty}", "data.validation_fraction=0", "training.max_steps=4")
    assert code == 0, (end, err)
    expect(d.ctl("watch", end["job"])[1], "4 steps, loss ", "no validation recordings, so no scores")
    result = d.job(end["job"])["result"]
    assert result["steps"] == 4 and "metric" not in result and "best_step" not in result, result
    log = d.ctl("logs", end["job"])[1]
    expect(log, f"{os.path.relpath(first, faulty)}: file ends early", f"{os.path.relpath(second, faulty)}: the seizure at 5000 to 5010 s in "
           f"{os.path.basename(events)} lies outside the recording of ")


def check_channels(d, recording, folder):
    """A channel that the file has and that cannot be used is named with the reason, and so is the recording."""
    os.makedirs(folder)
    with open(recording, "rb") as f:
        data = f.read()
    n = int(data[252:256])
    flat, at = bytearray(data), [data[256 + 16 * i:272 + 16 * i].split()[1:] for i in range(n)].index([b"P3-REF"])
    for field in (104, 112):  # physical minimum and maximum
        flat[256 + field * n + 8 * at:264 + field * n + 8 * at] = b"0       "
    for name, content, want in (("flat", flat, "missing P3;"), ("timeless", data[:244] + b"0       " + data[252:], "no usable signal: EEG Fp1-REF (the record duration is 0")):
        path = f"{folder}/{name}.edf"
        with open(path, "wb") as f:
            f.write(content)
        why = "ignored EEG P3-REF (physical minimum equals physical maximum)" if name == "flat" else " more"
        for words in (("windows", path), ("dataset", folder), ("stream", path, "--model", "line_length")):
            code, out, err = d.ctl(*words)
            assert code == 1, (words, out, err)
            expect(out + err, f"{name}.edf", why, *([want] if words[0] != "stream" else []))


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=5)
        d = Daemon(tmp).start()
        source = f"data.source=file://{tmp}/eeg"

        code, err = both_refuse(d, f"data.source=file://{tmp}/nowhere")
        assert code == 3, (code, err)
        expect(err, "nowhere", "not a directory")

        cwd = os.getcwd()
        os.chdir(tmp)
        expect(both_refuse(d, "data.source=eeg")[1], f"{tmp}/data/eeg is not a directory", "the folder eeg exists here; --set data.source=file://eeg names it")
        assert "exists here" not in both_refuse(d, "data.source=file://nowhere")[1]
        os.chdir(cwd)

        code, _, err = d.submit(f"data.source={tmp}/eeg", watch=False)
        assert code == 3 and "note" not in err, (code, err)
        expect(err, "not a directory", f"file://{tmp}/eeg")
        assert both_refuse(d, "data.source=store://bucket/prefix")[0] == 3
        assert "checkpoint.upload" in both_refuse(d, source, "checkpoint.upload=store://bucket/prefix")[1]
        open(f"{tmp}/quote'd\".safetensors", "wb").close()
        assert "has quotes" in both_refuse(d, source, f"model.init_from={tmp}/quote'd\".safetensors")[1]
        check_split(d, source)
        code, err = both_refuse(d, "data.source=s3://bucket/prefix")
        assert code == 1, (code, err)
        expect(err, "s3://bucket/prefix", "store://NAME")

        job = f"{tmp}/job.yaml"
        open(job, "w", encoding="utf-8").write("kind: train\ndata:\n  source: x\n  hopp_s: 3\n")
        code, _, err = d.submit(watch=False, file=job)
        assert code == 1
        expect(err, "job.yaml:4:3", "hopp_s", "data.hop_s")

        open(job, "wb").write("kind: train\n# 5 µV\n".encode("latin-1"))
        code, _, err = d.submit(watch=False, file=job)
        assert code == 1
        expect(err, "job.yaml:2", "UTF-8")

        shutil.copytree(f"{tmp}/eeg", f"{tmp}/unlabelled", ignore=shutil.ignore_patterns("*.tsv"))
        code, end, err = d.submit(*MINI, f"data.source=file://{tmp}/unlabelled", "training.max_steps=4")
        assert end["state"] == "failed" and code == 1
        expect(end["reason"], "3 of 3 recordings cannot be used", "no labels (looked for", "and 2 more for the same reason")

        code, _, err = d.ctl("tune", "demo", f"{tmp}/unlabelled", "--out", f"{tmp}/tuned.safetensors")
        assert code == 1, err
        expect(err, "no labels (looked for", " more); add label files, or set --unlabeled to background or skip) and 2 more for the same reason")
        check_channels(d, sorted(glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True))[0], f"{tmp}/channels")

        code, end, err = d.submit(*MINI, f"data.source=file://{tmp}/unlabelled", "data.unlabeled=background", "training.max_steps=4")
        assert end["state"] == "failed"
        expect(end["reason"], "seizure")

        code, end, err = d.submit(*MINI, source, "data.montage=[Fp1,Nose]", "training.max_steps=4")
        assert end["state"] == "failed"
        expect(end["reason"], "Nose")

        truncated = f"{tmp}/truncated"
        shutil.copytree(f"{tmp}/eeg", truncated)
        first = next(os.path.join(r, f) for r, _, fs in sorted(os.walk(truncated)) for f in sorted(fs) if f.endswith(".edf"))
        os.truncate(first, 1000)
        code, end, err = d.submit(*MINI, f"data.source=file://{truncated}", "training.max_steps=4", "data.on_bad_file=fail")
        assert end["state"] == "failed"
        expect(end["reason"], "edf")

        check_faults(d, f"{tmp}/eeg", f"{tmp}/faulty")

        second = Daemon(tmp, [f"listen.unix={tmp}/other.sock", f"jobs.database={tmp}/other.sqlite"])
        r = subprocess.run(second.command(), capture_output=True, text=True, timeout=PATIENCE)
        assert r.returncode == 1
        expect(r.stderr, "another daemon uses paths.cache", str(d.process.pid))
        assert r.stderr.count("stop it") == 1, r.stderr

        r = subprocess.run([f"{BIN}/brrd", "--config", f"{SOURCE}/configs/demo.yaml", "--set", "devices=[cuda:0]", "--set", f"listen.unix={tmp}/c.sock",
                            "--set", f"paths.cache={tmp}/c", "--set", f"paths.results={tmp}/r"], capture_output=True, text=True, timeout=PATIENCE)
        assert r.returncode == 1
        expect(r.stderr, "cuda")

        code, end, err = d.submit(*MINI, source, "training.max_steps=4")
        assert code == 0 and end["state"] == "succeeded", "the daemon must still work"
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
