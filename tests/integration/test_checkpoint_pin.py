#!/usr/bin/env python3
"""A pinned checkpoint outlives its pruning under the same REF: it is listed, verified, fetched and streamed with, until it is unpinned.
A job that waits keeps its model too."""
import concurrent.futures
import contextlib
import json
import os
import resource
import sqlite3
import sys
import urllib.request

from daemon import MINI, SOURCE, Daemon, make_corpus, temporary, until
from stream_fixture import with_metadata

LEFT = "0" * 64 + "-left.safetensors"


def listed(d, job):
    code, out, err = d.ctl("checkpoints", job, "--json")
    assert code == 0, err
    return {c["ref"]: c for c in map(json.loads, out.splitlines())}


def page(d, path, word):
    """A page, opened with the link that brrctl prints, whose answer is a cookie; once it shows the word."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    opener.open(d.ctl("page")[1].strip()).read()
    read = lambda: opener.open(f"http://127.0.0.1:{d.port}{path}").read().decode()
    until(lambda: word in read(), read, pause_s=0.2)
    return read()


def check_card(d, job, source):
    """Where a model comes from, by its file and by evaluations of it; deleting the job of a served model is remarked upon."""
    said = lambda: [m for m in map(json.loads, d.ctl("models", "--json")[1].splitlines()) if m["name"] == "ward"][0]
    assert d.ctl("load", "ward", f"job:{job}")[0] == 0
    model = said()
    card = model["card"]
    assert card["source"] == source and card["version"] and set(card) == {"version", "source", "training", "validation"}, card
    assert card["training"] == {"patients": 2, "hours": card["training"]["hours"], "seizures": 2} and 0.05 < card["training"]["hours"] < 0.07, card
    assert card["validation"]["patients"] == 0 and model["ref"] == f"job:{job}" and model["tests"] == [], model
    assert model["precision"] == "f32" and model["bf16_difference"] == 0, model
    code, out, err = d.ctl("submit", f"{SOURCE}/configs/eval.yaml", "--set", f"data.source={source}", "--set", "evaluate.checkpoint=ward",
                           "--set", "evaluate.baselines=[]", "--set", "evaluate.threshold=model", "--watch", "--json")
    end = json.loads(out.splitlines()[-1])
    assert code == 0, (out, err)
    tests = said()["tests"]
    assert [t["job"] for t in tests] == [end["job"]] and tests[0]["recordings"] == 2 and tests[0]["seen_patients"] == 2, tests
    text = d.ctl("models", "ward")[1]
    for words in (f"source      {source}", "2 patients", "evaluated   by job", "patients of the training among them", "precision   f32"):
        assert words in text, (words, text)
    text = page(d, "/models", "trained by brrd")
    assert "trained by brrd" in text and job in text and source in text and "precision" in text, text
    assert d.ctl("load", "line", "line_length")[0] == 0
    line = [m for m in map(json.loads, d.ctl("models", "--json")[1].splitlines()) if m["name"] == "line"][0]
    assert line["card"] is None and "step" not in d.ctl("models", "line")[1], line
    text = page(d, "/models", "<h2>line</h2>").split("<h2>line</h2>")[1].split("</article>")[0]
    assert "trained" not in text and "share of seizure" not in text, text
    code, out, err = d.ctl("delete", end["job"])
    assert code == 0 and "note" not in err and said()["card"] == card, err


def as_before(d, job, kept):
    """The folders of version 0.1, whose links were named otherwise, and a link that a crash left behind; the new paths."""
    results = f"{d.dir}/results"
    with contextlib.closing(sqlite3.connect(f"{d.dir}/jobs.sqlite")) as db, db:
        [(path, sha256)] = db.execute("SELECT path, sha256 FROM served WHERE name='ward'")
        new = [f"{results}/served/ward-{sha256}.safetensors", f"{results}/pinned/{job}-1.safetensors"]
        for old, to in zip([path, kept], new):
            os.makedirs(os.path.dirname(to), exist_ok=True)
            os.rename(old, to)
        os.link(new[0], f"{results}/models/{LEFT}")
        db.execute("UPDATE served SET path=? WHERE path=?", (new[0], path))
        db.execute("DROP TABLE loads")
        assert db.execute("UPDATE pins SET path=? WHERE path=?", (new[1], kept)).rowcount == 1
    return new


def check_both_at_once(d, job):
    """A pin and an unpin in the same moment: whoever was last, a checkpoint that is said to be pinned has its link."""
    ref = list(listed(d, job))[-1]
    with concurrent.futures.ThreadPoolExecutor(2) as both:
        for _ in range(8):
            assert not any(code for code, _, _ in both.map(lambda verb: d.ctl("checkpoint", verb, ref), ("pin", "unpin")))
            with contextlib.closing(sqlite3.connect(f"{d.dir}/jobs.sqlite")) as db:
                pins = db.execute("SELECT path FROM pins").fetchall()
            assert listed(d, job)[ref]["pinned"] == (len(pins) == 2) and all(os.path.exists(path) for path, in pins), pins
    assert d.ctl("checkpoint", "unpin", ref)[0] == 0


def loads(d):
    return [(load["ref"], load["time_ms"] > 0) for load in json.loads(d.ctl("models", "ward", "--json")[1])["loads"]]


def check_back(d, job, pinned):
    """The name goes back to weights that a pin holds; its loads outlive a restart, and the oldest are forgotten."""
    sha256 = lambda: json.loads(d.ctl("models", "ward", "--json")[1])["sha256"]
    first = until(sha256, d.read_log)  # "" while it loads
    assert loads(d) == [(f"job:{job}", False)], "what an earlier version had served"
    for words in ([pinned], ["line_length"], ["--previous"], ["line_length"], [f"job:{job}"]):
        until(lambda: d.ctl("load", "ward", *words)[0] == 0, d.read_log)  # not before the file of the load before is gone
    kept = [(ref, True) for ref in (f"job:{job}", "line_length", pinned, "line_length", pinned)]
    assert loads(d) == kept, loads(d)
    d.kill()
    d.start()
    assert loads(d) == kept, loads(d)
    until(lambda: sha256() == first, d.read_log)


def check_memory(d):
    """A lack of memory says nothing of the file: verify fails, and does not call it invalid."""
    def widen(pairs):
        pairs["brr.model"] = json.dumps({**json.loads(pairs["brr.model"]), "window": 1 << 20})
    wide = with_metadata(f"{SOURCE}/models/demo.safetensors", f"{d.dir}/wide.safetensors", widen)
    with open(f"/proc/{d.process.pid}/status", encoding="utf-8") as f:
        size = next(int(line.split()[1]) << 10 for line in f if line.startswith("VmSize:"))
    unlimited = resource.RLIM_INFINITY
    resource.prlimit(d.process.pid, resource.RLIMIT_AS, (size + (1 << 30), unlimited))
    code, out, err = d.ctl("checkpoint", "verify", wide)
    resource.prlimit(d.process.pid, resource.RLIMIT_AS, (unlimited, unlimited))
    assert code == 1 and "memory" in err and "valid" not in out + err, (code, out, err)
    assert d.ctl("checkpoint", "verify", f"{SOURCE}/models/demo.safetensors")[0] == 0


def check_waiting(d, tmp):
    """A job that waits has its model although the checkpoint is pruned meanwhile; what it kept for that is gone when it has run."""
    code, first, err = d.submit(*MINI, f"data.source=file://{tmp}/eeg", "data.validation_fraction=0", "training.max_steps=1000000", "training.seed=2",
                                "checkpoint.every=1s", "checkpoint.keep=1", watch=False)
    assert code == 0, err
    d.wait(first["job"], lambda j: j["last_checkpoint"])
    job = None
    while not job:  # the checkpoint may be pruned before the job is taken
        ref, checkpoint = list(listed(d, first["job"]).items())[-1]
        code, job, err = d.submit(f"evaluate.checkpoint={ref}", f"data.source=file://{tmp}/eeg", "evaluate.baselines=[]",
                                  "evaluate.threshold=model", watch=False, file=f"{SOURCE}/configs/eval.yaml")
        assert code == 0 or ref not in listed(d, first["job"]), err
    kept = f"{d.dir}/results/jobs/{job['job']}/kept"
    d.wait(first["job"], lambda j: not os.path.exists(checkpoint["path"]))
    assert d.job(job["job"])["state"] == "queued" and len(os.listdir(kept)) == 1
    assert d.ctl("cancel", first["job"])[0] == 0
    d.wait(job["job"], lambda j: j["state"] == "succeeded")
    assert not os.path.exists(kept)


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=3, patients=2, hours=0.03)
        d = Daemon(tmp, ["limits.device_jobs=1"]).start()
        code, job, err = d.submit(*MINI, f"data.source=file://{tmp}/eeg", "data.validation_fraction=0", "training.max_steps=1000000",
                                  "checkpoint.every=1s", "checkpoint.keep=1", watch=False)
        assert code == 0, err
        pinned = None
        while not pinned:
            d.wait(job["job"], lambda j: j["last_checkpoint"])
            for ref in listed(d, job["job"]):
                if d.ctl("checkpoint", "pin", ref)[0] == 0:  # else it was pruned meanwhile
                    pinned = ref
        written = listed(d, job["job"])[pinned]
        original = f"{d.dir}/results/jobs/{job['job']}/checkpoints/" + os.path.basename(written["path"])
        d.wait(job["job"], lambda j: not os.path.exists(original))
        now = listed(d, job["job"])
        assert pinned in now and now[pinned]["pinned"] and now[pinned]["sha256"] == written["sha256"], now
        kept = now[pinned]["path"]
        assert kept != original and "/results/models/" in kept and os.path.exists(kept), kept
        code, out, err = d.ctl("checkpoint", "verify", pinned)
        assert code == 0, (out, err)
        assert d.ctl("checkpoint", "get", pinned, "--out", f"{tmp}/copy.safetensors")[0] == 0
        assert d.ctl("checkpoint", "delete", pinned)[0] != 0, "pinned"
        d.ctl("cancel", job["job"])
        d.wait(job["job"], lambda j: j["state"] == "cancelled")
        check_waiting(d, tmp)
        check_memory(d)
        check_both_at_once(d, job["job"])
        check_card(d, job["job"], f"file://{tmp}/eeg")
        d.kill()
        served, kept = as_before(d, job["job"], kept)
        d.start()  # the record of the pin is durable
        assert listed(d, job["job"])[pinned]["path"] == kept
        assert [m["checkpoint"] for m in map(json.loads, d.ctl("models", "--json")[1].splitlines()) if m["name"] == "ward"] == [served]
        assert not os.path.exists(f"{d.dir}/results/models/{LEFT}"), "a link that no record names"
        models = [json.loads(line) for line in d.ctl("models", "--json")[1].splitlines()]
        assert [m["ref"] for m in models if m["name"] == "ward"] == [f"job:{job['job']}"], models  # while it loads too
        check_back(d, job["job"], pinned)
        assert d.ctl("checkpoint", "pin", pinned)[0] == 0, "twice is fine"
        assert d.ctl("checkpoint", "unpin", pinned)[0] == 0
        assert not os.path.exists(kept) and pinned not in listed(d, job["job"]), (kept, listed(d, job["job"]))
        code, _, err = d.ctl("checkpoint", "verify", pinned)
        assert code != 0 and "no such checkpoint" in err, err
        uploads = f"{d.dir}/results/uploads"
        os.path.isdir(uploads) and os.rename(uploads, f"{uploads}.away")
        with open(uploads, "w"):
            pass
        code, out, err = d.ctl("checkpoints")
        assert code != 0 and "cannot open directory" in err and "uploads" in err, (code, out, err)  # not a list that lacks some
        os.remove(uploads)
        assert d.ctl("checkpoints")[0] == 0
        code, out, err = d.ctl("delete", job["job"])
        assert code == 0 and "the model ward is of job" in err and job["job"] in d.ctl("models", "ward")[1], err
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
