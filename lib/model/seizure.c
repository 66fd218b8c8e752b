#include "model/seizure.h"

#include <stdlib.h>
#include <string.h>

#include "model/seizure_net.h"

int64_t seizure_parameter_count(const struct seizure_config *config) {
    struct seizure_net net = {.config = *config};
    param_set_init(&net.params);
    int64_t n = seizure_net_params(&net, NULL) ? -1 : param_live_count(&net.params);
    param_set_done(&net.params);
    return n;
}

static struct pass pass_of(struct seizure_net *net, struct stream *s, bool training, struct err *err) {
    return (struct pass){
        .stream = s, .plan = &net->plan, .params = &net->params, .training = training, .dropout = net->config.dropout, .err = err};
}

static int down_forward(struct encoder_stage *e, const struct pass *p) {
    e->down = plan_tensor(p->plan, e->skip.dim[0], e->skip.dim[1] / 2, e->skip.dim[2]);
    struct conv1d_args conv = {.x = e->skip,
                               .w = param_value(p->params, e->down_w),
                               .bias = param_value(p->params, e->down_b),
                               .y = e->down,
                               .stride = 2,
                               .weight_version = p->params->version};
    return p->dry ? 0 : op_conv1d(p->stream, &conv, p->err);
}

static int encoder_forward(struct encoder_stage *e, const struct pass *p, const struct tensor *x) {
    /* inference keeps the skip and the downsampled tensor only */
    e->skip = plan_tensor(p->plan, x->dim[0], x->dim[1], e->conv[1].w->dim[0]);
    size_t mark = plan_mark(p->plan);
    struct tensor first = {0};
    int rc = conv_block_forward(&e->conv[0], p, x, &first);
    if (!rc)
        rc = conv_block_forward(&e->conv[1], p, &first, &e->skip);
    if (!p->training)
        plan_release(p->plan, mark);
    return rc ? rc : down_forward(e, p);
}

static int decoder_forward(struct decoder_stage *d, const struct pass *p, const struct tensor *x, const struct tensor *skip) {
    int64_t b = x->dim[0], t = 2 * x->dim[1], up = d->up_w->dim[1];
    d->x = *x;
    d->y = plan_tensor(p->plan, b, t, up);
    size_t mark = plan_mark(p->plan);
    d->cat = plan_tensor(p->plan, b, t, up + skip->dim[2]);
    struct tensor left = tensor_slice(&d->cat, 0, up), right = tensor_slice(&d->cat, up, skip->dim[2]), first = {0};
    struct convt1d_args convt = {.x = *x,
                                 .w = param_value(p->params, d->up_w),
                                 .bias = param_value(p->params, d->up_b),
                                 .y = left,
                                 .weight_version = p->params->version};
    int rc = p->dry ? 0 : op_convt1d(p->stream, &convt, p->err);
    if (!rc)
        rc = nn_eltwise(p, ELTWISE_COPY, skip, NULL, &right);
    if (!rc)
        rc = conv_block_forward(&d->conv[0], p, &d->cat, &first);
    if (!rc)
        rc = conv_block_forward(&d->conv[1], p, &first, &d->y);
    if (!p->training)
        plan_release(p->plan, mark);
    return rc;
}

/* (B,T) logits as the (B,T,1) output of a projection. */
static struct tensor as_column(const struct tensor *logits) {
    return tensor_3d(logits->data, DTYPE_F32, logits->dim[0], logits->dim[1], 1);
}

static struct tensor matrix(struct tensor w) { /* (Co,Ci,1) → (Co,Ci) */
    w.rank = 2;
    w.ld = w.dim[1];
    return w;
}

static int head_forward(struct seizure_net *net, const struct pass *p, struct tensor *logits) {
    struct tensor column = as_column(logits);
    if (!p->training) {
        struct linear_args folded = {.x = net->features, .w = net->head_w, .bias = net->head_b, .y = column};
        return p->dry ? 0 : op_linear(p->stream, &folded, p->err);
    }
    net->projected = plan_tensor(p->plan, net->features.dim[0], net->features.dim[1], HEAD_CHANNELS);
    if (p->dry)
        return 0;
    const struct param_set *set = p->params;
    struct linear_args proj = {
        .x = net->features, .w = matrix(param_value(set, net->proj_w)), .bias = param_value(set, net->proj_b), .y = net->projected};
    struct linear_args out = {
        .x = net->projected, .w = matrix(param_value(set, net->out_w)), .bias = param_value(set, net->out_b), .y = column};
    int rc = op_linear(p->stream, &proj, p->err);
    return rc ? rc : op_linear(p->stream, &out, p->err);
}

