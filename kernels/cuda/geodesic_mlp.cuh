/* geodesic_mlp: a block of threads works on a tile of 16 rows of a network of two tanh layers (kernels/op.h). Internal to
 * kernels/cuda.
 *
 * Activations of the tile lie in shared memory; weights come from global memory, where a warp reads neighbours: the forward pass
 * from a transposed copy of w2, the gradients from w2 itself. A thread keeps a column's sums of several rows in registers; the rows
 * of h1 lie side by side, so that it reads four of them at once. With a tangent 8 of the 16 rows are values and 8 their derivatives
 * by the first input. With X3 the products of the hidden layers run on tensor cores, each as three of bfloat16 (mlp_multiply).
 * Gradients are added to (or, for a first tile, written as) the block's own row of partial sums; the blocks'
 * rows are added in order by geodesic_add. */
#pragma once
#include "kernels/cuda/mma.cuh"

extern "C" {
#include "kernels/geodesic.h"
}

enum {
    MLP_THREADS = 256,
    MLP_ROWS = 16,
    MLP_ROOM = MLP_ROWS + 4 /* of a column: threads at neighbours meet no bank twice */,
    MLP_GAP = 4 /* between rows of h2, likewise: lanes of a product read eight rows at once */,
    MLP_MAX_H1 = 128,
    MLP_MAX_H2 = 256
};

/* One group's parameters. */
struct mlp_weights {
    const float *w1, *b1, *w2, *w2t, *b2, *w3, *b3;
    int in;
};
static inline __host__ __device__ struct mlp_weights mlp_weights_of(struct mlp_shape n, const float *row, const float *w2t) {
    int64_t b1 = (int64_t)n.hidden1 * n.in, w2 = b1 + n.hidden1, b2 = w2 + (int64_t)n.hidden2 * n.hidden1, w3 = b2 + n.hidden2;
    struct mlp_weights w = {row, row + b1, row + w2, w2t, row + b2, row + w3, row + w3 + n.hidden2, n.in};
    return w;
}

template <int H2> constexpr int mlp_wide = H2 + MLP_GAP; /* floats from a row of h2 to the next */

struct mlp_shared {
    alignas(16) float h1[MLP_MAX_H1 * MLP_ROOM];
    float h2[MLP_ROWS * mlp_wide<MLP_MAX_H2>], d1[MLP_ROWS * MLP_MAX_H1];
    float x[MLP_MAX_INPUTS][MLP_ROWS], dx[MLP_MAX_INPUTS][MLP_ROWS];
    float y[MLP_ROWS], dy[MLP_ROWS]; /* with a tangent: of the values, then of the derivatives */
    float part[MLP_ROWS][MLP_THREADS / MLP_ROWS];
};

/* Two numbers, each as the sum of two of bfloat16; what is lost is 2^-17 of it. */
struct mlp_halves {
    uint32_t high, low;
};
static __device__ inline struct mlp_halves mlp_halve(float a, float b) {
    struct mlp_halves h;
    h.high = mma_pack(a, b);
    h.low = mma_pack(a - mma_low(h.high), b - mma_high(h.high));
    return h;
}

/* d (16,8) += A (16,16) · B (16,8) by a warp, as high·high + high·low + low·high; a(row, k) and b(k, column) are the elements. */
template <class A, class B> static __device__ inline void mlp_multiply(float (&d)[4], A a, B b) {
    int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4 * 2;
    uint32_t ah[4], al[4], bh[2], bl[2];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        int row = g + e % 2 * 8, k = t + e / 2 * 8;
        struct mlp_halves h = mlp_halve(a(row, k), a(row, k + 1));
        ah[e] = h.high;
        al[e] = h.low;
    }
#pragma unroll
    for (int e = 0; e < 2; e++) {
        struct mlp_halves h = mlp_halve(b(t + e * 8, g), b(t + e * 8 + 1, g));
        bh[e] = h.high;
        bl[e] = h.low;
    }
    mma_bf16(d, al, bh);
    mma_bf16(d, ah, bl);
    mma_bf16(d, ah, bh);
}
/* Calls each(row, column, value) with the warp's four sums of a lane. */
template <class Each> static __device__ inline void mlp_sums(const float (&d)[4], Each each) {
    int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4 * 2;
#pragma unroll
    for (int e = 0; e < 4; e++)
        each(g + e / 2 * 8, t + e % 2, d[e]);
}

/* The second layer of a tile: warps share its columns. */
template <int H1, int H2> static __device__ inline void mlp_hidden_x3(const struct mlp_weights w, struct mlp_shared &m, int rows) {
    for (int first = (int)threadIdx.x / 32 * 8; first < H2; first += MLP_THREADS / 32 * 8) {
        float d[4] = {};
        for (int at = 0; at < H1; at += 16)
            mlp_multiply(
                d, [&](int row, int k) { return m.h1[(at + k) * MLP_ROOM + row]; },
                [&](int k, int column) { return w.w2[(first + column) * H1 + at + k]; });
        mlp_sums(d, [&](int row, int column, float z) {
            m.h2[row * mlp_wide<H2> + first + column] = row < rows ? tanhf(z + w.b2[first + column]) : z;
        });
    }
}

