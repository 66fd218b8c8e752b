/* The detector's network: parameter counts, gradients against finite differences, batch invariance, memory known before it is
 * taken, no allocation in a step, initial weights and loss, configurations. */

#include "base/order.h"
#include "base/rng.h"
#include "detect/seizure_net.h"
#include "kernels/op.h"
#include "seed.h"
#include "unit/cmocka_all.h"

static uint64_t seed;
static struct err err;

static struct seizure_config mini(enum seizure_mixer mixer) {
    struct seizure_config c;
    assert_int_equal(seizure_preset(SEIZURE_TYPE_UNET, "tiny", 3, &c, NULL), 0);
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
    enum loss_kind kind;
};

static void setup(struct fixture *f, const struct seizure_config *config, int batch, bool training) {
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
    FREE_MEMBERS(*f, x, logits, dlogits, labels);
    seizure_free(f->net);
    stream_close(f->s);
    device_close(f->dev);
}

static double loss_of(struct fixture *f, enum loss_kind kind, bool backward) {
    int64_t b = f->batch, t = f->config.window;
    struct tensor x = tensor_3d(f->x, DTYPE_F32, b, t, f->config.in_channels), logits = tensor_2d(f->logits, DTYPE_F32, b, t);
    struct tensor dlogits = tensor_2d(f->dlogits, DTYPE_F32, b, t);
    struct seizure_pass pass = {.seed = seed, .step = 3, .row0 = 0};
    if (seizure_forward_train(f->net, f->s, &x, &pass, &logits, &err))
        fail_msg("%s", err.message);
    double sums[2] = {0, 0};
    struct loss_args loss = {.kind = kind,
                             .logits = logits,
                             .labels = tensor_2d(f->labels, DTYPE_U8, b, t),
                             .dlogits = dlogits,
                             .valid = f->valid,
                             .alpha = 0.4f,
                             .gamma = 2,
                             .pos_weight = 1.4f,
                             .scale = 1.0f / (float)(b * t),
                             .sums = sums};
    assert_int_equal(op_loss(f->s, &loss, &err), 0);
    if (backward && seizure_backward(f->net, f->s, &dlogits, &pass, &err))
        fail_msg("%s", err.message);
    return sums[0] / (double)(b * t);
}

static void parameter_counts_are_the_published_ones(void **state) {
    (void)state;
    struct seizure_config c;
    assert_int_equal(seizure_preset(SEIZURE_TYPE_UNET, "base", 19, &c, NULL), 0);
    assert_int_equal(seizure_parameter_count(&c), 32606439);
    c.mixer = SEIZURE_MIXER_CONV;
    assert_int_equal(seizure_parameter_count(&c), 13397799);
}

static double squares(const struct param_set *set, const struct param *p) {
    double sum = 0;
    for (int64_t k = 0; p->kind != PARAM_BUFFER && k < p->count; k++)
        sum += (double)set->grad[p->offset + k] * (double)set->grad[p->offset + k];
    return sum;
}

/* Loss with a tensor moved by h along its gradient's direction. */
static double loss_along(struct fixture *f, const struct param *p, const float *saved, double h, double norm) {
    struct param_set *set = seizure_params(f->net);
    for (int64_t k = 0; k < p->count; k++)
        set->data[p->offset + k] = (float)((double)saved[k] + h * (double)set->grad[p->offset + k] / norm);
    seizure_touch(f->net);
    return loss_of(f, f->kind, false);
}

static uint64_t add_pattern(uint64_t hash, const struct tensor *y) { /* FNV-1a */
    for (int64_t r = 0; r < tensor_rows(y); r++)
        for (int64_t c = 0; c < y->dim[2]; c++)
            hash = (hash ^ (((const float *)y->data)[r * y->ld + c] > 0)) * 0x100000001b3;
    return hash;
}

