/* The Open of a stream: its session goes on, or a new one begins, with a model that serves, lies in a file or in a store. */

#include "daemon/live/patient_memory.h"
#include "daemon/rpc/texts.h"
#include "daemon/services/stream_call.h"
#include "eeg/dsp.h"

enum { MAX_RATE_HZ = 65536, RESTORING_LOOK_MS = 50, RESTORING_LOOKS = 100, RESTORING_RETRY_MS = 5000 };

enum { MAX_LANES = 64 /* channels that a montage reads at most */ };
static const double MAX_COST = 0.1;         /* seconds of a processor per second of EEG: others have their share too */
static const double MIN_ALARM_HOP_S = 0.25; /* each hop costs a whole window */
static const double MAX_ALARM_RATE = 1000;

/* Names reach terminals, tables and logs. */
static bool has_control(const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f))
            return true;
    return false;
}

static int check_open(const Brr__V1__Open *in, struct err *err) {
    const struct {
        const char *name, *text;
        size_t size; /* 0: what is looked up by it decides */
    } texts[] = {{"client_name", in->client_name, SESSION_NAME_SIZE},
                 {"model", in->model, 0},
                 {"device", in->device, 0},
                 {"patient", in->patient, PATIENT_NAME_SIZE}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (has_control(texts[i].text))
            return err_set(err, ERR_INVALID, "Open.%s has a control character", texts[i].name);
        const size_t len = strlen(texts[i].text), most = texts[i].size - 1;
        if (texts[i].size && len > most)
            return err_set(err, ERR_INVALID, "Open.%s has %zu bytes; expected at most %zu", texts[i].name, len, most);
    }
    for (size_t i = 0; i < in->n_channels && i < FRONTEND_MAX_LABELS; i++)
        if (has_control(in->channels[i]))
            return err_set(err, ERR_INVALID, "Open.channels[%zu] has a control character", i);
    if (!in->n_channels || in->n_channels > FRONTEND_MAX_LABELS)
        return err_set(err, ERR_INVALID, "Open names %zu channels; expected 1 to %d", in->n_channels, FRONTEND_MAX_LABELS);
    for (size_t i = 0; i < in->n_channels; i++)
        if (strlen(in->channels[i]) >= SESSION_LABEL_SIZE)
            return err_set(err, ERR_INVALID, "Open.channels[%zu] has %zu bytes; expected at most %d", i, strlen(in->channels[i]),
                           SESSION_LABEL_SIZE - 1);
    if (!(in->rate_hz >= 1 && in->rate_hz <= MAX_RATE_HZ))
        return err_set(err, ERR_INVALID, "Open.rate_hz is %g; expected 1 to %d", in->rate_hz, MAX_RATE_HZ);
    const double cost = dsp_cost(in->rate_hz, (int)(in->n_channels < MAX_LANES ? in->n_channels : MAX_LANES));
    if (cost > MAX_COST)
        return err_set(err, ERR_INVALID,
                       "Open.rate_hz %.10g: to resample it takes %.2g s of a processor per second of EEG here, more than %g s; "
                       "resample it to a rate such as 256, 1000 or %d first",
                       in->rate_hz, cost, MAX_COST, MAX_RATE_HZ);
    if (in->format != BRR__V1__SAMPLE_FORMAT__SAMPLE_FORMAT_F32_UV && in->format != BRR__V1__SAMPLE_FORMAT__SAMPLE_FORMAT_I16)
        return err_set(err, ERR_INVALID, "Open.format is %d; expected F32_UV or I16", (int)in->format);
    if (in->alarm_hop_s > 0 && in->alarm_hop_s < MIN_ALARM_HOP_S)
        return err_set(err, ERR_INVALID,
                       "Open.alarm_hop_s is %g; expected at least %g s, 0 for the default, or below 0 for no alarms",
                       in->alarm_hop_s, MIN_ALARM_HOP_S);
    if (!(in->threshold_on >= 0 && in->threshold_on < 1 && in->threshold_off >= 0 && in->threshold_off < 1))
        return err_set(err, ERR_INVALID, "Open.threshold_on is %g and threshold_off %g; expected 0 (the model's) to below 1",
                       in->threshold_on, in->threshold_off);
    if (!(in->alarm_rate >= 0 && in->alarm_rate <= MAX_ALARM_RATE) || (in->alarm_rate > 0 && in->alarm_hop_s < 0))
        return err_set(err, ERR_INVALID,
                       "Open.alarm_rate is %g with alarm_hop_s %g; expected " ALARM_RATE_NAMES
                       ", or 0 for alarms by the thresholds, and with a rate an alarm_hop_s of at least 0",
                       in->alarm_rate, in->alarm_hop_s);
    if (in->partial < 0 || in->partial > FRONTEND_MAX_CHANNELS)
        return err_set(err, ERR_INVALID, "Open.partial is %d; expected 0 (all channels) to %d", (int)in->partial,
                       FRONTEND_MAX_CHANNELS);
    if (in->format == BRR__V1__SAMPLE_FORMAT__SAMPLE_FORMAT_I16 && !(in->scale_uv > 0 && in->scale_uv < 1e6))
        return err_set(err, ERR_INVALID, "Open.scale_uv is %g; I16 needs the microvolt of one unit", in->scale_uv);
    return 0;
}

