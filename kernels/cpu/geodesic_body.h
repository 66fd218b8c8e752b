/* geodesic_body: the networks of the geodesic ops on one instruction set. Included by geodesic_{base,avx2,avx512}.c, which define
 * GEODESIC_KERNELS and GEODESIC_ISA. All three products of a layer (forward, gradient of its input, gradient of its weights) read
 * one matrix a number at a time and the other a panel at a time, so that nothing is transposed; a panel is as wide as two vectors
 * (four where there are 32 registers), and a block of rows of it stays in registers. */
#include "kernels/cpu/geodesic_job.h"
#include "kernels/cpu/scan_simd.h"

#if defined(__AVX512F__)
enum { VN = 4 };
#else
enum { VN = 2 };
#endif
enum { PANEL = VN * VW, MR = 6, SUM_ROWS = 4, ABREAST = 4 };

/* tanh of `count` vectors side by side: (1 − e^(−2|x|))/(1 + e^(−2|x|)) with the sign of x; absolute error below 3e-7. */
INLINE void tanh_many(vf *x, const int count) {
    vf e[ABREAST];
#pragma GCC unroll 4
    for (int i = 0; i < count; i++)
        e[i] = vf_abs(x[i]) * -2.885390082f;
    vf_exp2_many(e, count);
#pragma GCC unroll 4
    for (int i = 0; i < count; i++) {
        vf t = (1.0f - e[i]) / (1.0f + e[i]);
        x[i] = (vf)((vi)t | ((vi)x[i] & (int32_t)0x80000000));
    }
}

/* n is a multiple of ABREAST·VW. */
static void tanh_all(float *p, int n) {
    for (int i = 0; i < n; i += ABREAST * VW) {
        vf x[ABREAST];
#pragma GCC unroll 4
        for (int k = 0; k < ABREAST; k++)
            x[k] = vf_load(p + i + k * VW);
        tanh_many(x, ABREAST);
#pragma GCC unroll 4
        for (int k = 0; k < ABREAST; k++)
            vf_store(p + i + k * VW, x[k]);
    }
}

/* ---- products -------------------------------------------------------------------------------------------------- */

struct product {
    const float *a, *b, *bias; /* a: panels of `rows` rows, k columns; b: panels of k rows; bias of the columns of c, or NULL */
    float *c;
    int rows, first, end, k, columns; /* rows [first, end) of c are wanted */
};

/* mr rows of one panel of c, from row r. */
INLINE void product_block(const struct product *p, const float *b, const float *bias, float *c, int r, const int mr) {
    vf acc[MR][VN];
    const float *a = p->a + (int64_t)r * PANEL;
#pragma GCC unroll 6
    for (int m = 0; m < mr; m++)
#pragma GCC unroll 4
        for (int v = 0; v < VN; v++)
            acc[m][v] = bias ? vf_load(bias + v * VW) : (vf){0};
    for (int k = 0; k < p->k; k += PANEL, a += (int64_t)p->rows * PANEL)
        for (int kk = 0; kk < PANEL; kk++, b += PANEL) {
            vf row[VN];
#pragma GCC unroll 4
            for (int v = 0; v < VN; v++)
                row[v] = vf_load(b + v * VW);
#pragma GCC unroll 6
            for (int m = 0; m < mr; m++) {
                vf x = vf_all(a[m * PANEL + kk]);
#pragma GCC unroll 4
                for (int v = 0; v < VN; v++)
                    acc[m][v] += x * row[v];
            }
        }
#pragma GCC unroll 6
    for (int m = 0; m < mr; m++)
#pragma GCC unroll 4
        for (int v = 0; v < VN; v++)
            vf_store(c + (int64_t)(r + m) * PANEL + v * VW, acc[m][v]);
}

