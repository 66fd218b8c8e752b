/* Families of batch and layer norm. */
#pragma once
#include "op_convolution.h"

static const double norm_eps = 1e-5f; /* what the ops get is a float */
static const double bn_momentum = 0.1f;

/* ---- batch norm ------------------------------------------------------------------------------------------------ */

enum { BN_X, BN_WEIGHT, BN_BIAS, BN_Y, BN_MEAN, BN_RSTD, BN_RMEAN, BN_RVAR, BN_DY, BN_DX, BN_DWEIGHT, BN_DBIAS };

/* Mean and biased variance of channel j. */
static void column_moments(const double *x, int64_t rows, int64_t c, int64_t j, double ret[2]) {
    double sum = 0, squares = 0;
    for (int64_t r = 0; r < rows; r++)
        sum += x[r * c + j];
    ret[0] = sum / (double)rows;
    for (int64_t r = 0; r < rows; r++)
        squares += (x[r * c + j] - ret[0]) * (x[r * c + j] - ret[0]);
    ret[1] = squares / (double)rows;
}

static double relu_of(const struct op_case *c, double y) { return c->relu && y < 0 ? 0 : y; }

static void bn_arrays(const struct op_case *c, struct array_spec *s) {
    s[BN_X] = act_in("x", c->b, c->t, c->ci);
    s[BN_X].low = c->p - 1;
    s[BN_X].high = c->p + 1;
    s[BN_WEIGHT] = plain("weight", ROLE_IN, 1, c->ci, 0, 0);
    s[BN_BIAS] = plain("bias", ROLE_IN, 1, c->ci, 0, 0);
    s[BN_Y] = act_out("y", c->b, c->t, c->ci);
    s[BN_RMEAN] = plain("running_mean", ROLE_ADD, 1, c->ci, 0, 0);
    s[BN_RVAR] = plain("running_var", ROLE_ADD, 1, c->ci, 0, 0);
    s[BN_RVAR].low = 0.1;
    s[BN_MEAN] = plain("save_mean", ROLE_OUT, 1, c->ci, 0, 0);
    s[BN_RSTD] = plain("save_rstd", ROLE_OUT, 1, c->ci, 0, 0);
}

static void bn_reference(const struct op_case *c, double *const *v) {
    int64_t rows = c->b * c->t;
    for (int64_t j = 0; j < c->ci; j++) {
        double m[2];
        column_moments(v[BN_X], rows, c->ci, j, m);
        double rstd = 1 / sqrt(m[1] + norm_eps), unbiased = rows > 1 ? m[1] * (double)rows / (double)(rows - 1) : m[1];
        for (int64_t r = 0; r < rows; r++)
            v[BN_Y][r * c->ci + j] = relu_of(c, (v[BN_X][r * c->ci + j] - m[0]) * rstd * v[BN_WEIGHT][j] + v[BN_BIAS][j]);
        v[BN_MEAN][j] = m[0];
        v[BN_RSTD][j] = rstd;
        v[BN_RMEAN][j] += bn_momentum * (m[0] - v[BN_RMEAN][j]);
        v[BN_RVAR][j] += bn_momentum * (unbiased - v[BN_RVAR][j]);
    }
}

static int bn_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    struct batchnorm_args a = {.x = t[BN_X],
                               .weight = t[BN_WEIGHT],
                               .bias = t[BN_BIAS],
                               .y = t[BN_Y],
                               .save_mean = t[BN_MEAN],
                               .save_rstd = t[BN_RSTD],
                               .running_mean = t[BN_RMEAN],
                               .running_var = t[BN_RVAR],
                               .eps = 1e-5f,
                               .momentum = 0.1f,
                               .relu = c->relu};
    return op_batchnorm(fixture.stream, &a, err);
}

static void bn_backward_arrays(const struct op_case *c, struct array_spec *s) {
    bn_arrays(c, s);
    static const int derived[] = {BN_Y, BN_MEAN, BN_RSTD};
    for (int i = 0; i < 3; i++) {
        s[derived[i]].role = ROLE_IN;
        s[derived[i]].derived = true;
    }
    s[BN_Y].optional = true;
    if (!c->relu)
        s[BN_Y].role = ROLE_NONE;
    s[BN_RMEAN].role = s[BN_RVAR].role = s[BN_BIAS].role = ROLE_NONE;
    s[BN_Y].optional = false;
    s[BN_DY] = act_in("dy", c->b, c->t, c->ci);
    s[BN_DX] = gradient_of(act_out("dx", c->b, c->t, c->ci), BN_X);
    s[BN_DX].optional = false;
    s[BN_DWEIGHT] = gradient_of(plain("dweight", ROLE_ADD, 1, c->ci, 0, 0), BN_WEIGHT);
    s[BN_DWEIGHT].optional = false;
    s[BN_DBIAS] = plain("dbias", ROLE_ADD, 1, c->ci, 0, 0);
}

