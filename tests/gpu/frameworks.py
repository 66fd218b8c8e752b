#!/usr/bin/env python3
"""libbrr_scan on a GPU, called by PyTorch and by JAX: values and gradients against the formula in float64, on streams of their own, and the
microseconds of a call on the device and on the host. Skipped without a GPU that PyTorch sees; BRR_SCAN_LIBRARY names the library."""
import os
import sys
import time

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(SOURCE, "client", "python"), os.path.join(SOURCE, "tests")]
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # half of the GPU's memory is not JAX's
try:
    import torch
except ImportError:
    print("skipped: there is no PyTorch here")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: PyTorch sees no GPU")
    sys.exit(77)
from torch.nn import functional  # noqa: E402

import brr.torch  # noqa: E402
from brr import scan  # noqa: E402
from brr._library import scan_library, scan_of  # noqa: E402
from seed import test_seed  # noqa: E402

NAMES = ("u", "delta", "A", "B", "C", "D", "delta_bias", "z", "h0")
GATE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def formula(u, delta, A, B, C, D, delta_bias, z, h):
    """out, hT, token by token: u, delta, z (B,L,D); A (D,N); B, C (B,L,N); h (B,D,N)."""
    delta, outs = functional.softplus(delta + delta_bias), []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * u[:, t])[..., None] * B[:, t, None]
        outs.append((h * C[:, t, None]).sum(-1) + D * u[:, t])
    return torch.stack(outs, 1) * functional.silu(z), h


def drawn(batch, length, channels, states, dtype):
    """Arguments in the order of NAMES; parameters and the state are float32."""
    f = lambda *shape: torch.randn(shape, device="cuda")
    rows = lambda width: f(batch, length, width).to(dtype)
    return [rows(channels), rows(channels), -0.1 - f(channels, states).abs(), rows(states), rows(states), f(channels), f(channels), rows(channels),
            f(batch, channels, states)]


def near(found, expected, gate, what):
    found = torch.as_tensor(found).detach().cuda().double()
    error = float((found - expected).detach().norm() / expected.norm().clamp(min=1e-30))
    assert found.shape == expected.shape and error <= gate, f"{what} is off by {error:.2e}"  # false for NaN
    return error


def reference(arguments, dout):
    """out, hT and the gradients of all arguments, in float64."""
    exact = [x.detach().double().requires_grad_() for x in arguments]
    out, last = formula(*exact)
    return out.detach(), last.detach(), torch.autograd.grad(out, exact, dout.double())


def check_torch(dtype):
    arguments = [x.requires_grad_() for x in drawn(5, 70, 48, 16, dtype)]
    dout = torch.randn(5, 70, 48, device="cuda").to(dtype)
    out, last, gradients = reference(arguments, dout)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        found, state = brr.torch._selective(*arguments)
        own = torch.autograd.grad(found, arguments, dout)
    torch.cuda.synchronize()
    assert scan_of("cuda:0").stream == 0, "a call from brr.torch left its stream behind"
    gate = GATE[dtype]
    worst = max([near(found, out, gate, "out"), near(state, last, gate, "hT")] + [near(g, e, gate, f"d{n}") for g, e, n in zip(own, gradients, NAMES)])
    print(f"PyTorch, {dtype}: out, hT and {len(own)} gradients on a stream of its own, worst {worst:.1e}")


def check_place():
    """A state is updated where it lies, and inputs lie where they lay."""
    arguments = drawn(3, 1, 32, 8, torch.float32)
    want, last = scan.selective_scan(*arguments)
    state, before = arguments[8], torch.cuda.memory_allocated()
    at = state.data_ptr()
    out, moved = scan.selective_scan(*arguments, hT=state)
    scan.wait("cuda:0")
    grown = torch.cuda.memory_allocated() - before
    assert moved is state and state.data_ptr() == at and torch.equal(state, last) and torch.equal(out, want)
    assert grown <= max(512, out.numel() * 4), f"a call took {grown} bytes of PyTorch's memory; its output has {out.numel() * 4}"


