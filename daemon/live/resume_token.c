#include "daemon/live/resume_token.h"

#include <sys/random.h>

#include "base/principal.h"

int resume_token_random(char ret[RESUME_TOKEN_SIZE], struct err *err) {
    unsigned char bytes[(RESUME_TOKEN_SIZE - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_set(err, ERR_INTERNAL, "the system gives no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        str_format(ret + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

int resume_token_make(const char *principal, struct resume_token *ret, struct err *err) {
    struct resume_token token;
    int rc = resume_token_random(token.text, err);
    if (rc)
        return rc;
    if (!digest_bytes(token.text, strlen(token.text), token.digest))
        return err_set(err, ERR_INTERNAL, "the digest of a token cannot be computed");
    str_copy(token.principal, sizeof token.principal, principal);
    *ret = token;
    return 0;
}

static bool same(const char *a, const char *b, size_t len) {
    volatile unsigned difference = 0;
    for (size_t i = 0; i < len; i++)
        difference |= (unsigned)(unsigned char)a[i] ^ (unsigned)(unsigned char)b[i];
    return !difference;
}

bool resume_token_digest(const char *token, char ret[DIGEST_HEX_SIZE]) {
    return strnlen(token, RESUME_TOKEN_SIZE) == RESUME_TOKEN_SIZE - 1 && digest_bytes(token, RESUME_TOKEN_SIZE - 1, ret);
}

void resume_token_id(const char digest[DIGEST_HEX_SIZE], char ret[RESUME_TOKEN_SIZE]) {
    str_format(ret, RESUME_TOKEN_SIZE, "%.*s", RESUME_TOKEN_SIZE - 1, digest);
}

bool resume_token_fits(const struct resume_token *token, const char digest[DIGEST_HEX_SIZE], const char *principal) {
    return principal_is_same(token->principal, principal) && same(digest, token->digest, DIGEST_HEX_SIZE - 1);
}
