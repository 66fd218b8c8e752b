/* Output files of a geodesic job: report.json, predictions.csv, spectra.svg, metric.svg, model.safetensors. */

#include "geodesic/geodesic_task.h"
#include "plot/plot_panels.h"

enum { PATH_SIZE = 4096, MAX_REPORT = 256 << 20, METRIC_POINTS = 121, METRIC_CURVES = 4, SCORES = 6 };

/* ---- the rules beside the models ------------------------------------------------------------------------------- */

static int baseline(const struct geodesic_task *t, enum interpolate_rule rule, int k, double *found, struct err *err) {
    const struct interpolate a = {
        .rule = rule, .at = t->spectra.concentrations[k], .length = t->config->gp_length, .noise = t->config->gp_noise};
    return geodesic_interpolate(&t->spectra, geodesic_phase_members(t->folds, true, k), &a, found, err);
}

/* Scores of all rules on all folds: (INTERPOLATE_RULES, folds). */
static int score_baselines(const struct geodesic_task *t, struct spectrum_score *ret, struct err *err) {
    size_t width = (size_t)t->spectra.width;
    OWNED_MEMORY double *found = malloc(width * sizeof *found);
    if (!found)
        return err_set(err, ERR_EXHAUSTED, "out of memory for baselines");
    for (int rule = 0; rule < INTERPOLATE_RULES; rule++)
        for (int k = 0; k < t->folds; k++) {
            int rc = baseline(t, (enum interpolate_rule)rule, k, found, err);
            if (rc)
                return rc;
            ret[rule * t->folds + k] =
                spectrum_score(t->spectra.wavelengths, found, t->spectra.absorbance + (size_t)k * width, (int64_t)width);
        }
    return 0;
}

/* Mean over the folds of the RMSE of one kind of their scores. */
#define MEAN_RMSE(t, kind) mean_rmse(&(t)->fold[0].kind, sizeof(t)->fold[0], (t)->folds)
static double mean_rmse(const struct spectrum_score *first, size_t stride, int folds) {
    double sum = 0;
    for (int k = 0; k < folds; k++)
        sum += ((const struct spectrum_score *)(const void *)((const char *)first + (size_t)k * stride))->rmse / folds;
    return sum;
}

static double mean_baseline(const struct geodesic_task *t, const struct spectrum_score *scores) {
    return mean_rmse(scores, sizeof *scores, t->folds);
}

static double geodesics_per_s(const struct geodesic_task *t) {
    return (double)geodesic_fit_paths(t->fit) * (double)t->config->epochs / fmax(*t->train_s, 1e-9);
}

/* ---- report.json ----------------------------------------------------------------------------------------------- */

static void put_folds(const struct geodesic_task *t, struct json_writer *w) {
    json_begin_array(w, "per_fold");
    for (int k = 0; k < t->folds; k++) {
        json_begin_object(w, NULL);
        json_put_f64(w, "concentration", t->spectra.concentrations[k]);
        spectrum_score_put(w, "all", &t->fold[k].all);
        spectrum_score_put(w, "near", &t->fold[k].near);
        if (t->prior_weight) {
            spectrum_score_put(w, "network", &t->fold[k].network);
            json_put_f64(w, "prior_weight", t->prior_weight[k]);
        }
        json_put_f64(w, "weight_decay", t->decay[k]);
        json_put_i64(w, "epochs", (int64_t)t->stop_epoch[k]);
        json_put_i64(w, "nodes_per_cell", t->state.orders[k]);
        json_begin_array(w, "loss");
        for (int64_t e = 0; e < t->config->epochs; e++)
            json_put_f64(w, NULL, t->curve[e * (t->folds + 1) + k]);
        json_end(w, ']');
        json_end(w, '}');
    }
    json_end(w, ']');
}

