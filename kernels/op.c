#include "kernels/op.h"

#include "base/str.h"
#include "kernels/backend.h"
#include "kernels/geodesic.h"
#include "kernels/profile.h"

/* Validation is written as checks of one argument after another; the first that fails names op, argument, found and expected. */
struct checker {
    const char *op;
    struct err *err;
    int rc;
    const struct tensor *act; /* the first activation seen: the others have its dtype */
    bool timed;               /* then the call is described, for a profile */
    struct profile_call call;
};

static void shape_text(const struct tensor *t, char *buf, size_t size) {
    struct str s = str_of(size - 1);
    for (int i = 0; i < t->rank && i < TENSOR_MAX_RANK; i++)
        str_printf(&s, "%s%lld", i ? "," : "", (long long)t->dim[i]);
    str_copy(buf, size, str_cstr(&s));
    str_done(&s);
}

static void require(struct checker *c, bool ok, const char *what) {
    if (!c->rc && !ok)
        c->rc = err_set(c->err, ERR_INVALID, "op %s: %s", c->op, what);
}

/* t is present, F32 and of the given shape (−1 = any). `slice` allows ld > last dim; `act` allows BF16, all activations alike. */
struct want {
    const char *name;
    int rank;
    int64_t dim[TENSOR_MAX_RANK];
    bool optional, slice, act;
};

/* The call has one operand more. */
static void describe_operand(struct checker *c, const struct tensor *t) {
    struct profile_call *call = &c->call;
    const int place = !call->shown[0] ? 0 : 1;
    if (!call->shown[place])
        call->shown[place] = t;
    call->work.bytes += (double)tensor_count(t) * (double)dtype_bytes(t->dtype);
    call->dtype = c->act ? c->act->dtype : DTYPE_F32;
}

static void check(struct checker *c, const struct tensor *t, struct want w) {
    if (c->rc || (w.optional && !tensor_present(t)))
        return;
    if (!tensor_present(t)) {
        c->rc = err_set(c->err, ERR_INVALID, "op %s: %s is missing", c->op, w.name);
        return;
    }
    if (w.act && !c->act)
        c->act = t;
    if (t->dtype == DTYPE_BF16 && !w.act) {
        c->rc =
            err_set(c->err, ERR_UNSUPPORTED, "op %s: %s is bf16, which is unsupported yet on this device; use fp32", c->op, w.name);
        return;
    }
    enum dtype dtype = w.act && (c->act->dtype == DTYPE_BF16) ? DTYPE_BF16 : DTYPE_F32;
    bool ok = t->rank == w.rank && t->dtype == dtype;
    for (int i = 0; ok && i < w.rank; i++)
        ok = t->dim[i] > 0 && (w.dim[i] < 0 || t->dim[i] == w.dim[i]);
    ok = ok && (w.rank < 2 || t->ld >= t->dim[w.rank - 1]) && (w.slice || tensor_dense(t));
    if (ok && c->timed)
        describe_operand(c, t);
    if (ok)
        return;
    char found[80], expected[80];
    struct tensor e = {.rank = w.rank};
    for (int i = 0; i < w.rank; i++)
        e.dim[i] = w.dim[i];
    shape_text(t, found, sizeof found);
    shape_text(&e, expected, sizeof expected);
    c->rc = err_set(c->err, ERR_INVALID, "op %s: %s is %s (%s)%s; expected %s (%s)%s", c->op, w.name, dtype_name(t->dtype), found,
                    tensor_dense(t) ? "" : " strided", dtype_name(dtype), expected, w.slice ? "" : " dense");
}

#define CHECKER(name) struct checker c = {.op = #name, .err = err, .timed = s->profile != NULL, .call.op = #name}
/* What a valid call computes beside moving its operands: `field` of struct rates_work. */
#define WORK(field, amount)                                                                                                        \
    do {                                                                                                                           \
        if (c.timed && !c.rc)                                                                                                      \
            c.call.work.field = (double)(amount);                                                                                  \
    } while (0)
static int op_enter(struct stream *s, const struct checker *c) {
    int rc = stream_enter(s, c->err);
    if (rc)
        return rc;
    if (s->device->backend->range)
        s->device->backend->range(c->op);
    if (c->timed)
        profile_begin(s->profile, s);
    return 0;
}

static void op_leave(struct stream *s, const struct checker *c) {
    if (c->timed)
        profile_end(s->profile, s, &c->call);
    if (s->device->backend->range)
        s->device->backend->range(NULL);
    stream_leave(s, false);
}

#define RUN(name)                                                                                                                  \
    do {                                                                                                                           \
        if (c.rc)                                                                                                                  \
            return c.rc;                                                                                                           \
        if (s->device->backend->check && (c.rc = s->device->backend->check(s, err)))                                               \
            return c.rc;                                                                                                           \
        int rc = op_enter(s, &c);                                                                                                  \
        if (rc)                                                                                                                    \
            return rc;                                                                                                             \
        rc = s->device->backend->ops->name(s, a, err);                                                                             \
        op_leave(s, &c);                                                                                                           \
        return rc;                                                                                                                 \
    } while (0)
#define DIM(...)                                                                                                                   \
    { __VA_ARGS__ }
