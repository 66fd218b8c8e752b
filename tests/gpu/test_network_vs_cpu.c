/* test_network_vs_cpu [SECTION…]: the whole detector on the CPU and on cuda:0: a training pass's logits and gradients, inference,
 * the losses of many steps, recorded work against the same work op by op, how much a step asks of the device (emulated alone), and
 * loading and unloading with flat memory. Sections: gradients inference training replay launches unload; without one, all.
 * BRR_TEST_MODEL=small|tiny|mini (default small; mini is for an emulated device). Gradients and inference of a causal network
 * follow. Prints a line per check; exits 77 without a GPU (or library), 1 when a check fails. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "gpu_model.h"
#include "train/step.h"

enum { ROWS = 2, CHANNELS = 5 };

struct scale {
    int training_steps, loads;
};

static struct seizure_config config;
static struct scale scale = {100, 1000};
static int failures;
static bool mini;

/* A network on a device with one batch. */
struct machine {
    struct device *device;
    struct stream *stream;
    struct seizure_net *net;
    struct optim optim;
    struct step *step;
    void *x, *logits, *labels, *state; /* logits: of inference; state: of a causal network's steps */
    float *host;                       /* ROWS windows of inputs */
    uint8_t *host_labels;
    int32_t valid[ROWS];
};

static int64_t samples(void) { return ROWS * config.window; }

static void check(bool ok, const char *what, double value, double most) {
    failures += !ok;
    printf("%-6s %-44s %.3g (at most %.3g)\n", ok ? "ok" : "FAILED", what, value, most);
    fflush(stdout);
}

static int broken(const char *what, const struct err *err) {
    failures++;
    printf("FAILED %s: %s\n", what, err->message);
    return 1;
}

static void draw(struct machine *m, uint32_t batch) {
    struct rng rng;
    rng_init(&rng, 11, RNG_SYNTH, batch);
    for (int64_t i = 0; i < samples() * config.in_channels; i++)
        m->host[i] = (float)rng_normal(&rng);
    for (int64_t row = 0; row < ROWS; row++) { /* a seizure is louder: there is something to learn */
        int64_t from = config.window / 4 * (int64_t)(1 + batch % 2), to = from + config.window / 4;
        for (int64_t t = 0; t < config.window; t++)
            m->host_labels[row * config.window + t] = t >= from && t < to;
        for (int64_t i = (row * config.window + from) * config.in_channels; i < (row * config.window + to) * config.in_channels;
             i++)
            m->host[i] *= 3;
        m->valid[row] = (int32_t)(config.window - 16 * row);
    }
}

static int upload(struct machine *m, struct err *err) {
    size_t n = (size_t)samples();
    int rc = stream_to_device(m->stream, m->x, m->host, n * (size_t)config.in_channels * sizeof(float), err);
    if (!rc)
        rc = stream_to_device(m->stream, m->labels, m->host_labels, n, err);
    return rc ? rc : stream_sync(m->stream, err);
}

static size_t state_bytes(void) { return (size_t)(ROWS * seizure_state_count(&config) + 1) * sizeof(float); }

static int open_machine(struct machine *m, const char *device, enum dtype precision, struct err *err) {
    *m = (struct machine){0};
    struct seizure_options options = {.max_batch = ROWS, .training = true, .precision = precision};
    struct optim_config optim = {
        .learning_rate = 3e-4, .weight_decay = 0.05, .gradient_clip = 1, .total_steps = scale.training_steps, .warmup_ratio = 0.1};
    size_t n = (size_t)samples();
    m->host = calloc(n * (size_t)config.in_channels, sizeof(float));
    m->host_labels = calloc(n, 1);
    if (!m->host || !m->host_labels)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    int rc = device_open(device, 0, &m->device, err);
    if (!rc)
        rc = stream_open(m->device, STREAM_NORMAL, &m->stream, err);
    if (!rc)
        rc = seizure_new(m->device, &config, &options, &m->net, err);
    if (!rc)
        rc = seizure_init(m->net, m->stream, 5, 0.25, err);
    if (!rc)
        rc = optim_init(&m->optim, seizure_params(m->net), &optim, m->stream, err);
    if (!rc)
        rc = device_alloc(m->device, n * (size_t)config.in_channels * sizeof(float), &m->x, err);
    if (!rc)
        rc = device_alloc(m->device, n * sizeof(float), &m->logits, err);
    if (!rc)
        rc = device_alloc(m->device, n, &m->labels, err);
    if (!rc)
        rc = device_alloc(m->device, state_bytes(), &m->state, err);
    struct step_config work = {
        .net = m->net, .optim = &m->optim, .rows = ROWS, .seed = 3, .loss = LOSS_FOCAL, .alpha = 0.5f, .gamma = 2, .pos_weight = 2};
    return rc ? rc : step_new(m->device, &work, &m->step, err);
}

