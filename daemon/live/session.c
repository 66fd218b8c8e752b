#include "base/log.h"
#include "base/principal.h"
#include "daemon/live/session_parts.h"

enum { MAX_SAMPLE_BITS = 53 };
static const double RATE_TOLERANCE = 0.02, RATE_FAR = 0.15;

struct sessions *sessions_new(const struct sessions_config *config) {
    struct sessions *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    all->config = *config;
    const bool remembers = config->patient_memory_ms > 0;
    all->by_id = map_new(SIZE_MAX);
    all->tallies = map_new(SIZE_MAX);
    all->holding = map_new(SIZE_MAX);
    all->patients = remembers ? patient_memory_new(config->patient_memory_ms) : NULL;
    if (all->by_id && all->tallies && all->holding && (all->patients || !remembers))
        return all;
    sessions_free(all);
    return NULL;
}

void sessions_free(struct sessions *all) {
    if (!all)
        return;
    for (struct session *s = all->first, *next; s; s = next) {
        next = s->next_session;
        session_free(s);
    }
    map_free(all->by_id, NULL);
    map_free(all->tallies, NULL);
    map_free(all->holding, NULL);
    patient_memory_free(all->patients);
    free(all);
}

int sessions_count(const struct sessions *all) { return all->count; }

int sessions_of_model(const struct sessions *all, const char *model) {
    int n = 0;
    for (const struct session *s = all->first; s; s = s->next_session)
        n += !session_is_closing(s) && !s->ended && !strcmp(s->model, model);
    return n;
}

static int check_share(const struct sessions *all, const char *principal, struct err *err) {
    const int most = (int)principal_share(all->config.max_sessions, all->config.shared),
              own = map_tally_of(all->tallies, principal);
    return own < most ? 0
                      : err_set(err, ERR_EXHAUSTED,
                                "this caller has %d streams already, those that wait for their client included; one caller may "
                                "have %d of limits.sessions (%d)",
                                own, most, all->config.max_sessions);
}

int session_open(struct sessions *all, const struct session_request *request, const struct session_sink *sink, void *owner,
                 struct session **ret, struct err *err) {
    int open = sessions_places(all, false);
    if (open >= all->config.max_sessions)
        return err_set(err, ERR_EXHAUSTED, "%d streams are open already (limits.sessions); try again later", open);
    const int64_t wait_ms = request->admin ? 0 : sessions_shed_wait_ms(all, session_owner(all, request), clock_ms());
    int rc;
    if (wait_ms > 0)
        return err_set(err, ERR_EXHAUSTED,
                       "the device is behind (limits.lag), and a stream of this caller was sent away; open it in %.1f s",
                       (double)wait_ms / 1000);
    if ((!request->admin && (rc = check_share(all, request->principal, err))) ||
        (!request->served && (rc = model_quota_take(&all->models, request->principal, request->open->checkpoint, clock_ms(), err))))
        return rc;
    struct session *s = session_new(all, request, err);
    if (!s)
        return err ? err->code : ERR_EXHAUSTED;
    if ((rc = session_begin(s, NULL, 0, err)))
        return rc;
    s->sink = sink;
    s->owner = owner;
    session_count(s, "brrd_stream_sessions_opened_total", NULL, 1);
    *ret = s;
    return 0;
}

const char *session_id(const struct session *s) { return s->id; }
const char *session_model(const struct session *s) { return s->model; }
bool session_is_resumable(const struct session *s) { return s->resumable; }
bool session_patient_unused(const struct session *s) { return s->patient_unused; }
bool session_is_realtime(const struct session *s) { return live_stream_open(s->stream)->realtime; }
int64_t session_resume_ttl_ms(const struct session *s) { return s->resumable ? s->all->config.resume_ttl_ms : 0; }

static struct session *done_first(struct session *a, struct session *b) { return a && a->parked_ms < b->parked_ms ? a : b; }

/* Sessions that are done wait for clients in no more places than there are sessions. The one that was done first makes room, and of
 * a principal who has more than half of them the first of its own. */
