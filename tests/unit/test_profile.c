/* profile: the ops of a stream are counted and timed one by one, by phase and shape, and their work is that of their operands. */
#include "kernels/profile.h"

#include <dlfcn.h>

#include "kernels/op.h"
#include "nn/replay.h"
#include "unit/cmocka_all.h"

enum { B = 2, T = 32, IN = 16, OUT = 8, ROUNDS = 300 }; /* more rounds than events are kept for */

struct bench {
    struct device *device;
    struct stream *s;
    struct profile *profile;
    float *data;
    struct linear_args a;
};

static int set_up(void **state) {
    struct bench *b = calloc(1, sizeof *b);
    const char *name = getenv("BRR_TEST_DEVICE");
    void *data = NULL;
    *state = b;
    if (device_open(name ? name : "cpu", 1, &b->device, NULL) || stream_open(b->device, STREAM_NORMAL, &b->s, NULL) ||
        device_alloc(b->device, 4096 * sizeof(float), &data, NULL) || !(b->profile = profile_new()))
        return -1;
    b->data = data;
    b->a = (struct linear_args){.x = tensor_3d(b->data, DTYPE_F32, B, T, IN),
                                .w = tensor_2d(b->data + B * T * IN, DTYPE_F32, OUT, IN),
                                .y = tensor_3d(b->data + 2048, DTYPE_F32, B, T, OUT)};
    stream_profile(b->s, b->profile);
    return 0;
}

static int tear_down(void **state) {
    struct bench *b = *state;
    profile_free(b->profile);
    stream_close(b->s);
    device_free(b->device, b->data);
    device_close(b->device);
    free(b);
    return 0;
}

static void each_op_is_a_row_of_its_phase_with_its_time_and_work(void **state) {
    struct bench *b = *state;
    struct profile_row rows[4];
    const struct eltwise_args relu = {.kind = ELTWISE_RELU, .a = b->a.y, .y = b->a.y};
    for (int i = 0; i < ROUNDS; i++) {
        stream_phase(b->s, "forward");
        assert_int_equal(op_linear(b->s, &b->a, NULL), 0);
        stream_phase(b->s, "after");
        assert_int_equal(op_linear(b->s, &b->a, NULL), 0);
        stream_phase(b->s, NULL);
        assert_int_equal(op_eltwise(b->s, &relu, NULL), 0);
    }
    assert_int_equal(profile_rows(b->profile, rows, 4, NULL), 3);
    unsigned seen = 0;
    for (int i = 0; i < 3; i++) {
        const bool linear = !strcmp(rows[i].op, "linear");
        assert_int_equal(rows[i].calls, ROUNDS);
        assert_true(rows[i].seconds > 0 && (!i || rows[i].seconds <= rows[i - 1].seconds));
        seen |= !strcmp(rows[i].phase, "forward") ? 1 : !strcmp(rows[i].phase, "after") ? 2 : !*rows[i].phase ? 4 : 8;
        assert_true(rows[i].work.flops_act == (linear ? 2.0 * B * T * IN * OUT * ROUNDS : 0));
        assert_true(rows[i].work.bytes == 4.0 * ROUNDS * (linear ? B * T * IN + OUT * IN + B * T * OUT : 2 * B * T * OUT));
        assert_string_equal(rows[i].shapes, linear ? "(2,32,16) (8,16)" : "(2,32,8) (2,32,8)");
    }
    assert_int_equal(seen, 7);
    profile_reset(b->profile);
    assert_int_equal(profile_rows(b->profile, rows, 4, NULL), 0);
}

static int run_twice(void *ctx, struct err *err) {
    struct bench *b = ctx;
    int rc = op_linear(b->s, &b->a, err);
    return rc ? rc : op_linear(b->s, &b->a, err);
}

static void work_that_would_be_recorded_runs_op_by_op(void **state) {
    struct bench *b = *state;
    struct replay replay = {0};
    struct profile_row row;
    assert_false(stream_records(b->s));
    for (int i = 0; i < 4; i++)
        assert_int_equal(replay_run(&replay, b->s, &(struct replay_key){b, b, 1, 0}, &(struct replay_body){run_twice, b}, NULL), 0);
    assert_int_equal(profile_rows(b->profile, &row, 1, NULL), 1);
    assert_int_equal(row.calls, 8);
    replay_done(&replay);
    stream_profile(b->s, NULL);
    assert_int_equal(op_linear(b->s, &b->a, NULL), 0);
    assert_int_equal(profile_rows(b->profile, &row, 1, NULL), 1);
    assert_int_equal(row.calls, 8);
}

static void the_table_names_its_columns_and_floors(void **state) {
    struct bench *b = *state;
    const struct rates rates = {.bytes = 1e10, .flops = 1e11, .flops_bf16 = 2e11};
    struct str table;
    str_init(&table, 1 << 16);
    assert_int_equal(op_linear(b->s, &b->a, NULL), 0);
    assert_int_equal(profile_table(b->profile, &rates, &table, NULL), 0);
    assert_non_null(strstr(str_cstr(&table), "op                         phase      operands"));
    assert_non_null(strstr(str_cstr(&table), "\nlinear                                (2,32,16) (8,16)"));
    assert_non_null(strstr(str_cstr(&table), "\n1 rows, "));
    str_done(&table);
    assert_true(rates_floor(&rates, &(struct rates_work){.bytes = 1e10, .flops_act = 4e11}, DTYPE_F32) == 4);
    assert_true(rates_floor(&rates, &(struct rates_work){.bytes = 1e10, .flops_act = 4e11}, DTYPE_BF16) == 2);
}

/* The emulated GPU counts the ranges that a profiler would see. */
static void ranges_of_ops_and_phases_end(void **state) {
    struct bench *b = *state;
    void *library = getenv("BRR_CUDA_LIBRARY") ? dlopen(getenv("BRR_CUDA_LIBRARY"), RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void (*ranges)(long ret[2]) = NULL;
    if (library)
        *(void **)&ranges = dlsym(library, "emulator_ranges");
    long before[2] = {0}, after[2] = {3, 0};
    if (ranges)
        ranges(before);
    stream_phase(b->s, "forward");
    stream_phase(b->s, "backward");
    assert_int_equal(op_linear(b->s, &b->a, NULL), 0);
    stream_phase(b->s, NULL);
    stream_phase(b->s, NULL);
    if (ranges)
        ranges(after);
    assert_int_equal(after[0] - before[0], 3);
    assert_int_equal(after[1], 0);
}

int main(void) {
#define PROFILE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        PROFILE_TEST(each_op_is_a_row_of_its_phase_with_its_time_and_work), PROFILE_TEST(work_that_would_be_recorded_runs_op_by_op),
        PROFILE_TEST(the_table_names_its_columns_and_floors), PROFILE_TEST(ranges_of_ops_and_phases_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
