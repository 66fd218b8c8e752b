/* Devices with different numbers of threads in one process: an op computes on the lanes of its stream, and is
 * refused on a thread that has another number of them, before it touches anything. */
#include "kernels/op.h"
#include "unit/cmocka_all.h"

enum { ROWS = 64, WIDTH = 24, GROUPS = 3, FIRST = 1, SECOND = 4, ROUNDS = 20 };

static const struct mlp_shape shape = {2, 128, 256};

/* Ops that keep memory for each lane. */
struct work {
    int threads;
    struct device *device;
    struct stream *stream;
    float x[ROWS * WIDTH], weight[WIDTH], bias[WIDTH], y[ROWS * WIDTH];
    float *params, inputs[GROUPS * ROWS * 2], outputs[GROUPS * ROWS];
    struct err err;
};

static int open_work(struct work *w, int threads) {
    int64_t count = GROUPS * mlp_count(shape);
    *w = (struct work){.threads = threads};
    w->params = calloc((size_t)count, sizeof *w->params);
    assert_non_null(w->params);
    for (int64_t i = 0; i < count; i++)
        w->params[i] = (float)(i % 17 - 8) / 64;
    for (int i = 0; i < ROWS * WIDTH; i++)
        w->x[i] = (float)(i * 7 % 31);
    for (int i = 0; i < WIDTH; i++)
        w->weight[i] = 1;
    for (int i = 0; i < GROUPS * ROWS * 2; i++)
        w->inputs[i] = (float)(i % 13) / 13;
    int rc = device_open("cpu", threads, &w->device, &w->err);
    return rc ? rc : stream_open(w->device, STREAM_NORMAL, &w->stream, &w->err);
}

static void close_work(struct work *w) {
    stream_close(w->stream);
    device_close(w->device);
    free(w->params);
}

static int run_norm(struct work *w) {
    const struct layernorm_args a = {.x = tensor_3d(w->x, DTYPE_F32, 1, ROWS, WIDTH),
                                     .weight = tensor_1d(w->weight, DTYPE_F32, WIDTH),
                                     .bias = tensor_1d(w->bias, DTYPE_F32, WIDTH),
                                     .y = tensor_3d(w->y, DTYPE_F32, 1, ROWS, WIDTH),
                                     .eps = 1e-5f};
    return op_layernorm(w->stream, &a, &w->err);
}

static int run_mlp(struct work *w) {
    const struct mlp_args a = {.shape = shape,
                               .params = tensor_2d(w->params, DTYPE_F32, GROUPS, mlp_count(shape)),
                               .x = tensor_3d(w->inputs, DTYPE_F32, GROUPS, ROWS, 2),
                               .y = tensor_2d(w->outputs, DTYPE_F32, GROUPS, ROWS)};
    return op_mlp(w->stream, &a, &w->err);
}

static void assert_refused(struct work *w, int rc) {
    assert_int_equal(rc, ERR_INTERNAL);
    assert_non_null(strstr(w->err.message, "a stream with 1 threads on a thread that computes with"));
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(w->y[i] == 0);
}

/* The device opened last decides, until its thread opens a stream of the other one again. */
static void two_devices_on_one_thread_are_told_apart(void **state) {
    static struct work one, many;
    struct stream *again = NULL;
    (void)state;
    assert_int_equal(open_work(&one, FIRST), 0);
    assert_int_equal(open_work(&many, SECOND), 0);
    assert_int_equal(run_norm(&many), 0);
    assert_int_equal(run_mlp(&many), 0);
    assert_refused(&one, run_norm(&one));
    assert_refused(&one, run_mlp(&one));
    assert_int_equal(stream_open(one.device, STREAM_NORMAL, &again, &one.err), 0);
    assert_int_equal(run_norm(&one), 0);
    assert_int_equal(run_mlp(&one), 0);
    assert_memory_equal(one.y, many.y, sizeof one.y);
    assert_memory_equal(one.outputs, many.outputs, sizeof one.outputs);
    stream_close(again);
    close_work(&one);
    close_work(&many);
}

struct visit {
    struct work *work;
    int norm, mlp;
};

static void *visit(void *arg) {
    struct visit *v = arg;
    struct stream *own = NULL;
    struct device *device = NULL;
    struct err err;
    if (device_open("cpu", SECOND, &device, &err) || stream_open(device, STREAM_NORMAL, &own, &err))
        return NULL;
    v->norm = run_norm(v->work);
    v->mlp = run_mlp(v->work);
    stream_close(own);
    device_close(device);
    return v;
}

static void a_stream_is_refused_on_a_thread_of_another_device(void **state) {
    static struct work one;
    struct visit v = {.work = &one};
    pthread_t thread;
    void *visited = NULL;
    (void)state;
    assert_int_equal(open_work(&one, FIRST), 0);
    assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
    pthread_join(thread, &visited);
    assert_non_null(visited);
    assert_refused(&one, v.norm);
    assert_refused(&one, v.mlp);
    assert_int_equal(run_norm(&one), 0); /* its own thread is as it was */
    close_work(&one);
}

static void *compute(void *arg) {
    struct work *w = arg;
    int rc = open_work(w, w->threads);
    for (int i = 0; i < ROUNDS && !rc; i++) {
        rc = run_norm(w);
        rc = rc ? rc : run_mlp(w);
    }
    close_work(w);
    return rc ? NULL : w;
}

static void two_devices_compute_side_by_side_with_the_same_bits(void **state) {
    static struct work works[2] = {{.threads = FIRST}, {.threads = SECOND}};
    pthread_t threads[2];
    void *done[2] = {0};
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compute, &works[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &done[i]);
    assert_non_null(done[0]);
    assert_non_null(done[1]);
    assert_memory_equal(works[0].y, works[1].y, sizeof works[0].y);
    assert_memory_equal(works[0].outputs, works[1].outputs, sizeof works[0].outputs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_devices_on_one_thread_are_told_apart),
        cmocka_unit_test(a_stream_is_refused_on_a_thread_of_another_device),
        cmocka_unit_test(two_devices_compute_side_by_side_with_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
