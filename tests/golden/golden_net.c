/* golden_net: the detector's network on tensors from files, for the comparison with an independent program.
 *   golden_net init CONFIG.json SEED MODEL    initial weights, the configuration in the metadata
 *   golden_net infer MODEL IN OUT             x (B,T,C) → logits (B,T)
 *   golden_net train MODEL IN OUT             x, labels U8 (B,T), valid I32 (B), settings in IN's metadata `settings` → of the
 * first step logits, loss, grad.NAME; of all steps losses, norms, rates; then after.NAME */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fsio.h"
#include "base/str.h"
#include "detect/seizure_net.h"
#include "kernels/op.h"
#include "nn/ckpt.h"

enum { MAX_OUTPUTS = 4096, MAX_STEPS = 64, MAX_BATCH = 64 };

struct golden {
    struct err err;
    struct device *dev;
    struct stream *s;
    struct seizure_config config;
    struct seizure_net *net;
    struct safetensors *in;
    struct json *settings;
    struct safetensors_entry out[MAX_OUTPUTS];
    char names[MAX_OUTPUTS][PARAM_NAME_MAX + 8];
    size_t n_out;
};

static int read_config(struct golden *g, const char *text, const char *name) {
    struct json *j = NULL;
    int rc = json_parse(text, strlen(text), name, &j, &g->err);
    if (!rc)
        rc = seizure_config_from_json(j, &g->config, &g->err);
    json_free(j);
    return rc;
}

static int open_net(struct golden *g, int batch, bool training, enum dtype precision) {
    struct seizure_options options = {.max_batch = batch, .training = training, .precision = precision};
    const char *device = getenv("BRR_TEST_DEVICE"); /* infer alone runs on others than the CPU */
    int rc = device_open(device ? device : "cpu", 0, &g->dev, &g->err);
    if (!rc)
        rc = stream_open(g->dev, STREAM_NORMAL, &g->s, &g->err);
    return rc ? rc : seizure_new(g->dev, &g->config, &options, &g->net, &g->err);
}

static int put(struct golden *g, const char *prefix, const char *name, struct safetensors_entry e) {
    if (g->n_out == MAX_OUTPUTS)
        return err_set(&g->err, ERR_RANGE, "more than %d outputs", MAX_OUTPUTS);
    str_format(g->names[g->n_out], sizeof g->names[0], "%s%s", prefix, name);
    e.name = g->names[g->n_out];
    g->out[g->n_out++] = e;
    return 0;
}

static int put_vector(struct golden *g, const char *name, enum safetensors_dtype dtype, const void *data, int64_t n) {
    return put(g, "", name,
               (struct safetensors_entry){
                   .dtype = dtype, .rank = 1, .shape = {n}, .data = data, .bytes = (size_t)n * safetensors_dtype_bytes(dtype)});
}

/* Host copies live until the process ends. */
static int put_params(struct golden *g, const char *prefix, bool gradients) {
    const struct param_set *set = seizure_params(g->net);
    for (int i = 0; i < set->count; i++) {
        const struct param *p = &set->items[i];
        if (gradients && p->kind == PARAM_BUFFER)
            continue;
        struct tensor t = gradients ? param_grad(set, p) : param_value(set, p);
        struct safetensors_entry e = {.dtype = SAFETENSORS_F32, .rank = p->rank, .bytes = (size_t)p->count * sizeof(float)};
        memcpy(e.shape, p->dim, sizeof p->dim);
        void *copy = malloc(e.bytes);
        e.data = copy;
        int rc = copy ? stream_to_host(g->s, copy, t.data, e.bytes, &g->err) : err_set(&g->err, ERR_EXHAUSTED, "out of memory");
        if (!rc)
            rc = stream_sync(g->s, &g->err);
        if (!rc)
            rc = put(g, prefix, p->name, e);
        if (rc)
            return rc;
    }
    return 0;
}

