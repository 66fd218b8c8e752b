#include "evaluate/task_eeg.h"

#include "base/counted.h"
#include "store/mirror.h"
#include "windows/recording.h"
#include "work/job_data.h"

enum { BAD_NAMED = 5, FAULTY_NAMED = 10, MONTAGE_NOTES = 4 }; /* recordings named in the log that cannot be used, or have faults */

struct manifest_config task_manifest_config(const struct jobfile *job, const struct task_env *env, const struct modelfile *file) {
    struct manifest_config config = {.root = env->data_root,
                                     SAME_MEMBERS(*env, mirror, cache_dir, cache),
                                     SAME_MEMBERS(*job->data, sources, n_sources),
                                     SAME_MEMBERS(*file, frontend, hop),
                                     .window = file->model.window,
                                     SAME_MEMBERS(*job->data, labels, unlabeled, hole_every_s),
                                     .patient = (enum labels_patient_rule)job->data->patient,
                                     SAME_MEMBERS(*job->data, patient_by, fail_on_bad_file),
                                     .workers = (int)job->data->loader_workers,
                                     SAME_MEMBERS(*job->data, max_files, rebuild)};
    config.frontend.montage = file->montage;
    COPY_MEMBERS(config.frontend, *job->data, rename, unit);
    return config;
}

struct opening {
    const struct task_env *env;
    struct task_progress *progress;
    int64_t left_out;
};

static bool on_cache(void *ctx, int64_t done, int64_t total, const char *path) {
    const struct opening *o = ctx;
    task_file(o->env, path ? path : o->env->data_root);
    return task_phase(o->env, o->progress, "cache", done, total);
}

static void on_left_out(void *ctx, const char *text) {
    struct opening *o = ctx;
    if (o->left_out++ < FAULTY_NAMED)
        task_log(o->env, TASK_WARN, "%.600s", text);
}

/* How the montage was met, and by how many recordings. */
struct montage_note {
    const char *text, *first;
    int64_t count;
};

/* Texts beyond the room are counted with the last. */
static void note_montage(struct montage_note notes[MONTAGE_NOTES], const char *text, const char *recording) {
    int i = 0;
    while (i < MONTAGE_NOTES - 1 && notes[i].count && strcmp(notes[i].text, text) != 0)
        i++;
    if (!notes[i].count++)
        notes[i] = (struct montage_note){text, recording, 1};
}

/* A line for each of the first recordings in whose source something was repaired or ignored, and the number of the others; and
 * a line for each way in which electrodes were interpolated or derived. */
static void log_faults(const struct task_env *env, const struct manifest *m) {
    struct montage_note notes[MONTAGE_NOTES] = {{0}};
    int64_t faulty = 0;
    for (int64_t i = 0; i < manifest_count(m); i++) {
        const struct manifest_entry *e = manifest_entry(m, i);
        struct recording_info info;
        if (!e->recording)
            continue;
        recording_info(e->recording, &info);
        if (*info.faults && faulty++ < FAULTY_NAMED)
            task_log(env, TASK_WARN, "%.300s: %s", e->relative_path, info.faults);
        if (*info.note)
            note_montage(notes, info.note, e->relative_path);
    }
    for (int i = 0; i < MONTAGE_NOTES && notes[i].count; i++)
        task_log(env, TASK_WARN, "%s, %.300s the first: %s", counted(notes[i].count, "recording").text, notes[i].first,
                 notes[i].text);
    if (faulty > FAULTY_NAMED)
        task_log(env, TASK_WARN, "%s repaired or with seizures outside of the recording",
                 counted(faulty - FAULTY_NAMED, "more recording").text);
}

int task_open_manifest(const struct task_env *env, struct task_progress *p, const struct manifest_config *config,
                       struct manifest **ret, struct err *err) {
    struct opening opening = {.env = env, .progress = p};
    struct manifest_config noted = *config;
    noted.note = on_left_out;
    char bad[600];
    task_file(env, config->root);
    int rc = manifest_open(&noted, on_cache, &opening, ret, err);
    task_file(env, NULL);
    if (rc)
        return rc;
    if (opening.left_out > FAULTY_NAMED)
        task_log(env, TASK_WARN, "%s on what was left out; `brrctl dataset` lists all",
                 counted(opening.left_out - FAULTY_NAMED, "more note").text);
    if (manifest_describe_bad(*ret, BAD_NAMED, bad, sizeof bad))
        task_log(env, TASK_WARN, "%s", bad);
    log_faults(env, *ret);
    return 0;
}

