#include "client/brrctl/playback.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/feed.h"
#include "data/channels.h"
#include "data/frontend.h"

enum { READ_BYTES = 4 << 20, CHUNK_S = 8, NEXT_MS = 1000 };

struct playback {
    struct edf *file; /* or NULL, and then */
    struct feed *feed;
    const struct edf *edf; /* of either */
    const struct edf_info *info;
    int signals[FRONTEND_MAX_LABELS], n;
    const char *labels[FRONTEND_MAX_LABELS];
    int64_t per_record; /* samples of each signal */
    double rate_hz;
    int64_t reconnects;
    char assumed[200];
};

/* One run over the file. */
struct run {
    struct playback *r;
    brr_stream *stream;
    const struct playback_config *config;
    const struct playback_sink *sink;
    float *chunk; /* (channels, chunk_samples) */
    int64_t chunk_samples;
    int64_t position; /* next source sample of file time */
    double start_s;
    bool away;    /* the sink knows that the connection is lost */
    bool unsaved; /* as the sink heard it last */
    struct brr_error *err;
};

/* ---- the file ---- */

static bool candidate(const struct edf_signal *s) { return !s->annotation && s->usable && s->rate_hz > 0; }

/* Samples per record that most voltage signals have; without voltages, that most signals have. 0 = nothing to send. */
static int64_t common_samples(const struct edf_info *info) {
    int64_t best = 0;
    int most = 0;
    for (int volt = 1; volt >= 0 && !most; volt--)
        for (int i = 0; i < info->n_signals; i++) {
            const struct edf_signal *s = &info->signals[i];
            int same = 0;
            for (int k = 0; k < info->n_signals; k++)
                same += candidate(&info->signals[k]) && (!volt || info->signals[k].volt) &&
                        info->signals[k].samples_per_record == s->samples_per_record;
            if (candidate(s) && same > most) {
                most = same;
                best = s->samples_per_record;
            }
        }
    return best;
}

/* Choose what is sent. */
static int choose_signals(struct playback *r, const char *path, struct err *err) {
    r->info = edf_info(r->edf);
    r->per_record = common_samples(r->info);
    for (int i = 0; i < r->info->n_signals && r->n < FRONTEND_MAX_LABELS; i++) {
        const struct edf_signal *s = &r->info->signals[i];
        if (!candidate(s) || s->samples_per_record != r->per_record)
            continue;
        r->rate_hz = s->rate_hz;
        r->labels[r->n] = s->label;
        r->signals[r->n++] = i;
    }
    return r->n ? 0 : err_set(err, ERR_PRECONDITION, "%s: no usable signal", path);
}

static int open_source(struct playback *r, const char *path, double idle_s, bool feed, struct err *err) {
    int rc = feed ? feed_open(path, idle_s, &r->feed, err) : edf_open(path, &r->file, err);
    if (rc)
        return rc;
    r->edf = feed ? feed_edf(r->feed) : r->file;
    return choose_signals(r, path, err);
}

static int open_either(const char *path, double idle_s, bool feed, struct playback **ret, struct err *err) {
    struct playback *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %s", path);
    int rc = open_source(r, path, idle_s, feed, err);
    if (rc) {
        playback_close(r);
        return rc;
    }
    *ret = r;
    return 0;
}

int playback_open(const char *path, struct playback **ret, struct err *err) { return open_either(path, 0, false, ret, err); }

int playback_open_feed(const char *path, double idle_s, struct playback **ret, struct err *err) {
    return open_either(path, idle_s, true, ret, err);
}

void playback_close(struct playback *r) {
    if (!r)
        return;
    edf_close(r->file);
    feed_close(r->feed);
    free(r);
}

const char *playback_ended(const struct playback *r) { return r->feed ? feed_ended(r->feed) : "file"; }
int64_t playback_reconnects(const struct playback *r) { return r->reconnects; }
int64_t playback_left_bytes(const struct playback *r) { return r->feed ? feed_left_bytes(r->feed) : 0; }
const struct edf *playback_edf(const struct playback *r) { return r->edf; }
const char *playback_assumed(const struct playback *r) { return r->assumed; }
double playback_rate_hz(const struct playback *r) { return r->rate_hz; }

int playback_channels(const struct playback *r, const char *const **ret) {
    *ret = r->labels;
    return r->n;
}

/* ---- the stream ---- */

static void say_progress(struct run *run) {
    struct brr_stream_counts counts;
    brr_stream_counts(run->stream, &counts);
    run->r->reconnects = counts.reconnects;
    if (run->sink->unsaved && counts.unsaved != run->unsaved)
        run->sink->unsaved(run->sink->ctx, counts.unsaved);
    run->unsaved = counts.unsaved;
    if (run->sink->progress)
        run->sink->progress(run->sink->ctx, (double)counts.received / run->r->rate_hz);
}