static int init(struct golden *g, const char *config, const char *seed, const char *path) {
    char *text = NULL, sha[DIGEST_HEX_SIZE];
    size_t len;
    int64_t n = 0;
    int rc = fsio_read(config, 1 << 20, &text, &len, &g->err);
    if (!rc)
        rc = read_config(g, text, config);
    if (!rc && !str_to_i64(seed, &n))
        rc = err_set(&g->err, ERR_INVALID, "seed '%s' is no number", seed);
    if (!rc)
        rc = open_net(g, 1, false, DTYPE_F32);
    if (!rc)
        rc = seizure_init(g->net, g->s, (uint64_t)n, 0.25, &g->err);
    struct safetensors_pair metadata = {"config", text};
    if (!rc)
        rc = ckpt_save_model(&(struct ckpt_file){path, &metadata, 1}, seizure_params(g->net), NULL, g->s, sha, &g->err);
    free(text);
    return rc;
}

static double setting(const struct golden *g, const char *key, double fallback) {
    return json_f64(json_get(g->settings, key), fallback);
}

/* The model and its configuration, the input and its settings. */
static int load(struct golden *g, const char *model, const char *in, bool training) {
    struct safetensors *st = NULL;
    int rc = safetensors_open(model, &st, &g->err);
    const char *config = rc ? NULL : safetensors_metadata(st, "config");
    if (!rc)
        rc = config ? read_config(g, config, model) : err_set(&g->err, ERR_INVALID, "%s has no configuration", model);
    safetensors_close(st);
    if (!rc)
        rc = safetensors_open(in, &g->in, &g->err);
    const char *settings = rc ? NULL : safetensors_metadata(g->in, "settings");
    if (!rc && settings)
        rc = json_parse(settings, strlen(settings), in, &g->settings, &g->err);
    const struct safetensors_entry *x = rc ? NULL : safetensors_find(g->in, "x");
    if (!rc && (!x || x->dtype != SAFETENSORS_F32 || x->rank != 3 || x->shape[0] > MAX_BATCH))
        rc = err_set(&g->err, ERR_INVALID, "%s needs x (B,T,C) in F32", in);
    bool bf16 = !strcmp(json_str(json_get(g->settings, "precision"), "f32"), "bf16");
    if (!rc)
        rc = open_net(g, (int)x->shape[0], training, bf16 ? DTYPE_BF16 : DTYPE_F32);
    return rc ? rc : ckpt_load_model(model, seizure_params(g->net), g->s, false, &g->err);
}

static struct tensor input(const struct golden *g) {
    const struct safetensors_entry *x = safetensors_find(g->in, "x");
    return tensor_3d((void *)(uintptr_t)x->data, DTYPE_F32, x->shape[0], x->shape[1], x->shape[2]);
}

static int put_logits(struct golden *g, const struct tensor *t) {
    size_t bytes = (size_t)tensor_count(t) * sizeof(float);
    void *copy = malloc(bytes);
    if (!copy)
        return err_set(&g->err, ERR_EXHAUSTED, "out of memory");
    memcpy(copy, t->data, bytes);
    return put(g, "", "logits",
               (struct safetensors_entry){
                   .dtype = SAFETENSORS_F32, .rank = 2, .shape = {t->dim[0], t->dim[1]}, .data = copy, .bytes = bytes});
}

static int infer(struct golden *g) {
    struct tensor host_x = input(g), x = host_x, host_logits = tensor_2d(NULL, DTYPE_F32, x.dim[0], x.dim[1]), logits = host_logits;
    size_t x_bytes = tensor_span_bytes(&x), bytes = tensor_span_bytes(&logits);
    host_logits.data = malloc(bytes);
    int rc = host_logits.data ? 0 : err_set(&g->err, ERR_EXHAUSTED, "out of memory");
    x.data = NULL;
    if (!rc)
        rc = device_alloc(g->dev, x_bytes, &x.data, &g->err);
    if (!rc)
        rc = device_alloc(g->dev, bytes, &logits.data, &g->err);
    if (!rc)
        rc = stream_to_device(g->s, x.data, host_x.data, x_bytes, &g->err);
    if (!rc)
        rc = seizure_infer(g->net, g->s, &x, &logits, &g->err);
    if (!rc)
        rc = stream_to_host(g->s, host_logits.data, logits.data, bytes, &g->err);
    if (!rc)
        rc = stream_sync(g->s, &g->err);
    if (!rc)
        rc = put_logits(g, &host_logits);
    device_free(g->dev, x.data);
    device_free(g->dev, logits.data);
    free(host_logits.data);
    return rc;
}

