#!/usr/bin/env python3
"""A backup of a daemon at work makes a daemon with other paths that serves the same models and lists the same jobs; a stream goes on in it.
A restore that was killed is run again, and no daemon starts beside a half restore; damage, a running daemon, a database that is there and
a later schema are refused by name."""
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

from daemon import BIN, MINI, PATIENCE, Daemon, make_corpus, temporary


def fill(d, tmp):
    """A finished training whose model serves, a pinned checkpoint and a stream that is cut."""
    make_corpus(f"{tmp}/eeg", 11, patients=3, hours=0.1)
    code, job, err = d.submit(*MINI, f"data.source=file://{tmp}/eeg", "training.max_steps=2", "training.epochs=1")
    assert code == 0, (job, err)
    for words in (("load", "ward", f"job:{job['job']}"), ("checkpoint", "pin", f"job:{job['job']}@last")):
        code, _, err = d.ctl(*words)
        assert code == 0, err
    return job["job"], sorted(glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True))[0]


def probabilities(d, recording, name):
    code, _, err = d.ctl("stream", recording, "--model", "ward", "--probabilities", f"{d.dir}/{name}.npy", "--output", f"{d.dir}/{name}.tsv")
    assert code == 0, err
    with open(f"{d.dir}/{name}.npy", "rb") as f:
        return f.read()


