/* resume_token: what lets a client come back to its session: a random token, of which only the digest is kept with the session's
 * state, and the principal that opened the session. One thread. */
#pragma once
#include "store/digest.h"

enum { RESUME_TOKEN_SIZE = 33, RESUME_PRINCIPAL_SIZE = 256 };

struct resume_token {
    char text[RESUME_TOKEN_SIZE]; /* 128 random bits in hex; empty when only the digest is known */
    char digest[DIGEST_HEX_SIZE];
    char principal[RESUME_PRINCIPAL_SIZE];
};
/* INTERNAL when the system has no random numbers. */
int resume_token_make(const char *principal, struct resume_token *ret, struct err *err);
/* 128 random bits in hex. */
int resume_token_random(char ret[RESUME_TOKEN_SIZE], struct err *err);
/* The digest of a token that a client presents, for any number of resume_token_fits. False for a text of another length than our
 * tokens have: it opens no session and is not hashed. */
bool resume_token_digest(const char *token, char ret[DIGEST_HEX_SIZE]);
/* The id of the session that a token of this digest opens, of which the token cannot be guessed. */
void resume_token_id(const char digest[DIGEST_HEX_SIZE], char ret[RESUME_TOKEN_SIZE]);
/* True if a caller who presents a token of this digest has this principal's token. The comparison of digests takes the same time
 * for all. */
bool resume_token_fits(const struct resume_token *token, const char digest[DIGEST_HEX_SIZE], const char *principal);
