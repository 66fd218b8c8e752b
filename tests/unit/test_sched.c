/* sched: the queue, what ends a run and what becomes of the job then. */
#include "unit/sched_fixture.h"

/* ---- the queue ---- */

static void jobs_run_by_priority_and_then_in_order_of_submission(void **state) {
    struct fixture *f = *state;
    const struct job *first = submit(f), *second = submit(f), *urgent = submit_with(f, "priority=9");
    assert_int_equal(sched_position(f->sched, urgent), 1);
    assert_int_equal(sched_position(f->sched, second), 3);
    const struct job *const order[] = {urgent, first, second};
    for (int i = 0; i < 3; i++) {
        turn(f);
        assert_string_equal(f->running, order[i]->id);
        turn(f);
        assert_int_equal(f->runs, i + 1); /* one at a time */
        report_end(f, 0, STOP_NONE, "{}");
        assert_int_equal(order[i]->state, JOB_SUCCEEDED);
    }
    assert_true(sched_idle(f->sched));
}

static void a_submission_that_is_repeated_is_the_same_job(void **state) {
    struct fixture *f = *state;
    const struct submission request = {.yaml = "kind: train\ndata:\n  source: .\n", .file = "t.yaml", .request_id = "once"};
    const struct job *a, *b;
    assert_int_equal(send(f, &request, &a, NULL), 0);
    assert_int_equal(send(f, &request, &b, NULL), 0);
    assert_ptr_equal(a, b);
    assert_int_equal(sched_count(f->sched), 1);
}

static void submissions_of_one_request_at_the_same_time_are_one_job(void **state) {
    struct fixture *f = *state;
    const struct submission request = {.yaml = "kind: train\ndata:\n  source: .\n", .file = "t.yaml", .request_id = "once"};
    const struct job *a, *b = NULL;
    struct draft *first = NULL, *second = NULL;
    char directory[2048];
    assert_int_equal(draft_of(f, &request, &first, &b, NULL), 0);
    assert_int_equal(draft_of(f, &request, &second, &b, NULL), 0);
    assert_null(b);
    assert_int_equal(draft_place(second, NULL), 0);
    assert_int_equal(draft_place(first, NULL), 0);
    str_copy(directory, sizeof directory, second->job->directory);
    assert_true(fsio_is_dir(directory) && strcmp(directory, first->job->directory) != 0);
    assert_int_equal(accept_draft(f, first, &a, NULL), 0);
    assert_int_equal(accept_draft(f, second, &b, NULL), 0);
    assert_ptr_equal(a, b);
    assert_int_equal(sched_count(f->sched), 1);
    assert_true(fsio_is_dir(a->directory) && !fsio_exists(directory));
}

static void the_queue_is_full_also_for_a_submission_under_way(void **state) {
    struct fixture *f = *state;
    const struct submission request = {.yaml = "kind: train\ndata:\n  source: .\n", .file = "t.yaml", .request_id = ""};
    const struct job *job = NULL;
    struct draft *draft = NULL;
    char directory[2048];
    for (int i = 0; i < 99; i++)
        submit(f);
    assert_int_equal(draft_of(f, &request, &draft, &job, NULL), 0);
    assert_int_equal(draft_place(draft, NULL), 0);
    str_copy(directory, sizeof directory, draft->job->directory);
    submit(f); /* the hundredth came first */
    assert_int_equal(accept_draft(f, draft, &job, NULL), ERR_EXHAUSTED);
    assert_int_equal(sched_count(f->sched), 100);
    assert_false(fsio_exists(directory));
}

/* Each alone is within the share of its owner. */
static void submissions_at_the_same_time_share_what_their_owner_may_keep(void **state) {
    struct fixture *f = *state;
    const struct submission request = {
        .yaml = "kind: train\ndata:\n  source: .\n", .file = "t.yaml", .request_id = "", .owner = "token:ana"};
    const struct job *job = NULL;
    struct draft *drafts[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(draft_of(f, &request, &drafts[i], &job, NULL), 0);
        assert_int_equal(draft_place(drafts[i], NULL), 0);
        drafts[i]->shared = true; /* as if it had a model of 300 bytes */
        drafts[i]->job->kept_bytes = 300;
        drafts[i]->kept_most = 400;
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(accept_draft(f, drafts[i], &job, NULL), i ? ERR_EXHAUSTED : 0);
    assert_int_equal(sched_count(f->sched), 1);
}

static void one_owner_leaves_places_of_the_queue_to_others(void **state) {
    struct submission r = {.yaml = "kind: train\ndata:\n  source: .\n", .file = "t", .request_id = "", .owner = "token:ana"};
    const struct job *job = NULL;
    for (int i = 0; i <= 90; i++)
        assert_int_equal(send(*state, &r, &job, NULL), i < 90 ? 0 : ERR_EXHAUSTED);
    r.owner = "token:bob";
    assert_int_equal(send(*state, &r, &job, NULL), 0);
}

static void a_run_records_its_device_versions_and_times(void **state) {
    struct fixture *f = *state;
    const struct job *job = started(f);
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, job->id);
    now_ms += 5000;
    report_end(f, 0, STOP_NONE, "{\"f1\":1}");
    die_and_start(f);
    job = sched_get(f->sched, id);
    assert_string_equal(job->device, "cpu");
    assert_string_equal(job->versions, "brrd 9.9");
    assert_string_equal(job->result, "{\"f1\":1}");
    assert_true(job->attempts == 1 && job->finished_ms - job->started_ms == 5000);
}

