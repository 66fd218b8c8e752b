#include "work/estimate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

const struct estimate_file *estimate_file(const struct estimate_config *config, const char *key) {
    for (int i = 0; i < config->n_files; i++)
        if (!strcmp(config->files[i].key, key))
            return &config->files[i];
    return NULL;
}

void estimate_fact(const struct estimate_config *config, const char *key, const char *fmt, ...) {
    char text[400];
    STR_ARGUMENTS(text, fmt);
    if (config->fact)
        config->fact(config->ctx, key, text);
}

bool estimate_measures(const struct estimate_config *config) { return config->measure && atomic_load(config->measure); }

int estimate_stopped(const struct estimate_config *config, struct err *err) {
    return config->stop && atomic_load(config->stop) ? err_set(err, ERR_CANCELLED, "nobody waits for the estimate any more") : 0;
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
