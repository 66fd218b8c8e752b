/* Neurons and synapses of a genome, in FEAGI's order: its areas _death, _power and _fatigue, then those of the genome; in an area z
 * first, then y, then x. */

#include "base/base.h"
#include "burst/netfile.h"
#include "client/brrctl/feagi/feagi.h"
#include "client/brrctl/feagi/feagi_genome.h"
#include "client/brrctl/feagi/feagi_morphology.h"

OWNABLE(struct connectome, connectome_free)
OWNABLE(struct feagi_genome, feagi_genome_free)
OWNABLE(struct feagi_morphology, feagi_morphology_free)

enum { MOST_LENGTH = 1 << 20, MOST_NEURONS = 1 << 26, MOST_SYNAPSES = 1 << 30, MOST_GENOME_BYTES = 256 << 20, CORE_AREAS = 3 };
static const float POWER = 1; /* FEAGI's own amount, which a genome does not have */

struct sprout {
    const char *name;
    struct feagi_properties of;
    struct feagi_seeds seeds;
    struct feagi_voxel size;
    int64_t first, n;
};

#define NEURONS(X)                                                                                                                 \
    X(float, threshold)                                                                                                            \
    X(float, threshold_limit)                                                                                                      \
    X(float, leak)                                                                                                                 \
    X(float, excitability)                                                                                                         \
    X(uint16_t, refractory)                                                                                                        \
    X(uint16_t, fire_limit)                                                                                                        \
    X(uint16_t, snooze)                                                                                                            \
    X(uint8_t, accumulate)                                                                                                         \
    X(uint32_t, area)
#define SYNAPSES(X)                                                                                                                \
    X(uint32_t, src)                                                                                                               \
    X(uint32_t, dst)                                                                                                               \
    X(uint8_t, weight)                                                                                                             \
    X(uint8_t, psp)                                                                                                                \
    X(uint8_t, type)                                                                                                               \
    X(uint8_t, delay)
#define FIELD(type, name) type *name;

struct growth {
    const struct feagi_genome *genome;
    char (*names)[FEAGI_NAME_SIZE];
    struct sprout *areas;
    int n_areas;
    int64_t neurons, synapses;
    NEURONS(FIELD)
    SYNAPSES(FIELD)    /* NULL while they are counted */
    uint32_t *reached; /* (neurons) the source, from 1, by which a rule has reached a neuron last */
    uint32_t *scratch; /* of targets along three axes */
    bool delayed;
};

static void growth_done(struct growth *g) {
#define FREE(type, name) free(g->name);
    NEURONS(FREE)
    SYNAPSES(FREE)
    FREE_MEMBERS(*g, reached, scratch, areas, names);
}

bool feagi_is_genome(const char *path) {
    OWNED_MEMORY char *text = NULL;
    size_t len = 0;
    struct err ignored = {0};
    if (fsio_read(path, MOST_GENOME_BYTES, &text, &len, &ignored))
        return false;
    return text[strspn(text, " \t\r\n")] == '{' && strstr(text, "\"blueprint\"");
}

/* ---- areas ------------------------------------------------------------------------------------------------------ */

/* _death, _power and _fatigue, as the versions of FEAGI write them; CORE_AREAS: another area. */
static int core_of(const char *name) {
    static const char *const NAMES[CORE_AREAS][3] = {
        {"_death", "___death", "X19fZGVhdGg="}, {"_power", "___power", "X19fcG93ZXI="}, {"_fatigue", "___fatig", "X19fZmF0aWc="}};
    for (int core = 0; core < CORE_AREAS; core++)
        if (STR_AMONG(name, NAMES[core]) >= 0)
            return core;
    return CORE_AREAS;
}

static int check_trait(const char *area, const char *name, double value, double low, double high, bool whole, struct err *err) {
    return value >= low && value <= high && (!whole || value == floor(value))
               ? 0
               : err_set(err, ERR_UNSUPPORTED, "area %s: %s is %g; expected %s %g to %g", area, name, value,
                         whole ? "a whole number from" : "a number from", low, high);
}

