/* The causal network and its streams: a step carries the state of the one before, nothing depends on later samples, on the other
 * rows of a batch, on the size of chunks, or on a snapshot in between; a gap begins anew. */

#include "base/rng.h"
#include "detect/detector.h"
#include "detect/timeline.h"
#include "unit/cmocka_all.h"
#include "unit/eeg_fixture.h"

enum { C = 3, INPUTS = 2 * C, WINDOW = 2048, SECONDS = 33, N = SECONDS * 256 + 100, STREAMS = 3, ROWS = 4, STEPS = 4 };
enum { MANY = 40 }; /* rows of a batch, more than go through the layers together */

static const char *const labels[] = {"Fp1", "F3", "C3"};
static const struct frontend_source source = {labels, C, 256};
static struct err err;

struct model {
    char folder[256], path[512];
    struct device *dev;
    struct stream *s;
    struct seizure_net *net;
    struct modelfile file;
};

static void check(int rc) {
    if (rc)
        fail_msg("%s", err.message);
}

static int setup(void **state) {
    struct model *f = calloc(1, sizeof *f);
    char sha[65];
    struct frontend_config frontend = {"custom:Fp1,F3,C3",          60,   {1, 70}, 1.5,   FRONTEND_ENVELOPE,
                                       FRONTEND_REFERENCE_RECORDED, NULL, NULL,    false, false};
    check(seizure_preset(SEIZURE_TYPE_CAUSAL, "tiny", INPUTS, &f->file.model, &err));
    f->file.model.window = WINDOW;
    f->file.model.stage_convs = 2;
    f->file.model.rescnn_blocks = 1;
    f->file.hop = 256;
    events_config_default(&f->file.events);
    f->file.events.on = f->file.events.off = 0.3;
    snprintf(f->file.labels, sizeof f->file.labels, "auto");
    check(modelfile_set_frontend(&f->file, &frontend, &err));
    fixture_folder(f->folder, sizeof f->folder);
    snprintf(f->path, sizeof f->path, "%s/model.safetensors", f->folder);
    check(device_open("cpu", 2, &f->dev, &err));
    check(stream_open(f->dev, STREAM_NORMAL, &f->s, &err));
    check(seizure_new(f->dev, &f->file.model, &(struct seizure_options){.max_batch = MANY, .precision = DTYPE_F32}, &f->net, &err));
    check(seizure_init(f->net, f->s, 11, 0.3, &err));
    struct param_set *set = seizure_params(f->net);
    const struct param *head = param_find(set, "head.out.weight"); /* starts too small to tell */
    for (int64_t i = 0; i < head->count; i++)
        set->data[head->offset + i] *= 100;
    seizure_touch(f->net);
    check(modelfile_save(f->path, &f->file, f->net, NULL, f->s, sha, &err));
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct model *f = *state;
    seizure_free(f->net);
    stream_close(f->s);
    device_close(f->dev);
    fixture_remove(f->folder);
    free(f);
    return 0;
}

static void noise(float *x, int64_t n, uint32_t which) {
    struct rng rng;
    rng_init(&rng, 5, RNG_SYNTH, which);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)rng_normal(&rng);
}

/* ---- the network ---- */

/* Row r of x (ROWS, STEPS·256, INPUTS), step by step from zeros in a batch of `batch` equal to it. */
static void run_steps(struct model *f, const float *x, int row, int batch, float *logits) {
    int64_t n = seizure_state_count(&f->file.model), wide = (int64_t)SEIZURE_STEP * INPUTS;
    float *state = calloc((size_t)(batch * n), sizeof *state), *in = malloc((size_t)(batch * wide) * sizeof *in),
          *out = malloc((size_t)batch * SEIZURE_STEP * sizeof *out);
    for (int k = 0; k < STEPS; k++) {
        for (int b = 0; b < batch; b++)
            memcpy(in + b * wide, x + ((row + b) % ROWS * STEPS + k) * wide, (size_t)wide * sizeof *in);
        struct tensor tx = tensor_3d(in, DTYPE_F32, batch, SEIZURE_STEP, INPUTS),
                      ty = tensor_2d(out, DTYPE_F32, batch, SEIZURE_STEP), ts = tensor_2d(state, DTYPE_F32, batch, n);
        check(seizure_infer_step(f->net, f->s, &tx, &ts, &ty, &err));
        memcpy(logits + k * SEIZURE_STEP, out, SEIZURE_STEP * sizeof *out);
    }
    free(state);
    free(in);
    free(out);
}

