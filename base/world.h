/* world: the ranks that work on one job together, and how they exchange data: processes joined by MPI (base/world_mpi.h), or
 * threads of one process. One exchange of two ranks is all that a transport implements; the other operations are built from it, so
 * that they end alike on every transport. A world of one rank needs no transport, and its operations do nothing.
 *
 * All ranks call the same operations in the same order. Once a call has failed the ranks no
 * longer agree: nothing else can be exchanged, and the process ends. One thread per rank. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { WORLD_MAX = 1024 };

/* What goes to the peer, and where its data come; bytes 0 = nothing in that direction. */
struct world_parts {
    const void *out;
    size_t out_bytes;
    void *in;
    size_t in_bytes;
};

struct world_transport {
    /* Both ranks call it with matching sizes. UNAVAILABLE: the peer has failed, or did not come within limit_ms. */
    int (*exchange)(void *ctx, int peer, const struct world_parts *parts, int limit_ms, struct err *err);
    int (*common)(void *ctx, size_t bytes, void **ret, struct err *err); /* world_common; NULL: ranks are processes */
    void (*close)(void *ctx, bool clean);                                /* clean: all ranks have ended their work */
};

struct world {
    int rank, size, local_rank; /* local_rank: among the ranks of this machine */
    const struct world_transport *transport;
    void *ctx;
    bool broken; /* a call has failed */
};

/* The only rank. */
void world_alone(struct world *w);
void world_close(struct world *w, bool clean);

int world_exchange(struct world *w, int peer, const struct world_parts *parts, int limit_ms, struct err *err);
/* `all` has room for one part of `bytes` for each rank, in the order of ranks; the caller's own is there. Afterwards all are. */
int world_gather(struct world *w, void *all, size_t bytes, int limit_ms, struct err *err);
/* Rank 0's data reach all others. */
int world_broadcast(struct world *w, void *data, size_t bytes, int limit_ms, struct err *err);
/* Returns when all ranks have called it. */
int world_barrier(struct world *w, int limit_ms, struct err *err);
/* Zeroed memory that all ranks have in common: all of them call it, the same call of each gets the same address, and each gives it
 * back. *ret NULL: the ranks are processes, which have no memory in common. */
int world_common(struct world *w, size_t bytes, void **ret, struct err *err);
void world_common_free(void *common); /* NULL is fine; also after world_close */

/* Threads of one process: ranks[0..n) are joined, each to be used by one thread. world_close of each; the last frees what they
 * share. */
int world_threads(struct world *ranks, int n, struct err *err);
