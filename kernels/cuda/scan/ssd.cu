/* ssd: the scans of heads of channels (Mamba-2) with up to SSD_STATES states, for batches that fill a GPU. A block takes
 * SSD_CHANNELS channels of a row, a thread one channel with all its states in registers. Δ and the decay are computed once for each
 * head and token. Tokens run in tiles; the next tile's 16-byte loads are in flight while one is computed.
 *
 * Forward: the arithmetic of scan_tile.cuh in the same order, so that small batches, which take its kernel, have the same bits.
 * Backward: the formulas of scan_backward.cu. A tile is run forward again from its stored state, then backwards; dB and dC of a
 * token are summed over a warp's channels by halving (16 sums in 16 shuffles), dΔ over a head's channels in the warp.
 *
 * Long rows of few channels run in segments of SSD_SEGMENT steps side by side, blockIdx.z each. Since a state behind a segment is
 * that of a segment which began at zero, plus the state before it times the product of the decays, a first pass computes all
 * segments from zero, ssd_join_kernel hands the states on, and the second pass begins with them; the gradient of a state likewise,
 * backwards. Whether there are segments depends on the shape of a row alone. */
#include "kernels/cuda/scan/scan_tile.cuh"
#include "kernels/cuda/vector.cuh"

enum { WARPS = SSD_CHANNELS / 32, N = SSD_STATES, FORWARD_TILE = 16, BACK_TILE = scan_tile(SSD_STATES) };

template <int TILE> struct ssd_room {
    alignas(16) float b[TILE][N], c[TILE][N];
    alignas(16) float x[TILE][SSD_CHANNELS];
    float delta[TILE][SSD_CHANNELS], decay[TILE][SSD_CHANNELS]; /* of the block's heads */
    int anew[TILE];
};

/* A tile of (tokens, WIDTH) elements in 16-byte pieces, on its way through registers. */
template <bool BF16, int TILE, int WIDTH> struct flight {
    static constexpr int EACH = BF16 ? 8 : 4, PIECES = TILE * WIDTH / EACH, MINE = (PIECES + SSD_CHANNELS - 1) / SSD_CHANNELS;
    wide<BF16> piece[MINE];

    __device__ void load(const struct scan_job &j, const struct scan_place &p, int64_t len, int64_t step0, int n, struct act from,
                         int64_t column) {
#pragma unroll
        for (int k = 0; k < MINE; k++) {
            int e = (int)threadIdx.x + k * SSD_CHANNELS, i = e * EACH / WIDTH, at = e * EACH % WIDTH;
            piece[k].zero();
            if (e < PIECES && i < n)
                piece[k].load(from.data, scan_token(j, p.row, len, step0 + i) * from.ld + column + at);
        }
    }
    __device__ void land(float (*to)[WIDTH]) const {
#pragma unroll
        for (int k = 0; k < MINE; k++) {
            int e = (int)threadIdx.x + k * SSD_CHANNELS, i = e * EACH / WIDTH, at = e * EACH % WIDTH;
            float v[EACH];
            piece[k].get(v);
            if (e < PIECES) {
#pragma unroll
                for (int q = 0; q < EACH; q += 4)
                    *(float4 *)&to[i][at + q] = make_float4(v[q], v[q + 1], v[q + 2], v[q + 3]);
            }
        }
    }
};

/* The same where addresses are odd or a block is at the end of its group: element by element, into place. */
template <int TILE>
static __device__ void land_elements(const struct scan_job &j, const struct scan_place &p, int64_t len, int64_t step0, int n,
                                     ssd_room<TILE> &w) {
    for (int e = (int)threadIdx.x; e < n * SSD_CHANNELS; e += SSD_CHANNELS) {
        int i = e / SSD_CHANNELS, c = e % SSD_CHANNELS;
        w.x[i][c] = c < p.count ? act_get(j.x, scan_token(j, p.row, len, step0 + i) * j.x.ld + p.first + c) : 0.0f;
    }
    for (int e = (int)threadIdx.x; e < n * N; e += SSD_CHANNELS) {
        int i = e / N, q = e % N;
        int64_t token = scan_token(j, p.row, len, step0 + i);
        w.b[i][q] = q < j.states ? act_get(j.bm.act, token * j.bm.act.ld + p.group * j.bm.step + q) : 0.0f;
        w.c[i][q] = q < j.states ? act_get(j.cm.act, token * j.cm.act.ld + p.group * j.cm.step + q) : 0.0f;
    }
}

