/* brrctl geodesic: what a geodesic model says about concentrations that nobody measured. Computed here; the daemon only
 * sends the model of a job. */

#include "base/base.h"
#include "base/needed.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "geodesic/geodesic_file.h"
#include "geodesic/geodesic_prior.h"

/* The options of geodesic. */
struct geodesic_options {
    double at;
    const char *csv;
};
#define AT(field) offsetof(struct geodesic_options, field)
static const struct argument rows[] = {
    NUMBER("--at", at, "C", "predict: a concentration, in the unit of the model's table", -1e300, 1e300),
    OUTPUT("--csv", csv, "FILE", "table to write"),
};
static const struct argument_table geodesic_arguments = ARGUMENT_TABLE(rows, struct geodesic_options);

static const struct geodesic_options *own(const struct arguments *o) { return o->own; }

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

static int predict(const struct arguments *o, const struct geodesic_file *f, struct str *out, struct err *err) {
    struct geodesic_model model;
    double low = f->spectra.concentrations[0], high = f->spectra.concentrations[f->spectra.n - 1];
    if (own(o)->at < low || own(o)->at > high)
        fprintf(stderr,
                "brrctl: note: --at %g is outside of the measured concentrations (%g to %g): the spectrum is an extrapolation\n",
                own(o)->at, low, high);
    geodesic_file_model(f, geodesic_file_best(f), &model);
    OWNED_MEMORY double *each =
        needed(malloc((size_t)geodesic_members_count(model.members) * (size_t)f->spectra.width * sizeof *each));
    int rc;
    if ((rc = geodesic_exact_predict(&model, &f->spectra, own(o)->at, each, err)) ||
        (rc = geodesic_prior_blend(&model, &f->spectra, own(o)->at, each, err)))
        return rc;
    prediction_text(f, &model, each, out);
    return 0;
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

const struct command command_geodesic = {
    .name = "geodesic",
    .words = "predict|metric MODEL",
    .options = &geodesic_arguments,
    .summary = "spectra and metric of a geodesic model",
    .run = cmd_geodesic,
    .details = "MODEL: model.safetensors of a job of kind geodesic (works without a daemon), or job:ID, which the daemon sends.\n"
               "  predict MODEL --at C --csv FILE   the spectrum at concentration C: mean over sources, spread, each source\n"
               "  metric MODEL --csv FILE           g over concentration (columns) and wavelength (rows)\n"
               "example: brrctl geodesic predict job:geodesic-260131-1 --at 25 --csv spectrum.csv",
};
