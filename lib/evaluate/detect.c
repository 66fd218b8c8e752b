/* The detect task: a model over recordings that need no labels, an events file for each. Montage, filters, window, hop and
 * thresholds are the model's. A recording that cannot be used is listed and the others are done. After a stop it goes on with the
 * recordings whose events are not there yet. */

#include "base/counted.h"
#include "base/grow.h"
#include "base/order.h"
#include "detect/detect_list.h"
#include "detect/detector.h"
#include "detect/focus.h"
#include "detect/timeline.h"
#include "eeg/events.h"
#include "evaluate/detect_kind.h"
#include "evaluate/estimate_manifest.h"
#include "evaluate/evaluate_patients.h"
#include "evaluate/flight.h"
#include "evaluate/task_eeg.h"
#include "formats/eegfile.h"
#include "store/mirror.h"
#include "windows/loader.h"
#include "windows/manifest.h"
#include "windows/recording.h"

enum { WAIT_MS = 20 };

/* Result of one entry of the manifest. */
struct outcome {
    bool done;
    double duration_s, seizure_s, suppressed_s, largest_suppression, highest;
    int64_t events, bursts;
    char *error;       /* malloc'd; of the manifest's bad entries it stands there */
    char *mislabelled; /* malloc'd: what the samples said in an earlier attempt (recording_mislabelled); NULL: they are read in this
                        */
};

/* What a recording under way has given so far. */
struct seat {
    const char *montage; /* of the model */
    struct label_run *runs;
    int64_t n_runs, capacity;
    double seizure_s, largest_suppression, highest;
};

struct detect {
    const struct jobfile *job;
    struct task_env env;
    struct stream *stream;
    struct manifest *manifest;
    struct detector *detector;
    struct outcome *outcomes; /* per entry */
    struct loader *loader;
    int64_t *queue, n_queue; /* entries to be done, in order */
    struct flight *flight;   /* over the queue */
    struct seat seats[FLIGHT_MOST];
    struct events_config thresholds;
    struct detect_list *list;
    char list_path[DETECT_LIST_PATH];
    struct task_progress progress;
    int64_t done, failed, events; /* of all that ended */
    double hours, seizure_sum_s, suppressed_sum_s;
    struct seen_patients seen;
};

static const struct events_format *output_format(const struct detect *d) {
    return events_format_at(((const struct detect_config *)d->job->config)->format);
}

static void outcome_done(struct outcome *o) { FREE_MEMBERS(*o, error, mislabelled); }

static void detect_close(void *task) {
    struct detect *d = task;
    if (!d)
        return;
    if (d->env.mirror)
        mirror_stop(d->env.mirror);
    flight_free(d->flight);
    loader_stop(d->loader);
    detect_list_end(d->list);
    seen_patients_done(&d->seen);
    detector_close(d->detector);
    for (int64_t i = 0; d->outcomes && i < manifest_count(d->manifest); i++)
        outcome_done(&d->outcomes[i]);
    manifest_close(d->manifest);
    stream_close(d->stream);
    FREE_MEMBERS(*d, outcomes, queue);
    for (int i = 0; i < FLIGHT_MOST; i++)
        free(d->seats[i].runs);
    free(d);
}

/* ---- its recordings ---- */

static int open_data(struct detect *d, struct err *err) {
    struct manifest_config config = task_manifest_config(d->job, &d->env, &detector_info(d->detector)->file);
    int rc = task_open_manifest(&d->env, &d->progress, &config, &d->manifest, err);
    if (rc)
        return rc;
    const struct seen_question question = {
        .manifest = d->manifest, .dataset = d->job->data->dataset, .patients = detector_info(d->detector)->patients};
    if ((rc = seen_patients_init(&d->seen, &question, err)))
        return rc;
    size_t n = (size_t)manifest_count(d->manifest);
    d->outcomes = calloc(n + 1, sizeof *d->outcomes);
    d->queue = calloc(n + 1, sizeof *d->queue);
    return d->outcomes && d->queue ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for %zu recordings", n);
}