/* ---- crashes ---- */

static void a_crash_is_charged_and_waits_longer_each_time(void **state) {
    struct fixture *f = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(f)->id);
    int64_t waits[2];
    for (int i = 0; i < 2; i++) {
        die_and_start(f);
        const struct job *job = sched_get(f->sched, id);
        assert_int_equal(job->state, JOB_QUEUED);
        assert_non_null(strstr(job->reason, "daemon_crashed"));
        assert_true(job->restarts == i + 1 && job->crashes == i + 1);
        waits[i] = job->retry_ms - now_ms;
        f->runs = 0;
        turn(f);
        assert_int_equal(f->runs, 0);
        die_and_start(f); /* it was waiting: no charge, and the wait goes on */
        assert_true(sched_get(f->sched, id)->restarts == i + 1 && sched_get(f->sched, id)->retry_ms - now_ms == waits[i]);
        now_ms += waits[i];
        turn(f);
        assert_int_equal(f->runs, 1);
    }
    assert_true(waits[0] > 0 && waits[1] == 2 * waits[0]);
    die_and_start(f); /* the third: limits.restarts is 2 */
    const struct job *job = sched_get(f->sched, id);
    assert_int_equal(job->state, JOB_FAILED);
    assert_non_null(strstr(job->reason, "daemon_crashed"));
    assert_non_null(strstr(job->reason, "3 times"));
    now_ms += 1000000;
    f->runs = 0;
    turn(f);
    assert_int_equal(f->runs, 0);
    assert_int_equal(sched_resume(f->sched, id, NULL, 0, &job, NULL), 0);
    assert_true(job->restarts == 0 && job->crashes == 0);
    turn(f);
    assert_int_equal(f->runs, 1);
}

/* The budget of a job counts an attempt that a crash ended, to the last minute. */
static void the_time_before_a_crash_counts(void **state) {
    struct fixture *f = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(f)->id);
    now_ms += 90000;
    tick(f);
    now_ms += 20000; /* not recorded any more */
    tick(f);
    die_and_start(f);
    const struct job *job = sched_get(f->sched, id);
    assert_true(job->state == JOB_QUEUED && job->run_ms == 90000 && job->device_ms == 90000);
    now_ms += 1000000; /* the daemon was down: nothing ran */
    die_and_start(f);
    turn(f);
    now_ms += 5000;
    report_checkpoint(f, 3, false);
    sched_settle(f->sched);
    die_and_start(f);
    assert_int_equal(sched_get(f->sched, id)->run_ms, 95000);
}

/* The clock of the machine is set while a job runs: it is charged for what it has run, by its end and by a crash. */
static void a_step_of_the_clock_is_not_charged(void **state) {
    struct fixture *f = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(f)->id);
    for (int i = 0; i < 2; i++) {
        now_ms += 70000;
        tick(f);
        now_ms += i ? -7200000 : 3600000;
        step_ms += i ? -7200000 : 3600000;
        now_ms += 70000;
        tick(f);
    }
    die_and_start(f);
    assert_int_equal(sched_get(f->sched, id)->run_ms, 280000);
    now_ms += 1000000;
    turn(f);
    now_ms += 3605000;
    step_ms += 3600000;
    report_checkpoint(f, 3, false);
    sched_settle(f->sched);
    die_and_start(f);
    assert_int_equal(sched_get(f->sched, id)->run_ms, 285000);
}

