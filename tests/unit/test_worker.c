/* worker: the end of a job is reported whatever happens to memory meanwhile, a checkpoint too or the job fails, and jobs run one at
 * a time. The device is the CPU. */
#include "base/base.h"
#include "daemon/jobs/worker.h"

#include "unit/temp_dir.h"

/* Where no report can be made: calloc fails for its size (the linker's --wrap). */
enum { ENOUGH, NONE_ON_THE_WORKER, NONE };
static atomic_int memory;
static pthread_t own_thread;
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) {
    int short_of = atomic_load(&memory);
    bool fails = short_of == NONE || (short_of == NONE_ON_THE_WORKER && !pthread_equal(pthread_self(), own_thread));
    return fails && size == sizeof(struct worker_report) ? NULL : __real_calloc(n, size);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;

static void wake(void *ctx) {
    (void)ctx;
    pthread_mutex_lock(&lock);
    pthread_cond_signal(&told);
    pthread_mutex_unlock(&lock);
}

/* The next report of that kind, or NULL when none comes for a minute. */
static struct worker_report *wait_for(struct worker *w, enum task_report_kind kind) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    int late = 0;
    pthread_mutex_lock(&lock);
    while (!late) {
        for (struct worker_report *r; (r = worker_take(w)); worker_report_free(r))
            if (r->report.kind == kind) {
                pthread_mutex_unlock(&lock);
                return r;
            }
        late = pthread_cond_timedwait(&told, &lock, &until);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static struct device *device;

static void stop(struct worker *w) {
    worker_stop(w);
    device_close(device);
}

static struct worker *start(void **state) {
    struct worker *w = NULL;
    struct err err;
    if (device_open("cpu", 1, &device, &err))
        fail_msg("%s", err.message);
    const struct worker_config config = {
        .runner = {.device = device, .source = {.cache_dir = in_dir(state, "cache")}, .default_wall_clock_ms = -1}, .wake = wake};
    if (worker_start(&config, &w, &err))
        fail_msg("%s", err.message);
    return w;
}

static struct job *make_job_of(void **state, const char *yaml) {
    struct job *job = job_new();
    assert_non_null(job);
    str_copy(job->id, sizeof job->id, "train-1");
    job->yaml = strdup(yaml);
    job->file = strdup("t.yaml");
    job->overrides = strdup("[]");
    job->request_id = strdup("");
    str_copy(job->directory, sizeof job->directory, in_dir(state, "job"));
    str_copy(job->data_root, sizeof job->data_root, in_dir(state, "data"));
    assert_int_equal(fsio_mkdirs(job->directory, NULL), 0);
    assert_int_equal(fsio_mkdirs(job->data_root, NULL), 0);
    return job;
}

/* A training on a folder without recordings: it ends by an error of its own. */
static struct job *make_job(void **state) {
    return make_job_of(state, "kind: train\ndata:\n  source: .\nmodel:\n  preset: tiny\n");
}

static void the_end_is_reported_when_memory_is_short(void **state) {
    struct worker *w = start(state);
    struct job *job = make_job(state);
    struct err err;
    own_thread = pthread_self();
    atomic_store(&memory, NONE_ON_THE_WORKER);
    assert_int_equal(worker_run(w, job, &err), 0);
    struct worker_report *r = wait_for(w, TASK_END);
    atomic_store(&memory, ENOUGH);
    assert_non_null(r);
    assert_string_equal(r->job_id, "train-1");
    assert_int_not_equal(r->end.rc, 0);
    assert_true(*r->end.err.message != '\0');
    worker_report_free(r);
    assert_int_equal(worker_run(w, job, &err), 0); /* and the device is free again */
    worker_report_free(wait_for(w, TASK_END));
    stop(w);
    job_free(job);
}

static void a_job_whose_end_could_not_be_told_does_not_begin(void **state) {
    struct worker *w = start(state);
    struct job *job = make_job(state);
    struct err err;
    atomic_store(&memory, NONE);
    assert_int_equal(worker_run(w, job, &err), ERR_EXHAUSTED);
    atomic_store(&memory, ENOUGH);
    assert_int_equal(worker_run(w, job, &err), 0); /* nothing of it is left */
    worker_report_free(wait_for(w, TASK_END));
    stop(w);
    job_free(job);
}

/* Its ticks run here and its files are written elsewhere, until it has to end. */
static void a_stopped_job_leaves_a_checkpoint(void **state) {
    struct worker *w = start(state);
    struct job *job = make_job_of(state, "kind: burst\n"
                                         "network: { neurons: 500, synapses: 20 }\n"
                                         "input: { random: 0.5, potential: 1000 }\n"
                                         "ticks: 1000000000\n"
                                         "output: { rates_every: 1, membranes_every: 100 }\n");
    struct err err;
    assert_int_equal(worker_run(w, job, &err), 0);
    worker_report_free(wait_for(w, TASK_RUNNING));
    worker_interrupt(w, STOP_SHUTDOWN);
    struct worker_report *r = wait_for(w, TASK_CHECKPOINT), *end = wait_for(w, TASK_END);
    assert_true(r && end);
    if (end->end.rc)
        fail_msg("%s", end->end.err.message);
    assert_true(end->end.stopped == STOP_SHUTDOWN && end->end.has_checkpoint);
    assert_true(fsio_exists(r->checkpoint.path) && fsio_exists(in_dir(state, "job/rates.tsv.part")));
    worker_report_free(r);
    worker_report_free(end);
    stop(w);
    job_free(job);
}

/* With the checkpoint, unless it is to end at once. */
static void a_cancelled_job_saves_unless_it_is_to_end_at_once(void **state) {
    struct worker *w = start(state);
    struct job *job = make_job_of(state, "kind: burst\n"
                                         "network: { neurons: 500, synapses: 20 }\n"
                                         "input: { random: 0.5, potential: 1000 }\n"
                                         "ticks: 1000000000\n");
    struct err err;
    for (int saves = 0; saves < 2; saves++) {
        assert_int_equal(worker_run(w, job, &err), 0);
        worker_report_free(wait_for(w, TASK_RUNNING));
        worker_interrupt(w, saves ? STOP_SAVE_AND_CANCEL : STOP_CANCEL);
        struct worker_report *end = wait_for(w, TASK_END);
        assert_non_null(end);
        assert_true(end->end.rc == 0 && stop_is_cancel(end->end.stopped) && end->end.has_checkpoint == (saves == 1));
        worker_report_free(end);
    }
    stop(w);
    job_free(job);
}

static void a_checkpoint_is_reported_when_memory_is_short_or_the_job_fails(void **state) {
    struct worker *w = start(state);
    struct job *job = make_job_of(state, "kind: burst\n"
                                         "network: { neurons: 500, synapses: 20 }\n"
                                         "input: { random: 0.5, potential: 1000 }\n"
                                         "ticks: 1000000000\n"
                                         "checkpoint: { every: 1s }\n");
    struct err err;
    own_thread = pthread_self();
    assert_int_equal(worker_run(w, job, &err), 0);
    worker_report_free(wait_for(w, TASK_RUNNING));
    atomic_store(&memory, NONE_ON_THE_WORKER);
    struct worker_report *r = wait_for(w, TASK_CHECKPOINT);
    assert_non_null(r); /* the first one; the next has no memory left */
    worker_report_free(r);
    r = wait_for(w, TASK_END);
    atomic_store(&memory, ENOUGH);
    assert_non_null(r);
    assert_int_equal(r->end.rc, ERR_EXHAUSTED);
    assert_non_null(strstr(r->end.err.message, "checkpoint"));
    worker_report_free(r);
    stop(w);
    job_free(job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(the_end_is_reported_when_memory_is_short),
        in_temp_dir(a_stopped_job_leaves_a_checkpoint),
        in_temp_dir(a_cancelled_job_saves_unless_it_is_to_end_at_once),
        in_temp_dir(a_checkpoint_is_reported_when_memory_is_short_or_the_job_fails),
        in_temp_dir(a_job_whose_end_could_not_be_told_does_not_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
