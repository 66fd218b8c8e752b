#include "detect/timeline_state.h"

#include "windows/recording.h"

enum { FEED_ROWS = 2560 };

int timeline_status(const struct timeline *t, struct err *err) {
    if (t->status && err)
        *err = t->error;
    return t->status;
}

static int add_item(struct timeline *t, struct item item, struct err *err) {
    if (t->n_items >= TIMELINE_QUEUE)
        return err_set(err, ERR_EXHAUSTED, "%d windows wait to be run; run them before sending more", t->n_items);
    t->items[t->n_items++] = item;
    t->n_waiting += item.kind == ITEM_WINDOW;
    return item.kind != ITEM_WINDOW && t->n_items == 1 ? timeline_run_marks(t, err) : 0;
}

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
        item.row = timeline_row_of(t, end - item.valid);
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
    if ((t->suppression && (rc = suppression_finish(t->suppression, err))) || (rc = queue_windows(t, TIMELINE_QUEUE, err)))
        return rc;
    int64_t covered = t->next_record == t->segment ? t->segment : t->next_record - t->hop + t->window;
    if (covered < t->now) {
        struct item item = {.kind = ITEM_WINDOW,
                            .record = true,
                            .start = t->next_record,
                            .valid = t->now - t->next_record,
                            .row = timeline_row_of(t, t->next_record)};
        if ((rc = add_item(t, item, err)))
            return rc;
    }
    t->in_segment = false;
    return add_item(t, (struct item){.kind = ITEM_SEGMENT_END, .start = t->now}, err);
}

int timeline_reserve_rows(struct timeline *t, int64_t n, struct err *err) {
    if (n && t->rows_now - t->rows_first + n <= t->rows_capacity)
        return 0;
    int64_t keep = t->rows_now;
    if (t->in_segment) {
        int64_t sample = t->next_record, oldest = t->alarm_hop ? t->next_alarm - t->window : sample;
        sample = oldest < sample ? oldest : sample;
        sample = sample > t->segment ? sample : t->segment;
        keep = timeline_row_of(t, sample) < keep ? timeline_row_of(t, sample) : keep;
    }
    for (int i = 0; i < t->n_items; i++)
        if (t->items[i].kind == ITEM_WINDOW && !t->items[i].taken && t->items[i].row < keep)
            keep = t->items[i].row;
    if (keep > t->rows_first) {
        memmove(t->rows, t->rows + (keep - t->rows_first) * t->inputs,
                (size_t)((t->rows_now - keep) * t->inputs) * sizeof *t->rows);
        t->rows_first = keep;
    }
    const int64_t kept = t->rows_now - t->rows_first, many = 2 * t->window;
    int64_t wanted = kept + n + (kept > many ? kept / 4 : 0); /* of many rows, so that each is moved a few times at most */
    if (wanted <= t->rows_capacity)
        return 0;
    int64_t capacity =
        wanted + t->window / TIMELINE_SLACK; /* little: there are many streams, and a large block grows without a copy */
    uint16_t *rows = realloc(t->rows, (size_t)(capacity * t->inputs) * sizeof *rows);
    if (!rows)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld samples", (long long)capacity);
    t->rows = rows;
    t->rows_capacity = capacity;
    return 0;
}

/* The inputs of one row: 0 for what belongs to a channel that the recording lacks. */
static void spread_row(const struct timeline *t, const uint16_t *from, uint16_t *to) {
    int whole = t->channels + __builtin_popcountll(t->absent);
    for (int i = 0; i < t->inputs; i++) {
        bool of_channel = i < t->inputs / whole * whole; /* else of all channels */
        to[i] = of_channel && (t->absent >> i % whole & 1) ? 0 : *from++;
    }
}

