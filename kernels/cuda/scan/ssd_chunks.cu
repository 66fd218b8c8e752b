/* ssd_chunks: the forward scan of heads (Mamba-2) by tensor cores, for bf16, 16 states and no state carried in or out.
 *
 * A block takes CHANNELS channels of a head and a row. With the state H (states, channels) before a tile of 16 tokens, and cum the
 * sums of Δ·A from the tile's first token on:
 *   Y = M·X + exp(cum_i)·(C·H),   M_ij = (C·Bᵀ)_ij · exp(cum_i − cum_j) · Δ_j for j ≤ i, else 0; and D on the diagonal
 *   H ← exp(cum_15)·H + B'ᵀ·X,    B'_j = B_j · Δ_j · exp(cum_15 − cum_j)
 * Only differences of cum from a later to an earlier token are exponents. A token that begins a segment clears what it and later
 * tokens would have had from earlier ones: entries of M, of B', and the share of H.
 *
 * Tokens run in chunks of four tiles. Each warp first makes M and B' of one tile for all, as operands in the order of their
 * registers; then it takes 16 channels through the four tiles, its H in registers: F32, rounded to bf16 only as an operand. The
 * next chunk's loads are in flight meanwhile. A row's bits do not depend on the batch. */
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/scan/scan_tile.cuh"
#include "kernels/cuda/vector.cuh"

enum { THREADS = 128 };
static constexpr int CHANNELS = 64, N = SSD_STATES, TILE = 16, TILES = THREADS / 32, CHUNK = TILE * TILES;
static constexpr int X_LD = CHANNELS + 8, B_LD = N + 8; /* an odd number of 16-byte pieces: no banks conflict (mma.cuh) */

struct chunk_room {
    alignas(16) __nv_bfloat16 x[CHUNK * X_LD];
    alignas(16) __nv_bfloat16 b[CHUNK * B_LD], c[CHUNK * B_LD];
    alignas(16) uint4 m[TILES][32], scaled_b[TILES][32]; /* M; B' */
    /* of each token: Δ; cum in units of log2; Δ·exp(cum_15 − cum) and exp(cum), or 0 where a segment begins between */
    alignas(8) float delta[CHUNK], cum[CHUNK], to_end[CHUNK], from_start[CHUNK];
    int reach[CHUNK];   /* how many tokens before it in its tile are of its segment */
    float decay[TILES]; /* exp(cum_15), or 0 */
};

/* A thread's loads of a chunk: pieces of x at tokens threadIdx.x / 8 + 16·k, a piece of B, one of C, and a token's Δ before its
 * softplus. */
struct chunk_flight {
    uint4 x[TILES], b, c;
    float pre;
    bool anew;
    const uint4 *at_x, *at_b, *at_c; /* of the chunk to load next */

    static __device__ const uint4 *piece_of(struct act from, int64_t token, int64_t column) {
        return (const uint4 *)((const __nv_bfloat16 *)from.data + token * from.ld + column);
    }
    __device__ void begin(const struct scan_job &j, const struct scan_place &p, int64_t len) {
        int t = (int)threadIdx.x;
        int64_t token = scan_token(j, p.row, len, t / 2);
        at_x = piece_of(j.x, scan_token(j, p.row, len, t / 8), p.first + t % 8 * 8);
        at_b = piece_of(j.bm.act, token, p.group * j.bm.step + t % 2 * 8);
        at_c = piece_of(j.cm.act, token, p.group * j.cm.step + t % 2 * 8);
    }
    __device__ void load(const struct scan_job &j, const struct scan_place &p, int64_t head, int64_t len, int64_t step0) {
        const uint4 none = {0, 0, 0, 0};
        int t = (int)threadIdx.x, n = (int)(len - step0 < CHUNK ? len - step0 : CHUNK);
        int64_t along_x = j.reverse ? -(j.x.ld >> 3) : j.x.ld >> 3, along_b = j.reverse ? -(j.bm.act.ld >> 3) : j.bm.act.ld >> 3;
        int64_t along_c = j.reverse ? -(j.cm.act.ld >> 3) : j.cm.act.ld >> 3;
#pragma unroll
        for (int k = 0; k < TILES; k++)
            x[k] = t / 8 + k * TILE < n ? at_x[k * TILE * along_x] : none;
        b = t / 2 < n ? *at_b : none;
        c = t / 2 < n ? *at_c : none;
        at_x += CHUNK * along_x;
        at_b += CHUNK * along_b;
        at_c += CHUNK * along_c;
        pre = 0;
        anew = false;
        if (t < n) {
            pre = act_get(j.delta, scan_token(j, p.row, len, step0 + t) * j.delta.ld + head);
            anew = scan_starts(j, p.row, len, step0 + t);
        }
    }

