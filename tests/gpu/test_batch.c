/* test_batch: what a window's logits are does not depend on the windows beside it: eight windows one at a time, in twos, in fours
 * and all at once give the same bits, in fp32 and bf16, op by op and recorded; and weights that are replaced are used. Prints what
 * the libraries declined. BRR_TEST_MODEL=small|tiny|base|mini (default small). Exits 77 without a GPU (or library), 1 when bits
 * differ. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "gpu_model.h"
#include "kernels/op.h"
#include "tests/seed.h"

enum { WINDOWS = 8, CHANNELS = 5, RUNS = 3 /* op by op, while it is recorded, recorded */ };

static struct seizure_config config;
static int failures;

struct machine {
    struct device *device;
    struct stream *stream;
    struct seizure_net *net;
    float *x, *logits;
};

static size_t window_floats(void) { return (size_t)config.window; }

static int open_machine(struct machine *m, enum dtype precision, uint64_t seed, struct err *err) {
    struct seizure_options options = {.max_batch = WINDOWS, .precision = precision};
    size_t n = WINDOWS * window_floats(), inputs = n * (size_t)config.in_channels;
    void *x = NULL, *logits = NULL;
    float *host = calloc(inputs, sizeof *host);
    struct rng rng;
    int rc;
    *m = (struct machine){0};
    rng_init(&rng, test_seed(), RNG_SYNTH, 0);
    for (size_t i = 0; host && i < inputs; i++)
        host[i] = (float)rng_normal(&rng);
    if (!host)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    if (!(rc = device_open("cuda:0", 0, &m->device, err)) && !(rc = stream_open(m->device, STREAM_HIGH, &m->stream, err)) &&
        !(rc = seizure_new(m->device, &config, &options, &m->net, err)) &&
        !(rc = seizure_init(m->net, m->stream, seed, 0.25, err)) &&
        !(rc = device_alloc(m->device, inputs * sizeof *host, &x, err)) &&
        !(rc = device_alloc(m->device, n * sizeof *host, &logits, err)) &&
        !(rc = stream_to_device(m->stream, x, host, inputs * sizeof *host, err)))
        rc = stream_sync(m->stream, err);
    m->x = x;
    m->logits = logits;
    free(host);
    return rc;
}

static void close_machine(struct machine *m) {
    seizure_free(m->net);
    if (m->device) {
        device_free(m->device, m->x);
        device_free(m->device, m->logits);
    }
    stream_close(m->stream);
    device_close(m->device);
}

/* The logits of all windows, `rows` at a time. */
static int infer(struct machine *m, int rows, float *ret, struct err *err) {
    size_t n = window_floats();
    for (int first = 0; first < WINDOWS; first += rows) {
        struct tensor x =
            tensor_3d(m->x + (size_t)first * n * (size_t)config.in_channels, DTYPE_F32, rows, config.window, config.in_channels);
        struct tensor logits = tensor_2d(m->logits + (size_t)first * n, DTYPE_F32, rows, config.window);
        int rc = seizure_infer(m->net, m->stream, &x, &logits, err);
        if (rc)
            return rc;
    }
    int rc = stream_to_host(m->stream, ret, m->logits, WINDOWS * n * sizeof *ret, err);
    return rc ? rc : stream_sync(m->stream, err);
}

static void check(enum dtype precision) {
    static const int sizes[] = {1, 2, 4, 8};
    size_t bytes = WINDOWS * window_floats() * sizeof(float);
    float *alone = malloc(bytes), *together = malloc(bytes);
    struct machine m;
    struct err err = {0};
    int rc = alone && together ? open_machine(&m, precision, 5, &err) : err_set(&err, ERR_EXHAUSTED, "out of memory");
    rc = rc ? rc : infer(&m, 1, alone, &err);
    for (size_t i = 0; !rc && i < sizeof sizes / sizeof *sizes; i++) {
        bool same = true;
        for (int run = 0; !rc && run < RUNS; run++) {
            memset(together, 0xff, bytes);
            rc = infer(&m, sizes[i], together, &err);
            same = same && !rc && !memcmp(alone, together, bytes);
        }
        failures += !same;
        printf("%-6s %s, %d windows at once give the bits of one alone\n", same ? "ok" : "FAILED", dtype_name(precision), sizes[i]);
    }
    if (rc) {
        failures++;
        printf("FAILED %s\n", err.message);
    }
    close_machine(&m);
    free(alone);
    free(together);
}

