/* The families of /metrics that the daemon feeds, one row each; those of the kinds of job stand in their rows (run/kind.h). HELP
 * and TYPE are always printed. Names are part of the interface. */
#include "daemon/server.h"

static const double rpc_buckets[] = {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30};
static const double compute_buckets[] = {.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2};
static const double lag_buckets[] = {.01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 30, 60};
static const double batch_buckets[] = {1, 2, 4, 8, 16, 32, 64};
static const double run_buckets[] = {1, 10, 60, 300, 1800, 3600, 10800, 21600, 43200, 86400, 172800};

#define BUCKETS(b) b, sizeof b / sizeof *b

const struct metric_family metrics_families[] = {
    {"brrd_build_info", METRIC_GAUGE, "Build of the daemon, always 1.", "version,revision", NULL, 0},
    {"brrd_process_uptime_seconds", METRIC_GAUGE, "Time since start.", "", NULL, 0},
    {"brrd_ready", METRIC_GAUGE, "1 when a component is ready.", "component", NULL, 0},
    {"brrd_log_messages_total", METRIC_COUNTER, "Log lines by level.", "level", NULL, 0},
    {"brrd_rpc_requests_total", METRIC_COUNTER, "Ended calls by status.", "method,code", NULL, 0},
    {"brrd_rpc_duration_seconds", METRIC_HISTOGRAM, "Duration of ended calls.", "method", BUCKETS(rpc_buckets)},
    {"brrd_auth_failures_total", METRIC_COUNTER, "Callers and connections that were refused, by reason.", "reason", NULL, 0},
    {"brrd_tls_certificate_expiry_timestamp_seconds", METRIC_GAUGE, "When the daemon's certificate expires.", "", NULL, 0},
    {"brrd_config_reloads_total", METRIC_COUNTER, "Reloads of configuration, certificate or tokens, by result.", "result", NULL, 0},
    {"brrd_jobs", METRIC_GAUGE, "Jobs by state.", "state", NULL, 0},
    {"brrd_jobs_paused", METRIC_GAUGE, "Queued jobs that wait for something other than their turn.", "reason", NULL, 0},
    {"brrd_jobs_submitted_total", METRIC_COUNTER, "Jobs accepted.", "kind", NULL, 0},
    {"brrd_jobs_finished_total", METRIC_COUNTER, "Jobs ended by outcome.", "outcome", NULL, 0},
    {"brrd_job_run_duration_seconds", METRIC_HISTOGRAM, "Wall time of ended attempts.", "outcome", BUCKETS(run_buckets)},
    {"brrd_job_energy_joules_total", METRIC_COUNTER, "Drawn by the device while attempts of jobs ran.", "kind", NULL, 0},
    {"brrd_cache_requests_total", METRIC_COUNTER, "Objects of buckets that jobs wanted: in the cache, or fetched.", "result", NULL,
     0},
    {"brrd_cache_evictions_total", METRIC_COUNTER, "Objects that left the cache to make room.", "reason", NULL, 0},
    {"brrd_cache_used_bytes", METRIC_GAUGE, "What the cache of buckets held when a job had fetched its data.", "", NULL, 0},
    {"brrd_cache_capacity_bytes", METRIC_GAUGE, "Limit of the cache of buckets.", "", NULL, 0},
    {"brrd_s3_requests_total", METRIC_COUNTER, "Requests to S3 servers by HTTP status, or by what went wrong without one.",
     "op,code", NULL, 0},
    {"brrd_s3_request_duration_seconds", METRIC_HISTOGRAM, "Duration of requests to S3 servers, each try by itself.", "op",
     BUCKETS(rpc_buckets)},
    {"brrd_s3_in_flight", METRIC_GAUGE, "Requests to S3 servers under way.", "", NULL, 0},
    {"brrd_s3_received_bytes_total", METRIC_COUNTER, "Bodies of answers from S3 servers.", "", NULL, 0},
    {"brrd_s3_sent_bytes_total", METRIC_COUNTER, "Bodies of requests to S3 servers.", "", NULL, 0},
    {"brrd_s3_retries_total", METRIC_COUNTER, "Requests to S3 servers that were tried once more.", "op,reason", NULL, 0},
    {"brrd_s3_clock_skew_seconds", METRIC_GAUGE, "The clock of the S3 server that answered last, less this machine's.", "", NULL,
     0},
    {"brrd_stream_sessions", METRIC_GAUGE, "Streams that are open.", "", NULL, 0},
    {"brrd_stream_sessions_opened_total", METRIC_COUNTER, "Streams opened.", "model", NULL, 0},
    {"brrd_stream_sessions_closed_total", METRIC_COUNTER, "Streams ended, by how.", "model,reason", NULL, 0},
    {"brrd_stream_samples_received_total", METRIC_COUNTER, "Samples of streams, per channel, at the source rate.", "model", NULL,
     0},
    {"brrd_stream_samples_lost_total", METRIC_COUNTER, "Samples that never came or were dropped unseen.", "model,cause", NULL, 0},
    {"brrd_stream_duplicate_chunks_total", METRIC_COUNTER, "Chunks with samples that had come before.", "model", NULL, 0},
    {"brrd_stream_buffered_samples", METRIC_GAUGE, "Samples of all streams that wait for the device.", "", NULL, 0},
    {"brrd_stream_result_lag_seconds", METRIC_HISTOGRAM, "From the newest chunk of a window to its result, live streams.", "model",
     BUCKETS(lag_buckets)},
    {"brrd_stream_seizure_events_total", METRIC_COUNTER, "Seizure events found in streams.", "model", NULL, 0},
    {"brrd_inference_windows_total", METRIC_COUNTER, "Windows of streams: done, or dropped because the client went away.",
     "model,result", NULL, 0},
    {"brrd_inference_compute_duration_seconds", METRIC_HISTOGRAM, "Duration of a batch of windows.", "model",
     BUCKETS(compute_buckets)},
    {"brrd_inference_batch_windows", METRIC_HISTOGRAM, "Windows in a batch.", "model", BUCKETS(batch_buckets)},
    {"brrd_model_loaded", METRIC_GAUGE, "1 while a model is loaded.", "model", NULL, 0},
    {"brrd_model_load_duration_seconds", METRIC_HISTOGRAM, "Time to load a model.", "model", BUCKETS(rpc_buckets)},
    {"brrd_gpu_info", METRIC_GAUGE, "The GPU and its driver, always 1; gpu is the driver's number of it.",
     "gpu,uuid,model_name,driver", NULL, 0},
    {"brrd_gpu_temperature_celsius", METRIC_GAUGE, "Temperature of the chip.", "gpu", NULL, 0},
    {"brrd_gpu_power_watts", METRIC_GAUGE, "Power drawn.", "gpu", NULL, 0},
    {"brrd_gpu_energy_joules_total", METRIC_COUNTER, "Drawn since the driver was loaded.", "gpu", NULL, 0},
    {"brrd_gpu_utilization_ratio", METRIC_GAUGE, "Share of the last second or less in which something ran.", "gpu", NULL, 0},
    {"brrd_gpu_memory_used_bytes", METRIC_GAUGE, "Device memory in use, by everybody.", "gpu", NULL, 0},
    {"brrd_gpu_memory_total_bytes", METRIC_GAUGE, "Device memory.", "gpu", NULL, 0},
    {"brrd_gpu_ecc_errors_total", METRIC_COUNTER, "Memory errors since the driver was loaded or the GPU reset.", "gpu,kind", NULL,
     0},
    {"brrd_gpu_errors_total", METRIC_COUNTER, "Errors that the driver has reported since the daemon started, by XID.", "gpu,xid",
     NULL, 0},
    {"brrd_gpu_memory_repair_pending", METRIC_GAUGE, "1 when bad memory waits for a reset to be replaced.", "gpu", NULL, 0},
    {"brrd_gpu_clocks_slowed", METRIC_GAUGE, "1 while the reason holds the clocks down.", "gpu,reason", NULL, 0},
};
const size_t metrics_family_count = sizeof metrics_families / sizeof *metrics_families;
