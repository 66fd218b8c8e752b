/* Model files and detectors: what is saved comes back, batching and interleaving change nothing, bad files are refused. */
#include <sys/resource.h>

#include "detect/detector.h"
#include "detect/model_image.h"
#include "detect/precision.h"
#include "detect/timeline.h"
#include "kernels/op.h"
#include "nn/ckpt.h"
#include "unit/cmocka_all.h"
#include "unit/eeg_fixture.h"

enum { C = 3, WINDOW = 512, HOP = 128, SECONDS = 13, N = SECONDS * 256, STREAMS = 3 };

static const char *const labels[] = {"Fp1", "F3", "C3"};
static const struct frontend_source source = {labels, C, 256};

struct model {
    char folder[256], path[512];
    struct device *dev;
    struct stream *s;
    struct seizure_net *net;
    struct modelfile file;
    char sha[65];
};

static void net_new(struct model *f, int batch) {
    struct seizure_options o = {.max_batch = batch, .precision = DTYPE_F32};
    assert_int_equal(seizure_new(f->dev, &f->file.model, &o, &f->net, NULL), 0);
    assert_int_equal(seizure_init(f->net, f->s, 11, 0.3, NULL), 0);
}

static int setup(void **state) {
    struct model *f = calloc(1, sizeof *f);
    struct frontend_config frontend = {"custom:Fp1,F3,C3",          60,   {1, 70}, 1.5,   FRONTEND_WINDOW,
                                       FRONTEND_REFERENCE_RECORDED, NULL, NULL,    false, false};
    assert_int_equal(seizure_preset(SEIZURE_TYPE_UNET, "tiny", C, &f->file.model, NULL), 0);
    f->file.model.window = WINDOW;
    memcpy(f->file.model.encoder_channels, (int[]){8, 8, 16, 16}, sizeof f->file.model.encoder_channels);
    f->file.model.mamba_layers = 1;
    f->file.model.headdim = 8;
    f->file.hop = HOP;
    f->file.step = 123;
    f->file.epoch = 4;
    f->file.prior = 0.0625;
    events_config_default(&f->file.events);
    f->file.events.on = 0.31;
    f->file.events.off = 0.29;
    snprintf(f->file.labels, sizeof f->file.labels, "bids-tsv");
    snprintf(f->file.manifest, sizeof f->file.manifest, "abc");
    assert_int_equal(modelfile_set_frontend(&f->file, &frontend, NULL), 0);
    fixture_folder(f->folder, sizeof f->folder);
    snprintf(f->path, sizeof f->path, "%s/model.safetensors", f->folder);
    assert_int_equal(device_open("cpu", 0, &f->dev, NULL), 0);
    assert_int_equal(stream_open(f->dev, STREAM_NORMAL, &f->s, NULL), 0);
    net_new(f, 4);
    struct err err;
    if (modelfile_save(f->path, &f->file, f->net, NULL, f->s, f->sha, &err))
        fail_msg("%s", err.message);
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

static void a_model_file_brings_back_everything_detection_needs(void **state) {
    struct model *f = *state;
    struct modelfile m;
    struct err err;
    if (modelfile_read(f->path, &m, &err))
        fail_msg("%s", err.message);
    assert_string_equal(m.frontend.montage, "custom:Fp1,F3,C3");
    assert_ptr_equal(m.frontend.montage, m.montage);
    assert_true(m.frontend.notch_hz == 60 && m.frontend.bandpass_hz[0] == 1 && m.frontend.bandpass_hz[1] == 70);
    assert_true(m.frontend.fill_gap_s == 1.5);
    assert_true(m.hop == HOP && m.step == 123 && m.epoch == 4 && m.prior == 0.0625);
    assert_true(m.events.on == 0.31 && m.events.off == 0.29);
    assert_string_equal(m.labels, "bids-tsv");
    assert_string_equal(m.manifest, "abc");
    assert_true(m.model.in_channels == C && m.model.window == WINDOW && m.model.encoder_channels[2] == 16);
    struct detector *d = NULL;
    assert_int_equal(detector_open(f->dev, f->path, &(struct model_use){2, DTYPE_F32, 0}, &d, &err), 0);
    const struct detector_info *info = detector_info(d);
    assert_string_equal(info->sha256, f->sha);
    assert_string_equal(info->checkpoint, f->path);
    assert_int_equal(info->parameters, seizure_parameter_count(&m.model));
    assert_ptr_equal(info->file.frontend.montage, info->file.montage);
    detector_close(d);
}

struct pairs {
    struct safetensors_pair items[32];
    size_t n;
};

static void keep_pair(void *ctx, const char *key, const char *value) {
    struct pairs *p = ctx;
    assert_true(p->n < 32);
    p->items[p->n++] = (struct safetensors_pair){key, value};
}

/* Replaces the last value of a tensor of the model file. */
static void poison(const struct model *f, const char *name, float value) {
    enum { MOST = 512 };
    struct safetensors_entry entries[MOST];
    struct pairs pairs = {.n = 0};
    struct safetensors *st = NULL;
    struct err err;
    char sha[65];
    assert_int_equal(safetensors_open(f->path, &st, &err), 0);
    size_t n = safetensors_count(st);
    assert_true(n <= MOST && safetensors_find(st, name));
    for (size_t i = 0; i < n; i++) {
        entries[i] = *safetensors_at(st, i);
        if (!strcmp(entries[i].name, name))
            ((float *)(uintptr_t)entries[i].data)[entries[i].bytes / sizeof value - 1] = value;
    }
    safetensors_each_metadata(st, keep_pair, &pairs);
    const struct safetensors_content content = {entries, n, pairs.items, pairs.n};
    assert_int_equal(safetensors_write(f->path, &content, sha, &err), 0);
    safetensors_close(st);
}

static void values_that_are_no_numbers_are_refused_by_name(void **state) {
    struct model *f = *state;
    static const struct {
        const char *tensor;
        float value;
        const char *said;
    } bad[] = {{"encoder.0.conv1.weight", NAN, "is NaN or infinite"},
               {"encoder.0.bn1.running_mean", INFINITY, "is NaN or infinite"},
               {"encoder.0.bn1.running_var", -0.5f, "expected a variance"}};
    char sha[65];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = {0};
        struct detector *d = NULL;
        assert_int_equal(modelfile_save(f->path, &f->file, f->net, NULL, f->s, sha, &err), 0);
        poison(f, bad[i].tensor, bad[i].value);
        assert_int_equal(model_image_check(f->path, &err), ERR_INVALID);
        assert_non_null(strstr(err.message, bad[i].tensor));
        assert_non_null(strstr(err.message, bad[i].said));
        assert_int_equal(detector_open(f->dev, f->path, &(struct model_use){2, DTYPE_F32, 0}, &d, &err), ERR_INVALID);
        assert_null(d);
        assert_int_equal(ckpt_load_model(f->path, seizure_params(f->net), f->s, false, &err), ERR_INVALID);
    }
}