static void close_machine(struct machine *m) {
    step_free(m->step);
    optim_done(&m->optim);
    seizure_free(m->net);
    if (m->device) {
        device_free(m->device, m->x);
        device_free(m->device, m->logits);
        device_free(m->device, m->labels);
        device_free(m->device, m->state);
    }
    stream_close(m->stream);
    device_close(m->device);
    free(m->host);
    free(m->host_labels);
}

/* The batch as a whole step, or as one of several micro-batches of a step. */
enum { FIRST = 1, LAST = 2, WHOLE = FIRST | LAST };
static int pass(struct machine *m, uint32_t step, int part, double *ret_loss, struct err *err) {
    struct step_input input = {.x = tensor_3d(m->x, DTYPE_F32, ROWS, config.window, config.in_channels),
                               .labels = tensor_2d(m->labels, DTYPE_U8, ROWS, config.window),
                               .valid = m->valid,
                               .step = step,
                               .loss_scale = 1.0f / (float)samples(),
                               .row0 = part & FIRST ? 0 : ROWS,
                               .first = part & FIRST,
                               .last = part & LAST};
    struct step_result result = {.count = 0};
    int rc = step_queue(m->step, m->stream, &input, err);
    if (!rc)
        rc = step_wait(m->step, m->stream, &result, err);
    *ret_loss = result.loss_sum / (double)(result.count ? result.count : 1);
    return rc;
}

/* The windows' memory as steps of all rows, from zeros. */
static int infer_steps(struct machine *m, struct err *err) {
    int64_t step = seizure_step(&config), n = ROWS * step;
    struct tensor state = tensor_2d(m->state, DTYPE_F32, ROWS, seizure_state_count(&config));
    void *zeros = calloc(1, state_bytes());
    int rc =
        zeros ? stream_to_device(m->stream, m->state, zeros, state_bytes(), err) : err_set(err, ERR_EXHAUSTED, "out of memory");
    if (!rc)
        rc = stream_sync(m->stream, err);
    free(zeros);
    for (int64_t at = 0; !rc && at < config.window / step; at++) {
        struct tensor x = tensor_3d((float *)m->x + at * n * config.in_channels, DTYPE_F32, ROWS, step, config.in_channels);
        struct tensor logits = tensor_2d((float *)m->logits + at * n, DTYPE_F32, ROWS, step);
        rc = seizure_infer_step(m->net, m->stream, &x, &state, &logits, err);
    }
    return rc ? rc : stream_sync(m->stream, err);
}

static int infer(struct machine *m, struct err *err) {
    if (seizure_step(&config))
        return infer_steps(m, err);
    struct tensor x = tensor_3d(m->x, DTYPE_F32, ROWS, config.window, config.in_channels);
    struct tensor logits = tensor_2d(m->logits, DTYPE_F32, ROWS, config.window);
    int rc = seizure_infer(m->net, m->stream, &x, &logits, err);
    return rc ? rc : stream_sync(m->stream, err);
}

static float *fetch(struct machine *m, const void *from, int64_t n, struct err *err) {
    float *host = malloc((size_t)n * sizeof *host);
    if (host && (stream_to_host(m->stream, host, from, (size_t)n * sizeof *host, err) || stream_sync(m->stream, err))) {
        free(host);
        return NULL;
    }
    return host;
}

/* |a − b| / |a| */
static double distance(const float *a, const float *b, int64_t n) {
    double difference = 0, norm = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)b[i] - (double)a[i];
        difference += d * d;
        norm += (double)a[i] * (double)a[i];
    }
    return sqrt(difference / norm);
}

