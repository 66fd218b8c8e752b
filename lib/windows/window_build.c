/* Building one cache file: EDF and labels through the frontend into a recording. */

#include "base/json.h"
#include "eeg/dsp.h"
#include "eeg/labels_path.h"
#include "eeg/quality.h"
#include "formats/amplitude.h"
#include "store/mirror.h"
#include "windows/window_builder.h"

enum { READ_BYTES = 4 << 20, MOST_FAULTS = 2, INDEX_ROOM = 64 << 10 };
enum { MEASURED_BYTES = FEATURE_MEASURES * sizeof(double) / FEATURE_BLOCK }; /* of a sample */

/* The parts of a recording count in its key; those of other formats than EDF alone, so that keys of EDF stay. */
static int put_parts(const struct builder *b, struct json_writer *json, struct err *err) {
    const struct window_build *r = b->request;
    const char *header = b->taken ? b->recording_path : r->recording_path;
    struct window_stamp stamp;
    if (!eegfile_has_parts(header))
        return 0;
    int rc = window_stamp_parts(r->mirror, r->recording_path, header, &stamp, err);
    if (rc)
        return rc;
    json_put_str(json, "parts", stamp.hex);
    return 0;
}

/* Writes the key of the source among all sources. */
static int put_source(const struct builder *b, struct json_writer *json, struct err *err) {
    const struct window_build *r = b->request;
    char absolute[4096], *resolved;
    int64_t size, mtime_ns;
    struct mirror_file file;
    int rc;
    if (r->mirror) {
        if (!(rc = mirror_stat(r->mirror, r->recording_path, &file, err)))
            json_put_str(json, "object", file.version);
        return rc ? rc : put_parts(b, json, err);
    }
    if (!(resolved = realpath(r->recording_path, NULL)))
        return err_errno(err, errno, "cannot open %s", r->recording_path);
    bool fits = str_copy(absolute, sizeof absolute, resolved);
    free(resolved);
    if (!fits)
        return err_set(err, ERR_RANGE, "the path of %s is longer than %zu bytes", r->recording_path, sizeof absolute);
    if ((rc = fsio_size(absolute, &size, &mtime_ns, err)))
        return rc;
    json_put_str(json, "path", absolute);
    json_put_i64(json, "size", size);
    json_put_i64(json, "mtime_ns", mtime_ns);
    return put_parts(b, json, err);
}

static void put_runs(struct json_writer *json, const char *name, const struct label_run *runs, size_t n) {
    json_begin_array(json, name);
    for (size_t i = 0; i < n; i++) {
        json_put_f64(json, NULL, runs[i].onset_s);
        json_put_f64(json, NULL, runs[i].end_s);
    }
    json_end(json, ']');
}

/* The text whose SHA-256 is the key: everything that decides the bytes of the cache file. */
static int make_key(struct builder *b, struct err *err) {
    const struct window_build *r = b->request;
    OWNED(str_done) struct str text = str_of(64 << 20);
    struct json_writer json = json_to(&text);
    int rc;
    json_begin_object(&json, NULL);
    json_put_i64(&json, "version", RECORDING_VERSION);
    if ((rc = put_source(b, &json, err)))
        return rc;
    JSON_MEMBERS(&json, r->frontend, montage, notch_hz);
    json_put_f64(&json, "low_hz", r->frontend.bandpass_hz[0]);
    json_put_f64(&json, "high_hz", r->frontend.bandpass_hz[1]);
    json_put_f64(&json, "fill_gap_s", r->frontend.fill_gap_s);
    if (r->frontend.normalize != FRONTEND_WINDOW)
        json_put_str(&json, "normalize", frontend_normalize_name(r->frontend.normalize));
    if (r->frontend.reference != FRONTEND_REFERENCE_RECORDED)
        json_put_str(&json, "reference", frontend_reference_name(r->frontend.reference));
    if (r->frontend.learn_background)
        json_put_bool(&json, "learn_background", true);
    if (r->frontend.hold_background)
        json_put_bool(&json, "hold_background", true);
    if (r->hole_every_s > 0)
        json_put_f64(&json, "hole_every_s", r->hole_every_s);
    if (r->frontend.rename)
        json_put_str(&json, "rename", r->frontend.rename);
    if (r->frontend.unit)
        json_put_str(&json, "unit", r->frontend.unit);
    json_put_str(&json, "labels", r->labels);
    json_put_str(&json, "label_source", labels_source_name(b->labels.source));
    put_runs(&json, "runs", b->labels.runs, b->labels.n_runs);
    if (b->labels.n_unknown)
        put_runs(&json, "unknown", b->labels.unknown, b->labels.n_unknown);
    json_end(&json, '}');
    if (!str_ok(&text))
        return err_set(err, ERR_EXHAUSTED, "%s: too many label runs (%zu)", r->recording_path, b->labels.n_runs);
    digest_bytes(str_cstr(&text), text.len, b->key);
    return 0;
}

