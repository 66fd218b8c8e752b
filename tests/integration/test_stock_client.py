#!/usr/bin/env python3
"""Stock clients: python3-grpcio from the .proto files submits, validates, watches, streams, and handles models and checkpoints;
promtool finds nothing in /metrics."""
import concurrent.futures
import hashlib
import os
import json
import subprocess
import sys
import urllib.request

import numpy as np

from daemon import BIN, MINI, PATIENCE, SOURCE, Daemon, make_corpus, temporary
from stock import Stock, grpc

SECONDS, RATE = 70, 256
LABELS = ["Fp1", "F3", "C3", "P3", "F7", "T3", "T5", "O1", "Fz", "Cz", "Pz", "Fp2", "F4", "C4", "P4", "F8", "T4", "T6", "O2"]


def submit_and_watch(c, source):
    text = open(f"{SOURCE}/configs/tiny.yaml", encoding="utf-8").read()
    file = c.jobs.JobFile(yaml=text, name="tiny.yaml", overrides=[*MINI, source, "training.max_steps=12", "training.validate_every=6",
                                                                           f"name={60 * 'ä'}"])
    wanted = c.Jobs.Validate(c.jobs.ValidateRequest(file=file))
    assert wanted.kind == "train" and wanted.steps == 12 and wanted.memory_bytes > 0 and wanted.seconds_per_step > 0, wanted
    assert wanted.recordings == 3 and wanted.largest_micro_batch == 4, wanted
    answer = c.Jobs.Submit(c.jobs.SubmitRequest(file=file, request_id="once"))
    again = c.Jobs.Submit(c.jobs.SubmitRequest(file=file, request_id="once"))
    assert again.job.id == answer.job.id, "the same request must not make a second job"
    updates = list(c.Jobs.Watch(c.jobs.WatchJobRequest(id=answer.job.id)))
    assert updates[-1].final and updates[-1].job.state == c.jobs.JOB_STATE_SUCCEEDED, updates[-1]
    (listed,) = c.Jobs.List(c.jobs.ListJobsRequest()).jobs  # the daemon cuts long names, and no letter in two
    assert listed.name == 47 * "ä", listed.name
    lines = [line.text for line in c.Jobs.Logs(c.jobs.JobLogsRequest(id=answer.job.id, follow=True))]
    assert any("validation at step 12" in line for line in lines), lines
    assert len(list(c.Jobs.Logs(c.jobs.JobLogsRequest(id=answer.job.id, tail=1)))) == 1
    return answer.job.id


def foreign_names(c, tmp):
    """A file name that is not UTF-8 stands in the reason of a job, in a form that every client can decode."""
    os.makedirs(f"{tmp}/foreign")
    with open(os.fsencode(f"{tmp}/foreign/") + b"caf\xe9.edf", "wb") as f:
        f.write(b"no EDF")
    text = open(f"{SOURCE}/configs/tiny.yaml", encoding="utf-8").read()
    file = c.jobs.JobFile(yaml=text, name="tiny.yaml", overrides=[*MINI, f"data.source=file://{tmp}/foreign"])
    job = c.Jobs.Submit(c.jobs.SubmitRequest(file=file)).job
    last = list(c.Jobs.Watch(c.jobs.WatchJobRequest(id=job.id)))[-1].job
    assert last.state == c.jobs.JOB_STATE_FAILED and "caf?.edf" in last.reason, last
    assert last.reason in [j.reason for j in c.Jobs.List(c.jobs.ListJobsRequest()).jobs]


