#!/usr/bin/env python3
"""A results volume that fills up ends a job with one clear error; checkpoints before it stay whole, the daemon stays up, and the job
goes on once there is room. A full cache volume pauses a job, which goes on by itself. A full
volume of the job database refuses new jobs and turns readiness. Needs a mount namespace (root, or user namespaces)."""
import hashlib
import os
import re
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request

from daemon import MINI, PATIENCE, Daemon, make_corpus, temporary
from fake_s3 import FakeS3

RESULTS_KIB = 600  # the network's pair of model and state has about 200 KiB


class SmallDisks(Daemon):
    """brrd in a mount namespace where results and cache are small file systems."""

    def __init__(self, directory, sizes_kib, extra=(), then="true"):
        """then: of the shell, once they are mounted."""
        super().__init__(directory, extra)
        self.sizes, self.then = sizes_kib, then
        for name in sizes_kib:
            os.makedirs(os.path.join(directory, name), exist_ok=True)

    def command(self):
        mounts = " && ".join(f"mount -t tmpfs -o size={kib}k none '{self.dir}/{name}'" for name, kib in self.sizes.items())
        return ["unshare", "-rm", "sh", "-c", f"{mounts} && {self.then} && exec \"$@\"", "sh", *super().command()]

    def inside(self, path):
        return f"/proc/{self.process.pid}/root{path}"


def namespaces_work(directory):
    mount = f"mount -t tmpfs -o size=64k none '{directory}'"
    return subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, check=False).returncode == 0


def sha256(path):
    return hashlib.sha256(open(path, "rb").read()).hexdigest()


def results_volume(tmp, source):
    d = SmallDisks(f"{tmp}/a", {"results": RESULTS_KIB}).start()
    sets = [*MINI, source, "training.max_steps=120", "training.validate_every=40", "checkpoint.every=1s", "checkpoint.keep=50", "limits.restarts=0"]
    code, end, err = d.submit(*sets)
    assert code == 1 and end["state"] == "failed", (end, err)
    for words in ("No space left", "free some space", "the ones before are untouched"):
        assert words in end["reason"], end["reason"]
    kept = sorted(f for f in os.listdir(d.inside(f"{tmp}/a/results/jobs/{end['job']}/checkpoints")) if f.endswith(".safetensors"))
    assert kept and not any(".tmp" in f for f in os.listdir(d.inside(f"{tmp}/a/results/jobs/{end['job']}/checkpoints"))), kept
    assert d.ctl("version")[0] == 0, "the daemon must stay up"
    assert soon(lambda: "paths.results is full" in readyz(d)[1]) and metric(d, 'brrd_ready{component="results"}') == 0
    folder = d.inside(f"{tmp}/a/results/jobs/{end['job']}/checkpoints")
    steps = sorted(f for f in os.listdir(folder) if f.endswith(".state.safetensors"))
    for name in steps[:-1]:  # somebody makes room
        os.unlink(f"{folder}/{name}")
        os.unlink(f"{folder}/{name.replace('.state', '')}")
    code, _, err = d.ctl("resume", end["job"])
    assert code == 0, err
    job = d.wait(end["job"], lambda j: j["state"] in ("succeeded", "failed", "running"))
    log = ""
    deadline = time.time() + PATIENCE
    while "resumed at step" not in log and time.time() < deadline:
        log = d.ctl("logs", end["job"])[1]
        time.sleep(0.1)
    assert "resumed at step" in log, (job, log)
    d.ctl("cancel", end["job"])
    assert d.stop() == 0


def leave_room(path, kib):
    """A file that fills the volume of path but for so much; its name."""
    volume = os.statvfs(path)
    name = f"{path}/filler"
    with open(name, "wb") as f:
        os.posix_fallocate(f.fileno(), 0, volume.f_bavail * volume.f_frsize - kib * 1024)
    return name


def metric(d, line):
    with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/metrics", timeout=PATIENCE) as r:
        return float(re.search("^" + re.escape(line) + r" (\S+)$", r.read().decode(), re.M)[1])


def soon(condition):
    deadline = time.time() + PATIENCE
    while not condition() and time.time() < deadline:
        time.sleep(0.1)
    return condition()


