#!/usr/bin/env python3
"""`brrctl detect store://…` is a job of the daemon: recordings without labels, events files byte-identical to those of `brrctl detect`
of the same recordings, also through kill -9 in the middle, from a bucket, and beside files that cannot be used."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

from daemon import BIN, PATIENCE, SOURCE, Daemon, make_corpus
from fake_s3 import FakeS3
from stream_fixture import streaming_daemon
from test_store_arrival import upload

LACKING = "lacking_eeg.edf"


def files(folder):
    found = {}
    for path in sorted(glob.glob(f"{folder}/**/*.*", recursive=True)):
        with open(path, "rb") as f:
            found[os.path.relpath(path, folder)] = f.read()
    return found


def rows(text, key="recording"):
    return {os.path.basename(r[key]): r for r in map(json.loads, text.splitlines())}


def detect(d, *args):
    return d.ctl("detect", *args)


def make_store(tmp):
    """A store of recordings that nobody has labelled."""
    make_corpus(f"{tmp}/store/night", seed=22, patients=4, hours=0.04)
    for path in glob.glob(f"{tmp}/store/night/**/*_events.tsv", recursive=True):
        os.remove(path)
    os.makedirs(f"{tmp}/store/empty")
    return f"{tmp}/store/night"


def without_channels(source, target):
    """The recording with the names of all channels changed."""
    with open(source, "rb") as f:
        data = bytearray(f.read())
    for i in range(int(data[252:256])):
        at = 256 + 16 * i
        if b"Annotations" not in data[at:at + 16]:
            data[at:at + 16] = b"Aux %-12d" % i
    with open(target, "wb") as f:
        f.write(data)


def check_same(d, night, model):
    """Files, table and JSON are those of the local command."""
    tmp = d.dir
    code, table, err = detect(d, night, "--model", model, "--out", f"{tmp}/local")
    assert code == 0, err
    want = files(f"{tmp}/local")
    assert len(want) == 4 and any(text.count(b"\n") > 2 for text in want.values()), want
    code, out, err = detect(d, "store://disk/night", "--model", model, "--out", f"{tmp}/job")
    assert code == 0 and out == table, (out, table, err)
    assert files(f"{tmp}/job") == want and "detect " in err, err
    code, out, err = detect(d, night, "--model", model, "--out", f"{tmp}/local2", "--json")
    local = rows(out)
    code, out, err = detect(d, "store://disk/night/", "--model", model, "--out", f"{tmp}/job2", "--json", "--id-file", f"{tmp}/id")
    assert code == 0 and files(f"{tmp}/job2") == want, err
    job = rows(out)
    assert job.keys() == local.keys()
    for name, row in local.items():
        path, output = os.path.relpath(row["recording"], night), os.path.relpath(row["output"], f"{tmp}/local2")
        assert row.pop("learning_s") == 0 and "learning_s" not in job[name], (row, job[name])  # windows of the cache do not tell
        assert job[name] == {**row, "recording": f"store://disk/night/{path}", "output": f"{tmp}/job2/{output}"}, (row, job[name])
    with open(f"{tmp}/id") as f:
        job_id = f.read().strip()
    result = d.job(job_id)["result"]
    assert result["recordings"] == 4 and result["failed"] == 0 and result["source"] == "store://disk/night/", result
    assert result["events"] == sum(r["events"] for r in local.values()), (result, local)
    assert files(f"{tmp}/results/jobs/{job_id}/events") == want
    code, out, err = detect(d, f"job:{job_id}", "--out", f"{tmp}/again")
    assert code == 0 and out == table and files(f"{tmp}/again") == want, (out, err)
    # a job file says the same
    with open(f"{tmp}/detect.yaml", "w") as f:
        f.write("kind: detect\ndata: { source: store://disk/night, loader_workers: 1 }\ndetect: { model: ./model.safetensors }\n")
    code, end, err = d.submit(file=f"{tmp}/detect.yaml")
    assert code == 0 and end["kind"] == "detect" and end["result"]["recordings"] == 4, (end, err)
    code, out, err = d.ctl("validate", f"{tmp}/detect.yaml", "--json")
    answer = json.loads(out)
    assert code == 0 and answer["recordings"] == 4 and answer["facts"]["hours"] == "0.16" and 0 < answer["memory_bytes"] < 1 << 30, answer
    return want


def check_killed(d, model, want):
    """kill -9 in the middle: what is done stays, the rest follows, and nothing is done twice."""
    before = set(glob.glob(f"{d.dir}/results/jobs/*"))
    process = subprocess.Popen([f"{BIN}/brrctl", "detect", "store://disk/long", "--model", model, "--out", f"{d.dir}/killed", "--id-file", f"{d.dir}/id"],
                               env=d.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline, listed = time.time() + PATIENCE, 0
    while listed < 2:
        assert time.time() < deadline and process.poll() is None, (process.poll(), d.read_log())
        time.sleep(0.01)
        for path in set(glob.glob(f"{d.dir}/results/jobs/*")) - before:
            if os.path.exists(f"{path}/recordings.jsonl"):
                with open(f"{path}/recordings.jsonl") as f:
                    listed = f.read().count("\n")
    d.kill()
    _, err = process.communicate(timeout=PATIENCE)
    with open(f"{d.dir}/id") as f:
        job = f.read().strip()
    assert process.returncode == 4 and f"detect job:{job} --output" in err, (process.returncode, err)
    path = f"{d.dir}/results/jobs/{job}"
    with open(f"{path}/recordings.jsonl", "a+") as f:
        f.seek(0)
        done = f.read().splitlines()
        f.write('{"recording":"sub-0')  # as a power loss may leave it
    assert 2 <= len(done) < len(want), (len(done), "the daemon was killed too late to tell")
    first = json.loads(done[0])["recording"]
    stamp = os.stat(f"{path}/events/" + first.replace("_eeg.edf", "_events.tsv")).st_mtime_ns
    d.start()
    code, out, err = detect(d, f"job:{job}", "--out", f"{d.dir}/killed")
    assert code == 0 and files(f"{d.dir}/killed") == want, (out, err)
    assert os.stat(f"{path}/events/" + first.replace("_eeg.edf", "_events.tsv")).st_mtime_ns == stamp, "it was done again"
    assert re.search(rf" {len(done)} recordings? done before", d.ctl("logs", job)[1]), d.ctl("logs", job)[1]
    assert d.job(job)["result"]["recordings"] == len(want)


def long_store(d, night, model):
    """The recordings many times over, so that there is a middle to be killed in."""
    for i in range(8):
        shutil.copytree(night, f"{d.dir}/store/long/copy-{i}")
    code, _, err = detect(d, f"{d.dir}/store/long", "--model", model, "--out", f"{d.dir}/long")
    assert code == 0, err
    return files(f"{d.dir}/long")


def check_unreadable_list(d):
    """A list that cannot be read is an error, not a job that found less."""
    path = sorted(glob.glob(f"{d.dir}/results/jobs/*/recordings.jsonl"))[0]
    ref = "job:" + os.path.basename(os.path.dirname(path))
    os.rename(path, f"{path}.away")
    os.mkdir(path)  # opens, and every read fails
    code, out, err = detect(d, ref, "--out", f"{d.dir}/unreadable")
    assert code != 0 and "cannot read recordings.jsonl" in err, (code, out, err)
    os.rmdir(path)
    with open(f"{path}.away") as f:
        lines = f.read().splitlines(True)
    with open(path, "w") as f:
        f.writelines([lines[0], "no JSON\n", *lines[1:]])
    code, out, err = detect(d, ref, "--out", f"{d.dir}/unreadable")
    assert code != 0 and "no JSON object" in err, (code, out, err)
    os.rename(f"{path}.away", path)
    assert detect(d, ref, "--out", f"{d.dir}/unreadable")[0] == 0


def check_bad_files(d, night, model, want):
    mixed = f"{d.dir}/store/mixed"
    shutil.copytree(night, mixed)
    with open(f"{mixed}/prose_eeg.edf", "wb") as f:
        f.write(b"this is no recording" * 100)
    without_channels(glob.glob(f"{night}/**/*.edf", recursive=True)[0], f"{mixed}/{LACKING}")
    with open(glob.glob(f"{mixed}/**/*.edf", recursive=True)[0].replace("_eeg.edf", "_events.tsv"), "w") as f:
        f.write("labels that nobody reads")
    code, out, err = detect(d, "store://disk/mixed", "--model", model, "--out", f"{d.dir}/mixed", "--json")
    found = rows(out)
    assert code == 1 and "2 of 6 recordings failed" in err and files(f"{d.dir}/mixed") == want, (out, err)
    for name in ("prose_eeg.edf", LACKING):
        assert name in found[name]["error"] and found[name]["output"] is None, found[name]
    assert "Fp1" in found[LACKING]["error"] or "channel" in found[LACKING]["error"], found[LACKING]
    code, out, err = detect(d, "store://disk/mixed", "--model", model, "--out", f"{d.dir}/mixed")
    assert code == 1 and out.count("failed: ") == 2 and out.rstrip().endswith("; 2 failed"), out
    with open(f"{d.dir}/strict.yaml", "w") as f:
        f.write("kind: detect\ndata: { source: store://disk/mixed, on_bad_file: fail }\ndetect: { model: ./model.safetensors }\n")
    code, end, err = d.submit(file=f"{d.dir}/strict.yaml")
    assert code == 1 and end["state"] == "failed" and (LACKING in end["reason"] or "prose" in end["reason"]), end
    code, out, err = d.ctl("validate", f"{d.dir}/strict.yaml", "--json")
    assert code == 0 and json.loads(out)["facts"]["cannot be used"].startswith("2 recordings"), (out, err)
    alone = f"{d.dir}/store/alone"
    os.makedirs(alone)
    shutil.copy(f"{mixed}/{LACKING}", alone)
    code, out, err = detect(d, "store://disk/alone", "--model", model, "--out", f"{d.dir}/alone")
    assert code == 1 and "failed: " in err and LACKING in err and not files(f"{d.dir}/alone"), (out, err)
    os.makedirs(f"{d.dir}/store/twice")
    shutil.copy(glob.glob(f"{night}/**/*.edf", recursive=True)[0], f"{d.dir}/store/twice/x_eeg.edf")
    shutil.copy(glob.glob(f"{night}/**/*.edf", recursive=True)[0], f"{d.dir}/store/twice/x.edf")
    code, out, err = detect(d, "store://disk/twice", "--model", model, "--out", f"{d.dir}/twice")
    assert code == 1 and "x_events.tsv" in err, err


def records_of(path):
    """Header, records and the size of one."""
    with open(path, "rb") as f:
        data = f.read()
    start, count = int(data[184:192]), int(data[236:244])
    return data[:start], data[start:], (len(data) - start) // count


def check_bad_samples(s3, d, night, model):
    """Headers that are as they should be: what is cut is done as far as it goes, what is gone by the time its turn comes is named."""
    folder = f"{d.dir}/store/late"
    paths = sorted(glob.glob(f"{night}/**/*.edf", recursive=True))
    os.makedirs(folder)
    for i, path in enumerate(paths):
        shutil.copy(path, f"{folder}/{i + 2}_eeg.edf")
    header, body, record = records_of(paths[0])
    with open(f"{folder}/3_eeg.edf", "wb") as f:  # half of it, and the last record in the middle
        f.write(header + body[:len(body) // record // 2 * record + record // 2])
    code, _, err = detect(d, folder, "--model", model, "--out", f"{d.dir}/late")
    want = files(f"{d.dir}/late")
    assert code == 0 and len(want) == 4, err
    upload(s3, folder, "late")
    for store in ("disk", "bucket"):
        code, out, err = detect(d, f"store://{store}/late", "--model", model, "--out", f"{d.dir}/late-{store}")
        assert code == 0 and files(f"{d.dir}/late-{store}") == want, (out, err)
        assert f"brrctl: note: store://{store}/late/3_eeg.edf: file ends early" in err, err
    with open(f"{folder}/1_eeg.edf", "wb") as f:  # long: while it is decoded, the others wait
        f.write(header[:236] + b"%-8d" % (100 * len(body) // record) + header[244:] + 100 * body)
    for i in range(2, 6):  # not known from before
        os.rename(f"{folder}/{i}_eeg.edf", f"{folder}/{i}-new_eeg.edf")
    before = set(glob.glob(f"{d.dir}/results/jobs/*"))
    with open(f"{d.dir}/late.yaml", "w") as f:
        f.write("kind: detect\ndata: { source: store://disk/late, loader_workers: 1 }\ndetect: { model: ./model.safetensors }\n")
    assert d.ctl("submit", f"{d.dir}/late.yaml")[0] == 0
    deadline, found = time.time() + PATIENCE, []
    while not found:  # all headers are read
        assert time.time() < deadline, d.read_log()
        found = [p for p in set(glob.glob(f"{d.dir}/results/jobs/*")) - before if os.path.exists(f"{p}/recordings.jsonl")]
    os.remove(f"{folder}/5-new_eeg.edf")
    code, out, err = detect(d, f"job:{os.path.basename(found[0])}", "--out", f"{d.dir}/late-gone", "--json")
    table = rows(out)
    assert code == 1 and "1 of 5 recordings failed" in err, (out, err)
    assert "5-new_eeg.edf" in table["5-new_eeg.edf"]["error"] and "cannot open" in table["5-new_eeg.edf"]["error"], table
    got = files(f"{d.dir}/late-gone")
    assert len(got) == 4 and all(got[f"{i}-new_events.tsv"] == want[f"{i}_events.tsv"] for i in (2, 3, 4)), got.keys()
    assert d.job(os.path.basename(found[0]))["result"]["failed"] == 1


def check_wrong_arguments(d, model):
    out = f"{d.dir}/wrong"
    for args, code, word in (
            (["store://nowhere/night", "--model", model, "--out", out], 3, "no store 'nowhere'"),
            (["store://disk/missing", "--model", model, "--out", out], 3, "missing"),
            (["store://disk/empty", "--model", model, "--out", out], 1, "no *.edf or *.bdf"),
            (["store://disk/../eeg", "--model", model, "--out", out], 1, "is outside"),
            (["store://disk/night", "--model", "job:train-0-0", "--out", out], 3, "train-0-0"),
            (["store://disk/night", "--model", f"{d.dir}/missing.safetensors", "--out", out], 3, "missing.safetensors"),
            (["store://disk/night", "--model", model], 2, "--output"),
            (["store://disk/night", f"{d.dir}/eeg", "--model", model, "--out", out], 2, "must be the only argument"),
            (["store://disk/night", "--model", model, "--out", out, "--parallel", "2"], 2, "--parallel"),
            (["job:detect-0-0", "--out", out], 3, "detect-0-0"),
            (["job:detect-0-0", "--model", model, "--out", out], 2, "--model")):
        got = detect(d, *args)
        assert got[0] == code and word in got[2], (args, got)
    trained = next(job["job"] for job in map(json.loads, d.ctl("jobs", "--json")[1].splitlines()) if job["kind"] == "train")
    code, _, err = detect(d, f"job:{trained}", "--out", out)
    assert code == 1 and "of kind train" in err, err
    assert not files(out)
    for key, word in (("data.labels=auto", "does nothing"), ("data.unlabeled=skip", "does nothing"), ("evaluate.plots=2", "does nothing"),
                      ("data.resident=on", "does nothing"), ("data.validation_fraction=0.1", "does nothing"), ("limits.auto_resume=true", "does nothing"),
                      ("events.on=0.5", "from its model"), ("data.montage=bipolar-18", "from its model"), ("training.epochs=2", "from its model"),
                      ("checkpoint.every=1m", "from its model"), ("detect.model=null", "detect.model is missing")):
        code, _, err = d.ctl("submit", f"{d.dir}/detect.yaml", "--set", key)
        assert code == 1 and word in err, (key, code, err)
    code, _, err = d.ctl("submit", f"{SOURCE}/configs/tiny.yaml", "--set", f"data.source=file://{d.dir}/eeg", "--set", f"detect.model={model}")
    assert code == 1 and "detect" in err and "leave it out" in err, err


def check_limit(d, model, want):
    """A time limit interrupts it; resume goes on with what is left."""
    with open(f"{d.dir}/limited.yaml", "w") as f:
        f.write("kind: detect\ndata: { source: store://disk/long }\ndetect: { model: ./model.safetensors }\nlimits: { wall_clock: 1s }\n")
    shutil.rmtree(f"{d.dir}/cache/windows")
    code, end, err = d.submit(file=f"{d.dir}/limited.yaml")
    if end["state"] != "succeeded":
        assert code == 75 and end["state"] == "interrupted" and end["reason"] == "time_limit", end
        assert d.ctl("resume", end["job"], "--set", "limits.wall_clock=none")[0] == 0
    code, _, err = detect(d, f"job:{end['job']}", "--out", f"{d.dir}/limited")
    assert code == 0 and files(f"{d.dir}/limited") == want, err


def check_bucket(s3, d, model, night, want):
    """The same from a bucket, whose recordings come with the job."""
    upload(s3, night, "night")
    code, out, err = detect(d, "store://bucket/night", "--model", model, "--out", f"{d.dir}/bucket")
    assert code == 0 and files(f"{d.dir}/bucket") == want, (out, err)
    code, out, err = d.ctl("validate", f"{d.dir}/detect.yaml", "--json", "--set", "data.source=store://bucket/night")
    assert code == 0 and json.loads(out)["memory_bytes"] > 0 and "not counted" in " ".join(json.loads(out)["notices"]), (out, err)


def check_one(s3, d, night, model, want):
    """The URL of one recording is that of a folder with it alone."""
    path = sorted(glob.glob(f"{night}/**/*.edf", recursive=True))[-1]
    relative, name = os.path.relpath(path, night), os.path.basename(path)
    events = {name.replace("_eeg.edf", "_events.tsv"): want[relative.replace("_eeg.edf", "_events.tsv")]}
    for url in (f"store://disk/night/{relative}", f"store://bucket/night/{relative}"):
        code, out, err = detect(d, url, "--model", model, "--out", f"{d.dir}/one", "--json", "--id-file", f"{d.dir}/one.id")
        assert code == 0 and files(f"{d.dir}/one") == events and [r["recording"] for r in map(json.loads, out.splitlines())] == [url], (out, err)
        shutil.rmtree(f"{d.dir}/one")
        with open(f"{d.dir}/one.id") as f:
            code, out, err = detect(d, f"job:{f.read().strip()}", "--out", f"{d.dir}/one")
        assert code == 0 and files(f"{d.dir}/one") == events and "1 recording" in out, (out, err)
        shutil.rmtree(f"{d.dir}/one")
        code, end, err = d.submit(f"detect.model={model}", f"data.source={url}", file=f"{d.dir}/detect.yaml")
        assert code == 0 and end["result"]["recordings"] == 1, (end, err)
    for url, word in ((f"store://bucket/night/none.edf", "no *.edf or *.bdf"), (f"store://disk/night/none.edf", "not a directory")):
        code, out, err = detect(d, url, "--model", model, "--out", f"{d.dir}/one")
        assert code != 0 and word in err and "none.edf" in err and not files(f"{d.dir}/one"), (code, err)
    s3.objects["folder.edf/x_eeg.edf"] = s3.objects[f"night/{relative}"]
    code, out, err = detect(d, "store://bucket/folder.edf", "--model", model, "--out", f"{d.dir}/one", "--json")
    assert code == 0 and rows(out)["x_eeg.edf"]["recording"] == "store://bucket/folder.edf/x_eeg.edf", (out, err)
    code, _, err = d.ctl("submit", f"{SOURCE}/configs/tiny.yaml", "--set", f"data.source=store://disk/night/{relative}")
    assert code != 0 and "not a directory" in err, err


def main():
    with FakeS3() as s3:
        os.environ.update(s3.environment())
        with streaming_daemon() as (plain, _, model):
            tmp = plain.dir
            assert plain.stop() == 0
            night = make_store(tmp)
            d = Daemon(tmp, [f"stores={{disk: {{url: 'file://{tmp}/store'}}, bucket: {{url: 's3://eeg', endpoint: '{s3.endpoint}'}}}}"]).start()
            plain.process = d.process
            want = check_same(d, night, model)
            print("a store: the files, the table and the JSON of the local command")
            check_bucket(s3, d, model, night, want)
            print("a bucket: the same files")
            check_one(s3, d, night, model, want)
            print("one recording: as a folder with it alone")
            check_bad_files(d, night, model, want)
            check_unreadable_list(d)
            print("files that cannot be used: named, the others done")
            check_bad_samples(s3, d, night, model)
            print("samples that are cut: done as far as they go; a recording that goes away: named, the others done")
            check_wrong_arguments(d, model)
            many = long_store(d, night, model)
            check_killed(d, model, many)
            print("kill -9 in the middle: the same files, nothing done twice")
            plain.process = d.process
            check_limit(d, model, many)
            print("a time limit and resume: the same files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
