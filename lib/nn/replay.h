/* replay: a sequence of device work that comes again and again with the same addresses. The first time it runs op by op (scratch
 * grows, algorithms are chosen), the second time it is recorded, from then on the recording runs, which costs the host one call
 * instead of hundreds. Devices that cannot record run op by op always: the same ops either way, so the same bits. What differs from
 * time to time must lie in device memory. One owner, one thread. */
#ifndef BRR_NN_REPLAY_H
#define BRR_NN_REPLAY_H
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/device.h"

enum { REPLAY_MAX = 8 }; /* recordings kept; the one that ran longest ago makes room */

/* What must be equal for a recording to be right: addresses of input and output, rows, and which part of the work it is. All else
 * that the ops take by value must stay the same for as long as the replay lives. */
struct replay_key {
    const void *in, *out;
    int64_t rows;
    int part;
};

struct replay {
    struct replay_entry {
        bool used;
        struct replay_key key;
        uint64_t epoch;      /* of the stream it ran on, after it ran */
        struct graph *graph; /* NULL: it has run once */
        int64_t turn;        /* when it ran last */
    } entries[REPLAY_MAX];
    int64_t turns;
};

/* The work: ops and device copies. It does not run when a recording of it does: it must leave nothing else behind. */
struct replay_body {
    int (*run)(void *ctx, struct err *err);
    void *ctx;
};
int replay_run(struct replay *r, struct stream *s, const struct replay_key *key, const struct replay_body *body, struct err *err);
/* Drops all recordings; nothing of them may be running. */
void replay_done(struct replay *r);

#endif
