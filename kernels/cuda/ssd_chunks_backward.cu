/* ssd_chunks_backward: gradients of heads of 64 channels with 16 states, bf16, in chunks of 64 tokens by tensor cores (mma.cuh).
 * A block takes a head of a row: 4 warps with 16 tokens of the chunk each.
 *
 * cum_i is the sum of a·Δ over the chunk's tokens up to i, L_ij = exp(cum_i − cum_j) for j ≤ i in the same segment, else 0.
 * first_i = exp(cum_i) in the segment the chunk begins in, last_j = exp(cum_63 − cum_j) in the one it ends in, else 0. H is the
 * state before the chunk, G the gradient of the state after it, both (channels, states). With S = dY·Xᵀ and P = C·Bᵀ: dC_i = Σ_j
 * S_ij·L_ij·Δ_j·B_j + first_i·dY_i·H        U_j  = Σ_i P_ij·L_ij·dY_i + last_j·B_j·Gᵀ     dX_j = Δ_j·U_j + D·dY_j dB_j = Δ_j·(Σ_i
 * S_ij·L_ij·C_i + last_j·X_j·G)        G   ← first_63·G + Σ_i first_i·dY_iᵀ·C_i      dD   = Σ_i S_ii Everything below a·Δ_t that
 * decays across token t, F_t, is the gradient of a·Δ_t. With E_ij = S_ij·P_ij·L_ij, R_i the part of dC_i from H times C_i, and Q_j
 * = last_j·B_j·Gᵀ·X_j: F_t = Σ_{i ≥ t} (Σ_{j < i} E_ij·Δ_j − Σ_{k > i} E_ki·Δ_i + R_i) + Σ_{j < t} Q_j·Δ_j + first_63·⟨G, H⟩ dΔ_t =
 * a·F_t + Σ_i E_it + Q_t                         dA = Σ_t Δ_t·F_t S and P are sums of products of bf16 values as given, so that the
 * differences in F lose nothing to rounded operands. Operands that are rounded: S·L·Δ, P·L, first·C, Δ·last·B, H and G (carried in
 * F32).
 *
 * S and P are computed twice, with i along the rows for dC and with j along the rows for dX and dB: no sums over warps, and each
 * warp has 5 tiles (16,16) of the causal half. */
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/scan_tile.cuh"
#include "kernels/cuda/vector.cuh"

enum {
    CHUNK = 64,
    WIDTH = 64,
    N = SSD_STATES,
    WARPS = 4,
    THREADS = 32 * WARPS,
    LD = WIDTH + 8, /* of tiles in shared memory */
    LDN = N + 8,
    PIECES = CHUNK * WIDTH / 8 / THREADS
};

struct times { /* of a chunk's tokens */
    float cum[CHUNK], delta[CHUNK], slope[CHUNK], first[CHUNK], last[CHUNK];
    int segment[CHUNK]; /* marks since the chunk's start */
};

struct chunk_place {
    struct scan_place p;
    int64_t len, head;
    float a;
};
static __device__ inline struct chunk_place chunk_place_of(const struct scan_job &j) {
    struct chunk_place at;
    at.p = scan_place_of<WIDTH>(j);
    at.len = scan_length(j, at.p.row);
    at.head = at.p.first / WIDTH;
    at.a = j.a[at.head];
    return at;
}
/* States at the starts of chunks: bf16, (N, WIDTH) of each head. */
static __device__ inline __nv_bfloat16 *start_of(const struct scan_job &j, const struct chunk_place &at, int64_t chunk) {
    int64_t heads = j.channels / WIDTH;
    return (__nv_bfloat16 *)j.starts + (((at.p.row - j.first_row) * j.tiles + chunk) * heads + at.head) * (N * WIDTH);
}

static __device__ inline int64_t chunks_of(int64_t len) { return (len + CHUNK - 1) / CHUNK; }

/* The sums over the lanes before and with this one; `total` becomes the sum over all. */
static __device__ inline float sum_up(float v, float *total) {
    *total = v;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        float other = __shfl_xor_sync(0xffffffffU, *total, d);
        v += threadIdx.x & (unsigned)d ? other : 0.0f;
        *total += other;
    }
    return v;
}
/* The sums over this lane and those after it. */
static __device__ inline float sum_down(float v, float *total) {
    *total = v;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        float other = __shfl_xor_sync(0xffffffffU, *total, d);
        v += threadIdx.x & (unsigned)d ? 0.0f : other;
        *total += other;
    }
    return v;
}

