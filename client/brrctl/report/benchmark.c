/* benchmark DIR: several detectors on the same labelled recordings: detect and score for each of them, then one table of scores
 * with intervals and one picture. */

#include "base/counted.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/detect/detect_server.h"
#include "client/brrctl/detect/seen.h"
#include "client/brrctl/output.h"
#include "client/brrctl/report/score_pairs.h"
#include "client/brrctl/report/score_table.h"
#include "eeg/labels.h"
#include "plot/picture.h"
#include "plot/plot_intervals.h"
#include "store/outputs.h"

struct benchmark_options {
    struct argument_list models, seizure, rename;
    const char *labels, *unit, *dataset, *output, *plot, *table;
    int64_t parallel, partial;
};
#define OPTIONS struct benchmark_options
static const struct argument rows[] = {
    LIST("--model", models, "REF", "a detector; repeat it for each, 2 or more: names as of `brrctl detect`"),
    CHOICE("--labels", labels, labels_names, "format of the labels of recordings; default auto"),
    LIST("--seizure", seizure, "PATTERN",
         "also a type or text of seizures, such as \"anfall*\", as data.seizure_labels; may be repeated"),
    ASSIGNMENT("--rename", rename, "LABEL=NAME",
               "read a channel under another name, as data.rename: \"*-XY=*\", LOC=F7; may be repeated"),
    CHOICE("--unit", unit, "uV|mV|V", "unit of channels that state none, or one that is no voltage"),
    INTEGER("--parallel", parallel, "N", "recordings processed at the same time, default 2", 1, 16),
    INTEGER("--partial", partial, "N",
            "run on the channels there are: models without a network if they can use N of the recording's electrodes or "
            "derivations, networks "
            "that can miss the others if N of their montage can be made",
            1, 64),
    TEXT("--dataset", dataset, "NAME", "the dataset of the recordings, as data.dataset: people of another one are others"),
    CHOICE("--table", table, "csv|latex", "print the table in this form"),
    OUTPUT("--plot", plot, "FILE", "draw the table: FILE.svg, FILE.png or FILE.pdf"),
    OUTPUT("--output", output, "DIR", "keep the events of each model below DIR, and benchmark.csv, .tex and .svg in it",
           .alias = "--out"),
};

enum { PATH_SIZE = 4096, TABLE_BYTES = 1 << 20, MOST = PLOT_MAX_INTERVALS };
_Static_assert((int)MOST >= (int)ARGUMENTS_MAX_LIST, "each --model has a row");

struct benchmark {
    const struct arguments *o;
    const char *folder; /* of the events */
    char rule[LABEL_RULE_SIZE];
    struct score scores[MOST]; /* event scores, pooled over all recordings */
    struct outputs_model seen[MOST];
    int recordings;
};

static int n_models(const struct benchmark *b) { return own(b->o)->models.n; }
static const char *model_at(const struct benchmark *b, int i) { return own(b->o)->models.items[i]; }

/* The folder of a model's events; numbered when another model has its name. */
static int folder_of(const struct benchmark *b, int i, char ret[PATH_SIZE], struct err *err) {
    char name[DETECT_NAME_SIZE], other[DETECT_NAME_SIZE], numbered[DETECT_NAME_SIZE + 16];
    bool alone = true;
    detect_folder_name(model_at(b, i), name);
    for (int k = 0; k < i && alone; k++)
        alone = strcmp(name, detect_folder_name(model_at(b, k), other)) != 0;
    if (alone)
        str_copy(numbered, sizeof numbered, name);
    else
        str_format(numbered, sizeof numbered, "%d-%s", i + 1, name);
    return fsio_join(ret, PATH_SIZE, b->folder, numbered, err);
}

/* Runs one model over the recordings. Returns the exit code of detect. */
static int detect(const struct benchmark *b, int i, const char *folder) {
    const struct benchmark_options *options = own(b->o);
    struct detect_options detect = {DETECT_OPTIONS_DEFAULT, .model = options->models.items[i], .output = folder,
                                    SAME_MEMBERS(*options, rename, unit, dataset, parallel, partial), .quiet = true};
    struct arguments o = *b->o;
    o.own = &detect;
    fprintf(stderr, "brrctl: %s, %d of %d\n", model_at(b, i), i + 1, n_models(b));
    return detect_local(&o);
}

static int score(struct benchmark *b, int i, const char *folder, struct err *err) {
    OWNED(score_pairs_done) struct score_pairs pairs = {.ref = b->o->args[0], .hyp = folder, .quiet = i > 0};
    struct score_report report;
    int rc;
    str_copy(pairs.rule, sizeof pairs.rule, b->rule);
    if ((rc = score_pairs_find(&pairs, err)) || (rc = score_all(pairs.items, pairs.n, &report, err)))
        return rc;
    b->scores[i] = report.pooled[SCORE_EVENT];
    b->recordings = pairs.n;
    score_report_done(&report);
    if (!outputs_get_model(folder, &b->seen[i]))
        b->seen[i].seen = -1;
    return 0;
}

