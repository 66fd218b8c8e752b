#include "kernels/peers.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "kernels/backend.h"

#define LOAD(x)     __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELEASE)

enum { LOOKS = 1000, NAP_MS = 50 }; /* looks before a rank that waits sleeps */
enum { CHECKED_BYTES = 1 << 20 };   /* of each buffer, when the peers are opened */

/* A rank, as all of them see it. */
struct peer {
    struct device *device;
    void *buffers[2], *signals[2];
    int64_t signalled, settled; /* rounds */
    bool left;
};

/* The ranks share one of these. */
struct meeting {
    uint32_t changed; /* counts changes of peers[]: a futex */
    struct peer peers[PEERS_MOST];
};

struct peers {
    struct stream *stream;
    struct world *world;
    int rank, size; /* those of the world, which may be closed before */
    struct meeting *meeting;
    int64_t round;
    int limit_ms;
};

static struct peer *own_peer(const struct peers *p) { return &p->meeting->peers[p->rank]; }

static void say_changed(struct meeting *m) {
    __atomic_add_fetch(&m->changed, 1, __ATOMIC_ACQ_REL);
    syscall(SYS_futex, &m->changed, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

/* The first rank that cannot be reached, in words; "" if there is none. */
static void try_to_reach(const struct peers *p, char why[PEERS_WHY]) {
    struct device *dev = own_peer(p)->device;
    struct err reason = {0};
    why[0] = 0;
    for (int i = 0; i < p->size && !why[0]; i++)
        if (dev->backend->reach(dev, p->meeting->peers[i].device, &reason))
            str_copy(why, PEERS_WHY, reason.message);
}

/* The reason of the lowest rank that has one becomes that of all. */
static int agree(const struct peers *p, const char own[PEERS_WHY], char why[PEERS_WHY], struct err *err) {
    char all[PEERS_MOST][PEERS_WHY] = {0};
    str_copy(all[p->rank], PEERS_WHY, own);
    int rc = world_gather(p->world, all, sizeof *all, p->limit_ms, err);
    for (int i = p->size - 1; !rc && i >= 0; i--)
        if (all[i][0])
            str_copy(why, PEERS_WHY, all[i]);
    return rc;
}

static int agree_on_reach(const struct peers *p, char why[PEERS_WHY], struct err *err) {
    char own[PEERS_WHY];
    int rc = world_barrier(p->world, p->limit_ms, err); /* all devices are named */
    if (rc)
        return rc;
    try_to_reach(p, own);
    return agree(p, own, why, err);
}

static int open_buffers(struct peers *p, size_t bytes, struct err *err) {
    struct peer *mine = own_peer(p);
    int rc = 0;
    for (int i = 0; !rc && i < 2; i++)
        rc = device_alloc(mine->device, bytes, &mine->buffers[i], err);
    return rc ? rc : world_barrier(p->world, p->limit_ms, err);
}

/* Byte i of a rank's buffer while reads are checked. */
static uint8_t checked_byte(int rank, size_t i) { return (uint8_t)((i * 2654435761U >> 13) + 97U * (unsigned)rank); }

static int fill_own(const struct peers *p, uint8_t *host, size_t n, struct err *err) {
    int rc;
    for (size_t i = 0; i < n; i++)
        host[i] = checked_byte(p->rank, i);
    if ((rc = stream_to_device(p->stream, own_peer(p)->buffers[0], host, n, err)) || (rc = stream_sync(p->stream, err)))
        return rc;
    return world_barrier(p->world, p->limit_ms, err);
}

/* Copies from the memory of each other rank: the first that arrives as other bytes, in words; "" if there is none. */
static int try_to_read(const struct peers *p, uint8_t *host, size_t n, char why[PEERS_WHY], struct err *err) {
    const struct peer *mine = own_peer(p);
    int rc = 0;
    why[0] = 0;
    for (int r = 0; !rc && r < p->size && !why[0]; r++) {
        const struct peer *other = &p->meeting->peers[r];
        size_t same = 0;
        if ((rc = stream_copy(p->stream, mine->buffers[1], other->buffers[0], n, err)) ||
            (rc = stream_to_host(p->stream, host, mine->buffers[1], n, err)) || (rc = stream_sync(p->stream, err)))
            return rc;
        while (same < n && host[same] == checked_byte(r, same))
            same++;
        if (same < n)
            str_format(why, PEERS_WHY, "%s reads wrong bytes from the memory of %s: look at its IOMMU and PCIe ACS settings",
                       mine->device->info.name, other->device->info.name);
    }
    return rc;
}

/* Some machines grant access and deliver other bytes: those whose IOMMU or PCIe switches send requests elsewhere. */
static int agree_on_reads(const struct peers *p, size_t bytes, char why[PEERS_WHY], struct err *err) {
    const size_t n = bytes < CHECKED_BYTES ? bytes : CHECKED_BYTES;
    OWNED_MEMORY uint8_t *host = malloc(n);
    char own[PEERS_WHY];
    int rc;
    if (!host)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", own_peer(p)->device->info.name);
    if ((rc = fill_own(p, host, n, err)) || (rc = try_to_read(p, host, n, own, err)))
        return rc;
    return agree(p, own, why, err);
}

int peers_open(struct stream *s, const struct peers_config *config, struct peers **ret, char why[PEERS_WHY], struct err *err) {
    struct device *dev = stream_device(s);
    void *common = NULL;
    int rc;
    *ret = NULL;
    why[0] = 0;
    if (!dev->backend->reach)
        return 0;
    if (config->world->size > PEERS_MOST) {
        str_format(why, PEERS_WHY, "there are more than %d devices", PEERS_MOST);
        return 0;
    }
    if ((rc = world_common(config->world, sizeof(struct meeting), &common, err)))
        return rc;
    if (!common) {
        str_copy(why, PEERS_WHY, "the devices belong to processes of their own");
        return 0;
    }
    struct peers *p = calloc(1, sizeof *p);
    if (!p) {
        world_common_free(common);
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", dev->info.name);
    }
    *p = (struct peers){.stream = s,
                        .world = config->world,
                        .rank = config->world->rank,
                        .size = config->world->size,
                        .meeting = common,
                        .limit_ms = config->limit_ms};
    own_peer(p)->device = dev;
    if ((rc = agree_on_reach(p, why, err)) || why[0] || (rc = open_buffers(p, config->bytes, err)) ||
        (rc = agree_on_reads(p, config->bytes, why, err)) || why[0]) {
        peers_close(p);
        return rc;
    }
    *ret = p;
    return 0;
}

/* ---- rounds ----------------------------------------------------------------------------------------------------- */

void *peers_begin(struct peers *p) {
    p->round++;
    return peers_buffer(p, p->rank);
}

void *peers_buffer(const struct peers *p, int rank) { return p->meeting->peers[rank].buffers[p->round % 2]; }

/* How far a rank has come: the signal of a round is recorded, or nothing of it is still queued that reads the others' buffers. */
enum progress { SIGNALLED, SETTLED };

static bool has_come(const struct peer *peer, enum progress progress, int64_t round) {
    return (progress == SIGNALLED ? LOAD(peer->signalled) : LOAD(peer->settled)) >= round;
}

/* Until all ranks have come so far or left; returns false when one has not within the limit. */
static bool await_peers(const struct peers *p, enum progress progress) {
    static const struct timespec nap = {.tv_nsec = NAP_MS * 1000 * 1000};
    struct meeting *m = p->meeting;
    const int64_t until_ms = clock_ms() + p->limit_ms;
    int looks = 0;
    for (int i = 0; i < p->size;) {
        const uint32_t changed = LOAD(m->changed);
        if (has_come(&m->peers[i], progress, p->round) || LOAD(m->peers[i].left)) {
            i++;
        } else if (++looks > LOOKS) {
            if (clock_ms() > until_ms)
                return false;
            syscall(SYS_futex, &m->changed, FUTEX_WAIT_PRIVATE, changed, &nap, NULL, 0);
        }
    }
    return true;
}

static int queue_meeting(struct peers *p, struct err *err) {
    const struct backend *backend = p->stream->device->backend;
    const int turn = (int)(p->round % 2);
    int rc = backend->signal(p->stream, &own_peer(p)->signals[turn], err);
    if (rc)
        return rc;
    STORE(own_peer(p)->signalled, p->round);
    say_changed(p->meeting);
    if (!await_peers(p, SIGNALLED))
        return err_set(err, ERR_UNAVAILABLE, "another rank did not come to the exchange within %d s", p->limit_ms / 1000);
    for (int i = 0; !rc && i < p->size; i++) {
        const struct peer *peer = &p->meeting->peers[i];
        if (!has_come(peer, SIGNALLED, p->round))
            rc = err_set(err, ERR_UNAVAILABLE, "another rank has ended");
        else if (i != p->rank)
            rc = backend->await(p->stream, peer->signals[turn], err);
    }
    return rc;
}

int peers_meet(struct peers *p, struct err *err) {
    const int rc = queue_meeting(p, err);
    p->world->broken |= rc != 0;
    return rc;
}

void peers_settle(struct peers *p) {
    STORE(own_peer(p)->settled, p->round);
    say_changed(p->meeting);
}

void peers_leave(struct peers *p) {
    stream_sync(p->stream, NULL); /* also after an error: what was queued before it may be running */
    STORE(own_peer(p)->left, true);
    peers_settle(p);
}

void peers_close(struct peers *p) {
    if (!p)
        return;
    struct peer *mine = own_peer(p);
    struct device *dev = mine->device;
    peers_leave(p);
    if (await_peers(p, SETTLED))
        for (int i = 0; i < 2; i++) {
            device_free(dev, mine->buffers[i]);
            dev->backend->unmark(dev, mine->signals[i]);
        }
    world_common_free(p->meeting);
    free(p);
}
