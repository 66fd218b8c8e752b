#include "store/md5_batch.h"

#include <openssl/evp.h>

#include "store/md5_lanes.h"

/* A lane's piece is small, so that those of all lanes stay in the second-level cache. */
enum { PIECE = 32 << 10, ALONE_PIECE = 128 << 10, GATHER = 10, GATHER_MS = 1000 };

enum lane_state { LANE_FREE, LANE_WAITS, LANE_RUNS, LANE_ENDED };

struct lane {
    enum lane_state state;
    int fd, errnum;
    int64_t offset;
    size_t blocks; /* at `at`, not fed yet */
    const unsigned char *at;
    bool last; /* they are the last */
    char hex[33];
    unsigned char piece[PIECE + 2 * MD5_BLOCK];
};

struct md5_batch {
    pthread_mutex_t lock; /* states of lanes, and all below; the rest of a lane that runs is the leader's */
    pthread_cond_t changed;
    bool led;
    int members, waiting; /* threads between enter and leave; lanes that are not free */
    struct md5_lanes lanes;
    struct lane lane[MD5_LANES];
    unsigned char idle[PIECE + 2 * MD5_BLOCK]; /* what lanes without a file are fed */
};

struct md5_batch *md5_batch_new(void) {
    struct md5_batch *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    clock_cond_init(&b->changed);
    pthread_mutex_init(&b->lock, NULL);
    return b;
}

