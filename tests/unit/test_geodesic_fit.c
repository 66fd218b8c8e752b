/* The training of geodesic models: what a held-out spectrum may not touch, going on from a saved state, both solvers on trained
 * networks, model files, predictions and metrics. Small tables of the formula's spectra. BRR_TEST_DEVICE names another device than
 * the CPU; fewer steps with BRR_TEST_MODEL=mini, for an emulated one. */
#include <dlfcn.h>

#include "geodesic/geodesic_file.h"
#include "geodesic/geodesic_fit.h"
#include "geodesic/geodesic_params.h"
#include "geodesic/geodesic_prior.h"
#include "geodesic_fixture.h"
#include "unit/closed_transport.h"
#include "unit/cmocka_all.h"
#include "unit/temp_dir.h"

enum { WIDTH = 24, FOLDS = 6, ALL = (1 << FOLDS) - 1 };

static struct err err;
static struct device *device;
static struct stream *stream;

static void ok(int rc) {
    if (rc)
        fail_msg("%s", err.message);
}

static bool is_mini(void) { return getenv("BRR_TEST_MODEL") && !strcmp(getenv("BRR_TEST_MODEL"), "mini"); }

static bool on_gpu(void) {
    struct device_info info;
    device_describe(device, &info);
    return info.is_async;
}

/* Every 25th wavelength of the formula. */
static struct spectra some_spectra(void) {
    struct spectra s;
    ok(spectra_formula(&s, &err));
    for (int k = 0; k < s.n; k++)
        for (int i = 0; i < WIDTH; i++)
            s.absorbance[k * WIDTH + i] = s.absorbance[k * s.width + i * 25];
    for (int i = 0; i < WIDTH; i++)
        s.wavelengths[i] = s.wavelengths[i * 25];
    s.width = WIDTH;
    return s;
}

static struct geodesic_fit_config config_of(enum geodesic_head head) {
    return (struct geodesic_fit_config){.head = head,
                                        .solver = GEODESIC_CLOSED_FORM,
                                        .epochs = 20,
                                        .batch = 10,
                                        .ode_steps = 100,
                                        .metric_rate = 5e-4,
                                        .head_rate = 1e-3,
                                        .decay = 0.1,
                                        .clip = 1,
                                        .smoothness = 0.01,
                                        .floor = 0.1,
                                        .head_gain = 0.7,
                                        .seed = 3};
}

struct run {
    struct geodesic_fit *fit;
    struct geodesic_fit_state state;
};

static struct run start(const struct geodesic_fit_config *c, const struct spectra *s, const geodesic_members *m, int groups) {
    struct run r;
    ok(geodesic_fit_new(c, s, m, groups, stream, &r.fit, &err));
    ok(geodesic_fit_state_new(r.fit, &r.state, &err));
    return r;
}
static void advance(struct run *r, int steps) {
    for (int i = 0; i < steps; i++)
        ok(geodesic_fit_step(r->fit, &err));
    ok(geodesic_fit_save(r->fit, &r->state, &err));
}
static void end(struct run *r) {
    geodesic_fit_free(r->fit);
    geodesic_fit_state_done(&r->state);
}
static void same_bits(const struct geodesic_fit_state *a, int ga, const struct geodesic_fit_state *b, int gb) {
    size_t row = (size_t)a->count;
    assert_memory_equal(a->params + ga * row, b->params + gb * row, row * sizeof(float));
    assert_memory_equal(a->m + ga * row, b->m + gb * row, row * sizeof(float));
    assert_memory_equal(a->v + ga * row, b->v + gb * row, row * sizeof(float));
    assert_true(a->losses[ga] == b->losses[gb]);
}

