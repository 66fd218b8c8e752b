#!/usr/bin/env python3
"""The volume of paths.results does not answer for half a minute while a training writes there: streams, jobs' states, health and
metrics go on, the training and calls that need files of that volume wait, and all of them go on well when the volume is back. A stop
ends within jobs.stop_wait although the volume of the results or of the database does not answer."""
import hashlib
import os
import sys
import threading
import time
import urllib.error
import urllib.request

import grpc
import numpy

from daemon import MINI, PATIENCE, Daemon, make_corpus, temporary
from stock import Stock
from stream_fixture import train

LABELS = ["Fp1", "F3", "C3", "P3", "F7", "T3", "T5", "O1", "Fz", "Cz", "Pz", "Fp2", "F4", "C4", "P4", "F8", "T4", "T6", "O2"]
RATE, HELD_S = 256, 30


class HeldDaemon(Daemon):
    """A daemon whose results directory stops answering while the flag is there."""

    def __init__(self, directory):
        super().__init__(directory)
        self.flag = os.path.join(directory, "held")
        os.environ["BRR_HOLD_FLAG"], os.environ["BRR_HOLD_PATH"] = self.flag, os.path.join(directory, "results")

    def command(self):
        return ["env", f"LD_PRELOAD={os.environ['BRR_BUILD_DIR']}/tests/libhold_volume.so"] + super().command()

    def hold(self):
        open(self.flag, "w", encoding="ascii").close()

    def release(self):
        os.remove(self.flag)


class Waiting(threading.Thread):
    """A call that must not end while the volume is held, and must end well after that."""

    def __init__(self, name, call):
        super().__init__(daemon=True)
        self.name, self.call, self.error, self.answer = name, call, None, None
        self.start()

    def run(self):
        try:
            answer = self.call()
            self.answer = list(answer) if hasattr(answer, "__next__") else answer
        except grpc.RpcError as error:
            self.error = error


class Live:
    """A stream that sends a chunk and waits for what it makes."""

    def __init__(self, c, model, bed=False):
        self.c, self.at, self.first, self.lock = c, 0, True, threading.Condition()
        self.bed, self.unsaved = bed, False
        self.queue, self.over, self.seen, self.model = [], False, 0, model
        self.x = (numpy.random.default_rng(7).standard_normal((len(LABELS), 8 * RATE)) * 20).astype("<f4")
        self.push()  # half a window: from now on each chunk completes one
        self.call = c.Stream.Run(self.messages())

    def messages(self):
        s = self.c.stream
        yield s.ClientMessage(open=s.Open(model=self.model, channels=LABELS, rate_hz=RATE, format=s.SAMPLE_FORMAT_F32_UV, alarm_hop_s=-1,
                                          resumable=self.bed, realtime=self.bed))
        while True:
            with self.lock:
                while not self.queue and not self.over:
                    self.lock.wait()
                if not self.queue:
                    return
                chunk = self.queue.pop(0)
            yield s.ClientMessage(chunk=s.Chunk(first_sample=chunk, samples=self.x.shape[1], data=self.x.tobytes()))

    def push(self):
        with self.lock:
            self.queue.append(self.at)
            self.at += self.x.shape[1]
            self.lock.notify()

    def turn(self):
        """One chunk, until the daemon has consumed it and given out what its window completes."""
        self.push()
        before = self.seen
        for m in self.call:
            if m.HasField("ack"):
                self.unsaved = m.ack.unsaved
            if m.HasField("result"):
                self.seen = m.result.first_sample + m.result.samples
                if self.seen > before:
                    return

    def turn_until(self, unsaved):
        """An acknowledgement may come after the results of its samples."""
        deadline = time.time() + PATIENCE
        self.turn()
        while self.unsaved is not unsaved:
            assert time.time() < deadline, f"no acknowledgement says unsaved={unsaved}"
            self.turn()

    def finish(self):
        with self.lock:
            self.over = True
            self.lock.notify()
        *_, last = self.call
        assert last.summary.samples == self.at, last