static double logits_distance(struct machine *a, struct machine *b, bool training, struct err *err) {
    float *x = fetch(a, training ? step_logits(a->step) : a->logits, samples(), err);
    float *y = fetch(b, training ? step_logits(b->step) : b->logits, samples(), err);
    double d = x && y ? distance(x, y, samples()) : INFINITY;
    free(x);
    free(y);
    return d;
}

/* The gradient as one vector, and its worst tensor among those whose norm counts (a thousandth of the whole). */
static int compare_gradients(struct machine *cpu, struct machine *gpu, double ret[2], struct err *err) {
    const struct param_set *set = seizure_params(cpu->net);
    float *a = fetch(cpu, set->grad, set->data_count, err), *b = fetch(gpu, seizure_params(gpu->net)->grad, set->data_count, err);
    ret[0] = ret[1] = INFINITY;
    double whole = 0;
    for (int64_t i = 0; a && i < set->data_count; i++)
        whole += (double)a[i] * (double)a[i];
    if (a && b) {
        ret[0] = distance(a, b, set->data_count);
        ret[1] = 0;
        for (int i = 0; i < set->count; i++) {
            const struct param *p = &set->items[i];
            double norm = 0;
            for (int64_t k = 0; p->kind != PARAM_BUFFER && k < p->count; k++)
                norm += (double)a[p->offset + k] * (double)a[p->offset + k];
            double d = norm > 1e-6 * whole ? distance(a + p->offset, b + p->offset, p->count) : 0;
            if (!(d <= ret[1]))
                ret[1] = d;
        }
    }
    free(a);
    free(b);
    return a && b ? 0 : -1;
}

/* ---- sections ---- */

/* A CPU without bf16 arithmetic computes in F32 what the GPU computes in bf16. */
static int open_pair(struct machine *cpu, struct machine *gpu, enum dtype precision, struct err *err) {
    struct device_info info;
    bool has_bf16 = !device_probe("cpu", &info, err) && info.has_bf16;
    int rc = open_machine(cpu, "cpu", has_bf16 ? precision : DTYPE_F32, err);
    *gpu = (struct machine){0};
    rc = rc ? rc : open_machine(gpu, "cuda:0", precision, err);
    if (rc)
        return rc;
    draw(cpu, 0);
    draw(gpu, 0);
    rc = upload(cpu, err);
    return rc ? rc : upload(gpu, err);
}

static void gradients(enum dtype precision) {
    struct machine cpu, gpu;
    struct err err = {0};
    bool bf16 = precision == DTYPE_BF16;
    double loss[2] = {0, 0}, d[2];
    int rc = open_pair(&cpu, &gpu, precision, &err);
    if (rc || pass(&cpu, 0, FIRST, &loss[0], &err) || pass(&gpu, 0, FIRST, &loss[1], &err) ||
        compare_gradients(&cpu, &gpu, d, &err)) {
        broken("gradients", &err);
    } else if (bf16) { /* rounding dominates single gradients at random weights; the pass itself must agree */
        double l = logits_distance(&cpu, &gpu, true, &err);
        check(l <= 5e-2, "bf16 training logits", l, 5e-2);
        double dl = fabs(loss[0] - loss[1]) / loss[0];
        check(dl <= 1e-2, "bf16 loss", dl, 1e-2);
    } else {
        double l = logits_distance(&cpu, &gpu, true, &err);
        check(l <= 1e-4, "fp32 training logits", l, 1e-4);
        check(d[0] <= 1e-3, "fp32 gradient", d[0], 1e-3);
        check(d[1] <= 1e-2, "fp32 gradient, worst tensor", d[1], 1e-2);
    }
    close_machine(&cpu);
    close_machine(&gpu);
}

static void inference(enum dtype precision) {
    struct machine cpu, gpu;
    struct err err = {0};
    bool bf16 = precision == DTYPE_BF16;
    double most = bf16 ? 5e-2 : 1e-4;
    int rc = open_pair(&cpu, &gpu, precision, &err);
    if (rc || infer(&cpu, &err) || infer(&gpu, &err)) {
        broken("inference", &err);
    } else {
        double l = logits_distance(&cpu, &gpu, false, &err);
        check(l <= most, bf16 ? "bf16 inference logits" : "fp32 inference logits", l, most);
    }
    close_machine(&cpu);
    close_machine(&gpu);
}

