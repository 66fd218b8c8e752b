#include "train/resident.h"

#include "windows/loader.h"
#include "windows/recording.h"

enum { WAIT_MS = 20 };

struct resident {
    struct resident_config config;
    int64_t inputs, n_rows;
    int64_t *base; /* per entry: its first row; −1 when it is not here */
    uint16_t *rows;
    uint8_t *labels;
};

static struct recording *wanted(const struct resident_config *c, int64_t entry) {
    return c->role[entry] == c->wanted ? manifest_entry(c->manifest, entry)->recording : NULL;
}

static int64_t rows_of(const struct recording *rec) {
    struct recording_info info;
    int64_t n = 0;
    recording_info(rec, &info);
    for (int i = 0; i < info.n_segments; i++)
        n += info.segments[i].end - info.segments[i].first;
    return n;
}

static int64_t count_rows(const struct resident_config *c) {
    int64_t n = 0;
    for (int64_t i = 0; i < manifest_count(c->manifest); i++)
        n += wanted(c, i) ? rows_of(wanted(c, i)) : 0;
    return n;
}

int64_t resident_bytes(const struct resident_config *c) {
    return count_rows(c) * (manifest_inputs(c->manifest) * (int64_t)sizeof(uint16_t) + 1);
}

/* Labels of a segment's rows. */
static void paint(const struct window_span *segment, const struct window_span *spans, int n_spans, uint8_t value, uint8_t *labels) {
    for (int i = 0; i < n_spans; i++) {
        int64_t first = spans[i].first > segment->first ? spans[i].first : segment->first;
        int64_t end = spans[i].end < segment->end ? spans[i].end : segment->end;
        if (first < end)
            memset(labels + (first - segment->first), value, (size_t)(end - first));
    }
}

/* The inputs of a recording's rows, back to back as its segments lie; *ret_packed is to be freed, NULL if the rows hold nothing
 * else. */
static const uint16_t *pack(const struct resident *r, const struct recording *rec, uint16_t **ret_packed) {
    struct recording_info info;
    recording_info(rec, &info);
    const uint16_t *rows = recording_rows(rec, 0, info.segments[0].first);
    int64_t n = rows_of(rec), inputs = r->inputs, columns = info.columns;
    *ret_packed = NULL;
    if (columns == inputs)
        return rows;
    uint16_t *packed = malloc((size_t)(n * inputs) * sizeof *packed);
    for (int64_t i = 0; packed && i < n; i++)
        memcpy(packed + i * inputs, rows + (i + 1) * columns - inputs, (size_t)inputs * sizeof *packed);
    return *ret_packed = packed;
}

static int upload(struct resident *r, const struct recording *rec, int64_t base, struct stream *s, struct err *err) {
    struct recording_info info;
    recording_info(rec, &info);
    int64_t n = rows_of(rec), at = 0;
    OWNED_MEMORY uint8_t *labels = calloc(1, (size_t)n + 1);
    if (!labels)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the labels of %lld samples", (long long)n);
    for (int i = 0; i < info.n_segments; i++) {
        paint(&info.segments[i], info.seizures, info.n_seizures, 1, labels + at);
        paint(&info.segments[i], info.masked, info.n_masked, WINDOW_LABEL_MASKED, labels + at);
        at += info.segments[i].end - info.segments[i].first;
    }
    OWNED_MEMORY uint16_t *packed = NULL;
    const uint16_t *rows = n ? pack(r, rec, &packed) : NULL;
    if (n && !rows)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the inputs of %lld samples", (long long)n);
    int rc;
    if ((n && (rc = stream_to_device(s, r->rows + base * r->inputs, rows, (size_t)(n * r->inputs) * sizeof *r->rows, err))) ||
        (n && (rc = stream_to_device(s, r->labels + base, labels, (size_t)n, err))))
        return rc;
    return stream_sync(s, err);
}

/* Waits for the recording that is loaded as number i, telling and asking meanwhile. done counts entries. */
static int await(struct resident *r, struct loader *loader, int64_t i, int64_t done, struct err *err) {
    const struct resident_config *c = &r->config;
    while (!loader_wait(loader, i, WAIT_MS))
        if (c->progress && !c->progress(c->ctx, done, manifest_count(c->manifest)))
            return err_set(err, ERR_CANCELLED, "stopped");
    return loader_result(loader, i, err);
}

