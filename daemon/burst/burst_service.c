#include "daemon/burst/burst_service.h"

#include "base/principal.h"
#include "base/queue.h"
#include "daemon/burst/network_places.h"

int burst_service_open(struct burst_service *b, struct err *err) {
    b->places = network_places_new(b->most);
    return b->places ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the names of networks");
}

void burst_service_end_orders(struct burst_service *b) {
    for (struct message *m; (m = b->answered);) {
        b->answered = m->next;
        ((struct network_order *)m)->done((struct network_order *)m); /* message is the first member */
    }
}

void burst_service_close(struct burst_service *b) {
    burst_service_end_orders(b);
    network_places_free(b->places);
    b->places = NULL;
}

static int64_t free_bytes(const struct device_set *set, int device) {
    struct device_room room;
    device_set_room(set, device, &room);
    return room.limit_bytes - room.used_bytes - room.reserved_bytes;
}

/* An order that ends here. */
static bool answer_here(struct burst_service *b, struct network_order *o) {
    LIST_ADD_LAST(b->answered, &o->message, next);
    if (b->wake)
        b->wake(b->wake_ctx);
    return true;
}

int burst_service_devices(const struct burst_service *b, const char *text, int *ret_device, int *ret_n, struct err *err) {
    int64_t n;
    *ret_n = 1;
    if (!str_to_i64(text, &n))
        return device_set_find(b->devices, text, ret_device, err);
    *ret_device = DEVICE_ANY;
    if (n < 1 || n > device_set_count(b->devices))
        return err_set(err, ERR_INVALID, "a network on %lld devices; this daemon has %d (`devices` in daemon.yaml)", (long long)n,
                       device_set_count(b->devices));
    *ret_n = (int)n;
    return 0;
}

static bool same_kind(const struct device_set *set, int i, int k) {
    const char *a = device_set_name(set, i), *c = device_set_name(set, k);
    size_t n = strcspn(a, ":");
    return n == strcspn(c, ":") && !strncmp(a, c, n);
}

/* Returns the device with the most free memory that is usable and not yet taken; DEVICE_ANY if there is none. */
static int best_of(const struct device_set *set, int kind, unsigned taken) {
    int best = DEVICE_ANY;
    for (int i = 0; i < device_set_count(set); i++)
        if (!device_set_is_held(set, i) && !(taken >> i & 1) && (kind == DEVICE_ANY || same_kind(set, i, kind)) &&
            (best == DEVICE_ANY || free_bytes(set, i) > free_bytes(set, best)))
            best = i;
    return best;
}

/* n devices of one kind as bits; 0: there are not so many. */
static unsigned choose_devices(const struct device_set *set, int n) {
    for (int kind = n > 1 ? 0 : DEVICE_ANY; kind < device_set_count(set); kind++) {
        unsigned taken = 0;
        int found = 0;
        for (int i; found < n && (i = best_of(set, kind, taken)) != DEVICE_ANY; found++)
            taken |= 1U << i;
        if (found == n)
            return taken;
    }
    return 0;
}

/* Returns the device that leads a new network: the first of those that share it, since devices stop in their order. DEVICE_ANY: it
 * failed, and the order has the error. */
static int place_network(struct burst_service *b, struct network_order *o) {
    int only, n, first = DEVICE_ANY;
    if (burst_service_devices(b, o->device, &only, &n, &o->err))
        return DEVICE_ANY;
    unsigned taken = only == DEVICE_ANY ? choose_devices(b->devices, n) : device_set_is_held(b->devices, only) ? 0 : 1U << only;
    for (int i = 0; i < device_set_count(b->devices); i++)
        if (taken >> i & 1 && first == DEVICE_ANY)
            first = i;
        else if (taken >> i & 1)
            o->others[o->n_others++] = device_hosts_device(device_set_at(b->devices, i));
    if (!taken)
        err_set(&o->err, ERR_UNAVAILABLE,
                n > 1 ? "there are not so many devices of one kind that take networks (`brrctl devices`)"
                      : "the device takes no new networks: it has gone bad (`brrctl devices`)");
    return first;
}

static int check_share(const struct burst_service *b, struct network_order *o) {
    const int most = (int)principal_share(b->most, true), own = network_places_of(b->places, o->principal);
    return !b->shared || own < most
               ? 0
               : err_set(&o->err, ERR_EXHAUSTED,
                         "this caller has %d networks already; one caller may have %d of limits.networks (%d): destroy one", own,
                         most, b->most);
}

/* The device whose host carries the order out; DEVICE_ANY: the order has the error. */
static int device_of(struct burst_service *b, struct network_order *o) {
    if (o->message.kind == NETWORK_LIST)
        return 0;
    if (o->message.kind == NETWORK_CREATE && !*o->name)
        network_places_pick(b->places, o->name);
    int at = network_places_find(b->places, o->name);
    if (o->message.kind != NETWORK_CREATE || at != DEVICE_ANY)
        return at == DEVICE_ANY ? 0 : at; /* the host knows whether there is one */
    if (network_places_full(b->places)) {
        err_set(&o->err, ERR_EXHAUSTED, "there are %d networks, the limit of limits.networks; destroy one", b->most);
        return DEVICE_ANY;
    }
    return check_share(b, o) ? DEVICE_ANY : place_network(b, o);
}

bool burst_service_post(struct burst_service *b, struct network_order *o) {
    const bool creates = o->message.kind == NETWORK_CREATE;
    int device = device_of(b, o);
    if (device == DEVICE_ANY)
        return answer_here(b, o);
    if (creates)
        network_places_begin(b->places, o->name, o->principal, device);
    if (device_set_post(b->devices, device, HOST_NETWORKS, &o->message))
        return true;
    if (creates)
        network_places_end(b->places, o->name, false);
    return false;
}

/* What the answer of a device changes; true if the order goes on to the next device. */
static bool follow(struct burst_service *b, struct network_order *o, int device) {
    const enum network_order_kind kind = (enum network_order_kind)o->message.kind;
    if (kind == NETWORK_CREATE)
        network_places_end(b->places, o->name, !o->err.code);
    else if (kind == NETWORK_DESTROY && !o->err.code)
        network_places_drop(b->places, o->name);
    else if (kind == NETWORK_LIST && !o->err.code && device + 1 < device_set_count(b->devices))
        return device_set_post(b->devices, device + 1, HOST_NETWORKS, &o->message);
    return false;
}

struct network_order *burst_service_take(struct burst_service *b) {
    struct message *own = b->answered;
    if (own) {
        b->answered = own->next;
        return (struct network_order *)own; /* message is the first member */
    }
    int device;
    for (struct message *m; (m = device_set_take(b->devices, HOST_NETWORKS, &device));) {
        struct network_order *o = (struct network_order *)m;
        if (!follow(b, o, device))
            return o;
    }
    return NULL;
}
