/* array: which jobs a cluster gets together, and when. */
#include "daemon/jobs/array.h"

#include "unit/cmocka_all.h"

enum { SIZE = 3, NOW_MS = 1000000 };

struct bench {
    struct job jobs[SIZE];
    struct job *open[SIZE];
    int n;
};

static int set_up(void **state) {
    static struct bench b;
    b = (struct bench){.n = 0};
    *state = &b;
    return 0;
}

/* Submits job i; head NULL: it is the first. */
static struct job *enter(struct bench *b, int i, const char *head, int64_t now_ms) {
    const struct jobfile file = {
        .executor = "cluster", .resources = {.nodes = 1, .ranks = 2}, .array = {.size = SIZE, .index = i, .head = head}};
    struct job *job = &b->jobs[i];
    str_format(job->id, sizeof job->id, "train-%d", i);
    str_copy(job->wanted, sizeof job->wanted, "cluster");
    str_copy(job->owner, sizeof job->owner, "uid:1");
    job->created_ms = now_ms;
    array_read(job, &file);
    b->open[b->n++] = job;
    array_entered(b->open, b->n, job, now_ms);
    return job;
}

static void jobs_of_an_array_wait_for_the_last_of_them(void **state) {
    struct bench *b = *state;
    struct job *first = enter(b, 0, NULL, NOW_MS), *second = enter(b, 1, "train-0", NOW_MS + 10);
    assert_false(array_is_due(first, NOW_MS + 20));
    assert_false(array_is_due(second, NOW_MS + 20));
    struct job *third = enter(b, 2, "train-0", NOW_MS + 20);
    assert_true(array_is_due(first, NOW_MS + 20) && array_is_due(second, NOW_MS + 20) && array_is_due(third, NOW_MS + 20));
}

static void an_array_whose_client_has_gone_does_not_wait_for_ever(void **state) {
    struct bench *b = *state;
    struct job *first = enter(b, 0, NULL, NOW_MS);
    enter(b, 1, "train-0", NOW_MS + ARRAY_PATIENCE_MS);
    assert_false(array_is_due(first, NOW_MS + ARRAY_PATIENCE_MS + 1)); /* another one has just come */
    assert_true(array_is_due(first, NOW_MS + 2 * ARRAY_PATIENCE_MS + 1));
    first->array.newest_ms = 0; /* as a daemon that starts finds it */
    assert_true(array_is_due(first, NOW_MS + ARRAY_PATIENCE_MS + 1));
}

static void an_attempt_after_the_first_waits_for_nobody(void **state) {
    struct bench *b = *state;
    struct job *first = enter(b, 0, NULL, NOW_MS);
    first->attempts = 1;
    assert_true(array_is_due(first, NOW_MS));
}

static void members_are_found_by_index(void **state) {
    struct bench *b = *state;
    const struct job *found[JOBFILE_MAX_ARRAY];
    struct job *first = enter(b, 0, NULL, NOW_MS), *third = enter(b, 2, "train-0", NOW_MS);
    assert_int_equal(array_members(b->open, b->n, third, found), SIZE);
    assert_ptr_equal(found[0], first);
    assert_null(found[1]);
    assert_ptr_equal(found[2], third);
}

static void jobs_of_others_or_with_other_needs_are_no_members(void **state) {
    struct bench *b = *state;
    const struct job *found[JOBFILE_MAX_ARRAY];
    struct job *first = enter(b, 0, NULL, NOW_MS), *second = enter(b, 1, "train-0", NOW_MS);
    str_copy(second->owner, sizeof second->owner, "uid:2");
    array_members(b->open, b->n, first, found);
    assert_null(found[1]);
    str_copy(second->owner, sizeof second->owner, "uid:1");
    second->resources.ranks = 4;
    array_members(b->open, b->n, first, found);
    assert_null(found[1]);
    struct job alone = {.id = "train-9"};
    assert_int_equal(array_members(b->open, b->n, &alone, found), 0);
    assert_true(array_is_due(&alone, NOW_MS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(jobs_of_an_array_wait_for_the_last_of_them, set_up),
        cmocka_unit_test_setup(an_array_whose_client_has_gone_does_not_wait_for_ever, set_up),
        cmocka_unit_test_setup(an_attempt_after_the_first_waits_for_nobody, set_up),
        cmocka_unit_test_setup(members_are_found_by_index, set_up),
        cmocka_unit_test_setup(jobs_of_others_or_with_other_needs_are_no_members, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
