/* One recording or live source through brr.v1.Stream/Run. Two bounded queues: packed messages on their way out, and unpacked ones
 * to be taken. While the inner queue is full nothing is received, so the daemon stops reading, so the outer queue fills and a
 * push says BRR_AGAIN: the owner's pace is everybody's pace and nothing is lost. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "brr/v1/stream.pb-c.h"
#include "client/conn.h"

enum { OPEN_TIMEOUT_MS = 120000 };

struct packet {
    struct packet *next;
    size_t len;
    uint8_t data[];
};

struct brr_stream {
    struct conn_call *call;
    struct packet *out_first, *out_last;
    size_t out_bytes;
    Brr__V1__ServerMessage *in[BRR_STREAM_IN_MESSAGES];
    int in_first, in_count;
    Brr__V1__ServerMessage *taken, *opened; /* given out last; the answer to Open */
    struct brr_event *events;               /* of `taken` */
    struct brr_stream_info info;
    int n_channels, failed;
    bool finished, closed;
    int64_t pushed, received, consumed;
    struct brr_error error; /* why it failed */
};

static void drop_message(Brr__V1__ServerMessage *m) {
    if (m)
        brr__v1__server_message__free_unpacked(m, NULL);
}

/* Keep the first error; every later call gives it again. */
static int fail(struct brr_stream *s, int code, const char *text) {
    if (!s->failed)
        s->failed = conn_error(&s->error, code, "%s", text);
    return s->failed;
}

static int failure(const struct brr_stream *s, struct brr_error *err) {
    if (err)
        *err = s->error;
    return s->failed;
}

/* ---- out ---- */

static int queue(struct brr_stream *s, const ProtobufCMessage *m) {
    size_t len = protobuf_c_message_get_packed_size(m);
    struct packet *p = malloc(sizeof *p + len);
    if (!p)
        return fail(s, BRR_EXHAUSTED, "out of memory for samples of a stream");
    p->next = NULL;
    p->len = len;
    protobuf_c_message_pack(m, p->data);
    if (s->out_last)
        s->out_last->next = p;
    else
        s->out_first = p;
    s->out_last = p;
    s->out_bytes += len;
    return 0;
}

static void send_next(struct brr_stream *s) {
    struct packet *p = s->out_first;
    if (p && conn_call_sendable(s->call)) {
        conn_call_send(s->call, p->data, p->len, false);
        s->out_first = p->next;
        if (!p->next)
            s->out_last = NULL;
        s->out_bytes -= p->len;
        free(p);
    }
    if (!s->out_first && s->finished && !s->closed && conn_call_sendable(s->call)) {
        s->closed = true;
        conn_call_half_close(s->call);
    }
}

/* ---- in ---- */

static bool float_bytes(const ProtobufCBinaryData *b, int64_t samples) {
    return !b->len || (samples >= 0 && b->len == (size_t)samples * sizeof(float));
}

/* Whether a message is what it says; the rest of this file relies on it. */
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

/* Acks are counted, what is new since this library is skipped, the rest waits to be taken. */
static void arrive(struct brr_stream *s, const uint8_t *data, size_t len) {
    Brr__V1__ServerMessage *m = brr__v1__server_message__unpack(NULL, len, data);
    bool wanted = false;
    if (!m || !sound(m)) {
        fail(s, BRR_INTERNAL, "a message of the daemon cannot be read; client and daemon differ in version?");
    } else if (m->kind_case == BRR__V1__SERVER_MESSAGE__KIND_ACK) {
        s->received = m->ack->received_through;
        s->consumed = m->ack->durable_through;
    } else if (m->kind_case == BRR__V1__SERVER_MESSAGE__KIND_OPENED) {
        drop_message(s->opened);
        s->opened = m;
        return;
    } else {
        wanted = m->kind_case != BRR__V1__SERVER_MESSAGE__KIND__NOT_SET;
    }
    if (!wanted) {
        drop_message(m);
        return;
    }
    s->in[(s->in_first + s->in_count++) % BRR_STREAM_IN_MESSAGES] = m;
}

/* One round of work on the call; false when nothing happened within the timeout. */
static bool work(struct brr_stream *s, int64_t timeout_ms) {
    size_t len = 0;
    uint8_t *data;
    send_next(s);
    if (s->in_count < BRR_STREAM_IN_MESSAGES)
        conn_call_receive(s->call);
    if (!conn_call_poll(s->call, timeout_ms))
        return false;
    if ((data = conn_call_take(s->call, &len))) {
        arrive(s, data, len);
        free(data);
    }
    send_next(s);
    if (conn_call_ended(s->call) && !s->failed) {
        struct brr_error status = {0};
        int rc = conn_call_status(s->call, &status);
        if (rc) {
            s->failed = rc;
            s->error = status;
        }
    }
    return true;
}