/* By the first warp. Tokens beyond the row's end have Δ = 0. */
static __device__ inline void land_times(const struct scan_job &j, const struct chunk_place &at, int64_t step0, struct times &w) {
    int lane = (int)threadIdx.x, segment[2], segments = 0;
    float cum[2], whole = 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int i = half * 32 + lane;
        float delta = 0, slope = 0, total;
        bool anew = false;
        if (step0 + i < at.len) {
            float pre = scan_pre(j, scan_token(j, at.p.row, at.len, step0 + i), at.p.first);
            delta = scan_step(j, pre);
            slope = scan_step_grad(j, pre);
            anew = scan_starts(j, at.p.row, at.len, step0 + i);
        }
        cum[half] = whole + sum_up(delta * (at.a * SCAN_LOG2E), &total);
        unsigned marks = __ballot_sync(0xffffffffU, anew);
        segment[half] = segments + __popc(marks & 0xffffffffU >> (31 - lane));
        segments += __popc(marks);
        whole += total;
        w.cum[i] = cum[half];
        w.segment[i] = segment[half];
        w.delta[i] = delta;
        w.slope[i] = slope;
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int i = half * 32 + lane;
        w.first[i] = segment[half] == 0 ? exp2f(cum[half]) : 0.0f;
        w.last[i] = segment[half] == segments ? exp2f(whole - cum[half]) : 0.0f;
    }
}

/* A chunk's rows of x or dy, on their way through registers. */
struct wide_rows {
    wide<true> piece[PIECES];

    __device__ void load(const struct scan_job &j, const struct chunk_place &at, int64_t step0, struct act from) {
#pragma unroll
        for (int k = 0; k < PIECES; k++) {
            int e = (int)threadIdx.x + k * THREADS, i = e / (WIDTH / 8);
            piece[k].zero();
            if (step0 + i < at.len)
                piece[k].load(from.data, scan_token(j, at.p.row, at.len, step0 + i) * from.ld + at.p.first + e % (WIDTH / 8) * 8);
        }
    }
    __device__ void land(__nv_bfloat16 *to) const {
#pragma unroll
        for (int k = 0; k < PIECES; k++) {
            int e = (int)threadIdx.x + k * THREADS;
            piece[k].store(to, e / (WIDTH / 8) * LD + e % (WIDTH / 8) * 8);
        }
    }
};
/* Of B or C: one piece of each thread. */
struct state_rows {
    wide<true> piece;

    __device__ void load(const struct scan_job &j, const struct chunk_place &at, int64_t step0, const struct scan_view &from) {
        int i = (int)threadIdx.x / (N / 8);
        piece.zero();
        if (step0 + i < at.len)
            piece.load(from.act.data, scan_token(j, at.p.row, at.len, step0 + i) * from.act.ld + at.p.group * from.step +
                                          (int64_t)threadIdx.x % (N / 8) * 8);
    }
    __device__ void land(__nv_bfloat16 *to) const {
        piece.store(to, (int)threadIdx.x / (N / 8) * LDN + (int)threadIdx.x % (N / 8) * 8);
    }
};

/* s (N, 16 channels from `channel`) += Σ_i scale_i·rows_iᵀ·wide_i, the warp's share of a state. A scaled row is the sum of two
 * bf16: rounded to one, its error would be the same in all channels. */
static __device__ inline void gather(float (&s)[2][4], const __nv_bfloat16 *rows, const float *scale, const __nv_bfloat16 *wides,
                                     int channel) {
#pragma unroll
    for (int k = 0; k < CHUNK / 16; k++) {
        int i = k * 16 + (int)threadIdx.x % 4 * 2;
        uint32_t a[4], rest[4], b[2][2];
        mma_load_a_trans(a, rows + k * 16 * LDN, LDN);
        mma_load_b_trans(b, wides + k * 16 * LD + channel, LD);
#pragma unroll
        for (int q = 0; q < 4; q++) {
            float v0 = mma_low(a[q]) * scale[i + q / 2 * 8], v1 = mma_high(a[q]) * scale[i + q / 2 * 8 + 1];
            a[q] = mma_pack(v0, v1);
            rest[q] = mma_pack(v0 - mma_low(a[q]), v1 - mma_high(a[q]));
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            mma_bf16(s[half], rest, b[half]);
            mma_bf16(s[half], a, b[half]);
        }
    }
}
static __device__ inline void scale_all(float (&s)[2][4], float by) {
#pragma unroll
    for (int e = 0; e < 8; e++)
        s[e / 4][e % 4] *= by;
}

