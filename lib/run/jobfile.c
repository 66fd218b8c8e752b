#include "run/jobfile.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* What the table writes; turned into struct jobfile by the functions below. */
struct raw {
    struct jobfile job;
    const struct yaml_node *montage;
    struct option_numbers encoder_channels;
    const char *pos_weight, *mixed_precision;
    int on_bad_file, mixer, stop_metric, threshold;
    int64_t num_workers, rescnn_blocks, mamba_layers, d_state, d_conv, expand, headdim;
    double dropout, sampling_rate_hz, notch_hz, restarts;
};

#define KINDS    "train|evaluate|detect|burst|geodesic"
#define METRICS  "event_f1|auroc|sensitivity_at_10fa|sensitivity_at_5fa|sensitivity_at_2.5fa|sensitivity_at_1fa|loss"
#define R(field) offsetof(struct raw, field)
#define J(field) offsetof(struct raw, job.field)

static const struct option job_rows[] = {
    {"kind", OPTION_ENUM, J(kind), NULL, 0, 0, KINDS, "what the job does"},
    {"name", OPTION_STRING, J(name), "null", 0, 0, NULL, "a name for people"},
    {"priority", OPTION_I64, J(priority), "5", 0, 9, NULL, "0 (last) to 9 (first)"},

    {"data.source", OPTION_STRING, J(data.source), NULL, 0, 0, NULL,
     "store://NAME/prefix, file:///dir, or a prefix under paths.data"},
    {"data.montage", OPTION_NODE, R(montage), "null", 0, 0, NULL,
     "referential-19 (default), bipolar-18, or a list of channel labels"},
    {"data.labels", OPTION_STRING, J(data.labels), "auto", 0, 0, NULL,
     "auto, tusz-csv, tusz-csv_bi, bids-tsv, chbmit-summary, edf-annotations"},
    {"data.unlabeled", OPTION_STRING, J(data.unlabeled), "error", 0, 0, NULL, "recordings without labels: error, background, skip"},
    {"data.on_bad_file", OPTION_ENUM, R(on_bad_file), "report", 0, 0, "report|fail",
     "a file that cannot be used: list it, or stop"},
    {"data.sampling_rate_hz", OPTION_F64, R(sampling_rate_hz), "256", 256, 256, NULL, "rate of the model (fixed)"},
    {"data.window_s", OPTION_F64, J(data.window_s), "60", 8, 120, NULL, "window; its samples must be divisible by 16"},
    {"data.hop_s", OPTION_F64, J(data.hop_s), "10", 0.0625, 120, NULL, "distance of window starts"},
    {"data.notch_hz", OPTION_F64, R(notch_hz), "60", 0, 60, NULL, "mains notch: 0 (off), 50 or 60"},
    {"data.bandpass_hz", OPTION_F64S, J(data.bandpass_hz), "[0.5, 120]", 0.05, 127, NULL, "band-pass edges"},
    {"data.fill_gap_s", OPTION_F64, J(data.fill_gap_s), "2", 0, 10, NULL, "gaps up to this are held and masked; longer ones split"},
    {"data.split.train", OPTION_STRINGS, J(data.split_train), "[]", 0, 0, NULL, "patients to train on (default: all others)"},
    {"data.split.validation", OPTION_STRINGS, J(data.split_validation), "[]", 0, 0, NULL, "patients to validate on"},
    {"data.split.official", OPTION_BOOL, J(data.official_split), "false", 0, 0, NULL, "TUSZ: train/ to train, dev/ to validate"},
    {"data.validation_fraction", OPTION_F64, J(data.validation_fraction), "0.2", 0, 0.5, NULL, "share of patients held out"},
    {"data.balance.full", OPTION_F64, J(data.balance_full), "0.3", 0, 100, NULL, "windows all seizure, per partial window"},
    {"data.balance.none", OPTION_F64, J(data.balance_none), "2.5", 0, 100, NULL, "background windows, per partial window"},
    {"data.balance.redraw_each_epoch", OPTION_BOOL, J(data.redraw_each_epoch), "true", 0, 0, NULL,
     "draw other background every epoch"},
    {"data.loader_workers", OPTION_I64, J(data.loader_workers), "4", 1, 64, NULL, "reader threads"},
    {"data.resident", OPTION_ENUM, J(data.resident), "auto", 0, 0, "auto|on|off",
     "recordings in device memory: auto = on a GPU where they fit, on = or refuse the job"},
    {"data.max_files", OPTION_I64, J(data.max_files), "0", 0, 1e9, NULL, "use only the first N recordings; 0 = all"},
    {"data.num_workers", OPTION_I64, R(num_workers), "-1", -1, 64, NULL, "older name of data.loader_workers"},
    {"data.pin_memory", OPTION_NOTICE, 0, "null", 0, 0, NULL, "host batches are always pinned where the device has a use for it"},
    {"data.persistent_workers", OPTION_NOTICE, 0, "null", 0, 0, NULL, "readers always persist"},
    {"data.prefetch_factor", OPTION_NOTICE, 0, "null", 0, 0, NULL, "the prefetch ring sizes itself"},

    {"model.preset", OPTION_STRING, J(preset), "base", 0, 0, NULL, "tiny, small or base; the keys below override it"},
    {"model.encoder_channels", OPTION_F64S, R(encoder_channels), "[]", 8, 1024, NULL, "four widths; the last is d_model"},
    {"model.rescnn_blocks", OPTION_I64, R(rescnn_blocks), "-1", -1, 16, NULL, "residual CNN blocks"},
    {"model.mamba_layers", OPTION_I64, R(mamba_layers), "-1", -1, 24, NULL, "bidirectional Mamba layers"},
    {"model.d_state", OPTION_I64, R(d_state), "16", 1, 256, NULL, "state size N"},
    {"model.d_conv", OPTION_I64, R(d_conv), "4", 2, 8, NULL, "causal convolution taps"},
    {"model.expand", OPTION_I64, R(expand), "2", 1, 4, NULL, "inner width / d_model"},
    {"model.headdim", OPTION_I64, R(headdim), "64", 4, 256, NULL, "head width P"},
    {"model.dropout", OPTION_F64, R(dropout), "0.1", 0, 0.9, NULL, "after the Mamba fusion and in ResCNN"},
    {"model.mixer", OPTION_ENUM, R(mixer), "mamba2", 0, 0, "mamba2|conv", "token mixer"},
    {"model.init_from", OPTION_STRING, J(init_from), "null", 0, 0, NULL,
     "checkpoint to start from: job:ID, store://NAME/KEY, a served name or a model file; shapes must match, the head may differ"},

    {"training.epochs", OPTION_I64, J(training.epochs), "100", 1, 100000, NULL, "passes over the balanced windows"},
    {"training.max_steps", OPTION_I64, J(training.max_steps), "0", 0, 1e12, NULL,
     "optimizer steps, repeating epochs as needed; 0 = by epochs"},
    {"training.batch_size", OPTION_I64, J(training.batch_size), "64", 1, 4096, NULL, "windows per optimizer step"},
    {"training.micro_batch_size", OPTION_I64, J(training.micro_batch_size), "0", 0, 4096, NULL,
     "windows per pass; gradients accumulate; 0 = batch_size"},
    {"training.seed", OPTION_I64, J(training.seed), "42", 0, 9e15, NULL, "initialisation, sampling and dropout"},
    {"training.precision", OPTION_ENUM, J(training.precision), "auto", 0, 0, "auto|fp32|bf16", "auto = bf16 on CUDA, fp32 on CPU"},
    {"training.mixed_precision", OPTION_STRING, R(mixed_precision), "null", 0, 0, NULL,
     "older form of training.precision: true = bf16"},
    {"training.learning_rate", OPTION_F64, J(training.learning_rate), "3e-4", 1e-8, 1, NULL, "peak learning rate"},
    {"training.weight_decay", OPTION_F64, J(training.weight_decay), "0.05", 0, 1, NULL,
     "on convolution and projection weights only"},
    {"training.warmup_ratio", OPTION_F64, J(training.warmup_ratio), "0.03", 0, 0.9, NULL,
     "share of steps with rising learning rate"},
    {"training.schedule", OPTION_ENUM, J(training.schedule), "cosine", 0, 0, "cosine|constant", "after warm-up"},
    {"training.gradient_clip", OPTION_F64, J(training.gradient_clip), "1.0", 0, 1e6, NULL, "global norm; 0 = off"},
    {"training.ema", OPTION_F64, J(training.ema), "0", 0, 0.99999, NULL,
     "decay of averaged weights, at most the last fifth of the steps; 0 = off"},
    {"training.validate_every", OPTION_I64, J(training.validate_every), "0", 0, 1e9, NULL,
     "steps between validations; 0 = each epoch"},
    {"training.loss.kind", OPTION_ENUM, J(training.loss), "focal", 0, 0, "bce|focal", "loss"},
    {"training.loss.alpha", OPTION_F64, J(training.alpha), "0.5", 0.01, 0.99, NULL, "focal weight of seizure samples"},
    {"training.loss.gamma", OPTION_F64, J(training.gamma), "2", 0, 10, NULL, "focal exponent"},
    {"training.loss.pos_weight", OPTION_STRING, R(pos_weight), "auto", 0, 0, NULL, "auto = sqrt((1-r)/r), none, or a number"},
    {"training.early_stopping.metric", OPTION_ENUM, R(stop_metric), "event_f1", 0, 0, METRICS, "what `best` means"},
    {"training.early_stopping.patience", OPTION_I64, J(training.patience), "5", 0, 100000, NULL,
     "validations without gain; 0 = never stop early"},

    {"checkpoint.every", OPTION_DURATION, J(checkpoint.every_ms), "15m", 1000, 0, NULL, "time between checkpoints"},
    {"checkpoint.keep", OPTION_I64, J(checkpoint.keep), "3", 1, 1000, NULL, "newest kept besides best"},
    {"checkpoint.upload", OPTION_STRING, J(checkpoint.upload), "none", 0, 0, NULL, "store://NAME/prefix, or none"},
    {"limits.wall_clock", OPTION_DURATION, J(limits.wall_clock_ms), "none", 1000, 0, NULL,
     "one attempt: checkpoint and stop before it"},
    {"limits.restarts", OPTION_I64, J(limits.restarts), "3", 0, 1000, NULL, "restarts after faults"},
    {"limits.auto_resume", OPTION_BOOL, J(limits.auto_resume), "false", 0, 0, NULL, "queue again after the time limit"},

    {"events.threshold", OPTION_ENUM, R(threshold), "auto", 0, 0, "auto|fixed",
     "auto: on and off by event F1 on the validation recordings (fixed when events.on or events.off is given)"},
    {"events.target_fa_per_24h", OPTION_F64, J(target_fa_per_24h), "10", 0.01, 1000, NULL,
     "most false alarms that auto accepts if it can"},
    {"events.on", OPTION_F64, J(events.on), "0.86", 0.0001, 0.9999, NULL, "probability that starts an event"},
    {"events.off", OPTION_F64, J(events.off), "0.78", 0.0001, 0.9999, NULL, "probability that ends it"},
    {"events.min_onset", OPTION_I64, J(events.min_onset), "128", 1, 15360, NULL, "samples at or above on"},
    {"events.min_offset", OPTION_I64, J(events.min_offset), "256", 1, 15360, NULL, "samples below off"},
    {"events.opening", OPTION_I64, J(events.opening), "11", 1, 2047, NULL, "odd kernel, samples"},
    {"events.closing", OPTION_I64, J(events.closing), "31", 1, 2047, NULL, "odd kernel, samples"},
    {"events.min_duration_s", OPTION_F64, J(events.min_duration_s), "3", 0, 600, NULL, "shorter events are dropped"},
    {"events.max_duration_s", OPTION_F64, J(events.max_duration_s), "600", 1, 86400, NULL, "longer events are split"},
    {"events.merge_gap_s", OPTION_F64, J(events.merge_gap_s), "2", 0, 600, NULL, "closer events are merged"},

    {"evaluate.checkpoint", OPTION_STRING, J(evaluate.checkpoint), "null", 0, 0, NULL,
     "evaluate: job:ID, job:ID@best, store://NAME/KEY, a served name or a model file"},
    {"evaluate.split", OPTION_ENUM, J(evaluate.split), "all", 0, 0, "all|train|dev|eval", "recordings below this folder, or all"},
    {"evaluate.alarm_hop_s", OPTION_F64, J(evaluate.alarm_hop_s), "5", 0, 120, NULL,
     "alarms are scored too, decided this often (as often as windows begin, where 5 does not divide that and nothing is said); 0 = "
     "not"},
    {"evaluate.plots", OPTION_I64, J(evaluate.plots), "20", 0, 100000, NULL, "recordings that get a picture (SVG)"},

    {"detect.model", OPTION_STRING, J(detect.model), "null", 0, 0, NULL,
     "detect: job:ID, job:ID@best, store://NAME/KEY, a served name or a model file"},
};
static const struct option_table job_table = {job_rows, sizeof job_rows / sizeof *job_rows};

