#include "run/resident.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "data/recording.h"

struct resident {
    struct resident_config config;
    int64_t channels, n_rows;
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
    return count_rows(c) * (manifest_channels(c->manifest) * (int64_t)sizeof(uint16_t) + 1);
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

static int upload(struct resident *r, const struct recording *rec, int64_t base, struct stream *s, struct err *err) {
    struct recording_info info;
    recording_info(rec, &info);
    int64_t n = rows_of(rec), at = 0;
    uint8_t *labels = calloc(1, (size_t)n + 1);
    if (!labels)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the labels of %lld samples", (long long)n);
    for (int i = 0; i < info.n_segments; i++) {
        paint(&info.segments[i], info.seizures, info.n_seizures, 1, labels + at);
        paint(&info.segments[i], info.held, info.n_held, WINDOW_LABEL_HELD, labels + at);
        at += info.segments[i].end - info.segments[i].first;
    }
    int rc = 0;
    if (n) /* the segments lie back to back */
        rc = stream_to_device(s, r->rows + base * r->channels, recording_rows(rec, 0, info.segments[0].first),
                              (size_t)(n * r->channels) * sizeof *r->rows, err);
    if (!rc && n)
        rc = stream_to_device(s, r->labels + base, labels, (size_t)n, err);
    if (!rc)
        rc = stream_sync(s, err);
    free(labels);
    return rc;
}

/* Threads that decode recordings before their turn comes; what goes wrong there comes again in its turn. */
struct decoding {
    const struct resident_config *config;
    pthread_t threads[MANIFEST_MAX_WORKERS];
    int n_threads;
    atomic_bool stop;
    _Atomic int64_t next;
};

static void *decode(void *arg) {
    struct decoding *d = arg;
    int64_t count = manifest_count(d->config->manifest);
    for (int64_t i; !atomic_load(&d->stop) && (i = atomic_fetch_add(&d->next, 1)) < count;)
        if (wanted(d->config, i))
            (void)recording_load(wanted(d->config, i), NULL);
    return NULL;
}

static void start_decoding(struct decoding *d) {
    int most = d->config->workers < MANIFEST_MAX_WORKERS ? d->config->workers : MANIFEST_MAX_WORKERS;
    while (d->n_threads < most && !pthread_create(&d->threads[d->n_threads], NULL, decode, d))
        d->n_threads++;
}

static void end_decoding(struct decoding *d) {
    atomic_store(&d->stop, true);
    for (int i = 0; i < d->n_threads; i++)
        pthread_join(d->threads[i], NULL);
}

static int fill(struct resident *r, struct stream *s, struct err *err) {
    const struct resident_config *c = &r->config;
    int64_t count = manifest_count(c->manifest), at = 0;
    for (int64_t i = 0; i < count; i++) {
        struct recording *rec = wanted(c, i);
        r->base[i] = rec ? at : -1;
        int rc = rec ? recording_load(rec, err) : 0;
        if (rec && !rc)
            rc = upload(r, rec, at, s, err);
        if (rc)
            return err_wrap(err, "%s: to device memory", manifest_entry(c->manifest, i)->relative_path);
        at += rec ? rows_of(rec) : 0;
        if (c->progress && !c->progress(c->ctx, i + 1, count))
            return err_set(err, ERR_CANCELLED, "stopped");
    }
    return 0;
}

int resident_open(const struct resident_config *config, struct stream *s, struct resident **ret, struct err *err) {
    struct resident *r = calloc(1, sizeof *r);
    void *rows = NULL, *labels = NULL;
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for resident data");
    r->config = *config;
    r->channels = manifest_channels(config->manifest);
    r->n_rows = count_rows(config);
    r->base = calloc((size_t)manifest_count(config->manifest) + 1, sizeof *r->base);
    int rc = r->base ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for resident data");
    if (!rc)
        rc = device_alloc(config->device, (size_t)(r->n_rows * r->channels) * sizeof *r->rows, &rows, err);
    if (!rc)
        rc = device_alloc(config->device, (size_t)r->n_rows, &labels, err);
    r->rows = rows;
    r->labels = labels;
    if (!rc) {
        struct decoding decoding = {.config = &r->config};
        start_decoding(&decoding);
        rc = fill(r, s, err);
        end_decoding(&decoding);
    }
    if (rc) {
        resident_close(r);
        return rc;
    }
    *ret = r;
    return 0;
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