/* Two neighbouring columns of a state's tile, of element e / 2 · 8 columns and e % 2 · 8 rows further: what a thread's sums are. */
static __device__ inline uint32_t *pair_of(__nv_bfloat16 *tile, int e) {
    int row = (int)threadIdx.x % 32 / 4 + e % 2 * 8, column = (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 4 * 2 + e / 2 * 8;
    return (uint32_t *)(tile + row * LD + column);
}

/* Two neighbouring tiles of 8 columns hold words a and b (pairs of columns) at a lane: of a row's 4 lanes, even ones get 2 words of
 * the left tile, odd ones 2 of the right one; they begin at column16. */
static __device__ inline int column16(void) { return (int)(threadIdx.x & 1) * 8 + (int)(threadIdx.x >> 1 & 1) * 4; }
static __device__ inline void exchange(float a, float b, float (&ret)[2]) {
    bool odd = threadIdx.x & 1;
    float got = __shfl_xor_sync(0xffffffffU, odd ? a : b, 1);
    ret[0] = odd ? got : a;
    ret[1] = odd ? b : got;
}
/* 4 neighbouring columns. */
static __device__ inline uint64_t exchange_packed(uint32_t a, uint32_t b) {
    float both[2];
    exchange(__uint_as_float(a), __uint_as_float(b), both);
    return __float_as_uint(both[0]) | (uint64_t)__float_as_uint(both[1]) << 32;
}

/* ---- the states at the starts of chunks ---- */

struct start_room {
    alignas(16) __nv_bfloat16 x[CHUNK * LD], b[CHUNK * LDN];
    struct times w;
    float scale[CHUNK];
};

static __global__ void __launch_bounds__(THREADS, 6) chunk_starts_kernel(struct scan_job j) {
    __shared__ struct start_room r;
    struct chunk_place at = chunk_place_of(j);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int64_t chunks = chunks_of(at.len);
    float h[2][4] = {};
    struct wide_rows x;
    struct state_rows b;
    x.load(j, at, 0, j.x);
    b.load(j, at, 0, j.bm);
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        __nv_bfloat16 *start = start_of(j, at, chunk) + warp * 16 + column16();
#pragma unroll
        for (int half = 0; half < 2; half++)
            *(uint64_t *)(start + (lane / 4 + half * 8) * WIDTH) =
                exchange_packed(mma_pack(h[0][half * 2], h[0][half * 2 + 1]), mma_pack(h[1][half * 2], h[1][half * 2 + 1]));
        if (chunk == chunks - 1)
            break;
        x.land(r.x);
        b.land(r.b);
        if (warp == 0) {
            land_times(j, at, chunk * CHUNK, r.w);
            r.scale[lane] = r.w.delta[lane] * r.w.last[lane];
            r.scale[lane + 32] = r.w.delta[lane + 32] * r.w.last[lane + 32];
        }
        __syncthreads();
        x.load(j, at, (chunk + 1) * CHUNK, j.x);
        b.load(j, at, (chunk + 1) * CHUNK, j.bm);
        scale_all(h, r.w.first[CHUNK - 1]);
        gather(h, r.b, r.scale, r.x, warp * 16);
        __syncthreads();
    }
}

/* ---- gradients ---- */

struct gradient_room {
    alignas(16) __nv_bfloat16 x[CHUNK * LD], dy[CHUNK * LD], b[CHUNK * LDN], c[CHUNK * LDN], h[N * LD], g[N * LD];
    struct times w;
    float along[CHUNK];             /* Σ_{j < i} E_ij·Δ_j + R_i */
    float below[CHUNK], end[CHUNK]; /* Σ_{i > j} E_ij; Q_j */
    float self[CHUNK];              /* E_jj */
    float across[WARPS];            /* first_63·⟨G, H⟩ */
};

