"""Model files as ONNX (opset 17): of causal networks one step with the network's state as input and output; of the others a window.

    from brr import onnx
    onnx.export("mine.safetensors", "mine.onnx")
    onnx.export("mine.safetensors", "mine-int8.onnx", int8=rows)     # rows of recordings that are not scored: Detector("mine.safetensors").rows(...)
    onnx.export(module, "mamba.onnx", batch=1, steps=60)             # a Mamba or Mamba2 of brr.torch or mamba_ssm: hidden_states (B,T,D) -> out

Inputs `rows` (B,T,C), what the network takes of T samples at 256 Hz (Detector.rows), and `state` (B,S), zeros at the start of a segment; outputs
`probabilities` and `logits` (B,T), and `state_after`; networks that take whole windows have no state. Scans are matrix products over chunks of at most
64 tokens: differences of cumulated sums, masked before the exponential. In INT8 the products and convolutions with constant weights take 8-bit weights,
a scale for each output channel, and 8-bit inputs, as QuantizeLinear and DequantizeLinear around them; with reduce_range 7 bits, for processors without
VNNI."""
import json
import operator
import struct

import numpy as np

from ._files import write_whole

OPSET, EPS, TOKEN, RATE_HZ, MOST_TOKENS = 17, 1e-5, 16, 256, 64
DTYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9}


# ---- protobuf ----

def _varint(n):
    out = b""
    n &= (1 << 64) - 1
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def _field(number, value):
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _message(*fields):
    return b"".join(_field(number, value) for number, value in fields)


def _attribute(name, value):
    if isinstance(value, int):
        return _message((1, name), (3, value), (20, 2))
    if isinstance(value, float):
        return _message((1, name), (2, value), (20, 1))
    if isinstance(value, Graph):
        return _message((1, name), (6, value.body(name)), (20, 5))
    return _message((1, name), *((8, v) for v in value), (20, 7))


def _tensor(name, value):
    return _message(*((1, d) for d in value.shape), (2, DTYPES[value.dtype.name]), (8, name), (9, np.ascontiguousarray(value).tobytes()))


def _value(name, shape):
    dims = b"".join(_field(1, _message((2, d) if isinstance(d, str) else (1, d))) for d in shape)
    return _message((1, name), (2, _field(1, _message((1, 1), (2, dims)))))


# ---- a graph, and the same graph in NumPy ----

class Graph:
    def __init__(self):
        self.nodes, self.constants, self.inputs, self.outputs, self.n = [], {}, [], [], 0

    def constant(self, value, dtype=np.float32):
        self.n += 1
        self.constants[f"c{self.n}"] = np.asarray(value, dtype=dtype)
        return f"c{self.n}"

    def ints(self, *values):
        return self.constant(values, np.int64)

    def add(self, op, *inputs, outputs=1, **attributes):
        self.n += outputs
        names = [f"t{self.n - i}" for i in range(outputs)][::-1]
        self.nodes.append((op, list(inputs), names, attributes))
        return names[0] if outputs == 1 else names

    def rename(self, old, new):
        self.nodes = [(op, [new if i == old else i for i in inputs], [new if o == old else o for o in outputs], a) for op, inputs, outputs, a in self.nodes]

    def slice(self, x, first, end, axis):
        return self.add("Slice", x, self.ints(first), self.ints(end), self.ints(axis))

    def reshape(self, x, *shape):
        return self.add("Reshape", x, self.ints(*shape))

    def body(self, name):
        nodes = [_message(*((1, i) for i in inputs), *((2, o) for o in outputs), (3, f"{op}_{k}"), (4, op), *((5, _attribute(*a)) for a in attributes.items()))
                 for k, (op, inputs, outputs, attributes) in enumerate(self.nodes)]
        return _message(*((1, n) for n in nodes), (2, name), *((5, _tensor(*c)) for c in self.constants.items()),
                        *((11, _value(*i)) for i in self.inputs), *((12, _value(*o)) for o in self.outputs))

    def serialize(self, metadata):
        return _message((1, 8), (2, "brrd"), (7, self.body("brr")), (8, _message((1, ""), (2, OPSET))), *((14, _message((1, k), (2, v))) for k, v in metadata.items()))

    def run(self, inputs, watch=None):
        """The outputs, in float32; watch(name, value) sees every value."""
        values = {**self.constants, **inputs}
        for op, names, outputs, attributes in self.nodes:
            with np.errstate(over="ignore"):
                results = getattr(_Numpy, op)(*(values[n] for n in names), **attributes)
            for name, value in zip(outputs, results if isinstance(results, list) else [results]):
                values[name] = value
                if watch:
                    watch(name, value)
        return {name: values[name] for name, _ in self.outputs}


