#include "run/task.h"

#include <math.h>
#include <string.h>

#include "base/str.h"
#include "infer/detector.h"
#include "store/digest.h"

void task_progress_init(struct task_progress *p) {
    *p = (struct task_progress){.loss = NAN,
                                .validation_loss = NAN,
                                .learning_rate = NAN,
                                .gradient_norm = NAN,
                                .windows_per_s = NAN,
                                .data_wait_ratio = NAN,
                                .eta_s = NAN,
                                .metric = NAN,
                                .step_s = NAN};
}

const struct task_kind *task_kind_find(const char *name) {
    const struct task_kind *kinds[] = {task_train(), task_evaluate(), task_detect()};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i]->name, name))
            return kinds[i];
    return NULL;
}

bool task_model_is_url(const char *ref) { return str_starts(ref, "store://"); }

int task_model_find(const struct task_env *env, const char *ref, struct task_model *ret, struct err *err) {
    if (!task_model_is_url(ref))
        return str_copy(ret->path, sizeof ret->path, ref)
                   ? digest_file(ref, ret->sha256, err)
                   : err_set(err, ERR_RANGE, "the path of the model %.200s… is too long", ref);
    if (!env->model)
        return err_set(err, ERR_UNSUPPORTED, "%.200s: there are no stores here; name a local file", ref);
    return env->model(env->ctx, ref, ret, err);
}

static int check_memory(const struct task_env *env, const struct detector *detector, struct err *err) {
    int64_t bytes = detector_info(detector)->memory_bytes;
    if (!env->memory_limit_bytes || bytes <= env->memory_limit_bytes)
        return 0;
    return err_set(err, ERR_EXHAUSTED, "the model needs %lld bytes of the device's memory, %lld may be used (limits.memory)",
                   (long long)bytes, (long long)env->memory_limit_bytes);
}

int task_open_detector(const struct task_env *env, const char *ref, int batch, struct detector **ret, struct err *err) {
    struct task_model model;
    struct detector *detector = NULL;
    char text[1000];
    int rc = task_model_find(env, ref, &model, err);
    if (rc)
        return rc;
    if ((rc = detector_open(env->device, model.path, batch, &detector, err)))
        return task_model_is_url(ref) ? err_wrap(err, "model %.200s cannot be used", ref) : rc;
    if ((rc = check_memory(env, detector, err))) {
        detector_close(detector);
        return rc;
    }
    str_format(text, sizeof text, "model %.800s, SHA-256 %s", ref, model.sha256);
    if (env->log)
        env->log(env->ctx, TASK_INFO, text);
    *ret = detector;
    return 0;
}
