/* The whole detector: one inference pass (samples to probabilities; of the causal network, one second with its state), and one
 * training step (zero the gradients, forward, focal loss, backward, AdamW), for presets and batches. Random weights and input;
 * floors count the products of every layer. */

#include "base/needed.h"
#include "bench.h"
#include "detect/seizure.h"
#include "train/step.h"

enum { CHANNELS = 19, TOKEN = 16 };

struct detector_case {
    const char *preset;
    bool training;
    enum seizure_type type;
};

/* The causal network's input has envelope rows. */
static int config_of(const struct detector_case *d, struct seizure_config *ret, struct err *err) {
    return seizure_preset(d->type, d->preset, d->type == SEIZURE_TYPE_CAUSAL ? 2 * CHANNELS : CHANNELS, ret, err);
}

struct detector_state {
    bool training;
    struct device *device;
    struct seizure_net *net;
    struct optim optim;
    struct bench_memory memory;
    struct tensor x, logits, p, labels, state; /* logits, p: of inference; labels: of training; state: of causal steps */
    int32_t *valid;
    struct step *work;
    int64_t step;
};

static void detector_close(void *state, struct device *dev) {
    struct detector_state *s = state;
    if (!s)
        return;
    step_free(s->work);
    optim_done(&s->optim);
    seizure_free(s->net);
    bench_memory_done(&s->memory, dev);
    free(s->valid);
    free(s);
}

static int take(struct detector_state *s, const struct bench_case *c, const struct seizure_config *config) {
    bool steps = seizure_step(config) && !s->training;
    int64_t b = c->batch, t = steps ? seizure_step(config) : config->window;
    struct bench_range unit = {-1, 1}, label = {0, 1.3};
    s->x = bench_fill(&s->memory, DTYPE_F32, (const int64_t[3]){b, t, config->in_channels}, unit);
    if (steps)
        s->state = bench_fill(&s->memory, DTYPE_F32, (const int64_t[3]){b, seizure_state_count(config), 0}, unit);
    s->logits = bench_fill(&s->memory, DTYPE_F32, (const int64_t[3]){b, t, 0}, unit);
    s->p = bench_fill(&s->memory, DTYPE_F32, (const int64_t[3]){b, t, 0}, unit);
    s->labels = bench_fill(&s->memory, DTYPE_U8, (const int64_t[3]){b, t, 0}, label);
    s->valid = needed(calloc((size_t)b, sizeof *s->valid));
    for (int64_t i = 0; i < b; i++)
        s->valid[i] = (int32_t)t;
    return s->memory.rc;
}

static int open_state(struct detector_state *s, const struct bench_case *c, const struct bench_context *x, struct err *err) {
    const struct detector_case *d = c->parameters;
    struct seizure_config config;
    struct seizure_options options = {.max_batch = c->batch, .training = d->training, .precision = x->dtype};
    struct optim_config optim = {.learning_rate = 1e-4, .weight_decay = 0.05, .gradient_clip = 1, .total_steps = 1000000};
    int rc;
    if ((rc = config_of(d, &config, err)) || (rc = seizure_new(x->device, &config, &options, &s->net, err)) ||
        (rc = seizure_init(s->net, x->stream, 1, 0.1, err)) ||
        (d->training && (rc = optim_init(&s->optim, seizure_params(s->net), &optim, x->stream, err))))
        return rc;
    struct step_config work = {.net = s->net,
                               .optim = &s->optim,
                               .rows = c->batch,
                               .seed = 1,
                               .loss = LOSS_FOCAL,
                               .alpha = 0.5f,
                               .gamma = 2,
                               .pos_weight = 1};
    if (d->training && (rc = step_new(x->device, &work, &s->work, err)))
        return rc;
    return take(s, c, &config);
}

static int detector_open(const struct bench_case *c, const struct bench_context *x, void **ret, struct err *err) {
    const struct detector_case *d = c->parameters;
    struct detector_state *s = needed(calloc(1, sizeof *s));
    s->training = d->training;
    s->memory = (struct bench_memory){.device = x->device, .stream = x->stream, .err = err};
    int rc = open_state(s, c, x, err);
    if (rc)
        detector_close(s, x->device);
    else
        *ret = s;
    return rc;
}

static int infer(struct detector_state *s, struct stream *stream, struct err *err) {
    struct sigmoid_args sigmoid = {.x = s->logits, .y = s->p};
    int rc = tensor_present(&s->state) ? seizure_infer_step(s->net, stream, &s->x, &s->state, &s->logits, err)
                                       : seizure_infer(s->net, stream, &s->x, &s->logits, err);
    return rc ? rc : op_sigmoid(stream, &sigmoid, err);
}

static int train(struct detector_state *s, struct stream *stream, struct err *err) {
    struct step_input input = {SAME_MEMBERS(*s, x, labels, valid), .step = s->step++,
                               .loss_scale = 1.0f / (float)tensor_count(&s->labels), .first = true, .last = true};
    struct step_result result = {.report.skipped = false};
    int rc;
    if ((rc = step_queue(s->work, stream, &input, err)) || (rc = step_wait(s->work, stream, &result, err)))
        return rc;
    if (result.report.skipped)
        return err_set(err, ERR_INTERNAL, "bench: the gradient is not finite");
    return 0;
}

