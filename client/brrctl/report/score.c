/* score REF HYP: files or directories of labelled recordings and events. Runs here, without a daemon. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/counted.h"
#include "base/fsio.h"
#include "base/str.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "client/brrctl/report/score_files.h"
#include "client/brrctl/report/stems.h"
#include "eeg/labels.h"
#include "eeg/tree.h"
#include "score/interval.h"
#include "score/score.h"
#include "store/outputs.h"

/* The options of score. */
struct score_options {
    bool events;
    const char *labels, *table, *by;
    struct argument_list seizure;
};
#define AT(field) offsetof(struct score_options, field)
static const struct argument rows[] = {
    {"--events", NULL, ARGUMENT_FLAG, AT(events), "", "list every event with its outcome", 0, 0},
    {"--labels", NULL, ARGUMENT_CHOICE, AT(labels), labels_names, "format of the labels of recordings; default auto", 0, 0},
    {"--table", NULL, ARGUMENT_CHOICE, AT(table), "csv|latex",
     "print a table of event scores with 95 % intervals instead of the report", 0, 0},
    {"--by", NULL, ARGUMENT_CHOICE, AT(by), "patient", "with --table: a row for each patient, too", 0, 0},
    {"--seizure", NULL, ARGUMENT_LIST, AT(seizure), "PATTERN",
     "also a type or text of seizures, such as \"anfall*\", as data.seizure_labels; may be repeated", 0, 0},
};
#undef AT
static const struct argument_table score_arguments = ARGUMENT_TABLE_LOCAL(rows, struct score_options);

static const struct score_options *own(const struct arguments *o) { return o->own; }

struct pairs {
    const char *ref, *hyp;
    char rule[LABEL_RULE_SIZE]; /* of the labels */
    struct stems *references, *hypotheses;
    bool directory;
    struct score_recording *items;
    int n, missing, unusable; /* recordings; of them without a hypothesis; with one that cannot be used */
    int own;                  /* references that brrd wrote */
};

/* "sub-XX" of a path, else what a training takes for the patient. */
static char *subject_of(const char *path) {
    char patient[4096];
    const char *at = strstr(path, "sub-");
    if (at)
        return strndup(at, strcspn(at, "_/"));
    return strdup(labels_patient(path, LABELS_PATIENT_AUTO, patient, sizeof patient, NULL, NULL) ? path : patient);
}

/* The hypothesis of a reference: the same relative path, else the same name anywhere where both folders have it once. *ret NULL
 * without one. */
static int find_hypothesis(struct pairs *p, const char *relative, const char **ret, struct err *err) {
    char stem[4096];
    *ret = p->hyp;
    if (!p->directory)
        return 0;
    if (!score_stem(relative, stem, sizeof stem))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", relative);
    if ((*ret = stems_path(p->hypotheses, stem)))
        return 0;
    int rc = stems_find(p->hypotheses, fsio_basename(stem), ret, err);
    return rc || !*ret ? rc : stems_check_alone(p->references, stem, p->hyp, err);
}

/* A hypothesis that cannot be read or has another length in whole seconds counts as no event, as in SzCORE. Returns false, after
 * printing why, for such a file. A length that the reference lacks is the hypothesis's. */
static bool read_hypothesis(const char *path, const char *rule, struct score_recording *r) {
    struct score_labels hyp = {.duration_s = NAN};
    struct err err = {0};
    if (!score_labels_read(path, rule, &hyp, &err) && isnan(r->duration_s))
        r->duration_s = hyp.duration_s;
    if (!err.code && !isnan(hyp.duration_s) && floor(hyp.duration_s) != floor(r->duration_s)) {
        err_set(&err, ERR_INVALID, "%s: recordingDuration is %.2f s, the reference's %.2f s", path, hyp.duration_s, r->duration_s);
        hyp.n = 0;
    }
    if (err.code)
        fprintf(stderr, "brrctl: counted as a recording without events: %s\n", err.message);
    free(hyp.unsure);
    r->hyp = hyp.events;
    r->n_hyp = hyp.n;
    return !err.code;
}

