#!/usr/bin/env python3
"""What live streams and a training cost one another, for two builds of brrd in turn: lag of results and acknowledgement of 1, 10 and 200
streams beside a training, the speed of the training alone, beside a replay and beside a free-running network, and the threads of the process.
usage: gate.py NAME=BIN [NAME=BIN…] [--rounds N] [--seconds S] [--streams 1,10,200] [--fifo] [--json FILE]    BIN: a folder with brrd, brrctl, brr-load

The builds alternate within each round, so that a shared machine treats them alike. With --fifo (root) daemon and clients run at a real-time
priority, before all other programs of a busy machine; niceness within the daemon counts for nothing then. The table shows the median of the
rounds, and the ratio of the last build to the first one."""
import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TINY = f"{ROOT}/configs/tiny.yaml"
WINDOW_S, HOP_S = 16, 4  # so that a short run has many results


class Daemon:
    def __init__(self, binaries, directory):
        self.bin, self.dir = binaries, directory
        self.env = {**os.environ, "BRR_ENDPOINT": f"unix:{directory}/s.sock"}
        sets = [f"listen.unix={directory}/s.sock", "http.listen=none", f"paths.data={directory}", f"paths.cache={directory}/cache",
                f"paths.results={directory}/results", f"jobs.database={directory}/jobs.sqlite", "devices=[cpu]"]
        with open(f"{directory}/brrd.log", "ab") as log:
            self.process = subprocess.Popen([f"{binaries}/brrd", "--config", f"{ROOT}/configs/demo.yaml"] + [a for s in sets for a in ("--set", s)],
                                            stdout=log, stderr=log)
        while subprocess.run([f"{binaries}/brrctl", "version"], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
            assert self.process.poll() is None, open(f"{directory}/brrd.log", encoding="utf-8").read()
            time.sleep(0.1)

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ctl(self, *args):
        r = subprocess.run([f"{self.bin}/brrctl", *args], env=self.env, capture_output=True, text=True, check=False)
        assert r.returncode == 0, (args, r.stderr)
        return r.stdout

    def train(self, steps, watch=False):
        args = ["submit", TINY, "--json", *(["--watch"] if watch else [])]
        for s in (f"data.source=file://{self.dir}/eeg", f"training.max_steps={steps}", "training.epochs=100000", "training.validate_every=100000", f"data.window_s={WINDOW_S}", f"data.hop_s={HOP_S}", "training.batch_size=8",
                  "data.notch_hz=60"):
            args += ["--set", s]
        return json.loads(self.ctl(*args).splitlines()[-1])

    def steps(self):
        return sum(float(x) for x in re.findall(r"^brrd_train_steps_total(?:\{[^}]*\})? (\S+)", self.ctl("metrics"), re.M))

    def speed(self, seconds):
        """Optimizer steps a second, from one step to another."""
        def edge():
            at = self.steps()
            while self.steps() == at:
                time.sleep(0.01)
            return self.steps(), time.monotonic()
        first, begin = edge()
        time.sleep(seconds)
        last, end = edge()
        return (last - first) / (end - begin)

    def threads(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(re.search(r"Threads:\s+(\d+)", f.read())[1])

    def load(self, model, streams, seconds):
        r = subprocess.run([f"{self.bin}/brr-load", "--model", model, "--sessions", str(streams), "--seconds", str(round(seconds)), "--alarm-hop", "-1", "--ramp-s",
                            str(HOP_S), "--json"], env=self.env, capture_output=True, text=True, check=False)
        assert r.stdout, r.stderr
        return json.loads(r.stdout.splitlines()[-1])


def measure(binaries, directory, model, args):
    d, found = Daemon(binaries, directory), {}
    try:
        found["threads, idle"] = d.threads()
        job = d.train(100000000)["job"]
        while not d.steps():
            time.sleep(0.2)
        found["training alone, steps/s"] = d.speed(args.seconds)
        found["threads, training"] = d.threads()
        replay = subprocess.Popen(["bash", "-c", f"while {binaries}/brrctl stream {directory}/long.edf --model {model} --json; do :; done"], env=d.env,
                                  stdout=subprocess.DEVNULL, start_new_session=True)
        time.sleep(3)
        found["beside a replay, steps/s"] = d.speed(args.seconds)
        assert replay.poll() is None, "the replay failed"
        os.killpg(replay.pid, signal.SIGKILL)
        replay.wait()
        d.ctl("burst", "create", f"{directory}/net.safetensors", "--name", "free")
        network = subprocess.Popen([f"{binaries}/brrctl", "burst", "step", "free", "--ticks", "1000000000"], env=d.env, stdout=subprocess.DEVNULL)
        time.sleep(3)
        found["beside a network, steps/s"] = d.speed(args.seconds)
        assert network.poll() is None, "the network has ended"
        network.kill()
        network.wait()
        d.ctl("burst", "destroy", "free")
        for streams in args.streams:
            r = d.load(model, streams, WINDOW_S + HOP_S + args.seconds)
            for name, key in (("result lag", "result_lag"), ("ack", "ack")):
                for p in ("p50", "p99"):
                    found[f"{streams} streams: {name} {p}, ms"] = r[f"{key}_{p}_ms"]
            found[f"{streams} streams: samples lost"] = r["samples_lost"]
        found["threads, training and streams"] = d.threads()
        d.ctl("cancel", job)
    finally:
        d.stop()
    return found


def prepare(binaries, directory):
    subprocess.run([f"{binaries}/edfgen", "--out", f"{directory}/eeg", "--patients", "2", "--hours-per-patient", "0.2", "--seizures-per-patient", "2", "--seed",
                    "5"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([f"{binaries}/edfgen", "--out", f"{directory}/long", "--patients", "1", "--hours-per-patient", "1", "--seizures-per-patient", "2", "--seed",
                    "6"], check=True, stdout=subprocess.DEVNULL)
    recordings = sorted(os.path.join(root, f) for root, _, files in os.walk(f"{directory}/long") for f in files if f.endswith(".edf"))
    os.rename(recordings[0], f"{directory}/long.edf")
    subprocess.run([f"{binaries}/brrctl", "burst", "generate", "random", "--neurons", "20000", "--synapses", "100", "--power", "2000", "--output",
                    f"{directory}/net.safetensors"], check=True, stdout=subprocess.DEVNULL)
    d = Daemon(binaries, directory)
    end = d.train(2, watch=True)
    d.stop()
    os.link(end["checkpoint"], f"{directory}/model.safetensors")
    return f"{directory}/model.safetensors"


def show(builds, results):
    first = next(iter(builds))
    print("| | " + " | ".join(builds) + " | ratio |\n|---|" + "---|" * (len(builds) + 1))
    for row in results[first][0]:
        medians = [statistics.median(float(r[row] or 0) for r in results[name]) for name in builds]
        ratio = f"{medians[-1] / medians[0]:.2f}" if medians[0] else ""
        print(f"| {row} | " + " | ".join(f"{m:.4g}" for m in medians) + f" | {ratio} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("builds", nargs="+", metavar="NAME=BIN")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--streams", type=lambda text: [int(x) for x in text.split(",")], default=[1, 10, 200])
    parser.add_argument("--fifo", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    builds = dict(b.split("=", 1) for b in args.builds)
    if args.fifo:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    results = {name: [] for name in builds}
    with tempfile.TemporaryDirectory(prefix="brr-gate-") as tmp:
        model = prepare(next(iter(builds.values())), tmp)
        for _ in range(args.rounds):
            for name, binaries in builds.items():
                results[name].append(measure(binaries, tmp, model, args))
                print(name, json.dumps(results[name][-1]), file=sys.stderr, flush=True)
    show(builds, results)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
