/* train_estimate: what a training and its estimate both compute: device memory, and which recordings train. Any thread. */
#pragma once
#include "train/train_kind.h"

/* Bytes a train job takes on the device (optimizer included; on a CPU also the working memory of its ops, at most; device NULL
 * leaves it out), and the largest training.micro_batch_size within `limit` (0 = no limit): a divisor of training.batch_size, or 0
 * when none fits. */
int train_memory(const struct train_config *job, enum dtype precision, const struct device_info *device, int64_t limit,
                 int64_t *ret_bytes, int64_t *ret_largest, struct err *err);
/* The role of each recording (manifest_split) under the job's data.split and data.validation_fraction, or the roles kept from an
 * earlier attempt (NULL: none); role has manifest_count elements. Errors: manifest_split's. */
struct manifest;
struct known_patients;
int train_split(const struct train_config *job, const struct manifest *m, const struct known_patients *kept, uint8_t *role,
                struct err *err);
/* Applies data.balance.most_shown to the sampler of the whole training. Errors: sampler_limit's. */
struct sampler;
int train_limit_windows(const struct train_config *job, struct sampler *sampler, struct err *err);
/* Steps of an epoch of so many windows, at least 1. Errors: PRECONDITION, the windows do not fill one batch. */
int train_steps_per_epoch(const struct train_config *job, int64_t windows, int64_t *ret, struct err *err);
