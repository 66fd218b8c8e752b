/* gpu_cases_scans: calls of both selective scans. */
#ifndef BRR_TESTS_GPU_GPU_CASES_SCANS_H
#define BRR_TESTS_GPU_GPU_CASES_SCANS_H
#include "gpu_cases.h"

static int run_20(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_args a = {.u = t[0],
                           .delta = t[1],
                           .A = t[2],
                           .Bm = t[3],
                           .Cm = t[4],
                           .Dskip = t[5],
                           .dbias = t[6],
                           .z = t[7],
                           .h0 = t[8],
                           .out = t[9],
                           .hT = t[10],
                           .resets = t[11],
                           .softplus = true,
                           .zoh = false,
                           .reverse = false,
                           .lengths = lengths};
    return op_scan1(s, &a, err);
}
static int run_21(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .resets = t[15],
                                            .softplus = true,
                                            .zoh = false,
                                            .reverse = false,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .du = t[10],
                                    .ddelta = t[11],
                                    .dz = t[12],
                                    .dBm = t[13],
                                    .dCm = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_22(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .softplus = true,
                                            .zoh = false,
                                            .reverse = false,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .dhT = t[10],
                                    .dA = t[11],
                                    .dDskip = t[12],
                                    .ddbias = t[13],
                                    .dh0 = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_23(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_args a = {.u = t[0],
                           .delta = t[1],
                           .A = t[2],
                           .Bm = t[3],
                           .Cm = t[4],
                           .Dskip = t[5],
                           .dbias = t[6],
                           .z = t[7],
                           .h0 = t[8],
                           .out = t[9],
                           .hT = t[10],
                           .resets = t[11],
                           .softplus = true,
                           .zoh = false,
                           .reverse = true,
                           .lengths = lengths};
    return op_scan1(s, &a, err);
}
static int run_24(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .resets = t[15],
                                            .softplus = true,
                                            .zoh = false,
                                            .reverse = true,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .du = t[10],
                                    .ddelta = t[11],
                                    .dz = t[12],
                                    .dBm = t[13],
                                    .dCm = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_25(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .softplus = true,
                                            .zoh = false,
                                            .reverse = true,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .dhT = t[10],
                                    .dA = t[11],
                                    .dDskip = t[12],
                                    .ddbias = t[13],
                                    .dh0 = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_26(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_args a = {.u = t[0],
                           .delta = t[1],
                           .A = t[2],
                           .Bm = t[3],
                           .Cm = t[4],
                           .Dskip = t[5],
                           .dbias = t[6],
                           .z = t[7],
                           .h0 = t[8],
                           .out = t[9],
                           .hT = t[10],
                           .resets = t[11],
                           .softplus = true,
                           .zoh = true,
                           .reverse = false,
                           .lengths = lengths};
    return op_scan1(s, &a, err);
}
static int run_27(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .resets = t[15],
                                            .softplus = true,
                                            .zoh = true,
                                            .reverse = false,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .du = t[10],
                                    .ddelta = t[11],
                                    .dz = t[12],
                                    .dBm = t[13],
                                    .dCm = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_28(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .softplus = true,
                                            .zoh = true,
                                            .reverse = false,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .dhT = t[10],
                                    .dA = t[11],
                                    .dDskip = t[12],
                                    .ddbias = t[13],
                                    .dh0 = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_29(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_args a = {.u = t[0],
                           .delta = t[1],
                           .A = t[2],
                           .Bm = t[3],
                           .Cm = t[4],
                           .Dskip = t[5],
                           .dbias = t[6],
                           .z = t[7],
                           .h0 = t[8],
                           .out = t[9],
                           .hT = t[10],
                           .resets = t[11],
                           .softplus = true,
                           .zoh = true,
                           .reverse = true,
                           .lengths = lengths};
    return op_scan1(s, &a, err);
}
static int run_30(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .resets = t[15],
                                            .softplus = true,
                                            .zoh = true,
                                            .reverse = true,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .du = t[10],
                                    .ddelta = t[11],
                                    .dz = t[12],
                                    .dBm = t[13],
                                    .dCm = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_31(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .softplus = true,
                                            .zoh = true,
                                            .reverse = true,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .dhT = t[10],
                                    .dA = t[11],
                                    .dDskip = t[12],
                                    .ddbias = t[13],
                                    .dh0 = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_32(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_args a = {.u = t[0],
                           .delta = t[1],
                           .A = t[2],
                           .Bm = t[3],
                           .Cm = t[4],
                           .Dskip = t[5],
                           .dbias = t[6],
                           .z = t[7],
                           .h0 = t[8],
                           .out = t[9],
                           .hT = t[10],
                           .resets = t[11],
                           .softplus = true,
                           .zoh = false,
                           .reverse = false,
                           .lengths = lengths};
    return op_scan1(s, &a, err);
}
static int run_33(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .resets = t[15],
                                            .softplus = true,
                                            .zoh = false,
                                            .reverse = false,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .du = t[10],
                                    .ddelta = t[11],
                                    .dz = t[12],
                                    .dBm = t[13],
                                    .dCm = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_34(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .softplus = true,
                                            .zoh = false,
                                            .reverse = false,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .dhT = t[10],
                                    .dA = t[11],
                                    .dDskip = t[12],
                                    .ddbias = t[13],
                                    .dh0 = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_35(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_args a = {.u = t[0],
                           .delta = t[1],
                           .A = t[2],
                           .Bm = t[3],
                           .Cm = t[4],
                           .Dskip = t[5],
                           .dbias = t[6],
                           .z = t[7],
                           .h0 = t[8],
                           .out = t[9],
                           .hT = t[10],
                           .resets = t[11],
                           .softplus = true,
                           .zoh = false,
                           .reverse = true,
                           .lengths = lengths};
    return op_scan1(s, &a, err);
}
static int run_36(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .resets = t[15],
                                            .softplus = true,
                                            .zoh = false,
                                            .reverse = true,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .du = t[10],
                                    .ddelta = t[11],
                                    .dz = t[12],
                                    .dBm = t[13],
                                    .dCm = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_37(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .softplus = true,
                                            .zoh = false,
                                            .reverse = true,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .dhT = t[10],
                                    .dA = t[11],
                                    .dDskip = t[12],
                                    .ddbias = t[13],
                                    .dh0 = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_38(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_args a = {.u = t[0],
                           .delta = t[1],
                           .A = t[2],
                           .Bm = t[3],
                           .Cm = t[4],
                           .Dskip = t[5],
                           .dbias = t[6],
                           .z = t[7],
                           .h0 = t[8],
                           .out = t[9],
                           .hT = t[10],
                           .resets = t[11],
                           .softplus = true,
                           .zoh = false,
                           .reverse = false,
                           .lengths = lengths};
    return op_scan1(s, &a, err);
}
static int run_39(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .resets = t[15],
                                            .softplus = true,
                                            .zoh = false,
                                            .reverse = false,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .du = t[10],
                                    .ddelta = t[11],
                                    .dz = t[12],
                                    .dBm = t[13],
                                    .dCm = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_40(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .softplus = true,
                                            .zoh = false,
                                            .reverse = false,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .dhT = t[10],
                                    .dA = t[11],
                                    .dDskip = t[12],
                                    .ddbias = t[13],
                                    .dh0 = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_41(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_args a = {.u = t[0],
                           .delta = t[1],
                           .A = t[2],
                           .Bm = t[3],
                           .Cm = t[4],
                           .Dskip = t[5],
                           .dbias = t[6],
                           .z = t[7],
                           .h0 = t[8],
                           .out = t[9],
                           .hT = t[10],
                           .resets = t[11],
                           .softplus = true,
                           .zoh = false,
                           .reverse = true,
                           .lengths = lengths};
    return op_scan1(s, &a, err);
}
static int run_42(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .resets = t[15],
                                            .softplus = true,
                                            .zoh = false,
                                            .reverse = true,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .du = t[10],
                                    .ddelta = t[11],
                                    .dz = t[12],
                                    .dBm = t[13],
                                    .dCm = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_43(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct scan1_backward_args a = {.fwd = {.u = t[0],
                                            .delta = t[1],
                                            .A = t[2],
                                            .Bm = t[3],
                                            .Cm = t[4],
                                            .Dskip = t[5],
                                            .dbias = t[6],
                                            .z = t[7],
                                            .h0 = t[8],
                                            .softplus = true,
                                            .zoh = false,
                                            .reverse = true,
                                            .lengths = lengths},
                                    .dout = t[9],
                                    .dhT = t[10],
                                    .dA = t[11],
                                    .dDskip = t[12],
                                    .ddbias = t[13],
                                    .dh0 = t[14]};
    return op_scan1_backward(s, &a, err);
}
static int run_44(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_args a = {.x = t[0],
                         .delta = t[1],
                         .A = t[2],
                         .Bm = t[3],
                         .Cm = t[4],
                         .Dskip = t[5],
                         .dbias = t[6],
                         .h0 = t[7],
                         .y = t[8],
                         .hT = t[9],
                         .resets = t[10],
                         .heads = 4,
                         .groups = 2,
                         .softplus = true,
                         .lengths = lengths};
    return op_ssd(s, &a, err);
}
static int run_45(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_args a = {.x = t[0],
                         .delta = t[1],
                         .A = t[2],
                         .Bm = t[3],
                         .Cm = t[4],
                         .Dskip = t[5],
                         .dbias = t[6],
                         .h0 = t[7],
                         .y = t[8],
                         .hT = t[9],
                         .resets = t[10],
                         .heads = 4,
                         .groups = 2,
                         .softplus = true,
                         .lengths = lengths,
                         .chunk = 16,
                         .reverse = true};
    return op_ssd(s, &a, err);
}
static int run_46(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_backward_args a = {.fwd = {.x = t[0],
                                          .delta = t[1],
                                          .A = t[2],
                                          .Bm = t[3],
                                          .Cm = t[4],
                                          .Dskip = t[5],
                                          .dbias = t[6],
                                          .h0 = t[7],
                                          .resets = t[13],
                                          .heads = 4,
                                          .groups = 2,
                                          .softplus = true,
                                          .lengths = lengths},
                                  .dy = t[8],
                                  .dx = t[9],
                                  .ddelta = t[10],
                                  .dBm = t[11],
                                  .dCm = t[12]};
    return op_ssd_backward(s, &a, err);
}
static int run_47(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_backward_args a = {.fwd = {.x = t[0],
                                          .delta = t[1],
                                          .A = t[2],
                                          .Bm = t[3],
                                          .Cm = t[4],
                                          .Dskip = t[5],
                                          .dbias = t[6],
                                          .h0 = t[7],
                                          .heads = 4,
                                          .groups = 2,
                                          .softplus = true,
                                          .lengths = lengths,
                                          .reverse = true},
                                  .dy = t[8],
                                  .dhT = t[9],
                                  .dA = t[10],
                                  .dDskip = t[11],
                                  .ddbias = t[12],
                                  .dh0 = t[13]};
    return op_ssd_backward(s, &a, err);
}
static int run_48(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_args a = {.x = t[0],
                         .delta = t[1],
                         .A = t[2],
                         .Bm = t[3],
                         .Cm = t[4],
                         .Dskip = t[5],
                         .dbias = t[6],
                         .h0 = t[7],
                         .y = t[8],
                         .hT = t[9],
                         .resets = t[10],
                         .heads = 4,
                         .groups = 2,
                         .softplus = true,
                         .lengths = lengths};
    return op_ssd(s, &a, err);
}
static int run_49(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_args a = {.x = t[0],
                         .delta = t[1],
                         .A = t[2],
                         .Bm = t[3],
                         .Cm = t[4],
                         .Dskip = t[5],
                         .dbias = t[6],
                         .h0 = t[7],
                         .y = t[8],
                         .hT = t[9],
                         .resets = t[10],
                         .heads = 4,
                         .groups = 2,
                         .softplus = true,
                         .lengths = lengths,
                         .chunk = 16,
                         .reverse = true};
    return op_ssd(s, &a, err);
}
static int run_50(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_backward_args a = {.fwd = {.x = t[0],
                                          .delta = t[1],
                                          .A = t[2],
                                          .Bm = t[3],
                                          .Cm = t[4],
                                          .Dskip = t[5],
                                          .dbias = t[6],
                                          .h0 = t[7],
                                          .resets = t[13],
                                          .heads = 4,
                                          .groups = 2,
                                          .softplus = true,
                                          .lengths = lengths},
                                  .dy = t[8],
                                  .dx = t[9],
                                  .ddelta = t[10],
                                  .dBm = t[11],
                                  .dCm = t[12]};
    return op_ssd_backward(s, &a, err);
}
static int run_51(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_backward_args a = {.fwd = {.x = t[0],
                                          .delta = t[1],
                                          .A = t[2],
                                          .Bm = t[3],
                                          .Cm = t[4],
                                          .Dskip = t[5],
                                          .dbias = t[6],
                                          .h0 = t[7],
                                          .heads = 4,
                                          .groups = 2,
                                          .softplus = true,
                                          .lengths = lengths,
                                          .reverse = true},
                                  .dy = t[8],
                                  .dhT = t[9],
                                  .dA = t[10],
                                  .dDskip = t[11],
                                  .ddbias = t[12],
                                  .dh0 = t[13]};
    return op_ssd_backward(s, &a, err);
}

/* Heads of 64 channels with 16 states, one group: what a GPU's wide accesses and whole blocks take. */
static int run_ssd_wide(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_args a = {.x = t[0],
                         .delta = t[1],
                         .A = t[2],
                         .Bm = t[3],
                         .Cm = t[4],
                         .Dskip = t[5],
                         .dbias = t[6],
                         .y = t[7],
                         .resets = t[8],
                         .heads = 4,
                         .groups = 1,
                         .softplus = true,
                         .reverse = true};
    return op_ssd(s, &a, err);
}
static int run_ssd_wide_backward(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct ssd_backward_args a = {.fwd = {.x = t[0],
                                          .delta = t[1],
                                          .A = t[2],
                                          .Bm = t[3],
                                          .Cm = t[4],
                                          .Dskip = t[5],
                                          .dbias = t[6],
                                          .resets = t[15],
                                          .heads = 4,
                                          .groups = 1,
                                          .softplus = true},
                                  .dy = t[7],
                                  .dx = t[8],
                                  .ddelta = t[9],
                                  .dBm = t[10],
                                  .dCm = t[11],
                                  .dA = t[12],
                                  .dDskip = t[13],
                                  .ddbias = t[14]};
    return op_ssd_backward(s, &a, err);
}

#endif
