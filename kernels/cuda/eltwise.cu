/* eltwise: element-wise ops (in pieces of 16 bytes where all operands are of one type and lie on them), dropout (the same Philox
 * numbers as base/rng.c) and the sigmoid. */
#include <math.h>

#include "base/philox.h"
#include "kernels/cuda/vector.cuh"

enum { THREADS = 256 };

struct eltwise_job {
    enum eltwise_kind kind;
    int64_t count, cols;
    struct act a, b, y;
    float alpha;
};

static __device__ inline float eltwise_of(const struct eltwise_job &j, float a, float b, float y) {
    switch (j.kind) {
    case ELTWISE_COPY:
        return a;
    case ELTWISE_ADD:
        return a + b;
    case ELTWISE_ADD_RELU:
        return a + b > 0 ? a + b : 0;
    case ELTWISE_RELU:
        return a > 0 ? a : 0;
    case ELTWISE_RELU_BACKWARD:
        return b > 0 ? a : 0;
    case ELTWISE_SCALE:
        return j.alpha * a;
    case ELTWISE_FILL:
        return j.alpha;
    case ELTWISE_NEG_EXP:
        return -expf(a);
    case ELTWISE_MUL_ADD:
        return y + a * b;
    }
    return 0;
}

static __global__ void eltwise_kernel(struct eltwise_job j) {
    for (int64_t i = cuda_index(); i < j.count; i += cuda_stride()) {
        int64_t row = i / j.cols, col = i - row * j.cols, at = row * j.y.ld + col;
        float a = j.a.data ? act_get(j.a, row * j.a.ld + col) : 0.0f, b = j.b.data ? act_get(j.b, row * j.b.ld + col) : 0.0f;
        act_put(j.y, at, eltwise_of(j, a, b, j.kind == ELTWISE_MUL_ADD ? act_get(j.y, at) : 0.0f));
    }
}

template <bool BF16>
static __device__ inline wide<BF16> eltwise_piece(const struct eltwise_job &j, const wide<BF16> &a, const wide<BF16> &b,
                                                  const wide<BF16> &y) {
    constexpr int W = wide<BF16>::N;
    float va[W], vb[W], vy[W];
    wide<BF16> ret;
    a.get(va);
    b.get(vb);
    y.get(vy);
#pragma unroll
    for (int i = 0; i < W; i++)
        vy[i] = eltwise_of(j, va[i], vb[i], vy[i]);
    ret.put(vy);
    return ret;
}

/* Four pieces of a thread are in flight together. */
template <bool BF16>
static __global__ void __launch_bounds__(PIECE_THREADS) eltwise_wide_kernel(struct eltwise_job j, struct piece_grid g) {
    constexpr int W = wide<BF16>::N;
    int64_t col = (int64_t)piece_column(g) * W, step = piece_row_step(g);
    for (int64_t first = piece_first_row(g); first < g.rows && col < j.cols; first += PIECE_ROWS * step) {
        wide<BF16> a[PIECE_ROWS], b[PIECE_ROWS], y[PIECE_ROWS];
#pragma unroll
        for (int k = 0; k < PIECE_ROWS; k++) {
            int64_t row = first + k * step;
            if (row < g.rows && j.a.data)
                a[k].load(j.a.data, row * j.a.ld + col);
            if (row < g.rows && j.b.data)
                b[k].load(j.b.data, row * j.b.ld + col);
            if (row < g.rows && j.kind == ELTWISE_MUL_ADD)
                y[k].load(j.y.data, row * j.y.ld + col);
        }
#pragma unroll
        for (int k = 0; k < PIECE_ROWS; k++)
            if (first + k * step < g.rows)
                eltwise_piece(j, a[k], b[k], y[k]).store(j.y.data, (first + k * step) * j.y.ld + col);
    }
}

/* All operands of one type, on 16 bytes; dense ones count as rows of whatever length suits. */
static bool eltwise_wide(struct stream *s, struct eltwise_job j, bool dense) {
    bool bf16 = j.y.bf16;
    int64_t row = PIECE_THREADS * (bf16 ? 8 : 4);
    if ((j.a.data && j.a.bf16 != bf16) || (j.b.data && j.b.bf16 != bf16))
        return false;
    if (dense) {
        while (row > 4 && j.count % row)
            row /= 2;
        if (j.count % row)
            return false;
        j.cols = j.a.ld = j.b.ld = j.y.ld = row;
    }
    if (!cols_are_wide(j.cols, bf16) || !act_is_wide(j.a) || !act_is_wide(j.b) || !act_is_wide(j.y))
        return false;
    struct piece_grid g = piece_grid_of(j.count / j.cols, j.cols, bf16);
    if (bf16)
        CUDA_LAUNCH(eltwise_wide_kernel<true>, piece_blocks(&g), PIECE_THREADS, cuda_stream(s)->stream, j, g);
    else
        CUDA_LAUNCH(eltwise_wide_kernel<false>, piece_blocks(&g), PIECE_THREADS, cuda_stream(s)->stream, j, g);
    return true;
}