/* The scan of heads, whose kernel may depend on how many blocks there are: rows of a large batch against each alone. */
static void check_scan(enum dtype dtype) {
    enum { B = 64, L = 83, H = 4, D = 64 * H, N = 16 };
    size_t each = dtype_bytes(dtype), act = (size_t)(B * L * (D + H + 2 * N)) * each, out = (size_t)(B * L * D) * each;
    struct machine m = {0};
    struct err err = {0};
    struct rng rng;
    int rc = device_open("cuda:0", 0, &m.device, &err);
    rc = rc ? rc : stream_open(m.device, STREAM_NORMAL, &m.stream, &err);
    char *in = NULL, *y = NULL, *host = malloc(act), *together = malloc(out), *alone = malloc(out);
    float *head = NULL, decays[H] = {-0.5f, -1, -1.5f, -2};
    rc = rc ? rc : device_alloc(m.device, act, (void **)&in, &err);
    rc = rc ? rc : device_alloc(m.device, out, (void **)&y, &err);
    rc = rc ? rc : device_alloc(m.device, sizeof decays, (void **)&head, &err);
    rng_init(&rng, test_seed(), RNG_SYNTH, 1);
    for (size_t i = 0; host && i < act / each; i++) { /* bf16: the upper half of a float */
        float f = (float)rng_normal(&rng);
        memcpy(host + i * each, (char *)&f + sizeof f - each, each);
    }
    rc = rc ? rc : stream_to_device(m.stream, in, host, act, &err);
    rc = rc ? rc : stream_to_device(m.stream, head, decays, sizeof decays, &err);
    rc = rc ? rc : stream_sync(m.stream, &err);
    for (int run = 0; !rc && run < 2; run++) /* all at once, then one by one */
        for (int64_t row = 0, rows = run ? 1 : B; !rc && row < B; row += rows) {
            char *x = in, *delta = x + (size_t)(B * L * D) * each, *bm = delta + (size_t)(B * L * H) * each,
                 *cm = bm + (size_t)(B * L * N) * each;
            size_t at = (size_t)(row * L) * each;
            struct ssd_args a = {.x = tensor_3d(x + at * D, dtype, rows, L, D),
                                 .delta = tensor_3d(delta + at * H, dtype, rows, L, H),
                                 .A = tensor_1d(head, DTYPE_F32, H),
                                 .Bm = tensor_3d(bm + at * N, dtype, rows, L, N),
                                 .Cm = tensor_3d(cm + at * N, dtype, rows, L, N),
                                 .y = tensor_3d(y + at * D, dtype, rows, L, D),
                                 .heads = H,
                                 .groups = 1,
                                 .softplus = true};
            rc = op_ssd(m.stream, &a, &err);
            if (!rc && row + rows == B) {
                rc = stream_to_host(m.stream, run ? alone : together, y, out, &err);
                rc = rc ? rc : stream_sync(m.stream, &err);
            }
        }
    bool same = !rc && !memcmp(alone, together, out);
    failures += !same;
    printf("%-6s %s, a scan of 64 rows gives the bits of each alone%s%s\n", same ? "ok" : "FAILED", dtype_name(dtype),
           err.code ? ": " : "", err.message);
    if (m.device) {
        device_free(m.device, in);
        device_free(m.device, y);
        device_free(m.device, head);
    }
    stream_close(m.stream);
    device_close(m.device);
    free(host);
    free(together);
    free(alone);
}

/* A network whose weights are replaced after its passes were recorded computes with the new ones. */
static void check_new_weights(enum dtype precision) {
    size_t bytes = WINDOWS * window_floats() * sizeof(float);
    float *replaced = malloc(bytes), *fresh = malloc(bytes);
    struct machine m = {0}, other = {0};
    struct err err = {0};
    int rc = replaced && fresh ? open_machine(&m, precision, 5, &err) : err_set(&err, ERR_EXHAUSTED, "out of memory");
    for (int run = 0; !rc && run < RUNS; run++)
        rc = infer(&m, WINDOWS, replaced, &err);
    rc = rc ? rc : seizure_init(m.net, m.stream, 6, 0.25, &err);
    for (int run = 0; !rc && run < RUNS; run++)
        rc = infer(&m, WINDOWS, replaced, &err);
    close_machine(&m);
    rc = rc ? rc : open_machine(&other, precision, 6, &err);
    rc = rc ? rc : infer(&other, WINDOWS, fresh, &err);
    bool same = !rc && !memcmp(replaced, fresh, bytes);
    failures += !same;
    printf("%-6s %s, weights that were replaced are used%s%s\n", same ? "ok" : "FAILED", dtype_name(precision),
           err.code ? ": " : "", err.message);
    close_machine(&other);
    free(replaced);
    free(fresh);
}

int main(void) {
    const char *model = getenv("BRR_TEST_MODEL");
    struct device_info info;
    struct device_part parts[8];
    struct err err = {0};
    if (gpu_model(model ? model : "small", CHANNELS, &config)) {
        printf("BRR_TEST_MODEL=%s; expected small, tiny, base or mini\n", model);
        return 2;
    }
    if (device_probe("cuda:0", &info, &err)) {
        printf("skipped: hardware: no GPU: %s\n", err.message);
        return 77;
    }
    printf("%s: %s\n", info.name, info.description);
    check(DTYPE_F32);
    check(DTYPE_BF16);
    check_new_weights(DTYPE_BF16);
    check_scan(DTYPE_F32);
    check_scan(DTYPE_BF16);
    for (int i = 0, n = device_parts(parts, 8); i < n; i++)
        printf("%s %s\n", parts[i].name, parts[i].version);
    printf("%d failed\n", failures);
    return failures ? 1 : 0;
}
