/* gather: makes the status (status/status.h) from the daemon's state, on the loop: each second, and when an alarm goes on or off.
 * Where there are many streams it takes several turns of the loop, with other work between them.
 * It reads state, and keeps of its own only what no other module has: the recent past of streams (status/beds.h) and the losses of
 * the running job. Loop thread. */
#pragma once
#include "base/metrics.h"
#include "base/volume.h"
#include "daemon/alarms/desk.h"
#include "daemon/device/device_watch.h"
#include "daemon/hooks/hooks.h"
#include "daemon/hosts/device_set.h"
#include "daemon/jobs/sched.h"
#include "daemon/journal/journal.h"
#include "daemon/live/session.h"
#include "daemon/models/models.h"
#include "daemon/status/status.h"

struct gather_volume {
    const char *name, *path;
    struct volume *volume;
};

/* Where it looks; everything is borrowed. */
struct gather_source {
    const char *version, *revision, *notice;
    int64_t start_ms; /* monotonic */
    struct sessions *sessions;
    struct sched *sched;
    struct models *models;
    struct device_set *devices;
    struct device_watch *const *watches; /* one for each device */
    struct journal *journal;
    struct hooks *hooks;
    struct desk *desk;       /* NULL: no alarms */
    const char *const *beds; /* the roster; n_beds of them */
    int n_beds;
    struct metrics *metrics;
    struct gather_volume volumes[STATUS_VOLUMES];
    int n_volumes;
    void (*wake)(void *ctx); /* makes the loop call gather_look; NULL: a status is made at once */
    void *wake_ctx;
};

struct gather;
/* board: where each status is published; borrowed. */
int gather_new(const struct gather_source *source, struct status_board *board, struct gather **ret, struct err *err);
void gather_free(struct gather *g); /* before the sessions; NULL is fine */
void gather_tick(struct gather *g); /* once a second */
/* The newest status, shared; NULL before the first. */
const struct status *gather_newest(const struct gather *g);
/* The state of a stream as the pages show it (status_mood_name); "": there is none of this id. */
const char *gather_state(const struct gather *g, const char *session);
/* Whether this technical alarm is of the bed or stream of this tile. */
bool gather_is_of_tile(const struct alarms *all, const struct alarm *a, const struct status_stream *s);
/* Call in each turn: goes on with a status that is being made, and begins one at once for what people must not wait for. */
void gather_look(struct gather *g);
