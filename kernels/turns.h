/* turns: jobs that share a device compute one after the other, each for a while, and each gets the same share of the time. A job
 * has a place. Before each call on the device its stream asks for the turn (stream_share, kernels/device.h), keeps it for
 * TURNS_HOLD_MS at least, and passes it on, once its work has drained, to the place that has had the least time. A place that
 * computes nothing meanwhile, such as a job that reads a file, loses its turn at once, and one whose call hangs loses it after
 * TURNS_HUNG_MS. Two jobs may compute at once then: results never depend on turns, which only keep jobs from slowing each other
 * down. While jobs of different priority share a device, those of the highest get nine tenths of the time.
 *
 * The structure may lie in memory that processes share; a process that dies holds up nobody. Any thread; a place asks on one thread
 * at a time. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { TURNS_MAX = 4, TURNS_NOBODY = -1 };
enum {
    TURNS_HOLD_MS = 100,
    TURNS_QUIET_MS = 5,     /* without a call: the place loses its turn */
    TURNS_QUEUED_MS = 250,  /* the same while work may be queued on the device, or when the turn has just come */
    TURNS_HUNG_MS = 10000,  /* in one call */
    TURNS_CREDIT_MS = 2000, /* time that a place may catch up after it computed nothing */
    TURNS_FIRST = 9         /* times the share of a place of lower priority */
};

struct turns_place {
    bool joined, waits;
    bool busy;                          /* in a call */
    bool queued;                        /* the device may still be at work on its calls, or it has not begun its turn */
    int64_t priority, used_ms, last_ms; /* last_ms: when its last call began or ended */
};

struct turns {
    pthread_mutex_t lock;
    int holder, waiting;
    int64_t since_ms; /* of the turn */
    uint32_t passed;  /* changes with each turn; waiting threads sleep on it */
    int64_t turns, waited_ms;
    struct turns_place at[TURNS_MAX];
};

/* A place among the jobs of a device; turns NULL: the job has the device for itself. */
struct turn_at {
    struct turns *turns;
    int place;
};

void turns_init(struct turns *t);
/* A job begins at this place, and has ended there: the second also for one whose process has died. */
void turns_join(struct turn_at turn, int64_t priority);
void turns_leave(struct turn_at turn);
/* Sleeps until it is the place's turn, and begins a call. Returns the milliseconds slept. */
int64_t turns_enter(struct turn_at turn);
/* A call begins that waits for queued work alone, for which no turn is needed. */
void turns_keep(struct turn_at turn);
/* The call has ended; queued: the device may still work on it. */
void turns_rest(struct turn_at turn, bool queued);
/* True if the place holds the turn and is to pass it on: its queued work must drain first, and turns_rest say so. With queued work
 * a place that asks keeps its turn. */
bool turns_ends(struct turn_at turn);
/* Turns since the last call of this function, and milliseconds that places have waited. */
void turns_take_counts(struct turns *t, int64_t *ret_turns, int64_t *ret_waited_ms);

/* turns_enter without sleep: true if the place has the turn, else it is one that waits, and asks again. */
bool turns_ask(struct turn_at turn);
