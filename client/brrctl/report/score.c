/* score REF HYP: files or directories of labelled recordings and events. Runs here, without a daemon. */

#include "score/score.h"
#include "base/counted.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/detect/seen.h"
#include "client/brrctl/output.h"
#include "client/brrctl/report/score_pairs.h"
#include "client/brrctl/report/score_table.h"
#include "eeg/labels.h"

/* The options of score. */
struct score_options {
    bool events;
    const char *labels, *table, *by;
    struct argument_list seizure;
};
#define OPTIONS struct score_options
static const struct argument rows[] = {
    FLAG("--events", events, "list every event with its outcome"),
    CHOICE("--labels", labels, labels_names, "format of the labels of recordings; default auto"),
    CHOICE("--table", table, "csv|latex", "print a table of event scores with 95 % intervals instead of the report"),
    CHOICE("--by", by, "patient", "with --table: a row for each patient, too"),
    LIST("--seizure", seizure, "PATTERN",
         "also a type or text of seizures, such as \"anfall*\", as data.seizure_labels; may be repeated"),
};

static void print_table(const struct arguments *o, const struct score_report *r, const char *events) {
    struct outputs_model m;
    char words[64] = "", all[80];
    if (outputs_get_model(events, &m))
        seen_words(&m, words);
    str_format(all, sizeof all, *words ? "all (%s)" : "all", words);
    const bool latex = !strcmp(own(o)->table, "latex");
    OWNED(str_done) struct str text = str_of(16u << 20);
    score_table_begin(&text, latex, "patient");
    for (int i = 0; own(o)->by && i < r->n_subjects; i++)
        score_table_row(&text, latex, r->subjects[i].subject, &r->subjects[i].scores[SCORE_EVENT]);
    score_table_row(&text, latex, all, &r->pooled[SCORE_EVENT]);
    score_table_end(&text, latex);
    fputs(str_cstr(&text), stdout);
}

/* Where detect left word of it beside the events. */
static void print_model(FILE *to, const char *events) {
    struct outputs_model m;
    char words[64];
    if (outputs_get_model(events, &m))
        fprintf(to, "events of %s, SHA-256 %.12s%s%s\n", m.name, m.sha256, *seen_words(&m, words) ? "; " : "", words);
}

static void put_scored(const struct score_report *r, const char *events, struct json_writer *w) {
    struct outputs_model m;
    json_begin_object(w, NULL);
    score_report_members(r, w);
    if (outputs_get_model(events, &m)) {
        json_put_str(w, "model", m.name);
        json_put_str(w, "model_sha256", m.sha256);
        seen_json(&m, w);
    }
    json_end(w, '}');
}

static void print_report(const struct score_report *r) {
    char sensitivity[16], precision[16], f1[16], rate[32];
    printf("%.2f hours, %d subject%s; %s\n", r->pooled[0].counts.duration_s / 3600, r->n_subjects, r->n_subjects == 1 ? "" : "s",
           SCORE_DEFINITION);
    printf("%-12s %11s %9s %6s %8s %8s %8s %6s\n", "pooled", "sensitivity", "precision", "F1", "FA/24h", "tp", "fp", "ref");
    for (int k = 0; k < SCORE_KINDS; k++) {
        const struct score *s = &r->pooled[k];
        str_format(rate, sizeof rate, isnan(s->false_alarms_per_24h) ? "-" : "%.2f", s->false_alarms_per_24h);
        printf("%-12s %11s %9s %6s %8s %8.1f %8.1f %6.0f\n", score_kind_name((enum score_kind)k),
               output_probability(s->sensitivity, sensitivity), output_probability(s->precision, precision),
               output_probability(s->f1, f1), rate, s->counts.tp, s->counts.fp, s->counts.ref);
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
        struct json_writer *w = output_begin();
        json_put_str(w, "recording", name);
        json_put_str(w, "outcome", outcome);
        JSON_MEMBERS(w, *e, onset_s, end_s);
        output_end(w);
    } else {
        printf("%-6s %10.2f to %10.2f s  %s\n", outcome, e->onset_s, e->end_s, name);
    }
}

/* The outcome of each event, by any overlap: found and missed references, false detections, and those in unsure time. */
static void print_events(const struct arguments *o, const struct score_pairs *p) {
    for (int i = 0; i < p->n; i++) {
        const struct score_recording *r = &p->items[i];
        for (int k = 0; k < r->n_ref; k++)
            print_event(o, r->name, partner(&r->ref[k], r->hyp, r->n_hyp) < 0 ? "missed" : "found", &r->ref[k]);
        for (int k = 0; k < r->n_hyp; k++)
            if (partner(&r->hyp[k], r->ref, r->n_ref) < 0)
                print_event(o, r->name, partner(&r->hyp[k], r->unsure, r->n_unsure) < 0 ? "false" : "unsure", &r->hyp[k]);
    }
}

static int score(const struct arguments *o, struct score_pairs *p, struct err *err) {
    struct score_report report;
    int rc;
    if ((rc = score_pairs_find(p, err)) || (rc = score_all(p->items, p->n, &report, err)))
        return rc;
    if (own(o)->events)
        print_events(o, p);
    if (own(o)->table) {
        print_table(o, &report, p->hyp);
        print_model(stderr, p->hyp);
    } else if (o->json) {
        struct str s = str_of(16u << 20);
        struct json_writer w = json_to(&s);
        put_scored(&report, p->hyp, &w);
        puts(str_cstr(&s));
        str_done(&s);
    } else {
        print_report(&report);
        print_model(stdout, p->hyp);
    }
    score_report_done(&report);
    return 0;
}

static int cmd_score(const struct arguments *o) {
    OWNED(score_pairs_done) struct score_pairs p = {.ref = o->args[0], .hyp = o->args[1]};
    struct err err = {0};
    const struct argument_list *seizure = &own(o)->seizure;
    if (label_rule_write(own(o)->labels ? own(o)->labels : "auto", seizure->items, (size_t)seizure->n, p.rule, &err)) {
        brrctl_fail(&err);
        return EXIT_USAGE;
    }
    if (score(o, &p, &err))
        return brrctl_fail(&err);
    return p.unusable || p.missing == p.n ? EXIT_FAILED : 0;
}

BRRCTL_COMMAND(
    score, "REF HYP", ARGUMENTS(rows, .local = true), cmd_score, "score event files or directories; works without a daemon",
    "REF and HYP are two files, or two folders whose files are paired by their paths below them. A file is an event file of "
    "any\n"
    "--format of detect, a TUSZ csv, or an EDF or BDF recording, whose labels are found as a training finds them. The length\n"
    "of a recording is its header's, else what the label files state.\n"
    "example: brrctl score /data/reference /data/hypothesis --json");
