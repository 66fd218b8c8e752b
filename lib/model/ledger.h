/* ledger: which neurons of an area fired in the newest ticks. A ring of frames for each tracked area, dense in time: a tick without
 * a spike has an empty frame, and so has a tick that was left out. Fed from a sink of model/burst.h. One owner, one thread. */
#ifndef BRR_MODEL_LEDGER_H
#define BRR_MODEL_LEDGER_H
#include <stdint.h>

#include "base/err.h"

enum { LEDGER_MOST_FRAMES = 1 << 16 };

struct ledger;
/* area_of (n): the area of each neuron; must stay. window: frames that an area keeps, 1 to LEDGER_MOST_FRAMES. */
int ledger_new(const uint32_t *area_of, int64_t n, int n_areas, int window, struct ledger **ret, struct err *err);
void ledger_free(struct ledger *l); /* NULL is fine */
/* From now on the area is kept; the ticks before are empty frames. Tracking it again changes nothing. */
int ledger_track(struct ledger *l, int area, struct err *err);
/* The neurons that fired in a tick, ascending. Ticks come in order: INVALID for one that is not later than the last. When memory is
 * short (EXHAUSTED), the tick has not been added. */
int ledger_add(struct ledger *l, uint64_t tick, const uint32_t *ids, int64_t n, struct err *err);
uint64_t ledger_tick(const struct ledger *l); /* the newest; 0 before the first */

struct ledger_frame {
    uint64_t tick;
    const uint32_t *ids; /* ascending; valid until the next ledger_add */
    int64_t n;
};
/* Exactly the `depth` frames that end with tick `last`, oldest first. NOT_FOUND: the area is not tracked; RANGE: a tick to come,
 * more frames than the window, or ticks that are no longer or were never there. */
int ledger_get(const struct ledger *l, int area, uint64_t last, int depth, struct ledger_frame *ret, struct err *err);

#endif
