#include "burst/ledger.h"

enum { LEDGER_FIRST_ROOM = 1024 };

int ledger_init(struct ledger *ret, int64_t most_ticks, int64_t most_spikes, struct err *err) {
    *ret = (struct ledger){.most_spikes = most_spikes};
    if (most_ticks > 0 && !(ret->fired = calloc((size_t)most_ticks, sizeof *ret->fired)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a ledger of %lld ticks", (long long)most_ticks);
    ret->most_ticks = most_ticks;
    return 0;
}

int64_t ledger_bytes(int64_t most_ticks, int64_t most_spikes) {
    int64_t room = LEDGER_FIRST_ROOM;
    while (room < 2 * most_spikes)
        room *= 2;
    return most_ticks > 0 ? (most_ticks + room) * (int64_t)sizeof(uint32_t) : 0;
}

void ledger_done(struct ledger *l) {
    FREE_MEMBERS(*l, fired, ids);
    *l = (struct ledger){0};
}

static uint32_t *fired_in(const struct ledger *l, uint64_t tick) { return &l->fired[tick % (uint64_t)l->most_ticks]; }

static void drop_oldest(struct ledger *l) {
    uint32_t fired = *fired_in(l, l->newest + 1 - (uint64_t)l->ticks);
    l->first += fired;
    l->n -= fired;
    l->ticks--;
}

/* Room for so many more ids behind those that are held. */
static int reserve_ids(struct ledger *l, int64_t more, struct err *err) {
    if (l->first + l->n + more <= l->room)
        return 0;
    int64_t room = l->room > LEDGER_FIRST_ROOM ? l->room : LEDGER_FIRST_ROOM;
    while (room < 2 * (l->n + more)) /* half is free, so that ids move once in a while */
        room *= 2;
    uint32_t *ids = room > l->room ? malloc((size_t)room * sizeof *ids) : l->ids;
    if (!ids)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the %lld spikes of a ledger", (long long)(l->n + more));
    if (l->n)
        memmove(ids, l->ids + l->first, (size_t)l->n * sizeof *ids);
    if (ids != l->ids)
        free(l->ids);
    l->ids = ids;
    l->first = 0;
    l->room = room;
    return 0;
}

int ledger_add(struct ledger *l, const struct burst_frame *frame, struct err *err) {
    if (l->most_ticks < 1)
        return 0;
    if (frame->tick != l->newest + 1)
        l->ticks = l->first = l->n = 0;
    while (l->ticks && (l->ticks == l->most_ticks || l->n + frame->fired > l->most_spikes))
        drop_oldest(l);
    int rc = reserve_ids(l, frame->fired, err);
    if (rc)
        return rc;
    if (frame->fired)
        memcpy(l->ids + l->first + l->n, frame->ids, (size_t)frame->fired * sizeof *l->ids);
    l->n += frame->fired;
    l->newest = frame->tick;
    l->ticks++;
    *fired_in(l, l->newest) = (uint32_t)frame->fired;
    return 0;
}

void ledger_each(const struct ledger *l, int64_t most, ledger_sink *sink, void *ctx) {
    const uint32_t *ids = l->ids ? l->ids + l->first : NULL;
    for (int64_t left = l->ticks; left > 0; left--) {
        uint64_t tick = l->newest + 1 - (uint64_t)left;
        const struct burst_frame frame = {.tick = tick, .ids = ids, .fired = *fired_in(l, tick)};
        if (left <= most)
            sink(ctx, &frame);
        ids = frame.fired ? ids + frame.fired : ids;
    }
}

/* ---- states ---------------------------------------------------------------------------------------------------- */

int ledger_save(const struct ledger *l, struct burst_state *state, struct err *err) {
    if (!l->ticks || l->newest != state->tick)
        return 0;
    uint32_t *fired = malloc((size_t)l->ticks * sizeof *fired), *ids = malloc(((size_t)l->n + 1) * sizeof *ids);
    if (!fired || !ids) {
        free(fired);
        free(ids);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a ledger of %lld ticks", (long long)l->ticks);
    }
    for (int64_t i = 0; i < l->ticks; i++)
        fired[i] = *fired_in(l, l->newest + 1 - (uint64_t)(l->ticks - i));
    if (l->n)
        memcpy(ids, l->ids + l->first, (size_t)l->n * sizeof *ids);
    state->ledger_fired = fired;
    state->ledger_ids = ids;
    state->n_ledger_ticks = l->ticks;
    state->n_ledger_ids = l->n;
    return 0;
}

static int check_state(const struct burst_state *s, struct err *err) {
    int64_t at = 0;
    if ((uint64_t)s->n_ledger_ticks > s->tick)
        return err_set(err, ERR_INVALID, "state.ledger.fired has %lld ticks; expected at most the %llu that have run",
                       (long long)s->n_ledger_ticks, (unsigned long long)s->tick);
    for (int64_t i = 0; i < s->n_ledger_ticks; i++) {
        if (s->ledger_fired[i] > s->n_ledger_ids - at)
            return err_set(err, ERR_INVALID, "state.ledger.fired[%lld] is %u; expected the %lld spikes of state.ledger.ids in all",
                           (long long)i, s->ledger_fired[i], (long long)s->n_ledger_ids);
        for (int64_t end = at + s->ledger_fired[i], first = at; at < end; at++)
            if (s->ledger_ids[at] >= s->neurons || (at > first && s->ledger_ids[at] <= s->ledger_ids[at - 1]))
                return err_set(err, ERR_INVALID, "state.ledger.ids[%lld] is %u; expected ascending neurons below %u in each tick",
                               (long long)at, s->ledger_ids[at], s->neurons);
    }
    return at == s->n_ledger_ids ? 0
                                 : err_set(err, ERR_INVALID, "state.ledger.ids has %lld spikes; state.ledger.fired has %lld",
                                           (long long)s->n_ledger_ids, (long long)at);
}

int ledger_restore(struct ledger *l, const struct burst_state *state, struct err *err) {
    int rc = check_state(state, err);
    if (rc)
        return rc;
    l->ticks = l->first = l->n = 0;
    for (int64_t i = 0, at = 0; !rc && i < state->n_ledger_ticks; i++) {
        const struct burst_frame frame = {.tick = state->tick + 1 - (uint64_t)(state->n_ledger_ticks - i),
                                          .ids = state->ledger_ids + at,
                                          .fired = state->ledger_fired[i]};
        rc = ledger_add(l, &frame, err);
        at += frame.fired;
    }
    return rc;
}
