/* Promises of the scans that do not depend on exact values: same bits every time, whatever the threads and the batch; reversal is
 * flipping; a carried state continues; segments are separate; NaN stays where it is; every output element is written. */
#include "scan_fixture.h"

static struct tensor as_3d(const struct problem *p, float *data, int64_t width) {
    return tensor_3d(data, DTYPE_F32, p->b, p->l, width);
}

static const struct problem mixed[] = {
    {.b = 4, .l = 43, .d = 37, .n = 17, .g = 1, .gate = true, .skip = true, .h0 = true},
    {.b = 4, .l = 43, .d = 36, .n = 16, .g = 2, .share = 6, .skip = true, .h0 = true},
    {.b = 4, .l = 43, .d = 24, .n = 8, .g = 1, .zoh = true, .skip = true, .h0 = true},
};
enum { N_MIXED = sizeof mixed / sizeof *mixed };

static bool is_act(int slot) { return slot == U || slot == DELTA || slot == BM || slot == CM || slot == Z || slot == DOUT; }

/* Elements per token, or per batch row for states. */
static int64_t width_of(const struct problem *p, const struct arrays *a, int slot) {
    return a->count[slot] / (is_act(slot) ? p->b * p->l : p->b);
}

static void assert_same_bits(const float *a, const float *b, int64_t n, const char *what) {
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a))
            fail_msg("%s differs at %d: %.9g and %.9g", what, (int)i, (double)a[i], (double)b[i]);
}

/* The inputs of `from` in a fresh set of outputs. */
static struct arrays same_inputs(const struct problem *p, const struct arrays *from) {
    struct arrays a = arrays_new(p);
    for (int i = 0; i < SLOTS; i++)
        if (a.in[i])
            memcpy(a.in[i], from->in[i], (size_t)a.count[i] * sizeof(float));
    if (from->resets)
        memcpy(a.resets, from->resets, (size_t)(p->b * p->l));
    if (from->lengths)
        memcpy(a.lengths, from->lengths, (size_t)p->b * sizeof(int32_t));
    return a;
}

static void two_runs_and_any_number_of_threads_give_the_same_bits(void **state) {
    (void)state;
    for (int m = 0; m < N_MIXED; m++) {
        struct problem p = mixed[m];
        p.b = 35; /* more rows than batch slices */
        struct arrays first = arrays_new(&p);
        fixture_threads(1);
        run_kernels(&p, &first, true);
        for (int threads = 1; threads <= 3; threads++) {
            fixture_threads(threads);
            struct arrays again = same_inputs(&p, &first);
            run_kernels(&p, &again, true);
            assert_same_bits(first.out, again.out, first.count[U], "out");
            assert_same_bits(first.ht, again.ht, first.count[H0], "hT");
            for (int i = 0; i < DOUT; i++)
                if (first.grad[i])
                    assert_same_bits(first.grad[i], again.grad[i], first.count[i], "a gradient");
            arrays_free(&again);
        }
        arrays_free(&first);
    }
    fixture_threads(2);
}

static void a_row_does_not_depend_on_its_batch(void **state) {
    (void)state;
    for (int m = 0; m < N_MIXED; m++) {
        struct problem p = mixed[m], one = p;
        one.b = 1;
        struct arrays all = arrays_new(&p);
        run_kernels(&p, &all, false);
        for (int64_t row = 0; row < p.b; row++) {
            struct arrays a = arrays_new(&one);
            for (int i = 0; i < SLOTS; i++)
                if (a.in[i]) {
                    bool per_row = is_act(i) || i == H0 || i == DHT;
                    memcpy(a.in[i], all.in[i] + (per_row ? row * a.count[i] : 0), (size_t)a.count[i] * sizeof(float));
                }
            run_kernels(&one, &a, false);
            assert_same_bits(a.out, all.out + row * a.count[U], a.count[U], "out");
            assert_same_bits(a.ht, all.ht + row * a.count[H0], a.count[H0], "hT");
            arrays_free(&a);
        }
        arrays_free(&all);
    }
}

/* Reverses the tokens of every row. */
static void flip(const struct problem *p, float *data, int64_t width) {
    for (int64_t row = 0; row < p->b; row++)
        for (int64_t t = 0; t < p->l / 2; t++)
            for (int64_t i = 0; i < width; i++) {
                float *x = &data[(row * p->l + t) * width + i], *y = &data[(row * p->l + p->l - 1 - t) * width + i], kept = *x;
                *x = *y;
                *y = kept;
            }
}

