/* slots: which device a waiting job gets, by name and by memory, and which running job makes room. */
#include "daemon/jobs/slots.h"

#include "unit/cmocka_all.h"

enum { DEVICES = 3 };

struct bench {
    struct slots slots;
    struct job jobs[6];
    int64_t limit[DEVICES], free[DEVICES];
};

static void room(void *ctx, int device, int64_t *ret_limit, int64_t *ret_free) {
    const struct bench *b = ctx;
    *ret_limit = b->limit[device];
    *ret_free = b->free[device];
}

static int set_up(void **state) {
    static const char *const names[DEVICES] = {"cuda:0", "cuda:1", "cpu"};
    static struct bench b;
    b = (struct bench){.slots = {.n = DEVICES, .room = room, .ctx = &b}, .limit = {80, 40, 20}, .free = {80, 40, 20}};
    for (int i = 0; i < DEVICES; i++)
        b.slots.at[i] = (struct slot){.name = names[i], .device = i};
    for (int i = 0; i < 6; i++)
        b.jobs[i] = (struct job){.sequence = i, .priority = 5, .preemptible = true};
    *state = &b;
    return 0;
}

static void expect(struct bench *b, const struct job *job, const char *device) {
    const struct slot *slot = slots_place(&b->slots, job);
    assert_string_equal(slot ? slot->name : "none", device);
}

static void a_job_gets_the_free_device_with_the_most_free_memory(void **state) {
    struct bench *b = *state;
    expect(b, &b->jobs[0], "cuda:0");
    b->free[0] = 30;
    expect(b, &b->jobs[0], "cuda:1");
    b->slots.at[1].job = &b->jobs[1];
    expect(b, &b->jobs[0], "cuda:0");
}

static void a_job_waits_for_the_device_that_it_names(void **state) {
    struct bench *b = *state;
    str_copy(b->jobs[0].wanted, sizeof b->jobs[0].wanted, "cpu");
    expect(b, &b->jobs[0], "cpu");
    b->slots.at[2].job = &b->jobs[1];
    expect(b, &b->jobs[0], "none");
}

static void a_job_waits_for_a_device_that_will_have_enough_memory(void **state) {
    struct bench *b = *state;
    b->jobs[0].memory_bytes = 60;
    b->slots.at[0].job = &b->jobs[1]; /* the one that is large enough runs a job */
    expect(b, &b->jobs[0], "none");
    b->slots.at[0].job = NULL;
    expect(b, &b->jobs[0], "cuda:0");
}

static void a_job_larger_than_every_device_fails_on_one_of_them(void **state) {
    struct bench *b = *state;
    b->jobs[0].memory_bytes = 1000;
    expect(b, &b->jobs[0], "cuda:0");
}

static void the_only_device_takes_every_job(void **state) {
    struct bench *b = *state;
    b->slots.n = 1;
    b->jobs[0].memory_bytes = 90;
    b->free[0] = 10;
    expect(b, &b->jobs[0], "cuda:0");
}

static void a_bad_device_takes_no_job_and_says_why(void **state) {
    struct bench *b = *state;
    str_copy(b->slots.at[0].held, sizeof b->slots.at[0].held, "device_bad");
    expect(b, &b->jobs[0], "cuda:1");
    assert_string_equal(slots_held_for(&b->slots, &b->jobs[0]), "");
    str_copy(b->jobs[0].wanted, sizeof b->jobs[0].wanted, "cuda:0");
    expect(b, &b->jobs[0], "none");
    assert_string_equal(slots_held_for(&b->slots, &b->jobs[0]), "device_bad");
    str_copy(b->jobs[0].wanted, sizeof b->jobs[0].wanted, "cuda:9");
    assert_non_null(strstr(slots_held_for(&b->slots, &b->jobs[0]), "daemon.yaml"));
}

