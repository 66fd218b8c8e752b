/* Estimate of a train job: memory from the plan, steps from the manifest of the recordings (their samples are not read),
 * seconds from a short measurement of the device. */
#include "train/train_estimate.h"

#include "base/counted.h"
#include "evaluate/estimate_manifest.h"
#include "store/safetensors.h"
#include "train/train_answers.h"
#include "windows/manifest.h"
#include "windows/sampler.h"
#include "windows/window.h"

enum { MEASURED_STEPS = 2 };

/* ---- memory ---- */

/* Beside the network for each micro-batch: two buffers of windows with their labels (train/feed), the logits and their gradient
 * (train/step); the optimizer's moments and average; and the sums of a reduction on one rank: more ranks take less. */
static int64_t beside_network(const struct train_config *job, const struct seizure_memory *m, int64_t rows) {
    int64_t samples = rows * job->model.window, feed = 2 * samples * (4 * job->model.in_channels + 1), sums = 0;
    if (job->training.reduction == TRAIN_REDUCTION_TREE)
        for (int64_t leaves = job->training.batch_size / rows; leaves > 1; leaves /= 2)
            sums += m->gradients;
    return feed + 2 * 4 * samples + (job->training.ema > 0 ? 3 : 2) * m->parameters + sums;
}

int train_memory(const struct train_config *job, enum dtype precision, const struct device_info *device, int64_t limit,
                 int64_t *ret_bytes, int64_t *ret_largest, struct err *err) {
    struct seizure_options options = {.training = true,
                                      .precision = precision,
                                      .threads = !device            ? 0
                                                 : device->is_async ? -1
                                                                    : device->threads};
    struct seizure_memory m;
    *ret_largest = 0;
    for (int64_t b = job->training.batch_size; b > 0; b--) {
        bool asked = b == job->training.micro_batch_size;
        if (job->training.batch_size % b || (*ret_largest && !asked))
            continue;
        options.max_batch = (int)b;
        int rc = seizure_memory(&job->model, &options, &m, err);
        if (rc)
            return rc;
        int64_t bytes = m.total + beside_network(job, &m, b);
        if (asked)
            *ret_bytes = bytes;
        if (!*ret_largest && (!limit || bytes <= limit))
            *ret_largest = b;
    }
    return 0;
}

/* ---- data ---- */

static int read_file(const struct train_config *job, struct modelfile *ret, struct err *err) {
    struct frontend_config frontend;
    *ret = (struct modelfile){.model = job->model, .hop = (int64_t)llround(job->data.hop_s * FRONTEND_RATE_HZ)};
    job_data_frontend(&job->data, &frontend);
    return modelfile_set_frontend(ret, &frontend, err);
}

int train_split(const struct train_config *job, const struct manifest *m, const struct known_patients *kept, uint8_t *role,
                struct err *err) {
    struct split_config split = {
        .train = job->data.split_train.items,
        .n_train = (int)job->data.split_train.count,
        .validation = job->data.split_validation.items,
        .n_validation = (int)job->data.split_validation.count,
        .test = job->data.split_test.items,
        .n_test = (int)job->data.split_test.count,
        .folds = job->data.split_folds,
        .fold = job->data.split_fold,
        .official = job->data.official_split,
        .validation_fraction = job->data.validation_fraction,
        .seed = (uint64_t)job->data.split_seed,
        .kept = kept,
    };
    return manifest_split(m, &split, role, err);
}

int train_limit_windows(const struct train_config *job, struct sampler *sampler, struct err *err) {
    double windows = (double)sampler_epoch_windows(sampler), most = (double)job->data.balance_most_shown;
    double epochs = job->training.max_steps ? (double)job->training.max_steps * (double)job->training.batch_size / windows
                                            : (double)job->training.epochs;
    return most > 0 ? sampler_limit(sampler, most / epochs, err) : 0;
}

int train_steps_per_epoch(const struct train_config *job, int64_t windows, int64_t *ret, struct err *err) {
    if (windows < job->training.batch_size)
        return err_set(err, ERR_PRECONDITION, "an epoch has %s, fewer than training.batch_size %lld; lower it",
                       counted(windows, "window").text, (long long)job->training.batch_size);
    *ret = windows / job->training.batch_size;
    return 0;
}

/* The windows of the recordings that train; returns the seizures of all recordings. */
static int64_t count_windows(const struct manifest *m, const uint8_t *role, struct balance_counts *ret) {
    int64_t seizures = 0;
    *ret = (struct balance_counts){0};
    for (int64_t i = 0; i < manifest_count(m); i++) {
        const struct manifest_entry *e = manifest_entry(m, i);
        struct recording_info info;
        if (!e->recording)
            continue;
        recording_info(e->recording, &info);
        seizures += info.n_seizures;
        if (role[i] != TRAIN_ROLE_TRAINING)
            continue;
        ret->none += e->windows[WINDOW_NONE];
        ret->partial += e->windows[WINDOW_PARTIAL];
        ret->full += e->windows[WINDOW_FULL];
    }
    return seizures;
}