/* Rank 1 is one row, whatever its ld. */
static struct act rows_of(const struct tensor *t) {
    struct act a = act_of(t);
    if (t->rank < 2)
        a.ld = t->dim[0];
    return a;
}

extern "C" int cuda_eltwise(struct stream *s, const struct eltwise_args *a, struct err *err) {
    (void)err;
    struct eltwise_job j = {a->kind, tensor_count(&a->y), a->y.dim[a->y.rank - 1], rows_of(&a->a), rows_of(&a->b), rows_of(&a->y),
                            a->alpha};
    bool dense = tensor_dense(&a->y) && (!a->a.data || tensor_dense(&a->a)) && (!a->b.data || tensor_dense(&a->b));
    if (eltwise_wide(s, j, dense))
        return 0;
    if (dense)
        j.cols = j.count;
    CUDA_LAUNCH(eltwise_kernel, cuda_blocks(j.count, THREADS), THREADS, cuda_stream(s)->stream, j);
    return 0;
}

struct dropout_job {
    struct act x, y;
    int64_t count, t, c, row0;
    uint64_t seed;
    uint32_t rng_stream, step;
    float p, scale;
    uint32_t least; /* random words from this one on keep their element: those whose upper 24 bits, times 2^-24, reach p */
    bool per_channel;
    const struct train_place *place; /* or NULL */
};

static __device__ inline void dropout_place(struct dropout_job &j) {
    if (!j.place)
        return;
    j.step = j.place->step;
    j.row0 = j.place->row0;
}

static __device__ float uniform_at(const struct dropout_job &j, uint64_t n) {
    uint32_t c[4];
    philox(j.seed, j.rng_stream, j.step, n / 4, c);
    uint32_t lane = (uint32_t)(n % 4), bits = lane == 0 ? c[0] : lane == 1 ? c[1] : lane == 2 ? c[2] : c[3];
    return (float)(bits >> 8) * 0x1p-24f;
}

static __global__ void dropout_kernel(struct dropout_job j) {
    dropout_place(j);
    for (int64_t i = cuda_index(); i < j.count; i += cuda_stride()) {
        int64_t batch = i / (j.t * j.c), inside = i - batch * j.t * j.c;
        uint64_t row = (uint64_t)(j.row0 + batch);
        uint64_t n =
            j.per_channel ? row * (uint64_t)j.c + (uint64_t)(inside % j.c) : row * (uint64_t)(j.t * j.c) + (uint64_t)inside;
        float keep = uniform_at(j, n) >= j.p ? j.scale : 0.0f;
        act_put(j.y, i, act_get(j.x, i) * keep);
    }
}

/* Draws the factors of W elements from number n on; n is a multiple of 4, and one Philox block serves 4 elements. */
template <int W> static __device__ inline void dropout_scales(const struct dropout_job &j, uint64_t n, float (&ret)[W]) {
#pragma unroll
    for (int part = 0; part < W; part += 4) {
        uint32_t c[4];
        philox(j.seed, j.rng_stream, j.step, (n + (uint64_t)part) / 4, c);
#pragma unroll
        for (int i = 0; i < 4; i++)
            ret[part + i] = c[i] >= j.least ? j.scale : 0.0f;
    }
}

template <bool BF16> static __device__ inline wide<BF16> dropout_piece(const wide<BF16> &x, const float (&scale)[wide<BF16>::N]) {
    float v[wide<BF16>::N];
    wide<BF16> ret;
    x.get(v);
#pragma unroll
    for (int i = 0; i < wide<BF16>::N; i++)
        v[i] *= scale[i];
    ret.put(v);
    return ret;
}

/* The mask of elements, which are numbered on from one batch row to the next. */
template <bool BF16> static __global__ void __launch_bounds__(PIECE_THREADS) dropout_wide_kernel(struct dropout_job j) {
    constexpr int W = wide<BF16>::N;
    dropout_place(j);
    uint64_t first = (uint64_t)(j.row0 * j.t * j.c);
    for (int64_t at = cuda_index() * W; at < j.count; at += cuda_stride() * W) {
        wide<BF16> x;
        float scale[W];
        x.load(j.x.data, at);
        dropout_scales<W>(j, first + (uint64_t)at, scale);
        dropout_piece<BF16>(x, scale).store(j.y.data, at);
    }
}

