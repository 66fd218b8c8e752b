/* sched_fixture: a scheduler whose workers are the test, which takes jobs and reports what it wants, beside a real database. */
#pragma once
#include "base/base.h"
#include "daemon/jobs/sched.h"
#include "daemon/jobs/sched_parts.h"

#include <sys/statvfs.h>

#include "daemon/jobs/jobdb.h"
#include "unit/temp_dir.h"

/* Not every test needs all of the fixture. */
#define UNUSED __attribute__((unused))

/* Waits until all changes so far are recorded or cannot be, and does what follows. */
static UNUSED void sched_settle(struct sched *s) { db_writer_settle(sched_writer(s)); }

static int64_t now_ms = INT64_C(1800000000000);
static UNUSED int64_t wall_ms(void) { return now_ms; }
/* Only the wall clock can be set. */
static int64_t step_ms;
static UNUSED int64_t boot_ms(void) { return now_ms - step_ms; }

/* In place of the C library's: while `held`, no volume answers. */
static atomic_bool held;
int statvfs(const char *restrict path, struct statvfs *restrict ret) {
    static const struct timespec turn = {.tv_nsec = 1000 * 1000};
    while (atomic_load(&held))
        nanosleep(&turn, NULL);
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = fd < 0 ? -1 : fstatvfs(fd, ret);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* In place of the C library's: while stuck, no file of other threads reaches its disk. */
static atomic_bool stuck_sync;
static pthread_t own_thread;
static UNUSED int wait_for_disk(void) {
    static const struct timespec turn = {.tv_nsec = 1000 * 1000};
    while (atomic_load(&stuck_sync) && !pthread_equal(pthread_self(), own_thread))
        nanosleep(&turn, NULL);
    return 0;
}
__attribute__((visibility("default"))) int fsync(int fd) { return (void)fd, wait_for_disk(); }
__attribute__((visibility("default"))) int fdatasync(int fd) { return (void)fd, wait_for_disk(); }

struct fixture {
    char *dir;
    struct db *db;
    struct places places;
    struct sched_config config;
    struct sched *sched;
    char data[512], results[512], running[JOB_ID_SIZE]; /* running: of the newest job that was started */
    int runs, run_rc, device, interrupted_device;       /* device: of the newest job that was started */
    enum stop_reason interrupted;
    bool read_only; /* the database, from the next start on */
    int notified;   /* changes */
};

static UNUSED int run(void *worker, int device, const struct job *job, struct err *err) {
    struct fixture *f = worker;
    f->device = device;
    assert_int_equal(job->state, JOB_PREPARING);
    str_copy(f->running, sizeof f->running, job->id);
    f->runs++;
    return f->run_rc ? err_set(err, f->run_rc, "no room for a job") : 0;
}

static UNUSED void interrupt_run(void *worker, int device, enum stop_reason why) {
    struct fixture *f = worker;
    f->interrupted = why;
    f->interrupted_device = device;
}
static UNUSED void changed(void *ctx, const struct job *job) {
    (void)job;
    ((struct fixture *)ctx)->notified++;
}
static UNUSED int no_models(void *ctx, const char *ref, struct model_ref *ret, struct err *err) {
    (void)ctx, (void)ret;
    return err_set(err, ERR_NOT_FOUND, "no model %s", ref);
}

/* From now on every write to the database fails, or succeeds again. */
static UNUSED void break_database(struct fixture *f, bool broken) {
    struct db_query q;
    if (f->sched)
        sched_settle(f->sched);
    assert_int_equal(db_query(f->db, broken ? "PRAGMA query_only=1" : "PRAGMA query_only=0", "break", &q, NULL), 0);
    assert_int_equal(db_run(&q, NULL), 0);
}

/* What follows from changes that were recorded happens too. */
static UNUSED void turn(struct fixture *f) {
    sched_turn(f->sched);
    sched_settle(f->sched);
}

static UNUSED void tick(struct fixture *f) {
    sched_tick(f->sched);
    sched_settle(f->sched);
}

static UNUSED void open_sched(struct fixture *f) {
    struct err err;
    str_format(f->data, sizeof f->data, "%s/data", f->dir);
    str_format(f->results, sizeof f->results, "%s/results", f->dir);
    char path[600];
    str_format(path, sizeof path, "%s/jobs.sqlite", f->dir);
    assert_int_equal(fsio_mkdirs(f->data, NULL), 0);
    f->places = (struct places){.data_dir = f->data, .results_dir = f->results};
    if (db_open(path, &f->db, &err))
        fail_msg("%s", err.message);
    struct sched_config config = f->config;
    config.db = f->db;
    config.rules = (struct submission_rules){.places = &f->places, .refer_model = no_models, .shared = true};
    config.cache_dir = f->dir;
    config.max_queued = 100;
    config.keep_finished_ms = config.keep_finished_ms ? config.keep_finished_ms : -1;
    config.changed = changed;
    config.ctx = config.worker = f;
    config.run = run;
    config.interrupt = interrupt_run;
    config.places[0].name = "cpu";
    config.places[0].description = "cpu";
    config.versions = "brrd 9.9";
    config.wall_ms = wall_ms;
    config.steady_ms = boot_ms;
    config.boot_ms = boot_ms;
    if (f->read_only)
        break_database(f, true);
    if (sched_open(&config, &f->sched, &err))
        fail_msg("%s", err.message);
    sched_tick(f->sched); /* it has looked at the clocks */
    sched_settle(f->sched);
}

static UNUSED void close_sched(struct fixture *f) {
    sched_close(f->sched);
    f->sched = NULL;
    db_close(f->db);
}

/* As kill -9 and a new start do: what is in memory alone is gone. */
static UNUSED void die_and_start(struct fixture *f) {
    close_sched(f);
    open_sched(f);
}

static UNUSED int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    void *dir = NULL;
    if (!f || temp_dir_make(&dir))
        return -1;
    f->dir = dir;
    open_sched(f);
    *state = f;
    return 0;
}

