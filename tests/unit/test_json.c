#include <locale.h>

#include "base/base.h"
#include "unit/temp_dir.h"

#include "base/json.h"
#include "skip.h"

static struct json *parsed(const char *text) {
    struct json *root = NULL;
    struct err err = {0};
    if (json_parse(text, strlen(text), "t", &root, &err))
        fail_msg("%s: %s", text, err.message);
    return root;
}

static void assert_refused(const char *text, size_t len, const char *why) {
    struct json *root = NULL;
    struct err err = {0};
    assert_int_equal(json_parse(text, len, "t.json", &root, &err), ERR_INVALID);
    assert_null(root);
    if (!strstr(err.message, why))
        fail_msg("'%s' is not in: %s", why, err.message);
}

/* The tree of a small text may take many times its bytes: its size is bounded before anything is allocated. */
static void a_document_has_at_most_so_many_nodes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t nodes;
    } cases[] = {{"7", 1}, {"[]", 4}, {"[1,2,3]", 6}, {"{\"a\":1}", 6}, {"[{},[]]", 12}, {"\"[,{:\\\",\"", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json *root = NULL;
        struct err err = {0};
        const size_t len = strlen(cases[i].text);
        assert_int_equal(json_parse_at_most(cases[i].text, len, cases[i].nodes - 1, "t.json", &root, &err), ERR_INVALID);
        assert_non_null(strstr(err.message, "nodes"));
        assert_int_equal(json_parse_at_most(cases[i].text, len, cases[i].nodes, "t.json", &root, &err), 0);
        json_free(root);
    }
    const size_t len = JSON_MAX_NODES;
    char *text = malloc(len);
    memset(text, '[', len);
    for (size_t i = 1; i < len; i++)
        text[i] = i % 3 == 1 ? '[' : i % 3 == 2 ? ']' : ',';
    assert_refused(text, len, "nodes");
    free(text);
}

static void a_tree_gives_its_members_in_order_and_by_name(void **state) {
    (void)state;
    struct json *root = parsed("{\"z\":1,\"a\":[true,null,2.5,\"x\"],\"m\":{\"k\":-9223372036854775808}}");
    const char *key = NULL;
    const struct json *value, *list = json_get(root, "a");
    struct json_cursor cursor = {0};
    assert_int_equal(json_kind(root), JSON_KIND_OBJECT);
    assert_int_equal(json_count(root), 3);
    static const char *const names[] = {"z", "a", "m"};
    for (size_t i = 0; i < 3; i++) {
        assert_true(json_next(root, &cursor, &key, &value));
        assert_string_equal(key, names[i]);
        assert_ptr_equal(value, json_get(root, names[i]));
    }
    assert_false(json_next(root, &cursor, &key, &value));
    assert_int_equal(json_count(list), 4);
    assert_true(json_bool(json_at(list, 0), false));
    assert_int_equal(json_kind(json_at(list, 1)), JSON_KIND_NULL);
    assert_true(json_f64(json_at(list, 2), 0) == 2.5);
    assert_string_equal(json_str(json_at(list, 3), ""), "x");
    assert_null(json_at(list, 4));
    assert_int_equal(json_i64(json_get(json_get(root, "m"), "k"), 0), INT64_MIN);
    json_free(root);
    json_free(NULL);
}

static void what_is_absent_or_of_another_type_gives_the_fallback(void **state) {
    (void)state;
    struct json *root = parsed("{\"s\":\"1\",\"i\":7,\"r\":7.0,\"b\":true}");
    assert_int_equal(json_i64(json_get(root, "s"), -1), -1);
    assert_int_equal(json_i64(json_get(root, "r"), -1), -1);
    assert_int_equal(json_i64(json_get(root, "none"), -1), -1);
    assert_true(json_f64(json_get(root, "i"), 0) == 7); /* integers are numbers */
    assert_true(json_f64(json_get(root, "s"), 3) == 3);
    assert_string_equal(json_str(json_get(root, "i"), "no"), "no");
    assert_true(json_bool(json_get(root, "i"), true));
    assert_false(json_bool(json_get(root, "s"), false));
    assert_null(json_get(json_get(root, "i"), "x"));
    assert_null(json_get(NULL, "x"));
    assert_int_equal(json_count(json_get(root, "s")), 0);
    assert_int_equal(json_kind(NULL), JSON_KIND_NULL);
    const char *key = "untouched";
    struct json_cursor cursor = {0};
    const struct json *value;
    assert_false(json_next(json_get(root, "i"), &cursor, &key, &value));
    assert_string_equal(key, "untouched");
    json_free(root);
}