class _Numpy:
    """The ops of the graph; each as its ONNX text says."""
    Add, Sub, Mul, Div = (staticmethod(f) for f in (np.add, np.subtract, np.multiply, np.divide))
    Exp, Sqrt, Where, MatMul = (staticmethod(f) for f in (np.exp, np.sqrt, np.where, np.matmul))
    Relu = staticmethod(lambda x: np.maximum(x, np.float32(0)))
    Sigmoid = staticmethod(lambda x: (1 / (1 + np.exp(-x))).astype(np.float32))
    Softplus = staticmethod(lambda x: np.logaddexp(np.float32(0), x))
    Concat = staticmethod(lambda *xs, axis: np.concatenate(xs, axis))
    Transpose = staticmethod(lambda x, perm: x.transpose(perm))
    CumSum = staticmethod(lambda x, axis: np.cumsum(x, int(axis), dtype=np.float32))
    ReduceMean = staticmethod(lambda x, axes, keepdims: x.mean(tuple(axes), keepdims=True, dtype=np.float32))
    Expand = staticmethod(lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))))

    @staticmethod
    def Scan(state, *steps, body, num_scan_inputs, scan_input_axes, scan_output_axes):
        names, outs = [name for name, _ in body.inputs], []
        for t in range(steps[0].shape[1]):
            state, out = body.run(dict(zip(names, [state, *(x[:, t] for x in steps)]))).values()
            outs.append(out)
        return [state, np.stack(outs, 1)]

    @staticmethod
    def Reshape(x, shape):
        return x.reshape([x.shape[i] if n == 0 else int(n) for i, n in enumerate(shape)])

    @staticmethod
    def Slice(x, first, end, axis, step=(1,)):
        at, n = [slice(None)] * x.ndim, x.shape[int(axis[0])]
        at[int(axis[0])] = slice(None, None, -1) if step[0] < 0 else slice(int(first[0]), int(min(end[0], n)))  # backwards: all of it
        return x[tuple(at)]

    @staticmethod
    def ConvTranspose(x, w, b, strides):
        y = np.einsum("bit,iok->botk", x, w, optimize=True)
        return y.reshape(y.shape[0], y.shape[1], -1) + b[:, None]

    @staticmethod
    def Conv(x, w, b, group=1, strides=(1,), pads=(0, 0)):
        k, s = w.shape[2], strides[0]
        x = np.pad(x, ((0, 0), (0, 0), tuple(pads)))
        windows = np.lib.stride_tricks.sliding_window_view(x, k, axis=2)[:, :, ::s]
        if group > 1:
            return np.einsum("bctk,ck->bct", windows, w[:, 0]) + b[:, None]
        rows = windows.transpose(0, 2, 1, 3).reshape(x.shape[0], windows.shape[2], -1)
        return (rows @ w.reshape(w.shape[0], -1).T).transpose(0, 2, 1) + b[:, None]

    @staticmethod
    def QuantizeLinear(x, scale, zero):
        low, high = np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max
        return np.clip(np.rint(x / scale) + zero, low, high).astype(zero.dtype)

    @staticmethod
    def DequantizeLinear(q, scale, zero, axis=1):
        shape = [-1 if i == axis else 1 for i in range(q.ndim)] if scale.ndim else []
        return ((q.astype(np.int32) - zero.reshape(shape).astype(np.int32)) * scale.reshape(shape)).astype(np.float32)


# ---- the causal network ----

