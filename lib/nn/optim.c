#include "nn/optim.h"

static int alloc(const struct optim *o, size_t bytes, void **ret, struct err *err) {
    return device_alloc(o->params->device, bytes, ret, err);
}

/* AdamW of a zero gradient leaves its parameters as they are and moves their average: so the running statistics are averaged with
 * the decay of the step, recorded or not, and skipped with it. */
static int alloc_buffers(struct optim *o, struct stream *s, struct err *err) {
    size_t n = (size_t)o->params->buffer_count;
    int rc;
    if ((rc = alloc(o, 4 * n * sizeof(float), (void **)&o->ema_buffers, err)) || (rc = alloc(o, n, (void **)&o->no_decay, err)) ||
        (rc = stream_zero(s, o->ema_buffers, 4 * n * sizeof(float), err)))
        return rc;
    return stream_zero(s, o->no_decay, n, err);
}

int optim_init(struct optim *o, struct param_set *params, const struct optim_config *config, struct stream *s, struct err *err) {
    *o = (struct optim){.config = *config, .params = params};
    size_t bytes = (size_t)params->data_count * sizeof(float);
    int rc;
    if ((rc = alloc(o, bytes, (void **)&o->m, err)) || (rc = alloc(o, sizeof *o->squares, (void **)&o->squares, err)) ||
        (rc = alloc(o, bytes, (void **)&o->v, err)))
        return rc;
    if (config->ema > 0 &&
        ((rc = alloc(o, bytes, (void **)&o->ema, err)) || (params->buffer_count && (rc = alloc_buffers(o, s, err)))))
        return rc;
    return optim_start_ema(o, s, err);
}

void optim_done(struct optim *o) {
    if (!o->params)
        return;
    device_free(o->params->device, o->m);
    device_free(o->params->device, o->v);
    device_free(o->params->device, o->ema);
    device_free(o->params->device, o->ema_buffers);
    device_free(o->params->device, o->no_decay);
    device_free(o->params->device, o->squares);
    *o = (struct optim){0};
}

int optim_start_ema(struct optim *o, struct stream *s, struct err *err) {
    const struct param_set *p = o->params;
    int rc = o->ema ? stream_copy(s, o->ema, p->data, (size_t)p->data_count * sizeof(float), err) : 0;
    if (rc)
        return rc;
    return o->ema_buffers ? stream_copy(s, o->ema_buffers, p->buffers, (size_t)p->buffer_count * sizeof(float), err) : 0;
}

const struct param_average *optim_average(const struct optim *o, struct param_average *ret) {
    *ret = (struct param_average){o->ema, o->ema_buffers};
    return o->ema ? ret : NULL;
}

static int exchange(struct stream *s, float *a, float *b, float *scratch, int64_t n, struct err *err) {
    size_t bytes = (size_t)n * sizeof *a;
    int rc;
    if ((rc = stream_copy(s, scratch, a, bytes, err)) || (rc = stream_copy(s, a, b, bytes, err)))
        return rc;
    return stream_copy(s, b, scratch, bytes, err);
}

int optim_exchange_ema(struct optim *o, struct stream *s, struct err *err) {
    struct param_set *p = o->params;
    if (!o->ema)
        return 0;
    int rc = exchange(s, p->data, o->ema, p->grad, p->data_count, err);
    if (rc)
        return rc;
    if (o->ema_buffers) {
        float *zeros = o->ema_buffers + p->buffer_count;
        if ((rc = exchange(s, p->buffers, o->ema_buffers, zeros, p->buffer_count, err)) ||
            (rc = stream_zero(s, zeros, (size_t)p->buffer_count * sizeof *zeros, err)))
            return rc;
    }
    p->version++;
    o->exchanged = !o->exchanged;
    return 0;
}

int optim_zero_grad(struct optim *o, struct stream *s, struct err *err) {
    return stream_zero(s, o->params->grad, (size_t)o->params->data_count * sizeof(float), err);
}

double optim_rate(const struct optim_config *c, int64_t t) {
    double total = (double)c->total_steps, warmup = fmax(1, floor(c->warmup_ratio * total)), at = (double)t;
    if (c->decay_from > 0 && t >= c->decay_from)
        return c->learning_rate * fmax(0, total - at) / fmax(1, total - (double)c->decay_from);
    if (at < warmup)
        return c->learning_rate * (at + 1) / warmup;
    if (c->constant || total <= warmup)
        return c->learning_rate;
    return c->learning_rate * 0.5 * (1 + cos(M_PI * fmin(1, (at - warmup) / (total - warmup))));
}