static void the_job_of_lowest_priority_makes_room_and_one_at_a_time(void **state) {
    struct bench *b = *state;
    struct job *next = &b->jobs[5];
    next->priority = 9;
    for (int i = 0; i < DEVICES; i++)
        b->slots.at[i].job = &b->jobs[i];
    b->jobs[1].priority = 2;
    assert_ptr_equal(slots_victim(&b->slots, next), &b->slots.at[1]);
    b->jobs[1].preemptible = false;
    assert_ptr_equal(slots_victim(&b->slots, next), &b->slots.at[2]); /* of equal priority the newest */
    next->memory_bytes = 30;                                          /* too large for the last */
    assert_ptr_equal(slots_victim(&b->slots, next), &b->slots.at[0]);
    b->jobs[0].wish = JOB_WISH_SHUTDOWN;
    assert_null(slots_victim(&b->slots, next)); /* room is being made */
    next->priority = 5;
    b->jobs[0].wish = JOB_WISH_NONE;
    assert_null(slots_victim(&b->slots, next));
}

static void room_for_several_devices_is_made_only_where_there_can_be_enough(void **state) {
    struct bench *b = *state;
    struct job *next = &b->jobs[5];
    b->slots.n = 3;
    b->slots.at[2].name = "cpu";
    next->priority = 9;
    next->devices = 2;
    for (int i = 0; i < 3; i++) {
        b->slots.at[i].job = &b->jobs[i];
        b->jobs[i].priority = 3;
    }
    b->jobs[2].priority = 1; /* the lowest, on the only device of its kind */
    assert_ptr_equal(slots_victim(&b->slots, next), &b->slots.at[1]);
    b->jobs[0].preemptible = false; /* then one of two cannot be had */
    assert_null(slots_victim(&b->slots, next));
}

static void places_of_a_cluster_are_for_jobs_that_name_it(void **state) {
    struct bench *b = *state;
    struct job *job = &b->jobs[0];
    b->slots.n = 5;
    for (int i = 3; i < 5; i++) {
        b->slots.at[i] = (struct slot){.name = "cluster", .remote = true, .device = i};
    }
    b->free[0] = b->free[1] = b->free[2] = 0;
    job->memory_bytes = 10;
    for (int i = 0; i < 3; i++)
        b->slots.at[i].job = &b->jobs[i + 1];
    expect(b, job, "none");
    str_copy(job->wanted, sizeof job->wanted, "cluster");
    expect(b, job, "cluster"); /* whatever memory this daemon has */
    for (int i = 0; i < 3; i++)
        b->slots.at[i].job = NULL;
    b->slots.at[3].job = &b->jobs[4];
    expect(b, job, "cluster");
    assert_true(slots_idle(&b->slots)); /* nothing runs on a device */
    b->slots.at[4].job = &b->jobs[5];
    expect(b, job, "none");
    job->priority = 9;
    assert_null(slots_victim(&b->slots, job)); /* Slurm has priorities of its own */
}

static void a_place_is_kept_for_jobs_that_are_to_be_cancelled(void **state) {
    struct bench *b = *state;
    struct job *job = &b->jobs[0];
    b->slots.n = 5;
    for (int i = 3; i < 5; i++) {
        b->slots.at[i] = (struct slot){.name = "cluster", .remote = true, .device = i};
    }
    b->slots.at[4].for_cancel = true;
    str_copy(job->wanted, sizeof job->wanted, "cluster");
    b->slots.at[3].job = &b->jobs[4];
    expect(b, job, "none");
    job->wish = JOB_WISH_CANCEL;
    assert_ptr_equal(slots_place(&b->slots, job), &b->slots.at[4]);
}

static struct job *job_of_two(struct bench *b) {
    b->jobs[0].devices = 2;
    return &b->jobs[0];
}

static void a_job_of_two_devices_gets_two_of_one_kind(void **state) {
    struct bench *b = *state;
    struct job *job = job_of_two(b);
    b->slots.at[1].job = &b->jobs[1];
    expect(b, job, "none"); /* cuda:0 and cpu do not go together */
    assert_string_equal(slots_held_for(&b->slots, job), "");
    b->slots.at[1].job = NULL;
    expect(b, job, "cuda:0");
    slots_take(&b->slots, &b->slots.at[0], job);
    assert_ptr_equal(b->slots.at[1].job, job);
    assert_null(b->slots.at[2].job);
}