/* FEAGI draws what varies, and versions of it differ on an excitability between a share and a percentage. */
static int check_seeds(const struct sprout *a, struct err *err) {
    const struct feagi_seeds *s = &a->seeds;
    int rc = 0;
    for (int i = 0; i < 3 && !rc; i++)
        rc = check_trait(a->name, "a length in block_boundaries", s->size[i], 1, MOST_LENGTH, true, err);
    if (rc || (rc = check_trait(a->name, "per_voxel_neuron_cnt", s->per_voxel, 1, 1, true, err)) ||
        (rc = check_trait(a->name, "leak_coefficient", s->leak, 0, 1, false, err)) ||
        (rc = check_trait(a->name, "leak_variability", s->leak_variability, 0, 0, false, err)) ||
        (rc = check_trait(a->name, "degeneration", s->degeneration, 0, 0, false, err)) ||
        (rc = check_trait(a->name, "refractory_period", s->refractory, 0, UINT16_MAX, true, err)) ||
        (rc = check_trait(a->name, "consecutive_fire_cnt_max", a->of.fire_limit, 0, UINT16_MAX, true, err)) ||
        (rc = check_trait(a->name, "snooze_length", a->of.snooze, 0, UINT16_MAX, true, err)))
        return rc;
    return s->excitability == 100 ? 0 : check_trait(a->name, "neuron_excitability", s->excitability, 0, 1, false, err);
}

static int sow_area(struct growth *g, struct sprout *a, const char *name, struct err *err) {
    int rc;
    a->name = name;
    if ((rc = feagi_genome_area(g->genome, name, &a->of, err)) || (rc = feagi_genome_seeds(g->genome, name, &a->seeds, err)) ||
        (rc = check_seeds(a, err)))
        return rc;
    a->first = g->neurons;
    a->n = 1;
    for (int i = 0; i < 3; i++) {
        a->size.at[i] = (uint32_t)a->seeds.size[i];
        a->n *= a->size.at[i];
        if (a->n > MOST_NEURONS - g->neurons)
            return err_set(err, ERR_EXHAUSTED, "with area %s the genome has more than %d neurons", name, MOST_NEURONS);
    }
    g->neurons += a->n;
    return 0;
}

