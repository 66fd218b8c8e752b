/* The scans, the causal convolution and the norms beside them, with the input names of tools/gen_golden.py. */
#include <stdlib.h>

#include "bridge.h"

#define A_        BRIDGE_ACTIVATION
#define P_        BRIDGE_PARAMETER
#define DIMS(...) ((const int64_t[TENSOR_MAX_RANK]){__VA_ARGS__})

static void run_scan1(struct bridge *b) {
    struct scan1_args a = {
        .u = bridge_in(b, "u", A_, false),
        .delta = bridge_in(b, "delta", A_, false),
        .A = bridge_in(b, "A", P_, false),
        .Bm = bridge_in(b, "B", A_, false),
        .Cm = bridge_in(b, "C", A_, false),
        .Dskip = bridge_in(b, "D", P_, true),
        .dbias = bridge_in(b, "dbias", P_, true),
        .z = bridge_in(b, "z", A_, true),
        .h0 = bridge_in(b, "h0", P_, true),
        .resets = bridge_in(b, "resets", BRIDGE_BYTES, true),
        .softplus = bridge_flag(b, "softplus", true),
        .zoh = bridge_flag(b, "zoh", false),
        .reverse = bridge_flag(b, "reverse", false),
        .clamp_lo = (float)bridge_number(b, "clamp_lo", 0),
        .clamp_hi = (float)bridge_number(b, "clamp_hi", 0),
    };
    a.out = bridge_like(b, "out", A_, &a.u);
    a.hT = bridge_out(b, "hT", P_, 3, DIMS(a.u.dim[0], a.u.dim[2], a.A.dim[1]));
    int32_t *lengths = bridge_integers(b, "lengths", a.u.dim[0]);
    a.lengths = lengths;
    if (!bridge_attributes_done(b))
        b->rc = op_scan1(b->stream, &a, b->err);
    if (!b->rc && bridge_has(b, "g_out")) {
        struct scan1_backward_args g = {
            .fwd = a,
            .dout = bridge_in(b, "g_out", A_, false),
            .dhT = bridge_in(b, "g_hT", P_, true),
            .du = bridge_like(b, "grad_u", A_, &a.u),
            .ddelta = bridge_like(b, "grad_delta", A_, &a.delta),
            .dA = bridge_like(b, "grad_A", P_, &a.A),
            .dBm = bridge_like(b, "grad_B", A_, &a.Bm),
            .dCm = bridge_like(b, "grad_C", A_, &a.Cm),
            .dDskip = bridge_like(b, "grad_D", P_, &a.Dskip),
            .ddbias = bridge_like(b, "grad_dbias", P_, &a.dbias),
            .dz = bridge_like(b, "grad_z", A_, &a.z),
            .dh0 = bridge_like(b, "grad_h0", P_, &a.h0),
        };
        if (!b->rc)
            b->rc = op_scan1_backward(b->stream, &g, b->err);
        bridge_product(b, "grad_A_log", &g.dA, &a.A);
    }
    free(lengths);
}

/* Files hold heads apart, (B,L,H,P) and (B,H,P,N); the op takes them side by side. */
static void run_ssd(struct bridge *b) {
    struct tensor x = bridge_in(b, "x", A_, false), bm = bridge_in(b, "B", A_, false), h0 = bridge_in(b, "h0", P_, true);
    if (!b->rc && (x.rank != 4 || bm.rank != 4 || (tensor_present(&h0) && h0.rank != 4)))
        b->rc = err_set(b->err, ERR_INVALID, "ssd: x must be (B,L,H,P), B and C (B,L,G,N), h0 (B,H,P,N)");
    const int64_t *d = x.dim, n = bm.dim[3];
    struct ssd_args a = {
        .x = bridge_reshape(b, x, 3, DIMS(d[0], d[1], d[2] * d[3])),
        .delta = bridge_in(b, "delta", A_, false),
        .A = bridge_in(b, "A", P_, false),
        .Bm = bm,
        .Cm = bridge_in(b, "C", A_, false),
        .Dskip = bridge_in(b, "D", P_, true),
        .dbias = bridge_in(b, "dbias", P_, true),
        .h0 = bridge_reshape(b, h0, 3, DIMS(d[0], d[2] * d[3], n)),
        .resets = bridge_in(b, "resets", BRIDGE_BYTES, true),
        .heads = (int)d[2],
        .groups = (int)bm.dim[2],
        .chunk = (int)bridge_number(b, "chunk", 0),
        .softplus = bridge_flag(b, "softplus", true),
        .reverse = bridge_flag(b, "reverse", false),
        .clamp_lo = (float)bridge_number(b, "clamp_lo", 0),
        .clamp_hi = (float)bridge_number(b, "clamp_hi", 0),
    };
    a.y = bridge_like(b, "out", A_, &a.x);
    a.hT = bridge_out(b, "hT", P_, 3, DIMS(d[0], d[2] * d[3], n));
    bridge_shape_as(b, "out", 4, d);
    bridge_shape_as(b, "hT", 4, DIMS(d[0], d[2], d[3], n));
    int32_t *lengths = bridge_integers(b, "lengths", d[0]);
    a.lengths = lengths;
    if (!bridge_attributes_done(b))
        b->rc = op_ssd(b->stream, &a, b->err);
    if (!b->rc && bridge_has(b, "g_out")) {
        struct ssd_backward_args g = {
            .fwd = a,
            .dy = bridge_reshape(b, bridge_in(b, "g_out", A_, false), 3, a.x.dim),
            .dhT = bridge_reshape(b, bridge_in(b, "g_hT", P_, true), 3, a.hT.dim),
            .dx = bridge_like(b, "grad_x", A_, &a.x),
            .ddelta = bridge_like(b, "grad_delta", A_, &a.delta),
            .dA = bridge_like(b, "grad_A", P_, &a.A),
            .dBm = bridge_like(b, "grad_B", A_, &a.Bm),
            .dCm = bridge_like(b, "grad_C", A_, &a.Cm),
            .dDskip = bridge_like(b, "grad_D", P_, &a.Dskip),
            .ddbias = bridge_like(b, "grad_dbias", P_, &a.dbias),
            .dh0 = bridge_like(b, "grad_h0", P_, &a.h0),
        };
        bridge_shape_as(b, "grad_x", 4, d);
        bridge_shape_as(b, "grad_h0", 4, DIMS(d[0], d[2], d[3], n));
        if (!b->rc)
            b->rc = op_ssd_backward(b->stream, &g, b->err);
        bridge_product(b, "grad_A_log", &g.dA, &a.A);
    }
    free(lengths);
}

