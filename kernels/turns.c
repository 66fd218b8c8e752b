/* Shares are kept as in stride scheduling: each place counts the time that it has used, divided by its weight, and the turn goes to
 * the waiting place with the least. So a job whose single calls take longer than a turn gets no more time than one with short
 * calls.
 */
#include "kernels/turns.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/shared_lock.h"

#define LOAD(x)     __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELEASE)

void turns_init(struct turns *t) {
    memset(t, 0, sizeof *t);
    shared_lock_init(&t->lock);
    t->holder = TURNS_NOBODY;
}

/* A process that died with the lock may have left the count of waiting places wrong, and a little time in an account. */
static void lock(struct turns *t) {
    int died, waiting = 0;
    if (shared_lock_taken(&t->lock, pthread_mutex_lock(&t->lock), &died) || !died)
        return;
    for (int i = 0; i < TURNS_MAX; i++)
        waiting += t->at[i].waits;
    STORE(t->waiting, waiting);
}

static void unlock(struct turns *t) { pthread_mutex_unlock(&t->lock); }

/* ---- under the lock ---- */

/* The place's account at now_ms, with its present turn. */
static int64_t account_of(const struct turns *t, int place, int64_t now_ms) {
    const struct turns_place *p = &t->at[place];
    int64_t held_ms = t->holder == place ? now_ms - t->since_ms : 0;
    for (int i = 0; i < TURNS_MAX; i++)
        if (t->at[i].joined && t->at[i].priority > p->priority)
            return p->used_ms + held_ms * TURNS_FIRST;
    return p->used_ms + held_ms;
}

/* The waiting place that has had the least time. */
static int next_place(const struct turns *t) {
    int next = TURNS_NOBODY;
    for (int i = 0; i < TURNS_MAX; i++)
        if (t->at[i].waits && (next == TURNS_NOBODY || t->at[i].used_ms < t->at[next].used_ms))
            next = i;
    return next;
}

/* The holder's turn is over: it was long enough, and another place is behind it. */
static bool is_over(const struct turns *t, int64_t now_ms) {
    const int next = next_place(t);
    return next != TURNS_NOBODY && now_ms - t->since_ms >= TURNS_HOLD_MS && account_of(t, t->holder, now_ms) >= t->at[next].used_ms;
}

/* The holder does not use its turn. */
static bool is_lost(const struct turns *t, int64_t now_ms) {
    const struct turns_place *p = &t->at[t->holder];
    const int64_t quiet_ms = now_ms - LOAD(p->last_ms);
    return quiet_ms >= (LOAD(p->busy) ? TURNS_HUNG_MS : LOAD(p->queued) ? TURNS_QUEUED_MS : TURNS_QUIET_MS);
}

