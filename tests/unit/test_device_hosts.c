/* device_hosts: a model file that does not answer is noticed without any job. */
#include "daemon/hosts/device_hosts.h"

#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "unit/temp_dir.h"

/* Time passes as the test says (the linker's --wrap). */
static _Atomic int64_t ahead_ms;
int64_t __real_clock_ms(void);
int64_t __wrap_clock_ms(void);
int64_t __wrap_clock_ms(void) { return __real_clock_ms() + atomic_load(&ahead_ms); }

enum { ALLOWED_MS = 60 * 1000, TRIES = 10 * 1000 };

static void rest(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

/* The volume of the model does not answer while `held`. */
static atomic_bool held;
typedef int open_fn(struct device *d, const char *path, int max_batch, int64_t limit, struct detector **ret, struct err *err);
open_fn __wrap_detector_open;
int __wrap_detector_open(struct device *d, const char *path, int max_batch, int64_t limit, struct detector **ret, struct err *err) {
    (void)d, (void)max_batch, (void)limit, (void)ret;
    while (atomic_load(&held))
        rest();
    return err_set(err, ERR_INTERNAL, "%s cannot be read", path);
}

static void a_model_file_that_hangs_stalls_the_device_without_any_job(void **state) {
    const struct device_hosts_config config = {.device = "cpu", .threads = 1, .max_networks = 1};
    struct device_hosts *h = NULL;
    struct err err;
    const char *path = in_dir(state, "held.safetensors");
    put_file(path, "model", 5);
    atomic_store(&held, true);
    if (device_hosts_start(&config, &h, &err))
        fail_msg("%s", err.message);
    atomic_fetch_add(&ahead_ms, 10 * ALLOWED_MS);
    assert_false(device_hosts_stalled(h)); /* nothing to do is no stall */
    struct live_order *load = live_order_new(LIVE_LOAD, NULL);
    str_copy(load->checkpoint, sizeof load->checkpoint, path);
    assert_true(device_hosts_post_stream(h, load));
    assert_false(device_hosts_stalled(h));
    bool stalled = false; /* from the moment that its thread has taken the order */
    for (int i = 0; i < TRIES && !(stalled = device_hosts_stalled(h)); i++) {
        atomic_fetch_add(&ahead_ms, ALLOWED_MS + 1);
        rest();
    }
    assert_true(stalled);
    atomic_store(&held, false);
    struct live_report *r = NULL;
    for (; !r; r = device_hosts_take_stream(h))
        rest();
    assert_int_equal(r->message.kind, LIVE_LOADED);
    assert_int_not_equal(r->err.code, 0);
    live_report_free(r);
    atomic_fetch_add(&ahead_ms, 10 * ALLOWED_MS);
    for (int i = 0; i < TRIES && (stalled = device_hosts_stalled(h)); i++) /* it rests a moment after its answer */
        rest();
    assert_false(stalled);
    device_hosts_stop(h);
}

int main(void) {
    const struct CMUnitTest tests[] = {in_temp_dir(a_model_file_that_hangs_stalls_the_device_without_any_job)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
