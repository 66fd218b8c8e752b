"""The SSD scan of torch_compare.py: in matrix form, and as a fused Triton kernel, forward and backward.

y_t = C_t·h_t with h_t = exp(dt_t·a)·h_{t−1} + dt_t·B_t⊗x_t, per row and head. Both work in chunks of CHUNK tokens: within a chunk by
matrix products, and from chunk to chunk by the state. Shapes: x (B,L,H,P), dt (B,L,H), a (H), b and c (B,L,N), L a multiple of CHUNK.
"""
import torch
import torch.nn.functional as F

CHUNK = 64

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None


def matrix_scan(x, dt, a, b, c):
    """Plain PyTorch: all chunks at once, and one small matrix between them."""
    batch, length, heads, width = x.shape
    n, q = length // CHUNK, CHUNK
    log = (dt * a).reshape(batch, n, q, heads).permute(0, 3, 1, 2).cumsum(-1)  # (B,H,n,q)
    u = (x * dt.unsqueeze(-1)).reshape(batch, n, q, heads, width)
    b, c = b.reshape(batch, n, q, -1), c.reshape(batch, n, q, -1)
    past = torch.ones(q, q, dtype=torch.bool, device=x.device).tril()
    decay = torch.exp((log.unsqueeze(-1) - log.unsqueeze(-2)).masked_fill(~past, -torch.inf))
    scores = (c @ b.transpose(-1, -2)).unsqueeze(1) * decay  # (B,H,n,q,q)
    u = u.permute(0, 3, 1, 2, 4)  # (B,H,n,q,P)
    inside = scores @ u
    left = torch.exp(log[..., -1:] - log)  # decay to the chunk's end
    states = (b.unsqueeze(1) * left.unsqueeze(-1)).transpose(-1, -2) @ u  # (B,H,n,N,P)
    ends = F.pad(log[..., -1].cumsum(-1), (1, 0))  # (B,H,n+1)
    between = ends[..., :-1].unsqueeze(-1) - ends[..., 1:].unsqueeze(-2)
    earlier = torch.ones(n, n, dtype=torch.bool, device=x.device).tril(-1)
    between = torch.exp(between.masked_fill(~earlier, -torch.inf))
    start = (between @ states.flatten(-2)).reshape(states.shape)
    across = (c.unsqueeze(1) * torch.exp(log).unsqueeze(-1)) @ start
    return (inside + across).permute(0, 2, 3, 1, 4).reshape(batch, length, heads, width)


