#include "detect/detector.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/rng.h"
#include "base/str.h"
#include "detect/lanes.h"
#include "detect/precision.h"
#include "detect/timeline.h"
#include "kernels/op.h"

OWNABLE(struct stream, stream_close)
OWNABLE(struct seizure_net, seizure_free)

struct detector {
    struct detector_info info;
    struct device *device;
    struct seizure_net *net;
    bool owns_net;
    char path[4096];
    char *patients;
    int max_batch;
    int64_t window, n_state;   /* samples of a pass; floats of a row's state, 0: none */
    float *x_host, *p_host;    /* batch × window × channels; batch × window */
    float *state_host;         /* batch × n_state */
    void *x, *logits, *p;      /* device */
    void *state;               /* device; NULL: none */
    struct timeline **batch;   /* whose window each row is */
    struct infer_lanes *lanes; /* NULL: none */
    int n_lanes;
};

/* As much as model_batch_bytes says. */
static int take_buffers(struct detector *d, struct err *err) {
    const struct seizure_config *c = &d->info.file.model;
    d->window = model_pass_samples(c);
    d->n_state = seizure_state_count(c);
    size_t rows = (size_t)d->max_batch * (size_t)d->window * sizeof(float), wide = rows * (size_t)c->in_channels;
    size_t states = (size_t)d->max_batch * (size_t)d->n_state * sizeof(float);
    void *x_host = NULL, *p_host = NULL, *state_host = NULL;
    int rc = device_alloc_host(d->device, wide, &x_host, err);
    d->x_host = x_host;
    if (rc)
        return rc;
    rc = device_alloc_host(d->device, rows, &p_host, err);
    d->p_host = p_host;
    if (rc || (rc = device_alloc(d->device, wide, &d->x, err)) || (rc = device_alloc(d->device, rows, &d->logits, err)) ||
        (rc = device_alloc(d->device, rows, &d->p, err)))
        return rc;
    if (states) {
        rc = device_alloc_host(d->device, states, &state_host, err);
        d->state_host = state_host;
        if (rc || (rc = device_alloc(d->device, states, &d->state, err)))
            return rc;
    }
    d->batch = calloc((size_t)d->max_batch, sizeof *d->batch);
    return d->batch ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for a detector");
}

int detector_wrap(struct device *dev, struct seizure_net *net, const struct modelfile *file, int max_batch, struct detector **ret,
                  struct err *err) {
    struct detector *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a detector");
    struct device_info device;
    device_describe(dev, &device);
    d->device = dev;
    d->net = net;
    d->max_batch = max_batch;
    d->info = (struct detector_info){.file = *file, .checkpoint = d->path, .parameters = seizure_parameter_count(&file->model)};
    d->info.file.frontend.montage = d->info.file.montage;
    d->info.file.patients = NULL;
    str_copy(d->info.device, sizeof d->info.device, device.name);
    int rc = take_buffers(d, err);
    if (rc) {
        detector_close(d);
        return rc;
    }
    *ret = d;
    return 0;
}

int detector_upload(struct device *dev, const struct model_image *image, struct detector **ret, struct err *err) {
    const struct seizure_options options = {.max_batch = image->max_batch, .precision = image->precision};
    OWNED_POINTER(seizure_free) struct seizure_net *net = NULL;
    struct detector *d = NULL;
    OWNED_POINTER(stream_close) struct stream *s = NULL;
    OWNED_MEMORY char *patients = image->patients ? strdup(image->patients) : NULL;
    if (image->patients && !patients)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a detector");
    double difference = 0;
    int rc = stream_open(dev, STREAM_NORMAL, &s, err);
    if (!rc && image->precision == DTYPE_BF16)
        rc = precision_check(dev, image, s, &difference, err);
    if (rc || (rc = seizure_new(dev, &image->file.model, &options, &net, err)) || (rc = model_image_upload(image, net, s, err)) ||
        (rc = detector_wrap(dev, net, &image->file, image->max_batch, &d, err)))
        return rc;
    d->owns_net = true;
    net = NULL;
    d->info.patients = d->patients = patients;
    patients = NULL;
    d->info.memory_bytes = image->memory_bytes;
    d->info.precision = image->precision;
    d->info.bf16_difference = difference;
    str_copy(d->path, sizeof d->path, image->path);
    memcpy(d->info.sha256, image->sha256, sizeof image->sha256);
    *ret = d;
    return 0;
}

