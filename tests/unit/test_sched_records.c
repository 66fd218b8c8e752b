/* sched: nothing that was acknowledged is lost, whatever happens to the database, and the loop waits for no disk. */
#include "unit/sched_fixture.h"

#include "daemon/jobs/jobref.h"
#include "daemon/status/gather_parts.h"

/* ---- a database that cannot be written ---- */

struct answer {
    struct db_wait wait;
    bool over;
    int rc;
    struct err err;
};

static void on_answer(struct db_wait *wait, int rc, const struct err *err) {
    struct answer *a = (struct answer *)wait;
    a->over = true;
    a->rc = rc;
    a->err = *err;
}

static void a_change_that_could_not_be_written_is_not_acknowledged_and_written_later(void **state) {
    struct fixture *f = *state;
    const struct job *failed = started(f), *waits = submit(f), *got = NULL;
    struct answer answer = {.over = false};
    struct err err;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, waits->id);
    report_end(f, ERR_INVALID, STOP_NONE, NULL);
    assert_int_equal(failed->state, JOB_FAILED);
    break_database(f, true);
    assert_int_equal(sched_cancel(f->sched, waits->id, STOP_CANCEL, &got, &err), 0);
    sched_await(f->sched, &answer.wait, on_answer);
    sched_settle(f->sched);
    assert_true(answer.over && answer.rc == ERR_INTERNAL);
    assert_non_null(strstr(answer.err.message, "jobs.sqlite"));
    int before = f->notified; /* from here on it is known, and nothing more is begun */
    got = NULL;
    assert_int_equal(sched_resume(f->sched, failed->id, NULL, 0, &got, &err), ERR_INTERNAL);
    assert_int_equal(try_submit(f, NULL, 0, &got, &err), ERR_INTERNAL);
    assert_true(got == NULL && f->notified == before);
    assert_true(failed->state == JOB_FAILED && sched_count(f->sched) == 2);
    break_database(f, false);
    tick(f);
    int n = 0;
    for (DIR *jobs = opendir(in_dir((void **)&f->dir, "results/jobs")); jobs;) { /* of the refused one nothing is left */
        struct dirent *e = readdir(jobs);
        n += e && *e->d_name != '.';
        if (!e && !closedir(jobs))
            break;
    }
    assert_int_equal(n, 2);
    submit(f);
    die_and_start(f);
    assert_int_equal(sched_get(f->sched, id)->state, JOB_CANCELLED);
}

static void a_request_that_comes_again_is_acknowledged_only_when_its_job_is_recorded(void **state) {
    struct fixture *f = *state;
    const struct submission request = {.yaml = "kind: train\ndata:\n  source: .\n", .file = "t.yaml", .request_id = "once"};
    const struct job *job, *again = NULL;
    struct err err = {0};
    break_database(f, true);
    assert_int_equal(send(f, &request, &job, NULL), 0);
    sched_settle(f->sched);
    assert_int_equal(send(f, &request, &again, &err), ERR_INTERNAL);
    assert_true(strstr(err.message, job->id) && strstr(err.message, "is not recorded yet"));
    break_database(f, false);
    tick(f);
    assert_int_equal(send(f, &request, &again, NULL), 0);
    assert_ptr_equal(again, job);
    die_and_start(f);
    assert_int_equal(send(f, &request, &again, NULL), 0);
    assert_int_equal(sched_count(f->sched), 1);
}

