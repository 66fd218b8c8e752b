#!/usr/bin/env python3
"""A model that lies in a store is named by its URL: by a training that begins with it, an evaluation, a stream, detect and validate.
It is fetched once, is the same as the file, and what cannot be used is refused with the object's name and the reason. A training
that goes on notices that the object was replaced, and does not need it."""
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import time

from daemon import BIN, MINI, PATIENCE, SOURCE, free_port, tensors
from fake_s3 import FakeS3, Fault
from stream_fixture import command, streaming_daemon, trace

NOT_FOUND = 3
KEY = "models/net.safetensors"
URL = f"store://bucket/{KEY}"
SETS = MINI + ["training.max_steps=4", "training.validate_every=4", "data.validation_fraction=0", "limits.restarts=0"]
EVALUATION = ["evaluate.plots=0", "evaluate.alarm_hop_s=0"]


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def metadata(path):
    with open(path, "rb") as f:
        return json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))["__metadata__"]


def asked(s3, method, key=KEY):
    return [r for r in s3.requests if r[0] == method and r[1] == "open/" + key]


def train(d, *sets):
    code, end, err = d.submit(*SETS, f"data.source=file://{d.dir}/eeg", *sets)
    return code, end, err


def evaluate(d, ref):
    return d.submit(f"data.source=file://{d.dir}/eeg", f"evaluate.checkpoint={ref}", *EVALUATION, "limits.restarts=0", file=f"{SOURCE}/configs/eval.yaml")


def check_jobs(s3, d, model):
    want = sha256(model)
    ends = [train(d, f"model.init_from={ref}")[1] for ref in (model, URL, "store://shelf/a/net.safetensors")]
    code, end, err = train(d, f"model.init_from={model}", "data.normalize=causal")
    assert code != 0 and "data.normalize: window and the job says causal" in end["reason"], (end, err)
    assert all(end["state"] == "succeeded" for end in ends), (ends, d.read_log())
    assert len({tensors(end["checkpoint"]) for end in ends}) == 1, "a training begins with the object as with the file"
    assert tensors(ends[0]["checkpoint"]) != tensors(train(d)[1]["checkpoint"]), "and not from the seed"
    said = [metadata(end["checkpoint"]) for end in ends]
    assert [m["brr.init_from_sha256"] for m in said] == [want] * 3 and [m.get("brr.init_from") for m in said] == [None, URL, "store://shelf/a/net.safetensors"]
    assert len(asked(s3, "GET")) == 1, s3.requests

    results, reports = [], []
    for ref in (model, URL, "store://shelf/a/net.safetensors"):
        code, end, err = evaluate(d, ref)
        assert code == 0, (end, err)
        results.append(end["result"])
        with open(f"{d.dir}/results/jobs/{end['job']}/report.json", encoding="utf-8") as f:
            reports.append(json.load(f))
    assert results[0] == results[1] == results[2], results
    assert [r.get("model") for r in reports] == [None, URL, "store://shelf/a/net.safetensors"] and {r["model_sha256"] for r in reports} == {want}
    assert len(asked(s3, "GET")) == 1, "what is in the cache is not fetched again"
    print("train and evaluate: the object gives what the file gives, fetched once")


