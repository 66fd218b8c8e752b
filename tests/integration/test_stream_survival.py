#!/usr/bin/env python3
"""Streams that survive: cuts of their connections at random moments, restarts and kills of the daemon, a second connection that takes
over, clients that hang, sessions that are gone. BRR_TEST_CUTS=200 BRR_TEST_RESTARTS=20 set how many connections are cut, and how often the daemon is
stopped and how often killed."""
import os
import random
import signal
import sys
import threading
import time

import grpc

from daemon import PATIENCE, SOURCE, until
from resume_client import Proxy, Resuming, count, same
from stock_process import Client
from stream_fixture import endpoint, messages, streaming_daemon
from test_stream_rules import Wire

sys.path.insert(0, f"{SOURCE}/tests")
from seed import test_seed  # noqa: E402

CUTS = count("BRR_TEST_CUTS", 12)
RESTARTS = count("BRR_TEST_RESTARTS", 2)
ALARMS = 2  # seconds


def undisturbed(wire, address):
    one = None
    while one is None or one.connections > 1:  # a machine may be so busy that a call is given up and another one made
        one = Resuming(wire, address, alarm_hop_s=ALARMS).run()
    other = Resuming(wire, address, chunk=1000, alarm_hop_s=ALARMS).run()
    assert len(one.results) > 10 and one.repeated == 0
    assert sum(len(m) for m in one.alarms.values()) > 0, "no alarm: the test would compare nothing"
    same(other, one)
    plain = Resuming(wire, address, resumable=False, alarm_hop_s=ALARMS).run()
    assert plain.token == "" and plain.results == one.results, "a stream that is not resumable has other results"
    return one


def check_cuts(wire, proxy, wanted, rng):
    cuts = 0
    while cuts < CUTS:
        stream = Resuming(wire, f"127.0.0.1:{proxy.port}", chunk=rng.choice([64, 200, 512]), pause_s=0.004, alarm_hop_s=ALARMS)
        done = threading.Event()

        def cutter():
            nonlocal cuts
            while not done.wait(rng.uniform(0.02, 0.8)) and cuts < CUTS:
                cuts += proxy.cut() > 0

        thread = threading.Thread(target=cutter)
        thread.start()
        try:
            stream.run()
        finally:
            done.set()
            thread.join()
        same(stream, wanted)
        print(f"{cuts} cuts; {stream.connections} connections, {stream.repeated} repeated")


def check_restarts(d, wire, proxy, wanted, rng, kill):
    """The daemon is stopped or killed while two streams run."""
    done = 0
    while done < RESTARTS:
        streams = [Resuming(wire, f"127.0.0.1:{proxy.port}", chunk=c, pause_s=0.02, alarm_hop_s=ALARMS) for c in (64, 150)]
        threads = [threading.Thread(target=outcome, args=(s,), daemon=True) for s in streams]
        for t in threads:
            t.start()
        while done < RESTARTS and any(t.is_alive() for t in threads):
            time.sleep(rng.uniform(0.05, 4))
            (d.kill if kill else d.stop)()
            d.start()
            done += 1
        for t, s in zip(threads, streams):
            t.join(PATIENCE)
            assert s.problem is None, s.problem
            same(s, wanted)
            assert kill or not s.draining or s.connections > 1
        print(f"{done} {'kills' if kill else 'stops'}; " + ", ".join(f"{s.connections} connections, {s.repeated} repeated" for s in streams))


def check_a_client_that_hangs(wire, address, wanted):
    """It is frozen with its connection open, then killed; another process goes on with its stream."""
    stream, before = Resuming(wire, address, pause_s=0.01, alarm_hop_s=ALARMS), Client.hung
    stream.client.cancel_s = 1
    take = stream.take

    def take_and_freeze(*args):
        take(*args)
        if stream.connections == 1 and len(stream.results) >= 3:
            stream.client.process.send_signal(signal.SIGSTOP)
            for call in stream.client.calls.values():  # the next call has another process, which has to start
                call.until = time.monotonic() + 1

    stream.take = take_and_freeze
    same(stream.run(), wanted)
    assert stream.connections > 1 and Client.hung > before, (stream.connections, Client.hung)


def outcome(stream):
    stream.problem = "the stream did not end"
    try:
        stream.run()
        stream.problem = None
    except BaseException as error:  # shown by the thread that joins
        stream.problem = error


def check_snapshot_files(d, wire):
    """Readable by the daemon's user alone, without the token, removed at the end of the stream; a corrupt one is moved aside."""
    folder = f"{d.dir}/results/sessions"
    assert os.stat(folder).st_mode & 0o777 == 0o700
    with Client(endpoint(d)) as channel:
        tokens = [start_one(wire, channel) for _ in range(2)]
    files = [f for f in os.listdir(folder) if len(f) == 32]
    for f in files:
        assert os.stat(f"{folder}/{f}").st_mode & 0o777 == 0o600
        with open(f"{folder}/{f}", "rb") as file:
            data = file.read()
        assert not any(t.encode() in data for t in tokens), "the token is on the disk"
    d.kill()
    for f in files:
        with open(f"{folder}/{f}", "r+b") as file:
            file.seek(100)
            byte = file.read(1)
            file.seek(100)
            file.write(bytes([byte[0] ^ 1]))
    d.start()
    until(lambda: metric(d, "brrd_stream_snapshots_total", "rejected") == len(files), "corrupt snapshots are not rejected")
    until(lambda: os.path.isdir(f"{folder}/rejected") and sorted(os.listdir(f"{folder}/rejected")) == sorted(files), "nor are they moved aside")
    with Client(endpoint(d)) as channel:
        opened = next(wire.stub_of(channel).Run(iter([wire.open(resumable=True, resume_token=tokens[0])]))).opened
        assert not opened.resumed and opened.next_sample == 0, "a corrupt snapshot was believed"
    assert "corrupt" in d.read_log() or "not a whole snapshot" in d.read_log()
    for token in tokens:
        assert token not in d.read_log(), "the token is in the log"