/* In place of a disk whose cache cannot be written back. */
static void the_loop_waits_for_no_disk_and_callers_hear_what_may_happen(void **state) {
    struct fixture *f = *state;
    const struct job *job = started(f), *got = NULL;
    struct answer answer = {.over = false};
    char id[JOB_ID_SIZE];
    sched_settle(f->sched);
    own_thread = pthread_self();
    atomic_store(&stuck_sync, true);
    assert_int_equal(sched_cancel(f->sched, job->id, STOP_CANCEL, &got, NULL), 0);
    const struct job *new = submit(f);
    str_copy(id, sizeof id, new->id);
    sched_await(f->sched, &answer.wait, on_answer);
    for (int i = 0; i < 80 && !answer.over; i++) {
        static const struct timespec turn_ns = {.tv_nsec = 100 * 1000 * 1000};
        nanosleep(&turn_ns, NULL);
        sched_tick(f->sched);
        sched_turn(f->sched);
    }
    assert_true(answer.over && answer.rc == ERR_UNAVAILABLE && strstr(answer.err.message, "may still happen"));
    assert_false(sched_writable(f->sched));
    assert_int_equal(try_submit(f, NULL, 0, &got, NULL), ERR_UNAVAILABLE);
    atomic_store(&stuck_sync, false);
    sched_settle(f->sched);
    tick(f);
    assert_true(sched_writable(f->sched));
    report_end(f, 0, STOP_CANCEL, NULL);
    turn(f);
    assert_string_equal(f->running, id);
}

static void cancelling_a_run_is_refused_when_it_is_known_that_it_cannot_be_written(void **state) {
    struct fixture *f = *state;
    const struct job *job = started(f), *got = NULL;
    break_database(f, true);
    report_checkpoint(f, 1, true);
    sched_settle(f->sched);
    assert_int_equal(sched_cancel(f->sched, job->id, STOP_CANCEL, &got, NULL), ERR_INTERNAL);
    assert_true(f->interrupted == STOP_NONE && job->wish == JOB_WISH_NONE);
}

static void nothing_starts_while_the_database_cannot_be_written(void **state) {
    struct fixture *f = *state;
    const struct job *job = submit(f);
    assert_true(sched_writable(f->sched));
    break_database(f, true);
    turn(f);
    assert_true(f->runs == 0 && job->state == JOB_QUEUED && job->attempts == 0);
    assert_false(sched_writable(f->sched));
    tick(f);
    assert_false(sched_writable(f->sched));
    break_database(f, false);
    turn(f);
    assert_int_equal(f->runs, 0); /* not before it was seen that it can be written */
    tick(f);
    assert_true(sched_writable(f->sched));
    turn(f);
    assert_int_equal(f->runs, 1);
}

static void a_start_on_a_full_volume_loads_the_jobs_and_starts_none(void **state) {
    struct fixture *f = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, submit(f)->id);
    f->read_only = true;
    die_and_start(f);
    assert_int_equal(sched_get(f->sched, id)->state, JOB_QUEUED);
    assert_false(sched_writable(f->sched));
    turn(f);
    assert_int_equal(f->runs, 0);
    break_database(f, false);
    tick(f);
    assert_true(sched_writable(f->sched));
}

static void what_happened_meanwhile_is_written_as_soon_as_possible(void **state) {
    struct fixture *f = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(f)->id);
    break_database(f, true);
    report_checkpoint(f, 1, true);
    report_checkpoint(f, 2, false);
    report_end(f, 0, STOP_NONE, "{\"f1\":1}");
    assert_int_equal(sched_get(f->sched, id)->state, JOB_SUCCEEDED);
    assert_int_equal(recorded_checkpoints(f, id), 0);
    break_database(f, false);
    tick(f);
    assert_int_equal(recorded_checkpoints(f, id), 2);
    die_and_start(f);
    const struct job *job = sched_get(f->sched, id);
    assert_int_equal(job->state, JOB_SUCCEEDED);
    assert_true(str_ends(job->best, "/step-1") && str_ends(job->last, "/step-2"));
}

