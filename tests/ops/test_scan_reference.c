/* The scans against plain double loops: outputs, final state and every gradient, over shapes, options and instruction sets. */
#include "scan_fixture.h"

static const struct problem problems[] = {
    {.b = 2, .l = 7, .d = 4, .n = 3, .g = 1, .gate = true, .skip = true},
    {.b = 1, .l = 1, .d = 16, .n = 16, .g = 1, .h0 = true, .skip = true},
    {.b = 3, .l = 33, .d = 19, .n = 1, .g = 1, .gate = true, .h0 = true},
    {.b = 2, .l = 40, .d = 18, .n = 8, .g = 3, .skip = true, .h0 = true, .reverse = true},
    {.b = 2, .l = 21, .d = 5, .n = 17, .g = 1, .gate = true, .skip = true, .h0 = true},
    {.b = 1, .l = 30, .d = 33, .n = 64, .g = 1, .gate = true, .reverse = true},
    {.b = 2, .l = 18, .d = 6, .n = 256, .g = 2, .h0 = true},
    {.b = 1, .l = 1100, .d = 3, .n = 4, .g = 1, .gate = true, .skip = true, .h0 = true},
    {.b = 3, .l = 37, .d = 300, .n = 9, .g = 1, .gate = true, .skip = true, .h0 = true},
    {.b = 2, .l = 50, .d = 520, .n = 16, .g = 1, .plain_delta = true, .clamp = true},
    {.b = 2, .l = 24, .d = 20, .n = 16, .g = 2, .clamp = true, .gate = true, .skip = true},
    {.b = 2, .l = 26, .d = 12, .n = 16, .g = 1, .zoh = true, .h0 = true},
    {.b = 2,
     .l = 45,
     .d = 17,
     .n = 11,
     .g = 1,
     .zoh = true,
     .gate = true,
     .skip = true,
     .reverse = true,
     .lengths = true,
     .resets = true},
    {.b = 5, .l = 40, .d = 21, .n = 16, .g = 1, .gate = true, .skip = true, .h0 = true, .lengths = true},
    {.b = 5, .l = 40, .d = 21, .n = 16, .g = 1, .gate = true, .skip = true, .h0 = true, .lengths = true, .reverse = true},
    {.b = 3, .l = 70, .d = 16, .n = 16, .g = 1, .h0 = true, .skip = true, .resets = true},
    {.b = 3, .l = 70, .d = 16, .n = 16, .g = 1, .h0 = true, .skip = true, .resets = true, .lengths = true, .reverse = true},
    {.b = 40, .l = 5, .d = 7, .n = 8, .g = 1, .h0 = true, .skip = true},
    {.b = 2, .l = 50, .d = 32, .n = 16, .g = 2, .share = 8, .skip = true, .h0 = true},
    {.b = 1, .l = 90, .d = 128, .n = 16, .g = 1, .share = 64, .skip = true},
    {.b = 2, .l = 33, .d = 15, .n = 17, .g = 1, .share = 5, .h0 = true, .reverse = true},
    {.b = 2, .l = 33, .d = 6, .n = 8, .g = 6, .share = 1, .skip = true, .h0 = true},
    {.b = 2, .l = 19, .d = 512, .n = 8, .g = 1, .share = 256, .skip = true},
    {.b = 1, .l = 20, .d = 600, .n = 8, .g = 1, .share = 100, .skip = true, .h0 = true},
    {.b = 4, .l = 60, .d = 24, .n = 16, .g = 1, .share = 4, .skip = true, .h0 = true, .lengths = true, .resets = true},
    {.b = 4,
     .l = 60,
     .d = 24,
     .n = 16,
     .g = 1,
     .share = 4,
     .skip = true,
     .h0 = true,
     .lengths = true,
     .resets = true,
     .reverse = true},
    {.b = 2, .l = 60, .d = 24, .n = 65, .g = 2, .share = 3, .plain_delta = true, .clamp = true, .h0 = true},
    {.b = 1, .l = 1100, .d = 4, .n = 4, .g = 1, .share = 2, .skip = true, .h0 = true},
};
enum { N_PROBLEMS = sizeof problems / sizeof *problems };

static void check_all(bool bf16, double most) {
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    for (int i = 0; i < N_PROBLEMS; i++)
        for (int isa = 0; isa < fixture_isas(); isa++) {
            setenv("BRR_ISA", isas[isa], 1);
            struct problem p = problems[i];
            p.bf16 = bf16;
            struct arrays a = arrays_new(&p);
            reference(&p, &a, true);
            run_kernels(&p, &a, true);
            assert_near_reference(&p, &a, true, most);
            arrays_free(&a);
        }
    unsetenv("BRR_ISA");
}

