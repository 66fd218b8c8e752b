#include "base/base.h"
#include "client/brrctl/sonata/sonata_parts.h"

/* Parameters that nodes of a group have themselves. */
struct node_parameter {
    char name[64];
    double *values;
    int64_t n;
};
struct node_group {
    struct node_parameter *own;
    int n;
    bool loaded;
};
/* The nodes of a population while they are read. */
struct nodes_reading {
    struct sonata_network *net;
    const struct hdf5_file *file;
    const struct sonata_types *types;
    char group[128]; /* "nodes/NAME" */
    int64_t n;
    int64_t *type_ids, *ids, *group_ids, *indices; /* ids, group_ids, indices: NULL where the file has none */
    int *area_of_type;                             /* (types->n) −1: none yet */
    struct node_group groups[SONATA_MOST_GROUPS];
};

static const char *const models[] = {"", "nrn:IntFire1", "nest:iaf_psc_delta", "nest:iaf_psc_exp"};

/* ---- parameters of a node --------------------------------------------------------------------------------------- */

static int64_t group_of(const struct nodes_reading *r, int64_t node) { return r->group_ids ? r->group_ids[node] : 0; }

static int load_parameter(const struct nodes_reading *r, const char *folder, const char *name, struct node_group *g,
                          struct err *err) {
    char path[256];
    struct node_parameter *all = realloc(g->own, ((size_t)g->n + 1) * sizeof *all);
    if (!all)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the parameters of /%s", folder);
    g->own = all;
    struct node_parameter *p = &all[g->n++];
    *p = (struct node_parameter){0};
    str_copy(p->name, sizeof p->name, name);
    str_format(path, sizeof path, "%s/%s", folder, name);
    return hdf5_real(r->file, path, &p->values, &p->n, err);
}

/* All lists `dynamics_params/NAME` of the node's group, once. */
static int load_group(struct nodes_reading *r, int64_t node, struct err *err) {
    int64_t id = group_of(r, node);
    char folder[192], name[64];
    int rc;
    if (id < 0 || id >= SONATA_MOST_GROUPS)
        return err_set(err, ERR_UNSUPPORTED, "node %lld is of group %lld; expected 0 to %d", (long long)node, (long long)id,
                       SONATA_MOST_GROUPS - 1);
    struct node_group *g = &r->groups[id];
    str_format(folder, sizeof folder, "%s/%lld/dynamics_params", r->group, (long long)id);
    if (g->loaded)
        return 0;
    g->loaded = true;
    if (!hdf5_has(r->file, folder))
        return 0;
    for (int64_t i = 0; !(rc = hdf5_entry(r->file, folder, i, name, sizeof name, err)); i++)
        if ((rc = load_parameter(r, folder, name, g, err)))
            return rc;
    return rc == ERR_NOT_FOUND ? 0 : rc;
}

static int own_value(const struct nodes_reading *r, int64_t node, const struct node_parameter *p, double *ret, struct err *err) {
    int64_t at = r->indices ? r->indices[node] : node;
    if (at < 0 || at >= p->n)
        return err_set(err, ERR_INVALID, "/%s/%lld/dynamics_params/%s has %lld values; node %lld has index %lld", r->group,
                       (long long)group_of(r, node), p->name, (long long)p->n, (long long)node, (long long)at);
    *ret = p->values[at];
    return isfinite(*ret) ? 0
                          : err_set(err, ERR_INVALID, "/%s/%lld/dynamics_params/%s: value %lld is no number", r->group,
                                    (long long)group_of(r, node), p->name, (long long)at);
}

/* A parameter: of the node's group, else of its type's file, else *ret; NAN: it must be there. */
static int parameter(const struct nodes_reading *r, int64_t node, int row, const char *name, double *ret, struct err *err) {
    const struct node_group *g = &r->groups[group_of(r, node)];
    const struct json *value = json_get(r->types->own[row], name);
    for (int i = 0; i < g->n; i++)
        if (!strcmp(g->own[i].name, name))
            return own_value(r, node, &g->own[i], ret, err);
    if (value)
        *ret = json_f64(value, NAN);
    return isfinite(*ret)
               ? 0
               : err_set(err, ERR_INVALID, "%s: parameter %s of node type %lld is missing or no number",
                         r->types->own[row] ? r->types->own_path[row] : r->types->path, name, (long long)r->types->ids[row]);
}

static bool is_allowed(const char *name, const char *allowed) {
    char word[128];
    return str_format(word, sizeof word, " %s ", name) && strstr(allowed, word);
}

