#include "base/base.h"
#include "client/brrctl/sonata/sonata_parts.h"

/* LARGEST: of the sum of two synapses whose weight and psp are at most 255; ROUNDED: the steps of weights that have no unit. */
enum { MOST_DECIMALS = 9, LARGEST = 255 * 255 + 254, ROUNDED = 255 * 255 };

/* Attributes that edges of a group have themselves. */
struct group {
    double *weight, *delay, *nsyns;
    int64_t weights, delays, counts;
    bool loaded;
};
/* The edges of a population while they are read. */
struct edges_reading {
    struct sonata_network *net;
    const struct hdf5_file *file;
    const struct sonata_types *types;
    const char *name;
    const struct sonata_population *from, *to;
    int64_t n, *sources, *targets, *type_ids, *group_ids, *indices;
    struct group groups[SONATA_MOST_GROUPS];
};

/* ---- an edge ---------------------------------------------------------------------------------------------------- */

static int load_list(const struct edges_reading *r, int64_t group, const char *name, double **ret, int64_t *ret_n,
                     struct err *err) {
    char path[256];
    str_format(path, sizeof path, "edges/%s/%lld/%s", r->name, (long long)group, name);
    return hdf5_has(r->file, path) ? hdf5_real(r->file, path, ret, ret_n, err) : 0;
}

static int group_of(struct edges_reading *r, int64_t edge, struct group **ret, struct err *err) {
    int64_t id = r->group_ids ? r->group_ids[edge] : 0;
    char path[256];
    int rc;
    if (id < 0 || id >= SONATA_MOST_GROUPS)
        return err_set(err, ERR_UNSUPPORTED, "edge %lld is of group %lld; expected 0 to %d", (long long)edge, (long long)id,
                       SONATA_MOST_GROUPS - 1);
    struct group *g = *ret = &r->groups[id];
    if (g->loaded)
        return 0;
    g->loaded = true;
    str_format(path, sizeof path, "edges/%s/%lld/dynamics_params", r->name, (long long)id);
    char first[64];
    if (hdf5_has(r->file, path) && (rc = hdf5_entry(r->file, path, 0, first, sizeof first, err)) != ERR_NOT_FOUND)
        return rc ? rc
                  : err_set(err, ERR_UNSUPPORTED, "/%s/%s: synapses of the engine have no parameters of their own", path, first);
    (void)((rc = load_list(r, id, "syn_weight", &g->weight, &g->weights, err)) ||
           (rc = load_list(r, id, "delay", &g->delay, &g->delays, err)) ||
           (rc = load_list(r, id, "nsyns", &g->nsyns, &g->counts, err)));
    return rc;
}

/* The group's value where it has the attribute, else the type's. */
static int attribute(const struct edges_reading *r, const double *list, int64_t n, int64_t edge, double *value, struct err *err) {
    int64_t at = r->indices ? r->indices[edge] : edge;
    if (!list)
        return 0;
    if (at < 0 || at >= n)
        return err_set(err, ERR_INVALID, "edge %lld has index %lld in a group of %lld", (long long)edge, (long long)at,
                       (long long)n);
    *value = list[at];
    return 0;
}

static int check_types(const struct sonata_types *t, struct err *err) {
    static const char *const columns[][2] = {{"weight_function", "wmax"}, {"model_template", "static_synapse"}};
    for (int row = 0; row < t->n; row++)
        for (int i = 0; i < 2; i++) {
            const char *text = sonata_types_text(t, row, columns[i][0]);
            if (text && strcmp(text, columns[i][1]) != 0)
                return err_set(err, ERR_UNSUPPORTED, "%s: %s of edge type %lld is %s; expected %s or none", t->path, columns[i][0],
                               (long long)t->ids[row], text, columns[i][1]);
        }
    return 0;
}

