/* conn: a connection to brrd and one call on it as bytes, driven by one thread at a time; the one file of the client that knows
 * grpc. At most one message is on its way out and one waits to be taken; the owner (rpc.c, stream.c) queues the rest. */
#ifndef BRR_CLIENT_CONN_H
#define BRR_CLIENT_CONN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/brr.h"

enum { CONN_MAX_MESSAGE = 64 << 20 };

struct brr_client;
struct conn_call;

/* Negative deadline = none. Nothing is known yet about the daemon. */
int conn_call_open(struct brr_client *client, const char *method, int64_t deadline_ms, struct conn_call **ret,
                   struct brr_error *err);
/* Cancels when it has not ended. NULL is fine. */
void conn_call_close(struct conn_call *call);
/* Whether conn_call_send may be called. */
bool conn_call_sendable(const struct conn_call *call);
/* Takes a copy of the bytes. last: with the half-close in the same write, so that an answer never meets a client that still writes.
 */
void conn_call_send(struct conn_call *call, const void *data, size_t len, bool last);
/* After the messages that were sent. */
void conn_call_half_close(struct conn_call *call);
/* Let the next message in, if none waits or is on its way. */
void conn_call_receive(struct conn_call *call);
/* Work on one event of the call, waiting up to timeout_ms (-1 = for ever). False on timeout. */
bool conn_call_poll(struct conn_call *call, int64_t timeout_ms);
/* The message that came: bytes to be freed with free(); NULL = none waits. */
uint8_t *conn_call_take(struct conn_call *call, size_t *ret_len);
/* Whether the status came and no message follows. Then conn_call_status gives it. */
bool conn_call_ended(const struct conn_call *call);
int conn_call_status(const struct conn_call *call, struct brr_error *err);

/* Fill *err (unless NULL) and return the code. */
int conn_error(struct brr_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