static void reverse_is_flip_scan_flip(void **state) {
    (void)state;
    for (int m = 0; m < N_MIXED; m++) {
        struct problem p = mixed[m], r = p;
        r.reverse = true;
        struct arrays straight = arrays_new(&p), back = same_inputs(&r, &straight);
        for (int i = 0; i < SLOTS; i++)
            if (back.in[i] && is_act(i))
                flip(&p, back.in[i], width_of(&p, &back, i));
        run_kernels(&p, &straight, true);
        run_kernels(&r, &back, true);
        flip(&p, back.out, p.d);
        assert_same_bits(straight.out, back.out, straight.count[U], "out");
        assert_same_bits(straight.ht, back.ht, straight.count[H0], "hT");
        for (int i = 0; i < DOUT; i++) {
            if (!straight.grad[i])
                continue;
            if (is_act(i))
                flip(&p, back.grad[i], width_of(&p, &back, i));
            assert_same_bits(straight.grad[i], back.grad[i], straight.count[i], "a gradient");
        }
        arrays_free(&straight);
        arrays_free(&back);
    }
}

/* Tokens [first, first + q.l) of every row of `whole`. */
static void cut_tokens(const struct problem *p, const struct arrays *whole, const struct problem *q, struct arrays *part,
                       int64_t first) {
    for (int i = 0; i < SLOTS; i++) {
        if (!part->in[i])
            continue;
        if (!is_act(i)) {
            memcpy(part->in[i], whole->in[i], (size_t)part->count[i] * sizeof(float));
            continue;
        }
        int64_t w = width_of(p, whole, i);
        for (int64_t row = 0; row < p->b; row++)
            memcpy(part->in[i] + row * q->l * w, whole->in[i] + (row * p->l + first) * w, (size_t)(q->l * w) * sizeof(float));
    }
}

static void a_carried_state_continues_the_sequence(void **state) {
    (void)state;
    for (int m = 0; m < N_MIXED; m++)
        for (int64_t cut = 1; cut < mixed[m].l; cut += 13) {
            struct problem p = mixed[m], left = p, right = p;
            left.l = cut;
            right.l = p.l - cut;
            struct arrays whole = arrays_new(&p), a = arrays_new(&left), b = arrays_new(&right);
            cut_tokens(&p, &whole, &left, &a, 0);
            cut_tokens(&p, &whole, &right, &b, cut);
            run_kernels(&p, &whole, true);
            run_kernels(&left, &a, false);
            memcpy(b.in[H0], a.ht, (size_t)b.count[H0] * sizeof(float));
            run_kernels(&right, &b, true);
            memcpy(a.in[DHT], b.grad[H0], (size_t)a.count[H0] * sizeof(float)); /* the state's gradient flows back */
            run_kernels(&left, &a, true);
            assert_same_bits(whole.ht, b.ht, whole.count[H0], "hT");
            for (int64_t row = 0; row < p.b; row++) {
                assert_same_bits(whole.out + row * p.l * p.d, a.out + row * cut * p.d, cut * p.d, "out");
                assert_same_bits(whole.out + (row * p.l + cut) * p.d, b.out + row * right.l * p.d, right.l * p.d, "out");
                for (int64_t i = 0; i < cut * p.d; i++)
                    assert_true(fabsf(whole.grad[U][row * p.l * p.d + i] - a.grad[U][row * cut * p.d + i]) < 1e-4f);
            }
            double *expected = fixture_memory((size_t)whole.count[H0] * sizeof *expected);
            for (int64_t i = 0; i < whole.count[H0]; i++)
                expected[i] = whole.grad[H0][i];
            assert_true(fixture_distance(a.grad[H0], expected, whole.count[H0]) < 1e-5);
            free(expected);
            arrays_free(&whole);
            arrays_free(&a);
            arrays_free(&b);
        }
}

