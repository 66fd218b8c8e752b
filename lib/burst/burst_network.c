#include "burst/burst_network.h"

#include "base/rng.h"
#include "burst/burst_encoder.h"
#include "burst/netfile.h"
#include "burst/spikefile.h"
#include "burst/wiring.h"

OWNABLE(struct burst, burst_free)

enum { MOST_DRIVEN = 1 << 20 }; /* random injections at once */

static int generate(const struct burst_config *c, int64_t max_bytes, struct connectome_shard shard, struct connectome **ret,
                    struct err *err) {
    const struct wiring w = {.kind = (enum wiring_kind)c->generate,
                             SAME_MEMBERS(*c, neurons, inhibitory),
                             .fan_out = c->synapses,
                             .layers = (int)c->layers,
                             .seed = (uint64_t)c->seed,
                             .weight_low = (int)c->weights.items[0],
                             .weight_high = (int)c->weights.items[1],
                             .delay_low = (int)c->delays.items[0],
                             .delay_high = (int)c->delays.items[1],
                             .psp = (int)c->psp,
                             .threshold = (float)c->threshold,
                             .leak = (float)c->leak,
                             .excitability = (float)c->excitability,
                             .refractory = (int)c->refractory,
                             .power = (float)c->power,
                             .shard = shard};
    return wiring_make(&w, max_bytes, ret, err);
}

/* Everything that decides which neurons fire, as one digest. */
static int identify(const struct burst_config *c, char ret[DIGEST_HEX_SIZE], struct err *err) {
    char network[DIGEST_HEX_SIZE] = "", injections[DIGEST_HEX_SIZE] = "", recording[DIGEST_HEX_SIZE] = "";
    int rc;
    if ((rc = c->file ? digest_file(c->file, network, err) : 0) ||
        (c->injections && (rc = digest_file(c->injections, injections, err))) ||
        (c->recording && (rc = digest_file(c->recording, recording, err))))
        return rc;
    struct str text = str_of(4096);
    if (!c->file)
        str_printf(&text, "%d %lld %lld %lld %lld %.17g %.17g %.17g %lld %.17g %.17g %.17g %lld %.17g", c->generate,
                   (long long)c->neurons, (long long)c->synapses, (long long)c->layers, (long long)c->seed, c->inhibitory,
                   c->weights.items[0], c->weights.items[1], (long long)c->psp, c->threshold, c->leak, c->excitability,
                   (long long)c->refractory, c->power);
    if (!c->file && c->delays.items[1] > 1)
        str_printf(&text, " delays %g %g", c->delays.items[0], c->delays.items[1]);
    if (c->ledger)
        str_printf(&text, " ledger %lld", (long long)c->ledger);
    str_printf(&text, " %s %s %d %.17g %.17g %lld %d %lld %lld", network, injections, c->every_tick, c->random_rate, c->potential,
               (long long)c->random_seed, c->fired, (long long)c->rates_every, (long long)c->membranes_every);
    if (c->recording)
        str_printf(&text, " %s %.200s %g %.17g %lld", recording, c->montage, c->notch_hz, c->delta_uv,
                   (long long)c->samples_per_tick);
    bool good = str_ok(&text) && digest_bytes(str_cstr(&text), text.len, ret);
    str_done(&text);
    return good ? 0 : err_set(err, ERR_INTERNAL, "the SHA-256 of the job's settings could not be computed");
}

static int encode(const struct burst_config *c, const struct task_env *env, struct burst_network *n, struct err *err) {
    int rc = burst_encoder_read(c, env, &n->encoded, &n->n_encoded, &n->channels, err);
    uint32_t needed = 2 * (uint32_t)n->channels, neurons = n->net->net.n;
    return rc || needed <= neurons
               ? rc
               : err_set(err, ERR_INVALID, "%s: %d channels inject into neurons 0 to %u; the network has %u neurons", c->recording,
                         n->channels, needed - 1, neurons);
}

