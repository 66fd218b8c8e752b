/* services: the RPC methods, and the parts of the daemon that they use. svc_NAME.c defines the table svc_NAME[], one row
 * per method and a row without a path at its end; a new file is found by its name. Methods that are in no table are
 * answered UNIMPLEMENTED. Loop thread, except for the atomics. */
#pragma once

#include "base/metrics.h"
#include "daemon/alarms/desk.h"
#include "daemon/burst/burst_service.h"
#include "daemon/burst/network_host.h"
#include "daemon/device/device_watch.h"
#include "daemon/hooks/hooks.h"
#include "daemon/hosts/device_set.h"
#include "daemon/jobs/job_places.h"
#include "daemon/jobs/jobdb.h"
#include "daemon/jobs/joblog.h"
#include "daemon/jobs/sched.h"
#include "daemon/live/live_host.h"
#include "daemon/live/session.h"
#include "daemon/live/stream_places.h"
#include "daemon/models/models.h"
#include "daemon/rpc/rpc.h"
#include "daemon/services/offload.h"
#include "daemon/status/readiness.h"

enum { SERVICES_MAX_LIBRARIES = 16 };

struct service_library {
    char name[24], version[64];
};

/* rpc_context of every call; the daemon fills it and owns everything in it. */
struct services {
    uv_loop_t *loop;
    struct device_set *devices;
    struct stream_places streams; /* over these devices */
    struct burst_service burst;
    struct live_host_config live_hosts; /* of their hosts */
    struct network_host_config network_hosts;
    struct job_places jobs; /* on them, and in clusters */
    struct device_watch *device_watches[DEVICE_SET_MAX];
    /* The device for a stream of this model: the one that the client names, else the one of its model's devices with the fewest
     * streams. NOT_FOUND, INVALID (the model serves elsewhere), UNAVAILABLE. NULL: the first one. */
    int (*place_stream)(void *services, const char *wanted, const char *model, int *ret, struct err *err);
    struct db *db;         /* the job database, to read; changes go through sched_writer */
    struct gather *gather; /* what the pages show; NULL: nothing */
    struct sched *sched;
    struct joblog *joblog;
    struct models *models;
    struct sessions *sessions;
    struct journal *journal;
    struct onsets *onsets; /* EEG of alarms; NULL: none is kept */
    struct desk *desk;     /* alarms */
    struct hooks *hooks;
    struct metrics *metrics;
    double price_per_hour; /* of a device; 0: not known */
    const char *currency;
    bool local_paths; /* value of the configuration key; places has what the current caller may open */
    struct places places;
    struct submission_rules rules; /* over these places */
    struct source_config source;   /* stores, and the cache of their objects */
    struct pool_share shares[OFFLOAD_CLASSES];
    uint64_t acks_turn;         /* uv_now of the loop's turn in which acks were sent last, */
    int64_t acks_ms;            /* and when the first of them was due (stream_answers.c); monotonic */
    struct watch *watches;      /* open Watch calls, svc_jobs.c */
    int64_t validate_ms;        /* limits.validate; 0: none */
    struct validate *validates; /* Validate calls, svc_validate.c: one that works, then those that wait */
    const char *paths[3];       /* data, cache, results */
    const char *database;       /* path of the job database */
    /* http_page_url */
    int (*page_url)(struct services *s, const char *path, char *ret, size_t size, struct err *err);
    struct recordings *recordings;     /* that callers look at */
    const char *corrections;           /* viewer.corrections, or NULL */
    void (*drain)(struct services *s); /* same as SIGTERM */
    struct readiness ready;
    bool draining;               /* streams are being ended, and none is taken any more */
    struct health_watch *health; /* open Watch calls, svc_health.c */
    void (*wake)(void *ctx);     /* makes the loop look at its mailboxes. Any thread */
    void *wake_ctx;
    int64_t start_ms; /* monotonic */
    const char *version, *revision, *notice;
    struct service_library libraries[SERVICES_MAX_LIBRARIES];
    size_t n_libraries;
};

/* Writes the rows of all tables, at most max; returns their number. */
size_t services_methods(const struct rpc_method **ret, size_t max);

/* The share of the thread pool that calls of this class have. */
struct pool_share *offload_share(struct services *services, enum offload_class class);

/* jobref_find for a caller: NOT_FOUND also for a job that it may not see. */
int services_find_job(struct rpc_call *call, const char *id, const struct job **ret, struct err *err);
/* Places become those of this caller, NULL: of the daemon itself. Call it before work of a call that goes on later: other calls
 * came meanwhile. */
void services_enter(struct services *s, const struct auth_caller *caller);
/* True if the caller may see this job: its own, and one whose owner an earlier version did not record. NULL: one that is not listed
 * any more, which only those see who see all. */
bool services_sees_job(const struct rpc_call *call, const struct job *job);

/* True for the id of a job that is there and that the caller may not see; NULL is none. */
bool services_hides(const struct rpc_call *call, const char *id);

static inline struct services *services_of(const struct rpc_call *call) { return rpc_context(call); }

/* The tables; the list is made of the names of the files svc_*.c (daemon.cmake). */
#define SERVICE(table) extern const struct rpc_method table[];
#include "services.def"
#undef SERVICE

/* Notifies every Watch of grpc.health whose status has changed. Call at each change of the conditions of /readyz, and once a
 * second. */
void svc_health_changed(struct services *services);

/* Sends frames of spiking networks to their observers. Call when the loop was woken. */
void svc_burst_observed(struct services *services);

/* Notifies every watcher of this job. */
void svc_jobs_changed(struct services *services, const struct job *job);

/* Ends the measurement of the device that a Validate call makes, if any. Call when a job starts. */
void svc_validate_yield(struct services *services);
/* Ends the Validate calls that have waited or been at work for longer than validate_ms. Call each second. */
void svc_validate_tick(struct services *services);

/* Loads a REF under a name, "" = one of the REF, for the caller, and answers with the ModelDescription (Models.Load,
 * Checkpoints.Promote); the end of the call must be passed to svc_models_load_end. */
int svc_models_load(struct rpc_call *call, const struct models_request *request, struct err *err);
void svc_models_load_end(struct rpc_call *call);
