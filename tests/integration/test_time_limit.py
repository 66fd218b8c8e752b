#!/usr/bin/env python3
"""A job that needs longer than its time limit is told so with both figures, and runs: by validate, and by its pace once it trains. A job that
has spent its budget is saved and ends."""
import json
import re
import sys

from daemon import MINI, SOURCE, Daemon, make_corpus, temporary, until

BUDGET = r"about \d+\.\d\d CHF; "
WORDS = "will stop at the limit, be checkpointed, and go on"


def validate(d, *sets):
    args = [a for s in sets for a in ("--set", s)]
    code, out, err = d.ctl("validate", f"{SOURCE}/configs/tiny.yaml", "--json", *args)
    assert code == 0, err
    answer = json.loads(out)
    return answer, [n for n in answer["notices"] if WORDS in n]


def check_validate(d, base):
    long = [*base, "training.max_steps=10000000"]
    answer, notes = validate(d, *long, "limits.wall_clock=90m")
    needs_h = answer["seconds_total"] / 3600
    assert needs_h > 1.5 and len(notes) == 1, answer
    assert abs(answer["cost"] / answer["seconds_total"] - 1) < 1e-9 and answer["currency"] == "CHF", answer
    h, m = map(int, re.search(r"needs about (\d+)h(\d\d)m and limits.wall_clock is 1h30m", notes[0]).groups())
    assert abs(h + m / 60 - needs_h) <= 1 / 60 + 1e-9 and "brrctl resume" in notes[0], (notes, answer)
    assert "by itself (limits.auto_resume)" in validate(d, *long, "limits.wall_clock=90m", "limits.auto_resume=true")[1][0]
    assert not validate(d, *long, "limits.wall_clock=90000h")[1]
    assert "the daemon's jobs.default_wall_clock is 1h00m" in validate(d, *long, "limits.wall_clock=none")[1][0]
    code, out, err = d.ctl("validate", f"{SOURCE}/configs/tiny.yaml", *[a for s in (*long, "limits.wall_clock=1s") for a in ("--set", s)])
    assert code == 0 and "note: it needs about" in out and "limits.wall_clock is 1s" in out, (out, err)


def check_interrupted(d, base):
    code, end, err = d.submit(*base, "training.max_steps=10000000", "limits.wall_clock=6s", "training.validate_every=100000")
    assert code == 75 and end["state"] == "interrupted" and end["reason"] == "time_limit" and end["checkpoint"], (end, err)
    last = err.splitlines()[-1]
    assert re.fullmatch(rf"interrupted at step [1-9]\d* of 10000000; go on with brrctl resume {end['job']}", last) and "next:" not in err, err
    code, out, text = d.ctl("watch", end["job"])  # as text, afterwards
    assert code == 75 and text.splitlines()[-1] == last and "next:" not in out, (code, out, text)


def check_pace(d, base):
    sets = (*base, "training.max_steps=10000000", "limits.wall_clock=90m", "training.validate_every=100000")
    code, out, err = d.ctl("submit", f"{SOURCE}/configs/tiny.yaml", *[a for s in sets for a in ("--set", s)])
    assert code == 0, err
    job = out.split()[0]
    log = until(lambda: (text := d.ctl("logs", job)[1]) and WORDS in text and text, "the pace was never compared with the limit")
    assert d.ctl("cancel", job)[0] == 0
    d.wait(job, lambda j: j["state"] == "cancelled")
    notes = [line for line in log.splitlines() if WORDS in line]
    assert len(notes) == 1 and re.search(r"needs about \d+h\d\dm and limits.wall_clock is 1h30m", notes[0]), log
    code, end, err = d.submit(*base, "training.max_steps=12", "limits.wall_clock=10m")
    assert code == 0 and end["state"] == "succeeded" and WORDS not in err, (end, err)
    code, log, _ = d.ctl("logs", end["job"])
    assert WORDS not in log, log


