/* burst: a network of spiking neurons that ticks, on any device of kernels/device.h, with the same bits on all of them. Owns the
 * connectome and the state; works on a stream whose owner it shares: one thread at a time. kernels/spike.h has the rule of a tick.
 *
 * Ticks count from 1. Injections are staged for a tick to come. Changes of weights, parameters and areas, and deletions, act from
 * the next tick on. A network keeps the fraction bits it was built with while every neuron's inputs fit; a change that breaks this
 * lowers them. The divisor k of a source counts the synapses it was built with, those deleted later too. */
#pragma once
#include "base/world.h"
#include "burst/burst_data.h"
#include "burst/connectome.h"
#include "kernels/device.h"

enum { BURST_MOST_PENDING = 16 << 20 }; /* default of max_pending */
struct burst_options {
    bool every_tick;     /* leak and refractory advance in every tick: each neuron is a candidate, with input or without */
    int64_t max_pending; /* injections that may wait; 0 = BURST_MOST_PENDING */
    struct world *world; /* the ranks that share the network, each with its shard of it (connectome_shard), or NULL; see below */
    int parts;           /* CPU: ranges of targets that threads take; 0 = as fits the device. Changes no result */
};

/* Ranks that share a network call burst_new, the steps, burst_membranes, burst_save and burst_restore together, with the same
 * injections, ticks and states; all have the frames, membranes and states of the whole. They make no changes, and burst_step alone
 * runs ticks. After an error the ranks no longer agree. */
struct burst;
/* Takes *c over, also when it fails. options NULL = defaults. EXHAUSTED names the bytes. */
int burst_new(struct stream *s, struct connectome *c, const struct burst_options *options, struct burst **ret, struct err *err);
void burst_free(struct burst *b); /* NULL is fine */

const struct connectome *burst_connectome(const struct burst *b); /* its parameters; the state is on the device */
/* How the ranks exchange who fired: "peer access", where GPUs read it in one another's memory; "host memory", of GPUs with what
 * keeps them from the former: "host memory: cuda:1 cannot access the memory of cuda:0". "" of a network on one device. */
const char *burst_way(const struct burst *b);
uint64_t burst_tick(const struct burst *b);   /* the newest that has run; 0 before the first */
bool burst_every_tick(const struct burst *b); /* of its options, or of a state that it took */
/* Host and device memory of network and state, and what the ticks of the injections that wait may yet take; burst_bytes_with: once
 * n more injections wait. */
int64_t burst_bytes(const struct burst *b);
int64_t burst_bytes_with(const struct burst *b, int64_t n);

/* All or none of them. INVALID: a neuron that is not there, a potential that is not finite or 2^40 and more in size; RANGE: a tick
 * that has run; EXHAUSTED: too many wait. Index i of the list is named. */
int burst_inject(struct burst *b, const struct burst_injection *list, int64_t n, struct err *err);
int64_t burst_pending(const struct burst *b);

typedef void burst_sink(void *ctx, const struct burst_frame *frame);
/* Runs so many ticks; sink (NULL: nobody) is called once for each, in order. */
int burst_step(struct burst *b, int64_t ticks, burst_sink *sink, void *ctx, struct err *err);
/* The same, but after the first no tick begins once so many seconds have passed (on a device with memory of its own: none beyond
 * the BURST_AHEAD that are queued). burst_tick tells how many ran. */
int burst_step_within(struct burst *b, int64_t ticks, double seconds, burst_sink *sink, void *ctx, struct err *err);
/* The membranes as the newest tick left them; ret has room for all neurons. */
int burst_membranes(struct burst *b, float *ret, struct err *err);

/* ---- changes: each is checked, and made whole or not at all ---------------------------------------------------- */

#define BURST_FIELDS(X)                                                                                                            \
    X(V, v)                                                                                                                        \
    X(THRESHOLD, threshold)                                                                                                        \
    X(THRESHOLD_LIMIT, threshold_limit) /* 0 or below: none */                                                                     \
    X(LEAK, leak)                                                                                                                  \
    X(EXCITABILITY, excitability)                                                                                                  \
    X(REFRACTORY, refractory) /* 0 also ends a countdown */                                                                        \
    X(FIRE_LIMIT, fire_limit) /* 0 or 65535: unlimited */                                                                          \
    X(SNOOZE, snooze)                                                                                                              \
    X(ACCUMULATE, accumulate)
enum burst_field {
#define BURST_FIELD_ENUM(name, text) BURST_##name,
    BURST_FIELDS(BURST_FIELD_ENUM)
#undef BURST_FIELD_ENUM
        BURST_FIELD_COUNT
};
/* By the name of the file format; INVALID lists the names. */
int burst_field_of(const char *name, enum burst_field *ret, struct err *err);
int burst_set_neuron(struct burst *b, uint32_t id, enum burst_field field, double value, struct err *err);
/* The neuron no longer receives, holds or fires anything, and its spike of the newest tick is not delivered. */
int burst_delete_neuron(struct burst *b, uint32_t id, struct err *err);

/* New values for all synapses from source to target: weight and psp 0..255, type 0 or 1; -1 keeps the present value.
 * burst_set_synapse: INVALID for other values, NOT_FOUND if there is no such synapse. */
struct burst_synapse {
    uint32_t source, target;
    int weight, psp, type;
};
int burst_set_synapse(struct burst *b, const struct burst_synapse *y, struct err *err);
int burst_delete_synapse(struct burst *b, uint32_t source, uint32_t target, struct err *err);
/* psp_divide, mp_driven_psp and power of *area; its name does not count. */
int burst_set_area(struct burst *b, int index, const struct connectome_area *area, struct err *err);

/* ---- state ----------------------------------------------------------------------------------------------------- */

int burst_save(struct burst *b, struct burst_state *ret, struct err *err);
/* Into a network of the same arrays; it goes on exactly as the one that was saved, but that options.every_tick stays. Checked as a
 * stranger's file: INVALID names the array and the index, and nothing has changed. */
int burst_restore(struct burst *b, const struct burst_state *state, struct err *err);
