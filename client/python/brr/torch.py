"""brrd's scans in PyTorch: functions with gradients, mamba_ssm's functions by name, and modules whose state_dict names are those of mamba_ssm. Tensors
are used where they are; those of mamba_ssm's functions that are (batch, channels, length) are copied unless their memory is channel-last already.

as_mamba_ssm() puts these names in the place of the packages mamba_ssm and causal_conv1d, for programs that import them."""
import json
import math
import sys
import types

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from . import scan
from ._library import scan_of
from .onnx import read_model, write_model

__all__ = ["Detector", "Mamba", "Mamba2", "RMSNormGated", "as_mamba_ssm", "causal_conv1d_fn", "causal_conv1d_update", "mamba_chunk_scan_combined", "mamba_inner_fn",
           "mamba_split_conv1d_scan_combined", "selective_scan_fn", "selective_state_update"]


class _StreamOf:
    """While it is open the calling thread's scan of x's GPU queues behind what PyTorch has queued; then on its own stream again."""

    def __init__(self, x):
        self.own, self.device = scan_of(f"cuda:{x.device.index}") if x.is_cuda else None, x.device

    def __enter__(self):
        if self.own:
            self.before = self.own.stream
            self.own.use_stream(torch.cuda.current_stream(self.device).cuda_stream)

    def __exit__(self, *_):
        if self.own:
            self.own.use_stream(self.before)


class _Op(torch.autograd.Function):
    """One op of brr.scan as a node of autograd: forward(forward, backward, names of the inputs, options, *inputs) returns what `forward` does."""

    @staticmethod
    def forward(ctx, forward, backward, names, options, *inputs):
        ctx.backward_op, ctx.names, ctx.options = backward, names, options
        ctx.set_materialize_grads(False)
        with _StreamOf(inputs[0]):
            out, state = forward(**dict(zip(names, inputs)), **options)
        ctx.save_for_backward(*inputs, out, state)
        return out, state

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dout, dstate):
        *inputs, out, state = ctx.saved_tensors
        dout = torch.zeros_like(out) if dout is None else dout.to(out.dtype).contiguous()
        dstate = None if dstate is None else dstate.float().contiguous()
        with _StreamOf(out):  # autograd computes on a thread of its own, whose scan is another one
            gradients = ctx.backward_op(dout, dstate, state, dict(zip(ctx.names, inputs)), ctx.options)
        return (None, None, None, None, *(gradients.get(name) if x is not None else None for name, x in zip(ctx.names, inputs)))


def _op(*arguments):
    if torch.jit.is_tracing():
        raise RuntimeError("brr.torch: a trace (torch.onnx.export, torch.jit.trace) does not see brrd's scans and would write another function without "
                           "them; brr.onnx.export(module, path, batch=…, steps=…) writes Mamba and Mamba2 as ONNX")
    return _Op.apply(*arguments)


def _scan_backward(op, final):
    return lambda dout, dstate, state, inputs, options: op(dout, **inputs, **{final: dstate}, **options)


def _norm_backward(dout, dstate, state, inputs, options):
    return scan.gated_rmsnorm_backward(dout, state, **inputs, **options)


def _rows(x):
    """As the library takes it: channels side by side, rows of one distance."""
    if x is None or x.is_contiguous():
        return x
    strides, shape = x.stride(), x.shape
    flat = strides[-1] == 1 and strides[-2] >= shape[-1] and all(strides[i] == shape[i + 1] * strides[i + 1] for i in range(x.dim() - 2))
    return x if flat else x.contiguous()


def _like(x, other):
    return x if x is None or x.dtype is other.dtype else x.to(other.dtype)


def _f32(x):
    return x if x is None or (x.dtype is torch.float32 and x.is_contiguous()) else x.float().contiguous()


def _selective(u, delta, A, B, C, D=None, delta_bias=None, z=None, h0=None, **options):
    """out, hT; channel-last, with gradients."""
    names = ("u", "delta", "A", "B", "C", "D", "delta_bias", "z", "h0")
    inputs = (_rows(u), _rows(_like(delta, u)), _f32(A), _rows(_like(B, u)), _rows(_like(C, u)), _f32(D), _f32(delta_bias), _rows(_like(z, u)), _f32(h0))
    return _op(scan.selective_scan, _scan_backward(scan.selective_scan_backward, "dhT"), names, options, *inputs)