static void bound_done(struct sessions *all, const char *principal) {
    struct session *first = NULL, *own = NULL;
    int n = 0, n_own = 0;
    if (map_count(all->by_id) <= (size_t)all->config.max_sessions)
        return;
    for (struct session *s = all->first; s; s = s->next_session) {
        if (!session_is_closing(s) || !s->parked_ms)
            continue;
        const bool is_own = principal_is_same(s->token.principal, principal);
        n++;
        n_own += is_own;
        first = done_first(first, s);
        own = is_own ? done_first(own, s) : own;
    }
    if (n > all->config.max_sessions)
        session_let_go(2 * n_own > n ? own : first);
}

void session_close(struct session *s, const char *reason) {
    struct sessions *all = s->all;
    session_drop_held(s);
    session_count_end(s, reason);
    if (!s->resumable || !s->back.summary || strcmp(reason, "done") != 0) {
        session_let_go(s);
        return;
    }
    if (s->saves.on_disk && all->config.store.end)
        all->config.store.end(all->config.store.ctx, s->id);
    session_release(s);
    session_park(s);
    bound_done(all, s->token.principal);
}

static const char *why_left(const struct session *s) {
    return s->all->frozen_ms ? "the daemon stops" : s->shown.shed ? "overloaded" : "connection lost";
}

/* A live stream of this bed began: the client of s, which is gone, does not come back. */
static bool is_followed_by(const struct session *s, const struct session *by) {
    return by != s && s->parked_ms && !s->ended && !s->shown.followed && live_open_is_live(live_stream_open(by->stream)) &&
           session_is_same_bed(s, by);
}

static void set_followed(struct session *s) {
    s->shown.followed = true;
    session_save_begin(s);
}

/* A client that was started anew may be back before its connection of before is found to be dead. */
static void look_for_follower(struct session *s) {
    char name[SESSION_BED];
    const struct session *by = map_tally_of(s->all->tallies, session_bed(s, name)) < 2 ? NULL : s->all->first;
    while (by && !(by->sink && by->opened && !session_is_closing(by) && by->epoch >= s->epoch && is_followed_by(s, by)))
        by = by->next_session;
    if (by)
        set_followed(s);
}

void session_leave(struct session *s) {
    bool held = s->notes.held_summary != NULL; /* it leaves before it heard that it is done */
    session_drop_held(s);
    if (held) {
        session_close(s, "done");
        return;
    }
    if (s->resumable && !session_is_closing(s))
        session_note(s, JOURNAL_LOST, why_left(s));
    if (!s->resumable || (session_is_closing(s) && !s->back.summary && !s->back.failure)) {
        session_close(s, "client_gone");
        return;
    }
    session_park(s);
    look_for_follower(s);
}

/* ---- a client comes back ---- */

struct session *sessions_find(struct sessions *all, const char *token, const char *principal) {
    char digest[DIGEST_HEX_SIZE], id[SESSION_ID_SIZE];
    if (!resume_token_digest(token, digest))
        return NULL;
    resume_token_id(digest, id);
    struct session *s = session_of_id(all, id);
    return s && s->resumable && (s->sink || s->parked_ms) && (!session_is_closing(s) || s->back.summary || s->back.failure) &&
                   resume_token_fits(&s->token, digest, principal)
               ? s
               : NULL;
}

int session_check(const struct session *s, const struct live_open *open, struct err *err) {
    const struct live_open *own = live_stream_open(s->stream);
    bool same = own->n_labels == open->n_labels;
    for (int i = 0; same && i < own->n_labels; i++)
        same = !strcmp(own->labels[i], open->labels[i]);
    const char *what = !same                                                                      ? "channels"
                       : own->rate_hz < open->rate_hz || own->rate_hz > open->rate_hz             ? "rate_hz"
                       : own->format != open->format                                              ? "format"
                       : own->scale_uv < open->scale_uv || own->scale_uv > open->scale_uv         ? "scale_uv"
                       : own->on < open->on || own->on > open->on                                 ? "threshold_on"
                       : own->off < open->off || own->off > open->off                             ? "threshold_off"
                       : own->alarm_rate < open->alarm_rate || own->alarm_rate > open->alarm_rate ? "alarm_rate"
                       : own->partial != open->partial                                            ? "partial"
                       : own->want_probabilities != open->want_probabilities                      ? "want_probabilities"
                                                                                                  : NULL;
    if (!what)
        return 0;
    return err_set(err, ERR_INVALID, "Open.%s is not that of the stream to go on with; send the Open of its beginning", what);
}

