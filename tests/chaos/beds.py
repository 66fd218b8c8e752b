"""A bed of the ward's day: a recorder that writes EDF into a pipe, and the client of brrd-bed@.service behind it, which is started again when it
ends. What happens at the bed is drawn from a seed, and kept in Day.draw: (what, bed, begin, end) by the monotonic clock."""
import contextlib
import os
import random
import subprocess
import threading
import time

import numpy
from daemon import BIN
from page_beds import LABELS, RATE
from relay import Relay

BURST_S, RECORD_S, AGAIN_S = 36, 0.5, 2  # no alarm comes from less than 30 s of signal; a client is started again after AGAIN_S
PAUSE_S = (6, 20)  # between what happens at a bed: more often than not another alarm (judge.REJOIN_S)
MOVE_AFTER_S = 3  # a client goes to the other daemon
PER_RECORD = int(RATE * RECORD_S)


def header():
    """Of a recording without end, in units of 0.1 µV."""
    n = len(LABELS)
    fields = [("EEG " + name, 16) for name in LABELS]
    for text, width in (("", 80), ("uV", 8), ("-3276.8", 8), ("3276.7", 8), ("-32768", 8), ("32767", 8), ("", 80), (str(PER_RECORD), 8), ("", 32)):
        fields += [(text, width)] * n
    head = [("0", 8), ("X X X X", 80), ("Startdate X X X X", 80), (time.strftime("%d.%m.%y"), 8), (time.strftime("%H.%M.%S"), 8), (str(256 * (n + 1)), 8),
            ("", 44), ("-1", 8), (str(RECORD_S), 8), (str(n), 4)]
    return "".join(text.ljust(width) for text, width in head + fields).encode()


def blocks(seed):
    """Records of a quiet bed, of a seizure, and with the electrodes off, by name."""
    rng, t = numpy.random.default_rng(seed), numpy.arange(PER_RECORD) / RATE
    quiet = rng.normal(0, 12, (len(LABELS), PER_RECORD))
    loud = 260 * numpy.sign(numpy.sin(2 * numpy.pi * 4 * t)) * (1 + 0.2 * rng.normal(0, 1, (len(LABELS), 1)))
    return {name: (10 * uv).astype("<i2").tobytes() for name, uv in (("quiet", quiet), ("seizure", quiet + loud), ("electrodes", 0 * quiet))}


class Bed:
    def __init__(self, day, name, seed):
        self.day, self.name, self.rng = day, name, random.Random(f"{day.o.seed} {name}")
        self.signal, self.blocks, self.relays = "quiet", blocks(seed), [Relay(day.tmp, d.tcp, seed) for d in day.daemons]
        self.cable, self.over, self.process = threading.Event(), threading.Event(), None
        self.learned_at = 0.0  # from when on the model knows this client's patient
        self.held = threading.Lock()  # by what happens at the bed, one at a time
        self.cable.set()
        for target in (self.keep, self.record, self.live):
            day.thread(target)

    def keep(self):
        """The client, as its unit keeps it."""
        env = {**os.environ, "BRR_ENDPOINT": ",".join(r.endpoint for r in self.relays), "BRR_TLS_CA": f"{self.day.d.ca}/ca.crt", "BRR_TOKEN_FILE": self.day.d.token_file("ward")}
        words = ["stream", "-", "--live", "--model", "line_length", "--on", "0.6", "--off", "0.2", "--alarm-hop", "1", "--client", self.name, "--move-after", str(MOVE_AFTER_S)]
        with open(f"{self.day.tmp}/{self.name}.log", "ab") as log:
            while not self.over.is_set():
                self.process = subprocess.Popen([f"{BIN}/brrctl", *words], env=env, stdin=subprocess.PIPE, stdout=log, stderr=log)
                if self.over.is_set():  # nobody records for it, nor ends its input
                    self.process.kill()
                self.process.wait()
                self.learned_at = time.monotonic() + AGAIN_S + BURST_S
                if not self.over.wait(AGAIN_S) and self.process.returncode != -9:
                    self.day.lose("a bed's client ended", f"{self.name}: {self.process.returncode}")

    def record(self):
        """In real time, but for the first BURST_S, which were recorded before."""
        while not self.process and not self.over.wait(0.05):
            continue  # on a busy machine the client would miss what it learns the patient from
        behind, at, sent_to = BURST_S, time.monotonic(), None
        while not self.over.wait(0 if behind > 0 else max(0, at - time.monotonic())):
            behind, at = behind - RECORD_S, at if behind > 0 else max(at, time.monotonic() - RECORD_S) + RECORD_S
            process = self.process
            if process and self.cable.is_set():
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write((b"" if sent_to is process else header()) + self.blocks[self.signal])
                    process.stdin.flush()
                sent_to = process
        if self.process:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    # ---- what happens at a bed ----

    def seizure(self):
        self.show("seizure", self.rng.uniform(10, 30))

    def electrodes(self):
        self.show("electrodes", self.rng.uniform(10, 50))

    def storm(self):
        for _ in range(self.rng.randrange(2, 6)):
            self.show("seizure", 4)
            self.day.over.wait(4)

    def show(self, signal, seconds):
        if not self.day.over.is_set():
            self.signal = signal
            self.day.over.wait(seconds)
            self.signal = "quiet"

    def cable_out(self):
        self.cable.clear()
        self.day.over.wait(self.rng.uniform(5, self.day.o.longest))
        self.cable.set()

    def network(self):
        end = self.day.delays.begin("connection")
        for relay in self.relays:
            relay.hold()
        self.day.over.wait(self.rng.uniform(1, self.day.o.longest))
        self.plug()
        end()

    def plug(self):
        for relay in self.relays:
            relay.release()

    def client_killed(self):
        self.process.kill()

    def live(self):
        what = [self.seizure] * 5 + [self.storm, self.electrodes, self.cable_out, self.network, self.client_killed]
        self.day.over.wait(self.rng.uniform(5, 12))
        while not self.day.over.is_set():
            act = self.rng.choice(what)
            with self.held, self.day.drawn(act.__name__, self.name):
                act()
            self.day.over.wait(self.rng.uniform(*PAUSE_S))

    def close(self):
        """Its input ends, and with it its client and its stream: what was recorded is heard first. From then on the bed has no stream."""
        with self.day.lock:
            self.day.draw.append(["closed", self.name, time.monotonic(), float("inf")])
        self.over.set()
