#include "detect/detector.h"

#include "base/rng.h"
#include "detect/lanes.h"
#include "detect/precision.h"
#include "detect/timeline.h"
#include "kernels/op.h"

enum { LANE_STEPS = 16 }; /* rows of a network of steps: more fall out of the caches */

OWNABLE(struct stream, stream_close)
OWNABLE(struct seizure_net, seizure_free)
OWNABLE(struct device, device_close)
OWNABLE(struct detector, detector_close)

/* Windows on their way through the network: `rows` rows, of each `steps` windows one after the other. Window k of row i is number
 * k · wide + i in x and p; the network takes `wide` rows, and nobody reads those behind `rows`. */
struct batch {
    float *x, *p;          /* on the host */
    struct timeline **who; /* of each row */
    int *taken;            /* windows of each row; the others up to `steps` are zeros */
    int rows, wide, steps;
};

struct detector {
    struct detector_info info;
    struct device *device;
    struct seizure_net *net;
    bool owns_net;
    char path[4096];
    char *patients;
    int max_batch, max_steps; /* rows; steps of a model with state in one launch */
    bool records;             /* passes are recorded, for a few numbers of rows (nn/replay) */
    int64_t window, n_state;  /* samples of a pass; floats of a row's state, 0: none */
    struct batch batches[2];  /* on a device that queues the host fills the second while the first is computed */
    int n_batches;
    float *state_host;         /* batch × n_state */
    void *x, *logits, *p;      /* device */
    void *state;               /* device; NULL: none */
    struct infer_lanes *lanes; /* NULL: none */
    int n_lanes;
};

int detector_best_batch(struct device *dev) {
    struct device_info info;
    device_describe(dev, &info);
    return info.is_async ? DETECTOR_BATCH_GPU : DETECTOR_BATCH_CPU;
}

static int take_batch(struct detector *d, struct batch *b, size_t rows, struct err *err) {
    void *x = NULL, *p = NULL;
    int rc = device_alloc_host(d->device, rows * (size_t)d->info.file.model.in_channels, &x, err);
    b->x = x;
    rc = rc ? rc : device_alloc_host(d->device, rows, &p, err);
    b->p = p;
    if (rc)
        return rc;
    b->who = calloc((size_t)d->max_batch, sizeof *b->who);
    b->taken = calloc((size_t)d->max_batch, sizeof *b->taken);
    return b->who && b->taken ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for a detector");
}

static void batch_done(struct detector *d, struct batch *b) {
    device_free_host(d->device, b->x);
    device_free_host(d->device, b->p);
    FREE_MEMBERS(*b, who, taken);
}

/* As much as model_batch_bytes says. */
static int take_buffers(struct detector *d, struct err *err) {
    const struct seizure_config *c = &d->info.file.model;
    struct device_info device;
    device_describe(d->device, &device);
    d->window = model_pass_samples(c);
    d->n_state = seizure_state_count(c);
    d->max_steps = device.is_async ? model_launch_steps(c) : 1;
    d->records = device.has_graphs;
    d->n_batches = device.is_async && !d->n_state ? 2 : 1;
    size_t rows = (size_t)(d->max_batch * d->max_steps) * (size_t)d->window * sizeof(float), wide = rows * (size_t)c->in_channels;
    size_t states = (size_t)d->max_batch * (size_t)d->n_state * sizeof(float);
    void *state_host = NULL;
    int rc = 0;
    for (int i = 0; i < d->n_batches && !rc; i++)
        rc = take_batch(d, &d->batches[i], rows, err);
    if (rc || (rc = device_alloc(d->device, wide, &d->x, err)) || (rc = device_alloc(d->device, rows, &d->logits, err)) ||
        (rc = device_alloc(d->device, rows, &d->p, err)))
        return rc;
    if (states) {
        rc = device_alloc_host(d->device, states, &state_host, err);
        d->state_host = state_host;
        if (rc || (rc = device_alloc(d->device, states, &d->state, err)))
            return rc;
    }
    return 0;
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
    if (rc)
        detector_close(d);
    else
        *ret = d;
    return rc;
}

