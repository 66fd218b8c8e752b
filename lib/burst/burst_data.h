/* burst_data: what goes into a network of spiking neurons and what comes out of it: injections, frames of fired neurons, states.
 * Plain data for programs that read and write files of networks without running one; the engine is burst/burst.h. Any thread. */
#pragma once
#include "base/base.h"

/* Potential for a neuron in a tick; several for one neuron and tick add up. */
struct burst_injection {
    uint64_t tick;
    uint32_t id;
    float potential;
};
#define BURST_MOST_TICK (UINT64_MAX / 4) /* that a state may have: later ticks stay signed 64-bit numbers */

/* One tick. */
struct burst_frame {
    uint64_t tick;
    const uint32_t *ids; /* of the neurons that fired, ascending; valid during the call */
    int64_t fired, candidates;
    uint64_t events; /* synapses that delivered: those of the neurons that fired in the tick before */
};

/* All that changes as a network ticks, and the deletions so far: with the network it makes a snapshot. Host memory, owned by the
 * struct. */
struct burst_state {
    uint64_t tick;
    int fraction_bits;
    bool every_tick; /* burst_options */
    uint32_t neurons, fired;
    float *v, *current; /* current: NULL where no neuron has exponential synapses */
    uint16_t *countdown, *fire_count;
    uint8_t *psp, *alive; /* psp counts for sources that are mp_driven_psp */
    uint32_t *divisor;    /* NULL where no source divides and none has lost a synapse */
    uint32_t *fired_ids;
    struct burst_injection *pending;
    int64_t n_pending;
    int64_t *arriving; /* (n_arriving) delays − 1 times neurons: what is on its way, tick by tick, in units of 2^-f; INT64_MIN:
                          nothing */
    int64_t n_arriving;
    uint32_t *ledger_fired,
        *ledger_ids; /* of a ledger (burst/ledger.h): spikes of each of its ticks, and all of them; NULL: none */
    int64_t n_ledger_ticks, n_ledger_ids;
};
void burst_state_done(struct burst_state *state);
