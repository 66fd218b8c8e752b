/* device_hosts: a device of the daemon and the threads that serve it: one for live windows, one for replays
 * (streams that are not realtime) and one for spiking networks, each with its own mailbox and working memory. On a CPU live windows
 * come first (device_live_begin, kernels/device.h), and the threads differ in niceness; a GPU runs the stream of live windows
 * first. Jobs use the same device from a thread of their own (jobs/worker.h). Loop thread only, except where noted. */
#ifndef BRR_DAEMON_HOSTS_DEVICE_HOSTS_H
#define BRR_DAEMON_HOSTS_DEVICE_HOSTS_H
#include "daemon/burst/networks.h"
#include "daemon/live/live.h"
#include "kernels/device.h"

struct device_hosts_config {
    const char *device;         /* "cpu", "cpu:N", "cuda:N" */
    int threads;                /* of a CPU; 0 = all */
    int shares;                 /* number of CPU devices that share the memory; 0 and 1: it is the only one */
    int64_t memory_limit_bytes; /* device memory of one model or job; 0 = nine tenths of the device */
    enum dtype precision;       /* of models of streams */
    int max_networks;
    int64_t networks_bytes;  /* of all networks; 0 = half of the device */
    struct metrics *metrics; /* may be NULL */
    mailbox_wake_fn *wake;   /* called on a host's thread when reports or answers wait */
    void *wake_ctx;
};
struct device_hosts;
/* Opens the device and starts its hosts. */
int device_hosts_start(const struct device_hosts_config *config, struct device_hosts **ret, struct err *err);
/* Stops the hosts, sends back orders that nobody answered, closes the device: nothing else may use it any more. NULL is allowed. */
void device_hosts_stop(struct device_hosts *h);

struct device *device_hosts_device(const struct device_hosts *h); /* any thread */
void device_hosts_describe(const struct device_hosts *h, struct device_info *ret);
int64_t device_hosts_memory_limit(const struct device_hosts *h); /* bytes that one job may use */
/* True if a fault has made the device unusable in this process (device_lost). Any thread. */
bool device_hosts_lost(const struct device_hosts *h);
/* The state that the device reports (device_health). Any thread. */
void device_hosts_health(const struct device_hosts *h, struct device_health *ret);
/* True while an order or step of a host takes longer than a minute (ten for replays), or a device call longer than 15 minutes (a
 * job's too): the device or its driver hangs. Any thread. */
bool device_hosts_stalled(const struct device_hosts *h);

/* "waits for PATH since TIME" if a model file does not answer (model_loader_waits). This is no stall: other streams go on. Any
 * thread. */
bool device_hosts_waits(const struct device_hosts *h, char ret_text[MODEL_LOADER_TEXT]);

/* Posts an order for a stream or a model, and takes ownership of it; false if too many
 * orders wait (the caller then still owns it). */
bool device_hosts_post_stream(struct device_hosts *h, struct live_order *o);
struct live_report *device_hosts_take_stream(struct device_hosts *h); /* NULL if no report waits */
/* The same for spiking networks; an order that was taken is answered by the same order. */
bool device_hosts_post_network(struct device_hosts *h, struct network_order *o);
struct network_order *device_hosts_take_network(struct device_hosts *h); /* NULL if no answer waits */

#endif