/* Each weight is a number, and their products overflow. */
static void a_network_that_answers_no_numbers_is_refused(void **state) {
    struct model *f = *state;
    struct err err = {0};
    struct detector *d = NULL;
    char sha[65];
    assert_int_equal(modelfile_save(f->path, &f->file, f->net, NULL, f->s, sha, &err), 0);
    poison(f, "head.out.bias", 3.4e38f);
    poison(f, "head.out.weight", 3.4e38f);
    assert_int_equal(model_image_check(f->path, &err), 0);
    assert_int_equal(detector_open(f->dev, f->path, &(struct model_use){2, DTYPE_F32, 0}, &d, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "is not finite"));
    assert_null(d);
}

/* One weight that hides all others: the answer to anything is 0, or 1. */
static void a_network_that_always_answers_the_same_is_refused(void **state) {
    struct model *f = *state;
    struct detector *d = NULL;
    struct err err = {0};
    const float biases[] = {-1e30f, 1e30f, -60, 0};
    char sha[65];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(modelfile_save(f->path, &f->file, f->net, NULL, f->s, sha, &err), 0);
        poison(f, "head.out.bias", biases[i]);
        const int rc = detector_open(f->dev, f->path, &(struct model_use){2, DTYPE_F32, 0}, &d, &err);
        assert_int_equal(rc, i < 2 ? ERR_INVALID : 0);
        assert_int_equal(detector_check(f->path, &err), rc);
        if (rc)
            assert_non_null(strstr(err.message, i ? "probability is 1 at every" : "probability is 0 at every"));
        detector_close(d);
        d = NULL;
    }
}

