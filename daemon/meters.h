/* meters: what the daemon measures about itself, in the registry behind /metrics: its calls, jobs and log lines, the readiness of
 * its parts, CPU time and memory of the process. Other modules update their own families (metrics_table.c). Embedded in the server;
 * loop thread, except that log lines are counted on the thread that logs. It decides nothing. */
#pragma once
#include "base/volume.h"
#include "daemon/jobs/job_metrics.h"
#include "daemon/jobs/sched.h"
#include "daemon/live/session.h"
#include "daemon/models/models.h"
#include "daemon/rpc/rpc.h"

struct meters {
    struct metrics *metrics;
    struct metric_family *families; /* the daemon's and those of the kinds of job */
    struct job_metrics jobs;
    int64_t start_ms;
    double turn_s; /* processor time of the loop's thread at the end of the newest turn; 0: none has ended */
    struct metric *turns;
    char served[MODELS_MAX][LIVE_NAME]; /* names of models, while they serve or a stream has them */
    int n_served;
};

/* Makes the registry and counts log lines from here on. start_ms: when the process began, monotonic. */
int meters_open(struct meters *m, int64_t start_ms, struct err *err);
/* No other thread may log any more. Half-opened meters are allowed. */
void meters_close(struct meters *m);
/* Sets brrd_ready of a component: "daemon", "device", "models", "cache", "results" or "database". */
void meters_ready(struct meters *m, const char *component, bool ready);
/* Free bytes and size of a volume, "cache" or "results", by its newest answer, without waiting. A volume that does not
 * answer keeps its values. */
void meters_volume(struct meters *m, const char *name, struct volume *volume);
/* Call after each change of a job. */
void meters_job_changed(struct meters *m, const struct job *job);
/* A call of a known method, as rpc_config.begun and rpc_config.observe have it. */
void meters_call_begun(struct meters *m, const char *path);
void meters_call_ended(struct meters *m, const char *path, int code, const char *reason, double seconds);
/* Series of a model go when it does not serve any more and no stream has it. Call when models may have changed. */
void meters_models(struct meters *m, const struct models *models, const struct sessions *sessions);
/* The loop is about to wait: a turn has ended. */
void meters_turn(struct meters *m);
double meters_turn_s(const struct meters *m); /* processor time of this turn until now */
/* Measures what is a state: jobs by state, unsent answers, the process. Once a second. */
void meters_tick(struct meters *m, const struct sched *sched, const struct rpc_server *rpc);
