#include "detect/precision.h"

#include "base/rng.h"

OWNABLE(struct seizure_net, seizure_free)

enum { WINDOWS = 2, PERIOD = 85 }; /* of the rhythm: 3 Hz */

/* One pass of one row: host and device memory of its input, logits and state. */
struct probe {
    struct device *device;
    struct stream *stream;
    struct seizure_net *net;
    const struct seizure_config *model;
    int64_t pass, n_state;
    float *x_host;
    void *x, *logits, *state;
};

static int64_t passes(const struct seizure_config *model) { return WINDOWS * (model->window / model_pass_samples(model)); }

/* How many samples of logits are compared. */
static int64_t precision_samples(const struct seizure_config *model) { return passes(model) * model_pass_samples(model); }

static void probe_done(struct probe *p) {
    device_free(p->device, p->state);
    device_free(p->device, p->logits);
    device_free(p->device, p->x);
    device_free_host(p->device, p->x_host);
}

static int probe_init(struct probe *p, struct err *err) {
    size_t wide = (size_t)p->pass * (size_t)p->model->in_channels * sizeof(float);
    void *x_host = NULL;
    int rc = device_alloc_host(p->device, wide, &x_host, err);
    p->x_host = x_host;
    if (rc || (rc = device_alloc(p->device, wide, &p->x, err)) ||
        (rc = device_alloc(p->device, (size_t)p->pass * sizeof(float), &p->logits, err)) || !p->n_state)
        return rc;
    size_t bytes = (size_t)p->n_state * sizeof(float);
    rc = device_alloc(p->device, bytes, &p->state, err);
    return rc ? rc : stream_zero(p->stream, p->state, bytes, err);
}

/* Samples first… of the windows, which do not depend on how they are cut into passes. */
static void fill(const struct probe *p, struct rng *rng, int64_t first) {
    int channels = p->model->in_channels;
    for (int64_t t = 0; t < p->pass; t++) {
        int64_t at = (first + t) % p->model->window;
        double rhythm = at < p->model->window / 2 ? 0 : 2 * sin(2 * M_PI * (double)at / PERIOD);
        for (int c = 0; c < channels; c++)
            p->x_host[t * channels + c] = (float)(rng_normal(rng) + rhythm);
    }
}

static int run_pass(const struct probe *p, float *ret, struct err *err) {
    struct tensor x = tensor_3d(p->x, DTYPE_F32, 1, p->pass, p->model->in_channels);
    struct tensor logits = tensor_2d(p->logits, DTYPE_F32, 1, p->pass), state = tensor_2d(p->state, DTYPE_F32, 1, p->n_state);
    int rc = stream_to_device(p->stream, p->x, p->x_host, (size_t)tensor_count(&x) * sizeof(float), err);
    if (rc)
        return rc;
    rc = seizure_step(p->model) ? seizure_infer_step(p->net, p->stream, &x, &state, &logits, err)
                                : seizure_infer(p->net, p->stream, &x, &logits, err);
    if (rc || (rc = stream_to_host(p->stream, ret, p->logits, (size_t)p->pass * sizeof(float), err)))
        return rc;
    return stream_sync(p->stream, err);
}

static int run_passes(const struct probe *p, float *ret, struct err *err) {
    struct rng rng;
    int rc = 0;
    rng_init(&rng, 1, RNG_SYNTH, 0);
    for (int64_t i = 0; i < passes(p->model) && !rc; i++) {
        fill(p, &rng, i * p->pass);
        rc = run_pass(p, ret + i * p->pass, err);
    }
    return rc;
}

/* Writes the logits of the windows to ret (host memory, precision_samples floats), by a network of the image in this precision,
 * which is freed again.
 * UNSUPPORTED: the device has no bf16. */
static int precision_logits(struct device *dev, const struct model_image *image, enum dtype precision, struct stream *s, float *ret,
                            struct err *err) {
    const struct seizure_config *model = &image->file.model;
    const struct seizure_options options = {.max_batch = 1, .precision = precision};
    OWNED_POINTER(seizure_free) struct seizure_net *net = NULL;
    int rc;
    if ((rc = seizure_new(dev, model, &options, &net, err)) || (rc = model_image_upload(image, net, s, err)))
        return rc;
    struct probe p = {.device = dev,
                      .stream = s,
                      .net = net,
                      .model = model,
                      .pass = model_pass_samples(model),
                      .n_state = seizure_state_count(model)};
    rc = probe_init(&p, err);
    if (!rc)
        rc = run_passes(&p, ret, err);
    probe_done(&p);
    return rc;
}

double precision_difference(const float *a, const float *b, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= most))
            most = d;
        if (isnan(most))
            break;
    }
    return most;
}

int precision_check(struct device *dev, const struct model_image *image, struct stream *s, double *ret_difference,
                    struct err *err) {
    int64_t n = precision_samples(&image->file.model);
    OWNED_MEMORY float *logits = malloc((size_t)(2 * n) * sizeof *logits);
    int rc;
    if (!logits)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the logits of %s", image->path);
    if ((rc = precision_logits(dev, image, DTYPE_F32, s, logits, err)) ||
        (rc = precision_logits(dev, image, DTYPE_BF16, s, logits + n, err)))
        return rc;
    double difference = precision_difference(logits, logits + n, n);
    if (!(difference <= image->file.bf16_bound))
        return err_set(err, ERR_PRECONDITION,
                       "%s: its logits in bf16 differ from those in fp32 by %.3g, and the model allows %.3g (" MODELFILE_BF16_BOUND
                       "); use it in fp32",
                       image->path, difference, image->file.bf16_bound);
    *ret_difference = difference;
    return 0;
}