/* Parameters that a type's file or the node's group has and the engine has not; allowed: " name name ". */
static int check_names(const struct nodes_reading *r, int64_t node, int row, const char *allowed, struct err *err) {
    const struct node_group *g = &r->groups[group_of(r, node)];
    struct json_cursor at = {0};
    const char *key;
    const struct json *value;
    while (json_next(r->types->own[row], &at, &key, &value))
        if (!is_allowed(key, allowed))
            return err_set(err, ERR_UNSUPPORTED, "%s: parameter %s: the engine has none such", r->types->own_path[row], key);
    for (int i = 0; i < g->n; i++)
        if (!is_allowed(g->own[i].name, allowed))
            return err_set(err, ERR_UNSUPPORTED, "/%s/%lld/dynamics_params/%s: the engine has no such parameter", r->group,
                           (long long)group_of(r, node), g->own[i].name);
    return 0;
}

int sonata_ticks(const struct sonata_network *n, double ms, int low, int high, const char *what, int *ret, struct err *err) {
    double ticks = ms / n->tick_ms;
    if (!(fabs(ticks - rint(ticks)) <= 1e-6 * fmax(ticks, 1)))
        return err_set(err, ERR_INVALID, "%s: %g ms is no multiple of the tick of %g ms; choose another one with --tick", what, ms,
                       n->tick_ms);
    if (rint(ticks) < low || rint(ticks) > high)
        return err_set(err, ERR_INVALID, "%s: %g ms are %.0f ticks of %g ms; expected %d to %d: choose another tick with --tick",
                       what, ms, ticks, n->tick_ms, low, high);
    *ret = (int)rint(ticks);
    return 0;
}

