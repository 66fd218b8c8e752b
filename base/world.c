#include "base/world.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

void world_alone(struct world *w) { *w = (struct world){.size = 1}; }

void world_close(struct world *w, bool clean) {
    if (w->transport)
        w->transport->close(w->ctx, clean && !w->broken);
    *w = (struct world){.size = 1};
}

int world_exchange(struct world *w, int peer, const struct world_parts *parts, int limit_ms, struct err *err) {
    if (w->broken || peer < 0 || peer >= w->size || peer == w->rank)
        return err_set(err, ERR_INTERNAL, "rank %d of %d cannot exchange data with rank %d%s", w->rank, w->size, peer,
                       w->broken ? " after an exchange has failed" : "");
    int rc = w->transport->exchange(w->ctx, peer, parts, limit_ms, err);
    w->broken = rc != 0;
    return rc;
}

/* In round k the ranks whose sum is k, counted around, exchange their parts: every pair meets once. */
static int gather_by_pairs(struct world *w, char *at, size_t bytes, int limit_ms, struct err *err) {
    for (int round = 0; round < w->size; round++) {
        int peer = (round - w->rank + w->size) % w->size;
        const struct world_parts parts = {at + (size_t)w->rank * bytes, bytes, at + (size_t)peer * bytes, bytes};
        int rc = peer == w->rank ? 0 : world_exchange(w, peer, &parts, limit_ms, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Blocks of ranks double: each exchanges its block with the neighbour's. */
int world_gather(struct world *w, void *all, size_t bytes, int limit_ms, struct err *err) {
    char *at = all;
    if (w->size & (w->size - 1))
        return gather_by_pairs(w, at, bytes, limit_ms, err);
    for (int block = 1; block < w->size; block *= 2) {
        int mine = w->rank & ~(block - 1), theirs = mine ^ block;
        const struct world_parts parts = {at + (size_t)mine * bytes, (size_t)block * bytes, at + (size_t)theirs * bytes,
                                          (size_t)block * bytes};
        int rc = world_exchange(w, w->rank ^ block, &parts, limit_ms, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* A binomial tree: in the round of `distance` the ranks below it have the data and pass them on. */
int world_broadcast(struct world *w, void *data, size_t bytes, int limit_ms, struct err *err) {
    for (int distance = 1; distance < w->size; distance *= 2) {
        bool gives = w->rank < distance && w->rank + distance < w->size, takes = w->rank >= distance && w->rank < 2 * distance;
        const struct world_parts parts = {data, gives ? bytes : 0, data, takes ? bytes : 0};
        int rc = gives || takes ? world_exchange(w, w->rank ^ distance, &parts, limit_ms, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

int world_barrier(struct world *w, int limit_ms, struct err *err) {
    char marks[WORLD_MAX] = {0};
    return world_gather(w, marks, 1, limit_ms, err);
}

int world_common(struct world *w, size_t bytes, void **ret, struct err *err) {
    *ret = NULL;
    return w->transport && w->transport->common ? w->transport->common(w->ctx, bytes, ret, err) : 0;
}

/* ---- threads ---- */

/* What a rank has for a peer. */
struct offer {
    const void *data;
    size_t bytes;
    bool made;
};

/* Memory in common, in the order of the calls that asked for it. */
struct common {
    struct common *next;
    int users; /* ranks, and the team */
    max_align_t data[];
};

struct team {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an offer was made or taken, or a rank has left */
    int size, open;
    bool left; /* a rank has left before the others */
    struct common *common;
    struct offer offers[];
};

struct seat {
    struct team *team;
    int rank, common; /* common: calls so far */
};

static struct offer *offer_at(struct team *t, int from, int to) { return &t->offers[from * t->size + to]; }

/* Waits until the offer is made, or taken. Lock held. */
static int await_offer(struct team *t, const struct offer *o, bool made, const struct timespec *until, struct err *err) {
    int late = 0;
    while (o->made != made && !t->left && !late)
        late = pthread_cond_timedwait(&t->changed, &t->lock, until);
    if (o->made == made)
        return 0;
    return err_set(err, ERR_UNAVAILABLE, t->left ? "another rank has ended" : "another rank did not come to the exchange in time");
}

static int trade(struct seat *s, int peer, const struct world_parts *p, const struct timespec *until, struct err *err) {
    struct team *t = s->team;
    struct offer *mine = offer_at(t, s->rank, peer), *theirs = offer_at(t, peer, s->rank);
    int rc;
    if (p->out_bytes) {
        *mine = (struct offer){p->out, p->out_bytes, true};
        pthread_cond_broadcast(&t->changed);
    }
    if (p->in_bytes) {
        if ((rc = await_offer(t, theirs, true, until, err)))
            return rc;
        if (theirs->bytes != p->in_bytes)
            return err_set(err, ERR_INTERNAL, "rank %d sends %zu bytes, and rank %d expects %zu", peer, theirs->bytes, s->rank,
                           p->in_bytes);
        pthread_mutex_unlock(&t->lock);
        memcpy(p->in, theirs->data, p->in_bytes);
        pthread_mutex_lock(&t->lock);
        theirs->made = false;
        pthread_cond_broadcast(&t->changed);
    }
    return p->out_bytes ? await_offer(t, mine, false, until, err) : 0;
}

static int threads_exchange(void *ctx, int peer, const struct world_parts *parts, int limit_ms, struct err *err) {
    struct seat *s = ctx;
    struct timespec until = clock_after_ms(limit_ms);
    LOCKED(&s->team->lock);
    int rc = trade(s, peer, parts, &until, err);
    s->team->left |= rc != 0;
    pthread_cond_broadcast(&s->team->changed);
    return rc;
}

static int threads_common(void *ctx, size_t bytes, void **ret, struct err *err) {
    struct seat *s = ctx;
    pthread_mutex_lock(&s->team->lock);
    struct common **at = &s->team->common;
    for (int i = 0; i < s->common && *at; i++)
        at = &(*at)->next;
    if (!*at && (*at = calloc(1, sizeof **at + bytes)))
        (*at)->users = 1;
    struct common *found = *at;
    s->common++;
    pthread_mutex_unlock(&s->team->lock);
    if (!found)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %zu bytes that ranks have in common", bytes);
    __atomic_add_fetch(&found->users, 1, __ATOMIC_RELAXED);
    *ret = found->data;
    return 0;
}

void world_common_free(void *common) {
    if (!common)
        return;
    struct common *c = (struct common *)((char *)common - offsetof(struct common, data));
    if (!__atomic_sub_fetch(&c->users, 1, __ATOMIC_ACQ_REL))
        free(c);
}

static void threads_close(void *ctx, bool clean) {
    struct seat *s = ctx;
    struct team *t = s->team;
    pthread_mutex_lock(&t->lock);
    t->left |= !clean;
    bool last = --t->open == 0;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    free(s);
    if (!last)
        return;
    for (struct common *c = t->common, *next; c; c = next) {
        next = c->next;
        world_common_free(c->data);
    }
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static const struct world_transport threads_transport = {threads_exchange, threads_common, threads_close};

int world_threads(struct world *ranks, int n, struct err *err) {
    if (n < 1 || n > WORLD_MAX)
        return err_set(err, ERR_INVALID, "a world of %d ranks; expected 1 to %d", n, WORLD_MAX);
    struct team *t = calloc(1, sizeof *t + (size_t)n * (size_t)n * sizeof *t->offers);
    struct seat *seats[WORLD_MAX];
    int made = 0;
    while (t && made < n && (seats[made] = malloc(sizeof *seats[made])))
        made++;
    if (made < n) {
        while (made)
            free(seats[--made]);
        free(t);
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d ranks", n);
    }
    pthread_mutex_init(&t->lock, NULL);
    clock_cond_init(&t->changed);
    t->size = t->open = n;
    for (int r = 0; r < n; r++) {
        *seats[r] = (struct seat){.team = t, .rank = r};
        ranks[r] = (struct world){.rank = r, .size = n, .local_rank = r, .transport = &threads_transport, .ctx = seats[r]};
    }
    return 0;
}
