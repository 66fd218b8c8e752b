#include "daemon/live/live_stream.h"

#include "base/queue.h"
#include "base/trusted_time.h"
#include "daemon/live/live_models.h"
#include "detect/timeline.h"
#include "eeg/dsp.h"
#include "eeg/montage.h"
#include "eeg/montage_partial.h"
#include "kernels/device.h"
#include "store/digest.h"

enum { MAX_EVENTS_WAITING = 256, STATE_MAX = 128 << 20, BACKGROUND_MAX = 1 << 20 };
#define ENDED_WAITS_S 30.0 /* how much later the last windows of an ended recording are due */

struct live_stream {
    void *owner;
    atomic_bool gone;
    _Atomic int64_t unreleased;     /* bytes of reports that the owner still holds */
    struct live_report *last_words; /* FAILED, made at birth: it is sent whatever memory is left */
    /* set at birth */
    struct live_open open; /* its texts are these */
    char checkpoint[LIVE_PATH], name[LIVE_NAME];
    char **labels;
    /* the worker's */
    struct live_turn turn;
    const struct device *device;
    struct mailbox *reports;
    const struct eegring_limits *viewer;
    struct eegring *eeg; /* NULL: it keeps none */
    struct live_model *model;
    struct timeline *timeline;
    struct message *first, *last; /* orders that wait for the windows before them */
    bool failed, finishing;
    struct live_report *summary;       /* the answer to FINISH, until it is due */
    double newest_s, newest_due_s;     /* of the newest chunk in the timeline: when it was received, and due; NaN and 0: none */
    double heard_s, ahead_s;           /* when the newest chunk came; samples that may come ahead of real time, in seconds */
    struct live_report *result;        /* under construction: its events follow its probabilities */
    int64_t next_result, next_alarm;   /* numbers */
    struct suppression_totals counted; /* in metrics */
    int64_t given;                     /* 256 Hz samples that results have covered */
    int64_t alarm_hop;                 /* 256 Hz samples, 0 = none */
    struct quality *quality;           /* of the used channels */
    float *scratch;                    /* used channels × samples of the newest chunk */
    int64_t scratch_floats;
    size_t state_len; /* of the newest snapshot */
};

/* ---- its owner's handle ---- */

struct live_stream *live_stream_new(const struct live_open *open, void *owner) {
    struct live_stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->owner = owner;
    s->newest_s = NAN;
    s->ahead_s = LIVE_AHEAD_S;
    s->open = *open;
    str_copy(s->checkpoint, sizeof s->checkpoint, open->checkpoint);
    str_copy(s->name, sizeof s->name, open->model);
    s->labels = calloc((size_t)open->n_labels + 1, sizeof *s->labels);
    int n = 0;
    while (s->labels && n < open->n_labels && (s->labels[n] = strdup(open->labels[n])))
        n++;
    s->open.checkpoint = s->checkpoint;
    s->open.model = s->name;
    s->open.labels = (const char *const *)s->labels;
    s->open.n_labels = n;
    s->last_words = live_report_new(LIVE_FAILED, s);
    if (s->labels && n == open->n_labels && s->last_words)
        return s;
    live_stream_free(s);
    return NULL;
}

void live_stream_free(struct live_stream *s) {
    if (!s)
        return;
    for (int i = 0; i < s->open.n_labels; i++)
        free(s->labels[i]);
    free(s->labels);
    live_report_free(s->last_words);
    free(s);
}

void *live_stream_owner(const struct live_stream *s) { return s->owner; }
const struct live_open *live_stream_open(const struct live_stream *s) { return &s->open; }
void live_stream_abandon(struct live_stream *s) { atomic_store(&s->gone, true); }

bool live_stream_release(struct live_stream *s, int64_t bytes) {
    int64_t before = atomic_fetch_sub(&s->unreleased, bytes);
    return before >= LIVE_CREDIT_BYTES && before - bytes < LIVE_CREDIT_BYTES;
}

/* ---- reports ---- */

