/* The other ops of the table. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

#define A_        BRIDGE_ACTIVATION
#define P_        BRIDGE_PARAMETER
#define DIMS(...) ((const int64_t[TENSOR_MAX_RANK]){__VA_ARGS__})

static void run_conv1d(struct bridge *b) {
    struct conv1d_args a = {
        .x = bridge_in(b, "x", A_, false),
        .w = bridge_in(b, "w", P_, false),
        .bias = bridge_in(b, "b", P_, true),
        .stride = (int)bridge_number(b, "stride", 1),
        .pad = (int)bridge_number(b, "pad", 0),
        .relu = bridge_flag(b, "relu", false),
    };
    int64_t to = a.stride > 0 ? (a.x.dim[1] + 2 * a.pad - a.w.dim[2]) / a.stride + 1 : 1;
    a.y = bridge_out(b, "out", A_, 3, DIMS(a.x.dim[0], to > 0 ? to : 1, a.w.dim[0]));
    if (!bridge_attributes_done(b))
        b->rc = op_conv1d(b->stream, &a, b->err);
    if (b->rc || !bridge_has(b, "g_out"))
        return;
    if (a.relu) {
        b->rc = err_set(b->err, ERR_INVALID, "conv1d: gradients are those of the convolution without ReLU; drop relu=1 or g_out");
        return;
    }
    struct conv1d_backward_args g = {
        .x = a.x,
        .w = a.w,
        .stride = a.stride,
        .pad = a.pad,
        .dy = bridge_in(b, "g_out", A_, false),
        .dx = bridge_like(b, "grad_x", A_, &a.x),
        .dw = bridge_like(b, "grad_w", P_, &a.w),
        .dbias = bridge_like(b, "grad_b", P_, &a.bias),
    };
    if (!b->rc)
        b->rc = op_conv1d_backward(b->stream, &g, b->err);
}

static void run_convt1d(struct bridge *b) {
    struct convt1d_args a = {
        .x = bridge_in(b, "x", A_, false),
        .w = bridge_in(b, "w", P_, false),
        .bias = bridge_in(b, "b", P_, true),
    };
    a.y = bridge_out(b, "out", A_, 3, DIMS(a.x.dim[0], 2 * a.x.dim[1], a.w.dim[1]));
    if (!bridge_attributes_done(b))
        b->rc = op_convt1d(b->stream, &a, b->err);
    if (b->rc || !bridge_has(b, "g_out"))
        return;
    struct convt1d_backward_args g = {
        .x = a.x,
        .w = a.w,
        .dy = bridge_in(b, "g_out", A_, false),
        .dx = bridge_like(b, "grad_x", A_, &a.x),
        .dw = bridge_like(b, "grad_w", P_, &a.w),
        .dbias = bridge_like(b, "grad_b", P_, &a.bias),
    };
    if (!b->rc)
        b->rc = op_convt1d_backward(b->stream, &g, b->err);
}

/* Rows of any rank as (1,R,C). */
static struct tensor rows_of(struct bridge *b, struct tensor t) {
    if (!tensor_present(&t) || b->rc || t.rank == 3)
        return t;
    int64_t last = t.dim[t.rank - 1];
    return bridge_reshape(b, t, 3, DIMS(1, tensor_count(&t) / (last > 0 ? last : 1), last));
}

static void run_linear(struct bridge *b) {
    struct linear_args a = {
        .x = rows_of(b, bridge_in(b, "x", A_, false)),
        .w = bridge_in(b, "w", P_, false),
        .bias = bridge_in(b, "b", P_, true),
    };
    a.y = bridge_out(b, "out", A_, 3, DIMS(a.x.dim[0], a.x.dim[1], a.w.dim[0]));
    if (!bridge_attributes_done(b))
        b->rc = op_linear(b->stream, &a, b->err);
    if (b->rc || !bridge_has(b, "g_out"))
        return;
    struct linear_backward_args g = {
        .x = a.x,
        .w = a.w,
        .dy = rows_of(b, bridge_in(b, "g_out", A_, false)),
        .dx = bridge_like(b, "grad_x", A_, &a.x),
        .dw = bridge_like(b, "grad_w", P_, &a.w),
        .dbias = bridge_like(b, "grad_b", P_, &a.bias),
    };
    if (!b->rc)
        b->rc = op_linear_backward(b->stream, &g, b->err);
}

