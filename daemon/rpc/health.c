/* grpc.health.v1: Check answers; Watch sends the present status and stays open. */
#include "daemon/rpc/convert.h"
#include "daemon/rpc/services.h"
#include "grpc/health/v1/health.pb-c.h"

static void status(struct rpc_call *call, const uint8_t *data, size_t len, bool last) {
    struct services *services = rpc_context(call);
    if (!convert_unpack(call, &grpc__health__v1__health_check_request__descriptor, data, len))
        return;
    Grpc__Health__V1__HealthCheckResponse out = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    bool ready = services->serving && !device_watch_verdict(services->watch); /* as /readyz */
    out.status = ready ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                       : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
    if (last)
        convert_answer(call, &out.base);
    else
        convert_send(call, &out.base);
}

static void check(struct rpc_call *call, const uint8_t *data, size_t len) { status(call, data, len, true); }
static void watch(struct rpc_call *call, const uint8_t *data, size_t len) { status(call, data, len, false); }

const struct rpc_method svc_health[] = {
    {"/grpc.health.v1.Health/Check", ROLE_READ, false, RPC_CONTROL_BYTES, check, NULL, NULL, NULL},
    {"/grpc.health.v1.Health/Watch", ROLE_READ, false, RPC_CONTROL_BYTES, watch, NULL, NULL, NULL},
};
const size_t svc_health_count = sizeof svc_health / sizeof *svc_health;
