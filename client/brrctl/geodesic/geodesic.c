/* brrctl geodesic: what a geodesic model says about concentrations that nobody measured. Computed here; the daemon only
 * sends the model of a job. */

#include "base/needed.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "geodesic/geodesic_file.h"
#include "geodesic/geodesic_prior.h"

/* The rules of interpolate.h that need no parameters of their own. */
#define RULE_NAMES "linear_clamped, linear_extrapolated, pchip, cubic_natural, cubic_not_a_knot, nearest, mean, gp_evidence"

/* The options of geodesic. */
struct geodesic_options {
    double at;
    const char *csv, *rule;
};
#define OPTIONS struct geodesic_options
static const struct argument rows[] = {
    NUMBER("--at", at, "C", "predict: a concentration, in the unit of the model's table", -1e300, 1e300),
    TEXT("--rule", rule, "NAME", "predict: by this classical rule through the measured spectra, not by the network; " RULE_NAMES),
    OUTPUT("--csv", csv, "FILE", "table to write"),
};

enum { METRIC_POINTS = 61, MAX_CSV = 1 << 30 };

/* wavelength, mean over sources, spread, and each source's answer. */
static void prediction_text(const struct geodesic_file *f, const struct geodesic_model *m, const double *each, struct str *out) {
    const struct spectra *s = &f->spectra;
    int n = geodesic_members_count(m->members);
    str_puts(out, "wavelength,absorbance,spread");
    for (int k = 0; k < s->n; k++)
        if (m->members >> k & 1)
            str_printf(out, ",from %g", s->concentrations[k]);
    str_puts(out, "\n");
    for (int64_t i = 0; i < s->width; i++) {
        double mean = 0, square = 0;
        for (int k = 0; k < n; k++)
            mean += each[k * s->width + i] / n;
        for (int k = 0; k < n; k++)
            square += pow(each[k * s->width + i] - mean, 2) / n;
        str_put_f64(out, s->wavelengths[i]);
        str_printf(out, ",%.8g,%.4g", mean, sqrt(square));
        for (int k = 0; k < n; k++)
            str_printf(out, ",%.8g", each[k * s->width + i]);
        str_puts(out, "\n");
    }
}

/* The spectrum that this model has not learned from, where there is one such spectrum; else −1. */
static int fold_of(const struct geodesic_file *f, const struct geodesic_model *m) {
    int found = -1, n = 0;
    for (int k = 0; k < f->spectra.n; k++)
        if (!(m->members >> k & 1) && ++n)
            found = k;
    return n == 1 ? found : -1;
}

static double rmse_of(const struct spectra *s, int k, const double *answer) {
    double square = 0;
    for (int64_t i = 0; i < s->width; i++)
        square += pow(answer[i] - s->absorbance[k * s->width + i], 2);
    return sqrt(square / (double)s->width);
}

/* The model's answer at a concentration: the mean over its sources. */
static int answer_at(const struct geodesic_file *f, const struct geodesic_model *m, double at, double *each, double *ret,
                     struct err *err) {
    const int n = geodesic_members_count(m->members);
    int rc;
    if ((rc = geodesic_exact_predict(m, &f->spectra, at, each, err)) || (rc = geodesic_prior_blend(m, &f->spectra, at, each, err)))
        return rc;
    for (int64_t i = 0; i < f->spectra.width; i++) {
        ret[i] = 0;
        for (int k = 0; k < n; k++)
            ret[i] += each[k * f->spectra.width + i] / n;
    }
    return 0;
}

/* Mean errors over the spectra that the file's models left out, each once, of the network and of each rule. */
struct judged {
    double network, rules[INTERPOLATE_RULES];
    int folds;
};

static int judge_rules(const struct geodesic_file *f, struct judged *ret, struct err *err) {
    const size_t width = (size_t)f->spectra.width;
    OWNED_MEMORY double *each = needed(malloc((size_t)(f->spectra.n + 1) * width * sizeof *each));
    double *answer = each + (size_t)f->spectra.n * width;
    *ret = (struct judged){0};
    for (int g = 0; g < f->groups; g++) {
        struct geodesic_model model;
        geodesic_file_model(f, g, &model);
        const int k = fold_of(f, &model);
        int rc;
        if (k < 0)
            continue;
        if ((rc = answer_at(f, &model, f->spectra.concentrations[k], each, answer, err)))
            return rc;
        ret->folds++;
        ret->network += rmse_of(&f->spectra, k, answer);
        for (int r = 0; r < INTERPOLATE_RULES; r++) {
            const struct interpolate rule = {.rule = (enum interpolate_rule)r, .at = f->spectra.concentrations[k]};
            if (r == INTERPOLATE_GP_RBF)
                continue;
            if ((rc = geodesic_interpolate(&f->spectra, model.members, &rule, answer, err)))
                return rc;
            ret->rules[r] += rmse_of(&f->spectra, k, answer);
        }
    }
    return 0;
}