static const char *enum_name(const char *choices, int index, struct arena *arena) {
    const char *start = choices;
    while (index-- > 0)
        start = strchr(start, '|') + 1;
    const char *end = strchr(start, '|');
    return arena_strndup(arena, start, end ? (size_t)(end - start) : strlen(start));
}

/* A scalar name or a list of labels → the frontend's form. */
static int read_montage(struct raw *raw, const char *file, struct arena *arena, struct err *err) {
    const struct yaml_node *node = raw->montage;
    if (!node || yaml_is_null(node)) {
        raw->job.data.montage = "referential-19";
        return 0;
    }
    if (node->type == YAML_SCALAR) {
        if (strcmp(node->text, "referential-19") && strcmp(node->text, "bipolar-18"))
            return options_error(node, file, err, "data.montage is '%s'; expected referential-19, bipolar-18 or a list of labels",
                                 node->text);
        raw->job.data.montage = node->text;
        return 0;
    }
    if (node->type != YAML_SEQUENCE || !node->child)
        return options_error(node, file, err, "data.montage: expected a name or a list of channel labels");
    const char *text = "custom:";
    for (const struct yaml_node *item = node->child; item; item = item->next) {
        if (item->type != YAML_SCALAR || strchr(item->text, ','))
            return options_error(item, file, err, "data.montage: a label must be plain text without commas");
        text = arena_printf(arena, "%s%s%s", text, item == node->child ? "" : ",", item->text);
        if (!text)
            return err_set(err, ERR_EXHAUSTED, "%s: data.montage is too long", file);
    }
    raw->job.data.montage = text;
    return 0;
}

