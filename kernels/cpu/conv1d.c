/* Convolution on oneDNN, channel-last. Forward runs one batch row at a time, so that a row's result never depends on the others.
 * Backward-data is a forward convolution with the kernel flipped and its channels swapped, which oneDNN's channel-last code
 * runs several times faster than its own backward-data for wide layers. */
#include <dnnl.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

enum { CACHE_MAX = 512 };

enum conv_kind { CONV_FORWARD, CONV_WEIGHTS };

struct conv_key {
    enum conv_kind kind;
    int relu, bias;
    int64_t t, ci, co, k, pad;
};

/* One oneDNN primitive with the memory objects it runs on; handles are set per call. */
struct conv_prim {
    struct conv_key key;
    dnnl_primitive_t prim;
    dnnl_memory_t src, weights, bias, dst, scratchpad;
    dnnl_memory_t plain;      /* weights in (O,I,K) order */
    dnnl_primitive_t reorder; /* plain → packed (forward) or packed → plain (weights) */
    size_t packed_bytes, scratchpad_bytes;
    uint64_t last_use;
};

/* A packed copy of somebody's weights. */
struct packed {
    const void *source;
    const struct conv_prim *prim;
    uint64_t version, last_use;
    void *data;
    size_t bytes;
};

struct dnn_cache {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct conv_prim *prims[CACHE_MAX];
    struct packed packed[CACHE_MAX];
    int n_prims, n_packed;
    uint64_t clock;
};

static int fail(dnnl_status_t status, const char *what, struct err *err) {
    if (status == dnnl_success)
        return 0;
    return err_set(err, status == dnnl_out_of_memory ? ERR_EXHAUSTED : ERR_INTERNAL, "oneDNN: %s failed with status %d", what,
                   (int)status);
}

struct dnn_cache *dnn_cache_new(void) {
    struct dnn_cache *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    if (dnnl_engine_create(&c->engine, dnnl_cpu, 0) == dnnl_success &&
        dnnl_stream_create(&c->stream, c->engine, dnnl_stream_in_order) == dnnl_success)
        return c;
    dnn_cache_free(c);
    return NULL;
}

static void prim_free(struct conv_prim *p) {
    if (!p)
        return;
    dnnl_memory_t memories[] = {p->src, p->weights, p->bias, p->dst, p->scratchpad, p->plain};
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++)
        if (memories[i])
            dnnl_memory_destroy(memories[i]);
    if (p->prim)
        dnnl_primitive_destroy(p->prim);
    if (p->reorder)
        dnnl_primitive_destroy(p->reorder);
    free(p);
}

void dnn_cache_free(struct dnn_cache *c) {
    if (!c)
        return;
    for (int i = 0; i < c->n_prims; i++)
        prim_free(c->prims[i]);
    for (int i = 0; i < c->n_packed; i++)
        free(c->packed[i].data);
    if (c->stream)
        dnnl_stream_destroy(c->stream);
    if (c->engine)
        dnnl_engine_destroy(c->engine);
    free(c);
}

