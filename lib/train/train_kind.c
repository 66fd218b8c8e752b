#include "train/train_kind.h"

#include "train/best.h"

#include "base/counted.h"
#include "work/task.h"

#define METRICS  "event_f1|subject_f1|auroc|sensitivity_at_10fa|sensitivity_at_5fa|sensitivity_at_2.5fa|sensitivity_at_1fa|loss"
#define C(field) offsetof(struct train_config, field)
#define W(field) offsetof(struct train_config, written.field)

static const struct option model_rows[] = {
    {"model.type", OPTION_ENUM, C(type), "seizure", 0, 0, SEIZURE_TYPE_NAMES,
     "seizure looks at whole windows; causal carries its state and answers each second; line_length, band_power and ward have no "
     "network"},
    {"model.preset", OPTION_STRING, C(preset), "base", 0, 0, NULL, "tiny, small or base; the keys below override it"},
    {"model.encoder_channels", OPTION_F64S, W(encoder_channels), "[]", 8, 1024, NULL,
     "four widths; the last is d_model; []: the preset's"},
    {"model.rescnn_blocks", OPTION_I64, W(rescnn_blocks), "-1", -1, 16, NULL, "residual CNN blocks; -1: the preset's"},
    {"model.stage_convs", OPTION_I64, W(stage_convs), "1", 1, 4, NULL, "causal: convolutions of an encoder stage"},
    {"model.mamba_layers", OPTION_I64, W(mamba_layers), "-1", -1, 24, NULL, "bidirectional Mamba layers; -1: the preset's"},
    {"model.d_state", OPTION_I64, W(d_state), "16", 1, 256, NULL, "state size N"},
    {"model.d_conv", OPTION_I64, W(d_conv), "4", 2, 8, NULL, "causal convolution taps"},
    {"model.expand", OPTION_I64, W(expand), "2", 1, 4, NULL, "inner width / d_model"},
    {"model.headdim", OPTION_I64, W(headdim), "0", 0, 256, NULL, "head width P; 0: 64, and 16 for causal"},
    {"model.dropout", OPTION_F64, W(dropout), "0.1", 0, 0.9, NULL, "dropout after the Mamba fusion and in ResCNN"},
    {"model.mixer", OPTION_ENUM, W(mixer), "mamba2", 0, 0, "mamba2|conv", "token mixer"},
    {"model.init_from", OPTION_MODEL, C(init_from), "null", 0, 0, NULL,
     "initial weights: job:ID, store://NAME/KEY, a served name or a model file; shapes must match, the head may differ"},
};
static const struct option training_rows[] = {
    {"training.epochs", OPTION_I64, C(training.epochs), "100", 1, 100000, NULL, "passes over the balanced windows"},
    {"training.max_steps", OPTION_I64, C(training.max_steps), "0", 0, 1e12, NULL,
     "number of optimizer steps; epochs repeat as needed; 0 = use training.epochs"},
    {"training.batch_size", OPTION_I64, C(training.batch_size), "64", 1, 4096, NULL, "windows per optimizer step"},
    {"training.micro_batch_size", OPTION_I64, C(training.micro_batch_size), "0", 0, 4096, NULL,
     "windows per pass; gradients accumulate; 0 = batch_size"},
    {"training.seed", OPTION_I64, C(training.seed), "42", 0, 9e15, NULL, "random seed of initialisation, sampling and dropout"},
    {"training.precision", OPTION_ENUM, C(training.precision), "auto", 0, 0, "auto|fp32|bf16", "auto = bf16 on CUDA, fp32 on CPU"},
    {"training.bf16_bound", OPTION_F64, C(training.bf16_bound), "0.25", 1e-6, 100, NULL,
     "written into the model file: how much its logits may differ from fp32 where it is used in bf16"},
    {"training.temperature", OPTION_ENUM, C(training.temperature), "none", 0, 0, "none|auto",
     "auto: each validation chooses a number by which the model file's logits are divided, for probabilities that are calibrated"},
    {"training.mixed_precision", OPTION_STRING, W(mixed_precision), "null", 0, 0, NULL,
     "older form of training.precision: true = bf16"},
    {"training.learning_rate", OPTION_F64, C(training.learning_rate), "3e-4", 1e-8, 1, NULL, "peak learning rate"},
    {"training.weight_decay", OPTION_F64, C(training.weight_decay), "0.05", 0, 1, NULL,
     "applies to convolution and projection weights only"},
    {"training.warmup_ratio", OPTION_F64, C(training.warmup_ratio), "0.03", 0, 0.9, NULL,
     "share of steps during which the learning rate rises"},
    {"training.schedule", OPTION_ENUM, C(training.schedule), "cosine", 0, 0, "cosine|constant|late_decay",
     "learning rate after warm-up; late_decay: constant, then in a line to 0 over the last tenth of the steps, which begins when "
     "patience ends"},
    {"training.gradient_clip", OPTION_F64, C(training.gradient_clip), "1.0", 0, 1e6, NULL, "maximum global gradient norm; 0 = off"},
    {"training.reduction", OPTION_ENUM, C(training.reduction), "chain", 0, 0, TRAIN_REDUCTION_NAMES,
     "how the gradients of micro-batches are added: one after the other, or as a binary tree, the same bits on any number of "
     "ranks"},
    {"training.ema", OPTION_F64, C(training.ema), "0", 0, 0.99999, NULL,
     "decay of the average of weights and running statistics, which covers at most the last fifth of the steps; 0 = off"},
    {"training.validate_every", OPTION_I64, C(training.validate_every), "0", 0, 1e9, NULL,
     "steps between validations; 0 = each epoch"},
    {"training.loss.kind", OPTION_ENUM, C(training.loss), "focal", 0, 0, "bce|focal", "loss function"},
    {"training.loss.alpha", OPTION_F64, C(training.alpha), "0.5", 0.01, 0.99, NULL, "focal weight of seizure samples"},
    {"training.loss.gamma", OPTION_F64, C(training.gamma), "2", 0, 10, NULL, "focal exponent"},
    {"training.loss.pos_weight", OPTION_STRING, W(pos_weight), "auto", 0, 0, NULL, "auto = sqrt((1-r)/r), none, or a number"},
    {"training.early_stopping.metric", OPTION_ENUM, W(stop_metric), "event_f1", 0, 0, METRICS,
     "metric that selects the best checkpoint; subject_f1: event F1 averaged over patients"},
    {"training.answers_curve", OPTION_I64, C(training.answers_curve), "0", 0, TRAIN_CURVE_MOST, NULL,
     "draws scores over the answers of readers (brrctl review): so many further trainings, each with more of the answers, scored "
     "on "
     "the validation recordings; 0 = none"},
    {"checkpoint.keep_best", OPTION_I64, C(training.keep_best), "1", 1, BEST_MAX, NULL,
     "checkpoints to keep by their score at validation, the best included"},
    {"training.early_stopping.patience", OPTION_I64, C(training.patience), "5", 0, 100000, NULL,
     "stop after more than this many validations in a row without improvement, with the schedule late_decay after its last tenth; "
     "0 = never"},
};
static const struct option events_rows[] = {
    {"events.threshold", OPTION_ENUM, W(threshold), "auto", 0, 0, "auto|fixed",
     "auto: choose events.on and events.off by event F1 on the validation recordings (fixed if either is set)"},
    {"events.target_fa_per_24h", OPTION_F64, C(target_fa_per_24h), "10", 0.01, 1000, NULL,
     "false alarms per 24 h that auto tries not to exceed"},
    {"events.on", OPTION_F64, C(events.on), "0.86", 0.0001, 0.9999, NULL, "probability that starts an event"},
    {"events.off", OPTION_F64, C(events.off), "0.78", 0.0001, 0.9999, NULL, "probability that ends an event"},
    {"events.min_onset", OPTION_I64, C(events.min_onset), "128", 1, 15360, NULL,
     "samples at or above events.on that start an event"},
    {"events.min_offset", OPTION_I64, C(events.min_offset), "256", 1, 15360, NULL, "samples below events.off that end an event"},
    {"events.opening", OPTION_I64, C(events.opening), "11", 1, 2047, NULL,
     "kernel of the morphological opening, an odd number of samples"},
    {"events.closing", OPTION_I64, C(events.closing), "31", 1, 2047, NULL,
     "kernel of the morphological closing, an odd number of samples"},
    {"events.min_duration_s", OPTION_F64, C(events.min_duration_s), "3", 0, 600, NULL, "shorter events are dropped"},
    {"events.max_duration_s", OPTION_F64, C(events.max_duration_s), "600", 1, 86400, NULL, "longer events are split"},
    {"events.merge_gap_s", OPTION_F64, C(events.merge_gap_s), "2", 0, 600, NULL,
     "events with a smaller gap between them are merged"},
    {"events.lookback_s", OPTION_F64, C(events.lookback_s), "60", 0, 3600, NULL,
     "an event begins at most this long before events.on was reached, where the probability rose to events.off; 0 = at events.on"},
    {"events.alarm_latch_s", OPTION_F64, C(events.alarm_latch_s), "60", 0, 3600, NULL,
     "an alarm stays on for at least this long; 0 = it ends as soon as the rule for its end holds"},
};
static const struct option_table model_keys = OPTION_TABLE(model_rows), training_keys = OPTION_TABLE(training_rows),
                                 events_keys = OPTION_TABLE(events_rows);

