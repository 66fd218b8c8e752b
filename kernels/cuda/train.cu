/* train: loss, gradient norm and AdamW. The sums are double, one block per batch row or stretch, shares added in order. */
#include "kernels/cuda/cuda.cuh"

#include <math.h>

enum { THREADS = 256, NORM_BLOCKS = 1024, ROW_BLOCKS = 65535 };

struct loss_job {
    const float *logits;
    const uint8_t *labels, *mask;
    float *dlogits;
    const int32_t *valid;
    const struct train_place *place; /* or NULL */
    double *sums;                    /* loss and count of each row */
    int64_t t;
    double alpha, gamma, pos_weight, scale;
    bool focal;
};

/* Loss of one logit; *ret_grad is its derivative. The formulas are those of kernels/cpu/train.c. */
static __device__ double loss_of(const struct loss_job &j, double x, bool positive, double *ret_grad) {
    double sign = positive ? 1.0 : -1.0, z = sign * x, weight = positive ? j.pos_weight : 1.0;
    double softplus = z > 0 ? log1p(exp(-z)) : -z + log1p(exp(z)); /* of −z */
    double bce = weight * softplus, q = 1.0 / (1.0 + exp(z < 700 ? z : 700.0)), dbce = -weight * q;
    if (!j.focal) {
        *ret_grad = sign * dbce;
        return bce;
    }
    double alpha = positive ? j.alpha : 1.0 - j.alpha;
    double factor = j.gamma == 2.0 ? q * q : pow(q, j.gamma), dfactor = -j.gamma * factor * (1.0 - q);
    *ret_grad = sign * alpha * (factor * dbce + dfactor * bce);
    return alpha * factor * bce;
}

static __global__ void loss_kernel(struct loss_job j) {
    __shared__ double room[THREADS];
    int64_t row = blockIdx.x, valid = j.valid[row];
    double sum = 0, count = 0, scale = j.place ? (double)j.place->loss_scale : j.scale;
    for (int64_t t = threadIdx.x; t < j.t; t += THREADS) {
        int64_t at = row * j.t + t;
        bool counted = t < valid && j.labels[at] <= 1 && (!j.mask || j.mask[at]);
        double grad = 0;
        if (counted) {
            sum += loss_of(j, (double)j.logits[at], j.labels[at] == 1, &grad);
            count += 1;
        }
        if (j.dlogits)
            j.dlogits[at] = (float)(grad * scale);
    }
    sum = cuda_block_sum(sum, room);
    count = cuda_block_sum(count, room);
    if (threadIdx.x == 0) {
        j.sums[2 * row] = sum;
        j.sums[2 * row + 1] = count;
    }
}

/* pair = Σ of n pairs; single: its first alone. One block for each row of n pairs. */
static __global__ void add_pairs(const double *pairs, int64_t n, double *pair, bool single) {
    __shared__ double room[THREADS];
    double first = 0, second = 0;
    pairs += 2 * n * blockIdx.x;
    pair += (single ? 1 : 2) * blockIdx.x;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        first += pairs[2 * i];
        second += pairs[2 * i + 1];
    }
    first = cuda_block_sum(first, room);
    second = cuda_block_sum(second, room);
    if (threadIdx.x == 0) {
        pair[0] = first;
        if (!single)
            pair[1] = second;
    }
}

extern "C" int cuda_loss(struct stream *s, const struct loss_args *a, struct err *err) {
    int64_t b = a->logits.dim[0];
    double *pairs = NULL;
    int rc = cuda_scratch(s, (size_t)b * 2 * sizeof(double), (void **)&pairs, err);
    if (rc)
        return rc;
    struct loss_job j = {(const float *)a->logits.data,
                         (const uint8_t *)a->labels.data,
                         (const uint8_t *)a->mask.data,
                         (float *)a->dlogits.data,
                         a->valid,
                         a->place,
                         pairs,
                         a->logits.dim[1],
                         a->alpha,
                         a->gamma,
                         a->pos_weight,
                         a->scale,
                         a->kind == LOSS_FOCAL};
    cudaStream_t stream = cuda_stream(s)->stream;
    CUDA_LAUNCH(loss_kernel, (unsigned)b, THREADS, stream, j);
    CUDA_LAUNCH(add_pairs, 1, THREADS, stream, (const double *)pairs, b, a->sums, false);
    return 0;
}

/* Rows are the grid's second dimension. */
static __global__ void squares_kernel(const float *x, int64_t ld, int64_t rows, int64_t n, double *pairs) {
    __shared__ double room[THREADS];
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        double sum = 0, *pair = pairs + 2 * (row * gridDim.x + blockIdx.x);
        for (int64_t i = cuda_index(); i < n; i += cuda_stride())
            sum += (double)x[row * ld + i] * (double)x[row * ld + i];
        sum = cuda_block_sum(sum, room);
        if (threadIdx.x == 0) {
            pair[0] = sum;
            pair[1] = 0;
        }
    }
}

