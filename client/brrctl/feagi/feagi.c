#include "client/brrctl/feagi/feagi.h"

#include "burst/burst_data.h"
#include "burst/netfile.h"
#include "client/brrctl/feagi/feagi_file.h"
#include "client/brrctl/feagi/feagi_genome.h"

OWNABLE(struct connectome, connectome_free)
OWNABLE(struct feagi_genome, feagi_genome_free)

enum { POWER_AREA = 1, HEAD_BYTES = 512 };

/* The network while it is made. */
struct feagi_network {
    struct feagi_connectome from;
    struct connectome_area *areas; /* (from.n_areas) */
    struct feagi_properties *of;   /* (from.n_areas) */
    float *threshold_limit;        /* (neurons), as those below */
    uint16_t *fire_limit, *snooze;
    uint8_t *accumulate, *alive;
    uint32_t *area;
};

bool feagi_is_connectome(const char *path) {
    char head[HEAD_BYTES + 1] = "";
    OWNED_FILE FILE *f = fopen(path, "rbe");
    size_t n = f ? fread(head, 1, HEAD_BYTES, f) : 0;
    head[n] = '\0';
    return str_starts(head, "FEAGI") || (strchr(head, '{') && strstr(head, "\"neurons\""));
}

static void feagi_network_done(struct feagi_network *n) {
    void *const all[] = {n->areas, n->of, n->threshold_limit, n->fire_limit, n->snooze, n->accumulate, n->alive, n->area};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    feagi_connectome_done(&n->from);
}

static int alloc_network(struct feagi_network *n, struct err *err) {
    size_t neurons = (size_t)n->from.n_neurons + 1, areas = (size_t)n->from.n_areas + 1;
    bool ok = (n->areas = calloc(areas, sizeof *n->areas)) && (n->of = calloc(areas, sizeof *n->of)) &&
              (n->threshold_limit = calloc(neurons, sizeof *n->threshold_limit)) &&
              (n->fire_limit = calloc(neurons, sizeof *n->fire_limit)) && (n->snooze = calloc(neurons, sizeof *n->snooze)) &&
              (n->accumulate = calloc(neurons, 1)) && (n->alive = calloc(neurons, 1)) &&
              (n->area = calloc(neurons, sizeof *n->area));
    return ok ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for %lld neurons", (long long)n->from.n_neurons);
}

static int check_whole(const char *area, const char *name, double value, struct err *err) {
    return value >= 0 && value <= 65535 && value == floor(value)
               ? 0
               : err_set(err, ERR_INVALID, "area %s: %s is %g; expected a whole number of at most 65535", area, name, value);
}

static int take_areas(struct feagi_network *n, const struct feagi_genome *g, struct err *err) {
    int rc;
    for (int64_t i = 0; i < n->from.n_areas; i++) {
        const struct feagi_area *from = &n->from.areas[i];
        struct feagi_properties *p = &n->of[i];
        if ((rc = feagi_genome_area(g, from->name, p, err)) ||
            (rc = check_whole(from->name, "its fire limit", p->fire_limit, err)) ||
            (rc = check_whole(from->name, "its snooze", p->snooze, err)))
            return rc;
        n->areas[i] = (struct connectome_area){.psp_divide = p->uniform == 0,
                                               .mp_driven_psp = p->driven != 0,
                                               .power = from->id == POWER_AREA ? n->from.power_amount : 0};
        str_copy(n->areas[i].name, sizeof n->areas->name, from->name);
    }
    return 0;
}

static int64_t area_at(const struct feagi_connectome *c, uint32_t id) {
    for (int64_t i = 0; i < c->n_areas; i++)
        if (c->areas[i].id == id)
            return i;
    return -1;
}

static int take_neurons(struct feagi_network *n, struct err *err) {
    int64_t at = -1;
    for (int64_t i = 0; i < n->from.n_neurons; i++) {
        uint32_t id = n->from.neurons.cortical_areas[i];
        if (at < 0 || n->from.areas[at].id != id)
            at = area_at(&n->from, id);
        n->alive[i] = n->from.neurons.valid_mask[i] != 0;
        if (at < 0 && n->alive[i])
            return err_set(err, ERR_INVALID, "neuron %lld is of area %u, which cortical_area_names has not", (long long)i, id);
        n->area[i] = at < 0 ? 0 : (uint32_t)at;
        n->threshold_limit[i] = (float)n->of[n->area[i]].threshold_limit;
        n->fire_limit[i] = (uint16_t)n->of[n->area[i]].fire_limit;
        n->snooze[i] = (uint16_t)n->of[n->area[i]].snooze;
        n->accumulate[i] = n->of[n->area[i]].accumulates != 0;
    }
    return 0;
}

