#include "evaluate/evaluate_report.h"

#include "base/clones.h"
#include "eeg/half_rows.h"
#include "eeg/montage.h"
#include "evaluate/evaluate_operating.h"
#include "plot/plot.h"
#include "windows/recording.h"

enum { PATH_SIZE = 4096, REPORT_BYTES = 256 << 20, PLOT_VALUES = 4096 };

/* Detected events as seconds, malloc'd. */
static struct score_event *in_seconds(const struct evaluation_recording *r) {
    struct score_event *out = malloc(((size_t)r->n_events + 1) * sizeof *out);
    for (int64_t i = 0; out && i < r->n_events; i++)
        out[i] = (struct score_event){(double)r->events[i].first / FRONTEND_RATE_HZ, (double)r->events[i].end / FRONTEND_RATE_HZ};
    return out;
}

static struct score_recording as_scored(const struct evaluation_recording *r, const struct score_event *hyp) {
    return (struct score_recording){SAME_MEMBERS(r->trace, name, subject, duration_s, ref, n_ref, unsure, n_unsure, gaps, n_gaps),
                                    .hyp = hyp, .n_hyp = (int)r->n_events};
}

static int score_recordings(struct evaluate *e, struct score_recording *recs, int n, struct err *err) {
    for (int i = 0; i < n; i++) {
        struct evaluation_recording r;
        evaluation_recording(e->evaluation, i, &r);
        recs[i] = as_scored(&r, in_seconds(&r));
        if (!recs[i].hyp)
            return err_set(err, ERR_EXHAUSTED, "out of memory for scores");
    }
    return score_all(recs, n, &e->scores, err);
}

int evaluate_report_score(struct evaluate *e, struct err *err) {
    int n = evaluation_count(e->evaluation);
    OWNED_MEMORY struct score_recording *recs = calloc((size_t)n + 1, sizeof *recs);
    if (!recs)
        return err_set(err, ERR_EXHAUSTED, "out of memory for scores");
    int rc = score_recordings(e, recs, n, err);
    for (int i = 0; i < n; i++)
        free((void *)(uintptr_t)recs[i].hyp);
    return rc;
}

/* DIR/FOLDER/<relative path with another ending>, its directory made. */
static int output_path(const struct evaluate *e, const char *folder, const char *relative, char path[PATH_SIZE], struct err *err) {
    if (!str_format(path, PATH_SIZE, "%s/%s/%s", e->env.directory, folder, relative))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", relative);
    return fsio_mkdirs_above(path, err);
}

/* X_alarms.tsv beside X_events.tsv: a row for each alarm, at the moment at which it turned on. */
static int write_alarms(const struct evaluation_recording *r, const char *events, struct err *err) {
    char path[PATH_SIZE];
    const struct events_header header = {.recording_s = r->trace.duration_s};
    OWNED_MEMORY struct label_run *runs = calloc((size_t)r->n_alarms + 1, sizeof *runs);
    if (!runs)
        return err_set(err, ERR_EXHAUSTED, "out of memory for alarms");
    for (int i = 0; i < r->n_alarms; i++)
        runs[i] = (struct label_run){.onset_s = r->alarms_s[i], .end_s = r->alarms_s[i], .confidence = NAN, .code = "alarm"};
    if (!str_format(path, sizeof path, "%.*s_alarms.tsv", (int)(strlen(events) - strlen("_events.tsv")), events))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", events);
    return events_write(events_format_find("tsv"), path, runs, (size_t)r->n_alarms, &header, err);
}

static int write_events(struct evaluate *e, const struct evaluation_recording *r, struct err *err) {
    char relative[PATH_SIZE], path[PATH_SIZE];
    OWNED_MEMORY struct label_run *runs = calloc((size_t)r->n_events + 1, sizeof *runs);
    struct events_header header = {.recording_s = r->trace.duration_s};
    if (!runs)
        return err_set(err, ERR_EXHAUSTED, "out of memory for events");
    for (int64_t i = 0; i < r->n_events; i++)
        runs[i] = (struct label_run){.onset_s = (double)r->events[i].first / FRONTEND_RATE_HZ,
                                     .end_s = (double)r->events[i].end / FRONTEND_RATE_HZ,
                                     .confidence = r->events[i].confidence,
                                     .code = "sz"};
    int rc;
    if ((rc = events_path(events_format_find("tsv"), r->entry->relative_path, relative, sizeof relative, err)) ||
        (rc = output_path(e, "events", relative, path, err)))
        return rc;
    if ((rc = events_write(events_format_find("tsv"), path, runs, (size_t)r->n_events, &header, err)) ||
        e->config->alarm_hop_s <= 0)
        return rc;
    return write_alarms(r, path, err);
}