def timed(call, calls=200):
    """Microseconds of a call: on the device, while the queue is full, and on the host."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(50_000_000)  # the queue fills meanwhile
    start.record()
    begun = time.perf_counter()
    for _ in range(calls):
        call()
    host = time.perf_counter() - begun
    end.record()
    torch.cuda.synchronize()
    return 1e3 * start.elapsed_time(end) / calls, 1e6 * host / calls


def time_torch():
    arguments = drawn(32, 60, 512, 16, torch.bfloat16)
    learned = [x.clone().requires_grad_() for x in arguments]
    dout = torch.randn(32, 60, 512, device="cuda").bfloat16()

    def both():
        out, _ = brr.torch._selective(*learned)
        torch.autograd.grad(out, learned, dout)

    for name, call in (("torch seed fwd", lambda: scan.selective_scan(*arguments)),
                       ("torch seed bwd", lambda: scan.selective_scan_backward(dout, *arguments)), ("torch seed autograd", both)):
        print("frameworks,%s,bf16,device %.1f us,host %.1f us" % (name, *timed(call)))


def check_jax():
    try:
        import jax
        import numpy as np
    except ImportError:
        print("no JAX here")
        return
    if not any(d.platform == "gpu" for d in jax.devices()):
        print("JAX sees no GPU")
        return
    library = scan_library()
    for target, symbol in (("brr_scan", "brr_xla_selective_scan_cuda"), ("brr_scan_backward", "brr_xla_selective_scan_backward_cuda")):
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(getattr(library, symbol)), platform="CUDA")
    shaped = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)

    @jax.custom_vjp
    def selective(*a):
        return jax.ffi.ffi_call("brr_scan", (shaped(a[0]), shaped(a[8])))(*a, softplus=True)

    def backward(a, g):
        return jax.ffi.ffi_call("brr_scan_backward", tuple(shaped(x) for x in a))(*a, *g, softplus=True)

    selective.defvjp(lambda *a: (selective(*a), a), backward)
    arguments = drawn(5, 70, 48, 16, torch.float32)
    dout = torch.randn(5, 70, 48, device="cuda")
    out, last, gradients = reference(arguments, dout)
    own = [jax.numpy.asarray(x.cpu().numpy()) for x in arguments]
    weight = jax.numpy.asarray(dout.cpu().numpy())
    found, state = jax.jit(selective)(*own)
    grads = jax.jit(jax.grad(lambda *a: (selective(*a)[0] * weight).sum(), argnums=tuple(range(9))))(*own)
    errors = [near(np.array(found), out, 1e-5, "JAX's out"), near(np.array(state), last, 1e-5, "JAX's hT")]
    errors += [near(np.array(g), e, 1e-5, f"JAX's d{n}") for g, e, n in zip(grads, gradients, NAMES)]
    print(f"JAX {jax.__version__} under jit: out, hT and {len(grads)} gradients, worst {max(errors):.1e}")
    many = [jax.numpy.asarray(x.float().cpu().numpy()).astype("bfloat16" if i in (0, 1, 3, 4, 7) else "float32")
            for i, x in enumerate(drawn(32, 60, 512, 16, torch.bfloat16))]
    call = jax.jit(selective)
    jax.block_until_ready([call(*many) for _ in range(20)])
    begun = time.perf_counter()
    results = [call(*many) for _ in range(200)]
    host = time.perf_counter() - begun
    jax.block_until_ready(results)
    print("frameworks,jax seed fwd,bf16,device and host %.1f us,host %.1f us" % (5e3 * (time.perf_counter() - begun), 5e3 * host))


def main():
    torch.manual_seed(test_seed())
    print(scan.describe("cuda:0"), "; PyTorch", torch.__version__)
    for dtype in GATE:
        check_torch(dtype)
    check_place()
    time_torch()
    check_jax()
    print("ok")


if __name__ == "__main__":
    main()
