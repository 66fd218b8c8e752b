#include "client/brrctl/detect/playback.h"

#include "base/needed.h"
#include "brr/v1/sessions.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/interrupt.h"
#include "eeg/frontend.h"

enum { CHUNK_S = 8, NEXT_MS = 1000, HELD_S = 150, FINISH_S = 120, RESULT_HZ = 256, LEAST_PAUSE_MS = 1000, MOST_PAUSE_MS = 30000 };
#define EVER_MS (INT64_C(10) * 365 * 24 * 3600 * 1000)

struct playback {
    struct source *source; /* owned */
    int64_t reconnects;
};

/* One run over the source. */
struct run {
    struct playback *r;
    brr_stream *stream;
    const struct playback_config *config;
    const struct playback_sink *sink;
    struct brr_event *events;            /* a message's, in the time of the source */
    struct brr_suppression *suppression; /* the same */
    float *chunk;                        /* (channels, chunk_samples) */
    int64_t chunk_samples;
    int64_t position; /* next source sample of file time */
    double start_s;
    int64_t origin; /* where in it the stream began: 0, but of a live source's later streams */
    int64_t lost_streams;
    bool source_failed;
    int64_t missed; /* of these, the last ones that were not kept while the daemon was away: a gap to be */
    bool away;      /* the sink knows that the connection is lost */
    bool unsaved;   /* as the sink heard it last */
    struct brr_error *err;
};

struct playback *playback_new(struct source *source) {
    struct playback *r = needed(calloc(1, sizeof *r));
    r->source = source;
    return r;
}

void playback_close(struct playback *r) {
    if (!r)
        return;
    source_close(r->source);
    free(r);
}

const struct source *playback_source(const struct playback *r) { return r->source; }
int64_t playback_reconnects(const struct playback *r) { return r->reconnects; }
const char *playback_ended(const struct playback *r) { return r->source->kind->ended(r->source); }

int64_t playback_left_bytes(const struct playback *r) {
    return r->source->kind->left_bytes ? r->source->kind->left_bytes(r->source) : 0;
}

const char *playback_remark(const struct playback *r) { return r->source->kind->remark ? r->source->kind->remark(r->source) : ""; }

/* ---- the stream ---- */

static void say_progress(struct run *run) {
    struct brr_stream_counts counts;
    brr_stream_counts(run->stream, &counts);
    run->r->reconnects = run->lost_streams + counts.reconnects;
    if (run->sink->unsaved && counts.unsaved != run->unsaved)
        run->sink->unsaved(run->sink->ctx, counts.unsaved);
    run->unsaved = counts.unsaved;
    if (run->sink->progress)
        run->sink->progress(run->sink->ctx, (double)(run->origin + counts.received) / run->r->source->rate_hz);
}

/* The stream goes on, perhaps without a connection at present. */
static void look_at_connection(struct run *run) {
    struct brr_stream_counts counts;
    brr_stream_counts(run->stream, &counts);
    if (!counts.connected && !run->away && run->sink->lost)
        run->sink->lost(run->sink->ctx);
    run->away = !counts.connected;
}

/* A complete recording of which the rest is not wanted; other sources end themselves. */
static bool is_interrupted(const struct run *run) { return run->r->source->edf && interrupt_seen(); }

/* The message with places in the time of the source in place of the stream's. */
static void shift(struct run *run, struct brr_message *m) {
    const int64_t by = llround((double)run->origin / run->r->source->rate_hz * RESULT_HZ);
    if (!by || m->kind == BRR_RECONNECTED)
        return;
    m->first += m->kind == BRR_SUMMARY ? 0 : by;
    m->samples += m->kind == BRR_SUMMARY ? by : 0;
    m->alarm.sample += by;
    run->events = needed(realloc(run->events, ((size_t)m->n_events + 1) * sizeof *run->events));
    for (int i = 0; i < m->n_events; i++) {
        run->events[i] = m->events[i];
        run->events[i].first += by;
        run->events[i].end += by;
    }
    run->suppression = needed(realloc(run->suppression, ((size_t)m->n_suppression + 1) * sizeof *run->suppression));
    for (int i = 0; i < m->n_suppression; i++) {
        run->suppression[i] = m->suppression[i];
        run->suppression[i].end += by;
    }
    COPY_MEMBERS(*m, *run, events, suppression);
}

