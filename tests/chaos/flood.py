#!/usr/bin/env python3
"""One stream token does its worst – gaps, messages of one sample, opens, lists, pages, connections – while the beds of another token have
alarms. Rounds without and with the flood alternate. Lost is: an exit of the daemon, an alarm that a client heard and the journal or the hook
did not, and delays of the beds' alarms whose 99th percentile under the flood is above twice that without it plus 200 ms.

    ./dev chaos flood [--rounds N] [--seconds N] [--beds N] [--only KIND,…] [--json FILE]

The flood runs in processes of the lowest priority, as if it came from other machines. The last line is JSON."""
import argparse
import contextlib
import http.client
import itertools
import json
import os
import random
import socket
import ssl
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "integration")]

import grpc  # noqa: E402
import numpy  # noqa: E402
from daemon import PATIENCE, temporary  # noqa: E402
from page_beds import CHUNK, LABELS, RATE  # noqa: E402
from pager import HOOK, Pager, delivery_id  # noqa: E402
from secured import Secured  # noqa: E402
from stream_fixture import messages  # noqa: E402

WARM_S, TURN_S = 36, 5  # of signal before the first alarm; a seizure begins every 2 * TURN_S
TIMES, MORE_S = 2, 0.2  # what a flood may cost
KINDS = ("gaps", "samples", "opens", "lists", "pages", "connections")
GONE = (grpc.RpcError, OSError, http.client.HTTPException, ValueError)


def channel_of(port, ca, token):
    with open(ca, "rb") as f:
        tls = grpc.ssl_channel_credentials(f.read())
    with open(token, encoding="utf-8") as f:
        credentials = grpc.composite_channel_credentials(tls, grpc.access_token_call_credentials(f.read().strip()))
    return grpc.secure_channel(f"localhost:{port}", credentials, options=[("grpc.use_local_subchannel_pool", 1)])


