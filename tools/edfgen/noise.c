#include "tools/edfgen/noise.h"

#include "tools/edfgen/scalp.h"

uint32_t noise_seed(uint32_t a, uint32_t b) {
    uint32_t x = a * 0x9E3779B9u ^ (b + 0x7F4A7C15u) * 0x85EBCA6Bu;
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    x ^= x >> 15;
    x *= 0x846CA68Bu;
    x ^= x >> 16;
    return x ? x : 1;
}

void pink_init(struct pink *pink, uint32_t seed, float slope) {
    const float uniform_variance = 1.0f / 3;
    float variance = 0;
    for (int k = 0; k < POLES; k++) {
        pink->keep[k] = expf(-2 * (float)M_PI * 0.3f * powf(4, (float)k) / RATE_HZ);
        pink->gain[k] = powf(slope, (float)k) * sqrtf(1 - pink->keep[k] * pink->keep[k]);
    }
    /* Sum of the poles' covariances under a common input. */
    for (int i = 0; i < POLES; i++)
        for (int j = 0; j < POLES; j++)
            variance += pink->gain[i] * pink->gain[j] * uniform_variance / (1 - pink->keep[i] * pink->keep[j]);
    for (int k = 0; k < POLES; k++)
        pink->gain[k] /= sqrtf(variance);
    for (int l = 0; l < LANES; l++) {
        pink->random[l] = noise_seed(seed, (uint32_t)l);
        for (int k = 0; k < POLES; k++)
            pink->pole[k][l] = 0;
    }
    float unused[LANES];
    for (int i = 0; i < 4 * RATE_HZ; i++) /* past the start-up */
        pink_next(pink, unused);
}

NOISE_CLONES void pink_next(struct pink *restrict pink, float out[restrict LANES]) {
    float white[LANES], sum[LANES] = {0};
    noise_units(pink->random, LANES, white);
    for (int k = 0; k < POLES; k++) {
        float keep = pink->keep[k], gain = pink->gain[k], *pole = pink->pole[k];
        for (int l = 0; l < LANES; l++) {
            pole[l] = pole[l] * keep + gain * white[l];
            sum[l] += pole[l];
        }
    }
    memcpy(out, sum, sizeof sum);
}

void rhythm_init(struct rhythm *r, uint32_t seed, float hz, float bandwidth_hz) {
    float decay = expf(-(float)M_PI * bandwidth_hz / RATE_HZ), angle = 2 * (float)M_PI * hz / RATE_HZ;
    *r = (struct rhythm){.turn_re = decay * cosf(angle), .turn_im = decay * sinf(angle), .random = noise_seed(seed, 77)};
    /* A real input of variance 1/3 spreads over both parts. */
    r->drive = sqrtf(6 * (1 - decay * decay));
    for (int i = 0; i < 4 * RATE_HZ; i++)
        rhythm_next(r);
}
