/* geodesic_fit_state: what the files of a geodesic training share. Internal to geodesic_fit*.c. */
#pragma once
#include "geodesic/geodesic_fit.h"
#include "nn/replay.h"

#define FIT_LAST_RATE   1e-6 /* where the cosine ends */
#define FIT_LENGTH_STEP 1e-5 /* relative difference of lengths from those by 8 nodes up to which fewer are used */

/* Consecutive groups with equally many spectra. Arrays on the device. */
struct fit_run {
    int first, end, n;
    int64_t n_pairs;
    float *knots, *spectra; /* (groups, n), (groups, n, width) */
    struct geodesic_pair *pairs;
    /* For fit_choose_orders: nodes of all rules at some wavelengths, (groups, check_rows, 2), and what the metric says there. */
    int64_t check_rows;
    float *check_x, *check_z, *check_host;
};

/* The values that decide which ops a step runs for a group. While they stay the same for each group, a recorded step is run again.
 */
struct fit_form {
    double decay;
    int32_t order;
    bool learns;
};

/* The values that change from step to step of one form, in one layout on the host and on the device: AdamW's values of the metrics
 * and the heads of neighbours that learn alike, and the wavelengths. */
struct fit_travel {
    struct train_place *place; /* two of each group */
    int32_t *rows;             /* of the step, behind the places */
};

struct geodesic_fit {
    struct geodesic_fit_config config;
    const struct spectra *spectra;
    struct stream *stream;
    int groups, n_runs;
    int64_t count, epoch_steps, step, shuffled, paths;
    geodesic_members members[GEODESIC_MAX_GROUPS];
    struct fit_run runs[GEODESIC_MAX_GROUPS];
    struct {
        double decay;
        int64_t stop_epoch;
    } limit[GEODESIC_MAX_GROUPS];
    float *params, *grads, *m, *v, *wavelengths; /* device */
    uint8_t *decay;                              /* device */
    struct fit_travel host, there;               /* pinned; device */
    struct fit_form form[GEODESIC_MAX_GROUPS];   /* of the recordings */
    struct replay replay;
    double *loss, *squares;                   /* device: two of each group; behind them one of each group */
    uint32_t *order;                          /* host: wavelengths in this epoch's order */
    double *host_loss, *epoch_loss, *running; /* host: what is at loss; one of each group, neighbours */
    int32_t *orders;                          /* host: nodes in a cell, of each group */
    struct fit_ode *ode;                      /* with that solver */
};

int fit_orders_new(struct geodesic_fit *f, struct fit_run *run, struct err *err); /* freed with the fit */
/* At an epoch's start: lengths of cells at some wavelengths by every rule; a group takes the first rule whose lengths agree with
 * those by 8 nodes, and never a smaller one again. */
int fit_choose_orders(struct geodesic_fit *f, struct err *err);
