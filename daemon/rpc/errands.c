#include "daemon/rpc/errands.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

#include "base/queue.h"
#include "daemon/rpc/rpc_state.h"
#include "daemon/rpc/texts.h"

enum { BUSY_MS = 5000 };

/* Who waits; on the stack of its thread, under the lock. */
struct asking {
    struct asking *next;
    const struct errand *errand;
    uint8_t *request; /* packed */
    size_t len;
    struct errand_run *run; /* NULL: not begun */
    struct errand_answer *ret;
    struct err *err;
    int rc;
    bool done;
};

/* A call without a connection: its answers stay queued behind one that never leaves. The loop's, but for asking. */
struct errand_run {
    struct rpc_call call; /* its first member */
    struct errands *all;
    struct errand_run *next;
    struct asking *asking; /* NULL: nobody waits any more */
};

struct asker {
    char name[AUTH_NAME_SIZE];
    double allowance;
    int64_t at_ms; /* of the allowance */
};

struct errands {
    pthread_mutex_t lock; /* of all but the runs */
    pthread_cond_t answered;
    struct asking *first;
    struct asker askers[ERRANDS_CALLERS];
    struct errand_run *runs;
    bool stopped;
    void (*wake)(void *ctx);
    void *ctx;
};

struct errands *errands_new(void (*wake)(void *ctx), void *ctx) {
    struct errands *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    pthread_mutex_init(&a->lock, NULL);
    clock_cond_init(&a->answered);
    a->wake = wake;
    a->ctx = ctx;
    return a;
}

void errands_free(struct errands *a) {
    if (!a)
        return;
    pthread_cond_destroy(&a->answered);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* ---- the thread that waits ---- */

/* Takes one off the caller's allowance; a new caller takes the place of the one that has not asked for longest. */
static bool may_ask(struct errands *a, const char *name) {
    struct asker *own = &a->askers[0];
    const int64_t now_ms = clock_ms();
    for (int i = 0; i < ERRANDS_CALLERS && strcmp(own->name, name) != 0; i++)
        own = !strcmp(a->askers[i].name, name) || a->askers[i].at_ms < own->at_ms ? &a->askers[i] : own;
    const bool known = !strcmp(own->name, name);
    const double grown = 1e-3 * ERRANDS_A_SECOND * (double)(now_ms - own->at_ms);
    str_copy(own->name, sizeof own->name, name);
    own->allowance = known ? fmin(ERRANDS_BURST, own->allowance + grown) : ERRANDS_BURST;
    own->at_ms = now_ms;
    const bool may = own->allowance >= 1;
    own->allowance -= may;
    return may;
}

static int give_reason(struct errand_answer *ret, const char *reason, int64_t retry_after_ms, int code) {
    str_copy(ret->reason, sizeof ret->reason, reason);
    ret->retry_after_ms = retry_after_ms;
    return code;
}

int errands_run(struct errands *a, const struct errand *errand, struct errand_answer *ret, struct err *err) {
    const struct timespec until = clock_after_ms(ERRANDS_WAIT_MS);
    OWNED_MEMORY uint8_t *request = malloc(protobuf_c_message_get_packed_size(errand->request) + 1);
    struct asking asking = {.errand = errand, .request = request, .ret = ret, .err = err};
    *ret = (struct errand_answer){.data = NULL};
    if (!request)
        return give_reason(ret, "RESOURCE_EXHAUSTED", 0, err_set(err, ERR_EXHAUSTED, "out of memory for a call"));
    asking.len = protobuf_c_message_pack(errand->request, request);
    LOCKED(&a->lock);
    if (!may_ask(a, errand->caller->name)) {
        err_set(err, ERR_EXHAUSTED, "%s asks too often (%d a second)", errand->caller->name, ERRANDS_A_SECOND);
        return give_reason(ret, "OVERLOADED", 1000, err->code);
    }
    if (!a->stopped) {
        LIST_ADD_LAST(a->first, &asking, next);
        a->wake(a->ctx);
    }
    while (!asking.done && !a->stopped && pthread_cond_timedwait(&a->answered, &a->lock, &until) != ETIMEDOUT)
        continue;
    if (asking.done)
        return asking.rc;
    LIST_REMOVE(a->first, &asking, next);
    if (asking.run) {
        asking.run->asking = NULL;
        a->wake(a->ctx);
    }
    err_set(err, ERR_UNAVAILABLE, "the daemon is %s; try again", a->stopped ? "stopping" : "busy");
    return give_reason(ret, a->stopped ? "DRAINING" : "UNAVAILABLE", BUSY_MS, err->code);
}

/* ---- the loop ---- */

/* The first answer of a call that is over. */
static int copy_answer(const struct rpc_call *c, struct errand_answer *ret, struct err *err) {
    grpc_byte_buffer_reader reader;
    if (!c->first || !grpc_byte_buffer_reader_init(&reader, c->first->buffer))
        return err_set(err, ERR_INTERNAL, "%s gave no answer", c->method->path);
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    ret->len = GRPC_SLICE_LENGTH(all);
    if ((ret->data = malloc(ret->len + 1)))
        memcpy(ret->data, GRPC_SLICE_START_PTR(all), ret->len);
    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&reader);
    return ret->data ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for an answer of %zu bytes", ret->len);
}

