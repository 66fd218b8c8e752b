#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/vector.cuh"

enum { WIDE = 32, DEEP = 8, STRETCHES = 512, SHORTEST = 64, LANES = 16, LANES_DEEP = 16 };

static __device__ void terms_at(const struct columns &c, int64_t row, int64_t col, float ret[2]) {
    float x = act_get(c.x, row * c.x.ld + col);
    ret[0] = x;
    ret[1] = 0;
    if (c.term == COLUMN_PLAIN)
        return;
    if (c.term == COLUMN_MOMENTS) {
        float d = x - act_get(c.x, col);
        ret[0] = d;
        ret[1] = d * d;
        return;
    }
    float g = act_get(c.g, row * c.g.ld + col);
    if (c.term == COLUMN_BATCHNORM) {
        if (c.y.data && !(act_get(c.y, row * c.y.ld + col) > 0))
            g = 0;
        ret[0] = g;
        ret[1] = g * (x - c.mean[col]) * c.rstd[col];
    } else if (c.term == COLUMN_LAYERNORM) {
        ret[0] = g * (x - c.mean[row]) * c.rstd[row];
        ret[1] = g;
    } else {
        float z = act_get(c.y, row * c.y.ld + col);
        ret[0] = g * x * cuda_silu(z) * c.rstd[row * c.groups + col / (c.cols / c.groups)];
    }
}

/* A block of WIDE columns by DEEP threads takes one stretch of rows; its threads' sums are added top to bottom. */
static __global__ void columns_kernel(struct columns c) {
    __shared__ float room[2][DEEP][WIDE];
    int x = (int)threadIdx.x % WIDE, y = (int)threadIdx.x / WIDE;
    int64_t col = (int64_t)blockIdx.y * WIDE + x, first = (int64_t)blockIdx.x * c.stretch;
    int64_t end = first + c.stretch < c.rows ? first + c.stretch : c.rows;
    float sum[2] = {0, 0};
    for (int64_t row = first + y; col < c.cols && row < end; row += DEEP) {
        float t[2];
        terms_at(c, row, col, t);
        sum[0] += t[0];
        sum[1] += t[1];
    }
    room[0][y][x] = sum[0];
    room[1][y][x] = sum[1];
    __syncthreads();
    if (y < 2 && col < c.cols) {
        float total = 0;
        for (int i = 0; i < DEEP; i++)
            total += room[y][i][x];
        c.shares[(2 * (int64_t)blockIdx.x + y) * c.cols + col] = total;
    }
}

/* The same in pieces of 16 bytes, LANES of them by LANES_DEEP rows; two rows of a thread are in flight together. */
template <bool BF16, int TERM> static __global__ void __launch_bounds__(LANES *LANES_DEEP) columns_wide_kernel(struct columns c) {
    constexpr int W = wide<BF16>::N, ROWS = 2;
    __shared__ float room[LANES_DEEP][LANES][W];
    int lane = (int)threadIdx.x % LANES, deep = (int)threadIdx.x / LANES;
    int64_t col = ((int64_t)blockIdx.y * LANES + lane) * W, first = (int64_t)blockIdx.x * c.stretch;
    int64_t end = first + c.stretch < c.rows ? first + c.stretch : c.rows;
    float sum[2][W] = {}, mean[W] = {}, rstd[W] = {};
    bool real = col < c.cols;
#pragma unroll
    for (int i = 0; i < W; i++) {
        if (TERM == COLUMN_MOMENTS && real)
            mean[i] = act_get(c.x, col + i); /* the pilot */
        if (TERM == COLUMN_BATCHNORM && real) {
            mean[i] = c.mean[col + i];
            rstd[i] = c.rstd[col + i];
        }
    }
    for (int64_t row = first + deep; real && row < end; row += ROWS * LANES_DEEP) {
        wide<BF16> x[ROWS], g[ROWS], y[ROWS];
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            int64_t at = row + k * LANES_DEEP;
            if (at >= end)
                continue;
            x[k].load(c.x.data, at * c.x.ld + col);
            if (TERM == COLUMN_BATCHNORM || TERM == COLUMN_LAYERNORM || TERM == COLUMN_RMSNORM)
                g[k].load(c.g.data, at * c.g.ld + col);
            if ((TERM == COLUMN_BATCHNORM && c.y.data) || TERM == COLUMN_RMSNORM)
                y[k].load(c.y.data, at * c.y.ld + col);
        }
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            int64_t at = row + k * LANES_DEEP;
            float vx[W], vg[W], vy[W], row_mean = 0, row_rstd = 0;
            if (at >= end)
                continue;
            x[k].get(vx);
            g[k].get(vg);
            y[k].get(vy);
            if (TERM == COLUMN_LAYERNORM) {
                row_mean = c.mean[at];
                row_rstd = c.rstd[at];
            }
            if (TERM == COLUMN_RMSNORM)
                row_rstd = c.rstd[at * c.groups + col / (c.cols / c.groups)];
#pragma unroll
            for (int i = 0; i < W; i++) {
                float d = vx[i] - mean[i], grad = TERM == COLUMN_BATCHNORM && c.y.data && !(vy[i] > 0) ? 0.0f : vg[i];
                if (TERM == COLUMN_PLAIN) {
                    sum[0][i] += vx[i];
                } else if (TERM == COLUMN_MOMENTS) {
                    sum[0][i] += d;
                    sum[1][i] += d * d;
                } else if (TERM == COLUMN_BATCHNORM) {
                    sum[0][i] += grad;
                    sum[1][i] += grad * d * rstd[i];
                } else if (TERM == COLUMN_LAYERNORM) {
                    sum[0][i] += grad * (vx[i] - row_mean) * row_rstd;
                    sum[1][i] += grad;
                } else {
                    sum[0][i] += grad * vx[i] * cuda_silu(vy[i]) * row_rstd;
                }
            }
        }
    }
