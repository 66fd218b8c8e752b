/* scan_job: both selective scans in one form. Channel d of D reads B and C of its group; `share` neighbouring channels have one Δ,
 * A, D and bias (Mamba-1: 1; Mamba-2: the head width, `per_head`, and then A does not depend on the state). A block takes CHANNELS
 * channels of a group and one batch row; each channel has LANES threads with PER states each (state n = lane + i·LANES). Time runs
 * in tiles that are staged in shared memory. Internal to kernels/cuda. */
#pragma once
#include "kernels/cuda/cuda.cuh"

enum { SCAN_THREADS = 128, SSD_CHANNELS = 64, SSD_STATES = 16, SSD_SEGMENT = 64 };

struct scan_view {
    struct act act; /* element (row, group, i) at row·ld + group·step + i */
    int64_t step;
};

struct scan_job {
    int64_t batch, length, channels, groups, states, share, per_group, blocks_per_group;
    bool per_head, softplus, zoh, reverse, clamp;
    float clamp_lo, clamp_hi;
    const int32_t *lengths; /* device */
    const uint8_t *resets;
    struct act x, delta, z, y;
    struct scan_view bm, cm;
    const float *a, *dskip, *dbias, *h0;
    float *ht;
    /* backward, for batch rows first_row..first_row + rows */
    int64_t first_row, rows, tiles;
    struct act dy, dx, ddelta, dz;
    struct scan_view dbm, dcm;
    const float *dht;
    float *dh0;
    /* Segments of SSD_SEGMENT steps that run side by side (ssd.cu); 1: a row runs as a whole. The state before each, and the
     * gradient of the state behind it: (rows, segments, D, SSD_STATES); the product of each one's decays: (rows, segments, D). */
    int64_t segments;
    float *begins, *lambdas, *fades;
    float *starts;                /* (rows, tiles, D, N): states at the starts of tiles */
    float *part_b, *part_c;       /* (blocks_per_group, rows, L, G, N) */
    float *part_a;                /* (rows, D, N), or (rows, segments, D) per_head */
    float *part_skip, *part_bias; /* (rows, segments, D) */
    float *head_delta;            /* per_head: (rows, L, H·head_shares) shares of dΔ */
    int64_t head_shares;          /* sums of neighbouring channels of a head; share: one of each channel */
    bool chunks;                  /* whether ssd_chunks_backward.cu takes the job */
};

struct scan_job scan1_job(const struct scan1_args *a);
struct scan_job ssd_job(const struct ssd_args *a);
int scan_forward(struct stream *s, struct scan_job *j, const int32_t *host_lengths, struct err *err);

/* ssd.cu: scans of heads with few states. */
bool ssd_suits(const struct scan_job *j);
int64_t ssd_segments(const struct scan_job *j);
void ssd_forward_launch(struct stream *s, const struct scan_job *j);
void ssd_backward_launch(struct stream *s, const struct scan_job *j);
/* ssd_chunks.cu: forward by tensor cores, for the jobs that suit. */
bool ssd_chunks_forward_suits(const struct scan_job *j);
void ssd_chunks_forward_launch(struct stream *s, const struct scan_job *j);

/* ssd_chunks_backward.cu: gradients of heads of 64 channels with 16 states in bf16, without carried states, by tensor cores. It
 * needs `starts` with ssd_chunks_of(length) tiles, finishes dx, ddelta, dbm and dcm, and leaves part_a, part_skip and part_bias as
 * (rows, H). */
bool ssd_chunks_suit(const struct scan_job *j);
int64_t ssd_chunks_of(int64_t length);
void ssd_chunks_backward_launch(struct stream *s, const struct scan_job *j);

struct scan_sums {
    float *da, *dskip, *dbias; /* NULL: not wanted */
};
int scan_backward(struct stream *s, struct scan_job *j, const int32_t *host_lengths, const struct scan_sums *to, struct err *err);

