#include "work/task.h"

#include "kernels/profile.h"
#include "store/digest.h"
#include "store/mirror.h"
#include "windows/manifest.h"

void task_log(const struct task_env *env, enum task_level level, const char *fmt, ...) {
    char text[1000];
    STR_ARGUMENTS(text, fmt);
    task_tell(env, &(struct task_report){.kind = TASK_LOG, .level = level, .text = text});
}

int task_check(const struct jobfile *job, const struct device_info *device, int ranks, struct err *err) {
    const struct task_work *work = task_work_of(job->kind);
    if (ranks > 1 && !work->shares)
        return err_set(err, ERR_INVALID, "a job of kind %s cannot be shared by %d ranks; start one", job->kind->name, ranks);
    return work->check && device ? work->check(job, device, err) : 0;
}

int task_stream(const struct task_env *env, struct stream **ret, struct err *err) {
    int rc = stream_open(env->device, STREAM_NORMAL, ret, err);
    if (rc)
        return rc;
    stream_profile(*ret, env->profile);
    stream_share(*ret, env->turn);
    return 0;
}

bool task_is_mirrored(const struct task_env *env) {
    bool mirrored = env->mirror != NULL;
    for (int i = 0; i < env->n_sources; i++)
        mirrored |= env->sources[i].mirror != NULL;
    return mirrored;
}

void task_stop_mirrors(const struct task_env *env) {
    if (env->mirror)
        mirror_stop(env->mirror);
    for (int i = 0; i < env->n_sources; i++)
        if (env->sources[i].mirror)
            mirror_stop(env->sources[i].mirror);
}

bool task_phase(const struct task_env *env, struct task_progress *p, const char *phase, int64_t done, int64_t total) {
    str_copy(p->phase, sizeof p->phase, phase);
    p->done = done;
    p->total = total;
    task_progressed(env, p);
    bool stop = env->stop && atomic_load(env->stop);
    if (stop)
        task_stop_mirrors(env); /* else the fetch of a whole recording would go on */
    return !stop;
}

bool task_model_is_url(const char *ref) { return str_starts(ref, "store://"); }

bool task_kept_model(const char *directory, const char *path, char ret[4096]) {
    char name[DIGEST_HEX_SIZE];
    return digest_bytes(path, strlen(path), name) && str_format(ret, 4096, "%s/" TASK_KEPT "/%s.safetensors", directory, name);
}

int task_model_find(const struct task_env *env, const char *ref, struct task_model *ret, struct err *err) {
    char kept[4096];
    if (!task_model_is_url(ref)) {
        if (!str_copy(ret->path, sizeof ret->path, ref))
            return err_set(err, ERR_RANGE, "the path of the model %.200s… is too long", ref);
        if (!fsio_exists(ref) && env->directory && task_kept_model(env->directory, ref, kept) && fsio_exists(kept))
            str_copy(ret->path, sizeof ret->path, kept);
        return digest_file(ret->path, ret->sha256, err);
    }
    if (!env->model)
        return err_set(err, ERR_UNSUPPORTED, "%.200s: there are no stores here; name a local file", ref);
    return env->model(env->ctx, ref, ret, err);
}
