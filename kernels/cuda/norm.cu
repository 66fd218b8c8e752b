/* norm: batch norm. Statistics of columns come from columns.cuh. */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/vector.cuh"

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

/* The same in pieces of 16 bytes; a thread's columns keep their scale and shift. */
template <bool BF16>
static __global__ void __launch_bounds__(PIECE_THREADS) affine_wide_kernel(struct affine_job j, struct piece_grid g) {
    constexpr int W = wide<BF16>::N;
    int64_t col = (int64_t)piece_column(g) * W, step = piece_row_step(g);
    float scale[W], shift[W];
    if (col >= j.cols)
        return;
#pragma unroll
    for (int i = 0; i < W; i++) {
        scale[i] = j.scale_shift[col + i];
        shift[i] = j.scale_shift[j.cols + col + i];
    }
    for (int64_t first = piece_first_row(g); first < g.rows; first += PIECE_ROWS * step) {
        wide<BF16> x[PIECE_ROWS];
#pragma unroll
        for (int k = 0; k < PIECE_ROWS; k++)
            if (first + k * step < g.rows)
                x[k].load(j.x.data, (first + k * step) * j.x.ld + col);
#pragma unroll
        for (int k = 0; k < PIECE_ROWS; k++) {
            float v[W];
            x[k].get(v);
#pragma unroll
            for (int i = 0; i < W; i++) {
                v[i] = v[i] * scale[i] + shift[i];
                v[i] = j.relu && !(v[i] > 0) ? 0.0f : v[i];
            }
            x[k].put(v);
            if (first + k * step < g.rows)
                x[k].store(j.y.data, (first + k * step) * j.y.ld + col);
        }
    }
}

static void affine(struct stream *s, const struct affine_job *j) {
    cudaStream_t stream = cuda_stream(s)->stream;
    struct piece_grid g = piece_grid_of(j->count / j->cols, j->cols, j->x.bf16);
    if (!cols_are_wide(j->cols, j->x.bf16) || !act_is_wide(j->x) || !act_is_wide(j->y))
        CUDA_LAUNCH(affine_kernel, cuda_blocks(j->count, 256), 256, stream, *j);
    else if (j->x.bf16)
        CUDA_LAUNCH(affine_wide_kernel<true>, piece_blocks(&g), PIECE_THREADS, stream, *j, g);
    else
        CUDA_LAUNCH(affine_wide_kernel<false>, piece_blocks(&g), PIECE_THREADS, stream, *j, g);
}

struct bn_job {
    struct columns sums;
    const float *weight, *bias;
    float *mean, *rstd, *running_mean, *running_var, *leaf_mean, *leaf_var, *scale_shift;
    float eps, momentum;
};

static __device__ void move_running(float *running, float leaf, float momentum) { *running += momentum * (leaf - *running); }

static __global__ void bn_statistics(struct bn_job j) {
    __shared__ struct column_room room;
    double rows = (double)j.sums.rows, first, second;
    int64_t c;
    if (columns_totals(j.sums, &room, true, &c, &first, &second)) {
        double mean = first / rows, var = second / rows - mean * mean;
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

extern "C" int cuda_batchnorm(struct stream *s, const struct batchnorm_args *a, struct err *err) {
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
    cuda_columns_run(s, &j.sums);
    CUDA_LAUNCH(bn_statistics, columns_total_blocks(j.sums.cols), COLUMN_THREADS, cuda_stream(s)->stream, j);
    struct affine_job f = {act_of(&a->x), act_of(&a->y), j.sums.rows * j.sums.cols, j.sums.cols, j.scale_shift, a->relu};
    affine(s, &f);
    return 0;
}

/* dx = k0·(g − k1 − x̂·k2), k0 = w·rstd, k1 = Σg/n, k2 = Σ(g·x̂)/n. */
struct bn_gradient {
    struct columns sums;
    struct act dx;
    const float *weight;
    float *k, *dweight, *dbias; /* k (3, cols) */
};

static __global__ void bn_gradient_sums(struct bn_gradient j) {
    __shared__ struct column_room room;
    double rows = (double)j.sums.rows, sum, dot;
    int64_t c;
    if (columns_totals(j.sums, &room, true, &c, &sum, &dot)) {
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

template <bool BF16>
static __global__ void __launch_bounds__(PIECE_THREADS) bn_gradient_wide(struct bn_gradient j, struct piece_grid g) {
    constexpr int W = wide<BF16>::N, ROWS = 2; /* of three operands */
    const struct columns &c = j.sums;
    int64_t col = (int64_t)piece_column(g) * W, step = piece_row_step(g);
    float scale[W], from_x[W], shift[W]; /* dx = scale·g − from_x·x − shift */
    if (col >= c.cols)
        return;
#pragma unroll
    for (int i = 0; i < W; i++) {
        float k0 = j.k[col + i], k1 = j.k[c.cols + col + i], k2 = j.k[2 * c.cols + col + i];
        scale[i] = k0;
        from_x[i] = k0 * k2 * c.rstd[col + i];
        shift[i] = k0 * k1 - from_x[i] * c.mean[col + i];
    }
    for (int64_t first = piece_first_row(g); first < g.rows; first += ROWS * step) {
        wide<BF16> x[ROWS], dy[ROWS], y[ROWS];
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            int64_t row = first + k * step;
            if (row >= g.rows)
                continue;
            x[k].load(c.x.data, row * c.x.ld + col);
            dy[k].load(c.g.data, row * c.g.ld + col);
            if (c.y.data)
                y[k].load(c.y.data, row * c.y.ld + col);
        }
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            float vx[W], vg[W], vy[W];
            x[k].get(vx);
            dy[k].get(vg);
            y[k].get(vy);
#pragma unroll
            for (int i = 0; i < W; i++) {
                float grad = c.y.data && !(vy[i] > 0) ? 0.0f : vg[i];
                vg[i] = scale[i] * grad - from_x[i] * vx[i] - shift[i];
            }
            dy[k].put(vg);
            if (first + k * step < g.rows)
                dy[k].store(j.dx.data, (first + k * step) * j.dx.ld + col);
        }
    }
}

static void gradient_rows(struct stream *s, const struct bn_gradient *j) {
    const struct columns *c = &j->sums;
    cudaStream_t stream = cuda_stream(s)->stream;
    struct piece_grid g = piece_grid_of(c->rows, c->cols, c->x.bf16);
    if (!cols_are_wide(c->cols, c->x.bf16) || !act_is_wide(c->x) || !act_is_wide(c->g) || !act_is_wide(c->y) || !act_is_wide(j->dx))
        CUDA_LAUNCH(bn_gradient_rows, cuda_blocks(c->rows * c->cols, 256), 256, stream, *j);
    else if (c->x.bf16)
        CUDA_LAUNCH(bn_gradient_wide<true>, piece_blocks(&g), PIECE_THREADS, stream, *j, g);
    else
        CUDA_LAUNCH(bn_gradient_wide<false>, piece_blocks(&g), PIECE_THREADS, stream, *j, g);
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
    CUDA_LAUNCH(bn_gradient_sums, columns_total_blocks(j.sums.cols), COLUMN_THREADS, stream, j);
    gradient_rows(s, &j);
    return 0;
}
