/* filebytes: where the bytes of an EDF file come from: memory of the caller, or a regular file that is read with pread, so that a
 * file that is cut short or replaced while it is read is an error and no fault of the process. After opening it is immutable; any
 * number of threads may read. */
#pragma once

#include "base/base.h"

struct filebytes {
    const uint8_t *memory; /* the caller's, or NULL */
    int fd;                /* -1 without a file */
    size_t len;            /* of the file when it was opened, or of memory */
    const char *name;      /* for messages; the caller's, outlives it */
};

void filebytes_init(struct filebytes *b, const char *name);
/* INVALID for anything but a regular file; a FIFO is not waited for. */
int filebytes_open(struct filebytes *b, const char *path, struct err *err);
void filebytes_close(struct filebytes *b);
/* Scattered reads follow, or not (the default): whether the system reads ahead. */
void filebytes_scattered(const struct filebytes *b, bool scattered);

/* The n bytes from offset on, offset + n ≤ len: a pointer into memory, or to buffer (of at least n bytes) after reading them.
 * DATA_LOSS when the file no longer has them. */
int filebytes_get(const struct filebytes *b, size_t offset, size_t n, uint8_t *buffer, const uint8_t **ret, struct err *err);
/* True for a small text file that stands for content elsewhere (git-annex, git-lfs). */
bool filebytes_is_pointer(const char *path);
static inline uint32_t filebytes_u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
