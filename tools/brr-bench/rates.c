/* This machine's own speed, by loops a compiler vectorises: what the floors are computed from. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"

enum { LANES = 256, ROUNDS = 20000, COPY_BYTES = 64 << 20 };

double bench_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

CPU_CLONES static void many_exponentials(float *x, int rounds) {
    for (int r = 0; r < rounds; r++)
#pragma omp simd
        for (int i = 0; i < LANES; i++)
            x[i] = vm_exp(-x[i]);
}

CPU_CLONES __attribute__((optimize("fp-contract=fast"))) static void many_operations(float *x, int rounds) {
    float sums[LANES];
    memcpy(sums, x, sizeof sums);
    for (int r = 0; r < rounds; r++)
#pragma omp simd
        for (int i = 0; i < LANES; i++)
            sums[i] = sums[i] * 0.999f + 0.001f;
    memcpy(x, sums, sizeof sums);
}

/* Best of five, all threads at once. */
static double best(void (*work)(float *, int), int threads) {
    double seconds = 1e9;
    for (int round = 0; round < 5; round++) {
        double start = bench_seconds();
#pragma omp parallel num_threads(threads)
        {
            float x[LANES];
            for (int i = 0; i < LANES; i++)
                x[i] = 0.5f + (float)i / LANES;
            work(x, ROUNDS);
            volatile float sink = x[LANES - 1];
            (void)sink;
        }
        double spent = bench_seconds() - start;
        seconds = spent < seconds ? spent : seconds;
    }
    return (double)threads * LANES * ROUNDS / seconds;
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
    return (struct bench_rates){copy_rate(threads), best(many_exponentials, threads), 2 * best(many_operations, threads)};
}