/* What ReLU kept: activations are fp32 or, in a bf16 step, bf16; both carry their sign in the topmost bit. */
static bool is_positive(const struct tensor *y, int64_t at) {
    if (y->dtype == DTYPE_F32)
        return ((const float *)y->data)[at] > 0;
    uint16_t bits = ((const uint16_t *)y->data)[at];
    return bits && !(bits >> 15);
}

static int put_mask(struct golden *g, int step, const char *weight, const struct tensor *y) {
    char prefix[32];
    int64_t rows = tensor_rows(y), c = y->dim[2];
    struct safetensors_entry e = {
        .dtype = SAFETENSORS_U8, .rank = 3, .shape = {y->dim[0], y->dim[1], c}, .bytes = (size_t)(rows * c)};
    uint8_t *mask = malloc(e.bytes);
    if (!mask)
        return err_set(&g->err, ERR_EXHAUSTED, "out of memory");
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < c; i++)
            mask[r * c + i] = is_positive(y, r * y->ld + i);
    e.data = mask;
    str_format(prefix, sizeof prefix, "mask.%d.", step);
    return put(g, prefix, weight, e);
}

static int put_pair_masks(struct golden *g, int step, const struct conv_block pair[2]) {
    int rc = put_mask(g, step, pair[0].w->name, &pair[0].y);
    return rc ? rc : put_mask(g, step, pair[1].w->name, &pair[1].y);
}

/* Between forward and backward, while the activations are there. */
static int put_masks(struct golden *g, int step) {
    const struct seizure_net *net = g->net;
    if (net->config.type == SEIZURE_TYPE_CAUSAL) /* its reference needs no masks */
        return 0;
    int rc = put_mask(g, step, net->stem.w->name, &net->stem.y);
    for (int i = 0; !rc && i < STAGES; i++) {
        rc = put_pair_masks(g, step, net->encoder[i].conv);
        if (!rc)
            rc = put_pair_masks(g, step, net->decoder[i].conv);
    }
    for (int i = 0; !rc && i < g->config.rescnn_blocks; i++) {
        for (int k = 0; !rc && k < RESCNN_BRANCHES; k++)
            rc = put_mask(g, step, net->rescnn[i].branch[k].w->name, &net->rescnn[i].branch[k].y);
        if (!rc)
            rc = put_mask(g, step, net->rescnn[i].fuse.w->name, &net->rescnn[i].y);
    }
    return rc;
}

struct run {
    struct optim optim;
    double losses[MAX_STEPS], norms[MAX_STEPS], rates[MAX_STEPS];
    float *logits, *dlogits;
    int steps;
};

static int train_step(struct golden *g, struct run *r, int step) {
    struct tensor x = input(g);
    int64_t b = x.dim[0], t = x.dim[1];
    double sums[2] = {0, 0};
    const struct safetensors_entry *labels = safetensors_find(g->in, "labels"), *valid = safetensors_find(g->in, "valid");
    if (!labels || labels->bytes != (size_t)(b * t) || !valid || valid->bytes != (size_t)b * sizeof(int32_t))
        return err_set(&g->err, ERR_INVALID, "labels U8 (B,T) and valid I32 (B) are needed");
    struct tensor logits = tensor_2d(r->logits, DTYPE_F32, b, t), dlogits = tensor_2d(r->dlogits, DTYPE_F32, b, t);
    struct seizure_pass pass = {
        .seed = (uint64_t)setting(g, "seed", 0), .step = (uint32_t)step, .row0 = (int64_t)setting(g, "row0", 0)};
    struct loss_args loss = {.kind = strcmp(json_str(json_get(g->settings, "loss"), "focal"), "bce") ? LOSS_FOCAL : LOSS_BCE,
                             .logits = logits,
                             .labels = tensor_2d((void *)(uintptr_t)labels->data, DTYPE_U8, b, t),
                             .dlogits = dlogits,
                             .valid = valid->data,
                             .alpha = (float)setting(g, "alpha", 0.5),
                             .gamma = (float)setting(g, "gamma", 2),
                             .pos_weight = (float)setting(g, "pos_weight", 1),
                             .scale = (float)(1 / setting(g, "counted", 1)),
                             .sums = sums};
    struct optim_report report;
    int rc = optim_zero_grad(&r->optim, g->s, &g->err);
    if (!rc)
        rc = seizure_forward_train(g->net, g->s, &x, &pass, &logits, &g->err);
    if (!rc)
        rc = op_loss(g->s, &loss, &g->err);
    if (!rc)
        rc = put_masks(g, step);
    if (!rc)
        rc = seizure_backward(g->net, g->s, &dlogits, &pass, &g->err);
    if (!rc)
        rc = stream_sync(g->s, &g->err);
    r->losses[step] = sums[0] / setting(g, "counted", 1);
    if (!rc && step == 0)
        rc = put_logits(g, &logits);
    if (!rc && step == 0)
        rc = put_params(g, "grad.", true);
    if (!rc)
        rc = optim_step(&r->optim, g->s, step, &report, &g->err);
    if (!rc) {
        r->norms[step] = report.gradient_norm;
        r->rates[step] = report.learning_rate;
    }
    return rc;
}