static void broken_text_is_refused_with_its_place(void **state) {
    (void)state;
    assert_refused("{\"a\":1,\n \"a\":2}", 15, "t.json:2:");
    assert_refused("{\"a\":1,\n \"a\":2}", 15, "duplicate");
    assert_refused("", 0, "t.json:1:");
    assert_refused("{} x", 4, "t.json:1:");
    assert_refused("[1,]", 4, "t.json:1:");
    assert_refused("{'a':1}", 7, "t.json:1:");
    assert_refused("[nan]", 5, "t.json:1:");
    assert_refused("[1e999]", 7, "t.json:1:");
    assert_refused("[01]", 4, "t.json:1:");
    assert_refused("99999999999999999999", 20, "too big");
    assert_refused("\"\xff\"", 3, "t.json:1:");
    assert_refused("\"\\ud800\"", 8, "t.json:1:");
    assert_refused("\"a\\u0000b\"", 10, "t.json:1:");
    assert_refused("\"a\0b\"", 5, "t.json:1:");
    assert_refused("[1]\0", 4, "t.json:1:");
}

static void depth_ends_at_64(void **state) {
    (void)state;
    char text[200];
    for (int depth = 64; depth <= 65; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = '\0';
        if (depth == 64)
            json_free(parsed(text));
        else
            assert_refused(text, strlen(text), "deeper than 64");
    }
    char quoted[100] = "\"\\\""; /* brackets within a string, behind an escaped quote, are no depth */
    memset(quoted + 3, '[', 90);
    quoted[93] = '"';
    json_free(parsed(quoted));
}

static char *written(void (*write)(struct json_writer *w, const void *arg), const void *arg) {
    struct str out;
    struct json_writer w;
    str_init(&out, 1 << 16);
    json_writer_init(&w, &out);
    write(&w, arg);
    char *text = str_take(&out);
    assert_non_null(text);
    return text;
}

static void write_everything(struct json_writer *w, const void *arg) {
    (void)arg;
    json_begin_object(w, NULL);
    json_put_i64(w, "i", INT64_MIN);
    json_begin_array(w, "a");
    json_begin_object(w, NULL);
    json_end(w, '}');
    json_begin_array(w, NULL);
    json_end(w, ']');
    json_put_bool(w, NULL, true);
    json_put_bool(w, NULL, false);
    json_put_null(w, NULL);
    json_end(w, ']');
    json_begin_object(w, "o");
    json_put_str(w, "s", "x");
    json_put_str(w, "n", NULL);
    json_put_f64(w, "f", 0.1);
    json_end(w, '}');
    json_put_raw(w, "raw", "[1]");
    json_end(w, '}');
}

static void the_writer_places_commas_at_every_level(void **state) {
    (void)state;
    char *text = written(write_everything, NULL);
    assert_string_equal(text, "{\"i\":-9223372036854775808,\"a\":[{},[],true,false,null],\"o\":{\"s\":\"x\",\"n\":null,\"f\":0.1},"
                              "\"raw\":[1]}");
    json_free(parsed(text));
    free(text);
}

static void write_text(struct json_writer *w, const void *arg) {
    json_begin_object(w, NULL);
    json_put_str(w, arg, arg);
    json_end(w, '}');
}

static void text_is_escaped_where_json_wants_it(void **state) {
    (void)state;
    char *text = written(write_text, "q\" b\\ n\n t\t c\x01 r\r d\x7f µ𝄞 /");
    assert_non_null(strstr(text, "q\\\" b\\\\ n\\n t\\t c\\u0001 r\\u000d d\x7f µ𝄞 /"));
    struct json *root = parsed(text);
    assert_string_equal(json_str(json_get(root, "q\" b\\ n\n t\t c\x01 r\r d\x7f µ𝄞 /"), ""),
                        "q\" b\\ n\n t\t c\x01 r\r d\x7f µ𝄞 /");
    json_free(root);
    free(text);
}

