#include "run/task.h"

#include <string.h>

#include "base/str.h"
#include "store/digest.h"

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