/* Says when a classical rule is nearer to the measured spectra than the network is. */
static int warn_of_rules(const struct geodesic_file *f, struct err *err) {
    struct judged j;
    int best = 0, rc = judge_rules(f, &j, err);
    if (rc)
        return rc;
    for (int r = 1; r < INTERPOLATE_RULES; r++)
        best = r != INTERPOLATE_GP_RBF && j.rules[r] < j.rules[best] ? r : best;
    if (j.folds && j.rules[best] < j.network)
        fprintf(
            stderr,
            "brrctl: note: with each of %d spectra left out once, the error of this model is %.3g and that of %s %.3g, %.1f times "
            "less; --rule %s predicts by it\n",
            j.folds, j.network / j.folds, interpolate_name((enum interpolate_rule)best), j.rules[best] / j.folds,
            j.network / j.rules[best], interpolate_name((enum interpolate_rule)best));
    return 0;
}

/* Wavelength and absorbance, by a rule through all spectra. */
static int predict_by_rule(const struct arguments *o, const struct geodesic_file *f, struct str *out, struct err *err) {
    OWNED_MEMORY double *answer = needed(malloc((size_t)f->spectra.width * sizeof *answer));
    struct interpolate rule = {.rule = INTERPOLATE_RULES, .at = own(o)->at};
    for (int r = 0; r < INTERPOLATE_RULES; r++)
        if (r != INTERPOLATE_GP_RBF && !strcmp(own(o)->rule, interpolate_name((enum interpolate_rule)r)))
            rule.rule = (enum interpolate_rule)r;
    if (rule.rule == INTERPOLATE_RULES)
        return err_set(err, ERR_INVALID, "--rule %.60s: expected one of " RULE_NAMES, own(o)->rule);
    int rc = geodesic_interpolate(&f->spectra, ((geodesic_members)1 << f->spectra.n) - 1, &rule, answer, err);
    str_puts(out, "wavelength,absorbance\n");
    for (int64_t i = 0; !rc && i < f->spectra.width; i++) {
        str_put_f64(out, f->spectra.wavelengths[i]);
        str_printf(out, ",%.8g\n", answer[i]);
    }
    return rc;
}

static int predict(const struct arguments *o, const struct geodesic_file *f, struct str *out, struct err *err) {
    struct geodesic_model model;
    double low = f->spectra.concentrations[0], high = f->spectra.concentrations[f->spectra.n - 1];
    if (own(o)->at < low || own(o)->at > high)
        fprintf(stderr,
                "brrctl: note: --at %g is outside of the measured concentrations (%g to %g): the spectrum is an extrapolation\n",
                own(o)->at, low, high);
    if (own(o)->rule)
        return predict_by_rule(o, f, out, err);
    geodesic_file_model(f, geodesic_file_best(f), &model);
    OWNED_MEMORY double *each =
        needed(malloc((size_t)geodesic_members_count(model.members) * (size_t)f->spectra.width * sizeof *each));
    int rc;
    if ((rc = geodesic_exact_predict(&model, &f->spectra, own(o)->at, each, err)) ||
        (rc = geodesic_prior_blend(&model, &f->spectra, own(o)->at, each, err)))
        return rc;
    prediction_text(f, &model, each, out);
    return warn_of_rules(f, err);
}

/* A row per wavelength, a column per concentration. */
static int metric(const struct geodesic_file *f, struct str *out, struct err *err) {
    const struct spectra *s = &f->spectra;
    struct geodesic_model model;
    double at[METRIC_POINTS];
    OWNED_MEMORY double *g = needed(malloc((size_t)(METRIC_POINTS * s->width) * sizeof *g));
    geodesic_file_model(f, geodesic_file_best(f), &model);
    for (int i = 0; i < METRIC_POINTS; i++)
        at[i] = s->concentrations[0] + (s->concentrations[s->n - 1] - s->concentrations[0]) * i / (METRIC_POINTS - 1);
    int rc = geodesic_exact_metric(&model, s, at, METRIC_POINTS, g, err);
    if (rc)
        return rc;
    str_puts(out, "wavelength");
    for (int i = 0; i < METRIC_POINTS; i++)
        str_printf(out, ",%g", at[i]);
    str_puts(out, "\n");
    for (int64_t w = 0; w < s->width; w++) {
        str_put_f64(out, s->wavelengths[w]);
        for (int i = 0; i < METRIC_POINTS; i++)
            str_printf(out, ",%.8g", g[i * s->width + w]);
        str_puts(out, "\n");
    }
    return 0;
}