static void errand_finished(struct rpc_call *c) {
    struct errands *a = ((struct errand_run *)c)->all;
    a->wake(a->ctx); /* the method may still look at its call */
}

/* What is asked for, with its request in the call's arena; under the lock. NULL with an error of who asks. */
static struct errand_run *begin_run(struct errands *a, struct rpc_server *s, struct asking *asking, const void **ret_request) {
    struct errand_run *run = calloc(1, sizeof *run);
    struct arena *arena = run ? calloc(1, sizeof *arena) : NULL;
    if (arena)
        arena_init(arena, ERRANDS_BYTES);
    if (arena)
        *ret_request = texts_unpack(arena, asking->errand->method->request, asking->request, asking->len, asking->err);
    if (!*ret_request) {
        asking->rc = arena ? asking->err->code : err_set(asking->err, ERR_EXHAUSTED, "out of memory for a call");
        give_reason(asking->ret, arena ? "INVALID_ARGUMENT" : "RESOURCE_EXHAUSTED", 0, 0);
        asking->done = true;
        pthread_cond_broadcast(&a->answered);
        arena_free(arena);
        free(run);
        return NULL;
    }
    run->call = (struct rpc_call){.server = s,
                                  .method = asking->errand->method,
                                  .caller = *asking->errand->caller,
                                  .arena = arena,
                                  .sending = true,
                                  .flushed = errand_finished,
                                  .start_ns = uv_hrtime()};
    run->all = a;
    run->asking = asking;
    asking->run = run;
    return run;
}

static void carry_out_errand(struct rpc_call *c, const void *request) {
    const struct rpc_config *config = &c->server->config;
    struct err err;
    if (config->begun)
        config->begun(config->ctx, c->method->path);
    c->admitted = call_still_admitted(c);
    if (c->admitted && call_is_crowded(c, &err))
        rpc_refuse(c, &err, "OVERLOADED", BUSY_MS);
    else if (c->admitted)
        rpc_handle(c, c->method->message, request);
}

/* Tells who asked, if the call is over; true if nothing more is to come of it. */
static bool deliver_answer(struct errands *a, struct errand_run *run) {
    struct rpc_call *c = &run->call;
    LOCKED(&a->lock);
    struct asking *asking = run->asking;
    if (!asking || call_is_open(c))
        return !asking;
    *asking->err = c->err;
    give_reason(asking->ret, c->reason, c->retry_after_ms, 0);
    asking->rc = c->err.code ? c->err.code : copy_answer(c, asking->ret, asking->err);
    asking->done = true;
    pthread_cond_broadcast(&a->answered);
    return true;
}

static void end_run(struct errands *a, struct errand_run *run) {
    LIST_REMOVE(a->runs, run, next);
    run->call.gone = call_is_open(&run->call);
    call_end(&run->call);
    call_drop_answers(&run->call);
    arena_free(run->call.arena);
    free(run);
}

void errands_take(struct errands *a, struct rpc_server *s) {
    const void *request = NULL;
    pthread_mutex_lock(&a->lock);
    struct asking *asking = a->stopped ? NULL : a->first;
    if (asking)
        LIST_REMOVE(a->first, asking, next);
    struct errand_run *run = asking ? begin_run(a, s, asking, &request) : NULL;
    if (a->first && !a->stopped)
        a->wake(a->ctx);
    pthread_mutex_unlock(&a->lock);
    if (run) {
        LIST_ADD_LAST(a->runs, run, next);
        carry_out_errand(&run->call, request);
    }
    for (struct errand_run *next = a->runs; (run = next);) {
        next = run->next;
        if (deliver_answer(a, run))
            end_run(a, run);
    }
}

void errands_stop(struct errands *a) {
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->stopped = true;
    pthread_cond_broadcast(&a->answered);
    for (struct errand_run *run = a->runs; run; run = run->next) {
        if (run->asking)
            run->asking->run = NULL; /* who waits leaves by itself */
        run->asking = NULL;
    }
    pthread_mutex_unlock(&a->lock);
    while (a->runs)
        end_run(a, a->runs);
}
