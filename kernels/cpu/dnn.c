/* The walk of convolutions over batch rows, and over the pieces of a row. */
#include "kernels/cpu/dnn.h"

#include <string.h>

#include "kernels/cpu/bf16.h"
#include "kernels/lanes.h"

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

/* ---- pieces and lanes ---- */

enum { PIECE = 480, MAX_KINDS = 4 }; /* PIECE: the most outputs of one */

/* Outputs [first, first + n) of a row, made of the inputs from `input` on by the convolution of `key`. */
struct piece {
    int64_t first, n, input;
    struct conv_key key;
};

static struct piece piece_of(const struct conv_key *whole, int64_t pieces, int64_t i) {
    int64_t outs = conv_key_outputs(whole), each = outs / pieces, longer = outs % pieces;
    struct piece p = {.first = i * each + (i < longer ? i : longer), .n = each + (i < longer), .key = *whole};
    int64_t from = p.first - whole->pad, end = from + p.n + whole->k - 1;
    p.input = from < 0 ? 0 : from;
    p.key.pad = p.input - from;
    p.key.pad_right = end > whole->t ? end - whole->t : 0;
    p.key.t = p.n + whole->k - 1 - p.key.pad - p.key.pad_right;
    return p;
}

/* One forward call: its pieces are of a few kinds (at the ends of a row and between them; two lengths), a primitive each. */
struct walk {
    const struct dnn_forward *call;
    struct dnn_cache *cache;
    struct conv_key whole;
    struct {
        struct conv_key key;
        struct conv_prim *prim;
        struct packed *packed;
        bool fresh;
    } kinds[MAX_KINDS];
    int n_kinds, lanes;
    int64_t pieces;
    const void *bias;
    bool copy_y;
    /* scratch of a lane: scratchpad, x and y without gaps */
    size_t pad_bytes, x_bytes, y_bytes;
    char *scratch;
};

static size_t lane_bytes(const struct walk *w) { return w->pad_bytes + w->x_bytes + w->y_bytes; }

