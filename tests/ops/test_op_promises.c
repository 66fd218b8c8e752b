/* Promises of the small ops that are not values: dropout's counters and rate, calls in place, concatenation through slices, the
 * finite check, rows updated together, batch norm's running statistics over several calls, weights of a version. */
#include "base/base.h"
#include "scan_fixture.h"
#include "skip.h"

/* Philox4x32-10, written from its definition: key = seed, counter = (index low, index high, step, stream). */
static void philox_again(uint64_t seed, uint32_t stream, uint32_t step, uint64_t index, uint32_t c[4]) {
    uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    c[0] = (uint32_t)index;
    c[1] = (uint32_t)(index >> 32);
    c[2] = step;
    c[3] = stream;
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xD2511F53u * c[0], q = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(q >> 32) ^ c[1] ^ k[0], (uint32_t)q, (uint32_t)(p >> 32) ^ c[3] ^ k[1], (uint32_t)p};
        memcpy(c, next, sizeof next);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
}

static bool kept(const struct dropout_args *a, uint64_t n) {
    uint32_t words[4];
    philox_again(a->seed, a->rng_stream, a->step, n / 4, words);
    return (double)(words[n % 4] >> 8) * 0x1p-24 >= (double)a->p;
}

static void run_dropout(const struct dropout_args *a) {
    struct err err = {0};
    fixture_check(op_dropout(fixture.stream, a, &err), &err);
    fixture_check(stream_sync(fixture.stream, &err), &err);
}

static struct dropout_args dropout_of(float *x, float *y, int64_t b, int64_t t, int64_t c) {
    return (struct dropout_args){.x = tensor_3d(x, DTYPE_F32, b, t, c),
                                 .y = tensor_3d(y, DTYPE_F32, b, t, c),
                                 .p = 0.3f,
                                 .seed = fixture_next(),
                                 .rng_stream = 5,
                                 .step = (uint32_t)fixture_next(),
                                 .row0 = (int64_t)(fixture_next() % 1000000)};
}

static void dropout_keeps_what_the_counter_says(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1}, {3, 7, 19}, {2, 16, 32}, {5, 33, 3}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int per_channel = 0; per_channel < 2; per_channel++) {
            int64_t b = shapes[s][0], t = shapes[s][1], c = shapes[s][2], n = b * t * c;
            float *x = fixture_floats(n, 0.5, 1), *y = fixture_floats(n, NAN, NAN);
            struct dropout_args a = dropout_of(x, y, b, t, c);
            a.per_channel = per_channel;
            run_dropout(&a);
            for (int64_t i = 0; i < n; i++) {
                int64_t row = i / (t * c), in_row = i % (t * c);
                uint64_t at = (uint64_t)((a.row0 + row) * (per_channel ? c : t * c) + (per_channel ? in_row % c : in_row));
                float scaled = x[i] * (1.0f / (1.0f - a.p)), expected = kept(&a, at) ? scaled : 0.0f;
                if (fabsf(y[i] - expected) > 1e-6f)
                    fail_msg("shape %d, element %d: %g instead of %g", (int)s, (int)i, (double)y[i], (double)expected);
            }
            free(x);
            free(y);
        }
}

static double share_of_zeros(const float *y, int64_t n) {
    int64_t zeros = 0;
    for (int64_t i = 0; i < n; i++)
        zeros += y[i] == 0;
    return (double)zeros / (double)n;
}

