/* Mamba-2 scan, direct recurrence. One (batch row, head) at a time: the state (N rows of P channels) stays in cache, the P channels
 * are the vector lanes, the decay is one scalar per step. The backward pass recomputes states chunk by chunk from checkpoints
 * and keeps the product form a·h, which does not cancel when the decay underflows. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"

enum { CHUNK = 64 }; /* steps between checkpoints of the backward pass */

/* One (batch row, head). Pointers are at time 0 of that row; strides in elements per time step. */
struct head {
    const float *x, *delta, *b, *c;
    int64_t ldx, ldd, ldb, ldc;
    int64_t l, p, n;
    float a, dskip, dbias;
    bool softplus, reverse;
};

static struct head head_of(const struct ssd_args *a, int64_t batch, int64_t h) {
    int64_t l = a->x.dim[1], p = a->x.dim[2] / a->heads, n = a->Bm.dim[2] / a->groups, group = h / (a->heads / a->groups);
    return (struct head){
        .x = cf(&a->x) + batch * l * a->x.ld + h * p,
        .delta = cf(&a->delta) + batch * l * a->delta.ld + h,
        .b = cf(&a->Bm) + batch * l * a->Bm.ld + group * n,
        .c = cf(&a->Cm) + batch * l * a->Cm.ld + group * n,
        .ldx = a->x.ld,
        .ldd = a->delta.ld,
        .ldb = a->Bm.ld,
        .ldc = a->Cm.ld,
        .l = l,
        .p = p,
        .n = n,
        .a = cf(&a->A)[h],
        .dskip = tensor_present(&a->Dskip) ? cf(&a->Dskip)[h] : 0.0f,
        .dbias = tensor_present(&a->dbias) ? cf(&a->dbias)[h] : 0.0f,
        .softplus = a->softplus,
        .reverse = a->reverse,
    };
}

/* log(1 + e) for e in (0, 1] as 2·atanh(e/(2+e)): keeps its digits for small e. */
static float log1p_unit(float e) {
    float u = e / (2.0f + e), v = u * u;
    float p = 1.0f / 13.0f;
    p = p * v + 1.0f / 11.0f;
    p = p * v + 1.0f / 9.0f;
    p = p * v + 1.0f / 7.0f;
    p = p * v + 1.0f / 5.0f;
    p = p * v + 1.0f / 3.0f;
    p = p * v + 1.0f;
    return 2.0f * u * p;
}

static float softplus(float x) {
    float e = vm_exp(x > 0 ? -x : x);
    return (x > 0 ? x : 0.0f) + log1p_unit(e);
}

static float step_size(const struct head *h, int64_t t) {
    float pre = h->delta[t * h->ldd] + h->dbias;
    return h->softplus ? softplus(pre) : pre;
}

/* state = a·state + (Δx) ⊗ B; y = Σ_n state·C + D·x (y may be NULL: states only). */
CPU_CLONES static void forward_step(const struct head *h, int64_t t, float *restrict state, float *restrict xd, float *restrict y) {
    const float *restrict x = h->x + t * h->ldx, *restrict b = h->b + t * h->ldb, *restrict c = h->c + t * h->ldc;
    float delta = step_size(h, t), decay = vm_exp(delta * h->a);
    int64_t p = h->p;
    for (int64_t i = 0; i < p; i++)
        xd[i] = delta * x[i];
    if (!y) {
        for (int64_t k = 0; k < h->n; k++) {
            float bk = b[k];
            for (int64_t i = 0; i < p; i++)
                state[k * p + i] = decay * state[k * p + i] + bk * xd[i];
        }
        return;
    }
    for (int64_t i = 0; i < p; i++)
        y[i] = h->dskip * x[i];
    for (int64_t k = 0; k < h->n; k++) {
        float bk = b[k], ck = c[k];
        for (int64_t i = 0; i < p; i++) {
            float v = decay * state[k * p + i] + bk * xd[i];
            state[k * p + i] = v;
            y[i] += ck * v;
        }
    }
}

/* The same with P = 64 known, so that y and Δx stay in registers. */
CPU_CLONES static void forward_step_64(const struct head *h, int64_t t, float *restrict state, float *restrict y) {
    const float *restrict x = h->x + t * h->ldx, *restrict b = h->b + t * h->ldb, *restrict c = h->c + t * h->ldc;
    float delta = step_size(h, t), decay = vm_exp(delta * h->a);
    float xd[64], acc[64];
    for (int i = 0; i < 64; i++) {
        xd[i] = delta * x[i];
        acc[i] = h->dskip * x[i];
    }
    for (int64_t k = 0; k < h->n; k++) {
        float bk = b[k], ck = c[k];
        float *restrict row = state + k * 64;
        for (int i = 0; i < 64; i++) {
            float v = decay * row[i] + bk * xd[i];
            row[i] = v;
            acc[i] += ck * v;
        }
    }
    memcpy(y, acc, sizeof acc);
}

static int64_t time_of(const struct head *h, int64_t step) {
    return h->reverse ? h->l - 1 - step : step;
}

