#!/usr/bin/env python3
"""A kind of job that is its own file and a line of the table (tests/kinds): keys, validate, submit, watch, kill -9, resume, cancel."""
import json
import os
import re
import sqlite3
import subprocess
import sys
import urllib.request

import daemon
from daemon import BIN, Daemon, temporary

daemon.BIN = os.environ["BRR_BUILD_DIR"] + "/kinds"  # brrd and brrctl with that kind
ENDED = ("succeeded", "failed", "cancelled", "interrupted")


def submit(d, *sets, watch=True):
    code, job, err = d.submit("checkpoint.every=1s", *sets, watch=watch, file=f"{d.dir}/jobs/counter.yaml")
    assert job, err
    return code, job


def refused(d, *args):
    code, out, err = d.ctl(*args)
    assert code in (1, 3) and not out, (args, code, out, err)
    return err


def check_keys(d):
    code, out, err = d.ctl("keys", "counter", "--json")
    keys = {row["key"]: row for row in map(json.loads, out.splitlines())}
    assert code == 0 and keys["counter.to"]["kinds"] == ["counter"] and "limits.restarts" in keys and "data.source" not in keys, (keys, err)
    assert keys["counter.start"]["accepts"] == "a file", keys
    assert "counts, for tests" in d.ctl("keys")[1]
    completion = d.ctl("completion", "bash")[1]
    assert re.search(r'keys\) words="[^"]*counter', completion), completion
    err = refused(d, "validate", f"{d.dir}/jobs/counter.yaml", "--set", "kind=conuter")
    assert "--set: kind is 'conuter'; expected train, evaluate, detect" in err and " or counter" in err, err
    err = refused(d, "validate", f"{d.dir}/jobs/counter.yaml", "--set", "data.source=x")
    assert "data.source does nothing in a job of kind counter; leave it out" in err, err
    product = subprocess.run([f"{BIN}/brrctl", "keys", "counter"], capture_output=True, text=True)
    assert product.returncode == 2 and "expected train, evaluate" in product.stderr and "counter" not in product.stderr.split("expected")[1], product


def check_validate(d):
    code, out, err = d.ctl("validate", f"{d.dir}/jobs/counter.yaml", "--json", "--set", "counter.to=107")
    answer = json.loads(out)
    assert code == 0 and answer["kind"] == "counter" and answer["steps"] == 100 and answer["facts"]["from"] == "7", (answer, err)
    assert abs(answer["seconds_total"] - 1) < 1e-9 and not answer["notices"], answer
    code, out, err = d.ctl("validate", f"{d.dir}/jobs/counter.yaml", "--set", "counter.to=1000", "--set", "limits.wall_clock=2s")
    assert code == 0 and "limits.wall_clock is 2s" in out, (out, err)
    assert "not a file that the daemon can read" in refused(d, "validate", f"{d.dir}/jobs/counter.yaml", "--set", "counter.start=no.txt")


def check_run(d):
    code, job = submit(d, "counter.to=20")
    assert code == 0 and job["state"] == "succeeded" and job["result"] == {"count": 20, "began": 7}, job
    code, out, err = d.ctl("submit", f"{d.dir}/jobs/counter.yaml", "--watch", "--set", "counter.to=30")
    assert code == 0 and "numbers/s 100" in out and "succeeded: counted to 30" in out, (out, err)
    lines = out.splitlines()  # without a terminal: each state, and about each tenth
    assert any(line.endswith(" running") for line in lines) and sum("/30" in line for line in lines) <= 12, out
    metrics = urllib.request.urlopen(f"http://127.0.0.1:{d.port}/metrics").read().decode()
    assert '\nbrrd_counter_steps_total{device="cpu"} 36\n' in metrics and "# TYPE brrd_counter_rate gauge" in metrics, metrics


def check_kill(d):
    _, job = submit(d, "counter.to=400", watch=False)
    d.wait(job["job"], lambda j: j["state"] == "running" and j["step"] >= 150)
    d.kill()
    d.start()
    end = d.wait(job["job"], lambda j: j["state"] in ENDED)
    assert end["state"] == "succeeded" and end["result"]["count"] == 400 and end["result"]["began"] > 7, end


def check_resume(d):
    """A time limit, then --set that may and may not change; nothing of a refused one is kept."""
    _, job = submit(d, "counter.to=300", "limits.wall_clock=1s")
    assert job["state"] == "interrupted" and job["reason"] == "time_limit", job
    for set_, word in (("counter.to=5", "only limits.* may change"), ("limits.wallclock=12h", "nearest known key is 'limits.wall_clock'"),
                       ("limits.restarts=many", "expected a whole number"), ("limits.restarts=3\ncounter.to=5", "line end")):
        err = refused(d, "resume", job["job"], "--set", set_)
        assert word in err and d.job(job["job"])["state"] == "interrupted", (set_, err)
    assert d.ctl("resume", job["job"], "--set", "limits.wall_clock=none")[0] == 0
    given = d.job(job["job"])["file"]["overrides"]
    assert "limits.wall_clock=none" in given and "limits.wall_clock=1s" not in given, given
    end = d.wait(job["job"], lambda j: j["state"] in ENDED)
    assert end["state"] == "succeeded" and end["result"]["count"] == 300 and end["result"]["began"] > 7, end
    for set_ in ("name=a\ncounter.to=5", "counter.to=9\nlimits.restarts=2"):
        assert "line end" in refused(d, "submit", f"{d.dir}/jobs/counter.yaml", "--set", set_)
    assert "line end" in refused(d, "submit", f"{d.dir}/jobs/counter.yaml", "--set", 'name="a\\nb"')


def check_cancel(d):
    _, job = submit(d, "counter.to=100000", watch=False)
    d.wait(job["job"], lambda j: j["state"] == "running" and j["step"] > 0)
    assert d.ctl("cancel", job["job"])[0] == 0
    end = d.wait(job["job"], lambda j: j["state"] in ENDED)
    assert end["state"] == "cancelled" and end["reason"] == "cancelled", end


def check_restart(d):
    """A job's overrides are in the database, and hold when it is resumed after a restart."""
    _, job = submit(d, "counter.to=250", "limits.wall_clock=1s")
    assert job["state"] == "interrupted", job
    file = d.job(job["job"])["file"]
    assert file["yaml"].startswith("kind: counter") and "counter.to=250" in file["overrides"], file
    assert d.stop() == 0
    with sqlite3.connect(f"{d.dir}/jobs.sqlite") as db:
        kept = json.loads(db.execute("SELECT overrides FROM jobs WHERE id=?", (job["job"],)).fetchone()[0])
        assert f'counter.start="{d.dir}/jobs/start.txt"' in kept and "counter.to=250" in kept, kept
    db.close()
    d.start()
    assert d.ctl("resume", job["job"], "--set", "limits.wall_clock=none")[0] == 0
    end = d.wait(job["job"], lambda j: j["state"] in ENDED)
    assert end["state"] == "succeeded" and end["result"]["count"] == 250, end


def main():
    with temporary() as tmp:
        os.makedirs(f"{tmp}/jobs")
        with open(f"{tmp}/jobs/counter.yaml", "w") as f:
            f.write("kind: counter\nname: numbers\ncounter: { to: 50, start: start.txt }\n")
        with open(f"{tmp}/jobs/start.txt", "w") as f:
            f.write("7\n")
        d = Daemon(tmp).start()
        for check in (check_keys, check_validate, check_run, check_kill, check_resume, check_cancel, check_restart):
            check(d)
            print(check.__name__[6:])
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
