/* Families of the convolutions and the projection: references are the formulas of kernels/op.h, loop by loop. */
#pragma once
#include "op_harness.h"

static struct array_spec act_in(const char *name, int64_t b, int64_t t, int64_t c) {
    return (struct array_spec){
        .name = name, .role = ROLE_IN, .rank = 3, .dim = {b, t, c}, .low = -1, .high = 1, .act = true, .slice = true, .rows = true};
}

static struct array_spec act_out(const char *name, int64_t b, int64_t t, int64_t c) {
    struct array_spec s = act_in(name, b, t, c);
    s.role = ROLE_OUT;
    return s;
}

static struct array_spec plain(const char *name, enum role role, int rank, int64_t d0, int64_t d1, int64_t d2) {
    return (struct array_spec){.name = name, .role = role, .rank = rank, .dim = {d0, d1, d2}, .low = -1, .high = 1};
}

static struct array_spec gradient_of(struct array_spec s, int input) {
    s.of = input + 1;
    s.optional = true;
    return s;
}

static double dot_product(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* ---- conv1d ---------------------------------------------------------------------------------------------------- */

enum { X, W, BIAS, Y, DY = Y, DX, DW, DBIASES };

static int64_t conv_length(const struct op_case *c) { return (c->t + 2 * c->pad - c->k) / c->stride + 1; }

static double conv_value(const struct op_case *c, double *const *v, int64_t b, int64_t to, int64_t o) {
    double sum = v[BIAS] ? v[BIAS][o] : 0;
    for (int64_t k = 0; k < c->k; k++) {
        int64_t at = to * c->stride + k - c->pad;
        for (int64_t i = 0; i < c->ci && at >= 0 && at < c->t; i++)
            sum += v[W][(o * c->ci + i) * c->k + k] * v[X][(b * c->t + at) * c->ci + i];
    }
    return sum;
}

static void conv_arrays(const struct op_case *c, struct array_spec *s) {
    s[X] = act_in("x", c->b, c->t, c->ci);
    s[X].slice = c->stride == 1;
    s[W] = plain("w", ROLE_IN, 3, c->co, c->ci, c->k);
    if (c->bias)
        s[BIAS] = plain("bias", ROLE_IN, 1, c->co, 0, 0);
    s[BIAS].optional = true;
    s[Y] = act_out("y", c->b, conv_length(c), c->co);
}

static void conv_reference(const struct op_case *c, double *const *v) {
    int64_t to = conv_length(c);
    for (int64_t n = 0; n < c->b * to * c->co; n++) {
        double y = conv_value(c, v, n / c->co / to, n / c->co % to, n % c->co);
        v[Y][n] = c->relu && y < 0 ? 0 : y;
    }
}

static int conv_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    struct conv1d_args a = {.x = t[X], .w = t[W], .bias = t[BIAS], .y = t[Y], .stride = c->stride, .pad = c->pad, .relu = c->relu};
    return op_conv1d(fixture.stream, &a, err);
}

static void conv_backward_arrays(const struct op_case *c, struct array_spec *s) {
    conv_arrays(c, s);
    s[BIAS].role = ROLE_NONE;
    s[DY] = act_in("dy", c->b, conv_length(c), c->co);
    s[DX] = gradient_of(act_out("dx", c->b, c->t, c->ci), X);
    s[DX].slice = c->stride == 1;
    s[DW] = gradient_of(plain("dw", ROLE_ADD, 3, c->co, c->ci, c->k), W);
    s[DBIASES] = plain("dbias", ROLE_ADD, 1, c->co, 0, 0);
    s[DBIASES].optional = true;
}

static double conv_objective(const struct op_case *c, double *const *v) {
    int64_t to = conv_length(c);
    double sum = 0;
    for (int64_t n = 0; n < c->b * to * c->co; n++)
        sum += v[DY][n] * conv_value(c, v, n / c->co / to, n / c->co % to, n % c->co);
    return sum;
}

static void bias_sums(const double *dy, int64_t rows, int64_t co, double *dbias) {
    for (int64_t n = 0; n < rows * co; n++)
        dbias[n % co] += dy[n];
}

static void conv_backward_reference(const struct op_case *c, double *const *v) {
    bias_sums(v[DY], c->b * conv_length(c), c->co, v[DBIASES]);
}

static int conv_backward_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    struct conv1d_backward_args a = {
        .x = t[X], .w = t[W], .dy = t[DY], .dx = t[DX], .dw = t[DW], .dbias = t[DBIASES], .stride = c->stride, .pad = c->pad};
    return op_conv1d_backward(fixture.stream, &a, err);
}

