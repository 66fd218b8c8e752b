/* augment: training windows changed in place, blocks (window, part of its samples). A thread takes input c ≤ partner[c] of a
 * sample, and the partner with it, so that an exchange needs no second buffer. Single products: the bits of the CPU. */
#include "kernels/cuda/cuda.cuh"

enum { AUGMENT_THREADS = 256, AUGMENT_PARTS = 16 };

struct augment_job {
    float *x;
    uint8_t *labels;
    const float *factor;
    const int32_t *partner, *mirrored, *pad;
    int64_t t;
    int c;
};

static __global__ void augment_kernel(struct augment_job j) {
    int64_t window = blockIdx.x, n = j.t * j.c, pad = j.pad[window], step = (int64_t)AUGMENT_THREADS * AUGMENT_PARTS;
    int64_t first = (int64_t)blockIdx.y * AUGMENT_THREADS + threadIdx.x;
    float *x = j.x + window * n;
    const float *factor = j.factor + window * j.c;
    for (int64_t i = first; i < n; i += step) {
        int c = (int)(i % j.c), other = j.partner[c];
        if (i / j.c < pad) {
            x[i] = 0;
            continue;
        }
        if (other < c && j.mirrored[window])
            continue; /* its partner's thread */
        if (other == c || !j.mirrored[window]) {
            x[i] = x[i] * factor[c];
            continue;
        }
        float kept = x[i];
        x[i] = x[i + other - c] * factor[c];
        x[i + other - c] = kept * factor[other];
    }
    for (int64_t i = first; i < pad; i += step)
        j.labels[window * j.t + i] = AUGMENT_PAD_LABEL;
}

extern "C" int cuda_augment(struct stream *s, const struct augment_args *a, struct err *err) {
    (void)err;
    struct augment_job j = {
        (float *)a->x.data, (uint8_t *)a->labels.data, (const float *)a->factor.data, a->partner, a->mirrored, a->pad,
        a->x.dim[1],        (int)a->x.dim[2]};
    CUDA_LAUNCH(augment_kernel, dim3((unsigned)a->x.dim[0], AUGMENT_PARTS), AUGMENT_THREADS, cuda_stream(s)->stream, j);
    return 0;
}
