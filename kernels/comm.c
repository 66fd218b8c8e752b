#include "kernels/comm.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "kernels/backend.h"

struct comm {
    struct device *device;
    struct world *world;
    void *library;  /* the backend's own exchange; NULL: none */
    void *out, *in; /* pinned host memory; NULL: device memory is host memory, or library */
    char way[sizeof((struct comm_offer *)0)->name];
};

/* All ranks have the same version of the library, and no two of them the same GPU. */
static bool may_use_library(const struct comm_offer *offers, int n) {
    for (int i = 0; i < n; i++) {
        if (!offers[i].version || offers[i].version != offers[0].version)
            return false;
        for (int k = 0; k < i; k++)
            if (!strcmp(offers[i].gpu, offers[k].gpu))
                return false;
    }
    return true;
}

static int open_library(struct comm *c, int limit_ms, struct err *err) {
    const struct backend *backend = c->device->backend;
    const struct world *w = c->world;
    OWNED_MEMORY struct comm_offer *offers = calloc((size_t)w->size, sizeof *offers);
    int rc;
    if (!offers)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the exchange between ranks");
    if ((rc = backend->comm_offer(c->device, w->rank == 0, &offers[w->rank], err)) ||
        (rc = world_gather(c->world, offers, sizeof *offers, limit_ms, err)) || !may_use_library(offers, w->size))
        return rc;
    str_copy(c->way, sizeof c->way, offers[0].name);
    const struct comm_place place = {offers[0].id, w->rank, w->size, limit_ms};
    return backend->comm_open(c->device, &place, &c->library, err);
}

static int open_way(struct comm *c, const struct comm_config *config, struct err *err) {
    struct device_info info;
    int rc;
    device_describe(c->device, &info);
    if (c->device->backend->comm_offer && (rc = open_library(c, config->limit_ms, err)))
        return rc;
    if (!info.is_async || c->library)
        return 0;
    rc = device_alloc_host(c->device, config->most_bytes, &c->out, err);
    return rc ? rc : device_alloc_host(c->device, config->most_bytes, &c->in, err);
}

int comm_open(struct device *dev, const struct comm_config *config, struct comm **ret, struct err *err) {
    struct comm *c = calloc(1, sizeof *c);
    int rc;
    if (!c)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the exchange between ranks");
    *c = (struct comm){.device = dev, .world = config->world, .way = "host memory"};
    if ((rc = open_way(c, config, err))) {
        comm_close(c);
        return rc;
    }
    *ret = c;
    return 0;
}

const char *comm_way(const struct comm *c) { return c->way; }

void comm_close(struct comm *c) {
    if (!c)
        return;
    if (c->library)
        c->device->backend->comm_close(c->library);
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

/* After a failure the ranks no longer agree, as in world_exchange. */
static int exchange_by_library(struct comm *c, struct stream *s, int peer, const struct world_parts *p, int limit_ms,
                               struct err *err) {
    int rc = c->device->backend->comm_exchange(s, c->library, peer, p, limit_ms, err);
    c->world->broken |= rc != 0;
    return rc;
}

int comm_exchange(struct comm *c, struct stream *s, int peer, const struct world_parts *parts, int limit_ms, struct err *err) {
    if (c->library)
        return exchange_by_library(c, s, peer, parts, limit_ms, err);
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
