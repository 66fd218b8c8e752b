/* brr-load: many live sessions of synthetic EEG against a daemon, in real time, from a few threads; what they measured as one
 * object.
 */
#include <sys/resource.h>

#include "base/json.h"
#include "base/needed.h"
#include "base/rng.h"
#include "brr-load/load.h"

enum { EXIT_USAGE = 2, LOOK_MS = 100, ASK_EVERY = 10 };

static const char usage[] =
    "usage: brr-load --model M [options]\n"
    "Streams synthetic EEG (19 channels, 256 Hz, real time) in many sessions at once, and prints what it measured.\n"
    "  --model M           served name, job:ID or a model file of the daemon's machine\n"
    "  --sessions N        sessions at the same time (10)\n"
    "  --seconds S         of EEG in each (60)\n"
    "  --chunk-ms MS       of each chunk (250)\n"
    "  --every-s S         from a chunk to the next: sessions that are open and send little (real time: --chunk-ms)\n"
    "  --ramp-s S          sessions begin evenly over this time (0: at once, so that all their windows fall due together)\n"
    "  --jitter-ms MS      chunks are late by up to this, at random (0)\n"
    "  --cut-every-s S     cut one connection at random moments, S seconds apart on average (never)\n"
    "  --connections N     sessions share so many connections (one each)\n"
    "  --threads N         of this program (1)\n"
    "  --alarm-hop S       seconds between alarm decisions, negative = no alarms (the daemon's default)\n"
    "  --seed N            of the signals (1)\n"
    "  --no-resume         a cut ends its session\n"
    "  --endpoint E        unix:/path or host:port (BRR_ENDPOINT)\n"
    "  --tls               refuse to run without TLS\n"
    "  --tls-ca FILE --token-file FILE --tls-cert FILE --tls-key FILE   as for brrctl (BRR_TLS_CA, BRR_TOKEN_FILE, …)\n"
    "  --json              one JSON object on one line\n"
    "Exit 0 when every session finished and no sample was lost.\n";

struct option {
    const char *name;
    enum { FLAG, TEXT, WHOLE, NUMBER } kind;
    void *at;
    double min, max;
};

static bool store(const struct option *o, const char *value) {
    double f = 0;
    int64_t i = 0;
    if (o->kind == TEXT) {
        *(const char **)o->at = value;
        return true;
    }
    bool ok = o->kind == WHOLE ? str_to_i64(value, &i) : str_to_f64(value, &f);
    if (o->kind == WHOLE)
        f = (double)i;
    if (!ok || f < o->min || f > o->max) {
        fprintf(stderr, "brr-load: %s is '%s'; expected %s from %g to %g\n", o->name, value,
                o->kind == WHOLE ? "a whole number" : "a number", o->min, o->max);
        return false;
    }
    if (o->kind == WHOLE)
        *(int64_t *)o->at = i;
    else
        *(double *)o->at = f;
    return true;
}

static bool parse(int argc, char **argv, struct plan *p) {
    const struct option options[] = {{"--model", TEXT, &p->model, 0, 0},
                                     {"--endpoint", TEXT, &p->connect.endpoint, 0, 0},
                                     {"--tls-ca", TEXT, &p->connect.tls_ca, 0, 0},
                                     {"--tls-cert", TEXT, &p->connect.tls_cert, 0, 0},
                                     {"--tls-key", TEXT, &p->connect.tls_key, 0, 0},
                                     {"--token-file", TEXT, &p->connect.token_file, 0, 0},
                                     {"--sessions", WHOLE, &p->sessions, 1, LOAD_MAX_SESSIONS},
                                     {"--connections", WHOLE, &p->connections, 1, LOAD_MAX_SESSIONS},
                                     {"--threads", WHOLE, &p->threads, 1, LOAD_MAX_THREADS},
                                     {"--seed", WHOLE, &p->seed, 0, 1e9},
                                     {"--seconds", NUMBER, &p->seconds, 0.1, 1e6},
                                     {"--chunk-ms", NUMBER, &p->chunk_ms, 1000.0 / LOAD_RATE_HZ, 60000},
                                     {"--every-s", NUMBER, &p->every_s, 0, 1e6},
                                     {"--ramp-s", NUMBER, &p->ramp_s, 0, 1e6},
                                     {"--jitter-ms", NUMBER, &p->jitter_ms, 0, 60000},
                                     {"--cut-every-s", NUMBER, &p->cut_every_s, 0.001, 1e6},
                                     {"--alarm-hop", NUMBER, &p->alarm_hop_s, -1, 3600},
                                     {"--json", FLAG, &p->json, 0, 0},
                                     {"--tls", FLAG, &p->tls, 0, 0},
                                     {"--no-resume", FLAG, &p->no_resume, 0, 0},
                                     {"--help", FLAG, &p->help, 0, 0}};
    for (int i = 1; i < argc; i++) {
        const struct option *o = options, *end = options + sizeof options / sizeof *options;
        while (o < end && strcmp(o->name, argv[i]) != 0)
            o++;
        if (o == end) {
            fprintf(stderr, "brr-load: there is no option '%s'; --help lists them\n", argv[i]);
            return false;
        }
        if (o->kind == FLAG) {
            *(bool *)o->at = true;
        } else if (i + 1 == argc) {
            fprintf(stderr, "brr-load: %s needs a value\n", o->name);
            return false;
        } else if (!store(o, argv[++i])) {
            return false;
        }
    }
    return true;
}