def read_model(path, bare=False):
    """Tensors and configuration of a model file; bare: of any safetensors file."""
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0] if len(data) > 8 else 0
    try:
        header = json.loads(data[8:8 + size])
        about, data = header.pop("__metadata__", {}), data[8 + size:]
        if "brr.model" not in about and not bare:
            raise KeyError("brr.model")
    except (ValueError, KeyError, AttributeError):
        raise ValueError(f"{path} is no {'safetensors file' if bare else 'model file of brrd'}") from None
    kinds = {"F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8"}
    weights = {}
    for name, entry in header.items():
        if entry["dtype"] in kinds:
            value = np.frombuffer(data[slice(*entry["data_offsets"])], kinds[entry["dtype"]]).reshape(entry["shape"])
            value = (value.astype("<u4") << 16).view("<f4") if entry["dtype"] == "BF16" else value
            weights[name] = value.astype("<f4", copy=False)
    return weights, about


def write_model(path, weights, about):
    header, at = {"__metadata__": about}, 0
    for name, value in weights.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    values = (np.ascontiguousarray(value, np.float32).tobytes() for value in weights.values())
    write_bytes(path, struct.pack("<Q", len(text)) + text, *values)


def write_bytes(path, *parts, source=None):
    def put(part):
        with open(part, "wb") as f:
            f.writelines(parts)
    write_whole(path, put, source)