/* The network over the rows, with the state of each if it carries one. */
static int infer_rows(struct detector *d, struct stream *s, const struct tensor *x, int steps, struct tensor *logits,
                      struct err *err) {
    struct tensor state = tensor_2d(d->state, DTYPE_F32, x->dim[0] / steps, d->n_state);
    size_t bytes = (size_t)(state.dim[0] * d->n_state) * sizeof(float);
    if (!seizure_step(&d->info.file.model))
        return seizure_infer(d->net, s, x, logits, err);
    if (!d->n_state)
        return seizure_infer_step(d->net, s, x, &state, logits, err);
    int rc;
    if ((rc = stream_to_device(s, d->state, d->state_host, bytes, err)) ||
        (rc = seizure_infer_steps(d->net, s, x, steps, &state, logits, err)))
        return rc;
    return stream_to_host(s, d->state_host, d->state, bytes, err);
}

/* The logits, in p of the first batch, of a window of noise or of a rhythm of 3 Hz, as z-scores. */
static int answer_window(struct detector *d, struct stream *s, bool rhythm, struct err *err) {
    const struct batch *b = &d->batches[0];
    const int64_t channels = d->info.file.model.in_channels, wide = d->window * channels;
    struct tensor x = tensor_3d(d->x, DTYPE_F32, 1, d->window, channels);
    struct tensor logits = tensor_2d(d->logits, DTYPE_F32, 1, d->window);
    struct rng rng;
    int rc;
    rng_init(&rng, 1, RNG_SYNTH, 0);
    for (int64_t i = 0; i < wide; i++)
        b->x[i] = rhythm ? (float)sin((double)(i / channels) * 6 * M_PI / FRONTEND_RATE_HZ + (double)(i % channels))
                         : (float)rng_normal(&rng);
    if (d->n_state)
        memset(d->state_host, 0, (size_t)d->n_state * sizeof *d->state_host);
    if ((rc = stream_to_device(s, d->x, b->x, (size_t)wide * sizeof *b->x, err)) || (rc = infer_rows(d, s, &x, 1, &logits, err)) ||
        (rc = stream_to_host(s, b->p, d->logits, (size_t)d->window * sizeof *b->p, err)))
        return rc;
    return stream_sync(s, err);
}

/* Where weights overflow although each is finite, answers are no numbers; where one weight hides all others, they are 0 or 1 for
 * ever. Models without a network have no weights, and call a window background until they have heard enough. */
static int check_answers(struct detector *d, struct stream *s, struct err *err) {
    const float scale = modelfile_logit_scale(&d->info.file);
    int64_t zeros = 0, ones = 0;
    for (int rhythm = 0; rhythm < 2; rhythm++) {
        int rc = answer_window(d, s, rhythm, err);
        for (int64_t i = 0; !rc && i < d->window; i++) {
            const float logit = d->batches[0].p[i], p = 1 / (1 + expf(-logit * scale));
            if (!isfinite(logit))
                return err_set(err, ERR_INVALID, "%s: the answer to %s is not finite; the file is no usable model", d->path,
                               rhythm ? "a rhythm" : "a window of noise");
            zeros += p == 0;
            ones += p == 1;
        }
        if (rc)
            return rc;
    }
    if ((zeros < 2 * d->window && ones < 2 * d->window) || seizure_is_feature(d->info.file.model.type))
        return 0;
    return err_set(err, ERR_INVALID, "%s: the probability is %d at every sample of noise and of a rhythm; it is no usable model",
                   d->path, zeros ? 0 : 1);
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
    d->info.memory_bytes = image->memory_bytes + (d->max_steps - 1) * model_batch_bytes(&image->file.model, image->max_batch);
    d->info.precision = image->precision;
    d->info.bf16_difference = difference;
    str_copy(d->path, sizeof d->path, image->path);
    memcpy(d->info.sha256, image->sha256, sizeof image->sha256);
    if ((rc = check_answers(d, s, err)))
        detector_close(d);
    else
        *ret = d;
    return rc;
}

int detector_open(struct device *dev, const char *checkpoint, const struct model_use *use, struct detector **ret, struct err *err) {
    OWNED_POINTER(model_image_close) struct model_image *image = NULL;
    int rc = model_image_open(checkpoint, use, &image, err);
    return rc ? rc : detector_upload(dev, image, ret, err);
}