def _ssd(x, delta, A, B, C, D=None, delta_bias=None, h0=None, **options):
    names = ("x", "delta", "A", "B", "C", "D", "delta_bias", "h0")
    b, l, h, p = x.shape
    x = x if x.stride(3) == 1 and x.stride(2) == p and (b == 1 or x.stride(0) == l * x.stride(1)) else x.contiguous()
    inputs = (x, _rows(_like(delta, x)), _f32(A), _rows(_like(B, x)), _rows(_like(C, x)), _f32(D), _f32(delta_bias), _f32(h0))
    return _op(scan.ssd, _scan_backward(scan.ssd_backward, "dhT"), names, options, *inputs)


def _conv(x, w, bias=None, state0=None, **options):
    return _op(scan.causal_conv, _scan_backward(scan.causal_conv_backward, "dstate"), ("x", "w", "bias", "state0"), options,
                     _rows(x), _f32(w), _f32(bias), _f32(state0))


def _gated_rmsnorm(y, z, weight, groups=1, eps=1e-5):
    return _op(scan.gated_rmsnorm, _norm_backward, ("y", "z", "weight"), {"groups": groups, "eps": eps}, _rows(y), _rows(_like(z, y)),
                     _f32(weight))[0]


def _refuse(condition, what):
    if condition:
        raise NotImplementedError(f"brr.torch: {what} is not supported")


def _resets(seq_idx):
    """1 where a packed sequence begins."""
    if seq_idx is None:
        return None
    return functional.pad(seq_idx[:, 1:] != seq_idx[:, :-1], (1, 0)).to(torch.uint8).contiguous()


def _states_of(x, name):
    """mamba_ssm's B or C (b n l) or (b g n l) -> (b l g n)."""
    _refuse(x.is_complex(), f"complex {name}")
    _refuse(x.dim() == 2, f"a {name} that is the same at all times")
    return (x.unsqueeze(1) if x.dim() == 3 else x).permute(0, 3, 1, 2)


def selective_scan_fn(u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False, return_last_state=False):
    """mamba_ssm's: u, delta, z (b d l), A (d n), B and C (b n l) or (b g n l)."""
    _refuse(A.is_complex(), "complex A")
    out, last = _selective(u.transpose(1, 2), delta.transpose(1, 2), A, _states_of(B, "B"), _states_of(C, "C"), D, delta_bias,
                           None if z is None else z.transpose(1, 2), softplus=delta_softplus)
    out = out.transpose(1, 2)
    return (out, last) if return_last_state else out


def mamba_chunk_scan_combined(x, dt, A, B, C, chunk_size=None, D=None, z=None, dt_bias=None, initial_states=None, seq_idx=None, cu_seqlens=None,
                              dt_softplus=False, dt_limit=(0.0, float("inf")), return_final_states=False, return_varlen_states=False):
    """mamba_ssm's: x, z (b l h p), dt (b l h), A (h), B and C (b l g n), D (h) or (h p). The result does not depend on chunk_size."""
    _refuse(cu_seqlens is not None or return_varlen_states, "cu_seqlens (use seq_idx)")
    _refuse(A.is_complex(), "complex A")
    wide = D is not None and D.dim() == 2
    clamp = None if tuple(dt_limit) == (0.0, float("inf")) else dt_limit
    y, last = _ssd(x, dt, A, B, C, None if wide else D, dt_bias, initial_states, softplus=dt_softplus, clamp=clamp, resets=_resets(seq_idx))
    if wide:
        y = y + x * D.to(x.dtype)
    if z is not None:
        y = y * functional.silu(z)
    return (y, last) if return_final_states else y


def causal_conv1d_fn(x, weight, bias=None, seq_idx=None, initial_states=None, return_final_states=False, final_states_out=None, activation=None):
    """causal_conv1d's: x (b d l), weight (d k), states (b d k-1)."""
    _refuse(activation not in (None, "silu", "swish"), f"the activation {activation}")
    state0 = None if initial_states is None else initial_states.transpose(1, 2)
    y, state = _conv(x.transpose(1, 2), weight, bias, state0, silu=activation is not None, resets=_resets(seq_idx))
    y, state = y.transpose(1, 2), state.transpose(1, 2)
    if final_states_out is not None:
        final_states_out.copy_(state)
    return (y, state) if return_final_states else y


