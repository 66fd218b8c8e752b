/* bench: the frame of brr-bench. A case opens its data once, runs many times, and says how much work one run is; the frame
 * measures, divides by this machine's own measured rates and prints. Cases of one subject live in one file, as a table. */
#pragma once

#include "base/base.h"
#include "kernels/op.h"
#include "kernels/rates.h"

struct bench_context {
    struct device *device;
    struct stream *stream;
    enum dtype dtype;
};

enum bench_where { BENCH_ANYWHERE, BENCH_CPU, BENCH_GPU };

struct bench_case {
    const char *bench, *name; /* "scan", "seed fwd" */
    int batch;
    bool f32_only;
    enum bench_where where;
    struct rates_work (*work)(const struct bench_case *c, const struct bench_context *x);
    int (*open)(const struct bench_case *c, const struct bench_context *x, void **ret, struct err *err);
    int (*run)(void *state, struct stream *s, struct err *err);
    void (*close)(void *state, struct device *dev);
    const void *parameters;
};

/* Tables end with a case without name. */
extern const struct bench_case bench_scan_cases[], bench_layer_cases[], bench_detector_cases[], bench_edf_cases[],
    bench_burst_cases[], bench_geodesic_cases[];

/* Tensors of one case. After a failure `rc` stays set and further tensors have no data. */
enum { BENCH_MAX_TENSORS = 32 };
struct bench_memory {
    struct device *device;
    struct stream *stream;
    struct err *err;
    int rc, count;
    void *items[BENCH_MAX_TENSORS];
    uint64_t random;
};
struct bench_range {
    double low, high;
};
/* A tensor of uniform values on the device; its rank is the number of dimensions that are not zero. */
struct tensor bench_fill(struct bench_memory *m, enum dtype dtype, const int64_t dim[3], struct bench_range r);
void bench_memory_done(struct bench_memory *m, struct device *dev);