static bool complete(struct plan *p) {
    const char *ca = p->connect.tls_ca ? p->connect.tls_ca : getenv("BRR_TLS_CA");
    if (!p->model) {
        fputs("brr-load: no model; --model names a served model, job:ID or a model file\n", stderr);
        return false;
    }
    if (p->tls && (!ca || !*ca)) {
        fputs("brr-load: --tls needs the CA of the daemon's certificate: --tls-ca FILE, or BRR_TLS_CA\n", stderr);
        return false;
    }
    p->threads = p->threads < p->sessions ? p->threads : p->sessions;
    return true;
}

/* ---- the run ---- */

struct watch {
    brr_client *client;
    struct server_use first, last, most;
    bool known;
    int64_t cuts;
};

/* The daemon's figures; it may be away at present. */
static void look(struct watch *w) {
    struct brr_error err;
    if (server_ask(w->client, &w->last, &err))
        return;
    if (!w->known)
        w->first = w->last;
    w->known = true;
    if (w->last.rss_bytes > w->most.rss_bytes)
        w->most = w->last;
}

/* Beside the workers until the last one ends: asks the daemon for its figures, and cuts connections. */
static void accompany(const struct plan *p, struct watch *w, const int *running) {
    struct rng rng;
    rng_init(&rng, (uint64_t)p->seed, RNG_SYNTH, 3000);
    double cut_s = clock_s() + p->cut_every_s * 2 * rng_uniform(&rng);
    for (int64_t i = 0; __atomic_load_n(running, __ATOMIC_ACQUIRE); i++) {
        usleep(LOOK_MS * 1000);
        if (i % ASK_EVERY == 0)
            look(w);
        while (p->cut_every_s > 0 && clock_s() >= cut_s) {
            w->cuts += server_cut(brr_endpoint(w->client), rng_u32(&rng));
            cut_s += p->cut_every_s * 2 * rng_uniform(&rng) + 1e-3;
        }
    }
}

struct job {
    struct worker worker;
    int *running;
};

