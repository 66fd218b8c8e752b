/* networks: the spiking networks that live in the daemon, by name. The loop sends orders; the host
 * (hosts/host.h) carries them out between slices of ticks, and sends each order back with its answer: one struct travels both ways,
 * so that an answer needs no memory. Ticks and changes run in slices of about 5 ms; all orders but NETWORK_STEP act between two
 * slices of ticks, and wait while a patch of their network is under way. Steps of one network run one after the other; networks
 * take turns.
 *
 * Bounded: networks, memory of each and of all, orders that wait for one network, its observers.
 * Thread: network_order_new and _free any; everything else belongs to the host. */
#pragma once

#include "base/metrics.h"
#include "burst/burst.h"
#include "daemon/burst/network_team.h"
#include "daemon/burst/observer.h"

enum {
    NETWORK_NAME_SIZE = 64,
    NETWORK_MOST_OBSERVERS = 64,
    NETWORK_MOST_STEPS = 64,         /* Step orders that wait for one network */
    NETWORK_NAMED_AREAS = 256,       /* of struct network_info */
    NETWORK_FIRED_NEURONS = 1 << 20, /* largest network whose Step may collect fired neurons or membranes */
    NETWORK_FIRED_IDS = 1 << 18,     /* a Step that collects ends once it has so many */
    NETWORK_FIRED_FRAMES = 1 << 14,
    NETWORK_LEDGER_TICKS = 1024,     /* whose spikes are kept, */
    NETWORK_LEDGER_SPIKES = 1 << 20, /* at most so many */
};

/* Above the kinds of live_order, with which these share a mailbox. */
enum network_order_kind {
    NETWORK_CREATE = 64,
    NETWORK_REPLACE, /* the network by another one; name, options and observers stay */
    NETWORK_LIST,
    NETWORK_INJECT,
    NETWORK_PATCH,
    NETWORK_STEP,
    NETWORK_OBSERVE,
    NETWORK_LEND,   /* its state, and its arrays until RETURN; meanwhile it does not change */
    NETWORK_RETURN, /* no answer: done is NULL */
    NETWORK_DESTROY
};

enum network_change_kind {
    NETWORK_SET_NEURON,
    NETWORK_DELETE_NEURON,
    NETWORK_SET_SYNAPSE,
    NETWORK_DELETE_SYNAPSE,
    NETWORK_SET_AREA
};
enum { NETWORK_OWNER_SIZE = 256 };
struct network_change {
    enum network_change_kind kind;
    uint32_t id;
    enum burst_field field;
    double value;
    struct burst_synapse synapse; /* of DELETE_SYNAPSE source and target alone */
    int area;
    bool psp_divide, mp_driven_psp;
    float power;
};

struct network_info {
    char name[NETWORK_NAME_SIZE], device[32]; /* device: its name */
    int64_t neurons, synapses, tick, bytes, budget_bytes, pending, fired_total;
    int observers, n_areas, n_named;
    bool every_tick;
    char (*areas)[CONNECTOME_NAME_SIZE]; /* (n_named) malloc'd */
};

/* Fired neurons of one tick: ids[first … first + n) of the order. */
struct network_frame {
    uint64_t tick;
    int64_t candidates, first, n;
};

struct network_order {
    struct message message; /* kind: enum network_order_kind */
    char name[NETWORK_NAME_SIZE];
    char principal[NETWORK_OWNER_SIZE];    /* who orders; "" = nobody in particular. A CREATE makes it the network's owner */
    bool all;                              /* it may use the networks of all owners */
    const atomic_bool *gone;               /* the caller has left: what has not begun is CANCELLED, a Step ends. NULL: never */
    void (*done)(struct network_order *o); /* on the loop; frees the order */
    void *owner;
    /* CREATE, REPLACE: taken. name empty: one is picked */
    struct connectome *net;
    struct burst_state state; /* neurons 0: none */
    bool every_tick;
    int64_t max_pending, budget_bytes;
    char device[32]; /* CREATE: the name of the device, or a number of devices that share it; "" = any one */
    struct device *others[NETWORK_MOST_DEVICES]; /* CREATE: devices beside the host's own that share it; they outlive the host */
    int n_others;
    /* INJECT */
    struct burst_injection *injections;
    bool next_tick; /* all of them, whatever their ticks */
    /* PATCH */
    struct network_change *changes;
    int64_t count;   /* of injections or changes */
    int64_t changed; /* PATCH: changes that were made */
    int64_t failed;  /* PATCH, in the answer: the change that failed; -1: none did */
    /* STEP */
    int64_t ticks;
    bool want_fired, want_membranes; /* membranes: `state` is that after the last tick */
    /* OBSERVE: held for the network; it gets so many of the newest ticks first, the answer says how many */
    struct observer *observer;
    int64_t last_ticks;

    /* The answer. */
    struct err err;
    struct network_info *infos; /* (n_infos): LIST adds all of the device, otherwise the network */
    int n_infos;
    int64_t ran, fired, events; /* STEP */
    double seconds;
    struct network_frame *frames; /* STEP with want_fired */
    uint32_t *ids;
    int64_t n_frames, frame_room, n_ids, id_room;
    const struct connectome *lent; /* LEND; state has the state */
};
struct network_order *network_order_new(enum network_order_kind kind, const char *name);
void network_order_free(struct network_order *o); /* and everything it owns; NULL is fine */

struct networks_config {
    struct device *device;
    int most;                /* networks */
    int64_t most_bytes;      /* memory of all */
    bool shared;             /* callers have tokens, and each a share of it (base/principal.h) */
    struct mailbox *answers; /* orders go back through it */
    struct metrics *metrics; /* may be NULL */
};
struct networks;
/* NULL when out of memory. */
struct networks *networks_new(const struct networks_config *config);
/* Orders that are not done are left to *ret_left, linked by message.next. */
void networks_free(struct networks *n, struct message **ret_left);
/* Carries out or queues one order; owns it until it is sent back. */
void networks_order(struct networks *n, struct network_order *o);
/* Runs one slice of one network; false when no network has anything to do. */
bool networks_step(struct networks *n);
