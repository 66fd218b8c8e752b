/* depthwise: a depthwise convolution as its kernels see it (depthwise.cu, depthwise_wide.cu). Internal to kernels/cuda. */
#pragma once
#include "kernels/cuda/cuda.cuh"

struct depthwise_job {
    int64_t batch, length, channels, stretch, stretches;
    int taps, pad;
    bool silu, reverse;
    const int32_t *lengths;
    const uint8_t *resets;
    struct act x, y, dy, dx, gp; /* gp: dy·act'(pre), F32 scratch */
    const float *w, *bias, *state0, *dstate;
    float *state, *dstate0, *shares, *dw, *dbias; /* shares (stretches, taps + 1, D) */
};

/* Whether the wide kernels take it: a matter of its form, not of the batch. */
bool depthwise_is_wide(const struct depthwise_job *j);
void depthwise_wide_forward(struct stream *s, const struct depthwise_job *j);
int64_t depthwise_wide_stretches(const struct depthwise_job *j); /* shares of the backward pass */
/* Everything but the sums over the shares. */
void depthwise_wide_backward(struct stream *s, const struct depthwise_job *j);
