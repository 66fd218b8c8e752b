/* offload: file work of a call on libuv's thread pool, so that the loop never waits for a disk. Embedded as the first member of a
 * call's state (rpc_state); the state lives until the work has come back, also when the client is gone before. One piece of work at
 * a time. Loop thread, except for `run`. */
#pragma once
#include <protobuf-c/protobuf-c.h>

#include "daemon/jobs/sched.h"
#include "daemon/models/pool_share.h"
#include "daemon/rpc/rpc.h"

/* Classes of calls, each with a share of the pool (offload.c). */
enum offload_class {
    OFFLOAD_SUBMIT,   /* recordings and models that a job names */
    OFFLOAD_VALIDATE, /* the same, and an estimate */
    OFFLOAD_OPEN,     /* the model of a stream */
    OFFLOAD_FETCH,    /* that of a store */
    OFFLOAD_LOGS,     /* logs and events of jobs */
    OFFLOAD_FILES,    /* models, checkpoints and networks */
    OFFLOAD_RECORD,   /* waits for the volume of the job database */
    OFFLOAD_DOCTOR,
    OFFLOAD_CLASSES
};

enum { OFFLOAD_PART_BYTES = 1 << 20 };

struct offload {
    struct pool_work work;
    uv_loop_t *loop;
    struct pool_share *share;
    struct rpc_call *call;           /* NULL once it has ended */
    void (*run)(struct offload *o);  /* on a thread of the pool: touches nothing but its own state */
    void (*done)(struct offload *o); /* on the loop, after run; the call may have ended meanwhile */
    void (*drop)(struct offload *o); /* see offload_new */
    bool working;                    /* or waits for its turn */
    bool must;                       /* the work is done even if the call ends before it began */
    bool full;                       /* offload_stream waits for room */
    atomic_bool gone;                /* the call has ended: run may stop early */
    struct err err;                  /* of run */
    struct db_wait recorded;         /* of offload_recorded */
    struct arena *arena, *kept;      /* the call's, with its request: of the state once the call has ended, kept then */
    uint8_t *packed, *part;          /* of offload_pack; of offload_read, in the arena */
    size_t packed_len;
    int fd; /* the file that the call sends, -1: none; closed with the state */
};

/* A zeroed state of this size, which becomes that of the call. When the call has ended and nothing runs, `drop` (NULL = none)
 * releases what the state holds, and the state is freed; if drop started work, drop is called once more after it. NULL and an error
 * when out of memory. */
void *offload_new(struct rpc_call *call, enum offload_class class, size_t size, void (*drop)(struct offload *o), struct err *err);
/* Calls run on the pool when the class has room there, then done, unless it is NULL. If the call ends before run began, neither is
 * called. Not while it works. */
void offload_start(struct offload *o, void (*run)(struct offload *o), void (*done)(struct offload *o));
/* The same for work that must be done, whatever becomes of the call. */
void offload_start_must(struct offload *o, void (*run)(struct offload *o), void (*done)(struct offload *o));
/* The same for work of another thread, such as an order to the device worker: the state stays until offload_back, which calls done.
 */
void offload_away(struct offload *o, void (*done)(struct offload *o));
void offload_back(struct offload *o);
/* The same, until all changes of jobs and models so far are in the database; else err is set. */
void offload_recorded(struct offload *o, struct sched *sched, void (*done)(struct offload *o));
/* For calls with many answers: calls `next` on the pool, which packs one answer, as often as the client has room for it; a `next`
 * that packs none ends the call. The call's writable callback is offload_writable. */
void offload_stream(struct offload *o, void (*next)(struct offload *o));
void offload_writable(struct rpc_call *call);
/* For `next`: packs its answer. Without memory err is set. */
void offload_pack(struct offload *o, const ProtobufCMessage *message);
/* For `next`: reads on in the file of `fd`, at most OFFLOAD_PART_BYTES, which stay until the next call; at its end, *ret has no
 * bytes, and the file is closed. False after an error, which says what could not be read. */
bool offload_read(struct offload *o, const char *what, ProtobufCBinaryData *ret);
/* For done: true if the call is still open and run did well. After an error of run it ends the call. */
bool offload_good(struct offload *o);
/* For done: answers the call, if it is still open, with this message; one that is NULL, or an error of run, ends it with an error.
 * `what` the message describes: "a checkpoint". */
void offload_answer(struct offload *o, const void *message, const char *what);
/* For done, of client streams that hold: lets the next message in. */
void offload_release(struct offload *o);
/* The call's end callback. */
void offload_end(struct rpc_call *call);

/* For requests that are recorded on the loop: calls `then` at once if the volume of the job database answers, else when it does,
 * unless the call has ended by then. */
int offload_record(struct rpc_call *call, const void *request, rpc_handler *then, struct err *err);

/* For a run function that computes on a device: calls it on a thread of its own and waits. The teams of computing threads that it
 * makes end with that thread; on the pool each thread would keep a team for ever. Nice +10, as jobs. */
void offload_compute(struct offload *o, void (*run)(struct offload *o));
