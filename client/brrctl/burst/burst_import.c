/* burst import, burst export: networks of other programs as network files, and spikes as those programs read them. Without a
 * daemon. */

#include "base/base.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/burst/burst.h"
#include "client/brrctl/feagi/feagi.h"
#include "client/brrctl/output.h"
#ifdef BRR_HDF5
#include "client/brrctl/sonata/sonata.h"
#else
#define WITHOUT_HDF5 "this brrctl was built without libhdf5, which SONATA needs: install libhdf5-dev and build it again"
#endif

static int needs_output(const struct arguments *o) {
    if (burst_options_of(o)->output)
        return 0;
    fprintf(stderr, "brrctl: burst %s needs --out FILE\n", o->args[0]);
    return EXIT_USAGE;
}

#ifdef BRR_HDF5
static struct sonata_files files_of(const struct arguments *o) {
    const struct burst_options *own = burst_options_of(o);
    return (struct sonata_files){.config = o->args[1], .network = own->output, .injections = own->inject, .tick_ms = own->tick};
}

static void print_import(const struct arguments *o, const struct sonata_told *t) {
    const struct burst_options *own = burst_options_of(o);
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "file", own->output);
        JSON_MEMBERS(w, *t, neurons, virtual_neurons, synapses, injections);
        json_put_i64(w, "merged_spikes", t->merged);
        json_put_i64(w, "rounded_neurons", t->rounded);
        JSON_MEMBERS(w, *t, tick_ms, ticks);
        output_end(w);
        return;
    }
    printf("%s: %" PRId64 " neurons, %" PRId64 " of them virtual, %" PRId64 " synapses, ticks of %g ms\n", own->output, t->neurons,
           t->virtual_neurons, t->synapses, t->tick_ms);
    if (own->inject)
        printf("%s: %" PRId64 " spikes of virtual neurons; %" PRId64 " more came in the tick of another one and are left out\n",
               own->inject, t->injections, t->merged);
    if (t->rounded)
        printf("the weights of %" PRId64 " neurons have no common unit and are rounded to 1/65025 of the largest\n", t->rounded);
    if (t->ticks)
        printf("run it: brrctl burst run %s --ticks %" PRId64 "%s%s --fired fired.npy\n", own->output, t->ticks,
               own->inject ? " --inject " : "", own->inject ? own->inject : "");
}
#endif

static int import_feagi(const struct arguments *o, bool genome, struct err *err) {
    const struct burst_options *own = burst_options_of(o);
    struct feagi_told t;
    int rc = own->inject             ? err_set(err, ERR_INVALID, "--inject: connectomes and genomes of FEAGI have no input")
             : genome && own->genome ? err_set(err, ERR_INVALID, "%s is a genome itself: leave out --genome", o->args[1])
             : genome                ? feagi_grow(o->args[1], own->output, &t, err)
                                     : feagi_import(o->args[1], own->genome, own->output, &t, err);
    if (rc)
        return rc;
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "file", own->output);
        JSON_MEMBERS(w, t, neurons, synapses, deleted_neurons, deleted_synapses, tick);
        output_end(w);
    } else if (genome) {
        printf("%s: %" PRId64 " neurons, %" PRId64 " synapses\n", own->output, t.neurons, t.synapses);
    } else {
        printf("%s: %" PRId64 " neurons (%" PRId64 " deleted), %" PRId64 " synapses (%" PRId64
               " deleted and left out), after tick %" PRIu64 "\n",
               own->output, t.neurons, t.deleted_neurons, t.synapses, t.deleted_synapses, t.tick);
    }
    return 0;
}

int burst_import(const struct arguments *o) {
    struct err err = {0};
    int rc = needs_output(o);
    if (rc)
        return rc;
    bool connectome = feagi_is_connectome(o->args[1]);
    if (connectome || feagi_is_genome(o->args[1]))
        return import_feagi(o, !connectome, &err) ? brrctl_fail(&err) : 0;
#ifdef BRR_HDF5
    const struct sonata_files files = files_of(o);
    struct sonata_told told;
    if (!(rc = sonata_import(&files, &told, &err)))
        print_import(o, &told);
#else
    rc = err_set(&err, ERR_UNSUPPORTED, WITHOUT_HDF5);
#endif
    return rc ? brrctl_fail(&err) : 0;
}

int burst_export(const struct arguments *o) {
    struct err err = {0};
    int rc = needs_output(o);
    if (rc)
        return rc;
#ifdef BRR_HDF5
    const struct sonata_files files = files_of(o);
    int64_t spikes;
    if (!(rc = sonata_export(&files, o->args[2], burst_options_of(o)->output, &spikes, &err)) && !o->json)
        printf("%s: %" PRId64 " spikes\n", burst_options_of(o)->output, spikes);
#else
    rc = err_set(&err, ERR_UNSUPPORTED, WITHOUT_HDF5);
#endif
    return rc ? brrctl_fail(&err) : 0;
}
