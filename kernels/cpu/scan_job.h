/* scan_job: both selective scans in one form, and the table of kernels each instruction set fills in. Internal to kernels/cpu.
 *
 * D channels in G groups; channel d reads B and C of its group; `share` neighbouring channels have one Δ and one A (Mamba-1: 1;
 * Mamba-2: the head width P, and then A does not depend on the state index either).
 * Work is cut into blocks of channels inside a group, whole heads, at most SCAN_BLOCK channels (one head may be wider). The cut
 * does not depend on the batch or the number of threads, so neither do the results. A block is processed in vectors of
 * `lanes` channels, the last one padded with zeros; "packed" arrays are ordered [vector][state][lane]. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/lanes.h"
#include "kernels/tensor.h"

enum {
    SCAN_BLOCK = 256,      /* channels of one work item */
    SCAN_TILE = 16,        /* time steps staged at once */
    SCAN_NB = 8,           /* states are padded to a multiple of this */
    SCAN_SPAN = 64,        /* tiles between the checkpoints of the first level */
    SCAN_SLICES = 32,      /* partial sums over the batch in the backward pass */
    RMSNORM_ROWS = 16,     /* rows of a forward item */
    DEPTHWISE_ROWS = 32,   /* time steps of a forward item */
    DEPTHWISE_BLOCK = 128, /* channels of a backward item */
};

/* Rows of an activation: element (b,t,group,i) at ((b·L + t)·row + group·step + i). data NULL = absent. */
struct scan_view {
    void *data;
    int64_t row, step;
};

static inline struct scan_view scan_view_of(const struct tensor *t) { return (struct scan_view){t->data, t->ld, 0}; }

struct scan_job {
    int64_t batch, length, channels, groups, states, share;
    int64_t states_padded, blocks, blocks_per_group, block_channels, block_vectors; /* blocks = groups·blocks_per_group */
    bool bf16, per_head, softplus, zoh, reverse, clamp;
    float clamp_lo, clamp_hi;
    const int32_t *lengths;
    const uint8_t *resets;
    struct scan_view x, delta, bm, cm, z, y;
    const float *a, *dskip, *dbias; /* per channel·state or per head; the last two may be NULL */
    const float *h0;                /* (B,D,N), may be NULL */
    float *ht;
    const float *packed_a; /* Mamba-1: A·log2 e, packed, all blocks */
    /* backward */
    struct scan_view dy, dx, ddelta, dz;
    const float *dht;
    float *dh0;
    float *part_b, *part_c; /* (blocks_per_group, B, L, G, N) shares of dB, dC */
    int64_t slices;
    float *part_a, *part_skip, *part_bias; /* (slices, blocks) × packed states, block channels, block channels */
};

/* Depthwise convolution over one batch row: `rows` of K inputs per output. */
struct depthwise_job {
    int64_t batch, length, channels;
    int taps, pad; /* output t reads t + k − pad with packed weight k (already flipped for reverse) */
    bool bf16, silu, reverse;
    const int32_t *lengths;
    const uint8_t *resets;
    struct scan_view x, y, dy, dx;
    const float *w, *bias; /* (K,D) packed */
    const float *state0, *dstate;
    float *state, *dstate0;
    int64_t slices;
    float *part_w, *part_bias; /* (slices,K,D), (slices,D) */
};

struct rmsnorm_job {
    int64_t rows, channels, groups;
    bool bf16;
    float eps;
    struct scan_view y, z, out, dout, dy, dz;
    const float *weight;
    float *rstd; /* (rows, groups); output of the forward pass (may be NULL), input of the backward pass */
    int64_t slices;
    float *part_w; /* (slices, D) */
};

/* What the lanes of an op work on: a job of the kernel's kind, and memory for each lane. */
struct scan_lanes {
    const void *job;
    char *scratch;
    size_t each;   /* bytes of a lane */
    int64_t chunk; /* tokens; of `chunked` alone */
};
static inline void *lane_scratch(const struct scan_lanes *w, int lane) { return w->scratch + w->each * (size_t)lane; }

struct scan_kernels {
    const char *isa;
    int lanes;
    size_t (*forward_bytes)(const struct scan_job *j);
    size_t (*backward_bytes)(const struct scan_job *j);
    void (*pack_a)(const struct scan_job *j, int64_t block, float *packed);
    void (*unpack_a)(const struct scan_job *j, int64_t block, float *da);                              /* part_a → dA (+=) */
    void (*sum_parts)(const float *parts, int64_t n_parts, int64_t stride, int64_t count, float *ret); /* ret = Σ parts */
    void (*write_row)(const float *row, int64_t count, bool bf16, void *dst, int64_t at);
    size_t (*chunked_bytes)(const struct scan_job *j, int64_t chunk);
    size_t (*depthwise_bytes)(const struct depthwise_job *j);
    /* Items of a struct scan_lanes. Of a scan_job: batch row · blocks + block, slice · blocks + block, batch row · heads + head. */
    lanes_item *forward, *backward, *chunked;
    lanes_item *depthwise, *depthwise_backward; /* of a depthwise_job */
    lanes_item *rmsnorm, *rmsnorm_backward;     /* of a rmsnorm_job: RMSNORM_ROWS rows, a slice; scratch of D floats */
    /* One thread's peak, for benchmarks: `rounds` × 8 vectors of 2^x, × 12 vectors of x·a + b. */
    float (*probe_exponentials)(int64_t rounds);
    float (*probe_multiply_adds)(int64_t rounds);
};

extern const struct scan_kernels scan_kernels_base, scan_kernels_avx2, scan_kernels_avx512;
/* The table for device_isa(). */
const struct scan_kernels *scan_kernels(void);
