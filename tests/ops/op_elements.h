/* Families of the element-wise ops, the loss, the gradient norm and the optimizer step. */
#pragma once
#include "op_norms.h"

/* ---- element-wise ---------------------------------------------------------------------------------------------- */

enum { EL_A, EL_B, EL_Y };

static void eltwise_arrays(const struct op_case *c, struct array_spec *s) {
    bool two =
        c->kind == ELTWISE_ADD || c->kind == ELTWISE_ADD_RELU || c->kind == ELTWISE_RELU_BACKWARD || c->kind == ELTWISE_MUL_ADD;
    if (c->kind != ELTWISE_FILL)
        s[EL_A] = act_in("a", c->b, c->t, c->ci);
    if (two)
        s[EL_B] = act_in("b", c->b, c->t, c->ci);
    s[EL_Y] = act_out("y", c->b, c->t, c->ci);
    s[EL_Y].alone = c->kind == ELTWISE_FILL;
    if (c->kind == ELTWISE_MUL_ADD)
        s[EL_Y].role = ROLE_ADD;
    for (int i = 0; i < 3 && c->k; i++) { /* k: the rank, where it is not 3 */
        s[i].rank = (int)c->k;
        s[i].dim[0] = c->k == 1 ? c->ci : c->b;
        s[i].dim[1] = c->k == 1 ? 0 : c->ci;
        s[i].dim[2] = 0;
        s[i].rows = c->k > 1;
        s[i].slice = c->k > 1;
    }
}

static double eltwise_value(const struct op_case *c, double a, double b, double y) {
    switch (c->kind) {
    case ELTWISE_COPY:
        return a;
    case ELTWISE_ADD:
        return a + b;
    case ELTWISE_ADD_RELU:
        return a + b > 0 ? a + b : 0;
    case ELTWISE_RELU:
        return a > 0 ? a : 0;
    case ELTWISE_RELU_BACKWARD:
        return b > 0 ? a : 0;
    case ELTWISE_SCALE:
        return c->p * a;
    case ELTWISE_FILL:
        return c->p;
    case ELTWISE_NEG_EXP:
        return -exp(a);
    default:
        return y + a * b;
    }
}

static void eltwise_reference(const struct op_case *c, double *const *v) {
    int64_t count = c->k == 1 ? c->ci : c->b * c->ci * (c->k ? 1 : c->t);
    for (int64_t n = 0; n < count; n++)
        v[EL_Y][n] = eltwise_value(c, v[EL_A] ? v[EL_A][n] : 0, v[EL_B] ? v[EL_B][n] : 0, v[EL_Y][n]);
}

static int eltwise_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    struct eltwise_args a = {.kind = (enum eltwise_kind)c->kind, .a = t[EL_A], .b = t[EL_B], .y = t[EL_Y], .alpha = (float)c->p};
    return op_eltwise(fixture.stream, &a, err);
}

static const struct op_case eltwise_cases[] = {
    {.name = "copy", .kind = ELTWISE_COPY, .b = 2, .t = 9, .ci = 17},
    {.name = "copy of rank 2", .kind = ELTWISE_COPY, .b = 5, .t = 1, .ci = 33, .k = 2},
    {.name = "add", .kind = ELTWISE_ADD, .b = 2, .t = 101, .ci = 130},
    {.name = "add, ReLU", .kind = ELTWISE_ADD_RELU, .b = 3, .t = 7, .ci = 19},
    {.name = "ReLU", .kind = ELTWISE_RELU, .b = 1, .t = 1, .ci = 1},
    {.name = "gradient of ReLU", .kind = ELTWISE_RELU_BACKWARD, .b = 2, .t = 31, .ci = 23},
    {.name = "scale", .kind = ELTWISE_SCALE, .b = 2, .t = 5, .ci = 16, .p = -0.375},
    {.name = "fill", .kind = ELTWISE_FILL, .b = 2, .t = 3, .ci = 21, .p = 1.25},
    {.name = "negative exponential", .kind = ELTWISE_NEG_EXP, .b = 1, .t = 1, .ci = 37, .k = 1},
    {.name = "multiply and add", .kind = ELTWISE_MUL_ADD, .b = 1, .t = 1, .ci = 1, .k = 1},
    {.name = "multiply and add of rank 3", .kind = ELTWISE_MUL_ADD, .b = 2, .t = 9, .ci = 35},
    {.name = NULL},
};

/* ---- sigmoid --------------------------------------------------------------------------------------------------- */

static void sigmoid_arrays(const struct op_case *c, struct array_spec *s) {
    s[EL_A] = plain("x", ROLE_IN, 2, c->b, c->t, 0);
    s[EL_Y] = plain("y", ROLE_OUT, 2, c->b, c->t, 0);
    s[EL_A].low = -c->p;
    s[EL_A].high = c->p;
    s[EL_A].rows = s[EL_Y].rows = s[EL_Y].scalar = true;
}

