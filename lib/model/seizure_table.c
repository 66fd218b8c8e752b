/* The parameter table of the network, in checkpoint order, and the folded inference weights. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/seizure_net.h"

static const char *const conv_names[2] = {"conv1", "conv2"};
static const char *const bn_names[2] = {"bn1", "bn2"};

static int encoder_in(const struct seizure_config *c, int stage) {
    return c->encoder_channels[stage ? stage - 1 : 0];
}
static int decoder_up(const struct seizure_config *c, int stage) {
    return c->encoder_channels[stage < 3 ? 2 - stage : 0];
}

static struct mamba_shape mixer_shape(const struct seizure_config *c) {
    return (struct mamba_shape){.d_model = c->encoder_channels[3],
                                .d_state = c->d_state,
                                .d_conv = c->d_conv,
                                .expand = c->expand,
                                .headdim = c->headdim,
                                .ngroups = c->ngroups,
                                .mixer = c->mixer == SEIZURE_MIXER_CONV ? MAMBA_MIXER_CONV : MAMBA_MIXER_SSD};
}

/* PREFIX.weight of the given shape and PREFIX.bias of n. */
static int affine_params(struct param_set *set, const char *prefix, const int64_t dim[3], int64_t n, struct err *err) {
    struct param_spec weight = {PARAM_WEIGHT, 3, {dim[0], dim[1], dim[2]}}, bias = {PARAM_PLAIN, 1, {n}};
    int rc = param_add(set, &weight, err, "%s.weight", prefix);
    return rc ? rc : param_add(set, &bias, err, "%s.bias", prefix);
}

static int encoder_params(struct seizure_net *net, int stage, struct err *err) {
    char prefix[32], down[48];
    int64_t ci = encoder_in(&net->config, stage), co = net->config.encoder_channels[stage];
    str_format(prefix, sizeof prefix, "encoder.%d", stage);
    str_format(down, sizeof down, "%s.down", prefix);
    int rc = 0;
    for (int i = 0; !rc && i < 2; i++)
        rc = conv_block_params(&net->params, &(struct block_names){prefix, conv_names[i], bn_names[i]}, i ? co : ci, co, STAGE_TAPS,
                               err);
    return rc ? rc : affine_params(&net->params, down, (int64_t[]){co, co, 2}, co, err);
}

static int decoder_params(struct seizure_net *net, int stage, struct err *err) {
    char prefix[32], up[48];
    const struct seizure_config *c = &net->config;
    int64_t ci = stage ? decoder_up(c, stage - 1) : c->encoder_channels[3], co = decoder_up(c, stage),
            skip = c->encoder_channels[3 - stage];
    str_format(prefix, sizeof prefix, "decoder.%d", stage);
    str_format(up, sizeof up, "%s.up", prefix);
    int rc = affine_params(&net->params, up, (int64_t[]){ci, co, 2}, co, err);
    for (int i = 0; !rc && i < 2; i++)
        rc = conv_block_params(&net->params, &(struct block_names){prefix, conv_names[i], bn_names[i]}, i ? co : co + skip, co,
                               STAGE_TAPS, err);
    return rc;
}