static int positive(const char *name, double value, struct err *err) {
    return value > 0 ? 0 : err_set(err, ERR_INVALID, "parameter %s is %g; expected a time above 0", name, value);
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

static void put_membrane(struct sonata_network *net, int64_t i, double tau_ms, double threshold, double v) {
    net->threshold[i] = (float)threshold;
    net->leak[i] = (float)-expm1(-net->tick_ms / tau_ms);
    net->v[i] = (float)v;
    net->current_leak[i] = 1;
    net->current_gain[i] = 1;
}

/* Seconds; fires above 1. */
static int put_intfire1(const struct nodes_reading *r, int64_t node, int row, int64_t i, struct err *err) {
    double tau = NAN, refractory = NAN;
    int ticks, rc;
    if ((rc = check_names(r, node, row, " type tau refrac ", err)) || (rc = parameter(r, node, row, "tau", &tau, err)) ||
        (rc = parameter(r, node, row, "refrac", &refractory, err)) || (rc = positive("tau", tau, err)) ||
        (rc = sonata_ticks(r->net, refractory * 1000, 0, 65535, "refrac", &ticks, err)))
        return rc;
    put_membrane(r->net, i, tau * 1000, (double)nextafterf(1, 2), 0);
    r->net->refractory[i] = (uint16_t)ticks;
    return 0;
}

/* A current of 1 that decays with tau_s adds this to a membrane in a tick. */
static double gain_of(double tick, double tau_m, double tau_s, double capacity) {
    double kept = exp(-tick / tau_m), current_kept = exp(-tick / tau_s);
    if (fabs(tau_m - tau_s) < 1e-9 * tau_m)
        return tick / capacity * kept;
    return (kept - current_kept) / (1 / tau_s - 1 / tau_m) / capacity;
}

static int put_currents(const struct nodes_reading *r, int64_t node, int row, int64_t i, double tau_m, struct err *err) {
    double excitatory = NAN, inhibitory = NAN, capacity = NAN;
    int rc;
    if ((rc = parameter(r, node, row, "tau_syn_ex", &excitatory, err)) ||
        (rc = parameter(r, node, row, "tau_syn_in", &inhibitory, err)) || (rc = parameter(r, node, row, "C_m", &capacity, err)) ||
        (rc = positive("tau_syn_ex", excitatory, err)) || (rc = positive("C_m", capacity, err)))
        return rc;
    if (fabs(excitatory - inhibitory) > 1e-9 * excitatory)
        return err_set(err, ERR_UNSUPPORTED,
                       "tau_syn_ex is %g ms and tau_syn_in %g ms; the engine has one time for a neuron's synapses", excitatory,
                       inhibitory);
    r->net->current_leak[i] = (float)-expm1(-r->net->tick_ms / excitatory);
    r->net->current_gain[i] = (float)gain_of(r->net->tick_ms, tau_m, excitatory, capacity);
    return 0;
}

/* Membranes are kept from E_L on. */
static int put_nest(const struct nodes_reading *r, int64_t node, int row, int64_t i, struct err *err) {
    static const char *const names[] = {"tau_m", "E_L", "V_th", "V_reset", "t_ref"};
    enum { TAU, REST, THRESHOLD, RESET, REFRACTORY, NAMES };
    double p[NAMES] = {NAN, NAN, NAN, NAN, NAN}, constant = 0, v;
    int ticks, rc = check_names(r, node, row, " tau_m E_L V_th V_reset t_ref C_m tau_syn_ex tau_syn_in V_m I_e ", err);
    for (int k = 0; !rc && k < NAMES; k++)
        rc = parameter(r, node, row, names[k], &p[k], err);
    v = p[REST];
    if (rc || (rc = parameter(r, node, row, "V_m", &v, err)) || (rc = parameter(r, node, row, "I_e", &constant, err)) ||
        (rc = positive("tau_m", p[TAU], err)) || (rc = sonata_ticks(r->net, p[REFRACTORY], 0, 65535, "t_ref", &ticks, err)))
        return rc;
    if (p[RESET] != p[REST])
        return err_set(err, ERR_UNSUPPORTED, "V_reset is %g and E_L %g; the engine's neurons rest where they are reset to",
                       p[RESET], p[REST]);
    if (constant != 0)
        return err_set(err, ERR_UNSUPPORTED, "I_e is %g; the engine's constants belong to areas, not to neurons", constant);
    put_membrane(r->net, i, p[TAU], p[THRESHOLD] - p[REST], v - p[REST]);
    r->net->refractory[i] = (uint16_t)ticks;
    return r->net->model[i] == SONATA_EXPONENTIAL ? put_currents(r, node, row, i, p[TAU], err) : 0;
}

static int model_of(const struct sonata_types *types, int row, enum sonata_model *ret, struct err *err) {
    const char *type = sonata_types_text(types, row, "model_type"), *name = sonata_types_text(types, row, "model_template");
    *ret = SONATA_VIRTUAL;
    if (type && !strcmp(type, "virtual"))
        return 0;
    if (!type || (strcmp(type, "point_process") != 0 && strcmp(type, "point_neuron") != 0))
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: node type %lld is of model_type %s; expected virtual, point_neuron or point_process", types->path,
                       (long long)types->ids[row], type ? type : "NULL");
    for (enum sonata_model m = SONATA_INTFIRE1; m <= SONATA_EXPONENTIAL; m++)
        if (name && !strcmp(name, models[m]))
            *ret = m;
    return *ret ? 0
                : err_set(err, ERR_UNSUPPORTED, "%s: node type %lld is of model_template %s; expected %s, %s or %s", types->path,
                          (long long)types->ids[row], name ? name : "NULL", models[1], models[2], models[3]);
}

/* A virtual node fires when an injection of 1 reaches it. */
static int put_neuron(struct nodes_reading *r, int64_t node, int row, struct sonata_population *p, struct err *err) {
    struct sonata_network *net = r->net;
    int64_t i = p->first + node;
    enum sonata_model model;
    int rc = model_of(r->types, row, &model, err);
    if (rc)
        return rc;
    net->model[i] = (uint8_t)model;
    net->threshold[i] = 1;
    net->area[i] = (uint32_t)r->area_of_type[row];
    p->simulated |= model != SONATA_VIRTUAL;
    if (model == SONATA_VIRTUAL)
        return 0;
    rc = load_group(r, node, err);
    rc = rc ? rc : model == SONATA_INTFIRE1 ? put_intfire1(r, node, row, i, err) : put_nest(r, node, row, i, err);
    return rc ? err_wrap(err, "node %lld of population %s (type %lld) cannot be imported", (long long)node, p->name,
                         (long long)r->type_ids[node])
              : 0;
}

/* ---- populations ------------------------------------------------------------------------------------------------ */

