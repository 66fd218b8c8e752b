/* The wiring of the U-Net: forward and backward over its blocks, and its row of struct model_ops. */
#include "detect/seizure_net.h"

/* Always F32, whatever the precision of the net. */
static int head_forward(struct seizure_net *net, const struct pass *p, const struct tensor *h, struct tensor *logits) {
    const struct param_set *set = p->params;
    struct tensor column = seizure_net_column(logits);
    int rc = seizure_net_convert(p, h, DTYPE_F32, &net->features);
    if (rc)
        return rc;
    if (!p->training) {
        struct linear_args folded = {
            .x = net->features, .w = net->head.w, .bias = net->head.bias, .y = column, .weight_version = set->version};
        return p->dry ? 0 : op_linear(p->stream, &folded, p->err);
    }
    net->projected = plan_tensor(p->plan, DTYPE_F32, h->dim[0], h->dim[1], HEAD_CHANNELS);
    struct linear_args proj = {.x = net->features,
                               .w = seizure_net_matrix(param_value(set, net->proj_w)),
                               .bias = param_value(set, net->proj_b),
                               .y = net->projected,
                               .weight_version = set->version};
    struct linear_args out = {.x = net->projected,
                              .w = seizure_net_matrix(param_value(set, net->out_w)),
                              .bias = param_value(set, net->out_b),
                              .y = column,
                              .weight_version = set->version};
    if (p->dry)
        return 0;
    rc = op_linear(p->stream, &proj, p->err);
    return rc ? rc : op_linear(p->stream, &out, p->err);
}

static int forward(struct seizure_net *net, const struct pass *p, const struct tensor *x, const struct tensor *state,
                   struct tensor *logits) {
    struct tensor h = {0}, y, input;
    (void)state;
    int rc;
    if ((rc = seizure_net_convert(p, x, p->dtype, &input)) || (rc = conv_block_forward(&net->stem, p, &input, &h)))
        return rc;
    for (int i = 0; i < STAGES; i++, h = y)
        if ((rc = encoder_forward(&net->encoder[i], p, &h, &y)))
            return rc;
    for (int i = 0; i < net->config.rescnn_blocks; i++, h = y)
        if ((rc = rescnn_forward(&net->rescnn[i], p, &h, &y)))
            return rc;
    for (int i = 0; i < net->config.mamba_layers; i++, h = y)
        if ((rc = mamba_forward(&net->mamba[i], p, &h, &y)))
            return rc;
    for (int i = 0; i < STAGES; i++, h = y)
        if ((rc = decoder_forward(&net->decoder[i], p, &h, &net->encoder[STAGES - 1 - i].skip, &y)))
            return rc;
    return head_forward(net, p, &h, logits);
}

static int head_backward(struct seizure_net *net, const struct pass *p, const struct tensor *dlogits, const struct tensor *dh) {
    const struct param_set *set = p->params;
    size_t mark = plan_mark(p->plan);
    struct tensor column = seizure_net_column(dlogits), *projected = &net->projected, *features = &net->features, dfeatures = *dh;
    struct tensor dproj = plan_tensor(p->plan, DTYPE_F32, projected->dim[0], projected->dim[1], HEAD_CHANNELS);
    if (dh->dtype != DTYPE_F32)
        dfeatures = plan_tensor(p->plan, DTYPE_F32, features->dim[0], features->dim[1], features->dim[2]);
    plan_release(p->plan, mark);
    if (p->dry)
        return 0;
    struct linear_backward_args out = {.x = *projected,
                                       .w = seizure_net_matrix(param_value(set, net->out_w)),
                                       .dy = column,
                                       .dx = dproj,
                                       .dw = seizure_net_matrix(param_grad(set, net->out_w)),
                                       .dbias = param_grad(set, net->out_b),
                                       .weight_version = set->version};
    struct linear_backward_args proj = {.x = *features,
                                        .w = seizure_net_matrix(param_value(set, net->proj_w)),
                                        .dy = dproj,
                                        .dx = dfeatures,
                                        .dw = seizure_net_matrix(param_grad(set, net->proj_w)),
                                        .dbias = param_grad(set, net->proj_b),
                                        .weight_version = set->version};
    int rc;
    if ((rc = op_linear_backward(p->stream, &out, p->err)) || (rc = op_linear_backward(p->stream, &proj, p->err)))
        return rc;
    return dh->dtype == DTYPE_F32 ? 0 : nn_eltwise(p, ELTWISE_COPY, &dfeatures, NULL, dh);
}

