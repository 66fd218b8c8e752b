#!/usr/bin/python3
"""The detector in PyTorch beside brr-bench: same network, weights and batch, on the same processor or GPU, in one run.

    torch_compare.py [--preset tiny|small|base] [--batch N] [--rounds N] [--device cpu|cuda] [--dtype f32|bf16] [--processor-time]
                     [--json FILE]

PyTorch runs as well as it lets itself be written: batch norm folded into the convolutions for inference, projections that follow each
other left as they are trained, inference_mode, oneDNN convolutions; the scan in its chunked matrix form. On a GPU: torch.compile where
PyTorch has it (2 or newer), the scan as a fused Triton kernel where Triton is there, bf16 by autocast, tf32 never. What of these it
was stands in the output and in the JSON. Logits of both are compared first (same file, same input), then both are timed in turns, and
medians divided. Needs PyTorch (Debian: python3-torch), with CUDA for --device cuda; without it the script says so and exits 77.
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
    print("no PyTorch here (Debian: apt-get install python3-torch)")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "golden"))
import torch_scan  # noqa: E402
from torch_seizure import decays, read_safetensors, write_safetensors  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BRR_BUILD_DIR", ROOT / "build"))
WIDTHS = {"tiny": ([16, 32, 64, 128], 1, 2), "small": ([32, 64, 128, 256], 2, 4), "base": ([64, 128, 256, 512], 3, 6)}
WINDOW, CHANNELS, EPS = 15360, 19, 1e-5
COMPARED = 4  # windows whose logits are compared
MOST_APART = {"f32": 1e-3, "bf16": 1e-1}  # logits, relative to the largest


def config_of(preset):
    channels, blocks, layers = WIDTHS[preset]
    return dict(in_channels=CHANNELS, window=WINDOW, encoder_channels=channels, rescnn_blocks=blocks, mamba_layers=layers, d_state=16,
                d_conv=4, expand=2, headdim=64, ngroups=1, dropout=0.1, mixer="mamba2")


class Peer:
    """How PyTorch runs: where, in what, timed by which clock, and by what means; `words` for people."""

    def __init__(self, device, dtype, clock):
        self.clock = clock
        self.device, self.dtype, self.triton_difference = device, dtype, None
        self.compiles = device == "cuda" and hasattr(torch, "compile")
        self.scan, scan_words = torch_scan.matrix_scan, "scan in matrix form"
        if device == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
            torch.backends.cudnn.benchmark = True
            scan_words += " (no Triton here)"
        if device == "cuda" and torch_scan.triton:
            self.triton_difference = torch_scan.difference("cuda")
            if self.triton_difference < 1e-3:
                self.scan, scan_words = torch_scan.TritonScan.apply, f"scan in Triton {torch_scan.triton.__version__}"
            else:
                scan_words = f"scan in matrix form (the Triton kernel is off by {self.triton_difference:.1e} here)"
        compile_words = "torch.compile" if self.compiles else "no torch.compile"
        self.words = f"{compile_words}, {scan_words}" if device == "cuda" else scan_words

    def compiled(self, function):
        return torch.compile(function) if self.compiles else function

    def precision(self):
        return torch.autocast(self.device, torch.bfloat16, enabled=self.dtype == "bf16")

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()


class Detector:
    def __init__(self, weights, config, training, peer):
        self.config, self.training, self.scan = config, training, peer.scan
        self.w = {n: torch.tensor(v, device=peer.device, requires_grad=training and "running" not in n) for n, v in weights.items()}
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
        y = self.scan(x, F.softplus(dt + w("dt_bias")), -torch.exp(w("A_log")), b, cm) + w("D").view(1, 1, -1, 1) * x
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


def torch_steps(weights, config, x, labels, peer):
    """Two functions without arguments: one inference pass, one training step."""
    fixed, trained = Detector(weights, config, False, peer), Detector(weights, config, True, peer)
    groups = [dict(params=[p for n, p in trained.parameters().items() if decays(n, p)], weight_decay=0.05),
              dict(params=[p for n, p in trained.parameters().items() if not decays(n, p)], weight_decay=0.0)]
    fastest = dict(fused=True) if peer.device == "cuda" and peer.compiles else dict(foreach=True)
    optimizer = torch.optim.AdamW(groups, lr=1e-4, **fastest)
    forward, loss = peer.compiled(fixed.forward), peer.compiled(lambda: focal(trained.forward(x), labels))

    def infer():
        with torch.inference_mode(), peer.precision():
            return torch.sigmoid(forward(x))

    def train():
        optimizer.zero_grad(set_to_none=True)
        with peer.precision():
            value = loss()
        value.backward()
        torch.nn.utils.clip_grad_norm_(list(trained.parameters().values()), 1.0)
        optimizer.step()

    return infer, train


def blas():
    """The matrix library that PyTorch loaded; with the plain reference BLAS its projections are several times too slow to compare."""
    maps = pathlib.Path("/proc/self/maps").read_text()
    found = [n for n in ("mkl_rt", "openblas", "blis", "libblas") if n in maps]
    return found[0] if found else "unknown"


def seconds(function, least, peer):
    for _ in range(3 if peer.device == "cuda" else 1):  # compiles, chooses algorithms
        function()
    peer.wait()
    samples, end = [], time.perf_counter() + least
    while len(samples) < 2 or time.perf_counter() < end:
        start = peer.clock()
        function()
        peer.wait()
        samples.append(peer.clock() - start)
    return samples


def bench(kind, options):
    """Median milliseconds of one case of brr-bench and the ratio to its floor."""
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "out.json"
        subprocess.run([str(BUILD / "bin" / "brr-bench"), "detector." + kind, f"{options.preset} b{options.batch}", "--device",
                        options.device, "--dtype", options.dtype, "--threads", str(options.threads), "--seconds",
                        str(options.seconds), "--json", str(out), *options.processor_time], check=True, stdout=subprocess.DEVNULL)
        found = json.loads(out.read_text())
    return found["results"][0], found


def same_function(directory, options, rng, peer):
    """One model file and one input through both; the difference of the logits relative to their size."""
    config = config_of(options.preset)
    (directory / "config.json").write_text(json.dumps(config))
    driver = str(BUILD / "tests" / "golden_net")
    model, x_file, y_file = (directory / f"{name}.safetensors" for name in ("model", "x", "y"))
    subprocess.run([driver, "init", str(directory / "config.json"), "5", str(model)], check=True)
    weights, metadata = read_safetensors(model)
    weights["head.out.weight"] *= 40  # logits of a size that can be compared
    write_safetensors(model, weights, metadata)
    x = rng.standard_normal((options.batch, WINDOW, CHANNELS)).astype(np.float32)
    write_safetensors(x_file, {"x": x[:COMPARED]}, {"settings": json.dumps({"precision": options.dtype})})
    environment = dict(os.environ, BRR_TEST_DEVICE="cuda:0" if options.device == "cuda" else "cpu")
    subprocess.run([driver, "infer", str(model), str(x_file), str(y_file)], check=True, env=environment)
    ours = read_safetensors(y_file)[0]["logits"]
    channels_first = torch.tensor(x, device=peer.device).transpose(1, 2).contiguous()
    with torch.inference_mode(), peer.precision():
        theirs = Detector(weights, config, False, peer).forward(channels_first[:COMPARED]).float().cpu().numpy()
    return weights, config, channels_first, float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=WIDTHS, default="tiny")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="turns of PyTorch and brr-bench")
    parser.add_argument("--seconds", type=float, default=2, help="least time of a turn")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--processor-time", action="store_const", const=["--processor-time"], default=[],
                        help="of one thread each, for a machine with other work")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="bf16: on a GPU only")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no PyTorch with CUDA here")
        return 77
    if options.device == "cpu" and options.dtype == "bf16":
        parser.error("--dtype bf16 needs --device cuda")
    options.threads = 1 if options.processor_time else options.threads
    torch.set_num_threads(options.threads)
    torch.ones(2, 2) @ torch.ones(2, 2)
    if options.device == "cpu" and blas() in ("libblas", "unknown"):
        print("warning: PyTorch runs on the reference BLAS; install libopenblas0-openmp for a fair comparison")
    torch.set_flush_denormal(True)
    peer = Peer(options.device, options.dtype, time.thread_time if options.processor_time else time.perf_counter)
    rng = np.random.default_rng(int(os.environ.get("BRR_TEST_SEED", time.time_ns() % 1_000_000)))
    with tempfile.TemporaryDirectory() as directory:
        weights, config, x, error = same_function(pathlib.Path(directory), options, rng, peer)
    if not error < MOST_APART[options.dtype]:
        print(f"the two do not compute the same: logits differ by {error:.1e}")
        return 1
    labels = torch.tensor((rng.random((options.batch, WINDOW)) < 0.2).astype(np.float32), device=peer.device)
    rows, machine = [], {}
    for kind, step in zip(("infer", "train"), torch_steps(weights, config, x, labels, peer)):
        theirs, ours = [], []
        for _ in range(options.rounds):
            theirs += seconds(step, options.seconds, peer)
            row, machine = bench(kind, options)
            ours.append(row)
        torch_ms, brr_ms = 1e3 * statistics.median(theirs), statistics.median(r["median_ms"] for r in ours)
        rows.append(dict(case=f"detector.{kind} {options.preset} b{options.batch}", torch_ms=torch_ms, brr_ms=brr_ms,
                         speedup=torch_ms / brr_ms, ratio_to_floor=statistics.median(r["ratio_to_floor"] for r in ours)))
    onednn = torch.backends.mkldnn.is_available()
    host = f"{'with' if onednn else 'without'} oneDNN, {blas()}, {options.threads} threads, " if options.device == "cpu" else ""
    print(f"{machine['machine']}; PyTorch {torch.__version__} ({host}{peer.words}), {options.dtype}; logits differ by {error:.1e}")
    print(f"{'case':28} {'PyTorch ms':>11} {'brr ms':>9} {'speedup':>8} {'brr/floor':>9}")
    for r in rows:
        print(f"{r['case']:28} {r['torch_ms']:11.1f} {r['brr_ms']:9.1f} {r['speedup']:7.1f}x {r['ratio_to_floor']:9.2f}")
    if options.json:
        keys = ("machine", "os", "commit", "time", "clock", "copy_gbps", "gflops_f32")
        result = dict({k: machine[k] for k in keys}, torch=torch.__version__, torch_onednn=onednn, blas=blas(),
                      threads=options.threads, device=options.device, dtype=options.dtype, torch_means=peer.words,
                      triton_difference=peer.triton_difference, logits_difference=error, results=rows)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(math.isfinite(r["speedup"]) for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