static const char *enum_name(const char *choices, int index, struct arena *arena) {
    const char *start = choices;
    while (index-- > 0)
        start = strchr(start, '|') + 1;
    const char *end = strchr(start, '|');
    return arena_strndup(arena, start, end ? (size_t)(end - start) : strlen(start));
}

/* A type without a network takes its own feature, which has no channels to change. */
static int read_feature(const struct jobfile *job, struct train_config *c, struct err *err) {
    const char *type = seizure_type_name((enum seizure_type)c->type);
    if (yaml_path(job->root, "data.normalize"))
        return err_set(err, ERR_INVALID, "%s: model.type %s takes no data.normalize; remove the key", job->file, type);
    if (c->data.augment.enabled)
        return err_set(err, ERR_INVALID, "%s: model.type %s has no channels that data.augment could change; disable it", job->file,
                       type);
    c->data.normalize = frontend_normalize_from_name(type);
    int rc = seizure_preset((enum seizure_type)c->type, c->preset, 1, &c->model, err);
    c->model.window = (int64_t)llround(c->data.window_s * FRONTEND_RATE_HZ);
    return rc || seizure_config_check(&c->model, err) ? err_wrap(err, "%s: model", job->file) : 0;
}

static int read_model(struct jobfile *job, struct train_config *c, struct err *err) {
    int channels = 0, rc;
    if (seizure_is_feature((enum seizure_type)c->type))
        return read_feature(job, c, err);
    if ((rc = montage_channels(c->data.montage, NULL, &channels, err)))
        return rc;
    if (c->type == SEIZURE_TYPE_CAUSAL && c->data.normalize == FRONTEND_WINDOW)
        return err_set(err, ERR_INVALID,
                       "%s: data.normalize is window, the z-score of a whole window, but a network of type causal is served second "
                       "by second; expected another value of data.normalize",
                       job->file);
    struct seizure_config *m = &c->model;
    if (seizure_preset((enum seizure_type)c->type, c->preset, frontend_inputs(c->data.normalize, channels), m, err))
        return err_set(err, ERR_INVALID, "%s: model.preset is '%.80s'; expected tiny, small or base", job->file, c->preset);
    m->window = (int64_t)llround(c->data.window_s * FRONTEND_RATE_HZ);
    if (c->written.encoder_channels.count && c->written.encoder_channels.count != 4)
        return err_set(err, ERR_INVALID, "%s: model.encoder_channels has %zu widths; expected 4", job->file,
                       c->written.encoder_channels.count);
    for (size_t i = 0; i < c->written.encoder_channels.count; i++)
        m->encoder_channels[i] = (int)c->written.encoder_channels.items[i];
    if (c->written.rescnn_blocks >= 0)
        m->rescnn_blocks = (int)c->written.rescnn_blocks;
    if (c->written.stage_convs > 1)
        m->stage_convs = (int)c->written.stage_convs;
    if (c->written.mamba_layers >= 0)
        m->mamba_layers = (int)c->written.mamba_layers;
    m->d_state = (int)c->written.d_state;
    m->d_conv = (int)c->written.d_conv;
    m->expand = (int)c->written.expand;
    if (c->written.headdim)
        m->headdim = (int)c->written.headdim;
    m->dropout = (float)c->written.dropout;
    m->skip = frontend_has_baseline(c->data.normalize);
    m->mixer = c->written.mixer ? SEIZURE_MIXER_CONV : SEIZURE_MIXER_MAMBA2;
    if (m->mixer == SEIZURE_MIXER_MAMBA2 &&
        (jobfile_env_is_one("BRR_MAMBA_FORCE_FALLBACK") || jobfile_env_is_one("SEIZURE_MAMBA_FORCE_FALLBACK"))) {
        m->mixer = SEIZURE_MIXER_CONV;
        jobfile_note(job, "BRR_MAMBA_FORCE_FALLBACK is set: model.mixer is conv instead of mamba2");
    }
    rc = seizure_config_check(m, err);
    return rc ? err_wrap(err, "%s: model", job->file) : 0;
}