static void free_paths(char ***paths) {
    for (char **p = *paths; p && *p; p++)
        free(*p);
    free(*paths);
}

/* Two recordings that would write the same file are a mistake. */
static int check_outputs(const struct detect *d, struct err *err) {
    int64_t n = manifest_count(d->manifest), given = 0;
    OWNED(free_paths) char **paths = calloc((size_t)n + 1, sizeof *paths);
    char path[DETECT_LIST_PATH];
    if (!paths)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld recordings", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const struct manifest_entry *e = manifest_entry(d->manifest, i);
        int rc = e->recording ? events_path(output_format(d), e->relative_path, path, sizeof path, err) : 0;
        if (rc)
            return rc;
        if (e->recording && !(paths[given++] = strdup(path)))
            return err_set(err, ERR_EXHAUSTED, "out of memory for %lld recordings", (long long)n);
    }
    SORT(paths, given, order_strings);
    for (int64_t i = 1; i < given; i++)
        if (!strcmp(paths[i - 1], paths[i]))
            return err_set(err, ERR_INVALID, "two recordings would both be written to %s; give them in separate jobs", paths[i]);
    return 0;
}

static void count(struct detect *d, const struct outcome *o) {
    struct recording_info info;
    recording_info(manifest_entry(d->manifest, o - d->outcomes)->recording, &info);
    d->done++;
    d->events += o->events;
    d->hours += recording_recorded_s(&info) / 3600;
    d->seizure_sum_s += o->seizure_s;
    d->suppressed_sum_s += o->suppressed_s;
}

/* Results of an earlier attempt stay valid if recording and model are still the same and the file is there. */
static int keep_row(void *ctx, const struct detect_row *row, struct err *err) {
    struct detect *d = ctx;
    char path[DETECT_LIST_PATH];
    int64_t i = manifest_find(d->manifest, row->recording);
    struct outcome *o = i < 0 ? NULL : &d->outcomes[i];
    if (!o || o->done || *row->error || !manifest_entry(d->manifest, i)->recording ||
        strcmp(row->key, recording_key(manifest_entry(d->manifest, i)->recording)) != 0 ||
        strcmp(row->model, detector_info(d->detector)->sha256) != 0 ||
        detect_events_path(d->env.directory, row, path, sizeof path, NULL) || !fsio_exists(path))
        return 0;
    *o = (struct outcome){.done = true,
                          SAME_MEMBERS(*row, duration_s, seizure_s, suppressed_s, largest_suppression, highest, events, bursts),
                          .mislabelled = strdup(row->mislabelled)};
    if (!o->mislabelled)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %s", row->recording);
    count(d, o);
    return 0;
}

/* ---- a recording under way ---- */

/* The highest ratio of a whole minute. */
static int keep_suppression(void *ctx, const struct suppression_report *report, struct err *err) {
    struct seat *seat = ctx;
    (void)err;
    if (report->observed == SUPPRESSION_WINDOW_S * FRONTEND_RATE_HZ && (double)report->ratio > seat->largest_suppression)
        seat->largest_suppression = (double)report->ratio;
    return 0;
}

static int keep_highest(void *ctx, int64_t first, const float *p, int64_t n, struct err *err) {
    struct seat *seat = ctx;
    (void)first, (void)err;
    for (int64_t i = 0; i < n; i++)
        if (!((double)p[i] <= seat->highest)) /* of numbers: NaN in gaps and before the first */
            seat->highest = fmax(seat->highest, (double)p[i]);
    return 0;
}

static int keep_event(void *ctx, const struct event *event, struct err *err) {
    struct seat *seat = ctx;
    if (!GROW(seat->runs, seat->n_runs, seat->capacity))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld events", (long long)seat->capacity);
    struct label_run *run = &seat->runs[seat->n_runs++];
    *run = (struct label_run){.onset_s = (double)event->first / FRONTEND_RATE_HZ,
                              .end_s = (double)event->end / FRONTEND_RATE_HZ,
                              .confidence = event->confidence};
    focus_list(seat->montage, event->where, run->channels);
    seat->seizure_s += (double)(event->end - event->first) / FRONTEND_RATE_HZ;
    return 0;
}

