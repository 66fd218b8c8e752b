/* brr.v1.Stream over sessions (live/session.h): translation, and back-pressure both ways. The next message is read only when the
 * session has room and the client has read its answers. A call ends with its connection; a resumable session does not. */
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "brr/v1/stream.pb-c.h"
#include "daemon/models/model_fetch.h"
#include "daemon/models/model_lease.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/convert_stream.h"
#include "daemon/rpc/services.h"
#include "daemon/rpc/texts.h"

enum {
    ACK_DELAY_MS = 10,
    MAX_RATE_HZ = 65536,
    MAX_LEASINGS = 8,
    RESTORING_LOOK_MS = 50,
    RESTORING_LOOKS = 100,
    RESTORING_RETRY_MS = 5000
};

static const char client_gone[] = "client_gone"; /* the outcome of a call that nothing else ended */
static const double MIN_ALARM_HOP_S = 0.25;      /* each hop costs a whole window */
static const double MAX_ALARM_RATE = 1000;

struct stream_call {
    struct rpc_call *call;
    struct session *session;       /* NULL before Open and after the end */
    struct model_leasing *leasing; /* of the model, which Open names by its URL */
    struct finding *finding;       /* of the model's file */
    struct session_claim *claim;   /* the session may be another daemon's */
    bool claimed;                  /* it was asked for */
    uint8_t *open;                 /* that Open, packed, while the model is on its way or looked for */
    size_t open_len;
    struct model_lease lease; /* the model, to the end */
    uv_timer_t ack_timer;
    int restoring; /* how often it was looked whether its session has been restored; the timer waits for the next look */
    bool ack_waiting, held, full, half_closed, opened, resumed, ended;
    const char *outcome; /* how it ended, for the metric */
};

static void refuse(struct stream_call *c, const struct err *err, const char *reason, int64_t retry_ms) {
    c->outcome = "refused";
    rpc_refuse(c->call, err, reason, retry_ms);
}

static void reply(struct stream_call *c, Brr__V1__ServerMessage *m) {
    c->full = !convert_send(c->call, &m->base);
    if (c->session)
        session_stall(c->session, c->full);
}

static void send_ack(uv_timer_t *timer) {
    struct stream_call *c = timer->data;
    c->ack_waiting = false;
    if (!c->session)
        return;
    struct session_counts counts;
    Brr__V1__ServerMessage m = BRR__V1__SERVER_MESSAGE__INIT;
    Brr__V1__Ack ack = BRR__V1__ACK__INIT;
    session_counts(c->session, &counts);
    ack.received_through = counts.received_through;
    ack.durable_through = counts.durable_through;
    ack.unsaved = counts.unsaved;
    m.kind_case = BRR__V1__SERVER_MESSAGE__KIND_ACK;
    m.ack = &ack;
    reply(c, &m);
}

/* One Ack for all chunks of the next few milliseconds. */
static void ack_soon(struct stream_call *c) {
    if (c->ack_waiting || c->ended)
        return;
    c->ack_waiting = true;
    uv_timer_start(&c->ack_timer, send_ack, ACK_DELAY_MS, 0);
}

/* Read on, or not. */
static void steer(struct stream_call *c) {
    bool hold = !c->session || c->full || !session_room(c->session);
    if (hold && !c->held)
        rpc_hold(c->call);
    bool release = !hold && c->held;
    c->held = hold;
    if (release)
        rpc_release(c->call);
}

/* After half-close, when the session is open; of a resumable one when an answer has left since, which proves that the connection
 * was not lost but half-closed. */
static void finish_samples(struct rpc_call *call) {
    struct stream_call *c = rpc_state(call);
    struct err err;
    if (c->session && session_finish(c->session, &err))
        refuse(c, &err, NULL, 0);
}

/* ---- what the session says ---- */

