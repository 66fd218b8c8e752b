/* The geodesic ops on the CPU: MLPs with their tangents, and spectra along geodesics. Work is cut into units of one group and some
 * of its rows or wavelengths; a unit adds its gradients up in memory of its own, and units are added in order, so that results
 * depend neither on the number of threads nor on other groups. */
#include <string.h>

#include "base/members.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/geodesic_cells.h"
#include "kernels/cpu/geodesic_job.h"
#include "kernels/device.h"

enum { MLP_ROWS = MLP_TILE_ROWS / 2, BLOCK_ROWS = 512, MAX_BLOCKS = 8, BLOCK_WAVELENGTHS = 13 };

static const struct geodesic_kernels *kernels(void) {
    const char *isa = device_isa();
    if (!strcmp(isa, geodesic_kernels_avx512.isa))
        return &geodesic_kernels_avx512;
    return strcmp(isa, geodesic_kernels_avx2.isa) ? &geodesic_kernels_base : &geodesic_kernels_avx2;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

/* Cuts scratch into 64-byte aligned pieces; base NULL only measures. */
struct area {
    float *base;
    int64_t used;
};
static float *take(struct area *area, int64_t count) {
    float *p = area->base ? area->base + area->used : NULL;
    area->used += (count + 15) / 16 * 16;
    return p;
}

static struct mlp_packed take_packed(struct area *area, struct mlp_shape n, bool sums) {
    int64_t w2 = (int64_t)n.hidden1 * n.hidden2;
    struct mlp_packed p = {.w1 = take(area, (int64_t)n.in * n.hidden1)};
    p.b1 = take(area, n.hidden1);
    p.w2_forward = sums ? NULL : take(area, w2);
    p.w2_backward = take(area, w2);
    p.b2 = take(area, n.hidden2);
    p.w3 = take(area, n.hidden2);
    p.b3 = take(area, 1);
    return p;
}

static struct mlp_tile *take_tile(struct area *area, struct mlp_shape n) {
    struct mlp_tile *t = (void *)take(area, (int64_t)(sizeof *t / sizeof(float)));
    float *h1 = take(area, (int64_t)MLP_TILE_ROWS * n.hidden1), *h2 = take(area, (int64_t)MLP_TILE_ROWS * n.hidden2);
    float *d1 = take(area, (int64_t)MLP_TILE_ROWS * n.hidden1);
    if (t) {
        t->h1 = h1;
        t->h2 = h2;
        t->d1 = d1;
    }
    return t;
}

static int64_t sums_count(struct mlp_shape n) {
    struct area area = {0};
    take_packed(&area, n, true);
    return area.used;
}
static struct mlp_packed sums_at(float *base, struct mlp_shape n) {
    struct area area = {base, 0};
    return take_packed(&area, n, true);
}

static float *row_of(const struct tensor *t, int64_t g) { return (float *)t->data + g * t->ld; }

/* Adds a group's `units` sums, in order, to its row of gradients. `sums` are those of its first unit. */
static void add_units(const struct geodesic_kernels *k, struct mlp_shape n, float *sums, int64_t stride, int64_t units,
                      float *row) {
    int64_t count = sums_count(n);
    for (int64_t u = 1; u < units; u++)
        for (int64_t i = 0; i < count; i++)
            sums[i] += sums[u * stride + i];
    struct mlp_packed packed = sums_at(sums, n);
    k->unpack(n, &packed, row);
}

/* ---- op mlp ---------------------------------------------------------------------------------------------------- */

struct mlp_job {
    const struct geodesic_kernels *k;
    struct mlp_shape shape;
    struct tensor params, x, y, tangent, dy, dtangent, dx, dparams;
    struct mlp_packed *packed; /* of each group */
    struct mlp_tile **tiles;   /* of each thread */
    float *sums;               /* of each unit, backward only */
    int64_t sums_count, blocks, groups, rows;
};

static void fill_tile(const struct mlp_job *j, struct mlp_tile *t, int64_t g, int64_t first, int64_t count) {
    int in = j->shape.in;
    const float *x = cf(&j->x) + (g * j->rows + first) * in;
    t->rows = (int)((count + 1) / 2 * 2);
    for (int k = 0; k < in; k++) {
        for (int64_t r = 0; r < count; r++)
            t->x[k][r] = x[r * in + k];
        if (count < t->rows)
            t->x[k][count] = 0;
    }
}

static void mlp_rows_backward(const struct mlp_job *j, struct mlp_tile *t, const struct mlp_packed *sums, int64_t g, int64_t first,
                              int64_t count) {
    int64_t at = g * j->rows + first;
    int in = j->shape.in;
    t->tangent = tensor_present(&j->dtangent);
    fill_tile(j, t, g, first, count);
    j->k->forward(j->shape, &j->packed[g], t);
    memset(t->dy, 0, sizeof t->dy);
    memcpy(t->dy, cf(&j->dy) + at, (size_t)count * sizeof(float));
    if (t->tangent)
        memcpy(t->dy + t->rows, cf(&j->dtangent) + at, (size_t)count * sizeof(float));
    j->k->backward(j->shape, &j->packed[g], t, sums, 0, tensor_present(&j->dx) ? in : 0);
    for (int64_t r = 0; tensor_present(&j->dx) && r < count; r++)
        for (int k = 0; k < in; k++)
            mf(&j->dx)[(at + r) * in + k] = t->dx[k][r];
}

static void mlp_pack(const void *ctx, int64_t g, int lane) {
    const struct mlp_job *j = ctx;
    (void)lane;
    j->k->pack(j->shape, row_of(&j->params, g), &j->packed[g]);
}

/* Scratch for the job, and its groups' parameters packed. */
static int mlp_prepare(struct stream *s, struct mlp_job *j, struct err *err) {
    int threads = cpu_threads(s);
    struct area area = {0};
    for (int pass = 0; pass < 2; pass++) {
        area.used = 0;
        j->packed = (void *)take(&area, j->groups * (int64_t)(sizeof *j->packed / sizeof(float) + 1));
        j->tiles = (void *)take(&area, threads * 2 + 2);
        j->sums = take(&area, j->sums_count * j->blocks * j->groups);
        for (int64_t g = 0; g < j->groups; g++) {
            struct mlp_packed p = take_packed(&area, j->shape, false);
            if (pass)
                j->packed[g] = p;
        }
        for (int i = 0; i < threads; i++) {
            struct mlp_tile *t = take_tile(&area, j->shape);
            if (pass)
                j->tiles[i] = t;
        }
        if (!pass && !(area.base = cpu_scratch(s, (size_t)area.used * sizeof(float), err)))
            return ERR_EXHAUSTED;
    }
    lanes_for(threads, j->groups, mlp_pack, j);
    return 0;
}

static int64_t blocks_of(int64_t rows) {
    int64_t blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    return blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS;
}

static void mlp_rows(const void *ctx, int64_t u, int lane) {
    const struct mlp_job *j = ctx;
    struct mlp_tile *t = j->tiles[lane];
    int64_t tiles = (j->rows + MLP_ROWS - 1) / MLP_ROWS, g = u / tiles, first = u % tiles * MLP_ROWS, at = g * j->rows + first;
    int64_t count = j->rows - first < MLP_ROWS ? j->rows - first : MLP_ROWS;
    t->tangent = tensor_present(&j->tangent);
    fill_tile(j, t, g, first, count);
    j->k->forward(j->shape, &j->packed[g], t);
    memcpy(mf(&j->y) + at, t->y, (size_t)count * sizeof(float));
    if (t->tangent)
        memcpy(mf(&j->tangent) + at, t->y + t->rows, (size_t)count * sizeof(float));
}

int cpu_mlp(struct stream *s, const struct mlp_args *a, struct err *err) {
    struct mlp_job j = {.k = kernels(), .shape = a->shape, .params = a->params, .x = a->x, .y = a->y, .tangent = a->tangent};
    j.groups = a->params.dim[0];
    j.rows = a->x.dim[1];
    int rc = mlp_prepare(s, &j, err);
    if (rc)
        return rc;
    lanes_for(cpu_threads(s), j.groups * ((j.rows + MLP_ROWS - 1) / MLP_ROWS), mlp_rows, &j);
    return 0;
}

static void mlp_block(const void *ctx, int64_t u, int lane) {
    const struct mlp_job *j = ctx;
    int64_t b = u % j->blocks, end = (b + 1) * j->rows / j->blocks;
    float *base = j->sums + u * j->sums_count;
    struct mlp_packed sums = sums_at(base, j->shape);
    memset(base, 0, (size_t)j->sums_count * sizeof *base);
    for (int64_t first = b * j->rows / j->blocks; first < end; first += MLP_ROWS)
        mlp_rows_backward(j, j->tiles[lane], &sums, u / j->blocks, first, end - first < MLP_ROWS ? end - first : MLP_ROWS);
}

static void mlp_collect(const void *ctx, int64_t g, int lane) {
    const struct mlp_job *j = ctx;
    (void)lane;
    add_units(j->k, j->shape, j->sums + g * j->blocks * j->sums_count, j->sums_count, j->blocks, row_of(&j->dparams, g));
}

int cpu_mlp_backward(struct stream *s, const struct mlp_backward_args *a, struct err *err) {
    struct mlp_job j = {.k = kernels(), .shape = a->shape, SAME_MEMBERS(*a, params, x, dy, dtangent, dx, dparams)};
    j.groups = a->params.dim[0];
    j.rows = a->x.dim[1];
    j.sums_count = sums_count(a->shape);
    j.blocks = blocks_of(j.rows);
    int rc = mlp_prepare(s, &j, err);
    if (rc)
        return rc;
    lanes_for(cpu_threads(s), j.groups * j.blocks, mlp_block, &j);
    lanes_for(cpu_threads(s), j.groups, mlp_collect, &j);
    return 0;
}

/* ---- op geodesic ----------------------------------------------------------------------------------------------- */

/* Working memory of a thread. */
struct worker {
    struct mlp_tile *metric, *head;
    struct geodesic_cells cells[BLOCK_WAVELENGTHS]; /* of the wavelengths that share the metric's tile */
};

struct geodesic_job {
    const struct geodesic_args *a;
    const struct geodesic_kernels *k;
    struct geodesic_rule rule;
    struct mlp_shape head;
    struct mlp_packed *metric_packed, *head_packed;
    struct worker **workers;
    float *sums;    /* of each unit: the metric's, then the head's */
    double *losses; /* two of each unit */
    int64_t metric_sums, head_sums, blocks, groups;
    int nodes, abreast; /* nodes of a group; wavelengths in the metric's tile */
};

struct unit {
    int64_t group;
    struct mlp_packed metric, head;
    double squares, roughness;
};

static void metric_forward(const struct geodesic_job *j, struct worker *w, const struct unit *u, int64_t first, int count) {
    struct mlp_tile *t = w->metric;
    const float *knots = cf(&j->a->knots) + u->group * j->a->knots.dim[1];
    int n = count * j->nodes;
    t->rows = (n + 1) / 2 * 2;
    t->tangent = false;
    for (int i = 0; i < count; i++) {
        int32_t row = j->a->rows[first + i];
        geodesic_cells_init(&w->cells[i], &j->rule, knots, (int)j->a->knots.dim[1], cf(&j->a->wavelengths)[row]);
        for (int q = 0; q < j->nodes; q++) {
            t->x[0][i * j->nodes + q] = w->cells[i].c[q];
            t->x[1][i * j->nodes + q] = w->cells[i].wavelength;
        }
    }
    if (n < t->rows)
        t->x[0][n] = t->x[1][n] = 0;
    j->k->forward(GEODESIC_METRIC, &j->metric_packed[u->group], t);
    for (int i = 0; i < count; i++) {
        j->k->root(t->y + i * j->nodes, j->nodes, j->a->floor, w->cells[i].w, w->cells[i].slope);
        geodesic_cells_measure(&w->cells[i]);
    }
}

static void metric_backward(const struct geodesic_job *j, struct worker *w, struct unit *u, int count) {
    struct mlp_tile *t = w->metric;
    float scale = j->nodes > 2 ? j->a->smoothness / ((float)(j->nodes - 2) * (float)j->a->n_rows) : 0;
    memset(t->dy, 0, sizeof t->dy);
    for (int i = 0; i < count; i++) {
        u->roughness += geodesic_cells_roughness(&w->cells[i], scale);
        geodesic_cells_gradient(&w->cells[i], t->dy + i * j->nodes);
    }
    if (tensor_present(&j->a->grads))
        j->k->backward(GEODESIC_METRIC, &j->metric_packed[u->group], t, &u->metric, 0, 0);
}

/* Rows of the head's tile that a pair takes: a node each of the cells it spans, or one. */
static int pair_rows(const struct geodesic_job *j, const struct geodesic_pair *p) {
    int span = p->from < p->to ? p->to - p->from : p->from - p->to;
    return j->a->head == GEODESIC_FLOW ? span * j->rule.order : 1;
}

/* Pairs [first, end) of the wavelength `at`, `rows` rows of the head's tile together. */
struct chunk {
    struct geodesic_cells *cells;
    int64_t at, first, end;
    int rows;
};

static void pairs_chunk(const struct geodesic_job *j, struct worker *w, struct unit *u, const struct chunk *part) {
    struct geodesic_cells *cells = part->cells;
    int64_t at = part->at, first = part->first, end = part->end;
    int rows = part->rows;
    const struct geodesic_args *a = j->a;
    int64_t width = a->wavelengths.dim[0], knots = a->knots.dim[1];
    const float *spectra = cf(&a->spectra) + u->group * knots * width + a->rows[at];
    double scale = 2.0 / ((double)a->n_pairs * (double)a->n_rows);
    struct mlp_tile *t = w->head;
    struct geodesic_path path[MLP_TILE_ROWS];
    bool flow = a->head == GEODESIC_FLOW;
    t->rows = (rows + 1) / 2 * 2;
    t->tangent = false;
    for (int64_t m = first, r = 0; m < end; r += path[m++ - first].rows) {
        path[m - first] = geodesic_path_of(cells, a->pairs[m].from, a->pairs[m].to, flow);
        geodesic_path_inputs(cells, &path[m - first], flow, t->x, (int)r);
    }
    for (int k = 0; rows < t->rows && k < j->head.in; k++)
        t->x[k][rows] = 0;
    j->k->forward(j->head, &j->head_packed[u->group], t);
    memset(t->dy, 0, sizeof t->dy);
    for (int64_t m = first, r = 0; m < end; r += path[m++ - first].rows) {
        const struct geodesic_path *p = &path[m - first];
        double value = flow ? (double)spectra[p->from * width] + geodesic_path_sum(cells, p, t->y + r) : (double)t->y[r];
        if (tensor_present(&a->prediction))
            mf(&a->prediction)[(u->group * a->n_pairs + m) * a->n_rows + at] = (float)value;
        if (!a->loss)
            continue;
        double difference = value - (double)spectra[p->to * width];
        u->squares += difference * difference;
        geodesic_path_weights(cells, p, flow, (float)(difference * scale), t->dy + r);
    }
    if (!tensor_present(&a->grads))
        return;
    j->k->backward(j->head, &j->head_packed[u->group], t, &u->head, 1, flow ? 2 : 4);
    for (int64_t m = first, r = 0; m < end; r += path[m++ - first].rows)
        geodesic_path_backward(cells, &path[m - first], flow, t, (int)r);
}

static void one_wavelength(const struct geodesic_job *j, struct worker *w, struct unit *u, struct geodesic_cells *cells,
                           int64_t at) {
    struct chunk part = {.cells = cells, .at = at};
    for (int64_t m = 0; m < j->a->n_pairs; m++) {
        int more = pair_rows(j, &j->a->pairs[m]);
        if (part.rows + more > MLP_TILE_ROWS) {
            part.end = m;
            pairs_chunk(j, w, u, &part);
            part.first = m;
            part.rows = 0;
        }
        part.rows += more;
    }
    part.end = j->a->n_pairs;
    pairs_chunk(j, w, u, &part);
}

static void run_unit(const void *ctx, int64_t index, int lane) {
    const struct geodesic_job *j = ctx;
    const struct geodesic_args *a = j->a;
    struct worker *w = j->workers[lane];
    int64_t b = index % j->blocks, end = (b + 1) * a->n_rows / j->blocks;
    struct unit u = {.group = index / j->blocks};
    if (tensor_present(&a->grads)) {
        float *base = j->sums + index * (j->metric_sums + j->head_sums);
        memset(base, 0, (size_t)(j->metric_sums + j->head_sums) * sizeof *base);
        u.metric = sums_at(base, GEODESIC_METRIC);
        u.head = sums_at(base + j->metric_sums, j->head);
    }
    for (int64_t first = b * a->n_rows / j->blocks; first < end; first += j->abreast) {
        int count = end - first < j->abreast ? (int)(end - first) : j->abreast;
        metric_forward(j, w, &u, first, count);
        for (int i = 0; i < count; i++)
            one_wavelength(j, w, &u, &w->cells[i], first + i);
        if (a->loss)
            metric_backward(j, w, &u, count);
    }
    if (a->loss) {
        j->losses[2 * index] = u.squares;
        j->losses[2 * index + 1] = u.roughness;
    }
}

static int geodesic_prepare(struct stream *s, struct geodesic_job *j, struct err *err) {
    int threads = cpu_threads(s);
    bool training = tensor_present(&j->a->grads);
    struct area area = {0};
    for (int pass = 0; pass < 2; pass++) {
        area.used = 0;
        j->metric_packed = (void *)take(&area, 2 * j->groups * (int64_t)(sizeof *j->metric_packed / sizeof(float) + 1));
        j->head_packed = j->metric_packed + (pass ? j->groups : 0);
        j->workers = (void *)take(&area, threads * 2 + 2);
        j->losses = (void *)take(&area, j->groups * j->blocks * 4);
        j->sums = take(&area, training ? (j->metric_sums + j->head_sums) * j->blocks * j->groups : 0);
        for (int64_t g = 0; g < j->groups; g++) {
            struct mlp_packed metric = take_packed(&area, GEODESIC_METRIC, false), head = take_packed(&area, j->head, false);
            if (pass) {
                j->metric_packed[g] = metric;
                j->head_packed[g] = head;
            }
        }
        for (int i = 0; i < threads; i++) {
            struct worker *w = (void *)take(&area, (int64_t)(sizeof *w / sizeof(float) + 1));
            struct mlp_tile *metric = take_tile(&area, GEODESIC_METRIC), *head = take_tile(&area, j->head);
            if (pass) {
                w->metric = metric;
                w->head = head;
                j->workers[i] = w;
            }
        }
        if (!pass && !(area.base = cpu_scratch(s, (size_t)area.used * sizeof(float), err)))
            return ERR_EXHAUSTED;
    }
    return 0;
}

static void pack_group(const void *ctx, int64_t g, int lane) {
    const struct geodesic_job *j = ctx;
    (void)lane;
    const float *row = row_of(&j->a->params, g);
    j->k->pack(GEODESIC_METRIC, row, &j->metric_packed[g]);
    j->k->pack(j->head, row + mlp_count(GEODESIC_METRIC), &j->head_packed[g]);
}

static void collect_group(const void *ctx, int64_t g, int lane) {
    const struct geodesic_job *j = ctx;
    const struct geodesic_args *a = j->a;
    (void)lane;
    int64_t stride = j->metric_sums + j->head_sums;
    float *sums = j->sums + g * j->blocks * stride;
    for (int i = 0; a->loss && i < 2; i++) {
        a->loss[2 * g + i] = 0;
        for (int64_t b = 0; b < j->blocks; b++)
            a->loss[2 * g + i] += j->losses[2 * (g * j->blocks + b) + i];
    }
    if (!tensor_present(&a->grads))
        return;
    add_units(j->k, GEODESIC_METRIC, sums, stride, j->blocks, row_of(&a->grads, g));
    add_units(j->k, j->head, sums + j->metric_sums, stride, j->blocks, row_of(&a->grads, g) + mlp_count(GEODESIC_METRIC));
}

int cpu_geodesic(struct stream *s, const struct geodesic_args *a, struct err *err) {
    struct geodesic_job j = {.a = a, .k = kernels(), .head = geodesic_head_shape(a->head), .groups = a->params.dim[0]};
    geodesic_rule_of(a->order, &j.rule);
    j.nodes = (int)(a->knots.dim[1] - 1) * a->order;
    j.abreast = MLP_TILE_ROWS / 4 / j.nodes > 1 ? MLP_TILE_ROWS / 4 / j.nodes : 1;
    j.abreast = j.abreast < BLOCK_WAVELENGTHS ? j.abreast : BLOCK_WAVELENGTHS;
    j.blocks = (a->n_rows + BLOCK_WAVELENGTHS - 1) / BLOCK_WAVELENGTHS;
    j.metric_sums = sums_count(GEODESIC_METRIC);
    j.head_sums = sums_count(j.head);
    int rc = geodesic_prepare(s, &j, err);
    if (rc)
        return rc;
    lanes_for(cpu_threads(s), j.groups, pack_group, &j);
    lanes_for(cpu_threads(s), j.groups * j.blocks, run_unit, &j);
    lanes_for(cpu_threads(s), j.groups, collect_group, &j);
    return 0;
}