/* The same in plain multiply-adds: a thread keeps a column's sums of several rows. */
template <int H1, int H2> static __device__ inline void mlp_hidden(const struct mlp_weights w, struct mlp_shared &m, int rows) {
    constexpr int SHARE = MLP_ROWS * H2 / MLP_THREADS;
    int tid = (int)threadIdx.x;
    int j = tid % H2, first = tid / H2 * SHARE;
    float acc[SHARE];
    for (int r = 0; r < SHARE; r++)
        acc[r] = 0;
    for (int i = 0; i < H1; i++) {
        float v = w.w2t[i * H2 + j];
#pragma unroll
        for (int r = 0; r < SHARE; r += 4) {
            float4 h = *(const float4 *)(m.h1 + i * MLP_ROOM + first + r);
            acc[r] += v * h.x;
            acc[r + 1] += v * h.y;
            acc[r + 2] += v * h.z;
            acc[r + 3] += v * h.w;
        }
    }
    for (int r = 0; r < SHARE; r++)
        m.h2[(first + r) * mlp_wide<H2> + j] = first + r < rows ? tanhf(acc[r] + w.b2[j]) : acc[r];
}

/* y from x; rows is 16, or 8 with a tangent. All threads of the block; x is written and synchronised. */
template <int H1, int H2, bool X3 = false>
static __device__ void mlp_tile_forward(const struct mlp_weights w, struct mlp_shared &m, int rows) {
    int tid = (int)threadIdx.x;
    for (int e = tid; e < rows * H1; e += MLP_THREADS) {
        int i = e / rows, r = e % rows;
        float z = w.b1[i];
        for (int k = 0; k < w.in; k++)
            z += w.w1[i * w.in + k] * m.x[k][r];
        float h = tanhf(z);
        m.h1[i * MLP_ROOM + r] = h;
        if (rows < MLP_ROWS)
            m.h1[i * MLP_ROOM + rows + r] = (1.0f - h * h) * w.w1[i * w.in];
    }
    __syncthreads();
    if (X3)
        mlp_hidden_x3<H1, H2>(w, m, rows);
    else
        mlp_hidden<H1, H2>(w, m, rows);
    __syncthreads();
    int row = tid / MLP_ROWS, lane = tid % MLP_ROWS;
    float sum = 0;
    for (int c = lane; c < H2; c += MLP_ROWS) {
        float h = m.h2[(row < rows ? row : row - rows) * mlp_wide<H2> + c];
        sum += row < rows ? w.w3[c] * h : w.w3[c] * (1.0f - h * h) * m.h2[row * mlp_wide<H2> + c];
    }
    m.part[row][lane] = sum;
    __syncthreads();
    if (tid < MLP_ROWS) {
        float total = tid < rows ? *w.b3 : 0.0f;
        for (int i = 0; i < MLP_ROWS; i++)
            total += m.part[tid][i];
        m.y[tid] = total;
    }
    __syncthreads();
}

static __device__ inline void mlp_put(float *at, float value, bool first) { *at = first ? value : *at + value; }

/* Gradients of the second layer's weights, and of the first layer's values (d1), from those of the second layer's sums (h2). */
template <int H1, int H2>
static __device__ inline void mlp_hidden_backward(const struct mlp_weights w, struct mlp_shared &m, float *g2, bool first) {
    constexpr int LANES = MLP_THREADS / H1, SHARE = MLP_ROWS / LANES;
    int tid = (int)threadIdx.x;
    int i = tid % H1, lane = tid / H1;
    float column[MLP_ROWS], acc[SHARE];
#pragma unroll
    for (int s = 0; s < MLP_ROWS; s++)
        column[s] = m.h1[i * MLP_ROOM + s];
    for (int j = lane; j < H2; j += LANES) {
        float sum = 0;
#pragma unroll
        for (int s = 0; s < MLP_ROWS; s++)
            sum += m.h2[s * mlp_wide<H2> + j] * column[s];
        mlp_put(g2 + j * H1 + i, sum, first);
    }
    for (int s = 0; s < SHARE; s++)
        acc[s] = 0;
    for (int j = 0; j < H2; j++) {
        float v = w.w2[j * H1 + i];
#pragma unroll
        for (int s = 0; s < SHARE; s++)
            acc[s] += v * m.h2[(lane * SHARE + s) * mlp_wide<H2> + j];
    }
    for (int s = 0; s < SHARE; s++)
        m.d1[(lane * SHARE + s) * H1 + i] = acc[s];
}