/* Widens the extremes of n channels by those of some rows. */
CLONES static void widen_extremes(const float *restrict x, int64_t rows, int columns, int n, float *restrict low,
                                  float *restrict high) {
    for (int64_t r = 0; r < rows; r++, x += columns)
#pragma omp simd
        for (int c = 0; c < n; c++) {
            low[c] = x[c] < low[c] ? x[c] : low[c];
            high[c] = x[c] > high[c] ? x[c] : high[c];
        }
}

/* Of rows that are drawn in one column. */
static void trace_rows(struct plot_trace *channels, int n, int64_t at, const uint16_t *half, int64_t rows, int columns) {
    float x[PLOT_VALUES], low[PLOT_MAX_CHANNELS], high[PLOT_MAX_CHANNELS];
    const int64_t most = PLOT_VALUES / columns;
    for (int c = 0; c < n; c++) {
        low[c] = INFINITY;
        high[c] = -INFINITY;
    }
    for (int64_t i = 0, some; i < rows; i += some) {
        some = rows - i < most ? rows - i : most;
        half_to_floats(half + i * columns, (size_t)(some * columns), x);
        widen_extremes(x, some, columns, n, low, high);
    }
    for (int c = 0; c < n; c++)
        plot_trace_extend(&channels[c], at, low[c], high[c]);
}

/* The filtered channels as envelopes. */
static void trace_channels(const struct evaluation_recording *r, struct plot_trace *channels, int n) {
    struct recording_info info;
    recording_info(r->entry->recording, &info);
    for (int s = 0; n && s < info.n_segments; s++)
        for (int64_t at = info.segments[s].first, until; at < info.segments[s].end; at = until) {
            until = plot_trace_until(channels, at);
            until = until < info.segments[s].end ? until : info.segments[s].end;
            trace_rows(channels, n, at, recording_rows(r->entry->recording, s, at), until - at, info.columns);
        }
}

static void trace_probability(const struct evaluation_recording *r, const float *p, struct plot_trace *trace) {
    for (int s = 0; s < r->trace.n_segments; s++) {
        int64_t n = r->trace.segments[s].end - r->trace.segments[s].first;
        plot_trace_add(trace, r->trace.segments[s].first, p, n);
        p += n + 1;
    }
}

static void names_free(const char *const **names) { montage_channels_free(*names); }

static int draw(const char *path, const struct evaluate *e, const float *p, const struct evaluation_recording *r,
                struct plot_trace *traces, struct err *err) {
    const struct modelfile *file = &detector_info(e->detector)->file;
    const struct plot_trace *channels[PLOT_MAX_CHANNELS];
    OWNED(names_free) const char *const *names = NULL;
    int all = 0;
    OWNED_MEMORY struct score_event *hyp = in_seconds(r);
    OWNED_MEMORY struct plot_span *ref = calloc((size_t)r->trace.n_ref + 1, sizeof *ref);
    OWNED_MEMORY struct plot_span *found = calloc((size_t)r->n_events + 1, sizeof *found);
    char subtitle[512], notch[48];
    const double notch_hz = file->frontend.notch_hz;
    if (notch_hz == FRONTEND_BOTH_NOTCHES)
        str_copy(notch, sizeof notch, "notches 50 and 60 Hz");
    else
        str_format(notch, sizeof notch, "notch %g Hz", notch_hz);
    str_format(subtitle, sizeof subtitle, "%.100s; model %.200s (SHA-256 %.12s); %g to %g Hz, %s", e->job->name,
               e->config->checkpoint, detector_info(e->detector)->sha256, file->frontend.bandpass_hz[0],
               file->frontend.bandpass_hz[1], notch);
    int rc = montage_channels(file->montage, &names, &all, err);
    if (rc)
        return rc;
    int n = all < PLOT_MAX_CHANNELS ? all : PLOT_MAX_CHANNELS;
    if (!ref || !found || !hyp)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a plot");
    for (int c = 0; c < n; c++) {
        plot_trace_init(&traces[c + 1], names ? names[c] : "", r->trace.duration_s, FRONTEND_RATE_HZ);
        channels[c] = &traces[c + 1];
    }
    trace_channels(r, traces + 1, n);
    plot_trace_init(&traces[0], "probability", r->trace.duration_s, FRONTEND_RATE_HZ);
    trace_probability(r, p, &traces[0]);
    for (int i = 0; i < r->trace.n_ref; i++)
        ref[i] = (struct plot_span){r->trace.ref[i].onset_s, r->trace.ref[i].end_s};
    for (int64_t i = 0; i < r->n_events; i++)
        found[i] = (struct plot_span){hyp[i].onset_s, hyp[i].end_s};
    struct plot_recording plot = {.title = r->entry->relative_path,
                                  .subtitle = subtitle,
                                  .has_alarms = e->config->alarm_hop_s > 0,
                                  .duration_s = r->trace.duration_s,
                                  .channels = channels,
                                  .n_channels = n,
                                  .probability = &traces[0],
                                  SAME_MEMBERS(e->found.events, on, off),
                                  .detected = found,
                                  .n_detected = (int)r->n_events,
                                  .reference = ref,
                                  .n_reference = r->trace.n_ref,
                                  .has_reference = true,
                                  SAME_MEMBERS(*r, alarms_s, n_alarms)};
    return plot_recording(path, &plot, err);
}

