/* Translates the callbacks of a session into messages to its client. */

#include "daemon/services/convert.h"
#include "daemon/services/convert_stream.h"
#include "daemon/services/stream_call.h"

enum { ACK_DELAY_MS = 10, LIVE_ACK_MS = 250, ACKS_MS = 5 /* for those that are due in one turn of the loop */ };

void stream_call_refuse(struct stream_call *c, const struct err *err, const char *reason, int64_t retry_ms) {
    c->outcome = "refused";
    rpc_refuse(c->call, err, reason, retry_ms);
}

static void reply(struct stream_call *c, Brr__V1__ServerMessage *m) {
    c->full = !convert_send(c->call, &m->base);
    if (c->session)
        session_stall(c->session, c->full);
}

void stream_call_ack(struct stream_call *c) {
    c->ack_waiting = false;
    if (!c->session)
        return;
    struct session_counts counts;
    Brr__V1__ServerMessage m = BRR__V1__SERVER_MESSAGE__INIT;
    Brr__V1__Ack ack = BRR__V1__ACK__INIT;
    session_counts(c->session, &counts);
    COPY_MEMBERS(ack, counts, received_through, durable_through, unsaved);
    m.kind_case = BRR__V1__SERVER_MESSAGE__KIND_ACK;
    m.ack = &ack;
    reply(c, &m);
}

static void ack_waiting(struct stream_call *c) {
    if (c->ack_waiting)
        stream_call_ack(c);
}

static void on_ack_due(struct rpc_call *call) {
    struct services *services = services_of(call);
    if (services->acks_turn != uv_now(services->loop)) { /* the first of this turn: what other timers took does not count */
        services->acks_turn = uv_now(services->loop);
        services->acks_ms = clock_ms();
    }
    if (clock_ms() - services->acks_ms < ACKS_MS)
        ack_waiting(rpc_state(call));
    else
        rpc_tick(call, 1, 0, on_ack_due);
}

/* Acks of live streams leave together, at the next multiple of LIVE_ACK_MS, or with an answer before. */
void stream_call_ack_soon(struct stream_call *c) {
    if (c->ack_waiting)
        return;
    c->ack_waiting = true;
    const bool live = c->session && session_is_realtime(c->session);
    const uint64_t delay = live ? LIVE_ACK_MS - uv_now(services_of(c->call)->loop) % LIVE_ACK_MS : ACK_DELAY_MS;
    rpc_tick(c->call, delay, 0, on_ack_due);
}

void stream_call_steer(struct stream_call *c) {
    bool hold = !c->session || c->full || !session_room(c->session);
    if (hold && !c->held)
        rpc_hold(c->call);
    bool release = !hold && c->held;
    c->held = hold;
    if (release)
        rpc_release(c->call);
}

void stream_call_finish_samples(struct rpc_call *call) {
    struct stream_call *c = rpc_state(call);
    struct err err;
    if (c->session && session_finish(c->session, &err))
        stream_call_refuse(c, &err, NULL, 0);
}

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
    char note[sizeof o->note + 128];
    const bool unused = session_patient_unused(c->session);
    if (montage_channels(file->montage, &names, &n, &err)) {
        stream_call_refuse(c, &err, NULL, 0);
        return;
    }
    c->opened = true;
    if (session_is_realtime(c->session))
        rpc_be_patient(c->call);
    rpc_concerns(c->call, "session", session_id(c->session));
    opened.session_id = (char *)(uintptr_t)session_id(c->session);
    opened.max_chunk_samples = max_chunk > INT32_MAX ? INT32_MAX : (int32_t)max_chunk;
    opened.montage = (char **)(uintptr_t)names;
    opened.n_montage = (size_t)n;
    opened.used_channels = (int32_t *)(uintptr_t)o->sources;
    opened.n_used_channels = (size_t)o->n_sources;
    str_format(note, sizeof note, "%s%s%s", o->note, *o->note && unused ? "; " : "",
               unused ? "Open.patient (--patient) has no effect: nothing is kept of patients here (limits.patient_memory)" : "");
    opened.note = note;
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
    opened.resume_ttl_ms = session_resume_ttl_ms(c->session);
    opened.resumed = c->resumed;
    opened.next_sample = counts.received_through;
    opened.next_result_seq = session_next_result(c->session);
    m.kind_case = BRR__V1__SERVER_MESSAGE__KIND_OPENED;
    m.opened = &opened;
    reply(c, &m);
    montage_channels_free(names);
    if (c->half_closed && session_is_resumable(c->session))
        rpc_flush(c->call, stream_call_finish_samples);
    else if (c->half_closed)
        stream_call_finish_samples(c->call);
    stream_call_steer(c);
}

