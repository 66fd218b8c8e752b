/* gpu_cases_layers: calls of the ops other than the scans. */
#pragma once
#include <math.h>

#include "gpu_cases.h"

/* Stride 1: with padding that keeps the length. */
static int conv1d_of(const struct op_test *c, struct stream *s, const struct tensor *t, struct tensor x, struct tensor y,
                     struct err *err) {
    struct conv1d_args a = {.x = x,
                            .w = t[1],
                            .bias = t[2],
                            .y = y,
                            .stride = c->strided ? 2 : 1,
                            .pad = c->strided ? 0 : (int)t[1].dim[2] / 2,
                            .relu = !c->strided && tensor_present(&t[2])};
    return op_conv1d(s, &a, err);
}
static int run_conv1d(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    return conv1d_of(c, s, t, t[0], t[3], err);
}
/* Input and output are slices of channels: they begin at channel 8 (x) and 3 (y). */
static int run_conv1d_slices(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    return conv1d_of(c, s, t, tensor_slice(&t[0], 8, t[1].dim[1]), tensor_slice(&t[3], 3, t[1].dim[0]), err);
}
static int conv1d_backward_of(const struct op_test *c, struct stream *s, const struct tensor *t, struct tensor x, struct tensor dy,
                              struct tensor dx, struct err *err) {
    struct conv1d_backward_args a = {.x = x,
                                     .w = t[1],
                                     .dy = dy,
                                     .dx = dx,
                                     .dw = t[4],
                                     .dbias = t[5],
                                     .stride = c->strided ? 2 : 1,
                                     .pad = c->strided ? 0 : (int)t[1].dim[2] / 2};
    return op_conv1d_backward(s, &a, err);
}
static int run_conv1d_backward(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    return conv1d_backward_of(c, s, t, t[0], t[2], t[3], err);
}
static int run_conv1d_backward_slices(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2],
                                      struct err *err) {
    (void)sums;
    return conv1d_backward_of(c, s, t, tensor_slice(&t[0], 3, t[1].dim[1]), tensor_slice(&t[2], 8, t[1].dim[0]),
                              tensor_slice(&t[3], 8, t[1].dim[1]), err);
}
static int run_convt1d(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)c, (void)sums;
    struct convt1d_args a = {.x = t[0], .w = t[1], .bias = t[2], .y = t[3]};
    return op_convt1d(s, &a, err);
}
static int run_convt1d_backward(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2],
                                struct err *err) {
    (void)c, (void)sums;
    struct convt1d_backward_args a = {.x = t[0], .w = t[1], .dy = t[2], .dx = t[3], .dw = t[4], .dbias = t[5]};
    return op_convt1d_backward(s, &a, err);
}
static int run_linear(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)c, (void)sums;
    struct linear_args a = {.x = t[0], .w = t[1], .bias = t[2], .y = t[3]};
    return op_linear(s, &a, err);
}
static int run_linear_adding(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)c, (void)sums;
    struct linear_args a = {.x = t[0], .w = t[1], .y = t[3], .accumulate = true};
    return op_linear(s, &a, err);
}
static int run_linear_backward(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)c, (void)sums;
    struct linear_backward_args a = {
        .x = t[0], .w = t[1], .dy = t[2], .dx = t[3], .dw = t[4], .dbias = t[5], .accumulate_dx = true};
    return op_linear_backward(s, &a, err);
}
static int run_depthwise(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct conv1d_depthwise_args a = {.x = t[0],
                                      .w = t[1],
                                      .bias = t[2],
                                      .y = t[3],
                                      .state0 = t[4],
                                      .state = t[5],
                                      .resets = t[6],
                                      .pad_left = 3,
                                      .silu = true,
                                      .reverse = c->reverse,
                                      .lengths = lengths};
    return op_conv1d_depthwise(s, &a, err);
}
static int run_depthwise_backward(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2],
                                  struct err *err) {
    (void)sums;
    struct conv1d_depthwise_backward_args a = {.x = t[0],
                                               .w = t[1],
                                               .bias = t[2],
                                               .dy = t[3],
                                               .dx = t[4],
                                               .dw = t[5],
                                               .dbias = t[6],
                                               .state0 = t[7],
                                               .dstate0 = t[8],
                                               .dstate = t[9],
                                               .resets = t[10],
                                               .pad_left = 3,
                                               .silu = true,
                                               .reverse = c->reverse,
                                               .lengths = lengths};
    return op_conv1d_depthwise_backward(s, &a, err);
}
static int run_batchnorm(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)c, (void)sums;
    struct batchnorm_args a = {.x = t[0],
                               .weight = t[1],
                               .bias = t[2],
                               .y = t[3],
                               .save_mean = t[4],
                               .save_rstd = t[5],
                               .running_mean = t[6],
                               .running_var = t[7],
                               .eps = 1e-5f,
                               .momentum = 0.1f,
                               .relu = true};
    return op_batchnorm(s, &a, err);
}
/* Two channels are not finite: the running statistics, all that is compared, stay as they were there and move elsewhere. */
static int run_batchnorm_not_finite(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2],
                                    struct err *err) {
    static const uint32_t f32[2] = {0x7fc00000u, 0x7f800000u}; /* a NaN and an infinity */
    static const uint16_t bf16[2] = {0x7fc0u, 0x7f80u};
    bool wide = t[0].dtype == DTYPE_F32;
    size_t width = wide ? sizeof *f32 : sizeof *bf16;
    const void *bad = wide ? (const void *)f32 : (const void *)bf16;
    int rc = stream_to_device(s, (char *)t[0].data + (size_t)(50 * t[0].ld + 7) * width, bad, 2 * width, err);
    if (!rc)
        rc = stream_sync(s, err);
    if (!rc)
        rc = run_batchnorm(c, s, t, sums, err);
    for (int i = 0; !rc && i <= 5; i++)
        if (i == 0 || i >= 3)
            rc = stream_zero(s, t[i].data, tensor_span_bytes(&t[i]), err);
    return rc;
}
static int run_batchnorm_leaf(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)c, (void)sums;
    struct batchnorm_args a = {.x = t[0],
                               .weight = t[1],
                               .bias = t[2],
                               .y = t[3],
                               .save_mean = t[4],
                               .save_rstd = t[5],
                               .running_mean = t[6],
                               .running_var = t[7],
                               .leaf_mean = t[8],
                               .leaf_var = t[9],
                               .eps = 1e-5f,
                               .momentum = 0.1f,
                               .relu = true};
    return op_batchnorm(s, &a, err);
}
static int run_running_statistics(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2],
                                  struct err *err) {
    (void)c, (void)sums;
    struct running_statistics_args a = {.running = t[0], .leaves = t[1], .momentum = 0.1f};
    return op_running_statistics(s, &a, err);
}
static int run_batchnorm_backward(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2],
                                  struct err *err) {
    (void)c, (void)sums;
    struct batchnorm_backward_args a = {.x = t[0],
                                        .y = t[1],
                                        .weight = t[2],
                                        .save_mean = t[3],
                                        .save_rstd = t[4],
                                        .dy = t[5],
                                        .dx = t[6],
                                        .dweight = t[7],
                                        .dbias = t[8],
                                        .relu = true};
    return op_batchnorm_backward(s, &a, err);
}
static int run_layernorm(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)c, (void)sums;
    struct layernorm_args a = {.x = t[0],
                               .residual = t[1],
                               .weight = t[2],
                               .bias = t[3],
                               .y = t[4],
                               .sum = t[5],
                               .save_mean = t[6],
                               .save_rstd = t[7],
                               .eps = 1e-5f};
    return op_layernorm(s, &a, err);
}
static int run_layernorm_backward(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2],
                                  struct err *err) {
    (void)c, (void)sums;
    struct layernorm_backward_args a = {
        .sum = t[0], .weight = t[1], .save_mean = t[2], .save_rstd = t[3], .dy = t[4], .dx = t[5], .dweight = t[6], .dbias = t[7]};
    return op_layernorm_backward(s, &a, err);
}
static int run_rmsnorm_gated(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)c, (void)sums;
    struct rmsnorm_gated_args a = {.y = t[0], .z = t[1], .weight = t[2], .out = t[3], .save_rstd = t[4], .groups = 3, .eps = 1e-5f};
    return op_rmsnorm_gated(s, &a, err);
}
static int run_rmsnorm_gated_backward(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2],
                                      struct err *err) {
    (void)c, (void)sums;
    struct rmsnorm_gated_backward_args a = {.y = t[0],
                                            .z = t[1],
                                            .weight = t[2],
                                            .save_rstd = t[3],
                                            .dout = t[4],
                                            .dy = t[5],
                                            .dz = t[6],
                                            .dweight = t[7],
                                            .groups = 3};
    return op_rmsnorm_gated_backward(s, &a, err);
}
static int run_eltwise(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct eltwise_args a = {.a = t[0], .b = t[1], .y = t[2], .kind = (enum eltwise_kind)c->kind, .alpha = 0.75f};
    return op_eltwise(s, &a, err);
}
static int run_dropout(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct dropout_args a = {
        .x = t[0], .y = t[1], .p = 0.3f, .per_channel = c->per_channel, .seed = 77, .rng_stream = 5, .step = 9, .row0 = 6};
    return op_dropout(s, &a, err);
}
/* What the host gives and gets, in device memory for the time of a call. */
struct exchange {
    double sums[2];
    struct train_place place;
    int32_t valid[3];
};
static int begin_exchange(struct stream *s, const struct exchange *host, struct exchange **ret, struct err *err) {
    void *on_device = NULL;
    int rc = device_alloc(stream_device(s), sizeof *host, &on_device, err);
    *ret = on_device;
    rc = rc ? rc : stream_to_device(s, on_device, host, sizeof *host, err);
    return rc ? rc : stream_sync(s, err); /* callers go on to change host */
}
static int end_exchange(struct stream *s, struct exchange *on_device, int rc, double sums[2], struct err *err) {
    rc = rc ? rc : stream_to_host(s, sums, on_device->sums, sizeof on_device->sums, err);
    rc = rc ? rc : stream_sync(s, err);
    device_free(stream_device(s), on_device);
    return rc;
}
static int run_loss(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    const enum loss_kind kind = (enum loss_kind)c->kind;
    struct exchange host = {.place.loss_scale = 0.02f, .valid = {37, 0, 21}}, *there = NULL;
    int rc = begin_exchange(s, &host, &there, err);
    struct loss_args a = {.kind = kind,
                          .logits = t[0],
                          .labels = t[1],
                          .mask = t[2],
                          .dlogits = t[3],
                          .valid = there ? there->valid : NULL,
                          .alpha = 0.4f,
                          .gamma = 2,
                          .pos_weight = 3,
                          .scale = 0.01f,
                          .place = there && kind == LOSS_FOCAL ? &there->place : NULL,
                          .sums = there ? there->sums : NULL};
    rc = rc ? rc : op_loss(s, &a, err);
    return end_exchange(s, there, rc, sums, err);
}
static int run_norm(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)c;
    struct exchange host = {.sums = {NAN, 1}}, *there = NULL;
    int rc = begin_exchange(s, &host, &there, err);
    struct norm_args a = {.x = t[0], .sum_squares = there ? there->sums : NULL};
    rc = rc ? rc : op_norm(s, &a, err);
    return end_exchange(s, there, rc, sums, err);
}
static int run_adamw(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)c, (void)sums;
    struct adamw_args a = {.param = t[0],
                           .grad = t[1],
                           .m = t[2],
                           .v = t[3],
                           .decay = t[4],
                           .ema = t[5],
                           .lr = 1e-2f,
                           .beta1 = 0.9f,
                           .beta2 = 0.99f,
                           .eps = 1e-8f,
                           .weight_decay = 0.1f,
                           .grad_scale = 0.5f,
                           .ema_decay = 0.9f,
                           .step = 3};
    return op_adamw(s, &a, err);
}
/* The gradient's norm and the step's place from device memory; a norm that is not finite first, which must change nothing. */
static int run_adamw_on_device(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)c;
    struct exchange host = {.sums = {NAN, 0}}, *there = NULL;
    int rc = begin_exchange(s, &host, &there, err);
    struct norm_args norm = {.x = t[1], .sum_squares = there ? there->sums : NULL};
    struct adamw_args a = {.param = t[0],
                           .grad = t[1],
                           .m = t[2],
                           .v = t[3],
                           .decay = t[4],
                           .lr = 1e-2f,
                           .beta1 = 0.9f,
                           .beta2 = 0.99f,
                           .eps = 1e-8f,
                           .weight_decay = 0.1f,
                           .step = 7,
                           .clip = 1.5,
                           .sum_squares = norm.sum_squares};
    adamw_place(&a, &host.place);
    rc = rc ? rc : op_adamw(s, &a, err);
    rc = rc ? rc : op_norm(s, &norm, err);
    rc = rc ? rc : stream_to_device(s, &there->place, &host.place, sizeof host.place, err);
    a.place = there ? &there->place : NULL;
    a.lr = NAN;
    a.step = 0;
    rc = rc ? rc : op_adamw(s, &a, err);
    return end_exchange(s, there, rc, sums, err);
}
/* Slices of rows, each with the norm of its own gradient. */
static int run_adamw_rows(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)c;
    const int64_t first = 7, n = t[4].dim[0];
    double *squares = NULL;
    int rc = device_alloc(stream_device(s), (size_t)t[0].dim[0] * sizeof *squares, (void **)&squares, err);
    struct norm_args norm = {.x = tensor_slice(&t[1], first, n), .sum_squares = squares};
    struct adamw_args a = {.param = tensor_slice(&t[0], first, n),
                           .grad = norm.x,
                           .m = tensor_slice(&t[2], first, n),
                           .v = tensor_slice(&t[3], first, n),
                           .decay = t[4],
                           .ema = tensor_slice(&t[5], first, n),
                           .lr = 1e-2f,
                           .beta1 = 0.9f,
                           .beta2 = 0.99f,
                           .eps = 1e-8f,
                           .weight_decay = 0.1f,
                           .ema_decay = 0.9f,
                           .step = 3,
                           .clip = 1.5,
                           .sum_squares = squares};
    rc = rc ? rc : op_norm(s, &norm, err);
    rc = rc ? rc : op_adamw(s, &a, err);
    rc = rc ? rc : stream_to_host(s, sums, squares, 2 * sizeof *sums, err);
    rc = rc ? rc : stream_sync(s, err);
    device_free(stream_device(s), squares);
    return rc;
}
static int run_sigmoid(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)c, (void)sums;
    struct sigmoid_args a = {.x = t[0], .y = t[1]};
    return op_sigmoid(s, &a, err);
}
/* Whole rows of four taps: what a GPU's wide accesses take. */
static int run_depthwise_wide(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct conv1d_depthwise_args a = {
        .x = t[0], .w = t[1], .bias = t[2], .y = t[3], .pad_left = 3, .silu = true, .reverse = c->reverse};
    return op_conv1d_depthwise(s, &a, err);
}
static int run_depthwise_wide_backward(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2],
                                       struct err *err) {
    (void)sums;
    struct conv1d_depthwise_backward_args a = {.x = t[0],
                                               .w = t[1],
                                               .bias = t[2],
                                               .dy = t[3],
                                               .dx = t[4],
                                               .dw = t[5],
                                               .dbias = t[6],
                                               .pad_left = 3,
                                               .silu = true,
                                               .reverse = c->reverse};
    return op_conv1d_depthwise_backward(s, &a, err);
}
