/* scan_stage_body: what the forward and backward scans share: the cut into blocks and time tiles, a tile's Δ, Δ·x, decay, B and C
 * brought to packed float rows in level-1 cache, states moved between (D,N) and packed order, and the recurrence itself. */
#pragma once
#include "kernels/cpu/scan_job.h"
#include "kernels/cpu/scan_simd.h"

/* One block of channels of one batch row. */
struct block {
    int64_t index, group, first, count, vectors, row; /* row: batch row */
    int64_t heads, head0;                             /* per_head jobs */
    int64_t length;                                   /* steps of this row */
};

static struct block block_at(const struct scan_job *j, int64_t row, int64_t index) {
    struct block k = {.index = index, .group = index / j->blocks_per_group, .row = row};
    int64_t per_group = j->channels / j->groups, inside = index % j->blocks_per_group * j->block_channels;
    k.first = k.group * per_group + inside;
    k.count = per_group - inside < j->block_channels ? per_group - inside : j->block_channels;
    k.vectors = (k.count + VW - 1) / VW;
    k.heads = k.count / j->share;
    k.head0 = k.first / j->share;
    k.length = j->lengths ? j->lengths[row] : j->length;
    return k;
}

/* Time of a step, in processing order. */
INLINE int64_t time_of(const struct scan_job *j, const struct block *k, int64_t step) {
    return j->reverse ? k->length - 1 - step : step;
}
INLINE int64_t row_of(const struct scan_job *j, const struct block *k, int64_t step) {
    return k->row * j->length + time_of(j, k, step);
}
/* True if a new segment begins at this step: by its own mark, or in reverse by the mark of the token after it. */
static bool starts_anew(const struct scan_job *j, const struct block *k, int64_t step) {
    if (!j->resets)
        return false;
    int64_t t = time_of(j, k, step) + (j->reverse ? 1 : 0);
    return t < k->length && j->resets[k->row * j->length + t] != 0;
}
/* Steps of the tile that starts at `step`: up to SCAN_TILE, ending before the next segment. */
static int tile_steps(const struct scan_job *j, const struct block *k, int64_t step) {
    int64_t left = k->length - step;
    int most = left < SCAN_TILE ? (int)left : SCAN_TILE, n = 1;
    if (!j->resets)
        return most;
    while (n < most && !starts_anew(j, k, step + n))
        n++;
    return n;
}

/* A staged tile; float rows of `lanes`, `width` apart, B and C rows of their own stride. */
struct stage {
    int64_t lanes, width, b_stride, c_stride;
    int steps;
    float *delta, *dx, *decay, *y; /* decay only per_head */
    const float *b, *c;
    float *b_own, *c_own;
    float *head_delta, *head_decay; /* per_head: one value per head, rows of head_width */
    int64_t head_width;
    /* Rows that will be read or written next: fetched while the recurrence runs, one line per stream, step and vector. */
    uintptr_t ahead[8];
    intptr_t ahead_row[8]; /* bytes from step to step */
    int n_ahead, act_bytes;
    float *skip; /* D per lane */
    float *bias; /* per lane (Mamba-1) or per head */
    float *head_a;
};

/* Cuts a scratch area up; base NULL only measures. */
struct carver {
    char *base;
    size_t used;
};
static float *carve(struct carver *c, int64_t floats) {
    float *p = c->base ? (float *)(void *)(c->base + c->used) : NULL;
    c->used += ((size_t)floats * sizeof(float) + 63) / 64 * 64;
    return p;
}

