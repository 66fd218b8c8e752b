"""brrd's scans on arrays that lie channel-last: (batch, length, channels). Inputs are used where they are; outputs are made by the library of the
first input. On a GPU calls are queued on the device's default stream, or on that of use_stream.

Shapes and formulas: client/scan/brr_scan.h. Each *_backward takes the gradient of the first output and the arguments of its forward pass, and returns
a dict of gradients by the names of the inputs."""
import ctypes
import threading

from ._arrays import access, view, zeros
from ._library import BACKWARD, FORWARD, Error, scan_library, scan_of

__all__ = ["Error", "causal_conv", "causal_conv_backward", "describe", "gated_rmsnorm", "gated_rmsnorm_backward", "layernorm", "layernorm_backward",
           "selective_scan", "selective_scan_backward", "ssd", "ssd_backward", "use_stream", "version", "wait"]


def version():
    return scan_library().brr_scan_library_version().decode()


def describe(device="cpu"):
    """What computes: "AMD EPYC 9B45, avx512, 2 threads"."""
    return scan_of(device).description


def use_stream(device, stream):
    """Calls of this thread on the device queue on this CUDA stream, a number, from now on."""
    scan_of(device).use_stream(stream)


def wait(device="cpu"):
    scan_of(device).wait()


class _Arguments:
    """Arrays and numbers as a structure of the library, and what has to live until the call has been made. places: of each array its field."""

    def __init__(self, kind, values):
        self.structure, self.alive, self.device, self.batch, self.places = kind(size=ctypes.sizeof(kind)), [], None, None, []
        for name, value in values.items():
            self.put(name, value)

    def put(self, name, value):
        if value is None:
            return
        if name == "lengths":
            numbers = [int(n) for n in value]
            if len(numbers) != self.batch:
                raise ValueError(f"lengths has {len(numbers)} numbers; expected one for each of the {self.batch} rows of the batch")
            value = (ctypes.c_int32 * len(numbers))(*numbers)
            self.alive.append(value)
        elif not isinstance(value, (int, float)):
            value, device, alive = view(value, name, written=name in ("hT", "state"))
            if self.device not in (None, device):
                raise ValueError(f"{name} lies on {device}, other arguments on {self.device}; expected one device")
            self.device = device
            self.batch = self.batch or value.dim[0]  # the first array is the activation
            self.alive.append(alive)
            self.places.append(getattr(type(self.structure), name).offset)
        setattr(self.structure, name, value)


class _Plan:
    """A call whose arrays have been looked at: made again with arrays of the same layouts by putting their addresses in place. Of one thread."""

    def __init__(self, op, forward, gradients, arrays):
        parts = [_Arguments(FORWARD[op], forward)]
        if gradients is not None:
            parts.append(_Arguments(BACKWARD[op], gradients))
            parts[1].structure.forward = ctypes.pointer(parts[0].structure)
        self.parts, scan = [p.structure for p in parts], scan_of(parts[0].device)
        self.function = getattr(scan.library, f"brr_scan_{op}" if gradients is None else f"brr_scan_{op}_backward")
        self.arguments = scan.handle, ctypes.addressof(self.parts[-1]), ctypes.byref(scan.error)
        self.check = scan.check
        words = [ctypes.c_size_t.from_buffer(p.structure, at) for p in parts for at in p.places]
        self.puts = [(word, access[type(x)][1]) for word, x in zip(words, arrays)]

    def run(self, arrays):
        for (word, address), x in zip(self.puts, arrays):
            word.value = address(x)
        self.check(self.function(*self.arguments))


MOST_PLANS = 256  # of a thread, for as many layouts and options
_own = threading.local()


