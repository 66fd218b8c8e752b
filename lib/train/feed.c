#include "train/feed.h"

#include "base/counted.h"
#include "kernels/op.h"

enum { RING_DEPTH = 4, BUFFERS = 2 };

/* Device memory of one micro-batch, and what has been put there. */
struct buffer {
    void *x, *labels;
    const struct batch *batch; /* NULL: nothing */
    int64_t micro;
};

/* The arguments of op_augment for a batch, one copy to the device: partner (channels), mirrored and pad (batch_size each), then
 * factor (batch_size, channels). */
struct changes {
    int32_t partner[FRONTEND_MAX_COLUMNS];
    int32_t rest[];
};

struct feed {
    struct feed_config config;
    char description[200];
    struct buffer buffers[BUFFERS];
    int newest; /* buffer */
    /* from readers */
    struct prefetch *prefetch;
    struct stream *copies; /* NULL: ops run on the calling thread, nothing is gained by copying ahead */
    const struct batch *current, *next;
    int64_t micro; /* newest of current */
    /* resident */
    struct resident *resident;
    struct batch own;
    int64_t *first, epoch, index;
    void *device_first, *device_valid;
    bool sent; /* first and valid of this batch */
    bool waits;
    struct changes *changes, *device_changes; /* of the newest batch; NULL: none */
};

static void *ring_alloc(void *ctx, unsigned long bytes) {
    void *data = NULL;
    return device_alloc_host(ctx, bytes, &data, NULL) ? NULL : data;
}

static void ring_free(void *ctx, void *data) { device_free_host(ctx, data); }

static int open_readers(struct feed *f, struct err *err) {
    const struct feed_config *c = &f->config;
    struct device_info info;
    device_describe(c->recordings.device, &info);
    struct prefetch_config ring = {.batch_size = c->batch_size,
                                   .first_row = c->first_micro * c->micro_batch_size,
                                   .rows = c->micros * c->micro_batch_size,
                                   SAME_MEMBERS(*c, workers, window, channels),
                                   .depth = RING_DEPTH,
                                   .alloc = ring_alloc,
                                   .free = ring_free,
                                   .alloc_ctx = c->recordings.device};
    int rc = 0;
    if (info.is_async)
        rc = stream_open(c->recordings.device, STREAM_NORMAL, &f->copies, err);
    return rc ? rc : prefetch_start(c->recordings.manifest, c->sampler, &ring, c->epoch, c->index, &f->prefetch, err);
}

static int open_resident(struct feed *f, struct stream *s, struct err *err) {
    const struct feed_config *c = &f->config;
    size_t n = (size_t)c->batch_size;
    void *first = NULL, *valid = NULL;
    COPY_MEMBERS(*f, *c, epoch, index);
    int rc;
    rc = device_alloc_host(c->recordings.device, n * sizeof *f->first, &first, err);
    f->first = first;
    rc = rc ? rc : device_alloc_host(c->recordings.device, n * sizeof *f->own.valid, &valid, err);
    f->own.valid = valid;
    if (rc || (rc = device_alloc(c->recordings.device, n * sizeof *f->first, &f->device_first, err)) ||
        (rc = device_alloc(c->recordings.device, n * sizeof *f->own.valid, &f->device_valid, err)))
        return rc;
    return resident_open(&c->recordings, s, &f->resident, err);
}

/* Decides if recordings are to be resident; logs the reason. */
static int choose(struct feed *f, bool *ret, struct err *err) {
    const struct feed_config *c = &f->config;
    struct device_info info;
    device_describe(c->recordings.device, &info);
    int64_t need = resident_bytes(&c->recordings);
    bool fits = need <= c->room_bytes && c->channels <= WINDOWS_MAX_COLUMNS;
    long long need_mib = (long long)(need >> 20), room_mib = (long long)(c->room_bytes > 0 ? c->room_bytes >> 20 : 0);
    if (c->residence == FEED_RESIDENT_ON && !fits)
        return err_set(err, ERR_EXHAUSTED,
                       "data.resident: on, but the recordings take %lld MiB of device memory and %lld MiB are left for them; set "
                       "data.resident to auto, or lower training.micro_batch_size",
                       need_mib, room_mib);
    *ret = c->residence == FEED_RESIDENT_ON || (c->residence == FEED_RESIDENT_AUTO && info.is_async && fits);
    f->waits = *ret && c->arriving && c->residence == FEED_RESIDENT_AUTO;
    *ret = *ret && !f->waits;
    if (*ret)
        str_format(f->description, sizeof f->description, "recordings are resident in device memory, %lld MiB", need_mib);
    else
        str_format(f->description, sizeof f->description, "windows are read by %s%s", counted(c->workers, "thread").text,
                   c->residence == FEED_RESIDENT_OFF ? ": data.resident is off"
                   : !info.is_async                  ? ""
                   : f->waits                        ? ": recordings are still arriving; then they will be resident"
                                                     : ": the recordings do not fit into device memory");
    if (!*ret && c->residence == FEED_RESIDENT_AUTO && info.is_async && !f->waits) {
        size_t len = strlen(f->description);
        str_format(f->description + len, sizeof f->description - len, " (%lld MiB, %lld left)", need_mib, room_mib);
    }
    return 0;
}

