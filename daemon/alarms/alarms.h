/* alarms: the register of all alarms of the daemon: which alarm of which bed is on, who answered it, and when the next people are
 * called. Nothing else decides that an alarm is on, over, the same, or whose; streams report, pages and hooks read. Pure: it reads
 * no clock and no file; each function gets the time. What must survive a restart leaves through the `row` callback as an appended
 * row of the journal, and comes back through alarms_began, alarms_ended, alarms_answer, alarms_escalated, alarms_technical,
 * alarms_standby and alarms_held between alarms_restore(true) and alarms_restore(false), into another register, which alarms_merge
 * takes. Bounded: ALARMS_MAX alarms, of which closed ones go first, those of the principal who has most before others', and
 * ALARMS_STANDBYS beds, a quarter of them for each caller. Loop thread. */
#pragma once

#include "daemon/alarms/alarm.h"

enum { ALARMS_MAX = 4096, ALARMS_STANDBYS = 1024, ALARMS_STEPS = 8, ALARMS_ADDED = 64 };
#define ALARMS_SILENCE_MS (10 * 60 * INT64_C(1000))
#define ALARMS_STATUS_MS  (5 * 60 * INT64_C(1000))
#define ALARMS_STANDBY_MS (24 * 3600 * INT64_C(1000))
/* An answer covers what is on again within so long. */
#define ALARMS_AGAIN_MS (5 * 60 * INT64_C(1000))
/* After a restart a technical alarm stays on for so long without its cause, which needs time to show itself again. */
#define ALARMS_RETURN_MS (60 * INT64_C(1000))

struct alarms_now {
    int64_t boot_ms; /* CLOCK_BOOTTIME: durations; nobody can set it */
    int64_t wall_ms; /* Unix time: dates for people */
};

/* What the configuration says of a bed. */
struct alarms_rule {
    const char *bed;
    bool off;         /* nobody is told of its patient's alarms; they are listed, and in the journal */
    int64_t least_ms; /* nor of an alarm that ends by itself within this time */
};

/* The escalation: step i is taken so long after the alarm began, unless somebody acknowledged it; the last step is repeated. */
struct alarms_plan {
    int64_t after_ms[ALARMS_STEPS];
    int n; /* 0: nobody else is called */
    int64_t repeat_ms;
    int64_t rejoin_ms;         /* an alarm of a bed so soon after the one before is the same alarm */
    const char *const *roster; /* n_roster names, borrowed: such a bed has one holder (alarms_holds) */
    int n_roster;
    /* Whether a valid token of this principal has the bed among its names=: 1; 0: only others' have; -1: none has. May be NULL. */
    int (*named)(void *ctx, const char *principal, const char *bed);
    void *named_ctx;
    int64_t hold_ms;           /* for so long a holder without such a token may be gone */
    struct alarms_rule *rules; /* n_rules, borrowed, of some beds; the first ones (alarms_use_rules) */
    int n_rules;
};

/* What is written to the journal. */
struct alarms_row {
    enum {
        ALARMS_ROW_ANSWERED,
        ALARMS_ROW_FORGOTTEN, /* the answer does not cover it any more: it has been on for ALARMS_STATUS_MS */
        ALARMS_ROW_ESCALATED,
        ALARMS_ROW_STANDBY,
        ALARMS_ROW_TECHNICAL_ON,
        ALARMS_ROW_TECHNICAL_OFF,
        ALARMS_ROW_HOLDER,
        ALARMS_ROW_DUE /* people are told now: it has been on for the least duration of its bed, or is cut */
    } kind;
    const struct alarm *alarm;         /* NULL: standby */
    const struct alarm_answer *answer; /* ANSWERED */
    int step;                          /* ESCALATED: from 1; beyond the plan: a repeat of the last one */
    const char *bed;                   /* STANDBY, HOLDER */
    const char *holder;                /* HOLDER */
    int64_t until_ms;                  /* STANDBY, as Unix time; 0: it ends now */
    const struct alarm_author *author; /* STANDBY */
    int64_t at_ms, boot_ms;            /* Unix time, and by CLOCK_BOOTTIME, 0: unknown */
};
typedef void alarms_row_fn(void *ctx, const struct alarms_row *row);

struct alarms;
/* NULL when out of memory. row may be NULL. */
struct alarms *alarms_new(const struct alarms_plan *plan, alarms_row_fn *row, void *ctx);
void alarms_free(struct alarms *all); /* NULL is fine */
/* Until restore is false again, nothing is written and no step is taken. */
void alarms_restore(struct alarms *all, bool restore);
/* Takes what `past` knows of before the start out of it: at most so many alarms of patients at a time; true: that was all. This
 * register knows better which alarms that it has are on, for its streams have reported them; their answers it takes. */
bool alarms_merge(struct alarms *all, struct alarms *past, int most, const struct alarms_now *now);

