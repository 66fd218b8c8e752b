#!/usr/bin/env python3
"""Jobs that a daemon hands to a real Slurm (executors, kind slurm): submitted once although the daemon is killed between sbatch and its
record, watched although it is killed while they run, and cancelled; and jobs that go there together, as one array. With BRR_TEST_LONG also
Slurm's controller is killed, and a job is cancelled behind the daemon's back, and a sweep of four folds."""
import json
import os
import signal
import sys
import time

import slurm
from daemon import BIN, MINI, PATIENCE, SOURCE, Daemon, tensors, until

LONG = bool(os.environ.get("BRR_TEST_LONG"))
STEPS = 24 if LONG else 12
KEYS = [key for key in MINI if not key.startswith("training.")] + slurm.KEYS
# Once told to, it kills the daemon before the job is submitted, or after that and before anybody hears of it.
TRAP = "#!/bin/sh\nif [ -e {dir}/trap-before ]; then rm {dir}/trap-before; kill -9 $PPID; exit 1; fi\n" \
       "out=$(/usr/bin/sbatch \"$@\") || exit $?\nif [ -e {dir}/trap ]; then rm {dir}/trap; kill -9 $PPID; fi\necho \"$out\"\n"


class Side:
    """A daemon beside a cluster."""

    def __init__(self, cluster, tmp):
        self.cluster, self.tmp = cluster, tmp
        os.makedirs(f"{tmp}/bin")
        slurm.write_program(f"{tmp}/bin/brrd", slurm.AWAKE.format(BIN))
        slurm.write_program(f"{tmp}/bin/sbatch", TRAP.format(dir=tmp))
        os.environ.update(slurm.RANKS, BRRD=f"{tmp}/bin/brrd", XDG_CACHE_HOME=f"{tmp}/ranks", SLURM_CONF=cluster.env["SLURM_CONF"],
                          PATH=f"{tmp}/bin:{os.environ['PATH']}")
        self.d = Daemon(tmp, [f"executors={{cluster: {{kind: slurm, jobs: 2, template: {SOURCE}/deploy/slurm/train.sbatch}}}}"]).start()
        self.want = self.done(self.submit(STEPS))  # of a training that nothing disturbs

    def submit(self, steps, *sets):
        end = self.d.ctl("submit", f"{SOURCE}/configs/tiny.yaml", "--json", *[a for s in [
            *KEYS, f"training.max_steps={steps}", f"data.source=file://{self.tmp}/eeg", *sets] for a in ("--set", s)])
        if end[0] and self.d.process.poll() is None:
            raise AssertionError(end[2])
        return json.loads(end[1].splitlines()[-1])["job"] if not end[0] else None

    def remote(self, steps, *sets):
        return self.submit(steps, "executor=cluster", "resources.ranks=2", "resources.nodes=2", *sets)

    def names(self):
        return [n for n in self.cluster.call("squeue", "-h", "-t", "all", "-o", "%j").split() if n.startswith("brrd-")]

    def tasks(self, job):
        """What Slurm has of the array whose first job this is: pairs of array and index."""
        lines = [line.split() for line in self.cluster.call("squeue", "-h", "-r", "-t", "all", "-o", "%j %F %K").splitlines()]
        return sorted((line[1], line[2]) for line in lines if line[0] == f"brrd-{job}-1")

    def until(self, job, state):
        return self.d.wait(job, lambda j: j["state"] == state)

    def kill(self):
        self.d.process.send_signal(signal.SIGKILL)
        self.d.process.wait()

    def told(self, job):
        folder = f"{self.tmp}/results/jobs/{job}"
        text = self.d.read_log()[-3000:]
        for name in ("slurm.log", "errors.log", "events.jsonl"):
            if os.path.exists(f"{folder}/{name}"):
                with open(f"{folder}/{name}", encoding="utf-8", errors="replace") as f:
                    text += f"\n{name}:\n" + f.read()[-1500:]
        return text

    def done(self, job):
        try:
            end = self.until(job, "succeeded")
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.told(job)}") from e
        return tensors(end["checkpoint"]), end["result"]


def submitted_once(side):
    """The daemon dies between sbatch and its record, and again while the ranks train."""
    with open(f"{side.tmp}/trap", "w", encoding="ascii"):
        pass
    job = side.remote(STEPS)
    side.d.process.wait(timeout=PATIENCE)
    side.d.start()
    job = job or json.loads(side.d.ctl("jobs", "--json")[1].splitlines()[0])["job"]
    side.d.wait(job, lambda j: j["state"] == "running" and (j.get("step") or 0) > 0)
    side.kill()
    side.d.start()
    got = side.done(job)
    assert len(side.names()) == 1, side.names()
    assert got == side.want, (got, side.want)
    found = side.d.job(job)
    assert found["restarts"] == 0, found
    log = side.d.ctl("logs", job)[1]
    assert log.count("training patients") == 1, log


