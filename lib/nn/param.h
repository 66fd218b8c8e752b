/* param: a model's tensors as one table (name, shape, offset), which is also the checkpoint index. Parameters, gradients and
 * buffers (running statistics) are flat F32 arrays on the device, one allocation each, cut by this table. One owner. */
#pragma once

#include "base/base.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

enum { PARAM_NAME_MAX = 96, PARAM_MAX_RANK = 3, PARAM_ALIGN = 16 };

enum param_kind {
    PARAM_WEIGHT, /* convolution or projection weight: decays */
    PARAM_PLAIN,  /* bias, norm weight, A_log, D, dt_bias: does not decay */
    PARAM_BUFFER, /* running statistic: no gradient */
};

struct param {
    char name[PARAM_NAME_MAX]; /* checkpoint name */
    enum param_kind kind;
    int rank;
    int64_t dim[PARAM_MAX_RANK]; /* checkpoint shape */
    int64_t offset, count;       /* elements in its flat array */
    int index;                   /* in the table; names the initialisation's random stream */
};

struct param_set {
    struct param *items; /* checkpoint order */
    int count, capacity;
    int64_t data_count, buffer_count; /* elements of the flat arrays; each tensor starts at a multiple of PARAM_ALIGN */
    struct device *device;
    float *data, *grad, *buffers; /* device memory; grad NULL without training */
    uint8_t *decay;               /* device, data_count: 1 where weight decay applies */
    uint64_t version; /* never 0, unique on the device; changes with the values; has WEIGHTS_CONSTANT (op.h) without training */
};

/* Averages of a set's values and of its running statistics, in device memory. */
struct param_average {
    const float *data, *buffers;
};

void param_set_init(struct param_set *set);
void param_set_done(struct param_set *set);
/* Append a row. Pointers to rows stay valid once the table is complete (param_set_alloc). Names are printf text. */
struct param_spec {
    enum param_kind kind;
    int rank;
    int64_t dim[PARAM_MAX_RANK];
};
int param_add(struct param_set *set, const struct param_spec *spec, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Allocates the flat arrays, zeroed. */
int param_set_alloc(struct param_set *set, struct device *dev, bool training, struct err *err);
int64_t param_set_bytes(const struct param_set *set, bool training);
struct param *param_find(const struct param_set *set, const char *name); /* NULL when absent */
int64_t param_live_count(const struct param_set *set);                   /* parameters without buffers */
/* Views in checkpoint shape. */
struct tensor param_value(const struct param_set *set, const struct param *p);
struct tensor param_grad(const struct param_set *set, const struct param *p);
