#!/usr/bin/env python3
"""Two CPU devices in one daemon: two jobs at once and a stream on each give the bits of one device; models, networks and jobs that name a
device lie there; what does not answer holds up its own job alone; the devices show in tables, answers and metrics."""
import glob
import json
import os
import re
import sys

from daemon import MINI, SOURCE, make_corpus, temporary, tensors
from stream_fixture import trace, train
from test_held_volume import HeldDaemon

STEPS = 24


def steps(d, source, *sets, n=STEPS):
    code, end, err = d.submit(*MINI, f"data.source=file://{source}", f"training.max_steps={n}", "training.epochs=100000", "training.validate_every=100000",
                              "checkpoint.keep=1", *sets, watch=False)
    assert code == 0, err
    return end["job"]


def done(d, job):
    d.wait(job, lambda j: j["state"] == "succeeded")
    return tensors(max(glob.glob(f"{d.dir}/results/jobs/{job}/checkpoints/step-*[0-9].safetensors")))


def device_of(d, job):
    """Once it runs."""
    return d.wait(job, lambda j: j["state"] == "running")["device_name"]


def lines(d, *args):
    code, out, err = d.ctl(*args, "--json")
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def metric(d, name):
    return dict(re.findall(rf'^{name}{{[^}}]*device="([^"]+)"[^}}]*}} (\S+)', d.ctl("metrics")[1], re.M))


def jobs_and_streams(d, tmp, model, recording, weights, events):
    busy = [steps(d, f"{tmp}/eeg", n=100000) for _ in range(2)]
    assert {device_of(d, job) for job in busy} == {"cpu:0", "cpu:1"}
    waiting = [steps(d, f"{tmp}/eeg") for _ in range(3)]
    assert [d.job(job)["state"] for job in (*busy, waiting[0])] == ["running", "running", "queued"]
    for device in ("cpu:0", "cpu:1"):  # beside a training on each
        got = trace(d, recording, model, "--device", device, "--realtime", "4000")
        assert got[0] == events[0] and got[1].tobytes() == events[1].tobytes(), f"the stream on {device} has other bits"
    assert set(metric(d, "brrd_inference_windows_total")) == {"cpu:0", "cpu:1"} == set(metric(d, "brrd_train_steps_total"))
    assert d.ctl("cancel", *busy)[0] == 0
    assert [done(d, job) for job in waiting] == [weights] * 3, "a job on one of two devices ended with other bits"


def shared(d, tmp):
    """One training on two devices has the bits of one device; a cancelled one frees both."""
    keys = ["training.batch_size=8", "training.micro_batch_size=2", "training.reduction=tree"]
    both = steps(d, f"{tmp}/eeg", *keys, "devices=2", n=100000)
    device_of(d, both)
    after = steps(d, f"{tmp}/eeg", *keys, n=6)
    assert d.job(after)["state"] == "queued" and d.ctl("cancel", both)[0] == 0
    d.wait(both, lambda j: j["state"] == "cancelled")
    together = steps(d, f"{tmp}/eeg", *keys, "devices=2", n=6)
    assert done(d, together) == done(d, after), "two devices ended with other bits"
    took = {n: d.job(job) for n, job in ((1, after), (2, together))}
    assert all(n * job["run_ms"] == job["device_ms"] > 0 for n, job in took.items()), took
    account = lines(d, "usage")[0]
    assert account["device_ms"] > account["run_ms"] and account["device_ms"] == sum(job["device_ms"] for job in lines(d, "jobs")), account
    code, _, err = d.ctl("submit", f"{SOURCE}/configs/tiny.yaml", "--set", "devices=4")
    assert code != 0 and "the daemon has at most 2 of one kind" in err, err


def tables(d):
    shown = lines(d, "devices")
    assert [x["name"] for x in shown] == ["cpu:0", "cpu:1"], shown
    assert shown[0]["total_bytes"] == shown[1]["total_bytes"] and "1 thread" in shown[0]["description"], shown
    checks = {c["check"] for c in lines(d, "doctor")}
    assert {"device cpu:0", "scan kernels cpu:1", "burst tick cpu:1"} <= checks, checks
    assert set(metric(d, "brrd_device_streams")) == {"cpu:0", "cpu:1"} == set(metric(d, "brrd_device_ready"))


