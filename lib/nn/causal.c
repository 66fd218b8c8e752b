#include "nn/causal.h"

#include "base/rng.h"

enum { NAME_SIZE = 40 };

/* Samples [first, first + n) of dense rows (B,T,C), as (B,n·C). */
static struct tensor span(const struct tensor *t, int64_t first, int64_t n) {
    struct tensor rows = tensor_2d(t->data, t->dtype, t->dim[0], t->dim[1] * t->dim[2]);
    return tensor_slice(&rows, first * t->dim[2], n * t->dim[2]);
}

/* ---- one convolution ---- */

static void conv_bind(struct causal_conv *l, const struct param_set *set, const struct block_names *names) {
    conv_block_bind(&l->conv, set, names);
    l->conv.pad = 0;
}

static int64_t past_of(const struct causal_conv *l) { return l->conv.k - 1; }

/* The part of a state that this convolution has; *at moves behind it. */
static struct tensor own_state(const struct causal_conv *l, const struct tensor *state, int64_t *at) {
    int64_t n = past_of(l) * l->conv.w->dim[1], first = *at;
    *at += n;
    return tensor_present(state) ? tensor_slice(state, first, n) : (struct tensor){0};
}

/* *y comes from the plan. */
static int conv_forward(struct causal_conv *l, const struct pass *p, const struct tensor *x, const struct tensor *state,
                        struct tensor *y) {
    int64_t t = x->dim[1], past = past_of(l);
    l->before = nn_tensor(p, x->dim[0], past + t, x->dim[2]);
    struct tensor earlier = span(&l->before, 0, past), now = span(&l->before, past, t), last = span(&l->before, t, past),
                  input = span(x, 0, t);
    bool carries = tensor_present(state);
    int rc = carries ? nn_eltwise(p, ELTWISE_COPY, state, NULL, &earlier) : nn_eltwise(p, ELTWISE_FILL, NULL, NULL, &earlier);
    if (rc || (rc = nn_eltwise(p, ELTWISE_COPY, &input, NULL, &now)) ||
        (carries && (rc = nn_eltwise(p, ELTWISE_COPY, &last, NULL, state))))
        return rc;
    *y = (struct tensor){0};
    return conv_block_forward(&l->conv, p, &l->before, y);
}

/* dy is overwritten; dx absent: not needed. */
static int conv_backward(struct causal_conv *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx) {
    OWNED(plan_scope_end) struct plan_scope scope = {p->plan, plan_mark(p->plan)};
    struct tensor dbefore = tensor_present(dx) ? nn_like(p, &l->before) : (struct tensor){0};
    int rc = conv_block_backward(&l->conv, p, dy, &dbefore);
    if (rc || !tensor_present(dx))
        return rc;
    int64_t past = past_of(l), t = l->before.dim[1] - past;
    struct tensor from = span(&dbefore, past, t), to = span(dx, 0, t);
    return nn_eltwise(p, ELTWISE_COPY, &from, NULL, &to);
}

/* ---- a stage ---- */

struct stage_names {
    char prefix[NAME_SIZE], conv[NAME_SIZE], bn[NAME_SIZE];
};

/* The names of convolution i: conv and bn for the first, conv2 and bn2 for the second. */
static struct block_names names_of(struct stage_names *n, int stage, int i) {
    str_format(n->prefix, sizeof n->prefix, "encoder.%d", stage);
    str_format(n->conv, sizeof n->conv, i ? "conv%d" : "conv", i + 1);
    str_format(n->bn, sizeof n->bn, i ? "bn%d" : "bn", i + 1);
    return (struct block_names){n->prefix, n->conv, n->bn};
}

static void name_down(char ret[NAME_SIZE], int stage) { str_format(ret, NAME_SIZE, "encoder.%d.down", stage); }

int causal_stage_params(struct param_set *set, int stage, const struct causal_widths *w, struct err *err) {
    char down[NAME_SIZE];
    int rc;
    for (int i = 0; i < w->n_convs; i++) {
        struct stage_names text;
        struct block_names names = names_of(&text, stage, i);
        if ((rc = conv_block_params(set, &names, i ? w->out : w->in, w->out, CAUSAL_TAPS, err)))
            return rc;
    }
    name_down(down, stage);
    return resample_params(set, down, w->out, w->out, false, err);
}

