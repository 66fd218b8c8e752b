/* A training does not depend on the number of threads: parameters, moments, running statistics and logits after an optimizer step
 * of two micro-batches are the same bits on 1, 2, 3 and 4 threads. */
#include "base/rng.h"
#include "seed.h"
#include "skip.h"
#include "train/step.h"
#include "unit/cmocka_all.h"

enum { ROWS = 2, CHANNELS = 19, WINDOW = 4096, PARTS = 2, UPDATES = 1, MOST_THREADS = 4 };

struct input {
    float x[ROWS * WINDOW * CHANNELS];
    uint8_t labels[ROWS * WINDOW];
};
static struct input inputs[UPDATES * PARTS];

struct training {
    struct device *device;
    struct stream *stream;
    struct seizure_net *net;
    struct optim optim;
    struct step *step;
};

static void ok(int rc, const struct err *err) {
    if (rc)
        fail_msg("%s", err->message);
}

static void draw_inputs(void) {
    uint64_t seed = test_seed();
    for (int i = 0; i < UPDATES * PARTS; i++) {
        struct rng rng;
        rng_init(&rng, seed, RNG_SYNTH, (uint32_t)i);
        for (int k = 0; k < ROWS * WINDOW * CHANNELS; k++)
            inputs[i].x[k] = (float)rng_normal(&rng);
        for (int k = 0; k < ROWS * WINDOW; k++)
            inputs[i].labels[k] = k / 512 % 3 == 0;
    }
}

static void run_part(struct training *t, int update, int part) {
    static const int32_t valid[ROWS] = {WINDOW, WINDOW - 548};
    struct input *in = &inputs[update * PARTS + part];
    struct err err = {0};
    struct step_result result;
    const struct step_input input = {.x = tensor_3d(in->x, DTYPE_F32, ROWS, WINDOW, CHANNELS),
                                     .labels = tensor_2d(in->labels, DTYPE_U8, ROWS, WINDOW),
                                     .valid = valid,
                                     .step = update,
                                     .row0 = (int64_t)part * ROWS,
                                     .loss_scale = 1e-3f,
                                     .first = part == 0,
                                     .last = part == PARTS - 1};
    ok(step_queue(t->step, t->stream, &input, &err), &err);
    ok(step_wait(t->step, t->stream, &result, &err), &err);
}

static void training_run(struct training *t, int threads, enum dtype precision) {
    static const struct optim_config optim = {.learning_rate = 1e-3, .weight_decay = 0.05, .gradient_clip = 1, .total_steps = 100};
    const struct seizure_options options = {.max_batch = ROWS, .training = true, .precision = precision};
    struct seizure_config model;
    struct err err = {0};
    ok(seizure_preset(SEIZURE_TYPE_UNET, "tiny", CHANNELS, &model, &err), &err);
    model.window = WINDOW;
    ok(device_open("cpu", threads, &t->device, &err), &err);
    ok(stream_open(t->device, STREAM_NORMAL, &t->stream, &err), &err);
    ok(seizure_new(t->device, &model, &options, &t->net, &err), &err);
    ok(seizure_init(t->net, t->stream, 7, 0.2, &err), &err);
    ok(optim_init(&t->optim, seizure_params(t->net), &optim, t->stream, &err), &err);
    const struct step_config config = {
        .net = t->net, .optim = &t->optim, .rows = ROWS, .seed = 1, .loss = LOSS_FOCAL, .alpha = 0.5f, .gamma = 2, .pos_weight = 1};
    ok(step_new(t->device, &config, &t->step, &err), &err);
    for (int i = 0; i < UPDATES * PARTS; i++)
        run_part(t, i / PARTS, i % PARTS);
}

static void training_done(struct training *t) {
    step_free(t->step);
    optim_done(&t->optim);
    seizure_free(t->net);
    stream_close(t->stream);
    device_close(t->device);
}

static bool same(const float *a, const float *b, const struct param *p) {
    return !memcmp(a + p->offset, b + p->offset, (size_t)p->count * sizeof *a);
}

/* Names the tensors that differ. */
static int differences(const struct training *one, const struct training *many, int threads) {
    const struct param_set *a = seizure_params(one->net), *b = seizure_params(many->net);
    int found = memcmp(step_logits(one->step), step_logits(many->step), ROWS * WINDOW * sizeof(float)) != 0;
    for (int i = 0; i < a->count; i++) {
        const struct param *p = &a->items[i];
        bool equal = p->kind == PARAM_BUFFER ? same(a->buffers, b->buffers, p)
                                             : same(a->data, b->data, p) && same(one->optim.m, many->optim.m, p) &&
                                                   same(one->optim.v, many->optim.v, p);
        if (!equal && !found++)
            print_message("%d threads: %s differs, perhaps others too\n", threads, p->name);
    }
    return found;
}

static void compare(enum dtype precision) {
    struct device_info info;
    struct training one = {0};
    int found = 0;
    assert_int_equal(device_list(&info, 1), 1);
    if (precision == DTYPE_BF16 && !info.has_bf16)
        skip_because(SKIP_HARDWARE, "this CPU has no bf16 arithmetic");
    training_run(&one, 1, precision);
    for (int threads = 2; threads <= MOST_THREADS; threads++) {
        struct training many = {0};
        training_run(&many, threads, precision);
        found += differences(&one, &many, threads);
        training_done(&many);
    }
    training_done(&one);
    assert_int_equal(found, 0);
}

static void a_training_has_the_same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    compare(DTYPE_F32);
}

static void a_bf16_training_has_the_same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    compare(DTYPE_BF16);
}

int main(void) {
    draw_inputs();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_has_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(a_bf16_training_has_the_same_bits_on_any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