/* Δ and decay of the block's heads. */
template <int TILE>
static __device__ void land_heads(const struct scan_job &j, const struct scan_place &p, int64_t len, int64_t step0, int n,
                                  ssd_room<TILE> &w) {
    int64_t first = p.first / j.share;
    int heads = (int)((p.first + p.count - 1) / j.share - first) + 1;
    for (int e = (int)threadIdx.x; e < n * heads; e += SSD_CHANNELS) {
        int i = e / heads, h = e % heads;
        float delta = scan_step(j, scan_pre(j, scan_token(j, p.row, len, step0 + i), (first + h) * j.share));
        w.delta[i][h] = delta;
        w.decay[i][h] = exp2f(delta * (j.a[first + h] * SCAN_LOG2E));
    }
    if ((int)threadIdx.x < n)
        w.anew[threadIdx.x] = scan_starts(j, p.row, len, step0 + threadIdx.x);
}

template <bool BF16, int TILE> struct ssd_flight {
    flight<BF16, TILE, SSD_CHANNELS> x;
    flight<BF16, TILE, N> b, c;

    __device__ void load(const struct scan_job &j, const struct scan_place &p, int64_t len, int64_t step0, int n) {
        x.load(j, p, len, step0, n, j.x, p.first);
        b.load(j, p, len, step0, n, j.bm.act, p.group * j.bm.step);
        c.load(j, p, len, step0, n, j.cm.act, p.group * j.cm.step);
    }
    __device__ void land(ssd_room<TILE> &w) const {
        x.land(w.x);
        b.land(w.b);
        c.land(w.c);
    }
};

static __device__ inline void load_states(const struct scan_job &j, const float *from, int64_t channel, float (&h)[N]) {
#pragma unroll
    for (int n = 0; n < N; n++)
        h[n] = from && n < j.states ? from[channel * j.states + n] : 0.0f;
}
static __device__ inline void store_states(const struct scan_job &j, float *to, int64_t channel, const float (&h)[N]) {
#pragma unroll
    for (int n = 0; n < N; n++)
        if (n < j.states)
            to[channel * j.states + n] = h[n];
}
/* States at the starts of tiles: N of each channel, in 16-byte pieces. */
static __device__ inline float *start_of(const struct scan_job &j, const struct scan_place &p, int64_t tile, int64_t d) {
    return j.starts + (((p.row - j.first_row) * j.tiles + tile) * j.channels + d) * N;
}
static __device__ inline void load_start(const float *from, bool real, float (&h)[N]) {
#pragma unroll
    for (int n = 0; n < N; n += 4) {
        float4 v = real ? *(const float4 *)(from + n) : make_float4(0, 0, 0, 0);
        h[n] = v.x;
        h[n + 1] = v.y;
        h[n + 2] = v.z;
        h[n + 3] = v.w;
    }
}
static __device__ inline void store_start(float *to, const float (&h)[N]) {
#pragma unroll
    for (int n = 0; n < N; n += 4)
        *(float4 *)(to + n) = make_float4(h[n], h[n + 1], h[n + 2], h[n + 3]);
}

/* One token's row of B or C: 16 floats that all threads read. */
static __device__ inline void load_row(const float *from, float (&v)[N]) {
#pragma unroll
    for (int n = 0; n < N; n += 4) {
        float4 f = *(const float4 *)(from + n);
        v[n] = f.x;
        v[n + 1] = f.y;
        v[n + 2] = f.z;
        v[n + 3] = f.w;
    }
}

template <int TILE> static __device__ inline void advance(const ssd_room<TILE> &w, int i, int head, float (&h)[N]) {
    float b[N], dx = __fmul_rn(w.delta[i][head], w.x[i][threadIdx.x]), a = w.decay[i][head];
    load_row(w.b[i], b);
    if (w.anew[i]) {
#pragma unroll
        for (int n = 0; n < N; n++)
            h[n] = 0;
    }
#pragma unroll
    for (int n = 0; n < N; n++)
        h[n] = __fmaf_rn(a, h[n], __fmul_rn(dx, b[n]));
}