static void dropout_drops_its_share_and_other_counters_drop_others(void **state) {
    (void)state;
    int64_t b = 2, t = 500, c = 130, n = b * t * c;
    float *x = fixture_floats(n, 1, 2), *y = fixture_floats(n, NAN, NAN), *other = fixture_floats(n, NAN, NAN);
    struct dropout_args a = dropout_of(x, y, b, t, c);
    for (int i = 0; i < 4; i++) {
        static const float rates[] = {0.05f, 0.3f, 0.5f, 0.9f};
        a.p = rates[i];
        run_dropout(&a);
        double p = rates[i], off = fabs(share_of_zeros(y, n) - p);
        if (off > 6 * sqrt(p * (1 - p) / (double)n))
            fail_msg("rate %g: off by %g", p, off);
    }
    a.p = 0.5f;
    run_dropout(&a);
    struct dropout_args changed[] = {a, a, a, a};
    changed[0].seed++;
    changed[1].step++;
    changed[2].rng_stream++;
    changed[3].row0++;
    for (int i = 0; i < 4; i++) {
        changed[i].y.data = other;
        run_dropout(&changed[i]);
        int64_t alike = 0;
        for (int64_t k = 0; k < n; k++)
            alike += (y[k] == 0) == (other[k] == 0);
        if (fabs((double)alike / (double)n - 0.5) > 6 * 0.5 / sqrt((double)n))
            fail_msg("changed counter %d: %d of %d masks alike", i, (int)alike, (int)n);
    }
    a.p = 0;
    run_dropout(&a);
    assert_memory_equal(x, y, (size_t)n * sizeof *x);
    free(x);
    free(y);
    free(other);
}

/* The gradient is the same call on dy, in place too; micro-batches draw what the whole batch draws; threads do not matter. */
static void dropout_of_parts_in_place_and_on_any_threads_is_the_same(void **state) {
    (void)state;
    for (int per_channel = 0; per_channel < 2; per_channel++) {
        int64_t b = 5, t = 11, c = 21, n = b * t * c;
        float *x = fixture_floats(n, 1, 2), *y = fixture_floats(n, NAN, NAN), *part = fixture_floats(n, NAN, NAN);
        struct dropout_args a = dropout_of(x, y, b, t, c);
        a.per_channel = per_channel;
        run_dropout(&a);
        for (int threads = 1; threads <= 3; threads++) {
            fixture_threads(threads);
            for (int64_t row = 0; row < b; row++) {
                struct dropout_args one = a;
                one.x = tensor_3d(x + row * t * c, DTYPE_F32, 1, t, c);
                one.y = tensor_3d(part + row * t * c, DTYPE_F32, 1, t, c);
                one.row0 = a.row0 + row;
                run_dropout(&one);
            }
            assert_memory_equal(y, part, (size_t)n * sizeof *y);
        }
        fixture_threads(2);
        struct dropout_args in_place = a;
        in_place.y = a.x;
        run_dropout(&in_place);
        assert_memory_equal(x, y, (size_t)n * sizeof *y);
        free(x);
        free(y);
        free(part);
    }
}

static void dropout_refuses_rates_outside_0_to_1(void **state) {
    (void)state;
    float x[4] = {0};
    static const float wrong[] = {-0.1f, 1, NAN};
    for (int i = 0; i < 3; i++) {
        struct dropout_args a = dropout_of(x, x, 1, 1, 4);
        struct err err = {0};
        a.p = wrong[i];
        assert_int_equal(op_dropout(fixture.stream, &a, &err), ERR_INVALID);
        assert_non_null(strstr(err.message, "op dropout: p"));
    }
}

static void one_bad_number_makes_a_gradient_not_finite(void **state) {
    (void)state;
    int64_t n = 70000;
    float *x = fixture_floats(n, -1, 1);
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 6; i++) {
        int64_t at = i % 2 ? n - 1 : (int64_t)(fixture_next() % (uint64_t)n);
        float was = x[at];
        double squares = 0;
        struct norm_args a = {.x = tensor_1d(x, DTYPE_F32, n), .sum_squares = &squares};
        struct err err = {0};
        x[at] = bad[i / 2];
        fixture_check(op_norm(fixture.stream, &a, &err), &err);
        fixture_check(stream_sync(fixture.stream, &err), &err);
        assert_false(isfinite(squares));
        x[at] = was;
        fixture_check(op_norm(fixture.stream, &a, &err), &err);
        fixture_check(stream_sync(fixture.stream, &err), &err);
        assert_true(isfinite(squares));
    }
    free(x);
}

