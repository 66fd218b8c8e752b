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
    struct network_order *order; /* in `answered`: with the answer; freed after it */
    void (*answered)(struct offload *work);
};

/* Sends o, which it owns, and calls `answered` once it is back, also when the call has ended meanwhile (work->call is NULL then).
 * work->err is the order's. When it cannot be sent the call is refused. */
void burst_ask(struct burst_ask *a, struct network_order *o, void (*answered)(struct offload *work));

/* In the arena; strings point into info. NULL when the arena is full. */
Brr__V1__Network *burst_message_of(struct arena *arena, const struct network_info *info);
