"""The causal network against a program of its own in float64 (NumPy): logits of training and inference, the loss, and the gradient of
every parameter against float64 finite differences along random directions."""
import json
import os
import pathlib
import subprocess
import struct
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from seed import test_seed  # noqa: E402

DRIVER = pathlib.Path(os.environ.get("BRR_BUILD_DIR", "build")) / "tests" / "golden_net"
EPS = 1e-5
EDGE = 1e-6  # of inputs of a ReLU, which are about 1
DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64, "I32": np.int32, "U8": np.uint8}
CASES = {
    "tiny": dict(in_channels=36, window=1024, encoder_channels=[16, 24, 32, 48], mamba_layers=2, d_state=16, d_conv=4, expand=2,
                 headdim=16, ngroups=1),
    "odd widths, two groups, three taps": dict(in_channels=5, window=512, encoder_channels=[5, 7, 9, 12], mamba_layers=1, d_state=6,
                                               d_conv=3, expand=2, headdim=6, ngroups=2),
    "two convolutions a stage, two residual blocks": dict(in_channels=7, window=768, encoder_channels=[6, 8, 10, 12], stage_convs=2, rescnn_blocks=2,
                                                          mamba_layers=1, d_state=8, d_conv=4, expand=2, headdim=8, ngroups=1),
}
SETTINGS = dict(loss="bce", pos_weight=1.4, learning_rate=1e-3, steps=1, seed=1, row0=0)


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[8 + n + row["data_offsets"][0]:8 + n + row["data_offsets"][1]],
                                dtype=DTYPES[row["dtype"]]).reshape(row["shape"]).copy() for name, row in header.items()}


def write_safetensors(path, tensors, metadata):
    names = {np.dtype(v): k for k, v in DTYPES.items()}
    header, at = {"__metadata__": metadata}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t.tobytes() for t in tensors.values()))


def silu(x):
    return x / (1 + np.exp(-x))


def causal_conv(x, w, bias):
    """x (B,T,Ci), w (Co,Ci,K): the last tap meets the newest sample."""
    k, t = w.shape[2], x.shape[1]
    padded = np.concatenate([np.zeros((x.shape[0], k - 1, x.shape[2])), x], axis=1)
    return sum(padded[:, i:i + t] @ w[:, :, i].T for i in range(k)) + bias


def batch_norm(x, w, prefix, training):
    mean, var = (x.mean(axis=(0, 1)), x.var(axis=(0, 1))) if training else (w[prefix + ".running_mean"], w[prefix + ".running_var"])
    return (x - mean) / np.sqrt(var + EPS) * w[prefix + ".weight"] + w[prefix + ".bias"]


