#!/usr/bin/env python3
"""What clients can make the daemon hold is bounded: answers nobody reads, gaps of days, chunks that last too long, calls, sessions
whose client sleeps. A stream that asks for much work does not stop a job."""
import glob
import json
import os
import struct
import sys
import threading
import time
import urllib.request

import grpc
import numpy

from daemon import MINI, PATIENCE, until
from stock import Stock
from stream_fixture import endpoint, streaming_daemon

LABELS = ["Fp1", "F3", "C3", "P3", "F7", "T3", "T5", "O1", "Fz", "Cz", "Pz", "Fp2", "F4", "C4", "P4", "F8", "T4", "T6", "O2"]
RATE, MIB = 256, 1 << 20
DAY = 24 * 3600 * RATE
UNREAD, SEND = 24 * MIB, 4 * MIB + 64 * 1024  # of all calls, of one (docs/protocol.md)


def scrape(d):
    with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/metrics", timeout=PATIENCE) as answer:
        lines = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line and line[0] != "#"]
    return {name: float(value) for name, value in lines}


def metric(d, name):
    return scrape(d).get(name, 0.0)


def settle(d, c, *names, seconds=3):
    """Waits until these metrics have stood still for so long, in which the loop answered calls all the time."""
    last, since = None, 0.0
    while last is None or time.time() - since < seconds:
        assert c.Admin.Version(c.admin.VersionRequest()).version
        all_of_them = scrape(d)
        now = [all_of_them.get(name, 0.0) for name in names]
        if now != last:
            last, since = now, time.time()
        time.sleep(0.1)


def resident(d):
    with open(f"/proc/{d.process.pid}/status", encoding="ascii") as f:
        return int(next(line.split()[1] for line in f if line.startswith("VmRSS"))) * 1024


def samples(seconds):
    rng = numpy.random.default_rng(5)
    return (rng.standard_normal((len(LABELS), seconds * RATE)) * 20).astype("<f4")


def opened(c, model, **changes):
    fields = dict(model=model, channels=LABELS, rate_hz=RATE, format=c.stream.SAMPLE_FORMAT_F32_UV, alarm_hop_s=-1, want_probabilities=True)
    return c.stream.ClientMessage(open=c.stream.Open(**{**fields, **changes}))


def chunk(c, first, x):
    return c.stream.ClientMessage(chunk=c.stream.Chunk(first_sample=first, samples=x.shape[1], data=x.tobytes()))


def wrong_requests_are_refused(c, model):
    detail, code, text = c.refused(c.Stream.Run, iter([opened(c, model, alarm_hop_s=1 / 256)]))
    assert code == "INVALID_ARGUMENT" and "alarm_hop_s" in text and "0.25" in text, text
    seconds = 601
    slow = [opened(c, model, rate_hz=1), c.stream.ClientMessage(
        chunk=c.stream.Chunk(first_sample=0, samples=seconds, data=numpy.zeros((len(LABELS), seconds), "<f4").tobytes()))]
    detail, code, text = c.refused(c.Stream.Run, iter(slow))
    assert code == "INVALID_ARGUMENT" and "max_chunk_samples" in text, text


def a_gap_is_a_range(d, c, model):
    """Forty days without a sample cost forty messages, not 3.5 GB of values."""
    x, before, at, gaps = samples(20), resident(d), 0, 0
    messages = [opened(c, model)]
    for _ in range(40):
        messages.append(chunk(c, at, x))
        at += x.shape[1] + DAY - RATE * 60
    answers = list(c.Stream.Run(iter(messages)))
    end = 0
    for m in answers:
        if m.HasField("result"):
            assert m.result.first_sample == end
            end += m.result.samples
            gaps += m.result.gap
            assert m.result.gap == (not m.result.probabilities) or not m.result.samples
    assert gaps == 39 and end == at - DAY + RATE * 60 == answers[-1].summary.samples, (gaps, end, at)
    assert resident(d) - before < 200 * MIB, (before, resident(d))


def answers_nobody_reads_stop_their_stream_and_nothing_is_lost(d, c, model):
    x, n = samples(180), 40  # two hours: 7 MiB of trace
    before = resident(d)
    sent = []

    def messages():
        yield opened(c, model)
        for i in range(n):
            sent.append(i)
            yield chunk(c, i * x.shape[1], x)

    call = c.Stream.Run(messages())
    until(lambda: metric(d, "brrd_rpc_unsent_bytes") > 0, "the answers of a stream never filled the connection")
    other = list(c.Stream.Run(iter([opened(c, model), chunk(c, 0, x)])))  # meanwhile others are served
    assert other[-1].summary.samples == x.shape[1]
    settle(d, c, 'brrd_inference_windows_total{model="file",device="cpu",result="done"}')  # the worker leaves the stream alone
    assert len(sent) < n, "all was read although no answer was"
    assert metric(d, "brrd_rpc_unsent_bytes") < SEND and resident(d) - before < 300 * MIB, resident(d) - before
    end = 0
    for m in call:
        if m.HasField("result"):
            assert m.result.first_sample == end and len(m.result.probabilities) == 4 * m.result.samples
            end += m.result.samples
        elif m.HasField("summary"):
            assert m.summary.samples == end == n * x.shape[1]
            return
    raise AssertionError("the stream ended without a summary")


