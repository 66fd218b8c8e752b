/* Packed state: what was written is read back, and everything else is refused. */

#include "base/pack.h"
#include "unit/cmocka_all.h"

static void values_come_back_as_they_were(void **state) {
    (void)state;
    struct str s;
    char text[16];
    uint16_t rows[3] = {1, 2, 65535}, back[3];
    size_t len;
    str_init(&s, 1 << 16);
    pack_i64(&s, INT64_MIN);
    pack_i64(&s, 1);
    pack_f64(&s, -0.0);
    pack_bytes(&s, rows, sizeof rows);
    pack_bytes(&s, NULL, 0);
    pack_text(&s, "Fp1");
    struct unpack u = unpack_of(s.data, s.len);
    assert_true(unpack_i64(&u, INT64_MIN, INT64_MAX) == INT64_MIN);
    assert_true(unpack_bool(&u));
    double zero = unpack_f64(&u);
    assert_true(zero == 0 && signbit(zero));
    unpack_bytes(&u, back, sizeof back);
    assert_memory_equal(rows, back, sizeof rows);
    unpack_view(&u, 100, &len);
    assert_int_equal(len, 0);
    assert_false(unpack_done(&u));
    unpack_text(&u, text, sizeof text);
    assert_string_equal(text, "Fp1");
    assert_true(unpack_done(&u));
    str_done(&s);
}

static void every_cut_is_noticed(void **state) {
    (void)state;
    struct str s;
    char text[16];
    str_init(&s, 1 << 16);
    pack_i64(&s, 7);
    pack_text(&s, "left chain");
    for (size_t len = 0; len < s.len; len++) {
        struct unpack u = unpack_of(s.data, len);
        unpack_i64(&u, 0, 10);
        unpack_text(&u, text, sizeof text);
        assert_false(unpack_done(&u));
        assert_true(u.failed);
        assert_string_equal(text, "");
    }
    str_done(&s);
}

static void wrong_values_fail_and_stay_failed(void **state) {
    (void)state;
    struct str s;
    char text[4], bytes[8];
    size_t len;
    str_init(&s, 1 << 16);
    pack_i64(&s, 11);
    pack_i64(&s, 11);
    pack_text(&s, "abcd");
    pack_bytes(&s, "a\0b", 3);
    struct unpack whole = unpack_of(s.data, s.len), u = whole;
    assert_int_equal(unpack_i64(&u, 0, 10), 0);
    assert_true(u.failed);
    assert_int_equal(unpack_i64(&u, 0, 100), 0); /* sticky */
    u = whole;
    unpack_same(&u, 12);
    assert_true(u.failed);
    u = whole;
    unpack_same(&u, 11);
    assert_true(!u.failed);
    assert_false(unpack_bool(&u)); /* 11 is neither */
    assert_true(u.failed);
    u = unpack_of(s.data + 16, s.len - 16);
    unpack_text(&u, text, sizeof text); /* no room for the NUL */
    assert_true(u.failed);
    u = unpack_of(s.data + 16, s.len - 16);
    memset(bytes, 1, sizeof bytes);
    unpack_bytes(&u, bytes, 5); /* four were packed */
    assert_true(u.failed && bytes[0] == 0);
    u = unpack_of(s.data + 16, s.len - 16);
    unpack_view(&u, 100, &len);
    unpack_text(&u, text, sizeof text); /* a NUL inside */
    assert_true(u.failed);
    u = whole;
    unpack_require(&u, 1 + 1 == 3);
    assert_true(u.failed);
    str_done(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back_as_they_were),
        cmocka_unit_test(every_cut_is_noticed),
        cmocka_unit_test(wrong_values_fail_and_stay_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