static const struct op_case conv_cases[] = {
    {.name = "one sample, one tap", .b = 1, .t = 1, .ci = 1, .co = 1, .k = 1, .stride = 1},
    {.name = "taps beyond both ends", .b = 2, .t = 1, .ci = 3, .co = 5, .k = 7, .stride = 1, .pad = 3},
    {.name = "fewer samples than taps",
     .b = 3,
     .t = 2,
     .ci = 19,
     .co = 16,
     .k = 5,
     .stride = 1,
     .pad = 2,
     .relu = true,
     .bias = true},
    {.name = "odd everything", .b = 3, .t = 37, .ci = 19, .co = 23, .k = 3, .stride = 1, .pad = 1, .bias = true},
    {.name = "five taps, a third of 128", .b = 2, .t = 60, .ci = 32, .co = 42, .k = 5, .stride = 1, .pad = 2, .relu = true},
    {.name = "no padding, five taps", .b = 2, .t = 41, .ci = 18, .co = 16, .k = 5, .stride = 1, .pad = 0, .bias = true},
    {.name = "stem", .b = 2, .t = 101, .ci = 19, .co = 16, .k = 7, .stride = 1, .pad = 3, .bias = true},
    {.name = "wide", .b = 2, .t = 19, .ci = 129, .co = 131, .k = 5, .stride = 1, .pad = 2},
    {.name = "wide, fewer samples than taps", .b = 2, .t = 2, .ci = 128, .co = 130, .k = 7, .stride = 1, .pad = 3},
    {.name = "one tap", .b = 2, .t = 33, .ci = 48, .co = 48, .k = 1, .stride = 1, .relu = true, .bias = true},
    {.name = "long enough to be cut",
     .b = 2,
     .t = 481,
     .ci = 3,
     .co = 5,
     .k = 7,
     .stride = 1,
     .pad = 3,
     .relu = true,
     .bias = true},
    {.name = "many short rows", .b = 25, .t = 36, .ci = 22, .co = 24, .k = 5, .stride = 1, .bias = true, .relu = true},
    {.name = "one long row", .b = 1, .t = 1501, .ci = 19, .co = 16, .k = 5, .stride = 1, .pad = 2, .bias = true},
    {.name = "halving", .b = 3, .t = 34, .ci = 17, .co = 13, .k = 2, .stride = 2, .bias = true},
    {.name = "halving short rows", .b = 7, .t = 64, .ci = 24, .co = 24, .k = 2, .stride = 2, .bias = true},
    {.name = "halving two samples", .b = 1, .t = 2, .ci = 16, .co = 1, .k = 2, .stride = 2},
    {.name = NULL},
};

/* ---- transposed convolution ------------------------------------------------------------------------------------ */

static double convt_value(const struct op_case *c, double *const *v, int64_t row, int64_t o) {
    double sum = v[BIAS] ? v[BIAS][o] : 0;
    for (int64_t i = 0; i < c->ci; i++)
        sum += v[X][row / 2 * c->ci + i] * v[W][(i * c->co + o) * 2 + row % 2];
    return sum;
}

static void convt_arrays(const struct op_case *c, struct array_spec *s) {
    s[X] = act_in("x", c->b, c->t, c->ci);
    s[W] = plain("w", ROLE_IN, 3, c->ci, c->co, 2);
    if (c->bias)
        s[BIAS] = plain("bias", ROLE_IN, 1, c->co, 0, 0);
    s[BIAS].optional = true;
    s[Y] = act_out("y", c->b, 2 * c->t, c->co);
}

static void convt_reference(const struct op_case *c, double *const *v) {
    for (int64_t n = 0; n < c->b * 2 * c->t * c->co; n++)
        v[Y][n] = convt_value(c, v, n / c->co, n % c->co);
}

static int convt_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    (void)c;
    struct convt1d_args a = {.x = t[X], .w = t[W], .bias = t[BIAS], .y = t[Y]};
    return op_convt1d(fixture.stream, &a, err);
}

static void convt_backward_arrays(const struct op_case *c, struct array_spec *s) {
    convt_arrays(c, s);
    s[BIAS].role = ROLE_NONE;
    s[DY] = act_in("dy", c->b, 2 * c->t, c->co);
    s[DX] = gradient_of(act_out("dx", c->b, c->t, c->ci), X);
    s[DW] = gradient_of(plain("dw", ROLE_ADD, 3, c->ci, c->co, 2), W);
    s[DBIASES] = plain("dbias", ROLE_ADD, 1, c->co, 0, 0);
    s[DBIASES].optional = true;
}

