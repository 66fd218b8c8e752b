/* register: what sessions (live/session.h) ask the register of alarms (alarms/desk.h), which alone decides which alarm of
 * which bed is on. Loop thread. */
#pragma once
#include "daemon/journal/journal_entry.h"

/* Where a session is. */
enum session_place {
    SESSION_GONE,
    SESSION_HERE,
    SESSION_ELSEWHERE,
    SESSION_PLACE_ASKED /* not known yet */,
    SESSION_PLACE_UNKNOWN
};

enum { SESSION_DESCRIBED = 10, SESSION_GIVEN = 3 };
struct session_register {
    /* The id of the alarm that begins with this entry. ret: receives it in place of that of the session's alarm before, which went
     * off at e->end_s. alone: no other stream of the bed sends. */
    void (*name)(void *ctx, const struct journal_entry *e, bool alone, char ret[JOURNAL_ALARM]);
    /* The alarm that is on in the session, and the sample (256 Hz) of its newest change; -1: none is on. */
    int64_t (*on_in)(void *ctx, const char *session, char ret[JOURNAL_ALARM]);
    bool (*is_of_another)(void *ctx, const char *alarm, const char *session); /* another session has taken the alarm over */
    bool (*holds)(void *ctx, const char *principal, const char *bed);         /* it is a bed of the roster, and this caller's */
    /* The streams of snapshots are here: alarms of sessions that are gone are cut, and those of other daemons are moved. False: ask
     * again. */
    bool (*settle)(void *ctx, int (*place)(void *sessions, const char *session), void *sessions);
    /* What people did about the alarm of this entry, its channels, the standby of its bed and the technical alarms of
     * its stream, which travel with it to another daemon; returns how many. */
    int (*describe)(void *ctx, const struct journal_entry *of, struct journal_entry ret[SESSION_DESCRIBED]);
    void (*take)(void *ctx, struct journal_entry *e); /* known ones change nothing */
    /* The alarm that is on in the session, for another daemon: what began it, then what people did; returns how many. */
    int (*give)(void *ctx, const char *session, struct journal_entry ret[SESSION_GIVEN]);
    bool (*receive)(void *ctx, struct journal_entry *list, int n); /* of another daemon; false: ask again */
    void *ctx;
};
