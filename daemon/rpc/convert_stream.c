#include "daemon/rpc/convert_stream.h"

#include <stdlib.h>

struct stream_events stream_events(const struct event *events, int n) {
    struct stream_events out = {.items = calloc((size_t)n + 1, sizeof *out.items), .list = calloc((size_t)n + 1, sizeof *out.list)};
    for (int i = 0; out.items && out.list && i < n; i++) {
        brr__v1__event__init(&out.items[i]);
        out.items[i].first_sample = events[i].first;
        out.items[i].end_sample = events[i].end;
        out.items[i].confidence = (double)events[i].confidence;
        out.list[i] = &out.items[i];
        out.n++;
    }
    return out;
}

void stream_events_done(struct stream_events *events) {
    free(events->items);
    free(events->list);
}

static ProtobufCBinaryData values(const struct live_report *r) {
    return (ProtobufCBinaryData){.data = (uint8_t *)r->p, .len = r->p ? (size_t)r->samples * sizeof *r->p : 0};
}

void stream_message(const struct live_report *r, struct stream_message *ret) {
    struct stream_message m = {
        .result = BRR__V1__RESULT__INIT, .alarm = BRR__V1__ALARM__INIT, .provisional = BRR__V1__PROVISIONAL__INIT};
    m.result.result_seq = m.alarm.alarm_seq = r->seq;
    m.result.first_sample = m.provisional.first_sample = m.alarm.sample = r->first;
    m.result.samples = m.provisional.samples = (int32_t)r->samples;
    m.result.probabilities = m.provisional.probabilities = values(r);
    m.result.gap = r->gap;
    m.events = stream_events(r->events, r->n_events);
    m.result.events = m.events.list;
    m.result.n_events = m.events.n;
    m.alarm.on = r->on;
    m.alarm.probability = (double)r->probability;
    m.alarm.wall_time_ms = r->wall_ms;
    *ret = m;
}

void stream_message_done(struct stream_message *m) { stream_events_done(&m->events); }
