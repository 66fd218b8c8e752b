#include "daemon/live/session_parts.h"

#include "base/queue.h"
#include "detect/contact.h"

void session_count(struct session *s, const char *family, const char *second, double n) {
    char labels[LIVE_NAME + 64];
    if (!s->all->config.metrics)
        return;
    str_format(labels, sizeof labels, second ? "%s\x1f%s" : "%s%s", s->model, second ? second : "");
    metric_add(metrics_series(s->all->config.metrics, family, labels), n);
}

void session_free(struct session *s) {
    live_order_free(s->close);
    live_stream_free(s->stream);
    live_report_free(s->back.last_word);
    live_report_free(s->back.summary);
    live_report_free(s->back.failure);
    ring_clear(&s->back.kept);
    if (s->all) {
        session_drop_held(s);
        s->all->saved_bytes -= s->saves.saved_bytes;
        s->all->restoring -= s->stage == SESSION_RESTORING;
    }
    free(s->info);
    eegring_drop(s->back.eeg);
    free(s->back.past_eeg);
    free(s->events);
    free(s->shown.quality.channels);
    free(s);
}

bool session_post(struct session *s, enum live_order_kind kind) {
    struct live_order *o = live_order_new(kind, s->stream);
    if (o && s->all->config.post(s->all->config.post_ctx, o))
        return true;
    live_order_free(o);
    return false;
}

void session_post_due(struct session *s) {
    if (session_is_closing(s) && s->close && s->all->config.post(s->all->config.post_ctx, s->close))
        s->close = NULL;
    if (s->wake && !session_is_closing(s))
        s->wake = !session_post(s, LIVE_WAKE);
}

bool session_room(const struct session *s) {
    bool turn = !s->flow.waiting_bytes || s->all->waiting_bytes < s->all->config.max_waiting_bytes;
    return s->opened && !s->all->frozen_ms && turn && s->flow.waiting < SESSION_MAX_ORDERS &&
           s->flow.waiting_bytes < SESSION_BACKLOG_BYTES;
}

/* A client that says what it has seen is waited for, but not while its messages are not read: its Seen lies behind its samples. */
bool session_is_full(const struct session *s) {
    const bool may_hear = s->back.heard_seen && s->stage != SESSION_FINISHING && session_room(s);
    return s->back.kept.bytes >= SESSION_KEPT_BYTES && (!s->sink || may_hear);
}

void session_give_credit(struct session *s) {
    if (s->flow.stalled_ms || session_is_closing(s) || session_is_full(s))
        return;
    if (s->flow.unreleased && live_stream_release(s->stream, s->flow.unreleased))
        s->wake = true;
    s->flow.unreleased = 0;
    session_post_due(s);
}

void session_release(struct session *s) {
    if (session_is_closing(s))
        return;
    session_reach(s, SESSION_CLOSING);
    while (s->shown.watches) {
        struct session_watch *w = s->shown.watches;
        s->shown.watches = w->next;
        w->session = NULL;
        w->ended(w);
    }
    live_stream_abandon(s->stream);
    session_post_due(s);
}

int sessions_places(const struct sessions *all, bool ended) { return ended ? all->ended : all->count - all->ended; }

bool session_count_place(struct session *s, int n) {
    s->all->ended += s->ended ? n : 0;
    return s->ended || map_tally(s->all->tallies, s->token.principal, n);
}

/* Whose time on the device the stream takes: each bed of the roster has a share, a caller has one for all its other streams, and
 * without tokens each name has one. */