static void a_held_out_spectrum_of_no_numbers_changes_no_bit(void **state) {
    (void)state;
    enum { HELD = 2 };
    const geodesic_members members[1] = {ALL & ~(1 << HELD)};
    for (int head = 0; head < 2; head++) {
        struct spectra s = some_spectra();
        struct geodesic_fit_config c = config_of((enum geodesic_head)head);
        struct run clean = start(&c, &s, members, 1);
        int steps = is_mini() ? 4 : 12;
        advance(&clean, steps);
        for (int i = 0; i < WIDTH; i++)
            s.absorbance[HELD * WIDTH + i] = NAN;
        struct run blind = start(&c, &s, members, 1);
        advance(&blind, steps);
        same_bits(&clean.state, 0, &blind.state, 0);
        assert_true(isfinite(geodesic_fit_loss(blind.fit, 0)));
        end(&clean);
        end(&blind);
        spectra_done(&s);
    }
}

static void a_model_is_the_same_alone_and_beside_others(void **state) {
    (void)state;
    const geodesic_members members[3] = {ALL & ~1, ALL & ~8, ALL};
    struct spectra s = some_spectra();
    struct geodesic_fit_config c = config_of(GEODESIC_FLOW);
    struct run together = start(&c, &s, members, 3), alone[3];
    for (int g = 0; g < 3; g++)
        alone[g] = start(&c, &s, members + g, 1);
    geodesic_fit_limit(together.fit, 1, 0.3, 2); /* another decay, and an end after two epochs of three steps */
    geodesic_fit_limit(alone[1].fit, 0, 0.3, 2);
    advance(&together, 7);
    for (int g = 0; g < 3; g++) {
        advance(&alone[g], 7);
        same_bits(&together.state, g, &alone[g].state, 0);
        end(&alone[g]);
    }
    end(&together);
    spectra_done(&s);
}

static void a_training_goes_on_from_its_state_bit_for_bit(void **state) {
    (void)state;
    const geodesic_members members[2] = {ALL & ~2, ALL & ~16};
    struct spectra s = some_spectra();
    struct geodesic_fit_config c = config_of(GEODESIC_FLOW);
    struct run whole = start(&c, &s, members, 2), first = start(&c, &s, members, 2), second = start(&c, &s, members, 2);
    advance(&whole, 11);
    advance(&first, 4); /* within an epoch of three steps */
    ok(geodesic_fit_load(second.fit, &first.state, &err));
    advance(&second, 7);
    assert_int_equal(second.state.step, 11);
    for (int g = 0; g < 2; g++)
        same_bits(&whole.state, g, &second.state, g);
    end(&whole);
    end(&first);
    end(&second);
    spectra_done(&s);
}

/* Calls of an emulated GPU so far: kernels, copies, launches of recordings; false: it is none. */
static bool calls(long ret[3]) {
    static void (*counts)(long ret[3]);
    const char *path = getenv("BRR_CUDA_LIBRARY");
    void *library = path && !counts ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library)
        *(void **)&counts = dlsym(library, "emulator_counts");
    if (counts)
        counts(ret);
    return counts;
}

/* Epochs of four and five wavelengths a step; the second model stops after the first. The last step's calls in ret. */
static struct run two_epochs(const struct spectra *s, long ret[3]) {
    const geodesic_members members[2] = {0x2b, 0x15};
    struct geodesic_fit_config c = config_of(GEODESIC_FLOW);
    struct err why;
    long before[3] = {0};
    c.batch = 5;
    struct run r = start(&c, s, members, 2);
    assert_int_equal(geodesic_fit_epoch_steps(r.fit), 5);
    geodesic_fit_limit(r.fit, 1, 0.3, 1);
    for (int i = 0; i < 10; i++) {
        calls(before);
        ok(geodesic_fit_step(r.fit, &err));
    }
    calls(ret);
    for (int i = 0; i < 3; i++)
        ret[i] -= before[i];
    ok(geodesic_fit_save(r.fit, &r.state, &err));
    assert_false(geodesic_fit_warning(r.fit, &why));
    return r;
}

