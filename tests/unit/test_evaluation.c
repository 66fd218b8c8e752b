/* evaluation: what it keeps of a recording is what a stream of the same samples would have said, and when. With an emulated GPU
 * (BRR_TEST_DEVICE): how often analyses of whole recordings launch work and wait for the device. */
#include "evaluate/evaluation.h"

#include <dlfcn.h>

#include "detect/timeline.h"
#include "unit/cmocka_all.h"
#include "unit/corpus_fixture.h"
#include "unit/model_fixture.h"
#include "windows/recording.h"
#include "work/jobfile.h"
#include "work/task.h"

enum { ALARM_HOP = MODEL_HOP, SECONDS = 120, MAX_ALARMS = 64 };

struct bench {
    char folder[256], model[300], root[300], cache[300];
    struct device *device;
    struct stream *queue;
    struct detector *detector;
    struct manifest *manifest;
    struct events_config events;
};

static int set_up(void **state) {
    struct bench *b = calloc(1, sizeof *b);
    char edf[400];
    *state = b;
    fixture_folder(b->folder, sizeof b->folder);
    snprintf(b->model, sizeof b->model, "%s/model.safetensors", b->folder);
    snprintf(b->root, sizeof b->root, "%s/eeg", b->folder);
    snprintf(b->cache, sizeof b->cache, "%s/cache", b->folder);
    snprintf(edf, sizeof edf, "%s/sub-01/sub-01_run-01_eeg.edf", b->root);
    const struct fixture recording = {
        fixture_referential, 19, 256, SECONDS, NULL, FIXTURE_EVENTS "20\t10\tsz\tn/a\tn/a\tn/a\t120\n"};
    fixture_write(edf, &recording);
    if (device_open("cpu", 0, &b->device, NULL) || stream_open(b->device, STREAM_NORMAL, &b->queue, NULL) ||
        fixture_model(b->device, b->queue, b->model) ||
        detector_open(b->device, b->model, &(struct model_use){4, DTYPE_F32, 0}, &b->detector, NULL))
        return -1;
    struct manifest_config config = corpus_config(b->root, b->cache);
    config.frontend = detector_info(b->detector)->file.frontend;
    config.window = MODEL_WINDOW;
    config.hop = MODEL_HOP;
    b->events = detector_info(b->detector)->file.events;
    return manifest_open(&config, NULL, NULL, &b->manifest, NULL);
}

static int tear_down(void **state) {
    struct bench *b = *state;
    manifest_close(b->manifest);
    detector_close(b->detector);
    stream_close(b->queue);
    device_close(b->device);
    fixture_remove(b->folder);
    free(b);
    return 0;
}

struct heard {
    double known_s[MAX_ALARMS];
    int n;
};

static int hear(void *ctx, const struct timeline_alarm *alarm, struct err *err) {
    struct heard *h = ctx;
    (void)err;
    if (!alarm->on)
        return 0;
    assert_true(alarm->known > alarm->sample);
    assert_in_range(h->n, 0, MAX_ALARMS - 1);
    h->known_s[h->n++] = (double)alarm->known / FRONTEND_RATE_HZ;
    return 0;
}

static void listen_to(const struct bench *b, struct heard *h) {
    const struct timeline_options options = {.alarm_hop = ALARM_HOP, .events = &b->events};
    const struct timeline_sink sink = {.ctx = h, .alarm = hear};
    struct recording *rec = manifest_entry(b->manifest, 0)->recording;
    struct timeline *t = NULL;
    int64_t windows;
    assert_int_equal(recording_load(rec, NULL), 0);
    struct err err;
    if (timeline_new_cached(&detector_info(b->detector)->file, rec, &options, &sink, &t, &err))
        fail_msg("%s", err.message);
    while (!timeline_done(t))
        assert_int_equal(detector_run(b->detector, b->queue, &t, 1, 0, &windows, NULL), 0);
    timeline_free(t);
}

static void an_alarm_has_the_time_at_which_it_could_be_known(void **state) {
    const struct bench *b = *state;
    static const uint8_t role[] = {1};
    const struct evaluation_config config = {.detector = b->detector,
                                             .stream = b->queue,
                                             .manifest = b->manifest,
                                             .role = role,
                                             .wanted = 1,
                                             .events = b->events,
                                             .workers = 1,
                                             .alarm_hop = ALARM_HOP,
                                             .directory = b->folder};
    struct evaluation_result result;
    struct evaluation_recording kept;
    struct evaluation *e = NULL;
    struct heard want = {.n = 0};
    bool done = false;
    listen_to(b, &want);
    assert_true(want.n > 0);
    assert_int_equal(evaluation_start(&config, &e, NULL), 0);
    while (!done)
        assert_int_equal(evaluation_step(e, &done, &result, NULL), 0);
    evaluation_recording(e, 0, &kept);
    assert_int_equal(kept.n_alarms, want.n);
    for (int i = 0; i < want.n; i++)
        assert_true(kept.alarms_s[i] == want.known_s[i]);
    evaluation_free(e);
}

