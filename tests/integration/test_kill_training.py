#!/usr/bin/env python3
"""kill -9 at random moments of a training with validations and checkpoint.keep: 1. Each time the training goes on from what was
saved, ends with the files of an undisturbed one, bit for bit, and leaves no other. BRR_TEST_KILLS sets how many kills there are in all,
BRR_TEST_SEED the moments."""
import hashlib
import os
import random
import re
import sys
import time

from daemon import MINI, SOURCE, Daemon, make_corpus, temporary

sys.path.insert(0, f"{SOURCE}/tests")
from seed import test_seed  # noqa: E402

KILLS = int(os.environ.get("BRR_TEST_KILLS", "6"))
SEED = test_seed()
PER_JOB = 10
ACTIVE = ("preparing", "running", "checkpointing")
OVER = ("succeeded", "failed", "cancelled", "interrupted")


class Training:
    """A job, its folder, and what its log says about its attempts."""

    def __init__(self, d, job):
        self.d, self.job, self.dir = d, job, f"{d.dir}/results/jobs/{job}"
        self.saved = []  # at each kill: attempts so far, step of the newest pair

    def files(self):
        return sorted(os.path.relpath(os.path.join(root, name), self.dir) for root, _, names in os.walk(self.dir) for name in names)

    def checkpoints(self):
        """Digests of models and states by name."""
        folder = f"{self.dir}/checkpoints"
        found = {}
        for name in os.listdir(folder):
            with open(f"{folder}/{name}", "rb") as f:
                found[name] = hashlib.sha256(f.read()).hexdigest()
        return found

    def attempts(self):
        """One text per attempt that got as far as its plan."""
        if not os.path.exists(f"{self.dir}/log.txt"):
            return []
        with open(f"{self.dir}/log.txt", encoding="utf-8") as f:
            return f.read().split(" windows: ")[1:]

    def newest(self):
        """Step of the newest pair."""
        folder = f"{self.dir}/checkpoints"
        names = os.listdir(folder) if os.path.isdir(folder) else []
        steps = [int(m[1]) for m in (re.fullmatch(r"step-(\d+)\.state\.safetensors", name) for name in names) if m]
        return max(steps, default=0)

    def note_kill(self):
        self.saved.append((len(self.attempts()), self.newest()))

    def stands_still(self):
        """Whether the last two kills found the same pair: on a busy machine, kills before every save would go on until the daemon waits
        minutes between attempts."""
        return len(self.saved) > 1 and self.saved[-1][1] == self.saved[-2][1]

    def check_attempts(self):
        """No attempt that came to its data began before the newest pair that was durable when the one before was killed."""
        texts = self.attempts()
        for known, step in self.saved:
            for text in texts[known:]:
                resumed = re.search(r"resumed at step (\d+) ", text)
                assert " data: " not in text or not step or (resumed and int(resumed[1]) >= step), (step, text)
        assert not any("cannot be used" in text for text in texts), texts


def wait_active(d, job):
    return d.wait(job, lambda j: j["state"] in ACTIVE + OVER)


def kill_once(d, t, rng):
    """Whether the training was still under way; then it goes on under a new daemon."""
    while_preparing, moment = rng.random() < 0.3, rng.random()
    state = wait_active(d, t.job)["state"]
    if not while_preparing:
        state = d.wait(t.job, lambda j: j["state"] in ("running",) + OVER)["state"]
    if state in OVER:
        return False
    if t.stands_still():
        before = t.newest()
        d.wait(t.job, lambda j: t.newest() > before or j["state"] in OVER)
    time.sleep(moment * (0.5 if while_preparing else 2.5))
    over = d.job(t.job)["state"] in OVER
    d.kill()
    t.note_kill()
    d.start()
    return not over


def main():
    print(f"BRR_TEST_KILLS={KILLS} BRR_TEST_SEED={SEED}")
    rng = random.Random(SEED)
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=31)
        sets = [*MINI, f"data.source=file://{tmp}/eeg", "data.normalize=baseline", "data.reference=average", "data.augment.enabled=true",
                "data.balance.hard=0.25", "data.balance.per_patient=4",
                "training.early_stopping.metric=subject_f1", "training.max_steps=160", "training.validate_every=8", "checkpoint.every=1s", "checkpoint.keep=1",
                "limits.restarts=1000", "events.threshold=auto"]
        d = Daemon(tmp).start()
        code, end, err = d.submit(*sets)
        assert code == 0 and end["state"] == "succeeded", (end, err)
        whole = Training(d, end["job"])
        want, files = whole.checkpoints(), whole.files()
        states = [name for name in want if ".state." in name]
        assert len(states) == 1 and 2 <= len(want) <= 3, want
        kills = rounds = resumed = 0
        while kills < KILLS:
            code, job, err = d.submit(*sets, watch=False)
            assert code == 0, err
            t = Training(d, job["job"])
            for _ in range(PER_JOB):
                if kills == KILLS or not kill_once(d, t, rng):
                    break
                kills += 1
            end = d.wait(t.job, lambda j: j["state"] in OVER)
            assert end["state"] == "succeeded", (end, d.read_log())
            t.check_attempts()
            assert t.checkpoints() == want, (t.checkpoints(), want)
            assert t.files() == files, (t.files(), files)
            assert end["checkpoint"] and os.path.basename(end["checkpoint"]) in want, end
            rounds += 1
            resumed += sum("resumed at step" in text for text in t.attempts())
            print(f"{kills} kills, {rounds} trainings, {resumed} attempts resumed; the newest as undisturbed", flush=True)
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
