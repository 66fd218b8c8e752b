#!/usr/bin/env python3
"""brrctl burst: network files drawn and described without a daemon."""
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

import numpy as np

from daemon import BIN

DTYPES = {"F32": "<f4", "U32": "<u4", "U16": "<u2", "U8": "<u1", "U64": "<u8"}
SEED = int(os.environ.get("BRR_TEST_SEED") or random.randrange(1 << 30))


def ctl(*args, code=0):
    r = subprocess.run([f"{BIN}/brrctl", "burst", *map(str, args)], capture_output=True, text=True, timeout=600)
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


def check_generate(folder):
    path = f"{folder}/net.safetensors"
    for kind, options, areas in (("random", (), 1), ("ring", (), 1), ("layered", ("--layers", 3), 3)):
        options = ("--neurons", 90, "--synapses", 7, "--seed", SEED, "--weights", "3-9", "--inhibitory", 0.4, *options)
        told = json.loads(ctl("generate", kind, *options, "--out", path, "--json")[0])
        with open(path, "rb") as f:
            data = f.read()
        assert told["sha256"] == hashlib.sha256(data).hexdigest() and told["bytes"] == len(data), told
        ctl("generate", kind, *options, "--out", path + ".again")
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
    shown = ctl("info", path)[0]
    assert f"{s}: " in shown and "psp_divide" in shown and "power 2.5" in shown, shown


def check_errors(folder):
    for args, code, words in ((("generat", "ring"), 2, "did you mean generate"), (("info",), 2, "needs FILE"), (("info", "a", "b"), 2, "'b'"),
                              (("generate", "rnd", "--out", "x"), 2, "expected random"), (("generate", "ring"), 2, "--out"),
                              (("generate", "ring", "--layers", 3, "--out", "x"), 2, "no layers"), (("info", "x", "--neurons", 3), 2, "no option '--neurons'"),
                              (("generate", "ring", "--weights", "5-900", "--out", "x"), 2, "0-255"), (("info", f"{folder}/none"), 3, "none"),
                              (("generate", "random", "--neurons", 10, "--synapses", 11, "--out", f"{folder}/x"), 1, "11 synapses")):
        out, err = ctl(*args, code=code)
        assert words in err and not out and len(err.splitlines()) == 1, (args, err)
    with open(f"{folder}/bad", "wb") as f:
        f.write(b"\x08\0\0\0\0\0\0\0{}      ")
    assert "brr.kind" in ctl("info", f"{folder}/bad", code=1)[1]
    assert not os.path.exists(f"{folder}/x")


def main():
    print(f"seed {SEED}")
    linked = subprocess.run(["ldd", f"{BIN}/brrctl"], capture_output=True, text=True, check=True).stdout
    assert "libdnnl" not in linked, "brrctl reads networks without the kernels that run them"
    with tempfile.TemporaryDirectory(prefix="brr-test-") as folder:
        check_generate(folder)
        check_info(folder)
        check_errors(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