static void on_opened(void *owner, const struct live_opened *o) {
    struct stream_call *c = owner;
    const struct modelfile *file = &o->info.file;
    const char *const *names = NULL;
    int n = 0;
    struct err err;
    struct session_counts counts;
    Brr__V1__ServerMessage m = BRR__V1__SERVER_MESSAGE__INIT;
    Brr__V1__Opened opened = BRR__V1__OPENED__INIT;
    session_counts(c->session, &counts);
    int64_t max_chunk = session_max_chunk(c->session, RPC_DATA_BYTES);
    if (montage_channels(file->montage, &names, &n, &err)) {
        refuse(c, &err, NULL, 0);
        return;
    }
    c->opened = true;
    rpc_concerns(c->call, "session", session_id(c->session));
    opened.session_id = (char *)(uintptr_t)session_id(c->session);
    opened.max_chunk_samples = max_chunk > INT32_MAX ? INT32_MAX : (int32_t)max_chunk;
    opened.montage = (char **)(uintptr_t)names;
    opened.n_montage = (size_t)n;
    opened.used_channels = (int32_t *)(uintptr_t)o->sources;
    opened.n_used_channels = (size_t)o->n_sources;
    opened.note = (char *)(uintptr_t)o->note;
    opened.hop_s = (double)modelfile_hop(file) / FRONTEND_RATE_HZ;
    opened.alarm_hop_s = (double)o->alarm_hop / FRONTEND_RATE_HZ;
    opened.window_s = (double)modelfile_window(file) / FRONTEND_RATE_HZ;
    opened.threshold_on = file->events.on;
    opened.threshold_off = file->events.off;
    opened.alarm_threshold_on = o->alarms.on;
    opened.alarm_threshold_off = o->alarms.off;
    opened.model_sha256 = (char *)(uintptr_t)o->info.sha256;
    opened.resume_token = (char *)(uintptr_t)session_token(c->session);
    opened.epoch = session_epoch(c->session);
    opened.resumed = c->resumed;
    opened.next_sample = counts.received_through;
    opened.next_result_seq = session_next_result(c->session);
    m.kind_case = BRR__V1__SERVER_MESSAGE__KIND_OPENED;
    m.opened = &opened;
    reply(c, &m);
    montage_channels_free(names);
    if (c->half_closed && session_is_resumable(c->session))
        rpc_flush(c->call, finish_samples);
    else if (c->half_closed)
        finish_samples(c->call);
    steer(c);
}

/* Half an answer is none: the call ends, and a resumable session is not told of it, so that its client may come back for the whole.
 */
static void lack_memory(struct rpc_call *call) {
    struct err err;
    err_set(&err, ERR_EXHAUSTED, "out of memory for the answers of a stream; try again later");
    rpc_refuse(call, &err, NULL, SESSION_RETRY_MS);
}

/* A result, an alarm, or values of the alarm trace. */
static void send_report(struct stream_call *c, const struct live_report *r) {
    Brr__V1__ServerMessage m = BRR__V1__SERVER_MESSAGE__INIT;
    struct stream_message parts;
    if (!stream_message(r, &parts)) {
        stream_message_done(&parts);
        lack_memory(c->call);
        return;
    }
    switch ((enum live_report_kind)r->message.kind) {
    case LIVE_ALARM:
        m.kind_case = BRR__V1__SERVER_MESSAGE__KIND_ALARM;
        m.alarm = &parts.alarm;
        break;
    case LIVE_PROVISIONAL:
        m.kind_case = BRR__V1__SERVER_MESSAGE__KIND_PROVISIONAL;
        m.provisional = &parts.provisional;
        break;
    default:
        m.kind_case = BRR__V1__SERVER_MESSAGE__KIND_RESULT;
        m.result = &parts.result;
        break;
    }
    reply(c, &m);
    stream_message_done(&parts);
    steer(c);
}

static void on_report(void *owner, const struct live_report *r) { send_report(owner, r); }

static void on_progress(void *owner) {
    ack_soon(owner);
    steer(owner);
}