/* c = a·b + bias. */
static void product(const struct product *p) {
    for (int j = 0; j < p->columns; j += PANEL) {
        const float *b = p->b + (int64_t)j * p->k, *bias = p->bias ? p->bias + j : NULL;
        float *c = p->c + (int64_t)j * p->rows;
        int r = p->first;
        for (; r + MR <= p->end; r += MR)
            product_block(p, b, bias, c, r, MR);
        if (r + 4 <= p->end) {
            product_block(p, b, bias, c, r, 4);
            r += 4;
        }
        if (r + 2 <= p->end)
            product_block(p, b, bias, c, r, 2);
    }
}

/* c (m rows, n columns) += aᵀ·b over `rows`; a and b are panels of m and n columns. */
static void add_outer(const float *a, int m, const float *b, int n, int rows, float *c) {
    for (int j = 0; j < n; j += PANEL)
        for (int i = 0; i < m; i += SUM_ROWS) {
            const float *ai = a + (int64_t)(i / PANEL) * rows * PANEL + i % PANEL, *bj = b + (int64_t)j * rows;
            float *at = c + (int64_t)j * m + (int64_t)i * PANEL;
            vf acc[SUM_ROWS][VN];
#pragma GCC unroll 4
            for (int q = 0; q < SUM_ROWS; q++)
#pragma GCC unroll 4
                for (int v = 0; v < VN; v++)
                    acc[q][v] = vf_load(at + q * PANEL + v * VW);
            for (int r = 0; r < rows; r++, ai += PANEL, bj += PANEL) {
                vf row[VN];
#pragma GCC unroll 4
                for (int v = 0; v < VN; v++)
                    row[v] = vf_load(bj + v * VW);
#pragma GCC unroll 4
                for (int q = 0; q < SUM_ROWS; q++) {
                    vf x = vf_all(ai[q]);
#pragma GCC unroll 4
                    for (int v = 0; v < VN; v++)
                        acc[q][v] += x * row[v];
                }
            }
#pragma GCC unroll 4
            for (int q = 0; q < SUM_ROWS; q++)
#pragma GCC unroll 4
                for (int v = 0; v < VN; v++)
                    vf_store(at + q * PANEL + v * VW, acc[q][v]);
        }
}

/* ---- layers ---------------------------------------------------------------------------------------------------- */

static int all_rows(const struct mlp_tile *t) { return t->tangent ? 2 * t->rows : t->rows; }

static void first_layer(struct mlp_shape n, const struct mlp_packed *p, struct mlp_tile *t) {
    int all = all_rows(t), rows = t->rows;
    for (int j = 0; j < n.hidden1; j += VW) {
        float *h = t->h1 + (int64_t)(j / PANEL) * all * PANEL + j % PANEL;
        vf bias = vf_load(p->b1 + j);
        for (int r = 0; r < rows; r++) {
            vf z = bias;
            for (int k = 0; k < n.in; k++)
                z += t->x[k][r] * vf_load(p->w1 + k * n.hidden1 + j);
            vf_store(h + r * PANEL, z);
        }
    }
    for (int j = 0; j < n.hidden1; j += PANEL)
        tanh_all(t->h1 + (int64_t)j * all, rows * PANEL);
    for (int j = 0; t->tangent && j < n.hidden1; j += VW) {
        float *h = t->h1 + (int64_t)(j / PANEL) * all * PANEL + j % PANEL;
        vf slope = vf_load(p->w1 + j);
        for (int r = 0; r < rows; r++) {
            vf v = vf_load(h + r * PANEL);
            vf_store(h + (rows + r) * PANEL, (1.0f - v * v) * slope);
        }
    }
}

static void last_layer(struct mlp_shape n, const struct mlp_packed *p, struct mlp_tile *t) {
    int all = all_rows(t);
    for (int r = 0; r < t->rows; r++) {
        vf y = {0}, dot = {0};
        for (int j = 0; j < n.hidden2; j += PANEL)
            for (int v = 0; v < PANEL; v += VW) {
                const float *at = t->h2 + (int64_t)j * all + r * PANEL + v;
                vf h = vf_load(at), w = vf_load(p->w3 + j + v);
                y += h * w;
                if (t->tangent)
                    dot += (1.0f - h * h) * vf_load(at + (int64_t)t->rows * PANEL) * w;
            }
        t->y[r] = *p->b3 + vf_sum(y);
        if (t->tangent)
            t->y[t->rows + r] = vf_sum(dot);
    }
}

