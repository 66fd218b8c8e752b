/* Loss, gradient norm and AdamW. Sums run over blocks of fixed size, added in order, so that they do not depend on threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/members.h"
#include "kernels/cpu/cpu.h"

enum { BLOCK = 16384 };

struct loss_terms {
    double loss, grad;
};

/* Stable log(1 + e^x). */
static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

/* Loss of one logit and its derivative. With bce = w·softplus(−x) for y = 1 and softplus(x) for y = 0, p_t = σ(±x) and
 * focal = a_t·(1 − p_t)^g·bce: d/dx = a_t·[(1−p_t)^g·bce' ∓ g·(1−p_t)^(g−1)·p_t(1−p_t)·bce]. */
static struct loss_terms loss_of(const struct loss_args *a, double x, bool positive) {
    double sign = positive ? 1.0 : -1.0, z = sign * x;
    double weight = positive ? a->pos_weight : 1.0;
    double bce = weight * softplus(-z), q = 1.0 / (1.0 + exp(z < 700 ? z : 700)); /* q = 1 − p_t */
    double dbce = -weight * q;                                                    /* with respect to z */
    if (a->kind == LOSS_BCE)
        return (struct loss_terms){bce, sign * dbce};
    double alpha = positive ? a->alpha : 1.0 - a->alpha, g = a->gamma;
    double factor = g == 2.0 ? q * q : pow(q, g);
    double dfactor = -g * factor * (1.0 - q); /* d q^g / dz = g·q^(g−1)·(−q(1−q)) */
    return (struct loss_terms){alpha * factor * bce, sign * alpha * (factor * dbce + dfactor * bce)};
}

struct adam_step {
    float beta1, beta2, eps, rate, decay_rate, scale, correct2;
};

struct train_work {
    const void *args; /* the op's */
    double *sums;     /* of each row or block */
    int64_t row;
    struct adam_step step;
    float ema_decay;
};

static void loss_row(const void *ctx, int64_t i, int lane) {
    const struct train_work *w = ctx;
    const struct loss_args *a = w->args;
    const uint8_t *labels = a->labels.data, *mask = a->mask.data;
    float *grad = tensor_present(&a->dlogits) ? mf(&a->dlogits) : NULL;
    double scale = (double)(a->place ? a->place->loss_scale : a->scale), sum = 0, count = 0;
    (void)lane;
    for (int64_t j = 0, t = a->logits.dim[1]; j < t; j++) {
        int64_t at = i * t + j;
        bool counted = j < a->valid[i] && labels[at] <= 1 && (!mask || mask[at]);
        struct loss_terms terms = {0, 0};
        if (counted)
            terms = loss_of(a, (double)cf(&a->logits)[at], labels[at] == 1);
        sum += terms.loss;
        count += counted;
        if (grad)
            grad[at] = (float)(terms.grad * scale);
    }
    w->sums[2 * i] = sum;
    w->sums[2 * i + 1] = count;
}

int cpu_loss(struct stream *s, const struct loss_args *a, struct err *err) {
    int64_t b = a->logits.dim[0];
    double *sums = cpu_scratch(s, (size_t)b * 2 * sizeof *sums, err);
    if (!sums)
        return ERR_EXHAUSTED;
    lanes_for(cpu_threads(s), b, loss_row, &(struct train_work){.args = a, .sums = sums});
    double total = 0, n = 0;
    for (int64_t i = 0; i < b; i++) {
        total += sums[2 * i];
        n += sums[2 * i + 1];
    }
    a->sums[0] = total;
    a->sums[1] = n;
    return 0;
}

/* Rows of an array that is one row, or (G,n). */
static int64_t rows_of(const struct tensor *t) { return t->rank == 2 ? t->dim[0] : 1; }

static int64_t block_length(int64_t i, int64_t n) { return n - i * BLOCK < BLOCK ? n - i * BLOCK : BLOCK; }