static void name_patients(const struct estimate_config *c, const struct manifest *m) {
    const char *before = "";
    for (int64_t i = 0; c->patient && i < manifest_count(m); i++) {
        const struct manifest_entry *e = manifest_entry(m, i);
        if (e->recording && strcmp(e->patient, before) != 0)
            c->patient(c->ctx, before = e->patient);
    }
}

/* The windows of an epoch from sources with weights; 0 without weights. */
static int count_mixed(const struct train_config *job, const struct manifest *m, const uint8_t *role, int64_t *ret,
                       struct err *err) {
    const struct balance_config balance = job_data_balance(&job->data);
    struct sampler *sampler = NULL;
    *ret = 0;
    if (!job->data.n_sources || job->data.sources[0].weight <= 0)
        return 0;
    int rc = sampler_new(m, role, &balance, (uint64_t)job->training.seed, &sampler, err);
    rc = rc ? rc : train_limit_windows(job, sampler, err);
    *ret = rc ? 0 : sampler_epoch_windows(sampler);
    sampler_free(sampler);
    return rc;
}

static int plan_steps(const struct estimate_config *c, struct estimate *e, struct err *err) {
    const struct train_config *job = c->job->config;
    struct balance_config balance = job_data_balance(&job->data);
    struct balance_counts windows, used;
    struct modelfile file;
    struct manifest *m = NULL;
    int rc = read_file(job, &file, err);
    if (rc || (rc = estimate_manifest(c, &file, &m, err)))
        return rc;
    uint8_t *role = calloc((size_t)manifest_count(m) + 1, 1);
    rc = role ? train_split(job, m, NULL, role, err) : err_set(err, ERR_EXHAUSTED, "out of memory for the manifest");
    rc = rc ? rc : train_answers_check(job, m, role, c->data_root, err);
    int64_t seizures = rc ? 0 : count_windows(m, role, &windows), mixed = 0;
    rc = rc ? rc : count_mixed(job, m, role, &mixed, err);
    if (!rc && (windows.partial = balance_partial(m, role, &balance)) < 0)
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for the patients of the manifest");
    e->recordings = manifest_count(m);
    name_patients(c, m);
    manifest_close(m);
    free(role);
    if (rc)
        return rc;
    balance_plan(&windows, &balance, &used);
    e->windows_per_epoch = mixed ? mixed : used.partial + used.full + used.none;
    int64_t steps = e->steps = 0;
    if ((rc = train_steps_per_epoch(job, e->windows_per_epoch, &steps, err)))
        return rc;
    e->steps = job->training.max_steps ? job->training.max_steps : job->training.epochs * steps;
    estimate_fact(c, "seizures", "%lld", (long long)seizures);
    estimate_fact(c, "an epoch", "about %s, %s", counted(e->windows_per_epoch, "window").text, counted(steps, "step").text);
    return 0;
}

/* ---- time ---- */

struct trial {
    struct device *device;
    struct stream *stream;
    struct seizure_net *net;
    struct optim optim;
    struct step *work;
    void *x, *labels;
    int32_t *valid;
    int64_t batch;
};

static int open_trial(const struct estimate_config *c, const struct train_config *job, struct trial *t, struct err *err) {
    const struct seizure_config *model = &job->model;
    struct device_info info;
    struct optim_config optim = {.learning_rate = 1e-6, .total_steps = 100, .constant = true};
    int rc = device_open(c->device, c->threads, &t->device, err);
    if (rc)
        return rc;
    device_describe(t->device, &info);
    struct seizure_options options = {.max_batch = (int)t->batch, .training = true, .precision = train_precision(job, &info)};
    struct step_config work = {.optim = &t->optim, .rows = (int)t->batch, .seed = 1, .alpha = 0.5f, .gamma = 2, .pos_weight = 1};
    size_t n = (size_t)t->batch * (size_t)model->window;
    t->valid = calloc((size_t)t->batch, sizeof *t->valid);
    if (!t->valid)
        return err_set(err, ERR_EXHAUSTED, "out of memory measuring a step");
    if ((rc = stream_open(t->device, STREAM_NORMAL, &t->stream, err)) ||
        (rc = seizure_new(t->device, model, &options, &t->net, err)) || (rc = seizure_init(t->net, t->stream, 1, 0.1, err)) ||
        (rc = optim_init(&t->optim, seizure_params(t->net), &optim, t->stream, err)) ||
        (rc = device_alloc(t->device, n * (size_t)model->in_channels * sizeof(float), &t->x, err)))
        return rc;
    work.net = t->net;
    rc = device_alloc(t->device, n, &t->labels, err);
    return rc ? rc : step_new(t->device, &work, &t->work, err);
}

