#!/usr/bin/env python3
"""A volume that jobs name, and then the one of the job database, does not answer: states, health and lists go on, what needs the volume
waits and ends well when it is back, and no other call waits with it."""
import json
import os
import re
import signal
import subprocess
import sys
import time

from daemon import BIN, MINI, PATIENCE, SOURCE, make_corpus, temporary
from stock import Stock
from test_held_volume import HeldDaemon, Waiting, http

CALLS = 20  # more than the pool has threads


def job_file(c, source, steps=1):
    with open(f"{SOURCE}/configs/tiny.yaml", encoding="utf-8") as f:
        return c.jobs.JobFile(yaml=f.read(), name="tiny.yaml", overrides=[*MINI, f"data.source={source}", f"training.max_steps={steps}"])


def submit(c, source, request_id="", steps=1):
    return c.Jobs.Submit(c.jobs.SubmitRequest(file=job_file(c, source, steps), request_id=request_id)).job.id


def others_go_on(d, c, job):
    assert c.Jobs.Get(c.jobs.GetJobRequest(id=job), timeout=PATIENCE).id == job
    assert any(j.id == job for j in c.Jobs.List(c.jobs.ListJobsRequest(), timeout=PATIENCE).jobs)
    assert http(d, "/healthz")[0] == 200


def wait_over(c, job):
    *_, last = c.Jobs.Watch(c.jobs.WatchJobRequest(id=job), timeout=PATIENCE)
    return last.job


def release(d, waiting):
    d.release()
    for w in waiting:
        w.join(timeout=PATIENCE)
        assert not w.is_alive() and not w.error, f"{w.name}: {w.error or 'still waits'}"


def a_held_source(d, c, tmp, job):
    held = f"file://{tmp}/held-eeg"
    d.hold()
    waiting = [Waiting("Submit", lambda i=i: submit(c, held, f"request-{i // 2}")) for i in range(CALLS)]
    waiting.append(Waiting("Validate", lambda: c.Jobs.Validate(c.jobs.ValidateRequest(file=job_file(c, held)))))
    for _ in range(20):
        others_go_on(d, c, job)
        time.sleep(0.1)
    c.Checkpoints.List(c.checkpoints.ListCheckpointsRequest(), timeout=PATIENCE)  # the pool has threads for it
    for w in waiting:
        assert w.is_alive(), f"{w.name} did not need the volume: {w.error or w.answer}"
    release(d, waiting)
    jobs = [w.answer for w in waiting[:CALLS]]
    assert jobs[::2] == jobs[1::2] and len(set(jobs)) == CALLS // 2, jobs  # two calls of one request are one job
    wait_for_directories(f"{tmp}/results/jobs", {job, *jobs})
    for other in set(jobs):
        assert c.jobs.JobState.Name(wait_over(c, other).state) == "JOB_STATE_SUCCEEDED"


def a_held_job(d, tmp):
    """A job that waits for a file holds up a stop for jobs.stop_wait, no longer, and no restart is charged to it."""
    stop_wait = ["jobs.stop_wait=1s"]
    d.extra += stop_wait
    d.start()
    c = Stock(d.env["BRR_ENDPOINT"], f"{tmp}/stubs")
    first = submit(c, f"file://{tmp}/eeg", steps=1000000)
    d.wait(first, lambda job: job["state"] == "running")
    held = submit(c, f"file://{tmp}/held-eeg")
    d.hold()
    d.ctl("cancel", first)
    shown = d.wait(held, lambda job: job["state"] == "preparing" and job["reason"].startswith("waits for "))
    assert shown["reason"].startswith(f"waits for {tmp}/held-eeg since 20"), shown
    assert d.stop() == 0, d.read_log()
    assert "did not stop within jobs.stop_wait" in d.read_log()
    d.release()
    d.extra.remove(*stop_wait)
    d.start()
    end = d.wait(held, lambda job: job["state"] == "succeeded")
    assert (end["attempts"], end["restarts"], end["crashes"]) == (2, 0, 0), end
    assert d.stop() == 0


