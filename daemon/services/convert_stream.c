#include "daemon/services/convert_stream.h"

bool stream_events(const struct event *events, int n, struct stream_events *ret) {
    struct stream_events out = {.items = calloc((size_t)n + 1, sizeof *out.items), .list = calloc((size_t)n + 1, sizeof *out.list)};
    for (int i = 0; out.items && out.list && i < n; i++) {
        brr__v1__event__init(&out.items[i]);
        out.items[i].first_sample = events[i].first;
        out.items[i].end_sample = events[i].end;
        out.items[i].confidence = (double)events[i].confidence;
        out.items[i].channels = events[i].where;
        out.list[i] = &out.items[i];
        out.n++;
    }
    *ret = out;
    return out.n == (size_t)n;
}

void stream_events_done(struct stream_events *events) { FREE_MEMBERS(*events, items, list); }

static ProtobufCBinaryData values(const struct live_report *r) {
    return (ProtobufCBinaryData){.data = (uint8_t *)r->p, .len = r->p ? (size_t)r->samples * sizeof *r->p : 0};
}

/* The channels with one flaw, in the part of the list that belongs to it. */
static size_t list_flaw(const struct quality_report *from, enum quality_flaw flaw, int32_t *list) {
    size_t n = 0;
    for (int i = 0; i < from->n; i++)
        if (from->channels[i].flaws & (int)flaw)
            list[n++] = from->channels[i].channel;
    return n;
}

bool stream_quality(const struct quality_report *from, double measured_rate_hz, Brr__V1__Quality *q, int32_t **ret_channels,
                    bool *ret_any) {
    int32_t *channels = calloc(4 * (size_t)from->n + 1, sizeof *channels);
    brr__v1__quality__init(q);
    *ret_channels = channels;
    *ret_any = channels && (from->n || from->gap_fraction > 0 || measured_rate_hz > 0);
    if (!*ret_any)
        return channels != NULL;
    q->flat = channels;
    q->clipped = q->flat + from->n;
    q->missing = q->clipped + from->n;
    q->noisy = q->missing + from->n;
    q->n_flat = list_flaw(from, QUALITY_FLAT, q->flat);
    q->n_clipped = list_flaw(from, QUALITY_CLIPPED, q->clipped);
    q->n_missing = list_flaw(from, QUALITY_MISSING, q->missing);
    q->n_noisy = list_flaw(from, QUALITY_NOISY, q->noisy);
    q->gap_fraction = from->gap_fraction;
    q->measured_rate_hz = measured_rate_hz;
    return true;
}

/* Leaves the message out when all of its fields are at their defaults. False when out of memory. */
static bool fill_quality(const struct live_report *r, struct stream_message *m) {
    bool any;
    bool whole = stream_quality(&r->quality, r->measured_rate_hz, &m->quality, &m->channels, &any);
    m->result.quality = any ? &m->quality : NULL;
    return whole;
}

/* One allocation: the list, then its messages; NULL when there is none, or no memory. */
static Brr__V1__Suppression **suppression_list(const struct live_report *r) {
    size_t n = (size_t)r->n_suppression, channels = (size_t)r->channels;
    Brr__V1__Suppression **list = n ? calloc(n, sizeof *list + sizeof **list) : NULL;
    Brr__V1__Suppression *out = list ? (Brr__V1__Suppression *)(void *)(list + n) : NULL;
    for (size_t i = 0; out && i < n; i++) {
        brr__v1__suppression__init(&out[i]);
        out[i].end_sample = r->suppression[i].sample;
        out[i].observed_s = (double)r->suppression[i].observed / FRONTEND_RATE_HZ;
        COPY_MEMBERS(out[i], r->suppression[i], ratio, bursts_per_minute);
        out[i].channel_ratio = r->channel_suppression + 2 * i * channels;
        out[i].channel_bursts_per_minute = r->channel_suppression + (2 * i + 1) * channels;
        out[i].n_channel_ratio = out[i].n_channel_bursts_per_minute = channels;
        list[i] = &out[i];
    }
    return list;
}

bool stream_message(const struct live_report *r, struct stream_message *ret) {
    struct stream_message m = {.result = BRR__V1__RESULT__INIT,
                               .alarm = BRR__V1__ALARM__INIT,
                               .provisional = BRR__V1__PROVISIONAL__INIT,
                               .quality = BRR__V1__QUALITY__INIT};
    m.result.result_seq = m.alarm.alarm_seq = r->seq;
    m.result.first_sample = m.provisional.first_sample = m.alarm.sample = r->first;
    m.result.samples = m.provisional.samples = (int32_t)r->samples;
    m.result.probabilities = m.provisional.probabilities = values(r);
    m.result.gap = r->gap;
    bool whole = stream_events(r->events, r->n_events, &m.events);
    m.result.events = m.events.list;
    m.result.n_events = m.events.n;
    m.result.suppression = suppression_list(r);
    m.result.n_suppression = m.result.suppression ? (size_t)r->n_suppression : 0;
    m.alarm.on = r->on;
    m.alarm.probability = (double)r->probability;
    m.alarm.wall_time_ms = r->wall_ms;
    m.alarm.reason = (char *)(uintptr_t)(r->on ? "" : journal_off_name(r->off));
    m.alarm.alarm_id = (char *)(uintptr_t)r->alarm_id;
    m.alarm.live = !r->replay;
    m.alarm.channels = r->where;
    *ret = m;
    return fill_quality(r, ret) && whole && m.result.n_suppression == (size_t)r->n_suppression;
}

void stream_message_done(struct stream_message *m) {
    stream_events_done(&m->events);
    free(m->channels);
    free(m->result.suppression);
}
