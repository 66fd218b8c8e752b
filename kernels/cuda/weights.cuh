/* weights: weights and biases as products read them: taps side by side, rows padded, in the activations' type. Copies of weights
 * with a version (kernels/op.h) are made once for each version and stream, and their memory is kept until the stream closes or the
 * weights' memory is freed. Recorded work relies on copies where the version says that it may (WEIGHTS_CONSTANT,
 * WEIGHTS_UNCHANGED); other weights it copies itself, each once. Internal to kernels/cuda. */
#pragma once
#include "kernels/cuda/cuda.cuh"

/* w (A,C,K) as rows of `pitch`: row a holds w[a][c][k] at k·C + c, or flipped, as rows of A: row c holds w[a][c][K−1−k] at k·A + a.
 * width > 0: k·width in place of k·C or k·A, with zeros between. bias, optional: in the type of the weights. */
struct weights_job {
    const struct tensor *w, *bias;
    int64_t pitch;
    bool flip, bf16;
    uint64_t version;
    int64_t width;
};
struct weights {
    struct act w;     /* ld = pitch */
    const void *bias; /* NULL: none */
};
/* Scratch that cuda_weights needs: 0 where copies are kept. */
size_t cuda_weights_bytes(const struct weights_job *j);
int cuda_weights(struct stream *s, const struct weights_job *j, void *room, struct weights *ret, struct err *err);

/* device.cu's hooks: the copies of a stream, or of weights in [from, from + bytes), are dropped. */
void cuda_weights_forget(struct device *dev, const struct stream *s, const void *from, size_t bytes);
