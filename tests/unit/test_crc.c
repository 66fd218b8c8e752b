/* Checksums of S3 servers: values of the catalogue, by folding and by tables, in pieces and joined. */

#include "store/crc.h"
#include "unit/cmocka_all.h"

enum { SIZE = 5000 };

static uint64_t sum_of(enum crc_kind kind, bool plain, const void *data, size_t len) {
    struct crc *c = crc_new(kind, plain);
    assert_non_null(c);
    crc_update(c, data, len);
    return crc_finish(c);
}

/* The "check" column of the catalogue (nine digits), and 32 zero bytes, whose CRC-32C RFC 3720 B.4 gives. */
static void published_values_come_out(void **state) {
    static const uint64_t digits[CRC_KINDS] = {0xae8b14860a799888, 0xe3069283, 0xcbf43926};
    const char zeros[32] = {0};
    (void)state;
    for (int kind = 0; kind < CRC_KINDS; kind++)
        for (int plain = 0; plain < 2; plain++) {
            assert_int_equal(sum_of(kind, plain, "123456789", 9), digits[kind]);
            assert_int_equal(sum_of(kind, plain, "", 0), 0);
        }
    assert_int_equal(sum_of(CRC_32C, false, zeros, sizeof zeros), 0x8a9136aa);
}

static void fill(unsigned char data[SIZE]) {
    uint32_t random = 1;
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (unsigned char)((random = random * 1664525u + 1013904223u) >> 24);
}

/* One bit after the other, as the definition has it. */
static uint64_t slow(uint64_t polynomial, int bits, const unsigned char *data, size_t len) {
    uint64_t ones = ~(uint64_t)0 >> (64 - bits), sum = ones;
    for (size_t i = 0; i < 8 * len; i++) {
        uint64_t out = (sum ^ data[i / 8] >> i % 8) & 1;
        sum = sum >> 1 ^ (out ? polynomial : 0);
    }
    return sum ^ ones;
}

static void every_length_has_the_sum_of_the_definition_by_either_way(void **state) {
    static const uint64_t polynomials[CRC_KINDS] = {0x9a6c9329ac4bc9b5, 0x82f63b78, 0xedb88320};
    unsigned char data[SIZE];
    (void)state;
    fill(data);
    for (int kind = 0; kind < CRC_KINDS; kind++)
        for (size_t len = 0; len < 1300; len++) { /* lanes of blocks, whole blocks, what is left */
            uint64_t want = slow(polynomials[kind], crc_bits(kind), data + len % 9, len);
            assert_int_equal(sum_of(kind, false, data + len % 9, len), want);
            assert_int_equal(sum_of(kind, true, data + len % 9, len), want);
        }
}

static void pieces_of_any_size_give_the_sum_of_the_whole(void **state) {
    unsigned char data[SIZE];
    (void)state;
    fill(data);
    for (int kind = 0; kind < CRC_KINDS; kind++)
        for (int plain = 0; plain < 2; plain++) {
            struct crc *c = crc_new(kind, plain);
            assert_non_null(c);
            for (size_t fed = 0, n = 1; fed < SIZE; fed += n, n = n * 5 % 997) {
                n = n < SIZE - fed ? n : SIZE - fed;
                crc_update(c, data + fed, n);
            }
            assert_int_equal(crc_finish(c), sum_of(kind, false, data, SIZE));
        }
}

static void sums_of_neighbours_join_into_that_of_both(void **state) {
    unsigned char data[SIZE];
    (void)state;
    fill(data);
    for (int kind = 0; kind < CRC_KINDS; kind++)
        for (size_t cut = 0; cut <= SIZE; cut += 625) {
            uint64_t a = sum_of(kind, false, data, cut), b = sum_of(kind, false, data + cut, SIZE - cut);
            assert_int_equal(crc_join(kind, a, b, SIZE - cut), sum_of(kind, false, data, SIZE));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values_come_out),
        cmocka_unit_test(every_length_has_the_sum_of_the_definition_by_either_way),
        cmocka_unit_test(pieces_of_any_size_give_the_sum_of_the_whole),
        cmocka_unit_test(sums_of_neighbours_join_into_that_of_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
