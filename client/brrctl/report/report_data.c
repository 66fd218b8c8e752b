#include "base/needed.h"
#include "base/order.h"
#include "client/brrctl/report/report.h"
#include "client/brrctl/report/score_files.h"
#include "client/brrctl/report/stems.h"
#include "eeg/events.h"
#include "eeg/labels.h"
#include "eeg/tree.h"
#include "plot/plot_operating.h"
#include "score/score_alarms.h"

enum { PATH_SIZE = 4096, OPERATING_POINTS = 60 };

struct collecting {
    const struct report_places *places;
    struct stems *events, *eeg, *reference; /* of the places; NULL: not given */
    struct report_data data;
};

int report_overlap(const struct plot_span *span, const struct plot_span *others, int n) {
    for (int i = 0; i < n; i++)
        if (others[i].onset_s < span->end_s && others[i].end_s > span->onset_s)
            return i;
    return -1;
}

/* ---- files of a recording ---- */

/* The file of the tree that belongs to the events at stem: by its path below the folders, else by its last part where that is the
 * only one in both. *ret NULL without one. */
static int find_file(const struct collecting *c, const struct stems *tree, const char *root, const char *stem, const char **ret,
                     struct err *err) {
    *ret = tree ? stems_path(tree, stem) : NULL;
    if (!tree || *ret)
        return 0;
    int rc = stems_find(tree, fsio_basename(stem), ret, err);
    return rc || !*ret ? rc : stems_check_alone(c->events, stem, root, err);
}

static void keep_events(struct report_recording *r, const struct events_file *file) {
    r->detected = needed(calloc(file->n_rows + 1, sizeof *r->detected));
    r->confidence = needed(calloc(file->n_rows + 1, sizeof *r->confidence));
    r->channels = needed(calloc(file->n_rows + 1, sizeof *r->channels));
    for (size_t i = 0; i < file->n_rows; i++) {
        const struct event_row *row = &file->rows[i];
        if (!events_is_seizure(row->type) || !(row->duration_s > 0))
            continue;
        r->confidence[r->n_detected] = row->confidence;
        str_copy(r->channels[r->n_detected], SIDE_LIST, row->channels);
        r->detected[r->n_detected++] = (struct plot_span){row->onset_s, row->onset_s + row->duration_s};
    }
}

static int read_events(struct report_recording *r, const char *path, struct err *err) {
    OWNED(events_done) struct events_file file = {0};
    int rc = events_read(path, &file, err);
    if (rc)
        return rc;
    r->duration_s = file.recording_s;
    str_copy(r->start_text, sizeof r->start_text, file.start_text);
    keep_events(r, &file);
    return 0;
}

/* A recording for which no alarms were computed has no such file. */
static int read_alarms(struct report_recording *r, const char *path, struct err *err) {
    OWNED(events_done) struct events_file file = {0};
    if (!fsio_exists(path))
        return 0;
    int rc = events_read(path, &file, err);
    if (rc)
        return rc;
    r->has_alarms = true;
    r->alarms_s = needed(calloc(file.n_rows + 1, sizeof *r->alarms_s));
    for (size_t i = 0; i < file.n_rows; i++)
        if (!strcmp(file.rows[i].type, "alarm"))
            r->alarms_s[r->n_alarms++] = file.rows[i].onset_s;
    return 0;
}

static void keep_reference(struct report_recording *r, const struct score_event *events, int n) {
    r->labelled = true;
    r->reference = needed(calloc((size_t)n + 1, sizeof *r->reference));
    for (int i = 0; i < n; i++)
        r->reference[r->n_reference++] = (struct plot_span){events[i].onset_s, events[i].end_s};
}