def http(d, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{d.port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def calls_that_need_the_volume(d, c, job, detected, model_bytes):
    k = c.checkpoints
    sha = hashlib.sha256(model_bytes).hexdigest()
    parts = [k.PutCheckpointPart(name="held", sha256=sha, data=model_bytes[:1000]), k.PutCheckpointPart(data=model_bytes[1000:])]
    yield Waiting("Logs", lambda: c.Jobs.Logs(c.jobs.JobLogsRequest(id=job)))
    yield Waiting("Events", lambda: c.Jobs.Events(c.jobs.JobEventsRequest(id=detected)))
    yield Waiting("List", lambda: c.Checkpoints.List(k.ListCheckpointsRequest()))
    yield Waiting("Get", lambda: c.Checkpoints.Get(k.GetCheckpointRequest(ref=f"job:{job}")))
    yield Waiting("Verify", lambda: c.Checkpoints.Verify(k.CheckpointRef(ref=f"job:{job}")))
    yield Waiting("Put", lambda: c.Checkpoints.Put(iter(parts)))
    yield Waiting("Pin", lambda: c.Checkpoints.Pin(k.PinRequest(ref=f"job:{job}", pinned=True)))
    yield Waiting("Describe", lambda: c.Models.Describe(k.DescribeModelRequest(name=f"job:{job}")))
    yield Waiting("Load", lambda: c.Models.Load(k.LoadModelRequest(ref=f"job:{job}", name="other")))
    text = open(f"{os.environ['BRR_SOURCE_DIR']}/configs/tiny.yaml", encoding="utf-8").read()
    yield Waiting("Submit", lambda: c.Jobs.Submit(c.jobs.SubmitRequest(
        file=c.jobs.JobFile(yaml=text, name="tiny.yaml", overrides=[f"data.source=file://{d.dir}/eeg", "training.max_steps=1"]))))


class Training:
    """A training without an end in sight, which writes a checkpoint each second."""

    def __init__(self, d, c, source):
        code, end, err = d.submit(*MINI, f"data.source=file://{source}", "data.validation_fraction=0", "training.max_steps=100000000",
                                  "checkpoint.every=1s", watch=False)
        assert code == 0, err
        self.c, self.id = c, end["job"]
        self.wait(lambda job: job.last_checkpoint)

    def get(self):
        return self.c.Jobs.Get(self.c.jobs.GetJobRequest(id=self.id))

    def wait(self, condition):
        deadline = time.time() + PATIENCE
        while not condition(job := self.get()):
            assert time.time() < deadline, job
            time.sleep(0.05)
        return job

    def step(self):
        job = self.get()
        assert job.state in (self.c.jobs.JOB_STATE_RUNNING, self.c.jobs.JOB_STATE_CHECKPOINTING), job
        return job.progress.step

    def check_it_goes_on(self, held_at):
        """Beyond the step at which it was held, and its checkpoints are whole."""
        before = self.get().last_checkpoint
        self.wait(lambda job: job.progress.step > held_at and job.last_checkpoint != before)
        self.c.Jobs.Cancel(self.c.jobs.CancelJobRequest(id=self.id))
        self.wait(lambda job: job.state == self.c.jobs.JOB_STATE_CANCELLED)
        verified = self.c.Checkpoints.Verify(self.c.checkpoints.CheckpointRef(ref=f"job:{self.id}"))
        assert verified.valid, verified


def a_stop_ends(d, folder):
    """While no job runs, and this folder does not answer."""
    os.environ["BRR_HOLD_PATH"] = folder
    d.start()
    deadline = time.time() + PATIENCE
    while http(d, "/readyz")[0] != 200:
        assert time.time() < deadline, http(d, "/readyz")
        time.sleep(0.2)
    d.hold()
    waiting = Waiting("List", lambda: d.ctl("checkpoints"))
    time.sleep(2)  # the call and the look at the volume, once a second, stand still now
    assert d.stop() == 0, d.read_log()
    d.release()
    waiting.join(timeout=PATIENCE)


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=21, patients=2, hours=0.04)
        d = HeldDaemon(tmp).start()
        model = train(d, f"{tmp}/eeg")
        job = model.split("/jobs/")[1].split("/")[0]
        code, out, err = d.ctl("checkpoint", "promote", model, "ward")
        assert code == 0, err
        with open(f"{tmp}/detect.yaml", "w", encoding="ascii") as f:
            f.write(f"kind: detect\ndata: {{ source: 'file://{tmp}/eeg' }}\ndetect: {{ model: {model} }}\n")
        code, end, err = d.submit(file=f"{tmp}/detect.yaml")
        assert code == 0 and end["state"] == "succeeded", (end, err)
        c = Stock(d.env["BRR_ENDPOINT"], f"{tmp}/stubs")
        live = Live(c, "ward")
        for _ in range(3):
            live.turn()
        with open(model, "rb") as f:
            model_bytes = f.read()
        training = Training(d, c, f"{tmp}/eeg")
        live.turn()
        d.hold()
        waiting = list(calls_that_need_the_volume(d, c, job, end["job"], model_bytes))
        bed = Live(c, "ward", bed=True)  # live monitoring does not wait for the disk that its snapshots go to
        bed.turn()
        bed.turn_until(unsaved=True)
        assert bed.unsaved, "the stream of a bed did not say that it has no snapshot"
        status, text = http(d, "/readyz")
        assert status == 503 and "snapshots of 1 live stream cannot be written" in text, text
        deadline, turns = time.time() + HELD_S, 0
        while time.time() < deadline or turns < 5:
            live.turn()  # results of a live stream
            assert c.Jobs.Get(c.jobs.GetJobRequest(id=job)).id == job  # its state
            held_at = training.step()
            assert http(d, "/healthz")[0] == 200 and "brrd_stream_sessions" in http(d, "/metrics")[1]
            turns += 1
        other = Live(c, "ward")  # a stream of a model that serves can still be opened
        other.turn()
        other.turn()
        other.finish()
        for w in waiting:
            assert w.is_alive(), f"{w.name} did not need the volume: {w.error or w.answer}"
        d.release()
        for w in waiting:
            w.join(timeout=PATIENCE)
            assert not w.is_alive() and not w.error, f"{w.name}: {w.error or 'still waits'}"
        deadline = time.time() + PATIENCE
        while (ready := http(d, "/readyz"))[0] != 200:
            assert time.time() < deadline, ready
            time.sleep(0.2)
        bed.turn_until(unsaved=False)
        bed.finish()
        training.check_it_goes_on(held_at)
        live.finish()
        assert d.stop() == 0
        os.mkdir(f"{tmp}/db")
        os.rename(f"{tmp}/jobs.sqlite", f"{tmp}/db/jobs.sqlite")
        d.extra += ["jobs.stop_wait=3s", f"jobs.database={tmp}/db/jobs.sqlite"]
        a_stop_ends(d, f"{tmp}/results")
        a_stop_ends(d, f"{tmp}/db")
    return 0


if __name__ == "__main__":
    sys.exit(main())
