#include "data/channels.h"

#include <stdlib.h>

#include "base/str.h"
#include "data/montage.h"

void channels_done(struct channels *c) {
    free(c->labels);
    free(c->signals);
    *c = (struct channels){0};
}

int channels_check_units(const struct edf_info *info, const int *signals, int n, char *ret_faults, size_t size, struct err *err) {
    const char *first = NULL;
    int assumed = 0;
    for (int i = 0; i < n; i++) {
        const struct edf_signal *s = &info->signals[signals[i]];
        if (!s->volt)
            return err_set(err, ERR_PRECONDITION,
                           "channel %s has the unit '%s'; expected a voltage (uV, mV, V or nV), or a blank for uV", s->label,
                           s->unit);
        if (s->unit_assumed && !assumed++)
            first = s->label;
    }
    str_copy(ret_faults, size, "");
    if (assumed == 1)
        str_format(ret_faults, size, "channel %s has no unit: its values are read as uV", first);
    else if (assumed)
        str_format(ret_faults, size, "%d channels, %s the first of them, have no unit: their values are read as uV", assumed,
                   first);
    return 0;
}

/* One rate and units for the signals that the montage takes. */
static int check_sources(const struct edf_info *info, const struct montage *m, struct channels *c, struct err *err) {
    int *used = calloc((size_t)m->n_sources + 1, sizeof *used);
    if (!used)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d channels", m->n_sources);
    for (int k = 0; k < m->n_sources; k++)
        used[k] = c->signals[m->sources[k]];
    const struct edf_signal *first = &info->signals[used[0]];
    int rc = channels_check_units(info, used, m->n_sources, c->faults, sizeof c->faults, err);
    for (int k = 1; k < m->n_sources && !rc; k++) {
        const struct edf_signal *s = &info->signals[used[k]];
        if (s->samples_per_record != first->samples_per_record)
            rc = err_set(err, ERR_PRECONDITION,
                         "channel %s has %g Hz but %s has %g Hz; expected one rate for the montage's channels", s->label,
                         s->rate_hz, first->label, first->rate_hz);
    }
    c->rate_hz = first->rate_hz;
    c->samples_per_record = first->samples_per_record;
    free(used);
    return rc;
}

int channels_choose(const struct edf_info *info, const struct frontend_config *config, struct channels *c, struct err *err) {
    struct montage *m = NULL;
    *c = (struct channels){.labels = calloc((size_t)info->n_signals + 1, sizeof *c->labels),
                           .signals = calloc((size_t)info->n_signals + 1, sizeof *c->signals)};
    if (!c->labels || !c->signals)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d labels", info->n_signals);
    for (int i = 0; i < info->n_signals && c->n < FRONTEND_MAX_LABELS; i++)
        if (!info->signals[i].annotation && info->signals[i].usable && info->signals[i].rate_hz > 0) {
            c->labels[c->n] = info->signals[i].label;
            c->signals[c->n++] = i;
        }
    if (c->n == 0)
        return err_set(err, ERR_PRECONDITION, "no usable signal among %d", info->n_signals);
    int rc = frontend_check(config, err);
    if (rc || (rc = montage_new(config->montage, c->labels, c->n, &m, err)))
        return rc;
    c->n_outputs = m->n_outputs;
    c->inverse = m->inverse;
    c->interpolated = m->interpolated;
    str_copy(c->note, sizeof c->note, m->note);
    rc = check_sources(info, m, c, err);
    montage_free(m);
    return rc;
}