static dnnl_status_t make_memory(struct dnn_cache *c, const dnnl_memory_desc_t *md, dnnl_memory_t *ret) {
    return dnnl_memory_create(ret, md, c->engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t make_reorder(struct dnn_cache *c, struct conv_prim *p, const dnnl_memory_desc_t *from,
                                  const dnnl_memory_desc_t *to) {
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t st = dnnl_reorder_primitive_desc_create(&pd, from, c->engine, to, c->engine, NULL);
    if (st == dnnl_success)
        st = dnnl_primitive_create(&p->reorder, pd);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return st;
}

struct conv_descs {
    dnnl_memory_desc_t src, weights, bias, dst, plain;
};

static dnnl_status_t make_descs(const struct conv_key *k, struct conv_descs *d) {
    dnnl_dims_t src = {1, k->ci, k->t}, w = {k->co, k->ci, k->k}, b = {k->co}, dst = {1, k->co, k->t + 2 * k->pad - k->k + 1};
    dnnl_status_t st = dnnl_memory_desc_init_by_tag(&d->src, 3, src, dnnl_f32, dnnl_nwc);
    if (st == dnnl_success)
        st = dnnl_memory_desc_init_by_tag(&d->weights, 3, w, dnnl_f32, dnnl_format_tag_any);
    if (st == dnnl_success)
        st = dnnl_memory_desc_init_by_tag(&d->plain, 3, w, dnnl_f32, dnnl_oiw);
    if (st == dnnl_success)
        st = dnnl_memory_desc_init_by_tag(&d->bias, 1, b, dnnl_f32, dnnl_a);
    if (st == dnnl_success)
        st = dnnl_memory_desc_init_by_tag(&d->dst, 3, dst, dnnl_f32, dnnl_nwc);
    return st;
}

/* The primitive descriptor of a key; forward ones carry the fused ReLU. */
static dnnl_status_t make_pd(struct dnn_cache *c, const struct conv_key *k, const struct conv_descs *d,
                             dnnl_primitive_desc_t *ret) {
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_dims_t strides = {1}, dilates = {0}, pad = {k->pad};
    const dnnl_memory_desc_t *bias = k->bias ? &d->bias : NULL;
    dnnl_convolution_desc_t fwd, wei;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t st = dnnl_primitive_attr_create(&attr);
    if (st == dnnl_success)
        st = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (st == dnnl_success && k->relu) {
        st = dnnl_post_ops_create(&ops);
        if (st == dnnl_success)
            st = dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
        if (st == dnnl_success)
            st = dnnl_primitive_attr_set_post_ops(attr, ops);
    }
    if (st == dnnl_success)
        st = dnnl_dilated_convolution_forward_desc_init(&fwd, dnnl_forward_training, dnnl_convolution_direct, &d->src, &d->weights,
                                                        bias, &d->dst, strides, dilates, pad, pad);
    if (st == dnnl_success && k->kind == CONV_FORWARD)
        st = dnnl_primitive_desc_create(ret, &fwd, attr, c->engine, NULL);
    if (st == dnnl_success && k->kind == CONV_WEIGHTS) {
        st = dnnl_primitive_desc_create(&hint, &fwd, NULL, c->engine, NULL);
        if (st == dnnl_success)
            st = dnnl_dilated_convolution_backward_weights_desc_init(&wei, dnnl_convolution_direct, &d->src, &d->weights, bias,
                                                                     &d->dst, strides, dilates, pad, pad);
        if (st == dnnl_success)
            st = dnnl_primitive_desc_create(ret, &wei, attr, c->engine, hint);
    }
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    if (ops)
        dnnl_post_ops_destroy(ops);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return st;
}

static dnnl_status_t build(struct dnn_cache *c, struct conv_prim *p) {
    struct conv_descs d;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t st = make_descs(&p->key, &d);
    if (st == dnnl_success)
        st = make_pd(c, &p->key, &d, &pd);
    if (st != dnnl_success)
        return st;
    bool forward = p->key.kind == CONV_FORWARD;
    const dnnl_memory_desc_t *packed =
        dnnl_primitive_desc_query_md(pd, forward ? dnnl_query_weights_md : dnnl_query_diff_weights_md, 0);
    const dnnl_memory_desc_t *pad = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    p->packed_bytes = dnnl_memory_desc_get_size(packed);
    p->scratchpad_bytes = dnnl_memory_desc_get_size(pad);
    st = dnnl_primitive_create(&p->prim, pd);
    if (st == dnnl_success)
        st = make_memory(c, &d.src, &p->src);
    if (st == dnnl_success)
        st = make_memory(c, packed, &p->weights);
    if (st == dnnl_success)
        st = make_memory(c, &d.plain, &p->plain);
    if (st == dnnl_success)
        st = make_memory(c, &d.dst, &p->dst);
    if (st == dnnl_success && p->key.bias)
        st = make_memory(c, &d.bias, &p->bias);
    if (st == dnnl_success)
        st = make_memory(c, pad, &p->scratchpad);
    if (st == dnnl_success)
        st = forward ? make_reorder(c, p, &d.plain, packed) : make_reorder(c, p, packed, &d.plain);
    dnnl_primitive_desc_destroy(pd);
    return st;
}

static int find_prim(struct dnn_cache *c, const struct conv_key *key, struct conv_prim **ret, struct err *err) {
    int oldest = 0;
    c->clock++;
    for (int i = 0; i < c->n_prims; i++) {
        if (!memcmp(&c->prims[i]->key, key, sizeof *key)) { // NOLINT(bugprone-suspicious-memory-comparison): keys are zeroed first
            c->prims[i]->last_use = c->clock;
            *ret = c->prims[i];
            return 0;
        }
        if (c->prims[i]->last_use < c->prims[oldest]->last_use)
            oldest = i;
    }
    struct conv_prim *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(err, ERR_EXHAUSTED, "oneDNN: out of memory");
    p->key = *key;
    p->last_use = c->clock;
    int rc = fail(build(c, p), "making a convolution", err);
    if (rc) {
        prim_free(p);
        return rc;
    }
    if (c->n_prims == CACHE_MAX) {
        for (int i = 0; i < c->n_packed; i++)
            if (c->packed[i].prim == c->prims[oldest])
                c->packed[i].prim = NULL;
        prim_free(c->prims[oldest]);
        c->prims[oldest] = p;
    } else {
        c->prims[c->n_prims++] = p;
    }
    *ret = p;
    return 0;
}

static int run_reorder(struct dnn_cache *c, struct conv_prim *p, void *from, void *to, struct err *err) {
    bool forward = p->key.kind == CONV_FORWARD;
    dnnl_memory_t src = forward ? p->plain : p->weights, dst = forward ? p->weights : p->plain;
    dnnl_status_t st = dnnl_memory_set_data_handle(src, from);
    if (st == dnnl_success)
        st = dnnl_memory_set_data_handle(dst, to);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, src}, {DNNL_ARG_TO, dst}};
    if (st == dnnl_success)
        st = dnnl_primitive_execute(p->reorder, c->stream, 2, args);
    return fail(st, "packing weights", err);
}

