/* The wiring of the causal network: four stages of causal convolutions, each of which halves T, forward Mamba-2 layers over tokens
 * of 16 samples, and one logit per token, given to each of its samples. Nothing looks ahead further than the end of a token.
 *
 * A row's state, F32: for each stage the CAUSAL_TAPS − 1 samples before the next input; for each Mamba-2 layer what
 * mamba_state_count says. A convolution reads the earlier samples and the input side by side in one array, so that it needs no
 * padding. */
#include "base/str.h"
#include "model/seizure_net.h"

enum { PAST = CAUSAL_TAPS - 1 };

static int stage_inputs(const struct seizure_config *c, int stage) {
    return stage ? c->encoder_channels[stage - 1] : c->in_channels;
}

static int64_t state_count(const struct seizure_config *c) {
    struct mamba_shape shape = seizure_net_mixer(c);
    int64_t n = c->mamba_layers * mamba_state_count(&shape);
    for (int i = 0; i < STAGES; i++)
        n += PAST * stage_inputs(c, i);
    return n;
}

static int params(struct seizure_net *net, struct err *err) {
    const struct seizure_config *c = &net->config;
    struct mamba_shape shape = seizure_net_mixer(c);
    int rc;
    for (int i = 0; i < STAGES; i++) {
        char prefix[32], down[40];
        str_format(prefix, sizeof prefix, "encoder.%d", i);
        str_format(down, sizeof down, "%s.down", prefix);
        if ((rc = conv_block_params(&net->params, &(struct block_names){prefix, "conv", "bn"}, stage_inputs(c, i),
                                    c->encoder_channels[i], CAUSAL_TAPS, err)) ||
            (rc = resample_params(&net->params, down, c->encoder_channels[i], c->encoder_channels[i], false, err)))
            return rc;
    }
    for (int i = 0; i < c->mamba_layers; i++)
        if ((rc = mamba_params(&net->params, i, &shape, err)))
            return rc;
    return nn_affine_params(&net->params, "head.out", (int64_t[]){1, shape.d_model, 1}, 1, err);
}

static void bind(struct seizure_net *net) {
    for (int i = 0; i < STAGES; i++) {
        struct causal_stage *stage = &net->causal[i];
        char prefix[32], down[40];
        str_format(prefix, sizeof prefix, "encoder.%d", i);
        str_format(down, sizeof down, "%s.down", prefix);
        conv_block_bind(&stage->conv, &net->params, &(struct block_names){prefix, "conv", "bn"});
        stage->conv.pad = 0;
        resample_bind(&stage->down, &net->params, down, false);
    }
    net->out_w = param_find(&net->params, "head.out.weight");
    net->out_b = param_find(&net->params, "head.out.bias");
}

static int each_block(struct seizure_net *net, int (*fn)(void *ctx, struct conv_block *block), void *ctx) {
    int rc;
    for (int i = 0; i < STAGES; i++)
        if ((rc = fn(ctx, &net->causal[i].conv)))
            return rc;
    return 0;
}

/* Samples [first, first + n) of dense rows (B,T,C), as (B,n·C). */
static struct tensor span(const struct tensor *t, int64_t first, int64_t n) {
    struct tensor rows = tensor_2d(t->data, t->dtype, t->dim[0], t->dim[1] * t->dim[2]);
    return tensor_slice(&rows, first * t->dim[2], n * t->dim[2]);
}

/* state: the stage's slice, or absent. */
static int stage_forward(struct causal_stage *l, const struct pass *p, const struct tensor *x, const struct tensor *state,
                         struct tensor *ret) {
    int64_t b = x->dim[0], t = x->dim[1];
    l->before = nn_tensor(p, b, PAST + t, x->dim[2]);
    struct tensor past = span(&l->before, 0, PAST), now = span(&l->before, PAST, t), last = span(&l->before, t, PAST),
                  input = span(x, 0, t), y = {0};
    bool carries = tensor_present(state);
    int rc = carries ? nn_eltwise(p, ELTWISE_COPY, state, NULL, &past) : nn_eltwise(p, ELTWISE_FILL, NULL, NULL, &past);
    if (rc || (rc = nn_eltwise(p, ELTWISE_COPY, &input, NULL, &now)) ||
        (carries && (rc = nn_eltwise(p, ELTWISE_COPY, &last, NULL, state))) ||
        (rc = conv_block_forward(&l->conv, p, &l->before, &y)))
        return rc;
    *ret = nn_tensor(p, b, t / 2, resample_channels(&l->down));
    return resample_forward(&l->down, p, &y, ret);
}

/* dx absent: not needed. */
static int stage_backward(struct causal_stage *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx) {
    int64_t t = l->before.dim[1] - PAST;
    struct tensor dconv = nn_like(p, &l->conv.y), dbefore = {0};
    int rc = resample_backward(&l->down, p, dy, &dconv);
    if (tensor_present(dx))
        dbefore = nn_like(p, &l->before);
    if (rc || (rc = conv_block_backward(&l->conv, p, &dconv, &dbefore)) || !tensor_present(dx))
        return rc;
    struct tensor from = span(&dbefore, PAST, t), to = span(dx, 0, t);
    return nn_eltwise(p, ELTWISE_COPY, &from, NULL, &to);
}

static struct tensor matrix(struct tensor w) { /* (1,D,1) → (1,D) */
    w.rank = 2;
    w.ld = w.dim[1];
    return w;
}

/* One logit per token as a column, the logits with a row for each token, and ones, whose product they are. */
struct spread {
    struct tensor token, samples, ones;
};

