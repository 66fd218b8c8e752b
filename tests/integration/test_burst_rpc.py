#!/usr/bin/env python3
"""The Burst calls with Debian's grpcio: networks side by side against an independent simulator, injections, changes, observers that read
and one that does not, snapshots, budgets, hostile files, clients that die, jobs beside them."""
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.request

import grpc
import numpy as np

from daemon import PATIENCE, SOURCE, Daemon, make_corpus, temporary
from stock import Stock
from stream_fixture import trace, train

sys.path.insert(0, f"{SOURCE}/tests/golden")
sys.path.insert(0, f"{SOURCE}/tests")
from seed import test_seed  # noqa: E402
from test_burst_golden import Simulator, draw_injections, draw_network, write_network  # noqa: E402

STEP_FOREVER = """
import sys
sys.path[:0] = [{tests!r}, {protos!r}]
import grpc
from brr.v1 import burst_pb2, burst_pb2_grpc
stub = burst_pb2_grpc.BurstStub(grpc.insecure_channel({endpoint!r}))
for _ in stub.Observe(burst_pb2.ObserveNetworkRequest(name="victim")):
    break
print("observing", flush=True)
stub.Step(burst_pb2.StepRequest(name="victim", ticks=10**12))
"""


class Client:
    """The calls as plain functions."""

    def __init__(self, stock):
        self.pb, self.stub, self.stock = stock.burst, stock.Burst, stock

    def parts(self, message, data, part=1 << 20, **header):
        yield message(bytes=len(data), **header)
        for at in range(0, len(data), part):
            yield message(part=data[at:at + part])

    def create(self, name, data, **header):
        return self.stub.Create(self.parts(self.pb.CreateNetworkRequest, data, name=name, **header), timeout=PATIENCE)

    def restore(self, name, data):
        return self.stub.Restore(self.parts(self.pb.RestoreNetworkRequest, data, name=name), timeout=PATIENCE)

    def inject(self, name, rows):
        ticks, ids, potentials = ([row[k] for row in rows] for k in range(3))
        return self.stub.Inject(self.pb.InjectRequest(name=name, tick=ticks, id=ids, potential=potentials), timeout=PATIENCE)

    def step(self, name, ticks):
        """(tick, id) pairs of exactly so many ticks."""
        pairs = []
        while ticks:
            answer = self.stub.Step(self.pb.StepRequest(name=name, ticks=ticks, want_fired=True), timeout=PATIENCE)
            got = [(f.tick, i) for f in answer.frames for i in f.ids]
            assert len(got) == answer.fired and answer.ticks > 0 and not any(f.more for f in answer.frames)
            pairs += got
            ticks -= answer.ticks
        return pairs

    def snapshot(self, name):
        parts = list(self.stub.Snapshot(self.pb.SnapshotRequest(name=name), timeout=PATIENCE))
        data = b"".join(p.part for p in parts)
        assert parts[0].bytes == len(data) and all(len(p.part) <= 1 << 20 for p in parts)
        return data, parts[0].tick

    def list(self):
        return {n.name: n for n in self.stub.List(self.pb.ListNetworksRequest(), timeout=PATIENCE).networks}

    def destroy(self, name):
        self.stub.Destroy(self.pb.DestroyNetworkRequest(name=name), timeout=PATIENCE)

    def refused(self, call, *args, **more):
        _, code, text = self.stock.refused(lambda: call(*args, **more))
        return f"{code}: {text}"


def network_file(tmp, arrays, areas=None, **more):
    path = pathlib.Path(tmp, "net.safetensors")
    write_network(path, arrays, areas or [{"name": "all"}], **more)
    return path.read_bytes()


def ring(n, weight=10, threshold=10):
    ids = np.arange(n, dtype="<u4")
    return {"neuron.threshold": np.full(n, threshold, "<f4"), "synapse.src": ids, "synapse.dst": np.roll(ids, -1),
            "synapse.weight": np.full(n, weight, "<u1"), "synapse.psp": np.ones(n, "<u1"), "synapse.type": np.zeros(n, "<u1")}


