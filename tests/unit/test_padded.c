/* The detector's network with padded branches (nn/padded.h), as a GPU has them, against the one without, on the CPU: the same
 * logits, gradients and training up to rounding, zeros that stay zeros, and memory that is known before it is taken. */

#include "base/rng.h"
#include "detect/seizure_net.h"
#include "nn/optim.h"
#include "nn/padded.h"
#include "seed.h"
#include "unit/cmocka_all.h"

enum { ROWS = 2, STEPS = 4 };

static struct err err;
static struct device *device;
static struct stream *stream;

static void ok(int rc) {
    if (rc)
        fail_msg("%s", err.message);
}

/* Branches of 6, 6 and 8 channels. */
static struct seizure_config config_of(void) {
    struct seizure_config c;
    ok(seizure_preset(SEIZURE_TYPE_UNET, "tiny", 3, &c, &err));
    c.window = 256;
    memcpy(c.encoder_channels, (int[]){8, 9, 16, 20}, sizeof c.encoder_channels);
    c.rescnn_blocks = 2;
    c.mamba_layers = 1;
    c.headdim = 10;
    c.d_state = 5;
    return c;
}

struct net {
    struct seizure_net *net;
    struct optim optim;
    struct tensor x, logits, dlogits;
};

static void *drawn(int64_t n, uint32_t which) {
    struct rng rng;
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    rng_init(&rng, test_seed(), RNG_SYNTH, which);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)rng_normal(&rng);
    return x;
}

static void begin(struct net *n, bool padded) {
    const struct seizure_config config = config_of();
    const struct seizure_options options = {
        .max_batch = ROWS, .training = true, .precision = DTYPE_F32, .threads = padded ? -1 : 0 /* as on a GPU */};
    const struct optim_config optim = {
        .learning_rate = 1e-3, .weight_decay = 0.05, .gradient_clip = 1, .ema = 0.9, .total_steps = 100, .constant = true};
    struct seizure_memory memory;
    int64_t before, after, allocations, w = config.window;
    device_alloc_stats(device, &before, &allocations);
    ok(seizure_memory(&config, &options, &memory, &err));
    ok((padded ? seizure_net_new_as_on_gpu : seizure_new)(device, &config, &options, &n->net, &err));
    device_alloc_stats(device, &after, &allocations);
    assert_int_equal(after - before, memory.total - memory.scratch);
    ok(seizure_init(n->net, stream, test_seed(), 0.2, &err));
    ok(optim_init(&n->optim, seizure_params(n->net), &optim, stream, &err));
    ok(optim_start_ema(&n->optim, stream, &err));
    n->x = tensor_3d(drawn(ROWS * w * config.in_channels, 1), DTYPE_F32, ROWS, w, config.in_channels);
    n->logits = tensor_2d(drawn(ROWS * w, 2), DTYPE_F32, ROWS, w);
    n->dlogits = tensor_2d(drawn(ROWS * w, 3), DTYPE_F32, ROWS, w);
}

static void end(struct net *n) {
    free(n->x.data);
    free(n->logits.data);
    free(n->dlogits.data);
    optim_done(&n->optim);
    seizure_free(n->net);
}

static void passes(struct net *n, uint32_t step) {
    const struct seizure_pass pass = {.seed = 7, .step = step};
    ok(optim_zero_grad(&n->optim, stream, &err));
    ok(seizure_forward_train(n->net, stream, &n->x, &pass, &n->logits, &err));
    ok(seizure_backward(n->net, stream, &n->dlogits, &pass, &err));
}

/* |a − b| / |a| */
static double distance(const float *a, const float *b, int64_t n) {
    double difference = 0, norm = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)b[i] - (double)a[i];
        difference += d * d;
        norm += (double)a[i] * (double)a[i];
    }
    return sqrt(difference / norm);
}

static double logits_distance(const struct net *a, const struct net *b) {
    return distance(a->logits.data, b->logits.data, tensor_count(&a->logits));
}

/* No element between two tensors of a flat array. */
static void only_zeros_between(const struct param_set *set, const float *data, bool buffers) {
    int64_t at = 0;
    for (int i = 0; i < set->count; i++) {
        const struct param *p = &set->items[i];
        if ((p->kind == PARAM_BUFFER) != buffers)
            continue;
        for (; at < p->offset; at++)
            assert_true(data[at] == 0);
        at += p->count;
    }
}

static void branches_are_whole_pieces(void **state) {
    (void)state;
    struct net n;
    begin(&n, true);
    const struct rescnn *r = n.net->rescnn;
    for (int i = 0; i < RESCNN_BRANCHES; i++)
        assert_int_equal(r->branch[i].co, 8);
    assert_int_equal(r->fuse.ci, 24);
    assert_int_equal(r->fuse.w->dim[1], 20); /* the table's, and so the checkpoint's */
    static const int64_t places[20] = {0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20, 21, 22, 23};
    for (int64_t c = 0; c < 20; c++)
        assert_int_equal(padded_place(&r->fuse, c), places[c]);
    end(&n);
    begin(&n, false);
    assert_int_equal(n.net->rescnn->fuse.ci, 20);
    assert_int_equal(n.net->padded_count, 0);
    end(&n);
}

static void a_pass_and_its_gradients_are_those_without_padding(void **state) {
    (void)state;
    struct net plain, padded;
    begin(&plain, false);
    begin(&padded, true);
    passes(&plain, 1);
    passes(&padded, 1);
    assert_true(logits_distance(&plain, &padded) < 1e-5);
    const struct param_set *a = seizure_params(plain.net), *b = seizure_params(padded.net);
    assert_int_equal(a->data_count, b->data_count);
    assert_true(distance(a->grad, b->grad, a->data_count) < 1e-3);
    for (int i = 0; i < a->count; i++) {
        const struct param *p = &a->items[i];
        bool of_rescnn = strstr(p->name, "rescnn.") && p->kind == PARAM_WEIGHT;
        assert_true(!of_rescnn || distance(a->grad + p->offset, b->grad + p->offset, p->count) < 1e-2);
    }
    end(&plain);
    end(&padded);
}

static void trainings_stay_together_and_zeros_stay_zeros(void **state) {
    (void)state;
    struct net both[2];
    begin(&both[0], false);
    begin(&both[1], true);
    for (uint32_t step = 0; step < STEPS; step++)
        for (int i = 0; i < 2; i++) {
            struct optim_report report;
            passes(&both[i], step);
            ok(optim_step(&both[i].optim, stream, step, &report, &err));
            assert_false(report.skipped);
        }
    struct param_set *set = seizure_params(both[1].net);
    assert_true(logits_distance(&both[0], &both[1]) < 1e-3);
    only_zeros_between(set, set->data, false);
    only_zeros_between(set, set->grad, false);
    only_zeros_between(set, both[1].optim.ema, false);
    only_zeros_between(set, set->buffers, true);
    for (int i = 0; i < 2; i++)
        ok(seizure_infer(both[i].net, stream, &both[i].x, &both[i].logits, &err));
    assert_true(logits_distance(&both[0], &both[1]) < 1e-3);
    end(&both[0]);
    end(&both[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_are_whole_pieces),
        cmocka_unit_test(a_pass_and_its_gradients_are_those_without_padding),
        cmocka_unit_test(trainings_stay_together_and_zeros_stay_zeros),
    };
    if (device_open("cpu", 0, &device, &err) || stream_open(device, STREAM_NORMAL, &stream, &err))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    stream_close(stream);
    device_close(device);
    return failed;
}
