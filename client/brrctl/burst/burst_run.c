/* burst run, burst step: ticks of a network in the daemon, in slices of a fraction of a second, so that progress shows and Ctrl-C
 * works. Spikes come with the answer of each slice, those of networks that are too large for that from an observer: none is lost.
 */

#include "burst/netfile.h"
#include "burst/raster.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/burst/burst.h"
#include "client/brrctl/burst/spikes.h"
#include "client/brrctl/interrupt.h"
#include "client/brrctl/output.h"
#include "plot/picture.h"

enum { SLICE_MS = 200, MOST_SLICE = 1 << 20, STEP_TIMEOUT_MS = 600 * 1000, OBSERVED_BYTES = 16 << 20 };

struct run {
    const struct arguments *o;
    const char *network;
    brr_client *client;
    bool collects;               /* spikes come with the answers of Step */
    brr_observer *observer;      /* else, where spikes are wanted */
    int64_t neurons, first_tick; /* 0: not known; the first tick that runs here */
    const char *device;
    int64_t ticks, tick, fired, events; /* so far; tick: the newest */
    double seconds, started_s;
    struct spikes spikes;
    struct spikefile membranes;
    struct netfile_areas areas;
    struct raster *raster;
    uint32_t *ids; /* of one tick */
    size_t room;
};

/* The network must live as long as r. */
static void take_network(struct run *r, const struct brr_network *network) {
    r->network = network->name;
    COPY_MEMBERS(*r, *network, device, neurons);
    r->first_tick = network->tick + 1;
}

/* ---- ticks ----------------------------------------------------------------------------------------------------- */

/* The spikes of one tick, to the file and the plot. */
static int put_tick(struct run *r, const struct brr_spike *spikes, size_t n, struct brr_error *err) {
    struct err bad = {0};
    if (n > r->room) {
        uint32_t *ids = realloc(r->ids, n * sizeof *ids);
        if (!ids)
            return brrctl_set_error(err, BRR_EXHAUSTED, "out of memory for the spikes of a tick");
        r->ids = ids;
        r->room = n;
    }
    for (size_t i = 0; i < n; i++)
        r->ids[i] = spikes[i].id;
    if (r->raster)
        raster_add(r->raster, spikes[0].tick, r->ids, (int64_t)n);
    return spikes_add(&r->spikes, spikes[0].tick, r->ids, n, &bad) ? brrctl_keep_error(err, &bad) : 0;
}

static int put_spikes(struct run *r, const struct brr_step *step, struct brr_error *err) {
    int rc;
    for (size_t at = 0, next; at < step->n_spikes; at = next) {
        for (next = at + 1; next < step->n_spikes && step->spikes[next].tick == step->spikes[at].tick; next++) {
        }
        if ((rc = put_tick(r, &step->spikes[at], next - at, err)))
            return rc;
    }
    return 0;
}

static void show_progress(const struct run *r) {
    char bar[OUTPUT_BAR_SIZE], line[160];
    double gone = clock_s() - r->started_s;
    if (r->o->json || !output_redraws(stderr))
        return;
    str_format(line, sizeof line, "%s tick %" PRId64 ", %" PRId64 " of %" PRId64 ", %" PRId64 " spikes, %.0f ticks/s",
               output_bar((double)r->ticks / (double)burst_options_of(r->o)->ticks, bar), r->tick, r->ticks,
               burst_options_of(r->o)->ticks, r->fired, gone > 0 ? (double)r->ticks / gone : 0);
    output_progress(stderr, line);
}

/* Takes the observer's frames up to a tick. Slices are so short that frames are dropped only if a single tick exceeds the 16 MiB of
 * the observer. */
static int put_frames(struct run *r, int64_t tick, struct brr_error *err) {
    struct brr_frame frame = {0};
    struct err bad = {0};
    int rc;
    while (frame.tick < tick) {
        if ((rc = brr_observer_next(r->observer, STEP_TIMEOUT_MS, &frame, err)))
            return rc < 0 ? rc : brrctl_set_error(err, BRR_ABORTED, "the network was destroyed while it ran");
        if (r->raster)
            raster_add(r->raster, frame.tick, frame.ids, (int64_t)frame.n_ids);
        if (spikes_add(&r->spikes, frame.tick, frame.ids, frame.n_ids, &bad))
            return brrctl_keep_error(err, &bad);
    }
    if (brr_observer_missed(r->observer))
        return brrctl_set_error(err, BRR_EXHAUSTED, "the spikes of a tick were too many to be observed; run a job of kind burst");
    return 0;
}

