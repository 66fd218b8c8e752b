#include "daemon/live/resume_token.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/str.h"

int pass_random(char ret[PASS_TOKEN_SIZE], struct err *err) {
    unsigned char bytes[(PASS_TOKEN_SIZE - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_set(err, ERR_INTERNAL, "the system gives no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        str_format(ret + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

int pass_make(const char *principal, struct pass *ret, struct err *err) {
    struct pass pass;
    int rc = pass_random(pass.token, err);
    if (rc)
        return rc;
    if (!digest_bytes(pass.token, strlen(pass.token), pass.digest))
        return err_set(err, ERR_INTERNAL, "the digest of a token cannot be computed");
    str_copy(pass.principal, sizeof pass.principal, principal);
    *ret = pass;
    return 0;
}

static bool same(const char *a, const char *b, size_t len) {
    volatile unsigned difference = 0;
    for (size_t i = 0; i < len; i++)
        difference |= (unsigned)(unsigned char)a[i] ^ (unsigned)(unsigned char)b[i];
    return !difference;
}

bool pass_digest(const char *token, char ret[DIGEST_HEX_SIZE]) {
    return strnlen(token, PASS_TOKEN_SIZE) == PASS_TOKEN_SIZE - 1 && digest_bytes(token, PASS_TOKEN_SIZE - 1, ret);
}

void pass_id(const char digest[DIGEST_HEX_SIZE], char ret[PASS_TOKEN_SIZE]) {
    str_format(ret, PASS_TOKEN_SIZE, "%.*s", PASS_TOKEN_SIZE - 1, digest);
}

bool pass_fits(const struct pass *pass, const char digest[DIGEST_HEX_SIZE], const char *principal) {
    return !strcmp(pass->principal, principal) && same(digest, pass->digest, DIGEST_HEX_SIZE - 1);
}
