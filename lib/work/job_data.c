#include "work/job_data.h"

#include "base/container.h"
#include "eeg/channels.h"
#include "eeg/labels.h"
#include "eeg/labels_path.h"
#include "work/job_source.h"

#define D(field) offsetof(struct job_data, field)

static const struct option source_rows[] = {
    {"data.source", OPTION_SOURCE, D(source), NULL, 0, 0, NULL, "store://NAME/prefix, file:///dir, or a prefix under paths.data"},
    {"data.dataset", OPTION_STRING, D(dataset), "", 0, 0, NULL,
     "name of the dataset that these patients are of: a model that has learned from another one has not seen them, although their "
     "names are the same"},
    {"data.on_bad_file", OPTION_ENUM, D(fail_on_bad_file), "report", 0, 0, "report|fail",
     "a file that cannot be used: report = list and skip it, fail = stop the job"},
    {"data.on_mislabelled", OPTION_ENUM, D(fail_on_mislabelled), "report", 0, 0, "report|fail",
     "a recording whose samples show swapped, inverted or wrongly named channels: report = name it and use it, fail = stop the "
     "job"},
    {"data.rename", OPTION_NODE, D(written.rename), "null", 0, 0, NULL,
     "labels of channels to read under another name, such as {\"*-XY\": \"*\", LOC: F7}: one * = any characters"},
    {"data.unit", OPTION_STRING, D(unit), "", 0, 0, NULL, "unit of channels that state none, or one that is no voltage: uV, mV, V"},
    {"data.sampling_rate_hz", OPTION_F64, D(written.sampling_rate_hz), "256", 256, 256, NULL, "sampling rate of the model (fixed)"},
    {"data.loader_workers", OPTION_I64, D(loader_workers), "0", 0, 64, NULL,
     "reader threads; 0 = as many as there are processors and memory for, 4 to 16"},
    {"data.max_files", OPTION_I64, D(max_files), "0", 0, 1e9, NULL, "use only the first N recordings; 0 = all"},
    {"data.num_workers", OPTION_I64, D(written.num_workers), "-1", -1, 64, NULL, "older name of data.loader_workers"},
    {"data.pin_memory", OPTION_NOTICE, 0, "null", 0, 0, NULL, "host batches are always pinned if the device benefits"},
    {"data.persistent_workers", OPTION_NOTICE, 0, "null", 0, 0, NULL, "reader threads always persist"},
    {"data.prefetch_factor", OPTION_NOTICE, 0, "null", 0, 0, NULL, "the size of the prefetch ring is automatic"},
};
const struct option_table job_data_source_keys = OPTION_TABLE(source_rows);

static const struct option label_rows[] = {
    {"data.labels", OPTION_STRING, D(labels), "auto", 0, 0, NULL,
     "format of the labels: auto, tusz-csv, tusz-csv_bi, bids-tsv, chbmit-summary, edf-annotations, or a format of detect.format"},
    {"data.seizure_labels", OPTION_STRINGS, D(seizure_labels), "[]", 0, 0, NULL,
     "further types and texts of seizures, such as [anfall*, \"!seizure-like\", \"?possible sz\"]: * = any characters, ! = no "
     "seizure, ? = unsure, which is masked"},
    {"data.unlabeled", OPTION_STRING, D(unlabeled), "error", 0, 0, NULL,
     "treatment of recordings without labels: error, background, skip"},
    {"data.patient", OPTION_RULE, D(written.patient), "auto", 0, 0, NULL,
     "auto = BIDS sub-, TUSZ, chbNN, else each recording is one; folder = first folder below data.source; prefix = file name up to "
     "its first - _ . or space; a pattern with one group, (Subject\\d+)_; a .csv with columns file and patient"},
};
const struct option_table job_data_label_keys = OPTION_TABLE(label_rows);

