/* The outputs of a timeline: record trace, events, alarms and burst suppression. */

#include "detect/timeline_state.h"

enum { KEPT = 2048 * FRONTEND_RATE_HZ };

int timeline_keep_status(struct timeline *t, int rc, struct err *err) {
    if (rc && !t->status) {
        t->status = rc;
        t->error = *err;
    }
    return rc;
}

void timeline_give_event(void *ctx, const struct event *event) {
    struct timeline *t = ctx;
    struct err err = {0};
    struct event e = *event;
    e.where = t->focus ? focus_of(t->focus, e.first, e.end) : 0;
    if (!t->status && t->sink.event)
        timeline_keep_status(t, t->sink.event(t->sink.ctx, &e, &err), &err);
}

static int give_out(struct timeline *t, int64_t first, const float *p, int64_t n, struct err *err) {
    return t->sink.probabilities && n ? t->sink.probabilities(t->sink.ctx, first, p, n, err) : 0;
}

/* Final samples [emitted, end) of the record trace. */
static int emit_until(struct timeline *t, int64_t end, struct err *err) {
    int64_t n = end - t->emitted;
    if (n <= 0)
        return 0;
    for (int64_t i = 0; i < n; i++)
        t->sum[i] /= t->count[i];
    int rc;
    if (!(rc = give_out(t, t->emitted, t->sum, n, err)))
        rc = events_push(t->events, t->sum, n, err);
    int64_t rest = 2 * t->window - n;
    memmove(t->sum, t->sum + n, (size_t)rest * sizeof *t->sum);
    memmove(t->count, t->count + n, (size_t)rest * sizeof *t->count);
    memset(t->sum + rest, 0, (size_t)n * sizeof *t->sum);
    memset(t->count + rest, 0, (size_t)n * sizeof *t->count);
    t->emitted = end;
    if (t->focus) /* an event is given out before it is twice as long as the longest */
        focus_forget(t->focus, end - KEPT);
    return rc ? rc : t->status;
}

/* [emitted, end) lies between two segments: all sums are 0. */
static int give_gap(struct timeline *t, int64_t end, struct err *err) {
    int rc = 0;
    if (t->sink.gap)
        return end > t->emitted ? t->sink.gap(t->sink.ctx, t->emitted, end - t->emitted, err) : 0;
    for (int64_t i = 0; i < 2 * t->window; i++)
        t->sum[i] = NAN;
    for (int64_t at = t->emitted; !rc && at < end;) {
        int64_t n = end - at < 2 * t->window ? end - at : 2 * t->window;
        rc = give_out(t, at, t->sum, n, err);
        at += n;
    }
    memset(t->sum, 0, (size_t)(2 * t->window) * sizeof *t->sum);
    return rc;
}

static int start_segment(struct timeline *t, int64_t first, struct err *err) {
    int rc = give_gap(t, first, err);
    t->emitted = t->segment_out = first;
    if (t->state)
        memset(t->state, 0, (size_t)t->n_state * sizeof *t->state);
    return rc ? rc : events_break(t->events, first, err);
}

static int set_alarm_off(struct timeline *t, int64_t sample, struct err *err) {
    bool active = t->alarm.active;
    t->alarm = (struct alarm_rule){.config = t->alarm.config};
    const enum alarm_reason reason = t->finishing && sample == t->now ? ALARM_FINISHED : ALARM_GAP;
    const struct timeline_alarm off = {.reason = reason, .sample = sample, .known = sample, .p = NAN};
    return active && t->sink.alarm ? t->sink.alarm(t->sink.ctx, &off, err) : 0;
}

/* through: burst suppression is final up to this sample, whatever has been pushed. */
static int settle(struct timeline *t, int64_t through, struct err *err) {
    int rc = t->suppression ? suppression_give(t->suppression, through, err) : 0;
    return !rc && t->sink.settled ? t->sink.settled(t->sink.ctx, err) : rc;
}

