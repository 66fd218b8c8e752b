/* Random tensors of a bench case. */

#include "bench.h"

static float uniform(struct bench_memory *m, double low, double high) {
    m->random = m->random * 6364136223846793005ull + 1442695040888963407ull;
    return (float)(low + (high - low) * (double)(m->random >> 11) * 0x1p-53);
}

struct tensor bench_fill(struct bench_memory *m, enum dtype dtype, const int64_t dim[3], struct bench_range r) {
    struct tensor t = {.dtype = dtype, .rank = dim[2] ? 3 : dim[1] ? 2 : 1, .dim = {dim[0], dim[1], dim[2]}};
    t.ld = t.rank > 1 ? t.dim[t.rank - 1] : 0;
    size_t count = (size_t)tensor_count(&t), bytes = count * dtype_bytes(dtype);
    if (!m->rc && m->count == BENCH_MAX_TENSORS)
        m->rc = err_set(m->err, ERR_RANGE, "bench: a case has more than %d tensors", BENCH_MAX_TENSORS);
    if (!m->rc)
        m->rc = device_alloc(m->device, bytes, &t.data, m->err);
    if (m->rc)
        return t;
    m->items[m->count++] = t.data;
    char *host = malloc(bytes);
    for (size_t i = 0; host && i < count; i++) {
        float f = uniform(m, r.low, r.high);
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        uint16_t half = (uint16_t)(bits >> 16);
        unsigned char byte = (unsigned char)f;
        const void *from = dtype == DTYPE_F32 ? (void *)&f : dtype == DTYPE_BF16 ? (void *)&half : (void *)&byte;
        memcpy(host + i * dtype_bytes(dtype), from, dtype_bytes(dtype));
    }
    m->rc =
        host ? stream_to_device(m->stream, t.data, host, bytes, m->err) : err_set(m->err, ERR_EXHAUSTED, "bench: out of memory");
    if (!m->rc)
        m->rc = stream_sync(m->stream, m->err);
    free(host);
    return t;
}

void bench_memory_done(struct bench_memory *m, struct device *dev) {
    for (int i = 0; i < m->count; i++)
        device_free(dev, m->items[i]);
    m->count = 0;
}