static const struct option window_rows[] = {
    {"data.montage", OPTION_NODE, D(written.montage), "null", 0, 0, NULL,
     "referential-19 (default), bipolar-18, or a list of channel labels"},
    {"data.window_s", OPTION_F64, D(window_s), "60", 8, 120, NULL,
     "length of a window; its number of samples must be divisible by 16"},
    {"data.hop_s", OPTION_F64, D(hop_s), "10", 0.0625, 120, NULL, "distance between window starts"},
    {"data.notch_hz", OPTION_ENUM, D(notch), "both", 0, 0, "0|50|60|both", "mains notch: 0 (off), 50, 60, or both (50 and 60)"},
    {"data.bandpass_hz", OPTION_F64S, D(bandpass_hz), "[0.5, 120]", 0.05, 127, NULL, "band-pass edges"},
    {"data.fill_gap_s", OPTION_F64, D(fill_gap_s), "2", 0, 10, NULL,
     "gaps up to this length are filled and masked; longer gaps split the recording"},
    {"data.normalize", OPTION_ENUM, D(normalize), "window", 0, 0, FRONTEND_NORMALIZE_NAMES,
     "window: z-score of each window; causal: the signal against its last minutes; envelope: and its line length; baseline: and "
     "the feature of line_length, as which the network begins; baselines: and of band_power (docs/models.md)"},
    {"data.reference", OPTION_ENUM, D(reference), "recorded", 0, 0, FRONTEND_REFERENCE_NAMES,
     "average: the network's input is measured against the mean of all electrodes, so that it is the same whatever reference a "
     "recording has"},
    {"data.learn_background", OPTION_BOOL, D(learn_background), "true", 0, 0, NULL,
     "with every normalize but window: the running baselines are the person's own after seconds and are kept over gaps; false: as "
     "in "
     "files that do not say it"},
    {"data.hold_background", OPTION_BOOL, D(hold_background), "true", 0, 0, NULL,
     "beside learn_background, with normalize baselines: while an event of its feature lasts the running baseline stays, "
     "as of the model ward; false: as in files that do not say it"},
};
const struct option_table job_data_window_keys = OPTION_TABLE(window_rows);

static const struct option sample_rows[] = {
    {"data.split.train", OPTION_STRINGS, D(split_train), "[]", 0, 0, NULL, "patients to train on (default: all others)"},
    {"data.split.validation", OPTION_STRINGS, D(split_validation), "[]", 0, 0, NULL, "patients to validate on"},
    {"data.split.test", OPTION_STRINGS, D(split_test), "[]", 0, 0, NULL,
     "patients kept for a test: they neither train nor validate (evaluate.patients: unseen)"},
    {"data.split.seed", OPTION_I64, D(split_seed), "1", 0, 9e15, NULL,
     "seed of the draw of validation patients, independent of training.seed"},
    {"data.split.folds", OPTION_I64, D(split_folds), "0", 0, 1000, NULL,
     "cut the patients into this many folds, the same for the same labelled patients and data.split.seed; 0 = no folds"},
    {"data.split.fold", OPTION_I64, D(split_fold), "1", 1, 1000, NULL,
     "with data.split.folds: the fold whose patients are kept for a test"},
    {"data.split.official", OPTION_BOOL, D(official_split), "false", 0, 0, NULL, "TUSZ: train/ to train, dev/ to validate"},
    {"data.validation_fraction", OPTION_F64, D(validation_fraction), "0.2", 0, 0.5, NULL,
     "share of patients held out for validation"},
    {"data.balance.full", OPTION_F64, D(balance_full), "0.3", 0, 100, NULL, "windows that are all seizure, per partial window"},
    {"data.balance.none", OPTION_F64, D(balance_none), "2.5", 0, 100, NULL, "background windows, per partial window"},
    {"data.balance.hard", OPTION_F64, D(balance_hard), "0", 0, 1, NULL,
     "share of the background windows that are drawn from those which the newest validation's weights take for seizures most"},
    {"data.balance.per_patient", OPTION_I64, D(balance_per_patient), "0", 0, 1e9, NULL,
     "most partial windows of one patient in an epoch, drawn anew for each; 0 = all"},
    {"data.balance.most_shown", OPTION_I64, D(balance_most_shown), "0", 0, 1e9, NULL,
     "how often a training may show a window: a source of few windows gets a smaller share than its weight; 0 = as often as it "
     "comes"},
    {"data.balance.redraw_each_epoch", OPTION_BOOL, D(redraw_each_epoch), "true", 0, 0, NULL,
     "draw new background windows every epoch"},
    {"data.augment.enabled", OPTION_BOOL, D(augment.enabled), "false", 0, 0, NULL, "change training windows at random, as below"},
    {"data.augment.mirror", OPTION_F64, D(augment.mirror), "0.5", 0, 1, NULL, "probability that left and right are exchanged"},
    {"data.augment.drop_channels", OPTION_F64, D(augment.drop_channels), "0.1", 0, 0.9, NULL,
     "probability that a channel is silent, for each channel"},
    {"data.augment.most_missing", OPTION_I64, D(augment.most_missing), "0", 0, FRONTEND_MAX_CHANNELS - 1, NULL,
     "in half of the windows up to so many channels are silent, and the model file says that recordings may lack so many"},
    {"data.augment.gain", OPTION_F64, D(augment.gain), "2", 1, 10, NULL,
     "the signal is multiplied by a factor between 1/gain and gain"},
    {"data.augment.jitter", OPTION_BOOL, D(augment.jitter), "true", 0, 0, NULL,
     "windows start up to half of data.hop_s earlier or later"},
    {"data.augment.left_pad", OPTION_F64, D(augment.left_pad), "0.1", 0, 1, NULL,
     "probability that a window begins with padding, up to 11/12 of it, as in the first minute of a stream"},
    {"data.hole_every_s", OPTION_F64, D(hole_every_s), "0", 0, 86400, NULL,
     "recordings without a seizure are read as if ten seconds were missing after each so many seconds, at least 20; 0 = as they "
     "are"},
    {"data.resident", OPTION_ENUM, D(resident), "auto", 0, 0, "auto|on|off",
     "keep recordings in device memory: auto = on a GPU if they fit, on = refuse the job if they do not fit"},
};
const struct option_table job_data_sample_keys = OPTION_TABLE(sample_rows);