static void run_layernorm(struct bridge *b) {
    struct layernorm_args a = {
        .x = bridge_in(b, "x", A_, false),
        .residual = bridge_in(b, "residual", A_, true),
        .weight = bridge_in(b, "w", P_, false),
        .bias = bridge_in(b, "b", P_, false),
        .eps = (float)bridge_number(b, "eps", 1e-5),
    };
    a.y = bridge_like(b, "out", A_, &a.x);
    a.sum = bridge_like(b, "sum", A_, &a.x);
    int64_t rows = a.x.dim[0] * a.x.dim[1];
    a.save_mean = bridge_temporary(b, P_, 1, DIMS(rows));
    a.save_rstd = bridge_temporary(b, P_, 1, DIMS(rows));
    if (!bridge_attributes_done(b))
        b->rc = op_layernorm(b->stream, &a, b->err);
    if (b->rc || !bridge_has(b, "g_out"))
        return;
    struct layernorm_backward_args g = {
        .sum = a.sum,
        .weight = a.weight,
        .save_mean = a.save_mean,
        .save_rstd = a.save_rstd,
        .dy = bridge_in(b, "g_out", A_, false),
        .dx = bridge_like(b, "grad_x", A_, &a.x),
        .dweight = bridge_like(b, "grad_w", P_, &a.weight),
        .dbias = bridge_like(b, "grad_b", P_, &a.bias),
    };
    if (!b->rc)
        b->rc = op_layernorm_backward(b->stream, &g, b->err);
    if (tensor_present(&a.residual)) {
        struct eltwise_args copy = {.kind = ELTWISE_COPY, .a = g.dx, .y = bridge_like(b, "grad_residual", A_, &a.residual)};
        if (!b->rc)
            b->rc = op_eltwise(b->stream, &copy, b->err);
    }
}

static struct tensor copy_out(struct bridge *b, const char *name, const struct tensor *from) {
    struct tensor t = bridge_like(b, name, P_, from);
    if (!b->rc && tensor_present(&t))
        b->rc = stream_copy(b->stream, t.data, from->data, (size_t)tensor_count(&t) * sizeof(float), b->err);
    return t;
}

static void run_batchnorm(struct bridge *b) {
    struct tensor mean = bridge_in(b, "running_mean", P_, true), var = bridge_in(b, "running_var", P_, true);
    struct batchnorm_args a = {
        .x = bridge_in(b, "x", A_, false),
        .weight = bridge_in(b, "w", P_, false),
        .bias = bridge_in(b, "b", P_, false),
        .eps = (float)bridge_number(b, "eps", 1e-5),
        .momentum = (float)bridge_number(b, "momentum", 0.1),
        .relu = bridge_flag(b, "relu", false),
    };
    bool training = bridge_flag(b, "training", true);
    a.y = bridge_like(b, "out", A_, &a.x);
    if (!b->rc && (!tensor_present(&mean) || !tensor_present(&var))) {
        mean = bridge_temporary(b, P_, 1, a.weight.dim);
        var = bridge_temporary(b, P_, 1, a.weight.dim);
    }
    a.running_mean = training ? copy_out(b, "running_mean", &mean) : mean;
    a.running_var = training ? copy_out(b, "running_var", &var) : var;
    if (training) {
        a.save_mean = bridge_like(b, "mean", P_, &a.weight);
        a.save_rstd = bridge_like(b, "rstd", P_, &a.weight);
    }
    if (!bridge_attributes_done(b))
        b->rc = training ? op_batchnorm(b->stream, &a, b->err) : op_batchnorm_inference(b->stream, &a, b->err);
    if (b->rc || !bridge_has(b, "g_out") || !training)
        return;
    struct batchnorm_backward_args g = {
        .x = a.x,
        .y = a.y,
        .weight = a.weight,
        .save_mean = a.save_mean,
        .save_rstd = a.save_rstd,
        .relu = a.relu,
        .dy = bridge_in(b, "g_out", A_, false),
        .dx = bridge_like(b, "grad_x", A_, &a.x),
        .dweight = bridge_like(b, "grad_w", P_, &a.weight),
        .dbias = bridge_like(b, "grad_b", P_, &a.bias),
    };
    if (!b->rc)
        b->rc = op_batchnorm_backward(b->stream, &g, b->err);
}