static void a_step_goes_on_where_the_last_one_ended_whatever_is_in_its_batch(void **state) {
    struct model *f = *state;
    static float x[ROWS * STEPS * SEIZURE_STEP * INPUTS], alone[STEPS * SEIZURE_STEP], together[STEPS * SEIZURE_STEP];
    static float window[WINDOW * INPUTS], whole[WINDOW];
    noise(x, (int64_t)(sizeof x / sizeof *x), 1);
    for (int row = 0; row < ROWS; row++) {
        run_steps(f, x, row, 1, alone);
        run_steps(f, x, row, ROWS, together);
        assert_memory_equal(alone, together, sizeof alone);
        run_steps(f, x, row, MANY, together);
        assert_memory_equal(alone, together, sizeof alone);
        noise(window, WINDOW * INPUTS, 2);
        memcpy(window, x + (int64_t)row * STEPS * SEIZURE_STEP * INPUTS, sizeof x / ROWS);
        struct tensor tx = tensor_3d(window, DTYPE_F32, 1, WINDOW, INPUTS), ty = tensor_2d(whole, DTYPE_F32, 1, WINDOW);
        check(seizure_infer(f->net, f->s, &tx, &ty, &err));
        for (int i = 0; i < STEPS * SEIZURE_STEP; i++) /* the same sums in another order; samples behind these change nothing */
            assert_true(fabsf(alone[i] - whole[i]) < 1e-4f * (1 + fabsf(whole[i])));
    }
}

static void no_answer_depends_on_what_comes_after_its_token(void **state) {
    struct model *f = *state;
    static float x[WINDOW * INPUTS], before[WINDOW], after[WINDOW];
    noise(x, WINDOW * INPUTS, 3);
    struct tensor tx = tensor_3d(x, DTYPE_F32, 1, WINDOW, INPUTS), ty = tensor_2d(before, DTYPE_F32, 1, WINDOW);
    check(seizure_infer(f->net, f->s, &tx, &ty, &err));
    enum { AT = 1000 }; /* in the token of samples 992 to 1007 */
    x[AT * INPUTS] += 3;
    ty.data = after;
    check(seizure_infer(f->net, f->s, &tx, &ty, &err));
    assert_memory_equal(before, after, 992 * sizeof(float));
    assert_true(before[992] != after[992] && before[1100] != after[1100]);
}

static void configurations_that_look_ahead_are_refused(void **state) {
    struct model *f = *state;
    struct seizure_config c = f->file.model, back;
    struct str text;
    struct json_writer w;
    struct json *j = NULL;
    check(seizure_preset(SEIZURE_TYPE_CAUSAL, "tiny", INPUTS, &back, &err));
    assert_true(seizure_parameter_count(&back) > 50000 && seizure_parameter_count(&back) < 70000);
    assert_int_equal(seizure_step(&c), 256);
    str_init(&text, 4096);
    json_writer_init(&w, &text);
    seizure_config_to_json(&c, &w, NULL);
    assert_non_null(strstr(str_cstr(&text), "\"type\":\"causal\""));
    check(json_parse(str_cstr(&text), text.len, "text", &j, &err));
    check(seizure_config_from_json(j, &back, &err));
    assert_true(back.type == SEIZURE_TYPE_CAUSAL && back.headdim == 16 && back.stage_convs == 2 && back.rescnn_blocks == 1);
    assert_string_equal(seizure_preset_name(&back), "custom");
    json_free(j);
    str_done(&text);
    c.mixer = SEIZURE_MIXER_CONV;
    assert_int_equal(seizure_config_check(&c, &err), ERR_INVALID);
    c = f->file.model;
    c.stage_convs = 5;
    assert_int_equal(seizure_config_check(&c, &err), ERR_INVALID);
    c = f->file.model;
    c.window += 16;
    assert_int_equal(seizure_config_check(&c, &err), ERR_INVALID);
    check(seizure_preset(SEIZURE_TYPE_UNET, "tiny", INPUTS, &c, &err));
    assert_true(seizure_step(&c) == 0 && seizure_state_count(&c) == 0);
    c.stage_convs = 2; /* a setting of causal networks alone */
    assert_int_equal(seizure_config_check(&c, &err), ERR_INVALID);
}

