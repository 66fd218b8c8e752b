/* ConvBlock of layers.h. */

#include "nn/padded.h"

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
    l->co = l->w->dim[0];
    l->ci = l->group[0] = l->w->dim[1];
    l->groups = 1;
}

/* A value for each output channel. Those of zeros have zeros: what lies behind a tensor of the table, up to a multiple of
 * PARAM_ALIGN. */
static struct tensor of_outputs(struct tensor t, const struct conv_block *l) {
    t.dim[0] = t.ld = l->co;
    return t;
}

static int forward_folded(struct conv_block *l, const struct pass *p, const struct tensor *x, const struct tensor *y) {
    struct conv1d_args conv = {.x = *x,
                               SAME_MEMBERS(l->folded, w, bias),
                               .y = *y,
                               .stride = 1,
                               .pad = l->pad,
                               .relu = !l->linear,
                               .weight_version = p->params->version};
    return p->dry ? 0 : op_conv1d(p->stream, &conv, p->err);
}

/* Where the leaf's statistic for this buffer goes; absent outside of such a pass. */
static struct tensor leaf_statistic(const struct pass *p, const struct param *buffer, int64_t n) {
    return p->leaf_statistics ? tensor_1d(p->leaf_statistics + buffer->offset, DTYPE_F32, n) : (struct tensor){0};
}

int conv_block_forward(struct conv_block *l, const struct pass *p, const struct tensor *x, struct tensor *y) {
    const struct param_set *set = p->params;
    int64_t co = l->co, t = x->dim[1] + 2 * l->pad - l->k + 1;
    bool padded = tensor_present(&l->padded_w);
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
                               .w = padded ? l->padded_w : param_value(set, l->w),
                               .bias = of_outputs(param_value(set, l->b), l),
                               .y = l->u,
                               .stride = 1,
                               .pad = l->pad,
                               .weight_version = set->version};
    struct batchnorm_args bn = {
        .x = l->u,
        .weight = of_outputs(param_value(set, l->bn_w), l),
        .bias = of_outputs(param_value(set, l->bn_b), l),
        .y = *y,
        .save_mean = l->mean,
        .save_rstd = l->rstd,
        .running_mean = of_outputs(param_value(set, l->bn_mean), l),
        .running_var = of_outputs(param_value(set, l->bn_var), l),
        .leaf_mean = leaf_statistic(p, l->bn_mean, co),
        .leaf_var = leaf_statistic(p, l->bn_var, co),
        .eps = NN_EPS,
        .momentum = NN_MOMENTUM,
        .relu = !l->linear,
    };
    int rc = padded && !(set->version & WEIGHTS_UNCHANGED) ? padded_copy(l, p) : 0;
    if (rc || (rc = op_conv1d(p->stream, &conv, p->err)))
        return rc;
    return op_batchnorm(p->stream, &bn, p->err);
}

int conv_block_backward(struct conv_block *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx) {
    if (p->dry)
        return 0;
    const struct param_set *set = p->params;
    bool padded = tensor_present(&l->padded_w);
    struct batchnorm_backward_args bn = {
        .x = l->u,
        .y = l->y,
        .weight = of_outputs(param_value(set, l->bn_w), l),
        .save_mean = l->mean,
        .save_rstd = l->rstd,
        .dy = *dy,
        .dx = *dy,
        .dweight = of_outputs(param_grad(set, l->bn_w), l),
        .dbias = of_outputs(param_grad(set, l->bn_b), l),
        .relu = !l->linear,
    };
    struct conv1d_backward_args conv = {.x = l->x,
                                        .w = padded ? l->padded_w : param_value(set, l->w),
                                        .dy = *dy,
                                        .dx = *dx,
                                        /* no dbias: the norm takes every bias away */
                                        .dw = padded ? l->padded_dw : param_grad(set, l->w),
                                        .stride = 1,
                                        .pad = l->pad,
                                        .weight_version = set->version};
    int rc = op_batchnorm_backward(p->stream, &bn, p->err);
    if (rc || (padded && (rc = nn_eltwise(p, ELTWISE_FILL, NULL, NULL, &l->padded_dw))) ||
        (rc = op_conv1d_backward(p->stream, &conv, p->err)))
        return rc;
    return padded ? padded_gradient(l, p) : 0;
}

int64_t conv_block_folded_count(const struct conv_block *l) { return nn_aligned(l->co * l->ci * l->k) + nn_aligned(l->co); }

static int fetch(const struct param_set *set, const struct param *p, struct stream *s, float *host, struct err *err) {
    struct tensor t = param_value(set, p);
    return stream_to_host(s, host, t.data, (size_t)p->count * sizeof *host, err);
}

int conv_block_fold(struct conv_block *l, const struct param_set *set, struct stream *s, float *device_memory, struct err *err) {
    int64_t co = l->w->dim[0], ci = l->w->dim[1], n = conv_block_folded_count(l);
    OWNED_MEMORY float *host = calloc((size_t)(n + 4 * co + l->w->count), sizeof *host);
    if (!host)
        return err_set(err, ERR_EXHAUSTED, "out of memory folding batch norm");
    float *bias = host + (n - nn_aligned(l->co)), *gamma = host + n, *beta = gamma + co, *mean = beta + co, *var = mean + co;
    float *w = var + co;
    int rc;
    if ((rc = fetch(set, l->w, s, w, err)) || (rc = fetch(set, l->b, s, bias, err)) || (rc = fetch(set, l->bn_w, s, gamma, err)) ||
        (rc = fetch(set, l->bn_b, s, beta, err)) || (rc = fetch(set, l->bn_mean, s, mean, err)) ||
        (rc = fetch(set, l->bn_var, s, var, err)) || (rc = stream_sync(s, err)))
        return rc;
    for (int64_t o = 0; o < co; o++) {
        double scale = (double)gamma[o] / sqrt((double)var[o] + (double)NN_EPS);
        for (int64_t c = 0; c < ci; c++)
            for (int64_t i = 0, from = (o * ci + c) * l->k, to = (o * l->ci + padded_place(l, c)) * l->k; i < l->k; i++)
                host[to + i] = (float)((double)w[from + i] * scale);
        bias[o] = (float)(((double)bias[o] - (double)mean[o]) * scale + (double)beta[o]);
    }
    if ((rc = stream_to_device(s, device_memory, host, (size_t)n * sizeof *host, err)) || (rc = stream_sync(s, err)))
        return rc;
    l->folded.w = tensor_3d(device_memory, DTYPE_F32, l->co, l->ci, l->k);
    l->folded.bias = tensor_1d(device_memory + (bias - host), DTYPE_F32, l->co);
    return 0;
}