/* L_ij */
static __device__ inline float decay(const struct times &w, int i, int j, float cum_row, int segment_row, bool row_is_i) {
    float difference = row_is_i ? cum_row - w.cum[j] : w.cum[i] - cum_row;
    return j <= i && segment_row == w.segment[row_is_i ? j : i] ? exp2f(difference) : 0.0f;
}

/* d (16,16) = rows · columnsᵀ over DEPTH, of tiles whose rows lie `ld` apart. */
template <int DEPTH>
static __device__ inline void multiply(float (&d)[2][4], const __nv_bfloat16 *rows, const __nv_bfloat16 *columns, int ld) {
#pragma unroll
    for (int e = 0; e < 8; e++)
        d[e / 4][e % 4] = 0;
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        uint32_t a[4], b[2][2];
        mma_load_a(a, rows + k, ld);
        mma_load_b(b, columns + k, ld);
        mma_bf16(d[0], a, b[0]);
        mma_bf16(d[1], a, b[1]);
    }
}
/* d (16,16) += the tile a · tile (rows of k). */
static __device__ inline void multiply_add(float (&d)[2][4], const uint32_t (&a)[4], const __nv_bfloat16 *tile, int ld) {
    uint32_t b[2][2];
    mma_load_b_trans(b, tile, ld);
    mma_bf16(d[0], a, b[0]);
    mma_bf16(d[1], a, b[1]);
}
/* Of the two rows of a thread: Σ over the states of rows a (as an operand) · d. */
static __device__ inline void dot_rows(const uint32_t (&a)[4], const float (&d)[2][4], float (&ret)[2]) {
#pragma unroll
    for (int row = 0; row < 2; row++)
        ret[row] = scan_lane_sum<4>(mma_low(a[row]) * d[0][row * 2] + mma_high(a[row]) * d[0][row * 2 + 1] +
                                    mma_low(a[row + 2]) * d[1][row * 2] + mma_high(a[row + 2]) * d[1][row * 2 + 1]);
}

/* A warp's 16 rows of dB or dC to the head's share, each row times its factor. */
static __device__ inline void put_states(const struct scan_job &j, const struct chunk_place &at, int64_t step0, int row0,
                                         const float (&d)[2][4], const float (&factor)[2], float *part) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
        int i = row0 + (int)threadIdx.x % 32 / 4 + row * 8;
        float f = factor[row];
        wide<false> piece;
        float even[2], odd[2]; /* columns */
        exchange(d[0][row * 2] * f, d[1][row * 2] * f, even);
        exchange(d[0][row * 2 + 1] * f, d[1][row * 2 + 1] * f, odd);
        piece.put({even[0], odd[0], even[1], odd[1]});
        if (step0 + i >= at.len)
            continue;
        int64_t token = scan_token(j, at.p.row, at.len, step0 + i) - j.first_row * j.length;
        piece.store(part, ((at.p.block * j.rows * j.length + token) * j.groups + at.p.group) * N + column16());
    }
}

/* dC of the warp's tokens i, and their sums along the rows of E. */
static __device__ inline void rows_of_c(const struct scan_job &j, const struct chunk_place &at, int64_t step0,
                                        struct gradient_room &r) {
    int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4, i0 = warp * 16;
    uint32_t c[4];
    float dc[2][4], s[2][4], p[2][4], sums[2] = {0, 0}, from_start[2];
    const float ones[2] = {1, 1};
    multiply<WIDTH>(dc, r.dy + i0 * LD, r.h, LD);
    const float first[2] = {r.w.first[i0 + g], r.w.first[i0 + g + 8]}, cum[2] = {r.w.cum[i0 + g], r.w.cum[i0 + g + 8]};
    const int segment[2] = {r.w.segment[i0 + g], r.w.segment[i0 + g + 8]};
#pragma unroll
    for (int e = 0; e < 8; e++)
        dc[e / 4][e % 4] *= first[e % 4 / 2];
    mma_load_a(c, r.c + i0 * LDN, LDN);
    dot_rows(c, dc, from_start);
    for (int j0 = 0; j0 <= i0; j0 += 16) {
        multiply<WIDTH>(s, r.dy + i0 * LD, r.x + j0 * LD, LD);
        multiply<N>(p, r.c + i0 * LDN, r.b + j0 * LDN, LDN);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            int row = e % 4 / 2, i = i0 + g + row * 8, k = j0 + e / 4 * 8 + 2 * t + e % 2;
            s[e / 4][e % 4] *= decay(r.w, i, k, cum[row], segment[row], true) * r.w.delta[k];
            sums[row] += k < i ? s[e / 4][e % 4] * p[e / 4][e % 4] : 0.0f;
        }
        uint32_t a[4];
        mma_pack_a(a, s[0], s[1]);
        multiply_add(dc, a, r.b + j0 * LDN, LDN);
    }
    put_states(j, at, step0, i0, dc, ones, j.part_c);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        sums[row] = scan_lane_sum<4>(sums[row]) + from_start[row];
        if (t == 0)
            r.along[i0 + g + row * 8] = sums[row];
    }
}

