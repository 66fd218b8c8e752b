#!/usr/bin/env python3
"""What a kill leaves in a training's folder: a pair between its two renames, files half written, pairs that cannot be used. The
training goes on from the newest usable pair, ends with the same bytes, and leaves nothing behind that nobody will read."""
import hashlib
import os
import shutil
import subprocess
import sys

from daemon import MINI, SOURCE, make_corpus, temporary

DRIVER = os.path.join(os.environ["BRR_BUILD_DIR"], "tests", "task_driver")
STEPS = 6


class Run:
    """A training's folder and the newest attempt in it."""

    def __init__(self, tmp, name, *sets):
        self.tmp, self.dir, self.sets = tmp, f"{tmp}/{name}", sets

    def go(self, *extra):
        args = [DRIVER, f"{SOURCE}/configs/tiny.yaml", self.dir, f"{self.tmp}/cache", f"data.source=file://{self.tmp}/eeg", *MINI,
                f"training.max_steps={STEPS}", "training.validate_every=2", *self.sets, *extra]
        r = subprocess.run(args, capture_output=True, text=True, check=False)
        assert r.returncode == 0, r.stdout[-2000:] + r.stderr[-4000:]
        self.log = r.stderr
        self.announced = [line.split()[1:] for line in r.stdout.splitlines() if line.startswith("checkpoint ")]
        return self

    def path(self, step, end):
        return f"{self.dir}/checkpoints/step-{step:08d}{end}"

    def files(self):
        return sorted(os.path.relpath(os.path.join(root, name), self.dir) for root, _, names in os.walk(self.dir) for name in names)

    def weights(self):
        return digest(self.path(STEPS, ".safetensors"))


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def resumed_at(run):
    lines = [line for line in run.log.splitlines() if line.startswith("resumed at step ")]
    return int(lines[0].split()[3]) if lines else 0


def second_save_of_a_step(tmp):
    """Model and state of step 2 as saved before its validation and after it."""
    early = Run(tmp, "early", "checkpoint.keep=2").go("stop_after=validate")
    late = Run(tmp, "late", "checkpoint.keep=2").go("stop_after=3")
    assert digest(early.path(2, ".safetensors")) != digest(late.path(2, ".safetensors")), "the validation's thresholds are part of it"
    return early, late


def killed_between_the_renames(tmp, whole):
    early, late = second_save_of_a_step(tmp)
    cases = {  # what stands in the folder: model, state, FILE.new
        "before": (early, early, ((".safetensors.new", late, ".safetensors"), (".state.safetensors.new", late, ".state.safetensors"))),
        "between": (late, early, ((".state.safetensors.new", late, ".state.safetensors"),)),
        "half": (early, early, ((".safetensors.new", late, ".safetensors"), (".state.safetensors.new.tmp-1-0", late, ".safetensors"))),
        "first": (None, None, ((".safetensors.new", late, ".safetensors"), (".state.safetensors.new", late, ".state.safetensors"))),
        "first-between": (late, None, ((".state.safetensors.new", late, ".state.safetensors"),)),
    }
    for name, (model, state, fresh) in cases.items():
        run = Run(tmp, name, "checkpoint.keep=1")
        os.makedirs(f"{run.dir}/checkpoints")
        if model:
            shutil.copy(model.path(2, ".safetensors"), run.path(2, ".safetensors"))
        if state:
            shutil.copy(state.path(2, ".state.safetensors"), run.path(2, ".state.safetensors"))
        for end, source, its_end in fresh:
            shutil.copy(source.path(2, its_end), run.path(2, end))
        run.go()
        assert resumed_at(run) == 2 and "cannot be used" not in run.log, (name, run.log)
        assert run.weights() == whole.weights() and run.files() == whole.files(), (name, run.files())


