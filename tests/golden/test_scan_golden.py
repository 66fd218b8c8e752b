#!/usr/bin/env python3
"""Runs brr-op on freshly drawn golden cases and compares with float64: ‖out − ref‖/‖ref‖ per tensor.

Gates: 1e-5 in fp32; in bf16 4e-3 with the answers computed from the same rounded inputs, ssd 2e-3 plus the rounding of the output.
Each case runs in the variants that must not change the function: instruction sets, and for ssd the chunked form.
  test_scan_golden.py [--all] [--seed S] [--device cpu|cuda]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

SOURCE = os.environ.get("BRR_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path[:0] = [os.path.join(SOURCE, "tools"), os.path.join(SOURCE, "tests")]
import gen_golden  # noqa: E402
from seed import test_seed  # noqa: E402

BRR_OP = os.path.join(os.environ.get("BRR_BIN", os.path.join(SOURCE, "build", "bin")), "brr-op")
BF16_ROUNDING = 2.0 ** -9 / np.sqrt(3.0)  # rms relative error of one rounding to nearest, at most


def gate(op, dtype):
    if dtype == "f32":
        return 1e-5
    return 2e-3 + BF16_ROUNDING if op == "ssd" else 4e-3


def distance(found, expected):
    norm = np.linalg.norm(expected)
    return float(np.linalg.norm(found.astype(np.float64) - expected) / (norm if norm > 0 else 1.0))


def run(op, case, out, options, isa):
    environment = dict(os.environ)
    if isa:
        environment["BRR_ISA"] = isa
    subprocess.run([BRR_OP, op, case, out] + options, check=True, env=environment)
    return gen_golden.read_safetensors(out)[0]


def check_case(directory, name, dtype, device):
    path, out = os.path.join(directory, name + ".safetensors"), os.path.join(directory, name + ".out")
    tensors, metadata = gen_golden.read_safetensors(path)
    op = metadata["op"]
    options = ["--device", device, "--dtype", dtype]
    for key, value in json.loads(metadata["attributes"]).items():
        options += ["--attr", f"{key}={value}"]
    variants = [([], None)]
    if device == "cpu":
        variants += [([], "avx2"), ([], "scalar")]
    if op == "ssd":
        variants += [(["--attr", f"chunk={q}"], None) for q in (1, 3, 64, 4096)]
    failures, worst = [], (0.0, "")
    expected = {k[4:]: v for k, v in tensors.items() if k.startswith("ref_")}
    for extra, isa in variants:
        found = run(op, path, out, options + extra, isa)
        missing = set(expected) - set(found)
        if missing:
            failures.append(f"{name}: brr-op wrote no {', '.join(sorted(missing))}")
        for key in set(expected) & set(found):
            error = distance(found[key].reshape(expected[key].shape), expected[key])
            worst = max(worst, (error, key))
            if not error <= gate(op, dtype):
                failures.append(f"{name} {dtype} {isa or ''} {' '.join(extra)}: {key} is off by {error:.2e}, allowed {gate(op, dtype):.1e}")
    print(f"{name:22s} {dtype:5s} {len(variants)} variants, {len(expected)} tensors, worst {worst[0]:.1e} ({worst[1]})")
    return failures


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--all", action="store_true", help="the large cases too")
    a.add_argument("--seed", type=int, default=test_seed())
    a.add_argument("--device", default="cpu")
    o = a.parse_args()
    print("seed", o.seed)
    gen_golden.selftest(o.seed)
    names = [n for n in gen_golden.CASES if o.all or n not in gen_golden.LARGE]
    failures = []
    for dtype in ("f32", "bf16"):
        # layernorm has no bf16 form yet, and the extreme cases lose their meaning when Δ's input is rounded
        chosen = [n for n in names if dtype == "f32" or gen_golden.CASES[n][0] != "layernorm"]
        with tempfile.TemporaryDirectory() as directory:
            gen_golden.generate(directory, o.seed, chosen, bf16=dtype == "bf16")
            for name in chosen:
                failures += check_case(directory, name, dtype, o.device)
    for failure in failures:
        print("FAILED", failure)
    print(f"{len(failures)} failures, seed {o.seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
