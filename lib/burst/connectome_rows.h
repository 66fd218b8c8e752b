/* connectome_rows: how rows of a connectome are filled. Internal to lib/burst: connectome and wiring. */
#pragma once

#include "burst/connectome.h"

/* Neurons rounded up to whole blocks, the length of every neuron array. */
static inline size_t connectome_padded(int64_t neurons) { return (size_t)(neurons + SPIKE_BLOCK - 1) / SPIKE_BLOCK * SPIKE_BLOCK; }

/* EXHAUSTED: a network or shard of so many synapses takes more than max_bytes; 0: no bound. */
int connectome_check_room(int64_t neurons, int64_t synapses, bool wide, int64_t max_bytes, struct err *err);
/* Memory for neurons with the defaults of the file format, and areas; no rows yet. */
int connectome_alloc(int64_t neurons, struct connectome_shard shard, const struct connectome_area *areas, int n_areas,
                     struct connectome **ret, struct err *err);
static inline bool connectome_owns(const struct connectome *c, uint32_t i) { return i >= c->own.first && i < c->own.end; }
/* Memory for rows, at most max_bytes with the neurons; net.row[i + 1] holds the length of row i. Afterwards net.row is where rows
 * begin and net.live is full. */
int connectome_alloc_rows(struct connectome *c, bool wide, int64_t max_bytes, struct err *err);
static inline void connectome_set(struct connectome *c, int64_t at, struct connectome_synapse y) {
    if (c->net.wide)
        ((struct spike_wide *)c->net.synapses)[at] =
            (struct spike_wide){y.target, (int16_t)y.weight, y.psp, (uint8_t)(y.delay - 1)};
    else
        ((spike_packed *)c->net.synapses)[at] = spike_pack(y.target, y.weight);
}
/* The divisors of a shard, whose rows do not tell how many synapses sources have: `whole` (n) does. Before connectome_finish. */
int connectome_whole_divisors(struct connectome *c, const uint32_t *whole, struct err *err);
/* Once all rows are filled and net.flags, area and base_psp (of packed rows) are set: sorts rows, sums up inputs, scales. */
int connectome_finish(struct connectome *c, struct err *err);