int seizure_net_params(struct seizure_net *net, struct err *err) {
    const struct seizure_config *c = &net->config;
    struct mamba_shape shape = mixer_shape(c);
    int rc = conv_block_params(&net->params, &(struct block_names){"encoder.stem", "conv", "bn"}, c->in_channels,
                               c->encoder_channels[0], STEM_TAPS, err);
    for (int i = 0; !rc && i < STAGES; i++)
        rc = encoder_params(net, i, err);
    for (int i = 0; !rc && i < c->rescnn_blocks; i++)
        rc = rescnn_params(&net->params, i, c->encoder_channels[3], err);
    for (int i = 0; !rc && i < c->mamba_layers; i++)
        rc = mamba_params(&net->params, i, &shape, err);
    for (int i = 0; !rc && i < STAGES; i++)
        rc = decoder_params(net, i, err);
    if (!rc)
        rc = affine_params(&net->params, "head.proj", (int64_t[]){HEAD_CHANNELS, c->encoder_channels[0], 1}, HEAD_CHANNELS, err);
    return rc ? rc : affine_params(&net->params, "head.out", (int64_t[]){1, HEAD_CHANNELS, 1}, 1, err);
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
        char prefix[32], name[64];
        str_format(prefix, sizeof prefix, "encoder.%d", i);
        for (int k = 0; k < 2; k++)
            conv_block_bind(&net->encoder[i].conv[k], set, &(struct block_names){prefix, conv_names[k], bn_names[k]});
        str_format(name, sizeof name, "%s.down.weight", prefix);
        net->encoder[i].down_w = param_find(set, name);
        str_format(name, sizeof name, "%s.down.bias", prefix);
        net->encoder[i].down_b = param_find(set, name);
        str_format(prefix, sizeof prefix, "decoder.%d", i);
        for (int k = 0; k < 2; k++)
            conv_block_bind(&net->decoder[i].conv[k], set, &(struct block_names){prefix, conv_names[k], bn_names[k]});
        str_format(name, sizeof name, "%s.up.weight", prefix);
        net->decoder[i].up_w = param_find(set, name);
        str_format(name, sizeof name, "%s.up.bias", prefix);
        net->decoder[i].up_b = param_find(set, name);
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

int seizure_net_blocks(struct seizure_net *net, int (*fn)(void *ctx, struct conv_block *block), void *ctx) {
    int rc = fn(ctx, &net->stem);
    for (int i = 0; !rc && i < STAGES; i++)
        for (int k = 0; !rc && k < 2; k++) {
            rc = fn(ctx, &net->encoder[i].conv[k]);
            if (!rc)
                rc = fn(ctx, &net->decoder[i].conv[k]);
        }
    for (int i = 0; !rc && i < net->config.rescnn_blocks; i++) {
        for (int k = 0; !rc && k < 3; k++)
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

/* out·(proj·x + b1) + b2 = (out·proj)·x + (out·b1 + b2). */
static int fold_head(struct seizure_net *net, struct stream *s, float *memory, struct err *err) {
    enum { MAX_FEATURES = 4096 };
    static const char *const what = "folding the head";
    int64_t c = net->config.encoder_channels[0];
    float proj_b[HEAD_CHANNELS], out_w[HEAD_CHANNELS], out_b;
    float *host = malloc((size_t)(c * HEAD_CHANNELS + c + 1) * sizeof *host);
    if (!host || c > MAX_FEATURES) {
        free(host);
        return err_set(err, ERR_EXHAUSTED, "out of memory %s", what);
    }
    float *proj = host + c + 1;
    struct tensor pw = param_value(&net->params, net->proj_w), pb = param_value(&net->params, net->proj_b);
    struct tensor ow = param_value(&net->params, net->out_w), ob = param_value(&net->params, net->out_b);
    int rc = stream_to_host(s, proj, pw.data, (size_t)(c * HEAD_CHANNELS) * sizeof *proj, err);
    if (!rc)
        rc = stream_to_host(s, proj_b, pb.data, sizeof proj_b, err);
    if (!rc)
        rc = stream_to_host(s, out_w, ow.data, sizeof out_w, err);
    if (!rc)
        rc = stream_to_host(s, &out_b, ob.data, sizeof out_b, err);
    if (!rc)
        rc = stream_sync(s, err);
    double bias = (double)out_b;
    for (int k = 0; k < HEAD_CHANNELS; k++)
        bias += (double)out_w[k] * (double)proj_b[k];
    for (int64_t i = 0; i < c; i++) {
        double sum = 0;
        for (int k = 0; k < HEAD_CHANNELS; k++)
            sum += (double)out_w[k] * (double)proj[k * c + i];
        host[i] = (float)sum;
    }
    host[c] = (float)bias;
    if (!rc)
        rc = stream_to_device(s, memory, host, (size_t)(c + 1) * sizeof *host, err);
    if (!rc)
        rc = stream_sync(s, err);
    free(host);
    net->head_w = tensor_2d(memory, DTYPE_F32, 1, c);
    net->head_b = tensor_1d(memory + c, DTYPE_F32, 1);
    return rc;
}

int seizure_net_fold(struct seizure_net *net, struct stream *s, struct err *err) {
    if (net->folded_version == net->params.version)
        return 0;
    int64_t count = 0;
    seizure_net_blocks(net, count_block, &count);
    int rc = 0;
    if (!net->folded) {
        void *memory = NULL;
        rc = device_alloc(net->device, (size_t)(count + net->config.encoder_channels[0] + PARAM_ALIGN) * sizeof(float), &memory,
                          err);
        net->folded = memory;
    }
    struct folding f = {net, s, 0, err};
    if (!rc)
        rc = seizure_net_blocks(net, fold_block, &f);
    if (!rc)
        rc = fold_head(net, s, net->folded + count, err);
    if (!rc)
        net->folded_version = net->params.version;
    return rc;
}
