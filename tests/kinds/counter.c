/* A kind of job for tests: counts to counter.to with a pause at each step, and goes on from its checkpoint, a file with the count.
 * It reads no recordings and knows no model; this file and a line of kinds.def are all there is of it. */

#include "base/base.h"
#include "store/digest.h"
#include "work/estimate.h"
#include "work/task.h"

struct counter_config {
    int64_t to, pause_ms;
    const char *start;
};

#define C(field) offsetof(struct counter_config, field)
static const struct option rows[] = {
    {"counter.to", OPTION_I64, C(to), NULL, 1, 1e6, NULL, "the last number"},
    {"counter.pause_ms", OPTION_I64, C(pause_ms), "10", 0, 1000, NULL, "milliseconds from one number to the next"},
    {"counter.start", OPTION_PATH, C(start), "null", 0, 0, NULL, "a file with the number to count from; default 0"},
};
static const struct option_table table = OPTION_TABLE(rows);
static const struct kind_keys keys[] = {{&table, 0}, {NULL, 0}};
static const struct kind_metric metrics[] = {
    {KIND_METRIC_STEPS, 0, COUNTER("brrd_counter_steps_total", "Numbers counted.", "device")},
    {KIND_METRIC_VALUE, offsetof(struct task_progress, figures[0].value),
     GAUGE("brrd_counter_rate", "Numbers a second.", "job_id")},
    {0, 0, {0}},
};

static void summarise(const struct json *result, char *buf, size_t size) {
    str_format(buf, size, "counted to %lld", (long long)json_i64(json_get(result, "count"), 0));
}

const struct task_kind kind_counter = {
    .name = "counter",
    .help = "counts, for tests",
    .keys = keys,
    .checkpoints = true,
    .config_bytes = sizeof(struct counter_config),
    .metrics = metrics,
    .summary = summarise,
};

struct counter {
    const struct counter_config *config;
    struct task_env env;
    struct task_progress progress;
    int64_t began, at;
    char path[4096]; /* of the checkpoint */
};

static int read_count(const char *path, int64_t *ret, struct err *err) {
    char *text = NULL;
    size_t len = 0;
    int rc = fsio_read(path, 64, &text, &len, err);
    if (rc)
        return rc;
    text[strcspn(text, "\n")] = '\0';
    if (!str_to_i64(text, ret))
        rc = err_set(err, ERR_INVALID, "%s holds no number", path);
    free(text);
    return rc;
}

/* Goes on from its checkpoint, or begins. */
static int counter_open(const struct jobfile *job, const struct task_env *env, void **ret_task, struct err *err) {
    struct counter c = {.config = job->config, .env = *env}, *task;
    int rc = fsio_join(c.path, sizeof c.path, env->directory, "count.txt", err);
    const char *from = fsio_exists(c.path) ? c.path : c.config->start;
    if (rc || (from && (rc = read_count(from, &c.at, err))))
        return rc;
    c.began = c.at;
    task_progress_init(&c.progress);
    if (!(task = malloc(sizeof *task)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a counter");
    *task = c;
    *ret_task = task;
    return 0;
}

static void report(struct counter *c) {
    struct task_progress *p = &c->progress;
    str_copy(p->phase, sizeof p->phase, "count");
    p->step = c->at;
    p->steps = c->config->to;
    p->step_s = (double)c->config->pause_ms / 1000;
    p->eta_s = p->step_s * (double)(p->steps - p->step);
    str_copy(p->figures[0].name, sizeof p->figures[0].name, "numbers/s");
    p->figures[0].value = 1 / fmax(p->step_s, 1e-6);
    task_progressed(&c->env, p);
}

static int counter_run(void *task, struct err *err) {
    struct counter *c = task;
    const struct timespec pause = {c->config->pause_ms / 1000, c->config->pause_ms % 1000 * 1000000};
    int rc;
    for (; c->at < c->config->to; c->at++, report(c)) {
        if ((rc = task_point(&c->env, err)))
            return rc;
        nanosleep(&pause, NULL);
    }
    return 0;
}

static int counter_checkpoint(void *task, struct err *err) {
    struct counter *c = task;
    struct task_checkpoint made = {.step = c->at, .metric = NAN, .last = true};
    char text[32];
    int rc;
    str_format(text, sizeof text, "%lld\n", (long long)c->at);
    if ((rc = fsio_write_atomic(c->path, text, strlen(text), err)) || (rc = digest_file(c->path, made.sha256, err)))
        return rc;
    str_copy(made.path, sizeof made.path, c->path);
    made.bytes = (int64_t)strlen(text);
    task_tell(&c->env, &(struct task_report){.kind = TASK_CHECKPOINT, .checkpoint = &made});
    return 0;
}

static void counter_result(void *task, struct json_writer *w, const char *key) {
    const struct counter *c = task;
    json_begin_object(w, key);
    json_put_i64(w, "count", c->at);
    json_put_i64(w, "began", c->began);
    json_end(w, '}');
}

static int counter_estimate(const struct estimate_config *config, struct estimate *ret, struct err *err) {
    const struct counter_config *c = config->job->config;
    const struct estimate_file *start = estimate_file(config, "counter.start");
    int64_t from = 0;
    int rc = start ? read_count(start->path, &from, err) : 0;
    if (rc)
        return rc;
    *ret = (struct estimate){.steps = c->to - from, .seconds_per_step = (double)c->pause_ms / 1000, .memory_bytes = sizeof *c};
    ret->seconds_total = ret->seconds_per_step * (double)ret->steps;
    estimate_fact(config, "from", "%lld", (long long)from);
    return 0;
}

const struct task_work work_counter = {
    .open = counter_open,
    .run = counter_run,
    .checkpoint = counter_checkpoint,
    .result = counter_result,
    .close = free,
    .estimate = counter_estimate,
    .estimates_time = true,
};
