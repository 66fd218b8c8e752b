#!/usr/bin/env python3
"""Networks as ONNX: the graph in NumPy against the formulas and against brrd's own detector, fp32 and INT8, then the files in onnxruntime
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
from daemon import trained_network  # noqa: E402
from brr import Detector, onnx  # noqa: E402
from npm import npm_modules  # noqa: E402
from seed import test_seed  # noqa: E402
from stream import read_edf  # noqa: E402

UNETS = {  # two chunks of tokens and a part of a third, both directions; odd widths and two groups
    "unet": dict(in_channels=7, window=2112, encoder_channels=[6, 8, 12, 16], rescnn_blocks=1, mamba_layers=1, d_state=8, d_conv=4, expand=2, headdim=8,
                 ngroups=1),
    "unet, odd widths, two groups, five taps": dict(in_channels=5, window=512, encoder_channels=[9, 12, 20, 28], rescnn_blocks=2, mamba_layers=2,
                                                    d_state=6, d_conv=5, expand=2, headdim=7, ngroups=2),
}


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
    graph, _ = onnx.graph_of(directory / "model", 128)
    found = onnx.run(graph, x[0].reshape(-1, 128, config["in_channels"]), "logits").reshape(-1)
    error = abs(found - want).max() / abs(want).max()
    assert error < 1e-5, (name, error)
    return error


def check_unet(directory, name, rng):
    """A window gives what brrd's own network gives."""
    config = {**UNETS[name], "type": "seizure", "dropout": 0, "mixer": "mamba2"}
    (directory / "config.json").write_text(json.dumps(config))
    golden.run("init", directory / "config.json", int(rng.integers(1 << 30)), directory / "first")
    weights = golden.read_safetensors(directory / "first")
    for key in weights:
        if "running_" in key or key.endswith((".D", ".weight")) and (".bn" in key or ".norm" in key):
            weights[key] = weights[key] + (0.2 * rng.random(weights[key].shape)).astype(np.float32)
    weights["head.out.weight"] *= 40
    golden.write_safetensors(directory / "model", weights, {"brr.model": json.dumps(config), "config": json.dumps(config)})
    x = rng.standard_normal((2, config["window"], config["in_channels"])).astype(np.float32)
    unused = {"labels": np.zeros(x.shape[:2], np.uint8), "valid": np.full(2, config["window"], np.int32)}
    golden.write_safetensors(directory / "in", {"x": x, **unused}, {"settings": json.dumps(dict(golden.SETTINGS, counted=1))})
    golden.run("infer", directory / "model", directory / "in", directory / "out")
    want = golden.read_safetensors(directory / "out")["logits"]
    found = onnx.run(onnx.graph_of(directory / "model")[0], x, "logits")
    error = abs(found - want).max() / abs(want).max()
    assert error < 1e-4, (name, error)
    return error


def in_onnxruntime(modules, path, graph, rows):
    """Logits, and the median milliseconds of a step on one thread."""
    state = graph.inputs[1][1][1] if len(graph.inputs) > 1 else 0
    with open(f"{path}.json", "w", encoding="ascii") as f:
        json.dump({"samples": rows.shape[1], "columns": rows.shape[2], "state": state}, f)
    rows.tofile(f"{path}.rows")
    r = subprocess.run(["node", f"{SOURCE}/tests/golden/onnx/run.js", path, f"{path}.rows", str(len(rows)), f"{path}.out"],
                       env={**os.environ, "NODE_PATH": modules}, capture_output=True, text=True, timeout=3600)
    assert r.returncode == 0, r.stderr
    return np.fromfile(f"{path}.out", np.float32), float(r.stdout)