void session_resume(struct session *s, const struct session_return *back) {
    const struct session_sink *former = s->sink;
    void *owner = s->owner;
    session_drop_held(s); /* they are in the ring too */
    COPY_MEMBERS(*s, *back, sink, owner);
    str_copy(s->address, sizeof s->address, back->address ? back->address : "");
    if (!session_is_closing(s))
        session_note(s, JOURNAL_RESUMED, "");
    s->parked_ms = s->flow.stalled_ms = 0;
    s->flow.newest_ms = s->shown.resumed_ms = clock_ms();
    session_restart_lag(s, s->flow.newest_ms);
    if (s->ended && s->stage != SESSION_CLOSED) { /* it takes a place again, and ends again */
        session_count_place(s, -1);
        s->ended = s->counted = false;
        session_count_place(s, 1);
    }
    s->saves.greeted = s->shown.shed = s->shown.followed = s->ended = false;
    s->shown.reconnects++;
    pace_restart(&s->flow.pace);
    pace_restart(&s->flow.soon);
    str_copy(s->token.text, sizeof s->token.text, back->token);
    ring_seen(&s->back.kept, back->next_result, back->next_alarm);
    if (former) {
        struct err err;
        err_set(&err, ERR_ABORTED, "another connection has taken the stream over");
        former->failed(owner, &err, "TAKEN_OVER");
    }
    session_greet(s);
    session_give_credit(s);
}

void session_seen(struct session *s, int64_t next_result, int64_t next_alarm) {
    s->back.heard_seen = true;
    ring_seen(&s->back.kept, next_result, next_alarm);
    session_give_credit(s);
}

const char *session_token(const struct session *s) { return s->token.text; }
int64_t session_epoch(const struct session *s) { return s->epoch; }
int64_t session_next_result(const struct session *s) { return ring_first_result(&s->back.kept, s->back.next_result); }

/* ---- what comes in ---- */

static int check_index(const struct session *s, int64_t first, int64_t samples, struct err *err) {
    if (first < 0 || samples < 0 || first > INT64_C(1) << MAX_SAMPLE_BITS || samples > INT64_C(1) << MAX_SAMPLE_BITS)
        return err_set(err, ERR_INVALID, "samples %lld and %lld more; expected counts from 0 that stay below 2^53",
                       (long long)first, (long long)samples);
    if (s->stage > SESSION_RUNNING && first + samples > s->next)
        return err_set(err, ERR_PRECONDITION, "the stream has ended; open a new one");
    if ((double)(first + samples - s->next) > SESSION_MAX_GAP_S * s->rate_hz)
        return err_set(err, ERR_RANGE,
                       "samples to %lld when %lld were received: a gap longer than %d h; open a new stream after it",
                       (long long)(first + samples), (long long)s->next, SESSION_MAX_GAP_S / 3600);
    return 0;
}

/* Hand an order that carries `samples` new ones to the worker. */
static int send(struct session *s, struct live_order *o, int64_t samples, struct err *err) {
    int64_t bytes = o ? o->data_bytes : 0;
    if (!o || !s->all->config.post(s->all->config.post_ctx, o)) {
        live_order_free(o);
        return err_set(err, ERR_EXHAUSTED, "out of memory for samples of a stream");
    }
    s->flow.waiting_since[(s->flow.oldest + s->flow.waiting) % (2 * SESSION_MAX_ORDERS)] = clock_ms();
    s->next += samples;
    s->flow.waiting_samples += samples;
    s->flow.waiting_bytes += bytes;
    s->all->waiting_bytes += bytes;
    s->flow.waiting++;
    s->flow.newest_ms = clock_ms();
    if (!session_room(s))
        session_give_credit(s); /* the worker goes on, so that messages are read again */
    return 0;
}