static void forward(struct mlp_shape n, const struct mlp_packed *p, struct mlp_tile *t) {
    int all = all_rows(t);
    first_layer(n, p, t);
    struct product values = {t->h1, p->w2_forward, p->b2, t->h2, all, 0, t->rows, n.hidden1, n.hidden2};
    product(&values);
    for (int j = 0; j < n.hidden2; j += PANEL)
        tanh_all(t->h2 + (int64_t)j * all, t->rows * PANEL);
    if (t->tangent) {
        struct product tangents = {t->h1, p->w2_forward, NULL, t->h2, all, t->rows, all, n.hidden1, n.hidden2};
        product(&tangents);
    }
    last_layer(n, p, t);
}

/* Sums of the last layer, and h2 replaced by the gradient of what goes into the second tanh. With h' = (1 − h²)·z':
 * dz' = dy'·w3·(1 − h²), dz = (dy·w3 − 2·h·z'·dy'·w3)·(1 − h²). */
static void last_layer_backward(struct mlp_shape n, const struct mlp_packed *p, struct mlp_tile *t, const struct mlp_packed *sums) {
    int all = all_rows(t), rows = t->rows;
    float total = 0;
    for (int r = 0; r < rows; r++)
        total += t->dy[r];
    *sums->b3 += total;
    for (int j = 0; j < n.hidden2; j += VW) {
        float *at = t->h2 + (int64_t)(j / PANEL) * all * PANEL + j % PANEL, *tangents = at + (int64_t)rows * PANEL;
        vf w = vf_load(p->w3 + j), dw = vf_load(sums->w3 + j), db = vf_load(sums->b2 + j);
        for (int r = 0; r < rows; r++) {
            vf h = vf_load(at + r * PANEL), slope = 1.0f - h * h, g = t->dy[r] * w;
            dw += t->dy[r] * h;
            if (t->tangent) {
                vf z = vf_load(tangents + r * PANEL), gt = t->dy[rows + r] * w;
                dw += t->dy[rows + r] * slope * z;
                g -= 2.0f * h * z * gt;
                vf_store(tangents + r * PANEL, gt * slope);
            }
            g *= slope;
            db += g;
            vf_store(at + r * PANEL, g);
        }
        vf_store(sums->w3 + j, dw);
        vf_store(sums->b2 + j, db);
    }
}

/* d1, the gradient of h1, becomes that of what goes into the first tanh; sums of the first layer. */
static void first_layer_backward(struct mlp_shape n, const struct mlp_packed *p, struct mlp_tile *t,
                                 const struct mlp_packed *sums) {
    int all = all_rows(t), rows = t->rows;
    for (int j = 0; j < n.hidden1; j += VW) {
        int64_t offset = (int64_t)(j / PANEL) * all * PANEL + j % PANEL;
        float *d = t->d1 + offset;
        const float *at = t->h1 + offset;
        vf slope0 = vf_load(p->w1 + j), db = vf_load(sums->b1 + j), dw[MLP_MAX_INPUTS], extra = {0};
        for (int k = 0; k < n.in; k++)
            dw[k] = vf_load(sums->w1 + k * n.hidden1 + j);
        for (int r = 0; r < rows; r++) {
            vf h = vf_load(at + r * PANEL), slope = 1.0f - h * h, g = vf_load(d + r * PANEL);
            if (t->tangent) {
                vf gt = vf_load(d + (rows + r) * PANEL);
                g -= 2.0f * h * slope0 * gt;
                extra += gt * slope;
            }
            g *= slope;
            vf_store(d + r * PANEL, g);
            db += g;
            for (int k = 0; k < n.in; k++)
                dw[k] += t->x[k][r] * g;
        }
        dw[0] += extra;
        vf_store(sums->b1 + j, db);
        for (int k = 0; k < n.in; k++)
            vf_store(sums->w1 + k * n.hidden1 + j, dw[k]);
    }
}