class Bed:
    """A live stream with a seizure every ten seconds; .alarms: (is on, when it was decided, heard), Unix time, and since when it was sent."""

    def __init__(self, name, channel, seed):
        self.folder, _, self.pb, stubs = messages()
        self.name, self.over, self.sent, self.alarms, self.error = name, threading.Event(), [], [], None
        self.rng, self.shift = numpy.random.default_rng(seed), seed % TURN_S
        self.blocks = [self.block(loud) for loud in (False, True)]
        self.call = stubs.StreamStub(channel).Run(self.say())
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def block(self, loud):
        uv = self.rng.normal(0, 12, (len(LABELS), CHUNK))
        if loud:
            uv += 260 * numpy.sign(numpy.sin(2 * numpy.pi * 5 * numpy.arange(CHUNK) / RATE)) * (1 + 0.2 * self.rng.normal(0, 1, (len(LABELS), 1)))
        return uv.astype("<f4").tobytes()

    def chunk(self, at):
        loud = at >= WARM_S * RATE and (at // RATE + self.shift) // TURN_S % 2
        self.sent.append((at + CHUNK, time.time()))
        return self.pb.ClientMessage(chunk=self.pb.Chunk(first_sample=at, samples=CHUNK, data=self.blocks[bool(loud)]))

    def say(self):
        yield self.pb.ClientMessage(open=self.pb.Open(model="line_length", channels=LABELS, rate_hz=RATE, format=self.pb.SAMPLE_FORMAT_F32_UV,
                                                      client_name=self.name, realtime=True, threshold_on=0.6, threshold_off=0.2, alarm_hop_s=1))
        at, begun = 0, time.monotonic()
        while not self.over.is_set():
            yield self.chunk(at)
            at += CHUNK
            self.over.wait(max(0, begun + max(0, at - WARM_S * RATE) / RATE - time.monotonic()))

    def listen(self):
        try:
            for m in self.call:
                if m.HasField("alarm"):
                    heard = time.time()
                    sent = next((when for end, when in reversed(self.sent) if end - CHUNK <= m.alarm.sample), heard)
                    self.alarms.append((m.alarm.on, m.alarm.wall_time_ms / 1000, heard, sent, m.alarm.sample))
        except grpc.RpcError as error:
            self.error = error

    def close(self):
        self.over.set()
        self.thread.join(PATIENCE)
        self.call.cancel()


# ---- the flood: one process for each kind ----

class Flood:
    def __init__(self, o):
        self.o, self.until, self.count, self.names = o, time.monotonic() + o.seconds, 0, itertools.count()
        self.folder, _, self.pb, self.stubs = messages()
        with open(o.token, encoding="utf-8") as f:
            self.authorization = {"Authorization": f"Bearer {f.read().strip()}", "Accept": "text/html"}

    def going(self):
        self.count += 1
        return time.monotonic() < self.until

    def open(self, **changes):
        fields = {"model": "line_length", "channels": LABELS, "rate_hz": RATE, "format": self.pb.SAMPLE_FORMAT_F32_UV, "client_name": "flood", "realtime": True, **changes}
        return self.pb.ClientMessage(open=self.pb.Open(**fields))

    def run(self, requests):
        with contextlib.suppress(*GONE), channel_of(self.o.port, self.o.ca, self.o.token) as channel:
            for _ in self.stubs.StreamStub(channel).Run(requests, timeout=max(1, self.until - time.monotonic())):
                pass

    def gaps(self):
        def say():
            yield self.open()
            at = 0
            while self.going():
                at += 2
                yield self.pb.ClientMessage(gap=self.pb.Gap(first=at - 1, end=at))
                yield self.pb.ClientMessage(gap=self.pb.Gap(first=at, end=at))
        self.run(say())

    def samples(self):
        one = numpy.zeros((len(LABELS), 1), "<f4").tobytes()

        def say():
            yield self.open()
            at = 0
            while self.going():
                yield self.pb.ClientMessage(chunk=self.pb.Chunk(first_sample=at, samples=1, data=one))
                at += 1
        self.run(say())

    def alarms(self):
        """Streams of ever new names which alarm, all of their EEG at once: what the model learns the patient from, and a seizure."""
        rng, t = numpy.random.default_rng(0), numpy.arange(RATE) / RATE
        uv = rng.normal(0, 12, (len(LABELS), RATE))
        loud = 260 * numpy.sign(numpy.sin(2 * numpy.pi * 5 * t)) * (1 + 0.2 * rng.normal(0, 1, (len(LABELS), 1)))
        quiet, seizure = (block.astype("<f4").tobytes() for block in (uv, uv + loud))

        def say():
            yield self.open(client_name=f"flood {next(self.names)}", threshold_on=0.6, threshold_off=0.2, alarm_hop_s=1)
            for at in range(WARM_S + 2 * TURN_S):
                if self.going():
                    data = seizure if WARM_S <= at < WARM_S + TURN_S else quiet
                    yield self.pb.ClientMessage(chunk=self.pb.Chunk(first_sample=at * RATE, samples=RATE, data=data))
        while self.going():
            self.run(say())

    def opens(self):
        with channel_of(self.o.port, self.o.ca, self.o.token) as channel:
            while self.going():
                with contextlib.suppress(*GONE):
                    call = self.stubs.StreamStub(channel).Run(iter([self.open(client_name=f"flood {self.count}", resumable=self.count % 2 == 0)]), timeout=5)
                    next(call)
                    call.cancel()

    def lists(self):
        calls = ("Sessions/List", "Journal/List", "Jobs/List", "Alarms/List", "Models/List", "Metrics/Get", "Checkpoints/List", "Admin/Devices", "Burst/List")
        with channel_of(self.o.port, self.o.ca, self.o.token) as channel:
            while self.going():
                with contextlib.suppress(*GONE):
                    list(channel.unary_stream(f"/brr.v1.{calls[self.count % len(calls)]}")(b"", timeout=5))

    def context(self):
        return ssl.create_default_context(cafile=self.o.ca)

    def pages(self):
        paths = ("/streams", "/", "/alarms", "/models", "/jobs", "/metrics", "/streams?wall", "/events?page=/streams")
        while self.going():
            with contextlib.suppress(*GONE):
                c = http.client.HTTPSConnection("localhost", self.o.http, context=self.context(), timeout=5)
                c.request("GET", random.choice(paths), headers=self.authorization)
                c.getresponse().read(65536)
                c.close()

    def connections(self):
        while self.going():
            with contextlib.suppress(*GONE):
                held = [socket.create_connection(("localhost", self.o.port if i % 2 else self.o.http), timeout=2) for i in range(20)]
                held[0].sendall(b"\x16\x03\x01")
                with self.context().wrap_socket(held[1], server_hostname="localhost"):
                    pass
                for s in held:
                    s.close()


def flood(o):
    os.nice(19)
    f = Flood(o)
    threads = [threading.Thread(target=getattr(f, o.kind), daemon=True) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:  # one may still read events, which have no end
        t.join(max(0, f.until + 10 - time.monotonic()))
    print(f.count, flush=True)
    os._exit(0)  # threads of gRPC that call Python while it ends would kill it


# ---- the comparison ----

def start_flood(d, o):
    common = ["--port", str(d.tcp), "--http", str(d.port), "--ca", f"{d.ca}/ca.crt", "--token", d.token_file("bad"), "--seconds", str(o.seconds)]
    return {kind: subprocess.Popen([sys.executable, __file__, "--kind", kind, *common], stdout=subprocess.PIPE, text=True) for kind in o.only}


def quantile(values, q):
    values = sorted(values)
    return round(values[int(q * (len(values) - 1))], 4) if values else None


def figures(delays):
    return {"n": len(delays), "p50": quantile(delays, 0.5), "p99": quantile(delays, 0.99), "highest": quantile(delays, 1)}


def heard_by_hook(pager, entries):
    """(decided, seconds until the hook was told) of each alarm_on."""
    shift = time.time() - time.monotonic()
    for e in entries:
        at = pager.told.get(delivery_id(HOOK, e["session"], e["kind"], round(e["start_s"] * RATE)))
        if e["kind"] == "alarm_on" and at:
            yield e["received_ms"] / 1000, at[0] + shift - e["received_ms"] / 1000


def journal_of(d):
    out = d.ctl("journal", "--json", "--kind", "alarm_on", "--kind", "alarm_off", "--bed", "bed *", "--last", "100000")[1]
    return [json.loads(line) for line in out.splitlines()]


def compare(o, tmp):
    pager = Pager(tmp)
    d = Secured(tmp, [pager.setting(), "alarms.rejoin=0s", "devices_cpu_threads=1"], roles=("admin",))
    d.new_token("stream", "ward")
    d.new_token("stream", "bad")
    d.start()
    pid, losses, windows, messages_sent = d.process.pid, [], {"without": [], "with": []}, {}
    channel = channel_of(d.tcp, f"{d.ca}/ca.crt", d.token_file("ward"))
    beds = [Bed(f"bed {k}", channel, k) for k in range(o.beds)]
    time.sleep(5)
    for r in range(2 * o.rounds):
        which, begun = ("without", "with")[r % 2], time.time()
        running = start_flood(d, o) if which == "with" else {}
        if not running:
            time.sleep(o.seconds)
        for kind, process in running.items():
            messages_sent[kind] = messages_sent.get(kind, 0) + int(process.communicate(timeout=o.seconds + PATIENCE)[0] or 0)
        windows[which].append((begun, time.time()))
        print(f"round {r // 2 + 1} {which} the flood: {sum(a[0] for b in beds for a in b.alarms)} alarms so far", flush=True)
        time.sleep(3)
    for b in beds:
        b.over.set()
    for b in beds:
        b.close()
        if b.error:
            losses.append(f"{b.name} ended: {b.error.code().name} {b.error.details()}")
    if d.process.poll() is not None or d.process.pid != pid:
        losses.append(f"the daemon exited: {d.process.poll()}")
    deadline = time.monotonic() + PATIENCE
    while True:
        entries = journal_of(d)
        written = {(e["client"], e["kind"], round(e["start_s"] * RATE)) for e in entries}
        heard = {(b.name, "alarm_on" if a[0] else "alarm_off", a[4]) for b in beds for a in b.alarms}
        owed = [e for e in entries if delivery_id(HOOK, e["session"], e["kind"], round(e["start_s"] * RATE)) not in pager.told]
        if (not owed and heard <= written) or time.monotonic() > deadline:
            break
        time.sleep(1)
    if heard - written:
        losses.append(f"{len(heard - written)} of {len(heard)} alarms are not in the journal: {sorted(heard - written)[:3]}")
    if owed:
        losses.append(f"{len(owed)} of {len(entries)} alarms were not told to the hook")

    def inside(which, at):
        return any(a <= at <= b for a, b in windows[which])
    hook = list(heard_by_hook(pager, entries))
    result = {which: {"client_after_decided_s": figures([a[2] - a[1] for b in beds for a in b.alarms if inside(which, a[1])]),
                      "client_after_sent_s": figures([a[2] - a[3] for b in beds for a in b.alarms if inside(which, a[1])]),
                      "hook_after_decided_s": figures([after for at, after in hook if inside(which, at)])} for which in windows}
    for name, plain in result["without"].items():
        if plain["p99"] is not None and result["with"][name]["p99"] > TIMES * plain["p99"] + MORE_S:
            losses.append(f"{name}: p99 {result['with'][name]['p99']} s under the flood, {plain['p99']} s without it")
    if (status := d.stop()) != 0:
        losses.append(f"the stop: {status}")
    return {**result, "alarms": len(heard), "flood": messages_sent, "losses": losses}


def main():
    parser = argparse.ArgumentParser(description="One stream token does its worst while the beds of another have alarms.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60, help="of each round")
    parser.add_argument("--beds", type=int, default=8)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(KINDS), help="kinds of the flood")
    parser.add_argument("--json", help="file for the report")
    for name in ("--kind", "--port", "--http", "--ca", "--token"):  # a process of the flood itself
        parser.add_argument(name, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.kind:
        return flood(o)
    with temporary() as tmp:
        result = compare(o, tmp)
    for which in ("without", "with"):
        for name, f in result[which].items():
            print(f"{which:8} {name:24} n {f['n']:5}  p50 {f['p50']}  p99 {f['p99']}  highest {f['highest']}")
    text = json.dumps(result)
    print(text, flush=True)
    if o.json:
        with open(o.json, "w", encoding="utf-8") as f:
            f.write(text + "\n")
    return 1 if result["losses"] else 0


if __name__ == "__main__":
    sys.exit(main())