/* A step as recorded work takes it, from memory, against the same by value. */
static void an_update_from_device_memory_is_the_same_and_a_bad_gradient_changes_nothing(void **state) {
    (void)state;
    int64_t n = 20011;
    float *grad = fixture_floats(n, -1, 1), *param = fixture_floats(n, -1, 1), *m = fixture_floats(n, -1, 1),
          *v = fixture_floats(n, 0, 1), *kept[3];
    uint8_t *decay = calloc((size_t)n, 1);
    float *const arrays[] = {param, m, v};
    double squares = 0, norm;
    struct train_place place = {.step = 0};
    struct norm_args of = {.x = tensor_1d(grad, DTYPE_F32, n), .sum_squares = &squares};
    struct adamw_args a = {.param = tensor_1d(param, DTYPE_F32, n),
                           .grad = of.x,
                           .m = tensor_1d(m, DTYPE_F32, n),
                           .v = tensor_1d(v, DTYPE_F32, n),
                           .decay = tensor_1d(decay, DTYPE_U8, n),
                           .lr = 1e-2f,
                           .beta1 = 0.9f,
                           .beta2 = 0.999f,
                           .eps = 1e-8f,
                           .weight_decay = 0.05f,
                           .step = 3,
                           .clip = 5};
    struct err err = {0};
    for (int i = 0; i < 3; i++)
        kept[i] = memcpy(fixture_floats(n, 0, 0), arrays[i], (size_t)n * sizeof *grad);
    fixture_check(op_norm(fixture.stream, &of, &err), &err);
    norm = sqrt(squares);
    assert_true(norm > a.clip);
    a.grad_scale = (float)(a.clip / norm);
    fixture_check(op_adamw(fixture.stream, &a, &err), &err); /* by value, into the copies' place */
    for (int i = 0; i < 3; i++) {
        for (int64_t k = 0; k < n; k++) { /* exchanged */
            float was = kept[i][k];
            kept[i][k] = arrays[i][k];
            arrays[i][k] = was;
        }
    }
    adamw_place(&a, &place);
    a.lr = a.weight_decay = a.grad_scale = NAN;
    a.step = 0;
    a.place = &place;
    a.sum_squares = &squares;
    fixture_check(op_adamw(fixture.stream, &a, &err), &err);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(arrays[i], kept[i], (size_t)n * sizeof *grad);
    squares = INFINITY;
    fixture_check(op_adamw(fixture.stream, &a, &err), &err);
    squares = NAN;
    fixture_check(op_adamw(fixture.stream, &a, &err), &err);
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(arrays[i], kept[i], (size_t)n * sizeof *grad);
        free(kept[i]);
        free(arrays[i]);
    }
    free(grad);
    free(decay);
}

/* Rows of wider arrays at once against each alone. One row's gradient is not finite, and the row stays as it is. */
static void rows_are_updated_as_each_alone(void **state) {
    (void)state;
    enum { G = 5, LD = 20100, FIRST = 3, N = 17003, BAD = 2, ARRAYS = 5 /* param, m, v, ema, grad */ };
    float *arrays[ARRAYS], *alone[ARRAYS];
    uint8_t *decay = calloc(N, 1);
    double squares[G] = {0}, one[G] = {0};
    struct err err = {0};
    for (int i = 0; i < ARRAYS; i++) {
        arrays[i] = fixture_floats((int64_t)G * LD, i == 2 ? 0 : -1, 1);
        alone[i] = memcpy(fixture_floats((int64_t)G * LD, 0, 0), arrays[i], sizeof(float) * G * LD);
    }
    for (int i = 0; i < N; i++)
        decay[i] = fixture_next() % 2;
    arrays[4][BAD * LD + FIRST + N - 1] = alone[4][BAD * LD + FIRST + N - 1] = INFINITY;
    struct adamw_args a = {.decay = tensor_1d(decay, DTYPE_U8, N),
                           .lr = 1e-2f,
                           .beta1 = 0.9f,
                           .beta2 = 0.999f,
                           .eps = 1e-8f,
                           .weight_decay = 0.05f,
                           .ema_decay = 0.9f,
                           .step = 3,
                           .clip = 5};
    struct tensor *const slots[ARRAYS] = {&a.param, &a.m, &a.v, &a.ema, &a.grad};
    for (int i = 0; i < ARRAYS; i++) {
        struct tensor whole = tensor_2d(arrays[i], DTYPE_F32, G, LD);
        *slots[i] = tensor_slice(&whole, FIRST, N);
    }
    a.sum_squares = squares;
    fixture_check(op_norm(fixture.stream, &(struct norm_args){a.grad, squares}, &err), &err);
    fixture_check(op_adamw(fixture.stream, &a, &err), &err);
    for (int g = 0; g < G; g++) {
        for (int i = 0; i < ARRAYS; i++)
            *slots[i] = tensor_1d(alone[i] + g * LD + FIRST, DTYPE_F32, N);
        a.sum_squares = one + g;
        fixture_check(op_norm(fixture.stream, &(struct norm_args){a.grad, one + g}, &err), &err);
        fixture_check(op_adamw(fixture.stream, &a, &err), &err);
        assert_true(isfinite(one[g]) == (g != BAD));
    }
    assert_memory_equal(squares, one, sizeof squares);
    for (int i = 0; i < ARRAYS; i++) {
        assert_memory_equal(arrays[i], alone[i], sizeof(float) * G * LD);
        free(arrays[i]);
        free(alone[i]);
    }
    free(decay);
}