static void packed_segments_are_separate_sequences(void **state) {
    (void)state;
    for (int m = 0; m < 2 * N_MIXED; m++) {
        struct problem p = mixed[m / 2], q;
        p.b = 1;
        p.h0 = false;
        p.reverse = m % 2;
        p.resets = true;
        q = p;
        q.resets = false;
        struct arrays packed = arrays_new(&p);
        memset(packed.resets, 0, (size_t)p.l);
        const int64_t starts[] = {0, 5, 6, 30, p.l};
        for (int i = 1; i < 4; i++)
            packed.resets[starts[i]] = 1;
        memset(packed.in[DHT], 0, (size_t)packed.count[DHT] * sizeof(float));
        run_kernels(&p, &packed, true);
        for (int i = 0; i < 4; i++) {
            q.l = starts[i + 1] - starts[i];
            struct arrays a = arrays_new(&q);
            cut_tokens(&p, &packed, &q, &a, starts[i]);
            run_kernels(&q, &a, true);
            assert_same_bits(packed.out + starts[i] * p.d, a.out, q.l * p.d, "out");
            int64_t w = width_of(&p, &packed, BM);
            double *expected = fixture_memory((size_t)(q.l * (w + p.d)) * sizeof *expected);
            for (int64_t t = 0; t < q.l * w; t++)
                expected[t] = packed.grad[BM][starts[i] * w + t];
            assert_true(fixture_distance(a.grad[BM], expected, q.l * w) < 1e-5);
            for (int64_t t = 0; t < q.l * p.d; t++)
                expected[t] = packed.grad[U][starts[i] * p.d + t];
            assert_true(fixture_distance(a.grad[U], expected, q.l * p.d) < 1e-5);
            free(expected);
            arrays_free(&a);
        }
        arrays_free(&packed);
    }
}

static void a_not_a_number_stays_in_its_channel(void **state) {
    (void)state;
    for (int m = 0; m < N_MIXED; m++) {
        struct problem p = mixed[m];
        struct arrays clean = arrays_new(&p), dirty = same_inputs(&p, &clean);
        int64_t row = 2, t = 9, c = 5, share = p.share ? p.share : 1;
        dirty.in[U][(row * p.l + t) * p.d + c] = NAN;
        run_kernels(&p, &clean, true);
        run_kernels(&p, &dirty, true);
        for (int64_t i = 0; i < clean.count[U]; i++) {
            bool touched = i / (p.l * p.d) == row && i % p.d == c && i / p.d % p.l >= t;
            if (touched)
                assert_true(isnan(dirty.out[i]));
            else
                assert_same_bits(&clean.out[i], &dirty.out[i], 1, "out");
            if (i / (p.l * p.d) != row || i % p.d / share != c / share)
                assert_same_bits(&clean.grad[U][i], &dirty.grad[U][i], 1, "du");
        }
        for (int64_t i = 0; i < clean.count[A]; i++)
            if (i / (p.share ? 1 : p.n) != c / share)
                assert_same_bits(&clean.grad[A][i], &dirty.grad[A][i], 1, "dA");
        arrays_free(&clean);
        arrays_free(&dirty);
    }
}