void causal_stage_bind(struct causal_stage *l, const struct param_set *set, int stage, int n_convs) {
    char down[NAME_SIZE];
    l->n_convs = n_convs;
    for (int i = 0; i < n_convs; i++) {
        struct stage_names text;
        struct block_names names = names_of(&text, stage, i);
        conv_bind(&l->convs[i], set, &names);
    }
    name_down(down, stage);
    resample_bind(&l->down, set, down, false);
}

int64_t causal_stage_state(const struct causal_widths *w) { return (CAUSAL_TAPS - 1) * (w->in + (w->n_convs - 1) * w->out); }

int causal_stage_forward(struct causal_stage *l, const struct pass *p, const struct tensor *x, const struct tensor *state,
                         struct tensor *y) {
    struct tensor h = *x, next;
    int64_t at = 0;
    int rc;
    for (int i = 0; i < l->n_convs; i++, h = next) {
        struct tensor own = own_state(&l->convs[i], state, &at);
        if ((rc = conv_forward(&l->convs[i], p, &h, &own, &next)))
            return rc;
    }
    *y = nn_tensor(p, h.dim[0], h.dim[1] / 2, resample_channels(&l->down));
    return resample_forward(&l->down, p, &h, y);
}

int causal_stage_backward(struct causal_stage *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx) {
    OWNED(plan_scope_end) struct plan_scope scope = {p->plan, plan_mark(p->plan)};
    struct tensor dh = nn_like(p, &l->convs[l->n_convs - 1].conv.y), before;
    int rc = resample_backward(&l->down, p, dy, &dh);
    for (int i = l->n_convs - 1; !rc && i > 0; i--, dh = before) {
        before = nn_like(p, &l->convs[i - 1].conv.y);
        rc = conv_backward(&l->convs[i], p, &dh, &before);
    }
    return rc ? rc : conv_backward(&l->convs[0], p, &dh, dx);
}

/* ---- a residual block ---- */

static const char *const block_conv[2] = {"conv1", "conv2"};
static const char *const block_bn[2] = {"bn1", "bn2"};

int causal_block_params(struct param_set *set, int index, int64_t d, struct err *err) {
    char prefix[NAME_SIZE];
    int rc;
    str_format(prefix, sizeof prefix, "causal.%d", index);
    for (int i = 0; i < 2; i++)
        if ((rc = conv_block_params(set, &(struct block_names){prefix, block_conv[i], block_bn[i]}, d, d, CAUSAL_BLOCK_TAPS, err)))
            return rc;
    return 0;
}

void causal_block_bind(struct causal_block *l, const struct param_set *set, int index) {
    char prefix[NAME_SIZE];
    str_format(prefix, sizeof prefix, "causal.%d", index);
    for (int i = 0; i < 2; i++)
        conv_bind(&l->convs[i], set, &(struct block_names){prefix, block_conv[i], block_bn[i]});
    l->convs[1].conv.linear = true;
    l->rng_stream = RNG_DROPOUT + (uint32_t)index;
}

int64_t causal_block_state(int64_t d) { return 2 * (CAUSAL_BLOCK_TAPS - 1) * d; }

int causal_block_forward(struct causal_block *l, const struct pass *p, const struct tensor *x, const struct tensor *state,
                         struct tensor *y) {
    struct tensor inner, added;
    int64_t at = 0;
    struct tensor first = own_state(&l->convs[0], state, &at), second = own_state(&l->convs[1], state, &at);
    *y = l->y = nn_like(p, x);
    int rc;
    if ((rc = conv_forward(&l->convs[0], p, x, &first, &inner)) || (rc = conv_forward(&l->convs[1], p, &inner, &second, &added)) ||
        (rc = nn_dropout(p, &added, l->rng_stream, true)))
        return rc;
    return nn_eltwise(p, ELTWISE_ADD_RELU, &added, x, y);
}

int causal_block_backward(struct causal_block *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx) {
    OWNED(plan_scope_end) struct plan_scope scope = {p->plan, plan_mark(p->plan)};
    struct tensor g = nn_like(p, dy), inner = nn_like(p, &l->convs[0].conv.y), part = nn_like(p, dy);
    int rc;
    if ((rc = nn_eltwise(p, ELTWISE_RELU_BACKWARD, dy, &l->y, dx)) || /* the residual path */
        (rc = nn_eltwise(p, ELTWISE_COPY, dx, NULL, &g)) || (rc = nn_dropout(p, &g, l->rng_stream, true)) ||
        (rc = conv_backward(&l->convs[1], p, &g, &inner)) || (rc = conv_backward(&l->convs[0], p, &inner, &part)))
        return rc;
    return nn_eltwise(p, ELTWISE_ADD, dx, &part, dx);
}