static int forward(struct seizure_net *net, const struct pass *p, const struct tensor *x, struct tensor *logits) {
    struct tensor h = {0};
    int rc = conv_block_forward(&net->stem, p, x, &h);
    for (int i = 0; !rc && i < STAGES; i++) {
        rc = encoder_forward(&net->encoder[i], p, &h);
        h = net->encoder[i].down;
    }
    for (int i = 0; !rc && i < net->config.rescnn_blocks; i++) {
        struct tensor y = {0};
        rc = rescnn_forward(&net->rescnn[i], p, &h, &y);
        h = y;
    }
    for (int i = 0; !rc && i < net->config.mamba_layers; i++) {
        struct tensor y = {0};
        rc = mamba_forward(&net->mamba[i], p, &h, &y);
        h = y;
    }
    net->bottleneck = h;
    for (int i = 0; !rc && i < STAGES; i++) {
        rc = decoder_forward(&net->decoder[i], p, &h, &net->encoder[STAGES - 1 - i].skip);
        h = net->decoder[i].y;
    }
    net->features = h;
    if (!rc)
        rc = head_forward(net, p, logits);
    net->kept = plan_mark(p->plan);
    if (!rc && net->plan.overflow)
        rc = err_set(p->err, ERR_INTERNAL, "the activation plan is too small");
    return rc;
}

static int head_backward(struct seizure_net *net, const struct pass *p, const struct tensor *dlogits, const struct tensor *dh) {
    const struct param_set *set = p->params;
    size_t mark = plan_mark(p->plan);
    struct tensor dproj = nn_like(p, &net->projected), column = as_column(dlogits);
    plan_release(p->plan, mark);
    if (p->dry)
        return 0;
    struct linear_backward_args out = {.x = net->projected,
                                       .w = matrix(param_value(set, net->out_w)),
                                       .dy = column,
                                       .dx = dproj,
                                       .dw = matrix(param_grad(set, net->out_w)),
                                       .dbias = param_grad(set, net->out_b)};
    struct linear_backward_args proj = {.x = net->features,
                                        .w = matrix(param_value(set, net->proj_w)),
                                        .dy = dproj,
                                        .dx = *dh,
                                        .dw = matrix(param_grad(set, net->proj_w)),
                                        .dbias = param_grad(set, net->proj_b)};
    int rc = op_linear_backward(p->stream, &out, p->err);
    return rc ? rc : op_linear_backward(p->stream, &proj, p->err);
}

/* dy → dx of the stage below, and the skip's gradient (=). */
static int decoder_backward(struct decoder_stage *d, const struct pass *p, const struct tensor *dy, const struct tensor *dx,
                            const struct tensor *dskip) {
    size_t mark = plan_mark(p->plan);
    struct tensor dfirst = nn_like(p, &d->y), dcat = nn_like(p, &d->cat);
    plan_release(p->plan, mark);
    int64_t up = d->up_w->dim[1];
    struct tensor left = tensor_slice(&dcat, 0, up), right = tensor_slice(&dcat, up, dcat.dim[2] - up);
    int rc = conv_block_backward(&d->conv[1], p, dy, &dfirst);
    if (!rc)
        rc = conv_block_backward(&d->conv[0], p, &dfirst, &dcat);
    if (!rc)
        rc = nn_eltwise(p, ELTWISE_COPY, &right, NULL, dskip);
    if (rc || p->dry)
        return rc;
    struct convt1d_backward_args convt = {.x = d->x,
                                          .w = param_value(p->params, d->up_w),
                                          .dy = left,
                                          .dx = *dx,
                                          .dw = param_grad(p->params, d->up_w),
                                          .dbias = param_grad(p->params, d->up_b)};
    return op_convt1d_backward(p->stream, &convt, p->err);
}

