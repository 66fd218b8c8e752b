/* Depthwise convolution on the CPU: reverse becomes the forward sum with flipped taps, then rows × stretches of time (forward) or
 * batch slices × channel blocks (backward) run on the thread pool. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/scan_job.h"

enum { ROWS = 32, BLOCK = 128 }; /* as in depthwise_body.h */

struct depthwise_work {
    const struct scan_kernels *kernels;
    struct depthwise_job job;
    char *scratch; /* `each` bytes of each lane */
    size_t each;
};

static void depthwise_item(const void *ctx, int64_t i, int lane) {
    const struct depthwise_work *w = ctx;
    (void)lane;
    w->kernels->depthwise(&w->job, i, NULL);
}

static void depthwise_backward_item(const void *ctx, int64_t i, int lane) {
    const struct depthwise_work *w = ctx;
    w->kernels->depthwise_backward(&w->job, i, w->scratch + w->each * (size_t)lane);
}

static struct scan_view view_of(const struct tensor *t) { return (struct scan_view){t->data, t->ld, 0}; }

/* The transposed weights w[k][c], flipped for reverse, and back. */
static void pack_weights(const float *w, float *packed, int64_t d, int taps, bool reverse) {
    for (int64_t c = 0; c < d; c++)
        for (int k = 0; k < taps; k++)
            packed[(reverse ? taps - 1 - k : k) * d + c] = w[c * taps + k];
}

static struct depthwise_job job_of(const struct tensor *x, const struct tensor *w, int pad_left, bool reverse) {
    int taps = (int)w->dim[1];
    return (struct depthwise_job){
        .batch = x->dim[0],
        .length = x->dim[1],
        .channels = x->dim[2],
        .taps = taps,
        .pad = reverse ? taps - 1 - pad_left : pad_left,
        .bf16 = x->dtype == DTYPE_BF16,
        .reverse = reverse,
        .x = view_of(x),
    };
}

static size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

int cpu_conv1d_depthwise(struct stream *s, const struct conv1d_depthwise_args *a, struct err *err) {
    struct depthwise_work w = {.kernels = scan_kernels(), .job = job_of(&a->x, &a->w, a->pad_left, a->reverse)};
    struct depthwise_job *j = &w.job;
    float *packed = cpu_scratch(s, (size_t)(j->taps * j->channels) * sizeof *packed, err);
    if (!packed)
        return ERR_EXHAUSTED;
    pack_weights(cf(&a->w), packed, j->channels, j->taps, a->reverse);
    j->silu = a->silu;
    j->y = view_of(&a->y);
    j->w = packed;
    j->bias = a->bias.data;
    j->state0 = a->state0.data;
    j->state = a->state.data;
    j->lengths = a->lengths;
    j->resets = a->resets.data;
    lanes_for(cpu_threads(s), j->batch * ((j->length + ROWS - 1) / ROWS), depthwise_item, &w);
    return 0;
}

static void add_weights(const struct depthwise_job *j, const struct tensor *dw, const struct tensor *dbias) {
    for (int64_t c = 0; c < j->channels; c++) {
        for (int k = 0; k < j->taps && tensor_present(dw); k++) {
            float sum = 0.0f;
            for (int64_t slice = 0; slice < j->slices; slice++)
                sum += j->part_w[(slice * j->taps + (j->reverse ? j->taps - 1 - k : k)) * j->channels + c];
            mf(dw)[c * j->taps + k] += sum;
        }
        float sum = 0.0f;
        for (int64_t slice = 0; slice < j->slices && tensor_present(dbias); slice++)
            sum += j->part_bias[slice * j->channels + c];
        if (tensor_present(dbias))
            mf(dbias)[c] += sum;
    }
}

int cpu_conv1d_depthwise_backward(struct stream *s, const struct conv1d_depthwise_backward_args *a, struct err *err) {
    int threads = cpu_threads(s);
    struct depthwise_work w = {.kernels = scan_kernels(), .job = job_of(&a->x, &a->w, a->pad_left, a->reverse)};
    struct depthwise_job *j = &w.job;
    j->slices = j->batch < SCAN_SLICES ? j->batch : SCAN_SLICES;
    w.each = padded(w.kernels->depthwise_bytes(j));
    size_t weights = padded((size_t)(j->taps * j->channels) * sizeof(float));
    size_t part_w = padded((size_t)(j->slices * j->taps * j->channels) * sizeof(float));
    size_t part_bias = padded((size_t)(j->slices * j->channels) * sizeof(float));
    char *scratch = cpu_scratch(s, weights + part_w + part_bias + w.each * (size_t)threads, err);
    if (!scratch)
        return ERR_EXHAUSTED;
    float *packed = (float *)(void *)scratch;
    w.scratch = scratch + weights + part_w + part_bias;
    pack_weights(cf(&a->w), packed, j->channels, j->taps, a->reverse);
    j->part_w = (float *)(void *)(scratch + weights);
    j->part_bias = (float *)(void *)(scratch + weights + part_w);
    j->silu = a->silu;
    j->w = packed;
    j->bias = a->bias.data;
    j->dy = view_of(&a->dy);
    j->dx = view_of(&a->dx);
    j->state0 = a->state0.data;
    j->dstate = a->dstate.data;
    j->dstate0 = a->dstate0.data;
    j->lengths = a->lengths;
    j->resets = a->resets.data;
    lanes_for(threads, j->slices * ((j->channels + BLOCK - 1) / BLOCK), depthwise_backward_item, &w);
    add_weights(j, &a->dw, &a->dbias);
    return 0;
}