static int write_plot(struct evaluate *e, int index, const struct evaluation_recording *r, struct err *err) {
    OWNED(trace_drop) struct trace_values shown = {0};
    char relative[PATH_SIZE], path[PATH_SIZE];
    OWNED_MEMORY struct plot_trace *traces = calloc(PLOT_MAX_CHANNELS + 1, sizeof *traces);
    int rc;
    if (!traces)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a plot");
    if (!str_format(relative, sizeof relative, "%s.svg", r->entry->relative_path))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", r->entry->relative_path);
    rc = output_path(e, "plots", relative, path, err);
    rc = rc ? rc : evaluation_read_trace(e->evaluation, index, &shown, err);
    return rc ? rc : draw(path, e, shown.p, r, traces, err);
}

int evaluate_report_recording(struct evaluate *e, int index, struct err *err) {
    struct evaluation_recording r;
    evaluation_recording(e->evaluation, index, &r);
    int rc;
    if ((rc = write_events(e, &r, err)) || (index < e->config->plots && (rc = write_plot(e, index, &r, err))))
        return rc;
    return 0;
}

static void put_recording(const struct evaluate *e, struct json_writer *w, struct str *table,
                          const struct evaluation_recording *r) {
    struct score_counts counts[SCORE_KINDS] = {{0}};
    OWNED_MEMORY struct score_event *hyp = in_seconds(r);
    struct score_recording rec = as_scored(r, hyp);
    if (!hyp || score_recording(&rec, counts, NULL)) {
        return;
    }
    const struct score_counts *event = &counts[SCORE_EVENT], *overlap = &counts[SCORE_ANY_OVERLAP];
    json_begin_object(w, NULL);
    json_put_str(w, "recording", r->entry->relative_path);
    json_put_str(w, "subject", r->entry->patient);
    json_put_f64(w, "duration_s", r->trace.duration_s);
    json_put_f64(w, "recorded_s", 3600 * score_trace_hours(&r->trace));
    json_put_i64(w, "reference_seizures", r->trace.n_ref);
    json_put_i64(w, "detected_events", r->n_events);
    for (int k = 0; k < SCORE_KINDS; k++) {
        JSON_OBJECT(w, score_kind_name((enum score_kind)k), counts[k], tp, fp, ref);
    }
    json_put_i64(w, "alarms", r->n_alarms);
    struct recording_info info;
    recording_info(r->entry->recording, &info);
    if (*info.note)
        json_put_str(w, "note", info.note);
    const char *mislabelled = e->kept[r->index] ? e->mislabelled[r->index] : recording_mislabelled(r->entry->recording);
    if (*mislabelled)
        json_put_str(w, "mislabelled", mislabelled);
    json_end(w, '}');
    str_printf(table, "%s\t%s\t%.2f\t%d\t%lld\t%g\t%g\t%g\t%g\n", r->entry->relative_path, r->entry->patient,
               score_trace_hours(&r->trace), r->trace.n_ref, (long long)r->n_events, event->tp, event->fp, overlap->tp,
               overlap->fp);
}

void evaluate_report_baselines(const struct evaluate *e, struct json_writer *w) {
    json_begin_array(w, "baselines");
    for (size_t i = 0; i < EVALUATE_MAX_BASELINES && e->baselines[i]; i++)
        baseline_json(e->baselines[i], w);
    json_end(w, ']');
}