static int kind_of(const struct walk *w, const struct conv_key *key) {
    int k = 0;
    while (k < w->n_kinds && !conv_key_equal(&w->kinds[k].key, key))
        k++;
    return k;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static struct span x_span(const struct walk *w, const struct piece *p) {
    return span_of(&w->call->x, p->key.t, w->whole.ci, &w->whole);
}

static struct span y_span(const struct walk *w, const struct piece *p) {
    struct span s = span_of(&w->call->y, p->n, w->whole.co, &w->whole);
    s.dense = !w->copy_y;
    return s;
}

/* Rows are cut where that is faster, whatever the batch and the number of threads: the same bits. */
static int plan(struct walk *w, struct err *err) {
    bool cut = !w->whole.bf16 && dnn_cuts();
    int threads = dnn_cache_lanes(w->cache), rc = 0;
    const struct packed weights = {.source = w->call->source, .lay = w->call->lay, .version = w->call->version};
    w->pieces = cut ? (conv_key_outputs(&w->whole) + PIECE - 1) / PIECE : 1;
    w->lanes = cut && w->call->batch * w->pieces >= threads ? threads : 1;
    w->whole.alone = w->lanes > 1;
    for (int64_t i = 0; i < w->pieces && !rc; i++) {
        struct piece p = piece_of(&w->whole, w->pieces, i);
        struct span x = x_span(w, &p), y = y_span(w, &p);
        int k = kind_of(w, &p.key);
        if (k < w->n_kinds)
            continue;
        w->kinds[k].key = p.key;
        w->n_kinds++;
        rc = conv_prim_find(w->cache, &p.key, &w->kinds[k].prim, err);
        if (!rc)
            rc = packed_find(w->cache, w->kinds[k].prim, &weights, &w->kinds[k].packed, &w->kinds[k].fresh, err);
        if (rc)
            return rc;
        w->pad_bytes = larger(w->pad_bytes, round_up(conv_prim_scratchpad_bytes(w->kinds[k].prim)));
        w->x_bytes = larger(w->x_bytes, span_bytes(&x));
        w->y_bytes = larger(w->y_bytes, span_bytes(&y));
    }
    return rc;
}

/* Packs the weights that have changed since they were packed last; `plain` is scratch for weights that `lay` writes. */
static int pack(struct walk *w, float *plain, struct err *err) {
    const void *from = w->call->lay ? plain : w->call->source;
    bool laid = !w->call->lay;
    int rc = 0;
    for (int k = 0; k < w->n_kinds && !rc; k++) {
        if (w->kinds[k].fresh)
            continue;
        if (!laid)
            w->call->lay(w->call, plain);
        laid = true;
        rc = conv_prim_reorder(w->cache, w->kinds[k].prim, from, w->kinds[k].packed->data, err);
    }
    return rc;
}

static int run_piece(const void *ctx, int64_t unit, int lane, struct err *err) {
    const struct walk *w = ctx;
    const struct dnn_forward *call = w->call;
    int64_t row = unit / w->pieces;
    struct piece p = piece_of(&w->whole, w->pieces, unit % w->pieces);
    struct span x = x_span(w, &p), y = y_span(w, &p);
    int k = kind_of(w, &p.key);
    char *from = span_at(&call->x, &x, row * w->whole.t + p.input);
    char *to = span_at(&call->y, &y, row * conv_key_outputs(&w->whole) + p.first);
    char *pad = w->scratch + (size_t)lane * lane_bytes(w), *dense_x = pad + w->pad_bytes, *dense_y = dense_x + w->x_bytes;
    if (!x.dense)
        gather(&x, dense_x, from, call->x.ld);
    const void *operands[5] = {x.dense ? from : dense_x, w->kinds[k].packed->data, y.dense ? to : dense_y, pad, w->bias};
    int rc = conv_prim_run(w->cache, w->kinds[k].prim, lane, operands, err);
    if (!rc && call->accumulate)
        add_rows_bf16(&y, to, dense_y, call->y.ld);
    else if (!rc && !y.dense)
        scatter(&y, to, dense_y, call->y.ld);
    return rc;
}

int dnn_forward(struct stream *s, const struct dnn_forward *call, struct err *err) {
    int64_t repeat = call->bias_repeat > 1 ? call->bias_repeat : 1, co = call->key.co;
    struct walk w = {.call = call, .cache = cpu_stream(s)->dnn, .whole = call->key, .bias = call->bias};
    w.copy_y = call->accumulate || call->y.ld != co / call->y.split;
    w.whole.bias = call->bias != NULL;
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
    const struct lanes_work units = {run_piece, &w, 0, call->batch * w.pieces, w.lanes};
    rc = pack(&w, (float *)(void *)scratch, err);
    return rc ? rc : lanes_run(&units, err);
}

/* ---- gradients of weights ---- */

/* The rows of a batch, a gradient each, which are added up in their order. */
struct gradient_walk {
    const struct dnn_gradient *call;
    struct dnn_cache *cache;
    struct conv_prim *prim;
    int64_t outs;
    int slots;                                         /* rows at a time */
    size_t pad_bytes, packed_bytes, x_bytes, dy_bytes; /* scratch of a slot */
    char *scratch;
};

static size_t slot_bytes(const struct gradient_walk *w) { return w->pad_bytes + w->packed_bytes + w->x_bytes + w->dy_bytes; }

static char *slot_of(const struct gradient_walk *w, int64_t row) { return w->scratch + (size_t)(row % w->slots) * slot_bytes(w); }

static int run_gradient(const void *ctx, int64_t row, int lane, struct err *err) {
    const struct gradient_walk *w = ctx;
    const struct dnn_gradient *call = w->call;
    const struct conv_key *key = &call->key;
    struct span x = span_of(&call->x, key->t, key->ci, key), dy = span_of(&call->dy, w->outs, key->co, key);
    char *packed = slot_of(w, row), *pad = packed + w->packed_bytes, *dense_x = pad + w->pad_bytes;
    char *dense_dy = dense_x + w->x_bytes;
    char *from = span_at(&call->x, &x, row * key->t), *grad = span_at(&call->dy, &dy, row * w->outs);
    if (!x.dense)
        gather(&x, dense_x, from, call->x.ld);
    if (!dy.dense)
        gather(&dy, dense_dy, grad, call->dy.ld);
    const void *operands[5] = {x.dense ? from : dense_x, packed, dy.dense ? grad : dense_dy, pad, NULL};
    return conv_prim_run(w->cache, w->prim, lane, operands, err);
}

/* dw += the gradient of a row. */
static int add_gradient(const struct gradient_walk *w, int64_t row, float *plain, struct err *err) {
    const struct dnn_gradient *call = w->call;
    int64_t n = call->key.co * call->key.ci * call->key.k;
    float *out = call->dw;
    int rc = conv_prim_reorder(w->cache, w->prim, slot_of(w, row), plain, err);
    if (rc)
        return rc;
    if (call->add) {
        call->add(call, plain);
        return 0;
    }
#pragma omp parallel for simd schedule(static)
    for (int64_t j = 0; j < n; j++)
        out[j] += plain[j];
    return 0;
}

int dnn_weight_gradient(struct stream *s, const struct dnn_gradient *call, struct err *err) {
    struct gradient_walk w = {.call = call, .cache = cpu_stream(s)->dnn, .outs = conv_key_outputs(&call->key)};
    struct conv_key key = call->key;
    int threads = dnn_cache_lanes(w.cache);
    w.slots = !key.bf16 && dnn_cuts() && call->batch >= threads ? threads : 1;
    key.backward_weights = true;
    key.alone = w.slots > 1;
    int rc = conv_prim_find(w.cache, &key, &w.prim, err);
    if (rc)
        return rc;
    struct span x = span_of(&call->x, key.t, key.ci, &key), dy = span_of(&call->dy, w.outs, key.co, &key);
    size_t plain = round_up((size_t)(key.co * key.ci * key.k) * 4);
    w.pad_bytes = round_up(conv_prim_scratchpad_bytes(w.prim));
    w.packed_bytes = round_up(conv_prim_packed_bytes(w.prim));
    w.x_bytes = span_bytes(&x);
    w.dy_bytes = span_bytes(&dy);
    char *scratch = cpu_scratch(s, plain + (size_t)w.slots * slot_bytes(&w) + 64, err);
    if (!scratch)
        return ERR_EXHAUSTED;
    w.scratch = scratch + plain;
    for (int64_t first = 0; first < call->batch && !rc; first += w.slots) {
        int64_t n = call->batch - first < w.slots ? call->batch - first : w.slots;
        const struct lanes_work units = {run_gradient, &w, first, n, w.slots};
        rc = lanes_run(&units, err);
        for (int64_t row = first; row < first + n && !rc; row++)
            rc = add_gradient(&w, row, (float *)(void *)scratch, err);
    }
    return rc;
}
