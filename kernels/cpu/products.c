/* Matrix products of oneDNN, cut into tiles by their shape alone; a tile is computed by one thread. Products over many rows with a
 * small result (gradients of weights) are also cut along the sum; the parts are added in their order. So the bits do not depend on
 * the number of threads. */
#include <dnnl.h>

#include "kernels/cpu/cpu.h"

enum { MOST_COLS = 512, SHORT_TILE = 256, LONG_TILE = 4096, TILE_WORK = 1 << 22 }; /* TILE_WORK: multiplications aimed at */
enum { SUM_TILE = 128, MANY_TILES = 8, PART = 1920, ROUND = 16 };                  /* of sums over rows; PART: terms of a part */

struct tiling {
    const struct gemm *g;
    int64_t tile_m, tile_n; /* of a tile that is not at an end */
    int64_t span;           /* rows of C that tiles do not cross: all, or those of a batch row */
    int64_t span_tiles, n_tiles, tiles, parts;
    int64_t first_part, round_parts; /* of the round */
    float *sums;                     /* (ROUND, m, n), with more than one part */
};

static int64_t count_of(int64_t total, int64_t each) { return (total + each - 1) / each; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static struct tiling tiling_of(const struct gemm *g) {
    struct tiling t = {.g = g, .tile_n = least(g->n, MOST_COLS), .span = g->span > 0 ? g->span : g->m, .parts = 1};
    int64_t rows = TILE_WORK / (g->k * t.tile_n) / 64 * 64;
    t.tile_m = g->trans_a ? SUM_TILE : rows < SHORT_TILE ? SHORT_TILE : least(rows, LONG_TILE);
    t.span_tiles = count_of(t.span, t.tile_m);
    t.n_tiles = count_of(g->n, t.tile_n);
    t.tiles = g->m / t.span * t.span_tiles * t.n_tiles;
    if (g->trans_a && t.tiles < MANY_TILES)
        t.parts = count_of(g->k, PART);
    return t;
}

static int multiply(const struct gemm *g, struct err *err) {
    dnnl_status_t st = dnnl_sgemm(g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', g->m, g->n, g->k, 1.0f, g->a.at, g->a.ld, g->b.at,
                                  g->b.ld, g->beta, g->c.at, g->c.ld);
    if (st == dnnl_success)
        return 0;
    return err_set(err, ERR_INTERNAL, "oneDNN: a %lld×%lld×%lld matrix product failed with status %d", (long long)g->m,
                   (long long)g->n, (long long)g->k, (int)st);
}

/* The part of a factor from row and column on. */
static struct gemm_in from(struct gemm_in x, bool transposed, int64_t row, int64_t col) {
    return (struct gemm_in){transposed ? x.at + col * x.ld + row : x.at + row * x.ld + col, x.ld};
}

static int run_tile(const void *ctx, int64_t unit, int lane, struct err *err) {
    const struct tiling *t = ctx;
    struct gemm g = *t->g;
    int64_t part = unit / t->tiles, tile = unit % t->tiles, rows = tile / t->n_tiles;
    int64_t in_span = rows % t->span_tiles * t->tile_m, m = rows / t->span_tiles * t->span + in_span;
    int64_t n = tile % t->n_tiles * t->tile_n, k = part * PART;
    (void)lane;
    g.a = from(g.a, g.trans_a, m, k);
    g.b = from(g.b, g.trans_b, k, n);
    if (t->parts > 1) {
        g.c = (struct gemm_out){t->sums + (part - t->first_part) * g.m * g.n + m * g.n, g.n};
        g.beta = 0;
        g.k = least(PART, g.k - k);
    } else {
        g.c.at += m * g.c.ld;
    }
    g.c.at += n;
    g.m = least(t->tile_m, t->span - in_span);
    g.n = least(t->tile_n, g.n - n);
    return multiply(&g, err);
}

/* C = beta·C + the parts of a round; one row. */
static void add_parts(const void *ctx, int64_t r, int lane) {
    const struct tiling *t = ctx;
    const struct gemm *g = t->g;
    bool keep = t->first_part > 0 || g->beta != 0.0f;
    float beta = t->first_part > 0 ? 1.0f : g->beta, *c = g->c.at + r * g->c.ld;
    (void)lane;
    for (int64_t j = 0; j < g->n; j++)
        c[j] = keep ? beta * c[j] : 0;
    for (int64_t i = 0; i < t->round_parts; i++) {
        const float *sums = t->sums + (i * g->m + r) * g->n;
#pragma omp simd
        for (int64_t j = 0; j < g->n; j++)
            c[j] += sums[j];
    }
}

int cpu_gemm(struct stream *s, const struct gemm *g, struct err *err) {
    struct tiling t = tiling_of(g);
    int threads = cpu_threads(s), rc = 0;
    if (t.parts > 1 && !(t.sums = cpu_sums(s, (size_t)(least(t.parts, ROUND) * g->m * g->n) * sizeof *t.sums, err)))
        return ERR_EXHAUSTED;
    for (; t.first_part < t.parts && !rc; t.first_part += ROUND) {
        t.round_parts = least(ROUND, t.parts - t.first_part);
        const struct lanes_work work = {run_tile, &t, t.first_part * t.tiles, t.round_parts * t.tiles, threads};
        rc = lanes_run(&work, err);
        if (!rc && t.parts > 1)
            lanes_for(g->m * g->n > 4096 ? threads : 1, g->m, add_parts, &t);
    }
    return rc;
}

int cpu_gemm_gradients(struct stream *s, const struct gemm_gradients *p, struct err *err) {
    const struct gemm dx = {.m = p->rows, .n = p->k, .k = p->n, .a = p->dy, .b = p->w, .c = p->dx, .beta = p->dx_beta};
    const struct gemm dw = {
        .trans_a = true, .m = p->n, .n = p->k, .k = p->rows, .a = p->dy, .b = p->x, .c = p->dw, .beta = p->dw_beta};
    int rc = p->dx.at ? cpu_gemm(s, &dx, err) : 0;
    return rc || !p->dw.at ? rc : cpu_gemm(s, &dw, err);
}
