/* certificate: X.509 for a laboratory: a certificate authority (CA), certificates that it issues, and verification of client
 * certificates. Keys are P-256. All texts are PEM. One thread per object; no global state. */
#pragma once

#include "base/base.h"

/* A certificate and its private key, malloc'd. */
struct certificate_pair {
    char *certificate, *key;
};
/* Overwrites the key, then frees both texts. */
void certificate_pair_done(struct certificate_pair *pair);

enum { CERTIFICATE_CA_DAYS = 3650, CERTIFICATE_DAYS = 825, CERTIFICATE_MAX_HOSTS = 64, CERTIFICATE_NAME_SIZE = 65 };

/* Makes a self-signed CA with this common name, valid for CERTIFICATE_CA_DAYS. */
int certificate_make_authority(const char *name, struct certificate_pair *ret, struct err *err);
/* Contents of a certificate to issue. A server has hosts (DNS names, IPv4 and IPv6 addresses); a client has none. */
struct certificate_request {
    const char *name; /* common name, at most 64 bytes */
    const char *const *hosts;
    size_t n_hosts;
    int days; /* validity from now; negative: already expired, for tests */
};
/* Issues a certificate. INVALID names a host that is neither a name nor an address. */
int certificate_issue(const struct certificate_pair *authority, const struct certificate_request *request,
                      struct certificate_pair *ret, struct err *err);

/* Appends the hosts of the text's first certificate to ret, in its order, one a line. INVALID: the text cannot be read; NOT_FOUND:
 * the certificate names none, or more than CERTIFICATE_MAX_HOSTS. */
int certificate_hosts(const char *certificate, struct str *ret, struct err *err);
/* True if clients will probably not trust the text's first certificate for want of another one: its issuer names where its own
 * certificate can be had, as public and many hospitals' CAs do, and the text has the first certificate alone. */
bool certificate_lacks_issuer(const char *certificate);
/* Checks that the key belongs to the first certificate of the text; *ret_until_ms is the time of day at which that certificate
 * expires. INVALID: one of the texts cannot be read, or the key is an RSA key of fewer than 2,048 bits, which TLS refuses;
 * PRECONDITION: the key belongs to another certificate. */
int certificate_check_pair(const char *certificate, const char *key, int64_t *ret_until_ms, struct err *err);

/* The CAs that may issue client certificates. Immutable: any thread. */
struct authorities;
int authorities_read(const char *pem, struct authorities **ret, struct err *err);
void authorities_free(struct authorities *a);

enum certificate_result { CERTIFICATE_VALID, CERTIFICATE_EXPIRED, CERTIFICATE_FOREIGN_CA, CERTIFICATE_INVALID };
/* Verifies a client's certificate, the first of the chain, at the current time. *ret_why (static) is OpenSSL's reason; ret_name
 * gets the common name, also of a refused certificate. */
enum certificate_result authorities_verify(const struct authorities *a, const char *chain, size_t len,
                                           char ret_name[CERTIFICATE_NAME_SIZE], const char **ret_why);