static void post(struct live_stream *s, struct live_report *r) {
    if (r->message.kind == LIVE_RESULT || r->message.kind == LIVE_PROVISIONAL || r->message.kind == LIVE_ALARM)
        r->bytes = live_report_bytes(r); /* others are bounded by the orders that they answer */
    if (r->bytes)
        atomic_fetch_add(&s->unreleased, r->bytes);
    live_report_post(r, s->reports);
}

static void flush_result(struct live_stream *s) {
    struct event running;
    if (s->result && s->timeline && timeline_running(s->timeline, &running))
        s->result->running = running.first;
    if (s->result)
        post(s, s->result);
    s->result = NULL;
}

void live_stream_fail(struct live_stream *s, const struct err *err) {
    if (s->failed)
        return;
    s->failed = true;
    live_report_free(s->result); /* not whole: its events were still to come */
    s->result = NULL;
    s->last_words->err = *err;
    s->last_words->lost = device_lost(s->device);
    post(s, s->last_words);
    s->last_words = NULL;
}

/* ---- what its timeline gives out ---- */

/* The result carries what the stream has learned of the patient, or nothing when memory is out. */
static void tell_background(struct live_stream *s, struct live_report *r) {
    OWNED(str_done) struct str state = str_of(BACKGROUND_MAX);
    pack_text(&state, detector_info(s->model->detector)->sha256);
    if (!s->open.names_patient || !timeline_save_background(s->timeline, &state))
        return;
    r->state_len = state.len;
    r->state = str_take(&state);
}

static int judge(struct live_stream *s, struct live_report *r, struct err *err) {
    const int *sources;
    int rc = quality_take(s->quality, r->first, r->first + r->samples, &r->quality, err);
    r->learning_s = timeline_learning_s(s->timeline);
    tell_background(s, r);
    timeline_sources(s->timeline, &sources);
    for (int i = 0; i < r->quality.n; i++)
        r->quality.channels[i].channel = sources[r->quality.channels[i].channel];
    return rc;
}

/* The next result, of the samples [first, first + n). */
static struct live_report *result_new(struct live_stream *s, int64_t first, int64_t n) {
    struct live_report *r = live_report_new(LIVE_RESULT, s);
    if (!r)
        return NULL;
    r->seq = s->next_result++;
    r->first = first;
    r->samples = n;
    s->given = first + n;
    return r;
}

static int on_probabilities(void *ctx, int64_t first, const float *p, int64_t n, struct err *err) {
    struct live_stream *s = ctx;
    flush_result(s);
    if (s->eeg && !s->alarm_hop)
        eegring_put_p(s->eeg, first, p, n);
    struct live_report *r = result_new(s, first, n);
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a result");
    s->result = r;
    if (judge(s, r, err))
        return err->code;
    r->p = malloc((size_t)n * sizeof *p);
    if (!r->p)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a result");
    memcpy(r->p, p, (size_t)n * sizeof *p);
    return 0;
}

static int on_gap(void *ctx, int64_t first, int64_t n, struct err *err) {
    struct live_stream *s = ctx;
    flush_result(s);
    for (int64_t end = first + n; first < end; first += n) {
        n = end - first < LIVE_MAX_SAMPLES ? end - first : LIVE_MAX_SAMPLES;
        struct live_report *r = result_new(s, first, n);
        if (!r)
            return err_set(err, ERR_EXHAUSTED, "out of memory for a result");
        r->gap = true;
        post(s, r);
    }
    return 0;
}

static void put_mark(struct live_stream *s, enum eegring_kind kind, int64_t first, int64_t end) {
    if (s->eeg)
        eegring_put_mark(s->eeg, &(struct eegring_mark){kind, first, end, clock_wall_ms()});
}

static int on_event(void *ctx, const struct event *event, struct err *err) {
    struct live_stream *s = ctx;
    put_mark(s, EEGRING_EVENT, event->first, event->end);
    if (s->result && s->result->n_events >= MAX_EVENTS_WAITING)
        flush_result(s);
    if (!s->result)
        s->result = result_new(s, s->given, 0);
    struct event *events = s->result ? realloc(s->result->events, (size_t)(s->result->n_events + 1) * sizeof *events) : NULL;
    if (!events)
        return err_set(err, ERR_EXHAUSTED, "out of memory for an event");
    s->result->events = events;
    events[s->result->n_events++] = *event;
    return 0;
}

