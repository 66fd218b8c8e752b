#!/usr/bin/env python3
"""Streams that survive: cuts of their connections at random moments, a second connection that takes over, sessions that are gone.
BRR_TEST_CUTS=200 sets how many connections are cut."""
import random
import sys
import threading
import time

import grpc

from resume_client import Proxy, Resuming, count, same
from stream_fixture import endpoint, messages, streaming_daemon
from test_stream_rules import Wire

CUTS = count("BRR_TEST_CUTS", 12)
ALARMS = 2  # seconds


def undisturbed(wire, address):
    one = Resuming(wire, address, alarm_hop_s=ALARMS).run()
    other = Resuming(wire, address, chunk=1000, alarm_hop_s=ALARMS).run()
    assert len(one.results) > 10 and one.connections == 1 and one.repeated == 0
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
    with grpc.insecure_channel(address) as one, grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as two:
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
        with grpc.insecure_channel(address) as channel:
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
    with grpc.insecure_channel(address) as channel:
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
    with grpc.insecure_channel(endpoint(d), options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        token = start_one(wire, channel)
        deadline = time.time() + 60
        while metric(d, "brrd_stream_sessions_closed_total", "expired") < 1 and time.time() < deadline:
            time.sleep(0.1)
        opened = next(wire.stub_of(channel).Run(iter([wire.open(resumable=True, resume_token=token)]))).opened
        assert not opened.resumed and opened.next_sample == 0, "a session outlived limits.resume_ttl"


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
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    with streaming_daemon() as (d, recording, model):
        wire, proxy = wire_of(d, recording, model), Proxy(d.socket)
        wanted = undisturbed(wire, endpoint(d))
        check_cuts(wire, proxy, wanted, random.Random(seed))
        check_cuts_at_the_end(wire, proxy, wanted)
        check_take_over(wire, endpoint(d))
        check_unknown_tokens(wire, endpoint(d))
        check_another_open(wire, endpoint(d))
        check_expiry(d, wire)
    return 0


if __name__ == "__main__":
    sys.exit(main())