/* The parameters of the stream that `in` asks for, with the model file at path, under this name in metrics; borrows. */
static struct live_open describe_open(const Brr__V1__Open *in, const char *path, const char *name) {
    return (struct live_open){.checkpoint = path,
                              .model = name,
                              .labels = (const char *const *)in->channels,
                              .n_labels = (int)in->n_channels,
                              SAME_MEMBERS(*in, rate_hz, scale_uv, alarm_hop_s, alarm_rate),
                              .format = in->format == BRR__V1__SAMPLE_FORMAT__SAMPLE_FORMAT_I16 ? LIVE_I16 : LIVE_F32_UV,
                              .on = in->threshold_on,
                              .off = in->threshold_off,
                              .partial = (int)in->partial,
                              SAME_MEMBERS(*in, realtime, replay, want_probabilities)};
}

/* True if streams are taken at all; else the call is refused. */
static bool takes_streams(struct stream_call *c) {
    struct services *services = services_of(c->call);
    const struct device_fault *bad = device_watch_faults(services->device_watches, device_set_count(services->devices), true);
    struct err err;
    if (bad) {
        err_set(&err, ERR_UNAVAILABLE, "the device takes no new streams: %s; %s", bad->why, bad->fix);
        stream_call_refuse(c, &err, "DEVICE_BAD", 0);
    } else if (services->draining) {
        err_set(&err, ERR_UNAVAILABLE, "the daemon is stopping; open the stream again when it is back");
        stream_call_refuse(c, &err, "DRAINING", SESSION_RETRY_MS);
    } else {
        return true;
    }
    return false;
}

/* A token for beds of some names opens no stream of another one, whatever its client says; else the call is refused. */
static bool may_have_name(struct stream_call *c, const char *name) {
    const struct auth_caller *caller = rpc_caller(c->call);
    struct err err;
    if (token_names_match(caller->names, name))
        return true;
    err_set(&err, ERR_DENIED, "Open.client_name is '%.80s'; the token of %s is for streams of the names %s (names= in its line)",
            name, caller->name, caller->names);
    stream_call_refuse(c, &err, "NAME_NOT_ALLOWED", 0);
    return false;
}

static void open_session(struct stream_call *c, const Brr__V1__Open *in, const char *path, const char *name, bool served) {
    struct live_open open = describe_open(in, path, name);
    const struct session_request request = {.open = &open,
                                            .client = in->client_name,
                                            .principal = rpc_caller(c->call)->name,
                                            .address = rpc_caller(c->call)->peer,
                                            SAME_MEMBERS(*in, patient, resumable),
                                            .start_ms = in->start_time_ms > 0 ? in->start_time_ms : 0,
                                            .served = served,
                                            .admin = rpc_caller(c->call)->role >= ROLE_ADMIN};
    struct services *services = services_of(c->call);
    struct err err;
    str_copy(open.device_name, sizeof open.device_name, in->device);
    if (!may_have_name(c, in->client_name) || !takes_streams(c))
        return;
    if (services->place_stream && services->place_stream(services, in->device, name, &open.device, &err))
        stream_call_refuse(c, &err, err.code == ERR_UNAVAILABLE ? "DEVICE_BAD" : NULL, 0);
    else if (session_open(services_of(c->call)->sessions, &request, &stream_call_sink, c, &c->session, &err))
        stream_call_refuse(c, &err, "OVERLOADED", SESSION_RETRY_MS);
    else
        c->opening = OPENING_OPEN;
}

static void count_resume(const struct stream_call *c, const char *model, const char *result) {
    char labels[LIVE_NAME + 32];
    str_format(labels, sizeof labels, "%s\x1f%s", model, result);
    metric_add(metrics_series(services_of(c->call)->metrics, "brrd_stream_resumes_total", labels), 1);
}

