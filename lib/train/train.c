/* The training task: batches, validations and checkpoints, and its end. */

#include "detect/model_image.h"
#include "evaluate/estimate_manifest.h"
#include "evaluate/task_eeg.h"
#include "nn/ckpt.h"
#include "train/train_answers.h"
#include "train/train_began.h"
#include "train/train_checkpoint.h"
#include "train/train_course.h"
#include "train/train_curve.h"
#include "train/train_estimate.h"
#include "train/train_hard.h"
#include "train/train_ranks.h"
#include "train/train_report.h"
#include "train/train_roles.h"
#include "train/train_validate.h"
#include "windows/arrival.h"

enum {
    NONFINITE_LIMIT = 50,
    TELL_S = 1,       /* between reports while data are on their way */
    POLL_MS = 20,     /* between two points while a batch is read */
    SPARE_SHARE = 16, /* of the device: for ops' scratch and models that serve */
};

/* The windows of the recordings with role PATIENT_TRAINING. */
static int draw_windows(struct train *t, const uint8_t *role, struct err *err) {
    const struct job_data *data = &t->job->data;
    struct balance_config balance = job_data_balance(data);
    sampler_free(t->sampler);
    t->sampler = NULL;
    int rc = sampler_new(t->manifest, role, &balance, (uint64_t)t->job->training.seed, &t->sampler, err);
    if (rc || (rc = train_limit_windows(t->job, t->sampler, err)))
        return rc;
    if (data->augment.enabled && data->augment.jitter)
        sampler_set_jitter(t->sampler);
    return train_hard_apply(t, err);
}

static int open_manifest(struct train *t, struct err *err) {
    struct manifest_config config = task_manifest_config(t->jobfile, &t->env, &t->file);
    int rc = task_open_manifest(&t->env, &t->progress, &config, &t->manifest, err);
    if (rc)
        return rc;
    str_copy(t->file.manifest, sizeof t->file.manifest, manifest_hash(t->manifest));
    if ((rc = train_roles_assign(t, err)) || (rc = train_answers_apply(t, err)))
        return rc;
    return train_began_compare(t, err);
}

/* Schedule and loss weights that follow from the data: those of the first attempt, so recordings that it left out later count. */
static int plan_schedule(struct train *t, struct err *err) {
    const struct train_config *job = t->job;
    struct balance_counts found, used;
    double ratio = 0;
    int rc = draw_windows(t, t->split, err);
    if (rc)
        return rc;
    int64_t windows = sampler_epoch_windows(t->sampler);
    sampler_counts(t->sampler, &found, &used);
    sampler_ratios(t->sampler, &t->prior, &ratio);
    rc = train_steps_per_epoch(job, windows, &t->steps_per_epoch, err);
    if (rc)
        return rc;
    t->planned_steps = job->training.max_steps ? job->training.max_steps : job->training.epochs * t->steps_per_epoch;
    t->total_steps = t->planned_steps;
    t->pos_weight = job->training.pos_weight > 0 ? job->training.pos_weight
                    : ratio > 0 && ratio < 0.5   ? sqrt((1 - ratio) / ratio)
                                                 : 1;
    t->file.prior = t->prior;
    task_log(&t->env, TASK_INFO,
             "windows: %lld partial, %lld full, %lld without seizure; an epoch shows %lld (%.1f %% with seizure), %.1f %% of all "
             "samples are seizure (prior), which count %.3f times as much in the loss (pos_weight)",
             (long long)found.partial, (long long)found.full, (long long)found.none, (long long)windows, 100 * ratio,
             100 * t->prior, t->pos_weight);
    return draw_windows(t, t->role, err);
}

static int check_memory(struct train *t, const struct seizure_options *options, const struct device_info *device, struct err *err) {
    int64_t limit = t->env.memory_limit_bytes, need = 0, largest = 0;
    int rc = train_memory(t->job, options->precision, device, limit, &need, &largest, err);
    if (rc || !limit || need <= limit)
        return rc;
    return err_set(err, ERR_EXHAUSTED,
                   "training needs %lld MiB with training.micro_batch_size %d, and %lld MiB may be used; the largest "
                   "micro_batch_size that fits is %lld",
                   (long long)(need >> 20), options->max_batch, (long long)(limit >> 20), (long long)largest);
}