static int take_rows(void *ctx, const uint16_t *rows_f16, int64_t n, int64_t first, bool segment_start, bool held,
                     struct err *err) {
    struct builder *b = ctx;
    b->end = first + n;
    return recording_writer_rows(b->writer, rows_f16, n, first, segment_start, held, err);
}

int builder_segment_start(const struct eeg_segment *segment, double rate_hz, int64_t position, int64_t *ret, struct err *err) {
    int64_t start = llround(segment->start_s * rate_hz);
    if (start < position - 1)
        return err_set(err, ERR_DATA_LOSS, "records from %lld on start at %.3f s, before the end of the ones before them (%.3f s)",
                       (long long)segment->first_record, segment->start_s, (double)position / rate_hz);
    *ret = start > position ? start : position;
    return 0;
}

/* As in a stream. */
static void hold_missing(struct builder *b, float **uv, int channels, int64_t n) {
    for (int c = 0; c < channels; c++) {
        float held = b->missing[c].last;
        const bool some = missing_look(&b->missing[c], uv[c], c ? uv[c - 1] : NULL, n);
        for (int64_t i = 0; some && i < n; i++)
            (void)quality_hold(&uv[c][i], &held);
    }
}

/* Says what was held. A recording of which a channel lacks more than half is none of that channel. */
static int describe_missing(const struct builder *b, const struct channels *c, char *text, size_t size, struct err *err) {
    const int *used;
    const int n = frontend_sources(b->frontend, &used);
    struct missing_channel channels[FRONTEND_MAX_LABELS];
    int64_t samples = 0;
    for (int s = 0; s < b->n_segments; s++)
        samples += b->segments[s].n_records * c->samples_per_record;
    for (int i = 0; i < n; i++)
        channels[i] = (struct missing_channel){c->labels[used[i]], &b->missing[i]};
    return missing_describe(channels, n, samples, text, size, err);
}

/* ---- a recording that is built alone has a second thread, for the columns and the writing of the piece before ---- */

static atomic_int building;

static void *give_piece(void *arg) {
    struct builder *b = arg;
    b->gave = frontend_give(b->frontend, b->part[b->given], &b->give_error);
    return NULL;
}

/* Waits for the piece that is being given. */
static int end_giving(struct builder *b, struct err *err) {
    if (!b->gives)
        return 0;
    pthread_join(b->giver, NULL);
    b->gives = false;
    if (b->gave && err)
        *err = b->give_error;
    return b->gave;
}

static int push_piece(struct builder *b, const float *const *uv, int64_t n, struct err *err) {
    const int next = !b->given;
    if (!b->part[next] && !(b->part[next] = frontend_part_new()))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a piece of a recording");
    frontend_wait(b->frontend, b->part[next]);
    int rc = frontend_push(b->frontend, uv, n, err), gave = end_giving(b, err);
    frontend_wait(b->frontend, NULL);
    if (gave || rc)
        return gave ? gave : rc;
    b->given = next;
    b->gives = atomic_load(&building) < 2 && !pthread_create(&b->giver, NULL, give_piece, b);
    return b->gives ? 0 : frontend_give(b->frontend, b->part[next], err);
}