/* Little on disk, much claimed: nothing may be allocated for it. */
static void a_file_that_claims_more_than_it_holds_costs_no_memory(void **state) {
    struct model *f = *state;
    struct seizure_config right = f->file.model;
    struct detector *d = NULL;
    struct err err = {0};
    struct rlimit old, little;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    f->file.model.rescnn_blocks = 64; /* of 4,096 channels, 25 GB each */
    f->file.model.encoder_channels[3] = 4096;
    f->file.model.mamba_layers = 0;
    assert_int_equal(modelfile_save(f->path, &f->file, f->net, NULL, f->s, f->sha, NULL), 0);
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    little = old; /* their shadows need more than any limit; they refuse such allocations by themselves */
#else
    little = (struct rlimit){(rlim_t)8 << 30, old.rlim_max}; /* an allocation of that size fails, and another error comes */
#endif
    assert_int_equal(setrlimit(RLIMIT_AS, &little), 0);
    int rc = detector_open(f->dev, f->path, &(struct model_use){1, DTYPE_F32, 0}, &d, &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    if (rc != ERR_INVALID)
        fail_msg("%d: %s", rc, err.message);
    assert_non_null(strstr(err.message, "tensor 'encoder.3"));
    f->file.model = right;
    f->file.model.window = 1 << 20; /* no tensor tells */
    assert_int_equal(modelfile_save(f->path, &f->file, f->net, NULL, f->s, f->sha, NULL), 0);
    assert_int_equal(detector_open(f->dev, f->path, &(struct model_use){64, DTYPE_F32, (int64_t)64 << 20}, &d, &err),
                     ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, "67108864 may be used (limits.memory)"));
    assert_null(d);
}

static void files_that_are_no_models_are_refused_with_the_reason(void **state) {
    struct model *f = *state;
    struct modelfile m;
    struct err err = {0};
    struct detector *d = NULL;
    assert_int_equal(modelfile_read("/proc/nonexistent/model", &m, &err), ERR_NOT_FOUND);
    struct seizure_config right = f->file.model;
    f->file.model.in_channels = 4; /* not what the montage gives */
    seizure_free(f->net);
    net_new(f, 1);
    assert_int_equal(modelfile_save(f->path, &f->file, f->net, NULL, f->s, f->sha, NULL), 0);
    assert_int_equal(detector_open(f->dev, f->path, &(struct model_use){1, DTYPE_F32, 0}, &d, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "takes 4 channels"));
    f->file.model = right;
    seizure_free(f->net);
    net_new(f, 1);
    f->file.model.encoder_channels[0] = 12; /* metadata of another network than the tensors' */
    assert_int_equal(modelfile_save(f->path, &f->file, f->net, NULL, f->s, f->sha, NULL), 0);
    assert_int_equal(detector_open(f->dev, f->path, &(struct model_use){1, DTYPE_F32, 0}, &d, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "encoder."));
    f->file.model = right;
    f->file.hop = WINDOW + 1;
    assert_int_equal(modelfile_save(f->path, &f->file, f->net, NULL, f->s, f->sha, NULL), 0);
    assert_int_equal(modelfile_read(f->path, &m, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "brr.hop"));
}

struct trace {
    float p[N + 256];
    int64_t n;
};

static int keep(void *ctx, int64_t first, const float *p, int64_t n, struct err *err) {
    struct trace *t = ctx;
    (void)err;
    assert_int_equal(first, t->n);
    memcpy(t->p + first, p, (size_t)n * sizeof *p);
    t->n = first + n;
    return 0;
}

static struct timeline *open_stream(const struct detector *d, struct trace *to) {
    struct timeline *t = NULL;
    struct timeline_options options = {.alarm_hop = HOP};
    struct timeline_sink sink = {.ctx = to, .probabilities = keep};
    to->n = 0;
    assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, NULL), 0);
    return t;
}

/* Samples [at, at + n) of stream k. */
static void send(struct timeline *t, int k, int64_t at, int64_t n) {
    static float buffer[C][N];
    const float *uv[C];
    for (int c = 0; c < C; c++) {
        uv[c] = buffer[c];
        for (int64_t i = 0; i < n; i++)
            buffer[c][i] = (float)fixture_sample(c + 5 * k, at + i, 256);
    }
    assert_int_equal(timeline_push(t, uv, n, NULL), 0);
}