/* C·h in the order of four lanes with a quarter of the states each (scan_lane_sum). */
static __device__ inline float output(const float *row, const float (&h)[N]) {
    float c[N], part[4] = {0, 0, 0, 0};
    load_row(row, c);
#pragma unroll
    for (int n = 0; n < N; n++)
        part[n % 4] = __fmaf_rn(h[n], c[n], part[n % 4]);
    return (part[0] + part[2]) + (part[1] + part[3]);
}

/* The steps of a block's segment. */
struct segment {
    int64_t first, end;
};
static __device__ inline struct segment segment_of(const struct scan_job &j, int64_t len) {
    int64_t first = (int64_t)blockIdx.z * SSD_SEGMENT, end = first + SSD_SEGMENT;
    if (j.segments == 1 || end > len)
        end = len;
    return {first < len ? first : len, end};
}
/* Returns the index of a segment among (rows, segments, D). */
static __device__ inline int64_t segment_at(const struct scan_job &j, int64_t row, int64_t segment, int64_t d) {
    return ((row - j.first_row) * j.segments + segment) * j.channels + d;
}
static __device__ inline void load_begin(const struct scan_job &j, const float *begins, const float *whole,
                                         const struct scan_place &p, int64_t d, bool real, float (&h)[N]) {
    if (j.segments > 1)
        load_start(begins + segment_at(j, p.row, blockIdx.z, d) * N, real, h);
    else
        load_states(j, real ? whole : NULL, p.row * j.channels + d, h);
}

/* A pass forward computes: outputs and the last state, the states at the starts of the gradient's tiles, or the state behind
 * each segment that began at zero, with the product of its decays. */
enum pass { OUTPUTS, STARTS, ENDS };

/* WIDE: all blocks are whole, and pieces of 16 bytes are of the type that BF16 tells; else BF16 tells nothing. */
template <bool BF16, bool WIDE, enum pass PASS>
static __global__ void __launch_bounds__(SSD_CHANNELS) ssd_forward_kernel(struct scan_job j) {
    constexpr int TILE = FORWARD_TILE;
    __shared__ ssd_room<TILE> w;
    struct scan_place p = scan_place_of<SSD_CHANNELS>(j);
    ssd_flight<BF16, TILE> next;
    int64_t len = scan_length(j, p.row), d = p.first + threadIdx.x;
    struct segment steps = segment_of(j, len);
    bool real = WIDE || (int)threadIdx.x < p.count;
    int head = (int)((real ? d : p.first) / j.share - p.first / j.share);
    float h[N], skip = real && j.dskip ? j.dskip[d / j.share] : 0.0f, fade = 1;
    if constexpr (PASS == ENDS)
        load_start(NULL, false, h);
    else
        load_begin(j, j.begins, j.h0, p, d, real, h);
    if (WIDE)
        next.load(j, p, len, steps.first, (int)(steps.end - steps.first < TILE ? steps.end - steps.first : TILE));
    for (int64_t step0 = steps.first; step0 < steps.end; step0 += TILE) {
        int n = (int)(steps.end - step0 < TILE ? steps.end - step0 : TILE);
        int64_t left = steps.end - step0 - TILE;
        if (WIDE)
            next.land(w);
        else
            land_elements(j, p, len, step0, n, w);
        land_heads(j, p, len, step0, n, w);
        __syncthreads();
        if (WIDE && left > 0)
            next.load(j, p, len, step0 + TILE, (int)(left < TILE ? left : TILE));
        for (int i = 0; i < n; i++) {
            if (PASS == STARTS && real && i % BACK_TILE == 0)
                store_start(start_of(j, p, (step0 + i) / BACK_TILE, d), h);
            advance(w, i, head, h);
            fade = w.anew[i] ? 0.0f : fade * w.decay[i][head];
            if (PASS != OUTPUTS || !real)
                continue;
            float y = output(w.c[i], h);
            y = j.dskip ? __fmaf_rn(skip, w.x[i][threadIdx.x], y) : y;
            act_put(j.y, scan_token(j, p.row, len, step0 + i) * j.y.ld + d, y);
        }
        __syncthreads();
    }
    if constexpr (PASS == ENDS) {
        if (real) {
            store_start(j.begins + segment_at(j, p.row, blockIdx.z, d) * N, h);
            j.fades[segment_at(j, p.row, blockIdx.z, d)] = fade;
        }
    }
    if constexpr (PASS == OUTPUTS) {
        for (int64_t t = len; t < j.length && real && blockIdx.z == 0; t++)
            act_put(j.y, (p.row * j.length + t) * j.y.ld + d, 0.0f);
        if (j.ht && real && steps.end == len && (steps.first < len || blockIdx.z == 0))
            store_states(j, j.ht, p.row * j.channels + d, h);
    }
}