template <int H1, int H2>
static __device__ inline void mlp_hidden_backward_x3(const struct mlp_weights w, struct mlp_shared &m, float *g2, bool first) {
    constexpr int WARPS = MLP_THREADS / 32;
    int warp = (int)threadIdx.x / 32;
    for (int tile = warp; tile < H2 / 16 * (H1 / 8); tile += WARPS) {
        int row0 = tile / (H1 / 8) * 16, column0 = tile % (H1 / 8) * 8;
        float d[4] = {};
        mlp_multiply(
            d, [&](int row, int k) { return m.h2[k * mlp_wide<H2> + row0 + row]; },
            [&](int k, int column) { return m.h1[(column0 + column) * MLP_ROOM + k]; });
        mlp_sums(d, [&](int row, int column, float sum) { mlp_put(g2 + (row0 + row) * H1 + column0 + column, sum, first); });
    }
    for (int column0 = warp * 8; column0 < H1; column0 += WARPS * 8) {
        float d[4] = {};
        for (int at = 0; at < H2; at += 16)
            mlp_multiply(
                d, [&](int row, int k) { return m.h2[row * mlp_wide<H2> + at + k]; },
                [&](int k, int column) { return w.w2[(at + k) * H1 + column0 + column]; });
        mlp_sums(d, [&](int row, int column, float sum) { m.d1[row * H1 + column0 + column] = sum; });
    }
}

/* After mlp_tile_forward, with dy written and synchronised: gradients of the parameters to the row `sums`, and dx when wanted. */
template <int H1, int H2, bool X3 = false>
static __device__ void mlp_tile_backward(const struct mlp_weights w, struct mlp_shared &m, int rows, float *sums, bool first,
                                         bool dx) {
    int tid = (int)threadIdx.x;
    bool tangent = rows < MLP_ROWS;
    float *g1 = sums, *gb1 = g1 + H1 * w.in, *g2 = gb1 + H1, *gb2 = g2 + H1 * H2, *g3 = gb2 + H2, *gb3 = g3 + H2;
    if (tid < H2) {
        float dw = 0, db = 0, w3 = w.w3[tid];
        for (int r = 0; r < rows; r++) {
            float h = m.h2[r * mlp_wide<H2> + tid], slope = 1.0f - h * h, g = m.dy[r] * w3;
            dw += m.dy[r] * h;
            if (tangent) {
                float z = m.h2[(rows + r) * mlp_wide<H2> + tid], gt = m.dy[rows + r] * w3;
                dw += m.dy[rows + r] * slope * z;
                g -= 2.0f * h * z * gt;
                m.h2[(rows + r) * mlp_wide<H2> + tid] = gt * slope;
            }
            g *= slope;
            db += g;
            m.h2[r * mlp_wide<H2> + tid] = g;
        }
        mlp_put(g3 + tid, dw, first);
        mlp_put(gb2 + tid, db, first);
    }
    if (tid == 0) {
        float total = 0;
        for (int r = 0; r < rows; r++)
            total += m.dy[r];
        mlp_put(gb3, total, first);
    }
    __syncthreads();
    if (X3)
        mlp_hidden_backward_x3<H1, H2>(w, m, g2, first);
    else
        mlp_hidden_backward<H1, H2>(w, m, g2, first);
    __syncthreads();
    if (tid < H1) {
        float slope0 = w.w1[tid * w.in], db = 0, extra = 0, dw[MLP_MAX_INPUTS] = {};
        for (int r = 0; r < rows; r++) {
            float h = m.h1[tid * MLP_ROOM + r], slope = 1.0f - h * h, g = m.d1[r * H1 + tid];
            if (tangent) {
                float gt = m.d1[(rows + r) * H1 + tid];
                g -= 2.0f * h * slope0 * gt;
                extra += gt * slope;
            }
            g *= slope;
            m.d1[r * H1 + tid] = g;
            db += g;
            for (int k = 0; k < w.in; k++)
                dw[k] += m.x[k][r] * g;
        }
        dw[0] += extra;
        mlp_put(gb1 + tid, db, first);
        for (int k = 0; k < w.in; k++)
            mlp_put(g1 + tid * w.in + k, dw[k], first);
    }
    __syncthreads();
    for (int e = tid; dx && e < w.in * rows; e += MLP_THREADS) {
        int k = e / rows, r = e % rows;
        float sum = 0;
        for (int c = 0; c < H1; c++)
            sum += m.d1[r * H1 + c] * w.w1[c * w.in + k];
        m.dx[k][r] = sum;
    }
    __syncthreads();
}

/* mlp.cu. w2t (G, H1·H2) from the rows of parameters at `params`, ld apart. */
void mlp_transpose(struct stream *s, struct mlp_shape n, const float *params, int64_t ld, int64_t groups, float *w2t);
/* out (groups rows, ld apart) += the sums, in order, of `blocks` rows of `count` partial sums each. */
void geodesic_add(struct stream *s, const float *partial, int64_t blocks, int64_t count, int64_t groups, float *out, int64_t ld);
