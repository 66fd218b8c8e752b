/* peers: ranks of one process whose GPUs read one another's memory, so that work which exchanges a little, again and again, is
 * queued far ahead and never waits for the host. Each rank owns two buffers on its device and fills them in turn, one in a round.
 * The thread of the stream; all ranks run the same rounds.
 *
 * Order comes from events, which the driver sees. Flags in device memory, and NCCL, whose kernels wait as well, would hang where
 * two ranks share a GPU: a kernel or a queue that waits may keep the one it waits for from running. Here nothing that is queued
 * ever waits for anything that is not: a rank queues its wait once it has seen on the host that the other rank has recorded the
 * event. Readers fetch, rather than writers deliver: that is one kernel less in a round, and no rank can harm another one's memory.
 *
 * Two buffers are enough. What a rank queues in round k runs after every rank has come to round k − 1, and each of them came there
 * after it had read the buffers of round k − 2. */
#pragma once
#include "base/world.h"
#include "kernels/device.h"

enum { PEERS_MOST = 16, PEERS_WHY = 128 };
struct peers;
struct peers_config {
    struct world *world; /* must outlive the peers */
    size_t bytes;        /* of a buffer */
    int limit_ms;        /* for the ranks to come to a meeting */
};
/* All ranks call it; each reads a pattern from the memory of the others. *ret NULL: they exchange through host memory; why says
 * what keeps GPUs from the other way, the same on all ranks, and is "" where the devices compute in host memory. */
int peers_open(struct stream *s, const struct peers_config *config, struct peers **ret, char why[PEERS_WHY], struct err *err);
/* Begins a round, and returns the rank's own buffer, which is written by what is queued until peers_meet. */
void *peers_begin(struct peers *p);
/* Work that is queued after it finds the buffers of all ranks written. UNAVAILABLE: another rank has failed, or did not come. */
int peers_meet(struct peers *p, struct err *err);
void *peers_buffer(const struct peers *p, int rank); /* in this round; on the device of that rank */
/* After stream_sync: this rank reads no buffer of another one any more. */
void peers_settle(struct peers *p);
/* This rank has failed: the others hear of it at their next meeting. Waits for the stream. */
void peers_leave(struct peers *p);
/* Takes NULL. Waits until the others have settled or left, at most limit_ms; then their GPUs may still read the buffers, which
 * stay. */
void peers_close(struct peers *p);
