#include "client/brrctl/lsl/lsl_timeline.h"

#include "base/order.h"

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

/* The nearest usual rate within one per cent, else the rate itself. */
static double usual_rate(double rate_hz) {
    static const double usual[] = {100, 125, 128,  160,  200,  250,  256,  300,  400, 500,
                                   512, 600, 1000, 1024, 2000, 2048, 4000, 4096, 5000};
    double nearest = rate_hz, distance = 0.01 * rate_hz;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (fabs(usual[i] - rate_hz) < distance) {
            distance = fabs(usual[i] - rate_hz);
            nearest = usual[i];
        }
    return nearest;
}

/* True if sample i begins a chunk: the step to it is not the declared one. */
static bool begins_chunk(const double *stamps, int64_t i, double declared_hz) {
    return fabs((stamps[i] - stamps[i - 1]) * declared_hz - 1) > 0.25;
}

/* The first and the last sample that begin a chunk; false when there are too few chunks: single steps are gaps and set clocks. */
static bool find_chunks(const double *stamps, int64_t n, double declared_hz, int64_t *ret_first, int64_t *ret_last) {
    enum { LEAST = 8 };
    int64_t chunks = 0;
    for (int64_t i = 1; i < n; i++)
        if (begins_chunk(stamps, i, declared_hz)) {
            *ret_first = chunks++ ? *ret_first : i;
            *ret_last = i;
        }
    return chunks >= LEAST && stamps[*ret_last] - stamps[*ret_first] >= 1;
}

double lsl_timeline_measure(const double *stamps, int64_t n, double declared_hz) {
    enum { PARTS = 8 };
    double rates[PARTS];
    int parts = 0;
    int64_t first = 0, last = n - 1;
    if (n < PARTS || stamps[n - 1] - stamps[0] < 1)
        return NAN;
    const bool chunks = find_chunks(stamps, n, declared_hz, &first, &last);
    if (!chunks) {
        first = 0;
        last = n - 1;
    }
    for (int64_t at = first, to; at < last; at = to) {
        const int64_t end = at + (last - first + PARTS - 1) / PARTS;
        for (to = end < last ? end : last; chunks && to < last && !begins_chunk(stamps, to, declared_hz);)
            to++;
        if (parts < PARTS && stamps[to] > stamps[at])
            rates[parts++] = (double)(to - at) / (stamps[to] - stamps[at]);
    }
    if (!parts)
        return NAN;
    SORT(rates, parts, order_f64s);
    return usual_rate((rates[(parts - 1) / 2] + rates[parts / 2]) / 2);
}

double lsl_timeline_rate(const struct lsl_timeline *t) {
    const bool more = t->stamped > 1;
    const double span_s = t->spans_s + (more ? t->last_stamp_s - t->first_stamp_s : 0);
    const int64_t steps = t->steps + (more ? t->stamped - 1 : 0);
    return steps && span_s >= RATE_AFTER_S ? (double)steps / span_s : NAN;
}

int64_t lsl_timeline_resume(int64_t next, int64_t first, int64_t most) { return first - next > most ? first - most : next; }
