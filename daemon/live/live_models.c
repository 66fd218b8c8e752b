#include "daemon/live/live_models.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fsio.h"
#include "base/str.h"
#include "store/digest.h"

static struct metric *series(struct live_models *s, const char *family, const char *name, const char *second) {
    char labels[LIVE_NAME + 32];
    if (!s->metrics)
        return NULL;
    str_format(labels, sizeof labels, second ? "%s\x1f%s" : "%s%s", name, second ? second : "");
    return metrics_series(s->metrics, family, labels);
}

static void unload(struct live_models *s, struct live_model *m) {
    detector_close(m->detector);
    if (s->metrics)
        metrics_drop(s->metrics, "brrd_model_loaded", m->name);
    *m = (struct live_model){0};
}

/* A free place; the detector that nobody has used for longest makes room. */
static struct live_model *find_place(struct live_models *s) {
    struct live_model *oldest = NULL;
    for (int i = 0; i < LIVE_MAX_MODELS; i++) {
        struct live_model *m = &s->items[i];
        if (!m->detector)
            return m;
        if (!m->pins && !m->streams && (!oldest || m->used < oldest->used))
            oldest = m;
    }
    if (oldest)
        unload(s, oldest);
    return oldest;
}

/* A detector of the same weights as this file, which is read once for all streams that name it; NULL: none. */
static struct live_model *find_same(struct live_models *s, const char *path, int64_t bytes, int64_t mtime_ns) {
    char sha256[DIGEST_HEX_SIZE] = "";
    for (int i = 0; i < LIVE_MAX_MODELS; i++) {
        struct live_model *m = &s->items[i];
        if (m->detector && !strcmp(m->alias, path) && m->alias_bytes == bytes && m->alias_mtime_ns == mtime_ns)
            return m;
    }
    for (int i = 0; i < LIVE_MAX_MODELS; i++) {
        struct live_model *m = &s->items[i];
        if (!m->detector || m->bytes != bytes || (!*sha256 && digest_file(path, sha256, NULL)) ||
            strcmp(sha256, detector_info(m->detector)->sha256) != 0)
            continue;
        str_copy(m->alias, sizeof m->alias, path);
        m->alias_bytes = bytes;
        m->alias_mtime_ns = mtime_ns;
        return m;
    }
    return NULL;
}

int live_models_load(struct live_models *s, const char *path, const char *name, bool shared, struct live_model **ret,
                     struct err *err) {
    int64_t bytes = 0, mtime_ns = 0;
    for (int i = 0; i < LIVE_MAX_MODELS; i++)
        if (s->items[i].detector && s->items[i].pins && !strcmp(s->items[i].path, path)) {
            *ret = &s->items[i]; /* its owner says when the file is another; the volume need not answer */
            return 0;
        }
    int rc = fsio_size(path, &bytes, &mtime_ns, err);
    for (int i = 0; !rc && i < LIVE_MAX_MODELS; i++) {
        struct live_model *m = &s->items[i];
        if (m->detector && !strcmp(m->path, path) && m->bytes == bytes && m->mtime_ns == mtime_ns) {
            *ret = m;
            return 0;
        }
    }
    struct live_model *same = !rc && shared ? find_same(s, path, bytes, mtime_ns) : NULL;
    if (same) {
        *ret = same;
        return 0;
    }
    struct live_model *m = rc ? NULL : find_place(s);
    if (!rc && !m)
        rc = err_set(err, ERR_EXHAUSTED, "%d models are loaded and in use; unload one first", LIVE_MAX_MODELS);
    double start_s = clock_s();
    struct detector *detector = NULL;
    if (!rc)
        rc = detector_open(s->device, path, LIVE_MAX_BATCH, s->memory_limit_bytes, &detector, err);
    if (!rc && (rc = detector_spread(detector, s->stream, s->memory_limit_bytes, err)))
        detector_close(detector);
    if (rc)
        return rc;
    m->detector = detector;
    m->bytes = bytes;
    m->mtime_ns = mtime_ns;
    str_copy(m->path, sizeof m->path, path);
    str_copy(m->name, sizeof m->name, name);
    m->windows = series(s, "brrd_inference_windows_total", name, "done");
    m->dropped = series(s, "brrd_inference_windows_total", name, "dropped");
    m->compute = series(s, "brrd_inference_compute_duration_seconds", name, NULL);
    m->batch = series(s, "brrd_inference_batch_windows", name, NULL);
    m->lag = series(s, "brrd_stream_result_lag_seconds", name, NULL);
    m->suppressed = series(s, "brrd_stream_suppressed_seconds_total", name, NULL);
    m->bursts = series(s, "brrd_stream_bursts_total", name, NULL);
    metric_set(series(s, "brrd_model_loaded", name, NULL), 1);
    metric_observe(series(s, "brrd_model_load_duration_seconds", name, NULL), clock_s() - start_s);
    *ret = m;
    return 0;
}

void live_models_unpin(struct live_models *s, const char *path) {
    for (int i = 0; i < LIVE_MAX_MODELS; i++) {
        struct live_model *m = &s->items[i];
        if (!m->detector || strcmp(m->path, path) || !m->pins)
            continue;
        if (!--m->pins && !m->streams)
            unload(s, m);
        return;
    }
}

void live_models_done(struct live_models *s) {
    for (int i = 0; i < LIVE_MAX_MODELS; i++)
        if (s->items[i].detector)
            unload(s, &s->items[i]);
}

struct live_opened *live_model_describe(const struct live_model *m) {
    struct live_opened *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->info = *detector_info(m->detector);
    str_copy(o->checkpoint, sizeof o->checkpoint, m->path);
    o->info.checkpoint = o->checkpoint;
    o->info.file.frontend.montage = o->info.file.montage;
    return o;
}