/* The rate that falls late does so over the last tenth of all steps, or of those that there will be once patience has ended. */
static void follow_schedule(struct train *t) {
    enum { SHARE = 10 };
    if (t->job->training.schedule != TRAIN_SCHEDULE_LATE_DECAY)
        return;
    int64_t from = t->at.decay_from, tail = from / (SHARE - 1);
    if (from == STEP_NONE) {
        tail = t->planned_steps / SHARE;
        from = t->planned_steps - (tail > 1 ? tail : 1);
    }
    t->total_steps = from + (tail > 1 ? tail : 1);
    t->optim.config.total_steps = t->total_steps;
    t->optim.config.decay_from = from;
}

static int open_net(struct train *t, struct err *err) {
    const struct train_config *job = t->job;
    struct device_info device;
    device_describe(t->env.device, &device);
    struct seizure_options options = {
        .max_batch = (int)job->training.micro_batch_size, .training = true, .precision = train_precision(job, &device)};
    struct optim_config optim = {
        SAME_MEMBERS(job->training, learning_rate, weight_decay, warmup_ratio, gradient_clip, ema),
        .total_steps = t->total_steps,
        .constant = job->training.schedule != TRAIN_SCHEDULE_COSINE,
    };
    int rc;
    if ((rc = check_memory(t, &options, &device, err)) || (rc = seizure_new(t->env.device, &job->model, &options, &t->net, err)))
        return rc;
    const struct reduction_config reduction = {seizure_params(t->net), t->world, train_leaves(job), RANKS_GRADIENT_MS,
                                               RANKS_PREPARE_MS};
    if (job->training.reduction == TRAIN_REDUCTION_TREE && (rc = reduction_new(t->env.device, &reduction, &t->reduction, err)))
        return rc;
    struct step_config work = {
        SAME_MEMBERS(*t, net, reduction),
        .optim = &t->optim,
        .rows = options.max_batch,
        .seed = (uint64_t)job->training.seed,
        .loss = (enum loss_kind)job->training.loss,
        .alpha = (float)job->training.alpha,
        .gamma = (float)job->training.gamma,
        .pos_weight = (float)t->pos_weight,
    };
    if ((rc = step_new(t->env.device, &work, &t->work, err)))
        return rc;
    return optim_init(&t->optim, seizure_params(t->net), &optim, t->stream, err);
}

/* Weights that were trained on another kind of input fit in shape and mean nothing. A file without our metadata says nothing of it.
 * A network that has the feature of a model without one may begin as that model (ret_map: what its
 * two numbers are multiplied by; 0: it is none). What has to be said of the first model holds for this one too. */
static int check_origin(struct train *t, const struct task_model *model, float *ret_map, struct err *err) {
    struct modelfile file;
    const struct frontend_config *ours = &t->file.frontend, *theirs = &file.frontend;
    *ret_map = 0;
    if (modelfile_read(model->path, &file, NULL))
        return 0;
    if (seizure_is_feature(file.model.type) && t->job->model.skip)
        *ret_map = modelfile_logit_scale(&file);
    if (theirs->normalize != (*ret_map > 0 ? frontend_feature(ours->normalize) : ours->normalize))
        return err_set(err, ERR_INVALID,
                       "model.init_from %.200s was trained with data.normalize: %s and the job says %s; expected the same (of a "
                       "model without a network: for line_length baseline, for ward baselines)",
                       t->job->init_from, frontend_normalize_name(theirs->normalize), frontend_normalize_name(ours->normalize));
    if (theirs->reference != ours->reference)
        return err_set(err, ERR_INVALID,
                       "model.init_from %.200s was trained with data.reference: %s and the job says %s; expected the same",
                       t->job->init_from, frontend_reference_name(theirs->reference), frontend_reference_name(ours->reference));
    if (theirs->learn_background != ours->learn_background)
        return err_set(err, ERR_INVALID,
                       "model.init_from %.200s was trained with data.learn_background: %s and the job says %s; expected the same",
                       t->job->init_from, theirs->learn_background ? "true" : "false", ours->learn_background ? "true" : "false");
    if (theirs->hold_background != ours->hold_background)
        return err_set(err, ERR_INVALID,
                       "model.init_from %.200s was made with data.hold_background: %s and the job says %s; expected the same",
                       t->job->init_from, theirs->hold_background ? "true" : "false", ours->hold_background ? "true" : "false");
    str_copy(t->file.notice, sizeof t->file.notice, file.notice);
    return 0;
}

