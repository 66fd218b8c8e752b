/* The parameter table of the network, in checkpoint order, and the folded inference weights. */

#include "detect/seizure_net.h"
#include "nn/padded.h"

struct mamba_shape seizure_net_mixer(const struct seizure_config *c) {
    return (struct mamba_shape){.d_model = c->encoder_channels[3],
                                SAME_MEMBERS(*c, d_state, d_conv, expand, headdim, ngroups),
                                .directions = c->type == SEIZURE_TYPE_CAUSAL ? 1 : 2,
                                .mixer = c->mixer == SEIZURE_MIXER_CONV ? MAMBA_MIXER_CONV : MAMBA_MIXER_SSD};
}

struct seizure_config seizure_net_member(const struct seizure_config *config) {
    struct seizure_config c = *config;
    c.members = 0;
    return c;
}

/* The table of a member as often as there are members, one behind the other, so that each has a slice of the flat arrays. */
static int ensemble_params(struct seizure_net *net, struct err *err) {
    struct seizure_config member = seizure_net_member(&net->config);
    struct param_set table;
    int rc = seizure_table(&member, &table, err);
    if (rc)
        return rc;
    for (int k = 0; !rc && k < net->config.members; k++)
        for (int i = 0; !rc && i < table.count; i++) {
            const struct param *p = &table.items[i];
            struct param_spec spec = {.kind = p->kind, .rank = p->rank};
            memcpy(spec.dim, p->dim, sizeof spec.dim);
            rc = param_add(&net->params, &spec, err, "member.%d.%s", k, p->name);
        }
    param_set_done(&table);
    return rc;
}

int seizure_net_params(struct seizure_net *net, struct err *err) {
    if (seizure_net_is_ensemble(&net->config))
        return ensemble_params(net, err);
    int rc = net->ops->params(net, err);
    if (rc || !net->config.skip)
        return rc;
    const struct param_spec weight = {PARAM_PLAIN, 3, {1, 1, 1}};
    return param_add(&net->params, &weight, err, "head.skip.weight");
}

int seizure_net_bind(struct seizure_net *net, struct err *err) {
    const struct seizure_config *c = &net->config;
    struct param_set *set = &net->params;
    struct mamba_shape shape = seizure_net_mixer(c);
    net->rescnn = calloc((size_t)c->rescnn_blocks + 1, sizeof *net->rescnn);
    net->mamba = calloc((size_t)c->mamba_layers + 1, sizeof *net->mamba);
    net->causal_blocks = calloc((size_t)c->rescnn_blocks + 1, sizeof *net->causal_blocks);
    if (!net->rescnn || !net->mamba || !net->causal_blocks)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the network's layers");
    for (int i = 0; i < c->mamba_layers; i++) {
        mamba_bind(&net->mamba[i], set, i, &shape);
        net->mamba[i].joins = net->gpu_form;
    }
    net->ops->bind(net);
    if (c->skip)
        net->skip_w = param_find(set, "head.skip.weight");
    return 0;
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

static int count_padded(void *ctx, struct conv_block *block) {
    *(int64_t *)ctx += padded_count(block);
    return 0;
}

static int place_padded(void *ctx, struct conv_block *block) {
    float **at = ctx;
    padded_set(block, *at);
    *at += padded_count(block);
    return 0;
}

int64_t seizure_net_padded_count(struct seizure_net *net) {
    int64_t count = 0;
    if (net->options.training)
        net->ops->each_block(net, count_padded, &count);
    return count;
}

void seizure_net_place_padded(struct seizure_net *net, float *device_memory) {
    net->ops->each_block(net, place_padded, &device_memory);
}

/* The head of the U-Net is two projections; that of the causal network one, which needs no folding. */
static int64_t head_count(const struct seizure_net *net) {
    return !net->proj_w ? 0 : nn_aligned(net->config.encoder_channels[0] + 1);
}

int64_t seizure_net_folded_count(struct seizure_net *net) {
    int64_t count = head_count(net);
    net->ops->each_block(net, count_block, &count);
    for (int i = 0; i < net->config.mamba_layers; i++)
        count += mamba_folded_count(&net->mamba[i]);
    return count;
}

/* out·(proj·x + b1) + b2 = (out·proj)·x + (out·b1 + b2). */
static int fold_head(struct seizure_net *net, struct stream *s, float *memory, struct err *err) {
    int64_t c = net->config.encoder_channels[0];
    const struct param *rows[] = {net->proj_w, net->proj_b, net->out_w, net->out_b};
    OWNED_MEMORY float *host = calloc((size_t)(c + 1 + net->proj_w->count + 2 * HEAD_CHANNELS + 1), sizeof *host);
    const float *fetched[4];
    if (!host)
        return err_set(err, ERR_EXHAUSTED, "out of memory folding the head");
    int rc;
    float *at = host + c + 1;
    for (int i = 0; i < 4; i++) {
        struct tensor t = param_value(&net->params, rows[i]);
        fetched[i] = at;
        if ((rc = stream_to_host(s, at, t.data, (size_t)rows[i]->count * sizeof *at, err)))
            return rc;
        at += rows[i]->count;
    }
    if ((rc = stream_sync(s, err)))
        return rc;
    const float *proj_w = fetched[0], *proj_b = fetched[1], *out_w = fetched[2];
    double bias = (double)fetched[3][0];
    for (int k = 0; k < HEAD_CHANNELS; k++)
        bias += (double)out_w[k] * (double)proj_b[k];
    for (int64_t i = 0; i < c; i++) {
        double sum = 0;
        for (int k = 0; k < HEAD_CHANNELS; k++)
            sum += (double)out_w[k] * (double)proj_w[k * c + i];
        host[i] = (float)sum;
    }
    host[c] = (float)bias;
    if ((rc = stream_to_device(s, memory, host, (size_t)(c + 1) * sizeof *host, err)) || (rc = stream_sync(s, err)))
        return rc;
    net->head = (struct folded){tensor_2d(memory, DTYPE_F32, 1, c), tensor_1d(memory + c, DTYPE_F32, 1)};
    return 0;
}

int seizure_net_fold(struct seizure_net *net, struct stream *s, struct err *err) {
    if (net->folded_version == net->params.version)
        return 0;
    struct folding f = {net, s, 0, err};
    int rc = net->ops->each_block(net, fold_block, &f);
    if (rc)
        return rc;
    for (int i = 0; i < net->config.mamba_layers; i++) {
        if ((rc = mamba_fold(&net->mamba[i], &net->params, s, net->folded + f.at, err)))
            return rc;
        f.at += mamba_folded_count(&net->mamba[i]);
    }
    if (net->proj_w && (rc = fold_head(net, s, net->folded + f.at, err)))
        return rc;
    net->folded_version = net->params.version;
    return 0;
}