def check_modules(folder, modules, seed):
    """Mamba and Mamba2 of PyTorch: the file gives what the module gives, for each batch, and another input gives something else."""
    try:
        import torch
        import brr.torch
    except ImportError:
        print("without the modules: there is no PyTorch; ./dev deps installs python3-torch")
        return
    torch.manual_seed(seed)
    made = (brr.torch.Mamba(48), brr.torch.Mamba(20, d_state=7, d_conv=3, bias=True, conv_bias=False), brr.torch.Mamba2(32, d_state=8, headdim=8, ngroups=2),
            brr.torch.Mamba2(24, d_state=6, headdim=6, D_has_hdim=True, bias=True))
    for k, module in enumerate(made):
        for batch in (1, 2):
            x = torch.randn(2, batch, 60, module.d_model)
            want = np.stack([module(each).detach().numpy() for each in x])
            path = f"{folder}/module-{k}-{batch}.onnx"
            graph = onnx.export(module, path, batch=None if k == 0 else batch, steps=60)  # one file for any number of sequences
            with open(f"{path}.json", "w", encoding="ascii") as f:
                json.dump({"input": "hidden_states", "output": "out", "batch": batch, "samples": 60, "columns": module.d_model}, f)
            x.numpy().tofile(f"{path}.rows")
            subprocess.run(["node", f"{SOURCE}/tests/golden/onnx/run.js", path, f"{path}.rows", "2", f"{path}.out"], check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, "NODE_PATH": modules}, timeout=120)
            found = np.fromfile(f"{path}.out", np.float32).reshape(want.shape)
            mine = np.stack([graph.run({"hidden_states": each.numpy()})["out"] for each in x])
            error, own = abs(found - want).max() / abs(want).max(), abs(mine - want).max() / abs(want).max()
            assert error < 1e-5 and own < 1e-5 and abs(found[0] - found[1]).max() > 0.1 * abs(want).max(), (type(module).__name__, batch, error, own)
        print(f"{type(module).__name__} in onnxruntime: {error:.1e} from PyTorch")
    rows = torch.randn(8, 60, made[0].d_model)
    for batch in (0, -1):
        refused(lambda batch=batch: onnx.export(made[0], f"{folder}/module-int8.onnx", batch=batch, steps=60), "expected 1 or more")
    onnx.export(made[0], f"{folder}/module-int8.onnx", batch=np.int64(2), steps=np.int32(60))
    coarse = onnx.export(made[0], f"{folder}/module-int8.onnx", steps=60, int8=rows.numpy())
    want, found = made[0](rows).detach().numpy(), coarse.run({"hidden_states": rows.numpy()})["out"]
    assert 0 < abs(found - want).max() < 0.1 * np.ptp(want), abs(found - want).max()
    for write in (lambda: torch.onnx.export(made[0], (rows,), f"{folder}/traced.onnx"), lambda: torch.jit.trace(made[2], torch.randn(1, 60, 32))):
        try:
            write()
            raise AssertionError("a trace that lacks the scan was written")
        except RuntimeError as e:
            assert "brr.onnx.export(module, path, batch=" in str(e), e


def check_demo(folder, uv, rate, labels):
    """A network of whole windows: probabilities of the shipped recording's first windows, joined as a detector joins them, are the detector's."""
    model = f"{SOURCE}/models/demo.safetensors"
    detector, graph = Detector("demo"), onnx.export(model, f"{folder}/demo.onnx")
    window, hop = int(detector.window_s * 256), int(detector.hop_s * 256)
    uv = uv[:, :int((detector.window_s + detector.hop_s) * rate)]
    windows, want = detector.rows(uv, rate, labels), detector.detect(uv, rate, labels)
    sums, counts = np.zeros(len(want.probabilities)), np.zeros(len(want.probabilities))
    for k, p in enumerate(onnx.run(graph, windows)):
        end = min(k * hop + window, len(sums))
        sums[k * hop:end] += p[:end - k * hop]
        counts[k * hop:end] += 1
    error = abs(sums / counts - want.probabilities).max()
    print(f"demo: probabilities {error:.1e} from the detector's")
    assert error < 1e-5
    return graph, windows[:1]


