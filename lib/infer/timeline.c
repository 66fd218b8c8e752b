#include "infer/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "data/recording.h"
#include "infer/contact.h"

/* The queue has room beyond its limit for what the end of a segment adds: the resampler's tail, a padded window, marks. */
enum { FEED_ROWS = 2560, QUEUE_SIZE = TIMELINE_MAX_PENDING + 64, SLACK = 8 };

/* Events in order: windows to be run, and marks that take effect when all windows before them are done. */
enum item_kind { ITEM_WINDOW, ITEM_SEGMENT_START, ITEM_SEGMENT_END };
struct item {
    enum item_kind kind;
    bool record, alarm, taken; /* window: which traces it serves */
    bool deaf;                 /* alarm window: too many channels have no usable signal */
    int64_t start;             /* window: first sample (may lie before the segment when left-padded); marks: the sample */
    int64_t valid, row;        /* window: samples of the segment in it, and where they begin among all rows ever received */
};

struct timeline {
    int channels, inputs, columns; /* of the montage; of the network; of a row that arrives */
    int64_t window, hop, alarm_hop;
    int64_t alarm_signal;      /* samples of a segment without which no alarm is given */
    struct frontend *frontend; /* NULL for a cached recording */
    const struct recording *rec;
    int rec_segment;
    int64_t rec_at;
    struct timeline_sink sink;
    struct events *events;
    struct suppression *suppression; /* NULL: the sink has no use for it */
    struct alarm_rule alarm;
    struct contact *contact; /* NULL: no alarm trace */
    int status;
    struct err error;

    bool in_segment, finished;
    int64_t segment, now;            /* present segment's first sample; one past the newest sample */
    int64_t next_record, next_alarm; /* next window start of the grid; next end of an alarm window */
    uint16_t *rows;                  /* the inputs of rows [rows_first, rows_now) of all rows ever received; gaps have none */
    int64_t rows_first, rows_now, rows_capacity;
    int64_t segment_row; /* row of the segment's first sample */

    struct item items[QUEUE_SIZE];
    int n_items, n_waiting;
    float *state; /* of a model that carries one: after the steps completed so far of the present segment */
    int64_t n_state;
    bool stalled;        /* rows are here whose windows wait for room in the queue */
    float *sum;          /* record trace under construction: sums over [emitted, emitted + 2·window) */
    uint16_t *count;     /* of windows in each sum */
    int64_t emitted;     /* samples before this were given out */
    int64_t segment_out; /* first sample of the segment that is being given out */
    int64_t windows;
};

/* err is never NULL: the text is kept for timeline_status even when the caller did not want it. */
static int keep_status(struct timeline *t, int rc, struct err *err) {
    if (rc && !t->status) {
        t->status = rc;
        t->error = *err;
    }
    return rc;
}

int timeline_status(const struct timeline *t, struct err *err) {
    if (t->status && err)
        *err = t->error;
    return t->status;
}