static void squares_block(const void *ctx, int64_t block, int lane) {
    const struct train_work *w = ctx;
    const struct tensor *t = &((const struct norm_args *)w->args)->x;
    const float *x = cf(t) + w->row * t->ld + block * BLOCK;
    const int64_t n = block_length(block, t->dim[t->rank - 1]);
    double sum[8] = {0};
    int64_t i = 0;
    (void)lane;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            sum[k] += (double)x[i + k] * (double)x[i + k];
    for (; i < n; i++)
        sum[0] += (double)x[i] * (double)x[i];
    w->sums[block] = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

int cpu_norm(struct stream *s, const struct norm_args *a, struct err *err) {
    const int64_t blocks = (a->x.dim[a->x.rank - 1] + BLOCK - 1) / BLOCK;
    struct train_work w = {.args = a, .sums = cpu_scratch(s, (size_t)blocks * sizeof *w.sums, err)};
    if (!w.sums)
        return ERR_EXHAUSTED;
    for (; w.row < rows_of(&a->x); w.row++) {
        double total = 0;
        lanes_for(cpu_threads(s), blocks, squares_block, &w);
        for (int64_t i = 0; i < blocks; i++)
            total += w.sums[i];
        a->sum_squares[w.row] = total;
    }
    return 0;
}

CPU_CLONES static void adam_block(const struct adam_step *step, const struct adamw_args *a, int64_t row, int64_t at, int64_t n) {
    const struct adam_step h = *step; /* local, so that no store can be thought to change it */
    const float *restrict g = cf(&a->grad) + row * a->grad.ld + at;
    const uint8_t *restrict decay = (const uint8_t *)a->decay.data + at;
    float *restrict p = mf(&a->param) + row * a->param.ld + at;
    float *restrict m = mf(&a->m) + row * a->m.ld + at, *restrict v = mf(&a->v) + row * a->v.ld + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float grad = g[i] * h.scale;
        float mi = h.beta1 * m[i] + (1.0f - h.beta1) * grad;
        float vi = h.beta2 * v[i] + (1.0f - h.beta2) * grad * grad;
        m[i] = mi;
        v[i] = vi;
        float keep = 1.0f - (decay[i] ? h.decay_rate : 0.0f);
        p[i] = p[i] * keep - h.rate * mi / (__builtin_sqrtf(vi) * h.correct2 + h.eps);
    }
}

CPU_CLONES static void ema_block(float *restrict ema, const float *restrict p, int64_t n, float d) {
    for (int64_t i = 0; i < n; i++)
        ema[i] = d * ema[i] + (1.0f - d) * p[i];
}

static void adam_item(const void *ctx, int64_t i, int lane) {
    const struct train_work *w = ctx;
    const struct adamw_args *a = w->args;
    int64_t at = i * BLOCK, count = block_length(i, a->decay.dim[0]);
    (void)lane;
    adam_block(&w->step, a, w->row, at, count);
    if (tensor_present(&a->ema))
        ema_block(mf(&a->ema) + w->row * a->ema.ld + at, cf(&a->param) + w->row * a->param.ld + at, count, w->ema_decay);
}

int cpu_adamw(struct stream *s, const struct adamw_args *a, struct err *err) {
    (void)err;
    struct train_place place;
    if (a->place)
        place = *a->place;
    else
        adamw_place(a, &place);
    struct train_work w = {.args = a,
                           .step = {SAME_MEMBERS(*a, beta1, beta2, eps), .rate = place.rate, .decay_rate = place.decay_rate,
                                    .scale = a->grad_scale, .correct2 = place.correct2},
                           .ema_decay = place.ema_decay};
    for (; w.row < rows_of(&a->param); w.row++) {
        double norm = a->sum_squares ? sqrt(a->sum_squares[w.row]) : 0;
        if (!isfinite(norm))
            continue;
        if (a->sum_squares)
            w.step.scale = (float)(a->clip > 0 && norm > a->clip ? a->clip / norm : 1);
        lanes_for(cpu_threads(s), (a->decay.dim[0] + BLOCK - 1) / BLOCK, adam_item, &w);
    }
    return 0;
}