/* The map of a model without a network becomes that which the network's answer is added to; the rest is as it was drawn, so that
 * the network begins as this model. */
static int load_map(struct train *t, const char *path, float scale, struct err *err) {
    static const char *const names[][2] = {{"head.out.weight", "head.skip.weight"}, {"head.out.bias", "head.out.bias"}};
    struct param_set *set = seizure_params(t->net);
    float values[2];
    OWNED_POINTER(safetensors_close) struct safetensors *st = NULL;
    int rc = model_image_check(path, err);
    rc = rc ? rc : safetensors_open(path, &st, err);
    for (int i = 0; i < 2 && !rc; i++) {
        const struct safetensors_entry *e = safetensors_find(st, names[i][0]);
        struct tensor to = param_value(set, param_find(set, names[i][1]));
        memcpy(&values[i], e->data, sizeof *values);
        values[i] *= scale;
        rc = stream_to_device(t->stream, to.data, &values[i], sizeof *values, err);
    }
    seizure_touch(t->net);
    return rc ? rc : stream_sync(t->stream, err);
}

/* The weights of model.init_from, and what the checkpoints will say of it. */
static int load_origin(struct train *t, struct err *err) {
    const char *ref = t->job->init_from;
    struct task_model model;
    bool url = task_model_is_url(ref);
    float map;
    int rc = task_model_find(&t->env, ref, &model, err);
    if (rc)
        return rc;
    if ((rc = check_origin(t, &model, &map, err)))
        return rc;
    if ((rc = map > 0 ? load_map(t, model.path, map, err)
                      : ckpt_load_model(model.path, seizure_params(t->net), t->stream, true, err)))
        return url ? err_wrap(err, "model %.200s cannot be used", ref) : rc;
    if ((rc = train_roles_record(t, model.path, err)))
        return rc;
    str_copy(t->file.init_from, sizeof t->file.init_from, url ? ref : "");
    str_copy(t->file.init_from_sha256, sizeof t->file.init_from_sha256, model.sha256);
    task_log(&t->env, TASK_INFO, "weights begin as those of %s, SHA-256 %s", ref, model.sha256);
    return 0;
}

static int first_weights(struct train *t, struct err *err) {
    int rc;
    if ((rc = seizure_init(t->net, t->stream, (uint64_t)t->job->training.seed, t->prior, err)) ||
        (rc = t->job->init_from ? load_origin(t, err) : train_roles_record(t, NULL, err)))
        return rc;
    return optim_start_ema(&t->optim, t->stream, err);
}

/* A training that goes on does not need model.init_from any more; whoever replaced it should know. */
static int look_at_origin(struct train *t, struct err *err) {
    const char *ref = t->job->init_from, *began = t->file.init_from_sha256;
    struct task_model model;
    struct err why = {0};
    char text[600];
    int rc = ref && *began ? task_model_find(&t->env, ref, &model, &why) : 0;
    if (rc == ERR_CANCELLED)
        return err_set(err, rc, "%s", why.message);
    if (rc)
        task_log(&t->env, TASK_WARN, "model.init_from is not needed any more and cannot be looked at: %s",
                 err_text(&why, text, sizeof text));
    else if (ref && *began && strcmp(model.sha256, began) != 0)
        task_log(&t->env, TASK_WARN,
                 "model.init_from %.200s was replaced after this training began with it (SHA-256 %.12s, was %.12s): the training "
                 "goes on from its own checkpoint; submit a new job to begin with the new one",
                 ref, model.sha256, began);
    return 0;
}

static bool load_progress(void *ctx, int64_t done, int64_t total) {
    struct train *t = ctx;
    return task_phase(&t->env, &t->progress, "load", done, total);
}

