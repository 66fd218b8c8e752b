/* norm: batch norm, layer norm and the gated RMS norm. Statistics of columns come from columns.cuh, of rows from one block per row.
 */
#include "kernels/cuda/columns.cuh"

enum { THREADS = 128 };

struct affine_job {
    struct act x, y;
    int64_t count, cols;
    const float *scale_shift; /* (2, cols) */
    bool relu;
};

static __global__ void affine_kernel(struct affine_job j) {
    for (int64_t i = cuda_index(); i < j.count; i += cuda_stride()) {
        int64_t row = i / j.cols, col = i - row * j.cols;
        float v = act_get(j.x, row * j.x.ld + col) * j.scale_shift[col] + j.scale_shift[j.cols + col];
        act_put(j.y, row * j.y.ld + col, j.relu && !(v > 0) ? 0.0f : v);
    }
}

struct bn_job {
    struct columns sums;
    const float *weight, *bias;
    float *mean, *rstd, *running_mean, *running_var, *leaf_mean, *leaf_var, *scale_shift;
    float eps, momentum;
};

static __device__ void move_running(float *running, float leaf, float momentum) { *running += momentum * (leaf - *running); }

static __global__ void bn_statistics(struct bn_job j) {
    double rows = (double)j.sums.rows;
    for (int64_t c = cuda_index(); c < j.sums.cols; c += cuda_stride()) {
        double mean = columns_total(j.sums, c, 0) / rows, var = columns_total(j.sums, c, 1) / rows - mean * mean;
        var = var > 0 ? var : 0;
        mean += (double)act_get(j.sums.x, c);
        double rstd = 1.0 / sqrt(var + (double)j.eps);
        float batch_mean = (float)mean, unbiased = (float)(rows > 1 ? var * rows / (rows - 1) : var);
        j.mean[c] = batch_mean;
        j.rstd[c] = (float)rstd;
        bool finite = isfinite(batch_mean) && isfinite(unbiased); /* the step is skipped otherwise, and must leave no trace */
        if (j.leaf_mean) {
            j.leaf_mean[c] = finite ? batch_mean : NAN;
            j.leaf_var[c] = finite ? unbiased : NAN;
        } else if (finite) {
            move_running(j.running_mean + c, batch_mean, j.momentum);
            move_running(j.running_var + c, unbiased, j.momentum);
        }
        j.scale_shift[c] = (float)(rstd * (double)j.weight[c]);
        j.scale_shift[j.sums.cols + c] = (float)((double)j.bias[c] - mean * rstd * (double)j.weight[c]);
    }
}

static __global__ void bn_constants(struct bn_job j) {
    for (int64_t c = cuda_index(); c < j.sums.cols; c += cuda_stride()) {
        double scale = (double)j.weight[c] / sqrt((double)j.running_var[c] + (double)j.eps);
        j.scale_shift[c] = (float)scale;
        j.scale_shift[j.sums.cols + c] = (float)((double)j.bias[c] - (double)j.running_mean[c] * scale);
    }
}

struct running_job {
    float *running;
    const float *leaves;
    int64_t v, n;
    float momentum;
};

static __global__ void running_kernel(struct running_job j) {
    for (int64_t i = cuda_index(); i < j.n; i += cuda_stride())
        for (int64_t v = 0; v < j.v; v++)
            if (isfinite(j.leaves[v * j.n + i]))
                move_running(j.running + i, j.leaves[v * j.n + i], j.momentum);
}

extern "C" int cuda_running_statistics(struct stream *s, const struct running_statistics_args *a, struct err *err) {
    (void)err;
    struct running_job j = {(float *)a->running.data, (const float *)a->leaves.data, a->leaves.dim[0], a->running.dim[0],
                            a->momentum};
    CUDA_LAUNCH(running_kernel, cuda_blocks(j.n, 128), 128, cuda_stream(s)->stream, j);
    return 0;
}

