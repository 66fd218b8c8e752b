/* test_recordings: recordings through a detector on a device that queues its work. The device is waited for once for each batch of
 * windows, and the steps of a causal network run many in one launch, for recordings side by side; the bits are those of windows and
 * steps one at a time. An emulated GPU counts waits and launches. Exits 77 without a GPU (or library), 1 when something differs. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "detect/detector.h"
#include "detect/timeline.h"
#include "tests/gpu/gpu_model.h"

enum { C = 3, RECORDINGS = 3, MOST = 180 * 256 };

static const char *const labels[] = {"Fp1", "F3", "C3"};
static const struct frontend_source source = {labels, C, 256};
static struct device *device;
static struct stream *s;
static struct err err;
static int failures;

static void check(bool ok, const char *what) {
    failures += !ok;
    printf("%-6s %s%s%s\n", ok ? "ok" : "FAILED", what, err.code ? ": " : "", err.message);
    err = (struct err){0};
}

static long (*waited)(void);
static void (*counts)(long ret[3]);
static long waits(void) { return waited ? waited() : 0; }
static long launches(void) {
    long now[3] = {0};
    if (counts)
        counts(now);
    return now[2];
}

struct trace {
    float *p;
    int64_t n;
};

static int keep(void *ctx, int64_t first, const float *p, int64_t n, struct err *e) {
    struct trace *t = ctx;
    (void)e;
    memcpy(t->p + first, p, (size_t)n * sizeof *p);
    t->n = first + n;
    return 0;
}

/* Sample i of a channel, in µV. */
static float sample(int channel, int64_t i) {
    return (float)(60 * sin((3 + channel % 7) * 0.0245 * (double)i + channel) +
                   (double)((i * 2654435761u + (unsigned)channel * 97) % 41));
}

/* Recording k of so many samples; part of it lies behind a gap. */
static struct timeline *open_recording(const struct detector *d, int k, int64_t samples, struct trace *to) {
    static float buffer[C][MOST];
    const float *uv[C];
    struct timeline *t = NULL;
    struct timeline_options options = {0};
    struct timeline_sink sink = {.ctx = to, .probabilities = keep};
    for (int c = 0; c < C; c++) {
        uv[c] = buffer[c];
        for (int64_t i = 0; i < samples; i++)
            buffer[c][i] = sample(c + 5 * k, i);
    }
    to->n = 0;
    bool ok = !timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, &err) &&
              !timeline_push(t, uv, samples / 3, &err) && !timeline_gap(t, 1000, &err);
    for (int c = 0; c < C; c++)
        uv[c] += samples / 3;
    ok = ok && !timeline_push(t, uv, samples - samples / 3, &err) && !timeline_finish(t, &err);
    check(ok, "a recording is read");
    return ok ? t : NULL;
}

static struct detector *make(const struct modelfile *file, struct seizure_net *net, int batch) {
    struct detector *d = NULL;
    check(!detector_wrap(device, net, file, batch, &d, &err), "a detector is made");
    return d;
}

/* Lengths of the recordings, in samples. */
static int64_t length_of(int k, bool causal) { return causal ? (int64_t)(70 + 31 * k) * 256 + 77 * k : 40 * 256 + 100; }

static void compare(const char *name, bool causal, const struct modelfile *file, struct seizure_net *net, int batch) {
    struct trace alone[RECORDINGS], together[RECORDINGS];
    struct timeline *t[RECORDINGS];
    struct detector *d = make(file, net, batch);
    int64_t windows = 0, ran = 0, single = 0;
    char what[160];
    if (!d)
        return;
    for (int k = 0; k < RECORDINGS; k++) {
        alone[k].p = calloc(2 * (size_t)MOST, sizeof(float));
        together[k].p = alone[k].p + MOST;
        if (!(t[k] = open_recording(d, k, length_of(k, causal), &alone[k])))
            return;
        while (!detector_run(d, s, &t[k], 1, 1, &ran, &err) && ran)
            single += ran;
        check(timeline_done(t[k]), "a window at a time ends");
        timeline_free(t[k]);
        t[k] = open_recording(d, k, length_of(k, causal), &together[k]);
    }
    long waits_before = waits(), launches_before = launches();
    check(!detector_run(d, s, t, RECORDINGS, 0, &windows, &err), "batches run");
    long waited_for = waits() - waits_before, launched = launches() - launches_before;
    bool same = windows == single;
    for (int k = 0; k < RECORDINGS; k++) {
        same = same && timeline_done(t[k]) && together[k].n == alone[k].n &&
               !memcmp(together[k].p, alone[k].p, (size_t)alone[k].n * sizeof(float));
        timeline_free(t[k]);
        free(alone[k].p);
    }
    snprintf(what, sizeof what, "%s: %lld windows have the bits of windows one at a time", name, (long long)windows);
    check(same, what);
    /* a batch for each `batch` windows; of a causal network one for each 60 steps of all recordings, and for the ends of segments
     */
    long batches = causal ? 2 * RECORDINGS + 4 : (long)((windows + batch - 1) / batch);
    snprintf(what, sizeof what, "%s: %ld waits and %ld launches of recordings, at most %ld batches", name, waited_for, launched,
             batches);
    check(!waited || (waited_for <= batches + 2 && launched <= 2 * batches), what);
    detector_close(d);
}

static void run(const char *name, bool causal, int batch) {
    struct modelfile file = {.hop = 64};
    struct seizure_net *net = NULL;
    struct frontend_config frontend = {
        "custom:Fp1,F3,C3",          60,   {1, 70}, 1.5,   causal ? FRONTEND_CAUSAL : FRONTEND_WINDOW,
        FRONTEND_REFERENCE_RECORDED, NULL, NULL,    false, false};
    const struct seizure_options options = {.max_batch = batch, .precision = DTYPE_F32};
    int rc = causal ? seizure_preset(SEIZURE_TYPE_CAUSAL, "tiny", C, &file.model, &err) : gpu_model("mini", C, &file.model);
    if (causal) {
        file.model.window = 2048;
        file.hop = 256;
    }
    events_config_default(&file.events);
    rc = rc ? rc : modelfile_set_frontend(&file, &frontend, &err);
    rc = rc ? rc : seizure_new(device, &file.model, &options, &net, &err);
    rc = rc ? rc : seizure_init(net, s, 11, 0.3, &err);
    check(!rc, name);
    if (!rc)
        compare(name, causal, &file, net, batch);
    seizure_free(net);
}

int main(void) {
    const char *name = getenv("BRR_TEST_DEVICE");
    name = name ? name : "cuda:0";
    if (device_open(name, 0, &device, &err)) {
        printf("skipped: hardware: no GPU %s: %s\n", name, err.message);
        return 77;
    }
    if (stream_open(device, STREAM_NORMAL, &s, &err))
        return printf("%s\n", err.message), 1;
    void *library = getenv("BRR_CUDA_LIBRARY") ? dlopen(getenv("BRR_CUDA_LIBRARY"), RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (library) {
        *(void **)&waited = dlsym(library, "emulator_waits");
        *(void **)&counts = dlsym(library, "emulator_counts");
    }
    run("windows", false, 64);
    run("causal", true, 8);
    stream_close(s);
    device_close(device);
    return failures != 0;
}