/* Decode one segment in pieces of about READ_BYTES and push it. */
static int push_segment(struct builder *b, const struct eeg_segment *segment, const int *signals, struct err *err) {
    const int *used;
    int channels = frontend_sources(b->frontend, &used), chosen[FRONTEND_MAX_LABELS], rc;
    for (int c = 0; c < channels; c++)
        chosen[c] = signals[used[c]];
    int64_t spr = b->info->signals[chosen[0]].samples_per_record;
    int64_t most = READ_BYTES / (int64_t)sizeof(float) / channels, length = segment->n_records * spr;
    int64_t piece = most < spr ? most : most - most % spr; /* whole records, if one fits */
    piece = piece < length ? piece : length;
    OWNED_MEMORY float **uv = calloc((size_t)channels, sizeof *uv);
    OWNED_MEMORY float *samples = malloc(sizeof *samples * (size_t)(piece * channels));
    if (!uv || !samples)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld samples", (long long)piece);
    for (int c = 0; c < channels; c++)
        uv[c] = samples + (int64_t)c * piece;
    for (int64_t at = 0, n; at < length; at += n) {
        n = length - at < piece ? length - at : piece;
        const struct eeg_range range = {segment->first_record * spr + at, n};
        if ((rc = eegfile_read(b->edf, chosen, channels, range, uv, err)))
            return rc;
        hold_missing(b, uv, channels, n);
        if ((rc = push_piece(b, (const float *const *)uv, n, err)))
            return rc;
    }
    return end_giving(b, err);
}

static int push_all(struct builder *b, const struct channels *c, struct err *err) {
    int64_t position = 0; /* source samples of file time */
    for (int s = 0; s < b->n_segments; s++) {
        const struct eeg_segment *segment = &b->segments[s];
        int64_t start = 0;
        int rc;
        if ((rc = builder_segment_start(segment, c->rate_hz, position, &start, err)) ||
            (start > position && (rc = frontend_gap(b->frontend, start - position, err))) ||
            (rc = push_segment(b, segment, c->signals, err)))
            return rc;
        position = start + segment->n_records * c->samples_per_record;
    }
    return frontend_finish(b->frontend, err);
}

/* Label runs in samples: rounded to the grid, inside file time, empty ones dropped. Returns their number. */
static int label_spans(const struct label_run *runs, size_t n_runs, int64_t samples, struct window_span *spans) {
    int n = 0;
    for (size_t i = 0; i < n_runs; i++) {
        const struct label_run *run = &runs[i];
        int64_t floor_at = n ? spans[n - 1].end : 0;
        int64_t first = run->onset_s * FRONTEND_RATE_HZ < (double)samples ? llround(run->onset_s * FRONTEND_RATE_HZ) : samples;
        int64_t end = run->end_s * FRONTEND_RATE_HZ < (double)samples ? llround(run->end_s * FRONTEND_RATE_HZ) : samples;
        first = first < floor_at ? floor_at : first;
        if (first < end)
            spans[n++] = (struct window_span){first, end};
    }
    return n;
}

static void add_fault(struct str *out, const char *text) { str_printf(out, "%s%s", out->len ? "; " : "", text); }

/* Assumptions about channels, repairs of the header, and seizures that label_spans drops or cuts because the recording is
 * shorter: MOST_FAULTS of each. */
static void describe_faults(struct builder *b, int64_t samples) {
    char path[4096], line[400];
    const double length_s = (double)samples / FRONTEND_RATE_HZ, half_s = 0.5 / FRONTEND_RATE_HZ; /* half: what rounding takes */
    bool fits, beside = labels_candidate(b->labels.source, b->request->recording_path, path, sizeof path, &fits) && fits;
    int outside = 0;
    OWNED(str_done) struct str text = str_of(BUILDER_FAULTS_BYTES - 1);
    if (*b->assumed)
        add_fault(&text, b->assumed);
    for (int i = 0; i < b->info->n_repairs && i < MOST_FAULTS; i++)
        add_fault(&text, b->info->repairs[i]);
    if (b->info->n_repairs > MOST_FAULTS && str_format(line, sizeof line, "%d more repairs", b->info->n_repairs - MOST_FAULTS))
        add_fault(&text, line);
    if (*b->labels.note)
        add_fault(&text, b->labels.note);
    for (size_t i = 0; i < b->labels.n_runs; i++) {
        const struct label_run *run = &b->labels.runs[i];
        bool gone = run->onset_s >= length_s || run->end_s <= 0;
        bool cut = run->onset_s < -half_s || run->end_s > length_s + half_s;
        if ((gone || cut) && outside++ < MOST_FAULTS &&
            str_format(line, sizeof line,
                       "the seizure at %.10g to %.10g s in %.200s lies %soutside the recording of %.10g s and is %s", run->onset_s,
                       run->end_s, beside ? fsio_basename(path) : "its annotations", gone ? "" : "partly ", b->info->duration_s,
                       gone ? "ignored" : "cut"))
            add_fault(&text, line);
    }
    if (outside > MOST_FAULTS && str_format(line, sizeof line, "and so do %d others", outside - MOST_FAULTS))
        add_fault(&text, line);
    str_copy(b->faults, sizeof b->faults, str_cstr(&text));
}

