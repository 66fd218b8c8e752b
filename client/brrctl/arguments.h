/* arguments: the command line after the command. One table of all options; each command names the options it takes. */
#ifndef BRR_CLIENT_BRRCTL_ARGUMENTS_H
#define BRR_CLIENT_BRRCTL_ARGUMENTS_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { ARGUMENTS_MAX_SET = 64, ARGUMENTS_MAX_OPTIONS = 96 };

struct arguments {
    const char **args; /* the plain words after the command; n_args of them */
    int n_args;
    const char *set[ARGUMENTS_MAX_SET];
    int n_set;
    bool json, watch, follow, alarms, once, events;
    const char *name, *id_file, *endpoint;
    const char *tls_ca, *token_file, *tls_cert, *tls_key;
    const char *role, *until;
    const char *csv, *model, *output, *probabilities, *plot, *suppression;
    const char *config, *region, *credentials; /* S3 endpoint of a store */
    bool no_resume;
    bool path_style, anonymous, requester_pays;
    const char *montage, *labels, *unlabeled, *reference;
    double on, off, target_fa;                                                       /* NaN: not given */
    double at, realtime, alarm_hop_s, interval_s, notch_hz, window_s, hop_s, idle_s; /* NaN: not given */
    int64_t chunk_samples, tail, parallel, first, count, stall_s;                    /* -1: not given */
    const char *inject, *fired, *keep, *weights, *budget;                            /* networks */
    bool every_tick;
    double inhibitory, threshold, leak, excitability, power;                 /* NaN: not given */
    int64_t neurons, synapses, layers, seed, psp, refractory, ticks, frames; /* -1: not given */
    bool given[ARGUMENTS_MAX_OPTIONS];                                       /* by row of the table of options */
};

/* Reads argv[2..]; takes: the options that the command accepts ("--set --watch"), besides --json and --endpoint; NULL: none at all.
 * False with a message on stderr. arguments_done frees. */
bool arguments_parse(int argc, char **argv, const char *takes, struct arguments *ret);
void arguments_done(struct arguments *a);
/* Returns the name of an option that was given but is neither in `takes` nor common to all commands, or NULL. */
const char *arguments_beyond(const struct arguments *a, const char *takes);
/* True if the word is an option that takes the next word as its value. */
bool arguments_takes_value(const char *word);
/* Calls visit for each option of `takes` and for the common options; value is "" for a flag. */
typedef void arguments_visit_fn(void *ctx, const char *name, const char *value, const char *help);
void arguments_each(const char *takes, arguments_visit_fn *visit, void *ctx);
/* The same for the options with a fixed choice of values, of all commands; value is "read|stream|…". */
void arguments_choices(arguments_visit_fn *visit, void *ctx);
/* Returns the name among n that is nearest to `word`, or NULL when none is near; stride: bytes between the name pointers. */
const char *arguments_nearest(const char *word, const void *names, int n, unsigned long stride);

#endif
