/* gather_parts: the state of gather, for the files gather….c; nobody else includes it. Loop thread. */
#pragma once
#include "base/map.h"
#include "daemon/status/beds.h"
#include "daemon/status/gather.h"
#include "daemon/status/machine.h"

struct gather {
    struct gather_source source;
    struct status_board *board;
    struct beds *beds;
    struct machine machine;
    struct status_losses losses;
    int64_t begun_ms;      /* the newest status */
    struct status *making; /* NULL: none */
    struct session_walk walk;
    int step, at;    /* of the parts; of the streams, in the part that looks for causes */
    bool tick, due;  /* it is that of a second; the next one is */
    bool round_ends; /* causes were named; alarms whose causes are gone are being ended */
    /* Wall clock minus time since the boot; while the clock is another one since it was set at stepped_boot_ms, as before. */
    int64_t clock_offset_ms, stepped_boot_ms;
    bool clock_known;
    bool *seen;         /* beds of the roster that had a stream; NULL: there is no roster */
    struct map *places; /* of the beds of the roster, by name: 1 + their place as a pointer */
    struct map *open;   /* of the status that is being made: open alarms of patients, by session and by bed */
};

void gather_jobs(const struct gather *g, struct status *to);
/* The streams, as many as a turn of the loop may take. True: there are more, for the next call. */
bool gather_streams(struct gather *g, struct status *to);
enum { GATHER_TURN_MS = 3 };
/* A stream of which nothing is known yet; NULL: there is no room, which is counted. */
struct status_stream *gather_add(struct status *to);
/* Streams whose bed has a newer one that is heard, and those that are no bed, go behind the others; streams of one name that are
 * both heard are told apart. */
void gather_fold(struct status *to);
/* Before the streams: the alarms. Of each stream: its alarm, place and standby. After the streams: the beds without one. */
void gather_alarms(struct gather *g, struct status *to);
/* Whether an alarm is on in this stream that a rule of the bed holds back. */
bool gather_holds_back(const struct gather *g, const struct status_stream *s);
bool gather_is_heard(const struct status_stream *s);         /* it sends */
enum status_mood gather_mood(const struct status_stream *s); /* once its alarm is known */
void gather_alarm_of_stream(const struct gather *g, struct status_stream *s);
void gather_roster(const struct gather *g, struct status *to);
/* Once a second: tells the desk what of this is a technical alarm now. True: there are more streams, as above. */
bool gather_causes(struct gather *g, const struct status *from, const struct alarms_now *now);
