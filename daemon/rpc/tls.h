/* tls: the daemon's certificate and private key, which may be replaced while it runs. New connections use the new pair; open
 * connections continue. Used by gRPC and HTTP. It reads no files (daemon/reload.h). Any thread. */
#pragma once

#include "base/metrics.h"
#include "trust/certificate.h"

/* Texts are borrowed. */
struct tls_config {
    const char *cert, *key; /* names of the files, for errors and logs */
    bool client_ca;         /* clients are asked for a certificate; auth verifies it for each call */
    struct metrics *metrics;
};

struct tls;
struct grpc_server_credentials;
/* Without a pair, which must be set before tls_pair is called or a listener opened. */
int tls_new(const struct tls_config *config, struct tls **ret, struct err *err);
void tls_free(struct tls *tls);
/* Uses this pair (PEM, copied) from now on, and logs when it expires soon. INVALID or PRECONDITION if the texts are no pair
 * (certificate_check_pair): the previous one stays in use. */
int tls_set_pair(struct tls *tls, const char *certificate, const char *key, struct err *err);
/* The CAs (PEM, copied) whose names clients are told when they are asked for a certificate. */
int tls_set_roots(struct tls *tls, const char *pem, struct err *err);
/* A copy of the current pair; free it with certificate_pair_done. */
int tls_pair(struct tls *tls, struct certificate_pair *ret, struct err *err);
/* gRPC credentials for a listener; they follow tls_set_pair and tls_set_roots. The caller releases them; tls must outlive the
 * listener. */
struct grpc_server_credentials *tls_credentials(struct tls *tls);
