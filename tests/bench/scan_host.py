#!/usr/bin/env python3
"""Microseconds of a call of brr.scan that computes next to nothing: what Python, ctypes and the library's checks take."""
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "client", "python"))
import numpy as np  # noqa: E402
import torch  # noqa: E402
import brr.torch  # noqa: E402
from brr import scan  # noqa: E402

WARM, CALLS = 30, 1000


def show(name, call):
    for _ in range(WARM):
        call()
    times = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - begun))
    print(f"{name:<34} median {statistics.median(times):6.1f} us, p10 {statistics.quantiles(times, n=10)[0]:6.1f}")


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    f = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    arrays = [f(1, 1, 8), f(1, 1, 8), -np.abs(f(8, 4)), f(1, 1, 1, 4), f(1, 1, 1, 4), f(8)]
    tensors = [torch.from_numpy(x) for x in arrays]
    learned = [x.clone().requires_grad_(True) for x in tensors]
    state = np.zeros((1, 8, 4), np.float32)
    show("NumPy", lambda: scan.selective_scan(*arrays, h0=state))
    show("PyTorch", lambda: scan.selective_scan(*tensors, h0=torch.from_numpy(state)))
    show("PyTorch, autograd, forward", lambda: brr.torch._selective(*learned))
    show("PyTorch, autograd, both passes", lambda: brr.torch._selective(*learned)[0].sum().backward())


if __name__ == "__main__":
    main()
