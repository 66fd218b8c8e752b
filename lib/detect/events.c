#include "detect/events.h"

#include "base/grow.h"
#include "base/order.h"

enum {
    RATE_HZ = 256,
    MAX_RULE_SAMPLES = 3600 * RATE_HZ,
    MAX_RULE_S = 86400,
    MAX_LATCH_S = 3600,
    MAX_LOOKBACK_S = 3600,
    FIND_CHUNK = 65536,
    TRIMMED = 4096, /* samples at least, so that the others are rarely moved */
    BLOCK = 16,     /* samples, of struct events_trace, of which the first one lacks */
    SHIFT = 1,      /* samples: so a feature stays the same in each */
    WIDE = 64 * BLOCK
};

/* Flat morphology on a binary trace is a rule on run lengths. With an odd kernel k = 2r + 1 and samples outside the segment
 * ignored, opening removes runs shorter than k (shorter than r + 1 where they touch the segment's edge), and closing fills gaps
 * shorter than k (up to r at the edge). So the whole chain works on runs and needs the trace only for the confidence. */
struct run {
    bool present;
    bool begun; /* its first part was given out already: it certainly lasts long enough */
    int64_t first, end;
};

struct events {
    struct events_config config;
    events_emit_fn *emit;
    void *ctx;
    float *trace; /* samples [base, now) */
    int64_t base, now, capacity, segment;
    bool on;
    int64_t onset, offset; /* consecutive samples ≥ on while off; < off while on */
    int64_t on_first;      /* first sample of the running on-state */
    bool on_settled;       /* the running on-state follows what was judged already (struct run) */
    bool spans_only;       /* nobody wants the confidence */
    struct run closed;     /* newest run after opening, still open to closing */
    struct run event;      /* newest run after closing and duration, still open to merging */
};

void events_config_default(struct events_config *c) {
    *c = (struct events_config){.on = 0.86,
                                .off = 0.78,
                                .min_onset = 128,
                                .min_offset = 256,
                                .opening = 11,
                                .closing = 31,
                                .min_duration_s = 3,
                                .max_duration_s = 600,
                                .merge_gap_s = 2,
                                .confidence = EVENT_CONFIDENCE_MEAN,
                                .percentile = 0.75};
}

int events_config_check(const struct events_config *c, struct err *err) {
    if (!(c->on > 0 && c->on < 1 && c->off > 0 && c->off <= c->on))
        return err_set(err, ERR_INVALID, "on %g and off %g: expected 0 < off <= on < 1", c->on, c->off);
    const int64_t counts[] = {c->min_onset, c->min_offset, c->opening, c->closing};
    static const char *const names[] = {"min_onset", "min_offset", "opening", "closing"};
    for (int i = 0; i < 4; i++)
        if (counts[i] < 1 || counts[i] > MAX_RULE_SAMPLES)
            return err_set(err, ERR_INVALID, "%s of %lld samples: expected 1 to %d", names[i], (long long)counts[i],
                           MAX_RULE_SAMPLES);
    if (c->opening % 2 == 0 || c->closing % 2 == 0)
        return err_set(err, ERR_INVALID, "opening %lld and closing %lld: expected odd numbers of samples", (long long)c->opening,
                       (long long)c->closing);
    if (!(c->min_duration_s >= 0 && c->min_duration_s <= c->max_duration_s && c->max_duration_s >= 1 &&
          c->max_duration_s <= MAX_RULE_S && c->merge_gap_s >= 0 && c->merge_gap_s <= MAX_RULE_S))
        return err_set(err, ERR_INVALID,
                       "min_duration_s %g, max_duration_s %g, merge_gap_s %g: expected 0 <= minimum <= maximum, maximum 1 to %d, "
                       "gap 0 to %d",
                       c->min_duration_s, c->max_duration_s, c->merge_gap_s, MAX_RULE_S, MAX_RULE_S);
    if (!(c->alarm_latch_s >= 0 && c->alarm_latch_s <= MAX_LATCH_S))
        return err_set(err, ERR_INVALID, "alarm_latch_s %g: expected 0 to %d", c->alarm_latch_s, MAX_LATCH_S);
    if (!(c->lookback_s >= 0 && c->lookback_s <= MAX_LOOKBACK_S))
        return err_set(err, ERR_INVALID, "lookback_s %g: expected 0 to %d", c->lookback_s, MAX_LOOKBACK_S);
    if (!(c->percentile >= 0 && c->percentile <= 1))
        return err_set(err, ERR_INVALID, "percentile %g: expected 0 to 1", c->percentile);
    return 0;
}

