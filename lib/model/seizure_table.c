/* The parameter table of the network, in checkpoint order, and the folded inference weights. */
#include <stdlib.h>

#include "model/seizure_net.h"

static int encoder_in(const struct seizure_config *c, int stage) { return c->encoder_channels[stage ? stage - 1 : 0]; }
static int decoder_out(const struct seizure_config *c, int stage) { return c->encoder_channels[stage < 3 ? 2 - stage : 0]; }

static struct mamba_shape mixer_shape(const struct seizure_config *c) {
    return (struct mamba_shape){.d_model = c->encoder_channels[3],
                                .d_state = c->d_state,
                                .d_conv = c->d_conv,
                                .expand = c->expand,
                                .headdim = c->headdim,
                                .ngroups = c->ngroups,
                                .mixer = c->mixer == SEIZURE_MIXER_CONV ? MAMBA_MIXER_CONV : MAMBA_MIXER_SSD};
}

int seizure_net_params(struct seizure_net *net, struct err *err) {
    const struct seizure_config *c = &net->config;
    struct mamba_shape shape = mixer_shape(c);
    int rc = conv_block_params(&net->params, &(struct block_names){"encoder.stem", "conv", "bn"}, c->in_channels,
                               c->encoder_channels[0], STEM_TAPS, err);
    for (int i = 0; !rc && i < STAGES; i++)
        rc = encoder_params(&net->params, i, encoder_in(c, i), c->encoder_channels[i], err);
    for (int i = 0; !rc && i < c->rescnn_blocks; i++)
        rc = rescnn_params(&net->params, i, c->encoder_channels[3], err);
    for (int i = 0; !rc && i < c->mamba_layers; i++)
        rc = mamba_params(&net->params, i, &shape, err);
    for (int i = 0; !rc && i < STAGES; i++) {
        struct decoder_widths w = {
            .in = i ? decoder_out(c, i - 1) : c->encoder_channels[3], .skip = c->encoder_channels[3 - i], .out = decoder_out(c, i)};
        rc = decoder_params(&net->params, i, &w, err);
    }
    if (!rc)
        rc = nn_affine_params(&net->params, "head.proj", (int64_t[]){HEAD_CHANNELS, c->encoder_channels[0], 1}, HEAD_CHANNELS, err);
    return rc ? rc : nn_affine_params(&net->params, "head.out", (int64_t[]){1, HEAD_CHANNELS, 1}, 1, err);
}

int seizure_net_bind(struct seizure_net *net, struct err *err) {
    const struct seizure_config *c = &net->config;
    struct param_set *set = &net->params;
    struct mamba_shape shape = mixer_shape(c);
    net->rescnn = calloc((size_t)c->rescnn_blocks + 1, sizeof *net->rescnn);
    net->mamba = calloc((size_t)c->mamba_layers + 1, sizeof *net->mamba);
    if (!net->rescnn || !net->mamba)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the network's layers");
    conv_block_bind(&net->stem, set, &(struct block_names){"encoder.stem", "conv", "bn"});
    for (int i = 0; i < STAGES; i++) {
        encoder_bind(&net->encoder[i], set, i);
        decoder_bind(&net->decoder[i], set, i);
    }
    for (int i = 0; i < c->rescnn_blocks; i++)
        rescnn_bind(&net->rescnn[i], set, i);
    for (int i = 0; i < c->mamba_layers; i++)
        mamba_bind(&net->mamba[i], set, i, &shape);
    net->proj_w = param_find(set, "head.proj.weight");
    net->proj_b = param_find(set, "head.proj.bias");
    net->out_w = param_find(set, "head.out.weight");
    net->out_b = param_find(set, "head.out.bias");
    return 0;
}

