#!/usr/bin/env python3
"""A job of higher priority gets the device from a running one, which is saved, goes on afterwards, and ends with the bits of an undisturbed
one, without a restart charged; limits.preemptible: false keeps the device; equal priority waits. A job that infers shares the device, and
both jobs have the bits of one alone. Waiting jobs say for what, and `brrctl usage`
counts by caller."""
import glob
import json
import sys
import time

from daemon import MINI, SOURCE, Daemon, make_corpus, temporary, tensors, until

BURST = f"{SOURCE}/configs/burst.yaml"


def steps(d, tmp, n, *more):
    return d.submit(*MINI, f"data.source=file://{tmp}/eeg", f"training.max_steps={n}", "training.epochs=1000", "training.validate_every=0", "checkpoint.keep=1",
                    *more, watch=False)[1]["job"]


def last(d, job):
    return tensors(max(glob.glob(f"{d.dir}/results/jobs/{job}/checkpoints/step-*[0-9].safetensors")))


def burst(d, ticks, *sets):
    return d.submit(f"ticks={ticks}", *sets, watch=False, file=BURST)[1]["job"]


def states(d, *jobs):
    return [d.job(j)["state"] for j in jobs]


def beside(d, tmp, job):
    """An evaluation with a training, by turns, then alone."""
    with open(f"{tmp}/evaluate.yaml", "w", encoding="utf-8") as f:
        f.write(f"kind: evaluate\ndata:\n  source: file://{tmp}/eeg\nevaluate:\n  checkpoint: demo\n")
    evaluate = lambda: d.submit(watch=False, file=f"{tmp}/evaluate.yaml")[1]["job"]
    figures = lambda j: {key: value for key, value in j["result"].items() if key not in ("wall_s", "checkpoint")}
    d.wait(job, lambda j: j["state"] == "running")
    scored = evaluate()
    assert d.wait(scored, lambda j: j["beside"])["beside"] == [job] and d.job(job)["beside"] == [scored]
    code, out, err = d.ctl("devices", "--json")
    assert code == 0 and json.loads(out)["occupants"] == [job, scored], out + err
    together = d.wait(scored, lambda j: j["state"] == "succeeded")
    assert d.wait(job, lambda j: j["state"] == "succeeded")["beside"] == []
    assert figures(d.wait(evaluate(), lambda j: j["state"] == "succeeded")) == figures(together)
    (turns,) = [line for line in d.ctl("metrics")[1].splitlines() if line.startswith("brrd_device_turns_total")]
    assert float(turns.split()[-1]) > 2, turns


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", 21, patients=2, hours=0.1)
        d = Daemon(tmp, ["devices_price_per_hour=3600", "devices_currency=CHF"]).start()
        calm = steps(d, tmp, 40)
        beside(d, tmp, calm)
        job = steps(d, tmp, 40)
        d.wait(job, lambda j: j["state"] == "running")
        urgent = burst(d, 50, "priority=9")
        d.wait(urgent, lambda j: j["state"] == "succeeded")
        done = d.wait(job, lambda j: j["state"] == "succeeded")
        code, log, err = d.ctl("logs", job)
        assert code == 0 and f"{urgent} of priority 9 preempts this one of priority 5" in log, log + err
        assert done["attempts"] == 2 and done["restarts"] == 0, done
        assert last(d, job) == last(d, calm), "a preempted training ended with other bits"

        firm = steps(d, tmp, 100000, "limits.preemptible=false")
        d.wait(firm, lambda j: j["state"] == "running")
        first, second = burst(d, 50, "priority=9"), burst(d, 50)
        until(lambda: d.job(first)["reason"] == f"waits for the device, which runs {firm}", lambda: d.job(first))
        until(lambda: d.job(second)["reason"] == f"waits for the device; number 2 in the queue, behind {firm}", lambda: d.job(second))
        time.sleep(2.5)  # more than two turns of the scheduler
        assert states(d, firm, first, second) == ["running", "queued", "queued"]
        assert d.ctl("cancel", firm)[0] == 0
        d.wait(second, lambda j: j["state"] == "succeeded")

        same = burst(d, 100000000, "priority=9")
        d.wait(same, lambda j: j["state"] == "running")
        equal = burst(d, 50, "priority=9")
        time.sleep(1.5)
        assert states(d, same, equal) == ["running", "queued"]
        assert d.ctl("cancel", same)[0] == 0
        d.wait(equal, lambda j: j["state"] == "succeeded")

        code, out, err = d.ctl("usage", "--json")
        accounts = [json.loads(line) for line in out.splitlines()]
        assert code == 0 and len(accounts) == 1 and accounts[0]["jobs"] == 10 and accounts[0]["open"] == 0 and accounts[0]["attempts"] == 11, (accounts, err)
        assert accounts[0]["owner"].startswith("uid:") and accounts[0]["run_ms"] > 3000, accounts
        assert abs(accounts[0]["cost"] - accounts[0]["run_ms"] / 1000) < 0.01 and accounts[0]["currency"] == "CHF", accounts
        month = json.loads(d.ctl("usage", "--json", "--beds", "10")[1].splitlines()[-1])
        assert month == {"beds": 10, "month_cost": 730 * 3600, "month_cost_per_bed": 73 * 3600, "currency": "CHF"}, month
        assert d.ctl("usage", "--since", "soon")[0] == 2 and "device time" in d.ctl("usage", "--since", "1h")[1]
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
