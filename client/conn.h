/* conn: a connection to brrd and its calls as bytes; the one file of the client that knows grpc. Blocking, one thread per
 * connection. */
#ifndef BRR_CLIENT_CONN_H
#define BRR_CLIENT_CONN_H
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct conn;
/* "unix:/path" or "host:port"; NULL = BRR_ENDPOINT, else unix:/run/brrd/brrd.sock. Nothing is sent yet. */
int conn_open(const char *endpoint, struct conn **ret, struct err *err);
void conn_close(struct conn *c);
const char *conn_endpoint(const struct conn *c);
/* One request, one answer: malloc'd bytes. The server's error text and code arrive in *err; UNAVAILABLE names the endpoint. */
int conn_call(struct conn *c, const char *method, const void *request, size_t len, uint8_t **ret, size_t *ret_len, struct err *err);
/* One request, many answers: visit returns 0 to go on, other values end the call and are returned. timeout_s 0 = none. */
typedef int conn_visit_fn(void *ctx, const uint8_t *data, size_t len);
int conn_stream(struct conn *c, const char *method, const void *request, size_t len, conn_visit_fn *visit, void *ctx,
                struct err *err);

#endif