static size_t changes_bytes(const struct feed_config *c) {
    return sizeof(struct changes) + (size_t)c->batch_size * (2 + (size_t)c->channels) * sizeof(int32_t);
}

static int open_changes(struct feed *f, struct err *err) {
    const struct feed_config *c = &f->config;
    void *there = NULL, *here = NULL;
    int rc = device_alloc_host(c->recordings.device, changes_bytes(c), &here, err);
    if (rc)
        return rc;
    f->changes = here;
    memcpy(f->changes->partner, c->augment->partner, sizeof f->changes->partner);
    rc = device_alloc(c->recordings.device, changes_bytes(c), &there, err);
    f->device_changes = there;
    return rc;
}

/* Draws the changes of all windows of the current batch and queues their copy. */
static int draw_changes(struct feed *f, struct stream *s, struct err *err) {
    const struct feed_config *c = &f->config;
    int32_t *mirrored = f->changes->rest, *pad = mirrored + c->batch_size;
    float *factor = (float *)(void *)(pad + c->batch_size);
    for (int i = 0; i < f->current->size; i++) {
        struct augment_draw draw = {.factor = factor + (int64_t)i * c->channels};
        augment_draw(c->augment, f->current->epoch, f->current->first_index + i, &draw);
        mirrored[i] = draw.mirrored;
        pad[i] = draw.pad;
    }
    return stream_to_device(s, f->device_changes, f->changes, changes_bytes(c), err);
}

static int change_micro(struct feed *f, struct stream *s, int64_t micro, const struct tensor *x, const struct tensor *labels,
                        struct err *err) {
    const struct feed_config *c = &f->config;
    int64_t rows = c->micro_batch_size, first = micro * rows;
    int32_t *mirrored = f->device_changes->rest, *pad = mirrored + c->batch_size;
    float *factor = (float *)(void *)(pad + c->batch_size) + first * c->channels;
    int rc = micro > c->first_micro ? 0 : draw_changes(f, s, err);
    struct augment_args args = {.x = *x,
                                .labels = *labels,
                                .factor = tensor_2d(factor, DTYPE_F32, rows, c->channels),
                                .partner = f->device_changes->partner,
                                .mirrored = mirrored + first,
                                .pad = pad + first};
    return rc ? rc : op_augment(s, &args, err);
}

static int open_batches(struct feed *f, struct stream *s, struct err *err) {
    const struct feed_config *c = &f->config;
    size_t samples = (size_t)c->micro_batch_size * (size_t)c->window;
    bool resident = false;
    int rc;
    if ((rc = choose(f, &resident, err)) || (rc = resident ? open_resident(f, s, err) : open_readers(f, err)) ||
        (c->augment && (rc = open_changes(f, err))))
        return rc;
    for (int i = 0; i < (f->copies ? BUFFERS : 1); i++)
        if ((rc = device_alloc(c->recordings.device, samples * (size_t)c->channels * sizeof(float), &f->buffers[i].x, err)) ||
            (rc = device_alloc(c->recordings.device, samples, &f->buffers[i].labels, err)))
            return rc;
    return 0;
}

int feed_open(const struct feed_config *config, struct stream *s, struct feed **ret, struct err *err) {
    struct feed *f = calloc(1, sizeof *f);
    if (!f)
        return err_set(err, ERR_EXHAUSTED, "out of memory for batches");
    f->config = *config;
    int rc = open_batches(f, s, err);
    return GIVEN(ret, f, feed_close, rc);
}

void feed_close(struct feed *f) {
    if (!f)
        return;
    struct device *dev = f->config.recordings.device;
    stream_close(f->copies); /* waits for what is on its way */
    prefetch_stop(f->prefetch);
    resident_close(f->resident);
    device_free(dev, f->device_first);
    device_free(dev, f->device_valid);
    for (int i = 0; i < BUFFERS; i++) {
        device_free(dev, f->buffers[i].x);
        device_free(dev, f->buffers[i].labels);
    }
    device_free_host(dev, f->first);
    device_free_host(dev, f->own.valid);
    device_free(dev, f->device_changes);
    device_free_host(dev, f->changes);
    free(f);
}

const char *feed_description(const struct feed *f) { return f->description; }

/* The order of windows/prefetch: an epoch's last partial batch is dropped, or kept when it is the only one. */
static const struct batch *cut_next(struct feed *f) {
    int64_t total = sampler_epoch_windows(f->config.sampler), size = f->config.batch_size;
    if (f->index + size > total && !(f->index == 0 && total < size)) {
        f->epoch++;
        f->index = 0;
    }
    size = total < size ? total : size;
    f->own.epoch = f->epoch;
    f->own.first_index = f->index;
    f->own.size = (int)size;
    for (int64_t i = 0; i < size; i++) {
        struct window_ref ref = sampler_at(f->config.sampler, f->epoch, f->index + i);
        resident_locate(f->resident, &ref, f->config.window, &f->first[i], &f->own.valid[i]);
    }
    f->index += size;
    f->sent = false;
    return &f->own;
}