/* dX = Δ·U + D·dY of the warp's tokens. */
static __device__ inline void put_x(const struct scan_job &j, const struct chunk_place &at, int64_t step0, int row0, float skip,
                                    const float (&delta)[2], const float (&u)[WIDTH / 16][2][4], const struct gradient_room &r) {
    if (!j.dx.data)
        return;
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++) {
        uint32_t dy[4];
        mma_load_a(dy, r.dy + row0 * LD + k * 16, LD);
#pragma unroll
        for (int row = 0; row < 2; row++) {
            uint32_t words[2];
#pragma unroll
            for (int half = 0; half < 2; half++)
                words[half] = mma_pack(delta[row] * u[k][half][row * 2] + skip * mma_low(dy[half * 2 + row]),
                                       delta[row] * u[k][half][row * 2 + 1] + skip * mma_high(dy[half * 2 + row]));
            uint64_t both = exchange_packed(words[0], words[1]);
            int i = row0 + (int)threadIdx.x % 32 / 4 + row * 8;
            if (step0 + i < at.len)
                *(uint64_t *)((__nv_bfloat16 *)j.dx.data + scan_token(j, at.p.row, at.len, step0 + i) * j.dx.ld + at.p.first +
                              k * 16 + column16()) = both;
        }
    }
}

/* dX and dB of the warp's tokens j, and their sums down the columns of E. Returns the thread's share of dD. */
static __device__ inline float rows_of_x(const struct scan_job &j, const struct chunk_place &at, int64_t step0, float skip,
                                         struct gradient_room &r) {
    int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4, j0 = warp * 16;
    uint32_t b[4];
    float u[WIDTH / 16][2][4] = {}, db[2][4], s[2][4], p[2][4], below[2] = {0, 0}, self[2] = {0, 0}, to_end[2], diagonal = 0;
    mma_load_a(b, r.b + j0 * LDN, LDN);
    multiply<WIDTH>(db, r.x + j0 * LD, r.g, LD);
    const float last[2] = {r.w.last[j0 + g], r.w.last[j0 + g + 8]}, cum[2] = {r.w.cum[j0 + g], r.w.cum[j0 + g + 8]};
    const float delta[2] = {r.w.delta[j0 + g], r.w.delta[j0 + g + 8]};
    const int segment[2] = {r.w.segment[j0 + g], r.w.segment[j0 + g + 8]};
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++)
        multiply_add(u[k], b, r.g + k * 16, LD);
#pragma unroll
    for (int e = 0; e < 8; e++) {
        db[e / 4][e % 4] *= last[e % 4 / 2];
#pragma unroll
        for (int k = 0; k < WIDTH / 16; k++)
            u[k][e / 4][e % 4] *= last[e % 4 / 2];
    }
    dot_rows(b, db, to_end);
    for (int i0 = j0; i0 < CHUNK; i0 += 16) {
        uint32_t a[4];
        multiply<WIDTH>(s, r.x + j0 * LD, r.dy + i0 * LD, LD);
        multiply<N>(p, r.b + j0 * LDN, r.c + i0 * LDN, LDN);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            int row = e % 4 / 2, k = j0 + g + row * 8, i = i0 + e / 4 * 8 + 2 * t + e % 2;
            float product = s[e / 4][e % 4], l = decay(r.w, i, k, cum[row], segment[row], false);
            p[e / 4][e % 4] *= l;
            s[e / 4][e % 4] *= l;
            float here = product * p[e / 4][e % 4];
            below[row] += i == k ? 0.0f : here;
            self[row] += i == k ? here : 0.0f;
            diagonal += i == k ? product : 0.0f;
        }
        mma_pack_a(a, p[0], p[1]);