/* Reads header, labels and montage. b->end must be known. */
int builder_facts(struct builder *b, const char *note, struct recording_facts *ret, struct err *err) {
    struct window_span *spans = calloc(b->labels.n_runs + b->labels.n_unknown + 1, sizeof *spans);
    if (!spans)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %zu label runs", b->labels.n_runs + b->labels.n_unknown);
    free(b->spans);
    b->spans = spans;
    int64_t samples = (int64_t)ceil(b->info->duration_s * FRONTEND_RATE_HZ - 1e-6);
    samples = samples > b->end ? samples : b->end;
    describe_faults(b, samples);
    struct recording_facts facts = {.key = b->key,
                                    .source = b->request->recording_path,
                                    .montage = b->request->frontend.montage,
                                    .label_source = labels_source_name(b->labels.source),
                                    .note = note,
                                    .faults = b->faults,
                                    .mislabelled = "",
                                    .labelled = b->labels.source != LABELS_NONE,
                                    .duration_s = b->info->duration_s,
                                    .samples = samples};
    facts.seizures = spans;
    facts.n_seizures = label_spans(b->labels.runs, b->labels.n_runs, samples, spans);
    facts.unknown = spans + facts.n_seizures;
    facts.n_unknown = label_spans(b->labels.unknown, b->labels.n_unknown, samples, spans + facts.n_seizures);
    *ret = facts;
    return 0;
}

static int commit(struct builder *b, const struct channels *c, struct err *err) {
    struct recording_facts facts;
    char loops[256], missing[256];
    int rc;
    if ((rc = describe_missing(b, c, missing, sizeof missing, err)) || (rc = builder_facts(b, b->report.note, &facts, err)))
        return rc;
    frontend_loops_close(b->frontend, loops, sizeof loops);
    facts.mislabelled = loops;
    facts.missing = missing;
    recording_writer_measures(b->writer, b->measured);
    rc = recording_writer_commit(b->writer, &facts, err);
    b->writer = NULL;
    return rc;
}

/* The whole file: the path of a local one, what the mirror gives of the others. */
static int take_whole(struct builder *b, struct err *err) {
    const struct window_build *r = b->request;
    int rc = 0;
    if (!r->mirror)
        str_copy(b->recording_path, sizeof b->recording_path, r->recording_path);
    else if (!b->taken && !(rc = mirror_take(r->mirror, r->recording_path, b->recording_path, err))) {
        struct mirror_file file;
        b->taken = true;
        b->again = !mirror_stat(r->mirror, r->recording_path, &file, NULL) && file.refetched != b->refetched;
        if (b->again)
            rc = err_set(err, ERR_DATA_LOSS, "its header arrived corrupt several times; check the network path");
    }
    return rc;
}

static void close_edf(struct builder *b) {
    eegfile_close(b->edf);
    b->edf = NULL;
    b->head = false;
}

/* Header and timeline of the whole file; annotations too, if wanted. */
int builder_open_whole(struct builder *b, bool annotations, struct err *err) {
    close_edf(b);
    int rc;
    if ((rc = take_whole(b, err)))
        return rc;
    rc = annotations ? eegfile_open(b->recording_path, &b->edf, err) : eegfile_open_header(b->recording_path, &b->edf, err);
    return rc ? rc : eegfile_assume_unit(b->edf, b->request->frontend.unit, err);
}

/* The head of a mirror's recording where that is enough for header and timeline, else the whole file. */
static int open_head(struct builder *b, struct err *err) {
    const struct window_build *r = b->request;
    struct mirror_file file;
    bool enough = false;
    int rc = mirror_stat(r->mirror, r->recording_path, &file, err);
    if (rc)
        return rc;
    b->refetched = file.refetched;
    if (!eegfile_open_head(r->recording_path, (struct eegfile_sizes){mirror_bytes, r->mirror}, &b->edf, &enough, NULL) && enough) {
        b->head = true;
        return eegfile_assume_unit(b->edf, r->frontend.unit, err);
    }
    return builder_open_whole(b, true, err);
}