/* Which units of all ReLUs let the last training pass through, as a hash: between two equal ones there is no kink. */
static uint64_t relu_pattern(const struct seizure_net *net) {
    uint64_t hash = add_pattern(0xcbf29ce484222325, &net->stem.y);
    for (int i = 0; i < STAGES; i++)
        for (int k = 0; k < 2; k++)
            hash = add_pattern(add_pattern(hash, &net->encoder[i].conv[k].y), &net->decoder[i].conv[k].y);
    for (int i = 0; i < net->config.rescnn_blocks; i++) {
        for (int k = 0; k < RESCNN_BRANCHES; k++)
            hash = add_pattern(hash, &net->rescnn[i].branch[k].y);
        hash = add_pattern(hash, &net->rescnn[i].y);
    }
    return hash;
}

/* The shift of at most 0.8 that keeps the nearest of v[i] + shift furthest from zero. */
static double widest_shift(const double *v, int64_t n) {
    double best = 0, widest = -1;
    for (int k = -400; k <= 400; k++) {
        double shift = k * 0.002, nearest = INFINITY;
        for (int64_t i = 0; i < n; i++)
            nearest = fmin(nearest, fabs(v[i] + shift));
        if (nearest > widest) {
            widest = nearest;
            best = shift;
        }
    }
    return best;
}

/* Moves the bias of a ConvBlock's norm so that no value lies near its ReLU's zero. */
static void part_block(struct fixture *f, const struct conv_block *b) {
    struct param_set *set = seizure_params(f->net);
    int64_t rows = tensor_rows(&b->u);
    double *v = malloc((size_t)rows * sizeof *v);
    const float *mean = b->mean.data, *rstd = b->rstd.data, *u = b->u.data;
    loss_of(f, f->kind, false);
    for (int64_t c = 0; c < b->u.dim[2]; c++) {
        for (int64_t r = 0; r < rows; r++)
            v[r] = ((double)u[r * b->u.ld + c] - (double)mean[c]) * (double)rstd[c] * (double)set->data[b->bn_w->offset + c];
        set->data[b->bn_b->offset + c] = (float)widest_shift(v, rows);
    }
    free(v);
    seizure_touch(f->net);
}

/* The same for relu(dropout(fuse) + x) of a ResCNN block: x_bias moves x, which is all there is where a channel was dropped;
 * without it the bias of the fusing norm is moved, for the rest. */
static void part_residual(struct fixture *f, const struct rescnn *l, const struct param *x_bias) {
    float *data = seizure_params(f->net)->data;
    int64_t rows = tensor_rows(&l->y), n;
    double *v = malloc((size_t)rows * sizeof *v), kept = 1 - (double)f->config.dropout;
    loss_of(f, f->kind, false);
    for (int64_t c = 0; c < l->y.dim[2]; c++) {
        float *bias = &data[(x_bias ? x_bias : l->fuse.bn_b)->offset + c];
        n = 0;
        for (int64_t r = 0; r < rows; r++) {
            double x = ((const float *)l->x.data)[r * l->x.ld + c], fused = ((const float *)l->fuse.y.data)[r * l->fuse.y.ld + c];
            if (x_bias)
                v[n++] = x - (double)*bias;
            else if (fused != 0)
                v[n++] = (x + fused) * kept - (double)*bias;
        }
        *bias = (float)widest_shift(v, n);
    }
    free(v);
    seizure_touch(f->net);
}

/* Finite differences have room for steps that turn no unit on or off when each ReLU's zero lies in a gap between the values that
 * reach it. */
static void part_the_kinks(struct fixture *f) {
    struct seizure_net *net = f->net;
    assert_int_equal(net->config.rescnn_blocks, 1);
    loss_of(f, f->kind, false);
    part_block(f, &net->stem);
    for (int i = 0; i < 2 * STAGES; i++)
        part_block(f, &net->encoder[i / 2].conv[i % 2]);
    part_residual(f, net->rescnn, net->encoder[STAGES - 1].down.b);
    for (int k = 0; k < RESCNN_BRANCHES; k++)
        part_block(f, &net->rescnn->branch[k]);
    part_residual(f, net->rescnn, NULL);
    for (int i = 0; i < 2 * STAGES; i++)
        part_block(f, &net->decoder[i / 2].conv[i % 2]);
}

