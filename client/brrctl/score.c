/* score REF HYP: files or directories of events TSV. Runs here, without a daemon. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fsio.h"
#include "base/str.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "data/labels.h"
#include "report/score.h"

/* The options of score. */
struct score_options {
    bool events;
};
#define AT(field) offsetof(struct score_options, field)
static const struct argument rows[] = {
    {"--events", NULL, ARGUMENT_FLAG, AT(events), "", "list every event with its outcome", 0, 0},
};
#undef AT
const struct argument_table score_arguments = ARGUMENT_TABLE_LOCAL(rows, struct score_options);

static const struct score_options *own(const struct arguments *o) { return o->own; }

struct pairs {
    const char *ref, *hyp;
    bool directory;
    struct score_recording *items;
    int n, missing, unusable; /* recordings; of them without a hypothesis; with one that cannot be used */
};

static int read_events(const char *path, struct score_event **ret, int *ret_n, double *ret_duration, struct err *err) {
    struct events_file file;
    int rc = events_read_tsv(path, &file, err);
    if (rc)
        return rc;
    struct score_event *events = calloc(file.n_rows + 1, sizeof *events);
    int n = 0;
    for (size_t i = 0; events && i < file.n_rows; i++)
        if (labels_is_seizure(file.rows[i].type) && !isnan(file.rows[i].duration_s))
            events[n++] = (struct score_event){file.rows[i].onset_s, file.rows[i].onset_s + file.rows[i].duration_s};
    *ret_duration = file.recording_s;
    events_done(&file);
    if (!events)
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", path);
    *ret = events;
    *ret_n = n;
    return 0;
}

/* "sub-XX" of a path, else the whole path. */
static char *subject_of(const char *path) {
    const char *at = strstr(path, "sub-");
    return at ? strndup(at, strcspn(at, "_/")) : strdup(path);
}

/* The hypothesis of a reference: the same relative path, else the same name anywhere directly below. */
static bool find_hypothesis(const struct pairs *p, const char *relative, char *buf, size_t size) {
    if (!p->directory)
        return str_copy(buf, size, p->hyp);
    if (str_format(buf, size, "%s/%s", p->hyp, relative) && fsio_exists(buf))
        return true;
    return str_format(buf, size, "%s/%s", p->hyp, fsio_basename(relative)) && fsio_exists(buf);
}

/* A hypothesis that cannot be read or has another length in whole seconds counts as no event, as in SzCORE. Returns false, after
 * printing why, for such a file. */
static bool read_hypothesis(const char *path, struct score_recording *r) {
    struct score_event *events = NULL;
    struct err err = {0};
    double duration = NAN;
    int n = 0;
    if (!read_events(path, &events, &n, &duration, &err) && floor(duration) != floor(r->duration_s) && !isnan(duration)) {
        err_set(&err, ERR_INVALID, "%s: recordingDuration is %.2f s, the reference's %.2f s", path, duration, r->duration_s);
        n = 0;
    }
    if (err.code)
        fprintf(stderr, "brrctl: counted as a recording without events: %s\n", err.message);
    r->hyp = events;
    r->n_hyp = n;
    return !err.code;
}

static int add_pair(struct pairs *p, const char *ref_path, const char *relative, struct err *err) {
    char hyp_path[4096];
    struct score_recording *items = realloc(p->items, (size_t)(p->n + 1) * sizeof *items);
    if (!items)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    p->items = items;
    struct score_recording *r = &items[p->n];
    struct score_event *ref = NULL;
    *r = (struct score_recording){.name = strdup(relative), .subject = subject_of(relative)};
    p->n++;
    int rc = read_events(ref_path, &ref, &r->n_ref, &r->duration_s, err);
    r->ref = ref;
    if (!rc && isnan(r->duration_s))
        rc = err_set(err, ERR_INVALID, "%s: no recordingDuration; scores need the recording's length", ref_path);
    if (!rc && find_hypothesis(p, relative, hyp_path, sizeof hyp_path))
        p->unusable += !read_hypothesis(hyp_path, r);
    else if (!rc)
        p->missing++; /* counts as no event */
    return rc;
}

static int visit(void *ctx, const char *relative, int64_t size, struct err *err) {
    struct pairs *p = ctx;
    char path[4096];
    (void)size;
    if (!str_ends(relative, "_events.tsv"))
        return 0;
    int rc = fsio_join(path, sizeof path, p->ref, relative, err);
    return rc ? rc : add_pair(p, path, relative, err);
}

/* "-" where it is not defined. */
static const char *share(double value, char buf[16]) {
    if (isnan(value))
        str_copy(buf, 16, "-");
    else
        str_format(buf, 16, "%.3f", value);
    return buf;
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

/* The outcome of each event, by any overlap: found and missed references, false detections. */
static void print_events(const struct arguments *o, const struct pairs *p) {
    for (int i = 0; i < p->n; i++) {
        const struct score_recording *r = &p->items[i];
        for (int k = 0; k < r->n_ref; k++)
            print_event(o, r->name, partner(&r->ref[k], r->hyp, r->n_hyp) < 0 ? "missed" : "found", &r->ref[k]);
        for (int k = 0; k < r->n_hyp; k++)
            if (partner(&r->hyp[k], r->ref, r->n_ref) < 0)
                print_event(o, r->name, "false", &r->hyp[k]);
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

int cmd_score(const struct arguments *o) {
    struct pairs p = {.ref = o->args[0], .hyp = o->args[1], .directory = fsio_is_dir(o->args[0])};
    struct score_report report;
    struct err err = {0};
    int rc = check_pair(&p, &err);
    if (!rc)
        rc = p.directory ? fsio_walk(p.ref, visit, &p, &err) : add_pair(&p, p.ref, fsio_basename(p.ref), &err);
    if (!rc && !p.n)
        rc = err_set(&err, ERR_NOT_FOUND, "no *_events.tsv below %s", p.ref);
    if (!rc && p.missing)
        fprintf(stderr, "brrctl: %d of %d recording%s no file below %s: counted as without events\n", p.missing, p.n,
                p.n == 1 ? " has" : "s have", p.hyp);
    if (!rc && !(rc = score_all(p.items, p.n, &report, &err))) {
        struct str s;
        struct json_writer w;
        str_init(&s, 16u << 20);
        json_writer_init(&w, &s);
        if (own(o)->events)
            print_events(o, &p);
        if (o->json) {
            score_report_json(&report, &w);
            puts(str_cstr(&s));
        } else {
            print_report(&report);
        }
        str_done(&s);
        score_report_done(&report);
    }
    for (int i = 0; i < p.n; i++) {
        free((void *)(uintptr_t)p.items[i].name);
        free((void *)(uintptr_t)p.items[i].subject);
        free((void *)(uintptr_t)p.items[i].ref);
        free((void *)(uintptr_t)p.items[i].hyp);
    }
    free(p.items);
    if (rc)
        return brrctl_fail(&err);
    return p.unusable || p.missing == p.n ? EXIT_FAILED : 0;
}
