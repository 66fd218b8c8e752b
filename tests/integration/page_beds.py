"""Beds whose signal a test decides: streams of made-up EEG over gRPC, in real time after a first burst, with a seizure on demand."""
import json
import math
import os
import threading
import time

import grpc
import numpy

from stream_fixture import endpoint, messages

LABELS = "Fp1 F3 C3 P3 F7 T3 T5 O1 Fz Cz Pz Fp2 F4 C4 P4 F8 T4 T6 O2".split()
RATE, BURST_S, CHUNK = 256, 40, 128  # no alarm comes from less than 30 s of signal


def traces(body):
    """An answer for the viewer: what it says of itself, and its values in µV (rows, n), NaN where there is none."""
    head, values = body.split(b"\n", 1)
    head = json.loads(head)
    uv = numpy.frombuffer(values, "<i2").reshape(len(head["rows"]), -1)
    return head, numpy.where(uv == -32768, numpy.nan, uv * head["scale"])


def held(head):
    """Of an answer for the viewer: which samples or bins of which rows were held (rows, n)."""
    at = numpy.zeros((len(head["rows"]), head["n"] // head["bin"]), bool)
    for first, end, *rows in head["held"]:
        at[rows or slice(None), (first - head["from"]) // head["bin"]:(end - head["from"]) // head["bin"]] = True
    return at


def write_holes(stem, seconds=20):
    """A BrainVision recording that lacks 0.5 s, 2 s and 3.5 s of all channels, 1.4 s of C3 and a sample of O2."""
    rng, n = numpy.random.default_rng(3), (seconds - 6) * RATE
    uv = (rng.normal(0, 12, (len(LABELS), n)) + 15 * numpy.sin(2 * numpy.pi * 9.5 * numpy.arange(n) / RATE)).astype("<f4")
    uv[LABELS.index("C3"), 5 * RATE:6 * RATE + 100] = numpy.nan
    uv[LABELS.index("O2"), RATE + 7] = numpy.inf
    uv.T.tofile(f"{stem}.eeg")
    marks, late_s = "", 0
    for i, (at, gap_s) in enumerate(((0, 0), (3 * RATE, 0.5), (6 * RATE + 11, 2), (8 * RATE, 3.5)), 1):
        late_s += gap_s
        marks += f"Mk{i}=New Segment,,{at + 1},1,0,20260131120{round((at / RATE + late_s) * 1e6):09d}\n"
    with open(f"{stem}.vmrk", "w", encoding="utf-8") as f:
        f.write("Brain Vision Data Exchange Marker File, Version 1.0\n[Marker Infos]\n" + marks)
    with open(f"{stem}.vhdr", "w", encoding="utf-8") as f:
        f.write(f"Brain Vision Data Exchange Header File Version 1.0\n[Common Infos]\nDataFile={os.path.basename(stem)}.eeg\nMarkerFile={os.path.basename(stem)}.vmrk\n"
                f"DataFormat=BINARY\nDataOrientation=MULTIPLEXED\nNumberOfChannels={len(LABELS)}\nSamplingInterval={1e6 / RATE:g}\n[Binary Infos]\n"
                "BinaryFormat=IEEE_FLOAT_32\n[Channel Infos]\n" + "".join(f"Ch{i}={name},,1,\u00b5V\n" for i, name in enumerate(LABELS, 1)))
    return f"{stem}.vhdr"


class Bed:
    """flat: the electrode F3 is off."""

    def __init__(self, d, name, flat=False, burst_s=BURST_S, model="line_length"):
        self.name, self.flat, self.burst_s, self.model = name, flat, burst_s, model
        self.seizure, self.over, self.alarm = threading.Event(), threading.Event(), threading.Event()
        self.quiet = threading.Event()  # connected, and nothing comes
        self.alarm_at, self.error, self.sent, self.onset_s = None, None, [], math.inf
        self.rng = numpy.random.default_rng(len(name) + sum(map(ord, name)))
        self.folder, _, self.pb, stubs = messages()
        self.channel = grpc.insecure_channel(endpoint(d))
        self.call = stubs.StreamStub(self.channel).Run(self.say())
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def signal(self, first, n):
        t = (first + numpy.arange(n)) / RATE
        uv = self.rng.normal(0, 12, (len(LABELS), n)) + 15 * numpy.sin(2 * numpy.pi * 9.5 * t)
        if self.seizure.is_set():  # it grows as fast as a background learns: the alarm stays on however long a test takes
            self.onset_s = min(self.onset_s, t[0])
            uv += 260 * 2 ** ((t[0] - self.onset_s) / 240) * numpy.sign(numpy.sin(2 * numpy.pi * 5 * t)) * (1 + 0.2 * self.rng.normal(0, 1, (len(LABELS), 1)))
        if self.flat:
            uv[1] = 0
        return uv.astype("<f4")

    def chunk(self, first, n):
        uv = self.signal(first, n)
        self.sent.append(uv)
        return self.pb.ClientMessage(chunk=self.pb.Chunk(first_sample=first, samples=n, data=uv.tobytes()))

    def say(self):
        yield self.pb.ClientMessage(open=self.pb.Open(model=self.model, channels=LABELS, rate_hz=RATE, format=self.pb.SAMPLE_FORMAT_F32_UV, client_name=self.name,
                                                      realtime=True, threshold_on=0.6, threshold_off=0.2, alarm_hop_s=1))
        at = 0
        while at < self.burst_s * RATE:
            yield self.chunk(at, RATE)
            at += RATE
        begun, sent = time.monotonic(), at
        while not self.over.is_set():
            if not self.quiet.is_set():
                yield self.chunk(at, CHUNK)
            at += CHUNK
            self.over.wait(max(0, begun + (at - sent) / RATE - time.monotonic()))

    def listen(self):
        try:
            for message in self.call:
                if message.HasField("alarm") and message.alarm.on and not self.alarm.is_set():
                    self.alarm_at = time.time()
                    self.alarm.set()
        except grpc.RpcError as error:
            self.error = error

    def close(self):
        self.over.set()
        self.call.cancel()
        self.thread.join()
        self.channel.close()
        self.folder.cleanup()
