/* dnn_cache: oneDNN's convolutions for the walks of kernels/cpu/dnn.h: primitives and packed copies of weights, both bounded in
 * number; the one unused for longest is replaced. A primitive computes on one thread, so that its sums do not depend on the number
 * of threads, and runs on several lanes at once, each on its own thread. Internal to kernels/cpu. One stream, one thread, except
 * where noted. */
#pragma once
#include "kernels/cpu/cpu.h"

/* A convolution of stride 1; rows: batch rows of a call. */
struct conv_key {
    int backward_weights, relu, bias, bf16;
    int64_t rows, t, ci, co, k, pad, pad_right;
};
struct conv_key conv_key_of(int64_t t, int64_t ci, int64_t co, int64_t k, int64_t pad); /* padded alike on both sides */
bool conv_key_equal(const struct conv_key *a, const struct conv_key *b);
int64_t conv_key_outputs(const struct conv_key *key);

struct conv_prim;
struct dnn_forward;
/* Writes the ci·k weights of output o, of co·ci·k weights in (O,I,K) order, from the source of the call. */
typedef void dnn_lay(const struct dnn_forward *call, int64_t o, float *plain);
/* A packed copy of somebody's weights. */
struct packed {
    const void *source;
    const struct conv_prim *prim;
    dnn_lay *lay;
    uint64_t version, last_use;
    void *data;
    size_t bytes;
};

int dnn_cache_lanes(const struct dnn_cache *c); /* threads of the device when the cache was made */

/* The primitive of a key, from the cache or made now. */
int conv_prim_find(struct dnn_cache *c, const struct conv_key *key, struct conv_prim **ret, struct err *err);
size_t conv_prim_packed_bytes(const struct conv_prim *p);     /* of its weights, or of their gradient */
size_t conv_prim_scratchpad_bytes(const struct conv_prim *p); /* of one lane */
/* Operands: src, weights (packed; the gradient), dst, scratchpad, bias (may be NULL). Thread of the lane. */
int conv_prim_run(struct dnn_cache *c, struct conv_prim *p, int lane, const void *const operands[5], struct err *err);
/* plain → packed for a forward primitive, packed → plain for one of a gradient; plain: (O,I,K). Thread of the lane. */
int conv_prim_reorder(struct dnn_cache *c, struct conv_prim *p, int lane, const void *from, void *to, struct err *err);
/* True if weights packed for one can be used by the other. */
bool conv_prim_same_packing(const struct conv_prim *a, const struct conv_prim *b);

/* The slot of packed weights for the primitive and the source and lay of `weights`, with room for them; *ret_fresh if they are
 * those of its version, which is not 0. Else the caller packs them, and sets the slot's version once they are. */
int packed_find(struct dnn_cache *c, struct conv_prim *p, const struct packed *weights, struct packed **ret, bool *ret_fresh,
                struct err *err);
