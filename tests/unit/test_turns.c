/* turns: jobs that share a device get the same time whatever their calls take, a job that computes nothing or hangs holds up
 * nobody, and a process that dies with the turn, or with its lock, neither. */
#include "kernels/turns.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kernels/op.h"
#include "unit/cmocka_all.h"

/* The time of the test; 0: the machine's. */
static int64_t time_ms;
int64_t __real_clock_ms(void);
int64_t __wrap_clock_ms(void);
int64_t __wrap_clock_ms(void) { return time_ms ? time_ms : __real_clock_ms(); }

static struct turns turns;
static struct turn_at at(int place) { return (struct turn_at){&turns, place}; }

static int set_up(void **state) {
    (void)state;
    time_ms = 1000000;
    turns_init(&turns);
    return 0;
}

/* A call of so many ms, whose work the place waits for. False: it is another one's turn. */
static bool call(int place, int64_t ms) {
    if (!turns_ask(at(place)))
        return false;
    time_ms += ms;
    turns_rest(at(place), false);
    return true;
}

static void join_two(int64_t first, int64_t second) {
    turns_join(at(0), first);
    turns_join(at(1), second);
}

/* Both want to compute all the time, place 0 in calls of `long_ms`, place 1 in calls of 7 ms: the share of place 1. */
static double share_of_short_calls(int64_t long_ms) {
    int64_t own = 0;
    const int64_t begun = time_ms;
    while (time_ms - begun < 100000) {
        const int64_t before = time_ms;
        const bool computed = call(1, 7);
        own += time_ms - before;
        if (!call(0, long_ms) && !computed)
            time_ms++;
    }
    return (double)own / (double)(time_ms - begun);
}

static void each_job_gets_half_whatever_its_calls_take(void **state) {
    (void)state;
    join_two(0, 0);
    for (int64_t ms = 1; ms < 4000; ms *= 5) {
        const double share = share_of_short_calls(ms);
        assert_true(share > 0.45 && share < 0.55);
    }
}

/* Another place begins to wait between turns_ends, which says no, and the next call. */
static void a_turn_is_not_passed_on_before_its_work_has_drained(void **state) {
    (void)state;
    join_two(0, 0);
    assert_true(turns_ask(at(0)));
    turns_rest(at(0), true);
    time_ms += TURNS_HOLD_MS;
    assert_false(turns_ends(at(0))); /* nobody waits */
    assert_false(turns_ask(at(1)));
    assert_true(turns_ask(at(0)));
    turns_rest(at(0), true);
    assert_true(turns_ends(at(0)));
    turns_rest(at(0), false); /* drained */
    assert_false(turns_ask(at(0)));
    assert_true(turns_ask(at(1)));
}

static void a_turn_is_kept_for_its_time(void **state) {
    (void)state;
    join_two(0, 0);
    assert_true(call(0, 10));
    for (int i = 0; i < 9; i++) { /* 10 … 90 ms */
        assert_false(turns_ask(at(1)));
        assert_false(turns_ends(at(0)));
        assert_true(call(0, 10));
    }
    assert_true(turns_ends(at(0))); /* the queued work drains first */
    assert_false(call(0, 10));
    assert_true(call(1, 10));
}

static void nine_tenths_go_to_the_higher_priority(void **state) {
    (void)state;
    join_two(3, 7);
    const double share = share_of_short_calls(20);
    assert_true(share > 0.85 && share < 0.95);
}

static void a_place_that_computes_nothing_loses_its_turn_at_once(void **state) {
    (void)state;
    join_two(0, 0);
    assert_true(call(0, 3));
    assert_false(turns_ask(at(1)));
    time_ms += TURNS_QUIET_MS - 1;
    assert_false(turns_ask(at(1)));
    time_ms += 1;
    assert_true(turns_ask(at(1)));
}

static void queued_work_keeps_the_turn_a_little_longer(void **state) {
    (void)state;
    join_two(0, 0);
    assert_true(turns_ask(at(0)));
    turns_rest(at(0), true);
    time_ms += TURNS_QUIET_MS;
    assert_false(turns_ask(at(1)));
    turns_keep(at(0)); /* it waits for the device */
    time_ms += TURNS_QUEUED_MS;
    assert_false(turns_ask(at(1)));
    turns_rest(at(0), false);
    time_ms += TURNS_QUIET_MS;
    assert_true(turns_ask(at(1)));
}

static void a_call_that_hangs_holds_up_nobody(void **state) {
    (void)state;
    join_two(0, 0);
    assert_true(turns_ask(at(0))); /* and never ends */
    assert_false(turns_ask(at(1)));
    time_ms += TURNS_HUNG_MS;
    for (int i = 0; i < 1000; i++)
        assert_true(call(1, 50)); /* alone from now on */
    assert_false(turns_ends(at(1)));
}

static void a_waiting_place_that_died_holds_up_nobody(void **state) {
    (void)state;
    join_two(0, 0);
    turns_join(at(2), 0);
    assert_true(call(0, 10));
    assert_false(turns_ask(at(1))); /* and never asks again */
    for (int i = 0; i < 10; i++)
        (void)call(0, 10);
    time_ms += TURNS_QUEUED_MS; /* the turn was passed to it */
    assert_true(call(0, 10) || (turns_leave(at(1)), call(0, 10)));
    turns_leave(at(1));
    assert_true(call(2, 10) || ((time_ms += TURNS_QUIET_MS), call(2, 10)));
}