#pragma unroll
        for (int k = 0; k < WIDTH / 16; k++)
            multiply_add(u[k], a, r.dy + i0 * LD + k * 16, LD);
        mma_pack_a(a, s[0], s[1]);
        multiply_add(db, a, r.c + i0 * LDN, LDN);
    }
    put_states(j, at, step0, j0, db, delta, j.part_b);
    put_x(j, at, step0, j0, skip, delta, u, r);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        below[row] = scan_lane_sum<4>(below[row]);
        self[row] = scan_lane_sum<4>(self[row]);
        if (t == 0) {
            r.below[j0 + g + row * 8] = below[row];
            r.self[j0 + g + row * 8] = self[row];
            r.end[j0 + g + row * 8] = to_end[row];
        }
    }
    return diagonal;
}

/* dΔ of the chunk, by the first warp; adds to the sums for A and the bias. */
static __device__ inline void put_delta(const struct scan_job &j, const struct chunk_place &at, int64_t step0,
                                        const struct gradient_room &r, float (&sums)[2]) {
    int lane = (int)threadIdx.x;
    float after[2], before[2], total_after[2], total_before[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int i = half * 32 + lane;
        float end = r.end[i] * r.w.delta[i];
        after[half] = sum_down(r.along[i] - r.below[i] * r.w.delta[i], &total_after[half]);
        before[half] = sum_up(end, &total_before[half]) - end;
    }
    after[0] += total_after[1];
    before[1] += total_before[0];
    float across = r.across[0] + r.across[1] + (r.across[2] + r.across[3]);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int i = half * 32 + lane;
        if (step0 + i >= at.len)
            continue;
        float f = after[half] + before[half] + across;
        float d = (at.a * f + (r.below[i] + r.self[i]) + r.end[i]) * r.w.slope[i];
        sums[0] += f * r.w.delta[i];
        sums[1] += d;
        if (j.ddelta.data)
            act_put(j.ddelta, scan_token(j, at.p.row, at.len, step0 + i) * j.ddelta.ld + at.head, d);
    }
}

static __device__ inline void clear_tails(const struct scan_job &j, const struct chunk_place &at) {
    int64_t local = (at.p.row - j.first_row) * j.length;
    for (int64_t e = at.len * (WIDTH / 8) + threadIdx.x; e < j.length * (WIDTH / 8); e += THREADS) {
        int64_t t = e / (WIDTH / 8), piece = e % (WIDTH / 8);
        wide<true> nothing;
        if (j.dx.data)
            nothing.store(j.dx.data, (at.p.row * j.length + t) * j.dx.ld + at.p.first + piece * 8);
        if (piece == 0 && j.ddelta.data)
            act_put(j.ddelta, (at.p.row * j.length + t) * j.ddelta.ld + at.head, 0.0f);
        float *part = piece < N / 4 ? j.part_b : j.part_c;
        *(float4 *)(part + ((at.p.block * j.rows * j.length + local + t) * j.groups + at.p.group) * N + piece % (N / 4) * 4) =
            make_float4(0, 0, 0, 0);
    }
}

