/* sched: the queue, what ends a run and what becomes of the job then, and that nothing which was acknowledged is lost. The worker
 * is this file: it takes jobs and reports what a test wants. The database is a real one. */
#include "daemon/jobs/sched.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "daemon/jobs/jobdb.h"
#include "unit/temp_dir.h"

static int64_t now_ms = INT64_C(1800000000000);
static int64_t wall_ms(void) { return now_ms; }

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

struct rig {
    char *dir;
    struct db *db;
    struct places places;
    struct sched_config config;
    struct sched *sched;
    char data[512], results[512], running[JOB_ID_SIZE]; /* running: of the newest job that was started */
    int runs, run_rc, device, interrupted_device;       /* device: of the newest job that was started */
    enum worker_stop interrupted;
    bool read_only; /* the database, from the next start on */
    int notified;   /* changes */
};

static int run(void *worker, int device, const struct job *job, struct err *err) {
    struct rig *rig = worker;
    rig->device = device;
    assert_int_equal(job->state, JOB_PREPARING);
    str_copy(rig->running, sizeof rig->running, job->id);
    rig->runs++;
    return rig->run_rc ? err_set(err, rig->run_rc, "no room for a job") : 0;
}

static void interrupt_run(void *worker, int device, enum worker_stop why) {
    struct rig *rig = worker;
    rig->interrupted = why;
    rig->interrupted_device = device;
}
static void changed(void *ctx, const struct job *job) {
    (void)job;
    ((struct rig *)ctx)->notified++;
}
static int no_models(void *ctx, const char *ref, struct model_ref *ret, struct err *err) {
    (void)ctx, (void)ret;
    return err_set(err, ERR_NOT_FOUND, "no model %s", ref);
}

/* From now on every write to the database fails, or succeeds again. */
static void break_database(struct rig *rig, bool broken) {
    struct db_query q;
    assert_int_equal(db_query(rig->db, broken ? "PRAGMA query_only=1" : "PRAGMA query_only=0", "break", &q, NULL), 0);
    assert_int_equal(db_run(&q, NULL), 0);
}

static void open_sched(struct rig *rig) {
    struct err err;
    str_format(rig->data, sizeof rig->data, "%s/data", rig->dir);
    str_format(rig->results, sizeof rig->results, "%s/results", rig->dir);
    char path[600];
    str_format(path, sizeof path, "%s/jobs.sqlite", rig->dir);
    assert_int_equal(fsio_mkdirs(rig->data, NULL), 0);
    rig->places = (struct places){.data_dir = rig->data, .results_dir = rig->results};
    if (db_open(path, &rig->db, &err))
        fail_msg("%s", err.message);
    struct sched_config config = rig->config;
    config.db = rig->db;
    config.rules = (struct submission_rules){.places = &rig->places, .refer_model = no_models};
    config.cache_dir = rig->dir;
    config.max_queued = 100;
    config.keep_finished_ms = config.keep_finished_ms ? config.keep_finished_ms : -1;
    config.changed = changed;
    config.ctx = config.worker = rig;
    config.run = run;
    config.interrupt = interrupt_run;
    config.devices[0].name = "cpu";
    config.devices[0].description = "cpu";
    config.versions = "brrd 9.9";
    config.wall_ms = wall_ms;
    if (rig->read_only)
        break_database(rig, true);
    if (sched_open(&config, &rig->sched, &err))
        fail_msg("%s", err.message);
}

static void close_sched(struct rig *rig) {
    sched_close(rig->sched);
    db_close(rig->db);
}

/* As kill -9 and a new start do: what is in memory alone is gone. */
static void die_and_start(struct rig *rig) {
    close_sched(rig);
    open_sched(rig);
}

static int set_up(void **state) {
    struct rig *rig = calloc(1, sizeof *rig);
    void *dir = NULL;
    if (!rig || temp_dir_make(&dir))
        return -1;
    rig->dir = dir;
    open_sched(rig);
    *state = rig;
    return 0;
}

static int tear_down(void **state) {
    struct rig *rig = *state;
    void *dir = rig->dir;
    close_sched(rig);
    free(rig);
    return temp_dir_remove(&dir);
}

static int accept_draft(struct rig *rig, struct draft *draft, const struct job **ret, struct err *err) {
    int rc = sched_accept(rig->sched, draft, NULL, NULL, ret, err);
    draft_discard(draft);
    draft_free(draft);
    return rc;
}