static void a_job_of_two_devices_says_why_none_will_come(void **state) {
    struct bench *b = *state;
    struct job *job = job_of_two(b);
    str_copy(b->slots.at[1].held, sizeof b->slots.at[1].held, "device_bad");
    expect(b, job, "none");
    assert_string_equal(slots_held_for(&b->slots, job), "device_bad");
    b->slots.at[1].held[0] = '\0';
    job->devices = 4;
    assert_non_null(strstr(slots_held_for(&b->slots, job), "more devices of one kind"));
    b->slots.n = 1; /* another start with fewer devices */
    job->devices = 2;
    assert_non_null(strstr(slots_held_for(&b->slots, job), "more devices of one kind"));
}

static void a_job_larger_than_two_devices_fails_on_them(void **state) {
    struct bench *b = *state;
    struct job *job = job_of_two(b);
    job->memory_bytes = 60; /* one of the two could have it */
    b->slots.at[1].job = &b->jobs[1];
    expect(b, job, "none");
    b->slots.at[1].job = NULL;
    expect(b, job, "cuda:0");
    slots_take(&b->slots, &b->slots.at[0], job);
    assert_ptr_equal(b->slots.at[1].job, job);
    slots_free(&b->slots, job);
    job->memory_bytes = 40; /* fits both, once there is room */
    b->free[1] = 10;
    expect(b, job, "none");
}

/* cuda:0 with a second place, at 3. */
static void share(struct bench *b) {
    b->slots.n = 4;
    b->slots.at[3] = (struct slot){.name = "cuda:0", .device = 0};
    for (int i = 0; i < 6; i++) {
        b->jobs[i].memory_bytes = 10;
        str_copy(b->jobs[i].wanted, sizeof b->jobs[i].wanted, "cuda:0");
    }
}

static void a_job_that_infers_shares_a_device_when_both_fit(void **state) {
    struct bench *b = *state;
    struct job *trains = &b->jobs[0], *infers = &b->jobs[1], *other = &b->jobs[2];
    share(b);
    infers->infers = true;
    b->slots.at[0].job = trains;
    b->free[0] = 70;
    assert_ptr_equal(slots_place(&b->slots, infers), &b->slots.at[3]);
    assert_null(slots_place(&b->slots, other)); /* two trainings share none */
    infers->memory_bytes = 71;
    assert_null(slots_place(&b->slots, infers));
    char why[JOB_REASON_SIZE];
    slots_describe_wait(&b->slots, infers, why, sizeof why);
    assert_non_null(strstr(why, "waits for memory of cuda:0"));
    slots_describe_wait(&b->slots, other, why, sizeof why);
    assert_string_equal(why, ""); /* it waits for the training */
    infers->memory_bytes = 0;     /* not known */
    assert_null(slots_place(&b->slots, infers));
    infers->memory_bytes = 10;
    trains->devices = 2; /* ranks wait for one another at each step */
    assert_null(slots_place(&b->slots, infers));
    trains->devices = 1;
    b->slots.at[0].job = NULL;
    b->slots.at[3].job = infers; /* the training comes second */
    assert_ptr_equal(slots_place(&b->slots, trains), &b->slots.at[0]);
    assert_int_equal(slots_jobs(&b->slots, 0), 1);
    infers->wanted[0] = '\0';
    b->slots.at[3].job = NULL;
    b->slots.at[0].job = trains;
    expect(b, infers, "cuda:1"); /* a free device is better */
}

static void a_job_of_several_devices_shares_none_of_them(void **state) {
    struct bench *b = *state;
    struct job *job = job_of_two(b);
    share(b);
    job->wanted[0] = '\0';
    b->jobs[1].infers = true;
    b->slots.at[3].job = &b->jobs[1];
    expect(b, job, "none");
    assert_string_equal(slots_held_for(&b->slots, job), "");
    b->slots.at[3].job = NULL;
    expect(b, job, "cuda:0");
    slots_take(&b->slots, &b->slots.at[0], job);
    assert_true(b->slots.at[1].job == job && !b->slots.at[3].job);
}