static bool env_is_one(const char *name) {
    const char *value = getenv(name);
    return value && !strcmp(value, "1");
}

static int read_model(struct raw *raw, const char *file, struct err *err) {
    struct jobfile *job = &raw->job;
    int channels = 0, rc;
    if ((rc = montage_channels(job->data.montage, NULL, &channels, err)))
        return rc;
    struct seizure_config *m = &job->model;
    if (seizure_preset(job->preset, channels, m, err))
        return err_wrap(err, "%s: model.preset", file);
    m->window = (int64_t)llround(job->data.window_s * FRONTEND_RATE_HZ);
    if (raw->encoder_channels.count && raw->encoder_channels.count != 4)
        return err_set(err, ERR_INVALID, "%s: model.encoder_channels has %zu widths; expected 4", file,
                       raw->encoder_channels.count);
    for (size_t i = 0; i < raw->encoder_channels.count; i++)
        m->encoder_channels[i] = (int)raw->encoder_channels.items[i];
    if (raw->rescnn_blocks >= 0)
        m->rescnn_blocks = (int)raw->rescnn_blocks;
    if (raw->mamba_layers >= 0)
        m->mamba_layers = (int)raw->mamba_layers;
    m->d_state = (int)raw->d_state;
    m->d_conv = (int)raw->d_conv;
    m->expand = (int)raw->expand;
    m->headdim = (int)raw->headdim;
    m->dropout = (float)raw->dropout;
    m->mixer = raw->mixer ? SEIZURE_MIXER_CONV : SEIZURE_MIXER_MAMBA2;
    if (m->mixer == SEIZURE_MIXER_MAMBA2 &&
        (env_is_one("BRR_MAMBA_FORCE_FALLBACK") || env_is_one("SEIZURE_MAMBA_FORCE_FALLBACK"))) {
        m->mixer = SEIZURE_MIXER_CONV;
        job->forced_conv = true;
    }
    rc = seizure_config_check(m, err);
    return rc ? err_wrap(err, "%s: model", file) : 0;
}

