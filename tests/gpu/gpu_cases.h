/* gpu_cases: how a call of an op is described to test_ops_vs_cpu: its arrays, and how to run it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "kernels/op.h"

enum { MAX_ARRAYS = 16, MAX_RANK = 3 };
enum kind { NONE, ACT, F32, U8 };

struct array {
    enum kind kind;
    int64_t dim[MAX_RANK];
    float low, high;
};

struct op_test {
    const char *name;
    struct array arrays[MAX_ARRAYS];
    int (*run)(const struct op_test *c, struct stream *s, const struct tensor *t, double sums[2], struct err *err);
    bool f32_only;
    /* arguments of the op's call; kind: a value of the op's own enum */
    bool reverse, zoh, chunked, per_channel, strided;
    int kind;
};

#define A3(b, t, c)                                                                                                                \
    { ACT, {b, t, c}, -1, 1 }
#define P1(n)                                                                                                                      \
    { F32, {n}, -1, 1 }
#define P2(n, m)                                                                                                                   \
    { F32, {n, m}, -1, 1 }
#define P3(n, m, k)                                                                                                                \
    { F32, {n, m, k}, -1, 1 }
#define POSITIVE(n)                                                                                                                \
    { F32, {n}, 0.5f, 1.5f }
#define NEGATIVE1(n)                                                                                                               \
    { F32, {n}, -2, -0.1f }
#define NEGATIVE(n, m)                                                                                                             \
    { F32, {n, m}, -2, -0.1f }
#define BITS(n, m)                                                                                                                 \
    { U8, {n, m}, 0, 1.999f }
#define RARE(n, m)                                                                                                                 \
    { U8, {n, m}, -9, 1.999f } /* 1 now and then */

#define NO_ARRAY                                                                                                                   \
    { NONE, {0}, 0, 0 }

static const int32_t lengths[3] = {37, 0, 21};
static const int32_t long_lengths[3] = {197, 0, 83}, longest_lengths[3] = {299, 0, 130};
