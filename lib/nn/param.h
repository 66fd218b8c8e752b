/* param: a model's tensors as one table (name, shape, offset), which is also the checkpoint index. Parameters, gradients and
 * optimizer moments are flat F32 arrays on the device, one allocation each, cut by this table; buffers (running statistics)
 * are a second flat array. One owner. */
#ifndef BRR_NN_PARAM_H
#define BRR_NN_PARAM_H
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

enum { PARAM_NAME_MAX = 96 };
struct param {
    char name[PARAM_NAME_MAX]; /* checkpoint name */
    int rank;
    int64_t dim[4];        /* checkpoint shape */
    int64_t offset, count; /* elements in the flat array */
    bool buffer;           /* running statistic: lives in the buffer array, has no gradient */
    bool decay;            /* weight decay applies */
};

/* Flat arrays and their table. data/grad NULL until allocated. */
struct param_set {
    struct param *items; /* checkpoint order */
    int count;
    int64_t data_count, buffer_count; /* elements, rounded up to 16 per tensor so that each starts aligned */
    float *data, *grad, *buffers;     /* device memory */
    uint8_t *decay;                   /* device, data_count */
    uint64_t version;                 /* bumped when values change */
};
const struct param *param_find(const struct param_set *set, const char *name); /* NULL when absent */

#endif
