/* The oneDNN side of convolutions: primitives and packed weights in bounded caches, and the walk over the batch. */
#include "kernels/cpu/dnn.h"

#include <dnnl.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/bf16.h"

enum { CACHE_MAX = 512 };

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
    void (*lay)(const struct dnn_forward *call, float *plain);
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
    dnnl_memory_desc_t forward_weights; /* of the forward pass that a weight gradient belongs to */
};

static dnnl_status_t make_descs(const struct conv_key *k, struct conv_descs *d) {
    dnnl_dims_t src = {1, k->ci, k->t}, w = {k->co, k->ci, k->k}, b = {k->co}, dst = {1, k->co, k->t + 2 * k->pad - k->k + 1};
    dnnl_data_type_t act = k->bf16 ? dnnl_bf16 : dnnl_f32, weights = k->backward_weights ? dnnl_f32 : act;
    dnnl_status_t st = dnnl_memory_desc_init_by_tag(&d->src, 3, src, act, dnnl_nwc);
    if (st == dnnl_success)
        st = dnnl_memory_desc_init_by_tag(&d->weights, 3, w, weights, dnnl_format_tag_any);
    if (st == dnnl_success)
        st = dnnl_memory_desc_init_by_tag(&d->forward_weights, 3, w, act, dnnl_format_tag_any);
    if (st == dnnl_success)
        st = dnnl_memory_desc_init_by_tag(&d->plain, 3, w, dnnl_f32, dnnl_oiw);
    if (st == dnnl_success)
        st = dnnl_memory_desc_init_by_tag(&d->bias, 1, b, dnnl_f32, dnnl_a);
    if (st == dnnl_success)
        st = dnnl_memory_desc_init_by_tag(&d->dst, 3, dst, act, dnnl_nwc);
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
        st = dnnl_dilated_convolution_forward_desc_init(&fwd, dnnl_forward_training, dnnl_convolution_direct, &d->src,
                                                        &d->forward_weights, bias, &d->dst, strides, dilates, pad, pad);
    if (st == dnnl_success && !k->backward_weights)
        st = dnnl_primitive_desc_create(ret, &fwd, attr, c->engine, NULL);
    if (st == dnnl_success && k->backward_weights) {
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
    bool forward = !p->key.backward_weights;
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

/* The primitive of a key, from the cache or made now. */
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
    bool forward = !p->key.backward_weights;
    dnnl_memory_t src = forward ? p->plain : p->weights, dst = forward ? p->weights : p->plain;
    dnnl_status_t st = dnnl_memory_set_data_handle(src, from);
    if (st == dnnl_success)
        st = dnnl_memory_set_data_handle(dst, to);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, src}, {DNNL_ARG_TO, dst}};
    if (st == dnnl_success)
        st = dnnl_primitive_execute(p->reorder, c->stream, 2, args);
    return fail(st, "packing weights", err);
}

/* The slot of packed weights for (source, primitive), with room for them; *ret_fresh when they are those of `version`. */
static int find_packed(struct dnn_cache *c, struct conv_prim *p, const struct dnn_forward *call, struct packed **ret,
                       bool *ret_fresh, struct err *err) {
    struct packed *slot = NULL, *oldest = &c->packed[0];
    for (int i = 0; i < c->n_packed && !slot; i++) {
        if (c->packed[i].source == call->source && c->packed[i].prim == p)
            slot = &c->packed[i];
        else if (c->packed[i].last_use < oldest->last_use)
            oldest = &c->packed[i];
    }
    if (!slot)
        slot = c->n_packed < CACHE_MAX ? &c->packed[c->n_packed++] : oldest;
    slot->last_use = c->clock;
    *ret = slot;
    *ret_fresh = slot->source == call->source && slot->prim == p && slot->lay == call->lay && call->version &&
                 slot->version == call->version;
    if (*ret_fresh)
        return 0;
    if (slot->bytes < p->packed_bytes) {
        free(slot->data);
        slot->data = aligned_alloc(64, (p->packed_bytes + 63) / 64 * 64);
        slot->bytes = slot->data ? p->packed_bytes : 0;
        if (!slot->data)
            return err_set(err, ERR_EXHAUSTED, "oneDNN: out of memory packing weights");
    }
    *slot = (struct packed){call->source, p, call->lay, call->version, c->clock, slot->data, slot->bytes};
    return 0;
}

