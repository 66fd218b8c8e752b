#!/usr/bin/env python3
"""Training from a bucket that misbehaves: recordings are prepared while others arrive, streams are served as if nothing were, a job cut
by its time limit ends as an uninterrupted one, and faults that stay are one clear error."""
import glob
import hashlib
import os
import sys
import urllib.request

from daemon import MINI, make_corpus, temporary
from fake_s3 import HEAD_BYTES, FakeS3, Fault
from stream_fixture import streaming_daemon, trace

SETS = MINI + ["data.source=store://bucket/corpus", "training.max_steps=3", "data.validation_fraction=0"]
LONG = MINI + ["data.source=store://bucket/corpus", "checkpoint.every=1s"]


def upload(s3, folder, prefix):
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as f:
                s3.objects[f"{prefix}/{os.path.relpath(path, folder)}"] = f.read()


def metrics(d):
    text = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://127.0.0.1:{d.port}/metrics").read().decode()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if not line.startswith("#")}


def window_files(d):
    """Files of the window cache, without the cache of the bucket's objects."""
    return sum(len(files) for root, _, files in os.walk(f"{d.dir}/cache")
               if not os.path.relpath(root, f"{d.dir}/cache").startswith(("objects", "mirror")))


def weights(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def check_faults_that_pass(s3, d, recording, model):
    quiet = trace(d, recording, model)
    recordings = sorted(k for k in s3.objects if k.startswith("corpus/") and k.endswith(".edf"))
    s3.faults = [Fault("GET", recordings[-1], "stall", 3, whole=True)] + [
        Fault(method, key, kind, whole=whole) for key in recordings[:2] for whole in (False, True) for method, kind in
        (("GET", "503"), ("GET", "500"), ("GET", "short"), ("GET", "lie"), ("GET", "reset"), ("HEAD", "503"))]
    before, begun = window_files(d), metrics(d)
    code, job, err = d.submit(*SETS, "training.max_steps=24", "data.loader_workers=2", watch=False)
    assert code == 0, err
    traces = early = 0
    while d.job(job["job"])["state"] in ("queued", "preparing", "running"):
        p = trace(d, recording, model)
        assert p[0] == quiet[0] and p[1].tobytes() == quiet[1].tobytes(), "a stream beside the download gives other results"
        if recordings[-1] not in s3.sent:
            traces += 1
            early = max(early, window_files(d) - before)
    end = d.job(job["job"])
    assert end["state"] == "succeeded", end
    assert all(f.times == 0 for f in s3.faults), "every fault came"
    assert traces >= 2, "streams were served while the server stalled"
    assert early >= 1, f"recordings were prepared while others were on their way: {early}"
    after = metrics(d)
    grown = {k: after[k] - begun.get(k, 0) for k in after}
    assert grown['brrd_train_time_to_first_step_seconds_count{device="cpu"}'] == 1
    assert 0 < grown['brrd_train_time_to_first_step_seconds_sum{device="cpu"}'] < 300
    labels = len([k for k in s3.objects if k.startswith("corpus/")]) - len(recordings)
    assert grown['brrd_cache_requests_total{result="miss"}'] == labels + 3 * len(recordings), "head, what head is cut from, whole file"
    assert 0 < after["brrd_cache_used_bytes"] <= after["brrd_cache_capacity_bytes"]
    print(f"{traces} streams served beside a stalled download, {early} recordings prepared early")


def check_faults_that_stay(s3, d, recording, model):
    for kind, words, whole in (("412", "changed while it was read", False), ("redirect", "elsewhere.invalid", False),
                               ("corrupt", "the server promises", False), ("corrupt", "the server promises", True)):
        key = sorted(k for k in s3.objects if k.startswith("other/") and k.endswith(".edf"))[0]
        s3.objects[key] += b"\0"  # another version: not in the cache
        s3.faults = [Fault("GET", key, kind, 100, whole)]
        code, end, err = d.submit(*[s for s in SETS if "source" not in s], "data.source=store://bucket/other", "limits.restarts=0",
                                  "training.max_steps=24")
        assert code == 1 and end["state"] == "failed" and words in end["reason"], (kind, end, err)
        good = {hashlib.sha256(data[:size]).hexdigest() for k, data in s3.objects.items() if k != key for size in (len(data), HEAD_BYTES)}
        good.add(hashlib.sha256(s3.objects[key][:HEAD_BYTES]).hexdigest())
        bad_head = s3.objects[key][:HEAD_BYTES]  # nobody can tell: no checksum covers it
        good.add(hashlib.sha256(bytes([bad_head[0] ^ 1]) + bad_head[1:]).hexdigest())
        entries = glob.glob(f"{d.dir}/cache/objects/entries/*/*")
        assert {weights(path) for path in entries} <= good and entries, "nothing half-written: " + kind
        s3.faults = []
        trace(d, recording, model)


def cut_and_resumed(d, steps):
    """A job cut by its time limit, by hand and by itself, ends as an uninterrupted one; False when the machine was done before the
    limit. However slow it is, each attempt makes a step."""
    long = LONG + [f"training.max_steps={steps}", f"training.validate_every={steps // 2}"]
    code, plain, err = d.submit(*long)
    assert code == 0 and plain["state"] == "succeeded", (plain, err)
    want = weights(plain["checkpoint"])
    code, job, err = d.submit(*long, "limits.wall_clock=1s")
    if job["state"] == "succeeded":
        return False
    assert job["state"] == "interrupted" and job["reason"] == "time_limit" and code == 75, (job, err)
    code, _, err = d.ctl("resume", job["job"], "--set", "limits.wall_clock=none")
    assert code == 0, err
    end = d.wait(job["job"], lambda j: j["state"] in ("succeeded", "failed", "interrupted"))
    assert end["state"] == "succeeded" and weights(end["checkpoint"]) == want, end
    code, job, err = d.submit(*long, "limits.wall_clock=1s", "limits.auto_resume=true", watch=False)
    end = d.wait(job["job"], lambda j: j["state"] in ("succeeded", "failed"))
    assert end["state"] == "succeeded" and weights(end["checkpoint"]) == want, end
    resumed = d.ctl("logs", job["job"])[1].count("resumed at step")
    print(f"{steps} steps: interrupted, resumed, bit-identical; by itself too, resumed {resumed} times")
    return resumed >= 1


def check_time_limit(d):
    steps = 24
    while not cut_and_resumed(d, steps):
        steps *= 2


def main():
    with temporary() as tmp, FakeS3() as s3:
        make_corpus(f"{tmp}/eeg", seed=5, patients=5, hours=0.03)
        upload(s3, f"{tmp}/eeg", "corpus")
        upload(s3, f"{tmp}/eeg", "other")
        os.environ.update(s3.environment())
        store = f"stores={{bucket: {{url: 's3://eeg', endpoint: '{s3.endpoint}', stall: 2s}}}}"
        with streaming_daemon(extra=[store]) as (d, recording, model):
            check_faults_that_pass(s3, d, recording, model)
            check_faults_that_stay(s3, d, recording, model)
            check_time_limit(d)
    return 0


if __name__ == "__main__":
    sys.exit(main())
