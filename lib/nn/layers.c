#include "nn/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

struct tensor nn_tensor(const struct pass *p, int64_t b, int64_t t, int64_t c) {
    return plan_tensor(p->plan, p->dtype, b, t, c);
}

struct tensor nn_like(const struct pass *p, const struct tensor *t) {
    return nn_tensor(p, t->dim[0], t->dim[1], t->dim[2]);
}

struct tensor nn_vector(const struct pass *p, int64_t n) {
    struct tensor t = plan_tensor(p->plan, DTYPE_F32, 1, 1, n);
    return tensor_1d(t.data, DTYPE_F32, n);
}

int nn_eltwise(const struct pass *p, enum eltwise_kind kind, const struct tensor *a, const struct tensor *b,
               const struct tensor *y) {
    if (p->dry)
        return 0;
    struct eltwise_args args = {.kind = kind, .y = *y};
    if (a)
        args.a = *a;
    if (b)
        args.b = *b;
    return op_eltwise(p->stream, &args, p->err);
}

int nn_dropout(const struct pass *p, const struct tensor *t, uint32_t rng_stream, bool per_channel) {
    struct dropout_args drop = {.x = *t,
                                .y = *t,
                                .p = p->dropout,
                                .per_channel = per_channel,
                                .seed = p->seed,
                                .rng_stream = rng_stream,
                                .step = p->step,
                                .row0 = p->row0,
                                .place = p->place};
    return p->dry || !p->training || p->dropout == 0 ? 0 : op_dropout(p->stream, &drop, p->err);
}

const struct param *nn_row(const struct param_set *set, const char *prefix, const char *leaf) {
    char name[PARAM_NAME_MAX];
    str_format(name, sizeof name, "%s.%s", prefix, leaf);
    return param_find(set, name);
}

int nn_affine_params(struct param_set *set, const char *prefix, const int64_t dim[3], int64_t n, struct err *err) {
    struct param_spec weight = {PARAM_WEIGHT, 3, {dim[0], dim[1], dim[2]}}, bias = {PARAM_PLAIN, 1, {n}};
    int rc = param_add(set, &weight, err, "%s.weight", prefix);
    return rc ? rc : param_add(set, &bias, err, "%s.bias", prefix);
}

int conv_block_params(struct param_set *set, const struct block_names *n, int64_t ci, int64_t co, int k, struct err *err) {
    struct param_spec weight = {PARAM_WEIGHT, 3, {co, ci, k}}, plain = {PARAM_PLAIN, 1, {co}}, buffer = {PARAM_BUFFER, 1, {co}};
    int rc;
    if ((rc = param_add(set, &weight, err, "%s.%s.weight", n->prefix, n->conv)) ||
        (rc = param_add(set, &plain, err, "%s.%s.bias", n->prefix, n->conv)) ||
        (rc = param_add(set, &plain, err, "%s.%s.weight", n->prefix, n->bn)) ||
        (rc = param_add(set, &plain, err, "%s.%s.bias", n->prefix, n->bn)) ||
        (rc = param_add(set, &buffer, err, "%s.%s.running_mean", n->prefix, n->bn)))
        return rc;
    return param_add(set, &buffer, err, "%s.%s.running_var", n->prefix, n->bn);
}

static const struct param *named(const struct param_set *set, const struct block_names *n, const char *part, const char *leaf) {
    char path[PARAM_NAME_MAX];
    str_format(path, sizeof path, "%s.%s", part, leaf);
    return nn_row(set, n->prefix, path);
}

void conv_block_bind(struct conv_block *l, const struct param_set *set, const struct block_names *n) {
    *l = (struct conv_block){
        .w = named(set, n, n->conv, "weight"),
        .b = named(set, n, n->conv, "bias"),
        .bn_w = named(set, n, n->bn, "weight"),
        .bn_b = named(set, n, n->bn, "bias"),
        .bn_mean = named(set, n, n->bn, "running_mean"),
        .bn_var = named(set, n, n->bn, "running_var"),
    };
    l->k = (int)l->w->dim[2];
    l->pad = l->k / 2;
}

