/* xla_ffi: what a handler of XLA's foreign functions is called with: the structures of its C interface, version 0.x, as far as the
 * scans need them. The layouts are XLA's (xla/ffi/api/c_api.h of OpenXLA): members are in its order, later ones are left out, and
 * every structure begins with its size and a list of extensions. Plain data. Internal to client/scan. */
#pragma once
#include "base/base.h"

enum xla_extension_type { XLA_METADATA = 1 };
struct xla_extension {
    size_t size;
    int type; /* enum xla_extension_type */
    struct xla_extension *next;
};
struct xla_version {
    size_t size;
    struct xla_extension *extension;
    int major, minor;
};
/* Asked for when a handler is registered, by a call whose first extension this is. */
struct xla_metadata {
    size_t size;
    struct xla_version version;
    uint32_t traits; /* bit 0: the handler may be recorded in a command buffer */
};
struct xla_metadata_extension {
    struct xla_extension base;
    struct xla_metadata *metadata;
};

enum xla_dtype { XLA_PRED = 1, XLA_S32 = 4, XLA_S64 = 5, XLA_U8 = 6, XLA_F32 = 11, XLA_F64 = 12, XLA_BF16 = 16 };
struct xla_buffer {
    size_t size;
    struct xla_extension *extension;
    int dtype; /* enum xla_dtype */
    void *data;
    int64_t rank;
    int64_t *dim;
};
enum { XLA_TYPE_BUFFER = 1, XLA_TYPE_SCALAR = 3 };
/* Arguments and results are alike. */
struct xla_buffers {
    size_t size;
    struct xla_extension *extension;
    int64_t n;
    int *types;
    void **items; /* struct xla_buffer */
};
struct xla_text {
    const char *data;
    size_t len;
};
struct xla_scalar {
    int dtype;
    void *value;
};
struct xla_attributes { /* sorted by name */
    size_t size;
    struct xla_extension *extension;
    int64_t n;
    int *types;
    struct xla_text **names;
    void **values; /* struct xla_scalar, … */
};

struct xla_error;
struct xla_error_create {
    size_t size;
    struct xla_extension *extension;
    const char *message;
    int code; /* the number of a gRPC status */
};
struct xla_stream_get {
    size_t size;
    struct xla_extension *extension;
    void *context;
    void *stream; /* out */
};
struct xla_memory_allocate {
    size_t size;
    struct xla_extension *extension;
    void *context;
    size_t bytes, alignment;
    void *data; /* out */
};
struct xla_memory_free {
    size_t size;
    struct xla_extension *extension;
    void *context;
    size_t bytes;
    void *data;
};
struct xla_api {
    size_t size;
    struct xla_extension *extension;
    struct xla_version version;
    void *internal;
    struct xla_error *(*error_create)(struct xla_error_create *args);
    void *error_message, *error_destroy, *handler_register;
    struct xla_error *(*stream_get)(struct xla_stream_get *args);
    void *type_register, *context_get, *state_set, *state_get;
    struct xla_error *(*memory_allocate)(struct xla_memory_allocate *args);
    struct xla_error *(*memory_free)(struct xla_memory_free *args);
};

enum { XLA_EXECUTE = 3 };
struct xla_call {
    size_t size;
    struct xla_extension *extension;
    const struct xla_api *api;
    void *context;
    int stage;
    struct xla_buffers arguments, results;
    struct xla_attributes attributes;
};