def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None, cache_seqlens=None, conv_state_indices=None):
    """One token or a few: x (b d) or (b d l); conv_state (b d k-1 or wider) is updated in place."""
    _refuse(cache_seqlens is not None or conv_state_indices is not None, "a ring of conv_state, or one that is indexed")
    tokens = x.unsqueeze(2) if x.dim() == 2 else x
    keep = weight.shape[1] - 1
    y, _ = _conv(tokens.transpose(1, 2), weight, bias, conv_state[:, :, conv_state.shape[2] - keep:].transpose(1, 2),
                 silu=activation is not None)
    conv_state.copy_(torch.cat([conv_state, tokens.to(conv_state.dtype)], 2)[:, :, tokens.shape[2]:])
    return y[:, 0] if x.dim() == 2 else y.transpose(1, 2)


def selective_state_update(state, x, dt, A, B, C, D=None, z=None, dt_bias=None, dt_softplus=False):
    """One token: state (b d n) or (b h p n), updated in place; x, dt, z (b d) or (b h p); A as the state, B and C (b n) or (b g n)."""
    b, n, shape = x.shape[0], state.shape[-1], x.shape
    flat = [None if t is None else t.reshape(b, 1, -1) for t in (x, dt, z)]
    A, D, dt_bias = A.reshape(-1, n), None if D is None else D.reshape(-1), None if dt_bias is None else dt_bias.reshape(-1)
    B, C = (t.reshape(b, 1, -1, n) for t in (B, C))
    out, last = _selective(flat[0], flat[1], A, B, C, D, dt_bias, flat[2], state.reshape(b, -1, n), softplus=dt_softplus)
    state.copy_(last.reshape(state.shape))
    return out.reshape(shape)


def _mamba(x, z, conv1d_weight, conv1d_bias, x_proj_weight, delta_proj_weight, A, D, delta_bias, state=None):
    """Channel-last Mamba-1 between its projections; state: (conv state (b k-1 d), ssm state (b d n)) or None. y, and both states after."""
    rank, n = delta_proj_weight.shape[1], A.shape[1]
    x, conv_state = _conv(x, conv1d_weight.reshape(conv1d_weight.shape[0], -1), conv1d_bias, state and state[0], silu=True)
    parts = functional.linear(x, x_proj_weight)
    delta = functional.linear(parts[..., :rank], delta_proj_weight)
    y, last = _selective(x, delta, A, parts[..., rank:rank + n].contiguous(), parts[..., rank + n:].contiguous(), D, delta_bias, z, state and state[1],
                         softplus=True)
    return y, conv_state, last


def mamba_inner_fn(xz, conv1d_weight, conv1d_bias, x_proj_weight, delta_proj_weight, out_proj_weight, out_proj_bias, A, B=None, C=None, D=None,
                   delta_bias=None, B_proj_bias=None, C_proj_bias=None, delta_softplus=True, *unused, **ignored):
    """mamba_ssm's: xz (b 2d l)."""
    _refuse(B is not None or C is not None or B_proj_bias is not None or C_proj_bias is not None, "a B or C that does not come from x_proj")
    _refuse(not delta_softplus, "delta without softplus")
    x, z = xz.transpose(1, 2).chunk(2, dim=-1)
    y, _, _ = _mamba(x, z, conv1d_weight, conv1d_bias, x_proj_weight, delta_proj_weight, A, D, delta_bias)
    return functional.linear(y, out_proj_weight, out_proj_bias)


def _inverse_softplus_of_steps(count, dt_min, dt_max, dt_init_floor, **factory):
    dt = torch.exp(torch.rand(count, **factory) * (math.log(dt_max) - math.log(dt_min)) + math.log(dt_min)).clamp(min=dt_init_floor)
    return dt + torch.log(-torch.expm1(-dt))


def _cached(inference_params, layer, batch, make):
    cache = inference_params.key_value_memory_dict
    if layer not in cache:
        cache[layer] = make(batch)
    return cache[layer]