static int on_suppression(void *ctx, const struct suppression_report *report, struct err *err) {
    struct live_stream *s = ctx;
    if (!s->result)
        s->result = result_new(s, s->given, 0);
    if (!s->result)
        return err_set(err, ERR_EXHAUSTED, "out of memory for burst suppression");
    struct live_report *r = s->result;
    size_t n = (size_t)r->n_suppression, channels = (size_t)report->channels;
    struct live_suppression *more = realloc(r->suppression, (n + 1) * sizeof *more);
    r->suppression = more ? more : r->suppression;
    float *values = more ? realloc(r->channel_suppression, (n + 1) * 2 * channels * sizeof *values) : NULL;
    if (!values)
        return err_set(err, ERR_EXHAUSTED, "out of memory for burst suppression");
    r->channel_suppression = values;
    more[n] = (struct live_suppression){report->sample, report->observed, report->ratio, report->bursts_per_minute};
    memcpy(values + 2 * n * channels, report->channel_ratio, channels * sizeof *values);
    memcpy(values + (2 * n + 1) * channels, report->channel_bursts, channels * sizeof *values);
    r->channels = report->channels;
    r->n_suppression++;
    return 0;
}

static void count_suppression(struct live_stream *s) {
    struct suppression_totals now;
    timeline_suppression(s->timeline, &now);
    metric_add(s->model->suppressed, (double)(now.suppressed - s->counted.suppressed) / FRONTEND_RATE_HZ);
    metric_add(s->model->bursts, (double)(now.bursts - s->counted.bursts));
    s->counted = now;
}

static int on_settled(void *ctx, struct err *err) {
    (void)err;
    count_suppression(ctx);
    flush_result(ctx);
    return 0;
}

static const enum journal_off offs[] = {[ALARM_ENDED] = JOURNAL_OFF_ENDED,
                                        [ALARM_GAP] = JOURNAL_OFF_GAP,
                                        [ALARM_ELECTRODES] = JOURNAL_OFF_ELECTRODES,
                                        [ALARM_FINISHED] = JOURNAL_OFF_CLOSED};

static int on_alarm(void *ctx, const struct timeline_alarm *alarm, struct err *err) {
    struct live_stream *s = ctx;
    struct live_report *r = live_report_new(LIVE_ALARM, s);
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for an alarm");
    r->seq = s->next_alarm++;
    r->on = alarm->on;
    r->off = offs[alarm->reason];
    r->replay = !live_open_is_live(&s->open);
    r->first = alarm->sample;
    r->probability = alarm->p;
    r->where = alarm->where;
    r->wall_ms = clock_wall_ms();
    r->boot_ms = trusted_boot_ms();
    post(s, r);
    put_mark(s, alarm->on ? EEGRING_ALARM_ON : EEGRING_ALARM_OFF, alarm->sample, alarm->sample);
    return 0;
}

static int on_provisional(void *ctx, int64_t first, const float *p, int64_t n, struct err *err) {
    struct live_stream *s = ctx;
    struct live_report *r = live_report_new(LIVE_PROVISIONAL, s);
    if (r)
        r->p = malloc((size_t)n * sizeof *p);
    if (!r || !r->p) {
        live_report_free(r);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a result");
    }
    r->first = first;
    r->samples = n;
    r->probability = p[n - 1];
    memcpy(r->p, p, (size_t)n * sizeof *p);
    post(s, r);
    if (s->eeg)
        eegring_put_p(s->eeg, first, p, n);
    return 0;
}

static void on_contact(void *ctx, int64_t end, uint64_t flat, uint64_t clipped) {
    struct live_stream *s = ctx;
    const int *sources;
    for (int c = 0, n = timeline_sources(s->timeline, &sources); c < n; c++) {
        const uint64_t rows = timeline_rows_of(s->timeline, c);
        quality_tell(s->quality, end, c, (rows & flat ? QUALITY_FLAT : 0) | (rows & clipped ? QUALITY_CLIPPED : 0));
    }
}

