/* brr.v1.Sessions: the open streams, their results, and closing a session from another client. */

#include "base/principal.h"
#include "brr/v1/sessions.pb-c.h"
#include "daemon/services/convert.h"
#include "daemon/services/convert_stream.h"
#include "daemon/services/services.h"
#include "daemon/status/gather.h"

enum { INFO_MS = 1000, QUEUE = 64, LIST_BYTES = 16 << 20, LIST_TURN_MS = 5 };

/* A session as a message that borrows from it; free(channels) afterwards. It must stay where it is. */
struct described {
    Brr__V1__SessionInfo info;
    Brr__V1__Quality quality;
    int32_t *channels;
};

/* Of the alarm of the session, if it is open: what people must know beside that it is on. */
static void describe_alarm(const struct services *services, Brr__V1__SessionInfo *out) {
    const struct alarms_now now = desk_now();
    struct alarms_cursor cursor = {0};
    if (!services->desk || (strcmp(out->state, "alarm") != 0 && strcmp(out->state, "was") != 0))
        return;
    for (const struct alarm *a; (a = alarms_next(desk_alarms(services->desk), &cursor));) {
        if (strcmp(a->session, out->session_id) != 0 || a->kind != ALARM_SEIZURE)
            continue;
        out->blind |= a->blind;
        out->cut |= a->cut && alarm_is_open(a);
        if (!alarm_is_silent(a, now.boot_ms))
            continue;
        out->silent_until_ms = a->silent_ms;
        out->silenced_by = convert_text(alarm_author_name(&a->silenced));
    }
}

static void describe(const struct services *services, const struct session *s, struct described *ret) {
    struct session_state state;
    Brr__V1__SessionInfo *out = &ret->info;
    bool flawed;
    session_describe(s, &state);
    brr__v1__session_info__init(out);
    out->session_id = (char *)(uintptr_t)state.id;
    out->client_name = (char *)(uintptr_t)state.client;
    LEND_TEXTS(*out, state, model, principal, address, note);
    out->channel_names = (char **)(uintptr_t)state.channels;
    out->n_channel_names = (size_t)state.n_channels;
    out->channels = state.n_channels;
    out->device = (char *)(uintptr_t)(services->devices ? device_set_name(services->devices, state.device) : "");
    COPY_MEMBERS(*out, state, realtime, connected, rate_hz, opened_ms, received_through, durable_through, samples, events, lag_s,
                 alarm, learning_s, reconnects);
    out->replay = !state.live;
    out->probability = (double)state.probability;
    const struct alarm *on = state.alarm && services->desk ? alarms_on_in(desk_alarms(services->desk), state.id) : NULL;
    const bool told = state.alarm && !(on && on->due_boot_ms);
    const struct alarms *alarms = services->desk ? desk_alarms(services->desk) : NULL;
    out->alarms_off =
        state.live && alarms && alarms_are_off(alarms, state.client) && !alarms_is_anothers(alarms, state.principal, state.client);
    if (services->gather)
        out->state = convert_text(told ? "alarm" : gather_state(services->gather, state.id));
    describe_alarm(services, out);
    stream_quality(state.quality, state.measured_rate_hz, &ret->quality, &ret->channels, &flawed);
    out->quality = flawed ? &ret->quality : NULL;
}

/* ---- List ---- */

/* An answer that is being made, in several turns of the loop where there are many streams. */
struct listing {
    struct rpc_call *call;
    struct session_walk walk;
    struct str answer; /* ListSessionsResponse, packed */
};