/* On error *n holds what was read until then. */
static int load(const struct burst_config *c, const struct task_env *env, struct burst_network *n, struct err *err) {
    const int64_t max_bytes = env->memory_limit_bytes;
    const struct connectome_shard shard = {env->world ? env->world->rank : 0, env->world ? env->world->size : 0};
    int rc;
    n->world = env->world;
    if ((rc = identify(c, n->identity, err)) ||
        (rc = c->file ? netfile_load_shard(c->file, max_bytes, shard, &n->net, &n->state, err)
                      : generate(c, max_bytes, shard, &n->net, err)))
        return rc;
    if (c->injections && ((rc = spikefile_read_injections(c->injections, &n->injections, &n->n_injections, err)) ||
                          (rc = spikefile_check_injections(c->injections, n->injections, n->n_injections, n->net->net.n, err))))
        return rc;
    return c->recording && env->cache_dir ? encode(c, env, n, err) : 0;
}

int burst_network_load(const struct burst_config *c, const struct task_env *env, struct burst_network *ret, struct err *err) {
    struct burst_network n = {0};
    int rc = load(c, env, &n, err);
    if (rc)
        burst_network_done(&n);
    else
        *ret = n;
    return rc;
}

void burst_network_done(struct burst_network *n) {
    connectome_free(n->net);
    burst_state_done(&n->state);
    FREE_MEMBERS(*n, injections, encoded);
    *n = (struct burst_network){0};
}

int burst_network_start(struct burst_network *n, const struct burst_config *config, struct stream *s, struct burst **ret,
                        struct err *err) {
    const struct burst_options options = {.every_tick = config->every_tick, .world = n->world};
    struct connectome *net = n->net;
    OWNED_POINTER(burst_free) struct burst *b = NULL;
    int rc;
    n->net = NULL;
    if ((rc = burst_new(s, net, &options, &b, err)))
        return rc;
    if (n->state.neurons && burst_restore(b, &n->state, err))
        return err_wrap(err, "the state in %s cannot be used", config->file);
    if (n->n_injections && burst_inject(b, n->injections, n->n_injections, err))
        return err_wrap(err, "%s cannot be used (injections count from 0)", config->injections);
    for (int64_t i = 0; i < n->n_encoded; i++)
        n->encoded[i].tick += burst_tick(b); /* the recording begins where the snapshot is */
    if (n->n_encoded && burst_inject(b, n->encoded, n->n_encoded, err))
        return err_wrap(err, "%s cannot be used", config->recording);
    *ret = b;
    b = NULL;
    return 0;
}

/* Random injections of a tick; the fraction is drawn. */
static int64_t injections_of(const struct burst_config *c, uint32_t neurons, struct rng *rng) {
    double mean = c->random_rate * (double)neurons;
    return (int64_t)mean + (rng_uniform(rng) < mean - floor(mean));
}

int64_t burst_network_drive_most(const struct burst_config *c, const struct burst *b) {
    double mean = c->random_rate * (double)burst_connectome(b)->net.n;
    double most = mean > 0 ? MOST_DRIVEN / mean : MOST_DRIVEN;
    return most < 1 ? 1 : most > MOST_DRIVEN ? MOST_DRIVEN : (int64_t)most;
}

int burst_network_drive(const struct burst_config *c, struct burst *b, int64_t n, uint64_t *driven, struct err *err) {
    uint64_t last = burst_tick(b) + (uint64_t)n, first = (*driven > burst_tick(b) ? *driven : burst_tick(b)) + 1;
    uint32_t neurons = burst_connectome(b)->net.n;
    size_t room = (size_t)(c->random_rate * (double)neurons + 2), count = 0;
    if (!(c->random_rate > 0) || first > last)
        return 0;
    struct burst_injection *list = malloc(room * (size_t)(last + 1 - first) * sizeof *list);
    if (!list)
        return err_set(err, ERR_EXHAUSTED, "out of memory for random injections");
    for (uint64_t tick = first; tick <= last; tick++) {
        struct rng rng;
        rng_init(&rng, (uint64_t)c->random_seed, RNG_DRIVE, (uint32_t)tick);
        rng.index = (tick >> 32) << 32; /* ticks beyond 32 bits have draws of their own */
        for (int64_t k = injections_of(c, neurons, &rng); k > 0; k--)
            list[count++] = (struct burst_injection){tick, (uint32_t)rng_below(&rng, neurons), (float)c->potential};
    }
    int rc = burst_inject(b, list, (int64_t)count, err);
    free(list);
    if (rc)
        return rc;
    *driven = last;
    return 0;
}
