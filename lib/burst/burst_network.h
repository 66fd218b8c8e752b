/* burst_network: the network of a burst job and what goes into it: loaded or generated, and driven by the injections that the job
 * names. One owner. */
#pragma once
#include "burst/burst.h"
#include "burst/burst_kind.h"
#include "store/digest.h"
#include "work/task.h"

/* Network and input of a burst job. The struct owns both until burst_network_start takes them. */
struct burst_network {
    struct connectome *net;
    struct burst_state state; /* of a snapshot; neurons 0: none */
    struct burst_injection *injections;
    int64_t n_injections;
    struct burst_injection *encoded; /* of input.recording, ticks from 1 */
    int64_t n_encoded;
    int channels;                   /* of the recording */
    struct world *world;            /* of env: `net` is this rank's shard; NULL: none */
    char identity[DIGEST_HEX_SIZE]; /* of network, input and options: the same for a job that goes on */
};
/* Loads everything; of env: the memory limit, and the window cache, without whose cache_dir the recording is left out. Blocks.
 * Errors of files name file, array and index. */
int burst_network_load(const struct burst_config *config, const struct task_env *env, struct burst_network *ret, struct err *err);
void burst_network_done(struct burst_network *n); /* also of a zeroed struct */
/* The engine on a stream, at the tick of the snapshot or 0, with the injections of the table waiting; takes the network. */
int burst_network_start(struct burst_network *n, const struct burst_config *config, struct stream *s, struct burst **ret,
                        struct err *err);
/* Random injections of the next n ticks, except of those up to *driven, which have theirs; then *driven is the last of them. Begins
 * with 0, and belongs to the state of the network: which injections wait depends on it. */
int burst_network_drive(const struct burst_config *config, struct burst *b, int64_t n, uint64_t *driven, struct err *err);
/* The largest number of ticks that burst_network_drive takes at once. */
int64_t burst_network_drive_most(const struct burst_config *config, const struct burst *b);
