/* Channels without a usable signal, second by second, for any chunks and after a snapshot. */

#include "base/rng.h"
#include "detect/contact.h"
#include "eeg/half.h"
#include "unit/cmocka_all.h"

enum { C = 6, COLUMNS = 8, SECONDS = 12, N = SECONDS * 256 + 100, FIRST = 1000 };

static uint16_t rows[N * COLUMNS];

/* In second k, k channels are bad: flat ones in even seconds, clipped ones in odd seconds; from 6 on all are good. */
static int bad_in(int second) { return second < 6 ? second : 0; }

static void make_rows(void) {
    struct rng rng;
    rng_init(&rng, 1, RNG_INIT, 0);
    for (int i = 0; i < N; i++)
        for (int c = 0; c < COLUMNS; c++) {
            int second = i / 256;
            float x = (float)(40 * sin(i * 0.3 + c) + rng_uniform(&rng));
            if (c < bad_in(second))
                x = second % 2 == 0 ? 7 + 0.1f * (float)(i % 2) : i % 50 == 3 ? 5000 : x;
            rows[i * COLUMNS + c] = half_from_f32(c < C ? x : 0);
        }
}

static void expect(struct contact *c, int64_t chunk, bool restore) {
    contact_start(c, FIRST);
    for (int64_t at = 0, n; at < N; at += n) {
        n = N - at < chunk ? N - at : chunk;
        assert_int_equal(contact_push(c, rows + at * COLUMNS, COLUMNS, n, NULL), 0);
        if (!restore)
            continue;
        struct str state;
        str_init(&state, 1 << 20);
        contact_pack(c, &(struct packer){.to = &state}, NULL);
        struct contact *other = contact_new(C);
        struct packer in = {.from = unpack_of(state.data, state.len)};
        assert_int_equal(contact_pack(other, &in, NULL), 0);
        assert_true(unpack_done(&in.from));
        str_done(&state);
        contact_free(c);
        c = other;
    }
    assert_false(contact_bad(c, FIRST + 255)); /* no whole second yet */
    for (int second = 0; second < SECONDS; second++)
        for (int late = 0; late < 256; late += 85) /* 3 of 6 channels: half of so few */
            assert_int_equal(contact_bad(c, FIRST + (second + 1) * 256 + late), bad_in(second) >= 3);
    contact_free(c);
}

static void half_of_few_channels_make_a_second_bad_in_any_chunks(void **state) {
    (void)state;
    make_rows();
    expect(contact_new(C), N, false);
    expect(contact_new(C), 77, false);
    expect(contact_new(C), 300, true);
}

struct told {
    int seconds;
    int64_t end;
    uint64_t flat, clipped;
};

static void hear(void *ctx, int64_t end, uint64_t flat, uint64_t clipped) {
    struct told *told = ctx;
    const int second = (int)((end - FIRST) / 256) - 1;
    assert_true(end > told->end && (end - FIRST) % 256 == 0);
    const uint64_t bad = (UINT64_C(1) << bad_in(second)) - 1;
    assert_int_equal(flat, second % 2 == 0 ? bad : 0);
    assert_int_equal(clipped, second % 2 == 0 ? 0 : bad);
    *told = (struct told){told->seconds + 1, end, flat, clipped};
}

static void the_channels_of_a_bad_second_are_told_with_what_is_wrong(void **state) {
    (void)state;
    make_rows();
    for (int64_t chunk = 100; chunk < N; chunk *= 5) {
        struct told told = {0};
        struct contact *c = contact_new(C);
        contact_tell(c, hear, &told);
        expect(c, chunk, false);
        assert_int_equal(told.seconds, 5); /* 1 to 5 */
    }
}

static void four_of_many_channels_make_a_second_bad(void **state) {
    (void)state;
    static uint16_t many[256 * 19];
    for (int flat = 3; flat <= 4; flat++) {
        struct contact *c = contact_new(19);
        for (int i = 0; i < 256 * 19; i++)
            many[i] = half_from_f32(i % 19 < flat ? 0 : (float)(i / 19 % 11));
        contact_start(c, 0);
        assert_int_equal(contact_push(c, many, 19, 256, NULL), 0);
        assert_int_equal(contact_bad(c, 256), flat == 4);
        contact_free(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_of_few_channels_make_a_second_bad_in_any_chunks),
        cmocka_unit_test(the_channels_of_a_bad_second_are_told_with_what_is_wrong),
        cmocka_unit_test(four_of_many_channels_make_a_second_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
