/* test_weights: copies of weights in the form that products read. A copy serves until the version changes, in both directions of a
 * projection and of a convolution; recorded work copies weights that may change itself, and sees each change, unless it says that
 * other work has done so. Results are compared bit for bit with calls of version 0, which copy every time. An emulated GPU also
 * counts kernels. Exits 77 without a GPU (or library), 1 when something differs. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/op.h"
#include "tests/seed.h"

enum { ROWS = 24, IN = 20, OUT = 17, TAPS = 3, WEIGHTS = OUT * IN * TAPS, SIDE = 32 };

static struct device *device;
static struct stream *s;
static struct err err;
static struct rng rng;
static int failures;
static bool has_bf16;

/* Device memory: weights (both ops read the front), bias, input, gradient, and results of the ops and of the same at version 0. */
static float *w, *bias;
static void *x, *dy, *y[2], *dx[2];

static void (*counts)(long ret[3]);
static long kernels(void) {
    long now[3] = {0};
    if (counts)
        counts(now);
    return now[0];
}

static long (*recorded_counts)(void);
static long kernels_recorded(void) { return recorded_counts ? recorded_counts() : 0; }

static void check(bool ok, const char *what) {
    failures += !ok;
    printf("%-6s %s%s%s\n", ok ? "ok" : "FAILED", what, err.code ? ": " : "", err.message);
    err = (struct err){0};
}

static int fill(void *to, size_t floats) {
    float host[ROWS * SIDE > WEIGHTS ? ROWS * SIDE : WEIGHTS];
    for (size_t i = 0; i < floats; i++)
        host[i] = (float)rng_normal(&rng);
    int rc = stream_to_device(s, to, host, floats * sizeof *host, &err);
    return rc ? rc : stream_sync(s, &err);
}

/* Random bits as bf16 would be NaN now and then: the upper halves of floats. */
static int fill_act(void *to, enum dtype dtype) {
    if (dtype == DTYPE_F32)
        return fill(to, (size_t)ROWS * SIDE);
    uint16_t host[ROWS * SIDE];
    for (size_t i = 0; i < (size_t)ROWS * SIDE; i++) {
        float f = (float)rng_normal(&rng);
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        host[i] = (uint16_t)(bits >> 16);
    }
    int rc = stream_to_device(s, to, host, sizeof host, &err);
    return rc ? rc : stream_sync(s, &err);
}

struct call {
    bool convolution;
    enum dtype dtype;
};

static struct tensor act_of(void *data, const struct call *c, int64_t channels) {
    struct tensor t = tensor_3d(data, c->dtype, 2, ROWS / 2, channels);
    t.ld = SIDE;
    return t;
}

/* Forward into y[to], gradient of the input into dx[to]. */
static int run(const struct call *c, int to, uint64_t version) {
    struct tensor in = act_of(x, c, IN), out = act_of(y[to], c, OUT), back = act_of(dy, c, OUT), grad = act_of(dx[to], c, IN);
    struct tensor b = tensor_1d(bias, DTYPE_F32, OUT);
    int rc;
    if (c->convolution) {
        struct tensor taps = tensor_3d(w, DTYPE_F32, OUT, IN, TAPS);
        struct conv1d_args a = {.x = in, .w = taps, .bias = b, .y = out, .stride = 1, .pad = 1, .weight_version = version};
        struct conv1d_backward_args g = {
            .x = in, .w = taps, .dy = back, .dx = grad, .stride = 1, .pad = 1, .weight_version = version};
        rc = op_conv1d(s, &a, &err);
        return rc ? rc : op_conv1d_backward(s, &g, &err);
    }
    struct tensor map = tensor_2d(w, DTYPE_F32, OUT, IN);
    struct linear_args a = {.x = in, .w = map, .bias = b, .y = out, .weight_version = version};
    struct linear_backward_args g = {.x = in, .w = map, .dy = back, .dx = grad, .weight_version = version};
    rc = op_linear(s, &a, &err);
    return rc ? rc : op_linear_backward(s, &g, &err);
}

/* Compares the results of run(c, 0, …) with those of version 0 computed again. */
static bool is_right(const struct call *c) {
    size_t bytes = (size_t)ROWS * SIDE * dtype_bytes(c->dtype);
    static char host[4][ROWS * SIDE * sizeof(float)];
    const void *const from[] = {y[0], y[1], dx[0], dx[1]};
    int rc = run(c, 1, 0);
    for (int i = 0; !rc && i < 4; i++)
        rc = stream_to_host(s, host[i], from[i], bytes, &err);
    rc = rc ? rc : stream_sync(s, &err);
    return !rc && !memcmp(host[0], host[1], bytes) && !memcmp(host[2], host[3], bytes);
}

static int new_weights(void) {
    int rc = fill(w, WEIGHTS);
    return rc ? rc : fill(bias, OUT);
}

/* How many kernels the copies of one pass are: each layout once, and the bias in bf16; F32 projections read weights as they are. */
static long copies_of(const struct call *c) { return (c->convolution ? 2 : c->dtype == DTYPE_BF16) + (c->dtype == DTYPE_BF16); }

static void op_by_op(const struct call *c, uint64_t version) {
    long cost[3] = {0};
    bool right = !new_weights() && !run(c, 0, version) && is_right(c); /* memory has grown */
    for (int i = 0; right && i < 3; i++) {                             /* new weights, the same again, new ones */
        right = i == 1 || !new_weights();
        long before = kernels();
        right = right && !run(c, 0, version + 1 + (i == 2));
        cost[i] = kernels() - before;
        right = right && is_right(c);
    }
    check(right, "weights of a new version are used");
    if (counts)
        check(right && cost[0] - cost[1] == copies_of(c) && cost[2] == cost[0], "and are copied once for each version");
}

