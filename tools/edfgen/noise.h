/* noise: cheap random waves for synthetic EEG: parallel lanes of 1/f noise, narrow-band rhythms, slow jitter. State is plain data;
 * every wave is a pure function of its seed. */
#pragma once
#include "base/base.h"

enum { LANES = 32, POLES = 5 };

/* xorshift32 (Marsaglia 2003). */
static inline uint32_t noise_u32(uint32_t *state) {
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}
/* Uniform in [-1, 1). */
static inline float noise_unit(uint32_t *state) { return (float)(int32_t)noise_u32(state) * 0x1p-31f; }

/* Of n generators side by side. */
static inline void noise_units(uint32_t *restrict state, int n, float *restrict ret) {
    for (int l = 0; l < n; l++)
        ret[l] = noise_unit(&state[l]);
}

/* Compiled for wide vectors too, without fused operations: the bits are the same on every processor. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) &&                           \
    !defined(__SANITIZE_THREAD__)
#define NOISE_CLONES __attribute__((noinline, optimize("O3"), target_clones("avx2", "default")))
#else
#define NOISE_CLONES
#endif

/* LANES independent 1/f noises of unit variance: first-order low-passes two octaves apart share one white input. */
struct pink {
    uint32_t random[LANES];
    float pole[POLES][LANES];
    float keep[POLES], gain[POLES];
};
/* slope: weight of a low-pass over that of the one two octaves below; smaller is steeper. */
void pink_init(struct pink *pink, uint32_t seed, float slope);
void pink_next(struct pink *restrict pink, float out[restrict LANES]);

/* A rhythm that waxes and wanes: noise through a complex resonator. Unit variance of the real part. */
struct rhythm {
    float re, im, turn_re, turn_im, drive;
    uint32_t random;
};
void rhythm_init(struct rhythm *rhythm, uint32_t seed, float hz, float bandwidth_hz);
static inline float rhythm_next(struct rhythm *r) {
    float re = r->re * r->turn_re - r->im * r->turn_im + r->drive * noise_unit(&r->random);
    r->im = r->re * r->turn_im + r->im * r->turn_re;
    r->re = re;
    return re;
}

/* A well-mixed, non-zero xorshift state of two numbers. */
uint32_t noise_seed(uint32_t a, uint32_t b);
