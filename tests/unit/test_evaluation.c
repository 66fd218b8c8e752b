/* evaluation: what it keeps of a recording is what a stream of the same samples would have said, and when. */
#include "evaluate/evaluation.h"

#include "detect/timeline.h"
#include "unit/cmocka_all.h"
#include "unit/corpus_fixture.h"
#include "unit/model_fixture.h"
#include "windows/recording.h"

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
    if (alarm->kind != ALARM_ON)
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_alarm_has_the_time_at_which_it_could_be_known, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
