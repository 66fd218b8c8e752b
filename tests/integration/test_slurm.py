#!/usr/bin/env python3
"""Trainings under a real Slurm with simulated nodes and deploy/slurm/train.sbatch: one rank, and two on two nodes, have the same bits. With
BRR_TEST_LONG also faults: a rank is killed, a node lost or cut off, a job preempted, cancelled or at its time limit; it is started again
and ends with the same bits."""
import glob
import json
import os
import sys
import time

import slurm
from daemon import BIN, MINI, SOURCE, tensors, until

LONG = bool(os.environ.get("BRR_TEST_LONG"))
KEYS = [key for key in MINI if not key.startswith("training.")] + [*slurm.KEYS, "training.max_steps=24"]


class Jobs:
    def __init__(self, cluster, tmp, keys=tuple(KEYS)):
        self.cluster, self.tmp, self.keys, self.reference = cluster, tmp, keys, None
        slurm.write_program(f"{tmp}/brrd", slurm.AWAKE.format(BIN))
        cluster.env.update(slurm.RANKS, BRRD=f"{tmp}/brrd", XDG_CACHE_HOME=f"{tmp}/cache")

    def submit(self, name, *options, nodes=2, tasks=2, keys=()):
        out = f"{self.tmp}/{name}"
        return self.cluster.call("sbatch", "--parsable", f"--nodes={nodes}", f"--ntasks={tasks}", f"--output={out}.log", *options,
                                 f"{SOURCE}/deploy/slurm/train.sbatch", f"{SOURCE}/configs/tiny.yaml", out,
                                 f"data.source=file://{self.tmp}/eeg", *self.keys, *keys), out

    def events(self, out):
        try:
            with open(f"{out}/events.jsonl", encoding="utf-8") as f:
                return [json.loads(line) for line in f if line.startswith("{") and line.endswith("}\n")]
        except FileNotFoundError:
            return []

    def trains(self, out, after=0):
        """Its steps have begun, in an attempt whose events come after so many."""
        until(lambda: any("first step after" in e.get("text", "") for e in self.events(out)[after:]), lambda: f"the first step in {out}: {self.told(out)}")

    def told(self, out):
        text = ""
        for path in [f"{out}.log", f"{out}/errors.log", *sorted(glob.glob(f"{self.cluster.dir}/log/n*.log"))]:
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as f:
                    text += f.read()[-1500:]
        return text

    def exit_code(self, out):
        until(lambda: os.path.exists(f"{out}/exit"), lambda: f"the end of {out}: {self.told(out)}")
        with open(f"{out}/exit", encoding="ascii") as f:
            return int(f.read())

    def check(self, out, attempts=2):
        """It succeeded, after that many attempts at least, with the bits of the undisturbed one."""
        assert self.exit_code(out) == 0, self.told(out)
        end = [e for e in self.events(out) if e["event"] == "end"][-1]
        found = tensors(end["checkpoint"]), end["result"]
        self.reference = self.reference or found
        assert found == self.reference, (found, self.reference)
        ran = len(glob.glob(f"{out}/checkpoints/a*"))
        assert ran >= attempts, (ran, self.told(out))


def undisturbed(jobs):
    _, out = jobs.submit("alone", nodes=1, tasks=1)
    jobs.check(out, attempts=1)
    _, out = jobs.submit("two-nodes")
    jobs.check(out, attempts=1)


def rank_killed(jobs):
    _, out = jobs.submit("killed")
    jobs.trains(out)
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with open(path, "rb") as f:
            words = f.read().split(b"\0")
        if words[0].endswith(b"/brrd") and out.encode() in words:
            os.kill(int(path.split("/")[2]), 9)
            break
    else:
        raise AssertionError("no rank runs")
    jobs.check(out)


def node_lost(jobs):
    """The second node; the batch script runs on the first."""
    _, out = jobs.submit("lost")
    jobs.trains(out)
    seen, lost = len(jobs.events(out)), time.monotonic()
    jobs.cluster.kill(2)
    until(lambda: "down" in jobs.cluster.call("sinfo", "-h", "-N", "-n", "n2", "-o", "%T"), "Slurm sees the loss")
    jobs.cluster.start(2)
    jobs.trains(out, after=seen)
    print(f"trains again {time.monotonic() - lost:.0f} s after the loss of its node")
    jobs.check(out)


def preempted(jobs):
    _, out = jobs.submit("preempted", f"--cpus-per-task={jobs.cluster.cpus}")
    jobs.trains(out)
    jobs.cluster.call("sbatch", "--parsable", "-p", "urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap", "sleep 1")
    jobs.check(out)


def time_limit(jobs):
    """Slurm's limits are minutes; the signal comes a minute before the end."""
    _, out = jobs.submit("limited", "--time=1", "--signal=USR1@55", keys=["training.max_steps=24"])
    jobs.trains(out)
    jobs.check(out, attempts=1)


def node_cut(jobs):
    """Ranks on a node without network live on, and write into folders that nobody reads as the newest."""
    _, out = jobs.submit("cut")
    jobs.trains(out)
    jobs.cluster.cut(1)
    until(lambda: "down" in jobs.cluster.call("sinfo", "-h", "-N", "-n", "n1", "-o", "%T"), "Slurm sees the loss")
    jobs.cluster.join(1)
    jobs.check(out)


def cancelled(jobs):
    number, out = jobs.submit("cancelled")
    jobs.trains(out)
    jobs.cluster.call("scancel", number)
    until(lambda: not jobs.cluster.state(number), "the end of a cancelled job")
    assert not os.path.exists(f"{out}/exit"), "a cancelled job has ended by itself"
    _, out = jobs.submit("cancelled")  # the same directory: it goes on
    jobs.check(out)


def wrong_job(jobs):
    number, out = jobs.submit("wrong", keys=["training.batch_size=48"])
    assert jobs.exit_code(out) == 1, jobs.told(out)
    until(lambda: not jobs.cluster.state(number), "the end of a job that is wrong")


if __name__ == "__main__":
    sys.exit(slurm.main(Jobs, [undisturbed] + LONG * [wrong_job, node_lost, preempted, rank_killed, time_limit, cancelled, node_cut],
                        always=[undisturbed]))
