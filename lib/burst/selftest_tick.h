/* selftest_tick: checks that a device computes ticks of a small spiking network correctly. The network is the same on every device.
 * Opens the device itself; any thread. */
#pragma once

#include "base/base.h"

/* Ticks of a network of 1,000 neurons against a sequential simulation: the same neurons fire in every tick, and the membranes are
 * the same bits at the end. INTERNAL names the first difference: the device must not be used. */
struct selftest_tick {
    int64_t ticks, fired, events;
    double seconds;
};
int selftest_tick(const char *device, int threads, struct selftest_tick *ret, struct err *err);
