/* task_driver: runs one job file to its end without a daemon, for tests of the task machinery.
 * usage: task_driver JOB.yaml DIRECTORY CACHE [KEY=VALUE …]; `stop_after=N` ends after N optimizer steps with a checkpoint,
 * `stop_after=validate` in the middle of the first validation; `mirrored=1` treats the source as a store, whose recordings arrive
 * while the job runs.
 * BRR_TEST_DEVICE names another device than the CPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fsio.h"
#include "base/str.h"
#include "store/mirror.h"
#include "windows/mirrored.h"
#include "work/job_data.h"
#include "work/task.h"

static struct task_progress newest;

static void on_progress(const struct task_progress *p) {
    newest = *p;
    if (p->step % 20 == 0 && !strcmp(p->phase, "train"))
        fprintf(stderr, "step %lld/%lld loss %.5f lr %.2e |g| %.3f %.1f windows/s wait %.0f %%\n", (long long)p->step,
                (long long)p->steps, p->loss, p->learning_rate, p->gradient_norm, p->windows_per_s, 100 * p->data_wait_ratio);
}

static int on_report(void *ctx, const struct task_report *r) {
    (void)ctx;
    if (r->kind == TASK_PROGRESS)
        on_progress(r->progress);
    else if (r->kind == TASK_CHECKPOINT)
        printf("checkpoint %s %s%s\n", r->checkpoint->path, r->checkpoint->sha256, r->checkpoint->best ? " best" : "");
    else if (r->text)
        fprintf(stderr, "%s\n", r->text);
    fflush(stdout);
    return 0;
}

/* stop_after: 0 = never, −1 = once a validation has begun. */
static bool stopped(int64_t stop_after) {
    return stop_after < 0 ? !strcmp(newest.phase, "validate") : stop_after && newest.step >= stop_after;
}

static struct driver {
    const struct task_work *work;
    void *task;
    int64_t stop_after;
} driver;

static int on_point(void *ctx, struct err *err) {
    const struct driver *d = ctx;
    if (!stopped(d->stop_after))
        return 0;
    int rc = d->work->checkpoint ? d->work->checkpoint(d->task, err) : 0;
    return rc ? rc : TASK_STOP;
}

static int run(const struct jobfile *job, struct task_env *env, int64_t stop_after, struct err *err) {
    driver = (struct driver){.work = task_work_of(job->kind), .stop_after = stop_after};
    env->ctx = &driver;
    env->point = on_point;
    int rc = fsio_remove_temporaries(env->directory, err);
    if (!rc)
        rc = driver.work->open(job, env, &driver.task, err);
    if (!rc)
        rc = driver.work->run(driver.task, err);
    if (rc == TASK_STOP)
        rc = 0;
    if (!rc) {
        struct str out;
        struct json_writer w;
        str_init(&out, 65536);
        json_writer_init(&w, &out);
        driver.work->result(driver.task, &w, NULL);
        printf("result %s\n", str_cstr(&out));
        str_done(&out);
    }
    driver.work->close(driver.task);
    return rc;
}

static bool go_on(void *ctx, const struct mirror_progress *p) {
    (void)ctx, (void)p;
    return true;
}

/* run from a mirror of env's data root. */
static int run_mirrored(const struct jobfile *job, struct task_env *env, int64_t stop_after, struct err *err) {
    char url[4096], objects[4096], tree[4096];
    struct store *store = NULL;
    struct cache *cache = NULL;
    struct mirror *mirror = NULL;
    str_format(url, sizeof url, "file://%s", env->data_root);
    str_format(objects, sizeof objects, "%s/objects", env->cache_dir);
    str_format(tree, sizeof tree, "%s/mirror", env->cache_dir);
    int rc = store_open(&(struct store_config){.url = url}, &store, err);
    if (!rc)
        rc = cache_open(objects, NULL, 1 << 30, &cache, err);
    const struct mirror_config config = {
        .rules = &mirrored_recordings, .store = store, .cache = cache, .prefix = "", .directory = tree, .head_bytes = 16 << 10};
    if (!rc)
        rc = mirror_open(&config, go_on, NULL, &mirror, err);
    if (!rc) {
        env->data_root = mirror_directory(mirror);
        env->mirror = mirror;
        rc = run(job, env, stop_after, err);
    }
    mirror_close(mirror);
    cache_close(cache);
    store_close(store);
    return rc;
}

int main(int argc, char **argv) {
    struct err err = {0};
    struct arena arena;
    struct jobfile job;
    struct device *dev = NULL;
    char *text = NULL;
    const char *device = getenv("BRR_TEST_DEVICE");
    const char *overrides[64];
    size_t len;
    int n = 0;
    int64_t stop_after = 0, mirrored = 0;
    if (argc < 4) {
        fprintf(stderr, "usage: task_driver JOB.yaml DIRECTORY CACHE [KEY=VALUE …]\n");
        return 2;
    }
    for (int i = 4; i < argc && n < 64; i++) {
        if (!strcmp(argv[i], "stop_after=validate"))
            stop_after = -1;
        else if (str_starts(argv[i], "stop_after="))
            str_to_i64(argv[i] + 11, &stop_after);
        else if (str_starts(argv[i], "mirrored="))
            str_to_i64(argv[i] + 9, &mirrored);
        else
            overrides[n++] = argv[i];
    }
    arena_init(&arena, 16 << 20);
    int rc = fsio_read(argv[1], 1 << 20, &text, &len, &err);
    if (!rc)
        rc = jobfile_parse(text, argv[1], overrides, n, &arena, &job, &err);
    if (!rc)
        rc = fsio_mkdirs(argv[2], &err);
    if (!rc)
        rc = fsio_mkdirs(argv[3], &err);
    if (!rc)
        rc = device_open(device ? device : "cpu", 0, &dev, &err);
    if (!rc) {
        const char *root = job.data ? job.data->source : "";
        root = str_starts(root, "file://") ? root + 7 : root;
        struct task_env env = {.device = dev, .directory = argv[2], .cache_dir = argv[3], .data_root = root, .report = on_report};
        rc = mirrored ? run_mirrored(&job, &env, stop_after, &err) : run(&job, &env, stop_after, &err);
    }
    device_close(dev);
    free(text);
    arena_done(&arena);
    if (rc) {
        char buf[1024];
        fprintf(stderr, "%s: %s\n", err_name(rc), err_text(&err, buf, sizeof buf));
    }
    return rc ? 1 : 0;
}
