/* signed_post: one HTTP POST of a JSON text whose receiver can check that it comes from who knows the secret. Any thread; the
 * caller waits for the answer. */
#pragma once

#include "base/base.h"

enum { SIGNED_POST_HEX = 65 };

struct signed_post {
    const char *url;
    const char *name;   /* of the receiver in errors; NULL = its url */
    const char *ca;     /* the CAs that the receiver's certificate may have, as PEM text; NULL = those that libcurl finds */
    const char *secret; /* key of the signature; NULL = without one */
    const char *id;     /* the same for each try of a delivery */
    const char *body;
    size_t len;
    int64_t timeout_ms;      /* of the whole request */
    const atomic_bool *stop; /* ends the request early; may be NULL */
};
/* The file with the CAs of the system, or NULL: libcurl does not say. */
const char *signed_post_system_ca(void);
/* Sends it with the headers Brr-Delivery (the id) and, with a secret, Brr-Signature; follows no redirection. Errors: INVALID when
 * the receiver refused it and would do so again (a status of 4xx but 408, 425 and 429), else UNAVAILABLE. */
int signed_post_send(const struct signed_post *p, struct err *err);