/* Device memory that is left for recordings once the network has taken its own. */
static int room_for_data(struct train *t, int64_t *ret, struct err *err) {
    struct device_info device;
    int64_t need = 0, largest = 0;
    device_describe(t->env.device, &device);
    int rc;
    const int threads = device.threads;
    if ((rc = device_probe(device.name, &device, err))) /* what is free now */
        return rc;
    device.threads = threads;
    if ((rc = train_memory(t->job, train_precision(t->job, &device), &device, 0, &need, &largest, err)))
        return rc;
    int64_t allowed = t->env.memory_limit_bytes ? t->env.memory_limit_bytes - need : device.free_bytes;
    *ret = (allowed < device.free_bytes ? allowed : device.free_bytes) - device.total_bytes / SPARE_SHARE;
    return 0;
}

static int64_t validation_interval(const struct train *t) {
    return t->job->training.validate_every ? t->job->training.validate_every : t->steps_per_epoch;
}

/* Recordings that are still in a store are fetched from now on, those first that are needed first. */
static int start_arrival(struct train *t, struct err *err) {
    int64_t every = validation_interval(t), since = t->at.step % every, batch = t->job->training.batch_size, n = 0;
    bool due = t->at.step && !since && t->at.validated_step != t->at.step;
    const struct arrival_config config = {.role = t->role,
                                          .training = TRAIN_ROLE_TRAINING,
                                          .validation = TRAIN_ROLE_VALIDATION,
                                          SAME_MEMBERS(t->at, epoch, index),
                                          .batch_size = batch,
                                          .windows = (t->total_steps - t->at.step) * batch,
                                          .windows_to_validation = due ? 0 : (every - since) * batch};
    OWNED_MEMORY struct recording **recordings = NULL;
    if (!task_is_mirrored(&t->env))
        return 0;
    int rc = arrival_order(t->manifest, t->sampler, &config, &recordings, &n, err);
    if (rc)
        return rc;
    t->arriving = n;
    const struct loader_work work = {.recordings = recordings, .n = n, .workers = (int)t->job->data.loader_workers};
    return loader_start(&work, &t->arrival, err);
}

static int open_feed(struct train *t, struct err *err) {
    const struct train_config *job = t->job;
    struct feed_config config = {
        .recordings = {.device = t->env.device,
                       SAME_MEMBERS(*t, manifest, role),
                       .wanted = TRAIN_ROLE_TRAINING,
                       .workers = (int)job->data.loader_workers,
                       .progress = load_progress,
                       .ctx = t,
                       .failed = &t->failed},
        .sampler = t->sampler,
        .augment = job->data.augment.enabled ? &t->augment : NULL,
        .batch_size = (int)job->training.batch_size,
        .micro_batch_size = (int)job->training.micro_batch_size,
        .first_micro = train_first_leaf(t),
        .micros = train_share(t),
        .workers = (int)job->data.loader_workers,
        .channels = job->model.in_channels,
        .window = job->model.window,
        .residence = job->data.resident,
        .arriving = t->arrival != NULL,
        SAME_MEMBERS(t->at, epoch, index),
    };
    int rc = room_for_data(t, &config.room_bytes, err);
    if (rc)
        return rc;
    t->failed = -1;
    if ((rc = feed_open(&config, t->stream, &t->feed, err)))
        return rc;
    task_log(&t->env, TASK_INFO, "data: %s", feed_description(t->feed));
    return 0;
}

/* After an error of a recording: draws the windows without it, from the present position on. */
static int leave_out(struct train *t, const struct err *why, struct err *err) {
    int rc = train_roles_leave_out(t, t->failed, why, err);
    feed_close(t->feed);
    t->feed = NULL;
    return rc ? rc : draw_windows(t, t->role, err);
}

static int start_feed(struct train *t, struct err *err) {
    for (;;) { /* each time without one more recording */
        struct err why = {0};
        int outcome, rc = train_ranks_outcome(t, open_feed(t, &why), &why, &outcome, err);
        if (rc || !outcome)
            return rc;
        if ((rc = leave_out(t, &why, err)))
            return rc;
    }
}