def check_export(folder, network, other):
    """brrctl finds the model and runs the package; in INT8 with the ranges of a recording."""
    brrctl = f"{os.environ['BRR_BUILD_DIR']}/bin/brrctl"
    os.makedirs(f"{folder}/demo")  # as `detect --model demo --out demo` leaves it: no model
    onnx.export(network, f"{folder}/b.onnx")
    for model, same in (("demo", "demo.onnx"), (network, "b.onnx")):
        words = [brrctl, "export", model, "--onnx", f"{folder}/a.onnx", "--force"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        assert pathlib.Path(f"{folder}/a.onnx").read_bytes() == pathlib.Path(f"{folder}/{same}").read_bytes()
    recording = f"{SOURCE}/examples/sub-01/sub-01_run-01_eeg.edf"
    subprocess.run([brrctl, "export", network, "--onnx", f"{folder}/a.onnx", "--int8", recording, "--force"], check=True, stdout=subprocess.DEVNULL)
    assert abs(os.path.getsize(f"{folder}/a.onnx") - os.path.getsize(f"{folder}/int8.onnx")) < 4096 and len(other.nodes) > 0
    check_kept(folder, network)
    r = subprocess.run([brrctl, "export", f"{SOURCE}/README.md", "--onnx", f"{folder}/c.onnx"], capture_output=True, text=True)
    assert r.returncode != 0 and "brr.onnx: " in r.stderr and not os.path.exists(f"{folder}/c.onnx"), r
    r = subprocess.run([brrctl, "export", "demo"], capture_output=True, text=True)
    assert r.returncode == 2 and "--onnx" in r.stderr, r


def check_kept(folder, network):
    """What cannot be exported leaves the file that is there."""
    before = pathlib.Path(f"{folder}/b.onnx").read_bytes()
    model = f"{folder}/copy.safetensors"
    pathlib.Path(model).write_bytes(pathlib.Path(network).read_bytes())
    channels = onnx.graph_of(network)[0].inputs[0][1][2]
    rows = np.zeros((2, 256, channels), np.float32)
    for value in (np.nan, np.inf):
        rows[1, 7, 0] = value
        refused(lambda: onnx.export(network, f"{folder}/b.onnx", int8=rows), "no finite numbers")
    for options, words in (({"batch": 2}, "those of a module"), ({"steps": 60}, "those of a module"), ({"steps": -3}, "expected 1 or more"),
                           ({"samples": 0}, "expected 1 or more"), ({"batch": -1}, "expected 1 or more")):
        refused(lambda options=options: onnx.export(network, f"{folder}/b.onnx", **options), words)
    refused(lambda: onnx.export(model, model), "is read from")
    os.mkfifo(f"{folder}/pipe")
    refused(lambda: onnx.export(network, f"{folder}/pipe"), "is not a regular file")
    assert pathlib.Path(f"{folder}/b.onnx").read_bytes() == before and pathlib.Path(model).read_bytes() == pathlib.Path(network).read_bytes()
    assert not [name for name in os.listdir(folder) if ".part-" in name], os.listdir(folder)


def refused(call, words):
    try:
        call()
    except ValueError as e:
        assert words in str(e), e
        return
    raise AssertionError(f"not refused: {words}")


def main():
    rng = np.random.default_rng(test_seed())
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        for name in golden.CASES:
            print(f"{name}: {check_formula(directory, name, rng):.1e}")
        for name in UNETS:
            print(f"{name}: {check_unet(directory, name, rng):.1e}")
        labels, rate, samples = read_edf(f"{SOURCE}/examples/sub-01/sub-01_run-01_eeg.edf")
        uv = np.array(samples, np.float32)
        network = trained_network(f"{folder}/network")
        causal = Detector(network)
        start = uv[:, :int(20 * rate)]
        rows, whole = causal.rows(start, rate, labels), causal.detect(start, rate, labels)
        graph = onnx.export(network, f"{folder}/causal.onnx")
        assert abs(onnx.run(graph, rows).reshape(-1) - whole.probabilities).max() < 1e-6
        want = onnx.run(graph, rows, "logits")
        others = causal.rows(uv[:, ::-1], rate, labels)[:12]  # what INT8 is calibrated on is not what it is judged on
        coarse = onnx.export(network, f"{folder}/int8.onnx", int8=others)
        small = onnx.run(coarse, rows, "logits")
        assert os.path.getsize(f"{folder}/int8.onnx") < 0.4 * os.path.getsize(f"{folder}/causal.onnx")
        print(f"INT8: logits differ by at most {abs(small - want).max():.2f}, their range is {np.ptp(want):.2f}")
        assert 0 < abs(small - want).max() < 0.2 * np.ptp(want) + 0.3
        demo, windows = check_demo(folder, uv, rate, labels)
        check_export(folder, network, coarse)
        try:
            onnx.graph_of(directory / "model", 100)
            raise AssertionError("not refused")
        except ValueError as e:
            assert "takes windows of 512 samples" in str(e)
        modules = npm_modules(f"{SOURCE}/tests/golden/onnx")
        check_modules(folder, modules, test_seed())
        # a value between two steps of INT8 may be rounded to either, which changes a logit by about as much as INT8 does
        step = max(0.05, abs(small - want).max())
        cases = (("causal", graph, rows, want, 1e-4), ("int8", coarse, rows, small, step), ("demo", demo, windows, onnx.run(demo, windows, "logits"), 1e-3))
        for name, exported, x, expected, gate in cases:
            found, ms = in_onnxruntime(modules, f"{folder}/{name}.onnx", exported, x)
            error = abs(found.reshape(expected.shape) - expected).max()
            assert error < gate, (name, error)
            print(f"{name} in onnxruntime: {error:.1e} from NumPy, {ms:.2f} ms")
    print("ok")


if __name__ == "__main__":
    main()
