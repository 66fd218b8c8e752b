/* burst: what the files of `brrctl burst` share. One function per verb; each gets the words after `burst`, the verb among them, and
 * returns an exit code. */
#pragma once
#include "client/brr.h"
#include "client/brrctl/arguments.h"

/* Values of the options of all verbs; each verb's table (burst.c) lists the options that it accepts. */
struct burst_options {
    int64_t neurons;
    int64_t synapses;
    int64_t layers;
    int64_t seed;
    double inhibitory, scale;
    const char *weights, *delays;
    int64_t psp;
    double threshold;
    double leak;
    double excitability;
    int64_t refractory;
    double power;
    int64_t ticks;
    const char *inject;
    const char *fired;
    const char *membranes;
    int64_t membranes_every;
    const char *plot;
    const char *keep;
    bool every_tick;
    const char *budget, *device;
    const char *name;
    int64_t frames;
    const char *output;
};
static inline const struct burst_options *burst_options_of(const struct arguments *o) { return o->own; }

/* burst_files.c: network files, without a daemon. */
int burst_generate(const struct arguments *o);
int burst_info(const struct arguments *o);

/* burst_plot.c: spikes that were written before. */
int burst_plot(const struct arguments *o);

/* burst_run.c: ticks and their spikes. */
int burst_run(const struct arguments *o);
int burst_step(const struct arguments *o);

/* burst_calls.c: networks in the daemon. */
int burst_create(const struct arguments *o);
int burst_list(const struct arguments *o);
int burst_inject(const struct arguments *o);
int burst_observe(const struct arguments *o);
int burst_ledger(const struct arguments *o);
int burst_snapshot(const struct arguments *o);
int burst_restore(const struct arguments *o);
int burst_destroy(const struct arguments *o);

/* Creates a network of the file with the options of the command line; false after printing the error, with the exit code. */
bool burst_open(const struct arguments *o, brr_client *client, const char *path, const char *name, struct brr_network *ret,
                int *ret_exit);
/* A table of injections that has been read and checked. */
struct burst_injection;
struct burst_table {
    const char *path;
    struct burst_injection *list;
    int64_t n;
};
/* Sends the table to the network; an injection for a neuron that it does not have is an error before anything is sent. */
int burst_send_injections(brr_client *client, const struct brr_network *network, const struct burst_table *table,
                          int64_t *ret_pending, struct brr_error *err);
/* The network of this name, from the daemon's list. */
int burst_find(brr_client *client, const char *name, struct brr_network *ret, struct brr_error *err);