/* A recording without labels is reported without truth. */
static int read_reference(const struct collecting *c, struct report_recording *r, struct err *err) {
    const char *path = r->eeg;
    struct score_labels labels;
    int rc;
    if (c->reference && (rc = find_file(c, c->reference, c->places->reference, r->name, &path, err)))
        return rc;
    if (!path)
        return 0;
    rc = score_labels_read(path, "auto", &labels, err);
    if (rc == ERR_NOT_FOUND) {
        *err = (struct err){0};
        return 0;
    }
    if (rc)
        return rc;
    score_note_beyond(r->name, &labels, r->duration_s);
    keep_reference(r, labels.events, labels.n);
    COPY_MEMBERS(*r, labels, unsure, n_unsure);
    labels.unsure = NULL;
    if (!r->gaps)
        COPY_MEMBERS(*r, labels, gaps, n_gaps);
    if (r->gaps == labels.gaps)
        labels.gaps = NULL;
    score_labels_done(&labels);
    return 0;
}

static int read_clock(struct report_recording *r, struct err *err) {
    OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL;
    int rc = eegfile_open_header(r->eeg, &edf, err);
    if (rc)
        return rc;
    const struct eeg_start *start = &eegfile_info(edf)->start;
    r->duration_s = eegfile_info(edf)->duration_s;
    r->n_gaps = score_gaps(eegfile_info(edf), &r->gaps);
    r->has_clock = start->known;
    r->clock_s = start->hour * 3600 + start->minute * 60 + start->second + start->subsecond;
    eegfile_start_text(edf, r->start_text, sizeof r->start_text);
    return 0;
}

static char *patient_of(const char *stem) {
    char patient[PATH_SIZE];
    return needed(strdup(labels_patient(stem, LABELS_PATIENT_AUTO, patient, sizeof patient, NULL, NULL) ? stem : patient));
}

static int read_recording(struct collecting *c, struct report_recording *r, const char *relative, struct err *err) {
    char path[PATH_SIZE], alarms[PATH_SIZE], stem[PATH_SIZE];
    int rc;
    if (!score_stem(relative, stem, sizeof stem) || !str_format(alarms, sizeof alarms, "%s/%s_alarms.tsv", c->places->events, stem))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", relative);
    if ((rc = fsio_join(path, sizeof path, c->places->events, relative, err)) || (rc = read_events(r, path, err)) ||
        (rc = read_alarms(r, alarms, err)))
        return rc;
    r->name = needed(strdup(stem));
    r->subject = patient_of(stem);
    const char *eeg;
    if ((rc = find_file(c, c->eeg, c->places->eeg, stem, &eeg, err)))
        return rc;
    r->eeg = eeg ? needed(strdup(eeg)) : NULL;
    if (r->eeg && (rc = read_clock(r, err)))
        return rc;
    return read_reference(c, r, err);
}

static bool holds_events(const char *path) { return str_ends(path, "_events.tsv"); }

static int visit(void *ctx, const struct fsio_found *found, struct err *err) {
    struct collecting *c = ctx;
    struct report_data *d = &c->data;
    char path[PATH_SIZE];
    int rc = fsio_join(path, sizeof path, c->places->events, found->path, err);
    if (rc || found->absent || found->folder || found->special || !holds_events(path) || tree_is_apple_double(path))
        return rc;
    if (d->n % 64 == 0)
        d->recordings = needed(realloc(d->recordings, (size_t)(d->n + 64) * sizeof *d->recordings));
    struct report_recording *r = &d->recordings[d->n++];
    *r = (struct report_recording){.duration_s = NAN, .start_text = "n/a"};
    rc = read_recording(c, r, found->path, err);
    d->n_labelled += r->labelled;
    d->n_without_eeg += !r->eeg;
    d->n_alarmed += r->has_alarms;
    return rc;
}

static int index_places(struct collecting *c, struct err *err) {
    const struct report_places *p = c->places;
    int rc;
    if ((rc = stems_read(p->events, holds_events, stems_say_stranger, &c->events, err)) ||
        (p->eeg && (rc = stems_read(p->eeg, eegfile_named, NULL, &c->eeg, err))))
        return rc;
    return p->reference ? stems_read(p->reference, score_is_reference, stems_say_stranger, &c->reference, err) : 0;
}