static int send(struct rig *rig, const struct submission *request, const struct job **ret, struct err *err) {
    struct draft *draft = NULL;
    int rc = sched_draft(rig->sched, request, &draft, ret, err);
    if (rc || !draft)
        return rc;
    if (!(rc = draft_place(draft, err)))
        return accept_draft(rig, draft, ret, err);
    draft_free(draft);
    return rc;
}

static int try_submit(struct rig *rig, const char *const *overrides, int n, const struct job **ret, struct err *err) {
    const struct submission request = {
        .yaml = "kind: train\nname: t\ndata:\n  source: .\nmodel:\n  preset: tiny\nlimits:\n  restarts: 2\n",
        .file = "t.yaml",
        .request_id = "",
        .overrides = overrides,
        .n_overrides = n};
    return send(rig, &request, ret, err);
}

static const struct job *submit(struct rig *rig) {
    const struct job *job = NULL;
    struct err err;
    if (try_submit(rig, NULL, 0, &job, &err))
        fail_msg("%s", err.message);
    return job;
}

static const struct job *submit_with(struct rig *rig, const char *override) {
    const struct job *job = NULL;
    struct err err;
    if (try_submit(rig, &override, 1, &job, &err))
        fail_msg("%s", err.message);
    return job;
}

static const struct job *started(struct rig *rig) {
    const struct job *job = submit(rig);
    sched_turn(rig->sched);
    assert_string_equal(rig->running, job->id);
    struct worker_report r = {.message.kind = WORKER_RUNNING};
    str_copy(r.job_id, sizeof r.job_id, job->id);
    sched_report(rig->sched, &r);
    assert_int_equal(job->state, JOB_RUNNING);
    return job;
}

static void report_end(struct rig *rig, int rc, enum worker_stop stopped, const char *result) {
    struct worker_report r = {
        .message.kind = WORKER_DONE, .rc = rc, .stopped = stopped, .energy_j = (double)NAN, .limits.restarts = 2};
    str_copy(r.job_id, sizeof r.job_id, rig->running);
    if (rc)
        err_set(&r.err, rc, "it went wrong");
    r.text = result ? strdup(result) : NULL;
    sched_report(rig->sched, &r);
    free(r.text);
}

/* An attempt that ends as one does whose checkpoint cannot be written. */
static void report_errno(struct rig *rig, int errnum) {
    struct worker_report r = {.message.kind = WORKER_DONE, .energy_j = (double)NAN, .limits.restarts = 2};
    str_copy(r.job_id, sizeof r.job_id, rig->running);
    r.rc = err_errno(&r.err, errnum, "cannot write the checkpoint");
    sched_report(rig->sched, &r);
}

static void report_checkpoint(struct rig *rig, int64_t step, bool best) {
    struct worker_report r = {.message.kind = WORKER_CHECKPOINT};
    str_copy(r.job_id, sizeof r.job_id, rig->running);
    r.checkpoint = (struct task_checkpoint){.step = step, .last = true, .best = best, .metric = (double)NAN};
    str_format(r.checkpoint.path, sizeof r.checkpoint.path, "%s/step-%lld", rig->dir, (long long)step);
    put_file(r.checkpoint.path, "x", 1);
    sched_report(rig->sched, &r);
}

static int count_checkpoint(void *ctx, const struct jobdb_checkpoint *c) {
    (void)c;
    ++*(int *)ctx;
    return 0;
}

static int recorded_checkpoints(struct rig *rig, const char *id) {
    int n = 0;
    assert_int_equal(jobdb_checkpoints(rig->db, id, count_checkpoint, &n, NULL), 0);
    return n;
}

/* ---- the queue ---- */

static void jobs_run_by_priority_and_then_in_order_of_submission(void **state) {
    struct rig *rig = *state;
    const struct job *first = submit(rig), *second = submit(rig), *urgent = submit_with(rig, "priority=9");
    assert_int_equal(sched_position(rig->sched, urgent), 1);
    assert_int_equal(sched_position(rig->sched, second), 3);
    const struct job *const order[] = {urgent, first, second};
    for (int i = 0; i < 3; i++) {
        sched_turn(rig->sched);
        assert_string_equal(rig->running, order[i]->id);
        sched_turn(rig->sched);
        assert_int_equal(rig->runs, i + 1); /* one at a time */
        report_end(rig, 0, WORKER_STOP_NONE, "{}");
        assert_int_equal(order[i]->state, JOB_SUCCEEDED);
    }
    assert_true(sched_idle(rig->sched));
}

