#!/usr/bin/env python3
"""A causal model through the commands that people use: a training that is killed in between ends with the bits of an undisturbed one;
evaluate and detect take the model; a stream of any chunk size gives what detect gives for the file, and an alarm trace of one
second's hop."""
import glob
import json
import os
import sys

import numpy as np

from daemon import MINI, Daemon, make_corpus, temporary

CAUSAL = [*MINI[2:], "model.type=causal", "model.preset=tiny", "model.encoder_channels=[8,8,8,16]", "model.rescnn_blocks=1", "model.stage_convs=2", "data.window_s=16",
          "data.normalize=baseline", "data.reference=average", "data.augment.enabled=true", "training.max_steps=40", "training.validate_every=20",
          "checkpoint.every=1s", "limits.restarts=100"]


def model_bytes(d, end):
    assert end["state"] == "succeeded", (end, d.read_log())
    with open(f"{d.dir}/results/jobs/{end['job']}/checkpoints/{os.path.basename(end['checkpoint'])}", "rb") as f:
        return f.read()


def check_training(d, data):
    code, end, err = d.submit(*CAUSAL, data)
    assert code == 0, err
    want = model_bytes(d, end)
    code, job, err = d.submit(*CAUSAL, data, watch=False)
    assert code == 0, err
    d.wait(job["job"], lambda j: glob.glob(f"{d.dir}/results/jobs/{job['job']}/checkpoints/*.state.safetensors") or j["state"] == "succeeded")
    d.kill()
    d.start()
    again = d.wait(job["job"], lambda j: j["state"] == "succeeded")
    assert model_bytes(d, {**again, "job": job["job"]}) == want
    return f"job:{end['job']}"


def stream(d, path, model, chunk):
    out = f"{d.dir}/stream-{chunk}"
    code, text, err = d.ctl("stream", path, "--model", model, "--chunk-samples", str(chunk), "--out", f"{out}.tsv", "--probs", f"{out}.npy",
                            "--alarms", "--on", "0.3", "--off", "0.2", "--json")
    assert code == 0, err or text
    with open(f"{out}.tsv", "rb") as f, open(f"{out}_alarms.tsv", "rb") as alarms:
        return np.load(f"{out}.npy"), f.read(), alarms.read()


def check_streams(d, model):
    path = sorted(glob.glob(f"{d.dir}/eeg/**/*_eeg.edf", recursive=True))[0]
    p, events, alarms = stream(d, path, model, 2560)
    assert np.isfinite(p).all() and np.ptp(p) > 0
    tokens = p[:len(p) // 16 * 16].reshape(-1, 16)
    assert (tokens[:, :15].std(axis=1) < 1e-6).all()  # one answer per token; the feature changes with its last sample
    other, *texts = stream(d, path, model, 61)
    assert other.tobytes() == p.tobytes() and texts == [events, alarms]
    code, text, err = d.ctl("detect", path, "--model", model, "--out", f"{d.dir}/detected", "--on", "0.3", "--off", "0.2")
    assert code == 0, err or text
    with open(glob.glob(f"{d.dir}/detected/*_events.tsv")[0], "rb") as f:
        assert f.read() == events
    code, text, err = d.ctl("stream", path, "--model", model, "--alarm-hop", "0.5", "--json")
    assert code != 0 and "1 s" in err + text, (code, err, text)


def check_refused(d, data):
    """A z-score of whole windows is not what a second of a stream can have."""
    code, _, err = d.submit(*CAUSAL, data, "data.normalize=window", "data.reference=recorded")
    assert code != 0 and "expected another value of data.normalize" in err, (code, err)


def check_evaluation(d, model, data):
    job = f"{d.dir}/eval.yaml"
    with open(job, "w", encoding="utf-8") as f:
        f.write("kind: evaluate\n")
    code, end, err = d.submit(f"evaluate.checkpoint={model}", data, file=job)
    assert code == 0 and end["state"] == "succeeded", (end, err)
    assert json.dumps(end["result"]) and "event_f1" in json.dumps(end["result"]), end


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=31, hours=0.07)
        d = Daemon(tmp).start()
        data = f"data.source=file://{tmp}/eeg"
        check_refused(d, data)
        model = check_training(d, data)
        check_streams(d, model)
        check_evaluation(d, model, data)
        assert d.stop() == 0
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