/* Take what came within the timeout: 0, BRR_END or an error. */
static int take(struct run *run, int64_t timeout_ms) {
    struct brr_message m;
    int rc;
    while (!(rc = brr_stream_next(run->stream, timeout_ms, &m, run->err))) {
        shift(run, &m);
        run->sink->message(run->sink->ctx, &m);
        timeout_ms = 0;
    }
    say_progress(run);
    if (rc != BRR_AGAIN)
        return rc;
    look_at_connection(run);
    return is_interrupted(run) ? brrctl_set_error(run->err, BRR_CANCELLED, "interrupted") : 0;
}

/* Wait until the samples before `position` would have been recorded. */
static int keep_pace(struct run *run) {
    if (!(run->config->pace > 0))
        return take(run, 0);
    double due = (double)run->position / run->r->source->rate_hz / run->config->pace, left;
    int rc;
    while ((left = due - (clock_s() - run->start_s)) > 0)
        if ((rc = take(run, left * 1000 > NEXT_MS ? NEXT_MS : (int64_t)(left * 1000) + 1)))
            return rc;
    return take(run, 0);
}

/* True if the daemon is away, and does not have so many of the samples that were pushed. */
static bool lacks(const struct run *run, double seconds) {
    struct brr_stream_counts counts;
    brr_stream_counts(run->stream, &counts);
    return !counts.connected && (double)(counts.pushed - counts.consumed) >= seconds * run->r->source->rate_hz;
}

/* Skips n samples of a live source that nobody can keep while the daemon is away; they become a gap. */
static int miss(struct run *run, int64_t n) {
    run->missed += n;
    run->position += n;
    return take(run, 0);
}

static int declare_missed(struct run *run) {
    int rc = run->missed ? brr_stream_gap(run->stream, run->missed, "the daemon was away", run->err) : 0;
    run->missed = 0;
    return rc;
}

static int push(struct run *run, const float *uv, int64_t n) {
    int rc;
    if (run->config->live && lacks(run, HELD_S))
        return miss(run, n);
    if ((rc = declare_missed(run)))
        return rc;
    if (run->sink->samples)
        run->sink->samples(run->sink->ctx, uv, run->position, n);
    while ((rc = brr_stream_push(run->stream, uv, n, 0, run->err)) == BRR_AGAIN)
        if (run->config->live && lacks(run, 0))
            return miss(run, n);
        else if ((rc = take(run, NEXT_MS)))
            break;
    if (rc)
        return rc == BRR_END ? brrctl_set_error(run->err, BRR_ABORTED, "the daemon ended the stream early") : rc;
    run->position += n;
    return keep_pace(run);
}

/* The samples of a block in chunks. */
static int push_block(struct run *run, const struct source_block *block) {
    int channels = run->r->source->n, rc;
    for (int64_t at = 0; at < block->n; at += run->chunk_samples) {
        int64_t part = block->n - at < run->chunk_samples ? block->n - at : run->chunk_samples;
        for (int c = 0; c < channels; c++)
            memcpy(run->chunk + c * part, block->uv[c] + at, (size_t)part * sizeof *run->chunk);
        if ((rc = push(run, run->chunk, part)))
            return rc;
    }
    return 0;
}

/* The gap before a block, if there is one. */
static int push_gap(struct run *run, const struct source_block *block) {
    if (block->first < 0 || (block->first <= run->position && block->first >= run->position - 1))
        return 0;
    run->source_failed = block->first < run->position;
    if (run->source_failed)
        return brrctl_set_error(run->err, BRR_DATA_LOSS, "records overlap in time: a segment starts before the one before it ends");
    int rc = declare_missed(run);
    const double most = run->config->split_gaps ? floor(EEGFILE_MOST_GAP_S * run->r->source->rate_hz) : 0;
    while (!rc && run->position < block->first) {
        const int64_t left = block->first - run->position, n = most >= 1 && (double)left > most ? (int64_t)most : left;
        if ((rc = brr_stream_gap(run->stream, n, block->cause ? block->cause : "file", run->err)) == 0) {
            run->position += n;
            rc = take(run, 0);
        }
    }
    return rc;
}

static int push_all(struct run *run) {
    struct source *source = run->r->source;
    struct source_block block = {0};
    struct err err;
    int rc;
    while (!block.end) {
        run->source_failed = source->kind->next(source, &block, &err);
        if (run->source_failed)
            return brrctl_keep_error(run->err, &err);
        if ((rc = push_gap(run, &block)) || (rc = block.n ? push_block(run, &block) : take(run, 0)))
            return rc;
    }
    return 0;
}

