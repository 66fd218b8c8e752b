#!/usr/bin/env python3
"""A Mamba block with the scan of 32 sequences, 60 tokens, 512 channels and 16 states, on one thread: as ONNX in onnxruntime (onnxruntime-node of npm), fp32
and INT8, beside the same module of brr.torch, whose scan is libbrr_scan, and beside that scan alone, from Python and by the NIF from Erlang. Prints medians
(of the NIF the mean) of milliseconds of processor time, so that other work on the machine counts little, and how far the outputs lie apart.

    BRR_SOURCE_DIR=. BRR_BUILD_DIR=build BRR_BIN=build/bin python3 tests/bench/onnx_scan.py"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("BRR_SCAN_THREADS", "1")
import numpy as np  # noqa: E402
import torch  # noqa: E402

SOURCE, LIBRARY = os.environ["BRR_SOURCE_DIR"], os.path.abspath(f"{os.environ['BRR_BUILD_DIR']}/lib")
sys.path[:0] = [f"{SOURCE}/{folder}" for folder in ("client/python", "tests/integration")]
import brr.torch  # noqa: E402
from brr import onnx, scan  # noqa: E402
from npm import npm_modules  # noqa: E402

BATCH, STEPS, WIDTH, STATES, RUNS = 32, 60, 512, 16, 20


def median_ms(call):
    times = []
    for _ in range(RUNS):
        begun = time.process_time()
        out = call()
        times.append(1000 * (time.process_time() - begun))
    return out, sorted(times)[RUNS // 2]


def in_onnxruntime(modules, path, x):
    with open(f"{path}.json", "w", encoding="ascii") as f:
        json.dump({"input": "hidden_states", "output": "out", "batch": BATCH, "samples": STEPS, "columns": x.shape[2], "processor": True}, f)
    np.concatenate([x] * RUNS).tofile(f"{path}.rows")
    r = subprocess.run(["node", f"{SOURCE}/tests/golden/onnx/run.js", path, f"{path}.rows", str(RUNS), f"{path}.out"], check=True, text=True,
                       stdout=subprocess.PIPE, env={**os.environ, "NODE_PATH": modules})
    return np.fromfile(f"{path}.out", np.float32).reshape(RUNS, *x.shape)[0], float(r.stdout)


def in_erlang(folder, arrays, want):
    """Milliseconds of processor time of the Erlang VM for a call."""
    own = shutil.copytree(f"{SOURCE}/client/erlang", f"{folder}/erlang")
    environment = {**os.environ, "SCAN_CFLAGS": f"-I{os.path.abspath(SOURCE)}/client/scan", "SCAN_LIBS": f"-L{LIBRARY} -lbrr_scan -Wl,-rpath,{LIBRARY}", "LC_ALL": "C.UTF-8"}
    for i, array in enumerate(arrays):
        array.tofile(f"{own}/{i}")
    code = f"""[U, Delta, A, B, C] = [element(2, file:read_file(integer_to_list(I))) || I <- lists:seq(0, 4)],
        Call = fun() -> brr_scan:selective(U, Delta, A, B, C, {{{BATCH}, {STEPS}, {WIDTH}, {STATES}}}, #{{softplus => true}}) end,
        ok = file:write_file("out", Call()), statistics(runtime), [Call() || _ <- lists:seq(1, {RUNS})],
        io:format("~p", [element(2, statistics(runtime))]), init:stop()."""
    for words in (("make", "all"), ("erl", "-noshell", "-pa", "ebin", "-eval", code)):
        said = subprocess.run(words, cwd=own, env=environment, check=True, capture_output=True, text=True).stdout
    assert np.array_equal(np.fromfile(f"{own}/out", np.float32), want.ravel()), "the bits of libbrr_scan"
    return float(said) / RUNS


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    modules = npm_modules(f"{SOURCE}/tests/golden/onnx")
    module = brr.torch.Mamba(WIDTH // 2, d_state=STATES)
    x, others = torch.randn(BATCH, STEPS, WIDTH // 2), torch.randn(BATCH, STEPS, WIDTH // 2)
    rng = np.random.default_rng(1)
    u, delta = (rng.random((BATCH, STEPS, WIDTH), np.float32) for _ in range(2))
    A, B, C = -rng.random((WIDTH, STATES), np.float32), *(rng.random((BATCH, STEPS, 1, STATES), np.float32) for _ in range(2))
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        out, alone = median_ms(lambda: scan.selective_scan(u, delta, A, B, C))
        print(f"by the NIF: {in_erlang(folder, (u, delta, A, B, C), out[0]):.2f} ms")
        want, own = median_ms(lambda: module(x).numpy())
        print(f"libbrr_scan, the scan alone: {alone:.2f} ms; the block of brr.torch with it: {own:.2f} ms")
        for name, int8 in (("fp32", None), ("INT8", others.numpy())):
            onnx.export(module, f"{folder}/{name}.onnx", batch=BATCH, steps=STEPS, int8=int8)
            found, ms = in_onnxruntime(modules, f"{folder}/{name}.onnx", x.numpy())
            print(f"onnxruntime, {name}: {ms:.2f} ms; differs by {abs(found - want).max() / abs(want).max():.1e} of the largest output",
                  flush=True)


if __name__ == "__main__":
    main()