class Mamba(nn.Module):
    """mamba_ssm.Mamba, with its arguments and parameters."""

    def __init__(self, d_model, d_state=16, d_conv=4, expand=2, dt_rank="auto", dt_min=0.001, dt_max=0.1, dt_init="random", dt_scale=1.0,
                 dt_init_floor=1e-4, conv_bias=True, bias=False, use_fast_path=True, layer_idx=None, device=None, dtype=None):
        factory = {"device": device, "dtype": dtype}
        super().__init__()
        self.d_model, self.d_state, self.d_conv, self.layer_idx = d_model, d_state, d_conv, layer_idx
        self.d_inner = int(expand * d_model)
        self.dt_rank = math.ceil(d_model / 16) if dt_rank == "auto" else dt_rank
        self.in_proj = nn.Linear(d_model, 2 * self.d_inner, bias=bias, **factory)
        self.conv1d = nn.Conv1d(self.d_inner, self.d_inner, d_conv, groups=self.d_inner, padding=d_conv - 1, bias=conv_bias, **factory)
        self.x_proj = nn.Linear(self.d_inner, self.dt_rank + 2 * d_state, bias=False, **factory)
        self.dt_proj = nn.Linear(self.dt_rank, self.d_inner, bias=True, **factory)
        scale = self.dt_rank ** -0.5 * dt_scale
        if dt_init == "constant":
            nn.init.constant_(self.dt_proj.weight, scale)
        else:
            nn.init.uniform_(self.dt_proj.weight, -scale, scale)
        with torch.no_grad():
            self.dt_proj.bias.copy_(_inverse_softplus_of_steps(self.d_inner, dt_min, dt_max, dt_init_floor, **factory))
        self.A_log = nn.Parameter(torch.log(torch.arange(1, d_state + 1, dtype=torch.float32, device=device).repeat(self.d_inner, 1)))
        self.D = nn.Parameter(torch.ones(self.d_inner, device=device))
        self.A_log._no_weight_decay = self.D._no_weight_decay = True
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=bias, **factory)

    def _run(self, hidden_states, state=None):
        x, z = self.in_proj(hidden_states).chunk(2, dim=-1)
        y, conv_state, last = _mamba(x, z, self.conv1d.weight, self.conv1d.bias, self.x_proj.weight, self.dt_proj.weight, -torch.exp(self.A_log.float()),
                                     self.D, self.dt_proj.bias, state)
        return self.out_proj(y), conv_state, last

    def forward(self, hidden_states, inference_params=None):
        if inference_params is None:
            return self._run(hidden_states)[0]
        conv_state, ssm_state = _cached(inference_params, self.layer_idx, hidden_states.shape[0], self.allocate_inference_cache)
        if inference_params.seqlen_offset > 0:
            return self.step(hidden_states, conv_state, ssm_state)[0]
        out, conv, last = self._run(hidden_states)
        conv_state.zero_()
        conv_state[:, :, 1:].copy_(conv.transpose(1, 2))
        ssm_state.copy_(last)
        return out

    def step(self, hidden_states, conv_state, ssm_state):
        """One token (b 1 m); conv_state (b d k) and ssm_state (b d n) are updated in place."""
        x = self.in_proj(hidden_states)[..., :self.d_inner]
        out, _, last = self._run(hidden_states, (conv_state[:, :, 1:].transpose(1, 2), ssm_state))
        conv_state.copy_(torch.cat([conv_state[:, :, 1:], x.transpose(1, 2).to(conv_state.dtype)], 2))
        ssm_state.copy_(last)
        return out, conv_state, ssm_state

    def allocate_inference_cache(self, batch_size, max_seqlen=None, dtype=None, **ignored):
        device = self.out_proj.weight.device
        return (torch.zeros(batch_size, self.d_inner, self.d_conv, device=device, dtype=dtype or self.conv1d.weight.dtype),
                torch.zeros(batch_size, self.d_inner, self.d_state, device=device))


class RMSNormGated(nn.Module):
    """mamba_ssm's RMSNorm with a gate before it."""

    def __init__(self, hidden_size, eps=1e-5, group_size=None, norm_before_gate=False, device=None, dtype=None):
        super().__init__()
        _refuse(norm_before_gate, "norm_before_gate")
        self.eps, self.groups = eps, hidden_size // (group_size or hidden_size)
        self.weight = nn.Parameter(torch.ones(hidden_size, device=device, dtype=dtype))

    def forward(self, x, z):
        return _gated_rmsnorm(x, z, self.weight, self.groups, self.eps)


def _mamba2(zxbcdt, conv1d_weight, conv1d_bias, dt_bias, A, D, shape, dt_limit, activation, state=None, seq_idx=None):
    """Channel-last Mamba-2 from its projection; shape: (d_ssm, headdim, groups). y before the gate (b l d), z, both states after."""
    d_ssm, headdim, groups = shape
    b, l, _ = zxbcdt.shape
    heads = d_ssm // headdim
    n = (zxbcdt.shape[-1] - 2 * d_ssm - heads) // (2 * groups)
    z, xbc, dt = torch.split(zxbcdt, [d_ssm, d_ssm + 2 * groups * n, heads], dim=-1)
    xbc, conv_state = _conv(xbc, conv1d_weight.reshape(conv1d_weight.shape[0], -1), conv1d_bias, state and state[0], silu=activation is not None,
                            resets=_resets(seq_idx))
    x, B, C = torch.split(xbc, [d_ssm, groups * n, groups * n], dim=-1)
    y, last = mamba_chunk_scan_combined(x.reshape(b, l, heads, headdim), dt, A, B.reshape(b, l, groups, n), C.reshape(b, l, groups, n), D=D,
                                        dt_bias=dt_bias, initial_states=state and state[1], seq_idx=seq_idx, dt_softplus=True, dt_limit=dt_limit,
                                        return_final_states=True)
    return y.reshape(b, l, d_ssm), z, xbc, conv_state, last


