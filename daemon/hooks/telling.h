/* telling: what a hook is told next about one bed: its state now, not each edge. An alarm that is on comes first, whatever its age;
 * an alarm that is over before anybody was told is one line ("was on 10:01-10:03"); other entries follow one by one. An alarm is
 * known by its id, whichever stream of the bed it is in. Technical alarms of one kind are one bed, and so are escalations of a
 * step: what waits of them is one line ("12 beds: connection lost"). Plain data; one thread at a time. */
#pragma once
#include "daemon/hooks/hook.h"
#include "daemon/journal/journal_line.h"

enum { TELLING_TEXT = 640, TELLING_COVERS = 64, TELLING_GROUP_MS = 3000 /* for which a technical alarm waits for others */ };

struct owed_bed;

/* Entries of one bed that a hook has not been told, oldest first. */
struct telling_item {
    struct telling_item *next;
    struct telling_item *next_of_alarm, *before_of_alarm; /* what a hook is owed of this alarm, in all beds (owed.h) */
    struct owed_bed *bed;
    struct journal_line *line;
    bool flying;         /* an attempt that covers it is on its way */
    bool stale;          /* of an earlier process, and long ago: if it is on, nobody knows whether it still is */
    bool answered;       /* somebody has acknowledged the alarm */
    bool instead;        /* of an alarm: it is told instead of an escalation, which the hook was owed */
    bool tried;          /* an attempt began when it could be told: it waits for the pause of its bed */
    const char *outcome; /* flying: it is settled with this after the attempt, unless that is NULL */
};

enum telling_wait { TELLING_NOW, TELLING_LATER, TELLING_NEVER };
/* Whether an entry may be told: when it is on the disk, or OUTLET_WAIT_MS after it was made; the end of an alarm when rejoin_ms
 * have passed in which the alarm could have gone on. NEVER: it was told by an earlier line. LATER: *ret_ms is the monotonic time at
 * which to ask again, INT64_MAX: when the journal has written. */
enum telling_wait telling_wait(const struct journal_line *l, int64_t now_ms, int64_t rejoin_ms, int64_t *ret_ms);

/* The next thing to tell. */
struct telling {
    struct telling_item *items; /* what it covers, taken off the list, oldest first; the entry is the last one's */
    const struct journal_entry *entry;
    const struct journal_entry *on; /* of an alarm that is over: the entry with which it began, if nobody was told of that */
    int alarms;                     /* how many began; of technical ones: how many began, or are over */
    bool is_on;                     /* an alarm is on now */
    bool answered, instead;         /* of an item: as there */
    int64_t made_ms;                /* monotonic; is_on: of the newest entry that it covers; else of the oldest */
};
/* Takes it off *list; false: nothing may be told yet. Entries that are TELLING_NEVER must have been removed. */
bool telling_take(struct telling_item **list, int64_t now_ms, int64_t rejoin_ms, struct telling *ret);
/* Back to the front of the list, in order. */
void telling_return(struct telling *t, struct telling_item **list);
/* One sentence for people. */
void telling_text(const struct telling *t, char ret[TELLING_TEXT]);