/* A live source that has ended waits for a daemon no longer than others do. */
static int finish(struct run *run) {
    const double since_s = clock_s();
    int rc = declare_missed(run);
    rc = rc ? rc : brr_stream_finish(run->stream, run->err);
    while (rc == 0) {
        rc = take(run, NEXT_MS);
        if (!rc && run->config->live && lacks(run, 0) && clock_s() - since_s > FINISH_S)
            rc = brrctl_set_error(run->err, BRR_UNAVAILABLE, "the daemon did not come back before the results were complete");
    }
    return rc == BRR_END ? 0 : rc;
}

static int64_t choose_chunk(const struct run *run, const struct brr_stream_info *info) {
    int64_t n = run->config->chunk_samples;
    if (n <= 0) /* live: a quarter of a second; else what is worth a message */
        n = (int64_t)(run->r->source->rate_hz * (run->config->pace > 0 ? 0.25 * fmin(run->config->pace, 4.0 * CHUNK_S) : CHUNK_S));
    n = n < 1 ? 1 : n;
    return run->config->chunk_samples <= 0 && n > info->max_chunk_samples ? info->max_chunk_samples : n;
}

/* The channels that the model reads must be voltages. */
static int check_units(struct source *source, const struct brr_stream_info *info, struct brr_error *failed) {
    int used[FRONTEND_MAX_LABELS], n = 0;
    struct err err;
    for (int i = 0; i < info->n_used && n < FRONTEND_MAX_LABELS; i++)
        if (info->used[i] >= 0 && info->used[i] < source->n)
            used[n++] = info->used[i];
    return source->kind->check_units(source, used, n, &err) ? brrctl_keep_error(failed, &err) : 0;
}

static int stream_file(struct run *run) {
    const struct brr_stream_info *info = brr_stream_info(run->stream);
    int rc = check_units(run->r->source, info, run->err);
    if (rc)
        return rc;
    run->chunk_samples = choose_chunk(run, info);
    run->chunk = needed(malloc(sizeof *run->chunk * (size_t)run->chunk_samples * (size_t)run->r->source->n));
    run->start_s = clock_s();
    run->sink->opened(run->sink->ctx, info);
    if ((rc = push_all(run)) || (rc = finish(run)))
        return rc == BRR_END ? brrctl_set_error(run->err, BRR_ABORTED, "the daemon ended the stream early") : rc;
    return 0;
}

/* Closes the session of a stream that was interrupted or failed on this side. Otherwise it would wait for its client for
 * limits.resume_ttl. */
static void close_session(brr_client *client, const brr_stream *stream, const char *why) {
    Brr__V1__CloseSessionRequest in = BRR__V1__CLOSE_SESSION_REQUEST__INIT;
    struct brr_stream_counts counts;
    struct brr_error err;
    brr_stream_counts(stream, &counts);
    if (!counts.connected)
        return;
    in.session_id = (char *)(uintptr_t)brr_stream_info(stream)->session_id;
    in.reason = (char *)(uintptr_t)why;
    OWNED_ANSWER Brr__V1__CloseSessionResponse *out = brrctl_ask_within(client, "/brr.v1.Sessions/Close", &in.base, 5000, &err);
}

/* The Unix time of a local one; −1 when the clock never showed it with this setting of daylight saving time. */
static time_t unix_time(const struct tm *local, int dst) {
    struct tm tm = *local;
    tm.tm_isdst = dst;
    time_t t = mktime(&tm);
    return tm.tm_hour == local->tm_hour && tm.tm_min == local->tm_min && tm.tm_isdst == dst ? t : -1;
}

/* Unix time of the first sample, in ms; 0 when nobody knows it. EDF has the local time of the place of the recording, without a
 * zone: this machine's is taken, and of an hour that the clock showed twice the earlier one. */
static int64_t start_ms(const struct source *source) {
    const struct eeg_start *at = &source->info->start;
    if (source->start_ms)
        return source->start_ms;
    struct tm tm = {.tm_year = at->year - 1900,
                    .tm_mon = at->month - 1,
                    .tm_mday = at->day,
                    .tm_hour = at->hour,
                    .tm_min = at->minute,
                    .tm_sec = at->second,
                    .tm_isdst = -1};
    time_t summer = at->known ? unix_time(&tm, 1) : -1, winter = at->known ? unix_time(&tm, 0) : -1;
    if (summer > 0 && winter > 0 && summer != winter)
        fprintf(stderr, "brrctl: note: the clock showed the start, %02d:%02d, twice that day; the earlier one is taken\n", at->hour,
                at->minute);
    time_t t = at->known ? mktime(&tm) : 0;
    if (summer > 0 && winter > 0)
        t = summer < winter ? summer : winter;
    return t > 0 ? (int64_t)t * 1000 + llround(at->subsecond * 1000) : 0;
}

