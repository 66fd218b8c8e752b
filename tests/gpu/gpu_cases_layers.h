/* gpu_cases_layers: calls of the ops other than the scans. */
#ifndef BRR_TESTS_GPU_GPU_CASES_LAYERS_H
#define BRR_TESTS_GPU_GPU_CASES_LAYERS_H
#include "gpu_cases.h"

static int run_0(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct conv1d_args a = {.x = t[0], .w = t[1], .bias = t[2], .y = t[3], .stride = 1, .pad = 3, .relu = true};
    return op_conv1d(s, &a, err);
}
static int run_1(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct conv1d_args a = {.x = t[0], .w = t[1], .bias = t[2], .y = t[3], .stride = 2};
    return op_conv1d(s, &a, err);
}
static int run_2(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct conv1d_backward_args a = {
        .x = t[0], .w = t[1], .dy = t[2], .dx = t[3], .dw = t[4], .dbias = t[5], .stride = 1, .pad = 2};
    return op_conv1d_backward(s, &a, err);
}
static int run_3(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct conv1d_backward_args a = {.x = t[0], .w = t[1], .dy = t[2], .dx = t[3], .dw = t[4], .dbias = t[5], .stride = 2};
    return op_conv1d_backward(s, &a, err);
}
static int run_4(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct convt1d_args a = {.x = t[0], .w = t[1], .bias = t[2], .y = t[3]};
    return op_convt1d(s, &a, err);
}
static int run_5(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct convt1d_backward_args a = {.x = t[0], .w = t[1], .dy = t[2], .dx = t[3], .dw = t[4], .dbias = t[5]};
    return op_convt1d_backward(s, &a, err);
}
static int run_6(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct linear_args a = {.x = t[0], .w = t[1], .bias = t[2], .y = t[3]};
    return op_linear(s, &a, err);
}
static int run_7(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct linear_args a = {.x = t[0], .w = t[1], .y = t[3], .accumulate = true};
    return op_linear(s, &a, err);
}
static int run_8(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct linear_backward_args a = {
        .x = t[0], .w = t[1], .dy = t[2], .dx = t[3], .dw = t[4], .dbias = t[5], .accumulate_dx = true};
    return op_linear_backward(s, &a, err);
}
static int run_9(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
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
                                      .reverse = false,
                                      .lengths = lengths};
    return op_conv1d_depthwise(s, &a, err);
}
static int run_10(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
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
                                               .reverse = false,
                                               .lengths = lengths};
    return op_conv1d_depthwise_backward(s, &a, err);
}
static int run_11(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
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
                                      .reverse = true,
                                      .lengths = lengths};
    return op_conv1d_depthwise(s, &a, err);
}
static int run_12(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
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
                                               .reverse = true,
                                               .lengths = lengths};
    return op_conv1d_depthwise_backward(s, &a, err);
}
static int run_13(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
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
static int run_14(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct batchnorm_args a = {.x = t[0],
                               .weight = t[1],
                               .bias = t[2],
                               .y = t[3],
                               .save_mean = t[4],
                               .save_rstd = t[5],
                               .running_mean = t[6],
                               .running_var = t[7],
                               .eps = 1e-5f,
                               .relu = true};
    return op_batchnorm_inference(s, &a, err);
}
static int run_15(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
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
static int run_16(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
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
static int run_17(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct layernorm_backward_args a = {
        .sum = t[0], .weight = t[1], .save_mean = t[2], .save_rstd = t[3], .dy = t[4], .dx = t[5], .dweight = t[6], .dbias = t[7]};
    return op_layernorm_backward(s, &a, err);
}
static int run_18(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct rmsnorm_gated_args a = {.y = t[0], .z = t[1], .weight = t[2], .out = t[3], .save_rstd = t[4], .groups = 3, .eps = 1e-5f};
    return op_rmsnorm_gated(s, &a, err);
}
static int run_19(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
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
static int run_52(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct eltwise_args a = {.a = t[0], .b = t[1], .y = t[2], .kind = ELTWISE_COPY, .alpha = 0.75f};
    return op_eltwise(s, &a, err);
}
static int run_53(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct eltwise_args a = {.a = t[0], .b = t[1], .y = t[2], .kind = ELTWISE_ADD, .alpha = 0.75f};
    return op_eltwise(s, &a, err);
}
static int run_54(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct eltwise_args a = {.a = t[0], .b = t[1], .y = t[2], .kind = ELTWISE_ADD_RELU, .alpha = 0.75f};
    return op_eltwise(s, &a, err);
}
static int run_55(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct eltwise_args a = {.a = t[0], .b = t[1], .y = t[2], .kind = ELTWISE_RELU, .alpha = 0.75f};
    return op_eltwise(s, &a, err);
}
static int run_56(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct eltwise_args a = {.a = t[0], .b = t[1], .y = t[2], .kind = ELTWISE_RELU_BACKWARD, .alpha = 0.75f};
    return op_eltwise(s, &a, err);
}
static int run_57(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct eltwise_args a = {.a = t[0], .b = t[1], .y = t[2], .kind = ELTWISE_SCALE, .alpha = 0.75f};
    return op_eltwise(s, &a, err);
}
static int run_58(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct eltwise_args a = {.a = t[0], .b = t[1], .y = t[2], .kind = ELTWISE_FILL, .alpha = 0.75f};
    return op_eltwise(s, &a, err);
}
static int run_59(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct eltwise_args a = {.a = t[0], .b = t[1], .y = t[2], .kind = ELTWISE_NEG_EXP, .alpha = 0.75f};
    return op_eltwise(s, &a, err);
}
static int run_60(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct eltwise_args a = {.a = t[0], .b = t[1], .y = t[2], .kind = ELTWISE_MUL_ADD, .alpha = 0.75f};
    return op_eltwise(s, &a, err);
}
static int run_61(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct dropout_args a = {
        .x = t[0], .y = t[1], .p = 0.3f, .per_channel = false, .seed = 77, .rng_stream = 5, .step = 9, .row0 = 6};
    return op_dropout(s, &a, err);
}
static int run_62(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct dropout_args a = {
        .x = t[0], .y = t[1], .p = 0.3f, .per_channel = true, .seed = 77, .rng_stream = 5, .step = 9, .row0 = 6};
    return op_dropout(s, &a, err);
}
static int run_63(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    int64_t count = 0;
    struct loss_args a = {.kind = LOSS_BCE,
                          .logits = t[0],
                          .labels = t[1],
                          .mask = t[2],
                          .dlogits = t[3],
                          .valid = lengths,
                          .alpha = 0.4f,
                          .gamma = 2,
                          .pos_weight = 3,
                          .scale = 0.01f,
                          .host_loss_sum = &sums[0],
                          .host_count = &count};
    int rc = op_loss(s, &a, err);
    rc = rc ? rc : stream_sync(s, err);
    sums[1] = (double)count;
    return rc;
}
static int run_64(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    int64_t count = 0;
    struct loss_args a = {.kind = LOSS_FOCAL,
                          .logits = t[0],
                          .labels = t[1],
                          .mask = t[2],
                          .dlogits = t[3],
                          .valid = lengths,
                          .alpha = 0.4f,
                          .gamma = 2,
                          .pos_weight = 3,
                          .scale = 0.01f,
                          .host_loss_sum = &sums[0],
                          .host_count = &count};
    int rc = op_loss(s, &a, err);
    rc = rc ? rc : stream_sync(s, err);
    sums[1] = (double)count;
    return rc;
}
static int run_65(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    bool finite = false;
    struct norm_args a = {.x = t[0], .host_sum_squares = &sums[0], .host_finite = &finite};
    int rc = op_norm(s, &a, err);
    rc = rc ? rc : stream_sync(s, err);
    sums[1] = finite;
    return rc;
}
static int run_66(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
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
static int run_67(struct stream *s, const struct tensor *t, double sums[2], struct err *err) {
    (void)sums;
    struct sigmoid_args a = {.x = t[0], .y = t[1]};
    return op_sigmoid(s, &a, err);
}
#endif
