/* scan_backward_body: gradients of the scans for one block of channels over one slice of the batch.
 *   λ_t = gy_t·C_t + a_{t+1}·λ_{t+1};  dC = Σ gy·h;  dB = Σ λ·Δ·x;  S1 = Σ_n λ·B;  S2 = Σ_n λ·A·(a·h_{t−1});  dA += λ·Δ·(a·h_{t−1})
 *   dx = Δ·S1 + D·gy;  dΔ = S2 + x·S1;  with a gate: gy = dout·silu(z), dz = dout·y·silu'(z).
 * States are kept at tile starts (and every SCAN_SPAN tiles at a first level), the products a·h_{t−1} are recomputed within a tile
 * and never formed as a difference. dB and dC gather lane by lane over the block's channels and are summed across lanes
 * once per tile; blocks and batch slices leave partial sums that the caller adds in order. */
#pragma once
#include "kernels/cpu/scan_forward_body.h"
#include "kernels/cpu/scan_stage_body.h"

/* Scratch of one backward item. */
struct back {
    struct stage t;
    float *gy, *s1, *s2;        /* staged rows like t.delta */
    float *state, *lambda;      /* packed */
    float *spans, *tiles;       /* checkpoints: first level, and the tiles of the current span */
    float *keep_a, *keep_h;     /* a and, from h before the tile on, h of one vector: [step][NB][lane] */
    float *gather_b, *gather_c; /* [step][NB][lane] */
    float *row_b, *row_c;       /* [step][states_padded] */
    float *sum_skip, *sum_bias; /* this item's partial sums in the job */
    float *sum_a;
    int64_t *starts; /* first step of every tile, and the length at the end */
    int64_t n_tiles;
};

static int64_t most_tiles(const struct scan_job *j) { return j->resets ? j->length : (j->length + SCAN_TILE - 1) / SCAN_TILE; }

static struct back back_carve(const struct scan_job *j, struct carver *c) {
    struct back w = {.t = stage_carve(j, c)};
    int64_t rows = w.t.width * SCAN_TILE, tiles = most_tiles(j), vector = SCAN_TILE * SCAN_NB * VW;
    w.gy = carve(c, rows);
    w.s1 = carve(c, rows);
    w.s2 = carve(c, rows);
    w.state = carve(c, packed_floats(j));
    w.lambda = carve(c, packed_floats(j));
    w.spans = carve(c, packed_floats(j) * ((tiles + SCAN_SPAN - 1) / SCAN_SPAN));
    w.tiles = carve(c, packed_floats(j) * (tiles < SCAN_SPAN ? tiles : SCAN_SPAN));
    w.keep_a = carve(c, vector);
    w.keep_h = carve(c, vector + SCAN_NB * VW);
    w.gather_b = carve(c, vector);
    w.gather_c = carve(c, vector);
    w.row_b = carve(c, j->states_padded * SCAN_TILE);
    w.row_c = carve(c, j->states_padded * SCAN_TILE);
    w.starts = (int64_t *)(void *)carve(c, 2 * (tiles + 1));
    return w;
}

static size_t backward_bytes(const struct scan_job *j) {
    struct carver c = {NULL, 0};
    back_carve(j, &c);
    return c.used;
}

/* gy: the gradient of y before the gate. */
INLINE void stage_gradient(const struct scan_job *j, const struct block *k, int64_t step, const struct back *w, const bool bf16) {
    const int64_t count = k->count;
    const bool gate = j->z.data != NULL;
    for (int i = 0; i < w->t.steps; i++) {
        int64_t row = row_of(j, k, step + i), at = i * w->t.width;
        const struct act_row dy = act_row(&j->dy, row, k->first, bf16), z = act_row(&j->z, row, k->first, bf16);
        float *gy = w->gy + at;
#define BODY(c, left)                                                                                                              \
    do {                                                                                                                           \
        vf g = act_at(dy, c, left);                                                                                                \
        vf_store(gy + (c), gate ? g * vf_silu(act_at(z, c, left)) : g);                                                            \
    } while (0)
        EACH_VECTOR(count, BODY);
#undef BODY
    }
}