static void a_submission_that_is_repeated_is_the_same_job(void **state) {
    struct rig *rig = *state;
    const struct submission request = {.yaml = "kind: train\ndata:\n  source: .\n", .file = "t.yaml", .request_id = "once"};
    const struct job *a, *b;
    assert_int_equal(send(rig, &request, &a, NULL), 0);
    assert_int_equal(send(rig, &request, &b, NULL), 0);
    assert_ptr_equal(a, b);
    assert_int_equal(sched_count(rig->sched), 1);
}

static void submissions_of_one_request_at_the_same_time_are_one_job(void **state) {
    struct rig *rig = *state;
    const struct submission request = {.yaml = "kind: train\ndata:\n  source: .\n", .file = "t.yaml", .request_id = "once"};
    const struct job *a, *b = NULL;
    struct draft *first = NULL, *second = NULL;
    char directory[2048];
    assert_int_equal(sched_draft(rig->sched, &request, &first, &b, NULL), 0);
    assert_int_equal(sched_draft(rig->sched, &request, &second, &b, NULL), 0);
    assert_null(b);
    assert_int_equal(draft_place(second, NULL), 0);
    assert_int_equal(draft_place(first, NULL), 0);
    str_copy(directory, sizeof directory, second->job->directory);
    assert_true(fsio_is_dir(directory) && strcmp(directory, first->job->directory) != 0);
    assert_int_equal(accept_draft(rig, first, &a, NULL), 0);
    assert_int_equal(accept_draft(rig, second, &b, NULL), 0);
    assert_ptr_equal(a, b);
    assert_int_equal(sched_count(rig->sched), 1);
    assert_true(fsio_is_dir(a->directory) && !fsio_exists(directory));
}

static void the_queue_is_full_also_for_a_submission_under_way(void **state) {
    struct rig *rig = *state;
    const struct submission request = {.yaml = "kind: train\ndata:\n  source: .\n", .file = "t.yaml", .request_id = ""};
    const struct job *job = NULL;
    struct draft *draft = NULL;
    char directory[2048];
    for (int i = 0; i < 99; i++)
        submit(rig);
    assert_int_equal(sched_draft(rig->sched, &request, &draft, &job, NULL), 0);
    assert_int_equal(draft_place(draft, NULL), 0);
    str_copy(directory, sizeof directory, draft->job->directory);
    submit(rig); /* the hundredth came first */
    assert_int_equal(accept_draft(rig, draft, &job, NULL), ERR_EXHAUSTED);
    assert_int_equal(sched_count(rig->sched), 100);
    assert_false(fsio_exists(directory));
}

static void a_run_records_its_device_versions_and_times(void **state) {
    struct rig *rig = *state;
    const struct job *job = started(rig);
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, job->id);
    now_ms += 5000;
    report_end(rig, 0, WORKER_STOP_NONE, "{\"f1\":1}");
    die_and_start(rig);
    job = sched_get(rig->sched, id);
    assert_string_equal(job->device, "cpu");
    assert_string_equal(job->versions, "brrd 9.9");
    assert_string_equal(job->result, "{\"f1\":1}");
    assert_true(job->attempts == 1 && job->finished_ms - job->started_ms == 5000);
}

/* ---- crashes ---- */

static void a_crash_is_charged_and_waits_longer_each_time(void **state) {
    struct rig *rig = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(rig)->id);
    int64_t waits[2];
    for (int i = 0; i < 2; i++) {
        die_and_start(rig);
        const struct job *job = sched_get(rig->sched, id);
        assert_int_equal(job->state, JOB_QUEUED);
        assert_non_null(strstr(job->reason, "daemon_crashed"));
        assert_true(job->restarts == i + 1 && job->crashes == i + 1);
        waits[i] = job->retry_ms - now_ms;
        rig->runs = 0;
        sched_turn(rig->sched);
        assert_int_equal(rig->runs, 0);
        die_and_start(rig); /* it was waiting: no charge, and the wait goes on */
        assert_true(sched_get(rig->sched, id)->restarts == i + 1 && sched_get(rig->sched, id)->retry_ms - now_ms == waits[i]);
        now_ms += waits[i];
        sched_turn(rig->sched);
        assert_int_equal(rig->runs, 1);
    }
    assert_true(waits[0] > 0 && waits[1] == 2 * waits[0]);
    die_and_start(rig); /* the third: limits.restarts is 2 */
    const struct job *job = sched_get(rig->sched, id);
    assert_int_equal(job->state, JOB_FAILED);
    assert_non_null(strstr(job->reason, "daemon_crashed"));
    assert_non_null(strstr(job->reason, "3 times"));
    now_ms += 1000000;
    rig->runs = 0;
    sched_turn(rig->sched);
    assert_int_equal(rig->runs, 0);
    assert_int_equal(sched_resume(rig->sched, id, NULL, 0, &job, NULL), 0);
    assert_true(job->restarts == 0 && job->crashes == 0);
    sched_turn(rig->sched);
    assert_int_equal(rig->runs, 1);
}

