/* layernorm: a warp takes a row (rows.cuh) where rows lie in 16-byte pieces, else a block. */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/rows.cuh"

enum { THREADS = 128 };

struct layernorm_job {
    struct act x, residual, y, sum;
    const float *weight, *bias;
    float *mean, *rstd;
    int64_t cols;
    float eps;
};

static __device__ float layernorm_input(const struct layernorm_job &j, int64_t at) {
    return act_get(j.x, at) + (j.residual.data ? act_get(j.residual, at) : 0.0f);
}

/* One block per row. */
static __global__ void layernorm_kernel(struct layernorm_job j) {
    __shared__ float room[THREADS];
    int64_t row = blockIdx.x, at = row * j.cols;
    float sum = 0, squares = 0;
    for (int64_t i = threadIdx.x; i < j.cols; i += THREADS)
        sum += layernorm_input(j, at + i);
    float mean = cuda_block_sum(sum, room) / (float)j.cols;
    for (int64_t i = threadIdx.x; i < j.cols; i += THREADS) {
        float d = layernorm_input(j, at + i) - mean;
        squares += d * d;
    }
    float rstd = 1.0f / sqrtf(cuda_block_sum(squares, room) / (float)j.cols + j.eps);
    for (int64_t i = threadIdx.x; i < j.cols; i += THREADS) {
        float r = layernorm_input(j, at + i);
        if (j.sum.data)
            act_put(j.sum, at + i, r);
        act_put(j.y, at + i, (r - mean) * rstd * j.weight[i] + j.bias[i]);
    }
    if (threadIdx.x == 0 && j.mean)
        j.mean[row] = mean;
    if (threadIdx.x == 0 && j.rstd)
        j.rstd[row] = rstd;
}

template <bool BF16, int P>
static __global__ void __launch_bounds__(ROW_THREADS) layernorm_row_kernel(struct layernorm_job j, int64_t rows) {
    constexpr int W = wide<BF16>::N;
    int64_t row = row_of_warp();
    bool real = row < rows;
    row_part<BF16, P> r, other;
    r.load(j.x, row, 0, j.cols, real);
    if (j.residual.data) {
        other.load(j.residual, row, 0, j.cols, real);
#pragma unroll
        for (int k = 0; k < P; k++)
#pragma unroll
            for (int i = 0; i < W; i++)
                r.v[k][i] += other.v[k][i];
    }
    float sum = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < P; k++)
#pragma unroll
        for (int i = 0; i < W; i++)
            sum += r.v[k][i];
    float mean = warp_sum(sum) / (float)j.cols;
#pragma unroll
    for (int k = 0; k < P; k++)
#pragma unroll
        for (int i = 0; i < W; i++) {
            float d = r.column(k) < j.cols ? r.v[k][i] - mean : 0.0f;
            squares += d * d;
        }
    float rstd = 1.0f / sqrtf(warp_sum(squares) / (float)j.cols + j.eps);
    if (j.sum.data)
        r.store(j.sum, row, 0, j.cols, real);
    other.load_columns(j.weight, j.cols);
#pragma unroll
    for (int k = 0; k < P; k++)
#pragma unroll
        for (int i = 0; i < W; i++)
            r.v[k][i] = (r.v[k][i] - mean) * rstd * other.v[k][i];
    other.load_columns(j.bias, j.cols);
#pragma unroll
    for (int k = 0; k < P; k++)
#pragma unroll
        for (int i = 0; i < W; i++)
            r.v[k][i] += other.v[k][i];
    r.store(j.y, row, 0, j.cols, real);
    if (real && threadIdx.x % 32 == 0 && j.mean)
        j.mean[row] = mean;
    if (real && threadIdx.x % 32 == 0 && j.rstd)
        j.rstd[row] = rstd;
}

static bool aligned(const float *a, const float *b) { return (uintptr_t)a % 16 == 0 && (uintptr_t)b % 16 == 0; }

static void layernorm(struct stream *s, const struct layernorm_job *j, int64_t rows) {
    cudaStream_t stream = cuda_stream(s)->stream;
    int pieces = row_pieces(j->cols, j->x.bf16);
    if (!pieces || !act_is_wide(j->x) || !act_is_wide(j->residual) || !act_is_wide(j->y) || !act_is_wide(j->sum) ||
        !aligned(j->weight, j->bias)) {
        CUDA_LAUNCH(layernorm_kernel, (unsigned)rows, THREADS, stream, *j);
        return;
    }
#define LAUNCH(bf16, p) CUDA_LAUNCH((layernorm_row_kernel<bf16, p>), row_blocks(rows), ROW_THREADS, stream, *j, rows)
    ROW_LAUNCH(j->x.bf16, pieces, LAUNCH);
#undef LAUNCH
}