/* One vector of channels, NB states from n0, one tile: forward again from the checkpoint, then backwards. */
INLINE void sweep(const struct back *w, int64_t at, int64_t n0, const float *a2, const float *start, float *lambda, float *sum_a,
                  const enum decay kind, const bool gated) {
    const struct stage *t = &w->t;
    enum { NB = SCAN_NB };
    /* local, so that no store can be thought to change them */
    const int steps = t->steps;
    const int64_t width = t->width, b_stride = t->b_stride, c_stride = t->c_stride;
    const float *const tb = t->b + n0, *const tc = t->c + n0, *const tdelta = t->delta + at, *const tdx = t->dx + at;
    const float *const tdecay = t->decay + at, *const wgy = w->gy + at;
    float *const keep_a = w->keep_a, *const keep_h = w->keep_h, *const gather_b = w->gather_b, *const gather_c = w->gather_c;
    float *const ws1 = w->s1 + at, *const ws2 = w->s2 + at, *const ty = t->y + at;
    vf h[NB];
#pragma GCC unroll 8
    for (int n = 0; n < NB; n++)
        h[n] = vf_load(start + n * VW);
#pragma GCC unroll 8
    for (int n = 0; n < NB; n++)
        vf_store(keep_h + n * VW, h[n]);
    for (int i = 0; i < steps; i++) {
        const float *b = tb + i * b_stride, *c = tc + i * c_stride;
        vf delta = vf_load(tdelta + i * width), dx = vf_load(tdx + i * width), a = {0}, y = {0};
        if (kind == DECAY_HEAD)
            a = vf_load(tdecay + i * width);
        vf x[NB], e[NB];
        if (kind != DECAY_HEAD) {
#pragma GCC unroll 8
            for (int n = 0; n < NB; n++)
                e[n] = x[n] = delta * vf_load(a2 + n * VW);
            vf_exp2_many(e, NB);
        }
#pragma GCC unroll 8
        for (int n = 0; n < NB; n++) {
            vf in = dx * b[n];
            if (kind == DECAY_ZOH)
                in *= zoh_phi(x[n] * 0.693147181f, e[n]);
            if (kind != DECAY_HEAD)
                vf_store(keep_a + (i * NB + n) * VW, e[n]);
            h[n] = (kind == DECAY_HEAD ? a : e[n]) * h[n] + in;
            vf_store(keep_h + ((i + 1) * NB + n) * VW, h[n]);
            if (gated)
                y += h[n] * c[n];
        }
        if (gated) {
            float *row = ty + i * width;
            vf_store(row, n0 ? vf_load(row) + y : y);
        }
    }
    vf l[NB], da[NB];
#pragma GCC unroll 8
    for (int n = 0; n < NB; n++) {
        l[n] = vf_load(lambda + n * VW);
        da[n] = (vf){0};
    }
    for (int i = steps - 1; i >= 0; i--) {
        const float *b = tb + i * b_stride, *c = tc + i * c_stride;
        int64_t row = i * width;
        vf delta = vf_load(tdelta + row), dx = vf_load(tdx + row), gy = vf_load(wgy + row), a = {0}, u = {0};
        if (n0 == 0)
            fetch_ahead(t, at, i);
        vf s1 = n0 ? vf_load(ws1 + row) : (vf){0}, s2 = n0 ? vf_load(ws2 + row) : (vf){0};
        if (kind == DECAY_HEAD)
            a = vf_load(tdecay + row);
        if (kind == DECAY_ZOH)
            u = dx / vf_pick(delta == 0.0f, vf_all(1.0f), delta);
#pragma GCC unroll 8
        for (int n = 0; n < NB; n++) {
            float *gb = gather_b + (i * NB + n) * VW, *gc = gather_c + (i * NB + n) * VW;
            if (kind != DECAY_HEAD)
                a = vf_load(keep_a + (i * NB + n) * VW);
            vf lam = l[n] + gy * c[n], next = lam * a, lah = next * vf_load(keep_h + (i * NB + n) * VW); /* λ·(a·h_{t−1}) */
            vf_store(gc, vf_load(gc) + gy * vf_load(keep_h + ((i + 1) * NB + n) * VW));
            if (kind != DECAY_ZOH) {
                vf_store(gb, vf_load(gb) + lam * dx);
                s1 += lam * b[n];
                s2 += kind == DECAY_HEAD ? lah : lah * vf_load(a2 + n * VW);
                if (kind == DECAY_STATE)
                    da[n] += lah * delta;
            } else { /* s1 = Σ λφB; s2 = Σ λ(A·a·h + a·B·x) − x·s1, so that dΔ = s2 + x·s1 as in the other forms */
                vf v = delta * vf_load(a2 + n * VW) * 0.693147181f, phi = zoh_phi(v, a), lb = lam * b[n];
                vf_store(gb, vf_load(gb) + lam * dx * phi);
                s1 += lb * phi;
                s2 += lah * vf_load(a2 + n * VW) + lb * u * (a - phi) * 1.44269504f;
                da[n] += lah * delta + lb * dx * delta * zoh_phi_grad(v, a);
            }
            l[n] = next;
        }
        vf_store(ws1 + row, s1);
        vf_store(ws2 + row, s2);
    }
#pragma GCC unroll 8
    for (int n = 0; n < NB; n++) {
        vf_store(lambda + n * VW, l[n]);
        if (kind != DECAY_HEAD)
            vf_store(sum_a + n * VW, vf_load(sum_a + n * VW) + da[n]);
    }
}

