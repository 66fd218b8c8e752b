#include "nn/mamba.h"

#include "base/rng.h"

static const char *const direction_names[2] = {"fwd", "bwd"};
enum { RNG_MAMBA = RNG_DROPOUT + 100 };

/* Widths that follow from the shape. */
struct widths {
    int64_t inner, heads, bc, conv, proj; /* D_inner; heads; G·N; channels of the convolution; rows of in_proj */
};

static struct widths widths_of(const struct mamba_shape *s) {
    struct widths w = {.inner = (int64_t)s->d_model * s->expand, .bc = (int64_t)s->ngroups * s->d_state};
    w.heads = w.inner / s->headdim;
    w.conv = w.inner + 2 * w.bc;
    w.proj = 2 * w.inner + 2 * w.bc + w.heads;
    return w;
}

static int direction_params(struct param_set *set, const char *prefix, const struct mamba_shape *s, struct err *err) {
    struct widths w = widths_of(s);
    int64_t d = s->d_model;
    struct {
        const char *name;
        struct param_spec spec;
    } rows[] = {
        {"in_proj.weight", {PARAM_WEIGHT, 2, {w.proj, d}}},
        {"conv.weight", {PARAM_WEIGHT, 3, {w.conv, 1, s->d_conv}}},
        {"conv.bias", {PARAM_PLAIN, 1, {w.conv}}},
        {"dt_bias", {PARAM_PLAIN, 1, {w.heads}}},
        {"A_log", {PARAM_PLAIN, 1, {w.heads}}},
        {"D", {PARAM_PLAIN, 1, {w.heads}}},
        {"norm.weight", {PARAM_PLAIN, 1, {w.inner}}},
        {"out_proj.weight", {PARAM_WEIGHT, 2, {d, w.inner}}},
    };
    int rc = 0;
    if (s->mixer == MAMBA_MIXER_CONV) {
        struct param_spec weight = {PARAM_WEIGHT, 3, {d, 1, MAMBA_CONV_TAPS}}, bias = {PARAM_PLAIN, 1, {d}};
        rc = param_add(set, &weight, err, "%s.conv.weight", prefix);
        return rc ? rc : param_add(set, &bias, err, "%s.conv.bias", prefix);
    }
    for (size_t i = 0; !rc && i < sizeof rows / sizeof *rows; i++)
        rc = param_add(set, &rows[i].spec, err, "%s.%s", prefix, rows[i].name);
    return rc;
}

int mamba_params(struct param_set *set, int index, const struct mamba_shape *s, struct err *err) {
    int64_t d = s->d_model;
    struct param_spec fuse = {PARAM_WEIGHT, 2, {d, s->directions * d}}, plain = {PARAM_PLAIN, 1, {d}};
    int rc;
    for (int i = 0; i < s->directions; i++) {
        char prefix[48];
        str_format(prefix, sizeof prefix, "mamba.%d.%s", index, direction_names[i]);
        if ((rc = direction_params(set, prefix, s, err)))
            return rc;
    }
    if ((rc = param_add(set, &fuse, err, "mamba.%d.fuse.weight", index)) ||
        (rc = param_add(set, &plain, err, "mamba.%d.fuse.bias", index)) ||
        (rc = param_add(set, &plain, err, "mamba.%d.norm.weight", index)))
        return rc;
    return param_add(set, &plain, err, "mamba.%d.norm.bias", index);
}

void mamba_bind(struct mamba_layer *l, const struct param_set *set, int index, const struct mamba_shape *shape) {
    char layer[32], prefix[48];
    str_format(layer, sizeof layer, "mamba.%d", index);
    *l = (struct mamba_layer){.shape = *shape, .rng_stream = RNG_MAMBA + (uint32_t)index};
    for (int i = 0; i < shape->directions; i++) {
        struct mamba_direction *d = &l->dir[i];
        const struct param **slots[] = {&d->in_proj, &d->conv_w, &d->conv_b, &d->dt_bias, &d->a_log, &d->d, &d->norm, &d->out_proj};
        const char *leaves[] = {"in_proj.weight", "conv.weight", "conv.bias",   "dt_bias",
                                "A_log",          "D",           "norm.weight", "out_proj.weight"};
        str_format(prefix, sizeof prefix, "%s.%s", layer, direction_names[i]);
        for (size_t k = 0; k < sizeof slots / sizeof *slots; k++)
            *slots[k] = nn_row(set, prefix, leaves[k]);
        d->reverse = i == 1;
    }
    l->fuse_w = nn_row(set, layer, "fuse.weight");
    l->fuse_b = nn_row(set, layer, "fuse.bias");
    l->norm_w = nn_row(set, layer, "norm.weight");
    l->norm_b = nn_row(set, layer, "norm.bias");
}

