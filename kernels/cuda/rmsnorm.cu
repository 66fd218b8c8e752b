/* rmsnorm: q = y·silu(z), out = weight·q·rs, rs = 1/sqrt(mean q² + eps) within each channel group, one warp (rows.cuh) or block per
 * row and group; and dq = rs·(t − q̂·mean(t·q̂)), t = dout·weight, q̂ = q·rs; dy = dq·silu(z), dz = dq·y·silu'(z), dweight = Σ dout·q̂.
 * Backwards a team of threads (teams.cuh) takes a row and group and adds to dweight on its way. */
#include "kernels/cuda/teams.cuh"

enum { THREADS = 128 };

struct rms_job {
    struct act y, z, out, dout, dy, dz;
    const float *weight, *rstd;
    float *save_rstd;
    int64_t width, groups;
    float eps;
};

static __global__ void rms_kernel(struct rms_job j) {
    __shared__ float room[THREADS];
    int64_t row = blockIdx.x / j.groups, first = (blockIdx.x - row * j.groups) * j.width;
    float squares = 0;
    for (int64_t c = first + threadIdx.x; c < first + j.width; c += THREADS) {
        float q = act_get(j.y, row * j.y.ld + c) * cuda_silu(act_get(j.z, row * j.z.ld + c));
        squares += q * q;
    }
    float rs = 1.0f / sqrtf(cuda_block_sum(squares, room) / (float)j.width + j.eps);
    for (int64_t c = first + threadIdx.x; c < first + j.width; c += THREADS) {
        float q = act_get(j.y, row * j.y.ld + c) * cuda_silu(act_get(j.z, row * j.z.ld + c));
        act_put(j.out, row * j.out.ld + c, q * j.weight[c] * rs);
    }
    if (threadIdx.x == 0 && j.save_rstd)
        j.save_rstd[blockIdx.x] = rs;
}

static __global__ void rms_gradient(struct rms_job j) {
    __shared__ float room[THREADS];
    int64_t row = blockIdx.x / j.groups, first = (blockIdx.x - row * j.groups) * j.width;
    float rs = j.rstd[blockIdx.x], dot = 0;
    for (int64_t c = first + threadIdx.x; c < first + j.width; c += THREADS) {
        float q = act_get(j.y, row * j.y.ld + c) * cuda_silu(act_get(j.z, row * j.z.ld + c));
        dot += act_get(j.dout, row * j.dout.ld + c) * j.weight[c] * q * rs;
    }
    float mean = cuda_block_sum(dot, room) / (float)j.width;
    for (int64_t c = first + threadIdx.x; c < first + j.width; c += THREADS) {
        float y = act_get(j.y, row * j.y.ld + c), z = act_get(j.z, row * j.z.ld + c), gate = cuda_silu(z);
        float dq = (act_get(j.dout, row * j.dout.ld + c) * j.weight[c] - y * gate * (rs * mean)) * rs;
        if (j.dy.data)
            act_put(j.dy, row * j.dy.ld + c, dq * gate);
        if (j.dz.data)
            act_put(j.dz, row * j.dz.ld + c, dq * y * cuda_silu_grad(z));
    }
}

template <bool BF16, int P> static __global__ void __launch_bounds__(ROW_THREADS) rms_row_kernel(struct rms_job j, int64_t count) {
    constexpr int W = wide<BF16>::N;
    int64_t n = row_of_warp(), row = n / j.groups, first = (n - row * j.groups) * j.width;
    bool real = n < count;
    row_part<BF16, P> q, z;
    float squares = 0;
    q.load(j.y, row, first, j.width, real);
    z.load(j.z, row, first, j.width, real);
#pragma unroll
    for (int k = 0; k < P; k++)
#pragma unroll
        for (int i = 0; i < W; i++) {
            q.v[k][i] *= cuda_silu(z.v[k][i]);
            squares += q.v[k][i] * q.v[k][i];
        }
    float rs = 1.0f / sqrtf(warp_sum(squares) / (float)j.width + j.eps);
    z.load_columns(j.weight + first, real ? j.width : 0);
#pragma unroll
    for (int k = 0; k < P; k++)
#pragma unroll
        for (int i = 0; i < W; i++)
            q.v[k][i] *= z.v[k][i] * rs;
    q.store(j.out, row, first, j.width, real);
    if (real && threadIdx.x % 32 == 0 && j.save_rstd)
        j.save_rstd[n] = rs;
}

