/* burst_ask: a call that waits for an order to the host about spiking networks (burst/networks.h). Shared by svc_burst.c
 * and svc_burst_files.c. Loop thread. */
#pragma once
#include "brr/v1/burst.pb-c.h"
#include "daemon/burst/networks.h"
#include "daemon/services/offload.h"
#include "daemon/services/services.h"

/* First member of such a call's state. */
struct burst_ask {
    struct offload work;
    struct network_order *order; /* in the answer callback: with the answer, owned by the state */
};

/* Sends o, which it owns, and calls `answered` once it is back, also when the call has ended meanwhile (work->call is NULL then).
 * The order stays in a->order until burst_ask_done. When it cannot be sent the call is refused. */
void burst_ask(struct burst_ask *a, struct network_order *o, void (*answered)(struct offload *work));
/* Frees the order. */
void burst_ask_done(struct burst_ask *a);
/* Ends the call with the order's error, if it has one and somebody listens; false then, and when nobody does. */
bool burst_ask_good(const struct burst_ask *a);

/* In the call's arena; strings point into info. NULL when the arena is full. */
Brr__V1__Network *burst_message_of(struct rpc_call *call, const struct network_info *info);
/* Answers a call with the order's network. */
void burst_answer_network(struct burst_ask *a);