static int64_t every_of(const struct arguments *o) {
    return burst_options_of(o)->membranes_every > 0 ? burst_options_of(o)->membranes_every : 1;
}

/* After a slice: the membranes, where they are due. */
static int put_membranes(struct run *r, const struct brr_step *step, struct brr_error *err) {
    const bool due = (r->ticks + step->ticks) % every_of(r->o) == 0;
    struct err bad = {0};
    if (due && !step->n_membranes)
        return brrctl_set_error(err, BRR_UNSUPPORTED, "the daemon gives no membranes: it is of an earlier version; upgrade it");
    const bool failed = due && spikefile_add_row(&r->membranes, step->membranes, (int64_t)step->n_membranes, &bad);
    return failed ? brrctl_keep_error(err, &bad) : 0;
}

/* One Step call, its spikes and its membranes. */
static int run_slice(struct run *r, int64_t ticks, struct brr_error *err) {
    const struct brr_step_request request = {.name = r->network,
                                             .ticks = ticks,
                                             .want_spikes = r->collects,
                                             .timeout_ms = STEP_TIMEOUT_MS,
                                             .want_membranes = burst_options_of(r->o)->membranes != NULL};
    struct brr_step step = {0};
    int rc = brr_network_step(r->client, &request, &step, err);
    if (rc)
        return rc;
    rc = r->observer ? put_frames(r, step.tick, err) : put_spikes(r, &step, err);
    rc = rc || !step.membranes ? rc : put_membranes(r, &step, err);
    brr_free(step.spikes);
    brr_free(step.membranes);
    if (rc)
        return rc;
    r->ticks += step.ticks;
    r->tick = step.tick;
    r->fired += step.fired;
    r->events += step.events;
    r->seconds += step.seconds;
    return 0;
}

