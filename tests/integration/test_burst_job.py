#!/usr/bin/env python3
"""Jobs of kind burst: the fired neurons of an independent simulator, the same bytes after kill -9, what is said of wrong files, cancel."""
import glob
import json
import os
import pathlib
import struct
import subprocess
import sys
import time
import urllib.request

import numpy as np

from daemon import BIN, SOURCE, Daemon, make_corpus, temporary, until

sys.path.insert(0, f"{SOURCE}/tests/golden")
sys.path.insert(0, f"{SOURCE}/tests")
from seed import test_seed  # noqa: E402
from test_burst_golden import Simulator, draw_injections, draw_network, write_network  # noqa: E402

DRIVER = os.path.join(BIN, "..", "tests", "task_driver")
CONFIG = f"{SOURCE}/configs/burst.yaml"
LONG = ["network.generate=random", "network.neurons=4000", "network.inhibitory=0.5", "network.delays=[1, 9]", "output.membranes_every=997", "output.ledger=700", "checkpoint.every=1s"]
FILES = ("fired.npy", "rates.tsv", "membranes.npy", "ledger.npy")


def drive(directory, *sets):
    return subprocess.run([DRIVER, CONFIG, directory, f"{directory}.cache", *sets], capture_output=True, text=True)


def content(directory):
    return {name: pathlib.Path(directory, name).read_bytes() for name in FILES}


def check_example(d):
    """configs/burst.yaml as it is: no file needed, and something fires in each layer."""
    code, end, err = d.submit(file=CONFIG)
    assert code == 0 and end["state"] == "succeeded" and end["kind"] == "burst", (end, err)
    result = end["result"]
    fired = np.load(result["files"]["fired"])
    assert fired.dtype == np.int64 and fired.shape == (result["fired"], 2) and result["ticks"] == 10000, (fired.shape, result)
    assert [a["name"] for a in result["areas"]] == [f"layer-{k}" for k in range(1, 6)] and all(a["fired"] for a in result["areas"]), result
    assert (np.lexsort((fired[:, 1], fired[:, 0])) == np.arange(len(fired))).all(), "sorted by tick and id"
    assert abs(result["mean_rate"] - result["fired"] / result["neurons"] / result["ticks"]) < 1e-12 and result["ticks_per_s"] > 0, result
    rates = pathlib.Path(result["files"]["rates"]).read_text(encoding="utf-8").splitlines()
    assert rates[0].split("\t") == ["tick", *(a["name"] for a in result["areas"])] and len(rates) == 1001, rates[:2]
    in_first = np.array([float(row.split("\t")[1]) for row in rates[1:]])
    assert abs(in_first.sum() * 10 * 200 - (fired[:, 1] < 200).sum()) < 1, "rates are spikes per neuron and tick"
    metrics = urllib.request.urlopen(f"http://127.0.0.1:{d.port}/metrics").read().decode()
    assert 'brrd_burst_ticks_total{device="cpu"} 10000\n' in metrics, [x for x in metrics.splitlines() if "burst" in x]
    code, out, err = d.ctl("validate", CONFIG, "--json")
    answer = json.loads(out)
    code, out, err = d.ctl("validate", CONFIG, "--json", "--set", "output.ledger=10000")
    more = json.loads(out)
    assert more["memory_bytes"] == answer["memory_bytes"] + 4 * (10000 + 2**25) and "host memory" in more["facts"]["ledger"], (more, answer)
    assert code == 0 and answer["facts"]["neurons"] == "1000" and answer["memory_bytes"] > 4 * int(answer["facts"]["synapses"]) and answer["steps"] == 10000, (answer, err)


def check_simulator(d, tmp, seed):
    """A network of every feature, from a file that numpy wrote; fired neurons as a table."""
    rng = np.random.default_rng(seed)
    ticks, folder = 150, pathlib.Path(tmp)
    arrays, areas = draw_network(rng, 200, 15, 12)
    injections = draw_injections(rng, 200, ticks)
    write_network(folder / "net.safetensors", arrays, areas)
    (folder / "in.tsv").write_text("tick\tid\tpotential\n" + "".join(f"{t}\t{i}\t{p:.6g}\n" for t, i, p in injections) + f"{ticks + 9}\t0\t1\n")
    simulator, expected = Simulator(arrays, areas, False), []
    for tick in range(1, ticks + 1):
        expected += simulator.step([(i, p) for t, i, p in injections if t == tick])
    sets = [f"network.file={folder}/net.safetensors", f"input.file={folder}/in.tsv", "input.random=0", f"ticks={ticks}", f"output.membranes_every={ticks}"]
    code, end, err = d.submit(*sets, "output.fired=tsv", file=CONFIG)
    assert code == 0, (end, err)
    assert f"1 of {len(injections) + 1} injections are for ticks after the last one ({ticks})" in d.ctl("logs", end["job"])[1]
    lines = pathlib.Path(end["result"]["files"]["fired"]).read_text(encoding="utf-8").splitlines()
    assert lines[0] == "tick\tid" and [tuple(map(int, x.split("\t"))) for x in lines[1:]] == expected and len(expected) > ticks, lines[:3]
    v = np.load(end["result"]["files"]["membranes"])
    assert v.shape == (1, 200) and (v[0].view("<u4") == simulator.v.view("<u4")).all()