bool feed_waits(const struct feed *f) { return f->waits; }

bool feed_poll(struct feed *f, int wait_ms) { return f->resident || f->next || prefetch_poll(f->prefetch, wait_ms); }

int feed_next(struct feed *f, const struct batch **ret, struct err *err) {
    int rc = 0;
    if (f->resident)
        f->current = cut_next(f);
    else if (f->next)
        f->current = f->next;
    else
        rc = prefetch_next(f->prefetch, &f->current, NULL, err);
    f->next = NULL;
    f->micro = -1;
    if (rc) {
        if (f->prefetch && f->config.recordings.failed)
            *f->config.recordings.failed = prefetch_failed(f->prefetch);
        return rc;
    }
    *ret = f->current;
    return 0;
}

/* Queues the copy of a micro-batch. */
static int stage(struct feed *f, struct stream *s, int buffer, const struct batch *batch, int64_t micro, struct err *err) {
    const struct feed_config *c = &f->config;
    struct buffer *to = &f->buffers[buffer];
    int64_t samples = c->micro_batch_size * c->window, first = (micro - c->first_micro) * samples;
    to->batch = NULL;
    int rc;
    if ((rc = stream_to_device(s, to->x, batch->x + first * c->channels, (size_t)(samples * c->channels) * sizeof(float), err)) ||
        (rc = stream_to_device(s, to->labels, batch->labels + first, (size_t)samples, err)))
        return rc;
    to->batch = batch;
    to->micro = micro;
    return 0;
}

static int cut_micro(struct feed *f, struct stream *s, int64_t micro, const struct tensor *x, const struct tensor *labels,
                     struct err *err) {
    int64_t first = micro * f->config.micro_batch_size;
    size_t n = (size_t)f->own.size;
    int rc;
    if (!f->sent && ((rc = stream_to_device(s, f->device_first, f->first, n * sizeof *f->first, err)) ||
                     (rc = stream_to_device(s, f->device_valid, f->own.valid, n * sizeof *f->own.valid, err))))
        return rc;
    f->sent = true;
    struct windows_args cut = {.rows = resident_rows(f->resident),
                               .row_labels = resident_labels(f->resident),
                               .first = (const int64_t *)f->device_first + first,
                               .valid = (const int32_t *)f->device_valid + first,
                               .raw = manifest_raw(f->config.recordings.manifest),
                               .x = *x,
                               .labels = *labels};
    return op_windows(s, &cut, err);
}

int feed_micro(struct feed *f, struct stream *s, int64_t micro, struct tensor *ret_x, struct tensor *ret_labels, struct err *err) {
    const struct feed_config *c = &f->config;
    int rc;
    if (f->copies) {
        int ahead = 1 - f->newest;
        bool staged = f->buffers[ahead].batch == f->current && f->buffers[ahead].micro == micro;
        if ((!staged && (rc = stage(f, f->copies, ahead, f->current, micro, err))) || (rc = stream_wait(s, f->copies, err)))
            return rc;
        f->buffers[ahead].batch = NULL; /* a batch's address may come again with other windows */
        f->newest = ahead;
    } else if (f->prefetch && (rc = stage(f, s, 0, f->current, micro, err))) {
        return rc;
    }
    f->micro = micro;
    *ret_x = tensor_3d(f->buffers[f->newest].x, DTYPE_F32, c->micro_batch_size, c->window, c->channels);
    *ret_labels = tensor_2d(f->buffers[f->newest].labels, DTYPE_U8, c->micro_batch_size, c->window);
    if (f->resident && (rc = cut_micro(f, s, micro, ret_x, ret_labels, err)))
        return rc;
    return f->changes ? change_micro(f, s, micro, ret_x, ret_labels, err) : 0;
}

int feed_ahead(struct feed *f, struct err *err) {
    const struct feed_config *c = &f->config;
    if (!f->copies || f->next)
        return 0;
    if (f->micro + 1 < c->first_micro + c->micros)
        return stage(f, f->copies, 1 - f->newest, f->current, f->micro + 1, err);
    if (!prefetch_poll(f->prefetch, 0))
        return 0; /* not read yet: feed_poll waits for it */
    if (prefetch_next(f->prefetch, &f->next, NULL, NULL)) {
        f->next = NULL; /* its error comes again in the batch's place */
        return 0;
    }
    return stage(f, f->copies, 1 - f->newest, f->next, c->first_micro, err);
}

void feed_release(struct feed *f, const struct batch *b) {
    if (f->prefetch)
        prefetch_release(f->prefetch, b);
}