/* Ticks until all have run or a signal came. */
static int run_ticks(struct run *r, struct brr_error *err) {
    const int64_t every = burst_options_of(r->o)->membranes ? every_of(r->o) : INT64_MAX;
    int64_t slice = 1, most = r->observer ? OBSERVED_BYTES / 4 / r->neurons : INT64_MAX;
    int rc = 0;
    r->started_s = clock_s();
    while (r->ticks < burst_options_of(r->o)->ticks && !interrupt_seen()) {
        int64_t start = clock_ms(), left = burst_options_of(r->o)->ticks - r->ticks, before = r->ticks;
        left = left < every - before % every ? left : every - before % every;
        if ((rc = run_slice(r, slice < left ? slice : left, err)))
            break;
        int64_t wanted = (r->ticks - before) * SLICE_MS / (clock_ms() - start + 1);
        slice = wanted < most ? wanted : most;
        slice = slice < 1 ? 1 : slice < MOST_SLICE ? slice : MOST_SLICE;
        show_progress(r);
    }
    output_clear();
    return rc;
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

static int open_raster(struct run *r, struct err *err) {
    const struct raster_network n = {SAME_MEMBERS(r->areas, neurons, area_of, areas, n_areas), .first_tick = r->first_tick,
                                     .ticks = burst_options_of(r->o)->ticks};
    return raster_new(&n, &r->raster, err);
}

static int open_outputs(struct run *r, struct brr_error *err) {
    struct err bad = {0};
    const char *membranes = burst_options_of(r->o)->membranes;
    if (spikes_open(&r->spikes, burst_options_of(r->o)->fired, &bad) || (burst_options_of(r->o)->plot && open_raster(r, &bad)) ||
        (membranes && spikefile_open(&r->membranes, membranes, &bad)))
        return brrctl_keep_error(err, &bad);
    bool wanted = burst_options_of(r->o)->fired || burst_options_of(r->o)->plot;
    r->collects = wanted && r->neurons <= BRR_STEP_NEURONS;
    return wanted && !r->collects ? brr_network_observe(r->client, r->network, 0, &r->observer, err) : 0;
}

static double share(const struct run *r) {
    return r->ticks && r->neurons ? (double)r->fired / (double)r->ticks / (double)r->neurons : 0;
}

static int close_outputs(struct run *r, struct brr_error *err) {
    struct err bad = {0};
    char subtitle[256];
    if (spikes_close(&r->spikes, &bad) ||
        (burst_options_of(r->o)->membranes && spikefile_close_rows(&r->membranes, r->neurons, &bad)))
        return brrctl_keep_error(err, &bad);
    if (!r->raster)
        return 0;
    const char *slash = strrchr(r->o->args[1], '/');
    str_format(subtitle, sizeof subtitle,
               "%" PRId64 " neurons, %" PRId64 " synapses; ticks %" PRId64 " to %" PRId64 ": %" PRId64
               " spikes, %.3g %% of the neurons in a tick",
               r->areas.neurons, r->areas.synapses, r->first_tick, r->tick, r->fired, 100 * share(r));
    if (raster_save(r->raster, burst_options_of(r->o)->plot, slash ? slash + 1 : r->o->args[1], subtitle, &bad))
        return brrctl_keep_error(err, &bad);
    return 0;
}

static void done(struct run *r) {
    spikes_abort(&r->spikes);
    if (*r->membranes.out.tmp_path)
        spikefile_abort(&r->membranes);
    raster_free(r->raster);
    brr_observer_close(r->observer);
    netfile_areas_done(&r->areas);
    free(r->ids);
    brr_disconnect(r->client);
}

/* ---- report ---------------------------------------------------------------------------------------------------- */

/* network: where the ticks can go on; NULL when it is gone. */
static void report(const struct run *r, const char *network) {
    if (r->o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "network", network);
        JSON_MEMBERS(w, *r, device, neurons, ticks, tick, fired);
        json_put_f64(w, "fired_share", share(r));
        JSON_MEMBERS(w, *r, events, seconds);
        json_put_str(w, "fired_file", burst_options_of(r->o)->fired);
        json_put_str(w, "membranes_file", burst_options_of(r->o)->membranes);
        json_put_str(w, "plot", burst_options_of(r->o)->plot);
        output_end(w);
        return;
    }
    printf("%" PRId64 " ticks, to tick %" PRId64 ": %" PRId64 " spikes (%.3g %% of the neurons in a tick), %" PRId64
           " synapses delivered\n%.3g s of ticks on %s",
           r->ticks, r->tick, r->fired, 100 * share(r), r->events, r->seconds, r->device);
    printf(r->seconds > 0 ? ", %.0f a second\n" : "\n", (double)r->ticks / r->seconds);
    if (burst_options_of(r->o)->fired)
        printf("spikes written to %s\n", burst_options_of(r->o)->fired);
    if (burst_options_of(r->o)->membranes)
        printf("membranes written to %s\n", burst_options_of(r->o)->membranes);
    if (burst_options_of(r->o)->plot)
        printf("plot written to %s\n", burst_options_of(r->o)->plot);
    if (burst_options_of(r->o)->keep)
        printf("the network stays in the daemon as %s\n", network);
}

static int check_names(const struct arguments *o) {
    if (burst_options_of(o)->ticks < 1)
        fprintf(stderr, "brrctl: burst %s needs --ticks N\n", o->args[0]);
    else if (burst_options_of(o)->fired && !spikes_is_name(burst_options_of(o)->fired))
        fprintf(stderr, "brrctl: --fired is '%s'; expected a name that ends in .npy or .tsv\n", burst_options_of(o)->fired);
    else if (burst_options_of(o)->membranes && !str_ends(burst_options_of(o)->membranes, ".npy"))
        fprintf(stderr, "brrctl: --membranes is '%s'; expected a name that ends in .npy\n", burst_options_of(o)->membranes);
    else if (burst_options_of(o)->plot && !picture_known(burst_options_of(o)->plot))
        fprintf(stderr, "brrctl: --plot is '%s'; expected a name that ends in .svg, .png or .pdf\n", burst_options_of(o)->plot);
    else
        return 0;
    return EXIT_USAGE;
}

/* ---- run ------------------------------------------------------------------------------------------------------- */

/* Reads and checks the local files before the network is created. */
static int read_files(struct run *r, struct burst_table *table, struct err *err) {
    const struct burst_options *own = burst_options_of(r->o);
    int rc;
    table->path = own->inject;
    if (own->plot && (rc = netfile_read_areas(r->o->args[1], &r->areas, err)))
        return rc;
    return own->inject ? spikefile_read_injections(own->inject, &table->list, &table->n, err) : 0;
}

