/* One recording or live source through brr.v1.Stream/Run. Two bounded queues: packed messages on their way out (outbox), and
 * unpacked ones to be taken (inbox). While the inbox is full nothing is received, so the daemon stops reading, so the outbox fills
 * and a push says BRR_AGAIN: the owner's pace is everybody's pace and nothing is lost. */
#include "client/stream.h"

enum { OPEN_TIMEOUT_MS = 120000, RESUME_MS = 120000, MOVE_MS = 10000, BUFFER_S = 150, LEAST_BUFFER_BYTES = 64 << 20 };

static int failure(const struct brr_stream *s, struct brr_error *err) {
    if (err)
        *err = s->link.error;
    return s->link.error.code;
}

static int end_of(const struct brr_stream *s, struct brr_error *err, int otherwise) {
    if (s->link.state == LINK_FAILED)
        return failure(s, err);
    return s->link.state == LINK_ENDED ? BRR_END : otherwise;
}

/* ---- waiting ---- */

/* One round of work; false when nothing happened within the timeout. */
static bool work(struct brr_stream *s, int64_t timeout_ms) {
    if (link_advance(&s->link))
        return true;
    int64_t due = link_due_ms(&s->link);
    bool timer = due >= 0 && (timeout_ms < 0 || due <= timeout_ms);
    int64_t wait_ms = timer ? due : timeout_ms;
    if (s->link.call) {
        if (!conn_call_poll(s->link.call, wait_ms) && !timer)
            return false;
    } else if (wait_ms > 0) { /* away: there is always a timer */
        struct timespec pause = {wait_ms / 1000, wait_ms % 1000 * 1000000};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        if (!timer)
            return false;
    } else if (!timer) {
        return false;
    }
    link_advance(&s->link);
    return true;
}

/* Work until `done` says so. False on timeout; failures, the end of the stream and a full inbox stop it too. */
static bool work_until(struct brr_stream *s, bool (*done)(const struct brr_stream *s, size_t need), size_t need,
                       int64_t timeout_ms) {
    int64_t start = clock_ms();
    while (!done(s, need)) {
        int64_t left = timeout_ms < 0 ? -1 : timeout_ms - (clock_ms() - start);
        if (timeout_ms >= 0 && left < 0)
            left = 0;
        if (s->link.state >= LINK_ENDED || inbox_full(&s->link.in) || !work(s, left))
            return done(s, need);
    }
    return true;
}

/* ---- open ---- */

