/* owed: what a hook is owed: entries that it has not been told, by bed. A bed waits once, whatever happened to it: who is next is
 * decided by hooks/fair over the callers, alarms that are on before ends and answers, these before technical alarms, and replays
 * last. Technical alarms of a kind are one bed of the daemon; the escalations of a caller's beds are one bed too: the first is told
 * at once, what follows within OWED_GROUP_MS waits for one message. Test alarms are beds of their own. Beyond OWED_BEDS
 * the caller with most beds gets no new one; a bed whose alarm is on makes room for nobody. The caller of these
 * functions holds a lock. */
#pragma once
#include "daemon/hooks/fair.h"
#include "daemon/hooks/telling.h"

enum {
    OWED_BEDS = 4096,
    OWED_ITEMS = 64,       /* of a bed */
    OWED_TECHNICAL = 1024, /* of a group; beyond it the oldest are superseded */
    OWED_GROUP_MS = 30 * 1000,
    OWED_KEY = JOURNAL_PRINCIPAL + JOURNAL_CLIENT + 1
};

/* A bed with something to tell, or whose group was told lately. */
struct owed_bed {
    char key[OWED_KEY];
    struct fair_entry place;
    struct telling_item *items, *flying; /* oldest first; flying: of the attempt on its way, the caller's */
    int n;
    bool reported;               /* that its delivery has failed */
    int tries;                   /* attempts of this delivery */
    int64_t first_try_ms;        /* of this delivery; 0: none yet */
    int64_t due_ms, pause_ms;    /* of what was tried; a new alarm does not wait */
    int64_t begun_ms;            /* of a group of escalations: its newest attempt; 0: none */
    struct journal_entry newest; /* busy: what is being told */
};

enum { OWED_RANKS = 4 };
struct owed {
    struct map *beds;     /* by key */
    struct map *of_alarm; /* by id: the newest item of the alarm, and by next_of_alarm the others */
    struct fair fair;
    int beds_of[OWED_RANKS]; /* how many have this place.rank */
    int waiting;             /* entries of all beds */
    int64_t rejoin_ms, stale_ms;
    /* An entry is done without being told; outcome: why. */
    void (*settled)(void *ctx, const struct journal_entry *e, const char *outcome);
    void *ctx;
};

bool owed_init(struct owed *o); /* false: out of memory; the caller sets the rest */
void owed_done(struct owed *o);
/* The hook is owed this line; instead: it tells it in place of an escalation. Returns its bed; NULL: it is settled. */
struct owed_bed *owed_add(struct owed *o, struct journal_line *line, bool instead, int64_t now_ms);
/* Whether a hook that wants no beginnings and ends is owed this one: an escalation of the alarm waits, or is on its way, or its end
 * does in place of one; of a beginning: the end does, after which the alarm is on again. */
bool owed_escalates(const struct owed *o, const struct journal_entry *e);
/* The alarm is over, or answered: nobody needs to hear its escalations any more, nor that it went on after one. */
void owed_settle_escalations(struct owed *o, const struct journal_entry *e, const char *outcome);
/* Somebody has acknowledged the alarm of this entry: that is told with what waits of it. */
void owed_answered(struct owed *o, const struct journal_entry *e);
/* The bed to tell about now, NULL: none; *ret_ms: when to look again. at_once: attempts that may be on their way. */
struct owed_bed *owed_next(struct owed *o, int64_t now_ms, int at_once, int64_t *ret_ms);
/* Takes what is told next off the bed, which is busy until owed_end. */
bool owed_begin(struct owed *o, struct owed_bed *b, int64_t now_ms, struct telling *ret);
/* Settles the deliveries of a message with this outcome, or, if it is NULL, those that have one of their own. */
void owed_settle(struct owed *o, struct telling *t, const char *outcome);
/* The attempt is over. again: what was told goes back to the bed, as far as it still needs to be told; else it was settled. */
void owed_end(struct owed *o, struct owed_bed *b, struct telling *t, bool again);
void owed_forget_if_done(struct owed *o, struct owed_bed *b, int64_t now_ms);
/* The attempt has failed: the next one for what was tried comes after 1 s, then after twice as long each time up to 60 s; refused:
 * after 60 s. */
void owed_put_off(struct owed_bed *b, int64_t now_ms, bool refused);