static int add_gap(struct session *s, int64_t end, const char *cause, struct err *err) {
    int rc;
    if (end <= s->next)
        return 0;
    struct live_order *o = live_order_new(LIVE_GAP, s->stream);
    int64_t missing = end - s->next;
    if (o)
        o->samples = missing;
    session_note_gap(s, end, cause);
    if ((rc = send(s, o, missing, err)))
        return rc;
    s->gaps++;
    session_count(s, "brrd_stream_samples_lost_total", cause, (double)missing);
    return 0;
}

int session_gap(struct session *s, int64_t first, int64_t end, const char *cause, struct err *err) {
    if (first < 0 || first > end)
        return err_set(err, ERR_INVALID, "a gap of samples [%lld, %lld); expected a first from 0 and an end that is not below it",
                       (long long)first, (long long)end);
    int rc;
    if ((rc = check_index(s, first, end - first, err)) || (rc = add_gap(s, first, "hole", err)))
        return rc;
    return add_gap(s, end, cause, err);
}

/* True if this chunk ends a time in which the stream, the loop or the host stood still. */
static bool paused(const struct session *s, int64_t before_ms, int64_t samples) {
    const int64_t own_ms = (int64_t)((double)samples * 1000 / s->rate_hz);
    return clock_ms() - before_ms > PACE_PAUSE_MS + own_ms || session_lag_ms(s, clock_ms()) > PACE_PAUSE_MS + own_ms;
}

/* A rate that is far from the declared one is named soon, a small difference when it was measured for long. before_ms: of the chunk
 * before. */
static void measure_rate(struct session *s, int64_t before_ms, int64_t samples) {
    const int64_t period = s->all->config.measure_ms, now = clock_ms();
    const double before_hz = s->flow.measured_rate_hz;
    if (!period || !live_stream_open(s->stream)->realtime)
        return;
    if (paused(s, before_ms, samples)) {
        pace_restart(&s->flow.pace);
        pace_restart(&s->flow.soon);
    }
    const double hz = pace_look(&s->flow.pace, now, s->next, period, s->rate_hz, RATE_TOLERANCE),
                 soon_hz = pace_look(&s->flow.soon, now, s->next, period / 6, s->rate_hz, RATE_FAR);
    if (hz >= 0)
        s->flow.measured_rate_hz = hz;
    else if (soon_hz > 0 || (soon_hz >= 0 && fabs(before_hz / s->rate_hz - 1) > RATE_FAR))
        s->flow.measured_rate_hz = soon_hz;
    s->flow.rate_known |= hz >= 0 || s->flow.measured_rate_hz > 0;
    if (s->flow.measured_rate_hz > 0 && !(before_hz > 0))
        log_warn("the rate of a live stream is not what it says", "session=%s model=%s rate_hz=%g measured_rate_hz=%.2f", s->id,
                 s->model, s->rate_hz, s->flow.measured_rate_hz);
}

static int send_chunk(struct session *s, int64_t first, int64_t samples, const uint8_t *data, size_t len, struct err *err) {
    struct live_order *o = live_order_new(LIVE_CHUNK, s->stream);
    if (o && !(o->data = malloc(len))) {
        live_order_free(o);
        o = NULL;
    }
    if (o) {
        memcpy(o->data, data, len);
        o->data_bytes = (int64_t)len;
        o->samples = samples;
        o->skip = s->next - first;
        o->received_s = clock_s();
    }
    return send(s, o, first + samples - s->next, err);
}