#pragma unroll
    for (int which = 0; which < 2; which++) {
#pragma unroll
        for (int i = 0; i < W; i++)
            room[deep][lane][i] = sum[which][i];
        __syncthreads();
        for (int i = deep; i < W && real; i += LANES_DEEP) {
            float total = 0;
            for (int k = 0; k < LANES_DEEP; k++)
                total += room[k][lane][i];
            c.shares[(2 * (int64_t)blockIdx.x + which) * c.cols + col + i] = total;
        }
        __syncthreads();
    }
}

static __global__ void add_kernel(struct columns c, float *to0, float *to1) {
    __shared__ struct column_room room;
    double first, second;
    int64_t col;
    if (!columns_totals(c, &room, to1 != NULL, &col, &first, &second))
        return;
    if (to0)
        to0[col] += (float)first;
    if (to1)
        to1[col] += (float)second;
}

size_t cuda_columns_size(struct columns *c) {
    int64_t stretch = cuda_ceil(c->rows, STRETCHES);
    c->stretch = stretch < SHORTEST ? (int64_t)SHORTEST : stretch;
    c->stretches = cuda_ceil(c->rows, c->stretch);
    return (size_t)(c->stretches * 2 * c->cols) * sizeof(float);
}

template <bool BF16> static void run_wide(struct stream *s, const struct columns *c) {
    dim3 grid((unsigned)c->stretches, (unsigned)cuda_ceil(c->cols / wide<BF16>::N, LANES));
    cudaStream_t stream = cuda_stream(s)->stream;
    switch (c->term) {
    case COLUMN_PLAIN:
        CUDA_LAUNCH((columns_wide_kernel<BF16, COLUMN_PLAIN>), grid, LANES * LANES_DEEP, stream, *c);
        break;
    case COLUMN_MOMENTS:
        CUDA_LAUNCH((columns_wide_kernel<BF16, COLUMN_MOMENTS>), grid, LANES * LANES_DEEP, stream, *c);
        break;
    case COLUMN_BATCHNORM:
        CUDA_LAUNCH((columns_wide_kernel<BF16, COLUMN_BATCHNORM>), grid, LANES * LANES_DEEP, stream, *c);
        break;
    case COLUMN_LAYERNORM:
        CUDA_LAUNCH((columns_wide_kernel<BF16, COLUMN_LAYERNORM>), grid, LANES * LANES_DEEP, stream, *c);
        break;
    case COLUMN_RMSNORM:
        CUDA_LAUNCH((columns_wide_kernel<BF16, COLUMN_RMSNORM>), grid, LANES * LANES_DEEP, stream, *c);
        break;
    }
}

void cuda_columns_run(struct stream *s, const struct columns *c) {
    dim3 grid((unsigned)c->stretches, (unsigned)cuda_ceil(c->cols, WIDE));
    int64_t group = c->groups ? c->cols / c->groups : c->cols;
    if (!cols_are_wide(group, c->x.bf16) || !act_is_wide(c->x) || !act_is_wide(c->y) || !act_is_wide(c->g))
        CUDA_LAUNCH(columns_kernel, grid, WIDE * DEEP, cuda_stream(s)->stream, *c);
    else if (c->x.bf16)
        run_wide<true>(s, c);
    else
        run_wide<false>(s, c);
}

void cuda_columns_add(struct stream *s, const struct columns *c, float *to0, float *to1) {
    CUDA_LAUNCH(add_kernel, columns_total_blocks(c->cols), COLUMN_THREADS, cuda_stream(s)->stream, *c, to0, to1);
}

int cuda_column_sums(struct stream *s, const struct tensor *dy, float *dbias, struct err *err) {
    struct columns c = {};
    c.term = COLUMN_PLAIN;
    c.rows = tensor_rows(dy);
    c.cols = dy->dim[dy->rank - 1];
    c.x = act_of(dy);
    int rc = cuda_scratch(s, cuda_columns_size(&c), (void **)&c.shares, err);
    if (rc)
        return rc;
    cuda_columns_run(s, &c);
    cuda_columns_add(s, &c, dbias, NULL);
    return 0;
}
