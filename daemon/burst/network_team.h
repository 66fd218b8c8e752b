/* network_team: the engine of one network, on one device or shared by several. On several each rank has a thread of its own, but
 * for rank 0, which is the caller: all of them carry out each call together and return when all are done, with the same bits as one
 * device. One owner; all calls on the host's thread. */
#pragma once
#include "burst/burst.h"

enum { NETWORK_MOST_DEVICES = 16 };

struct network_team;
/* Takes net over, also when it fails. lead: a stream of the first device; others: the further ones, which outlive the team. */
struct network_team_config {
    struct stream *lead;
    const struct burst_options *options;
    struct device *const *others;
    int n_others;
};
int network_team_new(const struct network_team_config *config, struct connectome *net, struct network_team **ret, struct err *err);
void network_team_free(struct network_team *t); /* NULL is fine */

int network_team_devices(const struct network_team *t);
/* The whole network; host memory, as it is now. */
const struct connectome *network_team_connectome(const struct network_team *t);
/* Rank 0's: the tick, injections that wait, options. Changes of synapses and areas are for a network on one device alone. */
struct burst *network_team_burst(const struct network_team *t);
int64_t network_team_bytes(const struct network_team *t); /* of all devices */

/* As the functions of burst/burst.h. An error of a step, a save or a restore on several devices is final: they no longer agree, and
 * later calls fail. On several devices `seconds` does not bound a step. */
struct team_neuron {
    uint32_t id;
    enum burst_field field;
    double value;
};
int network_team_inject(struct network_team *t, const struct burst_injection *list, int64_t n, struct err *err);
int network_team_set_neuron(struct network_team *t, const struct team_neuron *change, struct err *err);
int network_team_delete_neuron(struct network_team *t, uint32_t id, struct err *err);
struct team_ticks {
    int64_t ticks;
    double seconds;
    burst_sink *sink; /* of rank 0 */
    void *ctx;
};
int network_team_step(struct network_team *t, const struct team_ticks *step, struct err *err);
int network_team_save(struct network_team *t, struct burst_state *ret, struct err *err);
int network_team_restore(struct network_team *t, const struct burst_state *state, struct err *err);
