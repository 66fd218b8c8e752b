/* A server and its calls, shared by the files behind rpc.h: rpc_server.c (listeners, the loop's side of the queue, the tick),
 * rpc_events.c (operations that grpc was asked for, and their way back), rpc_call.c (the life of a call and its messages),
 * rpc_answers.c (what leaves, the status at the end), rpc_admission.c (who may call what, and how often). Loop thread, except
 * tag_drain. */
#pragma once
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <uv.h>

#include "base/arena.h"
#include "daemon/rpc/listeners.h"
#include "daemon/rpc/rpc.h"

/* Kinds of completion-queue events. A tag is one outstanding operation of one call. */
enum tag_kind { TAG_NEW, TAG_RECV, TAG_SEND, TAG_CLOSED, TAG_STATUS, TAG_SHUTDOWN };
struct tag {
    enum tag_kind kind;
    bool ok;
    bool patient; /* the loop need not wake for it at once */
    struct rpc_call *call;
    struct listener *listener; /* of TAG_SHUTDOWN */
    struct rpc_server *server;
    struct tag *next; /* on its way from the drain thread to the loop */
};

/* A call only moves forward, and may end in any stage: queued answers leave and the status after them; the status has left; `end`
 * was called. */
enum call_stage { CALL_OPEN, CALL_FINISHING, CALL_ANSWERED, CALL_ENDED };

struct answer {
    struct answer *next;
    grpc_byte_buffer *buffer;
    size_t len;
};

struct rpc_call {
    struct rpc_server *server;
    struct listener *listener;
    struct auth_caller caller;
    struct rpc_call *next, *before; /* among the server's open calls */
    const struct rpc_method *method;
    grpc_call *call; /* NULL: it has no connection (errands.h), and its answers stay queued */
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_byte_buffer *received;
    int cancelled;       /* written by grpc until TAG_CLOSED */
    int tags;            /* outstanding operations */
    struct arena *arena; /* NULL: taken */
    void *state;
    struct answer *first, *last;
    int queued;
    size_t unsent, in_flight; /* bytes of answers: all, and of the one that grpc has */
    uint64_t progress_ms;     /* when the client last read or was asked for something, or the call ended for the daemon */
    enum call_stage stage;
    bool sending, receiving, held, full;
    bool paced;                             /* it has used up its messages, and the timer asks for the next one */
    double allowance;                       /* messages that may be read now */
    uint64_t allowed_at_ms;                 /* of the allowance */
    bool half_closed;                       /* the client said so: nothing more is read */
    bool gone;                              /* the client went away, as the loop knows it */
    bool admitted;                          /* the caller is known and may call the method */
    bool given_up;                          /* cancelled for reading nothing */
    bool patient, apart;                    /* rpc_be_patient; the newest message came long after the last but one */
    uint64_t heard_ms, before_ms;           /* when it came, and the one before; 0: none has come */
    bool listed;                            /* among the calls of the server, and counted at its listener */
    bool counted;                           /* among those of its caller */
    void (*flushed)(struct rpc_call *call); /* told when no answer is left; may be NULL */
    struct call_timer *timer;               /* of rpc_tick; NULL: none */
    struct err err;                         /* with which it ends */
    char reason[48];
    int64_t retry_after_ms;
    uint64_t start_ns;
    const char *kind; /* of what the call is about, NULL = unknown; and its id */
    char id[RPC_ID_SIZE];
};

struct rpc_server {
    struct listeners *listeners;
    grpc_completion_queue *queue;
    grpc_completion_queue *idle; /* see tag_poll */
    uv_loop_t *loop;
    uv_async_t wake;
    uv_timer_t pace; /* runs while calls are paced */
    int n_paced;
    pthread_t drain, poll;
    uv_sem_t polls;       /* wakes the thread `poll` */
    atomic_bool busy;     /* it was woken, and has not begun */
    pthread_mutex_t lock; /* first and last */
    struct tag *first, *last;
    bool drained, stopping;
    struct rpc_call *calls; /* open ones */
    struct map *callers;    /* how many have not ended, by caller, and by caller and method (base/map.h) */
    unsigned ticks;
    struct listener *unasked; /* a call could not be requested from them: the tick tries again */
    int n_calls;
    size_t unsent; /* bytes of answers of all calls */
    struct rpc_config config;
    void (*done)(void *ctx);
    void *done_ctx;
};

static inline bool call_is_open(const struct rpc_call *c) { return c->stage == CALL_OPEN; }

/* ---- rpc_events.c ---- */

/* A tag for one operation; the call, which may be NULL, lives until it has come back. NULL without memory. */
struct tag *tag_new(struct rpc_server *s, enum tag_kind kind, struct rpc_call *call);
/* The next tag that has come back, or NULL; ret_drained: none will come any more. */
struct tag *tag_take(struct rpc_server *s, bool *ret_drained);
/* Thread: hands tags from the completion queue to the loop until the queue is shut; arg is the server. */
void *tag_drain(void *arg);
/* Thread: polls the idle queue while the other one is busy, so that sockets are read and connections accepted however full
 * that is: gRPC polls only for a thread that finds its queue empty. While there are few events the drain thread polls
 * alone, and none wakes two threads. arg is the server. */
void *tag_poll(void *arg);
/* Start operations of a call under one tag; false when they could not be started: the call is cancelled then, so that its client
 * does not wait for what cannot come. */
bool call_operate(struct rpc_call *c, grpc_op *ops, size_t n, enum tag_kind kind);

/* ---- rpc_call.c ---- */

/* Begins a call that a client has made: admits the caller, or ends the call with the reason. */
void call_begin(struct rpc_call *c);
/* Ask for the next message, unless one is asked for, held, or none can come. A client stream that has used up its messages waits
 * for the timer `pace`, which calls this again. */
void call_receive(struct rpc_call *c);
/* The timer of the server: reads on from the client streams that wait for their allowance. */
void call_pace(uv_timer_t *pace);
/* Handles the message that call_receive asked for. ok is false when the client sends no more. */
void call_take_message(struct rpc_call *c, bool ok);
/* Ends the call for the daemon and tells its method. Calling it again does nothing. */
void call_end(struct rpc_call *c);
/* Call when an operation has completed. Frees the call after the last one. */
void call_unref(struct rpc_call *c);

/* ---- rpc_answers.c ---- */

/* An answer has left, or could not. */
void call_sent(struct rpc_call *c, bool ok);
void call_drop_answers(struct rpc_call *c);
/* Counts bytes of answers at the call and its server. */
void call_count_unsent(struct rpc_call *c, size_t more, size_t less);

/* ---- rpc_admission.c ---- */

/* True if the caller is known and may call the method; else the call ends with the reason. */
bool call_admit(struct rpc_call *c);
/* Ends a call whose token was revoked, has expired, or has a smaller role than when it began. */
bool call_still_admitted(struct rpc_call *c);
/* True, with the limit, if this call is one too many; from here to call_uncount it counts. */
bool call_is_crowded(struct rpc_call *c, struct err *err);
void call_uncount(struct rpc_call *c);