static void sigmoid_reference(const struct op_case *c, double *const *v) {
    for (int64_t n = 0; n < c->b * c->t; n++)
        v[EL_Y][n] = 1 / (1 + exp(-v[EL_A][n]));
}

static int sigmoid_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    (void)c;
    struct sigmoid_args a = {.x = t[EL_A], .y = t[EL_Y]};
    return op_sigmoid(fixture.stream, &a, err);
}

static const struct op_case sigmoid_cases[] = {
    {.name = "one logit", .b = 1, .t = 1, .p = 1},
    {.name = "usual logits", .b = 3, .t = 77, .p = 6},
    {.name = "far logits", .b = 2, .t = 65, .p = 80},
    {.name = NULL},
};

/* ---- loss ------------------------------------------------------------------------------------------------------ */

enum { LOSS_LOGITS, LOSS_LABELS, LOSS_MASK, LOSS_DLOGITS, LOSS_SUM };
static const double loss_alpha = 0.3f, loss_scale = 0.125f;

static int32_t loss_valid(const struct op_case *c, int64_t row) {
    int64_t valid = c->t - 3 * row;
    return (int32_t)(valid > 0 ? valid : 0);
}

static void loss_arrays(const struct op_case *c, struct array_spec *s) {
    s[LOSS_LOGITS] = plain("logits", ROLE_IN, 2, c->b, c->t, 0);
    s[LOSS_LOGITS].low = -6;
    s[LOSS_LOGITS].high = 6;
    s[LOSS_LABELS] = plain("labels", ROLE_IN, 2, c->b, c->t, 0);
    s[LOSS_LABELS].high = 2; /* 2 is a label that does not count */
    s[LOSS_LABELS].low = 0;
    s[LOSS_LABELS].u8 = true;
    if (c->more) {
        s[LOSS_MASK] = s[LOSS_LABELS];
        s[LOSS_MASK].name = "mask";
        s[LOSS_MASK].high = 1;
        s[LOSS_MASK].optional = true;
    }
    s[LOSS_DLOGITS] = gradient_of(plain("dlogits", ROLE_OUT, 2, c->b, c->t, 0), LOSS_LOGITS);
    s[LOSS_SUM] = plain("loss", ROLE_OUT, 1, 2, 0, 0);
    s[LOSS_SUM].host = s[LOSS_SUM].scalar = true;
}

/* ret: the sum and the count; p is gamma, 0 = plain cross entropy; k: pos_weight in quarters. */
static void loss_total(const struct op_case *c, double *const *v, double ret[2]) {
    ret[0] = ret[1] = 0;
    for (int64_t n = 0; n < c->b * c->t; n++) {
        if (n % c->t >= loss_valid(c, n / c->t) || v[LOSS_LABELS][n] > 1 || (v[LOSS_MASK] && v[LOSS_MASK][n] <= 0))
            continue;
        double y = v[LOSS_LABELS][n], p = ref_sigmoid(v[LOSS_LOGITS][n]);
        double bce = -((double)c->k / 4 * y * log(p) + (1 - y) * log(1 - p)), pt = y > 0 ? p : 1 - p;
        ret[0] += c->kind == LOSS_FOCAL ? (y > 0 ? loss_alpha : 1 - loss_alpha) * pow(1 - pt, c->p) * bce : bce;
        ret[1]++;
    }
}

static double loss_objective(const struct op_case *c, double *const *v) {
    double total[2];
    loss_total(c, v, total);
    return total[0] * loss_scale;
}

static void loss_reference(const struct op_case *c, double *const *v) {
    double total[2];
    loss_total(c, v, total);
    v[LOSS_SUM][0] = total[0];
    v[LOSS_SUM][1] = total[1];
}

static int loss_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    int32_t valid[16];
    double sums[2] = {NAN, NAN};
    for (int64_t i = 0; i < c->b; i++)
        valid[i] = loss_valid(c, i);
    struct loss_args a = {.kind = (enum loss_kind)c->kind,
                          .logits = t[LOSS_LOGITS],
                          .labels = t[LOSS_LABELS],
                          .mask = t[LOSS_MASK],
                          .dlogits = t[LOSS_DLOGITS],
                          .valid = valid,
                          .alpha = 0.3f,
                          .gamma = (float)c->p,
                          .pos_weight = (float)c->k / 4,
                          .scale = 0.125f,
                          .sums = sums};
    int rc = op_loss(fixture.stream, &a, err);
    if (!rc)
        rc = stream_sync(fixture.stream, err);
    element_set(&t[LOSS_SUM], 0, sums[0]);
    element_set(&t[LOSS_SUM], 1, sums[1]);
    return rc;
}

