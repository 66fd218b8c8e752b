#!/usr/bin/env python3
"""brr.torch against the formulas in PyTorch's own float64 autograd: logits and gradients of a Mamba and a Mamba2 model to 1e-5 in fp32, mamba_ssm's
parameter names and functions, generation token by token, and arrays that are used where they are."""
import os
import sys
import types

SOURCE = os.environ.get("BRR_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path[:0] = [os.path.join(SOURCE, "client", "python"), os.path.join(SOURCE, "tests")]
try:
    import torch
except ImportError:
    print("skipped: package: there is no PyTorch; ./dev deps installs python3-torch")
    sys.exit(77)
import numpy as np  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import brr.torch  # noqa: E402
from brr import scan  # noqa: E402
from seed import test_seed  # noqa: E402

GATE = 1e-5
MAMBA_NAMES = {"in_proj.weight", "conv1d.weight", "conv1d.bias", "x_proj.weight", "dt_proj.weight", "dt_proj.bias", "A_log", "D", "out_proj.weight"}
MAMBA2_NAMES = {"in_proj.weight", "conv1d.weight", "conv1d.bias", "dt_bias", "A_log", "D", "norm.weight", "out_proj.weight"}


def near(found, expected, what):
    found, expected = found.detach().double(), expected.detach().double()
    error = float((found - expected).norm() / expected.norm().clamp(min=1e-30))
    assert found.shape == expected.shape and error <= GATE, f"{what} is off by {error:.2e}"
    return error


# ---- the formulas, token by token ----

def scan_formula(u, delta, A, B, C, D, z, h):
    """u, delta (b l d); A (d n); B, C (b l d n)."""
    outs = []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t]
        outs.append((h * C[:, t]).sum(-1) + D * u[:, t])
    y = torch.stack(outs, 1)
    return (y if z is None else y * functional.silu(z)), h


def conv_formula(x, weight, bias):
    k = weight.shape[-1]
    return functional.silu(functional.conv1d(functional.pad(x.transpose(1, 2), (k - 1, 0)), weight, bias, groups=x.shape[2]).transpose(1, 2))


def mamba_formula(p, x, n):
    xz = x @ p["in_proj.weight"].T
    inner, z = xz.chunk(2, -1)
    inner = conv_formula(inner, p["conv1d.weight"], p["conv1d.bias"])
    rank = p["dt_proj.weight"].shape[1]
    dbc = inner @ p["x_proj.weight"].T
    delta = functional.softplus(dbc[..., :rank] @ p["dt_proj.weight"].T + p["dt_proj.bias"])
    B, C = (dbc[..., a:a + n][:, :, None].expand(-1, -1, inner.shape[2], -1) for a in (rank, rank + n))
    h = torch.zeros(x.shape[0], inner.shape[2], n, dtype=x.dtype)
    y, _ = scan_formula(inner, delta, -torch.exp(p["A_log"]), B, C, p["D"], z, h)
    return y @ p["out_proj.weight"].T


