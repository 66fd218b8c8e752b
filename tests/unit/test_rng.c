#include "unit/cmocka_all.h"

#include "base/rng.h"

/* The published known answers of Philox4x32-10 (Random123, kat_vectors): counter, key, result. */
static void philox_gives_the_published_values(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t *c = cases[i].counter, *k = cases[i].key;
        struct rng_block b = rng_philox((uint64_t)k[1] << 32 | k[0], c[3], c[2], (uint64_t)c[1] << 32 | c[0]);
        assert_memory_equal(b.v, cases[i].want, sizeof b.v);
    }
}

static void a_block_depends_on_its_place_alone(void **state) {
    (void)state;
    struct rng_block forward[64];
    for (uint64_t i = 0; i < 64; i++)
        forward[i] = rng_philox(7, RNG_INIT, 3, i);
    for (uint64_t i = 64; i-- > 0;) {
        struct rng_block again = rng_philox(7, RNG_INIT, 3, i);
        assert_memory_equal(again.v, forward[i].v, sizeof again.v);
    }
    struct rng rng; /* the reader gives the same blocks one word at a time */
    rng_init(&rng, 7, RNG_INIT, 3);
    for (int i = 0; i < 64; i++)
        for (int k = 0; k < 4; k++)
            assert_int_equal(rng_u32(&rng), forward[i].v[k]);
}

static void seed_stream_step_and_index_each_change_the_block(void **state) {
    (void)state;
    const struct rng_block blocks[] = {
        rng_philox(1, 2, 3, 4), rng_philox(2, 2, 3, 4), rng_philox(1ull << 32 | 1, 2, 3, 4), rng_philox(1, 3, 3, 4),
        rng_philox(1, 2, 4, 4), rng_philox(1, 2, 3, 5), rng_philox(1, 2, 3, 1ull << 32 | 4)};
    for (size_t i = 0; i < 7; i++)
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(blocks[i].v, blocks[k].v, sizeof blocks[i].v);
}

static void streams_keep_their_numbers(void **state) {
    (void)state; /* stored checkpoints depend on them */
    assert_int_equal(RNG_INIT, 1);
    assert_int_equal(RNG_SAMPLER, 2);
    assert_int_equal(RNG_DROPOUT, 3);
    assert_int_equal(RNG_SYNTH, 1000);
}

static void units_cover_zero_to_below_one(void **state) {
    (void)state;
    assert_true(rng_unit_f32(0) == 0);
    assert_true(rng_unit_f32(UINT32_MAX) == 1 - 0x1p-24f);
    assert_true(rng_unit_f64(0, 0) == 0);
    assert_true(rng_unit_f64(UINT32_MAX, UINT32_MAX) == 1 - 0x1p-53);
    assert_true(rng_unit_f64(0x80000000, 0) == 0.5);
}

static void uniform_and_normal_have_their_moments(void **state) {
    (void)state;
    enum { N = 200000 };
    struct rng rng;
    double sum = 0, squares = 0, fourth = 0, mean = 0, variance = 0;
    rng_init(&rng, 99, RNG_SYNTH, 0);
    for (int i = 0; i < N; i++) {
        double u = rng_uniform(&rng);
        assert_true(u >= 0 && u < 1);
        mean += u / N;
        variance += (u - 0.5) * (u - 0.5) / N;
    }
    assert_true(fabs(mean - 0.5) < 5 * sqrt(1.0 / 12 / N));
    assert_true(fabs(variance - 1.0 / 12) < 0.001);
    for (int i = 0; i < N; i++) {
        double x = rng_normal(&rng);
        assert_true(isfinite(x));
        sum += x / N;
        squares += x * x / N;
        fourth += x * x * x * x / N;
    }
    assert_true(fabs(sum) < 5 / sqrt(N));
    assert_true(fabs(squares - 1) < 0.02);
    assert_true(fabs(fourth - 3) < 0.15);
}

static void below_is_unbiased_and_within_its_bound(void **state) {
    (void)state;
    enum { N = 70000 };
    int counts[7] = {0};
    struct rng rng;
    rng_init(&rng, 5, RNG_SAMPLER, 0);
    for (int i = 0; i < N; i++) {
        uint64_t v = rng_below(&rng, 7);
        assert_true(v < 7);
        counts[v]++;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(counts[i], N / 7 - 500, N / 7 + 500);
    for (int i = 0; i < 100; i++)
        assert_int_equal(rng_below(&rng, 1), 0);
    /* With this bound a plain remainder would give the lower half twice as often. */
    const uint64_t bound = 3ull << 62;
    int low = 0;
    for (int i = 0; i < 3000; i++) {
        uint64_t v = rng_below(&rng, bound);
        assert_true(v < bound);
        low += v < 1ull << 62;
    }
    assert_in_range(low, 850, 1150);
}

static void a_shuffle_is_a_fair_permutation_that_repeats(void **state) {
    (void)state;
    uint32_t a[100], b[100];
    bool seen[100] = {false};
    struct rng rng;
    for (uint32_t i = 0; i < 100; i++)
        a[i] = b[i] = i;
    rng_init(&rng, 1, RNG_SAMPLER, 4);
    rng_shuffle_u32(&rng, a, 100);
    rng_init(&rng, 1, RNG_SAMPLER, 4);
    rng_shuffle_u32(&rng, b, 100);
    assert_memory_equal(a, b, sizeof a);
    for (int i = 0; i < 100; i++) {
        assert_true(a[i] < 100 && !seen[a[i]]);
        seen[a[i]] = true;
    }
    int places[3][3] = {{0}};
    for (int round = 0; round < 6000; round++) {
        uint32_t three[3] = {0, 1, 2};
        rng_shuffle_u32(&rng, three, 3);
        for (int i = 0; i < 3; i++)
            places[i][three[i]]++;
    }
    for (int i = 0; i < 9; i++)
        assert_in_range(places[i / 3][i % 3], 1800, 2200);
    rng_shuffle_u32(&rng, NULL, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_values),
        cmocka_unit_test(a_block_depends_on_its_place_alone),
        cmocka_unit_test(seed_stream_step_and_index_each_change_the_block),
        cmocka_unit_test(streams_keep_their_numbers),
        cmocka_unit_test(units_cover_zero_to_below_one),
        cmocka_unit_test(uniform_and_normal_have_their_moments),
        cmocka_unit_test(below_is_unbiased_and_within_its_bound),
        cmocka_unit_test(a_shuffle_is_a_fair_permutation_that_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
