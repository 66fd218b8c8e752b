/* estimate: what a job would need and take, without starting it. Each kind makes its own (task_work.estimate); this file is what
 * they and those who ask have in common. Any thread. */
#pragma once

#include "work/jobfile.h"

struct estimate {
    int64_t parameters, memory_bytes;
    int64_t largest_micro_batch; /* training.micro_batch_size within the memory limit; 0 = none fits, or the kind has none */
    int64_t recordings;          /* EDF and BDF files */
    int64_t windows_per_epoch;
    int64_t steps;                          /* 0: no data at hand */
    double seconds_per_step, seconds_total; /* 0 = not measured, or no steps known */
};

/* A file that the job names by a key, where the owner has it. */
struct estimate_file {
    const char *key, *ref, *path;
};

struct estimate_config {
    const struct jobfile *job;
    const char *data_root; /* absolute folder of the recordings, or NULL: not at hand; several are those of the job */
    struct mirror *mirror; /* whose tree it is, as in task_env; NULL: none */
    const char *cache_dir; /* window cache volume */
    const char *device;    /* "cpu", "cuda:0" */
    int threads;
    int64_t memory_limit_bytes; /* 0 = no limit */
    const atomic_bool *measure; /* run a few steps on the device, as long as it is true; once false, the seconds mean nothing */
    const atomic_bool *stop;    /* may be NULL; once set: CANCELLED, after the recording or step at hand */
    const struct estimate_file *files;
    int n_files;
    void *ctx;
    void (*fact)(void *ctx, const char *key, const char *value); /* a further line for people; copied */
    void (*notice)(void *ctx, const char *text);                 /* a note for people; copied */
    void (*patient)(void *ctx, const char *name); /* one of the recordings, once or several times; copied; may be NULL */
};

/* The file of this key, or NULL: not named, or not at hand. */
const struct estimate_file *estimate_file(const struct estimate_config *config, const char *key);
void estimate_fact(const struct estimate_config *config, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool estimate_measures(const struct estimate_config *config);
/* CANCELLED once *stop is set. */
int estimate_stopped(const struct estimate_config *config, struct err *err);
/* What n jobs cost and what their budget does to each. */
struct estimate_cost {
    double seconds;          /* of one job, on all its devices together; 0: not known */
    double per_hour, budget; /* the price of a device; limits.cost; 0: none */
    const char *currency;
    int64_t steps; /* of one job */
    int jobs;
};
/* "about 2.73 USD; limits.cost 0.01 stops it near step 2 of 500"; "" if the time or the price is not known. */
const char *estimate_cost_text(const struct estimate_cost *c, char *buf, size_t size);
/* PRECONDITION if limits.cost ends such a job before its first checkpoint. */
int estimate_check_budget(const struct jobfile *job, const struct estimate_cost *c, struct err *err);
/* True if a job of `seconds` goes past the limit of one attempt: limits.wall_clock, else the daemon's default (not above 0: none).
 * Then one sentence for people with both figures and what will happen. */
bool estimate_past_limit(const struct jobfile *job, int64_t default_limit_ms, double seconds, char *buf, size_t size);