static struct spread spread_of(const struct pass *p, const struct tensor *token, const struct tensor *logits) {
    int64_t rows = token->dim[0] * token->dim[1];
    struct tensor ones = plan_tensor(p->plan, DTYPE_F32, 1, TOKEN, 1);
    return (struct spread){.token = tensor_3d(token->data, DTYPE_F32, 1, rows, 1),
                           .samples = tensor_3d(logits->data, DTYPE_F32, 1, rows, TOKEN),
                           .ones = tensor_2d(ones.data, DTYPE_F32, TOKEN, 1)};
}

static int fill_ones(const struct pass *p, const struct tensor *ones) {
    struct eltwise_args fill = {.kind = ELTWISE_FILL, .y = *ones, .alpha = 1};
    return p->dry ? 0 : op_eltwise(p->stream, &fill, p->err);
}

/* Always F32, whatever the precision of the net. */
static int head_forward(struct seizure_net *net, const struct pass *p, const struct tensor *h, struct tensor *logits) {
    const struct param_set *set = p->params;
    int rc = seizure_net_convert(p, h, DTYPE_F32, &net->features);
    net->projected = plan_tensor(p->plan, DTYPE_F32, h->dim[0], h->dim[1], 1);
    struct spread to = spread_of(p, &net->projected, logits);
    struct linear_args out = {.x = net->features,
                              .w = matrix(param_value(set, net->out_w)),
                              .bias = param_value(set, net->out_b),
                              .y = net->projected,
                              .weight_version = set->version};
    struct linear_args copies = {.x = to.token, .w = to.ones, .y = to.samples};
    if (rc)
        return rc;
    if ((rc = fill_ones(p, &to.ones)) || (!p->dry && (rc = op_linear(p->stream, &out, p->err))))
        return rc;
    return p->dry ? 0 : op_linear(p->stream, &copies, p->err);
}

static int head_backward(struct seizure_net *net, const struct pass *p, const struct tensor *dlogits, const struct tensor *dh) {
    const struct param_set *set = p->params;
    struct tensor dtoken = plan_tensor(p->plan, DTYPE_F32, net->projected.dim[0], net->projected.dim[1], 1), dfeatures = *dh;
    struct spread to = spread_of(p, &dtoken, dlogits), from = spread_of(p, &net->projected, dlogits);
    if (dh->dtype != DTYPE_F32)
        dfeatures = plan_tensor(p->plan, DTYPE_F32, dh->dim[0], dh->dim[1], dh->dim[2]);
    struct linear_backward_args copies = {.x = from.token, .w = to.ones, .dy = to.samples, .dx = to.token};
    struct linear_backward_args out = {.x = net->features,
                                       .w = matrix(param_value(set, net->out_w)),
                                       .dy = dtoken,
                                       .dx = dfeatures,
                                       .dw = matrix(param_grad(set, net->out_w)),
                                       .dbias = param_grad(set, net->out_b),
                                       .weight_version = set->version};
    int rc;
    if ((rc = fill_ones(p, &to.ones)) || (!p->dry && (rc = op_linear_backward(p->stream, &copies, p->err))) ||
        (!p->dry && (rc = op_linear_backward(p->stream, &out, p->err))))
        return rc;
    return dh->dtype == DTYPE_F32 ? 0 : nn_eltwise(p, ELTWISE_COPY, &dfeatures, NULL, dh);
}

static int forward(struct seizure_net *net, const struct pass *p, const struct tensor *x, const struct tensor *state,
                   struct tensor *logits) {
    const struct seizure_config *c = &net->config;
    struct mamba_shape shape = seizure_net_mixer(c);
    struct tensor h = *x, y, none = {0};
    bool carries = tensor_present(state);
    int64_t at = 0;
    int rc;
    for (int i = 0; i < STAGES; i++, h = y) {
        int64_t n = PAST * stage_inputs(c, i);
        struct tensor own = carries ? tensor_slice(state, at, n) : none;
        at += n;
        if ((rc = stage_forward(&net->causal[i], p, &h, &own, &y)))
            return rc;
    }
    for (int i = 0; i < c->mamba_layers; i++, h = y) {
        int64_t n = mamba_state_count(&shape);
        net->mamba[i].state = carries ? tensor_slice(state, at, n) : none;
        at += n;
        if ((rc = mamba_forward(&net->mamba[i], p, &h, &y)))
            return rc;
    }
    return head_forward(net, p, &h, logits);
}

static int backward(struct seizure_net *net, const struct pass *p, const struct tensor *dlogits) {
    struct tensor dh = nn_like(p, &net->features), dx, none = {0};
    int rc = head_backward(net, p, dlogits, &dh);
    if (rc)
        return rc;
    for (int i = net->config.mamba_layers - 1; i >= 0; i--, dh = dx) {
        dx = nn_like(p, &dh);
        if ((rc = mamba_backward(&net->mamba[i], p, &dh, &dx)))
            return rc;
    }
    for (int i = STAGES - 1; i > 0; i--, dh = dx) {
        dx = nn_tensor(p, dh.dim[0], 2 * dh.dim[1], stage_inputs(&net->config, i));
        if ((rc = stage_backward(&net->causal[i], p, &dh, &dx)))
            return rc;
    }
    return stage_backward(&net->causal[0], p, &dh, &none);
}

const struct model_ops model_causal = {
    .params = params,
    .bind = bind,
    .each_block = each_block,
    .state_count = state_count,
    .forward = forward,
    .backward = backward,
};