/* Labels of a mirror's recording. */
static int mirrored_labels(struct builder *b, const char *rule, struct err *err) {
    const struct window_build *r = b->request;
    int rc;
    if ((rc = open_head(b, err)) || (rc = labels_load(r->recording_path, rule, b->edf, &b->labels, err)) || !b->labels.undecided)
        return rc;
    labels_done(&b->labels);
    rc = builder_open_whole(b, true, err);
    return rc ? rc : labels_load(r->recording_path, rule, b->edf, &b->labels, err);
}

int builder_choose(struct builder *b, struct channels *c, struct err *err) {
    b->info = eegfile_info(b->edf);
    int rc = channels_choose(b->info, &b->request->frontend, c, err);
    if (rc)
        return rc;
    if (!b->head && (rc = amplitude_check(b->edf, c->signals, c->n, c->faults, sizeof c->faults, err)))
        return rc;
    str_copy(b->assumed, sizeof b->assumed, c->faults);
    return builder_cut_holes(b, err);
}

/* Room in the cache for the whole file; without a cache the file is written at path. */
static int reserve(struct builder *b, const struct channels *c, char path[BUILDER_PATH_BYTES], struct err *err) {
    int64_t up, down, samples = 0;
    int rc = b->request->cache ? dsp_ratio(c->rate_hz, &up, &down, err) : 0;
    if (rc || !b->request->cache)
        return rc;
    for (int s = 0; s < b->n_segments; s++)
        samples += b->segments[s].n_records * c->samples_per_record + frontend_fill_gap(&b->request->frontend, c->rate_hz);
    int64_t bytes = builder_output_at(samples, up, down) * (b->report.output_columns * 2 + MEASURED_BYTES) + INDEX_ROOM;
    if ((rc = cache_reserve_window(b->request->cache, b->key, bytes, &b->slot, err)))
        return rc;
    b->reserved = true;
    str_copy(path, BUILDER_PATH_BYTES, b->slot.path);
    return 0;
}

/* The written file becomes the cache's, pinned. */
static int keep(struct builder *b, char path[BUILDER_PATH_BYTES], struct err *err) {
    if (!b->reserved)
        return 0;
    b->reserved = false;
    int rc = cache_commit(b->request->cache, &b->slot, path, err);
    b->pinned = rc == 0;
    return rc;
}

static int build(struct builder *b, char path[BUILDER_PATH_BYTES], struct err *err) {
    OWNED(channels_done) struct channels c = {0};
    int rc;
    if ((!b->edf || b->head) && (rc = builder_open_whole(b, false, err)))
        return rc;
    if ((rc = builder_choose(b, &c, err)) ||
        (rc = frontend_new(&b->request->frontend, &(struct frontend_source){c.labels, c.n, c.rate_hz}, take_rows, b, &b->frontend,
                           &b->report, err)) ||
        (rc = reserve(b, &c, path, err)) ||
        (rc = recording_writer_open(path, b->report.output_channels, b->report.output_columns, &b->writer, err)))
        return rc;
    frontend_note(b->frontend, b->measured);
    atomic_fetch_add(&building, 1);
    rc = push_all(b, &c, err);
    atomic_fetch_sub(&building, 1);
    if (rc || (rc = commit(b, &c, err)))
        return rc;
    return keep(b, path, err);
}

int builder_prepare(struct builder *b, bool *ret_skipped, struct err *err) {
    const struct window_build *r = b->request;
    char tried[LABELS_TRIED_SIZE];
    const char *unlabeled = r->unlabeled ? r->unlabeled : "error";
    int rc;
    if (strcmp(unlabeled, "error") && strcmp(unlabeled, "background") && strcmp(unlabeled, "skip"))
        return err_set(err, ERR_INVALID, "unlabeled is '%s'; expected error, background or skip", unlabeled);
    const char *rule = r->labels ? r->labels : "auto";
    rc = r->mirror ? mirrored_labels(b, rule, err) : labels_load(r->recording_path, rule, NULL, &b->labels, err);
    if (rc)
        return rc;
    *ret_skipped = b->labels.source == LABELS_NONE && !strcmp(unlabeled, "skip");
    if (b->labels.source == LABELS_NONE && !strcmp(unlabeled, "error"))
        return err_set(err, ERR_NOT_FOUND, "no labels (%s); add label files, or set data.unlabeled to background or skip",
                       labels_tried(&b->labels, tried));
    return *ret_skipped ? 0 : make_key(b, err);
}