/* Work until `done` says so. False on timeout; failures, the end of the call and a full inner queue stop it too. */
static bool work_until(struct brr_stream *s, bool (*done)(const struct brr_stream *s, size_t need), size_t need,
                       int64_t timeout_ms) {
    int64_t start = clock_ms();
    while (!done(s, need)) {
        int64_t left = timeout_ms < 0 ? -1 : timeout_ms - (clock_ms() - start);
        if (timeout_ms >= 0 && left < 0)
            left = 0;
        if (s->failed || s->in_count == BRR_STREAM_IN_MESSAGES || conn_call_ended(s->call) || !work(s, left))
            return done(s, need);
    }
    return true;
}

/* ---- open ---- */

static bool answered(const struct brr_stream *s, size_t need) {
    (void)need;
    return s->opened != NULL;
}

static int check_config(const struct brr_stream_config *c, struct brr_error *err) {
    if (!c->model || !*c->model)
        return conn_error(err, BRR_INVALID, "no model named; expected a served name, job:ID, store://NAME/KEY or a model file");
    if (c->n_channels < 1 || !c->channels)
        return conn_error(err, BRR_INVALID, "no channels named; expected the label of each row that will be pushed");
    if (!(c->rate_hz > 0))
        return conn_error(err, BRR_INVALID, "the rate is %g Hz; expected a positive number", c->rate_hz);
    return 0;
}

static void learn(struct brr_stream *s) {
    const Brr__V1__Opened *o = s->opened->opened;
    s->info = (struct brr_stream_info){.session_id = o->session_id,
                                       .model_sha256 = o->model_sha256,
                                       .note = o->note,
                                       .montage = (const char *const *)o->montage,
                                       .n_montage = (int)o->n_montage,
                                       .used = o->used_channels,
                                       .n_used = (int)o->n_used_channels,
                                       .max_chunk_samples = o->max_chunk_samples,
                                       .window_s = o->window_s,
                                       .hop_s = o->hop_s,
                                       .alarm_hop_s = o->alarm_hop_s,
                                       .threshold_on = o->threshold_on,
                                       .threshold_off = o->threshold_off};
}

static int send_open(struct brr_stream *s, const struct brr_stream_config *c) {
    Brr__V1__ClientMessage m = BRR__V1__CLIENT_MESSAGE__INIT;
    Brr__V1__Open open = BRR__V1__OPEN__INIT;
    open.model = (char *)(uintptr_t)c->model;
    open.channels = (char **)(uintptr_t)c->channels;
    open.n_channels = (size_t)c->n_channels;
    open.rate_hz = c->rate_hz;
    open.format = BRR__V1__SAMPLE_FORMAT__SAMPLE_FORMAT_F32_UV;
    open.client_name = (char *)(uintptr_t)(c->client_name ? c->client_name : "libbrr");
    open.realtime = c->realtime != 0;
    open.want_probabilities = c->want_probabilities != 0;
    open.alarm_hop_s = c->alarm_hop_s;
    open.start_time_ms = c->start_time_ms;
    m.kind_case = BRR__V1__CLIENT_MESSAGE__KIND_OPEN;
    m.open = &open;
    return queue(s, &m.base);
}

int brr_stream_open(brr_client *client, const struct brr_stream_config *config, brr_stream **ret, struct brr_error *err) {
    int rc = check_config(config, err);
    struct brr_stream *s = rc ? NULL : calloc(1, sizeof *s);
    if (!s)
        return rc ? rc : conn_error(err, BRR_EXHAUSTED, "out of memory for a stream");
    s->n_channels = config->n_channels;
    int64_t patience = config->open_timeout_ms > 0 ? config->open_timeout_ms : OPEN_TIMEOUT_MS;
    rc = conn_call_open(client, "/brr.v1.Stream/Run", -1, &s->call, err);
    if (!rc && (rc = send_open(s, config)))
        failure(s, err);
    if (!rc && !work_until(s, answered, 0, patience)) {
        if (s->failed)
            rc = failure(s, err);
        else if (conn_call_ended(s->call))
            rc = conn_error(err, BRR_INTERNAL, "the daemon ended the stream without an answer");
        else
            rc = conn_error(err, BRR_DEADLINE, "no answer to Open within %lld s; the device is busy or the model slow to load",
                            (long long)(patience / 1000));
    }
    if (rc) {
        brr_stream_close(s);
        return rc;
    }
    learn(s);
    *ret = s;
    return 0;
}

