/* ledger: who fired in the newest ticks of a network. Dense in time: it holds each of its ticks, also one without a spike; the
 * oldest ticks leave when there are too many ticks or spikes. One owner, one thread. */
#pragma once
#include "burst/burst_data.h"

struct ledger {
    int64_t most_ticks, most_spikes;
    uint64_t newest; /* the newest tick that is held */
    int64_t ticks;   /* that are held */
    uint32_t *fired; /* (most_ticks) spikes of tick t at t % most_ticks */
    uint32_t *ids;   /* of all ticks, from `first` on, `n` in all */
    int64_t first, n, room;
};

/* A ledger of no ticks yet; most_ticks 0: it holds none. The newest tick is held even if it alone has more spikes than most_spikes.
 */
int ledger_init(struct ledger *ret, int64_t most_ticks, int64_t most_spikes, struct err *err);
/* Host memory that it takes at most. */
int64_t ledger_bytes(int64_t most_ticks, int64_t most_spikes);
void ledger_done(struct ledger *l); /* also of a zeroed struct */
/* The tick after the newest; another one begins anew. */
int ledger_add(struct ledger *l, const struct burst_frame *frame, struct err *err);
typedef void ledger_sink(void *ctx, const struct burst_frame *frame);
/* The newest `most` of its ticks, in order; candidates and events of the frames are 0. */
void ledger_each(const struct ledger *l, int64_t most, ledger_sink *sink, void *ctx);

/* As a part of a state, and back: INVALID names the array and the index. A state without one leaves the ledger empty. */
int ledger_save(const struct ledger *l, struct burst_state *state, struct err *err);
int ledger_restore(struct ledger *l, const struct burst_state *state, struct err *err);
