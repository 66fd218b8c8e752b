#include "geodesic/geodesic_kind.h"

#include "work/jobfile.h"
#include "work/report.h"

#define C(field) offsetof(struct geodesic_config, field)

static const struct option rows[] = {
    {"data.csv", OPTION_PATH, C(csv), "null", 0, 0, NULL,
     "table of spectra: a header row with the concentrations, then a row per wavelength; null = the built-in formula"},
    {"model.head", OPTION_ENUM, C(head), "flow", 0, 0, "flow|decoder",
     "how the absorbance is predicted: by a flow along the path, or by a decoder of the path's features"},
    {"model.prior", OPTION_ENUM, C(prior), "none", 0, 0, "none|gaussian_process",
     "gaussian_process: the answer is that of a Gaussian process and as much of the network's difference from it as inner folds "
     "bear out; trains models without two spectra each before"},
    {"model.metric_floor", OPTION_F64, C(floor), "0.1", 1e-6, 10, NULL, "added to the metric"},
    {"model.head_gain", OPTION_F64, C(head_gain), "0.7", 0, 10, NULL, "gain of the head's initial weights"},
    {"training.solver", OPTION_ENUM, C(solver), "closed_form", 0, 0, "closed_form|ode",
     "quadratures, or Runge-Kutta with shooting (CPU, flow, hundreds of times slower)"},
    {"training.products", OPTION_ENUM, C(products), "f32", 0, 0, "f32|bf16x3",
     "bf16x3: products of the hidden layers on a GPU's tensor cores, each as three of bfloat16"},
    {"training.ode_steps", OPTION_I64, C(ode_steps), "100", 10, 10000, NULL, "Runge-Kutta steps of a path"},
    {"training.epochs", OPTION_I64, C(epochs), "500", 1, 1000000, NULL,
     "passes over the wavelengths; the learning rate's schedule"},
    {"training.stop_epoch", OPTION_I64, C(stop_epoch), "0", 0, 1000000, NULL, "stop learning after this many; 0 = all"},
    {"training.batch_wavelengths", OPTION_I64, C(batch), "51", 1, 4096, NULL,
     "wavelengths per step; a step uses all pairs of spectra at each"},
    {"training.learning_rate", OPTION_F64, C(head_rate), "1e-3", 1e-9, 1, NULL,
     "learning rate of the head; falls to 1e-6 along a cosine"},
    {"training.metric_learning_rate", OPTION_F64, C(metric_rate), "5e-4", 0, 1, NULL,
     "learning rate of the metric; falls to 1e-6 along a cosine"},
    {"training.weight_decay", OPTION_F64, C(decay), "0", 0, 1000, NULL, "decoupled weight decay of all parameters"},
    {"training.gradient_clip", OPTION_F64, C(clip), "1", 0, 1e6, NULL, "largest norm of a model's gradient; 0 = off"},
    {"training.smoothness", OPTION_F64, C(smoothness), "0.01", 0, 1e6, NULL, "weight of the curvature of ln sqrt(g) in the loss"},
    {"training.seed", OPTION_I64, C(seed), "1", 0, 4294967295.0, NULL, "seed of initial weights and of the order of wavelengths"},
    {"training.selection", OPTION_ENUM, C(selection), "fixed", 0, 0, "fixed|nested",
     "nested: choose weight_decay and stop_epoch of each fold by leaving out one of its own spectra in turn"},
    {"training.decays", OPTION_F64S, C(decays), "[0, 0.3, 1, 3]", 0, 1000, NULL, "weight decays that selection nested tries"},
    {"training.final_model", OPTION_BOOL, C(final_model), "true", 0, 0, NULL, "also train a model of all spectra, for predictions"},
    {"evaluate.gp_length", OPTION_F64, C(gp_length), "15", 1e-9, 1e9, NULL, "length of the Gaussian process, in the table's unit"},
    {"evaluate.gp_noise", OPTION_F64, C(gp_noise), "0.1", 1e-12, 1e6, NULL, "noise of the Gaussian process, on the diagonal"},
};
static const struct option_table own_keys = OPTION_TABLE(rows);
static const struct kind_keys keys[] = {{&own_keys, 0}, {NULL, 0}};

