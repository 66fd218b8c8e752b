/* taps: the products of a convolution. A row of taps holds the inputs of one output row side by side, `width` elements for each
 * tap: a convolution is the product of these rows with the packed weights, and the gradient of the weights is the product of the
 * output's gradient, transposed, with these rows. The rows of taps come from one of three places:
 *
 * TAPS_INPUT: the input is the matrix already (one tap, or pairs of rows at stride 2).
 * TAPS_COLUMNS: the rows are laid into scratch, COLUMN_BYTES at a time, and each piece is multiplied.
 * TAPS_STRIDED: stride 1, all windows of the batch taken as one sequence of N = B·T rows, each `width` wide. The taps of row t are
 *   pitch = count·width consecutive elements from row t − pad on. Rows t, t + count, t + 2·count, … do not overlap, so for each
 *   remainder of t modulo count the input is a matrix with leading dimension pitch: `count` products, run as one batch, without a
 *   copy. The rows whose taps reach into a neighbouring window or beyond the sequence, and fewer than `count` rows that are left
 *   over, are laid and multiplied apart. A C that is not a multiple of 8, or an input with gaps, is copied once into rows of
 *   `width` elements.
 *
 * cuBLASLt declines bf16 matrices whose rows do not begin on 4 bytes: outputs and gradients of outputs with such rows (an odd
 * number of channels) pass through a copy in scratch.
 *
 * TAPS_COLUMNS and TAPS_STRIDED give an output row the same bits: the sums run over the same elements in the same order by the same
 * algorithm (cuda_gemm's `like`). So the choice may depend on the number of windows. B·T must be below 2³¹. Internal to
 * kernels/cuda. */
#pragma once
#include "kernels/cuda/weights.cuh"

enum taps_way { TAPS_INPUT, TAPS_COLUMNS, TAPS_STRIDED };
struct taps {
    const struct tensor *x; /* (B,Tin,C) */
    int64_t t_out, count, stride, pad;
    int64_t width, pitch; /* elements of a tap and of a row of taps; the weights are packed alike (struct weights_job) */
    enum taps_way way;
};
struct taps taps_of(const struct tensor *x, int64_t t_out, int64_t count, int64_t stride, int64_t pad);

static inline int64_t taps_padded(int64_t n) { return cuda_ceil(n, 8) * 8; }

/* y (B,Tout,n) = relu?(rows of taps · wᵀ + bias?), w (n, pitch). `room`: scratch of taps_product_bytes. */
size_t taps_product_bytes(const struct taps *t, const struct tensor *y);
int taps_product(struct stream *s, const struct taps *t, const struct tensor *y, const struct weights *w, void *room, bool relu,
                 struct err *err);

/* dw (A,C,count) F32 += otherᵀ · rows of taps; other (B,Tout,A). `room`: scratch of taps_gradient_bytes. */
size_t taps_gradient_bytes(const struct taps *t, const struct tensor *other);
int taps_gradient(struct stream *s, const struct taps *t, const struct tensor *other, const struct tensor *dw, void *room,
                  struct err *err);

/* dw (A,C,K) += Σ over `parts` of packed (parts,A,pitch), whose rows hold K taps of `width`; the parts are added in order. */
void taps_unpack(struct stream *s, const float *packed, int64_t parts, int64_t pitch, int64_t width, const struct tensor *dw);