/* From what each segment of a row computed from zero to what it begins with, from `whole` (D, N of each row, may be NULL) on:
 * forwards, or for the gradient backwards. A thread has a state of a channel. */
static __global__ void ssd_join_kernel(struct scan_job j, float *segments, const float *whole, bool backwards) {
    for (int64_t i = cuda_index(); i < j.rows * j.channels * N; i += cuda_stride()) {
        int64_t n = i % N, d = i / N % j.channels, row = j.first_row + i / N / j.channels;
        float v = whole && n < j.states ? whole[(row * j.channels + d) * j.states + n] : 0.0f;
        for (int64_t k = 0; k < j.segments; k++) {
            int64_t at = segment_at(j, row, backwards ? j.segments - 1 - k : k, d);
            float own = segments[at * N + n];
            segments[at * N + n] = v;
            v = __fmaf_rn(j.fades[at], v, own);
        }
    }
}

/* ---- backward ---- */

struct ssd_back_room {
    struct ssd_room<BACK_TILE> w;
    alignas(16) float gy[BACK_TILE][SSD_CHANNELS];
    float keep[BACK_TILE][N][SSD_CHANNELS]; /* the state before each token */
    float sums[WARPS][BACK_TILE][32];       /* of a token: dB, then dC */
};

/* 16 sums over a warp's lanes: half the values go to the other half of the lanes, and so on; value_of tells which one a lane
 * returns. */
template <int HALF> static __device__ inline void halve(float (&v)[N]) {
    constexpr int MASK = 2 * HALF;
    bool upper = threadIdx.x % 32 & MASK;
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        float send = upper ? v[i] : v[i + HALF], stay = upper ? v[i + HALF] : v[i];
        v[i] = stay + __shfl_xor_sync(0xffffffffu, send, MASK);
    }
}
static __device__ inline float sum_by_halving(float (&v)[N]) {
    halve<8>(v);
    halve<4>(v);
    halve<2>(v);
    halve<1>(v);
    return v[0] + __shfl_xor_sync(0xffffffffu, v[0], 1);
}
/* Which value sum_by_halving leaves in a lane. */
static __device__ inline int value_of(unsigned lane) {
    return (int)((lane >> 4 & 1) * 8 + (lane >> 3 & 1) * 4 + (lane >> 2 & 1) * 2 + (lane >> 1 & 1));
}

struct ssd_sums {
    float a, skip;
};

/* What is left of a token once λ, S1 and S2 of its channel are known: dx, and this warp's share of dΔ. */
static __device__ inline void put_token(const struct scan_job &j, const struct ssd_back_room &r, int i, int head, int64_t token,
                                        int64_t d, bool real, float s1, float s2, float skip, float a_head) {
    float x = r.w.x[i][threadIdx.x], gy = r.gy[i][threadIdx.x], along = real ? a_head * s2 + x * s1 : 0.0f;
    int64_t local = token - j.first_row * j.length, shares = j.channels / j.share * j.head_shares;
    if (j.dx.data && real)
        act_put(j.dx, token * j.dx.ld + d, r.w.delta[i][head] * s1 + skip * gy);
    if (j.head_shares == j.share) {
        if (real)
            j.head_delta[local * shares + d] = along;
        return;
    }
    along = scan_lane_sum<32>(along);
    if (real && threadIdx.x % 32 == 0)
        j.head_delta[local * shares + d / 32] = along;
}

