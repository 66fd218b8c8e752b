#include "client/brrctl/detect/detection.h"

#include "base/needed.h"
#include "eeg/channels.h"
#include "formats/npy.h"
#include "store/digest.h"
#include "store/outputs.h"

enum { PLOT_CHANNELS_SHOWN = 19, WRITE_BUFFER = 1 << 20, ALARM_SIGNAL_S = 30, MAX_EVENTS_BYTES = 256 << 20 };

/* ---- what arrives ---- */

static void on_opened(void *ctx, const struct brr_stream_info *info) {
    struct detection *d = ctx;
    d->info = info;
    d->on = info->threshold_on;
    d->off = info->threshold_off;
    d->alarm_on = info->alarm_threshold_on;
    d->alarm_off = info->alarm_threshold_off;
    COPY_MEMBERS(*d, *info, window_s, hop_s, alarm_hop_s);
    str_copy(d->model_sha256, sizeof d->model_sha256, info->model_sha256);
    const struct source *source = playback_source(d->playback);
    const char *assumed = source->assumed;
    str_format(d->note, sizeof d->note, "%s%s%s", info->note, *info->note && *assumed ? "; " : "", assumed);
    str_copy(d->session, sizeof d->session, info->session_id);
    if (d->config->want_suppression)
        suppression_table_begin(&d->suppression, info);
    d->rows = needed(realloc(d->rows, (size_t)(info->n_used + 1) * sizeof *d->rows));
    d->n_rows = 0;
    for (int i = 0; source->missing && i < info->n_used; i++)
        if (info->used[i] >= 0 && info->used[i] < source->n)
            d->rows[d->n_rows++] = (struct missing_channel){source->labels[info->used[i]], &source->missing[info->used[i]]};
    for (int i = 0; d->traces && i < info->n_used && d->n_shown < PLOT_CHANNELS_SHOWN; i++) {
        if (info->used[i] < 0 || info->used[i] >= source->n)
            continue;
        plot_trace_init(&d->traces[d->n_shown], source->labels[info->used[i]], d->duration_s, source->rate_hz);
        d->shown[d->n_shown++] = info->used[i];
    }
    if (d->config->opened)
        d->config->opened(d->config->ctx);
}

static void on_samples(void *ctx, const float *uv, int64_t first, int64_t n) {
    struct detection *d = ctx;
    for (int i = 0; i < d->n_shown; i++)
        plot_trace_add(&d->traces[i], first, uv + d->shown[i] * n, n);
}

static void keep_events(struct detection *d, const struct brr_message *m) {
    d->events = needed(realloc(d->events, (size_t)(d->n_events + m->n_events + 1) * sizeof *d->events));
    d->channels = needed(realloc(d->channels, (size_t)(d->n_events + m->n_events + 1) * sizeof *d->channels));
    for (int i = 0; i < m->n_events; i++) {
        struct brr_event *e = &d->events[d->n_events];
        *e = m->events[i];
        side_list(d->info->montage, d->info->n_montage, brr_message_channels(m, i), d->channels[d->n_events++]);
        if (d->config->event)
            d->config->event(d->config->ctx, e);
    }
}

/* Room for n probabilities, new ones NaN. */
static void reserve(struct detection *d, int64_t n) {
    if (n > d->capacity) {
        d->capacity = d->capacity * 2 > n ? d->capacity * 2 : n;
        d->probabilities = needed(realloc(d->probabilities, (size_t)d->capacity * sizeof *d->probabilities));
    }
    for (; d->n_probabilities < n; d->n_probabilities++)
        d->probabilities[d->n_probabilities] = NAN;
}

static void keep_probabilities(struct detection *d, const struct brr_message *m) {
    if (!m->probabilities || m->first < 0)
        return;
    for (int64_t i = 0; i < m->samples; i++)
        if (!((double)m->probabilities[i] <= d->highest)) { /* the first one too */
            d->highest = (double)m->probabilities[i];
            d->highest_s = (double)(m->first + i) / DETECTION_RATE_HZ;
        }
    if (d->config->want_trace) {
        reserve(d, m->first + m->samples);
        memcpy(d->probabilities + m->first, m->probabilities, (size_t)m->samples * sizeof *d->probabilities);
    }
    if (d->probability)
        plot_trace_add(d->probability, m->first, m->probabilities, m->samples);
}