/* The model's name, and how many of these people it has seen. */
static const char *row_name(const struct benchmark *b, int i, char buf[DETECT_NAME_SIZE]) {
    char words[64];
    const char *seen = seen_words(&b->seen[i], words);
    str_format(buf, DETECT_NAME_SIZE, *seen ? "%.180s (%s)" : "%.180s", model_at(b, i), seen);
    return buf;
}

/* Every model, or none: a table whose rows rest on different recordings would compare nothing. */
static int run_models(struct benchmark *b) {
    char folder[PATH_SIZE];
    struct err err;
    for (int i = 0; i < n_models(b); i++) {
        if (folder_of(b, i, folder, &err))
            return brrctl_fail(&err);
        int code = detect(b, i, folder);
        if (code) {
            fprintf(stderr, "brrctl: there is no table, because %s did not run on all recordings\n", model_at(b, i));
            return code;
        }
        if (score(b, i, folder, &err))
            return brrctl_fail(&err);
    }
    return 0;
}

/* ---- the table and the picture ---- */

static void put_table(const struct benchmark *b, bool latex, struct str *out) {
    char name[DETECT_NAME_SIZE];
    score_table_begin(out, latex, "model");
    for (int i = 0; i < n_models(b); i++)
        score_table_row(out, latex, row_name(b, i, name), &b->scores[i]);
    score_table_end(out, latex);
}

static int draw(const struct benchmark *b, const char *path, struct err *err) {
    struct plot_interval sensitivity[MOST], rate[MOST];
    char texts[MOST][DETECT_NAME_SIZE];
    const char *names[MOST];
    char subtitle[200];
    for (int i = 0; i < n_models(b); i++) {
        const struct score_intervals bounds = score_intervals(&b->scores[i]);
        names[i] = row_name(b, i, texts[i]);
        sensitivity[i] = (struct plot_interval){b->scores[i].sensitivity, bounds.sensitivity_low, bounds.sensitivity_high};
        rate[i] = (struct plot_interval){b->scores[i].false_alarms_per_24h, bounds.rate_low, bounds.rate_high};
    }
    const struct plot_interval_column columns[] = {{"sensitivity, 95 % interval", sensitivity, 1, 2},
                                                   {"false alarms in 24 h, 95 % interval", rate, NAN, 1}};
    const struct score_counts *c = &b->scores[0].counts;
    str_format(subtitle, sizeof subtitle, "%s: %s, %.2f hours, %s; event scores as SzCORE counts them",
               fsio_basename(b->o->args[0]), counted(b->recordings, "recording").text, c->duration_s / 3600,
               counted((int64_t)c->ref, "seizure").text);
    const struct plot_intervals picture = {.title = "Detectors on the same recordings",
                                           .subtitle = subtitle,
                                           .names = names,
                                           .n = n_models(b),
                                           .columns = columns,
                                           .n_columns = 2};
    return plot_intervals(path, &picture, err);
}

static int write_table(const struct benchmark *b, bool latex, const char *path, struct err *err) {
    OWNED(str_done) struct str text = str_of(TABLE_BYTES);
    put_table(b, latex, &text);
    return fsio_write_text(path, &text, err);
}

static const char *const result_names[] = {"benchmark.csv", "benchmark.tex", "benchmark.svg"};
enum { RESULTS = sizeof result_names / sizeof *result_names };

/* Before the models run, which may take hours. */
static int check_results(const struct benchmark *b, struct err *err) {
    char path[PATH_SIZE];
    int rc = 0;
    for (int i = 0; own(b->o)->output && i < RESULTS && !rc; i++)
        if (!(rc = fsio_join(path, sizeof path, b->folder, result_names[i], err)))
            rc = outputs_check(path, b->o->force, err);
    return rc;
}

static int write_files(const struct benchmark *b, struct err *err) {
    char path[PATH_SIZE];
    int rc;
    if (own(b->o)->plot && (rc = draw(b, own(b->o)->plot, err)))
        return rc;
    for (int i = 0; own(b->o)->output && i < RESULTS; i++)
        if ((rc = fsio_join(path, sizeof path, b->folder, result_names[i], err)) ||
            (rc = i == 2 ? draw(b, path, err) : write_table(b, i == 1, path, err)) || (rc = outputs_add(path, err)))
            return rc;
    return 0;
}

static void print_lines(const struct benchmark *b) {
    for (int i = 0; i < n_models(b); i++) {
        const struct score_intervals bounds = score_intervals(&b->scores[i]);
        const struct score *s = &b->scores[i];
        struct json_writer *w = output_begin();
        json_put_str(w, "model", model_at(b, i));
        json_put_f64(w, "hours", s->counts.duration_s / 3600);
        json_put_f64(w, "seizures", s->counts.ref);
        json_put_f64(w, "found", s->counts.tp);
        json_put_f64(w, "false_events", s->counts.fp);
        json_put_f64(w, "sensitivity", s->sensitivity);
        JSON_MEMBERS(w, bounds, sensitivity_low, sensitivity_high);
        JSON_MEMBERS(w, *s, precision, f1, false_alarms_per_24h);
        json_put_f64(w, "false_alarms_per_24h_low", bounds.rate_low);
        json_put_f64(w, "false_alarms_per_24h_high", bounds.rate_high);
        seen_json(&b->seen[i], w);
        output_end(w);
    }
}