static int read_data(struct raw *raw, const char *file, struct err *err) {
    struct jobfile *job = &raw->job;
    static const char *const formats[] = {"auto", "tusz-csv", "tusz-csv_bi", "bids-tsv", "chbmit-summary", "edf-annotations"};
    static const char *const unlabeled[] = {"error", "background", "skip"};
    bool known = false;
    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
        known |= !strcmp(job->data.labels, formats[i]);
    if (!known)
        return err_set(err, ERR_INVALID,
                       "%s: data.labels is '%s'; expected auto, tusz-csv, tusz-csv_bi, bids-tsv, chbmit-summary or "
                       "edf-annotations",
                       file, job->data.labels);
    known = false;
    for (size_t i = 0; i < 3; i++)
        known |= !strcmp(job->data.unlabeled, unlabeled[i]);
    if (!known)
        return err_set(err, ERR_INVALID, "%s: data.unlabeled is '%s'; expected error, background or skip", file,
                       job->data.unlabeled);
    double samples = job->data.window_s * FRONTEND_RATE_HZ, hop = job->data.hop_s * FRONTEND_RATE_HZ;
    if (samples != floor(samples) || fmod(samples, 16) != 0)
        return err_set(err, ERR_INVALID, "%s: data.window_s %g is %g samples at 256 Hz; they must be divisible by 16", file,
                       job->data.window_s, samples);
    if (hop != floor(hop) || hop > samples)
        return err_set(err, ERR_INVALID, "%s: data.hop_s %g must be a whole number of 1/256 s and at most data.window_s", file,
                       job->data.hop_s);
    if (raw->notch_hz != 0 && raw->notch_hz != 50 && raw->notch_hz != 60)
        return err_set(err, ERR_INVALID, "%s: data.notch_hz is %g; expected 0, 50 or 60", file, raw->notch_hz);
    job->data.notch_hz = raw->notch_hz;
    if (job->data.bandpass_hz.count != 2 || job->data.bandpass_hz.items[0] >= job->data.bandpass_hz.items[1])
        return err_set(err, ERR_INVALID, "%s: data.bandpass_hz must be two rising frequencies, like [0.5, 120]", file);
    job->data.fail_on_bad_file = raw->on_bad_file == 1;
    if (raw->num_workers > 0)
        job->data.loader_workers = raw->num_workers;
    job->data.rebuild = env_is_one("BRR_FORCE_MANIFEST_REBUILD") || env_is_one("BGB_FORCE_MANIFEST_REBUILD");
    return 0;
}

