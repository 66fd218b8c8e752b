/* layernorm: a warp takes a row (rows.cuh) where rows lie in 16-byte pieces, else a block. Backwards a team of threads (teams.cuh)
 * takes a row and adds to the gradients of weight and bias on its way. */
#include "kernels/cuda/teams.cuh"

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

/* The operands of a row that one thread of its team loads. */
template <bool BF16> struct layernorm_piece {
    wide<BF16> x, g;
    float mean = 0, rstd = 0;
    __device__ void load(const struct columns &c, uint32_t row, uint32_t col) {
        x.load(c.x.data, team_at<BF16>(c.x, row, col));
        g.load(c.g.data, team_at<BF16>(c.g, row, col));
        mean = c.mean[row];
        rstd = c.rstd[row];
    }
};

/* blockIdx.x: a stretch of rows. The next row is loaded while one is worked on. Of j: weight, and y, which is dx. */
template <bool BF16, int T>
static __global__ void __launch_bounds__(TEAM_THREADS, TEAM_BLOCKS) layernorm_team(struct columns c, struct layernorm_job j) {
    constexpr int W = wide<BF16>::N, TEAMS = TEAM_THREADS / T;
    __shared__ float turns[2][2][TEAM_THREADS / 32], room[TEAM_THREADS * W];
    int lane = (int)threadIdx.x % T, team = (int)threadIdx.x / T, turn = 0;
    uint32_t first = blockIdx.x * (uint32_t)c.stretch;
    int n = (int)(c.rows - first < c.stretch ? c.rows - first : c.stretch);
    bool mine = lane * W < c.cols;
    float w[W], scale[W] = {}, shift[W] = {}, inverse = 1.0f / (float)c.cols;
    layernorm_piece<BF16> next;
#pragma unroll
    for (int i = 0; i < W; i++)
        w[i] = mine ? j.weight[lane * W + i] : 0.0f;
    if (mine && team < n)
        next.load(c, first + (uint32_t)team, (uint32_t)lane);
    for (int at = team; at - team < n; at += TEAMS, turn ^= 1) { /* as often for every team */
        layernorm_piece<BF16> p = next;
        float x[W], t[W], m1 = 0, m2 = 0;
        bool real = mine && at < n;
        if (mine && at + TEAMS < n)
            next.load(c, first + (uint32_t)(at + TEAMS), (uint32_t)lane);
        p.x.get(x);
        p.g.get(t);
#pragma unroll
        for (int i = 0; i < W; i++) {
            x[i] = (x[i] - p.mean) * p.rstd;
            scale[i] += real ? t[i] * x[i] : 0.0f;
            shift[i] += real ? t[i] : 0.0f;
            t[i] *= w[i]; /* 0 beyond the last column */
            m1 += t[i];
            m2 += t[i] * x[i];
        }
        m1 = team_sum<T>(m1, turns[turn][0]) * inverse;
        m2 = team_sum<T>(m2, turns[turn][1]) * inverse;
#pragma unroll
        for (int i = 0; i < W; i++)
            t[i] = p.rstd * (t[i] - m1 - x[i] * m2);
        p.g.put(t);
        if (real)
            p.g.store(j.y.data, team_at<BF16>(j.y, first + (uint32_t)at, (uint32_t)lane));
    }
    team_share<T, W>(c, 0, 0, c.cols, scale, room);
    team_share<T, W>(c, 1, 0, c.cols, shift, room);
}

static bool gradient_fits_teams(const struct columns *c, const float *weight, struct act dx) {
    return act_is_wide(c->x) && act_is_wide(c->g) && act_is_wide(dx) && aligned(weight, weight) && team_fits(c->x, c->rows) &&
           team_fits(c->g, c->rows) && team_fits(dx, c->rows);
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
    struct act dx = act_of(&a->dx);
    const float *weight = (const float *)a->weight.data;
    int threads = gradient_fits_teams(&c, weight, dx) ? team_threads(c.cols, c.x.bf16) : 0;
    size_t bytes = threads ? team_stretches(&c) : cuda_columns_size(&c);
    int rc = cuda_scratch(s, bytes, (void **)&c.shares, err);
    if (rc)
        return rc;
    if (threads) {
        struct layernorm_job j = {};
        j.y = dx;
        j.weight = weight;
#define LAUNCH(bf16, t) CUDA_LAUNCH((layernorm_team<bf16, t>), (unsigned)c.stretches, TEAM_THREADS, cuda_stream(s)->stream, c, j)
        TEAM_LAUNCH(c.x.bf16, threads, LAUNCH);
#undef LAUNCH
        cuda_columns_add(s, &c, (float *)a->dweight.data, (float *)a->dbias.data);
        return 0;
    }
    cuda_columns_run(s, &c); /* before dx, which may lie over dy */
    cuda_columns_add(s, &c, (float *)a->dweight.data, (float *)a->dbias.data);
    gradient(s, &c, weight, dx);
    return 0;
}
