#include "detect/seizure.h"

#include "detect/seizure_net.h"

static const struct model_ops *model_ops_of(const struct seizure_config *config) {
    static const struct model_ops *const rows[] = {
#define ROW(id, name, ops) &ops,
        SEIZURE_TYPE_ROWS(ROW)
#undef ROW
    };
    return rows[config->type];
}

int seizure_table(const struct seizure_config *config, struct param_set *ret, struct err *err) {
    struct seizure_net net = {.config = *config, .ops = model_ops_of(config)};
    param_set_init(&net.params);
    int rc = seizure_net_params(&net, err);
    if (rc)
        param_set_done(&net.params);
    else
        *ret = net.params;
    return rc;
}

int64_t seizure_state_count(const struct seizure_config *config) {
    const struct model_ops *ops = model_ops_of(config);
    return ops->state_count ? ops->state_count(config) * (seizure_net_is_ensemble(config) ? config->members : 1) : 0;
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
    COPY_MEMBERS(p, *of, seed, step, row0, place, leaf_statistics);
    return p;
}

int seizure_net_convert(const struct pass *p, const struct tensor *t, enum dtype dtype, struct tensor *ret) {
    *ret = *t;
    if (t->dtype == dtype)
        return 0;
    *ret = plan_tensor(p->plan, dtype, t->dim[0], t->dim[1], t->dim[2]);
    return nn_eltwise(p, ELTWISE_COPY, t, NULL, ret);
}

/* logits += weight · the last input. */
static int skip_forward(struct seizure_net *net, const struct pass *p, const struct tensor *x, struct tensor *logits) {
    const struct param_set *set = p->params;
    struct tensor last = tensor_slice(x, x->dim[2] - 1, 1);
    net->skipped = plan_tensor(p->plan, DTYPE_F32, x->dim[0], x->dim[1], 1);
    int rc = nn_eltwise(p, ELTWISE_COPY, &last, NULL, &net->skipped);
    struct linear_args map = {.x = net->skipped,
                              .w = seizure_net_matrix(param_value(set, net->skip_w)),
                              .y = seizure_net_column(logits),
                              .accumulate = true,
                              .weight_version = set->version};
    return rc || p->dry ? rc : op_linear(p->stream, &map, p->err);
}

static int skip_backward(struct seizure_net *net, const struct pass *p, const struct tensor *dlogits) {
    const struct param_set *set = p->params;
    struct linear_backward_args map = {.x = net->skipped,
                                       .w = seizure_net_matrix(param_value(set, net->skip_w)),
                                       .dy = seizure_net_column(dlogits),
                                       .dw = seizure_net_matrix(param_grad(set, net->skip_w)),
                                       .weight_version = set->version};
    return p->dry ? 0 : op_linear_backward(p->stream, &map, p->err);
}

static int run_forward(struct seizure_net *net, const struct pass *p, const struct tensor *x, const struct tensor *state,
                       struct tensor *logits) {
    int rc;
    if ((rc = net->ops->forward(net, p, x, state, logits)) || (net->skip_w && (rc = skip_forward(net, p, x, logits))))
        return rc;
    return net->plan.overflow ? err_set(p->err, ERR_INTERNAL, "the activation plan is too small") : 0;
}

static int forward(struct seizure_net *net, const struct pass *p, const struct tensor *x, const struct tensor *state,
                   struct tensor *logits) {
    net->has_pass = false;
    net->plan.overflow = false;
    int rc = run_forward(net, p, x, state, logits);
    net->has_pass = !rc && p->training;
    net->kept = plan_mark(p->plan);
    return rc;
}

static int backward(struct seizure_net *net, const struct pass *p, const struct tensor *dlogits) {
    int rc = net->skip_w ? skip_backward(net, p, dlogits) : 0;
    return rc ? rc : net->ops->backward(net, p, dlogits);
}

static int measure_passes(struct seizure_net *net, struct err *err) {
    struct pass p = pass_of(net, NULL, err);
    p.dry = true;
    p.training = net->options.training;
    int64_t b = net->options.max_batch, t = net->config.window;
    struct tensor x = tensor_3d((void *)(uintptr_t)64, DTYPE_F32, b, t, net->config.in_channels),
                  logits = tensor_2d(x.data, DTYPE_F32, b, t);
    struct tensor state = tensor_2d(x.data, DTYPE_F32, b, seizure_state_count(&net->config)), none = {0};
    bool stateful = seizure_step(&net->config) != 0;
    int rc = forward(net, &p, &x, stateful && !p.training ? &state : &none, &logits);
    if (rc || !net->options.training)
        return rc;
    if ((rc = backward(net, &p, &logits)))
        return rc;
    net->plan.used = 0;
    p.training = false; /* validation runs the inference pass in the same memory */
    return forward(net, &p, &x, stateful ? &state : &none, &logits);
}

