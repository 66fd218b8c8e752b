/* Sessions as those see them who watch over them (live/session.h). */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/live/session_parts.h"

int64_t session_lag_ms(const struct session *s, int64_t now_ms) {
    return s->waiting > 0 && !s->closing ? now_ms - s->waiting_since[s->oldest] : 0;
}

void session_describe(const struct session *s, struct session_state *ret) {
    const struct live_open *open = live_stream_open(s->stream);
    struct session_counts counts;
    session_counts(s, &counts);
    *ret = (struct session_state){.id = s->id,
                                  .client = s->client,
                                  .model = s->model,
                                  .principal = s->pass.principal,
                                  .channels = open->labels,
                                  .n_channels = open->n_labels,
                                  .rate_hz = s->rate_hz,
                                  .lag_s = (double)session_lag_ms(s, clock_ms()) / 1000,
                                  .realtime = open->realtime,
                                  .connected = s->sink != NULL,
                                  .alarm = s->alarm,
                                  .probability = s->probability,
                                  .opened_ms = s->epoch,
                                  .received_through = counts.received_through,
                                  .durable_through = counts.durable_through,
                                  .samples = s->samples,
                                  .events = s->events_total,
                                  .reconnects = s->reconnects};
}

void sessions_visit(const struct sessions *all, void (*visit)(void *ctx, const struct session *s), void *ctx) {
    for (const struct session *s = all->first; s; s = s->next_session)
        if (!s->closing)
            visit(ctx, s);
}

struct session *sessions_by_id(struct sessions *all, const char *id) {
    struct session *s = all->first;
    while (s && (s->closing || strcmp(s->id, id) != 0))
        s = s->next_session;
    return s;
}

void session_end(struct session *s, const char *who, const char *why) {
    struct err err;
    err_set(&err, ERR_ABORTED, "%s closed the stream%s%s", who, *why ? ": " : "", why);
    session_fail(s, &err, "SESSION_CLOSED");
}

void session_watch_start(struct session *s, struct session_watch *w) {
    w->session = s;
    w->next = s->watches;
    s->watches = w;
}

void session_watch_stop(struct session_watch *w) {
    if (!w->session)
        return;
    struct session_watch **link = &w->session->watches;
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    w->session = NULL;
}

void session_tell(struct session *s, const struct live_report *r) {
    if (r->message.kind == LIVE_ALARM)
        s->alarm = r->on;
    else if (r->message.kind == LIVE_PROVISIONAL)
        s->probability = r->probability;
    else
        s->samples = r->first + r->samples;
    for (struct session_watch *w = s->watches, *next; w; w = next) {
        next = w->next;
        w->report(w, r);
    }
}

void session_tell_end(struct session *s) {
    while (s->watches) {
        struct session_watch *w = s->watches;
        session_watch_stop(w);
        w->ended(w);
    }
}