def check_two_networks(c, tmp, seed):
    """Side by side, step by step in turns, injections while they run: both as the simulator has them. Then changes."""
    rng, ticks, runs = np.random.default_rng(seed), 120, []
    for k, every_tick in enumerate((False, True)):
        arrays, areas = draw_network(rng, 150, 12, 5)
        made = c.create(f"two-{k}", network_file(tmp, arrays, areas), every_tick=every_tick)
        assert (made.neurons, made.tick, list(made.areas), made.every_tick) == (150, 0, ["a", "b", "c", "d"], every_tick), made
        assert 0 < made.bytes <= made.budget_bytes, made
        runs.append((f"two-{k}", Simulator(arrays, areas, every_tick), draw_injections(rng, 150, ticks)))
    for first in range(1, ticks + 1, 20):
        for name, simulator, injections in runs:
            rows = [r for r in injections if first <= r[0] < first + 20]
            c.inject(name, rows)
            got, expected = c.step(name, 20), []
            for tick in range(first, first + 20):
                expected += simulator.step([(i, p) for t, i, p in rows if t == tick])
            assert got == expected, (name, first, got[:3], expected[:3])
    name, simulator, _ = runs[0]
    sources = [s for s in range(150) if simulator.area[s] in (0, 2) and simulator.rows[s]]  # psp_divide counts synapses as they were built
    s, t = sources[0], sources[1]
    (dst, w, *_), (cut, *_) = simulator.rows[s][0], simulator.rows[t][0]
    patch = c.pb.PatchRequest(name=name, neurons=[c.pb.NeuronChange(id=7, field="threshold", value=1), c.pb.NeuronChange(id=3, field="leak", value=0.5)],
                              synapses=[c.pb.SynapseChange(source=s, target=dst, weight=0, psp=-1, type=-1),
                                        c.pb.SynapseChange(source=t, target=cut, remove=True)])
    assert c.stub.Patch(patch, timeout=PATIENCE).changes == 4
    simulator.threshold[7], simulator.leak = 1, simulator.leak.copy()
    simulator.leak[3] = 0.5
    simulator.rows[s] = [(d, 0 if d == dst else weight, *rest) for d, weight, *rest in simulator.rows[s]]
    simulator.rows[t] = [row for row in simulator.rows[t] if row[0] != cut]
    rows = [(ticks + 1 + k, int(i), 250.0) for k in range(30) for i in rng.integers(0, 150, 8)]
    c.inject(name, rows)
    expected = []
    for tick in range(ticks + 1, ticks + 31):
        expected += simulator.step([(i, p) for at, i, p in rows if at == tick])
    assert c.step(name, 30) == expected and expected, "after the changes"
    assert "synapses[1]: no synapse leads" in c.refused(c.stub.Patch, c.pb.PatchRequest(
        name=name, neurons=[c.pb.NeuronChange(id=1, field="leak", value=0)], synapses=[
            c.pb.SynapseChange(source=s, target=dst, weight=-1, psp=-1, type=-1), c.pb.SynapseChange(source=t, target=cut, remove=True)]))
    assert "neurons[0]: a neuron has no 'colour'" in c.refused(c.stub.Patch, c.pb.PatchRequest(name=name, neurons=[c.pb.NeuronChange(field="colour")]))
    assert "areas[1]: area 2 is changed by areas[0] already" in c.refused(c.stub.Patch, c.pb.PatchRequest(
        name=name, areas=[c.pb.AreaChange(index=2), c.pb.AreaChange(index=2)]))
    for name, _, _ in runs:
        c.destroy(name)


def check_injections(c, tmp):
    c.create("ring", network_file(tmp, ring(5)))
    answer = c.stub.Inject(c.pb.InjectRequest(name="ring", id=[2], potential=[50]), timeout=PATIENCE)  # no tick: the next one
    assert (answer.pending, answer.tick) == (1, 0), answer
    assert c.step("ring", 4) == [(1, 2), (2, 3), (3, 4), (4, 0)]
    assert "OUT_OF_RANGE" in c.refused(c.inject, "ring", [(9, 0, 1.0), (4, 0, 1.0)])
    assert "injection 0 is for neuron 5" in c.refused(c.inject, "ring", [(9, 5, 1.0)])
    assert "tick[0] is 0" in c.refused(c.inject, "ring", [(0, 1, 1.0)])
    assert "1 ticks, 2 ids" in c.refused(c.stub.Inject, c.pb.InjectRequest(name="ring", tick=[9], id=[1, 2], potential=[1, 1]))
    assert "NOT_FOUND" in c.refused(c.inject, "gone", [(9, 1, 1.0)]) and "NOT_FOUND: there is no network 'gone'; `brrctl burst list` shows them" in c.refused(c.step, "gone", 1)
    assert "Step.ticks" in c.refused(c.stub.Step, c.pb.StepRequest(name="ring", ticks=0))
    assert c.list()["ring"].pending == 0 and c.list()["ring"].tick == 4 and c.list()["ring"].fired_total == 4
    c.destroy("ring")