static void concatenation_through_slices_keeps_every_number(void **state) {
    (void)state;
    int64_t b = 2, t = 9, wide = 30, left = 13;
    float *whole = fixture_floats(b * t * wide, NAN, NAN), *a = fixture_floats(b * t * left, -1, 1),
          *c = fixture_floats(b * t * (wide - left), -1, 1);
    struct tensor y = tensor_3d(whole, DTYPE_F32, b, t, wide);
    struct eltwise_args copies[] = {
        {.kind = ELTWISE_COPY, .a = tensor_3d(a, DTYPE_F32, b, t, left), .y = tensor_slice(&y, 0, left)},
        {.kind = ELTWISE_COPY, .a = tensor_3d(c, DTYPE_F32, b, t, wide - left), .y = tensor_slice(&y, left, wide - left)},
    };
    struct err err = {0};
    for (int i = 0; i < 2; i++)
        fixture_check(op_eltwise(fixture.stream, &copies[i], &err), &err);
    fixture_check(stream_sync(fixture.stream, &err), &err);
    for (int64_t r = 0; r < b * t; r++) {
        assert_memory_equal(whole + r * wide, a + r * left, (size_t)left * sizeof *a);
        assert_memory_equal(whole + r * wide + left, c + r * (wide - left), (size_t)(wide - left) * sizeof *c);
    }
    free(whole);
    free(a);
    free(c);
}

/* y = x and dx = dy, as the layers call them. */
static void batch_norm_in_place_equals_batch_norm(void **state) {
    (void)state;
    int64_t b = 2, t = 150, c = 19, n = b * t * c;
    float *x = fixture_floats(n, -1, 1), *y = fixture_floats(n, NAN, NAN), *dy = fixture_floats(n, -1, 1),
          *dx = fixture_floats(n, NAN, NAN), *in_place = fixture_floats(n, 0, 0), *vectors = fixture_floats(8 * c, 0.5, 1);
    memcpy(in_place, x, (size_t)n * sizeof *x);
#define VECTOR(i) tensor_1d(vectors + (i)*c, DTYPE_F32, c)
    struct batchnorm_args f = {.x = tensor_3d(x, DTYPE_F32, b, t, c),
                               .weight = VECTOR(0),
                               .bias = VECTOR(1),
                               .y = tensor_3d(y, DTYPE_F32, b, t, c),
                               .save_mean = VECTOR(2),
                               .save_rstd = VECTOR(3),
                               .running_mean = VECTOR(4),
                               .running_var = VECTOR(5),
                               .eps = 1e-5f,
                               .momentum = 0.1f,
                               .relu = true};
    struct err err = {0};
    fixture_check(op_batchnorm(fixture.stream, &f, &err), &err);
    struct batchnorm_args same = f;
    same.x.data = same.y.data = in_place;
    fixture_check(op_batchnorm(fixture.stream, &same, &err), &err);
    assert_memory_equal(in_place, y, (size_t)n * sizeof *y);
    struct batchnorm_backward_args g = {SAME_MEMBERS(f, x, y, weight, save_mean, save_rstd),
                                        .dy = tensor_3d(dy, DTYPE_F32, b, t, c),
                                        .dx = tensor_3d(dx, DTYPE_F32, b, t, c),
                                        .dweight = VECTOR(6),
                                        .dbias = VECTOR(7),
                                        .relu = true};
#undef VECTOR
    fixture_check(op_batchnorm_backward(fixture.stream, &g, &err), &err);
    g.dx = g.dy;
    fixture_check(op_batchnorm_backward(fixture.stream, &g, &err), &err);
    assert_memory_equal(dx, dy, (size_t)n * sizeof *dx);
    float *all[] = {x, y, dy, dx, in_place, vectors};
    for (int i = 0; i < 6; i++)
        free(all[i]);
}