/* Appends the inputs of n rows, for which there is room. */
static void keep_rows(struct timeline *t, const uint16_t *rows, int64_t n) {
    uint16_t *to = t->rows + (t->rows_now - t->rows_first) * t->inputs;
    const uint16_t *from = rows + (t->columns == t->channels ? 0 : t->channels);
    for (int64_t i = 0; i < n; i++, to += t->inputs, from += t->columns) {
        if (t->absent)
            spread_row(t, from, to);
        else if (t->inputs == 1)
            *to = *from;
        else
            memcpy(to, from, (size_t)t->inputs * sizeof *to);
    }
    t->rows_now += n;
    t->now += n;
}

/* A held sample says nothing about suppression; for windows it is data like others. */
static int push_suppression(struct timeline *t, const uint16_t *rows, int64_t n, int64_t first, bool held, struct err *err) {
    return held ? suppression_finish(t->suppression, err) : suppression_push(t->suppression, rows, n, first, err);
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
        if (t->focus)
            focus_start(t->focus, first);
    }
    if ((rc = timeline_reserve_rows(t, n, err)))
        return rc;
    keep_rows(t, rows, n);
    if ((t->suppression && (rc = push_suppression(t, rows, n, first, held, err))) ||
        (t->contact && (rc = contact_push(t->contact, rows, t->columns, n, err))) ||
        (t->focus && (rc = focus_push(t->focus, rows, t->columns, n, held, err))))
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
    t->absent = file->absent;
    t->columns = frontend_columns(file->frontend.normalize, channels);
    t->channels = channels;
    t->n_state = seizure_state_count(&file->model);
    t->window = modelfile_window(file);
    t->hop = modelfile_hop(file);
    const bool whole = t->n_state || file->model.window > TIMELINE_ALARM_SIGNAL;
    t->alarm_signal[0] = t->alarm_signal[1] = whole ? TIMELINE_ALARM_SIGNAL : file->model.window;
    if (whole && seizure_step(&file->model) && file->frontend.learn_background)
        t->alarm_signal[1] = TIMELINE_ALARM_RETURN;
    t->alarm_hop = options->alarm_hop;
    t->sink = *sink;
    alarm_config_of_events(events, &t->alarm.config);
    if (options->alarms)
        t->alarm.config = *options->alarms;
    t->events = events_new(events, timeline_give_event, t);
    t->sum = calloc((size_t)(2 * t->window), sizeof *t->sum);
    t->count = calloc((size_t)(2 * t->window), sizeof *t->count);
    if (t->n_state)
        t->state = calloc((size_t)t->n_state, sizeof *t->state);
    if (t->alarm_hop > 0 && (t->contact = contact_new(t->channels)))
        contact_tell(t->contact, sink->contact, sink->ctx);
    const bool focuses = frontend_is_feature(file->frontend.normalize) && channels <= FOCUS_CHANNELS;
    t->focus = focuses ? focus_new(channels) : NULL;
    if (!t->events || !t->sum || !t->count || (t->n_state && !t->state) || (t->alarm_hop > 0 && !t->contact) ||
        (focuses && !t->focus))
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for a timeline");
    else if (t->alarm_hop < 0 || (t->alarm_hop && (t->hop % t->alarm_hop || t->alarm_hop > t->window ||
                                                   (seizure_step(&file->model) && t->alarm_hop != t->hop))))
        rc = err_set(err, ERR_INVALID, "alarm hop of %g s; expected %s, %g s", (double)t->alarm_hop / FRONTEND_RATE_HZ,
                     seizure_step(&file->model) ? "that of the model, which decides once in each of its steps"
                                                : "a divisor of the model's hop",
                     (double)t->hop / FRONTEND_RATE_HZ);
    else if (sink->suppression)
        rc = suppression_new(
            t->channels,
            &(struct suppression_sink){
                .ctx = sink->ctx, .report = sink->suppression, .stride = t->columns, .whole_only = sink->suppression_whole},
            &t->suppression, err);
    if (rc)
        timeline_free(t);
    else
        *ret = t;
    return rc;
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
    frontend_show(t->frontend, sink->look, sink->ctx);
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
    focus_free(t->focus);
    FREE_MEMBERS(*t, rows, state, sum, count);
    free(t);
}

int timeline_sources(const struct timeline *t, const int **ret_indices) { return frontend_sources(t->frontend, ret_indices); }