int detector_check(const char *path, struct err *err) {
    OWNED_POINTER(device_close) struct device *dev = NULL;
    OWNED_POINTER(detector_close) struct detector *d = NULL;
    const struct model_use use = {.max_batch = 1, .precision = DTYPE_F32};
    int rc = device_open("cpu", 1, &dev, err);
    return rc ? rc : detector_open(dev, path, &use, &d, err);
}

void detector_close(struct detector *d) {
    if (!d)
        return;
    for (int i = 0; i < d->n_batches; i++)
        batch_done(d, &d->batches[i]);
    device_free_host(d->device, d->state_host);
    device_free(d->device, d->state);
    device_free(d->device, d->x);
    device_free(d->device, d->logits);
    device_free(d->device, d->p);
    infer_lanes_close(d->lanes);
    if (d->owns_net)
        seizure_free(d->net);
    free(d->patients);
    free(d);
}

const struct detector_info *detector_info(const struct detector *d) { return &d->info; }

int detector_side_by_side(const struct detector *d, int64_t *ret_windows) {
    enum { BATCHES = 8, STEPS = 60 };
    struct device_info device;
    device_describe(d->device, &device);
    const bool steps = seizure_step(&d->info.file.model) != 0;
    *ret_windows = (int64_t)d->max_batch * (steps ? STEPS : device.is_async ? BATCHES : 1);
    return d->n_state ? d->max_batch : device.is_async ? 2 : 1; /* a step of a recording needs the one before */
}

static size_t row_floats(const struct detector *d) { return (size_t)d->window * (size_t)d->info.file.model.in_channels; }

/* Rows for the network: where passes are recorded a power of two, so that a few recordings serve every number of windows. */
static int widen(const struct detector *d, int rows) {
    int wide = 1;
    while (wide < rows)
        wide *= 2;
    return !d->records ? rows : wide < d->max_batch ? wide : d->max_batch;
}

/* One window each, or of models without state several of one timeline, at most `room`. */
static void gather_windows(struct detector *d, struct batch *b, struct timeline *const *timelines, int n, int room) {
    b->rows = 0;
    b->steps = 1;
    for (int i = 0; i < n && b->rows < room; i++)
        while (b->rows < room && timeline_take(timelines[i], b->x + (size_t)b->rows * row_floats(d))) {
            b->taken[b->rows] = 1;
            b->who[b->rows++] = timelines[i];
        }
    b->wide = widen(d, b->rows);
}

/* max_steps windows of each timeline that has so many, or has come to the end of its segment. */
static void gather_steps(struct detector *d, struct batch *b, struct timeline *const *timelines, int n) {
    bool last;
    b->rows = 0;
    b->steps = d->max_steps;
    for (int i = 0; i < n && b->rows < d->max_batch; i++) {
        int steps = timeline_steps(timelines[i], d->max_steps, &last);
        if (steps < d->max_steps && !(steps && last))
            continue;
        b->taken[b->rows] = steps;
        b->who[b->rows++] = timelines[i];
    }
    b->wide = widen(d, b->rows);
    const size_t row = row_floats(d), step = (size_t)b->wide * row;
    for (int i = 0; i < b->rows; i++) {
        timeline_take_steps(b->who[i], b->taken[i], b->x + (size_t)i * row, (int64_t)step);
        for (int k = b->taken[i]; k < b->steps; k++)
            memset(b->x + (size_t)k * step + (size_t)i * row, 0, row * sizeof *b->x);
    }
}

/* The next windows, at most `most` (0: as many as there is room for), and the states that they begin with. */
static void gather(struct detector *d, struct batch *b, struct timeline *const *timelines, int n, int64_t most) {
    b->rows = 0;
    if (d->max_steps > 1 && (!most || most >= d->max_steps))
        gather_steps(d, b, timelines, n);
    if (!b->rows)
        gather_windows(d, b, timelines, n, most && most < d->max_batch ? (int)most : d->max_batch);
    for (int i = 0; d->n_state && i < b->rows; i++)
        memcpy(d->state_host + i * d->n_state, timeline_state(b->who[i]), (size_t)d->n_state * sizeof *d->state_host);
}

