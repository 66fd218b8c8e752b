#!/usr/bin/env python3
"""brr.torch.Detector: random weights of a network of each kind give in PyTorch what brrd gives; files are written as they are read, weights of other
names and files find their places, and what does not fit is named."""
import json
import os
import pathlib
import sys
import tempfile

SOURCE = os.environ["BRR_SOURCE_DIR"]
sys.path[:0] = [f"{SOURCE}/{folder}" for folder in ("client/python", "client/examples", "tests/golden", "tests/integration", "tests")]
try:
    import torch
except ImportError:
    print("skipped: package: there is no PyTorch; ./dev deps installs python3-torch")
    sys.exit(77)
import numpy as np  # noqa: E402

import brr.torch  # noqa: E402
import test_causal_golden as golden  # noqa: E402
from daemon import trained_network  # noqa: E402
from brr import Detector, onnx  # noqa: E402
from seed import test_seed  # noqa: E402
from stream import read_edf  # noqa: E402
from test_onnx import UNETS  # noqa: E402

CASES = {**{name: {**config, "type": "seizure"} for name, config in UNETS.items()}, "conv": {**UNETS["unet"], "type": "seizure", "mixer": "conv"},
         **{name: {"rescnn_blocks": 0, **config, "type": "causal"} for name, config in golden.CASES.items()}}


def check_case(directory, name, rng):
    """Against brrd's own network."""
    config = {"mixer": "mamba2", **CASES[name], "dropout": 0}
    (directory / "config.json").write_text(json.dumps(config))
    golden.run("init", directory / "config.json", int(rng.integers(1 << 30)), directory / "first")
    weights = golden.read_safetensors(directory / "first")
    for key in weights:
        if "running_" in key or key.endswith((".D", ".weight")) and (".bn" in key or ".norm" in key):
            weights[key] = weights[key] + (0.2 * rng.random(weights[key].shape)).astype(np.float32)
    golden.write_safetensors(directory / "model", weights, {"brr.model": json.dumps(config), "config": json.dumps(config)})
    x = rng.standard_normal((2, config["window"], config["in_channels"])).astype(np.float32)
    unused = {"labels": np.zeros(x.shape[:2], np.uint8), "valid": np.full(2, config["window"], np.int32)}
    golden.write_safetensors(directory / "in", {"x": x, **unused}, {"settings": json.dumps(dict(golden.SETTINGS, counted=1))})
    golden.run("infer", directory / "model", directory / "in", directory / "out")
    want = golden.read_safetensors(directory / "out")["logits"]
    with torch.no_grad():
        found = brr.torch.Detector(directory / "model")(torch.tensor(x)).numpy()
    error = abs(found - want).max() / max(1, abs(want).max())
    assert error < 1e-5, (name, error)
    return error


def check_file(directory, like, seconds):
    """A trained model read and saved, and random weights, in brrd's detector on a recording."""
    net = brr.torch.Detector(like)
    kept = {k: v.clone() for k, v in net.state_dict().items()}
    net.save(directory / "same", like=like)
    first, second = (onnx.read_model(path)[1] for path in (like, directory / "same"))
    assert all(first.get(k) == second.get(k) for k in ("brr.patients", "brr.notice")) and "brr.temperature" not in second
    labels, rate, samples = read_edf(f"{SOURCE}/examples/sub-01/sub-01_run-01_eeg.edf")
    uv = np.array(samples, np.float32)[:, :int(seconds * rate)]
    shipped, same = (Detector(str(path)).detect(uv, rate, labels).probabilities for path in (like, directory / "same"))
    assert abs(shipped - same).max() < 1e-5, like
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(0.9 + 0.2 * torch.rand_like(p))
    net.save(directory / "mine", like=like)
    mine = Detector(str(directory / "mine"))
    rows = torch.tensor(mine.rows(uv, rate, labels))  # steps of a second, or whole windows
    with torch.no_grad():
        logits = net(rows.reshape(1, -1, rows.shape[2]) if rows.shape[1] == 256 else rows).reshape(-1)
    want = mine.detect(uv, rate, labels).probabilities
    error = abs(torch.sigmoid(logits).numpy()[:len(want)] - want).max()
    assert len(want) > 5000 and error < 1e-5, (like, error)
    assert "brr.temperature" not in onnx.read_model(directory / "mine")[1] and (directory / "mine").stat().st_size > 10000
    return kept, error