/* The mask of channels, drawn once for all rows of a thread. blockIdx.x: n blocks for each row of the batch. Four pieces are in
 * flight together. */
template <bool BF16>
static __global__ void __launch_bounds__(PIECE_THREADS) dropout_channels(struct dropout_job j, struct piece_grid g, unsigned n) {
    constexpr int W = wide<BF16>::N;
    int64_t batch = blockIdx.x / n, col = (int64_t)piece_column(g) * W, start = batch * j.t * j.c + col;
    int deep = PIECE_THREADS >> g.shift; /* rows of a block at once */
    int64_t step = (int64_t)n * deep;
    float scale[W];
    if (col >= j.c)
        return;
    dropout_place(j);
    dropout_scales<W>(j, (uint64_t)((j.row0 + batch) * j.c + col), scale);
    for (int64_t first = blockIdx.x % n * deep + (threadIdx.x >> g.shift); first < g.rows; first += PIECE_ROWS * step) {
        wide<BF16> x[PIECE_ROWS];
#pragma unroll
        for (int k = 0; k < PIECE_ROWS; k++)
            if (first + k * step < g.rows)
                x[k].load(j.x.data, start + (first + k * step) * j.c);
#pragma unroll
        for (int k = 0; k < PIECE_ROWS; k++)
            if (first + k * step < g.rows)
                dropout_piece<BF16>(x[k], scale).store(j.y.data, start + (first + k * step) * j.c);
    }
}

template <bool BF16> static bool dropout_wide(struct stream *s, const struct dropout_job *j) {
    constexpr int W = wide<BF16>::N;
    cudaStream_t stream = cuda_stream(s)->stream;
    int64_t batch = j->count / (j->t * j->c);
    if (j->per_channel) {
        if (j->c % W || batch > 65535)
            return false;
        struct piece_grid g = piece_grid_of(j->t, j->c, BF16);
        dim3 grid = piece_blocks(&g);
        unsigned n = grid.x;
        grid.x *= (unsigned)batch;
        CUDA_LAUNCH(dropout_channels<BF16>, grid, PIECE_THREADS, stream, *j, g, n);
        return true;
    }
    if (j->t * j->c % 4 || j->count % W)
        return false;
    CUDA_LAUNCH(dropout_wide_kernel<BF16>, cuda_blocks(j->count / W, PIECE_THREADS), PIECE_THREADS, stream, *j);
    return true;
}

extern "C" int cuda_dropout(struct stream *s, const struct dropout_args *a, struct err *err) {
    if (a->p == 0) {
        if (a->y.data == a->x.data)
            return 0;
        struct eltwise_args copy = {};
        copy.kind = ELTWISE_COPY;
        copy.a = a->x;
        copy.y = a->y;
        return cuda_eltwise(s, &copy, err);
    }
    struct dropout_job j = {};
    j.x = act_of(&a->x);
    j.y = act_of(&a->y);
    j.count = tensor_count(&a->x);
    j.t = a->x.dim[1];
    j.c = a->x.dim[2];
    j.row0 = a->row0;
    j.seed = a->seed;
    j.rng_stream = a->rng_stream;
    j.step = a->step;
    j.p = a->p;
    j.scale = 1.0f / (1.0f - a->p);
    j.least = (uint32_t)ceilf(a->p * 0x1p24f) << 8;
    j.per_channel = a->per_channel;
    j.place = a->place;
    bool whole = (uintptr_t)j.x.data % 16 == 0 && (uintptr_t)j.y.data % 16 == 0 && j.x.bf16 == j.y.bf16;
    if (whole && (j.x.bf16 ? dropout_wide<true>(s, &j) : dropout_wide<false>(s, &j)))
        return 0;
    CUDA_LAUNCH(dropout_kernel, cuda_blocks(j.count, THREADS), THREADS, cuda_stream(s)->stream, j);
    return 0;
}

static __global__ void sigmoid_kernel(const float *x, float *y, int64_t count) {
    for (int64_t i = cuda_index(); i < count; i += cuda_stride())
        y[i] = sigmoid_of(x[i]);
}

extern "C" int cuda_sigmoid(struct stream *s, const struct sigmoid_args *a, struct err *err) {
    (void)err;
    int64_t count = tensor_count(&a->x);
    CUDA_LAUNCH(sigmoid_kernel, cuda_blocks(count, THREADS), THREADS, cuda_stream(s)->stream, (const float *)a->x.data,
                (float *)a->y.data, count);
    return 0;
}