/* How much rounding moves the loss: twice the most that it does in twelve steps that are too small for curvature. */
static double loss_noise(struct fixture *f, const struct param *p, double norm) {
    struct param_set *set = seizure_params(f->net);
    size_t bytes = (size_t)p->count * sizeof(float);
    float *saved = malloc(bytes);
    memcpy(saved, set->data + p->offset, bytes);
    double loss = loss_of(f, f->kind, false), noise = 0x1p-24 * loss;
    for (int k = 1; k <= 12; k++)
        noise = fmax(noise, 2 * fabs(loss_along(f, p, saved, k * 2e-7, norm) - loss - k * 2e-7 * norm));
    memcpy(set->data + p->offset, saved, bytes);
    free(saved);
    seizure_touch(f->net);
    return noise;
}

struct slope {
    double value, bound; /* relative to the gradient's norm; the bound is infinite if every step crossed a kink */
};

/* The loss's slope along a tensor's gradient: the central differences of h and h/2, extrapolated, from the step whose bound is
 * smallest. The bound: what the two differ by (curvature), and three times the loss's rounding over h. Steps that turn any unit of
 * a ReLU on or off do not count. */
static struct slope slope_along(struct fixture *f, const struct param *p, double norm, double noise) {
    struct param_set *set = seizure_params(f->net);
    struct slope best = {0, INFINITY};
    size_t bytes = (size_t)p->count * sizeof(float);
    float *saved = malloc(bytes);
    memcpy(saved, set->data + p->offset, bytes);
    loss_of(f, f->kind, false);
    uint64_t pattern = relu_pattern(f->net);
    for (double h = 3e-2; h > 2e-5 && 3 * noise / (h * norm) < best.bound; h /= 3) {
        double difference[2] = {0, 0};
        bool crossed = false;
        for (int half = 0; half < 2 && !crossed; half++) {
            double step = h / (1 + half), up = loss_along(f, p, saved, step, norm);
            crossed = relu_pattern(f->net) != pattern;
            difference[half] = (up - loss_along(f, p, saved, -step, norm)) / (2 * step * norm);
            crossed |= relu_pattern(f->net) != pattern;
        }
        double bound = crossed ? INFINITY : fabs(difference[0] - difference[1]) + 3 * noise / (h * norm);
        if (bound < best.bound)
            best = (struct slope){(4 * difference[1] - difference[0]) / 3, bound};
    }
    memcpy(set->data + p->offset, saved, bytes);
    free(saved);
    seizure_touch(f->net);
    return best;
}

