/* data_scale: a corpus opened as a training job opens it, and read as its readers read it; one JSON object on stdout.
 * usage: data_scale index ROOT CACHE WORKERS            manifest, split, sampler: counts, seconds, peak memory, hash
 *        data_scale feed ROOT CACHE WORKERS SECONDS      the same, then batches of 64 windows of 60 s from a loaded cache
 * Window 60 s, hop 10 s, referential-19, labels auto. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/json.h"
#include "base/str.h"
#include "windows/prefetch.h"
#include "windows/recording.h"

enum { WINDOW = 60 * FRONTEND_RATE_HZ, HOP = 10 * FRONTEND_RATE_HZ, BATCH = 64, DEPTH = 4 };

struct scale {
    struct manifest *manifest;
    struct sampler *sampler;
    uint8_t *role;
    int workers;
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor seconds of all threads so far: on a busy machine they say more than the clock. */
static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int open_corpus(struct scale *s, char **argv, struct json_writer *w, struct err *err) {
    struct manifest_config config = {.root = argv[2],
                                     .cache_dir = argv[3],
                                     .frontend = {"referential-19", 60, {0.5, 120}, 2},
                                     .window = WINDOW,
                                     .hop = HOP,
                                     .labels = "auto",
                                     .unlabeled = "error",
                                     .workers = s->workers};
    double start = now_s();
    int rc = manifest_open(&config, NULL, NULL, &s->manifest, err);
    if (rc)
        return rc;
    double opened = now_s();
    int64_t n = manifest_count(s->manifest), usable = 0, windows[3] = {0}, held = 0, seizures = 0, segments = 0;
    double hours = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct manifest_entry *e = manifest_entry(s->manifest, i);
        struct recording_info info;
        if (!e->recording)
            continue;
        usable++;
        recording_info(e->recording, &info);
        hours += info.duration_s / 3600;
        held += info.n_held;
        seizures += info.n_seizures;
        segments += info.n_segments;
        for (int k = 0; k < 3; k++)
            windows[k] += e->windows[k];
    }
    if (!(s->role = calloc((size_t)n + 1, 1)))
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    rc = manifest_split(s->manifest, &(struct split_config){.validation_fraction = 0.2, .seed = 1}, s->role, err);
    if (!rc)
        rc = sampler_new(s->manifest, s->role, &(struct balance_config){0.3, 2.5, true, 0, 0}, 1, &s->sampler, err);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    json_put_i64(w, "recordings", n);
    json_put_i64(w, "usable", usable);
    json_put_f64(w, "hours", hours);
    json_put_i64(w, "seizures", seizures);
    json_put_i64(w, "segments", segments);
    json_put_i64(w, "held", held);
    json_put_i64(w, "partial", windows[WINDOW_PARTIAL]);
    json_put_i64(w, "full", windows[WINDOW_FULL]);
    json_put_i64(w, "none", windows[WINDOW_NONE]);
    json_put_str(w, "hash", manifest_hash(s->manifest));
    json_put_f64(w, "open_s", opened - start);
    json_put_f64(w, "ready_s", now_s() - start);
    json_put_f64(w, "ready_cpu_s", cpu_s());
    json_put_f64(w, "peak_mb", (double)usage.ru_maxrss / 1024);
    return rc;
}

static int feed(struct scale *s, double seconds, struct json_writer *w, struct err *err) {
    int rc = 0;
    double start = now_s(), start_cpu = cpu_s(), feed_cpu = 0;
    for (int64_t i = 0; i < manifest_count(s->manifest) && !rc; i++)
        if (s->role[i] == 1 && manifest_entry(s->manifest, i)->recording)
            rc = recording_load(manifest_entry(s->manifest, i)->recording, err);
    json_put_f64(w, "load_s", now_s() - start);
    json_put_f64(w, "load_cpu_s", cpu_s() - start_cpu);
    struct prefetch_config config = {
        .batch_size = BATCH, .workers = s->workers, .depth = DEPTH, .window = WINDOW, .channels = manifest_inputs(s->manifest)};
    struct prefetch *p = NULL;
    if (rc || (rc = prefetch_start(s->manifest, s->sampler, &config, 0, 0, &p, err)))
        return rc;
    int64_t windows = 0, valid = 0;
    const struct batch *b;
    double first = now_s(), end = first;
    for (int batches = 0; !rc && (batches < 3 * DEPTH || end < first + seconds); batches++) {
        if (batches == DEPTH) { /* the ring's memory has been touched */
            first = now_s();
            feed_cpu = cpu_s();
            windows = 0;
        }
        if ((rc = prefetch_next(p, &b, NULL, err)))
            break;
        windows += b->size;
        valid += b->valid[0];
        prefetch_release(p, b);
        end = now_s();
    }
    feed_cpu = cpu_s() - feed_cpu;
    prefetch_stop(p);
    json_put_i64(w, "windows", windows);
    json_put_i64(w, "valid", valid);
    json_put_f64(w, "windows_per_s", (double)windows / (end - first));
    json_put_f64(w, "windows_per_cpu_s", (double)windows / feed_cpu);
    return rc;
}

int main(int argc, char **argv) {
    bool feeding = argc == 6 && !strcmp(argv[1], "feed");
    int64_t workers = 0;
    double seconds = 0;
    if ((!feeding && (argc != 5 || strcmp(argv[1], "index") != 0)) || !str_to_i64(argv[4], &workers) || workers < 1 ||
        workers > 64 || (feeding && !str_to_f64(argv[5], &seconds))) {
        fprintf(stderr, "usage: data_scale index ROOT CACHE WORKERS | data_scale feed ROOT CACHE WORKERS SECONDS\n");
        return 2;
    }
    struct scale s = {.workers = (int)workers};
    struct err err = {0};
    struct str text;
    struct json_writer w;
    str_init(&text, 1 << 20);
    json_writer_init(&w, &text);
    json_begin_object(&w, NULL);
    int rc = open_corpus(&s, argv, &w, &err);
    if (!rc && feeding)
        rc = feed(&s, seconds, &w, &err);
    json_end(&w, '}');
    if (rc)
        fprintf(stderr, "data_scale: %s (%s)\n", err.message, err.cause);
    else
        puts(str_cstr(&text));
    str_done(&text);
    sampler_free(s.sampler);
    manifest_close(s.manifest);
    free(s.role);
    return rc ? 1 : 0;
}
