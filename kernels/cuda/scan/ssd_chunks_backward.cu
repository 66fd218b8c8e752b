/* ssd_chunks_backward: gradients of heads of 64 channels with 16 states, bf16, in chunks of 64 tokens by tensor cores (mma.cuh).
 * One kernel stores the sums of a·Δ, one the states at the starts of chunks, one runs the chunks backwards, and one adds the heads'
 * shares of dB and dC. In the middle two a block takes a head of a row: 4 warps with 16 tokens of the chunk each.
 *
 * cum_i is the sum of a·Δ over the chunk's tokens up to i, L_ij = exp(cum_i − cum_j) for j ≤ i in the same segment, else 0.
 * first_i = exp(cum_i) in the segment the chunk begins in, last_j = exp(cum_63 − cum_j) in the one it ends in, else 0.
 * H is the state before the chunk, G the gradient of the state after it, both (channels, states).
 * With S = dY·Xᵀ and P = C·Bᵀ:
 *   dC_i = Σ_j S_ij·L_ij·Δ_j·B_j + first_i·dY_i·H
 *   dB_j = Δ_j·(Σ_i S_ij·L_ij·C_i + last_j·X_j·G)
 *   U_j = Σ_i P_ij·L_ij·dY_i + last_j·B_j·Gᵀ, dX_j = Δ_j·U_j + D·dY_j, dD = Σ_i S_ii
 *   G ← first_63·G + Σ_i first_i·dY_iᵀ·C_i
 * The gradient of a·Δ_t, F_t, is what passes from tokens before t to token t and those after it. With E_ij = S_ij·P_ij·L_ij,
 * R_i = first_i·dY_i·H·C_iᵀ and Q_j = last_j·B_j·Gᵀ·X_jᵀ:
 *   F_t = Σ_{i ≥ t} (Σ_j E_ij·Δ_j − Σ_k E_ki·Δ_i + R_i) + Σ_{j < t} Q_j·Δ_j + first_63·⟨G, H⟩
 *   dΔ_t = a·F_t + Σ_i E_it + Q_t, dA = Σ_t Δ_t·F_t
 * S and P are sums of products of bf16 values as given, so the differences in F do not suffer from rounded operands. S·L·Δ, P·L, H
 * and G are rounded to bf16 as operands; H and G are carried in F32.
 *
 * S and P are computed twice, with i along the rows for dC and with j along the rows for dX and dB: no sums over warps are needed,
 * and each warp has 5 tiles (16,16) of the causal half. */
#include "kernels/cuda/scan/ssd_chunk_parts.cuh"
#include "kernels/cuda/scan/ssd_chunks_starts.cuh"

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

/* Begins to fetch a line of memory into the L2 cache. */
static __device__ inline void fetch_ahead(const void *line) {
#ifdef __CUDACC__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
#else
    (void)line;
#endif
}
/* A chunk's rows of x and dy. */
static __device__ inline void fetch_rows_ahead(const struct scan_job &j, const struct chunk_place &at, int step0) {
    int step = step0 + (int)threadIdx.x % CHUNK;
    fetch_ahead(channels_of(at, step, (int)threadIdx.x < CHUNK ? j.x : j.dy));
}