/* Lay everything out once without running, to learn the peak. */
static int measure(struct seizure_net *net, struct err *err) {
    int rc = measure_passes(net, err);
    net->plan.used = 0;
    net->has_pass = false;
    return rc;
}

static int make_table(struct seizure_net *net, const struct seizure_config *config, const struct seizure_options *options,
                      struct err *err) {
    net->config = *config;
    net->options = *options;
    net->ops = model_ops_of(config);
    param_set_init(&net->params);
    plan_init(&net->plan);
    int rc = seizure_config_check(config, err);
    if (rc)
        return rc;
    if (options->precision != DTYPE_F32 && options->precision != DTYPE_BF16)
        return err_set(err, ERR_INVALID, "precision %s; expected f32 or bf16", dtype_name(options->precision));
    if (options->max_batch < 1)
        return err_set(err, ERR_INVALID, "a batch of %d windows; expected at least 1", options->max_batch);
    if ((rc = seizure_net_params(net, err)))
        return rc;
    if (seizure_net_is_ensemble(config))
        return options->training ? err_set(err, ERR_INVALID, "an ensemble is not trained; train its members") : 0;
    if ((rc = seizure_net_bind(net, err)))
        return rc;
    net->folded_count = seizure_net_folded_count(net);
    net->padded_count = seizure_net_padded_count(net);
    return measure(net, err);
}

/* Working memory of the ops of a training step on a CPU, at most. A stream keeps one piece of memory, which grows to what its
 * neediest op asks for, and one for partial sums. Each thread of the scan's gradient keeps the states of its channels (16 at a
 * time) with six values beside them for every token; each thread of a convolution's gradient keeps its weights plain, packed and
 * summed, and its rows. */
static int64_t scratch_bound(const struct seizure_net *net) {
    enum { TOKEN_SAMPLES = 16, CHANNELS = 16, BESIDE = 6, ROWS = 1 << 19, SUMS = 2, COPIES = 3 };
    const struct seizure_config *c = &net->config;
    int64_t largest = 0, threads = net->options.threads, tokens = c->window / TOKEN_SAMPLES;
    for (int i = 0; i < net->params.count; i++)
        if (net->params.items[i].kind == PARAM_WEIGHT && net->params.items[i].count > largest)
            largest = net->params.items[i].count;
    const int64_t weights = largest * (int64_t)sizeof(float);
    const int64_t scan = tokens * CHANNELS * (c->d_state + BESIDE) * (int64_t)sizeof(float), conv = COPIES * weights + ROWS;
    return threads * (scan > conv ? scan : conv) + SUMS * weights;
}

/* The same on a GPU, where scratch of the neediest op (the scan's gradient, at most ROOM; the convolution before it, with a value
 * of four bytes for each of its channels and tokens) lies beside columns of convolutions, the weights of one op summed, copies of
 * all weights as products read them (in training both ways round), the workspaces of the job's two streams and its recorded work,
 * and what the driver takes for the process. */
static int64_t gpu_bound(const struct seizure_net *net) {
    enum { TOKEN_SAMPLES = 16, TILE = 8, COPIES = 3 };
    const int64_t ROOM = (int64_t)1 << 30, FIXED = (int64_t)704 << 20;
    const struct seizure_config *c = &net->config;
    int64_t tokens = net->options.max_batch * (c->window / TOKEN_SAMPLES),
            inner = (int64_t)c->encoder_channels[STAGES - 1] * c->expand, largest = 0;
    int64_t states = tokens / TILE * inner * c->d_state * (int64_t)sizeof(float),
            conv = tokens * 2 * inner * (int64_t)sizeof(float), copied = net->folded_count;
    for (int i = 0; i < net->params.count; i++) {
        const struct param *p = &net->params.items[i];
        if (p->kind != PARAM_WEIGHT)
            continue;
        largest = p->count > largest ? p->count : largest;
        copied += (net->options.training ? 2 : 1) * p->count;
    }
    int64_t scan = 3 * states < ROOM ? 3 * states : ROOM, copies = copied * (int64_t)dtype_bytes(net->options.precision);
    return (scan > conv ? scan : conv) + COPIES * largest * (int64_t)sizeof(float) + copies + FIXED;
}

static int64_t spare_bytes(const struct seizure_config *config, const struct seizure_options *options) {
    return options->max_batch * config->window * (int64_t)sizeof(float);
}

