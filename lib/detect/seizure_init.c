/* Initial weights, drawn on the host from Philox: stream RNG_INIT, step = index of the tensor in the table. Rules: Kaiming normal
 * (fan out, ReLU) for convolutions, Xavier normal for projections, zero biases, unit norms; Mamba keeps its own: convolution
 * uniform ±K^-½, projections uniform ±fan_in^-½, A_log = log U(1,16), dt_bias the inverse softplus of a log-uniform step in [1e-3,
 * 1e-1], D = 1. The head starts small, with the prior's logit as its bias; with a skip it
 * starts at zero, so that the network begins as its feature: the model line_length, or the mean of both. Types without a network
 * begin with fixed values. */

#include "base/rng.h"
#include "detect/seizure_net.h"

static void fill(float *x, int64_t n, float value) {
    for (int64_t i = 0; i < n; i++)
        x[i] = value;
}

static void fill_normal(float *x, int64_t n, struct rng *rng, double std) {
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(std * rng_normal(rng));
}

static void fill_uniform(float *x, int64_t n, struct rng *rng, double bound) {
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(bound * (2 * rng_uniform(rng) - 1));
}

static void init_mamba(const struct param *p, const char *leaf, float *x, struct rng *rng) {
    int64_t taps = p->dim[p->rank - 1];
    if (!strcmp(leaf, "A_log")) {
        for (int64_t i = 0; i < p->count; i++)
            x[i] = (float)log(1 + 15 * rng_uniform(rng));
    } else if (!strcmp(leaf, "dt_bias")) {
        for (int64_t i = 0; i < p->count; i++) {
            double dt = fmax(exp(log(1e-3) + rng_uniform(rng) * (log(1e-1) - log(1e-3))), 1e-4);
            x[i] = (float)(dt + log(-expm1(-dt)));
        }
    } else if (!strcmp(leaf, "conv.weight")) {
        fill_uniform(x, p->count, rng, 1 / sqrt((double)taps));
    } else if (str_ends(leaf, "proj.weight")) {
        fill_uniform(x, p->count, rng, 1 / sqrt((double)taps));
    } else { /* D, norm.weight */
        fill(x, p->count, 1.0f);
    }
}

/* The part of "mamba.M.fwd.LEAF" after the direction, or NULL. */
static const char *mamba_leaf(const char *name) {
    const char *at = strstr(name, ".fwd.");
    if (!at)
        at = strstr(name, ".bwd.");
    return at ? at + 5 : NULL;
}

void seizure_init_values(const struct seizure_config *c, const struct param *p, uint64_t seed, double prior, float *x) {
    struct rng rng;
    prior = fmin(fmax(prior, 1e-4), 0.5);
    if (seizure_is_feature(c->type)) {
        struct seizure_map map = seizure_map(c->type);
        fill(x, 1, str_ends(p->name, ".weight") ? map.weight : map.bias);
        return;
    }
    rng_init(&rng, seed, RNG_INIT, (uint32_t)p->index);
    if (seizure_net_is_ensemble(c)) { /* each member draws its own */
        struct param own = *p;
        const char *name = strchr(p->name + strlen("member."), '.');
        str_copy(own.name, sizeof own.name, name ? name + 1 : p->name);
        struct seizure_config member = seizure_net_member(c);
        seizure_init_values(&member, &own, seed, prior, x);
        return;
    }
    const char *leaf = mamba_leaf(p->name);
    struct seizure_map begin = seizure_map(SEIZURE_TYPE_LINE_LENGTH); /* a network with a skip begins with its slope */
    if (!strcmp(p->name, "head.skip.weight"))
        fill(x, 1, begin.weight);
    else if (!strcmp(p->name, "head.out.bias"))
        fill(x, 1, c->skip ? begin.bias : (float)log(prior / (1 - prior)));
    else if (!strcmp(p->name, "head.out.weight"))
        fill_normal(x, p->count, &rng, c->skip ? 0 : 0.01);
    else if (leaf && !strcmp(leaf, "conv.bias")) /* same bound as its weight: K of the layer's taps */
        fill_uniform(x, p->count, &rng, 1 / sqrt(c->mixer == SEIZURE_MIXER_CONV ? MAMBA_CONV_TAPS : c->d_conv));
    else if (leaf)
        init_mamba(p, leaf, x, &rng);
    else if (str_ends(p->name, "running_var"))
        fill(x, p->count, 1.0f);
    else if (p->rank == 3) /* fan out as PyTorch counts it, first dimension × taps, for (in,out,k) weights too */
        fill_normal(x, p->count, &rng, sqrt(2.0 / (double)(p->dim[0] * p->dim[2])));
    else if (p->rank == 2)
        fill_normal(x, p->count, &rng, sqrt(2.0 / (double)(p->dim[0] + p->dim[1])));
    else if (p->kind == PARAM_PLAIN && str_ends(p->name, ".weight"))
        fill(x, p->count, 1.0f); /* norms */
    else
        fill(x, p->count, 0.0f); /* biases, running_mean */
}

int seizure_init(struct seizure_net *net, struct stream *s, uint64_t seed, double prior, struct err *err) {
    struct param_set *set = &net->params;
    seizure_touch(net);
    for (int i = 0; i < set->count; i++) {
        const struct param *p = &set->items[i];
        OWNED_MEMORY float *host = malloc((size_t)p->count * sizeof *host);
        if (!host)
            return err_set(err, ERR_EXHAUSTED, "out of memory initialising %s", p->name);
        seizure_init_values(&net->config, p, seed, prior, host);
        struct tensor t = param_value(set, p);
        int rc;
        if ((rc = stream_to_device(s, t.data, host, (size_t)p->count * sizeof *host, err)) || (rc = stream_sync(s, err)))
            return rc;
    }
    return 0;
}
