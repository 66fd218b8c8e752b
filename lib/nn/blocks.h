/* blocks: the detector's parts other than its mixer: an encoder stage, a decoder stage with its skip, a residual block of three
 * branches. Same rules as layers.h. */
#pragma once
#include "nn/layers.h"

enum { STAGE_TAPS = 5, RESCNN_BRANCHES = 3 };

/* Encoder stage: two ConvBlocks of K = 5 → skip → down. Rows encoder.S.{conv1,bn1,conv2,bn2,down}. */
struct encoder_stage {
    struct conv_block conv[2];
    struct resample down;
    struct tensor skip; /* (B,T,co), read by the decoder */
};
int encoder_params(struct param_set *set, int stage, int64_t ci, int64_t co, struct err *err);
void encoder_bind(struct encoder_stage *l, const struct param_set *set, int stage);
/* *y (B,T/2,co) comes from the plan. */
int encoder_forward(struct encoder_stage *l, const struct pass *p, const struct tensor *x, struct tensor *y);
/* dskip holds the decoder's gradient on entry and is overwritten; dx (=). */
int encoder_backward(struct encoder_stage *l, const struct pass *p, const struct tensor *dy, const struct tensor *dskip,
                     const struct tensor *dx);

/* Decoder stage: up → [up ; skip] → two ConvBlocks of K = 5. Rows decoder.S.{up,conv1,bn1,conv2,bn2}. */
struct decoder_stage {
    struct resample up;
    struct conv_block conv[2];
    struct tensor x, cat, y; /* kept in training */
};
struct decoder_widths {
    int64_t in, skip, out;
};
int decoder_params(struct param_set *set, int stage, const struct decoder_widths *w, struct err *err);
void decoder_bind(struct decoder_stage *l, const struct param_set *set, int stage);
int decoder_forward(struct decoder_stage *l, const struct pass *p, const struct tensor *x, const struct tensor *skip,
                    struct tensor *y);
/* dy is overwritten; dx (=), dskip (=). */
int decoder_backward(struct decoder_stage *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx,
                     const struct tensor *dskip);

/* ResCNN: three parallel ConvBlocks (K = 3, 5, 7; d/3, d/3, rest) → concatenation → 1×1 block without ReLU → channel dropout →
 * relu(· + x). padded: the concatenation has zeros behind each of them (nn/padded.h). Rows
 * rescnn.R.{branch3,branch5,branch7,fuse}.{conv,bn}. */
struct rescnn {
    struct conv_block branch[RESCNN_BRANCHES], fuse;
    uint32_t rng_stream;
    struct tensor x, y;
};
int rescnn_params(struct param_set *set, int index, int64_t d, struct err *err);
void rescnn_bind(struct rescnn *l, const struct param_set *set, int index, bool padded);
int rescnn_forward(struct rescnn *l, const struct pass *p, const struct tensor *x, struct tensor *y);
int rescnn_backward(struct rescnn *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx);
