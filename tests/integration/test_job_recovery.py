#!/usr/bin/env python3
"""kill -9 in mid-training, a time limit with resume, and SIGTERM all end with weights bit-identical to an uninterrupted run."""
import hashlib
import json
import sys

from daemon import MINI, Daemon, make_corpus, temporary

STEPS = 120


def weights(path):
    return hashlib.sha256(open(path, "rb").read()).hexdigest()


def check_course(d, job, plain, course, before):
    """A line that was cut off swallows no other, and curves are read around it."""
    with open(course, encoding="utf-8") as f:
        lines = f.read().splitlines()
    assert lines[before - 1] == '{"kind":"step","step":' and all(json.loads(line) for line in lines[before:]) and len(lines) > before, lines
    code, out, err = d.ctl("job", job, "--csv")
    whole = d.ctl("job", plain, "--csv")[1]
    steps = [[line.split(",")[1] for line in text.splitlines()[1:]] for text in (out, whole)]
    assert code == 0 and steps[0] == steps[1], (err, steps)
    code, out, err = d.ctl("compare", job, plain)
    assert code == 0, err


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=7)
        sets = [*MINI, f"data.source=file://{tmp}/eeg", f"training.max_steps={STEPS}", "training.validate_every=40", "checkpoint.every=1s"]
        d = Daemon(tmp).start()
        code, plain, err = d.submit(*sets)
        assert code == 0 and plain["state"] == "succeeded", (plain, err)
        want = weights(plain["checkpoint"])
        course = [d.job(plain["job"])[key] for key in ("step", "steps", "loss")]
        assert course[:2] == [STEPS, STEPS] and course[2] > 0, course

        code, job, err = d.submit(*sets, watch=False)
        assert code == 0, err
        d.wait(job["job"], lambda j: j["state"] == "running" and j["step"] >= 25)
        d.kill()
        d.start()
        assert [d.job(plain["job"])[key] for key in ("step", "steps", "loss")] == course, "where a job of an earlier life ended"
        end = d.wait(job["job"], lambda j: j["state"] in ("succeeded", "failed"))
        assert end["state"] == "succeeded", end
        assert weights(end["checkpoint"]) == want, "weights differ after kill -9"
        print("kill -9: bit-identical")

        code, job, err = d.submit(*sets, watch=False)
        d.wait(job["job"], lambda j: j["state"] == "running" and j["step"] >= 10)
        assert d.stop() == 0, d.read_log()
        d.start()
        end = d.wait(job["job"], lambda j: j["state"] in ("succeeded", "failed"))
        assert end["state"] == "succeeded" and weights(end["checkpoint"]) == want, end
        print("SIGTERM and restart: bit-identical")

        code, job, err = d.submit(*sets, "limits.wall_clock=1s")
        assert job["state"] == "interrupted" and job["reason"] == "time_limit" and code == 75, (job, err)
        course = f"{d.dir}/results/jobs/{job['job']}/metrics.jsonl"
        with open(course, "ab") as f:  # as a kill in the middle of a line leaves it
            f.write(b'{"kind":"step","step":')
        before = sum(1 for _ in open(course, "rb"))
        code, out, err = d.ctl("resume", job["job"], "--set", "limits.wall_clock=none")
        assert code == 0, err
        end = d.wait(job["job"], lambda j: j["state"] in ("succeeded", "failed"))
        assert end["state"] == "succeeded" and weights(end["checkpoint"]) == want, end
        check_course(d, job["job"], plain["job"], course, before)
        print("wall_clock and resume: bit-identical")
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