def a_broken_newer_pair_is_no_obstacle(tmp, whole):
    run = Run(tmp, "fallback", "checkpoint.keep=2").go("stop_after=3")
    with open(run.path(5, ".safetensors"), "wb") as f:
        f.write(b"cut short")
    shutil.copy(run.path(3, ".state.safetensors"), run.path(5, ".state.safetensors"))
    with open(run.path(2, ".safetensors"), "r+b") as f:  # and an older one whose model is no longer what its state names
        f.truncate(os.path.getsize(run.path(2, ".safetensors")) - 1)
    run.sets = ("checkpoint.keep=1",)
    run.go("stop_after=4")
    assert resumed_at(run) == 3 and "checkpoint of step 5 cannot be used" in run.log, run.log
    kept = [name for name in run.files() if ".state." in name]
    assert kept == ["checkpoints/step-00000004.state.safetensors"], kept
    run.go()
    assert run.weights() == whole.weights() and run.files() == whole.files(), run.files()


def a_restored_training_announces_best_and_last_again(tmp, whole):
    run = Run(tmp, "told", "checkpoint.keep=1").go("stop_after=3")
    before = run.announced
    best = [(path, sha) for path, sha, *rest in before if rest == ["best"]][-1]
    run.go("stop_after=4")
    (first, sha, *mark), (last, last_sha, *_) = run.announced[:2]
    assert (first, sha) == best and mark == ["best"], (run.announced, best)
    assert [last, last_sha] == before[-1][:2] and last == run.path(3, ".safetensors"), (run.announced, before)
    run.go()
    assert run.weights() == whole.weights()


def models_of(run):
    """The steps whose models are there."""
    return {int(name.split("step-")[1][:8]) for name in run.files() if name.endswith(".safetensors") and ".state." not in name and "step-" in name}


def the_best_by_score_are_kept(tmp, whole):
    sets = ("checkpoint.keep=1", "checkpoint.keep_best=2", "training.early_stopping.metric=loss", "training.validate_every=1")
    straight = Run(tmp, "straight", *sets).go()
    losses = {}
    for line in straight.log.splitlines():
        if line.startswith("validation at step "):
            losses[int(line.split()[3].rstrip(":"))] = float(line.split("loss ")[1].split(",")[0])
    kept = models_of(straight)
    best = max(int(path.split("step-")[1][:8]) for path, _, *rest in straight.announced if rest == ["best"])
    others = sorted((loss, -step) for step, loss in losses.items() if step != best)
    assert len(losses) == STEPS and kept == {best, -others[0][1], STEPS}, (losses, best, kept)
    halves = Run(tmp, "halves", *sets, f"checkpoint.keep_best={STEPS}").go("stop_after=3").go()
    assert resumed_at(halves) == 3 and models_of(halves) == set(range(1, STEPS + 1)), "a resumed training knows the scores before"


def nothing_stays_behind(tmp, whole):
    run = Run(tmp, "left", "checkpoint.keep=1").go("stop_after=3")
    for name in ("step-00000001.safetensors", "step-00000002.safetensors.new", "step-00000002.state.safetensors.new",
                 "step-00000003.state.safetensors.tmp-4194000-0"):
        with open(f"{run.dir}/checkpoints/{name}", "wb") as f:
            f.write(b"left")
    with open(f"{run.dir}/training.svg.tmp-4194000-3", "wb") as f:
        f.write(b"left")
    run.go("stop_after=4")
    assert not [name for name in run.files() if ".new" in name or ".tmp-" in name or "00001" in name], run.files()
    run.go()
    assert run.weights() == whole.weights() and run.files() == whole.files(), run.files()


def lost_lines_of_progress_are_named_once(tmp, whole):
    run = Run(tmp, "lines", "checkpoint.keep=1")
    os.makedirs(f"{run.dir}/metrics.jsonl")
    run.go()
    assert run.log.count("goes on without its lines of progress: cannot write") == 1, run.log
    assert run.weights() == whole.weights()


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=11, patients=2, hours=0.03)
        whole = Run(tmp, "whole", "checkpoint.keep=1").go()
        states = [name for name in whole.files() if ".state." in name]
        assert states == [f"checkpoints/step-{STEPS:08d}.state.safetensors"], states
        killed_between_the_renames(tmp, whole)
        a_broken_newer_pair_is_no_obstacle(tmp, whole)
        a_restored_training_announces_best_and_last_again(tmp, whole)
        nothing_stays_behind(tmp, whole)
        the_best_by_score_are_kept(tmp, whole)
        lost_lines_of_progress_are_named_once(tmp, whole)
    return 0


if __name__ == "__main__":
    sys.exit(main())
