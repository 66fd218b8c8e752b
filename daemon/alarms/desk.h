/* desk: the alarms of a running daemon: the model (alarms/alarms.h) with the machine's clocks, its rows in the journal, and orders
 * of people, each checked for the right to give it. Loop thread, except for desk_ask. */
#pragma once
#include "daemon/alarms/alarms.h"
#include "daemon/journal/journal.h"
#include "daemon/journal/register.h"

enum {
    DESK_WAIT_MS = 3000,
    DESK_WRITE_MS = 500 /* for which an answer to a person waits for the disk */,
    DESK_TEST_MS = 20 * 1000 /* a test alarm is on for so long */,
    DESK_PREFIX = 6 /* characters of an id that may stand for it */
};
/* Alarms of the newest days are taken back from the journal at the start. */
#define DESK_PAST_MS    (3 * 24 * 3600 * INT64_C(1000))
#define DESK_SILENCE_MS (2 * 60 * INT64_C(1000)) /* unless the order says another time */

struct desk_config {
    struct alarms_plan plan;
    struct journal *journal; /* borrowed; may be NULL */
    void (*wake)(void *ctx); /* makes the loop call desk_take. Any thread */
    void *wake_ctx;
    /* Who streams the bed of this name: "" for one of the roster that nobody streams; NULL: there is no such bed. NULL: every name
     * is a bed. Loop thread. */
    const char *(*streamer)(void *ctx, const char *bed);
    void *streamer_ctx;
};

struct desk;
int desk_new(const struct desk_config *config, struct desk **ret, struct err *err);
void desk_free(struct desk *d); /* nobody asks any more; NULL is fine */
/* Reads the journal's file on a thread, for which it waits DESK_WAIT_MS at most; what is read later is merged then. A file that
 * cannot be read is logged. */
void desk_restore(struct desk *d);
/* An entry that was made: journal_observe. It receives when its alarm began. */
void desk_note(void *desk, struct journal_entry *e);
/* What sessions ask of it; borrows d. */
struct session_register desk_register(struct desk *d);
void desk_tick(struct desk *d); /* every second */
struct alarms *desk_alarms(const struct desk *d);
struct alarms_now desk_now(void);

/* What a person wants. */
struct desk_order {
    enum { DESK_ANSWER, DESK_STANDBY, DESK_TEST } kind;
    char id[JOURNAL_ALARM]; /* ANSWER: or its first DESK_PREFIX characters or more, if one open alarm alone has them; TEST: receives
                               the id of the test alarm */
    char bed[JOURNAL_CLIENT];   /* STANDBY, TEST */
    struct alarm_answer answer; /* its author is that of every order */
    int64_t until_ms;           /* STANDBY */
    int64_t journaled;          /* receives the number of its entry, for journal_has; 0: it made none */
    /* Whether the person may give this order for the bed of this name that this principal streams ("": anybody): 0, NOT_FOUND or
     * DENIED. Called on the loop thread. */
    int (*permit)(void *ctx, const char *principal, const char *bed, struct err *err);
    void *ctx;
};
/* Carries it out. */
int desk_do(struct desk *d, struct desk_order *order, struct err *err);
/* The same from any thread, which waits until the loop has done it, and DESK_WRITE_MS for its entry to be on the disk. UNAVAILABLE:
 * it did not within DESK_WAIT_MS, and will not. */
int desk_ask(struct desk *d, struct desk_order *order, struct err *err);
void desk_take(struct desk *d); /* carries out what was asked */
/* From now on desk_ask fails at once, and the journal is not read any more. Before journal_stop. */
void desk_stop(struct desk *d);
