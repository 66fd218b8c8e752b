/* ssd_chunk_parts: what the kernels of the chunked gradient of heads share: what is stored of each chunk, and how chunks come
 * to shared memory. The formulas are in ssd_chunks_backward.cu. Internal to kernels/cuda. */
#pragma once
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/scan/scan_tile.cuh"
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

struct alignas(16) times {                        /* of a chunk's tokens */
    float cum[CHUNK][2];                          /* cum in units of log 2; Δ */
    float first[CHUNK], last[CHUNK], gain[CHUNK]; /* gain: Δ·last */
    float slope[CHUNK];                           /* of Δ */
    uint8_t begin[CHUNK];                         /* first token of the segment in this chunk */
    uint8_t end[CHUNK];                           /* last one */
};
enum { TIMES_PIECES = sizeof(struct times) / 16 }; /* a thread copies one */
static_assert(sizeof(struct times) / 16 <= 32 * WARPS, "one piece for each thread");

/* One chunk of one head, as ssd_chunks_starts stores it. */
struct chunk_start {
    __nv_bfloat16 h[N * WIDTH]; /* the state before it */
    struct times w;
};
static_assert(sizeof(struct chunk_start) <= N * WIDTH * sizeof(float) && sizeof(struct times) % 16 == 0,
              "scan.cu has room for N states of each channel in F32");

struct chunk_place {
    int row, len, head, group, block;
    int token0, stride; /* step s is token0 + stride·s */
};
static __device__ inline struct chunk_place chunk_place_of(const struct scan_job &j, int64_t row, int head) {
    struct chunk_place at;
    at.row = (int)row;
    at.len = (int)scan_length(j, row);
    at.head = head;
    at.group = head / (int)j.blocks_per_group;
    at.block = head - at.group * (int)j.blocks_per_group;
    at.token0 = (int)scan_token(j, row, at.len, 0);
    at.stride = j.reverse ? -1 : 1;
    return at;
}
static __device__ inline int token_of(const struct chunk_place &at, int step) { return at.token0 + at.stride * step; }
/* A token's row of the head's channels. */
static __device__ inline __nv_bfloat16 *channels_of(const struct chunk_place &at, int step, struct act of) {
    return (__nv_bfloat16 *)of.data + (int64_t)token_of(at, step) * (int)of.ld + at.head * WIDTH;
}
static __device__ inline struct chunk_start *start_of(const struct scan_job &j, const struct chunk_place &at, int chunk) {
    int64_t record = ((at.row - j.first_row) * j.tiles + chunk) * (j.channels / WIDTH) + at.head;
    return (struct chunk_start *)((char *)j.starts + record * (N * WIDTH * (int64_t)sizeof(float)));
}
static __device__ inline int chunks_of(int len) { return (len + CHUNK - 1) / CHUNK; }

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

/* A chunk's rows of x or dy, on their way through registers. */
struct wide_rows {
    wide<true> piece[PIECES];

    __device__ void load(const struct chunk_place &at, int step0, struct act from) {
#pragma unroll
        for (int k = 0; k < PIECES; k++) {
            int e = (int)threadIdx.x + k * THREADS, i = e / (WIDTH / 8);
            int step = step0 + i < at.len ? step0 + i : at.len - 1;
            piece[k].load(channels_of(at, step, from), e % (WIDTH / 8) * 8);
            if (step != step0 + i)
                piece[k].zero();
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
/* The rows of B or C of a chunk on their way to shared memory: a thread has one piece. */
struct state_rows {
    wide<true> piece;

    __device__ void load(const struct chunk_place &at, int step0, const struct scan_view &from) {
        int i = (int)threadIdx.x / (N / 8);
        piece.zero();
        if (step0 + i < at.len)
            piece.load(from.act.data, (int64_t)token_of(at, step0 + i) * (int)from.act.ld + at.group * (int)from.step +
                                          (int)threadIdx.x % (N / 8) * 8);
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

/* A chunk's times on their way through a register. */
static __device__ inline void load_times(wide<true> &piece, const struct chunk_start *start) {
    if ((int)threadIdx.x < TIMES_PIECES)
        piece.load(&start->w, (int64_t)threadIdx.x * 8);
}
static __device__ inline void land_times(const wide<true> &piece, struct times *to) {
    if ((int)threadIdx.x < TIMES_PIECES)
        piece.store(to, (int64_t)threadIdx.x * 8);
}
