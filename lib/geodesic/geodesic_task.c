/* The geodesic task: trains the folds of a leave-one-out validation over concentrations, chooses decay and epochs before if asked
 * to, and reports. */

#include "geodesic/geodesic_task.h"

/* ---- opening --------------------------------------------------------------------------------------------------- */

static int cut_figures(struct geodesic_task *t, struct err *err) {
    int64_t n = t->folds, curve = t->config->epochs * (n + 1);
    int64_t selection = (int64_t)(t->phases - 1) * GEODESIC_MARKS * n * n;
    int64_t agreement = t->config->prior == GEODESIC_NO_PRIOR ? 0 : 2 * selection, weights = agreement ? n + 1 : 0;
    t->n_figures = curve + selection + agreement + weights + 2 * (n + 1) + 2;
    if (!(t->figures = malloc((size_t)t->n_figures * sizeof *t->figures)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld epochs of figures", (long long)t->config->epochs);
    for (int64_t i = 0; i < t->n_figures; i++)
        t->figures[i] = NAN;
    t->curve = t->figures;
    t->selection = t->curve + curve;
    t->agreement = agreement ? t->selection + selection : NULL;
    t->decay = t->selection + selection + agreement;
    t->stop_epoch = t->decay + n + 1;
    t->train_s = t->stop_epoch + n + 1;
    t->wall_s = t->train_s + 1;
    t->prior_weight = weights ? t->wall_s + 1 : NULL;
    *t->train_s = *t->wall_s = 0;
    for (int g = 0; g <= t->folds; g++) {
        t->decay[g] = t->config->decay;
        t->stop_epoch[g] = (double)(t->config->stop_epoch ? t->config->stop_epoch : t->config->epochs);
    }
    return 0;
}

int geodesic_check_spectra(const struct geodesic_config *config, const struct spectra *spectra, struct err *err) {
    if (geodesic_phases(config) > 1 && spectra->n < 4)
        return err_set(err, ERR_INVALID, "%s leaves two spectra out; expected at least 4, found %d",
                       config->selection == GEODESIC_SELECTION_NESTED ? "training.selection nested" : "model.prior", spectra->n);
    return 0;
}

static int open_spectra(struct geodesic_task *t, struct err *err) {
    const char *csv = t->config->csv;
    int rc = csv ? spectra_read(csv, &t->spectra, err) : spectra_formula(&t->spectra, err);
    if (rc)
        return rc;
    t->folds = t->spectra.n;
    task_log(&t->env, TASK_INFO, "%d spectra of %lld wavelengths, %g to %g, from %s", t->spectra.n, (long long)t->spectra.width,
             t->spectra.concentrations[0], t->spectra.concentrations[t->spectra.n - 1], csv ? csv : "the built-in formula");
    t->phases = geodesic_phases(t->config);
    rc = geodesic_check_spectra(t->config, &t->spectra, err);
    return rc ? rc : cut_figures(t, err);
}

static void task_close(void *task) {
    struct geodesic_task *t = task;
    if (!t)
        return;
    geodesic_fit_free(t->fit);
    geodesic_fit_state_done(&t->state);
    for (int k = 0; k < SPECTRA_MAX_CONCENTRATIONS; k++)
        free(t->fold[k].predicted);
    stream_close(t->stream);
    spectra_done(&t->spectra);
    free(t->figures);
    free(t);
}

static int task_open(const struct jobfile *job, const struct task_env *env, void **ret_task, struct err *err) {
    struct geodesic_task *t = calloc(1, sizeof *t);
    bool found = false;
    if (!t)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a geodesic job");
    t->job = job;
    t->config = job->config;
    t->env = *env;
    t->begun_s = clock_s();
    task_progress_init(&t->progress);
    int rc;
    if ((rc = task_stream(env, &t->stream, err)) || (rc = open_spectra(t, err)) || (rc = geodesic_task_restore(t, &found, err)) ||
        (!found && (rc = geodesic_task_begin_phase(t, err))))
        task_close(t);
    else
        *ret_task = t;
    return rc;
}

/* ---- predictions ----------------------------------------------------------------------------------------------- */

/* What model g of the phase says of spectrum k, from each of its sources. */
struct answers {
    struct geodesic_model model;
    int n, nearest;      /* sources, and which of them is the nearest */
    double *each, *mean; /* (n, width), (width) */
};

static void answers_done(struct answers *a) { free(a->each); }

static int ask_model(struct geodesic_task *t, int g, int k, struct answers *a, struct err *err) {
    int64_t width = t->spectra.width;
    geodesic_fit_model(&t->state, t->fit, g, &a->model);
    a->n = geodesic_members_count(a->model.members);
    if (!(a->each = malloc((size_t)((a->n + 1) * width) * sizeof *a->each)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for predictions");
    a->mean = a->each + a->n * width;
    double closest = INFINITY;
    for (int j = 0, source = 0; j < t->folds; j++) {
        if (!(a->model.members >> j & 1))
            continue;
        double distance = fabs(t->spectra.concentrations[j] - t->spectra.concentrations[k]);
        if (distance < closest) {
            closest = distance;
            a->nearest = source;
        }
        source++;
    }
    return geodesic_predict(t->stream, &a->model, &t->spectra, t->spectra.concentrations[k], a->each, err);
}

/* The mean over sources, and their standard deviation unless NULL. */
static void average(const struct answers *a, int64_t width, double *spread) {
    for (int64_t i = 0; i < width; i++) {
        double square = 0;
        a->mean[i] = 0;
        for (int s = 0; s < a->n; s++)
            a->mean[i] += a->each[s * width + i] / a->n;
        for (int s = 0; s < a->n; s++)
            square += pow(a->each[s * width + i] - a->mean[i], 2) / a->n;
        if (spread)
            spread[i] = sqrt(square);
    }
}

static struct spectrum_score score(const struct geodesic_task *t, int k, const double *predicted) {
    return spectrum_score(t->spectra.wavelengths, predicted, t->spectra.absorbance + k * t->spectra.width, t->spectra.width);
}

/* How the network's difference from the prior agrees with that of the measured spectrum; agreement: of fold and spectrum. */
static int score_residual(const struct geodesic_task *t, const struct answers *a, int held, double *agreement, struct err *err) {
    int64_t width = t->spectra.width;
    const double *measured = t->spectra.absorbance + held * width;
    OWNED_MEMORY double *prior = malloc((size_t)width * sizeof *prior);
    if (!prior)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a prior");
    int rc = geodesic_prior(&t->spectra, a->model.members, t->spectra.concentrations[held], prior, err);
    double along = 0, square = 0;
    for (int64_t i = 0; !rc && i < width; i++) {
        along += (measured[i] - prior[i]) * (a->mean[i] - prior[i]);
        square += pow(a->mean[i] - prior[i], 2);
    }
    agreement[0] = along;
    agreement[t->folds * t->folds] = square;
    return rc;
}

/* Both left-out spectra of a model of the selection, at this mark. */
static int score_selection(struct geodesic_task *t, int g, struct err *err) {
    geodesic_members out = ~geodesic_task_members(t, g);
    int h = __builtin_ctz(out), k = __builtin_ctz(out & (out - 1));
    int64_t epoch = geodesic_fit_at(t->fit) / geodesic_fit_epoch_steps(t->fit), square = t->folds * t->folds;
    int64_t candidate = t->phase * GEODESIC_MARKS + epoch * GEODESIC_MARKS / t->config->epochs - 1;
    for (int side = 0; side < 2; side++) {
        int held = side ? h : k, fold = side ? k : h;
        OWNED(answers_done) struct answers a = {0};
        int rc = ask_model(t, g, held, &a, err);
        if (rc)
            return rc;
        average(&a, t->spectra.width, NULL);
        t->selection[candidate * square + fold * t->folds + held] = score(t, held, a.mean).rmse;
        if (t->agreement && (rc = score_residual(t, &a, held, t->agreement + 2 * candidate * square + fold * t->folds + held, err)))
            return rc;
    }
    return 0;
}

static int score_fold(struct geodesic_task *t, int k, struct err *err) {
    struct geodesic_fold *fold = &t->fold[k];
    int64_t width = t->spectra.width;
    OWNED(answers_done) struct answers a = {0};
    if (!fold->predicted)
        fold->predicted = malloc((size_t)(2 * width) * sizeof *fold->predicted);
    if (!fold->predicted)
        return err_set(err, ERR_EXHAUSTED, "out of memory for predictions");
    fold->spread = fold->predicted + width;
    int rc = ask_model(t, k, k, &a, err);
    if (rc)
        return rc;
    if (t->prior_weight) {
        a.model.prior_weight = t->prior_weight[k];
        average(&a, width, NULL);
        fold->network = score(t, k, a.mean);
        if ((rc = geodesic_prior_blend(&a.model, &t->spectra, t->spectra.concentrations[k], a.each, err)))
            return rc;
    }
    average(&a, width, fold->spread);
    memcpy(fold->predicted, a.mean, (size_t)width * sizeof *a.mean);
    fold->all = score(t, k, a.mean);
    fold->near = score(t, k, a.each + a.nearest * width);
    return 0;
}

/* ---- the work -------------------------------------------------------------------------------------------------- */

static void report_progress(struct geodesic_task *t, double step_s) {
    static const char *const names[] = {"geodesics_per_s", "converged", "quadrature_nodes"};
    const struct geodesic_convergence *shot = geodesic_fit_convergence(t->fit);
    struct task_progress *p = &t->progress;
    int64_t steps = geodesic_fit_steps(t->fit), at = geodesic_fit_at(t->fit), epoch_steps = geodesic_fit_epoch_steps(t->fit);
    str_copy(p->phase, sizeof p->phase, geodesic_task_is_last(t) ? "train" : "select");
    p->step = t->phase * steps + at;
    p->steps = t->phases * steps;
    p->epoch = p->step / epoch_steps;
    p->epochs = t->phases * t->config->epochs;
    p->loss = geodesic_fit_loss(t->fit, -1);
    p->learning_rate = geodesic_fit_rate(t->fit);
    p->step_s = step_s;
    p->gradient_norm = geodesic_fit_gradient_norm(t->fit);
    const double values[] = {[GEODESIC_PATHS_PER_S] = (double)geodesic_fit_paths(t->fit) / (double)epoch_steps / fmax(step_s, 1e-9),
                             [GEODESIC_CONVERGED] = shot && shot->paths ? (double)shot->converged / (double)shot->paths : 1,
                             [GEODESIC_NODES] = geodesic_fit_nodes(t->fit)};
    for (int i = 0; i < GEODESIC_FIGURES; i++) {
        str_copy(p->figures[i].name, sizeof p->figures[i].name, names[i]);
        p->figures[i].value = values[i];
    }
    p->eta_s = (double)(p->steps - p->step) * step_s;
    task_progressed(&t->env, p);
}

/* An epoch has ended: its losses. */
static void end_epoch(struct geodesic_task *t) {
    int64_t epoch = geodesic_fit_at(t->fit) / geodesic_fit_epoch_steps(t->fit);
    for (int g = 0; geodesic_task_is_last(t) && g < t->groups; g++)
        t->curve[(epoch - 1) * (t->folds + 1) + g] = geodesic_fit_loss(t->fit, g);
}

static int train_step(struct geodesic_task *t, struct err *err) {
    double start = clock_s();
    int rc = geodesic_fit_step(t->fit, err);
    double step_s = clock_s() - start;
    struct err why;
    if (rc)
        return rc;
    if (geodesic_fit_warning(t->fit, &why))
        task_log(&t->env, TASK_WARN, "the device cannot record a step, which is slower from here on: %s", why.message);
    if (geodesic_task_is_last(t))
        *t->train_s += step_s;
    if (geodesic_fit_at(t->fit) % geodesic_fit_epoch_steps(t->fit) == 0)
        end_epoch(t);
    report_progress(t, step_s);
    return 0;
}

/* Scores the models of the phase at a mark. */
static int score_mark(struct geodesic_task *t, struct err *err) {
    bool last = geodesic_task_is_last(t);
    int count = last ? t->folds : t->groups, rc = geodesic_fit_save(t->fit, &t->state, err);
    for (int g = 0; !rc && g < count; g++) {
        task_phase(&t->env, &t->progress, "evaluate", g, count);
        if (!(rc = task_point(&t->env, err)))
            rc = last ? score_fold(t, g, err) : score_selection(t, g, err);
    }
    return rc;
}

/* From its present step to its end. A checkpoint may stand at a mark: its scores are taken anew. */
static int run_phase(struct geodesic_task *t, struct err *err) {
    for (;;) {
        int rc;
        if (geodesic_task_is_marked(t) && (rc = score_mark(t, err)))
            return rc;
        if (geodesic_fit_at(t->fit) >= geodesic_fit_steps(t->fit))
            return 0;
        if ((rc = task_point(&t->env, err)) || (rc = train_step(t, err)))
            return rc;
    }
}

static int task_work_off(void *task, struct err *err) {
    struct geodesic_task *t = task;
    int rc;
    while (!(rc = run_phase(t, err)) && !geodesic_task_is_last(t)) {
        t->phase++;
        if (geodesic_task_is_last(t))
            geodesic_task_choose(t);
        if ((rc = geodesic_task_begin_phase(t, err)))
            return rc;
    }
    if (rc || (rc = geodesic_task_save(t, err)))
        return rc;
    return geodesic_task_report(t, err);
}

enum { MOST_DRAWN = 100000 }; /* predicted paths of a running fit: a fraction of a second, which a stopped job waits for */

/* The fit as it stands, for whoever watches the job. A picture that cannot be drawn is no reason to end it. */
static void draw_running(struct geodesic_task *t) {
    struct err why = {0};
    int rc = 0;
    if (t->folds * (t->folds - 1) * t->spectra.width > MOST_DRAWN)
        return;
    for (int k = 0; !rc && k < t->folds; k++)
        rc = score_fold(t, k, &why);
    if (rc || geodesic_task_picture(t, &why))
        task_log(&t->env, TASK_WARN, "the picture of the spectra cannot be drawn: %s", why.message);
}

static int task_checkpoint(void *task, struct err *err) {
    struct geodesic_task *t = task;
    int rc = geodesic_task_save(t, err);
    if (!rc && geodesic_task_is_last(t) && geodesic_fit_at(t->fit))
        draw_running(t);
    return rc;
}

static int check_device(const struct jobfile *job, const struct device_info *device, struct err *err) {
    const struct geodesic_fit_config fit = geodesic_phase_config(job->config, 0);
    return geodesic_fit_check(&fit, device, err);
}

const struct task_work work_geodesic = {
    .open = task_open,
    .run = task_work_off,
    .checkpoint = task_checkpoint,
    .result = geodesic_task_result,
    .close = task_close,
    .estimate = estimate_geodesic,
    .check = check_device,
    .estimates_time = true,
};