def mamba_split_conv1d_scan_combined(zxbcdt, conv1d_weight, conv1d_bias, dt_bias, A, D, chunk_size=None, initial_states=None, seq_idx=None,
                                     dt_limit=(0.0, float("inf")), return_final_states=False, activation="silu", rmsnorm_weight=None, rmsnorm_eps=1e-6,
                                     outproj_weight=None, outproj_bias=None, headdim=None, ngroups=1, norm_before_gate=True):
    """mamba_ssm's: zxbcdt (b l 2d + 2gn + h)."""
    headdim = headdim or D.shape[1]
    d_ssm = A.shape[0] * headdim
    _refuse(zxbcdt.shape[-1] - 2 * d_ssm - A.shape[0] < 0, "an MLP beside the scan")
    conv_state = None
    if initial_states is not None:
        b = zxbcdt.shape[0]
        conv_state = zxbcdt.new_zeros(b, conv1d_weight.shape[-1] - 1, conv1d_weight.shape[0])
    y, z, _, _, last = _mamba2(zxbcdt, conv1d_weight, conv1d_bias, dt_bias, A, D, (d_ssm, headdim, ngroups), dt_limit, activation,
                               None if initial_states is None else (conv_state, initial_states), seq_idx)
    if rmsnorm_weight is None:
        y = y * functional.silu(z)
    else:
        _refuse(norm_before_gate, "norm_before_gate")
        y = _gated_rmsnorm(y, z, rmsnorm_weight, ngroups, rmsnorm_eps)
    out = y if outproj_weight is None else functional.linear(y, outproj_weight, outproj_bias)
    return (out, last) if return_final_states else out