def check_budget(d, base):
    """A second costs 1 CHF."""
    code, end, err = d.submit(*base, "training.max_steps=10000000", "limits.cost=6", "limits.auto_resume=true", "training.validate_every=100000", "checkpoint.every=1s")
    assert code == 75 and end["state"] == "interrupted" and end["reason"] == "cost_limit" and end["checkpoint"], (end, err)
    assert re.search(BUDGET + r"limits.cost 6 stops it near step \d+ of 10000000", err), err  # before it was queued, and by its pace
    assert d.ctl("resume", end["job"])[0] == 0  # what it has cost counts on
    job = d.wait(end["job"], lambda j: j["state"] == "interrupted" and j["attempts"] == 2)
    assert job["reason"] == "cost_limit" and job["run_ms"] < 60000, job


def check_estimate(d, base):
    """Money before the run: one line with the estimate and the budget wherever a job is looked at or queued, and no job that ends before
    its first checkpoint."""
    sets = [*base, "training.max_steps=5000", "training.validate_every=100000"]
    submit = lambda *more: d.ctl("submit", f"{SOURCE}/configs/tiny.yaml", *[a for s in (*sets, *more) for a in ("--set", s)])
    answer, _ = validate(d, *sets)
    total = answer["cost"]
    assert answer["budget"] == 0 and total > 2, answer
    for verb in ("validate", "submit"):  # the first checkpoint is due after 2 min
        code, out, err = d.ctl(verb, f"{SOURCE}/configs/tiny.yaml", *[a for s in (*sets, "limits.cost=0.01") for a in ("--set", s)])
        assert code == 1 and re.search(BUDGET + r"limits.cost 0.01 stops it near step \d+ of 5000, after 0s and before the first checkpoint", err), (verb, out, err)
        code, out, err = d.ctl(verb, f"{SOURCE}/configs/tiny.yaml", *[a for s in (*sets, "training.batch_size=4096", "training.micro_batch_size=1") for a in ("--set", s)])
        assert code == 1 and "fewer than training.batch_size 4096; lower it" in err, (verb, out, err)
    assert not d.ctl("jobs", "--json")[1], "nothing was queued"
    answers = []

    def stops():  # where an estimate is of a moment in which others had the processor, the next one need not be near it
        budget = validate(d, *sets)[0]["cost"] / 6
        answers.append(d.ctl("validate", f"{SOURCE}/configs/tiny.yaml", *[a for s in (*sets, f"limits.cost={budget}", "checkpoint.every=1s") for a in ("--set", s)]))
        return re.search(r"about (\d+\.\d\d) CHF; limits.cost ([\d.]+) stops it near step (\d+) of 5000", answers[-1][1])
    cost, budget, step = map(float, until(stops, lambda: answers).groups())
    code, out, _ = answers[-1]
    assert code == 0 and abs(step / 5000 - budget / cost) < 0.02, out
    running = submit("training.max_steps=100000000")[1].split()[0]
    d.wait(running, lambda j: j["state"] == "running")
    code, out, err = submit("limits.cost=0.01")
    assert code == 0 and "limits.cost is not checked: a job runs now" in err, (out, err)
    for job in (out.split()[0], running):
        assert d.ctl("cancel", job, "--now")[0] == 0
        d.wait(job, lambda j: j["state"] == "cancelled")
    code, out, err = submit(f"limits.cost={total * 1000}")
    assert code == 0 and re.search(r"brrctl: note: " + BUDGET + r"limits.cost \S+ is enough", err), err
    d.wait(out.split()[0], lambda j: j["state"] in ("running", "succeeded"))
    assert d.ctl("cancel", out.split()[0])[0] == 0
    d.wait(out.split()[0], lambda j: j["state"] in ("cancelled", "succeeded"))


