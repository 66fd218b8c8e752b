/* dsp_kernel: the two inner loops of dsp, written once over vectors and compiled per instruction set (dsp.c baseline,
 * dsp_avx2.c, dsp_avx512.c). Products and sums are separate operations in a fixed order, so all variants give the same bits. */
#pragma once

#include "eeg/dsp.h"

struct dsp_kernel {
    /* out[lanes] = Σ_t taps[t] · rows[t], t ascending. */
    void (*fir)(const double *taps, int64_t n_taps, const double *rows, int lanes, double *out);
    /* Sections in order over n rows in place. */
    void (*cascade)(const struct dsp_section *sections, int n_sections, double *state, int lanes, double *rows, int64_t n);
};
extern const struct dsp_kernel dsp_kernel_baseline, dsp_kernel_avx2, dsp_kernel_avx512;

#ifdef DSP_KERNEL_BODY
/* As wide as a register, so that none of them goes through memory; at most as many at once as there are registers for. */
#if defined(__AVX512F__)
enum { DSP_WIDE = 8, DSP_MOST = 24 };
#elif defined(__AVX__)
enum { DSP_WIDE = 4, DSP_MOST = 24 };
#else
enum { DSP_WIDE = 2, DSP_MOST = 8 };
#endif
typedef double dsp_v __attribute__((vector_size(8 * DSP_WIDE), aligned(8 * DSP_WIDE), may_alias));

enum { DSP_ROWS = 64 }; /* that pass through all sections before the next ones: they stay in the nearest cache */

/* `wide` registers of lanes, which wait for nothing of each other. */
__attribute__((always_inline)) static inline void fir_lanes(const double *taps, int64_t n_taps, const double *rows, int lanes,
                                                            double *out, int wide) {
    dsp_v sum[DSP_MOST / DSP_WIDE] = {0};
    for (int64_t t = 0; t < n_taps; t++)
#pragma GCC unroll 12
        for (int k = 0; k < wide; k++)
            sum[k] += taps[t] * ((const dsp_v *)(const void *)(rows + t * lanes))[k];
    memcpy(out, sum, (size_t)wide * sizeof *sum);
}

static void fir(const double *taps, int64_t n_taps, const double *rows, int lanes, double *out) {
    int c = 0;
    for (; c + DSP_MOST <= lanes; c += DSP_MOST)
        fir_lanes(taps, n_taps, rows + c, lanes, out + c, DSP_MOST / DSP_WIDE);
    for (; c < lanes; c += 8)
        fir_lanes(taps, n_taps, rows + c, lanes, out + c, 8 / DSP_WIDE);
}

__attribute__((always_inline)) static inline void section_lanes(const struct dsp_section *q, double *state, int lanes, double *rows,
                                                                int64_t n, int wide) {
    dsp_v a[DSP_MOST / DSP_WIDE], b[DSP_MOST / DSP_WIDE];
    memcpy(a, state, (size_t)wide * sizeof *a);
    memcpy(b, state + lanes, (size_t)wide * sizeof *b);
    for (int64_t i = 0; i < n; i++, rows += lanes)
#pragma GCC unroll 12
        for (int k = 0; k < wide; k++) {
            dsp_v *at = (dsp_v *)(void *)rows + k, x = *at, y = q->b[0] * x + a[k];
            a[k] = (q->b[1] * x - q->a[1] * y) + b[k];
            b[k] = q->b[2] * x - q->a[2] * y;
            *at = y;
        }
    memcpy(state, a, (size_t)wide * sizeof *a);
    memcpy(state + lanes, b, (size_t)wide * sizeof *b);
}

static void cascade(const struct dsp_section *sections, int n_sections, double *state, int lanes, double *rows, int64_t n) {
    for (int64_t most = DSP_ROWS; n > 0; n -= most, rows += most * lanes) {
        most = n < most ? n : most;
        for (int s = 0; s < n_sections; s++) {
            double *of = state + 2 * s * lanes;
            int c = 0;
            for (; c + DSP_MOST <= lanes; c += DSP_MOST)
                section_lanes(&sections[s], of + c, lanes, rows + c, most, DSP_MOST / DSP_WIDE);
            for (; c < lanes; c += 8)
                section_lanes(&sections[s], of + c, lanes, rows + c, most, 8 / DSP_WIDE);
        }
    }
}
#endif