static void report(const struct arguments *o, const struct geodesic_file *f) {
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "csv", own(o)->csv);
        json_put_i64(w, "wavelengths", f->spectra.width);
        output_end(w);
    } else {
        printf("%lld wavelengths written to %s\n", (long long)f->spectra.width, own(o)->csv);
    }
}

/* The model file, or that of job:ID from the daemon by way of a temporary file. Returns an exit code after printing the error. */
static int open_model(const struct arguments *o, const char *ref, struct geodesic_file *ret) {
    const char *temporary = getenv("TMPDIR");
    char folder[4096], path[4200];
    struct brrctl_fetched fetched;
    struct err err = {0};
    if (!str_starts(ref, "job:")) {
        int rc = geodesic_file_read(ref, ret, &err);
        return rc ? brrctl_fail(&err) : 0;
    }
    str_format(folder, sizeof folder, "%.4000s/brrctl-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) {
        err_set(&err, ERR_UNAVAILABLE, "no temporary folder like %s can be made: %s; TMPDIR names another place", folder,
                strerror(errno));
        return brrctl_fail(&err);
    }
    str_format(path, sizeof path, "%s/model.safetensors", folder);
    int code = brrctl_fetch_model(o, ref, path, &fetched);
    if (!code && geodesic_file_read(path, ret, &err)) {
        char why[sizeof err.message];
        bool named = str_starts(err.message, path);
        str_copy(why, sizeof why, err.message);
        if (named) /* the temporary file means nothing to the reader */
            err_set(&err, err.code, "%.200s%s", ref, why + strlen(path));
        else
            err_wrap(&err, "%s", ref);
        code = brrctl_fail(&err);
    }
    unlink(path);
    rmdir(folder);
    return code;
}

static int write_table(const struct arguments *o, const struct geodesic_file *file, bool predicts, struct err *err) {
    OWNED(str_done) struct str out = str_of(MAX_CSV);
    int rc = predicts ? predict(o, file, &out, err) : metric(file, &out, err);
    return rc ? rc : fsio_write_text(own(o)->csv, &out, err);
}

static int cmd_geodesic(const struct arguments *o) {
    bool predicts = !strcmp(o->args[0], "predict");
    struct geodesic_file file;
    struct err err = {0};
    if (!predicts && strcmp(o->args[0], "metric")) {
        fprintf(stderr, "brrctl: geodesic %s: expected predict or metric\n", o->args[0]);
        return EXIT_USAGE;
    }
    if (!own(o)->csv) {
        fprintf(stderr, "brrctl: geodesic %s needs --csv FILE\n", o->args[0]);
        return EXIT_USAGE;
    }
    if (predicts && isnan(own(o)->at)) {
        fputs("brrctl: geodesic predict needs --at C: a concentration, in the unit of the model's table\n", stderr);
        return EXIT_USAGE;
    }
    int rc = open_model(o, o->args[1], &file);
    if (rc)
        return rc;
    rc = write_table(o, &file, predicts, &err) ? brrctl_fail(&err) : 0;
    if (rc == 0)
        report(o, &file);
    geodesic_file_done(&file);
    return rc;
}

BRRCTL_COMMAND(geodesic, "predict|metric MODEL", ARGUMENTS(rows), cmd_geodesic, "spectra and metric of a geodesic model",
               "MODEL: model.safetensors of a job of kind geodesic (works without a daemon), or job:ID, which the daemon sends.\n"
               "  predict MODEL --at C --csv FILE   the spectrum at concentration C: mean over sources, spread, each source;\n"
               "                                    --rule NAME: by a classical rule\n"
               "  metric MODEL --csv FILE           g over concentration (columns) and wavelength (rows)\n"
               "example: brrctl geodesic predict job:geodesic-260131-1 --at 25 --csv spectrum.csv");
