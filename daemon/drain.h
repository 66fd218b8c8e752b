/* drain: the end of all streams when the daemon stops. Clients hear it and have a moment for what is on its way; then no more
 * samples are read, resumable sessions get a last snapshot, and every connection ends with the number of samples that are durable.
 * Loop thread. */
#pragma once
#include <uv.h>

#include "daemon/live/session.h"

enum drain_phase { DRAIN_NOT, DRAIN_ANNOUNCED, DRAIN_SAVING, DRAIN_LEAVING, DRAIN_OVER };
struct drain {
    uv_timer_t timer;
    enum drain_phase phase;
    int64_t since_ms;
    struct sessions *sessions;
    void (*over)(void *ctx);
    void *ctx;
};
void drain_init(struct drain *d, uv_loop_t *loop);
/* over: on the loop, when the last connection has ended. With no streams that is at once, and over is not called. */
void drain_start(struct drain *d, struct sessions *sessions, void (*over)(void *ctx), void *ctx);
bool drain_is_over(const struct drain *d);
void drain_close(struct drain *d); /* its handle, before the loop ends */
