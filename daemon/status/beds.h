/* beds: the recent past of every stream, for the pages: its probability of the last minute and hours, when samples came last, since
 * when its alarm is on. A stream that has ended stays for BEDS_ENDED_MS, so that people see that it is gone. Bounded by the number
 * of sessions and BEDS_ENDED. Loop thread. */
#pragma once
#include "daemon/live/session.h"
#include "daemon/status/status.h"

enum {
    BEDS_ENDED = 64,
    BEDS_ENDED_MS = 10 * 60 * 1000,
    BEDS_HOLD_MS = 10 * 1000 /* a value holds for so long while samples come */
};

struct bed {
    struct session_watch watch; /* its first member */
    struct bed *next;
    struct beds *all;
    char id[SESSION_ID_SIZE], client[SESSION_NAME_SIZE], model[LIVE_NAME], principal[RESUME_PRINCIPAL_SIZE];
    float minute[STATUS_MINUTE]; /* a ring; the newest is before `at` */
    int at;
    float peak, newest;  /* of the values since the newest point, and the last one; NaN: none */
    struct past *trace;  /* NULL: out of memory */
    struct eegring *eeg; /* NULL: it keeps none */
    bool live;
    bool held;             /* its caller held this bed of the roster */
    bool restored;         /* from before the daemon's start */
    enum status_mood mood; /* as it was shown last, as `heard` */
    bool heard;
    int64_t opened_ms; /* Unix time */
    /* Monotonic, since the wall clock may be set; 0: not yet, or unknown. */
    int64_t begun_ms;                    /* the tick before its first look */
    int64_t seen_ms, value_ms, ended_ms; /* seen: newest samples; value: newest value */
    int64_t alarm_ms;                    /* the alarm went on last */
    int64_t received;                    /* source samples at the newest tick */
};

struct beds;
struct beds *beds_new(struct sessions *sessions); /* NULL when out of memory */
void beds_free(struct beds *all);                 /* before the sessions; NULL is fine */
/* Once a second: forgets those that ended long ago; beds_look then adds a point to the bed of each open session. Of a
 * session that has none yet it begins one, at any time. */
void beds_tick(struct beds *all);
void beds_look(void *beds, const struct session *s);
/* True once after an alarm went on or off, or a stream ended. */
bool beds_changed(struct beds *all);
/* The bed of an open session; NULL before its first look. */
const struct bed *beds_find(const struct beds *all, const char *session);
/* How the stream is shown; heard: it sends. */
void beds_show(struct beds *all, const struct status_stream *s, bool heard);
/* Those that have ended, newest first; NULL after the last. */
const struct bed *beds_ended(const struct beds *all);