/* All vectors and states of a tile; leaves the tile's dB and dC in row_b, row_c. */
INLINE void sweep_tile(const struct scan_job *j, const struct block *k, const struct back *w, const float *start,
                       const enum decay kind, const bool gated) {
    const float *a2 = j->packed_a ? j->packed_a + k->index * packed_floats(j) : start;
    for (int64_t n0 = 0; n0 < j->states_padded; n0 += SCAN_NB) {
        size_t gathered = (size_t)w->t.steps * SCAN_NB * VW * sizeof(float);
        memset(w->gather_b, 0, gathered);
        memset(w->gather_c, 0, gathered);
        for (int64_t v = 0; v < k->vectors; v++) {
            int64_t at = (v * j->states_padded + n0) * VW;
            sweep(w, v * VW, n0, a2 + at, start + at, w->lambda + at, w->sum_a ? w->sum_a + at : NULL, kind, gated);
        }
        for (int i = 0; i < w->t.steps; i++)
            for (int n = 0; n < SCAN_NB; n++) {
                w->row_b[i * j->states_padded + n0 + n] = vf_sum(vf_load(w->gather_b + (i * SCAN_NB + n) * VW));
                w->row_c[i * j->states_padded + n0 + n] = vf_sum(vf_load(w->gather_c + (i * SCAN_NB + n) * VW));
            }
    }
}

static void sweep_any(const struct scan_job *j, const struct block *k, const struct back *w, const float *start) {
    if (j->per_head)
        sweep_tile(j, k, w, start, DECAY_HEAD, false);
    else if (j->zoh && j->z.data)
        sweep_tile(j, k, w, start, DECAY_ZOH, true);
    else if (j->zoh)
        sweep_tile(j, k, w, start, DECAY_ZOH, false);
    else if (j->z.data)
        sweep_tile(j, k, w, start, DECAY_STATE, true);
    else
        sweep_tile(j, k, w, start, DECAY_STATE, false);
}

struct finish_grad {
    struct act_row x, delta_in, z, dy, dx, ddelta, dz;
    const float *delta, *gy, *s1, *s2, *y, *skip, *bias;
    float *sum_bias, *sum_skip;
};
INLINE void finish_grad_vector(const struct finish_grad *r, struct step_rule rule, int64_t c, int64_t left) {
    vf x = act_at(r->x, c, left), skip = vf_load(r->skip + c), gy = vf_load(r->gy + c), s1 = vf_load(r->s1 + c);
    vf pre = act_at(r->delta_in, c, left) + vf_load(r->bias + c), s2 = vf_load(r->s2 + c) * 0.693147181f;
    vf dpre = (s2 + x * s1) * step_size_grad(rule, pre);
    if (r->dz.base) {
        vf y = vf_load(r->y + c) + skip * x;
        act_put(r->dz, c, left, act_at(r->dy, c, left) * y * vf_silu_grad(act_at(r->z, c, left)));
    }
    if (r->dx.base)
        act_put(r->dx, c, left, vf_load(r->delta + c) * s1 + skip * gy);
    if (r->ddelta.base)
        act_put(r->ddelta, c, left, dpre);
    vf_store(r->sum_bias + c, vf_load(r->sum_bias + c) + dpre);
    vf_store(r->sum_skip + c, vf_load(r->sum_skip + c) + gy * x);
}