def checkpoints(directory):
    return set(glob.glob(f"{directory}/**/checkpoints/tick-*.safetensors", recursive=True))


def killed_in_mid_run(tmp, d, whole, sets, *more):
    """Kills the daemon once a job of these sets has a checkpoint. Returns the job, its folder, and the files of an undisturbed run: of twice the ticks
    each time that a busy machine was later than the job's end. sets[-1] is "ticks=N"."""
    seen = checkpoints(d.dir)
    for _ in range(6):
        code, end, err = d.submit(*sets, *more, watch=False, file=CONFIG)
        assert code == 0, err
        found = until(lambda: checkpoints(d.dir) - seen, "no checkpoint")  # noqa: B023
        d.kill()
        directory = os.path.dirname(os.path.dirname(found.pop()))
        if not os.path.exists(f"{directory}/fired.npy"):
            return end["job"], directory, whole
        seen = checkpoints(d.dir)
        sets[-1] = f"ticks={2 * int(sets[-1].split('=')[1])}"
        longer = f"{tmp}/{sets[-1]}"
        run = drive(longer, *sets)
        assert run.returncode == 0, run.stderr
        whole = content(longer)
        d.start()
    raise AssertionError("each job was over before it was killed")


def check_kill(tmp, d, whole, sets):
    """SIGKILL of the daemon whenever a new checkpoint is there; the job ends with the bytes of a run that nobody disturbed."""
    job, directory, whole = killed_in_mid_run(tmp, d, whole, sets)
    seen = checkpoints(directory)
    d.start()
    until(lambda: checkpoints(directory) - seen or os.path.exists(f"{directory}/fired.npy"), "no other checkpoint")
    d.kill()
    d.start()
    job = d.wait(job, lambda j: j["state"] in ("succeeded", "failed"))
    assert job["state"] == "succeeded" and job["restarts"] + job["crashes"] >= 1, job
    assert os.path.dirname(job["result"]["files"]["fired"]) == directory, job
    assert content(directory) == whole, "killed and resumed, the files differ"
    assert not glob.glob(f"{directory}/*.part")
    assert "resuming from" in d.ctl("logs", job["job"])[1]


def check_devices(tmp, whole, sets):
    """Shared by two devices, by four, and by three until a SIGKILL, after which one goes on: the bytes of one device."""
    d = Daemon(f"{tmp}/several", ["devices=[cpu:0, cpu:1, cpu:2, cpu:3]", "devices_cpu_threads=1"]).start()
    short = ["network.generate=layered", "input.random=0.01", "output.membranes_every=499", "output.ledger=9", "ticks=1000"]
    one = drive(f"{tmp}/short", *short)
    assert one.returncode == 0, one.stderr
    several, alone = (json.loads(d.ctl("validate", CONFIG, "--json", "--set", f"devices={n}", "--set", "network.synapses=200")[1]) for n in (3, 1))
    assert "sharing does not pay" in several["facts"]["devices"] and several["facts"]["synapses"] == alone["facts"]["synapses"] == "160000", (several, alone)
    assert several["memory_bytes"] < alone["memory_bytes"] / 2 and several["seconds_per_step"] > 0, (several, alone)
    for n in (2, 4):
        code, end, err = d.submit(*short, f"devices={n}", file=CONFIG)
        assert code == 0, (end, err)
        assert content(os.path.dirname(end["result"]["files"]["fired"])) == content(f"{tmp}/short")
        assert end["result"]["exchange"] == "host memory" and f"{n} devices exchange who fired by way of host memory" in d.ctl("logs", end["job"])[1], end
    _, directory, whole = killed_in_mid_run(tmp, d, whole, sets, "devices=3")
    rest = drive(directory, *sets)
    assert rest.returncode == 0 and "resuming from" in rest.stderr, rest.stderr
    assert content(directory) == whole, "by three devices and one, the files differ"


