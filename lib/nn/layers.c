#include "nn/layers.h"

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
                                SAME_MEMBERS(*p, step, row0, place)};
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
