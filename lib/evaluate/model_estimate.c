/* Estimate of a job that runs a model over recordings: memory from the model's plan, and the manifest of the recordings. */
#include "detect/detector.h"
#include "evaluate/estimate_manifest.h"
#include "evaluate/evaluate_kind.h"
#include "evaluate/task_eeg.h"
#include "kernels/device.h"
#include "windows/manifest.h"

/* Each reader thread keeps the trace of a baseline over its recording, in host memory. */
static int64_t baseline_bytes(const struct estimate_config *config, const struct manifest *m) {
    const struct evaluate_config *c = config->job->config;
    int64_t longest = 0;
    for (int64_t i = 0; i < manifest_count(m) && c->baselines.count; i++) {
        struct recording_info info;
        if (!manifest_entry(m, i)->recording)
            continue;
        recording_info(manifest_entry(m, i)->recording, &info);
        longest = info.samples > longest ? info.samples : longest;
    }
    return longest * (int64_t)sizeof(float) * config->job->data->loader_workers;
}

/* Bytes that a job keeps in host memory, which is the device's own on a CPU. */
typedef int64_t host_bytes_fn(const struct estimate_config *config, const struct manifest *m);

/* Without a model that can be looked at now there is nothing to say. host_bytes: NULL if it keeps nothing. */
static int estimate(const struct estimate_config *config, const char *key, host_bytes_fn *host_bytes, struct estimate *ret,
                    struct err *err) {
    const struct estimate_file *file = estimate_file(config, key);
    struct device_info device;
    const bool is_gpu = config->device && !device_probe(config->device, &device, NULL) && device.is_async;
    const int batch = is_gpu ? DETECTOR_BATCH_GPU : DETECTOR_BATCH_CPU;
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
    ret->memory_bytes += host_bytes && !is_gpu ? host_bytes(config, m) : 0;
    manifest_close(m);
    return 0;
}

int estimate_evaluate(const struct estimate_config *config, struct estimate *ret, struct err *err) {
    return estimate(config, "evaluate.checkpoint", baseline_bytes, ret, err);
}

int estimate_detect(const struct estimate_config *config, struct estimate *ret, struct err *err) {
    return estimate(config, "detect.model", NULL, ret, err);
}
