/* rpc: gRPC calls on the libuv loop; with rpc_*.c behind it, listeners.c, peer.c and tls.c, the only files of the daemon that know
 * grpc. A drain thread takes events off the completion queue and hands them to the loop; every callback below runs on the loop
 * thread. A method is a row of a table. A call has one arena, lives until its end callback, and is told when its client is gone.
 * Bounded: the calls that are open; message sizes per method; per client stream RPC_MESSAGES_S messages a second, beyond which
 * nothing more is read from its client; per call RPC_SEND_MAX answers or RPC_SEND_BYTES that the client has
 * not read (the producer is told when there is room again), and max_unsent_bytes over all calls. */
#pragma once

#include "base/arena.h"
#include "daemon/rpc/auth.h"
#include "daemon/rpc/listeners.h"
#include "daemon/rpc/quota.h"

struct rpc_server;
struct rpc_call;
typedef struct uv_loop_s uv_loop_t;

enum { RPC_CONTROL_BYTES = 256 * 1024, RPC_DATA_BYTES = 4 * 1024 * 1024, RPC_SEND_MAX = 64, RPC_SEND_BYTES = 4 * 1024 * 1024 };
/* A call that has ended for the daemon is cancelled when its client has read nothing for so long. */
enum { RPC_GRACE_MS = 30 * 1000, RPC_FILE_IDLE_MS = 60 * 1000 };
/* A call whose client sends no message at all ends after the first; the callers of open calls are checked again each so many ticks.
 */
enum { RPC_MESSAGES_S = 1000, RPC_MESSAGES_BURST = 2000, RPC_PACE_MS = 10 };
enum { RPC_PATIENCE_MS = 10, RPC_APART_MS = 50 };
enum { RPC_FIRST_MESSAGE_MS = 60 * 1000, RPC_CHECK_TICKS = 60, RPC_ID_SIZE = 80 };

/* A handler of a call: answers with rpc_send and rpc_finish, at once or later. An error that it returns ends the call, unless the
 * handler has ended it already. */
typedef int rpc_handler(struct rpc_call *call, const void *request, struct err *err);

/* One row per method; a table ends with a row without a path. Answers leave as bytes (rpc/convert.h packs them). */
struct rpc_method {
    const char *path; /* "/brr.v1.Jobs/Submit" */
    enum role role;   /* the least role that may call it; never ROLE_NONE */
    bool client_stream;
    size_t max_message; /* 0 = RPC_CONTROL_BYTES */
    /* A message of the client, of this type. It lives as long as the call, that of a client stream until `message` returns. A
     * message that cannot be unpacked ends the call as INVALID. */
    const struct ProtobufCMessageDescriptor *request;
    rpc_handler *message;
    /* Client streams: no further message comes. NULL otherwise. */
    void (*half_close)(struct rpc_call *call);
    /* There is room for answers again, after rpc_send said false. May be NULL. */
    void (*writable)(struct rpc_call *call);
    /* The call is over (status sent, client gone or server stopping): release what `state` holds. May be NULL. */
    void (*end)(struct rpc_call *call);
    bool reading;  /* it reads a patient's data: audited at level info, once an hour for each caller and object */
    bool frequent; /* many times a second: calls that end well are audited at level debug */
    /* Of a list that answers at once: its path at the HTTP server, "/api/v1/jobs", and the type of its answer. */
    const char *route;
    const struct ProtobufCMessageDescriptor *answer;
    int idle_ms; /* a call for whose client the daemon waits so long, for a message or for answers to be read, ends; 0 = never */
};

/* The fields that every row has; others may follow. `type` is the request's C name, such as brr__v1__get_job_request. */
#define RPC_METHOD(method_path, least_role, type, handler)                                                                         \
    .path = (method_path), .role = (least_role), .request = &type##__descriptor, .message = (handler)

/* Of a row that has a route: its answer is of this type. */
#define RPC_ROUTE(at, type) .route = (at), .answer = &type##__descriptor

