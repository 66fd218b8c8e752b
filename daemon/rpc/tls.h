/* tls: the daemon's certificate and private key, as files that may be replaced while it runs. New connections get the new pair; old
 * ones go on. gRPC and HTTP take it from here. Any thread, except where noted. */
#ifndef BRR_DAEMON_RPC_TLS_H
#define BRR_DAEMON_RPC_TLS_H
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/metrics.h"
#include "trust/certificate.h"

struct tls_config {
    const char *cert, *key;
    const char *client_ca; /* clients are asked for a certificate of these CAs; auth verifies it call by call. NULL: not asked */
    struct metrics *metrics;
};

struct tls;
struct grpc_server_credentials;
/* Reads the files. DENIED for a key that others may read; INVALID for a key of another certificate. */
int tls_new(const struct tls_config *config, struct tls **ret, struct err *err);
void tls_free(struct tls *tls);
/* Loop thread. Whether a file was changed since it was read last. */
bool tls_changed(const struct tls *tls);
/* Loop thread. Reads the files again; on errors the old pair stays in use. */
int tls_reload(struct tls *tls, struct err *err);
/* A copy of the present pair, for certificate_pair_done. */
int tls_pair(struct tls *tls, struct certificate_pair *ret, struct err *err);
/* gRPC's credentials of a listener; they follow tls_reload. Released by the caller; tls must outlive the listener. */
struct grpc_server_credentials *tls_credentials(struct tls *tls);

#endif