if triton:

    @triton.jit
    def _load_chunk(x, dt, b, c, head, heads, t, n, p, N: tl.constexpr, P: tl.constexpr):
        xs = tl.load(x + (t[:, None] * heads + head) * P + p[None, :]).to(tl.float32)
        steps = tl.load(dt + t * heads + head).to(tl.float32)
        bs = tl.load(b + t[:, None] * N + n[None, :]).to(tl.float32)
        cs = tl.load(c + t[:, None] * N + n[None, :]).to(tl.float32)
        return xs, steps, bs, cs

    @triton.jit
    def _forward(x, dt, a, b, c, y, states, length, heads, N: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, SAVE: tl.constexpr,
                 PRECISION: tl.constexpr):
        """One row and head: its chunks in order, the state (N,P) in registers; SAVE keeps the state before each chunk."""
        row, head = tl.program_id(0), tl.program_id(1)
        q, n, p = tl.arange(0, Q), tl.arange(0, N), tl.arange(0, P)
        rate = tl.load(a + head).to(tl.float32)
        h = tl.zeros((N, P), dtype=tl.float32)
        for chunk in range(0, length // Q):
            t = row * length + chunk * Q + q
            xs, steps, bs, cs = _load_chunk(x, dt, b, c, head, heads, t, n, p, N, P)
            log, total = tl.cumsum(steps * rate, 0), tl.sum(steps * rate, 0)
            u = xs * steps[:, None]
            decay = tl.where(q[:, None] >= q[None, :], tl.exp(log[:, None] - log[None, :]), 0.0)
            scores = tl.dot(cs, tl.trans(bs), input_precision=PRECISION) * decay
            out = tl.dot(scores, u, input_precision=PRECISION)
            out += tl.dot(cs * tl.exp(log)[:, None], h, input_precision=PRECISION)
            tl.store(y + (t[:, None] * heads + head) * P + p[None, :], out)
            if SAVE:
                place = ((row * heads + head) * (length // Q) + chunk) * N * P
                tl.store(states + place + n[:, None] * P + p[None, :], h)
            moved = tl.dot(tl.trans(bs * tl.exp(total - log)[:, None]), u, input_precision=PRECISION)
            h = tl.exp(total) * h + moved

    @triton.jit
    def _backward(x, dt, a, b, c, states, g, dx, ddt, da, db, dc, length, heads, N: tl.constexpr, P: tl.constexpr, Q: tl.constexpr,
                  PRECISION: tl.constexpr):
        """The chunks from the last to the first, the state's gradient in registers; db, dc (B,L,H,N) and da (B,H) are shares."""
        row, head = tl.program_id(0), tl.program_id(1)
        q, n, p = tl.arange(0, Q), tl.arange(0, N), tl.arange(0, P)
        rate = tl.load(a + head).to(tl.float32)
        dh = tl.zeros((N, P), dtype=tl.float32)
        drate = 0.0
        chunks = length // Q
        for step in range(0, chunks):
            chunk = chunks - 1 - step
            t = row * length + chunk * Q + q
            xs, steps, bs, cs = _load_chunk(x, dt, b, c, head, heads, t, n, p, N, P)
            gs = tl.load(g + (t[:, None] * heads + head) * P + p[None, :]).to(tl.float32)
            h = tl.load(states + ((row * heads + head) * chunks + chunk) * N * P + n[:, None] * P + p[None, :])
            log, total = tl.cumsum(steps * rate, 0), tl.sum(steps * rate, 0)
            grown, left = tl.exp(log), tl.exp(total - log)
            u = xs * steps[:, None]
            decay = tl.where(q[:, None] >= q[None, :], tl.exp(log[:, None] - log[None, :]), 0.0)
            raw = tl.dot(cs, tl.trans(bs), input_precision=PRECISION)
            ahead = tl.dot(bs, dh, input_precision=PRECISION)  # (Q,P)
            du = tl.dot(tl.trans(raw * decay), gs, input_precision=PRECISION) + left[:, None] * ahead
            ds = tl.dot(gs, tl.trans(u), input_precision=PRECISION) * decay
            dcs = tl.dot(ds, bs, input_precision=PRECISION)
            dcs += grown[:, None] * tl.dot(gs, tl.trans(h), input_precision=PRECISION)
            dbs = tl.dot(tl.trans(ds), cs, input_precision=PRECISION)
            dbs += left[:, None] * tl.dot(u, tl.trans(dh), input_precision=PRECISION)
            pairs = ds * raw
            behind = grown * tl.sum(tl.dot(cs, h, input_precision=PRECISION) * gs, 1)
            moved = left * tl.sum(ahead * u, 1)
            dlog = tl.sum(pairs, 1) - tl.sum(pairs, 0) + behind - moved
            dtotal = tl.sum(moved, 0) + tl.exp(total) * tl.sum(tl.sum(h * dh, 1), 0)
            later = tl.sum(dlog, 0) - tl.cumsum(dlog, 0) + dlog + dtotal  # of each step's dt·a
            drate += tl.sum(later * steps, 0)
            tl.store(dx + (t[:, None] * heads + head) * P + p[None, :], du * steps[:, None])
            tl.store(ddt + t * heads + head, later * rate + tl.sum(du * xs, 1))
            tl.store(db + (t[:, None] * heads + head) * N + n[None, :], dbs)
            tl.store(dc + (t[:, None] * heads + head) * N + n[None, :], dcs)
            dh = tl.exp(total) * dh + tl.dot(tl.trans(cs * grown[:, None]), gs, input_precision=PRECISION)
        tl.store(da + row * heads + head, drate)


class TritonScan(torch.autograd.Function):
    """matrix_scan by the kernels above; float32 inputs are multiplied without rounding them to tf32."""

    @staticmethod
    def forward(ctx, x, dt, a, b, c):
        x, dt, a, b, c = (v.contiguous() for v in (x, dt, a, b, c))
        batch, length, heads, width = x.shape
        n, save = b.shape[-1], any(ctx.needs_input_grad)
        states = torch.empty(batch, heads, length // CHUNK, n, width, device=x.device) if save else x
        y = torch.empty(x.shape, device=x.device)
        ctx.precision = "ieee" if x.dtype == torch.float32 else "tf32"
        _forward[(batch, heads)](x, dt, a, b, c, y, states, length, heads, N=n, P=width, Q=CHUNK, SAVE=save, PRECISION=ctx.precision)
        ctx.save_for_backward(x, dt, a, b, c, states)
        return y

    @staticmethod
    def backward(ctx, g):
        x, dt, a, b, c, states = ctx.saved_tensors
        batch, length, heads, width = x.shape
        n, new = b.shape[-1], lambda *shape: torch.empty(shape, device=x.device)
        dx, ddt, da = new(*x.shape), new(*dt.shape), new(batch, heads)
        db, dc = new(batch, length, heads, n), new(batch, length, heads, n)
        _backward[(batch, heads)](x, dt, a, b, c, states, g.contiguous(), dx, ddt, da, db, dc, length, heads, N=n, P=width, Q=CHUNK,
                                  PRECISION=ctx.precision)
        return dx.to(x.dtype), ddt.to(dt.dtype), da.sum(0).to(a.dtype), db.sum(2).to(b.dtype), dc.sum(2).to(c.dtype)


def difference(device):
    """Of the two forms' results and gradients on small random input, the largest relative to their size."""
    worst, made = 0.0, torch.Generator().manual_seed(1)
    shapes = {"x": (2, 3 * CHUNK, 2, 64), "dt": (2, 3 * CHUNK, 2), "a": (2,), "b": (2, 3 * CHUNK, 16), "c": (2, 3 * CHUNK, 16)}
    values = {k: torch.randn(s, generator=made) for k, s in shapes.items()}
    values["dt"], values["a"] = F.softplus(values["dt"] - 3), -torch.exp(values["a"])
    weight = torch.randn(shapes["x"], generator=made).to(device)
    results = []
    for scan in (matrix_scan, TritonScan.apply):
        inputs = [v.to(device).requires_grad_() for v in values.values()]
        y = scan(*inputs)
        (y * weight).sum().backward()
        results.append([y.detach()] + [v.grad for v in inputs])
    for one, other in zip(*results):
        worst = max(worst, float((one - other).abs().max() / one.abs().max()))
    return worst