static struct stage stage_carve(const struct scan_job *j, struct carver *c) {
    struct stage t = {.lanes = j->block_vectors * VW};
    t.width = t.lanes + VW; /* not a power of two: rows of a tile must not share cache sets */
    int64_t heads = j->per_head ? (j->block_channels / j->share + VW - 1) / VW * VW : 0;
    t.head_width = heads;
    t.delta = carve(c, t.width * SCAN_TILE + VW);
    t.dx = carve(c, t.width * SCAN_TILE);
    t.decay = carve(c, j->per_head ? t.width * SCAN_TILE + VW : 0);
    t.y = carve(c, t.width * SCAN_TILE);
    t.b_own = carve(c, j->states_padded * SCAN_TILE);
    t.c_own = carve(c, j->states_padded * SCAN_TILE);
    t.head_delta = carve(c, heads * SCAN_TILE);
    t.head_decay = carve(c, heads * SCAN_TILE);
    t.skip = carve(c, t.lanes);
    t.bias = carve(c, j->per_head ? heads : t.lanes);
    t.head_a = carve(c, heads);
    return t;
}

/* Per-block constants. */
static void stage_block(const struct scan_job *j, const struct block *k, struct stage *t) {
    int64_t biases = j->per_head ? t->head_width : t->lanes;
    memset(t->skip, 0, (size_t)t->lanes * sizeof(float));
    memset(t->bias, 0, (size_t)biases * sizeof(float));
    for (int64_t i = 0; i < k->count && j->dskip; i++)
        t->skip[i] = j->dskip[(k->first + i) / j->share];
    int64_t n = j->per_head ? k->heads : k->count, first = j->per_head ? k->head0 : k->first;
    if (j->dbias)
        memcpy(t->bias, j->dbias + first, (size_t)n * sizeof(float));
    if (j->per_head) {
        memset(t->delta, 0, (size_t)(t->width * SCAN_TILE) * sizeof(float)); /* padding lanes stay finite */
        memset(t->decay, 0, (size_t)(t->width * SCAN_TILE) * sizeof(float));
        memset(t->head_a, 0, (size_t)t->head_width * sizeof(float));
        memcpy(t->head_a, j->a + k->head0, (size_t)k->heads * sizeof(float));
    }
}

/* How Δ comes from delta + bias; by value, so that stores cannot be thought to change it. */
struct step_rule {
    bool softplus, clamp;
    vf lo, hi;
};
INLINE struct step_rule step_rule(const struct scan_job *j) {
    return (struct step_rule){j->softplus, j->clamp, vf_all(j->clamp_lo), vf_all(j->clamp_hi)};
}
INLINE vf step_size(struct step_rule r, vf pre) {
    vf d = r.softplus ? vf_softplus(pre) : pre;
    if (r.clamp) {
        d = vf_pick(d < r.lo, r.lo, d);
        d = vf_pick(d > r.hi, r.hi, d);
    }
    return d;
}
/* ∂Δ/∂pre; a clamped value passes nothing, a value on the edge everything. */
INLINE vf step_size_grad(struct step_rule r, vf pre) {
    vf g = r.softplus ? vf_sigmoid(pre) : vf_all(1.0f);
    if (r.clamp) {
        vf raw = r.softplus ? vf_softplus(pre) : pre;
        g = vf_pick((raw < r.lo) | (raw > r.hi), (vf){0}, g);
    }
    return g;
}

/* An activation row: act_at(row, c, left) are up to VW of its elements from channel c of the block on. */
struct act_row {
    void *base;
    int64_t at;
    bool bf16;
};
INLINE struct act_row act_row(const struct scan_view *v, int64_t row, int64_t first, bool bf16) {
    return (struct act_row){v->data, row * v->row + first, bf16};
}
INLINE vf act_at(struct act_row r, int64_t c, int64_t left) { return act_load(r.base, r.bf16, r.at + c, left); }
INLINE void act_put(struct act_row r, int64_t c, int64_t left, vf x) { act_store(r.base, r.bf16, r.at + c, left, x); }

/* body(c, left): whole vectors first, with `left` a constant, then the rest. */
#define EACH_VECTOR(count, body)                                                                                                   \
    do {                                                                                                                           \
        int64_t c_ = 0;                                                                                                            \
        for (; c_ + VW <= (count); c_ += VW)                                                                                       \
            body(c_, VW);                                                                                                          \
        if (c_ < (count))                                                                                                          \
            body(c_, (count)-c_);                                                                                                  \
    } while (0)

