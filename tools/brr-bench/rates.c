/* This machine's own speed, with the kernels' own instruction set: what the floors are computed from. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_BF16_PROBE 1
#endif

#include "base/clock.h"
#include "bench.h"
#include "kernels/cpu/scan_job.h"

enum { ROUNDS = 100000, COPY_BYTES = 64 << 20, LEAST_ROUNDS = 10 };
static const double probe_seconds = 0.25; /* long enough to meet a quiet moment on a machine with other work */

/* Calls of one round per second, all threads at once: each thread's best of a quarter of a second, summed, so that no thread's
 * pause for other work on the machine counts. */
static double best(float (*work)(int64_t), int threads) {
    double rate = 0;
#pragma omp parallel num_threads(threads) reduction(+ : rate)
    {
        double seconds = 1e9, end = clock_s() + probe_seconds;
        for (int round = 0; round < LEAST_ROUNDS || clock_s() < end; round++) {
            double start = clock_s();
            volatile float sink = work(ROUNDS);
            (void)sink;
            double spent = clock_s() - start;
            seconds = spent < seconds ? spent : seconds;
        }
        rate += ROUNDS / seconds;
    }
    return rate;
}

static double copy_rate(int threads) {
    char *from = calloc(1, COPY_BYTES), *to = calloc(1, COPY_BYTES);
    double seconds = 1e9, end = clock_s() + probe_seconds;
    for (int round = 0; from && to && (round < LEAST_ROUNDS || clock_s() < end); round++) {
        double start = clock_s();
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int i = 0; i < 64; i++)
            memcpy(to + (size_t)i * (COPY_BYTES / 64), from + (size_t)i * (COPY_BYTES / 64), COPY_BYTES / 64);
        double spent = clock_s() - start;
        if (round)
            seconds = spent < seconds ? spent : seconds;
        from[round % COPY_BYTES] = to[(round + 1) % COPY_BYTES];
    }
    free(from);
    free(to);
    return 2.0 * COPY_BYTES / seconds;
}

#ifdef HAVE_BF16_PROBE
/* Twelve independent chains of bf16 dot products: 64 operations each. */
__attribute__((target("avx512f,avx512bf16"))) static float probe_bf16(int64_t rounds) {
    __m512 sum[12];
    __m512i ones = _mm512_set1_epi32(0x3f803f80);
    for (int i = 0; i < 12; i++)
        sum[i] = _mm512_setzero_ps();
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)ones, (__m512bh)ones);
    }
    __m512 all = sum[0];
    for (int i = 1; i < 12; i++)
        all = _mm512_add_ps(all, sum[i]);
    return _mm512_reduce_add_ps(all);
}

static double bf16_rate(int threads) {
    struct device_info info;
    bool has = device_list(&info, 1) == 1 && info.has_bf16;
    return has ? 12 * 64 * best(probe_bf16, threads) : 0;
}
#else
static double bf16_rate(int threads) {
    (void)threads;
    return 0;
}
#endif

struct bench_rates bench_measure_rates(int threads) {
    const struct scan_kernels *kernels = scan_kernels();
    return (struct bench_rates){.bytes = copy_rate(threads),
                                .exponentials = 8 * kernels->lanes * best(kernels->probe_exponentials, threads),
                                .flops = 24 * kernels->lanes * best(kernels->probe_multiply_adds, threads),
                                .flops_bf16 = bf16_rate(threads)};
}
