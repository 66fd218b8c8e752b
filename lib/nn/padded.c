#include "nn/padded.h"

static int64_t padded_channels(int64_t n) { return (n + PADDED_PIECE - 1) / PADDED_PIECE * PADDED_PIECE; }

void padded_output(struct conv_block *l) { l->co = padded_channels(l->co); }

void padded_input(struct conv_block *l, const int64_t *channels, int groups) {
    l->groups = groups;
    l->ci = 0;
    for (int i = 0; i < groups; i++) {
        l->group[i] = channels[i];
        l->ci += padded_channels(channels[i]);
    }
}

int64_t padded_place(const struct conv_block *l, int64_t c) {
    int64_t first = 0, at = 0;
    for (int i = 0; i + 1 < l->groups && c >= first + l->group[i]; i++) {
        first += l->group[i];
        at += padded_channels(l->group[i]);
    }
    return at + c - first;
}

static int64_t weights(const struct conv_block *l) { return nn_aligned(l->co * l->ci * l->k); }

int64_t padded_count(const struct conv_block *l) { return l->co == l->w->dim[0] && l->ci == l->w->dim[1] ? 0 : 2 * weights(l); }

void padded_set(struct conv_block *l, float *device_memory) {
    if (!padded_count(l))
        return;
    l->padded_w = tensor_3d(device_memory, DTYPE_F32, l->co, l->ci, l->k);
    l->padded_dw = tensor_3d(device_memory + weights(l), DTYPE_F32, l->co, l->ci, l->k);
}

/* The real rows of weights (Co,Ci,K), a matrix. */
static struct tensor rows_of(const struct conv_block *l, const struct tensor *w) {
    return tensor_2d(w->data, DTYPE_F32, l->w->dim[0], w->dim[1] * w->dim[2]);
}

/* Between weights without zeros in between and such with them, group by group: a copy there, or a sum back. */
static int each_group(const struct conv_block *l, const struct pass *p, struct tensor plain, struct tensor padded, bool back) {
    struct tensor without = rows_of(l, &plain), with = rows_of(l, &padded);
    for (int64_t i = 0, first = 0; i < l->groups; first += l->group[i++]) {
        int64_t n = l->group[i] * l->k;
        struct tensor a = tensor_slice(&without, first * l->k, n), b = tensor_slice(&with, padded_place(l, first) * l->k, n);
        int rc = back ? nn_eltwise(p, ELTWISE_ADD, &a, &b, &a) : nn_eltwise(p, ELTWISE_COPY, &a, NULL, &b);
        if (rc)
            return rc;
    }
    return 0;
}

int padded_copy(const struct conv_block *l, const struct pass *p) {
    return each_group(l, p, param_value(p->params, l->w), l->padded_w, false);
}

int padded_gradient(const struct conv_block *l, const struct pass *p) {
    return each_group(l, p, param_grad(p->params, l->w), l->padded_dw, true);
}
