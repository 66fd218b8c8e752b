#include "nn/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"

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

struct tensor nn_like(const struct pass *p, const struct tensor *t) {
    return plan_tensor(p->plan, t->dim[0], t->dim[1], t->dim[2]);
}

int conv_block_params(struct param_set *set, const struct block_names *n, int64_t ci, int64_t co, int k, struct err *err) {
    struct param_spec weight = {PARAM_WEIGHT, 3, {co, ci, k}}, plain = {PARAM_PLAIN, 1, {co}}, buffer = {PARAM_BUFFER, 1, {co}};
    int rc = param_add(set, &weight, err, "%s.%s.weight", n->prefix, n->conv);
    if (!rc)
        rc = param_add(set, &plain, err, "%s.%s.bias", n->prefix, n->conv);
    if (!rc)
        rc = param_add(set, &plain, err, "%s.%s.weight", n->prefix, n->bn);
    if (!rc)
        rc = param_add(set, &plain, err, "%s.%s.bias", n->prefix, n->bn);
    if (!rc)
        rc = param_add(set, &buffer, err, "%s.%s.running_mean", n->prefix, n->bn);
    if (!rc)
        rc = param_add(set, &buffer, err, "%s.%s.running_var", n->prefix, n->bn);
    return rc;
}

static const struct param *named(const struct param_set *set, const struct block_names *n, const char *part, const char *leaf) {
    char name[PARAM_NAME_MAX];
    str_format(name, sizeof name, "%s.%s.%s", n->prefix, part, leaf);
    return param_find(set, name);
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
}

static int forward_folded(struct conv_block *l, const struct pass *p, const struct tensor *x, const struct tensor *y) {
    struct conv1d_args conv = {.x = *x,
                               .w = l->folded.w,
                               .bias = l->folded.bias,
                               .y = *y,
                               .stride = 1,
                               .pad = l->k / 2,
                               .relu = !l->linear,
                               .weight_version = p->params->version};
    return p->dry ? 0 : op_conv1d(p->stream, &conv, p->err);
}

