#include "daemon/device/device_watch.h"

#include "unit/cmocka_all.h"

static const struct metric_family families[] = {
    GAUGE("brrd_gpu_info", "Info.", "gpu,uuid,model_name,driver"), GAUGE("brrd_gpu_temperature_celsius", "Temperature.", "gpu"),
    COUNTER("brrd_gpu_energy_joules_total", "Energy.", "gpu"),     COUNTER("brrd_gpu_ecc_errors_total", "Errors.", "gpu,kind"),
    GAUGE("brrd_gpu_clocks_slowed", "Slowed.", "gpu,reason"),      COUNTER("brrd_gpu_errors_total", "Errors.", "gpu,xid"),
};

static struct device_health nothing(void) {
    return (struct device_health){.index = -1,
                                  .temperature_c = NAN,
                                  .power_w = NAN,
                                  .energy_j = NAN,
                                  .utilization = NAN,
                                  .memory_used_bytes = -1,
                                  .memory_total_bytes = -1,
                                  .ecc_corrected = -1,
                                  .ecc_uncorrected = -1,
                                  .repair_pending = -1,
                                  .repair_failed = -1,
                                  .slowed = -1,
                                  .error_kinds = -1};
}

static struct device_health healthy(void) {
    struct device_health h = nothing();
    h.reported = true;
    h.index = 5;
    h.temperature_c = 61;
    h.energy_j = 1000;
    h.ecc_corrected = 7;
    h.ecc_uncorrected = 0;
    h.repair_pending = h.repair_failed = 0;
    h.slowed = 1 << DEVICE_SLOWDOWN_HW_THERMAL | 1 << DEVICE_SLOWDOWN_HW_SLOWDOWN;
    str_copy(h.uuid, sizeof h.uuid, "GPU-1");
    str_copy(h.model, sizeof h.model, "Some \"GPU\"");
    str_copy(h.driver, sizeof h.driver, "580.1");
    str_copy(h.reset, sizeof h.reset, "reset-it -i 5");
    return h;
}

/* ---- judgement ---- */

static void a_healthy_device_is_fit(void **state) {
    (void)state;
    struct device_fault v;
    struct device_health h = healthy();
    assert_false(device_watch_judge(&h, &v)); /* heat and corrected errors are no ground */
}

static void what_is_not_told_is_no_ground(void **state) {
    (void)state;
    struct device_fault v;
    struct device_health h = nothing();
    assert_false(device_watch_judge(&h, &v));
}

static void uncorrectable_errors_are_bad_and_name_the_reset(void **state) {
    (void)state;
    struct device_fault v;
    struct device_health h = healthy();
    h.ecc_uncorrected = 2;
    assert_true(device_watch_judge(&h, &v));
    assert_non_null(strstr(v.why, "2 uncorrectable memory errors"));
    assert_non_null(strstr(v.fix, "reset-it -i 5"));
    assert_non_null(strstr(v.fix, "start brrd; if it happens again"));
}

static void memory_that_waits_for_a_reset_is_bad(void **state) {
    (void)state;
    struct device_fault v;
    struct device_health h = healthy();
    h.repair_pending = 1;
    assert_true(device_watch_judge(&h, &v));
    assert_non_null(strstr(v.why, "replaced at its next reset"));
}

static void memory_beyond_repair_wants_another_device(void **state) {
    (void)state;
    struct device_fault v;
    struct device_health h = healthy();
    h.repair_pending = h.repair_failed = 1;
    h.ecc_uncorrected = 1;
    assert_true(device_watch_judge(&h, &v));
    assert_non_null(strstr(v.fix, "replace the device"));
    assert_null(strstr(v.fix, "reset-it"));
}

static void an_unreachable_device_is_bad(void **state) {
    (void)state;
    struct device_fault v;
    struct device_health h = nothing();
    h.reported = h.unreachable = true;
    assert_true(device_watch_judge(&h, &v));
    assert_non_null(strstr(v.fix, "with its driver's tool"));
}

/* ---- energy, words ---- */

static void energy_is_the_difference_of_two_answers(void **state) {
    (void)state;
    struct device_health a = healthy(), b = healthy(), none = nothing();
    b.energy_j = 1234.5;
    assert_true(device_health_energy(&a, &b) == 234.5);
    assert_true(isnan(device_health_energy(&b, &a))); /* the counter began anew */
    assert_true(isnan(device_health_energy(&none, &b)));
    assert_true(isnan(device_health_energy(&a, &none)));
}

static void only_what_is_told_is_described(void **state) {
    (void)state;
    char text[400];
    struct device_health h = nothing();
    device_watch_describe(&h, text, sizeof text);
    assert_string_equal(text, "");
    h = healthy();
    device_watch_describe(&h, text, sizeof text);
    assert_string_equal(text, "61 °C, memory errors: 7 corrected, 0 uncorrectable, clocks held down: hw_thermal hw_slowdown");
}

/* ---- the watch ---- */

/* Answers in turn, the last one again and again. */
struct answers {
    struct device_health list[3];
    int n;
    atomic_int asked, woken;
};

static void answer(void *ctx, struct device_health *ret) {
    struct answers *a = ctx;
    int i = atomic_fetch_add(&a->asked, 1);
    *ret = a->list[i < a->n ? i : a->n - 1];
}

static void wake(void *ctx) { atomic_fetch_add(&((struct answers *)ctx)->woken, 1); }

