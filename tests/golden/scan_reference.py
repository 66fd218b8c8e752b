#!/usr/bin/env python3
"""Golden cases for the op table, computed in float64 with numpy from the formulas in kernels/op.h.

  scan_reference.py --selftest [--seed S]          every gradient against central differences and the complex step
  scan_reference.py --out DIR --seed S [--cases a,b] [--bf16]   one safetensors file per case
  scan_reference.py --list

A case file holds F32 inputs under their own names (scan1: u delta A B C D dbias z h0; ssd: x delta A B C D dbias h0; conv:
x w b s0), the incoming gradients g_out and g_hT or g_state, and the F64 answers ref_<output> and ref_grad_<input>. Its metadata
gives the op and its attributes. Inputs are rounded to float32 first (with --bf16 the activations to bfloat16), so that a
kernel reads exactly what the answers were computed from.
"""
import argparse
import json
import os
import struct
import sys

import numpy as np

ACTIVATIONS = {"scan1": ("u", "delta", "B", "C", "z", "g_out"), "ssd": ("x", "delta", "B", "C", "g_out"), "conv1d_causal": ("x", "g_out"),
               "layernorm": ("x", "residual", "g_out"), "rmsnorm_gated": ("y", "z", "g_out")}


def write_safetensors(path, tensors, metadata):
    kinds = {np.dtype(np.float32): "F32", np.dtype(np.float64): "F64", np.dtype(np.uint8): "U8", np.dtype(np.int64): "I64"}
    header, at, blobs = {"__metadata__": metadata}, 0, []
    for name, value in tensors.items():
        value = np.ascontiguousarray(value)
        header[name] = {"dtype": kinds[value.dtype], "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
        blobs.append(value.tobytes())
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_safetensors(path):
    kinds = {"F32": np.float32, "F64": np.float64, "U8": np.uint8, "I64": np.int64}
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    metadata = header.pop("__metadata__", {})
    return {k: np.frombuffer(data[slice(*v["data_offsets"])], kinds[v["dtype"]]).reshape(v["shape"]) for k, v in header.items()}, metadata


# Scalar functions; they take complex arguments with a tiny imaginary part (complex-step differentiation).
def softplus(s):
    positive = np.real(s) > 0
    return np.where(positive, s, 0) + np.log1p(np.exp(np.where(positive, -s, s)))


def logistic(s):
    e = np.exp(-np.where(np.real(s) >= 0, s, -s))
    return np.where(np.real(s) >= 0, 1, e) / (1 + e)


def silu(x):
    return x * logistic(x)


def silu_slope(x):
    s = logistic(x)
    return s + x * s * (1 - s)


def series_or(v, coefficients, formula):
    """A power series where |v| < 0.1, else the closed formula."""
    near = np.abs(v) < 0.1
    total = 0 * v
    for c in reversed(coefficients):
        total = total * v + c
    return np.where(near, total, formula(np.where(near, 1.0, v)))


def factorials(n):
    return np.cumprod(np.concatenate([[1.0], np.arange(1.0, n)]))


def phi(v):
    """(e^v - 1)/v = sum v^k/(k+1)!"""
    return series_or(v, 1 / factorials(14)[1:], lambda w: (np.exp(w) - 1) / w)


def phi_slope(v):
    """(e^v (v - 1) + 1)/v^2 = sum (k+1) v^k/(k+2)!"""
    f = factorials(15)
    return series_or(v, [(k + 1) / f[k + 2] for k in range(12)], lambda w: (np.exp(w) * (w - 1) + 1) / w ** 2)


class Step:
    """delta (+ bias) -> Delta, and back."""

    def __init__(self, p, softplus_on, clamp):
        self.pre = p["delta"] + p["dbias"] if "dbias" in p else p["delta"]
        self.on, self.clamp = softplus_on, clamp
        self.raw = softplus(self.pre) if softplus_on else self.pre
        self.value = self.raw
        if clamp:
            lo, hi = clamp
            self.value = np.where(np.real(self.raw) < lo, lo, np.where(np.real(self.raw) > hi, hi, self.raw))

    def back(self, g):
        if self.clamp:
            inside = (np.real(self.raw) >= self.clamp[0]) & (np.real(self.raw) <= self.clamp[1])
            g = g * inside
        return g * logistic(self.pre) if self.on else g


def spread(states, channels):
    """(b,l,G,N) -> (b,l,channels,N): every channel of a group reads its group's row."""
    return np.repeat(states, channels // states.shape[2], axis=2)


def gather(g, groups):
    b, l, channels, n = g.shape
    return g.reshape(b, l, groups, channels // groups, n).sum(axis=3)


def scan1(p, softplus_on=True, clamp=None, zoh=False):
    """Mamba-1. Returns (outputs, tape)."""
    u, a_matrix = p["u"], p["A"]
    b, l, d = u.shape
    step = Step(p, softplus_on, clamp)
    v = step.value[..., None] * a_matrix
    decay, weight = np.exp(v), phi(v) if zoh else np.ones_like(v)
    bm, cm = spread(p["B"], d), spread(p["C"], d)
    kind = np.result_type(*p.values())
    h = np.array(p["h0"], dtype=kind) if "h0" in p else np.zeros((b, d, a_matrix.shape[1]), kind)
    before, after = [], []
    for t in range(l):
        before.append(h)
        h = decay[:, t] * h + (step.value[:, t] * u[:, t])[..., None] * weight[:, t] * bm[:, t]
        after.append(h)
    before, after = np.stack(before, 1), np.stack(after, 1)
    y = np.einsum("bldn,bldn->bld", after, cm)
    if "D" in p:
        y = y + p["D"] * u
    out = y * silu(p["z"]) if "z" in p else y
    return {"out": out, "hT": h}, dict(step=step, v=v, decay=decay, weight=weight, bm=bm, cm=cm, before=before, after=after, y=y, zoh=zoh)


def scan1_back(p, tape, g_out, g_ht):
    u, a_matrix, groups = p["u"], p["A"], p["B"].shape[2]
    delta, decay = tape["step"].value[..., None], tape["decay"]
    g = {}
    gy = g_out
    if "z" in p:
        g["z"] = g_out * tape["y"] * silu_slope(p["z"])
        gy = g_out * silu(p["z"])
    lam = np.zeros_like(tape["before"])
    carry = g_ht
    for t in reversed(range(u.shape[1])):
        lam[:, t] = carry + gy[:, t, :, None] * tape["cm"][:, t]
        carry = decay[:, t] * lam[:, t]
    kept = decay * tape["before"]
    drive = tape["bm"] * u[..., None]
    g["C"] = gather(gy[..., None] * tape["after"], groups)
    g["B"] = gather(lam * delta * tape["weight"] * u[..., None], groups)
    g["u"] = (lam * delta * tape["weight"] * tape["bm"]).sum(-1)
    slope = decay if tape["zoh"] else 1.0
    g_delta = (lam * (a_matrix * kept + slope * drive)).sum(-1)
    g_a = lam * delta * kept
    if tape["zoh"]:
        g_a = g_a + lam * delta ** 2 * phi_slope(tape["v"]) * drive
    g["A"] = g_a.sum((0, 1))
    if "D" in p:
        g["D"] = (gy * u).sum((0, 1))
        g["u"] = g["u"] + gy * p["D"]
    g["delta"] = tape["step"].back(g_delta)
    if "dbias" in p:
        g["dbias"] = g["delta"].sum((0, 1))
    if "h0" in p:
        g["h0"] = carry
    return g


def ssd(p, softplus_on=True, clamp=None):
    """Mamba-2 as the plain recurrence."""
    x, heads = p["x"], p["x"].shape[2]
    step = Step(p, softplus_on, clamp)
    decay = np.exp(step.value * p["A"])[..., None, None]
    bm, cm = spread(p["B"], heads), spread(p["C"], heads)
    kind = np.result_type(*p.values())
    h = np.array(p["h0"], dtype=kind) if "h0" in p else np.zeros(x.shape[:1] + x.shape[2:] + bm.shape[3:], kind)
    before, after = [], []
    for t in range(x.shape[1]):
        before.append(h)
        h = decay[:, t] * h + np.einsum("bh,bhp,bhn->bhpn", step.value[:, t], x[:, t], bm[:, t])
        after.append(h)
    before, after = np.stack(before, 1), np.stack(after, 1)
    out = np.einsum("blhpn,blhn->blhp", after, cm)
    if "D" in p:
        out = out + p["D"][:, None] * x
    return {"out": out, "hT": h}, dict(step=step, decay=decay, bm=bm, cm=cm, before=before, after=after)


def ssd_back(p, tape, g_out, g_ht):
    x, groups, delta = p["x"], p["B"].shape[2], tape["step"].value
    lam = np.zeros_like(tape["before"])
    carry = g_ht
    for t in reversed(range(x.shape[1])):
        lam[:, t] = carry + g_out[:, t, ..., None] * tape["cm"][:, t, :, None, :]
        carry = tape["decay"][:, t] * lam[:, t]
    along = (lam * tape["decay"] * tape["before"]).sum((-1, -2))
    g_input = np.einsum("blhpn,blhn->blhp", lam, tape["bm"])
    g = {"x": delta[..., None] * g_input,
         "A": (delta * along).sum((0, 1)),
         "B": gather(np.einsum("blhpn,blhp,blh->blhn", lam, x, delta), groups),
         "C": gather(np.einsum("blhpn,blhp->blhn", tape["after"], g_out), groups),
         "delta": tape["step"].back(p["A"] * along + (g_input * x).sum(-1))}
    if "D" in p:
        g["D"] = (g_out * x).sum((0, 1, 3))
        g["x"] = g["x"] + p["D"][:, None] * g_out
    if "dbias" in p:
        g["dbias"] = g["delta"].sum((0, 1))
    if "h0" in p:
        g["h0"] = carry
    return g


def ssd_chunked(p, q):
    """The same function in the chunked matrix form: a check of the formula itself."""
    step = Step(p, True, None)
    x, bm, cm = p["x"], spread(p["B"], p["x"].shape[2]), spread(p["C"], p["x"].shape[2])
    h = p["h0"] if "h0" in p else np.zeros(x.shape[:1] + x.shape[2:] + bm.shape[3:])
    out = np.zeros_like(x)
    for s in range(0, x.shape[1], q):
        part = slice(s, s + q)
        c = np.cumsum(step.value[:, part] * p["A"], axis=1)
        n = c.shape[1]
        causal = np.tri(n, dtype=bool)[None, :, :, None]
        decay = np.where(causal, np.exp(np.where(causal, c[:, :, None] - c[:, None], 0)), 0)
        scaled = step.value[:, part, :, None] * x[:, part]
        out[:, part] = np.einsum("bihn,bjhn,bijh,bjhp->bihp", cm[:, part], bm[:, part], decay, scaled)
        out[:, part] += np.einsum("bihn,bhpn,bih->bihp", cm[:, part], h, np.exp(c))
        last = np.exp(c[:, -1:] - c)
        h = np.exp(c[:, -1])[..., None, None] * h + np.einsum("bjh,bjhp,bjhn->bhpn", last, scaled, bm[:, part])
    return {"out": out + p["D"][:, None] * x, "hT": h}


def conv(p, act=True):
    x, w = p["x"], p["w"]
    b, l, d = x.shape
    k = w.shape[1]
    seen = np.concatenate([p["s0"] if "s0" in p else np.zeros((b, k - 1, d)), x], axis=1)
    pre = sum(w[:, i] * seen[:, i:i + l] for i in range(k)) + (p["b"] if "b" in p else 0)
    return {"out": silu(pre) if act else pre, "state": seen[:, l:]}, dict(seen=seen, pre=pre, act=act)


def conv_back(p, tape, g_out, g_state):
    w = p["w"]
    k, l = w.shape[1], g_out.shape[1]
    gp = g_out * silu_slope(tape["pre"]) if tape["act"] else g_out
    g_seen = np.zeros_like(tape["seen"])
    g_seen[:, l:] += g_state
    for i in range(k):
        g_seen[:, i:i + l] += w[:, i] * gp
    g = {"x": g_seen[:, k - 1:], "w": np.stack([(gp * tape["seen"][:, i:i + l]).sum((0, 1)) for i in range(k)], axis=1)}
    if "b" in p:
        g["b"] = gp.sum((0, 1))
    if "s0" in p:
        g["s0"] = g_seen[:, :k - 1]
    return g


def layernorm(p, eps=1e-5):
    r = p["x"] + p["residual"] if "residual" in p else p["x"]
    centred = r - r.mean(-1, keepdims=True)
    rs = 1 / np.sqrt((centred ** 2).mean(-1, keepdims=True) + eps)
    return {"out": centred * rs * p["w"] + p["b"], "sum": r}, dict(hat=centred * rs, rs=rs)


def layernorm_back(p, tape, g_out, _):
    hat, t = tape["hat"], g_out * p["w"]
    g_r = tape["rs"] * (t - t.mean(-1, keepdims=True) - hat * (t * hat).mean(-1, keepdims=True))
    g = {"x": g_r, "w": (g_out * hat).sum((0, 1)), "b": g_out.sum((0, 1))}
    if "residual" in p:
        g["residual"] = g_r
    return g


def rmsnorm_gated(p, groups=1, eps=1e-5):
    q = p["y"] * silu(p["z"])
    cut = q.reshape(q.shape[:-1] + (groups, -1))
    rs = 1 / np.sqrt((cut ** 2).mean(-1, keepdims=True) + eps)
    hat = (cut * rs).reshape(q.shape)
    return {"out": hat * p["w"]}, dict(hat=hat, rs=rs, cut=cut.shape)


def rmsnorm_gated_back(p, tape, g_out, _):
    hat, t = tape["hat"].reshape(tape["cut"]), (g_out * p["w"]).reshape(tape["cut"])
    g_q = (tape["rs"] * (t - hat * (t * hat).mean(-1, keepdims=True))).reshape(g_out.shape)
    return {"w": (g_out * tape["hat"]).sum((0, 1)), "y": g_q * silu(p["z"]), "z": g_q * p["y"] * silu_slope(p["z"])}


OPS = {"scan1": (scan1, scan1_back, "hT"), "ssd": (ssd, ssd_back, "hT"), "conv1d_causal": (conv, conv_back, "state"),
       "layernorm": (layernorm, layernorm_back, None), "rmsnorm_gated": (rmsnorm_gated, rmsnorm_gated_back, None)}


class Draw:
    """Random inputs, rounded to float32."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def round(self, x):
        return np.asarray(x).astype(np.float32).astype(np.float64)

    def normal(self, *shape, scale=1.0):
        return self.round(scale * self.rng.standard_normal(shape))

    def uniform(self, low, high, *shape):
        return self.round(self.rng.uniform(low, high, shape))

    def step_bias(self, n):
        """Inverse softplus of a log-uniform step in [1e-3, 1e-1]."""
        dt = np.maximum(np.exp(self.rng.uniform(np.log(1e-3), np.log(1e-1), n)), 1e-4)
        return self.round(dt + np.log(-np.expm1(-dt)))

    def scan1(self, b, l, d, n, groups=1, h0=False, z=True):
        p = dict(u=self.normal(b, l, d), delta=self.normal(b, l, d),
                 A=self.round(-np.arange(1, n + 1) * np.exp(0.2 * self.rng.standard_normal((d, n)))),
                 B=self.normal(b, l, groups, n), C=self.normal(b, l, groups, n), D=self.normal(d), dbias=self.step_bias(d))
        if z:
            p["z"] = self.normal(b, l, d)
        if h0:
            p["h0"] = self.normal(b, d, n)
        return p

    def bench(self, b, l, d, n):
        return dict(u=self.normal(b, l, d), delta=self.uniform(-0.01, 0.11, b, l, d), A=-np.tile(np.arange(1.0, n + 1), (d, 1)),
                    B=self.normal(b, l, 1, n), C=self.normal(b, l, 1, n))

    def ssd(self, b, l, heads, width, n, groups=1, h0=False):
        p = dict(x=self.normal(b, l, heads, width), delta=self.normal(b, l, heads), A=-self.uniform(1, 16, heads),
                 B=self.normal(b, l, groups, n), C=self.normal(b, l, groups, n), D=self.normal(heads), dbias=self.step_bias(heads))
        if h0:
            p["h0"] = self.normal(b, heads, width, n)
        return p

    def conv(self, b, l, d, k):
        bound = k ** -0.5
        return dict(x=self.normal(b, l, d), w=self.uniform(-bound, bound, d, k), b=self.normal(d, scale=0.1), s0=self.normal(b, k - 1, d))

    def layernorm(self, b, l, d):
        return dict(x=self.normal(b, l, d), residual=self.normal(b, l, d), w=self.uniform(0.5, 1.5, d), b=self.normal(d))

    def gated(self, b, l, d):
        return dict(y=self.normal(b, l, d), z=self.normal(b, l, d), w=self.uniform(0.5, 1.5, d))


def extreme(change):
    def make(r):
        p = r.scan1(2, 130, 16, 16)
        p.update(change(r, p))
        return p
    return make


BENCH = dict(softplus_on=False, clamp=[float(np.float32(edge)) for edge in (1e-3, 0.1)])  # a Δ may be drawn on an edge
CASES = {  # name: (op, options, inputs from a Draw)
    "scan1_tiny": ("scan1", {}, lambda r: r.scan1(2, 7, 4, 3)),
    "scan1_groups_h0": ("scan1", {}, lambda r: r.scan1(2, 37, 12, 16, groups=2, h0=True)),
    "scan1_L1": ("scan1", {}, lambda r: r.scan1(3, 1, 16, 16, h0=True)),
    "scan1_zoh": ("scan1", dict(zoh=True), lambda r: r.scan1(1, 33, 8, 16)),
    "scan1_nogate": ("scan1", {}, lambda r: r.scan1(2, 50, 24, 16, z=False)),
    "scan1_eeg": ("scan1", {}, lambda r: r.scan1(1, 960, 32, 16)),
    "scan1_wide_state": ("scan1", {}, lambda r: r.scan1(1, 40, 19, 65, h0=True)),
    "bench_small": ("scan1", BENCH, lambda r: r.bench(4, 60, 64, 16)),
    "bench_full": ("scan1", BENCH, lambda r: r.bench(32, 60, 512, 16)),
    "scan1_big_delta": ("scan1", {}, extreme(lambda r, p: dict(delta=r.uniform(15, 30, *p["delta"].shape)))),
    "scan1_neg_delta": ("scan1", {}, extreme(lambda r, p: dict(delta=r.uniform(-60, -20, *p["delta"].shape)))),
    "scan1_big_A": ("scan1", {}, extreme(lambda r, p: dict(A=-r.uniform(100, 5000, *p["A"].shape)))),
    "scan1_tiny_A": ("scan1", {}, extreme(lambda r, p: dict(A=-r.uniform(1e-8, 1e-4, *p["A"].shape)))),
    "ssd_small": ("ssd", {}, lambda r: r.ssd(2, 100, 4, 8, 16, groups=2, h0=True)),
    "ssd_eeg": ("ssd", {}, lambda r: r.ssd(1, 960, 2, 64, 16)),
    "ssd_node": ("ssd", {}, lambda r: r.ssd(3, 200, 16, 8, 16)),
    "ssd_edge": ("ssd", {}, lambda r: r.ssd(3, 200, 8, 4, 8)),
    "ssd_odd": ("ssd", {}, lambda r: r.ssd(2, 45, 6, 5, 17, groups=3, h0=True)),
    **{f"conv_k{k}": ("conv1d_causal", {}, lambda r, k=k: r.conv(2, 75, 24, k)) for k in (2, 3, 4, 5, 8)},
    "conv_short": ("conv1d_causal", {}, lambda r: r.conv(2, 2, 8, 5)),
    "layernorm": ("layernorm", {}, lambda r: r.layernorm(2, 33, 40)),
    "rmsnorm_gated": ("rmsnorm_gated", {}, lambda r: r.gated(2, 33, 40)),
    "rmsnorm_gated_groups": ("rmsnorm_gated", dict(groups=4), lambda r: r.gated(2, 33, 52)),
}
LARGE = ("bench_full", "scan1_eeg", "ssd_eeg")


def attributes(op, options):
    """The options by the names of kernels/op.h."""
    r = {}
    if "softplus_on" in options:
        r["softplus"] = int(options["softplus_on"])
    if "clamp" in options:
        r["clamp_lo"], r["clamp_hi"] = options["clamp"]
    if "zoh" in options:
        r["zoh"] = int(options["zoh"])
    if "groups" in options:
        r["groups"] = options["groups"]
    return {k: repr(v) for k, v in r.items()}


def to_bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    bits = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16
    return bits.view(np.float32).astype(np.float64)


def solve(op, options, p, rng, bf16=False):
    """Incoming gradients drawn, answers computed: (all inputs, answers)."""
    forward, back, state = OPS[op]
    rounded = {k: to_bf16(v) if bf16 and k in ACTIVATIONS[op] else v for k, v in p.items()}
    outputs, tape = forward(rounded, **options)
    g_out = rng.standard_normal(outputs["out"].shape).astype(np.float32).astype(np.float64)
    g_out = to_bf16(g_out) if bf16 else g_out
    inputs, g_state = dict(rounded, g_out=g_out), None
    if state:
        g_state = rng.standard_normal(outputs[state].shape).astype(np.float32).astype(np.float64)
        inputs["g_" + state] = g_state
    grads = back(rounded, tape, g_out, g_state)
    if "A" in grads:
        grads["A_log"] = grads["A"] * rounded["A"]
    answers = {"ref_" + k: v for k, v in outputs.items()}
    answers.update({"ref_grad_" + k: v for k, v in grads.items()})
    return inputs, answers


def generate(out, seed, names, bf16=False):
    os.makedirs(out, exist_ok=True)
    for index, (name, (op, options, make)) in enumerate(CASES.items()):
        if name not in names:
            continue
        inputs, answers = solve(op, options, make(Draw([seed, index])), np.random.default_rng([seed, index, 1]), bf16)
        for key, value in answers.items():
            if not np.isfinite(value).all():
                sys.exit(f"case {name}: {key} is not finite")
        tensors = {k: v.astype(np.float32) for k, v in inputs.items()}
        tensors.update({k: np.asarray(v, np.float64) for k, v in answers.items()})
        metadata = {"op": op, "seed": str(seed), "attributes": json.dumps(attributes(op, options))}
        write_safetensors(os.path.join(out, name + ".safetensors"), tensors, metadata)


def check_gradients(label, op, options, p, rng):
    """Directional derivatives of a random linear functional of all outputs."""
    forward, back, state = OPS[op]
    outputs, tape = forward(p, **options)
    weights = {k: rng.standard_normal(v.shape) for k, v in outputs.items() if k in ("out", state)}
    grads = back(p, tape, weights["out"], weights.get(state))
    worst = 0.0
    for name, g in grads.items():
        direction = rng.standard_normal(p[name].shape)

        def value(step):
            result, _ = forward({**p, name: p[name] + step * direction}, **options)
            return sum((result[k] * w).sum() for k, w in weights.items())
        analytic = float((g * direction).sum())
        scale = max(abs(analytic), 1e-3 * np.linalg.norm(g) * np.linalg.norm(direction), 1e-12)
        complex_step = abs(np.imag(value(1e-30j)) / 1e-30 - analytic) / scale
        central = abs((value(1e-5) - value(-1e-5)) / 2e-5 - analytic) / scale
        if complex_step > 1e-9 or central > 3e-5:
            sys.exit(f"{label}: gradient of {name} is off: complex step {complex_step:.1e}, central difference {central:.1e}")
        worst = max(worst, complex_step)
    print(f"{label:28s} {len(grads)} gradients, worst against the complex step {worst:.1e}")


def selftest(seed):
    r, rng = Draw(seed), np.random.default_rng([seed, 1])
    bench = r.bench(2, 9, 5, 4)
    near = (np.abs(bench["delta"] - 1e-3) < 9e-4) | (np.abs(bench["delta"] - 0.1) < 9e-4)
    bench["delta"][near] = 0.05  # finite differences must not cross the edge of the clamp
    for label, op, options, p in [
            ("scan1", "scan1", {}, r.scan1(2, 9, 6, 4)), ("scan1 groups h0", "scan1", {}, r.scan1(2, 7, 6, 3, groups=2, h0=True)),
            ("scan1 zoh", "scan1", dict(zoh=True), r.scan1(1, 8, 4, 5, h0=True)), ("scan1 clamp", "scan1", BENCH, bench),
            ("ssd", "ssd", {}, r.ssd(2, 11, 4, 3, 5)), ("ssd groups h0", "ssd", {}, r.ssd(2, 10, 4, 3, 5, groups=2, h0=True)),
            ("conv k4", "conv1d_causal", {}, r.conv(2, 9, 4, 4)), ("conv k5 L2", "conv1d_causal", {}, r.conv(2, 2, 4, 5)),
            ("conv linear", "conv1d_causal", dict(act=False), r.conv(1, 6, 3, 2)), ("layernorm", "layernorm", {}, r.layernorm(2, 5, 8)),
            ("gated rmsnorm", "rmsnorm_gated", dict(groups=2), r.gated(2, 5, 8))]:
        check_gradients(label, op, options, p, rng)
    p = r.ssd(2, 37, 4, 3, 5, groups=2, h0=True)
    whole = ssd(p)[0]
    for q in (1, 3, 8, 64):
        other = ssd_chunked(p, q)
        worst = max(np.abs(other[k] - whole[k]).max() / np.abs(whole[k]).max() for k in whole)
        if worst > 1e-11:
            sys.exit(f"ssd in chunks of {q} differs from the recurrence by {worst:.1e}")
    print(f"ok, seed {seed}")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--selftest", action="store_true")
    a.add_argument("--list", action="store_true")
    a.add_argument("--seed", type=int, default=0)
    a.add_argument("--out")
    a.add_argument("--cases", default=",".join(CASES))
    a.add_argument("--bf16", action="store_true")
    o = a.parse_args()
    if o.list:
        print("\n".join(CASES))
    if o.selftest:
        selftest(o.seed)
    if o.out:
        unknown = set(o.cases.split(",")) - set(CASES)
        if unknown:
            sys.exit(f"unknown case {', '.join(sorted(unknown))}; --list names them")
        generate(o.out, o.seed, o.cases.split(","), o.bf16)


if __name__ == "__main__":
    main()
