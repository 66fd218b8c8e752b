/* Trainings whose gradients are reduced in a tree have the same bits on 1, 2 and 4 ranks: parameters, moments, running statistics
 * and the gradient's norm. The ranks are threads here. */

#include "base/rng.h"
#include "seed.h"
#include "train/step.h"
#include "unit/cmocka_all.h"

enum { ROWS = 2, CHANNELS = 19, WINDOW = 1024, LEAVES = 4, UPDATES = 2, MOST_RANKS = 4, LIMIT_MS = 60000 };

struct input {
    float x[ROWS * WINDOW * CHANNELS];
    uint8_t labels[ROWS * WINDOW];
};
static struct input inputs[UPDATES * LEAVES];

enum mode { CHAIN, TREE };

struct training {
    struct world world;
    enum mode mode;
    int leaves; /* of the batch */
    struct device *device;
    struct stream *stream;
    struct seizure_net *net;
    struct optim optim;
    struct reduction *reduction;
    struct step *step;
    struct step_result result;
    pthread_t thread;
};

static void ok(int rc, const struct err *err) {
    if (rc) { /* not fail_msg, which belongs to the thread of the tests */
        fprintf(stderr, "%s\n", err->message);
        abort();
    }
}

static void draw_inputs(void) {
    uint64_t seed = test_seed();
    for (int i = 0; i < UPDATES * LEAVES; i++) {
        struct rng rng;
        rng_init(&rng, seed, RNG_SYNTH, (uint32_t)i);
        for (int k = 0; k < ROWS * WINDOW * CHANNELS; k++)
            inputs[i].x[k] = (float)rng_normal(&rng);
        for (int k = 0; k < ROWS * WINDOW; k++)
            inputs[i].labels[k] = k / 512 % 3 == 0;
    }
}

static void training_open(struct training *t) {
    static const struct optim_config optim = {
        .learning_rate = 1e-3, .weight_decay = 0.05, .gradient_clip = 1, .total_steps = 100, .ema = 0.9};
    const struct seizure_options options = {.max_batch = ROWS, .training = true, .precision = DTYPE_F32};
    struct seizure_config model;
    struct err err = {0};
    ok(seizure_preset(SEIZURE_TYPE_UNET, "tiny", CHANNELS, &model, &err), &err);
    model.window = WINDOW;
    ok(device_open("cpu", 1, &t->device, &err), &err);
    ok(stream_open(t->device, STREAM_NORMAL, &t->stream, &err), &err);
    ok(seizure_new(t->device, &model, &options, &t->net, &err), &err);
    ok(seizure_init(t->net, t->stream, 7, 0.2, &err), &err);
    ok(optim_init(&t->optim, seizure_params(t->net), &optim, t->stream, &err), &err);
    const struct reduction_config reduction = {seizure_params(t->net), &t->world, t->leaves, LIMIT_MS, LIMIT_MS};
    if (t->mode == TREE)
        ok(reduction_new(t->device, &reduction, &t->reduction, &err), &err);
    const struct step_config config = {.net = t->net,
                                       .optim = &t->optim,
                                       .reduction = t->reduction,
                                       .rows = ROWS,
                                       .seed = 1,
                                       .loss = LOSS_FOCAL,
                                       .alpha = 0.5f,
                                       .gamma = 2,
                                       .pos_weight = 1};
    ok(step_new(t->device, &config, &t->step, &err), &err);
}

static void training_done(struct training *t) {
    step_free(t->step);
    reduction_free(t->reduction);
    optim_done(&t->optim);
    seizure_free(t->net);
    stream_close(t->stream);
    device_close(t->device);
    world_close(&t->world, true);
}

static void *training_run(void *arg) {
    static const int32_t valid[ROWS] = {WINDOW, WINDOW - 148};
    struct training *t = arg;
    struct err err = {0};
    int share = t->leaves / t->world.size;
    training_open(t);
    for (int update = 0; update < UPDATES; update++)
        for (int i = 0; i < share; i++) {
            int leaf = t->world.rank * share + i;
            struct input *in = &inputs[update * LEAVES + leaf];
            const struct step_input input = {.x = tensor_3d(in->x, DTYPE_F32, ROWS, WINDOW, CHANNELS),
                                             .labels = tensor_2d(in->labels, DTYPE_U8, ROWS, WINDOW),
                                             .valid = valid,
                                             .step = update,
                                             .row0 = (int64_t)leaf * ROWS,
                                             .loss_scale = 1e-3f,
                                             .leaf = i,
                                             .first = i == 0,
                                             .last = i == share - 1};
            ok(step_queue(t->step, t->stream, &input, &err), &err);
            ok(step_wait(t->step, t->stream, &t->result, &err), &err);
        }
    return NULL;
}