static void put_baselines(const struct geodesic_task *t, const struct spectrum_score *scores, struct json_writer *w) {
    json_begin_object(w, "baselines");
    for (int rule = 0; rule < INTERPOLATE_RULES; rule++) {
        const struct spectrum_score *row = scores + rule * t->folds;
        json_begin_object(w, interpolate_name((enum interpolate_rule)rule));
        json_put_f64(w, "mean_rmse", mean_baseline(t, row));
        json_begin_array(w, "per_fold");
        for (int k = 0; k < t->folds; k++)
            spectrum_score_put(w, NULL, &row[k]);
        json_end(w, ']');
        json_end(w, '}');
    }
    json_end(w, '}');
}

/* RMSE of every candidate: decay, epochs, and a row for each fold of its inner spectra. */
static void put_selection(const struct geodesic_task *t, struct json_writer *w) {
    int64_t n = t->folds;
    json_begin_array(w, "selection");
    for (int64_t c = 0; c < (t->phases - 1) * GEODESIC_MARKS; c++) {
        json_begin_object(w, NULL);
        json_put_f64(w, "weight_decay", geodesic_phase_config(t->config, (int)c / GEODESIC_MARKS).decay);
        json_put_i64(w, "epochs", geodesic_mark_epoch((int)(c % GEODESIC_MARKS), t->config->epochs));
        json_begin_array(w, "rmse_without_each");
        for (int64_t h = 0; h < n; h++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += k == h ? 0 : t->selection[(c * n + h) * n + k] / (double)(n - 1);
            json_put_f64(w, NULL, sum);
        }
        json_end(w, ']');
        json_end(w, '}');
    }
    json_end(w, ']');
}

/* Nothing without a prior. */
static void put_prior(const struct geodesic_task *t, struct json_writer *w) {
    if (!t->prior_weight)
        return;
    json_put_str(w, "prior", interpolate_name(INTERPOLATE_GP_EVIDENCE));
    json_put_f64(w, "mean_rmse_network", MEAN_RMSE(t, network));
}

/* null for the closed form. */
static void put_convergence(const struct geodesic_task *t, struct json_writer *w) {
    const struct geodesic_convergence *c = geodesic_fit_convergence(t->fit);
    if (!c) {
        json_put_null(w, "convergence");
        return;
    }
    JSON_OBJECT(w, "convergence", *c, paths, converged, largest_miss);
}

static int write_json(const struct geodesic_task *t, const struct spectrum_score *baselines, struct err *err) {
    char path[PATH_SIZE];
    OWNED(str_done) struct str out = str_of(MAX_REPORT);
    struct json_writer w = json_to(&out);
    int rc = fsio_join(path, sizeof path, t->env.directory, "report.json", err);
    json_begin_object(&w, NULL);
    json_put_f64(&w, "mean_rmse", MEAN_RMSE(t, all));
    json_put_f64(&w, "mean_rmse_near", MEAN_RMSE(t, near));
    put_prior(t, &w);
    json_put_f64(&w, "geodesics_per_s", geodesics_per_s(t));
    json_put_f64(&w, "train_s", *t->train_s);
    json_put_f64(&w, "wall_s", *t->wall_s);
    json_put_str(&w, "spectra", t->config->csv ? t->config->csv : "the built-in formula");
    json_put_str(&w, "spectra_sha256", t->spectra.sha256);
    json_put_str(&w, "head", t->config->head == GEODESIC_FLOW ? "flow" : "decoder");
    JSON_MEMBERS(&w, *t->config, seed, epochs);
    put_convergence(t, &w);
    put_folds(t, &w);
    put_baselines(t, baselines, &w);
    put_selection(t, &w);
    json_end(&w, '}');
    str_puts(&out, "\n");
    if (rc)
        return rc;
    return fsio_write_text(path, &out, err);
}

/* ---- predictions.csv ------------------------------------------------------------------------------------------- */

static int write_csv(const struct geodesic_task *t, struct err *err) {
    const struct spectra *s = &t->spectra;
    char path[PATH_SIZE];
    OWNED(str_done) struct str out = str_of(MAX_REPORT);
    int rc = fsio_join(path, sizeof path, t->env.directory, "predictions.csv", err);
    str_puts(&out, "wavelength");
    for (int k = 0; k < s->n; k++)
        str_printf(&out, ",%g measured,%g predicted,%g spread", s->concentrations[k], s->concentrations[k], s->concentrations[k]);
    str_puts(&out, "\n");
    for (int64_t i = 0; i < s->width; i++) {
        str_put_f64(&out, s->wavelengths[i]);
        for (int k = 0; k < s->n; k++)
            str_printf(&out, ",%.6g,%.6g,%.3g", s->absorbance[k * s->width + i], t->fold[k].predicted[i], t->fold[k].spread[i]);
        str_puts(&out, "\n");
    }
    if (rc)
        return rc;
    return fsio_write_text(path, &out, err);
}

