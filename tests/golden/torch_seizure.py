"""The detector's network written independently in PyTorch, in float64: the reference that the C program is held against.

Weights come from a checkpoint by name; arithmetic is autograd's. The scan is the quadratic form of the state-space dual:
y = ((C Bᵀ) ∘ L) (Δ x) with L[i, j] = exp(Σ_{j<k<=i} Δ_k A), without chunks. Dropout masks are drawn from Philox4x32-10 as the
project's contract says: key = seed, counter = (index low, index high, step, stream).
"""
import json
import struct

import numpy as np
import torch
import torch.nn.functional as F

EPS = 1e-5
DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64, "I32": np.int32, "U8": np.uint8}
RNG_DROPOUT, RNG_MAMBA = 3, 103


def read_safetensors(path):
    with open(path, "rb") as f:
        data = f.read()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, row in header.items():
        first, last = row["data_offsets"]
        raw = np.frombuffer(data[8 + n + first : 8 + n + last], dtype=DTYPES[row["dtype"]])
        tensors[name] = raw.reshape(row["shape"]).copy()
    return tensors, metadata


def write_safetensors(path, tensors, metadata=None):
    names = {np.dtype(v): k for k, v in DTYPES.items()}
    header, at, blobs = {}, 0, []
    if metadata:
        header["__metadata__"] = metadata
    for name, t in tensors.items():
        blob = np.ascontiguousarray(t).tobytes()
        header[name] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def philox(seed, stream, step, index):
    """Four 32-bit words for each 64-bit index."""
    mask = np.uint64(0xFFFFFFFF)
    index = index.astype(np.uint64)
    c = [index & mask, index >> np.uint64(32), np.full_like(index, step), np.full_like(index, stream)]
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ k0, p1 & mask, (p0 >> np.uint64(32)) ^ c[3] ^ k1, p0 & mask]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & mask, (k1 + np.uint64(0xBB67AE85)) & mask
    return np.stack(c, axis=-1)