static void make_active(struct rig *rig, const char *id) {
    struct db_query q;
    assert_int_equal(db_query(rig->db, "UPDATE jobs SET state='running', attempts=1 WHERE id=?", "make active", &q, NULL), 0);
    db_put_text(&q, id);
    assert_int_equal(db_run(&q, NULL), 0);
}

static void jobs_active_together_in_a_crash_are_not_charged_and_run_one_by_one(void **state) {
    struct rig *rig = *state;
    char first[JOB_ID_SIZE], second[JOB_ID_SIZE];
    str_copy(first, sizeof first, started(rig)->id);
    str_copy(second, sizeof second, submit(rig)->id);
    make_active(rig, second);
    die_and_start(rig);
    const struct job *one = sched_get(rig->sched, first), *two = sched_get(rig->sched, second);
    assert_true(one->state == JOB_QUEUED && one->restarts == 0 && two->state == JOB_QUEUED && two->restarts == 0);
    assert_non_null(strstr(two->reason, "while 2 jobs ran"));
    sched_turn(rig->sched);
    sched_turn(rig->sched);
    assert_true(one->state == JOB_PREPARING && two->state == JOB_QUEUED);
    die_and_start(rig); /* now the first was alone */
    one = sched_get(rig->sched, first), two = sched_get(rig->sched, second);
    assert_true(one->restarts == 1 && one->crashes == 1);
    assert_true(two->restarts == 0 && two->state == JOB_QUEUED);
}

static void a_job_that_was_to_stop_is_none_of_those_that_crashed(void **state) {
    struct rig *rig = *state;
    char first[JOB_ID_SIZE], second[JOB_ID_SIZE];
    str_copy(first, sizeof first, started(rig)->id);
    str_copy(second, sizeof second, submit(rig)->id);
    sched_drain(rig->sched);
    make_active(rig, second);
    die_and_start(rig);
    const struct job *one = sched_get(rig->sched, first), *two = sched_get(rig->sched, second);
    assert_true(one->restarts == 0 && two->restarts == 1 && two->crashes == 1);
    assert_string_equal(one->reason, "daemon_stopped");
}

static void a_wait_is_shown_and_what_it_covered_comes_back(void **state) {
    struct rig *rig = *state;
    const struct job *job = started(rig);
    sched_waits(rig->sched, 0, "waits for /a since T");
    assert_string_equal(job->reason, "waits for /a since T");
    sched_waits(rig->sched, 0, "");
    assert_string_equal(job->reason, "");
    sched_waits(rig->sched, 0, "waits for /b since U");
    report_end(rig, 0, WORKER_STOP_NONE, "{}");
    assert_string_equal(job->reason, "");
}

static void a_checkpoint_between_crashes_shortens_the_wait_again(void **state) {
    struct rig *rig = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(rig)->id);
    die_and_start(rig);
    int64_t first = sched_get(rig->sched, id)->retry_ms - now_ms;
    now_ms += first;
    sched_turn(rig->sched);
    report_checkpoint(rig, 10, false);
    die_and_start(rig);
    const struct job *job = sched_get(rig->sched, id);
    assert_true(job->retry_ms - now_ms == first);
    assert_int_equal(job->restarts, 2); /* charged all the same */
}

static void an_announced_checkpoint_is_no_progress(void **state) {
    struct rig *rig = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(rig)->id);
    report_checkpoint(rig, 10, true);
    die_and_start(rig);
    int64_t first = sched_get(rig->sched, id)->retry_ms - now_ms;
    now_ms += first;
    sched_turn(rig->sched);
    report_checkpoint(rig, 10, true); /* what it goes on from */
    die_and_start(rig);
    assert_true(sched_get(rig->sched, id)->retry_ms - now_ms == 2 * first);
}

