#include "client/brrctl/sonata/sonata.h"

#include "burst/netfile.h"
#include "client/brrctl/sonata/sonata_parts.h"

OWNABLE(struct connectome, connectome_free)

/* The nodes, on a grid of ticks. */
static int open_network(const struct sonata_files *f, struct sonata_config *c, struct sonata_network *n, struct err *err) {
    int rc = sonata_config_load(f->config, c, err);
    if (rc)
        return rc;
    n->tick_ms = isnan(f->tick_ms) ? json_f64(json_get(json_get(c->simulation.json, "run"), "dt"), NAN) : f->tick_ms;
    if (isnan(n->tick_ms))
        return err_set(err, ERR_INVALID, "%s has no run.dt; give the length of a tick with --tick MS", f->config);
    if (!(n->tick_ms > 0 && n->tick_ms <= 1000))
        return err_set(err, ERR_INVALID, "a tick of %g ms; expected more than 0, at most 1000", n->tick_ms);
    return sonata_nodes_read(n, c, err);
}

static int save_network(struct sonata_network *n, const char *path, int64_t *ret_synapses, struct err *err) {
    struct connectome_arrays a = {
        SAME_MEMBERS(*n, neurons, v, threshold, leak, current_leak, current_gain, refractory, area, areas, n_areas)};
    OWNED_MEMORY void *memory = NULL;
    OWNED_POINTER(connectome_free) struct connectome *net = NULL;
    char sha256[DIGEST_HEX_SIZE];
    int rc;
    if ((rc = sonata_edges_pack(n, &a, &memory, err)) || (rc = connectome_new(&a, 0, &net, err)))
        return rc;
    *ret_synapses = a.synapses;
    return netfile_save(path, net, NULL, sha256, err);
}

static void tell_import(const struct sonata_network *n, const struct sonata_config *c, struct sonata_told *ret) {
    double stop = json_f64(json_get(json_get(c->simulation.json, "run"), "tstop"), 0);
    COPY_MEMBERS(*ret, *n, neurons, rounded, tick_ms);
    ret->ticks = stop > 0 && stop / n->tick_ms < 1e15 ? (int64_t)ceil(stop / n->tick_ms - 1e-6) : 0;
    for (int64_t i = 0; i < n->neurons; i++)
        ret->virtual_neurons += n->model[i] == SONATA_VIRTUAL;
}

int sonata_import(const struct sonata_files *f, struct sonata_told *ret, struct err *err) {
    OWNED(sonata_config_done) struct sonata_config c = {0};
    OWNED(sonata_network_done) struct sonata_network n = {0};
    int rc;
    *ret = (struct sonata_told){0};
    if ((rc = open_network(f, &c, &n, err)) || (rc = sonata_edges_read(&n, &c, err)))
        return rc;
    if (f->injections && (rc = sonata_inputs_write(&n, &c, f->injections, &ret->injections, &ret->merged, err)))
        return rc;
    rc = save_network(&n, f->network, &ret->synapses, err);
    tell_import(&n, &c, ret);
    return rc;
}

int sonata_export(const struct sonata_files *f, const char *fired, const char *output, int64_t *ret_spikes, struct err *err) {
    OWNED(sonata_config_done) struct sonata_config c = {0};
    OWNED(sonata_network_done) struct sonata_network n = {0};
    if (!str_ends_nocase(output, ".h5") && !str_ends_nocase(output, ".csv"))
        return err_set(err, ERR_INVALID, "%s: expected a name that ends in .h5 or .csv", output);
    int rc = open_network(f, &c, &n, err);
    return rc ? rc : sonata_spikes_write(&n, fired, output, ret_spikes, err);
}
