/* bridge: one run of one op between two safetensors files: inputs by name from the file to the device, outputs back. The first
 * error sticks and the functions after it do nothing, so that an op reads as a list of its tensors. One thread. */
#ifndef BRR_TOOLS_BRR_OP_BRIDGE_H
#define BRR_TOOLS_BRR_OP_BRIDGE_H
#include <stdbool.h>

#include "base/err.h"
#include "kernels/op.h"
#include "store/safetensors.h"

enum { BRIDGE_MAX = 64 };

struct attribute {
    char key[32], value[480];
    bool used;
};

struct bridge_output {
    const char *name;
    struct tensor tensor;
    struct safetensors_entry entry;
    float *host;
};

struct bridge {
    const struct safetensors *in;
    struct device *device;
    struct stream *stream;
    enum dtype dtype; /* of activations */
    struct attribute attributes[BRIDGE_MAX];
    int n_attributes, n_memory, n_outputs;
    void *memory[4 * BRIDGE_MAX]; /* device memory to free */
    struct bridge_output outputs[BRIDGE_MAX];
    struct err *err;
    int rc;
};

/* Attributes; the fallback when absent. Numbers must parse. */
double bridge_number(struct bridge *b, const char *key, double fallback);
const char *bridge_text(struct bridge *b, const char *key, const char *fallback);
bool bridge_flag(struct bridge *b, const char *key, bool fallback);
/* INVALID for an attribute that the op does not have. Call after the op has read all of its attributes. */
int bridge_attributes_done(struct bridge *b);

enum bridge_kind {
    BRIDGE_ACTIVATION, /* rounded to the run's dtype */
    BRIDGE_PARAMETER,  /* F32 */
    BRIDGE_BYTES,      /* U8 */
};
bool bridge_has(const struct bridge *b, const char *name);
/* The tensor of this name on the device, in its file's shape; absent (data NULL) when the file has none and it is optional. */
struct tensor bridge_in(struct bridge *b, const char *name, enum bridge_kind kind, bool optional);
/* The same elements in another shape. */
struct tensor bridge_reshape(struct bridge *b, struct tensor t, int rank, const int64_t dim[TENSOR_MAX_RANK]);
/* A fresh zeroed tensor, not written to the file. */
struct tensor bridge_temporary(struct bridge *b, enum bridge_kind kind, int rank, const int64_t dim[TENSOR_MAX_RANK]);
/* A fresh zeroed output; the file gets it under `name`, as F32. `name` must outlive the bridge. */
struct tensor bridge_out(struct bridge *b, const char *name, enum bridge_kind kind, int rank, const int64_t dim[TENSOR_MAX_RANK]);
/* Output shaped like t, absent when t is absent. */
struct tensor bridge_like(struct bridge *b, const char *name, enum bridge_kind kind, const struct tensor *t);
/* Gives an output the shape it has in the file. */
void bridge_shape_as(struct bridge *b, const char *name, int rank, const int64_t *dim);
/* Output name = element-wise product of two F32 device tensors (gradient of A_log = dA·A). */
void bridge_product(struct bridge *b, const char *name, const struct tensor *x, const struct tensor *y);
/* One number as output. */
void bridge_scalar(struct bridge *b, const char *name, double value);
/* A copy on the host as 64-bit integers / floats of a named input; the caller frees. NULL when absent or failed. */
int32_t *bridge_integers(struct bridge *b, const char *name, int64_t count);

int bridge_write(struct bridge *b, const char *path);
void bridge_done(struct bridge *b);

/* The ops: name → function that sets b->rc. */
struct op_row {
    const char *name;
    void (*run)(struct bridge *b);
    const char *help; /* inputs and attributes */
};
extern const struct op_row scan_ops[], layer_ops[]; /* ended by a row without name */
void run_detector(struct bridge *b);

#endif