static void fp32_matches_double_loops(void **state) {
    (void)state;
    check_all(false, 1e-5);
}

static void bf16_matches_double_loops_on_the_same_rounded_inputs(void **state) {
    (void)state;
    check_all(true, 4e-3);
}

static void chunked_ssd_matches_double_loops_for_every_chunk_length(void **state) {
    (void)state;
    static const int chunks[] = {1, 3, 16, 64, 5000};
    for (int i = 0; i < N_PROBLEMS; i++)
        for (int c = 0; c < 5 && problems[i].share; c++) {
            struct problem p = problems[i];
            p.chunk = chunks[c];
            struct arrays a = arrays_new(&p);
            reference(&p, &a, false);
            run_kernels(&p, &a, false);
            assert_near_reference(&p, &a, false, 1e-5);
            arrays_free(&a);
        }
}

/* Σ out·dout + hT·dhT of the double loops. */
static double functional(const struct problem *p, struct arrays *a) {
    reference(p, a, false);
    double sum = 0;
    for (int64_t i = 0; i < a->count[U]; i++)
        sum += a->expected_out[i] * a->in[DOUT][i];
    for (int64_t i = 0; i < a->count[H0]; i++)
        sum += a->expected_ht[i] * a->in[DHT][i];
    return sum;
}

/* The slope over one input: central differences of h and h/2, extrapolated, which leaves an error of the order h⁴ (3e-9 of the
 * largest gradient at most, over 1,000 seeds). The inputs are multiples of 2⁻¹², so that no step is rounded. */
static double slope_of(const struct problem *p, struct arrays *a, float *x) {
    float kept = *x;
    double difference[2];
    for (int half = 0; half < 2; half++) {
        float h = half ? 0x1p-11f : 0x1p-10f;
        *x = kept + h;
        double up = functional(p, a);
        *x = kept - h;
        difference[half] = (up - functional(p, a)) / (2.0 * (double)h);
    }
    *x = kept;
    return (4 * difference[1] - difference[0]) / 3;
}

static void round_inputs(struct arrays *a) {
    for (int slot = 0; slot < SLOTS; slot++)
        for (int64_t q = 0; a->in[slot] && q < a->count[slot]; q++)
            a->in[slot][q] = ldexpf(rintf(ldexpf(a->in[slot][q], 12)), -12);
}

static void the_double_gradients_match_finite_differences(void **state) {
    (void)state;
    static const struct problem small[] = {
        {.b = 2, .l = 9, .d = 4, .n = 3, .g = 2, .gate = true, .skip = true, .h0 = true},
        {.b = 2,
         .l = 9,
         .d = 4,
         .n = 3,
         .g = 1,
         .zoh = true,
         .gate = true,
         .h0 = true,
         .reverse = true,
         .lengths = true,
         .resets = true},
        {.b = 2, .l = 9, .d = 6, .n = 3, .g = 1, .share = 3, .skip = true, .h0 = true, .lengths = true, .resets = true},
    };
    for (int i = 0; i < 3; i++) {
        struct problem p = small[i];
        struct arrays a = arrays_new(&p);
        round_inputs(&a);
        reference(&p, &a, true);
        for (int slot = 0; slot < DOUT; slot++) {
            if (!a.in[slot])
                continue;
            double *analytic = fixture_memory((size_t)a.count[slot] * sizeof *analytic), worst = 0, size = 0;
            memcpy(analytic, a.expected[slot], (size_t)a.count[slot] * sizeof *analytic);
            for (int64_t q = 0; q < a.count[slot]; q++) {
                double slope = slope_of(&p, &a, &a.in[slot][q]);
                worst = fmax(worst, fabs(slope - analytic[q]));
                size = fmax(size, fabs(analytic[q]));
            }
            if (worst > 1e-7 * size + 1e-9)
                fail_msg("problem %d slot %d: finite differences are off by %.2e of %.2e", i, slot, worst, size);
            free(analytic);
        }
        arrays_free(&a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_double_gradients_match_finite_differences),
        cmocka_unit_test(fp32_matches_double_loops),
        cmocka_unit_test(bf16_matches_double_loops_on_the_same_rounded_inputs),
        cmocka_unit_test(chunked_ssd_matches_double_loops_for_every_chunk_length),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
