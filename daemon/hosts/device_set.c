#include "daemon/hosts/device_set.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/queue.h"
#include "base/str.h"
#include "daemon/hosts/network_places.h"
#include "daemon/live/live_stream.h"

struct place {
    struct device_hosts *hosts;
    struct device_info info;
    bool held; /* it has gone bad */
    int streams;
    int64_t promised_bytes, before_bytes; /* to the running job; allocated when it began */
};

struct device_set {
    struct device_set_config config;
    struct place places[DEVICE_SET_MAX];
    int n; /* started */
    struct network_places *networks;
    struct message *answered; /* orders of networks that no device has seen */
};

/* ---- life ---- */

/* CPU devices share the threads evenly; each has at least one. */
static int threads_of(int all, int shares, int place) {
    int own = all / shares + (place < all % shares);
    return own > 0 ? own : 1;
}

static int start_all(struct device_set *set, struct err *err) {
    const struct device_set_config *c = &set->config;
    int shares = 0, cpu = 0, all = c->threads;
    int rc;
    for (int i = 0; i < c->n; i++)
        shares += str_starts(c->names[i], "cpu");
    struct device_info machine;
    if (!all && shares > 1 && (rc = device_probe("cpu", &machine, err)))
        return rc;
    if (!all && shares > 1)
        all = machine.threads;
    for (; set->n < c->n; set->n++) {
        struct device_hosts_config hosts = c->hosts;
        bool is_cpu = str_starts(c->names[set->n], "cpu");
        hosts.device = c->names[set->n];
        hosts.shares = shares;
        hosts.threads = is_cpu && shares > 1 ? threads_of(all, shares, cpu++) : all;
        struct place *p = &set->places[set->n];
        if ((rc = device_hosts_start(&hosts, &p->hosts, err)))
            return rc;
        device_hosts_describe(p->hosts, &p->info);
    }
    return 0;
}

int device_set_start(const struct device_set_config *config, struct device_set **ret, struct err *err) {
    struct device_set *set = calloc(1, sizeof *set);
    if (!set || !(set->networks = network_places_new(config->hosts.max_networks))) {
        free(set);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the devices");
    }
    set->config = *config;
    int rc = start_all(set, err);
    if (rc) {
        device_set_stop(set);
        return rc;
    }
    *ret = set;
    return 0;
}

void device_set_stop(struct device_set *set) {
    if (!set)
        return;
    for (struct message *m = set->answered, *next; m; m = next) {
        next = m->next;
        ((struct network_order *)m)->done((struct network_order *)m);
    }
    for (int i = 0; i < set->n; i++)
        device_hosts_stop(set->places[i].hosts);
    network_places_free(set->networks);
    free(set);
}

/* ---- the devices ---- */

int device_set_count(const struct device_set *set) { return set ? set->n : 0; }
struct device_hosts *device_set_at(const struct device_set *set, int device) {
    return set->places[device].hosts;
}
const char *device_set_name(const struct device_set *set, int device) { return set->places[device].info.name; }
int device_set_streams(const struct device_set *set, int device) { return set->places[device].streams; }
void device_set_hold(struct device_set *set, int device) { set->places[device].held = true; }

int device_set_find(const struct device_set *set, const char *name, int *ret, struct err *err) {
    struct str names;
    *ret = DEVICE_ANY;
    if (!*name)
        return 0;
    for (int i = 0; i < set->n; i++)
        if (!strcmp(set->places[i].info.name, name)) {
            *ret = i;
            return 0;
        }
    str_init(&names, 1024);
    for (int i = 0; i < set->n; i++)
        str_printf(&names, "%s%s", i ? ", " : "", set->places[i].info.name);
    int rc = err_set(err, ERR_NOT_FOUND, "device: this daemon has no device '%.40s'; expected %s", name, str_cstr(&names));
    str_done(&names);
    return rc;
}

int device_set_lost(const struct device_set *set) {
    for (int i = 0; i < set->n; i++)
        if (device_hosts_lost(set->places[i].hosts))
            return i;
    return DEVICE_ANY;
}

bool device_set_stalled(const struct device_set *set) {
    for (int i = 0; i < set->n; i++)
        if (device_hosts_stalled(set->places[i].hosts))
            return true;
    return false;
}

bool device_set_waits(const struct device_set *set, char ret_text[MODEL_LOADER_TEXT]) {
    for (int i = 0; i < set->n; i++)
        if (device_hosts_waits(set->places[i].hosts, ret_text))
            return true;
    return false;
}

/* ---- memory ---- */

static int64_t allocated(const struct place *p) {
    int64_t live = 0, count = 0;
    device_alloc_stats(device_hosts_device(p->hosts), &live, &count);
    return live;
}

void device_set_room(const struct device_set *set, int device, struct device_room *ret) {
    const struct place *p = &set->places[device];
    int64_t used = allocated(p), promised = p->promised_bytes ? p->before_bytes + p->promised_bytes : 0;
    *ret = (struct device_room){.limit_bytes = device_hosts_memory_limit(p->hosts),
                                .used_bytes = used,
                                .reserved_bytes = promised > used ? promised - used : 0};
}

void device_set_reserve(struct device_set *set, int device, int64_t bytes) {
    struct place *p = &set->places[device];
    p->before_bytes = allocated(p);
    p->promised_bytes = bytes;
}

