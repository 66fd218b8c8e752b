/* Peak rates of a device with memory of its own, measured through the same calls that the cases use: a copy within its
 * memory, one to it from pinned host memory, and square matrix products large enough to be limited by arithmetic alone.
 * Exponentials have no such call and count in no floor. */
#include "base/clock.h"
#include "bench.h"

enum { ROUNDS = 10 };

/* Seconds of one of ROUNDS runs queued together, after one that warms up. */
static int timed(int (*run)(void *ctx, struct stream *s, struct err *err), void *ctx, struct stream *s, double *ret,
                 struct err *err) {
    int rc;
    if ((rc = run(ctx, s, err)) || (rc = stream_sync(s, err)))
        return rc;
    double start = clock_s();
    for (int i = 0; i < ROUNDS; i++)
        if ((rc = run(ctx, s, err)))
            return rc;
    if ((rc = stream_sync(s, err)))
        return rc;
    *ret = (clock_s() - start) / ROUNDS;
    return 0;
}

struct copy {
    void *from, *to;
    size_t bytes;
};

static int run_copy(void *ctx, struct stream *s, struct err *err) {
    struct copy *c = ctx;
    return stream_copy(s, c->to, c->from, c->bytes, err);
}

static int run_upload(void *ctx, struct stream *s, struct err *err) {
    struct copy *c = ctx;
    return stream_to_device(s, c->to, c->from, c->bytes, err);
}

static int upload_rate(const struct bench_context *x, size_t bytes, double *ret, struct err *err) {
    struct copy copy = {.bytes = bytes};
    double seconds = 1;
    int rc = device_alloc_host(x->device, bytes, &copy.from, err);
    if (!rc)
        rc = device_alloc(x->device, bytes, &copy.to, err);
    if (!rc)
        rc = timed(run_upload, &copy, x->stream, &seconds, err);
    device_free_host(x->device, copy.from);
    device_free(x->device, copy.to);
    *ret = (double)bytes / seconds;
    return rc;
}

static int run_product(void *ctx, struct stream *s, struct err *err) { return op_linear(s, ctx, err); }

/* Operations per second of an n × n × n product, the weights packed before. */
static int product_rate(const struct bench_context *x, enum dtype dtype, int64_t n, double *ret, struct err *err) {
    static uint64_t products = 0;
    struct bench_memory m = {.device = x->device, .stream = x->stream, .err = err};
    struct bench_range unit = {-1, 1};
    struct linear_args a = {.x = bench_fill(&m, dtype, (const int64_t[3]){1, n, n}, unit),
                            .w = bench_fill(&m, DTYPE_F32, (const int64_t[3]){n, n, 0}, unit),
                            .y = bench_fill(&m, dtype, (const int64_t[3]){1, n, n}, unit),
                            .weight_version = WEIGHTS_CONSTANT | ++products};
    double seconds = 1;
    int rc = m.rc ? m.rc : timed(run_product, &a, x->stream, &seconds, err);
    bench_memory_done(&m, x->device);
    *ret = 2.0 * (double)(n * n * n) / seconds;
    return rc;
}

int bench_device_rates(const struct bench_context *x, struct bench_rates *ret, struct err *err) {
    struct device_info info;
    device_describe(x->device, &info);
    bool large = info.total_bytes >= (int64_t)16 << 30; /* else it is emulated, or small */
    struct copy copy = {.bytes = large ? (size_t)2 << 30 : (size_t)info.total_bytes / 64};
    double seconds = 1;
    *ret = (struct bench_rates){.bf16_instruction = "matrix product"};
    int rc = device_alloc(x->device, copy.bytes, &copy.from, err);
    if (!rc)
        rc = device_alloc(x->device, copy.bytes, &copy.to, err);
    if (!rc)
        rc = timed(run_copy, &copy, x->stream, &seconds, err);
    device_free(x->device, copy.from);
    device_free(x->device, copy.to);
    ret->bytes = 2.0 * (double)copy.bytes / seconds;
    if (!rc)
        rc = upload_rate(x, large ? (size_t)256 << 20 : (size_t)1 << 20, &ret->host_bytes, err);
    if (!rc)
        rc = product_rate(x, DTYPE_F32, large ? 4096 : 128, &ret->flops, err);
    return rc ? rc : product_rate(x, DTYPE_BF16, large ? 8192 : 128, &ret->flops_bf16, err);
}
