/* The walk of convolutions over batch rows, and over the pieces of a row. */
#include "kernels/cpu/dnn.h"

#include <string.h>

#include "kernels/cpu/bf16.h"

static size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Tokens of one batch row in memory. */
struct span {
    int64_t rows, cols; /* memory rows and their channels */
    size_t each;        /* bytes of an element */
    bool dense;
};

static struct span span_of(const struct dnn_rows *r, int64_t n, int64_t channels, const struct conv_key *key) {
    struct span s = {n * r->split, channels / r->split, key->bf16 ? 2 : 4, false};
    s.dense = r->ld == s.cols;
    return s;
}

static size_t span_bytes(const struct span *s) { return s->dense ? 0 : round_up((size_t)(s->rows * s->cols) * s->each); }

static char *span_at(const struct dnn_rows *r, const struct span *s, int64_t token) {
    return (char *)(uintptr_t)r->data + (size_t)(token * r->split * r->ld) * s->each;
}

/* Gaps between rows: out of the tensor into dense memory, and back. */
static void gather(const struct span *s, char *to, const char *from, int64_t ld) {
    for (int64_t r = 0; r < s->rows; r++)
        memcpy(to + (size_t)(r * s->cols) * s->each, from + (size_t)(r * ld) * s->each, (size_t)s->cols * s->each);
}

static void scatter(const struct span *s, char *to, const char *from, int64_t ld) {
    for (int64_t r = 0; r < s->rows; r++)
        memcpy(to + (size_t)(r * ld) * s->each, from + (size_t)(r * s->cols) * s->each, (size_t)s->cols * s->each);
}

CPU_CLONES static void add_row(uint16_t *to, const uint16_t *from, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = bf16_narrow(bf16_widen(to[i]) + bf16_widen(from[i]));
}

static void add_rows_bf16(const struct span *s, char *to, const char *from, int64_t ld) {
    for (int64_t r = 0; r < s->rows; r++)
        add_row((uint16_t *)(void *)to + r * ld, (const uint16_t *)(const void *)from + r * s->cols, s->cols);
}

/* ---- pieces and lanes ---- */

/* Rows are cut by their shape alone, whatever the batch and the number of threads, and a piece is computed by one thread: the same
 * bits. Pieces of wide layers are shorter, so that a few rows keep several threads busy. */
enum { MAX_KINDS = 4, PIECE_WORK = 1 << 25 }; /* PIECE_WORK: multiplications aimed at */

/* Outputs [first, first + n) of a row, made of the inputs from `input` on by the convolution of `key`. */
struct piece {
    int64_t first, n, input;
    struct conv_key key;
};

/* The pieces of a row are of a few kinds (at the ends of a row and between them; two lengths), a primitive each. */
struct cut {
    struct conv_key whole, keys[MAX_KINDS];
    struct conv_prim *prims[MAX_KINDS];
    int64_t pieces;
    int n_kinds;
};

static struct piece piece_of(const struct cut *c, int64_t i) {
    int64_t outs = conv_key_outputs(&c->whole), each = outs / c->pieces, longer = outs % c->pieces;
    struct piece p = {.first = i * each + (i < longer ? i : longer), .n = each + (i < longer), .key = c->whole};
    int64_t from = p.first - c->whole.pad, end = from + p.n + c->whole.k - 1;
    p.input = from < 0 ? 0 : from;
    p.key.pad = p.input - from;
    p.key.pad_right = end > c->whole.t ? end - c->whole.t : 0;
    p.key.t = p.n + c->whole.k - 1 - p.key.pad - p.key.pad_right;
    return p;
}

static int kind_of(const struct cut *c, const struct conv_key *key) {
    int k = 0;
    while (k < c->n_kinds && !conv_key_equal(&c->keys[k], key))
        k++;
    return k;
}

/* Outputs of a long piece: `most` of narrow layers, `least` of wide ones. */
struct piece_limits {
    int64_t least, most;
};
static const struct piece_limits forward_limits = {240, 480}, gradient_limits = {480, 3840};

static int cut_rows(struct cut *c, struct dnn_cache *cache, struct piece_limits limits, struct err *err) {
    int64_t outs = conv_key_outputs(&c->whole), longest = PIECE_WORK / (c->whole.ci * c->whole.co * c->whole.k);
    longest = longest > limits.most ? limits.most : longest < limits.least ? limits.least : longest;
    c->pieces = (outs + longest - 1) / longest;
    for (int64_t i = 0; i < c->pieces; i++) {
        struct piece p = piece_of(c, i);
        if (kind_of(c, &p.key) < c->n_kinds)
            continue;
        int rc = conv_prim_find(cache, &p.key, &c->prims[c->n_kinds], err);
        if (rc)
            return rc;
        c->keys[c->n_kinds++] = p.key;
    }
    return 0;
}

