/* errands: calls of unary methods that other threads of the daemon make, for callers whom they have identified: the
 * pages' server for lists in JSON. They pass what calls of clients pass: role, quota, metrics, audit log. The loop
 * begins one in a turn; who asked waits for its end, ERRANDS_WAIT_MS at most. Bounded: of a caller ERRANDS_BURST at once, of
 * which ERRANDS_A_SECOND grow back. */
#pragma once
#include "daemon/rpc/rpc.h"

enum { ERRANDS_WAIT_MS = 3000, ERRANDS_BURST = 20, ERRANDS_A_SECOND = 4 };
enum { ERRANDS_CALLERS = 64 /* whose use is remembered */ };
enum { ERRANDS_BYTES = 32 << 20 /* of the arena of such a call */ };

struct errands;
/* wake makes the loop call errands_take. Any thread. NULL when out of memory. */
struct errands *errands_new(void (*wake)(void *ctx), void *ctx);
void errands_free(struct errands *a); /* after errands_stop; nobody asks any more; NULL is fine */

struct errand {
    const struct rpc_method *method; /* static */
    const struct auth_caller *caller;
    const struct ProtobufCMessage *request; /* of the method's type; read before the call begins */
};
struct errand_answer {
    uint8_t *data; /* the packed message, which whoever asked frees */
    size_t len;
    char reason[48]; /* of an error */
    int64_t retry_after_ms;
};
/* From any thread but the loop's. EXHAUSTED: the caller asks too often. UNAVAILABLE: the loop did not within the time,
 * and will not, or the daemon stops. */
int errands_run(struct errands *a, const struct errand *call, struct errand_answer *ret, struct err *err);
void errands_take(struct errands *a, struct rpc_server *server); /* loop thread */
/* Loop thread, or after its end: ends what goes on; from now on errands_run fails. NULL is fine. */
void errands_stop(struct errands *a);