/* A recorded step is one launch between two copies. Where none can be recorded, two devices have the same bits. */
static void recorded_steps_have_the_bits_of_others(void **state) {
    (void)state;
    struct device_info info;
    device_describe(device, &info);
    struct device *own_device = device;
    struct stream *own_stream = stream;
    struct spectra s = some_spectra();
    long made[2][3] = {{0}};
    struct run recorded = two_epochs(&s, made[0]);
    setenv("BRR_CUDA_GRAPHS", "0", 1);
    ok(device_open(info.name, 1, &device, &err));
    ok(stream_open(device, STREAM_NORMAL, &stream, &err));
    unsetenv("BRR_CUDA_GRAPHS");
    device_describe(device, &info);
    assert_false(info.has_graphs);
    struct run plain = two_epochs(&s, made[1]);
    for (int g = 0; g < 2; g++)
        same_bits(&recorded.state, g, &plain.state, g);
    if (calls(made[1])) {
        assert_int_equal(made[0][0], 0);
        assert_int_equal(made[0][1], 2);
        assert_int_equal(made[0][2], 1);
    }
    end(&plain);
    stream_close(stream);
    device_close(device);
    device = own_device;
    stream = own_stream;
    end(&recorded);
    spectra_done(&s);
}

static void training_lowers_the_loss(void **state) {
    (void)state;
    const geodesic_members members[1] = {is_mini() ? 0x15 : ALL};
    for (int head = 0; head < (is_mini() ? 1 : 2); head++) {
        struct spectra s = some_spectra();
        struct geodesic_fit_config c = config_of((enum geodesic_head)head);
        c.epochs = 80;
        c.head_rate = 3e-3;
        c.decay = 0;
        struct run r = start(&c, &s, members, 1);
        advance(&r, 3);
        double before = geodesic_fit_loss(r.fit, 0);
        advance(&r, is_mini() ? 57 : 237);
        double after = geodesic_fit_loss(r.fit, 0);
        if (!(after < (is_mini() ? 1 : head ? 0.9 : 0.7) * before)) /* the decoder has the whole spectrum to learn */
            fail_msg("head %d: the loss went from %g to %g", head, before, after);
        end(&r);
        spectra_done(&s);
    }
}

/* ---- both solvers ---------------------------------------------------------------------------------------------- */

static double relative(const double *a, const double *b, int64_t n) {
    double size = 0, difference = 0;
    for (int64_t i = 0; i < n; i++) {
        size += a[i] * a[i];
        difference += (a[i] - b[i]) * (a[i] - b[i]);
    }
    return sqrt(difference / size);
}

/* In double precision, on the networks that a training made. */
static void solvers_agree_on_trained_networks(void **state) {
    (void)state;
    const geodesic_members members[1] = {ALL & ~4};
    struct spectra s = some_spectra();
    struct geodesic_fit_config c = config_of(GEODESIC_FLOW);
    struct run r = start(&c, &s, members, 1);
    int64_t count = r.state.count, metric = mlp_count(GEODESIC_METRIC);
    double *params = calloc((size_t)count * 3, sizeof *params), *grads[2] = {params + count, params + 2 * count};
    advance(&r, is_mini() ? 3 : 60);
    for (int64_t i = 0; i < count; i++)
        params[i] = (double)r.state.params[i];
    const double a[] = {-1, 1, -1, 2.0 / 3}, b[] = {1, -1, 1.0 / 3, 0};
    double value[2][4], gradient[4] = {1, -1, .5, 2};
    for (int solver = 0; solver < 2; solver++) {
        struct exact_nets nets = {params, params + metric, grads[solver], grads[solver] + metric, -0.6, 0.1};
        struct geodesic_field field = exact_field(&nets);
        struct geodesic_paths p = {&field, 4, a, b, 12, 8, 100, 1e-12};
        struct geodesic_transport t = {.value = value[solver], .gradient = gradient};
        ok(solver ? geodesic_transport_ode(&p, &t, &err) : transport_closed(&p, &t, &err));
    }
    for (int i = 0; i < 4; i++)
        assert_true(fabs(value[0][i] - value[1][i]) <= 1e-5);
    assert_true(relative(grads[0], grads[1], count) <= 1e-4);
    assert_true(relative(grads[0], grads[1], metric) <= 1e-4);
    free(params);
    end(&r);
    spectra_done(&s);
}

