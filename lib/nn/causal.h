/* causal: convolution blocks that look at no later sample and can go on where a pass ended. Each convolution of stride 1 reads the
 * CAUSAL_TAPS − 1 (of a residual block CAUSAL_BLOCK_TAPS − 1) samples before its input and the input side by side in one array, so
 * that it needs no padding; these samples are its state. Same rules as layers.h. */
#pragma once
#include "nn/layers.h"

enum { CAUSAL_TAPS = 5, CAUSAL_BLOCK_TAPS = 9, CAUSAL_STAGE_CONVS = 4 /* at most */ };

/* Convolution → batch norm → ReLU (unless conv.linear). */
struct causal_conv {
    struct conv_block conv;
    struct tensor before; /* kept in training: (B,K−1+T,C), samples of the past and of the input */
};

/* n_convs convolutions, then one of two taps that halves T. Rows encoder.S.{conv,bn}, encoder.S.{conv2,bn2} …, encoder.S.down. */
struct causal_stage {
    struct causal_conv convs[CAUSAL_STAGE_CONVS];
    int n_convs;
    struct resample down;
};
struct causal_widths {
    int64_t in, out;
    int n_convs;
};
int causal_stage_params(struct param_set *set, int stage, const struct causal_widths *w, struct err *err);
void causal_stage_bind(struct causal_stage *l, const struct param_set *set, int stage, int n_convs);
int64_t causal_stage_state(const struct causal_widths *w); /* floats of a row's state */
/* state (B,causal_stage_state) F32 is read and replaced; absent: the samples before are zeros and nothing is kept. *y (B,T/2,out)
 * comes from the plan. T must be even and at least CAUSAL_TAPS − 1. */
int causal_stage_forward(struct causal_stage *l, const struct pass *p, const struct tensor *x, const struct tensor *state,
                         struct tensor *y);
/* dx (=); absent: not needed. dy is overwritten. */
int causal_stage_backward(struct causal_stage *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx);

/* Residual block: two convolutions, the second linear → channel dropout → relu(· + x). Rows causal.R.{conv1,bn1,conv2,bn2}. */
struct causal_block {
    struct causal_conv convs[2];
    uint32_t rng_stream;
    struct tensor y; /* kept in training */
};
int causal_block_params(struct param_set *set, int index, int64_t d, struct err *err);
void causal_block_bind(struct causal_block *l, const struct param_set *set, int index);
int64_t causal_block_state(int64_t d);
int causal_block_forward(struct causal_block *l, const struct pass *p, const struct tensor *x, const struct tensor *state,
                         struct tensor *y);
int causal_block_backward(struct causal_block *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx);