/* All rows, in the manifest's order; the loader has the recordings in the same. */
static int fill(struct resident *r, struct loader *loader, struct stream *s, struct err *err) {
    const struct resident_config *c = &r->config;
    int64_t count = manifest_count(c->manifest), at = 0, loaded = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct recording *rec = wanted(c, i);
        r->base[i] = rec ? at : -1;
        int rc = rec ? await(r, loader, loaded++, i, err) : 0;
        if (rc && rc != ERR_CANCELLED && c->failed)
            *c->failed = i;
        if (rec && !rc)
            rc = upload(r, rec, at, s, err);
        if (rc) {
            err_wrap(err, "%s: to device memory", manifest_entry(c->manifest, i)->relative_path);
            return rc;
        }
        at += rec ? rows_of(rec) : 0;
        if (c->progress && !c->progress(c->ctx, i + 1, count))
            return err_set(err, ERR_CANCELLED, "stopped");
    }
    return 0;
}

static int load_all(struct resident *r, struct stream *s, struct err *err) {
    const struct resident_config *c = &r->config;
    int64_t count = manifest_count(c->manifest), n = 0;
    OWNED_MEMORY struct recording **recordings = calloc((size_t)count + 1, sizeof *recordings);
    struct loader *loader = NULL;
    if (!recordings)
        return err_set(err, ERR_EXHAUSTED, "out of memory for resident data");
    for (int64_t i = 0; i < count; i++)
        if (wanted(c, i))
            recordings[n++] = wanted(c, i);
    int rc = loader_start(&(struct loader_work){.recordings = recordings, .n = n, .workers = c->workers}, &loader, err);
    if (rc)
        return rc;
    rc = fill(r, loader, s, err);
    loader_stop(loader);
    return rc;
}

static int allocate(struct resident *r, struct err *err) {
    void *rows = NULL, *labels = NULL;
    int rc;
    if (!(r->base = calloc((size_t)manifest_count(r->config.manifest) + 1, sizeof *r->base)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for resident data");
    rc = device_alloc(r->config.device, (size_t)(r->n_rows * r->inputs) * sizeof *r->rows, &rows, err);
    r->rows = rows;
    if (rc || (rc = device_alloc(r->config.device, (size_t)r->n_rows, &labels, err)))
        return rc;
    r->labels = labels;
    return 0;
}

int resident_open(const struct resident_config *config, struct stream *s, struct resident **ret, struct err *err) {
    struct resident *r = calloc(1, sizeof *r);
    int rc;
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for resident data");
    r->config = *config;
    r->inputs = manifest_inputs(config->manifest);
    r->n_rows = count_rows(config);
    if ((rc = allocate(r, err)) || (rc = load_all(r, s, err)))
        resident_close(r);
    else
        *ret = r;
    return rc;
}

void resident_close(struct resident *r) {
    if (!r)
        return;
    device_free(r->config.device, r->rows);
    device_free(r->config.device, r->labels);
    free(r->base);
    free(r);
}

const uint16_t *resident_rows(const struct resident *r) { return r->rows; }
const uint8_t *resident_labels(const struct resident *r) { return r->labels; }

void resident_locate(const struct resident *r, const struct window_ref *ref, int64_t window, int64_t *ret_first,
                     int32_t *ret_valid) {
    struct recording_info info;
    recording_info(manifest_entry(r->config.manifest, ref->entry)->recording, &info);
    int64_t row = r->base[ref->entry];
    for (int i = 0; i < info.n_segments && info.segments[i].end <= ref->start; i++)
        row += info.segments[i].end - info.segments[i].first;
    for (int i = 0; i < info.n_segments; i++)
        if (info.segments[i].first <= ref->start && ref->start < info.segments[i].end)
            row += ref->start - info.segments[i].first;
    *ret_first = row;
    *ret_valid = (int32_t)window_valid(info.segments, info.n_segments, ref->start, window);
}