def _call(op, forward, gradients=None):
    """One call. Arrays of NumPy and PyTorch are looked at once for each layout; the library itself checks every call."""
    written = forward.get("hT", forward.get("state"))
    key, arrays = [op, gradients is None, getattr(getattr(written, "flags", None), "writeable", None)], []
    for values in (forward, gradients or {}):
        for value in values.values():
            if value is None or isinstance(value, (int, float)):
                key.append(value)
                continue
            found = access[type(value)]
            if found is None:
                return _call_once(op, forward, gradients)
            key.append(found[0](value))
            arrays.append(value)
    if forward.get("lengths") is not None:
        return _call_once(op, forward, gradients)
    plans, key = _own.__dict__, tuple(key)
    plan = plans.get(key)
    if plan is None:
        if len(plans) >= MOST_PLANS:
            plans.clear()
        plan = plans[key] = _Plan(op, forward, gradients, arrays)
    plan.run(arrays)


def _call_once(op, forward, gradients):
    """With what lives only as long as the call: arrays by DLPack, lengths."""
    a = _Arguments(FORWARD[op], forward)
    if gradients is None:
        scan_of(a.device).run(op, a.structure)
        return
    g = _Arguments(BACKWARD[op], gradients)
    g.structure.forward = ctypes.pointer(a.structure)
    scan_of(a.device).run(f"{op}_backward", g.structure)


def _gradients(inputs, like, parameters):
    """Zeros for the gradients of the inputs that there are: of parameters and states in float32."""
    return {name: zeros(like, x.shape, "float32" if name in parameters else None) for name, x in inputs.items() if x is not None}


def _by_input(gradients):
    return {name[1:]: x for name, x in gradients.items()}


def _options(softplus, reverse, clamp, lengths, resets):
    lo, hi = clamp or (0.0, 0.0)
    return {"softplus": int(softplus), "reverse": int(reverse), "clamp_lo": float(lo), "clamp_hi": float(hi), "lengths": lengths, "resets": resets}


def selective_scan(u, delta, A, B, C, D=None, delta_bias=None, z=None, h0=None, *, softplus=True, zoh=False, reverse=False, clamp=None, lengths=None,
                   resets=None, hT=None):
    """out, hT. u, delta, z (B,L,D); A (D,N); B, C (B,L,G,N) or (B,L,N); h0, hT (B,D,N). hT: where the last state goes, may be h0."""
    out, hT = zeros(u, u.shape), zeros(u, (u.shape[0], u.shape[2], A.shape[1]), "float32") if hT is None else hT
    _call("selective", {"u": u, "delta": delta, "A": A, "B": B, "C": C, "D": D, "delta_bias": delta_bias, "z": z, "h0": h0, "hT": hT, "out": out,
                           "zoh": int(zoh), **_options(softplus, reverse, clamp, lengths, resets)})
    return out, hT


def selective_scan_backward(dout, u, delta, A, B, C, D=None, delta_bias=None, z=None, h0=None, *, dhT=None, softplus=True, zoh=False, reverse=False,
                            clamp=None, lengths=None, resets=None):
    inputs = {"u": u, "delta": delta, "A": A, "B": B, "C": C, "D": D, "delta_bias": delta_bias, "z": z, "h0": h0}
    gradients = {f"d{name}": x for name, x in _gradients(inputs, u, ("A", "D", "delta_bias", "h0")).items()}
    _call("selective", {**inputs, "zoh": int(zoh), **_options(softplus, reverse, clamp, lengths, resets)}, {"dout": dout, "dhT": dhT, **gradients})
    return _by_input(gradients)


def ssd(x, delta, A, B, C, D=None, delta_bias=None, h0=None, *, softplus=True, reverse=False, clamp=None, chunk=0, lengths=None, resets=None, hT=None):
    """y, hT. x (B,L,H,P); delta (B,L,H); A, D, delta_bias (H); B, C (B,L,G,N); h0, hT (B,H,P,N)."""
    y, hT = zeros(x, x.shape), zeros(x, (x.shape[0], x.shape[2], x.shape[3], B.shape[3]), "float32") if hT is None else hT
    _call("ssd", {"x": x, "delta": delta, "A": A, "B": B, "C": C, "D": D, "delta_bias": delta_bias, "h0": h0, "hT": hT, "y": y, "chunk": chunk,
                     **_options(softplus, reverse, clamp, lengths, resets)})
    return y, hT