/* Depthwise weight (D,1,K) as (D,K). */
static struct tensor taps(struct tensor w) {
    w.rank = 2;
    w.dim[1] = w.dim[2];
    return w;
}

/* The slices of in_proj's output (z | x B C | dt) and of the convolution's (x | B | C). */
struct slices {
    struct tensor z, xbc_in, dt, x, b, c;
};

static struct slices slices_of(const struct mamba_shape *s, const struct tensor *zxbcdt, const struct tensor *xbc) {
    struct widths w = widths_of(s);
    return (struct slices){
        .z = tensor_slice(zxbcdt, 0, w.inner),
        .xbc_in = tensor_slice(zxbcdt, w.inner, w.conv),
        .dt = tensor_slice(zxbcdt, w.inner + w.conv, w.heads),
        .x = tensor_slice(xbc, 0, w.inner),
        .b = tensor_slice(xbc, w.inner, w.bc),
        .c = tensor_slice(xbc, w.inner + w.bc, w.bc),
    };
}

static struct ssd_args ssd_of(const struct mamba_direction *d, const struct mamba_shape *s, const struct pass *p,
                              const struct slices *v) {
    return (struct ssd_args){
        .x = v->x,
        .delta = v->dt,
        .A = d->a,
        .Bm = v->b,
        .Cm = v->c,
        .Dskip = param_value(p->params, d->d),
        .dbias = param_value(p->params, d->dt_bias),
        SAME_MEMBERS(*d, y, reverse),
        .heads = (int)widths_of(s).heads,
        .groups = s->ngroups,
        .softplus = true,
    };
}

int64_t mamba_state_count(const struct mamba_shape *s) {
    struct widths w = widths_of(s);
    return (s->d_conv - 1) * w.conv + w.inner * s->d_state;
}

/* The state before and after a call: the inputs of the convolution's earlier taps (B,K−1,conv) and the scan's state (B,D_inner,N).
 * All absent without state. */
struct carried {
    struct tensor taps, scan, next_taps, next_scan;
};

static struct carried carried_of(const struct mamba_shape *s, const struct pass *p, const struct tensor *state) {
    struct widths w = widths_of(s);
    struct carried c = {0};
    if (!tensor_present(state))
        return c;
    int64_t b = state->dim[0];
    c.taps = plan_tensor(p->plan, DTYPE_F32, b, s->d_conv - 1, w.conv);
    c.scan = plan_tensor(p->plan, DTYPE_F32, b, w.inner, s->d_state);
    c.next_taps = plan_tensor(p->plan, DTYPE_F32, b, s->d_conv - 1, w.conv);
    c.next_scan = plan_tensor(p->plan, DTYPE_F32, b, w.inner, s->d_state);
    return c;
}

/* Between a layer's rows of state and the dense arrays that the ops take; save: towards the rows. */
static int carry(const struct pass *p, const struct tensor *state, const struct carried *c, bool save) {
    if (!tensor_present(state))
        return 0;
    const struct tensor *inputs = save ? &c->next_taps : &c->taps, *scan = save ? &c->next_scan : &c->scan;
    int64_t b = state->dim[0], n = inputs->dim[1] * inputs->dim[2];
    struct tensor dense[2] = {tensor_2d(inputs->data, DTYPE_F32, b, n),
                              tensor_2d(scan->data, DTYPE_F32, b, scan->dim[1] * scan->dim[2])};
    struct tensor rows[2] = {tensor_slice(state, 0, n), tensor_slice(state, n, dense[1].dim[1])};
    int rc;
    for (int i = 0; i < 2; i++)
        if ((rc = nn_eltwise(p, ELTWISE_COPY, save ? &dense[i] : &rows[i], NULL, save ? &rows[i] : &dense[i])))
            return rc;
    return 0;
}

