/* Dense convolutions, norms and projections at the sizes of the base network, one window; on a GPU also 64, which no cache holds.
 */

#include "base/needed.h"
#include "bench.h"

enum kind { DENSE, BATCH, LAYER, GATED, LINEAR };
struct shape {
    enum kind kind;
    bool backward;
    int64_t t, ci, co, k; /* norms: ci channels */
};

struct layer_state {
    struct shape shape;
    struct bench_memory memory;
    uint64_t version;
    union {
        struct conv1d_args conv;
        struct batchnorm_args batch;
        struct layernorm_args layer;
        struct rmsnorm_gated_args gated;
        struct linear_args linear;
    } f;
    union {
        struct conv1d_backward_args conv;
        struct batchnorm_backward_args batch;
        struct layernorm_backward_args layer;
        struct rmsnorm_gated_backward_args gated;
        struct linear_backward_args linear;
    } g;
};

struct maker {
    struct bench_memory *memory;
    enum dtype dtype;
    int64_t b, t;
};

static struct tensor act(const struct maker *m, int64_t c) {
    return bench_fill(m->memory, m->dtype, (const int64_t[3]){m->b, m->t, c}, (struct bench_range){-1, 1});
}

static struct tensor param(const struct maker *m, int64_t d0, int64_t d1, int64_t d2) {
    return bench_fill(m->memory, DTYPE_F32, (const int64_t[3]){d0, d1, d2}, (struct bench_range){0.1, 0.3});
}

static void open_dense(struct layer_state *s, const struct maker *m) {
    struct shape h = s->shape;
    struct tensor x = act(m, h.ci), w = param(m, h.co, h.ci, h.k), y = act(m, h.co);
    s->f.conv = (struct conv1d_args){
        .x = x, .w = w, .bias = param(m, h.co, 0, 0), .y = y, .stride = 1, .pad = (int)h.k / 2, .relu = true, .weight_version = 1};
    if (h.backward)
        s->g.conv = (struct conv1d_backward_args){.x = x,
                                                  .w = w,
                                                  .dy = y,
                                                  .dx = act(m, h.ci),
                                                  .dw = param(m, h.co, h.ci, h.k),
                                                  .dbias = param(m, h.co, 0, 0),
                                                  .stride = 1,
                                                  .pad = (int)h.k / 2,
                                                  .weight_version = 1};
}

static void open_linear(struct layer_state *s, const struct maker *m) {
    struct shape h = s->shape;
    struct tensor x = act(m, h.ci), w = param(m, h.co, h.ci, 0), y = act(m, h.co);
    s->f.linear = (struct linear_args){.x = x, .w = w, .y = y, .weight_version = 1};
    if (h.backward)
        s->g.linear = (struct linear_backward_args){
            .x = x, .w = w, .dy = y, .dx = act(m, h.ci), .dw = param(m, h.co, h.ci, 0), .weight_version = 1};
}

static void open_batch(struct layer_state *s, const struct maker *m) {
    int64_t c = s->shape.ci;
    s->f.batch = (struct batchnorm_args){.x = act(m, c),
                                         .weight = param(m, c, 0, 0),
                                         .bias = param(m, c, 0, 0),
                                         .y = act(m, c),
                                         .save_mean = param(m, c, 0, 0),
                                         .save_rstd = param(m, c, 0, 0),
                                         .running_mean = param(m, c, 0, 0),
                                         .running_var = param(m, c, 0, 0),
                                         .eps = 1e-5f,
                                         .momentum = 0.1f,
                                         .relu = true};
    if (s->shape.backward)
        s->g.batch = (struct batchnorm_backward_args){SAME_MEMBERS(s->f.batch, x, y, weight, save_mean, save_rstd),
                                                      .dy = act(m, c),
                                                      .dx = act(m, c),
                                                      .dweight = param(m, c, 0, 0),
                                                      .dbias = param(m, c, 0, 0),
                                                      .relu = true};
}