static void a_database_whose_volume_does_not_answer_is_left_alone(void **state) {
    struct fixture *f = *state;
    char id[JOB_ID_SIZE];
    const struct job *waits, *got = NULL;
    struct err err;
    str_copy(id, sizeof id, started(f)->id);
    waits = submit(f);
    sched_settle(f->sched);
    atomic_store(&held, true);
    for (int i = 0; i < 600 && sched_writable(f->sched); i++) {
        static const struct timespec turn_ns = {.tv_nsec = 100 * 1000 * 1000};
        nanosleep(&turn_ns, NULL);
        sched_tick(f->sched);
    }
    assert_int_equal(sched_cancel(f->sched, waits->id, STOP_CANCEL, &got, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "does not answer"));
    assert_true(!got && waits->state == JOB_QUEUED && !sched_writable(f->sched));
    report_checkpoint(f, 1, true);
    report_end(f, 0, STOP_NONE, "{\"f1\":1}");
    sched_tick(f->sched);
    sched_turn(f->sched);
    assert_int_equal(f->runs, 1); /* the other job waits for the record */
    atomic_store(&held, false);
    db_wait(f->db);
    tick(f);
    assert_true(sched_writable(f->sched));
    turn(f);
    assert_int_equal(f->runs, 2);
    die_and_start(f);
    assert_int_equal(sched_get(f->sched, id)->state, JOB_SUCCEEDED);
    assert_int_equal(recorded_checkpoints(f, id), 1);
}

static void a_best_checkpoint_that_is_announced_again_is_recorded_again(void **state) {
    struct fixture *f = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(f)->id);
    report_checkpoint(f, 2, false);
    report_checkpoint_of(
        f, (struct task_checkpoint){.step = 1, .best = true, .metric = 0.5}); /* best, and a crash came before its record */
    assert_int_equal(recorded_checkpoints(f, id), 2);
    const struct job *job = sched_get(f->sched, id);
    assert_true(str_ends(job->best, "/step-1") && str_ends(job->last, "/step-2"));
}

/* As earlier versions reported it, and wrote it into their ledgers. */
static void step_0_is_never_the_best_model(void **state) {
    struct fixture *f = *state;
    char id[JOB_ID_SIZE], ref[JOB_ID_SIZE + 8];
    struct jobref found;
    struct err err;
    str_copy(id, sizeof id, started(f)->id);
    report_checkpoint(f, 0, true);
    const struct job *job = sched_get(f->sched, id);
    assert_true(!*job->best && str_ends(job->last, "/step-0") && !*job_learned(job));
    sched_settle(f->sched);
    static const char *const ends[] = {"", "@best", "@last"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        str_format(ref, sizeof ref, "job:%s%s", id, ends[i]);
        assert_int_equal(jobref_resolve(f->sched, f->db, ref, &found, &err), ERR_NOT_FOUND);
        assert_non_null(strstr(err.message, "nothing learned yet; job:"));
        assert_non_null(strstr(err.message, "@0 is the untrained network"));
    }
    str_format(ref, sizeof ref, "job:%s@0", id);
    assert_int_equal(jobref_resolve(f->sched, f->db, ref, &found, &err), 0);
    assert_true(str_ends(found.path, "/step-0"));
    report_checkpoint(f, 4, false);
    assert_true(!*job->best && str_ends(job_learned(job), "/step-4"));
    sched_settle(f->sched);
    struct job *written = NULL;
    assert_int_equal(jobdb_get(f->db, id, &written, &err), 0);
    str_copy(written->best, sizeof written->best, found.path);
    assert_int_equal(jobdb_save(f->db, written, &err), 0);
    job_free(written);
    die_and_start(f);
    job = sched_get(f->sched, id);
    assert_true(!*job->best && str_ends(job_learned(job), "/step-4"));
}

static struct job *job_of(struct fixture *f, const char *id) { return (struct job *)(uintptr_t)sched_get(f->sched, id); }

static void report_progress(struct fixture *f, int64_t later_ms) {
    const struct task_progress progress = {.phase = "detect"};
    now_ms += later_ms;
    sched_report(f->sched, f->running, &(struct task_report){.kind = TASK_PROGRESS, .progress = &progress});
    turn(f);
}