/* The forward pass: its statistics, and which way the ReLU went. */
static void bn_derive(const struct op_case *c, double *const *v) {
    for (int64_t j = 0; j < c->ci; j++) {
        double m[2];
        column_moments(v[BN_X], c->b * c->t, c->ci, j, m);
        v[BN_MEAN][j] = m[0];
        v[BN_RSTD][j] = 1 / sqrt(m[1] + norm_eps);
        for (int64_t n = j; c->relu && n < c->b * c->t * c->ci; n += c->ci)
            v[BN_Y][n] = relu_of(c, (v[BN_X][n] - m[0]) * v[BN_RSTD][j] * v[BN_WEIGHT][j] + 0.1);
    }
}

/* The ReLU as a mask that does not move. */
static double bn_objective(const struct op_case *c, double *const *v) {
    double sum = 0;
    for (int64_t j = 0; j < c->ci; j++) {
        double m[2];
        column_moments(v[BN_X], c->b * c->t, c->ci, j, m);
        for (int64_t n = j; n < c->b * c->t * c->ci; n += c->ci)
            if (!c->relu || v[BN_Y][n] > 0)
                sum += v[BN_DY][n] * (v[BN_X][n] - m[0]) / sqrt(m[1] + norm_eps) * v[BN_WEIGHT][j];
    }
    return sum;
}

static void bn_backward_reference(const struct op_case *c, double *const *v) {
    for (int64_t n = 0; n < c->b * c->t * c->ci; n++)
        v[BN_DBIAS][n % c->ci] += !c->relu || v[BN_Y][n] > 0 ? v[BN_DY][n] : 0;
}

static int bn_backward_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    struct batchnorm_backward_args a = {.x = t[BN_X],
                                        .y = t[BN_Y],
                                        .weight = t[BN_WEIGHT],
                                        .save_mean = t[BN_MEAN],
                                        .save_rstd = t[BN_RSTD],
                                        .dy = t[BN_DY],
                                        .dx = t[BN_DX],
                                        .dweight = t[BN_DWEIGHT],
                                        .dbias = t[BN_DBIAS],
                                        .relu = c->relu};
    return op_batchnorm_backward(fixture.stream, &a, err);
}

/* p: the mean of the input. */
static const struct op_case bn_cases[] = {
    {.name = "five rows", .b = 1, .t = 5, .ci = 3},
    {.name = "odd widths", .b = 3, .t = 29, .ci = 19, .relu = true},
    {.name = "more rows than a block", .b = 2, .t = 301, .ci = 33, .relu = true, .p = 0.5},
    {.name = "far from zero", .b = 2, .t = 150, .ci = 16, .p = -4},
    {.name = "one channel", .b = 5, .t = 11, .ci = 1, .relu = true},
    {.name = NULL},
};

/* ---- running statistics ----------------------------------------------------------------------------------------- */

enum { RS_RUNNING, RS_LEAVES };

static void rs_arrays(const struct op_case *c, struct array_spec *s) {
    s[RS_RUNNING] = plain("running", ROLE_ADD, 1, c->ci, 0, 0);
    s[RS_LEAVES] = plain("leaves", ROLE_IN, 2, c->b, c->ci, 0);
    s[RS_LEAVES].alone = true; /* any number of leaves */
}

static void rs_reference(const struct op_case *c, double *const *v) {
    for (int64_t n = 0; n < c->b * c->ci; n++)
        v[RS_RUNNING][n % c->ci] += bn_momentum * (v[RS_LEAVES][n] - v[RS_RUNNING][n % c->ci]);
}

static int rs_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    (void)c;
    struct running_statistics_args a = {.running = t[RS_RUNNING], .leaves = t[RS_LEAVES], .momentum = 0.1f};
    return op_running_statistics(fixture.stream, &a, err);
}

static const struct op_case rs_cases[] = {
    {.name = "one leaf", .b = 1, .ci = 19},
    {.name = "eight leaves", .b = 8, .ci = 333},
    {.name = NULL},
};

/* ---- layer norm ------------------------------------------------------------------------------------------------ */

enum { LN_X, LN_RESIDUAL, LN_WEIGHT, LN_BIAS, LN_Y, LN_SUM, LN_MEAN, LN_RSTD, LN_DY, LN_DX, LN_DWEIGHT, LN_DBIAS };

static struct array_spec dense_act(struct array_spec s, bool optional) {
    s.slice = false;
    s.optional = optional;
    return s;
}

static void ln_arrays(const struct op_case *c, struct array_spec *s) {
    s[LN_X] = dense_act(act_in("x", c->b, c->t, c->ci), false);
    if (c->more)
        s[LN_RESIDUAL] = dense_act(act_in("residual", c->b, c->t, c->ci), true);
    s[LN_WEIGHT] = plain("weight", ROLE_IN, 1, c->ci, 0, 0);
    s[LN_BIAS] = plain("bias", ROLE_IN, 1, c->ci, 0, 0);
    s[LN_Y] = dense_act(act_out("y", c->b, c->t, c->ci), false);
    s[LN_SUM] = dense_act(act_out("sum", c->b, c->t, c->ci), true);
    s[LN_MEAN] = plain("save_mean", ROLE_OUT, 1, c->b * c->t, 0, 0);
    s[LN_RSTD] = plain("save_rstd", ROLE_OUT, 1, c->b * c->t, 0, 0);
    s[LN_MEAN].optional = s[LN_RSTD].optional = s[LN_MEAN].rows = s[LN_RSTD].rows = true;
}

