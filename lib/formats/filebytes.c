#include "formats/filebytes.h"

void filebytes_init(struct filebytes *b, const char *name) { *b = (struct filebytes){.fd = -1, .name = name}; }

int filebytes_open(struct filebytes *b, const char *path, struct err *err) {
    struct stat st;
    int rc = 0, fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "cannot open %s", path);
    if (fstat(fd, &st) < 0)
        rc = err_errno(err, errno, "cannot read %s", path);
    else if (!S_ISREG(st.st_mode))
        rc = err_set(err, ERR_INVALID, S_ISDIR(st.st_mode) ? "%s is a directory; expected a file" : "%s is not a regular file",
                     path);
    if (rc) {
        close(fd);
        return rc;
    }
    b->fd = fd;
    b->len = (size_t)st.st_size;
    return 0;
}

void filebytes_close(struct filebytes *b) {
    if (b->fd >= 0)
        close(b->fd);
    b->fd = -1;
}

void filebytes_scattered(const struct filebytes *b, bool scattered) {
    if (b->fd >= 0)
        posix_fadvise(b->fd, 0, 0, scattered ? POSIX_FADV_RANDOM : POSIX_FADV_NORMAL);
}

int filebytes_get(const struct filebytes *b, size_t offset, size_t n, uint8_t *buffer, const uint8_t **ret, struct err *err) {
    if (b->memory) {
        *ret = b->memory + offset;
        return 0;
    }
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(b->fd, buffer + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EIO) /* a fault of this file, unlike others */
            return err_set(err, ERR_INVALID, "%s cannot be read at byte %zu: %s", b->name, offset + done, strerror(EIO));
        if (got < 0)
            return err_errno(err, errno, "cannot read %s", b->name);
        if (got == 0)
            return err_set(err, ERR_DATA_LOSS,
                           "%s changed while it was read: it had %zu bytes and ends before byte %zu now; wait "
                           "until it is written, then submit the job again",
                           b->name, b->len, offset + n);
        done += (size_t)got;
    }
    *ret = buffer;
    return 0;
}

bool filebytes_is_pointer(const char *path) {
    enum { MOST_BYTES = 32 << 10 };
    char head[64] = "";
    int64_t bytes, mtime_ns;
    if (fsio_size(path, &bytes, &mtime_ns, NULL) || bytes > MOST_BYTES)
        return false;
    OWNED_FILE FILE *f = fopen(path, "rbe");
    return f && fread(head, 1, sizeof head - 1, f) &&
           (str_starts(head, "/annex/objects/") || str_starts(head, "version https://git-lfs"));
}