uint32_t session_owner(const struct sessions *all, const struct session_request *request) {
    const struct session_register *alarms = &all->config.alarms;
    const char *client = request->client ? request->client : "";
    const bool bed =
        str_starts(request->principal, "uid:") || (alarms->holds && alarms->holds(alarms->ctx, request->principal, client));
    uint32_t hash = 2166136261U; /* FNV-1a */
    for (const char *p = request->principal; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619U;
    for (const char *p = bed ? client : ""; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619U;
    return hash;
}

struct session *session_new(struct sessions *all, const struct session_request *request, struct err *err) {
    struct live_open own = *request->open;
    const struct live_open *open = &own;
    struct session *s = calloc(1, sizeof *s);
    own.owner = session_owner(all, request);
    own.names_patient = all->patients && request->patient && *request->patient;
    if (!s || !(s->stream = live_stream_new(open, s)) || !(s->close = live_order_new(LIVE_CLOSE, s->stream)) ||
        (request->resumable && !(s->back.last_word = live_report_new(LIVE_SUMMARY, s->stream)))) {
        if (s)
            session_free(s);
        err_set(err, ERR_EXHAUSTED, "out of memory for a stream");
        return NULL;
    }
    s->all = all;
    s->channels = open->n_labels;
    s->width = open->format == LIVE_I16 ? 2 : 4;
    s->rate_hz = open->rate_hz;
    s->flow.newest_ms = clock_ms();
    s->epoch = clock_wall_ms();
    s->saves.durable = s->saves.promised = -1;
    s->notes.alarm_off = s->notes.over = s->notes.alarm_known = s->notes.running = -1;
    s->shown.probability = NAN;
    str_copy(s->token.principal, sizeof s->token.principal, request->principal);
    s->resumable = request->resumable;
    str_copy(s->model, sizeof s->model, open->model);
    str_copy(s->client, sizeof s->client, request->client ? request->client : "");
    str_copy(s->address, sizeof s->address, request->address ? request->address : "");
    str_copy(s->patient, sizeof s->patient, own.names_patient ? request->patient : "");
    s->patient_unused = request->patient && *request->patient && !own.names_patient;
    s->start_ms = request->start_ms;
    if (!(s->resumable ? resume_token_make(request->principal, &s->token, err) : resume_token_random(s->id, err))) {
        if (s->resumable)
            resume_token_id(s->token.digest, s->id);
        return s;
    }
    session_free(s);
    return NULL;
}

static struct patient named_patient(const struct session *s) {
    return (struct patient){.principal = s->token.principal, .name = s->patient, .model = s->model};
}

void session_remember_patient(struct session *s, struct live_report *r) {
    const struct patient patient = named_patient(s);
    if (!r->state)
        return;
    patient_memory_put(s->all->patients, &patient, r->state, r->state_len, clock_ms());
    r->state = NULL;
}

static void recall_patient(const struct session *s, struct live_order *open) {
    const struct patient patient = named_patient(s);
    size_t len = 0;
    int64_t age_ms = 0;
    if (!*s->patient)
        return;
    open->data = (uint8_t *)patient_memory_get(s->all->patients, &patient, clock_ms(), &len, &age_ms);
    open->data_bytes = (int64_t)len;
    open->away_s = open->data ? (double)(age_ms + 1) / 1000 : 0;
}

/* False: out of memory. */
static bool list_session(struct session *s) {
    struct sessions *all = s->all;
    char bed[SESSION_BED];
    if (map_put(all->by_id, s->id, s, NULL))
        return false;
    const bool placed = session_count_place(s, 1);
    if (!placed || !map_tally(all->tallies, session_bed(s, bed), 1)) {
        if (placed)
            session_count_place(s, -1);
        map_remove(all->by_id, s->id);
        return false;
    }
    CHAIN_ADD(all->first, s, next_session, before_session);
    all->count++;
    return true;
}

int session_begin(struct session *s, char *state, size_t len, struct err *err) {
    struct sessions *all = s->all;
    struct live_order *o = live_order_new(LIVE_OPEN, s->stream);
    if (o && !state) {
        recall_patient(s, o);
    } else if (o) {
        o->data = (uint8_t *)state;
        o->data_bytes = (int64_t)len;
    } else {
        free(state);
    }
    if (!o || !list_session(s)) {
        live_order_free(o);
        session_free(s);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a stream");
    }
    if (!all->config.post(all->config.post_ctx, o)) {
        live_order_free(o);
        session_count_place(s, -1);
        all->count--;
        session_forget(s);
        return err_set(err, ERR_EXHAUSTED, "too much waits for the device; try again later");
    }
    return 0;
}

void session_forget(struct session *s) {
    char bed[SESSION_BED];
    for (struct session_walk *w = s->all->walks; w; w = w->next)
        w->at = w->at == s ? s->next_session : w->at;
    CHAIN_REMOVE(s->all->first, s, next_session, before_session);
    map_remove(s->all->by_id, s->id);
    map_tally(s->all->tallies, session_bed(s, bed), -1);
    session_free(s);
}

void session_count_end(struct session *s, const char *reason) {
    if (s->counted)
        return;
    s->counted = true;
    if (s->flow.waiting_samples)
        session_count(s, "brrd_stream_samples_lost_total", reason, (double)s->flow.waiting_samples);
    session_count(s, "brrd_stream_sessions_closed_total", reason, 1);
    if (s->ended)
        return;
    session_end_gap(s);
    if (!strcmp(reason, "moved")) { /* its alarm goes on elsewhere */
        if (!session_alarm_moves(s))
            session_note(s, JOURNAL_MOVED, "");
        return;
    }
    session_alarm_end(s, reason);
    session_note(s, JOURNAL_ENDED, reason);
}

void session_drop_snapshot(struct session *s) {
    const struct session_store *store = &s->all->config.store;
    if (s->saves.on_disk && store->drop)
        store->drop(store->ctx, s->id);
    s->saves.on_disk = false;
}

void session_let_go(struct session *s) {
    session_drop_snapshot(s);
    s->sink = NULL;
    s->owner = NULL;
    s->parked_ms = 0;
    if (s->stage == SESSION_CLOSED)
        session_forget(s);
    else
        session_release(s);
}

void session_park(struct session *s) {
    s->sink = NULL;
    s->owner = NULL;
    s->flow.stalled_ms = 0;
    s->parked_ms = clock_ms();
    session_give_credit(s); /* the reports that its client did not read are in the ring; the worker goes on */
}

/* First messages of a connection: Opened, then the results and alarms that the client may lack. */
static void greet(struct session *s) {
    s->saves.greeted = true;
    if (s->opened)
        s->sink->opened(s->owner, s->info);
    for (const struct live_report *r = s->back.kept.first; r; r = ring_next(r))
        session_deliver(s, r);
    if (s->back.failure)
        s->sink->failed(s->owner, &s->back.failure->err, *s->back.failure_reason ? s->back.failure_reason : NULL);
}

void session_greet(struct session *s) {
    bool ready = s->opened && (!s->saves.saving || s->saves.durable >= 0 || s->saves.unsaved);
    if (s->sink && !s->saves.greeted && (ready || s->back.failure))
        greet(s);
}

void session_counts(const struct session *s, struct session_counts *ret) {
    bool by_disk = s->resumable && !s->saves.unsaved;
    int64_t durable = by_disk ? s->saves.durable : s->saves.promised >= 0 ? s->saves.promised : s->consumed;
    *ret = (struct session_counts){.received_through = s->next,
                                   .durable_through = durable < 0 ? 0 : durable,
                                   .gaps = s->gaps,
                                   .unsaved = s->saves.unsaved,
                                   .duplicate_samples = s->duplicates,
                                   SAME_MEMBERS(*s, events, n_events, events_total, seizure_samples)};
}

void session_fail(struct session *s, const struct err *err, const char *reason) {
    session_release(s);
    session_release_held(s);
    if (s->sink) {
        s->sink->failed(s->owner, err, reason);
        return;
    }
    session_count_end(s, "failed");
    s->back.failure = s->back.last_word;
    s->back.last_word = NULL;
    if (s->back.failure)
        s->back.failure->err = *err;
    str_copy(s->back.failure_reason, sizeof s->back.failure_reason, reason ? reason : "");
}

int64_t session_lag_ms(const struct session *s, int64_t now_ms) {
    return s->flow.waiting > 0 && !session_is_closing(s) ? now_ms - s->flow.waiting_since[s->flow.oldest] : 0;
}

void session_restart_lag(struct session *s, int64_t now_ms) {
    for (int i = 0; i < s->flow.waiting; i++)
        s->flow.waiting_since[(s->flow.oldest + i) % (2 * SESSION_MAX_ORDERS)] = now_ms;
}

void session_excuse_device(struct session *s, int64_t now_ms) {
    if (s->flow.waiting && (s->flow.stalled_ms || session_is_full(s)))
        session_restart_lag(s, now_ms);
}

/* Keeps what was wrong with the newest samples; without memory, nothing. */
static void keep_quality(struct session *s, const struct live_report *r) {
    size_t bytes = (size_t)r->quality.n * sizeof *r->quality.channels;
    if (!r->samples)
        return;
    free(s->shown.quality.channels);
    s->shown.quality = (struct quality_report){.channels = malloc(bytes + 1), .gap_fraction = r->gap ? 1 : r->quality.gap_fraction};
    if (!s->shown.quality.channels || !r->quality.n)
        return;
    memcpy(s->shown.quality.channels, r->quality.channels, bytes);
    s->shown.quality.n = r->quality.n;
}

/* Seconds in which so many channels are bad that nobody expects the model to learn do not count. */
static void keep_learning(struct session *s, const struct live_report *r) {
    s->shown.learning_s = r->learning_s;
    if (r->learning_s)
        s->shown.learned += r->quality.n < CONTACT_BAD_CHANNELS ? r->samples : 0;
    else if (!r->gap)
        s->shown.learned = s->shown.learned_before = 0;
}

void session_tell(struct session *s, const struct live_report *r) {
    if (r->message.kind == LIVE_ALARM)
        s->alarm = r->on;
    else if (r->message.kind == LIVE_PROVISIONAL)
        s->shown.probability = r->probability;
    else
        s->shown.samples = r->first + r->samples;
    if (r->message.kind == LIVE_PROVISIONAL) {
        s->notes.heard = r->first + r->samples;
        session_alarm_look(s);
    }
    if (r->message.kind == LIVE_RESULT) {
        s->notes.running = r->running;
        keep_learning(s, r);
        keep_quality(s, r);
    }
    for (struct session_watch *w = s->shown.watches, *next; w; w = next) {
        next = w->next;
        w->report(w, r);
    }
}