static int ensemble_memory(const struct seizure_config *config, const struct seizure_options *options, struct seizure_memory *ret,
                           struct err *err) {
    const struct seizure_config member = seizure_net_member(config);
    struct seizure_memory m;
    int rc = options->training ? err_set(err, ERR_INVALID, "an ensemble is not trained; train its members")
                               : seizure_memory(&member, options, &m, err);
    if (rc)
        return rc;
    *ret = (struct seizure_memory){.parameters = config->members * m.parameters,
                                   .folded = config->members * m.folded,
                                   .activations = config->members * m.activations + spare_bytes(config, options),
                                   .scratch = m.scratch};
    ret->total = ret->parameters + ret->folded + ret->activations + ret->scratch;
    return 0;
}

int seizure_memory(const struct seizure_config *config, const struct seizure_options *options, struct seizure_memory *ret,
                   struct err *err) {
    int checked = seizure_net_is_ensemble(config) ? seizure_config_check(config, err) : 0;
    if (checked || seizure_net_is_ensemble(config))
        return checked ? checked : ensemble_memory(config, options, ret, err);
    struct seizure_net *net = calloc(1, sizeof *net);
    if (!net)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    net->gpu_form = options->threads < 0;
    int rc = make_table(net, config, options, err);
    if (rc) {
        seizure_free(net);
        return rc;
    }
    int64_t weights = param_set_bytes(&net->params, false);
    *ret = (struct seizure_memory){.parameters = weights,
                                   .gradients = param_set_bytes(&net->params, options->training) - weights,
                                   .folded = (net->folded_count + net->padded_count) * (int64_t)sizeof(float),
                                   .activations = (int64_t)net->plan.peak};
    ret->scratch = options->threads < 0 ? gpu_bound(net) : options->threads ? scratch_bound(net) : 0;
    ret->total = ret->parameters + ret->gradients + ret->folded + ret->activations + ret->scratch;
    seizure_free(net);
    return 0;
}

/* Where a member's parameters lie: slice k of the ensemble's; NULL: they are its own. And the form of all on a device. */
struct place {
    const struct seizure_net *ensemble;
    int k;
    bool gpu_form;
};
static int new_net(struct device *dev, const struct seizure_config *config, const struct seizure_options *options,
                   const struct place *in, struct seizure_net **ret, struct err *err);

static int open_members(struct seizure_net *net, struct err *err) {
    const struct seizure_config member = seizure_net_member(&net->config);
    void *spare = NULL;
    int rc = device_alloc(net->device, (size_t)spare_bytes(&net->config, &net->options), &spare, err);
    net->spare = spare;
    for (int k = 0; !rc && k < net->config.members; k++)
        rc = new_net(net->device, &member, &net->options, &(struct place){net, k, net->gpu_form}, &net->members[k], err);
    return rc;
}

/* Memory for the parameters, or the slice of the ensemble's. */
static int place_params(struct seizure_net *net, const struct place *in, struct err *err) {
    struct param_set *set = &net->params;
    if (!in->ensemble)
        return param_set_alloc(set, net->device, net->options.training, err);
    set->data = in->ensemble->params.data + in->k * set->data_count; /* set->device stays NULL: the ensemble owns them */
    set->buffers = in->ensemble->params.buffers + in->k * set->buffer_count;
    return 0;
}

static int open_padded(struct seizure_net *net, struct err *err) {
    void *padded = NULL;
    int rc = net->padded_count ? device_alloc(net->device, (size_t)net->padded_count * sizeof(float), &padded, err) : 0;
    net->padded = padded;
    if (padded)
        seizure_net_place_padded(net, padded);
    return rc;
}

int seizure_new(struct device *dev, const struct seizure_config *config, const struct seizure_options *options,
                struct seizure_net **ret, struct err *err) {
    struct device_info info;
    device_describe(dev, &info);
    return new_net(dev, config, options, &(struct place){.gpu_form = info.is_async}, ret, err);
}

int seizure_net_new_as_on_gpu(struct device *dev, const struct seizure_config *config, const struct seizure_options *options,
                              struct seizure_net **ret, struct err *err) {
    return new_net(dev, config, options, &(struct place){.gpu_form = true}, ret, err);
}