template <bool BF16, int P>
static __global__ void __launch_bounds__(ROW_THREADS) rms_row_gradient(struct rms_job j, int64_t count) {
    constexpr int W = wide<BF16>::N;
    int64_t n = row_of_warp(), row = n / j.groups, first = (n - row * j.groups) * j.width;
    bool real = n < count;
    row_part<BF16, P> y, z, t, w;
    float rs = real ? j.rstd[n] : 0.0f, dot = 0;
    y.load(j.y, row, first, j.width, real);
    z.load(j.z, row, first, j.width, real);
    t.load(j.dout, row, first, j.width, real);
    w.load_columns(j.weight + first, real ? j.width : 0);
#pragma unroll
    for (int k = 0; k < P; k++)
#pragma unroll
        for (int i = 0; i < W; i++) {
            t.v[k][i] *= w.v[k][i];
            w.v[k][i] = cuda_silu(z.v[k][i]);
            dot += t.v[k][i] * y.v[k][i] * w.v[k][i] * rs;
        }
    float mean = warp_sum(dot) / (float)j.width;
#pragma unroll
    for (int k = 0; k < P; k++)
#pragma unroll
        for (int i = 0; i < W; i++) {
            float gate = w.v[k][i], dq = (t.v[k][i] - y.v[k][i] * gate * (rs * mean)) * rs;
            t.v[k][i] = dq * gate;
            z.v[k][i] = dq * y.v[k][i] * cuda_silu_grad(z.v[k][i]);
        }
    if (j.dy.data)
        t.store(j.dy, row, first, j.width, real);
    if (j.dz.data)
        z.store(j.dz, row, first, j.width, real);
}

/* The operands of a row that one thread of its team loads. */
template <bool BF16> struct rms_piece {
    wide<BF16> y, z, g;
    float rs = 0;
    __device__ void load(const struct rms_job &j, uint32_t row, uint32_t col) {
        y.load(j.y.data, team_at<BF16>(j.y, row, col));
        z.load(j.z.data, team_at<BF16>(j.z, row, col));
        g.load(j.dout.data, team_at<BF16>(j.dout, row, col));
        rs = j.rstd[row * (uint32_t)j.groups + blockIdx.y];
    }
    __device__ void unpack_again(void) {
        y.unpack_again();
        z.unpack_again();
        g.unpack_again();
    }
};

/* blockIdx.x: a stretch of rows, blockIdx.y: a column group. The next row is on its way while one is worked on. Both outputs, and
 * the sums for dweight where there is room for its shares. */
template <bool BF16, int T>
static __global__ void __launch_bounds__(TEAM_THREADS, TEAM_BLOCKS) rms_team_gradient(struct rms_job j, struct columns c) {
    constexpr int W = wide<BF16>::N, TEAMS = TEAM_THREADS / T;
    __shared__ float turns[2][TEAM_THREADS / 32], room[TEAM_THREADS * W];
    __shared__ float4 weight[T * W / 4];
    int lane = (int)threadIdx.x % T, team = (int)threadIdx.x / T, turn = 0;
    uint32_t first = blockIdx.y * (uint32_t)j.width, col = first / W + (uint32_t)lane, row = blockIdx.x * (uint32_t)c.stretch;
    int n = (int)(c.rows - row < c.stretch ? c.rows - row : c.stretch); /* rows of the stretch */
    bool mine = lane * W < j.width;
    float sum[W] = {}, inverse = 1.0f / (float)j.width;
    rms_piece<BF16> next;
    for (int i = (int)threadIdx.x; i < T * W; i += TEAM_THREADS)
        ((float *)weight)[i] = i < j.width ? j.weight[first + i] : 0.0f;
    __syncthreads();
    if (mine && team < n)
        next.load(j, row + (uint32_t)team, col);
    for (int at = team; at - team < n; at += TEAMS, turn ^= 1) { /* as often for every team */
        rms_piece<BF16> p = next;
        float y[W], z[W], t[W], w[W], sig[W], dot = 0;
        bool real = mine && at < n;
        if (mine && at + TEAMS < n)
            next.load(j, row + (uint32_t)(at + TEAMS), col);
        p.y.get(y);
        p.z.get(z);
        p.g.get(t);
        team_columns<W>(weight + lane * (W / 4), w);
#pragma unroll
        for (int i = 0; i < W; i++) {
            sig[i] = __fdividef(1.0f, 1.0f + expf(-z[i])); /* sigmoid; the division is within 2 ulp */
            float hat = real ? y[i] * (z[i] * sig[i]) * p.rs : 0.0f;
            sum[i] += t[i] * hat;
            dot += t[i] * w[i] * hat;
        }
        float mean = team_sum<T>(dot, turns[turn]) * inverse;
        p.unpack_again();
        asm volatile("" : "+r"(at)); /* addresses are made anew: five pointers that move along would take 20 registers */
        p.y.get(y);
        p.z.get(z);
        p.g.get(t);
        team_columns<W>(weight + lane * (W / 4), w);
#pragma unroll
        for (int i = 0; i < W; i++) {
            float gate = z[i] * sig[i], dq = (t[i] * w[i] - y[i] * gate * (p.rs * mean)) * p.rs;
            t[i] = dq * gate;
            z[i] = dq * y[i] * (sig[i] * (1.0f + z[i] * (1.0f - sig[i])));
        }
        p.y.put(t);
        p.z.put(z);
        if (real && j.dy.data)
            p.y.store(j.dy.data, team_at<BF16>(j.dy, row + (uint32_t)at, col));
        if (real && j.dz.data)
            p.z.store(j.dz.data, team_at<BF16>(j.dz, row + (uint32_t)at, col));
    }
    if (c.shares)
        team_share<T, W>(c, 0, first, j.width, sum, room);
}

