/* A thread has a team of its own: itself and helpers, which have its niceness. Work is cut into units, and each
 * lane has a share of them: it takes its own from the front, then those of others from their end. A share is one
 * word that also has the number of the work, so that a helper that was late cannot take from work it was not
 * called for, and reads what the work is only while it has a unit, for whose end the caller waits. All words that
 * a helper reads without one are the team's. */
#include "kernels/lanes.h"

#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/subnormals.h"

enum { UNITS = 32 /* of a lane, at most */, MOST_LANES = 1024, LINE = 64, SPINS = 2000 /* some 40 µs */ };
enum { ENDS, NOTHING, FIRST_WORK }; /* numbers of works */

struct team;
struct lane {
    alignas(LINE) _Atomic uint64_t share; /* work, first unit, behind the last one: 32, 16 and 16 bits */
    _Atomic uint32_t called;              /* the work its helper was called for last */
    _Atomic uint32_t sleeps;              /* its helper does */
    struct team *team;
    pthread_t helper;
};

struct team {
    lanes_item *item;
    const void *ctx;
    int64_t n, units;
    unsigned subnormals;
    uint32_t work;
    int n_lanes, n_helpers;
    alignas(LINE) _Atomic uint32_t left; /* units that are not done */
    _Atomic uint32_t awaited;            /* the caller sleeps until none is left */
    struct lane lanes[];
};

static _Thread_local struct team *own_team;
static _Thread_local int lanes_set;
static _Thread_local bool inside; /* of an item */

static void sleep_while(_Atomic uint32_t *word, uint32_t value) { syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL); }
static void wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1); }

