/* finder: events of a whole trace under many pairs of thresholds at once. Hysteresis and morphology run on a stream's device
 * (op.h), the later steps (duration, merging, splitting, confidence) on the host; the events equal those of detect/events.h. Keeps
 * the trace and the masks of the newest pairs on device and host, in memory that grows with the longest trace. One owner, the
 * stream's thread. */
#ifndef BRR_DETECT_FINDER_H
#define BRR_DETECT_FINDER_H
#include "detect/events.h"
#include "kernels/device.h"

struct finder_pair {
    double on, off;
};

struct finder;
int finder_new(struct stream *s, struct finder **ret, struct err *err);
void finder_free(struct finder *f); /* takes NULL */
/* Sets the trace: n ≥ 1 probabilities at 256 Hz, NaN in gaps. p is borrowed until the next finder_trace. */
int finder_load(struct finder *f, const float *p, int64_t n, struct err *err);
/* How many pairs one call may try on this trace: fewer for a long trace, so that a call is short and its memory bounded. */
int finder_most(const struct finder *f);
/* Evaluates base with each pair as its on and off thresholds; waits for the device. */
int finder_try(struct finder *f, const struct events_config *base, const struct finder_pair *pairs, int n, struct err *err);
/* The result of pair i of the newest finder_try: malloc'd events (free()) and their number. */
int finder_events(const struct finder *f, int i, struct event **ret, int64_t *ret_count, struct err *err);

#endif
