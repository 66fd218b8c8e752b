/* stream_call: one call of brr.v1.Stream; shared by the files that implement the service. Loop thread only. */
#pragma once
#include <uv.h>

#include "brr/v1/stream.pb-c.h"
#include "daemon/models/model_fetch.h"
#include "daemon/models/model_ref.h"
#include "daemon/services/services.h"

/* How far an Open is. It waits for one thing at a time, and from the first to OPEN it is kept. */
enum opening {
    OPENING_NONE,      /* no Open has come, or it was refused */
    OPENING_RESTORING, /* the daemon has just started: its session may be restored; rpc_tick looks again */
    OPENING_CLAIMING,  /* its session may be another daemon's: awaited.claim */
    OPENING_FINDING,   /* its model's file is looked for, or fetched: awaited.finding */
    OPENING_OPEN       /* it has a session */
};

struct stream_call {
    struct rpc_call *call;
    struct session *session; /* NULL before OPENING_OPEN and after the end */
    enum opening opening;
    union {
        struct session_claim *claim;
        struct finding *finding;
    } awaited;
    int looks;     /* of OPENING_RESTORING */
    bool claimed;  /* the session was asked for */
    uint8_t *open; /* the Open that waits, packed */
    size_t open_len;
    struct model_file model; /* to the end; zeroed while it serves */
    bool ack_waiting, held, full, half_closed, opened, resumed;
    const char *outcome; /* how it ended, for the metric */
};

/* ---- stream_answers.c ---- */

/* For session_open and session_resume; the owner is the call. */
extern const struct session_sink stream_call_sink;
/* Ends the call with this error. reason: the detail for programs, may be NULL; retry_ms: 0 = no advice to retry. */
void stream_call_refuse(struct stream_call *c, const struct err *err, const char *reason, int64_t retry_ms);
/* A partly sent answer is useless: ends the call without closing the session, so that the client can resume and get all of it. */
void stream_call_lack_memory(struct rpc_call *call);
/* Sends an Ack now, if the call has a session. */
void stream_call_ack(struct stream_call *c);
/* Sends one Ack for all chunks of the next hundredth of a second, or of a live stream a quarter of a second. */
void stream_call_ack_soon(struct stream_call *c);
/* Holds or releases the reading of messages, depending on the room in the session and the answers that wait to be sent. */
void stream_call_steer(struct stream_call *c);
/* Tells the session that no sample follows. The caller calls it after the client's half-close; for a resumable session only once
 * another answer was sent, which proves that the connection is half-closed and not lost. */
void stream_call_finish_samples(struct rpc_call *call);

/* ---- stream_open.c ---- */

/* Opens a session or resumes one, at once or when its model or snapshot is here; otherwise refuses the call. */
void stream_call_open(struct stream_call *c, const Brr__V1__Open *in);
/* At the end of the call: cancels what an Open waits for, and releases the model. */
void stream_call_opening_done(struct stream_call *c);
