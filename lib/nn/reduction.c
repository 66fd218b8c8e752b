#include "nn/reduction.h"

#include "kernels/comm.h"
#include "kernels/op.h"
#include "nn/layers.h"

enum { MAX_LEVELS = 16 };

struct reduction {
    struct reduction_config config;
    struct device *device;
    int per_rank, levels;     /* leaves of a rank, and their binary digits */
    float *spare[MAX_LEVELS]; /* device: sums of 1, 2, 4 … leaves that wait for their neighbour */
    float *half;              /* device: what the peer sends; NULL with one rank */
    float *leaf, *table;      /* device: statistics of the present leaf (buffer_count), of all (leaves, buffer_count) */
    struct comm *comm;        /* NULL with one rank */
};

/* Elements [lo, hi) of the gradient. */
struct range {
    int64_t lo, hi;
};

static int levels_of(int n) {
    int levels = 0;
    while (1 << levels < n)
        levels++;
    return levels;
}

static int64_t half_count(const struct param_set *set) { return (set->data_count + 1) / 2; }

static int check_config(const struct reduction_config *c, struct err *err) {
    if (c->leaves < 1 || c->leaves & (c->leaves - 1) || c->leaves % c->world->size || levels_of(c->leaves) > MAX_LEVELS)
        return err_set(err, ERR_INVALID, "%d leaves on %d ranks; expected a power of two that the number of ranks divides",
                       c->leaves, c->world->size);
    return 0;
}

static int alloc_floats(struct reduction *r, int64_t n, float **ret, struct err *err) {
    void *data = NULL;
    int rc = n ? device_alloc(r->device, (size_t)n * sizeof(float), &data, err) : 0;
    *ret = data;
    return rc;
}

static int alloc_all(struct reduction *r, struct err *err) {
    const struct param_set *set = r->config.params;
    bool several = r->config.world->size > 1;
    int rc;
    for (int i = 0; i < r->levels; i++)
        if ((rc = alloc_floats(r, set->data_count, &r->spare[i], err)))
            return rc;
    if ((rc = alloc_floats(r, set->buffer_count, &r->leaf, err)) ||
        (rc = alloc_floats(r, r->config.leaves * set->buffer_count, &r->table, err)) ||
        (several && (rc = alloc_floats(r, half_count(set), &r->half, err))))
        return rc;
    size_t half = (size_t)half_count(set), table = (size_t)(r->config.leaves * set->buffer_count);
    const struct comm_config comm = {r->config.world, (half > table ? half : table) * sizeof(float), r->config.meet_ms};
    return several ? comm_open(r->device, &comm, &r->comm, err) : 0;
}

int reduction_new(struct device *dev, const struct reduction_config *config, struct reduction **ret, struct err *err) {
    int rc = check_config(config, err);
    if (rc)
        return rc;
    struct reduction *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the sums of gradients");
    r->config = *config;
    r->device = dev;
    r->per_rank = config->leaves / config->world->size;
    r->levels = levels_of(r->per_rank);
    if ((rc = alloc_all(r, err)))
        reduction_free(r);
    else
        *ret = r;
    return rc;
}

void reduction_free(struct reduction *r) {
    if (!r)
        return;
    comm_close(r->comm);
    for (int i = 0; i < r->levels; i++)
        device_free(r->device, r->spare[i]);
    device_free(r->device, r->half);
    device_free(r->device, r->leaf);
    device_free(r->device, r->table);
    free(r);
}

const char *reduction_way(const struct reduction *r) { return r->comm ? comm_way(r->comm) : NULL; }

float *reduction_leaf_statistics(const struct reduction *r) { return r->leaf; }

/* grad[range] += other[0 …). */
static int add_to_grad(struct reduction *r, struct stream *s, struct range at, float *other, struct err *err) {
    float *grad = r->config.params->grad + at.lo;
    const struct eltwise_args add = {.kind = ELTWISE_ADD,
                                     .a = tensor_1d(other, DTYPE_F32, at.hi - at.lo),
                                     .b = tensor_1d(grad, DTYPE_F32, at.hi - at.lo),
                                     .y = tensor_1d(grad, DTYPE_F32, at.hi - at.lo)};
    return at.hi > at.lo ? op_eltwise(s, &add, err) : 0;
}

int reduction_add(struct reduction *r, struct stream *s, int leaf, struct err *err) {
    const struct param_set *set = r->config.params;
    size_t bytes = (size_t)set->data_count * sizeof(float), statistics = (size_t)set->buffer_count * sizeof(float);
    int64_t row = (int64_t)r->config.world->rank * r->per_rank + leaf;
    int level = 0, rc;
    if (statistics && (rc = stream_copy(s, r->table + row * set->buffer_count, r->leaf, statistics, err)))
        return rc;
    for (; leaf >> level & 1; level++) /* a carry */
        if ((rc = add_to_grad(r, s, (struct range){0, set->data_count}, r->spare[level], err)))
            return rc;
    return leaf + 1 < r->per_rank ? stream_copy(s, r->spare[level], set->grad, bytes, err) : 0;
}

/* Sends one range of the gradient and receives another into `in`. */
static int trade(struct reduction *r, struct stream *s, int peer, struct range out, float *in, int64_t n, struct err *err) {
    const struct world_parts parts = {r->config.params->grad + out.lo, (size_t)(out.hi - out.lo) * sizeof(float), in,
                                      (size_t)n * sizeof(float)};
    return comm_exchange(r->comm, s, peer, &parts, r->config.limit_ms, err);
}

int reduction_exchange(struct reduction *r, struct stream *s, struct err *err) {
    struct world *w = r->config.world;
    const struct param_set *set = r->config.params;
    struct range kept[MAX_LEVELS + 1] = {{0, set->data_count}}, given[MAX_LEVELS];
    int level = 0, rc;
    if (w->size == 1)
        return 0;
    for (; 1 << level < w->size; level++) { /* each keeps one half and adds the peer's share of it */
        struct range all = kept[level];
        int64_t middle = all.lo + (all.hi - all.lo) / 2;
        bool upper = w->rank >> level & 1;
        kept[level + 1] = upper ? (struct range){middle, all.hi} : (struct range){all.lo, middle};
        given[level] = upper ? (struct range){all.lo, middle} : (struct range){middle, all.hi};
        if ((rc = trade(r, s, w->rank ^ 1 << level, given[level], r->half, kept[level + 1].hi - kept[level + 1].lo, err)) ||
            (rc = add_to_grad(r, s, kept[level + 1], r->half, err)))
            return rc;
    }
    while (level-- > 0)
        if ((rc = trade(r, s, w->rank ^ 1 << level, kept[level + 1], set->grad + given[level].lo, given[level].hi - given[level].lo,
                        err)))
            return rc;
    size_t share = (size_t)(r->per_rank * set->buffer_count) * sizeof(float);
    return share ? comm_gather(r->comm, s, r->table, share, r->config.limit_ms, err) : 0;
}

int reduction_apply_statistics(struct reduction *r, struct stream *s, struct err *err) {
    int64_t n = r->config.params->buffer_count;
    const struct running_statistics_args apply = {.running = tensor_1d(r->config.params->buffers, DTYPE_F32, n),
                                                  .leaves = tensor_2d(r->table, DTYPE_F32, r->config.leaves, n),
                                                  .momentum = NN_MOMENTUM};
    return n ? op_running_statistics(s, &apply, err) : 0;
}
