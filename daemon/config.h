/* config: daemon.yaml as plain data. The table in config.c is the only list of keys. Nothing reads YAML after the start. */
#pragma once

#include "base/arena.h"
#include "daemon/alarms/alarms.h"
#include "daemon/hooks/hook.h"
#include "daemon/jobs/slurm.h"
#include "daemon/models/source.h"

enum { CONFIG_MAX_STORES = 32, CONFIG_MAX_SERVED = 16, CONFIG_MAX_DEVICES = 16, CONFIG_MAX_BYTES = 1 << 20 };
enum { CONFIG_MAX_BEDS = 512 };
enum serve_precision { SERVE_FP32, SERVE_BF16, SERVE_AUTO };
enum { CONFIG_MAX_CLUSTERS = 8, CONFIG_MAX_REMOTE = 48 /* jobs in all of them at a time */ };

struct config_served {
    const char *name, *checkpoint, *device; /* device: NULL = every device */
    int64_t max_delay_ms;                   /* -1: the device's default */
};

struct config {
    const char *unix_path, *tcp; /* NULL = none */
    const char *unix_group;      /* NULL = none */
    unsigned unix_mode;
    const char *tls_cert, *tls_key, *tls_client_ca; /* NULL = none; certificate and key must be set together */
    const char *tokens_file;                        /* NULL = none */
    const char *http;                               /* host:port, NULL = none */
    int http_pages;                                 /* without tokens: 0 = after a link, 1 = open to all who reach the address */
    const char *const *http_names;                  /* that the header Host may have */
    int n_http_names;
    const char *devices[CONFIG_MAX_DEVICES]; /* "cpu", "cpu:N", "cuda:N"; each once */
    int n_devices;
    double price_per_hour; /* of a device; 0: not known */
    const char *currency;
    int64_t cpu_threads; /* of all CPU devices together; 0 = all of the machine */
    const char *data, *cache, *results, *database;
    const char *shared_sessions, *session_folder; /* NULL: nothing is shared; and the name of this daemon there */
    bool local_paths;
    bool log_names;
    int log_level;                                               /* enum log_level */
    int log_format;                                              /* 0 text, 1 JSON */
    int64_t max_queued, default_wall_clock_ms, keep_finished_ms; /* -1 = none */
    int64_t keep_files_ms, max_files_bytes;                      /* of ended jobs; -1 = none */
    int64_t stop_wait_ms;
    const char *journal;                        /* SQLite file */
    int64_t journal_keep_ms, journal_max_bytes; /* -1 = none */
    int64_t onsets_bytes;                       /* 0: no EEG of onsets is written */
    struct source_store stores[CONFIG_MAX_STORES];
    int64_t cache_max; /* limit in bytes for objects of buckets and windows; -1 = four fifths of the volume */
    int n_stores;
    struct config_served served[CONFIG_MAX_SERVED];
    int n_served;
    int serve_precision; /* enum serve_precision */
    struct hook hooks[HOOKS_MAX];
    int n_hooks;
    struct alarms_plan escalation;
    const char **beds; /* the roster, in the order of the tiles */
    int n_beds;
    int64_t rejoin_ms;
    const char *alarms_url; /* or NULL */
    struct slurm_config clusters[CONFIG_MAX_CLUSTERS];
    int n_clusters;
    bool jobs_in_processes;               /* executors.local is of kind process */
    int64_t viewer_minutes, viewer_bytes; /* of EEG for people, kept in memory */
    const char *corrections;              /* folder; NULL = below results */
    int64_t max_sessions, session_idle_ms, resume_ttl_ms, patient_memory_ms, lag_ms;
    int64_t max_calls, validate_ms, unread_bytes, backlog_bytes;
    int64_t device_jobs;  /* places of a device */
    int64_t memory_bytes; /* device memory of one job; 0 = nine tenths of the device */
    int64_t max_networks, network_bytes;
    int64_t networks_bytes; /* memory of all spiking networks; 0 = half of the device */
};

/* Where the configuration comes from: a file of at most CONFIG_MAX_BYTES, and overrides ("a.b=value"). Borrowed. */
struct config_source {
    const char *path;
    const char *const *overrides;
    int n_overrides;
};

/* Reads the file and applies the overrides; the texts of *ret are in the arena. Features that are missing are UNSUPPORTED, with
 * their position in the file. */
int config_read(const struct config_source *source, struct arena *arena, struct config *ret, struct err *err);
/* The same for a text that was read from the file. */
int config_parse(const struct config_source *source, const char *text, size_t len, struct arena *arena, struct config *ret,
                 struct err *err);
/* Reads an item of one of its lists. */
struct yaml_node;
typedef int config_item_fn(const struct yaml_node *node, const char *file, struct arena *arena, struct config *c, struct err *err);
void config_print_keys(FILE *out);