static void check_batches(struct model *f, struct detector *batched) {
    static struct trace alone[STREAMS], together[STREAMS];
    struct detector *single = NULL;
    assert_int_equal(detector_open(f->dev, f->path, &(struct model_use){1, DTYPE_F32, 0}, &single, NULL), 0);
    for (int k = 0; k < STREAMS; k++) { /* offline: everything at once, one window per batch */
        struct timeline *t = open_stream(single, &alone[k]);
        send(t, k, 0, N);
        assert_int_equal(timeline_finish(t, NULL), 0);
        assert_int_equal(detector_run(single, f->s, &t, 1, 0, NULL, NULL), 0);
        assert_true(timeline_done(t));
        assert_int_equal(alone[k].n, N);
        timeline_free(t);
    }
    struct timeline *t[STREAMS];
    int64_t at[STREAMS] = {0}, windows = 0, ran = 0, total = 0;
    for (int k = 0; k < STREAMS; k++)
        t[k] = open_stream(batched, &together[k]);
    for (bool more = true; more;) { /* chunks of different sizes; at most 3 windows per turn */
        more = false;
        for (int k = 0; k < STREAMS; k++) {
            int64_t n = 100 + 77 * k;
            n = at[k] + n > N ? N - at[k] : n;
            if (n)
                send(t[k], k, at[k], n);
            at[k] += n;
            more |= n > 0;
        }
        assert_int_equal(detector_run(batched, f->s, t, STREAMS, 3, &ran, NULL), 0);
        assert_true(ran <= 3);
        total += ran;
    }
    for (int k = 0; k < STREAMS; k++)
        assert_int_equal(timeline_finish(t[k], NULL), 0);
    assert_int_equal(detector_run(batched, f->s, t, STREAMS, 0, &ran, NULL), 0);
    for (int k = 0; k < STREAMS; k++) {
        assert_true(timeline_done(t[k]));
        windows += timeline_windows(t[k]);
        assert_int_equal(together[k].n, N);
        assert_memory_equal(together[k].p, alone[k].p, N * sizeof(float));
        timeline_free(t[k]);
    }
    assert_int_equal(total + ran, windows);
    assert_true(memcmp(alone[0].p, alone[1].p, N * sizeof(float)) != 0); // NOLINT(bugprone-suspicious-memory-comparison): the bits
    detector_close(single);
}

static void batched_and_interleaved_streams_equal_each_alone(void **state) {
    struct model *f = *state;
    struct detector *batched = NULL;
    assert_int_equal(detector_open(f->dev, f->path, &(struct model_use){4, DTYPE_F32, 0}, &batched, NULL), 0);
    check_batches(f, batched);
    detector_close(batched);
}

static void windows_side_by_side_equal_each_alone(void **state) {
    struct model *f = *state;
    for (int threads = 2; threads <= 4; threads++) {
        struct device *dev = NULL;
        struct stream *s = NULL;
        struct detector *spread = NULL;
        struct device_info info;
        assert_int_equal(device_open("cpu", threads, &dev, NULL), 0);
        assert_int_equal(stream_open(dev, STREAM_NORMAL, &s, NULL), 0);
        struct model_image *image = NULL;
        assert_int_equal(model_image_open(f->path, &(struct model_use){4, DTYPE_F32, 0}, &image, NULL), 0);
        assert_int_equal(detector_upload(dev, image, &spread, NULL), 0);
        int64_t bytes = detector_info(spread)->memory_bytes;
        assert_int_equal(detector_spread(spread, image, s, &(struct lane_use){bytes + 1000, false}, NULL),
                         0); /* there is no room for them */
        assert_int_equal(detector_info(spread)->memory_bytes, bytes);
        assert_int_equal(detector_spread(spread, image, s, &(struct lane_use){0, false}, NULL), 0);
        device_describe(dev, &info);
        if (info.threads > 1 && !strstr(info.description, "avx512")) /* there oneDNN chooses by the number of threads */
            assert_true(detector_info(spread)->memory_bytes > bytes);
        model_image_close(image);
        check_batches(f, spread);
        detector_close(spread);
        stream_close(s);
        device_close(dev);
    }
}

