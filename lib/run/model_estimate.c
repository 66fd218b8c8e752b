/* What a job that runs a model over recordings would need: memory from the model's plan, and the headers of the recordings. */
#include <stdlib.h>

#include "base/fsio.h"
#include "data/edf.h"
#include "data/montage.h"
#include "run/estimate.h"
#include "run/job_data.h"
#include "run/task.h"

enum { BATCH = 8 };

struct count {
    const struct estimate_config *config;
    const char *montage;
    int64_t recordings, unreadable;
    double hours;
};

/* Whether the recording has the channels that the montage asks for. */
static bool fits_montage(const struct edf_info *info, const char *name) {
    const char **labels = calloc((size_t)info->n_signals + 1, sizeof *labels);
    struct montage *montage = NULL;
    int n = 0;
    for (int i = 0; labels && i < info->n_signals && n < FRONTEND_MAX_LABELS; i++)
        if (!info->signals[i].annotation && info->signals[i].usable && info->signals[i].rate_hz > 0)
            labels[n++] = info->signals[i].label;
    bool fits = n && !montage_new(name, labels, n, &montage, NULL);
    montage_free(montage);
    free(labels);
    return fits;
}

static int count_recording(void *ctx, const char *relative_path, int64_t size_bytes, struct err *err) {
    struct count *c = ctx;
    int64_t most = c->config->job->data->max_files;
    struct edf *edf = NULL;
    char path[4096];
    (void)size_bytes;
    if (!edf_named(relative_path) || (most && c->recordings >= most))
        return 0;
    int rc = estimate_stopped(c->config, err);
    if (!rc)
        rc = fsio_join(path, sizeof path, c->config->data_root, relative_path, err);
    if (rc)
        return rc;
    c->recordings++;
    if (edf_open_header(path, &edf, NULL) || !fits_montage(edf_info(edf), c->montage))
        c->unreadable++;
    else
        c->hours += edf_info(edf)->duration_s / 3600;
    edf_close(edf);
    return 0;
}

static int count_recordings(const struct estimate_config *config, const char *montage, struct estimate *e, struct err *err) {
    struct count c = {.config = config, .montage = montage};
    int rc = fsio_walk(config->data_root, count_recording, &c, err);
    if (!rc && !c.recordings)
        rc = err_set(err, ERR_NOT_FOUND, "no *.edf or *.bdf file below %s", config->data_root);
    if (rc)
        return rc;
    e->recordings = c.recordings;
    estimate_data_facts(config, c.hours, c.unreadable);
    return 0;
}

/* Without a model that can be looked at now there is nothing to say. */
static int estimate(const struct estimate_config *config, const char *key, struct estimate *ret, struct err *err) {
    const struct estimate_file *file = estimate_file(config, key);
    struct seizure_options options = {.max_batch = BATCH, .precision = DTYPE_F32};
    struct seizure_memory memory;
    struct modelfile model;
    *ret = (struct estimate){0};
    if (!file)
        return 0;
    int rc = modelfile_read(file->path, &model, err);
    if (rc)
        return task_model_is_url(file->ref) ? err_wrap(err, "model %.200s cannot be used", file->ref) : rc;
    if ((rc = seizure_memory(&model.model, &options, &memory, err)))
        return rc;
    ret->parameters = seizure_parameter_count(&model.model);
    ret->memory_bytes = memory.total;
    estimate_fact(config, "montage", "%s", model.montage);
    return config->data_root ? count_recordings(config, model.montage, ret, err) : 0;
}

int estimate_evaluate(const struct estimate_config *config, struct estimate *ret, struct err *err) {
    return estimate(config, "evaluate.checkpoint", ret, err);
}

int estimate_detect(const struct estimate_config *config, struct estimate *ret, struct err *err) {
    return estimate(config, "detect.model", ret, err);
}