/* The header of a recording; of a mirror's the head is enough, else the whole file is taken, which *ret_taken says. */
static int open_header(const struct detect *d, const char *path, struct eegfile **ret, bool *ret_taken, struct err *err) {
    char whole[DETECT_LIST_PATH];
    bool enough = false;
    int rc;
    if (!d->env.mirror)
        return eegfile_open_header(path, ret, err);
    if (!eegfile_open_head(path, (struct eegfile_sizes){mirror_bytes, d->env.mirror}, ret, &enough, NULL))
        return 0;
    if ((rc = mirror_take(d->env.mirror, path, whole, err)))
        return rc;
    *ret_taken = true;
    return eegfile_open_header(whole, ret, err);
}

static int write_file(const struct detect *d, const struct seat *seat, const struct detect_row *row, const struct eegfile *edf,
                      struct err *err) {
    char path[DETECT_LIST_PATH], start[32];
    struct events_header header = {
        .recording_s = row->duration_s, .record_name = fsio_basename(row->recording), .source = eegfile_info(edf)};
    const char *text = eegfile_start_text(edf, start, sizeof start);
    header.start_text = strcmp(text, "n/a") ? text : NULL;
    int rc;
    if ((rc = detect_events_path(d->env.directory, row, path, sizeof path, err)) || (rc = fsio_mkdirs_above(path, err)))
        return rc;
    return events_write(output_format(d), path, seat->runs, (size_t)seat->n_runs, &header, err);
}

static int write_events(const struct detect *d, const struct seat *seat, const struct detect_row *row, struct err *err) {
    char path[DETECT_LIST_PATH];
    OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL;
    bool taken = false;
    int rc;
    if ((rc = fsio_join(path, sizeof path, d->env.data_root, row->recording, err)))
        return rc;
    rc = open_header(d, path, &edf, &taken, err);
    rc = rc ? rc : write_file(d, seat, row, edf, err);
    if (taken)
        mirror_drop(d->env.mirror, path);
    return rc;
}

/* How the montage was met, what was repaired, and mislabelled channels. */
static void describe_source(const struct recording_info *info, struct detect_row *row) {
    const char *const parts[] = {info->note, info->faults, row->mislabelled};
    OWNED(str_done) struct str text = str_of(sizeof row->note - 1);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (*parts[i])
            str_printf(&text, "%s%s", text.len ? "; " : "", parts[i]);
    str_copy(row->note, sizeof row->note, str_cstr(&text));
}

static void describe(const struct detect *d, int64_t i, struct detect_row *row) {
    const struct manifest_entry *entry = manifest_entry(d->manifest, i);
    const struct outcome *o = &d->outcomes[i];
    const char *error = o->error ? o->error : entry->error;
    *row = (struct detect_row){SAME_MEMBERS(*o, duration_s, seizure_s, suppressed_s, largest_suppression, highest),
                               .threshold_on = d->thresholds.on, .events = o->events, .bursts = o->bursts};
    str_copy(row->recording, sizeof row->recording, entry->relative_path);
    str_copy(row->error, sizeof row->error, o->done ? "" : error ? error : "not done");
    str_copy(row->format, sizeof row->format, output_format(d)->name);
    str_copy(row->model, sizeof row->model, detector_info(d->detector)->sha256);
    if (!entry->recording)
        return;
    struct recording_info info;
    recording_info(entry->recording, &info);
    str_copy(row->mislabelled, sizeof row->mislabelled, o->mislabelled ? o->mislabelled : recording_mislabelled(entry->recording));
    describe_source(&info, row);
    str_copy(row->key, sizeof row->key, recording_key(entry->recording));
}

static void row_of(void *ctx, int64_t i, struct detect_row *ret) { describe(ctx, i, ret); }