static void jobs_active_together_in_a_crash_are_not_charged_and_run_one_by_one(void **state) {
    struct fixture *f = *state;
    char first[JOB_ID_SIZE], second[JOB_ID_SIZE];
    str_copy(first, sizeof first, started(f)->id);
    str_copy(second, sizeof second, submit(f)->id);
    make_active(f, second);
    die_and_start(f);
    const struct job *one = sched_get(f->sched, first), *two = sched_get(f->sched, second);
    assert_true(one->state == JOB_QUEUED && one->restarts == 0 && two->state == JOB_QUEUED && two->restarts == 0);
    assert_non_null(strstr(two->reason, "while 2 jobs ran"));
    turn(f);
    turn(f);
    assert_true(one->state == JOB_PREPARING && two->state == JOB_QUEUED);
    die_and_start(f); /* now the first was alone */
    one = sched_get(f->sched, first), two = sched_get(f->sched, second);
    assert_true(one->restarts == 1 && one->crashes == 1);
    assert_true(two->restarts == 0 && two->state == JOB_QUEUED);
}

/* The same scheduler with two places on its device. */
static void give_two_places(struct fixture *f) {
    close_sched(f);
    f->config.n_places = 2;
    f->config.places[1].name = f->config.places[1].description = "cpu";
    f->config.places[1].further = true;
    open_sched(f);
}

/* A submitted job as one whose memory was estimated. What its file says of its kind counts when it starts: set infers again then.
 */
static struct job *submit_known(struct fixture *f, bool infers) {
    struct job *job = (struct job *)(uintptr_t)submit(f);
    job->memory_bytes = 1000;
    job->infers = infers;
    return job;
}

static void end_job(struct fixture *f, const struct job *job, enum stop_reason stopped) {
    str_copy(f->running, sizeof f->running, job->id);
    report_end(f, 0, stopped, stopped ? NULL : "{}");
}

static void jobs_that_share_a_device_stop_and_crash_together(void **state) {
    struct fixture *f = *state;
    give_two_places(f);
    const struct job *trains = submit_known(f, false), *later = submit_known(f, false);
    struct job *infers = submit_known(f, true);
    turn(f);
    turn(f);
    infers->infers = true;
    assert_true(f->runs == 2 && f->device == 1);
    assert_true(trains->state == JOB_PREPARING && infers->state == JOB_PREPARING && later->state == JOB_QUEUED);
    assert_int_equal(sched_jobs_on(f->sched, 0), 2);
    assert_true(sched_beside(f->sched, trains, NULL) == infers && !sched_beside(f->sched, trains, infers));
    assert_true(sched_beside(f->sched, infers, NULL) == trains && !sched_beside(f->sched, later, NULL));
    end_job(f, trains, STOP_NONE);
    turn(f);
    turn(f);
    assert_true(f->device == 0 && sched_on(f->sched, 0) == later);
    sched_hold(f->sched, 0, "device_bad");
    assert_true(later->wish == JOB_WISH_SHUTDOWN && infers->wish == JOB_WISH_SHUTDOWN);
    end_job(f, later, STOP_SHUTDOWN);
    end_job(f, infers, STOP_SHUTDOWN);
    assert_string_equal(infers->reason, "device_bad");
    char ids[2][JOB_ID_SIZE];
    str_copy(ids[0], sizeof ids[0], later->id);
    str_copy(ids[1], sizeof ids[1], infers->id);
    for (int i = 0; i < 2; i++)
        make_active(f, ids[i]);
    die_and_start(f);
    for (int i = 0; i < 2; i++) {
        const struct job *job = sched_get(f->sched, ids[i]);
        assert_non_null(strstr(job->reason, "while 2 jobs ran"));
        assert_int_equal(job->restarts, 0);
    }
    turn(f); /* one of them, alone */
    turn(f);
    assert_int_equal(sched_jobs_on(f->sched, 0), 1);
}

/* A job that needs its device for itself comes to it, though others that share it come all the time. */
static void a_job_that_shares_with_nobody_is_not_starved(void **state) {
    struct fixture *f = *state;
    give_two_places(f);
    const struct job *first = submit_known(f, true);
    turn(f);
    struct job *unknown = submit_known(f, false);
    unknown->memory_bytes = 0;
    const struct job *second = submit_known(f, true);
    turn(f);
    assert_true(first->state == JOB_PREPARING && unknown->state == JOB_QUEUED && second->state == JOB_QUEUED);
    end_job(f, first, STOP_NONE);
    turn(f);
    assert_true(unknown->state == JOB_PREPARING && second->state == JOB_QUEUED);
}

static void a_job_that_was_to_stop_is_none_of_those_that_crashed(void **state) {
    struct fixture *f = *state;
    char first[JOB_ID_SIZE], second[JOB_ID_SIZE];
    str_copy(first, sizeof first, started(f)->id);
    str_copy(second, sizeof second, submit(f)->id);
    sched_drain(f->sched);
    make_active(f, second);
    die_and_start(f);
    const struct job *one = sched_get(f->sched, first), *two = sched_get(f->sched, second);
    assert_true(one->restarts == 0 && two->restarts == 1 && two->crashes == 1);
    assert_string_equal(one->reason, "daemon_stopped");
}