def check_replaced(s3, d, other):
    """kill -9 in mid-training, and the object is another one, or gone, when the job goes on."""
    sets = SETS + [f"data.source=file://{d.dir}/eeg", "training.max_steps=120", "training.validate_every=120", "checkpoint.every=1s", "model.dropout=0.1",
                   "limits.restarts=1"]  # seconds of steps, so that the first checkpoint is not the last; a daemon that dies is charged to its job
    key, url = "models/first.safetensors", "store://bucket/models/first.safetensors"
    original = s3.objects["open/" + key] = s3.objects["open/" + KEY]
    code, whole, err = d.submit(*sets, f"model.init_from={url}")
    assert code == 0, err
    for change, text in ((lambda: s3.objects.update({"open/" + key: other}), "was replaced after this training began with it"),
                         (lambda: s3.objects.pop("open/" + key), "is not needed any more and cannot be looked at")):
        s3.objects["open/" + key] = original
        job = d.submit(*sets, f"model.init_from={url}", watch=False)[1]["job"]
        folder = f"{d.dir}/results/jobs/{job}/checkpoints"
        deadline = time.time() + PATIENCE
        while not (os.path.isdir(folder) and any(n.endswith(".state.safetensors") for n in os.listdir(folder))):
            assert time.time() < deadline and d.job(job)["state"] != "succeeded", d.job(job)
            time.sleep(0.02)
        d.kill()
        change()
        d.start()
        end = d.wait(job, lambda j: j["state"] in ("succeeded", "failed"))
        log = d.ctl("logs", job)[1]
        assert end["state"] == "succeeded" and text in log and "resumed at step" in log, (end, log)
        assert tensors(end["checkpoint"]) == tensors(whole["checkpoint"]), "the checkpoint decides"
        assert metadata(end["checkpoint"])["brr.init_from_sha256"] == hashlib.sha256(original).hexdigest()
    print("a training that goes on notices that its first model was replaced, and does without it")


def check_refusals(s3, d, model):
    recording = next(os.path.join(r, n) for r, _, names in os.walk(f"{d.dir}/eeg") for n in names if n.endswith(".edf"))
    with open(recording, "rb") as f:
        s3.objects["open/x.edf"] = f.read()
    s3.objects["open/cut.safetensors"] = s3.objects["open/" + KEY][:-100]
    s3.objects["open/bad.safetensors"] = s3.objects["open/" + KEY] + b" "
    s3.objects["open/big.safetensors"] = bytes(range(256)) * (6 << 12)
    s3.objects["open/denied.safetensors"] = s3.objects["open/" + KEY] + b"  "
    s3.faults = [Fault("GET", "open/bad.safetensors", "corrupt", 1000)]
    s3.faults += [Fault(method, "open/denied.safetensors", "403", 1000) for method in ("GET", "HEAD")]
    for name, text in (("none.safetensors", "there is no such object"), ("x.edf", "x.edf"), ("cut.safetensors", "cut.safetensors"),
                       ("bad.safetensors", "promises"), ("big.safetensors", "is not a model file"), ("denied.safetensors", "access is denied")):
        url = f"store://bucket/{name}"
        for code, end, err in (train(d, f"model.init_from={url}"), evaluate(d, url)):
            assert code != 0 and end["state"] == "failed" and text in end["reason"] and url in end["reason"], (url, end)
        code, out, err = d.ctl("stream", recording, "--model", url)
        assert code != 0 and text in err and url in err, (url, code, err)
        code, out, err = d.ctl("validate", f"{SOURCE}/configs/eval.yaml", "--set", f"evaluate.checkpoint={url}", "--set", f"data.source=file://{d.dir}/eeg")
        assert code != 0 and text in err and url in err, (url, code, out, err)
    assert not [r for r in asked(s3, "GET", "big.safetensors") if r[3] != "bytes=0-7"], "more than the header was fetched"
    for url, text in ((f"store://other/{KEY}", "has no store 'other'"), ("store://bucket", "names no object"), ("store://bucket/models/", "names no object")):
        for code, end, err in (train(d, f"model.init_from={url}"), evaluate(d, url)):
            assert code != 0 and not end and text in err and url in err, (url, end, err)
        code, out, err = d.ctl("stream", recording, "--model", url)
        assert code != 0 and text in err and url in err, (url, code, err)
    assert d.ctl("stream", recording, "--model", "store://bucket/none.safetensors")[0] == NOT_FOUND
    code, out, err = d.ctl("checkpoint", "verify", URL)
    assert code != 0 and "checkpoint promote" in err, err
    s3.faults = []
    print("what cannot be used is refused with the object's name and the reason")