static int detector_run(void *state, struct stream *stream, struct err *err) {
    struct detector_state *s = state;
    return s->training ? train(s, stream, err) : infer(s, stream, err);
}

/* Rows of the output that a weight acts on, for a window of t samples. */
static double rows_of(const char *name, double t) {
    int stage = name[8] - '0';
    if (strstr(name, "encoder.stem") == name)
        return t;
    if (strstr(name, "encoder.") == name)
        return t / (1 << (stage + (strstr(name, ".down.") != NULL)));
    if (strstr(name, "decoder.") == name)
        return t / (1 << (3 - stage + (strstr(name, ".up.") != NULL))); /* up: weights act on the rows before doubling */
    return strstr(name, "head.") == name ? t : t / TOKEN;
}

/* Multiplications and additions of one window's forward pass: 2·rows·weights. Inference folds fuse into out_proj and the head's two
 * projections into one. The scans' own part (d_state products per channel) is counted with 5 operations each. */
static double forward_operations(const struct seizure_config *config, const struct param_set *set, bool training) {
    bool steps = seizure_step(config) && !training;
    double t = (double)(steps ? seizure_step(config) : config->window), sum = 0;
    for (int i = 0; i < set->count; i++) {
        const struct param *p = &set->items[i];
        if (p->kind != PARAM_WEIGHT || (!training && (strstr(p->name, ".fuse.weight") || strstr(p->name, "head."))))
            continue;
        sum += 2 * rows_of(p->name, t) * (double)p->count;
    }
    double inner = (double)config->encoder_channels[3] * config->expand;
    return sum + (seizure_step(config) ? 1 : 2) * config->mamba_layers * t / TOKEN * inner * config->d_state * 5;
}

static struct rates_work detector_work(const struct bench_case *c, const struct bench_context *x) {
    const struct detector_case *d = c->parameters;
    struct seizure_config config;
    struct seizure_net *net = NULL;
    struct seizure_options options = {.max_batch = 1, .precision = x->dtype};
    struct rates_work w = {0};
    if (config_of(d, &config, NULL) || seizure_new(x->device, &config, &options, &net, NULL))
        return w;
    double weights = (double)seizure_params(net)->data_count * sizeof(float);
    w.flops_act = c->batch * forward_operations(&config, seizure_params(net), d->training) * (d->training ? 3 : 1);
    w.bytes =
        d->training ? 10 * weights : weights; /* AdamW reads four arrays and writes three; gradients are zeroed, written, read */
    seizure_free(net);
    return w;
}

#define UNET   SEIZURE_TYPE_UNET
#define CAUSAL SEIZURE_TYPE_CAUSAL
static const struct detector_case tiny_infer = {"tiny", false, UNET}, small_infer = {"small", false, UNET},
                                  base_infer = {"base", false, UNET}, tiny_train = {"tiny", true, UNET},
                                  small_train = {"small", true, UNET}, base_train = {"base", true, UNET},
                                  causal_step = {"tiny", false, CAUSAL}, causal_train = {"tiny", true, CAUSAL};

#define CASE(bench_, name_, batch_, parameters_)                                                                                   \
    { bench_, name_, batch_, false, BENCH_ANYWHERE, detector_work, detector_open, detector_run, detector_close, &parameters_ }
#define GPU_CASE(bench_, name_, batch_, parameters_)                                                                               \
    { bench_, name_, batch_, false, BENCH_GPU, detector_work, detector_open, detector_run, detector_close, &parameters_ }
const struct bench_case bench_detector_cases[] = {
    CASE("detector.infer", "tiny b1", 1, tiny_infer),
    CASE("detector.infer", "tiny b8", 8, tiny_infer),
    CASE("detector.infer", "small b1", 1, small_infer),
    CASE("detector.infer", "base b1", 1, base_infer),
    CASE("detector.infer", "base b8", 8, base_infer),
    CASE("detector.train", "tiny b1", 1, tiny_train),
    CASE("detector.train", "tiny b8", 8, tiny_train),
    CASE("detector.train", "small b1", 1, small_train),
    CASE("detector.train", "base b1", 1, base_train),
    CASE("detector.train", "base b2", 2, base_train),
    CASE("detector.step", "causal tiny b1", 1, causal_step),
    CASE("detector.step", "causal tiny b4", 4, causal_step),
    CASE("detector.step", "causal tiny b16", 16, causal_step),
    CASE("detector.step", "causal tiny b64", 64, causal_step),
    CASE("detector.train", "causal tiny b8", 8, causal_train),
    GPU_CASE("detector.infer", "base b64", 64, base_infer),
    GPU_CASE("detector.train", "small b64", 64, small_train),
    GPU_CASE("detector.train", "base b64", 64, base_train),
    {.name = NULL},
};
