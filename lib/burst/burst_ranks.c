/* A network that ranks share: each has the synapses that end in its range of neurons and advances these; after a tick they exchange
 * who fired, in the order of the ranges, so that the next tick begins from the same list everywhere. Sums are integers and each
 * neuron is advanced by one rank, so the number of ranks changes no bit.
 *
 * GPUs of one process read one another's lists (kernels/peers.h): each lists its own neurons in a buffer that the others reach, and
 * merges the buffers of all once these are written. So several ticks are queued at once, as on one device. Elsewhere the lists pass
 * through host memory after each tick. */

#include "burst/burst_parts.h"

enum { RANKS_LIMIT_MS = 60000, COUNTS_BYTES = 64 /* before ids in a buffer */ };

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

const char *burst_way(const struct burst *b) { return b->way; }

/* The list in a buffer of a rank: counts, ids, psp. */
static struct spike_fired list_in(const struct burst *b, char *buffer) {
    uint32_t *ids = (uint32_t *)(buffer + COUNTS_BYTES);
    return (struct spike_fired){ids, (uint8_t *)(ids + b->c->own.each), (struct spike_counts *)buffer};
}

int burst_ranks_open(struct burst *b, struct err *err) {
    const size_t bytes = COUNTS_BYTES + (size_t)b->c->own.each * (sizeof(uint32_t) + 1);
    const struct peers_config config = {b->options.world, bytes, RANKS_LIMIT_MS};
    char why[PEERS_WHY];
    if (!burst_is_shared(b))
        return 0;
    int rc = peers_open(b->stream, &config, &b->peers, why, err);
    if (rc)
        return rc;
    b->peers_bytes = b->peers ? bytes : 0;
    str_format(b->way, sizeof b->way, b->peers ? "peer access" : "host memory%s%s", why[0] ? ": " : "", why);
    return 0;
}

static int merge_lists(struct burst *b, struct spike_merge_args *a, const struct spike_fired *to, struct err *err) {
    a->after = *to;
    COPY_MEMBERS(*a, b->net, n, flags, psp);
    return op_spike_merge(b->stream, a, err);
}

int burst_ranks_tick(struct burst *b, struct spike_tick_args *a, struct err *err) {
    const struct spike_fired after = a->after;
    struct spike_merge_args merge = {.n_parts = b->peers ? b->options.world->size : 0};
    int rc;
    if (!b->peers)
        return op_spike_tick(b->stream, a, err);
    a->after = list_in(b, peers_begin(b->peers));
    if ((rc = op_spike_tick(b->stream, a, err)) || (rc = peers_meet(b->peers, err)))
        return rc;
    for (int r = 0; r < merge.n_parts; r++)
        merge.parts[r] = list_in(b, peers_buffer(b->peers, r));
    return merge_lists(b, &merge, &after, err);
}

int burst_ranks_settle(struct burst *b, int rc) {
    if (b->peers && rc)
        peers_leave(b->peers);
    else if (b->peers)
        peers_settle(b->peers);
    return rc;
}

/* ---- through host memory --------------------------------------------------------------------------------------- */

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

/* The lists of all ranks one behind the other, in place of the tick's own, and merged there as one part. */
static int put_lists(struct burst *b, int list, const struct tick_share *all, size_t most, struct err *err) {
    const struct world *w = b->options.world;
    struct spike_counts *counts = &b->seen[list];
    const struct spike_fired *to = &b->lists[list];
    struct spike_merge_args a = {.parts = {{to->ids, to->psp, b->counts + b->n_lists}}, .n_parts = 1};
    OWNED_MEMORY uint8_t *psp = malloc((size_t)counts->fired + 1);
    const size_t each = most * (sizeof *b->ids + 1);
    if (!psp)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %u fired neurons", counts->fired);
    for (size_t r = 0, at = 0; r < (size_t)w->size; at += all[r++].fired) {
        const char *share = b->shares + r * each;
        if (all[r].fired) {
            memcpy(b->ids + at, share, all[r].fired * sizeof *b->ids);
            memcpy(psp + at, share + most * sizeof *b->ids, all[r].fired);
        }
    }
    int rc;
    if ((rc = stream_to_device(b->stream, to->ids, b->ids, counts->fired * sizeof *b->ids, err)) ||
        (rc = stream_to_device(b->stream, to->psp, psp, counts->fired, err)) ||
        (rc = stream_to_device(b->stream, a.parts[0].counts, counts, sizeof *counts, err)) || (rc = merge_lists(b, &a, to, err)))
        return rc;
    return stream_sync(b->stream, err);
}

int burst_ranks_exchange(struct burst *b, int list, struct err *err) {
    struct world *w = b->options.world;
    struct spike_counts *counts = &b->seen[list];
    struct tick_share all[WORLD_MAX];
    uint32_t most = 0;
    if (!burst_is_shared(b) || b->peers)
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
    return put_lists(b, list, all, most, err);
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