static void give_turn(struct turns *t, int to, int64_t now_ms) {
    if (t->holder != TURNS_NOBODY)
        t->at[t->holder].used_ms = account_of(t, t->holder, now_ms);
    if (to != TURNS_NOBODY) {
        STORE(t->at[to].queued, true);
        STORE(t->at[to].busy, false);
        STORE(t->at[to].last_ms, now_ms);
    }
    t->since_ms = now_ms;
    STORE(t->holder, to);
    __atomic_add_fetch(&t->turns, to != TURNS_NOBODY, __ATOMIC_RELAXED);
    __atomic_add_fetch(&t->passed, 1, __ATOMIC_ACQ_REL);
    syscall(SYS_futex, &t->passed, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void set_waits(struct turns *t, int place, bool waits) {
    STORE(t->waiting, t->waiting + (int)waits - (int)t->at[place].waits);
    t->at[place].waits = waits;
}

/* The least account of the others, as a place begins; of nobody: 0. */
static int64_t least(const struct turns *t, int place) {
    int64_t used_ms = INT64_MAX;
    for (int i = 0; i < TURNS_MAX; i++)
        if (i != place && t->at[i].joined && t->at[i].used_ms < used_ms)
            used_ms = t->at[i].used_ms;
    return used_ms == INT64_MAX ? 0 : used_ms;
}

static void begin_to_wait(struct turns *t, int place) {
    struct turns_place *p = &t->at[place];
    const int64_t credit_ms = t->holder == TURNS_NOBODY ? 0 : t->at[t->holder].used_ms - TURNS_CREDIT_MS;
    p->used_ms = p->used_ms > credit_ms ? p->used_ms : credit_ms;
    set_waits(t, place, true);
}

/* ---- of places ---- */

void turns_join(struct turn_at turn, int64_t priority) {
    struct turns *t = turn.turns;
    if (!t)
        return;
    lock(t);
    set_waits(t, turn.place, false);
    t->at[turn.place] = (struct turns_place){.joined = true, .priority = priority, .used_ms = least(t, turn.place)};
    unlock(t);
}

void turns_leave(struct turn_at turn) {
    struct turns *t = turn.turns;
    if (!t)
        return;
    lock(t);
    set_waits(t, turn.place, false);
    t->at[turn.place].joined = false;
    if (t->holder == turn.place)
        give_turn(t, next_place(t), clock_ms());
    unlock(t);
}

bool turns_ask(struct turn_at turn) {
    struct turns *t = turn.turns;
    struct turns_place *p = &t->at[turn.place];
    lock(t);
    const int64_t now_ms = clock_ms();
    if (t->holder == turn.place && !LOAD(p->queued) && is_over(t, now_ms))
        give_turn(t, next_place(t), now_ms);
    if (t->holder != turn.place && !p->waits)
        begin_to_wait(t, turn.place);
    if (t->holder != turn.place && next_place(t) == turn.place && (t->holder == TURNS_NOBODY || is_lost(t, now_ms)))
        give_turn(t, turn.place, now_ms);
    const bool has = t->holder == turn.place || !p->joined;
    if (has) {
        set_waits(t, turn.place, false);
        STORE(p->last_ms, now_ms);
        STORE(p->busy, true);
    }
    unlock(t);
    return has;
}

void turns_keep(struct turn_at turn) {
    struct turns_place *p = &turn.turns->at[turn.place];
    STORE(p->last_ms, clock_ms());
    STORE(p->busy, true);
}

int64_t turns_enter(struct turn_at turn) {
    static const struct timespec look = {.tv_nsec = TURNS_QUIET_MS * 1000 * 1000};
    struct turns *t = turn.turns;
    const int64_t begun_ms = clock_ms();
    if (LOAD(t->holder) == turn.place && !LOAD(t->waiting)) {
        turns_keep(turn); /* another place may have taken the turn in between: then one call runs beside another one */
        return 0;
    }
    for (uint32_t passed = LOAD(t->passed); !turns_ask(turn); passed = LOAD(t->passed))
        syscall(SYS_futex, &t->passed, FUTEX_WAIT, passed, &look, NULL, 0);
    const int64_t waited_ms = clock_ms() - begun_ms;
    __atomic_add_fetch(&t->waited_ms, waited_ms, __ATOMIC_RELAXED);
    return waited_ms;
}

void turns_rest(struct turn_at turn, bool queued) {
    struct turns_place *p = &turn.turns->at[turn.place];
    STORE(p->last_ms, clock_ms());
    STORE(p->queued, queued);
    STORE(p->busy, false);
}

bool turns_ends(struct turn_at turn) {
    struct turns *t = turn.turns;
    if (LOAD(t->holder) != turn.place || !LOAD(t->waiting))
        return false;
    lock(t);
    const bool over = t->holder == turn.place && is_over(t, clock_ms());
    unlock(t);
    return over;
}

void turns_take_counts(struct turns *t, int64_t *ret_turns, int64_t *ret_waited_ms) {
    *ret_turns = __atomic_exchange_n(&t->turns, 0, __ATOMIC_RELAXED);
    *ret_waited_ms = __atomic_exchange_n(&t->waited_ms, 0, __ATOMIC_RELAXED);
}