    /* Of each 16 channels the even pairs come first, then the odd ones, so that a lane's four sums of a token (columns 2t, 2t + 1
     * of two products) are neighbouring channels. */
    __device__ void land(chunk_room &w) const {
        int t = (int)threadIdx.x;
#pragma unroll
        for (int k = 0; k < TILES; k++) {
            __nv_bfloat16 *to = w.x + (t / 8 + k * TILE) * X_LD + t % 8 / 2 * 16 + t % 2 * 4;
            *(uint2 *)to = make_uint2(x[k].x, x[k].z);
            *(uint2 *)(to + 8) = make_uint2(x[k].y, x[k].w);
        }
        *(uint4 *)(w.b + t / 2 * B_LD + t % 2 * 8) = b;
        *(uint4 *)(w.c + t / 2 * B_LD + t % 2 * 8) = c;
    }

    /* What belongs to a token; by whole warps. n: tokens of the chunk; those beyond have Δ 0. */
    __device__ void land_token(const struct scan_job &j, int n, float a2, float bias, chunk_room &w) const {
        int t = (int)threadIdx.x, i = t % TILE;
        float delta = t < n ? scan_step(j, pre + bias) : 0.0f, log = delta * a2, cum = log, total = log;
#pragma unroll
        for (int step = 1; step < TILE; step *= 2) {
            float other = __shfl_xor_sync(0xffffffffu, total, step);
            cum += i & step ? other : 0.0f;
            total += other;
        }
        unsigned starts = __ballot_sync(0xffffffffu, anew) >> t % 32 / TILE * TILE & 0xffffu, before = starts & ((2u << i) - 1);
        w.delta[t] = delta;
        w.cum[t] = cum;
        w.from_start[t] = before ? 0.0f : exp2f(cum);
        w.to_end[t] = starts >> i >> 1 ? 0.0f : delta * exp2f(total - cum);
        w.reach[t] = before ? i - (31 - __clz((int)before)) : i;
        if (i == TILE - 1)
            w.decay[t / TILE] = starts ? 0.0f : exp2f(total);
    }
};

/* M of a tile, with D on its diagonal. */
static __device__ inline void make_m(chunk_room &w, int tile, float skip) {
    int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, first = tile * TILE;
    uint32_t c[4], b[2][2], m[4];
    float s[2][4] = {};
    mma_load_a(c, w.c + first * B_LD, B_LD);
    mma_load_b(b, w.b + first * B_LD, B_LD);
    mma_bf16(s[0], c, b[0]);
    mma_bf16(s[1], c, b[1]);
    const float cum_i[2] = {w.cum[first + g], w.cum[first + g + 8]};
    const int reach[2] = {w.reach[first + g], w.reach[first + g + 8]};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float2 cum = *(const float2 *)&w.cum[first + half * 8 + 2 * t], delta = *(const float2 *)&w.delta[first + half * 8 + 2 * t];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int before = g + e / 2 * 8 - (half * 8 + 2 * t + e % 2);
            if (half > e / 2) { /* later tokens only */
                s[half][e] = 0;
                continue;
            }
            float decay = scan_exp2(cum_i[e / 2] - (e % 2 ? cum.y : cum.x)) * (e % 2 ? delta.y : delta.x);
            s[half][e] = (unsigned)before <= (unsigned)reach[e / 2] ? s[half][e] * decay : 0.0f;
            if (half == e / 2)
                s[half][e] += before ? 0.0f : skip;
        }
    }
    mma_pack_a(m, s[0], s[1]);
    w.m[tile][lane] = make_uint4(m[0], m[1], m[2], m[3]);
}

/* B' of a tile. */
static __device__ inline void make_scaled_b(chunk_room &w, int tile) {
    int lane = (int)threadIdx.x % 32, t = lane % 4;
    const float2 *to_end = (const float2 *)&w.to_end[tile * TILE];
    float2 early = to_end[t], late = to_end[t + 4];
    uint32_t b[2][2];
    mma_load_b_trans(b, w.b + tile * TILE * B_LD, B_LD);
#pragma unroll
    for (int half = 0; half < 2; half++) { /* of the states */
        b[half][0] = mma_pack(mma_low(b[half][0]) * early.x, mma_high(b[half][0]) * early.y);
        b[half][1] = mma_pack(mma_low(b[half][1]) * late.x, mma_high(b[half][1]) * late.y);
    }
    w.scaled_b[tile][lane] = make_uint4(b[0][0], b[0][1], b[1][0], b[1][1]);
}

/* A warp's 16 channels through a tile. h: Hᵀ (channels, states), whose sums in pairs are the B of C·H. y: tokens g and g + 8 of the
 * tile by channels 4t to 4t + 3. */