static void run_sigmoid(struct bridge *b) {
    struct sigmoid_args a = {.x = bridge_in(b, "x", P_, false)};
    a.y = bridge_like(b, "out", P_, &a.x);
    if (!bridge_attributes_done(b))
        b->rc = op_sigmoid(b->stream, &a, b->err);
}

static const struct {
    const char *name;
    enum eltwise_kind kind;
} eltwise_kinds[] = {
    {"copy", ELTWISE_COPY},
    {"add", ELTWISE_ADD},
    {"add_relu", ELTWISE_ADD_RELU},
    {"relu", ELTWISE_RELU},
    {"relu_backward", ELTWISE_RELU_BACKWARD},
    {"scale", ELTWISE_SCALE},
    {"fill", ELTWISE_FILL},
    {"neg_exp", ELTWISE_NEG_EXP},
};

static void run_eltwise(struct bridge *b) {
    const char *kind = bridge_text(b, "kind", "copy");
    struct eltwise_args a = {.a = bridge_in(b, "a", A_, false), .b = bridge_in(b, "b", A_, true)};
    a.alpha = (float)bridge_number(b, "alpha", 1);
    size_t i = 0;
    while (i < sizeof eltwise_kinds / sizeof *eltwise_kinds && strcmp(eltwise_kinds[i].name, kind))
        i++;
    if (i == sizeof eltwise_kinds / sizeof *eltwise_kinds) {
        b->rc = err_set(b->err, ERR_INVALID,
                        "eltwise: kind=%s is unknown; expected copy, add, add_relu, relu, relu_backward, scale, "
                        "fill or neg_exp",
                        kind);
        return;
    }
    a.kind = eltwise_kinds[i].kind;
    a.y = bridge_like(b, "out", A_, &a.a);
    if (!bridge_attributes_done(b))
        b->rc = op_eltwise(b->stream, &a, b->err);
}

static void run_dropout(struct bridge *b) {
    struct dropout_args a = {
        .x = bridge_in(b, "x", A_, false),
        .p = (float)bridge_number(b, "p", 0.1),
        .per_channel = bridge_flag(b, "per_channel", false),
        .seed = (uint64_t)bridge_number(b, "seed", 0),
        .rng_stream = (uint32_t)bridge_number(b, "stream", 0),
        .step = (uint32_t)bridge_number(b, "step", 0),
        .row0 = (int64_t)bridge_number(b, "row0", 0),
    };
    a.y = bridge_like(b, "out", A_, &a.x);
    if (!bridge_attributes_done(b))
        b->rc = op_dropout(b->stream, &a, b->err);
    if (b->rc || !bridge_has(b, "g_out"))
        return;
    a.x = bridge_in(b, "g_out", A_, false);
    a.y = bridge_like(b, "grad_x", A_, &a.x);
    if (!b->rc)
        b->rc = op_dropout(b->stream, &a, b->err);
}

/* Zeroed device memory of `bytes`, with what the host has in its front. */
static void *on_device(struct bridge *b, const void *host, size_t bytes) {
    struct tensor t = bridge_temporary(b, BRIDGE_BYTES, 1, (int64_t[TENSOR_MAX_RANK]){(int64_t)bytes});
    if (!b->rc && host)
        b->rc = stream_to_device(b->stream, t.data, host, bytes, b->err);
    return t.data;
}

/* Doubles that an op left in device memory. */
static void to_host(struct bridge *b, double *to, const double *from, size_t n) {
    if (!b->rc)
        b->rc = stream_to_host(b->stream, to, from, n * sizeof *to, b->err);
    if (!b->rc)
        b->rc = stream_sync(b->stream, b->err);
}

