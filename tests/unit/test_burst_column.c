/* The cortical column of Potjans and Diesmann: at a tenth of its size its eight populations fire as often as in Brian 2
 * (tests/bench/brian_column.py). BRR_TEST_COLUMN=whole takes 8 GB and minutes, and compares with what is published of the whole
 * one. */
#include "burst/column.h"
#include "unit/burst_fixture.h"

enum { SEED = 1, WARM_UP_TICKS = 2000, TICKS = 40000, TICKS_OF_WHOLE = 20000, PUBLISHED = 3 };

/* Spikes/s of a tenth, the same network, in Brian 2.5.1: 3 s after 0.2 s. */
static const double in_brian[1][COLUMN_POPULATIONS] = {{0.462, 2.109, 3.955, 5.002, 6.640, 7.755, 0.826, 6.999}};
/* Of the whole with Poisson input in NEST: full_mean_rates of its example Potjans_2014, the first of sli and NEST 2.12, then as
 * NEST 2.20 and NEST 3 have them. */
static const double published[PUBLISHED][COLUMN_POPULATIONS] = {{0.971, 2.868, 4.746, 5.396, 8.142, 9.078, 0.991, 7.523},
                                                                {0.943, 3.026, 4.368, 5.882, 7.733, 8.664, 1.096, 7.851},
                                                                {0.903, 2.965, 4.414, 5.876, 7.569, 8.633, 1.105, 7.829}};

struct counting {
    const struct connectome *c;
    int64_t spikes[COLUMN_POPULATIONS], neurons[COLUMN_POPULATIONS];
};

static void add_spikes(void *ctx, const struct burst_frame *frame) {
    struct counting *k = ctx;
    for (int64_t i = 0; i < frame->fired; i++)
        k->spikes[k->c->area[frame->ids[i]]]++;
}

/* Rates lie between the smallest of the sets − 5 % and the largest + 5 %. */
static void compare_rates(double scale, int64_t ticks, const double (*sets)[COLUMN_POPULATIONS], int n) {
    struct connectome *c = NULL;
    struct engine e;
    int wrong = 0;
    ok(column_make(scale, SEED, 0, &c, &err));
    struct counting k = {.c = c};
    for (uint32_t i = 0; i < c->net.n; i++)
        k.neurons[c->area[i]]++;
    engine_open(&e, "cpu", 0);
    ok(burst_new(e.stream, c, NULL, &e.b, &err));
    ok(burst_step(e.b, WARM_UP_TICKS, NULL, NULL, &err));
    ok(burst_step(e.b, ticks, add_spikes, &k, &err));
    for (int p = 0; p < COLUMN_POPULATIONS; p++) {
        double low = INFINITY, high = 0;
        double is = (double)k.spikes[p] / (double)k.neurons[p] * COLUMN_TICKS_PER_S / (double)ticks;
        for (int i = 0; i < n; i++) {
            low = fmin(low, sets[i][p]);
            high = fmax(high, sets[i][p]);
        }
        bool good = is >= low * 0.95 && is <= high * 1.05;
        print_message("%-6s %.3f spikes/s; expected %.3f to %.3f%s\n", c->areas[p].name, is, low, high,
                      good ? "" : ": too far away");
        wrong += !good;
    }
    assert_int_equal(wrong, 0);
    engine_close(&e);
}

static void its_populations_fire_as_often_as_elsewhere(void **state) {
    (void)state;
    const char *size = getenv("BRR_TEST_COLUMN");
    if (size && !strcmp(size, "whole"))
        compare_rates(1, TICKS_OF_WHOLE, published, PUBLISHED);
    else
        compare_rates(0.1, TICKS, in_brian, 1);
}

static void a_column_of_no_size_is_refused(void **state) {
    (void)state;
    struct connectome *c = NULL;
    assert_int_equal(column_make(NAN, SEED, 0, &c, &err), ERR_INVALID);
    assert_int_equal(column_make(1, SEED, 1 << 20, &c, &err), ERR_EXHAUSTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_of_no_size_is_refused),
        cmocka_unit_test(its_populations_fire_as_often_as_elsewhere),
    };
    return cmocka_run_group_tests_name("burst_column", tests, NULL, NULL);
}