static void training(void) {
    struct machine cpu, gpu;
    struct err err = {0};
    double worst = 0, first = NAN, last = NAN;
    int rc = open_pair(&cpu, &gpu, DTYPE_F32, &err);
    for (int step = 0; !rc && step < scale.training_steps; step++) {
        struct machine *both[] = {&cpu, &gpu};
        double loss[2];
        for (int i = 0; !rc && i < 2; i++) {
            draw(both[i], (uint32_t)step);
            rc = upload(both[i], &err);
            rc = rc ? rc : pass(both[i], (uint32_t)step, WHOLE, &loss[i], &err);
        }
        if (rc)
            break;
        worst = fmax(worst, fabs(loss[0] - loss[1]));
        first = step ? first : loss[0];
        last = loss[0];
    }
    if (rc)
        broken("training", &err);
    else if (mini)
        check(worst <= 1e-3, "loss over the training steps, difference", worst, 1e-3);
    else /* a hundred steps magnify any rounding: the figure is for people */
        printf("       loss over the training steps, difference %.3g\n", worst);
    printf("       %d steps: loss %.4f to %.4f\n", scale.training_steps, first, last);
    close_machine(&cpu);
    close_machine(&gpu);
}

static bool is_emulated(void) {
    const char *path = getenv("BRR_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    bool ret = library && dlsym(library, "emulator_counts");
    if (library)
        dlclose(library);
    return ret;
}

/* Steps and inferences with and without recording: everything that comes out, bit for bit. */
static int work(struct machine *m, float **ret, int64_t *ret_n, struct err *err) {
    const struct param_set *set = seizure_params(m->net);
    int64_t n = set->data_count, steps = 5;
    float *all = malloc((size_t)(n + steps * samples()) * sizeof *all), *at = all;
    double loss;
    int rc = all ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory");
    for (int step = 0; !rc && step < steps; step++) { /* inference between them, and another place of dropout every time */
        draw(m, (uint32_t)step);
        rc = upload(m, err);
        for (int part = 0; !rc && part < 3; part++) { /* a step of one micro-batch, then one of two */
            static const int parts[] = {WHOLE, FIRST, LAST};
            rc = pass(m, (uint32_t)(2 * step + (part > 0)), parts[part], &loss, err);
        }
        rc = rc ? rc : infer(m, err);
        rc = rc ? rc : stream_to_host(m->stream, at, m->logits, (size_t)samples() * sizeof *at, err);
        rc = rc ? rc : stream_sync(m->stream, err);
        at += samples();
    }
    if (!rc)
        rc = stream_to_host(m->stream, at, set->data, (size_t)n * sizeof *at, err);
    rc = rc ? rc : stream_sync(m->stream, err);
    *ret = all;
    *ret_n = n + steps * samples();
    return rc;
}

/* Op by op, recorded, and (emulated alone) with recordings that fail: then it goes on op by op, and says so once. */
static void replay(enum dtype precision) {
    static const char *const graphs[] = {"0", "1", "1"}, *const recordings[] = {"1", "1", "0"};
    float *results[3] = {NULL, NULL, NULL};
    bool emulated = is_emulated(), warned[3] = {false, false, false};
    struct err err = {0};
    struct device_info info = {0};
    int64_t n = 0;
    int rc = 0;
    for (int i = 0; !rc && i < (emulated ? 3 : 2); i++) {
        struct machine m;
        struct err why;
        setenv("BRR_CUDA_GRAPHS", graphs[i], 1);
        setenv("BRR_EMULATED_RECORDINGS", recordings[i], 1);
        if (!(rc = open_machine(&m, "cuda:0", precision, &err)))
            rc = work(&m, &results[i], &n, &err);
        if (m.device)
            device_describe(m.device, &info);
        warned[i] = m.step && step_warning(m.step, &why) && !step_warning(m.step, &why);
        close_machine(&m);
    }
    unsetenv("BRR_CUDA_GRAPHS");
    unsetenv("BRR_EMULATED_RECORDINGS");
    int64_t differ = 0, differ_failed = 0;
    for (int64_t i = 0; !rc && i < n; i++) {
        differ += memcmp(&results[0][i], &results[1][i], sizeof(float)) != 0;
        differ_failed += emulated && memcmp(&results[0][i], &results[2][i], sizeof(float));
    }
    if (rc)
        broken("replay", &err);
    else
        check(differ == 0 && info.has_graphs,
              precision == DTYPE_BF16 ? "bf16 recorded against op by op, values" : "fp32 recorded against op by op, values",
              (double)differ, 0);
    if (!rc && emulated)
        check(differ_failed == 0 && !warned[0] && !warned[1] && warned[2], "recordings that fail against op by op, values",
              (double)differ_failed, 0);
    for (int i = 0; i < 3; i++)
        free(results[i]);
}

/* Recorded micro-batches after the first of a step use its copies of the weights. Only an emulated device counts. */
static void copies_of_weights(void *library) {
    long (*recorded)(void) = NULL;
    *(void **)&recorded = dlsym(library, "emulator_recorded_kernels");
    static const int parts[] = {FIRST, 0, LAST};
    struct machine m;
    struct err err = {0};
    long kernels[3] = {0};
    double loss;
    int weights = 0, rc = open_machine(&m, "cuda:0", DTYPE_BF16, &err);
    for (uint32_t step = 0; recorded && !rc && step < 4; step++) {
        draw(&m, step);
        rc = upload(&m, &err);
        for (int part = 0; !rc && part < 3; part++) {
            long before = recorded();
            rc = pass(&m, step, parts[part], &loss, &err);
            kernels[part] = recorded() - before;
        }
    }
    if (!rc)
        for (int i = 0; i < seizure_params(m.net)->count; i++)
            weights += seizure_params(m.net)->items[i].kind == PARAM_WEIGHT;
    printf("       kernels of a recorded micro-batch: %ld first, %ld between, %ld last\n", kernels[0], kernels[1], kernels[2]);
    if (rc)
        broken("copies of weights", &err);
    else /* most are copied in two forms, or with a bias */
        check(kernels[1] > 0 && kernels[0] - kernels[1] >= weights, "weights that each micro-batch does not copy",
              (double)(kernels[0] - kernels[1]), 1e9);
    close_machine(&m);
}

/* A step in its steady state is one launch of recorded work between two copies. Only an emulated device counts. */
static void launches(void) {
    const char *path = getenv("BRR_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void (*counts)(long ret[3]) = NULL;
    if (library)
        *(void **)&counts = dlsym(library, "emulator_counts");
    struct machine m;
    struct err err = {0};
    long before[3] = {0}, after[3] = {0};
    double loss;
    int rc = counts ? open_machine(&m, "cuda:0", DTYPE_F32, &err) : 0;
    for (uint32_t step = 0; counts && !rc && step < 4; step++) {
        draw(&m, step);
        rc = upload(&m, &err);
        counts(before);
        rc = rc ? rc : pass(&m, step, WHOLE, &loss, &err);
        counts(after);
    }
    if (rc)
        broken("launches", &err);
    else if (counts)
        check(after[0] == before[0] && after[1] - before[1] == 2 && after[2] - before[2] == 1,
              "calls of a recorded step: a launch, two copies", (double)(after[0] - before[0] + after[1] - before[1]), 2);
    if (counts)
        close_machine(&m);
    if (counts)
        copies_of_weights(library);
    if (library)
        dlclose(library);
}

static int load_once(struct device *device, struct err *err) {
    struct seizure_options options = {.max_batch = 1, .precision = DTYPE_F32};
    struct seizure_net *net = NULL;
    struct stream *s = NULL;
    void *x = NULL, *logits = NULL;
    size_t n = (size_t)config.window * sizeof(float);
    int rc = stream_open(device, STREAM_HIGH, &s, err);
    if (!rc)
        rc = seizure_new(device, &config, &options, &net, err);
    if (!rc)
        rc = seizure_init(net, s, 1, 0.1, err);
    if (!rc)
        rc = device_alloc(device, n * (size_t)config.in_channels, &x, err);
    if (!rc)
        rc = device_alloc(device, n, &logits, err);
    struct tensor in = tensor_3d(x, DTYPE_F32, 1, config.window, config.in_channels),
                  out = tensor_2d(logits, DTYPE_F32, 1, config.window);
    for (int i = 0; !rc && i < 3; i++) /* op by op, recording, recorded */
        rc = seizure_infer(net, s, &in, &out, err);
    if (!rc)
        rc = stream_sync(s, err);
    device_free(device, x);
    device_free(device, logits);
    seizure_free(net);
    stream_close(s);
    return rc;
}

static void unload(void) {
    if (!mini)
        seizure_preset(SEIZURE_TYPE_UNET, "tiny", CHANNELS, &config,
                       NULL); /* a thousand times: what counts is that all kinds of memory are taken */
    struct device *device = NULL;
    struct device_info before = {0}, after = {0};
    struct err err = {0};
    int64_t live = 0, allocations = 0;
    int rc = device_open("cuda:0", 0, &device, &err), warm = scale.loads / 10;
    for (int i = 0; !rc && i < scale.loads; i++) {
        if (i == warm)
            rc = device_probe("cuda:0", &before, &err);
        rc = rc ? rc : load_once(device, &err);
    }
    if (!rc)
        device_alloc_stats(device, &live, &allocations);
    if (!rc)
        rc = device_probe("cuda:0", &after, &err);
    device_close(device);
    if (rc) {
        broken("unload", &err);
        return;
    }
    check(live == 0, "bytes still taken after the last unload", (double)live, 0);
    double lost = (double)(before.free_bytes - after.free_bytes);
    if (mini)
        check(lost <= 4 << 20, "bytes the device has fewer after all loads", lost, 4 << 20);
    else /* the driver keeps pools of its own */
        printf("       bytes the device has fewer after all loads: %.0f\n", lost);
    printf("       %d loads and unloads\n", scale.loads);
}

static bool wanted(int argc, char **argv, const char *section) {
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], section))
            return true;
    return argc == 1;
}