static void bytes_that_are_no_utf8_become_the_replacement_character(void **state) {
    (void)state;
    static const char *const bad[] = {"\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *text = written(write_text, bad[i]);
        struct json *root = parsed(text);
        assert_int_equal(json_count(root), 1);
        assert_non_null(strstr(text, "\xEF\xBF\xBD"));
        json_free(root);
        free(text);
    }
}

/* Every byte in every position of a short text: the writer's output parses, always. */
static void any_bytes_make_valid_json(void **state) {
    (void)state;
    unsigned seed = 12345;
    for (int round = 0; round < 5000; round++) {
        char bytes[9];
        for (int i = 0; i < 8; i++) {
            seed = seed * 1664525u + 1013904223u;
            bytes[i] = (char)(seed >> 24 ? seed >> 24 : 1);
        }
        bytes[8] = '\0';
        char *text = written(write_text, bytes);
        json_free(parsed(text));
        free(text);
    }
}

static void write_number(struct json_writer *w, const void *arg) { json_put_f64(w, NULL, *(const double *)arg); }

static void reals_are_short_and_read_back_equal(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.1, "0.1"},
                 {1.0 / 3, "0.3333333333333333"},
                 {5, "5"},
                 {-0.0, "-0.0"},
                 {1e300, "1e+300"},
                 {NAN, "null"},
                 {INFINITY, "null"},
                 {0, "0"},
                 {-INFINITY, "null"},
                 {DBL_MAX, NULL},
                 {DBL_MIN, NULL},
                 {5e-324, NULL},
                 {0x1.fffffffffffffp-1, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = written(write_number, &cases[i].value);
        if (cases[i].text)
            assert_string_equal(text, cases[i].text);
        struct json *root = parsed(text);
        if (isfinite(cases[i].value))
            assert_true(json_f64(root, NAN) == cases[i].value);
        else
            assert_int_equal(json_kind(root), JSON_KIND_NULL);
        json_free(root);
        free(text);
    }
}

static void reals_have_a_point_in_any_locale(void **state) {
    double value = 2.25;
    char command[512];
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s' 2>/dev/null", in_dir(state, "de_DE.UTF-8"));
    if (system(command))
        skip_because(SKIP_PACKAGE, "no German locale can be made (Debian: locales)");
    setenv("LOCPATH", *state, 1);
    assert_non_null(setlocale(LC_NUMERIC, "de_DE.UTF-8"));
    assert_string_equal(localeconv()->decimal_point, ",");
    char *text = written(write_number, &value);
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    assert_string_equal(text, "2.25");
    free(text);
}

static void a_text_that_overflows_its_bound_is_remembered_not_cut_silently(void **state) {
    (void)state;
    struct str out;
    struct json_writer w;
    str_init(&out, 10);
    json_writer_init(&w, &out);
    json_put_str(&w, NULL, "longer than ten bytes");
    assert_false(str_ok(&out));
    assert_null(str_take(&out));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_has_at_most_so_many_nodes),
        cmocka_unit_test(a_tree_gives_its_members_in_order_and_by_name),
        cmocka_unit_test(what_is_absent_or_of_another_type_gives_the_fallback),
        cmocka_unit_test(broken_text_is_refused_with_its_place),
        cmocka_unit_test(depth_ends_at_64),
        cmocka_unit_test(the_writer_places_commas_at_every_level),
        cmocka_unit_test(text_is_escaped_where_json_wants_it),
        cmocka_unit_test(bytes_that_are_no_utf8_become_the_replacement_character),
        cmocka_unit_test(any_bytes_make_valid_json),
        cmocka_unit_test(reals_are_short_and_read_back_equal),
        in_temp_dir(reals_have_a_point_in_any_locale),
        cmocka_unit_test(a_text_that_overflows_its_bound_is_remembered_not_cut_silently),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