/* ---- counts of an emulated GPU whose kernels do not run ---- */

enum { HOUR = 3600, HOURS = 5, WINDOW_S = 60, HOP_S = 5 /* of a record, as the full model has them */ };

struct counted {
    long recorded, launches, waits; /* recorded: launches of recorded passes, which are among the launches */
    long pageable;                  /* copies of host memory that is not pinned, for which the host waits */
};

static struct counted counts_now(void) {
    void *library = dlopen(getenv("BRR_CUDA_LIBRARY"), RTLD_LAZY | RTLD_NOLOAD);
    void (*counts)(long ret[3]) = NULL;
    long (*waits)(void) = NULL, (*pageable)(void) = NULL, now[3] = {0};
    assert_non_null(library);
    *(void **)&counts = dlsym(library, "emulator_counts");
    *(void **)&waits = dlsym(library, "emulator_waits");
    *(void **)&pageable = dlsym(library, "emulator_pageable");
    assert_true(counts && waits && pageable);
    counts(now);
    dlclose(library);
    return (struct counted){.recorded = now[2], .launches = now[0] + now[2], .waits = waits(), .pageable = pageable()};
}

static struct counted counts_since(const struct counted *then) {
    struct counted now = counts_now();
    return (struct counted){now.recorded - then->recorded, now.launches - then->launches, now.waits - then->waits,
                            now.pageable - then->pageable};
}

/* Recordings of an hour of three channels. */
static void write_hours(const char *root, int hours) {
    char edf[400];
    for (int i = 0; i < hours; i++) {
        snprintf(edf, sizeof edf, "%s/sub-01/sub-01_run-%02d_eeg.edf", root, i + 1);
        const struct fixture recording = {
            fixture_referential, 3, 256, HOUR, NULL, FIXTURE_EVENTS "20\t10\tsz\tn/a\tn/a\tn/a\t3600\n"};
        fixture_write(edf, &recording);
    }
}

/* The file of a model of the type for such recordings; small, as nothing of it is computed. */
static void write_model(const char *path, enum seizure_type type) {
    struct frontend_config frontend = {"custom:Fp1,F3,C3",          60,   {1, 70}, 1.5,   FRONTEND_WINDOW,
                                       FRONTEND_REFERENCE_RECORDED, NULL, NULL,    false, false};
    struct modelfile file = {.hop = HOP_S * 256, .prior = 0.0625};
    struct seizure_options options = {.max_batch = 1, .precision = DTYPE_F32};
    struct seizure_net *net = NULL;
    struct device *device;
    struct stream *queue;
    struct err err = {0};
    char sha[65];
    frontend.normalize = type == SEIZURE_TYPE_CAUSAL ? FRONTEND_CAUSAL : FRONTEND_WINDOW;
    assert_int_equal(seizure_preset(type, "tiny", 3, &file.model, NULL), 0);
    memcpy(file.model.encoder_channels, (int[]){8, 8, 16, 16}, sizeof file.model.encoder_channels);
    file.model.window = WINDOW_S * 256;
    file.model.mamba_layers = 1;
    file.model.headdim = file.model.d_state = 8;
    events_config_default(&file.events);
    assert_int_equal(device_open("cpu", 0, &device, NULL) || stream_open(device, STREAM_NORMAL, &queue, NULL), 0);
    if (modelfile_set_frontend(&file, &frontend, &err) || seizure_new(device, &file.model, &options, &net, &err) ||
        seizure_init(net, queue, 11, 0.3, &err) || modelfile_save(path, &file, net, NULL, queue, sha, &err))
        fail_msg("%s", err.message);
    seizure_free(net);
    stream_close(queue);
    device_close(device);
}

struct counted_bench {
    char folder[256], model[300], root[300], cache[300];
    struct device *device;
};

static void open_counted(struct counted_bench *b, enum seizure_type type, int hours) {
    fixture_folder(b->folder, sizeof b->folder);
    snprintf(b->model, sizeof b->model, "%s/model.safetensors", b->folder);
    snprintf(b->root, sizeof b->root, "%s/eeg", b->folder);
    snprintf(b->cache, sizeof b->cache, "%s/cache", b->folder);
    write_hours(b->root, hours);
    write_model(b->model, type);
    assert_int_equal(device_open(getenv("BRR_TEST_DEVICE"), 0, &b->device, NULL), 0);
}