static void a_clock_that_was_set_back_holds_no_job(void **state) {
    struct rig *rig = *state;
    started(rig);
    die_and_start(rig);
    now_ms -= INT64_C(86400000);
    rig->runs = 0;
    sched_turn(rig->sched);
    assert_int_equal(rig->runs, 1);
    now_ms += INT64_C(86400000);
}

static void a_shutdown_charges_nothing_even_when_it_is_killed(void **state) {
    struct rig *rig = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(rig)->id);
    sched_drain(rig->sched);
    assert_int_equal(rig->interrupted, WORKER_STOP_SHUTDOWN);
    die_and_start(rig); /* killed before the checkpoint was written */
    const struct job *job = sched_get(rig->sched, id);
    assert_true(job->state == JOB_QUEUED && job->restarts == 0);
    assert_string_equal(job->reason, "daemon_stopped");
    sched_turn(rig->sched);
    sched_drain(rig->sched);
    report_end(rig, ERR_CANCELLED, WORKER_STOP_SHUTDOWN, NULL);
    assert_true(job->state == JOB_QUEUED && job->restarts == 0 && job->wish == JOB_WISH_NONE);
    die_and_start(rig);
    assert_string_equal(sched_get(rig->sched, id)->reason, "daemon_stopped");
}

static void a_full_volume_at_shutdown_does_not_fail_the_job(void **state) {
    struct rig *rig = *state;
    const struct job *job = started(rig);
    sched_drain(rig->sched);
    report_end(rig, ERR_EXHAUSTED, WORKER_STOP_SHUTDOWN, NULL);
    assert_true(job->state == JOB_QUEUED && job->restarts == 0);
}

static void a_device_fault_is_charged_apart_even_as_the_daemon_ends(void **state) {
    struct rig *rig = *state;
    const struct job *job = started(rig);
    sched_drain(rig->sched); /* the device is lost: the daemon ends, the job's error comes last */
    report_end(rig, ERR_INTERNAL, WORKER_STOP_SHUTDOWN, NULL);
    assert_true(job->state == JOB_QUEUED && job->restarts == 1 && job->crashes == 0);
    assert_non_null(strstr(job->reason, "it went wrong"));
}

static void faults_restart_until_the_limit_and_errors_do_not(void **state) {
    struct rig *rig = *state;
    const struct job *job = started(rig);
    for (int i = 1; i <= 2; i++) {
        report_end(rig, ERR_UNAVAILABLE, WORKER_STOP_NONE, NULL);
        assert_true(job->state == JOB_QUEUED && job->restarts == i && job->retry_ms > now_ms);
        now_ms = job->retry_ms;
        sched_turn(rig->sched);
    }
    report_end(rig, ERR_UNAVAILABLE, WORKER_STOP_NONE, NULL);
    assert_int_equal(job->state, JOB_FAILED);
    job = started(rig);
    report_end(rig, ERR_INVALID, WORKER_STOP_NONE, NULL);
    assert_true(job->state == JOB_FAILED && job->restarts == 0);
}

static void want_of_room_restarts_as_faults_do(void **state) {
    struct rig *rig = *state;
    static const int lacking[] = {ENOSPC, EMFILE};
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        const struct job *job = started(rig);
        report_errno(rig, lacking[i]);
        assert_true(job->state == JOB_QUEUED && job->restarts == 1 && job->retry_ms > now_ms);
        assert_non_null(strstr(job->reason, "cannot write the checkpoint"));
        now_ms = job->retry_ms;
        sched_turn(rig->sched);
        report_end(rig, 0, WORKER_STOP_NONE, "{}");
        assert_int_equal(job->state, JOB_SUCCEEDED);
    }
}

static void a_worker_that_cannot_take_the_job_is_asked_again(void **state) {
    struct rig *rig = *state;
    const struct job *job = submit(rig);
    rig->run_rc = ERR_EXHAUSTED;
    sched_turn(rig->sched);
    assert_true(job->state == JOB_QUEUED && sched_idle(rig->sched));
    rig->run_rc = 0;
    now_ms = job->retry_ms;
    sched_turn(rig->sched);
    assert_true(job->state == JOB_PREPARING && !sched_idle(rig->sched));
}

/* ---- cancelling ---- */

