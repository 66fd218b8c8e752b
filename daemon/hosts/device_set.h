/* device_set: the devices of the daemon, each with its hosts (hosts/device_hosts.h), and the account of their memory: what models
 * and networks hold, and what a job was promised. Which stream or network lies where, live/stream_places and burst/burst_service
 * know. Jobs run on the same devices on threads of their own (jobs/worker.h). Devices are named by their index in the
 * configuration's list. Loop thread only, except where noted. */
#pragma once
#include "base/arena.h"
#include "daemon/hosts/device_hosts.h"

enum { DEVICE_SET_MAX = 16, DEVICE_ANY = -1 };

struct device_set_config {
    const char *const *names; /* "cpu", "cpu:N", "cuda:N"; each once */
    int n;
    int threads;                      /* of all CPU devices together, which share them; 0 = all of the machine */
    bool jobs_in_processes;           /* of their own: what they allocate is not counted here */
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
/* "cuda:0, cuda:1": those whose bit is set; NULL when the arena is full. */
char *device_set_names(const struct device_set *set, uint32_t devices, struct arena *arena);
/* The index of a device by its name; "" is DEVICE_ANY. NOT_FOUND lists the names that there are. Any thread. */
int device_set_find(const struct device_set *set, const char *name, int *ret, struct err *err);
/* The device has gone bad: new streams and networks go to others. */
void device_set_hold(struct device_set *set, int device);
bool device_set_is_held(const struct device_set *set, int device);
/* A fault has made a device unusable in this process; DEVICE_ANY: none. Any thread. */
int device_set_lost(const struct device_set *set);
/* True while an order or call of a device hangs (device_hosts_stalled). Any thread. */
bool device_set_stalled(const struct device_set *set);
/* "waits for PATH since TIME" if what a host waits for does not answer (device_hosts_waits). Any thread. */
bool device_set_waits(const struct device_set *set, char ret_text[HOST_WAITS_TEXT]);

/* Posts an order to a host of the device, and takes ownership of it; false if too many orders wait. */
bool device_set_post(struct device_set *set, int device, enum host_kind kind, struct message *order);
/* An answer of a host of any device; NULL if none waits. */
struct message *device_set_take(struct device_set *set, enum host_kind kind, int *ret_device);

/* ---- memory ---- */

struct device_room {
    int64_t limit_bytes;    /* what models, networks and the jobs of the device may use together */
    int64_t used_bytes;     /* allocated now by this process */
    int64_t reserved_bytes; /* promised to the running jobs, without what they have allocated in this process */
};
void device_set_room(const struct device_set *set, int device, struct device_room *ret);
/* A job that needs so much begins on the device; 0: unknown. device_set_release: this job has ended. */
void device_set_reserve(struct device_set *set, int device, int64_t bytes);
void device_set_release(struct device_set *set, int device, int64_t bytes);
