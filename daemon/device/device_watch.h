/* device_watch: how the device is, asked again and again on a thread of its own, because a driver in trouble answers late: the
 * brrd_gpu_ metrics, and the verdict that a device is bad. A verdict stays until the process ends, as what fixes the device needs
 * that too. It decides nothing about jobs or streams: others read the verdict. */
#ifndef BRR_DAEMON_DEVICE_DEVICE_WATCH_H
#define BRR_DAEMON_DEVICE_DEVICE_WATCH_H
#include "base/mailbox.h"
#include "base/metrics.h"
#include "kernels/device.h"

struct device_verdict {
    char why[160]; /* "2 uncorrectable memory errors since its last reset" */
    char fix[320];
};
/* Whether the device is bad: unreachable, uncorrectable memory errors, memory that waits for a reset to be replaced, or that cannot
 * be. What it does not tell is no ground. */
bool device_watch_judge(const struct device_health *h, struct device_verdict *ret);
/* "61 °C, 312 W, 97 % busy, …" of what is told; "" for nothing. */
void device_watch_describe(const struct device_health *h, char *ret, size_t size);

struct device_watch_config {
    const char *device;                                /* its name; label of its metrics where the driver has no number for it */
    void (*ask)(void *ctx, struct device_health *ret); /* on any thread */
    void *ctx;
    struct metrics *metrics;
    int64_t interval_ms;
    mailbox_wake_fn *wake; /* on the watch's thread, when a verdict falls */
    void *wake_ctx;
};
struct device_watch;
/* Asks once before it returns; there is no thread for a device that tells nothing. The config's strings must stay. */
int device_watch_start(const struct device_watch_config *config, struct device_watch **ret, struct err *err);
void device_watch_stop(struct device_watch *w); /* NULL is fine */
/* The newest answer. Any thread. */
void device_watch_latest(struct device_watch *w, struct device_health *ret);
/* NULL while the device is fit, or nobody watches it; what it points to stays. Any thread. */
const struct device_verdict *device_watch_verdict(const struct device_watch *w);

#endif