/* (P,N) as stored outside ↔ (N,P) as computed with. */
static void load_state(const float *outside, float *state, int64_t p, int64_t n) {
    for (int64_t i = 0; i < p; i++)
        for (int64_t k = 0; k < n; k++)
            state[k * p + i] = outside ? outside[i * n + k] : 0.0f;
}

static void store_state(const float *state, float *outside, int64_t p, int64_t n) {
    for (int64_t i = 0; i < p; i++)
        for (int64_t k = 0; k < n; k++)
            outside[i * n + k] = state[k * p + i];
}

int cpu_ssd(struct stream *s, const struct ssd_args *a, struct err *err) {
    int64_t b = a->x.dim[0], l = a->x.dim[1], p = a->x.dim[2] / a->heads, n = a->Bm.dim[2] / a->groups, heads = a->heads;
    size_t per_head = (size_t)(n * p + p);
    float *scratch = cpu_scratch(s, (size_t)(b * heads) * per_head * sizeof *scratch, err);
    if (!scratch)
        return ERR_EXHAUSTED;
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t i = 0; i < b; i++)
        for (int64_t j = 0; j < heads; j++) {
            struct head h = head_of(a, i, j);
            float *state = scratch + (size_t)(i * heads + j) * per_head;
            load_state(tensor_present(&a->h0) ? cf(&a->h0) + (i * heads + j) * p * n : NULL, state, p, n);
            for (int64_t step = 0; step < l; step++) {
                int64_t t = time_of(&h, step);
                float *y = mf(&a->y) + (i * l + t) * a->y.ld + j * p;
                if (p == 64)
                    forward_step_64(&h, t, state, y);
                else
                    forward_step(&h, t, state, state + n * p, y);
            }
            if (tensor_present(&a->hT))
                store_state(state, mf(&a->hT) + (i * heads + j) * p * n, p, n);
        }
    return 0;
}

/* Gradients of one head: per-step outputs and this head's share of dB, dC. */
struct head_gradient {
    const float *dy;
    int64_t lddy;
    float *dx, *ddelta; /* at time 0 of the row */
    int64_t lddx, lddd;
    float *db, *dc; /* (L,N), dense, this head's own */
    float da, ddskip, ddbias;
};

/* One step backwards. before = h_{t−1}, now = h_t, lambda = adjoint of h_t on entry without gy⊗C, a·λ for t−1 on exit. */
CPU_CLONES static void backward_step(const struct head *h, struct head_gradient *g, int64_t t, const float *restrict before,
                                     const float *restrict now, float *restrict lambda) {
    const float *restrict x = h->x + t * h->ldx, *restrict b = h->b + t * h->ldb, *restrict c = h->c + t * h->ldc;
    const float *restrict gy = g->dy + t * g->lddy;
    float *restrict db = g->db + t * h->n, *restrict dc = g->dc + t * h->n, *restrict dx = g->dx + t * g->lddx;
    int64_t p = h->p;
    float pre = h->delta[t * h->ldd] + h->dbias, delta = h->softplus ? softplus(pre) : pre, decay = vm_exp(delta * h->a);
    float dxd[256], decay_dot = 0.0f;
    memset(dxd, 0, (size_t)p * sizeof *dxd);
    for (int64_t k = 0; k < h->n; k++) {
        float bk = b[k], ck = c[k], sum_c = 0.0f, sum_b = 0.0f, dot = 0.0f;
#pragma omp simd reduction(+ : sum_c, sum_b, dot)
        for (int64_t i = 0; i < p; i++) {
            float v = lambda[k * p + i] + gy[i] * ck;
            sum_c += gy[i] * now[k * p + i];
            sum_b += v * x[i];
            dot += v * before[k * p + i];
            dxd[i] += v * bk;
            lambda[k * p + i] = decay * v;
        }
        dc[k] = sum_c;
        db[k] = sum_b * delta;
        decay_dot += dot;
    }
    float x_dot = 0.0f, skip_dot = 0.0f;
#pragma omp simd reduction(+ : x_dot, skip_dot)
    for (int64_t i = 0; i < p; i++) {
        x_dot += x[i] * dxd[i];
        skip_dot += gy[i] * x[i];
        dx[i] = delta * dxd[i] + h->dskip * gy[i];
    }
    float ddelta = h->a * decay * decay_dot + x_dot;
    float dpre = h->softplus ? ddelta * vm_sigmoid(pre) : ddelta;
    g->ddelta[t * g->lddd] = dpre;
    g->ddbias += dpre;
    g->da += delta * decay * decay_dot;
    g->ddskip += skip_dot;
}

/* Scratch of one head: checkpoints, the states of one chunk, the adjoint, Δx. */
static size_t head_scratch(int64_t l, int64_t np, int64_t p) {
    return (size_t)(((l + CHUNK - 1) / CHUNK) * np + (CHUNK + 1) * np + np + p);
}