static UNUSED int tear_down(void **state) {
    struct fixture *f = *state;
    void *dir = f->dir;
    close_sched(f);
    free(f);
    return temp_dir_remove(&dir);
}

static UNUSED int accept_draft(struct fixture *f, struct draft *draft, const struct job **ret, struct err *err) {
    int rc = sched_accept(f->sched, draft, NULL, NULL, ret, err);
    draft_discard(draft);
    draft_free(draft);
    return rc;
}

/* A draft, or the job of the same request. */
static UNUSED int draft_of(struct fixture *f, const struct submission *request, struct draft **ret, const struct job **ret_same,
                           struct err *err) {
    struct draft *draft = NULL;
    const struct job *same = NULL;
    int rc = draft_parse(request, sched_wall_ms(f->sched), &draft, err);
    if (!rc && !(rc = sched_admit(f->sched, draft, false, &same, err)) && !same) {
        *ret = draft;
        return 0;
    }
    draft_free(draft);
    *ret_same = same ? same : *ret_same;
    return rc;
}

static UNUSED int send(struct fixture *f, const struct submission *request, const struct job **ret, struct err *err) {
    struct draft *draft = NULL;
    int rc = draft_of(f, request, &draft, ret, err);
    if (rc || !draft)
        return rc;
    if (!(rc = draft_place(draft, err)))
        return accept_draft(f, draft, ret, err);
    draft_free(draft);
    return rc;
}

static UNUSED int try_submit(struct fixture *f, const char *const *overrides, int n, const struct job **ret, struct err *err) {
    const struct submission request = {
        .yaml = "kind: train\nname: t\ndata:\n  source: .\nmodel:\n  preset: tiny\nlimits:\n  restarts: 2\n",
        .file = "t.yaml",
        .request_id = "",
        .overrides = overrides,
        .n_overrides = n};
    return send(f, &request, ret, err);
}

static UNUSED const struct job *submit(struct fixture *f) {
    const struct job *job = NULL;
    struct err err;
    if (try_submit(f, NULL, 0, &job, &err))
        fail_msg("%s", err.message);
    return job;
}

static UNUSED const struct job *submit_with(struct fixture *f, const char *override) {
    const struct job *job = NULL;
    struct err err;
    if (try_submit(f, &override, 1, &job, &err))
        fail_msg("%s", err.message);
    return job;
}

static UNUSED const struct job *started(struct fixture *f) {
    const struct job *job = submit(f);
    turn(f);
    assert_string_equal(f->running, job->id);
    sched_report(f->sched, job->id, &(struct task_report){.kind = TASK_RUNNING});
    assert_int_equal(job->state, JOB_RUNNING);
    return job;
}

static UNUSED void report_task_end(struct fixture *f, struct task_end end) {
    sched_report(f->sched, f->running, &(struct task_report){.kind = TASK_END, .end = &end});
    free(end.result);
}

static UNUSED void report_end(struct fixture *f, int rc, enum stop_reason stopped, const char *result) {
    struct task_end end = {.rc = rc, .stopped = stopped, .energy_j = (double)NAN, .limits.restarts = 2};
    if (rc)
        err_set(&end.err, rc, "it went wrong");
    end.result = result ? strdup(result) : NULL;
    report_task_end(f, end);
}

/* An attempt that ends as one does whose checkpoint cannot be written. */
static UNUSED void report_errno(struct fixture *f, int errnum) {
    struct task_end end = {.energy_j = (double)NAN, .limits.restarts = 2};
    end.rc = err_errno(&end.err, errnum, "cannot write the checkpoint");
    report_task_end(f, end);
}

static UNUSED void report_checkpoint_of(struct fixture *f, struct task_checkpoint c) {
    str_format(c.path, sizeof c.path, "%s/step-%lld", f->dir, (long long)c.step);
    put_file(c.path, "x", 1);
    sched_report(f->sched, f->running, &(struct task_report){.kind = TASK_CHECKPOINT, .checkpoint = &c});
}

static UNUSED void report_checkpoint(struct fixture *f, int64_t step, bool best) {
    report_checkpoint_of(f, (struct task_checkpoint){.step = step, .last = true, .best = best, .metric = (double)NAN});
}

static UNUSED int count_checkpoint(void *ctx, const struct jobdb_checkpoint *c) {
    (void)c;
    ++*(int *)ctx;
    return 0;
}

static UNUSED int recorded_checkpoints(struct fixture *f, const char *id) {
    int n = 0;
    sched_settle(f->sched);
    assert_int_equal(jobdb_records(f->db, id, count_checkpoint, &n, NULL), 0);
    return n;
}

#define rigged(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static UNUSED void make_active(struct fixture *f, const char *id) {
    struct db_query q;
    sched_settle(f->sched);
    assert_int_equal(db_query(f->db, "UPDATE jobs SET state='running', attempts=1 WHERE id=?", "make active", &q, NULL), 0);
    db_put_text(&q, id);
    assert_int_equal(db_run(&q, NULL), 0);
}
