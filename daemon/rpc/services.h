/* services: the method tables of rpc/svc_*.c and health.c, one row per RPC. What is in no table is answered UNIMPLEMENTED. */
#ifndef BRR_DAEMON_RPC_SERVICES_H
#define BRR_DAEMON_RPC_SERVICES_H
#include "daemon/rpc/rpc.h"

extern const struct rpc_method svc_jobs[];
extern const size_t svc_jobs_count;
extern const struct rpc_method svc_admin[];
extern const size_t svc_admin_count;
extern const struct rpc_method svc_health[];
extern const size_t svc_health_count;

#endif
