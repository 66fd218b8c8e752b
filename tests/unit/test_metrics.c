#include <sys/wait.h>

#include "base/base.h"
#include "skip.h"
#include "unit/temp_dir.h"

#include "base/metrics.h"

static const double seconds[] = {0.1, 1, 10};
static const struct metric_family table[] = {
    COUNTER("t_requests_total", "Requests.", "service,method"),
    GAUGE("t_temperature_celsius", "How warm.", ""),
    HISTOGRAM("t_duration_seconds", "How long.", "method", seconds),
    COUNTER("t_unused_total", "Nothing yet.", ""),
};

static int make(void **state) { return (*state = metrics_new(table, 4, 3)) ? 0 : -1; }

static int drop(void **state) {
    metrics_free(*state);
    return 0;
}

static char *printed(struct metrics *m) {
    struct str out;
    str_init(&out, 1 << 20);
    metrics_print(m, &out);
    char *text = str_take(&out);
    assert_non_null(text);
    return text;
}

static void assert_prints(struct metrics *m, const char *line) {
    char *text = printed(m);
    if (!strstr(text, line))
        fail_msg("'%s' is not in:\n%s", line, text);
    free(text);
}

static void counters_and_gauges_print_one_line_per_series(void **state) {
    struct metrics *m = *state;
    struct metric *a = metrics_series(m, "t_requests_total", "Jobs\x1fGet"), *g = metrics_series(m, "t_temperature_celsius", "");
    assert_true(metric_value(a) == 0);
    metric_add(a, 2);
    metric_add(a, 1);
    metric_set(g, 36.6);
    metric_add(g, -0.1);
    metric_add(metrics_series(m, "t_requests_total", "Jobs\x1fList"), 1);
    assert_ptr_equal(metrics_series(m, "t_requests_total", "Jobs\x1fGet"), a);
    assert_true(metric_value(a) == 3);
    char *text = printed(m);
    assert_non_null(strstr(text, "# HELP t_requests_total Requests.\n# TYPE t_requests_total counter\n"));
    assert_non_null(strstr(text, "t_requests_total{service=\"Jobs\",method=\"Get\"} 3\n"));
    assert_non_null(strstr(text, "t_requests_total{service=\"Jobs\",method=\"List\"} 1\n"));
    assert_non_null(strstr(text, "\nt_temperature_celsius 36.5\n"));
    assert_non_null(strstr(text, "# HELP t_unused_total Nothing yet.\n# TYPE t_unused_total counter\n")); /* without series too */
    assert_null(strstr(text, "\nt_unused_total "));
    free(text);
}

static void a_histogram_has_cumulative_buckets_sum_and_count(void **state) {
    struct metric *h = metrics_series(*state, "t_duration_seconds", "Get");
    static const double values[] = {0.05, 0.1, 0.5, 1, 9, 11, INFINITY};
    for (size_t i = 0; i < 6; i++)
        metric_observe(h, values[i]);
    metric_observe(h, NAN); /* counts for nothing */
    char *text = printed(*state);
    assert_non_null(strstr(text, "# TYPE t_duration_seconds histogram\n"
                                 "t_duration_seconds_bucket{method=\"Get\",le=\"0.1\"} 2\n"
                                 "t_duration_seconds_bucket{method=\"Get\",le=\"1\"} 4\n"
                                 "t_duration_seconds_bucket{method=\"Get\",le=\"10\"} 5\n"
                                 "t_duration_seconds_bucket{method=\"Get\",le=\"+Inf\"} 6\n"
                                 "t_duration_seconds_sum{method=\"Get\"} 21.65\n"
                                 "t_duration_seconds_count{method=\"Get\"} 6\n"));
    free(text);
    metric_observe(h, values[6]);
    assert_prints(*state, "le=\"+Inf\"} 7\n");
}

static void label_values_are_escaped_and_always_utf8(void **state) {
    metric_add(metrics_series(*state, "t_requests_total", "a\"b\\c\nd\x1f\xff\xc3\xa9"), 1);
    assert_prints(*state, "t_requests_total{service=\"a\\\"b\\\\c\\nd\",method=\"\xEF\xBF\xBD\xc3\xa9\"} 1\n");
    metric_add(metrics_series(*state, "t_requests_total", "only one"), 1);
    assert_prints(*state, "t_requests_total{service=\"only one\",method=\"\"} 1\n");
}