static void a_wait_is_shown_and_what_it_covered_comes_back(void **state) {
    struct fixture *f = *state;
    const struct job *job = started(f);
    sched_waits(f->sched, 0, "waits for /a since T");
    assert_string_equal(job->reason, "waits for /a since T");
    sched_waits(f->sched, 0, "");
    assert_string_equal(job->reason, "");
    sched_waits(f->sched, 0, "waits for /b since U");
    report_end(f, 0, STOP_NONE, "{}");
    assert_string_equal(job->reason, "");
}

static void a_checkpoint_between_crashes_shortens_the_wait_again(void **state) {
    struct fixture *f = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(f)->id);
    die_and_start(f);
    int64_t first = sched_get(f->sched, id)->retry_ms - now_ms;
    now_ms += first;
    turn(f);
    report_checkpoint(f, 10, false);
    die_and_start(f);
    const struct job *job = sched_get(f->sched, id);
    assert_true(job->retry_ms - now_ms == first);
    assert_int_equal(job->restarts, 2); /* charged all the same */
}

static void an_announced_checkpoint_is_no_progress(void **state) {
    struct fixture *f = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(f)->id);
    report_checkpoint(f, 10, true);
    die_and_start(f);
    int64_t first = sched_get(f->sched, id)->retry_ms - now_ms;
    now_ms += first;
    turn(f);
    report_checkpoint(f, 10, true); /* what it goes on from */
    die_and_start(f);
    assert_true(sched_get(f->sched, id)->retry_ms - now_ms == 2 * first);
}

static void a_clock_that_was_set_back_holds_no_job(void **state) {
    struct fixture *f = *state;
    started(f);
    die_and_start(f);
    now_ms -= INT64_C(86400000);
    f->runs = 0;
    turn(f);
    assert_int_equal(f->runs, 1);
    now_ms += INT64_C(86400000);
}

static void a_shutdown_charges_nothing_even_when_it_is_killed(void **state) {
    struct fixture *f = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(f)->id);
    sched_drain(f->sched);
    assert_int_equal(f->interrupted, STOP_SHUTDOWN);
    die_and_start(f); /* killed before the checkpoint was written */
    const struct job *job = sched_get(f->sched, id);
    assert_true(job->state == JOB_QUEUED && job->restarts == 0);
    assert_string_equal(job->reason, "daemon_stopped");
    turn(f);
    sched_drain(f->sched);
    report_end(f, ERR_CANCELLED, STOP_SHUTDOWN, NULL);
    assert_true(job->state == JOB_QUEUED && job->restarts == 0 && job->wish == JOB_WISH_NONE);
    die_and_start(f);
    assert_string_equal(sched_get(f->sched, id)->reason, "daemon_stopped");
}

static void a_full_volume_at_shutdown_does_not_fail_the_job(void **state) {
    struct fixture *f = *state;
    const struct job *job = started(f);
    sched_drain(f->sched);
    report_end(f, ERR_EXHAUSTED, STOP_SHUTDOWN, NULL);
    assert_true(job->state == JOB_QUEUED && job->restarts == 0);
}

static void a_device_fault_is_charged_apart_even_as_the_daemon_ends(void **state) {
    struct fixture *f = *state;
    const struct job *job = started(f);
    sched_drain(f->sched); /* the device is lost: the daemon ends, the job's error comes last */
    report_end(f, ERR_INTERNAL, STOP_SHUTDOWN, NULL);
    assert_true(job->state == JOB_QUEUED && job->restarts == 1 && job->crashes == 0);
    assert_non_null(strstr(job->reason, "it went wrong"));
}

static void faults_restart_until_the_limit_and_errors_do_not(void **state) {
    struct fixture *f = *state;
    const struct job *job = started(f);
    for (int i = 1; i <= 2; i++) {
        report_end(f, ERR_UNAVAILABLE, STOP_NONE, NULL);
        assert_true(job->state == JOB_QUEUED && job->restarts == i && job->retry_ms > now_ms);
        now_ms = job->retry_ms;
        turn(f);
    }
    report_end(f, ERR_UNAVAILABLE, STOP_NONE, NULL);
    assert_int_equal(job->state, JOB_FAILED);
    job = started(f);
    report_end(f, ERR_INVALID, STOP_NONE, NULL);
    assert_true(job->state == JOB_FAILED && job->restarts == 0);
}

