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
/* As wide as a register, so that none of them goes through memory; at most as many at once as there are registers for. A row passes
 * SECTIONS sections at once: what one waits for, another one fills. */
#if defined(__AVX512F__)
enum { DSP_WIDE = 8, DSP_MOST = 24, DSP_SECTIONS = 3 };
#elif defined(__AVX__)
enum { DSP_WIDE = 4, DSP_MOST = 24, DSP_SECTIONS = 1 };
#else
enum { DSP_WIDE = 2, DSP_MOST = 8, DSP_SECTIONS = 1 };
#endif
typedef double dsp_v __attribute__((vector_size(8 * DSP_WIDE), aligned(8 * DSP_WIDE), may_alias));

enum { DSP_ROWS = 64 }; /* that pass through all sections before the next ones: they stay in the nearest cache */
struct dsp_piece {
    double *at;
    int64_t n;
};

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

/* `wide` registers of lanes through the next `many` sections. */
__attribute__((always_inline)) static inline void sections_lanes(const struct dsp_section *q, int many, double *state, int lanes,
                                                                 struct dsp_piece rows, int wide) {
    dsp_v a[3][DSP_MOST / DSP_WIDE], b[3][DSP_MOST / DSP_WIDE];
    struct dsp_section own[3]; /* which nothing that is written here can be */
    for (int s = 0; s < many; s++) {
        own[s] = q[s];
        memcpy(a[s], state + (int64_t)2 * s * lanes, (size_t)wide * sizeof **a);
        memcpy(b[s], state + (int64_t)(2 * s + 1) * lanes, (size_t)wide * sizeof **b);
    }
    for (int64_t i = 0; i < rows.n; i++, rows.at += lanes)
#pragma GCC unroll 12
        for (int k = 0; k < wide; k++) {
            dsp_v *at = (dsp_v *)(void *)rows.at + k, x = *at;
#pragma GCC unroll 3
            for (int s = 0; s < many; s++) {
                const dsp_v y = own[s].b[0] * x + a[s][k];
                a[s][k] = (own[s].b[1] * x - own[s].a[1] * y) + b[s][k];
                b[s][k] = own[s].b[2] * x - own[s].a[2] * y;
                x = y;
            }
            *at = x;
        }
    for (int s = 0; s < many; s++) {
        memcpy(state + (int64_t)2 * s * lanes, a[s], (size_t)wide * sizeof **a);
        memcpy(state + (int64_t)(2 * s + 1) * lanes, b[s], (size_t)wide * sizeof **b);
    }
}

__attribute__((always_inline)) static inline void pass(const struct dsp_section *q, int many, double *state, int lanes,
                                                       struct dsp_piece rows) {
    const struct dsp_piece all = rows;
    int c = 0;
    for (; c + DSP_MOST <= lanes; c += DSP_MOST, rows.at = all.at + c)
        sections_lanes(q, many, state + c, lanes, rows, DSP_MOST / DSP_WIDE);
    for (; c < lanes; c += 8, rows.at = all.at + c)
        sections_lanes(q, many, state + c, lanes, rows, 8 / DSP_WIDE);
}

static void cascade(const struct dsp_section *sections, int n_sections, double *state, int lanes, double *rows, int64_t n) {
    for (int64_t most = DSP_ROWS; n > 0; n -= most, rows += most * lanes) {
        most = n < most ? n : most;
        const struct dsp_piece piece = {rows, most};
        for (int s = 0, many; s < n_sections; s += many) {
            const int left = n_sections - s;
            double *of = state + (int64_t)2 * s * lanes;
            many = left < DSP_SECTIONS ? left : DSP_SECTIONS;
            if (many == DSP_SECTIONS)
                pass(&sections[s], DSP_SECTIONS, of, lanes, piece);
            else if (many == 2 && DSP_SECTIONS > 2)
                pass(&sections[s], 2, of, lanes, piece);
            else
                pass(&sections[s], 1, of, lanes, piece);
        }
    }
}
#endif