def delete_without_models(c, tmp):
    """brrctl and a daemon that deletes jobs and does not say which models serve: the deletion says that they may be of the job."""
    class Older(grpc.GenericRpcHandler):
        def service(self, details):
            gone = c.jobs.Job(id="train-1", state=c.jobs.JOB_STATE_SUCCEEDED).SerializeToString()
            return grpc.unary_unary_rpc_method_handler(lambda request, context: gone) if details.method == "/brr.v1.Jobs/Delete" else None

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), [Older()])
    server.add_insecure_port(f"unix:{tmp}/older.sock")
    server.start()
    r = subprocess.run([f"{BIN}/brrctl", "delete", "train-1", "--endpoint", f"unix:{tmp}/older.sock"], capture_output=True, text=True, timeout=PATIENCE)
    server.stop(None)
    assert r.returncode == 0 and "models that serve may be of job train-1; the daemon did not list them" in r.stderr, r


def evaluate(c, source, job):
    text = open(f"{SOURCE}/configs/eval.yaml", encoding="utf-8").read()
    file = c.jobs.JobFile(yaml=text, name="eval.yaml", overrides=[source, f"evaluate.checkpoint=job:{job}", "evaluate.alarm_hop_s=4"])
    job = c.Jobs.Submit(c.jobs.SubmitRequest(file=file)).job
    last = list(c.Jobs.Watch(c.jobs.WatchJobRequest(id=job.id)))[-1].job
    assert last.state == c.jobs.JOB_STATE_SUCCEEDED, last
    result = json.loads(last.result_json)
    assert result["recordings"] == 3 and "SzCORE" in result["definition"], result
    report = json.load(open(f"{last.directory}/report.json", encoding="utf-8"))
    assert len(report["recordings"]) == 3 and report["scores"]["pooled"]["event"]["ref"] == 3, report
    assert report["alarms"]["references"] == 3, report
    name = report["recordings"][0]["recording"]
    assert "<svg" in open(f"{last.directory}/plots/{name}.svg", encoding="utf-8").read(400)
    table = open(f"{last.directory}/events/{name.replace('_eeg.edf', '_events.tsv')}", encoding="utf-8").read()
    assert table.startswith("onset\tduration\teventType")
    file.overrides.append("data.montage=bipolar-18")
    detail, code, text = c.refused(c.Jobs.Submit, c.jobs.SubmitRequest(file=file))
    assert code == "INVALID_ARGUMENT" and "data.montage" in text and "checkpoint" in text, text


def stream(c, model):
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((len(LABELS), SECONDS * RATE)) * 20).astype("<f4")

    def messages(chunk):
        s = c.stream
        yield s.ClientMessage(open=s.Open(model=model, channels=LABELS, rate_hz=RATE, format=s.SAMPLE_FORMAT_F32_UV, want_probabilities=True))
        for at in range(0, x.shape[1], chunk):
            part = x[:, at : at + chunk]
            yield s.ClientMessage(chunk=s.Chunk(first_sample=at, samples=part.shape[1], data=part.tobytes()))

    traces = []
    for chunk in (1000, 20000):
        p, summary = b"", None
        for m in c.Stream.Run(messages(chunk)):
            if m.WhichOneof("kind") == "result":
                p += m.result.probabilities
            elif m.WhichOneof("kind") == "summary":
                summary = m.summary
        assert summary.samples == SECONDS * RATE and summary.gaps == 0, summary
        traces.append(p)
    assert len(traces[0]) == 4 * SECONDS * RATE and traces[0] == traces[1], "chunks of any size give the same bytes"


