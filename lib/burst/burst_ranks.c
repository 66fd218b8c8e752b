/* A network that ranks share: each has the synapses that end in its range of neurons and advances these; after a tick they exchange
 * who fired, in the order of the ranges, so that the next tick begins from the same list everywhere. Sums are integers and each
 * neuron is advanced by one rank, so the number of ranks changes no bit. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "burst/burst_parts.h"

enum { RANKS_LIMIT_MS = 60000 };

/* What a rank says of a tick. */
struct tick_share {
    uint64_t events;
    uint32_t fired, candidates;
};

int burst_ranks_agree(struct burst *b, struct err *err) {
    struct world *w = b->options.world;
    int all[WORLD_MAX];
    if (!burst_is_shared(b))
        return 0;
    all[w->rank] = b->c->net.fraction_bits;
    int rc = world_gather(w, all, sizeof *all, RANKS_LIMIT_MS, err);
    for (int i = 0; !rc && i < w->size; i++)
        b->c->net.fraction_bits = all[i] < b->c->net.fraction_bits ? all[i] : b->c->net.fraction_bits;
    return rc;
}

static int reserve_shares(struct burst *b, size_t bytes, struct err *err) {
    if (bytes <= b->shares_room)
        return 0;
    free(b->shares);
    b->shares_room = 0;
    if (!(b->shares = malloc(2 * bytes)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for what the ranks exchange: %zu bytes", 2 * bytes);
    b->shares_room = 2 * bytes;
    return 0;
}

/* The lists of all ranks, `most` places each: ids, then psp. */
static int gather_lists(struct burst *b, const struct spike_fired *list, uint32_t fired, size_t most, struct err *err) {
    struct world *w = b->options.world;
    size_t each = most * (sizeof *list->ids + sizeof *list->psp);
    int rc = reserve_shares(b, each * (size_t)w->size, err);
    if (rc)
        return rc;
    char *own = b->shares + (size_t)w->rank * each;
    if (fired && ((rc = stream_to_host(b->stream, own, list->ids, fired * sizeof *list->ids, err)) ||
                  (rc = stream_to_host(b->stream, own + most * sizeof *list->ids, list->psp, fired, err)) ||
                  (rc = stream_sync(b->stream, err))))
        return rc;
    return world_gather(w, b->shares, each, RANKS_LIMIT_MS, err);
}

/* Takes the lists into b->ids, and psp of neurons whose membrane gives it; returns whether there is one that the device must hear
 * of. Of the others each rank has its own, which its rows are packed with. */
static bool merge_lists(struct burst *b, const struct tick_share *all, size_t most, uint8_t *psp) {
    const struct world *w = b->options.world;
    struct spike_net *host = &b->c->net;
    size_t each = most * (sizeof *b->ids + 1), at = 0;
    bool driven = false;
    for (int r = 0; r < w->size; r++) {
        const char *share = b->shares + (size_t)r * each;
        memcpy(b->ids + at, share, all[r].fired * sizeof *b->ids);
        for (uint32_t i = 0; i < all[r].fired; i++, at++) {
            uint32_t id = b->ids[at];
            if (host->flags[id] & SPIKE_MP_DRIVEN) {
                host->psp[id] = (uint8_t)share[most * sizeof *b->ids + i];
                driven = true;
            }
            psp[at] = host->psp[id];
        }
    }
    return driven;
}

static int put_list(struct burst *b, int list, const struct tick_share *all, size_t most, struct err *err) {
    struct spike_counts *counts = &b->seen[list];
    struct spike_fired *to = &b->lists[list];
    OWNED_MEMORY uint8_t *psp = malloc((size_t)counts->fired + 1);
    if (!psp)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %u fired neurons", counts->fired);
    bool driven = counts->fired && merge_lists(b, all, most, psp);
    int rc;
    if ((rc = stream_to_device(b->stream, to->ids, b->ids, counts->fired * sizeof *b->ids, err)) ||
        (rc = stream_to_device(b->stream, to->psp, psp, counts->fired, err)) ||
        (rc = stream_to_device(b->stream, to->counts, counts, sizeof *counts, err)) ||
        (driven && (rc = burst_device_array(b, b->c->net.psp, err))))
        return rc;
    return stream_sync(b->stream, err);
}

int burst_ranks_exchange(struct burst *b, int list, struct err *err) {
    struct world *w = b->options.world;
    struct spike_counts *counts = &b->seen[list];
    struct tick_share all[WORLD_MAX];
    uint32_t most = 0;
    if (!burst_is_shared(b))
        return 0;
    all[w->rank] = (struct tick_share){counts->events, counts->fired, counts->candidates};
    int rc = world_gather(w, all, sizeof *all, RANKS_LIMIT_MS, err);
    if (rc)
        return rc;
    uint32_t own = counts->fired;
    counts->events = counts->fired = counts->candidates = 0;
    for (int r = 0; r < w->size; r++) {
        counts->events += all[r].events;
        counts->fired += all[r].fired;
        counts->candidates += all[r].candidates;
        most = all[r].fired > most ? all[r].fired : most;
    }
    if (most && (rc = gather_lists(b, &b->lists[list], own, most, err)))
        return rc;
    return put_list(b, list, all, most, err);
}

int burst_ranks_gather(struct burst *b, void *array, size_t each, struct err *err) {
    const struct connectome_range own = b->c->own;
    struct world *w = b->options.world;
    size_t part = own.each * each, bytes = part * (burst_is_shared(b) ? (size_t)w->size : 0);
    if (!bytes)
        return 0;
    int rc = reserve_shares(b, bytes, err);
    if (rc)
        return rc;
    memcpy(b->shares + (size_t)w->rank * part, (char *)array + own.first * each, (own.end - own.first) * each);
    if ((rc = world_gather(w, b->shares, part, RANKS_LIMIT_MS, err)))
        return rc;
    memcpy(array, b->shares, b->net.n * each);
    return 0;
}