static int train(struct golden *g, struct run *r) {
    struct tensor x = input(g);
    r->steps = (int)setting(g, "steps", 1);
    if (r->steps < 1 || r->steps > MAX_STEPS)
        return err_set(&g->err, ERR_RANGE, "steps must lie in 1 to %d", MAX_STEPS);
    struct optim_config config = {.learning_rate = setting(g, "learning_rate", 3e-4),
                                  .weight_decay = setting(g, "weight_decay", 0.05),
                                  .warmup_ratio = setting(g, "warmup_ratio", 0.1),
                                  .gradient_clip = setting(g, "gradient_clip", 1),
                                  .total_steps = r->steps};
    int rc = optim_init(&r->optim, seizure_params(g->net), &config, g->s, &g->err);
    r->logits = calloc((size_t)(x.dim[0] * x.dim[1]), sizeof(float));
    r->dlogits = calloc((size_t)(x.dim[0] * x.dim[1]), sizeof(float));
    if (!rc && (!r->logits || !r->dlogits))
        rc = err_set(&g->err, ERR_EXHAUSTED, "out of memory");
    for (int i = 0; !rc && i < r->steps; i++)
        rc = train_step(g, r, i);
    free(r->logits);
    free(r->dlogits);
    if (!rc)
        rc = put_params(g, "after.", false);
    if (!rc)
        rc = put_vector(g, "losses", SAFETENSORS_F64, r->losses, r->steps);
    if (!rc)
        rc = put_vector(g, "norms", SAFETENSORS_F64, r->norms, r->steps);
    return rc ? rc : put_vector(g, "rates", SAFETENSORS_F64, r->rates, r->steps);
}

int main(int argc, char **argv) {
    static struct golden g;
    static struct run r;
    char sha[DIGEST_HEX_SIZE];
    int rc;
    if (argc == 5 && !strcmp(argv[1], "init")) {
        rc = init(&g, argv[2], argv[3], argv[4]);
    } else if (argc == 5 && (!strcmp(argv[1], "infer") || !strcmp(argv[1], "train"))) {
        bool training = argv[1][0] == 't';
        rc = load(&g, argv[2], argv[3], training);
        if (!rc)
            rc = training ? train(&g, &r) : infer(&g);
        struct safetensors_content content = {g.out, g.n_out, NULL, 0};
        if (!rc)
            rc = safetensors_write(argv[4], &content, sha, &g.err);
    } else {
        fprintf(stderr, "usage: golden_net init CONFIG.json SEED MODEL | infer MODEL IN OUT | train MODEL IN OUT\n");
        return 2;
    }
    if (rc)
        fprintf(stderr, "golden_net: %s\n", g.err.message);
    optim_done(&r.optim);
    seizure_free(g.net);
    stream_close(g.s);
    device_close(g.dev);
    json_free(g.settings);
    safetensors_close(g.in);
    for (size_t i = 0; i < g.n_out; i++)
        if (g.out[i].data != r.losses && g.out[i].data != r.norms && g.out[i].data != r.rates)
            free((void *)(uintptr_t)g.out[i].data);
    return rc ? 1 : 0;
}
