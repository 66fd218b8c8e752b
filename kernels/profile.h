/* profile: how long the ops of a stream take, op by op, by events of the device where it queues its work and by the clock
 * elsewhere. A stream with a profile records nothing (stream_record), so that each op is there to be timed; its results have the
 * same bits. One thread at a time. */
#pragma once
#include "base/err.h"
#include "base/str.h"
#include "kernels/rates.h"

struct profile;
struct stream;
struct profile *profile_new(void);    /* NULL when out of memory */
void profile_free(struct profile *p); /* before its streams' device is closed; NULL is allowed */
/* From now on ops of the stream are timed; NULL: no longer. Before anything is recorded on the stream. */
void stream_profile(struct stream *s, struct profile *p);
void profile_reset(struct profile *p); /* forgets what was timed so far */

/* Calls of an op in a phase (stream_phase) whose first two operands have these shapes. */
struct profile_row {
    const char *op, *phase; /* phase: "" outside of any */
    char shapes[64];
    enum dtype dtype; /* of its activations */
    int64_t calls;
    double seconds;
    struct rates_work work; /* of all calls: bytes of all operands, once each; operations of products and scans */
};
/* The rows, those that took longest first; waits for what is queued. Returns how many there are, at most `most`. */
int profile_rows(struct profile *p, struct profile_row *rows, int most, struct err *err);
/* The same as lines of text: calls, milliseconds, share, bytes per second, floor, factor. */
int profile_table(struct profile *p, const struct rates *rates, struct str *out, struct err *err);

/* ---- for op.c ---- */

struct profile_call {
    const char *op;
    const struct tensor *shown[2]; /* NULL: none */
    enum dtype dtype;
    struct rates_work work;
};
/* Around the call of a backend. */
void profile_begin(struct profile *p, struct stream *s);
void profile_end(struct profile *p, struct stream *s, const struct profile_call *call);
