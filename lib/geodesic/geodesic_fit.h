/* geodesic_fit: the training of several geodesic models at once, each from its own choice of the measured spectra: the folds of a
 * leave-one-out validation, and the model of all spectra. Models are groups of one batch and never meet: each has its own metric,
 * its own statistics for normalising, its own clipping, and the bits that it would have alone. A spectrum that a model does not
 * learn from is not read for it.
 *
 * A step works on the paths between all its spectra at some wavelengths. On a device that can record, its work is one recording
 * (nn/replay). Owned by the driving thread; allocates nothing in a step.
 */
#pragma once

#include "geodesic/geodesic_exact.h"
#include "geodesic/spectra.h"
#include "kernels/op.h"

enum { GEODESIC_MAX_GROUPS = 512, GEODESIC_FIT_CHECKS = 16 };
enum geodesic_solver { GEODESIC_CLOSED_FORM, GEODESIC_ODE };
enum geodesic_products { GEODESIC_F32, GEODESIC_BF16X3 };

struct geodesic_fit_config {
    enum geodesic_head head;
    enum geodesic_solver solver;
    enum geodesic_products products;
    int64_t epochs, batch, ode_steps; /* batch: wavelengths of a step */
    double metric_rate, head_rate, decay, clip, smoothness, floor, head_gain;
    uint64_t seed;
};

struct geodesic_fit;
/* UNSUPPORTED: what such a device cannot do, or one key beside another. Any thread. */
int geodesic_fit_check(const struct geodesic_fit_config *config, const struct device_info *device, struct err *err);
/* spectra: borrowed until free. Consecutive models with equally many spectra share launches. */
int geodesic_fit_new(const struct geodesic_fit_config *config, const struct spectra *spectra, const geodesic_members *members,
                     int groups, struct stream *s, struct geodesic_fit **ret, struct err *err);
void geodesic_fit_free(struct geodesic_fit *f); /* NULL is fine */
/* Another decay than the configuration's for one model, and the epoch after which it learns no more (0: the last). Before a step.
 */
void geodesic_fit_limit(struct geodesic_fit *f, int group, double decay, int64_t stop_epoch);
int64_t geodesic_fit_steps(const struct geodesic_fit *f); /* of the whole training */
int64_t geodesic_fit_at(const struct geodesic_fit *f);    /* steps taken */
int64_t geodesic_fit_epoch_steps(const struct geodesic_fit *f);
int64_t geodesic_fit_paths(const struct geodesic_fit *f); /* geodesics of one epoch: pairs times wavelengths, all groups */
/* One step of all models. INTERNAL when a loss is no finite number: which model. */
int geodesic_fit_step(struct geodesic_fit *f, struct err *err);
/* Once, after the device could not record a step: true, and the reason in *ret. Steps then run op by op, slower, with the same
 * bits. */
bool geodesic_fit_warning(struct geodesic_fit *f, struct err *ret);
/* Mean squared error of the epoch that ended last, of a group or (−1) of all, normalised units; NaN before. */
double geodesic_fit_loss(const struct geodesic_fit *f, int group);
double geodesic_fit_rate(const struct geodesic_fit *f); /* of the head, at the next step */
/* How calm the training is: the largest norm of a model's gradient in the newest step, and the most nodes that a model takes in a
 * cell; steep metrics need more. */
double geodesic_fit_gradient_norm(const struct geodesic_fit *f);
int geodesic_fit_nodes(const struct geodesic_fit *f);

/* How the shooting of GEODESIC_ODE went in all steps since geodesic_fit_new: paths whose end lies within the tolerance of where it
 * should be, 1e-5 of normalised concentration, and the largest distance of one; infinite when a path left the numbers. */
struct geodesic_convergence {
    int64_t paths, converged;
    double largest_miss;
};
/* NULL for the closed form, whose paths end where they should. */
const struct geodesic_convergence *geodesic_fit_convergence(const struct geodesic_fit *f);

/* The state of a training for a checkpoint, in host memory; arrays of groups·count floats. */
struct geodesic_fit_state {
    int groups;
    int64_t count, step;
    float *params, *m, *v;
    int32_t *orders; /* of each group */
    double *losses;  /* of each group: the last epoch's, and the running sum of this one */
};
int geodesic_fit_state_new(const struct geodesic_fit *f, struct geodesic_fit_state *ret, struct err *err);
void geodesic_fit_state_done(struct geodesic_fit_state *state);
int geodesic_fit_save(struct geodesic_fit *f, struct geodesic_fit_state *to, struct err *err);
int geodesic_fit_load(struct geodesic_fit *f, const struct geodesic_fit_state *from, struct err *err);

void geodesic_fit_model(const struct geodesic_fit_state *state, const struct geodesic_fit *f, int group,
                        struct geodesic_model *ret);
/* The spectrum at a concentration (its unit), from each of the members: predictions (members, width) in order of concentration, in
 * absorbance. `at` may be a member's own concentration: that source is then its own spectrum. */
int geodesic_predict(struct stream *s, const struct geodesic_model *model, const struct spectra *spectra, double at, double *ret,
                     struct err *err);
/* g(c, λ) at n concentrations (their unit) and n_rows wavelengths (indices), scaled so that ∫√g dc = 2 over the table's range of
 * normalised concentration: ret (n, n_rows). */
struct geodesic_grid {
    const double *concentrations;
    int n;
    const int64_t *rows;
    int64_t n_rows;
};
int geodesic_metric(struct stream *s, const struct geodesic_model *model, const struct spectra *spectra,
                    const struct geodesic_grid *grid, double *ret, struct err *err);
