/* conv: dense convolutions and projections as matrix products, bias and ReLU in the product's epilogue. Each output
 * is one sum in F32 over a row of taps (taps.cuh). */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/cudnn.cuh"
#include "kernels/cuda/taps.cuh"

static void *row_at(const struct tensor *t, int64_t row) { return (char *)t->data + (size_t)(row * t->ld) * dtype_bytes(t->dtype); }

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
    if (!rc && filter)
        taps_unpack(s, (const float *)room, 1, weights->pitch, c->ci, weights->w);
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
        struct weights_job weights = {&a->w, NULL, c.k * c.ci, false, true, a->weight_version, 0};
        bool done = false;
        c.bias = (const float *)a->bias.data;
        c.relu = a->relu;
        rc = through_cudnn(s, &c, &weights, &done, err);
        if (rc || done)
            return rc;
    }
    struct taps t = taps_of(&a->x, a->y.dim[1], a->w.dim[2], a->stride, a->pad);
    struct weights_job job = {&a->w, &a->bias, t.pitch, false, bf16, a->weight_version, t.width};
    struct weights w;
    struct cuda_area area = {NULL, 0};
    size_t bytes = taps_product_bytes(&t, &a->y);
    cuda_take(&area, cuda_weights_bytes(&job));
    cuda_take(&area, bytes);
    if ((rc = cuda_scratch(s, area.used, (void **)&area.base, err)))
        return rc;
    area.used = 0;
    rc = cuda_weights(s, &job, cuda_take(&area, cuda_weights_bytes(&job)), &w, err);
    return rc ? rc : taps_product(s, &t, &a->y, &w, cuda_take(&area, bytes), a->relu, err);
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

/* Scratch of a gradient: packed weights, and room for the product of either gradient. */
struct gradient_room {
    void *packed, *products;
};

static int gradient_room(struct stream *s, size_t packed, size_t products, struct gradient_room *ret, struct err *err) {
    struct cuda_area area = {NULL, 0};
    for (int pass = 0; pass < 2; pass++) {
        area.used = 0;
        ret->packed = cuda_take(&area, packed);
        ret->products = cuda_take(&area, products);
        int rc = pass ? 0 : cuda_scratch(s, area.used, (void **)&area.base, err);
        if (rc)
            return rc;
    }
    return 0;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

extern "C" int cuda_conv1d_backward(struct stream *s, const struct conv1d_backward_args *a, struct err *err) {
    int64_t ci = a->w.dim[1], k = a->w.dim[2];
    bool bf16 = a->x.dtype == DTYPE_BF16, flip = a->stride == 1;
    struct taps t = taps_of(&a->x, a->dy.dim[1], k, a->stride, a->pad);
    struct taps back = taps_of(&a->dy, a->x.dim[1], k, 1, k - 1 - a->pad); /* stride 1 */
    struct weights_job like = {&a->w, NULL, k * ci, false, true, a->weight_version, 0}, into = like;
    struct weights_job job = {
        &a->w, NULL, flip ? back.pitch : taps_padded(k * ci), flip, bf16, a->weight_version, flip ? back.width : ci};
    struct gradient_room room;
    bool dx_done = !tensor_present(&a->dx), dw_done = !tensor_present(&a->dw), suits = like_cudnn(&a->x, &a->w, a->stride, a->pad);
    struct cudnn_convolution data = for_cudnn(CUDNN_DATA_GRADIENT, &a->dx, &a->w, &a->dy, a->pad),
                             filter = for_cudnn(CUDNN_FILTER_GRADIENT, &a->x, &a->w, &a->dy, a->pad);
    into.w = &a->dw;
    int rc = suits && !dx_done ? through_cudnn(s, &data, &like, &dx_done, err) : 0;
    if (!rc && suits && !dw_done)
        rc = through_cudnn(s, &filter, &into, &dw_done, err);
    if (!rc && !(dx_done && dw_done)) {
        size_t products =
            larger(dw_done ? 0 : taps_gradient_bytes(&t, &a->dy), dx_done || !flip ? 0 : taps_product_bytes(&back, &a->dx));
        rc = gradient_room(s, dx_done ? 0 : cuda_weights_bytes(&job), products, &room, err);
    }
    if (!rc && !dx_done) {
        struct weights w;
        rc = cuda_weights(s, &job, room.packed, &w, err);
        if (!rc)
            rc = flip ? taps_product(s, &back, &a->dx, &w, room.products, false, err) : pairs_product(s, &a->dy, &a->dx, &w, err);
    }
    if (!rc && !dw_done)
        rc = taps_gradient(s, &t, &a->dy, &a->dw, room.products, err);
    if (!rc && tensor_present(&a->dbias))
        rc = cuda_column_sums(s, &a->dy, (float *)a->dbias.data, err);
    return rc;
}

extern "C" int cuda_convt1d(struct stream *s, const struct convt1d_args *a, struct err *err) {
    struct weights_job job = {
        &a->w, &a->bias, taps_padded(2 * a->w.dim[1]), false, a->x.dtype == DTYPE_BF16, a->weight_version, a->w.dim[1]};
    struct weights w;
    void *room = NULL;
    int rc = cuda_scratch(s, cuda_weights_bytes(&job), &room, err);
    if (!rc)
        rc = cuda_weights(s, &job, room, &w, err);
    return rc ? rc : pairs_product(s, &a->x, &a->y, &w, err);
}

extern "C" int cuda_convt1d_backward(struct stream *s, const struct convt1d_backward_args *a, struct err *err) {
    struct taps t = taps_of(&a->dy, a->x.dim[1], 2, 2, 0); /* the pairs of dy, side by side */
    struct weights_job job = {&a->w, NULL, t.pitch, false, a->x.dtype == DTYPE_BF16, a->weight_version, t.width};
    struct gradient_room room;
    struct weights w;
    int rc = gradient_room(s, cuda_weights_bytes(&job), larger(taps_gradient_bytes(&t, &a->x), taps_product_bytes(&t, &a->dx)),
                           &room, err);
    if (!rc && tensor_present(&a->dx) && !(rc = cuda_weights(s, &job, room.packed, &w, err)))
        rc = taps_product(s, &t, &a->dx, &w, room.products, false, err);
    if (!rc && tensor_present(&a->dw))
        rc = taps_gradient(s, &t, &a->x, &a->dw, room.products, err);
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

static int64_t projection_pitch(const struct tensor *w, bool bf16) { return bf16 ? taps_padded(w->dim[1]) : w->dim[1]; }

extern "C" int cuda_linear(struct stream *s, const struct linear_args *a, struct err *err) {
    bool bf16 = a->x.dtype == DTYPE_BF16;
    struct weights_job job = {&a->w, &a->bias, projection_pitch(&a->w, bf16), false, bf16, a->weight_version, 0};
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
    struct weights_job job = {&a->w, NULL, projection_pitch(&a->w, bf16), false, bf16, a->weight_version, 0};
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