static void backward_head(const struct head *h, struct head_gradient *g, const float *h0, float *scratch, float *lambda) {
    int64_t np = h->n * h->p, chunks = (h->l + CHUNK - 1) / CHUNK;
    float *checkpoints = scratch, *states = checkpoints + chunks * np, *xd = states + (CHUNK + 1) * np;
    load_state(h0, states, h->p, h->n);
    for (int64_t step = 0; step < h->l; step++) {
        if (step % CHUNK == 0)
            memcpy(checkpoints + step / CHUNK * np, states, (size_t)np * sizeof *states);
        forward_step(h, time_of(h, step), states, xd, NULL);
    }
    for (int64_t chunk = chunks - 1; chunk >= 0; chunk--) {
        int64_t first = chunk * CHUNK, count = chunk + 1 < chunks ? CHUNK : h->l - first;
        memcpy(states, checkpoints + chunk * np, (size_t)np * sizeof *states);
        for (int64_t i = 0; i < count; i++) {
            memcpy(states + (i + 1) * np, states + i * np, (size_t)np * sizeof *states);
            forward_step(h, time_of(h, first + i), states + (i + 1) * np, xd, NULL);
        }
        for (int64_t i = count - 1; i >= 0; i--)
            backward_step(h, g, time_of(h, first + i), states + i * np, states + (i + 1) * np, lambda);
    }
}

/* dB and dC of a group: its heads' shares added in order. */
static void reduce_heads(const struct ssd_backward_args *a, const float *shares, int64_t heads, int64_t n) {
    int64_t b = a->fwd.x.dim[0], l = a->fwd.x.dim[1], groups = a->fwd.groups, per = heads / groups;
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t i = 0; i < b; i++)
        for (int64_t t = 0; t < l; t++)
            for (int64_t q = 0; q < groups; q++) {
                float *db = mf(&a->dBm) + (i * l + t) * a->dBm.ld + q * n, *dc = mf(&a->dCm) + (i * l + t) * a->dCm.ld + q * n;
                memset(db, 0, (size_t)n * sizeof *db);
                memset(dc, 0, (size_t)n * sizeof *dc);
                for (int64_t j = q * per; j < (q + 1) * per; j++) {
                    const float *share = shares + ((i * heads + j) * 2 * l + t) * n;
                    for (int64_t k = 0; k < n; k++) {
                        db[k] += share[k];
                        dc[k] += share[l * n + k];
                    }
                }
            }
}

int cpu_ssd_backward(struct stream *s, const struct ssd_backward_args *a, struct err *err) {
    const struct ssd_args *f = &a->fwd;
    int64_t b = f->x.dim[0], l = f->x.dim[1], heads = f->heads, p = f->x.dim[2] / heads, n = f->Bm.dim[2] / f->groups;
    size_t per_head = head_scratch(l, n * p, p), shares_count = (size_t)(b * heads * 2 * l * n);
    int threads = cpu_stream(s)->threads;
    size_t workers = (size_t)(threads > 0 ? threads : 1);
    float *scratch = cpu_scratch(s, (workers * per_head + shares_count + (size_t)(b * heads) * 3) * sizeof *scratch, err);
    if (!scratch)
        return ERR_EXHAUSTED;
    float *shares = scratch + workers * per_head, *sums = shares + shares_count;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t w = 0; w < (int64_t)workers; w++)
        for (int64_t q = w; q < b * heads; q += (int64_t)workers) {
            int64_t i = q / heads, j = q % heads;
            struct head h = head_of(f, i, j);
            struct head_gradient g = {
                .dy = cf(&a->dy) + i * l * a->dy.ld + j * p,
                .lddy = a->dy.ld,
                .dx = mf(&a->dx) + i * l * a->dx.ld + j * p,
                .lddx = a->dx.ld,
                .ddelta = mf(&a->ddelta) + i * l * a->ddelta.ld + j,
                .lddd = a->ddelta.ld,
                .db = shares + q * 2 * l * n,
                .dc = shares + (q * 2 + 1) * l * n,
            };
            float *mine = scratch + (size_t)w * per_head, *lambda = mine + per_head - n * p;
            load_state(tensor_present(&a->dhT) ? cf(&a->dhT) + q * p * n : NULL, lambda, p, n);
            backward_head(&h, &g, tensor_present(&f->h0) ? cf(&f->h0) + q * p * n : NULL, mine, lambda);
            if (tensor_present(&a->dh0))
                store_state(lambda, mf(&a->dh0) + q * p * n, p, n);
            sums[3 * q] = g.da;
            sums[3 * q + 1] = g.ddskip;
            sums[3 * q + 2] = g.ddbias;
        }
    reduce_heads(a, shares, heads, n);
    for (int64_t q = 0; q < b * heads; q++) {
        mf(&a->dA)[q % heads] += sums[3 * q];
        if (tensor_present(&a->dDskip))
            mf(&a->dDskip)[q % heads] += sums[3 * q + 1];
        if (tensor_present(&a->ddbias))
            mf(&a->ddbias)[q % heads] += sums[3 * q + 2];
    }
    return 0;
}