static int new_net(struct device *dev, const struct seizure_config *config, const struct seizure_options *options,
                   const struct place *in, struct seizure_net **ret, struct err *err) {
    struct seizure_net *net = calloc(1, sizeof *net);
    if (!net)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    net->device = dev;
    struct device_info info;
    device_describe(dev, &info);
    void *folded = NULL;
    net->gpu_form = in->gpu_form;
    int rc = make_table(net, config, options, err);
    if (!rc && options->precision == DTYPE_BF16 && !info.has_bf16)
        rc = err_set(err, ERR_UNSUPPORTED, "%s has no bf16 arithmetic; use fp32", info.description);
    if (!rc)
        rc = device_alloc(dev, (size_t)net->folded_count * sizeof(float), &folded, err);
    net->folded = folded;
    if (rc || (rc = open_padded(net, err)) || (rc = place_params(net, in, err)) ||
        (rc = seizure_net_is_ensemble(config) ? open_members(net, err) : plan_reserve(&net->plan, dev, err))) {
        seizure_free(net);
        return rc;
    }
    *ret = net;
    return 0;
}

void seizure_free(struct seizure_net *net) {
    if (!net)
        return;
    for (int k = 0; k < SEIZURE_MAX_MEMBERS; k++)
        seizure_free(net->members[k]);
    if (net->spare)
        device_free(net->device, net->spare);
    replay_done(&net->inference);
    if (net->folded)
        device_free(net->device, net->folded);
    if (net->padded)
        device_free(net->device, net->padded);
    plan_done(&net->plan);
    param_set_done(&net->params);
    FREE_MEMBERS(*net, rescnn, causal_blocks, mamba);
    free(net);
}

const struct seizure_config *seizure_config(const struct seizure_net *net) { return &net->config; }
struct param_set *seizure_params(struct seizure_net *net) {
    return &net->params;
}
void seizure_touch(struct seizure_net *net) { net->params.version++; }

static int check_input(const struct seizure_net *net, const struct tensor *x, int64_t window, const struct tensor *logits,
                       struct err *err) {
    if (x->rank != 3 || x->dim[0] < 1 || x->dim[0] > net->options.max_batch || x->dim[1] != window ||
        x->dim[2] != net->config.in_channels)
        return err_set(err, ERR_INVALID, "input is (%lld,%lld,%lld); expected at most %d windows of (%lld,%d)",
                       (long long)x->dim[0], (long long)x->dim[1], (long long)x->dim[2], net->options.max_batch, (long long)window,
                       net->config.in_channels);
    if (logits->rank != 2 || logits->dim[0] != x->dim[0] || logits->dim[1] != x->dim[1])
        return err_set(err, ERR_INVALID, "logits must be (B,T) of the input");
    return 0;
}

int seizure_forward_train(struct seizure_net *net, struct stream *s, const struct tensor *x, const struct seizure_pass *pass,
                          struct tensor *logits, struct err *err) {
    int rc;
    if ((rc = check_input(net, x, net->config.window, logits, err)) ||
        (!net->options.training && (rc = err_set(err, ERR_PRECONDITION, "this network was made for inference"))))
        return rc;
    struct pass p = training_pass(net, s, pass, err);
    const struct tensor none = {0};
    net->plan.used = 0;
    return forward(net, &p, x, &none, logits);
}

int seizure_backward(struct seizure_net *net, struct stream *s, const struct tensor *dlogits, const struct seizure_pass *pass,
                     struct err *err) {
    if (!net->has_pass)
        return err_set(err, ERR_PRECONDITION, "backward without the training pass before it");
    if (dlogits->rank != 2 || dlogits->dim[0] != net->features.dim[0] || dlogits->dim[1] != net->config.window)
        return err_set(err, ERR_INVALID, "dlogits must be (B,T) of the training pass");
    struct pass p = training_pass(net, s, pass, err);
    net->plan.used = net->kept;
    net->has_pass = false;
    return backward(net, &p, dlogits);
}

struct inference {
    struct seizure_net *net;
    struct stream *stream;
    const struct tensor *x, *state;
    struct tensor *logits;
    int steps; /* one after the other */
};

static struct tensor seizure_rows(const struct tensor *t, int64_t first, int64_t n) {
    struct tensor rows = *t;
    rows.dim[0] = n;
    if (first)
        rows.data = (float *)t->data + first * (t->rank == 3 ? t->dim[1] * t->ld : t->ld);
    return rows;
}

/* Step k of n rows from `first` on. */
static int run_step(const struct inference *w, const struct pass *p, int k, int64_t first, int64_t n) {
    const int64_t at = k * (w->x->dim[0] / w->steps) + first;
    struct tensor x = seizure_rows(w->x, at, n), state = seizure_rows(w->state, first, n);
    struct tensor logits = seizure_rows(w->logits, at, n);
    w->net->plan.used = 0;
    return forward(w->net, p, &x, &state, &logits);
}