static int lanes_of(const struct dnn_cache *cache, int64_t units) {
    int threads = dnn_cache_lanes(cache);
    return units < threads ? (int)units : threads;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Batch rows of a call of oneDNN where a row is one piece; the bits are those of a call for each row. */
static const int64_t together[] = {16, 4};

/* One forward call. */
struct walk {
    const struct dnn_forward *call;
    struct dnn_cache *cache;
    struct cut cut;
    struct {
        struct packed *packed;
        bool fresh;
    } kinds[MAX_KINDS];
    int lanes;
    int64_t units, calls[MAX_KINDS]; /* the first units are calls of several batch rows: calls[k] of kind k, from 1 on */
    const void *bias;
    bool copy_y;
    /* scratch of a lane: scratchpad, x and y without gaps */
    size_t pad_bytes, x_bytes, y_bytes;
    char *scratch;
    float *plain; /* the weights that `lay` of the call writes */
};

static size_t lane_bytes(const struct walk *w) { return w->pad_bytes + w->x_bytes + w->y_bytes; }

static struct span x_span(const struct walk *w, int64_t tokens) {
    return span_of(&w->call->x, tokens, w->cut.whole.ci, &w->cut.whole);
}

static struct span y_span(const struct walk *w, int64_t tokens) {
    struct span s = span_of(&w->call->y, tokens, w->cut.whole.co, &w->cut.whole);
    s.dense = !w->copy_y;
    return s;
}

/* The packed weights of a kind: those of an earlier kind where the primitives agree on their order. */
static int find_packed(struct walk *w, int k, struct err *err) {
    const struct packed weights = {.source = w->call->source, .lay = w->call->lay, .version = w->call->version};
    for (int i = 0; i < k; i++)
        if (conv_prim_same_packing(w->cut.prims[i], w->cut.prims[k])) {
            w->kinds[k].packed = w->kinds[i].packed;
            w->kinds[k].fresh = true;
            return 0;
        }
    return packed_find(w->cache, w->cut.prims[k], &weights, &w->kinds[k].packed, &w->kinds[k].fresh, err);
}

/* As many large calls as keep all lanes busy; the remaining rows are calls of one. */
static int group_rows(struct walk *w, struct err *err) {
    struct cut *c = &w->cut;
    int64_t rest = w->call->batch;
    int rc = 0;
    w->units = rest * c->pieces;
    if (c->pieces > 1 || c->whole.bf16 || !x_span(w, 1).dense || !y_span(w, 1).dense)
        return 0;
    for (size_t i = 0; i < sizeof together / sizeof *together && !rc; i++) {
        const int64_t calls = rest / together[i];
        if (calls < dnn_cache_lanes(w->cache))
            continue;
        c->keys[c->n_kinds] = c->whole;
        c->keys[c->n_kinds].rows = together[i];
        rc = conv_prim_find(w->cache, &c->keys[c->n_kinds], &c->prims[c->n_kinds], err);
        w->calls[c->n_kinds++] = calls;
        rest -= calls * together[i];
        w->units -= calls * (together[i] - 1);
    }
    return rc;
}

static int plan(struct walk *w, struct err *err) {
    int rc = cut_rows(&w->cut, w->cache, forward_limits, err);
    rc = rc ? rc : group_rows(w, err);
    for (int k = 0; k < w->cut.n_kinds && !rc; k++) {
        struct span x = x_span(w, w->cut.keys[k].t), y = y_span(w, conv_key_outputs(&w->cut.keys[k]));
        w->pad_bytes = larger(w->pad_bytes, round_up(conv_prim_scratchpad_bytes(w->cut.prims[k])));
        w->x_bytes = larger(w->x_bytes, span_bytes(&x));
        w->y_bytes = larger(w->y_bytes, span_bytes(&y));
        rc = find_packed(w, k, err);
    }
    w->lanes = lanes_of(w->cache, w->units);
    return rc;
}

static void lay_output(const void *ctx, int64_t o, int lane) {
    const struct walk *w = ctx;
    (void)lane;
    w->call->lay(w->call, o, w->plain);
}

static int pack_kind(const void *ctx, int64_t k, int lane, struct err *err) {
    const struct walk *w = ctx;
    const void *from = w->call->lay ? w->plain : w->call->source;
    return w->kinds[k].fresh ? 0 : conv_prim_reorder(w->cache, w->cut.prims[k], lane, from, w->kinds[k].packed->data, err);
}

/* Packs the weights that have changed since they were packed last. */
static int pack(const struct walk *w, struct err *err) {
    const int threads = dnn_cache_lanes(w->cache);
    int stale = 0;
    for (int k = 0; k < w->cut.n_kinds; k++)
        stale += !w->kinds[k].fresh;
    if (stale && w->call->lay)
        lanes_for(threads, w->call->key.co, lay_output, w);
    const struct lanes_work work = {pack_kind, w, 0, w->cut.n_kinds, stale > 1 ? threads : 1};
    const int rc = stale ? lanes_run(&work, err) : 0;
    for (int k = 0; !rc && k < w->cut.n_kinds; k++)
        if (!w->kinds[k].fresh)
            w->kinds[k].packed->version = w->call->version;
    return rc;
}

static int run_piece(const void *ctx, int64_t unit, int lane, struct err *err) {
    const struct walk *w = ctx;
    const struct dnn_forward *call = w->call;
    const struct conv_key *whole = &w->cut.whole;
    int64_t row = 0;
    int k = 1;
    for (; k < w->cut.n_kinds && unit >= w->calls[k]; k++) {
        row += w->calls[k] * w->cut.keys[k].rows;
        unit -= w->calls[k];
    }
    const bool several = k < w->cut.n_kinds && w->calls[k];
    row += several ? unit * w->cut.keys[k].rows : unit / w->cut.pieces;
    struct piece p = piece_of(&w->cut, unit % w->cut.pieces);
    struct span x = x_span(w, p.key.t), y = y_span(w, p.n);
    k = several ? k : kind_of(&w->cut, &p.key);
    char *from = span_at(&call->x, &x, row * whole->t + p.input);
    char *to = span_at(&call->y, &y, row * conv_key_outputs(whole) + p.first);
    char *pad = w->scratch + (size_t)lane * lane_bytes(w), *dense_x = pad + w->pad_bytes, *dense_y = dense_x + w->x_bytes;
    if (!x.dense)
        gather(&x, dense_x, from, call->x.ld);
    const void *operands[5] = {x.dense ? from : dense_x, w->kinds[k].packed->data, y.dense ? to : dense_y, pad, w->bias};
    int rc = conv_prim_run(w->cache, w->cut.prims[k], lane, operands, err);
    if (!rc && call->accumulate)
        add_rows_bf16(&y, to, dense_y, call->y.ld);
    else if (!rc && !y.dense)
        scatter(&y, to, dense_y, call->y.ld);
    return rc;
}

int dnn_forward(struct stream *s, const struct dnn_forward *call, struct err *err) {
    int64_t repeat = call->bias_repeat > 1 ? call->bias_repeat : 1, co = call->key.co;
    struct walk w = {.call = call, .cache = cpu_stream(s)->dnn, .cut.whole = call->key, .bias = call->bias};
    w.copy_y = call->accumulate || call->y.ld != co / call->y.split;
    w.cut.whole.bias = call->bias != NULL;
    int rc = plan(&w, err);
    if (rc)
        return rc;
    size_t plain = call->lay ? round_up((size_t)(co * call->key.ci * call->key.k) * 4) : 0;
    size_t biases = call->bias && repeat > 1 ? round_up((size_t)co * 4) : 0;
    char *scratch = cpu_scratch(s, plain + biases + (size_t)w.lanes * lane_bytes(&w) + 64, err);
    if (!scratch)
        return ERR_EXHAUSTED;
    for (int64_t i = 0; biases && i < repeat; i++)
        memcpy(scratch + plain + (size_t)(i * co / repeat) * 4, call->bias, (size_t)(co / repeat) * 4);
    w.bias = biases ? (const void *)(scratch + plain) : call->bias;
    w.scratch = scratch + plain + biases;
    const struct lanes_work units = {run_piece, &w, 0, w.units, w.lanes};
    w.plain = (float *)(void *)scratch;
    rc = pack(&w, err);
    return rc ? rc : lanes_run(&units, err);
}

/* ---- gradients of weights ---- */

/* The pieces of a batch, a gradient each, which are added up in their order. */
struct gradient_walk {
    const struct dnn_gradient *call;
    struct dnn_cache *cache;
    struct cut cut;
    int lanes, slots;                                               /* slots: pieces at a time */
    int64_t first, n;                                               /* pieces now */
    size_t plain_bytes, pad_bytes, packed_bytes, x_bytes, dy_bytes; /* scratch of a slot */
    char *scratch;
};

static size_t slot_bytes(const struct gradient_walk *w) {
    return w->plain_bytes + w->pad_bytes + w->packed_bytes + w->x_bytes + w->dy_bytes;
}

static char *slot_of(const struct gradient_walk *w, int64_t unit) { return w->scratch + (size_t)(unit % w->slots) * slot_bytes(w); }

static int run_gradient(const void *ctx, int64_t unit, int lane, struct err *err) {
    const struct gradient_walk *w = ctx;
    const struct dnn_gradient *call = w->call;
    const struct conv_key *whole = &w->cut.whole;
    int64_t row = unit / w->cut.pieces;
    struct piece p = piece_of(&w->cut, unit % w->cut.pieces);
    struct conv_prim *prim = w->cut.prims[kind_of(&w->cut, &p.key)];
    struct span x = span_of(&call->x, p.key.t, whole->ci, whole), dy = span_of(&call->dy, p.n, whole->co, whole);
    char *plain = slot_of(w, unit), *packed = plain + w->plain_bytes, *pad = packed + w->packed_bytes;
    char *dense_x = pad + w->pad_bytes, *dense_dy = dense_x + w->x_bytes;
    char *from = span_at(&call->x, &x, row * whole->t + p.input);
    char *grad = span_at(&call->dy, &dy, row * conv_key_outputs(whole) + p.first);
    if (!x.dense)
        gather(&x, dense_x, from, call->x.ld);
    if (!dy.dense)
        gather(&dy, dense_dy, grad, call->dy.ld);
    const void *operands[5] = {x.dense ? from : dense_x, packed, dy.dense ? grad : dense_dy, pad, NULL};
    int rc = conv_prim_run(w->cache, prim, lane, operands, err);
    return rc ? rc : conv_prim_reorder(w->cache, prim, lane, packed, plain, err);
}

static const float *plain_of(const struct gradient_walk *w, int64_t unit) { return (const float *)(const void *)slot_of(w, unit); }

enum { ADD_BLOCK = 4096 };

static int64_t weights_of(const struct gradient_walk *w) { return w->call->key.co * w->call->key.ci * w->call->key.k; }

static void add_block(const void *ctx, int64_t block, int lane) {
    const struct gradient_walk *w = ctx;
    int64_t at = block * ADD_BLOCK, left = weights_of(w) - at, end = at + (left < ADD_BLOCK ? left : ADD_BLOCK);
    float *dw = w->call->dw;
    (void)lane;
    for (int64_t unit = w->first; unit < w->first + w->n; unit++) {
        const float *plain = plain_of(w, unit);
#pragma omp simd
        for (int64_t j = at; j < end; j++)
            dw[j] += plain[j];
    }
}

/* dw += the gradients of the pieces. */
static void add_gradients(const struct gradient_walk *w) {
    const struct dnn_gradient *call = w->call;
    for (int64_t unit = w->first; call->add && unit < w->first + w->n; unit++)
        call->add(call, plain_of(w, unit));
    if (!call->add)
        lanes_for(dnn_cache_lanes(w->cache), (weights_of(w) + ADD_BLOCK - 1) / ADD_BLOCK, add_block, w);
}

static int plan_gradient(struct gradient_walk *w, struct err *err) {
    enum { SMALL_SLOT = 1 << 18 };
    const struct dnn_gradient *call = w->call;
    const struct conv_key *key = &w->cut.whole;
    int rc = cut_rows(&w->cut, w->cache, gradient_limits, err);
    w->plain_bytes = round_up((size_t)(key->co * key->ci * key->k) * 4);
    for (int k = 0; k < w->cut.n_kinds && !rc; k++) {
        struct span x = span_of(&call->x, w->cut.keys[k].t, key->ci, key);
        struct span dy = span_of(&call->dy, conv_key_outputs(&w->cut.keys[k]), key->co, key);
        w->pad_bytes = larger(w->pad_bytes, round_up(conv_prim_scratchpad_bytes(w->cut.prims[k])));
        w->packed_bytes = larger(w->packed_bytes, round_up(conv_prim_packed_bytes(w->cut.prims[k])));
        w->x_bytes = larger(w->x_bytes, span_bytes(&x));
        w->dy_bytes = larger(w->dy_bytes, span_bytes(&dy));
    }
    int64_t units = call->batch * w->cut.pieces;
    w->lanes = lanes_of(w->cache, units);
    w->slots = w->lanes * (slot_bytes(w) < SMALL_SLOT ? 4 : 1);
    return rc;
}

int dnn_weight_gradient(struct stream *s, const struct dnn_gradient *call, struct err *err) {
    struct gradient_walk w = {.call = call, .cache = cpu_stream(s)->dnn, .cut.whole = call->key};
    w.cut.whole.backward_weights = true;
    int rc = plan_gradient(&w, err);
    if (rc)
        return rc;
    w.scratch = cpu_scratch(s, (size_t)w.slots * slot_bytes(&w) + 64, err);
    if (!w.scratch)
        return ERR_EXHAUSTED;
    int64_t all = call->batch * w.cut.pieces;
    for (; w.first < all && !rc; w.first += w.slots) {
        w.n = all - w.first < w.slots ? all - w.first : w.slots;
        const struct lanes_work units = {run_gradient, &w, w.first, w.n, w.lanes};
        rc = lanes_run(&units, err);
        if (!rc)
            add_gradients(&w);
    }
    return rc;
}
