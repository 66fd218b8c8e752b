/* spare_memory: what was freed goes back to the system a minute after a burst, once for each. */
#include "daemon/spare_memory.h"

#include "unit/cmocka_all.h"

static int trims;
int __wrap_malloc_trim(size_t pad);
int __wrap_malloc_trim(size_t pad) { return (void)pad, ++trims; }

enum { MIB = 1 << 20, SECOND = 1000 };

/* So many seconds in which so much is resident; how often it was given back. */
static int pass(struct spare_memory *m, uv_loop_t *loop, int64_t *now_ms, int seconds, int64_t mib) {
    const int before = trims;
    for (int i = 0; i < seconds; i++) {
        *now_ms += SECOND;
        spare_memory_look(m, loop, mib * MIB, *now_ms);
        uv_run(loop, UV_RUN_DEFAULT);
    }
    return trims - before;
}

static void a_burst_is_given_back_once_a_minute_after_it(void **state) {
    struct spare_memory m = {0};
    uv_loop_t loop;
    int64_t now_ms = 5000;
    (void)state;
    uv_loop_init(&loop);
    assert_int_equal(pass(&m, &loop, &now_ms, 300, 100), 0);
    for (int64_t mib = 200; mib < 1000; mib += 10) /* it goes on growing */
        assert_int_equal(pass(&m, &loop, &now_ms, 10, mib), 0);
    assert_int_equal(pass(&m, &loop, &now_ms, 49, 990), 0);
    assert_int_equal(pass(&m, &loop, &now_ms, 30, 990), 1);
    assert_int_equal(pass(&m, &loop, &now_ms, 300, 120), 0); /* what is kept now, and little more */
    assert_int_equal(pass(&m, &loop, &now_ms, 300, 150), 0);
    assert_int_equal(pass(&m, &loop, &now_ms, 300, 1000), 1); /* the next burst, of which nothing can be given back */
    uv_loop_close(&loop);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_burst_is_given_back_once_a_minute_after_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