int report_data_read(const struct report_places *places, struct report_data *ret, struct err *err) {
    struct collecting c = {.places = places};
    int rc = index_places(&c, err);
    rc = rc ? rc : fsio_walk_names(places->events, visit, &c, err);
    stems_free(c.events);
    stems_free(c.eeg);
    stems_free(c.reference);
    if (!rc && !c.data.n)
        rc = err_set(err, ERR_NOT_FOUND, "no *_events.tsv below %s; expected the output of `brrctl detect` or a job's folder",
                     places->events);
    if (rc)
        report_data_done(&c.data);
    else
        *ret = c.data;
    return rc;
}

void report_data_done(struct report_data *d) {
    for (int i = 0; i < d->n; i++) {
        struct report_recording *r = &d->recordings[i];
        FREE_MEMBERS(*r, name, subject, eeg, detected, reference, unsure, gaps, confidence, channels, alarms_s);
    }
    free(d->recordings);
    *d = (struct report_data){0};
}

/* ---- operating points by the confidence of events ---- */

/* The same spans as score/score.h has them, malloc'd. */
static struct score_event *scored(const struct plot_span *spans, int n) {
    struct score_event *out = needed(malloc(((size_t)n + 1) * sizeof *out));
    for (int i = 0; i < n; i++)
        out[i] = (struct score_event){spans[i].onset_s, spans[i].end_s};
    return out;
}

/* Sensitivity and false alarms of the events that are at least this confident. */
static int score_above(const struct report_data *d, double confidence, struct plot_point *ret, struct err *err) {
    struct score_counts sums[SCORE_KINDS] = {{0}};
    struct score score;
    for (int i = 0; i < d->n; i++) {
        const struct report_recording *r = &d->recordings[i];
        OWNED_MEMORY struct score_event *kept = needed(calloc((size_t)r->n_detected + 1, sizeof *kept));
        OWNED_MEMORY struct score_event *reference = scored(r->reference, r->n_reference);
        struct score_counts counts[SCORE_KINDS];
        int n = 0, rc;
        if (!r->labelled || isnan(r->duration_s))
            continue;
        for (int k = 0; k < r->n_detected; k++)
            if (!(r->confidence[k] < confidence))
                kept[n++] = (struct score_event){r->detected[k].onset_s, r->detected[k].end_s};
        struct score_recording one = {SAME_MEMBERS(*r, name, subject, duration_s, unsure, n_unsure, gaps, n_gaps), .ref = reference,
                                      .n_ref = r->n_reference, .hyp = kept, .n_hyp = n};
        if ((rc = score_recording(&one, counts, err)))
            return rc;
        for (int k = 0; k < SCORE_KINDS; k++)
            score_counts_add(&sums[k], &counts[k]);
    }
    score_from_counts(&sums[SCORE_EVENT], &score);
    *ret = (struct plot_point){score.false_alarms_per_24h, score.sensitivity};
    return 0;
}

/* Quantiles of the confidences of all events; how many. */
static int thresholds_of(const struct report_data *d, double ret[OPERATING_POINTS]) {
    int all = 0, n = 0;
    for (int i = 0; i < d->n; i++)
        all += d->recordings[i].n_detected;
    OWNED_MEMORY double *values = needed(malloc((size_t)(all + 1) * sizeof *values));
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->recordings[i].n_detected; k++)
            if (!isnan(d->recordings[i].confidence[k]))
                values[n++] = d->recordings[i].confidence[k];
    if (!n)
        return 0;
    SORT(values, n, order_f64s);
    int count = n < OPERATING_POINTS ? n : OPERATING_POINTS;
    for (int i = 0; i < count; i++)
        ret[i] = values[(int64_t)i * n / count];
    return count;
}

struct operating {
    struct plot_point points[OPERATING_POINTS];
    int n_points;
    struct plot_mark all_events, alarms;
    struct plot_delays delays[2];
    double *onsets; /* delays of events, malloc'd */
    int n_delays;
    struct score_alarm_report alarm_report;
    int64_t seizures;
};