static int add_pair(struct pairs *p, const char *ref_path, const char *relative, struct err *err) {
    const char *hyp_path;
    struct score_labels ref;
    p->own += outputs_own(ref_path);
    int rc = score_labels_read(ref_path, p->rule, &ref, err);
    if (rc == ERR_NOT_FOUND && p->directory) { /* a recording that nobody has labelled */
        fprintf(stderr, "brrctl: left out: %s\n", err->message);
        *err = (struct err){0};
        return 0;
    }
    if (rc)
        return rc;
    struct score_recording *items = realloc(p->items, (size_t)(p->n + 1) * sizeof *items);
    if (!items) {
        score_labels_done(&ref);
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    }
    p->items = items;
    struct score_recording *r = &items[p->n++];
    *r = (struct score_recording){.name = strdup(relative),
                                  .subject = subject_of(relative),
                                  .duration_s = ref.duration_s,
                                  .ref = ref.events,
                                  .n_ref = ref.n,
                                  .unsure = ref.unsure,
                                  .n_unsure = ref.n_unsure};
    if ((rc = find_hypothesis(p, relative, &hyp_path, err)))
        return rc;
    if (hyp_path)
        p->unusable += !read_hypothesis(hyp_path, p->rule, r);
    else
        p->missing++; /* counts as no event */
    score_note_beyond(relative, &ref, r->duration_s);
    if (isnan(r->duration_s))
        return err_set(err, ERR_INVALID,
                       "%s: no recordingDuration, in the hypothesis neither; scores need the recording's length: put the recording "
                       "beside the reference",
                       ref_path);
    return 0;
}

static int visit(void *ctx, const struct fsio_found *found, struct err *err) {
    struct pairs *p = ctx;
    char path[4096];
    int rc = fsio_join(path, sizeof path, p->ref, found->path, err);
    bool skip = found->absent || found->folder || tree_is_apple_double(path) || !score_is_reference(path);
    return rc || skip ? rc : add_pair(p, path, found->path, err);
}

/* "-" where it is not defined. */
static const char *share(double value, char buf[16]) {
    if (isnan(value))
        str_copy(buf, 16, "-");
    else
        str_format(buf, 16, "%.3f", value);
    return buf;
}

/* ---- the table for a paper ---- */

/* A value, or nothing where it is not defined. */
static void put_cell(double value, const char *format) {
    if (isfinite(value))
        printf(format, value);
}

static void put_csv(const char *name, const struct score *s) {
    const struct score_counts *c = &s->counts;
    const struct interval share = interval_share(c->tp, c->ref), rate = interval_count(c->fp);
    const double days = c->duration_s / 86400, values[] = {s->sensitivity,
                                                           c->ref > 0 ? share.low : NAN,
                                                           c->ref > 0 ? share.high : NAN,
                                                           s->precision,
                                                           s->f1,
                                                           s->false_alarms_per_24h,
                                                           days > 0 ? rate.low / days : NAN,
                                                           days > 0 ? rate.high / days : NAN};
    printf("\"%s\",%.4f,%.0f,%.0f,%.0f", name, c->duration_s / 3600, c->ref, c->tp, c->fp);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        putchar(',');
        put_cell(values[i], "%.4f");
    }
    putchar('\n');
}

/* A name with what LaTeX would take for commands escaped. */
static void put_latex_name(const char *name) {
    for (; *name; name++) {
        if (strchr("_&%#${}", *name))
            putchar('\\');
        putchar(*name);
    }
}

static void put_latex(const char *name, const struct score *s) {
    const struct score_counts *c = &s->counts;
    const struct interval share = interval_share(c->tp, c->ref), rate = interval_count(c->fp);
    const double days = c->duration_s / 86400;
    put_latex_name(name);
    printf(" & %.1f & %.0f & ", c->duration_s / 3600, c->ref);
    if (c->ref > 0)
        printf("%.2f (%.2f--%.2f)", s->sensitivity, share.low, share.high);
    printf(" & ");
    put_cell(s->precision, "%.2f");
    printf(" & ");
    put_cell(s->f1, "%.2f");
    printf(" & ");
    if (days > 0)
        printf("%.2f (%.2f--%.2f)", s->false_alarms_per_24h, rate.low / days, rate.high / days);
    puts(" \\\\");
}