static const struct op_case loss_cases[] = {
    {.name = "cross entropy", .kind = LOSS_BCE, .b = 3, .t = 41, .k = 4},
    {.name = "weighted cross entropy under a mask", .kind = LOSS_BCE, .b = 4, .t = 10, .k = 7, .more = true},
    {.name = "focal", .kind = LOSS_FOCAL, .b = 2, .t = 67, .k = 4, .p = 2},
    {.name = "focal, another power, a mask", .kind = LOSS_FOCAL, .b = 3, .t = 30, .k = 9, .p = 1.5, .more = true},
    {.name = "one row past the end", .kind = LOSS_FOCAL, .b = 2, .t = 3, .k = 4, .p = 2},
    {.name = NULL},
};

/* ---- norm of the gradient -------------------------------------------------------------------------------------- */

enum { NORM_X, NORM_RESULT };

static void norm_arrays(const struct op_case *c, struct array_spec *s) {
    s[NORM_X] = plain("x", ROLE_IN, 1, c->ci, 0, 0);
    s[NORM_X].alone = true;
    s[NORM_RESULT] = plain("result", ROLE_OUT, 1, 1, 0, 0);
    s[NORM_RESULT].host = s[NORM_RESULT].scalar = true;
}

static void norm_reference(const struct op_case *c, double *const *v) {
    v[NORM_RESULT][0] = dot_product(v[NORM_X], v[NORM_X], c->ci);
}

static int norm_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    (void)c;
    double squares = NAN;
    struct norm_args a = {.x = t[NORM_X], .sum_squares = &squares};
    int rc = op_norm(fixture.stream, &a, err);
    if (!rc)
        rc = stream_sync(fixture.stream, err);
    element_set(&t[NORM_RESULT], 0, squares);
    return rc;
}

static const struct op_case norm_cases[] = {
    {.name = "one number", .ci = 1},
    {.name = "less than a vector", .ci = 7},
    {.name = "several blocks", .ci = 40013},
    {.name = NULL},
};

/* ---- AdamW ----------------------------------------------------------------------------------------------------- */

enum { ADAM_PARAM, ADAM_GRAD, ADAM_M, ADAM_V, ADAM_DECAY, ADAM_EMA };
static const double adam_lr = 1e-2f, adam_b1 = 0.9f, adam_b2 = 0.999f, adam_eps = 1e-8f, adam_wd = 0.05f, adam_scale = 0.75f,
                    adam_ema = 0.99f;

static void adamw_arrays(const struct op_case *c, struct array_spec *s) {
    s[ADAM_PARAM] = plain("param", ROLE_ADD, 1, c->ci, 0, 0);
    s[ADAM_GRAD] = plain("grad", ROLE_IN, 1, c->ci, 0, 0);
    s[ADAM_M] = plain("m", ROLE_ADD, 1, c->ci, 0, 0);
    s[ADAM_V] = plain("v", ROLE_ADD, 1, c->ci, 0, 0);
    s[ADAM_V].low = 0;
    s[ADAM_DECAY] = plain("decay", ROLE_IN, 1, c->ci, 0, 0);
    s[ADAM_DECAY].u8 = true;
    s[ADAM_DECAY].low = 0;
    if (c->more)
        s[ADAM_EMA] = plain("ema", ROLE_ADD, 1, c->ci, 0, 0);
    s[ADAM_EMA].optional = true;
}

static void adamw_reference(const struct op_case *c, double *const *v) {
    for (int64_t i = 0; i < c->ci; i++) {
        double g = v[ADAM_GRAD][i] * adam_scale, m = adam_b1 * v[ADAM_M][i] + (1 - adam_b1) * g;
        double s = adam_b2 * v[ADAM_V][i] + (1 - adam_b2) * g * g;
        double mhat = m / (1 - pow(adam_b1, (double)c->k)), shat = s / (1 - pow(adam_b2, (double)c->k));
        v[ADAM_M][i] = m;
        v[ADAM_V][i] = s;
        v[ADAM_PARAM][i] -= adam_lr * (mhat / (sqrt(shat) + adam_eps) + (v[ADAM_DECAY][i] > 0 ? adam_wd * v[ADAM_PARAM][i] : 0));
        if (c->more)
            v[ADAM_EMA][i] = adam_ema * v[ADAM_EMA][i] + (1 - adam_ema) * v[ADAM_PARAM][i];
    }
}

static int adamw_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    struct adamw_args a = {.param = t[ADAM_PARAM],
                           .grad = t[ADAM_GRAD],
                           .m = t[ADAM_M],
                           .v = t[ADAM_V],
                           .decay = t[ADAM_DECAY],
                           .ema = t[ADAM_EMA],
                           .lr = 1e-2f,
                           .beta1 = 0.9f,
                           .beta2 = 0.999f,
                           .eps = 1e-8f,
                           .weight_decay = 0.05f,
                           .grad_scale = 0.75f,
                           .ema_decay = 0.99f,
                           .step = c->k};
    return op_adamw(fixture.stream, &a, err);
}

/* k: the step. */
static const struct op_case adamw_cases[] = {
    {.name = "first step", .ci = 37, .k = 1},
    {.name = "a late step with averages", .ci = 20011, .k = 5000, .more = true},
    {.name = "one parameter", .ci = 1, .k = 3},
    {.name = NULL},
};
