#!/usr/bin/env python3
"""`brrd run`: one job without a daemon. Its exit codes; a job that is told to end saves, and started again it ends with the files of
an undisturbed one; two processes never share a directory; a second process shares no cache."""
import glob
import json
import os
import signal
import subprocess
import sys
import time

from daemon import BIN, MINI, SOURCE, make_corpus, temporary, tensors

KINDS = os.path.join(os.environ["BRR_BUILD_DIR"], "kinds", "brrd")
AGAIN = 75


def command(tmp, directory, file, *extra, program=f"{BIN}/brrd"):
    return [program, "run", file, "--directory", f"{tmp}/{directory}", "--json", *extra]


def surroundings(tmp):
    """A session of its own, without a terminal."""
    return {"env": {**os.environ, "XDG_CACHE_HOME": f"{tmp}/cache"}, "cwd": tmp, "start_new_session": True}


def run(tmp, *args, expected=0, **options):
    r = subprocess.run(command(tmp, *args, **options), capture_output=True, text=True, **surroundings(tmp))
    assert r.returncode == expected, (r.returncode, r.stdout[-2000:], r.stderr[-2000:])
    return json.loads(r.stdout.splitlines()[-1]) if r.stdout else r.stderr


def stop_with(tmp, signum, phase, *args, **options):
    """Starts it, sends the signal once it is at work in that phase, and returns its last line and exit code."""
    p = subprocess.Popen(command(tmp, *args, **options), stdout=subprocess.PIPE, text=True, **surroundings(tmp))
    line = ""
    for line in p.stdout:
        if json.loads(line).get("phase") == phase:
            p.send_signal(signum)
            break
    for line in p.stdout:
        pass
    return json.loads(line) if line else None, p.wait()