def check_observer(c, tmp):
    """Frames as they come, and the end of the call when the network ends."""
    c.create("seen", network_file(tmp, ring(70000, threshold=1)))
    call, frames = c.stub.Observe(c.pb.ObserveNetworkRequest(name="seen")), []
    assert next(call).tick == 0 and c.list()["seen"].observers == 1
    reader = threading.Thread(target=lambda: frames.extend(call), daemon=True)
    reader.start()
    everyone = list(range(70000))
    c.inject("seen", [(2, i, 5.0) for i in everyone])
    fired = c.step("seen", 6)
    c.destroy("seen")
    reader.join(PATIENCE)
    assert not reader.is_alive(), "the call did not end with its network"
    seen = {}
    for message in frames:
        assert message.missed == 0
        for f in message.frames:
            assert len(f.ids) <= 65536
            seen.setdefault(f.tick, []).extend(f.ids)
    assert sorted(seen) == [1, 2, 3, 4, 5, 6] and seen[1] == [] and seen[2] == everyone, {t: len(i) for t, i in seen.items()}
    assert [(t, i) for t in sorted(seen) for i in seen[t]] == fired


def resident_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def check_sleeping_observer(c, d, tmp):
    """An observer that does not read: the network runs to its end, memory stays bounded, and what was lost is counted."""
    c.create("loud", network_file(tmp, ring(5000, threshold=1)))
    call = c.stub.Observe(c.pb.ObserveNetworkRequest(name="loud"))
    assert next(call).tick == 0
    few = c.stub.Observe(c.pb.ObserveNetworkRequest(name="loud", queue_frames=3))
    next(few)
    c.inject("loud", [(1, i, 5.0) for i in range(5000)])
    c.step("loud", 50)
    before, ticks = resident_kib(d.process.pid), 20000  # 20 kB a frame: 400 MB in all
    answer = c.stub.Step(c.pb.StepRequest(name="loud", ticks=ticks), timeout=PATIENCE)
    assert answer.ticks == ticks and answer.fired == 5000 * ticks and answer.tick == ticks + 50, answer
    grown = resident_kib(d.process.pid) - before
    assert grown < 128 * 1024, f"{grown} KiB more for an observer that does not read"
    c.destroy("loud")
    for observer in (call, few):
        got, last, missed = 0, 0, 0
        for message in observer:
            missed = message.missed
            for f in message.frames:
                assert f.tick > last, "in order"
                got, last = got + 1, f.tick
        assert missed > 0 and got + missed == ticks + 50 and last == ticks + 50, (got, missed, last)
    metrics = urllib.request.urlopen(f"http://127.0.0.1:{d.port}/metrics").read().decode()
    assert float(re.search(r"^brrd_burst_frames_missed_total (\S+)", metrics, re.M)[1]) > 0
    assert float(re.search(r"^brrd_burst_network_spikes_total\{device=\"cpu\"\} (\S+)", metrics, re.M)[1]) >= 5000 * ticks
    assert float(re.search(r"^brrd_burst_ticks_total\{device=\"cpu\"\} (\S+)", metrics, re.M)[1]) >= ticks


def check_snapshots(c, tmp, seed):
    rng = np.random.default_rng(seed + 1)
    arrays, areas = draw_network(rng, 400, 20)
    c.create("first", network_file(tmp, arrays, areas))
    drive = [(t, int(i), 300.0) for t in range(1, 101) for i in rng.integers(0, 400, 10)]
    c.inject("first", drive)
    c.step("first", 50)
    taken, tick = c.snapshot("first")
    assert tick == 50
    c.stub.Patch(c.pb.PatchRequest(name="first", neurons=[c.pb.NeuronChange(id=i, field="threshold", value=1e9) for i in range(400)]), timeout=PATIENCE)
    silent = c.step("first", 50)
    back = c.restore("first", taken)
    assert (back.tick, back.name) == (50, "first"), back
    again = c.step("first", 50)
    copy = c.create("second", taken)
    assert copy.tick == 50 and copy.pending == sum(t > 50 for t, _, _ in drive), copy
    assert c.step("second", 50) == again and len(again) > 50 and silent != again
    assert c.snapshot("first")[0] == c.snapshot("second")[0], "equal states are equal files"
    bad = taken.replace(b'"brr.tick":"50"', b'"brr.tick":"5x"')
    assert bad != taken and "brr.tick" in c.refused(c.restore, "first", bad)
    assert c.list()["first"].tick == 100, "after an error it is unchanged"
    assert "NOT_FOUND" in c.refused(c.restore, "gone", taken) and "ALREADY_EXISTS" in c.refused(c.create, "first", taken)
    c.destroy("first")
    c.destroy("second")