/* ddown → dx; dskip holds the decoder's share on entry. */
static int encoder_backward(struct encoder_stage *e, const struct pass *p, const struct tensor *ddown, const struct tensor *dskip,
                            const struct tensor *dx) {
    size_t mark = plan_mark(p->plan);
    struct tensor part = nn_like(p, dskip);
    plan_release(p->plan, mark);
    int rc = 0;
    if (!p->dry) {
        struct conv1d_backward_args down = {.x = e->skip,
                                            .w = param_value(p->params, e->down_w),
                                            .dy = *ddown,
                                            .dx = part,
                                            .dw = param_grad(p->params, e->down_w),
                                            .dbias = param_grad(p->params, e->down_b),
                                            .stride = 2};
        rc = op_conv1d_backward(p->stream, &down, p->err);
    }
    if (!rc)
        rc = nn_eltwise(p, ELTWISE_ADD, dskip, &part, dskip);
    if (!rc)
        rc = conv_block_backward(&e->conv[1], p, dskip, &part); /* conv1's output has the same shape */
    return rc ? rc : conv_block_backward(&e->conv[0], p, &part, dx);
}

static int backward(struct seizure_net *net, const struct pass *p, const struct tensor *dlogits) {
    struct tensor dskip[STAGES], dh, dx;
    for (int i = 0; i < STAGES; i++)
        dskip[i] = nn_like(p, &net->encoder[i].skip);
    dh = nn_like(p, &net->features);
    int rc = head_backward(net, p, dlogits, &dh);
    for (int i = STAGES - 1; !rc && i >= 0; i--) {
        dx = nn_like(p, &net->decoder[i].x);
        rc = decoder_backward(&net->decoder[i], p, &dh, &dx, &dskip[STAGES - 1 - i]);
        dh = dx;
    }
    for (int i = net->config.mamba_layers - 1; !rc && i >= 0; i--) {
        dx = nn_like(p, &dh);
        rc = mamba_backward(&net->mamba[i], p, &dh, &dx);
        dh = dx;
    }
    for (int i = net->config.rescnn_blocks - 1; !rc && i >= 0; i--) {
        dx = nn_like(p, &dh);
        rc = rescnn_backward(&net->rescnn[i], p, &dh, &dx);
        dh = dx;
    }
    for (int i = STAGES - 1; !rc && i >= 0; i--) {
        dx = nn_like(p, &net->encoder[i].conv[0].x);
        rc = encoder_backward(&net->encoder[i], p, &dh, &dskip[i], &dx);
        dh = dx;
    }
    struct tensor none = {0};
    return rc ? rc : conv_block_backward(&net->stem, p, &dh, &none);
}

/* Lay everything out once without running, to learn the peak. */
static int measure(struct seizure_net *net, struct err *err) {
    struct pass p = pass_of(net, NULL, net->options.training, err);
    p.dry = true;
    int64_t b = net->options.max_batch, t = net->config.window;
    struct tensor x = tensor_3d((void *)(uintptr_t)64, DTYPE_F32, b, t, net->config.in_channels),
                  logits = tensor_2d(x.data, DTYPE_F32, b, t);
    int rc = forward(net, &p, &x, &logits);
    if (!rc && net->options.training) {
        rc = backward(net, &p, &logits);
        net->plan.used = 0;
        p.training = false; /* validation runs the inference pass in the same memory */
        if (!rc)
            rc = forward(net, &p, &x, &logits);
    }
    net->plan.used = 0;
    return rc;
}

static int make_table(struct seizure_net *net, const struct seizure_config *config, const struct seizure_options *options,
                      struct err *err) {
    net->config = *config;
    net->options = *options;
    param_set_init(&net->params);
    plan_init(&net->plan);
    int rc = seizure_config_check(config, err);
    if (!rc && options->precision != DTYPE_F32)
        rc = err_set(err, ERR_UNSUPPORTED, "precision bf16 is unsupported yet on this device; set training.precision to fp32");
    if (!rc && options->max_batch < 1)
        rc = err_set(err, ERR_INVALID, "a batch of %d windows; expected at least 1", options->max_batch);
    if (!rc)
        rc = seizure_net_params(net, err);
    if (!rc)
        rc = seizure_net_bind(net, err);
    return rc ? rc : measure(net, err);
}

