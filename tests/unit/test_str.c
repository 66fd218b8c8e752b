#include <locale.h>

#include "unit/cmocka_all.h"

static void appending_grows_and_stays_terminated(void **state) {
    (void)state;
    struct str s;
    str_init(&s, 10000);
    assert_string_equal(str_cstr(&s), "");
    for (int i = 0; i < 1000; i++)
        str_printf(&s, "%03d,", i);
    assert_int_equal(s.len, 4000);
    assert_true(str_ok(&s));
    assert_memory_equal(str_cstr(&s) + 4 * 777, "777,", 4);
    str_clear(&s);
    assert_string_equal(str_cstr(&s), "");
    str_append(&s, "a\0b", 3);
    assert_int_equal(s.len, 3);
    str_append(&s, NULL, 0);
    str_printf(&s, "%2000d", 5); /* longer than the small buffer */
    assert_int_equal(s.len, 2003);
    str_done(&s);
}

static void overflow_keeps_what_fitted_and_is_remembered(void **state) {
    (void)state;
    struct str s;
    str_init(&s, 5);
    str_puts(&s, "abc");
    str_puts(&s, "defg");
    assert_false(str_ok(&s));
    assert_string_equal(str_cstr(&s), "abcde");
    str_puts(&s, "x");
    assert_string_equal(str_cstr(&s), "abcde");
    assert_null(str_take(&s));
    assert_true(str_ok(&s)); /* empty again */
    str_puts(&s, "12345");
    assert_true(str_ok(&s));
    char *text = str_take(&s);
    assert_string_equal(text, "12345");
    free(text);
    text = str_take(&s);
    assert_string_equal(text, "");
    free(text);
}

static void copies_say_whether_they_fitted(void **state) {
    (void)state;
    char buf[4];
    assert_true(str_copy(buf, sizeof buf, "abc"));
    assert_string_equal(buf, "abc");
    assert_false(str_copy(buf, sizeof buf, "abcd"));
    assert_string_equal(buf, "abc");
    assert_true(str_format(buf, sizeof buf, "%d", 123));
    assert_false(str_format(buf, sizeof buf, "%d", 1234));
    assert_string_equal(buf, "123");
    assert_true(str_starts("file:///x", "file://") && !str_starts("fil", "file") && str_starts("x", ""));
    assert_true(str_ends("a.edf", ".edf") && !str_ends("edf", ".edf") && str_ends("x", ""));
    assert_true(str_ends_nocase("a.EDF", ".edf") && !str_ends_nocase("edf", ".edf") && !str_ends("a.EDF", ".edf"));
}

static void only_addresses_of_this_machine_are_loopback(void **state) {
    static const char *const own[] = {"127.0.0.1:7000", "127.8.9.10:1", "localhost:7000", "[::1]:7000"},
                             *const other[] = {"127.evil.example:7000",
                                               "127.0.0.1.evil.example:7000",
                                               "localhost.evil.example:7000",
                                               "0.0.0.0:7000",
                                               "[::]:7000",
                                               "127.0.0.1",
                                               "1270.0.0.1:7000",
                                               "[::1].evil.example:7000",
                                               ":7000"};
    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_true(str_is_loopback(own[i]));
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        assert_false(str_is_loopback(other[i]));
    assert_true(str_url_is_loopback("http://127.0.0.1:8/a@b") && str_url_is_loopback("smtp://localhost") &&
                str_url_is_loopback("http://[::1]:8?x") && str_url_is_loopback("http://[::1]/"));
    assert_false(str_url_is_loopback("smtp://localhost:x@other.example") ||
                 str_url_is_loopback("http://localhost.other.example/") ||
                 str_url_is_loopback("http://other.example/://localhost:1") || str_url_is_loopback("localhost:1"));
}

static void texts_are_cut_between_characters(void **state) {
    (void)state;
    static const char text[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z"; /* 1, 2, 3 and 4 bytes, and 1 */
    static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    for (size_t size = 1; size <= sizeof text; size++) {
        char copy[sizeof text], formatted[sizeof text];
        assert_int_equal(str_copy(copy, size, text), size == sizeof text);
        assert_int_equal(str_format(formatted, size, "%s", text), size == sizeof text);
        assert_int_equal(strlen(copy), whole[size - 1]);
        assert_string_equal(copy, formatted);
    }
    char broken[] = "\xa4\xa4\xa4\xa4", empty[] = ""; /* no character at all: nothing to look for */
    str_cut_utf8(broken);
    assert_int_equal(strlen(broken), 4);
    str_cut_utf8(empty);
}

static void whole_numbers_parse_whole_or_not_at_all(void **state) {
    (void)state;
    int64_t i = 77;
    uint64_t u = 77;
    static const char *const bad[] = {"", " 1", "1 ", "1x", "0x10", "--1", "+", "-", "1.0", "9223372036854775808"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_false(str_to_i64(bad[k], &i));
    assert_int_equal(i, 77);
    assert_true(str_to_i64("-9223372036854775808", &i) && i == INT64_MIN);
    assert_true(str_to_i64("+12", &i) && i == 12);
    assert_true(str_to_u64("18446744073709551615", &u) && u == UINT64_MAX);
    u = 77;
    assert_false(str_to_u64("18446744073709551616", &u) || str_to_u64("-1", &u) || str_to_u64("+1", &u) || str_to_u64("", &u));
    assert_int_equal(u, 77);
}

static void reals_parse_finite_only_with_a_point_in_any_locale(void **state) {
    (void)state;
    static const char *const bad[] = {"", "nan", "inf", "-inf", "1e999", " 1", "1 ", "0x1p3", ".", "e5", "1,5", "1.5.2", "--1"};
    double d = 77;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_false(str_to_f64(bad[k], &d));
    assert_true(d == 77);
    assert_true(str_to_f64("-1.5e-3", &d) && d == -1.5e-3);
    assert_true(str_to_f64(".5", &d) && d == 0.5);
    assert_true(str_to_f64("0", &d) && d == 0);
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") || setlocale(LC_NUMERIC, "de_DE.utf8"))
        assert_true(str_to_f64("2.25", &d) && d == 2.25);
    setlocale(LC_NUMERIC, "C");
}

static void durations_and_sizes_have_units(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } durations[] = {{"90s", 90000},    {"15m", 900000}, {"24h", 86400000}, {"90d", 7776000000},
                     {"1.5h", 5400000}, {"250ms", 250},  {"0", 0},          {"0.0005s", 1}};
    static const struct {
        const char *text;
        int64_t bytes;
    } sizes[] = {{"512MiB", 512 << 20}, {"2TB", 2000000000000}, {"10GB", 10000000000},
                 {"123", 123},          {"1KiB", 1024},         {"1.5kB", 1500}};
    static const char *const bad[] = {"", "s", "-1s", "5 s", "5S", "1e30d", "nan", "5MiBs", "none"};
    int64_t v = -7;
    assert_false(str_to_duration_ms("30", &v)); /* seconds, or minutes? */
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
        assert_true(str_to_duration_ms(durations[i].text, &v));
        assert_int_equal(v, durations[i].ms);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_true(str_to_bytes(sizes[i].text, &v));
        assert_int_equal(v, sizes[i].bytes);
    }
    v = -7;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(str_to_duration_ms(bad[i], &v) || str_to_bytes(bad[i], &v));
    assert_int_equal(v, -7);
}