/* The stream goes on, perhaps without a connection at present. */
static void look_at_connection(struct run *run) {
    struct brr_stream_counts counts;
    brr_stream_counts(run->stream, &counts);
    if (!counts.connected && !run->away && run->sink->lost)
        run->sink->lost(run->sink->ctx);
    run->away = !counts.connected;
}

/* Take what came within the timeout: 0, BRR_END or an error. */
static int take(struct run *run, int64_t timeout_ms) {
    struct brr_message m;
    int rc;
    while (!(rc = brr_stream_next(run->stream, timeout_ms, &m, run->err))) {
        run->sink->message(run->sink->ctx, &m);
        timeout_ms = 0;
    }
    say_progress(run);
    if (rc != BRR_AGAIN)
        return rc;
    look_at_connection(run);
    return 0;
}

/* Wait until the samples before `position` would have been recorded. */
static int keep_pace(struct run *run) {
    if (!(run->config->pace > 0))
        return take(run, 0);
    double due = (double)run->position / run->r->rate_hz / run->config->pace, left;
    int rc;
    while ((left = due - (clock_s() - run->start_s)) > 0)
        if ((rc = take(run, left * 1000 > NEXT_MS ? NEXT_MS : (int64_t)(left * 1000) + 1)))
            return rc;
    return take(run, 0);
}

static int push(struct run *run, const float *uv, int64_t n) {
    int rc;
    if (run->sink->samples)
        run->sink->samples(run->sink->ctx, uv, run->position, n);
    while ((rc = brr_stream_push(run->stream, uv, n, 0, run->err)) == BRR_AGAIN)
        if ((rc = take(run, NEXT_MS)))
            break;
    if (rc)
        return rc == BRR_END ? brrctl_set_error(run->err, BRR_ABORTED, "the daemon ended the stream early") : rc;
    run->position += n;
    return keep_pace(run);
}

/* (channels, n) of a read in chunks. */
static int push_read(struct run *run, float *const *uv, int64_t n) {
    int channels = run->r->n, rc;
    for (int64_t at = 0; at < n; at += run->chunk_samples) {
        int64_t part = n - at < run->chunk_samples ? n - at : run->chunk_samples;
        for (int c = 0; c < channels; c++)
            memcpy(run->chunk + c * part, uv[c] + at, (size_t)part * sizeof *run->chunk);
        if ((rc = push(run, run->chunk, part)))
            return rc;
    }
    return 0;
}

/* n records from `first` on, which lie in one segment. */
static int push_records(struct run *run, int64_t first, int64_t n_records) {
    struct playback *r = run->r;
    struct err err;
    int64_t records = READ_BYTES / (int64_t)sizeof(float) / r->n / r->per_record;
    records = records < 1 ? 1 : records > n_records ? n_records : records;
    OWNED_MEMORY float **uv = calloc((size_t)r->n, sizeof *uv);
    OWNED_MEMORY float *samples = malloc(sizeof *samples * (size_t)(records * r->per_record * r->n));
    if (!uv || !samples)
        return brrctl_set_error(run->err, BRR_EXHAUSTED, "out of memory for samples");
    for (int c = 0; c < r->n; c++)
        uv[c] = samples + (int64_t)c * records * r->per_record;
    for (int64_t done = 0; done < n_records; done += records) {
        int64_t n = n_records - done < records ? n_records - done : records;
        if (edf_read_signals(r->edf, r->signals, r->n, (struct edf_range){.first_record = first + done, .n_records = n}, uv, &err))
            return brrctl_keep_error(run->err, &err);
        int rc = push_read(run, uv, n * r->per_record);
        if (rc)
            return rc;
    }
    return 0;
}

/* The gap before a segment, if there is one. */
static int push_gap(struct run *run, const struct edf_segment *segment) {
    int64_t start = llround(segment->start_s * run->r->rate_hz);
    if (start < run->position - 1)
        return brrctl_set_error(run->err, BRR_DATA_LOSS, "records overlap in time: a segment starts before the one before it ends");
    if (start <= run->position)
        return 0;
    int rc = brr_stream_gap(run->stream, start - run->position, "file", run->err);
    run->position = start;
    return rc;
}

/* All records from number `from` on, the gaps among them included. Segment *at is the one that the record before was in. */
static int push_from(struct run *run, int64_t from, int *at) {
    const struct edf_segment *segments;
    int n = edf_segments(run->r->edf, &segments), rc;
    for (; *at < n; ++*at) {
        const struct edf_segment *s = &segments[*at];
        int64_t first = s->first_record > from ? s->first_record : from, end = s->first_record + s->n_records;
        if ((first == s->first_record && (rc = push_gap(run, s))) || (first < end && (rc = push_records(run, first, end - first))))
            return rc;
    }
    *at = n ? n - 1 : 0;
    return 0;
}