int task_check_recording(const struct task_env *env, const struct jobfile *job, const struct manifest_entry *entry,
                         struct err *err) {
    const char *missing = entry->recording ? recording_tell_missing(entry->recording) : "",
               *text = entry->recording ? recording_tell_mislabelled(entry->recording) : "";
    if (*missing)
        task_log(env, TASK_WARN, "%.300s: %s", entry->relative_path, missing);
    if (!*text)
        return 0;
    if (job->data->fail_on_mislabelled)
        return err_set(err, ERR_PRECONDITION, "%s: %s (data.on_mislabelled: fail)", entry->relative_path, text);
    task_log(env, TASK_WARN, "%.300s: %s", entry->relative_path, text);
    return 0;
}

int task_check_labelling(const struct task_env *env, const struct jobfile *job, const struct manifest *manifest, struct err *err) {
    int rc = 0;
    for (int64_t i = 0; i < manifest_count(manifest) && !rc; i++)
        rc = task_check_recording(env, job, manifest_entry(manifest, i), err);
    return rc;
}

bool task_goes_on_without(const struct task_env *env, const struct jobfile *job, const struct err *why) {
    bool own = why->code == ERR_INVALID || why->code == ERR_PRECONDITION || why->code == ERR_RANGE ||
               why->code == ERR_UNSUPPORTED || why->code == ERR_NOT_FOUND || why->code == ERR_DENIED;
    bool failed = env->mirror && mirror_failure(env->mirror, NULL);
    for (int i = 0; i < env->n_sources; i++)
        failed |= env->sources[i].mirror && mirror_failure(env->sources[i].mirror, NULL);
    return own && !job->data->fail_on_bad_file && !failed;
}

/* Smaller batches need less memory. */
static int open_within(const struct task_env *env, const char *path, enum dtype precision, struct stream *s, struct detector **ret,
                       struct err *err) {
    struct model_use use = {detector_best_batch(env->device), precision, env->memory_limit_bytes};
    int rc;
    do
        rc = detector_open_for(s, path, &use, ret, err);
    while (rc == ERR_EXHAUSTED && (use.max_batch /= 2) >= DETECTOR_BATCH_CPU);
    return rc;
}

int task_open_detector(const struct task_env *env, const char *ref, enum task_precision precision, struct stream *s,
                       struct detector **ret, struct err *err) {
    struct task_model model;
    struct device_info info;
    struct detector *detector = NULL;
    int rc = task_model_find(env, ref, &model, err);
    if (rc)
        return rc;
    device_describe(env->device, &info);
    bool bf16 = precision == TASK_BF16 || (precision == TASK_AUTO && info.is_async);
    task_file(env, model.path);
    rc = open_within(env, model.path, bf16 ? DTYPE_BF16 : DTYPE_F32, s, &detector, err);
    if (rc == ERR_PRECONDITION && bf16 && precision == TASK_AUTO)
        rc = open_within(env, model.path, DTYPE_F32, s, &detector, err);
    task_file(env, NULL);
    if (rc)
        return task_model_is_url(ref) ? err_wrap(err, "model %.200s cannot be used", ref) : rc;
    const char *note = modelfile_note(&detector_info(detector)->file);
    task_log(env, TASK_INFO, "model %.800s, SHA-256 %s", ref, model.sha256);
    if (*note)
        task_log(env, TASK_WARN, "%s", note);
    if (detector_info(detector)->precision == DTYPE_BF16)
        task_log(env, TASK_INFO, "in bf16: logits differ from fp32 by at most %.3g on test windows, the model allows %.3g",
                 detector_info(detector)->bf16_difference, detector_info(detector)->file.bf16_bound);
    else if (bf16)
        task_log(env, TASK_INFO, "in fp32: in bf16 its logits would differ by more than the model allows, %.3g",
                 detector_info(detector)->file.bf16_bound);
    *ret = detector;
    return 0;
}