/* Of the first moments, which are a tenth of the clipped gradients after one step, relative to their size. */
static double apart(const struct geodesic_fit_state *a, const struct geodesic_fit_state *b) {
    double size = 0, difference = 0;
    for (int64_t i = 0; i < a->count; i++) {
        double x = (double)a->m[i], y = (double)b->m[i];
        size += x * x;
        difference += (x - y) * (x - y);
    }
    return sqrt(difference / size);
}

/* On tensor cores a step is nearly the same, and not to the bit; processors have none. */
static void a_step_on_tensor_cores_is_one_in_fp32(void **state) {
    (void)state;
    const geodesic_members members[1] = {0x15};
    struct spectra s = some_spectra();
    struct geodesic_fit_config c = config_of(GEODESIC_FLOW);
    struct run plain = start(&c, &s, members, 1);
    c.products = GEODESIC_BF16X3;
    if (on_gpu()) {
        struct run tensor = start(&c, &s, members, 1);
        advance(&plain, 1);
        advance(&tensor, 1);
        double d = apart(&plain.state, &tensor.state);
        if (!(d > 0 && d <= 1e-4))
            fail_msg("the gradients differ by %g", d);
        end(&tensor);
    } else {
        struct geodesic_fit *refused = NULL;
        assert_int_equal(geodesic_fit_new(&c, &s, members, 1, stream, &refused, &err), ERR_UNSUPPORTED);
        assert_non_null(strstr(err.message, "runs on GPUs only"));
    }
    end(&plain);
    spectra_done(&s);
}

static void a_step_by_runge_kutta_is_one_in_closed_form(void **state) {
    (void)state;
    const geodesic_members members[1] = {0x15};
    struct spectra s = some_spectra();
    struct geodesic_fit_config c = config_of(GEODESIC_FLOW);
    c.smoothness = 0;
    c.ode_steps = 40;
    struct run closed = start(&c, &s, members, 1);
    c.solver = GEODESIC_ODE;
    if (on_gpu()) { /* on processors alone */
        struct geodesic_fit *refused = NULL;
        assert_int_equal(geodesic_fit_new(&c, &s, members, 1, stream, &refused, &err), ERR_UNSUPPORTED);
        assert_non_null(strstr(err.message, "runs on the CPU only"));
        end(&closed);
        spectra_done(&s);
        return;
    }
    struct run ode = start(&c, &s, members, 1);
    advance(&closed, 1);
    advance(&ode, 1);
    assert_true(apart(&closed.state, &ode.state) <= 1e-4);
    const struct geodesic_convergence *went = geodesic_fit_convergence(ode.fit);
    assert_true(went && went->paths > 0 && went->converged == went->paths);
    assert_true(went->largest_miss > 0 && went->largest_miss <= 1e-5);
    assert_null(geodesic_fit_convergence(closed.fit));
    end(&closed);
    end(&ode);
    c.head = GEODESIC_DECODER;
    struct geodesic_fit *refused = NULL;
    assert_int_equal(geodesic_fit_new(&c, &s, members, 1, stream, &refused, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "flow head"));
    spectra_done(&s);
}

/* ---- what a model says ----------------------------------------------------------------------------------------- */