def mamba2_formula(p, x, heads, width, groups, n):
    d = heads * width
    z, xbc, dt = torch.split(x @ p["in_proj.weight"].T, [d, d + 2 * groups * n, heads], -1)
    xbc = conv_formula(xbc, p["conv1d.weight"], p["conv1d.bias"])
    inner, B, C = torch.split(xbc, [d, groups * n, groups * n], -1)
    b, l, _ = x.shape
    B, C = (t.reshape(b, l, groups, 1, n).expand(-1, -1, -1, d // groups, -1).reshape(b, l, d, n) for t in (B, C))
    delta = functional.softplus(dt + p["dt_bias"]).repeat_interleave(width, -1)
    A = -torch.exp(p["A_log"]).repeat_interleave(width)[:, None]
    y, _ = scan_formula(inner, delta, A, B, C, p["D"].repeat_interleave(width), None, torch.zeros(b, d, n, dtype=x.dtype))
    q = (y * functional.silu(z)).reshape(b, l, groups, -1)
    q = (q / torch.sqrt((q ** 2).mean(-1, keepdim=True) + 1e-5)).reshape(b, l, d) * p["norm.weight"]
    return q @ p["out_proj.weight"].T


# ---- models ----

class Model(nn.Module):
    """A residual block and a head, as a language model or a classifier of tokens has them."""

    def __init__(self, mixer, width):
        super().__init__()
        self.mixer, self.norm, self.head = mixer, nn.LayerNorm(width), nn.Linear(width, 3)

    def forward(self, x):
        return self.head(x + self.mixer(self.norm(x)))


def check_model(mixer, names, formula):
    width, x = mixer.d_model, torch.randn(3, 29, mixer.d_model)
    model = Model(mixer, width)
    assert set(mixer.state_dict()) == names, set(mixer.state_dict()) ^ names
    target = torch.randint(0, 3, (3, 29))
    logits = model(x)
    functional.cross_entropy(logits.transpose(1, 2), target).backward()
    exact = {k: v.detach().double().requires_grad_() for k, v in model.named_parameters()}
    part = {k[6:]: v for k, v in exact.items() if k.startswith("mixer.")}
    normed = functional.layer_norm(x.double(), (width,), exact["norm.weight"], exact["norm.bias"])
    expected = (x.double() + formula(part, normed)) @ exact["head.weight"].T + exact["head.bias"]
    functional.cross_entropy(expected.transpose(1, 2), target).backward()
    worst = max([near(logits, expected, "logits")] + [near(p.grad, exact[k].grad, f"gradient of {k}") for k, p in model.named_parameters()])
    print(f"{type(mixer).__name__}: logits and {len(exact)} gradients, worst {worst:.1e}")


def check_state_dict(kind, **options):
    """A checkpoint of mamba_ssm loads by name, and computes the same."""
    first, second = kind(32, **options), kind(32, **options)
    second.load_state_dict({k: v.clone() for k, v in first.state_dict().items()}, strict=True)
    x = torch.randn(2, 5, 32)
    assert torch.equal(first(x), second(x))


def check_generation(mixer):
    """A prompt at once, then token by token, as generation does it, equals the whole."""
    class Parameters:
        key_value_memory_dict, seqlen_offset = {}, 0
    mixer.layer_idx, parameters, x = 0, Parameters(), torch.randn(2, 11, mixer.d_model)
    with torch.no_grad():
        whole, outs = mixer(x), [mixer(x[:, :4], inference_params=parameters)]
        for t in range(4, 11):
            parameters.seqlen_offset = t
            outs.append(mixer(x[:, t:t + 1], inference_params=parameters))
    near(torch.cat(outs, 1), whole, "generation")
    parameters.key_value_memory_dict = {}


def check_functions():
    """mamba_ssm's names are there, and take mamba_ssm's layouts."""
    brr.torch.as_mamba_ssm()
    from causal_conv1d import causal_conv1d_fn, causal_conv1d_update
    from mamba_ssm import Mamba, Mamba2  # noqa: F401
    from mamba_ssm.ops.selective_scan_interface import mamba_inner_fn, selective_scan_fn
    from mamba_ssm.ops.triton.selective_state_update import selective_state_update
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined, mamba_split_conv1d_scan_combined
    b, d, l, n = 2, 12, 17, 4
    u, delta, z, B, C = (torch.randn(b, k, l) for k in (d, d, d, n, n))
    A, D, bias = -torch.rand(d, n) - 0.1, torch.randn(d), torch.randn(d)
    out, last = selective_scan_fn(u, delta, A, B, C, D, z, bias, delta_softplus=True, return_last_state=True)
    wide = lambda t: t.double().transpose(1, 2)[:, :, None].expand(-1, -1, d, -1)
    expected, h = scan_formula(u.double().transpose(1, 2), functional.softplus((delta + bias[:, None]).double().transpose(1, 2)), A.double(), wide(B),
                               wide(C), D.double(), z.double().transpose(1, 2), torch.zeros(b, d, n, dtype=torch.double))
    near(out, expected.transpose(1, 2), "selective_scan_fn")
    near(last, h, "its last state")
    state = torch.zeros(b, d, n)
    for t in range(l):
        y = selective_state_update(state, u[:, :, t], delta[:, :, t], A, B[:, :, t], C[:, :, t], D, z[:, :, t], bias, dt_softplus=True)
        near(y, expected[:, t], "selective_state_update")
    weight, conv_state = torch.randn(d, 4), torch.zeros(b, d, 4)
    y = causal_conv1d_fn(u, weight, bias, activation="silu")
    near(y, conv_formula(u.double().transpose(1, 2), weight[:, None].double(), bias.double()).transpose(1, 2), "causal_conv1d_fn")
    near(torch.stack([causal_conv1d_update(u[:, :, t], conv_state, weight, bias, "silu") for t in range(l)], 2), y, "causal_conv1d_update")
    # packed sequences: as if each ran alone
    x, dt, BC = torch.randn(1, l, 3, 4), torch.randn(1, l, 3), torch.randn(1, l, 1, 5)
    seq = torch.tensor([[0] * 6 + [1] * 11], dtype=torch.int32)
    D2, A2 = torch.randn(3, 4), -torch.rand(3)
    packed = mamba_chunk_scan_combined(x, dt, A2, BC, BC, 64, D=D2, z=x, seq_idx=seq, dt_softplus=True)
    alone = [mamba_chunk_scan_combined(*(t[:, part] for t in (x, dt)), A2, BC[:, part], BC[:, part], 64, D=D2, z=x[:, part], dt_softplus=True)
             for part in (slice(0, 6), slice(6, l))]
    near(packed, torch.cat(alone, 1), "seq_idx")
    mixer = Mamba(16)
    x = torch.randn(2, 9, 16)
    y = mamba_inner_fn(mixer.in_proj(x).transpose(1, 2), mixer.conv1d.weight, mixer.conv1d.bias, mixer.x_proj.weight, mixer.dt_proj.weight,
                       mixer.out_proj.weight, None, -torch.exp(mixer.A_log), None, None, mixer.D, mixer.dt_proj.bias, delta_softplus=True)
    near(y, mixer(x), "mamba_inner_fn")
    mixer = Mamba2(32, d_state=8, headdim=16)
    x = torch.randn(2, 9, 32)
    y = mamba_split_conv1d_scan_combined(mixer.in_proj(x), mixer.conv1d.weight.squeeze(1), mixer.conv1d.bias, mixer.dt_bias, -torch.exp(mixer.A_log),
                                         mixer.D, 256, rmsnorm_weight=mixer.norm.weight, rmsnorm_eps=1e-5, outproj_weight=mixer.out_proj.weight,
                                         headdim=16, norm_before_gate=False)
    near(y, mixer(x), "mamba_split_conv1d_scan_combined")
    for refused in (lambda: selective_scan_fn(u, delta, A + 0j, B, C), lambda: mamba_chunk_scan_combined(x, dt, A2, BC, BC, cu_seqlens=seq)):
        try:
            refused()
            raise AssertionError("not refused")
        except NotImplementedError as e:
            assert "not supported" in str(e)


class Foreign:
    """An array of a library that is known by DLPack alone."""
    versions = []

    def __init__(self, tensor):
        self.tensor, self.shape, self.dtype = tensor, tensor.shape, np.float32

    def __dlpack__(self, **options):
        self.versions.append(options)
        if options:
            raise TypeError("the first version of the protocol takes no options")
        return self.tensor.__dlpack__()

    def __dlpack_device__(self):
        return 1, 0


def check_arrays():
    """Inputs are not copied: a state is updated where it is, read-only memory is taken, and rows may lie apart."""
    rng = np.random.default_rng(test_seed())
    f = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    u, delta, A, B, C, state = f(2, 1, 6), f(2, 1, 6), -np.abs(f(6, 3)), f(2, 1, 3), f(2, 1, 3), f(2, 6, 3)
    u.setflags(write=False)
    want, last = scan.selective_scan(u, delta, A, B, C, h0=state)
    before = state.copy()
    out, moved = scan.selective_scan(u, delta, A, B, C, h0=state, hT=state)
    assert moved is state and np.array_equal(state, last) and not np.array_equal(state, before) and np.array_equal(out, want)
    foreign, _ = scan.selective_scan(u, Foreign(torch.from_numpy(delta.copy())), A, B, C, h0=before)
    assert isinstance(foreign, np.ndarray) and np.array_equal(foreign, want) and {"max_version": (1, 0)} in Foreign.versions
    for _ in range(3):  # arrays of a layout that was seen, at other addresses
        again = [x.copy() for x in (u, delta, A, B, C, before)]
        assert np.array_equal(scan.selective_scan(*again[:5], h0=again[5])[0], want)
        mixed, _ = scan.selective_scan(u, *(torch.from_numpy(x.copy()) for x in (delta, A, B, C)), h0=before)
        assert np.array_equal(mixed, want)
    fixed = before.copy()
    fixed.setflags(write=False)
    jax = type("ArrayImpl", (Foreign,), {"__module__": "jaxlib.xla_extension"})
    sys.modules.setdefault("jaxlib", types.ModuleType("jaxlib"))
    wide = torch.randn(2, 9, 20)
    y, _ = scan.causal_conv(wide[:, :, 4:16], torch.randn(12, 4))
    assert isinstance(y, torch.Tensor) and y.is_contiguous()
    assert brr.torch._rows(wide.transpose(1, 2).transpose(1, 2)).data_ptr() == wide.data_ptr()
    for wrong, words in ((lambda: scan.selective_scan(u.astype(np.float64), delta, A, B, C), "u is float64"),
                         (lambda: scan.selective_scan(u, [1.0], A, B, C), "delta is a list"),
                         (lambda: scan.selective_scan(u, delta, A.T.copy().T, B, C, h0=before), "A (6,3) has strides (1,6)"),
                         (lambda: scan.selective_scan(u, delta, A, B, C, h0=before, hT=fixed), "hT is read-only"),
                         (lambda: scan.selective_scan(jax(torch.from_numpy(u.copy())), delta, A, B, C), "brr_xla_selective_scan by jax.ffi"),
                         (lambda: scan.selective_scan(Foreign(torch.from_numpy(u.copy())), delta, A, B, C), "has no arrays that can be written to"), (lambda: scan.describe("cuda:99"), "cuda:99")):
        try:
            wrong()
            raise AssertionError(f"not refused: {words}")
        except (TypeError, ValueError, brr.Error) as e:
            assert words in str(e), e


def main():
    torch.manual_seed(test_seed())
    m = brr.torch.Mamba
    check_model(m(32, d_state=8), MAMBA_NAMES, lambda p, x: mamba_formula(p, x, 8))
    for options in ({"headdim": 16, "d_state": 12}, {"headdim": 8, "d_state": 5, "ngroups": 2}):
        mixer = brr.torch.Mamba2(32, **options)
        check_model(mixer, MAMBA2_NAMES, lambda p, x, o=options, h=mixer.nheads: mamba2_formula(p, x, h, o["headdim"], o.get("ngroups", 1), o["d_state"]))
        check_generation(mixer)
    check_generation(m(32))
    check_state_dict(m)
    check_state_dict(brr.torch.Mamba2, headdim=16)
    check_functions()
    check_arrays()
    print("ok")


if __name__ == "__main__":
    main()