int events_config_with(const struct events_config *base, double on, double off, struct events_config *ret, struct err *err) {
    struct events_config c = *base;
    c.on = on != 0 ? on : c.on;
    c.off = off != 0 ? off : fmin(c.off, c.on);
    if (!(c.on > 0 && c.on < 1 && c.off > 0 && c.off <= c.on))
        return err_set(err, ERR_INVALID, "thresholds %g on and %g off (the model's are %g and %g): expected 0 < off <= on < 1",
                       c.on, c.off, base->on, base->off);
    *ret = c;
    return 0;
}

static const char *const confidence_names[] = {"mean", "peak", "percentile"};

#define EVENT_NUMBERS(X)                                                                                                           \
    X(on) X(off) X(min_duration_s) X(max_duration_s) X(merge_gap_s) X(percentile) X(lookback_s) X(alarm_latch_s)
#define EVENT_SAMPLES(X) X(min_onset) X(min_offset) X(opening) X(closing)

void events_config_to_json(const struct events_config *c, struct json_writer *w, const char *key) {
    json_begin_object(w, key);
#define PUT(field) json_put_f64(w, #field, c->field);
    EVENT_NUMBERS(PUT)
#undef PUT
#define PUT(field) json_put_i64(w, #field, c->field);
    EVENT_SAMPLES(PUT)
#undef PUT
    json_put_str(w, "confidence", confidence_names[c->confidence]);
    json_end(w, '}');
}

int events_config_from_json(const struct json *j, struct events_config *ret, struct err *err) {
    struct events_config c;
    events_config_default(&c);
#define GET(field) c.field = json_f64(json_get(j, #field), c.field);
    EVENT_NUMBERS(GET)
#undef GET
#define GET(field) c.field = json_i64(json_get(j, #field), c.field);
    EVENT_SAMPLES(GET)
#undef GET
    const char *confidence = json_str(json_get(j, "confidence"), "mean");
    const int kind = STR_AMONG(confidence, confidence_names);
    if (kind < 0)
        return err_set(err, ERR_INVALID, "events.confidence is '%s'; expected mean, peak or percentile", confidence);
    c.confidence = (enum event_confidence)kind;
    int rc = events_config_check(&c, err);
    if (!rc)
        *ret = c;
    return rc;
}

struct events *events_new(const struct events_config *config, events_emit_fn *emit, void *ctx) {
    struct events *e = calloc(1, sizeof *e);
    if (e)
        *e = (struct events){.config = *config, .emit = emit, .ctx = ctx};
    return e;
}

void events_free(struct events *e) {
    if (!e)
        return;
    free(e->trace);
    free(e);
}

static int64_t samples(double seconds) { return (int64_t)llround(seconds * RATE_HZ); }

static float percentile_of(const float *p, int64_t n, double q) {
    float *sorted = malloc((size_t)n * sizeof *sorted);
    if (!sorted)
        return NAN;
    memcpy(sorted, p, (size_t)n * sizeof *sorted);
    SORT(sorted, n, order_f32s);
    float value = sorted[(int64_t)((double)(n - 1) * q)];
    free(sorted);
    return value;
}

