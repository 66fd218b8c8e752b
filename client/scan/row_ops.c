/* The causal convolution and the norms of brr_scan.h. */
#include "client/scan/call.h"

#define T(member, rank) scan_call_tensor(c, #member, &a->member, rank)

int brr_scan_conv(brr_scan *scan, const struct brr_scan_conv *args, struct brr_scan_error *err) {
    struct scan_call call, *c = &call;
    struct brr_scan_conv known, *a = &known;
    scan_call_begin(c, "brr_scan_conv", scan, err);
    scan_call_arguments(c, args, &known, sizeof known);
    struct conv1d_depthwise_args op = {
        .x = T(x, 3),
        .w = T(w, 2),
        .bias = T(bias, 1),
        .y = T(y, 3),
        .state0 = T(state0, 3),
        .state = T(state, 3),
        .resets = T(resets, 2),
        .lengths = a->lengths,
        .pad_left = (int)a->w.dim[1] - 1,
        .silu = a->silu,
        .reverse = a->reverse,
    };
    return scan_call_leave(c, scan_call_enter(c, known.workspace) ? 0 : op_conv1d_depthwise(c->stream, &op, &c->err));
}

int brr_scan_conv_backward(brr_scan *scan, const struct brr_scan_conv_backward *args, struct brr_scan_error *err) {
    struct scan_call call, *c = &call;
    struct brr_scan_conv_backward known, *a = &known;
    struct brr_scan_conv forward;
    scan_call_begin(c, "brr_scan_conv_backward", scan, err);
    scan_call_arguments(c, args, &known, sizeof known);
    scan_call_arguments(c, known.forward, &forward, sizeof forward);
    struct conv1d_depthwise_backward_args op = {
        .x = scan_call_tensor(c, "x", &forward.x, 3),
        .w = scan_call_tensor(c, "w", &forward.w, 2),
        .bias = scan_call_tensor(c, "bias", &forward.bias, 1),
        .state0 = scan_call_tensor(c, "state0", &forward.state0, 3),
        .resets = scan_call_tensor(c, "resets", &forward.resets, 2),
        .dy = T(dy, 3),
        .dstate = T(dstate, 3),
        .dx = T(dx, 3),
        .dw = T(dw, 2),
        .dbias = T(dbias, 1),
        .dstate0 = T(dstate0, 3),
        .lengths = forward.lengths,
        .pad_left = (int)forward.w.dim[1] - 1,
        .silu = forward.silu,
        .reverse = forward.reverse,
    };
    return scan_call_leave(c, scan_call_enter(c, forward.workspace) ? 0 : op_conv1d_depthwise_backward(c->stream, &op, &c->err));
}

int brr_scan_rmsnorm(brr_scan *scan, const struct brr_scan_rmsnorm *args, struct brr_scan_error *err) {
    struct scan_call call, *c = &call;
    struct brr_scan_rmsnorm known, *a = &known;
    scan_call_begin(c, "brr_scan_rmsnorm", scan, err);
    scan_call_arguments(c, args, &known, sizeof known);
    struct rmsnorm_gated_args op = {
        .y = T(y, 3),
        .z = T(z, 3),
        .weight = T(weight, 1),
        .out = T(out, 3),
        .save_rstd = T(rstd, 1),
        .groups = a->groups,
        .eps = a->eps,
    };
    return scan_call_leave(c, scan_call_enter(c, known.workspace) ? 0 : op_rmsnorm_gated(c->stream, &op, &c->err));
}

int brr_scan_rmsnorm_backward(brr_scan *scan, const struct brr_scan_rmsnorm_backward *args, struct brr_scan_error *err) {
    struct scan_call call, *c = &call;
    struct brr_scan_rmsnorm_backward known, *a = &known;
    struct brr_scan_rmsnorm forward;
    scan_call_begin(c, "brr_scan_rmsnorm_backward", scan, err);
    scan_call_arguments(c, args, &known, sizeof known);
    scan_call_arguments(c, known.forward, &forward, sizeof forward);
    struct rmsnorm_gated_backward_args op = {
        .y = scan_call_tensor(c, "y", &forward.y, 3),
        .z = scan_call_tensor(c, "z", &forward.z, 3),
        .weight = scan_call_tensor(c, "weight", &forward.weight, 1),
        .save_rstd = scan_call_tensor(c, "rstd", &forward.rstd, 1),
        .dout = T(dout, 3),
        .dy = T(dy, 3),
        .dz = T(dz, 3),
        .dweight = T(dweight, 1),
        .groups = forward.groups,
    };
    return scan_call_leave(c, scan_call_enter(c, forward.workspace) ? 0 : op_rmsnorm_gated_backward(c->stream, &op, &c->err));
}

int brr_scan_layernorm(brr_scan *scan, const struct brr_scan_layernorm *args, struct brr_scan_error *err) {
    struct scan_call call, *c = &call;
    struct brr_scan_layernorm known, *a = &known;
    scan_call_begin(c, "brr_scan_layernorm", scan, err);
    scan_call_arguments(c, args, &known, sizeof known);
    struct layernorm_args op = {
        .x = T(x, 3),
        .residual = T(residual, 3),
        .weight = T(weight, 1),
        .bias = T(bias, 1),
        .y = T(y, 3),
        .sum = T(sum, 3),
        .save_mean = T(mean, 1),
        .save_rstd = T(rstd, 1),
        .eps = a->eps,
    };
    return scan_call_leave(c, scan_call_enter(c, known.workspace) ? 0 : op_layernorm(c->stream, &op, &c->err));
}

int brr_scan_layernorm_backward(brr_scan *scan, const struct brr_scan_layernorm_backward *args, struct brr_scan_error *err) {
    struct scan_call call, *c = &call;
    struct brr_scan_layernorm_backward known, *a = &known;
    struct brr_scan_layernorm forward;
    scan_call_begin(c, "brr_scan_layernorm_backward", scan, err);
    scan_call_arguments(c, args, &known, sizeof known);
    scan_call_arguments(c, known.forward, &forward, sizeof forward);
    struct layernorm_backward_args op = {
        .sum = scan_call_tensor(c, "sum", &forward.sum, 3),
        .weight = scan_call_tensor(c, "weight", &forward.weight, 1),
        .save_mean = scan_call_tensor(c, "mean", &forward.mean, 1),
        .save_rstd = scan_call_tensor(c, "rstd", &forward.rstd, 1),
        .dy = T(dy, 3),
        .dx = T(dx, 3),
        .dweight = T(dweight, 1),
        .dbias = T(dbias, 1),
    };
    return scan_call_leave(c, scan_call_enter(c, forward.workspace) ? 0 : op_layernorm_backward(c->stream, &op, &c->err));
}
