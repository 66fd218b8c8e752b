/* Operations of calls and their completion: grpc finishes them on the drain thread, and the loop takes them from here. */
#include <grpc/support/time.h>

#include "base/queue.h"
#include "daemon/rpc/rpc_state.h"

enum { BUSY_EVENTS = 200, BUSY_MS = 10 /* so many in that time: the drain thread is busy */ };
enum { REST_MS = RPC_PATIENCE_MS * 4 / 5, FEW_ANSWERS = 2 };

static gpr_timespec from_now(int ms) { return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN)); }

/* What the drain thread knows of tags that are patient. */
struct patience {
    gpr_timespec wake_at; /* when the loop must wake for them; the far future: none waits */
    bool alone;           /* no other tags came since the thread last rested, or could have */
};

/* True if the loop is to wake for what came. *ret_rest: what comes next may wait in grpc, so that this thread takes it at once. */
static bool is_time(struct patience *p, const struct tag *tag, bool *ret_rest) {
    const gpr_timespec never = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    const bool patient = tag && tag->patient, first = patient && gpr_time_cmp(p->wake_at, never) >= 0;
    *ret_rest = first && p->alone;
    p->alone = first || (p->alone && (!tag || patient));
    if (first)
        p->wake_at = from_now(RPC_PATIENCE_MS);
    if (patient && (first || gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), p->wake_at) < 0))
        return false;
    p->wake_at = never;
    return true;
}

/* Wakes the thread that polls, where it is not awake, if BUSY_EVENTS have come within BUSY_MS. */
static void count_event(struct rpc_server *s, unsigned *n, gpr_timespec *since) {
    if (++*n % BUSY_EVENTS)
        return;
    const gpr_timespec now = gpr_now(GPR_CLOCK_MONOTONIC);
    if (gpr_time_to_millis(gpr_time_sub(now, *since)) < BUSY_MS && !atomic_exchange(&s->busy, true))
        uv_sem_post(&s->polls);
    *since = now;
}

void *tag_drain(void *arg) {
    struct rpc_server *s = arg;
    unsigned n = 0;
    gpr_timespec since = gpr_now(GPR_CLOCK_MONOTONIC);
    struct patience patience = {.wake_at = gpr_inf_future(GPR_CLOCK_MONOTONIC)};
    pthread_setname_np(pthread_self(), "rpc-drain");
    for (;;) {
        grpc_event e = grpc_completion_queue_next(s->queue, patience.wake_at, NULL);
        bool rest = false;
        struct tag *tag = e.type == GRPC_OP_COMPLETE ? e.tag : NULL;
        count_event(s, &n, &since);
        const bool now = is_time(&patience, tag, &rest); /* the loop may free the tag once it is in the list */
        pthread_mutex_lock(&s->lock);
        if (tag) {
            tag->ok = e.success;
            QUEUE_ADD(s, tag, next);
        }
        s->drained = e.type == GRPC_QUEUE_SHUTDOWN;
        bool over = s->drained;
        pthread_mutex_unlock(&s->lock);
        if (now)
            uv_async_send(&s->wake);
        if (over)
            return NULL;
        if (rest)
            nanosleep(&(struct timespec){.tv_nsec = REST_MS * 1000000L}, NULL);
    }
}

void *tag_poll(void *arg) {
    struct rpc_server *s = arg;
    pthread_setname_np(pthread_self(), "rpc-poll");
    do {
        uv_sem_wait(&s->polls);
        atomic_store(&s->busy, false);
    } while (grpc_completion_queue_next(s->idle, from_now(BUSY_MS), NULL).type != GRPC_QUEUE_SHUTDOWN);
    return NULL;
}

struct tag *tag_take(struct rpc_server *s, bool *ret_drained) {
    LOCKED(&s->lock);
    struct tag *tag = s->first;
    if (tag)
        QUEUE_DROP(s, next);
    *ret_drained = s->drained;
    return tag;
}

struct tag *tag_new(struct rpc_server *s, enum tag_kind kind, struct rpc_call *call) {
    struct tag *tag = calloc(1, sizeof *tag);
    if (!tag)
        return NULL;
    const bool patient =
        call && call->patient && (kind == TAG_RECV ? call->apart : kind == TAG_SEND && call->queued <= FEW_ANSWERS);
    *tag = (struct tag){.kind = kind, .patient = patient, .call = call, .server = s};
    if (call)
        call->tags++;
    return tag;
}

bool call_operate(struct rpc_call *c, grpc_op *ops, size_t n, enum tag_kind kind) {
    struct tag *tag = tag_new(c->server, kind, c);
    if (tag && grpc_call_start_batch(c->call, ops, n, tag, NULL) == GRPC_CALL_OK)
        return true;
    if (tag)
        c->tags--;
    free(tag);
    c->gone = true;
    grpc_call_cancel(c->call, NULL);
    return false;
}
