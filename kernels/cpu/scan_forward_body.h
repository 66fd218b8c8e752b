/* scan_forward_body: h = a·h + Δ·B·x, y = C·h + D·x, out = y·silu(z), for one block of channels of one batch row. Three passes per
 * time tile: Δ, Δ·x and the decay to level-1 scratch; the recurrence, 8 or 16 states at a time in registers; D, gate and
 * store. The channels are the lanes, so a result depends on nothing but its own channel. */
#pragma once
#include "kernels/cpu/scan_stage_body.h"

static size_t forward_bytes(const struct scan_job *j) {
    struct carver c = {NULL, 0};
    stage_carve(j, &c);
    carve(&c, packed_floats(j));
    return c.used;
}

INLINE void recur_states(const struct scan_job *j, const struct stage *t, const struct block *k, float *state,
                         const enum decay kind, const bool out) {
    const float *a2 = j->packed_a ? j->packed_a + k->index * packed_floats(j) : state;
    for (int64_t v = 0; v < k->vectors; v++) {
        int64_t base = v * j->states_padded * VW, n = 0;
#if defined(__AVX512F__)
        for (; kind == DECAY_HEAD && n + 16 <= j->states_padded; n += 16) /* no exponentials: registers are free */
            recur(t, v * VW, n, a2 + base + n * VW, state + base + n * VW, 16, kind, out);
#endif
        for (; n < j->states_padded; n += SCAN_NB)
            recur(t, v * VW, n, a2 + base + n * VW, state + base + n * VW, SCAN_NB, kind, out);
    }
}

static void recur_out(const struct scan_job *j, const struct stage *t, const struct block *k, float *state) {
    if (j->per_head)
        recur_states(j, t, k, state, DECAY_HEAD, true);
    else if (j->zoh)
        recur_states(j, t, k, state, DECAY_ZOH, true);
    else
        recur_states(j, t, k, state, DECAY_STATE, true);
}

/* The state alone, for checkpoints. */
static void recur_only(const struct scan_job *j, const struct stage *t, const struct block *k, float *state) {
    if (j->per_head)
        recur_states(j, t, k, state, DECAY_HEAD, false);
    else if (j->zoh)
        recur_states(j, t, k, state, DECAY_ZOH, false);
    else
        recur_states(j, t, k, state, DECAY_STATE, false);
}

struct finish_row {
    struct act_row x, z, out;
    const float *y, *skip;
};
INLINE void finish_vector(const struct finish_row *r, int64_t c, int64_t left, const bool skip, const bool gate) {
    vf y = vf_load(r->y + c);
    if (skip)
        y += vf_load(r->skip + c) * act_at(r->x, c, left);
    if (gate)
        y *= vf_silu(act_at(r->z, c, left));
    act_put(r->out, c, left, y);
}

INLINE void finish_rows(const struct scan_job *j, const struct block *k, int64_t step, const struct stage *t, const bool skip,
                        const bool gate, const bool bf16) {
    const int64_t count = k->count;
    for (int i = 0; i < t->steps; i++) {
        int64_t row = row_of(j, k, step + i);
        const struct finish_row r = {.x = act_row(&j->x, row, k->first, bf16),
                                     .z = act_row(&j->z, row, k->first, bf16),
                                     .out = act_row(&j->y, row, k->first, bf16),
                                     .y = t->y + i * t->width,
                                     .skip = t->skip};
#define BODY(c, left) finish_vector(&r, c, left, skip, gate)
        EACH_VECTOR(count, BODY);
#undef BODY
    }
}

INLINE void finish_typed(const struct scan_job *j, const struct block *k, int64_t step, const struct stage *t, const bool bf16) {
    if (j->z.data)
        finish_rows(j, k, step, t, true, true, bf16); /* without D the skip row is zero */
    else if (j->dskip)
        finish_rows(j, k, step, t, true, false, bf16);
    else
        finish_rows(j, k, step, t, false, false, bf16);
}

/* Rows past the length of this batch row become zero in a (B,L,·) view. */
static void clear_tail(const struct scan_job *j, const struct block *k, const struct scan_view *v, int64_t first, int64_t count) {
    size_t bytes = j->bf16 ? sizeof(uint16_t) : sizeof(float);
    for (int64_t t = k->length; t < j->length && v->data; t++)
        memset((char *)v->data + (size_t)((k->row * j->length + t) * v->row + first) * bytes, 0, (size_t)count * bytes);
}

/* This tile's output and the inputs of the tile after it, or of the first of the next item, which this thread will most likely do.
 */
static void forward_ahead(const struct scan_job *j, const struct block *k, int64_t item, int64_t step, struct stage *t) {
    struct block next = *k;
    t->n_ahead = 0;
    look_ahead(j, k, step - t->steps, &j->y, t);
    if (step >= k->length) {
        step = 0;
        if (item + 1 < j->batch * j->blocks)
            next = block_at(j, (item + 1) / j->blocks, (item + 1) % j->blocks);
    }
    look_ahead(j, &next, step, &j->x, t);
    if (!j->per_head)
        look_ahead(j, &next, step, &j->delta, t);
    look_ahead(j, &next, step, &j->z, t);
}

static void forward_item(const void *ctx, int64_t item, int lane) {
    const struct scan_lanes *w = ctx;
    const struct scan_job *j = w->job;
    struct block k = block_at(j, item / j->blocks, item % j->blocks);
    struct carver carver = {lane_scratch(w, lane), 0};
    struct stage t = stage_carve(j, &carver);
    float *state = carve(&carver, packed_floats(j));
    stage_block(j, &k, &t);
    load_state(j, &k, j->h0, state);
    for (int64_t step = 0; step < k.length; step += t.steps) {
        if (starts_anew(j, &k, step))
            load_state(j, &k, NULL, state);
        stage_tile(j, &k, step, &t);
        forward_ahead(j, &k, item, step + t.steps, &t);
        recur_out(j, &t, &k, state);
        if (j->bf16)
            finish_typed(j, &k, step, &t, true);
        else
            finish_typed(j, &k, step, &t, false);
    }
    clear_tail(j, &k, &j->y, k.first, k.count);
    if (j->ht)
        store_state(j, &k, state, j->ht);
}
