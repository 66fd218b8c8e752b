#include "model/seizure.h"

#include <stdlib.h>
#include <string.h>

#include "model/seizure_net.h"

int seizure_table(const struct seizure_config *config, struct param_set *ret, struct err *err) {
    struct seizure_net net = {.config = *config};
    param_set_init(&net.params);
    int rc = seizure_net_params(&net, err);
    if (rc)
        param_set_done(&net.params);
    else
        *ret = net.params;
    return rc;
}

int64_t seizure_parameter_count(const struct seizure_config *config) {
    struct param_set set;
    if (seizure_table(config, &set, NULL))
        return -1;
    int64_t n = param_live_count(&set);
    param_set_done(&set);
    return n;
}

static struct pass pass_of(struct seizure_net *net, struct stream *s, struct err *err) {
    return (struct pass){.stream = s, .plan = &net->plan, .params = &net->params, .dtype = net->options.precision, .err = err};
}

static struct pass training_pass(struct seizure_net *net, struct stream *s, const struct seizure_pass *of, struct err *err) {
    struct pass p = pass_of(net, s, err);
    p.training = true;
    p.dropout = net->config.dropout;
    p.seed = of->seed;
    p.step = of->step;
    p.row0 = of->row0;
    p.place = of->place;
    return p;
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

/* A copy of t in another precision; t itself where it has it already. */
static int convert(const struct pass *p, const struct tensor *t, enum dtype dtype, struct tensor *ret) {
    *ret = *t;
    if (t->dtype == dtype)
        return 0;
    *ret = plan_tensor(p->plan, dtype, t->dim[0], t->dim[1], t->dim[2]);
    return nn_eltwise(p, ELTWISE_COPY, t, NULL, ret);
}

/* Always F32, whatever the precision of the net. */
static int head_forward(struct seizure_net *net, const struct pass *p, const struct tensor *h, struct tensor *logits) {
    const struct param_set *set = p->params;
    struct tensor column = as_column(logits);
    int rc = convert(p, h, DTYPE_F32, &net->features);
    if (!p->training) {
        struct linear_args folded = {
            .x = net->features, .w = net->head.w, .bias = net->head.bias, .y = column, .weight_version = set->version};
        return rc || p->dry ? rc : op_linear(p->stream, &folded, p->err);
    }
    net->projected = plan_tensor(p->plan, DTYPE_F32, h->dim[0], h->dim[1], HEAD_CHANNELS);
    struct linear_args proj = {.x = net->features,
                               .w = matrix(param_value(set, net->proj_w)),
                               .bias = param_value(set, net->proj_b),
                               .y = net->projected,
                               .weight_version = set->version};
    struct linear_args out = {.x = net->projected,
                              .w = matrix(param_value(set, net->out_w)),
                              .bias = param_value(set, net->out_b),
                              .y = column,
                              .weight_version = set->version};
    if (!rc && !p->dry)
        rc = op_linear(p->stream, &proj, p->err);
    return rc || p->dry ? rc : op_linear(p->stream, &out, p->err);
}

static int forward(struct seizure_net *net, const struct pass *p, const struct tensor *x, struct tensor *logits) {
    struct tensor h = {0}, y, input;
    net->kept = 0;
    net->plan.overflow = false;
    int rc = convert(p, x, p->dtype, &input);
    if (!rc)
        rc = conv_block_forward(&net->stem, p, &input, &h);
    for (int i = 0; !rc && i < STAGES; i++, h = y)
        rc = encoder_forward(&net->encoder[i], p, &h, &y);
    for (int i = 0; !rc && i < net->config.rescnn_blocks; i++, h = y)
        rc = rescnn_forward(&net->rescnn[i], p, &h, &y);
    for (int i = 0; !rc && i < net->config.mamba_layers; i++, h = y)
        rc = mamba_forward(&net->mamba[i], p, &h, &y);
    for (int i = 0; !rc && i < STAGES; i++, h = y)
        rc = decoder_forward(&net->decoder[i], p, &h, &net->encoder[STAGES - 1 - i].skip, &y);
    if (!rc)
        rc = head_forward(net, p, &h, logits);
    if (!rc && net->plan.overflow)
        rc = err_set(p->err, ERR_INTERNAL, "the activation plan is too small");
    if (!rc && p->training)
        net->kept = plan_mark(p->plan);
    return rc;
}

static int head_backward(struct seizure_net *net, const struct pass *p, const struct tensor *dlogits, const struct tensor *dh) {
    const struct param_set *set = p->params;
    size_t mark = plan_mark(p->plan);
    struct tensor column = as_column(dlogits), *projected = &net->projected, *features = &net->features, dfeatures = *dh;
    struct tensor dproj = plan_tensor(p->plan, DTYPE_F32, projected->dim[0], projected->dim[1], HEAD_CHANNELS);
    if (dh->dtype != DTYPE_F32)
        dfeatures = plan_tensor(p->plan, DTYPE_F32, features->dim[0], features->dim[1], features->dim[2]);
    plan_release(p->plan, mark);
    if (p->dry)
        return 0;
    struct linear_backward_args out = {.x = *projected,
                                       .w = matrix(param_value(set, net->out_w)),
                                       .dy = column,
                                       .dx = dproj,
                                       .dw = matrix(param_grad(set, net->out_w)),
                                       .dbias = param_grad(set, net->out_b),
                                       .weight_version = set->version};
    struct linear_backward_args proj = {.x = *features,
                                        .w = matrix(param_value(set, net->proj_w)),
                                        .dy = dproj,
                                        .dx = dfeatures,
                                        .dw = matrix(param_grad(set, net->proj_w)),
                                        .dbias = param_grad(set, net->proj_b),
                                        .weight_version = set->version};
    int rc = op_linear_backward(p->stream, &out, p->err);
    if (!rc)
        rc = op_linear_backward(p->stream, &proj, p->err);
    return rc || dh->dtype == DTYPE_F32 ? rc : nn_eltwise(p, ELTWISE_COPY, &dfeatures, NULL, dh);
}

static int backward(struct seizure_net *net, const struct pass *p, const struct tensor *dlogits) {
    struct tensor dskip[STAGES], dh, dx, none = {0};
    for (int i = 0; i < STAGES; i++)
        dskip[i] = nn_like(p, &net->encoder[i].skip);
    dh = nn_like(p, &net->features);
    int rc = head_backward(net, p, dlogits, &dh);
    for (int i = STAGES - 1; !rc && i >= 0; i--, dh = dx) {
        dx = nn_like(p, &net->decoder[i].x);
        rc = decoder_backward(&net->decoder[i], p, &dh, &dx, &dskip[STAGES - 1 - i]);
    }
    for (int i = net->config.mamba_layers - 1; !rc && i >= 0; i--, dh = dx) {
        dx = nn_like(p, &dh);
        rc = mamba_backward(&net->mamba[i], p, &dh, &dx);
    }
    for (int i = net->config.rescnn_blocks - 1; !rc && i >= 0; i--, dh = dx) {
        dx = nn_like(p, &dh);
        rc = rescnn_backward(&net->rescnn[i], p, &dh, &dx);
    }
    for (int i = STAGES - 1; !rc && i >= 0; i--, dh = dx) {
        dx = nn_like(p, &net->encoder[i].conv[0].x);
        rc = encoder_backward(&net->encoder[i], p, &dh, &dskip[i], &dx);
    }
    return rc ? rc : conv_block_backward(&net->stem, p, &dh, &none);
}

/* Lay everything out once without running, to learn the peak. */
static int measure(struct seizure_net *net, struct err *err) {
    struct pass p = pass_of(net, NULL, err);
    p.dry = true;
    p.training = net->options.training;
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
    net->kept = 0;
    return rc;
}

static int make_table(struct seizure_net *net, const struct seizure_config *config, const struct seizure_options *options,
                      struct err *err) {
    net->config = *config;
    net->options = *options;
    param_set_init(&net->params);
    plan_init(&net->plan);
    int rc = seizure_config_check(config, err);
    if (!rc && options->precision != DTYPE_F32 && options->precision != DTYPE_BF16)
        rc = err_set(err, ERR_INVALID, "precision %s; expected f32 or bf16", dtype_name(options->precision));
    if (!rc && options->max_batch < 1)
        rc = err_set(err, ERR_INVALID, "a batch of %d windows; expected at least 1", options->max_batch);
    if (!rc)
        rc = seizure_net_params(net, err);
    if (!rc)
        rc = seizure_net_bind(net, err);
    if (!rc)
        net->folded_count = seizure_net_folded_count(net);
    return rc ? rc : measure(net, err);
}

int seizure_memory(const struct seizure_config *config, const struct seizure_options *options, struct seizure_memory *ret,
                   struct err *err) {
    struct seizure_net *net = calloc(1, sizeof *net);
    if (!net)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    int rc = make_table(net, config, options, err);
    if (!rc) {
        int64_t weights = param_set_bytes(&net->params, false);
        *ret = (struct seizure_memory){.parameters = weights,
                                       .gradients = param_set_bytes(&net->params, options->training) - weights,
                                       .folded = net->folded_count * (int64_t)sizeof(float),
                                       .activations = (int64_t)net->plan.peak};
        ret->total = ret->parameters + ret->gradients + ret->folded + ret->activations;
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
    struct device_info info;
    device_describe(dev, &info);
    void *folded = NULL;
    int rc = make_table(net, config, options, err);
    if (!rc && options->precision == DTYPE_BF16 && !info.has_bf16)
        rc = err_set(err, ERR_UNSUPPORTED, "%s has no bf16 arithmetic; set training.precision to fp32", info.description);
    if (!rc)
        rc = device_alloc(dev, (size_t)net->folded_count * sizeof(float), &folded, err);
    net->folded = folded;
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
    replay_done(&net->inference);
    if (net->folded)
        device_free(net->device, net->folded);
    plan_done(&net->plan);
    param_set_done(&net->params);
    free(net->rescnn);
    free(net->mamba);
    free(net);
}

const struct seizure_config *seizure_config(const struct seizure_net *net) { return &net->config; }
struct param_set *seizure_params(struct seizure_net *net) {
    return &net->params;
}
void seizure_touch(struct seizure_net *net) { net->params.version++; }

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
    struct pass p = training_pass(net, s, pass, err);
    net->plan.used = 0;
    return forward(net, &p, x, logits);
}

int seizure_backward(struct seizure_net *net, struct stream *s, const struct tensor *dlogits, const struct seizure_pass *pass,
                     struct err *err) {
    if (!net->kept)
        return err_set(err, ERR_PRECONDITION, "backward without the training pass before it");
    if (dlogits->rank != 2 || dlogits->dim[0] != net->features.dim[0] || dlogits->dim[1] != net->features.dim[1])
        return err_set(err, ERR_INVALID, "dlogits must be (B,T) of the training pass");
    struct pass p = training_pass(net, s, pass, err);
    net->plan.used = net->kept;
    net->kept = 0;
    return backward(net, &p, dlogits);
}

struct inference {
    struct seizure_net *net;
    struct stream *stream;
    const struct tensor *x;
    struct tensor *logits;
};

static int run_inference(void *ctx, struct err *err) {
    struct inference *w = ctx;
    struct pass p = pass_of(w->net, w->stream, err);
    w->net->plan.used = 0;
    return forward(w->net, &p, w->x, w->logits);
}

int seizure_infer(struct seizure_net *net, struct stream *s, const struct tensor *x, struct tensor *logits, struct err *err) {
    int rc = check_input(net, x, logits, err);
    if (!rc)
        rc = seizure_net_fold(net, s, err);
    if (rc)
        return rc;
    struct inference work = {net, s, x, logits};
    struct replay_key key = {.in = x->data, .out = logits->data, .rows = x->dim[0]};
    net->kept = 0;
    return replay_run(&net->inference, s, &key, &(struct replay_body){run_inference, &work}, err);
}