/* The session of the token in Open goes on with this call. False when there is none: a new one is opened then, and says so. */
static bool resume_session(struct stream_call *c, const Brr__V1__Open *in) {
    struct live_open open = describe_open(in, "", "");
    struct session *s = sessions_find(services_of(c->call)->sessions, in->resume_token, rpc_caller(c->call)->name);
    struct err err;
    if (!s) {
        count_resume(c, "unknown", "expired");
        if (!in->resume_only)
            return false;
        err_set(&err, ERR_UNAVAILABLE, "this daemon does not have the session; another one may");
        stream_call_refuse(c, &err, "SESSION_UNKNOWN", 0);
        return true;
    }
    if (!takes_streams(c))
        return true;
    if (session_check(s, &open, &err)) {
        stream_call_refuse(c, &err, NULL, 0);
        return true;
    }
    const int64_t wait_ms = session_wait_ms(s);
    if (wait_ms) {
        err_set(&err, ERR_EXHAUSTED, "the device is behind (limits.lag); come back in %.1f s", (double)wait_ms / 1000);
        stream_call_refuse(c, &err, "OVERLOADED", wait_ms);
        return true;
    }
    count_resume(c, session_model(s), "resumed");
    c->session = s;
    c->opening = OPENING_OPEN;
    c->resumed = true;
    session_resume(s, &(struct session_return){.token = in->resume_token,
                                               .address = rpc_caller(c->call)->peer,
                                               .sink = &stream_call_sink,
                                               .owner = c,
                                               .next_result = in->next_result_seq,
                                               .next_alarm = in->next_alarm_seq});
    return true;
}

/* The Open that was kept; NULL when out of memory: the call has been refused then. */
static const Brr__V1__Open *kept_open(struct stream_call *c, struct arena *arena) {
    struct err err;
    const Brr__V1__Open *in = texts_unpack(arena, &brr__v1__open__descriptor, c->open, c->open_len, &err);
    if (!in)
        stream_call_refuse(c, &err, NULL, 0);
    free(c->open);
    c->open = NULL;
    return in;
}

/* Opens with the model file that is here now; the model does not serve. */
static void open_kept(struct stream_call *c, const char *path, const char *name) {
    OWNED(arena_done) struct arena arena = arena_of(2 * RPC_DATA_BYTES);
    const Brr__V1__Open *in = kept_open(c, &arena);
    if (in)
        open_session(c, in, path, name, false);
    stream_call_steer(c);
}

static bool keep_open(struct stream_call *c, const Brr__V1__Open *in) {
    struct err err;
    if (!(c->open = malloc(brr__v1__open__get_packed_size(in) + 1))) {
        err_set(&err, ERR_EXHAUSTED, "out of memory for a stream");
        stream_call_refuse(c, &err, NULL, 0);
        return false;
    }
    c->open_len = brr__v1__open__pack(in, c->open);
    return true;
}

static void open_again(struct stream_call *c) {
    OWNED(arena_done) struct arena arena = arena_of(2 * RPC_DATA_BYTES);
    const Brr__V1__Open *in = kept_open(c, &arena);
    services_enter(services_of(c->call), rpc_caller(c->call));
    if (in)
        stream_call_open(c, in);
    services_enter(services_of(c->call), NULL);
    stream_call_steer(c);
}

static void look_again(struct rpc_call *call) {
    struct stream_call *c = rpc_state(call);
    c->opening = OPENING_NONE;
    open_again(c);
}

/* The daemon has just started: the session of this Open may be restored in a moment. True if the call waits, or was refused. */
static bool await_session(struct stream_call *c, const Brr__V1__Open *in) {
    struct sessions *all = services_of(c->call)->sessions;
    struct err err;
    if (!sessions_awaited(all) || sessions_find(all, in->resume_token, rpc_caller(c->call)->name)) {
        c->looks = 0;
        return false;
    }
    if (c->looks++ == RESTORING_LOOKS) {
        err_set(&err, ERR_UNAVAILABLE, "snapshots of streams cannot be read yet (see the daemon's log); try again later");
        stream_call_refuse(c, &err, "RESTORING", RESTORING_RETRY_MS);
    } else if (keep_open(c, in)) {
        c->opening = OPENING_RESTORING;
        rpc_tick(c->call, RESTORING_LOOK_MS, 0, look_again);
    }
    return true;
}

static void on_claimed(struct session_claim *claim) {
    struct stream_call *c = claim->ctx;
    if (!c) /* the call has ended */
        return;
    c->opening = OPENING_NONE;
    open_again(c);
}

