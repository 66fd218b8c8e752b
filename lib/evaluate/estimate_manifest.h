/* estimate_manifest: the recordings that an estimate counts, and the estimates of the kinds that read EEG. Any thread. */
#pragma once
#include "detect/modelfile.h"
#include "windows/manifest.h"
#include "work/estimate.h"

/* The recordings below data_root as the job would find them for this model, and the lines on them. Known
 * recordings are read from the cache volume, and new ones are stored there for the job (windows/manifest.h). Bad files become a
 * line; errors are those of manifest_open. */
int estimate_manifest(const struct estimate_config *config, const struct modelfile *file, struct manifest **ret, struct err *err);

/* The rows of train, evaluate and detect (task_work.estimate). */
int estimate_train(const struct estimate_config *config, struct estimate *ret, struct err *err);
int estimate_evaluate(const struct estimate_config *config, struct estimate *ret, struct err *err);
int estimate_detect(const struct estimate_config *config, struct estimate *ret, struct err *err);