/* Two neighbouring columns of a state's tile, of element e / 2 · 8 columns and e % 2 · 8 rows further: what a thread's sums are. */
static __device__ inline uint32_t *pair_of(__nv_bfloat16 *tile, int e) {
    int row = (int)threadIdx.x % 32 / 4 + e % 2 * 8, column = (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 4 * 2 + e / 2 * 8;
    return (uint32_t *)(tile + row * LD + column);
}

struct gradient_room {
    alignas(16) __nv_bfloat16 x[CHUNK * LD], dy[CHUNK * LD], b[CHUNK * LDN], c[CHUNK * LDN], h[N * LD], g[N * LD];
    struct times w;
    float along[CHUNK];             /* Σ_j E_ij·Δ_j + R_i */
    float below[CHUNK], end[CHUNK]; /* Σ_i E_ij; Q_j */
    float kept[8][THREADS];         /* G of each thread */
    float diagonal[THREADS];        /* each thread's share of dD */
    float sums[2][32];              /* dA and the bias', of each lane of the first warp */
    float across[WARPS];            /* first_63·⟨G, H⟩ */
};

/* L_ij, where `inside` tells whether j ≤ i and both are of one segment. */
static __device__ inline float decay(bool inside, float cum_i, float cum_j) {
    return scan_exp2(inside ? cum_i - cum_j : -INFINITY);
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

/* A warp's 16 rows of dB or dC to the head's share. */
static __device__ inline void put_states(const struct scan_job &j, const struct chunk_place &at, int step0, int row0,
                                         const float (&d)[2][4], float *part) {
    wide<false> pieces[2];
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float even[2], odd[2]; /* columns */
        exchange(d[0][row * 2], d[1][row * 2], even);
        exchange(d[0][row * 2 + 1], d[1][row * 2 + 1], odd);
        pieces[row].put({even[0], odd[0], even[1], odd[1]});
    }
    int rows = (int)(j.rows * j.length), first = (int)(j.first_row * j.length);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        int step = step0 + row0 + (int)threadIdx.x % 32 / 4 + row * 8;
        if (step < at.len)
            pieces[row].store(part, ((int64_t)(at.block * rows + token_of(at, step) - first) * (int)j.groups + at.group) * N +
                                        column16());
    }
}

/* dC of the warp's tokens i, and their sums along the rows of E. */
static __device__ inline void rows_of_c(const struct scan_job &j, const struct chunk_place &at, int step0,
                                        struct gradient_room &r) {
    int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4, i0 = warp * 16;
    uint32_t c[4];
    float dc[2][4], s[2][4], p[2][4], sums[2] = {0, 0}, from_start[2];
    multiply<WIDTH>(dc, r.dy + i0 * LD, r.h, LD);
    const float first[2] = {r.w.first[i0 + g], r.w.first[i0 + g + 8]}, cum[2] = {r.w.cum[i0 + g][0], r.w.cum[i0 + g + 8][0]};
    const int begin[2] = {r.w.begin[i0 + g], r.w.begin[i0 + g + 8]};
#pragma unroll
    for (int e = 0; e < 8; e++)
        dc[e / 4][e % 4] *= first[e % 4 / 2];
    mma_load_a(c, r.c + i0 * LDN, LDN);
    dot_rows(c, dc, from_start);
#pragma unroll 1
    for (int j0 = 0; j0 <= i0; j0 += 16) {
        multiply<WIDTH>(s, r.dy + i0 * LD, r.x + j0 * LD, LD);
        multiply<N>(p, r.c + i0 * LDN, r.b + j0 * LDN, LDN);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int k = j0 + half * 8 + 2 * t;
            float4 w = *(const float4 *)r.w.cum[k];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int row = e / 2, of = k + e % 2;
                bool inside = (of >= begin[row]) & (of <= i0 + g + row * 8);
                s[half][e] *= decay(inside, cum[row], e % 2 ? w.z : w.x) * (e % 2 ? w.w : w.y);
                sums[row] += s[half][e] * p[half][e];
            }
        }
        uint32_t a[4];
        mma_pack_a(a, s[0], s[1]);
        multiply_add(dc, a, r.b + j0 * LDN, LDN);
    }
    put_states(j, at, step0, i0, dc, j.part_c);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        sums[row] = scan_lane_sum<4>(sums[row]) + from_start[row];
        if (t == 0)
            r.along[i0 + g + row * 8] = sums[row];
    }
}

/* dX = Δ·U + D·dY of the warp's tokens. */
static __device__ inline void put_x(const struct scan_job &j, const struct chunk_place &at, int step0, int row0,
                                    const float (&delta)[2], const float (&u)[WIDTH / 16][2][4], const struct gradient_room &r) {
    if (!j.dx.data)
        return;
    float skip = j.dskip ? j.dskip[at.head] : 0.0f;
    uint64_t pieces[2][WIDTH / 16];
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
            pieces[row][k] = exchange_packed(words[0], words[1]);
        }
    }
#pragma unroll
    for (int row = 0; row < 2; row++) {
        int step = step0 + row0 + (int)threadIdx.x % 32 / 4 + row * 8;
        if (step >= at.len)
            continue;
        __nv_bfloat16 *to = channels_of(at, step, j.dx) + column16();
#pragma unroll
        for (int k = 0; k < WIDTH / 16; k++)
            *(uint64_t *)(to + k * 16) = pieces[row][k];
    }
}