static void a_model_file_gives_back_what_was_trained(void **state) {
    const geodesic_members members[2] = {ALL & ~2, ALL};
    struct spectra s = some_spectra();
    struct geodesic_fit_config c = config_of(GEODESIC_DECODER);
    struct run r = start(&c, &s, members, 2);
    advance(&r, 5);
    struct geodesic_file file = {.head = c.head, .floor = c.floor, .spectra = s, .groups = 2, .params = r.state.params}, back;
    for (int g = 0; g < 2; g++) {
        file.members[g] = members[g];
        file.orders[g] = r.state.orders[g];
        file.prior_weights[g] = g ? 0.25 : 1;
    }
    char sha[DIGEST_HEX_SIZE], *text = NULL;
    const double figures[3] = {1, NAN, 3};
    double figures_back[3];
    const struct geodesic_file_state training = {&r.state, figures, 3, "{}"};
    const char *path = in_dir(state, "model.safetensors");
    ok(geodesic_file_write(path, &file, &training, sha, &err));
    ok(geodesic_file_read(path, &back, &err));
    assert_int_equal(geodesic_file_best(&back), 1);
    double *said[2] = {malloc(FOLDS * WIDTH * sizeof(double)), malloc(FOLDS * WIDTH * sizeof(double))};
    struct geodesic_model model;
    geodesic_fit_model(&r.state, r.fit, 1, &model);
    ok(geodesic_predict(stream, &model, &s, 25, said[0], &err));
    geodesic_file_model(&back, 1, &model);
    ok(geodesic_predict(stream, &model, &back.spectra, 25, said[1], &err));
    assert_memory_equal(said[0], said[1], FOLDS * WIDTH * sizeof(double));
    double prior[WIDTH];
    ok(geodesic_prior(&s, members[1], 25, prior, &err));
    ok(geodesic_prior_blend(&model, &s, 25, said[1], &err));
    for (int i = 0; i < FOLDS * WIDTH; i++)
        assert_true(fabs(said[1][i] - (0.25 * prior[i % WIDTH] + 0.75 * said[0][i])) < 1e-12);
    geodesic_file_model(&back, 0, &model);
    ok(geodesic_prior(&s, members[0], 25, prior, &err));
    ok(geodesic_prior_blend(&model, &s, 25, said[1], &err));
    for (int i = 0; i < (FOLDS - 1) * WIDTH; i++)
        assert_true(fabs(said[1][i] - prior[i % WIDTH]) < 1e-12); /* nothing of a network, nor of the spectrum left out */
    struct run other = start(&c, &s, members, 2);
    ok(geodesic_file_read_state(path, &other.state, figures_back, 3, &text, &err));
    assert_memory_equal(figures, figures_back, sizeof figures);
    assert_string_equal(text, "{}");
    for (int g = 0; g < 2; g++)
        same_bits(&r.state, g, &other.state, g);
    assert_int_equal(geodesic_file_read_state(path, &other.state, figures_back, 2, &text, &err), ERR_INVALID);
    struct geodesic_file wrong;
    file.prior_weights[1] = 1.5;
    ok(geodesic_file_write(path, &file, NULL, sha, &err));
    assert_int_equal(geodesic_file_read(path, &wrong, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "prior_weights[1] is 1.5; expected a number from 0 to 1"));
    free(text);
    free(said[0]);
    free(said[1]);
    end(&r);
    end(&other);
    geodesic_file_done(&back);
    spectra_done(&s);
}