int session_chunk(struct session *s, int64_t first, int64_t samples, const uint8_t *data, size_t len, struct err *err) {
    int rc = check_index(s, first, samples, err);
    if (rc)
        return rc;
    if (!samples || len / (size_t)(s->channels * s->width) != (size_t)samples || len % (size_t)(s->channels * s->width))
        return err_set(err, ERR_INVALID, "a chunk of %lld samples has %zu bytes; expected %d channels of %d bytes each",
                       (long long)samples, len, s->channels, s->width);
    if ((double)samples > SESSION_MAX_CHUNK_S * s->rate_hz)
        return err_set(err, ERR_INVALID,
                       "a chunk of %lld samples lasts %.0f s; at most %d s are accepted (Opened.max_chunk_samples)",
                       (long long)samples, (double)samples / s->rate_hz, SESSION_MAX_CHUNK_S);
    const int64_t before_ms = s->flow.newest_ms;
    if (first > s->next && (rc = add_gap(s, first, "hole", err)))
        return rc;
    int64_t known = s->next - first < samples ? s->next - first : samples;
    if (known > 0) {
        s->duplicates += known;
        session_count(s, "brrd_stream_duplicate_chunks_total", NULL, 1);
    }
    session_count(s, "brrd_stream_samples_received_total", NULL, (double)(samples - known));
    if (known < samples)
        session_end_gap(s);
    if (known < samples && (rc = send_chunk(s, first, samples, data, len, err)))
        return rc;
    measure_rate(s, before_ms, samples);
    return 0;
}

int session_finish(struct session *s, struct err *err) {
    if (s->back.summary && s->sink)
        session_release_held(s);
    if (s->back.summary && s->sink) { /* a client that came back, and had sent all before */
        s->sink->summary(s->owner, s->back.summary);
        return 0;
    }
    if (s->stage == SESSION_FINISHING)
        return 0;
    if (s->stage > SESSION_RUNNING)
        return err_set(err, ERR_PRECONDITION, "the stream has ended already");
    session_reach(s, SESSION_FINISHING);
    session_give_credit(s); /* no Seen follows: the results are waited for no more */
    return session_post(s, LIVE_FINISH) ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory at the end of a stream");
}

int64_t session_max_chunk(const struct session *s, size_t message_bytes) {
    int64_t by_size = (int64_t)(message_bytes - 256) / (s->channels * s->width),
            by_time = (int64_t)(SESSION_MAX_CHUNK_S * s->rate_hz);
    return by_size < by_time ? by_size : by_time;
}

void session_stall(struct session *s, bool stalled) {
    s->flow.stalled_ms = !stalled ? 0 : s->flow.stalled_ms ? s->flow.stalled_ms : clock_ms();
    session_give_credit(s);
}

/* ---- what comes out ---- */

/* Counts all events and keeps the first of them for the summary. Without memory the summary has fewer; its total tells. */
static void keep_events(struct session *s, const struct live_report *r) {
    bool whole = s->n_events == s->events_total;
    int room = SESSION_MAX_EVENTS - s->n_events, n = r->n_events < room ? r->n_events : room;
    if (!r->n_events)
        return;
    for (int i = 0; i < r->n_events; i++)
        s->seizure_samples += r->events[i].end - r->events[i].first;
    s->events_total += r->n_events;
    session_count(s, "brrd_stream_seizure_events_total", NULL, r->n_events);
    struct event *events = whole && n ? realloc(s->events, (size_t)(s->n_events + n) * sizeof *events) : NULL;
    if (!events)
        return;
    memcpy(events + s->n_events, r->events, (size_t)n * sizeof *events);
    s->events = events;
    s->n_events += n;
}

/* For a client that may have to come back. */
static bool keep(struct session *s, const struct live_report *r) {
    if (!s->resumable)
        return true;
    if (!ring_add(&s->back.kept, r))
        return false;
    if (session_is_full(s))
        return true; /* one more report, and the worker stops */
    const bool may_lie_behind = s->back.heard_seen || !session_room(s);
    int64_t dropped = ring_trim(&s->back.kept, may_lie_behind ? SESSION_KEPT_UNREAD_BYTES : SESSION_KEPT_BYTES);
    if (dropped)
        session_count(s, "brrd_stream_results_forgotten_total", NULL, (double)dropped);
    return true;
}

/* To those who watch, who always get the trace; the client gets it only if its Open asked for it. */
static void tell(struct session *s, struct live_report *r) {
    session_tell(s, r);
    if (live_stream_open(s->stream)->want_probabilities)
        return;
    free(r->p);
    r->p = NULL;
}

