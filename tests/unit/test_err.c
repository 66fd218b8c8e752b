#include "unit/cmocka_all.h"

static void every_code_is_its_negated_grpc_number_and_has_a_word(void **state) {
    (void)state;
    assert_string_equal(err_name(ERR_OK), "ok");
    assert_int_equal(ERR_CANCELLED, -1);
    assert_int_equal(ERR_UNAUTHENTICATED, -16);
    int n = 0;
#define CHECK(name, grpc, text)                                                                                                    \
    assert_int_equal(ERR_##name, -(grpc));                                                                                         \
    assert_string_equal(err_name(ERR_##name), text);                                                                               \
    n++;
    ERR_MAP(CHECK)
#undef CHECK
    assert_int_equal(n, 16);
    assert_string_equal(err_name(-99), "unknown");
    assert_string_equal(err_name(7), "unknown");
}

static void set_returns_the_code_and_records_where(void **state) {
    (void)state;
    struct err err = {.cause = "stale"};
    int line = __LINE__ + 1;
    int rc = err_set(&err, ERR_RANGE, "channel %d of %s", 7, "a.edf");
    char origin[48];
    snprintf(origin, sizeof origin, "test_err.c:%d", line);
    assert_int_equal(rc, ERR_RANGE);
    assert_int_equal(err.code, ERR_RANGE);
    assert_string_equal(err.message, "channel 7 of a.edf");
    assert_string_equal(err.origin, origin);
    assert_string_equal(err.cause, "");
}

static void no_struct_gives_the_code_alone(void **state) {
    (void)state;
    assert_int_equal(err_set(NULL, ERR_ABORTED, "x"), ERR_ABORTED);
    assert_int_equal(err_errno(NULL, ENOENT, "x"), ERR_NOT_FOUND);
    assert_int_equal(err_wrap(NULL, "x"), ERR_UNKNOWN);
}

static void errno_picks_the_code_and_appends_the_reason(void **state) {
    (void)state;
    static const struct {
        int errnum, code;
    } cases[] = {{ENOENT, ERR_NOT_FOUND}, {ENOSPC, ERR_EXHAUSTED}, {EACCES, ERR_DENIED}, {EEXIST, ERR_EXISTS}, {EIO, ERR_INTERNAL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        assert_int_equal(err_errno(&err, cases[i].errnum, "cannot open %s", "f"), cases[i].code);
        assert_non_null(strstr(err.message, "cannot open f: "));
        assert_non_null(strstr(err.message, strerror(cases[i].errnum)));
    }
    struct err err = {0};
    err_errno(&err, ENOSPC, "cannot write f");
    assert_non_null(strstr(err.message, "free some space"));
}

static void a_full_volume_is_told_from_a_full_cache_until_the_error_is_set_anew(void **state) {
    (void)state;
    struct err err = {0};
    err_errno(&err, ENOSPC, "cannot write f");
    assert_int_equal(err.room, ERR_ROOM_NONE);
    assert_int_equal(err_in_cache(&err), ERR_EXHAUSTED);
    err_wrap(&err, "job 3");
    assert_int_equal(err.room, ERR_ROOM_NONE_IN_CACHE);
    err_errno(&err, EACCES, "cannot write f");
    assert_int_equal(err_in_cache(&err), ERR_DENIED);
    assert_int_equal(err.room, ERR_ROOM_ENOUGH);
    err_errno(&err, EDQUOT, "cannot write f");
    err_set(&err, ERR_EXHAUSTED, "out of memory");
    err_in_cache(&err);
    assert_int_equal(err.room, ERR_ROOM_ENOUGH);
}

static void wrapping_keeps_code_and_origin_and_makes_the_old_message_the_cause(void **state) {
    (void)state;
    struct err err = {0};
    char text[800];
    err_set(&err, ERR_DATA_LOSS, "short read");
    struct err before = err;
    assert_int_equal(err_wrap(&err, "cannot load %s", "m"), ERR_DATA_LOSS);
    assert_string_equal(err.message, "cannot load m");
    assert_string_equal(err.cause, "short read");
    assert_string_equal(err.origin, before.origin);
    assert_string_equal(err_text(&err, text, sizeof text), "cannot load m (short read)");
    err_wrap(&err, "job 3: %s", err.message); /* an argument inside the struct itself */
    assert_string_equal(err.message, "job 3: cannot load m");
    assert_string_equal(err.cause, "cannot load m: short read");
}

static void long_texts_are_cut_and_terminated(void **state) {
    (void)state;
    struct err err;
    char big[2000], small[8];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    for (int i = 0; i < 4; i++) {
        err_set(&err, ERR_INVALID, "%s", big);
        err_wrap(&err, "%s", big);
        err_wrap(&err, "%s", big);
        err_errno(&err, EIO, "%s", big);
        assert_non_null(memchr(err.message, 0, sizeof err.message));
        assert_non_null(strstr(err.message, strerror(EIO))); /* the reason survives */
    }
    assert_int_equal(strlen(err_text(&err, small, sizeof small)), sizeof small - 1);
}

static void a_file_is_named_once(void **state) {
    (void)state;
    struct err err;
    char text[600];
    err_set(&err, ERR_INVALID, "/data/x.edf: no EDF");
    assert_int_equal(err_of_file(&err, "/data/x.edf", "x.edf"), ERR_INVALID);
    assert_string_equal(err_text(&err, text, sizeof text), "x.edf (no EDF)");
    err_set(&err, ERR_INVALID, "/data/x.edf has 3 bytes");
    err_of_file(&err, "/data/x.edf", "x.edf");
    assert_string_equal(err_text(&err, text, sizeof text), "x.edf (has 3 bytes)");
    err_set(&err, ERR_INVALID, "/data/x.edf_annotations.edf: no EDF");
    err_of_file(&err, "/data/x.edf", "x.edf");
    assert_string_equal(err_text(&err, text, sizeof text), "x.edf (/data/x.edf_annotations.edf: no EDF)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_is_its_negated_grpc_number_and_has_a_word),
        cmocka_unit_test(a_file_is_named_once),
        cmocka_unit_test(set_returns_the_code_and_records_where),
        cmocka_unit_test(no_struct_gives_the_code_alone),
        cmocka_unit_test(errno_picks_the_code_and_appends_the_reason),
        cmocka_unit_test(a_full_volume_is_told_from_a_full_cache_until_the_error_is_set_anew),
        cmocka_unit_test(wrapping_keeps_code_and_origin_and_makes_the_old_message_the_cause),
        cmocka_unit_test(long_texts_are_cut_and_terminated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
