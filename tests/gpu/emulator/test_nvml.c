/* test_nvml: what the CUDA backend makes of the management library's answers. The device and the library are emulated (nvml.c).
 * Built twice: with FAKE_NVML_OLD the library lacks the functions that came late. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/device.h"
#include "unit/cmocka_all.h"

static char script[] = "/tmp/brr-nvml-XXXXXX";

static void say(const char *lines) {
    FILE *f = fopen(script, "w");
    assert_non_null(f);
    fputs(lines, f);
    fclose(f);
}

static int with_script(void **state) {
    int fd = mkstemp(script);
    (void)state;
    return fd < 0 || close(fd) || setenv("BRR_FAKE_NVML", script, 1);
}

static int without_script(void **state) {
    (void)state;
    return unlink(script);
}

static void look(const char *name, struct device_health *ret) {
    struct device *dev = NULL;
    struct err err = {0};
    if (device_open(name, 0, &dev, &err))
        fail_msg("%s", err.message);
    device_health(dev, ret);
    device_close(dev);
}

#define EVERYTHING                                                                                                                 \
    "temperature_c 61\npower_mw 312500\nutilization 97\nmemory_total 150000000000\nmemory_used 20000000000\necc_corrected 4\n"     \
    "ecc_uncorrected 0\nrows_pending 0\nrows_failed 0\npages_pending 0\nenergy_mj 123456\nthrottle 36\n"

static void absent_late(const struct device_health *h) {
    assert_true(isnan(h->energy_j));
    assert_int_equal(h->slowed, -1);
    assert_int_equal(h->repair_failed, -1);
    assert_int_equal(h->error_kinds, -1);
}

static void what_is_told_is_read_in_units(void **state) {
    (void)state;
    struct device_health h;
    say(EVERYTHING);
    look("cuda:0", &h);
    assert_true(h.reported && !h.unreachable);
    assert_true(h.temperature_c == 61 && h.power_w == 312.5 && h.utilization == 0.97);
    assert_true(h.memory_total_bytes == 150000000000 && h.memory_used_bytes == 20000000000);
    assert_true(h.ecc_corrected == 4 && h.ecc_uncorrected == 0 && h.repair_pending == 0);
    assert_string_equal(h.driver, "999.01.02");
#ifdef FAKE_NVML_OLD
    absent_late(&h);
#else
    assert_true(h.energy_j == 123.456 && h.repair_failed == 0);
    assert_int_equal(h.slowed, 1 << DEVICE_SLOWDOWN_POWER_CAP | 1 << DEVICE_SLOWDOWN_THERMAL);
#endif
}

static void the_gpu_is_found_by_its_bus_address(void **state) {
    (void)state;
    struct device_health h;
    say(EVERYTHING);
    look("cuda:0", &h); /* CUDA's number 0 is the library's number 5 */
    assert_int_equal(h.index, 5);
    assert_string_equal(h.model, "Scripted GPU");
    assert_string_equal(h.uuid, "GPU-3b");
    assert_non_null(strstr(h.reset, "0000:3B:00.0"));
}

static void what_is_not_supported_stays_absent(void **state) {
    (void)state;
    struct device_health h;
    say("temperature_c 40\n");
    look("cuda:0", &h);
    assert_true(h.reported && !h.unreachable && h.temperature_c == 40);
    assert_true(isnan(h.power_w) && isnan(h.utilization));
    assert_true(h.memory_used_bytes == -1 && h.memory_total_bytes == -1 && h.ecc_corrected == -1 && h.ecc_uncorrected == -1);
    assert_int_equal(h.repair_pending, -1);
    absent_late(&h);
}

static void each_slowdown_has_its_name(void **state) {
    (void)state;
    static const char *const names[] = {"idle",    "clock_setting", "power_cap",      "hw_slowdown",          "sync_boost",
                                        "thermal", "hw_thermal",    "hw_power_brake", "display_clock_setting"};
    char line[40];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct device_health h;
        snprintf(line, sizeof line, "throttle %d\n", 1 << i);
        say(line);
        look("cuda:0", &h);
#ifdef FAKE_NVML_OLD
        assert_int_equal(h.slowed, -1);
#else
        for (int k = 0; k < DEVICE_SLOWDOWN_COUNT; k++)
            assert_int_equal(h.slowed >> k & 1, !strcmp(device_slowdown_name((enum device_slowdown)k), names[i]));
#endif
    }
    say("throttle 4096\n"); /* a reason of tomorrow */
    struct device_health h;
    look("cuda:0", &h);
