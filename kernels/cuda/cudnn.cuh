/* cudnn: dense convolutions of stride 1 in bf16 through cuDNN's graph interface, with bias and ReLU in the same kernel, when
 * BRR_CUDNN=1 is in the environment. The library is loaded when first needed. Its plans, whose choice may take seconds, are kept
 * for the process: a stream leaves them to the next one on the device. Internal to kernels/cuda. */
#pragma once
#include "kernels/cuda/cuda.cuh"

enum cudnn_what { CUDNN_FORWARD, CUDNN_DATA_GRADIENT, CUDNN_FILTER_GRADIENT };

/* x (B,T,Ci) and y (B,T,Co) bf16 (gradients in their places), w (Co,K,Ci): bf16, or F32 as the filter gradient. */
struct cudnn_convolution {
    enum cudnn_what what;
    int64_t b, t, ci, co, k, pad, x_ld, y_ld;
    bool relu;
    const void *x, *w, *y;
    const float *bias; /* forward; NULL: none */
};

struct cudnn;
/* Whether the convolution is cuDNN's: it was asked for, takes the shape, and has a kernel that gives the same bits every time; then
 * *ret_workspace bytes of device memory are needed. Chooses on the first call of a shape. UNSUPPORTED when it was asked for and is
 * not there. */
int cudnn_takes(struct stream *s, const struct cudnn_convolution *c, bool *ret, size_t *ret_workspace, struct err *err);
int cudnn_run(struct stream *s, const struct cudnn_convolution *c, void *workspace, struct err *err);
void cudnn_close(struct cudnn *c); /* the stream still exists and is idle; NULL is fine */
/* Row of cuda_parts. */
void cudnn_describe(struct device_part *part);