class Net:
    """A functional network over a dictionary of float64 leaves named as in the checkpoint."""

    def __init__(self, weights, config):
        self.config = config
        self.w = {}
        for name, value in weights.items():
            buffer = name.endswith(("running_mean", "running_var"))
            self.w[name] = torch.tensor(value, dtype=torch.float64, requires_grad=not buffer)
        self.training = False
        self.seed = self.step = self.row0 = 0
        self.masks = None  # name of a convolution's weight → (B, T, C): which way its ReLU went over there
        self.crossed = 0.0  # largest activation, against the spread of its tensor, that went another way than its sign says

    def parameters(self):
        return {n: t for n, t in self.w.items() if t.requires_grad}

    def dropout(self, x, stream, per_channel):
        """x (B, C, T) as everywhere here; the element index of the contract is channel-last."""
        p = self.config["dropout"]
        if not self.training or p == 0:
            return x
        b, c, t = x.shape
        n = c if per_channel else t * c
        index = np.arange(self.row0 * n, (self.row0 + b) * n, dtype=np.uint64)
        words = philox(self.seed, stream, self.step, index // np.uint64(4))
        bits = words[np.arange(len(index)), (index % np.uint64(4)).astype(np.int64)]
        keep = (bits >> np.uint64(8)).astype(np.float64) * 2.0**-24 >= np.float64(np.float32(p))
        mask = keep.reshape(b, c, 1) if per_channel else keep.reshape(b, t, c).transpose(0, 2, 1)
        return x * torch.tensor(mask / (1 - p))

    def relu(self, name, u):
        """With given masks: the same, but for values within rounding of zero."""
        if self.masks is None:
            return torch.relu(u)
        mask = torch.tensor(self.masks[name + ".weight"].astype(np.float64)).transpose(1, 2)
        values = u.detach()
        other = (values > 0) != (mask > 0)
        if other.any():
            self.crossed = max(self.crossed, float(values[other].abs().max() / values.std()))
        return u * mask

    def conv(self, prefix, x, **kw):
        return F.conv1d(x, self.w[prefix + ".weight"], self.w[prefix + ".bias"], **kw)

    def block(self, conv, bn, x, relu=True):
        k = self.w[conv + ".weight"].shape[2]
        w = self.w
        u = F.batch_norm(self.conv(conv, x, padding=k // 2), w[bn + ".running_mean"], w[bn + ".running_var"],
                         w[bn + ".weight"], w[bn + ".bias"], self.training, 0.1, EPS)
        return self.relu(conv, u) if relu else u

    def scan(self, prefix, u):
        """One Mamba-2 block, u (B, L, D)."""
        c, w = self.config, lambda leaf: self.w[prefix + leaf]
        b, l, d = u.shape
        inner, g, n, p = d * c["expand"], c["ngroups"], c["d_state"], c["headdim"]
        h = inner // p
        z, xbc, dt = torch.split(u @ w("in_proj.weight").T, [inner, inner + 2 * g * n, h], dim=-1)
        taps = w("conv.weight")
        xbc = F.conv1d(F.pad(xbc.transpose(1, 2), (taps.shape[2] - 1, 0)), taps, w("conv.bias"), groups=taps.shape[0])
        x, bm, cm = torch.split(F.silu(xbc).transpose(1, 2), [inner, g * n, g * n], dim=-1)
        x = x.reshape(b, l, h, p)
        bm = bm.reshape(b, l, g, n).repeat_interleave(h // g, dim=2)
        cm = cm.reshape(b, l, g, n).repeat_interleave(h // g, dim=2)
        dt = F.softplus(dt + w("dt_bias"))
        total = torch.cumsum(-dt * torch.exp(w("A_log")), dim=1).transpose(1, 2)  # (B, H, L)
        decay = total.unsqueeze(-1) - total.unsqueeze(-2)
        past = torch.ones(l, l, dtype=torch.bool).tril()
        decay = torch.exp(torch.where(past, decay, torch.full_like(decay, -torch.inf)))
        scores = torch.einsum("bihn,bjhn->bhij", cm, bm) * decay
        y = torch.einsum("bhij,bjhp->bihp", scores, x * dt.unsqueeze(-1)) + w("D").view(1, 1, h, 1) * x
        q = (y.reshape(b, l, inner) * F.silu(z)).reshape(b, l, g, inner // g)
        q = q * torch.rsqrt(q.square().mean(-1, keepdim=True) + EPS)
        return (q.reshape(b, l, inner) * w("norm.weight")) @ w("out_proj.weight").T

    def direction(self, prefix, u):
        if self.config["mixer"] == "mamba2":
            return self.scan(prefix, u)
        taps = self.w[prefix + "conv.weight"]
        y = F.conv1d(u.transpose(1, 2), taps, self.w[prefix + "conv.bias"], padding=taps.shape[2] // 2, groups=taps.shape[0])
        return y.transpose(1, 2)

    def mixer(self, i, x):
        u = x.transpose(1, 2)
        f = self.direction(f"mamba.{i}.fwd.", u)
        b = self.direction(f"mamba.{i}.bwd.", u.flip(1)).flip(1)
        o = torch.cat([f, b], dim=-1) @ self.w[f"mamba.{i}.fuse.weight"].T + self.w[f"mamba.{i}.fuse.bias"]
        o = self.dropout(o.transpose(1, 2), RNG_MAMBA + i, False).transpose(1, 2)
        out = F.layer_norm(u + o, (u.shape[2],), self.w[f"mamba.{i}.norm.weight"], self.w[f"mamba.{i}.norm.bias"], EPS)
        return out.transpose(1, 2)

    def forward(self, x):
        """x (B, T, C) → logits (B, T)."""
        h = self.block("encoder.stem.conv", "encoder.stem.bn", x.transpose(1, 2))
        skips = []
        for s in range(4):
            for k in (1, 2):
                h = self.block(f"encoder.{s}.conv{k}", f"encoder.{s}.bn{k}", h)
            skips.append(h)
            h = self.conv(f"encoder.{s}.down", h, stride=2)
        for r in range(self.config["rescnn_blocks"]):
            branches = [self.block(f"rescnn.{r}.branch{k}.conv", f"rescnn.{r}.branch{k}.bn", h) for k in (3, 5, 7)]
            fused = self.block(f"rescnn.{r}.fuse.conv", f"rescnn.{r}.fuse.bn", torch.cat(branches, 1), relu=False)
            h = self.relu(f"rescnn.{r}.fuse.conv", self.dropout(fused, RNG_DROPOUT + r, True) + h)
        for i in range(self.config["mamba_layers"]):
            h = self.mixer(i, h)
        for s in range(4):
            up = F.conv_transpose1d(h, self.w[f"decoder.{s}.up.weight"], self.w[f"decoder.{s}.up.bias"], stride=2)
            h = torch.cat([up, skips[3 - s]], 1)
            for k in (1, 2):
                h = self.block(f"decoder.{s}.conv{k}", f"decoder.{s}.bn{k}", h)
        return self.conv("head.out", self.conv("head.proj", h)).squeeze(1)


def loss_sum(logits, labels, valid, settings):
    """Sum over the counted samples."""
    y = torch.tensor(labels.astype(np.float64))
    counted = (torch.arange(logits.shape[1])[None, :] < torch.tensor(valid)[:, None]) & (y <= 1)
    y = torch.where(counted, y, torch.zeros_like(y))
    weight = torch.tensor(settings["pos_weight"], dtype=torch.float64)
    bce = F.binary_cross_entropy_with_logits(logits, y, reduction="none", pos_weight=weight)
    if settings["loss"] == "focal":
        p = torch.sigmoid(logits)
        pt = torch.where(y > 0, p, 1 - p)
        alpha = torch.where(y > 0, settings["alpha"], 1 - settings["alpha"])
        bce = alpha * (1 - pt) ** settings["gamma"] * bce
    return (bce * counted).sum()


def decays(name, tensor):
    """Weight decay acts on convolution and projection weights alone."""
    return tensor.dim() >= 2