/* ---- streams ---- */

struct trace {
    float p[N + 512];
    int64_t n;
    int ons, events;
    int64_t first_known;
};

static int keep(void *ctx, int64_t first, const float *p, int64_t n, struct err *e) {
    struct trace *t = ctx;
    (void)e;
    assert_int_equal(first, t->n);
    memcpy(t->p + first, p, (size_t)n * sizeof *p);
    t->n = first + n;
    return 0;
}

static int keep_alarm(void *ctx, const struct timeline_alarm *alarm, struct err *e) {
    struct trace *t = ctx;
    (void)e;
    if (alarm->on && !t->ons++)
        t->first_known = alarm->known;
    return 0;
}

static int keep_event(void *ctx, const struct event *event, struct err *e) {
    (void)event, (void)e;
    ((struct trace *)ctx)->events++;
    return 0;
}

static struct timeline *open_stream(const struct detector *d, struct trace *to) {
    struct timeline *t = NULL;
    struct timeline_options options = {.alarm_hop = SEIZURE_STEP};
    struct timeline_sink sink = {.ctx = to, .probabilities = keep, .alarm = keep_alarm, .event = keep_event};
    check(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, &err));
    return t;
}

static void send(struct timeline *t, int k, int64_t at, int64_t n) {
    static float buffer[C][N];
    const float *uv[C];
    for (int c = 0; c < C; c++) {
        uv[c] = buffer[c];
        for (int64_t i = 0; i < n; i++)
            buffer[c][i] = (float)fixture_sample(c + 5 * k, at + i, 256);
    }
    check(timeline_push(t, uv, n, &err));
}

static void finish(struct model *f, struct detector *d, struct timeline *t) {
    check(timeline_finish(t, &err));
    check(detector_run(d, f->s, &t, 1, 0, NULL, &err));
    assert_true(timeline_done(t));
    timeline_free(t);
}

static void offline(struct model *f, struct detector *d, int k, struct trace *to) {
    *to = (struct trace){0};
    struct timeline *t = open_stream(d, to);
    send(t, k, 0, N);
    finish(f, d, t);
    assert_int_equal(to->n, N);
}

/* Streams of `batched`, which runs on stream s, beside each alone. */
static void check_streams(struct model *f, struct detector *batched, struct stream *s) {
    static struct trace whole[STREAMS], live[STREAMS];
    struct detector *single = NULL;
    struct timeline *t[STREAMS];
    int64_t at[STREAMS] = {0}, ran = 0;
    check(detector_open(f->dev, f->path, &(struct model_use){1, DTYPE_F32, 0}, &single, &err));
    for (int k = 0; k < STREAMS; k++) {
        offline(f, single, k, &whole[k]);
        live[k] = (struct trace){0};
        t[k] = open_stream(batched, &live[k]);
    }
    for (bool more = true; more;) {
        more = false;
        for (int k = 0; k < STREAMS; k++) {
            int64_t n = 19 + 301 * k;
            n = at[k] + n > N ? N - at[k] : n;
            if (n)
                send(t[k], k, at[k], n);
            at[k] += n;
            more |= n > 0;
        }
        check(detector_run(batched, s, t, STREAMS, 2, &ran, &err));
        assert_true(ran <= 2);
    }
    for (int k = 0; k < STREAMS; k++)
        check(timeline_finish(t[k], &err));
    check(detector_run(batched, s, t, STREAMS, 0, NULL, &err));
    for (int k = 0; k < STREAMS; k++) {
        assert_true(timeline_done(t[k]));
        timeline_free(t[k]);
        assert_int_equal(live[k].n, N);
        assert_memory_equal(live[k].p, whole[k].p, N * sizeof(float));
        assert_true(live[k].ons == whole[k].ons && live[k].events == whole[k].events);
        assert_true(!live[k].ons || live[k].first_known >= TIMELINE_ALARM_SIGNAL); /* whatever the window */
    }
    assert_true(memcmp(whole[0].p, whole[1].p, N * sizeof(float)) != 0); // NOLINT(bugprone-suspicious-memory-comparison): the bits
    detector_close(single);
}