static void row_moments(const double *x, int64_t d, double ret[2]) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < d; i++)
        sum += x[i];
    ret[0] = sum / (double)d;
    for (int64_t i = 0; i < d; i++)
        squares += (x[i] - ret[0]) * (x[i] - ret[0]);
    ret[1] = 1 / sqrt(squares / (double)d + norm_eps);
}

static void ln_reference(const struct op_case *c, double *const *v) {
    for (int64_t n = 0; n < c->b * c->t * c->ci; n++)
        v[LN_SUM][n] = v[LN_X][n] + (c->more ? v[LN_RESIDUAL][n] : 0);
    for (int64_t n = 0; n < c->b * c->t * c->ci; n++) {
        int64_t r = n / c->ci, j = n % c->ci;
        double m[2];
        row_moments(v[LN_SUM] + r * c->ci, c->ci, m);
        v[LN_MEAN][r] = m[0];
        v[LN_RSTD][r] = m[1];
        v[LN_Y][n] = (v[LN_SUM][n] - m[0]) * m[1] * v[LN_WEIGHT][j] + v[LN_BIAS][j];
    }
}

static int ln_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    (void)c;
    struct layernorm_args a = {.x = t[LN_X],
                               .residual = t[LN_RESIDUAL],
                               .weight = t[LN_WEIGHT],
                               .bias = t[LN_BIAS],
                               .y = t[LN_Y],
                               .sum = t[LN_SUM],
                               .save_mean = t[LN_MEAN],
                               .save_rstd = t[LN_RSTD],
                               .eps = 1e-5f};
    return op_layernorm(fixture.stream, &a, err);
}

static void ln_backward_arrays(const struct op_case *c, struct array_spec *s) {
    s[LN_SUM] = dense_act(act_in("sum", c->b, c->t, c->ci), false);
    s[LN_WEIGHT] = plain("weight", ROLE_IN, 1, c->ci, 0, 0);
    s[LN_MEAN] = plain("save_mean", ROLE_IN, 1, c->b * c->t, 0, 0);
    s[LN_RSTD] = plain("save_rstd", ROLE_IN, 1, c->b * c->t, 0, 0);
    s[LN_MEAN].derived = s[LN_RSTD].derived = true;
    s[LN_DY] = dense_act(act_in("dy", c->b, c->t, c->ci), false);
    s[LN_DX] = dense_act(gradient_of(act_out("dx", c->b, c->t, c->ci), LN_SUM), false);
    s[LN_DWEIGHT] = gradient_of(plain("dweight", ROLE_ADD, 1, c->ci, 0, 0), LN_WEIGHT);
    s[LN_DWEIGHT].optional = false;
    s[LN_DBIAS] = plain("dbias", ROLE_ADD, 1, c->ci, 0, 0);
}

static void ln_derive(const struct op_case *c, double *const *v) {
    for (int64_t r = 0; r < c->b * c->t; r++) {
        double m[2];
        row_moments(v[LN_SUM] + r * c->ci, c->ci, m);
        v[LN_MEAN][r] = m[0];
        v[LN_RSTD][r] = m[1];
    }
}

static double ln_objective(const struct op_case *c, double *const *v) {
    double sum = 0;
    for (int64_t r = 0; r < c->b * c->t; r++) {
        double m[2];
        row_moments(v[LN_SUM] + r * c->ci, c->ci, m);
        for (int64_t j = 0; j < c->ci; j++)
            sum += v[LN_DY][r * c->ci + j] * (v[LN_SUM][r * c->ci + j] - m[0]) * m[1] * v[LN_WEIGHT][j];
    }
    return sum;
}

static void ln_backward_reference(const struct op_case *c, double *const *v) {
    bias_sums(v[LN_DY], c->b * c->t, c->ci, v[LN_DBIAS]);
}

static int ln_backward_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    (void)c;
    struct layernorm_backward_args a = {.sum = t[LN_SUM],
                                        .weight = t[LN_WEIGHT],
                                        .save_mean = t[LN_MEAN],
                                        .save_rstd = t[LN_RSTD],
                                        .dy = t[LN_DY],
                                        .dx = t[LN_DX],
                                        .dweight = t[LN_DWEIGHT],
                                        .dbias = t[LN_DBIAS]};
    return op_layernorm_backward(fixture.stream, &a, err);
}

static const struct op_case ln_cases[] = {
    {.name = "one row", .b = 1, .t = 1, .ci = 6},
    {.name = "odd width", .b = 3, .t = 13, .ci = 19, .more = true},
    {.name = "below a vector", .b = 2, .t = 5, .ci = 7},
    {.name = "a layer of the network", .b = 2, .t = 40, .ci = 128, .more = true},
    {.name = "more rows than a block", .b = 2, .t = 290, .ci = 33, .more = true},
    {.name = NULL},
};
