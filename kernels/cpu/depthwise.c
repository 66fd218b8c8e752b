/* Depthwise convolution on the CPU: reverse becomes the forward sum with flipped taps, then rows × stretches of time (forward) or
 * batch slices × channel blocks (backward) run on the thread pool. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/scan_job.h"

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
        .x = scan_view_of(x),
    };
}

static size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

int cpu_conv1d_depthwise(struct stream *s, const struct conv1d_depthwise_args *a, struct err *err) {
    struct depthwise_job job = job_of(&a->x, &a->w, a->pad_left, a->reverse), *j = &job;
    float *packed = cpu_scratch(s, (size_t)(j->taps * j->channels) * sizeof *packed, err);
    if (!packed)
        return ERR_EXHAUSTED;
    pack_weights(cf(&a->w), packed, j->channels, j->taps, a->reverse);
    j->silu = a->silu;
    j->y = scan_view_of(&a->y);
    j->w = packed;
    j->bias = a->bias.data;
    j->state0 = a->state0.data;
    j->state = a->state.data;
    j->lengths = a->lengths;
    j->resets = a->resets.data;
    const int64_t stretches = (j->length + DEPTHWISE_ROWS - 1) / DEPTHWISE_ROWS;
    lanes_for(cpu_threads(s), j->batch * stretches, scan_kernels()->depthwise, &(struct scan_lanes){.job = j});
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
    const struct scan_kernels *kernels = scan_kernels();
    struct depthwise_job job = job_of(&a->x, &a->w, a->pad_left, a->reverse), *j = &job;
    struct scan_lanes w = {.job = j, .each = padded(kernels->depthwise_bytes(j))};
    j->slices = j->batch < SCAN_SLICES ? j->batch : SCAN_SLICES;
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
    j->dy = scan_view_of(&a->dy);
    j->dx = scan_view_of(&a->dx);
    j->state0 = a->state0.data;
    j->dstate = a->dstate.data;
    j->dstate0 = a->dstate0.data;
    j->lengths = a->lengths;
    j->resets = a->resets.data;
    const int64_t blocks = (j->channels + DEPTHWISE_BLOCK - 1) / DEPTHWISE_BLOCK;
    lanes_for(threads, j->slices * blocks, kernels->depthwise_backward, &w);
    add_weights(j, &a->dw, &a->dbias);
    return 0;
}