static void put_head(struct json_writer *w, const struct evaluate *e) {
    const struct detector_info *info = detector_info(e->detector);
    json_put_str(w, "kind", "evaluation");
    json_put_str(w, "definition", SCORE_DEFINITION);
    if (task_model_is_url(e->config->checkpoint))
        json_put_str(w, "model", e->config->checkpoint);
    json_put_str(w, "model_sha256", info->sha256);
    json_put_i64(w, "model_step", info->file.step);
    json_put_str(w, "montage", info->file.montage);
    events_config_to_json(&e->found.events, w, "events");
    if (e->config->threshold == EVALUATE_THRESHOLD_AUTO)
        json_put_str(w, "selected_on", "evaluation"); /* the thresholds, and so the scores, are of the same recordings */
    json_put_str(w, "evaluated", e->config->unseen ? "unseen" : "all");
    json_put_bool(w, "not_seen", e->config->not_seen); /* declared, not known */
    seen_patients_json(&e->seen, e->manifest, w, "patients");
    JSON_MEMBERS(w, e->found, auroc, auroc_error_most, loss);
    evaluate_report_baselines(e, w);
    score_sweep_json(evaluation_sweep(e->evaluation), w, "sweep");
    if (e->config->alarm_hop_s > 0)
        score_alarm_report_json(&e->found.alarms, w, "alarms");
    if (e->config->alarm_hop_s > 0)
        alarm_sweep_json(evaluation_alarm_sweep(e->evaluation), w, "alarm_sweep");
}

/* Recordings that the scores leave out, as they cannot be used. */
static void put_unusable(struct json_writer *w, const struct evaluate *e) {
    json_begin_array(w, "unusable");
    for (int64_t i = 0; i < manifest_count(e->manifest); i++) {
        const struct manifest_entry *entry = manifest_entry(e->manifest, i);
        if (!entry->error && !e->errors[i])
            continue;
        json_begin_object(w, NULL);
        json_put_str(w, "recording", entry->relative_path);
        json_put_str(w, "error", entry->error ? entry->error : e->errors[i]);
        json_end(w, '}');
    }
    json_end(w, ']');
}

/* The patients of the recordings that chose the thresholds, as a model file names those of a training's validation. */
static int write_selected(const struct evaluate *e, struct err *err) {
    char path[PATH_SIZE];
    OWNED(str_done) struct str text = str_of(REPORT_BYTES);
    struct json_writer w = json_to(&text);
    int rc = fsio_join(path, sizeof path, e->env.directory, "selected.json", err);
    patients_put_dataset(e->manifest, e->role, manifest_hash(e->manifest), e->job->data->dataset, &w);
    return rc ? rc : fsio_write_text(path, &text, err);
}

int evaluate_report_write(struct evaluate *e, struct err *err) {
    char path[PATH_SIZE], table_path[PATH_SIZE];
    OWNED(str_done) struct str out, scores, table;
    struct json_writer w;
    int rc;
    str_init(&out, REPORT_BYTES);
    str_init(&scores, REPORT_BYTES);
    str_init(&table, REPORT_BYTES);
    if (!str_format(path, sizeof path, "%s/report.json", e->env.directory) ||
        !str_format(table_path, sizeof table_path, "%s/recordings.tsv", e->env.directory))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", e->env.directory);
    json_writer_init(&w, &scores);
    score_report_json(&e->scores, &w);
    json_writer_init(&w, &out);
    json_begin_object(&w, NULL);
    put_head(&w, e);
    put_unusable(&w, e);
    json_put_raw(&w, "scores", str_cstr(&scores));
    json_begin_array(&w, "recordings");
    str_puts(&table, "recording\tsubject\thours\treference\tdetected\tevent_tp\tevent_fp\toverlap_tp\toverlap_fp\n");
    for (int i = 0; i < evaluation_count(e->evaluation); i++) {
        struct evaluation_recording r;
        evaluation_recording(e->evaluation, i, &r);
        put_recording(e, &w, &table, &r);
    }
    json_end(&w, ']');
    json_end(&w, '}');
    str_puts(&out, "\n");
    if (!str_ok(&scores))
        return err_set(err, ERR_EXHAUSTED, "%s: the scores take more than %d bytes", path, REPORT_BYTES);
    if ((rc = fsio_write_text(path, &out, err)) || (rc = fsio_write_text(table_path, &table, err)) ||
        (e->config->threshold == EVALUATE_THRESHOLD_AUTO && (rc = write_selected(e, err))))
        return rc;
    return evaluate_operating(e, err);
}
