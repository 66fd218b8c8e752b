/* conv: dense convolutions and projections as matrix products, bias and ReLU in the product's epilogue. A convolution's taps are
 * laid side by side (rows of K·C inputs, at most COLUMN_BYTES at a time, which a GPU's L2 holds until the product has read them),
 * so that each output is one sum in F32; where they lie side by side already the input is used as it is. */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/cudnn.cuh"
#include "kernels/cuda/weights.cuh"

#include <string.h>

enum { THREADS = 256, COLUMN_BYTES = 24 << 20, TILE_ROWS = 128 };

/* dw[a][c][k] += packed[a][k·C + c] */
static __global__ void unpack_kernel(const float *packed, int64_t pitch, float *dw, int64_t count, int64_t c, int64_t taps) {
    for (int64_t i = cuda_index(); i < count; i += cuda_stride()) {
        int64_t k = i % taps, pair = i / taps, a = pair / c, n = pair - a * c;
        dw[i] += packed[a * pitch + k * c + n];
    }
}

/* What a product reads in place of a convolution's input. */
struct taps {
    const struct tensor *x; /* (B,Tin,C) */
    int64_t t_out, count, stride, pad, pitch;
    bool direct;
};

struct column_rows {
    struct act x, out; /* out.ld = pitch */
    int64_t t_in, t_out, c, taps, stride, pad, first, rows;
};

static __global__ void lay_kernel(struct column_rows j) {
    for (int64_t i = cuda_index(); i < j.rows * j.out.ld; i += cuda_stride()) {
        int64_t r = i / j.out.ld, col = i - r * j.out.ld, k = col / j.c, n = col - k * j.c;
        int64_t row = j.first + r, b = row / j.t_out, u = (row - b * j.t_out) * j.stride + k - j.pad;
        act_put(j.out, i, k < j.taps && u >= 0 && u < j.t_in ? act_get(j.x, (b * j.t_in + u) * j.x.ld + n) : 0.0f);
    }
}

/* The same in pieces of 16 bytes, `wide` elements, none of which lies across two taps. */
struct alignas(16) piece {
    uint32_t parts[4];
};
static __global__ void lay_pieces_kernel(struct column_rows j, int64_t wide) {
    const struct piece *x = (const struct piece *)j.x.data;
    struct piece *out = (struct piece *)j.out.data;
    int64_t pieces = j.out.ld / wide, c = j.c / wide, ld = j.x.ld / wide;
    for (int64_t i = cuda_index(); i < j.rows * pieces; i += cuda_stride()) {
        int64_t r = i / pieces, col = i - r * pieces, k = col / c, n = col - k * c;
        int64_t row = j.first + r, b = row / j.t_out, u = (row - b * j.t_out) * j.stride + k - j.pad;
        const struct piece none = {{0, 0, 0, 0}};
        out[i] = k < j.taps && u >= 0 && u < j.t_in ? x[(b * j.t_in + u) * ld + n] : none;
    }
}

static int64_t padded(int64_t n) { return cuda_ceil(n, 8) * 8; }

static struct taps taps_of(const struct tensor *x, int64_t t_out, int64_t count, int64_t stride, int64_t pad) {
    struct taps t = {x, t_out, count, stride, pad, 0, false};
    t.direct = (count == 1 && stride == 1) || (count == 2 && stride == 2 && pad == 0 && x->ld == x->dim[2]);
    t.pitch = t.direct ? count * x->dim[2] : padded(count * x->dim[2]);
    return t;
}

/* Equal pieces, whole tiles of the product's. */
static int64_t rows_at_once(const struct taps *t) {
    int64_t rows = t->x->dim[0] * t->t_out, most = COLUMN_BYTES / (t->pitch * (int64_t)dtype_bytes(t->x->dtype));
    if (t->direct || rows <= most)
        return rows;
    most = most / TILE_ROWS * TILE_ROWS > 0 ? most / TILE_ROWS * TILE_ROWS : (int64_t)TILE_ROWS;
    return cuda_ceil(cuda_ceil(rows, cuda_ceil(rows, most)), TILE_ROWS) * TILE_ROWS;
}

