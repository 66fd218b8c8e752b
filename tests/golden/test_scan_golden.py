#!/usr/bin/env python3
"""Runs libbrr_scan, by the package brr, on freshly drawn golden cases and compares with float64: ‖out − ref‖/‖ref‖ per tensor.

Gates: 1e-5 in fp32; in bf16 4e-3 with the answers computed from the same rounded inputs, ssd 2e-3 plus the rounding of the output.
Each case runs in the variants that must not change the function: instruction sets, and for ssd the chunked form.
  test_scan_golden.py [--all] [--seed S] [--device cpu|cuda]
"""
import argparse
import json
import os
import sys
import tempfile

import numpy as np

SOURCE = os.environ.get("BRR_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path[:0] = [os.path.join(SOURCE, "tests"), os.path.join(SOURCE, "client", "python")]
import scan_reference  # noqa: E402
from brr import scan  # noqa: E402
from seed import test_seed  # noqa: E402

BF16_ROUNDING = 2.0 ** -9 / np.sqrt(3.0)  # rms relative error of one rounding to nearest, at most


def gate(op, dtype):
    if dtype == "f32":
        return 1e-5
    return 2e-3 + BF16_ROUNDING if op == "ssd" else 4e-3


def distance(found, expected):
    norm = np.linalg.norm(expected)
    return float(np.linalg.norm(found.astype(np.float64) - expected) / (norm if norm > 0 else 1.0))


# Names of the cases -> those of the package, and the package's forward and backward pass of an op.
NAMES = {"dbias": "delta_bias", "s0": "state0", "b": "bias"}
OPS = {"scan1": (scan.selective_scan, scan.selective_scan_backward), "ssd": (scan.ssd, scan.ssd_backward),
       "conv1d_causal": (scan.causal_conv, scan.causal_conv_backward), "layernorm": (scan.layernorm, None), "rmsnorm_gated": (scan.gated_rmsnorm, None)}


def array(x, activation, dtype, device):
    """NumPy as it is; in bfloat16, which NumPy does not have, and on a GPU a tensor of PyTorch."""
    if dtype == "f32" and device == "cpu":
        return x
    import torch
    t = torch.tensor(x)
    return (t.bfloat16() if activation and dtype == "bf16" else t).to(device)


def host(x):
    """On a GPU PyTorch's copy is queued behind the calls, on the same stream."""
    return np.asarray(x if isinstance(x, np.ndarray) else x.float().cpu())


def run(op, tensors, attributes, dtype, device):
    """The outputs of a case by its names."""
    names = {"w": "weight"} if op in ("layernorm", "rmsnorm_gated") else {}
    name_of = lambda key: names.get(key) or NAMES.get(key, key)
    inputs = {k: array(v, k in scan_reference.ACTIVATIONS[op], dtype, device) for k, v in tensors.items() if not k.startswith(("ref_", "g_"))}
    g = {k: array(v, k == "g_out", dtype, device) for k, v in tensors.items() if k.startswith("g_")}
    given = {name_of(k): v for k, v in inputs.items()}
    numbers = {k: float(v) for k, v in attributes.items()}
    lo, hi = numbers.pop("clamp_lo", 0), numbers.pop("clamp_hi", 0)
    options = {k: v if k == "eps" else int(v) for k, v in numbers.items()}
    if hi:
        options["clamp"] = (lo, hi)
    forward, backward = OPS[op]
    out, extra = forward(**given, **options)
    found = {"out": out}
    if op == "layernorm":
        found["sum"] = extra[0]
        grads = scan.layernorm_backward(g["g_out"], extra, given["weight"], given["bias"])
        grads["residual"] = grads["x"]
    elif op == "rmsnorm_gated":
        grads = scan.gated_rmsnorm_backward(g["g_out"], extra, **given, **options)
    else:
        final = "state" if op == "conv1d_causal" else "hT"
        found[final] = extra
        grads = backward(g["g_out"], **given, **{f"d{final}": g.get(f"g_{final}")}, **options)
    found.update({f"grad_{k}": grads[name_of(k)] for k in inputs})
    if "A" in inputs:
        found["grad_A_log"] = grads["A"] * inputs["A"]
    return {k: host(v) for k, v in found.items()}


def check_case(directory, name, dtype, device):
    tensors, metadata = scan_reference.read_safetensors(os.path.join(directory, name + ".safetensors"))
    op = metadata["op"]
    attributes = json.loads(metadata["attributes"])
    variants = [({}, "")] + [({}, isa) for isa in ("avx2", "scalar") if device == "cpu"]
    if op == "ssd":
        variants += [({"chunk": q}, "") for q in (1, 3, 64, 4096)]
    failures, worst = [], (0.0, "")
    expected = {k[4:]: v for k, v in tensors.items() if k.startswith("ref_")}
    for extra, isa in variants:
        os.environ["BRR_ISA"] = isa
        found = run(op, tensors, {**attributes, **extra}, dtype, device)
        missing = set(expected) - set(found)
        if missing:
            failures.append(f"{name}: no {', '.join(sorted(missing))}")
        for key in set(expected) & set(found):
            error = distance(found[key].reshape(expected[key].shape), expected[key])
            worst = max(worst, (error, key))
            if not error <= gate(op, dtype):
                failures.append(f"{name} {dtype} {isa} {extra}: {key} is off by {error:.2e}, allowed {gate(op, dtype):.1e}")
    print(f"{name:22s} {dtype:5s} {len(variants)} variants, {len(expected)} tensors, worst {worst[0]:.1e} ({worst[1]})")
    return failures


def refused(what, *arguments, **options):
    try:
        scan.selective_scan(*arguments, **options)
    except ValueError as e:
        return [] if what in str(e) else [f"the error '{e}' does not say '{what}'"]
    return [f"no error says '{what}'"]


def check_bounds():
    """Arguments with which the library would read beyond an array, or write to one that is read-only, are errors of the package."""
    x, a, b = np.ones((2, 4, 8), np.float32), -np.ones((8, 3), np.float32), np.ones((2, 4, 3), np.float32)
    one = np.broadcast_to(np.float32(1), x.shape)
    failures = refused("u is a broadcast array", one, x, a, b, b)
    failures += refused("D is a broadcast array", x, x, a, b, b, one[0, 0])
    failures += refused("lengths has 1 numbers; expected one for each of the 2 rows", x, x, a, b, b, lengths=[4])
    state = np.zeros((2, 8, 3), np.float32)
    state.setflags(write=False)
    failures += refused("hT is read-only", x, x, a, b, b, h0=state, hT=state)
    dense = scan.selective_scan(one.copy(), x, a, b, b, lengths=[4, 4])[0]
    return failures + ([] if np.array_equal(dense, scan.selective_scan(x, x, a, b, b)[0]) else ["lengths of whole rows change the result"])


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--all", action="store_true", help="the large cases too")
    a.add_argument("--seed", type=int, default=test_seed())
    a.add_argument("--device", default="cpu")
    o = a.parse_args()
    print("seed", o.seed)
    scan_reference.selftest(o.seed)
    names = [n for n in scan_reference.CASES if o.all or n not in scan_reference.LARGE]
    failures = check_bounds()
    for dtype in ("f32", "bf16"):
        # layernorm has no bf16 form yet, and the extreme cases lose their meaning when Δ's input is rounded
        chosen = [n for n in names if dtype == "f32" or scan_reference.CASES[n][0] != "layernorm"]
        with tempfile.TemporaryDirectory() as directory:
            scan_reference.generate(directory, o.seed, chosen, bf16=dtype == "bf16")
            for name in chosen:
                failures += check_case(directory, name, dtype, o.device)
    for failure in failures:
        print("FAILED", failure)
    print(f"{len(failures)} failures, seed {o.seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
