/* op_windows against lib/windows's normaliser, bit for bit, with every kind of length and channel count. BRR_TEST_DEVICE names
 * another device than the CPU. */

#include "base/rng.h"
#include "eeg/half.h"
#include "kernels/op.h"
#include "unit/cmocka_all.h"
#include "windows/window.h"

enum { ROWS = 3000, T = 512, B = 7, MOST_CHANNELS = 64 };

static struct err err;

static void ok(int rc) {
    if (rc)
        fail_msg("%s", err.message);
}

struct place {
    struct device *device;
    struct stream *stream;
    void *rows, *row_labels, *first, *valid, *x, *labels;
};

static void *take(struct place *p, size_t bytes) {
    void *data = NULL;
    ok(device_alloc(p->device, bytes, &data, &err));
    return data;
}

static void open_place(struct place *p) {
    const char *device = getenv("BRR_TEST_DEVICE");
    ok(device_open(device ? device : "cpu", 0, &p->device, &err));
    ok(stream_open(p->device, STREAM_NORMAL, &p->stream, &err));
    p->rows = take(p, (size_t)ROWS * WINDOWS_MAX_COLUMNS * sizeof(uint16_t));
    p->row_labels = take(p, ROWS);
    p->first = take(p, B * sizeof(int64_t));
    p->valid = take(p, B * sizeof(int32_t));
    p->x = take(p, (size_t)B * T * WINDOWS_MAX_COLUMNS * sizeof(float));
    p->labels = take(p, (size_t)B * T);
}

static void close_place(struct place *p) {
    void *all[] = {p->rows, p->row_labels, p->first, p->valid, p->x, p->labels};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free(p->device, all[i]);
    stream_close(p->stream);
    device_close(p->device);
}

static struct windows_args args_of(const struct place *p, int channels) {
    return (struct windows_args){SAME_MEMBERS(*p, rows, row_labels, first, valid), .x = tensor_3d(p->x, DTYPE_F32, B, T, channels),
                                 .labels = tensor_2d(p->labels, DTYPE_U8, B, T)};
}

static void compare(struct place *p, int channels) {
    static uint16_t rows[ROWS * MOST_CHANNELS];
    static float got[B * T * MOST_CHANNELS], want[T * MOST_CHANNELS];
    static uint8_t row_labels[ROWS], labels[B * T], empty[T];
    static const int64_t first[B] = {0, 17, 2488, 5, 900, 33, 1};
    static const int32_t valid[B] = {T, T, T, T - 3, 8, 1, 0};
    struct rng rng;
    rng_init(&rng, 4, RNG_SYNTH, (uint32_t)channels);
    for (int i = 0; i < ROWS * channels; i++) { /* subnormals, a flat channel, outliers that are clipped */
        double v = rng_normal(&rng) * 80;
        v = i % channels == 1 ? 3 : i % 97 == 0 ? v * 300 : i % 89 == 0 ? v * 1e-8 : v;
        rows[i] = half_from_f32((float)fmax(-60000, fmin(60000, v))); /* as the front end rounds */
    }
    for (int i = 0; i < ROWS; i++)
        row_labels[i] = (uint8_t)(i % 3);
    struct windows_args a = args_of(p, channels);
    ok(stream_to_device(p->stream, p->rows, rows, sizeof(uint16_t) * ROWS * (size_t)channels, &err));
    ok(stream_to_device(p->stream, p->row_labels, row_labels, sizeof row_labels, &err));
    ok(stream_to_device(p->stream, p->first, first, sizeof first, &err));
    ok(stream_to_device(p->stream, p->valid, valid, sizeof valid, &err));
    ok(op_windows(p->stream, &a, &err));
    ok(stream_to_host(p->stream, got, p->x, sizeof(float) * (size_t)(B * T * channels), &err));
    ok(stream_to_host(p->stream, labels, p->labels, sizeof labels, &err));
    ok(stream_sync(p->stream, &err));
    for (int i = 0; i < B; i++) {
        window_normalise(rows + first[i] * channels, valid[i], channels, T, false, want);
        assert_memory_equal(got + i * T * channels, want, sizeof(float) * (size_t)(T * channels));
        assert_memory_equal(labels + i * T, row_labels + first[i], (size_t)valid[i]);
        assert_memory_equal(labels + i * T + valid[i], empty, (size_t)(T - valid[i]));
    }
}

static void windows_are_those_of_the_loader_bit_for_bit(void **state) {
    static const int channels[] = {1, 2, 19, 22, 33, MOST_CHANNELS};
    struct place p;
    (void)state;
    open_place(&p);
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++)
        compare(&p, channels[i]);
    close_place(&p);
}

/* Columns that need no normalisation are cut out as they are. */
static void raw_windows_are_cut_bit_for_bit(void **state) {
    static uint16_t rows[ROWS * WINDOWS_MAX_COLUMNS];
    static float got[2 * T * WINDOWS_MAX_COLUMNS], want[T * WINDOWS_MAX_COLUMNS];
    static const int64_t first[B] = {3, 1000};
    static const int32_t valid[B] = {T, 77};
    static const int columns[] = {38, WINDOWS_MAX_COLUMNS};
    struct place p;
    struct rng rng;
    (void)state;
    open_place(&p);
    rng_init(&rng, 5, RNG_SYNTH, 0);
    for (int k = 0; k < 2; k++) {
        int n = columns[k];
        for (int i = 0; i < ROWS * n; i++)
            rows[i] = half_from_f32((float)(rng_normal(&rng) * (i % 89 ? 2 : 1e-7)));
        struct windows_args a = args_of(&p, n);
        a.raw = true;
        a.x = tensor_3d(p.x, DTYPE_F32, 2, T, n);
        a.labels = tensor_2d(p.labels, DTYPE_U8, 2, T);
        ok(stream_to_device(p.stream, p.rows, rows, sizeof(uint16_t) * ROWS * (size_t)n, &err));
        ok(stream_to_device(p.stream, p.first, first, sizeof first, &err));
        ok(stream_to_device(p.stream, p.valid, valid, sizeof valid, &err));
        ok(op_windows(p.stream, &a, &err));
        ok(stream_to_host(p.stream, got, p.x, sizeof(float) * (size_t)(2 * T * n), &err));
        ok(stream_sync(p.stream, &err));
        for (int i = 0; i < 2; i++) {
            window_cut(rows + first[i] * n, valid[i], (struct window_columns){n, n}, T, false, want);
            assert_memory_equal(got + i * T * n, want, sizeof(float) * (size_t)(T * n));
        }
    }
    close_place(&p);
}

static void wrong_arguments_are_named(void **state) {
    struct place p;
    (void)state;
    open_place(&p);
    struct windows_args a = args_of(&p, 19), wide = args_of(&p, MOST_CHANNELS), no_rows = a, short_labels = a;
    wide.x = tensor_3d(p.x, DTYPE_F32, 1, 8, MOST_CHANNELS + 1);
    wide.labels = tensor_2d(p.labels, DTYPE_U8, 1, 8);
    no_rows.rows = NULL;
    short_labels.labels.dim[1]--;
    assert_int_equal(op_windows(p.stream, &wide, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "64"));
    assert_int_equal(op_windows(p.stream, &no_rows, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "rows"));
    assert_int_equal(op_windows(p.stream, &short_labels, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "labels"));
    close_place(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_those_of_the_loader_bit_for_bit),
        cmocka_unit_test(raw_windows_are_cut_bit_for_bit),
        cmocka_unit_test(wrong_arguments_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
