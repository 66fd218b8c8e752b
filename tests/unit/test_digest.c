#include "base/base.h"
#include "unit/temp_dir.h"

#include "store/digest.h"

/* FIPS 180-4 examples. */
static const char empty_sum[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
static const char abc_sum[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
static const char million_a_sum[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

static void bytes_have_the_published_sums(void **state) {
    (void)state;
    char hex[DIGEST_HEX_SIZE];
    assert_true(digest_bytes("", 0, hex));
    assert_string_equal(hex, empty_sum);
    assert_true(digest_bytes(NULL, 0, hex));
    assert_string_equal(hex, empty_sum);
    assert_true(digest_bytes("abc", 3, hex));
    assert_string_equal(hex, abc_sum);
}

static void pieces_of_any_size_give_the_sum_of_the_whole(void **state) {
    (void)state;
    char a[1000], hex[DIGEST_HEX_SIZE];
    memset(a, 'a', sizeof a);
    struct digest *d = digest_new();
    assert_non_null(d);
    size_t fed = 0;
    for (size_t n = 0; fed < 1000000; n = (n * 7 + 13) % 997) {
        size_t piece = n < 1000000 - fed ? n : 1000000 - fed;
        digest_update(d, a, piece);
        fed += piece;
    }
    assert_true(digest_finish(d, hex));
    assert_string_equal(hex, million_a_sum);
}

static void no_digest_gives_an_empty_text_never_a_wrong_one(void **state) {
    (void)state;
    char hex[DIGEST_HEX_SIZE] = "x";
    digest_update(NULL, "abc", 3);
    assert_false(digest_finish(NULL, hex));
    assert_string_equal(hex, "");
}

static void a_file_has_the_sum_of_its_bytes_over_many_blocks(void **state) {
    enum { SIZE = 3 * (1 << 20) + 17 };
    char *data = malloc(SIZE), want[DIGEST_HEX_SIZE], hex[DIGEST_HEX_SIZE] = "untouched";
    struct err err = {0};
    assert_non_null(data);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (char)(i * 2654435761u >> 13);
    put_file(in_dir(state, "big"), data, SIZE);
    assert_true(digest_bytes(data, SIZE, want));
    assert_int_equal(digest_file(in_dir(state, "none"), hex, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "/none"));
    assert_int_not_equal(digest_file(*state, hex, &err), 0); /* a directory */
    assert_string_equal(hex, "untouched");
    assert_int_equal(digest_file(in_dir(state, "big"), hex, &err), 0);
    assert_string_equal(hex, want);
    put_file(in_dir(state, "empty"), "", 0);
    assert_int_equal(digest_file(in_dir(state, "empty"), hex, &err), 0);
    assert_string_equal(hex, empty_sum);
    free(data);
}

static void a_fifo_is_refused_without_waiting_for_a_writer(void **state) {
    char hex[DIGEST_HEX_SIZE];
    assert_int_equal(mkfifo(in_dir(state, "fifo"), 0600), 0);
    assert_int_equal(digest_file(in_dir(state, "fifo"), hex, NULL), ERR_INVALID);
}

static void only_64_lower_case_hex_digits_are_a_digest(void **state) {
    (void)state;
    char text[80];
    assert_true(digest_is_hex(abc_sum));
    assert_false(digest_is_hex(""));
    assert_false(digest_is_hex(abc_sum + 1));
    assert_true(str_format(text, sizeof text, "%s0", abc_sum));
    assert_false(digest_is_hex(text));
    static const char wrong[] = {'A', 'g', ' ', '/', '\n', '.'};
    for (size_t i = 0; i < sizeof wrong; i++) {
        str_copy(text, sizeof text, abc_sum);
        text[63] = wrong[i];
        assert_false(digest_is_hex(text));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_have_the_published_sums),
        cmocka_unit_test(pieces_of_any_size_give_the_sum_of_the_whole),
        cmocka_unit_test(no_digest_gives_an_empty_text_never_a_wrong_one),
        in_temp_dir(a_file_has_the_sum_of_its_bytes_over_many_blocks),
        in_temp_dir(a_fifo_is_refused_without_waiting_for_a_writer),
        cmocka_unit_test(only_64_lower_case_hex_digits_are_a_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