static int batchnorm(struct stream *s, const struct batchnorm_args *a, bool training, struct err *err) {
    struct bn_job j = {};
    j.sums.term = COLUMN_MOMENTS;
    j.sums.rows = tensor_rows(&a->x);
    j.sums.cols = a->x.dim[2];
    j.sums.x = act_of(&a->x);
    j.weight = (const float *)a->weight.data;
    j.bias = (const float *)a->bias.data;
    j.mean = (float *)a->save_mean.data;
    j.rstd = (float *)a->save_rstd.data;
    j.running_mean = (float *)a->running_mean.data;
    j.running_var = (float *)a->running_var.data;
    j.leaf_mean = (float *)a->leaf_mean.data;
    j.leaf_var = (float *)a->leaf_var.data;
    j.eps = a->eps;
    j.momentum = a->momentum;
    size_t shares = cuda_columns_size(&j.sums);
    int rc = cuda_scratch(s, shares + (size_t)(2 * j.sums.cols) * sizeof(float), (void **)&j.sums.shares, err);
    if (rc)
        return rc;
    j.scale_shift = j.sums.shares + shares / sizeof(float);
    cudaStream_t stream = cuda_stream(s)->stream;
    if (training) {
        cuda_columns_run(s, &j.sums);
        CUDA_LAUNCH(bn_statistics, cuda_blocks(j.sums.cols, 32), 32, stream, j);
    } else {
        CUDA_LAUNCH(bn_constants, cuda_blocks(j.sums.cols, 32), 32, stream, j);
    }
    struct affine_job f = {act_of(&a->x), act_of(&a->y), j.sums.rows * j.sums.cols, j.sums.cols, j.scale_shift, a->relu};
    CUDA_LAUNCH(affine_kernel, cuda_blocks(f.count, 256), 256, stream, f);
    return 0;
}

extern "C" int cuda_batchnorm(struct stream *s, const struct batchnorm_args *a, struct err *err) {
    return batchnorm(s, a, true, err);
}

extern "C" int cuda_batchnorm_inference(struct stream *s, const struct batchnorm_args *a, struct err *err) {
    return batchnorm(s, a, false, err);
}

/* dx = k0·(g − k1 − x̂·k2), k0 = w·rstd, k1 = Σg/n, k2 = Σ(g·x̂)/n. */
struct bn_gradient {
    struct columns sums;
    struct act dx;
    const float *weight;
    float *k, *dweight, *dbias; /* k (3, cols) */
};

static __global__ void bn_gradient_sums(struct bn_gradient j) {
    double rows = (double)j.sums.rows;
    for (int64_t c = cuda_index(); c < j.sums.cols; c += cuda_stride()) {
        double sum = columns_total(j.sums, c, 0), dot = columns_total(j.sums, c, 1);
        j.dbias[c] += (float)sum;
        j.dweight[c] += (float)dot;
        j.k[c] = j.weight[c] * j.sums.rstd[c];
        j.k[j.sums.cols + c] = (float)(sum / rows);
        j.k[2 * j.sums.cols + c] = (float)(dot / rows);
    }
}

static __global__ void bn_gradient_rows(struct bn_gradient j) {
    const struct columns &c = j.sums;
    for (int64_t i = cuda_index(); i < c.rows * c.cols; i += cuda_stride()) {
        int64_t row = i / c.cols, col = i - row * c.cols;
        float g = act_get(c.g, row * c.g.ld + col), hat = (act_get(c.x, row * c.x.ld + col) - c.mean[col]) * c.rstd[col];
        if (c.y.data && !(act_get(c.y, row * c.y.ld + col) > 0))
            g = 0;
        act_put(j.dx, row * j.dx.ld + col, j.k[col] * (g - j.k[c.cols + col] - hat * j.k[2 * c.cols + col]));
    }
}

extern "C" int cuda_batchnorm_backward(struct stream *s, const struct batchnorm_backward_args *a, struct err *err) {
    struct bn_gradient j = {};
    j.sums.term = COLUMN_BATCHNORM;
    j.sums.rows = tensor_rows(&a->x);
    j.sums.cols = a->x.dim[2];
    j.sums.x = act_of(&a->x);
    j.sums.g = act_of(&a->dy);
    if (a->relu)
        j.sums.y = act_of(&a->y);
    j.sums.mean = (const float *)a->save_mean.data;
    j.sums.rstd = (const float *)a->save_rstd.data;
    j.dx = act_of(&a->dx);
    j.weight = (const float *)a->weight.data;
    j.dweight = (float *)a->dweight.data;
    j.dbias = (float *)a->dbias.data;
    size_t shares = cuda_columns_size(&j.sums);
    int rc = cuda_scratch(s, shares + (size_t)(3 * j.sums.cols) * sizeof(float), (void **)&j.sums.shares, err);
    if (rc)
        return rc;
    j.k = j.sums.shares + shares / sizeof(float);
    cudaStream_t stream = cuda_stream(s)->stream;
    cuda_columns_run(s, &j.sums);
    CUDA_LAUNCH(bn_gradient_sums, cuda_blocks(j.sums.cols, 32), 32, stream, j);
    CUDA_LAUNCH(bn_gradient_rows, cuda_blocks(j.sums.rows * j.sums.cols, 256), 256, stream, j);
    return 0;
}

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
    CUDA_LAUNCH(layernorm_kernel, (unsigned)tensor_rows(&a->x), THREADS, cuda_stream(s)->stream, j);
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
    CUDA_LAUNCH(layernorm_gradient, (unsigned)c.rows, THREADS, cuda_stream(s)->stream, c, (const float *)a->weight.data,
                act_of(&a->dx));
    return 0;
}