static bool joins(const struct mamba_layer *l) { return l->joins && l->shape.directions == 2 && l->shape.mixer == MAMBA_MIXER_SSD; }

/* At inference in_proj of both directions at once, where that is kept; else *ret is absent. */
static int project_both(const struct mamba_layer *l, const struct pass *p, const struct tensor *u, struct tensor *ret) {
    *ret = (struct tensor){0};
    if (p->training || !joins(l))
        return 0;
    *ret = nn_tensor(p, u->dim[0], u->dim[1], 2 * widths_of(&l->shape).proj);
    struct linear_args in = {.x = *u, .w = l->joined, .y = *ret, .weight_version = p->params->version};
    return p->dry ? 0 : op_linear(p->stream, &in, p->err);
}

static int project(const struct mamba_direction *d, const struct pass *p, const struct tensor *u) {
    struct linear_args in = {
        .x = *u, .w = param_value(p->params, d->in_proj), .y = d->zxbcdt, .weight_version = p->params->version};
    return op_linear(p->stream, &in, p->err);
}

/* in_proj's output → the gated scan output, before out_proj. */
static int direction_scan(struct mamba_direction *d, const struct mamba_shape *s, const struct pass *p, const struct carried *c) {
    struct slices v = slices_of(s, &d->zxbcdt, &d->xbc);
    struct tensor a_log = param_value(p->params, d->a_log);
    struct conv1d_depthwise_args conv = {.x = v.xbc_in,
                                         .w = taps(param_value(p->params, d->conv_w)),
                                         .bias = param_value(p->params, d->conv_b),
                                         .y = d->xbc,
                                         .state0 = c->taps,
                                         .state = c->next_taps,
                                         .pad_left = s->d_conv - 1,
                                         .silu = true,
                                         .reverse = d->reverse};
    struct ssd_args ssd = ssd_of(d, s, p, &v);
    struct rmsnorm_gated_args norm = {.y = d->y,
                                      .z = v.z,
                                      .weight = param_value(p->params, d->norm),
                                      .out = d->gated,
                                      .save_rstd = d->rstd,
                                      .groups = s->ngroups,
                                      .eps = NN_EPS};
    ssd.h0 = c->scan;
    ssd.hT = c->next_scan;
    int rc;
    if ((rc = nn_eltwise(p, ELTWISE_NEG_EXP, &a_log, NULL, &d->a)) || (rc = op_conv1d_depthwise(p->stream, &conv, p->err)) ||
        (rc = op_ssd(p->stream, &ssd, p->err)))
        return rc;
    return op_rmsnorm_gated(p->stream, &norm, p->err);
}

/* half: this direction's channels of what fuse reads: in training (B,L,D) after out_proj, at inference (B,L,D_inner) before it.
 * both: the output of project_both. */
static int direction_forward(const struct mamba_layer *layer, struct mamba_direction *d, const struct pass *p,
                             const struct tensor *u, const struct tensor *both, const struct tensor *half) {
    const struct mamba_shape *s = &layer->shape;
    struct widths w = widths_of(s);
    struct carried c = carried_of(s, p, &layer->state);
    int64_t b = u->dim[0], l = u->dim[1];
    d->a = nn_vector(p, w.heads);
    d->zxbcdt = tensor_present(both) ? tensor_slice(both, d->reverse ? w.proj : 0, w.proj) : nn_tensor(p, b, l, w.proj);
    d->xbc = nn_tensor(p, b, l, w.conv);
    d->y = nn_tensor(p, b, l, w.inner);
    d->gated = p->training ? nn_tensor(p, b, l, w.inner) : *half;
    d->rstd = nn_vector(p, b * l * s->ngroups);
    if (p->dry)
        return 0;
    int rc;
    if ((rc = carry(p, &layer->state, &c, false)) || (!tensor_present(both) && (rc = project(d, p, u))) ||
        (rc = direction_scan(d, s, p, &c)) || (rc = carry(p, &layer->state, &c, true)) || !p->training)
        return rc;
    struct linear_args proj = {
        .x = d->gated, .w = param_value(p->params, d->out_proj), .y = *half, .weight_version = p->params->version};
    return op_linear(p->stream, &proj, p->err);
}

