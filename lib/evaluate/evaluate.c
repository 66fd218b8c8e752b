/* The evaluate task: a checkpoint against labelled recordings. Montage, filters, window and hop are the checkpoint's; thresholds
 * too unless the job names its own. After a stop it goes on with the recordings whose traces are not there yet. */

#include "base/counted.h"
#include "base/crew.h"
#include "base/yaml.h"
#include "evaluate/estimate_manifest.h"
#include "evaluate/evaluate_report.h"
#include "evaluate/task_eeg.h"
#include "evaluate/traces.h"
#include "windows/recording.h"

/* Says how many patients the model has seen, and leaves them out if the job asks for it. */
static int choose_patients(struct evaluate *e, struct err *err) {
    struct seen_patients *seen = &e->seen;
    const struct seen_question question = {.manifest = e->manifest,
                                           .chosen = e->role,
                                           .dataset = e->job->data->dataset,
                                           .patients = detector_info(e->detector)->patients,
                                           .not_seen = e->config->not_seen};
    int rc = seen_patients_init(seen, &question, err);
    if (rc)
        return rc;
    int64_t all = seen->training + seen->validation + seen->unseen;
    if (!seen->known && e->config->unseen)
        return err_set(err, ERR_PRECONDITION,
                       "evaluate.patients: unseen, but the model's file does not name all patients that it was trained on (an "
                       "older version wrote it, or the model that it began with); train it again, or set evaluate.patients to all");
    if (!seen->known)
        task_log(&e->env, TASK_WARN,
                 "the model's file does not name all patients that it was trained on: the scores may rest on some of them");
    if (seen->known && seen->unsure)
        task_log(&e->env, TASK_WARN,
                 "some recordings name no patient and go by their paths, under which the model has not seen them: whether it has "
                 "under others is not known (data.patient names patients)");
    if (seen->training + seen->validation)
        task_log(&e->env, e->config->unseen ? TASK_INFO : TASK_WARN,
                 "of %lld patients the model was trained on %lld and selected on %lld%s", (long long)all, (long long)seen->training,
                 (long long)seen->validation,
                 e->config->unseen ? ": they are left out" : ": the scores do not transfer to others (evaluate.patients: unseen)");
    if (e->config->unseen && !seen->unseen)
        return err_set(
            err, ERR_PRECONDITION,
            "evaluate.patients: unseen, but the model has seen all %lld patients; evaluate other recordings, or keep "
            "some patients for a test with data.split.test when training. If they are other people of the same names, set "
            "data.dataset here and in the training, or declare it with evaluate.not_seen: true",
            (long long)all);
    for (int64_t i = 0; e->config->unseen && i < manifest_count(e->manifest); i++)
        e->role[i] = seen->role[i] == PATIENT_TEST ? PATIENT_VALIDATION : PATIENT_UNUSED;
    return 0;
}

