/* The daemon's state, shared by the files of the server: server.c (its loop), server_open.c (its parts), server_watch.c (what may
 * go wrong with them), server_stop.c (its end). Services reach their half of it as struct services. Loop thread. */
#pragma once
#include <uv.h>

#include "base/volume.h"
#include "daemon/access.h"
#include "daemon/config.h"
#include "daemon/deadline.h"
#include "daemon/drain.h"
#include "daemon/hosts/device_set.h"
#include "daemon/http/http.h"
#include "daemon/jobs/retention.h"
#include "daemon/live/snapshot_store.h"
#include "daemon/meters.h"
#include "daemon/notify.h"
#include "daemon/paths.h"
#include "daemon/reload.h"
#include "daemon/services/services.h"
#include "daemon/spare_memory.h"
#include "daemon/status/gather.h"

enum { SERVER_MAX_METHODS = 96 };

/* What services use, and beside it what only the files of the server touch. */
struct daemon {
    struct services services;
    const struct config *config;
    const struct config_source *source;
    struct reload *configuration; /* its file */
    uv_loop_t loop;
    uv_async_t reports;
    uv_signal_t signals[3];
    uv_timer_t tick;
    uv_prepare_t turn; /* the end of each turn of the loop */
    bool tick_waits;   /* for the next turn, which leaves it room */
    struct rpc_server *rpc;
    struct status_board *board; /* what the pages show */
    struct gather *gather;
    struct http *http;
    struct access access;
    struct drain drain;
    struct notify notify;
    struct snapshot_store *snapshot_store;
    struct retention *retention;
    struct volume *results; /* of paths.results */
    char snapshots[4096];   /* folder of the snapshot store */
    const struct rpc_method *methods[SERVER_MAX_METHODS];
    size_t n_methods;
    struct errands *errands;                       /* of the pages' server */
    struct source_store stores[CONFIG_MAX_STORES]; /* the configuration's, which count into the registry */
    struct err lost_database;                      /* code 0: it is not lost (daemon/lost_database.h) */
    struct db *database;                           /* of jobs; lent to the scheduler, whose thread writes */
    struct paths_locks locks;
    int sessions_lock;
    bool announced; /* READY was sent */
    bool drain_wanted, stopping, rpc_stopped, lost, deaf, accept_slow, held[DEVICE_SET_MAX];
    int64_t stop_ms;          /* when the stop began */
    struct deadline deadline; /* of its last part, when the handles of the loop are closed */
    bool file_waits;          /* for a model file that does not answer */
    struct spare_memory spare_memory;
    struct meters meters;
    char versions[JOB_VERSIONS_SIZE]; /* for the records of jobs */
};

/* The daemon whose services these are. */
static inline struct daemon *daemon_of(struct services *s) {
    return (struct daemon *)((char *)s - offsetof(struct daemon, services));
}
