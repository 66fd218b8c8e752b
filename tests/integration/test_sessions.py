#!/usr/bin/env python3
"""brr.v1.Sessions with stock grpcio: the open streams, what an observer sees of one, and the end of a session by others."""
import os
import sys
import tempfile
import threading
import time

import grpc

from daemon import PATIENCE
from resume_client import Resuming
from stock import Stock
from stream_fixture import endpoint, streaming_daemon
from test_stream_survival import wire_of

POOL = [("grpc.use_local_subchannel_pool", 1)]


def sessions_stub(stock):
    import importlib
    stock.sessions = importlib.import_module("brr.v1.sessions_pb2")
    return importlib.import_module("brr.v1.sessions_pb2_grpc").SessionsStub(stock.channel)


class Held:
    """A stream that goes on when it is told to."""

    def __init__(self, wire, channel, **changes):
        self.wire, self.pieces = wire, threading.Semaphore(0)
        self.at, self.end = 0, None
        self.call = wire.stub_of(channel).Run(self.requests(changes))
        self.opened = next(self.call).opened
        self.messages, self.error = [], None
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def requests(self, changes):
        yield self.wire.open(**changes)
        while True:
            self.pieces.acquire()
            if self.end is not None and self.at >= self.end:
                return
            yield self.wire.chunk(self.at, self.at + 1024)
            self.at += 1024

    def read(self):
        try:
            for m in self.call:
                self.messages.append(m)
        except grpc.RpcError as error:
            self.error = error

    def send(self, n):
        self.pieces.release(n)

    def wait(self, n):
        while self.at < n * 1024:
            time.sleep(0.01)

    def finish(self):
        self.end = self.at
        self.pieces.release()
        self.reader.join(PATIENCE)


def check_list(stub, stock, wire, channel):
    held = Held(wire, channel, client_name="bed 7", alarm_hop_s=2)
    found = {s.session_id: s for s in stub.List(stock.sessions.ListSessionsRequest()).sessions}
    info = found[held.opened.session_id]
    assert info.client_name == "bed 7" and info.connected and info.rate_hz == wire.rate and list(info.channel_names) == wire.labels, info
    assert info.principal == f"uid:{os.getuid()}" and info.channels == len(wire.labels) and info.probability != info.probability, info
    return held


def check_observe(stub, stock, held):
    """An observer sees the results and alarms of the stream, and its end."""
    updates = []
    watching = stub.Observe(stock.sessions.ObserveSessionRequest(session_id=held.opened.session_id))
    assert next(watching).HasField("info")
    reader = threading.Thread(target=lambda: updates.extend(watching), daemon=True)
    reader.start()
    held.send(30)
    held.wait(30)
    held.finish()
    reader.join(PATIENCE)
    assert held.error is None, held.error
    for kind in ("result", "alarm", "provisional"):
        sent = [getattr(m, kind).SerializeToString(deterministic=True) for m in held.messages if m.HasField(kind)]
        seen = [getattr(u, kind).SerializeToString(deterministic=True) for u in updates if u.HasField(kind)]
        assert seen == sent and (sent or kind == "alarm"), f"the observer saw {len(seen)} of {len(sent)} {kind}s"
    assert updates[-1].missed == 0


def check_observer_that_does_not_read(stub, stock, wire, channel, address):
    """It loses updates and hears how many; the stream does not wait for it."""
    held = Held(wire, channel, alarm_hop_s=0.25)
    narrow = grpc.insecure_channel(address, options=POOL + [("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0)])
    from importlib import import_module
    lazy = import_module("brr.v1.sessions_pb2_grpc").SessionsStub(narrow)
    watching = lazy.Observe(stock.sessions.ObserveSessionRequest(session_id=held.opened.session_id))
    first = next(watching)
    assert first.info.session_id == held.opened.session_id
    held.send(34)
    held.wait(34)
    held.finish()
    assert held.error is None and held.messages[-1].HasField("summary")
    updates = list(watching)
    provisional = sum(m.HasField("provisional") for m in held.messages)
    seen = sum(u.HasField("provisional") for u in updates)
    assert seen < provisional and updates[-1].missed >= provisional - seen > 0, (seen, provisional, updates[-1].missed)
    firsts = [u.provisional.first_sample for u in updates if u.HasField("provisional")]
    assert firsts == sorted(firsts) and firsts[-1] == max(m.provisional.first_sample for m in held.messages if m.HasField("provisional")), "not the newest"
    narrow.close()


def check_close(stub, stock, wire, channel):
    held = Held(wire, channel, resumable=True)
    stub.Close(stock.sessions.CloseSessionRequest(session_id=held.opened.session_id, reason="the bed is empty"))
    held.reader.join(PATIENCE)
    assert held.error is not None and held.error.code() is grpc.StatusCode.ABORTED, held.error
    detail = wire.detail(held.error)
    assert detail.reason == "SESSION_CLOSED" and detail.message.endswith("(the bed is empty)"), detail
    assert held.opened.session_id not in [s.session_id for s in stub.List(stock.sessions.ListSessionsRequest()).sessions]
    held.finish()
    detail, code, _ = stock.refused(stub.Close, stock.sessions.CloseSessionRequest(session_id=held.opened.session_id))
    assert code == "NOT_FOUND"
    detail, code, _ = stock.refused(stub.Observe, stock.sessions.ObserveSessionRequest(session_id="x"))
    assert code == "NOT_FOUND" and detail.reason == "NOT_FOUND"


def main():
    with streaming_daemon() as (d, recording, model), tempfile.TemporaryDirectory() as out:
        wire = wire_of(d, recording, model)
        stock = Stock(endpoint(d), out)
        stub = sessions_stub(stock)
        with grpc.insecure_channel(endpoint(d), options=POOL) as channel:
            check_observe(stub, stock, check_list(stub, stock, wire, channel))
            check_observer_that_does_not_read(stub, stock, wire, channel, endpoint(d))
            check_close(stub, stock, wire, channel)
        assert not stub.List(stock.sessions.ListSessionsRequest()).sessions
        assert Resuming(wire, endpoint(d)).run().connections == 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