def load(d, seconds):
    return subprocess.Popen([f"{BIN}/brr-load", "--model", "line_length", "--sessions", "1", "--seconds", str(seconds), "--json"], env=d.env,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def streams_outlast_jobs(d, tmp):
    """While a job holds up a stop, streams go on and new ones are taken, until the end is asked for a second time."""
    def said():
        return d.read_log().count("streams are saved and end")
    d.start()
    c = Stock(d.env["BRR_ENDPOINT"], f"{tmp}/stubs")
    first = submit(c, f"file://{tmp}/eeg", steps=1000000)
    d.wait(first, lambda job: job["state"] == "running")
    held = submit(c, f"file://{tmp}/held-eeg")
    d.hold()
    d.ctl("cancel", first)
    d.wait(held, lambda job: job["state"] == "preparing" and job["reason"].startswith("waits for "))
    before = said()
    early = load(d, 3)
    d.process.send_signal(signal.SIGTERM)
    wait_until(lambda: http_failed(d, "/readyz"))
    late = load(d, 3)
    for stream in (early, late):
        out, err = stream.communicate(timeout=PATIENCE)
        got = json.loads(out)
        assert stream.returncode == 0 and (got["finished"], got["reconnects"], got["results_missing"]) == (1, 0, 0), (got, err)
    endless = load(d, 3600)
    wait_until(lambda: d.ctl("sessions", "--json")[1].strip())
    assert said() == before
    d.process.send_signal(signal.SIGTERM)
    wait_until(lambda: said() > before)
    assert d.process.poll() is None, "the job still waits"
    d.release()
    assert d.process.wait(timeout=PATIENCE) == 0, d.read_log()
    endless.kill()
    endless.wait()


def wait_until(condition):
    deadline = time.time() + PATIENCE
    while not condition():
        assert time.time() < deadline, "it never came"
        time.sleep(0.05)


def wait_for_directories(folder, names):
    """Those of the calls that came second are removed after the answer."""
    deadline = time.time() + PATIENCE
    while set(os.listdir(folder)) != names:
        assert time.time() < deadline, (os.listdir(folder), names)
        time.sleep(0.05)


def a_held_database(d, c, tmp):
    """Nothing is acknowledged that is not recorded."""
    late = None
    while not late:  # a submission that reads its recordings for longer than the volume needs to be found out is refused at once
        runs = submit(c, f"file://{tmp}/eeg", steps=1000000)
        d.wait(runs, lambda job: job["state"] == "running")
        d.hold()
        waiting = [Waiting("Submit", lambda: submit(c, f"file://{tmp}/eeg")),
                   Waiting("Cancel", lambda i=runs: c.Jobs.Cancel(c.jobs.CancelJobRequest(id=i)))]
        deadline = time.time() + PATIENCE
        while not http_failed(d, "/readyz"):
            assert time.time() < deadline, "the volume counts as one that answers"
            others_go_on(d, c, runs)
        waiting[0].join(timeout=PATIENCE)  # 5 s, with the job's id
        late = re.search(r"job (\S+) was submitted, but is not recorded yet.*may still happen", str(waiting[0].error))
        if not late:
            assert "its volume does not answer; try again" in str(waiting[0].error), waiting[0].error or waiting[0].answer
            release(d, waiting[1:])
            wait_until(lambda: not http_failed(d, "/readyz"))
    others_go_on(d, c, late.group(1))
    assert waiting[1].is_alive(), waiting[1].error or waiting[1].answer
    release(d, waiting[1:])
    assert c.jobs.JobState.Name(wait_over(c, runs).state) == "JOB_STATE_CANCELLED"
    assert c.jobs.JobState.Name(wait_over(c, late.group(1)).state) == "JOB_STATE_SUCCEEDED"
    wait_until(lambda: not http_failed(d, "/readyz"))


def http_failed(d, path):
    try:
        return http(d, path)[0] != 200
    except OSError:  # urllib's error for a status such as 503
        return True


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=21, patients=2, hours=0.04)
        make_corpus(f"{tmp}/held-eeg", seed=22, patients=2, hours=0.04)
        os.mkdir(f"{tmp}/db")
        d = HeldDaemon(tmp)
        d.extra = [f"jobs.database={tmp}/db/jobs.sqlite"]
        os.environ["BRR_HOLD_PATH"] = f"{tmp}/held-eeg"
        d.start()
        c = Stock(d.env["BRR_ENDPOINT"], f"{tmp}/stubs")
        job = submit(c, f"file://{tmp}/eeg")
        wait_over(c, job)
        a_held_source(d, c, tmp, job)
        assert d.stop() == 0
        a_held_job(d, tmp)
        streams_outlast_jobs(d, tmp)
        os.environ["BRR_HOLD_PATH"] = f"{tmp}/db"
        d.start()
        c = Stock(d.env["BRR_ENDPOINT"], f"{tmp}/stubs")
        a_held_database(d, c, tmp)
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
