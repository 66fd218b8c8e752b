/* tensor: a view of numbers on a device. Plain data; owns nothing. Everything is channel-last: activations are
 * (B, T, C) or (B, L, D), the channel contiguous, so a convolution, a projection and a scan read the same
 * memory and no transposes exist between them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_U8 };
enum { TENSOR_MAX_RANK = 4 };

/* dim[rank-1] is contiguous. `ld` is the distance in elements between neighbours of dim[rank-2]; ld ==
 * dim[rank-1] when dense, larger for a channel slice of a wider tensor (concatenation without copies).
 * Outer dimensions are dense over ld. data NULL = the tensor is absent (optional arguments). */
struct tensor {
    void *data;
    enum dtype dtype;
    int rank;
    int64_t dim[TENSOR_MAX_RANK];
    int64_t ld;
};

size_t dtype_bytes(enum dtype dtype);
const char *dtype_name(enum dtype dtype); /* "f32" "bf16" "u8" */
static inline bool tensor_present(const struct tensor *t) { return t->data != NULL; }
int64_t tensor_count(const struct tensor *t);     /* product of dims */
int64_t tensor_rows(const struct tensor *t);      /* product of all dims but the last */
size_t tensor_span_bytes(const struct tensor *t); /* bytes from first to one past last element */
bool tensor_dense(const struct tensor *t);
struct tensor tensor_1d(void *data, enum dtype dtype, int64_t n);
struct tensor tensor_2d(void *data, enum dtype dtype, int64_t rows, int64_t cols);
struct tensor tensor_3d(void *data, enum dtype dtype, int64_t b, int64_t t, int64_t c);
/* Channels [first, first+count) of t, same ld. */
struct tensor tensor_slice(const struct tensor *t, int64_t first, int64_t count);