/* All recordings have arrived: those that fit are resident in device memory from now on. */
static int settle_feed(struct train *t, struct err *err) {
    feed_close(t->feed);
    loader_stop(t->arrival);
    t->feed = NULL;
    t->arrival = NULL;
    return start_feed(t, err);
}

/* Gives back what a training computes with; its record and its manifest stay. */
static void release_work(struct train *t) {
    feed_close(t->feed);
    loader_stop(t->arrival);
    sampler_free(t->sampler);
    step_free(t->work);
    reduction_free(t->reduction);
    optim_done(&t->optim);
    seizure_free(t->net);
    stream_close(t->stream);
    t->feed = NULL;
    t->arrival = NULL;
    t->sampler = NULL;
    t->work = NULL;
    t->reduction = NULL;
    t->net = NULL;
    t->stream = NULL;
}

static void train_close(void *task) {
    struct train *t = task;
    if (!t)
        return;
    if (!t->job->point.is_one) /* the next point of the curve may need them */
        task_stop_mirrors(&t->env);
    release_work(t);
    manifest_close(t->manifest);
    json_free(t->began);
    FREE_MEMBERS(*t, split, role, left_out, hard, patients, losses);
    free(t);
}

static int prepare(struct train *t, struct err *err) {
    const struct train_config *job = t->job;
    struct frontend_config frontend;
    bool found = false;
    job_data_frontend(&job->data, &frontend);
    t->file.model = job->model;
    t->file.hop = (int64_t)llround(job->data.hop_s * FRONTEND_RATE_HZ);
    t->file.events = job->events;
    t->file.bf16_bound = job->training.bf16_bound;
    t->file.most_missing = job->data.augment.enabled ? job->data.augment.most_missing : 0;
    (void)label_rule_format(job->data.labels, t->file.labels);
    struct ranks_origin origin;
    int rc;
    if (!train_is_writer(t) && (rc = train_ranks_follow(t, &origin, err)))
        return rc;
    if ((rc = modelfile_set_frontend(&t->file, &frontend, err)) ||
        (rc = augment_init(&t->augment, &job->data.augment, &frontend, job->model.window, (uint64_t)job->training.seed, err)) ||
        (rc = open_manifest(t, err)) || (rc = plan_schedule(t, err)) || (rc = task_stream(&t->env, &t->stream, err)) ||
        (rc = open_net(t, err)) ||
        (rc = train_is_writer(t) ? train_checkpoint_restore(t, &found, err)
                                 : train_checkpoint_follow(t, origin.step, origin.attempt, &found, err)) ||
        (found && (rc = train_roles_resume(t, err))) || (rc = found ? look_at_origin(t, err) : first_weights(t, err)))
        return rc;
    t->resumed = found;
    follow_schedule(t);
    if ((train_is_writer(t) && (rc = train_ranks_follow(t, &origin, err))) || (rc = train_ranks_compare(t, err)))
        return rc;
    if (train_is_shared(t))
        task_log(&t->env, TASK_INFO, "%d ranks exchange their gradients by way of %s", t->world->size, reduction_way(t->reduction));
    if (found)
        task_log(&t->env, TASK_INFO, "resumed at step %lld of %lld", (long long)t->at.step, (long long)t->total_steps);
    if ((rc = train_hard_apply(t, err)) || (rc = start_arrival(t, err)))
        return rc;
    return start_feed(t, err);
}

static int train_open(const struct jobfile *jobfile, const struct task_env *env, void **ret_task, struct err *err) {
    struct train *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a training task");
    const struct train_config *job = jobfile->config;
    t->jobfile = jobfile;
    t->job = job;
    t->env = *env;
    t->started_s = clock_s();
    best_init(&t->at.best);
    t->at.validated_step = t->at.decay_from = STEP_NONE;
    t->at.loss_average = NAN;
    t->newest = (struct validation_result){.event_f1 = NAN,
                                           .seizures = NAN,
                                           .false_alarms_per_24h = NAN,
                                           .auroc = NAN,
                                           .loss = NAN,
                                           .value.metric = NAN,
                                           .events = job->events};
    task_progress_init(&t->progress);
    str_copy(t->progress.metric_name, sizeof t->progress.metric_name, job->training.stop_metric);
    int rc = train_ranks_open(t, err);
    if (!(t->losses = calloc((size_t)train_leaves(job), sizeof *t->losses)))
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for a training task");
    if (rc || (rc = prepare(t, err))) {
        train_close(t);
        return rc;
    }
    *ret_task = t;
    return 0;
}