/* A step whose gradients are not finite is skipped; it must not have moved the statistics that inference uses. */
static void running_statistics_move_only_in_finite_channels(void **state) {
    (void)state;
    enum { ROWS = 150, CHANNELS = 5 };
    static const float bad[] = {NAN, INFINITY, 3e38f}; /* the squares of the last overflow */
    float *x = fixture_floats(ROWS * CHANNELS, -1, 1), *y = fixture_floats(ROWS * CHANNELS, 0, 0),
          *vectors = fixture_floats(6 * CHANNELS, 0.5, 1), before[2 * CHANNELS];
    for (int i = 0; i < 3; i++)
        x[(40 + i) * CHANNELS + i] = bad[i];
#define VECTOR(i) tensor_1d(vectors + (i)*CHANNELS, DTYPE_F32, CHANNELS)
    struct batchnorm_args a = {.x = tensor_3d(x, DTYPE_F32, 1, ROWS, CHANNELS),
                               .weight = VECTOR(0),
                               .bias = VECTOR(1),
                               .y = tensor_3d(y, DTYPE_F32, 1, ROWS, CHANNELS),
                               .save_mean = VECTOR(2),
                               .save_rstd = VECTOR(3),
                               .running_mean = VECTOR(4),
                               .running_var = VECTOR(5),
                               .eps = 1e-5f,
                               .momentum = 0.1f};
#undef VECTOR
    struct err err = {0};
    memcpy(before, vectors + 4 * CHANNELS, sizeof before);
    fixture_check(op_batchnorm(fixture.stream, &a, &err), &err);
    fixture_check(stream_sync(fixture.stream, &err), &err);
    const float *after = vectors + 4 * CHANNELS;
    for (int i = 0; i < 2 * CHANNELS; i++) {
        bool finite = i % CHANNELS >= 3;
        assert_true(isfinite(after[i]));
        assert_int_equal(after[i] != before[i], finite);
    }
    free(x);
    free(y);
    free(vectors);
}

/* Statistics of leaves, kept and applied afterwards in order, move the running ones to the bits of calls that move them at once; a
 * channel that is not finite in one leaf skips that leaf. */