def padded(model, target, size):
    """A model file with a further tensor of so many bytes."""
    with open(model, "rb") as f:
        data = f.read()
    length = struct.unpack_from("<Q", data)[0]
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    header["zz.pad"] = {"dtype": "U8", "shape": [size], "data_offsets": [len(body), len(body) + size]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)
        f.truncate(8 + len(text) + len(body) + size)
    return target


def downloads_nobody_reads(d, c, model):
    """Each call holds a few parts; beyond limits.unread the one that holds most ends, and the others can be read to the end."""
    big = padded(model, f"{d.dir}/big.safetensors", 80 * MIB)
    before = resident(d)
    calls = [c.Checkpoints.Get(c.checkpoints.GetCheckpointRequest(ref=big)) for _ in range(12)]
    refused = 'brrd_rpc_requests_total{method="/brr.v1.Checkpoints/Get",code="resource_exhausted"}'
    flying = 'brrd_rpc_in_flight{method="/brr.v1.Checkpoints/Get"}'
    ended, in_flight = (lambda: metric(d, refused)), (lambda: metric(d, flying))
    # A call that was refused ends when its client has read the part that is on its way: some at once, others, or all, below. So what
    # shows that the limit was reached are the errors that the clients get.
    until(lambda: in_flight() + ended() == 12 and metric(d, "brrd_rpc_unsent_bytes") > 0, "the downloads never began")
    settle(d, c, "brrd_rpc_unsent_bytes", refused, flying)
    assert metric(d, "brrd_rpc_unsent_bytes") <= UNREAD, metric(d, "brrd_rpc_unsent_bytes")
    assert resident(d) - before < 400 * MIB, resident(d) - before
    assert c.Checkpoints.Verify(c.checkpoints.CheckpointRef(ref=model)).valid, "downloads that nobody reads hold the places of other calls"
    whole = slow = 0
    for call in calls:
        try:
            whole += sum(len(m.data) for m in call) == os.path.getsize(big)
        except grpc.RpcError as error:
            detail = c.common.ErrorDetail.FromString(dict(error.trailing_metadata())["brr-error-bin"])
            assert error.code().name == "RESOURCE_EXHAUSTED" and detail.reason == "CLIENT_TOO_SLOW" and "limits.unread" in detail.message, detail
            slow += 1
    assert whole and slow and whole + slow == 12, (whole, slow)
    until(lambda: metric(d, "brrd_rpc_unsent_bytes") == 0 and in_flight() == 0, "bytes stay counted")


def transfers_that_are_cut(d, c, model):
    """Clients leave in the middle of calls that carry files: the calls end, and nothing that they made stays."""
    gate, part = threading.Event(), c.checkpoints.PutCheckpointPart

    def parts():
        yield part(name="cut", data=b"x" * MIB)
        gate.wait()

    calls = [c.Checkpoints.Get(c.checkpoints.GetCheckpointRequest(ref=f"{d.dir}/big.safetensors")) for _ in range(4)]
    calls += [c.Admin.Backup(c.admin.BackupRequest()) for _ in range(3)]
    for call in calls:
        assert next(call)
    upload = c.Checkpoints.Put.future(parts())
    until(lambda: glob.glob(f"{d.dir}/**/cut.safetensors*", recursive=True), "the upload did not begin")
    for call in [*calls, upload]:
        call.cancel()
    gate.set()
    left = lambda: glob.glob(f"{d.dir}/**/cut.safetensors*", recursive=True) + glob.glob(f"{d.dir}/**/backup-*", recursive=True)
    until(lambda: not left(), lambda: f"files of calls that ended stay: {left()}")
    open_calls = lambda: {k: v for k, v in scrape(d).items() if k.startswith("brrd_rpc_in_flight") and v}
    until(lambda: not open_calls() and metric(d, "brrd_rpc_unsent_bytes") == 0, lambda: f"calls that were cut stay: {open_calls()}")
    with open(model, "rb") as f:
        assert c.Checkpoints.Put(iter([part(name="whole", data=f.read())])).sha256


def a_sleeping_client_loses_its_place(d, c, model):
    """limits.sessions is 2: after limits.session_idle others get in, whether or not the sleepers hear of it. Each stream is six hours
    long, so that its answers never fit into the buffers of a connection."""
    x = samples(180)

    def messages():
        yield opened(c, model)
        for i in range(120):
            yield chunk(c, i * x.shape[1], x)

    calls = [c.Stream.Run(messages()) for _ in range(2)]
    until(lambda: metric(d, "brrd_stream_sessions") == 2, "the streams did not begin")
    streams, now = 'brrd_rpc_in_flight{method="/brr.v1.Stream/Run"}', {}

    def expired():
        now.update(scrape(d))
        return now["brrd_stream_sessions"] == 0

    until(expired, "sessions nobody reads stay", 300)
    assert now[streams] >= 1 and now["brrd_rpc_unsent_bytes"] > 0, "the streams ended although their answers were read"
    small = samples(20)
    assert list(c.Stream.Run(iter([opened(c, model), chunk(c, 0, small)])))[-1].summary.samples == small.shape[1]
    until(lambda: metric(d, streams) == 0 and metric(d, "brrd_rpc_unsent_bytes") == 0, "calls nobody reads stay open")
    for call in calls:
        try:
            list(call)
            raise AssertionError("a call that expired ended well")
        except grpc.RpcError as error:
            assert error.code().name in ("CANCELLED", "ABORTED"), error