static int backward(struct seizure_net *net, const struct pass *p, const struct tensor *dlogits) {
    struct tensor dskip[STAGES], dh, dx, none = {0};
    for (int i = 0; i < STAGES; i++)
        dskip[i] = nn_like(p, &net->encoder[i].skip);
    dh = nn_like(p, &net->features);
    int rc = head_backward(net, p, dlogits, &dh);
    if (rc)
        return rc;
    for (int i = STAGES - 1; i >= 0; i--, dh = dx) {
        dx = nn_like(p, &net->decoder[i].x);
        if ((rc = decoder_backward(&net->decoder[i], p, &dh, &dx, &dskip[STAGES - 1 - i])))
            return rc;
    }
    for (int i = net->config.mamba_layers - 1; i >= 0; i--, dh = dx) {
        dx = nn_like(p, &dh);
        if ((rc = mamba_backward(&net->mamba[i], p, &dh, &dx)))
            return rc;
    }
    for (int i = net->config.rescnn_blocks - 1; i >= 0; i--, dh = dx) {
        dx = nn_like(p, &dh);
        if ((rc = rescnn_backward(&net->rescnn[i], p, &dh, &dx)))
            return rc;
    }
    for (int i = STAGES - 1; i >= 0; i--, dh = dx) {
        dx = nn_like(p, &net->encoder[i].conv[0].x);
        if ((rc = encoder_backward(&net->encoder[i], p, &dh, &dskip[i], &dx)))
            return rc;
    }
    return conv_block_backward(&net->stem, p, &dh, &none);
}

static int encoder_in(const struct seizure_config *c, int stage) { return c->encoder_channels[stage ? stage - 1 : 0]; }
static int decoder_out(const struct seizure_config *c, int stage) { return c->encoder_channels[stage < 3 ? 2 - stage : 0]; }

static int params(struct seizure_net *net, struct err *err) {
    const struct seizure_config *c = &net->config;
    struct mamba_shape shape = seizure_net_mixer(c);
    int rc = conv_block_params(&net->params, &(struct block_names){"encoder.stem", "conv", "bn"}, c->in_channels,
                               c->encoder_channels[0], STEM_TAPS, err);
    if (rc)
        return rc;
    for (int i = 0; i < STAGES; i++)
        if ((rc = encoder_params(&net->params, i, encoder_in(c, i), c->encoder_channels[i], err)))
            return rc;
    for (int i = 0; i < c->rescnn_blocks; i++)
        if ((rc = rescnn_params(&net->params, i, c->encoder_channels[3], err)))
            return rc;
    for (int i = 0; i < c->mamba_layers; i++)
        if ((rc = mamba_params(&net->params, i, &shape, err)))
            return rc;
    for (int i = 0; i < STAGES; i++) {
        struct decoder_widths w = {
            .in = i ? decoder_out(c, i - 1) : c->encoder_channels[3], .skip = c->encoder_channels[3 - i], .out = decoder_out(c, i)};
        if ((rc = decoder_params(&net->params, i, &w, err)))
            return rc;
    }
    if ((rc = nn_affine_params(&net->params, "head.proj", (int64_t[]){HEAD_CHANNELS, c->encoder_channels[0], 1}, HEAD_CHANNELS,
                               err)))
        return rc;
    return nn_affine_params(&net->params, "head.out", (int64_t[]){1, HEAD_CHANNELS, 1}, 1, err);
}

static void bind(struct seizure_net *net) {
    const struct seizure_config *c = &net->config;
    struct param_set *set = &net->params;
    conv_block_bind(&net->stem, set, &(struct block_names){"encoder.stem", "conv", "bn"});
    for (int i = 0; i < STAGES; i++) {
        encoder_bind(&net->encoder[i], set, i);
        decoder_bind(&net->decoder[i], set, i);
    }
    for (int i = 0; i < c->rescnn_blocks; i++)
        rescnn_bind(&net->rescnn[i], set, i, net->gpu_form);
    net->proj_w = param_find(set, "head.proj.weight");
    net->proj_b = param_find(set, "head.proj.bias");
    net->out_w = param_find(set, "head.out.weight");
    net->out_b = param_find(set, "head.out.bias");
}

/* Run fn over every ConvBlock until one fails. */
static int each_block(struct seizure_net *net, int (*fn)(void *ctx, struct conv_block *block), void *ctx) {
    int rc = fn(ctx, &net->stem);
    if (rc)
        return rc;
    for (int i = 0; i < STAGES; i++)
        for (int k = 0; k < 2; k++)
            if ((rc = fn(ctx, &net->encoder[i].conv[k])) || (rc = fn(ctx, &net->decoder[i].conv[k])))
                return rc;
    for (int i = 0; i < net->config.rescnn_blocks; i++) {
        for (int k = 0; k < RESCNN_BRANCHES; k++)
            if ((rc = fn(ctx, &net->rescnn[i].branch[k])))
                return rc;
        if ((rc = fn(ctx, &net->rescnn[i].fuse)))
            return rc;
    }
    return 0;
}

const struct model_ops model_unet = {
    .params = params,
    .bind = bind,
    .each_block = each_block,
    .forward = forward,
    .backward = backward,
};