const struct brr_stream_info *brr_stream_info(const brr_stream *s) { return &s->info; }

/* ---- push ---- */

static bool has_room(const struct brr_stream *s, size_t need) {
    return !s->out_first || (s->out_bytes < BRR_STREAM_OUT_BYTES && need <= BRR_STREAM_OUT_BYTES - s->out_bytes);
}

static int queue_chunk(struct brr_stream *s, int64_t first, const uint8_t *data, int32_t samples) {
    Brr__V1__ClientMessage m = BRR__V1__CLIENT_MESSAGE__INIT;
    Brr__V1__Chunk chunk = BRR__V1__CHUNK__INIT;
    chunk.first_sample = first;
    chunk.samples = samples;
    chunk.data.data = (uint8_t *)(uintptr_t)data;
    chunk.data.len = (size_t)samples * (size_t)s->n_channels * sizeof(float);
    m.kind_case = BRR__V1__CLIENT_MESSAGE__KIND_CHUNK;
    m.chunk = &chunk;
    return queue(s, &m.base);
}

/* Rows [at, at + part) of every channel, cut out of (channels, n). */
static int queue_part(struct brr_stream *s, int64_t first, const float *uv, int64_t n, int64_t at) {
    int64_t part = n - at < s->info.max_chunk_samples ? n - at : s->info.max_chunk_samples;
    float *cut = part == n ? NULL : malloc((size_t)part * (size_t)s->n_channels * sizeof *cut);
    if (part == n)
        return queue_chunk(s, first, (const uint8_t *)uv, (int32_t)part);
    if (!cut)
        return fail(s, BRR_EXHAUSTED, "out of memory for samples of a stream");
    for (int c = 0; c < s->n_channels; c++)
        memcpy(cut + c * part, uv + c * n + at, (size_t)part * sizeof *cut);
    int rc = queue_chunk(s, first + at, (const uint8_t *)cut, (int32_t)part);
    free(cut);
    return rc;
}

static int check_push(const struct brr_stream *s, int64_t n, struct brr_error *err) {
    if (s->failed)
        return failure(s, err);
    if (s->finished)
        return conn_error(err, BRR_PRECONDITION, "the stream was finished; nothing more can be pushed");
    if (n < 1 || n > INT64_MAX / (int64_t)sizeof(float) / s->n_channels)
        return conn_error(err, BRR_INVALID, "the chunk has %lld samples; expected at least 1, and no more than fit into memory",
                          (long long)n);
    return 0;
}

int brr_stream_push_at(brr_stream *s, int64_t first, const float *uv, int64_t n, int64_t timeout_ms, struct brr_error *err) {
    int rc = check_push(s, n, err);
    if (rc)
        return rc;
    if (first < 0)
        return conn_error(err, BRR_INVALID, "the first sample is %lld; expected a sample index from 0", (long long)first);
    bool room = work_until(s, has_room, (size_t)n * (size_t)s->n_channels * sizeof *uv, timeout_ms);
    if (s->failed)
        return failure(s, err);
    if (conn_call_ended(s->call))
        return conn_error(err, BRR_PRECONDITION, "the daemon has ended the stream; nothing more can be pushed");
    if (!room)
        return BRR_AGAIN;
    for (int64_t at = 0; at < n; at += s->info.max_chunk_samples)
        if (queue_part(s, first, uv, n, at))
            return failure(s, err);
    if (first + n > s->pushed)
        s->pushed = first + n;
    send_next(s);
    return 0;
}

int brr_stream_push(brr_stream *s, const float *uv, int64_t n, int64_t timeout_ms, struct brr_error *err) {
    return brr_stream_push_at(s, s->pushed, uv, n, timeout_ms, err);
}

int brr_stream_gap(brr_stream *s, int64_t n, const char *cause, struct brr_error *err) {
    int rc = check_push(s, n, err);
    if (rc)
        return rc;
    Brr__V1__ClientMessage m = BRR__V1__CLIENT_MESSAGE__INIT;
    Brr__V1__Gap gap = BRR__V1__GAP__INIT;
    gap.first = s->pushed;
    gap.end = s->pushed + n;
    gap.cause = (char *)(uintptr_t)(cause ? cause : "");
    m.kind_case = BRR__V1__CLIENT_MESSAGE__KIND_GAP;
    m.gap = &gap;
    if (queue(s, &m.base))
        return failure(s, err);
    s->pushed += n;
    send_next(s);
    return 0;
}