static void on_event(void *ctx, const struct event *event) {
    struct timeline *t = ctx;
    struct err err = {0};
    if (!t->status && t->sink.event)
        keep_status(t, t->sink.event(t->sink.ctx, event, &err), &err);
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
    const struct timeline_alarm off = {ALARM_OFF, sample, sample, NAN};
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

/* Marks at the head of the queue take effect. */
static int run_marks(struct timeline *t, struct err *err) {
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

static int add_item(struct timeline *t, struct item item, struct err *err) {
    if (t->n_items >= QUEUE_SIZE)
        return err_set(err, ERR_EXHAUSTED, "%d windows wait to be run; run them before sending more", t->n_items);
    t->items[t->n_items++] = item;
    t->n_waiting += item.kind == ITEM_WINDOW;
    return item.kind != ITEM_WINDOW && t->n_items == 1 ? run_marks(t, err) : 0;
}

/* Row of a sample of the present segment. */
static int64_t row_of(const struct timeline *t, int64_t sample) { return t->segment_row + sample - t->segment; }

/* Queue the windows that the samples up to `now` complete, in order of their end, as long as the queue is shorter than limit. */
static int queue_windows(struct timeline *t, int limit, struct err *err) {
    int rc = 0;
    t->stalled = false;
    while (!rc && t->in_segment) {
        int64_t record_end = t->next_record + t->window, alarm_end = t->alarm_hop ? t->next_alarm : INT64_MAX;
        int64_t end = record_end < alarm_end ? record_end : alarm_end;
        if (end > t->now)
            return 0;
        if (t->n_items >= limit) {
            t->stalled = true;
            return 0;
        }
        struct item item = {.kind = ITEM_WINDOW, .record = record_end == end, .alarm = alarm_end == end, .start = end - t->window};
        item.valid = item.start < t->segment ? end - t->segment : t->window;
        item.row = row_of(t, end - item.valid);
        item.deaf = item.alarm && contact_bad(t->contact, end);
        if ((rc = add_item(t, item, err)))
            return rc;
        if (item.record)
            t->next_record += t->hop;
        if (item.alarm)
            t->next_alarm += t->alarm_hop;
    }
    return rc;
}

/* The grid's last, padded window, and the end of the segment. */
static int end_segment(struct timeline *t, struct err *err) {
    int rc;
    if (!t->in_segment)
        return 0;
    if ((t->suppression && (rc = suppression_finish(t->suppression, err))) || (rc = queue_windows(t, QUEUE_SIZE, err)))
        return rc;
    int64_t covered = t->next_record == t->segment ? t->segment : t->next_record - t->hop + t->window;
    if (covered < t->now) {
        struct item item = {.kind = ITEM_WINDOW,
                            .record = true,
                            .start = t->next_record,
                            .valid = t->now - t->next_record,
                            .row = row_of(t, t->next_record)};
        if ((rc = add_item(t, item, err)))
            return rc;
    }
    t->in_segment = false;
    return add_item(t, (struct item){.kind = ITEM_SEGMENT_END, .start = t->now}, err);
}

/* Make room for n more rows: drop those that no waiting or coming window needs, then grow. */
static int reserve_rows(struct timeline *t, int64_t n, struct err *err) {
    int64_t keep = t->rows_now;
    if (t->in_segment) {
        int64_t sample = t->next_record, oldest = t->alarm_hop ? t->next_alarm - t->window : sample;
        sample = oldest < sample ? oldest : sample;
        sample = sample > t->segment ? sample : t->segment;
        keep = row_of(t, sample) < keep ? row_of(t, sample) : keep;
    }
    for (int i = 0; i < t->n_items; i++)
        if (t->items[i].kind == ITEM_WINDOW && !t->items[i].taken && t->items[i].row < keep)
            keep = t->items[i].row;
    if (keep > t->rows_first) {
        memmove(t->rows, t->rows + (keep - t->rows_first) * t->inputs,
                (size_t)((t->rows_now - keep) * t->inputs) * sizeof *t->rows);
        t->rows_first = keep;
    }
    int64_t wanted = t->rows_now - t->rows_first + n;
    if (wanted <= t->rows_capacity)
        return 0;
    int64_t capacity = wanted + t->window / SLACK; /* little: there are many streams, and a large block grows without a copy */
    uint16_t *rows = realloc(t->rows, (size_t)(capacity * t->inputs) * sizeof *rows);
    if (!rows)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld samples", (long long)capacity);
    t->rows = rows;
    t->rows_capacity = capacity;
    return 0;
}

/* Appends the inputs of n rows, for which there is room. */
static void keep_rows(struct timeline *t, const uint16_t *rows, int64_t n) {
    uint16_t *to = t->rows + (t->rows_now - t->rows_first) * t->inputs;
    const uint16_t *from = rows + t->columns - t->inputs;
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * t->inputs, from + i * t->columns, (size_t)t->inputs * sizeof *to);
    t->rows_now += n;
    t->now += n;
}

/* A held sample says nothing about suppression; for windows it is data like others. */
static int push_suppression(struct timeline *t, const uint16_t *rows, int64_t n, int64_t first, bool held, struct err *err) {
    int rc = 0;
    if (held)
        return suppression_finish(t->suppression, err);
    if (t->columns == t->channels)
        return suppression_push(t->suppression, rows, n, first, err);
    for (int64_t i = 0; i < n; i++)
        if ((rc = suppression_push(t->suppression, rows + i * t->columns, 1, first + i, err)))
            return rc;
    return 0;
}

/* frontend_sink_fn */
static int on_rows(void *ctx, const uint16_t *rows, int64_t n, int64_t first, bool segment_start, bool held, struct err *err) {
    struct timeline *t = ctx;
    int rc = 0;
    if (segment_start) {
        if ((rc = end_segment(t, err)) || (rc = add_item(t, (struct item){.kind = ITEM_SEGMENT_START, .start = first}, err)))
            return rc;
        t->now = t->segment = t->next_record = first;
        t->segment_row = t->rows_now;
        t->next_alarm = first + t->alarm_hop;
        t->in_segment = true;
        if (t->contact)
            contact_start(t->contact, first);
    }
    if ((rc = reserve_rows(t, n, err)))
        return rc;
    keep_rows(t, rows, n);
    if ((t->suppression && (rc = push_suppression(t, rows, n, first, held, err))) ||
        (t->contact && (rc = contact_push(t->contact, rows, t->columns, n, err))))
        return rc;
    return queue_windows(t, TIMELINE_MAX_PENDING, err);
}

static int make(const struct modelfile *file, const struct timeline_options *options, const struct timeline_sink *sink,
                struct timeline **ret, struct err *err) {
    const struct events_config *events = options->events ? options->events : &file->events;
    int channels = 0, rc = montage_channels(file->frontend.montage, NULL, &channels, err);
    if (rc)
        return rc;
    struct timeline *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a timeline");
    t->inputs = file->model.in_channels;
    t->columns = frontend_columns(file->frontend.normalize, channels);
    t->channels = channels;
    t->n_state = seizure_state_count(&file->model);
    t->window = modelfile_window(file);
    t->hop = modelfile_hop(file);
    t->alarm_signal = t->n_state || file->model.window > TIMELINE_ALARM_SIGNAL ? TIMELINE_ALARM_SIGNAL : file->model.window;
    t->alarm_hop = options->alarm_hop;
    t->sink = *sink;
    alarm_config_of_events(events, &t->alarm.config);
    if (options->alarms)
        t->alarm.config = *options->alarms;
    t->events = events_new(events, on_event, t);
    t->sum = calloc((size_t)(2 * t->window), sizeof *t->sum);
    t->count = calloc((size_t)(2 * t->window), sizeof *t->count);
    if (t->n_state)
        t->state = calloc((size_t)t->n_state, sizeof *t->state);
    if (t->alarm_hop > 0)
        t->contact = contact_new(t->channels);
    if (!t->events || !t->sum || !t->count || (t->n_state && !t->state) || (t->alarm_hop > 0 && !t->contact))
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for a timeline");
    else if (t->alarm_hop < 0 || (t->alarm_hop && (t->hop % t->alarm_hop || t->alarm_hop > t->window ||
                                                   (seizure_step(&file->model) && t->alarm_hop != t->hop))))
        rc = err_set(err, ERR_INVALID, "alarm hop of %g s; expected a divisor of the model's hop, %g s",
                     (double)t->alarm_hop / FRONTEND_RATE_HZ, (double)t->hop / FRONTEND_RATE_HZ);
    else if (sink->suppression)
        rc = suppression_new(t->channels, &(struct suppression_sink){.ctx = sink->ctx, .report = sink->suppression},
                             &t->suppression, err);
    if (rc) {
        timeline_free(t);
        return rc;
    }
    *ret = t;
    return 0;
}

int timeline_new(const struct modelfile *file, const struct frontend_source *source, const struct timeline_options *options,
                 const struct timeline_sink *sink, struct timeline **ret, struct frontend_report *report, struct err *err) {
    struct timeline *t = NULL;
    int rc;
    if ((rc = make(file, options, sink, &t, err)) ||
        (rc = frontend_new(&file->frontend, source, on_rows, t, &t->frontend, report, err))) {
        timeline_free(t);
        return rc;
    }
    *ret = t;
    return 0;
}

int timeline_new_cached(const struct modelfile *file, const struct recording *rec, const struct timeline_options *options,
                        const struct timeline_sink *sink, struct timeline **ret, struct err *err) {
    struct timeline *t = NULL;
    struct recording_info info;
    recording_info(rec, &info);
    int rc;
    if ((rc = make(file, options, sink, &t, err)) ||
        ((info.channels != t->channels || info.columns != t->columns) &&
         (rc = err_set(err, ERR_INVALID, "the recording has %d channels in %d columns; the model needs %d in %d", info.channels,
                       info.columns, t->channels, t->columns)))) {
        timeline_free(t);
        return rc;
    }
    t->rec = rec;
    *ret = t;
    return 0;
}

void timeline_free(struct timeline *t) {
    if (!t)
        return;
    frontend_free(t->frontend);
    events_free(t->events);
    suppression_free(t->suppression);
    contact_free(t->contact);
    free(t->rows);
    free(t->state);
    free(t->sum);
    free(t->count);
    free(t);
}

int timeline_sources(const struct timeline *t, const int **ret_indices) { return frontend_sources(t->frontend, ret_indices); }

/* Checks that the source may continue. On an error nothing changes. */
static int check_open(const struct timeline *t, struct err *err) {
    if (t->status)
        return timeline_status(t, err);
    if (t->finished || !t->frontend)
        return err_set(err, ERR_PRECONDITION, t->finished ? "the source was ended" : "a cached recording feeds itself");
    if (t->stalled || t->n_items > TIMELINE_MAX_PENDING)
        return err_set(err, ERR_EXHAUSTED, "more than %d windows wait to be run; run them before sending more",
                       TIMELINE_MAX_PENDING);
    return 0;
}

int timeline_push(struct timeline *t, const float *const *uv, int64_t n, struct err *err) {
    struct err own;
    err = err ? err : &own;
    int rc = check_open(t, err);
    return rc ? rc : keep_status(t, frontend_push(t->frontend, uv, n, err), err);
}

int timeline_gap(struct timeline *t, int64_t missing, struct err *err) {
    struct err own;
    err = err ? err : &own;
    int rc = check_open(t, err);
    return rc ? rc : keep_status(t, frontend_gap(t->frontend, missing, err), err);
}

static int finish(struct timeline *t, struct err *err) {
    struct err own;
    err = err ? err : &own;
    int rc = 0;
    if (!t->frontend || !(rc = frontend_finish(t->frontend, err)))
        rc = end_segment(t, err);
    t->finished = true;
    return keep_status(t, rc, err);
}

int timeline_finish(struct timeline *t, struct err *err) {
    if (t->finished && !t->status)
        return 0;
    int rc = check_open(t, err);
    return rc ? rc : finish(t, err);
}

/* How many of the n rows from sample `at` on are alike: held over a short gap, or not. */
static int64_t alike(const struct recording_info *info, int64_t at, int64_t n, bool *ret_held) {
    *ret_held = false;
    for (int i = 0; i < info->n_held; i++) {
        const struct window_span *held = &info->held[i];
        if (held->end <= at)
            continue;
        *ret_held = held->first <= at;
        int64_t border = *ret_held ? held->end : held->first;
        return border - at < n ? border - at : n;
    }
    return n;
}

/* Push rows of a cached recording until a window waits or it ends. */
static int feed(struct timeline *t, struct err *err) {
    struct err own;
    err = err ? err : &own;
    struct recording_info info;
    recording_info(t->rec, &info);
    int rc = 0;
    while (!rc && !t->n_waiting && !t->stalled && t->rec_segment < info.n_segments) {
        const struct window_span *seg = &info.segments[t->rec_segment];
        bool start = t->rec_at < seg->first;
        int64_t at = start ? seg->first : t->rec_at, n = seg->end - at < FEED_ROWS ? seg->end - at : FEED_ROWS;
        bool held;
        start = at == seg->first;
        n = alike(&info, at, n, &held);
        rc = on_rows(t, recording_rows(t->rec, t->rec_segment, at), n, at, start, held, err);
        t->rec_at = at + n;
        if (t->rec_at == seg->end)
            t->rec_segment++;
    }
    if (!rc && !t->n_waiting && !t->stalled && t->rec_segment == info.n_segments)
        rc = finish(t, err);
    return keep_status(t, rc, err);
}

bool timeline_ready(struct timeline *t, struct err *err) {
    if (t->rec && !t->status && !t->n_waiting && !t->finished)
        feed(t, err);
    return !t->status && t->n_waiting > 0;
}

bool timeline_take(struct timeline *t, float *x) {
    struct err err = {0};
    if (!timeline_ready(t, &err))
        return false;
    struct item *item = t->items;
    if (t->state && item->taken)
        return false;
    while (item->kind != ITEM_WINDOW || item->taken)
        item++;
    bool left = item->valid < t->window && item->alarm && !item->record;
    const uint16_t *rows = t->rows + (item->row - t->rows_first) * t->inputs;
    if (t->columns > t->channels)
        window_cut(rows, item->valid, (struct window_columns){t->inputs, t->inputs}, t->window, left, x);
    else
        window_normalise(rows, item->valid, t->channels, t->window, left, x);
    item->taken = true;
    t->n_waiting--;
    return true;
}

float *timeline_state(struct timeline *t) { return t->state; }

int64_t timeline_waiting(const struct timeline *t) { return t->n_waiting; }

/* The rule takes n samples of the alarm trace that ends at `known`; NULL: zeros. */
static int judge(struct timeline *t, int64_t known, const float *p, int64_t n, struct err *err) {
    int64_t first = known - n;
    int rc = t->sink.judged ? t->sink.judged(t->sink.ctx, first, p, n, err) : 0;
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++) {
        float taken = p ? p[i] : 0;
        int change = alarm_rule_push(&t->alarm, taken);
        const struct timeline_alarm alarm = {change > 0 ? ALARM_ON : ALARM_OFF, first + i, known, taken};
        if (change && t->sink.alarm && (rc = t->sink.alarm(t->sink.ctx, &alarm, err)))
            return rc;
    }
    return 0;
}