void md5_batch_free(struct md5_batch *b) {
    if (!b)
        return;
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static void add_members(struct md5_batch *b, int n) {
    LOCKED(&b->lock);
    b->members += n;
    pthread_cond_broadcast(&b->changed);
}

void md5_batch_enter(struct md5_batch *b) { add_members(b, 1); }
void md5_batch_leave(struct md5_batch *b) { add_members(b, -1); }

/* More of the file into the lane's piece. */
static void refill(struct lane *l) {
    size_t len = 0;
    ssize_t n = 1;
    while (len < PIECE && n) {
        n = pread(l->fd, l->piece + len, PIECE - len, (off_t)(l->offset + (int64_t)len));
        if (n < 0 && errno != EINTR) {
            l->errnum = errno;
            return;
        }
        len += n > 0 ? (size_t)n : 0;
    }
    l->offset += (int64_t)len;
    l->at = l->piece;
    l->blocks = len / MD5_BLOCK;
    l->last = len < PIECE;
    if (l->last) {
        unsigned char *rest = l->piece + l->blocks * MD5_BLOCK;
        l->blocks += md5_lanes_last(rest, len % MD5_BLOCK, (uint64_t)l->offset, rest);
    }
}

/* A few lanes take as long as one: wait a moment for others who are about to come. The lock is held. */
static void gather(struct md5_batch *b, const struct timespec *until) {
    while (b->waiting < GATHER && b->waiting < b->members)
        if (pthread_cond_timedwait(&b->changed, &b->lock, until) == ETIMEDOUT)
            return;
}

/* As much as the lane with the least has, of all that run. The lock is not held. */
static void advance(struct md5_batch *b, const bool runs[MD5_LANES]) {
    const unsigned char *at[MD5_LANES];
    size_t n = sizeof b->idle / MD5_BLOCK;
    int count = 0;
    for (int i = 0; i < MD5_LANES; i++) {
        struct lane *l = &b->lane[i];
        at[i] = b->idle;
        if (!runs[i])
            continue;
        if (!l->blocks && !l->errnum)
            refill(l);
        if (l->errnum)
            continue;
        at[i] = l->at;
        n = l->blocks < n ? l->blocks : n;
        count = i + 1;
    }
    md5_lanes_blocks(&b->lanes, at, n, count);
    for (int i = 0; i < MD5_LANES; i++)
        if (runs[i] && !b->lane[i].errnum) {
            b->lane[i].at += n * MD5_BLOCK;
            b->lane[i].blocks -= n;
        }
}

/* Work for all lanes until one's own has ended, in company as far as `until` allows. The lock is held, but not during the work. */
static void lead(struct md5_batch *b, const struct lane *own, const struct timespec *until) {
    bool runs[MD5_LANES];
    while (own->state != LANE_ENDED) {
        gather(b, until);
        for (int i = 0; i < MD5_LANES; i++) {
            if (b->lane[i].state == LANE_WAITS) {
                md5_lanes_begin(&b->lanes, i);
                b->lane[i].state = LANE_RUNS;
            }
            runs[i] = b->lane[i].state == LANE_RUNS;
        }
        pthread_mutex_unlock(&b->lock);
        advance(b, runs);
        pthread_mutex_lock(&b->lock);
        for (int i = 0; i < MD5_LANES; i++) {
            struct lane *l = &b->lane[i];
            if (!runs[i] || (!l->errnum && (l->blocks || !l->last)))
                continue;
            md5_lanes_hex(&b->lanes, i, l->hex);
            l->state = LANE_ENDED;
            pthread_cond_broadcast(&b->changed);
        }
    }
}

static struct lane *find_free(struct md5_batch *b) {
    for (int i = 0; i < MD5_LANES; i++)
        if (b->lane[i].state == LANE_FREE)
            return &b->lane[i];
    return NULL;
}

/* Without lanes, which are slower for one file alone. */
OWNABLE(EVP_MD_CTX, EVP_MD_CTX_free)

static int work_alone(int fd, const char *name, char ret[33], struct err *err) {
    unsigned char sum[EVP_MAX_MD_SIZE];
    int64_t offset = 0;
    OWNED_POINTER(EVP_MD_CTX_free) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    OWNED_MEMORY char *block = malloc(ALONE_PIECE);
    if (!ctx || !block || EVP_DigestInit_ex(ctx, EVP_md5(), NULL) != 1)
        return err_set(err, ERR_EXHAUSTED, "no memory for MD5");
    for (ssize_t n = 1; n;) {
        n = pread(fd, block, ALONE_PIECE, (off_t)offset);
        if (n < 0 && errno != EINTR)
            return err_errno(err, errno, "cannot read %s", name);
        if (n > 0 && EVP_DigestUpdate(ctx, block, (size_t)n) != 1)
            return err_set(err, ERR_INTERNAL, "OpenSSL could not compute an MD5");
        offset += n > 0 ? n : 0;
    }
    if (EVP_DigestFinal_ex(ctx, sum, NULL) != 1)
        return err_set(err, ERR_INTERNAL, "OpenSSL could not compute an MD5");
    for (size_t i = 0; i < 16; i++)
        snprintf(ret + 2 * i, 3, "%02x", (unsigned)sum[i]);
    return 0;
}

/* The lane is somebody else's from now on. The lock is held. */
static void give_back(struct md5_batch *b, struct lane *own) {
    own->state = LANE_FREE;
    b->waiting--;
    pthread_cond_broadcast(&b->changed);
}

int md5_batch_file(struct md5_batch *b, int fd, const char *name, char ret[33], struct err *err) {
    struct lane *own;
    pthread_mutex_lock(&b->lock);
    while (!(own = find_free(b)))
        pthread_cond_wait(&b->changed, &b->lock);
    own->fd = fd;
    own->errnum = 0;
    own->offset = 0;
    own->blocks = 0;
    own->last = false;
    own->state = LANE_WAITS;
    b->waiting++;
    pthread_cond_broadcast(&b->changed);
    while (own->state != LANE_ENDED) {
        if (b->led) {
            pthread_cond_wait(&b->changed, &b->lock);
            continue;
        }
        b->led = true;
        const struct timespec until = clock_after_ms(GATHER_MS);
        gather(b, &until);
        bool alone = own->state == LANE_WAITS && b->waiting == 1;
        if (!alone)
            lead(b, own, &until);
        b->led = false;
        if (alone) {
            give_back(b, own);
            pthread_mutex_unlock(&b->lock);
            return work_alone(fd, name, ret, err);
        }
    }
    int errnum = own->errnum;
    if (!errnum)
        memcpy(ret, own->hex, sizeof own->hex);
    give_back(b, own);
    pthread_mutex_unlock(&b->lock);
    return errnum ? err_errno(err, errnum, "cannot read %s", name) : 0;
}