static int direction_backward(struct mamba_direction *d, const struct mamba_shape *s, const struct pass *p, const struct tensor *u,
                              const struct tensor *dout, const struct tensor *du) {
    struct widths w = widths_of(s);
    int64_t b = u->dim[0], l = u->dim[1];
    size_t mark = plan_mark(p->plan);
    struct tensor dz = nn_tensor(p, b, l, w.proj), dxbc = nn_tensor(p, b, l, w.conv);
    struct tensor dy = nn_tensor(p, b, l, w.inner), da = nn_vector(p, w.heads);
    plan_release(p->plan, mark);
    if (p->dry)
        return 0;
    const struct param_set *set = p->params;
    struct slices v = slices_of(s, &d->zxbcdt, &d->xbc), g = slices_of(s, &dz, &dxbc);
    struct tensor da_log = param_grad(set, d->a_log);
    struct linear_backward_args proj = {.x = d->gated,
                                        .w = param_value(set, d->out_proj),
                                        .dy = *dout,
                                        .dx = dy,
                                        .dw = param_grad(set, d->out_proj),
                                        .weight_version = set->version};
    struct rmsnorm_gated_backward_args norm = {.y = d->y,
                                               .z = v.z,
                                               .weight = param_value(set, d->norm),
                                               .save_rstd = d->rstd,
                                               .dout = dy,
                                               .dy = dy,
                                               .dz = g.z,
                                               .dweight = param_grad(set, d->norm),
                                               .groups = s->ngroups};
    struct ssd_backward_args ssd = {.fwd = ssd_of(d, s, p, &v),
                                    .dy = dy,
                                    .dx = g.x,
                                    .ddelta = g.dt,
                                    .dA = da,
                                    .dBm = g.b,
                                    .dCm = g.c,
                                    .dDskip = param_grad(set, d->d),
                                    .ddbias = param_grad(set, d->dt_bias)};
    struct conv1d_depthwise_backward_args conv = {.x = v.xbc_in,
                                                  .w = taps(param_value(set, d->conv_w)),
                                                  .bias = param_value(set, d->conv_b),
                                                  .dy = dxbc,
                                                  .dx = g.xbc_in,
                                                  .dw = taps(param_grad(set, d->conv_w)),
                                                  .dbias = param_grad(set, d->conv_b),
                                                  .pad_left = s->d_conv - 1,
                                                  .silu = true,
                                                  .reverse = d->reverse};
    struct linear_backward_args in = {.x = *u,
                                      .w = param_value(set, d->in_proj),
                                      .dy = dz,
                                      .dx = *du,
                                      .dw = param_grad(set, d->in_proj),
                                      .accumulate_dx = true,
                                      .weight_version = set->version};
    int rc;
    if ((rc = op_linear_backward(p->stream, &proj, p->err)) || (rc = op_rmsnorm_gated_backward(p->stream, &norm, p->err)) ||
        (rc = nn_eltwise(p, ELTWISE_FILL, NULL, NULL, &da)) || (rc = op_ssd_backward(p->stream, &ssd, p->err)) ||
        (rc = nn_eltwise(p, ELTWISE_MUL_ADD, &da, &d->a, &da_log)) || (rc = op_conv1d_depthwise_backward(p->stream, &conv, p->err)))
        return rc;
    return op_linear_backward(p->stream, &in, p->err);
}

static int conv_forward(const struct mamba_direction *d, const struct pass *p, const struct tensor *u, const struct tensor *out) {
    struct conv1d_depthwise_args conv = {.x = *u,
                                         .w = taps(param_value(p->params, d->conv_w)),
                                         .bias = param_value(p->params, d->conv_b),
                                         .y = *out,
                                         .pad_left = MAMBA_CONV_TAPS / 2,
                                         .reverse = d->reverse};
    return p->dry ? 0 : op_conv1d_depthwise(p->stream, &conv, p->err);
}

