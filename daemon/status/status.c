#include "daemon/status/status.h"

#include "base/order.h"

static const char *const moods[STATUS_MOODS] = {"alarm", "was", "lost", "late", "poor", "fine", "standby", "absent", "ended"};

const char *status_mood_name(enum status_mood m) { return moods[m]; }

/* Fixed places: by the roster, then by name, numbers in names by their value. */
ORDER_BY(by_place, struct status_stream,
         order_then(order_i64(x->place, y->place),
                    order_then(strverscmp(x->bed.name, y->bed.name), strcmp(x->bed.session_id, y->bed.session_id))))

void status_sort(struct status *s) { SORT(s->streams, s->n_streams, by_place); }

const struct status *status_share(const struct status *s) {
    atomic_fetch_add(&((struct status *)(uintptr_t)s)->references, 1);
    return s;
}

struct status_board {
    atomic_int holders; /* its owner, and statuses that are not dropped: a volume may keep one's reader beyond the end */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct status *newest;
    uint64_t number;
    bool stopped;
    struct status *spare; /* empty, with the memory of the last one that was dropped; NULL: it is in use */
};

static struct status *exchange_spare(struct status_board *b, struct status *s) {
    if (!b)
        return s;
    LOCKED(&b->lock);
    struct status *before = b->spare;
    b->spare = s;
    return before;
}

struct status *status_new(struct status_board *b) {
    struct status *s = exchange_spare(b, NULL);
    if (!s && !(s = calloc(1, sizeof *s)))
        return NULL;
    if (b)
        atomic_fetch_add(&b->holders, 1);
    s->board = b;
    s->arena.limit_bytes = STATUS_BYTES;
    atomic_init(&s->references, 1);
    return s;
}

static void free_status(struct status *s) {
    if (s)
        arena_done(&s->arena);
    free(s);
}

static void leave_board(struct status_board *b) {
    if (!b || atomic_fetch_sub(&b->holders, 1) > 1)
        return;
    free_status(b->spare);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

void status_drop(const struct status *shared) {
    struct status *s = (struct status *)(uintptr_t)shared;
    if (!s || atomic_fetch_sub(&s->references, 1) > 1)
        return;
    for (int i = 0; i < s->n_streams + s->n_folded; i++) {
        past_drop(s->streams[i].trace);
        eegring_unmention(s->streams[i].eeg);
    }
    arena_reset(&s->arena);
    struct status_board *b = s->board;
    *s = (struct status){.arena = s->arena};
    free_status(exchange_spare(b, s));
    leave_board(b);
}

struct status_board *status_board_new(void) {
    struct status_board *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    pthread_mutex_init(&b->lock, NULL);
    clock_cond_init(&b->changed);
    atomic_init(&b->holders, 1);
    return b;
}

void status_board_free(struct status_board *b) {
    if (!b)
        return;
    status_drop(b->newest);
    leave_board(b);
}

void status_publish(struct status_board *b, struct status *s) {
    if (!s)
        return;
    pthread_mutex_lock(&b->lock);
    const struct status *old = b->newest;
    s->number = ++b->number;
    b->newest = s;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    status_drop(old);
}

const struct status *status_newest(struct status_board *b) {
    LOCKED(&b->lock);
    return b->newest ? status_share(b->newest) : NULL;
}

const struct status *status_await(struct status_board *b, uint64_t number, int64_t ms) {
    const struct timespec until = clock_after_ms(ms);
    const struct status *s = NULL;
    LOCKED(&b->lock);
    while (!b->stopped && b->number <= number)
        if (pthread_cond_timedwait(&b->changed, &b->lock, &until))
            break;
    if (!b->stopped && b->newest && b->number > number)
        s = status_share(b->newest);
    return s;
}

void status_board_stop(struct status_board *b) {
    LOCKED(&b->lock);
    b->stopped = true;
    pthread_cond_broadcast(&b->changed);
}
