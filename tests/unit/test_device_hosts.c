/* device_hosts: a model file that does not answer holds up nothing but its own orders; a device that hangs is noticed without a
 * job. */
#include "daemon/hosts/device_hosts.h"

#include "base/base.h"
#include "daemon/live/live_host.h"
#include "daemon/live/live_stream.h"
#include "unit/temp_dir.h"

/* Time passes as the test says (the linker's --wrap). */
static _Atomic int64_t ahead_ms;
int64_t __real_clock_ms(void);
int64_t __wrap_clock_ms(void);
int64_t __wrap_clock_ms(void) { return __real_clock_ms() + atomic_load(&ahead_ms); }

enum { ALLOWED_MS = 60 * 1000 };

static void rest(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

/* While `held` the volume of files called held… does not answer; while `hangs` the device does not. No file is read. */
static atomic_bool held, hangs;
static atomic_int reading, uploading;
typedef int open_fn(const char *path, const struct model_use *use, struct model_image **ret, struct err *err);
open_fn __wrap_model_image_open;
int __wrap_model_image_open(const char *path, const struct model_use *use, struct model_image **ret, struct err *err) {
    (void)use, (void)err;
    atomic_fetch_add(&reading, 1);
    while (strstr(path, "/held") && atomic_load(&held))
        rest();
    *ret = calloc(1, sizeof **ret);
    str_copy((*ret)->path, sizeof(*ret)->path, path);
    atomic_fetch_sub(&reading, 1);
    return 0;
}

typedef int upload_fn(struct device *dev, const struct model_image *image, struct detector **ret, struct err *err);
upload_fn __wrap_detector_upload;
int __wrap_detector_upload(struct device *dev, const struct model_image *image, struct detector **ret, struct err *err) {
    (void)dev, (void)ret;
    bool slow = strstr(image->path, "/replayed") != NULL;
    atomic_fetch_add(&uploading, 1);
    while (atomic_load(&hangs) || (slow && atomic_load(&held)))
        rest();
    atomic_fetch_sub(&uploading, 1);
    return err_set(err, ERR_INTERNAL, "the device has no room");
}

static struct device_hosts *start(void) {
    static const struct live_host_config streams = {.precision = DTYPE_F32};
    const struct device_hosts_config config = {
        .device = "cpu",
        .threads = 1,
        .rows = {[HOST_LIVE] = live_host_row(&streams), [HOST_REPLAYS] = live_host_replays_row(&streams)}};
    struct device_hosts *h = NULL;
    struct err err;
    if (device_hosts_start(&config, &h, &err))
        fail_msg("%s", err.message);
    return h;
}

static void load(struct device_hosts *h, const char *path) {
    struct live_order *o = live_order_new(LIVE_LOAD, NULL);
    put_file(path, "model", 5);
    str_copy(o->checkpoint, sizeof o->checkpoint, path);
    str_copy(o->model, sizeof o->model, strrchr(path, '/') + 1);
    assert_true(device_hosts_post(h, HOST_LIVE, &o->message));
}

/* Each model gets an answer: the device of this test has no room. */
static void expect_answer(struct device_hosts *h, const char *model) {
    struct live_report *r = NULL;
    while (!(r = (struct live_report *)device_hosts_take(h, HOST_LIVE)))
        rest();
    assert_int_equal(r->message.kind, LIVE_LOADED);
    assert_string_equal(r->model, model);
    assert_int_equal(r->err.code, ERR_INTERNAL);
    live_report_free(r);
}

static void a_model_file_that_hangs_holds_up_its_own_orders_alone(void **state) {
    struct device_hosts *h = start();
    char text[HOST_WAITS_TEXT];
    const char *path = in_dir(state, "held");
    atomic_store(&held, true);
    load(h, path);
    load(h, in_dir(state, "other"));
    expect_answer(h, "other");
    while (atomic_load(&reading) != 1)
        rest();
    assert_false(device_hosts_waits(h, text)); /* not for long yet */
    atomic_fetch_add(&ahead_ms, 10 * ALLOWED_MS);
    load(h, in_dir(state, "another"));
    expect_answer(h, "another");
    assert_true(device_hosts_waits(h, text));
    assert_ptr_equal(strstr(text, "waits for "), text);
    assert_non_null(strstr(text, path));
    assert_false(device_hosts_stalled(h)); /* the watchdog has no reason */
    atomic_store(&held, false);
    expect_answer(h, "held");
    while (device_hosts_waits(h, text)) /* its thread ends a moment after the answer */
        rest();
    device_hosts_stop(h);
}

static void a_model_file_that_hangs_does_not_hold_up_the_end(void **state) {
    struct device_hosts *h = start();
    atomic_store(&held, true);
    load(h, in_dir(state, "held"));
    while (atomic_load(&reading) != 1)
        rest();
    device_hosts_stop(h);
    assert_int_equal(atomic_load(&reading), 1);
    atomic_store(&held, false);
    while (atomic_load(&reading))
        rest();
}

static void a_device_that_hangs_is_noticed_without_a_job(void **state) {
    struct device_hosts *h = start();
    atomic_fetch_add(&ahead_ms, 10 * ALLOWED_MS);
    assert_false(device_hosts_stalled(h)); /* nothing to do is no stall */
    atomic_store(&hangs, true);
    load(h, in_dir(state, "model"));
    while (!atomic_load(&uploading))
        rest();
    assert_false(device_hosts_stalled(h));
    atomic_fetch_add(&ahead_ms, ALLOWED_MS + 1);
    assert_true(device_hosts_stalled(h));
    atomic_store(&hangs, false);
    expect_answer(h, "model");
    while (device_hosts_stalled(h)) /* it rests a moment after its answer */
        rest();
    device_hosts_stop(h);
}

/* The device takes long for a replay: live windows have a thread of their own. */
static void replays_do_not_hold_up_live_windows(void **state) {
    static const char *const labels[] = {"C3"};
    struct device_hosts *h = start();
    const char *path = in_dir(state, "replayed");
    struct live_open open = {.checkpoint = path, .model = "m", .labels = labels, .n_labels = 1, .rate_hz = 256};
    struct live_stream *replay = live_stream_new(&open, NULL);
    put_file(path, "model", 5);
    atomic_store(&held, true);
    assert_true(device_hosts_post(h, HOST_REPLAYS, &live_order_new(LIVE_OPEN, replay)->message));
    while (!atomic_load(&uploading))
        rest();
    load(h, in_dir(state, "other"));
    expect_answer(h, "other");
    atomic_fetch_add(&ahead_ms, 2 * ALLOWED_MS);
    assert_false(device_hosts_stalled(h)); /* a replay gives way to live windows, and may take ten times as long */
    atomic_fetch_add(&ahead_ms, 10 * ALLOWED_MS);
    assert_true(device_hosts_stalled(h));
    atomic_store(&held, false);
    device_hosts_stop(h);
    live_stream_free(replay);
}

int main(void) {
    const struct CMUnitTest tests[] = {in_temp_dir(a_model_file_that_hangs_holds_up_its_own_orders_alone),
                                       in_temp_dir(a_model_file_that_hangs_does_not_hold_up_the_end),
                                       in_temp_dir(replays_do_not_hold_up_live_windows),
                                       in_temp_dir(a_device_that_hangs_is_noticed_without_a_job)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