/* A scalar name or a list of labels → the frontend's form. */
static int read_montage(const struct jobfile *job, struct job_data *data, struct arena *arena, struct err *err) {
    const struct yaml_node *node = data->written.montage;
    if (!node || yaml_is_null(node)) {
        data->montage = "referential-19";
        return 0;
    }
    if (node->type == YAML_SCALAR) {
        if (strcmp(node->text, "referential-19") && strcmp(node->text, "bipolar-18"))
            return options_error(node, job->file, err,
                                 "data.montage is '%s'; expected referential-19, bipolar-18 or a list of labels", node->text);
        data->montage = node->text;
        return 0;
    }
    if (node->type != YAML_SEQUENCE || !node->child)
        return options_error(node, job->file, err, "data.montage: expected a name or a list of channel labels");
    const char *text = "custom:";
    for (const struct yaml_node *item = node->child; item; item = item->next) {
        if (item->type != YAML_SCALAR || strchr(item->text, ','))
            return options_error(item, job->file, err, "data.montage: a label must be plain text without commas");
        text = arena_printf(arena, "%s%s%s", text, item == node->child ? "" : ",", item->text);
        if (!text)
            return err_set(err, ERR_EXHAUSTED, "%s: data.montage is too long", job->file);
    }
    data->montage = text;
    return 0;
}

static int check_labels(const struct jobfile *job, const struct job_data *data, struct err *err) {
    static const char *const unlabeled[] = {"error", "background", "skip"};
    if (!labels_known(data->labels))
        return err_set(err, ERR_INVALID, "%s: data.labels is '%s'; expected one of %s", job->file, data->labels, labels_names);
    if (STR_AMONG(data->unlabeled, unlabeled) < 0)
        return err_set(err, ERR_INVALID, "%s: data.unlabeled is '%s'; expected error, background or skip", job->file,
                       data->unlabeled);
    return 0;
}

static int read_patient(const struct jobfile *job, struct job_data *data, struct err *err) {
    static const char *const rules[] = {"auto", "folder", "prefix"}; /* in the order of the enum */
    const int rule = STR_AMONG(data->written.patient, rules);
    data->patient = rule < 0 ? LABELS_PATIENT_AUTO : rule;
    data->patient_by = rule < 0 ? data->written.patient : NULL;
    int rc = data->patient_by ? patient_rule_check(data->patient_by, err) : 0;
    return rc ? err_wrap(err, "%s: data.patient", job->file) : 0;
}

/* data.labels with the patterns of data.seizure_labels. */
static int join_patterns(const struct jobfile *job, struct job_data *data, struct arena *arena, struct err *err) {
    char rule[LABEL_RULE_SIZE];
    const struct option_list *list = &data->seizure_labels;
    int rc = label_rule_write(data->labels, list->items, list->count, rule, err);
    if (rc)
        return err_wrap(err, "%s: data.seizure_labels", job->file);
    data->labels = arena_strdup(arena, rule);
    return data->labels ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for %s", job->file);
}

static int check_windows(const struct jobfile *job, const struct job_data *data, struct err *err) {
    double samples = data->window_s * FRONTEND_RATE_HZ, hop = data->hop_s * FRONTEND_RATE_HZ;
    if (samples != floor(samples) || fmod(samples, 16) != 0)
        return err_set(err, ERR_INVALID, "%s: data.window_s %g is %g samples at 256 Hz; they must be divisible by 16", job->file,
                       data->window_s, samples);
    if (hop != floor(hop) || hop > samples)
        return err_set(err, ERR_INVALID, "%s: data.hop_s %g must be a whole number of 1/256 s and at most data.window_s", job->file,
                       data->hop_s);
    if (data->hole_every_s > 0 && data->hole_every_s < 2 * WINDOW_HOLE_S)
        return err_set(err, ERR_INVALID, "%s: data.hole_every_s is %g; expected 0 or at least %d", job->file, data->hole_every_s,
                       2 * WINDOW_HOLE_S);
    if (data->bandpass_hz.count != 2 || data->bandpass_hz.items[0] >= data->bandpass_hz.items[1])
        return err_set(err, ERR_INVALID, "%s: data.bandpass_hz must be two rising frequencies, like [0.5, 120]", job->file);
    return 0;
}