def restore(d, directory, wait=True):
    process = subprocess.Popen([*d.command(), "--restore", directory], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if not wait:
        return process
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def refused(d, directory, text):
    code, _, err = restore(d, directory)
    assert code == 1 and text in err, (text, err)


def check_refusals(tmp, backup):
    """Damage, a later schema and a path that leads out are refused before anything is written."""
    fresh = Daemon(f"{tmp}/refused")
    os.makedirs(fresh.dir, exist_ok=True)
    for change, text in ((lambda m: m.update(schema=99), "install that version"), (lambda m: m["files"][1].update(path="../../etc/x"), "without a path below"),
                         (lambda m: m.update(format=7), "this version reads format 1"),
                         (lambda m: m["files"][1].update(sha256=hashlib.sha256(b"").hexdigest()), "nothing was restored")):
        copy = shutil.copytree(backup, f"{tmp}/copy")
        with open(f"{copy}/backup.json", encoding="utf-8") as f:
            manifest = json.load(f)
        change(manifest)
        with open(f"{copy}/backup.json", "w", encoding="utf-8") as f:
            json.dump(manifest, f)
        refused(fresh, copy, text)
        shutil.rmtree(copy)
    refused(fresh, f"{tmp}/eeg", "not a whole backup")
    assert not os.path.exists(f"{fresh.dir}/results") and not os.path.exists(f"{fresh.dir}/jobs.sqlite")


def killed_restores(d, backup):
    """kill -9 after ever longer times, until one ends; then whatever is there is not taken for a daemon or is one."""
    delay, kills = 0.004, 0
    while True:
        process = restore(d, backup, wait=False)
        time.sleep(delay)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        if os.path.exists(f"{d.dir}/results/.restoring"):
            r = subprocess.run(d.command(), capture_output=True, text=True, timeout=PATIENCE)
            assert r.returncode == 1 and "has not ended" in r.stderr, r.stderr
        elif os.path.exists(f"{d.dir}/jobs.sqlite"):
            return kills  # after the last step of the restore, which is whole then
        delay *= 1.5
    _, err = process.communicate()
    assert process.returncode == 0, err
    return kills


def settle(d, live):
    """Stops the client of the live stream, and waits until all that it has sent is in a snapshot: a backup that is older than what the client was told is durable
    cannot give the stream back."""
    deadline, session = time.time() + PATIENCE, {}
    while not session.get("received_through", 0) > 0:
        assert live.poll() is None and time.time() < deadline, session
        session = next((json.loads(line) for line in d.ctl("sessions", "--json")[1].splitlines()), {})
    live.send_signal(signal.SIGSTOP)
    before = -1  # samples on their way arrive between two looks
    while session["received_through"] > before or session["durable_through"] < before or not os.path.exists(f"{d.dir}/results/sessions/{session['session']}"):
        assert time.time() < deadline, session
        before = session["received_through"]
        time.sleep(1)
        session = json.loads(d.ctl("sessions", "--json")[1].splitlines()[0])
    return session["session"]


def check_references(d, job):
    """The job's checkpoints, copied as docs/upgrade.md says, are found by every reference, and remain guarded."""
    for i, ref in enumerate((f"job:{job}", f"job:{job}@best", f"job:{job}@last")):
        code, _, err = d.ctl("load", f"copy-{i}", ref)
        assert code == 0, (ref, err)
    code, _, err = d.ctl("checkpoint", "unpin", f"job:{job}@last")
    assert code == 0, err
    for name in ("best", "last"):
        code, _, err = d.ctl("checkpoint", "delete", f"job:{job}@{name}")
        assert code and f"checkpoint of job {job}, which it needs" in err, err


def check_pinned(tmp, job):
    """Without the folders of jobs, every reference to a job finds its pinned checkpoint, which keeps its roles; of the curves brrctl says why they are missing."""
    d = Daemon(f"{tmp}/bare")
    os.makedirs(d.dir, exist_ok=True)
    code, _, err = restore(d, f"{tmp}/backup")
    assert code == 0, err
    for root, _, names in os.walk(f"{d.dir}/results"):  # before the daemon has started too
        for name in names:
            assert not os.stat(f"{root}/{name}").st_mode & (0o077 if name == "journal.sqlite" else 0o027), f"{root}/{name}"
    d.start()
    for i, role in enumerate(("", "@best", "@last", "@2")):
        code, _, err = d.ctl("load", f"pinned-{i}", f"job:{job}{role}")
        assert code == 0, (role, err)
    row = json.loads(d.ctl("checkpoints", job, "--json")[1])
    assert row["best"] and row["last"] and row["pinned"] and os.path.exists(row["path"]), row
    shown, listed = d.job(job), json.loads(d.ctl("jobs", "--json")[1])
    assert shown["checkpoint"] == shown["last_checkpoint"] == listed["checkpoint"] == row["path"], (shown, listed)
    assert f"checkpoint  {row['path']}\n" in d.ctl("job", job)[1] and f"checkpoint  {row['path']}\n" in d.ctl("watch", job)[1]
    code, _, err = d.ctl("job", job, "--csv")
    assert code == 1 and "which a backup leaves out" in err, err
    assert d.stop() == 0


def main():
    with temporary() as tmp:
        d = Daemon(f"{tmp}/old")
        os.makedirs(d.dir, exist_ok=True)
        d.start()
        job, recording = fill(d, tmp)
        want = probabilities(d, recording, "before")
        env = {**d.env, "BRR_ENDPOINT": d.env["BRR_ENDPOINT"]}
        live = subprocess.Popen([f"{BIN}/brrctl", "stream", recording, "--model", "ward", "--realtime", "20", "--probabilities", f"{tmp}/live.npy", "--output",
                                 f"{tmp}/live.tsv"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        session = settle(d, live)
        with open(f"{d.dir}/results/sessions/{session}.eeg", "wb"):
            pass  # as an alarm of the stream leaves it
        code, out, err = d.ctl("backup", f"{tmp}/backup", "--json")
        assert code == 0, err
        with open(f"{tmp}/backup/backup.json", encoding="utf-8") as f:
            manifest = json.load(f)
        names = [f["path"] for f in manifest["files"]]
        assert json.loads(out)["files"] == len(names) and names[:2] == ["jobs.sqlite", "journal.sqlite"] and any(re.fullmatch(r"models/\w{64}-ward\.safetensors", n) for n in names)
        assert any(re.fullmatch(r"models/\w{64}-.*@\d+\.safetensors", n) for n in names) and {f"sessions/{session}", f"sessions/{session}.eeg"} < set(names), names
        assert os.stat(f"{tmp}/backup").st_mode & 0o077 == 0
        code, _, err = d.ctl("backup", f"{tmp}/backup")
        assert code and "holds a backup already" in err, err
        refused(d, f"{tmp}/backup", "another daemon uses")
        check_refusals(tmp, f"{tmp}/backup")
        d.kill()  # its machine is gone; the stream goes on with the restored one
        new = Daemon(f"{tmp}/new")
        os.makedirs(new.dir, exist_ok=True)
        new.socket, new.env = d.socket, d.env
        kept = Daemon(f"{tmp}/kept")
        os.makedirs(f"{kept.dir}/results")
        with open(f"{kept.dir}/results/journal.sqlite", "w", encoding="utf-8") as f:
            f.write("newer")
        code, out, err = restore(kept, f"{tmp}/backup")
        assert code == 0 and "journal.sqlite is there already and stays" in out and open(f.name, encoding="utf-8").read() == "newer", (out, err)
        print("restores killed:", killed_restores(new, f"{tmp}/backup"))
        refused(new, f"{tmp}/backup", "exists; move it")
        check_pinned(tmp, job)
        shutil.copytree(f"{tmp}/old/results/jobs", f"{new.dir}/results/jobs", dirs_exist_ok=True)
        shutil.rmtree(f"{tmp}/old/results")
        new.start()
        live.send_signal(signal.SIGCONT)
        assert live.wait(PATIENCE) == 0, live.stderr.read()
        with open(f"{tmp}/live.npy", "rb") as f:
            assert f.read() == want, "the stream went on with other bits"
        assert probabilities(new, recording, "after") == want
        assert new.job(job)["state"] == "succeeded"
        opened = [e for e in map(json.loads, new.ctl("journal", "--json")[1].splitlines()) if e["kind"] == "opened"]
        assert len(opened) >= 3 and any(e["session"] == session for e in opened), opened  # of the daemon before, too
        with sqlite3.connect(f"{new.dir}/jobs.sqlite") as db:
            paths = [row[0] for row in db.execute("SELECT path FROM served UNION SELECT path FROM pins UNION SELECT directory FROM jobs")]
            paths += db.execute("SELECT best, last FROM jobs").fetchone()
            assert len(paths) == 5 and all(p.startswith(f"{new.dir}/results/") for p in paths), paths
        check_references(new, job)
        assert new.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
