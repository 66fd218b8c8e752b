/* The causal convolution and the norms of brr_scan.h. */
#include "client/scan/call.h"

int brr_scan_conv(brr_scan *scan, const struct brr_scan_conv *args, struct brr_scan_error *err) {
    SCAN_CALL(brr_scan_conv);
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
    SCAN_RUN(op_conv1d_depthwise, a->workspace);
}

int brr_scan_conv_backward(brr_scan *scan, const struct brr_scan_conv_backward *args, struct brr_scan_error *err) {
    SCAN_CALL(brr_scan_conv_backward);
    SCAN_FORWARD(brr_scan_conv);
    struct conv1d_depthwise_backward_args op = {
        .x = F(x, 3),
        .w = F(w, 2),
        .bias = F(bias, 1),
        .state0 = F(state0, 3),
        .resets = F(resets, 2),
        .dy = T(dy, 3),
        .dstate = T(dstate, 3),
        .dx = T(dx, 3),
        .dw = T(dw, 2),
        .dbias = T(dbias, 1),
        .dstate0 = T(dstate0, 3),
        .lengths = f->lengths,
        .pad_left = (int)f->w.dim[1] - 1,
        .silu = f->silu,
        .reverse = f->reverse,
    };
    SCAN_RUN(op_conv1d_depthwise_backward, f->workspace);
}

int brr_scan_rmsnorm(brr_scan *scan, const struct brr_scan_rmsnorm *args, struct brr_scan_error *err) {
    SCAN_CALL(brr_scan_rmsnorm);
    struct rmsnorm_gated_args op = {
        .y = T(y, 3),
        .z = T(z, 3),
        .weight = T(weight, 1),
        .out = T(out, 3),
        .save_rstd = T(rstd, 1),
        .groups = a->groups,
        .eps = a->eps,
    };
    SCAN_RUN(op_rmsnorm_gated, a->workspace);
}

int brr_scan_rmsnorm_backward(brr_scan *scan, const struct brr_scan_rmsnorm_backward *args, struct brr_scan_error *err) {
    SCAN_CALL(brr_scan_rmsnorm_backward);
    SCAN_FORWARD(brr_scan_rmsnorm);
    struct rmsnorm_gated_backward_args op = {
        .y = F(y, 3),
        .z = F(z, 3),
        .weight = F(weight, 1),
        .save_rstd = F(rstd, 1),
        .dout = T(dout, 3),
        .dy = T(dy, 3),
        .dz = T(dz, 3),
        .dweight = T(dweight, 1),
        .groups = f->groups,
    };
    SCAN_RUN(op_rmsnorm_gated_backward, f->workspace);
}

int brr_scan_layernorm(brr_scan *scan, const struct brr_scan_layernorm *args, struct brr_scan_error *err) {
    SCAN_CALL(brr_scan_layernorm);
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
    SCAN_RUN(op_layernorm, a->workspace);
}

int brr_scan_layernorm_backward(brr_scan *scan, const struct brr_scan_layernorm_backward *args, struct brr_scan_error *err) {
    SCAN_CALL(brr_scan_layernorm_backward);
    SCAN_FORWARD(brr_scan_layernorm);
    struct layernorm_backward_args op = {
        .sum = F(sum, 3),
        .weight = F(weight, 1),
        .save_mean = F(mean, 1),
        .save_rstd = F(rstd, 1),
        .dy = T(dy, 3),
        .dx = T(dx, 3),
        .dweight = T(dweight, 1),
        .dbias = T(dbias, 1),
    };
    SCAN_RUN(op_layernorm_backward, f->workspace);
}