static void on_summary(void *owner, const struct live_report *r) {
    struct stream_call *c = owner;
    struct session_counts counts;
    Brr__V1__ServerMessage m = BRR__V1__SERVER_MESSAGE__INIT;
    Brr__V1__Summary s = BRR__V1__SUMMARY__INIT;
    session_counts(c->session, &counts);
    struct stream_events events;
    if (!stream_events(counts.events, counts.n_events, &events)) {
        stream_events_done(&events);
        lack_memory(c->call);
        return;
    }
    s.source_samples = counts.received_through;
    s.samples = r->samples;
    s.windows = r->windows;
    s.gaps = counts.gaps;
    s.duplicate_samples = counts.duplicate_samples;
    s.events = events.list;
    s.n_events = events.n;
    s.events_total = counts.events_total;
    s.seizure_seconds = (double)counts.seizure_samples / FRONTEND_RATE_HZ;
    s.observed_seconds = (double)r->totals.observed / FRONTEND_RATE_HZ;
    s.suppressed_seconds = (double)r->totals.suppressed / FRONTEND_RATE_HZ;
    s.bursts = r->totals.bursts;
    s.mislabelled = (char *)(uintptr_t)r->mislabelled;
    m.kind_case = BRR__V1__SERVER_MESSAGE__KIND_SUMMARY;
    m.summary = &s;
    send_ack(&c->ack_timer);
    reply(c, &m);
    stream_events_done(&events);
    c->outcome = "done";
    rpc_finish(c->call, NULL);
}

static void on_draining(void *owner, int64_t retry_ms, const char *reason) {
    Brr__V1__ServerMessage m = BRR__V1__SERVER_MESSAGE__INIT;
    Brr__V1__Draining draining = BRR__V1__DRAINING__INIT;
    draining.retry_after_ms = retry_ms;
    draining.reason = (char *)(uintptr_t)reason;
    m.kind_case = BRR__V1__SERVER_MESSAGE__KIND_DRAINING;
    m.draining = &draining;
    reply(owner, &m);
    steer(owner);
}

static void on_failed(void *owner, const struct err *err, const char *reason) {
    struct stream_call *c = owner;
    if (!reason && !c->opened && err->code == ERR_PRECONDITION)
        reason = "MONTAGE_MISMATCH";
    bool overloaded = reason && !strcmp(reason, "OVERLOADED");
    if (overloaded || (reason && !strcmp(reason, "DRAINING"))) { /* the session stays as after a cut */
        send_ack(&c->ack_timer);
        rpc_refuse(c->call, err, reason, overloaded ? session_retry_ms(c->session) : SESSION_RETRY_MS);
        return;
    }
    if (reason && !strcmp(reason, "TAKEN_OVER"))
        c->session = NULL;
    c->outcome = !reason                              ? "failed"
                 : !strcmp(reason, "SESSION_EXPIRED") ? "idle"
                 : !strcmp(reason, "SESSION_CLOSED")  ? "closed"
                                                      : "failed";
    rpc_refuse(c->call, err, reason, 0);
}

static const struct session_sink sink = {.opened = on_opened,
                                         .result = on_report,
                                         .provisional = on_report,
                                         .alarm = on_report,
                                         .progress = on_progress,
                                         .summary = on_summary,
                                         .draining = on_draining,
                                         .failed = on_failed};

/* ---- what the client says ---- */

static int check_open(const Brr__V1__Open *in, struct err *err) {
    if (!in->n_channels || in->n_channels > FRONTEND_MAX_LABELS)
        return err_set(err, ERR_INVALID, "Open names %zu channels; expected 1 to %d", in->n_channels, FRONTEND_MAX_LABELS);
    for (size_t i = 0; i < in->n_channels; i++)
        if (strlen(in->channels[i]) >= SESSION_LABEL_SIZE)
            return err_set(err, ERR_INVALID, "Open.channels[%zu] has %zu bytes; expected at most %d", i, strlen(in->channels[i]),
                           SESSION_LABEL_SIZE - 1);
    if (!(in->rate_hz >= 1 && in->rate_hz <= MAX_RATE_HZ))
        return err_set(err, ERR_INVALID, "Open.rate_hz is %g; expected 1 to %d", in->rate_hz, MAX_RATE_HZ);
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
                       ", or 0 for alarms by the thresholds, "
                       "and with a rate an alarm_hop_s of at least 0",
                       in->alarm_rate, in->alarm_hop_s);
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
                              .rate_hz = in->rate_hz,
                              .format = in->format == BRR__V1__SAMPLE_FORMAT__SAMPLE_FORMAT_I16 ? LIVE_I16 : LIVE_F32_UV,
                              .scale_uv = in->scale_uv,
                              .alarm_hop_s = in->alarm_hop_s,
                              .on = in->threshold_on,
                              .off = in->threshold_off,
                              .alarm_rate = in->alarm_rate,
                              .realtime = in->realtime,
                              .want_probabilities = in->want_probabilities};
}

