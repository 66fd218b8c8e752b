/* flight: recordings of a list that go through a detector side by side, as many as its batches gain from: rows of a network with
 * state, and the last windows of one recording beside the first of the next. Each recording has a seat while it is under way. What
 * a recording gives does not depend on the others, and its end is reported in the order of the list. The device's thread. */
#pragma once
#include "detect/detector.h"
#include "detect/timeline.h"

enum { FLIGHT_MOST = 64 }; /* seats */

enum flight_begun {
    FLIGHT_WAITS,  /* not yet: its samples are not there, or the others must end first */
    FLIGHT_FLIES,  /* it has a timeline */
    FLIGHT_IS_DONE /* it needs none */
};

struct flight_config {
    struct detector *detector;
    struct stream *stream;
    int64_t n; /* recordings in the list */
    void *ctx;
    /* Begins recording i in a free seat. An error loses the recording, once those before it have ended. */
    enum flight_begun (*begin)(void *ctx, int64_t i, int seat, struct timeline **ret, struct err *err);
    /* The oldest recording has given everything; timeline: NULL if it needed none. It is freed afterwards. */
    int (*end)(void *ctx, int seat, struct timeline *timeline, struct err *err);
    /* The oldest recording cannot be used: 0 goes on without it. May change *why. */
    int (*lost)(void *ctx, int64_t i, struct err *why, struct err *err);
    bool shrinks; /* `lost` takes the recording off the list: those behind it move up */
};

struct flight;
int flight_new(const struct flight_config *config, struct flight **ret, struct err *err);
void flight_free(struct flight *f); /* NULL is allowed */
/* Begins what can begin, runs some batches, reports ends. Any error but a lost recording ends the flight. */
int flight_step(struct flight *f, struct err *err);
bool flight_is_over(const struct flight *f);
int64_t flight_number(const struct flight *f, int seat); /* of the recording in the seat */
int flight_under_way(const struct flight *f);            /* recordings that have a seat */