/* "0.75 (0.41 to 0.93)" */
static void put_interval(double value, double low, double high, int digits) {
    char text[48] = "-";
    if (isfinite(value))
        str_format(text, sizeof text, "%.*f (%.*f to %.*f)", digits, value, digits, low, digits, high);
    printf("  %-24s", text);
}

static void print_plain(const struct benchmark *b) {
    const struct score_counts *c = &b->scores[0].counts;
    char f1[16], words[64];
    printf("%s, %.2f hours, %s; events as SzCORE counts them, 95 %% intervals\n", counted(b->recordings, "recording").text,
           c->duration_s / 3600, counted((int64_t)c->ref, "seizure").text);
    printf("%-24s %6s %6s  %-24s  %-24s %6s\n", "model", "found", "false", "sensitivity", "false alarms in 24 h", "F1");
    for (int i = 0; i < n_models(b); i++) {
        const struct score *s = &b->scores[i];
        const struct score_intervals bounds = score_intervals(s);
        printf("%-24s %6.0f %6.0f", model_at(b, i), s->counts.tp, s->counts.fp);
        put_interval(s->sensitivity, bounds.sensitivity_low, bounds.sensitivity_high, 2);
        put_interval(s->false_alarms_per_24h, bounds.rate_low, bounds.rate_high, 1);
        printf(" %6s  %s\n", output_probability(s->f1, f1), seen_words(&b->seen[i], words));
    }
}

static void print_result(const struct benchmark *b) {
    OWNED(str_done) struct str text = str_of(TABLE_BYTES);
    if (b->o->json) {
        print_lines(b);
    } else if (own(b->o)->table) {
        put_table(b, !strcmp(own(b->o)->table, "latex"), &text);
        fputs(str_cstr(&text), stdout);
    } else {
        print_plain(b);
    }
}

static int finish(struct benchmark *b) {
    struct err err;
    if (check_results(b, &err))
        return brrctl_fail(&err);
    int code = run_models(b);
    if (code)
        return code;
    if (write_files(b, &err))
        return brrctl_fail(&err);
    print_result(b);
    return 0;
}

/* The same model twice would be two equal rows, most likely a slip. */
static bool check_models(const struct arguments *o) {
    const struct argument_list *models = &own(o)->models;
    if (models->n < 2) {
        fputs("brrctl: benchmark compares models; expected --model REF twice or more\n", stderr);
        return false;
    }
    for (int i = 0; i < models->n; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(models->items[i], models->items[k])) {
                fprintf(stderr, "brrctl: --model %s is given twice; expected different models\n", models->items[i]);
                return false;
            }
    return true;
}

static int cmd_benchmark(const struct arguments *o) {
    struct benchmark b = {.o = o, .folder = own(o)->output};
    char folder[PATH_SIZE];
    const char *base = getenv("TMPDIR");
    struct err err = {0};
    const struct argument_list *seizure = &own(o)->seizure;
    if (!check_models(o))
        return EXIT_USAGE;
    if (!fsio_is_dir(o->args[0])) {
        err_set(&err, ERR_NOT_FOUND, "%s is no folder; expected a folder of labelled recordings on this machine", o->args[0]);
        return brrctl_fail(&err);
    }
    if ((own(o)->plot && !picture_known(own(o)->plot)) ||
        label_rule_write(own(o)->labels ? own(o)->labels : "auto", seizure->items, (size_t)seizure->n, b.rule, &err)) {
        if (err.code)
            brrctl_fail(&err);
        else
            fputs("brrctl: --plot writes a picture; expected FILE.svg, FILE.png or FILE.pdf\n", stderr);
        return EXIT_USAGE;
    }
    if (b.folder)
        return finish(&b);
    b.folder = folder;
    if (!str_format(folder, sizeof folder, "%s/brrctl-benchmark-XXXXXX", base && *base ? base : "/tmp") || !mkdtemp(folder)) {
        fprintf(stderr, "brrctl: no folder for the events can be made in %s; name one with --output\n", base ? base : "/tmp");
        return EXIT_FAILED;
    }
    int code = finish(&b);
    fsio_remove_tree(folder, NULL);
    return code;
}

BRRCTL_COMMAND(
    benchmark, "DIR", ARGUMENTS(rows), cmd_benchmark,
    "compare detectors on labelled recordings: one table of scores with intervals, one picture",
    "Each model runs over the recordings below DIR as `brrctl detect` does, with its own thresholds, and its events are "
    "scored\n"
    "against the labels as `brrctl score` does. If a model cannot run on one of the recordings, there is no table.\n"
    "example: brrctl benchmark /data/my-eeg --model ward --model line_length --model job:train-260131-1 --output compared");