static int push_feed(struct run *run) {
    int64_t from = 0, n = 0;
    int segment = 0, rc;
    struct err err;
    do {
        if (feed_next(run->r->feed, &n, &err))
            return brrctl_keep_error(run->err, &err);
        if (n < 0)
            return 0;
        rc = n ? push_from(run, from, &segment) : take(run, 0);
        from += n;
    } while (rc == 0);
    return rc;
}

static int push_all(struct run *run) {
    int segment = 0;
    return run->r->feed ? push_feed(run) : push_from(run, 0, &segment);
}

static int finish(struct run *run) {
    int rc = brr_stream_finish(run->stream, run->err);
    while (rc == 0)
        rc = take(run, NEXT_MS);
    return rc == BRR_END ? 0 : rc;
}

static int64_t choose_chunk(const struct run *run, const struct brr_stream_info *info) {
    int64_t n = run->config->chunk_samples;
    if (n <= 0) /* live: a quarter of a second; else what is worth a message */
        n = (int64_t)(run->r->rate_hz * (run->config->pace > 0 ? 0.25 * fmin(run->config->pace, 4.0 * CHUNK_S) : CHUNK_S));
    n = n < 1 ? 1 : n;
    return run->config->chunk_samples <= 0 && n > info->max_chunk_samples ? info->max_chunk_samples : n;
}

/* The channels that the model reads must be voltages. */
static int check_units(struct playback *r, const struct brr_stream_info *info, struct brr_error *failed) {
    int used[FRONTEND_MAX_LABELS], n = 0;
    struct err err;
    for (int i = 0; i < info->n_used && n < FRONTEND_MAX_LABELS; i++)
        if (info->used[i] >= 0 && info->used[i] < r->n)
            used[n++] = r->signals[info->used[i]];
    return channels_check_units(r->info, used, n, r->assumed, sizeof r->assumed, &err) ? brrctl_keep_error(failed, &err) : 0;
}

static int stream_file(struct run *run) {
    const struct brr_stream_info *info = brr_stream_info(run->stream);
    int rc = check_units(run->r, info, run->err);
    if (rc)
        return rc;
    run->chunk_samples = choose_chunk(run, info);
    run->chunk = malloc(sizeof *run->chunk * (size_t)run->chunk_samples * (size_t)run->r->n);
    run->start_s = clock_s();
    run->sink->opened(run->sink->ctx, info);
    if (!run->chunk)
        return brrctl_set_error(run->err, BRR_EXHAUSTED, "out of memory for a chunk");
    if ((rc = push_all(run)) || (rc = finish(run)))
        return rc == BRR_END ? brrctl_set_error(run->err, BRR_ABORTED, "the daemon ended the stream early") : rc;
    return 0;
}

/* Unix time of the first sample, in ms; 0 when the header does not say it. EDF has the local time of the place of the recording,
 * without a zone: this machine's is taken. */
static int64_t start_ms(const struct edf_info *info) {
    const struct edf_start *at = &info->start;
    struct tm tm = {.tm_year = at->year - 1900,
                    .tm_mon = at->month - 1,
                    .tm_mday = at->day,
                    .tm_hour = at->hour,
                    .tm_min = at->minute,
                    .tm_sec = at->second,
                    .tm_isdst = -1};
    time_t t = at->known ? mktime(&tm) : 0;
    return t > 0 ? (int64_t)t * 1000 + llround(at->subsecond * 1000) : 0;
}

int playback_run(struct playback *r, brr_client *client, const struct playback_config *config, const struct playback_sink *sink,
                 struct brr_error *err) {
    struct run run = {.r = r, .config = config, .sink = sink, .err = err};
    struct brr_stream_config open = {.model = config->model,
                                     .channels = r->labels,
                                     .n_channels = r->n,
                                     .rate_hz = r->rate_hz,
                                     .client_name = config->client,
                                     .start_time_ms = start_ms(r->info),
                                     .realtime = config->pace > 0 || (r->feed && feed_is_live(r->feed)),
                                     .want_probabilities = 1,
                                     .threshold_on = config->on,
                                     .threshold_off = config->off,
                                     .alarm_rate = config->alarm_rate,
                                     .device = config->device,
                                     .no_resume = config->no_resume,
                                     .alarm_hop_s = config->alarm_hop_s};
    int rc = brr_stream_open(client, &open, &run.stream, err);
    if (rc)
        return rc;
    rc = stream_file(&run);
    free(run.chunk);
    brr_stream_close(run.stream);
    return rc;
}