static float confidence_of(const struct events *e, int64_t first, int64_t end) {
    const float *p = e->trace + (first - e->base);
    int64_t n = end - first;
    if (e->config.confidence == EVENT_CONFIDENCE_PERCENTILE)
        return percentile_of(p, n, e->config.percentile);
    double sum = 0, peak = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)p[i];
        peak = fmax(peak, (double)p[i]);
    }
    double value = e->config.confidence == EVENT_CONFIDENCE_PEAK ? peak : sum / (double)n;
    return (float)fmin(fmax(value, 0), 1);
}

/* Gives out a piece of the newest event, or the whole of it. */
static void emit_span(struct events *e, int64_t first, int64_t end) {
    const float confidence = e->spans_only ? 0 : confidence_of(e, first, end);
    const struct event event = {.first = first, .end = end, .confidence = confidence};
    e->event.begun = true;
    e->emit(e->ctx, &event);
}

/* Give out the pieces of the newest event that lie wholly before `known`, longest allowed each. */
static void emit_pieces(struct events *e, int64_t known) {
    int64_t max = samples(e->config.max_duration_s);
    while (known - e->event.first > max) {
        emit_span(e, e->event.first, e->event.first + max);
        e->event.first += max;
    }
}

static void finish_event(struct events *e) {
    if (!e->event.present)
        return;
    emit_pieces(e, e->event.end);
    emit_span(e, e->event.first, e->event.end);
    e->event.present = false;
}

/* Where a run that the hysteresis began at `first` begins: back to where the trace rose to off. It cannot reach the run before,
 * which ends with samples below off. */
static int64_t rise(const struct events *e, int64_t first) {
    int64_t least = first - samples(e->config.lookback_s);
    least = least > e->segment ? least : e->segment;
    while (first > least && (double)e->trace[first - 1 - e->base] >= e->config.off)
        first--;
    return first;
}

/* The closed run is final: duration rule, then merging. */
static void finish_closed(struct events *e) {
    if (!e->closed.present)
        return;
    struct run run = e->closed;
    e->closed.present = false;
    if (!run.begun && run.end - run.first < samples(e->config.min_duration_s))
        return;
    if (e->event.present && run.first - e->event.end <= samples(e->config.merge_gap_s)) {
        e->event.end = run.end;
        return;
    }
    finish_event(e);
    e->event = run;
}

/* A run of the hysteresis ended (or reached the segment's end): opening, then closing. */
static void add_run(struct events *e, int64_t first, int64_t end, bool at_end) {
    bool at_start = first == e->segment; /* runs that touch the edge are judged by half a kernel */
    int64_t least = at_start || at_end ? e->config.opening / 2 + 1 : e->config.opening;
    bool settled = e->on_settled;
    e->on_settled = false;
    if (!settled && end - first < least && !(at_start && at_end))
        return;
    if (e->closed.present && first - e->closed.end < e->config.closing) {
        e->closed.end = end;
        return;
    }
    finish_closed(e);
    bool near_start = first - e->segment <= e->config.closing / 2;
    e->closed = (struct run){true, settled, near_start ? e->segment : rise(e, first), end};
}

/* Settle what nothing later can change. */
static void settle(struct events *e) {
    int64_t next = e->on ? e->on_first : e->now - e->onset; /* no later run starts before this */
    if (e->closed.present && next - e->closed.end >= e->config.closing)
        finish_closed(e);
    if (e->event.present) {
        int64_t coming = e->closed.present ? e->closed.first : rise(e, next);
        if (coming - e->event.end > samples(e->config.merge_gap_s))
            finish_event(e);
    }
    if (!e->closed.present && e->event.present)
        emit_pieces(e, e->event.end);
}

/* The first sample of the trace that an event to come can cover, or the one before, below off, at which its rise ends. */
static int64_t oldest_needed(const struct events *e) {
    const int64_t next = (e->on ? e->on_first : e->now - e->onset) - e->config.closing;
    int64_t keep = next > e->base ? rise(e, next) - 1 : e->base;
    keep = keep > e->base ? keep : e->base;
    if (e->closed.present && e->closed.first < keep)
        keep = e->closed.first;
    return e->event.present && e->event.first < keep ? e->event.first : keep;
}

