/* device_hosts: a device of the daemon and the threads that serve it, one for each kind of host, each with its own mailbox and
 * working memory. On a CPU live windows come first (device_live_begin, kernels/device.h), and the threads differ in niceness; a GPU
 * runs the stream of live windows first. Jobs use the same device from a thread of their own (jobs/worker.h). Loop thread only,
 * except where noted. */
#pragma once
#include "base/metrics.h"
#include "daemon/hosts/host.h"
#include "kernels/device.h"

/* In the order in which they are stopped: live windows pass orders to replays. */
enum host_kind { HOST_LIVE, HOST_REPLAYS, HOST_NETWORKS, HOST_KINDS };

/* Where a host works: the ctx of its host_work.open. It outlives the hosts. */
struct host_site {
    struct device *device;
    struct device_info info;
    int64_t memory_limit_bytes; /* of one model or job */
    struct metrics *metrics;    /* may be NULL */
    struct mailbox *answers[HOST_KINDS];
    struct host *hosts[HOST_KINDS];
    const void *config; /* what the work's module wants to know */
};

struct host_row {
    const struct host_work *work;    /* its open gets a struct host_site */
    int64_t stalled_ms;              /* an order or step that takes longer is a hang */
    void (*drop)(struct message *m); /* of an answer or order that nobody takes any more */
    const void *config;
};

struct device_hosts_config {
    const char *device;               /* "cpu", "cpu:N", "cuda:N" */
    int threads;                      /* of a CPU; 0 = all */
    int shares;                       /* number of CPU devices that share the memory; 0 and 1: it is the only one */
    int64_t memory_limit_bytes;       /* device memory of one model or job; 0 = nine tenths of the device */
    struct host_row rows[HOST_KINDS]; /* without work: there is no such host */
    struct metrics *metrics;          /* may be NULL */
    mailbox_wake_fn *wake;            /* called on a host's thread when answers wait */
    void *wake_ctx;
};
struct device_hosts;
/* Opens the device and starts its hosts. */
int device_hosts_start(const struct device_hosts_config *config, struct device_hosts **ret, struct err *err);
/* Stops the hosts, drops what nobody has taken, closes the device: nothing else may use it any more. NULL is allowed. */
void device_hosts_stop(struct device_hosts *h);

struct device *device_hosts_device(const struct device_hosts *h); /* any thread */
void device_hosts_describe(const struct device_hosts *h, struct device_info *ret);
int64_t device_hosts_memory_limit(const struct device_hosts *h); /* bytes that one job may use */
/* True if a fault has made the device unusable in this process (device_lost). Any thread. */
bool device_hosts_lost(const struct device_hosts *h);
/* The state that the device reports (device_health). Any thread. */
void device_hosts_health(const struct device_hosts *h, struct device_health *ret);
/* True while an order or step of a host takes longer than its row allows, or a device call longer than 15 minutes (a job's too):
 * the device or its driver hangs. Any thread. */
bool device_hosts_stalled(const struct device_hosts *h);
/* "waits for PATH since TIME" if the work of a host waits for something else than the device, such as a model file. This is no
 * stall: other orders go on. Any thread. */
bool device_hosts_waits(const struct device_hosts *h, char ret_text[HOST_WAITS_TEXT]);

/* Posts an order, and takes ownership of it; false if too many orders wait (the caller then still owns it). */
bool device_hosts_post(struct device_hosts *h, enum host_kind kind, struct message *order);
struct message *device_hosts_take(struct device_hosts *h, enum host_kind kind); /* an answer; NULL if none waits */