static struct device_watch *watch(struct answers *a, struct metrics *m) {
    const struct device_watch_config config = {
        .device = "cuda:0", .ask = answer, .ctx = a, .metrics = m, .interval_ms = 5, .wake = wake, .wake_ctx = a};
    struct device_watch *w = NULL;
    assert_int_equal(device_watch_start(&config, &w, NULL), 0);
    return w;
}

static void wait_for_answers(struct answers *a, int n) {
    static const struct timespec turn = {.tv_nsec = 2 * 1000 * 1000};
    while (atomic_load(&a->asked) < n)
        nanosleep(&turn, NULL);
}

static bool shows(struct metrics *m, const char *line) {
    struct str page;
    str_init(&page, 1 << 16);
    metrics_print(m, &page);
    bool found = strstr(str_cstr(&page), line) != NULL;
    str_done(&page);
    return found;
}

static void an_error_while_it_runs_is_found_once(void **state) {
    (void)state;
    struct metrics *m = metrics_new(families, sizeof families / sizeof *families, 32);
    struct answers a = {.list = {healthy(), healthy(), healthy()}, .n = 3};
    a.list[1].ecc_uncorrected = 1; /* and then none again: the fault stays */
    struct device_watch *w = watch(&a, m);
    wait_for_answers(&a, 6);
    assert_non_null(device_watch_fault(w));
    assert_non_null(strstr(device_watch_fault(w)->why, "1 uncorrectable memory error "));
    assert_int_equal(atomic_load(&a.woken), 1);
    device_watch_stop(w);
    metrics_free(m);
}

static void a_device_that_is_bad_already_is_known_at_once(void **state) {
    (void)state;
    struct metrics *m = metrics_new(families, sizeof families / sizeof *families, 32);
    struct answers a = {.list = {healthy()}, .n = 1};
    a.list[0].repair_pending = 1;
    struct device_watch *w = watch(&a, m);
    assert_non_null(device_watch_fault(w));
    device_watch_stop(w);
    metrics_free(m);
}

static void a_device_that_tells_nothing_is_asked_once(void **state) {
    (void)state;
    struct metrics *m = metrics_new(families, sizeof families / sizeof *families, 32);
    struct answers a = {.list = {nothing()}, .n = 1};
    struct device_watch *w = watch(&a, m);
    static const struct timespec some_turns = {.tv_nsec = 40 * 1000 * 1000};
    wait_for_answers(&a, 1);
    nanosleep(&some_turns, NULL);
    assert_int_equal(atomic_load(&a.asked), 1);
    assert_null(device_watch_fault(w));
    assert_false(shows(m, "gpu=\""));
    device_watch_stop(w);
    metrics_free(m);
}

static void metrics_show_what_is_told_and_follow_counters_back(void **state) {
    (void)state;
    struct metrics *m = metrics_new(families, sizeof families / sizeof *families, 32);
    struct answers a = {.list = {healthy(), healthy(), healthy()}, .n = 3};
    a.list[1].energy_j = 1500;
    a.list[0].error_kinds = 2;
    a.list[0].errors[0] = (struct device_errors){79, 1};
    a.list[0].errors[1] = (struct device_errors){DEVICE_ERROR_OTHER, 3};
    a.list[2].error_kinds = 1;
    a.list[2].errors[0] = (struct device_errors){79, 4};
    a.list[2].energy_j = 20; /* the driver was loaded anew */
    a.list[2].temperature_c = NAN;
    a.list[2].index = -1;
    a.list[2].slowed = 0;
    struct device_watch *w = watch(&a, m);
    assert_true(shows(m, "brrd_gpu_info{gpu=\"5\",uuid=\"GPU-1\",model_name=\"Some \\\"GPU\\\"\",driver=\"580.1\"} 1\n"));
    assert_true(shows(m, "brrd_gpu_ecc_errors_total{gpu=\"5\",kind=\"corrected\"} 7\n"));
    assert_true(shows(m, "brrd_gpu_clocks_slowed{gpu=\"5\",reason=\"idle\"} 0\n"));
    assert_true(shows(m, "brrd_gpu_errors_total{gpu=\"5\",xid=\"79\"} 1\n"));
    assert_true(shows(m, "brrd_gpu_errors_total{gpu=\"5\",xid=\"other\"} 3\n"));
    wait_for_answers(&a, 5);
    device_watch_stop(w);
    assert_true(shows(m, "brrd_gpu_errors_total{gpu=\"5\",xid=\"79\"} 4\n"));
    assert_true(shows(m, "brrd_gpu_energy_joules_total{gpu=\"5\"} 20\n"));
    assert_false(shows(m, "brrd_gpu_temperature_celsius{"));
    assert_true(shows(m, "brrd_gpu_clocks_slowed{gpu=\"5\",reason=\"hw_thermal\"} 0\n"));
    metrics_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_device_is_fit),
        cmocka_unit_test(what_is_not_told_is_no_ground),
        cmocka_unit_test(uncorrectable_errors_are_bad_and_name_the_reset),
        cmocka_unit_test(memory_that_waits_for_a_reset_is_bad),
        cmocka_unit_test(memory_beyond_repair_wants_another_device),
        cmocka_unit_test(an_unreachable_device_is_bad),
        cmocka_unit_test(energy_is_the_difference_of_two_answers),
        cmocka_unit_test(only_what_is_told_is_described),
        cmocka_unit_test(an_error_while_it_runs_is_found_once),
        cmocka_unit_test(a_device_that_is_bad_already_is_known_at_once),
        cmocka_unit_test(a_device_that_tells_nothing_is_asked_once),
        cmocka_unit_test(metrics_show_what_is_told_and_follow_counters_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
