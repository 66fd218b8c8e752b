/* The detector's network: parameter counts, gradients against finite differences, batch invariance, memory known before it is
 * taken, no allocation in a step, sane initial loss. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "kernels/op.h"
#include "model/seizure.h"

static uint64_t seed;

static struct seizure_config mini(enum seizure_mixer mixer) {
    struct seizure_config c;
    assert_int_equal(seizure_preset("tiny", 3, &c, NULL), 0);
    c.window = 256;
    memcpy(c.encoder_channels, (int[]){8, 9, 16, 20}, sizeof c.encoder_channels);
    c.rescnn_blocks = 1;
    c.mamba_layers = 1;
    c.headdim = 10;
    c.d_state = 5;
    c.mixer = mixer;
    return c;
}

struct fixture {
    struct device *dev;
    struct stream *s;
    struct seizure_net *net;
    struct seizure_config config;
    float *x, *logits, *dlogits;
    uint8_t *labels;
    int32_t valid[4];
    int batch;
};

static void setup(struct fixture *f, const struct seizure_config *config, int batch, bool training) {
    struct err err;
    f->config = *config;
    f->batch = batch;
    assert_int_equal(device_open("cpu", 0, &f->dev, &err), 0);
    assert_int_equal(stream_open(f->dev, STREAM_NORMAL, &f->s, &err), 0);
    struct seizure_options o = {.max_batch = batch, .training = training, .precision = DTYPE_F32};
    if (seizure_new(f->dev, config, &o, &f->net, &err))
        fail_msg("%s", err.message);
    assert_int_equal(seizure_init(f->net, f->s, seed, 0.2, &err), 0);
    int64_t n = batch * config->window;
    f->x = malloc((size_t)(n * config->in_channels) * sizeof(float));
    f->logits = malloc((size_t)n * sizeof(float));
    f->dlogits = malloc((size_t)n * sizeof(float));
    f->labels = malloc((size_t)n);
    struct rng rng;
    rng_init(&rng, seed, RNG_SYNTH, 1);
    for (int64_t i = 0; i < n * config->in_channels; i++)
        f->x[i] = (float)rng_normal(&rng);
    for (int64_t i = 0; i < n; i++)
        f->labels[i] = rng_uniform(&rng) < 0.2;
    for (int i = 0; i < 4; i++)
        f->valid[i] = (int32_t)(config->window - 16 * i);
}

static void teardown(struct fixture *f) {
    free(f->x);
    free(f->logits);
    free(f->dlogits);
    free(f->labels);
    seizure_free(f->net);
    stream_close(f->s);
    device_close(f->dev);
}

static double loss_of(struct fixture *f, enum loss_kind kind, bool backward) {
    struct err err;
    int64_t b = f->batch, t = f->config.window;
    struct tensor x = tensor_3d(f->x, DTYPE_F32, b, t, f->config.in_channels), logits = tensor_2d(f->logits, DTYPE_F32, b, t);
    struct tensor dlogits = tensor_2d(f->dlogits, DTYPE_F32, b, t);
    struct seizure_pass pass = {.seed = seed, .step = 3, .row0 = 0};
    if (seizure_forward_train(f->net, f->s, &x, &pass, &logits, &err))
        fail_msg("%s", err.message);
    double sum = 0;
    int64_t count = 0;
    struct loss_args loss = {.kind = kind,
                             .logits = logits,
                             .labels = tensor_2d(f->labels, DTYPE_U8, b, t),
                             .dlogits = dlogits,
                             .valid = f->valid,
                             .alpha = 0.4f,
                             .gamma = 2,
                             .pos_weight = 1.4f,
                             .scale = 1.0f / (float)(b * t),
                             .host_loss_sum = &sum,
                             .host_count = &count};
    assert_int_equal(op_loss(f->s, &loss, &err), 0);
    if (backward && seizure_backward(f->net, f->s, &dlogits, &pass, &err))
        fail_msg("%s", err.message);
    return sum / (double)(b * t);
}

static void parameter_counts_are_the_published_ones(void **state) {
    (void)state;
    struct seizure_config c;
    assert_int_equal(seizure_preset("base", 19, &c, NULL), 0);
    assert_int_equal(seizure_parameter_count(&c), 32606439);
    c.mixer = SEIZURE_MIXER_CONV;
    assert_int_equal(seizure_parameter_count(&c), 13397799);
}

static int ascending(const void *a, const void *b) {
    return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

static double squares(const struct param_set *set, const struct param *p) {
    double sum = 0;
    for (int64_t k = 0; p->kind != PARAM_BUFFER && k < p->count; k++)
        sum += (double)set->grad[p->offset + k] * (double)set->grad[p->offset + k];
    return sum;
}

/* Directional derivative of each tensor along its own gradient against a central difference. */
static void check_gradients(enum seizure_mixer mixer, enum loss_kind kind) {
    struct fixture f;
    struct seizure_config config = mini(mixer);
    setup(&f, &config, 2, true);
    struct param_set *set = seizure_params(f.net);
    const struct param *head = param_find(set, "head.out.weight"); /* starts small: enlarge it, or differences drown in rounding */
    for (int64_t k = 0; k < head->count; k++)
        set->data[head->offset + k] *= 100;
    seizure_touch(f.net);
    loss_of(&f, kind, true);
    double errors[512], largest = 0;
    int n_errors = 0;
    for (int i = 0; i < set->count; i++)
        largest = fmax(largest, squares(set, &set->items[i]));
    for (int i = 0; i < set->count; i++) {
        const struct param *p = &set->items[i];
        if (p->kind == PARAM_BUFFER)
            continue;
        float *value = set->data + p->offset, *grad = set->grad + p->offset, saved[4096];
        double norm2 = squares(set, p);
        if (norm2 < 1e-8 * largest || p->count > 4096) /* biases before a batch norm have no effect */
            continue;
        memcpy(saved, value, (size_t)p->count * sizeof(float));
        double h = 3e-4 / sqrt(norm2), up, down;
        for (int64_t k = 0; k < p->count; k++)
            value[k] = (float)((double)saved[k] + h * (double)grad[k]);
        seizure_touch(f.net);
        up = loss_of(&f, kind, false);
        for (int64_t k = 0; k < p->count; k++)
            value[k] = (float)((double)saved[k] - h * (double)grad[k]);
        seizure_touch(f.net);
        down = loss_of(&f, kind, false);
        memcpy(value, saved, (size_t)p->count * sizeof(float));
        seizure_touch(f.net);
        double numeric = (up - down) / (2 * h), error = fabs(numeric - norm2) / norm2;
        errors[n_errors++] = error;
    }
    qsort(errors, (size_t)n_errors, sizeof *errors, ascending);
    double median = errors[n_errors / 2];
    print_message("%d tensors: median error %.2g, worst %.2g (seed %llu)\n", n_errors, median, errors[n_errors - 1],
                  (unsigned long long)seed);
    /* a step may cross the kink of a ReLU and spoil a tensor or two; a wrong formula spoils whole families */
    assert_true(median < 0.015);
    assert_true(errors[n_errors * 9 / 10] < 0.2);
    teardown(&f);
}