int builder_path(const char *cache_dir, const char *key, char *ret_path, unsigned long size, struct err *err) {
    if (!str_format(ret_path, size, "%s/windows/%.2s", cache_dir, key))
        return err_set(err, ERR_RANGE, "the cache folder's path is too long: %s", cache_dir);
    int rc;
    if ((rc = fsio_mkdirs(ret_path, err)))
        return rc;
    if (!str_format(ret_path, size, "%s/windows/%.2s/%s.win", cache_dir, key, key))
        return err_set(err, ERR_RANGE, "the cache folder's path is too long: %s", cache_dir);
    return 0;
}

/* True if a usable cache file of this key stands at path. */
bool builder_is_cached(const char *path, const char *key) {
    struct recording *rec;
    if (!fsio_exists(path) || recording_open(path, &rec, NULL))
        return false;
    bool same = !strcmp(recording_key(rec), key);
    recording_close(rec);
    return same;
}

/* True if path is the usable cache file of b's key, pinned with a cache. */
static bool find_cached(struct builder *b, char path[BUILDER_PATH_BYTES]) {
    const struct window_build *r = b->request;
    bool found = !r->cache || !cache_lookup_window(r->cache, b->key, path, NULL);
    bool use = found && !r->rebuild && builder_is_cached(path, b->key);
    b->pinned = r->cache && use;
    if (r->cache && found && !use)
        cache_discard(r->cache, b->key);
    return use;
}

void builder_done(struct builder *b) {
    (void)end_giving(b, NULL);
    for (int i = 0; i < 2; i++)
        frontend_part_free(b->frontend, b->part[i]);
    recording_writer_abort(b->writer);
    if (b->reserved)
        cache_abort(b->request->cache, &b->slot);
    frontend_free(b->frontend);
    eegfile_close(b->edf);
    labels_done(&b->labels);
    for (int k = 0; k < FEATURE_MEASURES; k++)
        free(b->measured[k].m);
    FREE_MEMBERS(*b, spans, cut);
    if (b->taken)
        mirror_drop(b->request->mirror, b->request->recording_path);
}

static int prepare_and_build(struct builder *b, char path[BUILDER_PATH_BYTES], bool *ret_skipped, struct err *err) {
    int rc = builder_prepare(b, ret_skipped, err);
    if (rc || *ret_skipped || (rc = builder_path(b->request->cache_dir, b->key, path, BUILDER_PATH_BYTES, err)) ||
        find_cached(b, path))
        return rc;
    return build(b, path, err);
}

int builder_run(const struct window_build *request, char *ret_path, unsigned long size, bool *ret_skipped,
                char ret_pinned[DIGEST_HEX_SIZE], struct err *err) {
    char path[BUILDER_PATH_BYTES];
    bool skipped = false, again = true;
    *ret_pinned = '\0';
    int rc = 0;
    for (int i = 0; i < BUILDER_TRIES && again; i++) {
        struct builder b = {.request = request};
        rc = prepare_and_build(&b, path, &skipped, err);
        again = b.again;
        if (b.pinned && again)
            cache_unpin(request->cache, b.key);
        else if (b.pinned)
            str_copy(ret_pinned, DIGEST_HEX_SIZE, b.key);
        builder_done(&b);
    }
    if (rc) {
        (void)err_in_cache(err);
        return rc;
    }
    if (!skipped && !str_copy(ret_path, size, path))
        return err_set(err, ERR_RANGE, "the path of a cache file does not fit %lu bytes", size);
    *ret_skipped = skipped;
    return 0;
}

int window_build(const struct window_build *request, char *ret_path, unsigned long size, bool *ret_skipped, struct err *err) {
    bool skipped = false;
    char pinned[DIGEST_HEX_SIZE];
    int rc = builder_run(request, ret_path, size, &skipped, pinned, err);
    if (*pinned)
        cache_unpin(request->cache, pinned);
    if (rc)
        return err_of_file(err, request->recording_path, fsio_basename(request->recording_path));
    if (ret_skipped)
        *ret_skipped = skipped;
    return 0;
}