/* An alarm that is on when the recording ends lasts to its end. */
static void keep_alarm(struct detection *d, const struct brr_message *m) {
    double at_s = (double)m->alarm.sample / DETECTION_RATE_HZ;
    if (!m->alarm.on && d->n_alarms)
        d->alarms[d->n_alarms - 1].end_s = at_s;
    else if (m->alarm.on && d->n_alarms < DETECTION_MAX_ALARMS) {
        struct label_run *run = &d->alarms[d->n_alarms++];
        *run = (struct label_run){.onset_s = at_s, .end_s = NAN, .code = "alarm", .confidence = m->alarm.probability};
        side_list(d->info->montage, d->info->n_montage, m->alarm.channels, run->channels);
    }
}

/* No alarm begins in the first seconds of a recording. */
static void keep_highest_alarm(struct detection *d, const struct brr_message *m) {
    for (int64_t i = 0; m->probabilities && i < m->samples; i++)
        if (m->first + i >= ALARM_SIGNAL_S * DETECTION_RATE_HZ)
            d->highest_alarm = fmax(d->highest_alarm, (double)m->probabilities[i]);
}

static void on_message(void *ctx, const struct brr_message *m) {
    struct detection *d = ctx;
    if (m->kind == BRR_RESULT) {
        keep_events(d, m);
        keep_probabilities(d, m);
        suppression_table_add(&d->suppression, m);
    } else if (m->kind == BRR_ALARM) {
        keep_alarm(d, m);
        if (d->config->alarm)
            d->config->alarm(d->config->ctx, m);
    } else if (m->kind == BRR_PROVISIONAL) {
        keep_highest_alarm(d, m);
    } else if (m->kind == BRR_RECONNECTED) {
        if (d->config->reconnected)
            d->config->reconnected(d->config->ctx, m);
    } else if (m->kind == BRR_SUMMARY) {
        d->end = *m;
        d->end.events = NULL;
        d->end.mislabelled = NULL;
        str_copy(d->mislabelled, sizeof d->mislabelled, m->mislabelled);
    }
}

static void on_lost(void *ctx) {
    struct detection *d = ctx;
    if (d->config->lost)
        d->config->lost(d->config->ctx);
}

static void on_unsaved(void *ctx, bool unsaved) {
    struct detection *d = ctx;
    if (d->config->unsaved)
        d->config->unsaved(d->config->ctx, unsaved);
}

static void on_progress(void *ctx, double done_s) {
    struct detection *d = ctx;
    if (d->config->progress)
        d->config->progress(d->config->ctx, done_s);
}

/* ---- the recording ---- */

/* Events of a named file as labels. */
static int read_reference(struct detection *d, const char *path, struct err *err) {
    OWNED(events_done) struct events_file file = {0};
    int rc = events_read(path, &file, err);
    if (rc)
        return rc;
    d->reference.runs = needed(calloc(file.n_rows + 1, sizeof *d->reference.runs));
    d->reference.source = LABELS_BIDS_TSV;
    for (size_t i = 0; i < file.n_rows; i++) {
        const struct event_row *row = &file.rows[i];
        if (!events_is_seizure(row->type) || !(row->duration_s > 0))
            continue;
        struct label_run *run = &d->reference.runs[d->reference.n_runs++];
        *run = (struct label_run){.onset_s = row->onset_s, .end_s = row->end_s, .confidence = row->confidence};
        str_copy(run->code, sizeof run->code, row->type);
    }
    return 0;
}

static int find_reference(struct detection *d, struct err *err) {
    struct err why = {0};
    if (d->config->reference) {
        int rc = read_reference(d, d->config->reference, err);
        if (rc)
            return rc;
    } else if (labels_load(d->path, "auto", playback_source(d->playback)->edf, &d->reference, &why)) {
        d->reference = (struct labels){.source = LABELS_NONE}; /* nobody asked for them */
        str_format(d->unread, sizeof d->unread, "its labels are left out: %.200s", why.message);
    }
    d->has_reference = d->reference.source != LABELS_NONE;
    return 0;
}