static void streams_of_any_chunks_equal_the_whole_recording(void **state) {
    struct model *f = *state;
    struct detector *batched = NULL;
    check(detector_open(f->dev, f->path, &(struct model_use){4, DTYPE_F32, 0}, &batched, &err));
    check_streams(f, batched, f->s);
    detector_close(batched);
}

static void streams_on_lanes_equal_the_whole_recording(void **state) {
    struct model *f = *state;
    for (int threads = 1; threads <= 8; threads *= 2) { /* more threads than rows, too; 1: alone */
        struct device *dev = NULL;
        struct stream *s = NULL;
        struct detector *spread = NULL;
        struct model_image *image = NULL;
        check(device_open("cpu", threads, &dev, &err));
        check(stream_open(dev, STREAM_NORMAL, &s, &err));
        check(model_image_open(f->path, &(struct model_use){4, DTYPE_F32, 0}, &image, &err));
        check(detector_upload(dev, image, &spread, &err));
        const int64_t bytes = detector_info(spread)->memory_bytes;
        check(detector_spread(spread, image, s, &(struct lane_use){0, threads == 1}, &err));
        assert_true(detector_info(spread)->memory_bytes > bytes); /* it has lanes */
        model_image_close(image);
        check_streams(f, spread, s);
        detector_close(spread);
        stream_close(s);
        device_close(dev);
        stream_close(f->s); /* its thread computes with its team again */
        check(stream_open(f->dev, STREAM_NORMAL, &f->s, &err));
    }
}

static void a_snapshot_carries_the_state(void **state) {
    struct model *f = *state;
    static struct trace whole, live;
    struct detector *d = NULL;
    check(detector_open(f->dev, f->path, &(struct model_use){2, DTYPE_F32, 0}, &d, &err));
    offline(f, d, 0, &whole);
    live = (struct trace){0};
    struct timeline *t = open_stream(d, &live);
    for (int64_t at = 0, n; at < N; at += n) {
        struct str saved;
        n = at + 700 > N ? N - at : 700;
        send(t, 0, at, n);
        check(detector_run(d, f->s, &t, 1, 1, NULL, &err)); /* some of what waits is in the snapshot */
        str_init(&saved, 1 << 22);
        check(timeline_save(t, &saved, &err));
        timeline_free(t);
        t = open_stream(d, &live);
        struct unpack in = unpack_of(str_cstr(&saved), saved.len);
        check(timeline_load(t, &in, &err));
        assert_true(unpack_done(&in));
        str_done(&saved);
    }
    finish(f, d, t);
    assert_int_equal(live.n, N);
    assert_memory_equal(live.p, whole.p, N * sizeof(float));
    detector_close(d);
}

static void a_long_gap_begins_from_zeros(void **state) {
    struct model *f = *state;
    static struct trace whole, live;
    enum { BEFORE = 1500, GAP = 1024 };
    struct detector *d = NULL;
    check(detector_open(f->dev, f->path, &(struct model_use){2, DTYPE_F32, 0}, &d, &err));
    offline(f, d, 0, &whole);
    live = (struct trace){0};
    struct timeline *t = open_stream(d, &live);
    send(t, 1, 0, BEFORE);
    check(timeline_gap(t, GAP, &err));
    send(t, 0, 0, N / 2);
    finish(f, d, t);
    assert_int_equal(live.n, BEFORE + GAP + N / 2);
    assert_true(isnan(live.p[BEFORE]) && isnan(live.p[BEFORE + GAP - 1]));
    int64_t same = N / 2 / SEIZURE_STEP * SEIZURE_STEP;
    assert_memory_equal(live.p + BEFORE + GAP, whole.p, (size_t)same * sizeof(float));
    detector_close(d);
}

/* ---- alarms after a gap ---- */

struct alarms {
    int64_t known[4]; /* of those that go on */
    int n;
};

static int keep_known(void *ctx, const struct timeline_alarm *alarm, struct err *e) {
    struct alarms *to = ctx;
    (void)e;
    if (alarm->on) {
        assert_in_range(to->n, 0, 3);
        to->known[to->n++] = alarm->known;
    }
    return 0;
}

