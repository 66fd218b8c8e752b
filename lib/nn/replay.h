/* replay: a sequence of device work that repeats with the same addresses. The first time it runs op by op (scratch grows,
 * algorithms are chosen), the second time it is recorded, and from then on the recording runs, which costs the host one call
 * instead of hundreds. Devices that cannot record always run op by op: the same ops, so the same bits. Work whose recording fails
 * runs op by op from then on, and replay_warning states why. Values that change between runs must lie in device memory. One owner,
 * one thread. */
#pragma once

#include "base/base.h"
#include "kernels/device.h"

enum { REPLAY_MAX = 8 }; /* number of recordings kept; the one unused for longest is replaced */

/* A recording is valid only if all of these are equal: addresses of input and output, rows, and the part of the work. All other
 * values passed to ops must stay the same as long as the replay exists. */
struct replay_key {
    const void *in, *out;
    int64_t rows;
    int part;
};

struct replay {
    struct replay_entry {
        bool used, never; /* never: its recording failed */
        struct replay_key key;
        uint64_t epoch;      /* of the stream it ran on */
        struct graph *graph; /* NULL: it has run once */
        int64_t turn;        /* when it ran last */
    } entries[REPLAY_MAX];
    int64_t turns;
    struct err refusal; /* why the first recording that failed did; code 0: none has */
    bool warned;
};

/* The work: ops and device copies. It does not run when its recording does, so it must have no other effect. */
struct replay_body {
    int (*run)(void *ctx, struct err *err);
    void *ctx;
};
int replay_run(struct replay *r, struct stream *s, const struct replay_key *key, const struct replay_body *body, struct err *err);
/* Once, after a recording has failed: true, and the reason in *ret. The caller logs it. */
bool replay_warning(struct replay *r, struct err *ret);
/* Drops all recordings; none may be running. */
void replay_done(struct replay *r);
