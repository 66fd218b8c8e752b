#include "store/digest.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/fsio.h"

/* An EVP_MD_CTX under our own name. */
static EVP_MD_CTX *ctx_of(struct digest *d) { return (EVP_MD_CTX *)(void *)d; }

struct digest *digest_new(void) {
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(ctx);
        ctx = NULL;
    }
    return (struct digest *)(void *)ctx;
}

void digest_update(struct digest *d, const void *data, size_t len) {
    if (d)
        EVP_DigestUpdate(ctx_of(d), data, len);
}

void digest_finish(struct digest *d, char ret_hex[DIGEST_HEX_SIZE]) {
    unsigned char sum[EVP_MAX_MD_SIZE] = {0};
    unsigned int len = 0;
    if (d)
        EVP_DigestFinal_ex(ctx_of(d), sum, &len);
    EVP_MD_CTX_free(d ? ctx_of(d) : NULL);
    for (int i = 0; i < 32; i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", sum[i]);
}

void digest_bytes(const void *data, size_t len, char ret_hex[DIGEST_HEX_SIZE]) {
    struct digest *d = digest_new();
    digest_update(d, data, len);
    digest_finish(d, ret_hex);
}

int digest_file(const char *path, char ret_hex[DIGEST_HEX_SIZE], struct err *err) {
    struct fsio_map map;
    int rc = fsio_map_open(&map, path, err);
    if (rc)
        return rc;
    digest_bytes(map.data, map.len, ret_hex);
    fsio_map_close(&map);
    return 0;
}
