#!/usr/bin/env python3
"""Jobs in processes of their own (executors.local of kind process): weights as those of a job on a thread, though the job's process and then
the daemon are killed on the way; live streams notice neither; a process that hangs is killed by a cancel, and one that is stopped after a minute."""
import fcntl
import json
import os
import signal
import subprocess
import sys
import time

from daemon import BIN, MINI, PATIENCE, Daemon, make_corpus, tensors, temporary

STEPS = 60


def sets(tmp):
    return [*MINI, f"data.source=file://{tmp}/eeg", f"training.max_steps={STEPS}", "training.validate_every=20", "checkpoint.every=1s", "limits.restarts=5"]


def children(d):
    with open(f"/proc/{d.process.pid}/task/{d.process.pid}/children", encoding="ascii") as f:
        direct = f.read().split()
    for task in os.listdir(f"/proc/{d.process.pid}/task"):
        with open(f"/proc/{d.process.pid}/task/{task}/children", encoding="ascii") as f:
            direct += f.read().split()
    return sorted({int(pid) for pid in direct})


def child_of(d, job):
    d.wait(job, lambda j: j["state"] == "running" and j["step"] >= 10)
    (pid,) = children(d)
    return pid


def until(condition, what):
    deadline = time.time() + PATIENCE
    while not condition():
        assert time.time() < deadline, what
        time.sleep(0.05)


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def load(d, seconds):
    return subprocess.Popen([f"{BIN}/brr-load", "--model", "line_length", "--sessions", "1", "--seconds", str(seconds), "--json"], env=d.env,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def submit(d, tmp, *more):
    code, job, err = d.submit(*sets(tmp), *more, watch=False)
    assert code == 0, err
    return job["job"]


def killed(d, tmp, whole):
    """The job's process dies, then the daemon: the job goes on each time."""
    job = submit(d, tmp)
    stream = load(d, 4)
    os.kill(child_of(d, job), signal.SIGKILL)
    shown = d.wait(job, lambda j: j["state"] == "queued")
    assert "signal 9" in shown["reason"] and shown["restarts"] == 1, shown
    out, err = stream.communicate(timeout=PATIENCE)
    got = json.loads(out)
    assert stream.returncode == 0 and (got["finished"], got["reconnects"], got["results_missing"]) == (1, 0, 0), (got, err)
    orphan = child_of(d, job)
    d.kill()
    until(lambda: gone(orphan), "the job's process did not end with its daemon")
    d.start()
    end = d.wait(job, lambda j: j["state"] == "succeeded")
    assert (end["attempts"], end["restarts"], end["crashes"]) == (3, 1, 0), end
    assert tensors(end["checkpoint"]) == whole, "weights differ"


def hung(d, tmp):
    """A process that does nothing any more ends by a cancel, and the next job runs."""
    job = submit(d, tmp, "training.max_steps=1000000")
    pid = child_of(d, job)
    with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as f:
        assert int(f.read()) == 500
    os.kill(pid, signal.SIGSTOP)
    code, _, err = d.ctl("cancel", job)
    assert code == 0, err
    d.wait(job, lambda j: j["state"] == "cancelled")
    assert gone(pid)


def held_up(d, tmp):
    """A process that is stopped holds up its device for a minute at most; its job goes on in another one."""
    job = submit(d, tmp, "training.max_steps=1000000")
    pid = child_of(d, job)
    os.kill(pid, signal.SIGSTOP)
    shown = d.wait(job, lambda j: j["state"] == "queued")
    assert "said nothing for 60 s" in shown["reason"] and shown["restarts"] == 1 and gone(pid), shown
    assert child_of(d, job) != pid
    assert d.ctl("cancel", job)[0] == 0
    d.wait(job, lambda j: j["state"] == "cancelled")


def waits_for_the_one_before(d, tmp):
    """While a process of an earlier daemon holds the job's folder, the next one waits, is shown so, and can be cancelled."""
    job = submit(d, tmp, "training.max_steps=1000000")
    before = child_of(d, job)
    d.kill()
    until(lambda: gone(before), "the job's process did not end with its daemon")
    with open(f"{tmp}/results/jobs/{job}/.lock", "r+", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        d.start()
        d.wait(job, lambda j: j["state"] == "preparing" and "/.lock since" in j["reason"])
        assert d.ctl("cancel", job)[0] == 0
        d.wait(job, lambda j: j["state"] == "cancelled")


def stopped(d, tmp):
    """A stop saves the job, and the next daemon goes on with it."""
    job = submit(d, tmp, "training.max_steps=1000000")
    pid = child_of(d, job)
    assert d.stop() == 0, d.read_log()
    assert gone(pid)
    d.start()
    shown = d.wait(job, lambda j: j["state"] == "running" and j["step"] >= 10)
    assert shown["restarts"] == 0, shown
    d.ctl("cancel", job)
    d.wait(job, lambda j: j["state"] == "cancelled")


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=5, patients=3, hours=0.1)
        d = Daemon(tmp).start()
        whole = tensors(d.wait(submit(d, tmp), lambda j: j["state"] == "succeeded")["checkpoint"])
        assert d.stop() == 0
        d.extra = ["executors={local: {kind: process}}"]
        d.start()
        killed(d, tmp, whole)
        hung(d, tmp)
        held_up(d, tmp)
        waits_for_the_one_before(d, tmp)
        stopped(d, tmp)
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
