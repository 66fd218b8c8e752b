#include "daemon/live/ring.h"

#include <stdlib.h>

static int64_t bytes_of(const struct live_report *r) {
    return (int64_t)sizeof *r + (r->p ? r->samples * (int64_t)sizeof *r->p : 0) + r->n_events * (int64_t)sizeof *r->events;
}

const struct live_report *ring_next(const struct live_report *r) { return (const struct live_report *)r->message.next; }

bool ring_add(struct ring *ring, const struct live_report *r) {
    struct live_report *copy = live_report_copy(r);
    if (!copy)
        return false;
    if (ring->last)
        ring->last->message.next = &copy->message;
    else
        ring->first = copy;
    ring->last = copy;
    ring->bytes += bytes_of(copy);
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
        r->message.next = NULL;
        if (has(r, next_result, next_alarm)) {
            live_report_free(r);
            continue;
        }
        if (ring->last)
            ring->last->message.next = &r->message;
        else
            ring->first = r;
        ring->last = r;
        ring->bytes += bytes_of(r);
    }
}

int64_t ring_trim(struct ring *ring, int64_t max_bytes) {
    int64_t dropped = 0;
    for (; ring->first && ring->bytes > max_bytes; dropped++) {
        struct live_report *oldest = ring->first;
        ring->first = (struct live_report *)oldest->message.next;
        if (!ring->first)
            ring->last = NULL;
        ring->bytes -= bytes_of(oldest);
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