/* One token backwards: h is the state after it, then before it; λ likewise. */
static __device__ inline void step_back(struct ssd_back_room &r, int i, int head, float (&h)[N], float (&lambda)[N],
                                        float ret_s[2]) {
    float b[N], c[N], gc[N], delta = r.w.delta[i][head], a = r.w.decay[i][head], gy = r.gy[i][threadIdx.x];
    float dx = delta * r.w.x[i][threadIdx.x], s1 = 0, s2 = 0;
    bool anew = r.w.anew[i] != 0;
    unsigned lane = threadIdx.x % 32;
    load_row(r.w.b[i], b);
    load_row(r.w.c[i], c);
#pragma unroll
    for (int n = 0; n < N; n++) {
        gc[n] = gy * h[n];
        h[n] = r.keep[i][n][threadIdx.x];
        float whole = lambda[n] + gy * c[n], next = whole * a;
        s1 += whole * b[n];
        s2 += anew ? 0.0f : next * h[n];
        b[n] = whole * dx;
        lambda[n] = anew ? 0.0f : next;
    }
    float db = sum_by_halving(b), dc = sum_by_halving(gc);
    if (lane % 2 == 0) {
        r.sums[threadIdx.x / 32][i][value_of(lane)] = db;
        r.sums[threadIdx.x / 32][i][N + value_of(lane)] = dc;
    }
    ret_s[0] = s1;
    ret_s[1] = s2;
}

/* The tile's dB and dC: the warps' shares added in order. */
static __device__ inline void put_states(const struct scan_job &j, const struct scan_place &p, int64_t len, int64_t step0, int n,
                                         const struct ssd_back_room &r) {
    for (int e = (int)threadIdx.x; e < n * 32; e += SSD_CHANNELS) {
        int i = e / 32, value = e % 32, q = value % N;
        int64_t token = scan_token(j, p.row, len, step0 + i) - j.first_row * j.length;
        int64_t at = ((p.block * j.rows * j.length + token) * j.groups + p.group) * j.states + q;
        float sum = 0;
#pragma unroll
        for (int k = 0; k < WARPS; k++)
            sum += r.sums[k][i][value];
        if (q < j.states)
            (value < N ? j.part_b : j.part_c)[at] = sum;
    }
}

static __device__ void clear_tails(const struct scan_job &j, const struct scan_place &p, int64_t len) {
    int64_t shares = j.channels / j.share * j.head_shares, each = j.share / j.head_shares;
    for (int64_t t = len; t < j.length; t++) {
        int64_t token = p.row * j.length + t, local = token - j.first_row * j.length, d = p.first + threadIdx.x;
        if ((int)threadIdx.x < p.count && j.dx.data)
            act_put(j.dx, token * j.dx.ld + d, 0.0f);
        if ((int)threadIdx.x < p.count && threadIdx.x % each == 0)
            j.head_delta[local * shares + d / each] = 0;
        if ((int)threadIdx.x < j.states) {
            int64_t at = ((p.block * j.rows * j.length + local) * j.groups + p.group) * j.states + threadIdx.x;
            j.part_b[at] = 0;
            j.part_c[at] = 0;
        }
    }
}

/* A tile of dy, by elements. */
static __device__ inline void land_gradient(const struct scan_job &j, int64_t row, int64_t len, int64_t step0, int n, int64_t d,
                                            bool real, float (*to)[SSD_CHANNELS]) {
    for (int i = 0; i < n; i++)
        to[i][threadIdx.x] = real ? act_get(j.dy, scan_token(j, row, len, step0 + i) * j.dy.ld + d) : 0.0f;
}

