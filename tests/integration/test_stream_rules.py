#!/usr/bin/env python3
"""The rules of the wire: chunks of one sample, duplicates and overlaps, holes and gaps, acks, refusals, a client that is killed."""
import json
import os
import signal
import subprocess
import sys
import time

import numpy

from daemon import BIN, PATIENCE
from stream_fixture import RATE, endpoint, load_example, messages, streaming_daemon, trace, with_events

SHORT = 20 * RATE  # samples of the short piece


class Wire:
    """Stream.Run by hand."""

    def __init__(self, d, recording, model):
        import grpc
        self.keep, self.common, self.pb, stubs = messages()
        self.channel = grpc.insecure_channel(endpoint(d))
        self.stub = stubs.StreamStub(self.channel)
        labels, self.rate, rows = load_example().read_edf(recording)
        self.labels, self.model = labels, model
        self.rows = numpy.array([numpy.frombuffer(r, dtype=numpy.float32) for r in rows])
        self.error = grpc.RpcError

    def open(self, **changes):
        fields = dict(model=self.model, channels=self.labels, rate_hz=self.rate, format=self.pb.SAMPLE_FORMAT_F32_UV, alarm_hop_s=-1,
                      want_probabilities=True)
        return self.pb.ClientMessage(open=self.pb.Open(**{**fields, **changes}))

    def chunk(self, first, end):
        return self.pb.ClientMessage(chunk=self.pb.Chunk(first_sample=first, samples=end - first, data=self.rows[:, first:end].tobytes()))

    def run(self, *messages_):
        """(probabilities, events, summary, acks) of a stream of these messages."""
        p, events, summary, acks = [], [], None, []
        for m in self.stub.Run(iter(messages_)):
            if m.HasField("result"):
                assert m.result.first_sample == sum(map(len, p)), "results come in order and without holes"
                p.append(numpy.full(m.result.samples, numpy.nan, numpy.float32) if m.result.gap else
                         numpy.frombuffer(m.result.probabilities, dtype=numpy.float32))
                events += [(e.first_sample, e.end_sample, e.confidence) for e in m.result.events]
            elif m.HasField("summary"):
                summary = m.summary
            elif m.HasField("ack"):
                acks.append(m.ack.received_through)
        return numpy.concatenate(p) if p else numpy.zeros(0, numpy.float32), events, summary, acks

    def refusal(self, *messages_):
        try:
            self.run(*messages_)
        except self.error as error:
            return error.code().name, self.common.ErrorDetail.FromString(dict(error.trailing_metadata())["brr-error-bin"])
        raise AssertionError("the stream was not refused")


def check_chunks_of_one(w):
    whole = w.run(w.open(), w.chunk(0, SHORT))
    single = w.run(w.open(), *[w.chunk(i, i + 1) for i in range(SHORT)])
    assert whole[0].tobytes() == single[0].tobytes() and whole[1] == single[1], "chunks of one sample give other results"
    assert len(whole[0]) == SHORT and single[3][-1] == SHORT and sorted(single[3]) == single[3]
    return whole


def check_duplicates(w, whole):
    half = SHORT // 2
    p, events, summary, _ = w.run(w.open(), w.chunk(0, half), w.chunk(0, half), w.chunk(half - 100, SHORT), w.chunk(5, 6))
    assert p.tobytes() == whole[0].tobytes() and events == whole[1], "duplicates and overlaps change the result"
    assert summary.duplicate_samples == half + 100 + 1 and summary.gaps == 0


def check_gaps(w):
    first, end = 5 * RATE, 9 * RATE  # longer than what is held over
    hole = w.run(w.open(), w.chunk(0, first), w.chunk(end, SHORT))
    gap = w.pb.ClientMessage(gap=w.pb.Gap(first=first, end=end, cause="cable"))
    told = w.run(w.open(), w.chunk(0, first), gap, w.chunk(end, SHORT))
    assert hole[0].tobytes() == told[0].tobytes() and hole[2].gaps == told[2].gaps == 1
    assert numpy.isnan(hole[0][first:end]).all() and not numpy.isnan(hole[0][:first]).any() and not numpy.isnan(hole[0][end:]).any()
    short = w.run(w.open(), w.chunk(0, first), w.chunk(first + RATE, SHORT))  # one second: held over
    assert not numpy.isnan(short[0]).any() and short[2].gaps == 1 and len(short[0]) == SHORT


def check_acks(w):
    """Of a live stream one Ack a quarter of a second, or one with a result: not one for each chunk."""
    step, told, begun = RATE // 50, [], time.monotonic()

    def chunks():
        yield w.open(realtime=True)
        for first in range(0, 2 * RATE, step):
            yield w.chunk(first, min(first + step, 2 * RATE))
            time.sleep(0.02)

    for m in w.stub.Run(chunks()):
        told.append(m.WhichOneof("kind"))
    most = (time.monotonic() - begun) / 0.25 + told.count("result") + told.count("provisional") + 3
    assert 0 < told.count("ack") <= most, (told.count("ack"), most, told)