/* Slices of a wider tensor, at addresses that fit no vector. */
static void strides_and_unaligned_addresses_change_nothing(void **state) {
    (void)state;
    struct problem p = {.b = 2, .l = 21, .d = 24, .n = 16, .g = 1, .share = 8, .skip = true};
    struct arrays dense = arrays_new(&p);
    run_kernels(&p, &dense, true);
    int64_t wide = p.d + 2 * p.n + 3 + 7, rows = p.b * p.l;
    float *in = fixture_floats(rows * wide + 1, NAN, NAN) + 1, *out = fixture_floats(rows * wide + 1, NAN, NAN) + 1;
    int64_t at[] = {0, p.d, p.d + p.n, p.d + 2 * p.n};
    const int slots[] = {U, BM, CM, DELTA};
    struct tensor all = tensor_3d(in, DTYPE_F32, p.b, p.l, wide), grads = tensor_3d(out, DTYPE_F32, p.b, p.l, wide), v[4], g[4];
    for (int i = 0; i < 4; i++) {
        int64_t w = width_of(&p, &dense, slots[i]);
        v[i] = tensor_slice(&all, at[i] + 1, w);
        g[i] = tensor_slice(&grads, at[i] + 1, w);
        for (int64_t r = 0; r < rows; r++)
            memcpy(in + r * wide + at[i] + 1, dense.in[slots[i]] + r * w, (size_t)w * sizeof(float));
    }
    float *y = fixture_floats(rows * (p.d + 5), NAN, NAN), *da = fixture_floats(3, 0, 0);
    struct tensor y_wide = tensor_3d(y, DTYPE_F32, p.b, p.l, p.d + 5);
    struct ssd_args f = {.x = v[0],
                         .Bm = v[1],
                         .Cm = v[2],
                         .delta = v[3],
                         .A = flat(dense.in[A], 3),
                         .Dskip = flat(dense.in[DSKIP], 3),
                         .dbias = flat(dense.in[DBIAS], 3),
                         .y = tensor_slice(&y_wide, 3, p.d),
                         .heads = 3,
                         .groups = 1,
                         .softplus = true};
    struct ssd_backward_args b = {.fwd = f,
                                  .dy = as_3d(&p, dense.in[DOUT], p.d),
                                  .dhT = cube(dense.in[DHT], p.b, p.d, p.n),
                                  .dx = g[0],
                                  .dBm = g[1],
                                  .dCm = g[2],
                                  .ddelta = g[3],
                                  .dA = flat(da, 3)};
    struct err err = {0};
    fixture_check(op_ssd(fixture.stream, &f, &err), &err);
    fixture_check(op_ssd_backward(fixture.stream, &b, &err), &err);
    for (int64_t r = 0; r < rows; r++) {
        assert_same_bits(dense.out + r * p.d, y + r * (p.d + 5) + 3, p.d, "out");
        assert_true(isnan(y[r * (p.d + 5) + 2]) && isnan(y[r * (p.d + 5) + 3 + p.d]));
        for (int i = 0; i < 4; i++) {
            int64_t w = width_of(&p, &dense, slots[i]);
            assert_same_bits(dense.grad[slots[i]] + r * w, out + r * wide + at[i] + 1, w, "a gradient");
        }
        assert_true(isnan(out[r * wide]) && isnan(out[r * wide + wide - 1]));
    }
    assert_same_bits(dense.grad[A], da, 3, "dA");
    free(in - 1);
    free(out - 1);
    free(y);
    free(da);
    arrays_free(&dense);
}

static void steady_state_allocates_nothing(void **state) {
    (void)state;
    int64_t live, before, after;
    for (int m = 0; m < N_MIXED; m++)
        for (int round = 0; round < 2; round++) {
            struct arrays a = arrays_new(&mixed[m]);
            device_alloc_stats(fixture.device, &live, &before);
            run_kernels(&mixed[m], &a, true);
            device_alloc_stats(fixture.device, &live, &after);
            if (round)
                assert_int_equal(before, after);
            arrays_free(&a);
        }
}

static void wrong_shapes_are_refused_with_the_argument_named(void **state) {
    (void)state;
    struct problem p = mixed[0];
    struct arrays a = arrays_new(&p);
    struct scan1_args good = {.u = as_3d(&p, a.in[U], p.d),
                              .delta = as_3d(&p, a.in[DELTA], p.d),
                              .A = tensor_2d(a.in[A], DTYPE_F32, p.d, p.n),
                              .Bm = as_3d(&p, a.in[BM], p.n),
                              .Cm = as_3d(&p, a.in[CM], p.n),
                              .out = as_3d(&p, a.out, p.d)},
                      bad = good;
    struct err err = {0};
    int32_t lengths[] = {1, 2, 44, 3};
    bad.delta.dim[1]--;
    assert_int_equal(op_scan1(fixture.stream, &bad, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "delta"));
    bad = good;
    bad.lengths = lengths;
    assert_int_equal(op_scan1(fixture.stream, &bad, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "lengths"));
    bad = good;
    bad.Cm.dtype = DTYPE_BF16;
    assert_int_equal(op_scan1(fixture.stream, &bad, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "C is bf16"));
    bad = good;
    bad.A = (struct tensor){0};
    assert_int_equal(op_scan1(fixture.stream, &bad, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "A is missing"));
    assert_int_equal(op_scan1(fixture.stream, &good, &err), 0);
    arrays_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_runs_and_any_number_of_threads_give_the_same_bits),
        cmocka_unit_test(a_row_does_not_depend_on_its_batch),
        cmocka_unit_test(reverse_is_flip_scan_flip),
        cmocka_unit_test(a_carried_state_continues_the_sequence),
        cmocka_unit_test(packed_segments_are_separate_sequences),
        cmocka_unit_test(a_not_a_number_stays_in_its_channel),
        cmocka_unit_test(strides_and_unaligned_addresses_change_nothing),
        cmocka_unit_test(steady_state_allocates_nothing),
        cmocka_unit_test(wrong_shapes_are_refused_with_the_argument_named),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