/* A result or an alarm, to the client and for its return. */
static void pass_on(struct session *s, struct live_report *r) {
    struct err err;
    if (r->message.kind == LIVE_RESULT) {
        keep_events(s, r);
        s->back.next_result = r->seq + 1;
        r->measured_rate_hz = s->flow.measured_rate_hz;
    }
    if (r->message.kind == LIVE_ALARM)
        session_alarm_name(s, r);
    session_note_report(s, r);
    tell(s, r);
    if (!keep(s, r)) {
        err_set(&err, ERR_EXHAUSTED, "out of memory for the results of a stream");
        session_fail(s, &err, NULL);
    } else if (s->sink && s->saves.greeted) {
        session_deliver(s, r);
    }
}

static void note_opened(struct session *s) {
    const char *what = live_open_is_live(live_stream_open(s->stream)) ? "live" : "replay";
    const double away_s = s->info ? s->info->away_s : 0;
    char text[JOURNAL_DETAIL];
    str_format(text, sizeof text, "%s, with what was learned of this patient until %.0f s before", what, away_s);
    session_note(s, JOURNAL_OPENED, away_s > 0 ? text : what);
}

/* A live stream begins: its bed has left those whose clients are gone. */
static void follow_others(const struct session *s) {
    char name[SESSION_BED];
    if (!live_open_is_live(live_stream_open(s->stream)) || map_tally_of(s->all->tallies, session_bed(s, name)) < 2)
        return;
    for (struct session *other = s->all->first; other; other = other->next_session)
        if (is_followed_by(other, s))
            set_followed(other);
}

static void on_opened(struct session *s, struct live_report *r) {
    s->opened = true;
    s->flow.newest_ms = clock_ms();
    s->info = r->opened;
    str_copy(s->sha256, sizeof s->sha256, s->info ? s->info->info.sha256 : "");
    r->opened = NULL;
    eegring_drop(s->back.eeg);
    s->back.eeg = r->eeg;
    r->eeg = NULL;
    session_inherit_eeg(s);
    if (s->stage != SESSION_RESTORING) {
        note_opened(s);
        follow_others(s);
    } else {
        session_alarm_keep_eeg(s);
    }
    session_reach(s, SESSION_RUNNING);
    if (s->resumable && s->saves.durable < 0)
        session_save_begin(s);
    session_greet(s);
}

static void on_summary(struct session *s, const struct live_report *r) {
    s->back.summary = s->back.last_word;
    s->back.last_word = NULL;
    if (s->back.summary) {
        COPY_MEMBERS(*s->back.summary, *r, samples, windows, totals, learning_s);
        str_copy(s->back.summary->mislabelled, sizeof s->back.summary->mislabelled, r->mislabelled);
    }
    if (s->notes.held.first && (s->notes.held_summary = live_report_copy(r)))
        return;
    session_release_held(s);
    if (s->sink)
        s->sink->summary(s->owner, r);
    else
        session_close(s, "done");
}

static void on_closed(struct session *s) {
    session_reach(s, SESSION_CLOSED);
    session_count_place(s, -1);
    s->all->count--;
    s->all->waiting_bytes -= s->flow.waiting_bytes; /* of orders that were dropped */
    s->flow.waiting_bytes = 0;
    if (!s->sink && !s->parked_ms)
        session_forget(s);
}

