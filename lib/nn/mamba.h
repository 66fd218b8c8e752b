/* mamba: one mixing layer over tokens (B,L,D), bidirectional: out = LayerNorm(u + Dropout(W_o [f ; b] + b_o)), or forward only:
 * out = LayerNorm(u + Dropout(W_o f + b_o)), whose inference can carry its state from one call to the next.
 * mamba2: f and b are Mamba-2 blocks (in_proj → causal depthwise convolution and SiLU → scan → gated RMS norm → out_proj), b on
 * the reversed sequence (read from the end, no flips). conv: f and b are depthwise convolutions of K = 5 with bias. Separate
 * weights per direction. Same rules as layers.h. */
#pragma once
#include "nn/layers.h"

enum mamba_mixer { MAMBA_MIXER_SSD, MAMBA_MIXER_CONV };
enum { MAMBA_CONV_TAPS = 5 };

struct mamba_shape {
    int d_model, d_state, d_conv, expand, headdim, ngroups;
    int directions; /* 2, or 1: forward only */
    enum mamba_mixer mixer;
};

struct mamba_direction {
    const struct param *in_proj, *conv_w, *conv_b, *dt_bias, *a_log, *d, *norm, *out_proj;
    bool reverse;
    struct tensor a, zxbcdt, xbc, y, gated, rstd; /* kept in training; a (H) = −exp(A_log), rstd (B·L,groups) */
};

struct mamba_layer {
    struct mamba_shape shape;
    struct mamba_direction dir[2]; /* fwd, bwd */
    const struct param *fuse_w, *fuse_b, *norm_w, *norm_b;
    uint32_t rng_stream;
    struct folded folded;                  /* mamba2: out_proj and fuse as one (D, directions·D_inner) map */
    bool joins;                            /* inference projects both directions of mamba2 at once; set before mamba_fold */
    struct tensor joined;                  /* then: their in_proj, one below the other */
    struct tensor u, cat, sum, mean, rstd; /* kept in training */
    /* The state of a forward-only layer of mamba2 after a call and before the next: (B, mamba_state_count) F32, a slice of a wider
     * array. Absent: a call begins with zeros and keeps nothing. Set before mamba_forward. */
    struct tensor state;
};

/* Floats of one row's state. */
int64_t mamba_state_count(const struct mamba_shape *shape);

int mamba_params(struct param_set *set, int index, const struct mamba_shape *shape, struct err *err);
void mamba_bind(struct mamba_layer *l, const struct param_set *set, int index, const struct mamba_shape *shape);
int mamba_forward(struct mamba_layer *l, const struct pass *p, const struct tensor *u, struct tensor *out);
/* dout is overwritten; du (=). */
int mamba_backward(struct mamba_layer *l, const struct pass *p, const struct tensor *dout, const struct tensor *du);
/* Floats that mamba_fold fills, and the fold itself: nothing stands between out_proj and fuse at inference, and both directions
 * read the same input. */
int64_t mamba_folded_count(const struct mamba_layer *l);
int mamba_fold(struct mamba_layer *l, const struct param_set *set, struct stream *s, float *device_memory, struct err *err);
