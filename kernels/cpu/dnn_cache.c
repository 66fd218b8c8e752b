#include "kernels/cpu/dnn_cache.h"

#include <dnnl.h>
#include <omp.h>
#include <stdlib.h>

struct conv_key conv_key_of(int64_t t, int64_t ci, int64_t co, int64_t k, int64_t pad) {
    return (struct conv_key){.rows = 1, .t = t, .ci = ci, .co = co, .k = k, .pad = pad, .pad_right = pad};
}

bool conv_key_equal(const struct conv_key *a, const struct conv_key *b) {
    return a->backward_weights == b->backward_weights && a->relu == b->relu && a->bias == b->bias && a->bf16 == b->bf16 &&
           a->rows == b->rows && a->t == b->t && a->ci == b->ci && a->co == b->co && a->k == b->k && a->pad == b->pad &&
           a->pad_right == b->pad_right;
}

int64_t conv_key_outputs(const struct conv_key *key) { return key->t + key->pad + key->pad_right - key->k + 1; }

enum { CACHE_MAX = 512 };

enum { OPERANDS = 5, WEIGHTS = 1, PLAIN = OPERANDS, MEMORIES };

/* One oneDNN primitive with the memory objects it runs on; handles are set per call. */
struct conv_prim {
    struct conv_key key;
    dnnl_primitive_t prim;
    dnnl_memory_t (*lanes)[MEMORIES]; /* in the order of conv_prim_run, then PLAIN: weights in (O,I,K) order */
    dnnl_primitive_t reorder;         /* plain → packed (forward) or packed → plain (weights) */
    int n_lanes;
    dnnl_memory_desc_t packed; /* of its weights, or of their gradient */
    size_t packed_bytes, scratchpad_bytes;
    uint64_t last_use;
};

struct dnn_cache {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct conv_prim *prims[CACHE_MAX];
    struct packed packed[CACHE_MAX];
    int n_prims, n_packed, lanes;
    uint64_t clock;
};

int dnn_cache_lanes(const struct dnn_cache *c) { return c->lanes; }

size_t conv_prim_packed_bytes(const struct conv_prim *p) { return p->packed_bytes; }
size_t conv_prim_scratchpad_bytes(const struct conv_prim *p) { return p->scratchpad_bytes; }

static int fail(dnnl_status_t status, const char *what, struct err *err) {
    if (status == dnnl_success)
        return 0;
    return err_set(err, status == dnnl_out_of_memory ? ERR_EXHAUSTED : ERR_INTERNAL, "oneDNN: %s failed with status %d", what,
                   (int)status);
}

struct dnn_cache *dnn_cache_new(int threads) {
    struct dnn_cache *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->lanes = threads;
    if (dnnl_engine_create(&c->engine, dnnl_cpu, 0) == dnnl_success &&
        dnnl_stream_create(&c->stream, c->engine, dnnl_stream_in_order) == dnnl_success)
        return c;
    dnn_cache_free(c);
    return NULL;
}