static void depthwise(struct bridge *b, int pad_left, bool silu, bool state) {
    struct conv1d_depthwise_args a = {
        .x = bridge_in(b, "x", A_, false),
        .w = bridge_in(b, "w", P_, false),
        .bias = bridge_in(b, "b", P_, true),
        .state0 = bridge_in(b, "s0", P_, true),
        .resets = bridge_in(b, "resets", BRIDGE_BYTES, true),
        .silu = bridge_flag(b, "silu", silu),
        .reverse = bridge_flag(b, "reverse", false),
    };
    int64_t k = a.w.dim[1];
    a.pad_left = pad_left >= 0 ? pad_left : (int)k - 1;
    a.y = bridge_like(b, "out", A_, &a.x);
    if (state && k > 1)
        a.state = bridge_out(b, "state", P_, 3, DIMS(a.x.dim[0], k - 1, a.x.dim[2]));
    int32_t *lengths = bridge_integers(b, "lengths", a.x.dim[0]);
    a.lengths = lengths;
    if (!bridge_attributes_done(b))
        b->rc = op_conv1d_depthwise(b->stream, &a, b->err);
    if (!b->rc && bridge_has(b, "g_out")) {
        struct conv1d_depthwise_backward_args g = {
            .x = a.x,
            .w = a.w,
            .bias = a.bias,
            .state0 = a.state0,
            .resets = a.resets,
            .lengths = lengths,
            .pad_left = a.pad_left,
            .silu = a.silu,
            .reverse = a.reverse,
            .dy = bridge_in(b, "g_out", A_, false),
            .dstate = bridge_in(b, "g_state", P_, true),
            .dx = bridge_like(b, "grad_x", A_, &a.x),
            .dw = bridge_like(b, "grad_w", P_, &a.w),
            .dbias = bridge_like(b, "grad_b", P_, &a.bias),
            .dstate0 = bridge_like(b, "grad_s0", P_, &a.state0),
        };
        if (!b->rc)
            b->rc = op_conv1d_depthwise_backward(b->stream, &g, b->err);
    }
    free(lengths);
}

static void run_conv1d_causal(struct bridge *b) { depthwise(b, -1, true, true); }
static void run_conv1d_depthwise(struct bridge *b) { depthwise(b, (int)bridge_number(b, "pad_left", -1), false, false); }

static void run_rmsnorm_gated(struct bridge *b) {
    struct rmsnorm_gated_args a = {
        .y = bridge_in(b, "y", A_, false),
        .z = bridge_in(b, "z", A_, false),
        .weight = bridge_in(b, "w", P_, false),
        .groups = (int)bridge_number(b, "groups", 1),
        .eps = (float)bridge_number(b, "eps", 1e-5),
    };
    a.out = bridge_like(b, "out", A_, &a.y);
    a.save_rstd = bridge_temporary(b, P_, 1, DIMS(a.y.dim[0] * a.y.dim[1] * a.groups));
    if (!bridge_attributes_done(b))
        b->rc = op_rmsnorm_gated(b->stream, &a, b->err);
    if (b->rc || !bridge_has(b, "g_out"))
        return;
    struct rmsnorm_gated_backward_args g = {
        .y = a.y,
        .z = a.z,
        .weight = a.weight,
        .save_rstd = a.save_rstd,
        .groups = a.groups,
        .dout = bridge_in(b, "g_out", A_, false),
        .dy = bridge_like(b, "grad_y", A_, &a.y),
        .dz = bridge_like(b, "grad_z", A_, &a.z),
        .dweight = bridge_like(b, "grad_w", P_, &a.weight),
    };
    if (!b->rc)
        b->rc = op_rmsnorm_gated_backward(b->stream, &g, b->err);
}

const struct op_row scan_ops[] = {
    {"scan1", run_scan1,
     "u delta A B C [D dbias z h0 resets lengths g_out g_hT]; softplus=1 zoh=0 reverse=0 clamp_lo clamp_hi → out hT grad_*"},
    {"ssd", run_ssd,
     "x delta A B C [D dbias h0 resets lengths g_out g_hT]; softplus=1 reverse=0 chunk=0 clamp_lo clamp_hi → out hT grad_*"},
    {"conv1d_causal", run_conv1d_causal, "x w [b s0 resets lengths g_out g_state]; silu=1 reverse=0 → out state grad_*"},
    {"conv1d_depthwise", run_conv1d_depthwise, "x w [b resets lengths g_out]; pad_left=K-1 silu=0 reverse=0 → out grad_*"},
    {"rmsnorm_gated", run_rmsnorm_gated, "y z w [g_out]; groups=1 eps=1e-5 → out grad_*"},
    {NULL, NULL, NULL},
};
