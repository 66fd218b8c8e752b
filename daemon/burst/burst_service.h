/* burst_service: the spiking networks of the daemon over all devices. It knows the device of each network, gives new ones a device,
 * and keeps what calls on networks share. Loop thread. */
#pragma once
#include "daemon/burst/networks.h"
#include "daemon/hosts/device_set.h"

struct network_places;
struct observing;

struct burst_service {
    struct device_set *devices;
    struct network_places *places;
    struct message *answered; /* orders that no device has seen */
    int most;                 /* networks */
    bool shared;              /* callers have tokens, and each a share of them (base/principal.h) */
    void (*wake)(void *ctx);  /* answers wait. Any thread */
    void *wake_ctx;
    int64_t network_bytes;        /* largest budget of a network */
    struct observer_share frames; /* of all observers */
    struct observing *observings; /* open Observe calls, services/svc_burst.c */
    int files;                    /* calls that hold a network or snapshot as a file, services/svc_burst_files.c */
};
/* devices, most, shared, wake, wake_ctx, network_bytes and frames.most are set. EXHAUSTED: out of memory. */
int burst_service_open(struct burst_service *b, struct err *err);
/* Answers the orders that wait here. */
void burst_service_end_orders(struct burst_service *b);
/* After the devices have been stopped, which end their orders. Twice is fine. */
void burst_service_close(struct burst_service *b);

/* The device that `text` names (DEVICE_ANY: none), and how many devices it asks for: "cuda:1", "4" or "". */
int burst_service_devices(const struct burst_service *b, const char *text, int *ret_device, int *ret_n, struct err *err);
/* Posts an order to the device of its network. CREATE goes to the device that it names, else to the one with the most free memory,
 * or to the first of so many of one kind; a LIST visits all devices. Takes ownership; false if too many orders wait. */
bool burst_service_post(struct burst_service *b, struct network_order *o);
struct network_order *burst_service_take(struct burst_service *b); /* NULL if no answer waits */
