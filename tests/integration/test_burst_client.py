#!/usr/bin/env python3
"""brrctl burst, libbrr and the examples: networks drawn and described without a daemon, and run in one, where their spikes are those of
a simulator written from the description of a tick alone."""
import ctypes
import hashlib
import importlib.util
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

from daemon import BIN, PATIENCE, SOURCE, Daemon, sanitizers, temporary

sys.path[:0] = [f"{SOURCE}/tests/golden", f"{SOURCE}/tests"]
from seed import test_seed  # noqa: E402
from test_burst_golden import Simulator, draw_injections, draw_network, write_network  # noqa: E402

DTYPES = {"F32": "<f4", "U32": "<u4", "U16": "<u2", "U8": "<u1", "U64": "<u8"}
SEED = test_seed()


def ctl(*args, code=0):
    r = subprocess.run([f"{BIN}/brrctl", "burst", *map(str, args)], capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == code, (args, r)
    return r.stdout, r.stderr


def read_network(path):
    """The arrays of a safetensors file, and its metadata."""
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + size])
    meta = header.pop("__metadata__")
    return {k: np.frombuffer(data[8 + size:][slice(*e["data_offsets"])], DTYPES[e["dtype"]]) for k, e in header.items()}, meta


def check_undriven(d):
    path = f"{d.dir}/still.safetensors"
    ctl("generate", "random", "--neurons", 90, "--synapses", 7, "--out", path)
    code, _, err = d.ctl("burst", "run", path, "--ticks", "5")
    assert code == 1 and "nothing drives this network" in err and "--inject" in err, err


def check_generate(folder):
    path = f"{folder}/net.safetensors"
    for kind, options, areas in (("random", (), 1), ("ring", (), 1), ("layered", ("--layers", 3), 3)):
        options = ("--neurons", 90, "--synapses", 7, "--weights", "3-9", "--inhibitory", 0.4, *options)
        seeded = (*options, "--seed", SEED)
        told = json.loads(ctl("generate", kind, *seeded, "--out", path, "--json")[0])
        with open(path, "rb") as f:
            data = f.read()
        assert told["sha256"] == hashlib.sha256(data).hexdigest() and told["bytes"] == len(data), told
        ctl("generate", kind, *seeded, "--out", path + ".again")
        with open(path + ".again", "rb") as f:
            assert f.read() == data, "the same seed draws the same file"
        ctl("generate", kind, *options, "--seed", SEED + 1, "--out", path + ".other")
        with open(path + ".other", "rb") as f:
            assert f.read() != data, "another seed draws another one"
        arrays, meta = read_network(path)
        src, dst = arrays["synapse.src"], arrays["synapse.dst"]
        assert meta["brr.kind"] == "burst-network" and len(json.loads(meta["brr.areas"])) == areas, meta
        senders = 60 if kind == "layered" else 90
        assert (np.bincount(src, minlength=90)[:senders] == 7).all() and len(src) == told["synapses"] == senders * 7
        assert set(arrays["synapse.weight"]) <= set(range(3, 10))
        if kind == "ring":
            assert (np.sort(dst.reshape(90, 7), 1) == np.sort((np.arange(90)[:, None] + np.arange(1, 8)) % 90, 1)).all()
        if kind == "layered":
            assert (arrays["neuron.area"][dst] == arrays["neuron.area"][src] + 1).all()