def paused_and_on_again(d, filler, sets):
    """A job that needs more room on the cache volume than there is waits, the daemon goes on, and so does the job when there is room."""
    code, last, err = d.submit(*sets, "training.max_steps=2", "limits.restarts=0", watch=False)
    assert code == 0, err
    job = d.wait(last["job"], lambda j: j["reason"].startswith("cache_full: ") or j["state"] in ("failed", "succeeded"))
    assert job["state"] == "queued", job
    for words in ("goes on by itself", "No space left", "free some space", f"{d.dir}/cache"):
        assert words in job["reason"], job["reason"]
    assert soon(lambda: metric(d, 'brrd_jobs_paused{reason="cache_full"}') == 1) and metric(d, 'brrd_ready{component="cache"}') == 0
    assert urllib.request.urlopen(f"http://127.0.0.1:{d.port}/readyz", timeout=PATIENCE).status == 200, "the daemon itself is well"
    code, out, _ = d.ctl("doctor")
    assert code != 0 and "wait for room" in out, out
    assert "cache_full: " in d.ctl("logs", last["job"])[1]
    time.sleep(4)
    assert d.job(last["job"])["state"] == "queued", "nothing changed: nothing to try"
    os.unlink(filler)
    job = d.wait(last["job"], lambda j: j["state"] in ("failed", "succeeded"))
    assert job["state"] == "succeeded", (job, d.read_log())
    assert soon(lambda: metric(d, 'brrd_jobs_paused{reason="cache_full"}') == 0) and metric(d, 'brrd_ready{component="cache"}') == 1


def journal_volume(tmp, corpus):
    """Streams go on while the journal's volume is full; what it could not take is written when there is room, and nothing else suffers."""
    d = SmallDisks(f"{tmp}/j", {"journal": 512}, [f"journal.file={tmp}/j/journal/journal.sqlite"]).start()
    assert soon(lambda: os.path.exists(d.inside(f"{tmp}/j/journal/journal.sqlite-wal")))
    recording = next(os.path.join(root, n) for root, _, names in sorted(os.walk(corpus)) for n in sorted(names) if n.endswith(".edf"))
    filler = leave_room(d.inside(f"{tmp}/j/journal"), 0)
    code, _, err = d.ctl("stream", recording, "--model", "line_length", "--client", "bed-1", "--output", f"{tmp}/j/x.tsv")
    assert code == 0, err
    assert soon(lambda: metric(d, "brrd_journal_write_errors_total") > 0) and "the journal cannot be written" in d.read_log()
    assert soon(lambda: metric(d, 'brrd_ready{component="journal"}') == 0) and readyz(d)[0] == 503
    os.unlink(filler)
    assert soon(lambda: metric(d, 'brrd_ready{component="journal"}') == 1)
    assert "bed-1" in d.ctl("journal", "--csv", "--kind", "opened")[1] and "done" in d.ctl("journal", "--kind", "ended")[1]
    assert d.stop() == 0


def journal_volume_full_at_the_start(tmp):
    """Alarms from before the start are known although only one connection to the journal can be opened."""
    kept, folder, now_ms = f"{tmp}/g/kept", f"{tmp}/g/journal", int(time.time() * 1000)
    os.makedirs(kept)
    d = Daemon(f"{tmp}/g", [f"journal.file={kept}/journal.sqlite"]).start()
    assert d.stop() == 0
    with sqlite3.connect(f"{kept}/journal.sqlite") as db:
        db.execute("INSERT INTO journal(kind, number, received_ms, start_s, session, principal, client, alarm, live) VALUES"
                   "('alarm_on', 512, ?, 2, '5e55', 'token:ana', 'bed-1', '5e55-512', 1)", (now_ms - 60000,))
    db.close()
    d = SmallDisks(f"{tmp}/g", {"journal": 1024}, [f"journal.file={folder}/journal.sqlite"],
                   f"cp '{kept}'/* '{folder}/' && {{ head -c 2M /dev/zero >'{folder}/filler'; true; }}").start()
    assert "other programs cannot read it" in d.read_log(), d.read_log()
    assert soon(lambda: "5e55-512" in d.ctl("alarms", "--open")[1]), d.read_log()
    assert d.stop() == 0


def cache_volume(tmp, source):
    d = SmallDisks(f"{tmp}/b", {"cache": 65536}).start()
    paused_and_on_again(d, leave_room(d.inside(f"{tmp}/b/cache"), 256), [*MINI, source])
    assert d.stop() == 0


def cache_volume_of_many_corpora(tmp):
    """Windows of corpora that no job uses give way to those of the next one."""
    d = SmallDisks(f"{tmp}/e", {"cache": 24576}).start()
    for seed in range(4):  # each has 11 MB of windows
        make_corpus(f"{tmp}/many-{seed}", seed=seed + 20)
        code, end, err = d.submit(*MINI, f"data.source=file://{tmp}/many-{seed}", "training.max_steps=1", "training.validate_every=1000",
                                  "data.validation_fraction=0", "limits.restarts=0")
        assert code == 0 and end["state"] == "succeeded", (seed, end, err)
    assert metric(d, 'brrd_window_cache_evictions_total{reason="room"}') > 0
    assert metric(d, "brrd_window_cache_used_bytes") <= metric(d, "brrd_cache_capacity_bytes") == 24576 * 1024 * 4 // 5 + 1
    assert d.stop() == 0