static int complete_alarm(struct timeline *t, const struct item *item, const float *p, struct err *err) {
    int64_t end = item->start + t->window, first = end - t->alarm_hop;
    const float *newest = p + t->window - t->alarm_hop;
    int rc = t->sink.provisional ? t->sink.provisional(t->sink.ctx, first, newest, t->alarm_hop, err) : 0;
    if (rc || end - t->segment_out < t->alarm_signal)
        return rc;
    return judge(t, end, item->deaf ? NULL : newest, t->alarm_hop, err);
}

static int complete_record(struct timeline *t, const struct item *item, const float *p, struct err *err) {
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

int timeline_complete(struct timeline *t, const float *p, struct err *err) {
    struct err own;
    err = err ? err : &own;
    if (t->status)
        return timeline_status(t, err);
    if (!t->n_items || !t->items[0].taken)
        return err_set(err, ERR_PRECONDITION, "no window was taken");
    struct item item = t->items[0];
    t->n_items--;
    memmove(t->items, t->items + 1, (size_t)t->n_items * sizeof *t->items);
    t->windows++;
    int rc = 0;
    if ((item.alarm && (rc = complete_alarm(t, &item, p, err))) || (item.record && (rc = complete_record(t, &item, p, err))) ||
        (rc = run_marks(t, err)) || (t->stalled && (rc = queue_windows(t, TIMELINE_MAX_PENDING, err))))
        return keep_status(t, rc, err);
    return keep_status(t, 0, err);
}

bool timeline_done(const struct timeline *t) { return t->finished && t->n_items == 0; }
int64_t timeline_samples(const struct timeline *t) { return t->now; }
int64_t timeline_windows(const struct timeline *t) { return t->windows; }

void timeline_mislabelled(const struct timeline *t, char *ret, size_t size) {
    if (t->frontend)
        frontend_loops_close(t->frontend, ret, size);
    else
        str_copy(ret, size, recording_mislabelled(t->rec));
}

void timeline_suppression(const struct timeline *t, struct suppression_totals *ret) {
    *ret = (struct suppression_totals){0};
    if (t->suppression)
        suppression_totals(t->suppression, ret);
}

/* ---- snapshots ---- */

/* Samples of the record trace under construction that some window has covered. */
static int64_t covered(const struct timeline *t) {
    int64_t n = 2 * t->window;
    while (n > 0 && !t->count[n - 1])
        n--;
    return n;
}

static void save_items(const struct timeline *t, struct str *out) {
    pack_i64(out, t->n_items);
    for (int i = 0; i < t->n_items; i++) {
        const struct item *item = &t->items[i];
        pack_i64(out, item->kind);
        pack_i64(out, item->record);
        pack_i64(out, item->alarm);
        pack_i64(out, item->start);
        pack_i64(out, item->valid);
        pack_i64(out, item->row);
    }
}

/* The last part, which snapshots of earlier versions do not have. */
static void save_alarms(const struct timeline *t, struct str *out) {
    pack_i64(out, t->alarm.age);
    for (int i = 0; i < t->n_items; i++)
        pack_i64(out, t->items[i].deaf);
    if (t->contact)
        contact_save(t->contact, out);
}

int timeline_save(struct timeline *t, struct str *out, struct err *err) {
    if (t->status)
        return timeline_status(t, err);
    int waiting = 0;
    for (int i = 0; i < t->n_items; i++)
        waiting += t->items[i].kind == ITEM_WINDOW;
    if (!t->frontend || waiting != t->n_waiting)
        return err_set(err, ERR_PRECONDITION, "%s",
                       t->frontend ? "a window was taken and not completed" : "a cached recording has no state to save");
    int rc = reserve_rows(t, 0, err); /* drops the rows that no window needs */
    if (rc)
        return rc;
    const int64_t numbers[] = {t->inputs,  t->window,      t->hop,         t->alarm_hop,  t->in_segment,  t->finished,
                               t->segment, t->now,         t->next_record, t->next_alarm, t->segment_row, t->stalled,
                               t->emitted, t->segment_out, t->windows,     t->alarm.run,  t->alarm.active};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        pack_i64(out, numbers[i]);
    pack_i64(out, t->rows_first);
    pack_i64(out, t->rows_now);
    pack_bytes(out, t->rows, (size_t)((t->rows_now - t->rows_first) * t->inputs) * sizeof *t->rows);
    save_items(t, out);
    int64_t n = covered(t);
    pack_i64(out, n);
    pack_bytes(out, t->sum, (size_t)n * sizeof *t->sum);
    pack_bytes(out, t->count, (size_t)n * sizeof *t->count);
    if (t->state)
        pack_bytes(out, t->state, (size_t)t->n_state * sizeof *t->state);
    events_save(t->events, out);
    pack_i64(out, t->suppression != NULL);
    if (t->suppression)
        suppression_save(t->suppression, out);
    if (!(rc = frontend_save(t->frontend, out, err)))
        save_alarms(t, out);
    return !rc && !str_ok(out) ? err_set(err, ERR_EXHAUSTED, "out of memory for the snapshot of a timeline") : rc;
}

/* One queued item. *emitted follows the record trace as the items before it will move it, so that no sum lies outside its array. */
static void load_item(struct timeline *t, struct unpack *in, int64_t *emitted) {
    const int64_t far = INT64_C(1) << 60;
    struct item item = {.kind = (enum item_kind)unpack_i64(in, ITEM_WINDOW, ITEM_SEGMENT_END)};
    bool window = item.kind == ITEM_WINDOW;
    item.record = unpack_bool(in);
    item.alarm = unpack_bool(in);
    item.start = unpack_i64(in, -t->window, far);
    item.valid = unpack_i64(in, window, window ? t->window : 0);
    item.row = unpack_i64(in, window ? t->rows_first : 0, window ? t->rows_now - item.valid : 0);
    int64_t end = window ? item.start + item.valid : item.start;
    if (item.kind != ITEM_SEGMENT_START && (item.record || !window))
        unpack_require(in, end >= *emitted && end <= *emitted + 2 * t->window && (!window || item.start >= *emitted));
    if (!window)
        *emitted = item.start;
    else if (item.record && item.valid == t->window)
        *emitted = item.start + t->hop;
    t->items[t->n_items++] = item;
    t->n_waiting += window;
}

static int load_rows(struct timeline *t, struct unpack *in, struct err *err) {
    const int64_t far = INT64_C(1) << 60;
    t->rows_first = unpack_i64(in, 0, far);
    t->rows_now = unpack_i64(in, t->rows_first, t->rows_first + (int64_t)(in->left / sizeof *t->rows));
    int64_t n = t->rows_now - t->rows_first;
    unpack_require(in, n <= (int64_t)(in->left / sizeof *t->rows) / t->inputs);
    if (in->failed)
        return 0;
    t->rows_capacity = n + t->window / SLACK;
    t->rows = calloc((size_t)(t->rows_capacity * t->inputs), sizeof *t->rows);
    if (!t->rows)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld samples", (long long)t->rows_capacity);
    unpack_bytes(in, t->rows, (size_t)(n * t->inputs) * sizeof *t->rows);
    return 0;
}

static int load_state(struct timeline *t, struct unpack *in, struct err *err) {
    const int64_t far = INT64_C(1) << 60;
    unpack_same(in, t->inputs);
    unpack_same(in, t->window);
    unpack_same(in, t->hop);
    unpack_same(in, t->alarm_hop);
    t->in_segment = unpack_bool(in);
    t->finished = unpack_bool(in);
    int64_t *const numbers[] = {&t->segment, &t->now, &t->next_record, &t->next_alarm, &t->segment_row};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i] = unpack_i64(in, 0, far);
    t->stalled = unpack_bool(in);
    t->emitted = unpack_i64(in, 0, far);
    t->segment_out = unpack_i64(in, 0, far);
    t->windows = unpack_i64(in, 0, far);
    t->alarm.run = unpack_i64(in, 0, far);
    t->alarm.active = unpack_bool(in);
    int rc = load_rows(t, in, err);
    unpack_require(in, !t->in_segment || (row_of(t, t->now) == t->rows_now && t->now >= t->segment &&
                                          t->next_record >= t->segment && row_of(t, t->next_record) >= t->rows_first));
    int64_t emitted = t->emitted;
    for (int64_t n = unpack_i64(in, 0, QUEUE_SIZE); !rc && n > 0 && !in->failed; n--)
        load_item(t, in, &emitted);
    int64_t n = unpack_i64(in, 0, 2 * t->window);
    unpack_bytes(in, t->sum, (size_t)n * sizeof *t->sum);
    unpack_bytes(in, t->count, (size_t)n * sizeof *t->count);
    if (t->state)
        unpack_bytes(in, t->state, (size_t)t->n_state * sizeof *t->state);
    return rc;
}

