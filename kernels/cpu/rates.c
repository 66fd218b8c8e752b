/* The processors' speed, with the kernels' own instruction set. */
#include "kernels/rates.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <oneapi/dnnl/dnnl.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/scan_job.h"

enum { ROUNDS = 100000, COPY_BYTES = 64 << 20, LEAST_ROUNDS = 10 };
static const double probe_seconds = 0.25; /* long enough to meet a quiet moment on a machine with other work */

struct probe {
    float (*work)(int64_t);
    pthread_mutex_t *lock;
    double *rate;
};

static void probe_best(const void *ctx, int64_t i, int lane) {
    const struct probe *p = ctx;
    double seconds = 1e9, end = clock_s() + probe_seconds;
    (void)i, (void)lane;
    for (int round = 0; round < LEAST_ROUNDS || clock_s() < end; round++) {
        double start = clock_s();
        volatile float sink = p->work(ROUNDS);
        (void)sink;
        double spent = clock_s() - start;
        seconds = spent < seconds ? spent : seconds;
    }
    LOCKED(p->lock);
    *p->rate += ROUNDS / seconds;
}

/* Calls of one round per second, all threads at once: each thread's best of a quarter of a second, summed, so that no thread's
 * pause for other work on the machine counts. */
static double best(float (*work)(int64_t), int threads) {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    double rate = 0;
    lanes_for(threads, threads, probe_best, &(struct probe){work, &lock, &rate});
    return rate;
}

/* Seconds. One thread's own time leaves pauses for other work on the machine out; a copy is long enough to meet one. */
static double copy_clock_s(int threads) {
    struct timespec t = {0};
    if (threads > 1)
        return clock_s();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum { COPY_PARTS = 64, PART_BYTES = COPY_BYTES / COPY_PARTS };

static void copy_part(const void *memory, int64_t i, int lane) {
    char *from = (char *)(uintptr_t)memory + i * PART_BYTES;
    (void)lane;
    memcpy(from + COPY_BYTES, from, PART_BYTES);
}

static double copy_rate(int threads) {
    char *from = calloc(2, COPY_BYTES);
    double seconds = 1e9, end = clock_s() + probe_seconds;
    for (int round = 0; from && (round < LEAST_ROUNDS || clock_s() < end); round++) {
        double start = copy_clock_s(threads);
        lanes_for(threads, COPY_PARTS, copy_part, from);
        double spent = copy_clock_s(threads) - start;
        if (round)
            seconds = spent < seconds ? spent : seconds;
        from[round % COPY_BYTES] = from[COPY_BYTES + (round + 1) % COPY_BYTES];
    }
    free(from);
    return 2.0 * COPY_BYTES / seconds;
}

#if defined(__x86_64__)
/* Twelve independent chains of bf16 dot products: 64 operations each. */
__attribute__((target("avx512f,avx512bf16"))) static float probe_avx512(int64_t rounds) {
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

/* Operand of LDTILECFG: eight tiles of 16 rows of 64 bytes. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Four independent chains of products of tiles, (16,32) times (32,16) each: two operations for each of 16·16·32 pairs. */
__attribute__((target("amx-tile,amx-bf16"))) static float probe_amx(int64_t rounds) {
    struct tile_config config = {.palette = 1};
    uint16_t ones[16 * 32];
    float sums[16 * 16];
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = 16;
    }
    for (int i = 0; i < 16 * 32; i++)
        ones[i] = 0x3f80;
    __asm__ volatile("" : : "r"(&config), "r"(ones) : "memory"); /* the intrinsics do not say that they read them */
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, ones, 64);
    _tile_loadd(5, ones, 64);
    _tile_loadd(6, ones, 64);
    _tile_loadd(7, ones, 64);
    for (int64_t r = 0; r < rounds; r++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, 64);
    _tile_release();
    return sums[0];
}

/* The widest bf16 instruction that oneDNN uses here. oneDNN has also asked the kernel for the tiles when it names AMX. */
static double bf16_rate(int threads, const char **ret_instruction) {
    struct device_info info;
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    *ret_instruction = NULL;
    if (device_list(&info, 1) != 1 || !info.has_bf16)
        return 0;
    if ((isa & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx) {
        *ret_instruction = "amx_bf16";
        return 4.0 * 16 * 16 * 32 * 2 * best(probe_amx, threads);
    }
    *ret_instruction = "avx512_bf16";
    return 12 * 64 * best(probe_avx512, threads);
}
#else
static double bf16_rate(int threads, const char **ret_instruction) {
    (void)threads;
    *ret_instruction = NULL;
    return 0;
}
#endif

int cpu_rates(struct stream *s, struct rates *ret, struct err *err) {
    const struct scan_kernels *kernels = scan_kernels();
    const int threads = s->device->info.threads > 0 ? s->device->info.threads : 1;
    (void)err;
    *ret = (struct rates){.bytes = copy_rate(threads),
                          .exponentials = 8 * kernels->lanes * best(kernels->probe_exponentials, threads),
                          .flops = 24 * kernels->lanes * best(kernels->probe_multiply_adds, threads)};
    ret->flops_bf16 = bf16_rate(threads, &ret->bf16_instruction);
    return 0;
}
