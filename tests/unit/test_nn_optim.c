/* The optimizer against its formulas in double, the schedule, clipping, skipped steps and the average of the weights. */

#include "base/rng.h"
#include "nn/optim.h"
#include "seed.h"
#include "unit/cmocka_all.h"

enum { WEIGHTS = 53, PLAIN = 7, STEPS = 12 };

enum { LEARNED = 2 }; /* of the set's tensors: w, b */

struct fixture {
    struct device *dev;
    struct stream *s;
    struct param_set set;
    struct optim optim;
    struct rng rng;
    const struct param *w, *b;
};

static struct err err;

static void setup(struct fixture *f, const struct optim_config *config) {
    rng_init(&f->rng, test_seed(), RNG_SYNTH, 0);
    assert_int_equal(device_open("cpu", 1, &f->dev, &err), 0);
    assert_int_equal(stream_open(f->dev, STREAM_NORMAL, &f->s, &err), 0);
    param_set_init(&f->set);
    assert_int_equal(param_add(&f->set, &(struct param_spec){PARAM_WEIGHT, 2, {WEIGHTS, 1}}, &err, "w"), 0);
    assert_int_equal(param_add(&f->set, &(struct param_spec){PARAM_PLAIN, 1, {PLAIN}}, &err, "b"), 0);
    assert_int_equal(param_add(&f->set, &(struct param_spec){PARAM_BUFFER, 1, {PLAIN}}, &err, "running_mean"), 0);
    assert_int_equal(param_set_alloc(&f->set, f->dev, true, &err), 0);
    f->w = param_find(&f->set, "w");
    f->b = param_find(&f->set, "b");
    for (int i = 0; i < LEARNED; i++)
        for (int64_t k = 0; k < f->set.items[i].count; k++)
            f->set.data[f->set.items[i].offset + k] = (float)rng_normal(&f->rng);
    assert_int_equal(optim_init(&f->optim, &f->set, config, f->s, &err), 0);
}

static void teardown(struct fixture *f) {
    optim_done(&f->optim);
    param_set_done(&f->set);
    stream_close(f->s);
    device_close(f->dev);
}

static void draw_gradients(struct fixture *f, double scale) {
    for (int i = 0; i < LEARNED; i++)
        for (int64_t k = 0; k < f->set.items[i].count; k++)
            f->set.grad[f->set.items[i].offset + k] = (float)(scale * rng_normal(&f->rng));
}

static double norm_of(const struct fixture *f) {
    double sum = 0;
    for (int64_t k = 0; k < f->set.data_count; k++)
        sum += (double)f->set.grad[k] * (double)f->set.grad[k];
    return sqrt(sum);
}

static void the_rate_warms_up_from_the_first_step_and_falls_to_zero(void **state) {
    (void)state;
    struct optim_config c = {.learning_rate = 2e-3, .warmup_ratio = 0.1, .total_steps = 100};
    assert_float_equal(optim_rate(&c, 0), 2e-3 * 1 / 10, 1e-12);
    assert_float_equal(optim_rate(&c, 8), 2e-3 * 9 / 10, 1e-12);
    assert_float_equal(optim_rate(&c, 9), 2e-3, 1e-12);
    assert_float_equal(optim_rate(&c, 10), 2e-3, 1e-12);
    assert_float_equal(optim_rate(&c, 55), 1e-3, 1e-12);
    assert_float_equal(optim_rate(&c, 100), 0, 1e-12);
    assert_float_equal(optim_rate(&c, 5000), 0, 1e-12);
    c.constant = true;
    assert_float_equal(optim_rate(&c, 0), 2e-4, 1e-12);
    assert_float_equal(optim_rate(&c, 99), 2e-3, 1e-12);
    c.decay_from = 90; /* falls late */
    assert_float_equal(optim_rate(&c, 0), 2e-4, 1e-12);
    assert_float_equal(optim_rate(&c, 89), 2e-3, 1e-12);
    assert_float_equal(optim_rate(&c, 90), 2e-3, 1e-12);
    assert_float_equal(optim_rate(&c, 95), 1e-3, 1e-12);
    assert_float_equal(optim_rate(&c, 100), 0, 1e-12);
    assert_float_equal(optim_rate(&c, 5000), 0, 1e-12);
    c = (struct optim_config){.learning_rate = 1, .warmup_ratio = 0.03, .total_steps = 10}; /* at least one step of warm-up */
    assert_float_equal(optim_rate(&c, 0), 1, 1e-12);
    assert_true(optim_rate(&c, 2) < 1);
}