/* Packed weights for this primitive: from the cache when (source, version) match, else packed now. */
static int packed_weights(struct dnn_cache *c, struct conv_prim *p, const float *w, uint64_t version, void **ret, struct err *err) {
    struct packed *slot = NULL, *oldest = &c->packed[0];
    for (int i = 0; i < c->n_packed && !slot; i++) {
        if (c->packed[i].source == w && c->packed[i].prim == p)
            slot = &c->packed[i];
        else if (c->packed[i].last_use < oldest->last_use)
            oldest = &c->packed[i];
    }
    if (!slot)
        slot = c->n_packed < CACHE_MAX ? &c->packed[c->n_packed++] : oldest;
    slot->last_use = c->clock;
    if (slot->source == w && slot->prim == p && version && slot->version == version) {
        *ret = slot->data;
        return 0;
    }
    if (slot->bytes < p->packed_bytes) {
        free(slot->data);
        slot->data = aligned_alloc(64, (p->packed_bytes + 63) / 64 * 64);
        slot->bytes = slot->data ? p->packed_bytes : 0;
        if (!slot->data)
            return err_set(err, ERR_EXHAUSTED, "oneDNN: out of memory packing weights");
    }
    *slot = (struct packed){w, p, version, c->clock, slot->data, slot->bytes};
    *ret = slot->data;
    return run_reorder(c, p, (void *)(uintptr_t)w, slot->data, err);
}

static dnnl_status_t execute(struct dnn_cache *c, struct conv_prim *p, const void *const handles[5]) {
    bool forward = p->key.kind == CONV_FORWARD;
    dnnl_memory_t memories[5] = {p->src, p->weights, p->dst, p->scratchpad, p->bias};
    int ids[5] = {DNNL_ARG_SRC, forward ? DNNL_ARG_WEIGHTS : DNNL_ARG_DIFF_WEIGHTS, forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST,
                  DNNL_ARG_SCRATCHPAD, forward ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS};
    dnnl_exec_arg_t args[5];
    int n = p->bias ? 5 : 4;
    for (int i = 0; i < n; i++) {
        dnnl_status_t st = dnnl_memory_set_data_handle(memories[i], (void *)(uintptr_t)handles[i]);
        if (st != dnnl_success)
            return st;
        args[i] = (dnnl_exec_arg_t){ids[i], memories[i]};
    }
    dnnl_status_t st = dnnl_primitive_execute(p->prim, c->stream, n, args);
    return st == dnnl_success ? dnnl_stream_wait(c->stream) : st;
}

