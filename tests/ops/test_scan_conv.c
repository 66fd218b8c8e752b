/* Depthwise convolution and gated RMS norm against plain double loops, with every option, and their promises. */
#include "scan_fixture.h"

struct conv_case {
    int64_t b, l, d;
    int k, pad; /* pad −1: causal */
    bool silu, bias, reverse, state, lengths, resets;
};
static const struct conv_case conv_cases[] = {
    {2, 75, 24, 4, -1, true, true, false, true, false, false},    {2, 75, 24, 2, -1, true, true, true, true, false, false},
    {1, 1, 16, 4, -1, true, true, false, true, false, false},     {1, 2, 9, 5, -1, true, false, true, true, false, false},
    {3, 40, 33, 3, -1, false, true, false, false, true, false},   {3, 40, 33, 5, -1, true, true, true, true, true, false},
    {2, 50, 140, 4, -1, true, true, false, true, false, true},    {2, 50, 140, 4, -1, true, true, true, true, true, true},
    {2, 37, 20, 8, -1, true, true, false, true, true, true},      {2, 37, 20, 7, 3, false, true, false, false, false, false},
    {2, 37, 20, 5, 2, true, true, true, false, true, true},       {1, 64, 3, 6, 2, true, true, false, false, false, false},
    {2, 33, 17, 1, 0, true, true, false, false, true, false},     {40, 6, 5, 4, -1, true, true, false, true, false, false},
    {1, 960, 130, 4, -1, true, true, false, false, false, false},
};
enum { N_CONV = sizeof conv_cases / sizeof *conv_cases };

struct conv_data {
    float *x, *w, *bias, *s0, *dy, *dstate;                   /* inputs */
    float *y, *state, *dx, *dw, *dbias, *ds0;                 /* found */
    double *ey, *estate, *edx, *edw, *edbias, *eds0, walk[2]; /* expected */
    uint8_t *resets;
    int32_t *lengths;
};

static double *doubles(int64_t n) { return fixture_memory((size_t)n * sizeof(double)); }

static struct conv_data conv_new(const struct conv_case *c) {
    int64_t n = c->b * c->l * c->d, s = c->b * (c->k - 1) * c->d;
    struct conv_data v = {.x = fixture_floats(n, -1, 1),
                          .w = fixture_floats(c->d * c->k, -1, 1),
                          .bias = fixture_floats(c->d, -1, 1),
                          .s0 = fixture_floats(s, -1, 1),
                          .dy = fixture_floats(n, -1, 1),
                          .dstate = fixture_floats(s, -1, 1),
                          .y = fixture_floats(n, NAN, NAN),
                          .state = fixture_floats(s, NAN, NAN),
                          .dx = fixture_floats(n, NAN, NAN),
                          .dw = fixture_floats(c->d * c->k, 0, 0),
                          .dbias = fixture_floats(c->d, 0, 0),
                          .ds0 = fixture_floats(s, NAN, NAN),
                          .ey = doubles(n),
                          .estate = doubles(s),
                          .edx = doubles(n),
                          .edw = doubles(c->d * c->k),
                          .edbias = doubles(c->d),
                          .eds0 = doubles(s)};
    if (c->resets) {
        v.resets = fixture_memory((size_t)(c->b * c->l));
        for (int64_t i = 0; i < c->b * c->l; i++)
            v.resets[i] = fixture_uniform(0, 1) < 0.12;
    }
    if (c->lengths) {
        v.lengths = fixture_memory((size_t)c->b * sizeof(int32_t));
        for (int64_t i = 0; i < c->b; i++)
            v.lengths[i] = (int32_t)fixture_uniform(0, (double)c->l + 0.999);
    }
    return v;
}