int seizure_memory(const struct seizure_config *config, const struct seizure_options *options, struct seizure_memory *ret,
                   struct err *err) {
    struct seizure_net *net = calloc(1, sizeof *net);
    if (!net)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    int rc = make_table(net, config, options, err);
    if (!rc) {
        int64_t flat = net->params.data_count * 4;
        *ret = (struct seizure_memory){.parameters = flat + net->params.buffer_count * 4,
                                       .gradients = options->training ? flat + net->params.data_count : 0,
                                       .activations = (int64_t)net->plan.peak};
        ret->total = ret->parameters + ret->gradients + ret->activations;
    }
    seizure_free(net);
    return rc;
}

int seizure_new(struct device *dev, const struct seizure_config *config, const struct seizure_options *options,
                struct seizure_net **ret, struct err *err) {
    struct seizure_net *net = calloc(1, sizeof *net);
    if (!net)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    net->device = dev;
    int rc = make_table(net, config, options, err);
    if (!rc)
        rc = param_set_alloc(&net->params, dev, options->training, err);
    if (!rc)
        rc = plan_reserve(&net->plan, dev, err);
    if (rc) {
        seizure_free(net);
        return rc;
    }
    *ret = net;
    return 0;
}

void seizure_free(struct seizure_net *net) {
    if (!net)
        return;
    if (net->folded)
        device_free(net->device, net->folded);
    plan_done(&net->plan);
    param_set_done(&net->params);
    free(net->rescnn);
    free(net->mamba);
    free(net);
}

const struct seizure_config *seizure_config(const struct seizure_net *net) {
    return &net->config;
}
struct param_set *seizure_params(struct seizure_net *net) {
    return &net->params;
}
void seizure_touch(struct seizure_net *net) {
    net->params.version++;
}

static int check_input(const struct seizure_net *net, const struct tensor *x, const struct tensor *logits, struct err *err) {
    if (x->rank != 3 || x->dim[0] < 1 || x->dim[0] > net->options.max_batch || x->dim[1] != net->config.window ||
        x->dim[2] != net->config.in_channels)
        return err_set(err, ERR_INVALID, "input is (%lld,%lld,%lld); expected at most %d windows of (%lld,%d)",
                       (long long)x->dim[0], (long long)x->dim[1], (long long)x->dim[2], net->options.max_batch,
                       (long long)net->config.window, net->config.in_channels);
    if (logits->rank != 2 || logits->dim[0] != x->dim[0] || logits->dim[1] != x->dim[1])
        return err_set(err, ERR_INVALID, "logits must be (B,T) of the input");
    return 0;
}

int seizure_forward_train(struct seizure_net *net, struct stream *s, const struct tensor *x, const struct seizure_pass *pass,
                          struct tensor *logits, struct err *err) {
    int rc = check_input(net, x, logits, err);
    if (!rc && !net->options.training)
        rc = err_set(err, ERR_PRECONDITION, "this network was made for inference");
    if (rc)
        return rc;
    struct pass p = pass_of(net, s, true, err);
    p.seed = pass->seed;
    p.step = pass->step;
    p.row0 = pass->row0;
    net->plan.used = 0;
    return forward(net, &p, x, logits);
}

int seizure_backward(struct seizure_net *net, struct stream *s, const struct tensor *dlogits, const struct seizure_pass *pass,
                     struct err *err) {
    struct pass p = pass_of(net, s, true, err);
    p.seed = pass->seed;
    p.step = pass->step;
    p.row0 = pass->row0;
    net->plan.used = net->kept;
    return backward(net, &p, dlogits);
}

int seizure_infer(struct seizure_net *net, struct stream *s, const struct tensor *x, struct tensor *logits, struct err *err) {
    int rc = check_input(net, x, logits, err);
    if (!rc)
        rc = seizure_net_fold(net, s, err);
    if (rc)
        return rc;
    struct pass p = pass_of(net, s, false, err);
    net->plan.used = 0;
    return forward(net, &p, x, logits);
}
