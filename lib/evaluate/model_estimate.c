/* Estimate of a job that runs a model over recordings: memory from the model's plan, and the manifest of the recordings. */
#include "detect/detector.h"
#include "evaluate/estimate_manifest.h"
#include "evaluate/task_eeg.h"
#include "kernels/device.h"
#include "windows/manifest.h"

/* Without a model that can be looked at now there is nothing to say. */
static int estimate(const struct estimate_config *config, const char *key, struct estimate *ret, struct err *err) {
    const struct estimate_file *file = estimate_file(config, key);
    struct device_info device;
    const int batch =
        config->device && !device_probe(config->device, &device, NULL) && device.is_async ? DETECTOR_BATCH_GPU : DETECTOR_BATCH_CPU;
    struct seizure_options options = {.max_batch = batch, .precision = DTYPE_F32};
    struct seizure_memory memory;
    struct modelfile model;
    struct manifest *m = NULL;
    *ret = (struct estimate){0};
    if (!file)
        return 0;
    int rc = modelfile_read(file->path, &model, err);
    if (rc)
        return task_model_is_url(file->ref) ? err_wrap(err, "model %.200s cannot be used", file->ref) : rc;
    if ((rc = seizure_memory(&model.model, &options, &memory, err)))
        return rc;
    ret->parameters = seizure_parameter_count(&model.model);
    ret->memory_bytes = memory.total + model_batch_bytes(&model.model, batch);
    estimate_fact(config, "montage", "%s", model.montage);
    if (!config->data_root)
        return 0;
    if ((rc = estimate_manifest(config, &model, &m, err)))
        return rc;
    ret->recordings = manifest_count(m);
    manifest_close(m);
    return 0;
}

int estimate_evaluate(const struct estimate_config *config, struct estimate *ret, struct err *err) {
    return estimate(config, "evaluate.checkpoint", ret, err);
}

int estimate_detect(const struct estimate_config *config, struct estimate *ret, struct err *err) {
    return estimate(config, "detect.model", ret, err);
}