static int read_training(struct raw *raw, const struct yaml_node *root, const char *file, struct arena *arena, struct err *err) {
    struct jobfile *job = &raw->job;
    if (!job->training.micro_batch_size)
        job->training.micro_batch_size = job->training.batch_size;
    if (job->training.batch_size % job->training.micro_batch_size)
        return err_set(err, ERR_INVALID, "%s: training.batch_size %lld is not a multiple of training.micro_batch_size %lld", file,
                       (long long)job->training.batch_size, (long long)job->training.micro_batch_size);
    if (raw->mixed_precision) {
        bool on = !strcmp(raw->mixed_precision, "true");
        if (!on && strcmp(raw->mixed_precision, "false"))
            return err_set(err, ERR_INVALID, "%s: training.mixed_precision is '%s'; expected true or false", file,
                           raw->mixed_precision);
        job->training.precision = on ? JOB_PRECISION_BF16 : JOB_PRECISION_FP32;
    }
    if (!strcmp(raw->pos_weight, "auto"))
        job->training.pos_weight = 0;
    else if (!strcmp(raw->pos_weight, "none"))
        job->training.pos_weight = 1;
    else if (!str_to_f64(raw->pos_weight, &job->training.pos_weight) || job->training.pos_weight <= 0)
        return err_set(err, ERR_INVALID, "%s: training.loss.pos_weight is '%s'; expected auto, none or a positive number", file,
                       raw->pos_weight);
    job->training.loss = job->training.loss ? LOSS_FOCAL : LOSS_BCE;
    job->training.stop_metric = enum_name(METRICS, raw->stop_metric, arena);
    bool fixed = yaml_path(root, "events.on") || yaml_path(root, "events.off");
    job->auto_threshold = raw->threshold == 0 && !(fixed && !yaml_path(root, "events.threshold"));
    job->events.confidence = EVENT_CONFIDENCE_MEAN;
    job->events.percentile = 0.75;
    int rc = events_config_check(&job->events, err);
    return rc ? err_wrap(err, "%s: events", file) : 0;
}