static void pause_a_little(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* ---- taking ---- */

/* A unit of the share, if it is of this work; -1: none is left. */
static int take_unit(_Atomic uint64_t *share, uint32_t work, bool own) {
    uint64_t was = atomic_load(share);
    while (was >> 32 == work && (was >> 16 & 0xffff) < (was & 0xffff))
        if (atomic_compare_exchange_weak(share, &was, own ? was + (1 << 16) : was - 1))
            return (int)(own ? was >> 16 & 0xffff : (was & 0xffff) - 1);
    return -1;
}

static void do_unit(const struct team *t, int unit, int lane) {
    for (int64_t i = unit * t->n / t->units, end = (unit + 1) * t->n / t->units; i < end; i++)
        t->item(t->ctx, i, lane);
}

static void take_units(struct team *t, uint32_t work, int lane) {
    uint32_t done = 0;
    for (int i = 0; i < t->n_lanes; i++)
        for (int unit; (unit = take_unit(&t->lanes[(lane + i) % t->n_lanes].share, work, !i)) >= 0; done++) {
            if (lane && !done)
                subnormals_set(t->subnormals);
            do_unit(t, unit, lane);
        }
    if (done && atomic_fetch_sub(&t->left, done) == done && atomic_load(&t->awaited))
        wake(&t->left);
}

/* ---- helpers ---- */

static uint32_t await_call(struct lane *l, uint32_t last) {
    uint32_t work = last;
    for (int i = 0; i < SPINS && (work = atomic_load(&l->called)) == last; i++)
        pause_a_little();
    while (work == last) {
        atomic_store(&l->sleeps, 1);
        sleep_while(&l->called, last); /* returns at once where it has changed */
        atomic_store(&l->sleeps, 0);
        work = atomic_load(&l->called);
    }
    return work;
}

static void *help(void *arg) {
    struct lane *l = arg;
    inside = true;
    omp_set_num_threads(1); /* oneDNN's */
    for (uint32_t work = NOTHING; (work = await_call(l, work)) != ENDS;)
        take_units(l->team, work, (int)(l - l->team->lanes));
    return NULL;
}

static void call(struct lane *l, uint32_t work) {
    atomic_store(&l->called, work);
    if (atomic_load(&l->sleeps))
        wake(&l->called);
}

static void end_team(void *team) {
    struct team *t = team;
    own_team = NULL;
    for (int i = 1; i <= t->n_helpers; i++)
        call(&t->lanes[i], ENDS);
    for (int i = 1; i <= t->n_helpers; i++)
        pthread_join(t->lanes[i].helper, NULL);
    free(t);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* of the team, so that it ends with its thread */
static int no_key;

/* A fork has the calling thread alone. Where it forks in the middle of an item it still reads its team. */
static void in_child(void) {
    if (!own_team)
        return;
    pthread_setspecific(key, NULL);
    if (!inside)
        free(own_team);
    own_team = NULL;
}

static void make_team_key(void) { no_key = pthread_key_create(&key, end_team) || pthread_atfork(NULL, NULL, in_child); }

void lanes_dismiss(void) {
    if (!own_team)
        return;
    pthread_setspecific(key, NULL);
    end_team(own_team);
}

/* Where threads are short there are fewer helpers than lanes, and the others take their shares. NULL: the caller
 * is alone. */
static struct team *team_of(int lanes) {
    if (own_team && own_team->n_lanes >= lanes)
        return own_team;
    lanes = lanes < lanes_set ? lanes_set : lanes; /* for larger work too */
    lanes_dismiss();
    const size_t bytes = sizeof(struct team) + (size_t)lanes * sizeof(struct lane);
    struct team *t = pthread_once(&once, make_team_key) || no_key ? NULL : aligned_alloc(LINE, bytes);
    if (!t || pthread_setspecific(key, t)) {
        free(t);
        return NULL;
    }
    *t = (struct team){.work = NOTHING, .n_lanes = lanes};
    for (int i = 0; i < lanes; i++)
        t->lanes[i] = (struct lane){.called = NOTHING, .team = t};
    own_team = t;
    while (t->n_helpers + 1 < lanes && !pthread_create(&t->lanes[t->n_helpers + 1].helper, NULL, help, &t->lanes[t->n_helpers + 1]))
        t->n_helpers++;
    return t;
}

/* ---- callers ---- */

static void await_others(struct team *t) {
    for (int i = 0; i < SPINS && atomic_load(&t->left); i++)
        pause_a_little();
    for (uint32_t left; (left = atomic_load(&t->left));) {
        atomic_store(&t->awaited, 1);
        if (atomic_load(&t->left) == left)
            sleep_while(&t->left, left);
        atomic_store(&t->awaited, 0);
    }
}

static void run_work(struct team *t, int lanes, int64_t n) {
    const uint32_t work = t->work = t->work == UINT32_MAX ? FIRST_WORK : t->work + 1;
    t->n = n;
    t->units = n < (int64_t)lanes * UNITS ? n : (int64_t)lanes * UNITS;
    t->subnormals = subnormals_keep() & SUBNORMALS_FLUSHED;
    subnormals_restore(t->subnormals);
    atomic_store(&t->left, (uint32_t)t->units);
    for (int i = 0; i < lanes; i++) {
        const uint64_t first = (uint64_t)(i * t->units / lanes), end = (uint64_t)((i + 1) * t->units / lanes);
        atomic_store(&t->lanes[i].share, (uint64_t)work << 32 | first << 16 | end);
    }
    for (int i = 1; i < lanes && i <= t->n_helpers; i++)
        call(&t->lanes[i], work);
    take_units(t, work, 0);
    await_others(t);
}

void lanes_for(int lanes, int64_t n, lanes_item *item, const void *ctx) {
    const int most = lanes < MOST_LANES ? lanes : MOST_LANES, used = n < most ? (int)n : most;
    struct team *t = inside || used < 2 ? NULL : team_of(used);
    const bool was = inside;
    const int own = lanes_set; /* an item may open a stream */
    inside = true;
    if (t) {
        t->item = item;
        t->ctx = ctx;
        run_work(t, used, n);
    }
    for (int64_t i = 0; !t && i < n; i++)
        item(ctx, i, 0);
    inside = was;
    lanes_set = own;
}

struct units {
    const struct lanes_work *work;
    struct err *err;
    pthread_mutex_t *lock; /* of rc and err */
    int *rc;
};

static void run_unit(const void *ctx, int64_t i, int lane) {
    const struct units *u = ctx;
    struct err err = {0};
    if (u->work->lanes == 1 && *u->rc)
        return;
    const int rc = u->work->run(u->work->ctx, u->work->first + i, lane, &err);
    if (rc) {
        LOCKED(u->lock);
        *u->rc = rc;
        if (u->err)
            *u->err = err;
    }
}

int lanes_run(const struct lanes_work *work, struct err *err) {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int rc = 0, threads = omp_get_max_threads();
    omp_set_num_threads(1); /* oneDNN's */
    lanes_for(work->lanes, work->n, run_unit, &(struct units){work, err, &lock, &rc});
    omp_set_num_threads(threads);
    return rc;
}

int lanes_here(void) { return inside ? 1 : lanes_set ? lanes_set : omp_get_max_threads(); }

int lanes_set_here(int lanes) {
    const int was = lanes_set;
    lanes_set = lanes;
    return was;
}