struct rpc_config {
    struct listeners_config listeners; /* the listeners; max_message, opened and ctx are filled in */
    struct auth *auth;                 /* decides about callers */
    const struct rpc_method *const *methods;
    size_t n_methods;
    struct quota_limits limits; /* of open calls; further ones are refused as OVERLOADED */
    size_t max_unsent_bytes;    /* of answers over all calls; above it the call that holds most ends as CLIENT_TOO_SLOW */
    void *ctx;                  /* rpc_context() of every call */
    /* A handler works for this caller until it is told NULL; may be NULL. */
    void (*enter)(void *ctx, const struct auth_caller *caller);
    void (*begun)(void *ctx, const char *path); /* a call of a known method has begun; may be NULL */
    /* It ended with this status (a word of err_name) and reason ("" = none), for logs and metrics; may be NULL. */
    void (*observe)(void *ctx, const char *path, int code, const char *reason, double seconds);
};

/* Binds and serves. Errors name the address, who may hold it, and the fix. */
int rpc_server_start(uv_loop_t *loop, const struct rpc_config *config, struct rpc_server **ret, struct err *err);
/* Refuse new calls, cancel the open ones, and call done on the loop when everything has ended. */
void rpc_server_stop(struct rpc_server *server, void (*done)(void *ctx), void *ctx);
void rpc_server_free(struct rpc_server *server); /* after done */
/* Once a second: calls whose clients do not read their end are cancelled, and those end that wait beyond idle_ms. */
void rpc_server_tick(struct rpc_server *server);
size_t rpc_server_unsent(const struct rpc_server *server); /* bytes of answers that clients have not read */
/* Whether the TCP port accepts connections (accept.h). Call once a second. */
enum accept_state rpc_server_look(struct rpc_server *server);

void *rpc_context(const struct rpc_call *call);
struct arena *rpc_arena(struct rpc_call *call);
/* For `end`: the arena, with the request in it, becomes the caller's, who frees it with arena_free. */
struct arena *rpc_take_arena(struct rpc_call *call);
/* The authenticated caller; known from the first message on. */
const struct auth_caller *rpc_caller(const struct rpc_call *call);
void *rpc_state(const struct rpc_call *call);
void rpc_set_state(struct rpc_call *call, void *state);
/* Queues one answer. False when the queue is full afterwards, and from then on until `writable`, however many have left meanwhile:
 * stop until then. After the end it is dropped, and false. Without memory for it the call ends with an error. */
bool rpc_send(struct rpc_call *call, const uint8_t *data, size_t len);
/* Calls `flushed` once, when the connection has taken every answer queued by then; not when the call ends before. A client stream
 * whose connection is lost looks half-closed at first: an answer that leaves afterwards proves that it is not. */
void rpc_flush(struct rpc_call *call, void (*flushed)(struct rpc_call *call));
/* Names the job or session that the call is about, for the audit log: kind "job" or "session" (static), and its id. */
void rpc_concerns(struct rpc_call *call, const char *kind, const char *id);
/* Ends the call: well when err is NULL or has no code, else with its code and text. Queued answers leave first. Returns 0, so that
 * a handler can return it. */
int rpc_finish(struct rpc_call *call, const struct err *err);
/* The same with a stable reason code for programs (brr.v1.ErrorDetail, in the trailing metadata brr-error-bin; NULL = the code's
 * name) and, when trying again may help, after which time. */
int rpc_refuse(struct rpc_call *call, const struct err *err, const char *reason, int64_t retry_after_ms);
/* The client stream may go on: the next message is read only after the one before was consumed. message() consumes it by
 * returning unless it called rpc_hold; then rpc_release lets the next one in. */
void rpc_hold(struct rpc_call *call);
void rpc_release(struct rpc_call *call);
/* From now on a message of the client stream, and the end of an answer's sending where few follow, wait up to RPC_PATIENCE_MS for
 * those of other calls, so that a thread reads and the loop wakes once for many; but not messages of which three come within
 * RPC_APART_MS. */
void rpc_be_patient(struct rpc_call *call);
/* Calls tick on the loop after first_ms, then every repeat_ms (0: once), until rpc_tick is called again or the call
 * finishes. A call without memory for its timer ends with an error. */
void rpc_tick(struct rpc_call *call, uint64_t first_ms, uint64_t repeat_ms, void (*tick)(struct rpc_call *call));
/* Calls the handler as `message` is called: for what happens later. */
void rpc_handle(struct rpc_call *call, rpc_handler *handler, const void *request);
const char *rpc_library_version(void);