static void a_cancel_that_was_acknowledged_survives_a_crash(void **state) {
    struct rig *rig = *state;
    char id[JOB_ID_SIZE];
    const struct job *job;
    str_copy(id, sizeof id, started(rig)->id);
    assert_int_equal(sched_cancel(rig->sched, id, &job, NULL), 0);
    assert_int_equal(rig->interrupted, WORKER_STOP_CANCEL);
    die_and_start(rig);
    assert_int_equal(sched_get(rig->sched, id)->state, JOB_CANCELLED);
}

static void a_cancel_holds_whatever_else_ends_the_run(void **state) {
    struct rig *rig = *state;
    static const struct {
        int rc;
        enum worker_stop stopped;
    } ends[] = {
        {0, WORKER_STOP_TIME_LIMIT}, {0, WORKER_STOP_SHUTDOWN}, {ERR_UNAVAILABLE, WORKER_STOP_NONE}, {0, WORKER_STOP_CANCEL}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const struct job *job = started(rig);
        assert_int_equal(sched_cancel(rig->sched, job->id, &job, NULL), 0);
        report_end(rig, ends[i].rc, ends[i].stopped, NULL);
        assert_int_equal(job->state, JOB_CANCELLED);
    }
}

static void work_that_was_done_before_its_cancel_is_kept(void **state) {
    struct rig *rig = *state;
    const struct job *job = started(rig);
    assert_int_equal(sched_cancel(rig->sched, job->id, &job, NULL), 0);
    report_end(rig, 0, WORKER_STOP_NONE, "{\"f1\":1}");
    assert_int_equal(job->state, JOB_SUCCEEDED);
    assert_string_equal(job->result, "{\"f1\":1}");
}

/* ---- a database that cannot be written ---- */

static void no_call_is_acknowledged_that_could_not_be_written(void **state) {
    struct rig *rig = *state;
    const struct job *failed = started(rig), *waits = submit(rig), *got = NULL;
    report_end(rig, ERR_INVALID, WORKER_STOP_NONE, NULL);
    assert_int_equal(failed->state, JOB_FAILED);
    break_database(rig, true);
    int before = rig->notified;
    struct err err;
    assert_int_equal(sched_cancel(rig->sched, waits->id, &got, &err), ERR_INTERNAL);
    assert_non_null(strstr(err.message, "jobs.sqlite"));
    assert_int_equal(sched_resume(rig->sched, failed->id, NULL, 0, &got, &err), ERR_INTERNAL);
    assert_int_equal(try_submit(rig, NULL, 0, &got, &err), ERR_INTERNAL);
    assert_true(got == NULL && rig->notified == before);
    assert_true(waits->state == JOB_QUEUED && failed->state == JOB_FAILED && sched_count(rig->sched) == 2);
    break_database(rig, false);
    sched_tick(rig->sched);
    int n = 0;
    for (DIR *jobs = opendir(in_dir((void **)&rig->dir, "results/jobs")); jobs;) { /* of the refused one nothing is left */
        struct dirent *e = readdir(jobs);
        n += e && *e->d_name != '.';
        if (!e && !closedir(jobs))
            break;
    }
    assert_int_equal(n, 2);
    submit(rig);
}

static void cancelling_a_run_is_refused_when_it_cannot_be_written(void **state) {
    struct rig *rig = *state;
    const struct job *job = started(rig), *got = NULL;
    break_database(rig, true);
    assert_int_equal(sched_cancel(rig->sched, job->id, &got, NULL), ERR_INTERNAL);
    assert_true(rig->interrupted == WORKER_STOP_NONE && job->wish == JOB_WISH_NONE);
}

static void nothing_starts_while_the_database_cannot_be_written(void **state) {
    struct rig *rig = *state;
    const struct job *job = submit(rig);
    assert_true(sched_writable(rig->sched));
    break_database(rig, true);
    sched_turn(rig->sched);
    assert_true(rig->runs == 0 && job->state == JOB_QUEUED && job->attempts == 0);
    assert_false(sched_writable(rig->sched));
    sched_tick(rig->sched);
    assert_false(sched_writable(rig->sched));
    break_database(rig, false);
    sched_turn(rig->sched);
    assert_int_equal(rig->runs, 0); /* not before it was seen that it can be written */
    sched_tick(rig->sched);
    assert_true(sched_writable(rig->sched));
    sched_turn(rig->sched);
    assert_int_equal(rig->runs, 1);
}

