#include "daemon/burst/network_host.h"

#include "daemon/hosts/niceness.h"

enum { STALLED_MS = 60 * 1000 };

static int open_networks(void *ctx, void **ret, struct err *err) {
    const struct host_site *site = ctx;
    const struct network_host_config *own = site->config;
    const struct networks_config config = {
        SAME_MEMBERS(*site, device, metrics),
        SAME_MEMBERS(*own, most, shared),
        .most_bytes = own->most_bytes ? own->most_bytes : site->info.total_bytes / 2,
        .answers = site->answers[HOST_NETWORKS],
    };
    struct networks *networks = networks_new(&config);
    if (!networks)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the networks of %s", site->info.name);
    *ret = networks;
    return 0;
}

/* message is the first member of an order. */
static void order_network(void *state, struct message *m) { networks_order(state, (struct network_order *)m); }
static bool step_networks(void *state) { return networks_step(state); }

static struct message *close_networks(void *state) {
    struct message *left = NULL;
    networks_free(state, &left);
    return left;
}

static void end_order(struct message *m) {
    struct network_order *o = (struct network_order *)m;
    o->done(o);
}

static const struct host_work network_work = {.name = "networks",
                                              .niceness = NICENESS_NETWORKS,
                                              .open = open_networks,
                                              .order = order_network,
                                              .step = step_networks,
                                              .close = close_networks};

struct host_row network_host_row(const struct network_host_config *config) {
    return (struct host_row){&network_work, STALLED_MS, end_order, config};
}