def ssd_backward(dy, x, delta, A, B, C, D=None, delta_bias=None, h0=None, *, dhT=None, softplus=True, reverse=False, clamp=None, chunk=0, lengths=None,
                 resets=None):
    inputs = {"x": x, "delta": delta, "A": A, "B": B, "C": C, "D": D, "delta_bias": delta_bias, "h0": h0}
    gradients = {f"d{name}": g for name, g in _gradients(inputs, x, ("A", "D", "delta_bias", "h0")).items()}
    _call("ssd", {**inputs, "chunk": chunk, **_options(softplus, reverse, clamp, lengths, resets)}, {"dy": dy, "dhT": dhT, **gradients})
    return _by_input(gradients)


def causal_conv(x, w, bias=None, state0=None, *, silu=True, reverse=False, lengths=None, resets=None, state=None):
    """y, state. x (B,L,D); w (D,K); state0, state (B,K-1,D): the inputs before, and the last ones. state: where they go, may be state0."""
    y = zeros(x, x.shape)
    if state is None and w.shape[1] > 1:
        state = zeros(x, (x.shape[0], w.shape[1] - 1, x.shape[2]), "float32")
    _call("conv", {"x": x, "w": w, "bias": bias, "state0": state0, "state": state, "y": y, "silu": int(silu), "reverse": int(reverse),
                      "lengths": lengths, "resets": resets})
    return y, state


def causal_conv_backward(dy, x, w, bias=None, state0=None, *, dstate=None, silu=True, reverse=False, lengths=None, resets=None):
    inputs = {"x": x, "w": w, "bias": bias, "state0": state0}
    gradients = {f"d{name}": g for name, g in _gradients(inputs, x, ("w", "bias", "state0")).items()}
    _call("conv", {**inputs, "silu": int(silu), "reverse": int(reverse), "lengths": lengths, "resets": resets},
              {"dy": dy, "dstate": dstate, **gradients})
    return _by_input(gradients)


def gated_rmsnorm(y, z, weight, *, groups=1, eps=1e-5):
    """out, rstd, which the backward pass takes."""
    out, rstd = zeros(y, y.shape), zeros(y, (y.shape[0] * y.shape[1] * groups,), "float32")
    _call("rmsnorm", {"y": y, "z": z, "out": out, "weight": weight, "rstd": rstd, "groups": groups, "eps": float(eps)})
    return out, rstd


def gated_rmsnorm_backward(dout, rstd, y, z, weight, *, groups=1, eps=1e-5):
    gradients = {f"d{name}": g for name, g in _gradients({"y": y, "z": z, "weight": weight}, y, ("weight",)).items()}
    _call("rmsnorm", {"y": y, "z": z, "weight": weight, "rstd": rstd, "groups": groups, "eps": float(eps)}, {"dout": dout, **gradients})
    return _by_input(gradients)


def layernorm(x, weight, bias, residual=None, *, eps=1e-5):
    """y, and (sum, mean, rstd) for the backward pass."""
    y, total = zeros(x, x.shape), zeros(x, x.shape)
    mean, rstd = (zeros(x, (x.shape[0] * x.shape[1],), "float32") for _ in range(2))
    _call("layernorm", {"x": x, "y": y, "residual": residual, "sum": total, "weight": weight, "bias": bias, "mean": mean, "rstd": rstd,
                           "eps": float(eps)})
    return y, (total, mean, rstd)


def layernorm_backward(dy, saved, weight, bias):
    """Gradients of x (and of residual), weight and bias."""
    total, mean, rstd = saved
    gradients = {f"d{name}": g for name, g in _gradients({"x": total, "weight": weight, "bias": bias}, total, ("weight", "bias")).items()}
    _call("layernorm", {"sum": total, "weight": weight, "mean": mean, "rstd": rstd}, {"dy": dy, **gradients})
    return _by_input(gradients)