static void numbers_print_short_and_exact(void **state) {
    static const struct {
        double value;
        const char *text;
    } cases[] = {{1e6, "1000000"},   {123456789012345, "123456789012345"},
                 {0.1, "0.1"},       {1.0 / 3, "0.3333333333333333"},
                 {1e300, "1e+300"},  {NAN, "NaN"},
                 {INFINITY, "+Inf"}, {-INFINITY, "-Inf"},
                 {-2.5, "-2.5"}};
    struct metric *g = metrics_series(*state, "t_temperature_celsius", "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[80];
        metric_set(g, cases[i].value);
        assert_true(str_format(line, sizeof line, "\nt_temperature_celsius %s\n", cases[i].text));
        assert_prints(*state, line);
    }
}

static void series_are_bounded_and_a_dropped_one_makes_room(void **state) {
    struct metrics *m = *state;
    static const char *const names[] = {"a\x1f", "b\x1f", "c\x1f", "d\x1f"};
    for (int i = 0; i < 3; i++)
        assert_non_null(metrics_series(m, "t_requests_total", names[i]));
    assert_null(metrics_series(m, "t_requests_total", names[3]));
    assert_non_null(metrics_series(m, "t_requests_total", names[1])); /* the old ones are still found */
    assert_non_null(metrics_series(m, "t_duration_seconds", "x"));    /* the bound is per family */
    metrics_drop(m, "t_requests_total", names[1]);
    metrics_drop(m, "t_requests_total", names[1]); /* harmless */
    metrics_drop(m, "t_none", names[1]);
    assert_non_null(metrics_series(m, "t_requests_total", names[3]));
    char *text = printed(m);
    assert_null(strstr(text, "service=\"b\""));
    assert_non_null(strstr(text, "service=\"d\""));
    free(text);
    char longer[6000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_null(metrics_series(m, "t_duration_seconds", longer)); /* a value too long is refused, not cut */
}

static int count_of(struct metrics *m, const char *text) {
    struct str out;
    int n = 0;
    str_init(&out, 1 << 16);
    metrics_print(m, &out);
    for (const char *p = str_cstr(&out); (p = strstr(p, text)); p += strlen(text))
        n++;
    str_done(&out);
    return n;
}

/* Those of a model that serves no more, whoever has a pointer to them. */
static void hidden_series_come_back_with_their_next_update(void **state) {
    static const double edges[] = {1};
    static const struct metric_family models[] = {COUNTER("a_total", "A.", "model,device"),
                                                  HISTOGRAM("b_seconds", "B.", "device,model", edges), GAUGE("c", "C.", "other")};
    (void)state;
    struct metrics *m = metrics_new(models, 3, 8);
    struct metric *a = metrics_series(m, "a_total",
                                      "ward\x1f"
                                      "cpu"),
                  *b = metrics_series(m, "b_seconds",
                                      "cpu\x1f"
                                      "ward");
    metric_add(a, 2);
    metric_observe(b, 0.5);
    metric_add(metrics_series(m, "a_total",
                              "wards\x1f"
                              "ward"),
               1);
    metric_set(metrics_series(m, "c", "ward"), 1);
    assert_int_equal(count_of(m, "model=\"ward\""), 1 + 4);
    metrics_hide(m, "model", "ward");
    assert_int_equal(count_of(m, "model=\"ward\""), 0);
    assert_int_equal(count_of(m, "model=\"wards\""), 1);
    assert_int_equal(count_of(m, "other=\"ward\""), 1);
    metric_add(a, 3);
    assert_int_equal(count_of(m, "a_total{model=\"ward\",device=\"cpu\"} 5"), 1);
    assert_int_equal(count_of(m, "b_seconds"), 2); /* HELP and TYPE */
    metric_observe(b, 0.5);
    assert_int_equal(count_of(m, "b_seconds_count{device=\"cpu\",model=\"ward\"} 2"), 1);
    metrics_free(m);
}

static void an_unknown_or_full_family_is_ignored_by_updates(void **state) {
    struct metric *none = metrics_series(*state, "t_none", "");
    assert_null(none);
    metric_add(none, 1);
    metric_set(none, 1);
    metric_observe(none, 1);
    assert_true(isnan(metric_value(none)));
    metrics_free(NULL);
}

static void collect(void *ctx, const char *name, const char *labels, double value) {
    str_printf(ctx, "%s{%s}=%g;", name, labels, value);
}

static void a_visit_sees_the_samples_of_the_page(void **state) {
    struct str seen;
    str_init(&seen, 4096);
    metric_add(metrics_series(*state, "t_requests_total", "s\x1fm"), 2);
    metric_observe(metrics_series(*state, "t_duration_seconds", "m"), 0.5);
    metrics_visit(*state, collect, &seen);
    assert_string_equal(str_cstr(&seen), "t_requests_total{service=\"s\",method=\"m\"}=2;"
                                         "t_duration_seconds_bucket{method=\"m\",le=\"0.1\"}=0;"
                                         "t_duration_seconds_bucket{method=\"m\",le=\"1\"}=1;"
                                         "t_duration_seconds_bucket{method=\"m\",le=\"10\"}=1;"
                                         "t_duration_seconds_bucket{method=\"m\",le=\"+Inf\"}=1;"
                                         "t_duration_seconds_sum{method=\"m\"}=0.5;t_duration_seconds_count{method=\"m\"}=1;");
    str_done(&seen);
}

enum { THREADS = 4, ADDS = 500000 };

static pthread_barrier_t start;

static void *hammer(void *arg) {
    struct metrics *m = arg;
    pthread_barrier_wait(&start);
    struct metric *counter = metrics_series(m, "t_requests_total", "s\x1fm"), *h = metrics_series(m, "t_duration_seconds", "m");
    for (int i = 0; i < ADDS; i++) {
        metric_add(counter, 1);
        metric_observe(h, i % 2 ? 0.5 : 5);
    }
    return NULL;
}

static void updates_of_many_threads_are_not_lost(void **state) {
    pthread_t threads[THREADS];
    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, *state), 0);
    for (int i = 0; i < 50; i++)
        free(printed(*state)); /* while they change */
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    assert_prints(*state, "t_requests_total{service=\"s\",method=\"m\"} 2000000\n");
    assert_prints(*state, "t_duration_seconds_bucket{method=\"m\",le=\"1\"} 1000000\n");
    assert_prints(*state, "t_duration_seconds_sum{method=\"m\"} 5500000\n");
    assert_prints(*state, "t_duration_seconds_count{method=\"m\"} 2000000\n");
}