static int conv_backward(const struct mamba_direction *d, const struct pass *p, const struct tensor *u, const struct tensor *dout,
                         const struct tensor *du) {
    size_t mark = plan_mark(p->plan);
    struct tensor part = nn_like(p, u);
    plan_release(p->plan, mark);
    if (p->dry)
        return 0;
    struct conv1d_depthwise_backward_args conv = {.x = *u,
                                                  .w = taps(param_value(p->params, d->conv_w)),
                                                  .bias = param_value(p->params, d->conv_b),
                                                  .dy = *dout,
                                                  .dx = part,
                                                  .dw = taps(param_grad(p->params, d->conv_w)),
                                                  .dbias = param_grad(p->params, d->conv_b),
                                                  .pad_left = MAMBA_CONV_TAPS / 2,
                                                  .reverse = d->reverse};
    int rc = op_conv1d_depthwise_backward(p->stream, &conv, p->err);
    return rc ? rc : nn_eltwise(p, ELTWISE_ADD, du, &part, du);
}

/* out = LayerNorm(u + Dropout(fuse(cat))). */
static int fuse_forward(struct mamba_layer *l, const struct pass *p, const struct tensor *out) {
    const struct param_set *set = p->params;
    bool folded = !p->training && l->shape.mixer == MAMBA_MIXER_SSD;
    struct linear_args fuse = {.x = l->cat,
                               .w = folded ? l->folded.w : param_value(set, l->fuse_w),
                               .bias = param_value(set, l->fuse_b),
                               .y = *out,
                               .weight_version = set->version};
    struct layernorm_args norm = {.x = *out,
                                  .residual = l->u,
                                  .weight = param_value(set, l->norm_w),
                                  .bias = param_value(set, l->norm_b),
                                  .y = *out,
                                  .sum = l->sum,
                                  .save_mean = l->mean,
                                  .save_rstd = l->rstd,
                                  .eps = NN_EPS};
    int rc;
    if ((rc = p->dry ? 0 : op_linear(p->stream, &fuse, p->err)) || (rc = nn_dropout(p, out, l->rng_stream, false)))
        return rc;
    return p->dry ? 0 : op_layernorm(p->stream, &norm, p->err);
}

int mamba_forward(struct mamba_layer *l, const struct pass *p, const struct tensor *u, struct tensor *out) {
    int64_t b = u->dim[0], t = u->dim[1];
    bool conv = l->shape.mixer == MAMBA_MIXER_CONV;
    int64_t width = conv || p->training ? u->dim[2] : widths_of(&l->shape).inner;
    *out = nn_like(p, u);
    OWNED(plan_scope_end) struct plan_scope scope = {p->training ? NULL : p->plan, plan_mark(p->plan)};
    l->u = *u;
    l->cat = nn_tensor(p, b, t, l->shape.directions * width);
    l->sum = nn_like(p, u);
    l->mean = nn_vector(p, b * t);
    l->rstd = nn_vector(p, b * t);
    struct tensor both;
    int rc = project_both(l, p, u, &both);
    if (rc)
        return rc;
    for (int i = 0; i < l->shape.directions; i++) {
        OWNED(plan_scope_end) struct plan_scope inner = {p->training ? NULL : p->plan, plan_mark(p->plan)};
        struct tensor half = tensor_slice(&l->cat, i * width, width);
        rc = conv ? conv_forward(&l->dir[i], p, u, &half) : direction_forward(l, &l->dir[i], p, u, &both, &half);
        if (rc)
            return rc;
    }
    return fuse_forward(l, p, out);
}

