/* selftest: checks that a device computes correctly: the selective scan forward and backward on a small case against
 * double-precision loops, and ticks of a small spiking network. The cases are the same on every device. Opens the device itself;
 * any thread. */
#ifndef BRR_RUN_SELFTEST_H
#define BRR_RUN_SELFTEST_H
#include <stdint.h>

#include "base/err.h"

/* Largest errors relative to the largest value. INTERNAL when one is above 1e-4: the device must not be used. */
struct selftest {
    double forward_error, backward_error, seconds;
};
int selftest_scan(const char *device, int threads, struct selftest *ret, struct err *err);

/* Ticks of a network of 1,000 neurons against a sequential simulation: the same neurons fire in every tick, and the membranes are
 * the same bits at the end. INTERNAL names the first difference: the device must not be used. */
struct selftest_tick {
    int64_t ticks, fired, events;
    double seconds;
};
int selftest_tick(const char *device, int threads, struct selftest_tick *ret, struct err *err);

#endif