static int score_all_alarms(const struct report_data *d, struct operating *o, struct err *err) {
    OWNED_MEMORY struct score_alarms *recs = needed(calloc((size_t)d->n + 1, sizeof *recs));
    int n = 0;
    for (int i = 0; i < d->n; i++) {
        const struct report_recording *r = &d->recordings[i];
        if (!r->labelled || !r->has_alarms || isnan(r->duration_s))
            continue;
        const struct score_event *reference = scored(r->reference, r->n_reference);
        recs[n++] = (struct score_alarms){SAME_MEMBERS(*r, name, n_alarms, unsure, n_unsure),
                                          .recorded_s = score_recorded_s(r->duration_s, r->gaps, r->n_gaps), .ref = reference,
                                          .n_ref = r->n_reference, .at_s = r->alarms_s};
    }
    int rc = n ? score_alarms(recs, n, &o->alarm_report, err) : 0;
    for (int i = 0; i < n; i++)
        free((void *)(uintptr_t)recs[i].ref);
    return rc;
}

/* From the onset of each seizure to that of the first event that overlaps it, where the event came later. */
static void event_delays(const struct report_data *d, struct operating *o) {
    int64_t n = 0;
    for (int i = 0; i < d->n; i++)
        o->seizures += d->recordings[i].n_reference;
    o->onsets = needed(malloc((size_t)(o->seizures + 1) * sizeof *o->onsets));
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->recordings[i].n_reference; k++) {
            const struct report_recording *r = &d->recordings[i];
            int at = report_overlap(&r->reference[k], r->detected, r->n_detected);
            if (at >= 0)
                o->onsets[n++] = fmax(0, r->detected[at].onset_s - r->reference[k].onset_s);
        }
    SORT(o->onsets, n, order_f64s);
    if (n)
        o->delays[o->n_delays++] = (struct plot_delays){"onset of the event", o->onsets, n};
    if (o->alarm_report.n_delays)
        o->delays[o->n_delays++] = (struct plot_delays){"alarm", o->alarm_report.delays_s, o->alarm_report.n_delays};
}

static int compute(const struct report_data *d, struct operating *o, struct err *err) {
    double thresholds[OPERATING_POINTS];
    struct plot_point all = {0};
    int rc, n = thresholds_of(d, thresholds);
    for (int i = 0; i < n; i++)
        if ((rc = score_above(d, thresholds[i], &o->points[o->n_points++], err)))
            return rc;
    if ((rc = score_above(d, -INFINITY, &all, err)) || (rc = score_all_alarms(d, o, err)))
        return rc;
    o->all_events = (struct plot_mark){"all events", all.x, all.y};
    o->alarms = (struct plot_mark){"alarms", o->alarm_report.false_alarms_per_24h, o->alarm_report.sensitivity};
    event_delays(d, o);
    return 0;
}

static void operating_done(struct operating *o) {
    free(o->onsets);
    score_alarm_report_done(&o->alarm_report);
}

int report_operating(const struct report_data *d, const char *path, bool *ret_drawn, struct err *err) {
    OWNED(operating_done) struct operating o = {0};
    int rc = d->n_labelled ? compute(d, &o, err) : 0;
    *ret_drawn = !rc && o.seizures > 0;
    if (rc || !*ret_drawn)
        return rc;
    const struct plot_operating plot = {.title = "Sensitivity, false alarms and delay",
                                        .subtitle =
                                            "events by their least confidence; sensitivity and false alarms by SzCORE events",
                                        .events = {"events", o.points, o.n_points, &o.all_events, 1},
                                        .alarms = {"alarms", NULL, 0, &o.alarms, d->n_alarmed ? 1 : 0},
                                        SAME_MEMBERS(o, delays, n_delays, seizures),
                                        .of_events = true};
    return plot_operating(path, &plot, err);
}
