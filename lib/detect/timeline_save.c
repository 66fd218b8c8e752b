/* Snapshots of a timeline. */

#include "detect/timeline_state.h"

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

static void save_alarms(const struct timeline *t, struct str *out) {
    pack_i64(out, t->alarm.age);
    for (int i = 0; i < t->n_items; i++)
        pack_i64(out, t->items[i].deaf);
    if (t->contact)
        contact_save(t->contact, out);
    pack_i64(out, t->deaf_end);
    if (t->focus)
        focus_save(t->focus, out);
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
    int rc = timeline_reserve_rows(t, 0, err); /* drops the rows that no window needs */
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
    t->rows_capacity = n + t->window / TIMELINE_SLACK;
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
    t->finished = t->finishing = unpack_bool(in);
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
    unpack_require(in, !t->in_segment || (timeline_row_of(t, t->now) == t->rows_now && t->now >= t->segment &&
                                          t->next_record >= t->segment && timeline_row_of(t, t->next_record) >= t->rows_first));
    int64_t emitted = t->emitted;
    for (int64_t n = unpack_i64(in, 0, TIMELINE_QUEUE); !rc && n > 0 && !in->failed; n--)
        load_item(t, in, &emitted);
    int64_t n = unpack_i64(in, 0, 2 * t->window);
    unpack_bytes(in, t->sum, (size_t)n * sizeof *t->sum);
    unpack_bytes(in, t->count, (size_t)n * sizeof *t->count);
    if (t->state)
        unpack_bytes(in, t->state, (size_t)t->n_state * sizeof *t->state);
    return rc;
}

static int load_alarms(struct timeline *t, struct unpack *in, struct err *err) {
    t->alarm.age = unpack_i64(in, 0, t->alarm.active ? t->alarm.config.latch : 0);
    for (int i = 0; i < t->n_items; i++)
        t->items[i].deaf = unpack_bool(in);
    int rc = t->contact ? contact_load(t->contact, in, err) : 0;
    t->deaf_end = unpack_i64(in, 0, INT64_C(1) << 60);
    if (t->focus && !focus_load(t->focus, in)) /* a state of an earlier version */
        focus_start(t->focus, t->now);
    return rc;
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

bool timeline_save_background(const struct timeline *t, struct str *out) {
    pack_i64(out, t->rows_now < TIMELINE_ALARM_SIGNAL ? t->rows_now : TIMELINE_ALARM_SIGNAL);
    return t->frontend && frontend_save_background(t->frontend, out);
}

/* The rows of the other stream count as rows received, which may_alarm asks for. */
bool timeline_load_background(struct timeline *t, struct unpack *in, double gap_s) {
    t->rows_first = t->rows_now = t->segment_row = unpack_i64(in, 0, TIMELINE_ALARM_SIGNAL);
    return frontend_load_background(t->frontend, in, gap_s);
}

int timeline_load(struct timeline *t, struct unpack *in, struct err *err) {
    struct err own;
    err = err ? err : &own;
    return timeline_keep_status(t, load_parts(t, in, err), err);
}