static int load_alarms(struct timeline *t, struct unpack *in, struct err *err) {
    bool older = !in->left;
    if (older && t->contact && t->in_segment) {
        contact_start(t->contact, t->segment);
        contact_skip(t->contact, t->now);
    }
    if (older)
        return 0;
    t->alarm.age = unpack_i64(in, 0, t->alarm.active ? t->alarm.config.latch : 0);
    for (int i = 0; i < t->n_items; i++)
        t->items[i].deaf = unpack_bool(in);
    return t->contact ? contact_load(t->contact, in, err) : 0;
}

static int load_parts(struct timeline *t, struct unpack *in, struct err *err) {
    int rc;
    if (!t->frontend)
        return err_set(err, ERR_PRECONDITION, "a cached recording has no state to load");
    if ((rc = load_state(t, in, err)) || (rc = events_load(t->events, in, err)))
        return rc;
    unpack_same(in, t->suppression != NULL);
    if ((t->suppression && (rc = suppression_load(t->suppression, in, err))) || (rc = frontend_load(t->frontend, in, err)) ||
        (!in->failed && (rc = load_alarms(t, in, err))))
        return rc;
    return in->failed ? err_set(err, ERR_DATA_LOSS, "the snapshot is corrupt or of another model, source or options") : 0;
}

int timeline_load(struct timeline *t, struct unpack *in, struct err *err) {
    struct err own;
    err = err ? err : &own;
    return keep_status(t, load_parts(t, in, err), err);
}