static void open_layer(struct layer_state *s, const struct maker *m) {
    int64_t c = s->shape.ci, rows = m->b * m->t;
    s->f.layer = (struct layernorm_args){.x = act(m, c),
                                         .residual = act(m, c),
                                         .weight = param(m, c, 0, 0),
                                         .bias = param(m, c, 0, 0),
                                         .y = act(m, c),
                                         .sum = act(m, c),
                                         .save_mean = param(m, rows, 0, 0),
                                         .save_rstd = param(m, rows, 0, 0),
                                         .eps = 1e-5f};
    if (s->shape.backward)
        s->g.layer =
            (struct layernorm_backward_args){SAME_MEMBERS(s->f.layer, sum, weight, save_mean, save_rstd), .dy = s->f.layer.y,
                                             .dx = act(m, c), .dweight = param(m, c, 0, 0), .dbias = param(m, c, 0, 0)};
}

static void open_gated(struct layer_state *s, const struct maker *m) {
    int64_t c = s->shape.ci;
    s->f.gated = (struct rmsnorm_gated_args){.y = act(m, c),
                                             .z = act(m, c),
                                             .weight = param(m, c, 0, 0),
                                             .out = act(m, c),
                                             .save_rstd = param(m, m->b * m->t, 0, 0),
                                             .groups = 1,
                                             .eps = 1e-5f};
    if (s->shape.backward)
        s->g.gated = (struct rmsnorm_gated_backward_args){SAME_MEMBERS(s->f.gated, y, z, weight, save_rstd),
                                                          .dout = s->f.gated.out,
                                                          .dy = act(m, c),
                                                          .dz = act(m, c),
                                                          .dweight = param(m, c, 0, 0),
                                                          .groups = 1};
}

static int forward(struct layer_state *s, struct stream *stream, struct err *err) {
    switch (s->shape.kind) {
    case DENSE:
        return op_conv1d(stream, &s->f.conv, err);
    case BATCH:
        return op_batchnorm(stream, &s->f.batch, err);
    case LAYER:
        return op_layernorm(stream, &s->f.layer, err);
    case GATED:
        return op_rmsnorm_gated(stream, &s->f.gated, err);
    default:
        return op_linear(stream, &s->f.linear, err);
    }
}

/* Weights change from step to step in training: the version counts up. */
static int backward(struct layer_state *s, struct stream *stream, struct err *err) {
    s->version++;
    switch (s->shape.kind) {
    case DENSE:
        s->g.conv.weight_version = s->version;
        return op_conv1d_backward(stream, &s->g.conv, err);
    case BATCH:
        return op_batchnorm_backward(stream, &s->g.batch, err);
    case LAYER:
        return op_layernorm_backward(stream, &s->g.layer, err);
    case GATED:
        return op_rmsnorm_gated_backward(stream, &s->g.gated, err);
    default:
        s->g.linear.weight_version = s->version;
        return op_linear_backward(stream, &s->g.linear, err);
    }
}

static int layer_run(void *state, struct stream *stream, struct err *err) {
    struct layer_state *s = state;
    return s->shape.backward ? backward(s, stream, err) : forward(s, stream, err);
}

static void layer_close(void *state, struct device *dev) {
    struct layer_state *s = state;
    if (s)
        bench_memory_done(&s->memory, dev);
    free(s);
}

static int layer_open(const struct bench_case *c, const struct bench_context *x, void **ret, struct err *err) {
    static void (*const openers[])(struct layer_state *, const struct maker *) = {
        [DENSE] = open_dense, [BATCH] = open_batch, [LAYER] = open_layer, [GATED] = open_gated, [LINEAR] = open_linear};
    struct layer_state *s = needed(calloc(1, sizeof *s));
    s->shape = *(const struct shape *)c->parameters;
    s->memory = (struct bench_memory){.device = x->device, .stream = x->stream, .err = err};
    struct maker m = {&s->memory, x->dtype, c->batch, s->shape.t};
    openers[s->shape.kind](s, &m);
    int rc = s->memory.rc;
    if (!rc && s->shape.backward && (s->shape.kind == BATCH || s->shape.kind == LAYER))
        rc = forward(s, x->stream, err); /* statistics for the gradient */
    if (rc)
        layer_close(s, x->device);
    else
        *ret = s;
    return rc;
}