/* Takes a copy in place of the rules before, for alarms that begin from now on; what a rule held back that is gone is told. False:
 * out of memory, and some are missing. */
bool alarms_use_rules(struct alarms *all, const struct alarms_rule *rules, int n);
bool alarms_are_off(const struct alarms *all, const char *bed);
/* People were told of this alarm at that time: from the journal, after a restart. */
void alarms_due(struct alarms *all, const char *id, int64_t at_ms, const struct alarms_now *now);

/* ---- what streams report ---- */

struct alarms_start {
    const char *id, *session, *bed, *principal, *model, *where; /* where: NULL or "": an earlier onset's stays */
    bool live, test;
    double start_s, value;
    int64_t on_ms;    /* Unix time */
    int64_t first_ms; /* Unix time, of one that is on again: when it began; 0: this is its beginning, or it is known */
    bool answered;    /* of a row of the journal: somebody had acknowledged the alarm */
    bool untold;      /* of a row of the journal: a rule of the bed held the alarm back, which may be gone; else no new rule does */
    const char *before; /* the alarm of its session that went off last, at before_s; NULL or "": there was none */
    double before_s;
    bool alone; /* no other stream of the bed sends: only then it may take over the alarm of one (alarms_name) */
};
/* The id of the alarm that begins: of the bed's alarm that is on in a stream that is gone, or ended within plan.rejoin_ms, also
 * where the stream alone knows that one because it comes from another daemon; else of its session and sample. Only a bed with a
 * name of its own has an alarm beyond its session. A bed of the roster keeps its alarm when another caller comes to hold it. */
void alarms_name(const struct alarms *all, const struct alarms_start *start, const struct alarms_now *now, char ret[JOURNAL_ALARM]);
/* An alarm began. An alarm that is known goes on: it is on again, in this session. Its answer stays unless it was given so long ago
 * that it does not cover this (ALARMS_AGAIN_MS). What the register knows already, or knows better, changes nothing. A new live one
 * ends every silence. NULL when out of memory. */
const struct alarm *alarms_began(struct alarms *all, const struct alarms_start *start, const struct alarms_now *now);
/* The alarm of this id, or else the alarm of this session that is on, is off, if there is one and this session has it: the end of a
 * stream whose bed's alarm goes on in another one changes nothing. why: "ended" when the detector ended
 * it; any other reason means that the monitoring stopped while the alarm was on. */
struct alarms_end {
    const char *id, *session, *why;
    double at_s;    /* seconds of the session; NaN: unknown */
    int64_t off_ms; /* Unix time */
};
void alarms_ended(struct alarms *all, const struct alarms_end *end, const struct alarms_now *now);
/* Every second of an alarm that is shown: whether a stream of its bed is heard. Of one that is not, whose caller held the bed, the
 * caller is whoever holds it now. */
void alarms_look_at_bed(struct alarms *all, const char *id, bool heard);
/* These channels carried the alarm at an onset at another daemon, unless it has some. */
void alarms_carried_by(struct alarms *all, const char *id, const char *where);
/* The alarm that is on in this session; NULL: there is none. */
const struct alarm *alarms_on_in(const struct alarms *all, const char *session);
/* why: of the end of an alarm whose cause is not over. */
#define ALARMS_ENDED  "the stream has ended"
#define ALARMS_GONE   ALARMS_ENDED ", and nothing is heard of the bed"
#define ALARMS_STANDS "the bed is in standby"
#define ALARMS_MOVED  "the stream has moved to another daemon"
bool alarms_is_over(const char *why);
bool alarms_is_of_stream(enum alarm_kind kind); /* nothing is heard of it: a move to another daemon ends the alarm */
/* The stream of this session is over: its connection is not lost any more, but nobody hears the bed either, and nobody
 * has seen to what was wrong with it. */
void alarms_gone(struct alarms *all, const char *session);
/* Whether the alarm's newest change is of this session, and later than this second of it. */
bool alarms_knows(const struct alarm *a, const char *session, double at_s);
/* The alarm that this onset of the session belongs to, as far as the register knows: it is on in the session, was on then, was cut
 * later, or another stream of the bed has taken it over since. NULL: it is new. */
const struct alarm *alarms_of_onset(const struct alarms *all, const struct alarms_start *start, const struct alarms_now *now);
/* Another daemon has the stream of this session, and its alarms; the patient's: what an older stream of the bed says of that from
 * now on is old. A register that is restored keeps the alarm with its answer, in case a later row says that it came back; if none
 * does, alarms_merge leaves it out. */
void alarms_moved(struct alarms *all, const char *session, const struct alarms_now *now);
/* Its answer did not cover it any more from that time on: from the journal, after a restart. */
void alarms_forgotten(struct alarms *all, const char *id, int64_t at_ms, const struct alarms_now *now);
/* Step `step` of this alarm was taken at that time: from the journal, after a restart. */
void alarms_escalated(struct alarms *all, const char *id, int step, int64_t at_ms, const struct alarms_now *now);
/* A hook has told people of the alarm (step 0) or of a step, or has failed to. The next step is taken now if this is the present
 * one and all hooks by which people should have heard of it have failed. */