static __device__ inline void step_tile(const chunk_room &w, int tile, int column, float (&h)[2][4], uint32_t (&y)[2][2]) {
    int lane = (int)threadIdx.x % 32, g = lane / 4, first = tile * TILE;
    const __nv_bfloat16 *from = w.x + first * X_LD + column;
    uint32_t c[4], xt[4], x[2][2];
    float out[2][4] = {}, p0 = w.from_start[first + g], p8 = w.from_start[first + g + 8], decay = w.decay[tile];
    uint4 mv = w.m[tile][lane], bv = w.scaled_b[tile][lane];
    const uint32_t m[4] = {mv.x, mv.y, mv.z, mv.w}, b[2][2] = {{bv.x, bv.y}, {bv.z, bv.w}};
    mma_load_a(c, w.c + first * B_LD, B_LD);
    mma_load_b_trans(x, from, X_LD);
    mma_load_a_trans(xt, from, X_LD);
#pragma unroll
    for (int half = 0; half < 2; half++) { /* of the channels */
        const uint32_t hb[2] = {mma_pack(h[0][2 * half], h[0][2 * half + 1]), mma_pack(h[1][2 * half], h[1][2 * half + 1])};
        mma_bf16(out[half], c, hb);
        out[half][0] *= p0;
        out[half][1] *= p0;
        out[half][2] *= p8;
        out[half][3] *= p8;
        mma_bf16(out[half], m, x[half]);
        y[0][half] = mma_pack(out[half][0], out[half][1]);
        y[1][half] = mma_pack(out[half][2], out[half][3]);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) { /* of the states */
#pragma unroll
        for (int e = 0; e < 4; e++)
            h[half][e] *= decay;
        mma_bf16(h[half], xt, b[half]);
    }
}

/* Zeros behind the row's last token. */
static __device__ void clear_tail(const struct scan_job &j, const struct scan_place &p, int64_t len) {
    wide<true> zero;
    for (int64_t e = len * 8 + threadIdx.x; e < j.length * 8; e += THREADS)
        zero.store(j.y.data, (p.row * j.length + e / 8) * j.y.ld + p.first + e % 8 * 8);
}

static __global__ void __launch_bounds__(THREADS, 5) ssd_chunks_kernel(struct scan_job j) {
    __shared__ chunk_room w;
    struct scan_place p = scan_place_of<CHANNELS>(j);
    int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    int64_t len = scan_length(j, p.row), head = (uint32_t)p.first / (uint32_t)j.share, along = j.reverse ? -j.y.ld : j.y.ld;
    float h[2][4] = {}, a2 = j.a[head] * SCAN_LOG2E, bias = j.dbias ? j.dbias[head] : 0.0f, skip = j.dskip ? j.dskip[head] : 0.0f;
    chunk_flight next;
    __nv_bfloat16 *y = (__nv_bfloat16 *)j.y.data + scan_token(j, p.row, len, g) * j.y.ld + p.first + warp * 16 + 4 * t;
    next.begin(j, p, len);
    next.load(j, p, head, len, 0);
    for (int64_t step0 = 0; step0 < len; step0 += CHUNK) {
        int n = (int)(len - step0 < CHUNK ? len - step0 : CHUNK);
        next.land(w);
        if (threadIdx.x < CHUNK)
            next.land_token(j, n, a2, bias, w);
        __syncthreads();
        next.load(j, p, head, len, step0 + CHUNK);
        make_m(w, warp, skip);
        make_scaled_b(w, warp);
        __syncthreads();
#pragma unroll 2 /* all four: registers spill */
        for (int tile = 0; tile < TILES; tile++) {
            uint32_t out[2][2];
            step_tile(w, tile, warp * 16, h, out);
            if (tile * TILE + g < n)
                *(uint2 *)y = make_uint2(out[0][0], out[0][1]);
            if (tile * TILE + g + 8 < n)
                *(uint2 *)(y + 8 * along) = make_uint2(out[1][0], out[1][1]);
            y += TILE * along;
        }
        __syncthreads();
    }
    clear_tail(j, p, len);
}

bool ssd_chunks_forward_suits(const struct scan_job *j) {
    return j->per_head && j->states == N && j->share % CHANNELS == 0 && !j->h0 && !j->ht && !j->starts && j->x.bf16 && j->y.bf16 &&
           j->bm.act.bf16 && j->cm.act.bf16 && act_is_wide(j->x) && act_is_wide(j->y) && act_is_wide(j->bm.act) &&
           act_is_wide(j->cm.act) && j->bm.step % 8 == 0 && j->cm.step % 8 == 0;
}

void ssd_chunks_forward_launch(struct stream *s, const struct scan_job *from) {
    struct scan_job j = *from;
    j.blocks_per_group = j.per_group / CHANNELS;
    CUDA_LAUNCH(ssd_chunks_kernel, dim3((unsigned)(j.channels / CHANNELS), (unsigned)j.rows), THREADS, cuda_stream(s)->stream, j);
}