static void trim(struct events *e) {
    const int64_t keep = oldest_needed(e);
    if (keep - e->base < TRIMMED)
        return;
    memmove(e->trace, e->trace + (keep - e->base), (size_t)(e->now - keep) * sizeof *e->trace);
    e->base = keep;
}

static void hysteresis(struct events *e, float p) {
    const struct events_config *c = &e->config;
    if (!e->on) {
        e->onset = (double)p >= c->on ? e->onset + 1 : 0;
        if (e->onset == c->min_onset) {
            e->on = true;
            e->on_first = e->now + 1 - e->onset;
            e->onset = e->offset = 0;
        }
        return;
    }
    e->offset = (double)p < c->off ? e->offset + 1 : 0;
    if (e->offset < c->min_offset)
        return;
    e->on = false;
    e->offset = e->onset = 0;
    add_run(e, e->on_first, e->now, false);
}

/* A run that goes on for very long: settle its first part, so that memory stays bounded. */
static void settle_long_run(struct events *e) {
    int64_t max = samples(e->config.max_duration_s), length = e->on ? e->now - e->on_first : 0;
    if (length <= 2 * max || length < e->config.opening || length < samples(e->config.min_duration_s))
        return;
    int64_t first = e->on_first;
    bool begun = false;
    if (e->closed.present) { /* settle() left it because the running one is within the closing gap */
        first = e->closed.first;
        begun = e->closed.begun;
        e->closed.present = false;
    } else {
        first = first - e->segment <= e->config.closing / 2 ? e->segment : rise(e, first);
    }
    if (e->event.present && first - e->event.end <= samples(e->config.merge_gap_s)) {
        e->event.end = e->now;
    } else {
        finish_event(e);
        e->event = (struct run){true, begun, first, e->now};
    }
    emit_pieces(e, e->now);
    e->on_first = e->event.first; /* the rest belongs to the run that goes on */
    e->on_settled = true;
    e->closed = (struct run){true, e->event.begun, e->event.first, e->event.first};
    e->event.present = false;
}