def check_refusals(d, w, recording):
    code, detail = w.refusal(w.open(model="nobody"))
    assert code == "NOT_FOUND" and "nobody" in detail.message, detail
    code, detail = w.refusal(w.open(channels=["X1", "X2"]), w.pb.ClientMessage())
    assert code == "FAILED_PRECONDITION" and detail.reason == "MONTAGE_MISMATCH" and "X1" in detail.message + detail.cause, detail
    for name in ("client_name", "patient"):
        code, detail = w.refusal(w.open(**{name: 64 * "ü"}))
        assert f"Open.{name} has 128 bytes; expected at most 127" in detail.message, (code, detail)
    code, detail = w.refusal(w.chunk(0, 10))
    assert code == "INVALID_ARGUMENT" and "Open" in detail.message, detail
    code, out, err = d.ctl("stream", recording, "--model", "nobody")
    assert code == 3 and len(err.splitlines()) == 1 and "no model is served as 'nobody'" in err, err
    renamed = f"{d.dir}/renamed.edf"
    with open(recording, "rb") as f:
        data = bytearray(f.read())
    for i in range(int(data[252:256]) - 1):
        data[256 + 16 * i:256 + 16 * i + 16] = b"Nose%-12d" % i
    with open(renamed, "wb") as f:
        f.write(data)
    code, out, err = d.ctl("stream", renamed, "--model", w.model)
    assert code == 1 and len(err.splitlines()) == 1 and "MONTAGE_MISMATCH" in err and "Nose" in err, err
    closed = [line for line in d.ctl("metrics", "brrd_stream_sessions_closed_total")[1].splitlines() if "reason=" in line]
    assert any('"refused"' in line for line in closed) and not any('"failed"' in line for line in closed), closed  # no bed was lost


def check_killed_client(d, recording, model, want):
    client = subprocess.Popen([f"{BIN}/brrctl", "stream", recording, "--model", model, "--realtime", "1", "--json"], env=d.env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    open_streams = lambda: [line for line in d.ctl("metrics", "brrd_stream_sessions")[1].splitlines() if line.startswith("brrd_stream_sessions ")]
    deadline = time.time() + PATIENCE
    while open_streams() != ["brrd_stream_sessions 1"] and time.time() < deadline:
        time.sleep(0.1)
    assert client.poll() is None and open_streams() == ["brrd_stream_sessions 1"], open_streams()
    client.kill()
    client.wait()
    while open_streams() != ["brrd_stream_sessions 0"] and time.time() < deadline + 10:
        time.sleep(0.1)
    assert open_streams() == ["brrd_stream_sessions 0"], "the session of a killed client stays"
    events, probabilities, _ = trace(d, recording, model)
    assert events == want[0] and probabilities.tobytes() == want[1].tobytes()


def check_interrupted_client(d, recording, model):
    """Ctrl-C ends the session at once: nobody comes back for it, and it is no lost bed."""
    output = f"{d.dir}/interrupted.tsv"
    client = subprocess.Popen([f"{BIN}/brrctl", "stream", recording, "--model", model, "--realtime", "1", "--client", "bed-9", "--output", output], env=d.env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    sessions = lambda: [s for s in map(json.loads, d.ctl("sessions", "--json")[1].splitlines()) if "bed-9" in s.values()]
    deadline = time.time() + PATIENCE
    while not sessions() and time.time() < deadline:
        time.sleep(0.1)
    assert sessions(), "the stream did not begin"
    client.send_signal(signal.SIGINT)
    _, err = client.communicate(timeout=PATIENCE)
    assert client.returncode == 130 and "interrupted after" in err and "no file was written" in err, (client.returncode, err)
    assert not os.path.exists(output)
    time.sleep(4)  # limits.resume_ttl is over
    closed = [line for line in d.ctl("metrics", "brrd_stream_sessions_closed_total")[1].splitlines() if "reason=" in line]
    assert not sessions() and any('"closed"' in line for line in closed) and not any('"expired"' in line for line in closed), closed


def check_rejecter(d, recording, model):
    """A model that was tuned with a rejecter of events runs without it: streams, jobs and the log say so."""
    old = with_events(model, f"{d.dir}/rejects.safetensors", rejecter={"on": 0.4, "off": 0.2})
    said = "tuned with a rejecter of events"
    code, out, err = d.ctl("stream", recording, "--model", old, "--json", "--output", f"{d.dir}/rejects.tsv")
    assert code == 0 and said in json.loads(out.splitlines()[-1])["note"], (out, err)
    code, out, err = d.ctl("load", "old", old)
    assert code == 0 and said in d.read_log(), (out, err, d.read_log())
    with open(f"{d.dir}/detect.yaml", "w", encoding="utf-8") as f:
        f.write(f"kind: detect\ndata: {{ source: 'file://{os.path.dirname(recording)}' }}\n")
        f.write(f"detect: {{ model: {old} }}\n")
    code, out, err = d.ctl("submit", f"{d.dir}/detect.yaml", "--watch", "--json")
    assert code == 0, (out, err)
    job = json.loads(d.ctl("jobs", "--json")[1].splitlines()[0])["job"]
    assert said in d.ctl("logs", job)[1], d.ctl("logs", job)


def main():
    with streaming_daemon(extra=["limits.resume_ttl=3s"]) as (d, recording, model):
        w = Wire(d, recording, model)
        whole = check_chunks_of_one(w)
        check_duplicates(w, whole)
        check_gaps(w)
        check_acks(w)
        check_refusals(d, w, recording)
        check_interrupted_client(d, recording, model)
        check_killed_client(d, recording, model, trace(d, recording, model))
        check_rejecter(d, recording, model)
        w.channel.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
