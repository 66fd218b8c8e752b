/* stream_call: what the files of brr.v1.Stream share: one call, what its session says, and its Open. Loop thread. */
#ifndef BRR_DAEMON_RPC_STREAM_CALL_H
#define BRR_DAEMON_RPC_STREAM_CALL_H
#include <uv.h>

#include "brr/v1/stream.pb-c.h"
#include "daemon/models/model_fetch.h"
#include "daemon/models/model_lease.h"
#include "daemon/rpc/services.h"

struct stream_call {
    struct rpc_call *call;
    struct session *session;       /* NULL before Open and after the end */
    struct model_leasing *leasing; /* of the model, which Open names by its URL */
    struct finding *finding;       /* of the model's file */
    struct session_claim *claim;   /* the session may be another daemon's */
    bool claimed;                  /* it was asked for */
    uint8_t *open;                 /* that Open, packed, while the model is on its way or looked for */
    size_t open_len;
    struct model_lease lease; /* the model, to the end */
    uv_timer_t ack_timer;
    int restoring; /* how often it was looked whether its session has been restored; the timer waits for the next look */
    bool ack_waiting, held, full, half_closed, opened, resumed, ended;
    const char *outcome; /* how it ended, for the metric */
};

/* ---- stream_answers.c ---- */

/* For session_open and session_resume; the owner is the call. */
extern const struct session_sink stream_call_sink;
void stream_call_refuse(struct stream_call *c, const struct err *err, const char *reason, int64_t retry_ms);
/* Half an answer is none: the call ends, and a resumable session is not told of it, so that its client may come back for the whole.
 */
void stream_call_lack_memory(struct rpc_call *call);
void stream_call_ack(struct stream_call *c);
/* One Ack for all chunks of the next few milliseconds. */
void stream_call_ack_soon(struct stream_call *c);
/* Read on, or not. */
void stream_call_steer(struct stream_call *c);
/* After half-close, when the session is open; of a resumable one when an answer has left since, which proves that the connection
 * was not lost but half-closed. */
void stream_call_finish_samples(struct rpc_call *call);

/* ---- stream_open.c ---- */

/* Opens a session or resumes one, at once or when its model or snapshot is here; otherwise refuses the call. */
void stream_call_open(struct stream_call *c, const Brr__V1__Open *in);
/* An Open has come. */
bool stream_call_has_open(const struct stream_call *c);
/* The call has ended: its Open waits no more, and its model is given back. */
void stream_call_opening_done(struct stream_call *c);

#endif
