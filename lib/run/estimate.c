#include "run/estimate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "data/manifest.h"
#include "data/window.h"
#include "run/job_data.h"
#include "run/task.h"

enum { BAD_NAMED = 3 };

const struct estimate_file *estimate_file(const struct estimate_config *config, const char *key) {
    for (int i = 0; i < config->n_files; i++)
        if (!strcmp(config->files[i].key, key))
            return &config->files[i];
    return NULL;
}

void estimate_fact(const struct estimate_config *config, const char *key, const char *fmt, ...) {
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (config->fact)
        config->fact(config->ctx, key, text);
}

int estimate_stopped(const struct estimate_config *config, struct err *err) {
    return config->stop && atomic_load(config->stop) ? err_set(err, ERR_CANCELLED, "nobody waits for the estimate any more") : 0;
}

static void tell_data(const struct estimate_config *config, const struct manifest *m) {
    char bad[600], line[700];
    double hours = 0;
    for (int64_t i = 0; i < manifest_count(m); i++) {
        struct recording_info info;
        if (!manifest_entry(m, i)->recording)
            continue;
        recording_info(manifest_entry(m, i)->recording, &info);
        hours += info.duration_s / 3600;
    }
    estimate_fact(config, "data", "%s", config->data_root);
    estimate_fact(config, "hours", "%.2f", hours);
    int64_t n_bad = manifest_describe_bad(m, BAD_NAMED, bad, sizeof bad);
    if (!n_bad)
        return;
    estimate_fact(config, "cannot be used", "%lld recordings", (long long)n_bad);
    str_format(line, sizeof line, "%s%s", bad,
               config->job->data->fail_on_bad_file ? "; the job would fail (data.on_bad_file: fail)" : "");
    if (config->notice)
        config->notice(config->ctx, line);
}

static bool go_on(void *ctx, int64_t done, int64_t total, const char *path) {
    const struct estimate_config *config = ctx;
    (void)done, (void)total, (void)path;
    return !estimate_stopped(config, NULL);
}

int estimate_manifest(const struct estimate_config *config, const struct modelfile *file, struct manifest **ret, struct err *err) {
    struct task_env env = {.data_root = config->data_root, .cache_dir = config->cache_dir};
    struct manifest_config manifest = task_manifest_config(config->job, &env, file);
    manifest.fail_on_bad_file = false;
    int rc = manifest_open(&manifest, go_on, (void *)(uintptr_t)config, ret, err);
    if (rc)
        return rc;
    tell_data(config, *ret);
    return 0;
}

/* "26s", "9m00s", "23h41m". */
static const char *duration_text(double seconds, char *buf, size_t size) {
    int64_t s = seconds < 1e9 ? llround(seconds) : 1000000000;
    if (s < 60)
        str_format(buf, size, "%llds", (long long)s);
    else if (s < 3600)
        str_format(buf, size, "%lldm%02llds", (long long)(s / 60), (long long)(s % 60));
    else
        str_format(buf, size, "%lldh%02lldm", (long long)(s / 3600), (long long)(s % 3600 / 60));
    return buf;
}

bool estimate_past_limit(const struct jobfile *job, int64_t default_limit_ms, double seconds, char *buf, size_t size) {
    char needs[32], limit[32];
    bool own = job->limits.wall_clock_ms > 0;
    int64_t limit_ms = own ? job->limits.wall_clock_ms : default_limit_ms;
    if (limit_ms <= 0 || !(seconds * 1000 > (double)limit_ms))
        return false;
    str_format(buf, size, "it needs about %s and %s is %s: the job will stop at the limit, be checkpointed, and go on %s",
               duration_text(seconds, needs, sizeof needs), own ? "limits.wall_clock" : "the daemon's jobs.default_wall_clock",
               duration_text((double)limit_ms / 1000, limit, sizeof limit),
               job->limits.auto_resume ? "by itself (limits.auto_resume)"
                                       : "by `brrctl resume`, or by itself with limits.auto_resume: true");
    return true;
}