static void a_start_on_a_full_volume_loads_the_jobs_and_starts_none(void **state) {
    struct rig *rig = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, submit(rig)->id);
    rig->read_only = true;
    die_and_start(rig);
    assert_int_equal(sched_get(rig->sched, id)->state, JOB_QUEUED);
    assert_false(sched_writable(rig->sched));
    sched_turn(rig->sched);
    assert_int_equal(rig->runs, 0);
    break_database(rig, false);
    sched_tick(rig->sched);
    assert_true(sched_writable(rig->sched));
}

static void what_happened_meanwhile_is_written_as_soon_as_possible(void **state) {
    struct rig *rig = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(rig)->id);
    break_database(rig, true);
    report_checkpoint(rig, 1, true);
    report_checkpoint(rig, 2, false);
    report_end(rig, 0, WORKER_STOP_NONE, "{\"f1\":1}");
    assert_int_equal(sched_get(rig->sched, id)->state, JOB_SUCCEEDED);
    assert_int_equal(recorded_checkpoints(rig, id), 0);
    break_database(rig, false);
    sched_tick(rig->sched);
    assert_int_equal(recorded_checkpoints(rig, id), 2);
    die_and_start(rig);
    const struct job *job = sched_get(rig->sched, id);
    assert_int_equal(job->state, JOB_SUCCEEDED);
    assert_true(str_ends(job->best, "/step-1") && str_ends(job->last, "/step-2"));
}

static void a_database_whose_volume_does_not_answer_is_left_alone(void **state) {
    struct rig *rig = *state;
    char id[JOB_ID_SIZE];
    const struct job *waits, *got = NULL;
    struct err err;
    str_copy(id, sizeof id, started(rig)->id);
    waits = submit(rig);
    atomic_store(&held, true);
    sched_tick(rig->sched);
    assert_int_equal(sched_cancel(rig->sched, waits->id, &got, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "does not answer"));
    assert_true(!got && waits->state == JOB_QUEUED && !sched_writable(rig->sched));
    report_checkpoint(rig, 1, true);
    report_end(rig, 0, WORKER_STOP_NONE, "{\"f1\":1}");
    sched_tick(rig->sched);
    sched_turn(rig->sched);
    assert_int_equal(rig->runs, 1); /* the other job waits for the record */
    atomic_store(&held, false);
    db_wait(rig->db);
    sched_tick(rig->sched);
    assert_true(sched_writable(rig->sched));
    sched_turn(rig->sched);
    assert_int_equal(rig->runs, 2);
    die_and_start(rig);
    assert_int_equal(sched_get(rig->sched, id)->state, JOB_SUCCEEDED);
    assert_int_equal(recorded_checkpoints(rig, id), 1);
}

static void a_best_checkpoint_that_is_announced_again_is_recorded_again(void **state) {
    struct rig *rig = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(rig)->id);
    report_checkpoint(rig, 2, false);
    struct worker_report r = {.message.kind = WORKER_CHECKPOINT}; /* step 1 was the best, and a crash came before its record */
    str_copy(r.job_id, sizeof r.job_id, id);
    r.checkpoint = (struct task_checkpoint){.step = 1, .best = true, .metric = 0.5};
    str_format(r.checkpoint.path, sizeof r.checkpoint.path, "%s/step-1", rig->dir);
    put_file(r.checkpoint.path, "x", 1);
    sched_report(rig->sched, &r);
    assert_int_equal(recorded_checkpoints(rig, id), 2);
    const struct job *job = sched_get(rig->sched, id);
    assert_true(str_ends(job->best, "/step-1") && str_ends(job->last, "/step-2"));
}

/* ---- bounds ---- */

static void a_job_beyond_the_bound_is_refused_and_the_daemon_starts_again(void **state) {
    struct rig *rig = *state;
    rig->config.max_jobs = 2;
    die_and_start(rig);
    const struct job *job = NULL;
    struct err err;
    submit(rig);
    submit(rig);
    assert_int_equal(try_submit(rig, NULL, 0, &job, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, "jobs.keep_finished"));
    die_and_start(rig);
    assert_int_equal(sched_count(rig->sched), 2);
    rig->config.max_jobs = 1; /* fewer than the database has: the daemon starts all the same */
    sched_turn(rig->sched);
    report_end(rig, 0, WORKER_STOP_NONE, "{}");
    char waiting[JOB_ID_SIZE];
    str_copy(waiting, sizeof waiting, sched_at(rig->sched, 1)->id);
    die_and_start(rig);
    assert_int_equal(sched_count(rig->sched), 1);
    assert_string_equal(sched_at(rig->sched, 0)->id, waiting);
}