int detector_open(struct device *dev, const char *checkpoint, const struct model_use *use, struct detector **ret, struct err *err) {
    OWNED_POINTER(model_image_close) struct model_image *image = NULL;
    int rc = model_image_open(checkpoint, use, &image, err);
    return rc ? rc : detector_upload(dev, image, ret, err);
}

void detector_close(struct detector *d) {
    if (!d)
        return;
    device_free_host(d->device, d->x_host);
    device_free_host(d->device, d->p_host);
    device_free_host(d->device, d->state_host);
    device_free(d->device, d->state);
    device_free(d->device, d->x);
    device_free(d->device, d->logits);
    device_free(d->device, d->p);
    infer_lanes_close(d->lanes);
    if (d->owns_net)
        seizure_free(d->net);
    free(d->patients);
    free(d->batch);
    free(d);
}

const struct detector_info *detector_info(const struct detector *d) { return &d->info; }

/* Windows of one batch; returns how many were taken. */
static int gather(struct detector *d, struct timeline *const *timelines, int n, int room) {
    const struct seizure_config *c = &d->info.file.model;
    size_t row = (size_t)d->window * (size_t)c->in_channels;
    int taken = 0;
    for (int i = 0; i < n && taken < room; i++)
        while (taken < room && timeline_take(timelines[i], d->x_host + (size_t)taken * row))
            d->batch[taken++] = timelines[i];
    for (int i = 0; d->n_state && i < taken; i++)
        memcpy(d->state_host + i * d->n_state, timeline_state(d->batch[i]), (size_t)d->n_state * sizeof *d->state_host);
    return taken;
}

/* The network over the rows, with the state of each if it carries one. */
static int infer_rows(struct detector *d, struct stream *s, const struct tensor *x, struct tensor *logits, struct err *err) {
    struct tensor state = tensor_2d(d->state, DTYPE_F32, x->dim[0], d->n_state);
    size_t bytes = (size_t)(x->dim[0] * d->n_state) * sizeof(float);
    if (!seizure_step(&d->info.file.model))
        return seizure_infer(d->net, s, x, logits, err);
    if (!d->n_state)
        return seizure_infer_step(d->net, s, x, &state, logits, err);
    int rc;
    if ((rc = stream_to_device(s, d->state, d->state_host, bytes, err)) ||
        (rc = seizure_infer_step(d->net, s, x, &state, logits, err)))
        return rc;
    return stream_to_host(s, d->state_host, d->state, bytes, err);
}

/* Probabilities of the rows' logits, which are lost where the model has a temperature. */
static int to_probabilities(struct detector *d, struct stream *s, const struct tensor *logits, struct err *err) {
    struct sigmoid_args sigmoid = {.x = *logits, .y = tensor_2d(d->p, DTYPE_F32, logits->dim[0], d->window)};
    struct eltwise_args scaled = {.kind = ELTWISE_SCALE, .a = *logits, .y = *logits, .alpha = modelfile_logit_scale(&d->info.file)};
    int rc = scaled.alpha != 1 ? op_eltwise(s, &scaled, err) : 0;
    return rc ? rc : op_sigmoid(s, &sigmoid, err);
}