def scan(w, u, c):
    """The recurrence token by token."""
    b, l, d = u.shape
    inner, g, n, p = d * c["expand"], c["ngroups"], c["d_state"], c["headdim"]
    h = inner // p
    z, xbc, dt = np.split(u @ w["in_proj.weight"].T, [inner, 2 * inner + 2 * g * n], axis=-1)
    taps = w["conv.weight"][:, 0]
    padded = np.concatenate([np.zeros((b, taps.shape[1] - 1, taps.shape[0])), xbc], axis=1)
    xbc = silu(sum(padded[:, i:i + l] * taps[:, i] for i in range(taps.shape[1])) + w["conv.bias"])
    x, bm, cm = np.split(xbc, [inner, inner + g * n], axis=-1)
    dt = np.log1p(np.exp(dt + w["dt_bias"]))
    a = -np.exp(w["A_log"])
    state, y = np.zeros((b, h, p, n)), np.zeros((b, l, h, p))
    for t in range(l):
        xt = x[:, t].reshape(b, h, p)
        bt, ct = (np.repeat(m[:, t].reshape(b, g, n), h // g, axis=1) for m in (bm, cm))
        state = np.exp(dt[:, t] * a)[:, :, None, None] * state + (dt[:, t][:, :, None] * xt)[..., None] * bt[:, :, None, :]
        y[:, t] = (state * ct[:, :, None, :]).sum(axis=-1) + w["D"][:, None] * xt
    q = (y.reshape(b, l, inner) * silu(z)).reshape(b, l, g, inner // g)
    q = (q / np.sqrt((q ** 2).mean(axis=-1, keepdims=True) + EPS)).reshape(b, l, inner) * w["norm.weight"]
    return q @ w["out_proj.weight"].T


def forward(w, c, x, training, seen=None):
    """Logits (batch, steps); `seen`, a list, takes how near each ReLU's input comes to 0."""
    def relu(values):
        if seen is not None:
            seen.append(abs(values).min())
        return np.maximum(values, 0)

    h = x
    for s in range(4):
        e = f"encoder.{s}."
        for k in range(c.get("stage_convs", 1)):
            n = "" if k == 0 else str(k + 1)
            h = relu(batch_norm(causal_conv(h, w[f"{e}conv{n}.weight"], w[f"{e}conv{n}.bias"]), w, f"{e}bn{n}", training))
        down = w[e + "down.weight"]
        h = h[:, 0::2] @ down[:, :, 0].T + h[:, 1::2] @ down[:, :, 1].T + w[e + "down.bias"]
    for i in range(c["rescnn_blocks"]):
        b = f"causal.{i}."
        r = relu(batch_norm(causal_conv(h, w[b + "conv1.weight"], w[b + "conv1.bias"]), w, b + "bn1", training))
        h = relu(h + batch_norm(causal_conv(r, w[b + "conv2.weight"], w[b + "conv2.bias"]), w, b + "bn2", training))
    for i in range(c["mamba_layers"]):
        m = f"mamba.{i}."
        own = {k[len(m) + 4:]: v for k, v in w.items() if k.startswith(m + "fwd.")}
        r = h + scan(own, h, c) @ w[m + "fuse.weight"].T + w[m + "fuse.bias"]
        r = (r - r.mean(axis=-1, keepdims=True)) / np.sqrt(r.var(axis=-1, keepdims=True) + EPS)
        h = r * w[m + "norm.weight"] + w[m + "norm.bias"]
    return np.repeat((h @ w["head.out.weight"][:, :, 0].T + w["head.out.bias"])[:, :, 0], 16, axis=1)


def loss_of(logits, labels, valid, settings):
    counted = (np.arange(logits.shape[1]) < valid[:, None]) & (labels <= 1)
    softplus = np.logaddexp(0, logits)
    bce = np.where(labels == 1, settings["pos_weight"] * (softplus - logits), softplus)
    return (bce * counted).sum() / settings["counted"]


def run(*args):
    subprocess.run([str(DRIVER), *map(str, args)], check=True)


def smooth_input(w, config, batch, rng):
    """Input (batch, steps, channels) that no ReLU of training meets at its edge: within the rounding of fp32 either side of it is right, and
    the two sides have different gradients."""
    t, channels = config["window"], config["in_channels"]
    while True:
        x = (0.7 * rng.standard_normal((batch, t, channels))
             + np.sin(np.arange(t)[None, :, None] * (0.1 + 0.1 * rng.random((batch, 1, channels))))).astype(np.float32)
        forward(w, config, x.astype(np.float64), True, seen := [])
        if min(seen) > EDGE:
            return x


def run_case(directory, name, rng):
    config = {"rescnn_blocks": 0, **CASES[name], "type": "causal", "dropout": 0, "mixer": "mamba2"}
    (directory / "config.json").write_text(json.dumps(config))
    run("init", directory / "config.json", int(rng.integers(1 << 30)), directory / "first")
    weights = read_safetensors(directory / "first")
    for key, w in weights.items():  # less special than at the start
        if key == "head.out.weight":
            w *= 40
        elif ".bn." in key or ".norm." in key or key.endswith((".D", "fuse.bias")):
            w += (0.1 * rng.random(w.shape)).astype(np.float32)
    write_safetensors(directory / "model", weights, {"config": json.dumps(config)})
    w = {k: v.astype(np.float64) for k, v in weights.items()}
    t, batch = config["window"], 2
    x = smooth_input(w, config, batch, rng)
    labels = np.zeros((batch, t), np.uint8)
    labels[:, t // 3:t // 2] = 1
    labels[:, -40:-20] = 2
    valid = np.array([t, t - 100], np.int32)
    settings = dict(SETTINGS, counted=int(((np.arange(t) < valid[:, None]) & (labels <= 1)).sum()))
    write_safetensors(directory / "in", {"x": x, "labels": labels, "valid": valid}, {"settings": json.dumps(settings)})

    run("infer", directory / "model", directory / "in", directory / "out")
    ours, theirs = read_safetensors(directory / "out")["logits"], forward(w, config, x.astype(np.float64), False)
    infer_error = abs(ours - theirs).max() / abs(theirs).max()
    assert infer_error < 1e-4, (name, infer_error)

    run("train", directory / "model", directory / "in", directory / "out")
    out = read_safetensors(directory / "out")
    logits = forward(w, config, x.astype(np.float64), True)
    assert abs(out["logits"] - logits).max() < 1e-4 * abs(logits).max(), name
    loss = loss_of(logits, labels, valid, settings)
    assert abs(out["losses"][0] / loss - 1) < 1e-5, (name, out["losses"][0], loss)
    gradients = {k[5:]: v.astype(np.float64) for k, v in out.items() if k.startswith("grad.")}
    assert set(gradients) == {k for k in w if "running" not in k}
    scale, worst = np.sqrt(sum((g ** 2).sum() for g in gradients.values())), 0
    for key, g in gradients.items():
        direction = rng.standard_normal(g.shape)
        direction /= np.linalg.norm(direction)
        if np.linalg.norm(g) > 0:
            direction = direction + g / np.linalg.norm(g)  # so that a wrong length shows, and a wrong direction too
        h, moved = 1e-8, []  # so small that no ReLU switches between the two
        for sign in (1, -1):
            moved.append(loss_of(forward({**w, key: w[key] + sign * h * direction}, config, x.astype(np.float64), True), labels, valid,
                                 settings))
        slope = (moved[0] - moved[1]) / (2 * h)
        # in fp32 what is smaller than a hundredth of the whole is held against that hundredth: rounding of long sums that cancel
        error = abs((g * direction).sum() - slope) / max(abs(slope), 1e-2 * scale)
        worst = max(worst, error)
        assert error < 1e-4, (name, key, error, slope)
    print(f"{name}: inference {infer_error:.1e}, loss {abs(out['losses'][0] / loss - 1):.1e}, "
          f"{len(gradients)} gradients, worst {worst:.1e}")


def main():
    seed = test_seed()
    for i, name in enumerate(CASES):
        with tempfile.TemporaryDirectory() as folder:
            run_case(pathlib.Path(folder), name, np.random.default_rng(seed + i))
    print("ok")


if __name__ == "__main__":
    main()