static void end_at_time_limit(struct fixture *f, bool auto_resume) {
    report_task_end(f, (struct task_end){.stopped = STOP_TIME_LIMIT,
                                         .has_checkpoint = true,
                                         .energy_j = (double)NAN,
                                         .limits = {.restarts = 2, .auto_resume = auto_resume}});
}

static void a_job_goes_on_after_its_time_limit_as_long_as_it_gains_steps(void **state) {
    struct fixture *f = *state;
    const struct job *job = started(f);
    for (int i = 1; i <= 5; i++) {
        if (i > 1)
            report_checkpoint(f, i - 1, false); /* the one that the attempt begins with */
        report_checkpoint(f, i, false);
        end_at_time_limit(f, true);
        assert_true(job->state == JOB_QUEUED && job->restarts == 0 && job->retry_ms == 0);
        turn(f);
    }
    for (int i = 1; i <= 2; i++) {
        if (i == 1)
            report_checkpoint(f, 5, false);
        end_at_time_limit(f, true);
        assert_true(job->state == JOB_QUEUED && job->restarts == i && job->retry_ms > now_ms);
        assert_non_null(strstr(job->reason, "no new step"));
        now_ms = job->retry_ms;
        turn(f);
    }
    end_at_time_limit(f, true);
    assert_int_equal(job->state, JOB_INTERRUPTED);
    assert_string_equal(job->reason, "time_limit");
}

static void a_job_stays_at_its_time_limit_unless_it_is_to_go_on(void **state) {
    struct fixture *f = *state;
    const struct job *job = started(f);
    report_checkpoint(f, 1, false);
    end_at_time_limit(f, false);
    assert_int_equal(job->state, JOB_INTERRUPTED);
    assert_string_equal(job->reason, "time_limit");
}

static void want_of_room_restarts_as_faults_do(void **state) {
    struct fixture *f = *state;
    static const int lacking[] = {ENOSPC, EMFILE};
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        const struct job *job = started(f);
        report_errno(f, lacking[i]);
        assert_true(job->state == JOB_QUEUED && job->restarts == 1 && job->retry_ms > now_ms);
        assert_non_null(strstr(job->reason, "cannot write the checkpoint"));
        now_ms = job->retry_ms;
        turn(f);
        report_end(f, 0, STOP_NONE, "{}");
        assert_int_equal(job->state, JOB_SUCCEEDED);
    }
}

static void a_worker_that_cannot_take_the_job_is_asked_again(void **state) {
    struct fixture *f = *state;
    const struct job *job = submit(f);
    f->run_rc = ERR_EXHAUSTED;
    turn(f);
    assert_true(job->state == JOB_QUEUED && sched_idle(f->sched));
    f->run_rc = 0;
    now_ms = job->retry_ms;
    turn(f);
    assert_true(job->state == JOB_PREPARING && !sched_idle(f->sched));
}

/* ---- cancelling ---- */

static void a_cancel_that_was_acknowledged_survives_a_crash(void **state) {
    struct fixture *f = *state;
    char id[JOB_ID_SIZE];
    const struct job *job;
    str_copy(id, sizeof id, started(f)->id);
    assert_int_equal(sched_cancel(f->sched, id, STOP_CANCEL, &job, NULL), 0);
    assert_int_equal(f->interrupted, STOP_CANCEL);
    die_and_start(f);
    assert_int_equal(sched_get(f->sched, id)->state, JOB_CANCELLED);
}

static void a_cancel_holds_whatever_else_ends_the_run(void **state) {
    struct fixture *f = *state;
    static const struct {
        int rc;
        enum stop_reason stopped;
    } ends[] = {{0, STOP_TIME_LIMIT}, {0, STOP_SHUTDOWN}, {ERR_UNAVAILABLE, STOP_NONE}, {0, STOP_CANCEL}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const struct job *job = started(f);
        assert_int_equal(sched_cancel(f->sched, job->id, STOP_CANCEL, &job, NULL), 0);
        report_end(f, ends[i].rc, ends[i].stopped, NULL);
        assert_int_equal(job->state, JOB_CANCELLED);
    }
}

static void work_that_was_done_before_its_cancel_is_kept(void **state) {
    struct fixture *f = *state;
    const struct job *job = started(f);
    assert_int_equal(sched_cancel(f->sched, job->id, STOP_CANCEL, &job, NULL), 0);
    report_end(f, 0, STOP_NONE, "{\"f1\":1}");
    assert_int_equal(job->state, JOB_SUCCEEDED);
    assert_string_equal(job->result, "{\"f1\":1}");
}

