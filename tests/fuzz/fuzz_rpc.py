#!/usr/bin/env python3
"""Fuzzes a running daemon through its unix socket: calls of every method in real gRPC framing, valid ones and the same with changed fields and
bytes, cut short, repeated, in another order, several at a time on one connection, ended by a half-close, a reset or a cut at any moment, and
read slowly or not at all. The words of answers (sessions, tokens, jobs, networks) go into later calls.

It fails if the daemon ends, if the log shows an error of a sanitizer or a wrong descriptor (./dev fuzz rpc runs a daemon with the address sanitizer), if a call is
not answered for STALLED_S, or if calls, sessions, descriptors or memory remain when all connections are closed. What each thread sent
last is then in the directory that it prints. Cases are a function of the seed and of the daemon's answers.

    ./dev fuzz rpc [SECONDS]      fuzz_rpc.py [--seconds N] [--seed S] [--threads N]"""
import argparse
import collections
import glob
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, TESTS, f"{TESTS}/integration", f"{TESTS}/golden"]

import grpc  # noqa: E402
import numpy  # noqa: E402
from google.protobuf.message import DecodeError  # noqa: E402

from daemon import SOURCE, Daemon, make_corpus  # noqa: E402
from rpc_cases import Cases, Words, load_methods  # noqa: E402
from rpc_wire import Wire  # noqa: E402
from seed import test_seed  # noqa: E402
from stock import compile_protos  # noqa: E402
from stream_fixture import load_example, train  # noqa: E402
from test_burst_golden import draw_network, write_network  # noqa: E402
from test_half_open import descriptors, rss  # noqa: E402

STALLED_S = 60
LIMITS = ["limits.sessions=60", "limits.resume_ttl=5s", "limits.session_idle=5s", "limits.networks=4", "limits.network_memory=64MiB",
          "jobs.max_queued=8", "log.level=warn"]
GROWTH = 512 << 20  # bytes; a sanitizer keeps freed memory for a while
KEPT_CASES = 300
WRONG = re.compile(r"ERROR: \w+Sanitizer|runtime error:|WARNING: ThreadSanitizer|Bad file descriptor")  # in the log


