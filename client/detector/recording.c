/* A recording of brr_detector.h: an eegfile, its facts as the library's structures have them, and its labels. */

#include "base/arena.h"
#include "client/detector/open_detector.h"
#include "eeg/labels.h"
#include "formats/eegfile.h"

struct brr_recording {
    struct eegfile *file;
    struct arena arena; /* of the arrays of facts */
    struct brr_recording_facts facts;
    struct labels labels;
    struct brr_recording_span *spans;
    char path[4096], start[32];
};

static void copy_channels(brr_recording *r, const struct eeg_info *info, struct brr_recording_channel *to) {
    for (int i = 0; i < info->n_signals; i++) {
        const struct eeg_signal *s = &info->signals[i];
        to[i] = (struct brr_recording_channel){SAME_MEMBERS(*s, label, unit, note, rate_hz, samples_per_record),
                                               .readable = s->usable && !s->annotation, .volt = s->volt ? 1 + s->unit_unstated : 0};
    }
    r->facts.channels = to;
    r->facts.n_channels = info->n_signals;
}

static int keep_facts(brr_recording *r, struct err *err) {
    const struct eeg_info *info = eegfile_info(r->file);
    struct brr_recording_channel *channels = arena_alloc(&r->arena, sizeof *channels * (size_t)(info->n_signals + 1));
    struct brr_recording_segment *segments = arena_alloc(&r->arena, sizeof *segments * (size_t)(info->n_segments + 1));
    struct brr_recording_annotation *annotations = arena_alloc(&r->arena, sizeof *annotations * (info->n_annotations + 1));
    if (!channels || !segments || !annotations)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the facts of %s", r->path);
    eegfile_start_text(r->file, r->start, sizeof r->start);
    const int64_t micros = llround(info->start.subsecond * 1e6);
    if (info->start.known && micros > 0 && micros < 1000000)
        str_format(r->start + strlen(r->start), 8, ".%06lld", (long long)micros);
    r->facts = (struct brr_recording_facts){.format = eegfile_format(r->file),
                                            .start = r->start,
                                            .duration_s = info->duration_s,
                                            .n_records = info->n_records,
                                            .segments = segments,
                                            .n_segments = info->n_segments,
                                            .annotations = annotations,
                                            .n_annotations = (int64_t)info->n_annotations,
                                            .repairs = info->repairs,
                                            .n_repairs = info->n_repairs};
    copy_channels(r, info, channels);
    for (int i = 0; i < info->n_segments; i++)
        segments[i] =
            (struct brr_recording_segment){info->segments[i].first_record, info->segments[i].n_records, info->segments[i].start_s};
    for (size_t i = 0; i < info->n_annotations; i++)
        annotations[i] = (struct brr_recording_annotation){info->annotations[i].onset_s, info->annotations[i].duration_s,
                                                           info->annotations[i].text};
    return 0;
}

static int open_recording(brr_recording *r, const char *path, struct err *err) {
    int rc;
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a recording");
    if (!path || !*path || strlen(path) >= sizeof r->path)
        return err_set(err, ERR_INVALID, "the path of a recording has 1 to %zu bytes", sizeof r->path - 1);
    str_copy(r->path, sizeof r->path, path);
    arena_init(&r->arena, SIZE_MAX);
    rc = eegfile_open(path, &r->file, err);
    return rc ? rc : keep_facts(r, err);
}

int brr_recording_open(const char *path, brr_recording **ret, struct brr_detector_error *err) {
    struct err e = {0};
    brr_recording *r = calloc(1, sizeof *r);
    const int rc = open_recording(r, path, &e);
    if (rc)
        brr_recording_close(r);
    else
        *ret = r;
    return detector_report(rc, &e, err);
}

void brr_recording_close(brr_recording *recording) {
    if (!recording)
        return;
    free(recording->spans);
    labels_done(&recording->labels);
    arena_done(&recording->arena);
    eegfile_close(recording->file);
    free(recording);
}

int brr_recording_get(const brr_recording *recording, struct brr_recording_facts *ret, struct brr_detector_error *err) {
    struct err e = {0};
    struct brr_recording_facts known, facts;
    const int rc =
        recording ? detector_arguments(ret, &known, sizeof known, &e) : err_set(&e, ERR_INVALID, "the recording is NULL");
    if (rc)
        return detector_report(rc, &e, err);
    facts = recording->facts;
    facts.size = known.size;
    memcpy(ret, &facts, known.size < sizeof facts ? known.size : sizeof facts);
    return 0;
}

int brr_recording_read(const brr_recording *recording, const int32_t *channels, int32_t n_channels,
                       struct brr_recording_range range, float *const *uv, struct brr_detector_error *err) {
    struct err e = {0};
    int rc;
    if (!recording || !channels || !uv || n_channels < 1)
        rc = err_set(&e, ERR_INVALID, "a recording, its channels and room for their samples are needed; one of them is missing");
    else
        rc = eegfile_read(recording->file, channels, n_channels, (struct eeg_range){range.first, range.n}, uv, &e);
    return detector_report(rc, &e, err);
}

static int load_labels(brr_recording *r, const char *rule, bool unknown, struct brr_recording_labels *ret, struct err *err) {
    if (!r)
        return err_set(err, ERR_INVALID, "the recording is NULL");
    free(r->spans);
    r->spans = NULL;
    labels_done(&r->labels);
    r->labels = (struct labels){0};
    int rc = labels_load(r->path, rule ? rule : "auto", r->file, &r->labels, err);
    if (rc)
        return rc;
    const struct label_run *runs = unknown ? r->labels.unknown : r->labels.runs;
    const size_t n = unknown ? r->labels.n_unknown : r->labels.n_runs;
    r->spans = calloc(n + 1, sizeof *r->spans);
    if (!r->spans)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the labels of %s", r->path);
    for (size_t i = 0; i < n; i++)
        r->spans[i] = (struct brr_recording_span){runs[i].onset_s, runs[i].end_s,
                                                  *runs[i].code ? runs[i].code
                                                  : unknown     ? "unknown"
                                                                : "sz"};
    ret->spans = r->spans;
    ret->n_spans = (int64_t)n;
    ret->source = labels_source_name(r->labels.source);
    return 0;
}

int brr_recording_find_labels(brr_recording *recording, const char *rule, int32_t unknown, struct brr_recording_labels *ret,
                              struct brr_detector_error *err) {
    struct err e = {0};
    struct brr_recording_labels known;
    int rc = detector_arguments(ret, &known, sizeof known, &e);
    if (rc == 0)
        rc = load_labels(recording, rule, unknown != 0, &known, &e);
    if (rc == 0)
        memcpy(ret, &known, known.size < sizeof known ? known.size : sizeof known);
    return detector_report(rc, &e, err);
}