/* ---- jobs that wait for others ---- */

static const struct job *submit_after(struct fixture *f, const char *id) {
    char override[JOB_ID_SIZE + 8];
    str_format(override, sizeof override, "after=%s", id);
    return submit_with(f, override);
}

static void a_job_waits_until_another_has_succeeded(void **state) {
    struct fixture *f = *state;
    char first[JOB_ID_SIZE], second[JOB_ID_SIZE];
    const struct job *job = started(f);
    str_copy(first, sizeof first, job->id);
    str_copy(second, sizeof second, submit_after(f, first)->id);
    report_checkpoint(f, 1, false);
    end_at_time_limit(f, false);
    turn(f); /* interrupted is no end: the device stays free */
    const struct job *waiting = sched_get(f->sched, second);
    assert_true(waiting->state == JOB_QUEUED && sched_idle(f->sched) && strstr(waiting->reason, "waits for ") != NULL);
    assert_non_null(strstr(waiting->reason, first));
    die_and_start(f);
    turn(f);
    waiting = sched_get(f->sched, second);
    assert_true(waiting->state == JOB_QUEUED && sched_idle(f->sched) && strstr(waiting->reason, first) != NULL);
    assert_int_equal(sched_resume(f->sched, first, NULL, 0, &job, NULL), 0);
    turn(f);
    assert_string_equal(f->running, first);
    sched_report(f->sched, first, &(struct task_report){.kind = TASK_RUNNING});
    report_end(f, 0, STOP_NONE, "{}");
    turn(f);
    assert_string_equal(f->running, second);
    assert_int_equal(sched_get(f->sched, second)->state, JOB_PREPARING);
}

static void a_success_counts_after_its_record_has_gone(void **state) {
    struct fixture *f = *state;
    char first[JOB_ID_SIZE], second[JOB_ID_SIZE];
    f->config.keep_finished_ms = 1000;
    die_and_start(f);
    str_copy(first, sizeof first, started(f)->id);
    str_copy(second, sizeof second, submit_after(f, first)->id);
    report_end(f, 0, STOP_NONE, "{}");
    f->run_rc = ERR_EXHAUSTED; /* nothing starts yet */
    turn(f);
    now_ms += 5000;
    tick(f);
    assert_null(sched_get(f->sched, first));
    f->run_rc = 0;
    die_and_start(f);
    now_ms = sched_get(f->sched, second)->retry_ms + 1;
    turn(f);
    assert_string_equal(f->running, second);
}

static void the_end_of_a_wait_finds_room_among_the_overrides(void **state) {
    struct fixture *f = *state;
    const char *sets[JOBFILE_MAX_OVERRIDES];
    char yaml[200], second[JOB_ID_SIZE];
    const struct job *job = started(f);
    struct err err;
    str_format(yaml, sizeof yaml, "kind: train\nafter: %s\ndata:\n  source: .\nmodel:\n  preset: tiny\n", job->id);
    assert_int_equal(send(f, &(struct submission){.yaml = yaml, .file = "t.yaml", .request_id = ""}, &job, &err), 0);
    str_copy(second, sizeof second, job->id);
    assert_int_equal(sched_cancel(f->sched, second, STOP_CANCEL, &job, NULL), 0);
    for (int i = 0; i < JOBFILE_MAX_OVERRIDES; i++)
        sets[i] = "limits.restarts=3";
    assert_int_equal(sched_resume(f->sched, second, sets, JOBFILE_MAX_OVERRIDES, &job, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "256 overrides (--set) of a job that waits; at most 255 are"));
    assert_int_equal(sched_get(f->sched, second)->state, JOB_CANCELLED);
    assert_int_equal(sched_resume(f->sched, second, sets, JOBFILE_MAX_OVERRIDES - 1, &job, &err), 0);
    report_end(f, 0, STOP_NONE, "{}");
    turn(f);
    assert_string_equal(f->running, second);
}