static void make_buffers(struct detection *d) {
    d->alarms = needed(calloc(DETECTION_MAX_ALARMS, sizeof *d->alarms));
    if (!d->config->want_plot)
        return;
    d->probability = needed(calloc(1, sizeof *d->probability));
    d->suppression.trace = needed(calloc(1, sizeof *d->suppression.trace));
    d->traces = needed(calloc(PLOT_CHANNELS_SHOWN, sizeof *d->traces));
    plot_trace_init(d->probability, "probability", d->duration_s, DETECTION_RATE_HZ);
    plot_trace_init(d->suppression.trace, "suppression", d->duration_s, DETECTION_RATE_HZ);
}

int detection_open(struct detection *d, const char *path, struct source *source, const struct detection_config *config,
                   struct err *err) {
    *d = (struct detection){.config = config, .highest = NAN, .highest_s = NAN, .highest_alarm = NAN, .path = path};
    d->playback = playback_new(source);
    d->duration_s = source->info->duration_s;
    const bool long_gap = eeg_has_long_gap(source->info, d->gap, sizeof d->gap);
    int rc = 0;
    if (long_gap && (config->want_trace || !config->playback.split_gaps)) {
        rc = err_set(err, ERR_INVALID, "%s: %s; expected at most 24 h here: cut the recording there", path, d->gap);
    } else {
        make_buffers(d);
        rc = config->want_reference ? find_reference(d, err) : 0;
    }
    if (rc)
        detection_done(d);
    return rc;
}

/* The daemon sees only the signals that are sent; a missing one may be a signal of the file that cannot be used. */
static void add_ignored(const struct detection *d, struct brr_error *err) {
    char ignored[200];
    size_t len = strlen(err->message);
    channels_ignored(playback_source(d->playback)->info, sizeof ignored - 80, ignored, sizeof ignored);
    if (err->code == BRR_PRECONDITION && str_starts(err->message, "montage ") && *ignored)
        str_format(err->message + len, sizeof err->message - len, "; ignored %s", ignored);
}

int detection_run(struct detection *d, brr_client *client, struct brr_error *err) {
    const struct playback_sink sink = {.ctx = d,
                                       .opened = on_opened,
                                       .message = on_message,
                                       .lost = on_lost,
                                       .samples = d->traces ? on_samples : NULL,
                                       .progress = on_progress,
                                       .unsaved = on_unsaved};
    int rc = playback_run(d->playback, client, &d->config->playback, &sink, err);
    d->duration_s = playback_source(d->playback)->info->duration_s; /* a feed's has grown */
    if (rc) {
        add_ignored(d, err);
        return rc;
    }
    struct err why = {0};
    d->mostly_missing =
        missing_describe(d->rows, d->n_rows, playback_source(d->playback)->read, d->missing, sizeof d->missing, &why) != 0;
    if (d->mostly_missing)
        str_copy(d->missing, sizeof d->missing, why.message);
    if (d->config->want_trace)
        reserve(d, d->end.samples);
    return 0;
}

void detection_done(struct detection *d) {
    playback_close(d->playback);
    labels_done(&d->reference);
    FREE_MEMBERS(*d, events, channels, alarms, probabilities, probability, rows);
    free(d->suppression.trace);
    suppression_table_done(&d->suppression);
    free(d->traces);
    *d = (struct detection){0};
}

char *detection_note(const struct detection *d) {
    const struct eeg_info *info = playback_source(d->playback)->info;
    OWNED(str_done) struct str text = str_of(1 << 20);
    str_puts(&text, d->note);
    for (int i = 0; i < info->n_repairs; i++)
        str_printf(&text, "%s%s", text.len ? "; " : "", info->repairs[i]);
    const char *const notes[] = {d->gap, d->unread, d->missing, d->mislabelled};
    for (int i = 0; i < 4; i++)
        if (*notes[i])
            str_printf(&text, "%s%s", text.len ? "; " : "", notes[i]);
    return text.len ? strdup(str_cstr(&text)) : NULL;
}