static int read_training(struct jobfile *job, struct train_config *c, struct arena *arena, struct err *err) {
    if (!c->training.micro_batch_size)
        c->training.micro_batch_size = c->training.batch_size;
    if (c->training.batch_size % c->training.micro_batch_size)
        return err_set(err, ERR_INVALID, "%s: training.batch_size %lld is not a multiple of training.micro_batch_size %lld",
                       job->file, (long long)c->training.batch_size, (long long)c->training.micro_batch_size);
    int64_t leaves = c->training.batch_size / c->training.micro_batch_size;
    if (c->training.reduction == TRAIN_REDUCTION_TREE && leaves & (leaves - 1))
        return err_set(err, ERR_INVALID,
                       "%s: training.reduction: tree needs training.batch_size / training.micro_batch_size to be a power of two; "
                       "it is %lld / %lld = %lld",
                       job->file, (long long)c->training.batch_size, (long long)c->training.micro_batch_size, (long long)leaves);
    if (c->written.mixed_precision) {
        bool on = !strcmp(c->written.mixed_precision, "true");
        jobfile_note(job, "training.mixed_precision is read as training.precision");
        if (!on && strcmp(c->written.mixed_precision, "false"))
            return err_set(err, ERR_INVALID, "%s: training.mixed_precision is '%s'; expected true or false", job->file,
                           c->written.mixed_precision);
        c->training.precision = on ? TRAIN_PRECISION_BF16 : TRAIN_PRECISION_FP32;
    }
    if (!strcmp(c->written.pos_weight, "auto"))
        c->training.pos_weight = 0;
    else if (!strcmp(c->written.pos_weight, "none"))
        c->training.pos_weight = 1;
    else if (!str_to_f64(c->written.pos_weight, &c->training.pos_weight) || c->training.pos_weight <= 0)
        return err_set(err, ERR_INVALID, "%s: training.loss.pos_weight is '%s'; expected auto, none or a positive number",
                       job->file, c->written.pos_weight);
    if (c->training.answers_curve && !c->init_from)
        return err_set(err, ERR_INVALID,
                       "%s: training.answers_curve begins with the model that model.init_from names; set that key too", job->file);
    c->training.loss = c->training.loss ? LOSS_FOCAL : LOSS_BCE;
    c->training.stop_metric = enum_name(METRICS, c->written.stop_metric, arena);
    bool fixed = yaml_path(job->root, "events.on") || yaml_path(job->root, "events.off");
    c->auto_threshold = c->written.threshold == 0 && !(fixed && !yaml_path(job->root, "events.threshold"));
    c->events.confidence = EVENT_CONFIDENCE_MEAN;
    c->events.percentile = 0.75;
    if (c->events.off > c->events.on)
        return err_set(err, ERR_INVALID, "%s: events.off is %g; expected at most events.on (%g)", job->file, c->events.off,
                       c->events.on);
    int rc = events_config_check(&c->events, err);
    return rc ? err_wrap(err, "%s: events", job->file) : 0;
}

