/* edf_bytes: where the bytes of an EDF file come from: memory of the caller, or a regular file that is read with pread, so that a
 * file that is cut short or replaced while it is read is an error and no fault of the process. After opening it is immutable; any
 * number of threads may read. */
#ifndef BRR_EEG_EDF_BYTES_H
#define BRR_EEG_EDF_BYTES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct edf_bytes {
    const uint8_t *memory; /* the caller's, or NULL */
    int fd;                /* -1 without a file */
    size_t len;            /* of the file when it was opened, or of memory */
    const char *name;      /* for messages; the caller's, outlives it */
};

void edf_bytes_init(struct edf_bytes *b, const char *name);
/* INVALID for anything but a regular file; a FIFO is not waited for. */
int edf_bytes_open(struct edf_bytes *b, const char *path, struct err *err);
void edf_bytes_close(struct edf_bytes *b);
/* Scattered reads follow, or not (the default): whether the system reads ahead. */
void edf_bytes_scattered(const struct edf_bytes *b, bool scattered);

/* The n bytes from offset on, offset + n ≤ len: a pointer into memory, or to buffer (of at least n bytes) after reading them.
 * DATA_LOSS when the file no longer has them. */
int edf_bytes_get(const struct edf_bytes *b, size_t offset, size_t n, uint8_t *buffer, const uint8_t **ret, struct err *err);

#endif
