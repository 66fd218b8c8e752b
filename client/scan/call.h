/* call: one call of libbrr_scan, from its arguments to an op of the table: tensors of strides become those of the kernels, the
 * calling thread and a workspace are lent to the stream. The first error sticks and the functions after it do nothing, so that an
 * op reads as a list of its tensors. Internal to client/scan. */
#pragma once
#include "client/scan/brr_scan.h"
#include "kernels/op.h"

struct scan_call {
    const char *op; /* for messages */
    struct stream *stream;
    struct brr_scan_workspace *workspace;
    struct brr_scan_error *to;
    struct stream_loan loan;
    struct err err;
    int rc;
};

/* Fills in *known, a structure of `known_bytes`, from the caller's of args_bytes: members that a caller of an older version does
 * not have are 0. The call fails with INVALID for a size that is none, and with UNSUPPORTED for members of a later version that are
 * set. */
void scan_call_begin(struct scan_call *c, const char *op, brr_scan *scan, struct brr_scan_error *to);
void scan_call_arguments(struct scan_call *c, const void *args, void *known, size_t known_bytes);
/* The tensor as kernels take it. Where it has rank + 1 dimensions the last two are joined; any other rank stays, for the op to
 * refuse by its shape. Strides of 0 in all dimensions: dense. INVALID for layouts that kernels do not take; absent tensors stay
 * absent. */
struct tensor scan_call_tensor(struct scan_call *c, const char *name, const struct brr_scan_tensor *t, int rank);
/* A state (B,H,P,N), dense, as (B,H·P,N). */
struct tensor scan_call_heads(struct scan_call *c, const char *name, const struct brr_scan_tensor *t);
/* Between the two the thread is the stream's. enter: 0 when the op can run. */
int scan_call_enter(struct scan_call *c, struct brr_scan_workspace *workspace);
int scan_call_leave(struct scan_call *c, int rc);

/* A function of the library, whose structure of arguments has its name, begins with SCAN_CALL: `c` is the call, `a` its arguments
 * as this version knows them. A backward pass goes on with SCAN_FORWARD: `f` is what the forward pass was called with. T and F are
 * tensors of these, named as their members. SCAN_RUN calls the op with the arguments `op`, and returns. */
#define SCAN_CALL(name)                                                                                                            \
    struct scan_call call, *c = &call;                                                                                             \
    struct name known, *a = &known;                                                                                                \
    scan_call_begin(c, #name, scan, err);                                                                                          \
    scan_call_arguments(c, args, &known, sizeof known)
#define SCAN_FORWARD(name)                                                                                                         \
    struct name forward, *f = &forward;                                                                                            \
    scan_call_arguments(c, known.forward, &forward, sizeof forward)
#define T(member, rank)          scan_call_tensor(c, #member, &a->member, rank)
#define F(member, rank)          scan_call_tensor(c, #member, &f->member, rank)
#define SCAN_RUN(function, room) return scan_call_leave(c, scan_call_enter(c, room) ? 0 : function(c->stream, &op, &c->err))
