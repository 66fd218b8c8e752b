#include "base/base.h"
#include "burst/spikefile.h"
#include "client/brrctl/sonata/sonata_parts.h"

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

/* A spike of a source, which orders as its injection. */
struct source_spike {
    uint64_t tick;
    uint32_t neuron;
};
struct source_spikes {
    const struct sonata_network *net;
    struct source_spike *list;
    int64_t n;
};

/* Spikes of a population: arrays "ids" and "timestamps" below a group. */
static int add_spikes(struct source_spikes *s, const struct hdf5_file *f, const char *ids_path, const char *times_path,
                      const struct sonata_population *p, struct err *err) {
    OWNED_MEMORY int64_t *ids = NULL;
    OWNED_MEMORY double *times = NULL;
    int64_t n = 0, n_times = 0;
    int rc;
    if ((rc = hdf5_whole(f, ids_path, &ids, &n, err)) || (rc = hdf5_real(f, times_path, &times, &n_times, err)))
        return rc;
    struct source_spike *bigger = realloc(s->list, (size_t)(s->n + n) * sizeof *bigger + 1);
    if (n != n_times || !bigger)
        return bigger ? err_set(err, ERR_INVALID, "/%s has %lld elements and /%s %lld", ids_path, (long long)n, times_path,
                                (long long)n_times)
                      : err_set(err, ERR_EXHAUSTED, "out of memory for %lld spikes", (long long)n);
    s->list = bigger;
    for (int64_t i = 0; i < n; i++) {
        int64_t neuron = sonata_neuron_of(p, ids[i]);
        double tick = rint(times[i] / s->net->tick_ms);
        if (neuron < 0 || s->net->model[neuron] != SONATA_VIRTUAL)
            return err_set(err, ERR_INVALID, "spike %lld of /%s is of node %lld, which is no virtual node of population %s",
                           (long long)i, ids_path, (long long)ids[i], p->name);
        if (!(tick >= 1 && tick < 9e15))
            return err_set(err, ERR_INVALID, "spike %lld of /%s is at %g ms, before the first tick, %g ms", (long long)i,
                           times_path, times[i], s->net->tick_ms);
        s->list[s->n++] = (struct source_spike){(uint64_t)tick, (uint32_t)neuron};
    }
    return 0;
}

/* The population of a set of nodes, given by name or as the set itself. */
static const struct sonata_population *population_of_set(const struct sonata_network *n, const struct sonata_config *c,
                                                         const struct json *set) {
    const char *name = json_str(set, NULL);
    const struct json *named = name ? json_get(c->node_sets.json, name) : set;
    const char *population = json_str(json_get(named, "population"), name);
    return population && (!named || json_count(named) == 1) ? sonata_population_of(n, population) : NULL;
}

/* By population, or as earlier versions of the format have it: gids of the population of the input's set. */
static int add_file(struct source_spikes *s, const struct sonata_config *c, const char *path, const struct json *set,
                    struct err *err) {
    OWNED_POINTER(hdf5_close) struct hdf5_file *f = NULL;
    const struct sonata_population *p = population_of_set(s->net, c, set);
    char name[64], ids[128], times[128];
    int rc = hdf5_open(path, &f, err);
    if (rc)
        return rc;
    if (hdf5_has(f, "spikes/gids"))
        return p ? add_spikes(s, f, "spikes/gids", "spikes/timestamps", p, err)
                 : err_set(err, ERR_UNSUPPORTED, "its node_set is no population as a whole");
    for (int64_t i = 0; !(rc = hdf5_entry(f, "spikes", i, name, sizeof name, err)); i++) {
        if (!(p = sonata_population_of(s->net, name)))
            return err_set(err, ERR_INVALID, "no nodes file has population %s", name);
        str_format(ids, sizeof ids, "spikes/%s/node_ids", name);
        str_format(times, sizeof times, "spikes/%s/timestamps", name);
        if ((rc = add_spikes(s, f, ids, times, p, err)))
            return rc;
    }
    return rc == ERR_NOT_FOUND ? 0 : rc;
}

static int add_input(struct source_spikes *s, const struct sonata_config *c, const char *name, const struct json *input,
                     struct err *err) {
    const char *type = json_str(json_get(input, "input_type"), "NULL"), *module = json_str(json_get(input, "module"), "NULL");
    char path[4096];
    if (!json_bool(json_get(input, "enabled"), true))
        return 0;
    if (strcmp(type, "spikes") != 0 || (strcmp(module, "h5") != 0 && strcmp(module, "sonata") != 0))
        return err_set(err, ERR_UNSUPPORTED, "%s: input %s is %s of module %s; expected spikes of module h5 or sonata",
                       c->simulation.path, name, type, module);
    int rc = sonata_config_path(&c->simulation, json_str(json_get(input, "input_file"), NULL), "input_file", path, err);
    if (rc)
        return rc;
    return add_file(s, c, path, json_get(input, "node_set"), err) ? err_wrap(err, "%s: input %s cannot be imported", path, name)
                                                                  : 0;
}

static int in_order(const void *a, const void *b) {
    const struct source_spike *x = a, *y = b;
    return x->tick != y->tick ? (x->tick > y->tick) - (x->tick < y->tick) : (x->neuron > y->neuron) - (x->neuron < y->neuron);
}