/* dx, dz, ddelta and the sums for D and the bias (Mamba-1: everything is per channel). */
INLINE void finish_grad_rows(const struct scan_job *j, const struct block *k, int64_t step, const struct back *w,
                             const struct step_rule rule, const bool bf16) {
    const int64_t count = k->count;
    for (int i = 0; i < w->t.steps; i++) {
        int64_t row = row_of(j, k, step + i), at = i * w->t.width;
        const struct finish_grad r = {.x = act_row(&j->x, row, k->first, bf16),
                                      .delta_in = act_row(&j->delta, row, k->first, bf16),
                                      .z = act_row(&j->z, row, k->first, bf16),
                                      .dy = act_row(&j->dy, row, k->first, bf16),
                                      .dx = act_row(&j->dx, row, k->first, bf16),
                                      .ddelta = act_row(&j->ddelta, row, k->first, bf16),
                                      .dz = act_row(&j->dz, row, k->first, bf16),
                                      .delta = w->t.delta + at,
                                      .gy = w->gy + at,
                                      .s1 = w->s1 + at,
                                      .s2 = w->s2 + at,
                                      .y = w->t.y + at,
                                      .skip = w->t.skip,
                                      .bias = w->t.bias,
                                      .sum_bias = w->sum_bias,
                                      .sum_skip = w->sum_skip};
#define BODY(c, left) finish_grad_vector(&r, rule, c, left)
        EACH_VECTOR(count, BODY);
#undef BODY
    }
}

INLINE void finish_channels(const struct scan_job *j, const struct block *k, int64_t step, const struct back *w, const bool bf16) {
    struct step_rule rule = step_rule(j);
    if (!j->clamp) {
        rule.clamp = false;
        finish_grad_rows(j, k, step, w, rule, bf16);
    } else if (!j->softplus) {
        rule.softplus = false;
        finish_grad_rows(j, k, step, w, rule, bf16);
    } else {
        finish_grad_rows(j, k, step, w, rule, bf16);
    }
}

static float sum_floats(const float *p, int64_t count) {
    vf total = {0};
    int64_t i = 0;
    for (; i + VW <= count; i += VW)
        total += vf_load(p + i);
    if (i < count)
        total += act_load(p, false, i, count - i);
    return vf_sum(total);
}

/* The same when heads share Δ and A: dΔ and dA need a head's sum of A·S2 + x·S1 and of S2. */
INLINE void finish_heads(const struct scan_job *j, const struct block *k, int64_t step, const struct back *w, const bool bf16) {
    const struct step_rule rule = step_rule(j);
    const int64_t count = k->count, heads = k->heads, share = j->share;
    for (int i = 0; i < w->t.steps; i++) {
        int64_t row = row_of(j, k, step + i);
        float *s1 = w->s1 + i * w->t.width, *s2 = w->s2 + i * w->t.width, *sum_skip = w->sum_skip;
        const float *gy = w->gy + i * w->t.width, *delta = w->t.delta + i * w->t.width, *skip = w->t.skip;
        const struct act_row x = act_row(&j->x, row, k->first, bf16), dx = act_row(&j->dx, row, k->first, bf16);
#define BODY(c, left)                                                                                                              \
    do {                                                                                                                           \
        vf in = act_at(x, c, left), g = vf_load(gy + (c)), s = vf_load(s1 + (c));                                                  \
        if (dx.base)                                                                                                               \
            act_put(dx, c, left, vf_load(delta + (c)) * s + vf_load(skip + (c)) * g);                                              \
        vf_store(sum_skip + (c), vf_load(sum_skip + (c)) + g * in);                                                                \
        vf_store(s1 + (c), in * s);                                                                                                \
    } while (0)
        EACH_VECTOR(count, BODY);
#undef BODY
        float *hd = w->t.head_delta + i * w->t.head_width, *hg = w->t.head_decay + i * w->t.head_width;
        for (int64_t h = 0; h < heads; h++) {
            float along = sum_floats(s2 + h * share, share);
            w->sum_a[h] += hd[h] * along;
            hg[h] = w->t.head_a[h] * along + sum_floats(s1 + h * share, share);
        }
        const struct act_row delta_in = act_row(&j->delta, row, k->head0, bf16), ddelta = act_row(&j->ddelta, row, k->head0, bf16);
        for (int64_t h = 0; h < heads; h += VW) {
            vf dpre = vf_load(hg + h) * step_size_grad(rule, act_at(delta_in, h, heads - h) + vf_load(w->t.bias + h));
            if (ddelta.base)
                act_put(ddelta, h, heads - h, dpre);
            vf_store(w->sum_bias + h, vf_load(w->sum_bias + h) + dpre);
        }
    }
}