static void gradients_match_finite_differences_mamba2_focal(void **state) {
    (void)state;
    check_gradients(SEIZURE_MIXER_MAMBA2, LOSS_FOCAL);
}

static void gradients_match_finite_differences_conv_bce(void **state) {
    (void)state;
    check_gradients(SEIZURE_MIXER_CONV, LOSS_BCE);
}

static void a_row_does_not_depend_on_its_batch(void **state) {
    (void)state;
    struct fixture f;
    struct err err;
    struct seizure_config config = mini(SEIZURE_MIXER_MAMBA2);
    setup(&f, &config, 4, false);
    int64_t t = config.window, c = config.in_channels;
    struct tensor x = tensor_3d(f.x, DTYPE_F32, 4, t, c), logits = tensor_2d(f.logits, DTYPE_F32, 4, t);
    assert_int_equal(seizure_infer(f.net, f.s, &x, &logits, &err), 0);
    for (int64_t i = 0; i < 4; i++) {
        struct tensor one = tensor_3d(f.x + i * t * c, DTYPE_F32, 1, t, c), out = tensor_2d(f.dlogits, DTYPE_F32, 1, t);
        assert_int_equal(seizure_infer(f.net, f.s, &one, &out, &err), 0);
        assert_memory_equal(f.dlogits, f.logits + i * t, (size_t)t * sizeof(float));
    }
    teardown(&f);
}

