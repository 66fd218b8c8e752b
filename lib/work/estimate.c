#include "work/estimate.h"

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

const char *estimate_cost_text(const struct estimate_cost *c, char *buf, size_t size) {
    const double cost = c->seconds / 3600 * c->per_hour;
    const char *space = c->currency && *c->currency ? " " : "";
    const char *of_each = c->jobs > 1 ? " of each" : "";
    if (!(cost > 0))
        str_copy(buf, size, "");
    else if (c->budget <= 0)
        str_format(buf, size, "about %.2f%s%s", cost * c->jobs, space, c->currency);
    else if (cost <= c->budget)
        str_format(buf, size, "about %.2f%s%s; limits.cost %g%s is enough", cost * c->jobs, space, c->currency, c->budget, of_each);
    else
        str_format(buf, size, "about %.2f%s%s; limits.cost %g%s stops it near step %.0f of %lld", cost * c->jobs, space,
                   c->currency, c->budget, of_each, ceil((double)c->steps * c->budget / cost), (long long)c->steps);
    return buf;
}

int estimate_check_budget(const struct jobfile *job, const struct estimate_cost *c, struct err *err) {
    char text[200], every[32], lasts[32];
    const double per_second = c->per_hour / 3600, first_s = (double)job->checkpoint.every_ms / 1000;
    const double lasts_s = c->budget / (per_second * (double)job->devices);
    if (!(c->budget > 0 && c->seconds * per_second > c->budget && lasts_s < first_s))
        return 0;
    return err_set(err, ERR_PRECONDITION,
                   "%s, after %s and before the first checkpoint, which is due after %s (checkpoint.every): raise limits.cost",
                   estimate_cost_text(c, text, sizeof text), duration_text(lasts_s, lasts, sizeof lasts),
                   duration_text(first_s, every, sizeof every));
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
