/* hooks: tells commands and receivers of POSTs about alarms. A hook is told the state of each bed (telling.h): one attempt for a
 * bed at a time, in order, at most HOOKS_AT_ONCE for a hook, and for one caller half of them while others wait (owed.h); a new
 * alarm is tried at once. A POST is tried again, after 1 s and then up to 1 min, until it was taken; one that says that an alarm is
 * over is given up when the receiver refuses it, or when it is HOOKS_GIVE_UP_MS old; a command runs once. Needs no disk: an entry
 * is told when the journal has it or soon after it was made, and secrets and CAs are read at the start. Deliveries that are not
 * done lie in the journal's outbox, so they survive a restart; a receiver may see one twice when it or the daemon dies between
 * attempt and answer, and knows it by its id. A hook whose files cannot be read is tried again with each delivery, and stops
 * nothing else. Loop thread, except for the outlet and hooks_test. */
#pragma once
#include "base/metrics.h"
#include "daemon/hooks/hook.h"
#include "daemon/journal/outlet.h"

#define HOOKS_GIVE_UP_MS (24 * 3600 * INT64_C(1000))
enum {
    HOOKS_AT_ONCE = 4,
    HOOKS_LATE_MS = 15 * 1000,
    HOOKS_BEAT_MS = 60 * 1000,
    HOOKS_TRIES = 2 /* a delivery has failed after so many attempts, after HOOKS_LATE_MS, or when it was refused */
};

struct hooks_config {
    const struct hook *list; /* n hooks, borrowed */
    int n;
    int64_t rejoin_ms;       /* an alarm that ends and begins again within it is told once */
    int64_t stale_ms;        /* an alarm of an earlier process without an end is over after so long */
    const char *shared;      /* the folder that other daemons of the same streams use too (told_marks.h), or NULL */
    const char *page;        /* the address of the daemon's pages for people, or NULL */
    struct metrics *metrics; /* may be NULL */
    void (*wake)(void *ctx); /* called when a result waits; any thread; may be NULL */
    void *wake_ctx;
};

struct journal;
struct hooks;
int hooks_new(const struct hooks_config *config, struct hooks **ret, struct err *err);
/* What the journal is given; valid until hooks_free. */
const struct outlet *hooks_outlet(const struct hooks *all);
/* Starts a thread for each hook; further ones follow when they are needed. The journal is told what is done. */
int hooks_start(struct hooks *all, struct journal *journal, struct err *err);
/* Ends the threads; attempts in progress are given up. NULL is fine. */
void hooks_stop(struct hooks *all);
void hooks_free(struct hooks *all); /* after the journal has stopped; NULL is fine */

int hooks_count(const struct hooks *all);
const struct hook *hooks_at(const struct hooks *all, int i);
/* The hooks by which people hear of this entry, as bits. */
unsigned hooks_people(const struct hooks *all, const struct journal_entry *e);
/* Once a second while the daemon works: tells each hook of the kind heartbeat once in HOOKS_BEAT_MS, for a dead man's switch; a
 * hook that has something to be told already gets none. */
void hooks_beat(struct hooks *all);
/* One attempt with a test alarm; the caller waits. After a success what waits is tried at once. Any thread. */
int hooks_test(const struct hooks *all, int i, const atomic_bool *stop, struct err *err);

/* How a delivery of an alarm went, once for each: delivered, or failed, after which it is still tried. */
struct hooks_result {
    int hook;
    bool delivered;
    struct journal_entry entry; /* the newest one that it covers */
};
bool hooks_take_result(struct hooks *all, struct hooks_result *ret); /* false: none waits */

/* Once a second: notices deliveries that take too long, and once a minute names in the log each hook that does not deliver. */
void hooks_tick(struct hooks *all);
/* The state of a hook. */
struct hooks_state {
    bool failing;     /* its newest delivery has failed, or its files cannot be read */
    int waiting;      /* entries that it was not told */
    int64_t since_ms; /* failing: since when, monotonic */
    char error[256];  /* failing: why */
};
void hooks_describe(struct hooks *all, int i, struct hooks_state *ret);
bool hooks_ready(struct hooks *all); /* none is failing */