static void on_look(void *ctx, const double *uv, int stride, int64_t n, int64_t first, const uint8_t *held) {
    struct live_stream *s = ctx;
    if (s->eeg)
        eegring_put(s->eeg, uv, stride, n, first, held);
}

/* ---- opening, saving, ending ---- */

/* set: chosen by a rate of false alarms, or NULL. Its rule was chosen for decisions at its own interval. */
static int64_t pick_alarm_hop(const struct live_stream *s, int64_t device_hop, const struct modelfile *file,
                              const struct alarm_set *set) {
    int64_t own = set ? (int64_t)llround(set->alarm_hop_s * FRONTEND_RATE_HZ) : 0;
    if (s->open.alarm_hop_s < 0)
        return 0;
    if (s->open.alarm_hop_s > 0)
        return (int64_t)llround(s->open.alarm_hop_s * FRONTEND_RATE_HZ);
    int64_t hop = modelfile_hop(file);
    if (own > 0 && hop % own == 0)
        return own;
    return hop % device_hop == 0 && device_hop <= modelfile_window(file) ? device_hop : hop;
}

/* The state as bytes: what it was made with, the numbers, the timeline. */
static int save_state(struct live_stream *s, struct str *out, struct err *err) {
    pack_text(out, detector_info(s->model->detector)->sha256);
    PACK(out, *s, alarm_hop, next_result, next_alarm, given);
    struct packer p = {.to = out};
    (void)quality_pack(s->quality, &p);
    int rc = timeline_save(s->timeline, out, err);
    quality_pack_told(s->quality, &p);
    return rc;
}

/* The first part of a saved state, before the timeline is made. */
static int load_numbers(struct live_stream *s, struct unpack *in, struct err *err) {
    const int64_t far = INT64_C(1) << 60;
    char sha256[DIGEST_HEX_SIZE];
    unpack_text(in, sha256, sizeof sha256);
    s->alarm_hop = unpack_i64(in, 0, far);
    s->next_result = unpack_i64(in, 0, far);
    s->next_alarm = unpack_i64(in, 0, far);
    s->given = unpack_i64(in, 0, far);
    if (in->failed)
        return err_set(err, ERR_DATA_LOSS, "the saved state of the stream is corrupt");
    if (strcmp(sha256, detector_info(s->model->detector)->sha256) != 0)
        return err_set(err, ERR_DATA_LOSS, "the saved state of the stream was made with another version of the model %s",
                       s->checkpoint);
    return 0;
}

/* Where the source clips. */
static double clipping_uv(const struct live_open *open) { return open->format == LIVE_I16 ? INT16_MAX * open->scale_uv : INFINITY; }

/* The state of the quality and the timeline, which is the rest of what was saved. */
static int load_parts(struct live_stream *s, struct unpack *state, struct err *err) {
    struct packer p = {.from = *state};
    if (!quality_pack(s->quality, &p))
        return err_set(err, ERR_DATA_LOSS, "the saved state of the stream is corrupt");
    int rc = timeline_load(s->timeline, &p.from, err);
    if (rc)
        return rc;
    if (p.from.left)
        quality_pack_told(s->quality, &p);
    return unpack_done(&p.from) ? 0 : err_set(err, ERR_DATA_LOSS, "the saved state of the stream is corrupt");
}

/* The channels of the model's montage that the recording has, if it may lack so many; a network's inputs of the others are 0. The
 * stream's number counts channels of the recording, as where other channels are made of them; of a network those of its montage. */
static int take_rest(const struct live_stream *s, struct modelfile *file, struct err *err) {
    struct frontend_config frontend = file->frontend;
    struct montage_rest rest;
    int channels = 0, rc = montage_channels(file->montage, NULL, &channels, err);
    if (rc)
        return rc;
    if (!file->most_missing)
        return err_set(err, ERR_PRECONDITION,
                       "montage %s lacks channels, and this model is a network, which needs all of them; ward, line_length "
                       "and band_power take what is there",
                       file->montage);
    const bool feature = frontend_is_feature(frontend.normalize);
    const int least = channels - (int)file->most_missing, asked = feature ? 0 : s->open.partial;
    if ((rc = montage_rest_of(file->montage, s->open.labels, s->open.n_labels, least > asked ? least : asked, &rest, err)))
        return rc;
    if (feature && rest.read < s->open.partial)
        return ERR_PRECONDITION;
    frontend.montage = rest.spec;
    file->absent = feature ? 0 : rest.absent;
    return modelfile_set_frontend(file, &frontend, err);
}