/* dX and dB of the warp's tokens j, and their sums down the columns of E. */
static __device__ inline void rows_of_x(const struct scan_job &j, const struct chunk_place &at, int step0,
                                        struct gradient_room &r) {
    int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4, j0 = warp * 16;
    uint32_t b[4];
    float u[WIDTH / 16][2][4] = {}, db[2][4], s[2][4], p[2][4], below[2] = {0, 0}, to_end[2];
    mma_load_a(b, r.b + j0 * LDN, LDN);
    multiply<WIDTH>(db, r.x + j0 * LD, r.g, LD);
    const float last[2] = {r.w.last[j0 + g], r.w.last[j0 + g + 8]}, cum[2] = {r.w.cum[j0 + g][0], r.w.cum[j0 + g + 8][0]};
    const int end[2] = {r.w.end[j0 + g], r.w.end[j0 + g + 8]};
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
#pragma unroll 1
    for (int i0 = j0; i0 < CHUNK; i0 += 16) {
        uint32_t a[4];
        multiply<WIDTH>(s, r.x + j0 * LD, r.dy + i0 * LD, LD);
        multiply<N>(p, r.b + j0 * LDN, r.c + i0 * LDN, LDN);
        if (i0 == j0) {
            float diagonal = r.diagonal[threadIdx.x];
#pragma unroll
            for (int e = 0; e < 8; e++)
                diagonal += e / 4 * 8 + 2 * t + e % 2 == g + e % 4 / 2 * 8 ? s[e / 4][e % 4] : 0.0f;
            r.diagonal[threadIdx.x] = diagonal;
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int i = i0 + half * 8 + 2 * t;
            float4 w = *(const float4 *)r.w.cum[i];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int row = e / 2, of = i + e % 2;
                bool inside = (of >= j0 + g + row * 8) & (of <= end[row]);
                float l = decay(inside, e % 2 ? w.z : w.x, cum[row]);
                p[half][e] *= l;
                below[row] += s[half][e] * p[half][e];
                s[half][e] *= l;
            }
        }
        mma_pack_a(a, p[0], p[1]);
#pragma unroll
        for (int k = 0; k < WIDTH / 16; k++)
            multiply_add(u[k], a, r.dy + i0 * LD + k * 16, LD);
        mma_pack_a(a, s[0], s[1]);
        multiply_add(db, a, r.c + i0 * LDN, LDN);
    }
    const float delta[2] = {r.w.cum[j0 + g][1], r.w.cum[j0 + g + 8][1]};
    put_x(j, at, step0, j0, delta, u, r);
#pragma unroll
    for (int e = 0; e < 8; e++)
        db[e / 4][e % 4] *= delta[e % 4 / 2];
    put_states(j, at, step0, j0, db, j.part_b);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        below[row] = scan_lane_sum<4>(below[row]);
        if (t == 0) {
            r.below[j0 + g + row * 8] = below[row];
            r.end[j0 + g + row * 8] = to_end[row];
        }
    }
}

/* dΔ of the chunk, by the first warp, while the others land the next chunk's times; adds to the sums for A and the bias. */
static __device__ inline void put_delta(const struct scan_job &j, const struct chunk_place &at, int step0, struct gradient_room &r,
                                        const float (&delta)[2], const float (&slope)[2]) {
    int lane = (int)threadIdx.x;
    float after[2], before[2], total_after[2], total_before[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int i = half * 32 + lane;
        float end = r.end[i] * delta[half];
        after[half] = sum_down(r.along[i] - r.below[i] * delta[half], &total_after[half]);
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
        float d = (j.a[at.head] * f + r.below[i] + r.end[i]) * slope[half];
        r.sums[0][lane] += f * delta[half];
        r.sums[1][lane] += d;
        if (j.ddelta.data)
            act_put(j.ddelta, token_of(at, step0 + i) * j.ddelta.ld + at.head, d);
    }
}