/* Jobs that infer write no checkpoints. */
static void after_a_crash_a_minute_of_progress_lets_the_next_job_start(void **state) {
    struct fixture *f = *state;
    char ids[2][JOB_ID_SIZE];
    close_sched(f);
    f->config.n_places = 2;
    f->config.places[1].name = f->config.places[1].description = "cpu";
    f->config.places[1].further = true;
    open_sched(f);
    for (int i = 0; i < 2; i++) {
        str_copy(ids[i], JOB_ID_SIZE, submit(f)->id);
        make_active(f, ids[i]);
    }
    die_and_start(f);
    struct job *one = job_of(f, ids[0]), *two = job_of(f, ids[1]);
    one->memory_bytes = two->memory_bytes = 1000;
    turn(f);
    one->infers = two->infers = true;
    for (int i = 0; i < 10; i++)
        report_progress(f, 60 * 1000); /* it prepares for ten minutes */
    assert_true(one->state == JOB_PREPARING && one->isolated && two->state == JOB_QUEUED);
    sched_report(f->sched, f->running, &(struct task_report){.kind = TASK_RUNNING});
    report_progress(f, 0);
    report_progress(f, 59 * 1000);
    assert_true(one->state == JOB_RUNNING && two->state == JOB_QUEUED);
    report_progress(f, 1000);
    assert_true(two->state == JOB_PREPARING && !one->isolated && two->isolated);
    die_and_start(f);
    one = job_of(f, ids[0]), two = job_of(f, ids[1]); /* the second one had just begun */
    assert_true(one->restarts == 0 && !one->isolated && two->restarts == 1);
}

/* What an attempt goes on from says nothing about it. */
static void the_checkpoint_of_before_lets_no_other_job_start(void **state) {
    struct fixture *f = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(f)->id);
    report_checkpoint(f, 5, false);
    die_and_start(f);
    now_ms += 1000000;
    turn(f);
    report_checkpoint(f, 5, false);
    assert_int_equal(sched_get(f->sched, id)->isolated, 1);
    report_checkpoint(f, 6, false);
    assert_int_equal(sched_get(f->sched, id)->isolated, 0);
}

static void pages_have_copies_of_what_runs_then_of_the_queue_then_of_what_ended(void **state) {
    struct fixture *f = *state;
    const struct job *ended = started(f);
    report_end(f, 0, STOP_NONE, "{\"event_f1\":0.5}");
    const struct job *runs = started(f), *second = submit(f), *urgent = submit_with(f, "priority=9");
    const struct job *const order[] = {runs, urgent, second, ended};
    const struct gather g = {.source.sched = f->sched};
    struct status *s = status_new(NULL);
    gather_jobs(&g, s);
    assert_true(s->n_jobs == 4 && !s->left_jobs);
    for (int i = 0; i < 4; i++) {
        const struct job *shown = &s->jobs[i].job;
        assert_string_equal(shown->id, order[i]->id);
        assert_int_equal(s->jobs[i].position, i == 1 || i == 2 ? i : 0);
        assert_true(!shown->yaml && !shown->overrides && !shown->result == (i < 3));
    }
    assert_string_equal(s->jobs[3].job.result, ended->result);
    assert_ptr_not_equal(s->jobs[3].job.result, ended->result);
    status_drop(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        rigged(a_change_that_could_not_be_written_is_not_acknowledged_and_written_later),
        rigged(a_request_that_comes_again_is_acknowledged_only_when_its_job_is_recorded),
        rigged(cancelling_a_run_is_refused_when_it_is_known_that_it_cannot_be_written),
        rigged(the_loop_waits_for_no_disk_and_callers_hear_what_may_happen),
        rigged(nothing_starts_while_the_database_cannot_be_written),
        rigged(a_start_on_a_full_volume_loads_the_jobs_and_starts_none),
        rigged(what_happened_meanwhile_is_written_as_soon_as_possible),
        rigged(a_database_whose_volume_does_not_answer_is_left_alone),
        rigged(a_best_checkpoint_that_is_announced_again_is_recorded_again),
        rigged(step_0_is_never_the_best_model),
        rigged(after_a_crash_a_minute_of_progress_lets_the_next_job_start),
        rigged(the_checkpoint_of_before_lets_no_other_job_start),
        rigged(pages_have_copies_of_what_runs_then_of_the_queue_then_of_what_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
