/* selftest: checks that a device computes correctly: the selective scan forward and backward on a small case against
 * double-precision loops. The case is the same on every device. Opens the device itself; any thread. */
#pragma once
#include "base/base.h"

/* Largest errors relative to the largest value. INTERNAL when one is above 1e-4: the device must not be used. */
struct selftest {
    double forward_error, backward_error, seconds;
};
int selftest_scan(const char *device, int threads, struct selftest *ret, struct err *err);