def write(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    return path


def contents(directory):
    found = {}
    for name in sorted(os.listdir(directory)):
        if not name.startswith(".") and os.path.isfile(f"{directory}/{name}"):
            with open(f"{directory}/{name}", "rb") as f:
                found[name] = f.read()
    return found


def counting(tmp):
    file = write(f"{tmp}/count.yaml", "kind: counter\ncounter: { to: 60, pause_ms: 20 }\n")
    end = run(tmp, "whole", file, program=KINDS)
    assert end["state"] == "succeeded" and end["result"] == {"count": 60, "began": 0}, end
    end, code = stop_with(tmp, signal.SIGTERM, "count", "cut", file, program=KINDS)
    assert code == AGAIN and end["state"] == "interrupted" and end["checkpoint"], (end, code)
    end = run(tmp, "cut", file, program=KINDS)
    assert end["result"]["count"] == 60 and end["result"]["began"] > 0, end
    end = run(tmp, "limit", file, "--set", "limits.wall_clock=1s", "--set", "counter.to=100000", expected=AGAIN, program=KINDS)
    assert end["reason"] == "time_limit" and end["checkpoint"], end


def niceness(tmp):
    """A session of its own gives way with the run; in that of others the run gives way, and the session is as before, even while the run is there."""
    if not os.path.exists("/proc/self/autogroup"):
        return
    file, own = write(f"{tmp}/nice.yaml", "kind: counter\ncounter: { to: 100000, pause_ms: 20 }\n"), os.getpriority(os.PRIO_PROCESS, 0)
    for words, want in (((), (own, "19")), (("sh", "-c", '"$@"; true', "sh"), (19, "0"))):
        p = subprocess.Popen([*words, *command(tmp, f"nice-{len(words)}", file, program=KINDS)], stdout=subprocess.PIPE, text=True, **surroundings(tmp))
        p.stdout.readline()  # it is at work
        pid = p.pid
        if words:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
                pid = int(f.read())
        with open(f"/proc/{pid}/autogroup", encoding="ascii") as f:
            found = os.getpriority(os.PRIO_PROCESS, pid), f.read().split()[-1]
        os.kill(pid, signal.SIGKILL)
        p.communicate()
        assert found == want, (words, found)


def whose_folder(tmp):
    """A folder in use is asked whose it is: another job there is refused by name, and nothing in it is touched."""
    def files():
        return {path: os.stat(path).st_mtime_ns for path in glob.glob(f"{tmp}/cut/**/*", recursive=True)}

    def refused(*words):
        before = files()
        text = run(tmp, "cut", *words, expected=1, program=KINDS)
        assert files() == before
        return text["reason"] if isinstance(text, dict) else text
    count, tiny = f"{tmp}/count.yaml", write(f"{tmp}/train.yaml", 'kind: train\ndata: { source: "file:///tmp" }\n')
    text = refused(count, "--set", "counter.to=61")
    assert "counter.to: 61 (was 60)" in text and "another folder" in text, text
    assert "kind counter" in refused(tiny) and "kind train" in refused(tiny)
    end = run(tmp, "cut", count, "--set", "name=other", "--set", "counter.to=60.0e0", "--set", "limits.restarts=1", program=KINDS)
    assert end["state"] == "succeeded", end  # keys that change no result, and another spelling


def two_processes(tmp):
    file = write(f"{tmp}/long.yaml", "kind: counter\ncounter: { to: 100000, pause_ms: 20 }\n")
    first = subprocess.Popen(command(tmp, "shared", file, program=KINDS), stdout=subprocess.PIPE, text=True, **surroundings(tmp))
    first.stdout.readline()
    text = run(tmp, "shared", file, expected=1, program=KINDS)
    assert "another process runs a job in" in text, text
    killed = subprocess.Popen(["true"])
    killed.wait()
    for pid in (killed.pid, os.getpid()):  # what a killed process has left, and the folder of a living one
        os.makedirs(f"{tmp}/cache/brrd/run-{pid}/windows")
    other = run(tmp, "other", file, "--set", "counter.to=5", program=KINDS)  # the cache's lock is taken
    assert other["state"] == "succeeded", other
    assert [name for name in os.listdir(f"{tmp}/cache/brrd") if name.startswith("run-")] == [f"run-{os.getpid()}"]
    first.terminate()
    first.communicate()
    assert first.returncode == AGAIN, first.returncode


def mistakes(tmp):
    for words in (["run"], ["run", "a.yaml", "--bad"], ["run", "a.yaml", "--set"]):
        r = subprocess.run([f"{BIN}/brrd", *words], capture_output=True, text=True)
        assert r.returncode == 2 and "brrd run --help" in r.stderr and r.stderr.count("\n") == 1, (words, r)
    assert "cannot open" in run(tmp, "x", "absent.yaml", expected=1)
    bad = write(f"{tmp}/bad.yaml", "kind: burst\nnetwork: { neurons: 10, synapses: 1 }\nticks: many\n")
    assert "bad.yaml:3:1" in run(tmp, "x", bad, expected=1)
    job = write(f"{tmp}/detect.yaml", "kind: detect\ndata: { source: . }\ndetect: { model: 'job:train-1' }\n")
    assert "known to a daemon only" in run(tmp, "x", job, expected=1)
    assert not os.path.exists(f"{tmp}/x"), "a job that cannot begin leaves a directory"


def networks(tmp):
    file = write(f"{tmp}/burst.yaml", "kind: burst\nnetwork: { neurons: 500, synapses: 20 }\ninput: { random: 0.02, potential: 1000 }\n"
                                      "ticks: 60000\noutput: { rates_every: 1, membranes_every: 100 }\n")
    run(tmp, "ticks", file)
    end, code = stop_with(tmp, signal.SIGUSR1, "tick", "ticks-cut", file)
    assert code == AGAIN and end["checkpoint"], (end, code)
    run(tmp, "ticks-cut", file)
    assert contents(f"{tmp}/ticks") == contents(f"{tmp}/ticks-cut")


def training(tmp):
    make_corpus(f"{tmp}/eeg", seed=21, patients=2, hours=0.04)
    sets = [word for key in [f"data.source=file://{tmp}/eeg", *MINI, "training.max_steps=6", "training.validate_every=3"]
            for word in ("--set", key)]
    file = f"{SOURCE}/configs/tiny.yaml"
    whole = run(tmp, "train", file, *sets)
    end, code = stop_with(tmp, signal.SIGINT, "train", "train-cut", file, *sets)
    assert code == AGAIN, (end, code)
    cut = run(tmp, "train-cut", file, *sets)
    text = run(tmp, "train-cut", file, *sets, "--set", "training.max_steps=9", expected=1)
    assert "training.max_steps: 9 (was 6)" in text["reason"] and "model.init_from" in text["reason"], text
    os.unlink(f"{tmp}/train-cut/identity.json")  # as an older version left it
    text = run(tmp, "train-cut", file, *sets, "--set", "training.max_steps=9", expected=1)
    assert "model.init_from" in text["reason"], text
    assert tensors(whole["checkpoint"]) == tensors(cut["checkpoint"])


def main():
    started = time.time()
    with temporary() as tmp:
        for check in (counting, niceness, whose_folder, two_processes, mistakes, networks, training):
            check(tmp)
            print(f"{check.__name__}: {time.time() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