/* Decay of the average at its update u, u from 0: min(ema, u/(u+5)). The average so starts from the first updated weights and,
 * until it has grown to `ema`, spans about the last fifth of the updates, so that a short run's average excludes its first steps.
 */
static double optim_ema_decay(const struct optim_config *c, int64_t u) { return fmin(c->ema, (double)u / (double)(u + 5)); }

/* AdamW over the whole set. place NULL: of step t, by value. */
static struct adamw_args update_of(const struct optim *o, int64_t t, const struct train_place *place) {
    struct param_set *p = o->params;
    int64_t n = p->data_count;
    struct adamw_args step = {
        .param = tensor_1d(p->data, DTYPE_F32, n),
        .grad = tensor_1d(p->grad, DTYPE_F32, n),
        .m = tensor_1d(o->m, DTYPE_F32, n),
        .v = tensor_1d(o->v, DTYPE_F32, n),
        .decay = tensor_1d(p->decay, DTYPE_U8, n),
        .lr = (float)optim_rate(&o->config, t),
        .beta1 = 0.9f,
        .beta2 = 0.999f,
        .eps = 1e-8f,
        .weight_decay = (float)o->config.weight_decay,
        .ema_decay = (float)optim_ema_decay(&o->config, o->updates),
        .step = o->updates + 1,
        .clip = o->config.gradient_clip,
        .sum_squares = o->squares,
        .place = place,
    };
    if (o->ema)
        step.ema = tensor_1d(o->ema, DTYPE_F32, n);
    return step;
}

static int average_buffers(const struct optim *o, struct stream *s, const struct adamw_args *update, struct err *err) {
    int64_t n = o->params->buffer_count;
    struct adamw_args step = *update;
    if (!o->ema_buffers)
        return 0;
    step.param = tensor_1d(o->params->buffers, DTYPE_F32, n);
    step.ema = tensor_1d(o->ema_buffers, DTYPE_F32, n);
    step.grad = tensor_1d(o->ema_buffers + n, DTYPE_F32, n);
    step.m = tensor_1d(o->ema_buffers + 2 * n, DTYPE_F32, n);
    step.v = tensor_1d(o->ema_buffers + 3 * n, DTYPE_F32, n);
    step.decay = tensor_1d(o->no_decay, DTYPE_U8, n);
    return op_adamw(s, &step, err);
}

static int queue_update(const struct optim *o, struct stream *s, const struct adamw_args *update, double *squares,
                        struct err *err) {
    struct norm_args norm = {.x = update->grad, .sum_squares = squares};
    int rc;
    if ((rc = op_norm(s, &norm, err)) || (rc = op_adamw(s, update, err)))
        return rc;
    return average_buffers(o, s, update, err);
}

void optim_place(const struct optim *o, int64_t t, struct train_place *place) {
    struct adamw_args update = update_of(o, t, NULL);
    adamw_place(&update, place);
}

int optim_queue(struct optim *o, struct stream *s, const struct train_place *device_place, double *device_squares,
                struct err *err) {
    struct adamw_args update = update_of(o, 0, device_place);
    update.sum_squares = device_squares;
    return queue_update(o, s, &update, device_squares, err);
}

void optim_account(struct optim *o, int64_t t, double squares, struct optim_report *ret) {
    bool finite = isfinite(squares);
    *ret = (struct optim_report){optim_rate(&o->config, t), sqrt(squares), !finite};
    o->updates += finite;
    o->params->version += finite;
}

int optim_step(struct optim *o, struct stream *s, int64_t t, struct optim_report *ret, struct err *err) {
    struct adamw_args update = update_of(o, t, NULL);
    double squares = 0;
    int rc;
    if ((rc = queue_update(o, s, &update, o->squares, err)) ||
        (rc = stream_to_host(s, &squares, o->squares, sizeof squares, err)) || (rc = stream_sync(s, err)))
        return rc;
    optim_account(o, t, squares, ret);
    return 0;
}