def array(side):
    """Three jobs, of which Slurm runs two at a time, are one array, although the daemon dies right before sbatch and right after it. The
    third is cancelled while it waits in Slurm; the others end with their bits."""
    for trap in ("trap-before", "trap"):
        with open(f"{side.tmp}/{trap}", "w", encoding="ascii"):
            pass
    first = side.submit(STEPS, "executor=cluster", "name=member-0", "array.size=3")
    for i, steps in ((1, STEPS), (2, 100000)):
        side.submit(steps, "executor=cluster", f"name=member-{i}", "array.size=3", f"array.index={i}", f"array.head={first}")
    side.d.process.wait(timeout=PATIENCE)
    assert not side.tasks(first), side.tasks(first)
    side.d.spawn()
    side.d.process.wait(timeout=PATIENCE)
    assert len(side.tasks(first)) == 3, side.tasks(first)
    side.d.start()
    jobs = {job["name"]: job["job"] for job in map(json.loads, side.d.ctl("jobs", "--json")[1].splitlines())}
    third = jobs["member-2"]
    side.until(first, "running")
    assert side.d.job(third)["state"] == "queued"
    assert side.d.ctl("cancel", third)[0] == 0
    side.until(third, "cancelled")
    assert side.done(first) == side.done(jobs["member-1"]) == side.want
    number = side.tasks(first)[0][0]
    assert side.tasks(first) == [(number, str(i)) for i in range(3)], side.tasks(first)
    assert not os.path.exists(f"{side.tmp}/results/jobs/{third}/events.jsonl"), "the cancelled job has run"
    for job in (first, jobs["member-1"]):
        assert side.d.job(job)["restarts"] == 0, side.d.job(job)


def cancelled(side):
    job = side.remote(100000)
    side.until(job, "running")
    code, _, err = side.d.ctl("cancel", job)
    assert code == 0, err
    side.kill()  # what was acknowledged holds
    side.d.start()
    side.until(job, "cancelled")
    until(lambda: not side.cluster.call("squeue", "-h", "-t", "PD,R,CF"), "the end of a cancelled job")
    code, _, err = side.d.ctl("submit", f"{SOURCE}/configs/tiny.yaml", "--set", "executor=elsewhere")
    assert code and "elsewhere" in err, err


def refused(side):
    """Slurm's reason is shown, of what it does not take and of what waits."""
    try:
        side.until(side.remote(6, "resources.gpus_per_rank=1"), "succeeded")
        raise AssertionError("a cluster without GPUs took a job for GPUs")
    except AssertionError as e:
        assert "sbatch refused the job" in str(e), e
    job = side.remote(6, "resources.nodes=50", "resources.ranks=64", "training.batch_size=256")
    side.d.wait(job, lambda j: "PENDING, PartitionConfig" in j["reason"])
    assert side.d.ctl("cancel", job)[0] == 0
    side.until(job, "cancelled")


def controller_killed(side):
    """Slurm saves its own state every five seconds; what it has saved goes on."""
    long = side.done(side.submit(120))
    job = side.remote(120)
    side.until(job, "running")
    time.sleep(8)
    side.cluster.kill_controller()
    waiting = side.remote(STEPS)
    side.until(waiting, "preparing")
    time.sleep(5)
    assert side.d.job(waiting)["state"] == "preparing" and side.d.job(job)["restarts"] == 0
    side.cluster.start_controller()
    assert side.done(job) == long and side.done(waiting) == side.want
    assert side.d.job(job)["restarts"] == side.d.job(waiting)["restarts"] == 0


def cancelled_elsewhere(side):
    """Somebody's scancel counts as a lost job, which is charged and tried again."""
    job = side.remote(STEPS)
    side.until(job, "running")
    side.cluster.call("scancel", "--name", f"brrd-{job}-1")
    assert side.done(job) == side.want
    assert side.d.job(job)["restarts"] == 1


def folds(side):
    """Leaving out one patient after the other, in the cluster and on the daemon's device: one pooled table, the same."""
    tables = []
    for options in ([], ["--executor", "cluster"]):
        code, out, err = side.d.ctl("sweep", f"{SOURCE}/configs/tiny.yaml", "--folds", "patients", "--json", *options, *[a for s in [
            *KEYS, "training.max_steps=6", f"data.source=file://{side.tmp}/eeg"] for a in ("--set", s)])
        assert code == 0, err
        lines = list(map(json.loads, out.splitlines()))
        tables.append([{k: v for k, v in line.items() if k not in ("job", "evaluation")} for line in lines])
    tasks = side.tasks(lines[0]["job"])
    assert tasks == [(tasks[0][0], str(i)) for i in range(4)], tasks
    assert tables[0] == tables[1] and len(tables[0]) == 5, tables
    print(json.dumps(tables[1][-1]))


if __name__ == "__main__":
    sys.exit(slurm.main(Side, [submitted_once, array, cancelled] + LONG * [refused, controller_killed, cancelled_elsewhere, folds],
                        end=lambda side: side.d.stop()))
