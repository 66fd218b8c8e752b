#include "daemon/rpc/services.h"

size_t services_methods(const struct rpc_method **ret, size_t max) {
    const struct {
        const struct rpc_method *rows;
        size_t count;
    } tables[] = {{svc_jobs, svc_jobs_count},
                  {svc_logs, svc_logs_count},
                  {svc_events, svc_events_count},
                  {svc_job_files, svc_job_files_count},
                  {svc_validate, svc_validate_count},
                  {svc_stream, svc_stream_count},
                  {svc_sessions, svc_sessions_count},
                  {svc_journal, svc_journal_count},
                  {svc_hooks, svc_hooks_count},
                  {svc_models, svc_models_count},
                  {svc_checkpoints, svc_checkpoints_count},
                  {svc_checkpoint_files, svc_checkpoint_files_count},
                  {svc_burst, svc_burst_count},
                  {svc_burst_files, svc_burst_files_count},
                  {svc_admin, svc_admin_count},
                  {svc_backup, svc_backup_count},
                  {svc_metrics, svc_metrics_count},
                  {svc_health, svc_health_count},
                  {svc_reflection, svc_reflection_count}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (size_t k = 0; k < tables[i].count && n < max; k++)
            ret[n++] = &tables[i].rows[k];
    return n;
}