/* Appends it as a response with this session alone: responses that are joined are one of all their sessions. */
static void add(void *ctx, const struct session *s) {
    struct listing *l = ctx;
    struct session_state state;
    struct described d;
    size_t len = 0;
    session_describe(s, &state);
    if (!auth_sees_bed(rpc_caller(l->call), state.principal, state.client))
        return;
    describe(services_of(l->call), s, &d);
    Brr__V1__ListSessionsResponse one = BRR__V1__LIST_SESSIONS_RESPONSE__INIT;
    one.sessions = (Brr__V1__SessionInfo *[]){&d.info};
    one.n_sessions = 1;
    OWNED_MEMORY uint8_t *bytes = convert_pack(&one.base, &len, &(struct err){0});
    if (bytes)
        str_append(&l->answer, bytes, len);
    l->answer.overflow |= !bytes;
    free(d.channels);
}

static void list_on(struct rpc_call *call) {
    struct listing *l = rpc_state(call);
    struct sessions *all = services_of(call)->sessions;
    struct err err;
    if (sessions_walk(all, &l->walk, LIST_TURN_MS, add, l)) {
        rpc_tick(call, 1, 0, list_on); /* 0 would be this turn */
        return;
    }
    if (!str_ok(&l->answer)) {
        err_set(&err, ERR_EXHAUSTED, "out of memory listing %d streams; try again later", sessions_count(all));
        rpc_finish(call, &err);
        return;
    }
    rpc_send(call, (const uint8_t *)str_cstr(&l->answer), l->answer.len);
    rpc_finish(call, NULL);
}

static void list_end(struct rpc_call *call) {
    struct listing *l = rpc_state(call);
    if (!l)
        return;
    sessions_walk_stop(services_of(call)->sessions, &l->walk);
    str_done(&l->answer);
    free(l);
}

static int list(struct rpc_call *call, const void *message, struct err *err) {
    struct listing *l = calloc(1, sizeof *l);
    (void)message;
    if (!l)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a list; try again later");
    l->call = call;
    str_init(&l->answer, LIST_BYTES);
    rpc_set_state(call, l);
    list_on(call);
    return 0;
}

/* The open session of this id. */
static int find(struct rpc_call *call, const char *id, struct session **ret, struct err *err) {
    rpc_concerns(call, "session", id);
    return sessions_by_id(services_of(call)->sessions, id, ret, err);
}

/* ---- Observe ---- */

/* Updates wait here while the client reads slowly; the oldest are dropped then, and counted. */
struct update {
    uint8_t *data;
    size_t len;
};
struct view {
    struct session_watch watch;
    struct rpc_call *call;
    struct update queue[QUEUE];
    int first, n;
    int64_t missed;
    bool full;
};

static struct update pop(struct view *o) {
    struct update u = o->queue[o->first];
    o->first = (o->first + 1) % QUEUE;
    o->n--;
    return u;
}

static void pump(struct view *o) {
    while (o->n && !o->full) {
        struct update u = pop(o);
        o->full = !rpc_send(o->call, u.data, u.len);
        free(u.data);
    }
}

static void push(struct view *o, Brr__V1__SessionUpdate *update) {
    if (o->n == QUEUE) {
        free(pop(o).data);
        o->missed++;
    }
    update->missed = o->missed;
    struct update u = {.len = protobuf_c_message_get_packed_size(&update->base)};
    if (!(u.data = malloc(u.len + 1))) {
        o->missed++;
        return;
    }
    protobuf_c_message_pack(&update->base, u.data);
    o->queue[(o->first + o->n++) % QUEUE] = u;
    pump(o);
}

static void send_info(struct rpc_call *call) {
    struct view *o = rpc_state(call);
    Brr__V1__SessionUpdate update = BRR__V1__SESSION_UPDATE__INIT;
    struct described d;
    if (!o->watch.session)
        return;
    describe(services_of(call), o->watch.session, &d);
    update.kind_case = BRR__V1__SESSION_UPDATE__KIND_INFO;
    update.info = &d.info;
    push(o, &update);
    free(d.channels);
}

