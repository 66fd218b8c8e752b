#include "client/inbox.h"

#include "client/conn.h"

static bool float_bytes(const ProtobufCBinaryData *b, int64_t samples) {
    return !b->len || (samples >= 0 && b->len == (size_t)samples * sizeof(float));
}

/* True if sizes and counts of a message agree; the library relies on it. */
static bool sound(const Brr__V1__ServerMessage *m) {
    switch (m->kind_case) {
    case BRR__V1__SERVER_MESSAGE__KIND_RESULT:
        return float_bytes(&m->result->probabilities, m->result->samples) && m->result->n_events <= INT_MAX;
    case BRR__V1__SERVER_MESSAGE__KIND_PROVISIONAL:
        return float_bytes(&m->provisional->probabilities, m->provisional->samples);
    case BRR__V1__SERVER_MESSAGE__KIND_SUMMARY:
        return m->summary->n_events <= INT_MAX;
    case BRR__V1__SERVER_MESSAGE__KIND_OPENED:
        return m->opened->max_chunk_samples > 0 && m->opened->n_montage <= INT_MAX && m->opened->n_used_channels <= INT_MAX;
    default:
        return true;
    }
}

void inbox_free_message(Brr__V1__ServerMessage *m) { brr__v1__server_message__free_unpacked(m, NULL); }

Brr__V1__ServerMessage *inbox_unpack(const uint8_t *data, size_t len) {
    Brr__V1__ServerMessage *m = brr__v1__server_message__unpack(NULL, len, data);
    if (m && sound(m))
        return m;
    inbox_free_message(m);
    return NULL;
}

bool inbox_full(const struct inbox *b) { return b->count == BRR_STREAM_IN_MESSAGES; }

/* True if a message is new; its number is then the newest. */
static bool is_new(struct inbox *b, const Brr__V1__ServerMessage *m) {
    int64_t end;
    switch (m->kind_case) {
    case BRR__V1__SERVER_MESSAGE__KIND_RESULT:
        if (b->numbered && m->result->result_seq < b->next_result_seq)
            return false;
        b->next_result_seq = m->result->result_seq + 1;
        b->unseen_bytes += (int64_t)m->result->probabilities.len;
        return true;
    case BRR__V1__SERVER_MESSAGE__KIND_ALARM:
        if (b->numbered && m->alarm->alarm_seq < b->next_alarm_seq)
            return false;
        b->next_alarm_seq = m->alarm->alarm_seq + 1;
        return true;
    case BRR__V1__SERVER_MESSAGE__KIND_PROVISIONAL:
        end = m->provisional->first_sample + m->provisional->samples;
        if (b->numbered && end <= b->provisional_through)
            return false;
        b->provisional_through = end;
        return true;
    case BRR__V1__SERVER_MESSAGE__KIND_SUMMARY:
        b->summed = true;
        return true;
    case BRR__V1__SERVER_MESSAGE__KIND_OPENED:
        return true;
    default: /* newer than this library */
        return false;
    }
}

int inbox_add(struct inbox *b, Brr__V1__ServerMessage *m, int64_t away_ms, struct brr_error *err) {
    const bool result = m->kind_case == BRR__V1__SERVER_MESSAGE__KIND_RESULT;
    if (b->numbered && result && m->result->result_seq > b->next_result_seq) {
        int64_t seq = m->result->result_seq;
        inbox_free_message(m);
        return conn_error(err, BRR_DATA_LOSS,
                          "results %lld to %lld of the stream are lost: the daemon kept them no longer; run the recording again",
                          (long long)b->next_result_seq, (long long)seq - 1);
    }
    if (!is_new(b, m)) {
        inbox_free_message(m);
        return 0;
    }
    b->entries[(b->first + b->count++) % BRR_STREAM_IN_MESSAGES] = (struct inbox_entry){m, away_ms};
    return 0;
}

/* ---- as plain values ---- */

static int take_events(struct inbox *b, Brr__V1__Event *const *events, size_t n, struct brr_message *ret, struct brr_error *err) {
    free(b->events);
    if (!(b->events = calloc(n + 1, sizeof *b->events + sizeof(uint32_t))))
        return conn_error(err, BRR_EXHAUSTED, "out of memory for events");
    uint32_t *channels = (uint32_t *)(void *)(b->events + n); /* behind them, where brr_message_channels looks */
    for (size_t i = 0; i < n; i++) {
        b->events[i] = (struct brr_event){events[i]->first_sample, events[i]->end_sample, events[i]->confidence};
        channels[i] = events[i]->channels;
    }
    ret->events = b->events;
    ret->n_events = (int)n;
    return 0;
}

