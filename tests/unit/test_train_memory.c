/* The memory that a training is admitted by covers what it takes: network, optimizer, batches, and the working memory of the ops.
 */

#include "kernels/device.h"
#include "train/step.h"
#include "train/train_estimate.h"
#include "unit/cmocka_all.h"

static struct err err;

static void ok(int rc) {
    if (rc)
        fail_msg("%s: %s", err_name(rc), err.message);
}

struct shape {
    enum seizure_type type;
    const char *preset;
    int channels, window, batch, threads;
    enum dtype precision;
    bool ema;
};

static struct train_config job_of(const struct shape *s) {
    struct train_config job = {.training = {.batch_size = s->batch, .micro_batch_size = s->batch, .ema = s->ema ? 0.99 : 0}};
    ok(seizure_preset(s->type, s->preset, s->channels, &job.model, &err));
    job.model.window = s->window;
    return job;
}

/* Bytes on the device after a step, with the two batches that a feed keeps. */
static int64_t taken(const struct shape *s, const struct train_config *job) {
    const struct optim_config optim_config = {
        .learning_rate = 1e-6, .total_steps = 100, .constant = true, .ema = job->training.ema};
    const struct seizure_options options = {.max_batch = s->batch, .training = true, .precision = s->precision};
    struct device *device = NULL;
    struct stream *stream = NULL;
    struct seizure_net *net = NULL;
    struct optim optim = {0};
    struct step *work = NULL;
    void *x[2], *labels[2];
    int64_t bytes = 0, allocations = 0;
    const size_t n = (size_t)s->batch * (size_t)s->window;
    int32_t *valid = calloc((size_t)s->batch, sizeof *valid);
    ok(device_open("cpu", s->threads, &device, &err));
    ok(stream_open(device, STREAM_NORMAL, &stream, &err));
    ok(seizure_new(device, &job->model, &options, &net, &err));
    ok(seizure_init(net, stream, 1, 0.1, &err));
    ok(optim_init(&optim, seizure_params(net), &optim_config, stream, &err));
    if (s->ema)
        ok(optim_start_ema(&optim, stream, &err));
    for (int i = 0; i < 2; i++) {
        ok(device_alloc(device, n * (size_t)s->channels * sizeof(float), &x[i], &err));
        ok(device_alloc(device, n, &labels[i], &err));
    }
    const struct step_config config = {
        .net = net, .optim = &optim, .rows = s->batch, .seed = 1, .alpha = 0.5f, .gamma = 2, .pos_weight = 1};
    ok(step_new(device, &config, &work, &err));
    const struct step_input input = {.x = tensor_3d(x[0], DTYPE_F32, s->batch, s->window, s->channels),
                                     .labels = tensor_2d(labels[0], DTYPE_U8, s->batch, s->window),
                                     .valid = valid,
                                     .loss_scale = 1,
                                     .first = true,
                                     .last = true};
    struct step_result result;
    ok(step_queue(work, stream, &input, &err));
    ok(step_wait(work, stream, &result, &err));
    device_alloc_stats(device, &bytes, &allocations);
    step_free(work);
    optim_done(&optim);
    for (int i = 0; i < 2; i++) {
        device_free(device, x[i]);
        device_free(device, labels[i]);
    }
    seizure_free(net);
    stream_close(stream);
    device_close(device);
    free(valid);
    return bytes;
}

static void a_training_takes_no_more_than_its_estimate(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {SEIZURE_TYPE_UNET, "tiny", 19, 15360, 1, 1, DTYPE_F32, false},
        {SEIZURE_TYPE_UNET, "tiny", 19, 15360, 4, 4, DTYPE_F32, true},
        {SEIZURE_TYPE_UNET, "tiny", 36, 15360, 2, 2, DTYPE_F32, false},
        {SEIZURE_TYPE_UNET, "tiny", 19, 2048, 8, 8, DTYPE_F32, false},
        {SEIZURE_TYPE_CAUSAL, "tiny", 36, 15360, 4, 2, DTYPE_F32, true},
        {SEIZURE_TYPE_CAUSAL, "tiny", 18, 4096, 2, 4, DTYPE_F32, false},
        {SEIZURE_TYPE_UNET, "base", 19, 4096, 1, 2, DTYPE_F32, false},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct shape *s = &shapes[i];
        const struct train_config job = job_of(s);
        int64_t estimate = 0, largest = 0;
        const struct device_info device = {.threads = s->threads};
        ok(train_memory(&job, s->precision, &device, 0, &estimate, &largest, &err));
        const int64_t bytes = taken(s, &job);
        if (bytes > estimate || bytes < 0.7 * (double)estimate)
            fail_msg("%s %s, %d windows of %d samples, %d threads: a step takes %lld bytes, the estimate is %lld",
                     seizure_type_name(s->type), s->preset, s->batch, s->window, s->threads, (long long)bytes, (long long)estimate);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_takes_no_more_than_its_estimate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