static void run_loss(struct bridge *b) {
    const char *kind = bridge_text(b, "kind", "bce");
    double sums[2] = {0, 0};
    struct loss_args a = {
        .kind = strcmp(kind, "focal") ? LOSS_BCE : LOSS_FOCAL,
        .logits = bridge_in(b, "logits", P_, false),
        .labels = bridge_in(b, "labels", BRIDGE_BYTES, false),
        .mask = bridge_in(b, "mask", BRIDGE_BYTES, true),
        .alpha = (float)bridge_number(b, "alpha", 0.25),
        .gamma = (float)bridge_number(b, "gamma", 2),
        .pos_weight = (float)bridge_number(b, "pos_weight", 1),
        .scale = (float)bridge_number(b, "scale", 1),
        .sums = on_device(b, NULL, sizeof sums),
    };
    if (!b->rc && strcmp(kind, "focal") && strcmp(kind, "bce"))
        b->rc = err_set(b->err, ERR_INVALID, "loss: kind=%s is unknown; expected bce or focal", kind);
    a.dlogits = bridge_like(b, "grad_logits", P_, &a.logits);
    int64_t rows = a.logits.dim[0];
    int32_t *valid = bridge_integers(b, "valid", rows);
    if (!b->rc && !valid) {
        valid = malloc((size_t)rows * sizeof *valid + 1);
        if (!valid)
            b->rc = err_set(b->err, ERR_EXHAUSTED, "loss: out of memory");
        for (int64_t i = 0; valid && i < rows; i++)
            valid[i] = (int32_t)a.logits.dim[1];
    }
    a.valid = on_device(b, valid, (size_t)rows * sizeof *valid);
    if (!bridge_attributes_done(b))
        b->rc = op_loss(b->stream, &a, b->err);
    to_host(b, sums, a.sums, 2);
    free(valid);
    bridge_scalar(b, "loss", sums[0]);
    bridge_scalar(b, "count", sums[1]);
}

static void run_norm(struct bridge *b) {
    double squares = 0;
    struct tensor x = bridge_in(b, "x", P_, false);
    struct norm_args a = {.sum_squares = on_device(b, NULL, sizeof squares)};
    a.x = bridge_reshape(b, x, 1, DIMS(b->rc ? 0 : tensor_count(&x)));
    if (!bridge_attributes_done(b))
        b->rc = op_norm(b->stream, &a, b->err);
    to_host(b, &squares, a.sum_squares, 1);
    bridge_scalar(b, "sum_squares", squares);
    bridge_scalar(b, "finite", isfinite(squares));
}

static void run_adamw(struct bridge *b) {
    struct tensor param = bridge_in(b, "param", P_, false), m = bridge_in(b, "m", P_, false), v = bridge_in(b, "v", P_, false);
    struct tensor ema = bridge_in(b, "ema", P_, true);
    struct adamw_args a = {
        .param = copy_out(b, "param", &param),
        .grad = bridge_in(b, "grad", P_, false),
        .m = copy_out(b, "m", &m),
        .v = copy_out(b, "v", &v),
        .decay = bridge_in(b, "decay", BRIDGE_BYTES, false),
        .ema = copy_out(b, "ema", &ema),
        .lr = (float)bridge_number(b, "lr", 1e-3),
        .beta1 = (float)bridge_number(b, "beta1", 0.9),
        .beta2 = (float)bridge_number(b, "beta2", 0.999),
        .eps = (float)bridge_number(b, "eps", 1e-8),
        .weight_decay = (float)bridge_number(b, "weight_decay", 0.01),
        .grad_scale = (float)bridge_number(b, "grad_scale", 1),
        .ema_decay = (float)bridge_number(b, "ema_decay", 0.999),
        .step = (int64_t)bridge_number(b, "step", 1),
    };
    if (!bridge_attributes_done(b))
        b->rc = op_adamw(b->stream, &a, b->err);
}

const struct op_row layer_ops[] = {
    {"conv1d", run_conv1d, "x w [b g_out]; stride=1 pad=0 relu=0 → out grad_*"},
    {"convt1d", run_convt1d, "x w [b g_out] → out grad_*"},
    {"linear", run_linear, "x w [b g_out] → out grad_*"},
    {"layernorm", run_layernorm, "x w b [residual g_out]; eps=1e-5 → out sum grad_*"},
    {"batchnorm", run_batchnorm,
     "x w b [running_mean running_var g_out]; training=1 relu=0 eps=1e-5 momentum=0.1 → out mean rstd running_mean running_var "
     "grad_*"},
    {"sigmoid", run_sigmoid, "x → out"},
    {"eltwise", run_eltwise, "a [b]; kind=copy|add|add_relu|relu|relu_backward|scale|fill|neg_exp alpha=1 → out"},
    {"dropout", run_dropout, "x [g_out]; p=0.1 per_channel=0 seed stream step row0 → out grad_x"},
    {"loss", run_loss, "logits labels [mask valid]; kind=bce|focal alpha gamma pos_weight scale → loss count grad_logits"},
    {"norm", run_norm, "x → sum_squares finite"},
    {"adamw", run_adamw, "param grad m v decay [ema]; lr beta1 beta2 eps weight_decay grad_scale ema_decay step → param m v ema"},
    {NULL, NULL, NULL},
};
