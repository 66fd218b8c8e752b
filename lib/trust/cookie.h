/* cookie: what a browser keeps after it has signed in. It is no token, but what this daemon says about one (its digest), or about a
 * user of this machine, until a time, with an HMAC under a key that only this daemon has; so it opens nothing at another server of
 * the host, to which browsers send it too. Any thread. */
#pragma once

#include "trust/token.h"

enum { COOKIE_KEY = 32, COOKIE_SIZE = 192 };

struct cookie_key {
    unsigned char bytes[COOKIE_KEY];
};
/* Reads the key from this file, which must be accessible to its owner only, or makes the file. On an error the key is a new one
 * that no file has: who signs in is signed out at the next start. */
int cookie_key_open(const char *path, struct cookie_key *ret, struct err *err);

enum cookie_kind { COOKIE_TOKEN = 't', COOKIE_LOCAL = 'l' };
struct cookie {
    enum cookie_kind kind;
    unsigned char digest[TOKEN_DIGEST]; /* of the token; zeros for COOKIE_LOCAL */
    int64_t until_ms;                   /* time of day */
};
/* The cookie's value: letters, digits and dots. False if OpenSSL fails. */
bool cookie_write(const struct cookie_key *key, const struct cookie *c, char ret[COOKIE_SIZE]);
/* False: the text is no cookie of this key, or its time is over. */
bool cookie_read(const struct cookie_key *key, const char *text, int64_t now_ms, struct cookie *ret);
