/* comm: exchange of device memory between the ranks of a world (base/world.h). Where ops run on host memory the world's transport
 * takes it as it is; on other devices it passes through pinned host memory. The thread of the stream. */
#ifndef BRR_KERNELS_COMM_H
#define BRR_KERNELS_COMM_H
#include "base/world.h"
#include "kernels/device.h"

struct comm;
/* For exchanges of at most most_bytes in each direction. The world must outlive it. */
int comm_open(struct device *dev, struct world *world, size_t most_bytes, struct comm **ret, struct err *err);
void comm_close(struct comm *c); /* takes NULL */
/* parts: device memory. Ordered with the stream's work: what was queued before is sent, and what is queued afterwards finds the
 * peer's data. Errors as world_exchange. */
int comm_exchange(struct comm *c, struct stream *s, int peer, const struct world_parts *parts, int limit_ms, struct err *err);
/* The same as world_gather, of device memory. */
int comm_gather(struct comm *c, struct stream *s, void *all, size_t bytes, int limit_ms, struct err *err);

#endif