/* The montage for a recording that lacks channels of the model's: the part that it allows, if the model takes it. Without a
 * network that may be other channels, past the missing electrodes. */
static int take_partial(const struct live_stream *s, struct live_opened *o, struct err *err) {
    OWNED_POINTER(montage_free) struct montage *whole = NULL;
    struct modelfile *file = &o->info.file;
    char spec[MONTAGE_PARTIAL_SIZE];
    if (s->open.partial <= 0 || !montage_new(file->montage, s->open.labels, s->open.n_labels, &whole, NULL))
        return 0;
    const bool feature = frontend_is_feature(file->frontend.normalize);
    int rc = file->most_missing || !feature ? take_rest(s, file, feature ? NULL : err) : ERR_PRECONDITION;
    if (rc == 0 || !feature || (rc = montage_partial(s->open.labels, s->open.n_labels, s->open.partial, spec, err)))
        return rc;
    struct frontend_config frontend = file->frontend;
    frontend.montage = spec;
    return modelfile_set_frontend(file, &frontend, err);
}

/* Adds to the error of missing channels what a model that can do with fewer can do. */
static int say_partial(const struct live_opened *o, int rc, struct err *err) {
    char said[sizeof err->message];
    if (rc != ERR_PRECONDITION || (!frontend_is_feature(o->info.file.frontend.normalize) && !o->info.file.most_missing))
        return rc;
    str_copy(said, sizeof said, err->message);
    return err_set(err, rc, "%.800s; --partial N (Open.partial) runs this model on the channels there are", said);
}

/* A new timeline, or with `state` one that goes on from there. */
static int open_timeline(struct live_stream *s, struct live_opened *o, struct unpack *state, struct err *err) {
    struct frontend_source source = {.labels = s->open.labels, .n_labels = s->open.n_labels, .rate_hz = s->open.rate_hz};
    struct timeline_sink sink = {.ctx = s,
                                 .probabilities = on_probabilities,
                                 .gap = on_gap,
                                 .event = on_event,
                                 .alarm = on_alarm,
                                 .provisional = on_provisional,
                                 .suppression = on_suppression,
                                 .contact = on_contact,
                                 .look = on_look,
                                 .settled = on_settled};
    int rc;
    if ((state && (rc = load_numbers(s, state, err))) || (rc = take_partial(s, o, err)))
        return rc;
    struct timeline_options options = {.alarm_hop = s->alarm_hop, .events = &o->info.file.events, .alarms = &o->alarms};
    struct frontend_report report = {.note = ""};
    const int *sources = NULL;
    if ((rc = timeline_new(&o->info.file, &source, &options, &sink, &s->timeline, &report, err)))
        return say_partial(o, rc, err);
    if (!(s->quality = quality_new(timeline_sources(s->timeline, &sources), s->open.rate_hz, clipping_uv(&s->open))))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a stream");
    if (state && (rc = load_parts(s, state, err)))
        return rc;
    timeline_suppression(s->timeline, &s->counted);
    o->n_sources = timeline_sources(s->timeline, &sources);
    for (int i = 0; i < o->n_sources; i++)
        o->sources[i] = sources[i];
    o->alarm_hop = options.alarm_hop;
    if (str_starts(o->info.file.montage, "custom:") &&
        strcmp(o->info.file.montage, detector_info(s->model->detector)->file.montage) != 0)
        str_format(o->note, sizeof o->note, "only part of the montage, to which thresholds were not fitted: %.180s",
                   o->info.file.montage + 7);
    else if (*report.note)
        str_copy(o->note, sizeof o->note, report.note);
    return 0;
}

/* Loads what another stream learned of the patient. False: it had other weights or a source with other channels. */
static bool load_background(struct live_stream *s, const struct live_order *o) {
    struct unpack in = unpack_of(o->data, (size_t)o->data_bytes);
    char sha256[DIGEST_HEX_SIZE];
    unpack_text(&in, sha256, sizeof sha256);
    return !strcmp(sha256, detector_info(s->model->detector)->sha256) && timeline_load_background(s->timeline, &in, o->away_s) &&
           unpack_done(&in);
}

