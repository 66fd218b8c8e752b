#!/usr/bin/env python3
"""Training begins while its recordings are still in the bucket. The server lets one recording after the other go, and only as long as
no step is done: what it still holds then was not needed for the first step. Weights are those of the same job on a directory."""
import contextlib
import os
import re
import sys
import time

from daemon import MINI, PATIENCE, SOURCE, make_corpus, temporary, tensors
from fake_s3 import FakeS3, Fault
from stream_fixture import streaming_daemon, trace

PATIENTS = 9
SETS = MINI + ["training.max_steps=24", "training.validate_every=12", "checkpoint.every=1s", "limits.restarts=0", "model.dropout=0.1"]
ROOMY = "cache.max_size=64MiB"  # objects and windows of one corpus


def upload(s3, folder, prefix):
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as f:
                s3.objects[f"{prefix}/{os.path.relpath(path, folder)}"] = f.read()


def recordings(s3, prefix):
    return sorted(k for k in s3.objects if k.startswith(prefix + "/") and k.endswith(".edf"))


def stands_still(d, seconds=0.4):
    """Whether all threads of the daemon slept at each of a few looks: on a busy machine, one that has work is slow but not asleep."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for thread in os.listdir(f"/proc/{d.process.pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{d.process.pid}/task/{thread}/stat", encoding="utf-8") as f:
                if f.read().rpartition(")")[2].split()[0] != "S":
                    return False
        time.sleep(0.02)
    return True


def begin(s3, d, prefix, *sets):
    """A job whose first step is done while the server still holds recordings back: its id, and which recordings those are."""
    s3.open_doors(0)
    s3.inside.clear()
    s3.sent.clear()
    code, job, err = d.submit(*SETS, f"data.source=store://bucket/{prefix}", *sets, watch=False)
    assert code == 0, err
    deadline = time.monotonic() + PATIENCE
    while d.job(job["job"])["step"] < 1:
        assert time.monotonic() < deadline, (d.job(job["job"]), s3.inside, d.read_log())
        sent, opened = len(s3.sent), s3.doors
        time.sleep(0.1)
        if stands_still(d) and len(s3.sent) == sent and len(s3.inside) == opened and d.job(job["job"])["step"] < 1:
            s3.open_doors(opened + 1)
    held = [k for k in recordings(s3, prefix) if k not in s3.inside]
    assert len(held) >= 2, f"all recordings were needed for the first step: {s3.inside}"
    heads = {r[1] for r in s3.requests if r[0] == "GET" and r[3] == "bytes=0-16383"}
    assert heads >= set(recordings(s3, prefix)), "the plan is made of all heads"
    return job["job"], held


def ended(d, job):
    return d.wait(job, lambda j: j["state"] in ("succeeded", "failed", "cancelled", "interrupted"))


def check_same_weights(s3, d, folder):
    code, local, err = d.submit(*SETS, f"data.source=file://{folder}")
    assert code == 0 and local["state"] == "succeeded", (local, err)
    job, held = begin(s3, d, "corpus")
    begun = s3.inside.copy()
    s3.open_doors(None)
    end = ended(d, job)
    assert end["state"] == "succeeded", (end, d.read_log())
    assert tensors(end["checkpoint"]) == tensors(local["checkpoint"]), "weights differ from those of the directory"
    assert end["result"] == local["result"], (end["result"], local["result"])
    told = re.search(r"(\d+) of (\d+) recordings had arrived by then", d.ctl("logs", job)[1])
    assert told and int(told[1]) <= len(begun) and int(told[2]) == PATIENTS, (told, begun)
    whole = [r for r in s3.requests if r[0] == "GET" and r[1].startswith("corpus/") and r[1].endswith(".edf") and r[3] != "bytes=0-16383"]
    assert len(whole) == len({r[1] for r in whole}), "each recording is fetched once"
    print(f"first step with {len(begun)} of {PATIENTS} recordings, {len(held)} arrived later: bit-identical to the directory")
    return tensors(local["checkpoint"])


def check_failed_fetch(s3, d, recording, model, quiet):
    job, held = begin(s3, d, "denied")
    s3.faults = [Fault(method, key, "403", 100, whole=True) for method in ("GET", "HEAD") for key in held]
    s3.open_doors(None)
    end = ended(d, job)
    assert end["state"] == "failed" and "access is denied" in end["reason"], end
    assert any(key in end["reason"] for key in held), end["reason"]
    assert trace(d, recording, model)[1].tobytes() == quiet[1].tobytes()
    s3.faults = []

    job, held = begin(s3, d, "replaced")
    for key in held:
        s3.objects[key] = s3.objects[key][:-1] + b"\x01"
    s3.open_doors(None)
    end = ended(d, job)
    assert end["state"] == "failed" and "was replaced after the job had listed it; submit the job again" in end["reason"], end
    assert any(key in end["reason"] for key in held), end["reason"]
    assert trace(d, recording, model)[1].tobytes() == quiet[1].tobytes()
    print("a fetch that fails for good ends the job with the object's name and the fix")


def check_cancel(s3, d, recording, model, quiet):
    job, held = begin(s3, d, "cancelled")
    assert trace(d, recording, model)[1].tobytes() == quiet[1].tobytes(), "streams are served while data arrive"
    code, _, err = d.ctl("cancel", job)
    assert code == 0, err
    end = ended(d, job)  # the server still holds the rest back
    assert end["state"] == "cancelled", end
    asked = len(s3.requests)
    s3.open_doors(None)
    time.sleep(0.5)
    assert len(s3.requests) == asked, "nothing is fetched for a job that is cancelled"
    assert os.listdir(f"{d.dir}/cache/mirror") == []
    print("cancelled in mid-arrival")


def check_kill(s3, d, want):
    job, held = begin(s3, d, "killed", "limits.restarts=1")  # the daemon dies under it once
    time.sleep(1)  # a checkpoint may be written
    deadline = time.monotonic() + PATIENCE
    while not stands_still(d):  # what was sent is in the cache
        assert time.monotonic() < deadline, d.read_log()
    there = set(s3.sent)
    d.kill()
    s3.requests.clear()
    s3.open_doors(None)
    d.start()
    end = ended(d, job)
    assert end["state"] == "succeeded", (end, d.read_log())
    assert tensors(end["checkpoint"]) == want, "weights differ after a kill in mid-arrival"
    asked = {r[1] for r in s3.requests if r[0] == "GET" and r[1]}
    assert not asked & there, "what had arrived is not fetched again"
    assert asked <= set(held) | set(s3.inside), asked
    print(f"kill -9 in mid-arrival: {len(there)} kept, {len(asked)} fetched after it, bit-identical")


def check_small_cache(s3, d, want):
    """A cache that holds a part of the corpus only, and whose windows in use exceed it."""
    assert d.stop() == 0
    d.extra[d.extra.index(ROOMY)] = "cache.max_size=5MiB"
    d.start()
    code, end, err = d.submit(*SETS, "data.source=store://bucket/evicted")
    assert code == 0 and tensors(end["checkpoint"]) == want, (end, err)
    used = sum(os.path.getsize(os.path.join(root, f)) for root, _, files in os.walk(f"{d.dir}/cache/objects/entries") for f in files)
    total = sum(len(s3.objects[k]) for k in recordings(s3, "evicted"))
    assert used <= 5 << 20 < total, "cache.max_size holds"
    print(f"a corpus of {total >> 20} MiB in a cache of 5 MiB: bit-identical")


def check_evaluate(s3, d, folder, model):
    reports = []
    for source in (f"file://{folder}", "store://bucket/evaluated"):
        code, end, err = d.submit(f"data.source={source}", f"evaluate.checkpoint={model}", "evaluate.plots=0", "evaluate.alarm_hop_s=0",
                                  file=f"{SOURCE}/configs/eval.yaml")
        assert code == 0, (end, err)
        reports.append(end["result"])
    assert reports[0] == reports[1], reports
    print("an evaluation of the bucket gives the directory's scores")


def main():
    with temporary() as tmp, FakeS3() as s3:
        make_corpus(f"{tmp}/eeg", seed=5, patients=PATIENTS, hours=0.03)
        for prefix in ("corpus", "denied", "replaced", "cancelled", "killed", "evicted", "evaluated"):
            upload(s3, f"{tmp}/eeg", prefix)
        os.environ.update(s3.environment())
        store = f"stores={{bucket: {{url: 's3://eeg', endpoint: '{s3.endpoint}', stall: 60s}}}}"
        with streaming_daemon(extra=[store, ROOMY]) as (d, recording, model):
            quiet = trace(d, recording, model)
            want = check_same_weights(s3, d, f"{tmp}/eeg")
            check_failed_fetch(s3, d, recording, model, quiet)
            check_cancel(s3, d, recording, model, quiet)
            check_kill(s3, d, want)
            check_small_cache(s3, d, want)
            check_evaluate(s3, d, f"{tmp}/eeg", model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
