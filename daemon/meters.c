#include "daemon/meters.h"

#include <sys/resource.h>

#include "base/log.h"
#include "daemon/rpc/accept.h"
#include "daemon/server.h"
#include "daemon/versions.h"
#include "revision.h"

enum { MAX_SERIES = 2000 };

static struct metric *series(struct meters *m, const char *name, const char *labels) {
    return metrics_series(m->metrics, name, labels);
}

static void count_line(void *metrics, enum log_level level) {
    metric_add(metrics_series(metrics, "brrd_log_messages_total", log_level_name(level)), 1);
}

int meters_open(struct meters *m, int64_t start_ms, struct err *err) {
    char labels[160];
    size_t n = 0;
    m->start_ms = start_ms;
    m->families = job_metrics_families(metrics_families, metrics_family_count, &n);
    m->metrics = m->families ? metrics_new(m->families, n, MAX_SERIES) : NULL;
    if (!m->metrics)
        return err_set(err, ERR_EXHAUSTED, "out of memory for metrics");
    m->jobs.metrics = m->metrics;
    for (int level = LOG_DEBUG; level <= LOG_ERROR; level++) /* all of them are shown from the start, at 0 */
        series(m, "brrd_log_messages_total", log_level_name((enum log_level)level));
    for (int i = 0; i < JOB_STATE_COUNT; i++)
        if (job_is_over((enum job_state)i))
            series(m, "brrd_jobs_finished_total", job_state_name((enum job_state)i));
    series(m, "brrd_config_reloads_total", "done");
    series(m, "brrd_config_reloads_total", "failed");
    log_hook(count_line, m->metrics);
    str_format(labels, sizeof labels, "%s\x1f%s", versions_own(), revision_name);
    metric_set(series(m, "brrd_build_info", labels), 1);
    m->turns = series(m, "brrd_loop_turn_seconds", "");
    return 0;
}

void meters_close(struct meters *m) {
    log_hook(NULL, NULL);
    metrics_free(m->metrics);
    free(m->families);
}

void meters_ready(struct meters *m, const char *component, bool ready) { metric_set(series(m, "brrd_ready", component), ready); }

void meters_volume(struct meters *m, const char *name, struct volume *volume) {
    const int64_t free_bytes = volume_free_bytes(volume), size = volume_size_bytes(volume);
    if (free_bytes < 0 || size < 0)
        return;
    metric_set(series(m, "brrd_volume_free_bytes", name), (double)free_bytes);
    metric_set(series(m, "brrd_volume_size_bytes", name), (double)size);
}

void meters_job_changed(struct meters *m, const struct job *job) {
    job_metrics_follow(&m->jobs, job);
    if (job_is_over(job->state)) {
        const char *outcome = job_state_name(job->state);
        metric_add(series(m, "brrd_jobs_finished_total", outcome), 1);
        metric_observe(series(m, "brrd_job_run_duration_seconds", outcome), (double)(job->finished_ms - job->started_ms) / 1000);
    }
    if (job->state == JOB_QUEUED && !job->attempts && !*job->reason)
        metric_add(series(m, "brrd_jobs_submitted_total", job->kind), 1);
}

void meters_call_begun(struct meters *m, const char *path) { metric_add(series(m, "brrd_rpc_in_flight", path), 1); }

void meters_call_ended(struct meters *m, const char *path, int code, const char *reason, double seconds) {
    char labels[256];
    str_format(labels, sizeof labels, "%s\x1f%s", path, err_name(code));
    metric_add(series(m, "brrd_rpc_requests_total", labels), 1);
    str_format(labels, sizeof labels, "%s\x1f%s", path, reason);
    if (*reason)
        metric_add(series(m, "brrd_rpc_errors_total", labels), 1);
    metric_observe(series(m, "brrd_rpc_duration_seconds", path), seconds);
    metric_add(series(m, "brrd_rpc_in_flight", path), -1);
}

static void count_jobs(struct meters *m, const struct sched *sched) {
    int counts[JOB_STATE_COUNT] = {0};
    for (int i = 0; i < sched_count(sched); i++)
        counts[sched_at(sched, i)->state]++;
    for (int i = 0; i < JOB_STATE_COUNT; i++)
        metric_set(series(m, "brrd_jobs", job_state_name((enum job_state)i)), counts[i]);
    metric_set(series(m, "brrd_jobs_paused", "cache_full"), sched_paused(sched));
    meters_ready(m, "cache", !sched_paused(sched));
    meters_ready(m, "database", sched_writable(sched));
}

/* CPU time and resident memory. */
static void measure_process(struct meters *m) {
    struct rusage use;
    struct metric *cpu = series(m, "process_cpu_seconds_total", "");
    if (cpu && !getrusage(RUSAGE_SELF, &use)) {
        double now =
            (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + 1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
        metric_add(cpu, now - metric_value(cpu));
    }
    long long pages = 0;
    OWNED_FILE FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%*s %lld", &pages) == 1) // NOLINT(cert-err34-c): the kernel's own number
        metric_set(series(m, "process_resident_memory_bytes", ""), (double)pages * (double)sysconf(_SC_PAGESIZE));
}

double meters_turn_s(const struct meters *m) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - m->turn_s;
}

void meters_turn(struct meters *m) {
    const double turn_s = meters_turn_s(m);
    if (m->turn_s > 0) /* the first one opened the daemon */
        metric_observe(m->turns, turn_s);
    m->turn_s += turn_s;
}

void meters_tick(struct meters *m, const struct sched *sched, const struct rpc_server *rpc) {
    count_jobs(m, sched);
    metric_set(series(m, "brrd_rpc_unsent_bytes", ""), (double)rpc_server_unsent(rpc));
    struct metric *connections = series(m, "brrd_connections_refused_total", "");
    if (connections)
        metric_add(connections, (double)accept_refused() - metric_value(connections));
    metric_set(series(m, "brrd_process_uptime_seconds", ""), (double)(clock_ms() - m->start_ms) / 1000);
    measure_process(m);
}

void meters_models(struct meters *m, const struct models *models, const struct sessions *sessions) {
    for (int i = m->n_served - 1; i >= 0; i--) {
        if (models_find(models, m->served[i]) || sessions_of_model(sessions, m->served[i]))
            continue;
        metrics_hide(m->metrics, "model", m->served[i]);
        memmove(m->served[i], m->served[--m->n_served], sizeof m->served[i]);
    }
    for (int i = 0; i < models_count(models) && m->n_served < MODELS_MAX; i++) {
        const char *name = models_at(models, i)->name;
        int k = 0;
        while (k < m->n_served && strcmp(m->served[k], name) != 0)
            k++;
        if (k == m->n_served)
            str_copy(m->served[m->n_served++], sizeof m->served[k], name);
    }
}