static int forward_folded(struct conv_block *l, const struct pass *p, const struct tensor *x, const struct tensor *y) {
    struct conv1d_args conv = {.x = *x,
                               .w = l->folded.w,
                               .bias = l->folded.bias,
                               .y = *y,
                               .stride = 1,
                               .pad = l->pad,
                               .relu = !l->linear,
                               .weight_version = p->params->version};
    return p->dry ? 0 : op_conv1d(p->stream, &conv, p->err);
}

/* Where the leaf's statistic for this buffer goes; absent outside of such a pass. */
static struct tensor leaf_statistic(const struct pass *p, const struct param *buffer) {
    return p->leaf_statistics ? tensor_1d(p->leaf_statistics + buffer->offset, DTYPE_F32, buffer->count) : (struct tensor){0};
}

int conv_block_forward(struct conv_block *l, const struct pass *p, const struct tensor *x, struct tensor *y) {
    const struct param_set *set = p->params;
    int64_t co = l->w->dim[0], t = x->dim[1] + 2 * l->pad - l->k + 1;
    if (!tensor_present(y))
        *y = nn_tensor(p, x->dim[0], t, co);
    if (!p->training)
        return forward_folded(l, p, x, y);
    l->x = *x;
    l->y = *y;
    l->u = nn_tensor(p, x->dim[0], t, co);
    l->mean = nn_vector(p, co);
    l->rstd = nn_vector(p, co);
    if (p->dry)
        return 0;
    struct conv1d_args conv = {.x = *x,
                               .w = param_value(set, l->w),
                               .bias = param_value(set, l->b),
                               .y = l->u,
                               .stride = 1,
                               .pad = l->pad,
                               .weight_version = set->version};
    struct batchnorm_args bn = {
        .x = l->u,
        .weight = param_value(set, l->bn_w),
        .bias = param_value(set, l->bn_b),
        .y = *y,
        .save_mean = l->mean,
        .save_rstd = l->rstd,
        .running_mean = param_value(set, l->bn_mean),
        .running_var = param_value(set, l->bn_var),
        .leaf_mean = leaf_statistic(p, l->bn_mean),
        .leaf_var = leaf_statistic(p, l->bn_var),
        .eps = NN_EPS,
        .momentum = NN_MOMENTUM,
        .relu = !l->linear,
    };
    int rc = op_conv1d(p->stream, &conv, p->err);
    return rc ? rc : op_batchnorm(p->stream, &bn, p->err);
}

int conv_block_backward(struct conv_block *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx) {
    if (p->dry)
        return 0;
    const struct param_set *set = p->params;
    struct batchnorm_backward_args bn = {
        .x = l->u,
        .y = l->y,
        .weight = param_value(set, l->bn_w),
        .save_mean = l->mean,
        .save_rstd = l->rstd,
        .dy = *dy,
        .dx = *dy,
        .dweight = param_grad(set, l->bn_w),
        .dbias = param_grad(set, l->bn_b),
        .relu = !l->linear,
    };
    struct conv1d_backward_args conv = {.x = l->x,
                                        .w = param_value(set, l->w),
                                        .dy = *dy,
                                        .dx = *dx,
                                        .dw = param_grad(set, l->w), /* no dbias: the norm takes every bias away */
                                        .stride = 1,
                                        .pad = l->pad,
                                        .weight_version = set->version};
    int rc = op_batchnorm_backward(p->stream, &bn, p->err);
    return rc ? rc : op_conv1d_backward(p->stream, &conv, p->err);
}

