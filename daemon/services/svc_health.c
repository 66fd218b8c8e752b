/* grpc.health.v1: Check answers; Watch sends the status, and each change of it. SERVING means
 * that streams and jobs are taken; /readyz says more, such as that a hook does not deliver. */

#include "base/queue.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"
#include "grpc/health/v1/health.pb-c.h"

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;

struct health_watch {
    struct rpc_call *call;
    serving_status sent;
    bool full; /* the client reads slowly: it gets the newest status when there is room */
    struct health_watch *next;
};

static serving_status status_of(const struct services *services) {
    bool ready = atomic_load(&services->ready.serving) && atomic_load(&services->ready.writable) &&
                 atomic_load(&services->ready.device_serves) &&
                 !device_watch_faults(services->device_watches, device_set_count(services->devices), true) &&
                 atomic_load(&services->ready.models) == MODELS_WARM;
    return ready ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                 : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
}

static int check(struct rpc_call *call, const void *message, struct err *err) {
    (void)message, (void)err;
    Grpc__Health__V1__HealthCheckResponse out = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    out.status = status_of(rpc_context(call));
    return convert_answer(call, &out.base);
}

static void tell(struct health_watch *w, serving_status status) {
    Grpc__Health__V1__HealthCheckResponse out = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    w->sent = out.status = status;
    w->full = !convert_send(w->call, &out.base);
}

static int watch(struct rpc_call *call, const void *message, struct err *err) {
    (void)message;
    struct services *services = rpc_context(call);
    struct health_watch *w = calloc(1, sizeof *w);
    if (!w)
        return err_set(err, ERR_EXHAUSTED, "out of memory watching health");
    w->call = call;
    w->next = services->health;
    services->health = w;
    rpc_set_state(call, w);
    tell(w, status_of(services));
    return 0;
}

static void watch_writable(struct rpc_call *call) {
    struct health_watch *w = rpc_state(call);
    if (!w)
        return;
    w->full = false;
    if (w->sent != status_of(rpc_context(call)))
        tell(w, status_of(rpc_context(call)));
}

static void watch_end(struct rpc_call *call) {
    struct services *services = rpc_context(call);
    struct health_watch *w = rpc_state(call);
    LIST_REMOVE(services->health, w, next);
    free(w);
}

void svc_health_changed(struct services *services) {
    serving_status now = status_of(services);
    for (struct health_watch *w = services->health; w; w = w->next)
        if (!w->full && w->sent != now)
            tell(w, now);
}

const struct rpc_method svc_health[] = {
    {RPC_METHOD("/grpc.health.v1.Health/Check", ROLE_READ, grpc__health__v1__health_check_request, check)},
    {RPC_METHOD("/grpc.health.v1.Health/Watch", ROLE_READ, grpc__health__v1__health_check_request, watch),
     .writable = watch_writable, .end = watch_end},
    {.path = NULL},
};