/* dout → dcat and, through the residual, du. */
static int fuse_backward(struct mamba_layer *l, const struct pass *p, const struct tensor *dout, const struct tensor *dcat,
                         const struct tensor *du) {
    if (p->dry)
        return 0;
    const struct param_set *set = p->params;
    struct layernorm_backward_args norm = {.sum = l->sum,
                                           .weight = param_value(set, l->norm_w),
                                           .save_mean = l->mean,
                                           .save_rstd = l->rstd,
                                           .dy = *dout,
                                           .dx = *du,
                                           .dweight = param_grad(set, l->norm_w),
                                           .dbias = param_grad(set, l->norm_b)};
    struct linear_backward_args fuse = {.x = l->cat,
                                        .w = param_value(set, l->fuse_w),
                                        .dy = *dout,
                                        .dx = *dcat,
                                        .dw = param_grad(set, l->fuse_w),
                                        .dbias = param_grad(set, l->fuse_b),
                                        .weight_version = set->version};
    int rc;
    if ((rc = op_layernorm_backward(p->stream, &norm, p->err)) || (rc = nn_eltwise(p, ELTWISE_COPY, du, NULL, dout)) ||
        (rc = nn_dropout(p, dout, l->rng_stream, false)))
        return rc;
    return op_linear_backward(p->stream, &fuse, p->err);
}

int mamba_backward(struct mamba_layer *l, const struct pass *p, const struct tensor *dout, const struct tensor *du) {
    int64_t d = l->u.dim[2];
    size_t mark = plan_mark(p->plan);
    struct tensor dcat = nn_tensor(p, l->u.dim[0], l->u.dim[1], l->shape.directions * d);
    int rc = fuse_backward(l, p, dout, &dcat, du);
    for (int i = 0; !rc && i < l->shape.directions; i++) {
        struct tensor half = tensor_slice(&dcat, i * d, d);
        rc = l->shape.mixer == MAMBA_MIXER_CONV ? conv_backward(&l->dir[i], p, &l->u, &half, du)
                                                : direction_backward(&l->dir[i], &l->shape, p, &l->u, &half, du);
    }
    plan_release(p->plan, mark);
    return rc;
}

/* The map of out_proj and fuse. */
static int64_t map_count(const struct mamba_layer *l) {
    return nn_aligned((int64_t)l->shape.d_model * l->shape.directions * widths_of(&l->shape).inner);
}

int64_t mamba_folded_count(const struct mamba_layer *l) {
    int64_t joined = joins(l) ? nn_aligned(2 * widths_of(&l->shape).proj * l->shape.d_model) : 0;
    return l->shape.mixer == MAMBA_MIXER_SSD ? map_count(l) + joined : 0;
}

/* in_proj of both directions, one below the other. */
static int join(struct mamba_layer *l, const struct param_set *set, struct stream *s, float *device_memory, struct err *err) {
    int64_t n = l->dir[0].in_proj->count;
    l->joined = tensor_2d(device_memory, DTYPE_F32, 2 * widths_of(&l->shape).proj, l->shape.d_model);
    for (int i = 0; i < 2; i++) {
        struct tensor w = param_value(set, l->dir[i].in_proj);
        int rc = stream_copy(s, device_memory + i * n, w.data, (size_t)n * sizeof(float), err);
        if (rc)
            return rc;
    }
    return 0;
}

/* fuse·[out_f·f ; out_b·b] = [fuse_f·out_f , fuse_b·out_b]·[f ; b]. The products are those of a projection's input gradient. */
int mamba_fold(struct mamba_layer *l, const struct param_set *set, struct stream *s, float *device_memory, struct err *err) {
    if (l->shape.mixer != MAMBA_MIXER_SSD)
        return 0;
    int64_t d = l->shape.d_model, inner = widths_of(&l->shape).inner, n = l->shape.directions;
    struct tensor fuse = param_value(set, l->fuse_w), fuse3 = tensor_3d(fuse.data, DTYPE_F32, 1, d, n * d);
    struct tensor whole = tensor_3d(device_memory, DTYPE_F32, 1, d, n * inner);
    int rc = 0;
    for (int i = 0; !rc && i < n; i++) {
        struct tensor product = tensor_slice(&whole, i * inner, inner);
        struct linear_backward_args args = {
            .x = product, .w = param_value(set, l->dir[i].out_proj), .dy = tensor_slice(&fuse3, i * d, d), .dx = product};
        rc = op_linear_backward(s, &args, err);
    }
    l->folded.w = tensor_2d(device_memory, DTYPE_F32, d, n * inner);
    return rc || !joins(l) ? rc : join(l, set, s, device_memory + map_count(l), err);
}