static void a_job_is_cancelled_with_the_one_it_waits_for(void **state) {
    struct fixture *f = *state;
    const struct job *job;
    struct err err;
    char first[JOB_ID_SIZE], second[JOB_ID_SIZE];
    for (int i = 0; i < 2; i++) {
        str_copy(first, sizeof first, started(f)->id);
        str_copy(second, sizeof second, submit_after(f, first)->id);
        if (i)
            assert_int_equal(sched_cancel(f->sched, first, STOP_CANCEL, &job, NULL), 0);
        report_end(f, i ? ERR_CANCELLED : ERR_INVALID, i ? STOP_CANCEL : STOP_NONE, NULL);
        turn(f);
        job = sched_get(f->sched, second);
        assert_int_equal(job->state, JOB_CANCELLED);
        assert_non_null(strstr(job->reason, first));
        assert_non_null(strstr(job->reason, i ? "has been cancelled" : "has failed"));
        char override[JOB_ID_SIZE + 8];
        str_format(override, sizeof override, "after=%s", first);
        assert_int_equal(try_submit(f, (const char *const[]){override}, 1, &job, &err), ERR_PRECONDITION);
        assert_int_equal(sched_resume(f->sched, second, NULL, 0, &job, &err), ERR_PRECONDITION);
        assert_int_equal(sched_get(f->sched, second)->state, JOB_CANCELLED);
        assert_int_equal(sched_resume(f->sched, second, (const char *const[]){"after=null"}, 1, &job, &err), 0);
        assert_int_equal(sched_get(f->sched, second)->state, JOB_QUEUED);
        assert_int_equal(sched_cancel(f->sched, second, STOP_CANCEL, &job, NULL), 0);
    }
    assert_int_equal(try_submit(f, (const char *const[]){"after=train-1-1"}, 1, &job, &err), ERR_NOT_FOUND);
}

/* ---- bounds ---- */

static void a_job_beyond_the_bound_is_refused_and_the_daemon_starts_again(void **state) {
    struct fixture *f = *state;
    f->config.max_jobs = 2;
    die_and_start(f);
    const struct job *job = NULL;
    struct err err;
    submit(f);
    submit(f);
    assert_int_equal(try_submit(f, NULL, 0, &job, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, "jobs.keep_finished"));
    die_and_start(f);
    assert_int_equal(sched_count(f->sched), 2);
    f->config.max_jobs = 1; /* fewer than the database has: the daemon starts all the same */
    turn(f);
    report_end(f, 0, STOP_NONE, "{}");
    char waiting[JOB_ID_SIZE];
    str_copy(waiting, sizeof waiting, sched_at(f->sched, 1)->id);
    die_and_start(f);
    assert_int_equal(sched_count(f->sched), 1);
    assert_string_equal(sched_at(f->sched, 0)->id, waiting);
}

static void many_old_jobs_are_forgotten_a_few_at_a_time(void **state) {
    enum { JOBS = SCHED_FORGET_MAX + 3 };
    struct fixture *f = *state;
    for (int i = 0; i < JOBS; i++) {
        const struct job *job = submit(f);
        assert_int_equal(sched_cancel(f->sched, job->id, STOP_CANCEL, &job, NULL), 0);
    }
    f->config.keep_finished_ms = 1000;
    now_ms += 5000;
    die_and_start(f);
    now_ms += 2000;
    tick(f);
    assert_int_equal(sched_count(f->sched), 3); /* the loop has other work */
    die_and_start(f);
    assert_int_equal(sched_count(f->sched), 3); /* in the database too */
    now_ms += 2000;
    tick(f);
    assert_int_equal(sched_count(f->sched), 0);
}

static void a_step_of_the_clock_makes_no_job_old(void **state) {
    enum { DAY_MS = 24 * 3600 * 1000 };
    struct fixture *f = *state;
    f->config.keep_finished_ms = INT64_C(30) * DAY_MS;
    die_and_start(f);
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(f)->id);
    report_end(f, 0, STOP_NONE, "{}");
    now_ms += INT64_C(400) * DAY_MS;
    step_ms += INT64_C(400) * DAY_MS;
    for (int i = 0; i < 20; i++, now_ms += 3600 * 1000)
        tick(f);
    assert_non_null(sched_get(f->sched, id));
    now_ms -= INT64_C(400) * DAY_MS; /* somebody has set it right */
    step_ms -= INT64_C(400) * DAY_MS;
    for (int i = 0; i < 31 * 24; i++, now_ms += 3600 * 1000)
        tick(f);
    assert_null(sched_get(f->sched, id));
}

static void a_resumed_job_says_where_it_goes_on(void **state) {
    struct fixture *f = *state;
    const struct job *job = started(f), *got = NULL;
    report_end(f, ERR_INVALID, STOP_NONE, NULL);
    assert_int_equal(sched_resume(f->sched, job->id, NULL, 0, &got, NULL), 0);
    assert_non_null(strstr(job->reason, "from the beginning"));
    turn(f);
    report_checkpoint(f, 8, false);
    report_end(f, ERR_INVALID, STOP_NONE, NULL);
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, job->id);
    die_and_start(f);
    assert_int_equal(sched_resume(f->sched, id, NULL, 0, &got, NULL), 0);
    assert_string_equal(got->reason, "resumes at step 8");
}