static void print_table(const struct arguments *o, const struct score_report *r) {
    const bool latex = !strcmp(own(o)->table, "latex");
    void (*put)(const char *name, const struct score *s) = latex ? put_latex : put_csv;
    puts(latex ? "% " SCORE_DEFINITION "; 95 % intervals: Wilson's score of the sensitivity, Poisson limits of the false alarms\n"
                 "\\begin{tabular}{lrrllll}\npatient & hours & seizures & sensitivity & precision & F1 & false alarms / 24 h "
                 "\\\\\n\\hline"
               : "patient,hours,seizures,found,false_events,sensitivity,sensitivity_low,sensitivity_high,precision,f1,"
                 "false_alarms_per_24h,false_alarms_per_24h_low,false_alarms_per_24h_high");
    for (int i = 0; own(o)->by && i < r->n_subjects; i++)
        put(r->subjects[i].subject, &r->subjects[i].scores[SCORE_EVENT]);
    put("all", &r->pooled[SCORE_EVENT]);
    if (latex)
        puts("\\end{tabular}");
}

static void print_report(const struct score_report *r) {
    char sensitivity[16], precision[16], f1[16];
    printf("%.2f hours, %d subject%s; %s\n", r->pooled[0].counts.duration_s / 3600, r->n_subjects, r->n_subjects == 1 ? "" : "s",
           SCORE_DEFINITION);
    printf("%-12s %11s %9s %6s %8s %8s %8s %6s\n", "pooled", "sensitivity", "precision", "F1", "FA/24h", "tp", "fp", "ref");
    for (int k = 0; k < SCORE_KINDS; k++) {
        const struct score *s = &r->pooled[k];
        printf("%-12s %11s %9s %6s %8.2f %8.1f %8.1f %6.0f\n", score_kind_name((enum score_kind)k),
               share(s->sensitivity, sensitivity), share(s->precision, precision), share(s->f1, f1), s->false_alarms_per_24h,
               s->counts.tp, s->counts.fp, s->counts.ref);
    }
    if (r->onsets.n)
        printf("onset error of the events of %s: median %.1f s, 90 %% within %.1f s\n", counted(r->onsets.n, "found seizure").text,
               r->onsets.p50_s, r->onsets.p90_s);
}

/* Index of the first event that shares time with e, -1 = none. */
static int partner(const struct score_event *e, const struct score_event *others, int n) {
    for (int i = 0; i < n; i++)
        if (others[i].onset_s < e->end_s && others[i].end_s > e->onset_s)
            return i;
    return -1;
}

static void print_event(const struct arguments *o, const char *name, const char *outcome, const struct score_event *e) {
    if (o->json) {
        struct output out;
        struct json_writer *w = output_begin(&out);
        json_put_str(w, "recording", name);
        json_put_str(w, "outcome", outcome);
        json_put_f64(w, "onset_s", e->onset_s);
        json_put_f64(w, "end_s", e->end_s);
        output_end(&out);
    } else {
        printf("%-6s %10.2f to %10.2f s  %s\n", outcome, e->onset_s, e->end_s, name);
    }
}

/* The outcome of each event, by any overlap: found and missed references, false detections, and those in unsure time. */
static void print_events(const struct arguments *o, const struct pairs *p) {
    for (int i = 0; i < p->n; i++) {
        const struct score_recording *r = &p->items[i];
        for (int k = 0; k < r->n_ref; k++)
            print_event(o, r->name, partner(&r->ref[k], r->hyp, r->n_hyp) < 0 ? "missed" : "found", &r->ref[k]);
        for (int k = 0; k < r->n_hyp; k++)
            if (partner(&r->hyp[k], r->ref, r->n_ref) < 0)
                print_event(o, r->name, partner(&r->hyp[k], r->unsure, r->n_unsure) < 0 ? "false" : "unsure", &r->hyp[k]);
    }
}

