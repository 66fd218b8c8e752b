#!/usr/bin/env python3
"""Clients that break the rules of a stream, by accident or not, beside a good one: each is refused with its reason, which the audit log and
brrd_rpc_errors_total show too; the good stream's files are those of a run alone, and the daemon's memory stays bounded."""
import json
import subprocess
import sys
import threading

import grpc
import numpy

from daemon import PATIENCE
from stream_fixture import command, load_example, messages, start, streaming_daemon
from test_half_open import rss
from test_stream_resume import read_files

ROUNDS = 20
GROWTH = 64 << 20  # bytes that all of them may leave behind
RUN = "/brr.v1.Stream/Run"


class Hostile:
    def __init__(self, d, recording, model):
        self.keep, self.common, self.pb, _ = messages()
        self.labels, self.rate, rows = load_example().read_edf(recording)
        self.x = numpy.array([numpy.frombuffer(r, dtype=numpy.float32) for r in rows])[:, :2560]
        self.model = model
        self.channel = grpc.insecure_channel(d.env["BRR_ENDPOINT"])
        self.raw = self.channel.stream_stream(RUN)
        self.reasons = {}

    def open(self, **changes):
        fields = dict(model=self.model, channels=self.labels, rate_hz=self.rate, format=self.pb.SAMPLE_FORMAT_F32_UV, alarm_hop_s=-1)
        return self.pb.ClientMessage(open=self.pb.Open(**{**fields, **changes})).SerializeToString()

    def chunk(self, first, x, samples=None):
        return self.pb.ClientMessage(chunk=self.pb.Chunk(first_sample=first, samples=x.shape[1] if samples is None else samples,
                                                         data=x.tobytes())).SerializeToString()

    def gap(self, first, end):
        return self.pb.ClientMessage(gap=self.pb.Gap(first=first, end=end)).SerializeToString()

    def refused(self, code, reason, *sent, then=None):
        """These bytes end the call with this status and reason; `then` is waited for before the half-close."""
        def requests():
            yield from sent
            if then:
                then.wait(PATIENCE)
        try:
            list(self.raw(requests(), timeout=PATIENCE))
        except grpc.RpcError as error:
            detail = self.common.ErrorDetail.FromString(dict(error.trailing_metadata() or ()).get("brr-error-bin", b""))
            if then:
                then.set()
            assert (error.code().name, detail.reason) == (code, reason), (error, detail)
            if reason:
                assert detail.message
                self.reasons[reason] = self.reasons.get(reason, 0) + 1
            return detail
        raise AssertionError(f"{[m[:80] for m in sent]} was not refused")

    def answers(self, *sent):
        return [self.pb.ServerMessage.FromString(m) for m in self.raw(iter(sent), timeout=PATIENCE)]

    def summary(self, *sent):
        return self.answers(*sent)[-1].summary


def break_every_rule(h):
    invalid = ("INVALID_ARGUMENT", "INVALID_ARGUMENT")
    h.refused(*invalid, b"\xff\xff\xff\xff")
    h.refused(*invalid, h.open(), b"\x12\x7f")
    h.refused(*invalid, b"")
    h.refused(*invalid)
    h.refused(*invalid, h.chunk(0, h.x))
    h.refused(*invalid, h.open(), h.open())
    for changes in ({"rate_hz": 0.1}, {"rate_hz": 1e9}, {"rate_hz": 65521.37}, {"rate_hz": float("nan")}, {"channels": []}, {"format": 0}, {"alarm_hop_s": 1e-6}):
        h.refused(*invalid, h.open(**changes))
    h.refused("FAILED_PRECONDITION", "MONTAGE_MISMATCH", h.open(channels=[f"Nose{i}" for i in range(len(h.labels))]), then=threading.Event())
    h.refused("NOT_FOUND", "NOT_FOUND", h.open(model="nobody"))
    h.refused(*invalid, h.open(), h.chunk(0, h.x, samples=17))
    h.refused(*invalid, h.open(), h.chunk(-5, h.x))
    h.refused(*invalid, h.open(), h.chunk(1 << 60, h.x))
    for value in (numpy.nan, numpy.inf):  # held, and said of their channel alone
        bad = h.x.copy()
        bad[3, 5] = value
        answers = h.answers(h.open(), h.chunk(0, bad))
        missing = {i for m in answers if m.HasField("result") for i in m.result.quality.missing}
        assert answers[-1].summary.source_samples == bad.shape[1] and missing == {3}, (missing, answers)
    h.refused("OUT_OF_RANGE", "GAP_TOO_LARGE", h.open(), h.gap(0, 25 * 3600 * 256))
    h.refused("OUT_OF_RANGE", "GAP_TOO_LARGE", h.open(), h.chunk(25 * 3600 * 256, h.x))
    h.refused("RESOURCE_EXHAUSTED", "", h.open(), b"\x12" + bytes(5 << 20))  # by the transport, which knows no reasons
    backwards = h.summary(h.open(), h.chunk(1000, h.x), h.chunk(500, h.x), h.chunk(0, h.x))
    assert backwards.source_samples == 1000 + h.x.shape[1] and backwards.duplicate_samples == 2 * h.x.shape[1] and backwards.gaps == 1, backwards


def strange_tokens(h):
    """A resume token that nobody gave opens a new session and nothing else."""
    for token in ("x", "0" * 32, "f" * 4096):
        call = h.raw(iter([h.open(resumable=True, resume_token=token)]), timeout=PATIENCE)
        opened = h.pb.ServerMessage.FromString(next(call)).opened
        assert opened.session_id and not opened.resumed and opened.next_sample == 0 and opened.resume_token not in ("", token), opened
        list(call)


def check_shown(d, h):
    code, out, err = d.ctl("metrics", "brrd_rpc_errors_total", "--json")
    assert code == 0, err
    shown = {}
    for line in map(json.loads, out.splitlines()):
        if any(RUN in value for value in line["labels"].values()):
            shown[line["labels"]["reason"]] = line["value"]
    log = d.read_log()
    for reason, times in h.reasons.items():
        assert shown.get(reason) == times, (reason, times, shown)
        lines = [line for line in log.splitlines() if "audit" in line and RUN in line and f" reason={reason}" in line]
        assert len(lines) == times, (reason, times, lines, [x for x in log.splitlines() if reason in x])


def main():
    with streaming_daemon(extra=("limits.session_idle=5s",)) as (d, recording, model):
        subprocess.run(command(d, recording, model, "--json"), env=d.env, capture_output=True, check=True, timeout=PATIENCE)
        want = read_files(d)
        h = Hostile(d, recording, model)
        good = start(d, recording, model, "--realtime", "8")
        h.refused("ABORTED", "SESSION_EXPIRED", h.open(), h.chunk(0, h.x), then=threading.Event())
        break_every_rule(h)
        before = rss(d)
        for _ in range(ROUNDS):
            break_every_rule(h)
            strange_tokens(h)
        grown = rss(d) - before
        err = good.communicate(timeout=PATIENCE)[1]
        assert good.returncode == 0 and read_files(d) == want, err
        check_shown(d, h)
        print(f"{sum(h.reasons.values())} refusals of {len(h.reasons)} reasons; memory grew by {grown >> 10} KiB")
        assert grown < GROWTH, grown
        h.channel.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
