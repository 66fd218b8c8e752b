/* burst plot: the picture of spikes that a job or an earlier run has written. Without a daemon. */

#include "burst/netfile.h"
#include "burst/raster.h"
#include "burst/spikefile.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/burst/burst.h"
#include "client/brrctl/output.h"
#include "plot/picture.h"

/* Contents of the file, from a first reading. */
struct extent {
    int64_t first, last, spikes, highest; /* ticks; the highest neuron */
};

static void on_tick(void *ctx, const struct burst_frame *f) {
    struct extent *e = ctx;
    int64_t highest = f->ids[f->fired - 1];
    e->first = e->spikes ? e->first : (int64_t)f->tick;
    e->last = (int64_t)f->tick;
    e->highest = highest > e->highest ? highest : e->highest;
    e->spikes += f->fired;
}

static void draw_tick(void *ctx, const struct burst_frame *f) { raster_add(ctx, (int64_t)f->tick, f->ids, f->fired); }

static int draw_raster(const struct arguments *o, const struct netfile_areas *areas, const struct extent *e, struct raster *r,
                       struct err *err) {
    char subtitle[256];
    int rc = spikefile_read_fired(o->args[2], draw_tick, r, err);
    if (rc)
        return rc;
    str_format(subtitle, sizeof subtitle,
               "%s: %" PRId64 " neurons, %" PRId64 " synapses; ticks %" PRId64 " to %" PRId64 ": %" PRId64 " spikes",
               fsio_basename(o->args[1]), areas->neurons, areas->synapses, e->first, e->last, e->spikes);
    return raster_save(r, burst_options_of(o)->output, fsio_basename(o->args[2]), subtitle, err);
}

static int draw(const struct arguments *o, const struct netfile_areas *areas, const struct extent *e, struct err *err) {
    const struct raster_network n = {SAME_MEMBERS(*areas, neurons, area_of, areas, n_areas), .first_tick = e->first,
                                     .ticks = e->last - e->first + 1};
    struct raster *r = NULL;
    if (!e->spikes)
        return err_set(err, ERR_INVALID, "%s has no spikes to plot", o->args[2]);
    if (e->highest >= areas->neurons)
        return err_set(err, ERR_INVALID, "%s has spikes of neuron %" PRId64 "; %s has %" PRId64 " neurons", o->args[2], e->highest,
                       o->args[1], areas->neurons);
    int rc = raster_new(&n, &r, err);
    if (rc)
        return rc;
    rc = draw_raster(o, areas, e, r, err);
    raster_free(r);
    return rc;
}

static void report(const struct arguments *o, const struct extent *e) {
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "plot", burst_options_of(o)->output);
        json_put_i64(w, "first_tick", e->first);
        json_put_i64(w, "last_tick", e->last);
        json_put_i64(w, "fired", e->spikes);
        output_end(w);
    } else {
        printf("%" PRId64 " spikes of ticks %" PRId64 " to %" PRId64 " plotted in %s\n", e->spikes, e->first, e->last,
               burst_options_of(o)->output);
    }
}

static int plot(const struct arguments *o, struct netfile_areas *areas, struct err *err) {
    struct extent extent = {0};
    int rc;
    if ((rc = netfile_read_areas(o->args[1], areas, err)) || (rc = spikefile_read_fired(o->args[2], on_tick, &extent, err)) ||
        (rc = draw(o, areas, &extent, err)))
        return rc;
    report(o, &extent);
    return 0;
}

int burst_plot(const struct arguments *o) {
    struct netfile_areas areas = {0};
    struct err err = {0};
    if (!burst_options_of(o)->output || !picture_known(burst_options_of(o)->output)) {
        fputs("brrctl: burst plot needs --out FILE.svg, FILE.png or FILE.pdf\n", stderr);
        return EXIT_USAGE;
    }
    int rc = plot(o, &areas, &err);
    netfile_areas_done(&areas);
    return rc ? brrctl_fail(&err) : 0;
}
