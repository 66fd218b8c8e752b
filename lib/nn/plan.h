/* plan: activation memory of a net as one reserved allocation. The same layer code runs twice: first dry, to measure the peak for
 * the worst batch, and then for real inside the reservation. A stack discipline (mark, release) reuses memory. Steps allocate
 * nothing. One owner. */
#pragma once

#include "base/base.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

struct plan {
    struct device *device;
    char *base; /* NULL while measuring */
    size_t used, peak, reserved;
    bool overflow; /* more was requested than reserved */
};

void plan_init(struct plan *plan);
void plan_done(struct plan *plan);
/* Reserves the measured amount. EXHAUSTED states how much it is. */
int plan_reserve(struct plan *plan, struct device *dev, struct err *err);
/* A dense tensor (b,t,c), 64-byte aligned, uninitialised; while measuring its data is a non-NULL address never read. Beyond the
 * reservation: an absent tensor, and `overflow` is set. */
struct tensor plan_tensor(struct plan *plan, enum dtype dtype, int64_t b, int64_t t, int64_t c);
static inline size_t plan_mark(const struct plan *plan) { return plan->used; }
static inline void plan_release(struct plan *plan, size_t mark) { plan->used = mark; }

/* Releases what was taken since the mark when the scope is left; plan NULL keeps it. OWNED(plan_scope_end) struct plan_scope … */
struct plan_scope {
    struct plan *plan;
    size_t mark;
};
static inline void plan_scope_end(struct plan_scope *scope) {
    if (scope->plan)
        plan_release(scope->plan, scope->mark);
}