extern "C" int cuda_layernorm(struct stream *s, const struct layernorm_args *a, struct err *err) {
    (void)err;
    struct layernorm_job j = {act_of(&a->x),
                              act_of(&a->residual),
                              act_of(&a->y),
                              act_of(&a->sum),
                              (const float *)a->weight.data,
                              (const float *)a->bias.data,
                              (float *)a->save_mean.data,
                              (float *)a->save_rstd.data,
                              a->x.dim[2],
                              a->eps};
    layernorm(s, &j, tensor_rows(&a->x));
    return 0;
}

static __global__ void layernorm_gradient(struct columns c, const float *weight, struct act dx) {
    __shared__ float room[THREADS];
    int64_t row = blockIdx.x, at = row * c.cols;
    float mean = c.mean[row], rstd = c.rstd[row], m1 = 0, m2 = 0;
    for (int64_t i = threadIdx.x; i < c.cols; i += THREADS) {
        float t = act_get(c.g, at + i) * weight[i];
        m1 += t;
        m2 += t * (act_get(c.x, at + i) - mean) * rstd;
    }
    m1 = cuda_block_sum(m1, room) / (float)c.cols;
    m2 = cuda_block_sum(m2, room) / (float)c.cols;
    for (int64_t i = threadIdx.x; i < c.cols; i += THREADS) {
        float hat = (act_get(c.x, at + i) - mean) * rstd;
        act_put(dx, at + i, rstd * (act_get(c.g, at + i) * weight[i] - m1 - hat * m2));
    }
}

template <bool BF16, int P>
static __global__ void __launch_bounds__(ROW_THREADS) layernorm_row_gradient(struct columns c, const float *weight, struct act dx) {
    constexpr int W = wide<BF16>::N;
    int64_t row = row_of_warp();
    bool real = row < c.rows;
    row_part<BF16, P> x, t, w;
    float mean = real ? c.mean[row] : 0.0f, rstd = real ? c.rstd[row] : 0.0f, m1 = 0, m2 = 0;
    x.load(c.x, row, 0, c.cols, real);
    t.load(c.g, row, 0, c.cols, real);
    w.load_columns(weight, c.cols);
#pragma unroll
    for (int k = 0; k < P; k++)
#pragma unroll
        for (int i = 0; i < W; i++) {
            x.v[k][i] = (x.v[k][i] - mean) * rstd;
            t.v[k][i] *= w.v[k][i]; /* 0 beyond the last column */
            m1 += t.v[k][i];
            m2 += t.v[k][i] * x.v[k][i];
        }
    m1 = warp_sum(m1) / (float)c.cols;
    m2 = warp_sum(m2) / (float)c.cols;
#pragma unroll
    for (int k = 0; k < P; k++)
#pragma unroll
        for (int i = 0; i < W; i++)
            t.v[k][i] = rstd * (t.v[k][i] - m1 - x.v[k][i] * m2);
    t.store(dx, row, 0, c.cols, real);
}

static void gradient(struct stream *s, const struct columns *c, const float *weight, struct act dx) {
    cudaStream_t stream = cuda_stream(s)->stream;
    int pieces = row_pieces(c->cols, c->x.bf16);
    if (!pieces || !act_is_wide(c->x) || !act_is_wide(c->g) || !act_is_wide(dx) || !aligned(weight, weight)) {
        CUDA_LAUNCH(layernorm_gradient, (unsigned)c->rows, THREADS, stream, *c, weight, dx);
        return;
    }
#define LAUNCH(bf16, p) CUDA_LAUNCH((layernorm_row_gradient<bf16, p>), row_blocks(c->rows), ROW_THREADS, stream, *c, weight, dx)
    ROW_LAUNCH(c->x.bf16, pieces, LAUNCH);
#undef LAUNCH
}

extern "C" int cuda_layernorm_backward(struct stream *s, const struct layernorm_backward_args *a, struct err *err) {
    struct columns c = {};
    c.term = COLUMN_LAYERNORM;
    c.rows = tensor_rows(&a->sum);
    c.cols = a->sum.dim[2];
    c.x = act_of(&a->sum);
    c.g = act_of(&a->dy);
    c.mean = (const float *)a->save_mean.data;
    c.rstd = (const float *)a->save_rstd.data;
    int rc = cuda_scratch(s, cuda_columns_size(&c), (void **)&c.shares, err);
    if (rc)
        return rc;
    cuda_columns_run(s, &c); /* before dx, which may lie over dy */
    cuda_columns_add(s, &c, (float *)a->dweight.data, (float *)a->dbias.data);
    gradient(s, &c, (const float *)a->weight.data, act_of(&a->dx));
    return 0;
}
