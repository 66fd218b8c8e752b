#include "kernels/cuda/columns.cuh"

enum { WIDE = 32, DEEP = 8, STRETCHES = 512, SHORTEST = 64 };

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

static __global__ void add_kernel(struct columns c, float *to0, float *to1) {
    for (int64_t col = cuda_index(); col < c.cols; col += cuda_stride()) {
        if (to0)
            to0[col] += (float)columns_total(c, col, 0);
        if (to1)
            to1[col] += (float)columns_total(c, col, 1);
    }
}

size_t cuda_columns_size(struct columns *c) {
    int64_t stretch = cuda_ceil(c->rows, STRETCHES);
    c->stretch = stretch < SHORTEST ? (int64_t)SHORTEST : stretch;
    c->stretches = cuda_ceil(c->rows, c->stretch);
    return (size_t)(c->stretches * 2 * c->cols) * sizeof(float);
}

void cuda_columns_run(struct stream *s, const struct columns *c) {
    dim3 grid((unsigned)c->stretches, (unsigned)cuda_ceil(c->cols, WIDE));
    CUDA_LAUNCH(columns_kernel, grid, WIDE * DEEP, cuda_stream(s)->stream, *c);
}

void cuda_columns_add(struct stream *s, const struct columns *c, float *to0, float *to1) {
    CUDA_LAUNCH(add_kernel, cuda_blocks(c->cols, WIDE), WIDE, cuda_stream(s)->stream, *c, to0, to1);
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