class _Network:
    """What both kinds of networks are made of."""

    def __init__(self, weights, config):
        self.w, self.c, self.g = weights, config, Graph()

    def folded(self, conv, norm):
        """A convolution with the batch norm behind it."""
        scale = self.w[f"{norm}.weight"] / np.sqrt(self.w[f"{norm}.running_var"] + EPS)
        bias = (self.w[f"{conv}.bias"] - self.w[f"{norm}.running_mean"]) * scale + self.w[f"{norm}.bias"]
        return self.w[f"{conv}.weight"] * scale[:, None, None], bias

    def conv(self, x, weight, bias, op="Conv", **attributes):
        return self.g.add(op, x, self.g.constant(weight), self.g.constant(bias), **attributes)

    def linear(self, x, weight, bias=None):
        y = self.g.add("MatMul", x, self.g.constant(weight.T))
        return y if bias is None else self.g.add("Add", y, self.g.constant(bias))

    def silu(self, x):
        return self.g.add("Mul", x, self.g.add("Sigmoid", x))

    def turned(self, x):
        return self.g.add("Transpose", x, perm=[0, 2, 1])

    def split(self, x, *widths):
        ends = np.cumsum(widths)
        return [self.g.slice(x, end - n, end, 2) for n, end in zip(widths, ends)]

    def chunk(self, parts, q, m, before):
        """A chunk of q tokens of the scan: x (B,q,H·P), dt (B,q,H), B and C (B,q,G·N), the state before (None: zeros) -> y (B,q,H·P), the state after."""
        g, c = self.g, self.c
        groups, n, p = c["ngroups"], c["d_state"], c["headdim"]
        heads = self.w[f"{m}.A_log"].shape[0]
        per = heads // groups
        x, dt, B, C = parts
        sums = g.add("CumSum", g.add("Mul", dt, g.constant(-np.exp(self.w[f"{m}.A_log"]))), g.constant(1, np.int64))
        sums = g.reshape(self.turned(sums), 0, groups, per, q, 1)
        row = g.add("Transpose", sums, perm=[0, 1, 2, 4, 3])
        heads_first = lambda t: g.add("Transpose", g.reshape(t, 0, q, groups, per, -1), perm=[0, 2, 3, 1, 4])
        states = lambda t: g.add("Transpose", g.reshape(t, 0, q, groups, 1, n), perm=[0, 2, 3, 1, 4])
        xs, B, C = heads_first(x), states(B), states(C)
        across = g.add("Transpose", B, perm=[0, 1, 2, 4, 3])
        scaled = g.add("Mul", xs, heads_first(dt))
        past = g.constant(np.tri(q, dtype=bool), bool)
        decay = g.add("Exp", g.add("Where", past, g.add("Sub", sums, row), g.constant(-1e30)))
        y = g.add("MatMul", g.add("Mul", g.add("MatMul", C, across), decay), scaled)
        last = g.slice(sums, q - 1, q, 3)
        after = g.add("MatMul", across, g.add("Mul", scaled, g.add("Exp", g.add("Sub", last, sums))))
        if before is not None:
            y = g.add("Add", y, g.add("Mul", g.add("MatMul", C, before), g.add("Exp", sums)))
            after = g.add("Add", g.add("Mul", g.add("Exp", last), before), after)
        y = g.add("Add", y, g.add("Mul", xs, g.constant(self.w[f"{m}.D"].reshape(1, groups, per, 1, -1))))
        return g.reshape(g.add("Transpose", y, perm=[0, 3, 1, 2, 4]), 0, q, heads * p), after

    def direction(self, u, d, length, m, conv, before=None):
        """Mamba-2 over tokens u (B,L,d); conv: the causal convolution of (B,C,L). Its output, and the state after."""
        g, c = self.g, self.c
        inner, states = d * c["expand"], c["ngroups"] * c["d_state"]
        z, xbc, dt = self.split(self.linear(u, self.w[f"{m}.in_proj.weight"], self.w.get(f"{m}.in_proj.bias")), inner, inner + 2 * states, inner // c["headdim"])
        xbc = self.turned(self.silu(conv(self.turned(xbc), self.w[f"{m}.conv.weight"], self.w[f"{m}.conv.bias"])))
        dt = g.add("Softplus", g.add("Add", dt, g.constant(self.w[f"{m}.dt_bias"])))
        parts, ys = [*self.split(xbc, inner, states, states)], []
        parts = [parts[0], dt, parts[1], parts[2]]
        for first in range(0, length, MOST_TOKENS):
            q = min(MOST_TOKENS, length - first)
            y, before = self.chunk([g.slice(t, first, first + q, 1) for t in parts] if length > q else parts, q, m, before)
            ys.append(y)
        y = g.add("Concat", *ys, axis=1) if len(ys) > 1 else ys[0]
        gated = g.reshape(g.add("Mul", y, self.silu(z)), 0, length, c["ngroups"], -1)
        square = g.add("ReduceMean", g.add("Mul", gated, gated), axes=[3], keepdims=1)
        normed = g.reshape(g.add("Div", gated, g.add("Sqrt", g.add("Add", square, g.constant(EPS)))), 0, length, inner)
        return self.linear(g.add("Mul", normed, g.constant(self.w[f"{m}.norm.weight"])), self.w[f"{m}.out_proj.weight"],
                           self.w.get(f"{m}.out_proj.bias")), before

    def fused(self, u, y, i):
        """The residual and the norm of a layer."""
        g = self.g
        r = g.add("Add", u, self.linear(y, self.w[f"mamba.{i}.fuse.weight"], self.w[f"mamba.{i}.fuse.bias"]))
        centred = g.add("Sub", r, g.add("ReduceMean", r, axes=[2], keepdims=1))
        deviation = g.add("Sqrt", g.add("Add", g.add("ReduceMean", g.add("Mul", centred, centred), axes=[2], keepdims=1), g.constant(EPS)))
        scaled = g.add("Mul", g.add("Div", centred, deviation), g.constant(self.w[f"mamba.{i}.norm.weight"]))
        return g.add("Add", scaled, g.constant(self.w[f"mamba.{i}.norm.bias"]))

    def finish(self, logits, samples, temperature):
        g, c = self.g, self.c
        if c.get("skip"):
            feature = g.reshape(g.slice("rows", c["in_channels"] - 1, c["in_channels"], 2), 0, samples)
            logits = g.add("Add", logits, g.add("Mul", feature, g.constant(self.w["head.skip.weight"].reshape(1))))
        g.rename(logits, "logits")
        g.rename(g.add("Sigmoid", g.add("Mul", "logits", g.constant(np.float32(1 / temperature)))), "probabilities")
        g.inputs = [("rows", ("B", samples, c["in_channels"]))]
        g.outputs = [("probabilities", ("B", samples)), ("logits", ("B", samples))]
        return g


class _Causal(_Network):
    """One step of a causal network, with its state."""
    at = 0

    def state(self, *shape):
        """The next part of the state, in this shape."""
        n = int(np.prod(shape))
        part = self.g.reshape(self.g.slice("state", self.at, self.at + n, 1), 0, *shape)
        self.at += n
        return part

    def keep(self, x):
        self.after.append(self.g.reshape(x, 0, -1))

    def causal(self, x, weight, bias, group=1):
        """x (B,C,T); the last K-1 inputs of the step before come first."""
        channels, k = weight.shape[1] * group, weight.shape[2]
        x = self.g.add("Concat", self.state(channels, k - 1), x, axis=2)
        self.keep(self.g.slice(x, -(k - 1), 1 << 30, 2))
        return self.conv(x, weight, bias, group=group)

    def build(self, samples, temperature):
        g, c, w, q = self.g, self.c, self.w, samples // TOKEN
        if samples % TOKEN or not 0 < q <= MOST_TOKENS:
            raise ValueError(f"a step of {samples} samples; expected a multiple of {TOKEN}, at most {MOST_TOKENS * TOKEN}")
        self.after = []
        h = self.turned("rows")
        for s in range(4):
            for k in range(c.get("stage_convs", 1)):
                n = "" if k == 0 else str(k + 1)
                h = g.add("Relu", self.causal(h, *self.folded(f"encoder.{s}.conv{n}", f"encoder.{s}.bn{n}")))
            h = self.conv(h, w[f"encoder.{s}.down.weight"], w[f"encoder.{s}.down.bias"], strides=[2])
        for i in range(c["rescnn_blocks"]):
            r = g.add("Relu", self.causal(h, *self.folded(f"causal.{i}.conv1", f"causal.{i}.bn1")))
            h = g.add("Relu", g.add("Add", h, self.causal(r, *self.folded(f"causal.{i}.conv2", f"causal.{i}.bn2"))))
        u, d = self.turned(h), c["encoder_channels"][3]
        for i in range(c["mamba_layers"]):
            m = f"mamba.{i}.fwd"
            heads = w[f"{m}.A_log"].shape[0]
            before = self.state(c["ngroups"], heads // c["ngroups"], c["d_state"], c["headdim"])
            kept = len(self.after)
            y, after = self.direction(u, d, q, m, lambda x, weight, bias: self.causal(x, weight, bias, group=weight.shape[0]), before)
            self.keep(after)
            self.after.insert(kept, self.after.pop())  # in the order of their inputs
            u = self.fused(u, y, i)
        out = self.linear(u, w["head.out.weight"][:, :, 0], w["head.out.bias"])
        logits = g.reshape(g.add("Expand", out, g.ints(1, 1, TOKEN)), 0, samples)
        self.finish(logits, samples, temperature)
        g.rename(g.add("Concat", *self.after, axis=1), "state_after")
        g.inputs.append(("state", ("B", self.at)))
        g.outputs.append(("state_after", ("B", self.at)))
        return g


class _Module(_Network):
    """One Mamba or Mamba2 of PyTorch, with the parameters' names of mamba_ssm."""

    def __init__(self, module):
        weights = {f"m.{k.replace('conv1d', 'conv')}": v.detach().float().cpu().numpy() for k, v in module.state_dict().items()}
        weights.setdefault("m.conv.bias", np.zeros(len(weights["m.conv.weight"]), np.float32))
        heads = weights["m.A_log"].ndim == 1
        config = {"expand": module.d_inner / module.d_model, "ngroups": module.ngroups, "d_state": module.d_state, "headdim": module.headdim} if heads else {}
        if heads and ("m.norm.weight" not in weights or getattr(module.norm, "eps", EPS) != EPS or tuple(module.dt_limit) != (0.0, float("inf"))):
            raise ValueError("a Mamba2 without its norm, with another eps or with dt_limit cannot be exported")
        super().__init__(weights, config)
        self.width, self.inner, self.mixed = module.d_model, module.d_inner, self.heads if heads else self.channels

    def padded(self, x, weight, bias):
        return self.conv(x, weight, bias, group=weight.shape[0], pads=[weight.shape[2] - 1, 0])

    def heads(self, u, steps):
        return self.direction(u, self.width, steps, "m", self.padded)[0]

    def step(self):
        """A step of the scan of each channel, by ONNX's Scan: state (B,E,N), x and delta (B,E), B and C (B,N) -> state, y (B,E)."""
        A = -np.exp(self.w["m.A_log"])
        b, (e, n) = Graph(), A.shape
        b.n = self.g.n
        state, x, delta, B, C = names = [f"s{b.n + i}" for i in range(5)]
        wide = b.reshape(delta, 0, e, 1)
        into = b.add("Mul", b.reshape(b.add("Mul", delta, x), 0, e, 1), b.reshape(B, 0, 1, n))
        after = b.add("Add", b.add("Mul", b.add("Exp", b.add("Mul", wide, b.constant(A))), state), into)
        y = b.reshape(b.add("MatMul", after, b.reshape(C, 0, n, 1)), 0, e)
        b.inputs = [(name, ("B", *shape)) for name, shape in zip(names, ((e, n), (e,), (e,), (n,), (n,)))]
        b.outputs, self.g.n = [(after, ("B", e, n)), (y, ("B", e))], b.n
        return b

    def channels(self, u, steps):
        g, w = self.g, self.w
        n, rank = w["m.A_log"].shape[1], w["m.dt_proj.weight"].shape[1]
        x, z = self.split(self.linear(u, w["m.in_proj.weight"], w.get("m.in_proj.bias")), self.inner, self.inner)
        x = self.turned(self.silu(self.padded(self.turned(x), w["m.conv.weight"], w["m.conv.bias"])))
        delta, B, C = self.split(self.linear(x, w["m.x_proj.weight"]), rank, n, n)
        delta = g.add("Softplus", self.linear(delta, w["m.dt_proj.weight"], w["m.dt_proj.bias"]))
        zeros = g.add("Mul", g.reshape(g.slice(x, 0, 1, 1), 0, self.inner, 1), g.constant(np.zeros((1, 1, n))))  # for any number of rows
        _, y = g.add("Scan", zeros, x, delta, B, C, outputs=2, body=self.step(), num_scan_inputs=4, scan_input_axes=[1] * 4, scan_output_axes=[1])
        y = g.add("Mul", g.add("Add", y, g.add("Mul", x, g.constant(w["m.D"]))), self.silu(z))
        return self.linear(y, w["m.out_proj.weight"], w.get("m.out_proj.bias"))

    def build(self, batch, steps):
        self.g.rename(self.mixed("hidden_states", steps), "out")
        self.g.inputs, self.g.outputs = [("hidden_states", (batch, steps, self.width))], [("out", (batch, steps, self.width))]
        return self.g


class _Unet(_Network):
    """A whole window through the U-Net with scans in both directions of time."""

    def block(self, conv, norm, x, relu=True):
        weight, bias = self.folded(conv, norm)
        y = self.conv(x, weight, bias, pads=[weight.shape[2] // 2] * 2)
        return self.g.add("Relu", y) if relu else y

    def reversed(self, x):
        return self.g.add("Slice", x, self.g.ints(-1), self.g.ints(-(1 << 31)), self.g.ints(1), self.g.ints(-1))

    def build(self, samples, temperature):
        g, c, w, skips = self.g, self.c, self.w, []
        if c.get("mixer", "mamba2") != "mamba2":
            raise ValueError(f"the network mixes by {c['mixer']}; only mamba2 can be exported")
        h = self.block("encoder.stem.conv", "encoder.stem.bn", self.turned("rows"))
        for s in range(4):
            for k in (1, 2):
                h = self.block(f"encoder.{s}.conv{k}", f"encoder.{s}.bn{k}", h)
            skips.append(h)
            h = self.conv(h, w[f"encoder.{s}.down.weight"], w[f"encoder.{s}.down.bias"], strides=[2])
        for r in range(c["rescnn_blocks"]):
            branches = [self.block(f"rescnn.{r}.branch{k}.conv", f"rescnn.{r}.branch{k}.bn", h) for k in (3, 5, 7)]
            fuse = self.block(f"rescnn.{r}.fuse.conv", f"rescnn.{r}.fuse.bn", g.add("Concat", *branches, axis=1), relu=False)
            h = g.add("Relu", g.add("Add", fuse, h))
        u, d, tokens = self.turned(h), c["encoder_channels"][3], samples // TOKEN
        padded = lambda x, weight, bias: self.conv(x, weight, bias, group=weight.shape[0], pads=[weight.shape[2] - 1, 0])
        for i in range(c["mamba_layers"]):
            ahead, _ = self.direction(u, d, tokens, f"mamba.{i}.fwd", padded)
            back, _ = self.direction(self.reversed(u), d, tokens, f"mamba.{i}.bwd", padded)
            u = self.fused(u, g.add("Concat", ahead, self.reversed(back), axis=2), i)
        h = self.turned(u)
        for s in range(4):
            up = self.conv(h, w[f"decoder.{s}.up.weight"], w[f"decoder.{s}.up.bias"], op="ConvTranspose", strides=[2])
            h = g.add("Concat", up, skips[3 - s], axis=1)
            for k in (1, 2):
                h = self.block(f"decoder.{s}.conv{k}", f"decoder.{s}.bn{k}", h)
        h = self.conv(h, w["head.proj.weight"], w["head.proj.bias"])
        return self.finish(g.reshape(self.conv(h, w["head.out.weight"], w["head.out.bias"]), 0, samples), samples, temperature)


def graph_of(path, samples=None):
    """The graph of a model file, and what the file says. samples: of a step of a causal network, a second unless it is given."""
    weights, about = read_model(path)
    config = json.loads(about["brr.model"])
    kind, temperature = config.get("type", "seizure"), float(about.get("brr.temperature", 1))
    if kind == "causal":
        return _Causal(weights, config).build(samples or RATE_HZ, temperature), about
    if kind != "seizure":
        raise ValueError(f"{path} is a model of type {kind}, which has no network to export")
    if samples not in (None, config["window"]):
        raise ValueError(f"the network takes windows of {config['window']} samples, not {samples}")
    return _Unet(weights, config).build(config["window"], temperature), about


def run(graph, rows, output=None, watch=None):
    """The graph in NumPy: (n,T) of windows, or of the steps of one segment, (n,T,C). output: the first one unless it is given."""
    state, out, first = {}, [], graph.inputs[0][0]
    output = output or graph.outputs[0][0]
    if len(graph.inputs) > 1:
        state = {"state": np.zeros((1, graph.inputs[1][1][1]), np.float32)}
    for x in rows:
        if watch:
            watch(first, x)
        r = graph.run({first: x[None], **state}, watch)
        if state:
            state = {"state": r["state_after"]}
        out.append(r[output][0])
    return np.stack(out)


def quantize(graph, rows, reduce_range=False):
    """The same graph in INT8; the ranges of its inputs are those of these windows, or steps of one segment."""
    low, high = {}, {}
    fixed = lambda op, inputs, a: op in ("Conv", "MatMul") and a.get("group", 1) == 1 and inputs[1] in graph.constants
    taken = {inputs[0] for op, inputs, _, a in graph.nodes if fixed(op, inputs, a)}

    def watch(name, value):
        if name in taken:
            if not np.isfinite(value).all():
                raise ValueError("int8: of these rows the network makes values that are no finite numbers")
            low[name], high[name] = min(low.get(name, 0.0), float(value.min())), max(high.get(name, 0.0), float(value.max()))
    run(graph, rows, watch=watch)
    q, most, rounded = Graph(), 127 if reduce_range else 255, {}
    q.n, q.constants, q.inputs, q.outputs = graph.n, dict(graph.constants), graph.inputs, graph.outputs

    def coarse(name):
        if name not in rounded:
            scale = np.float32(max(high[name] - low[name], 1e-8) / most)
            zero = q.constant(np.clip(np.rint(-low[name] / scale), 0, most), np.uint8)
            scale = q.constant(scale)
            rounded[name] = q.add("DequantizeLinear", q.add("QuantizeLinear", name, scale, zero), scale, zero)
        return rounded[name]

    def coarse_weight(name, axis):
        value = graph.constants[name]
        others = tuple(i for i in range(value.ndim) if i != axis)
        scale = np.maximum(np.abs(value).max(others), 1e-8).astype(np.float32) / (63 if reduce_range else 127)
        shape = [-1 if i == axis else 1 for i in range(value.ndim)]
        levels = q.constant(np.clip(np.rint(value / scale.reshape(shape)), -127, 127), np.int8)
        return q.add("DequantizeLinear", levels, q.constant(scale), q.constant(np.zeros(scale.shape), np.int8), axis=axis)
    for op, inputs, outputs, attributes in graph.nodes:
        if fixed(op, inputs, attributes):
            inputs = [coarse(inputs[0]), coarse_weight(inputs[1], 0 if op == "Conv" else 1), *inputs[2:]]
        q.nodes.append((op, inputs, outputs, attributes))
    used = {n for _, inputs, _, _ in q.nodes for n in inputs}
    q.constants = {k: v for k, v in q.constants.items() if k in used}
    return q


def export(model, path, samples=None, int8=None, reduce_range=False, batch=None, steps=None):
    """Writes the file and returns its graph. model: a model file; or a Mamba or Mamba2 of brr.torch or mamba_ssm, for `batch` sequences (None: any number)
    of `steps` tokens. int8: windows, steps (n, samples, C) or sequences (n, steps, D) that are not scored, or None for fp32."""
    batch, steps, samples = (None if size is None else operator.index(size) for size in (batch, steps, samples))
    if any(size is not None and size < 1 for size in (batch, steps, samples)):
        raise ValueError(f"batch {batch}, steps {steps}, samples {samples}; expected 1 or more")
    if hasattr(model, "state_dict"):
        if not hasattr(model, "A_log") or not steps:
            raise ValueError(f"export(module, path, batch=…, steps=…) takes a Mamba or Mamba2 and the number of tokens, not {type(model).__name__}, {steps}")
        graph, about, source = _Module(model).build(batch or "B", steps), {}, None
    elif batch or steps:
        raise ValueError("batch and steps are those of a module; a model file takes samples")
    else:
        source, (graph, about) = model, graph_of(model, samples)
    if int8 is not None:
        graph = quantize(graph, int8, reduce_range)
    keep = ("brr.model", "brr.frontend", "brr.events", "brr.temperature", "brr.notice")
    write_bytes(path, graph.serialize({k: about[k] for k in keep if k in about}), source=source)
    return graph


MOST_WINDOWS = 240  # four minutes of a causal network's seconds


def calibration(model, path):
    """Rows for int8: of an .npy, or of a recording that MNE reads, spread over it where these are windows."""
    if path.endswith(".npy"):
        return np.load(path)
    import mne
    from .detector import Detector
    raw = mne.io.read_raw(path, verbose="error")
    rows = Detector(model).rows((raw.get_data() * 1e6).astype(np.float32), raw.info["sfreq"], raw.ch_names)
    if rows.shape[1] <= RATE_HZ:
        return rows[:MOST_WINDOWS]
    return rows[::max(1, len(rows) // 8)]


def main(arguments=None):
    import argparse
    a = argparse.ArgumentParser(prog="python3 -m brr.onnx", description="Writes a model file as ONNX.")
    a.add_argument("model")
    a.add_argument("out")
    a.add_argument("--int8", metavar="FILE", help="in INT8, with the ranges of a recording that is not scored, or of Detector.rows in an .npy")
    a.add_argument("--reduce-range", action="store_true", help="7 bits, for processors without VNNI")
    o = a.parse_args(arguments)
    try:
        export(o.model, o.out, int8=None if o.int8 is None else calibration(o.model, o.int8), reduce_range=o.reduce_range)
    except (OSError, ValueError, RuntimeError, ImportError) as e:
        raise SystemExit(f"brr.onnx: {e}") from None


if __name__ == "__main__":
    main()
