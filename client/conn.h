/* conn: a connection to brrd and one call on it as bytes, driven by one thread at a time; the only file of the client that includes
 * gRPC. At most one message is being sent and one waits to be taken; the owner (calls.c, stream.c) queues the others. */
#pragma once

#include "base/base.h"
#include "client/brr.h"

enum { CONN_MAX_MESSAGE = 64 << 20, CONN_MAX_ENDPOINTS = 8 };

struct brr_client;
struct conn_call;

/* The events of several calls, for one thread that serves them all. */
struct conn_queue;
int conn_queue_new(struct conn_queue **ret, struct brr_error *err);
/* Waits for the last events of closed calls; the others must be closed before. Takes NULL. */
void conn_queue_free(struct conn_queue *queue);
/* Processes one event of any call of the queue, waiting up to timeout_ms (-1 = no limit). Returns the owner of that call, NULL on
 * timeout. */
void *conn_queue_poll(struct conn_queue *queue, int64_t timeout_ms);

struct conn_open {
    const char *method;
    int64_t deadline_ms;      /* negative = none */
    struct conn_queue *queue; /* NULL: the call has its own, and conn_call_poll serves it */
    void *owner;              /* with a queue: not NULL */
    int endpoint;             /* its index, below conn_endpoints */
};
/* How many endpoints the client was given; calls go to the first one unless they say otherwise. */
int conn_endpoints(const struct brr_client *client);
/* Sends nothing yet. */
int conn_call_open(struct brr_client *client, const struct conn_open *open, struct conn_call **ret, struct brr_error *err);
/* Cancels a call that has not ended. The memory of a call with a shared queue is freed when its last event was processed. Takes
 * NULL. */
void conn_call_close(struct conn_call *call);
/* True if conn_call_send may be called. */
bool conn_call_sendable(const struct conn_call *call);
/* Copies the bytes. last: sends the half-close in the same write, so that an answer never meets a client that still writes. */
void conn_call_send(struct conn_call *call, const void *data, size_t len, bool last);
/* Half-closes after the messages already sent. */
void conn_call_half_close(struct conn_call *call);
/* Requests the next message, unless one waits or is already requested. */
void conn_call_receive(struct conn_call *call);
/* Processes one event of a call that has its own queue, waiting up to timeout_ms (-1 = no limit). False on timeout. */
bool conn_call_poll(struct conn_call *call, int64_t timeout_ms);
/* Takes the received message: bytes to be freed with free(); NULL = none. */
uint8_t *conn_call_take(struct conn_call *call, size_t *ret_len);
/* True if the status has arrived and no message follows. conn_call_status then returns it. */
bool conn_call_ended(const struct conn_call *call);
int conn_call_status(const struct conn_call *call, struct brr_error *err);

/* Fills *err (unless NULL) and returns the code. */
int conn_error(struct brr_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
