#!/usr/bin/env python3
"""Causal networks as ONNX: the graph in NumPy against the formulas and against brrd's own detector, fp32 and INT8, then the files in onnxruntime
(onnxruntime-node of npm), where logits and events must be the same."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

SOURCE = os.environ["BRR_SOURCE_DIR"]
sys.path[:0] = [f"{SOURCE}/{folder}" for folder in ("client/python", "client/examples", "tests/golden", "tests/integration", "tests")]
import test_causal_golden as golden  # noqa: E402
from brr import Detector, onnx  # noqa: E402
from npm import npm_modules  # noqa: E402
from seed import test_seed  # noqa: E402
from stream import read_edf  # noqa: E402

WARD, STEPS = f"{SOURCE}/models/ward.safetensors", 24


def logits_of(graph, rows):
    state, out = np.zeros((1, graph.inputs[1][1][1]), np.float32), []
    for x in rows:
        r = graph.run({"rows": x[None], "state": state})
        state = r["state_after"]
        out.append(r["logits"][0])
    return np.concatenate(out)


def check_formula(directory, name, rng):
    """Steps with a carried state give the whole of the formulas; two groups and odd widths too."""
    config = {"rescnn_blocks": 0, **golden.CASES[name], "type": "causal", "dropout": 0, "mixer": "mamba2"}
    (directory / "config.json").write_text(json.dumps(config))
    golden.run("init", directory / "config.json", int(rng.integers(1 << 30)), directory / "first")
    weights = golden.read_safetensors(directory / "first")
    weights["head.out.weight"] *= 40
    for key in weights:
        if "running_" in key or key.endswith((".D", "bn.weight")):
            weights[key] = weights[key] + (0.2 * rng.random(weights[key].shape)).astype(np.float32)
    golden.write_safetensors(directory / "model", weights, {"brr.model": json.dumps(config)})
    x = rng.standard_normal((1, config["window"], config["in_channels"])).astype(np.float32)
    want = golden.forward({k: v.astype(np.float64) for k, v in weights.items()}, config, x.astype(np.float64), False)[0]
    graph, _ = onnx.step_graph(directory / "model", 128)
    found = logits_of(graph, x[0].reshape(-1, 128, config["in_channels"]))
    error = abs(found - want).max() / abs(want).max()
    assert error < 1e-5, (name, error)
    return error


def in_onnxruntime(modules, path, graph, rows):
    """Logits, and the median milliseconds of a step on one thread."""
    with open(f"{path}.json", "w", encoding="ascii") as f:
        json.dump({"samples": rows.shape[1], "columns": rows.shape[2], "state": graph.inputs[1][1][1]}, f)
    rows.tofile(f"{path}.rows")
    r = subprocess.run(["node", f"{SOURCE}/tests/golden/onnx/run.js", path, f"{path}.rows", str(len(rows)), f"{path}.out"],
                       env={**os.environ, "NODE_PATH": modules}, capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stderr
    return np.fromfile(f"{path}.out", np.float32), float(r.stdout)


def main():
    rng = np.random.default_rng(test_seed())
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        for name in golden.CASES:
            print(f"{name}: {check_formula(directory, name, rng):.1e}")
        labels, rate, samples = read_edf(f"{SOURCE}/examples/sub-01/sub-01_run-01_eeg.edf")
        uv = np.array(samples, np.float32)
        ward = Detector("ward")
        rows = ward.rows(uv, rate, labels)
        others = ward.rows(uv[:, ::-1], rate, labels)[:12]  # what INT8 is calibrated on is not what it is judged on
        rows = np.ascontiguousarray(rows[80:80 + STEPS])
        want = logits_of(onnx.export(WARD, f"{folder}/ward.onnx"), rows)
        coarse = onnx.export(WARD, f"{folder}/int8.onnx", int8=others)
        small = logits_of(coarse, rows)
        assert os.path.getsize(f"{folder}/int8.onnx") < 0.4 * os.path.getsize(f"{folder}/ward.onnx")
        off = abs(small - want).max()
        print(f"INT8: logits differ by at most {off:.2f}, their range is {np.ptp(want):.2f}")
        assert 0 < off < 0.2 * np.ptp(want) + 0.3
        whole = ward.detect(uv[:, :int(20 * rate)], rate, labels)
        first = onnx.run_steps(onnx.step_graph(WARD)[0], ward.rows(uv[:, :int(20 * rate)], rate, labels))
        assert abs(first - whole.probabilities).max() < 1e-6
        try:
            onnx.export(f"{SOURCE}/models/demo.safetensors", f"{folder}/none")
            raise AssertionError("not refused")
        except ValueError as e:
            assert "only causal networks" in str(e)
        modules = npm_modules(f"{SOURCE}/tests/golden/onnx")
        for name, graph, numpy_logits, gate in (("ward", None, want, 1e-4), ("int8", coarse, small, 0.05)):
            graph = graph or onnx.step_graph(WARD)[0]
            found, ms = in_onnxruntime(modules, f"{folder}/{name}.onnx", graph, rows)
            error = abs(found - numpy_logits).max()
            assert error < gate, (name, error)
            assert np.array_equal(found > 0, want > 0), name  # the same seconds
            print(f"{name} in onnxruntime: {error:.1e} from NumPy, {ms:.2f} ms a step of a second")
    print("ok")


if __name__ == "__main__":
    main()