/* Probabilities of the rows' logits, which are lost where the model has a temperature. */
static int to_probabilities(struct detector *d, struct stream *s, const struct tensor *logits, struct err *err) {
    struct sigmoid_args sigmoid = {.x = *logits, .y = tensor_2d(d->p, DTYPE_F32, logits->dim[0], d->window)};
    struct eltwise_args scaled = {.kind = ELTWISE_SCALE, .a = *logits, .y = *logits, .alpha = modelfile_logit_scale(&d->info.file)};
    int rc = scaled.alpha != 1 ? op_eltwise(s, &scaled, err) : 0;
    return rc ? rc : op_sigmoid(s, &sigmoid, err);
}

/* Begins to compute a batch; its probabilities are there when the stream has been waited for. */
static int launch(struct detector *d, struct stream *s, const struct batch *b, struct err *err) {
    const struct seizure_config *c = &d->info.file.model;
    const int64_t windows = (int64_t)b->wide * b->steps;
    struct tensor x = tensor_3d(d->x, DTYPE_F32, windows, d->window, c->in_channels),
                  logits = tensor_2d(d->logits, DTYPE_F32, windows, d->window);
    size_t out = (size_t)(windows * d->window) * sizeof(float);
    stream_phase(s, "infer");
    int rc = stream_to_device(s, d->x, b->x, out * (size_t)c->in_channels, err);
    rc = rc ? rc : infer_rows(d, s, &x, b->steps, &logits, err);
    rc = rc ? rc : to_probabilities(d, s, &logits, err);
    stream_phase(s, NULL);
    return rc ? rc : stream_to_host(s, b->p, d->p, out, err);
}

/* The same to its end. */
static int infer(struct detector *d, struct stream *s, const struct batch *b, struct err *err) {
    int rc = launch(d, s, b, err);
    return rc ? rc : stream_sync(s, err);
}

static int run_lanes(struct detector *d, struct infer_lanes *lanes, struct stream *s, const struct batch *b, struct err *err) {
    return infer_lanes_run(lanes, s, &(struct lane_rows){b->x, d->state_host, b->p, b->rows}, err);
}

/* Begins to compute a batch, on lanes where it has a row for each; steps always, whose ops are too small for a team. */
static int begin_batch(struct detector *d, struct stream *s, const struct batch *b, struct err *err) {
    const bool on_lanes = d->lanes && (b->rows >= d->n_lanes || seizure_step(&d->info.file.model));
    return on_lanes ? run_lanes(d, d->lanes, s, b, err) : launch(d, s, b, err);
}

int detector_warm_up(struct detector *d, struct stream *s, int64_t recordings, struct err *err) {
    struct batch *b = &d->batches[0];
    struct device_info device;
    device_describe(d->device, &device);
    const bool whole = recordings > 0 && device.is_async;
    b->rows = !whole ? 1 : d->n_state && recordings < d->max_batch ? (int)recordings : d->max_batch;
    b->wide = widen(d, b->rows);
    b->steps = whole ? d->max_steps : 1;
    memset(b->x, 0, (size_t)(b->wide * b->steps) * row_floats(d) * sizeof *b->x);
    if (d->n_state)
        memset(d->state_host, 0, (size_t)(b->wide * d->n_state) * sizeof *d->state_host);
    int rc = begin_batch(d, s, b, err);
    return rc ? rc : stream_sync(s, err);
}

/* True if lanes compute the same bits, for rows of noise with states of noise. */
static bool lanes_agree(struct detector *d, struct infer_lanes *lanes, struct stream *s, int rows) {
    struct batch *b = &d->batches[0];
    const size_t n_p = (size_t)rows * (size_t)d->window, n_state = (size_t)rows * (size_t)d->n_state;
    OWNED_MEMORY float *p = malloc((n_p + n_state) * sizeof *p);
    float *state = p ? p + n_p : NULL;
    bool same = p != NULL;
    b->rows = b->wide = rows;
    b->steps = 1;
    for (int pass = 0; pass < 2 && same; pass++) { /* the second keeps what the first computed, and compares */
        struct rng rng;
        rng_init(&rng, 1, RNG_SYNTH, 0);
        for (size_t i = 0; i < (size_t)rows * row_floats(d); i++)
            b->x[i] = (float)rng_normal(&rng);
        for (size_t i = 0; i < n_state; i++)
            d->state_host[i] = (float)rng_normal(&rng) / 8;
        same = !pass ? !infer(d, s, b, NULL) : !run_lanes(d, lanes, s, b, NULL);
        if (!pass && same) {
            memcpy(p, b->p, n_p * sizeof *p);
            memcpy(state, d->state_host, n_state * sizeof *state);
        }
    }
    return same && !memcmp(p, b->p, n_p * sizeof *p) && (!n_state || !memcmp(state, d->state_host, n_state * sizeof *state));
}

