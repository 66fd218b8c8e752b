/* scan_tile: what the forward and backward scans share: a tile's Δ, Δ·x, decay, B and C staged in shared memory, the states in
 * registers, and one step of the recurrence. Internal to kernels/cuda. */
#pragma once
#include "kernels/cuda/scan/scan_job.cuh"

#define SCAN_LOG2E 1.44269504f
#define SCAN_LN2   0.693147181f

/* Time steps of a tile, for up to `states` states. */
static __host__ __device__ constexpr int scan_tile(int states) { return states > 64 ? 4 : 8; }
/* Channels of a block and steps of a tile for N states, as the launches choose them. */
static inline int scan_channels(int64_t n) { return n <= 16 ? 32 : n <= 64 ? 8 : 4; }
static inline int64_t scan_tiles(int64_t length, int64_t n) { return cuda_ceil(length, n > 64 ? 4 : 8); }
static inline dim3 scan_grid(const struct scan_job *j) {
    return dim3((unsigned)(j->groups * j->blocks_per_group), (unsigned)j->rows);
}
void scan_forward_launch(struct stream *s, const struct scan_job *j);
void scan_backward_launch(struct stream *s, const struct scan_job *j);

template <int TILE, int CHANNELS, int STATES> struct scan_staged {
    static constexpr int channels = CHANNELS, states = STATES;
    float delta[TILE][CHANNELS], dx[TILE][CHANNELS], decay[TILE][CHANNELS]; /* Δ, Δ·x; decay only per_head */
    float b[TILE][STATES], c[TILE][STATES];
    int anew[TILE];
};

/* A in units of log2 per state; 0 per_head and beyond the last state. */
template <int LANES, int PER>
static __device__ inline void scan_load_decay(const struct scan_job &j, bool real, int64_t d, int lane, float (&a2)[PER]) {
#pragma unroll
    for (int q = 0; q < PER; q++) {
        int n = lane + q * LANES;
        a2[q] = real && !j.per_head && n < j.states ? j.a[d * j.states + n] * SCAN_LOG2E : 0.0f;
    }
}
template <int LANES, int PER>
static __device__ inline void scan_load_state(const struct scan_job &j, const float *from, int64_t at, int lane, float (&h)[PER]) {
#pragma unroll
    for (int q = 0; q < PER; q++) {
        int n = lane + q * LANES;
        h[q] = from && n < j.states ? from[at + n] : 0.0f;
    }
}
template <int LANES, int PER>
static __device__ inline void scan_store_state(const struct scan_job &j, float *to, int64_t at, int lane, const float (&h)[PER]) {
#pragma unroll
    for (int q = 0; q < PER; q++) {
        int n = lane + q * LANES;
        if (n < j.states)
            to[at + n] = h[q];
    }
}

/* delta + bias of channel d at a token. */
static __device__ inline float scan_pre(const struct scan_job &j, int64_t token, int64_t d) {
    int64_t head = d / j.share;
    return act_get(j.delta, token * j.delta.ld + head) + (j.dbias ? j.dbias[head] : 0.0f);
}

template <typename staged>
static __device__ inline void scan_stage(const struct scan_job &j, const struct scan_place &p, int64_t step0, int n, staged &w) {
    constexpr int CHANNELS = staged::channels, STATES = staged::states;
    int64_t len = scan_length(j, p.row);
    for (int e = (int)threadIdx.x; e < n * CHANNELS; e += SCAN_THREADS) {
        int i = e / CHANNELS, c = e % CHANNELS;
        int64_t token = scan_token(j, p.row, len, step0 + i), d = p.first + c;
        bool real = c < p.count;
        float delta = real ? scan_step(j, scan_pre(j, token, d)) : 0.0f;
        w.delta[i][c] = delta;
        w.dx[i][c] = real ? __fmul_rn(delta, act_get(j.x, token * j.x.ld + d)) : 0.0f;
        w.decay[i][c] = real && j.per_head ? exp2f(delta * (j.a[d / j.share] * SCAN_LOG2E)) : 1.0f;
    }
    for (int e = (int)threadIdx.x; e < n * STATES; e += SCAN_THREADS) {
        int i = e / STATES, q = e % STATES;
        int64_t token = scan_token(j, p.row, len, step0 + i);
        w.b[i][q] = q < j.states ? act_get(j.bm.act, token * j.bm.act.ld + p.group * j.bm.step + q) : 0.0f;
        w.c[i][q] = q < j.states ? act_get(j.cm.act, token * j.cm.act.ld + p.group * j.cm.step + q) : 0.0f;
    }
    if ((int)threadIdx.x < n)
        w.anew[threadIdx.x] = scan_starts(j, p.row, len, step0 + threadIdx.x);
}

/* One step; returns this thread's share of C·h. Roundings are spelled out: ssd.cu has the same. */
template <int LANES, int PER, typename staged>
static __device__ inline float scan_advance(const struct scan_job &j, const staged &w, int i, const float (&a2)[PER],
                                            float (&h)[PER]) {
    int ch = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    float delta = w.delta[i][ch], dx = w.dx[i][ch], decay = w.decay[i][ch], y = 0;
    bool anew = w.anew[i] != 0;
#pragma unroll
    for (int q = 0; q < PER; q++) {
        int n = lane + q * LANES;
        float x = delta * a2[q], a = j.per_head ? decay : exp2f(x), in = __fmul_rn(dx, w.b[i][n]);
        if (j.zoh)
            in *= scan_phi(x * SCAN_LN2, a);
        h[q] = __fmaf_rn(a, anew ? 0.0f : h[q], in);
        y = __fmaf_rn(h[q], w.c[i][n], y);
    }
    return y;
}

static __device__ inline void scan_clear_tail(const struct scan_job &j, const struct scan_place &p, int64_t len, struct act to) {
    for (int64_t e = threadIdx.x; to.data && e < (j.length - len) * p.count; e += SCAN_THREADS)
        act_put(to, (p.row * j.length + len + e / p.count) * to.ld + p.first + e % p.count, 0.0f);
}
