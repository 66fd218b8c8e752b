/* pace: the sampling rate of a live stream by the daemon's clock. It is measured from chunk to chunk over periods. A period in
 * which the stream was opened or resumed, nothing came for PACE_PAUSE_MS, or the loop or the host was late by as much says nothing
 * and is left out, with the one behind it, in which what was held back arrives. A rate is wrong when two following periods agree
 * that it is; the next good period clears it. Plain data; one thread at a time. */
#pragma once
#include "base/base.h"

enum { PACE_PAUSE_MS = 1000 };

struct pace {
    int64_t from_ms, first; /* the period: when it began, 0: none has; and the samples by then, -1: it is left out */
    double off_hz;          /* the rate of the period before, if it was wrong; 0: it was not */
};
/* A chunk came, `next` samples by now. tolerance: the largest relative difference from rate_hz that is good. Returns the measured
 * rate when two periods agree that it is wrong, 0 when a period was good, -1 when nothing is known yet. */
double pace_look(struct pace *p, int64_t now_ms, int64_t next, int64_t period_ms, double rate_hz, double tolerance);
void pace_restart(struct pace *p); /* leaves the present period out */
