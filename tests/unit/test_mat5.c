/* MAT files whose compressed variables say that they are long, or go on beyond what they say: refused before memory, time or a disk
 * is spent on them. */
#include <zlib.h>

#include "formats/mat5.h"
#include "unit/cmocka_all.h"

enum { MOST = 1 << 20, HEAD = 128, BODY = 56 };

static uint8_t file[MOST];
static size_t file_len;

static void put_u32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static void begin(void) {
    memset(file, ' ', HEAD);
    memcpy(file, "MATLAB 5.0", 10);
    memcpy(file + 124, "\0\1IM", 4);
    file_len = HEAD;
}

/* A compressed array x of n bytes (zeros), whose own tag and whose numbers' tag state these lengths. */
static void add_array(uint32_t n, uint32_t stated, uint32_t stated_numbers) {
    uint8_t *plain = calloc(1, BODY + 8 + n);
    uLongf packed = MOST - file_len - 8;
    assert_non_null(plain);
    const uint32_t words[] = {14, stated, 6, 8, 9, 0, 5, 8, 1, n, 1 | 1 << 16, 'x', 2, stated_numbers};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        put_u32(plain + 4 * i, words[i]);
    assert_int_equal(compress(file + file_len + 8, &packed, plain, BODY + n), Z_OK);
    put_u32(file + file_len, 15);
    put_u32(file + file_len + 4, (uint32_t)packed);
    file_len += 8 + packed;
    free(plain);
}

static int read_file(struct err *err) {
    struct filebytes bytes;
    struct arena arena;
    struct mat_value value;
    filebytes_init(&bytes, "x.set");
    bytes.memory = file;
    bytes.len = file_len;
    arena_init(&arena, (size_t)64 << 20);
    int rc = mat_read(&bytes, NULL, &arena, &value, err);
    if (!rc)
        assert_int_equal(mat_field(&value, 0, "x")->place.bytes, mat_field(&value, 0, "x")->n);
    arena_done(&arena);
    return rc;
}

static void refused(const char *what) {
    struct err err;
    assert_int_equal(read_file(&err), ERR_INVALID);
    if (!strstr(err.message, what))
        fail_msg("'%s' does not say '%s'", err.message, what);
}

static void zeros_compress_well(void **state) {
    (void)state;
    struct err err;
    begin();
    add_array(16 << 20, (16 << 20) + BODY - 8, 16 << 20);
    if (read_file(&err))
        fail_msg("%s", err.message);
}

static void variables_that_state_more_than_a_file_may_inflate_to(void **state) {
    (void)state;
    begin();
    add_array(64, 0xFFFFFF00, 64);
    refused("its compressed variables inflate to 4294967040 bytes; expected at most");
    begin();
    for (int i = 0; i < 5; i++) /* each is short enough */
        add_array(16 << 20, (16 << 20) + BODY - 8, 16 << 20);
    refused("its compressed variables inflate to 83886320 bytes");
}

static void numbers_beyond_the_length_of_their_array(void **state) {
    (void)state;
    begin();
    add_array(1 << 20, 4096, 1 << 20);
    refused("longer than its length");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeros_compress_well),
        cmocka_unit_test(variables_that_state_more_than_a_file_may_inflate_to),
        cmocka_unit_test(numbers_beyond_the_length_of_their_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