int brr_stream_finish(brr_stream *s, struct brr_error *err) {
    if (s->failed)
        return failure(s, err);
    s->finished = true;
    send_next(s);
    return 0;
}

/* ---- next ---- */

static bool has_message(const struct brr_stream *s, size_t need) { return (size_t)s->in_count > need; }

static int take_events(struct brr_stream *s, Brr__V1__Event *const *events, size_t n, struct brr_message *ret) {
    free(s->events);
    if (!(s->events = calloc(n + 1, sizeof *s->events)))
        return fail(s, BRR_EXHAUSTED, "out of memory for events");
    for (size_t i = 0; i < n; i++)
        s->events[i] = (struct brr_event){events[i]->first_sample, events[i]->end_sample, events[i]->confidence};
    ret->events = s->events;
    ret->n_events = (int)n;
    return 0;
}

static int give_result(struct brr_stream *s, const Brr__V1__Result *r, struct brr_message *ret) {
    ret->kind = BRR_RESULT;
    ret->first = r->first_sample;
    ret->samples = r->samples;
    ret->gap = r->gap;
    ret->probabilities = r->probabilities.len ? (const float *)(const void *)r->probabilities.data : NULL;
    return take_events(s, r->events, r->n_events, ret);
}

static int give_summary(struct brr_stream *s, const Brr__V1__Summary *m, struct brr_message *ret) {
    ret->kind = BRR_SUMMARY;
    ret->samples = m->samples;
    ret->summary.source_samples = m->source_samples;
    ret->summary.windows = m->windows;
    ret->summary.gaps = m->gaps;
    ret->summary.duplicate_samples = m->duplicate_samples;
    ret->summary.seizure_s = m->seizure_seconds;
    return take_events(s, m->events, m->n_events, ret);
}

static int give(struct brr_stream *s, struct brr_message *ret) {
    const Brr__V1__ServerMessage *m = s->taken;
    *ret = (struct brr_message){0};
    switch (m->kind_case) {
    case BRR__V1__SERVER_MESSAGE__KIND_RESULT:
        return give_result(s, m->result, ret);
    case BRR__V1__SERVER_MESSAGE__KIND_SUMMARY:
        return give_summary(s, m->summary, ret);
    case BRR__V1__SERVER_MESSAGE__KIND_PROVISIONAL:
        ret->kind = BRR_PROVISIONAL;
        ret->first = m->provisional->first_sample;
        ret->samples = m->provisional->samples;
        if (m->provisional->probabilities.len)
            ret->probabilities = (const float *)(const void *)m->provisional->probabilities.data;
        return 0;
    default:
        ret->kind = BRR_ALARM;
        ret->alarm.on = m->alarm->on;
        ret->alarm.sample = m->alarm->sample;
        ret->alarm.probability = m->alarm->probability;
        ret->alarm.wall_time_ms = m->alarm->wall_time_ms;
        return 0;
    }
}

int brr_stream_next(brr_stream *s, int64_t timeout_ms, struct brr_message *ret, struct brr_error *err) {
    drop_message(s->taken);
    s->taken = NULL;
    if (!work_until(s, has_message, 0, timeout_ms)) {
        if (s->failed)
            return failure(s, err);
        return conn_call_ended(s->call) ? BRR_END : BRR_AGAIN;
    }
    s->taken = s->in[s->in_first];
    s->in_first = (s->in_first + 1) % BRR_STREAM_IN_MESSAGES;
    s->in_count--;
    if (give(s, ret))
        return failure(s, err);
    while (work(s, 0)) { /* keep both directions going */
        if (s->in_count == BRR_STREAM_IN_MESSAGES || s->failed)
            break;
    }
    return 0;
}

void brr_stream_counts(const brr_stream *s, struct brr_stream_counts *ret) {
    *ret = (struct brr_stream_counts){s->pushed, s->received, s->consumed, s->in_count};
}

void brr_stream_close(brr_stream *s) {
    if (!s)
        return;
    conn_call_close(s->call);
    while (s->out_first) {
        struct packet *next = s->out_first->next;
        free(s->out_first);
        s->out_first = next;
    }
    while (s->in_count--) {
        drop_message(s->in[s->in_first]);
        s->in_first = (s->in_first + 1) % BRR_STREAM_IN_MESSAGES;
    }
    drop_message(s->taken);
    drop_message(s->opened);
    free(s->events);
    free(s);
}