static size_t column_bytes(const struct taps *t) {
    return t->direct ? 0 : (size_t)(rows_at_once(t) * t->pitch) * dtype_bytes(t->x->dtype);
}

/* Rows first..first+rows as a matrix; returns its address and leading dimension. */
static const void *lay_rows(struct stream *s, const struct taps *t, void *columns, const int64_t span[2], int64_t *ret_ld) {
    if (t->direct) {
        *ret_ld = t->x->ld * t->stride;
        return t->x->data; /* all rows at once */
    }
    struct act out = {columns, t->pitch, t->x->dtype == DTYPE_BF16};
    struct column_rows j = {act_of(t->x), out, t->x->dim[1], t->t_out, t->x->dim[2], t->count, t->stride, t->pad, span[0], span[1]};
    int64_t wide = out.bf16 ? 8 : 4;
    if (j.c % wide == 0 && j.x.ld % wide == 0 && (uintptr_t)j.x.data % sizeof(struct piece) == 0)
        CUDA_LAUNCH(lay_pieces_kernel, cuda_blocks(j.rows * t->pitch / wide, THREADS), THREADS, cuda_stream(s)->stream, j, wide);
    else
        CUDA_LAUNCH(lay_kernel, cuda_blocks(j.rows * t->pitch, THREADS), THREADS, cuda_stream(s)->stream, j);
    *ret_ld = t->pitch;
    return columns;
}

static void *row_at(const struct tensor *t, int64_t row) { return (char *)t->data + (size_t)(row * t->ld) * dtype_bytes(t->dtype); }