int64_t conv_block_folded_count(const struct conv_block *l) {
    int64_t w = (l->w->count + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
    return w + (l->b->count + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
}

static int fetch(const struct param_set *set, const struct param *p, struct stream *s, float *host, struct err *err) {
    struct tensor t = param_value(set, p);
    return stream_to_host(s, host, t.data, (size_t)p->count * sizeof *host, err);
}

int conv_block_fold(struct conv_block *l, const struct param_set *set, struct stream *s, float *device_memory, struct err *err) {
    int64_t co = l->w->dim[0], per = l->w->count / co, n = conv_block_folded_count(l);
    OWNED_MEMORY float *host = calloc((size_t)(n + 4 * co), sizeof *host);
    if (!host)
        return err_set(err, ERR_EXHAUSTED, "out of memory folding batch norm");
    float *bias = host + (n - (co + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN);
    float *gamma = host + n, *beta = gamma + co, *mean = beta + co, *var = mean + co;
    int rc;
    if ((rc = fetch(set, l->w, s, host, err)) || (rc = fetch(set, l->b, s, bias, err)) ||
        (rc = fetch(set, l->bn_w, s, gamma, err)) || (rc = fetch(set, l->bn_b, s, beta, err)) ||
        (rc = fetch(set, l->bn_mean, s, mean, err)) || (rc = fetch(set, l->bn_var, s, var, err)) || (rc = stream_sync(s, err)))
        return rc;
    for (int64_t o = 0; o < co; o++) {
        double scale = (double)gamma[o] / sqrt((double)var[o] + (double)NN_EPS);
        for (int64_t i = 0; i < per; i++)
            host[o * per + i] = (float)((double)host[o * per + i] * scale);
        bias[o] = (float)(((double)bias[o] - (double)mean[o]) * scale + (double)beta[o]);
    }
    if ((rc = stream_to_device(s, device_memory, host, (size_t)n * sizeof *host, err)) || (rc = stream_sync(s, err)))
        return rc;
    l->folded.w = param_value(set, l->w);
    l->folded.w.data = device_memory;
    l->folded.bias = tensor_1d(device_memory + (bias - host), DTYPE_F32, co);
    return 0;
}

int resample_params(struct param_set *set, const char *prefix, int64_t ci, int64_t co, bool up, struct err *err) {
    return nn_affine_params(set, prefix, up ? (int64_t[]){ci, co, 2} : (int64_t[]){co, ci, 2}, co, err);
}

void resample_bind(struct resample *l, const struct param_set *set, const char *prefix, bool up) {
    *l = (struct resample){.w = nn_row(set, prefix, "weight"), .b = nn_row(set, prefix, "bias"), .up = up};
}

int64_t resample_channels(const struct resample *l) { return l->b->count; }

int resample_forward(struct resample *l, const struct pass *p, const struct tensor *x, const struct tensor *y) {
    l->x = *x;
    if (p->dry)
        return 0;
    struct tensor w = param_value(p->params, l->w), bias = param_value(p->params, l->b);
    struct conv1d_args down = {.x = *x, .w = w, .bias = bias, .y = *y, .stride = 2, .weight_version = p->params->version};
    struct convt1d_args up = {.x = *x, .w = w, .bias = bias, .y = *y, .weight_version = p->params->version};
    return l->up ? op_convt1d(p->stream, &up, p->err) : op_conv1d(p->stream, &down, p->err);
}

int resample_backward(struct resample *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx) {
    if (p->dry)
        return 0;
    const struct param_set *set = p->params;
    struct tensor w = param_value(set, l->w), dw = param_grad(set, l->w), dbias = param_grad(set, l->b);
    struct conv1d_backward_args down = {
        .x = l->x, .w = w, .dy = *dy, .dx = *dx, .dw = dw, .dbias = dbias, .stride = 2, .weight_version = set->version};
    struct convt1d_backward_args up = {
        .x = l->x, .w = w, .dy = *dy, .dx = *dx, .dw = dw, .dbias = dbias, .weight_version = set->version};
    return l->up ? op_convt1d_backward(p->stream, &up, p->err) : op_conv1d_backward(p->stream, &down, p->err);
}