static void copy_rows(float *dst, int64_t ld_dst, const float *src, int64_t ld_src, int64_t rows, int64_t cols) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        memcpy(dst + r * ld_dst, src + r * ld_src, (size_t)cols * sizeof *dst);
}

static size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Stride 1: y row by row; slices go through scratch. */
static int conv_forward(struct stream *s, const struct conv1d_args *a, const struct conv_key *key, void *scratch_tail,
                        struct err *err) {
    struct dnn_cache *c = cpu_stream(s)->dnn;
    struct conv_prim *p = NULL;
    void *packed = NULL;
    int rc = find_prim(c, key, &p, err);
    if (!rc)
        rc = packed_weights(c, p, cf(&a->w), a->weight_version, &packed, err);
    if (rc)
        return rc;
    int64_t b = a->x.dim[0], t = a->x.dim[1], to = a->y.dim[1];
    bool copy_x = a->x.ld != key->ci, copy_y = a->y.ld != key->co;
    size_t x_bytes = copy_x ? round_up((size_t)(t * key->ci) * 4) : 0, y_bytes = copy_y ? round_up((size_t)(to * key->co) * 4) : 0;
    char *scratch = scratch_tail;
    if (!scratch && !(scratch = cpu_scratch(s, round_up(p->scratchpad_bytes) + x_bytes + y_bytes + 64, err)))
        return ERR_EXHAUSTED;
    float *xs = (float *)(void *)(scratch + round_up(p->scratchpad_bytes)), *ys = (float *)(void *)((char *)xs + x_bytes);
    for (int64_t i = 0; i < b; i++) {
        const float *x = cf(&a->x) + i * t * a->x.ld;
        float *y = mf(&a->y) + i * to * a->y.ld;
        if (copy_x)
            copy_rows(xs, key->ci, x, a->x.ld, t, key->ci);
        const void *handles[5] = {copy_x ? xs : x, packed, copy_y ? ys : y, scratch, cf(&a->bias)};
        if ((rc = fail(execute(c, p, handles), "a convolution", err)))
            return rc;
        if (copy_y)
            copy_rows(y, a->y.ld, ys, key->co, to, key->co);
    }
    return 0;
}

/* Stride 2, K = 2: rows of 2·Ci inputs times (Co, 2·Ci) weights. pack: w (Co,Ci,2) → wp (Co, 2, Ci). */
static void pack_stride2(const float *w, float *wp, int64_t co, int64_t ci) {
    for (int64_t o = 0; o < co; o++)
        for (int64_t k = 0; k < 2; k++)
            for (int64_t i = 0; i < ci; i++)
                wp[(o * 2 + k) * ci + i] = w[(o * ci + i) * 2 + k];
}

static void add_bias_rows(float *y, int64_t ld, const float *bias, int64_t rows, int64_t cols) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        memcpy(y + r * ld, bias, (size_t)cols * sizeof *y);
}

static int conv_stride2(struct stream *s, const struct conv1d_args *a, struct err *err) {
    int64_t b = a->x.dim[0], to = a->y.dim[1], ci = a->x.dim[2], co = a->y.dim[2];
    if (a->x.ld != ci || a->relu)
        return err_set(err, ERR_UNSUPPORTED, "op conv1d: stride 2 with a strided x or a fused ReLU is unsupported");
    float *wp = cpu_scratch(s, (size_t)(co * 2 * ci) * sizeof *wp, err);
    if (!wp)
        return ERR_EXHAUSTED;
    pack_stride2(cf(&a->w), wp, co, ci);
    bool bias = tensor_present(&a->bias);
    if (bias)
        add_bias_rows(mf(&a->y), a->y.ld, cf(&a->bias), b * to, co);
    for (int64_t i = 0; i < b; i++) {
        struct gemm g = {.trans_b = true,
                         .m = to,
                         .n = co,
                         .k = 2 * ci,
                         .a = cf(&a->x) + i * 2 * to * ci,
                         .lda = 2 * ci,
                         .b = wp,
                         .ldb = 2 * ci,
                         .c = mf(&a->y) + i * to * a->y.ld,
                         .ldc = a->y.ld,
                         .beta = bias ? 1.0f : 0.0f};
        int rc = cpu_gemm(&g, err);
        if (rc)
            return rc;
    }
    return 0;
}