def refused(call, *words):
    try:
        call()
    except (RuntimeError, ValueError) as e:
        assert all(word in str(e) for word in words), e
        return
    raise AssertionError(f"not refused: {words}")


def check_names(directory, kept):
    like = f"{SOURCE}/models/demo.safetensors"
    theirs = {("net.decode." + k[8:] if k.startswith("decoder.") else "net." + k): v for k, v in kept.items() if not k.endswith("num_batches_tracked")}
    torch.save({"state_dict": theirs}, directory / "theirs.pt")
    net = brr.torch.Detector.load(directory / "theirs.pt", like=like, rename={"net.decode.": "decoder.", "net.": ""})
    assert all(torch.equal(v, kept[k]) for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked"))
    net.save(directory / "again", like=like)
    first, second = (onnx.read_model(path)[0] for path in (like, directory / "again"))
    assert list(first) == list(second) and all(np.array_equal(first[k], second[k]) for k in first)
    refused(lambda: brr.torch.Detector.load(directory / "theirs.pt", like=like), "encoder.stem.conv.weight")
    renamed = {"net.decode.": "decoder.", "net.": ""}
    for k in kept:  # the same tensors under a second beginning
        theirs.setdefault("ema." + k, kept[k])
    torch.save(theirs, directory / "theirs.pt")
    refused(lambda: brr.torch.Detector.load(directory / "theirs.pt", like=like, rename={**renamed, "ema.": ""}), "rename gives two tensors")
    for k in kept:
        theirs.pop("ema." + k)
    for wrong in (torch.zeros(3), [torch.zeros(3)]):
        torch.save(wrong, directory / "theirs.pt")
        refused(lambda: brr.torch.Detector.load(directory / "theirs.pt", like=like), "expected tensors by name")
    check_halves(directory, like, first)
    theirs["net.head.proj.weight"] = torch.zeros(3, 16, 1)
    torch.save(theirs, directory / "theirs.pt")
    refused(lambda: brr.torch.Detector.load(directory / "theirs.pt", like=like, rename={"net.decode.": "decoder.", "net.": ""}), "head.proj.weight", "[3, 16, 1]")
    net.head.proj = torch.nn.Conv1d(16, 5, 1)
    refused(lambda: net.save(directory / "wrong", like=like), "head.proj.bias", "(5,)", "(19,)")
    assert not (directory / "wrong").exists()
    refused(lambda: brr.torch.Detector(f"{SOURCE}/README.md"), "no model file")


def check_halves(directory, like, weights):
    """Weights of 16 bits load as the nearest of 32 bits."""
    half = {k: v.astype("<f2") for k, v in weights.items()}
    for kind, stored in (("F16", half), ("BF16", {k: (v.view("<u4") >> 16).astype("<u2") for k, v in weights.items()})):
        header, at = {}, 0
        for k, v in stored.items():
            header[k] = {"dtype": kind, "shape": list(v.shape), "data_offsets": [at, at + v.nbytes]}
            at += v.nbytes
        text = json.dumps(header).encode()
        (directory / "half.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"".join(v.tobytes() for v in stored.values()))
        found = brr.torch.Detector.load(directory / "half.safetensors", like=like).state_dict()
        for k, v in found.items():
            if not k.endswith("num_batches_tracked"):
                own = weights[k.replace(".conv1d.", ".conv.")]
                assert np.allclose(v.numpy(), own, rtol=2**-7 if kind == "BF16" else 2**-10, atol=1e-6), (kind, k)


def main():
    rng = np.random.default_rng(test_seed())
    torch.manual_seed(test_seed())
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        for name in CASES:
            print(f"{name}: {check_case(directory, name, rng):.1e}")
        for like, seconds in ((trained_network(f"{folder}/network"), 30), (f"{SOURCE}/models/demo.safetensors", 60)):
            kept, error = check_file(directory, like, seconds)
            print(f"{os.path.basename(like)}: {error:.1e} from brrd's detector")
        check_names(directory, kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
