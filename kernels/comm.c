#include "kernels/comm.h"

#include <stdlib.h>

struct comm {
    struct device *device;
    struct world *world;
    void *out, *in; /* pinned host memory; NULL: device memory is host memory */
};

int comm_open(struct device *dev, struct world *world, size_t most_bytes, struct comm **ret, struct err *err) {
    struct device_info info;
    struct comm *c = calloc(1, sizeof *c);
    int rc;
    if (!c)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the exchange between ranks");
    c->device = dev;
    c->world = world;
    device_describe(dev, &info);
    if (info.is_async &&
        ((rc = device_alloc_host(dev, most_bytes, &c->out, err)) || (rc = device_alloc_host(dev, most_bytes, &c->in, err)))) {
        comm_close(c);
        return rc;
    }
    *ret = c;
    return 0;
}

void comm_close(struct comm *c) {
    if (!c)
        return;
    device_free_host(c->device, c->out);
    device_free_host(c->device, c->in);
    free(c);
}

static int exchange_staged(struct comm *c, struct stream *s, int peer, const struct world_parts *p, int limit_ms, struct err *err) {
    const struct world_parts host = {c->out, p->out_bytes, c->in, p->in_bytes};
    int rc;
    if ((p->out_bytes && (rc = stream_to_host(s, c->out, p->out, p->out_bytes, err))) || (rc = stream_sync(s, err)) ||
        (rc = world_exchange(c->world, peer, &host, limit_ms, err)))
        return rc;
    return p->in_bytes ? stream_to_device(s, p->in, c->in, p->in_bytes, err) : 0;
}

int comm_exchange(struct comm *c, struct stream *s, int peer, const struct world_parts *parts, int limit_ms, struct err *err) {
    if (c->out)
        return exchange_staged(c, s, peer, parts, limit_ms, err);
    return world_exchange(c->world, peer, parts, limit_ms, err);
}

int comm_gather(struct comm *c, struct stream *s, void *all, size_t bytes, int limit_ms, struct err *err) {
    char *at = all;
    int rank = c->world->rank;
    for (int block = 1; block < c->world->size; block *= 2) {
        int mine = rank & ~(block - 1), theirs = mine ^ block;
        const struct world_parts parts = {at + (size_t)mine * bytes, (size_t)block * bytes, at + (size_t)theirs * bytes,
                                          (size_t)block * bytes};
        int rc = comm_exchange(c, s, rank ^ block, &parts, limit_ms, err);
        if (rc)
            return rc;
    }
    return 0;
}