void sessions_report(struct sessions *all, struct live_report *r) {
    struct session *s = live_stream_owner(r->stream);
    enum live_report_kind kind = (enum live_report_kind)r->message.kind;
    (void)all;
    if (kind == LIVE_CLOSED) {
        on_closed(s);
        return;
    }
    if (kind == LIVE_CONSUMED) {
        s->saves.consumed_gaps += !r->data_bytes;
        s->flow.oldest = (s->flow.oldest + 1) % (2 * SESSION_MAX_ORDERS);
        s->flow.waiting--;
        s->flow.waiting_samples -= r->samples;
        s->flow.waiting_bytes -= r->data_bytes;
        s->all->waiting_bytes -= r->data_bytes;
        s->consumed += r->samples;
    }
    if (session_is_closing(s))
        return;
    session_look_at_held(s);
    s->flow.unreleased += r->bytes;
    switch (kind) {
    case LIVE_OPENED:
        on_opened(s, r);
        break;
    case LIVE_CONSUMED:
        if (s->sink && s->saves.greeted)
            s->sink->progress(s->owner);
        session_save_far(s);
        break;
    case LIVE_RESULT:
    case LIVE_ALARM:
        session_remember_patient(s, r);
        pass_on(s, r);
        break;
    case LIVE_PROVISIONAL:
        tell(s, r);
        if (s->sink && s->saves.greeted)
            s->sink->provisional(s->owner, r);
        break;
    case LIVE_SUMMARY:
        on_summary(s, r);
        break;
    case LIVE_FAILED:
        if (r->lost && s->resumable)
            session_survive(s, &r->err);
        else if (s->stage == SESSION_RESTORING)
            session_restore_failed(s, &r->err);
        else
            session_fail(s, &r->err, NULL);
        break;
    case LIVE_SAVED:
        session_saved(s, r);
        break;
    case LIVE_CLOSED:
    case LIVE_LOADED:
    case LIVE_UNLOADED:
        break;
    }
    session_give_credit(s);
}

/* Why the session ends now, or false: its client sends nothing, or reads nothing. */
static bool expired(const struct session *s, int64_t now, struct err *err) {
    int64_t limit = s->all->config.idle_ms, seconds = limit / 1000;
    if (session_is_closing(s) || limit <= 0 || !s->sink)
        return false;
    if (s->flow.stalled_ms && now - s->flow.stalled_ms >= limit)
        return err_set(err, ERR_ABORTED, "the client has read no answer for %lld s (limits.session_idle); open a new stream",
                       (long long)seconds);
    return s->stage == SESSION_RUNNING && !s->flow.waiting && now - s->flow.newest_ms >= limit &&
           err_set(err, ERR_ABORTED, "no samples for %lld s (limits.session_idle); open a new stream", (long long)seconds);
}

static void look_at_session(struct session *s, int64_t now) {
    struct sessions *all = s->all;
    all->pass.buffered += s->stage == SESSION_CLOSED ? 0 : s->flow.waiting_samples;
    session_look_at_held(s);
    session_save_tick(s, now);
    all->pass.unsaved += s->saves.unsaved && !session_is_closing(s);
    all->pass.parked += s->parked_ms && !session_is_closing(s) && !s->ended;
    session_post_due(s);
    session_give_credit(s); /* others' samples may have filled the room, and nothing more is read of its client */
    struct err err;
    if (expired(s, now, &err)) {
        session_fail(s, &err, "SESSION_EXPIRED");
    } else if (s->parked_ms && now - s->parked_ms >= all->config.resume_ttl_ms) {
        session_count_end(s, "expired");
        session_let_go(s);
    }
}

bool sessions_tick(struct sessions *all, int64_t ms) {
    const int64_t now = clock_ms();
    if (!all->pass.walk.begun) {
        all->pass.buffered = all->pass.parked = all->pass.unsaved = 0;
        sessions_shed(all, now);
        sessions_settle_alarms(all);
    }
    for (struct session *s; (s = session_walk_next(all, &all->pass.walk));) {
        look_at_session(s, now);
        if (clock_ms() - now >= ms)
            return true;
    }
    all->unsaved = all->pass.unsaved;
    if (all->config.metrics) {
        metric_set(metrics_series(all->config.metrics, "brrd_stream_sessions_parked", ""), all->pass.parked);
        metric_set(metrics_series(all->config.metrics, "brrd_stream_sessions", ""), sessions_places(all, false));
        metric_set(metrics_series(all->config.metrics, "brrd_stream_buffered_samples", ""), (double)all->pass.buffered);
        metric_set(metrics_series(all->config.metrics, "brrd_stream_buffered_bytes", ""), (double)all->waiting_bytes);
        metric_set(metrics_series(all->config.metrics, "brrd_viewer_bytes", ""), (double)eegring_bytes());
    }
    return false;
}