/* Run fn over every ConvBlock until one fails. */
static int each_block(struct seizure_net *net, int (*fn)(void *ctx, struct conv_block *block), void *ctx) {
    int rc = fn(ctx, &net->stem);
    for (int i = 0; !rc && i < STAGES; i++)
        for (int k = 0; !rc && k < 2; k++) {
            rc = fn(ctx, &net->encoder[i].conv[k]);
            if (!rc)
                rc = fn(ctx, &net->decoder[i].conv[k]);
        }
    for (int i = 0; !rc && i < net->config.rescnn_blocks; i++) {
        for (int k = 0; !rc && k < RESCNN_BRANCHES; k++)
            rc = fn(ctx, &net->rescnn[i].branch[k]);
        if (!rc)
            rc = fn(ctx, &net->rescnn[i].fuse);
    }
    return rc;
}

struct folding {
    struct seizure_net *net;
    struct stream *stream;
    int64_t at;
    struct err *err;
};

static int fold_block(void *ctx, struct conv_block *block) {
    struct folding *f = ctx;
    float *memory = f->net->folded + f->at;
    f->at += conv_block_folded_count(block);
    return conv_block_fold(block, &f->net->params, f->stream, memory, f->err);
}

static int count_block(void *ctx, struct conv_block *block) {
    *(int64_t *)ctx += conv_block_folded_count(block);
    return 0;
}

static int64_t head_count(const struct seizure_net *net) {
    return (net->config.encoder_channels[0] + 1 + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
}

int64_t seizure_net_folded_count(struct seizure_net *net) {
    int64_t count = head_count(net);
    each_block(net, count_block, &count);
    for (int i = 0; i < net->config.mamba_layers; i++)
        count += mamba_folded_count(&net->mamba[i]);
    return count;
}

/* out·(proj·x + b1) + b2 = (out·proj)·x + (out·b1 + b2). */
static int fold_head(struct seizure_net *net, struct stream *s, float *memory, struct err *err) {
    int64_t c = net->config.encoder_channels[0];
    const struct param *rows[] = {net->proj_w, net->proj_b, net->out_w, net->out_b};
    float *host = calloc((size_t)(c + 1 + net->proj_w->count + 2 * HEAD_CHANNELS + 1), sizeof *host), *at = host + c + 1;
    const float *fetched[4];
    if (!host)
        return err_set(err, ERR_EXHAUSTED, "out of memory folding the head");
    int rc = 0;
    for (int i = 0; !rc && i < 4; i++) {
        struct tensor t = param_value(&net->params, rows[i]);
        fetched[i] = at;
        rc = stream_to_host(s, at, t.data, (size_t)rows[i]->count * sizeof *at, err);
        at += rows[i]->count;
    }
    if (!rc)
        rc = stream_sync(s, err);
    const float *proj_w = fetched[0], *proj_b = fetched[1], *out_w = fetched[2];
    double bias = rc ? 0 : (double)fetched[3][0];
    for (int k = 0; !rc && k < HEAD_CHANNELS; k++)
        bias += (double)out_w[k] * (double)proj_b[k];
    for (int64_t i = 0; !rc && i < c; i++) {
        double sum = 0;
        for (int k = 0; k < HEAD_CHANNELS; k++)
            sum += (double)out_w[k] * (double)proj_w[k * c + i];
        host[i] = (float)sum;
    }
    host[c] = (float)bias;
    if (!rc)
        rc = stream_to_device(s, memory, host, (size_t)(c + 1) * sizeof *host, err);
    if (!rc)
        rc = stream_sync(s, err);
    free(host);
    net->head = (struct folded){tensor_2d(memory, DTYPE_F32, 1, c), tensor_1d(memory + c, DTYPE_F32, 1)};
    return rc;
}

int seizure_net_fold(struct seizure_net *net, struct stream *s, struct err *err) {
    if (net->folded_version == net->params.version)
        return 0;
    struct folding f = {net, s, 0, err};
    int rc = each_block(net, fold_block, &f);
    for (int i = 0; !rc && i < net->config.mamba_layers; i++) {
        rc = mamba_fold(&net->mamba[i], &net->params, s, net->folded + f.at, err);
        f.at += mamba_folded_count(&net->mamba[i]);
    }
    if (!rc)
        rc = fold_head(net, s, net->folded + f.at, err);
    if (!rc)
        net->folded_version = net->params.version;
    return rc;
}