int detection_match(const struct detection *d, double onset_s, double end_s) {
    for (size_t i = 0; i < d->reference.n_runs; i++)
        if (d->reference.runs[i].onset_s < end_s && d->reference.runs[i].end_s > onset_s)
            return (int)i;
    return -1;
}

/* ---- files ---- */

/* X_alarms.tsv of X_events.tsv or X.tsv, and so with the endings of other formats. */
static int alarms_path(const struct events_format *format, const char *events, char *buf, size_t size, struct err *err) {
    const char *const extension = events_extension(format), *const endings[] = {format->ending, extension};
    const char *tail = str_starts(format->ending, "_annotations") ? format->ending : extension; /* X.edf would be a recording */
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (str_ends(events, endings[i]) &&
            str_format(buf, size, "%.*s_alarms%s", (int)(strlen(events) - strlen(endings[i])), events, tail))
            return 0;
    return err_set(err, ERR_RANGE, "%.200s: no name for the alarms beside it; expected X%s or X%s", events, format->ending,
                   extension);
}

/* An events file and its entry in the folder's list, the entry first: events that nobody has reviewed are never taken for labels.
 */
static int write_listed(const struct detection *d, const char *path, const struct label_run *runs, int n,
                        const struct events_header *header, struct err *err) {
    OWNED(str_done) struct str text = str_of(MAX_EVENTS_BYTES);
    char sha256[DIGEST_HEX_SIZE];
    int rc;
    if ((rc = events_put(d->config->format, runs, (size_t)n, header, &text, err)))
        return rc;
    digest_bytes(str_cstr(&text), text.len, sha256);
    return (rc = outputs_announce(path, sha256, err)) ? rc : fsio_write_text(path, &text, err);
}

/* Other programs know the rows of an events file as annotations of seizures, so alarms have a file of their own. */
static int write_alarms(const struct detection *d, const char *events, const struct events_header *header, struct err *err) {
    char path[8192];
    int rc = alarms_path(d->config->format, events, path, sizeof path, err);
    for (int i = 0; i < d->n_alarms; i++)
        d->alarms[i].end_s = isnan(d->alarms[i].end_s) ? d->duration_s : d->alarms[i].end_s;
    return rc ? rc : write_listed(d, path, d->alarms, d->n_alarms, header, err);
}

int detection_check_events(const struct detection_config *config, const char *path, struct err *err) {
    char alarms[8192];
    int rc = outputs_check(path, config->force, err);
    if (rc || config->playback.alarm_hop_s < 0)
        return rc;
    return (rc = alarms_path(config->format, path, alarms, sizeof alarms, err)) ? rc : outputs_check(alarms, config->force, err);
}

int detection_write_events(const struct detection *d, const char *path, struct err *err) {
    char start[32];
    struct events_header header = {
        .recording_s = d->duration_s, .record_name = fsio_basename(d->path), .source = playback_source(d->playback)->info};
    OWNED_MEMORY struct label_run *runs = needed(calloc((size_t)d->n_events + 1, sizeof *runs));
    const char *text = eeg_start_text(&header.source->start, start, sizeof start);
    header.start_text = strcmp(text, "n/a") ? text : NULL;
    for (int i = 0; i < d->n_events; i++) {
        runs[i] = (struct label_run){.onset_s = (double)d->events[i].first / DETECTION_RATE_HZ,
                                     .end_s = (double)d->events[i].end / DETECTION_RATE_HZ,
                                     .confidence = d->events[i].confidence};
        str_copy(runs[i].channels, sizeof runs[i].channels, d->channels[i]);
    }
    int rc = write_listed(d, path, runs, d->n_events, &header, err);
    if (rc)
        return rc;
    return d->config->playback.alarm_hop_s >= 0 ? write_alarms(d, path, &header, err) : 0;
}