/* ---- streams of a live source ---- */

/* True if the source can go on in another stream: the daemon is away, starts, is overloaded, or no longer has the stream. What is
 * wrong with the request or its caller stays wrong, and who closed a stream meant it. */
static bool outlives_stream(const struct run *run) {
    const struct brr_error *e = run->err;
    if (!run->config->live || run->config->no_resume || run->source_failed || *run->r->source->kind->ended(run->r->source))
        return false;
    return e->code == BRR_UNAVAILABLE || e->code == BRR_EXHAUSTED || e->code == BRR_DEADLINE || e->code == BRR_DATA_LOSS ||
           (e->code == BRR_ABORTED && strcmp(e->reason, "SESSION_CLOSED") != 0 && strcmp(e->reason, "TAKEN_OVER") != 0);
}

/* Reads the source on while there is no stream. False: it has ended. */
static bool read_past(struct run *run, int64_t ms) {
    struct source *source = run->r->source;
    struct source_block block = {0};
    struct err err;
    const int64_t until_ms = clock_ms() + ms;
    while (!block.end && clock_ms() < until_ms) {
        run->source_failed = source->kind->next(source, &block, &err);
        if (run->source_failed) {
            brrctl_keep_error(run->err, &err);
            return false;
        }
        run->position = (block.first > run->position ? block.first : run->position) + block.n;
    }
    return !block.end;
}

/* Opens a stream that begins where the source is; of a live one as soon as there is a daemon for it. */
static int open_next_stream(struct run *run, brr_client *client, const struct brr_stream_config *config) {
    struct brr_stream_config open = *config;
    const int64_t away_since_ms = clock_ms();
    for (;;) {
        run->origin = run->position;
        run->missed = 0;
        if (config->start_time_ms)
            open.start_time_ms = config->start_time_ms + llround((double)run->origin * 1000 / run->r->source->rate_hz);
        int rc = brr_stream_open(client, &open, &run->stream, run->err);
        if (!rc && run->away)
            run->sink->message(run->sink->ctx, &(struct brr_message){.kind = BRR_RECONNECTED,
                                                                     .first = run->origin,
                                                                     .reconnected = {clock_ms() - away_since_ms, 1}});
        if (!rc || !outlives_stream(run))
            return rc;
        if (!run->away && run->sink->lost)
            run->sink->lost(run->sink->ctx);
        run->away = true;
        const int64_t hint_ms = run->err->retry_after_ms;
        if (!read_past(run, hint_ms < LEAST_PAUSE_MS ? LEAST_PAUSE_MS : hint_ms > MOST_PAUSE_MS ? MOST_PAUSE_MS : hint_ms))
            return run->err->code;
    }
}

int playback_run(struct playback *r, brr_client *client, const struct playback_config *config, const struct playback_sink *sink,
                 struct brr_error *err) {
    struct run run = {.r = r, .config = config, .sink = sink, .err = err};
    struct brr_stream_config open = {.model = config->model,
                                     .channels = r->source->labels,
                                     .n_channels = r->source->n,
                                     .rate_hz = r->source->rate_hz,
                                     .client_name = config->client,
                                     .start_time_ms = config->as_live ? clock_wall_ms() : start_ms(r->source), /* a drill is now */
                                     .realtime = config->live        ? 1
                                                 : config->pace <= 0 ? 0
                                                 : config->as_live   ? 1
                                                                     : 2,
                                     .want_probabilities = 1,
                                     .threshold_on = config->on,
                                     .threshold_off = config->off,
                                     SAME_MEMBERS(*config, partial, patient, alarm_rate, device, no_resume),
                                     .resume_ms = config->live ? EVER_MS : 0,
                                     .move_after_ms = (int64_t)(config->move_after_s * 1000),
                                     .alarm_hop_s = config->alarm_hop_s};
    int rc;
    do {
        if ((rc = open_next_stream(&run, client, &open)))
            break;
        rc = stream_file(&run);
        if (rc)
            close_session(client, run.stream, err->message);
        brr_stream_close(run.stream);
        FREE_MEMBERS(run, chunk);
        run.lost_streams = r->reconnects + 1;
    } while (rc && outlives_stream(&run));
    FREE_MEMBERS(run, events, suppression);
    return rc;
}