static int sow_areas(struct growth *g, struct err *err) {
    int n, rc = feagi_genome_names(g->genome, &g->names, &n, err);
    if (rc)
        return rc;
    if (n > CONNECTOME_MOST_AREAS)
        return err_set(err, ERR_UNSUPPORTED, "%d areas; expected at most %d", n, CONNECTOME_MOST_AREAS);
    if (!(g->areas = calloc((size_t)n + 1, sizeof *g->areas)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d areas", n);
    for (int core = 0; core <= CORE_AREAS; core++)
        for (int i = 0; i < n && !rc; i++)
            if (core_of(g->names[i]) == core)
                rc = sow_area(g, &g->areas[g->n_areas++], g->names[i], err);
    return rc;
}

static int sow_neurons(struct growth *g, struct err *err) {
#define ALLOC(type, name) ok = ok && (g->name = calloc((size_t)g->neurons + 1, sizeof *g->name));
    bool ok = true;
    NEURONS(ALLOC)
    if (!ok)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld neurons", (long long)g->neurons);
    for (int k = 0; k < g->n_areas; k++) {
        const struct sprout *a = &g->areas[k];
        const struct feagi_seeds *s = &a->seeds;
        for (int64_t i = 0; i < a->n; i++) {
            int64_t id = a->first + i, z = i % a->size.at[2], y = i / a->size.at[2] % a->size.at[1],
                    x = i / a->size.at[2] / a->size.at[1];
            g->threshold[id] = (float)s->threshold + (float)x * (float)s->threshold_x + (float)y * (float)s->threshold_y +
                               (float)z * (float)s->threshold_z;
            g->threshold_limit[id] = (float)a->of.threshold_limit;
            g->leak[id] = (float)s->leak;
            g->excitability[id] = s->excitability > 1 ? 1 : (float)s->excitability;
            g->refractory[id] = (uint16_t)s->refractory;
            g->fire_limit[id] = (uint16_t)a->of.fire_limit;
            g->snooze[id] = (uint16_t)a->of.snooze;
            g->accumulate[id] = a->of.accumulates != 0;
            g->area[id] = (uint32_t)k;
        }
    }
    return 0;
}

/* ---- synapses --------------------------------------------------------------------------------------------------- */

/* One rule of a mapping, an object or a list. */
struct rule {
    const char *morphology;
    int weight;
    uint8_t delay;
};

static double number_or(const struct json *value, double absent) { return value ? json_f64(value, NAN) : absent; }

static bool is_one(const struct json *scalar) {
    bool one = json_count(scalar) > 0 || number_or(scalar, 1) == 1;
    for (size_t i = 0; i < json_count(scalar); i++)
        one = one && json_f64(json_at(scalar, i), 0) == 1;
    return one;
}

static int read_rule(const char *from, const struct json *j, struct rule *ret, struct err *err) {
    bool list = json_kind(j) == JSON_KIND_ARRAY;
    const struct json *gate = json_get(j, "gate_source_area");
    double weight = number_or(list ? json_at(j, 2) : json_get(j, "postSynapticCurrent_multiplier"), 1);
    double delay = number_or(list ? json_at(j, 8) : json_get(j, "synaptic_delay_bursts"), 1);
    int rc;
    *ret = (struct rule){.morphology = json_str(list ? json_at(j, 0) : json_get(j, "morphology_id"), NULL)};
    if (!ret->morphology)
        return err_set(err, ERR_INVALID, "area %s: a rule of its mappings has no morphology_id", from);
    if (!is_one(list ? json_at(j, 1) : json_get(j, "morphology_scalar")))
        return err_set(err, ERR_UNSUPPORTED,
                       "area %s: the morphology_scalar of %s is not 1; versions of FEAGI differ on what it does", from,
                       ret->morphology);
    if (json_str(gate, NULL))
        return err_set(err, ERR_UNSUPPORTED, "area %s: %s has a gate_source_area, which the engine's synapses have not", from,
                       ret->morphology);
    if ((rc = check_trait(from, "postSynapticCurrent_multiplier", weight, -UINT8_MAX, UINT8_MAX, true, err)) ||
        (rc = check_trait(from, "synaptic_delay_bursts", delay, 1, UINT8_MAX, true, err)) ||
        (rc = check_trait(from, "synapse_attractivity", number_or(json_get(j, "synapse_attractivity"), 100), 100, 100, true, err)))
        return rc;
    ret->weight = (int)weight;
    ret->delay = (uint8_t)delay;
    return 0;
}

/* A rule between two areas. */
struct link {
    const struct sprout *from, *to;
    struct rule rule;
    bool unites;
};

static void put_synapse(struct growth *g, const struct link *l, uint32_t source, uint32_t target) {
    int64_t i = g->synapses;
    g->src[i] = source;
    g->dst[i] = target;
    g->weight[i] = (uint8_t)abs(l->rule.weight);
    g->psp[i] = l->from->of.driven != 0 ? 0 : (uint8_t)l->from->seeds.psp;
    g->type[i] = l->rule.weight < 0;
    g->delay[i] = l->rule.delay;
}

/* Connects the source with every combination of the lists. A rule that unites its parts connects it with each target once. */
static void connect_targets(struct growth *g, const struct link *l, uint32_t source, const struct feagi_targets *t) {
    const uint32_t *size = l->to->size.at;
    if (!g->src && !l->unites) {
        g->synapses += (int64_t)t->n[0] * t->n[1] * t->n[2]; /* at most MOST_NEURONS */
        return;
    }
    for (uint32_t x = 0; x < t->n[0]; x++)
        for (uint32_t y = 0; y < t->n[1]; y++)
            for (uint32_t z = 0; z < t->n[2]; z++) {
                uint32_t target = (uint32_t)l->to->first + (t->along[0][x] * size[1] + t->along[1][y]) * size[2] + t->along[2][z];
                if (l->unites && g->reached[target] == source + 1)
                    continue;
                g->reached[target] = source + 1;
                if (g->src)
                    put_synapse(g, l, source, target);
                g->synapses++;
            }
}

static int connect_areas(struct growth *g, struct link *l, struct err *err) {
    OWNED_POINTER(feagi_morphology_free) struct feagi_morphology *m = NULL;
    int rc = feagi_morphology_new(feagi_genome_morphologies(g->genome), l->rule.morphology, &m, err);
    if (rc)
        return rc;
    struct feagi_targets t = {.along = {g->scratch, g->scratch + MOST_LENGTH, g->scratch + (ptrdiff_t)2 * MOST_LENGTH}};
    const struct feagi_voxel *size = &l->from->size;
    struct feagi_voxel at;
    uint32_t source = (uint32_t)l->from->first;
    int parts = feagi_morphology_parts(m);
    l->unites = feagi_morphology_unites(m) && parts > 1;
    memset(g->reached + l->to->first, 0, (size_t)l->to->n * sizeof *g->reached);
    for (at.at[0] = 0; at.at[0] < size->at[0]; at.at[0]++)
        for (at.at[1] = 0; at.at[1] < size->at[1]; at.at[1]++)
            for (at.at[2] = 0; at.at[2] < size->at[2]; at.at[2]++, source++)
                for (int part = 0; part < parts && g->synapses <= MOST_SYNAPSES; part++) {
                    feagi_morphology_aim(m, part, size, &l->to->size, &at, &t);
                    connect_targets(g, l, source, &t);
                }
    return g->synapses <= MOST_SYNAPSES
               ? 0
               : err_set(err, ERR_EXHAUSTED, "with %s from area %s to %s the genome has more than %d synapses", l->rule.morphology,
                         l->from->name, l->to->name, MOST_SYNAPSES);
}

static const struct sprout *area_called(const struct growth *g, const char *name) {
    for (int i = 0; i < g->n_areas; i++)
        if (!strcmp(g->areas[i].name, name))
            return &g->areas[i];
    return NULL;
}

/* The rules of one pair of areas. */
static int connect_pair(struct growth *g, const struct sprout *from, const char *target, const struct json *rules,
                        struct err *err) {
    const struct sprout *to = area_called(g, target);
    int rc = 0;
    if (!json_count(rules))
        return 0;
    if (!to)
        return err_set(err, ERR_INVALID, "area %s has synapses to area %s, which the genome has not", from->name, target);
    if ((rc = check_trait(from->name, "synapse_attractivity", from->seeds.attractivity, 100, 100, true, err)) ||
        (rc = check_trait(to->name, "synapse_attractivity", to->seeds.attractivity, 100, 100, true, err)))
        return rc;
    if (from->of.driven == 0 && (rc = check_trait(from->name, "postsynaptic_current", from->seeds.psp, 0, UINT8_MAX, true, err)))
        return rc;
    for (size_t i = 0; i < json_count(rules) && !rc; i++) {
        struct link l = {.from = from, .to = to};
        if ((rc = read_rule(from->name, json_at(rules, i), &l.rule, err)) || (rc = connect_areas(g, &l, err)))
            break;
        g->delayed |= l.rule.delay > 1;
    }
    return rc;
}

static int connect_all(struct growth *g, struct err *err) {
    int rc = 0;
    g->synapses = 0;
    for (int i = 0; i < g->n_areas; i++) {
        struct json_cursor at = {0};
        const char *target;
        const struct json *rules;
        while (!rc && json_next(g->areas[i].seeds.mappings, &at, &target, &rules))
            rc = connect_pair(g, &g->areas[i], target, rules, err);
    }
    return rc;
}

/* Counts, allocates, and fills. */
static int sow_synapses(struct growth *g, struct err *err) {
    bool ok = (g->reached = calloc((size_t)g->neurons + 1, sizeof *g->reached)) &&
              (g->scratch = malloc((size_t)3 * MOST_LENGTH * sizeof *g->scratch));
    int rc = ok ? connect_all(g, err) : err_set(err, ERR_EXHAUSTED, "out of memory for %lld neurons", (long long)g->neurons);
    if (rc)
        return rc;
    int64_t n = g->synapses;
#define ROOM(type, name) ok = ok && (g->name = malloc(((size_t)n + 1) * sizeof *g->name));
    SYNAPSES(ROOM)
    return ok ? connect_all(g, err) : err_set(err, ERR_EXHAUSTED, "out of memory for %lld synapses", (long long)n);
}

static int save_growth(const struct growth *g, const char *output, struct err *err) {
    OWNED_MEMORY struct connectome_area *areas = calloc((size_t)g->n_areas + 1, sizeof *areas);
    OWNED_POINTER(connectome_free) struct connectome *c = NULL;
    char sha256[DIGEST_HEX_SIZE];
    int rc;
    if (!areas)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d areas", g->n_areas);
    for (int i = 0; i < g->n_areas; i++) {
        const struct sprout *a = &g->areas[i];
        areas[i] = (struct connectome_area){
            .psp_divide = a->of.uniform == 0, .mp_driven_psp = a->of.driven != 0, .power = core_of(a->name) == 1 ? POWER : 0};
        str_copy(areas[i].name, sizeof areas->name, a->name);
    }
    struct connectome_arrays arrays = {.neurons = g->neurons, .synapses = g->synapses, .areas = areas, .n_areas = g->n_areas};
#define ARRAY(type, name) arrays.name = g->name;
    NEURONS(ARRAY)
    SYNAPSES(ARRAY)
    if (!g->delayed)
        arrays.delay = NULL;
    if ((rc = connectome_new(&arrays, 0, &c, err)))
        return rc;
    return netfile_save(output, c, NULL, sha256, err);
}

int feagi_grow(const char *path, const char *output, struct feagi_told *ret, struct err *err) {
    OWNED(growth_done) struct growth g = {0};
    OWNED_POINTER(feagi_genome_free) struct feagi_genome *genome = NULL;
    int rc = feagi_genome_load(path, &genome, err);
    g.genome = genome;
    if (rc || (rc = sow_areas(&g, err)) || (rc = sow_neurons(&g, err)) || (rc = sow_synapses(&g, err)) ||
        (rc = save_growth(&g, output, err)))
        return rc;
    *ret = (struct feagi_told){.neurons = g.neurons, .synapses = g.synapses};
    return 0;
}