static void distance_counts_edits_up_to_its_cap(void **state) {
    (void)state;
    char big[200];
    memset(big, 'q', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    assert_int_equal(str_distance("", ""), 0);
    assert_int_equal(str_distance("kitten", "sitting"), 3);
    assert_int_equal(str_distance("batch_size", "batchsize"), 1);
    assert_int_equal(str_distance("abc", ""), 3);
    assert_int_equal(str_distance("", "abc"), 3);
    assert_int_equal(str_distance("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "b"), 32);
    assert_int_equal(str_distance(big, "x"), 32);
}

static void utf8_steps_over_valid_characters_only(void **state) {
    (void)state;
    assert_int_equal(str_utf8_step(""), 0);
    assert_int_equal(str_utf8_step("a"), 1);
    assert_int_equal(str_utf8_step("\xC3\xA9"), 2);
    assert_int_equal(str_utf8_step("\xE2\x82\xAC"), 3);
    assert_int_equal(str_utf8_step("\xF0\x9F\x98\x80"), 4);
    static const char *const bad[] = {"\x80",
                                      "\xC3",
                                      "\xC3(",
                                      "\xC0\x80",
                                      "\xC1\xBF",
                                      "\xE0\x80\x80",
                                      "\xED\xA0\x80",
                                      "\xE2\x82",
                                      "\xF0\x80\x80\x80",
                                      "\xF4\x90\x80\x80",
                                      "\xF5\x80\x80\x80",
                                      "\xFF"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(str_utf8_step(bad[i]), 0);
}

static void lists_are_cut_behind_an_item(void **state) {
    (void)state;
    static const struct {
        const char *list;
        size_t room;
        const char *wanted;
    } cases[] = {{"", 20, ""},
                 {"a, b, c", 20, "a, b, c"},
                 {"a, b, c", 7, "a, b, c"},
                 {"first, second, third, fourth", 27, "first, second and 2 more"},
                 {"first, second, third, fourth", 28, "first, second, third, fourth"},
                 {"one item that is too long, b", 10, "one item that is too long and 1 more"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str s;
        str_init(&s, 100);
        str_put_list(&s, cases[i].list, ", ", cases[i].room);
        assert_string_equal(str_cstr(&s), cases[i].wanted);
        str_done(&s);
    }
}

static void no_text_is_written_as_nothing(void **state) {
    (void)state;
    unsetenv("BRR_STOP_AT_NULL"); // NOLINT(concurrency-mt-unsafe): no other thread
    const char *volatile none = NULL;
    struct str s;
    str_init(&s, 4096);
    str_printf(&s, "%d%% %s|%-5.3s|%*d %lld %zu %.2f %c %s", 7, none, "(null)", 3, 1, 2LL, (size_t)3, 0.5, 'c', none);
    assert_string_equal(str_cstr(&s), "7% |(nu  |  1 2 3 0.50 c ");
    str_clear(&s);
    str_printf(&s, "%s", "(null)"); /* a text of that name stays */
    assert_string_equal(str_cstr(&s), "(null)");
    str_clear(&s);
    str_printf(&s, "%600d%s", 1, none);
    assert_int_equal(s.len, 600);
    str_done(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appending_grows_and_stays_terminated),
        cmocka_unit_test(overflow_keeps_what_fitted_and_is_remembered),
        cmocka_unit_test(copies_say_whether_they_fitted),
        cmocka_unit_test(only_addresses_of_this_machine_are_loopback),
        cmocka_unit_test(texts_are_cut_between_characters),
        cmocka_unit_test(whole_numbers_parse_whole_or_not_at_all),
        cmocka_unit_test(reals_parse_finite_only_with_a_point_in_any_locale),
        cmocka_unit_test(durations_and_sizes_have_units),
        cmocka_unit_test(distance_counts_edits_up_to_its_cap),
        cmocka_unit_test(lists_are_cut_behind_an_item),
        cmocka_unit_test(utf8_steps_over_valid_characters_only),
        cmocka_unit_test(no_text_is_written_as_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