static bool pieces_wide(const struct rms_job *j) {
    const struct act all[] = {j->y, j->z, j->out, j->dout, j->dy, j->dz};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!act_is_wide(all[i]))
            return false;
    return (uintptr_t)j->weight % 16 == 0;
}
/* Pieces of a lane where all operands lie in pieces; 0: they do not. */
static int pieces_of(const struct rms_job *j) { return pieces_wide(j) ? row_pieces(j->width, j->y.bf16) : 0; }

static void norm_rows(struct stream *s, const struct rms_job *j, int64_t count) {
    cudaStream_t stream = cuda_stream(s)->stream;
    int pieces = pieces_of(j);
    if (!pieces) {
        CUDA_LAUNCH(rms_kernel, (unsigned)count, THREADS, stream, *j);
        return;
    }
#define LAUNCH(bf16, p) CUDA_LAUNCH((rms_row_kernel<bf16, p>), row_blocks(count), ROW_THREADS, stream, *j, count)
    ROW_LAUNCH(j->y.bf16, pieces, LAUNCH);
#undef LAUNCH
}

static void gradient_rows(struct stream *s, const struct rms_job *j, int64_t count) {
    cudaStream_t stream = cuda_stream(s)->stream;
    int pieces = pieces_of(j);
    if (!pieces) {
        CUDA_LAUNCH(rms_gradient, (unsigned)count, THREADS, stream, *j);
        return;
    }
#define LAUNCH(bf16, p) CUDA_LAUNCH((rms_row_gradient<bf16, p>), row_blocks(count), ROW_THREADS, stream, *j, count)
    ROW_LAUNCH(j->y.bf16, pieces, LAUNCH);
#undef LAUNCH
}

static bool gradient_fits_teams(const struct rms_job *j, int64_t rows) {
    const struct act all[] = {j->y, j->z, j->dout, j->dy, j->dz};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!team_fits(all[i], rows))
            return false;
    return j->groups <= 65535;
}

/* All of the backward pass in one kernel and the sum of its shares, where rows fit a team. dweight: or NULL. */
static int gradient_teams(struct stream *s, const struct rms_job *j, struct columns *c, int threads, float *dweight,
                          struct err *err) {
    size_t bytes = team_stretches(c);
    int rc = dweight ? cuda_scratch(s, bytes, (void **)&c->shares, err) : 0;
    if (rc)
        return rc;
    dim3 grid((unsigned)c->stretches, (unsigned)j->groups);
#define LAUNCH(bf16, t) CUDA_LAUNCH((rms_team_gradient<bf16, t>), grid, TEAM_THREADS, cuda_stream(s)->stream, *j, *c)
    TEAM_LAUNCH(j->y.bf16, threads, LAUNCH);
#undef LAUNCH
    if (dweight)
        cuda_columns_add(s, c, dweight, NULL);
    return 0;
}

extern "C" int cuda_rmsnorm_gated(struct stream *s, const struct rmsnorm_gated_args *a, struct err *err) {
    (void)err;
    struct rms_job j = {};
    j.y = act_of(&a->y);
    j.z = act_of(&a->z);
    j.out = act_of(&a->out);
    j.weight = (const float *)a->weight.data;
    j.save_rstd = (float *)a->save_rstd.data;
    j.groups = a->groups;
    j.width = a->y.dim[2] / a->groups;
    j.eps = a->eps;
    norm_rows(s, &j, tensor_rows(&a->y) * j.groups);
    return 0;
}

extern "C" int cuda_rmsnorm_gated_backward(struct stream *s, const struct rmsnorm_gated_backward_args *a, struct err *err) {
    struct rms_job j = {};
    j.y = act_of(&a->y);
    j.z = act_of(&a->z);
    j.dout = act_of(&a->dout);
    j.dy = act_of(&a->dy);
    j.dz = act_of(&a->dz);
    j.weight = (const float *)a->weight.data;
    j.rstd = (const float *)a->save_rstd.data;
    j.groups = a->groups;
    j.width = a->y.dim[2] / a->groups;
    struct columns c = {};
    c.term = COLUMN_RMSNORM;
    c.rows = tensor_rows(&a->y);
    c.cols = a->y.dim[2];
    c.groups = j.groups;
    c.x = j.y;
    c.y = j.z;
    c.g = j.dout;
    c.rstd = j.rstd;
    int threads = pieces_wide(&j) && gradient_fits_teams(&j, c.rows) ? team_threads(j.width, j.y.bf16) : 0;
    if (threads && (j.dy.data || j.dz.data))
        return gradient_teams(s, &j, &c, threads, (float *)a->dweight.data, err);
    if (tensor_present(&a->dweight)) { /* before dy and dz, which may lie over the inputs */
        int rc = cuda_scratch(s, cuda_columns_size(&c), (void **)&c.shares, err);
        if (rc)
            return rc;
        cuda_columns_run(s, &c);
        cuda_columns_add(s, &c, (float *)a->dweight.data, NULL);
    }
    if (j.dy.data || j.dz.data)
        gradient_rows(s, &j, c.rows * j.groups);
    return 0;
}