void stream_call_lack_memory(struct rpc_call *call) {
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
        stream_call_lack_memory(c->call);
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
    stream_call_steer(c);
}

static void on_report(void *owner, const struct live_report *r) {
    struct stream_call *c = owner;
    send_report(c, r);
    if (c->session && session_is_realtime(c->session))
        ack_waiting(c);
}

static void on_progress(void *owner) {
    stream_call_ack_soon(owner);
    stream_call_steer(owner);
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
        stream_call_lack_memory(c->call);
        return;
    }
    s.source_samples = counts.received_through;
    COPY_MEMBERS(s, *r, samples, windows);
    COPY_MEMBERS(s, counts, gaps, duplicate_samples);
    s.events = events.list;
    s.n_events = events.n;
    s.events_total = counts.events_total;
    s.seizure_seconds = (double)counts.seizure_samples / FRONTEND_RATE_HZ;
    s.observed_seconds = (double)r->totals.observed / FRONTEND_RATE_HZ;
    s.suppressed_seconds = (double)r->totals.suppressed / FRONTEND_RATE_HZ;
    s.bursts = r->totals.bursts;
    s.learning_s = r->learning_s;
    s.mislabelled = (char *)(uintptr_t)r->mislabelled;
    m.kind_case = BRR__V1__SERVER_MESSAGE__KIND_SUMMARY;
    m.summary = &s;
    stream_call_ack(c);
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
    stream_call_steer(owner);
}

/* Returns the reason for brrd_stream_sessions_closed_total. A stream that never opened was refused: no bed is lost with it. */
static const char *outcome_of(const struct stream_call *c, const char *reason) {
    if (!c->opened && !c->resumed)
        return "refused";
    if (reason && !strcmp(reason, "SESSION_EXPIRED"))
        return "idle";
    return reason && !strcmp(reason, "SESSION_CLOSED") ? "closed" : "failed";
}

static void on_failed(void *owner, const struct err *err, const char *reason) {
    struct stream_call *c = owner;
    if (!reason && !c->opened && err->code == ERR_PRECONDITION)
        reason = str_starts(err->message, ALARM_SETS_NONE) ? "ALARM_RULE_MISSING" : "MONTAGE_MISMATCH";
    if (!reason && !c->opened && err->code == ERR_INVALID &&
        (str_starts(err->message, "thresholds ") || str_starts(err->message, "alarm hop ")))
        reason = "OPTION_INVALID";
    int64_t retry_ms = session_retry_ms(c->session, reason);
    if (reason && (!strcmp(reason, "OVERLOADED") || !strcmp(reason, "DRAINING"))) { /* the session stays as after a cut */
        stream_call_ack(c);
        rpc_refuse(c->call, err, reason, retry_ms);
        return;
    }
    if (reason && !strcmp(reason, "TAKEN_OVER"))
        c->session = NULL;
    c->outcome = outcome_of(c, reason);
    rpc_refuse(c->call, err, reason, retry_ms);
}

const struct session_sink stream_call_sink = {.opened = on_opened,
                                              .result = on_report,
                                              .provisional = on_report,
                                              .alarm = on_report,
                                              .progress = on_progress,
                                              .summary = on_summary,
                                              .draining = on_draining,
                                              .failed = on_failed};