static int finish_segment(struct timeline *t, int64_t end, struct err *err) {
    int rc;
    if ((rc = emit_until(t, end, err)) || (rc = events_finish(t->events, err)) || (rc = set_alarm_off(t, end, err)))
        return rc;
    return settle(t, end, err);
}

int timeline_run_marks(struct timeline *t, struct err *err) {
    int n = 0, rc = 0;
    for (; !rc && n < t->n_items && t->items[n].kind != ITEM_WINDOW; n++) {
        int64_t sample = t->items[n].start;
        bool start = t->items[n].kind == ITEM_SEGMENT_START;
        rc = start ? start_segment(t, sample, err) : finish_segment(t, sample, err);
    }
    t->n_items -= n;
    memmove(t->items, t->items + n, (size_t)t->n_items * sizeof *t->items);
    return rc ? rc : t->status;
}

/* Where the event of an alarm began, as far as the record trace shows it. */
static int64_t begin_of_alarm(const struct timeline *t, int64_t known) {
    struct event running;
    return events_running(t->events, &running) ? running.first : known - FOCUS_ALARM_S * FRONTEND_RATE_HZ;
}

/* The rule has changed with this sample of p, after a run of `run` samples before it. */
static int tell_alarm(struct timeline *t, struct timeline_alarm alarm, int64_t run, struct err *err) {
    alarm.reason = t->deaf_end > alarm.sample - run ? ALARM_ELECTRODES : ALARM_ENDED;
    if (alarm.on && t->focus)
        alarm.where = focus_of(t->focus, begin_of_alarm(t, alarm.known), alarm.known);
    return t->sink.alarm ? t->sink.alarm(t->sink.ctx, &alarm, err) : 0;
}

/* The rule takes n samples of the alarm trace that ends at `known`; NULL: zeros. */
static int judge(struct timeline *t, int64_t known, const float *p, int64_t n, struct err *err) {
    int64_t first = known - n;
    int rc = t->sink.judged ? t->sink.judged(t->sink.ctx, first, p, n, err) : 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        float taken = p ? p[i] : 0;
        if (p && !t->alarm.active && !t->alarm.run && (double)taken < t->alarm.config.on)
            continue;                     /* nearly all */
        const int64_t run = t->alarm.run; /* of samples before this one */
        int change = alarm_rule_push(&t->alarm, taken);
        t->deaf_end = p ? t->deaf_end : first + i + 1;
        if (change)
            rc =
                tell_alarm(t, (struct timeline_alarm){.on = change > 0, .sample = first + i, .known = known, .p = taken}, run, err);
    }
    return rc;
}

bool timeline_running(const struct timeline *t, struct event *ret) { return events_running(t->events, ret); }

/* Whether the model has heard enough at the end of this alarm window for an alarm. */
static bool may_alarm(const struct timeline *t, const struct item *item) {
    const int64_t of_segment = item->start + t->window - t->segment_out, in_all = item->row + item->valid;
    return of_segment >= t->alarm_signal[in_all >= t->alarm_signal[0]];
}

int timeline_complete_alarm(struct timeline *t, const struct item *item, const float *p, struct err *err) {
    int64_t end = item->start + t->window, first = end - t->alarm_hop;
    const float *newest = p + t->window - t->alarm_hop;
    int rc = t->sink.provisional ? t->sink.provisional(t->sink.ctx, first, newest, t->alarm_hop, err) : 0;
    if (rc || !may_alarm(t, item))
        return rc;
    return judge(t, end, item->deaf ? NULL : newest, t->alarm_hop, err);
}

int timeline_complete_record(struct timeline *t, const struct item *item, const float *p, struct err *err) {
    float *sum = t->sum + (item->start - t->emitted);
    uint16_t *count = t->count + (item->start - t->emitted);
    for (int64_t i = 0; i < item->valid; i++) {
        sum[i] += p[i];
        count[i]++;
    }
    if (item->valid < t->window) /* the end of the segment emits the rest */
        return 0;
    int rc = emit_until(t, item->start + t->hop, err);
    return rc ? rc : settle(t, t->emitted - SUPPRESSION_LATEST, err);
}