static void fill_progress(struct train *t, const struct optim_report *r, double step_s) {
    struct task_progress *p = &t->progress;
    str_copy(p->phase, sizeof p->phase, "train");
    p->step = t->at.step;
    p->steps = t->total_steps;
    p->epoch = t->at.epoch;
    p->epochs = (t->total_steps + t->steps_per_epoch - 1) / t->steps_per_epoch;
    p->done = p->total = 0;
    p->loss = t->at.loss_average;
    COPY_MEMBERS(*p, *r, learning_rate, gradient_norm);
    p->step_s = step_s;
    if (t->first_step_s > 0) { /* the first one waits for data and prepares kernels: no measure of the others */
        t->trained_s += step_s;
        t->timed_steps++;
    }
    p->windows_per_s = (double)t->job->training.batch_size / step_s;
    p->data_wait_ratio = t->batch_wait_s / step_s;
    p->nonfinite_steps = t->at.nonfinite;
    p->eta_s = (double)(t->total_steps - t->at.step) * (t->timed_steps ? t->trained_s / (double)t->timed_steps : step_s);
    task_progressed(&t->env, &t->progress);
}

static void tell_arrived(struct train *t) {
    int64_t there = 0, wanted = 0;
    for (int64_t i = 0; i < manifest_count(t->manifest); i++) {
        const struct recording *rec = t->role[i] ? manifest_entry(t->manifest, i)->recording : NULL;
        wanted += rec != NULL;
        there += rec && recording_ready(rec);
    }
    task_log(&t->env, TASK_INFO, "%lld of %lld recordings had arrived by then", (long long)there, (long long)wanted);
}

/* All micro-batches of the batch are through, and the optimizer's step with the last. */
static int finish_batch(struct train *t, struct err *err) {
    struct optim_report r = t->newest_work.report;
    int lost = train_ranks_losses(t, err);
    if (lost)
        return lost;
    double loss = t->batch_loss / (double)(t->batch_count ? t->batch_count : 1);
    t->at.step++;
    t->at.nonfinite += r.skipped;
    t->at.nonfinite_run = r.skipped ? t->at.nonfinite_run + 1 : 0;
    if (isfinite(loss))
        t->at.loss_average = isnan(t->at.loss_average) ? loss : 0.95 * t->at.loss_average + 0.05 * loss;
    t->at.epoch = t->batch->epoch;
    t->at.index = t->batch->first_index + t->batch->size;
    if (t->at.index + t->job->training.batch_size > sampler_epoch_windows(t->sampler)) {
        t->at.epoch++;
        t->at.index = 0;
    }
    feed_release(t->feed, t->batch);
    t->batch = NULL;
    fill_progress(t, &r, clock_s() - t->batch_start_s);
    if (t->first_step_s == 0) {
        t->first_step_s = clock_s() - t->started_s;
        task_log(&t->env, TASK_INFO, "first step after %.2f s, %.2f s of them waiting for data", t->first_step_s, t->batch_wait_s);
        if (t->arrival)
            tell_arrived(t);
    }
    if (t->at.step % 10 == 0 || t->at.step == t->total_steps) {
        train_course_add(t, "step", NULL);
        int rc = task_check_labelling(&t->env, t->jobfile, t->manifest, err);
        if (rc)
            return rc;
    }
    if (t->at.nonfinite_run >= NONFINITE_LIMIT)
        return err_set(err, ERR_ABORTED,
                       "%d steps in a row had no finite gradient; lower training.learning_rate or look at the data",
                       NONFINITE_LIMIT);
    return 0;
}