/* A new timeline that goes on with what was learned of the patient, or without it where that does not fit. */
static int open_known(struct live_stream *s, struct live_opened *opened, const struct live_order *o, struct err *err) {
    int rc = open_timeline(s, opened, NULL, err);
    if (rc)
        return rc;
    if (load_background(s, o)) {
        opened->away_s = o->away_s;
        return 0;
    }
    timeline_free(s->timeline);
    quality_free(s->quality);
    s->timeline = NULL;
    s->quality = NULL;
    return open_timeline(s, opened, NULL, err);
}

void live_stream_join(struct live_stream *s, const struct device *device, struct mailbox *reports,
                      const struct eegring_limits *viewer) {
    s->device = device;
    s->viewer = viewer;
    s->reports = reports;
}

/* Memory for the newest EEG, where there is room for it; a stream faster than time is over before somebody looks at it. */
static void keep_eeg(struct live_stream *s, const char *montage) {
    struct eegring_limits limits = *s->viewer;
    limits.owner = s->open.owner;
    if (s->open.realtime)
        (void)eegring_new(montage, &limits, &s->eeg, NULL);
}

int live_stream_begin(struct live_stream *s, struct live_model *m, int64_t device_hop, struct live_order *o, struct err *err) {
    struct unpack state = unpack_of(o->data, (size_t)o->data_bytes);
    s->model = m;
    s->model->streams++;
    const bool known = o->away_s > 0;
    if (o->data && !known) /* nobody heard it while the daemon was away */
        s->ahead_s += LIVE_HELD_S - LIVE_AHEAD_S;
    if (!(o->answer->opened = live_model_describe(m)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a stream");
    struct modelfile *file = &o->answer->opened->info.file;
    const struct alarm_set *set = s->open.alarm_rate > 0 ? alarm_sets_find(&file->alarms, s->open.alarm_rate, err) : NULL;
    if (s->open.alarm_rate > 0 && !set)
        return ERR_PRECONDITION;
    s->alarm_hop = pick_alarm_hop(s, device_hop, file, set);
    int rc = events_config_with(&file->events, s->open.on, s->open.off, &file->events, err);
    if (rc)
        return rc;
    alarm_config_of_events(&file->events, &o->answer->opened->alarms);
    if (set)
        o->answer->opened->alarms = set->rule;
    rc = known ? open_known(s, o->answer->opened, o, err) : open_timeline(s, o->answer->opened, o->data ? &state : NULL, err);
    if (rc)
        return rc;
    keep_eeg(s, file->montage);
    o->answer->eeg = eegring_share(s->eeg);
    post(s, live_order_answer(o));
    return 0;
}

void live_stream_save(struct live_stream *s, struct live_order *o) {
    struct live_report *r = live_order_answer(o);
    struct str state = str_of(STATE_MAX);
    str_reserve(&state, s->state_len + s->state_len / 8);
    if (!s->timeline || s->failed)
        err_set(&r->err, ERR_PRECONDITION, "the stream has ended");
    else if (!save_state(s, &state, &r->err)) {
        r->state_len = s->state_len = state.len;
        r->state = str_take(&state);
        if (!r->state)
            err_set(&r->err, ERR_EXHAUSTED, "out of memory for the state of a stream");
    }
    str_done(&state);
    post(s, r);
}

static void drop_orders(struct live_stream *s) {
    while (s->first) {
        struct live_order *o = (struct live_order *)s->first;
        QUEUE_DROP(s, next);
        live_order_free(o);
    }
}

void live_stream_leave(struct live_stream *s) {
    if (s->model && s->timeline)
        metric_add(s->model->dropped, (double)timeline_waiting(s->timeline)); /* will never be looked at */
    timeline_free(s->timeline);
    s->timeline = NULL;
    quality_free(s->quality);
    s->quality = NULL;
    eegring_drop(s->eeg);
    s->eeg = NULL;
    if (s->model)
        s->model->streams--;
    s->model = NULL;
    drop_orders(s);
    live_report_free(s->result);
    live_report_free(s->summary);
    s->result = s->summary = NULL;
    free(s->scratch);
    s->scratch = NULL;
}

/* ---- running ---- */

/* What the stream may send grows with time: up to LIVE_AHEAD_S beside the chunk itself, and up to LIVE_HELD_S while nothing came.
 * What is there stays until it is used. */
static void pace_chunk(struct live_stream *s, struct live_order *o) {
    const double chunk_s = (double)(o->samples - o->skip) / s->open.rate_hz;
    const double passed_s = s->heard_s > 0 ? fmax(0, o->received_s - s->heard_s) : 0, earned_s = passed_s * LIVE_FASTEST;
    const double most_s = passed_s > chunk_s + 1 ? LIVE_HELD_S : LIVE_AHEAD_S + fmin(chunk_s, earned_s);
    s->ahead_s = fmin(s->ahead_s + earned_s, fmax(s->ahead_s, most_s)) - chunk_s;
    s->heard_s = o->received_s;
    o->due_s = o->received_s + fmax(0, -s->ahead_s) / LIVE_FASTEST;
}

bool live_stream_queue(struct live_stream *s, struct live_order *o) {
    if (s->failed || atomic_load(&s->gone))
        return false;
    if (o->message.kind == LIVE_CHUNK)
        pace_chunk(s, o);
    QUEUE_ADD(s, &o->message, next);
    return true;
}

/* The used channels of a chunk as float rows in s->scratch. */
static int convert(struct live_stream *s, const struct live_order *o, float **rows, struct err *err) {
    const int *sources;
    int n_sources = timeline_sources(s->timeline, &sources);
    int64_t n = o->samples - o->skip;
    if (n_sources * n > s->scratch_floats) {
        float *scratch = realloc(s->scratch, (size_t)(n_sources * n) * sizeof *scratch);
        if (!scratch)
            return err_set(err, ERR_EXHAUSTED, "out of memory for a chunk of %lld samples", (long long)n);
        s->scratch = scratch;
        s->scratch_floats = n_sources * n;
    }
    for (int c = 0; c < n_sources; c++) {
        float *row = s->scratch + c * n;
        int64_t at = sources[c] * o->samples + o->skip;
        rows[c] = row;
        if (s->open.format == LIVE_F32_UV) {
            memcpy(row, o->data + at * 4, (size_t)n * sizeof *row);
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            const uint8_t *b = o->data + (at + i) * 2;
            row[i] = (float)((double)(int16_t)(b[0] | b[1] << 8) * s->open.scale_uv);
        }
    }
    return 0;
}

/* Samples [first, end) of the source, counted from the next one, are held in these rows of the EEG that people look at. */
static int show_held(struct live_stream *s, uint64_t rows, int64_t first, int64_t end, struct err *err) {
    const __int128 at = timeline_position(s->timeline);
    int64_t up, down;
    int rc = dsp_ratio(s->open.rate_hz, &up, &down, err);
    if (rc)
        return rc;
    if (!eegring_hold_rows(s->eeg, rows, (int64_t)(((at + first) * up + down - 1) / down),
                           (int64_t)(((at + end) * up + down - 1) / down)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a chunk");
    return 0;
}

/* The rows of the EEG for which a sample of the source has no number. */
static uint64_t rows_missing(const struct live_stream *s, float *const *rows, int n_sources, int64_t i) {
    uint64_t missing = 0;
    for (int c = 0; c < n_sources; c++)
        missing |= isfinite(rows[c][i]) ? 0 : timeline_rows_of(s->timeline, c);
    return missing;
}

/* quality_push holds the last number of a channel where its samples are none. */
static int show_missing(struct live_stream *s, float *const *rows, int64_t n, struct err *err) {
    const int *sources;
    const int n_sources = s->eeg && s->open.format == LIVE_F32_UV ? timeline_sources(s->timeline, &sources) : 0;
    int rc = 0;
    for (int64_t i = 0, end; n_sources && i < n && !rc; i = end) {
        const uint64_t missing = rows_missing(s, rows, n_sources, i);
        for (end = i + 1; end < n && rows_missing(s, rows, n_sources, end) == missing;)
            end++;
        rc = missing ? show_held(s, missing, i, end, err) : 0;
    }
    return rc;
}

/* The oldest order that waits. */
static int carry_out(struct live_stream *s, struct live_order *o, struct err *err) {
    float *rows[FRONTEND_MAX_LABELS];
    int64_t n = o->samples - o->skip;
    int rc = 0;
    if (o->message.kind == LIVE_FINISH) {
        s->finishing = true;
        s->summary = live_order_answer(o);
        return timeline_finish(s->timeline, err);
    }
    if (o->message.kind == LIVE_GAP)
        return (rc = quality_gap(s->quality, n, err)) ? rc : timeline_gap(s->timeline, n, err);
    if ((rc = convert(s, o, rows, err)) || (rc = show_missing(s, rows, n, err)) || (rc = quality_push(s->quality, rows, n, err)))
        return rc;
    s->newest_s = o->received_s;
    s->newest_due_s = o->due_s;
    return timeline_push(s->timeline, (const float *const *)rows, n, err);
}

bool live_stream_absorbs(const struct live_stream *s, int windows) {
    return s->first && !s->failed && timeline_waiting(s->timeline) < windows;
}

void live_stream_absorb(struct live_stream *s, int windows) {
    struct err err = {0};
    while (live_stream_absorbs(s, windows)) {
        struct live_order *o = (struct live_order *)s->first;
        QUEUE_DROP(s, next);
        if (carry_out(s, o, &err)) {
            live_stream_fail(s, &err);
        } else if (o->answer) {
            o->answer->samples = o->samples - o->skip;
            o->answer->data_bytes = o->data_bytes;
            post(s, live_order_answer(o));
        }
        live_order_free(o);
    }
}

void live_stream_settle(struct live_stream *s) {
    struct err err = {0};
    if (s->failed)
        return;
    if (timeline_status(s->timeline, &err)) {
        live_stream_fail(s, &err);
    } else if (s->summary && timeline_done(s->timeline)) {
        s->summary->samples = timeline_samples(s->timeline);
        s->summary->windows = timeline_windows(s->timeline);
        timeline_suppression(s->timeline, &s->summary->totals);
        s->summary->learning_s = (int)ceil(timeline_learned_s(s->timeline));
        timeline_mislabelled(s->timeline, s->summary->mislabelled, sizeof s->summary->mislabelled);
        post(s, s->summary);
        s->summary = NULL;
    }
}

bool live_stream_runnable(const struct live_stream *s) {
    return s->timeline && !s->failed && !atomic_load(&s->gone) && atomic_load(&s->unreleased) < LIVE_CREDIT_BYTES;
}

bool live_stream_ready(const struct live_stream *s) {
    struct err err;
    return s->timeline && !s->failed && timeline_ready(s->timeline, &err);
}

bool live_stream_has_work(const struct live_stream *s) { return live_stream_runnable(s) && (s->first || live_stream_ready(s)); }

/* When the samples were due that the stream has not been served for. */
static double due_s(const struct live_stream *s) {
    if (live_stream_ready(s))
        return s->newest_due_s;
    for (const struct message *m = s->first; m; m = m->next)
        if (m->kind == LIVE_CHUNK)
            return ((const struct live_order *)m)->due_s;
    return s->first ? 0 : INFINITY;
}

double live_stream_waiting_since_s(const struct live_stream *s) {
    return due_s(s) + (s->finishing && live_stream_ready(s) ? ENDED_WAITS_S : 0);
}

bool live_stream_is_live(const struct live_stream *s, double now_s) {
    double due = due_s(s);
    return s->open.realtime && (due <= now_s || isinf(due));
}

double live_stream_newest_s(const struct live_stream *s) { return s->finishing ? NAN : s->newest_s; }
const struct live_model *live_stream_model(const struct live_stream *s) { return s->model; }
struct timeline *live_stream_timeline(const struct live_stream *s) {
    return s->timeline;
}
struct live_turn *live_stream_turn(struct live_stream *s) {
    return &s->turn;
}