/* The gradient of the state before each segment where that of the state behind it is zero. */
static __global__ void __launch_bounds__(SSD_CHANNELS) ssd_lambdas_kernel(struct scan_job j) {
    constexpr int TILE = BACK_TILE;
    __shared__ ssd_room<TILE> w;
    __shared__ float gy[TILE][SSD_CHANNELS];
    struct scan_place p = scan_place_of<SSD_CHANNELS>(j);
    int64_t len = scan_length(j, p.row), d = p.first + threadIdx.x;
    struct segment steps = segment_of(j, len);
    bool real = (int)threadIdx.x < p.count;
    int head = (int)((real ? d : p.first) / j.share - p.first / j.share);
    float lambda[N];
    load_start(NULL, false, lambda);
    for (int64_t step0 = steps.first + (steps.end - steps.first + TILE - 1) / TILE * TILE - TILE; step0 >= steps.first;
         step0 -= TILE) {
        int n = (int)(steps.end - step0 < TILE ? steps.end - step0 : TILE);
        land_elements(j, p, len, step0, n, w);
        land_heads(j, p, len, step0, n, w);
        land_gradient(j, p.row, len, step0, n, d, real, gy);
        __syncthreads();
        for (int i = n - 1; i >= 0; i--) {
            float c[N], a = w.anew[i] ? 0.0f : w.decay[i][head];
            load_row(w.c[i], c);
#pragma unroll
            for (int k = 0; k < N; k++)
                lambda[k] = (lambda[k] + gy[i][threadIdx.x] * c[k]) * a;
        }
        __syncthreads();
    }
    if (real)
        store_start(j.lambdas + segment_at(j, p.row, blockIdx.z, d) * N, lambda);
}

template <bool BF16, bool WIDE> static __global__ void __launch_bounds__(SSD_CHANNELS, 5) ssd_backward_kernel(struct scan_job j) {
    constexpr int TILE = BACK_TILE;
    __shared__ struct ssd_back_room r;
    struct scan_place p = scan_place_of<SSD_CHANNELS>(j);
    ssd_flight<BF16, TILE> next;
    flight<BF16, TILE, SSD_CHANNELS> next_gy;
    int64_t len = scan_length(j, p.row), d = p.first + threadIdx.x;
    struct segment steps = segment_of(j, len);
    bool real = WIDE || (int)threadIdx.x < p.count;
    int head = (int)((real ? d : p.first) / j.share - p.first / j.share);
    float h[N], start[N], lambda[N], skip = real && j.dskip ? j.dskip[d / j.share] : 0.0f, a_head = real ? j.a[d / j.share] : 0.0f;
    struct ssd_sums sums = {0, 0};
    load_begin(j, j.lambdas, j.dht, p, d, real, lambda);
    int64_t first = steps.first / TILE, tile = first + (steps.end - steps.first + TILE - 1) / TILE - 1;
    if (tile >= first) {
        load_start(start_of(j, p, tile, d), real, start);
        if (WIDE) {
            next.load(j, p, len, tile * TILE, (int)(steps.end - tile * TILE));
            next_gy.load(j, p, len, tile * TILE, (int)(steps.end - tile * TILE), j.dy, p.first);
        }
    }
    for (; tile >= first; tile--) {
        int64_t step0 = tile * TILE;
        int n = (int)(steps.end - step0 < TILE ? steps.end - step0 : TILE);
        if (WIDE) {
            next.land(r.w);
            next_gy.land(r.gy);
        } else {
            land_elements(j, p, len, step0, n, r.w);
            land_gradient(j, p.row, len, step0, n, d, real, r.gy);
        }
        land_heads(j, p, len, step0, n, r.w);
#pragma unroll
        for (int k = 0; k < N; k++)
            h[k] = start[k];
        __syncthreads();
        if (tile > first) {
            load_start(start_of(j, p, tile - 1, d), real, start);
            if (WIDE) {
                next.load(j, p, len, step0 - TILE, TILE);
                next_gy.load(j, p, len, step0 - TILE, TILE, j.dy, p.first);
            }
        }
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int k = 0; k < N; k++)
                r.keep[i][k][threadIdx.x] = h[k];
            advance(r.w, i, head, h);
        }
        for (int i = n - 1; i >= 0; i--) {
            float s[2];
            step_back(r, i, head, h, lambda, s);
            put_token(j, r, i, head, scan_token(j, p.row, len, step0 + i), d, real, s[0], s[1], skip, a_head);
            sums.a += s[1] * r.w.delta[i][head];
            sums.skip += r.gy[i][threadIdx.x] * r.w.x[i][threadIdx.x];
        }
        __syncthreads();
        put_states(j, p, len, step0, n, r);
        __syncthreads();
    }
    if (blockIdx.z == 0)
        clear_tails(j, p, len);
    if (!real)
        return;
    if (j.dh0 && blockIdx.z == 0)
        store_states(j, j.dh0, p.row * j.channels + d, lambda);
    j.part_a[segment_at(j, p.row, blockIdx.z, d)] = sums.a;
    j.part_skip[segment_at(j, p.row, blockIdx.z, d)] = sums.skip;
}