/* B or C rows of a tile: in place when they are floats without padding, else copied. */
static const float *stage_states(const struct scan_job *j, const struct block *k, const struct scan_view *v, int64_t step,
                                 int steps, float *own, int64_t *ret_stride) {
    if (!j->bf16 && j->states == j->states_padded) {
        *ret_stride = j->reverse ? -v->row : v->row;
        return (const float *)v->data + row_of(j, k, step) * v->row + k->group * v->step;
    }
    *ret_stride = j->states_padded;
    for (int i = 0; i < steps; i++) {
        int64_t at = row_of(j, k, step + i) * v->row + k->group * v->step;
        float *row = own + i * j->states_padded;
        memset(row, 0, (size_t)j->states_padded * sizeof(float));
        for (int64_t n = 0; n < j->states; n++)
            row[n] = act_get(v->data, j->bf16, at + n);
    }
    return own;
}

struct stage_row {
    struct act_row delta_in, x;
    const float *bias;
    float *delta, *dx;
    struct step_rule rule;
};
INLINE void stage_vector(const struct stage_row *r, int64_t c, int64_t left) {
    vf d = step_size(r->rule, act_at(r->delta_in, c, left) + vf_load(r->bias + c));
    vf_store(r->delta + c, d);
    vf_store(r->dx + c, d * act_at(r->x, c, left));
}

/* Δ and Δ·x per channel. */
INLINE void stage_channels(const struct scan_job *j, const struct block *k, int64_t step, const struct stage *t,
                           struct step_rule rule, const bool bf16) {
    const int64_t count = k->count;
    for (int i = 0; i < t->steps; i++) {
        int64_t row = row_of(j, k, step + i);
        const struct stage_row r = {.delta_in = act_row(&j->delta, row, k->first, bf16),
                                    .x = act_row(&j->x, row, k->first, bf16),
                                    .bias = t->bias,
                                    .delta = t->delta + i * t->width,
                                    .dx = t->dx + i * t->width,
                                    .rule = rule};
#define BODY(c, left) stage_vector(&r, c, left)
        EACH_VECTOR(count, BODY);
#undef BODY
    }
}

/* Constant rules, so that the compiler drops unused branches. */
INLINE void stage_channels_typed(const struct scan_job *j, const struct block *k, int64_t step, const struct stage *t,
                                 const bool bf16) {
    struct step_rule rule = step_rule(j);
    rule.softplus = true, rule.clamp = false;
    if (j->softplus && !j->clamp)
        return stage_channels(j, k, step, t, rule, bf16);
    rule.softplus = false, rule.clamp = true;
    if (!j->softplus && j->clamp)
        return stage_channels(j, k, step, t, rule, bf16);
    stage_channels(j, k, step, t, step_rule(j), bf16);
}

/* The same when a head's channels share Δ and the decay. */
INLINE void stage_heads(const struct scan_job *j, const struct block *k, int64_t step, const struct stage *t, const bool bf16) {
    const struct step_rule rule = step_rule(j);
    const int64_t count = k->count, heads = k->heads, share = j->share;
    for (int i = 0; i < t->steps; i++) {
        int64_t row = row_of(j, k, step + i);
        const struct act_row delta_in = act_row(&j->delta, row, k->head0, bf16), x = act_row(&j->x, row, k->first, bf16);
        float *hd = t->head_delta + i * t->head_width, *ha = t->head_decay + i * t->head_width;
        for (int64_t h = 0; h < heads; h += VW) {
            vf d = step_size(rule, act_at(delta_in, h, heads - h) + vf_load(t->bias + h));
            vf_store(hd + h, d);
            vf_store(ha + h, vf_exp2(d * (vf_load(t->head_a + h) * 1.44269504f)));
        }
        float *delta = t->delta + i * t->width, *decay = t->decay + i * t->width, *dx = t->dx + i * t->width;
        for (int64_t h = 0, c = 0; h < heads; h++) {
            vf d = vf_all(hd[h]), a = vf_all(ha[h]);
            for (int64_t end = c + share; c < end; c += VW) { /* spills over into what comes after and is written later */
                vf_store(delta + c, d);
                vf_store(decay + c, a);
            }
            c = (h + 1) * share;
        }
#define BODY(c, left) vf_store(dx + (c), vf_load(delta + (c)) * act_at(x, c, left))
        EACH_VECTOR(count, BODY);
#undef BODY
    }
}