def cache_volume_of_a_bucket(tmp):
    with FakeS3() as s3:
        for root, _, names in os.walk(f"{tmp}/eeg"):
            for name in names:
                path = os.path.join(root, name)
                with open(path, "rb") as f:
                    s3.objects[os.path.relpath(path, f"{tmp}/eeg")] = f.read()
        os.environ.update(s3.environment())
        d = SmallDisks(f"{tmp}/c", {"cache": 65536}, [f"stores={{bucket: {{url: 's3://eeg', endpoint: '{s3.endpoint}'}}}}"]).start()
        paused_and_on_again(d, leave_room(d.inside(f"{tmp}/c/cache"), 6000), [*MINI, "data.source=store://bucket"])
        asked = [(r[1], r[3]) for r in s3.requests if r[0] == "GET" and r[1]]
        assert set(k for k, _ in asked) == set(s3.objects), asked
        heads = sum(key.endswith(".edf") for key in s3.objects)  # each asked for before the recording itself
        evicted = int(metric(d, 'brrd_cache_evictions_total{reason="room"}'))  # recordings give way to what is made of them, or never fitted
        assert len(asked) <= len(s3.objects) + heads + max(evicted, heads), f"what was fetched and kept is not fetched again: {evicted} evicted, {asked}"
        small = [key for key, _ in asked if not key.endswith(".edf")]
        assert len(small) == len(set(small)), f"small files had room: {asked}"
        assert d.stop() == 0


def readyz(d):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/readyz", timeout=PATIENCE) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def database_volume(tmp, source):
    """Nothing is acknowledged that cannot be written, nothing starts, readiness says so, and all goes on once there is room."""
    d = SmallDisks(f"{tmp}/d", {"db": 4096}, [f"jobs.database={tmp}/d/db/jobs.sqlite"]).start()
    sets = [*MINI, source, "data.validation_fraction=0", "training.max_steps=2"]
    code, first, err = d.submit(*sets)
    assert code == 0 and readyz(d)[0] == 200, err
    filler = leave_room(d.inside(f"{tmp}/d/db"), 0)
    for _ in range(1000):  # until what the file has already is used up too
        code, _, err = d.submit(*sets, watch=False)
        if code:
            break
    assert code and "free some space" in err and "jobs.sqlite" in err, err
    assert soon(lambda: readyz(d)[0] == 503) and "job database cannot be written" in readyz(d)[1]
    assert soon(lambda: metric(d, 'brrd_ready{component="database"}') == 0)
    assert d.ctl("version")[0] == 0 and d.job(first["job"])["state"] == "succeeded", "the daemon stays up"
    os.unlink(filler)
    assert soon(lambda: readyz(d)[0] == 200) and metric(d, 'brrd_ready{component="database"}') == 1
    code, last, err = d.submit(*sets, watch=False)
    assert code == 0, err
    d.ctl("cancel", last["job"])
    assert d.stop() == 0


def database_volume_full_at_the_start(tmp, source):
    """The daemon starts, lists its jobs, and takes others once there is room."""
    kept, folder = f"{tmp}/f/kept", f"{tmp}/f/db"
    sets = [*MINI, source, "data.validation_fraction=0", "training.max_steps=2"]
    os.makedirs(kept)
    d = Daemon(f"{tmp}/f", [f"jobs.database={kept}/jobs.sqlite"]).start()
    first = d.submit(*sets)[1]["job"]
    assert d.stop() == 0
    d = SmallDisks(f"{tmp}/f", {"db": 1024}, [f"jobs.database={folder}/jobs.sqlite"],
                   f"cp '{kept}'/* '{folder}/' && {{ head -c 2M /dev/zero >'{folder}/filler'; true; }}").start()
    assert d.job(first)["state"] == "succeeded" and "job database cannot be written" in readyz(d)[1], d.read_log()
    os.unlink(d.inside(f"{folder}/filler"))
    assert soon(lambda: readyz(d)[0] == 200)
    assert d.submit(*sets)[1]["state"] == "succeeded" and d.stop() == 0


def main():
    with temporary() as tmp:
        os.makedirs(f"{tmp}/probe")
        if not namespaces_work(f"{tmp}/probe"):
            print("skipped: rights: no mount namespaces here, so no small file system can be made")
            return 77
        for name in ("a", "b", "c", "d", "e", "f", "g"):
            os.makedirs(f"{tmp}/{name}")
        make_corpus(f"{tmp}/eeg", seed=9)
        source = f"data.source=file://{tmp}/eeg"
        results_volume(tmp, source)
        print("full results volume: one error, earlier checkpoints whole, resumed after room was made")
        journal_volume(tmp, f"{tmp}/eeg")
        journal_volume_full_at_the_start(tmp)
        cache_volume(tmp, source)
        cache_volume_of_a_bucket(tmp)
        cache_volume_of_many_corpora(tmp)
        database_volume(tmp, source)
        database_volume_full_at_the_start(tmp, source)
        print("full database volume: refused, not ready, and on again when there is room")
        print("full cache volume: the job waits, and goes on when there is room; the daemon is well meanwhile")
    return 0


if __name__ == "__main__":
    sys.exit(main())