/* True if streams are taken at all; else the call is refused. */
static bool takes_streams(struct stream_call *c) {
    struct services *services = services_of(c->call);
    const struct device_fault *bad = device_watch_faults(services->device_watches, device_set_count(services->devices), true);
    struct err err;
    if (bad) {
        err_set(&err, ERR_UNAVAILABLE, "the device takes no new streams: %s; %s", bad->why, bad->fix);
        refuse(c, &err, "DEVICE_BAD", 0);
    } else if (!atomic_load(&services->serving)) {
        err_set(&err, ERR_UNAVAILABLE, "the daemon is stopping; open the stream again when it is back");
        refuse(c, &err, "DRAINING", SESSION_RETRY_MS);
    } else {
        return true;
    }
    return false;
}

static void open_session(struct stream_call *c, const Brr__V1__Open *in, const char *path, const char *name, bool served) {
    struct live_open open = describe_open(in, path, name);
    const struct session_request request = {.open = &open,
                                            .client = in->client_name,
                                            .principal = rpc_caller(c->call)->name,
                                            .address = rpc_caller(c->call)->peer,
                                            .start_ms = in->start_time_ms > 0 ? in->start_time_ms : 0,
                                            .resumable = in->resumable,
                                            .served = served,
                                            .admin = rpc_caller(c->call)->role >= ROLE_ADMIN};
    struct services *services = services_of(c->call);
    struct err err;
    str_copy(open.device_name, sizeof open.device_name, in->device);
    if (!takes_streams(c))
        return;
    if (services->place_stream && services->place_stream(services, in->device, name, &open.device, &err))
        refuse(c, &err, err.code == ERR_UNAVAILABLE ? "DEVICE_BAD" : NULL, 0);
    else if (session_open(services_of(c->call)->sessions, &request, &sink, c, &c->session, &err))
        refuse(c, &err, "OVERLOADED", SESSION_RETRY_MS);
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
        refuse(c, &err, "SESSION_UNKNOWN", 0);
        return true;
    }
    if (!takes_streams(c))
        return true;
    if (session_check(s, &open, &err)) {
        refuse(c, &err, NULL, 0);
        return true;
    }
    count_resume(c, session_model(s), "resumed");
    c->session = s;
    c->resumed = true;
    session_resume(s, &(struct session_return){.token = in->resume_token,
                                               .address = rpc_caller(c->call)->peer,
                                               .sink = &sink,
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
        refuse(c, &err, NULL, 0);
    free(c->open);
    c->open = NULL;
    return in;
}

/* Opens with the model file that is here now; the model does not serve. */
static void open_kept(struct stream_call *c, const char *path, const char *name) {
    OWNED(arena_done) struct arena arena;
    arena_init(&arena, 2 * RPC_DATA_BYTES);
    const Brr__V1__Open *in = kept_open(c, &arena);
    if (in)
        open_session(c, in, path, name, false);
    steer(c);
}

static bool keep_open(struct stream_call *c, const Brr__V1__Open *in) {
    struct err err;
    if (!(c->open = malloc(brr__v1__open__get_packed_size(in) + 1))) {
        err_set(&err, ERR_EXHAUSTED, "out of memory for a stream");
        refuse(c, &err, NULL, 0);
        return false;
    }
    c->open_len = brr__v1__open__pack(in, c->open);
    return true;
}

static void open_stream(struct stream_call *c, const Brr__V1__Open *in);

static void open_again(struct stream_call *c) {
    OWNED(arena_done) struct arena arena;
    arena_init(&arena, 2 * RPC_DATA_BYTES);
    const Brr__V1__Open *in = kept_open(c, &arena);
    if (in)
        open_stream(c, in);
    steer(c);
}

static void look_again(uv_timer_t *timer) { open_again(timer->data); }

/* The daemon has just started: the session of this Open may be restored in a moment. True if the call waits, or was refused. */
static bool await_session(struct stream_call *c, const Brr__V1__Open *in) {
    struct sessions *all = services_of(c->call)->sessions;
    struct err err;
    if (!sessions_awaited(all) || sessions_find(all, in->resume_token, rpc_caller(c->call)->name)) {
        c->restoring = 0;
        return false;
    }
    if (c->restoring++ == RESTORING_LOOKS) {
        err_set(&err, ERR_UNAVAILABLE, "snapshots of streams cannot be read yet (see the daemon's log); try again later");
        refuse(c, &err, "RESTORING", RESTORING_RETRY_MS);
    } else if (keep_open(c, in)) {
        uv_timer_start(&c->ack_timer, look_again, RESTORING_LOOK_MS, 0);
    }
    return true;
}

static void on_claimed(struct session_claim *claim) {
    struct stream_call *c = claim->ctx;
    if (!c) /* the call has ended */
        return;
    c->claim = NULL;
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
            refuse(c, &err, "OVERLOADED", SESSION_RETRY_MS);
        return rc != ERR_UNSUPPORTED;
    }
    c->claim = claim;
    return keep_open(c, in) || true;
}