static void backward(struct mlp_shape n, const struct mlp_packed *p, struct mlp_tile *t, const struct mlp_packed *sums,
                     int first_dx, int end_dx) {
    int all = all_rows(t);
    last_layer_backward(n, p, t, sums);
    add_outer(t->h2, n.hidden2, t->h1, n.hidden1, all, sums->w2_backward);
    struct product d1 = {t->h2, p->w2_backward, NULL, t->d1, all, 0, all, n.hidden2, n.hidden1};
    product(&d1);
    first_layer_backward(n, p, t, sums);
    for (int k = first_dx; k < end_dx; k++)
        for (int r = 0; r < t->rows; r++) {
            vf sum = {0};
            for (int j = 0; j < n.hidden1; j += PANEL)
                for (int v = 0; v < PANEL; v += VW)
                    sum += vf_load(t->d1 + (int64_t)j * all + r * PANEL + v) * vf_load(p->w1 + k * n.hidden1 + j + v);
            t->dx[k][r] = vf_sum(sum);
        }
}

/* ---- the rest -------------------------------------------------------------------------------------------------- */

static void root(const float *z, int n, float floor, float *w, float *slope) {
    for (int i = 0; i < n; i += VW) {
        int64_t count = n - i < VW ? n - i : VW;
        vf x = act_load(z, false, i, count), g = vf_softplus(x) + floor, r;
        for (int k = 0; k < VW; k++)
            r[k] = __builtin_sqrtf(g[k]);
        act_store(w, false, i, count, r);
        act_store(slope, false, i, count, vf_sigmoid(x) / (2.0f * r));
    }
}

static void pack(struct mlp_shape n, const float *row, const struct mlp_packed *to) {
    struct mlp_offsets o = mlp_offsets_of(n);
    const float *w2 = row + o.w2;
    for (int j = 0; j < n.hidden1; j++)
        for (int k = 0; k < n.in; k++)
            to->w1[k * n.hidden1 + j] = row[o.w1 + j * n.in + k];
    memcpy(to->b1, row + o.b1, (size_t)n.hidden1 * sizeof *row);
    memcpy(to->b2, row + o.b2, (size_t)n.hidden2 * sizeof *row);
    memcpy(to->w3, row + o.w3, (size_t)n.hidden2 * sizeof *row);
    *to->b3 = row[o.b3];
    for (int j = 0; j < n.hidden2; j++)
        for (int i = 0; i < n.hidden1; i++)
            to->w2_forward[(int64_t)(j / PANEL) * n.hidden1 * PANEL + i * PANEL + j % PANEL] = w2[j * n.hidden1 + i];
    for (int i = 0; i < n.hidden1; i += PANEL)
        for (int j = 0; j < n.hidden2; j++)
            memcpy(to->w2_backward + (int64_t)i * n.hidden2 + j * PANEL, w2 + j * n.hidden1 + i, PANEL * sizeof *row);
}

static void unpack(struct mlp_shape n, const struct mlp_packed *sums, float *row) {
    struct mlp_offsets o = mlp_offsets_of(n);
    for (int j = 0; j < n.hidden1; j++) {
        row[o.b1 + j] += sums->b1[j];
        for (int k = 0; k < n.in; k++)
            row[o.w1 + j * n.in + k] += sums->w1[k * n.hidden1 + j];
    }
    for (int j = 0; j < n.hidden2; j++) {
        row[o.b2 + j] += sums->b2[j];
        row[o.w3 + j] += sums->w3[j];
        for (int i = 0; i < n.hidden1; i++)
            row[o.w2 + j * n.hidden1 + i] += sums->w2_backward[(int64_t)(i / PANEL) * n.hidden2 * PANEL + j * PANEL + i % PANEL];
    }
    row[o.b3] += *sums->b3;
}

const struct geodesic_kernels GEODESIC_KERNELS = {GEODESIC_ISA, PANEL, pack, unpack, forward, backward, root};