def models_and_checkpoints(c, d, job):
    k = c.checkpoints
    listed = c.Checkpoints.List(k.ListCheckpointsRequest(job_id=job)).checkpoints
    assert any(x.best for x in listed) and any(x.last for x in listed), listed
    ref = f"job:{job}"
    parts = list(c.Checkpoints.Get(k.GetCheckpointRequest(ref=ref)))
    data = b"".join(p.data for p in parts)
    sha = hashlib.sha256(data).hexdigest()
    assert parts[0].checkpoint.sha256 == sha
    assert c.Checkpoints.Verify(k.CheckpointRef(ref=ref)).valid
    assert c.refused(c.Checkpoints.Get, k.GetCheckpointRequest(ref="job:nobody"))[1] == "NOT_FOUND"
    assert os.readlink(f"/proc/{d.process.pid}/fd/0") == "/dev/null", "a refused download closed a descriptor that is not its own"

    def upload(name, payload, digest):
        yield k.PutCheckpointPart(name=name, sha256=digest)
        for at in range(0, len(payload), 50000):
            yield k.PutCheckpointPart(data=payload[at : at + 50000])

    assert c.Checkpoints.Put(upload("copy", data, sha)).sha256 == sha
    assert c.refused(c.Checkpoints.Put, upload("bad", data, "0" * 64))[1] == "DATA_LOSS"
    assert c.refused(c.Checkpoints.Put, upload("bad", data[:3000], ""))[1] == "INVALID_ARGUMENT"
    assert c.refused(c.Checkpoints.Put, upload("../bad", data, sha))[1] == "INVALID_ARGUMENT"
    model = c.Checkpoints.Promote(k.PromoteRequest(ref="upload:copy", name="ward"))
    assert model.name == "ward" and model.sha256 == sha and len(model.channels) == 19, model
    assert [m.name for m in c.Models.List(k.ListModelsRequest()).models] == ["ward"]
    assert c.refused(c.Checkpoints.Delete, k.CheckpointRef(ref="ward"))[1] == "FAILED_PRECONDITION"
    last = next(x for x in listed if x.last)
    assert c.refused(c.Checkpoints.Delete, k.CheckpointRef(ref=last.ref))[1] == "FAILED_PRECONDITION"
    assert c.Checkpoints.Pin(k.PinRequest(ref=last.ref, pinned=True)).pinned
    assert not c.Checkpoints.Pin(k.PinRequest(ref=last.ref, pinned=False)).pinned
    stream(c, "ward")
    assert c.Checkpoints.Delete(k.CheckpointRef(ref="upload:copy")).ref == "upload:copy"
    assert c.refused(c.Models.Describe, k.DescribeModelRequest(name="upload:copy"))[1] == "NOT_FOUND"
    assert c.Models.Unload(k.UnloadModelRequest(name="ward")).name == "ward"
    detail, code, text = c.refused(c.Models.Load, k.LoadModelRequest(name="x", ref="/etc/hostname"))
    assert code in ("INVALID_ARGUMENT", "DATA_LOSS") and detail.reason == code and "safetensors" in text, (detail, text)


def admin(c, d):
    a = c.admin
    checks = c.Admin.Doctor(a.DoctorRequest()).checks
    assert len(checks) >= 6 and all(getattr(x, "pass") for x in checks), checks
    watch = c.Metrics.Watch(a.WatchMetricsRequest(prefix="brrd_jobs", interval_ms=100))
    assert len([next(watch) for _ in range(3)]) == 3
    watch.cancel()
    assert c.refused(c.Metrics.Watch, a.WatchMetricsRequest(interval_ms=5))[1] == "INVALID_ARGUMENT"
    text = urllib.request.urlopen(f"http://127.0.0.1:{d.port}/metrics").read()
    lint = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert lint.returncode == 0 and not lint.stderr, lint.stderr.decode()
    assert b"brrd_train_steps_total" in text and b"brrd_stream_sessions_opened_total" in text
    assert "checkpoints" in c.Admin.Drain(a.DrainRequest()).message
    assert d.process.wait(timeout=PATIENCE) == 0, "drained daemons exit by themselves"


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=21)
        source = f"data.source=file://{tmp}/eeg"
        d = Daemon(tmp).start()
        c = Stock(f"unix:{d.socket}", f"{tmp}/stubs")
        job = submit_and_watch(c, source)
        evaluate(c, source, job)
        foreign_names(c, tmp)
        delete_without_models(c, tmp)
        models_and_checkpoints(c, d, job)
        admin(c, d)
    return 0


if __name__ == "__main__":
    sys.exit(main())