/* Entries of the wanted part: all, or the folder train, dev or eval; then those of the wanted patients. */
static int choose(struct evaluate *e, struct err *err) {
    static const char *const names[] = {"all", "train", "dev", "eval"};
    const char *split = names[e->config->split];
    int64_t n = manifest_count(e->manifest), chosen = 0, seizures = 0;
    struct recording_info info;
    if (!(e->role = calloc((size_t)n + 1, 1)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the manifest");
    for (int64_t i = 0; i < n; i++) {
        const struct manifest_entry *entry = manifest_entry(e->manifest, i);
        const bool taken = entry->recording && (!e->config->split || !strcmp(entry->split, split));
        e->role[i] = taken ? PATIENT_VALIDATION : PATIENT_UNUSED;
        chosen += taken;
    }
    if (!chosen)
        return err_set(err, ERR_PRECONDITION, "none of %lld recordings lies below a folder %s/; set evaluate.split to all",
                       (long long)n, split);
    int rc = choose_patients(e, err);
    if (rc)
        return rc;
    for (int64_t i = chosen = 0; i < n; i++) {
        if (!e->role[i])
            continue;
        recording_info(manifest_entry(e->manifest, i)->recording, &info);
        chosen++;
        seizures += info.n_seizures;
    }
    task_log(&e->env, TASK_INFO, "%s with %s", counted(chosen, "recording").text, counted(seizures, "seizure").text);
    return 0;
}

static int open_data(struct evaluate *e, struct err *err) {
    struct manifest_config config = task_manifest_config(e->job, &e->env, &detector_info(e->detector)->file);
    int rc = task_open_manifest(&e->env, &e->progress, &config, &e->manifest, err);
    if (rc)
        return rc;
    return choose(e, err);
}

static int leave_out(void *ctx, int64_t entry, const struct err *why, struct err *err) {
    struct evaluate *e = ctx;
    char text[800];
    err_text(why, text, sizeof text);
    if (!task_goes_on_without(&e->env, e->job, why)) {
        if (err)
            *err = *why;
        return why->code;
    }
    if (evaluation_count(e->evaluation) == 1)
        return err_set(err, ERR_PRECONDITION, "none of the recordings can be used; the last one: %.400s", text);
    if (!(e->errors[entry] = strdup(text)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a recording that cannot be used");
    task_log(&e->env, TASK_WARN, "the evaluation goes on without a recording: %s", text);
    return 0;
}

/* A line of recordings.jsonl; what the trace was computed from. */
static int list_recording(struct evaluate *e, const struct manifest_entry *entry, struct err *err) {
    OWNED(str_done) struct str text = str_of(DETECT_LIST_LINE);
    struct json_writer w = json_to(&text);
    json_begin_object(&w, NULL);
    json_put_str(&w, "recording", entry->relative_path);
    json_put_str(&w, "key", recording_key(entry->recording));
    json_put_str(&w, "model", detector_info(e->detector)->sha256);
    json_put_str(&w, "mislabelled", recording_mislabelled(entry->recording));
    json_end(&w, '}');
    str_puts(&text, "\n");
    return detect_list_add_line(e->list, &text, err);
}

/* Of an entry whose samples are loaded; several threads at a time. */
static int add_baselines(void *ctx, int64_t i, struct err *err) {
    struct evaluate *e = ctx;
    int rc = 0;
    for (size_t k = 0; !rc && k < e->config->baselines.count; k++)
        rc = baseline_add(e->baselines[k], i, manifest_entry(e->manifest, i), err);
    return rc;
}

static int finished(void *ctx, int64_t i, struct err *err) {
    struct evaluate *e = ctx;
    const struct manifest_entry *entry = manifest_entry(e->manifest, i);
    int rc = task_check_recording(&e->env, e->job, entry, err);
    if (rc)
        return rc;
    recording_unload(entry->recording); /* thousands of them would stay mapped */
    return list_recording(e, entry, err);
}

struct keeping {
    struct evaluate *e;
    const struct evaluation_config *config;
};

/* A line of an earlier attempt counts if recording and model are still the same and the trace is there. */
static int keep_line(void *ctx, const char *line, size_t len, struct err *err) {
    const struct keeping *k = ctx;
    struct evaluate *e = k->e;
    struct json *json = NULL;
    char path[TRACES_PATH];
    int64_t n;
    if (json_parse(line, len, DETECT_LIST_NAME, &json, NULL))
        return 0;
    int64_t i = manifest_find(e->manifest, json_str(json_get(json, "recording"), ""));
    const char *text = json_str(json_get(json, "mislabelled"), "");
    int rc = 0;
    if (i >= 0 && e->role[i] && !e->kept[i] &&
        !strcmp(json_str(json_get(json, "key"), ""), recording_key(manifest_entry(e->manifest, i)->recording)) &&
        !strcmp(json_str(json_get(json, "model"), ""), detector_info(e->detector)->sha256) &&
        !evaluation_trace_path(k->config, i, path, sizeof path, &n, NULL) && !trace_check(path, n, NULL)) {
        e->kept[i] = 1;
        if (!(e->mislabelled[i] = strdup(text)))
            rc = err_set(err, ERR_EXHAUSTED, "out of memory for an evaluation");
    }
    json_free(json);
    return rc;
}

/* Finds the traces of an earlier attempt. */
static int open_list(struct evaluate *e, const struct evaluation_config *config, struct err *err) {
    size_t n = (size_t)manifest_count(e->manifest) + 1;
    struct keeping keeping = {e, config};
    char path[DETECT_LIST_PATH];
    int64_t before = 0;
    e->kept = calloc(n, sizeof *e->kept);
    e->mislabelled = calloc(n, sizeof *e->mislabelled);
    if (!e->kept || !e->mislabelled)
        return err_set(err, ERR_EXHAUSTED, "out of memory for an evaluation");
    int rc = fsio_join(path, sizeof path, e->env.directory, DETECT_LIST_NAME, err);
    if (rc || (rc = detect_list_lines(path, keep_line, &keeping, err)))
        return rc;
    for (size_t i = 0; i < n; i++)
        before += e->kept[i];
    if (before)
        task_log(&e->env, TASK_INFO, "%s evaluated before", counted(before, "recording").text);
    return detect_list_begin(path, &e->list, err);
}

/* Samples between alarm decisions: as asked, else as the alarm rule was chosen with, else 5 s or the model's hop. */
static int alarm_hop(const struct evaluate *e, const struct alarm_set *set, int64_t *ret, struct err *err) {
    int64_t file_hop = modelfile_hop(&detector_info(e->detector)->file);
    bool asked = yaml_path(e->job->root, "evaluate.alarm_hop_s");
    double seconds = set && !asked ? set->alarm_hop_s : e->config->alarm_hop_s;
    *ret = (int64_t)llround(seconds * FRONTEND_RATE_HZ);
    if (*ret && file_hop % *ret && asked)
        return err_set(err, ERR_INVALID,
                       "%s: evaluate.alarm_hop_s %g does not divide the model's hop of %g s; expected a divisor of it, or 0 for no "
                       "alarms; without the key it is the model's",
                       e->job->file, seconds, (double)file_hop / FRONTEND_RATE_HZ);
    if (set && !*ret)
        return err_set(err, ERR_INVALID, "%s: evaluate.alarm_rate needs alarms, but evaluate.alarm_hop_s is 0", e->job->file);
    if (*ret && file_hop % *ret)
        *ret = file_hop;
    return 0;
}

static int begin(struct evaluate *e, struct err *err) {
    const struct modelfile *file = &detector_info(e->detector)->file;
    const struct alarm_set *set = NULL;
    int64_t hop;
    if (e->config->alarm_rate > 0 && !(set = alarm_sets_find(&file->alarms, e->config->alarm_rate, err)))
        return ERR_PRECONDITION;
    int rc = alarm_hop(e, set, &hop, err);
    if (rc)
        return rc;
    bool chooses = e->config->threshold == EVALUATE_THRESHOLD_AUTO;
    struct evaluation_config config = {SAME_MEMBERS(*e, detector, stream, manifest, role),
                                       .wanted = PATIENT_VALIDATION,
                                       .events = file->events,
                                       .sweep = true,
                                       .auto_threshold = chooses,
                                       .before = chooses ? &detector_info(e->detector)->file.events : NULL,
                                       .target_fa_per_24h = e->config->target_fa_per_24h,
                                       .workers = (int)e->job->data->loader_workers,
                                       .alarm_hop = hop,
                                       .alarms = set ? &set->rule : NULL,
                                       .alarm_sets = true,
                                       .latch_s = e->config->alarm_latch_s,
                                       .bad = leave_out,
                                       .directory = e->env.directory,
                                       .keep = true,
                                       .memory_bytes = e->env.memory_limit_bytes,
                                       .loaded = e->config->baselines.count ? add_baselines : NULL,
                                       .finished = finished,
                                       .ctx = e};
    if (chooses)
        config.events.lookback_s = e->config->lookback_s;
    if (!(e->errors = calloc((size_t)manifest_count(e->manifest) + 1, sizeof *e->errors)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for an evaluation");
    rc = open_list(e, &config, err);
    for (size_t k = 0; !rc && k < e->config->baselines.count; k++)
        rc = baseline_new(e->config->baselines.items[k], manifest_count(e->manifest), &e->baselines[k], err);
    config.kept = e->kept;
    rc = rc ? rc : evaluation_start(&config, &e->evaluation, err);
    int64_t n = rc ? 0 : evaluation_count(e->evaluation) - evaluation_current(e->evaluation);
    return n ? detector_warm_up(e->detector, e->stream, n, err) : rc; /* while the first recordings are read */
}

static void evaluate_close(void *task) {
    struct evaluate *e = task;
    if (!e)
        return;
    task_stop_mirrors(&e->env);
    evaluation_free(e->evaluation);
    score_report_done(&e->scores);
    for (size_t i = 0; i < EVALUATE_MAX_BASELINES; i++)
        baseline_free(e->baselines[i]);
    seen_patients_done(&e->seen);
    for (int64_t i = 0; e->errors && i < manifest_count(e->manifest); i++)
        free(e->errors[i]);
    for (int64_t i = 0; e->mislabelled && i < manifest_count(e->manifest); i++)
        free(e->mislabelled[i]);
    FREE_MEMBERS(*e, errors, mislabelled, kept);
    detect_list_end(e->list);
    detector_close(e->detector);
    manifest_close(e->manifest);
    stream_close(e->stream);
    free(e->role);
    free(e);
}

static int evaluate_open(const struct jobfile *job, const struct task_env *env, void **ret_task, struct err *err) {
    struct evaluate *e = calloc(1, sizeof *e);
    if (!e)
        return err_set(err, ERR_EXHAUSTED, "out of memory for an evaluation");
    e->job = job;
    e->config = job->config;
    e->env = *env;
    task_progress_init(&e->progress);
    int rc;
    if ((rc = task_stream(env, &e->stream, err)) ||
        (rc = task_open_detector(env, e->config->checkpoint, e->config->precision, e->stream, &e->detector, err)) ||
        (rc = open_data(e, err)) || (rc = begin(e, err)))
        evaluate_close(e);
    else
        *ret_task = e;
    return rc;
}

/* A batch of windows, or a part of the search for thresholds. */
static int score_next(struct evaluate *e, bool *ret_done, struct err *err) {
    int rc = evaluation_step(e->evaluation, ret_done, &e->found, err), current = evaluation_current(e->evaluation);
    task_phase(&e->env, &e->progress, "evaluate", current, evaluation_count(e->evaluation));
    return rc;
}

struct writing {
    struct evaluate *e;
    struct err *err;
    int rc; /* of task_point */
};

/* Files of a recording, and the baselines if its trace was kept from an earlier attempt; several threads at a time. */
static int write_recording(void *ctx, int64_t i, struct err *err) {
    const struct writing *w = ctx;
    struct evaluate *e = w->e;
    struct evaluation_recording r;
    evaluation_recording(e->evaluation, (int)i, &r);
    const bool adds = e->kept[r.index] && e->config->baselines.count, load = adds || i < e->config->plots;
    int rc = load ? recording_load(r.entry->recording, err) : 0;
    if (rc)
        return rc;
    rc = adds ? add_baselines(e, r.index, err) : 0;
    rc = rc ? rc : evaluate_report_recording(e, (int)i, err);
    if (load)
        recording_unload(r.entry->recording);
    return rc;
}

static bool stop_at_error(void *ctx, int64_t i, int rc) {
    (void)ctx, (void)i;
    return rc != 0;
}

static bool writing_turn(void *ctx, int64_t done, int64_t newest) {
    struct writing *w = ctx;
    (void)newest;
    task_phase(&w->e->env, &w->e->progress, "write", done, evaluation_count(w->e->evaluation));
    w->rc = task_point(&w->e->env, w->err);
    return !w->rc;
}

/* The files of each recording, side by side, then those of all. */
static int write_files(struct evaluate *e, struct err *err) {
    struct writing writing = {.e = e, .err = err};
    struct device_info device;
    OWNED_POINTER(crew_close) struct crew *crew = NULL;
    device_describe(e->env.device, &device);
    const int readers = (int)e->job->data->loader_workers;
    const struct crew_work work = {.n = evaluation_count(e->evaluation),
                                   .threads = readers > device.threads ? readers : device.threads,
                                   .run = write_recording,
                                   .finished = stop_at_error,
                                   .ctx = &writing};
    int rc = crew_start(&work, &crew, err);
    if (rc)
        return rc;
    if (!crew_follow(crew, writing_turn, &writing))
        return writing.rc;
    rc = crew_failure(crew, err);
    return rc ? rc : evaluate_report_write(e, err);
}

/* The traces are of no use once the report is there. */
static int drop_traces(struct evaluate *e, struct err *err) {
    char path[TRACES_PATH];
    int rc = fsio_join(path, sizeof path, e->env.directory, TRACES_FOLDER, err);
    return rc ? rc : fsio_remove_tree(path, err);
}

static int evaluate_run(void *task, struct err *err) {
    struct evaluate *e = task;
    int rc;
    for (bool done = false; !done;)
        if ((rc = task_point(&e->env, err)) || (rc = score_next(e, &done, err)))
            return rc;
    if ((rc = evaluate_report_score(e, err)) || (rc = write_files(e, err)))
        return rc;
    return drop_traces(e, err);
}

static void put_score(struct json_writer *w, const struct score *s) {
    json_put_f64(w, "event_f1", s->f1);
    json_put_f64(w, "event_sensitivity", s->sensitivity);
    json_put_f64(w, "event_precision", s->precision);
    json_put_f64(w, "false_alarms_per_24h", s->false_alarms_per_24h);
}

static void put_counts(struct json_writer *w, const struct score_counts *c) {
    json_put_f64(w, "seizures", c->ref);
    json_put_f64(w, "found", c->tp);
    json_put_f64(w, "false_events", c->fp);
}

/* The thresholds of the model's file on the same recordings. */
static void put_before(struct json_writer *w, const struct score_point *before) {
    const struct score *event = &before->scores[SCORE_EVENT];
    json_begin_object(w, "before");
    JSON_MEMBERS(w, *before, on, off);
    put_counts(w, &event->counts);
    json_put_f64(w, "event_f1", event->f1);
    json_put_f64(w, "false_alarms_per_24h", event->false_alarms_per_24h);
    json_end(w, '}');
}

static void evaluate_result(void *task, struct json_writer *w, const char *key) {
    struct evaluate *e = task;
    json_begin_object(w, key);
    json_put_str(w, "report", "report.json");
    json_put_str(w, "model_sha256", detector_info(e->detector)->sha256);
    json_put_str(w, "precision", detector_info(e->detector)->precision == DTYPE_BF16 ? "bf16" : "fp32");
    json_put_i64(w, "recordings", evaluation_count(e->evaluation));
    json_put_f64(w, "hours", e->scores.pooled[SCORE_EVENT].counts.duration_s / 3600);
    put_score(w, &e->scores.pooled[SCORE_EVENT]);
    json_put_f64(w, "sample_f1", e->scores.pooled[SCORE_SAMPLE].f1);
    json_put_f64(w, "auroc", e->found.auroc);
    put_counts(w, &e->scores.pooled[SCORE_EVENT].counts);
    json_put_str(w, "threshold", e->config->threshold == EVALUATE_THRESHOLD_AUTO ? "auto" : "model");
    json_put_f64(w, "threshold_on", e->found.events.on);
    json_put_f64(w, "threshold_off", e->found.events.off);
    json_put_f64(w, "lookback_s", e->found.events.lookback_s);
    if (e->config->threshold == EVALUATE_THRESHOLD_AUTO)
        put_before(w, &e->found.before);
    seen_patients_count_json(&e->seen, e->config->unseen, w, "seen_patients");
    json_put_f64(w, "onset_error_p50_s", e->scores.onsets.p50_s);
    json_put_f64(w, "onset_error_p90_s", e->scores.onsets.p90_s);
    json_put_f64(w, "alarm_sensitivity", e->found.alarms.sensitivity);
    json_put_f64(w, "alarm_delay_p50_s", e->found.alarms.delay_p50_s);
    json_put_f64(w, "alarm_false_alarms_per_24h", e->found.alarms.false_alarms_per_24h);
    alarm_sets_to_json(&evaluation_alarm_sweep(e->evaluation)->sets, w, "alarm_sets");
    evaluate_report_baselines(e, w);
    json_put_str(w, "definition", SCORE_DEFINITION);
    json_end(w, '}');
}

const struct task_work work_evaluate = {
    .open = evaluate_open,
    .run = evaluate_run,
    .result = evaluate_result,
    .close = evaluate_close,
    .estimate = estimate_evaluate,
};