static void a_wrapped_net_gives_what_its_file_gives(void **state) {
    struct model *f = *state;
    static struct trace wrapped, opened;
    struct detector *d[2] = {NULL, NULL};
    struct trace *to[2] = {&wrapped, &opened};
    assert_int_equal(detector_wrap(f->dev, f->net, &f->file, 4, &d[0], NULL), 0);
    assert_int_equal(detector_open(f->dev, f->path, &(struct model_use){4, DTYPE_F32, 0}, &d[1], NULL), 0);
    for (int i = 0; i < 2; i++) {
        struct timeline *t = open_stream(d[i], to[i]);
        send(t, 0, 0, 3000);
        assert_int_equal(timeline_finish(t, NULL), 0);
        assert_int_equal(detector_run(d[i], f->s, &t, 1, 0, NULL, NULL), 0);
        timeline_free(t);
        detector_close(d[i]);
    }
    assert_int_equal(wrapped.n, 3000);
    assert_memory_equal(wrapped.p, opened.p, 3000 * sizeof(float));
    for (int i = 0; i < 3000; i++)
        assert_true(wrapped.p[i] > 0 && wrapped.p[i] < 1);
}

/* The same model in bf16: probabilities near those of fp32, the same for a window alone and beside others, and a file that allows
 * less than the difference is refused, by name and key. */
static void bf16_serves_within_the_bound_of_the_file(void **state) {
    struct model *f = *state;
    static struct trace precise, rounded[2];
    struct device_info device;
    device_describe(f->dev, &device);
    const struct model_use uses[] = {{4, DTYPE_F32, 0}, {4, DTYPE_BF16, 0}, {1, DTYPE_BF16, 0}};
    struct trace *to[] = {&precise, &rounded[0], &rounded[1]};
    struct detector *d = NULL;
    struct err err = {0};
    if (!device.has_bf16) { /* fp32 never takes its place */
        assert_int_equal(detector_open(f->dev, f->path, &uses[1], &d, &err), ERR_UNSUPPORTED);
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (detector_open(f->dev, f->path, &uses[i], &d, &err))
            fail_msg("%s", err.message);
        const struct detector_info *info = detector_info(d);
        assert_int_equal(info->precision, uses[i].precision);
        assert_true(i ? info->bf16_difference > 0 && info->bf16_difference <= info->file.bf16_bound : info->bf16_difference == 0);
        struct timeline *t = open_stream(d, to[i]);
        send(t, 0, 0, 3000);
        assert_int_equal(timeline_finish(t, NULL), 0);
        assert_int_equal(detector_run(d, f->s, &t, 1, 0, NULL, NULL), 0);
        timeline_free(t);
        detector_close(d);
    }
    assert_memory_equal(rounded[0].p, rounded[1].p, 3000 * sizeof(float));
    for (int i = 0; i < 3000; i++) /* a logit that is off by x moves its probability by x/4 at most; these windows are others */
        assert_true(fabsf(precise.p[i] - rounded[0].p[i]) < (float)MODELFILE_BF16_BOUND_DEFAULT);
    assert_true(memcmp(precise.p, rounded[0].p, 3000 * sizeof(float)) != 0); // NOLINT(bugprone-suspicious-memory-comparison)
    f->file.bf16_bound = 1e-9;
    assert_int_equal(modelfile_save(f->path, &f->file, f->net, NULL, f->s, f->sha, NULL), 0);
    assert_int_equal(detector_open(f->dev, f->path, &uses[1], &d, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "allows 1e-09 (brr.bf16_bound); use it in fp32"));
    assert_int_equal(detector_open(f->dev, f->path, &uses[0], &d, &err), 0);
    detector_close(d);
}

static void differences_of_logits_are_the_greatest_and_never_hide_a_nan(void **state) {
    (void)state;
    const float a[] = {0, 1, -2, 3}, b[] = {0.5f, 1, -4, 3}, c[] = {0, NAN, 0, 9}, d[] = {0, INFINITY, 0, 0};
    assert_true(precision_difference(a, b, 4) == 2);
    assert_true(precision_difference(a, a, 4) == 0);
    assert_true(isnan(precision_difference(a, c, 4)));
    assert_true(isinf(precision_difference(a, d, 4)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_model_file_brings_back_everything_detection_needs, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_claims_more_than_it_holds_costs_no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(values_that_are_no_numbers_are_refused_by_name, setup, teardown),
        cmocka_unit_test_setup_teardown(a_network_that_answers_no_numbers_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_network_that_always_answers_the_same_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(files_that_are_no_models_are_refused_with_the_reason, setup, teardown),
        cmocka_unit_test_setup_teardown(batched_and_interleaved_streams_equal_each_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(windows_side_by_side_equal_each_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(bf16_serves_within_the_bound_of_the_file, setup, teardown),
        cmocka_unit_test(differences_of_logits_are_the_greatest_and_never_hide_a_nan),
        cmocka_unit_test_setup_teardown(a_wrapped_net_gives_what_its_file_gives, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
