#!/usr/bin/env python3
"""upgrade.py OLD_BIN OLD_SOURCE: a daemon of the programs in OLD_BIN, with a configuration of OLD_SOURCE, is stopped while a stream and a training are under way, and the programs of
BRR_BIN go on with its files. The stream ends with the bits of an undisturbed one, the training with the model of an undisturbed one, and
what ended before is listed as it was. OLD_BIN twice, as BRR_BIN too, says whether the old programs alone can do it."""
import glob
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["BRR_SOURCE_DIR"], "tests", "integration"))
import daemon  # noqa: E402
from daemon import MINI, PATIENCE, Daemon, make_corpus, temporary, tensors  # noqa: E402

NEW = daemon.BIN


def run_with(folder):
    daemon.BIN = folder


def stream(d, recording, out, *words):
    return subprocess.Popen([f"{daemon.BIN}/brrctl", "stream", recording, "--model", "best", "--probabilities", out, *words], env=d.env,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process):
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return out


def train(d, steps, seed):
    code, job, err = d.submit(*MINI, f"training.max_steps={steps}", "training.validate_every=1000", f"training.seed={seed}", "checkpoint.every=2s",
                              f"data.source=file://{d.dir}/eeg", watch=False)
    assert code == 0, err
    return job["job"]


def upgrade(d, tmp):
    make_corpus(f"{tmp}/eeg", 7)
    recording = sorted(glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True))[0]
    d.start()
    first = train(d, 20, 1)
    calm_job = train(d, 400, 5)
    ended = d.wait(first, lambda job: job["state"] == "succeeded")
    calm_end = d.wait(calm_job, lambda job: job["state"] == "succeeded")
    assert d.ctl("load", "best", f"job:{first}")[0] == 0
    finished(stream(d, recording, f"{tmp}/calm.npy"))
    job = train(d, 400, 5)
    d.wait(job, lambda j: j["step"] > 20)
    live = stream(d, recording, f"{tmp}/live.npy", "--realtime", "6")
    deadline = time.time() + PATIENCE
    while not json.loads(d.ctl("sessions", "--json")[1] or "{}").get("received_through", 0):
        assert live.poll() is None and time.time() < deadline, live.stderr.read()
        time.sleep(0.1)
    assert d.stop() == 0, d.read_log()
    run_with(NEW)
    d.start()
    finished(live)
    with open(f"{tmp}/calm.npy", "rb") as a, open(f"{tmp}/live.npy", "rb") as b:
        assert a.read() == b.read(), "the upgrade changed the results of a running stream"
    end = d.wait(job, lambda j: j["state"] == "succeeded")
    for key, value in ended.items():
        assert d.job(first).get(key) == value, (key, value, d.job(first).get(key))
    assert tensors(end["checkpoint"]) == tensors(calm_end["checkpoint"]), "the upgrade changed the model of a running training"
    models = d.ctl("models", "--json")[1]
    assert '"best"' in models, models
    assert d.stop() == 0
    print("upgrade: stream, training, served model and records went on")


def main():
    old, daemon.SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])  # an upgrade leaves daemon.yaml as it is
    with temporary() as tmp:
        run_with(old)
        d = Daemon(tmp)
        try:
            upgrade(d, tmp)
        except AssertionError:
            print(d.read_log()[-8000:], file=sys.stderr)
            raise
        finally:
            if d.process and d.process.poll() is None:
                d.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