static void on_leased(void *ctx, const struct model_lease *lease, const struct err *err) {
    struct stream_call *c = ctx;
    c->leasing = NULL;
    if (!lease) {
        refuse(c, err, NULL, 0);
        return;
    }
    c->lease = *lease;
    open_kept(c, c->lease.path, "store");
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

/* The model lies in a store: the stream begins when it is here. */
static void lease_model(struct stream_call *c, const Brr__V1__Open *in) {
    struct services *services = services_of(c->call);
    struct err err;
    const struct model_lease_start start = {
        .loop = services->loop, .config = &services->source, .threads = &services->leasings, .done = on_leased, .ctx = c};
    if (services->leasings == MAX_LEASINGS) {
        err_set(&err, ERR_UNAVAILABLE, "%d models are being fetched for other streams; try again later", services->leasings);
        refuse(c, &err, "OVERLOADED", SESSION_RETRY_MS);
        return;
    }
    if (keep_open(c, in) && model_lease_start(&start, in->model, &c->leasing, &err))
        refuse(c, &err, NULL, 0);
}

/* A model that does not serve: whether its file is there is found out on libuv's thread pool. */
struct finding {
    struct pool_work work;
    struct stream_call *c; /* NULL once the call has ended */
    struct model_ref ref;
    struct err err;
};

static void find_work(struct pool_work *work) {
    struct finding *f = (struct finding *)work;
    model_ref_find(&f->ref, &f->err);
}

static void find_done(struct pool_work *work) {
    struct finding *f = (struct finding *)work;
    struct stream_call *c = f->c;
    if (c)
        c->finding = NULL;
    if (c && f->err.code)
        refuse(c, &f->err, NULL, 0);
    else if (c)
        open_kept(c, f->ref.path, f->ref.name);
    free(f);
}

static void find_model(struct stream_call *c, const struct model_ref *ref, const Brr__V1__Open *in) {
    struct finding *f = calloc(1, sizeof *f);
    struct err err;
    if (!f) {
        err_set(&err, ERR_EXHAUSTED, "out of memory for a stream");
        refuse(c, &err, NULL, 0);
        return;
    }
    if (!keep_open(c, in)) {
        free(f);
        return;
    }
    struct services *services = services_of(c->call);
    f->c = c;
    f->ref = *ref;
    c->finding = f;
    pool_share_start(offload_share(services, OFFLOAD_OPEN), services->loop, &f->work, find_work, find_done);
}

/* Its call has ended. */
static void forget_finding(struct finding *f) {
    f->c = NULL;
    if (pool_share_cancel(&f->work))
        free(f);
}

static void open_stream(struct stream_call *c, const Brr__V1__Open *in) {
    struct model_ref ref;
    struct err err;
    if (check_open(in, &err))
        refuse(c, &err, NULL, 0);
    else if (*in->resume_token && (await_session(c, in) || claim_session(c, in) || resume_session(c, in)))
        return;
    else if (model_fetch_is_url(in->model) && !may_fetch(c, &err))
        refuse(c, &err, "ROLE_TOO_SMALL", 0);
    else if (model_fetch_is_url(in->model))
        lease_model(c, in);
    else if (models_refer(services_of(c->call)->models, in->model, &ref, &err))
        refuse(c, &err, NULL, 0);
    else if (ref.known)
        open_session(c, in, ref.path, ref.name, true);
    else
        find_model(c, &ref, in);
}

/* Anything after Open. */
static void on_more(struct stream_call *c, const Brr__V1__ClientMessage *m) {
    struct err err = {0};
    int rc;
    if (m->kind_case == BRR__V1__CLIENT_MESSAGE__KIND_SEEN) {
        session_seen(c->session, m->seen->next_result_seq, m->seen->next_alarm_seq);
        return;
    }
    if (m->kind_case == BRR__V1__CLIENT_MESSAGE__KIND_CHUNK)
        rc = session_chunk(c->session, m->chunk->first_sample, m->chunk->samples, m->chunk->data.data, m->chunk->data.len, &err);
    else
        rc = session_gap(c->session, m->gap->first, m->gap->end, "client", &err);
    if (rc)
        refuse(c, &err, rc == ERR_RANGE ? "GAP_TOO_LARGE" : NULL, 0);
    else
        ack_soon(c);
}

/* An Open has come. */
static bool has_open(const struct stream_call *c) { return c->session || c->leasing || c->finding || c->claim || c->restoring; }

/* NULL when out of memory: the call has been refused then. */
static struct stream_call *state_of(struct rpc_call *call) {
    struct stream_call *c = rpc_state(call);
    if (c)
        return c;
    if (!(c = calloc(1, sizeof *c))) {
        lack_memory(call);
        return NULL;
    }
    c->call = call;
    c->outcome = client_gone;
    uv_timer_init(services_of(call)->loop, &c->ack_timer);
    c->ack_timer.data = c;
    rpc_set_state(call, c);
    return c;
}

static int message(struct rpc_call *call, const void *request, struct err *err) {
    const Brr__V1__ClientMessage *m = request;
    struct stream_call *c = state_of(call);
    if (!c)
        return 0;
    bool is_open = m->kind_case == BRR__V1__CLIENT_MESSAGE__KIND_OPEN;
    if (m->kind_case == BRR__V1__CLIENT_MESSAGE__KIND__NOT_SET || is_open == has_open(c)) {
        err_set(err, ERR_INVALID, "%s", is_open ? "a second Open on one stream" : "the first message of a stream must be Open");
        refuse(c, err, NULL, 0);
    } else if (is_open) {
        open_stream(c, m->open);
    } else {
        on_more(c, m);
    }
    steer(c);
    return 0;
}

static void half_close(struct rpc_call *call) {
    struct stream_call *c = state_of(call);
    struct err err;
    if (!c)
        return;
    c->half_closed = true;
    if (!has_open(c)) {
        err_set(&err, ERR_INVALID, "the stream ended without an Open");
        refuse(c, &err, NULL, 0);
    } else if (c->opened && session_is_resumable(c->session)) {
        send_ack(&c->ack_timer);
        rpc_flush(call, finish_samples);
    } else if (c->opened) {
        finish_samples(call);
    }
}

static void writable(struct rpc_call *call) {
    struct stream_call *c = rpc_state(call);
    if (!c)
        return;
    c->full = false;
    if (c->session)
        session_stall(c->session, false);
    steer(c);
}

static void on_timer_closed(uv_handle_t *handle) { free(handle->data); }

static void end(struct rpc_call *call) {
    struct stream_call *c = rpc_state(call);
    if (!c)
        return;
    c->ended = true;
    if (c->session && c->outcome == client_gone)
        session_leave(c->session);
    else if (c->session)
        session_close(c->session, c->outcome);
    c->session = NULL;
    if (c->leasing)
        model_lease_forget(c->leasing);
    if (c->finding)
        forget_finding(c->finding);
    if (c->claim)
        c->claim->ctx = NULL;
    model_lease_release(services_of(call)->loop, &c->lease);
    free(c->open);
    uv_close((uv_handle_t *)&c->ack_timer, on_timer_closed);
}

const struct rpc_method svc_stream[] = {
    {RPC_METHOD("/brr.v1.Stream/Run", ROLE_STREAM, brr__v1__client_message, message), .client_stream = true,
     .max_message = RPC_DATA_BYTES, .half_close = half_close, .writable = writable, .end = end},
    {.path = NULL},
};