static double convt_objective(const struct op_case *c, double *const *v) {
    double sum = 0;
    for (int64_t n = 0; n < c->b * 2 * c->t * c->co; n++)
        sum += v[DY][n] * convt_value(c, v, n / c->co, n % c->co);
    return sum;
}

static void convt_backward_reference(const struct op_case *c, double *const *v) {
    bias_sums(v[DY], c->b * 2 * c->t, c->co, v[DBIASES]);
}

static int convt_backward_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    (void)c;
    struct convt1d_backward_args a = {.x = t[X], .w = t[W], .dy = t[DY], .dx = t[DX], .dw = t[DW], .dbias = t[DBIASES]};
    return op_convt1d_backward(fixture.stream, &a, err);
}

static const struct op_case convt_cases[] = {
    {.name = "one sample", .b = 1, .t = 1, .ci = 1, .co = 1},
    {.name = "odd widths", .b = 3, .t = 15, .ci = 21, .co = 9, .bias = true},
    {.name = "even widths", .b = 2, .t = 30, .ci = 32, .co = 16, .bias = true},
    {.name = NULL},
};

/* ---- projection ------------------------------------------------------------------------------------------------ */

static double linear_value(const struct op_case *c, double *const *v, int64_t row, int64_t o) {
    return (v[BIAS] ? v[BIAS][o] : 0) + dot_product(v[X] + row * c->ci, v[W] + o * c->ci, c->ci);
}

static void linear_arrays(const struct op_case *c, struct array_spec *s) {
    s[X] = act_in("x", c->b, c->t, c->ci);
    s[W] = plain("w", ROLE_IN, 2, c->co, c->ci, 0);
    if (c->bias)
        s[BIAS] = plain("bias", ROLE_IN, 1, c->co, 0, 0);
    s[BIAS].optional = true;
    s[Y] = act_out("y", c->b, c->t, c->co);
    if (c->more)
        s[Y].role = ROLE_ADD;
}

static void linear_reference(const struct op_case *c, double *const *v) {
    for (int64_t n = 0; n < c->b * c->t * c->co; n++)
        v[Y][n] = linear_value(c, v, n / c->co, n % c->co) + (c->more ? v[Y][n] : 0);
}

static int linear_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    struct linear_args a = {.x = t[X], .w = t[W], .bias = t[BIAS], .y = t[Y], .accumulate = c->more};
    return op_linear(fixture.stream, &a, err);
}

static void linear_backward_arrays(const struct op_case *c, struct array_spec *s) {
    linear_arrays(c, s);
    s[BIAS].role = ROLE_NONE;
    s[DY] = act_in("dy", c->b, c->t, c->co);
    s[DX] = gradient_of(act_out("dx", c->b, c->t, c->ci), X);
    if (c->more)
        s[DX].role = ROLE_ADD;
    s[DW] = gradient_of(plain("dw", ROLE_ADD, 2, c->co, c->ci, 0), W);
    s[DBIASES] = plain("dbias", ROLE_ADD, 1, c->co, 0, 0);
    s[DBIASES].optional = true;
}

static double linear_objective(const struct op_case *c, double *const *v) {
    double sum = 0;
    for (int64_t n = 0; n < c->b * c->t * c->co; n++)
        sum += v[DY][n] * linear_value(c, v, n / c->co, n % c->co);
    return sum;
}

static void linear_backward_reference(const struct op_case *c, double *const *v) {
    bias_sums(v[DY], c->b * c->t, c->co, v[DBIASES]);
}

static int linear_backward_run(const struct op_case *c, const struct tensor *t, struct err *err) {
    struct linear_backward_args a = {
        .x = t[X], .w = t[W], .dy = t[DY], .dx = t[DX], .dw = t[DW], .dbias = t[DBIASES], .accumulate_dx = c->more};
    return op_linear_backward(fixture.stream, &a, err);
}

static const struct op_case linear_cases[] = {
    {.name = "one number", .b = 1, .t = 1, .ci = 1, .co = 1},
    {.name = "one output", .b = 2, .t = 31, .ci = 17, .co = 1, .bias = true},
    {.name = "odd widths", .b = 3, .t = 29, .ci = 37, .co = 43, .bias = true},
    {.name = "added to what is there", .b = 2, .t = 13, .ci = 16, .co = 50, .more = true},
    {.name = "wide", .b = 2, .t = 40, .ci = 128, .co = 130},
    {.name = "short rows", .b = 9, .t = 16, .ci = 48, .co = 230},
    {.name = "short rows, odd widths", .b = 5, .t = 112, .ci = 201, .co = 19, .bias = true},
    {.name = NULL},
};