void device_set_release(struct device_set *set, int device) { set->places[device].promised_bytes = 0; }

static int64_t free_bytes(const struct device_set *set, int device) {
    struct device_room room;
    device_set_room(set, device, &room);
    return room.limit_bytes - room.used_bytes - room.reserved_bytes;
}

/* ---- streams and models ---- */

int device_set_place_stream(struct device_set *set, const char *wanted, uint32_t allowed, int *ret, struct err *err) {
    int only, best = DEVICE_ANY, rc = device_set_find(set, wanted, &only, err);
    if (rc)
        return rc;
    if (allowed && only != DEVICE_ANY && !(allowed >> only & 1))
        return err_set(err, ERR_INVALID, "device %s is none of the model's", wanted);
    for (int i = 0; i < set->n; i++)
        if (!set->places[i].held && (only == DEVICE_ANY || only == i) && (!allowed || allowed >> i & 1) &&
            (best == DEVICE_ANY || set->places[i].streams < set->places[best].streams))
            best = i;
    if (best == DEVICE_ANY)
        return err_set(err, ERR_UNAVAILABLE, "%s takes no new streams: it has gone bad (`brrctl devices`)",
                       only == DEVICE_ANY ? "the device" : set->places[only].info.name);
    *ret = best;
    return 0;
}

bool device_set_post_stream(struct device_set *set, struct live_order *o) {
    const enum live_order_kind kind = (enum live_order_kind)o->message.kind;
    struct place *p = &set->places[o->stream ? live_stream_open(o->stream)->device : o->device];
    if (!device_hosts_post_stream(p->hosts, o))
        return false;
    p->streams += kind == LIVE_OPEN ? 1 : kind == LIVE_CLOSE ? -1 : 0;
    return true;
}

struct live_report *device_set_take_stream(struct device_set *set) {
    for (int i = 0; i < set->n; i++) {
        struct live_report *r = device_hosts_take_stream(set->places[i].hosts);
        if (!r)
            continue;
        r->device = i;
        return r;
    }
    return NULL;
}

/* ---- spiking networks ---- */

/* An order that ends here. */
static bool answer_here(struct device_set *set, struct network_order *o) {
    LIST_ADD_LAST(set->answered, &o->message, next);
    if (set->config.hosts.wake)
        set->config.hosts.wake(set->config.hosts.wake_ctx);
    return true;
}

/* The device of a new network; DEVICE_ANY: the order has the error. */
static int place_network(struct device_set *set, struct network_order *o) {
    int only, best = DEVICE_ANY;
    if (device_set_find(set, o->device, &only, &o->err))
        return DEVICE_ANY;
    for (int i = 0; i < set->n; i++)
        if ((only == DEVICE_ANY || only == i) && !set->places[i].held &&
            (best == DEVICE_ANY || free_bytes(set, i) > free_bytes(set, best)))
            best = i;
    if (best == DEVICE_ANY)
        err_set(&o->err, ERR_UNAVAILABLE, "the device takes no new networks: it has gone bad (`brrctl devices`)");
    return best;
}

/* The device whose host carries the order out; DEVICE_ANY: the order has the error. */
static int device_of(struct device_set *set, struct network_order *o) {
    if (o->message.kind == NETWORK_LIST)
        return 0;
    if (o->message.kind == NETWORK_CREATE && !*o->name)
        network_places_pick(set->networks, o->name);
    int at = network_places_find(set->networks, o->name);
    if (o->message.kind != NETWORK_CREATE || at != DEVICE_ANY)
        return at == DEVICE_ANY ? 0 : at; /* the host knows whether there is one */
    if (network_places_full(set->networks)) {
        err_set(&o->err, ERR_EXHAUSTED, "there are %d networks, the limit of limits.networks; destroy one",
                set->config.hosts.max_networks);
        return DEVICE_ANY;
    }
    return place_network(set, o);
}

bool device_set_post_network(struct device_set *set, struct network_order *o) {
    const bool creates = o->message.kind == NETWORK_CREATE;
    int device = device_of(set, o);
    if (device == DEVICE_ANY)
        return answer_here(set, o);
    if (creates)
        network_places_begin(set->networks, o->name, device);
    if (device_hosts_post_network(set->places[device].hosts, o))
        return true;
    if (creates)
        network_places_end(set->networks, o->name, false);
    return false;
}

/* What the answer of a device changes; true if the order goes on to the next device. */
static bool follow(struct device_set *set, struct network_order *o, int device) {
    const enum network_order_kind kind = (enum network_order_kind)o->message.kind;
    if (kind == NETWORK_CREATE)
        network_places_end(set->networks, o->name, !o->err.code);
    else if (kind == NETWORK_DESTROY && !o->err.code)
        network_places_drop(set->networks, o->name);
    else if (kind == NETWORK_LIST && !o->err.code && device + 1 < set->n)
        return device_hosts_post_network(set->places[device + 1].hosts, o);
    return false;
}

struct network_order *device_set_take_network(struct device_set *set) {
    struct message *own = set->answered;
    if (own) {
        set->answered = own->next;
        return (struct network_order *)own; /* message is the first member */
    }
    for (int i = 0; i < set->n; i++)
        for (struct network_order *o; (o = device_hosts_take_network(set->places[i].hosts));)
            if (!follow(set, o, i))
                return o;
    return NULL;
}