/* Directional derivative of each tensor along its own gradient. */
static void check_gradients(enum seizure_mixer mixer, enum loss_kind kind) {
    struct fixture f;
    struct seizure_config config = mini(mixer);
    setup(&f, &config, 2, true);
    f.kind = kind;
    struct param_set *set = seizure_params(f.net);
    const struct param *head = param_find(set, "head.out.weight"); /* starts small: enlarge it, or differences drown in rounding */
    for (int64_t k = 0; k < head->count; k++)
        set->data[head->offset + k] *= 100;
    seizure_touch(f.net);
    part_the_kinks(&f);
    double errors[512], largest = 0;
    loss_of(&f, kind, true);
    int n = 0;
    for (int i = 0; i < set->count; i++)
        largest = fmax(largest, squares(set, &set->items[i]));
    const struct param *stem = param_find(set, "encoder.stem.conv.weight");
    double noise = loss_noise(&f, stem, sqrt(squares(set, stem)));
    for (int i = 0; i < set->count; i++) {
        const struct param *p = &set->items[i];
        double norm = sqrt(squares(set, p));
        if (p->kind == PARAM_BUFFER || norm * norm < 1e-8 * largest) /* biases before a batch norm have no effect */
            continue;
        struct slope slope = slope_along(&f, p, norm, noise);
        double error = fabs(slope.value - 1);
        if (isinf(slope.bound) || error > slope.bound)
            fail_msg("seed %llu: %s: a finite difference gives %.5f times the gradient's norm, %.2g; expected 1 within %.2g",
                     (unsigned long long)seed, p->name, slope.value, norm, slope.bound);
        errors[n++] = error;
    }
    qsort(errors, (size_t)n, sizeof *errors, order_f64s);
    print_message("%d tensors: median error %.2g, 90 %% %.2g, worst %.2g (seed %llu)\n", n, errors[n / 2], errors[n * 9 / 10],
                  errors[n - 1], (unsigned long long)seed);
    assert_true(n > 60);
    assert_true(errors[n / 2] < 0.015);
    assert_true(errors[n * 9 / 10] < 0.06);
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

static void check_rows(enum seizure_mixer mixer, bool training) {
    struct fixture f;
    struct seizure_config config = mini(mixer);
    setup(&f, &config, 4, training);
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

static void a_row_does_not_depend_on_its_batch(void **state) {
    (void)state;
    check_rows(SEIZURE_MIXER_MAMBA2, false);
    check_rows(SEIZURE_MIXER_MAMBA2, true);
    check_rows(SEIZURE_MIXER_CONV, false);
}

static void check_memory(bool training) {
    struct fixture f;
    struct seizure_config config = mini(SEIZURE_MIXER_MAMBA2);
    struct seizure_options o = {.max_batch = 2, .training = training, .precision = DTYPE_F32};
    struct seizure_memory m;
    int64_t live, before, after;
    assert_int_equal(seizure_memory(&config, &o, &m, &err), 0);
    assert_int_equal(m.total, m.parameters + m.gradients + m.folded + m.activations);
    setup(&f, &config, 2, training);
    device_alloc_stats(f.dev, &live, &before);
    assert_int_equal(live, m.total);
    for (int i = 0; i < 5; i++) {
        struct tensor x = tensor_3d(f.x, DTYPE_F32, 2, config.window, config.in_channels),
                      logits = tensor_2d(f.logits, DTYPE_F32, 2, config.window);
        if (i == 2)
            device_alloc_stats(f.dev, &live, &before);
        if (training)
            loss_of(&f, LOSS_BCE, true);
        assert_int_equal(seizure_infer(f.net, f.s, &x, &logits, &err), 0);
        seizure_touch(f.net);
    }
    device_alloc_stats(f.dev, &live, &after);
    assert_int_equal(before, after);
    teardown(&f);
}

static void memory_is_known_before_it_is_taken_and_steps_allocate_nothing(void **state) {
    (void)state;
    check_memory(true);
    check_memory(false);
}

/* Gradients of the whole batch's passes, as one float array. */
static float *gradients_of(struct fixture *f) {
    struct param_set *set = seizure_params(f->net);
    size_t bytes = (size_t)set->data_count * sizeof(float);
    memset(set->grad, 0, bytes);
    loss_of(f, LOSS_FOCAL, true);
    float *copy = malloc(bytes);
    memcpy(copy, set->grad, bytes);
    return copy;
}

static void the_same_step_gives_the_same_bits_and_gradients_add_up(void **state) {
    (void)state;
    struct fixture f;
    struct seizure_config config = mini(SEIZURE_MIXER_MAMBA2);
    setup(&f, &config, 2, true);
    struct param_set *set = seizure_params(f.net);
    float *first = gradients_of(&f), *second = gradients_of(&f);
    assert_memory_equal(first, second, (size_t)set->data_count * sizeof(float));
    loss_of(&f, LOSS_FOCAL, true); /* on top of the second */
    for (int64_t k = 0; k < set->data_count; k++)
        assert_float_equal(set->grad[k], 2 * first[k], 1e-5 * fabs((double)first[k]) + 1e-8);
    free(first);
    free(second);
    teardown(&f);
}

static void dropout_follows_seed_step_and_row(void **state) {
    (void)state;
    struct fixture f;
    struct seizure_config config = mini(SEIZURE_MIXER_MAMBA2);
    config.dropout = 0.5f;
    setup(&f, &config, 1, true);
    struct tensor x = tensor_3d(f.x, DTYPE_F32, 1, config.window, config.in_channels),
                  logits = tensor_2d(f.logits, DTYPE_F32, 1, config.window),
                  again = tensor_2d(f.dlogits, DTYPE_F32, 1, config.window);
    struct seizure_pass passes[] = {{.seed = seed, .step = 1, .row0 = 4},
                                    {.seed = seed + 1, .step = 1, .row0 = 4},
                                    {.seed = seed, .step = 2, .row0 = 4},
                                    {.seed = seed, .step = 1, .row0 = 5}};
    size_t bytes = (size_t)config.window * sizeof(float);
    assert_int_equal(seizure_forward_train(f.net, f.s, &x, &passes[0], &logits, &err), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(seizure_forward_train(f.net, f.s, &x, &passes[i], &again, &err), 0);
        if (i)
            assert_memory_not_equal(f.logits, f.dlogits, bytes);
        else
            assert_memory_equal(f.logits, f.dlogits, bytes);
    }
    teardown(&f);
}

static void wrong_calls_are_refused_with_the_reason(void **state) {
    (void)state;
    struct fixture f;
    struct seizure_config config = mini(SEIZURE_MIXER_MAMBA2);
    struct seizure_pass pass = {.seed = seed};
    setup(&f, &config, 2, true);
    struct tensor x = tensor_3d(f.x, DTYPE_F32, 2, config.window, 3), logits = tensor_2d(f.logits, DTYPE_F32, 2, config.window);
    assert_int_equal(seizure_backward(f.net, f.s, &logits, &pass, &err), ERR_PRECONDITION);
    assert_int_equal(seizure_forward_train(f.net, f.s, &x, &pass, &logits, &err), 0);
    assert_int_equal(seizure_infer(f.net, f.s, &x, &logits, &err), 0); /* takes the activations' memory */
    assert_int_equal(seizure_backward(f.net, f.s, &logits, &pass, &err), ERR_PRECONDITION);
    struct tensor wide = tensor_3d(f.x, DTYPE_F32, 1, config.window, 6), one = tensor_2d(f.logits, DTYPE_F32, 1, config.window);
    assert_int_equal(seizure_infer(f.net, f.s, &wide, &one, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "(1,256,6)"));
    struct tensor many = tensor_3d(f.x, DTYPE_F32, 3, config.window, 3);
    assert_int_equal(seizure_infer(f.net, f.s, &many, &logits, &err), ERR_INVALID);
    teardown(&f);
    setup(&f, &config, 2, false);
    x = tensor_3d(f.x, DTYPE_F32, 2, config.window, 3);
    logits = tensor_2d(f.logits, DTYPE_F32, 2, config.window);
    assert_int_equal(seizure_forward_train(f.net, f.s, &x, &pass, &logits, &err), ERR_PRECONDITION);
    teardown(&f);
}

static void configurations_survive_json_and_bad_ones_are_named(void **state) {
    (void)state;
    static const char *const names[] = {"tiny", "small", "base"};
    for (int i = 0; i < 3; i++) {
        struct seizure_config c, back;
        struct json_writer w;
        struct str text;
        struct json *j = NULL;
        assert_int_equal(seizure_preset(SEIZURE_TYPE_UNET, names[i], 18, &c, &err), 0);
        assert_string_equal(seizure_preset_name(&c), names[i]);
        c.d_conv = 5;
        c.mixer = i == 1 ? SEIZURE_MIXER_CONV : SEIZURE_MIXER_MAMBA2;
        str_init(&text, 4096);
        json_writer_init(&w, &text);
        json_begin_object(&w, NULL);
        seizure_config_to_json(&c, &w, "model");
        json_end(&w, '}');
        assert_int_equal(json_parse(str_cstr(&text), text.len, "config", &j, &err), 0);
        assert_int_equal(seizure_config_from_json(json_get(j, "model"), &back, &err), 0);
        assert_memory_equal(c.encoder_channels, back.encoder_channels, sizeof c.encoder_channels);
        assert_true(c.window == back.window && c.in_channels == back.in_channels && c.d_conv == back.d_conv &&
                    c.mixer == back.mixer && c.mamba_layers == back.mamba_layers && c.rescnn_blocks == back.rescnn_blocks &&
                    c.headdim == back.headdim && c.dropout == back.dropout && c.d_state == back.d_state);
        json_free(j);
        str_done(&text);
    }
    struct seizure_config c;
    assert_int_equal(seizure_preset(SEIZURE_TYPE_UNET, "huge", 19, &c, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "huge"));
    static const struct {
        size_t field;
        int value;
        const char *says;
    } bad[] = {
        {offsetof(struct seizure_config, d_conv), 9, "d_conv"},
        {offsetof(struct seizure_config, headdim), 100, "headdim"},
        {offsetof(struct seizure_config, ngroups), 3, "ngroups"},
        {offsetof(struct seizure_config, in_channels), 0, "input channels"},
        {offsetof(struct seizure_config, encoder_channels), 1, "encoder_channels"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(seizure_preset(SEIZURE_TYPE_UNET, "tiny", 19, &c, &err), 0);
        assert_int_equal(seizure_config_check(&c, &err), 0);
        memcpy((char *)&c + bad[i].field, &bad[i].value, sizeof bad[i].value);
        assert_int_equal(seizure_config_check(&c, &err), ERR_INVALID);
        if (!strstr(err.message, bad[i].says))
            fail_msg("'%s' does not say '%s'", err.message, bad[i].says);
    }
    assert_int_equal(seizure_preset(SEIZURE_TYPE_UNET, "tiny", 19, &c, &err), 0);
    c.window = 15361;
    assert_int_equal(seizure_config_check(&c, &err), ERR_INVALID);
}

/* The initial weights of one tensor: mean, standard deviation, extremes. */
struct spread {
    double mean, std, low, high;
};
static struct spread spread_of(const struct param_set *set, const char *name) {
    const struct param *p = param_find(set, name);
    assert_non_null(p);
    const float *x = param_value(set, p).data;
    struct spread s = {.low = INFINITY, .high = -INFINITY};
    for (int64_t k = 0; k < p->count; k++) {
        s.mean += (double)x[k] / (double)p->count;
        s.low = fmin(s.low, (double)x[k]);
        s.high = fmax(s.high, (double)x[k]);
    }
    for (int64_t k = 0; k < p->count; k++)
        s.std += ((double)x[k] - s.mean) * ((double)x[k] - s.mean) / (double)p->count;
    s.std = sqrt(s.std);
    return s;
}

static void initial_weights_follow_their_rules(void **state) {
    (void)state;
    struct fixture f;
    struct seizure_config config;
    assert_int_equal(seizure_preset(SEIZURE_TYPE_UNET, "tiny", 19, &config, NULL), 0);
    config.window = 256;
    setup(&f, &config, 1, false);
    const struct param_set *set = seizure_params(f.net);
    assert_float_equal(spread_of(set, "encoder.3.conv2.weight").std, sqrt(2.0 / (128 * 5)), 0.05 * sqrt(2.0 / (128 * 5)));
    assert_float_equal(spread_of(set, "decoder.0.up.weight").std, sqrt(2.0 / (128 * 2)), 0.05 * sqrt(2.0 / (128 * 2)));
    assert_float_equal(spread_of(set, "mamba.0.fuse.weight").std, sqrt(2.0 / (128 + 256)), 0.05 * sqrt(2.0 / 384));
    struct spread taps = spread_of(set, "mamba.1.bwd.conv.weight"), a = spread_of(set, "mamba.0.fwd.A_log"),
                  dt = spread_of(set, "mamba.0.fwd.dt_bias"), in = spread_of(set, "mamba.0.fwd.in_proj.weight");
    assert_true(taps.low >= -0.5 && taps.low < -0.45 && taps.high <= 0.5 && taps.high > 0.45);
    assert_true(a.low >= 0 && a.high <= log(16) && a.std > 0);
    assert_true(log1p(exp(dt.low)) > 9e-4 && log1p(exp(dt.high)) < 0.11);
    assert_true(in.high <= 1 / sqrt(128) && in.low >= -1 / sqrt(128) && in.high > 0.95 / sqrt(128));
    assert_true(spread_of(set, "mamba.0.fwd.D").low == 1 && spread_of(set, "encoder.0.bn1.running_var").high == 1);
    assert_true(spread_of(set, "encoder.0.conv1.bias").std == 0 && spread_of(set, "mamba.0.norm.weight").low == 1);
    assert_float_equal(spread_of(set, "head.out.bias").mean, log(0.2 / 0.8), 1e-6);
    assert_true(spread_of(set, "head.out.weight").high < 0.05);
    teardown(&f);
}

static void initial_bce_is_near_the_entropy_of_the_prior(void **state) {
    (void)state;
    struct fixture f;
    struct seizure_config config;
    assert_int_equal(seizure_preset(SEIZURE_TYPE_UNET, "tiny", 19, &config, NULL), 0);
    config.window = 2048;
    setup(&f, &config, 2, true);
    struct tensor x = tensor_3d(f.x, DTYPE_F32, 2, config.window, 19), logits = tensor_2d(f.logits, DTYPE_F32, 2, config.window);
    struct seizure_pass pass = {.seed = seed};
    assert_int_equal(seizure_forward_train(f.net, f.s, &x, &pass, &logits, &err), 0);
    double sums[2] = {0, 0};
    int32_t valid[2] = {2048, 2048};
    struct loss_args loss = {.kind = LOSS_BCE,
                             .logits = logits,
                             .labels = tensor_2d(f.labels, DTYPE_U8, 2, config.window),
                             .valid = valid,
                             .alpha = 0.5f,
                             .pos_weight = 1,
                             .scale = 1,
                             .sums = sums};
    assert_int_equal(op_loss(f.s, &loss, &err), 0);
    double entropy = -(0.2 * log(0.2) + 0.8 * log(0.8)), bce = sums[0] / sums[1];
    print_message("bce %.4f, entropy of the prior %.4f\n", bce, entropy);
    assert_true(fabs(bce - entropy) < 0.1 * entropy);
    teardown(&f);
}

int main(void) {
    seed = test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameter_counts_are_the_published_ones),
        cmocka_unit_test(gradients_match_finite_differences_mamba2_focal),
        cmocka_unit_test(gradients_match_finite_differences_conv_bce),
        cmocka_unit_test(a_row_does_not_depend_on_its_batch),
        cmocka_unit_test(memory_is_known_before_it_is_taken_and_steps_allocate_nothing),
        cmocka_unit_test(the_same_step_gives_the_same_bits_and_gradients_add_up),
        cmocka_unit_test(dropout_follows_seed_step_and_row),
        cmocka_unit_test(wrong_calls_are_refused_with_the_reason),
        cmocka_unit_test(configurations_survive_json_and_bad_ones_are_named),
        cmocka_unit_test(initial_weights_follow_their_rules),
        cmocka_unit_test(initial_bce_is_near_the_entropy_of_the_prior),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