/* On `ranks` threads; all ranks remain open. */
static void run_ranks(struct training *t, int ranks, int leaves) {
    struct world worlds[MOST_RANKS];
    struct err err = {0};
    ok(world_threads(worlds, ranks, &err), &err);
    for (int r = 0; r < ranks; r++) {
        t[r] = (struct training){.world = worlds[r], .mode = TREE, .leaves = leaves};
        assert_int_equal(pthread_create(&t[r].thread, NULL, training_run, &t[r]), 0);
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(t[r].thread, NULL);
}

static void assert_same(const struct training *a, const struct training *b) {
    const struct param_set *p = seizure_params(a->net), *q = seizure_params(b->net);
    size_t bytes = (size_t)p->data_count * sizeof(float), statistics = (size_t)p->buffer_count * sizeof(float);
    assert_memory_equal(p->data, q->data, bytes);
    assert_memory_equal(p->grad, q->grad, bytes);
    assert_memory_equal(a->optim.m, b->optim.m, bytes);
    assert_memory_equal(a->optim.v, b->optim.v, bytes);
    assert_memory_equal(a->optim.ema, b->optim.ema, bytes);
    assert_memory_equal(p->buffers, q->buffers, statistics);
    assert_memory_equal(a->optim.ema_buffers, b->optim.ema_buffers, statistics);
    assert_memory_equal(&a->result.report.gradient_norm, &b->result.report.gradient_norm, sizeof(double));
}

static void a_training_has_the_same_bits_on_any_number_of_ranks(void **state) {
    (void)state;
    struct training one[1], many[MOST_RANKS];
    run_ranks(one, 1, LEAVES);
    for (int ranks = 2; ranks <= MOST_RANKS; ranks *= 2) {
        run_ranks(many, ranks, LEAVES);
        for (int r = 0; r < ranks; r++) {
            assert_same(one, &many[r]);
            training_done(&many[r]);
        }
    }
    training_done(one);
}

static void one_leaf_in_a_tree_has_the_bits_of_a_chain(void **state) {
    (void)state;
    struct training tree[1], chain = {.world = {.size = 1}, .mode = CHAIN, .leaves = 1};
    run_ranks(tree, 1, 1);
    training_run(&chain);
    assert_same(&chain, tree);
    training_done(&chain);
    training_done(tree);
}

/* The same sums as adding pairs of neighbours, then pairs of pairs. */
static void leaves_are_added_as_a_binary_tree(void **state) {
    (void)state;
    struct training t = {.world = {.size = 1}, .mode = TREE, .leaves = 4};
    struct err err = {0};
    struct rng rng;
    float leaf[4];
    rng_init(&rng, test_seed(), RNG_SYNTH, 99);
    training_open(&t);
    const struct param_set *set = seizure_params(t.net);
    for (int i = 0; i < 4; i++) {
        leaf[i] = (float)rng_normal(&rng) * (i % 2 ? 1e6f : 1e-2f);
        for (int64_t k = 0; k < set->data_count; k++)
            set->grad[k] = leaf[i];
        ok(reduction_add(t.reduction, t.stream, i, &err), &err);
    }
    float sum = (leaf[0] + leaf[1]) + (leaf[2] + leaf[3]);
    assert_memory_equal(&set->grad[0], &sum, sizeof sum);
    assert_memory_equal(&set->grad[set->data_count - 1], &sum, sizeof sum);
    training_done(&t);
}

static void a_reduction_refuses_leaves_that_ranks_cannot_share(void **state) {
    (void)state;
    struct world world = {.size = 2};
    struct param_set set = {.data_count = 16};
    struct reduction *r = NULL;
    struct err err = {0};
    assert_int_equal(reduction_new(NULL, &(struct reduction_config){&set, &world, 3, LIMIT_MS, LIMIT_MS}, &r, &err), ERR_INVALID);
    assert_int_equal(reduction_new(NULL, &(struct reduction_config){&set, &world, 1, LIMIT_MS, LIMIT_MS}, &r, &err), ERR_INVALID);
}

int main(void) {
    draw_inputs();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_has_the_same_bits_on_any_number_of_ranks),
        cmocka_unit_test(one_leaf_in_a_tree_has_the_bits_of_a_chain),
        cmocka_unit_test(leaves_are_added_as_a_binary_tree),
        cmocka_unit_test(a_reduction_refuses_leaves_that_ranks_cannot_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
