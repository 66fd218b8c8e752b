/* estimate: what a train or detect job would need and take, without starting it: memory from the plan, steps from the headers and
 * labels of the recordings (no cache is built), seconds from a short measurement of the device. Any thread; opens the device for
 * itself. */
#ifndef BRR_RUN_ESTIMATE_H
#define BRR_RUN_ESTIMATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "infer/modelfile.h"
#include "kernels/device.h"
#include "run/jobfile.h"

struct estimate {
    int64_t parameters, memory_bytes;
    int64_t largest_micro_batch;    /* within the memory limit; 0 = none fits */
    int64_t recordings, unreadable; /* EDF and BDF files; those that cannot be used */
    double hours;
    int64_t seizures;
    int64_t windows_per_epoch, steps_per_epoch, steps; /* 0: no data at hand */
    double seconds_per_step, seconds_total;            /* training alone; 0 = not measured or no steps known */
};

/* Bytes a train job takes on the device (optimizer included), and the largest training.micro_batch_size within `limit` (0 = no
 * limit): a divisor of training.batch_size, or 0 when none fits. */
int estimate_memory(const struct jobfile *job, enum dtype precision, int64_t limit, int64_t *ret_bytes, int64_t *ret_largest,
                    struct err *err);

struct estimate_config {
    const struct jobfile *job;
    const char *data_root; /* absolute, or NULL: not at hand */
    const char *device;    /* "cpu", "cuda:0" */
    int threads;
    int64_t memory_limit_bytes;
    bool measure;
};
/* Whether training of `seconds` goes past the limit of one attempt: limits.wall_clock, else the daemon's default (not above 0:
 * none). Then one sentence for people with both figures and what will happen. */
bool estimate_past_limit(const struct jobfile *job, int64_t default_limit_ms, double seconds, char *buf, size_t size);
/* A detect job with this model: parameters, memory, recordings, those that cannot be used and the hours of the others. */
int estimate_detect(const struct estimate_config *config, const struct modelfile *model, struct estimate *ret, struct err *err);
int estimate_train(const struct estimate_config *config, struct estimate *ret, struct err *err);

#endif
