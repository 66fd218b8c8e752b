#include "kernels/device_rates.h"

#include <stdlib.h>

#include "base/clock.h"
#include "kernels/backend.h"
#include "kernels/op.h"

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

static int upload_rate(struct stream *s, size_t bytes, double *ret, struct err *err) {
    struct device *dev = stream_device(s);
    struct copy copy = {.bytes = bytes};
    double seconds = 1;
    int rc = device_alloc_host(dev, bytes, &copy.from, err);
    rc = rc ? rc : device_alloc(dev, bytes, &copy.to, err);
    rc = rc ? rc : timed(run_upload, &copy, s, &seconds, err);
    device_free_host(dev, copy.from);
    device_free(dev, copy.to);
    *ret = (double)bytes / seconds;
    return rc;
}

/* Fills n floats with values in [-1, 1): zeros would draw less power, and so be multiplied faster. */
static int fill_at_random(struct stream *s, const struct tensor *t, struct err *err) {
    size_t n = (size_t)tensor_count(t);
    float *host = malloc(n * sizeof *host);
    uint64_t random = 1;
    for (size_t i = 0; host && i < n; i++) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        host[i] = (float)(int32_t)(random >> 32) * 0x1p-31f;
    }
    int rc = host ? stream_to_device(s, t->data, host, n * sizeof *host, err) : err_set(err, ERR_EXHAUSTED, "out of memory");
    rc = rc ? rc : stream_sync(s, err);
    free(host);
    return rc;
}

struct product {
    struct tensor f32, w, x, y;
    uint64_t version; /* of w; no network counts so far */
};

static int run_product(void *ctx, struct stream *s, struct err *err) {
    const struct product *p = ctx;
    const struct linear_args a = {.x = p->x, .w = p->w, .y = p->y, .weight_version = WEIGHTS_CONSTANT | p->version};
    return op_linear(s, &a, err);
}

/* Operations per second of an n × n × n product, the weights packed before. */
static int product_rate(struct stream *s, enum dtype dtype, int64_t n, double *ret, struct err *err) {
    struct device *dev = stream_device(s);
    struct product p = {.f32 = tensor_3d(NULL, DTYPE_F32, 1, n, n),
                        .w = tensor_2d(NULL, DTYPE_F32, n, n),
                        .x = tensor_3d(NULL, dtype, 1, n, n),
                        .y = tensor_3d(NULL, dtype, 1, n, n),
                        .version = ((uint64_t)1 << 50) + (uint64_t)dtype};
    struct tensor *all[] = {&p.f32, &p.w, &p.x, &p.y};
    double seconds = 1;
    int rc = 0;
    for (int i = 0; i < 4 && !rc; i++)
        rc = device_alloc(dev, (size_t)(n * n) * dtype_bytes(all[i]->dtype), &all[i]->data, err);
    const struct eltwise_args convert = {.kind = ELTWISE_COPY, .a = p.f32, .y = p.x};
    rc = rc ? rc : fill_at_random(s, &p.f32, err);
    rc = rc ? rc : fill_at_random(s, &p.w, err);
    rc = rc ? rc : op_eltwise(s, &convert, err);
    rc = rc ? rc : timed(run_product, &p, s, &seconds, err);
    for (int i = 0; i < 4; i++)
        device_free(dev, all[i]->data);
    *ret = 2.0 * (double)(n * n * n) / seconds;
    return rc;
}

/* Of a device with memory of its own, through the calls that users of it make: a copy within its memory, one to it from pinned host
 * memory, and square matrix products large enough to be limited by arithmetic alone. Exponentials have no such call. */
static int measure_by_ops(struct stream *s, struct rates *ret, struct err *err) {
    struct device *dev = stream_device(s);
    struct device_info info;
    device_describe(dev, &info);
    bool large = info.total_bytes >= (int64_t)16 << 30; /* else it is emulated, or small */
    struct copy copy = {.bytes = large ? (size_t)2 << 30 : (size_t)info.total_bytes / 64};
    double seconds = 1;
    *ret = (struct rates){.bf16_instruction = "matrix product"};
    int rc = device_alloc(dev, copy.bytes, &copy.from, err);
    rc = rc ? rc : device_alloc(dev, copy.bytes, &copy.to, err);
    rc = rc ? rc : timed(run_copy, &copy, s, &seconds, err);
    device_free(dev, copy.from);
    device_free(dev, copy.to);
    ret->bytes = 2.0 * (double)copy.bytes / seconds;
    rc = rc ? rc : upload_rate(s, large ? (size_t)256 << 20 : (size_t)1 << 20, &ret->host_bytes, err);
    rc = rc ? rc : product_rate(s, DTYPE_F32, large ? 4096 : 128, &ret->flops, err);
    return rc ? rc : product_rate(s, DTYPE_BF16, large ? 8192 : 128, &ret->flops_bf16, err);
}

int rates_measure(struct stream *s, struct rates *ret, struct err *err) {
    const struct backend *b = s->device->backend;
    return (b->rates ? b->rates : measure_by_ops)(s, ret, err);
}
