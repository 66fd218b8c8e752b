/* reduction: the gradient of a batch as a binary tree over its leaves, the micro-batches, so that its bits do not depend on the
 * number of ranks that share them: ((0 + 1) + (2 + 3)) + … A rank adds its leaves like a binary counter; then the ranks exchange
 * halves of the sum with the nearest neighbour first, and double them again. Batch norm's statistics of the leaves are kept in a
 * table, gathered, and applied in the order of leaves. One owner, the thread of the stream. */
#pragma once
#include "base/world.h"
#include "nn/param.h"

struct reduction_config {
    struct param_set *params; /* for training */
    struct world *world;      /* both must outlive the reduction */
    int leaves;               /* of the whole batch, a power of two; the ranks' number divides it */
    int limit_ms;             /* of an exchange: the ranks begin it together */
    int meet_ms;              /* of reduction_new, where they meet */
};

struct reduction;
int reduction_new(struct device *dev, const struct reduction_config *config, struct reduction **ret, struct err *err);
void reduction_free(struct reduction *r); /* takes NULL */
/* How the ranks' sums travel (comm_way); NULL with one rank. */
const char *reduction_way(const struct reduction *r);

/* Where the pass over a leaf writes its statistics (struct pass); NULL for a network without any. */
float *reduction_leaf_statistics(const struct reduction *r);
/* After the backward pass of the rank's leaf, 0 to leaves/ranks − 1 in order, whose gradient began at zero: adds it to those
 * before. The gradients' memory may be zeroed afterwards; after the rank's last leaf it holds their sum. */
int reduction_add(struct reduction *r, struct stream *s, int leaf, struct err *err);
/* After the last leaf: the gradients' memory holds the sum over all ranks, the table the statistics of all leaves. */
int reduction_exchange(struct reduction *r, struct stream *s, struct err *err);
/* Moves the running statistics; can be recorded. */
int reduction_apply_statistics(struct reduction *r, struct stream *s, struct err *err);
