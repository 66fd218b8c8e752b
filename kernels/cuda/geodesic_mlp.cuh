/* geodesic_mlp: a block of threads works on a tile of 16 rows of a network of two tanh layers (kernels/op.h). Internal to
 * kernels/cuda.
 *
 * Activations of the tile lie in shared memory; weights come from global memory, where a warp reads neighbours: the forward pass
 * from a transposed copy of w2, the gradients from w2 itself. A thread keeps a column's sums of several rows in registers; the rows
 * of h1 lie side by side, so that it reads four of them at once. With a tangent 8 of the 16 rows are values and 8 their derivatives
 * by the first input. Gradients are added to (or, for a first tile, written as) the block's own row of partial sums; the blocks'
 * rows are added in order by geodesic_add. */
#ifndef BRR_KERNELS_CUDA_GEODESIC_MLP_CUH
#define BRR_KERNELS_CUDA_GEODESIC_MLP_CUH
#include "kernels/cuda/cuda.cuh"

extern "C" {
#include "kernels/geodesic.h"
}

enum {
    MLP_THREADS = 256,
    MLP_ROWS = 16,
    MLP_ROOM = MLP_ROWS + 4 /* of a column: threads at neighbours meet no bank twice */,
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

struct mlp_shared {
    alignas(16) float h1[MLP_MAX_H1 * MLP_ROOM];
    float h2[MLP_ROWS * MLP_MAX_H2], d1[MLP_ROWS * MLP_MAX_H1];
    float x[MLP_MAX_INPUTS][MLP_ROWS], dx[MLP_MAX_INPUTS][MLP_ROWS];
    float y[MLP_ROWS], dy[MLP_ROWS]; /* with a tangent: of the values, then of the derivatives */
    float part[MLP_ROWS][MLP_THREADS / MLP_ROWS];
};

/* y from x; rows is 16, or 8 with a tangent. All threads of the block; x is written and synchronised. */
template <int H1, int H2> static __device__ void mlp_tile_forward(const struct mlp_weights w, struct mlp_shared &m, int rows) {
    constexpr int SHARE = MLP_ROWS * H2 / MLP_THREADS;
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
        m.h2[(first + r) * H2 + j] = first + r < rows ? tanhf(acc[r] + w.b2[j]) : acc[r];
    __syncthreads();
    int row = tid / MLP_ROWS, lane = tid % MLP_ROWS;
    float sum = 0;
    for (int c = lane; c < H2; c += MLP_ROWS) {
        float h = m.h2[(row < rows ? row : row - rows) * H2 + c];
        sum += row < rows ? w.w3[c] * h : w.w3[c] * (1.0f - h * h) * m.h2[row * H2 + c];
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

/* After mlp_tile_forward, with dy written and synchronised: gradients of the parameters to the row `sums`, and dx when wanted. */
template <int H1, int H2>
static __device__ void mlp_tile_backward(const struct mlp_weights w, struct mlp_shared &m, int rows, float *sums, bool first,
                                         bool dx) {
    constexpr int LANES = MLP_THREADS / H1, SHARE = MLP_ROWS / LANES;
    int tid = (int)threadIdx.x;
    bool tangent = rows < MLP_ROWS;
    float *g1 = sums, *gb1 = g1 + H1 * w.in, *g2 = gb1 + H1, *gb2 = g2 + H1 * H2, *g3 = gb2 + H2, *gb3 = g3 + H2;
    if (tid < H2) {
        float dw = 0, db = 0, w3 = w.w3[tid];
        for (int r = 0; r < rows; r++) {
            float h = m.h2[r * H2 + tid], slope = 1.0f - h * h, g = m.dy[r] * w3;
            dw += m.dy[r] * h;
            if (tangent) {
                float z = m.h2[(rows + r) * H2 + tid], gt = m.dy[rows + r] * w3;
                dw += m.dy[rows + r] * slope * z;
                g -= 2.0f * h * z * gt;
                m.h2[(rows + r) * H2 + tid] = gt * slope;
            }
            g *= slope;
            db += g;
            m.h2[r * H2 + tid] = g;
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
    int i = tid % H1, lane = tid / H1;
    float column[MLP_ROWS], acc[SHARE];
#pragma unroll
    for (int s = 0; s < MLP_ROWS; s++)
        column[s] = m.h1[i * MLP_ROOM + s];
    for (int j = lane; j < H2; j += LANES) {
        float sum = 0;
#pragma unroll
        for (int s = 0; s < MLP_ROWS; s++)
            sum += m.h2[s * H2 + j] * column[s];
        mlp_put(g2 + j * H1 + i, sum, first);
    }
    for (int s = 0; s < SHARE; s++)
        acc[s] = 0;
    for (int j = 0; j < H2; j++) {
        float v = w.w2[j * H1 + i];
#pragma unroll
        for (int s = 0; s < SHARE; s++)
            acc[s] += v * m.h2[(lane * SHARE + s) * H2 + j];
    }
    for (int s = 0; s < SHARE; s++)
        m.d1[(lane * SHARE + s) * H1 + i] = acc[s];
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

#endif