/* Rows of a step that go through all layers together: on a CPU as many as leave their activations in its caches. */
static int64_t rows_at_once(const struct inference *w) {
    enum { ROWS_OF_THREAD = 16 };
    struct device_info info;
    device_describe(w->net->device, &info);
    return tensor_present(w->state) && !info.is_async ? ROWS_OF_THREAD * info.threads : w->x->dim[0];
}

static int run_inference(void *ctx, struct err *err) {
    struct inference *w = ctx;
    struct pass p = pass_of(w->net, w->stream, err);
    uint64_t version = w->net->params.version;
    const int64_t rows = w->x->dim[0] / w->steps, each = rows_at_once(w);
    int rc = 0;
    w->net->params.version |= WEIGHTS_CONSTANT; /* recordings of another version are dropped */
    for (int k = 0; k < w->steps && !rc; k++)
        for (int64_t first = 0; first < rows && !rc; first += each)
            rc = run_step(w, &p, k, first, rows - first < each ? rows - first : each);
    w->net->params.version = version;
    return rc;
}

static int infer(const struct inference *work, struct err *err);

/* The mean of the members' logits; member k has slice k of the state. */
static int infer_members(const struct inference *work, struct err *err) {
    struct seizure_net *net = work->net;
    int members = net->config.members;
    int64_t n = tensor_present(work->state) ? work->state->dim[1] / members : 0;
    struct tensor spare = *work->logits;
    spare.data = net->spare;
    for (int k = 0; k < members; k++) {
        struct tensor state = {0}, *to = k ? &spare : work->logits;
        if (n)
            state = tensor_slice(work->state, k * n, n);
        net->members[k]->params.version = net->params.version;
        struct eltwise_args add = {.kind = ELTWISE_ADD, .a = *work->logits, .b = spare, .y = *work->logits};
        int rc = infer(&(struct inference){net->members[k], work->stream, work->x, &state, to, 1}, err);
        if (rc || (k && (rc = op_eltwise(work->stream, &add, err))))
            return rc;
    }
    struct eltwise_args mean = {.kind = ELTWISE_SCALE, .a = *work->logits, .y = *work->logits, .alpha = 1.0f / (float)members};
    return op_eltwise(work->stream, &mean, err);
}

static int infer(const struct inference *work, struct err *err) {
    struct seizure_net *net = work->net;
    if (seizure_net_is_ensemble(&net->config))
        return infer_members(work, err);
    struct replay_key key = {.in = work->x->data,
                             .out = work->logits->data,
                             .rows = work->x->dim[0],
                             .part = tensor_present(work->state) ? work->steps : 0};
    int rc = seizure_net_fold(net, work->stream, err);
    if (rc)
        return rc;
    net->has_pass = false;
    if (net->recorded_version != net->params.version) /* a recording relies on packed copies of the weights */
        replay_done(&net->inference);
    net->recorded_version = net->params.version;
    return replay_run(&net->inference, work->stream, &key, &(struct replay_body){run_inference, (void *)(uintptr_t)work}, err);
}

int seizure_infer(struct seizure_net *net, struct stream *s, const struct tensor *x, struct tensor *logits, struct err *err) {
    const struct tensor none = {0};
    int rc = check_input(net, x, net->config.window, logits, err);
    return rc ? rc : infer(&(struct inference){net, s, x, &none, logits, 1}, err);
}

int seizure_infer_step(struct seizure_net *net, struct stream *s, const struct tensor *x, const struct tensor *state,
                       struct tensor *logits, struct err *err) {
    return seizure_infer_steps(net, s, x, 1, state, logits, err);
}

int seizure_infer_steps(struct seizure_net *net, struct stream *s, const struct tensor *x, int steps, const struct tensor *state,
                        struct tensor *logits, struct err *err) {
    if (!seizure_step(&net->config))
        return err_set(err, ERR_PRECONDITION, "a network of type %s looks at whole windows", seizure_type_name(net->config.type));
    if (steps < 1 || x->dim[0] % steps || (steps > 1 && seizure_net_is_ensemble(&net->config)))
        return err_set(err, ERR_INVALID, "%lld rows of %d steps", (long long)x->dim[0], steps);
    struct tensor first = *x, answer = *logits;
    first.dim[0] /= steps;
    answer.dim[0] /= steps;
    int rc = check_input(net, &first, seizure_step(&net->config), &answer, err);
    if (rc)
        return rc;
    if (state->rank != 2 || state->dim[0] != first.dim[0] || state->dim[1] != seizure_state_count(&net->config))
        return err_set(err, ERR_INVALID, "the state must be (%lld,%lld)", (long long)x->dim[0],
                       (long long)seizure_state_count(&net->config));
    return infer(&(struct inference){net, s, x, state, logits, steps}, err);
}