int cpu_conv1d(struct stream *s, const struct conv1d_args *a, struct err *err) {
    if (a->stride == 2)
        return conv_stride2(s, a, err);
    struct conv_key key;
    memset(&key, 0, sizeof key); /* compared as bytes */
    key.kind = CONV_FORWARD;
    key.relu = a->relu;
    key.bias = tensor_present(&a->bias);
    key.t = a->x.dim[1];
    key.ci = a->x.dim[2];
    key.co = a->w.dim[0];
    key.k = a->w.dim[2];
    key.pad = a->pad;
    return conv_forward(s, a, &key, NULL, err);
}

/* dbias[c] += Σ rows dy[r][c], in fixed order: blocks of rows, then blocks in order. */
CPU_CLONES static void sum_rows(const float *dy, int64_t ld, int64_t rows, int64_t cols, float *out) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            out[c] += dy[r * ld + c];
}

static int bias_gradient(struct stream *s, const struct tensor *dy, float *dbias, struct err *err) {
    enum { BLOCK = 1024 };
    int64_t rows = tensor_rows(dy), cols = dy->dim[dy->rank - 1], blocks = (rows + BLOCK - 1) / BLOCK;
    float *partial = cpu_scratch(s, (size_t)(blocks * cols) * sizeof *partial, err);
    if (!partial)
        return ERR_EXHAUSTED;
    memset(partial, 0, (size_t)(blocks * cols) * sizeof *partial);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < blocks; i++) {
        int64_t n = i + 1 < blocks ? BLOCK : rows - i * BLOCK;
        sum_rows(cf(dy) + i * BLOCK * dy->ld, dy->ld, n, cols, partial + i * cols);
    }
    for (int64_t i = 0; i < blocks; i++)
        for (int64_t c = 0; c < cols; c++)
            dbias[c] += partial[i * cols + c];
    return 0;
}

static int backward_stride2(struct stream *s, const struct conv1d_backward_args *a, struct err *err) {
    int64_t b = a->x.dim[0], to = a->dy.dim[1], ci = a->x.dim[2], co = a->w.dim[0];
    int64_t n = co * 2 * ci;
    if (a->x.ld != ci || (tensor_present(&a->dx) && a->dx.ld != ci))
        return err_set(err, ERR_UNSUPPORTED, "op conv1d_backward: stride 2 with a strided x is unsupported");
    float *wp = cpu_scratch(s, (size_t)(2 * n) * sizeof *wp, err);
    if (!wp)
        return ERR_EXHAUSTED;
    float *dwp = wp + n;
    pack_stride2(cf(&a->w), wp, co, ci);
    int rc = 0;
    if (tensor_present(&a->dx)) {
        struct gemm g = {.m = b * to,
                         .n = 2 * ci,
                         .k = co,
                         .a = cf(&a->dy),
                         .lda = a->dy.ld,
                         .b = wp,
                         .ldb = 2 * ci,
                         .c = mf(&a->dx),
                         .ldc = 2 * ci};
        rc = cpu_gemm(&g, err);
    }
    if (!rc && tensor_present(&a->dw)) {
        struct gemm g = {.trans_a = true,
                         .m = co,
                         .n = 2 * ci,
                         .k = b * to,
                         .a = cf(&a->dy),
                         .lda = a->dy.ld,
                         .b = cf(&a->x),
                         .ldb = 2 * ci,
                         .c = dwp,
                         .ldc = 2 * ci};
        rc = cpu_gemm(&g, err);
        for (int64_t o = 0; !rc && o < co; o++)
            for (int64_t i = 0; i < ci; i++)
                for (int64_t k = 0; k < 2; k++)
                    mf(&a->dw)[(o * ci + i) * 2 + k] += dwp[(o * 2 + k) * ci + i];
    }
    return rc;
}

/* w (Co,Ci,K) → (Ci,Co,K) with the taps reversed. */
static void flip_weights(const float *w, float *out, int64_t co, int64_t ci, int64_t k) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ci; i++)
        for (int64_t o = 0; o < co; o++)
            for (int64_t j = 0; j < k; j++)
                out[(i * co + o) * k + j] = w[(o * ci + i) * k + (k - 1 - j)];
}