static int micro_batch(struct train *t, struct err *err) {
    int64_t b = t->job->training.micro_batch_size, valid = 0, micro = train_first_leaf(t) + t->micro;
    for (int i = 0; i < t->batch->size; i++)
        valid += t->batch->valid[i];
    struct step_input input = {.valid = t->batch->valid + micro * b,
                               .step = t->at.step,
                               .row0 = micro * b,
                               .loss_scale = 1.0f / (float)(valid ? valid : 1),
                               .leaf = (int)t->micro,
                               .first = t->micro == 0,
                               .last = t->micro + 1 == train_share(t)};
    int rc;
    if ((rc = feed_micro(t->feed, t->stream, micro, &input.x, &input.labels, err)) ||
        (rc = step_queue(t->work, t->stream, &input, err)) || (rc = feed_ahead(t->feed, err)) ||
        (rc = step_wait(t->work, t->stream, &t->newest_work, err)))
        return rc;
    t->losses[micro] = (struct leaf_loss){t->newest_work.loss_sum, t->newest_work.count};
    struct err why;
    if (step_warning(t->work, &why))
        task_log(&t->env, TASK_WARN, "the device cannot record a step, which is slower from here on: %s", why.message);
    t->micro++;
    return input.last ? finish_batch(t, err) : 0;
}

/* Now and then while a batch's recordings are on their way from a store. */
static void tell_waiting(struct train *t) {
    double now = clock_s();
    if (!t->arrival || now - t->batch_start_s < TELL_S || now - t->notified_s < TELL_S)
        return;
    t->notified_s = now;
    task_phase(&t->env, &t->progress, "download", loader_done(t->arrival), t->arriving);
}

/* Waits for the next batch of the feed, which is rebuilt without a recording that cannot be read. */
static int await_batch(struct train *t, struct err *err) {
    for (;;) {
        struct err why = {0};
        int rc, outcome;
        while (!feed_poll(t->feed, POLL_MS)) {
            task_file(&t->env, t->env.data_root);
            tell_waiting(t);
            if ((rc = train_lone_point(t, err)))
                return rc;
        }
        task_file(&t->env, NULL);
        if ((rc = train_ranks_outcome(t, feed_next(t->feed, &t->batch, &why), &why, &outcome, err)) || !outcome)
            return rc;
        t->batch = NULL;
        if ((rc = leave_out(t, &why, err)) || (rc = start_feed(t, err)))
            return rc;
    }
}

static int read_batch(struct train *t, struct err *err) {
    int rc;
    t->batch_start_s = clock_s();
    if (!train_is_shared(t) && feed_waits(t->feed) && loader_done(t->arrival) == t->arriving && (rc = settle_feed(t, err)))
        return rc;
    if ((rc = await_batch(t, err)))
        return rc;
    t->batch_wait_s = clock_s() - t->batch_start_s;
    t->micro = 0;
    return 0;
}

/* The next batch and its optimizer step. */
static int train_batch(struct train *t, struct err *err) {
    int rc = read_batch(t, err);
    if (rc == ERR_CANCELLED) { /* recordings were being loaded: the point saves the training and ends it */
        int stop = task_point(&t->env, err);
        return stop ? stop : rc;
    }
    if (rc || (train_is_shared(t) && (rc = train_point(t, err))))
        return rc;
    while (!(rc = train_lone_point(t, err)) && t->batch) /* a checkpoint finishes the batch by itself */
        if ((rc = micro_batch(t, err)))
            return rc;
    return rc;
}

static int write_files(struct train *t, struct err *err) {
    int rc;
    if (!train_is_writer(t))
        return 0;
    if ((rc = train_checkpoint_save(t, err)))
        return rc;
    train_course_draw(t);
    train_report_write(t);
    return 0;
}

/* Rank 0's files; the others wait until they are there. */
static int save(struct train *t, struct err *err) { return train_ranks_saved(t, write_files(t, err), err); }

/* Nothing improves any more: the learning rate falls, if it is to, or the training ends. */
static void lose_patience(struct train *t) {
    const bool decays = t->job->training.schedule == TRAIN_SCHEDULE_LATE_DECAY;
    if (decays && t->at.step < t->optim.config.decay_from) {
        t->at.decay_from = t->at.step;
        follow_schedule(t);
        task_log(&t->env, TASK_INFO, "patience ended at step %lld: the learning rate falls to 0 until step %lld",
                 (long long)t->at.step, (long long)t->total_steps);
    }
    t->at.finished = t->at.finished || !decays;
}