/* ---- pictures -------------------------------------------------------------------------------------------------- */

/* The rule with the smallest mean error. */
static enum interpolate_rule best_rule(const struct geodesic_task *t, const struct spectrum_score *scores) {
    int best = 0;
    for (int rule = 1; rule < INTERPOLATE_RULES; rule++)
        if (mean_baseline(t, scores + rule * t->folds) < mean_baseline(t, scores + best * t->folds))
            best = rule;
    return (enum interpolate_rule)best;
}

/* A panel for each held-out spectrum. by_rule: (folds, width), what the best rule predicts. */
static int draw_spectra_beside(const struct geodesic_task *t, enum interpolate_rule rule, double rule_rmse, const double *by_rule,
                               struct err *err) {
    const struct spectra *s = &t->spectra;
    struct plot_panel_curve curves[SPECTRA_MAX_CONCENTRATIONS][3];
    struct plot_panel panels[SPECTRA_MAX_CONCENTRATIONS];
    char titles[SPECTRA_MAX_CONCENTRATIONS][96], path[PATH_SIZE], subtitle[160], beside[80];
    str_format(beside, sizeof beside, "%s, the best rule without learning", interpolate_name(rule));
    for (int k = 0; k < s->n; k++) {
        curves[k][0] = (struct plot_panel_curve){"measured", s->absorbance + k * s->width, NULL};
        curves[k][1] =
            (struct plot_panel_curve){"predicted, with the spread over sources", t->fold[k].predicted, t->fold[k].spread};
        curves[k][2] = (struct plot_panel_curve){beside, by_rule + k * s->width, NULL};
        str_format(titles[k], sizeof titles[k], "%g held out: RMSE %.5f, R² %.3f", s->concentrations[k], t->fold[k].all.rmse,
                   t->fold[k].all.r2);
        panels[k] = (struct plot_panel){titles[k], curves[k], 3};
    }
    str_format(subtitle, sizeof subtitle, "mean RMSE %.5f after %lld of %lld epochs; %s %.5f; seed %lld", MEAN_RMSE(t, all),
               (long long)(geodesic_fit_at(t->fit) / geodesic_fit_epoch_steps(t->fit)), (long long)t->config->epochs,
               interpolate_name(rule), rule_rmse, (long long)t->config->seed);
    struct plot_panels p = {.title = t->job->name,
                            .subtitle = subtitle,
                            .x_name = "wavelength, nm",
                            .y_name = "absorbance",
                            .x = s->wavelengths,
                            .n = s->width,
                            .panels = panels,
                            .n_panels = s->n};
    int rc = fsio_join(path, sizeof path, t->env.directory, "spectra.svg", err);
    return rc ? rc : plot_panels(path, &p, err);
}

static int draw_spectra(const struct geodesic_task *t, const struct spectrum_score *scores, struct err *err) {
    const enum interpolate_rule rule = best_rule(t, scores);
    const size_t width = (size_t)t->spectra.width;
    OWNED_MEMORY double *values = malloc((size_t)t->folds * width * sizeof *values);
    if (!values)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a picture of spectra");
    for (int k = 0; k < t->folds; k++) {
        int rc = baseline(t, rule, k, values + (size_t)k * width, err);
        if (rc)
            return rc;
    }
    return draw_spectra_beside(t, rule, mean_baseline(t, scores + (size_t)rule * (size_t)t->folds), values, err);
}