static dnnl_status_t execute(struct dnn_cache *c, struct conv_prim *p, const void *const handles[5]) {
    bool forward = !p->key.backward_weights;
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

struct conv_key conv_key_of(int64_t t, int64_t ci, int64_t co, int64_t k, int64_t pad) {
    struct conv_key key;
    memset(&key, 0, sizeof key); /* compared as bytes */
    key.t = t;
    key.ci = ci;
    key.co = co;
    key.k = k;
    key.pad = pad;
    return key;
}

static size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* One batch row of activations in memory. */
struct span {
    int64_t rows, cols; /* memory rows and their channels */
    size_t each;        /* bytes of an element */
    bool dense;
};

static struct span span_of(const struct dnn_rows *r, int64_t t, int64_t channels, const struct conv_key *key) {
    struct span s = {t * r->split, channels / r->split, key->bf16 ? 2 : 4, false};
    s.dense = r->ld == s.cols;
    return s;
}

static size_t span_bytes(const struct span *s) { return s->dense ? 0 : round_up((size_t)(s->rows * s->cols) * s->each); }

static char *span_at(const struct dnn_rows *r, const struct span *s, int64_t row) {
    return (char *)(uintptr_t)r->data + (size_t)(row * s->rows * r->ld) * s->each;
}

/* Gaps between rows: out of the tensor into dense memory, and back. */
static void gather(const struct span *s, char *to, const char *from, int64_t ld) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < s->rows; r++)
        memcpy(to + (size_t)(r * s->cols) * s->each, from + (size_t)(r * ld) * s->each, (size_t)s->cols * s->each);
}

static void scatter(const struct span *s, char *to, const char *from, int64_t ld) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < s->rows; r++)
        memcpy(to + (size_t)(r * ld) * s->each, from + (size_t)(r * s->cols) * s->each, (size_t)s->cols * s->each);
}

CPU_CLONES static void add_row(uint16_t *to, const uint16_t *from, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = bf16_narrow(bf16_widen(to[i]) + bf16_widen(from[i]));
}

static void add_rows_bf16(const struct span *s, char *to, const char *from, int64_t ld) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < s->rows; r++)
        add_row((uint16_t *)(void *)to + r * ld, (const uint16_t *)(const void *)from + r * s->cols, s->cols);
}

/* Scratch of a call, cut in order. */
struct cuts {
    char *pad, *plain, *bias, *x, *y;
};

static int cut_scratch(struct stream *s, const size_t bytes[5], struct cuts *ret, struct err *err) {
    char *at = cpu_scratch(s, bytes[0] + bytes[1] + bytes[2] + bytes[3] + bytes[4] + 64, err),
         **cuts[] = {&ret->pad, &ret->plain, &ret->bias, &ret->x, &ret->y};
    for (int i = 0; at && i < 5; i++) {
        *cuts[i] = at;
        at += bytes[i];
    }
    return at ? 0 : ERR_EXHAUSTED;
}

