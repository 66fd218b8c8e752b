/* desk: the alarms of a running daemon: the model (alarms/alarms.h) with the machine's clocks, its rows in the journal, and orders
 * of people, each checked for the right to give it. Loop thread, except for desk_ask. */
#pragma once
#include "daemon/alarms/alarms.h"
#include "daemon/journal/journal.h"

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
/* What sessions ask the register (live/session.h): the id of the alarm that begins with this entry, before which the session had
 * the alarm of `ret` until e->end_s; the id of the alarm that is on
 * in the session and the sample of its newest change, -1: none is on; whether the alarm is another session's now. */
void desk_name(void *desk, const struct journal_entry *e, bool alone, char ret[JOURNAL_ALARM]);
int64_t desk_on_in(void *desk, const char *session, char ret[JOURNAL_ALARM]);
bool desk_is_of_another(void *desk, const char *alarm, const char *session);
bool desk_holds(void *desk, const char *principal, const char *bed);
/* The streams of snapshots are here: alarms that are on in a session that is gone are cut, those of other daemons are moved. False:
 * it is not known yet, or alarms from before the start are still being read; ask again. */
enum desk_place { DESK_GONE, DESK_HERE, DESK_ELSEWHERE, DESK_ASKED /* not known yet */, DESK_UNKNOWN };
bool desk_settle(void *desk, int (*place)(void *sessions, const char *session), void *sessions);
/* Describes, as entries of the journal, the answers to the alarm of this entry, its channels, the standby of its bed
 * and the technical alarms of its stream; returns their number. */
enum { DESK_ANSWERS = 2, DESK_DESCRIBED = DESK_ANSWERS + 8 };
int desk_describe(void *desk, const struct journal_entry *of, struct journal_entry ret[DESK_DESCRIBED]);
/* Takes such an entry of a stream that goes on here: what is known changes nothing, the journal gets the rest. */
void desk_take_over(void *desk, struct journal_entry *e);
/* The alarm that is on in this session, for the daemon that has its stream: the entry that began it and what people did. Returns
 * how many entries there are; 0: no alarm is on. */
enum { DESK_GIVEN = 1 + DESK_ANSWERS };
int desk_give(void *desk, const char *session, struct journal_entry ret[DESK_GIVEN]);
/* Such entries of another daemon: the alarm is on here, unless this register knows its onset; what people did is taken in both
 * cases. False: alarms from before the start are still being read; ask again. */
bool desk_receive(void *desk, struct journal_entry *list, int n);
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