static void stage_tile(const struct scan_job *j, const struct block *k, int64_t step, struct stage *t) {
    t->steps = tile_steps(j, k, step);
    t->b = stage_states(j, k, &j->bm, step, t->steps, t->b_own, &t->b_stride);
    t->c = stage_states(j, k, &j->cm, step, t->steps, t->c_own, &t->c_stride);
    if (j->per_head && j->bf16)
        stage_heads(j, k, step, t, true);
    else if (j->per_head)
        stage_heads(j, k, step, t, false);
    else if (j->bf16)
        stage_channels_typed(j, k, step, t, true);
    else
        stage_channels_typed(j, k, step, t, false);
}

static void look_ahead(const struct scan_job *j, const struct block *k, int64_t step, const struct scan_view *v, struct stage *t) {
    int64_t bytes = j->bf16 ? 2 : 4;
    if (!v->data)
        return;
    t->act_bytes = (int)bytes;
    t->ahead[t->n_ahead] = (uintptr_t)v->data + (uintptr_t)((row_of(j, k, step) * v->row + k->first) * bytes);
    t->ahead_row[t->n_ahead++] = (j->reverse ? -v->row : v->row) * bytes;
}
INLINE void fetch_ahead(const struct stage *t, int64_t at, int step) {
    for (int i = 0; i < t->n_ahead; i++)
        __builtin_prefetch((const void *)(t->ahead[i] + (uintptr_t)(step * t->ahead_row[i] + at * t->act_bytes)));
}

/* (D,N) ↔ packed, one block; outside NULL reads as zeros. */
static void load_state(const struct scan_job *j, const struct block *k, const float *outside, float *packed) {
    memset(packed, 0, (size_t)(k->vectors * j->states_padded * VW) * sizeof(float));
    if (!outside)
        return;
    const float *from = outside + (k->row * j->channels + k->first) * j->states;
    for (int64_t c = 0; c < k->count; c++)
        for (int64_t n = 0; n < j->states; n++)
            packed[(c / VW * j->states_padded + n) * VW + c % VW] = from[c * j->states + n];
}
static void store_state(const struct scan_job *j, const struct block *k, const float *packed, float *outside) {
    float *to = outside + (k->row * j->channels + k->first) * j->states;
    for (int64_t c = 0; c < k->count; c++)
        for (int64_t n = 0; n < j->states; n++)
            to[c * j->states + n] = packed[(c / VW * j->states_padded + n) * VW + c % VW];
}

static int64_t packed_floats(const struct scan_job *j) { return j->block_vectors * j->states_padded * VW; }

static void pack_a(const struct scan_job *j, int64_t block, float *packed) {
    struct block k = block_at(j, 0, block);
    float *to = packed + block * packed_floats(j);
    memset(to, 0, (size_t)packed_floats(j) * sizeof(float));
    for (int64_t c = 0; c < k.count; c++)
        for (int64_t n = 0; n < j->states; n++)
            to[(c / VW * j->states_padded + n) * VW + c % VW] = j->a[(k.first + c) * j->states + n] * 1.44269504f;
}