/* ---- launches ---- */

enum { FEW_BLOCKS = 4, MOST_SEGMENTS = 65535 }; /* of a grid's depth */
static constexpr int64_t LONG = 4 * (int64_t)SSD_SEGMENT;

bool ssd_suits(const struct scan_job *j) { return j->per_head && j->states <= N; }
int64_t ssd_segments(const struct scan_job *j) {
    bool few = ssd_suits(j) && j->groups * j->blocks_per_group <= FEW_BLOCKS && j->length >= LONG;
    int64_t segments = cuda_ceil(j->length, SSD_SEGMENT);
    return few && segments <= MOST_SEGMENTS ? segments : 1;
}

static bool lies_wide(const struct scan_job *j) {
    int64_t each = j->x.bf16 ? 8 : 4;
    return j->states == N && act_is_wide(j->x) && act_is_wide(j->dy) && act_is_wide(j->bm.act) && act_is_wide(j->cm.act) &&
           j->bm.step % each == 0 && j->cm.step % each == 0 && j->per_group % SSD_CHANNELS == 0;
}

static dim3 grid_of(const struct scan_job *j) {
    return dim3((unsigned)(j->groups * cuda_ceil(j->per_group, SSD_CHANNELS)), (unsigned)j->rows, (unsigned)j->segments);
}

static void join(struct stream *s, const struct scan_job *j, float *segments, const float *whole, bool backwards) {
    unsigned blocks = cuda_blocks(j->rows * j->channels * N, SSD_CHANNELS);
    CUDA_LAUNCH(ssd_join_kernel, blocks, SSD_CHANNELS, cuda_stream(s)->stream, *j, segments, whole, backwards);
}

template <bool BF16, bool WIDE> static void launch_forward(struct stream *s, const struct scan_job *j) {
    cudaStream_t stream = cuda_stream(s)->stream;
    if (j->segments > 1) {
        CUDA_LAUNCH((ssd_forward_kernel<BF16, WIDE, ENDS>), grid_of(j), SSD_CHANNELS, stream, *j);
        join(s, j, j->begins, j->h0, false);
    }
    if (j->starts)
        CUDA_LAUNCH((ssd_forward_kernel<BF16, WIDE, STARTS>), grid_of(j), SSD_CHANNELS, stream, *j);
    else
        CUDA_LAUNCH((ssd_forward_kernel<BF16, WIDE, OUTPUTS>), grid_of(j), SSD_CHANNELS, stream, *j);
}

void ssd_forward_launch(struct stream *s, const struct scan_job *from) {
    struct scan_job j = *from;
    j.blocks_per_group = cuda_ceil(j.per_group, SSD_CHANNELS);
    if (!lies_wide(&j))
        launch_forward<false, false>(s, &j);
    else if (j.x.bf16)
        launch_forward<true, true>(s, &j);
    else
        launch_forward<false, true>(s, &j);
}

void ssd_backward_launch(struct stream *s, const struct scan_job *from) {
    struct scan_job j = *from;
    if (j.segments > 1) {
        CUDA_LAUNCH(ssd_lambdas_kernel, grid_of(&j), SSD_CHANNELS, cuda_stream(s)->stream, j);
        join(s, &j, j.lambdas, j.dht, true);
    }
    if (!lies_wide(&j))
        CUDA_LAUNCH((ssd_backward_kernel<false, false>), grid_of(&j), SSD_CHANNELS, cuda_stream(s)->stream, j);
    else if (j.x.bf16)
        CUDA_LAUNCH((ssd_backward_kernel<true, true>), grid_of(&j), SSD_CHANNELS, cuda_stream(s)->stream, j);
    else
        CUDA_LAUNCH((ssd_backward_kernel<false, true>), grid_of(&j), SSD_CHANNELS, cuda_stream(s)->stream, j);
}
