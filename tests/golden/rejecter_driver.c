/* rejecter_driver: labelled events or whole recordings on standard input, a line of JSON for each on standard output.
 * Lines, separated by tabs: "labelled MEAN PEAK DURATION SEIZURE" (an event's features) and "fit"; or "recording SUBJECT DURATION",
 * "ref ONSET END" and "event ONSET END HIGH LOW" (of the newest recording: probabilities, those of the first half and the others),
 * "pair ON OFF" and "search TARGET". For tests/golden/test_rejecter_golden.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "score/score_rejecter.h"

enum { RATE_HZ = 256, MAX_RECORDINGS = 16, MAX_REFS = 64, MAX_LABELLED = 4096, MAX_PAIRS = 16, MAX_SECONDS = 4000 };

struct slot {
    char subject[64];
    struct score_event ref[MAX_REFS];
    float p[MAX_SECONDS * RATE_HZ];
};
static struct slot slots[MAX_RECORDINGS];
static struct score_trace traces[MAX_RECORDINGS];
static struct rejecter_event labelled[MAX_LABELLED];
static struct score_point points[MAX_PAIRS];
static int n_traces, n_labelled, n_pairs;
static struct err err;

static void check(int rc) {
    if (!rc)
        return;
    fprintf(stderr, "%s\n", err.message);
    exit(1);
}

/* No rule but the thresholds and a maximum of 20 s. */
static struct events_config rules(void) {
    struct events_config c;
    events_config_default(&c);
    c.min_onset = c.min_offset = c.opening = c.closing = 1;
    c.min_duration_s = c.merge_gap_s = 0;
    c.max_duration_s = 20;
    return c;
}

static void score_pair(struct score_point *point) {
    struct score_counts sums[SCORE_KINDS] = {{0}};
    struct events_config c = rules();
    c.on = point->on;
    c.off = point->off;
    for (int i = 0; i < n_traces; i++) {
        struct event *events = NULL;
        int64_t n = 0;
        check(events_find(&c, traces[i].p, traces[i].n, &events, &n, &err));
        check(score_apply(&traces[i], events, n, sums, &err));
        free(events);
    }
    for (int k = 0; k < SCORE_KINDS; k++)
        score_from_counts(&sums[k], &point->scores[k]);
}

static void search(double target, struct json_writer *w) {
    struct events_config c = rules();
    const struct score_sweep sweep = {.points = points, .n = n_pairs};
    const struct rejecter_search s = {.traces = traces, .n = n_traces, .base = &c, .sweep = &sweep, .target_fa_per_24h = target};
    struct score_rejecter found;
    for (int i = 0; i < n_pairs; i++)
        score_pair(&points[i]);
    check(score_rejecter_begin(&s, &found, &err));
    for (bool done = false; !done;)
        check(score_rejecter_step(&found, &done, &err));
    score_rejecter_json(&found, w, NULL);
    score_rejecter_done(&found);
}

static void fit(struct json_writer *w) {
    struct event_rejecter r = {.on = 0.5, .off = 0.5};
    if (rejecter_fit(labelled, n_labelled, &r, &err))
        json_put_str(w, NULL, err.message);
    else
        rejecter_to_json(&r, w, NULL);
}

static void fill(float *p, double onset, double end, float high, float low) {
    int64_t first = (int64_t)(onset * RATE_HZ), last = (int64_t)(end * RATE_HZ), half = first + (last - first) / 2;
    for (int64_t i = first; i < last; i++)
        p[i] = i < half ? high : low;
}

static bool add(const char *line) {
    struct slot *s = &slots[n_traces];
    struct score_trace *newest = n_traces ? &traces[n_traces - 1] : NULL;
    double a, b, duration;
    float high, low;
    if (n_traces < MAX_RECORDINGS && sscanf(line, "recording\t%63s\t%lf", s->subject, &duration) == 2) {
        int64_t n = (int64_t)(duration * RATE_HZ);
        fill(s->p, 0, duration, 0.01f, 0.01f);
        traces[n_traces++] = (struct score_trace){
            .name = s->subject, .subject = s->subject, .p = s->p, .n = n, .duration_s = duration, .ref = s->ref};
        return duration <= MAX_SECONDS;
    }
    if (newest && newest->n_ref < MAX_REFS && sscanf(line, "ref\t%lf\t%lf", &a, &b) == 2)
        slots[n_traces - 1].ref[newest->n_ref++] = (struct score_event){a, b};
    else if (newest && sscanf(line, "event\t%lf\t%lf\t%f\t%f", &a, &b, &high, &low) == 4)
        fill(slots[n_traces - 1].p, a, b, high, low);
    else if (n_pairs < MAX_PAIRS && sscanf(line, "pair\t%lf\t%lf", &a, &b) == 2)
        points[n_pairs++] = (struct score_point){.on = a, .off = b};
    else
        return false;
    return true;
}

static bool add_labelled(const char *line) {
    struct rejecter_event *e = &labelled[n_labelled];
    int seizure = 0;
    if (n_labelled == MAX_LABELLED ||
        sscanf(line, "labelled\t%lf\t%lf\t%lf\t%d", &e->features[0], &e->features[1], &e->features[2], &seizure) != 4)
        return false;
    e->seizure = seizure;
    n_labelled++;
    return true;
}

int main(void) {
    char line[256];
    double target;
    while (fgets(line, sizeof line, stdin)) {
        struct str text;
        struct json_writer w;
        str_init(&text, 1 << 16);
        json_writer_init(&w, &text);
        if (!strncmp(line, "fit", 3)) {
            fit(&w);
            n_labelled = 0;
        } else if (sscanf(line, "search\t%lf", &target) == 1) {
            search(target, &w);
            n_traces = n_pairs = 0;
        } else if (!add_labelled(line) && !add(line)) {
            return 2;
        }
        if (text.len)
            puts(str_cstr(&text));
        str_done(&text);
    }
    return 0;
}