/* Keys that would do nothing. */
static int check_idle(const struct jobfile *job, struct err *err) {
    static const char *const train[] = {"evaluate", "detect", NULL};
    static const char *const evaluate[] = {"data.validation_fraction", "data.resident", "detect", NULL};
    static const char *const detect[] = {
        "data.validation_fraction", "data.resident", "data.labels", "data.unlabeled", "evaluate", "limits.auto_resume", NULL};
    static const char *const *const idle[] = {[JOB_KIND_TRAIN] = train, [JOB_KIND_EVALUATE] = evaluate, [JOB_KIND_DETECT] = detect};
    for (const char *const *key = idle[job->kind]; *key; key++) {
        const struct yaml_node *node = yaml_path(job->root, *key);
        if (node)
            return options_error(node, job->file, err, "%s: it does nothing in a job of kind %s; leave it out", *key,
                                 job->kind_name);
    }
    return 0;
}

/* What the model decides must not seem to be the job's choice. */
static int check_fixed(const struct jobfile *job, struct err *err) {
    static const char *const fixed[] = {"model",           "training",   "checkpoint",    "data.montage",
                                        "data.window_s",   "data.hop_s", "data.notch_hz", "data.bandpass_hz",
                                        "data.fill_gap_s", "data.split", "data.balance",  "events"};
    const char *from =
        job->kind == JOB_KIND_DETECT ? "a detect job takes it from its model" : "an evaluate job takes it from its checkpoint";
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        const struct yaml_node *node = yaml_path(job->root, fixed[i]);
        if (node)
            return options_error(node, job->file, err, "%s: %s; leave it out", fixed[i], from);
    }
    return 0;
}

static int refuse_unsupported(const struct jobfile *job, struct err *err) {
    if (job->kind > JOB_KIND_DETECT)
        return err_set(err, ERR_UNSUPPORTED, "%s: kind '%s' is unsupported yet; supported kinds are train, evaluate and detect",
                       job->file, job->kind_name);
    if (job->checkpoint.upload && strcmp(job->checkpoint.upload, "none") != 0 && !str_starts(job->checkpoint.upload, "store://"))
        return err_set(err, ERR_INVALID,
                       "%s: checkpoint.upload '%s'; expected store://NAME/prefix of a store in daemon.yaml, or none", job->file,
                       job->checkpoint.upload);
    if (job->kind == JOB_KIND_EVALUATE && !job->evaluate.checkpoint)
        return err_set(err, ERR_INVALID, "%s: an evaluate job needs evaluate.checkpoint (job:ID, store://NAME/KEY or a model file)",
                       job->file);
    if (job->kind == JOB_KIND_DETECT && !job->detect.model)
        return err_set(err, ERR_INVALID, "%s: a detect job needs detect.model (job:ID, store://NAME/KEY or a model file)",
                       job->file);
    int rc = check_idle(job, err);
    return !rc && job->kind != JOB_KIND_TRAIN ? check_fixed(job, err) : rc;
}

