#include "daemon/live/pace.h"

static const double AGREE = 0.02;

void pace_restart(struct pace *p) { *p = (struct pace){0}; }

double pace_look(struct pace *p, int64_t now_ms, int64_t next, int64_t period_ms, double rate_hz, double tolerance) {
    const int64_t passed_ms = now_ms - p->from_ms;
    if (p->from_ms && passed_ms < period_ms)
        return -1;
    const double hz = p->from_ms && p->first >= 0 && passed_ms > 0 ? (double)(next - p->first) * 1000 / (double)passed_ms : -1;
    p->first = p->from_ms ? next : -1;
    p->from_ms = now_ms;
    if (hz < 0)
        return -1;
    const double before_hz = p->off_hz;
    p->off_hz = fabs(hz / rate_hz - 1) > tolerance ? hz : 0;
    if (!(p->off_hz > 0))
        return 0;
    return before_hz > 0 && fabs(hz / before_hz - 1) <= AGREE ? hz : -1;
}