static void room_is_made_by_the_job_beside_which_there_is_none(void **state) {
    struct bench *b = *state;
    struct job *next = &b->jobs[5];
    share(b);
    next->priority = 9;
    b->jobs[1].infers = true;
    b->slots.at[0].job = &b->jobs[0];
    b->slots.at[3].job = &b->jobs[1];
    b->jobs[1].priority = 1; /* lower, but its end would not help */
    assert_ptr_equal(slots_victim(&b->slots, next), &b->slots.at[0]);
    next->memory_bytes = 0; /* not known: it needs the whole device */
    assert_ptr_equal(slots_victim(&b->slots, next), &b->slots.at[3]);
    b->jobs[0].preemptible = false;
    assert_null(slots_victim(&b->slots, next)); /* then one without the other is no use */
    next->infers = true;
    next->memory_bytes = 10;
    assert_ptr_equal(slots_victim(&b->slots, next), &b->slots.at[3]);
}

static void nobody_is_overtaken_who_would_wait_the_longer(void **state) {
    struct bench *b = *state;
    struct job *infers = &b->jobs[1], *waits = &b->jobs[2];
    struct slot *place = &b->slots.at[3];
    share(b);
    infers->infers = true;
    b->slots.at[0].job = &b->jobs[0];
    assert_true(slots_may_overtake(&b->slots, place, infers, waits)); /* it waits for the training, and fits beside the other */
    waits->memory_bytes = 71;
    assert_false(slots_may_overtake(&b->slots, place, infers, waits));
    waits->memory_bytes = 50;
    b->free[0] = 50; /* models have 20 beside the training's 10 */
    assert_true(slots_may_overtake(&b->slots, place, infers, waits));
    waits->memory_bytes = 51;
    assert_false(slots_may_overtake(&b->slots, place, infers, waits));
    waits->memory_bytes = 0;
    assert_false(slots_may_overtake(&b->slots, place, infers, waits));
    waits->memory_bytes = 81; /* it waits for another device */
    assert_true(slots_may_overtake(&b->slots, place, infers, waits));
    str_copy(waits->wanted, sizeof waits->wanted, "cpu");
    waits->memory_bytes = 0;
    assert_true(slots_may_overtake(&b->slots, place, infers, waits));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_job_gets_the_free_device_with_the_most_free_memory, set_up),
        cmocka_unit_test_setup(a_job_waits_for_the_device_that_it_names, set_up),
        cmocka_unit_test_setup(a_job_waits_for_a_device_that_will_have_enough_memory, set_up),
        cmocka_unit_test_setup(a_job_larger_than_every_device_fails_on_one_of_them, set_up),
        cmocka_unit_test_setup(the_only_device_takes_every_job, set_up),
        cmocka_unit_test_setup(a_bad_device_takes_no_job_and_says_why, set_up),
        cmocka_unit_test_setup(the_job_of_lowest_priority_makes_room_and_one_at_a_time, set_up),
        cmocka_unit_test_setup(room_for_several_devices_is_made_only_where_there_can_be_enough, set_up),
        cmocka_unit_test_setup(places_of_a_cluster_are_for_jobs_that_name_it, set_up),
        cmocka_unit_test_setup(a_place_is_kept_for_jobs_that_are_to_be_cancelled, set_up),
        cmocka_unit_test_setup(a_job_of_two_devices_gets_two_of_one_kind, set_up),
        cmocka_unit_test_setup(a_job_of_two_devices_says_why_none_will_come, set_up),
        cmocka_unit_test_setup(a_job_larger_than_two_devices_fails_on_them, set_up),
        cmocka_unit_test_setup(a_job_that_infers_shares_a_device_when_both_fit, set_up),
        cmocka_unit_test_setup(a_job_of_several_devices_shares_none_of_them, set_up),
        cmocka_unit_test_setup(room_is_made_by_the_job_beside_which_there_is_none, set_up),
        cmocka_unit_test_setup(nobody_is_overtaken_who_would_wait_the_longer, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