static int write_npy(struct fsio_writer *w, const float *p, int64_t n, struct err *err) {
    char header[NPY_HEADER_BYTES];
    npy_header(header, "<f4", n, 0);
    int rc = fsio_writer_write(w, header, sizeof header, err);
    return rc ? rc : fsio_writer_write(w, p, (size_t)n * sizeof *p, err);
}

static int write_tsv(struct fsio_writer *w, const float *p, int64_t n, struct err *err) {
    OWNED(str_done) struct str text = str_of(WRITE_BUFFER);
    int rc;
    str_puts(&text, "time_s\tprobability\n");
    for (int64_t i = 0; i < n; i++) {
        if (isnan(p[i]))
            str_printf(&text, "%.6f\tn/a\n", (double)i / DETECTION_RATE_HZ);
        else
            str_printf(&text, "%.6f\t%.9g\n", (double)i / DETECTION_RATE_HZ, (double)p[i]);
        if (text.len <= WRITE_BUFFER / 2)
            continue;
        if ((rc = fsio_writer_write(w, str_cstr(&text), text.len, err)))
            return rc;
        str_clear(&text);
    }
    return fsio_writer_write(w, str_cstr(&text), text.len, err);
}

int detection_write_probabilities(const struct detection *d, const char *path, struct err *err) {
    struct fsio_writer w;
    int rc = fsio_writer_open(&w, path, err);
    if (rc)
        return rc;
    rc = str_ends(path, ".tsv") ? write_tsv(&w, d->probabilities, d->n_probabilities, err)
                                : write_npy(&w, d->probabilities, d->n_probabilities, err);
    if (rc) {
        fsio_writer_abort(&w);
        return rc;
    }
    return fsio_writer_commit(&w, err);
}

int detection_write_plot(const struct detection *d, const char *path, struct err *err) {
    char subtitle[512];
    const struct eeg_start *begin = &playback_source(d->playback)->info->start;
    const struct plot_trace *channels[PLOT_CHANNELS_SHOWN];
    size_t n_reference = d->reference.n_runs < PLOT_MAX_SPANS ? d->reference.n_runs : PLOT_MAX_SPANS;
    OWNED_MEMORY struct plot_span *detected = needed(calloc((size_t)d->n_events + 1, sizeof *detected));
    OWNED_MEMORY struct plot_span *reference = needed(calloc(n_reference + 1, sizeof *reference));
    OWNED_MEMORY double *alarms_s = needed(calloc((size_t)d->n_alarms + 1, sizeof *alarms_s));
    for (int i = 0; i < d->n_events; i++)
        detected[i] =
            (struct plot_span){(double)d->events[i].first / DETECTION_RATE_HZ, (double)d->events[i].end / DETECTION_RATE_HZ};
    for (size_t i = 0; i < n_reference; i++)
        reference[i] = (struct plot_span){d->reference.runs[i].onset_s, d->reference.runs[i].end_s};
    for (int i = 0; i < d->n_alarms; i++)
        alarms_s[i] = d->alarms[i].onset_s;
    for (int i = 0; i < d->n_shown; i++)
        channels[i] = &d->traces[i];
    str_format(subtitle, sizeof subtitle, "model %.120s (SHA-256 %.12s); EEG as recorded, without filters%s%.200s",
               d->config->playback.model, d->model_sha256, *d->note ? "; " : "", d->note);
    const struct plot_recording picture = {.title = fsio_basename(d->path),
                                           .subtitle = subtitle,
                                           .has_clock = begin->known,
                                           .clock_s = begin->hour * 3600 + begin->minute * 60 + begin->second,
                                           SAME_MEMBERS(*d, duration_s, probability, on, off, has_reference),
                                           .channels = channels,
                                           .n_channels = d->n_shown,
                                           .suppression = d->end.summary.suppressed_s > 0 ? d->suppression.trace : NULL,
                                           .detected = detected,
                                           .reference = reference,
                                           .n_detected = d->n_events,
                                           .n_reference = (int)n_reference,
                                           .has_alarms = d->config->playback.alarm_hop_s >= 0,
                                           .alarms_s = alarms_s,
                                           .n_alarms = d->n_alarms};
    return plot_recording(path, &picture, err);
}