static void close_trial(struct trial *t) {
    step_free(t->work);
    optim_done(&t->optim);
    device_free(t->device, t->x);
    device_free(t->device, t->labels);
    seizure_free(t->net);
    stream_close(t->stream);
    device_close(t->device);
    free(t->valid);
}

/* A whole step over zeros: the same arithmetic as with data. */
static int one_step(const struct seizure_config *model, struct trial *t, int64_t step, struct err *err) {
    struct step_input input = {.x = tensor_3d(t->x, DTYPE_F32, t->batch, model->window, model->in_channels),
                               .labels = tensor_2d(t->labels, DTYPE_U8, t->batch, model->window),
                               .valid = t->valid,
                               .step = step,
                               .loss_scale = 1,
                               .first = true,
                               .last = true};
    struct step_result result;
    int rc = step_queue(t->work, t->stream, &input, err);
    return rc ? rc : step_wait(t->work, t->stream, &result, err);
}

/* On the CPU the time of a step is that of its windows, so one window is measured. */
static int measure(const struct estimate_config *c, const struct train_config *job, bool is_async, struct estimate *e,
                   struct err *err) {
    OWNED(close_trial) struct trial t = {.batch = is_async ? job->training.micro_batch_size : 1};
    double best = INFINITY;
    int rc;
    if ((rc = open_trial(c, job, &t, err)))
        return rc;
    for (int64_t i = 0; i <= MEASURED_STEPS && estimate_measures(c); i++) { /* the first warms up */
        double start = clock_s();
        if ((rc = estimate_stopped(c, err)) || (rc = one_step(&job->model, &t, i, err)))
            return rc;
        if (i)
            best = fmin(best, clock_s() - start);
    }
    e->seconds_per_step = best * (double)(job->training.batch_size / t.batch);
    return 0;
}

/* Any file of tensors may be the beginning; whether their shapes fit is seen when the job runs. */
static int look_at_origin(const struct estimate_config *c, struct err *err) {
    const struct estimate_file *origin = estimate_file(c, "model.init_from");
    struct safetensors *tensors = NULL;
    if (!origin)
        return 0;
    int rc = safetensors_open_header(origin->path, &tensors, err);
    safetensors_close(tensors);
    return rc ? err_wrap(err, "model %.200s cannot be used", origin->ref) : 0;
}

static void tell_model(const struct estimate_config *c, const struct train_config *job) {
    const struct seizure_config *m = &job->model;
    if (seizure_is_feature(m->type))
        estimate_fact(c, "model", "%s: a logistic function of one feature, no network", seizure_type_name(m->type));
    else
        estimate_fact(c, "model", "%s%s: %d-%d-%d-%d channels, %d ResCNN blocks, %d %s layers",
                      m->type == SEIZURE_TYPE_UNET ? "" : "causal ", seizure_preset_name(m), m->encoder_channels[0],
                      m->encoder_channels[1], m->encoder_channels[2], m->encoder_channels[3], m->rescnn_blocks, m->mamba_layers,
                      m->mixer == SEIZURE_MIXER_CONV ? "conv" : "mamba2");
    estimate_fact(c, "batch", "%s of %g s, %lld at a time", counted(job->training.batch_size, "window").text, job->data.window_s,
                  (long long)job->training.micro_batch_size);
}

int estimate_train(const struct estimate_config *c, struct estimate *ret, struct err *err) {
    struct train_config job = *(const struct train_config *)c->job->config;
    struct device_info device;
    *ret = (struct estimate){0};
    int rc = device_probe(c->device, &device, err);
    if (rc)
        return rc;
    if (c->threads)
        device.threads = c->threads;
    if (!device.has_bf16 && train_precision(&job, &device) == DTYPE_BF16) {
        c->notice(c->ctx,
                  "this device has no bf16 arithmetic, so the job would fail here; the figures are for training.precision fp32");
        job.training.precision = TRAIN_PRECISION_FP32;
    }
    if ((rc = look_at_origin(c, err)))
        return rc;
    tell_model(c, &job);
    ret->parameters = seizure_parameter_count(&job.model);
    ret->steps = job.training.max_steps;
    if ((rc = train_memory(&job, train_precision(&job, &device), &device, c->memory_limit_bytes, &ret->memory_bytes,
                           &ret->largest_micro_batch, err)) ||
        (c->data_root && (rc = plan_steps(c, ret, err))) ||
        (estimate_measures(c) && ret->largest_micro_batch && (rc = measure(c, &job, device.is_async, ret, err))))
        return rc;
    ret->seconds_total = ret->seconds_per_step * (double)ret->steps * (double)(1 + job.training.answers_curve);
    if (job.training.answers_curve)
        estimate_fact(c, "curve over answers", "%s, which the time includes",
                      counted(job.training.answers_curve, "further training").text);
    return 0;
}
