#!/usr/bin/env python3
"""The burst engine against a simulator written from the description of a tick alone (docs/burst.md), in numpy, with integers and
float32 where the description says so. Networks are written here, as safetensors by hand. Fired (tick, id) pairs and membranes must be
the same, to the bit."""
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from seed import test_seed  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BRR_BUILD_DIR") or "build")
DRIVER = BUILD / "tests" / "burst_driver"
NAMES = {"f4": "F32", "u2": "U16", "u1": "U8", "u4": "U32"}
f32 = np.float32


def write_network(path, arrays, areas, kind="burst-network", seed=0):
    """safetensors: a length, a JSON header, the arrays one after another."""
    header, blob = {"__metadata__": {"brr.kind": kind, "brr.areas": json.dumps(areas)}}, b""
    if seed:
        header["__metadata__"]["brr.seed"] = str(seed)
    for name, array in arrays.items():
        data = array.tobytes()
        header[name] = {"dtype": NAMES[array.dtype.str[1:]], "shape": list(array.shape), "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + blob)


def half_to_even(x):
    return int(np.rint(np.float64(x)))


def philox(key, counter):
    """Philox4x32-10 (Salmon et al. 2011): four words."""
    k, c = [key & 0xFFFFFFFF, key >> 32], list(counter)
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & 0xFFFFFFFF, p >> 32 ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def poisson(mean, word):
    """The count whose chance interval of [0, 1) a word of 32 bits falls into; at most 64."""
    p = less = math.exp(-mean)
    for events in range(64):
        if word < round(less * 2**32):
            return events
        p *= mean / (events + 1)
        less += p
    return 64


class Simulator:
    """One neuron at a time, one synapse at a time."""

    def __init__(self, arrays, areas, every_tick, seed=0):
        def of(name, default):
            given = arrays.get("neuron." + name)
            return given if given is not None else np.full(self.n, default[0], default[1])

        self.n = len(arrays["neuron.threshold"])
        self.threshold = arrays["neuron.threshold"]
        self.v = of("v", (0, "<f4")).copy()
        self.window = of("threshold_limit", (0, "<f4"))
        self.leak = of("leak", (0, "<f4"))
        self.excitability = of("excitability", (1, "<f4"))
        self.refractory, self.limit, self.snooze = (of(k, (0, "<u2")).astype(int) for k in ("refractory", "fire_limit", "snooze"))
        self.accumulate, self.area = of("accumulate", (1, "<u1")), of("area", (0, "<u4"))
        self.areas, self.every_tick = areas, every_tick
        self.current, self.current_leak, self.gain = (of(k, (0, "<f4")).copy() for k in ("current", "current_leak", "current_gain"))
        self.seed = seed
        self.countdown, self.count = [0] * self.n, [0] * self.n
        self.rows = [[] for _ in range(self.n)]
        delays = arrays.get("synapse.delay", np.ones(len(arrays["synapse.src"]), int))
        for src, dst, w, p, t, d in zip(*(arrays["synapse." + k] for k in ("src", "dst", "weight", "psp", "type")), delays):
            self.rows[int(src)].append((int(dst), -int(w) if t else int(w), int(p), int(d)))
        self.range = 30 if delays.max() > 1 else 31
        self.arriving = {}  # by tick: sums by neuron
        self.bits = self.fraction_bits()
        self.tick, self.fired = 0, []  # (id, membrane when it fired)
        self.power = {}
        for i, area in enumerate(areas):
            members = np.flatnonzero(self.area == i)
            if area.get("power") and len(members):
                self.power[int(members[0])] = area["power"]

    def flag(self, neuron, name):
        return bool(self.areas[int(self.area[neuron])].get(name))

    def fraction_bits(self):
        sums = [0] * self.n
        for src, row in enumerate(self.rows):
            for dst, w, p, _ in row:
                sums[dst] += abs(w) * (255 if self.flag(src, "mp_driven_psp") else p)
        for bits in range(20, -1, -1):
            if max(sums) << bits < 1 << self.range:
                return bits
        return 0

    def units(self, potential):
        return half_to_even(np.float64(f32(potential)) * (1 << self.bits))

    def deliver(self):
        for src, x in self.fired:
            row = self.rows[src]
            for dst, w, p, d in row:
                if self.flag(src, "mp_driven_psp"):
                    p = half_to_even(min(max(float(x), 0.0), 255.0))
                c = w * p << self.bits
                if self.flag(src, "psp_divide") and len(row) > 1:
                    q, r = divmod(c, len(row))
                    c = q + (2 * r > len(row) or (2 * r == len(row) and q % 2 == 1))
                sums = self.arriving.setdefault(self.tick - 1 + d, {})
                sums[dst] = sums.get(dst, 0) + c

    def lucky(self, i):
        e = self.excitability[i]
        if e >= f32(0.999):
            return True
        if e <= 0:
            return False
        m = 0xFFFFFFFF
        seed = (i * 2654435761 + (self.tick & m) * 1597334677) & m
        s = (seed * 747796405 + 2891336453) & m
        word = (((s >> ((s >> 28) + 4)) ^ s) * 277803737) & m
        h = (word >> 22) ^ word
        return f32(h) / f32(4294967296.0) < e

    def drive(self, i):
        """What the area gives to each of its neurons, in units; None where it gives nothing."""
        area = self.areas[int(self.area[i])]
        event = self.units(area.get("poisson_potential", 0)) if area.get("poisson") else 0
        constant = self.units(area.get("constant", 0))
        if not constant and not event:
            return None
        return constant + event * poisson(area.get("poisson", 0), philox(self.seed, [i // 4, 0, self.tick, 905])[i % 4])

    def advance(self, i, total):
        given = f32(np.int64(total)) * f32(2.0**-self.bits)
        if self.gain[i]:
            now = self.current[i]
            self.current[i] = now * (f32(1) - self.current_leak[i]) + given
            given = now * self.gain[i]
        limited = self.limit[i] not in (0, 65535)
        if self.countdown[i] > 0:
            self.countdown[i] -= 1
            if self.countdown[i] == 0 and limited and self.count[i] >= self.limit[i]:
                self.count[i] = 0
            return False
        x = self.v[i] + given
        self.v[i] = x
        if x >= self.threshold[i] and (self.window[i] <= 0 or x <= self.window[i]):
            if limited and self.count[i] >= self.limit[i]:
                self.count[i] = 0
                return False
            if self.lucky(i):
                self.v[i] = 0
                self.count[i] += 1
                self.countdown[i] = int(self.refractory[i])
                if limited and self.count[i] >= self.limit[i]:
                    self.countdown[i] = min(65535, self.countdown[i] + int(self.snooze[i]))
                self.now.append((i, x))
                return True
        if limited:
            self.count[i] = 0
        self.v[i] = x * (f32(1) - self.leak[i])
        return False

    def step(self, injections):
        self.tick += 1
        self.deliver()
        sums = self.arriving.pop(self.tick, {})
        for neuron, potential in list(injections) + list(self.power.items()):
            sums[neuron] = sums.get(neuron, 0) + self.units(potential)
        for i in range(self.n):
            given = self.drive(i)
            if given is not None or self.gain[i]:
                sums[i] = sums.get(i, 0) + (given or 0)
        self.v[self.accumulate == 0] = 0
        self.now = []
        for i in range(self.n) if self.every_tick else sorted(sums):
            self.advance(i, sums.get(i, 0))
        self.fired = self.now
        return [(self.tick, i) for i, _ in self.now]


def draw_network(rng, n, fan_out, delays=1, currents=False):
    """Every feature at once; some arrays left out, as a writer may."""
    s = n * fan_out
    arrays = {
        "synapse.type": (rng.random(s) < 0.35).astype("<u1"),
        "neuron.threshold": rng.uniform(20, 400, n).astype("<f4"),
        "synapse.dst": rng.integers(0, n, s).astype("<u4"),
        "synapse.src": rng.integers(0, n, s).astype("<u4"),
        "synapse.weight": rng.integers(0, 256, s).astype("<u1"),
        "synapse.psp": rng.integers(0, rng.choice([2, 256]), s).astype("<u1"),
        "neuron.v": rng.uniform(-50, 50, n).astype("<f4"),
        "neuron.threshold_limit": np.where(rng.random(n) < 0.2, rng.uniform(300, 5000, n), 0).astype("<f4"),
        "neuron.leak": rng.choice([0, 0.1, 0.37, 1], n).astype("<f4"),
        "neuron.excitability": np.where(rng.random(n) < 0.5, 1, rng.random(n)).astype("<f4"),
        "neuron.refractory": rng.integers(0, 4, n).astype("<u2"),
        "neuron.fire_limit": rng.choice([0, 1, 2, 3, 65535], n).astype("<u2"),
        "neuron.snooze": rng.integers(0, 4, n).astype("<u2"),
        "neuron.accumulate": (rng.random(n) < 0.8).astype("<u1"),
        "neuron.area": rng.integers(0, 4, n).astype("<u4"),
    }
    for name in [k for k in arrays if k.startswith("neuron.") and k not in ("neuron.threshold", "neuron.area")]:
        if rng.random() < 0.25:
            del arrays[name]
    if delays > 1:
        arrays["synapse.delay"] = rng.integers(1, delays + 1, s).astype("<u1")
    areas = [
        {"name": "a", "psp_divide": False, "mp_driven_psp": False, "power": 700.5},
        {"name": "b", "psp_divide": True, "mp_driven_psp": False},
        {"name": "c", "psp_divide": False, "mp_driven_psp": True, "geometry": {"size": [4, 4, 4]}},
        {"name": "d", "psp_divide": True, "mp_driven_psp": True, "power": -0.3},
    ]
    if currents:
        arrays["neuron.current"] = rng.uniform(-20, 20, n).astype("<f4")
        arrays["neuron.current_leak"] = rng.choice([0, 0.18, 0.5, 1], n).astype("<f4")
        arrays["neuron.current_gain"] = np.where(rng.random(n) < 0.7, rng.uniform(-0.05, 0.2, n), 0).astype("<f4")
        areas[0].update(constant=-1.3)
        areas[1].update(poisson=1.28, poisson_potential=40.25)
        areas[3].update(poisson=15.5, poisson_potential=-2.2, constant=7)
    return arrays, areas


def draw_injections(rng, n, ticks):
    rows = []
    for tick in range(1, ticks + 1):
        for _ in range(int(rng.integers(0, 1 + n // 10))):
            potential = float(rng.choice([0.0, 0.3, -7.125, 33.3, 250.0, 1000.0]) * rng.choice([1, 1, rng.random()]))
            rows.append((tick, int(rng.integers(0, n)), float("%.6g" % potential)))
    rng.shuffle(rows)
    return [(int(t), int(i), p) for t, i, p in rows]


def compare(folder, seed, n, fan_out, ticks, every_tick, delays, currents):
    rng = np.random.default_rng(seed)
    arrays, areas = draw_network(rng, n, fan_out, delays, currents)
    events = seed << 30 if currents else 0
    injections = draw_injections(rng, n, ticks)
    network, table, fired, membranes = (folder / k for k in ("net.safetensors", "in.tsv", "fired.npy", "v.f32"))
    write_network(network, arrays, areas, seed=events)
    table.write_text("tick\tid\tpotential\n" + "".join(f"{t}\t{i}\t{p:.6g}\n" for t, i, p in injections))
    run = subprocess.run([DRIVER, network, str(ticks), table, fired, membranes] + ["every_tick"] * every_tick, capture_output=True, text=True)
    if run.returncode:
        return f"the driver failed: {run.stderr}", 0
    got = np.load(fired)
    simulator = Simulator(arrays, areas, every_tick, events)
    by_tick = {}
    for t, i, p in injections:
        by_tick.setdefault(t, []).append((i, p))
    expected = []
    for tick in range(1, ticks + 1):
        expected += simulator.step(by_tick.get(tick, []))
    expected = np.array(expected, np.int64).reshape(-1, 2)
    if got.dtype != np.int64 or got.shape != expected.shape or (got != expected).any():
        same = min(len(got), len(expected))
        where = next((k for k in range(same) if (got[k] != expected[k]).any()), same)
        return f"fired pairs differ from pair {where} on: {got[where:where + 3].tolist()}, expected {expected[where:where + 3].tolist()}", 0
    v = np.fromfile(membranes, "<f4")
    if (v.view("<u4") != simulator.v.view("<u4")).any():
        k = int(np.flatnonzero(v.view("<u4") != simulator.v.view("<u4"))[0])
        return f"membrane {k} is {v[k]!r}, expected {simulator.v[k]!r}", 0
    print(f"ok     seed {seed}: {n} neurons, {fan_out * n} synapses, {ticks} ticks, f = {simulator.bits}: {len(expected)} spikes the same")
    return None, len(expected)


def refused(folder, what, arrays, areas, words, kind="burst-network", cut=None, raw=None):
    """A bad file, and what the message must say."""
    path, table = folder / "bad.safetensors", folder / "none.tsv"
    table.write_text("tick\tid\tpotential\n")
    if raw is None:
        write_network(path, arrays, areas, kind)
        raw = path.read_bytes()[:cut]
    path.write_bytes(raw)
    run = subprocess.run([DRIVER, path, "1", table, folder / "x.npy", folder / "x.f32"], capture_output=True, text=True)
    good = run.returncode == 1 and all(w in run.stderr for w in words) and not (folder / "x.npy").exists()
    print(f"{'ok' if good else 'FAILED':6} {what}: {run.stderr.strip()}")
    return 0 if good else 1


def check_refusals(folder):
    def net(**changes):
        arrays = {
            "neuron.threshold": np.ones(5, "<f4"),
            "synapse.src": np.zeros(3, "<u4"),
            "synapse.dst": np.zeros(3, "<u4"),
            "synapse.weight": np.ones(3, "<u1"),
            "synapse.psp": np.ones(3, "<u1"),
            "synapse.type": np.zeros(3, "<u1"),
        }
        for name, array in changes.items():
            arrays[name.replace("__", ".")] = array
        return {k: a for k, a in arrays.items() if a is not None}

    one = [{"name": "all"}]
    bad = 0
    bad += refused(folder, "a target that is not there", net(synapse__dst=np.array([0, 5, 1], "<u4")), one, ["synapse.dst[1] is 5"])
    bad += refused(folder, "a source that is not there", net(synapse__src=np.array([0, 1, 2**32 - 1], "<u4")), one, ["synapse.src[2] is 4294967295"])
    bad += refused(folder, "a threshold that is no number", net(neuron__threshold=np.array([1, 1, np.nan, 1, 1], "<f4")), one, ["neuron.threshold[2] is nan"])
    bad += refused(folder, "an endless membrane", net(neuron__v=np.array([1, np.inf, 1, 1, 1], "<f4")), one, ["neuron.v[1] is inf"])
    bad += refused(folder, "a leak above 1", net(neuron__leak=np.full(5, 1.5, "<f4")), one, ["neuron.leak[0] is 1.5"])
    bad += refused(folder, "a type of 2", net(synapse__type=np.array([0, 2, 0], "<u1")), one, ["synapse.type[1] is 2"])
    bad += refused(folder, "a delay of no tick", net(synapse__delay=np.array([1, 255, 0], "<u1")), one, ["synapse.delay[2] is 0", "1 to 255 ticks"])
    bad += refused(folder, "currents without gains", net(neuron__current_leak=np.ones(5, "<f4")), one, ["neuron.current_gain is missing"])
    bad += refused(folder, "a gain that makes membranes endless", net(neuron__current_gain=np.full(5, 1e38, "<f4")), one, ["neuron.current_gain[0] is 1e+38", "2^20"])
    bad += refused(folder, "an endless current", net(neuron__current_gain=np.ones(5, "<f4"), neuron__current=np.full(5, 1e38, "<f4")), one,
                   ["neuron.current[0] is 1e+38", "2^80"])
    bad += refused(folder, "too many events", net(), [{"name": "a", "poisson": 17}], ["brr.areas[0].poisson is 17", "0 to 16"])
    bad += refused(folder, "arrays of two lengths", net(synapse__psp=np.ones(4, "<u1")), one, ["synapse.psp has 4", "expected 3"])
    bad += refused(folder, "a missing array", net(synapse__psp=None), one, ["synapse.psp is missing"])
    bad += refused(folder, "no thresholds", net(neuron__threshold=None), one, ["neuron.threshold is missing"])
    bad += refused(folder, "another type of number", net(neuron__refractory=np.zeros(5, "<u1")), one, ["neuron.refractory has dtype U8", "U16"])
    bad += refused(folder, "an array nobody knows", net(neuron__colour=np.zeros(5, "<u1")), one, ["'neuron.colour' is unknown"])
    bad += refused(folder, "an area that is not there", net(neuron__area=np.array([0, 0, 0, 0, 1], "<u4")), one, ["neuron.area[4] is 1"])
    bad += refused(folder, "areas without a list", net(), {"name": "all"}, ["brr.areas must be a list"])
    bad += refused(folder, "an area with a flag nobody knows", net(), [{"name": "a", "psp": 1}], ["brr.areas[0] has 'psp'"])
    bad += refused(folder, "another kind of file", net(), one, ["brr.kind is 'model'"], kind="model")
    bad += refused(folder, "a truncated file", net(), one, ["truncated"], cut=-2)
    claim = {"__metadata__": {"brr.kind": "burst-network", "brr.areas": json.dumps(one)},
             "neuron.threshold": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
             "synapse.src": {"dtype": "U32", "shape": [2**31], "data_offsets": [16, 16 + 2**33]}}
    text = json.dumps(claim).encode()
    bad += refused(folder, "2^31 synapses claimed in 1 kB", None, None, ["synapse.src", "truncated"],
                   raw=struct.pack("<Q", len(text)) + text + bytes(512))
    claim["synapse.src"] = {"dtype": "U32", "shape": [2**62, 8], "data_offsets": [16, 528]}
    text = json.dumps(claim).encode()
    bad += refused(folder, "a size that overflows", None, None, ["synapse.src"], raw=struct.pack("<Q", len(text)) + text + bytes(528))
    return bad


def main():
    base, failed, all_spikes = test_seed(), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cases = [(40, 6, 200, False, 1), (300, 20, 120, False, 1), (300, 20, 60, True, 1), (1000, 30, 40, False, 1), (7, 40, 300, False, 1),
                 (1, 1, 50, False, 1), (300, 20, 120, False, 7), (40, 6, 600, False, 255), (200, 20, 80, True, 60), (100, 20, 150, False, 30, True)]
        for k, (n, fan_out, ticks, every_tick, delays, *currents) in enumerate(cases):
            problem, spikes = compare(folder, base + k, n, fan_out, ticks, every_tick, delays, bool(currents))
            all_spikes += spikes
            if problem:
                print(f"FAILED seed {base + k}, {n} neurons: {problem}")
                failed += 1
        if not failed and all_spikes < 1000:  # a network may be quiet, not all of them
            print(f"FAILED seed {base}: {all_spikes} spikes in all are too few to show anything")
            failed += 1
        failed += check_refusals(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
