/* pass: what lets a client come back to its session: a random token, of which only the digest is kept with the session's state, and
 * the principal that opened the session. One thread. */
#ifndef BRR_DAEMON_LIVE_RESUME_TOKEN_H
#define BRR_DAEMON_LIVE_RESUME_TOKEN_H
#include "base/err.h"
#include "store/digest.h"

enum { PASS_TOKEN_SIZE = 33, PASS_PRINCIPAL_SIZE = 256 };

struct pass {
    char token[PASS_TOKEN_SIZE]; /* 128 random bits in hex; empty when only the digest is known */
    char digest[DIGEST_HEX_SIZE];
    char principal[PASS_PRINCIPAL_SIZE];
};
/* INTERNAL when the system has no random numbers. */
int pass_make(const char *principal, struct pass *ret, struct err *err);
/* 128 random bits in hex. */
int pass_random(char ret[PASS_TOKEN_SIZE], struct err *err);
/* The digest of a token that a client presents, for any number of pass_fits. False for a text of another length than our tokens
 * have: it opens no pass and is not hashed. */
bool pass_digest(const char *token, char ret[DIGEST_HEX_SIZE]);
/* The id of the session that a token of this digest opens, of which the token cannot be guessed. */
void pass_id(const char digest[DIGEST_HEX_SIZE], char ret[PASS_TOKEN_SIZE]);
/* True if a caller with the token of this digest, and with this principal, holds the pass. The comparison of digests takes the same
 * time for all. */
bool pass_fits(const struct pass *pass, const char digest[DIGEST_HEX_SIZE], const char *principal);

#endif