class Mamba2(nn.Module):
    """mamba_ssm.Mamba2, with its arguments and parameters; of one process, without an MLP beside the scan."""

    def __init__(self, d_model, d_state=128, d_conv=4, conv_init=None, expand=2, headdim=64, d_ssm=None, ngroups=1, A_init_range=(1, 16), D_has_hdim=False,
                 rmsnorm=True, norm_before_gate=False, dt_min=0.001, dt_max=0.1, dt_init_floor=1e-4, dt_limit=(0.0, float("inf")), bias=False,
                 conv_bias=True, chunk_size=256, use_mem_eff_path=True, layer_idx=None, process_group=None, sequence_parallel=True, device=None,
                 dtype=None):
        factory = {"device": device, "dtype": dtype}
        super().__init__()
        self.d_model, self.d_state, self.d_conv, self.headdim, self.ngroups, self.layer_idx = d_model, d_state, d_conv, headdim, ngroups, layer_idx
        self.d_inner = self.d_ssm = expand * d_model
        _refuse(process_group is not None, "a process group")
        _refuse(d_ssm not in (None, self.d_inner), "d_ssm below d_inner")
        self.nheads, self.dt_limit, self.activation, self.D_has_hdim = self.d_ssm // headdim, tuple(dt_limit), "silu", D_has_hdim
        channels = self.d_ssm + 2 * ngroups * d_state
        self.in_proj = nn.Linear(d_model, 2 * self.d_inner + 2 * ngroups * d_state + self.nheads, bias=bias, **factory)
        self.conv1d = nn.Conv1d(channels, channels, d_conv, groups=channels, padding=d_conv - 1, bias=conv_bias, **factory)
        if conv_init is not None:
            nn.init.uniform_(self.conv1d.weight, -conv_init, conv_init)
        self.dt_bias = nn.Parameter(_inverse_softplus_of_steps(self.nheads, dt_min, dt_max, dt_init_floor, **factory))
        self.A_log = nn.Parameter(torch.log(torch.empty(self.nheads, dtype=torch.float32, device=device).uniform_(*A_init_range)).to(dtype))
        self.D = nn.Parameter(torch.ones(self.d_ssm if D_has_hdim else self.nheads, device=device))
        self.dt_bias._no_weight_decay = self.A_log._no_weight_decay = self.D._no_weight_decay = True
        self.rmsnorm = rmsnorm
        if rmsnorm:
            self.norm = RMSNormGated(self.d_ssm, 1e-5, self.d_ssm // ngroups, norm_before_gate, **factory)
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=bias, **factory)

    def _run(self, hidden_states, state=None, seq_idx=None):
        D = self.D.reshape(-1, self.headdim) if self.D_has_hdim else self.D
        zxbcdt = self.in_proj(hidden_states)
        y, z, _, conv_state, last = _mamba2(zxbcdt, self.conv1d.weight, self.conv1d.bias, self.dt_bias, -torch.exp(self.A_log.float()), D,
                                            (self.d_ssm, self.headdim, self.ngroups), self.dt_limit, self.activation, state, seq_idx)
        y = self.norm(y, z) if self.rmsnorm else y * functional.silu(z)
        return self.out_proj(y), conv_state, last, zxbcdt

    def forward(self, u, seqlen=None, seq_idx=None, cu_seqlens=None, inference_params=None):
        _refuse(cu_seqlens is not None, "cu_seqlens (use seq_idx)")
        flat = u.shape
        if seqlen is not None:
            u = u.reshape(-1, seqlen, flat[-1])
        if inference_params is None:
            return self._run(u, seq_idx=seq_idx)[0].reshape(flat)
        conv_state, ssm_state = _cached(inference_params, self.layer_idx, u.shape[0], self.allocate_inference_cache)
        if inference_params.seqlen_offset > 0:
            return self.step(u, conv_state, ssm_state)[0]
        out, conv, last, _ = self._run(u, seq_idx=seq_idx)
        conv_state.zero_()
        conv_state[:, :, 1:].copy_(conv.transpose(1, 2))
        ssm_state.copy_(last)
        return out.reshape(flat)

    def step(self, hidden_states, conv_state, ssm_state):
        """One token (b 1 m); conv_state (b c k) and ssm_state (b h p n) are updated in place."""
        out, _, last, zxbcdt = self._run(hidden_states, (conv_state[:, :, 1:].transpose(1, 2), ssm_state))
        token = zxbcdt[..., self.d_inner:self.d_inner + conv_state.shape[1]]
        conv_state.copy_(torch.cat([conv_state[:, :, 1:], token.transpose(1, 2).to(conv_state.dtype)], 2))
        ssm_state.copy_(last)
        return out, conv_state, ssm_state

    def allocate_inference_cache(self, batch_size, max_seqlen=None, dtype=None, **ignored):
        device = self.out_proj.weight.device
        return (torch.zeros(batch_size, self.conv1d.weight.shape[0], self.d_conv, device=device, dtype=dtype or self.conv1d.weight.dtype),
                torch.zeros(batch_size, self.nheads, self.headdim, self.d_state, device=device))


# ---- detectors ----

