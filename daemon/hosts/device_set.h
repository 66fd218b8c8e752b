/* device_set: the devices of the daemon, each with its hosts (hosts/device_hosts.h), and what lies where. It knows the device of
 * each stream, served model and spiking network, gives new ones a device, and keeps the account of device memory: what models and
 * networks hold, and what a job was promised. Jobs run on the same devices on threads of their own (jobs/worker.h). Devices are
 * named by their index in the configuration's list. Loop thread only, except where noted. */
#ifndef BRR_DAEMON_HOSTS_DEVICE_SET_H
#define BRR_DAEMON_HOSTS_DEVICE_SET_H
#include "daemon/hosts/device_hosts.h"

enum { DEVICE_SET_MAX = 16, DEVICE_ANY = -1 };

struct device_set_config {
    const char *const *names; /* "cpu", "cpu:N", "cuda:N"; each once */
    int n;
    int threads;                      /* of all CPU devices together, which share them; 0 = all of the machine */
    struct device_hosts_config hosts; /* of each device; without device, threads and shares, which the set fills in */
};
struct device_set;
/* Opens the devices and starts their hosts. */
int device_set_start(const struct device_set_config *config, struct device_set **ret, struct err *err);
/* Stops the hosts and closes the devices: nothing else may use them any more. NULL is allowed. */
void device_set_stop(struct device_set *set);

int device_set_count(const struct device_set *set);                           /* NULL: 0; any thread */
struct device_hosts *device_set_at(const struct device_set *set, int device); /* any thread */
const char *device_set_name(const struct device_set *set, int device);        /* any thread */
/* The index of a device by its name; "" is DEVICE_ANY. NOT_FOUND lists the names that there are. Any thread. */
int device_set_find(const struct device_set *set, const char *name, int *ret, struct err *err);
/* The device has gone bad: new streams and networks go to others. */
void device_set_hold(struct device_set *set, int device);
/* A fault has made a device unusable in this process; DEVICE_ANY: none. Any thread. */
int device_set_lost(const struct device_set *set);
/* True while an order or call of a device hangs (device_hosts_stalled). Any thread. */
bool device_set_stalled(const struct device_set *set);
/* "waits for PATH since TIME" if a model file of a device does not answer. Any thread. */
bool device_set_waits(const struct device_set *set, char ret_text[MODEL_LOADER_TEXT]);

/* ---- memory ---- */

struct device_room {
    int64_t limit_bytes;    /* what models, networks and the job of the device may use together */
    int64_t used_bytes;     /* allocated now */
    int64_t reserved_bytes; /* promised to the running job and not allocated yet */
};
void device_set_room(const struct device_set *set, int device, struct device_room *ret);
/* A job that needs so much begins on the device; 0: unknown. device_set_release: it has ended. */
void device_set_reserve(struct device_set *set, int device, int64_t bytes);
void device_set_release(struct device_set *set, int device);

/* ---- streams and models ---- */

/* The device for a new stream: the one of that name, or the one with the fewest streams. allowed: bit i if it may be device i; 0:
 * any. INVALID: the device of that name is not allowed. UNAVAILABLE: it takes nothing new. */
int device_set_place_stream(struct device_set *set, const char *wanted, uint32_t allowed, int *ret, struct err *err);
int device_set_streams(const struct device_set *set, int device);
/* Posts an order for a stream or a model to its device, and takes ownership of it; false if too many orders wait. */
bool device_set_post_stream(struct device_set *set, struct live_order *o);
/* A report of any device, whose index it carries; NULL if none waits. */
struct live_report *device_set_take_stream(struct device_set *set);

/* ---- spiking networks ---- */

/* Posts an order to the device of its network. CREATE goes to the device that it names, else to the one with the most free memory;
 * a LIST visits all devices. False if too many orders wait. */
bool device_set_post_network(struct device_set *set, struct network_order *o);
struct network_order *device_set_take_network(struct device_set *set); /* NULL if no answer waits */

#endif
