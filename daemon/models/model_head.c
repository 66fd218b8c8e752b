#include "daemon/models/model_head.h"

#include <sys/mman.h>

#include "store/safetensors.h"

enum { SMALL_BYTES = 4 << 20, LENGTH_BYTES = 8 };

static int no_model(struct err *err) {
    return err_set(err, ERR_INVALID, "the object is not a model file: it has no header of one");
}

/* Exactly `len` bytes of the object, from its first on. */
static int read_start(struct store *store, const struct store_item *item, const struct store_watch *watch, uint8_t *bytes,
                      size_t len, struct err *err) {
    struct store_piece piece = {.buf = bytes, .len = len};
    int rc = store_read(store, item->key, &piece, watch, err);
    if (rc)
        return rc;
    return piece.len == len ? 0 : no_model(err);
}

/* The start of the object, as long as its header. */
static int read_header(struct store *store, const struct store_item *item, const struct store_watch *watch, uint8_t **ret,
                       size_t *ret_len, struct err *err) {
    uint8_t first[LENGTH_BYTES];
    uint64_t len = 0;
    int rc = read_start(store, item, watch, first, sizeof first, err);
    if (rc)
        return rc;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        len = len << 8 | first[i];
    if (len > SAFETENSORS_MAX_HEADER || (int64_t)len > item->size_bytes - LENGTH_BYTES)
        return no_model(err);
    OWNED_MEMORY uint8_t *bytes = malloc(LENGTH_BYTES + len);
    if (!bytes)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the header of a model");
    if ((rc = read_start(store, item, watch, bytes, LENGTH_BYTES + len, err)))
        return rc;
    *ret = bytes;
    *ret_len = LENGTH_BYTES + len;
    bytes = NULL;
    return 0;
}

/* A file in memory that has the object's length and its header, and holes for its data. */
static int check_header(const uint8_t *bytes, size_t len, int64_t size, struct err *err) {
    char path[40];
    struct safetensors *file = NULL;
    struct err why;
    OWNED_FD int fd = memfd_create("model", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, size) || pwrite(fd, bytes, len, 0) != (ssize_t)len)
        return err_errno(err, errno, "cannot look at the header of a model");
    str_format(path, sizeof path, "/proc/self/fd/%d", fd);
    bool model = !safetensors_open_header(path, &file, &why) && safetensors_metadata(file, "brr.kind");
    safetensors_close(file);
    return model ? 0 : no_model(err);
}

int model_head_check(struct store *store, const struct store_item *item, const struct store_watch *watch, struct err *err) {
    OWNED_MEMORY uint8_t *bytes = NULL;
    size_t len = 0;
    if (item->size_bytes <= SMALL_BYTES)
        return 0;
    int rc = read_header(store, item, watch, &bytes, &len, err);
    return rc ? rc : check_header(bytes, len, item->size_bytes, err);
}