/* φ(v) = (e^v − 1)/v and φ'(v) = (e^v(v − 1) + 1)/v², by series for |v| < ½; a = e^v. */
INLINE vf zoh_phi(vf v, vf a) {
    vf s = v * (1.0f / 40320.0f) + 1.0f / 5040.0f;
    s = s * v + 1.0f / 720.0f;
    s = s * v + 1.0f / 120.0f;
    s = s * v + 1.0f / 24.0f;
    s = s * v + 1.0f / 6.0f;
    s = s * v + 0.5f;
    s = s * v + 1.0f;
    vi small = vf_abs(v) < 0.5f;
    return vf_pick(small, s, (a - 1.0f) / vf_pick(small, vf_all(1.0f), v));
}
INLINE vf zoh_phi_grad(vf v, vf a) {
    vf s = v * (1.0f / 45360.0f) + 1.0f / 5760.0f;
    s = s * v + 1.0f / 840.0f;
    s = s * v + 1.0f / 144.0f;
    s = s * v + 1.0f / 30.0f;
    s = s * v + 1.0f / 8.0f;
    s = s * v + 1.0f / 3.0f;
    s = s * v + 0.5f;
    vi small = vf_abs(v) < 0.5f;
    vf d = vf_pick(small, vf_all(1.0f), v);
    return vf_pick(small, s, (a * (v - 1.0f) + 1.0f) / (d * d));
}

enum decay { DECAY_STATE, DECAY_ZOH, DECAY_HEAD };

/* The recurrence of one vector of channels over a staged tile, NB states from n0. `packed` is the state of this vector and these
 * NB states; with `out`, y (+= unless n0 is 0) receives Σ C·h. */
INLINE void recur(const struct stage *t, int64_t at, int64_t n0, const float *a2, float *packed, const int nb,
                  const enum decay kind, const bool out) {
    vf h[16];
    /* local, so that no store can be thought to change them */
    const int steps = t->steps;
    const int64_t width = t->width, b_stride = t->b_stride, c_stride = t->c_stride;
    const float *const tb = t->b + n0, *const tc = t->c + n0, *const tdelta = t->delta + at, *const tdx = t->dx + at;
    const float *const tdecay = t->decay + at;
    float *const ty = t->y + at;
#pragma GCC unroll 16
    for (int n = 0; n < nb; n++)
        h[n] = vf_load(packed + n * VW);
    for (int i = 0; i < steps; i++) {
        const float *b = tb + i * b_stride, *c = tc + i * c_stride;
        vf delta = vf_load(tdelta + i * width), dx = vf_load(tdx + i * width), a = {0};
        if (kind == DECAY_HEAD)
            a = vf_load(tdecay + i * width);
        vf y0 = {0}, y1 = {0};
        if (n0 == 0)
            fetch_ahead(t, at, i);
#pragma GCC unroll 16
        for (int first = 0; first < nb; first += SCAN_NB) {
            vf x[SCAN_NB], e[SCAN_NB];
            if (kind != DECAY_HEAD) {
#pragma GCC unroll 8
                for (int q = 0; q < SCAN_NB; q++)
                    e[q] = x[q] = delta * vf_load(a2 + (first + q) * VW);
                vf_exp2_many(e, SCAN_NB);
            }
#pragma GCC unroll 8
            for (int q = 0; q < SCAN_NB; q++) {
                int n = first + q;
                vf in = dx * b[n];
                if (kind == DECAY_ZOH)
                    in *= zoh_phi(x[q] * 0.693147181f, e[q]);
                h[n] = (kind == DECAY_HEAD ? a : e[q]) * h[n] + in;
                if (out && n % 2)
                    y1 += h[n] * c[n];
                else if (out)
                    y0 += h[n] * c[n];
            }
        }
        if (out) {
            float *y = ty + i * width;
            vf_store(y, n0 ? vf_load(y) + (y0 + y1) : y0 + y1);
        }
    }
#pragma GCC unroll 16
    for (int n = 0; n < nb; n++)
        vf_store(packed + n * VW, h[n]);
}
