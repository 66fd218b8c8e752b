/* tls: the daemon's certificate and private key, read from files that may be replaced while it runs. New connections use the new
 * pair; open connections continue. Used by gRPC and HTTP. Any thread, except where noted. */
#ifndef BRR_DAEMON_RPC_TLS_H
#define BRR_DAEMON_RPC_TLS_H
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/metrics.h"
#include "trust/certificate.h"

struct tls_config {
    const char *cert, *key;
    const char *client_ca; /* clients are asked for a certificate of these CAs; auth verifies it for each call. NULL: not asked */
    struct metrics *metrics;
};

struct tls;
struct grpc_server_credentials;
/* Reads the files. DENIED if others may read the key; INVALID if the key does not match the certificate. */
int tls_new(const struct tls_config *config, struct tls **ret, struct err *err);
void tls_free(struct tls *tls);
/* Loop thread. True if a file has changed since it was last read. */
bool tls_changed(const struct tls *tls);
/* Loop thread. Reloads the files; on errors the old pair stays in use. */
int tls_reload(struct tls *tls, struct err *err);
/* A copy of the current pair; free it with certificate_pair_done. */
int tls_pair(struct tls *tls, struct certificate_pair *ret, struct err *err);
/* gRPC credentials for a listener; they follow tls_reload. The caller releases them; tls must outlive the listener. */
struct grpc_server_credentials *tls_credentials(struct tls *tls);

#endif
