#include "daemon/status/beds.h"

#include "base/map.h"

struct beds {
    struct sessions *sessions;
    struct map *open; /* by the session's id */
    struct bed *ended;
    bool changed;
    int64_t wall_ms, now_ms; /* of the tick at work */
};

struct beds *beds_new(struct sessions *sessions) {
    struct beds *all = calloc(1, sizeof *all);
    if (all && (all->open = map_new(STATUS_STREAMS)))
        all->sessions = sessions;
    else {
        free(all);
        all = NULL;
    }
    return all;
}

static void bed_free(void *at) {
    struct bed *b = at;
    session_watch_stop(&b->watch);
    past_drop(b->trace);
    eegring_drop(b->eeg);
    free(b);
}

void beds_free(struct beds *all) {
    if (!all)
        return;
    map_free(all->open, bed_free);
    for (struct bed *b = all->ended, *next; b; b = next) {
        next = b->next;
        bed_free(b);
    }
    free(all);
}

static void on_report(struct session_watch *w, const struct live_report *r) {
    struct bed *b = (struct bed *)w;
    if (r->message.kind == LIVE_ALARM) {
        b->alarm_ms = r->on ? clock_ms() : b->alarm_ms;
        b->all->changed = true;
    }
    if (!r->p || r->message.kind == LIVE_ALARM)
        return;
    for (int64_t i = 0; i < r->samples; i++)
        if (!isnan(r->p[i])) {
            b->newest = r->p[i];
            b->peak = b->peak >= r->p[i] ? b->peak : r->p[i];
        }
    b->value_ms = clock_ms();
}

/* Forgets ended beds, from the first one on for which this holds. */
static void forget_from(struct bed **link) {
    struct bed *b = *link;
    *link = NULL;
    for (struct bed *next; b; b = next) {
        next = b->next;
        bed_free(b);
    }
}

/* The oldest of the ended beds makes room, and of a principal who has more than half of the places the oldest of its own. */
static void bound_ended(struct beds *all, const char *principal) {
    struct bed **oldest = NULL, **own = NULL;
    int n = 0, n_own = 0;
    for (struct bed **link = &all->ended; *link; link = &(*link)->next) {
        const bool is_own = !strcmp((*link)->principal, principal);
        n++;
        n_own += is_own;
        oldest = link;
        own = is_own ? link : own;
    }
    if (n <= BEDS_ENDED)
        return;
    struct bed **link = 2 * n_own > n ? own : oldest, *gone = *link;
    *link = gone->next;
    bed_free(gone);
}

static void on_ended(struct session_watch *w) {
    struct bed *b = (struct bed *)w;
    struct beds *all = b->all;
    map_remove(all->open, b->id);
    b->ended_ms = clock_ms();
    b->next = all->ended;
    all->ended = b;
    all->changed = true;
    bound_ended(all, b->principal);
}

/* A stream of the same client takes the place of one that has ended. */
static void replace_ended(struct beds *all, const struct bed *by) {
    for (struct bed **link = &all->ended; *link; link = &(*link)->next) {
        struct bed *old = *link;
        if (strcmp(old->client, by->client) != 0 || strcmp(old->principal, by->principal) != 0)
            continue;
        *link = old->next;
        bed_free(old);
        return;
    }
}

static void begin(struct beds *all, const struct session_state *state) {
    struct session *s;
    struct bed *b = calloc(1, sizeof *b);
    if (!b || sessions_by_id(all->sessions, state->id, &s, NULL) || map_put(all->open, state->id, b, NULL)) {
        free(b);
        return;
    }
    *b = (struct bed){.watch = {.report = on_report, .ended = on_ended},
                      .all = all,
                      .trace = past_new(),
                      .peak = NAN,
                      .newest = state->probability,
                      SAME_MEMBERS(*state, live, opened_ms),
                      .mood = STATUS_FINE,
                      .begun_ms = all->now_ms,
                      .value_ms = all->now_ms,
                      .received = -1};
    for (int i = 0; i < STATUS_MINUTE; i++)
        b->minute[i] = NAN;
    COPY_TEXTS(*b, *state, id, client, model, principal);
    session_watch_start(s, &b->watch);
    replace_ended(all, b);
}

/* A value holds until the next one, while samples come. */
static float point(const struct beds *all, const struct bed *b) {
    bool holds = b->seen_ms && all->now_ms - b->seen_ms < BEDS_HOLD_MS && all->now_ms - b->value_ms < BEDS_HOLD_MS;
    return !isnan(b->peak) ? b->peak : holds ? b->newest : NAN;
}

void beds_look(void *beds, const struct session *s) {
    struct beds *all = beds;
    struct session_state state;
    session_describe(s, &state);
    struct bed *b = map_get(all->open, state.id);
    if (!b) {
        begin(all, &state);
        if (!(b = map_get(all->open, state.id)))
            return;
    }
    b->restored |= b->received < 0 && state.received_through > 0 && !state.connected; /* these samples came before the restart */
    if (state.received_through != b->received && state.received_through > 0)
        b->seen_ms = b->received < 0 && b->restored ? 0 : all->now_ms;
    b->received = state.received_through;
    if (b->eeg != state.eeg) {
        eegring_drop(b->eeg);
        b->eeg = eegring_share(state.eeg);
    }
    float p = point(all, b);
    b->minute[b->at] = p;
    b->at = (b->at + 1) % STATUS_MINUTE;
    if (b->trace)
        past_put(b->trace, all->wall_ms, p);
    b->peak = NAN;
}

void beds_tick(struct beds *all) {
    all->wall_ms = clock_wall_ms();
    all->now_ms = clock_ms();
    for (struct bed **link = &all->ended; *link; link = &(*link)->next)
        if (all->now_ms - (*link)->ended_ms > BEDS_ENDED_MS) { /* those behind it ended earlier */
            forget_from(link);
            break;
        }
}

bool beds_changed(struct beds *all) {
    bool changed = all->changed;
    all->changed = false;
    return changed;
}

const struct bed *beds_find(const struct beds *all, const char *session) { return map_get(all->open, session); }

void beds_show(struct beds *all, const struct status_stream *s, bool heard) {
    struct bed *b = map_get(all->open, s->bed.session_id);
    if (!b)
        return;
    b->mood = s->mood;
    b->heard = heard;
    b->held |= s->bed.live && s->place < INT_MAX;
}

const struct bed *beds_ended(const struct beds *all) { return all->ended; }