static enum flight_begun begin_recording(void *ctx, int64_t i, int at, struct timeline **ret, struct err *err) {
    struct detect *d = ctx;
    struct seat *seat = &d->seats[at];
    const struct manifest_entry *entry = manifest_entry(d->manifest, d->queue[i]);
    const struct timeline_sink sink = {.ctx = seat,
                                       .probabilities = keep_highest,
                                       .event = keep_event,
                                       .suppression = keep_suppression,
                                       .suppression_whole = true};
    const struct timeline_options options = {.events = &d->thresholds};
    const bool alone = !flight_under_way(d->flight);
    if (!loader_wait(d->loader, i, alone ? WAIT_MS : 0)) { /* still being fetched or decoded */
        if (alone)
            task_file(&d->env, entry->relative_path);
        return FLIGHT_WAITS;
    }
    task_file(&d->env, NULL);
    seat->montage = detector_info(d->detector)->file.montage;
    seat->n_runs = 0;
    seat->seizure_s = seat->largest_suppression = 0;
    seat->highest = NAN;
    if (!loader_result(d->loader, i, err))
        timeline_new_cached(&detector_info(d->detector)->file, entry->recording, &options, &sink, ret, err);
    return FLIGHT_FLIES;
}

static int end_recording(void *ctx, int at, struct timeline *timeline, struct err *err) {
    struct detect *d = ctx;
    const struct seat *seat = &d->seats[at];
    int64_t i = d->queue[flight_number(d->flight, at)];
    const struct manifest_entry *entry = manifest_entry(d->manifest, i);
    struct suppression_totals suppression;
    struct recording_info info;
    struct detect_row row;
    int rc = task_check_recording(&d->env, d->job, entry, err);
    if (rc)
        return rc;
    recording_info(entry->recording, &info);
    timeline_suppression(timeline, &suppression);
    d->outcomes[i] = (struct outcome){.done = true,
                                      .duration_s = info.duration_s,
                                      SAME_MEMBERS(*seat, seizure_s, largest_suppression, highest),
                                      .suppressed_s = (double)suppression.suppressed / FRONTEND_RATE_HZ,
                                      .events = seat->n_runs,
                                      .bursts = suppression.bursts};
    describe(d, i, &row);
    if ((rc = write_events(d, seat, &row, err)))
        return rc;
    recording_unload(entry->recording); /* thousands of them would stay mapped */
    count(d, &d->outcomes[i]);
    rc = detect_list_add(d->list, &row, err);
    task_phase(&d->env, &d->progress, "detect", d->done + d->failed, manifest_count(d->manifest));
    return rc;
}