static int infer(struct detector *d, struct stream *s, int rows, struct err *err) {
    const struct seizure_config *c = &d->info.file.model;
    struct tensor x = tensor_3d(d->x, DTYPE_F32, rows, d->window, c->in_channels),
                  logits = tensor_2d(d->logits, DTYPE_F32, rows, d->window);
    size_t out = (size_t)rows * (size_t)d->window * sizeof(float);
    int rc;
    if ((rc = stream_to_device(s, d->x, d->x_host, out * (size_t)c->in_channels, err)) ||
        (rc = infer_rows(d, s, &x, &logits, err)) || (rc = to_probabilities(d, s, &logits, err)) ||
        (rc = stream_to_host(s, d->p_host, d->p, out, err)))
        return rc;
    return stream_sync(s, err);
}

int detector_warm_up(struct detector *d, struct stream *s, struct err *err) {
    const struct seizure_config *c = &d->info.file.model;
    memset(d->x_host, 0, (size_t)d->window * (size_t)c->in_channels * sizeof *d->x_host);
    if (d->n_state)
        memset(d->state_host, 0, (size_t)d->n_state * sizeof *d->state_host);
    return infer(d, s, 1, err);
}

/* True if lanes compute the same bits, for windows of noise. */
static bool lanes_agree(struct detector *d, struct infer_lanes *lanes, struct stream *s, int rows) {
    const struct seizure_config *c = &d->info.file.model;
    size_t n = (size_t)rows * (size_t)c->window;
    float *p = malloc(n * sizeof *p);
    struct rng rng;
    rng_init(&rng, 1, RNG_SYNTH, 0);
    for (size_t i = 0; i < n * (size_t)c->in_channels; i++)
        d->x_host[i] = (float)rng_normal(&rng);
    bool agree =
        p && !infer(d, s, rows, NULL) && !infer_lanes_run(lanes, d->x_host, p, rows, NULL) && !memcmp(p, d->p_host, n * sizeof *p);
    free(p);
    return agree;
}

int detector_spread(struct detector *d, const struct model_image *image, struct stream *s, int64_t memory_limit_bytes,
                    struct err *err) {
    const struct seizure_config *c = &d->info.file.model;
    struct device_info info;
    struct infer_lanes *lanes = NULL;
    device_describe(d->device, &info);
    if (info.is_async || info.threads < 2 || info.threads > d->max_batch || d->lanes || seizure_step(c))
        return 0;
    int64_t bytes = infer_lanes_bytes(c, image->precision, info.threads);
    if (memory_limit_bytes && bytes > memory_limit_bytes - d->info.memory_bytes)
        return 0;
    int rc = infer_lanes_open(image, info.threads, &lanes, err);
    if (rc)
        return rc;
    if (!lanes_agree(d, lanes, s, info.threads)) {
        infer_lanes_close(lanes);
        return 0;
    }
    d->lanes = lanes;
    d->n_lanes = info.threads;
    d->info.memory_bytes += bytes;
    return 0;
}

int detector_run(struct detector *d, struct stream *s, struct timeline *const *timelines, int n, int64_t max_windows,
                 int64_t *ret_windows, struct err *err) {
    int64_t total = 0;
    for (;;) {
        int room = max_windows && max_windows - total < d->max_batch ? (int)(max_windows - total) : d->max_batch;
        int rows = gather(d, timelines, n, room), rc = 0;
        if (!rows)
            break;
        rc = d->lanes && rows >= d->n_lanes ? infer_lanes_run(d->lanes, d->x_host, d->p_host, rows, err) : infer(d, s, rows, err);
        if (rc)
            return rc;
        for (int i = 0; i < rows; i++) {
            struct err own; /* a sink's failure ends that timeline only; its owner finds it in timeline_status */
            if (d->n_state)
                memcpy(timeline_state(d->batch[i]), d->state_host + i * d->n_state, (size_t)d->n_state * sizeof *d->state_host);
            timeline_complete(d->batch[i], d->p_host + i * d->window, &own);
        }
        total += rows;
    }
    if (ret_windows)
        *ret_windows = total;
    return 0;
}
