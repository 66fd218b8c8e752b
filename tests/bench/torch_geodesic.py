#!/usr/bin/python3
"""The training of geodesic models in PyTorch beside brr-bench: the same six folds of the built-in spectra, the same closed form, flow head,
loss, clipping and AdamW, all folds as one batch, float32. Prints seconds per optimizer step of one fold and their ratio.
usage: torch_geodesic.py [--bin build/bin] [--threads N] [--steps N]   (Debian's python3-torch)"""
import argparse
import json
import math
import subprocess
import sys
import tempfile
import time

try:
    import torch
except ImportError:
    print("no PyTorch here (Debian: apt-get install python3-torch)")
    sys.exit(77)

X4 = [0.339981043584856264802666, 0.861136311594052575223946]
W4 = [0.652145154862546142626936, 0.347854845137453857373064]
NODES = [0.5 * (1 - X4[1]), 0.5 * (1 - X4[0]), 0.5 * (1 + X4[0]), 0.5 * (1 + X4[1])]
WEIGHTS = [0.5 * W4[1], 0.5 * W4[0], 0.5 * W4[0], 0.5 * W4[1]]
CONCENTRATIONS = [0, 10, 20, 30, 40, 60]


def formula(c, wave):
    band = 0.6 + 0.4 * torch.exp(-(((wave - 663) / 60) ** 2))
    return 0.09 + 0.16 * torch.exp(-(wave - 200) / 14) + 0.03 * math.exp(-(((c - 20) / 14) ** 2)) * band + 0.012 * (c / (c + 15)) * wave / 800


class Net(torch.nn.Module):
    """Six networks of two tanh layers side by side."""

    def __init__(self, groups, sizes, gain):
        super().__init__()
        self.w = torch.nn.ParameterList()
        self.b = torch.nn.ParameterList()
        for a, b in zip(sizes, sizes[1:]):
            bound = gain * math.sqrt(6 / (a + b))
            self.w.append(torch.nn.Parameter((torch.rand(groups, a, b) * 2 - 1) * bound))
            self.b.append(torch.nn.Parameter(torch.zeros(groups, 1, b)))

    def forward(self, x):
        for i, (w, b) in enumerate(zip(self.w, self.b)):
            x = torch.baddbmm(b, x, w)
            x = torch.tanh(x) if i < 2 else x
        return x[..., 0]


def train(steps, batch=50):
    torch.manual_seed(1)
    wave = torch.arange(200, 801, dtype=torch.float32)
    table = torch.stack([formula(c, wave) for c in CONCENTRATIONS])
    folds, n = len(CONCENTRATIONS), len(CONCENTRATIONS) - 1
    keep = [[k for k in range(folds) if k != h] for h in range(folds)]
    spectra = torch.stack([(table[k] - table[k].mean()) / table[k].std(unbiased=False) for k in keep])
    knots = torch.stack([torch.tensor([(CONCENTRATIONS[k] - 30) / 30 for k in rows]) for rows in keep])
    widths = knots[:, 1:] - knots[:, :-1]
    c = (knots[:, :-1, None] + widths[:, :, None] * torch.tensor(NODES)).reshape(folds, -1)
    weight = (widths[:, :, None] * torch.tensor(WEIGHTS)).reshape(folds, -1)
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    source = torch.tensor([a for a, _ in pairs])
    target = torch.tensor([b for _, b in pairs])
    sign = torch.tensor([1.0 if a < b else -1.0 for a, b in pairs])
    path = torch.tensor([i for i, (a, b) in enumerate(pairs) for _ in range(4 * abs(a - b))])
    node = torch.tensor([q for a, b in pairs for q in range(4 * min(a, b), 4 * max(a, b))])
    metric, flow = Net(folds, (2, 128, 256, 1), 1.0), Net(folds, (3, 64, 128, 1), 0.7)
    optimizer = torch.optim.AdamW([{"params": metric.parameters(), "lr": 5e-4}, {"params": flow.parameters(), "lr": 1e-3}], weight_decay=0.0)
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        rows = torch.randperm(601)[:batch]
        lam = ((wave[rows] - 500) / 300).expand(folds, batch)
        x = torch.stack((c[:, None, :].expand(folds, batch, -1), lam[:, :, None].expand(folds, batch, c.shape[1])), -1)
        w = torch.sqrt(torch.nn.functional.softplus(metric(x.reshape(folds, -1, 2))) + 0.1).reshape(folds, batch, -1)
        part = (weight[:, None, :] * w)[..., node]
        length = torch.zeros(folds, batch, len(pairs)).index_add(2, path, part)
        along = length[..., path]
        v = sign[path] * along / w[..., node]
        inputs = torch.stack((c[:, None, node].expand_as(v), v, lam[:, :, None].expand_as(v)), -1)
        f = flow(inputs.reshape(folds, -1, 3)).reshape(folds, batch, -1)
        change = torch.zeros(folds, batch, len(pairs)).index_add(2, path, f * part / along)
        a = spectra[:, :, rows].transpose(1, 2)
        loss = ((a[..., source] + change - a[..., target]) ** 2).mean((1, 2))
        optimizer.zero_grad()
        loss.sum().backward()
        for h in range(folds):
            grads = [p.grad[h] for p in list(metric.parameters()) + list(flow.parameters())]
            norm = torch.sqrt(sum((g**2).sum() for g in grads))
            for g in grads:
                g.mul_(torch.clamp(1 / norm, max=1.0))
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[len(seconds) // 2] / folds, loss.detach().mean().item()


def ours(binary, threads):
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        subprocess.run([f"{binary}/brr-bench", "geodesic", "fold closed_form", "--threads", str(threads), "--json", f.name], check=True, stdout=subprocess.DEVNULL)
        with open(f.name, encoding="utf-8") as written: # the file was replaced
            return json.load(written)["results"][0]["median_ms"] / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--steps", type=int, default=15)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    before = ours(o.bin, o.threads)
    theirs, loss = train(o.steps)
    after = ours(o.bin, o.threads)
    mine = (before + after) / 2
    print(json.dumps({"torch": torch.__version__, "threads": o.threads, "torch_s_per_fold_step": theirs, "brr_s_per_fold_step": mine,
                      "ratio": theirs / mine, "torch_geodesics_per_s": 1000 / theirs, "brr_geodesics_per_s": 1000 / mine, "torch_loss": loss}))


if __name__ == "__main__":
    main()