static void *run_worker(void *arg) {
    struct job *j = arg;
    worker_run(&j->worker);
    __atomic_sub_fetch(j->running, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void join_failures(struct failures *to, const struct failures *from) {
    for (int i = 0; i < from->n_rows; i++) {
        int k = 0;
        while (k < to->n_rows && strcmp(to->row[k].reason, from->row[i].reason) != 0)
            k++;
        if (k == LOAD_REASONS)
            continue;
        if (k == to->n_rows) {
            to->row[to->n_rows++] = from->row[i];
            continue;
        }
        to->row[k].n += from->row[i].n;
    }
}

static void join(struct outcome *to, struct outcome *from) {
    to->opened += from->opened;
    to->finished += from->finished;
    to->failed += from->failed;
    to->samples_sent += from->samples_sent;
    to->samples_lost += from->samples_lost;
    to->results += from->results;
    to->results_missing += from->results_missing;
    to->events += from->events;
    to->alarms += from->alarms;
    to->reconnects += from->reconnects;
    to->refused_pushes += from->refused_pushes;
    times_join(&to->open, &from->open);
    times_join(&to->ack, &from->ack);
    times_join(&to->result_lag, &from->result_lag);
    times_join(&to->alarm_lag, &from->alarm_lag);
    join_failures(&to->failures, &from->failures);
}

/* ---- the report ---- */

static void print_json(const struct plan *p, struct outcome *o, const struct watch *w, double seconds) {
    OWNED(str_done) struct str text = str_of(1 << 20);
    struct json_writer j = json_to(&text);
    struct rusage own;
    json_begin_object(&j, NULL);
    json_put_i64(&j, "sessions", p->sessions);
    JSON_MEMBERS(&j, *o, opened, finished, failed);
    json_begin_object(&j, "failures");
    for (int i = 0; i < o->failures.n_rows; i++)
        json_put_i64(&j, o->failures.row[i].reason, o->failures.row[i].n);
    json_end(&j, '}');
    json_put_f64(&j, "seconds", seconds);
    JSON_MEMBERS(&j, *o, samples_sent, samples_lost, results, results_missing, events, alarms);
    json_put_f64(&j, "open_p99_ms", times_quantile(&o->open, 0.99));
    json_put_f64(&j, "ack_p50_ms", times_quantile(&o->ack, 0.5));
    json_put_f64(&j, "ack_p99_ms", times_quantile(&o->ack, 0.99));
    json_put_f64(&j, "result_lag_p50_ms", times_quantile(&o->result_lag, 0.5));
    json_put_f64(&j, "result_lag_p99_ms", times_quantile(&o->result_lag, 0.99));
    json_put_f64(&j, "alarm_lag_p50_ms", times_quantile(&o->alarm_lag, 0.5));
    json_put_f64(&j, "alarm_lag_p99_ms", times_quantile(&o->alarm_lag, 0.99));
    json_put_i64(&j, "cuts", w->cuts);
    JSON_MEMBERS(&j, *o, reconnects, refused_pushes);
    json_put_f64(&j, "server_rss_bytes", w->most.rss_bytes);
    json_put_f64(&j, "server_rss_before_bytes", w->first.rss_bytes);
    json_put_f64(&j, "server_cpu_s", w->last.cpu_s - w->first.cpu_s);
    if (!getrusage(RUSAGE_SELF, &own))
        json_put_f64(&j, "client_cpu_s",
                     (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) +
                         (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) * 1e-6);
    json_end(&j, '}');
    puts(str_cstr(&text));
}

/* "-" where nothing was measured. */
static void print_times(const char *name, struct times *t, const char *end) {
    double p50 = times_quantile(t, 0.5), p99 = times_quantile(t, 0.99);
    if (isnan(p50))
        printf("%sp50 -, p99 -%s", name, end);
    else
        printf("%sp50 %.1f ms, p99 %.1f ms%s", name, p50, p99, end);
}

static void print_text(const struct plan *p, struct outcome *o, const struct watch *w, double seconds) {
    printf("sessions    %lld of %lld finished in %.1f s, %lld failed, %lld cuts, %lld reconnects\n", (long long)o->finished,
           (long long)p->sessions, seconds, (long long)o->failed, (long long)w->cuts, (long long)o->reconnects);
    printf("samples     %lld sent, %lld lost; %lld results, %lld missing; %lld events, %lld alarms\n", (long long)o->samples_sent,
           (long long)o->samples_lost, (long long)o->results, (long long)o->results_missing, (long long)o->events,
           (long long)o->alarms);
    print_times("ack         ", &o->ack, "\n");
    print_times("result lag  ", &o->result_lag, "; ");
    print_times("alarm trace ", &o->alarm_lag, "\n");
    printf("daemon      %.1f MiB resident (%.1f before), %.1f s of CPU\n", w->most.rss_bytes / 1048576,
           w->first.rss_bytes / 1048576, w->last.cpu_s - w->first.cpu_s);
}

static int run(const struct plan *p) {
    struct outcome all = {0};
    struct watch watch = {0};
    struct brr_error err = {0};
    int running = (int)p->threads;
    OWNED_MEMORY struct job *jobs = needed(calloc((size_t)p->threads, sizeof *jobs));
    OWNED_MEMORY float *bank = needed(signal_bank());
    int rc = brr_connect_with(&p->connect, &watch.client, &err);
    if (!rc)
        rc = server_ask(watch.client, &watch.last, &err);
    if (rc) {
        fprintf(stderr, "brr-load: %s%s%s\n", err.message, *err.reason ? " " : "", err.reason);
        brr_disconnect(watch.client);
        return 1;
    }
    look(&watch);
    double start_s = clock_s();
    for (int64_t i = 0; i < p->threads; i++) {
        int64_t first = p->sessions * i / p->threads, end = p->sessions * (i + 1) / p->threads;
        jobs[i] = (struct job){.worker = {.plan = p, .bank = bank, .first = first, .n = end - first}, .running = &running};
        if (pthread_create(&jobs[i].worker.thread, NULL, run_worker, &jobs[i]))
            abort(); /* a machine that has no thread to give measures nothing */
    }
    accompany(p, &watch, &running);
    for (int64_t i = 0; i < p->threads; i++) {
        pthread_join(jobs[i].worker.thread, NULL);
        join(&all, &jobs[i].worker.outcome);
        if (jobs[i].worker.rc) {
            fprintf(stderr, "brr-load: %s\n", jobs[i].worker.err.message);
            rc = 1;
        }
    }
    double seconds = clock_s() - start_s;
    look(&watch);
    for (int i = 0; i < all.failures.n_rows; i++)
        fprintf(stderr, "brr-load: %lld sessions ended with %s: %s\n", (long long)all.failures.row[i].n, all.failures.row[i].reason,
                all.failures.row[i].message);
    (p->json ? print_json : print_text)(p, &all, &watch, seconds);
    brr_disconnect(watch.client);
    free(all.open.ms);
    free(all.ack.ms);
    free(all.result_lag.ms);
    free(all.alarm_lag.ms);
    return rc || all.finished < p->sessions || all.samples_lost ? 1 : 0;
}

int main(int argc, char **argv) {
    struct plan plan = {.sessions = 10, .threads = 1, .seed = 1, .seconds = 60, .chunk_ms = 250};
    setenv("GRPC_VERBOSITY", "NONE", 0); /* errors are said once */
    if (!parse(argc, argv, &plan) || (!plan.help && !complete(&plan)))
        return EXIT_USAGE;
    if (plan.help) {
        fputs(usage, stdout);
        return 0;
    }
    return run(&plan);
}
