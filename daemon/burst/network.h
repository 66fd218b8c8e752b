/* network: one network of daemon/burst/networks: its engine, the Steps that wait for it, and its observers. Device worker only. */
#pragma once
#include "burst/ledger.h"
#include "daemon/burst/network_team.h"
#include "daemon/burst/networks.h"

/* Series that all networks feed. */
struct network_metrics {
    struct metric *ticks, *tick_seconds, *spikes, *overruns;
};

struct network {
    char name[NETWORK_NAME_SIZE], owner[NETWORK_OWNER_SIZE]; /* owner "": everybody's */
    struct device *others[NETWORK_MOST_DEVICES];             /* devices that share it with the host's own */
    int n_others;
    struct network_team *team;
    struct burst_options options;
    int64_t budget_bytes, fired_total;
    struct ledger ledger; /* of the newest ticks, beside the budget */
    const struct network_metrics *metrics;
    struct observer *observers[NETWORK_MOST_OBSERVERS];
    int n_observers;
    struct message *first_step, *last_step; /* Step orders; the first one runs */
    int n_steps;
    struct network_order *patch;            /* whose changes are being made; NULL: none */
    struct message *first_held, *last_held; /* orders that wait until the patch is over or the lent network is returned */
    bool lent;
    int64_t slice; /* ticks of the next one */
};

/* From a CREATE or REPLACE order, whose network and state it takes. most_bytes: memory that is left for it. */
int network_build(const struct network_team_config *config, struct network_order *o, int64_t most_bytes, struct network_team **ret,
                  struct err *err);
/* A new ledger of no ticks. */
int network_begin_ledger(struct network *n, struct err *err);
int network_inject(struct network *n, struct network_order *o, struct err *err);
/* Changes of the order for one slice; true when it is over: o->err says how, o->failed names the change that failed. */
bool network_patch(struct network *n, struct network_order *o);
int network_observe(struct network *n, struct network_order *o, struct err *err);
/* INVALID if the ticks of the order are to be collected and the network is too large for it. */
int network_may_collect(const struct network *n, const struct network_order *o, struct err *err);
/* One slice of the first Step; true when the Step is over: o->err says how. */
bool network_slice(struct network *n, struct network_order *o);
/* Into o->infos[o->n_infos++]; there is room. */
int network_describe(struct network *n, struct network_order *o, struct err *err);
/* Ends its observers and frees the engine; no order is left. */
void network_done(struct network *n);