static void conv_free(struct conv_data *v) {
    void *all[] = {v->x,     v->w,   v->bias, v->s0,     v->dy,  v->dstate, v->y,      v->state, v->dx,     v->dw,
                   v->dbias, v->ds0, v->ey,   v->estate, v->edx, v->edw,    v->edbias, v->eds0,  v->resets, v->lengths};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* One row and channel, literally: inputs in processing order with the carried ones in front, one segment number each. */
static void conv_reference_channel(const struct conv_case *c, struct conv_data *v, int64_t row, int64_t d) {
    int64_t len = v->lengths ? v->lengths[row] : c->l, k1 = c->k - 1, pad = c->pad < 0 ? k1 : c->pad;
    double *x = doubles(len + 2 * k1 + 1), *dx = doubles(len + 2 * k1 + 1), *gp = doubles(len + 1);
    int *segment = fixture_memory((size_t)(len + 2 * k1 + 1) * sizeof *segment);
    for (int64_t i = 0; i < k1 && c->state; i++)
        x[i] = v->s0[(row * k1 + i) * c->d + d];
#define TIME(s) (c->reverse ? len - 1 - (s) : (s))
    for (int64_t s = 0, current = 0; s < len; s++) {
        int64_t mark = TIME(s) + c->reverse;
        current += v->resets && mark < len && v->resets[row * c->l + mark];
        x[k1 + s] = v->x[(row * c->l + TIME(s)) * c->d + d];
        segment[k1 + s] = (int)current;
    }
    for (int64_t s = 0; s < len; s++) {
        double pre = c->bias ? v->bias[d] : 0;
        for (int64_t k = 0; k < c->k; k++) {
            int64_t u = s + k - pad;
            if (u < len && (u >= 0 || c->state) && segment[k1 + u] == segment[k1 + s])
                pre += v->w[d * c->k + k] * x[k1 + u];
        }
        double sig = ref_sigmoid(pre);
        int64_t at = (row * c->l + TIME(s)) * c->d + d;
        v->ey[at] = c->silu ? pre * sig : pre;
        gp[s] = v->dy[at] * (c->silu ? sig * (1 + pre * (1 - sig)) : 1);
        v->edbias[d] += gp[s];
        v->walk[0] += gp[s] * gp[s];
        for (int64_t k = 0; k < c->k; k++) {
            int64_t u = s + k - pad;
            if (u < len && (u >= 0 || c->state) && segment[k1 + u] == segment[k1 + s]) {
                v->edw[d * c->k + k] += gp[s] * x[k1 + u];
                v->walk[1] += gp[s] * x[k1 + u] * gp[s] * x[k1 + u];
                dx[k1 + u] += gp[s] * v->w[d * c->k + k];
            }
        }
    }
    for (int64_t i = 0; i < k1 && c->state; i++)
        if (segment[len + i] == segment[k1 + len - 1] || len == 0) {
            v->estate[(row * k1 + i) * c->d + d] = x[len + i];
            dx[len + i] += v->dstate[(row * k1 + i) * c->d + d];
        }
    for (int64_t s = 0; s < len; s++)
        v->edx[(row * c->l + TIME(s)) * c->d + d] = dx[k1 + s];
    for (int64_t i = 0; i < k1 && c->state; i++)
        v->eds0[(row * k1 + i) * c->d + d] = dx[i];
#undef TIME
    free(x);
    free(dx);
    free(gp);
    free(segment);
}

/* bf16: narrowed copies of activations, widened back afterwards. */
static void conv_run(const struct conv_case *c, struct conv_data *v, bool bf16) {
    struct problem p = {.b = c->b, .l = c->l, .d = c->d, .bf16 = bf16};
    struct pack x = act_pack(&p, v->x, c->d), y = act_pack(&p, v->y, c->d), dy = act_pack(&p, v->dy, c->d),
                dx = act_pack(&p, v->dx, c->d);
    int pad = c->pad < 0 ? c->k - 1 : c->pad;
    struct tensor w = placed(tensor_2d(v->w, DTYPE_F32, c->d, c->k)), bias = flat(c->bias ? v->bias : NULL, c->d), resets = {0},
                  none = {0};
    if (v->resets)
        resets = placed(tensor_2d(v->resets, DTYPE_U8, c->b, c->l));
#define STATE(t) (c->state ? cube(t, c->b, c->k - 1, c->d) : none)
    struct conv1d_depthwise_args f = {.x = x.t,
                                      .w = w,
                                      .bias = bias,
                                      .y = y.t,
                                      .state0 = STATE(v->s0),
                                      .state = STATE(v->state),
                                      .resets = resets,
                                      .pad_left = pad,
                                      .silu = c->silu,
                                      .reverse = c->reverse,
                                      .lengths = v->lengths};
    struct conv1d_depthwise_backward_args g = {.x = x.t,
                                               .w = w,
                                               .bias = bias,
                                               .dy = dy.t,
                                               .dx = dx.t,
                                               .dw = placed(tensor_2d(v->dw, DTYPE_F32, c->d, c->k)),
                                               .dbias = flat(v->dbias, c->d),
                                               .state0 = STATE(v->s0),
                                               .dstate0 = STATE(v->ds0),
                                               .dstate = STATE(v->dstate),
                                               .resets = resets,
                                               .pad_left = pad,
                                               .silu = c->silu,
                                               .reverse = c->reverse,
                                               .lengths = v->lengths};
    struct err err = {0};
    fixture_check(op_conv1d_depthwise(fixture.stream, &f, &err), &err);
    fixture_check(op_conv1d_depthwise_backward(fixture.stream, &g, &err), &err);
    fixture_return();
    act_unpack(&x);
    act_unpack(&y);
    act_unpack(&dy);
    act_unpack(&dx);
}

static void check_conv(const struct conv_case *c, int index, bool bf16) {
    double most = bf16 ? 4e-3 : 1e-5;
    struct conv_data v = conv_new(c);
    int64_t n = c->b * c->l * c->d, s = c->state ? c->b * (c->k - 1) * c->d : 0;
    for (int64_t i = 0; i < n && bf16; i++) {
        v.x[i] = fixture_from_bf16(fixture_bf16(v.x[i]));
        v.dy[i] = fixture_from_bf16(fixture_bf16(v.dy[i]));
    }
    for (int64_t row = 0; row < c->b; row++)
        for (int64_t d = 0; d < c->d; d++)
            conv_reference_channel(c, &v, row, d);
    conv_run(c, &v, bf16);
    double errors[] = {fixture_distance(v.y, v.ey, n),
                       fixture_distance(v.state, v.estate, s),
                       fixture_distance(v.dx, v.edx, n),
                       fixture_distance_from(v.dw, v.edw, c->d * c->k, v.walk[1]),
                       fixture_distance_from(v.dbias, v.edbias, c->d, v.walk[0]),
                       fixture_distance(v.ds0, v.eds0, s)};
    static const char *const names[] = {"y", "state", "dx", "dw", "dbias", "dstate0"};
    for (int i = 0; i < 6; i++)
        if (!(errors[i] <= most))
            fail_msg("case %d %s: %s is off by %.2e", index, device_isa(), names[i], errors[i]);
    conv_free(&v);
}

static void convolution_matches_double_loops(void **state) {
    (void)state;
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    for (int i = 0; i < N_CONV; i++)
        for (int isa = 0; isa < fixture_isas(); isa++) {
            setenv("BRR_ISA", isas[isa], 1);
            check_conv(&conv_cases[i], i, false);
            check_conv(&conv_cases[i], i, true);
        }
    unsetenv("BRR_ISA");
}

static void convolution_continues_from_a_carried_state(void **state) {
    (void)state;
    struct conv_case whole = {2, 50, 24, 4, -1, true, true, false, true, false, false}, part = whole;
    struct conv_data all = conv_new(&whole);
    conv_run(&whole, &all, false);
    float *carried = fixture_memory((size_t)(2 * 3 * 24) * sizeof *carried);
    memcpy(carried, all.s0, (size_t)(2 * 3 * 24) * sizeof *carried);
    for (int64_t t = 0; t < 50; t += part.l) {
        part.l = t < 6 ? 2 : 11; /* pieces shorter than the taps too */
        struct conv_data v = conv_new(&part);
        memcpy(v.w, all.w, (size_t)(24 * 4) * sizeof(float));
        memcpy(v.bias, all.bias, 24 * sizeof(float));
        memcpy(v.s0, carried, (size_t)(2 * 3 * 24) * sizeof *carried);
        for (int64_t row = 0; row < 2; row++)
            memcpy(v.x + row * part.l * 24, all.x + (row * 50 + t) * 24, (size_t)(part.l * 24) * sizeof(float));
        conv_run(&part, &v, false);
        for (int64_t i = 0; i < 2 * part.l * 24; i++)
            assert_true(fabsf(v.y[i] - all.y[(i / (part.l * 24) * 50 + t) * 24 + i % (part.l * 24)]) < 1e-6f);
        memcpy(carried, v.state, (size_t)(2 * 3 * 24) * sizeof *carried);
        conv_free(&v);
    }
    assert_memory_equal(carried, all.state, (size_t)(2 * 3 * 24) * sizeof *carried);
    free(carried);
    conv_free(&all);
}

static void convolution_gives_the_same_bits_for_any_threads_and_batch(void **state) {
    (void)state;
    struct conv_case c = {37, 50, 140, 4, -1, true, true, false, true, false, false}, one = c;
    one.b = 1;
    struct conv_data a = conv_new(&c);
    conv_run(&c, &a, false);
    for (int threads = 1; threads <= 3; threads += 2) {
        struct conv_data b = conv_new(&c);
        float *const from[] = {a.x, a.w, a.bias, a.s0, a.dy, a.dstate};
        float *const to[] = {b.x, b.w, b.bias, b.s0, b.dy, b.dstate};
        const int64_t counts[] = {c.b * c.l * c.d, c.d * c.k, c.d, c.b * 3 * c.d, c.b * c.l * c.d, c.b * 3 * c.d};
        for (int i = 0; i < 6; i++)
            memcpy(to[i], from[i], (size_t)counts[i] * sizeof(float));
        fixture_threads(threads);
        conv_run(&c, &b, false);
        assert_memory_equal(a.y, b.y, (size_t)counts[0] * sizeof(float));
        assert_memory_equal(a.dx, b.dx, (size_t)counts[0] * sizeof(float));
        assert_memory_equal(a.dw, b.dw, (size_t)counts[1] * sizeof(float));
        assert_memory_equal(a.dbias, b.dbias, (size_t)counts[2] * sizeof(float));
        conv_free(&b);
    }
    struct conv_data v = conv_new(&one);
    int64_t row = 11, n = c.l * c.d;
    memcpy(v.x, a.x + row * n, (size_t)n * sizeof(float));
    memcpy(v.w, a.w, (size_t)(c.d * c.k) * sizeof(float));
    memcpy(v.bias, a.bias, (size_t)c.d * sizeof(float));
    memcpy(v.s0, a.s0 + row * 3 * c.d, (size_t)(3 * c.d) * sizeof(float));
    conv_run(&one, &v, false);
    assert_memory_equal(v.y, a.y + row * n, (size_t)n * sizeof(float));
    conv_free(&v);
    conv_free(&a);
    fixture_threads(2);
}

/* ---- gated RMS norm -------------------------------------------------------------------------------------------- */

static void check_rmsnorm(int64_t rows, int64_t d, int groups, bool bf16) {
    struct problem p = {.b = 1, .l = rows, .d = d, .bf16 = bf16};
    int64_t n = rows * d, width = d / groups;
    float *y = fixture_floats(n, -1, 1), *z = fixture_floats(n, -4, 4), *w = fixture_floats(d, 0.5, 1.5),
          *dout = fixture_floats(n, -1, 1);
    float *out = fixture_floats(n, NAN, NAN), *dy = fixture_floats(n, NAN, NAN), *dz = fixture_floats(n, NAN, NAN),
          *dw = fixture_floats(d, 0, 0);
    float *rstd = fixture_floats(rows * groups, NAN, NAN);
    double *eout = doubles(n), *edy = doubles(n), *edz = doubles(n), *edw = doubles(d), walk[3] = {0};
    for (int64_t i = 0; i < n && bf16; i++) {
        y[i] = fixture_from_bf16(fixture_bf16(y[i]));
        z[i] = fixture_from_bf16(fixture_bf16(z[i]));
        dout[i] = fixture_from_bf16(fixture_bf16(dout[i]));
    }
    for (int64_t at = 0; at < n; at += width) {
        double squares = 0, dot = 0;
        for (int64_t i = at; i < at + width; i++)
            squares += pow(y[i] * z[i] * ref_sigmoid(z[i]), 2);
        double rs = 1 / sqrt(squares / (double)width + 1e-5);
        for (int64_t i = at; i < at + width; i++) {
            double hat = y[i] * z[i] * ref_sigmoid(z[i]) * rs;
            eout[i] = hat * w[i % d];
            edw[i % d] += dout[i] * hat;
            walk[2] += dout[i] * hat * dout[i] * hat;
            dot += dout[i] * w[i % d] * hat / (double)width;
        }
        for (int64_t i = at; i < at + width; i++) {
            double sig = ref_sigmoid(z[i]), dq = rs * (dout[i] * w[i % d] - y[i] * z[i] * sig * rs * dot);
            edy[i] = dq * z[i] * sig;
            edz[i] = dq * y[i] * sig * (1 + z[i] * (1 - sig));
            double terms = rs * hypot(dout[i] * w[i % d], y[i] * z[i] * sig * rs * dot); /* what dq is the difference of */
            walk[0] += pow(terms * z[i] * sig, 2);
            walk[1] += pow(terms * y[i] * sig * (1 + fabs(z[i]) * (1 - sig)), 2);
        }
    }
    struct pack k[] = {act_pack(&p, y, d),   act_pack(&p, z, d),  act_pack(&p, dout, d),
                       act_pack(&p, out, d), act_pack(&p, dy, d), act_pack(&p, dz, d)};
    struct rmsnorm_gated_args f = {.y = k[0].t,
                                   .z = k[1].t,
                                   .weight = flat(w, d),
                                   .out = k[3].t,
                                   .save_rstd = flat(rstd, rows * groups),
                                   .groups = groups,
                                   .eps = 1e-5f};
    struct rmsnorm_gated_backward_args g = {.y = k[0].t,
                                            .z = k[1].t,
                                            .weight = flat(w, d),
                                            .save_rstd = flat(rstd, rows * groups),
                                            .dout = k[2].t,
                                            .dy = k[4].t,
                                            .dz = k[5].t,
                                            .dweight = flat(dw, d),
                                            .groups = groups};
    struct err err = {0};
    fixture_check(op_rmsnorm_gated(fixture.stream, &f, &err), &err);
    fixture_check(op_rmsnorm_gated_backward(fixture.stream, &g, &err), &err);
    fixture_return();
    for (int i = 0; i < 6; i++)
        act_unpack(&k[i]);
    double errors[] = {fixture_distance(out, eout, n), fixture_distance_from(dy, edy, n, walk[0]),
                       fixture_distance_from(dz, edz, n, walk[1]), fixture_distance_from(dw, edw, d, walk[2])};
    for (int i = 0; i < 4; i++)
        if (!(errors[i] <= (bf16 ? 4e-3 : 1e-5)))
            fail_msg("rows %d d %d groups %d %s: tensor %d is off by %.2e", (int)rows, (int)d, groups, device_isa(), i, errors[i]);
    void *all[] = {y, z, w, dout, out, dy, dz, dw, rstd, eout, edy, edz, edw};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void gated_norm_matches_double_loops(void **state) {
    (void)state;
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    for (int isa = 0; isa < fixture_isas(); isa++) {
        setenv("BRR_ISA", isas[isa], 1);
        for (int bf16 = 0; bf16 < 2; bf16++) {
            check_rmsnorm(1, 5, 1, bf16);
            check_rmsnorm(50, 64, 1, bf16);
            check_rmsnorm(33, 52, 4, bf16);
            check_rmsnorm(7, 1024, 2, bf16);
        }
    }
    unsetenv("BRR_ISA");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_matches_double_loops),
        cmocka_unit_test(convolution_continues_from_a_carried_state),
        cmocka_unit_test(convolution_gives_the_same_bits_for_any_threads_and_batch),
        cmocka_unit_test(gated_norm_matches_double_loops),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