/* Recorded twice over, as two micro-batches, and run with other weights each time; between them op by op. */
static void recorded(const struct call *c, uint64_t version) {
    struct device_info info;
    struct graph *graph = NULL;
    device_describe(device, &info);
    if (!info.has_graphs)
        return;
    bool right = !run(c, 0, version) && !stream_record(s, &err);
    if (right) {
        int rc = run(c, 0, version);
        rc = rc ? rc : run(c, 0, version);
        right = !stream_record_end(s, !rc, &graph, &err) && !rc;
    }
    for (uint64_t i = 1; right && i < 4; i++) {
        right = !new_weights() && !graph_run(graph, s, &err) && is_right(c);
        if (i == 2) { /* the same weights, op by op, after the recording has copied them and before it does again */
            right = right && !run(c, 0, version + i) && is_right(c);
            right = right && !new_weights() && !run(c, 0, version + i + 1) && is_right(c);
            right = right && !graph_run(graph, s, &err) && is_right(c);
        }
    }
    graph_free(graph);
    check(right, "recorded work sees weights that change");
}

static int record_one(const struct call *c, uint64_t version, struct graph **ret) {
    int rc = stream_record(s, &err);
    if (rc)
        return rc;
    rc = run(c, 0, version);
    int ended = stream_record_end(s, !rc, ret, rc ? NULL : &err);
    return rc ? rc : ended;
}

/* Two recordings, of which the second says that the first has always run before it: it copies nothing. Another recording says that
 * weights will not have changed. */
static void recorded_unchanged(const struct call *c, uint64_t version) {
    struct device_info info;
    struct graph *first = NULL, *second = NULL, *constant = NULL;
    device_describe(device, &info);
    if (!info.has_graphs)
        return;
    bool right = !run(c, 0, version) && !record_one(c, version, &first) && !record_one(c, version | WEIGHTS_UNCHANGED, &second);
    for (int i = 0; right && i < 3; i++) {
        right = !new_weights() && !graph_run(first, s, &err) && !graph_run(second, s, &err) && is_right(c);
        right = right && !run(c, 0, version + 1 + (uint64_t)i) && is_right(c); /* op by op between them */
        right = right && !graph_run(second, s, &err) && is_right(c);
    }
    long before = kernels_recorded();
    right = right && !graph_run(first, s, &err);
    long with = kernels_recorded() - before;
    right = right && !graph_run(second, s, &err);
    long without = kernels_recorded() - before - with;
    check(right, "recorded work that follows other work uses its copies");
    if (recorded_counts)
        check(right && with - without == copies_of(c), "and makes none");
    right = !run(c, 0, version + 10) && !record_one(c, (version + 10) | WEIGHTS_CONSTANT, &constant);
    before = kernels_recorded();
    right = right && !graph_run(constant, s, &err) && is_right(c);
    check(right && (!recorded_counts || kernels_recorded() - before == without), "recorded work of constant weights makes none");
    graph_free(first);
    graph_free(second);
    graph_free(constant);
}

static int open_all(void) {
    const char *path = getenv("BRR_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void **const acts[] = {&x, &dy, &y[0], &y[1], &dx[0], &dx[1]};
    struct device_info info;
    if (library) {
        *(void **)&counts = dlsym(library, "emulator_counts");
        *(void **)&recorded_counts = dlsym(library, "emulator_recorded_kernels");
    }
    rng_init(&rng, test_seed(), RNG_SYNTH, 2);
    int rc = device_open("cuda:0", 0, &device, &err);
    rc = rc ? rc : stream_open(device, STREAM_NORMAL, &s, &err);
    rc = rc ? rc : device_alloc(device, WEIGHTS * sizeof *w, (void **)&w, &err);
    rc = rc ? rc : device_alloc(device, OUT * sizeof *bias, (void **)&bias, &err);
    for (int i = 0; !rc && i < 6; i++)
        rc = device_alloc(device, (size_t)ROWS * SIDE * sizeof(float), acts[i], &err);
    if (!rc)
        device_describe(device, &info);
    has_bf16 = !rc && info.has_bf16;
    return rc;
}

static void close_all(void) {
    void *const all[] = {w, bias, x, dy, y[0], y[1], dx[0], dx[1]};
    for (size_t i = 0; device && i < sizeof all / sizeof *all; i++)
        device_free(device, all[i]);
    stream_close(s);
    device_close(device);
}

int main(void) {
    struct device_info info;
    if (device_probe("cuda:0", &info, &err)) {
        printf("skipped: hardware: no GPU: %s\n", err.message);
        return 77;
    }
    printf("%s: %s\n", info.name, info.description);
    err = (struct err){0};
    bool opened = !open_all();
    uint64_t version = 100;
    for (int i = 0; opened && i < (has_bf16 ? 4 : 2); i++, version += 100) {
        const struct call c = {i % 2 == 1, i / 2 ? DTYPE_BF16 : DTYPE_F32};
        printf("a %s in %s\n", c.convolution ? "convolution" : "projection", dtype_name(c.dtype));
        if (fill_act(x, c.dtype) || fill_act(dy, c.dtype)) {
            check(false, "input");
            break;
        }
        op_by_op(&c, version);
        recorded(&c, version + 50);
        recorded_unchanged(&c, version + 70);
    }
    if (!opened)
        check(false, "opening");
    close_all();
    printf("%d failed\n", failures);
    return failures ? 1 : 0;
}