class Fuzzer:
    def __init__(self, d, cases, words, seed):
        self.d, self.cases, self.words, self.seed = d, cases, words, seed
        self.over, self.lock = threading.Event(), threading.Lock()
        self.calls = collections.Counter()
        self.sent, self.problem = {}, None

    def fail(self, what):
        with self.lock:
            self.problem = self.problem or what
        self.over.set()

    def one_call(self, rng, wire, kept):
        """Opens a call; returns the steps that are left of it, as a generator."""
        method, headers, messages = self.cases.draw(rng)
        ending = rng.choices(("half-close", "reset", "leave"), (75, 20, 5))[0]
        reset_after = rng.randrange(len(messages) + 1) if ending == "reset" else None
        kept.append((method.path, headers, messages, ending, reset_after))
        self.calls[method.path] += 1
        stream = wire.open(method.path, headers, end=not messages and rng.random() < 0.3)
        for n, data in enumerate(messages):
            if n == reset_after:
                break
            wire.write(stream, data, pieces=rng.choice((1, 1, 1, 2, 9)))
            yield
        if ending == "half-close":
            wire.half_close(stream)
            yield
            wire.settle(stream, rng.choice((0.0, 0.02, 0.3, 0.3, 2.0)))
        elif ending == "reset":
            wire.settle(stream, rng.choice((0.0, 0.0, 0.01, 0.2)))
        call = wire.calls.get(stream)
        if call:
            for data in list(call.messages)[:4]:
                self.learn(method, data)
            if ending != "leave":
                wire.reset(stream)

    def learn(self, method, data):
        try:
            answer = method.output.FromString(data)
        except DecodeError as error:
            return self.fail(f"an answer of {method.path} cannot be decoded: {error}")
        with self.lock:
            return self.words.learn(answer)

    def run(self, k):
        try:
            self.send_calls(k)
        except Exception:
            traceback.print_exc()
            self.fail("this program failed")

    def send_calls(self, k):
        rng, kept = random.Random(f"{self.seed}/{k}"), collections.deque(maxlen=KEPT_CASES)
        self.sent[k] = kept
        while not self.over.is_set():
            try:
                wire = Wire(self.d.socket, deaf=rng.random() < 0.05)
            except OSError:
                time.sleep(0.1)
                continue
            for _ in range(rng.randrange(1, 20)):
                under_way = [self.one_call(rng, wire, kept) for _ in range(rng.choice((1, 1, 2, 4)))]
                while under_way and not wire.broken:
                    step = rng.choice(under_way)
                    if next(step, self) is self:
                        under_way.remove(step)
                    if rng.random() < 0.02:
                        break
                if wire.broken or self.over.is_set():
                    break
            wire.close()

    def watch(self, seconds):
        """Until the time is over or something is wrong."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.over.is_set():
            time.sleep(min(2, max(0.1, end - time.monotonic())))
            if self.d.process.poll() is not None:
                return self.fail(f"the daemon ended with status {self.d.process.returncode}")
            if WRONG.search(self.d.read_log()):
                return self.fail("the log shows a fault of the daemon")
            before = time.monotonic()
            try:
                code, _, error = self.d.ctl("version", timeout=STALLED_S)
            except subprocess.TimeoutExpired:
                code, error = 1, "no answer"
            if code and self.d.process.poll() is None:
                return self.fail(f"brrctl version failed after {time.monotonic() - before:.0f} s: {error}")
        return None


def metric(d, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/metrics", timeout=STALLED_S) as r:
        text = r.read().decode()
    return {labels: float(value) for labels, value in re.findall(rf"^{name}(?:{{([^}}]*)}})? (\S+)$", text, re.M)}


def until(condition, seconds=STALLED_S):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.2)
    return condition()


def check_rest(f, files, memory):
    """What remains when nobody is connected."""
    d = f.d
    if not until(lambda: sum(metric(d, "brrd_rpc_in_flight").values()) == 0):
        return f.fail(f"calls remain: {[k for k, v in metric(d, 'brrd_rpc_in_flight').items() if v]}")
    if not until(lambda: metric(d, "brrd_stream_sessions")[""] == 0):
        return f.fail("sessions remain")
    for line in d.ctl("jobs", "--json")[1].splitlines():
        job = json.loads(line)
        if job["state"] in ("queued", "preparing", "running"):
            d.ctl("cancel", job["job"])
    if not until(lambda: descriptors(d) <= files + 16):
        return f.fail(f"{descriptors(d)} descriptors, {files} before")
    if os.readlink(f"/proc/{d.process.pid}/fd/0") != "/dev/null":
        return f.fail("something closed descriptor 0, which it cannot have opened")
    if rss(d) > memory + GROWTH:
        return f.fail(f"{rss(d) >> 20} MiB, {memory >> 20} MiB before")
    print(f"afterwards: {descriptors(d)} descriptors ({files} before), {rss(d) >> 20} MiB ({memory >> 20} MiB before)")
    return None


def report(f):
    codes = collections.defaultdict(collections.Counter)
    for labels, value in metric(f.d, "brrd_rpc_requests_total").items():
        found = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        codes[found["method"]][found["code"]] += int(value)
    for name, row in sorted(codes.items()):
        print(f"{name:56}{sum(row.values()):8}  " + ", ".join(f"{code} {n}" for code, n in row.most_common(6)))


def keep_cases(f, directory):
    for k, kept in f.sent.items():
        with open(f"{directory}/sent-{k}.txt", "w", encoding="utf-8") as out:
            for case in kept:
                print(*case, file=out)


def prepare(tmp):
    make_corpus(f"{tmp}/eeg", seed=21, patients=1, hours=0.03)
    d = Daemon(tmp, LIMITS).start()
    model = train(d, f"{tmp}/eeg")
    assert d.ctl("checkpoint", "promote", model, "ward")[0] == 0
    recording = glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True)[0]
    labels, rate, _ = load_example().read_edf(recording)
    network = pathlib.Path(f"{tmp}/network.safetensors")
    write_network(network, *draw_network(numpy.random.default_rng(3), 64, 4))
    os.makedirs(f"{tmp}/stubs")
    compile_protos(f"{tmp}/stubs")
    grpc.__path__.append(f"{tmp}/stubs/grpc")  # where grpc.health and grpc.reflection were compiled
    job = model.split("/jobs/")[1].split("/")[0]
    known = {"model": [model, "ward"], "ref": [model, f"job:{job}", "ward", "up1"], "checkpoint": [model], "id": [job], "job_id": [job], "session_id": ["x"],
             "resume_token": ["0" * 32], "name": ["ward", "up0", "net0", "net1", "net2"], "client_name": ["bed 1"], "cause": ["x"], "request_id": ["r1", "r2"],
             "prefix": ["brrd_", "process_"], "field": ["threshold", "leak", "v"], "service": ["", "brr.v1.Stream"], "overrides": ["limits.wall_clock=10s"],
             "file_by_filename": ["brr/v1/stream.proto"], "file_containing_symbol": ["brr.v1.Stream", "brr.v1.Open"], "list_services": ["*"]}
    texts = []
    for path in glob.glob(f"{SOURCE}/configs/*.yaml"):
        if os.path.basename(path) not in ("daemon.yaml", "demo.yaml"):
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
    with open(model, "rb") as file:
        kit = {"model": model, "labels": labels, "rate": rate, "network": network.read_bytes(), "model_bytes": file.read(), "source": f"{tmp}/eeg",
               "job_files": texts}
    words = Words(known)
    return d, Cases(load_methods(f"{SOURCE}/proto"), words, kit), words


def fuzz(o, tmp):
    d, cases, words = prepare(tmp)
    f = Fuzzer(d, cases, words, o.seed)
    files, memory = descriptors(d), rss(d)
    threads = [threading.Thread(target=f.run, args=(k,), daemon=True) for k in range(o.threads)]
    began = time.monotonic()
    for t in threads:
        t.start()
    f.watch(o.seconds)
    f.over.set()
    for t in threads:
        t.join(STALLED_S)
    print(f"seed {o.seed}: {sum(f.calls.values())} calls in {time.monotonic() - began:.0f} s")
    if not f.problem:
        report(f)
        check_rest(f, files, memory)
    if not f.problem and (status := d.stop()) != 0:
        f.fail(f"the daemon's exit status was {status}")
    if not f.problem and WRONG.search(d.read_log()):
        f.fail("the log shows a fault of the daemon at its end")
    keep_cases(f, tmp)
    return f.problem


def main():
    parser = argparse.ArgumentParser(description="Fuzzes a running daemon through its socket.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=test_seed())
    parser.add_argument("--threads", type=int, default=4)
    o = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    tmp = tempfile.mkdtemp(prefix="brr-fuzz-rpc-")
    problem = fuzz(o, tmp)
    if problem:
        print(f"{problem}; seed {o.seed}; the log and what was sent last are in {tmp}")
        return 1
    shutil.rmtree(tmp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