static int check_split(const struct jobfile *job, const struct job_data *data, struct err *err) {
    long long folds = (long long)data->split_folds, fold = (long long)data->split_fold;
    if (!folds)
        return 0;
    if (folds < 2 || fold > folds)
        return err_set(err, ERR_INVALID,
                       "%s: data.split.fold %lld of data.split.folds %lld; expected at least 2 folds and one of them", job->file,
                       fold, folds);
    if (data->split_train.count || data->split_validation.count || data->split_test.count || data->official_split)
        return err_set(err, ERR_INVALID,
                       "%s: data.split.folds divides all patients; empty data.split.train, validation and test, and set "
                       "data.split.official to false",
                       job->file);
    return 0;
}

static int read_rename(const struct jobfile *job, struct job_data *data, struct arena *arena, struct err *err) {
    const struct yaml_node *node = data->written.rename;
    OWNED(str_done) struct str rules = str_of(64 << 10);
    if (!node || yaml_is_null(node))
        return 0;
    if (node->type != YAML_MAPPING)
        return options_error(node, job->file, err, "data.rename: expected a mapping of labels to names");
    for (const struct yaml_node *item = node->child; item; item = item->next)
        if (item->type != YAML_SCALAR || channels_add_rename(&rules, item->key, item->text, err))
            return options_error(
                item, job->file, err,
                "data.rename: expected a label and the name to read it under, of 1 to 80 characters with at most one '*'");
    data->rename = rules.len ? arena_strdup(arena, str_cstr(&rules)) : NULL;
    return !rules.len || data->rename ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for %s", job->file);
}

static int check_unit(const struct jobfile *job, struct job_data *data, struct err *err) {
    if (data->unit && !*data->unit)
        data->unit = NULL;
    if (data->unit && strcmp(data->unit, "uV") && strcmp(data->unit, "mV") && strcmp(data->unit, "V"))
        return err_set(err, ERR_INVALID, "%s: data.unit is '%s'; expected uV, mV or V", job->file, data->unit);
    return 0;
}

/* They decode while nothing computes yet, beside a GPU at all times; on few processors some wait for their volume. */
static int64_t readers_here(void) {
    enum { FEWEST = 4, MOST = 16, BYTES = 256 << 20 /* of one, with the trace of a long recording */ };
    struct container_limits limits;
    container_read("", &limits);
    const int64_t memory = container_memory(&limits, sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)) / BYTES;
    const int64_t cpus = container_processors_here(), n = cpus < memory ? cpus : memory;
    return n < FEWEST ? FEWEST : n < MOST ? n : MOST;
}

int job_data_read(struct jobfile *job, struct job_data *data, struct arena *arena, struct err *err) {
    int rc = job_source_read(job, data, arena, err);
    if (rc || (rc = read_rename(job, data, arena, err)) || (rc = check_unit(job, data, err)))
        return rc;
    if (data->window_s > 0 && ((rc = read_montage(job, data, arena, err)) || (rc = check_windows(job, data, err))))
        return rc;
    if ((data->written.patient && (rc = read_patient(job, data, err))) ||
        (data->labels && ((rc = check_labels(job, data, err)) || (rc = join_patterns(job, data, arena, err)))) ||
        (rc = check_split(job, data, err)))
        return rc;
    if (data->written.num_workers > 0) {
        data->loader_workers = data->written.num_workers;
        jobfile_note(job, "data.num_workers is read as data.loader_workers");
    }
    data->loader_workers = data->loader_workers ? data->loader_workers : readers_here();
    data->rebuild = jobfile_env_is_one("BRR_FORCE_MANIFEST_REBUILD") || jobfile_env_is_one("BGB_FORCE_MANIFEST_REBUILD");
    job->data = data;
    return 0;
}

struct balance_config job_data_balance(const struct job_data *data) {
    return (struct balance_config){.full = data->balance_full,
                                   .none = data->balance_none,
                                   .redraw_each_epoch = data->redraw_each_epoch,
                                   .per_patient = data->balance_per_patient,
                                   .hard = data->balance_hard};
}

void job_data_frontend(const struct job_data *data, struct frontend_config *ret) {
    static const double notches[] = {0, 50, 60, FRONTEND_BOTH_NOTCHES};
    *ret = (struct frontend_config){
        SAME_MEMBERS(*data, montage, fill_gap_s, normalize, reference),
        .notch_hz = notches[data->notch],
        .bandpass_hz = {data->bandpass_hz.items[0], data->bandpass_hz.items[1]},
        .learn_background = data->learn_background && data->normalize != FRONTEND_WINDOW,
        .hold_background = data->hold_background && data->learn_background && frontend_feature(data->normalize) == FRONTEND_WARD,
    };
}
