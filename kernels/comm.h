/* comm: exchange of device memory between the ranks of a world (base/world.h). Where ops run on host memory the world's transport
 * takes it as it is. GPUs exchange by NCCL where every rank has the same version of it and a GPU of its own, else through pinned
 * host memory and the world's transport. The bits are the same. The thread of the stream. */
#pragma once
#include "base/world.h"
#include "kernels/device.h"

struct comm;
struct comm_config {
    struct world *world; /* must outlive the comm */
    size_t most_bytes;   /* of an exchange, in each direction */
    int limit_ms;        /* for the ranks to meet here */
};
/* All ranks call it. */
int comm_open(struct device *dev, const struct comm_config *config, struct comm **ret, struct err *err);
/* How the data travel, for people: "NCCL 2.28.3", "host memory". */
const char *comm_way(const struct comm *c);
void comm_close(struct comm *c); /* takes NULL */
/* parts: device memory. Ordered with the stream's work: what was queued before is sent, and what is queued afterwards finds the
 * peer's data. Errors as world_exchange. */
int comm_exchange(struct comm *c, struct stream *s, int peer, const struct world_parts *parts, int limit_ms, struct err *err);
/* The same as world_gather, of device memory. */
int comm_gather(struct comm *c, struct stream *s, void *all, size_t bytes, int limit_ms, struct err *err);