def named_devices(d, tmp, model, recording):
    code, _, err = d.submit(*MINI, f"data.source=file://{tmp}/eeg", "device=cpu:7", watch=False)
    assert code != 0 and "no device 'cpu:7'; expected cpu:0, cpu:1" in err, err
    job, other = steps(d, f"{tmp}/eeg", "device=cpu:1", n=100000), steps(d, f"{tmp}/eeg", "device=cpu:1", n=1)
    assert device_of(d, job) == "cpu:1"
    assert d.job(other)["reason"] == f"waits for device cpu:1, which runs {job}", d.job(other)
    assert d.ctl("cancel", job)[0] == 0
    done(d, other)

    assert d.ctl("load", "ward", model, "--device", "cpu:1")[0] == 0 and d.ctl("load", "both", model)[0] == 0
    assert {m["name"]: m["device"] for m in lines(d, "models")} == {"ward": "cpu:1", "both": "cpu:0, cpu:1"}
    code, _, err = d.ctl("stream", recording, "--model", "ward", "--device", "cpu:0", "--json")
    assert code != 0 and "does not serve on device cpu:0" in err, err
    assert trace(d, recording, "ward")[0] == trace(d, recording, "both")[0]

    assert d.ctl("burst", "generate", "--neurons", "100", "--output", f"{tmp}/net.safetensors", "random")[0] == 0
    with open(f"{tmp}/in.tsv", "w", encoding="ascii") as f:
        f.write("tick\tid\tpotential\n" + "".join(f"{t}\t{k}\t1500\n" for t in range(1, 40, 3) for k in range(0, 100, 7)))
    for name, device in (("a", "cpu:0"), ("b", "cpu:1")):
        code, _, err = d.ctl("burst", "create", f"{tmp}/net.safetensors", "--name", name, "--device", device)
        assert code == 0, err
    assert {n["name"]: n["device"] for n in lines(d, "burst", "list")} == {"a": "cpu:0", "b": "cpu:1"}
    assert "already" in d.ctl("burst", "create", f"{tmp}/net.safetensors", "--name", "b", "--device", "cpu:0")[2]
    assert all(d.ctl("burst", "step", name, "--ticks", "10")[0] == 0 for name in "ab")
    spikes = []
    for devices in ("1", "2"):
        code, _, err = d.ctl("burst", "run", f"{tmp}/net.safetensors", "--device", devices, "--ticks", "50", "--inject", f"{tmp}/in.tsv", "--keep", f"of-{devices}", "--fired", f"{tmp}/{devices}.tsv")
        assert code == 0, err
        spikes.append(open(f"{tmp}/{devices}.tsv", encoding="ascii").read())
    assert spikes[0] == spikes[1] and len(spikes[0]) > 100, spikes
    assert {n["device"] for n in lines(d, "burst", "list") if n["name"] == "of-2"} == {"cpu:0 and 1 more"}
    assert d.ctl("burst", "snapshot", "of-2", "--out", f"{tmp}/of-2.safetensors")[0] == 0 and d.ctl("burst", "restore", "of-1", f"{tmp}/of-2.safetensors")[0] == 0
    code, _, err = d.ctl("burst", "create", f"{tmp}/net.safetensors", "--device", "3")
    assert code != 0 and "on 3 devices; this daemon has 2" in err, err
    assert all(d.ctl("burst", "destroy", f"of-{k}")[0] == 0 for k in "12")
    assert d.ctl("burst", "destroy", "b")[0] == 0 and [n["name"] for n in lines(d, "burst", "list")] == ["a"]


def a_held_volume(d, tmp, model, recording, weights):
    busy = steps(d, f"{tmp}/eeg", "device=cpu:0", n=100000)
    assert device_of(d, busy) == "cpu:0"
    held = steps(d, f"{tmp}/held-eeg", "device=cpu:0")
    d.hold()
    assert d.ctl("cancel", busy)[0] == 0
    d.wait(held, lambda j: j["reason"].startswith(f"waits for {tmp}/held-eeg"))
    others = [steps(d, f"{tmp}/eeg") for _ in range(2)]
    assert [done(d, job) for job in others] == [weights] * 2
    for device in ("cpu:0", "cpu:1"):
        trace(d, recording, model, "--device", device, "--realtime", "4000")
    assert d.job(held)["state"] == "preparing", d.job(held)
    d.release()
    assert done(d, held) == weights


def after_a_kill(d, tmp):
    """Jobs that ran together are not charged; they start again one after the other, the second when the first has a new checkpoint."""
    jobs = [steps(d, f"{tmp}/eeg", "checkpoint.every=1s", n=100000) for _ in range(2)]
    assert {device_of(d, job) for job in jobs} == {"cpu:0", "cpu:1"}
    d.kill()
    d.start()
    shown = {job["job"]: job for job in lines(d, "jobs")}
    assert all(shown[job]["restarts"] == shown[job]["crashes"] == 0 for job in jobs), shown
    assert {device_of(d, job) for job in jobs} == {"cpu:0", "cpu:1"}
    for job in jobs:
        log = d.ctl("logs", job)[1]
        assert "2 jobs ran; no restart is charged" in log, log
        assert d.ctl("cancel", job)[0] == 0


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", 33, patients=2, hours=0.05)
        d = HeldDaemon(tmp)
        os.environ["BRR_HOLD_PATH"] = f"{tmp}/held-eeg"
        os.makedirs(f"{tmp}/held-eeg")
        for path in glob.glob(f"{tmp}/eeg/**/*", recursive=True):
            if os.path.isfile(path):
                to = path.replace(f"{tmp}/eeg", f"{tmp}/held-eeg")
                os.makedirs(os.path.dirname(to), exist_ok=True)
                os.link(path, to)
        d.extra += ["devices=[cpu]", "devices_cpu_threads=1"]
        d.start()
        recording = sorted(glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True))[0]
        model = train(d, f"{tmp}/eeg")
        weights, events = done(d, steps(d, f"{tmp}/eeg")), trace(d, recording, model, "--realtime", "4000")
        assert d.stop() == 0
        d.extra[-2:] = ["devices=[cpu:0, cpu:1]", "devices_cpu_threads=2"]
        d.start()
        jobs_and_streams(d, tmp, model, recording, weights, events)
        tables(d)
        named_devices(d, tmp, model, recording)
        shared(d, tmp)
        after_a_kill(d, tmp)
        a_held_volume(d, tmp, model, recording, weights)
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
