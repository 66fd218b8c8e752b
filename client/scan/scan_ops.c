/* The selective scans of brr_scan.h. */
#include "base/base.h"
#include "client/scan/call.h"

static struct scan1_args selective_of(struct scan_call *c, const struct brr_scan_selective *a) {
    return (struct scan1_args){
        .u = T(u, 3),
        .delta = T(delta, 3),
        .A = T(A, 2),
        .Bm = T(B, 3),
        .Cm = T(C, 3),
        .Dskip = T(D, 1),
        .dbias = T(delta_bias, 1),
        .z = T(z, 3),
        .h0 = T(h0, 3),
        .hT = T(hT, 3),
        .resets = T(resets, 2),
        .out = T(out, 3),
        SAME_MEMBERS(*a, lengths, softplus, zoh, reverse, clamp_lo, clamp_hi),
    };
}

int brr_scan_selective(brr_scan *scan, const struct brr_scan_selective *args, struct brr_scan_error *err) {
    SCAN_CALL(brr_scan_selective);
    struct scan1_args op = selective_of(c, a);
    SCAN_RUN(op_scan1, a->workspace);
}

int brr_scan_selective_backward(brr_scan *scan, const struct brr_scan_selective_backward *args, struct brr_scan_error *err) {
    SCAN_CALL(brr_scan_selective_backward);
    SCAN_FORWARD(brr_scan_selective);
    struct scan1_backward_args op = {
        .fwd = selective_of(c, f),
        .dout = T(dout, 3),
        .dhT = T(dhT, 3),
        .du = T(du, 3),
        .ddelta = T(ddelta, 3),
        .dA = T(dA, 2),
        .dBm = T(dB, 3),
        .dCm = T(dC, 3),
        .dDskip = T(dD, 1),
        .ddbias = T(ddelta_bias, 1),
        .dz = T(dz, 3),
        .dh0 = T(dh0, 3),
    };
    SCAN_RUN(op_scan1_backward, f->workspace);
}

/* Heads and groups are dimensions here, numbers in the op, whose channels lie side by side. */
static struct ssd_args ssd_of(struct scan_call *c, const struct brr_scan_ssd *a) {
    if (!c->rc && (a->x.rank != 4 || a->B.rank != 4 || (a->h0.data && a->h0.rank != 4) || (a->hT.data && a->hT.rank != 4)))
        c->rc = err_set(&c->err, ERR_INVALID, "%s: x must be (B,L,H,P), B and C (B,L,G,N), h0 and hT (B,H,P,N)", c->op);
    return (struct ssd_args){
        .x = T(x, 3),
        .delta = T(delta, 3),
        .A = T(A, 1),
        .Bm = T(B, 3),
        .Cm = T(C, 3),
        .Dskip = T(D, 1),
        .dbias = T(delta_bias, 1),
        .h0 = scan_call_heads(c, "h0", &a->h0),
        .hT = scan_call_heads(c, "hT", &a->hT),
        .resets = T(resets, 2),
        .y = T(y, 3),
        .heads = c->rc ? 0 : (int)a->x.dim[2],
        .groups = c->rc ? 0 : (int)a->B.dim[2],
        SAME_MEMBERS(*a, chunk, lengths, softplus, reverse, clamp_lo, clamp_hi),
    };
}

int brr_scan_ssd(brr_scan *scan, const struct brr_scan_ssd *args, struct brr_scan_error *err) {
    SCAN_CALL(brr_scan_ssd);
    struct ssd_args op = ssd_of(c, a);
    SCAN_RUN(op_ssd, a->workspace);
}

int brr_scan_ssd_backward(brr_scan *scan, const struct brr_scan_ssd_backward *args, struct brr_scan_error *err) {
    SCAN_CALL(brr_scan_ssd_backward);
    SCAN_FORWARD(brr_scan_ssd);
    struct ssd_backward_args op = {
        .fwd = ssd_of(c, f),
        .dy = T(dy, 3),
        .dhT = scan_call_heads(c, "dhT", &a->dhT),
        .dx = T(dx, 3),
        .ddelta = T(ddelta, 3),
        .dA = T(dA, 1),
        .dBm = T(dB, 3),
        .dCm = T(dC, 3),
        .dDskip = T(dD, 1),
        .ddbias = T(ddelta_bias, 1),
        .dh0 = scan_call_heads(c, "dh0", &a->dh0),
    };
    SCAN_RUN(op_ssd_backward, f->workspace);
}
