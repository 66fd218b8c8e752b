/* bench: the frame of brr-bench. A case opens its data once, runs many times, and says how much work one run is; the frame
 * measures, divides by this machine's own measured rates and prints. Cases of one subject live in one file, as a table. */
#ifndef BRR_TOOLS_BRR_BENCH_BENCH_H
#define BRR_TOOLS_BRR_BENCH_BENCH_H
#include <stdint.h>

#include "base/err.h"
#include "kernels/op.h"

struct bench_context {
    struct device *device;
    struct stream *stream;
    enum dtype dtype;
};

/* What one run cannot avoid: bytes to and from memory, exponentials, floating point operations. The floor is the slowest of
 * the three at the rates of bench_rates. */
struct bench_work {
    double bytes, exponentials, flops;
};

struct bench_case {
    const char *bench, *name; /* "scan", "seed fwd" */
    int batch;
    bool f32_only;
    struct bench_work (*work)(const struct bench_case *c, const struct bench_context *x);
    int (*open)(const struct bench_case *c, const struct bench_context *x, void **ret, struct err *err);
    int (*run)(void *state, struct stream *s, struct err *err);
    void (*close)(void *state, struct device *dev);
    const void *parameters;
};

/* Tables end with a case without name. */
extern const struct bench_case bench_scan_cases[];

/* Measured on this machine with `threads` threads: bytes per second of a copy (read + write), exponentials and FP32 operations per
 * second. About a tenth of a second. */
struct bench_rates {
    double bytes, exponentials, flops;
};
struct bench_rates bench_measure_rates(int threads);

double bench_seconds(void);

#endif
