#include "daemon/live/ring.h"

#include "base/queue.h"

/* Values of the channels with one second of burst suppression. */
static size_t channel_bytes(int channels) { return 2 * (size_t)channels * sizeof(float); }

const struct live_report *ring_next(const struct live_report *r) { return (const struct live_report *)r->message.next; }

bool ring_add(struct ring *ring, const struct live_report *r) {
    struct live_report *copy = live_report_copy(r);
    if (!copy)
        return false;
    QUEUE_ADD(ring, copy, message.next);
    ring->bytes += live_report_bytes(copy);
    return true;
}

static bool has(const struct live_report *r, int64_t next_result, int64_t next_alarm) {
    return r->seq < (r->message.kind == LIVE_ALARM ? next_alarm : next_result);
}

void ring_seen(struct ring *ring, int64_t next_result, int64_t next_alarm) {
    struct live_report *r = ring->first;
    *ring = (struct ring){0};
    for (struct live_report *next; r; r = next) {
        next = (struct live_report *)r->message.next;
        if (has(r, next_result, next_alarm)) {
            live_report_free(r);
            continue;
        }
        QUEUE_ADD(ring, r, message.next);
        ring->bytes += live_report_bytes(r);
    }
}

int64_t ring_trim(struct ring *ring, int64_t max_bytes) {
    int64_t dropped = 0;
    for (; ring->first && ring->bytes > max_bytes; dropped++) {
        struct live_report *oldest = ring->first;
        QUEUE_DROP(ring, message.next);
        ring->bytes -= live_report_bytes(oldest);
        live_report_free(oldest);
    }
    return dropped;
}

int64_t ring_first_result(const struct ring *ring, int64_t none) {
    for (const struct live_report *r = ring->first; r; r = ring_next(r))
        if (r->message.kind == LIVE_RESULT)
            return r->seq;
    return none;
}

void ring_clear(struct ring *ring) { ring_trim(ring, -1); }

void ring_save(const struct ring *ring, struct str *out) {
    int64_t n = 0;
    for (const struct live_report *r = ring->first; r; r = ring_next(r))
        n++;
    pack_i64(out, n);
    for (const struct live_report *r = ring->first; r; r = ring_next(r)) {
        PACK(out, *r, message.kind, seq, first, samples, gap, on, wall_ms, n_events, quality.n, n_suppression, channels);
        PACK(out, *r, probability, quality.gap_fraction, measured_rate_hz);
        pack_bytes(out, r->p, r->p ? (size_t)r->samples * sizeof *r->p : 0);
        pack_bytes(out, r->events, (size_t)r->n_events * sizeof *r->events);
        pack_bytes(out, r->quality.channels, (size_t)r->quality.n * sizeof *r->quality.channels);
        pack_bytes(out, r->suppression, (size_t)r->n_suppression * sizeof *r->suppression);
        pack_bytes(out, r->channel_suppression, (size_t)r->n_suppression * channel_bytes(r->channels));
        PACK(out, *r, off, replay, alarm_id, boot_ms, where);
    }
}

/* A copy of n packed items of this size; NULL when there are none. False when they are not there, or out of memory. */
static bool load_items(struct unpack *in, int64_t n, size_t size, void **ret) {
    size_t len = 0;
    const void *items = unpack_view(in, in->left, &len);
    if (in->failed || (len && len != (size_t)n * size))
        return false;
    *ret = len ? malloc(len) : NULL;
    if (*ret)
        memcpy(*ret, items, len);
    return !len || *ret;
}

static bool load_suppression(struct unpack *in, struct live_report *r) {
    return load_items(in, r->n_suppression, sizeof *r->suppression, (void **)&r->suppression) &&
           load_items(in, r->n_suppression, channel_bytes(r->channels), (void **)&r->channel_suppression) &&
           (!r->n_suppression || (r->suppression && r->channel_suppression));
}

static bool load_alarm(struct unpack *in, enum ring_boot boot, bool channels, struct live_report *r) {
    r->off = (enum journal_off)unpack_i64(in, 0, JOURNAL_OFFS - 1);
    r->replay = unpack_bool(in);
    unpack_text(in, r->alarm_id, sizeof r->alarm_id);
    const int64_t boot_ms = boot == RING_NO_BOOT ? 0 : unpack_i64(in, 0, INT64_MAX);
    r->boot_ms = boot == RING_THIS_BOOT ? boot_ms : 0;
    r->where = channels ? (uint32_t)unpack_i64(in, 0, UINT32_MAX) : 0;
    for (int i = 0; !channels && i < r->n_events; i++)
        r->events[i].where = 0; /* padding then */
    return !in->failed;
}

bool ring_load(struct ring *ring, struct unpack *in, enum ring_boot boot, bool channels) {
    const int64_t far = INT64_C(1) << 60;
    int64_t n = unpack_i64(in, 0, INT32_MAX);
    for (bool whole = true; whole && n > 0; n--) {
        struct live_report r = {.message.kind = (int)unpack_i64(in, LIVE_RESULT, LIVE_ALARM)};
        unpack_require(in, r.message.kind != LIVE_PROVISIONAL);
        r.seq = unpack_i64(in, 0, far);
        r.first = unpack_i64(in, 0, far);
        r.samples = unpack_i64(in, 0, LIVE_MAX_SAMPLES);
        r.gap = unpack_bool(in);
        r.on = unpack_bool(in);
        r.wall_ms = unpack_i64(in, 0, INT64_MAX);
        r.n_events = (int)unpack_i64(in, 0, INT32_MAX);
        r.quality.n = (int)unpack_i64(in, 0, FRONTEND_MAX_LABELS);
        r.n_suppression = (int)unpack_i64(in, 0, INT32_MAX);
        r.channels = (int)unpack_i64(in, r.n_suppression > 0, SUPPRESSION_MAX_CHANNELS);
        r.probability = (float)unpack_f64(in);
        r.quality.gap_fraction = unpack_f64(in);
        r.measured_rate_hz = unpack_f64(in);
        r.running = -1;
        whole = load_items(in, r.samples, sizeof *r.p, (void **)&r.p) &&
                load_items(in, r.n_events, sizeof *r.events, (void **)&r.events) && (r.events || !r.n_events) &&
                load_items(in, r.quality.n, sizeof *r.quality.channels, (void **)&r.quality.channels) &&
                (r.quality.channels || !r.quality.n) && load_suppression(in, &r) && load_alarm(in, boot, channels, &r) &&
                !in->failed && ring_add(ring, &r);
        FREE_MEMBERS(r, p, events);
        free(r.quality.channels);
        FREE_MEMBERS(r, suppression, channel_suppression);
        if (!whole)
            return false;
    }
    return !in->failed;
}
