#include "store/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct digest {
    EVP_MD_CTX *ctx; /* SHA-256, or */
    EVP_MAC_CTX *mac;
    bool failed;
};

static void digest_free(struct digest *d) {
    EVP_MD_CTX_free(d->ctx);
    EVP_MAC_CTX_free(d->mac);
    free(d);
}

struct digest *digest_new(void) {
    struct digest *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->ctx = EVP_MD_CTX_new();
    if (d->ctx && EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) == 1)
        return d;
    digest_free(d);
    return NULL;
}

struct digest *digest_new_quick(void) {
    static const unsigned char key[16], iv[12];
    struct digest *d = calloc(1, sizeof *d);
    EVP_MAC *kind = d ? EVP_MAC_fetch(NULL, "GMAC", NULL) : NULL;
    if (!d)
        return NULL;
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_CIPHER, (char[]){"AES-128-GCM"}, 0),
                                 OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_IV, (void *)iv, sizeof iv),
                                 OSSL_PARAM_construct_end()};
    d->mac = kind ? EVP_MAC_CTX_new(kind) : NULL;
    EVP_MAC_free(kind);
    if (d->mac && EVP_MAC_init(d->mac, key, sizeof key, params) == 1)
        return d;
    digest_free(d);
    return NULL;
}

void digest_update(struct digest *d, const void *data, size_t len) {
    if (d && len && (d->mac ? EVP_MAC_update(d->mac, data, len) : EVP_DigestUpdate(d->ctx, data, len)) != 1)
        d->failed = true;
}

bool digest_finish(struct digest *d, char ret_hex[DIGEST_HEX_SIZE]) {
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    size_t len = 0;
    ret_hex[0] = '\0';
    if (!d)
        return false;
    bool ok = d->mac ? EVP_MAC_final(d->mac, sum, &len, sizeof sum) == 1 && len == 16
                     : EVP_DigestFinal_ex(d->ctx, sum, &n) == 1 && (len = n) == 32;
    ok = ok && !d->failed;
    digest_free(d);
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
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "cannot open %s", path);
    struct digest *d = digest_new();
    void *block = malloc(BLOCK);
    int rc = d && block ? 0 : err_set(err, ERR_EXHAUSTED, "%s: out of memory for its digest", path);
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
    if (!digest_finish(d, hex) && !rc)
        rc = err_set(err, ERR_INTERNAL, "%s: OpenSSL could not compute its SHA-256", path);
    if (!rc)
        memcpy(ret_hex, hex, sizeof hex);
    return rc;
}

bool digest_is_hex(const char *text) {
    return strspn(text, "0123456789abcdef") == DIGEST_HEX_SIZE - 1 && text[DIGEST_HEX_SIZE - 1] == '\0';
}