int jobfile_parse(const char *text, const char *file, const char *const *overrides, int n_overrides, struct arena *arena,
                  struct jobfile *ret, struct err *err) {
    struct yaml_node *root = NULL;
    int rc = yaml_parse(arena, text, strlen(text), file, &root, err);
    for (int i = 0; !rc && i < n_overrides; i++)
        rc = yaml_set(arena, root, overrides[i], err);
    if (rc)
        return rc;
    struct raw *raw = arena_alloc(arena, sizeof *raw);
    if (!raw)
        return err_set(err, ERR_EXHAUSTED, "%s: the job file is too large", file);
    struct jobfile *job = &raw->job;
    if ((rc = options_read(&job_table, root, file, arena, raw, err)))
        return rc;
    job->file = arena_strdup(arena, file);
    job->yaml = arena_strdup(arena, text);
    job->root = root;
    job->kind_name = enum_name(KINDS, job->kind, arena);
    if (!job->file || !job->yaml || !job->kind_name)
        return err_set(err, ERR_EXHAUSTED, "%s: the job file is too large", file);
    if ((rc = refuse_unsupported(job, err)) || (rc = read_montage(raw, file, arena, err)) || (rc = read_data(raw, file, err)) ||
        (rc = read_model(raw, file, err)) || (rc = read_training(raw, root, file, arena, err)))
        return rc;
    if (!job->name)
        job->name = job->kind == JOB_KIND_DETECT ? job->kind_name : arena_printf(arena, "%s-%s", job->kind_name, job->preset);
    if (!job->name || !job->training.stop_metric)
        return err_set(err, ERR_EXHAUSTED, "%s: the job file is too large", file);
    *ret = *job;
    return 0;
}

struct notice_visit {
    void (*visit)(void *ctx, const char *text);
    void *ctx;
};

static void visit_notice(void *ctx, const char *key, const char *help) {
    struct notice_visit *v = ctx;
    char text[384];
    str_format(text, sizeof text, "%s has no effect: %s", key, help);
    v->visit(v->ctx, text);
}

void jobfile_notices(const struct jobfile *job, void (*visit)(void *ctx, const char *text), void *ctx) {
    struct notice_visit v = {visit, ctx};
    options_notices(&job_table, job->root, visit_notice, &v);
    if (yaml_path(job->root, "data.num_workers"))
        visit(ctx, "data.num_workers is read as data.loader_workers");
    if (yaml_path(job->root, "training.mixed_precision"))
        visit(ctx, "training.mixed_precision is read as training.precision");
    if (job->forced_conv)
        visit(ctx, "BRR_MAMBA_FORCE_FALLBACK is set: model.mixer is conv instead of mamba2");
}

void jobfile_print_keys(FILE *out, bool json) { (json ? options_print_json : options_print)(&job_table, out); }

void jobfile_frontend(const struct jobfile *job, struct frontend_config *ret) {
    *ret = (struct frontend_config){
        .montage = job->data.montage,
        .notch_hz = job->data.notch_hz,
        .bandpass_hz = {job->data.bandpass_hz.items[0], job->data.bandpass_hz.items[1]},
        .fill_gap_s = job->data.fill_gap_s,
    };
}

enum dtype jobfile_precision(const struct jobfile *job, const struct device_info *device) {
    if (job->training.precision == JOB_PRECISION_AUTO)
        return strncmp(device->name, "cuda", 4) ? DTYPE_F32 : DTYPE_BF16;
    return job->training.precision == JOB_PRECISION_BF16 ? DTYPE_BF16 : DTYPE_F32;
}