uint64_t timeline_rows_of(const struct timeline *t, int source) { return frontend_rows_of(t->frontend, source); }

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
    return rc ? rc : timeline_keep_status(t, frontend_push(t->frontend, uv, n, err), err);
}

int timeline_gap(struct timeline *t, int64_t missing, struct err *err) {
    struct err own;
    err = err ? err : &own;
    int rc = check_open(t, err);
    return rc ? rc : timeline_keep_status(t, frontend_gap(t->frontend, missing, err), err);
}

static int finish(struct timeline *t, struct err *err) {
    struct err own;
    err = err ? err : &own;
    int rc = 0;
    t->finishing = true;
    if (!t->frontend || !(rc = frontend_finish(t->frontend, err)))
        rc = end_segment(t, err);
    t->finished = true;
    return timeline_keep_status(t, rc, err);
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

/* Push rows of a cached recording until so many windows wait or it ends. */
static int feed(struct timeline *t, int windows, struct err *err) {
    struct err own;
    err = err ? err : &own;
    struct recording_info info;
    recording_info(t->rec, &info);
    int rc = 0;
    while (!rc && t->n_waiting < windows && !t->stalled && t->rec_segment < info.n_segments) {
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
    if (!rc && t->n_waiting < windows && !t->stalled && t->rec_segment == info.n_segments)
        rc = finish(t, err);
    return timeline_keep_status(t, rc, err);
}

bool timeline_ready(struct timeline *t, struct err *err) {
    if (t->rec && !t->status && !t->n_waiting && !t->finished)
        feed(t, 1, err);
    return !t->status && t->n_waiting > 0;
}

static void cut(struct timeline *t, struct item *item, float *x) {
    bool left = item->valid < t->window && item->alarm && !item->record;
    const uint16_t *rows = t->rows + (item->row - t->rows_first) * t->inputs;
    if (t->columns > t->channels)
        window_cut(rows, item->valid, (struct window_columns){t->inputs, t->inputs}, t->window, left, x);
    else
        window_normalise(rows, item->valid, t->inputs, t->window, left, x);
    item->taken = true;
    t->n_waiting--;
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
    cut(t, item, x);
    return true;
}

int timeline_steps(struct timeline *t, int most, bool *ret_last) {
    int n = 0;
    *ret_last = false;
    if (t->rec && !t->status && t->n_waiting < most && !t->finished)
        feed(t, most, NULL);
    if (t->status || (t->n_items && t->items[0].taken))
        return 0;
    while (n < most && n < t->n_items && t->items[n].kind == ITEM_WINDOW)
        n++;
    *ret_last = n < t->n_items && t->items[n].kind == ITEM_SEGMENT_END;
    return n;
}

void timeline_take_steps(struct timeline *t, int n, float *x, int64_t stride) {
    for (int i = 0; i < n; i++)
        cut(t, &t->items[i], x + i * stride);
}

float *timeline_state(struct timeline *t) { return t->state; }

int64_t timeline_waiting(const struct timeline *t) { return t->n_waiting; }

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
    if ((item.alarm && (rc = timeline_complete_alarm(t, &item, p, err))) ||
        (item.record && (rc = timeline_complete_record(t, &item, p, err))) || (rc = timeline_run_marks(t, err)) ||
        (t->stalled && (rc = queue_windows(t, TIMELINE_MAX_PENDING, err))))
        return timeline_keep_status(t, rc, err);
    return timeline_keep_status(t, 0, err);
}

bool timeline_done(const struct timeline *t) { return t->finished && t->n_items == 0; }
int timeline_learning_s(const struct timeline *t) { return t->frontend ? frontend_learning_s(t->frontend) : 0; }
double timeline_learned_s(const struct timeline *t) { return t->frontend ? frontend_learned_s(t->frontend) : 0; }
int64_t timeline_samples(const struct timeline *t) { return t->now; }
int64_t timeline_position(const struct timeline *t) { return frontend_position(t->frontend); }
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