static void leaf_statistics_applied_in_order_equal_running_ones(void **state) {
    (void)state;
    enum { LEAVES = 4, ROWS = 150, CHANNELS = 19, N = LEAVES * ROWS * CHANNELS };
    float *x = fixture_floats(N, -1, 1), *y = fixture_floats(N, 0, 0), *other = fixture_floats(N, 0, 0);
    float *vectors = fixture_floats(4 * CHANNELS, 0.5, 1), *leaves = fixture_floats(2 * LEAVES * CHANNELS, 7, 8);
    float at_once[2 * CHANNELS], later[2 * CHANNELS];
    struct err err = {0};
    for (int i = 0; i < 2 * CHANNELS; i++)
        at_once[i] = later[i] = 1 + (float)i / 8;
    x[(2 * ROWS + 40) * CHANNELS + 3] = INFINITY;
#define VECTOR(i) tensor_1d(vectors + (i)*CHANNELS, DTYPE_F32, CHANNELS)
    for (int64_t v = 0; v < LEAVES; v++) {
        struct batchnorm_args a = {.x = tensor_3d(x + v * ROWS * CHANNELS, DTYPE_F32, 1, ROWS, CHANNELS),
                                   .weight = VECTOR(0),
                                   .bias = VECTOR(1),
                                   .y = tensor_3d(y + v * ROWS * CHANNELS, DTYPE_F32, 1, ROWS, CHANNELS),
                                   .save_mean = VECTOR(2),
                                   .save_rstd = VECTOR(3),
                                   .running_mean = tensor_1d(at_once, DTYPE_F32, CHANNELS),
                                   .running_var = tensor_1d(at_once + CHANNELS, DTYPE_F32, CHANNELS),
                                   .eps = 1e-5f,
                                   .momentum = 0.1f};
        struct batchnorm_args leaf = a;
        leaf.y.data = other + v * ROWS * CHANNELS;
        leaf.running_mean.data = later;
        leaf.running_var.data = later + CHANNELS;
        leaf.leaf_mean = tensor_1d(leaves + 2 * v * CHANNELS, DTYPE_F32, CHANNELS);
        leaf.leaf_var = tensor_1d(leaves + (2 * v + 1) * CHANNELS, DTYPE_F32, CHANNELS);
        fixture_check(op_batchnorm(fixture.stream, &a, &err), &err);
        fixture_check(op_batchnorm(fixture.stream, &leaf, &err), &err);
    }
#undef VECTOR
    assert_memory_equal(y, other, N * sizeof *y);
    for (int i = 0; i < 2 * CHANNELS; i++)
        assert_true(later[i] == 1 + (float)i / 8);
    struct running_statistics_args apply = {.running = tensor_1d(later, DTYPE_F32, 2 * CHANNELS),
                                            .leaves = tensor_2d(leaves, DTYPE_F32, LEAVES, 2 * CHANNELS),
                                            .momentum = 0.1f};
    fixture_check(op_running_statistics(fixture.stream, &apply, &err), &err);
    assert_memory_equal(at_once, later, sizeof later);
    float *all[] = {x, y, other, vectors, leaves};
    for (int i = 0; i < 5; i++)
        free(all[i]);
}

/* While live windows run, a normal stream of a CPU sleeps before an op until it has slept nine tenths of a second; a stream of high
 * priority never does, and other devices run streams by priority. */
static void normal_streams_park_while_live_windows_run(void **state) {
    (void)state;
    struct err err = {0};
    struct device_info info;
    struct stream *urgent = NULL;
    float x[4] = {0}, y[4] = {0};
    const struct sigmoid_args a = {.x = tensor_2d(x, DTYPE_F32, 1, 4), .y = tensor_2d(y, DTYPE_F32, 1, 4)};
    device_describe(fixture.device, &info);
    if (info.is_async)
        skip_because(SKIP_HARDWARE, "this device runs its streams by priority");
    fixture_check(stream_open(fixture.device, STREAM_HIGH, &urgent, &err), &err);
    fixture_check(op_sigmoid(fixture.stream, &a, &err), &err);
    double before = stream_parked_s(fixture.stream);
    device_live_begin(fixture.device);
    device_live_begin(fixture.device);
    device_live_end(fixture.device); /* one of two */
    fixture_check(op_sigmoid(urgent, &a, &err), &err);
    assert_true(stream_parked_s(urgent) == 0);
    fixture_check(op_sigmoid(fixture.stream, &a, &err), &err); /* goes on although they run still */
    double parked = stream_parked_s(fixture.stream);
    assert_true(parked - before > 0.85);
    device_live_end(fixture.device);
    fixture_check(op_sigmoid(fixture.stream, &a, &err), &err);
    assert_true(stream_parked_s(fixture.stream) == parked);
    stream_close(urgent);
}