static void many_old_jobs_are_forgotten_a_few_at_a_time(void **state) {
    enum { JOBS = SCHED_FORGET_MAX + 3 };
    struct rig *rig = *state;
    for (int i = 0; i < JOBS; i++) {
        const struct job *job = submit(rig);
        assert_int_equal(sched_cancel(rig->sched, job->id, &job, NULL), 0);
    }
    rig->config.keep_finished_ms = 1000;
    now_ms += 5000;
    die_and_start(rig);
    sched_tick(rig->sched);
    assert_int_equal(sched_count(rig->sched), 3); /* the loop has other work */
    die_and_start(rig);
    assert_int_equal(sched_count(rig->sched), 3); /* in the database too */
    sched_tick(rig->sched);
    assert_int_equal(sched_count(rig->sched), 0);
}

static void an_id_never_comes_again(void **state) {
    struct rig *rig = *state;
    rig->config.keep_finished_ms = 1000;
    die_and_start(rig);
    char id[JOB_ID_SIZE], left[2100];
    const struct job *job = started(rig);
    str_copy(id, sizeof id, job->id);
    report_end(rig, 0, WORKER_STOP_NONE, "{}");
    now_ms += 5000;
    sched_tick(rig->sched);
    assert_null(sched_get(rig->sched, id));
    char directory[2100];
    str_format(directory, sizeof directory, "%s/jobs/%s", rig->results, id);
    assert_int_equal(fsio_remove_tree(directory, NULL), 0); /* nothing is left of it but the number */
    die_and_start(rig);
    job = submit(rig);
    assert_string_not_equal(job->id, id);
    /* A directory that another database's job left is not taken over. */
    str_format(left, sizeof left, "%.*s-%lld", (int)(strrchr(job->directory, '-') - job->directory), job->directory,
               (long long)job->sequence + 1);
    assert_int_equal(fsio_mkdirs(left, NULL), 0);
    const struct job *next = submit(rig);
    assert_true(next->sequence == job->sequence + 2);
    assert_string_not_equal(next->directory, left);
}

#define rigged(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        rigged(jobs_run_by_priority_and_then_in_order_of_submission),
        rigged(a_submission_that_is_repeated_is_the_same_job),
        rigged(submissions_of_one_request_at_the_same_time_are_one_job),
        rigged(the_queue_is_full_also_for_a_submission_under_way),
        rigged(a_run_records_its_device_versions_and_times),
        rigged(a_crash_is_charged_and_waits_longer_each_time),
        rigged(jobs_active_together_in_a_crash_are_not_charged_and_run_one_by_one),
        rigged(a_job_that_was_to_stop_is_none_of_those_that_crashed),
        rigged(a_wait_is_shown_and_what_it_covered_comes_back),
        rigged(a_checkpoint_between_crashes_shortens_the_wait_again),
        rigged(an_announced_checkpoint_is_no_progress),
        rigged(a_clock_that_was_set_back_holds_no_job),
        rigged(a_shutdown_charges_nothing_even_when_it_is_killed),
        rigged(a_full_volume_at_shutdown_does_not_fail_the_job),
        rigged(a_device_fault_is_charged_apart_even_as_the_daemon_ends),
        rigged(faults_restart_until_the_limit_and_errors_do_not),
        rigged(want_of_room_restarts_as_faults_do),
        rigged(a_worker_that_cannot_take_the_job_is_asked_again),
        rigged(a_cancel_that_was_acknowledged_survives_a_crash),
        rigged(a_cancel_holds_whatever_else_ends_the_run),
        rigged(work_that_was_done_before_its_cancel_is_kept),
        rigged(no_call_is_acknowledged_that_could_not_be_written),
        rigged(cancelling_a_run_is_refused_when_it_cannot_be_written),
        rigged(nothing_starts_while_the_database_cannot_be_written),
        rigged(a_start_on_a_full_volume_loads_the_jobs_and_starts_none),
        rigged(what_happened_meanwhile_is_written_as_soon_as_possible),
        rigged(a_database_whose_volume_does_not_answer_is_left_alone),
        rigged(a_best_checkpoint_that_is_announced_again_is_recorded_again),
        rigged(a_job_beyond_the_bound_is_refused_and_the_daemon_starts_again),
        rigged(an_id_never_comes_again),
        rigged(many_old_jobs_are_forgotten_a_few_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