def check_stop(tmp, whole, sets):
    """The same by a checkpoint in mid-run; a checkpoint of another network is left alone."""
    cut = drive(f"{tmp}/cut", *sets, "stop_after=5000")
    assert cut.returncode == 0 and not os.path.exists(f"{tmp}/cut/fired.npy"), cut.stderr
    rest = drive(f"{tmp}/cut", *sets)
    assert rest.returncode == 0 and "resuming from" in rest.stderr, rest.stderr
    assert content(f"{tmp}/cut") == whole
    other = drive(f"{tmp}/cut", *sets, "network.seed=2", "ticks=50")
    assert other.returncode == 0 and "belongs to another network" in other.stderr and "resuming from" not in other.stderr, other.stderr


def check_waking(tmp):
    """A network that wakes up in the middle of a slice, whose random input is drawn already: the slice ends early, and a job that
    is stopped there goes on with the same input. (A machine that is fast enough has ended by then.)"""
    with open(f"{tmp}/wake.tsv", "w", encoding="ascii") as f:
        f.write("tick\tid\tpotential\n")
        f.writelines(f"{tick}\t{7 * i}\t1000\n" for tick in range(3000, 3010) for i in range(10000))
    sets = ["network.generate=random", "network.neurons=70000", "input.random=0.001", "input.potential=300", f"input.file={tmp}/wake.tsv", "ticks=3100", "output.membranes_every=3100", "output.ledger=90"]
    run = drive(f"{tmp}/awake", *sets)
    assert run.returncode == 0, run.stderr
    cut = drive(f"{tmp}/woken", *sets, "stop_after=3000")
    assert cut.returncode == 0, cut.stderr
    rest = drive(f"{tmp}/woken", *sets)
    assert rest.returncode == 0, rest.stderr
    assert content(f"{tmp}/woken") == content(f"{tmp}/awake")


def check_no_output(tmp):
    run = drive(f"{tmp}/none", "ticks=100", "output.fired=none", "output.rates_every=0")
    assert run.returncode == 0, run.stderr
    result = json.loads([x for x in run.stdout.splitlines() if x.startswith("result ")][-1].removeprefix("result "))
    assert result["files"] == {} and result["fired"] > 0 and os.listdir(f"{tmp}/none") == [], (result, os.listdir(f"{tmp}/none"))