/* Deleted synapses, and those of deleted neurons, leave their arrays. */
static int take_synapses(struct feagi_network *n, struct err *err) {
    struct feagi_synapses *s = &n->from.synapses;
    int64_t kept = 0;
    for (int64_t i = 0; i < n->from.n_synapses; i++) {
        uint32_t source = s->source_neurons[i], target = s->target_neurons[i];
        if (!s->valid_mask[i])
            continue;
        if (source >= n->from.n_neurons || target >= n->from.n_neurons)
            return err_set(err, ERR_UNSUPPORTED,
                           "synapse %lld is from neuron %u to neuron %u; there are %lld, and no memory neurons", (long long)i,
                           source, target, (long long)n->from.n_neurons);
        if (!n->alive[source] || !n->alive[target])
            continue;
        s->source_neurons[kept] = source;
        s->target_neurons[kept] = target;
        s->weights[kept] = s->weights[i];
        s->conductances[kept] = s->conductances[i];
        s->types[kept++] = s->types[i] != 0;
    }
    n->from.n_synapses = kept;
    return 0;
}

/* The state at the moment of the download, without spikes on their way, which the download lacks. */
static int save_snapshot(const struct feagi_network *n, const struct connectome *c, const char *path, struct err *err) {
    uint32_t none = 0;
    OWNED_MEMORY uint16_t *fire_count = calloc((size_t)n->from.n_neurons + 1, sizeof *fire_count);
    struct burst_injection pending = {0};
    char sha256[DIGEST_HEX_SIZE];
    const struct burst_state state = {.tick = n->from.burst_count,
                                      .fraction_bits = c->net.fraction_bits,
                                      .neurons = c->net.n,
                                      .v = n->from.neurons.membrane_potentials,
                                      .countdown = n->from.neurons.refractory_countdowns,
                                      .fire_count = fire_count,
                                      .psp = c->net.psp,
                                      .alive = n->alive,
                                      .divisor = c->net.divisor,
                                      .fired_ids = &none,
                                      .pending = &pending};
    return fire_count ? netfile_save(path, c, &state, sha256, err)
                      : err_set(err, ERR_EXHAUSTED, "out of memory for the state of %u neurons", c->net.n);
}

static int build_network(const struct feagi_network *n, struct connectome **ret, struct err *err) {
    const struct feagi_neurons *p = &n->from.neurons;
    const struct feagi_synapses *s = &n->from.synapses;
    const struct connectome_arrays a = {.neurons = n->from.n_neurons,
                                        .synapses = n->from.n_synapses,
                                        .threshold = p->thresholds,
                                        .v = p->membrane_potentials,
                                        .threshold_limit = n->threshold_limit,
                                        .leak = p->leak_coefficients,
                                        .excitability = p->excitabilities,
                                        .refractory = p->refractory_periods,
                                        SAME_MEMBERS(*n, fire_limit, snooze, accumulate, area),
                                        .src = s->source_neurons,
                                        .dst = s->target_neurons,
                                        .weight = s->weights,
                                        .psp = s->conductances,
                                        .type = s->types,
                                        .areas = n->areas,
                                        .n_areas = (int)n->from.n_areas};
    return n->from.n_areas > CONNECTOME_MOST_AREAS
               ? err_set(err, ERR_UNSUPPORTED, "%lld areas; expected at most %d", (long long)n->from.n_areas, CONNECTOME_MOST_AREAS)
               : connectome_new(&a, 0, ret, err);
}

int feagi_import(const char *path, const char *genome_path, const char *output, struct feagi_told *ret, struct err *err) {
    OWNED(feagi_network_done) struct feagi_network n = {0};
    OWNED_POINTER(feagi_genome_free) struct feagi_genome *genome = NULL;
    OWNED_POINTER(connectome_free) struct connectome *c = NULL;
    int rc;
    if (!genome_path)
        return err_set(err, ERR_INVALID,
                       "%s is a connectome of FEAGI, which lacks the limits, snooze, accumulation and psp flags of its areas: name "
                       "its genome with --genome FILE",
                       path);
    if ((rc = feagi_genome_load(genome_path, &genome, err)) || (rc = feagi_file_load(path, &n.from, err)))
        return rc;
    if (n.from.burst_count > BURST_MOST_TICK)
        return err_set(err, ERR_INVALID, "%s: its burst_count is %llu; expected at most %llu", path,
                       (unsigned long long)n.from.burst_count, (unsigned long long)BURST_MOST_TICK);
    int64_t synapses = n.from.n_synapses;
    if ((rc = alloc_network(&n, err)) || (rc = take_areas(&n, genome, err)) || (rc = take_neurons(&n, err)) ||
        (rc = take_synapses(&n, err)) || (rc = build_network(&n, &c, err)) || (rc = save_snapshot(&n, c, output, err)))
        return rc;
    *ret = (struct feagi_told){.neurons = n.from.n_neurons,
                               .synapses = n.from.n_synapses,
                               .deleted_synapses = synapses - n.from.n_synapses,
                               .tick = n.from.burst_count};
    for (int64_t i = 0; i < n.from.n_neurons; i++)
        ret->deleted_neurons += !n.alive[i];
    return 0;
}