static int take_suppression(struct inbox *b, const Brr__V1__Result *r, struct brr_message *ret, struct brr_error *err) {
    free(b->suppression);
    if (!(b->suppression = calloc(r->n_suppression + 1, sizeof *b->suppression)))
        return conn_error(err, BRR_EXHAUSTED, "out of memory for burst suppression");
    for (size_t i = 0; i < r->n_suppression; i++) {
        const Brr__V1__Suppression *m = r->suppression[i];
        bool both = m->n_channel_ratio == m->n_channel_bursts_per_minute && m->n_channel_ratio <= INT_MAX;
        b->suppression[i] = (struct brr_suppression){.end = m->end_sample,
                                                     SAME_MEMBERS(*m, observed_s, channel_ratio),
                                                     .ratio = (double)m->ratio,
                                                     .bursts_per_minute = (double)m->bursts_per_minute,
                                                     .channels = both ? (int)m->n_channel_ratio : 0,
                                                     .channel_bursts_per_minute = m->channel_bursts_per_minute};
    }
    ret->suppression = b->suppression;
    ret->n_suppression = (int)r->n_suppression;
    return 0;
}

static int give_result(struct inbox *b, const Brr__V1__Result *r, struct brr_message *ret, struct brr_error *err) {
    ret->kind = BRR_RESULT;
    ret->seq = r->result_seq;
    ret->first = r->first_sample;
    COPY_MEMBERS(*ret, *r, samples, gap);
    ret->probabilities = r->probabilities.len ? (const float *)(const void *)r->probabilities.data : NULL;
    int rc = take_suppression(b, r, ret, err);
    return rc ? rc : take_events(b, r->events, r->n_events, ret, err);
}

static int give_summary(struct inbox *b, const Brr__V1__Summary *m, struct brr_message *ret, struct brr_error *err) {
    ret->kind = BRR_SUMMARY;
    ret->samples = m->samples;
    COPY_MEMBERS(ret->summary, *m, source_samples, windows, gaps, duplicate_samples);
    ret->summary.seizure_s = m->seizure_seconds;
    ret->summary.observed_s = m->observed_seconds;
    ret->summary.suppressed_s = m->suppressed_seconds;
    ret->summary.bursts = m->bursts;
    COPY_MEMBERS(*ret, *m, mislabelled, learning_s);
    return take_events(b, m->events, m->n_events, ret, err);
}

static int give(struct inbox *b, const struct inbox_entry *e, struct brr_message *ret, struct brr_error *err) {
    const Brr__V1__ServerMessage *m = e->message;
    *ret = (struct brr_message){0};
    switch (m->kind_case) {
    case BRR__V1__SERVER_MESSAGE__KIND_RESULT:
        return give_result(b, m->result, ret, err);
    case BRR__V1__SERVER_MESSAGE__KIND_SUMMARY:
        return give_summary(b, m->summary, ret, err);
    case BRR__V1__SERVER_MESSAGE__KIND_PROVISIONAL:
        ret->kind = BRR_PROVISIONAL;
        ret->first = m->provisional->first_sample;
        ret->samples = m->provisional->samples;
        if (m->provisional->probabilities.len)
            ret->probabilities = (const float *)(const void *)m->provisional->probabilities.data;
        return 0;
    case BRR__V1__SERVER_MESSAGE__KIND_OPENED:
        ret->kind = BRR_RECONNECTED;
        ret->first = m->opened->next_sample;
        ret->reconnected.away_ms = e->away_ms;
        ret->reconnected.anew = !m->opened->resumed;
        return 0;
    default:
        ret->kind = BRR_ALARM;
        ret->seq = m->alarm->alarm_seq;
        COPY_MEMBERS(ret->alarm, *m->alarm, on, sample, probability, wall_time_ms, channels);
        ret->mislabelled = m->alarm->reason; /* the one pointer of an alarm, where brr_message_reason looks */
        return 0;
    }
}

uint32_t brr_message_channels(const struct brr_message *m, int i) {
    if (m->kind == BRR_ALARM)
        return m->alarm.channels;
    return i >= 0 && i < m->n_events ? ((const uint32_t *)(const void *)(m->events + m->n_events))[i] : 0;
}

const char *brr_message_reason(const struct brr_message *m) {
    return m->kind == BRR_ALARM && !m->alarm.on && m->mislabelled ? m->mislabelled : "";
}

int inbox_take(struct inbox *b, struct brr_message *ret, struct brr_error *err) {
    inbox_free_message(b->taken);
    b->taken = NULL;
    if (!b->count)
        return BRR_AGAIN;
    const struct inbox_entry entry = b->entries[b->first];
    b->taken = entry.message;
    b->first = (b->first + 1) % BRR_STREAM_IN_MESSAGES;
    b->count--;
    return give(b, &entry, ret, err);
}

void inbox_done(struct inbox *b) {
    while (b->count--) {
        inbox_free_message(b->entries[b->first].message);
        b->first = (b->first + 1) % BRR_STREAM_IN_MESSAGES;
    }
    inbox_free_message(b->taken);
    FREE_MEMBERS(*b, suppression, events);
}