static int grow_neurons(struct sonata_network *n, int64_t more, struct err *err) {
    size_t now = (size_t)n->neurons, then = (size_t)(n->neurons + more);
    if (n->neurons + more > (int64_t)SPIKE_MOST_NEURONS)
        return err_set(err, ERR_UNSUPPORTED, "more than %lld nodes", (long long)SPIKE_MOST_NEURONS);
    struct {
        void **array;
        size_t each;
    } const arrays[] = {{(void **)&n->v, sizeof *n->v},
                        {(void **)&n->threshold, sizeof *n->threshold},
                        {(void **)&n->leak, sizeof *n->leak},
                        {(void **)&n->current_leak, sizeof *n->current_leak},
                        {(void **)&n->current_gain, sizeof *n->current_gain},
                        {(void **)&n->refractory, sizeof *n->refractory},
                        {(void **)&n->area, sizeof *n->area},
                        {(void **)&n->model, sizeof *n->model},
                        {(void **)&n->units, sizeof *n->units}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        void *bigger = realloc(*arrays[i].array, then * arrays[i].each + 1);
        if (!bigger)
            return err_set(err, ERR_EXHAUSTED, "out of memory for %zu nodes", then);
        memset((char *)bigger + now * arrays[i].each, 0, (then - now) * arrays[i].each);
        *arrays[i].array = bigger;
    }
    n->neurons += more;
    return 0;
}

/* An area for each type of a population that a node has. */
static int area_of(struct nodes_reading *r, int row, const char *population, struct err *err) {
    struct sonata_network *n = r->net;
    if (r->area_of_type[row] >= 0)
        return 0;
    if (n->n_areas == CONNECTOME_MOST_AREAS)
        return err_set(err, ERR_UNSUPPORTED, "more than %d node types", CONNECTOME_MOST_AREAS);
    struct connectome_area *areas = realloc(n->areas, ((size_t)n->n_areas + 1) * sizeof *areas);
    if (!areas)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the areas");
    n->areas = areas;
    areas[n->n_areas] = (struct connectome_area){0};
    str_format(areas[n->n_areas].name, sizeof areas->name, "%s.%lld", population, (long long)r->types->ids[row]);
    r->area_of_type[row] = n->n_areas++;
    return 0;
}

/* An array of the population, of n elements; NULL where the file has none. */
static int optional(const struct nodes_reading *r, const char *name, int64_t **ret, struct err *err) {
    char path[256];
    str_format(path, sizeof path, "%s/%s", r->group, name);
    return hdf5_optional(r->file, path, r->n, ret, err);
}

static int read_arrays(struct nodes_reading *r, struct err *err) {
    char path[256];
    int rc;
    str_format(path, sizeof path, "%s/node_type_id", r->group);
    if ((rc = hdf5_whole(r->file, path, &r->type_ids, &r->n, err)) || (rc = optional(r, "node_id", &r->ids, err)) ||
        (rc = optional(r, "node_group_id", &r->group_ids, err)) || (rc = optional(r, "node_group_index", &r->indices, err)))
        return rc;
    r->area_of_type = malloc(((size_t)r->types->n + 1) * sizeof *r->area_of_type);
    if (!r->area_of_type)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the types of /%s", r->group);
    memset(r->area_of_type, 0xff, ((size_t)r->types->n + 1) * sizeof *r->area_of_type);
    return 0;
}

static int by_node_id(const void *a, const void *b) {
    int64_t x = ((const struct sonata_id *)a)->id, y = ((const struct sonata_id *)b)->id;
    return (x > y) - (x < y);
}