static __device__ inline void clear_tails(const struct scan_job &j, const struct chunk_place &at) {
    int64_t row0 = (int64_t)at.row * j.length;
    for (int64_t e = at.len * (WIDTH / 8) + (int)threadIdx.x; e < j.length * (WIDTH / 8); e += THREADS) {
        int64_t token = row0 + e / (WIDTH / 8), piece = e % (WIDTH / 8);
        wide<true> nothing;
        if (j.dx.data)
            nothing.store(j.dx.data, token * j.dx.ld + at.head * WIDTH + piece * 8);
        if (piece == 0 && j.ddelta.data)
            act_put(j.ddelta, token * j.ddelta.ld + at.head, 0.0f);
        wide<false> none;
        none.store(piece < N / 4 ? j.part_b : j.part_c,
                   ((at.block * j.rows * j.length + token - j.first_row * j.length) * j.groups + at.group) * N +
                       piece % (N / 4) * 4);
    }
}

/* G as an operand, and as it is for the same thread. */
static __device__ inline void keep(const float (&g)[2][4], struct gradient_room &r) {
#pragma unroll
    for (int e = 0; e < 4; e++)
        *pair_of(r.g, e) = mma_pack(g[e / 2][e % 2 * 2], g[e / 2][e % 2 * 2 + 1]);
#pragma unroll
    for (int e = 0; e < 8; e++)
        r.kept[e][threadIdx.x] = g[e / 4][e % 4];
}

static __global__ void __launch_bounds__(THREADS, 4) chunk_gradient_kernel(struct scan_job j) {
    __shared__ struct gradient_room r;
    __shared__ float room[THREADS];
    struct chunk_place at = chunk_place_of(j, j.first_row + blockIdx.y, (int)blockIdx.x);
    int warp = (int)threadIdx.x / 32;
    float g[2][4] = {};
    r.diagonal[threadIdx.x] = 0;
    keep(g, r);
    if (warp == 0)
        r.sums[0][threadIdx.x] = r.sums[1][threadIdx.x] = 0;
    for (int chunk = chunks_of(at.len) - 1; chunk >= 0; chunk--) {
        int step0 = chunk * CHUNK;
        struct wide_rows x, dy;
        struct state_rows bm, cm;
        wide<true> h, w;
        const struct chunk_start *start = start_of(j, at, chunk);
        x.load(at, step0, j.x);
        dy.load(at, step0, j.dy);
        bm.load(at, step0, j.bm);
        cm.load(at, step0, j.cm);
        h.load(start->h, (int64_t)threadIdx.x * 8);
        load_times(w, start);
        x.land(r.x);
        dy.land(r.dy);
        bm.land(r.b);
        cm.land(r.c);
        land_times(w, &r.w);
        h.store(r.h, (int)threadIdx.x / (WIDTH / 8) * LD + (int)threadIdx.x % (WIDTH / 8) * 8);
        __syncthreads();
        if (chunk > 0)
            fetch_rows_ahead(j, at, step0 - CHUNK);
        rows_of_c(j, at, step0, r);
        rows_of_x(j, at, step0, r);
#pragma unroll
        for (int e = 0; e < 8; e++)
            g[e / 4][e % 4] = r.kept[e][threadIdx.x];
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
        int lane = (int)threadIdx.x % 32;
        const float delta[2] = {r.w.cum[lane][1], r.w.cum[lane + 32][1]}, slope[2] = {r.w.slope[lane], r.w.slope[lane + 32]};
        __syncthreads();
        keep(g, r);
        if (warp == 0)
            put_delta(j, at, step0, r, delta, slope);
    }
    clear_tails(j, at);
    float of_a = warp ? 0.0f : r.sums[0][threadIdx.x % 32], of_bias = warp ? 0.0f : r.sums[1][threadIdx.x % 32];
    int64_t to = (at.row - j.first_row) * (j.channels / WIDTH) + at.head;
    float a = cuda_block_sum(of_a, room), bias = cuda_block_sum(of_bias, room), d = cuda_block_sum(r.diagonal[threadIdx.x], room);
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
    ssd_chunks_starts_launch(s, j);
    CUDA_LAUNCH(chunk_gradient_kernel, grid, THREADS, stream, *j);
    dim3 blocks(cuda_blocks(j->rows * j->length * j->groups * (N / 4), THREADS), 2);
    CUDA_LAUNCH(chunk_states_kernel, blocks, THREADS, stream, *j);
}