static void promtool_accepts_the_page(void **state) {
    if (system("command -v promtool >/dev/null 2>&1"))
        skip_because(SKIP_PACKAGE, "no promtool (Debian: prometheus)");
    struct metrics *m = *state;
    char path[] = "/tmp/brr-test-metrics-XXXXXX", command[200];
    metric_add(metrics_series(m, "t_requests_total", "a\"b\\c\nd\x1f\xff\xc3\xa9"), 1e300);
    metric_set(metrics_series(m, "t_temperature_celsius", ""), -INFINITY);
    metric_observe(metrics_series(m, "t_duration_seconds", "x y"), 0.25);
    int fd = mkstemp(path);
    char *text = printed(m);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    free(text);
    assert_true(str_format(command, sizeof command, "promtool check metrics <%s >&2", path));
    int status = system(command);
    unlink(path);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define on_registry(test) cmocka_unit_test_setup_teardown(test, make, drop)

int main(void) {
    const struct CMUnitTest tests[] = {
        on_registry(counters_and_gauges_print_one_line_per_series),
        on_registry(a_histogram_has_cumulative_buckets_sum_and_count),
        on_registry(label_values_are_escaped_and_always_utf8),
        on_registry(numbers_print_short_and_exact),
        on_registry(series_are_bounded_and_a_dropped_one_makes_room),
        cmocka_unit_test(hidden_series_come_back_with_their_next_update),
        on_registry(an_unknown_or_full_family_is_ignored_by_updates),
        on_registry(a_visit_sees_the_samples_of_the_page),
        on_registry(updates_of_many_threads_are_not_lost),
        on_registry(promtool_accepts_the_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