static __device__ inline int64_t scan_length(const struct scan_job &j, int64_t row) {
    return j.lengths ? j.lengths[row] : j.length;
}
/* Token of a step in processing order. */
static __device__ inline int64_t scan_token(const struct scan_job &j, int64_t row, int64_t len, int64_t step) {
    return row * j.length + (j.reverse ? len - 1 - step : step);
}
/* Whether a segment begins at this step: its own mark, or in reverse the mark of the token after it. */
static __device__ inline bool scan_starts(const struct scan_job &j, int64_t row, int64_t len, int64_t step) {
    int64_t t = (j.reverse ? len - 1 - step : step) + (j.reverse ? 1 : 0);
    return j.resets && t < len && j.resets[row * j.length + t] != 0;
}
/* 2^x by the special function unit, with a relative error of about 2^-22 (PTX ISA, ex2); results below 2^-126 are 0. */
static __device__ inline float scan_exp2(float x) {
#ifdef __CUDACC__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}
static __device__ inline float scan_softplus(float x) { return fmaxf(x, 0) + log1pf(expf(-fabsf(x))); }
static __device__ inline float scan_step(const struct scan_job &j, float pre) {
    float d = j.softplus ? scan_softplus(pre) : pre;
    return j.clamp ? (d < j.clamp_lo ? j.clamp_lo : d > j.clamp_hi ? j.clamp_hi : d) : d;
}
/* ∂Δ/∂pre; a clamped value passes nothing, a value on the edge everything. */
static __device__ inline float scan_step_grad(const struct scan_job &j, float pre) {
    float raw = j.softplus ? scan_softplus(pre) : pre;
    return j.clamp && (raw < j.clamp_lo || raw > j.clamp_hi) ? 0.0f : j.softplus ? sigmoid_of(pre) : 1.0f;
}
/* φ(v) = (e^v − 1)/v and φ'(v); a = e^v. Series near zero, where the quotients cancel. */
static __device__ inline float scan_phi(float v, float a) {
    float s = v * (1.0f / 40320.0f) + 1.0f / 5040.0f;
    s = s * v + 1.0f / 720.0f;
    s = s * v + 1.0f / 120.0f;
    s = s * v + 1.0f / 24.0f;
    s = s * v + 1.0f / 6.0f;
    s = s * v + 0.5f;
    s = s * v + 1.0f;
    return fabsf(v) < 0.5f ? s : (a - 1.0f) / v;
}
static __device__ inline float scan_phi_grad(float v, float a) {
    float s = v * (1.0f / 45360.0f) + 1.0f / 5760.0f;
    s = s * v + 1.0f / 840.0f;
    s = s * v + 1.0f / 144.0f;
    s = s * v + 1.0f / 30.0f;
    s = s * v + 1.0f / 8.0f;
    s = s * v + 1.0f / 3.0f;
    s = s * v + 0.5f;
    return fabsf(v) < 0.5f ? s : (a * (v - 1.0f) + 1.0f) / (v * v);
}
/* Sum over the LANES neighbouring threads of a channel; all get it. */
template <int LANES> static __device__ inline float scan_lane_sum(float v) {
#pragma unroll
    for (int half = LANES / 2; half > 0; half /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, half);
    return v;
}

/* A block's place. */
struct scan_place {
    int64_t row, group, first, count, block; /* count of its channels that exist */
};
template <int CHANNELS> static __device__ inline struct scan_place scan_place_of(const struct scan_job &j) {
    struct scan_place p;
    p.row = j.first_row + blockIdx.y;
    p.group = blockIdx.x / j.blocks_per_group;
    p.block = blockIdx.x - p.group * j.blocks_per_group;
    p.first = p.group * j.per_group + p.block * CHANNELS;
    int64_t left = j.per_group - p.block * CHANNELS;
    p.count = left < CHANNELS ? left : CHANNELS;
    return p;
}