static void close_counted(struct counted_bench *b) {
    device_close(b->device);
    fixture_remove(b->folder);
}

/* 709 windows. */
static void detect_of_an_hour_takes_12_batches_and_15_waits(void **state) {
    (void)state;
    struct counted_bench b;
    struct arena arena;
    struct jobfile job;
    struct err err = {0};
    char text[2000];
    void *task = NULL;
    open_counted(&b, SEIZURE_TYPE_UNET, 1);
    snprintf(text, sizeof text, "kind: detect\ndetect: {model: %s}\ndata: {source: %s}\n", b.model, b.root);
    arena_init(&arena, 1 << 20);
    const struct task_env env = {.device = b.device, .directory = b.folder, .cache_dir = b.cache, .data_root = b.root};
    if (jobfile_parse(text, "job.yaml", NULL, 0, &arena, &job, &err) || task_work_of(job.kind)->open(&job, &env, &task, &err))
        fail_msg("%s", err.message);
    struct counted before = counts_now();
    if (task_work_of(job.kind)->run(task, &err))
        fail_msg("%s", err.message);
    struct counted took = counts_since(&before);
    print_message("detect of an hour: %ld launches of batches, %ld waits\n", took.recorded, took.waits);
    assert_in_range(took.recorded, 1, 12);
    assert_in_range(took.waits, 1, 15);
    assert_int_equal(took.pageable, 0);
    task_work_of(job.kind)->close(task);
    arena_done(&arena);
    close_counted(&b);
}

/* All launches of the second validation: in the first, passes are recorded. */
static void causal_validation_of_5_hours_takes_400_launches(void **state) {
    (void)state;
    static const uint8_t role[HOURS] = {1, 1, 1, 1, 1};
    struct counted_bench b;
    struct detector *detector = NULL;
    struct stream *queue = NULL;
    struct manifest *manifest = NULL;
    struct counted took = {0};
    struct err err = {0};
    open_counted(&b, SEIZURE_TYPE_CAUSAL, HOURS);
    if (stream_open(b.device, STREAM_NORMAL, &queue, &err) ||
        detector_open(b.device, b.model, &(struct model_use){detector_best_batch(b.device), DTYPE_F32, 0}, &detector, &err))
        fail_msg("%s", err.message);
    struct manifest_config config = corpus_config(b.root, b.cache);
    config.frontend = detector_info(detector)->file.frontend;
    config.window = WINDOW_S * 256;
    config.hop = HOP_S * 256;
    if (manifest_open(&config, NULL, NULL, &manifest, &err))
        fail_msg("%s", err.message);
    for (int i = 0; i < HOURS; i++) /* so that all begin together */
        assert_int_equal(recording_load(manifest_entry(manifest, i)->recording, NULL), 0);
    for (int validation = 0; validation < 2; validation++) {
        const struct evaluation_config wanted = {.detector = detector,
                                                 .stream = queue,
                                                 .manifest = manifest,
                                                 .role = role,
                                                 .wanted = 1,
                                                 .events = detector_info(detector)->file.events,
                                                 .workers = 1,
                                                 .directory = b.folder};
        struct evaluation_result result;
        struct evaluation *e = NULL;
        bool done = false;
        const struct counted before = counts_now();
        assert_int_equal(evaluation_start(&wanted, &e, NULL), 0);
        while (!done)
            assert_int_equal(evaluation_step(e, &done, &result, NULL), 0);
        evaluation_free(e);
        took = counts_since(&before);
        print_message("validation %d of %d hours: %ld launches, %ld of them of recorded steps, %ld waits\n", validation, HOURS,
                      took.launches, took.recorded, took.waits);
    }
    assert_in_range(took.launches, 1, 400);
    assert_int_equal(took.pageable, 0);
    manifest_close(manifest);
    detector_close(detector);
    stream_close(queue);
    close_counted(&b);
}

int main(void) {
    const struct CMUnitTest counts[] = {
        cmocka_unit_test(detect_of_an_hour_takes_12_batches_and_15_waits),
        cmocka_unit_test(causal_validation_of_5_hours_takes_400_launches),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_alarm_has_the_time_at_which_it_could_be_known, set_up, tear_down),
    };
    if (getenv("BRR_TEST_DEVICE"))
        return cmocka_run_group_tests(counts, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