/* y rows = relu?(laid rows · wᵀ + bias?), w (n, pitch). */
static int product_rows(struct stream *s, const struct taps *t, const struct tensor *y, const struct weights *w, void *columns,
                        bool relu, struct err *err) {
    int64_t rows = t->x->dim[0] * t->t_out, at_once = rows_at_once(t);
    for (int64_t first = 0; first < rows; first += at_once) {
        int64_t span[2] = {first, cuda_min(at_once, rows - first)};
        struct cuda_gemm g = {};
        g.trans_b = true;
        g.bf16 = t->x->dtype == DTYPE_BF16;
        g.c_bf16 = y->dtype == DTYPE_BF16;
        g.m = span[1];
        g.n = y->dim[2];
        g.k = t->pitch;
        g.a = lay_rows(s, t, columns, span, &g.lda);
        g.b = w->w.data;
        g.ldb = w->w.ld;
        g.c = row_at(y, first);
        g.ldc = y->ld;
        g.bias = w->bias;
        g.relu = relu;
        int rc = cuda_gemm(s, &g, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* dw += (other rows)ᵀ · laid rows, through F32 `sums` (A, pitch); dw (A,C,K). */
static int gradient_rows(struct stream *s, const struct taps *t, const struct tensor *other, const struct tensor *dw, void *columns,
                         float *sums, struct err *err) {
    int64_t rows = t->x->dim[0] * t->t_out, at_once = rows_at_once(t);
    for (int64_t first = 0; first < rows; first += at_once) {
        int64_t span[2] = {first, cuda_min(at_once, rows - first)};
        struct cuda_gemm g = {};
        g.trans_a = true;
        g.bf16 = t->x->dtype == DTYPE_BF16;
        g.m = dw->dim[0];
        g.n = t->pitch;
        g.k = span[1];
        g.a = row_at(other, first);
        g.lda = other->ld;
        g.b = lay_rows(s, t, columns, span, &g.ldb);
        g.beta = first ? 1.0f : 0.0f;
        g.c = sums;
        g.ldc = t->pitch;
        int rc = cuda_gemm(s, &g, err);
        if (rc)
            return rc;
    }
    int64_t count = tensor_count(dw);
    CUDA_LAUNCH(unpack_kernel, cuda_blocks(count, THREADS), THREADS, cuda_stream(s)->stream, (const float *)sums, t->pitch,
                (float *)dw->data, count, dw->dim[1], t->count);
    return 0;
}

/* A convolution of stride 1 whose output is as long as its input, in bf16: cuDNN's where it takes it. */
static struct cudnn_convolution for_cudnn(enum cudnn_what what, const struct tensor *x, const struct tensor *w,
                                          const struct tensor *y, int64_t pad) {
    struct cudnn_convolution c = {};
    c.what = what;
    c.b = x->dim[0];
    c.t = x->dim[1];
    c.ci = w->dim[1];
    c.co = w->dim[0];
    c.k = w->dim[2];
    c.pad = pad;
    c.x_ld = x->ld;
    c.y_ld = y->ld;
    c.x = x->data;
    c.y = y->data;
    return c;
}

/* Weights (Co,K,Ci) go in front as bf16, or come out as F32 sums that are added to dw. */
static int through_cudnn(struct stream *s, struct cudnn_convolution *c, const struct weights_job *weights, bool *ret_done,
                         struct err *err) {
    bool filter = c->what == CUDNN_FILTER_GRADIENT;
    size_t workspace = 0, bytes = filter ? (size_t)tensor_count(weights->w) * sizeof(float) : cuda_weights_bytes(weights);
    int rc = cudnn_takes(s, c, ret_done, &workspace, err);
    if (rc || !*ret_done)
        return rc;
    struct cuda_area area = {NULL, 0};
    cuda_take(&area, bytes);
    cuda_take(&area, workspace);
    rc = cuda_scratch(s, area.used, (void **)&area.base, err);
    if (rc)
        return rc;
    area.used = 0;
    void *room = cuda_take(&area, bytes);
    struct weights w = {{room, weights->pitch, false}, NULL};
    if (!filter && (rc = cuda_weights(s, weights, room, &w, err)))
        return rc;
    c->w = w.w.data;
    rc = cudnn_run(s, c, cuda_take(&area, workspace), err);
    if (!rc && filter) {
        int64_t count = tensor_count(weights->w);
        CUDA_LAUNCH(unpack_kernel, cuda_blocks(count, THREADS), THREADS, cuda_stream(s)->stream, (const float *)room,
                    weights->pitch, (float *)weights->w->data, count, c->ci, c->k);
    }
    return rc;
}

static bool like_cudnn(const struct tensor *x, const struct tensor *w, int stride, int pad) {
    return x->dtype == DTYPE_BF16 && stride == 1 && w->dim[2] == 2 * pad + 1;
}

extern "C" int cuda_conv1d(struct stream *s, const struct conv1d_args *a, struct err *err) {
    bool bf16 = a->x.dtype == DTYPE_BF16;
    int rc;
    if (like_cudnn(&a->x, &a->w, a->stride, a->pad)) {
        struct cudnn_convolution c = for_cudnn(CUDNN_FORWARD, &a->x, &a->w, &a->y, a->pad);
        struct weights_job weights = {&a->w, NULL, c.k * c.ci, false, true, a->weight_version};
        bool done = false;
        c.bias = (const float *)a->bias.data;
        c.relu = a->relu;
        rc = through_cudnn(s, &c, &weights, &done, err);
        if (rc || done)
            return rc;
    }
    struct taps t = taps_of(&a->x, a->y.dim[1], a->w.dim[2], a->stride, a->pad);
    struct weights_job job = {&a->w, &a->bias, t.pitch, false, bf16, a->weight_version};
    struct weights w;
    struct cuda_area area = {NULL, 0};
    cuda_take(&area, cuda_weights_bytes(&job));
    cuda_take(&area, column_bytes(&t));
    if ((rc = cuda_scratch(s, area.used, (void **)&area.base, err)))
        return rc;
    area.used = 0;
    rc = cuda_weights(s, &job, cuda_take(&area, cuda_weights_bytes(&job)), &w, err);
    return rc ? rc : product_rows(s, &t, &a->y, &w, cuda_take(&area, column_bytes(&t)), a->relu, err);
}

/* Stride 2, K = 2: to[2r + k] = from[r]·w[:,:,k] + bias?, packed as for the forward pass. */
static int pairs_product(struct stream *s, const struct tensor *from, const struct tensor *to, const struct weights *w,
                         struct err *err) {
    for (int64_t k = 0; k < 2; k++) {
        struct cuda_gemm g = {};
        g.bf16 = w->w.bf16;
        g.c_bf16 = to->dtype == DTYPE_BF16;
        g.m = tensor_rows(from);
        g.n = to->dim[2];
        g.k = from->dim[2];
        g.a = from->data;
        g.lda = from->ld;
        g.b = (const char *)w->w.data + (size_t)(k * to->dim[2]) * (w->w.bf16 ? 2 : 4);
        g.ldb = w->w.ld;
        g.c = row_at(to, k);
        g.ldc = 2 * to->ld;
        g.bias = w->bias;
        int rc = cuda_gemm(s, &g, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Scratch of a gradient: packed weights, F32 sums, columns of either side. */
struct gradient_room {
    void *packed, *columns;
    float *sums;
};

static int gradient_room(struct stream *s, size_t packed, size_t sums, size_t columns, struct gradient_room *ret, struct err *err) {
    struct cuda_area area = {NULL, 0};
    for (int pass = 0; pass < 2; pass++) {
        area.used = 0;
        ret->packed = cuda_take(&area, packed);
        ret->sums = (float *)cuda_take(&area, sums);
        ret->columns = cuda_take(&area, columns);
        int rc = pass ? 0 : cuda_scratch(s, area.used, (void **)&area.base, err);
        if (rc)
            return rc;
    }
    return 0;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

extern "C" int cuda_conv1d_backward(struct stream *s, const struct conv1d_backward_args *a, struct err *err) {
    int64_t co = a->w.dim[0], ci = a->w.dim[1], k = a->w.dim[2];
    bool bf16 = a->x.dtype == DTYPE_BF16, flip = a->stride == 1;
    struct taps t = taps_of(&a->x, a->dy.dim[1], k, a->stride, a->pad);
    struct taps back = taps_of(&a->dy, a->x.dim[1], k, 1, k - 1 - a->pad); /* stride 1 */
    struct weights_job like = {&a->w, NULL, k * ci, false, true, a->weight_version}, into = like;
    struct weights_job job = {&a->w, NULL, flip ? back.pitch : padded(k * ci), flip, bf16, a->weight_version};
    size_t columns = larger(column_bytes(&t), flip ? column_bytes(&back) : 0);
    struct gradient_room room;
    bool dx_done = !tensor_present(&a->dx), dw_done = !tensor_present(&a->dw), suits = like_cudnn(&a->x, &a->w, a->stride, a->pad);
    struct cudnn_convolution data = for_cudnn(CUDNN_DATA_GRADIENT, &a->dx, &a->w, &a->dy, a->pad),
                             filter = for_cudnn(CUDNN_FILTER_GRADIENT, &a->x, &a->w, &a->dy, a->pad);
    into.w = &a->dw;
    int rc = suits && !dx_done ? through_cudnn(s, &data, &like, &dx_done, err) : 0;
    if (!rc && suits && !dw_done)
        rc = through_cudnn(s, &filter, &into, &dw_done, err);
    if (!rc && !(dx_done && dw_done))
        rc = gradient_room(s, cuda_weights_bytes(&job), (size_t)(co * t.pitch) * sizeof(float), columns, &room, err);
    if (!rc && !dx_done) {
        struct weights w;
        rc = cuda_weights(s, &job, room.packed, &w, err);
        if (!rc)
            rc = flip ? product_rows(s, &back, &a->dx, &w, room.columns, false, err) : pairs_product(s, &a->dy, &a->dx, &w, err);
    }
    if (!rc && !dw_done)
        rc = gradient_rows(s, &t, &a->dy, &a->dw, room.columns, room.sums, err);
    if (!rc && tensor_present(&a->dbias))
        rc = cuda_column_sums(s, &a->dy, (float *)a->dbias.data, err);
    return rc;
}

extern "C" int cuda_convt1d(struct stream *s, const struct convt1d_args *a, struct err *err) {
    struct weights_job job = {&a->w, &a->bias, padded(2 * a->w.dim[1]), false, a->x.dtype == DTYPE_BF16, a->weight_version};
    struct weights w;
    void *room = NULL;
    int rc = cuda_scratch(s, cuda_weights_bytes(&job), &room, err);
    if (!rc)
        rc = cuda_weights(s, &job, room, &w, err);
    return rc ? rc : pairs_product(s, &a->x, &a->y, &w, err);
}

extern "C" int cuda_convt1d_backward(struct stream *s, const struct convt1d_backward_args *a, struct err *err) {
    int64_t ci = a->w.dim[0];
    struct taps t = taps_of(&a->dy, a->x.dim[1], 2, 2, 0); /* the pairs of dy, side by side */
    struct weights_job job = {&a->w, NULL, t.pitch, false, a->x.dtype == DTYPE_BF16, a->weight_version};
    struct gradient_room room;
    struct weights w;
    int rc = gradient_room(s, cuda_weights_bytes(&job), (size_t)(ci * t.pitch) * sizeof(float), column_bytes(&t), &room, err);
    if (!rc && tensor_present(&a->dx) && !(rc = cuda_weights(s, &job, room.packed, &w, err)))
        rc = product_rows(s, &t, &a->dx, &w, room.columns, false, err);
    if (!rc && tensor_present(&a->dw))
        rc = gradient_rows(s, &t, &a->x, &a->dw, room.columns, room.sums, err);
    if (!rc && tensor_present(&a->dbias))
        rc = cuda_column_sums(s, &a->dy, (float *)a->dbias.data, err);
    return rc;
}

/* w (Co,Ci) in the activations' type: as it is, or narrowed. */
static int projection(struct stream *s, const struct weights_job *job, struct weights *ret, struct err *err) {
    void *room = NULL;
    size_t bytes = cuda_weights_bytes(job);
    int rc = bytes ? cuda_scratch(s, bytes, &room, err) : 0;
    return rc ? rc : cuda_weights(s, job, room, ret, err);
}

static int64_t projection_pitch(const struct tensor *w, bool bf16) { return bf16 ? padded(w->dim[1]) : w->dim[1]; }

extern "C" int cuda_linear(struct stream *s, const struct linear_args *a, struct err *err) {
    bool bf16 = a->x.dtype == DTYPE_BF16;
    struct weights_job job = {&a->w, &a->bias, projection_pitch(&a->w, bf16), false, bf16, a->weight_version};
    struct weights w;
    struct cuda_gemm g = {};
    int rc = projection(s, &job, &w, err);
    if (rc)
        return rc;
    g.bf16 = g.c_bf16 = bf16;
    g.trans_b = true;
    g.m = tensor_rows(&a->x);
    g.n = a->w.dim[0];
    g.k = a->w.dim[1];
    g.a = a->x.data;
    g.lda = a->x.ld;
    g.b = w.w.data;
    g.ldb = w.w.ld;
    g.c = a->y.data;
    g.ldc = a->y.ld;
    g.beta = a->accumulate ? 1.0f : 0.0f;
    g.bias = w.bias;
    return cuda_gemm(s, &g, err);
}

extern "C" int cuda_linear_backward(struct stream *s, const struct linear_backward_args *a, struct err *err) {
    bool bf16 = a->x.dtype == DTYPE_BF16;
    struct weights_job job = {&a->w, NULL, projection_pitch(&a->w, bf16), false, bf16, a->weight_version};
    struct weights w;
    int rc = projection(s, &job, &w, err);
    struct cuda_gemm g = {};
    g.bf16 = bf16;
    g.a = a->dy.data;
    g.lda = a->dy.ld;
    g.n = a->w.dim[1];
    if (!rc && tensor_present(&a->dx)) {
        g.c_bf16 = bf16;
        g.m = tensor_rows(&a->x);
        g.k = a->w.dim[0];
        g.b = w.w.data;
        g.ldb = w.w.ld;
        g.c = a->dx.data;
        g.ldc = a->dx.ld;
        g.beta = a->accumulate_dx ? 1.0f : 0.0f;
        rc = cuda_gemm(s, &g, err);
    }
    if (!rc && tensor_present(&a->dw)) {
        g.trans_a = true;
        g.c_bf16 = false;
        g.m = a->w.dim[0];
        g.k = tensor_rows(&a->x);
        g.b = a->x.data;
        g.ldb = a->x.ld;
        g.c = a->dw.data;
        g.ldc = a->w.dim[1];
        g.beta = 1.0f;
        rc = cuda_gemm(s, &g, err);
    }
    if (!rc && tensor_present(&a->dbias))
        rc = cuda_column_sums(s, &a->dy, (float *)a->dbias.data, err);
    return rc;
}
