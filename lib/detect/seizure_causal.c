/* The wiring of the causal network: four stages of causal convolutions, each of which halves T, residual blocks of causal
 * convolutions and forward Mamba-2 layers over tokens of 16 samples, and one logit per token, given to each of its samples. Nothing
 * looks ahead further than the end of a token.
 *
 * A row's state, F32: those of the stages, of the residual blocks (nn/causal.h) and of the Mamba-2 layers (mamba_state_count). */
#include "detect/seizure_net.h"

static struct causal_widths widths_of(const struct seizure_config *c, int stage) {
    return (struct causal_widths){.in = stage ? c->encoder_channels[stage - 1] : c->in_channels,
                                  .out = c->encoder_channels[stage],
                                  .n_convs = seizure_stage_convs(c)};
}

static int64_t state_count(const struct seizure_config *c) {
    struct mamba_shape shape = seizure_net_mixer(c);
    int64_t n = c->mamba_layers * mamba_state_count(&shape) + c->rescnn_blocks * causal_block_state(shape.d_model);
    for (int i = 0; i < STAGES; i++) {
        struct causal_widths w = widths_of(c, i);
        n += causal_stage_state(&w);
    }
    return n;
}

static int params(struct seizure_net *net, struct err *err) {
    const struct seizure_config *c = &net->config;
    struct mamba_shape shape = seizure_net_mixer(c);
    int rc;
    for (int i = 0; i < STAGES; i++) {
        struct causal_widths w = widths_of(c, i);
        if ((rc = causal_stage_params(&net->params, i, &w, err)))
            return rc;
    }
    for (int i = 0; i < c->rescnn_blocks; i++)
        if ((rc = causal_block_params(&net->params, i, shape.d_model, err)))
            return rc;
    for (int i = 0; i < c->mamba_layers; i++)
        if ((rc = mamba_params(&net->params, i, &shape, err)))
            return rc;
    return nn_affine_params(&net->params, "head.out", (int64_t[]){1, shape.d_model, 1}, 1, err);
}

static void bind(struct seizure_net *net) {
    for (int i = 0; i < STAGES; i++)
        causal_stage_bind(&net->causal[i], &net->params, i, seizure_stage_convs(&net->config));
    for (int i = 0; i < net->config.rescnn_blocks; i++)
        causal_block_bind(&net->causal_blocks[i], &net->params, i);
    net->out_w = param_find(&net->params, "head.out.weight");
    net->out_b = param_find(&net->params, "head.out.bias");
}

static int each_block(struct seizure_net *net, int (*fn)(void *ctx, struct conv_block *block), void *ctx) {
    int rc;
    for (int i = 0; i < STAGES; i++)
        for (int k = 0; k < net->causal[i].n_convs; k++)
            if ((rc = fn(ctx, &net->causal[i].convs[k].conv)))
                return rc;
    for (int i = 0; i < net->config.rescnn_blocks; i++)
        for (int k = 0; k < 2; k++)
            if ((rc = fn(ctx, &net->causal_blocks[i].convs[k].conv)))
                return rc;
    return 0;
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
                              .w = seizure_net_matrix(param_value(set, net->out_w)),
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
                                       .w = seizure_net_matrix(param_value(set, net->out_w)),
                                       .dy = dtoken,
                                       .dx = dfeatures,
                                       .dw = seizure_net_matrix(param_grad(set, net->out_w)),
                                       .dbias = param_grad(set, net->out_b),
                                       .weight_version = set->version};
    int rc;
    if ((rc = fill_ones(p, &to.ones)) || (!p->dry && (rc = op_linear_backward(p->stream, &copies, p->err))) ||
        (!p->dry && (rc = op_linear_backward(p->stream, &out, p->err))))
        return rc;
    return dh->dtype == DTYPE_F32 ? 0 : nn_eltwise(p, ELTWISE_COPY, &dfeatures, NULL, dh);
}

/* The next n floats of a state; absent: of none. */
static struct tensor next_state(const struct tensor *state, int64_t *at, int64_t n) {
    int64_t first = *at;
    *at += n;
    return tensor_present(state) ? tensor_slice(state, first, n) : (struct tensor){0};
}

static int forward(struct seizure_net *net, const struct pass *p, const struct tensor *x, const struct tensor *state,
                   struct tensor *logits) {
    const struct seizure_config *c = &net->config;
    struct mamba_shape shape = seizure_net_mixer(c);
    struct tensor h = *x, y;
    int64_t at = 0;
    int rc;
    for (int i = 0; i < STAGES; i++, h = y) {
        struct causal_widths w = widths_of(c, i);
        struct tensor own = next_state(state, &at, causal_stage_state(&w));
        if ((rc = causal_stage_forward(&net->causal[i], p, &h, &own, &y)))
            return rc;
    }
    for (int i = 0; i < c->rescnn_blocks; i++, h = y) {
        struct tensor own = next_state(state, &at, causal_block_state(shape.d_model));
        if ((rc = causal_block_forward(&net->causal_blocks[i], p, &h, &own, &y)))
            return rc;
    }
    for (int i = 0; i < c->mamba_layers; i++, h = y) {
        net->mamba[i].state = next_state(state, &at, mamba_state_count(&shape));
        if ((rc = mamba_forward(&net->mamba[i], p, &h, &y)))
            return rc;
    }
    return head_forward(net, p, &h, logits);
}

static int backward(struct seizure_net *net, const struct pass *p, const struct tensor *dlogits) {
    const struct seizure_config *c = &net->config;
    struct tensor dh = nn_like(p, &net->features), dx, none = {0};
    int rc = head_backward(net, p, dlogits, &dh);
    for (int i = c->mamba_layers - 1; !rc && i >= 0; i--, dh = dx) {
        dx = nn_like(p, &dh);
        rc = mamba_backward(&net->mamba[i], p, &dh, &dx);
    }
    for (int i = c->rescnn_blocks - 1; !rc && i >= 0; i--, dh = dx) {
        dx = nn_like(p, &dh);
        rc = causal_block_backward(&net->causal_blocks[i], p, &dh, &dx);
    }
    for (int i = STAGES - 1; !rc && i > 0; i--, dh = dx) {
        dx = nn_tensor(p, dh.dim[0], 2 * dh.dim[1], widths_of(c, i).in);
        rc = causal_stage_backward(&net->causal[i], p, &dh, &dx);
    }
    return rc ? rc : causal_stage_backward(&net->causal[0], p, &dh, &none);
}

const struct model_ops model_causal = {
    .params = params,
    .bind = bind,
    .each_block = each_block,
    .state_count = state_count,
    .forward = forward,
    .backward = backward,
};
