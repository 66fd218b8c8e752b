/* brr-load: the types its files share: the plan of a run, one worker thread with its sessions, and their measurements. */
#pragma once

#include "base/base.h"
#include "client/brr.h"

enum { LOAD_CHANNELS = 19, LOAD_RATE_HZ = 256, LOAD_MAX_SESSIONS = 100000, LOAD_MAX_THREADS = 64, LOAD_REASONS = 16 };
extern const char *const load_labels[LOAD_CHANNELS];

struct plan {
    struct brr_connect_options connect;
    const char *model;
    int64_t sessions, connections, threads, seed; /* connections 0: one for each session */
    double seconds, chunk_ms, every_s, ramp_s, jitter_ms, cut_every_s, alarm_hop_s;
    bool json, tls, no_resume, help;
};

/* Times in milliseconds, as they come. */
struct times {
    float *ms;
    int64_t n, capacity;
};
void times_add(struct times *t, double ms);
void times_join(struct times *to, struct times *from); /* empties `from` */
/* The value below which a share q of them lies; NaN when there are none. Sorts. */
double times_quantile(struct times *t, double q);

/* Sessions that ended with an error, by its reason. */
struct failures {
    struct {
        char reason[64], message[512];
        int64_t n;
    } row[LOAD_REASONS];
    int n_rows;
};

struct outcome {
    int64_t opened, finished, failed;
    int64_t samples_sent, samples_lost, results, results_missing, events, alarms, reconnects, refused_pushes;
    struct times open, ack, result_lag, alarm_lag;
    struct failures failures;
};

struct worker {
    const struct plan *plan;
    const float *bank; /* of the signal */
    int64_t first, n;  /* sessions [first, first + n) of the plan */
    struct outcome outcome;
    struct brr_error err; /* why it could not begin */
    int rc;
    pthread_t thread;
};
/* Runs the sessions of one worker to their ends; a thread's main function. */
void *worker_run(void *worker);

/* Synthetic EEG: 1/f noise, and rhythmic bursts that a detector may take for seizures; a pure function of seed, channel, sample. */
float *signal_bank(void); /* NULL when out of memory; freed with free() */
void signal_fill(const float *bank, uint32_t seed, int64_t first, int64_t n, float *uv); /* uv[c · n + i], microvolt */

/* CPU seconds and resident bytes of the daemon, from its metrics. */
struct server_use {
    double cpu_s, rss_bytes;
};
int server_ask(brr_client *client, struct server_use *ret, struct brr_error *err);
/* Cuts one of this process's connections to the endpoint, the i-th modulo their number; false when there is none. */
bool server_cut(const char *endpoint, uint32_t i);