static bool answered(const struct brr_stream *s, size_t need) {
    (void)need;
    return s->link.opened != NULL;
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

void stream_learn(brr_stream *s) {
    const Brr__V1__Opened *o = s->link.opened->opened;
    s->info = (struct brr_stream_info){.session_id = s->link.session_id,
                                       SAME_MEMBERS(*o, model_sha256, note, max_chunk_samples, window_s, hop_s),
                                       SAME_MEMBERS(*o, alarm_hop_s, threshold_on, threshold_off, alarm_threshold_on),
                                       .montage = (const char *const *)o->montage,
                                       .n_montage = (int)o->n_montage,
                                       .used = o->used_channels,
                                       .n_used = (int)o->n_used_channels,
                                       .resumable = s->link.out.keep,
                                       .alarm_threshold_off = o->alarm_threshold_off};
    if (!s->link.out.keep)
        s->buffer_bytes = BRR_STREAM_OUT_BYTES;
}

static void fill_open(Brr__V1__Open *open, const struct brr_stream_config *c) {
    brr__v1__open__init(open);
    open->model = (char *)(uintptr_t)c->model;
    open->channels = (char **)(uintptr_t)c->channels;
    open->n_channels = (size_t)c->n_channels;
    open->rate_hz = c->rate_hz;
    open->format = BRR__V1__SAMPLE_FORMAT__SAMPLE_FORMAT_F32_UV;
    open->client_name = (char *)(uintptr_t)(c->client_name ? c->client_name : "libbrr");
    open->realtime = c->realtime != 0;
    open->replay = c->realtime == 2;
    open->want_probabilities = c->want_probabilities != 0;
    COPY_MEMBERS(*open, *c, alarm_hop_s, start_time_ms, threshold_on, threshold_off, alarm_rate, partial);
    open->patient = (char *)(uintptr_t)(c->patient ? c->patient : "");
    open->device = (char *)(uintptr_t)(c->device ? c->device : "");
    open->resumable = !c->no_resume;
}

int stream_new(brr_client *client, const struct brr_stream_config *config, brr_stream **ret, Brr__V1__Open *open,
               struct brr_error *err) {
    int rc = check_config(config, err);
    struct brr_stream *s = rc ? NULL : calloc(1, sizeof *s);
    if (!s)
        return rc ? rc : conn_error(err, BRR_EXHAUSTED, "out of memory for a stream");
    double held = config->rate_hz * config->n_channels * (double)sizeof(float) * BUFFER_S;
    s->n_channels = config->n_channels;
    s->buffer_bytes = config->buffer_bytes > 0    ? (size_t)config->buffer_bytes
                      : held > LEAST_BUFFER_BYTES ? (size_t)held
                                                  : LEAST_BUFFER_BYTES;
    s->link.client = client;
    s->link.resume_ms = config->no_resume ? 0 : config->resume_ms > 0 ? config->resume_ms : RESUME_MS;
    s->link.follow_ttl = !config->no_resume && config->resume_ms <= 0;
    s->link.move_ms = config->move_after_ms > 0 ? config->move_after_ms : MOVE_MS;
    fill_open(open, config);
    *ret = s;
    return 0;
}

int64_t stream_open_timeout_ms(const struct brr_stream_config *config) {
    return config->open_timeout_ms > 0 ? config->open_timeout_ms : OPEN_TIMEOUT_MS;
}

/* Waits for the daemon's answer to Open. */
static int await_answer(brr_stream *s, int64_t patience_ms, struct brr_error *err) {
    if (work_until(s, answered, 0, patience_ms))
        return 0;
    int rc = end_of(s, err, BRR_AGAIN);
    return rc != BRR_AGAIN
               ? rc
               : conn_error(err, BRR_DEADLINE, "no answer to Open within %lld s; the device is busy or the model slow to load",
                            (long long)(patience_ms / 1000));
}

int brr_stream_open(brr_client *client, const struct brr_stream_config *config, brr_stream **ret, struct brr_error *err) {
    struct brr_stream *s;
    Brr__V1__Open open;
    int rc = stream_new(client, config, &s, &open, err);
    if (rc)
        return rc;
    if ((rc = link_start(&s->link, &open, err)) || (rc = await_answer(s, stream_open_timeout_ms(config), err))) {
        stream_free(s);
        return rc;
    }
    stream_learn(s);
    *ret = s;
    return 0;
}

const struct brr_stream_info *brr_stream_info(const brr_stream *s) { return &s->info; }

/* ---- push ---- */

bool stream_has_room(const brr_stream *s, size_t need) {
    const struct outbox *o = &s->link.out;
    return !o->first || (o->bytes < s->buffer_bytes && need <= s->buffer_bytes - o->bytes);
}

static int queue(struct brr_stream *s, const ProtobufCMessage *m, int64_t end) {
    return outbox_add(&s->link.out, m, end) ? 0 : link_fail(&s->link, BRR_EXHAUSTED, "out of memory for samples of a stream");
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
    return queue(s, &m.base, first + samples);
}

/* Rows [at, at + part) of every channel, cut out of (channels, n). */
static int queue_part(struct brr_stream *s, int64_t first, const float *uv, int64_t n, int64_t at) {
    int64_t part = n - at < s->info.max_chunk_samples ? n - at : s->info.max_chunk_samples;
    float *cut = part == n ? NULL : malloc((size_t)part * (size_t)s->n_channels * sizeof *cut);
    if (part == n)
        return queue_chunk(s, first, (const uint8_t *)uv, (int32_t)part);
    if (!cut)
        return link_fail(&s->link, BRR_EXHAUSTED, "out of memory for samples of a stream");
    for (int c = 0; c < s->n_channels; c++)
        memcpy(cut + c * part, uv + c * n + at, (size_t)part * sizeof *cut);
    int rc = queue_chunk(s, first + at, (const uint8_t *)cut, (int32_t)part);
    free(cut);
    return rc;
}

/* Sends what can be sent. A loop looks again at a stream whose link is not as it was. */
static void stream_advance(struct brr_stream *s) {
    if (s->link.state < LINK_ENDED)
        link_advance(&s->link);
    if (s->due_ms && s->link.state != LINK_RUNNING)
        *s->due_ms = 0;
}

static int stopped(struct brr_stream *s, struct brr_error *err) {
    stream_advance(s);
    return failure(s, err);
}

static int check_push(const struct brr_stream *s, int64_t n, struct brr_error *err) {
    if (s->link.state == LINK_FAILED)
        return failure(s, err);
    if (s->link.finished)
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
    const size_t need = (size_t)n * (size_t)s->n_channels * sizeof *uv;
    bool room = s->list ? s->info.max_chunk_samples && stream_has_room(s, need) : work_until(s, stream_has_room, need, timeout_ms);
    if (s->link.state == LINK_FAILED)
        return failure(s, err);
    if (s->link.state == LINK_ENDED)
        return conn_error(err, BRR_PRECONDITION, "the daemon has ended the stream; nothing more can be pushed");
    if (!room) {
        s->room_wanted = need;
        return BRR_AGAIN;
    }
    for (int64_t at = 0; at < n; at += s->info.max_chunk_samples)
        if (queue_part(s, first, uv, n, at))
            return stopped(s, err);
    if (first + n > s->pushed)
        s->pushed = first + n;
    stream_advance(s);
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
    if (queue(s, &m.base, gap.end))
        return stopped(s, err);
    s->pushed += n;
    stream_advance(s);
    return 0;
}

int brr_stream_finish(brr_stream *s, struct brr_error *err) {
    if (s->link.state == LINK_FAILED)
        return failure(s, err);
    s->link.finished = true;
    stream_advance(s);
    return 0;
}

/* ---- next ---- */

static bool has_message(const struct brr_stream *s, size_t need) { return (size_t)s->link.in.count > need; }

int brr_stream_next(brr_stream *s, int64_t timeout_ms, struct brr_message *ret, struct brr_error *err) {
    if (s->list)
        return conn_error(err, BRR_PRECONDITION, "the stream belongs to a loop; its handler takes the messages");
    if (!work_until(s, has_message, 0, timeout_ms))
        return end_of(s, err, BRR_AGAIN);
    int rc = inbox_take(&s->link.in, ret, err);
    if (rc)
        return link_fail(&s->link, rc, "out of memory for events");
    while (s->link.state < LINK_ENDED && !inbox_full(&s->link.in) && work(s, 0)) { /* keep both directions going */
    }
    return 0;
}

void brr_stream_counts(const brr_stream *s, struct brr_stream_counts *ret) {
    const struct link *l = &s->link;
    *ret = (struct brr_stream_counts){.pushed = s->pushed,
                                      SAME_MEMBERS(*l, received, reconnects),
                                      .consumed = l->durable,
                                      .messages = l->in.count,
                                      .connected = l->state == LINK_RUNNING,
                                      .unsaved = l->unsaved};
}

/* ---- close ---- */

void stream_free(brr_stream *s) {
    link_done(&s->link);
    free(s);
}

void brr_stream_close(brr_stream *s) {
    if (!s)
        return;
    if (s->busy) { /* its handler closes it */
        s->close_wanted = true;
        return;
    }
    if (s->list && s->before)
        s->before->after = s->after;
    else if (s->list)
        *s->list = s->after;
    if (s->list && s->after)
        s->after->before = s->before;
    stream_free(s);
}