static void prim_free(struct conv_prim *p) {
    if (!p)
        return;
    for (int i = 0; p->lanes && i < p->n_lanes * MEMORIES; i++)
        if (p->lanes[i / MEMORIES][i % MEMORIES])
            dnnl_memory_destroy(p->lanes[i / MEMORIES][i % MEMORIES]);
    free(p->lanes);
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
    dnnl_dims_t src = {k->rows, k->ci, k->t}, w = {k->co, k->ci, k->k}, b = {k->co}, dst = {k->rows, k->co, conv_key_outputs(k)};
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
    dnnl_dims_t strides = {1}, dilates = {0}, left = {k->pad}, right = {k->pad_right};
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
                                                        &d->forward_weights, bias, &d->dst, strides, dilates, left, right);
    if (st == dnnl_success && !k->backward_weights)
        st = dnnl_primitive_desc_create(ret, &fwd, attr, c->engine, NULL);
    if (st == dnnl_success && k->backward_weights) {
        st = dnnl_primitive_desc_create(&hint, &fwd, NULL, c->engine, NULL);
        if (st == dnnl_success)
            st = dnnl_dilated_convolution_backward_weights_desc_init(&wei, dnnl_convolution_direct, &d->src, &d->weights, bias,
                                                                     &d->dst, strides, dilates, left, right);
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

static dnnl_status_t make_memories(struct dnn_cache *c, struct conv_prim *p, const dnnl_memory_desc_t *const mds[MEMORIES]) {
    dnnl_status_t st = dnnl_success;
    p->n_lanes = c->lanes;
    p->lanes = calloc((size_t)p->n_lanes, sizeof *p->lanes);
    if (!p->lanes)
        return dnnl_out_of_memory;
    for (int i = 0; i < p->n_lanes * MEMORIES && st == dnnl_success; i++)
        if (mds[i % MEMORIES])
            st = make_memory(c, mds[i % MEMORIES], &p->lanes[i / MEMORIES][i % MEMORIES]);
    return st;
}

static dnnl_status_t build_on(struct dnn_cache *c, struct conv_prim *p, const struct conv_descs *d, dnnl_primitive_desc_t pd) {
    bool forward = !p->key.backward_weights;
    const dnnl_memory_desc_t *packed =
        dnnl_primitive_desc_query_md(pd, forward ? dnnl_query_weights_md : dnnl_query_diff_weights_md, 0);
    const dnnl_memory_desc_t *pad = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    const dnnl_memory_desc_t *mds[MEMORIES] = {&d->src, packed, &d->dst, pad, p->key.bias ? &d->bias : NULL, &d->plain};
    p->packed = *packed;
    p->packed_bytes = dnnl_memory_desc_get_size(packed);
    p->scratchpad_bytes = dnnl_memory_desc_get_size(pad);
    dnnl_status_t st = dnnl_primitive_create(&p->prim, pd);
    if (st == dnnl_success)
        st = make_memories(c, p, mds);
    if (st != dnnl_success)
        return st;
    return make_reorder(c, p, forward ? &d->plain : packed, forward ? packed : &d->plain);
}

/* oneDNN divides the work of a primitive between the threads there are when it is made, and sums are divided with it: one thread.
 */
static dnnl_status_t build(struct dnn_cache *c, struct conv_prim *p) {
    struct conv_descs d;
    dnnl_primitive_desc_t pd = NULL;
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    dnnl_status_t st = make_descs(&p->key, &d);
    if (st == dnnl_success)
        st = make_pd(c, &p->key, &d, &pd);
    if (st == dnnl_success)
        st = build_on(c, p, &d, pd);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    omp_set_num_threads(threads);
    return st;
}

bool conv_prim_same_packing(const struct conv_prim *a, const struct conv_prim *b) {
    return dnnl_memory_desc_equal(&a->packed, &b->packed);
}

int conv_prim_find(struct dnn_cache *c, const struct conv_key *key, struct conv_prim **ret, struct err *err) {
    int oldest = 0;
    c->clock++;
    for (int i = 0; i < c->n_prims; i++) {
        if (conv_key_equal(&c->prims[i]->key, key)) {
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

int conv_prim_reorder(struct dnn_cache *c, struct conv_prim *p, int lane, const void *from, void *to, struct err *err) {
    bool forward = !p->key.backward_weights;
    dnnl_memory_t plain = p->lanes[lane][PLAIN], packed = p->lanes[lane][WEIGHTS];
    dnnl_memory_t src = forward ? plain : packed, dst = forward ? packed : plain;
    dnnl_status_t st = dnnl_memory_set_data_handle(src, (void *)(uintptr_t)from);
    if (st == dnnl_success)
        st = dnnl_memory_set_data_handle(dst, to);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, src}, {DNNL_ARG_TO, dst}};
    if (st == dnnl_success)
        st = dnnl_primitive_execute(p->reorder, c->stream, 2, args);
    return fail(st, "packing weights", err);
}

int packed_find(struct dnn_cache *c, struct conv_prim *p, const struct packed *weights, struct packed **ret, bool *ret_fresh,
                struct err *err) {
    struct packed *slot = NULL, *oldest = &c->packed[0];
    for (int i = 0; i < c->n_packed && !slot; i++) {
        if (c->packed[i].source == weights->source && c->packed[i].prim == p)
            slot = &c->packed[i];
        else if (c->packed[i].last_use < oldest->last_use)
            oldest = &c->packed[i];
    }
    if (!slot)
        slot = c->n_packed < CACHE_MAX ? &c->packed[c->n_packed++] : oldest;
    slot->last_use = c->clock;
    *ret = slot;
    *ret_fresh = slot->source == weights->source && slot->prim == p && slot->lay == weights->lay && weights->version &&
                 slot->version == weights->version;
    if (*ret_fresh)
        return 0;
    if (slot->bytes < p->packed_bytes) {
        free(slot->data);
        slot->data = aligned_alloc(64, (p->packed_bytes + 63) / 64 * 64);
        slot->bytes = slot->data ? p->packed_bytes : 0;
        if (!slot->data) {
            *slot = (struct packed){0};
            return err_set(err, ERR_EXHAUSTED, "oneDNN: out of memory packing weights");
        }
    }
    *slot = (struct packed){weights->source, p, weights->lay, 0, c->clock, slot->data, slot->bytes};
    return 0;
}

int conv_prim_run(struct dnn_cache *c, struct conv_prim *p, int lane, const void *const operands[5], struct err *err) {
    bool forward = !p->key.backward_weights;
    int ids[OPERANDS] = {DNNL_ARG_SRC, forward ? DNNL_ARG_WEIGHTS : DNNL_ARG_DIFF_WEIGHTS,
                         forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, DNNL_ARG_SCRATCHPAD,
                         forward ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS};
    dnnl_exec_arg_t args[OPERANDS];
    dnnl_memory_t *memories = p->lanes[lane];
    dnnl_status_t st = dnnl_success;
    int n = p->key.bias ? OPERANDS : OPERANDS - 1;
    for (int i = 0; i < n && st == dnnl_success; i++) {
        st = dnnl_memory_set_data_handle(memories[i], (void *)(uintptr_t)operands[i]);
        args[i] = (dnnl_exec_arg_t){ids[i], memories[i]};
    }
    if (st == dnnl_success)
        st = dnnl_primitive_execute(p->prim, c->stream, n, args);
    if (st == dnnl_success)
        st = dnnl_stream_wait(c->stream);
    return fail(st, forward ? "a convolution" : "a weight gradient", err);
}
