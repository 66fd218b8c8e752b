#include "store/digest.h"

#include <openssl/evp.h>

struct digest {
    EVP_MD_CTX *ctx;
    bool failed;
};

struct digest *digest_new(void) {
    struct digest *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->ctx = EVP_MD_CTX_new();
    if (d->ctx && EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) == 1)
        return d;
    EVP_MD_CTX_free(d->ctx);
    free(d);
    return NULL;
}

void digest_update(struct digest *d, const void *data, size_t len) {
    if (d && len && EVP_DigestUpdate(d->ctx, data, len) != 1)
        d->failed = true;
}

bool digest_finish(struct digest *d, char ret_hex[DIGEST_HEX_SIZE]) {
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    ret_hex[0] = '\0';
    if (!d)
        return false;
    bool ok = EVP_DigestFinal_ex(d->ctx, sum, &len) == 1 && len == 32 && !d->failed;
    EVP_MD_CTX_free(d->ctx);
    free(d);
    for (size_t i = 0; ok && i < len; i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", sum[i]);
    return ok;
}

bool digest_bytes(const void *data, size_t len, char ret_hex[DIGEST_HEX_SIZE]) {
    struct digest *d = digest_new();
    digest_update(d, data, len);
    return digest_finish(d, ret_hex);
}

int digest_file(const char *path, char ret_hex[DIGEST_HEX_SIZE], struct err *err) {
    enum { BLOCK = 1 << 20 };
    size_t bytes = 0;
    int fd = -1, rc = fsio_open_file(path, &fd, &bytes, err);
    if (rc)
        return rc;
    struct digest *d = digest_new();
    void *block = malloc(BLOCK);
    rc = d && block ? 0 : err_set(err, ERR_EXHAUSTED, "%s: out of memory for its digest", path);
    while (!rc) {
        ssize_t n = read(fd, block, BLOCK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = err_errno(err, errno, "cannot read %s", path);
        if (n <= 0)
            break;
        digest_update(d, block, (size_t)n);
    }
    free(block);
    close(fd);
    char hex[DIGEST_HEX_SIZE];
    bool finished = digest_finish(d, hex);
    if (rc)
        return rc;
    if (!finished)
        return err_set(err, ERR_INTERNAL, "%s: OpenSSL could not compute its SHA-256", path);
    memcpy(ret_hex, hex, sizeof hex);
    return 0;
}

bool digest_is_hex(const char *text) {
    return strspn(text, "0123456789abcdef") == DIGEST_HEX_SIZE - 1 && text[DIGEST_HEX_SIZE - 1] == '\0';
}