static void predictions_at_a_member_keep_its_own_spectrum_and_the_metric_is_scaled(void **state) {
    (void)state;
    const geodesic_members members[1] = {ALL};
    struct spectra s = some_spectra();
    struct geodesic_fit_config c = config_of(GEODESIC_FLOW);
    struct run r = start(&c, &s, members, 1);
    advance(&r, 3);
    struct geodesic_model model;
    geodesic_fit_model(&r.state, r.fit, 0, &model);
    static double said[FOLDS * WIDTH], g[201 * WIDTH], at[201];
    ok(geodesic_predict(stream, &model, &s, 20, said, &err));
    assert_memory_equal(said + 2 * WIDTH, s.absorbance + 2 * WIDTH, WIDTH * sizeof *said);
    ok(geodesic_predict(stream, &model, &s, 75, said, &err)); /* beyond the last */
    for (int i = 0; i < FOLDS * WIDTH; i++)
        assert_true(isfinite(said[i]));
    for (int i = 0; i < 201; i++)
        at[i] = 60.0 * i / 200;
    int64_t rows[WIDTH];
    for (int w = 0; w < WIDTH; w++)
        rows[w] = w;
    ok(geodesic_metric(stream, &model, &s, &(struct geodesic_grid){at, 201, rows, WIDTH}, g, &err));
    for (int w = 0; w < WIDTH; w++) {
        double length = 0;
        for (int i = 0; i < 200; i++)
            length += (sqrt(g[i * WIDTH + w]) + sqrt(g[(i + 1) * WIDTH + w])) / 2 * 0.01;
        assert_true(fabs(length - 2) < 1e-4);
    }
    end(&r);
    spectra_done(&s);
}

/* Single precision on a device, double precision without one. */
static void the_device_and_plain_loops_say_the_same(void **state) {
    (void)state;
    const geodesic_members members[1] = {ALL & ~2};
    const double concentrations[] = {-5, 0, 10, 33, 60};
    for (int head = 0; head < 2; head++) {
        struct spectra s = some_spectra();
        struct geodesic_fit_config c = config_of((enum geodesic_head)head);
        struct run r = start(&c, &s, members, 1);
        struct geodesic_model model;
        static double fast[FOLDS * WIDTH], exact[FOLDS * WIDTH];
        advance(&r, 9);
        geodesic_fit_model(&r.state, r.fit, 0, &model);
        for (int k = 0; k < 5; k++) {
            ok(geodesic_predict(stream, &model, &s, concentrations[k], fast, &err));
            ok(geodesic_exact_predict(&model, &s, concentrations[k], exact, &err));
            for (int i = 0; i < (FOLDS - 1) * WIDTH; i++)
                assert_true(fabs(fast[i] - exact[i]) < 1e-6);
        }
        const int64_t rows[] = {WIDTH - 1, 0, 3}; /* any of them, in any order */
        ok(geodesic_metric(stream, &model, &s, &(struct geodesic_grid){concentrations, 5, rows, 3}, fast, &err));
        ok(geodesic_exact_metric(&model, &s, concentrations, 5, exact, &err));
        for (int i = 0; i < 5; i++)
            for (int k = 0; k < 3; k++)
                assert_true(fabs(fast[i * 3 + k] - exact[i * WIDTH + rows[k]]) < 1e-5 * exact[i * WIDTH + rows[k]]);
        end(&r);
        spectra_done(&s);
    }
}

static int open_device(void **state) {
    (void)state;
    const char *name = getenv("BRR_TEST_DEVICE");
    return device_open(name ? name : "cpu", 1, &device, &err) || stream_open(device, STREAM_NORMAL, &stream, &err);
}
static int close_device(void **state) {
    (void)state;
    stream_close(stream);
    device_close(device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_held_out_spectrum_of_no_numbers_changes_no_bit),
        cmocka_unit_test(a_model_is_the_same_alone_and_beside_others),
        cmocka_unit_test(a_training_goes_on_from_its_state_bit_for_bit),
        cmocka_unit_test(recorded_steps_have_the_bits_of_others),
        cmocka_unit_test(training_lowers_the_loss),
        cmocka_unit_test(solvers_agree_on_trained_networks),
        cmocka_unit_test(a_step_by_runge_kutta_is_one_in_closed_form),
        cmocka_unit_test(a_step_on_tensor_cores_is_one_in_fp32),
        in_temp_dir(a_model_file_gives_back_what_was_trained),
        cmocka_unit_test(the_device_and_plain_loops_say_the_same),
        cmocka_unit_test(predictions_at_a_member_keep_its_own_spectrum_and_the_metric_is_scaled),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
