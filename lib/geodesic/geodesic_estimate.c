/* Estimate of a geodesic job: memory and seconds from its own models, set up and trained for some steps on the device. */

#include "geodesic/geodesic_params.h"
#include "geodesic/geodesic_task.h"
#include "work/estimate.h"

enum { MEASURED_STEPS = 2 };

/* The models of one phase of the job, set up on a device of their own. */
struct trial {
    struct device *device;
    struct stream *stream;
    struct geodesic_fit *fit;
};

static void close_trial(struct trial *t) {
    geodesic_fit_free(t->fit);
    stream_close(t->stream);
    device_close(t->device);
}

static int open_trial(const struct estimate_config *c, const struct geodesic_fit_config *fit, const struct spectra *s, bool last,
                      struct trial *t, struct err *err) {
    geodesic_members members[GEODESIC_MAX_GROUPS];
    int groups = geodesic_phase_groups(c->job->config, s->n, last);
    for (int g = 0; g < groups; g++)
        members[g] = geodesic_phase_members(s->n, last, g);
    int rc;
    if ((rc = device_open(c->device, c->threads, &t->device, err)) || (rc = stream_open(t->device, STREAM_NORMAL, &t->stream, err)))
        return rc;
    return geodesic_fit_new(fit, s, members, groups, t->stream, &t->fit, err);
}

/* The fastest of n steps after a first one, which sets memory up. */
static int run_trial(const struct estimate_config *c, struct trial *t, int n, double *ret_seconds, struct err *err) {
    double best = INFINITY;
    for (int i = 0; i <= n && (!i || estimate_measures(c)); i++) {
        double start = clock_s();
        int rc;
        if ((rc = estimate_stopped(c, err)) || (rc = geodesic_fit_step(t->fit, err)))
            return rc;
        if (i)
            best = fmin(best, clock_s() - start);
    }
    *ret_seconds = n ? best : 0;
    return 0;
}

/* Bytes of a phase in device memory, and the seconds of its step, 0 unless measured. Runge-Kutta works on every wavelength by
 * itself and slowly, so a step of one wavelength is measured. */
static int try_phase(const struct estimate_config *c, const struct spectra *s, bool last, struct estimate *ret, double *ret_seconds,
                     struct err *err) {
    struct geodesic_fit_config fit = geodesic_phase_config(c->job->config, last ? geodesic_phases(c->job->config) - 1 : 0);
    int64_t steps = (s->width + fit.batch - 1) / fit.batch, bytes = 0, allocations;
    bool ode = fit.solver == GEODESIC_ODE;
    struct trial t = {0};
    int rc = open_trial(c, &fit, s, last, &t, err);
    if (!rc && !ode)
        rc = run_trial(c, &t, estimate_measures(c) ? MEASURED_STEPS : 0, ret_seconds, err);
    if (!rc)
        device_alloc_stats(t.device, &bytes, &allocations);
    close_trial(&t);
    ret->memory_bytes = bytes > ret->memory_bytes ? bytes : ret->memory_bytes;
    if (rc || !ode || !estimate_measures(c))
        return rc;
    fit.batch = 1;
    t = (struct trial){0};
    if (!(rc = open_trial(c, &fit, s, last, &t, err)))
        rc = run_trial(c, &t, 1, ret_seconds, err);
    close_trial(&t);
    *ret_seconds *= (double)s->width / (double)steps;
    return rc;
}

static void tell_models(const struct estimate_config *c, const struct geodesic_config *job, const struct spectra *s) {
    const struct estimate_file *csv = estimate_file(c, "data.csv");
    int64_t paths = 0;
    for (int g = 0; g < geodesic_phase_groups(job, s->n, true); g++) {
        int n = geodesic_members_count(geodesic_phase_members(s->n, true, g));
        paths += n * (n - 1) * s->width;
    }
    estimate_fact(c, "spectra", "%d of %lld wavelengths, %g to %g, from %.200s", s->n, (long long)s->width, s->concentrations[0],
                  s->concentrations[s->n - 1], csv ? csv->ref : "the built-in formula");
    estimate_fact(c, "models", "%d without one spectrum each%s", s->n, job->final_model ? ", one of all spectra" : "");
    if (job->selection == GEODESIC_SELECTION_NESTED)
        estimate_fact(c, "selection", "%d models without two spectra each, for each of %zu weight decays", s->n * (s->n - 1) / 2,
                      job->decays.count);
    else if (job->prior != GEODESIC_NO_PRIOR)
        estimate_fact(c, "inner folds", "%d models without two spectra each, for the weight of the prior", s->n * (s->n - 1) / 2);
    estimate_fact(c, "an epoch", "%lld geodesics", (long long)paths);
    if (job->solver == GEODESIC_CLOSED_FORM)
        estimate_fact(c, "time of a step",
                      "4 nodes in a cell; a model whose metric becomes steep takes up to 8, and twice as long");
}

static int estimate_spectra(const struct estimate_config *c, const struct spectra *s, struct estimate *ret, struct err *err) {
    const struct geodesic_config *job = c->job->config;
    double select_s = 0, train_s = 0;
    int64_t steps = job->epochs * ((s->width + job->batch - 1) / job->batch), selections = geodesic_phases(job) - 1;
    int rc = geodesic_check_spectra(job, s, err);
    if (rc)
        return rc;
    tell_models(c, job, s);
    ret->parameters = geodesic_params_count((enum geodesic_head)job->head) * geodesic_phase_groups(job, s->n, true);
    ret->steps = (selections + 1) * steps;
    if ((selections && (rc = try_phase(c, s, false, ret, &select_s, err))) || (rc = try_phase(c, s, true, ret, &train_s, err)))
        return rc;
    ret->seconds_total = (double)steps * ((double)selections * select_s + train_s);
    ret->seconds_per_step = ret->seconds_total / (double)ret->steps;
    return 0;
}

int estimate_geodesic(const struct estimate_config *c, struct estimate *ret, struct err *err) {
    const struct geodesic_config *job = c->job->config;
    const struct estimate_file *csv = estimate_file(c, "data.csv");
    struct spectra spectra;
    *ret = (struct estimate){0};
    if (job->csv && !csv)
        return 0;
    int rc = csv ? spectra_read(csv->path, &spectra, err) : spectra_formula(&spectra, err);
    if (rc)
        return rc;
    rc = estimate_spectra(c, &spectra, ret, err);
    spectra_done(&spectra);
    return rc;
}