def check_info(folder):
    """What `info` says is what numpy counts, also in a network of both signs that another program wrote."""
    rng = np.random.default_rng(SEED)
    n, s = 50, 400
    arrays = {"neuron.threshold": np.full(n, 5, "<f4"), "neuron.area": rng.integers(0, 2, n).astype("<u4"), "synapse.src": rng.integers(0, n - 3, s).astype("<u4"),
              "synapse.dst": rng.integers(2, n, s).astype("<u4"), "synapse.weight": rng.integers(1, 256, s).astype("<u1"),
              "synapse.psp": rng.integers(1, 256, s).astype("<u1"), "synapse.type": rng.integers(0, 2, s).astype("<u1")}
    header, at = {"__metadata__": {"brr.kind": "burst-network", "brr.areas": json.dumps([{"name": "in", "power": 2.5}, {"name": "out", "psp_divide": True}])}}, 0
    for k, a in arrays.items():
        header[k] = {"dtype": next(d for d, t in DTYPES.items() if t == a.dtype.str.replace("|", "<")), "shape": a.shape, "data_offsets": [at, at := at + a.nbytes]}
    text = json.dumps(header).encode()
    path = f"{folder}/mixed.safetensors"
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in arrays.values()))
    got = json.loads(ctl("info", path, "--json")[0])
    fan_out, fan_in = (np.bincount(arrays[f"synapse.{k}"], minlength=n) for k in ("src", "dst"))
    for name, counts in (("fan_out", fan_out), ("fan_in", fan_in)):
        want = {"min": counts.min(), "median": np.sort(counts)[n // 2], "mean": s / n, "max": counts.max(), "none": (counts == 0).sum()}
        assert got[name] == want, (name, got[name], want)
    signs = [set(arrays["synapse.type"][arrays["synapse.src"] == i]) for i in range(n)]
    assert got["mixed_sign_neurons"] == sum(len(x) == 2 for x in signs) and got["inhibitory"] == arrays["synapse.type"].sum() and got["excitatory"] + got["inhibitory"] == s
    bound = np.bincount(arrays["synapse.dst"], arrays["synapse.weight"].astype(float) * arrays["synapse.psp"], n).max()
    assert got["fraction_bits"] == max(f for f in range(21) if bound * 2**f < 2**31) and got["sum_bits"] == 32 and got["synapse_bytes"] == 8, got
    assert [(a["name"], a["neurons"], a["psp_divide"], a["power"]) for a in got["areas"]] == [("in", (arrays["neuron.area"] == 0).sum(), False, 2.5),
                                                                                           ("out", (arrays["neuron.area"] == 1).sum(), True, 0)], got["areas"]
    assert got["bytes"] == os.path.getsize(path) and not got["snapshot"]
    late = f"{folder}/late.safetensors"
    ctl("generate", "ring", "--neurons", 90, "--synapses", 7, "--delays", "2-20", "--seed", SEED, "--out", late)
    delays = read_network(late)[0]["synapse.delay"]
    assert len(set(delays)) == 19 and delays.min() == 2 and json.loads(ctl("info", late, "--json")[0])["longest_delay"] == delays.max() == 20
    assert "up to 20 ticks" in ctl("info", late)[0] and got["longest_delay"] == 1
    shown = ctl("info", path)[0]
    assert f"{s}: " in shown and "psp_divide" in shown and "power 2.5" in shown, shown


def check_errors(folder):
    for args, code, words in ((("generat", "ring"), 2, "did you mean generate"), (("info",), 2, "needs FILE"), (("info", "a", "b"), 2, "'b'"),
                              (("generate", "rnd", "--out", "x"), 2, "expected random"), (("generate", "ring"), 2, "--out"),
                              (("generate", "ring", "--layers", 3, "--out", "x"), 2, "no layers"), (("info", "x", "--neurons", 3), 2, "no option '--neurons'"),
                              (("generate", "ring", "--weights", "5-900", "--out", "x"), 2, "0-255"), (("generate", "ring", "--delays", "0-2", "--out", "x"), 1, "1 to 255"),
                              (("generate", "column", "--neurons", 9, "--out", "x"), 2, "--scale and --seed alone"), (("generate", "ring", "--scale", 0.5, "--out", "x"), 2, "column"), (("info", f"{folder}/none"), 3, "none"),
                              (("plot", "x", "y", "--out", "z.gif"), 2, ".svg"), (("plot", f"{folder}/net.safetensors", f"{folder}/none.npy", "--out", f"{folder}/x.svg"), 3, "none.npy"),
                              (("plot", f"{folder}/net.safetensors", f"{folder}/net.safetensors", "--out", f"{folder}/x.svg"), 1, "no .npy file"),
                              (("generate", "random", "--neurons", 10, "--synapses", 11, "--out", f"{folder}/x"), 1, "11 synapses")):
        out, err = ctl(*args, code=code)
        assert words in err and not out and len(err.splitlines()) == 1, (args, err)
    with open(f"{folder}/bad", "wb") as f:
        f.write(b"\x08\0\0\0\0\0\0\0{}      ")
    assert "brr.kind" in ctl("info", f"{folder}/bad", code=1)[1]
    assert not os.path.exists(f"{folder}/x")
    for args in (("info", "--help"), ("--help", "info")):
        text = ctl(*args)[0]
        assert text.startswith("usage: brrctl burst info FILE") and "--neurons" not in text and "snapshot NAME" not in text, text
    assert "generate random|ring|layered|column --out FILE" in ctl("--help")[0]


class Case:
    """A network of every feature that a program other than ours has written, with its injections and its true spikes."""

    def __init__(self, folder, ticks, every_tick=False, seed=SEED):
        rng = np.random.default_rng(seed)
        self.folder, self.ticks = folder, ticks
        self.arrays, self.areas = draw_network(rng, 200, 15)
        self.path, self.table = f"{folder}/case.safetensors", f"{folder}/case.tsv"
        write_network(pathlib.Path(self.path), self.arrays, self.areas)
        # What a decimal text of six digits says, as the table will.
        self.injections = draw_injections(rng, 200, ticks)
        with open(self.table, "w", encoding="ascii") as f:
            f.write("tick\tid\tpotential\n" + "".join(f"{t}\t{i}\t{p:.6g}\n" for t, i, p in self.injections))
        self.spikes = simulate(self.arrays, self.areas, self.injections, ticks, every_tick)
        assert len(self.spikes) > ticks, "too few spikes to show anything"


def simulate(arrays, areas, injections, ticks, every_tick=False):
    simulator, by_tick, spikes = Simulator(arrays, areas, every_tick), {}, []
    for t, i, p in injections:
        by_tick.setdefault(t, []).append((i, p))
    for t in range(1, ticks + 1):
        spikes += simulator.step(by_tick.get(t, []))
    return np.array(spikes, np.int64).reshape(-1, 2)


def same(got, want):
    assert got.dtype == np.int64 and got.shape == want.shape and (got == want).all(), (got[:5], want[:5], got.shape, want.shape)


def pairs_of(text):
    return np.array([[int(x) for x in line.split("\t")] for line in text.splitlines()], np.int64).reshape(-1, 2)


def told(d, *args, code=0):
    got, out, err = d.ctl("burst", *map(str, args), "--json")
    assert got == code, (args, got, out, err)
    return [json.loads(line) for line in out.splitlines()]


def networks(d):
    return {n["name"]: n for n in told(d, "list")}


def check_run(d, case):
    npy, tsv, svg = (f"{d.dir}/run.{k}" for k in ("npy", "tsv", "svg"))
    r = told(d, "run", case.path, "--ticks", case.ticks, "--inject", case.table, "--fired", npy, "--plot", svg)[0]
    same(np.load(npy), case.spikes)
    assert (r["fired"], r["ticks"], r["tick"], r["network"]) == (len(case.spikes), case.ticks, case.ticks, None), r
    with open(svg, encoding="utf-8") as f:
        picture = f.read()
    first, last = (int(t) for t in case.spikes[[0, -1], 0])
    later = told(d, "plot", case.path, npy, "--out", svg)[0]
    assert (later["fired"], later["first_tick"], later["last_tick"]) == (len(case.spikes), first, last), later
    with open(svg, encoding="utf-8") as f:
        marks = [line for line in f.read().splitlines() if "stroke-opacity" in line]
    assert len(marks) == len([line for line in picture.splitlines() if "stroke-opacity" in line]) and sum(m.count("M") for m in marks) == len(case.spikes)
    assert (first, last) != (1, case.ticks) or all(m in picture for m in marks), "the same ticks are drawn the same"
    assert "case.safetensors" in picture and f"{len(case.spikes)} spikes" in picture and "stroke-opacity" in picture
    code, out, err = d.ctl("burst", "run", case.path, "--ticks", str(case.ticks), "--inject", case.table, "--fired", tsv)
    assert code == 0 and f"{len(case.spikes)} spikes" in out and not err, (out, err)
    with open(tsv, encoding="ascii") as f:
        assert f.readline() == "tick\tid\n"
        same(pairs_of(f.read()), case.spikes)
    late = f"{d.dir}/late.tsv"
    with open(late, "w", encoding="ascii") as f:
        f.write("tick\tid\tpotential\n2\t3\t1\n3\t3\t1\n")
    err = d.ctl("burst", "run", case.path, "--ticks", "2", "--inject", late)[2]
    assert err == "brrctl: note: 1 of 2 injections are for ticks after the last one (2)\n", err
    assert not networks(d), "a run leaves no network behind"
    every = Case(d.dir, case.ticks, every_tick=True)
    told(d, "run", every.path, "--ticks", every.ticks, "--inject", every.table, "--fired", npy, "--every-tick")
    same(np.load(npy), every.spikes)


def check_life(d, case):
    """A network that is kept: steps, a snapshot in the middle, and the same spikes from there on by three ways."""
    npy, snap, half = f"{d.dir}/life.npy", f"{d.dir}/snap.safetensors", case.ticks // 2
    rest = case.spikes[case.spikes[:, 0] > half]
    assert told(d, "run", case.path, "--ticks", half, "--inject", case.table, "--fired", npy, "--keep", "kept")[0]["network"] == "kept"
    same(np.load(npy), case.spikes[case.spikes[:, 0] <= half])
    n = networks(d)["kept"]
    assert (n["tick"], n["neurons"], n["synapses"], n["areas"]) == (half, 200, 3000, 4) and n["pending"] > 0 and n["bytes"] > 0, n
    assert told(d, "snapshot", "kept", "--out", snap)[0]["bytes"] == os.path.getsize(snap)
    shown = told(d, "info", snap)[0]
    assert shown["snapshot"] and shown["tick"] == half and shown["pending"] == n["pending"], shown
    r = told(d, "step", "kept", "--ticks", case.ticks - half, "--fired", npy)[0]
    same(np.load(npy), rest)
    assert r["tick"] == case.ticks and r["fired"] == len(rest), r
    told(d, "run", snap, "--ticks", case.ticks - half, "--fired", npy)
    same(np.load(npy), rest)
    assert told(d, "restore", "kept", snap)[0]["tick"] == half and not told(d, "ledger", "kept"), "it begins anew"
    told(d, "step", "kept", "--ticks", case.ticks - half, "--fired", npy)
    same(np.load(npy), rest)
    assert told(d, "destroy", "kept")[0] == {"destroyed": "kept"} and not networks(d)


def check_observe(d, case):
    npy = f"{d.dir}/observed.npy"
    assert told(d, "create", case.path, "--name", "seen")[0]["name"] == "seen"
    assert told(d, "inject", "seen", case.table)[0]["injected"] == len(case.injections)
    command = [f"{BIN}/brrctl", "burst", "observe", "seen", "--json"]
    observers = [subprocess.Popen([*command, *more], env=d.env, stdout=subprocess.PIPE, text=True) for more in (["--ticks", "10", "--fired", npy], [])]
    deadline = time.time() + PATIENCE
    while networks(d)["seen"]["observers"] < 2:
        assert time.time() < deadline
        time.sleep(0.05)
    told(d, "step", "seen", "--ticks", case.ticks)
    first = [json.loads(line) for line in observers[0].communicate(timeout=PATIENCE)[0].splitlines()]
    assert observers[0].returncode == 0 and [f["tick"] for f in first] == list(range(1, 11)) and not first[-1]["missed"], first
    same(np.load(npy), case.spikes[case.spikes[:, 0] <= 10])
    newest = told(d, "ledger", "seen", "--ticks", 7, "--fired", npy)
    assert [f["tick"] for f in newest] == list(range(case.ticks - 6, case.ticks + 1)), newest
    same(np.load(npy), case.spikes[case.spikes[:, 0] > case.ticks - 7])
    assert len(told(d, "ledger", "seen")) == min(case.ticks, 1024)
    told(d, "destroy", "seen")
    frames = [json.loads(line) for line in observers[1].communicate(timeout=PATIENCE)[0].splitlines()]
    assert observers[1].returncode == 0, "an observer ends well with the network"
    assert [f["tick"] for f in frames] == list(range(1, case.ticks + 1))
    same(np.array([(f["tick"], i) for f in frames for i in f["ids"]], np.int64).reshape(-1, 2), case.spikes)


def check_interrupt(d, case):
    files = [f"{d.dir}/half.{k}" for k in ("npy", "svg")]
    child = subprocess.Popen([f"{BIN}/brrctl", "burst", "run", case.path, "--ticks", "1000000000", "--fired", files[0], "--plot", files[1], "--keep", "half"],
                             env=d.env, stderr=subprocess.PIPE, text=True)
    deadline = time.time() + PATIENCE
    while networks(d).get("half", {"tick": 0})["tick"] == 0:
        assert time.time() < deadline and child.poll() is None
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    err = child.communicate(timeout=PATIENCE)[1]
    assert child.returncode == 130 and "interrupted after" in err, (child.returncode, err)
    assert not networks(d) and not [f for f in os.listdir(d.dir) if f.startswith("half")], os.listdir(d.dir)
    told(d, "create", case.path, "--name", "half")
    child = subprocess.Popen([f"{BIN}/brrctl", "burst", "step", "half", "--ticks", "1000000000"], env=d.env, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
    while networks(d)["half"]["tick"] == 0:
        assert time.time() < deadline and child.poll() is None
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    err = child.communicate(timeout=PATIENCE)[1]
    assert child.returncode == 130 and "interrupted after" in err, (child.returncode, err)
    told(d, "destroy", "half")


def check_refusals(d, case):
    bad = f"{d.dir}/bad.tsv"
    with open(bad, "w", encoding="ascii") as f:
        f.write("tick\tid\tpotential\n1\t3\t1\n1\t200\t1\n")
    with open(case.path, "rb") as f, open(f"{d.dir}/cut.safetensors", "wb") as g:
        g.write(f.read()[:-1])
    open(f"{d.dir}/empty.safetensors", "wb").close()
    arrays = {**case.arrays, "synapse.dst": np.full(3000, 200, "<u4")}
    write_network(pathlib.Path(f"{d.dir}/wrong.safetensors"), arrays, case.areas)
    told(d, "create", case.path, "--name", "taken")
    out = f"{d.dir}/never.npy"
    for args, code, words in ((("run", case.path, "--ticks", 5, "--inject", bad, "--fired", out), 1, "bad.tsv:3: neuron 200; expected 0 to 199"), (("run", f"{d.dir}/none", "--ticks", 5), 3, "none"),
                              (("run", f"{d.dir}/cut.safetensors", "--ticks", 5, "--fired", out), 1, "cut.safetensors"),
                              (("create", f"{d.dir}/cut.safetensors"), 1, "truncated"), (("create", f"{d.dir}/empty.safetensors"), 1, "empty.safetensors is empty"),
                              (("run", f"{d.dir}/wrong.safetensors", "--ticks", 5), 1, "synapse.dst[0] is 200"),
                              (("run", case.path, "--ticks", 5, "--keep", "taken"), 1, "taken"), (("run", case.path, "--ticks", 5, "--budget", "1000"), 1, "1000"),
                              (("run", case.path, "--ticks", 5, "--fired", f"{d.dir}/no/x.npy"), 3, "no/x.npy"),
                              (("step", "nobody", "--ticks", 5), 3, "nobody"), (("observe", "nobody"), 3, "nobody"), (("ledger", "nobody"), 3, "nobody"), (("destroy", "nobody"), 3, "nobody"),
                              (("snapshot", "nobody", "--out", out), 3, "nobody"), (("restore", "nobody", case.path), 3, "nobody"),
                              (("inject", "nobody", case.table), 3, "nobody"), (("inject", "taken", bad), 1, "200"), (("run", case.path), 2, "--ticks"),
                              (("run", case.path, "--ticks", 5, "--fired", "x.csv"), 2, ".npy or .tsv"), (("run", case.path, "--ticks", 5, "--plot", "x.gif"), 2, ".svg"),
                              (("run", case.path, "--ticks", 5, "--membranes", "x.tsv"), 2, ".npy"),
                              (("run", case.path, "--ticks", 5, "--budget", "much"), 2, "512MiB"), (("snapshot", "taken"), 2, "--out"),
                              (("step", "taken", "--ticks", 5, "--plot", "x.svg"), 2, "no option '--plot'"),
                              (("list", "--endpoint", f"unix:{d.dir}/none"), 4, "no daemon answers")):
        got, text, err = d.ctl("burst", *map(str, args))
        assert got == code and words in err and not text and len(err.splitlines()) == 1, (args, got, text, err)
    assert list(networks(d)) == ["taken"] and networks(d)["taken"]["pending"] == 0 and not os.path.exists(out)
    told(d, "destroy", "taken")


def check_large(d):
    """A network whose spikes do not come with the answers, in injections of several calls and ticks of several frames: a ring around
    which 150,000 spikes travel, and power begins one more in every tick."""
    path, table, npy = (f"{d.dir}/ring.{k}" for k in ("safetensors", "tsv", "npy"))
    ctl("generate", "ring", "--neurons", 1100000, "--synapses", 1, "--weights", 200, "--threshold", 1, "--leak", 0, "--refractory", 0, "--inhibitory", 0, "--power", 5,
        "--out", path)
    with open(table, "w", encoding="ascii") as f:
        f.write("tick\tid\tpotential\n" + "".join(f"1\t{i}\t5\n" for i in range(200000, 350000)))
    told(d, "run", path, "--ticks", 8, "--inject", table, "--fired", npy)
    same(np.load(npy), np.array([(t, i) for t in range(1, 9) for i in (*range(t), *range(200000 + t - 1, 350000 + t - 1))], np.int64))


def check_slow_observer(d, case):
    """An observer that does not read delays nobody, and what it has lost is a count: frames and lost frames make all ticks."""
    ticks, npy = 40000, f"{d.dir}/slow.npy"
    told(d, "create", case.path, "--name", "slow")
    child = subprocess.Popen([f"{BIN}/brrctl", "burst", "observe", "slow", "--json", "--queue", "16", "--fired", npy], env=d.env, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    deadline = time.time() + PATIENCE
    while networks(d)["slow"]["observers"] < 1:
        assert time.time() < deadline
        time.sleep(0.05)
    child.send_signal(signal.SIGSTOP)
    assert told(d, "step", "slow", "--ticks", ticks)[0]["tick"] == ticks
    child.send_signal(signal.SIGCONT)
    told(d, "destroy", "slow")
    out, err = child.communicate(timeout=PATIENCE)
    seen = [json.loads(line) for line in out.splitlines()]
    missed = int(err.split(": ")[1].split()[0])
    assert child.returncode == 1 and "were missed" in err and missed > 0 and len(seen) + missed == ticks, (child.returncode, err, len(seen))
    numbers = [f["tick"] for f in seen]
    assert numbers == sorted(set(numbers)) and numbers[-1] == ticks, numbers[-5:]


def run_example(command, d, **more):
    r = subprocess.run(command, env=d.env, capture_output=True, text=True, timeout=PATIENCE, **more)
    assert r.returncode == 0 and "0 frames missed" in r.stderr, r
    return pairs_of(r.stdout)


def check_examples(d, case):
    spec = importlib.util.spec_from_file_location("example_burst", f"{SOURCE}/client/examples/burst.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    got = run_example([sys.executable, f"{SOURCE}/client/examples/burst.py", "300", "60"], d)
    want = simulate(example.network(300), [{"name": "all"}], example.injections(300, 60), 60)
    assert len(want) > 600
    same(got, want)
    lines = "".join(f"{t} {i} {p:.6g}\n" for t, i, p in case.injections)
    same(run_example([os.path.join(os.path.dirname(BIN), "examples", "example_burst"), case.path, str(case.ticks)], d, input=lines), case.spikes)
    program = [os.path.join(os.path.dirname(BIN), "examples", "example_burst"), case.path, "1"]
    wrong = subprocess.run(program, env=d.env, input=lines + "7 1\n", capture_output=True, text=True, timeout=PATIENCE)
    assert wrong.returncode == 1 and f"line {lines.count(chr(10)) + 1}: expected" in wrong.stderr, wrong
    assert not networks(d)


class NeuronChange(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("field", ctypes.c_char_p), ("value", ctypes.c_double), ("remove", ctypes.c_int)]


class SynapseChange(ctypes.Structure):
    _fields_ = [("source", ctypes.c_uint32), ("target", ctypes.c_uint32), ("weight", ctypes.c_int), ("psp", ctypes.c_int), ("type", ctypes.c_int), ("remove", ctypes.c_int)]


class AreaChange(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int), ("psp_divide", ctypes.c_int), ("mp_driven_psp", ctypes.c_int), ("power", ctypes.c_double)]


class Changes(ctypes.Structure):
    _fields_ = [("neurons", ctypes.POINTER(NeuronChange)), ("synapses", ctypes.POINTER(SynapseChange)), ("areas", ctypes.POINTER(AreaChange)),
                ("n_neurons", ctypes.c_size_t), ("n_synapses", ctypes.c_size_t), ("n_areas", ctypes.c_size_t)]


class Injection(ctypes.Structure):
    _fields_ = [("tick", ctypes.c_int64), ("id", ctypes.c_uint32), ("potential", ctypes.c_float)]


def check_changes(d):
    """brr_network_patch and brr_network_inject from a program of another language."""
    path, npy = f"{d.dir}/chain.safetensors", f"{d.dir}/chain.npy"
    ctl("generate", "ring", "--neurons", 10, "--synapses", 1, "--weights", 200, "--threshold", 50, "--leak", 0, "--refractory", 0, "--inhibitory", 0, "--out", path)
    told(d, "create", path, "--name", "chain")
    library = ctypes.CDLL(os.path.join(os.path.dirname(BIN), "lib", "libbrr.so"))
    error, client = ctypes.create_string_buffer(4096), ctypes.c_void_p()
    assert library.brr_connect(d.env["BRR_ENDPOINT"].encode(), ctypes.byref(client), error) == 0

    def change(neurons=(), synapses=(), areas=()):
        lists = [(kind * max(1, len(rows)))(*rows) for kind, rows in ((NeuronChange, neurons), (SynapseChange, synapses), (AreaChange, areas))]
        return library.brr_network_patch(client, b"chain", ctypes.byref(Changes(*lists, len(neurons), len(synapses), len(areas))), error)

    assert library.brr_network_inject(client, b"chain", ctypes.byref(Injection(0, 2, 60)), ctypes.c_size_t(1), None, error) == 0, "tick 0: the next one"
    told(d, "step", "chain", "--ticks", 3, "--fired", npy)
    same(np.load(npy), np.array([(1, 2), (2, 3), (3, 4)]))
    # One input is not enough for neuron 6 any more, neuron 1 reaches nobody, and power drives neuron 0.
    assert change([NeuronChange(6, b"threshold", 300, 0)], [SynapseChange(1, 2, 0, 0, 0, 1)], [AreaChange(0, 0, 0, 55)]) == 0, error.raw
    told(d, "step", "chain", "--ticks", 4, "--fired", npy)
    same(np.load(npy), np.array([(4, 0), (4, 5), (5, 0), (5, 1), (6, 0), (6, 1), (7, 0), (7, 1)]))
    assert change([NeuronChange(10, b"threshold", 1, 0)]) == -3 and b"10" in error.raw, error.raw
    assert change([NeuronChange(1, b"colour", 1, 0)]) == -3 and b"colour" in error.raw, error.raw
    library.brr_disconnect(client)
    told(d, "destroy", "chain")


def main():
    print(f"seed {SEED}")
    linked = subprocess.run(["ldd", f"{BIN}/brrctl"], capture_output=True, text=True, check=True).stdout
    assert sanitizers() or "libdnnl" not in linked, "brrctl reads networks without the kernels that run them"
    with tempfile.TemporaryDirectory(prefix="brr-test-") as folder:
        check_generate(folder)
        check_info(folder)
        check_errors(folder)
    with temporary() as folder:
        d = Daemon(folder).start()
        case = Case(folder, 60, seed=SEED + 1)
        check_undriven(d)
        check_run(d, case)
        case = Case(folder, 60, seed=SEED + 1)
        check_life(d, case)
        check_observe(d, case)
        check_slow_observer(d, case)
        check_interrupt(d, case)
        check_refusals(d, case)
        check_examples(d, case)
        if not sanitizers():  # an interpreter without the sanitizer cannot load a library with it
            check_changes(d)
        check_large(d)
        assert d.stop() == 0, d.read_log()
    return 0


if __name__ == "__main__":
    sys.exit(main())
