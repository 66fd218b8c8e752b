#include "model/ledger.h"

#include <stdlib.h>
#include <string.h>

/* One tick of one area. */
struct frame {
    uint32_t *ids;
    int64_t n, room;
};

struct ledger {
    const uint32_t *area_of;
    int64_t neurons;
    int n_areas, window;
    uint64_t tick;
    struct frame **rings; /* by area; NULL = not tracked. Tick t lies at t % window */
};

int ledger_new(const uint32_t *area_of, int64_t n, int n_areas, int window, struct ledger **ret, struct err *err) {
    if (window < 1 || window > LEDGER_MOST_FRAMES)
        return err_set(err, ERR_INVALID, "a window of %d ticks; expected 1 to %d", window, LEDGER_MOST_FRAMES);
    struct ledger *l = calloc(1, sizeof *l);
    if (l)
        l->rings = calloc((size_t)n_areas, sizeof(struct frame *));
    if (!l || !l->rings) {
        free(l);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the fired neurons of %d areas", n_areas);
    }
    l->area_of = area_of;
    l->neurons = n;
    l->n_areas = n_areas;
    l->window = window;
    *ret = l;
    return 0;
}

void ledger_free(struct ledger *l) {
    if (!l)
        return;
    for (int i = 0; i < l->n_areas; i++) {
        for (int k = 0; l->rings[i] && k < l->window; k++)
            free(l->rings[i][k].ids);
        free(l->rings[i]);
    }
    free(l->rings);
    free(l);
}

static int check_area(const struct ledger *l, int area, struct err *err) {
    return area >= 0 && area < l->n_areas ? 0
                                          : err_set(err, ERR_INVALID, "area %d; expected less than the %d areas", area, l->n_areas);
}

int ledger_track(struct ledger *l, int area, struct err *err) {
    int rc = check_area(l, area, err);
    if (rc || l->rings[area])
        return rc;
    l->rings[area] = calloc((size_t)l->window, sizeof(struct frame));
    return l->rings[area] ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for %d ticks of an area", l->window);
}

/* Room for one more; false when memory is short. */
static int put(struct frame *f, uint32_t id) {
    if (f->n == f->room) {
        int64_t room = f->room ? 2 * f->room : 16;
        uint32_t *ids = realloc(f->ids, (size_t)room * sizeof *ids);
        if (!ids)
            return 0;
        f->ids = ids;
        f->room = room;
    }
    f->ids[f->n++] = id;
    return 1;
}

/* Empties the frames of the ticks after the newest up to this one. */
static void clear_until(struct ledger *l, uint64_t tick) {
    uint64_t from = tick - l->tick > (uint64_t)l->window ? tick - (uint64_t)l->window : l->tick;
    for (uint64_t t = from + 1; t <= tick; t++)
        for (int i = 0; i < l->n_areas; i++)
            if (l->rings[i])
                l->rings[i][t % (uint64_t)l->window].n = 0;
}

int ledger_add(struct ledger *l, uint64_t tick, const uint32_t *ids, int64_t n, struct err *err) {
    if (tick <= l->tick)
        return err_set(err, ERR_INVALID, "tick %llu comes after tick %llu; ticks must come in order", (unsigned long long)tick,
                       (unsigned long long)l->tick);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] >= l->neurons)
            return err_set(err, ERR_INVALID, "neuron %u fired in tick %llu; expected less than the %lld neurons", ids[i],
                           (unsigned long long)tick, (long long)l->neurons);
    clear_until(l, tick);
    for (int64_t i = 0; i < n; i++) {
        struct frame *ring = l->rings[l->area_of[ids[i]]];
        if (ring && !put(&ring[tick % (uint64_t)l->window], ids[i])) {
            clear_until(l, tick);
            return err_set(err, ERR_EXHAUSTED, "out of memory for the neurons that fired in tick %llu", (unsigned long long)tick);
        }
    }
    l->tick = tick;
    return 0;
}

uint64_t ledger_tick(const struct ledger *l) { return l->tick; }

int ledger_get(const struct ledger *l, int area, uint64_t last, int depth, struct ledger_frame *ret, struct err *err) {
    int rc = check_area(l, area, err);
    if (rc)
        return rc;
    if (!l->rings[area])
        return err_set(err, ERR_NOT_FOUND, "area %d is not tracked", area);
    if (depth < 1 || depth > l->window)
        return err_set(err, ERR_RANGE, "%d ticks; expected 1 to the %d that are kept", depth, l->window);
    if (last > l->tick)
        return err_set(err, ERR_RANGE, "tick %llu is to come; the newest is %llu", (unsigned long long)last,
                       (unsigned long long)l->tick);
    uint64_t oldest = l->tick > (uint64_t)l->window ? l->tick - (uint64_t)l->window + 1 : 1;
    if (last < oldest || last - oldest + 1 < (uint64_t)depth)
        return err_set(err, ERR_RANGE, "%d ticks up to %llu; the oldest that is kept is %llu", depth, (unsigned long long)last,
                       (unsigned long long)oldest);
    for (int i = 0; i < depth; i++) {
        uint64_t tick = last - (uint64_t)(depth - 1 - i);
        const struct frame *f = &l->rings[area][tick % (uint64_t)l->window];
        ret[i] = (struct ledger_frame){tick, f->ids, f->n};
    }
    return 0;
}