class Detector(nn.Module):
    """The network of a model file, for weights that were trained elsewhere. Its state_dict has the file's names, in the mixers those of mamba_ssm.

        net = brr.torch.Detector("theirs.safetensors")           # the shapes and the configuration of a file, and its weights
        net.load_state_dict(theirs)                              # or Detector.load("theirs.pt", like=..., rename={"backbone.": ""})
        net.save("mine.safetensors", like="theirs.safetensors")  # a model file with the montage, the window and the thresholds of `like`

    forward takes rows (B,T,C) as brr.Detector.rows makes them, and gives logits (B,T), divided by the file's temperature; for causal networks from the start
    of a recording on."""

    def __init__(self, file):
        super().__init__()
        weights, about = read_model(file)
        self.config = c = json.loads(about["brr.model"])
        self._past_only = c.get("type", "seizure") == "causal"
        if not self._past_only and c.get("type", "seizure") != "seizure":
            raise ValueError(f"{file} is a model of type {c['type']}, which has no network")
        for name, value in weights.items():
            node, _, leaf = name.rpartition(".")
            mixer = node.split(".")[:3]
            if mixer[0] == "mamba" and mixer[2] in ("fwd", "bwd") and c.get("mixer", "mamba2") == "mamba2":
                d = c["encoder_channels"][3]
                self._put(".".join(mixer), lambda: Mamba2(d, c["d_state"], c["d_conv"], expand=c["expand"], headdim=c["headdim"], ngroups=c["ngroups"]))
            elif leaf == "weight":
                self._put(node, lambda: self._layer(node, value, f"{node}.bias" in weights, f"{node}.running_mean" in weights))
        self._take(weights, about, {})
        self.eval()

    def _take(self, weights, about, rename):
        """Weights, with the temperature of their file in the last layer, and what the file says of the data behind them."""
        share = 1 / float(about.get("brr.temperature", 1))
        self.load_state_dict(_own_names({k: v * share if share != 1 and k.startswith(("head.out.", "head.skip.")) else v for k, v in weights.items()}, rename, self.config))
        self._said = {k: about[k] for k in ("brr.patients", "brr.notice") if k in about}

    def _layer(self, name, w, bias, is_batch_norm):
        if is_batch_norm:
            return nn.BatchNorm1d(len(w))
        if w.ndim == 1:
            return nn.LayerNorm(len(w))
        if w.ndim == 2:
            return nn.Linear(w.shape[1], w.shape[0], bias=bias)
        if name.endswith(".up"):
            return nn.ConvTranspose1d(w.shape[0], w.shape[1], w.shape[2], stride=2, bias=bias)
        groups = w.shape[0] if name.startswith("mamba.") else 1
        return nn.Conv1d(w.shape[1] * groups, w.shape[0], w.shape[2], stride=2 if name.endswith(".down") else 1, groups=groups, bias=bias)

    def _put(self, name, make):
        node, *path = self, *name.split(".")
        for part in path[:-1]:
            if part not in node._modules:
                node.add_module(part, nn.Module())
            node = node._modules[part]
        if path[-1] not in node._modules:
            node.add_module(path[-1], make())

    def _conv(self, name, x):
        """With as many samples as x has: of causal networks from the past alone."""
        layer = self.get_submodule(name)
        k = layer.kernel_size[0]
        return layer(functional.pad(x, (k - 1, 0) if self._past_only else (k // 2, k // 2)))

    def _block(self, conv, norm, x, activate=torch.relu):
        return activate(self.get_submodule(norm)(self._conv(conv, x)))

    def _direction(self, name, u):
        if self.config.get("mixer", "mamba2") == "mamba2":
            return self.get_submodule(name)(u)
        return self._conv(f"{name}.conv", u.transpose(1, 2)).transpose(1, 2)

    def _mix(self, x):
        u = x.transpose(1, 2)
        for i in range(self.config["mamba_layers"]):
            m = f"mamba.{i}"
            y = self._direction(f"{m}.fwd", u)
            if not self._past_only:
                y = torch.cat([y, self._direction(f"{m}.bwd", u.flip(1)).flip(1)], -1)
            y = functional.dropout(self.get_submodule(f"{m}.fuse")(y), self.config.get("dropout", 0), self.training)
            u = self.get_submodule(f"{m}.norm")(u + y)
        return u

    def _forward_causal(self, rows):
        c, h = self.config, rows.transpose(1, 2)
        for s in range(4):
            for k in [""] + [str(k) for k in range(2, c.get("stage_convs", 1) + 1)]:
                h = self._block(f"encoder.{s}.conv{k}", f"encoder.{s}.bn{k}", h)
            h = self.get_submodule(f"encoder.{s}.down")(h)
        for i in range(c["rescnn_blocks"]):
            r = self._block(f"causal.{i}.conv1", f"causal.{i}.bn1", h)
            h = torch.relu(h + self._block(f"causal.{i}.conv2", f"causal.{i}.bn2", r, nn.Identity()))
        logits = self.head.out(self._mix(h).transpose(1, 2)).squeeze(1).repeat_interleave(16, 1)
        return logits + rows[:, :, -1] * self.head.skip.weight.reshape(()) if c.get("skip") else logits

    def forward(self, rows):
        if self._past_only:
            return self._forward_causal(rows)
        h, skips = self._block("encoder.stem.conv", "encoder.stem.bn", rows.transpose(1, 2)), []
        for s in range(4):
            for k in (1, 2):
                h = self._block(f"encoder.{s}.conv{k}", f"encoder.{s}.bn{k}", h)
            skips.append(h)
            h = self.get_submodule(f"encoder.{s}.down")(h)
        for r in range(self.config["rescnn_blocks"]):
            branches = [self._block(f"rescnn.{r}.branch{k}.conv", f"rescnn.{r}.branch{k}.bn", h) for k in (3, 5, 7)]
            fused = self._block(f"rescnn.{r}.fuse.conv", f"rescnn.{r}.fuse.bn", torch.cat(branches, 1), nn.Identity())
            h = torch.relu(functional.dropout1d(fused, self.config.get("dropout", 0), self.training) + h)
        h = self._mix(h).transpose(1, 2)
        for s in range(4):
            h = torch.cat([self.get_submodule(f"decoder.{s}.up")(h), skips[3 - s]], 1)
            for k in (1, 2):
                h = self._block(f"decoder.{s}.conv{k}", f"decoder.{s}.bn{k}", h)
        return self.head.out(self.head.proj(h)).squeeze(1)

    @classmethod
    def load(cls, file, like=None, rename=None):
        """A model file; or with `like`, a model file of this network, the weights of a safetensors or PyTorch file. rename: {old: new} of whole names
        or of their beginnings. RuntimeError names tensors that are missing, unknown, or of another shape; ValueError two of one name."""
        net = cls(like or file)
        if like is not None:
            theirs, about = (torch.load(file, map_location="cpu"), {}) if str(file).endswith((".pt", ".pth", ".ckpt")) else read_model(file, bare=True)
            if not isinstance(theirs, dict):
                raise ValueError(f"{file} has a {type(theirs).__name__}; expected tensors by name")
            net._take(theirs.get("state_dict", theirs), about, rename or {})
        return net

    def save(self, file, like):
        """Writes a model file with the configuration of `like`; nothing of that file's training is said of it, but the patients and the notice of the
        file that the weights came from. ValueError names a wrong shape."""
        wanted, about = read_model(like)
        weights = {k.replace(".conv1d.", ".conv."): v.detach().float().cpu().numpy() for k, v in self.state_dict().items() if not k.endswith("num_batches_tracked")}
        for name in sorted(wanted.keys() | weights.keys()):
            sides = [tuple(t[name].shape) if name in t else None for t in (weights, wanted)]
            if sides[0] != sides[1]:
                raise ValueError(f"{name} has the shape {sides[0]}; {like} has {sides[1]}")
        keep = ("brr.kind", "brr.model", "brr.frontend", "brr.events", "brr.labels", "brr.hop", "brr.most_missing", "format")
        write_model(file, {k: weights[k] for k in wanted}, {**{k: about[k] for k in keep if k in about}, **self._said})


def _own_names(weights, rename, config):
    """Tensors by the names of a Detector's state_dict."""
    scans = config.get("mixer", "mamba2") == "mamba2"
    found = {}
    for name, value in weights.items():
        name = next((new + name[len(old):] for old, new in rename.items() if name.startswith(old)), name)
        if scans and name.startswith("mamba."):
            name = name.replace("wd.conv.", "wd.conv1d.")
        if name in found:
            raise ValueError(f"rename gives two tensors the name {name}")
        found[name] = torch.tensor(value) if isinstance(value, np.ndarray) else value
    for name in [k for k in found if k.endswith("running_mean")]:
        found.setdefault(name.replace("running_mean", "num_batches_tracked"), torch.tensor(0))
    return found


MAMBA_SSM = {
    "mamba_ssm": {"Mamba": Mamba, "Mamba2": Mamba2, "selective_scan_fn": selective_scan_fn, "mamba_inner_fn": mamba_inner_fn},
    "mamba_ssm.modules": {},
    "mamba_ssm.modules.mamba_simple": {"Mamba": Mamba},
    "mamba_ssm.modules.mamba2": {"Mamba2": Mamba2},
    "mamba_ssm.ops": {},
    "mamba_ssm.ops.selective_scan_interface": {"selective_scan_fn": selective_scan_fn, "mamba_inner_fn": mamba_inner_fn},
    "mamba_ssm.ops.triton": {},
    "mamba_ssm.ops.triton.ssd_combined": {"mamba_chunk_scan_combined": mamba_chunk_scan_combined,
                                          "mamba_split_conv1d_scan_combined": mamba_split_conv1d_scan_combined},
    "mamba_ssm.ops.triton.selective_state_update": {"selective_state_update": selective_state_update},
    "mamba_ssm.ops.triton.layernorm_gated": {"RMSNorm": RMSNormGated},
    "causal_conv1d": {"causal_conv1d_fn": causal_conv1d_fn, "causal_conv1d_update": causal_conv1d_update},
}


def as_mamba_ssm():
    """From now on `import mamba_ssm` and `import causal_conv1d` find these functions and modules."""
    for name, members in MAMBA_SSM.items():
        module = types.ModuleType(name, f"{name} by brr.torch")
        module.__path__ = []
        module.__dict__.update(members)
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