int events_push(struct events *e, const float *p, int64_t n, struct err *err) {
    for (int64_t i = 0; i < n; i++)
        if (isnan(p[i]))
            return err_set(err, ERR_INVALID,
                           "probability of sample %lld is not a number; the model's weights or input are not finite",
                           (long long)(e->now + i));
    if (e->now - e->base + n > e->capacity) {
        int64_t capacity = (e->now - e->base + n) * 2;
        float *trace = realloc(e->trace, (size_t)capacity * sizeof *trace);
        if (!trace)
            return err_set(err, ERR_EXHAUSTED, "out of memory for the probability trace");
        e->trace = trace;
        e->capacity = capacity;
    }
    if (n > 0)
        memcpy(e->trace + (e->now - e->base), p, (size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) {
        hysteresis(e, p[i]);
        e->now++;
    }
    settle(e);
    settle_long_run(e);
    trim(e);
    return 0;
}

int events_finish(struct events *e, struct err *err) {
    (void)err;
    if (e->on)
        add_run(e, e->on_first, e->now, true);
    e->on = false;
    e->onset = e->offset = 0;
    if (e->closed.present && e->now - e->closed.end <= e->config.closing / 2)
        e->closed.end = e->now;
    finish_closed(e);
    finish_event(e);
    return 0;
}

int events_break(struct events *e, int64_t next_sample, struct err *err) {
    int rc = events_finish(e, err);
    e->base = e->now = e->segment = next_sample;
    return rc;
}

/* A run's confidence is computed from the trace [base, now). */
static void pack_run(struct run *run, struct packer *p, int64_t base, int64_t now) {
    PACKED_MEMBERS(p, *run, present, begun);
    PACKED(p, run->first, run->present ? base : INT64_MIN, run->present ? now : INT64_MAX);
    PACKED(p, run->end, run->present ? run->first : INT64_MIN, run->present ? now : INT64_MAX);
}

bool events_running(const struct events *e, struct event *ret) {
    int64_t first = e->on ? e->on_first : e->now;
    if (e->closed.present && e->closed.first < first)
        first = e->closed.first;
    if (e->event.present && e->event.first < first)
        first = e->event.first;
    *ret = (struct event){.first = first, .end = e->now, .confidence = NAN};
    return e->now > first && (double)(e->now - first) >= e->config.min_duration_s * RATE_HZ;
}

/* Room for the trace that is read. */
static int reserve_trace(struct events *e, int64_t base, int64_t n, struct err *err) {
    float *trace = realloc(e->trace, (size_t)(n + 1) * sizeof *trace);
    if (!trace)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the probability trace");
    e->trace = trace;
    e->capacity = n + 1;
    e->base = base;
    return 0;
}

int events_pack(struct events *e, struct packer *p, struct err *err) {
    const int64_t far = INT64_C(1) << 53, longest = INT64_C(1) << 28;
    int64_t base = p->to ? oldest_needed(e) : 0;
    PACKED(p, base, 0, far);
    PACKED(p, e->now, base, base + longest);
    PACKED(p, e->segment, 0, e->now);
    PACKED_MEMBERS(p, *e, on);
    PACKED(p, e->onset, 0, e->config.min_onset);
    PACKED(p, e->offset, 0, e->config.min_offset);
    PACKED(p, e->on_first, e->on ? base : INT64_MIN, e->on ? e->now : INT64_MAX);
    PACKED_MEMBERS(p, *e, on_settled);
    pack_run(&e->closed, p, base, e->now);
    pack_run(&e->event, p, base, e->now);
    const int64_t n = p->from.failed ? 0 : e->now - base;
    if (!p->to && reserve_trace(e, base, n, err))
        return ERR_EXHAUSTED;
    packed_bytes(p, e->trace + (base - e->base), (size_t)n * sizeof *e->trace);
    return p->from.failed ? err_set(err, ERR_DATA_LOSS, "the saved state of the event detection is corrupt") : 0;
}

struct collected {
    struct event *items;
    int64_t count, capacity;
    bool failed;
};

static void collect(void *ctx, const struct event *event) {
    struct collected *c = ctx;
    if (GROW(c->items, c->count, c->capacity))
        c->items[c->count++] = *event;
    else
        c->failed = true;
}

/* The events, or what went wrong in finding them. */
static int deliver(struct collected *c, int rc, struct event **ret, int64_t *ret_count, struct err *err) {
    if (rc || (c->failed && (rc = err_set(err, ERR_EXHAUSTED, "out of memory collecting events")))) {
        free(c->items);
        return rc;
    }
    *ret = c->items;
    *ret_count = c->count;
    return 0;
}

int events_find(const struct events_config *config, const float *p, int64_t n, struct event **ret, int64_t *ret_count,
                struct err *err) {
    struct collected c = {0};
    struct events *e = events_new(config, collect, &c);
    int rc = e ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory finding events");
    for (int64_t i = 0; !rc && i < n;) {
        int64_t start = i;
        while (i < n && isnan(p[i]))
            i++;
        if (i > start && (rc = events_break(e, i, err)))
            break;
        for (start = i; i < n && i - start < FIND_CHUNK && !isnan(p[i]);)
            i++;
        rc = events_push(e, p + start, i - start, err);
    }
    rc = rc ? rc : events_finish(e, err);
    events_free(e);
    return deliver(&c, rc, ret, ret_count, err);
}

/* ---- whole traces, under many thresholds ---- */

static struct events_block block_of(const float *p, int64_t n) {
    float lowest = INFINITY, highest = -INFINITY;
    int missing = 0;
#pragma omp simd reduction(min : lowest) reduction(max : highest) reduction(| : missing)
    for (int64_t i = 0; i < n; i++) {
        lowest = p[i] < lowest ? p[i] : lowest;
        highest = p[i] > highest ? p[i] : highest;
        missing |= p[i] != p[i];
    }
    return missing ? (struct events_block){NAN, NAN} : (struct events_block){lowest, highest};
}

static struct events_block join_blocks(const struct events_block *blocks, int64_t n) {
    struct events_block b = blocks[0];
    for (int64_t i = 1; i < n && !isnan(b.lowest); i++)
        b = isnan(blocks[i].lowest) ? blocks[i]
                                    : (struct events_block){fminf(b.lowest, blocks[i].lowest), fmaxf(b.highest, blocks[i].highest)};
    return b;
}

int events_trace_init(struct events_trace *t, const float *p, int64_t n, struct err *err) {
    const int64_t fine = (n + SHIFT + BLOCK - 1) / BLOCK, each = WIDE / BLOCK;
    struct events_block *blocks = malloc((size_t)(fine + fine / each + 1) * sizeof *blocks);
    if (!blocks)
        return err_set(err, ERR_EXHAUSTED, "out of memory finding events");
    for (int64_t i = 0; i < fine; i++) {
        const int64_t first = i ? i * BLOCK - SHIFT : 0, end = (i + 1) * BLOCK - SHIFT;
        blocks[i] = block_of(p + first, (end < n ? end : n) - first);
    }
    for (int64_t i = 0; i < fine; i += each)
        blocks[fine + i / each] = join_blocks(blocks + i, fine - i < each ? fine - i : each);
    *t = (struct events_trace){p, n, blocks, blocks + fine};
    return 0;
}

void events_trace_done(struct events_trace *t) {
    free(t->blocks);
    *t = (struct events_trace){0};
}

/* Takes those of n samples of a block that do no more than count for the next change, or do not; how many: 0 if the first one may
 * do more. Comparisons with NaN are false. */
static int64_t pass_block(struct events *e, const struct events_block *b, int64_t n) {
    const struct events_config *c = &e->config;
    int64_t *count = e->on ? &e->offset : &e->onset;
    const int64_t left = (e->on ? c->min_offset : c->min_onset) - *count - 1;
    const bool none = e->on ? (double)b->lowest >= c->off : (double)b->highest < c->on;
    const bool all = left > 0 && (e->on ? (double)b->highest < c->off : (double)b->lowest >= c->on);
    if (!none && !all)
        return 0;
    const int64_t passed = none || n < left ? n : left;
    *count = none ? 0 : *count + passed;
    e->now += passed;
    return passed;
}

int events_find_spans(const struct events_config *config, const struct events_trace *trace, struct event **ret, int64_t *ret_count,
                      struct err *err) {
    struct collected c = {0};
    struct events e = {.config = *config, .emit = collect, .ctx = &c, .trace = (float *)(uintptr_t)trace->p, .spans_only = true};
    for (int64_t at = 0; at < trace->n;) {
        const int64_t place = at + SHIFT, left = trace->n - at, block = BLOCK - place % BLOCK;
        const int64_t end = at + (left < block ? left : block);
        int64_t passed = place % WIDE ? 0 : pass_block(&e, &trace->wide[place / WIDE], left < WIDE ? left : WIDE);
        passed = passed ? passed : pass_block(&e, &trace->blocks[place / BLOCK], end - at);
        at += passed;
        for (const bool on = e.on; !passed && at < end && e.on == on; at++) {
            if (isnan(trace->p[at])) {
                events_finish(&e, NULL);
                e.now = e.segment = at + 1;
                continue;
            }
            hysteresis(&e, trace->p[at]);
            e.now++;
        }
    }
    events_finish(&e, NULL);
    return deliver(&c, 0, ret, ret_count, err);
}