static __global__ void __launch_bounds__(THREADS, 3) chunk_gradient_kernel(struct scan_job j) {
    __shared__ struct gradient_room r;
    __shared__ float room[THREADS];
    struct chunk_place at = chunk_place_of(j);
    int warp = (int)threadIdx.x / 32;
    float g[2][4] = {}, skip = j.dskip ? j.dskip[at.head] : 0.0f, sums[2] = {0, 0}, diagonal = 0;
    for (int64_t chunk = chunks_of(at.len) - 1; chunk >= 0; chunk--) {
        int64_t step0 = chunk * CHUNK;
        struct wide_rows x, dy;
        struct state_rows bm, cm;
        wide<true> h;
        x.load(j, at, step0, j.x);
        dy.load(j, at, step0, j.dy);
        bm.load(j, at, step0, j.bm);
        cm.load(j, at, step0, j.cm);
        h.load(start_of(j, at, chunk), (int64_t)threadIdx.x * 8);
        if (warp == 0)
            land_times(j, at, step0, r.w);
        x.land(r.x);
        dy.land(r.dy);
        bm.land(r.b);
        cm.land(r.c);
        h.store(r.h, (int)threadIdx.x / (WIDTH / 8) * LD + (int)threadIdx.x % (WIDTH / 8) * 8);
#pragma unroll
        for (int e = 0; e < 4; e++)
            *pair_of(r.g, e) = mma_pack(g[e / 2][e % 2 * 2], g[e / 2][e % 2 * 2 + 1]);
        __syncthreads();
        rows_of_c(j, at, step0, r);
        diagonal += rows_of_x(j, at, step0, skip, r);
        float across = 0;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            uint32_t both = *pair_of(r.h, e);
            across += g[e / 2][e % 2 * 2] * mma_low(both) + g[e / 2][e % 2 * 2 + 1] * mma_high(both);
        }
        across = scan_lane_sum<32>(across);
        if (threadIdx.x % 32 == 0)
            r.across[warp] = across * r.w.first[CHUNK - 1];
        scale_all(g, r.w.first[CHUNK - 1]);
        gather(g, r.c, r.w.first, r.dy, warp * 16);
        __syncthreads();
        if (warp == 0)
            put_delta(j, at, step0, r, sums);
    }
    clear_tails(j, at);
    int64_t to = (at.p.row - j.first_row) * (j.channels / WIDTH) + at.head;
    float a = cuda_block_sum(sums[0], room), bias = cuda_block_sum(sums[1], room), d = cuda_block_sum(diagonal, room);
    if (threadIdx.x == 0) {
        j.part_a[to] = a;
        j.part_bias[to] = bias;
        j.part_skip[to] = d;
    }
}

/* dB (blockIdx.y 0) and dC of a group of rows: the heads' shares added in order, 4 states at a time. */
static __global__ void chunk_states_kernel(struct scan_job j) {
    const float *part = blockIdx.y ? j.part_c : j.part_b;
    struct scan_view to = blockIdx.y ? j.dcm : j.dbm;
    int64_t count = j.rows * j.length * j.groups * (N / 4);
    for (int64_t i = cuda_index(); i < count && to.act.data; i += cuda_stride()) {
        int64_t piece = i % (N / 4), token = i / (N / 4) / j.groups, group = i / (N / 4) - token * j.groups;
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
        for (int64_t block = 0; block < j.blocks_per_group; block++) {
            float4 v = ((const float4 *)part)[block * count + i];
            sum.x += v.x;
            sum.y += v.y;
            sum.z += v.z;
            sum.w += v.w;
        }
        int64_t at = (j.first_row * j.length + token) * to.act.ld + group * to.step + piece * 4;
        act_put(to.act, at, sum.x);
        act_put(to.act, at + 1, sum.y);
        act_put(to.act, at + 2, sum.z);
        act_put(to.act, at + 3, sum.w);
    }
}

int64_t ssd_chunks_of(int64_t length) { return cuda_ceil(length, CHUNK); }

static bool is_wide_bf16(struct act a) { return a.bf16 && act_is_wide(a); }

bool ssd_chunks_suit(const struct scan_job *j) {
    return j->per_head && j->states == N && j->share == WIDTH && !j->h0 && !j->dh0 && !j->dht && is_wide_bf16(j->x) &&
           is_wide_bf16(j->dy) && (!j->dx.data || is_wide_bf16(j->dx)) && is_wide_bf16(j->bm.act) && is_wide_bf16(j->cm.act) &&
           j->bm.step % 8 == 0 && j->cm.step % 8 == 0;
}

void ssd_chunks_backward_launch(struct stream *s, const struct scan_job *j) {
    cudaStream_t stream = cuda_stream(s)->stream;
    dim3 grid((unsigned)(j->channels / WIDTH), (unsigned)j->rows);
    CUDA_LAUNCH(chunk_starts_kernel, grid, THREADS, stream, *j);
    CUDA_LAUNCH(chunk_gradient_kernel, grid, THREADS, stream, *j);
    dim3 blocks(cuda_blocks(j->rows * j->length * j->groups * (N / 4), THREADS), 2);
    CUDA_LAUNCH(chunk_states_kernel, blocks, THREADS, stream, *j);
}