static int read_config(struct jobfile *job, struct arena *arena, struct err *err) {
    struct train_config *c = job->config;
    int rc = job_data_read(job, &c->data, arena, err);
    if (rc || (rc = read_model(job, c, err)) || (rc = read_training(job, c, arena, err)))
        return rc;
    if (!job->name)
        job->name =
            arena_printf(arena, "train-%s", seizure_is_feature(c->model.type) ? seizure_type_name(c->model.type) : c->preset);
    return job->name && c->training.stop_metric ? 0 : err_set(err, ERR_EXHAUSTED, "%s: the job file is too large", job->file);
}

int train_leaves(const struct train_config *config) {
    return (int)(config->training.batch_size / config->training.micro_batch_size);
}

const char *train_reduction_name(int reduction) { return reduction == TRAIN_REDUCTION_TREE ? "tree" : "chain"; }

enum dtype train_precision(const struct train_config *config, const struct device_info *device) {
    if (config->training.precision == TRAIN_PRECISION_AUTO)
        return strncmp(device->name, "cuda", 4) ? DTYPE_F32 : DTYPE_BF16;
    return config->training.precision == TRAIN_PRECISION_BF16 ? DTYPE_BF16 : DTYPE_F32;
}

static void summarise(const struct json *result, char *buf, size_t size) {
    const struct json *f1 = json_get(result, "event_f1");
    const int64_t last = json_i64(json_get(result, "steps"), 0), kept = json_i64(json_get(result, "best_step"), last);
    struct counted steps = counted(last, "step");
    if (f1 && json_kind(f1) != JSON_KIND_NULL)
        str_format(buf, size, "event F1 %.3f of %s, %.1f false alarms per 24 h on the validation patients, step %lld of %s",
                   json_f64(f1, NAN), counted(json_i64(json_get(result, "seizures"), 0), "seizure").text,
                   json_f64(json_get(result, "false_alarms_per_24h"), NAN), (long long)kept, steps.text);
    else if (f1)
        str_format(buf, size, "event F1 none: the validation patients have no seizure, and no event was found; step %lld of %s",
                   (long long)kept, steps.text);
    else
        str_format(buf, size, "%s, loss %.3f; no validation recordings, so no scores", steps.text,
                   json_f64(json_get(result, "loss"), NAN));
}