/* The turn of a place that left passes to the one that waits, and a newcomer begins with the time of the others. */
static void a_job_that_ends_gives_its_turn_back(void **state) {
    (void)state;
    join_two(0, 0);
    for (int i = 0; i < 100; i++)
        assert_true(call(0, 50));
    assert_false(turns_ask(at(1)));
    turns_leave(at(0));
    assert_true(call(1, 10));
    turns_join(at(0), 0);
    const double share = share_of_short_calls(20);
    assert_true(share > 0.45 && share < 0.55);
}

static void a_job_alone_never_waits(void **state) {
    int64_t passed = 0, waited_ms = 0;
    (void)state;
    turns_join(at(0), 0);
    for (int i = 0; i < 100; i++)
        assert_true(call(0, 500));
    turns_take_counts(&turns, &passed, &waited_ms);
    assert_true(passed == 1 && waited_ms == 0);
}

/* A child that is killed in its turn, and one that is killed with the lock. */
static void a_process_that_is_killed_holds_up_nobody(void **state) {
    struct turns *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)state;
    time_ms = 0;
    assert_true(shared != MAP_FAILED);
    turns_init(shared);
    for (int locks = 0; locks < 2; locks++) {
        int pipes[2], status;
        char byte;
        turns_join((struct turn_at){shared, 0}, 0);
        turns_join((struct turn_at){shared, 1}, 0);
        assert_int_equal(pipe(pipes), 0);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            turns_enter((struct turn_at){shared, 0});
            if (locks) {
                pthread_mutex_lock(&shared->lock);
                shared->waiting++; /* it was about to say which place waits */
            }
            (void)!write(pipes[1], "x", 1);
            pause();
        }
        assert_int_equal(read(pipes[0], &byte, 1), 1);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        turns_leave((struct turn_at){shared, 0}); /* as its parent does */
        turns_enter((struct turn_at){shared, 1});
        turns_rest((struct turn_at){shared, 1}, false);
        turns_leave((struct turn_at){shared, 1});
        assert_int_equal(shared->waiting, 0);
        close(pipes[0]);
        close(pipes[1]);
    }
    munmap(shared, sizeof *shared);
}

/* ---- streams ---- */

enum { CALLS = 2000, WIDTH = 512 };

struct job {
    struct device *device;
    int place;
    float sums[WIDTH];
};

static void *compute(void *ctx) {
    struct job *j = ctx;
    struct stream *s = NULL;
    if (stream_open(j->device, STREAM_NORMAL, &s, NULL))
        return NULL;
    stream_share(s, at(j->place));
    for (int i = 0; i < WIDTH; i++)
        j->sums[i] = (float)i / WIDTH;
    for (int i = 0; i < CALLS; i++) {
        const struct eltwise_args add = {.kind = ELTWISE_SCALE,
                                         .a = tensor_2d(j->sums, DTYPE_F32, 1, WIDTH),
                                         .y = tensor_2d(j->sums, DTYPE_F32, 1, WIDTH),
                                         .alpha = 1.0001f};
        if (op_eltwise(s, &add, NULL) || stream_sync(s, NULL))
            break;
    }
    stream_close(s);
    turns_leave(at(j->place));
    return j;
}

static void streams_in_turns_compute_what_one_alone_does(void **state) {
    struct job jobs[TURNS_MAX] = {{0}}, alone = {0};
    struct device *device = NULL;
    pthread_t threads[TURNS_MAX];
    (void)state;
    time_ms = 0;
    assert_int_equal(device_open("cpu", 1, &device, NULL), 0);
    alone.device = device;
    turns_join(at(0), 0);
    assert_ptr_equal(compute(&alone), &alone);
    for (int i = 0; i < TURNS_MAX; i++) {
        jobs[i] = (struct job){.device = device, .place = i};
        turns_join(at(i), i % 2);
    }
    for (int i = 0; i < TURNS_MAX; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compute, &jobs[i]), 0);
    for (int i = 0; i < TURNS_MAX; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_memory_equal(jobs[i].sums, alone.sums, sizeof alone.sums);
    }
    device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_job_gets_half_whatever_its_calls_take, set_up),
        cmocka_unit_test_setup(a_turn_is_not_passed_on_before_its_work_has_drained, set_up),
        cmocka_unit_test_setup(a_turn_is_kept_for_its_time, set_up),
        cmocka_unit_test_setup(nine_tenths_go_to_the_higher_priority, set_up),
        cmocka_unit_test_setup(a_place_that_computes_nothing_loses_its_turn_at_once, set_up),
        cmocka_unit_test_setup(queued_work_keeps_the_turn_a_little_longer, set_up),
        cmocka_unit_test_setup(a_call_that_hangs_holds_up_nobody, set_up),
        cmocka_unit_test_setup(a_waiting_place_that_died_holds_up_nobody, set_up),
        cmocka_unit_test_setup(a_job_that_ends_gives_its_turn_back, set_up),
        cmocka_unit_test_setup(a_job_alone_never_waits, set_up),
        cmocka_unit_test_setup(a_process_that_is_killed_holds_up_nobody, set_up),
        cmocka_unit_test_setup(streams_in_turns_compute_what_one_alone_does, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
