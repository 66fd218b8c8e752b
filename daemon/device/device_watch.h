/* device_watch: polls the state of the device on its own thread, because a failing driver may answer late. It feeds the brrd_gpu_…
 * metrics and decides whether the device is bad. Its fault stays until the process ends, because repairing the device needs a
 * restart of the daemon too. The module decides nothing about jobs or streams: others read the fault. */
#pragma once
#include "base/mailbox.h"
#include "base/metrics.h"
#include "kernels/device.h"

struct device_fault {
    char why[160]; /* "2 uncorrectable memory errors since its last reset" */
    char fix[320];
};
/* True if the device is bad: unreachable, uncorrectable memory errors, memory that waits for a reset to be remapped or that cannot
 * be remapped. Values that the device does not report are ignored. */
bool device_watch_judge(const struct device_health *h, struct device_fault *ret);
/* "61 °C, 312 W, 97 % busy, …" of the values that the device reports; "" if there are none. */
void device_watch_describe(const struct device_health *h, char *ret, size_t size);

struct device_watch_config {
    const char *device; /* name of the device; label of its metrics if the driver has no index for it */
    void (*ask)(void *ctx, struct device_health *ret); /* reads the state; called on any thread */
    void *ctx;
    struct metrics *metrics;
    int64_t interval_ms;
    mailbox_wake_fn *wake; /* called on the watch's thread when the device turns bad */
    void *wake_ctx;
};
struct device_watch;
/* Reads the state once before it returns. Starts no thread for a device that reports nothing. The config's strings must outlive the
 * watch. */
int device_watch_start(const struct device_watch_config *config, struct device_watch **ret, struct err *err);
void device_watch_stop(struct device_watch *w); /* NULL is allowed */
/* The most recent state. Any thread. */
void device_watch_latest(struct device_watch *w, struct device_health *ret);
/* NULL while the device is good or not watched; the fault lives as long as the watch. Any thread. */
const struct device_fault *device_watch_fault(const struct device_watch *w);

/* The same for n watches: the fault of the first bad device; all: NULL unless every device is bad. */
const struct device_fault *device_watch_faults(struct device_watch *const *watches, int n, bool all);