/* Rows of an array that is one row, or (G,n); their blocks. */
static int64_t rows_of(const struct tensor *t) { return t->rank == 2 ? t->dim[0] : 1; }
static dim3 row_grid(unsigned blocks, int64_t rows) { return dim3(blocks, (unsigned)cuda_min(rows, ROW_BLOCKS)); }

extern "C" int cuda_norm(struct stream *s, const struct norm_args *a, struct err *err) {
    int64_t n = a->x.dim[a->x.rank - 1], rows = rows_of(&a->x), blocks = cuda_min(cuda_ceil(n, THREADS), NORM_BLOCKS);
    double *pairs = NULL;
    int rc = cuda_scratch(s, (size_t)(rows * blocks) * 2 * sizeof(double), (void **)&pairs, err);
    if (rc)
        return rc;
    cudaStream_t stream = cuda_stream(s)->stream;
    CUDA_LAUNCH(squares_kernel, row_grid((unsigned)blocks, rows), THREADS, stream, (const float *)a->x.data, a->x.ld, rows, n,
                pairs);
    CUDA_LAUNCH(add_pairs, (unsigned)rows, THREADS, stream, (const double *)pairs, blocks, a->sum_squares, true);
    return 0;
}

struct adam_job {
    float *p, *m, *v, *ema;
    const float *g;
    const uint8_t *decay;
    int64_t rows, n, p_ld, m_ld, v_ld, ema_ld, g_ld;
    float beta1, beta2, eps, scale;
    double clip;
    const double *sum_squares;       /* or NULL */
    const struct train_place *place; /* or NULL: own holds */
    struct train_place own;
};

/* The factor of a row's gradient, after clipping. NaN, for a norm that is not finite: the row stays unchanged. */
static __device__ float adam_scale(const struct adam_job &j, int64_t row) {
    if (!j.sum_squares)
        return j.scale;
    double norm = sqrt(j.sum_squares[row]);
    return !isfinite(norm) ? NAN : (float)(j.clip > 0 && norm > j.clip ? j.clip / norm : 1);
}

static __device__ void adam_row(const struct adam_job &j, const struct train_place &at, int64_t row, float scale) {
    for (int64_t i = cuda_index(); i < j.n; i += cuda_stride()) {
        float grad = j.g[row * j.g_ld + i] * scale;
        float *mp = j.m + row * j.m_ld + i, *vp = j.v + row * j.v_ld + i, *pp = j.p + row * j.p_ld + i;
        float m = j.beta1 * *mp + (1.0f - j.beta1) * grad, v = j.beta2 * *vp + (1.0f - j.beta2) * grad * grad;
        float keep = 1.0f - (j.decay[i] ? at.decay_rate : 0.0f);
        float p = *pp * keep - at.rate * m / (sqrtf(v) * at.correct2 + j.eps);
        *mp = m;
        *vp = v;
        *pp = p;
        if (j.ema) {
            float *ema = j.ema + row * j.ema_ld + i;
            *ema = at.ema_decay * *ema + (1.0f - at.ema_decay) * p;
        }
    }
}

static __global__ void adam_kernel(struct adam_job j) {
    struct train_place at = j.own;
    if (j.place)
        at = *j.place;
    for (int64_t row = blockIdx.y; row < j.rows; row += gridDim.y) {
        float scale = adam_scale(j, row);
        if (!j.sum_squares || isfinite(scale))
            adam_row(j, at, row, scale);
    }
}

extern "C" int cuda_adamw(struct stream *s, const struct adamw_args *a, struct err *err) {
    (void)err;
    struct adam_job j = {};
    j.p = (float *)a->param.data;
    j.m = (float *)a->m.data;
    j.v = (float *)a->v.data;
    j.ema = (float *)a->ema.data;
    j.g = (const float *)a->grad.data;
    j.decay = (const uint8_t *)a->decay.data;
    j.rows = rows_of(&a->param);
    j.n = a->decay.dim[0];
    j.p_ld = a->param.ld;
    j.m_ld = a->m.ld;
    j.v_ld = a->v.ld;
    j.ema_ld = a->ema.ld;
    j.g_ld = a->grad.ld;
    j.beta1 = a->beta1;
    j.beta2 = a->beta2;
    j.eps = a->eps;
    j.scale = a->grad_scale;
    j.clip = a->clip;
    j.sum_squares = a->sum_squares;
    j.place = a->place;
    if (!a->place)
        adamw_place(a, &j.own);
    CUDA_LAUNCH(adam_kernel, row_grid(cuda_blocks(j.n, THREADS), j.rows), THREADS, cuda_stream(s)->stream, j);
    return 0;
}