#define WANT(n, r, dims, ...)                                                                                                      \
    (struct want) { .name = n, .rank = r, .dim = dims, ##__VA_ARGS__ }

int op_conv1d(struct stream *s, const struct conv1d_args *a, struct err *err) {
    CHECKER(conv1d);
    int64_t ci = a->x.dim[2], co = a->w.dim[0], k = a->w.dim[2];
    check(&c, &a->x, WANT("x", 3, DIM(-1, -1, -1), .slice = true, .act = true));
    check(&c, &a->w, WANT("w", 3, DIM(-1, ci, -1)));
    check(&c, &a->bias, WANT("bias", 1, DIM(co), .optional = true));
    require(&c, a->stride == 1 || a->stride == 2, "stride must be 1 or 2");
    require(&c, a->stride == 1 || (k == 2 && a->pad == 0 && a->x.dim[1] % 2 == 0), "stride 2 needs K = 2, pad 0 and an even T");
    require(&c, a->pad >= 0 && a->pad < k && a->x.dim[1] + 2 * a->pad >= k, "pad must lie in 0..K-1 and T + 2·pad >= K");
    int64_t to = c.rc ? 0 : (a->x.dim[1] + 2 * a->pad - k) / a->stride + 1;
    check(&c, &a->y, WANT("y", 3, DIM(a->x.dim[0], to, co), .slice = true, .act = true));
    WORK(flops_act, 2 * tensor_count(&a->y) * ci * k);
    RUN(conv1d);
}

int op_conv1d_backward(struct stream *s, const struct conv1d_backward_args *a, struct err *err) {
    CHECKER(conv1d_backward);
    int64_t b = a->x.dim[0], t = a->x.dim[1], ci = a->x.dim[2], co = a->w.dim[0], k = a->w.dim[2];
    check(&c, &a->x, WANT("x", 3, DIM(-1, -1, -1), .slice = true, .act = true));
    check(&c, &a->w, WANT("w", 3, DIM(-1, ci, -1)));
    require(&c, a->stride == 1 || (a->stride == 2 && k == 2 && a->pad == 0 && t % 2 == 0),
            "stride must be 1, or 2 with K = 2 and pad 0");
    require(&c, a->pad >= 0 && a->pad < k && t + 2 * a->pad >= k, "pad must lie in 0..K-1 and T + 2·pad >= K");
    int64_t to = c.rc ? 0 : (t + 2 * a->pad - k) / a->stride + 1;
    check(&c, &a->dy, WANT("dy", 3, DIM(b, to, co), .slice = true, .act = true));
    check(&c, &a->dx, WANT("dx", 3, DIM(b, t, ci), .optional = true, .slice = true, .act = true));
    check(&c, &a->dw, WANT("dw", 3, DIM(co, ci, k), .optional = true));
    check(&c, &a->dbias, WANT("dbias", 1, DIM(co), .optional = true));
    WORK(flops_act, 2 * tensor_count(&a->dy) * ci * k * (tensor_present(&a->dx) + tensor_present(&a->dw)));
    RUN(conv1d_backward);
}

int op_convt1d(struct stream *s, const struct convt1d_args *a, struct err *err) {
    CHECKER(convt1d);
    check(&c, &a->x, WANT("x", 3, DIM(-1, -1, -1), .slice = true, .act = true));
    check(&c, &a->w, WANT("w", 3, DIM(a->x.dim[2], -1, 2)));
    check(&c, &a->bias, WANT("bias", 1, DIM(a->w.dim[1]), .optional = true));
    check(&c, &a->y, WANT("y", 3, DIM(a->x.dim[0], 2 * a->x.dim[1], a->w.dim[1]), .slice = true, .act = true));
    WORK(flops_act, 2 * tensor_count(&a->y) * a->x.dim[2]);
    RUN(convt1d);
}

int op_convt1d_backward(struct stream *s, const struct convt1d_backward_args *a, struct err *err) {
    CHECKER(convt1d_backward);
    check(&c, &a->x, WANT("x", 3, DIM(-1, -1, -1), .slice = true, .act = true));
    check(&c, &a->w, WANT("w", 3, DIM(a->x.dim[2], -1, 2)));
    check(&c, &a->dy, WANT("dy", 3, DIM(a->x.dim[0], 2 * a->x.dim[1], a->w.dim[1]), .slice = true, .act = true));
    check(&c, &a->dx, WANT("dx", 3, DIM(a->x.dim[0], a->x.dim[1], a->x.dim[2]), .optional = true, .slice = true, .act = true));
    check(&c, &a->dw, WANT("dw", 3, DIM(a->w.dim[0], a->w.dim[1], 2), .optional = true));
    check(&c, &a->dbias, WANT("dbias", 1, DIM(a->w.dim[1]), .optional = true));
    WORK(flops_act, 2 * tensor_count(&a->dy) * a->x.dim[2] * (tensor_present(&a->dx) + tensor_present(&a->dw)));
    RUN(convt1d_backward);
}

int op_linear(struct stream *s, const struct linear_args *a, struct err *err) {
    CHECKER(linear);
    check(&c, &a->x, WANT("x", 3, DIM(-1, -1, -1), .slice = true, .act = true));
    check(&c, &a->w, WANT("w", 2, DIM(-1, a->x.dim[2])));
    check(&c, &a->bias, WANT("bias", 1, DIM(a->w.dim[0]), .optional = true));
    check(&c, &a->y, WANT("y", 3, DIM(a->x.dim[0], a->x.dim[1], a->w.dim[0]), .slice = true, .act = true));
    WORK(flops_act, 2 * tensor_count(&a->y) * a->x.dim[2]);
    RUN(linear);
}

int op_linear_backward(struct stream *s, const struct linear_backward_args *a, struct err *err) {
    CHECKER(linear_backward);
    check(&c, &a->x, WANT("x", 3, DIM(-1, -1, -1), .slice = true, .act = true));
    check(&c, &a->w, WANT("w", 2, DIM(-1, a->x.dim[2])));
    check(&c, &a->dy, WANT("dy", 3, DIM(a->x.dim[0], a->x.dim[1], a->w.dim[0]), .slice = true, .act = true));
    check(&c, &a->dx, WANT("dx", 3, DIM(a->x.dim[0], a->x.dim[1], a->x.dim[2]), .optional = true, .slice = true, .act = true));
    check(&c, &a->dw, WANT("dw", 2, DIM(a->w.dim[0], a->w.dim[1]), .optional = true));
    check(&c, &a->dbias, WANT("dbias", 1, DIM(a->w.dim[0]), .optional = true));
    WORK(flops_act, 2 * tensor_count(&a->dy) * a->x.dim[2] * (tensor_present(&a->dx) + tensor_present(&a->dw)));
    RUN(linear_backward);
}

/* Row lengths and segment marks of a (B,L) batch, both optional. */
static void check_rows(struct checker *c, const struct tensor *resets, const int32_t *lengths, const int64_t bl[2]) {
    if (tensor_present(resets))
        require(c,
                resets->dtype == DTYPE_U8 && resets->rank == 2 && resets->dim[0] == bl[0] && resets->dim[1] == bl[1] &&
                    tensor_dense(resets),
                "resets must be u8 (B,L)");
    for (int64_t i = 0; lengths && !c->rc && i < bl[0]; i++)
        require(c, lengths[i] >= 0 && lengths[i] <= bl[1], "lengths must lie in 0..L");
}

int op_conv1d_depthwise(struct stream *s, const struct conv1d_depthwise_args *a, struct err *err) {
    CHECKER(conv1d_depthwise);
    int64_t b = a->x.dim[0], d = a->x.dim[2], k = a->w.dim[1];
    check(&c, &a->x, WANT("x", 3, DIM(-1, -1, -1), .slice = true, .act = true));
    check(&c, &a->w, WANT("w", 2, DIM(d, -1)));
    check(&c, &a->bias, WANT("bias", 1, DIM(d), .optional = true));
    check(&c, &a->y, WANT("y", 3, DIM(b, a->x.dim[1], d), .slice = true, .act = true));
    require(&c, k >= 1 && k <= 8, "K must lie in 1..8");
    require(&c, a->pad_left >= 0 && a->pad_left < k, "pad_left must lie in 0..K-1");
    require(&c, (a->pad_left == k - 1 && k > 1) || (!tensor_present(&a->state0) && !tensor_present(&a->state)),
            "a state needs the causal form and K > 1");
    check(&c, &a->state0, WANT("state0", 3, DIM(b, k - 1, d), .optional = true));
    check(&c, &a->state, WANT("state", 3, DIM(b, k - 1, d), .optional = true));
    check_rows(&c, &a->resets, a->lengths, a->x.dim);
    WORK(flops, 2 * tensor_count(&a->x) * k);
    WORK(exponentials, a->silu ? tensor_count(&a->x) : 0);
    RUN(conv1d_depthwise);
}

int op_conv1d_depthwise_backward(struct stream *s, const struct conv1d_depthwise_backward_args *a, struct err *err) {
    CHECKER(conv1d_depthwise_backward);
    int64_t b = a->x.dim[0], l = a->x.dim[1], d = a->x.dim[2], k = a->w.dim[1];
    check(&c, &a->x, WANT("x", 3, DIM(-1, -1, -1), .slice = true, .act = true));
    check(&c, &a->w, WANT("w", 2, DIM(d, -1)));
    require(&c, k >= 1 && k <= 8, "K must lie in 1..8");
    require(&c, a->pad_left >= 0 && a->pad_left < k, "pad_left must lie in 0..K-1");
    require(&c,
            (a->pad_left == k - 1 && k > 1) ||
                (!tensor_present(&a->state0) && !tensor_present(&a->dstate) && !tensor_present(&a->dstate0)),
            "a state needs the causal form and K > 1");
    check(&c, &a->bias, WANT("bias", 1, DIM(d), .optional = true));
    check(&c, &a->dy, WANT("dy", 3, DIM(b, l, d), .slice = true, .act = true));
    check(&c, &a->dx, WANT("dx", 3, DIM(b, l, d), .optional = true, .slice = true, .act = true));
    check(&c, &a->dw, WANT("dw", 2, DIM(d, k), .optional = true));
    check(&c, &a->dbias, WANT("dbias", 1, DIM(d), .optional = true));
    check(&c, &a->state0, WANT("state0", 3, DIM(b, k - 1, d), .optional = true));
    check(&c, &a->dstate0, WANT("dstate0", 3, DIM(b, k - 1, d), .optional = true));
    check(&c, &a->dstate, WANT("dstate", 3, DIM(b, k - 1, d), .optional = true));
    check_rows(&c, &a->resets, a->lengths, a->x.dim);
    WORK(flops, 6 * tensor_count(&a->x) * a->w.dim[1]);
    WORK(exponentials, a->silu ? tensor_count(&a->x) : 0);
    RUN(conv1d_depthwise_backward);
}

int op_batchnorm(struct stream *s, const struct batchnorm_args *a, struct err *err) {
    CHECKER(batchnorm);
    int64_t ch = a->x.dim[2];
    check(&c, &a->x, WANT("x", 3, DIM(-1, -1, -1), .slice = true, .act = true));
    check(&c, &a->weight, WANT("weight", 1, DIM(ch)));
    check(&c, &a->bias, WANT("bias", 1, DIM(ch)));
    check(&c, &a->y, WANT("y", 3, DIM(a->x.dim[0], a->x.dim[1], ch), .slice = true, .act = true));
    check(&c, &a->running_mean, WANT("running_mean", 1, DIM(ch)));
    check(&c, &a->running_var, WANT("running_var", 1, DIM(ch)));
    check(&c, &a->save_mean, WANT("save_mean", 1, DIM(ch)));
    check(&c, &a->save_rstd, WANT("save_rstd", 1, DIM(ch)));
    check(&c, &a->leaf_mean, WANT("leaf_mean", 1, DIM(ch), .optional = true));
    check(&c, &a->leaf_var, WANT("leaf_var", 1, DIM(ch), .optional = !tensor_present(&a->leaf_mean)));
    require(&c, tensor_present(&a->leaf_mean) || !tensor_present(&a->leaf_var), "leaf_var needs leaf_mean");
    RUN(batchnorm);
}

int op_running_statistics(struct stream *s, const struct running_statistics_args *a, struct err *err) {
    CHECKER(running_statistics);
    check(&c, &a->running, WANT("running", 1, DIM(-1)));
    check(&c, &a->leaves, WANT("leaves", 2, DIM(-1, a->running.dim[0])));
    RUN(running_statistics);
}

int op_batchnorm_backward(struct stream *s, const struct batchnorm_backward_args *a, struct err *err) {
    CHECKER(batchnorm_backward);
    int64_t b = a->x.dim[0], t = a->x.dim[1], ch = a->x.dim[2];
    check(&c, &a->x, WANT("x", 3, DIM(-1, -1, -1), .slice = true, .act = true));
    check(&c, &a->y, WANT("y", 3, DIM(b, t, ch), .optional = !a->relu, .slice = true, .act = true));
    check(&c, &a->weight, WANT("weight", 1, DIM(ch)));
    check(&c, &a->save_mean, WANT("save_mean", 1, DIM(ch)));
    check(&c, &a->save_rstd, WANT("save_rstd", 1, DIM(ch)));
    check(&c, &a->dy, WANT("dy", 3, DIM(b, t, ch), .slice = true, .act = true));
    check(&c, &a->dx, WANT("dx", 3, DIM(b, t, ch), .slice = true, .act = true));
    check(&c, &a->dweight, WANT("dweight", 1, DIM(ch)));
    check(&c, &a->dbias, WANT("dbias", 1, DIM(ch)));
    RUN(batchnorm_backward);
}

int op_layernorm(struct stream *s, const struct layernorm_args *a, struct err *err) {
    CHECKER(layernorm);
    int64_t b = a->x.dim[0], l = a->x.dim[1], d = a->x.dim[2];
    check(&c, &a->x, WANT("x", 3, DIM(-1, -1, -1), .act = true));
    check(&c, &a->residual, WANT("residual", 3, DIM(b, l, d), .optional = true, .act = true));
    check(&c, &a->weight, WANT("weight", 1, DIM(d)));
    check(&c, &a->bias, WANT("bias", 1, DIM(d)));
    check(&c, &a->y, WANT("y", 3, DIM(b, l, d), .act = true));
    check(&c, &a->sum, WANT("sum", 3, DIM(b, l, d), .optional = true, .act = true));
    check(&c, &a->save_mean, WANT("save_mean", 1, DIM(b * l), .optional = true));
    check(&c, &a->save_rstd, WANT("save_rstd", 1, DIM(b * l), .optional = true));
    RUN(layernorm);
}

int op_layernorm_backward(struct stream *s, const struct layernorm_backward_args *a, struct err *err) {
    CHECKER(layernorm_backward);
    int64_t b = a->sum.dim[0], l = a->sum.dim[1], d = a->sum.dim[2];
    check(&c, &a->sum, WANT("sum", 3, DIM(-1, -1, -1), .act = true));
    check(&c, &a->weight, WANT("weight", 1, DIM(d)));
    check(&c, &a->save_mean, WANT("save_mean", 1, DIM(b * l)));
    check(&c, &a->save_rstd, WANT("save_rstd", 1, DIM(b * l)));
    check(&c, &a->dy, WANT("dy", 3, DIM(b, l, d), .act = true));
    check(&c, &a->dx, WANT("dx", 3, DIM(b, l, d), .act = true));
    check(&c, &a->dweight, WANT("dweight", 1, DIM(d)));
    check(&c, &a->dbias, WANT("dbias", 1, DIM(d)));
    RUN(layernorm_backward);
}

int op_rmsnorm_gated(struct stream *s, const struct rmsnorm_gated_args *a, struct err *err) {
    CHECKER(rmsnorm_gated);
    int64_t b = a->y.dim[0], l = a->y.dim[1], d = a->y.dim[2];
    check(&c, &a->y, WANT("y", 3, DIM(-1, -1, -1), .slice = true, .act = true));
    check(&c, &a->z, WANT("z", 3, DIM(b, l, d), .slice = true, .act = true));
    check(&c, &a->weight, WANT("weight", 1, DIM(d)));
    check(&c, &a->out, WANT("out", 3, DIM(b, l, d), .slice = true, .act = true));
    require(&c, a->groups > 0 && d % a->groups == 0, "groups must divide D");
    check(&c, &a->save_rstd, WANT("save_rstd", 1, DIM(b * l * a->groups), .optional = true));
    RUN(rmsnorm_gated);
}

int op_rmsnorm_gated_backward(struct stream *s, const struct rmsnorm_gated_backward_args *a, struct err *err) {
    CHECKER(rmsnorm_gated_backward);
    int64_t b = a->y.dim[0], l = a->y.dim[1], d = a->y.dim[2];
    check(&c, &a->y, WANT("y", 3, DIM(-1, -1, -1), .slice = true, .act = true));
    check(&c, &a->z, WANT("z", 3, DIM(b, l, d), .slice = true, .act = true));
    check(&c, &a->weight, WANT("weight", 1, DIM(d)));
    require(&c, a->groups > 0 && d % a->groups == 0, "groups must divide D");
    check(&c, &a->save_rstd, WANT("save_rstd", 1, DIM(b * l * a->groups)));
    check(&c, &a->dout, WANT("dout", 3, DIM(b, l, d), .slice = true, .act = true));
    check(&c, &a->dy, WANT("dy", 3, DIM(b, l, d), .optional = true, .slice = true, .act = true));
    check(&c, &a->dz, WANT("dz", 3, DIM(b, l, d), .optional = true, .slice = true, .act = true));
    check(&c, &a->dweight, WANT("dweight", 1, DIM(d), .optional = true));
    RUN(rmsnorm_gated_backward);
}

/* B or C of a scan: (B,L,G,N), or (B,L,G·N) with ld. */
static void check_states(struct checker *c, const struct tensor *t, struct want w, const int64_t gn[2]) {
    if (tensor_present(t) && t->rank == 4) {
        w.rank = 4;
        w.dim[2] = gn[0];
        w.dim[3] = gn[1];
    } else {
        w.rank = 3;
        w.dim[2] = gn[0] * gn[1];
    }
    w.slice = w.act = true;
    check(c, t, w);
}

/* Shared by scan1 forward and backward; returns G and N. */
static void check_scan1(struct checker *c, const struct scan1_args *a, int64_t ret_gn[2]) {
    int64_t b = a->u.dim[0], l = a->u.dim[1], d = a->u.dim[2], n = a->A.dim[1];
    check(c, &a->u, WANT("u", 3, DIM(-1, -1, -1), .slice = true, .act = true));
    check(c, &a->delta, WANT("delta", 3, DIM(b, l, d), .slice = true, .act = true));
    check(c, &a->A, WANT("A", 2, DIM(d, -1)));
    require(c, n >= 1 && n <= 256, "N must lie in 1..256");
    require(c, tensor_present(&a->Bm) && (a->Bm.rank == 3 || a->Bm.rank == 4), "B must be (B,L,G,N) or (B,L,G·N)");
    int64_t g = c->rc ? 1 : a->Bm.rank == 4 ? a->Bm.dim[2] : a->Bm.dim[2] / n;
    require(c, g >= 1 && d % g == 0, "groups of B must divide D");
    ret_gn[0] = g;
    ret_gn[1] = n;
    check_states(c, &a->Bm, WANT("B", 3, DIM(b, l, -1)), ret_gn);
    check_states(c, &a->Cm, WANT("C", 3, DIM(b, l, -1)), ret_gn);
    check(c, &a->Dskip, WANT("D", 1, DIM(d), .optional = true));
    check(c, &a->dbias, WANT("dbias", 1, DIM(d), .optional = true));
    check(c, &a->z, WANT("z", 3, DIM(b, l, d), .optional = true, .slice = true, .act = true));
    check(c, &a->h0, WANT("h0", 3, DIM(b, d, n), .optional = true));
    check_rows(c, &a->resets, a->lengths, a->u.dim);
}

int op_scan1(struct stream *s, const struct scan1_args *a, struct err *err) {
    CHECKER(scan1);
    int64_t gn[2];
    check_scan1(&c, a, gn);
    check(&c, &a->out, WANT("out", 3, DIM(a->u.dim[0], a->u.dim[1], a->u.dim[2]), .slice = true, .act = true));
    check(&c, &a->hT, WANT("hT", 3, DIM(a->u.dim[0], a->u.dim[2], gn[1]), .optional = true));
    WORK(flops, 5 * tensor_count(&a->u) * gn[1]);
    WORK(exponentials, tensor_count(&a->u) * gn[1]);
    RUN(scan1);
}

int op_scan1_backward(struct stream *s, const struct scan1_backward_args *a, struct err *err) {
    CHECKER(scan1_backward);
    const struct scan1_args *f = &a->fwd;
    int64_t b = f->u.dim[0], l = f->u.dim[1], d = f->u.dim[2], gn[2];
    check_scan1(&c, f, gn);
    check(&c, &a->dout, WANT("dout", 3, DIM(b, l, d), .slice = true, .act = true));
    check(&c, &a->dhT, WANT("dhT", 3, DIM(b, d, gn[1]), .optional = true));
    check(&c, &a->du, WANT("du", 3, DIM(b, l, d), .optional = true, .slice = true, .act = true));
    check(&c, &a->ddelta, WANT("ddelta", 3, DIM(b, l, d), .optional = true, .slice = true, .act = true));
    check(&c, &a->dz, WANT("dz", 3, DIM(b, l, d), .optional = true, .slice = true, .act = true));
    require(&c, tensor_present(&f->z) || !tensor_present(&a->dz), "dz without z");
    check_states(&c, &a->dBm, WANT("dB", 3, DIM(b, l, -1), .optional = true), gn);
    check_states(&c, &a->dCm, WANT("dC", 3, DIM(b, l, -1), .optional = true), gn);
    check(&c, &a->dA, WANT("dA", 2, DIM(d, gn[1]), .optional = true));
    check(&c, &a->dDskip, WANT("dD", 1, DIM(d), .optional = true));
    check(&c, &a->ddbias, WANT("ddbias", 1, DIM(d), .optional = true));
    check(&c, &a->dh0, WANT("dh0", 3, DIM(b, d, gn[1]), .optional = true));
    WORK(flops, 21 * tensor_count(&f->u) * gn[1]);
    WORK(exponentials, 2 * tensor_count(&f->u) * gn[1]);
    RUN(scan1_backward);
}

static void check_ssd(struct checker *c, const struct ssd_args *a, int64_t ret_gn[2]) {
    int64_t b = a->x.dim[0], l = a->x.dim[1], h = a->heads;
    require(c, h > 0 && a->groups > 0 && h % a->groups == 0, "heads must be positive and a multiple of groups");
    check(c, &a->x, WANT("x", 3, DIM(-1, -1, -1), .slice = true, .act = true));
    require(c, h > 0 && a->x.dim[2] % h == 0 && a->x.dim[2] / h <= 256, "x needs heads·P channels, P <= 256");
    check(c, &a->delta, WANT("delta", 3, DIM(b, l, h), .slice = true, .act = true));
    check(c, &a->A, WANT("A", 1, DIM(h)));
    bool four = a->Bm.rank == 4;
    require(c, tensor_present(&a->Bm) && (four || (a->Bm.rank == 3 && a->groups > 0 && a->Bm.dim[2] % a->groups == 0)),
            "B must be (B,L,G,N) or (B,L,G·N)");
    ret_gn[0] = a->groups;
    ret_gn[1] = c->rc ? 1 : four ? a->Bm.dim[3] : a->Bm.dim[2] / a->groups;
    require(c, ret_gn[1] >= 1 && ret_gn[1] <= 256, "N must lie in 1..256");
    check_states(c, &a->Bm, WANT("B", 3, DIM(b, l, -1)), ret_gn);
    check_states(c, &a->Cm, WANT("C", 3, DIM(b, l, -1)), ret_gn);
    check(c, &a->Dskip, WANT("D", 1, DIM(h), .optional = true));
    check(c, &a->dbias, WANT("dbias", 1, DIM(h), .optional = true));
    check(c, &a->h0, WANT("h0", 3, DIM(b, a->x.dim[2], ret_gn[1]), .optional = true));
    require(c, a->chunk >= 0, "chunk must not be negative");
    check_rows(c, &a->resets, a->lengths, a->x.dim);
}

int op_ssd(struct stream *s, const struct ssd_args *a, struct err *err) {
    CHECKER(ssd);
    int64_t gn[2];
    check_ssd(&c, a, gn);
    check(&c, &a->y, WANT("y", 3, DIM(a->x.dim[0], a->x.dim[1], a->x.dim[2]), .slice = true, .act = true));
    check(&c, &a->hT, WANT("hT", 3, DIM(a->x.dim[0], a->x.dim[2], gn[1]), .optional = true));
    WORK(flops, 5 * tensor_count(&a->x) * gn[1]);
    RUN(ssd);
}

int op_ssd_backward(struct stream *s, const struct ssd_backward_args *a, struct err *err) {
    CHECKER(ssd_backward);
    const struct ssd_args *f = &a->fwd;
    int64_t b = f->x.dim[0], l = f->x.dim[1], h = f->heads, gn[2];
    check_ssd(&c, f, gn);
    check(&c, &a->dy, WANT("dy", 3, DIM(b, l, f->x.dim[2]), .slice = true, .act = true));
    check(&c, &a->dhT, WANT("dhT", 3, DIM(b, f->x.dim[2], gn[1]), .optional = true));
    check(&c, &a->dx, WANT("dx", 3, DIM(b, l, f->x.dim[2]), .optional = true, .slice = true, .act = true));
    check(&c, &a->ddelta, WANT("ddelta", 3, DIM(b, l, h), .optional = true, .slice = true, .act = true));
    check(&c, &a->dA, WANT("dA", 1, DIM(h), .optional = true));
    check_states(&c, &a->dBm, WANT("dB", 3, DIM(b, l, -1), .optional = true), gn);
    check_states(&c, &a->dCm, WANT("dC", 3, DIM(b, l, -1), .optional = true), gn);
    check(&c, &a->dDskip, WANT("dD", 1, DIM(h), .optional = true));
    check(&c, &a->ddbias, WANT("ddbias", 1, DIM(h), .optional = true));
    check(&c, &a->dh0, WANT("dh0", 3, DIM(b, f->x.dim[2], gn[1]), .optional = true));
    WORK(flops, 21 * tensor_count(&f->x) * gn[1]);
    RUN(ssd_backward);
}

int op_eltwise(struct stream *s, const struct eltwise_args *a, struct err *err) {
    CHECKER(eltwise);
    int r = a->y.rank;
    require(&c, r >= 1 && r <= 3, "y must have rank 1 to 3");
    const int64_t *d = a->y.dim;
    bool two =
        a->kind == ELTWISE_ADD || a->kind == ELTWISE_ADD_RELU || a->kind == ELTWISE_RELU_BACKWARD || a->kind == ELTWISE_MUL_ADD;
    check(&c, &a->y, WANT("y", r, DIM(-1, -1, -1), .slice = true, .act = true));
    if (a->kind == ELTWISE_COPY)
        c.act = NULL; /* a copy may change the type */
    check(&c, &a->a, WANT("a", r, DIM(d[0], d[1], d[2]), .optional = a->kind == ELTWISE_FILL, .slice = true, .act = true));
    check(&c, &a->b, WANT("b", r, DIM(d[0], d[1], d[2]), .optional = !two, .slice = true, .act = true));
    RUN(eltwise);
}

int op_dropout(struct stream *s, const struct dropout_args *a, struct err *err) {
    CHECKER(dropout);
    check(&c, &a->x, WANT("x", 3, DIM(-1, -1, -1), .act = true));
    check(&c, &a->y, WANT("y", 3, DIM(a->x.dim[0], a->x.dim[1], a->x.dim[2]), .act = true));
    require(&c, a->p >= 0 && a->p < 1, "p must lie in [0, 1)");
    RUN(dropout);
}

/* Dense U8 of `like`'s shape. */
static void check_u8(struct checker *c, const struct tensor *t, const struct tensor *like, const char *what) {
    bool ok = tensor_present(t) && t->dtype == DTYPE_U8 && t->rank == like->rank && tensor_dense(t);
    for (int i = 0; ok && i < like->rank; i++)
        ok = t->dim[i] == like->dim[i];
    require(c, ok, what);
}

int op_loss(struct stream *s, const struct loss_args *a, struct err *err) {
    CHECKER(loss);
    check(&c, &a->logits, WANT("logits", 2, DIM(-1, -1)));
    check_u8(&c, &a->labels, &a->logits, "labels must be u8 of the logits' shape");
    if (tensor_present(&a->mask))
        check_u8(&c, &a->mask, &a->logits, "mask must be u8 of the logits' shape");
    check(&c, &a->dlogits, WANT("dlogits", 2, DIM(a->logits.dim[0], a->logits.dim[1]), .optional = true));
    require(&c, a->valid && a->sums, "valid and sums are required");
    RUN(loss);
}

int op_norm(struct stream *s, const struct norm_args *a, struct err *err) {
    CHECKER(norm);
    if (a->x.rank == 2)
        check(&c, &a->x, WANT("x", 2, DIM(-1, -1), .slice = true));
    else
        check(&c, &a->x, WANT("x", 1, DIM(-1)));
    require(&c, a->sum_squares, "sum_squares is required");
    RUN(norm);
}

int op_adamw(struct stream *s, const struct adamw_args *a, struct err *err) {
    CHECKER(adamw);
    int64_t first = a->param.dim[0], second = a->param.dim[1];
    bool rows = a->param.rank == 2;
    int rank = rows ? 2 : 1;
    struct tensor flat = rows ? tensor_1d(a->param.data, DTYPE_F32, second) : a->param;
    check(&c, &a->param, WANT("param", rank, DIM(-1, -1), .slice = rows));
    check(&c, &a->grad, WANT("grad", rank, DIM(first, second), .slice = rows));
    check(&c, &a->m, WANT("m", rank, DIM(first, second), .slice = rows));
    check(&c, &a->v, WANT("v", rank, DIM(first, second), .slice = rows));
    check(&c, &a->ema, WANT("ema", rank, DIM(first, second), .optional = true, .slice = rows));
    check_u8(&c, &a->decay, &flat, "decay must be u8 of the parameters' length");
    require(&c, a->place || a->step >= 1, "step counts from 1");
    require(&c, a->clip >= 0, "clip must not be negative");
    RUN(adamw);
}

int op_sigmoid(struct stream *s, const struct sigmoid_args *a, struct err *err) {
    CHECKER(sigmoid);
    check(&c, &a->x, WANT("x", 2, DIM(-1, -1)));
    check(&c, &a->y, WANT("y", 2, DIM(a->x.dim[0], a->x.dim[1])));
    RUN(sigmoid);
}

static void check_mlp(struct checker *c, struct mlp_shape n, const struct tensor *params) {
    require(c, n.in >= 1 && n.in <= MLP_MAX_INPUTS, "shape.in must be 1 to 8");
    require(c, (n.hidden1 == 128 && n.hidden2 == 256) || (n.hidden1 == 64 && n.hidden2 == 128),
            "the hidden layers must be 128 and 256 wide, or 64 and 128");
    check(c, params, WANT("params", 2, DIM(-1, c->rc ? -1 : mlp_count(n)), .slice = true));
}

int op_mlp(struct stream *s, const struct mlp_args *a, struct err *err) {
    CHECKER(mlp);
    check_mlp(&c, a->shape, &a->params);
    check(&c, &a->x, WANT("x", 3, DIM(a->params.dim[0], -1, a->shape.in)));
    check(&c, &a->y, WANT("y", 2, DIM(a->params.dim[0], a->x.dim[1])));
    check(&c, &a->tangent, WANT("tangent", 2, DIM(a->params.dim[0], a->x.dim[1]), .optional = true));
    RUN(mlp);
}

int op_mlp_backward(struct stream *s, const struct mlp_backward_args *a, struct err *err) {
    CHECKER(mlp_backward);
    int64_t g = a->params.dim[0], r = a->x.dim[1];
    check_mlp(&c, a->shape, &a->params);
    check(&c, &a->x, WANT("x", 3, DIM(g, -1, a->shape.in)));
    check(&c, &a->dy, WANT("dy", 2, DIM(g, r)));
    check(&c, &a->dtangent, WANT("dtangent", 2, DIM(g, r), .optional = true));
    check(&c, &a->dx, WANT("dx", 3, DIM(g, r, a->shape.in), .optional = true));
    check(&c, &a->dparams, WANT("dparams", 2, DIM(g, a->params.dim[1]), .slice = true));
    RUN(mlp_backward);
}

int op_geodesic(struct stream *s, const struct geodesic_args *a, struct err *err) {
    CHECKER(geodesic);
    int64_t count = mlp_count(GEODESIC_METRIC) + mlp_count(geodesic_head_shape(a->head)), g = a->params.dim[0];
    int64_t n = a->knots.dim[1], w = a->wavelengths.dim[0];
    check(&c, &a->params, WANT("params", 2, DIM(-1, count), .slice = true));
    check(&c, &a->knots, WANT("knots", 2, DIM(g, -1)));
    require(&c, n >= 2 && n <= GEODESIC_MAX_KNOTS, "there must be 2 to 32 knots");
    check(&c, &a->wavelengths, WANT("wavelengths", 1, DIM(-1)));
    check(&c, &a->spectra, WANT("spectra", 3, DIM(g, n, w)));
    check(&c, &a->prediction, WANT("prediction", 3, DIM(g, a->n_pairs, a->n_rows), .optional = true));
    check(&c, &a->grads, WANT("grads", 2, DIM(g, count), .optional = true, .slice = true));
    require(&c, geodesic_has_rule(a->order), "order must be 4, 5, 6 or 8");
    require(&c, a->floor > 0, "floor must be positive");
    require(&c, a->rows && a->n_rows >= 1, "rows are missing");
    require(&c, a->pairs && a->n_pairs >= 1, "pairs are missing");
    require(&c, !tensor_present(&a->grads) || a->loss, "grads need loss");
    RUN(geodesic);
}

int op_windows(struct stream *s, const struct windows_args *a, struct err *err) {
    CHECKER(windows);
    check(&c, &a->x, WANT("x", 3, DIM(-1, -1, -1)));
    require(&c, a->raw || a->x.dim[2] <= WINDOWS_MAX_CHANNELS, "x has more than 64 channels");
    require(&c, a->x.dim[2] <= WINDOWS_MAX_COLUMNS, "x has more than 321 channels");
    require(&c, a->rows && a->row_labels && a->first && a->valid, "rows, row_labels, first or valid is missing");
    struct tensor like = a->x;
    like.rank = 2;
    check_u8(&c, &a->labels, &like, "labels must be dense u8 (B,T)");
    RUN(windows);
}

int op_augment(struct stream *s, const struct augment_args *a, struct err *err) {
    CHECKER(augment);
    check(&c, &a->x, WANT("x", 3, DIM(-1, -1, -1)));
    require(&c, a->x.dim[2] <= WINDOWS_MAX_COLUMNS, "x has more than 321 channels");
    check(&c, &a->factor, WANT("factor", 2, DIM(a->x.dim[0], a->x.dim[2])));
    require(&c, a->partner && a->mirrored && a->pad, "partner, mirrored or pad is missing");
    struct tensor like = a->x;
    like.rank = 2;
    check_u8(&c, &a->labels, &like, "labels must be dense u8 (B,T)");
    RUN(augment);
}

int op_spike_tick(struct stream *s, const struct spike_tick_args *a, struct err *err) {
    CHECKER(spike_tick);
    const struct spike_net *net = &a->net;
    require(&c, net->n > 0 && net->n <= SPIKE_MOST_NEURONS, "n must lie in 1..2^32-65");
    require(&c, net->fraction_bits >= 0 && net->fraction_bits <= SPIKE_MOST_FRACTION, "fraction_bits must lie in 0..20");
    require(&c, net->wide || net->n <= SPIKE_PACKED_NEURONS, "packed synapses reach 2^23 neurons; use the wide form");
    require(&c, net->parts >= 1 && net->part_neurons % SPIKE_BLOCK == 0, "parts must be at least 1, of whole blocks");
    require(&c, net->first % SPIKE_BLOCK == 0 && net->first <= net->end && net->end <= net->n,
            "first and end must be a range of neurons from a block's first on");
    require(&c, (uint64_t)net->parts * net->part_neurons >= net->end - net->first, "the parts do not hold all neurons");
    require(&c, net->delays >= 1 && net->delays <= SPIKE_MOST_DELAY && (net->wide || net->delays == 1),
            "delays must lie in 1..255, and beyond 1 need the wide form");
    require(&c, net->row && net->live && net->synapses, "row, live or synapses is missing");
    require(&c, net->flags && net->psp && net->v && net->threshold && net->threshold_limit && net->leak && net->excitability,
            "an array of neurons is missing");
    require(&c, net->refractory && net->fire_limit && net->snooze && net->countdown && net->fire_count && net->sums && net->stale,
            "an array of neurons is missing");
    require(&c, !(net->features & SPIKE_CURRENTS) || (net->current && net->current_leak && net->current_gain),
            "an array of currents is missing");
    require(&c, !(net->features & SPIKE_DRIVES) || (net->area && net->drive), "area or drive is missing");
    require(&c, a->before.ids && a->before.psp && a->before.counts && a->after.ids && a->after.psp && a->after.counts,
            "before or after is missing");
    require(&c, a->before.ids != a->after.ids && a->before.psp != a->after.psp && a->before.counts != a->after.counts,
            "before and after must not share memory");
    require(&c, a->n_inject >= 0 && (a->n_inject == 0 || (a->inject_ids && a->inject_sums)),
            "inject_ids or inject_sums is missing");
    RUN(spike_tick);
}

int op_spike_merge(struct stream *s, const struct spike_merge_args *a, struct err *err) {
    CHECKER(spike_merge);
    require(&c, a->n > 0 && a->flags && a->psp && a->after.ids && a->after.psp && a->after.counts, "an array is missing");
    require(&c, a->n_parts >= 1 && a->n_parts <= SPIKE_MOST_LISTS, "n_parts must lie in 1..16");
    for (int i = 0; i < a->n_parts; i++) {
        require(&c, a->parts[i].ids && a->parts[i].psp && a->parts[i].counts, "a part is missing");
        require(&c, a->parts[i].counts != a->after.counts, "the counts of parts and list must not share memory");
    }
    RUN(spike_merge);
}