def check_streams(s3, d, recording, model, quiet):
    for url in (URL, "store://shelf/a/net.safetensors"):
        found = trace(d, recording, url)
        assert found[0] == quiet[0] and found[1].tobytes() == quiet[1].tobytes(), "a stream gives what the file gives"
    before = len(asked(s3, "GET"))
    os.mkdir(f"{d.dir}/found")
    code, out, err = d.ctl("detect", f"{d.dir}/eeg", "--model", URL, "--output", f"{d.dir}/found")
    assert code == 0 and sum(n.endswith("_events.tsv") for _, _, names in os.walk(f"{d.dir}/found") for n in names) == 2, (out, err)
    assert len(asked(s3, "GET")) == before, "the model is in the cache"

    s3.objects["open/slow.safetensors"] = s3.objects["open/" + KEY] + b"   "
    s3.faults = [Fault("HEAD", "open/slow.safetensors", "stall", 1000)]
    slow = [subprocess.Popen(command(d, recording, "store://bucket/slow.safetensors"), env=d.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for _ in range(3)]
    deadline = time.time() + PATIENCE
    while len(asked(s3, "HEAD", "slow.safetensors")) < 3:
        assert time.time() < deadline, "they never asked"
        time.sleep(0.05)
    assert trace(d, recording, URL)[1].tobytes() == quiet[1].tobytes(), "others are served meanwhile"
    code, out, err = d.ctl("models")
    assert code == 0 and all(process.poll() is None for process in slow), "meanwhile: they have not given up"
    for process in slow:
        process.kill()
        process.communicate()
    s3.faults = []
    assert trace(d, recording, URL)[1].tobytes() == quiet[1].tobytes()
    print("streams and detect: the same; a store that does not answer keeps nobody else waiting")


def check_validate(d):
    words = ["--set", f"data.source=file://{d.dir}/eeg", "--json"] + [a for s in SETS for a in ("--set", s)]
    code, out, err = d.ctl("validate", f"{SOURCE}/configs/tiny.yaml", "--set", f"model.init_from={URL}", *words)
    assert code == 0 and URL in json.loads(out)["facts"]["model.init_from"], (out, err)
    code, out, err = d.ctl("validate", f"{SOURCE}/configs/tiny.yaml", "--set", f"model.init_from=store://down/{KEY}", *words)
    assert code == 0 and any("cannot be looked at now" in n for n in json.loads(out)["notices"]), (out, err)
    code, out, err = d.ctl("validate", f"{SOURCE}/configs/tiny.yaml", "--set", f"model.init_from={d.dir}/none.safetensors", *words)
    assert code != 0 and "none.safetensors" in err, (out, err)


def main():
    with FakeS3() as s3:
        os.environ.update(s3.environment())
        stores = (f"stores={{bucket: {{url: 's3://eeg/open', endpoint: '{s3.endpoint}', stall: 3s}}, shelf: {{url: 'file:///SHELF'}}, "
                  f"down: {{url: 's3://eeg', endpoint: 'http://127.0.0.1:{free_port()}'}}}}")
        shelf = f"/tmp/brr-test-shelf-{os.getpid()}"
        os.makedirs(f"{shelf}/a")
        try:
            with streaming_daemon(extra=[stores.replace("/SHELF", shelf)]) as (d, recording, model):
                with open(model, "rb") as f:
                    s3.objects["open/" + KEY] = f.read()
                shutil.copyfile(model, f"{shelf}/a/net.safetensors")
                quiet = trace(d, recording, model)
                check_jobs(s3, d, model)
                check_streams(s3, d, recording, model, quiet)
                check_refusals(s3, d, model)
                check_validate(d)
                check_replaced(s3, d, s3.objects["open/" + KEY] + b"    ")
                used = [n for _, _, names in os.walk(f"{d.dir}/cache/objects/partial") for n in names]
                assert not used, used
                assert d.stop() == 0
                d.start()  # for the fixture's last look
        finally:
            shutil.rmtree(shelf)
    return 0


if __name__ == "__main__":
    sys.exit(main())
