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

/* n items of this size, of which a copy is read; NULL when there are none. False when they are not there, or out of
 * memory. */
static bool pack_items(struct packer *p, int64_t n, size_t size, void **items) {
    size_t len = 0;
    if (p->to) {
        pack_bytes(p->to, *items, *items ? (size_t)n * size : 0);
        return true;
    }
    const void *bytes = unpack_view(&p->from, p->from.left, &len);
    if (p->from.failed || (len && len != (size_t)n * size))
        return false;
    *items = len ? malloc(len) : NULL;
    if (*items)
        memcpy(*items, bytes, len);
    return !len || *items;
}

static bool pack_suppression(struct packer *p, struct live_report *r) {
    return pack_items(p, r->n_suppression, sizeof *r->suppression, (void **)&r->suppression) &&
           pack_items(p, r->n_suppression, channel_bytes(r->channels), (void **)&r->channel_suppression) &&
           (!r->n_suppression || (r->suppression && r->channel_suppression));
}

static bool pack_alarm(struct packer *p, enum ring_boot boot, bool channels, struct live_report *r) {
    PACKED(p, r->off, 0, JOURNAL_OFFS - 1);
    PACKED_MEMBERS(p, *r, replay, alarm_id);
    if (boot != RING_NO_BOOT)
        PACKED(p, r->boot_ms, 0, INT64_MAX);
    if (boot != RING_THIS_BOOT)
        r->boot_ms = 0;
    if (channels)
        PACKED(p, r->where, 0, UINT32_MAX);
    for (int i = 0; !channels && i < r->n_events; i++)
        r->events[i].where = 0; /* padding then */
    return !p->from.failed;
}

static bool pack_report(struct packer *p, enum ring_boot boot, bool channels, struct live_report *r) {
    PACKED(p, r->message.kind, LIVE_RESULT, LIVE_ALARM);
    packed_require(p, r->message.kind != LIVE_PROVISIONAL);
    PACKED_COUNTS(p, *r, seq, first);
    PACKED(p, r->samples, 0, LIVE_MAX_SAMPLES);
    PACKED_MEMBERS(p, *r, gap, on);
    PACKED(p, r->wall_ms, 0, INT64_MAX);
    PACKED(p, r->n_events, 0, INT32_MAX);
    PACKED(p, r->quality.n, 0, FRONTEND_MAX_LABELS);
    PACKED(p, r->n_suppression, 0, INT32_MAX);
    PACKED(p, r->channels, r->n_suppression > 0, SUPPRESSION_MAX_CHANNELS);
    PACKED_MEMBERS(p, *r, probability, quality.gap_fraction, measured_rate_hz);
    return pack_items(p, r->samples, sizeof *r->p, (void **)&r->p) &&
           pack_items(p, r->n_events, sizeof *r->events, (void **)&r->events) && (r->events || !r->n_events) &&
           pack_items(p, r->quality.n, sizeof *r->quality.channels, (void **)&r->quality.channels) &&
           (r->quality.channels || !r->quality.n) && pack_suppression(p, r) && pack_alarm(p, boot, channels, r);
}

bool ring_pack(struct ring *ring, struct packer *p, enum ring_boot boot, bool channels) {
    int64_t n = 0;
    for (const struct live_report *r = ring->first; r; r = ring_next(r))
        n++;
    PACKED(p, n, 0, INT32_MAX);
    bool whole = !p->from.failed;
    for (struct live_report *r = ring->first; p->to && r; r = (struct live_report *)r->message.next)
        whole &= pack_report(p, boot, channels, r);
    for (; !p->to && whole && n > 0; n--) {
        struct live_report r = {.running = -1};
        whole = pack_report(p, boot, channels, &r) && ring_add(ring, &r);
        FREE_MEMBERS(r, p, events);
        free(r.quality.channels);
        FREE_MEMBERS(r, suppression, channel_suppression);
    }
    return whole;
}