static int read_config(struct jobfile *job, struct arena *arena, struct err *err) {
    struct geodesic_config *c = job->config;
    (void)arena;
    if (c->stop_epoch > c->epochs)
        return err_set(err, ERR_INVALID, "%s: training.stop_epoch %lld lies behind training.epochs %lld", job->file,
                       (long long)c->stop_epoch, (long long)c->epochs);
    if (c->selection == GEODESIC_SELECTION_NESTED && (c->decays.count < 1 || c->decays.count > 16))
        return err_set(err, ERR_INVALID, "%s: training.decays holds %zu values; expected 1 to 16", job->file, c->decays.count);
    return 0;
}

/* The classical rules are named beside the models, whoever is better. */
static void summarise(const struct json *result, char *buf, size_t size) {
    const double rmse = json_f64(json_get(result, "mean_rmse"), NAN);
    const struct json *value, *rules = json_get(result, "baselines");
    struct json_cursor at = {0};
    const char *key, *best = NULL;
    double least = INFINITY;
    int better = 0, n = 0;
    for (; json_next(rules, &at, &key, &value); n++) {
        double other = json_f64(value, NAN);
        better += other < rmse;
        best = other < least ? key : best;
        least = fmin(least, other);
    }
    str_format(buf, size, "mean RMSE %.5f over %zu held-out spectra", rmse, json_count(json_get(result, "per_fold")));
    const char *prior = json_str(json_get(result, "prior"), NULL);
    size_t len = strlen(buf);
    if (prior)
        str_format(buf + len, size - len, " (its prior alone %.5f, its networks alone %.5f)", json_f64(json_get(rules, prior), NAN),
                   json_f64(json_get(result, "mean_rmse_network"), NAN));
    len = strlen(buf);
    if (best)
        str_format(buf + len, size - len, "; %s, the best rule without learning, has %.5f (%d of %d rules are better)", best, least,
                   better, n);
}

#define FIGURE(i) offsetof(struct task_progress, figures[i].value)
static const struct kind_metric metrics[] = {
    {KIND_METRIC_STEPS, 0, COUNTER("brrd_geodesic_steps_total", "Optimizer steps of geodesic jobs.", "device")},
    {KIND_METRIC_VALUE, offsetof(struct task_progress, loss),
     GAUGE("brrd_geodesic_loss", "Mean squared error of the last epoch over all models of a job, normalised units.", "job_id")},
    {KIND_METRIC_VALUE, FIGURE(GEODESIC_PATHS_PER_S),
     GAUGE("brrd_geodesic_paths_per_second", "Paths that a job computes in a second.", "job_id")},
    {KIND_METRIC_VALUE, FIGURE(GEODESIC_CONVERGED),
     GAUGE("brrd_geodesic_converged_ratio", "Share of a job's paths that end where they should; 1 in closed form.", "job_id")},
    {KIND_METRIC_VALUE, offsetof(struct task_progress, gradient_norm),
     GAUGE("brrd_geodesic_gradient_norm", "Largest norm of a model's gradient in the newest step of a job.", "job_id")},
    {KIND_METRIC_VALUE, FIGURE(GEODESIC_NODES),
     GAUGE("brrd_geodesic_quadrature_nodes", "Most nodes in a cell of a job's models, 4 to 8: steep metrics need more.", "job_id")},
    {0, 0, {0}},
};

const struct task_kind kind_geodesic = {
    .name = "geodesic",
    .help = "learns how absorbance spectra change with concentration, and validates it by leaving each spectrum out",
    .keys = keys,
    .checkpoints = true,
    .recordings = KIND_NO_RECORDINGS,
    .fixed = "data is a table of spectra (data.csv)",
    .config_bytes = sizeof(struct geodesic_config),
    .config = read_config,
    .metrics = metrics,
    .summary = summarise,
};
