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

struct both {
    char text[8];
    double real;
    float narrow;
    bool yes;
    int64_t count;
    int small;
    uint16_t rows[2];
};

/* What one function writes, it reads; its bytes are those of the calls for one direction. */
static void both(struct packer *p, struct both *b) {
    PACKED_MEMBERS(p, *b, text, real, narrow, yes);
    PACKED_COUNTS(p, *b, count);
    PACKED(p, b->small, -3, 3);
    packed_bytes(p, b->rows, sizeof b->rows);
    packed_same(p, 7);
    packed_require(p, b->small != 2);
}

static void one_function_writes_and_reads(void **state) {
    (void)state;
    struct both b = {"Fp1", 0.25, 1.5F, true, 9, -2, {1, 65535}}, back = {.real = 1};
    struct str one = str_of(1 << 10), two = str_of(1 << 10);
    both(&(struct packer){.to = &one}, &b);
    PACK(&two, b, text, real, narrow, yes, count, small);
    pack_bytes(&two, b.rows, sizeof b.rows);
    pack_i64(&two, 7);
    assert_int_equal(one.len, two.len);
    assert_memory_equal(one.data, two.data, one.len);
    struct packer p = {.from = unpack_of(one.data, one.len)};
    both(&p, &back);
    assert_true(unpack_done(&p.from));
    assert_string_equal(back.text, b.text);
    assert_true(back.real == b.real && back.narrow == b.narrow && back.yes && back.count == 9 && back.small == -2);
    assert_memory_equal(back.rows, b.rows, sizeof b.rows);
    for (size_t len = 0; len < one.len; len++) {
        p.from = unpack_of(one.data, len);
        both(&p, &back);
        assert_true(p.from.failed);
    }
    str_done(&one);
    str_done(&two);
}

static void limits_hold_for_what_is_read(void **state) {
    (void)state;
    struct both back;
    const struct both wrong[] = {{.small = 4}, {.count = -1}, {.small = 2}, {.count = PACKED_FAR + 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct str s = str_of(1 << 10);
        struct both b = wrong[i];
        struct packer to = {.to = &s};
        both(&to, &b);
        assert_true(str_ok(&s) && !to.from.failed && !memcmp(&b, &wrong[i], sizeof b)); /* written as it is */
        struct packer p = {.from = unpack_of(s.data, s.len)};
        both(&p, &back);
        assert_true(p.from.failed);
        str_done(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back_as_they_were),     cmocka_unit_test(every_cut_is_noticed),
        cmocka_unit_test(wrong_values_fail_and_stay_failed), cmocka_unit_test(one_function_writes_and_reads),
        cmocka_unit_test(limits_hold_for_what_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
