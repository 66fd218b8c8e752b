/* retention: deletes the oldest jobs that have ended, with their folders, by age and by the size of all such folders. Jobs that are
 * in use stay (jobs/removal.h). First it finishes the removals that an earlier process began. Folders are measured and removed on
 * libuv's thread pool, one piece of work at a time. Loop thread. */
#pragma once
#include <uv.h>

#include "daemon/jobs/removal.h"

struct retention_config {
    uv_loop_t *loop;
    struct removal removal;
    int64_t age_ms;           /* jobs that ended longer ago are deleted; -1 = none */
    int64_t max_bytes;        /* of the folders of all ended jobs; -1 = no limit */
    int64_t (*wall_ms)(void); /* NULL: clock_wall_ms */
};
struct retention;
/* Reads which removals an earlier process did not finish. Call before a job may be deleted. */
int retention_new(const struct retention_config *config, struct retention **ret, struct err *err);
/* Only when no work is under way, that is, after the loop has run out. NULL is allowed. */
void retention_free(struct retention *r);
/* Once a second: begins a piece of work if none is under way. */
void retention_tick(struct retention *r);