/* Twelve steps against the textbook in double; gradients large enough that some steps are clipped and some are not. */
static void steps_are_those_of_adamw_with_decay_on_weights_alone(void **state) {
    (void)state;
    struct optim_config c = {
        .learning_rate = 1e-2, .weight_decay = 0.1, .warmup_ratio = 0.25, .gradient_clip = 5, .ema = 0.6, .total_steps = STEPS};
    struct fixture f;
    setup(&f, &c);
    int64_t n = f.set.data_count;
    double *p = calloc((size_t)n * 4, sizeof *p), *m = p + n, *v = m + n, *ema = v + n;
    for (int64_t k = 0; k < n; k++)
        ema[k] = p[k] = (double)f.set.data[k];
    int clipped = 0;
    for (int t = 0; t < STEPS; t++) {
        struct optim_report r;
        uint64_t version = f.set.version;
        draw_gradients(&f, t % 3 ? 1 : 0.2);
        double norm = norm_of(&f), scale = norm > 5 ? 5 / norm : 1, lr = optim_rate(&c, t), d = fmin(0.6, t / (t + 5.0));
        clipped += scale < 1;
        assert_int_equal(optim_step(&f.optim, f.s, t, &r, &err), 0);
        assert_false(r.skipped);
        assert_float_equal(r.gradient_norm, norm, 1e-5 * norm);
        assert_float_equal(r.learning_rate, lr, 1e-12);
        assert_true(f.set.version > version);
        for (int64_t k = 0; k < n; k++) {
            double g = (double)f.set.grad[k] * scale;
            m[k] = 0.9 * m[k] + 0.1 * g;
            v[k] = 0.999 * v[k] + 0.001 * g * g;
            double mh = m[k] / (1 - pow(0.9, t + 1)), vh = v[k] / (1 - pow(0.999, t + 1));
            double decay = k >= f.w->offset && k < f.w->offset + f.w->count ? 0.1 : 0;
            p[k] -= lr * (mh / (sqrt(vh) + 1e-8) + decay * p[k]);
            ema[k] = d * ema[k] + (1 - d) * p[k];
        }
    }
    assert_true(clipped > 0 && clipped < STEPS);
    assert_int_equal(f.optim.updates, STEPS);
    for (int64_t k = 0; k < n; k++) {
        assert_float_equal(f.set.data[k], p[k], 2e-6 * (1 + fabs(p[k])));
        assert_float_equal(f.optim.ema[k], ema[k], 2e-6 * (1 + fabs(ema[k])));
    }
    size_t bytes = (size_t)n * sizeof(float);
    float *before = malloc(2 * bytes), *average = before + n;
    uint64_t version = f.set.version;
    memcpy(before, f.set.data, bytes);
    memcpy(average, f.optim.ema, bytes);
    assert_int_equal(optim_exchange_ema(&f.optim, f.s, &err), 0);
    assert_true(f.set.version > version && f.optim.exchanged);
    assert_memory_equal(f.set.data, average, bytes);
    assert_memory_equal(f.optim.ema, before, bytes);
    assert_int_equal(optim_exchange_ema(&f.optim, f.s, &err), 0);
    assert_false(f.optim.exchanged);
    assert_memory_equal(f.set.data, before, bytes);
    assert_memory_equal(f.optim.ema, average, bytes);
    free(before);
    free(p);
    teardown(&f);
}

