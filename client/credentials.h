/* credentials: what a client shows of itself and trusts: files named by options or the environment, read once per connection. */
#pragma once
#include "base/base.h"
#include "client/brr.h"

/* Malloc'd texts, or NULL. */
struct credentials {
    char *ca, *certificate, *key; /* PEM */
    char *bearer;                 /* "Bearer TOKEN" */
};

/* Reads what the options name for this endpoint; a unix socket needs no TLS. Errors: a file that is missing or, with a key or token
 * in it, open to other users (DENIED); a key without certificate; a token that would travel in the clear to another machine
 * (INVALID); a file without certificate or token, a key that does not belong to the certificate (PRECONDITION). */
int credentials_read(const struct brr_connect_options *options, const char *endpoint, struct credentials *ret, struct err *err);
/* Overwrites the secrets before they are freed. */
void credentials_done(struct credentials *c);
