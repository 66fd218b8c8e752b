/* geodesic_params: the parameters of a group (one metric and one head) as a row of floats: how they are drawn, and by which names
 * they stand in a model file. Plain functions, any thread. */
#pragma once

#include "base/base.h"
#include "kernels/op.h"

/* Floats of a row: the metric's, then the head's. */
int64_t geodesic_params_count(enum geodesic_head head);
/* Xavier uniform, ±√(6/(in + out)) times the gain; the metric's gain is 1. Biases are 0. The same seed and group give the same
 * bits. */
struct geodesic_draw {
    enum geodesic_head head;
    double head_gain;
    uint64_t seed;
    uint32_t group;
};
void geodesic_params_draw(const struct geodesic_draw *d, float *row);

/* The tensors of a row: "metric.0.weight" (128, 2), "metric.0.bias" (128), …, "head.2.bias" (1). */
enum { GEODESIC_PARTS = 12 };
struct geodesic_part {
    char name[24];
    int rank;
    int64_t dim[2], offset, count;
};
void geodesic_params_parts(enum geodesic_head head, struct geodesic_part ret[GEODESIC_PARTS]);
