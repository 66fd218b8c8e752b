#!/usr/bin/env python3
"""A training job whose recordings lie in a bucket: fetched once, then trained on; the next job asks only for the list."""
import os
import re
import shutil
import subprocess
import sys
import urllib.request

from daemon import MINI, PATIENCE, Daemon, make_corpus, temporary
from fake_s3 import FakeS3, Fault

SETS = MINI + ["data.source=store://bucket/corpus", "training.max_steps=2", "training.validate_every=2"]


def upload(s3, folder):
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as f:
                s3.objects["open/corpus/" + os.path.relpath(path, folder)] = f.read()


def fetched(s3):
    return [r for r in s3.requests if r[0] == "GET" and r[1]]


def scrape(daemon):
    """Series of brrd_s3_… by name and labels; promtool must have nothing to say where it is installed."""
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.port}/metrics", timeout=PATIENCE) as r:
        text = r.read()
    if shutil.which("promtool"):
        lint = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
        assert lint.returncode == 0, lint.stderr
    found = re.findall(r'^brrd_s3_(\w+?)(?:\{([^}]*)\})? (\S+)$', text.decode(), re.M)
    return {(name, tuple(re.findall(r'="([^"]*)"', labels))): float(value) for name, labels, value in found}


def check_first(s3, m):
    """What the first job's requests must have left in the metrics: the server kept a list of its own."""
    gets = len(fetched(s3)) - 1  # after a reset of a connection that was used before libcurl asks again by itself
    assert m["requests_total", ("get", "503")] == 1 and m["requests_total", ("get", "short_body")] == 1, m
    assert m["requests_total", ("get", "206")] == gets - 2, (m, gets)
    assert m["requests_total", ("list", "200")] >= 1 and m["requests_total", ("head", "200")] == len({r[1] for r in fetched(s3)}), m
    assert m["retries_total", ("get", "slow_down")] == 1 and m["retries_total", ("get", "short_body")] == 1, m
    wanted = sum(len(v) for k, v in s3.objects.items() if not k.endswith(".pdf"))
    assert wanted <= m["received_bytes_total", ()] <= wanted + max(map(len, s3.objects.values())) + 100000, (m, wanted)
    assert m["request_duration_seconds_count", ("get",)] == gets and m["request_duration_seconds_sum", ("get",)] > 0, m
    assert m["in_flight", ()] == 0 and m["sent_bytes_total", ()] == 0 and abs(m["clock_skew_seconds", ()]) <= 2, m


def main():
    with temporary() as tmp, FakeS3() as s3:
        make_corpus(f"{tmp}/eeg", seed=11, patients=2, hours=0.03)
        upload(s3, f"{tmp}/eeg")
        s3.objects["open/corpus/notes.pdf"] = b"not wanted"
        os.environ.update(s3.environment())
        daemon = Daemon(tmp, [f"stores={{bucket: {{url: 's3://eeg/open', endpoint: '{s3.endpoint}'}}}}"])
        daemon.start()

        recording = sorted(k for k in s3.objects if k.endswith(".edf"))[0]
        s3.faults = [Fault("GET", recording, "503", 1), Fault("GET", recording, "reset", 1), Fault("GET", recording, "short", 1)]
        code, last, err = daemon.submit(*SETS)
        assert code == 0, f"{err}\n{daemon.read_log()}"
        wanted = [k for k in s3.objects if not k.endswith(".pdf")]
        assert sorted({r[1] for r in fetched(s3)}) == sorted(wanted), "recordings and labels, and nothing else"
        check_first(s3, scrape(daemon))

        s3.requests.clear()
        code, last, err = daemon.submit(*SETS, "checkpoint.upload=store://bucket/models")
        assert code == 0, err
        models = [k for k in s3.objects if k.startswith("open/models/train-") and k.endswith(".safetensors")]
        assert models and all(s3.objects[m] for m in models), "checkpoints are in the bucket when the job has ended"
        m = scrape(daemon)
        assert m["sent_bytes_total", ()] == sum(len(s3.objects[k]) for k in models) and m["requests_total", ("put", "200")] == len(models), m
        assert not fetched(s3) and s3.requests, "what is in the cache is not fetched again"
        assert os.listdir(f"{tmp}/cache/mirror") == [], "the tree goes with the job"

        s3.requests.clear()
        s3.objects[recording] = s3.objects[recording][:-1] + b"\x01"
        code, last, err = daemon.submit(*SETS)
        assert code == 0, err
        assert {r[1] for r in fetched(s3)} == {recording}, "a changed object is fetched again"

        code, last, err = daemon.submit(*[s for s in SETS if "source" not in s], "data.source=store://bucket/nothing", "limits.restarts=0")
        assert code != 0 and "has no *.edf" in str(last) + err + daemon.read_log(), (last, err)
        code, last, err = daemon.submit(*[s for s in SETS if "source" not in s], "data.source=store://other/x")
        assert code != 0 and "has no store 'other'" in err, err
        code, last, err = daemon.submit(*SETS, "checkpoint.upload=store://other/x")
        assert code != 0 and "has no store 'other'" in err, err
        assert daemon.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