def check_cuts_at_the_end(wire, proxy, wanted):
    """After the half-close, when the answers are on their way."""
    for after in (0.0, 0.01, 0.05):
        stream = Resuming(wire, f"127.0.0.1:{proxy.port}", chunk=2048, alarm_hop_s=ALARMS)
        requests, cut = stream.requests, []

        def to_the_end(*args):
            yield from requests(*args)
            if not cut:
                cut.append(threading.Timer(after, proxy.cut))
                cut[0].start()

        stream.requests = to_the_end
        same(stream.run(), wanted)


def check_take_over(wire, address):
    """A second connection with the token goes on; the first one hears of it."""
    pb = wire.pb
    with Client(address) as one, Client(address) as two:
        hold = threading.Event()

        def first():
            yield wire.open(resumable=True)
            yield wire.chunk(0, 1000)
            hold.wait()

        call = wire.stub_of(one).Run(first())
        opened = next(call).opened
        token, acked = opened.resume_token, 0
        while acked < 1000:
            m = next(call)
            acked = m.ack.received_through
        answers = list(wire.stub_of(two).Run(iter([wire.open(resumable=True, resume_token=token), wire.chunk(1000, 3000)])))
        again = answers[0].opened
        assert again.resumed and again.session_id == opened.session_id and again.next_sample == 1000 and again.resume_token == token, again
        assert answers[-1].summary.source_samples == 3000 and answers[-1].summary.duplicate_samples == 0, answers[-1]
        try:
            list(call)
            raise AssertionError("the first connection was not told")
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.ABORTED
            assert wire.detail(error).reason == "TAKEN_OVER", wire.detail(error)
        hold.set()
    assert pb


def check_unknown_tokens(wire, address):
    for token in ("0" * 32, "x", "0" * 300):
        with Client(address) as channel:
            opened = next(wire.stub_of(channel).Run(iter([wire.open(resumable=True, resume_token=token)]))).opened
            assert not opened.resumed and opened.next_sample == 0 and opened.resume_token not in ("", token), opened


def start_one(wire, channel, samples=1000):
    """Token of a session that has received so many samples and then lost its connection."""
    hold = threading.Event()

    def pieces():
        yield wire.open(resumable=True)
        yield wire.chunk(0, samples)
        hold.wait()

    call = wire.stub_of(channel).Run(pieces())
    token = next(call).opened.resume_token
    while next(call).ack.received_through < samples:
        pass
    call.cancel()
    hold.set()
    return token


def check_another_open(wire, address):
    with Client(address) as channel:
        token = start_one(wire, channel)
        try:
            list(wire.stub_of(channel).Run(iter([wire.open(resumable=True, resume_token=token, rate_hz=512)])))
            raise AssertionError("another rate was accepted")
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT and "rate_hz" in error.details(), error.details()
        opened = next(wire.stub_of(channel).Run(iter([wire.open(resumable=True, resume_token=token)]))).opened
        assert opened.resumed and opened.next_sample == 1000, "a refused Open cost the session"


def check_expiry(d, wire):
    d.stop()
    d.extra.append("limits.resume_ttl=1s")
    d.start()
    with Client(endpoint(d)) as channel:
        token = start_one(wire, channel)
        until(lambda: "no stream is open" in d.ctl("sessions")[1], lambda: d.ctl("sessions")[1])  # this one, and those that the start brought back
        opened = next(wire.stub_of(channel).Run(iter([wire.open(resumable=True, resume_token=token)]))).opened
        assert not opened.resumed and opened.next_sample == 0, "a session outlived limits.resume_ttl"
        assert opened.resume_ttl_ms == 1000, opened


def metric(d, name, label):
    import urllib.request
    text = urllib.request.urlopen(f"http://127.0.0.1:{d.port}/metrics").read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name) and f'"{label}"' in line)


def wire_of(d, recording, model):
    wire = Wire(d, recording, model)
    stubs = messages()[3]
    wire.stub_of = stubs.StreamStub
    wire.detail = lambda e: wire.common.ErrorDetail.FromString(dict(e.trailing_metadata())["brr-error-bin"])
    return wire


def main():
    seed = test_seed()
    print(f"seed {seed}")
    with streaming_daemon() as (d, recording, model):
        wire, proxy = wire_of(d, recording, model), Proxy(d.socket)
        wanted = undisturbed(wire, endpoint(d))
        check_cuts(wire, proxy, wanted, random.Random(seed))
        check_cuts_at_the_end(wire, proxy, wanted)
        check_take_over(wire, endpoint(d))
        check_unknown_tokens(wire, endpoint(d))
        check_another_open(wire, endpoint(d))
        check_a_client_that_hangs(wire, endpoint(d), wanted)
        check_restarts(d, wire, proxy, wanted, random.Random(seed), kill=False)
        check_restarts(d, wire, proxy, wanted, random.Random(seed), kill=True)
        check_snapshot_files(d, wire)
        check_expiry(d, wire)
    print(f"{Client.hung - 1} calls of stock grpcio hung although the daemon was well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
