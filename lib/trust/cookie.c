#include "trust/cookie.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

enum { HEX = 2 * TOKEN_DIGEST, KEY_FORBIDDEN = 0077 };

/* ---- the key ---- */

static int read_key(const char *path, struct cookie_key *ret, struct err *err) {
    OWNED_MEMORY char *bytes = NULL;
    size_t len = 0;
    int rc;
    if ((rc = fsio_check_mode(path, KEY_FORBIDDEN, err)) || (rc = fsio_read(path, COOKIE_KEY, &bytes, &len, err)))
        return rc;
    if (len != COOKIE_KEY)
        return err_set(err, ERR_INVALID, "%s has %zu bytes; expected a key of %d: delete it, and the daemon makes another", path,
                       len, COOKIE_KEY);
    memcpy(ret->bytes, bytes, COOKIE_KEY);
    OPENSSL_cleanse(bytes, len);
    return 0;
}

static int write_key(const char *path, const struct cookie_key *key, struct err *err) {
    struct fsio_writer w;
    int rc = fsio_writer_open(&w, path, err);
    if (rc)
        return rc;
    if ((rc = fchmod(w.fd, 0600) ? err_errno(err, errno, "cannot protect %s", path) : 0) ||
        (rc = fsio_writer_write(&w, key->bytes, COOKIE_KEY, err))) {
        fsio_writer_abort(&w);
        return rc;
    }
    return fsio_writer_commit(&w, err);
}

int cookie_key_open(const char *path, struct cookie_key *ret, struct err *err) {
    struct cookie_key key;
    struct err why = {0};
    int rc = read_key(path, ret, &why);
    if (!rc)
        return 0;
    if (RAND_priv_bytes(key.bytes, COOKIE_KEY) != 1)
        return err_set(err, ERR_INTERNAL, "OpenSSL has no random bytes for a key");
    *ret = key;
    if (rc == ERR_NOT_FOUND)
        return write_key(path, &key, err);
    if (err)
        *err = why;
    return rc;
}

/* ---- a cookie ---- */

static void put_hex(const unsigned char *bytes, char ret[HEX + 1]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < HEX; i++)
        ret[i] = digits[i % 2 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4];
    ret[HEX] = '\0';
}

static bool take_hex(const char **at, unsigned char ret[TOKEN_DIGEST]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < HEX; i++, ++*at) {
        const char *digit = **at ? strchr(digits, **at) : NULL;
        if (!digit)
            return false;
        const int value = (int)(digit - digits);
        ret[i / 2] = (unsigned char)(i % 2 ? ret[i / 2] | value : value << 4);
    }
    return true;
}

static bool sign(const struct cookie_key *key, const char *text, size_t len, unsigned char ret[TOKEN_DIGEST]) {
    unsigned int n = 0;
    return HMAC(EVP_sha256(), key->bytes, COOKIE_KEY, (const unsigned char *)text, len, ret, &n) && n == TOKEN_DIGEST;
}

bool cookie_write(const struct cookie_key *key, const struct cookie *c, char ret[COOKIE_SIZE]) {
    char digest[HEX + 1], mac_hex[HEX + 1];
    unsigned char mac[TOKEN_DIGEST];
    put_hex(c->digest, digest);
    str_format(ret, COOKIE_SIZE, "1%c%s.%lld.", c->kind, digest, (long long)c->until_ms);
    const size_t len = strlen(ret);
    if (!sign(key, ret, len, mac))
        return false;
    put_hex(mac, mac_hex);
    return str_format(ret + len, COOKIE_SIZE - len, "%s", mac_hex);
}

bool cookie_read(const struct cookie_key *key, const char *text, int64_t now_ms, struct cookie *ret) {
    struct cookie c = {0};
    unsigned char mac[TOKEN_DIGEST], own[TOKEN_DIGEST];
    char until[24];
    const char *dot = strrchr(text, '.'), *at = text + 2, *end = dot ? dot + 1 : NULL;
    if (!dot || text[0] != '1' || (text[1] != COOKIE_TOKEN && text[1] != COOKIE_LOCAL) || !take_hex(&end, mac) || *end ||
        !sign(key, text, (size_t)(dot + 1 - text), own) || CRYPTO_memcmp(mac, own, sizeof mac) != 0)
        return false;
    c.kind = (enum cookie_kind)text[1];
    if (!take_hex(&at, c.digest) || *at++ != '.' || at > dot || !str_format(until, sizeof until, "%.*s", (int)(dot - at), at) ||
        !str_to_i64(until, &c.until_ms) || now_ms >= c.until_ms)
        return false;
    *ret = c;
    return true;
}
