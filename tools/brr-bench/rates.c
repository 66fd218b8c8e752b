/* This machine's own speed, with the kernels' own instruction set: what the floors are computed from. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "kernels/cpu/scan_job.h"

enum { ROUNDS = 100000, COPY_BYTES = 64 << 20 };

double bench_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Calls of one round per second, best of ten, all threads at once. */
static double best(float (*work)(int64_t), int threads) {
    double seconds = 1e9;
    for (int round = 0; round < 10; round++) {
        double start = bench_seconds();
#pragma omp parallel num_threads(threads)
        {
            volatile float sink = work(ROUNDS);
            (void)sink;
        }
        double spent = bench_seconds() - start;
        seconds = spent < seconds ? spent : seconds;
    }
    return (double)threads * ROUNDS / seconds;
}

static double copy_rate(int threads) {
    char *from = calloc(1, COPY_BYTES), *to = calloc(1, COPY_BYTES);
    double seconds = 1e9;
    for (int round = 0; round < 5 && from && to; round++) {
        double start = bench_seconds();
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int i = 0; i < 64; i++)
            memcpy(to + (size_t)i * (COPY_BYTES / 64), from + (size_t)i * (COPY_BYTES / 64), COPY_BYTES / 64);
        double spent = bench_seconds() - start;
        if (round)
            seconds = spent < seconds ? spent : seconds;
        from[round] = to[round + 1];
    }
    free(from);
    free(to);
    return 2.0 * COPY_BYTES / seconds;
}

struct bench_rates bench_measure_rates(int threads) {
    const struct scan_kernels *kernels = scan_kernels();
    return (struct bench_rates){copy_rate(threads), 8 * kernels->lanes * best(kernels->probe_exponentials, threads),
                                24 * kernels->lanes * best(kernels->probe_multiply_adds, threads)};
}
