#include "client/brrctl/lsl/lsl_timeline.h"

#include <math.h>

static const double TOLERANCE_S = 0.25; /* as for the records of a file */
static const double DECIDE_S = 0.5;
static const double SILENCE_S = 1.5;
static const double CREDIBLE_S = 600; /* longer jumps of the stamps are those of a clock, not of the signal */
static const double ANCHOR_S = 1;     /* the earliest stamp of the first second is the least delayed one */
static const double RATE_AFTER_S = 10;

void lsl_timeline_init(struct lsl_timeline *t, double rate_hz) { *t = (struct lsl_timeline){.rate_hz = rate_hz}; }

/* The stretch whose stamps belong together is over. */
static void end_stretch(struct lsl_timeline *t) {
    if (t->stamped > 1) {
        t->spans_s += t->last_stamp_s - t->first_stamp_s;
        t->steps += t->stamped - 1;
    }
    t->stamped = 0;
}

/* The next place has this stamp. */
static void set_anchor(struct lsl_timeline *t, double stamp_s) {
    t->anchor_s = stamp_s - (double)t->position / t->rate_hz;
    t->began_samples = 0;
    end_stretch(t);
}

static void place(struct lsl_timeline *t, int64_t n, double now_s) {
    t->position += n;
    t->began_samples += n;
    t->held = 0;
    t->arrived_s = now_s;
}

/* Counts the sample for the rate that the stamps say. */
static void note_stamp(struct lsl_timeline *t, double stamp_s) {
    if (!t->stamped++)
        t->first_stamp_s = stamp_s;
    t->last_stamp_s = stamp_s;
}

static void count_gap(struct lsl_timeline *t, int64_t n) {
    t->gaps++;
    t->gap_samples += n;
    t->position += n;
}

/* Missing samples where stamps are off by deviation_s and elapsed_s passed here: stamps are believed as far as a signal may pause.
 */
static int64_t missing(const struct lsl_timeline *t, double deviation_s, double elapsed_s) {
    bool credible = deviation_s > 0 && (deviation_s <= CREDIBLE_S || fabs(deviation_s - elapsed_s) < 2);
    double gap_s = credible ? deviation_s : elapsed_s;
    int64_t n = llround(gap_s * t->rate_hz);
    return n < 1 ? 1 : n;
}

/* After a silence whose length was declared up to `position`. */
static enum lsl_result add_after_silence(struct lsl_timeline *t, double stamp_s, double now_s, int64_t *ret_gap) {
    double deviation_s = stamp_s - (t->anchor_s + (double)t->position / t->rate_hz);
    double declared_s = (double)t->silent_samples / t->rate_hz;
    if (deviation_s < -0.5 / t->rate_hz && deviation_s > -declared_s - TOLERANCE_S) { /* sent in the silence, arrived after it */
        t->late++;
        return LSL_LATE;
    }
    t->silent = false;
    *ret_gap = deviation_s > 0 && deviation_s <= CREDIBLE_S ? llround(deviation_s * t->rate_hz) : 0;
    t->gap_samples += *ret_gap;
    t->position += *ret_gap;
    set_anchor(t, stamp_s);
    place(t, 1, now_s);
    note_stamp(t, stamp_s);
    return *ret_gap ? LSL_GAP : LSL_FOLLOWS;
}

static enum lsl_result hold(struct lsl_timeline *t, double deviation_s, double now_s, int64_t *ret_gap) {
    if (!t->held || (deviation_s > 0) != (t->nearest_s > 0)) {
        t->held_since_s = t->held ? t->held_since_s : now_s;
        t->nearest_s = deviation_s;
    } else if (fabs(deviation_s) < fabs(t->nearest_s)) {
        t->nearest_s = deviation_s;
    }
    t->held++;
    if ((double)t->held < DECIDE_S * t->rate_hz)
        return LSL_HOLDS;
    *ret_gap = lsl_timeline_settle(t);
    t->arrived_s = now_s;
    return *ret_gap ? LSL_GAP : LSL_FOLLOWS;
}

enum lsl_result lsl_timeline_add(struct lsl_timeline *t, double stamp_s, double now_s, int64_t *ret_gap) {
    *ret_gap = 0;
    if (!t->began) {
        t->began = true;
        set_anchor(t, stamp_s);
    }
    if (t->silent)
        return add_after_silence(t, stamp_s, now_s, ret_gap);
    double deviation_s = stamp_s - (t->anchor_s + (double)(t->position + t->held) / t->rate_hz);
    if (fabs(deviation_s) > TOLERANCE_S)
        return hold(t, deviation_s, now_s, ret_gap);
    if (deviation_s < 0 && (double)t->began_samples < ANCHOR_S * t->rate_hz)
        t->anchor_s += deviation_s;
    place(t, t->held + 1, now_s);
    note_stamp(t, stamp_s);
    return LSL_FOLLOWS;
}

int64_t lsl_timeline_settle(struct lsl_timeline *t) {
    int64_t n = t->held, gap = 0;
    if (!n)
        return 0;
    gap = missing(t, t->nearest_s, t->held_since_s - t->arrived_s);
    double stamp_s = t->anchor_s + (double)t->position / t->rate_hz + t->nearest_s;
    count_gap(t, gap);
    set_anchor(t, stamp_s);
    place(t, n, t->held_since_s);
    return gap;
}

int64_t lsl_timeline_silence(struct lsl_timeline *t, double now_s) {
    if (!t->began || now_s - t->arrived_s < (t->silent ? 0.25 : SILENCE_S))
        return 0;
    int64_t n = llround((now_s - t->arrived_s) * t->rate_hz);
    if (t->silent) {
        t->gap_samples += n;
        t->position += n;
        t->silent_samples += n;
    } else {
        count_gap(t, n);
        t->silent_samples = n;
    }
    t->silent = true;
    t->arrived_s = now_s;
    return n;
}

void lsl_timeline_shift(struct lsl_timeline *t, double delta_s) {
    t->anchor_s += delta_s;
    end_stretch(t);
}

double lsl_timeline_rate(const struct lsl_timeline *t) {
    const bool more = t->stamped > 1;
    const double span_s = t->spans_s + (more ? t->last_stamp_s - t->first_stamp_s : 0);
    const int64_t steps = t->steps + (more ? t->stamped - 1 : 0);
    return steps && span_s >= RATE_AFTER_S ? (double)steps / span_s : NAN;
}
