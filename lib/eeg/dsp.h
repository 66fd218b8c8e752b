/* dsp: the filters of the input chain, in double precision over channel-last rows: a rational resampler to 256 Hz, Butterworth
 * band-pass and notch as second-order sections. State is carried, every output is a fixed sequence of operations on its own
 * channel, so the bits do not depend on chunking, on the other channels, or on the instruction set (no contraction).
 * Rows have `lanes` doubles (dsp_lanes: channels rounded up to a multiple of 8), 64-byte aligned. One thread at a time per object.
 */
#pragma once

#include "base/base.h"
#include "base/pack.h"

enum { DSP_RATE_HZ = 256, DSP_BLOCK = 256, DSP_MAX_SECTIONS = 5 };

static inline int dsp_lanes(int channels) { return (channels + 7) & ~7; }
/* Zeroed rows, 64-byte aligned; free() releases. NULL when out of memory. */
double *dsp_rows(int64_t rows, int lanes);

/* One second-order section, a[0] = 1: (b0 + b1 z⁻¹ + b2 z⁻²) / (1 + a1 z⁻¹ + a2 z⁻²). */
struct dsp_section {
    double b[3], a[3];
};

/* Butterworth band-pass of order 3 per edge (bilinear, edges prewarped, as scipy.signal.butter(3, …, 'bandpass')): three sections.
 * ERR_INVALID unless 0 < low < high < rate/2. */
int dsp_bandpass(double low_hz, double high_hz, double rate_hz, struct dsp_section ret[3], struct err *err);
/* Second-order notch with 3 dB width hz/q (as scipy.signal.iirnotch). ERR_INVALID unless 0 < hz < rate/2 and q > 0. */
int dsp_notch(double hz, double q, double rate_hz, struct dsp_section *ret, struct err *err);

/* A cascade of sections over all lanes, direct form II transposed. */
struct dsp_cascade {
    struct dsp_section sections[DSP_MAX_SECTIONS];
    int n_sections, lanes;
    double *state; /* (n_sections, 2, lanes) */
};
int dsp_cascade_init(struct dsp_cascade *c, const struct dsp_section *sections, int n_sections, int lanes, struct err *err);
void dsp_cascade_done(struct dsp_cascade *c);
/* Sets the state to the steady state for a constant input of `row`. */
void dsp_cascade_settle(struct dsp_cascade *c, const double *row);
/* Filters n rows in place. */
void dsp_cascade_run(struct dsp_cascade *c, double *rows, int64_t n);
/* The state, for snapshots. */
void dsp_cascade_pack(struct dsp_cascade *c, struct packer *p);

/* Resampler: output k is the source at time k/256 s, by a zero-phase windowed sinc (Kaiser, 80 dB; pass band to 15/16 and stop band
 * from 17/16 of half the lower rate), its taps normalised per phase so that a constant stays exactly constant. Before the first and
 * after the last row of a segment the edge value is held. At 256 Hz rows pass unchanged.
 * Row numbers are absolute: source row j is at j/rate, outputs of a segment of rows [s, s+n) are the k with s/rate ≤ k/256 <
 * (s+n)/rate. */
struct resampler;
/* 256/rate as up/down in lowest terms. ERR_INVALID unless 1 ≤ rate ≤ 65536. The rate is taken as the simplest fraction within 1e-10
 * of it. */
int dsp_ratio(double rate_hz, int64_t *ret_up, int64_t *ret_down, struct err *err);
/* Seconds of one processor that resampling a second of EEG of this rate takes on this machine, for so many lanes: an estimate from
 * one short measurement of the machine. Rates without a small fraction have their taps computed anew for each output. INFINITY if
 * the rate is none (dsp_ratio). Any thread. */
double dsp_cost(double rate_hz, int lanes);
/* Errors of dsp_ratio, EXHAUSTED. */
int resampler_new(double rate_hz, int lanes, struct resampler **ret, struct err *err);
void resampler_free(struct resampler *r);
/* Starts a segment whose first row is source row `first`. Outputs not yet pulled are dropped. */
void resampler_start(struct resampler *r, int64_t first);
/* Appends n ≤ DSP_BLOCK rows with their mark. All earlier outputs must have been pulled. */
void resampler_push(struct resampler *r, const double *rows, int64_t n, bool mark);
/* Ends the segment: the outputs that needed later rows can now be pulled. */
void resampler_end(struct resampler *r);
/* Returns up to max ready outputs, each with the mark of the source row at or before it, and their number. *ret_first = k of the
 * first one. */
int64_t resampler_pull(struct resampler *r, double *rows, uint8_t *marks, int64_t max, int64_t *ret_first);
/* At 256 Hz, where nothing is left to be pulled: *ret_first of n rows that need be neither pushed nor pulled; false at other rates.
 */
bool resampler_pass(struct resampler *r, int64_t n, int64_t *ret_first);
/* The state between two pushes, for snapshots; load into a resampler made with the same rate and lanes. */
void resampler_pack(struct resampler *r, struct packer *p);