/* Injections that no tick receives. */
static void note_late(const struct run *r, const struct burst_table *table) {
    int64_t last = r->first_tick + burst_options_of(r->o)->ticks - 1, late = 0;
    for (int64_t i = 0; i < table->n; i++)
        late += (int64_t)table->list[i].tick > last;
    if (late)
        fprintf(stderr, "brrctl: note: %" PRId64 " of %" PRId64 " injections are for ticks after the last one (%" PRId64 ")\n",
                late, table->n, last);
}

/* Everything between the network's creation and its end. */
static int run_network(struct run *r, const struct brr_network *network, const struct burst_table *table, struct brr_error *err) {
    int rc;
    if (table->n && (rc = burst_send_injections(r->client, network, table, NULL, err)))
        return rc;
    if (!burst_options_of(r->o)->keep)
        note_late(r, table);
    if ((rc = open_outputs(r, err)) || (rc = run_ticks(r, err)))
        return rc;
    if (r->ticks < burst_options_of(r->o)->ticks) {
        char text[160];
        str_format(text, sizeof text,
                   "interrupted after %" PRId64 " of %" PRId64 " ticks; the network is gone and no file was written", r->ticks,
                   burst_options_of(r->o)->ticks);
        return brrctl_set_error(err, BRR_CANCELLED, text);
    }
    return close_outputs(r, err);
}

/* From the network's creation to its end, on an open connection. Returns an exit code. */
static int run_and_report(struct run *r, struct brr_network *network, const struct burst_table *table) {
    struct brr_error err, late;
    int code = 0;
    if (!burst_open(r->o, r->client, r->o->args[1], burst_options_of(r->o)->keep, network, &code))
        return code;
    take_network(r, network);
    int rc = run_network(r, network, table, &err);
    const char *kept = rc ? NULL : burst_options_of(r->o)->keep;
    if (rc)
        code = brrctl_fail_call(&err);
    if (rc == BRR_CANCELLED && interrupt_seen())
        code = interrupt_exit();
    if (!kept && brr_network_destroy(r->client, network->name, &late)) {
        fprintf(stderr, "brrctl: the network may still be there; `brrctl burst destroy %s` removes it\n", network->name);
        code = code ? code : brrctl_fail_call(&late);
    }
    if (rc)
        return code;
    report(r, kept ? network->name : NULL);
    if (r->fired || table->n)
        return code;
    fputs("brrctl: nothing drives this network: no neuron fired; inject potentials (--inject FILE.tsv), or give an area power "
          "(`brrctl burst generate --power V`)\n",
          stderr);
    return code || kept ? code : EXIT_FAILED; /* one that stays may be driven later */
}

int burst_run(const struct arguments *o) {
    struct brr_network network;
    struct run r = {.o = o};
    struct burst_table table = {0};
    struct err bad = {0};
    int code = check_names(o);
    if (code)
        return code;
    interrupt_catch();
    if (read_files(&r, &table, &bad))
        code = brrctl_fail(&bad);
    else if ((r.client = brrctl_connect(o, &code)))
        code = run_and_report(&r, &network, &table);
    free(table.list);
    done(&r);
    return code;
}

/* ---- step ------------------------------------------------------------------------------------------------------ */

static int step_network(struct run *r, struct brr_network *network, struct brr_error *err) {
    int rc = burst_find(r->client, r->network, network, err);
    if (rc)
        return rc;
    take_network(r, network);
    if ((rc = open_outputs(r, err)) || (rc = run_ticks(r, err)))
        return rc;
    return close_outputs(r, err);
}

int burst_step(const struct arguments *o) {
    struct brr_network network;
    OWNED(done) struct run r = {.o = o, .network = o->args[1]};
    struct brr_error err;
    int code = check_names(o);
    if (code)
        return code;
    interrupt_catch();
    if (!(r.client = brrctl_connect(o, &code)))
        return code;
    if (step_network(&r, &network, &err))
        return brrctl_fail_call(&err);
    report(&r, r.network);
    if (r.ticks >= burst_options_of(o)->ticks)
        return 0;
    fprintf(stderr, "brrctl: interrupted after %" PRId64 " of %" PRId64 " ticks\n", r.ticks, burst_options_of(o)->ticks);
    return interrupt_exit();
}
