/* Sessions as those see them who watch over them (live/session.h). */

#include "base/queue.h"
#include "daemon/live/session_parts.h"

void session_describe(const struct session *s, struct session_state *ret) {
    const struct live_open *open = live_stream_open(s->stream);
    struct session_counts counts;
    session_counts(s, &counts);
    *ret = (struct session_state){SAME_MEMBERS(*s, id, client, model),
                                  .principal = s->token.principal,
                                  SAME_MEMBERS(*s, address, rate_hz, alarm, start_ms),
                                  SAME_MEMBERS(s->shown, probability, samples, followed),
                                  SAME_MEMBERS(s->shown, reconnects, learning_s),
                                  SAME_MEMBERS(s->flow, measured_rate_hz, rate_known),
                                  .channels = open->labels,
                                  .n_channels = open->n_labels,
                                  .lag_s = (double)session_lag_ms(s, clock_ms()) / 1000,
                                  SAME_MEMBERS(*open, device, realtime),
                                  .live = live_open_is_live(open),
                                  .connected = s->sink != NULL,
                                  .opened_ms = s->epoch,
                                  SAME_MEMBERS(counts, received_through, durable_through),
                                  .events = s->events_total,
                                  .learned_before_ms = s->shown.learned_before * 1000 / FRONTEND_RATE_HZ,
                                  .quality = &s->shown.quality,
                                  .note = quality_note(&s->shown.quality, s->info ? s->info->n_sources : open->n_labels),
                                  .opened = s->info,
                                  .eeg = s->back.eeg};
}

static bool is_visited(const struct session *s) { return !session_is_closing(s) && !s->ended; }

void sessions_visit(const struct sessions *all, void (*visit)(void *ctx, const struct session *s), void *ctx) {
    for (const struct session *s = all->first; s; s = s->next_session)
        if (is_visited(s))
            visit(ctx, s);
}

struct session *session_walk_next(struct sessions *all, struct session_walk *w) {
    if (!w->begun) {
        *w = (struct session_walk){.next = all->walks, .at = all->first, .begun = true};
        all->walks = w;
    }
    struct session *s = w->at;
    if (s)
        w->at = s->next_session;
    else
        sessions_walk_stop(all, w);
    return s;
}

bool sessions_tick_goes_on(const struct sessions *all) { return all->pass.walk.begun; }

bool sessions_walk(struct sessions *all, struct session_walk *w, int64_t ms, void (*visit)(void *ctx, const struct session *s),
                   void *ctx) {
    const int64_t until_ms = clock_ms() + ms;
    while (clock_ms() < until_ms) {
        const struct session *s = session_walk_next(all, w);
        if (!s)
            return false;
        if (is_visited(s))
            visit(ctx, s);
    }
    return true;
}

void sessions_walk_stop(struct sessions *all, struct session_walk *w) {
    LIST_REMOVE(all->walks, w, next);
    w->begun = false;
}

int sessions_by_id(struct sessions *all, const char *id, struct session **ret, struct err *err) {
    struct session *found = session_of_id(all, id);
    int n = found && is_visited(found);
    for (struct session *s = n || strlen(id) < SESSION_PREFIX ? NULL : all->first; s; s = s->next_session) {
        if (!is_visited(s) || !str_starts(s->id, id))
            continue;
        found = s;
        n++;
    }
    if (!n)
        return err_set(err, ERR_NOT_FOUND, "there is no open session '%.64s'; `brrctl sessions` lists them", id);
    if (n > 1)
        return err_set(err, ERR_INVALID, "the ids of %d open sessions begin with '%.64s'; give more characters", n, id);
    *ret = found;
    return 0;
}

void session_end(struct session *s, const char *who, const char *why) {
    struct err err;
    err_set(&err, ERR_ABORTED, "the stream was closed by %s%s%s%s", who, *why ? " (" : "", why, *why ? ")" : "");
    session_drop_snapshot(s); /* no daemon after this one shall go on with it */
    session_fail(s, &err, "SESSION_CLOSED");
}

void session_watch_start(struct session *s, struct session_watch *w) {
    w->session = s;
    w->next = s->shown.watches;
    s->shown.watches = w;
}

void session_watch_stop(struct session_watch *w) {
    if (!w->session)
        return;
    LIST_REMOVE(w->session->shown.watches, w, next);
    w->session = NULL;
}
