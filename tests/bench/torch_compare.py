#!/usr/bin/python3
"""The detector in PyTorch beside brr-bench: same network, weights and batch, fp32, same threads, in one run.

    torch_compare.py [--preset tiny|small|base] [--batch N] [--rounds N] [--json FILE]

PyTorch runs as well as it lets itself be written: batch norm folded into the convolutions for inference, the scan in its chunked
matrix form, projections that follow each other left as they are trained, inference_mode, oneDNN convolutions. Logits of both are
compared first (same file, same input), then both are timed in turns, and medians divided. Needs Debian's python3-torch.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: PyTorch is not installed (Debian: apt-get install python3-torch)")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "golden"))
from torch_seizure import decays, read_safetensors, write_safetensors  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BRR_BUILD_DIR", ROOT / "build"))
WIDTHS = {"tiny": ([16, 32, 64, 128], 1, 2), "small": ([32, 64, 128, 256], 2, 4), "base": ([64, 128, 256, 512], 3, 6)}
WINDOW, CHANNELS, CHUNK, EPS = 15360, 19, 64, 1e-5


def config_of(preset):
    channels, blocks, layers = WIDTHS[preset]
    return dict(in_channels=CHANNELS, window=WINDOW, encoder_channels=channels, rescnn_blocks=blocks, mamba_layers=layers, d_state=16,
                d_conv=4, expand=2, headdim=64, ngroups=1, dropout=0.1, mixer="mamba2")


def chunked_scan(x, dt, a, b, c):
    """x (B,L,H,P), dt (B,L,H), a (H), b and c (B,L,N), L a multiple of CHUNK: within chunks by matrix products, between them by one
    small matrix over chunks."""
    batch, length, heads, width = x.shape
    n, q = length // CHUNK, CHUNK
    log = (dt * a).reshape(batch, n, q, heads).permute(0, 3, 1, 2).cumsum(-1)  # (B,H,n,q)
    u = (x * dt.unsqueeze(-1)).reshape(batch, n, q, heads, width)
    b, c = b.reshape(batch, n, q, -1), c.reshape(batch, n, q, -1)
    past = torch.ones(q, q, dtype=torch.bool).tril()
    decay = torch.exp((log.unsqueeze(-1) - log.unsqueeze(-2)).masked_fill(~past, -torch.inf))
    scores = (c @ b.transpose(-1, -2)).unsqueeze(1) * decay  # (B,H,n,q,q)
    u = u.permute(0, 3, 1, 2, 4)  # (B,H,n,q,P)
    inside = scores @ u
    left = torch.exp(log[..., -1:] - log)  # decay to the chunk's end
    states = (b.unsqueeze(1) * left.unsqueeze(-1)).transpose(-1, -2) @ u  # (B,H,n,N,P)
    ends = F.pad(log[..., -1].cumsum(-1), (1, 0))  # (B,H,n+1)
    between = ends[..., :-1].unsqueeze(-1) - ends[..., 1:].unsqueeze(-2)
    between = torch.exp(between.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(-1), -torch.inf))
    start = (between @ states.flatten(-2)).reshape(states.shape)
    across = (c.unsqueeze(1) * torch.exp(log).unsqueeze(-1)) @ start
    return (inside + across).permute(0, 2, 3, 1, 4).reshape(batch, length, heads, width)


class Detector:
    def __init__(self, weights, config, training):
        self.config, self.training = config, training
        self.w = {n: torch.tensor(v, requires_grad=training and "running" not in n) for n, v in weights.items()}
        if not training:
            self.fold()

    def parameters(self):
        return {n: t for n, t in self.w.items() if t.requires_grad}

    def fold(self):
        """Batch norm into the convolution before it."""
        for name in [n[: -len(".running_mean")] for n in self.w if n.endswith(".running_mean")]:
            head, _, leaf = name.rpartition(".")
            conv = f"{head}.{leaf.replace('bn', 'conv')}"
            scale = self.w[name + ".weight"] / torch.sqrt(self.w[name + ".running_var"] + EPS)
            self.w[conv + ".weight"] = self.w[conv + ".weight"] * scale[:, None, None]
            self.w[conv + ".bias"] = (self.w[conv + ".bias"] - self.w[name + ".running_mean"]) * scale + self.w[name + ".bias"]

    def conv(self, prefix, x, **kw):
        return F.conv1d(x, self.w[prefix + ".weight"], self.w[prefix + ".bias"], **kw)

    def block(self, conv, bn, x, relu=True):
        w = self.w
        u = self.conv(conv, x, padding=w[conv + ".weight"].shape[2] // 2)
        if self.training:
            u = F.batch_norm(u, w[bn + ".running_mean"], w[bn + ".running_var"], w[bn + ".weight"], w[bn + ".bias"], True, 0.1, EPS)
        return F.relu(u, inplace=not self.training) if relu else u

    def direction(self, prefix, u):
        c, w = self.config, lambda leaf: self.w[prefix + leaf]
        batch, length, d = u.shape
        inner, n, p = d * c["expand"], c["d_state"], c["headdim"]
        z, xbc, dt = torch.split(F.linear(u, w("in_proj.weight")), [inner, inner + 2 * n, inner // p], dim=-1)
        taps = w("conv.weight")
        xbc = F.conv1d(xbc.transpose(1, 2), taps, w("conv.bias"), padding=taps.shape[2] - 1, groups=taps.shape[0])[..., :length]
        x, b, cm = torch.split(F.silu(xbc).transpose(1, 2), [inner, n, n], dim=-1)
        x = x.reshape(batch, length, inner // p, p)
        y = chunked_scan(x, F.softplus(dt + w("dt_bias")), -torch.exp(w("A_log")), b, cm) + w("D").view(1, 1, -1, 1) * x
        q = y.reshape(batch, length, inner) * F.silu(z)
        q = q * torch.rsqrt(q.square().mean(-1, keepdim=True) + EPS) * w("norm.weight")
        return F.linear(q, w("out_proj.weight"))

    def mixer(self, i, x):
        u, w = x.transpose(1, 2).contiguous(), self.w
        both = torch.cat([self.direction(f"mamba.{i}.fwd.", u), self.direction(f"mamba.{i}.bwd.", u.flip(1)).flip(1)], dim=-1)
        o = F.dropout(F.linear(both, w[f"mamba.{i}.fuse.weight"], w[f"mamba.{i}.fuse.bias"]), self.config["dropout"], self.training)
        out = F.layer_norm(u + o, (u.shape[2],), w[f"mamba.{i}.norm.weight"], w[f"mamba.{i}.norm.bias"], EPS)
        return out.transpose(1, 2).contiguous()

    def forward(self, x):
        """x (B, C, T) → logits (B, T)."""
        h, skips = self.block("encoder.stem.conv", "encoder.stem.bn", x), []
        for s in range(4):
            for k in (1, 2):
                h = self.block(f"encoder.{s}.conv{k}", f"encoder.{s}.bn{k}", h)
            skips.append(h)
            h = self.conv(f"encoder.{s}.down", h, stride=2)
        for r in range(self.config["rescnn_blocks"]):
            cat = torch.cat([self.block(f"rescnn.{r}.branch{k}.conv", f"rescnn.{r}.branch{k}.bn", h) for k in (3, 5, 7)], 1)
            fused = self.block(f"rescnn.{r}.fuse.conv", f"rescnn.{r}.fuse.bn", cat, relu=False)
            h = F.relu(F.dropout1d(fused, self.config["dropout"], self.training) + h)
        for i in range(self.config["mamba_layers"]):
            h = self.mixer(i, h)
        for s in range(4):
            up = F.conv_transpose1d(h, self.w[f"decoder.{s}.up.weight"], self.w[f"decoder.{s}.up.bias"], stride=2)
            h = torch.cat([up, skips[3 - s]], 1)
            for k in (1, 2):
                h = self.block(f"decoder.{s}.conv{k}", f"decoder.{s}.bn{k}", h)
        return self.conv("head.out", self.conv("head.proj", h)).squeeze(1)


def focal(logits, y):
    bce = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    p = torch.sigmoid(logits)
    return (0.5 * (1 - torch.where(y > 0, p, 1 - p)) ** 2 * bce).mean()


def torch_steps(weights, config, x, labels):
    """Two functions without arguments: one inference pass, one training step."""
    fixed, trained = Detector(weights, config, False), Detector(weights, config, True)
    groups = [dict(params=[p for n, p in trained.parameters().items() if decays(n, p)], weight_decay=0.05),
              dict(params=[p for n, p in trained.parameters().items() if not decays(n, p)], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, foreach=True)

    def infer():
        with torch.inference_mode():
            return torch.sigmoid(fixed.forward(x))

    def train():
        optimizer.zero_grad(set_to_none=True)
        focal(trained.forward(x), labels).backward()
        torch.nn.utils.clip_grad_norm_(list(trained.parameters().values()), 1.0)
        optimizer.step()

    return infer, train


def blas():
    """The matrix library that PyTorch loaded; with the plain reference BLAS its projections are several times too slow to compare."""
    maps = pathlib.Path("/proc/self/maps").read_text()
    found = [n for n in ("mkl_rt", "openblas", "blis", "libblas") if n in maps]
    return found[0] if found else "unknown"


def seconds(function, least):
    function()
    samples, end = [], time.perf_counter() + least
    while len(samples) < 2 or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        samples.append(time.perf_counter() - start)
    return samples


def bench(kind, preset, batch, threads, least):
    """Median milliseconds of one case of brr-bench and the ratio to its floor."""
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "out.json"
        subprocess.run([str(BUILD / "bin" / "brr-bench"), "detector." + kind, f"{preset} b{batch}", "--threads", str(threads),
                        "--seconds", str(least), "--json", str(out)], check=True, stdout=subprocess.DEVNULL)
        found = json.loads(out.read_text())
    return found["results"][0], found


def same_function(directory, preset, batch, rng):
    """One model file and one input through both; the difference of the logits relative to their size."""
    config = config_of(preset)
    (directory / "config.json").write_text(json.dumps(config))
    driver, model = str(BUILD / "tests" / "golden_net"), directory / "model.safetensors"
    subprocess.run([driver, "init", str(directory / "config.json"), "5", str(model)], check=True)
    weights, metadata = read_safetensors(model)
    weights["head.out.weight"] *= 40  # logits of a size that can be compared
    write_safetensors(model, weights, metadata)
    x = rng.standard_normal((batch, WINDOW, CHANNELS)).astype(np.float32)
    write_safetensors(directory / "x.safetensors", {"x": x})
    subprocess.run([driver, "infer", str(model), str(directory / "x.safetensors"), str(directory / "y.safetensors")], check=True)
    ours = read_safetensors(directory / "y.safetensors")[0]["logits"]
    channels_first = torch.tensor(x).transpose(1, 2).contiguous()
    with torch.inference_mode():
        theirs = Detector(weights, config, False).forward(channels_first).numpy()
    return weights, config, channels_first, float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=WIDTHS, default="tiny")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="turns of PyTorch and brr-bench")
    parser.add_argument("--seconds", type=float, default=2, help="least time of a turn")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.ones(2, 2) @ torch.ones(2, 2)
    if blas() in ("libblas", "unknown"):
        print("warning: PyTorch runs on the reference BLAS; install libopenblas0-openmp for a fair comparison")
    torch.set_flush_denormal(True)
    rng = np.random.default_rng(int(os.environ.get("BRR_TEST_SEED", time.time_ns() % 1_000_000)))
    with tempfile.TemporaryDirectory() as directory:
        weights, config, x, error = same_function(pathlib.Path(directory), options.preset, options.batch, rng)
    if not error < 1e-3:
        print(f"the two do not compute the same: logits differ by {error:.1e}")
        return 1
    labels = torch.tensor((rng.random((options.batch, WINDOW)) < 0.2).astype(np.float32))
    rows, machine = [], {}
    for kind, step in zip(("infer", "train"), torch_steps(weights, config, x, labels)):
        theirs, ours = [], []
        for _ in range(options.rounds):
            theirs += seconds(step, options.seconds)
            row, machine = bench(kind, options.preset, options.batch, options.threads, options.seconds)
            ours.append(row)
        torch_ms, brr_ms = 1e3 * statistics.median(theirs), statistics.median(r["median_ms"] for r in ours)
        rows.append(dict(case=f"detector.{kind} {options.preset} b{options.batch}", torch_ms=torch_ms, brr_ms=brr_ms,
                         speedup=torch_ms / brr_ms, ratio_to_floor=statistics.median(r["ratio_to_floor"] for r in ours)))
    print(f"{machine['machine']}; PyTorch {torch.__version__} "
          f"({'with' if torch.backends.mkldnn.is_available() else 'without'} oneDNN, {blas()}), {options.threads} threads, fp32; logits differ by {error:.1e}")
    print(f"{'case':28} {'PyTorch ms':>11} {'brr ms':>9} {'speedup':>8} {'brr/floor':>9}")
    for r in rows:
        print(f"{r['case']:28} {r['torch_ms']:11.1f} {r['brr_ms']:9.1f} {r['speedup']:7.1f}x {r['ratio_to_floor']:9.2f}")
    if options.json:
        keys = ("machine", "os", "commit", "time", "copy_gbps", "gflops_f32")
        result = dict({k: machine[k] for k in keys}, torch=torch.__version__, torch_onednn=torch.backends.mkldnn.is_available(), blas=blas(), threads=options.threads, logits_difference=error,
                      results=rows)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(math.isfinite(r["speedup"]) for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