/* A validation ended: choose thresholds, keep the best, stop early when nothing improves. */
static int conclude_validation(struct train *t, const struct validation_result *r, struct err *err) {
    const struct train_config *job = t->job;
    char f1[32], auroc[32];
    bool gain, best = best_offer(&t->at.best, t->at.step, &r->value, &gain);
    t->newest = *r;
    if (best)
        t->best = *r;
    COPY_MEMBERS(t->file, *r, events, alarms, temperature);
    t->at.validated_step = t->at.step;
    t->at.validations_without_gain = gain ? 0 : t->at.validations_without_gain + 1;
    t->progress.metric = r->value.metric;
    t->progress.validation_loss = r->loss;
    t->at.finished = t->at.step >= t->total_steps;
    if (job->training.patience && t->at.validations_without_gain > job->training.patience)
        lose_patience(t);
    task_log(&t->env, TASK_INFO,
             "validation at step %lld: event F1 %s, %.2f false alarms per 24 h, AUROC %s, loss %.4f, on %.4g off %.4g%s",
             (long long)t->at.step, score_text(r->event_f1, 3, f1), r->false_alarms_per_24h, score_text(r->auroc, 4, auroc),
             r->loss, r->events.on, r->events.off, best ? " (best)" : "");
    train_course_add(t, "validation", r);
    int rc = task_check_labelling(&t->env, t->jobfile, t->manifest, err);
    return rc ? rc : save(t, err);
}

/* The weights just validated say which background windows are hard; the epoch in progress goes on with them. */
static int redraw_hard(struct train *t, struct err *err) {
    int rc = train_hard_find(t, err);
    if (rc || !t->n_hard)
        return rc;
    feed_close(t->feed);
    t->feed = NULL;
    return (rc = train_hard_apply(t, err)) ? rc : start_feed(t, err);
}

static int validate(struct train *t, struct err *err) {
    struct validation_result r;
    int rc = train_validate(t, &r, err);
    if (rc || (t->at.step < t->total_steps && (rc = redraw_hard(t, err))))
        return rc;
    return conclude_validation(t, &r, err);
}

static bool validation_due(const struct train *t) {
    int64_t every = validation_interval(t);
    bool at_end = t->at.step >= t->total_steps;
    return t->validation_recordings && t->at.step && t->at.validated_step != t->at.step && (at_end || t->at.step % every == 0);
}

/* Without a validation the last weights are the result. */
static int finish(struct train *t, struct err *err) {
    t->at.finished = true;
    return save(t, err);
}

extern const struct task_work work_train; /* the table below, which the points of a curve use */

static int train_run(void *task, struct err *err) {
    struct train *t = task;
    while (!t->at.finished) {
        int rc = validation_due(t) ? validate(t, err) : t->at.step < t->total_steps ? train_batch(t, err) : finish(t, err);
        if (rc)
            return rc;
    }
    if (!t->job->training.answers_curve || t->job->point.is_one)
        return 0;
    release_work(t);
    return train_curve_draw(t, &work_train, err);
}

/* A checkpoint stands between optimizer steps and holds the weights themselves, not their average. */
static int save_whole_step(struct train *t, struct err *err) {
    int rc;
    while (t->batch)
        if ((rc = micro_batch(t, err)))
            return rc;
    if (t->optim.exchanged && (rc = optim_exchange_ema(&t->optim, t->stream, err)))
        return rc;
    return save(t, err);
}

static int train_checkpoint(void *task, struct err *err) {
    struct train *t = task;
    if (t->drawing && !(t = t->point)) /* the training itself is saved, and so are the points of its curve */
        return 0;
    bool validating = t->optim.exchanged;
    int rc = save_whole_step(t, err);
    if (validating && !t->optim.exchanged) { /* the validation goes on, whether or not the files could be written */
        int back = optim_exchange_ema(&t->optim, t->stream, rc ? NULL : err);
        rc = rc ? rc : back;
    }
    return rc;
}

const struct task_work work_train = {
    .open = train_open,
    .run = train_run,
    .checkpoint = train_checkpoint,
    .result = train_report_result,
    .close = train_close,
    .estimate = estimate_train,
    .shares = true,
    .estimates_time = true,
};