int dnn_forward(struct stream *s, const struct dnn_forward *call, struct err *err) {
    struct dnn_cache *c = cpu_stream(s)->dnn;
    struct conv_key key = call->key;
    struct conv_prim *p = NULL;
    struct packed *packed = NULL;
    struct cuts cut;
    bool fresh = false;
    key.bias = call->bias != NULL;
    int rc = find_prim(c, &key, &p, err);
    if (!rc)
        rc = find_packed(c, p, call, &packed, &fresh, err);
    if (rc)
        return rc;
    struct span x = span_of(&call->x, key.t, key.ci, &key), y = span_of(&call->y, key.t + 2 * key.pad - key.k + 1, key.co, &key);
    bool copy_y = !y.dense || call->accumulate;
    int64_t repeat = call->bias_repeat > 1 ? call->bias_repeat : 1;
    y.dense = !copy_y;
    size_t bytes[5] = {round_up(p->scratchpad_bytes), call->lay && !fresh ? round_up((size_t)(key.co * key.ci * key.k) * 4) : 0,
                       call->bias && repeat > 1 ? round_up((size_t)key.co * 4) : 0, span_bytes(&x), span_bytes(&y)};
    if ((rc = cut_scratch(s, bytes, &cut, err)))
        return rc;
    if (call->lay && !fresh)
        call->lay(call, (float *)(void *)cut.plain);
    if (!fresh && (rc = run_reorder(c, p, call->lay ? cut.plain : (void *)(uintptr_t)call->source, packed->data, err)))
        return rc;
    for (int64_t i = 0; call->bias && repeat > 1 && i < repeat; i++)
        memcpy(cut.bias + (size_t)(i * key.co / repeat) * 4, call->bias, (size_t)(key.co / repeat) * 4);
    for (int64_t i = 0; i < call->batch; i++) {
        char *from = span_at(&call->x, &x, i), *to = span_at(&call->y, &y, i);
        if (!x.dense)
            gather(&x, cut.x, from, call->x.ld);
        const void *handles[5] = {x.dense ? from : cut.x, packed->data, copy_y ? cut.y : to, cut.pad,
                                  repeat > 1 ? (const void *)cut.bias : call->bias};
        if ((rc = fail(execute(c, p, handles), "a convolution", err)))
            return rc;
        if (call->accumulate)
            add_rows_bf16(&y, to, cut.y, call->y.ld);
        else if (copy_y)
            scatter(&y, to, cut.y, call->y.ld);
    }
    return 0;
}

int dnn_weight_gradient(struct stream *s, const struct dnn_gradient *call, struct err *err) {
    struct dnn_cache *c = cpu_stream(s)->dnn;
    struct conv_key key = call->key;
    struct conv_prim *p = NULL;
    struct cuts cut;
    key.backward_weights = true;
    int rc = find_prim(c, &key, &p, err);
    if (rc)
        return rc;
    int64_t n = key.co * key.ci * key.k;
    struct span x = span_of(&call->x, key.t, key.ci, &key), dy = span_of(&call->dy, key.t + 2 * key.pad - key.k + 1, key.co, &key);
    size_t bytes[5] = {round_up(p->scratchpad_bytes), round_up((size_t)n * 4), round_up(p->packed_bytes), span_bytes(&x),
                       span_bytes(&dy)};
    if ((rc = cut_scratch(s, bytes, &cut, err)))
        return rc;
    const float *plain = (const float *)(void *)cut.plain;
    for (int64_t i = 0; i < call->batch; i++) {
        char *from = span_at(&call->x, &x, i), *grad = span_at(&call->dy, &dy, i);
        if (!x.dense)
            gather(&x, cut.x, from, call->x.ld);
        if (!dy.dense)
            gather(&dy, cut.y, grad, call->dy.ld);
        const void *handles[5] = {x.dense ? from : cut.x, cut.bias, dy.dense ? grad : cut.y, cut.pad, NULL};
        if ((rc = fail(execute(c, p, handles), "a weight gradient", err)) || (rc = run_reorder(c, p, cut.bias, cut.plain, err)))
            return rc;
        float *out = call->dw;
        if (call->add) {
            call->add(call, plain);
            continue;
        }
#pragma omp parallel for simd schedule(static)
        for (int64_t j = 0; j < n; j++)
            out[j] += plain[j];
    }
    return 0;
}