/* Every second is a seizure to it: what waits is taken and answered. */
static void answer_ones(struct timeline *t) {
    static float x[SEIZURE_STEP * INPUTS], ones[SEIZURE_STEP];
    for (int i = 0; i < SEIZURE_STEP; i++)
        ones[i] = 1;
    while (timeline_take(t, x))
        check(timeline_complete(t, ones, &err));
}

static struct timeline *open_alarms(const struct modelfile *file, struct alarms *to) {
    struct timeline *t = NULL;
    struct timeline_options options = {.alarm_hop = SEIZURE_STEP};
    struct timeline_sink sink = {.ctx = to, .alarm = keep_known};
    check(timeline_new(file, &source, &options, &sink, &t, NULL, &err));
    return t;
}

/* So many seconds of signal, a gap of 20 s, and 25 s of signal; the second part goes on from a snapshot. */
static struct alarms alarms_around_a_gap(const struct modelfile *file, int before_s) {
    enum { GAP_S = 20, AFTER_S = 25, RATE = 256 };
    struct alarms to = {.n = 0};
    struct str saved = str_of(1 << 22);
    struct timeline *t = open_alarms(file, &to);
    send(t, 0, 0, before_s * RATE);
    check(timeline_gap(t, GAP_S * RATE, &err));
    answer_ones(t);
    check(timeline_save(t, &saved, &err));
    timeline_free(t);
    t = open_alarms(file, &to);
    struct unpack in = unpack_of(str_cstr(&saved), saved.len);
    check(timeline_load(t, &in, &err));
    str_done(&saved);
    send(t, 0, 0, AFTER_S * RATE);
    check(timeline_finish(t, &err));
    answer_ones(t);
    timeline_free(t);
    return to;
}

static void alarms_after_a_gap_wait_for_what_the_model_lacks(void **state) {
    struct model *f = *state;
    struct modelfile file = f->file;
    struct alarms known = alarms_around_a_gap(&file, 32);
    assert_true(known.n == 1 && known.known[0] == 30 * 256); /* it forgets the person: 25 s are too few */
    file.frontend.learn_background = true;
    known = alarms_around_a_gap(&file, 32);
    assert_true(known.n == 2 && known.known[0] == 30 * 256 && known.known[1] == (32 + 20 + 10) * 256);
    known = alarms_around_a_gap(&file, 12); /* 30 s of signal in all */
    assert_true(known.n == 1 && known.known[0] == (12 + 20 + 18) * 256);
    check(seizure_preset(SEIZURE_TYPE_LINE_LENGTH, "", 1, &file.model, &err)); /* steps without a state */
    file.frontend.normalize = FRONTEND_LINE_LENGTH;
    known = alarms_around_a_gap(&file, 32);
    assert_true(known.n == 2 && known.known[0] == 30 * 256 && known.known[1] == (32 + 20 + 10) * 256);
}

static void other_alarm_hops_than_the_step_are_refused(void **state) {
    struct model *f = *state;
    struct timeline *t = NULL;
    struct timeline_sink sink = {0};
    struct timeline_options options = {.alarm_hop = 128};
    assert_int_equal(timeline_new(&f->file, &source, &options, &sink, &t, NULL, &err), ERR_INVALID);
    assert_string_equal(err.message,
                        "alarm hop of 0.5 s; expected that of the model, which decides once in each of its steps, 1 s");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_step_goes_on_where_the_last_one_ended_whatever_is_in_its_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(no_answer_depends_on_what_comes_after_its_token, setup, teardown),
        cmocka_unit_test_setup_teardown(configurations_that_look_ahead_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(streams_of_any_chunks_equal_the_whole_recording, setup, teardown),
        cmocka_unit_test_setup_teardown(streams_on_lanes_equal_the_whole_recording, setup, teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_carries_the_state, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_gap_begins_from_zeros, setup, teardown),
        cmocka_unit_test_setup_teardown(alarms_after_a_gap_wait_for_what_the_model_lacks, setup, teardown),
        cmocka_unit_test_setup_teardown(other_alarm_hops_than_the_step_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