def check_budgets(c, d, tmp):
    data = network_file(tmp, ring(50000))
    text = c.refused(c.create, "small", data, budget_bytes=1 << 20)
    assert "RESOURCE_EXHAUSTED" in text and "budget" in text, text
    assert "limits.network_memory" in c.refused(c.create, "greedy", data, budget_bytes=1 << 40)
    many = [(9, 0, 1.0)] * 100000
    made = c.create("tight", data, budget_bytes=c.create("probe", data).bytes + 65536)
    text = c.refused(c.inject, "tight", many)
    assert "RESOURCE_EXHAUSTED" in text and "step it first" in text, (made, text)
    c.inject("tight", many[:100])
    for i in range(2, 5):
        c.create("", data)
    assert {"net-1", "net-2", "net-3"} <= set(c.list()), "names are picked"
    assert "limits.networks" in c.refused(c.create, "more", data)
    assert "'R' is not a valid network name; expected 1 to 63 of a-z, 0-9 and -" in c.refused(c.create, "R", data)
    for name in c.list():
        c.destroy(name)
    assert not c.list()
    c.create("big", network_file(tmp, ring(300000)))
    assert "limits.networks_memory" in c.refused(c.create, "big2", network_file(tmp, ring(300000)))
    c.destroy("big")


def check_hostile(c, d, tmp):
    good = network_file(tmp, ring(5))

    def refused(data, **header):
        return c.refused(c.create, "bad", data, **header)

    arrays = ring(5)
    arrays["synapse.dst"] = np.array([0, 1, 9, 3, 4], "<u4")
    assert "synapse.dst[2] is 9" in refused(network_file(tmp, arrays))
    arrays = ring(5)
    arrays["neuron.threshold"] = np.array([1, np.nan, 1, 1, 1], "<f4")
    text = refused(network_file(tmp, arrays))
    assert "neuron.threshold[1] is nan" in text and "the network file" in text and "/proc" not in text, text
    claim = {"__metadata__": {"brr.kind": "burst-network", "brr.areas": "[{}]"}, "neuron.threshold": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
             "synapse.src": {"dtype": "U32", "shape": [2**31], "data_offsets": [16, 16 + 2**33]}}
    header = json.dumps(claim).encode()
    assert "truncated" in refused(len(header).to_bytes(8, "little") + header + bytes(512))
    for data, word in ((b"x", "the network file"), (good[:-2], "truncated"), (network_file(tmp, ring(5), kind="model"), "brr.kind is 'model'")):
        assert word in refused(data), (word, refused(data))
    Request = c.pb.CreateNetworkRequest
    for messages, word in (([Request(name="bad", bytes=1 << 50)], "budget"), ([Request(name="bad", bytes=10), Request(part=good)], "larger than the 10 bytes"),
                           ([Request(name="bad", bytes=len(good)), Request(part=good[:50])], "ended after 50 of"),
                           ([Request(name="bad", bytes=-5)], "bytes is -5"), ([], "first message"), ([Request(part=good)], "bytes is 0"),
                           ([Request(name="../x", bytes=10)], "'../x' is not a valid"), ([Request(name="bad", bytes=1 << 22), Request(part=bytes((1 << 20) + 1))], "a part of"),
                           ([Request(name="bad", bytes=10, max_pending=-1)], "max_pending")):
        assert word in c.refused(c.stub.Create, iter(messages)), word
    assert c.create("fine", good).neurons == 5 and list(c.list()) == ["fine"]
    c.destroy("fine")
    assert not os.listdir(f"{d.dir}/cache/networks"), "nothing of an upload stays"


