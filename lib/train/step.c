#include "train/step.h"

#include "nn/replay.h"

/* Data copied to and from the device, laid out alike on both sides: there, `there` and the rows' lengths behind the struct; back,
 * `back`. */
struct travels {
    struct {
        double loss_sum, count, squares;
    } back;
    struct train_place there;
    int32_t valid[];
};

enum { PART_LEAF = 4, PART_UPDATE, PART_UNCHANGED = 8 }; /* parts of a recording, beside first + 2·last */

struct step {
    struct step_config config;
    struct device *device;
    struct travels *host, *on_device; /* host: pinned */
    float *logits, *dlogits;          /* device */
    struct replay replay;
    struct step_input input;     /* queued, not waited for */
    const struct stream *stream; /* of the micro-batch before */
    uint64_t weights;            /* their version then; 0: there was none */
};

static size_t travel_bytes(int rows) { return sizeof(struct travels) + (size_t)rows * sizeof(int32_t); }

int step_new(struct device *dev, const struct step_config *config, struct step **ret, struct err *err) {
    struct step *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a training step");
    t->config = *config;
    t->device = dev;
    size_t bytes = (size_t)config->rows * (size_t)seizure_config(config->net)->window * sizeof(float);
    void *host = NULL, *on_device = NULL, *logits = NULL, *dlogits = NULL;
    int rc = device_alloc_host(dev, travel_bytes(config->rows), &host, err);
    if (!rc)
        rc = device_alloc(dev, travel_bytes(config->rows), &on_device, err);
    if (!rc)
        rc = device_alloc(dev, bytes, &logits, err);
    if (!rc)
        rc = device_alloc(dev, bytes, &dlogits, err);
    t->host = host;
    t->on_device = on_device;
    t->logits = logits;
    t->dlogits = dlogits;
    return GIVEN(ret, t, step_free, rc);
}

void step_free(struct step *t) {
    if (!t)
        return;
    replay_done(&t->replay);
    device_free_host(t->device, t->host);
    device_free(t->device, t->on_device);
    device_free(t->device, t->logits);
    device_free(t->device, t->dlogits);
    free(t);
}

const float *step_logits(const struct step *t) { return t->logits; }

bool step_warning(struct step *t, struct err *ret) { return replay_warning(&t->replay, ret); }

/* The values of this step, on their way to the device. */
static void place_values(struct step *t, const struct step_input *input) {
    t->host->there = (struct train_place){.step = (uint32_t)input->step, .row0 = input->row0, .loss_scale = input->loss_scale};
    memcpy(t->host->valid, input->valid, (size_t)t->config.rows * sizeof *input->valid);
    optim_place(t->config.optim, input->step, &t->host->there);
}

struct work {
    struct step *step;
    struct stream *stream;
};

static int update(struct work *w, struct err *err) {
    struct step *t = w->step;
    stream_phase(w->stream, "update");
    return optim_queue(t->config.optim, w->stream, &t->on_device->there, &t->on_device->back.squares, err);
}

/* The whole of it, as what the recording holds; with a reduction, up to the gradient of the leaf. */
static int run(void *ctx, struct err *err) {
    struct work *w = ctx;
    struct step *t = w->step;
    const struct step_config *c = &t->config;
    int64_t rows = c->rows, window = seizure_config(c->net)->window;
    struct tensor logits = tensor_2d(t->logits, DTYPE_F32, rows, window), dlogits = tensor_2d(t->dlogits, DTYPE_F32, rows, window);
    struct seizure_pass pass = {.seed = c->seed,
                                .place = &t->on_device->there,
                                .leaf_statistics = c->reduction ? reduction_leaf_statistics(c->reduction) : NULL};
    struct loss_args loss = {.kind = c->loss,
                             .logits = logits,
                             .labels = t->input.labels,
                             .dlogits = dlogits,
                             .valid = t->on_device->valid,
                             SAME_MEMBERS(*c, alpha, gamma, pos_weight),
                             .place = pass.place,
                             .sums = &t->on_device->back.loss_sum};
    stream_phase(w->stream, "forward");
    int rc = t->input.first || c->reduction ? optim_zero_grad(c->optim, w->stream, err) : 0;
    rc = rc ? rc : seizure_forward_train(c->net, w->stream, &t->input.x, &pass, &logits, err);
    stream_phase(w->stream, "loss");
    rc = rc ? rc : op_loss(w->stream, &loss, err);
    stream_phase(w->stream, "backward");
    rc = rc ? rc : seizure_backward(c->net, w->stream, &dlogits, &pass, err);
    rc = rc || !t->input.last || c->reduction ? rc : update(w, err);
    stream_phase(w->stream, NULL);
    return rc;
}

/* The end of a batch whose gradients were reduced. */
static int run_update(void *ctx, struct err *err) {
    struct work *w = ctx;
    int rc = reduction_apply_statistics(w->step->config.reduction, w->stream, err);
    rc = rc ? rc : update(w, err);
    stream_phase(w->stream, NULL);
    return rc;
}

static int reduce(struct work *w, struct err *err) {
    struct step *t = w->step;
    struct reduction *reduction = t->config.reduction;
    const struct replay_key key = {t, NULL, t->config.rows, PART_UPDATE};
    int rc = reduction_add(reduction, w->stream, t->input.leaf, err);
    if (rc || !t->input.last)
        return rc;
    rc = reduction_exchange(reduction, w->stream, err);
    return rc ? rc : replay_run(&t->replay, w->stream, &key, &(struct replay_body){run_update, w}, err);
}

int step_queue(struct step *t, struct stream *s, const struct step_input *input, struct err *err) {
    struct work work = {t, s};
    uint64_t *version = &seizure_params(t->config.net)->version, weights = *version;
    int part = t->config.reduction ? PART_LEAF : input->first + 2 * input->last;
    bool unchanged = t->weights == weights && t->stream == s; /* what the micro-batch before made of them serves */
    const struct replay_key key = {input->x.data, input->labels.data, t->config.rows, part + (unchanged ? PART_UNCHANGED : 0)};
    size_t skip = offsetof(struct travels, there);
    t->input = *input;
    t->weights = 0; /* until all of it is queued */
    place_values(t, input);
    int rc;
    if ((rc = stream_to_device(s, &t->on_device->there, &t->host->there, travel_bytes(t->config.rows) - skip, err)))
        return rc;
    *version |= unchanged ? WEIGHTS_UNCHANGED : 0;
    rc = replay_run(&t->replay, s, &key, &(struct replay_body){run, &work}, err);
    *version = weights;
    if (rc || (t->config.reduction && (rc = reduce(&work, err))))
        return rc;
    t->weights = weights;
    t->stream = s;
    return stream_to_host(s, &t->host->back, &t->on_device->back, sizeof t->host->back, err);
}

int step_wait(struct step *t, struct stream *s, struct step_result *ret, struct err *err) {
    int rc = stream_sync(s, err);
    if (rc)
        return rc;
    *ret = (struct step_result){.loss_sum = t->host->back.loss_sum, .count = (int64_t)t->host->back.count};
    if (t->input.last)
        optim_account(t->config.optim, t->input.step, t->host->back.squares, &ret->report);
    return 0;
}
