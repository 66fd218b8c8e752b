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
enum { PANEL = VN * VW, MR = 6, LAST_ROWS = PANEL % MR, ABREAST = 4 };

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

/* Sums of the vectors of a panel, and of the lanes of a vector, by halves. */
INLINE vf vectors_sum(const vf *x) { return VN == 4 ? (x[0] + x[1]) + (x[VN - 2] + x[VN - 1]) : x[0] + x[1]; }
INLINE float lanes_sum(vf x) {
#if defined(__AVX2__) && !defined(__AVX512F__)
    __m128 half = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
#else
    return vf_sum(x);
#endif
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

/* q rows of one panel of c += aᵀ·b over `rows`. */
INLINE void outer_block(const float *a, const float *b, int rows, float *c, const int q) {
    vf acc[MR][VN];
#pragma GCC unroll 6
    for (int m = 0; m < q; m++)
#pragma GCC unroll 4
        for (int v = 0; v < VN; v++)
            acc[m][v] = vf_load(c + m * PANEL + v * VW);
    for (int r = 0; r < rows; r++, a += PANEL, b += PANEL) {
        vf row[VN];
#pragma GCC unroll 4
        for (int v = 0; v < VN; v++)
            row[v] = vf_load(b + v * VW);
#pragma GCC unroll 6
        for (int m = 0; m < q; m++) {
            vf x = vf_all(a[m]);
#pragma GCC unroll 4
            for (int v = 0; v < VN; v++)
                acc[m][v] += x * row[v];
        }
    }
#pragma GCC unroll 6
    for (int m = 0; m < q; m++)
#pragma GCC unroll 4
        for (int v = 0; v < VN; v++)
            vf_store(c + m * PANEL + v * VW, acc[m][v]);
}

/* c (m rows, n columns) += aᵀ·b over `rows`; a and b are panels of m and n columns. */
static void add_outer(const float *a, int m, const float *b, int n, int rows, float *c) {
    for (int j = 0; j < n; j += PANEL)
        for (int i = 0; i < m; i += PANEL) {
            const float *ai = a + (int64_t)i * rows, *bj = b + (int64_t)j * rows;
            float *at = c + (int64_t)j * m + (int64_t)i * PANEL;
            for (int q = 0; q + MR <= PANEL; q += MR)
                outer_block(ai + q, bj, rows, at + q * PANEL, MR);
            outer_block(ai + PANEL - LAST_ROWS, bj, rows, at + (PANEL - LAST_ROWS) * PANEL, LAST_ROWS);
        }
}

/* ---- layers ---------------------------------------------------------------------------------------------------- */

static int all_rows(const struct mlp_tile *t) { return t->tangent ? 2 * t->rows : t->rows; }

/* Pre-activations of the first hidden layer, for the panel of columns from j; `in` inputs. */
INLINE void first_sums(struct mlp_shape n, const struct mlp_packed *p, struct mlp_tile *t, int j, const int in) {
    float *h = t->h1 + (int64_t)j * all_rows(t);
    vf bias[VN], w[MLP_MAX_INPUTS][VN];
    for (int v = 0; v < VN; v++) {
        bias[v] = vf_load(p->b1 + j + v * VW);
        for (int k = 0; k < in; k++)
            w[k][v] = vf_load(p->w1 + k * n.hidden1 + j + v * VW);
    }
    for (int r = 0; r < t->rows; r++, h += PANEL)
        for (int v = 0; v < VN; v++) {
            vf z = bias[v];
            for (int k = 0; k < in; k++)
                z += t->x[k][r] * w[k][v];
            vf_store(h + v * VW, z);
        }
}

static void first_layer(struct mlp_shape n, const struct mlp_packed *p, struct mlp_tile *t) {
    int all = all_rows(t), rows = t->rows;
    for (int j = 0; j < n.hidden1; j += PANEL) {
        if (n.in == 2)
            first_sums(n, p, t, j, 2);
        else if (n.in == 3)
            first_sums(n, p, t, j, 3);
        else
            first_sums(n, p, t, j, n.in);
        tanh_all(t->h1 + (int64_t)j * all, rows * PANEL);
    }
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
        vf y[VN] = {0}, dot = {0};
        for (int j = 0; j < n.hidden2; j += PANEL)
#pragma GCC unroll 4
            for (int v = 0; v < VN; v++) {
                const float *at = t->h2 + (int64_t)j * all + r * PANEL + v * VW;
                vf h = vf_load(at), w = vf_load(p->w3 + j + v * VW);
                y[v] += h * w;
                if (t->tangent)
                    dot += (1.0f - h * h) * vf_load(at + (int64_t)t->rows * PANEL) * w;
            }
        t->y[r] = *p->b3 + lanes_sum(vectors_sum(y));
        if (t->tangent)
            t->y[t->rows + r] = lanes_sum(dot);
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

/* Sums of the last layer, and h2 replaced by the gradient of what goes into the second tanh, a panel from column j. With
 * h' = (1 − h²)·z': dz' = dy'·w3·(1 − h²), dz = (dy·w3 − 2·h·z'·dy'·w3)·(1 − h²). */
INLINE void last_panel_backward(const struct mlp_packed *p, struct mlp_tile *t, const struct mlp_packed *sums, int j,
                                const bool tangent) {
    int rows = t->rows;
    float *at = t->h2 + (int64_t)j * all_rows(t), *tangents = at + (int64_t)rows * PANEL;
    vf w[VN], dw[VN], db[VN];
    for (int v = 0; v < VN; v++) {
        w[v] = vf_load(p->w3 + j + v * VW);
        dw[v] = vf_load(sums->w3 + j + v * VW);
        db[v] = vf_load(sums->b2 + j + v * VW);
    }
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < VN; v++) {
            vf h = vf_load(at + r * PANEL + v * VW), slope = 1.0f - h * h, g = t->dy[r] * w[v];
            dw[v] += t->dy[r] * h;
            if (tangent) {
                vf z = vf_load(tangents + r * PANEL + v * VW), gt = t->dy[rows + r] * w[v];
                dw[v] += t->dy[rows + r] * slope * z;
                g -= 2.0f * h * z * gt;
                vf_store(tangents + r * PANEL + v * VW, gt * slope);
            }
            g *= slope;
            db[v] += g;
            vf_store(at + r * PANEL + v * VW, g);
        }
    for (int v = 0; v < VN; v++) {
        vf_store(sums->w3 + j + v * VW, dw[v]);
        vf_store(sums->b2 + j + v * VW, db[v]);
    }
}

static void last_layer_backward(struct mlp_shape n, const struct mlp_packed *p, struct mlp_tile *t, const struct mlp_packed *sums) {
    float total = 0;
    for (int r = 0; r < t->rows; r++)
        total += t->dy[r];
    *sums->b3 += total;
    for (int j = 0; j < n.hidden2; j += PANEL)
        if (t->tangent)
            last_panel_backward(p, t, sums, j, true);
        else
            last_panel_backward(p, t, sums, j, false);
}

/* d1, the gradient of h1, becomes that of what goes into the first tanh; sums of the first layer; a vector from column j. */
INLINE void first_vector_backward(struct mlp_shape n, const struct mlp_packed *p, struct mlp_tile *t, const struct mlp_packed *sums,
                                  int j, const int in) {
    int all = all_rows(t), rows = t->rows;
    int64_t offset = (int64_t)(j / PANEL) * all * PANEL + j % PANEL;
    float *d = t->d1 + offset;
    const float *at = t->h1 + offset;
    vf slope0 = vf_load(p->w1 + j), db = vf_load(sums->b1 + j), dw[MLP_MAX_INPUTS], extra = {0};
    for (int k = 0; k < in; k++)
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
        for (int k = 0; k < in; k++)
            dw[k] += t->x[k][r] * g;
    }
    dw[0] += extra;
    vf_store(sums->b1 + j, db);
    for (int k = 0; k < in; k++)
        vf_store(sums->w1 + k * n.hidden1 + j, dw[k]);
}

static void first_layer_backward(struct mlp_shape n, const struct mlp_packed *p, struct mlp_tile *t,
                                 const struct mlp_packed *sums) {
    for (int j = 0; j < n.hidden1; j += VW)
        if (n.in == 2)
            first_vector_backward(n, p, t, sums, j, 2);
        else if (n.in == 3)
            first_vector_backward(n, p, t, sums, j, 3);
        else
            first_vector_backward(n, p, t, sums, j, n.in);
}

/* The gradient of input k of every row. */
static void input_gradient(struct mlp_shape n, const struct mlp_packed *p, struct mlp_tile *t, int k) {
    const float *w = p->w1 + k * n.hidden1;
    int all = all_rows(t);
    for (int r = 0; r < t->rows; r++) {
        vf sum[VN] = {0};
        for (int j = 0; j < n.hidden1; j += PANEL)
#pragma GCC unroll 4
            for (int v = 0; v < VN; v++)
                sum[v] += vf_load(t->d1 + (int64_t)j * all + r * PANEL + v * VW) * vf_load(w + j + v * VW);
        t->dx[k][r] = lanes_sum(vectors_sum(sum));
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
        input_gradient(n, p, t, k);
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
