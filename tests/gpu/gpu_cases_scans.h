/* gpu_cases_scans: calls of both selective scans. */
#pragma once
#include "gpu_cases.h"

enum { CHUNK = 16 };

static struct scan1_args scan1_of(const struct op_test *c, const struct tensor *t) {
    return (struct scan1_args){.u = t[0],
                               .delta = t[1],
                               .A = t[2],
                               .Bm = t[3],
                               .Cm = t[4],
                               .Dskip = t[5],
                               .dbias = t[6],
                               .z = t[7],
                               .h0 = t[8],
                               .softplus = true,
                               .zoh = c->zoh,
                               .reverse = c->reverse,
                               .lengths = lengths};
}
static int run_scan1(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_args a = scan1_of(c, t);
    a.out = t[9];
    a.hT = t[10];
    a.resets = t[11];
    return op_scan1(s, &a, err);
}
static int run_scan1_activations(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2],
                                 struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {
        .fwd = scan1_of(c, t), .dout = t[9], .du = t[10], .ddelta = t[11], .dz = t[12], .dBm = t[13], .dCm = t[14]};
    a.fwd.resets = t[15];
    return op_scan1_backward(s, &a, err);
}
static int run_scan1_parameters(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2],
                                struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {
        .fwd = scan1_of(c, t), .dout = t[9], .dhT = t[10], .dA = t[11], .dDskip = t[12], .ddbias = t[13], .dh0 = t[14]};
    return op_scan1_backward(s, &a, err);
}

static struct ssd_args ssd_of(const struct op_test *c, const struct tensor *t, int groups) {
    return (struct ssd_args){.x = t[0],
                             .delta = t[1],
                             .A = t[2],
                             .Bm = t[3],
                             .Cm = t[4],
                             .Dskip = t[5],
                             .dbias = t[6],
                             .heads = 4,
                             .groups = groups,
                             .softplus = true,
                             .reverse = c->reverse,
                             .chunk = c->chunked ? CHUNK : 0};
}
static struct ssd_args ssd_with_state(const struct op_test *c, const struct tensor *t) {
    struct ssd_args a = ssd_of(c, t, 2);
    a.h0 = t[7];
    a.lengths = t[0].dim[1] > longest_lengths[0] ? longest_lengths : lengths;
    return a;
}
static int run_ssd(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_args a = ssd_with_state(c, t);
    a.y = t[8];
    a.hT = t[9];
    a.resets = t[10];
    return op_ssd(s, &a, err);
}
static int run_ssd_activations(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_backward_args a = {.fwd = ssd_with_state(c, t), .dy = t[8], .dx = t[9], .ddelta = t[10], .dBm = t[11], .dCm = t[12]};
    a.fwd.resets = t[13];
    return op_ssd_backward(s, &a, err);
}
static int run_ssd_parameters(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_backward_args a = {
        .fwd = ssd_with_state(c, t), .dy = t[8], .dhT = t[9], .dA = t[10], .dDskip = t[11], .ddbias = t[12], .dh0 = t[13]};
    return op_ssd_backward(s, &a, err);
}

/* Heads of 64 channels with 16 states, one group: what a GPU's wide accesses and whole blocks take. */
static int run_ssd_wide(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_args a = ssd_of(c, t, 1);
    a.y = t[7];
    a.resets = t[8];
    return op_ssd(s, &a, err);
}
/* Two heads, and rows of more than a chunk of the GPU kernel (64 tokens); three rows have the lengths of long_lengths. */
static int run_ssd_chunks(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_args a = ssd_of(c, t, (int)(t[3].dim[2] / 16));
    a.heads = 2;
    a.y = t[7];
    a.resets = t[8];
    a.lengths = a.x.dim[0] == 3 ? long_lengths : NULL;
    return op_ssd(s, &a, err);
}
static int run_ssd_wide_backward(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2],
                                 struct err *err) {
    (void)sums;
    struct ssd_backward_args a = {.fwd = ssd_of(c, t, 1),
                                  .dy = t[7],
                                  .dx = t[8],
                                  .ddelta = t[9],
                                  .dBm = t[10],
                                  .dCm = t[11],
                                  .dA = t[12],
                                  .dDskip = t[13],
                                  .ddbias = t[14]};
    a.fwd.resets = t[15];
    return op_ssd_backward(s, &a, err);
}

/* Rows of several chunks, one of them empty; one group or two. */
static int run_ssd_chunks_backward(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2],
                                   struct err *err) {
    (void)sums;
    static const int32_t chunk_lengths[3] = {150, 0, 97};
    struct ssd_backward_args a = {.fwd = ssd_of(c, t, (int)(t[3].dim[2] / 16)),
                                  .dy = t[7],
                                  .dx = t[8],
                                  .ddelta = t[9],
                                  .dBm = t[10],
                                  .dCm = t[11],
                                  .dA = t[12],
                                  .dDskip = t[13],
                                  .ddbias = t[14]};
    a.fwd.lengths = chunk_lengths;
    a.fwd.resets = t[15];
    return op_ssd_backward(s, &a, err);
}