/* The session may be another daemon's, and becomes this one's. True if the call waits, or was refused. */
static bool claim_session(struct stream_call *c, const Brr__V1__Open *in) {
    struct err err;
    if (c->claimed)
        return false;
    c->claimed = true;
    if (!takes_streams(c))
        return true;
    struct session_claim *claim = calloc(1, sizeof *claim);
    int rc = claim ? 0 : err_set(&err, ERR_EXHAUSTED, "out of memory for a stream");
    if (claim) {
        *claim = (struct session_claim){.done = on_claimed, .ctx = c};
        rc = sessions_claim(services_of(c->call)->sessions, in->resume_token, claim, &err);
    }
    if (rc) {
        free(claim);
        if (rc != ERR_UNSUPPORTED)
            stream_call_refuse(c, &err, "OVERLOADED", SESSION_RETRY_MS);
        return rc != ERR_UNSUPPORTED;
    }
    c->awaited.claim = claim;
    c->opening = OPENING_CLAIMING;
    return keep_open(c, in) || true;
}

/* A fetch takes room in the cache and traffic of the store, as a job does. */
static bool may_fetch(const struct stream_call *c, struct err *err) {
    const struct auth_caller *caller = rpc_caller(c->call);
    if (caller->role >= ROLE_SUBMIT)
        return true;
    err_set(err, ERR_DENIED,
            "a stream with a model of a store needs the role submit; %s has the role %s. Ask for the model to be served (`brrctl "
            "load`)",
            caller->name, role_name(caller->role));
    return false;
}

/* The file of a model that does not serve, looked for or fetched on libuv's thread pool. */
struct finding {
    struct pool_work work;
    struct stream_call *c; /* NULL once the call has ended */
    uv_loop_t *loop;
    const struct source_config *source;
    struct model_ref ref;
    struct model_file file;
    atomic_bool stop;
    struct err err;
};

static void find_work(struct pool_work *work) {
    struct finding *f = (struct finding *)work;
    model_resolve(&f->ref, &(struct model_wish){.source = f->source, .stop = &f->stop}, &f->file, &f->err);
}

static void find_done(struct pool_work *work) {
    struct finding *f = (struct finding *)work;
    struct stream_call *c = f->c;
    if (c) {
        c->opening = OPENING_NONE;
        c->model = f->file;
    } else {
        model_file_release_later(f->loop, &f->file);
    }
    if (c && f->err.code)
        stream_call_refuse(c, &f->err, NULL, 0);
    else if (c)
        open_kept(c, c->model.path, f->ref.name);
    free(f);
}

static void find_model(struct stream_call *c, const struct model_ref *ref, const Brr__V1__Open *in) {
    struct services *services = services_of(c->call);
    const bool object = ref->origin == MODEL_OBJECT;
    struct pool_share *share = offload_share(services, object ? OFFLOAD_FETCH : OFFLOAD_OPEN);
    struct finding *f = NULL;
    struct err err;
    if (object && share->working == share->most) {
        err_set(&err, ERR_UNAVAILABLE, "%d models are being fetched for other streams; try again later", share->working);
        stream_call_refuse(c, &err, "OVERLOADED", SESSION_RETRY_MS);
        return;
    }
    if (!keep_open(c, in))
        return;
    if (!(f = calloc(1, sizeof *f))) {
        err_set(&err, ERR_EXHAUSTED, "out of memory for a stream");
        stream_call_refuse(c, &err, NULL, 0);
        return;
    }
    f->c = c;
    f->loop = services->loop;
    f->source = &services->source;
    f->ref = *ref;
    c->awaited.finding = f;
    c->opening = OPENING_FINDING;
    pool_share_start(share, services->loop, &f->work, find_work, find_done);
}

/* Its call has ended. */
static void forget_finding(struct finding *f) {
    f->c = NULL;
    atomic_store(&f->stop, true);
    if (pool_share_cancel(&f->work))
        free(f);
}

void stream_call_open(struct stream_call *c, const Brr__V1__Open *in) {
    struct model_ref ref;
    struct err err;
    if (check_open(in, &err))
        stream_call_refuse(c, &err, NULL, 0);
    else if (*in->resume_token && (await_session(c, in) || claim_session(c, in) || resume_session(c, in)))
        return;
    else if (model_fetch_is_url(in->model) && !may_fetch(c, &err))
        stream_call_refuse(c, &err, "ROLE_TOO_SMALL", 0);
    else if (models_refer(services_of(c->call)->models, in->model, &ref, &err))
        stream_call_refuse(c, &err, NULL, 0);
    else if (ref.origin == MODEL_SERVED)
        open_session(c, in, ref.path, ref.name, true);
    else
        find_model(c, &ref, in);
}

void stream_call_opening_done(struct stream_call *c) {
    switch (c->opening) {
    case OPENING_CLAIMING:
        c->awaited.claim->ctx = NULL;
        break;
    case OPENING_FINDING:
        forget_finding(c->awaited.finding);
        break;
    case OPENING_NONE:
    case OPENING_RESTORING: /* the timer is closed with the call */
    case OPENING_OPEN:
        break;
    }
    model_file_release_later(services_of(c->call)->loop, &c->model);
    free(c->open);
}
