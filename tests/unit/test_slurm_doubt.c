/* An sbatch without an answer may have submitted the job all the same: Slurm is asked for two minutes before it is called again; a
 * state of Slurm that nobody knows is no end. The clock is the test's, and so is what Slurm says. */
#include "daemon/jobs/slurm.h"

#include "base/base.h"
#include "daemon/jobs/command.h"
#include "daemon/jobs/slurm_record.h"
#include "unit/temp_dir.h"

enum { TICK_MS = 2000, FIRST_MS = 1000000 };

static int64_t now_ms;
int64_t __wrap_clock_ms(void);
int64_t __wrap_clock_ms(void) { return now_ms += TICK_MS; }

static struct {
    int submits, looks;
    int64_t submitted_ms[4]; /* when sbatch was called */
    int64_t listed_ms;       /* squeue lists the job from then on; INT64_MAX: never */
    int64_t end_ms;          /* the daemon stops then */
    const char *state, *directory;
    struct runner_wish wish;
} cluster;

int __wrap_command_run(const char *const *words, const char *const *environment, int64_t limit_ms, struct str *out, int *ret_status,
                       struct err *err);
int __wrap_command_run(const char *const *words, const char *const *environment, int64_t limit_ms, struct str *out, int *ret_status,
                       struct err *err) {
    (void)environment, (void)limit_ms, (void)err;
    *ret_status = 0;
    if (!strcmp(words[0], "sbatch")) {
        assert_true(cluster.submits < 4);
        cluster.submitted_ms[cluster.submits++] = now_ms;
        *ret_status = cluster.submits == 1;
        if (*ret_status)
            str_puts(out, "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation");
        return 0;
    }
    assert_string_equal(words[0], "squeue"); /* never scancel: the job outlives this daemon */
    cluster.looks++;
    if (now_ms >= cluster.listed_ms || cluster.submits == 2)
        str_printf(out, "7|%s|None|%s\n", cluster.state, cluster.directory);
    if (now_ms >= cluster.end_ms)
        runner_wish_stop(&cluster.wish, STOP_SHUTDOWN);
    return 0;
}

static char reported[400]; /* texts, each with a ';', and steps */

static int report(void *ctx, const struct task_report *r) {
    struct task_end *end = ctx;
    const size_t len = strlen(reported);
    if (r->kind == TASK_PROGRESS)
        snprintf(reported + len, sizeof reported - len, "%d;", (int)r->progress->step);
    else if (r->text)
        snprintf(reported + len, sizeof reported - len, "%s;", r->text);
    if (r->kind == TASK_END)
        *end = *r->end;
    return 0;
}

/* Runs the job until the daemon stops. */
static struct task_end run_job(void **state) {
    static const char yaml[] = "kind: train\ndata: {source: /x}\nexecutor: c\nresources: {ranks: 1, nodes: 1}\n";
    struct task_end end = {0};
    const char *directory = in_dir(state, "job");
    assert_int_equal(fsio_mkdirs(directory, NULL), 0);
    now_ms = FIRST_MS;
    *reported = '\0';
    cluster.submits = cluster.looks = 0;
    cluster.directory = directory;
    runner_wish_init(&cluster.wish);
    const struct slurm_config config = {.name = "c", .script = "/train.sbatch", .jobs = 1};
    const struct runner_job job = {
        .id = "train-1", .directory = directory, .data_root = "/x", .yaml = yaml, .file = "job.yaml", .overrides = "[]"};
    const struct runner_owner owner = {.report = report, .ctx = &end};
    slurm_run(&config, &job, &owner, &cluster.wish);
    return end;
}

static void an_sbatch_without_an_answer_is_repeated_after_two_minutes(void **state) {
    cluster.listed_ms = INT64_MAX;
    cluster.state = "PENDING";
    cluster.end_ms = FIRST_MS + 138 * 1000;
    struct task_end end = run_job(state);
    if (end.rc)
        fail_msg("%s", end.err.message);
    assert_int_equal(cluster.submits, 2);
    assert_true(cluster.submitted_ms[1] - cluster.submitted_ms[0] >= 120 * 1000);
    assert_true(cluster.submitted_ms[1] - cluster.submitted_ms[0] < 130 * 1000 && cluster.looks > 20);
}

static void what_it_has_submitted_all_the_same_is_not_submitted_again(void **state) {
    cluster.listed_ms = FIRST_MS + 90 * 1000;
    cluster.state = "PENDING";
    cluster.end_ms = FIRST_MS + 138 * 1000;
    assert_int_equal(run_job(state).stopped, STOP_SHUTDOWN);
    assert_int_equal(cluster.submits, 1);
}

static void a_state_that_nobody_knows_waits(void **state) {
    cluster.listed_ms = 0;
    cluster.state = "DREAMING";
    cluster.end_ms = FIRST_MS + 40 * 1000;
    struct task_end end = run_job(state);
    assert_int_equal(end.rc, 0);
    assert_int_equal(end.stopped, STOP_SHUTDOWN); /* it still waits */
    assert_true(cluster.submits == 0 && cluster.looks > 6);
}

/* The daemon before has logged two of the lines when it died; the first one again is another one. */
static void what_came_while_no_daemon_ran_is_reported_and_nothing_twice(void **state) {
    static const char
        events[] = "{\"event\":\"info\",\"text\":\"begins\"}\n{\"event\":\"progress\",\"step\":1}\n"
                   "{\"event\":\"warn\",\"text\":\"a\\tb\"}\n{\"event\":\"progress\",\"step\":2}\n"
                   "{\"event\":\"info\",\"text\":\"begins\"}\n{\"event\":\"progress\",\"step\":3}\n",
        log[] = "2026-11-29T00:00:00Z info of the daemon\n2026-11-29T00:00:00Z info begins\n2026-11-29T00:00:01Z warn a b\n";
    char directory[512], path[600];
    str_copy(directory, sizeof directory, in_dir(state, "job"));
    assert_int_equal(fsio_mkdirs(directory, NULL), 0);
    assert_int_equal(slurm_record_write(directory, &(struct slurm_record){.attempt = 1, .state = SLURM_BEGUN}, NULL), 0);
    snprintf(path, sizeof path, "%s/events.jsonl", directory);
    put_file(path, events, sizeof events - 1);
    snprintf(path, sizeof path, "%s/log.txt", directory);
    put_file(path, log, sizeof log - 1);
    cluster.listed_ms = 0;
    cluster.state = "RUNNING";
    cluster.end_ms = FIRST_MS + 40 * 1000;
    assert_int_equal(run_job(state).stopped, STOP_SHUTDOWN);
    assert_string_equal(reported, "2;begins;3;");
}

int main(void) {
    const struct CMUnitTest tests[] = {in_temp_dir(an_sbatch_without_an_answer_is_repeated_after_two_minutes),
                                       in_temp_dir(what_it_has_submitted_all_the_same_is_not_submitted_again),
                                       in_temp_dir(a_state_that_nobody_knows_waits),
                                       in_temp_dir(what_came_while_no_daemon_ran_is_reported_and_nothing_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
