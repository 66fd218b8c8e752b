/* dsp_kernel: the two inner loops of dsp, written once over 8-lane vectors and compiled per instruction set (dsp.c baseline,
 * dsp_avx2.c, dsp_avx512.c). Products and sums are separate operations in a fixed order, so all variants give the same bits. */
#pragma once

#include "base/base.h"
#include "eeg/dsp.h"

struct dsp_kernel {
    /* out[lanes] = Σ_t taps[t] · rows[t], t ascending. */
    void (*fir)(const double *taps, int64_t n_taps, const double *rows, int lanes, double *out);
    /* Sections in order over n rows in place. */
    void (*cascade)(const struct dsp_section *sections, int n_sections, double *state, int lanes, double *rows, int64_t n);
};
extern const struct dsp_kernel dsp_kernel_baseline, dsp_kernel_avx2, dsp_kernel_avx512;

#ifdef DSP_KERNEL_BODY
typedef double dsp_v8 __attribute__((vector_size(64), aligned(64)));

static void fir(const double *taps, int64_t n_taps, const double *rows, int lanes, double *out) {
    int c = 0;
    for (; c + 24 <= lanes; c += 24) {
        dsp_v8 s0 = {0}, s1 = {0}, s2 = {0};
        for (int64_t t = 0; t < n_taps; t++) {
            const dsp_v8 *row = (const dsp_v8 *)(const void *)(rows + t * lanes + c);
            s0 += taps[t] * row[0];
            s1 += taps[t] * row[1];
            s2 += taps[t] * row[2];
        }
        dsp_v8 *to = (dsp_v8 *)(void *)(out + c);
        to[0] = s0;
        to[1] = s1;
        to[2] = s2;
    }
    for (; c < lanes; c += 8) {
        dsp_v8 sum = {0};
        for (int64_t t = 0; t < n_taps; t++)
            sum += taps[t] * *(const dsp_v8 *)(const void *)(rows + t * lanes + c);
        *(dsp_v8 *)(void *)(out + c) = sum;
    }
}

static void cascade(const struct dsp_section *sections, int n_sections, double *state, int lanes, double *rows, int64_t n) {
    for (int c = 0; c < lanes; c += 8) {
        dsp_v8 z[DSP_MAX_SECTIONS][2];
        for (int s = 0; s < n_sections; s++)
            for (int k = 0; k < 2; k++)
                z[s][k] = *(const dsp_v8 *)(const void *)(state + (2 * s + k) * lanes + c);
        for (int64_t i = 0; i < n; i++) {
            dsp_v8 *at = (dsp_v8 *)(void *)(rows + i * lanes + c), x = *at;
            for (int s = 0; s < n_sections; s++) {
                const struct dsp_section *q = &sections[s];
                dsp_v8 y = q->b[0] * x + z[s][0];
                z[s][0] = (q->b[1] * x - q->a[1] * y) + z[s][1];
                z[s][1] = q->b[2] * x - q->a[2] * y;
                x = y;
            }
            *at = x;
        }
        for (int s = 0; s < n_sections; s++)
            for (int k = 0; k < 2; k++)
                *(dsp_v8 *)(void *)(state + (2 * s + k) * lanes + c) = z[s][k];
    }
}
#endif