/* Two files or two folders, and a hypothesis that is there: what is missing counts as no event, but not everything. */
static int check_pair(const struct pairs *p, struct err *err) {
    if (!fsio_exists(p->hyp))
        return err_set(err, ERR_NOT_FOUND, "there is no %s; expected the events TSV files to be scored", p->hyp);
    if (fsio_is_dir(p->hyp) != p->directory && fsio_exists(p->ref))
        return err_set(err, ERR_INVALID, "%s is a %s and %s a %s; expected two files or two folders", p->ref,
                       p->directory ? "folder" : "file", p->hyp, p->directory ? "file" : "folder");
    return 0;
}

static void pairs_done(struct pairs *p) {
    stems_free(p->references);
    stems_free(p->hypotheses);
    for (int i = 0; i < p->n; i++) {
        free((void *)(uintptr_t)p->items[i].name);
        free((void *)(uintptr_t)p->items[i].subject);
        free((void *)(uintptr_t)p->items[i].ref);
        free((void *)(uintptr_t)p->items[i].hyp);
        free((void *)(uintptr_t)p->items[i].unsure);
    }
    free(p->items);
}

static int find_pairs(struct pairs *p, struct err *err) {
    int rc;
    if ((rc = check_pair(p, err)) ||
        (p->directory && ((rc = stems_read(p->ref, score_is_reference, &p->references, err)) ||
                          (rc = stems_read(p->hyp, score_is_labels, &p->hypotheses, err)))) ||
        (rc = p->directory ? fsio_walk_names(p->ref, visit, p, err) : add_pair(p, p->ref, fsio_basename(p->ref), err)))
        return rc;
    if (!p->n)
        return err_set(err, ERR_NOT_FOUND,
                       "no labelled recording and no event file (*_events.tsv, *.csv, *.csv_bi, *_annotations.*) below %s", p->ref);
    if (p->own)
        fprintf(stderr,
                "brrctl: note: %d of %s written by brrd and not changed since: a comparison of detections, not with labels\n",
                p->own, counted(p->n, "reference").text);
    if (p->missing)
        fprintf(stderr, "brrctl: %d of %d recording%s no file below %s: counted as without events\n", p->missing, p->n,
                p->n == 1 ? " has" : "s have", p->hyp);
    return 0;
}

static int score_pairs(const struct arguments *o, struct pairs *p, struct err *err) {
    struct score_report report;
    int rc;
    if ((rc = find_pairs(p, err)) || (rc = score_all(p->items, p->n, &report, err)))
        return rc;
    if (own(o)->events)
        print_events(o, p);
    if (own(o)->table) {
        print_table(o, &report);
    } else if (o->json) {
        struct str s;
        struct json_writer w;
        str_init(&s, 16u << 20);
        json_writer_init(&w, &s);
        score_report_json(&report, &w);
        puts(str_cstr(&s));
        str_done(&s);
    } else {
        print_report(&report);
    }
    score_report_done(&report);
    return 0;
}

static int cmd_score(const struct arguments *o) {
    OWNED(pairs_done)
    struct pairs p = {.ref = o->args[0], .hyp = o->args[1], .directory = fsio_is_dir(o->args[0])};
    struct err err = {0};
    const struct argument_list *seizure = &own(o)->seizure;
    if (label_rule_write(own(o)->labels ? own(o)->labels : "auto", seizure->items, (size_t)seizure->n, p.rule, &err)) {
        brrctl_fail(&err);
        return EXIT_USAGE;
    }
    if (score_pairs(o, &p, &err))
        return brrctl_fail(&err);
    return p.unusable || p.missing == p.n ? EXIT_FAILED : 0;
}

const struct command command_score = {
    .name = "score",
    .words = "REF HYP",
    .options = &score_arguments,
    .summary = "score event files or directories; works without a daemon",
    .run = cmd_score,
    .min_args = 2,
    .max_args = 2,
    .details =
        "REF and HYP are two files, or two folders whose files are paired by their paths below them. A file is an event file of "
        "any\n"
        "--format of detect, a TUSZ csv, or an EDF or BDF recording, whose labels are found as a training finds them. The length\n"
        "of a recording is its header's, else what the label files state.\n"
        "example: brrctl score /data/reference /data/hypothesis --json",
};
