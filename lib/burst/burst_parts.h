/* burst_parts: the engine's inside, shared by burst.c (ticks), burst_device.c (where its arrays lie), burst_ring.c (sums),
 * burst_change.c and burst_state.c. Internal to lib/burst. */
#pragma once
#include "burst/burst.h"
#include "kernels/op.h"
#include "kernels/peers.h"

enum { BURST_AHEAD = 8 }; /* ticks that are queued before the host waits for a device that runs beside it */

struct burst {
    struct stream *stream;
    struct device *device;
    struct connectome *c;
    struct burst_options options;
    struct spike_net net; /* as the device sees it: the connectome's arrays where the device computes in host memory */
    bool remote;          /* it has memory of its own */
    int threads;
    struct spike_counts *counts; /* device; one of each list, and one that lists are merged from */
    struct spike_fired lists[BURST_AHEAD + 1];
    int n_lists, newest;
    struct spike_counts *seen; /* host copies of the counts, BURST_AHEAD + 1 */
    uint32_t *ids;             /* host: the list that a sink reads */
    uint64_t tick;
    bool unsettled; /* bounds or features are to be looked at before the next tick */

    bool areas_changed; /* and have not reached their neurons */

    struct burst_injection *pending; /* from head on; those before `sorted` by tick and neuron, later ones as they came */
    int64_t head, sorted, n_pending, pending_room;
    uint32_t *inject_ids, *device_ids; /* of the ticks that are queued next */
    int64_t *inject_sums, *device_sums;
    int64_t inject_room;
    struct burst_injection *power; /* (areas) sorted by neuron */
    int n_power;

    char *shares; /* of the ranks in an exchange */
    size_t shares_room;
    struct peers *peers; /* GPUs that read one another's lists; NULL: the ranks exchange them through host memory */
    size_t peers_bytes;  /* of a buffer */
    char way[32 + PEERS_WHY];
};

/* burst_device.c. Arrays of the device: made, freed, and brought up to date after the connectome has changed. */
int burst_device_open(struct burst *b, struct err *err);
void burst_device_close(struct burst *b);
int burst_device_row(struct burst *b, uint32_t source, struct err *err);             /* one row has changed */
int burst_device_rows(struct burst *b, struct err *err);                             /* all have, and their form maybe */
int burst_device_neuron(struct burst *b, void *array, uint32_t id, struct err *err); /* one element of a connectome's array */
int burst_device_array(struct burst *b, void *array, struct err *err);               /* all of it */
int burst_device_fetch(struct burst *b, void *array, struct err *err);               /* the other way */
int burst_device_fired(struct burst *b, const uint32_t *ids, uint32_t n, struct err *err);
int burst_device_fired_get(struct burst *b, uint32_t *ret_ids, uint32_t *ret_n, struct err *err);
int burst_device_stale(struct burst *b, struct err *err); /* every block may hold membranes to clear */
static inline int64_t burst_padded(const struct burst *b) {
    return ((int64_t)b->c->net.n + SPIKE_BLOCK - 1) / SPIKE_BLOCK * SPIKE_BLOCK;
}
/* Bytes of a neuron's sum (kernels/spike.h). */
static inline size_t burst_sum_bytes(bool remote, bool wide_sums) { return remote || wide_sums ? 8 : 4; }

/* burst_drive.c. What areas give to all their neurons, in the units that the network has now. */
int burst_device_drive(struct burst *b, struct err *err);

/* burst_ring.c. Memory for the sums, in the form that the connectome has now; what is under way stays. */
int burst_device_sums(struct burst *b, struct err *err);
/* What arrives in the next delays − 1 ticks, of all neurons for one tick after the other, SPIKE_NO_INPUT_64 where nothing does. */
static inline size_t burst_ring_size(const struct burst *b) { return (size_t)(b->net.delays - 1) * b->net.n; }
int burst_ring_get(struct burst *b, int64_t *ret, struct err *err);
int burst_ring_put(struct burst *b, const int64_t *sums, struct err *err); /* NULL: nothing */

/* burst_ranks.c. Ranks that share the network: the fraction bits that fit all shards, and the way lists travel; the list of a tick
 * becomes that of all of them; a host array of all neurons becomes what the owners have. Nothing happens where there is one rank.
 */
int burst_ranks_agree(struct burst *b, struct err *err);
int burst_ranks_open(struct burst *b, struct err *err);
/* Queues the tick, and where GPUs read one another's lists its exchange. */
int burst_ranks_tick(struct burst *b, struct spike_tick_args *a, struct err *err);
/* Elsewhere, once the tick has run. */
int burst_ranks_exchange(struct burst *b, int list, struct err *err);
/* The ticks of a step have run, or failed with rc, which is returned. */
int burst_ranks_settle(struct burst *b, int rc);
int burst_ranks_gather(struct burst *b, void *array, size_t each, struct err *err);
static inline bool burst_is_shared(const struct burst *b) { return b->options.world && b->options.world->size > 1; }

/* burst.c */
int burst_settle(struct burst *b, struct err *err);
void burst_list_power(struct burst *b);
/* array: what messages call the list, "state.pending"; NULL: its elements are injections 0, 1, … */
int burst_check_injections(const struct burst *b, uint64_t tick, const char *array, const struct burst_injection *list, int64_t n,
                           struct err *err);