/* √g over concentration at some wavelengths, a panel for each model. */
static int draw_metric(const struct geodesic_task *t, struct err *err) {
    const struct spectra *s = &t->spectra;
    int n = t->groups < PLOT_MAX_PANELS ? t->groups : PLOT_MAX_PANELS;
    double at[METRIC_POINTS], g[METRIC_POINTS * METRIC_CURVES];
    OWNED_MEMORY double *w = malloc((size_t)n * METRIC_CURVES * METRIC_POINTS * sizeof *w);
    struct plot_panel_curve curves[PLOT_MAX_PANELS][METRIC_CURVES];
    struct plot_panel panels[PLOT_MAX_PANELS];
    char titles[PLOT_MAX_PANELS][48], names[METRIC_CURVES][24], path[PATH_SIZE];
    int64_t rows[METRIC_CURVES];
    struct geodesic_grid grid = {at, METRIC_POINTS, rows, METRIC_CURVES};
    int rc;
    if (!w)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a picture of the metric");
    for (int c = 0; c < METRIC_CURVES; c++)
        rows[c] = c * (s->width - 1) / (METRIC_CURVES - 1);
    for (int i = 0; i < METRIC_POINTS; i++)
        at[i] = s->concentrations[0] + (s->concentrations[s->n - 1] - s->concentrations[0]) * i / (METRIC_POINTS - 1);
    for (int k = 0; k < n; k++) {
        struct geodesic_model model;
        geodesic_fit_model(&t->state, t->fit, k, &model);
        if ((rc = geodesic_metric(t->stream, &model, s, &grid, g, err)))
            return rc;
        for (int c = 0; c < METRIC_CURVES; c++) {
            double *curve = w + (k * METRIC_CURVES + c) * METRIC_POINTS;
            for (int i = 0; i < METRIC_POINTS; i++)
                curve[i] = sqrt(g[i * METRIC_CURVES + c]);
            str_format(names[c], sizeof names[c], "%g nm", s->wavelengths[rows[c]]);
            curves[k][c] = (struct plot_panel_curve){names[c], curve, NULL};
        }
        if (k < t->folds)
            str_format(titles[k], sizeof titles[k], "without %g", s->concentrations[k]);
        else
            str_copy(titles[k], sizeof titles[k], "all spectra");
        panels[k] = (struct plot_panel){titles[k], curves[k], METRIC_CURVES};
    }
    struct plot_panels p = {.title = "learned metric: sqrt(g) over concentration",
                            .subtitle = "scaled to a length of 2 at each wavelength",
                            .x_name = "concentration",
                            .y_name = "sqrt(g)",
                            .x = at,
                            .n = METRIC_POINTS,
                            .panels = panels,
                            .n_panels = n};
    rc = fsio_join(path, sizeof path, t->env.directory, "metric.svg", err);
    return rc ? rc : plot_panels(path, &p, err);
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

static int write_model(const struct geodesic_task *t, struct err *err) {
    struct geodesic_file file;
    char path[PATH_SIZE], sha[DIGEST_HEX_SIZE];
    geodesic_task_file(t, &file);
    int rc = fsio_join(path, sizeof path, t->env.directory, "model.safetensors", err);
    return rc ? rc : geodesic_file_write(path, &file, NULL, sha, err);
}

static void log_table(const struct geodesic_task *t, const struct spectrum_score *baselines) {
    for (int k = 0; k < t->folds; k++) {
        const struct geodesic_fold *f = &t->fold[k];
        char network[80] = "";
        if (t->prior_weight)
            str_format(network, sizeof network, ", networks alone R² %.3f RMSE %.5f", f->network.r2, f->network.rmse);
        task_log(&t->env, TASK_INFO, "%g held out: all R² %.3f RMSE %.5f, near R² %.3f RMSE %.5f%s", t->spectra.concentrations[k],
                 f->all.r2, f->all.rmse, f->near.r2, f->near.rmse, network);
    }
    task_log(&t->env, TASK_INFO, "mean RMSE %.5f (all), %.5f (near)", MEAN_RMSE(t, all), MEAN_RMSE(t, near));
    if (t->prior_weight)
        task_log(&t->env, TASK_INFO, "the networks alone: mean RMSE %.5f", MEAN_RMSE(t, network));
    const struct geodesic_convergence *c = geodesic_fit_convergence(t->fit);
    if (c && c->paths)
        task_log(&t->env, c->converged < c->paths ? TASK_WARN : TASK_INFO,
                 "solver ode: %lld of %lld paths converged (%.3f %%), the largest miss is %.2g", (long long)c->converged,
                 (long long)c->paths, 100.0 * (double)c->converged / (double)c->paths, c->largest_miss);
    for (int rule = 0; rule < INTERPOLATE_RULES; rule++)
        task_log(&t->env, TASK_INFO, "%s: mean RMSE %.5f", interpolate_name((enum interpolate_rule)rule),
                 mean_baseline(t, baselines + rule * t->folds));
}

/* All files but that of draw_metric, which asks the device. */
static int write_files(const struct geodesic_task *t, struct err *err) {
    OWNED_MEMORY struct spectrum_score *baselines = calloc((size_t)INTERPOLATE_RULES * (size_t)t->folds, sizeof *baselines);
    if (!baselines)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a report");
    int rc;
    if ((rc = score_baselines(t, baselines, err)) || (rc = write_model(t, err)) || (rc = write_csv(t, err)) ||
        (rc = draw_spectra(t, baselines, err)) || (rc = write_json(t, baselines, err)))
        return rc;
    log_table(t, baselines);
    return 0;
}

int geodesic_task_picture(const struct geodesic_task *t, struct err *err) {
    OWNED_MEMORY struct spectrum_score *baselines = calloc((size_t)INTERPOLATE_RULES * (size_t)t->folds, sizeof *baselines);
    if (!baselines)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a picture of spectra");
    int rc = score_baselines(t, baselines, err);
    return rc ? rc : draw_spectra(t, baselines, err);
}

int geodesic_task_report(struct geodesic_task *t, struct err *err) {
    int rc = draw_metric(t, err);
    return rc ? rc : write_files(t, err);
}

/* R² by concentration, as people are shown it. */
static void put_r2(const struct geodesic_task *t, struct json_writer *w, const char *key, bool with_prior) {
    char concentration[32];
    json_begin_object(w, key);
    for (int k = 0; k < t->folds; k++) {
        str_format(concentration, sizeof concentration, "%g", t->spectra.concentrations[k]);
        json_put_f64(w, concentration, with_prior ? t->fold[k].all.r2 : t->fold[k].network.r2);
    }
    json_end(w, '}');
}

void geodesic_task_result(void *task, struct json_writer *w, const char *key) {
    const struct geodesic_task *t = task;
    OWNED_MEMORY struct spectrum_score *baselines = calloc((size_t)INTERPOLATE_RULES * (size_t)t->folds, sizeof *baselines);
    bool scored = baselines && !score_baselines(t, baselines, NULL);
    json_begin_object(w, key);
    json_put_str(w, "report", "report.json");
    json_put_f64(w, "mean_rmse", MEAN_RMSE(t, all));
    json_put_f64(w, "mean_rmse_near", MEAN_RMSE(t, near));
    put_prior(t, w);
    json_begin_array(w, "per_fold");
    for (int k = 0; k < t->folds; k++) {
        json_begin_object(w, NULL);
        json_put_f64(w, "concentration", t->spectra.concentrations[k]);
        JSON_MEMBERS(w, t->fold[k].all, r2, rmse);
        json_put_f64(w, "r2_near", t->fold[k].near.r2);
        json_put_f64(w, "rmse_near", t->fold[k].near.rmse);
        json_end(w, '}');
    }
    json_end(w, ']');
    if (t->prior_weight) {
        put_r2(t, w, "r2_with_prior", true);
        put_r2(t, w, "r2_networks_alone", false);
    }
    json_begin_object(w, "baselines");
    for (int rule = 0; scored && rule < INTERPOLATE_RULES; rule++)
        json_put_f64(w, interpolate_name((enum interpolate_rule)rule), mean_baseline(t, baselines + rule * t->folds));
    json_end(w, '}');
    json_put_f64(w, "geodesics_per_s", geodesics_per_s(t));
    json_put_f64(w, "wall_s", *t->wall_s);
    json_end(w, '}');
}