struct alarms_told {
    const char *id;
    int step, hook;
    bool delivered;
    unsigned people; /* the hooks by which people should hear of it, as bits */
};
void alarms_hear(struct alarms *all, const struct alarms_told *told, const struct alarms_now *now);

/* ---- technical alarms ---- */

/* Between begin and end each cause that holds now is named, every second; an alarm begins when its cause has held for the delay of
 * its kind, and ends when a round does not name it. A bed in standby has none. */
struct alarms_cause {
    enum alarm_kind kind;
    const char *bed, *principal, *session, *why; /* "" where there is none; why NULL, with no_new: as it was */
    int64_t held_ms;                             /* it had held for so long before the daemon's restart */
    bool no_new;                                 /* it keeps an alarm that is on, and begins none */
};
/* Who holds a bed of the roster: whose tokens have it among their names; where no valid one has, the first who streamed it, until
 * it has been gone for plan.hold_ms with no alarm of the bed open. A stream of another caller with this name is not the bed. Also
 * true of anybody where nobody holds it; false: the roster has no such bed. */
bool alarms_holds(const struct alarms *all, const char *principal, const char *bed);
/* A bed of the roster that another one than this caller holds: its rules and its standby are not this caller's. */
bool alarms_is_anothers(const struct alarms *all, const char *principal, const char *bed);
/* This caller held the bed at that time without a token that names it: from the journal, after a restart. */
void alarms_held(struct alarms *all, const char *principal, const char *bed, int64_t at_ms, const struct alarms_now *now);
/* A live stream of this name is open, which began at opened_ms (Unix time): each second. */
void alarms_streams(struct alarms *all, const char *principal, const char *bed, int64_t opened_ms, const struct alarms_now *now);
void alarms_round_begin(struct alarms *all);
/* The stream of this cause is connected: a connection that was lost is back, also one of before a restart. */
void alarms_round_back(struct alarms *all, const struct alarms_cause *stream);
/* This alarm began, or is over, at that time: from the journal, after a restart. */
struct alarm *alarms_technical(struct alarms *all, const char *id, const struct alarms_cause *cause, int64_t on_ms,
                               const struct alarms_now *now); /* NULL when out of memory */
void alarms_technical_ended(struct alarms *all, const char *id);
/* The technical alarms that are on and belong to the stream of this cause, at most `most`; returns their number. */
int alarms_technical_of(const struct alarms *all, const struct alarms_cause *stream, const struct alarm **ret, int most);
/* The cause is there. True if its alarm is on. */
bool alarms_round_put(struct alarms *all, const struct alarms_cause *cause, const struct alarms_now *now);
/* Ends the alarms whose causes are gone, some in a call. True: there are more; call again in another turn of the loop. */
bool alarms_round_end(struct alarms *all, const struct alarms_now *now);

/* ---- what people do ---- */

/* The same answer twice is one. NOT_FOUND: there is no such alarm; INVALID: the answer cannot be given to it. */
int alarms_answer(struct alarms *all, const char *id, const struct alarm_answer *answer, const struct alarms_now *now,
                  struct err *err);
/* The bed is not monitored until then (Unix time, at most ALARMS_STANDBY_MS from now): it has no technical alarms. 0: it is
 * monitored again. INVALID: the end is not in this span, or the bed has no name. EXHAUSTED: the caller has its share of beds in
 * standby, or all together have. */
int alarms_standby(struct alarms *all, const char *bed, int64_t until_ms, const struct alarm_author *author,
                   const struct alarms_now *now, struct err *err);
/* The end of the standby of the bed as Unix time; 0: it has none. *ret_author (may be NULL): who set or ended it, if
 * anybody did lately. */
int64_t alarms_in_standby(const struct alarms *all, const char *bed, const struct alarms_now *now,
                          const struct alarm_author **ret_author);

/* ---- time ---- */

/* Every second: takes the steps that are due, of each caller's alarms at most ALARMS_ADDED; ends silences and standbys. */
void alarms_tick(struct alarms *all, const struct alarms_now *now);

/* ---- reading ---- */

const struct alarm *alarms_find(const struct alarms *all, const char *id); /* NULL: there is none */
const struct alarm *alarms_away(const struct alarms *all, const char *id); /* the same of one that another daemon has, as it was */
/* Iterates over alarms of patients, oldest first, then over technical alarms; the cursor is zeroed before. NULL at the end. */
struct alarms_cursor {
    size_t at;
    bool technical;
};
const struct alarm *alarms_next(const struct alarms *all, struct alarms_cursor *cursor);
/* True once after an alarm, an answer or a standby has changed. */
bool alarms_changed(struct alarms *all);