static int write_source_spikes(const struct source_spikes *s, const char *path, int64_t *ret_written, struct err *err) {
    OWNED(str_done) struct str text = str_of((size_t)s->n * 48 + 64);
    str_puts(&text, "tick\tid\tpotential\n");
    for (int64_t i = 0; i < s->n; i++) {
        if (i && !in_order(&s->list[i - 1], &s->list[i]))
            continue;
        str_printf(&text, "%llu\t%u\t1\n", (unsigned long long)s->list[i].tick, s->list[i].neuron);
        ++*ret_written;
    }
    return fsio_write_text(path, &text, err);
}

int sonata_inputs_write(const struct sonata_network *n, const struct sonata_config *c, const char *path, int64_t *ret_injections,
                        int64_t *ret_merged, struct err *err) {
    struct source_spikes s = {.net = n};
    struct json_cursor at = {0};
    const char *name;
    const struct json *input;
    int rc = 0;
    while (!rc && json_next(json_get(c->simulation.json, "inputs"), &at, &name, &input))
        rc = add_input(&s, c, name, input, err);
    if (s.n)
        qsort(s.list, (size_t)s.n, sizeof *s.list, in_order);
    *ret_injections = 0;
    rc = rc ? rc : write_source_spikes(&s, path, ret_injections, err);
    *ret_merged = s.n - *ret_injections;
    free(s.list);
    return rc;
}

/* ---- spikes out ------------------------------------------------------------------------------------------------- */

struct fired_lists {
    const struct sonata_network *net;
    uint64_t **ids; /* (populations) */
    double **times;
    int64_t *n;
    struct err *err;
    int rc;
};

static int population_at(const struct sonata_network *n, uint32_t neuron) {
    int p = n->n_populations - 1;
    while (p > 0 && neuron < n->populations[p].first)
        p--;
    return p;
}

static bool room_in(struct fired_lists *f, int p) {
    int64_t n = f->n[p];
    if (n < 256 ? n : n & (n - 1)) /* room is a power of two */
        return true;
    size_t room = n ? 2 * (size_t)n : 256;
    uint64_t *ids = realloc(f->ids[p], room * sizeof *ids);
    f->ids[p] = ids ? ids : f->ids[p];
    double *times = realloc(f->times[p], room * sizeof *times);
    f->times[p] = times ? times : f->times[p];
    return ids && times;
}

static void take_frame(void *ctx, const struct burst_frame *frame) {
    struct fired_lists *f = ctx;
    for (int64_t i = 0; i < frame->fired && !f->rc; i++) {
        uint32_t neuron = frame->ids[i];
        if (neuron >= f->net->neurons) {
            f->rc = err_set(f->err, ERR_INVALID, "neuron %u fired; the network has %lld", neuron, (long long)f->net->neurons);
            return;
        }
        int p = population_at(f->net, neuron);
        const struct sonata_population *of = &f->net->populations[p];
        if (f->net->model[neuron] == SONATA_VIRTUAL)
            continue;
        if (!room_in(f, p)) {
            f->rc = err_set(f->err, ERR_EXHAUSTED, "out of memory for the spikes");
            return;
        }
        int64_t node = neuron - of->first;
        f->ids[p][f->n[p]] = (uint64_t)(of->ids ? of->ids[node] : node);
        f->times[p][f->n[p]++] = (double)frame->tick * f->net->tick_ms;
    }
}

static int write_csv(const struct fired_lists *f, const char *path, struct err *err) {
    OWNED(str_done) struct str text = str_of(SIZE_MAX / 4);
    str_puts(&text, "timestamps population node_ids\n");
    for (int p = 0; p < f->net->n_populations; p++)
        for (int64_t i = 0; i < f->n[p]; i++) {
            str_put_f64(&text, f->times[p][i]);
            str_printf(&text, " %s %llu\n", f->net->populations[p].name, (unsigned long long)f->ids[p][i]);
        }
    return fsio_write_text(path, &text, err);
}

static int write_h5(const struct fired_lists *f, const char *path, struct err *err) {
    int n = 0;
    OWNED_MEMORY struct hdf5_spikes *lists = calloc((size_t)f->net->n_populations + 1, sizeof *lists);
    if (!lists)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the spikes");
    for (int p = 0; p < f->net->n_populations; p++)
        if (f->net->populations[p].simulated)
            lists[n++] = (struct hdf5_spikes){f->net->populations[p].name, f->ids[p], f->times[p], f->n[p]};
    return hdf5_write_spikes(path, lists, n, err);
}

int sonata_spikes_write(const struct sonata_network *net, const char *fired, const char *output, int64_t *ret_spikes,
                        struct err *err) {
    size_t many = (size_t)net->n_populations;
    struct fired_lists f = {net, calloc(many, sizeof *f.ids), calloc(many, sizeof *f.times), calloc(many, sizeof *f.n), err, 0};
    int rc = f.ids && f.times && f.n ? spikefile_read_fired(fired, take_frame, &f, err)
                                     : err_set(err, ERR_EXHAUSTED, "out of memory for the spikes");
    rc = rc ? rc : f.rc ? f.rc : str_ends_nocase(output, ".h5") ? write_h5(&f, output, err) : write_csv(&f, output, err);
    *ret_spikes = 0;
    for (size_t p = 0; p < many; p++) {
        *ret_spikes += f.n ? f.n[p] : 0;
        free(f.ids ? f.ids[p] : NULL);
        free(f.times ? f.times[p] : NULL);
    }
    FREE_MEMBERS(f, ids, times, n);
    return rc;
}
