#include "daemon/rpc/services.h"

size_t services_methods(const struct rpc_method **ret, size_t max) {
    static const struct rpc_method *const tables[] = {
        svc_jobs,        svc_logs,   svc_events, svc_job_files, svc_validate,    svc_stream,           svc_sessions,
        svc_journal,     svc_alarms, svc_hooks,  svc_models,    svc_checkpoints, svc_checkpoint_files, svc_burst,
        svc_burst_files, svc_admin,  svc_backup, svc_metrics,   svc_health,      svc_reflection,
    };
    size_t n = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct rpc_method *m = tables[i]; m->path && n < max; m++)
            ret[n++] = m;
    return n;
}