/* This tile's dB and dC to the block's share. */
static void finish_states(const struct scan_job *j, const struct block *k, int64_t step, const struct back *w) {
    int64_t share = k->index % j->blocks_per_group * j->batch * j->length * j->groups * j->states;
    for (int i = 0; i < w->t.steps; i++) {
        int64_t at = share + (row_of(j, k, step + i) * j->groups + k->group) * j->states;
        memcpy(j->part_b + at, w->row_b + i * j->states_padded, (size_t)j->states * sizeof(float));
        memcpy(j->part_c + at, w->row_c + i * j->states_padded, (size_t)j->states * sizeof(float));
    }
}

static void clear_gradient_tails(const struct scan_job *j, const struct block *k) {
    clear_tail(j, k, &j->dx, k->first, k->count);
    clear_tail(j, k, &j->dz, k->first, k->count);
    clear_tail(j, k, &j->ddelta, j->per_head ? k->head0 : k->first, j->per_head ? k->heads : k->count);
    int64_t share = k->index % j->blocks_per_group * j->batch * j->length * j->groups * j->states;
    for (int64_t t = k->length; t < j->length; t++) {
        int64_t at = share + ((k->row * j->length + t) * j->groups + k->group) * j->states;
        memset(j->part_b + at, 0, (size_t)j->states * sizeof(float));
        memset(j->part_c + at, 0, (size_t)j->states * sizeof(float));
    }
}

/* States at the starts of tiles first..last−1, beginning with w->state at tile `first`; every `every`-th goes to `to`. */
static void checkpoint(const struct scan_job *j, const struct block *k, struct back *w, const int64_t span[2], int64_t every,
                       float *to) {
    for (int64_t i = span[0]; i < span[1]; i++) {
        int64_t step = w->starts[i];
        if (starts_anew(j, k, step))
            load_state(j, k, NULL, w->state);
        if ((i - span[0]) % every == 0)
            memcpy(to + (i - span[0]) / every * packed_floats(j), w->state, (size_t)packed_floats(j) * sizeof(float));
        if (i + every - (i - span[0]) % every >= span[1])
            return; /* nothing later is kept */
        stage_tile(j, k, step, &w->t);
        w->t.n_ahead = 0;
        if (i + 1 < span[1]) {
            look_ahead(j, k, w->starts[i + 1], &j->x, &w->t);
            if (!j->per_head)
                look_ahead(j, k, w->starts[i + 1], &j->delta, &w->t);
        }
        recur_only(j, &w->t, k, w->state);
    }
}

static void backward_tile(const struct scan_job *j, const struct block *k, struct back *w, int64_t tile, const float *start) {
    int64_t step = w->starts[tile];
    stage_tile(j, k, step, &w->t);
    if (j->bf16)
        stage_gradient(j, k, step, w, true);
    else
        stage_gradient(j, k, step, w, false);
    w->t.n_ahead = 0;
    look_ahead(j, k, step, &j->dx, &w->t);
    look_ahead(j, k, step, &j->dz, &w->t);
    if (!j->per_head)
        look_ahead(j, k, step, &j->ddelta, &w->t);
    if (tile > 0) {
        look_ahead(j, k, w->starts[tile - 1], &j->x, &w->t);
        look_ahead(j, k, w->starts[tile - 1], &j->dy, &w->t);
        look_ahead(j, k, w->starts[tile - 1], &j->z, &w->t);
        if (!j->per_head)
            look_ahead(j, k, w->starts[tile - 1], &j->delta, &w->t);
    }
    sweep_any(j, k, w, start);
    if (j->per_head && j->bf16)
        finish_heads(j, k, step, w, true);
    else if (j->per_head)
        finish_heads(j, k, step, w, false);
    else if (j->bf16)
        finish_channels(j, k, step, w, true);
    else
        finish_channels(j, k, step, w, false);
    finish_states(j, k, step, w);
    if (starts_anew(j, k, step))
        load_state(j, k, NULL, w->lambda); /* nothing flows across the start of a segment */
}