def check_sweep(d, base):
    short = [a for s in (*base, "training.max_steps=2", "training.validate_every=2") for a in ("--set", s)]
    queued = d.ctl("jobs", "--json")[1].count('"job"')
    for grid, more, code, words in (("0,0.0002,0.0001", (), 1, "limits.cost 0.0001 stops it near step"),  # the smallest limit of the grid counts
                                    ("100000,0", ("--set", "limits.cost=0.0001", "--estimate"), 0, "limits.cost 100000 of each is enough")):
        got, _, err = d.ctl("sweep", f"{SOURCE}/configs/tiny.yaml", *short, "--grid", f"limits.cost={grid}", *more)
        assert got == code and re.search(BUDGET + words, err), (grid, got, err)
    assert queued and d.ctl("jobs", "--json")[1].count('"job"') == queued, "nothing was queued"
    args = [*short, "--set", "limits.cost=100000"]
    code, out, err = d.ctl("sweep", f"{SOURCE}/configs/tiny.yaml", *args, "--grid", "training.seed=1,2", "--output", f"{d.dir}/grid.tsv")
    assert code == 0 and re.search(r"2 trainings of 2 steps, .*" + BUDGET + "limits.cost 100000 of each is enough", err), err


def check_known_refusals(d, base):
    """What every attempt would refuse is refused before it is queued."""
    for verb in ("validate", "submit"):
        code, out, err = d.ctl(verb, f"{SOURCE}/configs/tiny.yaml", *[a for s in (*base, "limits.cost=5") for a in ("--set", s)])
        assert code == 1 and "devices_price_per_hour" in err, (verb, out, err)
        code, out, err = d.ctl(verb, f"{SOURCE}/configs/geodesic.yaml", "--set", "training.products=bf16x3")
        assert code == 1 and "runs on GPUs only" in err, (verb, out, err)
        code, out, err = d.ctl(verb, f"{SOURCE}/configs/geodesic.yaml", "--set", "devices=2")
        assert code in (1, 2) and ("cannot be shared by 2" in err or "the daemon has at most" in err), (verb, out, err)
    assert not d.ctl("jobs", "--json")[1]


def check_submit(d, base):
    """Without --watch: one line beforehand, and no more on stdout than ever."""
    for sets, warned in (((*base, "training.max_steps=10000000", "limits.wall_clock=90m"), True), ((*base, "training.max_steps=2", "limits.wall_clock=20h"), False)):
        for options in (["--json"], []):
            code, out, err = d.ctl("submit", f"{SOURCE}/configs/tiny.yaml", *options, *[a for s in sets for a in ("--set", s)])
            notes = [line for line in err.splitlines() if WORDS in line]
            assert code == 0 and len(notes) == warned and WORDS not in out and len(out.splitlines()) == 1, (out, err)
            if warned:
                assert re.fullmatch(r"brrctl: note: it needs about \d+h\d\dm and limits.wall_clock is 1h30m: .*", notes[0]), notes
            job = json.loads(out)["job"] if options else out.split()[0]
            if options:
                assert json.loads(out) == {"job": job, "state": "queued"}, out
            assert d.ctl("cancel", job)[0] == 0 or d.job(job)["state"] == "succeeded"
            d.wait(job, lambda j: j["state"] in ("cancelled", "succeeded"))
    code, out, err = d.ctl("submit", f"{SOURCE}/configs/tiny.yaml", "--set", "data.hopp_s=1")
    assert code != 0 and err.count("hopp_s") == 1, "what is wrong with the file is said once: " + err


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=21)
        base = [*MINI, f"data.source=file://{tmp}/eeg"]
        d = Daemon(tmp, ["jobs.default_wall_clock=1h", "devices_price_per_hour=3600", "devices_currency=CHF"]).start()
        check_validate(d, base)
        check_estimate(d, base)
        check_submit(d, base)
        check_interrupted(d, base)
        check_pace(d, base)
        check_budget(d, base)
        check_sweep(d, base)
        assert d.stop() == 0
        d = Daemon(f"{tmp}/without", ["devices=[cpu:0, cpu:1]"]).start()
        check_known_refusals(d, base)
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