static int index_ids(struct sonata_population *p, struct err *err) {
    if (!p->ids)
        return 0;
    if (!(p->by_id = malloc(((size_t)p->n + 1) * sizeof *p->by_id)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the %lld nodes of population %s", (long long)p->n, p->name);
    for (int64_t i = 0; i < p->n; i++)
        p->by_id[i] = (struct sonata_id){p->ids[i], i};
    qsort(p->by_id, (size_t)p->n, sizeof *p->by_id, by_node_id);
    for (int64_t i = 1; i < p->n; i++)
        if (p->by_id[i].id == p->by_id[i - 1].id)
            return err_set(err, ERR_INVALID, "population %s has node %lld twice", p->name, (long long)p->by_id[i].id);
    return 0;
}

static int put_nodes(struct nodes_reading *r, struct sonata_population *p, struct err *err) {
    int rc = grow_neurons(r->net, r->n, err);
    for (int64_t node = 0; !rc && node < r->n; node++) {
        int row = sonata_types_row(r->types, r->type_ids[node]);
        if (row < 0)
            return err_set(err, ERR_INVALID, "%s has no node type %lld, which node %lld of population %s has",
                           *r->types->path ? r->types->path : "the circuit", (long long)r->type_ids[node], (long long)node,
                           p->name);
        if (!(rc = area_of(r, row, p->name, err)))
            rc = put_neuron(r, node, row, p, err);
    }
    return rc;
}

static int read_population(struct sonata_network *n, const struct hdf5_file *file, const struct sonata_types *types,
                           const char *name, struct err *err) {
    struct nodes_reading r = {.net = n, .file = file, .types = types};
    if (sonata_population_of(n, name))
        return err_set(err, ERR_INVALID, "two files have a population %s", name);
    struct sonata_population *all = realloc(n->populations, ((size_t)n->n_populations + 1) * sizeof *all);
    if (!all)
        return err_set(err, ERR_EXHAUSTED, "out of memory for population %s", name);
    n->populations = all;
    struct sonata_population *p = &all[n->n_populations++];
    *p = (struct sonata_population){.first = n->neurons};
    str_copy(p->name, sizeof p->name, name);
    str_format(r.group, sizeof r.group, "nodes/%s", name);
    int rc = read_arrays(&r, err);
    p->n = r.n;
    p->ids = r.ids;
    rc = rc ? rc : index_ids(p, err);
    rc = rc ? rc : put_nodes(&r, p, err);
    FREE_MEMBERS(r, type_ids, group_ids, indices, area_of_type);
    for (int i = 0; i < SONATA_MOST_GROUPS; i++) {
        for (int k = 0; k < r.groups[i].n; k++)
            free(r.groups[i].own[k].values);
        free(r.groups[i].own);
    }
    return rc;
}

int sonata_circuit_file(const struct sonata_config *c, const struct json *entry, const char *key, char ret[4096], struct err *err) {
    const char *text = json_str(json_get(entry, key), NULL);
    ret[0] = '\0';
    return text && strcmp(text, "NULL") != 0 ? sonata_config_path(&c->circuit, text, key, ret, err) : 0;
}

static int read_nodes_file(struct sonata_network *n, const struct sonata_config *c, const struct json *entry, struct err *err) {
    char nodes[4096], types_path[4096], name[64];
    enum sonata_model model;
    OWNED(sonata_types_done) struct sonata_types types = {0};
    OWNED_POINTER(hdf5_close) struct hdf5_file *file = NULL;
    int rc;
    if ((rc = sonata_circuit_file(c, entry, "nodes_file", nodes, err)) ||
        (rc = sonata_circuit_file(c, entry, "node_types_file", types_path, err)) || (rc = hdf5_open(nodes, &file, err)) ||
        (rc = sonata_types_load(types_path, "node_type_id", &types, err)))
        return rc;
    for (int row = 0; row < types.n; row++) /* before the parameters of other models are looked for */
        if ((rc = model_of(&types, row, &model, err)))
            return rc;
    if ((rc = sonata_types_parameters(&types, c, "point_neuron_models_dir", err)))
        return rc;
    for (int64_t i = 0; !(rc = hdf5_entry(file, "nodes", i, name, sizeof name, err)); i++)
        if (read_population(n, file, &types, name, err))
            return err_wrap(err, "%s cannot be imported", nodes);
    return rc == ERR_NOT_FOUND ? 0 : rc;
}

int sonata_nodes_read(struct sonata_network *n, const struct sonata_config *c, struct err *err) {
    const struct json *files = json_get(json_get(c->circuit.json, "networks"), "nodes");
    int rc = 0;
    for (size_t i = 0; !rc && i < json_count(files); i++)
        rc = read_nodes_file(n, c, json_at(files, i), err);
    return rc || n->neurons ? rc : err_set(err, ERR_INVALID, "%s: networks.nodes lists no node", c->circuit.path);
}

const struct sonata_population *sonata_population_of(const struct sonata_network *n, const char *name) {
    for (int i = 0; i < n->n_populations; i++)
        if (!strcmp(n->populations[i].name, name))
            return &n->populations[i];
    return NULL;
}

int64_t sonata_neuron_of(const struct sonata_population *p, int64_t node_id) {
    if (!p->ids)
        return node_id >= 0 && node_id < p->n ? p->first + node_id : -1;
    const struct sonata_id key = {node_id, 0}, *found = bsearch(&key, p->by_id, (size_t)p->n, sizeof *p->by_id, by_node_id);
    return found ? p->first + found->at : -1;
}

void sonata_network_done(struct sonata_network *n) {
    for (int i = 0; i < n->n_populations; i++) {
        free(n->populations[i].ids);
        free(n->populations[i].by_id);
    }
    void *const all[] = {n->populations, n->v,     n->threshold, n->leak, n->current_leak, n->current_gain, n->refractory, n->area,
                         n->model,       n->units, n->areas,     n->src,  n->dst,          n->weight,       n->delay};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    *n = (struct sonata_network){0};
}