static void backward_row(const struct scan_job *j, const struct block *k, struct back *w) {
    w->n_tiles = 0;
    for (int64_t step = 0; step < k->length; step += tile_steps(j, k, step))
        w->starts[w->n_tiles++] = step;
    load_state(j, k, j->dht, w->lambda);
    load_state(j, k, j->h0, w->state);
    int64_t spans = (w->n_tiles + SCAN_SPAN - 1) / SCAN_SPAN;
    checkpoint(j, k, w, (int64_t[]){0, w->n_tiles}, SCAN_SPAN, w->spans);
    for (int64_t s = spans - 1; s >= 0; s--) {
        int64_t first = s * SCAN_SPAN, last = first + SCAN_SPAN < w->n_tiles ? first + SCAN_SPAN : w->n_tiles;
        memcpy(w->state, w->spans + s * packed_floats(j), (size_t)packed_floats(j) * sizeof(float));
        checkpoint(j, k, w, (int64_t[]){first, last}, 1, w->tiles);
        for (int64_t i = last - 1; i >= first; i--)
            backward_tile(j, k, w, i, w->tiles + (i - first) * packed_floats(j));
    }
    if (j->dh0)
        store_state(j, k, w->lambda, j->dh0);
    clear_gradient_tails(j, k);
}

static void backward_item(const void *ctx, int64_t item, int lane) {
    const struct scan_lanes *work = ctx;
    const struct scan_job *j = work->job;
    int64_t slice = item / j->blocks, block = item % j->blocks;
    struct carver carver = {lane_scratch(work, lane), 0};
    struct back w = back_carve(j, &carver);
    int64_t width = w.t.lanes, a_floats = j->per_head ? width : packed_floats(j);
    w.sum_a = j->part_a + item * a_floats;
    w.sum_skip = j->part_skip + item * width;
    w.sum_bias = j->part_bias + item * width;
    memset(w.sum_a, 0, (size_t)a_floats * sizeof(float));
    memset(w.sum_skip, 0, (size_t)width * sizeof(float));
    memset(w.sum_bias, 0, (size_t)width * sizeof(float));
    for (int64_t row = slice * j->batch / j->slices; row < (slice + 1) * j->batch / j->slices; row++) {
        struct block k = block_at(j, row, block);
        if (row == slice * j->batch / j->slices)
            stage_block(j, &k, &w.t);
        backward_row(j, &k, &w);
    }
}

static void sum_parts(const float *parts, int64_t n_parts, int64_t stride, int64_t count, float *ret) {
    for (int64_t i = 0; i < count; i += VW) {
        vf total = act_load(parts, false, i, count - i);
        for (int64_t p = 1; p < n_parts; p++)
            total += act_load(parts, false, p * stride + i, count - i);
        act_store(ret, false, i, count - i, total);
    }
}

/* dA += Σ over slices of the packed shares, which are added up in the first. */
static void unpack_a(const struct scan_job *j, int64_t block, float *da) {
    struct block k = block_at(j, 0, block);
    float *sum = j->part_a + block * packed_floats(j);
    sum_parts(sum, j->slices, j->blocks * packed_floats(j), packed_floats(j), sum);
    for (int64_t c = 0; c < k.count; c++)
        for (int64_t n = 0; n < j->states; n++)
            da[(k.first + c) * j->states + n] += sum[(c / VW * j->states_padded + n) * VW + c % VW];
}

static void write_row(const float *row, int64_t count, bool bf16, void *dst, int64_t at) {
    for (int64_t i = 0; i < count; i += VW)
        act_store(dst, bf16, at + i, count - i, act_load(row, false, i, count - i));
}
