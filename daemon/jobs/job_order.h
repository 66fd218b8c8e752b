/* job_order: what the process of a job gets from the daemon, as a file: the job, resolved, and its place on the machine. */
#pragma once
#include "base/arena.h"
#include "daemon/jobs/runner.h"

struct job_order {
    struct runner_job job;   /* without an array */
    const char *config;      /* path of daemon.yaml */
    const char *const *sets; /* its overrides */
    int n_sets;
    const char *device, *cache, *page; /* its name; folder of the job's cache; job_page_open */
    int64_t place, threads, memory_limit_bytes, default_wall_clock_ms,
        price_micros; /* millionths of runner_config.price_per_hour */
};
/* Writes DIRECTORY/order.json, readable by this user alone; path: its name. */
int job_order_write(const struct job_order *o, char path[4096], struct err *err);
/* Everything lives in the arena. */
int job_order_read(const char *path, struct arena *arena, struct job_order *ret, struct err *err);
