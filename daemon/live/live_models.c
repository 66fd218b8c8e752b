#include "daemon/live/live_models.h"

static struct metric *series(struct live_models *s, const char *family, const char *name, const char *second) {
    char labels[LIVE_NAME + 96];
    if (!s->metrics)
        return NULL;
    str_format(labels, sizeof labels, second ? "%s\x1f%s\x1f%s" : "%s\x1f%s", name, s->device_name, second ? second : "");
    return metrics_series(s->metrics, family, labels);
}

static void unload(struct live_models *s, struct live_model *m) {
    char labels[LIVE_NAME + 64];
    detector_close(m->detector);
    str_format(labels, sizeof labels, "%s\x1f%s", m->name, s->device_name);
    if (s->metrics && !live_models_served(s, m->path))
        metrics_drop(s->metrics, "brrd_model_loaded", labels);
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

struct live_model *live_models_pinned(struct live_models *s, const char *path) {
    for (int i = 0; i < LIVE_MAX_MODELS; i++)
        if (s->items[i].detector && s->items[i].pins && !strcmp(s->items[i].path, path))
            return &s->items[i];
    return NULL;
}

static bool is_file(const struct live_model *m, const char *path) { return m->detector && !strcmp(m->path, path); }
static bool is_alias(const struct live_model *m, const char *path) { return m->detector && !strcmp(m->alias, path); }

void live_models_known(const struct live_models *s, const char *path, int64_t *ret_bytes, int64_t *ret_mtime_ns) {
    *ret_bytes = *ret_mtime_ns = -1;
    for (int i = 0; i < LIVE_MAX_MODELS; i++) {
        const struct live_model *m = &s->items[i];
        if (is_alias(m, path)) {
            *ret_bytes = m->alias_bytes;
            *ret_mtime_ns = m->alias_mtime_ns;
        }
        if (is_file(m, path)) {
            *ret_bytes = m->bytes;
            *ret_mtime_ns = m->mtime_ns;
            return;
        }
    }
}

/* A detector of the same weights, which becomes that of this file too; NULL: none. */
static struct live_model *find_same(struct live_models *s, const struct live_prepared *p) {
    for (int i = 0; i < LIVE_MAX_MODELS; i++) {
        struct live_model *m = &s->items[i];
        if (!m->detector || !p->image || strcmp(p->image->sha256, detector_info(m->detector)->sha256) != 0)
            continue;
        str_copy(m->alias, sizeof m->alias, p->path);
        m->alias_bytes = p->bytes;
        m->alias_mtime_ns = p->mtime_ns;
        return m;
    }
    return NULL;
}

struct live_model *live_models_find(struct live_models *s, const struct live_prepared *p, bool shared) {
    for (int i = 0; i < LIVE_MAX_MODELS; i++) {
        struct live_model *m = &s->items[i];
        if (is_file(m, p->path) && m->bytes == p->bytes && m->mtime_ns == p->mtime_ns)
            return m;
        if (shared && is_alias(m, p->path) && m->alias_bytes == p->bytes && m->alias_mtime_ns == p->mtime_ns)
            return m;
    }
    return shared ? find_same(s, p) : NULL;
}

static void name_metrics(struct live_models *s, struct live_model *m, const char *name) {
    str_copy(m->name, sizeof m->name, name);
    m->windows = series(s, "brrd_inference_windows_total", name, "done");
    m->dropped = series(s, "brrd_inference_windows_total", name, "dropped");
    m->compute = series(s, "brrd_inference_compute_duration_seconds", name, NULL);
    m->batch = series(s, "brrd_inference_batch_windows", name, NULL);
    m->lag = series(s, "brrd_stream_result_lag_seconds", name, NULL);
    m->suppressed = series(s, "brrd_stream_suppressed_seconds_total", name, NULL);
    m->bursts = series(s, "brrd_stream_bursts_total", name, NULL);
    if (!live_models_served(s, m->path)) /* the gauge is that of the host of live windows */
        metric_set(series(s, "brrd_model_loaded", name, NULL), 1);
}

/* With large batches, or with smaller ones where they take too much of the device, or more than is free. */
static int upload_as(struct live_models *s, struct model_image *image, struct detector **ret, struct err *err) {
    enum { SHARE = 16 };
    struct device_info info;
    device_describe(s->device, &info);
    const int most = seizure_step(&image->file.model) ? s->batch_steps : s->batch;
    int rc, batch = model_image_batch(image, most, LIVE_BATCH_CPU, info.total_bytes / SHARE);
    while ((rc = detector_upload(s->device, image, ret, err)) == ERR_EXHAUSTED && batch > LIVE_BATCH_CPU)
        batch = model_image_batch(image, batch / 2, LIVE_BATCH_CPU, info.total_bytes / SHARE);
    return rc;
}

/* A detector of the image; in fp32 where its bf16 is not good enough and the host may choose. */
static int upload(struct live_models *s, struct model_image *image, struct detector **ret, struct err *err) {
    int rc = upload_as(s, image, ret, err);
    if (rc != ERR_PRECONDITION || !s->may_be_fp32 || image->precision != DTYPE_BF16)
        return rc;
    image->precision = DTYPE_F32;
    return upload_as(s, image, ret, err);
}

int live_models_load(struct live_models *s, const struct live_prepared *p, const char *name, struct live_model **ret,
                     struct err *err) {
    struct live_model *m = find_place(s);
    if (!m)
        return err_set(err, ERR_EXHAUSTED, "%d models are loaded and in use; unload one first", LIVE_MAX_MODELS);
    struct detector *detector = NULL;
    int rc = upload(s, p->image, &detector, err);
    if (rc)
        return rc;
    const struct lane_use lanes = {s->memory_limit_bytes, s->alone};
    if ((rc = detector_spread(detector, p->image, s->stream, &lanes, err))) {
        detector_close(detector);
        return rc;
    }
    m->detector = detector;
    m->steps = seizure_step(&p->image->file.model) != 0;
    m->max_delay_s = -1;
    m->most = p->image->max_batch;
    COPY_MEMBERS(*m, *p, bytes, mtime_ns);
    str_copy(m->path, sizeof m->path, p->path);
    name_metrics(s, m, name);
    metric_observe(series(s, "brrd_model_load_duration_seconds", name, NULL), clock_s() - p->asked_s);
    *ret = m;
    return 0;
}

static int served_at(const struct live_models *s, const char *path) {
    int i = 0;
    while (i < LIVE_MAX_MODELS && !(s->served[i] && !strcmp(s->served[i]->prepared->path, path)))
        i++;
    return i;
}

void live_models_unserve(struct live_models *s, const char *path) {
    int i = served_at(s, path);
    if (i == LIVE_MAX_MODELS)
        return;
    live_order_free(s->served[i]);
    s->served[i] = NULL;
}

void live_models_serve(struct live_models *s, struct live_order *served) {
    int i = 0;
    live_models_unserve(s, served->prepared->path);
    while (i < LIVE_MAX_MODELS && s->served[i])
        i++;
    if (i < LIVE_MAX_MODELS)
        s->served[i] = served;
    else
        live_order_free(served);
}

struct live_prepared *live_models_served(const struct live_models *s, const char *path) {
    int i = served_at(s, path);
    return i < LIVE_MAX_MODELS ? s->served[i]->prepared : NULL;
}

bool live_models_unpin(struct live_models *s, const char *path) {
    struct live_model *m = live_models_pinned(s, path);
    if (!m || --m->pins)
        return false;
    if (!m->streams)
        unload(s, m);
    return true;
}

void live_models_done(struct live_models *s) {
    for (int i = 0; i < LIVE_MAX_MODELS; i++)
        if (s->items[i].detector)
            unload(s, &s->items[i]);
    for (int i = 0; i < LIVE_MAX_MODELS; i++)
        live_order_free(s->served[i]);
}

struct live_opened *live_model_describe(const struct live_model *m) {
    struct live_opened *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->info = *detector_info(m->detector);
    str_copy(o->checkpoint, sizeof o->checkpoint, m->path);
    o->info.checkpoint = o->checkpoint;
    o->info.file.frontend.montage = o->info.file.montage;
    str_copy(o->note, sizeof o->note, modelfile_note(&o->info.file));
    return o;
}