/* Norms: activations read and written; batch norm must see its input twice. Products: two operations per weight and token, twice
 * that for the two gradients. */
static struct rates_work layer_work(const struct bench_case *c, const struct bench_context *x) {
    const struct shape *s = c->parameters;
    double tokens = (double)c->batch * (double)s->t, each = (double)dtype_bytes(x->dtype);
    if (s->kind == DENSE || s->kind == LINEAR) {
        double weights = (double)(s->ci * s->co * s->k);
        return (struct rates_work){.bytes = tokens * (double)(s->ci + s->co) * each + weights * each,
                                   .flops_act = 2 * tokens * weights * (s->backward ? 2 : 1)};
    }
    static const int passes[][2] = {[DENSE] = {0, 0}, [LINEAR] = {0, 0}, [BATCH] = {3, 7}, [LAYER] = {4, 3}, [GATED] = {3, 5}};
    double exponentials = s->kind == GATED ? tokens * (double)s->ci : 0;
    return (struct rates_work){.bytes = passes[s->kind][s->backward] * tokens * (double)s->ci * each, .exponentials = exponentials};
}

static const struct shape stem_fwd = {DENSE, false, 15360, 19, 64, 7}, stem_bwd = {DENSE, true, 15360, 19, 64, 7},
                          wide_fwd = {DENSE, false, 1920, 512, 512, 5}, wide_bwd = {DENSE, true, 1920, 512, 512, 5},
                          branch_fwd = {DENSE, false, 960, 512, 172, 7}, branch_bwd = {DENSE, true, 960, 512, 172, 7},
                          batch_fwd = {BATCH, false, 15360, 64, 0, 0}, batch_bwd = {BATCH, true, 15360, 64, 0, 0},
                          layer_fwd = {LAYER, false, 960, 512, 0, 0}, layer_bwd = {LAYER, true, 960, 512, 0, 0},
                          gated_fwd = {GATED, false, 960, 1024, 0, 0}, gated_bwd = {GATED, true, 960, 1024, 0, 0},
                          in_fwd = {LINEAR, false, 960, 512, 2096, 1}, in_bwd = {LINEAR, true, 960, 512, 2096, 1},
                          fuse_fwd = {LINEAR, false, 960, 2048, 512, 1};

#define OF(bench_, name_, shape, batch_, where_)                                                                                   \
    { bench_, name_, batch_, false, where_, layer_work, layer_open, layer_run, layer_close, &shape }
#define CASE(bench, name, shape) OF(bench, name, shape, 1, BENCH_ANYWHERE), OF(bench, name " b64", shape, 64, BENCH_GPU)
const struct bench_case bench_layer_cases[] = {
    CASE("conv", "stem fwd", stem_fwd),       CASE("conv", "stem bwd", stem_bwd),
    CASE("conv", "encoder fwd", wide_fwd),    CASE("conv", "encoder bwd", wide_bwd),
    CASE("conv", "branch7 fwd", branch_fwd),  CASE("conv", "branch7 bwd", branch_bwd),
    CASE("norm", "batch fwd", batch_fwd),     CASE("norm", "batch bwd", batch_bwd),
    CASE("norm", "layer fwd", layer_fwd),     CASE("norm", "layer bwd", layer_bwd),
    CASE("norm", "gated rms fwd", gated_fwd), CASE("norm", "gated rms bwd", gated_bwd),
    CASE("gemm", "in_proj fwd", in_fwd),      CASE("gemm", "in_proj bwd", in_bwd),
    CASE("gemm", "fuse fwd", fuse_fwd),       {.name = NULL},
};