/* Running statistics follow the weights' average, are exchanged with it, and no step changes them. */
static void running_statistics_are_averaged_with_the_weights(void **state) {
    (void)state;
    struct optim_config c = {.learning_rate = 1e-2, .weight_decay = 0.1, .ema = 0.6, .total_steps = STEPS};
    struct fixture f;
    struct optim_report r;
    setup(&f, &c);
    int64_t n = f.set.buffer_count;
    assert_true(n >= PLAIN);
    double expected = f.set.buffers[0];
    for (int t = 0; t < STEPS; t++) {
        double d = fmin(0.6, t / (t + 5.0));
        for (int64_t k = 0; k < n; k++)
            f.set.buffers[k] = (float)(t * t);
        draw_gradients(&f, 1);
        assert_int_equal(optim_step(&f.optim, f.s, t, &r, &err), 0);
        expected = d * expected + (1 - d) * t * t;
        assert_true(f.set.buffers[0] == (float)(t * t));
        assert_float_equal(f.optim.ema_buffers[0], expected, 1e-5 * (1 + expected));
    }
    for (int times = 0; times < 2; times++) {
        assert_int_equal(optim_exchange_ema(&f.optim, f.s, &err), 0);
        assert_float_equal(f.set.buffers[PLAIN - 1], times ? (STEPS - 1) * (STEPS - 1) : expected, 1e-5 * (1 + expected));
    }
    teardown(&f);
}

static void a_step_that_is_not_finite_changes_nothing(void **state) {
    (void)state;
    static const float poisons[] = {NAN, INFINITY, -INFINITY};
    struct optim_config c = {.learning_rate = 1e-2, .gradient_clip = 1, .ema = 0.5, .total_steps = 10};
    struct fixture f;
    setup(&f, &c);
    size_t bytes = (size_t)f.set.data_count * sizeof(float);
    struct optim_report r;
    draw_gradients(&f, 1);
    assert_int_equal(optim_step(&f.optim, f.s, 0, &r, &err), 0);
    float *saved = malloc(4 * bytes);
    const float *arrays[] = {f.set.data, f.optim.m, f.optim.v, f.optim.ema};
    for (int i = 0; i < 4; i++)
        memcpy((char *)saved + (size_t)i * bytes, arrays[i], bytes);
    for (size_t i = 0; i < sizeof poisons / sizeof *poisons; i++) {
        uint64_t version = f.set.version;
        draw_gradients(&f, 1);
        f.set.grad[f.b->offset + 2] = poisons[i];
        assert_int_equal(optim_step(&f.optim, f.s, 1, &r, &err), 0);
        assert_true(r.skipped);
        assert_int_equal(f.optim.updates, 1);
        assert_true(f.set.version == version);
        for (int k = 0; k < 4; k++)
            assert_memory_equal((char *)saved + (size_t)k * bytes, arrays[k], bytes);
    }
    free(saved);
    teardown(&f);
}

static void zeroing_clears_gradients_and_memory_is_as_announced(void **state) {
    (void)state;
    struct optim_config c = {.learning_rate = 1e-2, .ema = 0.5, .total_steps = 10};
    struct fixture f;
    setup(&f, &c);
    int64_t live, n;
    device_alloc_stats(f.dev, &live, &n);
    /* moments and average of the parameters, average of the statistics, sums of the gradient */
    assert_int_equal(live,
                     param_set_bytes(&f.set, true) + 12 * f.set.data_count + 17 * f.set.buffer_count + (int64_t)sizeof(double));
    draw_gradients(&f, 1);
    assert_int_equal(optim_zero_grad(&f.optim, f.s, &err), 0);
    for (int64_t k = 0; k < f.set.data_count; k++)
        assert_true(f.set.grad[k] == 0);
    teardown(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rate_warms_up_from_the_first_step_and_falls_to_zero),
        cmocka_unit_test(steps_are_those_of_adamw_with_decay_on_weights_alone),
        cmocka_unit_test(running_statistics_are_averaged_with_the_weights),
        cmocka_unit_test(a_step_that_is_not_finite_changes_nothing),
        cmocka_unit_test(zeroing_clears_gradients_and_memory_is_as_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