static int backward_data(struct stream *s, const struct conv1d_backward_args *a, struct err *err) {
    int64_t co = a->w.dim[0], ci = a->w.dim[1], k = a->w.dim[2], t = a->dy.dim[1];
    struct conv_key key;
    memset(&key, 0, sizeof key);
    key.kind = CONV_FORWARD;
    key.t = t;
    key.ci = co;
    key.co = ci;
    key.k = k;
    key.pad = k - 1 - a->pad;
    struct conv_prim *p = NULL;
    int rc = find_prim(cpu_stream(s)->dnn, &key, &p, err);
    if (rc)
        return rc;
    size_t w_bytes = round_up((size_t)(co * ci * k) * 4), row = (size_t)t * 4;
    size_t rest = round_up(p->scratchpad_bytes) + round_up(row * (size_t)co) + round_up(row * (size_t)ci) + 64;
    char *scratch = cpu_scratch(s, w_bytes + rest, err);
    if (!scratch)
        return ERR_EXHAUSTED;
    flip_weights(cf(&a->w), (float *)(void *)scratch, co, ci, k);
    struct conv1d_args f = {.x = a->dy,
                            .w = {.data = scratch, .dtype = DTYPE_F32, .rank = 3, .dim = {ci, co, k}, .ld = k},
                            .y = a->dx,
                            .stride = 1,
                            .pad = (int)key.pad};
    return conv_forward(s, &f, &key, scratch + w_bytes, err);
}

static int backward_weights(struct stream *s, const struct conv1d_backward_args *a, struct err *err) {
    struct dnn_cache *c = cpu_stream(s)->dnn;
    struct conv_key key;
    memset(&key, 0, sizeof key);
    key.kind = CONV_WEIGHTS;
    key.t = a->x.dim[1];
    key.ci = a->x.dim[2];
    key.co = a->w.dim[0];
    key.k = a->w.dim[2];
    key.pad = a->pad;
    struct conv_prim *p = NULL;
    int rc = find_prim(c, &key, &p, err);
    if (rc)
        return rc;
    int64_t b = a->x.dim[0], t = key.t, n = key.co * key.ci * key.k;
    bool copy_x = a->x.ld != key.ci, copy_dy = a->dy.ld != key.co;
    size_t pad = round_up(p->scratchpad_bytes), packed = round_up(p->packed_bytes), plain = round_up((size_t)n * 4);
    size_t xs_bytes = round_up((size_t)(t * key.ci) * 4), ys_bytes = round_up((size_t)(t * key.co) * 4);
    char *scratch = cpu_scratch(s, pad + packed + plain + xs_bytes + ys_bytes, err);
    if (!scratch)
        return ERR_EXHAUSTED;
    float *dw = (float *)(void *)(scratch + pad + packed);
    float *xs = (float *)(void *)(scratch + pad + packed + plain),
          *ys = (float *)(void *)(scratch + pad + packed + plain + xs_bytes);
    for (int64_t i = 0; i < b; i++) {
        const float *x = cf(&a->x) + i * t * a->x.ld, *dy = cf(&a->dy) + i * t * a->dy.ld;
        if (copy_x)
            copy_rows(xs, key.ci, x, a->x.ld, t, key.ci);
        if (copy_dy)
            copy_rows(ys, key.co, dy, a->dy.ld, t, key.co);
        const void *handles[5] = {copy_x ? xs : x, scratch + pad, copy_dy ? ys : dy, scratch, NULL};
        if ((rc = fail(execute(c, p, handles), "a weight gradient", err)) || (rc = run_reorder(c, p, scratch + pad, dw, err)))
            return rc;
        float *out = mf(&a->dw);
#pragma omp parallel for simd schedule(static)
        for (int64_t j = 0; j < n; j++)
            out[j] += dw[j];
    }
    return 0;
}

int cpu_conv1d_backward(struct stream *s, const struct conv1d_backward_args *a, struct err *err) {
    int rc = 0;
    if (a->stride == 2) {
        rc = backward_stride2(s, a, err);
    } else {
        if (tensor_present(&a->dx))
            rc = backward_data(s, a, err);
        if (!rc && tensor_present(&a->dw))
            rc = backward_weights(s, a, err);
    }
    if (!rc && tensor_present(&a->dbias))
        rc = bias_gradient(s, &a->dy, mf(&a->dbias), err);
    return rc;
}