int detector_spread(struct detector *d, const struct model_image *image, struct stream *s, const struct lane_use *use,
                    struct err *err) {
    const struct seizure_config *c = &d->info.file.model;
    struct device_info info;
    struct infer_lanes *lanes = NULL;
    device_describe(d->device, &info);
    const bool steps = seizure_step(c) != 0, alone = steps && (use->alone || seizure_is_feature(c->type));
    const int n = alone ? 1 : !steps || info.threads < d->max_batch ? info.threads : d->max_batch;
    const int rows = !steps ? 1 : d->max_batch < LANE_STEPS ? d->max_batch : LANE_STEPS;
    if (info.is_async || (n < 2 && !alone) || n > d->max_batch || d->lanes)
        return 0;
    int64_t bytes = infer_lanes_bytes(c, image->precision, n, rows);
    if (use->memory_limit_bytes && bytes > use->memory_limit_bytes - d->info.memory_bytes)
        return 0;
    int rc = infer_lanes_open(image, n, rows, &lanes, err);
    if (rc)
        return rc;
    if (!lanes_agree(d, lanes, s, n) || !lanes_agree(d, lanes, s, n * rows < d->max_batch ? n * rows : d->max_batch)) {
        infer_lanes_close(lanes);
        return 0;
    }
    d->lanes = lanes;
    d->n_lanes = n;
    d->info.memory_bytes += bytes;
    return 0;
}

int detector_open_for(struct stream *s, const char *checkpoint, const struct model_use *use, struct detector **ret,
                      struct err *err) {
    OWNED_POINTER(model_image_close) struct model_image *image = NULL;
    struct detector *d = NULL;
    int rc = model_image_open(checkpoint, use, &image, err);
    rc = rc ? rc : detector_upload(stream_device(s), image, &d, err);
    const struct lane_use lanes = {use->memory_limit_bytes, false};
    rc = rc || !seizure_step(&image->file.model) ? rc : detector_spread(d, image, s, &lanes, err);
    if (rc)
        detector_close(d);
    else
        *ret = d;
    return rc;
}

/* The probabilities of a batch go to their timelines. Returns the number of windows. */
static int64_t complete(struct detector *d, const struct batch *b) {
    int64_t windows = 0;
    for (int i = 0; i < b->rows; i++) {
        if (d->n_state)
            memcpy(timeline_state(b->who[i]), d->state_host + i * d->n_state, (size_t)d->n_state * sizeof *d->state_host);
        for (int k = 0; k < b->taken[i]; k++) {
            struct err own; /* a sink's failure ends that timeline only; its owner finds it in timeline_status */
            timeline_complete(b->who[i], b->p + (k * b->wide + i) * d->window, &own);
        }
        windows += b->taken[i];
    }
    return windows;
}

int detector_run(struct detector *d, struct stream *s, struct timeline *const *timelines, int n, int64_t max_windows,
                 int64_t *ret_windows, struct err *err) {
    struct batch *flying = NULL; /* launched and not waited for */
    int64_t begun = 0, done = 0;
    int rc = 0;
    for (int next = 0;; next = (next + 1) % d->n_batches) {
        struct batch *b = &d->batches[next];
        b->rows = 0;
        if (!max_windows || begun < max_windows)
            gather(d, b, timelines, n, max_windows ? max_windows - begun : 0);
        if (flying && (rc = stream_sync(s, err)))
            return rc;
        if (b->rows) /* before the results of the one before are handed out: the device need not wait for that */
            rc = begin_batch(d, s, b, err);
        if (flying)
            done += complete(d, flying);
        if (rc)
            return rc;
        if (!b->rows && !flying)
            break;
        for (int i = 0; i < b->rows; i++)
            begun += b->taken[i];
        flying = b->rows ? b : NULL;
        if (flying && d->n_batches == 1) {
            if ((rc = stream_sync(s, err)))
                return rc;
            done += complete(d, flying);
            flying = NULL;
        }
    }
    if (ret_windows)
        *ret_windows = done;
    return 0;
}