static void on_report(struct session_watch *w, const struct live_report *r) {
    Brr__V1__SessionUpdate update = BRR__V1__SESSION_UPDATE__INIT;
    struct stream_message parts;
    if (!stream_message(r, &parts)) {
        ((struct view *)w)->missed++;
        stream_message_done(&parts);
        return;
    }
    if (r->message.kind == LIVE_ALARM) {
        update.kind_case = BRR__V1__SESSION_UPDATE__KIND_ALARM;
        update.alarm = &parts.alarm;
    } else if (r->message.kind == LIVE_PROVISIONAL) {
        update.kind_case = BRR__V1__SESSION_UPDATE__KIND_PROVISIONAL;
        update.provisional = &parts.provisional;
    } else {
        update.kind_case = BRR__V1__SESSION_UPDATE__KIND_RESULT;
        update.result = &parts.result;
    }
    push((struct view *)w, &update);
    stream_message_done(&parts);
}

static void on_ended(struct session_watch *w) {
    struct view *o = (struct view *)w;
    o->full = false; /* what waits leaves, and the end after it */
    while (o->n) {
        struct update u = pop(o);
        rpc_send(o->call, u.data, u.len);
        free(u.data);
    }
    rpc_finish(o->call, NULL);
}

static int observe(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__ObserveSessionRequest *in = message;
    struct session *s;
    struct session_state state;
    int rc = find(call, in->session_id, &s, err);
    if (rc)
        return rc;
    session_describe(s, &state);
    if (!auth_sees_bed(rpc_caller(call), state.principal, state.client)) {
        err_set(err, ERR_DENIED,
                "the session is %s's; seeing it needs a token with the word `all`, or with its bed among names=, or the role admin",
                state.principal);
        return rpc_refuse(call, err, "NOT_OWNER", 0);
    }
    struct view *o = calloc(1, sizeof *o);
    if (!o)
        return err_set(err, ERR_EXHAUSTED, "out of memory for an observer");
    o->call = call;
    o->watch.report = on_report;
    o->watch.ended = on_ended;
    rpc_set_state(call, o);
    session_watch_start(s, &o->watch);
    rpc_tick(call, 0, INFO_MS, send_info);
    return 0;
}

static void view_writable(struct rpc_call *call) {
    struct view *o = rpc_state(call);
    if (!o)
        return;
    o->full = false;
    pump(o);
}

static void view_end(struct rpc_call *call) {
    struct view *o = rpc_state(call);
    if (!o)
        return;
    session_watch_stop(&o->watch);
    while (o->n)
        free(pop(o).data);
    free(o);
}

/* ---- Close ---- */

static int close_session(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__CloseSessionRequest *in = message;
    struct session *s;
    Brr__V1__CloseSessionResponse out = BRR__V1__CLOSE_SESSION_RESPONSE__INIT;
    const struct auth_caller *caller = rpc_caller(call);
    struct session_state state;
    int rc = find(call, in->session_id, &s, err);
    if (rc)
        return rc;
    session_describe(s, &state);
    if (caller->role < ROLE_ADMIN && !principal_is_same(caller->name, state.principal)) {
        err_set(err, ERR_DENIED, "the session is %s's; closing it needs the role admin", state.principal);
        return rpc_refuse(call, err, "ROLE_TOO_SMALL", 0);
    }
    session_end(s, caller->name, in->reason);
    return convert_answer(call, &out.base);
}

const struct rpc_method svc_sessions[] = {
    {RPC_METHOD("/brr.v1.Sessions/List", ROLE_READ, brr__v1__list_sessions_request, list),
     RPC_ROUTE("/api/v1/streams", brr__v1__list_sessions_response), .end = list_end},
    {RPC_METHOD("/brr.v1.Sessions/Observe", ROLE_READ, brr__v1__observe_session_request, observe), .reading = true,
     .writable = view_writable, .end = view_end},
    {RPC_METHOD("/brr.v1.Sessions/Close", ROLE_STREAM, brr__v1__close_session_request, close_session)},
    {.path = NULL},
};
