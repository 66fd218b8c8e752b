/* ring: the results and alarms of a stream that its client may not have yet, oldest first. They are kept until the
 * client says that it has them, or until they are more than the owner wants to keep. One thread. */
#pragma once
#include "base/pack.h"
#include "daemon/live/live_message.h"

/* Zeroed = empty. */
struct ring {
    struct live_report *first, *last;
    int64_t bytes; /* that all of them take */
};
/* Keeps a copy of a result or an alarm. False when out of memory. */
bool ring_add(struct ring *ring, const struct live_report *r);
/* The client has the results and alarms before these numbers. */
void ring_seen(struct ring *ring, int64_t next_result, int64_t next_alarm);
/* Drops the oldest until the others take at most max_bytes; returns how many were dropped. */
int64_t ring_trim(struct ring *ring, int64_t max_bytes);
/* Number of the oldest result; `none` when there is no result. */
int64_t ring_first_result(const struct ring *ring, int64_t none);
const struct live_report *ring_next(const struct live_report *r); /* NULL after the newest */
void ring_clear(struct ring *ring);
/* How the bytes hold CLOCK_BOOTTIME: not at all (of an earlier version), of another boot of the machine, or of this one. */
enum ring_boot { RING_NO_BOOT, RING_OTHER_BOOT, RING_THIS_BOOT };
/* Of this boot and with channels where it is written. Read into an empty ring; false: the bytes are corrupt, or memory
 * is out. channels: they say which channels carry an event. */
bool ring_pack(struct ring *ring, struct packer *p, enum ring_boot boot, bool channels);
