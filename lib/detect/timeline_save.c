/* Snapshots of a timeline. */

#include "detect/timeline_state.h"

/* Samples of the record trace under construction that some window has covered. */
static int64_t covered(const struct timeline *t) {
    int64_t n = 2 * t->window;
    while (n > 0 && !t->count[n - 1])
        n--;
    return n;
}

/* One queued item. *emitted follows the record trace as the items before it will move it, so that no sum lies outside its array. */
static void pack_item(struct timeline *t, struct item *item, struct packer *p, int64_t *emitted) {
    PACKED(p, item->kind, ITEM_WINDOW, ITEM_SEGMENT_END);
    const bool window = item->kind == ITEM_WINDOW;
    PACKED_MEMBERS(p, *item, record, alarm);
    PACKED(p, item->start, -t->window, PACKED_FAR);
    PACKED(p, item->valid, window, window ? t->window : 0);
    PACKED(p, item->row, window ? t->rows_first : 0, window ? t->rows_now - item->valid : 0);
    const int64_t end = window ? item->start + item->valid : item->start;
    if (item->kind != ITEM_SEGMENT_START && (item->record || !window))
        packed_require(p, end >= *emitted && end <= *emitted + 2 * t->window && (!window || item->start >= *emitted));
    if (!window)
        *emitted = item->start;
    else if (item->record && item->valid == t->window)
        *emitted = item->start + t->hop;
    t->n_waiting += window;
}

static void pack_items(struct timeline *t, struct packer *p) {
    int64_t emitted = t->emitted;
    PACKED(p, t->n_items, 0, TIMELINE_QUEUE);
    t->n_waiting = 0;
    for (int i = 0; i < t->n_items && !p->from.failed; i++)
        pack_item(t, &t->items[i], p, &emitted);
}

static int pack_rows(struct timeline *t, struct packer *p, struct err *err) {
    const int64_t most = (int64_t)(p->from.left / sizeof *t->rows);
    PACKED_COUNTS(p, *t, rows_first);
    PACKED(p, t->rows_now, t->rows_first, t->rows_first + most);
    const int64_t n = t->rows_now - t->rows_first;
    packed_require(p, n <= most / t->inputs);
    if (p->from.failed)
        return 0;
    if (!p->to) {
        t->rows_capacity = n + t->window / TIMELINE_SLACK;
        t->rows = calloc((size_t)(t->rows_capacity * t->inputs), sizeof *t->rows);
        if (!t->rows)
            return err_set(err, ERR_EXHAUSTED, "out of memory for %lld samples", (long long)t->rows_capacity);
    }
    packed_bytes(p, t->rows, (size_t)(n * t->inputs) * sizeof *t->rows);
    return 0;
}

static int pack_state(struct timeline *t, struct packer *p, struct err *err) {
    packed_same(p, t->inputs);
    packed_same(p, t->window);
    packed_same(p, t->hop);
    packed_same(p, t->alarm_hop);
    PACKED_MEMBERS(p, *t, in_segment, finished);
    PACKED_COUNTS(p, *t, segment, now, next_record, next_alarm, segment_row);
    PACKED_MEMBERS(p, *t, stalled);
    PACKED_COUNTS(p, *t, emitted, segment_out, windows, alarm.run);
    PACKED_MEMBERS(p, *t, alarm.active);
    const int rc = pack_rows(t, p, err);
    if (rc)
        return rc;
    packed_require(p, !t->in_segment || (timeline_row_of(t, t->now) == t->rows_now && t->now >= t->segment &&
                                         t->next_record >= t->segment && timeline_row_of(t, t->next_record) >= t->rows_first));
    pack_items(t, p);
    int64_t n = p->to ? covered(t) : 0;
    PACKED(p, n, 0, 2 * t->window);
    packed_bytes(p, t->sum, (size_t)n * sizeof *t->sum);
    packed_bytes(p, t->count, (size_t)n * sizeof *t->count);
    if (t->state)
        packed_bytes(p, t->state, (size_t)t->n_state * sizeof *t->state);
    return 0;
}

static int pack_alarms(struct timeline *t, struct packer *p, struct err *err) {
    PACKED(p, t->alarm.age, 0, t->alarm.active ? t->alarm.config.latch : 0);
    for (int i = 0; i < t->n_items; i++)
        PACKED_MEMBERS(p, t->items[i], deaf);
    const int rc = t->contact ? contact_pack(t->contact, p, err) : 0;
    PACKED_COUNTS(p, *t, deaf_end);
    if (t->focus && !focus_pack(t->focus, p)) /* a state of an earlier version */
        focus_start(t->focus, t->now);
    return rc;
}

static int pack_parts(struct timeline *t, struct packer *p, struct err *err) {
    int rc;
    if ((rc = pack_state(t, p, err)) || (rc = events_pack(t->events, p, err)))
        return rc;
    packed_same(p, t->suppression != NULL);
    if ((t->suppression && (rc = suppression_pack(t->suppression, p, err))) || (rc = frontend_pack(t->frontend, p, err)) ||
        (!p->from.failed && (rc = pack_alarms(t, p, err))))
        return rc;
    return p->from.failed ? err_set(err, ERR_DATA_LOSS, "the snapshot is corrupt or of another model, source or options") : 0;
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
    rc = pack_parts(t, &(struct packer){.to = out}, err);
    return !rc && !str_ok(out) ? err_set(err, ERR_EXHAUSTED, "out of memory for the snapshot of a timeline") : rc;
}

bool timeline_save_background(const struct timeline *t, struct str *out) {
    pack_i64(out, t->rows_now < TIMELINE_ALARM_SIGNAL ? t->rows_now : TIMELINE_ALARM_SIGNAL);
    return t->frontend && frontend_save_background(t->frontend, &(struct packer){.to = out});
}

/* The rows of the other stream count as rows received, which may_alarm asks for. */
bool timeline_load_background(struct timeline *t, struct unpack *in, double gap_s) {
    struct packer p = {.from = *in};
    PACKED(&p, t->rows_now, 0, TIMELINE_ALARM_SIGNAL);
    t->rows_first = t->segment_row = t->rows_now;
    const bool loaded = frontend_load_background(t->frontend, &p, gap_s);
    *in = p.from;
    return loaded;
}

int timeline_load(struct timeline *t, struct unpack *in, struct err *err) {
    struct packer p = {.from = *in};
    struct err own;
    err = err ? err : &own;
    int rc = t->frontend ? pack_parts(t, &p, err) : err_set(err, ERR_PRECONDITION, "a cached recording has no state to load");
    t->finishing = t->finished;
    *in = p.from;
    return timeline_keep_status(t, rc, err);
}
