#include "daemon/models/model_head.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "store/safetensors.h"

enum { SMALL_BYTES = 4 << 20, LENGTH_BYTES = 8 };

static int no_model(struct err *err) {
    return err_set(err, ERR_INVALID, "the object is not a model file: it has no header of one");
}

/* The start of the object, as long as its header. */
static int read_header(struct store *store, const struct store_item *item, const struct store_watch *watch, uint8_t **ret,
                       size_t *ret_len, struct err *err) {
    uint8_t first[LENGTH_BYTES], *bytes;
    struct store_piece piece = {.buf = first, .len = sizeof first};
    uint64_t len = 0;
    int rc = store_read(store, item->key, &piece, watch, err);
    if (rc)
        return rc;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        len = len << 8 | first[i];
    if (piece.len != sizeof first || len > SAFETENSORS_MAX_HEADER || (int64_t)len > item->size_bytes - LENGTH_BYTES)
        return no_model(err);
    if (!(bytes = malloc(LENGTH_BYTES + len)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the header of a model");
    piece = (struct store_piece){.buf = bytes, .len = LENGTH_BYTES + len};
    rc = store_read(store, item->key, &piece, watch, err);
    if (!rc && piece.len != LENGTH_BYTES + len)
        rc = no_model(err);
    if (rc) {
        free(bytes);
        return rc;
    }
    *ret = bytes;
    *ret_len = LENGTH_BYTES + len;
    return 0;
}

/* A file in memory that has the object's length and its header, and holes for its data. */
static int check_header(const uint8_t *bytes, size_t len, int64_t size, struct err *err) {
    char path[40];
    struct safetensors *file = NULL;
    struct err why;
    int fd = memfd_create("model", MFD_CLOEXEC), rc = 0;
    if (fd < 0 || ftruncate(fd, size) || pwrite(fd, bytes, len, 0) != (ssize_t)len)
        rc = err_errno(err, errno, "cannot look at the header of a model");
    str_format(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!rc && (safetensors_open_header(path, &file, &why) || !safetensors_metadata(file, "brr.kind")))
        rc = no_model(err);
    safetensors_close(file);
    if (fd >= 0)
        close(fd);
    return rc;
}

int model_head_check(struct store *store, const struct store_item *item, const struct store_watch *watch, struct err *err) {
    uint8_t *bytes = NULL;
    size_t len = 0;
    if (item->size_bytes <= SMALL_BYTES)
        return 0;
    int rc = read_header(store, item, watch, &bytes, &len, err);
    if (!rc)
        rc = check_header(bytes, len, item->size_bytes, err);
    free(bytes);
    return rc;
}