static void memory_is_known_before_it_is_taken_and_steps_allocate_nothing(void **state) {
    (void)state;
    struct fixture f;
    struct err err;
    struct seizure_config config = mini(SEIZURE_MIXER_MAMBA2);
    struct seizure_options o = {.max_batch = 2, .training = true, .precision = DTYPE_F32};
    struct seizure_memory m;
    assert_int_equal(seizure_memory(&config, &o, &m, &err), 0);
    setup(&f, &config, 2, true);
    int64_t live, before, after;
    device_alloc_stats(f.dev, &live, &before);
    assert_int_equal(live, m.total);
    loss_of(&f, LOSS_BCE, true);
    loss_of(&f, LOSS_BCE, true);
    device_alloc_stats(f.dev, &live, &before);
    for (int i = 0; i < 3; i++) {
        seizure_touch(f.net);
        loss_of(&f, LOSS_BCE, true);
    }
    device_alloc_stats(f.dev, &live, &after);
    assert_int_equal(before, after);
    teardown(&f);
}

static void initial_bce_is_near_the_entropy_of_the_prior(void **state) {
    (void)state;
    struct fixture f;
    struct seizure_config config;
    assert_int_equal(seizure_preset("tiny", 19, &config, NULL), 0);
    config.window = 2048;
    setup(&f, &config, 2, true);
    struct err err;
    struct tensor x = tensor_3d(f.x, DTYPE_F32, 2, config.window, 19), logits = tensor_2d(f.logits, DTYPE_F32, 2, config.window);
    struct seizure_pass pass = {.seed = seed};
    assert_int_equal(seizure_forward_train(f.net, f.s, &x, &pass, &logits, &err), 0);
    double sum = 0;
    int64_t count = 0;
    int32_t valid[2] = {2048, 2048};
    struct loss_args loss = {.kind = LOSS_BCE,
                             .logits = logits,
                             .labels = tensor_2d(f.labels, DTYPE_U8, 2, config.window),
                             .valid = valid,
                             .alpha = 0.5f,
                             .pos_weight = 1,
                             .scale = 1,
                             .host_loss_sum = &sum,
                             .host_count = &count};
    assert_int_equal(op_loss(f.s, &loss, &err), 0);
    double entropy = -(0.2 * log(0.2) + 0.8 * log(0.8)), bce = sum / (double)count;
    print_message("bce %.4f, entropy of the prior %.4f\n", bce, entropy);
    assert_true(fabs(bce - entropy) < 0.1 * entropy);
    teardown(&f);
}

int main(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    seed = getenv("BRR_TEST_SEED") ? strtoull(getenv("BRR_TEST_SEED"), NULL, 10) : (uint64_t)now.tv_nsec;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameter_counts_are_the_published_ones),
        cmocka_unit_test(gradients_match_finite_differences_mamba2_focal),
        cmocka_unit_test(gradients_match_finite_differences_conv_bce),
        cmocka_unit_test(a_row_does_not_depend_on_its_batch),
        cmocka_unit_test(memory_is_known_before_it_is_taken_and_steps_allocate_nothing),
        cmocka_unit_test(initial_bce_is_near_the_entropy_of_the_prior),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
