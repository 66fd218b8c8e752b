#include "kernels/tensor.h"

size_t dtype_bytes(enum dtype dtype) { return dtype == DTYPE_F32 ? 4 : dtype == DTYPE_BF16 ? 2 : 1; }
const char *dtype_name(enum dtype dtype) { return dtype == DTYPE_F32 ? "f32" : dtype == DTYPE_BF16 ? "bf16" : "u8"; }

int64_t tensor_count(const struct tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

int64_t tensor_rows(const struct tensor *t) {
    int64_t n = 1;
    for (int i = 0; i + 1 < t->rank; i++)
        n *= t->dim[i];
    return n;
}

size_t tensor_span_bytes(const struct tensor *t) {
    int64_t rows = tensor_rows(t), last = t->dim[t->rank - 1];
    return rows && last ? (size_t)((rows - 1) * t->ld + last) * dtype_bytes(t->dtype) : 0;
}

bool tensor_dense(const struct tensor *t) { return t->rank < 2 || t->ld == t->dim[t->rank - 1]; }

struct tensor tensor_1d(void *data, enum dtype dtype, int64_t n) {
    return (struct tensor){.data = data, .dtype = dtype, .rank = 1, .dim = {n}, .ld = n};
}

struct tensor tensor_2d(void *data, enum dtype dtype, int64_t rows, int64_t cols) {
    return (struct tensor){.data = data, .dtype = dtype, .rank = 2, .dim = {rows, cols}, .ld = cols};
}

struct tensor tensor_3d(void *data, enum dtype dtype, int64_t b, int64_t t, int64_t c) {
    return (struct tensor){.data = data, .dtype = dtype, .rank = 3, .dim = {b, t, c}, .ld = c};
}

struct tensor tensor_slice(const struct tensor *t, int64_t first, int64_t count) {
    struct tensor s = *t;
    s.data = (char *)t->data + (size_t)first * dtype_bytes(t->dtype);
    s.dim[t->rank - 1] = count;
    return s;
}