def check_dead_client(c, d, tmp, protos):
    """A client that is killed in a Step and an Observe: its Step ends, others go on."""
    c.create("victim", network_file(tmp, ring(1000)))
    program = STEP_FOREVER.format(tests=f"{SOURCE}/tests/integration", protos=protos, endpoint=f"unix:{d.socket}")
    p = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"observing\n"
    while c.list()["victim"].tick == 0:
        time.sleep(0.02)
    c.inject("victim", [])  # acts between two slices of the long Step
    p.kill()
    p.wait()
    assert c.stub.Step(c.pb.StepRequest(name="victim", ticks=3), timeout=PATIENCE).ticks == 3, "the Step of the dead client does not hold the network"
    while c.list()["victim"].observers:
        time.sleep(0.02)
    late = c.refused(c.stub.Step, c.pb.StepRequest(name="victim", ticks=10**12), timeout=1)
    assert "DEADLINE_EXCEEDED" in late, late
    assert c.stub.Step(c.pb.StepRequest(name="victim", ticks=1), timeout=PATIENCE).ticks == 1
    c.destroy("victim")


def check_beside_a_job(c, d, tmp):
    """A job that never ends and a network take turns."""
    code, job, err = d.submit("ticks=1000000000000", watch=False, file=f"{SOURCE}/configs/burst.yaml")
    assert code == 0, err
    d.wait(job["job"], lambda j: j["state"] == "running" and j["step"] > 0)
    c.create("beside", network_file(tmp, ring(100)))
    c.inject("beside", [(1, 0, 50.0)])
    assert c.step("beside", 2000) == [(t, (t - 1) % 100) for t in range(1, 2001)]
    step = d.job(job["job"])["step"]
    d.wait(job["job"], lambda j: j["step"] > step)
    assert d.ctl("cancel", job["job"])[0] == 0
    d.wait(job["job"], lambda j: j["state"] == "cancelled")
    c.destroy("beside")


def check_beside_a_stream(c, d, tmp):
    """Streams come first: their results are the same while networks tick without end, and the networks still tick."""
    make_corpus(f"{tmp}/eeg", seed=21, patients=2, hours=0.04)
    model = train(d, f"{tmp}/eeg")
    recording = sorted(glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True))[0]
    alone = trace(d, recording, model)
    calls = []
    for name in ("left", "right"):
        c.create(name, network_file(tmp, ring(3000, threshold=1)))
        c.inject(name, [(1, i, 5.0) for i in range(3000)])
        calls.append(c.stub.Step.future(c.pb.StepRequest(name=name, ticks=10**12)))
    before = {name: n.tick for name, n in c.list().items()}
    beside = trace(d, recording, model)
    after = {name: n.tick for name, n in c.list().items()}
    assert beside[0] == alone[0] and np.array_equal(beside[1], alone[1], equal_nan=True)
    assert all(after[name] > before[name] for name in ("left", "right")), (before, after)
    for call in calls:
        call.cancel()
    for name in ("left", "right"):
        c.destroy(name)


def check_stop(c, d, tmp):
    """SIGTERM in mid-step: the call ends, the daemon stops; networks do not survive it."""
    c.create("last", network_file(tmp, ring(10)))
    ended = []
    step = threading.Thread(target=lambda: ended.append(c.refused(c.stub.Step, c.pb.StepRequest(name="last", ticks=10**12))), daemon=True)
    step.start()
    while c.list()["last"].tick == 0:
        time.sleep(0.02)
    assert d.stop() == 0
    step.join(PATIENCE)
    assert ended, "the Step outlived the daemon"


def main():
    seed = test_seed()
    with temporary() as tmp:
        d = Daemon(f"{tmp}/d", ["limits.networks=5", "limits.network_memory=32MiB", "limits.networks_memory=32MiB"]).start()
        c = Client(Stock(f"unix:{d.socket}", f"{tmp}/protos"))
        check_two_networks(c, tmp, seed)
        check_injections(c, tmp)
        check_observer(c, tmp)
        check_sleeping_observer(c, d, tmp)
        check_snapshots(c, tmp, seed)
        check_budgets(c, d, tmp)
        check_hostile(c, d, tmp)
        check_dead_client(c, d, tmp, f"{tmp}/protos")
        check_beside_a_job(c, d, tmp)
        check_beside_a_stream(c, d, tmp)
        check_stop(c, d, tmp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