static void choose_causal(void) {
    int64_t window = mini ? 512 : 4096;
    printf("causal\n");
    seizure_preset(SEIZURE_TYPE_CAUSAL, "tiny", 2 * CHANNELS, &config, NULL);
    config.window = window;
}

/* One input, two parameters. */
static void choose_feature(void) {
    int64_t window = config.window;
    printf("line_length\n");
    seizure_preset(SEIZURE_TYPE_LINE_LENGTH, "", 1, &config, NULL);
    config.window = window;
}

static int choose_model(const char *name) {
    mini = !strcmp(name, "mini");
    if (mini)
        scale = (struct scale){6, 12};
    return gpu_model(name, CHANNELS, &config);
}

static void both_precisions(int argc, char **argv) {
    for (int bf16 = 0; bf16 < 2; bf16++) {
        enum dtype precision = bf16 ? DTYPE_BF16 : DTYPE_F32;
        if (wanted(argc, argv, "gradients"))
            gradients(precision);
        if (wanted(argc, argv, "inference"))
            inference(precision);
        if (config.type == SEIZURE_TYPE_UNET && wanted(argc, argv, "replay"))
            replay(precision);
    }
}

int main(int argc, char **argv) {
    const char *model = getenv("BRR_TEST_MODEL");
    struct device_info info;
    struct err err = {0};
    if (choose_model(model ? model : "small")) {
        printf("BRR_TEST_MODEL=%s; expected small, tiny, base or mini\n", model);
        return 2;
    }
    if (device_probe("cuda:0", &info, &err)) {
        printf("skipped: hardware: no GPU: %s\n", err.message);
        return 77;
    }
    printf("%s: %s\n", info.name, info.description);
    both_precisions(argc, argv);
    if (wanted(argc, argv, "training"))
        training();
    if (wanted(argc, argv, "launches"))
        launches();
    if (wanted(argc, argv, "unload"))
        unload();
    choose_causal();
    both_precisions(argc, argv);
    choose_feature();
    both_precisions(argc, argv);
    printf("%d failed\n", failures);
    return failures ? 1 : 0;
}