static void an_isolated_job_stays_so_whatever_its_reason_says(void **state) {
    struct fixture *f = *state;
    char id[JOB_ID_SIZE];
    str_copy(id, sizeof id, started(f)->id);
    die_and_start(f); /* as a crash */
    assert_int_equal(sched_get(f->sched, id)->isolated, 1);
    sched_hold(f->sched, 0, "device_bad: it is bad"); /* another reason */
    die_and_start(f);
    assert_int_equal(sched_get(f->sched, id)->isolated, 1);
    now_ms += 1000000;
    turn(f);
    report_checkpoint(f, 1, false);
    assert_int_equal(sched_get(f->sched, id)->isolated, 0);
}

static void an_id_never_comes_again(void **state) {
    struct fixture *f = *state;
    f->config.keep_finished_ms = 1000;
    die_and_start(f);
    char id[JOB_ID_SIZE], left[2100];
    const struct job *job = started(f);
    str_copy(id, sizeof id, job->id);
    report_end(f, 0, STOP_NONE, "{}");
    now_ms += 5000;
    tick(f);
    assert_null(sched_get(f->sched, id));
    char directory[2100];
    str_format(directory, sizeof directory, "%s/jobs/%s", f->results, id);
    assert_int_equal(fsio_remove_tree(directory, NULL), 0); /* nothing is left of it but the number */
    die_and_start(f);
    job = submit(f);
    assert_string_not_equal(job->id, id);
    /* A directory that another database's job left is not taken over. */
    str_format(left, sizeof left, "%.*s-%lld", (int)(strrchr(job->directory, '-') - job->directory), job->directory,
               (long long)job->sequence + 1);
    assert_int_equal(fsio_mkdirs(left, NULL), 0);
    const struct job *next = submit(f);
    assert_true(next->sequence == job->sequence + 2);
    assert_string_not_equal(next->directory, left);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        rigged(jobs_run_by_priority_and_then_in_order_of_submission),
        rigged(a_submission_that_is_repeated_is_the_same_job),
        rigged(submissions_of_one_request_at_the_same_time_are_one_job),
        rigged(the_queue_is_full_also_for_a_submission_under_way),
        rigged(submissions_at_the_same_time_share_what_their_owner_may_keep),
        rigged(one_owner_leaves_places_of_the_queue_to_others),
        rigged(a_run_records_its_device_versions_and_times),
        rigged(a_crash_is_charged_and_waits_longer_each_time),
        rigged(jobs_active_together_in_a_crash_are_not_charged_and_run_one_by_one),
        rigged(the_time_before_a_crash_counts),
        rigged(a_step_of_the_clock_is_not_charged),
        rigged(jobs_that_share_a_device_stop_and_crash_together),
        rigged(a_job_that_shares_with_nobody_is_not_starved),
        rigged(a_job_that_was_to_stop_is_none_of_those_that_crashed),
        rigged(a_wait_is_shown_and_what_it_covered_comes_back),
        rigged(a_checkpoint_between_crashes_shortens_the_wait_again),
        rigged(an_announced_checkpoint_is_no_progress),
        rigged(a_clock_that_was_set_back_holds_no_job),
        rigged(a_shutdown_charges_nothing_even_when_it_is_killed),
        rigged(a_full_volume_at_shutdown_does_not_fail_the_job),
        rigged(a_device_fault_is_charged_apart_even_as_the_daemon_ends),
        rigged(faults_restart_until_the_limit_and_errors_do_not),
        rigged(a_job_goes_on_after_its_time_limit_as_long_as_it_gains_steps),
        rigged(a_job_stays_at_its_time_limit_unless_it_is_to_go_on),
        rigged(want_of_room_restarts_as_faults_do),
        rigged(a_worker_that_cannot_take_the_job_is_asked_again),
        rigged(a_cancel_that_was_acknowledged_survives_a_crash),
        rigged(a_cancel_holds_whatever_else_ends_the_run),
        rigged(work_that_was_done_before_its_cancel_is_kept),
        rigged(a_job_waits_until_another_has_succeeded),
        rigged(a_success_counts_after_its_record_has_gone),
        rigged(the_end_of_a_wait_finds_room_among_the_overrides),
        rigged(a_job_is_cancelled_with_the_one_it_waits_for),
        rigged(a_job_beyond_the_bound_is_refused_and_the_daemon_starts_again),
        rigged(a_step_of_the_clock_makes_no_job_old),
        rigged(a_resumed_job_says_where_it_goes_on),
        rigged(an_isolated_job_stays_so_whatever_its_reason_says),
        rigged(an_id_never_comes_again),
        rigged(many_old_jobs_are_forgotten_a_few_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
