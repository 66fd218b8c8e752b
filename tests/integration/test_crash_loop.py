#!/usr/bin/env python3
"""A job under which the daemon dies each time waits longer before each start and is failed, with the cause, after limits.restarts; from
then on streams live. Its record says what it was, what ran it, and how often. What was cancelled stays so after kill -9."""
import subprocess
import sys
import time

from daemon import MINI, PATIENCE
from stream_fixture import files_of, start, streaming_daemon, trace

RESTARTS = 2


def crash_until_failed(d, source):
    sets = [*MINI, f"data.source=file://{source}", "data.validation_fraction=0", "training.max_steps=1000000", f"limits.restarts={RESTARTS}",
            "limits.wall_clock=none"]
    code, job, err = d.submit(*sets, watch=False)
    assert code == 0, err
    waits = []
    for crash in range(1, RESTARTS + 2):
        d.wait(job["job"], lambda j: j["state"] == "running")
        d.kill()
        d.start()
        now = d.job(job["job"])
        assert now["crashes"] == crash and now["attempts"] == crash, now
        assert now["reason"].startswith("daemon_crashed: ") and f"limits.restarts: {RESTARTS}" in now["reason"], now
        if crash <= RESTARTS:
            assert now["state"] == "queued" and now["restarts"] == crash, now
            waits.append(now["retry_ms"])
    assert now["state"] == "failed" and now["restarts"] == RESTARTS and f"{RESTARTS + 1} times" in now["reason"], now
    assert waits[1] > waits[0] > 0, waits
    assert "daemon_crashed" in d.ctl("logs", job["job"])[1]
    return now


def check_record(d, job):
    assert job["device"].startswith("cpu: ") and job["versions"].startswith("brrd ") and "grpc " in job["versions"], job
    assert job["created_ms"] <= job["started_ms"] <= job["finished_ms"], job
    assert job["file"]["name"].endswith("tiny.yaml") and "kind: train" in job["file"]["yaml"], job
    assert f"limits.restarts={RESTARTS}" in job["file"]["overrides"] and job["directory"].endswith(job["job"]), job
    code, text, _ = d.ctl("job", job["job"])
    assert code == 0 and "after crashes of the daemon 3" in text and "versions    brrd " in text and "tiny.yaml" in text, text


def stream_lives(d, recording, model, wanted, job):
    """A stream that is open for longer than the job would have waited for its next start."""
    with open(recording, "rb") as f:
        data = f.read()
    process = start(d, "-", model, "--replay", stdin=subprocess.PIPE)
    process.stdin.write(data[:len(data) // 2])
    process.stdin.flush()
    daemon = d.process.pid
    time.sleep(10)  # the waits were 2 s and 4 s; the next would be 8 s
    process.stdin.write(data[len(data) // 2:])
    process.stdin.close()
    assert process.wait(timeout=PATIENCE) == 0, process.stderr.read()
    assert files_of(d, recording) == (wanted[0], wanted[1].tobytes()), "the stream's results differ"
    assert d.process.poll() is None and d.process.pid == daemon
    now = d.job(job["job"])
    assert now["state"] == "failed" and now["attempts"] == RESTARTS + 1, now


def cancel_and_kill(d, source):
    code, job, err = d.submit(*MINI, f"data.source=file://{source}", "data.validation_fraction=0", "training.max_steps=1000000", watch=False)
    assert code == 0, err
    d.wait(job["job"], lambda j: j["state"] == "running")
    assert d.ctl("cancel", job["job"])[0] == 0
    d.kill()
    d.start()
    assert d.job(job["job"])["state"] == "cancelled", d.job(job["job"])


def main():
    with streaming_daemon() as (d, recording, model):
        wanted = trace(d, recording, model)
        job = crash_until_failed(d, f"{d.dir}/eeg")
        check_record(d, job)
        stream_lives(d, recording, model, wanted, job)
        print("failed with its cause after limits.restarts, and a stream lives on")
        cancel_and_kill(d, f"{d.dir}/eeg")
        print("a cancel that was acknowledged survives kill -9")
    return 0


if __name__ == "__main__":
    sys.exit(main())
