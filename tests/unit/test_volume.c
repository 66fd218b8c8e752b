/* volume: a volume that does not answer delays whoever waits for it once and whoever only looks never, and is seen to be back. The
 * system call that waits is this file's. */
#include "base/volume.h"

#include <sys/statvfs.h>

#include "unit/cmocka_all.h"

static atomic_bool held;
static _Atomic int64_t calls;

/* In place of the C library's. */
int statvfs(const char *restrict path, struct statvfs *restrict ret) {
    static const struct timespec turn = {.tv_nsec = 1000 * 1000};
    (void)path;
    atomic_fetch_add(&calls, 1);
    while (atomic_load(&held))
        nanosleep(&turn, NULL);
    *ret = (struct statvfs){.f_bavail = 7, .f_blocks = 9, .f_frsize = 512};
    return 0;
}

static struct volume *open_volume(void) {
    struct volume *v = NULL;
    assert_int_equal(volume_open("/", &v, NULL), 0);
    return v;
}

static void a_volume_that_answers_tells_its_free_bytes_and_its_size(void **state) {
    (void)state;
    struct volume *v = open_volume();
    assert_int_equal(volume_size_bytes(v), -1); /* nobody asked yet */
    assert_int_equal(volume_free_bytes(v), -1);
    assert_true(volume_answers(v) && volume_look(v));
    assert_int_equal(volume_size_bytes(v), 9 * 512);
    assert_int_equal(volume_free_bytes(v), 7 * 512);
    volume_wait(v);
    volume_close(v);
}

static void a_volume_that_hangs_delays_once(void **state) {
    (void)state;
    struct volume *v = open_volume();
    atomic_store(&held, true);
    assert_true(volume_look(v)); /* not known yet */
    assert_false(volume_answers(v));
    int64_t asked = atomic_load(&calls);
    for (int i = 0; i < 1000000; i++)
        assert_false(volume_answers(v) || volume_look(v));
    assert_int_equal(volume_free_bytes(v), -1);
    assert_int_equal(atomic_load(&calls), asked); /* one call waits, not one of each that asked */
    atomic_store(&held, false);
    volume_wait(v);
    assert_true(volume_answers(v) && volume_look(v));
    volume_close(v);
}

/* What the loop thread does each second: it gets the newest answer while the next one is on its way, and none once that has taken
 * too long. A reader that waited here would get no answer at all. */
static void free_bytes_never_wait(void **state) {
    (void)state;
    struct volume *v = open_volume();
    volume_wait(v);
    atomic_store(&held, true);
    int64_t asked = atomic_load(&calls);
    assert_int_equal(volume_free_bytes(v), 7 * 512);
    assert_int_equal(volume_free_bytes(v), 7 * 512); /* the same call is still on its way */
    assert_false(volume_answers(v));                 /* until it is too old */
    assert_int_equal(volume_free_bytes(v), -1);
    assert_int_equal(volume_size_bytes(v), 9 * 512);
    assert_int_equal(atomic_load(&calls), asked + 1);
    atomic_store(&held, false);
    volume_wait(v);
    assert_int_equal(volume_free_bytes(v), 7 * 512);
    volume_close(v);
}

static void closing_does_not_wait_for_a_volume_that_hangs(void **state) {
    (void)state;
    struct volume *v = open_volume();
    atomic_store(&held, true);
    assert_false(volume_answers(v));
    volume_close(v); /* would never return */
    v = open_volume();
    assert_true(volume_look(v)); /* a call that is not too old yet */
    volume_close(v);
    atomic_store(&held, false); /* their threads free what they have */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_volume_that_answers_tells_its_free_bytes_and_its_size),
        cmocka_unit_test(a_volume_that_hangs_delays_once),
        cmocka_unit_test(free_bytes_never_wait),
        cmocka_unit_test(closing_does_not_wait_for_a_volume_that_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
