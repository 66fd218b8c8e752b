#include "daemon/live/keeper.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/str.h"
#include "daemon/live/snapshot.h"

enum deed { DEED_WRITE, DEED_END, DEED_REMOVE, DEED_REJECT };
struct task {
    struct task *next;
    enum deed deed;
    char id[SNAPSHOT_ID_SIZE];
    char *state;
    size_t len;
    struct err err;
};

struct keeper {
    uv_loop_t *loop;
    const char *dir;
    void (*written)(void *ctx, const char *id, const struct err *err);
    void *ctx;
    uv_work_t work;
    bool working;
    struct task *first, *last; /* the first is at work */
};

struct keeper *keeper_new(uv_loop_t *loop, const char *dir, void (*written)(void *ctx, const char *id, const struct err *err),
                          void *ctx) {
    struct keeper *k = calloc(1, sizeof *k);
    if (k)
        *k = (struct keeper){.loop = loop, .dir = dir, .written = written, .ctx = ctx};
    return k;
}

static struct task *pop(struct keeper *k) {
    struct task *t = k->first;
    k->first = t->next;
    if (!k->first)
        k->last = NULL;
    return t;
}

static void task_free(struct task *t) {
    free(t->state);
    free(t);
}

void keeper_free(struct keeper *k) {
    if (!k)
        return;
    while (k->first)
        task_free(pop(k));
    free(k);
}

static void run(uv_work_t *work) {
    struct keeper *k = work->data;
    struct task *t = k->first;
    switch (t->deed) {
    case DEED_WRITE:
        snapshot_write(k->dir, t->id, t->state, t->len, &t->err);
        break;
    case DEED_END:
        snapshot_end(k->dir, t->id, &t->err);
        break;
    case DEED_REMOVE:
        snapshot_remove(k->dir, t->id, &t->err);
        break;
    case DEED_REJECT:
        snapshot_reject(k->dir, t->id, &t->err);
        break;
    }
}

static void done(uv_work_t *work, int status);

static void go_on(struct keeper *k) {
    if (k->working || !k->first)
        return;
    k->working = true;
    k->work.data = k;
    uv_queue_work(k->loop, &k->work, run, done); /* fails for want of a function alone */
}

static void done(uv_work_t *work, int status) {
    struct keeper *k = work->data;
    struct task *t = pop(k);
    char text[800];
    (void)status;
    k->working = false;
    if (t->err.code)
        log_warn("snapshot of a stream", "error=\"%s\"", err_text(&t->err, text, sizeof text));
    if (t->deed == DEED_WRITE)
        k->written(k->ctx, t->id, &t->err);
    task_free(t);
    go_on(k);
}

static bool ask(struct keeper *k, enum deed deed, const char *id, char *state, size_t len) {
    struct task *t = calloc(1, sizeof *t);
    if (!t)
        return false;
    t->deed = deed;
    t->state = state;
    t->len = len;
    str_copy(t->id, sizeof t->id, id);
    if (k->last)
        k->last->next = t;
    else
        k->first = t;
    k->last = t;
    go_on(k);
    return true;
}

/* Nothing can be done about it now: the next daemon finds a stream that nobody wants, and lets it go after limits.resume_ttl. */
static void ask_or_log(struct keeper *k, enum deed deed, const char *id) {
    if (!ask(k, deed, id, NULL, 0))
        log_error("the snapshot of a stream stays on the disk: out of memory to remove, move or mark it", "session=%s", id);
}

int keeper_restore(struct keeper *k, struct sessions *sessions, struct metrics *metrics, struct err *err) {
    char(*ids)[SNAPSHOT_ID_SIZE] = NULL, text[800];
    size_t n = 0;
    int rc = snapshot_list(k->dir, &ids, &n, err);
    for (size_t i = 0; i < n; i++) {
        struct err why = {0};
        char *state = NULL;
        size_t len = 0;
        if (!snapshot_read(k->dir, ids[i], &state, &len, &why))
            sessions_restore(sessions, state, len, &why);
        free(state);
        if (!why.code && snapshot_ended(k->dir, ids[i]))
            sessions_ended(sessions, ids[i]);
        if (!why.code)
            continue;
        log_warn("a stream cannot go on from its snapshot", "session=%s error=\"%s\"", ids[i], err_text(&why, text, sizeof text));
        if (metrics)
            metric_add(metrics_series(metrics, "brrd_stream_snapshots_total", "unknown\x1frejected"), 1);
        ask_or_log(k, DEED_REJECT, ids[i]);
    }
    if (n)
        log_info("streams go on from their snapshots", "sessions=%d snapshots=%zu", sessions_count(sessions), n);
    free(ids);
    return rc;
}

static bool put(void *ctx, const char *id, char *state, size_t len) { return ask(ctx, DEED_WRITE, id, state, len); }
static void end(void *ctx, const char *id) { ask_or_log(ctx, DEED_END, id); }
static void drop(void *ctx, const char *id) { ask_or_log(ctx, DEED_REMOVE, id); }
static void reject(void *ctx, const char *id) { ask_or_log(ctx, DEED_REJECT, id); }

struct session_keeper keeper_for_sessions(struct keeper *k) {
    return (struct session_keeper){.put = put, .end = end, .drop = drop, .reject = reject, .ctx = k};
}
