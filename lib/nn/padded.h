/* padded: ConvBlocks whose activations lie side by side in one tensor, each followed by zero channels up to a multiple of
 * PADDED_PIECE, so that a device reads and writes them in pieces of 16 bytes. The table of parameters and checkpoints know nothing
 * of it: weights are copied with zeros in between, at inference when they are folded, in training in each pass whose weights are
 * not those of the pass before (WEIGHTS_UNCHANGED of kernels/op.h), and the gradient of the copy is added to the table's. Channels
 * of zeros stay zero forwards and backwards, and so do their values of the batch norm, which lie behind those of the table's
 * tensors. Same rules as layers.h. */
#pragma once
#include "nn/layers.h"

enum { PADDED_PIECE = 8 };

/* After conv_block_bind: the output's channels are padded; the input is `groups` padded tensors side by side, of so many real
 * channels each. */
void padded_output(struct conv_block *l);
void padded_input(struct conv_block *l, const int64_t *channels, int groups);
/* Where real input channel c is. */
int64_t padded_place(const struct conv_block *l, int64_t c);
/* Floats of device memory, zeroed, that the block needs in training, and their place. 0: it has no zeros in between. */
int64_t padded_count(const struct conv_block *l);
void padded_set(struct conv_block *l, float *device_memory);
/* padded_w = the weights; gradient of the weights += padded_dw. */
int padded_copy(const struct conv_block *l, const struct pass *p);
int padded_gradient(const struct conv_block *l, const struct pass *p);