int conv_block_forward(struct conv_block *l, const struct pass *p, const struct tensor *x, struct tensor *y) {
    const struct param_set *set = p->params;
    int64_t co = l->w->dim[0];
    if (!tensor_present(y))
        *y = plan_tensor(p->plan, x->dim[0], x->dim[1], co);
    if (!p->training)
        return forward_folded(l, p, x, y);
    l->x = *x;
    l->y = *y;
    l->u = plan_tensor(p->plan, x->dim[0], x->dim[1], co);
    l->mean = plan_tensor(p->plan, 1, 1, co);
    l->rstd = plan_tensor(p->plan, 1, 1, co);
    if (p->dry)
        return 0;
    struct conv1d_args conv = {.x = *x,
                               .w = param_value(set, l->w),
                               .bias = param_value(set, l->b),
                               .y = l->u,
                               .stride = 1,
                               .pad = l->k / 2,
                               .weight_version = set->version};
    struct batchnorm_args bn = {
        .x = l->u,
        .weight = param_value(set, l->bn_w),
        .bias = param_value(set, l->bn_b),
        .y = *y,
        .save_mean = tensor_1d(l->mean.data, DTYPE_F32, co),
        .save_rstd = tensor_1d(l->rstd.data, DTYPE_F32, co),
        .running_mean = param_value(set, l->bn_mean),
        .running_var = param_value(set, l->bn_var),
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
    int64_t co = l->w->dim[0];
    struct batchnorm_backward_args bn = {
        .x = l->u,
        .y = l->y,
        .weight = param_value(set, l->bn_w),
        .save_mean = tensor_1d(l->mean.data, DTYPE_F32, co),
        .save_rstd = tensor_1d(l->rstd.data, DTYPE_F32, co),
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
                                        .dw = param_grad(set, l->w),
                                        .dbias = param_grad(set, l->b),
                                        .stride = 1,
                                        .pad = l->k / 2};
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
    float *host = calloc((size_t)(n + 4 * co), sizeof *host);
    if (!host)
        return err_set(err, ERR_EXHAUSTED, "out of memory folding batch norm");
    float *bias = host + (n - (co + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN);
    float *gamma = host + n, *beta = gamma + co, *mean = beta + co, *var = mean + co;
    int rc = fetch(set, l->w, s, host, err);
    if (!rc)
        rc = fetch(set, l->b, s, bias, err);
    if (!rc)
        rc = fetch(set, l->bn_w, s, gamma, err);
    if (!rc)
        rc = fetch(set, l->bn_b, s, beta, err);
    if (!rc)
        rc = fetch(set, l->bn_mean, s, mean, err);
    if (!rc)
        rc = fetch(set, l->bn_var, s, var, err);
    if (!rc)
        rc = stream_sync(s, err);
    for (int64_t o = 0; !rc && o < co; o++) {
        double scale = (double)gamma[o] / sqrt((double)var[o] + (double)NN_EPS);
        for (int64_t i = 0; i < per; i++)
            host[o * per + i] = (float)((double)host[o * per + i] * scale);
        bias[o] = (float)(((double)bias[o] - (double)mean[o]) * scale + (double)beta[o]);
    }
    if (!rc)
        rc = stream_to_device(s, device_memory, host, (size_t)n * sizeof *host, err);
    if (!rc)
        rc = stream_sync(s, err);
    l->folded.w = param_value(set, l->w);
    l->folded.w.data = device_memory;
    l->folded.bias = tensor_1d(device_memory + (bias - host), DTYPE_F32, co);
    free(host);
    return rc;
}

static const int branch_taps[3] = {3, 5, 7};

static void rescnn_names(struct block_names *n, char prefix[32], int index) {
    str_format(prefix, 32, "rescnn.%d", index);
    *n = (struct block_names){prefix, NULL, NULL};
}

static const char *const branch_conv[3] = {"branch3.conv", "branch5.conv", "branch7.conv"};
static const char *const branch_bn[3] = {"branch3.bn", "branch5.bn", "branch7.bn"};

int rescnn_params(struct param_set *set, int index, int64_t d, struct err *err) {
    char prefix[32];
    struct block_names n;
    rescnn_names(&n, prefix, index);
    int rc = 0;
    for (int i = 0; !rc && i < 3; i++) {
        n.conv = branch_conv[i];
        n.bn = branch_bn[i];
        rc = conv_block_params(set, &n, d, i < 2 ? d / 3 : d - 2 * (d / 3), branch_taps[i], err);
    }
    n.conv = "fuse.conv";
    n.bn = "fuse.bn";
    return rc ? rc : conv_block_params(set, &n, d, d, 1, err);
}

void rescnn_bind(struct rescnn *l, const struct param_set *set, int index) {
    char prefix[32];
    struct block_names n;
    rescnn_names(&n, prefix, index);
    for (int i = 0; i < 3; i++) {
        n.conv = branch_conv[i];
        n.bn = branch_bn[i];
        conv_block_bind(&l->branch[i], set, &n);
    }
    n.conv = "fuse.conv";
    n.bn = "fuse.bn";
    conv_block_bind(&l->fuse, set, &n);
    l->fuse.linear = true;
    l->rng_stream = RNG_DROPOUT + (uint32_t)index;
}

static int drop_channels(const struct rescnn *l, const struct pass *p, const struct tensor *t) {
    struct dropout_args drop = {.x = *t,
                                .y = *t,
                                .p = p->dropout,
                                .per_channel = true,
                                .seed = p->seed,
                                .rng_stream = l->rng_stream,
                                .step = p->step,
                                .row0 = p->row0};
    return p->dry || p->dropout == 0 ? 0 : op_dropout(p->stream, &drop, p->err);
}

int rescnn_forward(struct rescnn *l, const struct pass *p, const struct tensor *x, struct tensor *y) {
    *y = nn_like(p, x);
    size_t mark = plan_mark(p->plan);
    struct tensor cat = nn_like(p, x), fused = nn_like(p, x);
    int64_t first = 0;
    int rc = 0;
    for (int i = 0; !rc && i < 3; i++) {
        struct tensor slice = tensor_slice(&cat, first, l->branch[i].w->dim[0]);
        first += slice.dim[2];
        rc = conv_block_forward(&l->branch[i], p, x, &slice);
    }
    if (!rc)
        rc = conv_block_forward(&l->fuse, p, &cat, &fused);
    if (!rc && p->training)
        rc = drop_channels(l, p, &fused);
    if (!rc)
        rc = nn_eltwise(p, ELTWISE_ADD_RELU, &fused, x, y);
    l->x = *x;
    l->y = *y;
    if (!p->training)
        plan_release(p->plan, mark);
    return rc;
}

int rescnn_backward(struct rescnn *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx) {
    size_t mark = plan_mark(p->plan);
    struct tensor g = nn_like(p, dy), dcat = nn_like(p, dy), part = nn_like(p, dy);
    int rc = nn_eltwise(p, ELTWISE_RELU_BACKWARD, dy, &l->y, dx); /* the residual path */
    if (!rc)
        rc = nn_eltwise(p, ELTWISE_COPY, dx, NULL, &g);
    if (!rc)
        rc = drop_channels(l, p, &g);
    if (!rc)
        rc = conv_block_backward(&l->fuse, p, &g, &dcat);
    int64_t first = 0;
    for (int i = 0; !rc && i < 3; i++) {
        struct tensor slice = tensor_slice(&dcat, first, l->branch[i].w->dim[0]);
        first += slice.dim[2];
        rc = conv_block_backward(&l->branch[i], p, &slice, &part);
        if (!rc)
            rc = nn_eltwise(p, ELTWISE_ADD, dx, &part, dx);
    }
    plan_release(p->plan, mark);
    return rc;
}