static const double step_buckets[] = {.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5};
static const double first_buckets[] = {1, 10, 60, 300, 1800, 3600, 10800, 21600, 43200, 86400, 172800};
static const struct kind_metric metrics[] = {
    {KIND_METRIC_STEP_TIME, 0,
     HISTOGRAM("brrd_train_step_duration_seconds", "Duration of optimizer steps.", "device", step_buckets)},
    {KIND_METRIC_STEPS, 0, COUNTER("brrd_train_steps_total", "Optimizer steps.", "device")},
    {KIND_METRIC_FIRST_STEP, 0,
     HISTOGRAM("brrd_train_time_to_first_step_seconds",
               "Time from the start of an attempt, fetching data included, to its first optimizer step.", "device", first_buckets)},
    {KIND_METRIC_VALUE, offsetof(struct task_progress, loss),
     GAUGE("brrd_train_loss", "Running loss of the training job.", "job_id")},
    {KIND_METRIC_VALUE, offsetof(struct task_progress, learning_rate),
     GAUGE("brrd_train_learning_rate", "Learning rate of the training job.", "job_id")},
    {KIND_METRIC_VALUE, offsetof(struct task_progress, gradient_norm),
     GAUGE("brrd_train_gradient_norm", "Gradient norm of the training job.", "job_id")},
    {0, 0, {0}},
};

static const struct kind_keys keys[] = {
    {&job_data_source_keys, C(data)},
    {&job_data_label_keys, C(data)},
    {&job_data_window_keys, C(data)},
    {&job_data_sample_keys, C(data)},
    {&model_keys, 0},
    {&training_keys, 0},
    {&events_keys, 0},
    {NULL, 0},
};

const struct task_kind kind_train = {
    .name = "train",
    .help = "trains a seizure detector on labelled recordings",
    .keys = keys,
    .checkpoints = true,
    .recordings = KIND_RECORDINGS,
    .config_bytes = sizeof(struct train_config),
    .config = read_config,
    .metrics = metrics,
    .summary = summarise,
};
