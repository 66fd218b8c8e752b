/* ssd_chunked_body: the Mamba-2 scan in chunks of Q tokens as small matrix products, one batch row and head at a time:
 *   c_i = Σ_{k≤i} Δ_k·A;  Y_i = Σ_{j≤i} (C_i·B_j)·e^{c_i − c_j}·X_j + e^{c_i}·C_i·H;  H' = e^{c_Q}·H + Σ_j e^{c_Q − c_j}·B_j ⊗ X_j,
 * X = Δ·x The sums c are kept in double and only their differences, never above zero, are rounded. A segment ends its chunk early.
 */
#pragma once
#include "kernels/cpu/scan_forward_body.h"

struct chunk {
    int64_t q, width; /* tokens of a full chunk, P rounded up */
    int64_t columns;  /* Q rounded up */
    double *c;
    float *delta, *xs, *bt, *cs, *mix, *y, *state; /* xs (Q,width), bt (N,columns), cs (Q,N), state (N,width) */
};

static struct chunk chunk_carve(const struct scan_job *j, int64_t q, struct carver *c) {
    struct chunk k = {.q = q, .width = (j->share + VW - 1) / VW * VW, .columns = (q + VW - 1) / VW * VW};
    k.c = (double *)(void *)carve(c, 2 * q);
    k.delta = carve(c, q);
    k.xs = carve(c, q * k.width);
    k.bt = carve(c, j->states * k.columns);
    k.cs = carve(c, q * j->states);
    k.mix = carve(c, k.columns);
    k.y = carve(c, k.width);
    k.state = carve(c, j->states * k.width);
    return k;
}

static size_t chunked_bytes(const struct scan_job *j, int64_t chunk) {
    struct carver c = {NULL, 0};
    chunk_carve(j, chunk < j->length ? chunk : j->length, &c);
    return c.used;
}

static void chunk_stage(const struct scan_job *j, const struct block *k, int64_t step, int64_t n, const struct chunk *w) {
    int64_t head = k->head0;
    float bias = j->dbias ? j->dbias[head] : 0.0f;
    double sum = 0;
    memset(w->bt, 0, (size_t)(j->states * w->columns) * sizeof(float));
    for (int64_t i = 0; i < n; i++) {
        int64_t row = row_of(j, k, step + i);
        vf d = step_size(step_rule(j), vf_all(act_get(j->delta.data, j->bf16, row * j->delta.row + head) + bias));
        w->delta[i] = d[0];
        sum += (double)d[0] * (double)j->a[head];
        w->c[i] = sum;
        for (int64_t p = 0; p < j->share; p += VW)
            vf_store(w->xs + i * w->width + p, d * act_load(j->x.data, j->bf16, row * j->x.row + k->first + p, j->share - p));
        for (int64_t s = 0; s < j->states; s++) {
            w->bt[s * w->columns + i] = act_get(j->bm.data, j->bf16, row * j->bm.row + k->group * j->bm.step + s);
            w->cs[i * j->states + s] = act_get(j->cm.data, j->bf16, row * j->cm.row + k->group * j->cm.step + s);
        }
    }
}

/* y of token i of a staged chunk. */
static void chunk_output(const struct scan_job *j, const struct chunk *w, int64_t i) {
    const float *c = w->cs + i * j->states;
    for (int64_t q = 0; q <= i; q += VW) {
        vf dot = {0}, exponent;
        for (int64_t s = 0; s < j->states; s++)
            dot += vf_load(w->bt + s * w->columns + q) * c[s];
        for (int lane = 0; lane < VW; lane++) /* beyond the diagonal the weight is not used */
            exponent[lane] = q + lane <= i ? (float)(w->c[i] - w->c[q + lane]) : 0.0f;
        vf_store(w->mix + q, dot * vf_exp(vf_pick(exponent > 0.0f, (vf){0}, exponent)));
    }
    float carried = vf_exp(vf_all((float)w->c[i]))[0];
    for (int64_t p = 0; p < w->width; p += VW) {
        vf y = {0}, old = {0};
        for (int64_t q = 0; q <= i; q++)
            y += vf_load(w->xs + q * w->width + p) * w->mix[q];
        for (int64_t s = 0; s < j->states; s++)
            old += vf_load(w->state + s * w->width + p) * c[s];
        vf_store(w->y + p, y + old * carried);
    }
}

static void chunk_advance(const struct scan_job *j, const struct chunk *w, int64_t n) {
    double end = w->c[n - 1];
    vf carried = vf_exp(vf_all((float)end));
    for (int64_t q = 0; q < n; q++)
        w->mix[q] = vf_exp(vf_all((float)(end - w->c[q] < 0 ? end - w->c[q] : 0)))[0];
    for (int64_t s = 0; s < j->states; s++)
        for (int64_t p = 0; p < w->width; p += VW) {
            vf h = vf_load(w->state + s * w->width + p) * carried;
            for (int64_t q = 0; q < n; q++)
                h += vf_load(w->xs + q * w->width + p) * (w->mix[q] * w->bt[s * w->columns + q]);
            vf_store(w->state + s * w->width + p, h);
        }
}

static struct block head_at(const struct scan_job *j, int64_t item) {
    int64_t heads = j->channels / j->share, head = item % heads;
    struct block k = {.group = head / (heads / j->groups),
                      .first = head * j->share,
                      .count = j->share,
                      .row = item / heads,
                      .heads = 1,
                      .head0 = head};
    k.length = j->lengths ? j->lengths[k.row] : j->length;
    return k;
}

static void chunked_item(const void *ctx, int64_t item, int lane) {
    const struct scan_lanes *work = ctx;
    const struct scan_job *j = work->job;
    struct block k = head_at(j, item);
    struct carver carver = {lane_scratch(work, lane), 0};
    struct chunk w = chunk_carve(j, work->chunk < j->length ? work->chunk : j->length, &carver);
    int64_t state_at = (k.row * j->channels + k.first) * j->states;
    memset(w.xs, 0, (size_t)(w.q * w.width) * sizeof(float));
    memset(w.state, 0, (size_t)(j->states * w.width) * sizeof(float));
    for (int64_t i = 0; i < j->share * j->states && j->h0; i++)
        w.state[i % j->states * w.width + i / j->states] = j->h0[state_at + i];
    float skip = j->dskip ? j->dskip[k.head0] : 0.0f;
    for (int64_t step = 0, n; step < k.length; step += n) {
        if (starts_anew(j, &k, step))
            memset(w.state, 0, (size_t)(j->states * w.width) * sizeof(float));
        for (n = 1; n < w.q && step + n < k.length && !starts_anew(j, &k, step + n);)
            n++;
        chunk_stage(j, &k, step, n, &w);
        for (int64_t i = 0; i < n; i++) {
            int64_t row = row_of(j, &k, step + i);
            chunk_output(j, &w, i);
            for (int64_t p = 0; p < k.count; p += VW) {
                vf y = vf_load(w.y + p);
                if (j->dskip)
                    y += skip * act_load(j->x.data, j->bf16, row * j->x.row + k.first + p, k.count - p);
                act_store(j->y.data, j->bf16, row * j->y.row + k.first + p, k.count - p, y);
            }
        }
        chunk_advance(j, &w, n);
    }
    clear_tail(j, &k, &j->y, k.first, k.count);
    for (int64_t i = 0; i < j->share * j->states && j->ht; i++)
        j->ht[state_at + i] = w.state[i % j->states * w.width + i / j->states];
}