/* Its samples turned out not to be usable. */
static int give_up(void *ctx, int64_t at, struct err *why, struct err *err) {
    struct detect *d = ctx;
    int64_t i = d->queue[at];
    char text[800];
    err_wrap(why, "%s", manifest_entry(d->manifest, i)->relative_path);
    if (!task_goes_on_without(&d->env, d->job, why)) {
        if (err)
            *err = *why;
        return why->code;
    }
    task_log(&d->env, TASK_WARN, "%s", err_text(why, text, sizeof text));
    if (!(d->outcomes[i].error = strdup(text)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a recording that cannot be used");
    d->failed++;
    task_phase(&d->env, &d->progress, "detect", d->done + d->failed, manifest_count(d->manifest));
    return 0;
}

/* ---- its course ---- */

/* The queue of what is left, and the threads that make it ready. */
static int begin(struct detect *d, struct err *err) {
    int64_t n = manifest_count(d->manifest);
    int rc;
    if (!str_format(d->list_path, sizeof d->list_path, "%s/%s", d->env.directory, DETECT_LIST_NAME))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", d->env.directory);
    if ((rc = check_outputs(d, err)) || (rc = detect_list_read(d->list_path, keep_row, d, err)))
        return rc;
    if (d->done)
        task_log(&d->env, TASK_INFO, "%s done before", counted(d->done, "recording").text);
    OWNED_MEMORY struct recording **recordings = calloc((size_t)n + 1, sizeof *recordings);
    if (!recordings)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld recordings", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        struct recording *rec = manifest_entry(d->manifest, i)->recording;
        d->failed += !rec;
        if (!rec || d->outcomes[i].done)
            continue;
        recordings[d->n_queue] = rec;
        d->queue[d->n_queue++] = i;
    }
    task_log(&d->env, TASK_INFO, "%s, %lld to be done, %lld that cannot be used", counted(n, "recording").text,
             (long long)d->n_queue, (long long)d->failed);
    const struct flight_config flight = {SAME_MEMBERS(*d, detector, stream), .n = d->n_queue,      .ctx = d,
                                         .begin = begin_recording,           .end = end_recording, .lost = give_up};
    if ((rc = detect_list_begin(d->list_path, &d->list, err)) || (rc = flight_new(&flight, &d->flight, err)))
        return rc;
    const struct loader_work work = {.recordings = recordings, .n = d->n_queue, .workers = (int)d->job->data->loader_workers};
    if ((rc = loader_start(&work, &d->loader, err)) || !d->n_queue)
        return rc;
    return detector_warm_up(d->detector, d->stream, d->n_queue, err); /* while the first recordings are read */
}

static int pick_thresholds(struct detect *d, const struct detect_config *c, struct err *err) {
    return events_config_with(&detector_info(d->detector)->file.events, c->on, c->off, &d->thresholds, err);
}

static int detect_open(const struct jobfile *job, const struct task_env *env, void **ret_task, struct err *err) {
    struct detect *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a detection");
    const struct detect_config *config = job->config;
    d->job = job;
    d->env = *env;
    task_progress_init(&d->progress);
    int rc;
    if ((rc = task_stream(env, &d->stream, err)) ||
        (rc = task_open_detector(env, config->model, config->precision, d->stream, &d->detector, err)) ||
        (rc = pick_thresholds(d, config, err)) || (rc = open_data(d, err)) || (rc = begin(d, err)))
        detect_close(d);
    else
        *ret_task = d;
    return rc;
}

static int conclude(struct detect *d, struct err *err) {
    int rc = detect_list_write(d->list_path, manifest_count(d->manifest), row_of, d, err);
    if (rc)
        return rc;
    for (int64_t i = 0; !d->done && i < manifest_count(d->manifest); i++)
        if (d->outcomes[i].error)
            return err_set(err, ERR_PRECONDITION, "none of %lld recordings can be used: %.300s", (long long)d->failed,
                           d->outcomes[i].error);
    return 0;
}

static int detect_run(void *task, struct err *err) {
    struct detect *d = task;
    int rc;
    while (!flight_is_over(d->flight))
        if ((rc = task_point(&d->env, err)) || (rc = flight_step(d->flight, err)))
            return rc;
    return conclude(d, err);
}

static void detect_result(void *task, struct json_writer *w, const char *key) {
    struct detect *d = task;
    json_begin_object(w, key);
    json_put_str(w, "source", d->job->data->source);
    json_put_str(w, "model_sha256", detector_info(d->detector)->sha256);
    json_put_str(w, "precision", detector_info(d->detector)->precision == DTYPE_BF16 ? "bf16" : "fp32");
    json_put_i64(w, "recordings", d->done);
    JSON_MEMBERS(w, *d, failed, hours, events);
    json_put_f64(w, "threshold_on", d->thresholds.on);
    json_put_f64(w, "threshold_off", d->thresholds.off);
    json_put_f64(w, "seizure_s", d->seizure_sum_s);
    json_put_f64(w, "suppressed_s", d->suppressed_sum_s);
    seen_patients_count_json(&d->seen, false, w, "patients_seen");
    json_end(w, '}');
}

const struct task_work work_detect = {
    .open = detect_open,
    .run = detect_run,
    .result = detect_result,
    .close = detect_close,
    .estimate = estimate_detect,
};
