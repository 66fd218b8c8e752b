/* safetensors: named tensors in one file (u64 header length, JSON header, raw little-endian data), the project's format for
 * checkpoints and test cases. Reading copies the file into memory and validates everything before giving out a pointer; writing is
 * atomic and durable and computes SHA-256 on the way. One thread per object. */
#pragma once

#include "store/digest.h"

#define SAFETENSORS_DTYPES(X)                                                                                                      \
    X(F64, 8)                                                                                                                      \
    X(F32, 4)                                                                                                                      \
    X(F16, 2)                                                                                                                      \
    X(BF16, 2)                                                                                                                     \
    X(I64, 8)                                                                                                                      \
    X(I32, 4)                                                                                                                      \
    X(I16, 2)                                                                                                                      \
    X(I8, 1)                                                                                                                       \
    X(U64, 8)                                                                                                                      \
    X(U32, 4)                                                                                                                      \
    X(U16, 2)                                                                                                                      \
    X(U8, 1)                                                                                                                       \
    X(BOOL, 1)

enum safetensors_dtype {
#define SAFETENSORS_ENUM(name, bytes) SAFETENSORS_##name,
    SAFETENSORS_DTYPES(SAFETENSORS_ENUM)
#undef SAFETENSORS_ENUM
};

/* Of a header: its bytes, and the nodes of its JSON (base/json.h), 21 for a tensor of rank 3. Both are checked before it is parsed,
 * and when a file is written. */
enum { SAFETENSORS_MAX_RANK = 8, SAFETENSORS_MAX_HEADER = 16 << 20, SAFETENSORS_MAX_NODES = 1 << 18 };

struct safetensors_entry {
    const char *name;
    enum safetensors_dtype dtype;
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    const void *data; /* owned by the file when read, by the caller when written */
    size_t bytes;
};

struct safetensors;
/* INVALID or DATA_LOSS name the tensor and the fault: bounds, overlaps, holes, sizes, repeated names, metadata other than strings.
 * Data are aligned to their element (a misaligned tensor is copied). Pointers are valid until close. */
int safetensors_open(const char *path, struct safetensors **ret, struct err *err);
/* Names, shapes and metadata alone: the data of every tensor are NULL. The layout is checked against the length of the file. */
int safetensors_open_header(const char *path, struct safetensors **ret, struct err *err);
void safetensors_close(struct safetensors *st);
OWNABLE(struct safetensors, safetensors_close)
/* SHA-256 of the file as safetensors_open has read it. False if OpenSSL cannot compute it, or if only the header was read. */
bool safetensors_digest(const struct safetensors *st, char ret_hex[DIGEST_HEX_SIZE]);
size_t safetensors_count(const struct safetensors *st);
const struct safetensors_entry *safetensors_at(const struct safetensors *st, size_t index);
const struct safetensors_entry *safetensors_find(const struct safetensors *st, const char *name); /* NULL when absent */
const char *safetensors_metadata(const struct safetensors *st, const char *key);                  /* NULL when absent */
/* Visits every key of the metadata. */
void safetensors_each_metadata(const struct safetensors *st, void (*visit)(void *ctx, const char *key, const char *value),
                               void *ctx);
/* INVALID names the tensor and the index of its first element that is no finite number. Integers are finite, and so are tensors
 * whose data were not read. path is for the error. */
int safetensors_check_finite(const struct safetensors_entry *e, const char *path, struct err *err);
const char *safetensors_dtype_name(enum safetensors_dtype dtype);
size_t safetensors_dtype_bytes(enum safetensors_dtype dtype);

struct safetensors_pair {
    const char *key, *value;
};
/* INVALID: repeated names or metadata keys, the name __metadata__, sizes that do not match their shape. Tensors with wider elements
 * are written first, otherwise in the given order, so that a reader finds every tensor aligned. ret_sha256: of the file,
 * DIGEST_HEX_SIZE characters; NULL: nobody asks. */
struct safetensors_content {
    const struct safetensors_entry *entries;
    size_t n_entries;
    const struct safetensors_pair *metadata;
    size_t n_metadata;
};
int safetensors_write(const char *path, const struct safetensors_content *content, char *ret_sha256, struct err *err);