static int check_parameters(const struct sonata_types *t, struct err *err) {
    const char *key;
    const struct json *value;
    for (int row = 0; row < t->n; row++)
        for (struct json_cursor at = {0}; json_next(t->own[row], &at, &key, &value);)
            if (strcmp(key, "sign") != 0 && strcmp(key, "level_of_detail") != 0)
                return err_set(err, ERR_UNSUPPORTED, "%s: parameter %s: the engine has none such", t->own_path[row], key);
    return 0;
}

static int64_t divisor_of(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* A weight joins those of its target. */
static void join_unit(struct sonata_unit *u, double weight) {
    double size = fabs(weight);
    u->largest = fmax(u->largest, size);
    if (u->decimals < 0)
        return;
    for (int more = u->decimals; more <= MOST_DECIMALS; more++) {
        double scaled = size * pow(10, more), whole = rint(scaled);
        if (fabs(scaled - whole) > 1e-9 * whole || !(whole < 0x1p53))
            continue;
        while (u->decimals < more && u->common < UINT64_MAX / 10) {
            u->common *= 10;
            u->decimals++;
        }
        if (u->decimals != more)
            break;
        u->common = (uint64_t)divisor_of((int64_t)whole, (int64_t)u->common);
        return;
    }
    u->decimals = -1;
}

static int room_for(struct sonata_network *n, struct err *err) {
    if (n->edges < n->room)
        return 0;
    n->room = n->room ? 2 * n->room : 4096;
    struct {
        void **array;
        size_t each;
    } const arrays[] = {{(void **)&n->src, sizeof *n->src},
                        {(void **)&n->dst, sizeof *n->dst},
                        {(void **)&n->weight, sizeof *n->weight},
                        {(void **)&n->delay, sizeof *n->delay}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        void *bigger = realloc(*arrays[i].array, (size_t)n->room * arrays[i].each);
        if (!bigger)
            return err_set(err, ERR_EXHAUSTED, "out of memory for %lld edges", (long long)n->room);
        *arrays[i].array = bigger;
    }
    return 0;
}

static int put_edge(struct edges_reading *r, int64_t edge, int row, struct err *err) {
    struct sonata_network *n = r->net;
    double weight = NAN, delay = NAN, nsyns = 1;
    struct group *g = NULL;
    int ticks, rc;
    if ((rc = group_of(r, edge, &g, err)) || (rc = sonata_types_number(r->types, row, "syn_weight", &weight, err)) ||
        (rc = sonata_types_number(r->types, row, "delay", &delay, err)) ||
        (rc = sonata_types_number(r->types, row, "nsyns", &nsyns, err)) ||
        (rc = attribute(r, g->weight, g->weights, edge, &weight, err)) ||
        (rc = attribute(r, g->delay, g->delays, edge, &delay, err)) ||
        (rc = attribute(r, g->nsyns, g->counts, edge, &nsyns, err)) || (rc = room_for(n, err)))
        return rc;
    int64_t source = sonata_neuron_of(r->from, r->sources[edge]), target = sonata_neuron_of(r->to, r->targets[edge]);
    if (source < 0 || target < 0)
        return err_set(err, ERR_INVALID, "edge %lld is from node %lld to node %lld; population %s has no such node",
                       (long long)edge, (long long)r->sources[edge], (long long)r->targets[edge],
                       source < 0 ? r->from->name : r->to->name);
    if (n->model[target] == SONATA_VIRTUAL)
        return err_set(err, ERR_INVALID, "edge %lld ends at node %lld of population %s, which is virtual", (long long)edge,
                       (long long)r->targets[edge], r->to->name);
    if (!isfinite(weight) || !isfinite(delay) || !(nsyns >= 0 && nsyns == floor(nsyns)))
        return err_set(err, ERR_INVALID, "edge %lld has no syn_weight, no delay, or an nsyns that is no whole number",
                       (long long)edge);
    bool at_once = n->model[target] != SONATA_EXPONENTIAL;
    if (sonata_ticks(n, delay, 1 + at_once, SPIKE_MOST_DELAY + at_once, "its delay", &ticks, err))
        return err_wrap(err, "edge %lld cannot be imported", (long long)edge);
    weight *= nsyns * json_f64(json_get(row < 0 ? NULL : r->types->own[row], "sign"), 1);
    if (weight == 0)
        return 0;
    n->src[n->edges] = (uint32_t)source;
    n->dst[n->edges] = (uint32_t)target;
    n->weight[n->edges] = weight;
    n->delay[n->edges++] = (uint8_t)(ticks - at_once);
    join_unit(&n->units[target], weight);
    return 0;
}

/* ---- populations ------------------------------------------------------------------------------------------------ */

static int endpoint(struct edges_reading *r, const char *array, int64_t **ret, const struct sonata_population **ret_of,
                    struct err *err) {
    char path[256], name[64];
    int64_t n = 0;
    str_format(path, sizeof path, "edges/%s/%s", r->name, array);
    int rc = hdf5_whole(r->file, path, ret, &n, err);
    if (rc || (rc = hdf5_text(r->file, path, "node_population", name, sizeof name, err)))
        return rc;
    if (r->sources != *ret && n != r->n)
        return err_set(err, ERR_INVALID, "/%s has %lld elements; expected %lld", path, (long long)n, (long long)r->n);
    r->n = n;
    *ret_of = sonata_population_of(r->net, name);
    return *ret_of ? 0 : err_set(err, ERR_INVALID, "/%s is of population %s, which no nodes file has", path, name);
}

static int of_edges(const struct edges_reading *r, const char *array, int64_t **ret, struct err *err) {
    char path[256];
    str_format(path, sizeof path, "edges/%s/%s", r->name, array);
    return hdf5_optional(r->file, path, r->n, ret, err);
}

static int put_population(struct edges_reading *r, struct err *err) {
    int rc = 0;
    for (int64_t edge = 0, type = -1, row = -1; !rc && edge < r->n; edge++) {
        if (r->type_ids && (r->type_ids[edge] != type || row < 0)) {
            type = r->type_ids[edge];
            row = sonata_types_row(r->types, type);
            if (row < 0)
                return err_set(err, ERR_INVALID, "%s has no edge type %lld, which edge %lld has",
                               *r->types->path ? r->types->path : "the circuit", (long long)type, (long long)edge);
        }
        rc = put_edge(r, edge, (int)row, err);
    }
    return rc;
}

static int read_population(struct edges_reading *r, struct err *err) {
    int rc;
    (void)((rc = endpoint(r, "source_node_id", &r->sources, &r->from, err)) ||
           (rc = endpoint(r, "target_node_id", &r->targets, &r->to, err)) ||
           (rc = of_edges(r, "edge_type_id", &r->type_ids, err)) || (rc = of_edges(r, "edge_group_id", &r->group_ids, err)) ||
           (rc = of_edges(r, "edge_group_index", &r->indices, err)) || (rc = put_population(r, err)));
    int64_t *const lists[] = {r->sources, r->targets, r->type_ids, r->group_ids, r->indices};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        free(lists[i]);
    for (int i = 0; i < SONATA_MOST_GROUPS; i++) {
        FREE_MEMBERS(r->groups[i], weight, delay, nsyns);
    }
    return rc;
}

static int read_edges_file(struct sonata_network *n, const struct sonata_config *c, const struct json *entry, struct err *err) {
    char edges[4096], types_path[4096], name[64];
    OWNED(sonata_types_done) struct sonata_types types = {0};
    OWNED_POINTER(hdf5_close) struct hdf5_file *file = NULL;
    int rc;
    if ((rc = sonata_circuit_file(c, entry, "edges_file", edges, err)) ||
        (rc = sonata_circuit_file(c, entry, "edge_types_file", types_path, err)) || (rc = hdf5_open(edges, &file, err)) ||
        (rc = sonata_types_load(types_path, "edge_type_id", &types, err)) || (rc = check_types(&types, err)) ||
        (rc = sonata_types_parameters(&types, c, "synaptic_models_dir", err)) || (rc = check_parameters(&types, err)))
        return rc;
    for (int64_t i = 0; !(rc = hdf5_entry(file, "edges", i, name, sizeof name, err)); i++) {
        struct edges_reading r = {.net = n, .file = file, .types = &types, .name = name};
        if (read_population(&r, err))
            return err_wrap(err, "%s cannot be imported", edges);
    }
    return rc == ERR_NOT_FOUND ? 0 : rc;
}

int sonata_edges_read(struct sonata_network *n, const struct sonata_config *c, struct err *err) {
    const struct json *files = json_get(json_get(c->circuit.json, "networks"), "edges");
    int rc = 0;
    for (size_t i = 0; !rc && i < json_count(files); i++)
        rc = read_edges_file(n, c, json_at(files, i), err);
    return rc;
}

/* ---- synapses --------------------------------------------------------------------------------------------------- */

/* The unit of each neuron's weights, in its gain. Returns those of the neurons as numbers. */
static double *take_units(struct sonata_network *n) {
    double *units = malloc((size_t)n->neurons * sizeof *units + 1);
    for (int64_t i = 0; units && i < n->neurons; i++) {
        const struct sonata_unit *u = &n->units[i];
        double common = u->decimals < 0 ? 0 : (double)u->common / pow(10, u->decimals);
        bool exact = u->largest <= LARGEST * common;
        units[i] = exact ? common : u->largest / ROUNDED;
        n->rounded += !exact;
        if (u->largest > 0)
            n->current_gain[i] = (float)((double)n->current_gain[i] * units[i]);
    }
    return units;
}

struct packed_synapses {
    uint32_t *src, *dst;
    uint8_t *weight, *psp, *type, *delay;
    int64_t n;
};

static void put_synapse(struct packed_synapses *s, const struct sonata_network *n, int64_t edge, int weight, int psp) {
    s->src[s->n] = n->src[edge];
    s->dst[s->n] = n->dst[edge];
    s->weight[s->n] = (uint8_t)weight;
    s->psp[s->n] = (uint8_t)psp;
    s->type[s->n] = n->weight[edge] < 0;
    s->delay[s->n++] = n->delay[edge];
}

/* A whole weight is one product of two numbers up to 255, or that and a rest. */
static void put_weight(struct packed_synapses *s, const struct sonata_network *n, int64_t edge, int whole) {
    int psp = (whole + 254) / 255;
    while (psp && psp <= 255 && whole % psp)
        psp++;
    if (psp > 255) {
        put_synapse(s, n, edge, 255, whole / 255);
        put_synapse(s, n, edge, whole % 255, 1);
    } else if (psp) {
        put_synapse(s, n, edge, whole / psp, psp);
    }
}

int sonata_edges_pack(struct sonata_network *n, struct connectome_arrays *ret, void **ret_memory, struct err *err) {
    OWNED_MEMORY double *units = take_units(n);
    size_t most = 2 * (size_t)n->edges + 1;
    struct packed_synapses s = {0};
    char *memory = malloc(most * (2 * sizeof *s.src + 4));
    if (!memory || !units) {
        free(memory);
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld edges", (long long)n->edges);
    }
    s.src = (uint32_t *)(void *)memory;
    s.dst = s.src + most;
    s.weight = (uint8_t *)(s.dst + most);
    s.psp = s.weight + most;
    s.type = s.psp + most;
    s.delay = s.type + most;
    for (int64_t e = 0; e < n->edges; e++)
        put_weight(&s, n, e, (int)rint(fabs(n->weight[e]) / units[n->dst[e]]));
    ret->synapses = s.n;
    COPY_MEMBERS(*ret, s, src, dst, weight, psp, type, delay);
    *ret_memory = memory;
    return 0;
}