def calls_are_limited(d, c):
    watches = [c.Metrics.Watch(c.admin.WatchMetricsRequest(interval_ms=60000)) for _ in range(16)]
    until(lambda: metric(d, 'brrd_rpc_in_flight{method="/brr.v1.Metrics/Watch"}') == 16, "the watches do not run")
    detail, code, text = c.refused(c.Admin.Version, c.admin.VersionRequest())
    assert code == "RESOURCE_EXHAUSTED" and detail.reason == "OVERLOADED" and detail.retry_after_ms > 0 and "limits.calls" in text, text
    health = c.channel.unary_unary("/grpc.health.v1.Health/Check")
    assert health(b"", timeout=PATIENCE) == b"\x08\x01"
    for watch in watches:
        watch.cancel()
    until(lambda: metric(d, 'brrd_rpc_in_flight{method="/brr.v1.Metrics/Watch"}') == 0, "cancelled watches stay")
    assert c.Admin.Version(c.admin.VersionRequest()).version


def a_job_steps_beside_a_flood(d, c, model):
    """Windows of a live stream wait all the time, four a second of signal; the job makes steps before the last is done. How many windows
    the device does meanwhile depends on the machine, so the stream goes on until the job has made them."""
    code, end, err = d.submit(*MINI, f"data.source=file://{d.dir}/eeg", "data.validation_fraction=0", "training.max_steps=100000", watch=False)
    assert code == 0, err
    step = lambda: d.job(end["job"])["step"]
    d.wait(end["job"], lambda job: job["state"] == "running" and job["step"] > 0)
    x, most, seen = samples(60), 96, []

    def messages():
        yield opened(c, model, realtime=True, alarm_hop_s=0.25)
        for i in range(most):
            if len(set(seen[1:])) > 3:
                return
            yield chunk(c, i * x.shape[1], x)

    for m in c.Stream.Run(messages()):
        if m.HasField("result") and m.result.first_sample % (2 * 60 * RATE) < m.result.samples:
            seen.append(step())
    assert len(set(seen[1:-1])) >= 3, f"the job made no steps while windows waited: {seen}"
    d.ctl("cancel", end["job"])
    d.wait(end["job"], lambda job: job["state"] == "cancelled")


def a_stop_ends_calls(d):
    """A hundred calls that carry files, which their clients neither read nor go on with, do not keep the daemon from its end."""
    d.stop()
    d.extra = []
    d.start()
    c = Stock(endpoint(d), f"{d.dir}/more-stubs")
    gate, part = threading.Event(), c.checkpoints.PutCheckpointPart

    def parts(i):
        yield part(name=f"half-{i}", data=b"x" * MIB)
        gate.wait()

    big = c.checkpoints.GetCheckpointRequest(ref=f"{d.dir}/big.safetensors")
    calls = [c.Checkpoints.Get(big) for _ in range(70)] + [c.Checkpoints.Put.future(parts(i)) for i in range(30)]
    until(lambda: sum(v for k, v in scrape(d).items() if k.startswith("brrd_rpc_in_flight")) == 100, "not all calls are open")
    assert d.stop() == 0, d.read_log()
    gate.set()
    for call in calls:
        try:
            list(call) if hasattr(call, "__next__") else call.result()
            raise AssertionError("a call that the stop cut ended well")
        except grpc.RpcError as error:
            assert error.code().name in ("CANCELLED", "UNAVAILABLE"), error
    left = glob.glob(f"{d.dir}/**/half-*", recursive=True)
    assert not left, f"files of calls that ended stay: {left}"
    c.channel.close()
    d.start()


def main():
    extra = [f"limits.unread={UNREAD}", "limits.calls=16", "limits.sessions=2", "limits.session_idle=20s"]
    with streaming_daemon(extra=extra) as (d, recording, model):
        c = Stock(endpoint(d), f"{d.dir}/stubs")
        wrong_requests_are_refused(c, model)
        a_gap_is_a_range(d, c, model)
        answers_nobody_reads_stop_their_stream_and_nothing_is_lost(d, c, model)
        downloads_nobody_reads(d, c, model)
        transfers_that_are_cut(d, c, model)
        a_sleeping_client_loses_its_place(d, c, model)
        calls_are_limited(d, c)
        a_job_steps_beside_a_flood(d, c, model)
        c.channel.close()
        a_stop_ends_calls(d)
    return 0


if __name__ == "__main__":
    sys.exit(main())