#ifndef FAKE_NVML_OLD
    assert_int_equal(h.slowed, 0);
#endif
}

static void a_repair_is_pending_for_rows_or_pages(void **state) {
    (void)state;
    struct device_health h;
    say("rows_pending 0\nrows_failed 0\npages_pending 1\n");
    look("cuda:0", &h);
    assert_int_equal(h.repair_pending, 1);
    say("rows_pending 1\nrows_failed 1\n");
    look("cuda:0", &h);
#ifdef FAKE_NVML_OLD
    assert_int_equal(h.repair_pending, -1);
#else
    assert_true(h.repair_pending == 1 && h.repair_failed == 1);
#endif
}

#ifndef FAKE_NVML_OLD
static int64_t errors_of(const struct device_health *h, int xid) {
    for (int i = 0; i < h->error_kinds; i++)
        if (h->errors[i].xid == xid)
            return h->errors[i].count;
    return 0;
}
#endif

static void errors_are_counted_by_kind_once_each(void **state) {
    (void)state;
    struct device *dev = NULL;
    struct device_health h;
    say("events 1\n");
    assert_int_equal(device_open("cuda:0", 0, &dev, NULL), 0);
    device_health(dev, &h);
#ifdef FAKE_NVML_OLD
    assert_int_equal(h.error_kinds, -1);
#else
    assert_int_equal(h.error_kinds, 0);
    say("events 1\nxid 79\nxid 31\nxid 79\n");
    device_health(dev, &h);
    device_health(dev, &h); /* told already */
    assert_true(h.error_kinds == 2 && errors_of(&h, 79) == 2 && errors_of(&h, 31) == 1);
    say("events 1\nxid 79\nxid 31\nxid 79\nxid 79\n");
    device_health(dev, &h);
    assert_true(h.error_kinds == 2 && errors_of(&h, 79) == 3 && !h.unreachable);
#endif
    device_close(dev);
}

static void kinds_beyond_the_table_are_counted_together(void **state) {
    (void)state;
#ifndef FAKE_NVML_OLD
    char lines[1000] = "events 1\n";
    struct device_health h;
    for (int i = 0; i < DEVICE_ERROR_KINDS + 4; i++)
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "xid %d\n", 10 + i);
    say(lines);
    look("cuda:0", &h);
    assert_int_equal(h.error_kinds, DEVICE_ERROR_KINDS);
    assert_int_equal(errors_of(&h, 10), 1);
    assert_int_equal(errors_of(&h, DEVICE_ERROR_OTHER), 5);
#endif
}

static void a_lost_gpu_is_unreachable_and_tells_nothing(void **state) {
    (void)state;
    struct device_health h;
    say("lost 1\n" EVERYTHING);
    look("cuda:0", &h);
    assert_true(h.reported && h.unreachable && isnan(h.temperature_c) && h.ecc_uncorrected == -1);
}

static void nothing_is_told_without_a_library_that_starts(void **state) {
    (void)state;
    struct device_health h;
    unsetenv("BRR_FAKE_NVML");
    look("cuda:0", &h);
    setenv("BRR_FAKE_NVML", script, 1);
    assert_false(h.reported || h.unreachable);
    assert_true(h.index == -1 && isnan(h.temperature_c) && !*h.uuid && !*h.driver);
}

static void the_cpu_tells_nothing(void **state) {
    (void)state;
    struct device_health h;
    say(EVERYTHING);
    look("cpu", &h);
    assert_false(h.reported || h.unreachable);
    assert_true(isnan(h.temperature_c) && isnan(h.energy_j) && h.memory_used_bytes == -1 && h.slowed == -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_told_is_read_in_units),
        cmocka_unit_test(the_gpu_is_found_by_its_bus_address),
        cmocka_unit_test(what_is_not_supported_stays_absent),
        cmocka_unit_test(each_slowdown_has_its_name),
        cmocka_unit_test(a_repair_is_pending_for_rows_or_pages),
        cmocka_unit_test(errors_are_counted_by_kind_once_each),
        cmocka_unit_test(kinds_beyond_the_table_are_counted_together),
        cmocka_unit_test(a_lost_gpu_is_unreachable_and_tells_nothing),
        cmocka_unit_test(nothing_is_told_without_a_library_that_starts),
        cmocka_unit_test(the_cpu_tells_nothing),
    };
    return cmocka_run_group_tests(tests, with_script, without_script);
}