def level_crossings(rows, delta, samples_per_tick):
    """(tick, neuron) → crossings, of float16 rows (samples, channels) in one segment."""
    level, delta, found = rows[0].astype("<f4").copy(), np.float32(delta), {}
    for at, row in enumerate(rows.astype("<f4")):
        for c, x in enumerate(row):
            while x >= level[c] + delta:
                level[c] += delta
                found[at // samples_per_tick + 1, 2 * c] = found.get((at // samples_per_tick + 1, 2 * c), 0) + 1
            while x <= level[c] - delta:
                level[c] -= delta
                found[at // samples_per_tick + 1, 2 * c + 1] = found.get((at // samples_per_tick + 1, 2 * c + 1), 0) + 1
    return found


def cached_rows(path):
    """The samples of a window cache file with one segment."""
    data = pathlib.Path(path).read_bytes()
    assert data[:16] == data[-16:] == b"brr recording 1\n"
    at, size = struct.unpack_from("<QQ", data, len(data) - 32)
    index = json.loads(data[at:at + size])
    channels = index["channels"]
    first, end = index["segments"]
    n = end - first
    return np.frombuffer(data, "<f2", n * channels, 64).reshape(n, channels)


def check_recording(d, tmp):
    """EEG as input: neurons without synapses fire exactly at the level crossings of the filtered samples."""
    make_corpus(f"{tmp}/eeg", seed=5, patients=1, hours=0.05)
    recording = glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True)[0]
    arrays = {"neuron.threshold": np.full(38, 5, "<f4")}
    write_network(pathlib.Path(tmp, "bare.safetensors"), arrays, [{"name": "all"}])
    sets = [f"network.file={tmp}/bare.safetensors", f"input.recording={recording}", "input.random=0", "input.potential=5"]
    code, end, err = d.submit(*sets, "ticks=2000", "input.samples_per_tick=4", "input.delta_uv=15", file=CONFIG)
    assert code == 0, (end, err)
    (cache,) = [p for p in glob.glob(f"{d.dir}/cache/windows/**", recursive=True) if os.path.isfile(p) and os.path.getsize(p) > 100000]
    expected = sorted(key for key in level_crossings(cached_rows(cache)[:8000], 15, 4))
    assert [tuple(row) for row in np.load(end["result"]["files"]["fired"])] == expected and len(expected) > 2000
    write_network(pathlib.Path(tmp, "few.safetensors"), {"neuron.threshold": np.full(30, 5, "<f4")}, [{"name": "all"}])
    assert "neurons 0 to 37; the network has 30" in refused(d, *sets, f"network.file={tmp}/few.safetensors")
    assert "input.notch_hz" in refused(d, *sets, "input.notch_hz=55")
    assert "few.safetensors" in refused(d, *sets, f"input.recording={tmp}/few.safetensors")


def refused(d, *sets):
    code, end, err = d.submit(*sets, file=CONFIG)
    assert code != 0, end
    return json.dumps(end) + err


def check_refusals(d, tmp):
    folder = pathlib.Path(tmp)
    arrays = {"neuron.threshold": np.ones(5, "<f4"), "synapse.src": np.zeros(3, "<u4"), "synapse.dst": np.array([0, 9, 1], "<u4"),
              "synapse.weight": np.ones(3, "<u1"), "synapse.psp": np.ones(3, "<u1"), "synapse.type": np.zeros(3, "<u1")}
    write_network(folder / "bad.safetensors", arrays, [{"name": "all"}])
    bad = f"network.file={folder}/bad.safetensors"
    assert "bad.safetensors: synapse.dst[1] is 9" in refused(d, bad)
    assert "synapse.dst[1] is 9" in "".join(d.ctl("validate", CONFIG, "--set", bad)[1:]), "validate says it before"
    (folder / "bad.tsv").write_text("tick\tid\tpotential\n1\t0\t5\n2\tx\t5\n")
    assert "bad.tsv:3" in refused(d, f"input.file={folder}/bad.tsv")
    (folder / "far.tsv").write_text("tick\tid\tpotential\n1\t0\t5\n2\t1000\t5\n")
    assert "far.tsv:3: neuron 1000; expected 0 to 999" in refused(d, f"input.file={folder}/far.tsv")
    assert "network.synapses" in refused(d, "network.neurons=10")
    for error in (refused(d, "network.neurons=100000000"), d.ctl("validate", CONFIG, "--set", "network.neurons=100000000")[2]):
        assert "network.neurons (100000000) with network.synapses (100) each are 1e+10 synapses" in error, error
    assert "network.layers is 5;" in refused(d, "network.generate=layered", "network.neurons=4", "network.synapses=1")
    assert "network.weights" in refused(d, "network.weights=[5]")
    assert "not a file that the daemon can read" in refused(d, f"network.file={folder}/none.safetensors")
    code, out, err = d.ctl("validate", CONFIG, "--json", "--set", "network.neurons=4000000000", "--set", "network.synapses=1")
    assert code == 1 and json.loads(out)["memory_bytes"] > 1e11 and json.loads(out)["fits"] is False, (out, err)


def check_cancel(d):
    code, job, err = d.submit("ticks=1000000000000", watch=False, file=CONFIG)
    assert code == 0, err
    d.wait(job["job"], lambda j: j["state"] == "running" and j["step"] > 0)
    assert d.ctl("cancel", job["job"])[0] == 0
    assert d.wait(job["job"], lambda j: j["state"] != "running")["state"] == "cancelled"


def main():
    seed = test_seed()
    with temporary() as tmp:
        sets = [*LONG, "ticks=40000"]
        begun, used = time.time(), os.times()
        run = drive(f"{tmp}/whole", *sets)
        used = [after - before for before, after in zip(used, os.times())]
        took = min(time.time() - begun, used[2] + used[3])  # of a busy machine the time is no measure, but the processor's
        assert run.returncode == 0, run.stderr
        several = [*LONG, f"ticks={int(40000 * max(1, 2.5 / took))}"]  # more than a second on three devices, too
        run = drive(f"{tmp}/one", *several)
        assert run.returncode == 0, run.stderr
        check_devices(tmp, content(f"{tmp}/one"), several)
        sets[-1] = f"ticks={int(40000 * max(1, 5 / took))}"  # some seconds, so that checkpoints fall into it
        run = drive(f"{tmp}/long", *sets)
        assert run.returncode == 0, run.stderr
        whole = content(f"{tmp}/long")
        fired, ledger = (np.load(f"{tmp}/long/{k}.npy") for k in ("fired", "ledger"))
        assert len(ledger) and (ledger == fired[fired[:, 0] > int(sets[-1].split("=")[1]) - 700]).all(), "the spikes of the newest 700 ticks"
        check_stop(tmp, whole, sets)
        check_no_output(tmp)
        check_waking(tmp)
        d = Daemon(f"{tmp}/daemon").start()
        check_example(d)
        check_simulator(d, tmp, seed)
        check_recording(d, tmp)
        check_refusals(d, tmp)
        check_cancel(d)
        check_kill(tmp, d, whole, sets)
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