static void streams_park_for_the_live_windows_of_another_process(void **state) {
    (void)state;
    struct device *device = NULL;
    struct stream *stream = NULL;
    struct device_info info;
    int count = 1; /* of the other process */
    float x[4] = {0}, y[4] = {0};
    struct err err = {0};
    const struct sigmoid_args a = {.x = tensor_2d(x, DTYPE_F32, 1, 4), .y = tensor_2d(y, DTYPE_F32, 1, 4)};
    device_describe(fixture.device, &info);
    if (info.is_async)
        skip_because(SKIP_HARDWARE, "this device runs its streams by priority");
    fixture_check(device_open("cpu", info.threads, &device, &err), &err);
    device_share_live(device, &count, false);
    fixture_check(stream_open(device, STREAM_NORMAL, &stream, &err), &err);
    fixture_check(op_sigmoid(stream, &a, &err), &err);
    const double parked = stream_parked_s(stream);
    assert_true(parked > 0.85);
    __atomic_store_n(&count, 0, __ATOMIC_RELEASE);
    fixture_check(op_sigmoid(stream, &a, &err), &err);
    assert_true(stream_parked_s(stream) == parked);
    stream_close(stream);
    device_close(device);
}

/* A matrix product and the convolution of one tap that stands for it add up in the same order. */
static void weights_of_a_version_give_the_bits_of_weights_without(void **state) {
    (void)state;
    static const int64_t shapes[][4] = {{1, 16, 48, 230}, {21, 16, 96, 48}, {3, 48, 256, 17}, {2, 240, 33, 513}, {5, 32, 2, 2}};
    struct device_info info;
    device_describe(fixture.device, &info);
    if (info.is_async)
        skip_because(SKIP_HARDWARE, "a promise of processors");
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int stride = 1; stride <= 2; stride++) {
            const int64_t b = shapes[s][0], t = shapes[s][1], ci = shapes[s][2], co = shapes[s][3], n = b * t * co;
            float *x = fixture_floats(b * t * ci, -1, 1), *w = fixture_floats(co * ci, -1, 1), *bias = fixture_floats(co, -1, 1);
            float *y[2] = {fixture_floats(n, NAN, NAN), fixture_floats(n, NAN, NAN)};
            for (uint64_t v = 0; v < 2; v++) {
                struct err err = {0};
                struct linear_args product = {.x = tensor_3d(x, DTYPE_F32, b, t, ci),
                                              .w = tensor_2d(w, DTYPE_F32, co, ci),
                                              .bias = tensor_1d(bias, DTYPE_F32, co),
                                              .y = tensor_3d(y[v], DTYPE_F32, b, t, co),
                                              .weight_version = v * (10 * s + (uint64_t)stride)};
                struct conv1d_args halving = {SAME_MEMBERS(product, bias, y, weight_version), .stride = 2};
                halving.x = tensor_3d(x, DTYPE_F32, b, 2 * t, ci / 2);
                halving.w = tensor_3d(w, DTYPE_F32, co, ci / 2, 2);
                if (stride == 1)
                    fixture_check(op_linear(fixture.stream, &product, &err), &err);
                else if (ci % 2 == 0) /* pairs of samples */
                    fixture_check(op_conv1d(fixture.stream, &halving, &err), &err);
            }
            assert_memory_equal(y[0], y[1], (size_t)n * sizeof **y);
            free(x);
            free(w);
            free(bias);
            free(y[0]);
            free(y[1]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropout_keeps_what_the_counter_says),
        cmocka_unit_test(dropout_drops_its_share_and_other_counters_drop_others),
        cmocka_unit_test(dropout_of_parts_in_place_and_on_any_threads_is_the_same),
        cmocka_unit_test(dropout_refuses_rates_outside_0_to_1),
        cmocka_unit_test(normal_streams_park_while_live_windows_run),
        cmocka_unit_test(streams_park_for_the_live_windows_of_another_process),
        cmocka_unit_test(one_bad_number_makes_a_gradient_not_finite),
        cmocka_unit_test(an_update_from_device_memory_is_the_same_and_a_bad_gradient_changes_nothing),
        cmocka_unit_test(rows_are_updated_as_each_alone),
        cmocka_unit_test(concatenation_through_slices_keeps_every_number),
        cmocka_unit_test(batch_norm_in_place_equals_batch_norm),
        cmocka_unit_test(running_statistics_move_only_in_finite_channels),
        cmocka_unit_test(weights_of_a_version_give_the_bits_of_weights_without),
        cmocka_unit_test(leaf_statistics_applied_in_order_equal_running_ones),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
