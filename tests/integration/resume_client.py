"""A client of Stream.Run by stock grpcio that comes back after cuts, and a proxy that cuts connections."""
import os
import socket
import struct
import threading
import time

import grpc

from daemon import PATIENCE
from stock_process import Client


class Proxy:
    """TCP in front of a daemon's unix socket. cut() resets every connection."""

    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()
        self.pairs = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self.path)
            except OSError:
                client.close()
                continue
            with self.lock:
                self.pairs.append((client, server))
            for a, b in ((client, server), (server, client)):
                threading.Thread(target=self.pump, args=(a, b), daemon=True).start()

    @staticmethod
    def pump(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for s in pair:
                try:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        return len(pairs)


class Resuming:
    """One recording as a resumable stream. Keeps every sample that is not durable, and all results by their numbers."""

    retry_s = 0.02  # between connections

    def __init__(self, wire, endpoint, chunk=128, pause_s=0.0, **changes):
        self.wire, self.client, self.chunk, self.pause_s = wire, Client(endpoint), chunk, pause_s
        self.changes = {"resumable": True, **changes}
        self.total = wire.rows.shape[1]
        self.token, self.session, self.epoch = "", "", 0
        self.results, self.alarms, self.summary = {}, {}, None
        self.next_result = self.next_alarm = 0
        self.durable = self.connections = self.draining = self.repeated = 0
        self.opened = threading.Event()

    def requests(self, opened, first_sample):
        pb = self.wire.pb
        yield self.wire.open(resume_token=self.token, next_result_seq=self.next_result, next_alarm_seq=self.next_alarm, **self.changes)
        if not opened.wait(PATIENCE) or first_sample[0] is None:
            return
        at, count = first_sample[0], 0
        while at < self.total:
            end = min(at + self.chunk, self.total)
            yield self.wire.chunk(at, end)
            at, count = end, count + 1
            if count % 8 == 0:
                yield pb.ClientMessage(seen=pb.Seen(next_result_seq=self.next_result, next_alarm_seq=self.next_alarm))
            time.sleep(self.pause_s)

    def keep(self, kept, seq, message, following):
        data = message.SerializeToString(deterministic=True)
        if seq in kept:
            assert kept[seq] == data, f"{type(message).__name__} {seq} came again with other contents"
            self.repeated += 1
            return following
        assert seq == following, f"{type(message).__name__} {seq} when {following} was expected"
        kept[seq] = data
        return seq + 1

    def take(self, m, opened, first_sample):
        kind = m.WhichOneof("kind")
        if kind == "opened":
            o = m.opened
            if self.session:
                assert o.resumed and (o.session_id, o.epoch) == (self.session, self.epoch), "the stream began anew"
                assert o.next_sample >= self.durable and o.next_result_seq <= self.next_result, (o, self.durable, self.next_result)
            self.session, self.epoch, self.token = o.session_id, o.epoch, o.resume_token
            first_sample[0] = o.next_sample
            opened.set()
        elif kind == "ack":
            self.durable = max(self.durable, m.ack.durable_through)
        elif kind == "result":
            self.next_result = self.keep(self.results, m.result.result_seq, m.result, self.next_result)
        elif kind == "alarm":
            for name in ("wall_time_ms", "alarm_id", "live"):  # of the server's clock, the session, and Open: the rest is a function of the samples
                m.alarm.ClearField(name)
            self.next_alarm = self.keep(self.alarms, m.alarm.alarm_seq, m.alarm, self.next_alarm)
        elif kind == "draining":
            self.draining += 1
        elif kind == "summary":
            self.summary = m.summary

    def attempt(self):
        """One connection; None when the stream has ended, else the error."""
        opened, first_sample = threading.Event(), [None]
        self.connections += 1
        try:
            for m in self.wire.stub_of(self.client).Run(self.requests(opened, first_sample)):
                self.take(m, opened, first_sample)
            return None
        except grpc.RpcError as error:
            return error
        finally:
            opened.set()

    def may_return(self, error):
        """Whether a stream that ended with this error can go on."""
        return error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)

    def run(self, patience=PATIENCE):
        deadline = time.time() + patience
        with self.client:
            while time.time() < deadline:
                error = self.attempt()
                if error is None:
                    assert self.summary is not None, "the stream ended without a Summary"
                    return self
                assert self.may_return(error), (error.code(), error.details())
                time.sleep(self.retry_s)
        raise AssertionError(f"the stream did not end: {len(self.results)} results after {self.connections} connections")


def same(got, wanted):
    assert got.results == wanted.results, "the results are not those of an undisturbed stream"
    assert got.alarms == wanted.alarms, "the alarms are not those of an undisturbed stream"
    a, b = got.summary, wanted.summary
    assert (a.source_samples, a.samples, a.events, a.events_total) == (b.source_samples, b.samples, b.events, b.events_total)


def count(name, usual):
    return int(os.environ.get(name, usual))
