/* A model file's metadata: all of it comes back, averaged weights take the parameters' place, and a file that lacks or contradicts
 * something is an error that names file and key. */

#include "base/base.h"
#include "unit/temp_dir.h"

#include "base/json.h"
#include "detect/modelfile.h"
#include "store/safetensors.h"

enum { MOST_PAIRS = 20 };
static struct err err;

static void ok(int rc) {
    if (rc)
        fail_msg("%s", err.message);
}

static void make_example(struct modelfile *m) {
    *m = (struct modelfile){.hop = 128, .step = 4321, .epoch = 7, .prior = 0.1, .bf16_bound = 0.375};
    struct frontend_config frontend = {"custom:Fp1,F3,C3",          60,   {1, 70.5}, 1.5,   FRONTEND_CAUSAL,
                                       FRONTEND_REFERENCE_RECORDED, NULL, NULL,      false, false};
    ok(seizure_preset(SEIZURE_TYPE_UNET, "tiny", 3, &m->model, &err));
    m->model.window = 512;
    m->model.mamba_layers = 1;
    events_config_default(&m->events);
    m->events.on = 0.123456789012345;
    m->events.off = 0.1;
    m->events.confidence = EVENT_CONFIDENCE_PEAK;
    ok(modelfile_set_frontend(m, &frontend, &err));
    str_copy(m->labels, sizeof m->labels, "csv_bi");
    str_copy(m->manifest, sizeof m->manifest, "0123456789abcdef");
}

struct net {
    struct device *device;
    struct stream *stream;
    struct seizure_net *net;
};

static struct net net_of(const struct modelfile *m) {
    struct net n = {0};
    struct seizure_options options = {.max_batch = 1, .precision = DTYPE_F32};
    ok(device_open("cpu", 1, &n.device, &err));
    ok(stream_open(n.device, STREAM_NORMAL, &n.stream, &err));
    ok(seizure_new(n.device, &m->model, &options, &n.net, &err));
    ok(seizure_init(n.net, n.stream, 5, 0.1, &err));
    return n;
}

static void net_done(struct net *n) {
    seizure_free(n->net);
    stream_close(n->stream);
    device_close(n->device);
}

static void everything_comes_back(void **state) {
    struct modelfile m, back;
    make_example(&m);
    struct net n = net_of(&m);
    char sha[65];
    for (int from = 0; from < 3; from++) {
        str_copy(m.init_from_sha256, sizeof m.init_from_sha256, from ? "5e884898da28047151d0e56f8dc62927" : "");
        str_copy(m.notice, sizeof m.notice, from ? "Contains \"information\" from a database." : "");
        m.most_missing = 5 * from; /* 0: the file does not say it */
        str_copy(m.init_from, sizeof m.init_from, from == 2 ? "store://bucket/models/base.safetensors" : "");
        memset(&back, 0xa5, sizeof back);
        ok(modelfile_save(in_dir(state, "m.safetensors"), &m, n.net, NULL, n.stream, sha, &err));
        ok(modelfile_read(in_dir(state, "m.safetensors"), &back, &err));
        assert_int_equal(strlen(sha), 64);
        assert_string_equal(back.init_from, m.init_from);
        assert_string_equal(back.init_from_sha256, m.init_from_sha256);
        assert_string_equal(back.notice, m.notice);
        assert_int_equal(back.most_missing, m.most_missing);
        assert_true(!back.absent);
    }
    const double notches[] = {0, 50, FRONTEND_BOTH_NOTCHES, 60};
    for (int i = 0; i < 4; i++) {
        m.frontend.notch_hz = notches[i];
        ok(modelfile_save(in_dir(state, "m.safetensors"), &m, n.net, NULL, n.stream, sha, &err));
        ok(modelfile_read(in_dir(state, "m.safetensors"), &back, &err));
        assert_true(back.frontend.notch_hz == notches[i]);
        struct safetensors *st = NULL;
        ok(safetensors_open(in_dir(state, "m.safetensors"), &st, &err));
        assert_int_equal(strstr(safetensors_metadata(st, "brr.frontend"), "\"notch_hz\":[50,60]") != NULL,
                         notches[i] == FRONTEND_BOTH_NOTCHES); /* a list, as files of other writers have it */
        safetensors_close(st);
    }
    for (int average = 1; average >= 0; average--) { /* files without it are as older versions write them */
        m.frontend.reference = average;
        ok(modelfile_save(in_dir(state, "m.safetensors"), &m, n.net, NULL, n.stream, sha, &err));
        ok(modelfile_read(in_dir(state, "m.safetensors"), &back, &err));
        assert_int_equal(back.frontend.reference, average);
    }
    assert_false(back.frontend.learn_background || back.frontend.hold_background);
    assert_ptr_equal(back.frontend.montage, back.montage);
    assert_string_equal(back.montage, "custom:Fp1,F3,C3");
    assert_true(back.frontend.notch_hz == 60 && back.frontend.bandpass_hz[0] == 1 && back.frontend.bandpass_hz[1] == 70.5 &&
                back.frontend.fill_gap_s == 1.5 && back.frontend.normalize == FRONTEND_CAUSAL);
    assert_true(back.bf16_bound == 0.375);
    assert_true(back.hop == m.hop && back.step == m.step && back.epoch == m.epoch && back.prior == m.prior);
    assert_true(back.events.on == m.events.on && back.events.off == m.events.off && back.events.confidence == m.events.confidence);
    assert_true(back.model.window == 512 && back.model.mamba_layers == 1 && back.model.in_channels == 3);
    assert_memory_equal(back.model.encoder_channels, m.model.encoder_channels, sizeof m.model.encoder_channels);
    assert_string_equal(back.labels, "csv_bi");
    assert_string_equal(back.manifest, "0123456789abcdef");
    net_done(&n);
}

static float first_weight(const char *path, const char *name) {
    struct safetensors *st = NULL;
    float value;
    ok(safetensors_open(path, &st, &err));
    const struct safetensors_entry *e = safetensors_find(st, name);
    assert_non_null(e);
    memcpy(&value, e->data, sizeof value);
    safetensors_close(st);
    return value;
}

static void averaged_weights_take_the_place_of_the_parameters(void **state) {
    struct modelfile m;
    make_example(&m);
    struct net n = net_of(&m);
    struct param_set *set = seizure_params(n.net);
    const struct param *w = param_find(set, "encoder.stem.conv.weight");
    float *average = calloc((size_t)set->data_count, sizeof *average);
    char sha[65], other[65];
    memcpy(average, set->data, (size_t)set->data_count * sizeof *average);
    average[w->offset] = 0.625f;
    ok(modelfile_save(in_dir(state, "plain"), &m, n.net, NULL, n.stream, sha, &err));
    ok(modelfile_save(in_dir(state, "average"), &m, n.net, &(struct param_average){.data = average}, n.stream, other, &err));
    assert_true(first_weight(in_dir(state, "plain"), w->name) == set->data[w->offset]);
    assert_true(first_weight(in_dir(state, "average"), w->name) == 0.625f);
    assert_string_not_equal(sha, other);
    free(average);
    net_done(&n);
}

static void a_montage_longer_than_a_model_file_holds_is_an_error(void **state) {
    (void)state;
    struct modelfile m = {0};
    char montage[MODELFILE_TEXT + 1];
    memset(montage, 'x', MODELFILE_TEXT);
    montage[MODELFILE_TEXT] = '\0';
    struct frontend_config frontend = {.montage = montage};
    assert_int_equal(modelfile_set_frontend(&m, &frontend, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "data.montage"));
    montage[MODELFILE_TEXT - 1] = '\0';
    ok(modelfile_set_frontend(&m, &frontend, &err));
    assert_string_equal(m.frontend.montage, montage);
}

/* The metadata of a good file. */
static size_t good_pairs(struct safetensors_pair pairs[MOST_PAIRS], struct str texts[3]) {
    struct modelfile m;
    make_example(&m);
    struct json_writer w;
    for (int i = 0; i < 2; i++) {
        str_init(&texts[i], 4096);
        json_writer_init(&w, &texts[i]);
        if (i)
            events_config_to_json(&m.events, &w, NULL);
        else
            seizure_config_to_json(&m.model, &w, NULL);
    }
    const struct safetensors_pair all[] = {
        {"brr.kind", "seizure"},
        {"brr.model", str_cstr(&texts[0])},
        {"brr.frontend", "{\"montage\":\"custom:Fp1,F3,C3\",\"notch_hz\":50,\"bandpass_hz\":[0.5,120],\"fill_gap_s\":2}"},
        {"brr.events", str_cstr(&texts[1])},
        {"brr.labels", "{\"format\":\"auto\"}"},
        {"brr.hop", "128"},
    };
    memcpy(pairs, all, sizeof all);
    return sizeof all / sizeof *all;
}

static int read_pairs(const char *path, const struct safetensors_pair *pairs, size_t n, struct modelfile *ret) {
    static const float one[1] = {1};
    struct safetensors_entry entry = {.name = "w", .dtype = SAFETENSORS_F32, .rank = 1, .shape = {1}, .data = one, .bytes = 4};
    struct safetensors_content content = {&entry, 1, pairs, n};
    char sha[DIGEST_HEX_SIZE];
    ok(safetensors_write(path, &content, sha, &err));
    return modelfile_read(path, ret, &err);
}

static void a_bound_of_bf16_that_is_no_positive_number_is_an_error(void **state) {
    static const char *const wrong[] = {"0", "-1", "nan", "inf", "much"};
    struct safetensors_pair pairs[MOST_PAIRS];
    struct str texts[3];
    struct modelfile back;
    size_t n = good_pairs(pairs, texts);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        pairs[n] = (struct safetensors_pair){MODELFILE_BF16_BOUND, wrong[i]};
        assert_int_equal(read_pairs(in_dir(state, "m"), pairs, n + 1, &back), ERR_INVALID);
        assert_non_null(strstr(err.message, "brr.bf16_bound is '"));
    }
    str_done(&texts[0]);
    str_done(&texts[1]);
}

static void what_is_optional_has_a_value_when_it_is_missing(void **state) {
    struct safetensors_pair pairs[MOST_PAIRS];
    struct str texts[3];
    struct modelfile back;
    size_t n = good_pairs(pairs, texts);
    pairs[2].value = "{\"montage\":\"custom:Fp1,F3,C3\"}";
    pairs[4].value = "{}";
    ok(read_pairs(in_dir(state, "m"), pairs, n, &back));
    assert_true(back.step == 0 && back.epoch == 0 && isnan(back.prior) && back.bf16_bound == MODELFILE_BF16_BOUND_DEFAULT);
    assert_true(back.frontend.notch_hz == 0 && back.frontend.bandpass_hz[0] == 0.5 && back.frontend.bandpass_hz[1] == 120 &&
                back.frontend.fill_gap_s == 2 && back.frontend.normalize == FRONTEND_WINDOW);
    assert_string_equal(back.labels, "auto");
    assert_string_equal(back.manifest, "");
    str_done(&texts[0]);
    str_done(&texts[1]);
}

static void what_is_missing_or_wrong_is_named_and_nothing_is_returned(void **state) {
    static const struct {
        const char *key, *value; /* NULL: without the key */
        const char *says;
    } cases[] = {
        {"brr.kind", NULL, "brr.kind is 'missing'"},
        {"brr.kind", "burst", "brr.kind is 'burst'"},
        {"brr.model", NULL, "brr.model"},
        {"brr.model", "{", "brr.model"},
        {"brr.model", "{}", ""},
        {"brr.frontend", NULL, "brr.frontend"},
        {"brr.frontend", "{\"montage\":\"custom:Fp1,F3\"}", "3 channels, its montage 'custom:Fp1,F3' has 2"},
        {"brr.frontend", "{\"montage\":\"custom:\"}", "custom"},
        {"brr.frontend", "{\"montage\":\"custom:Fp1,F3,C3\",\"normalize\":\"envelope\"}", "has 6 with normalize 'envelope'"},
        {"brr.frontend", "{\"montage\":\"custom:Fp1,F3,C3\",\"normalize\":\"zscore\"}", "normalize 'zscore'"},
        {"brr.events", NULL, "brr.events"},
        {"brr.events", "{\"on\":0.5,\"off\":0.6}", ""},
        {"brr.labels", NULL, "brr.labels"},
        {"brr.labels", "[1,", "brr.labels"},
        {"brr.hop", NULL, "brr.hop is 'missing'"},
        {"brr.hop", "0", "brr.hop is '0'"},
        {"brr.hop", "513", "up to the window of 512"},
        {"brr.hop", "12.5", "brr.hop is '12.5'"},
        {"brr.hop", "many", "brr.hop is 'many'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct safetensors_pair pairs[MOST_PAIRS];
        struct str texts[3];
        struct modelfile back, before;
        size_t n = good_pairs(pairs, texts), kept = 0;
        for (size_t k = 0; k < n; k++) {
            bool meant = !strcmp(pairs[k].key, cases[i].key);
            if (!meant || cases[i].value)
                pairs[kept++] = meant ? (struct safetensors_pair){cases[i].key, cases[i].value} : pairs[k];
        }
        memset(&back, 0x5a, sizeof back);
        before = back;
        if (read_pairs(in_dir(state, "m"), pairs, kept, &back) != ERR_INVALID)
            fail_msg("%s = %s was read", cases[i].key, cases[i].value ? cases[i].value : "nothing");
        if (!strstr(err.message, cases[i].says))
            fail_msg("'%s' does not say '%s'", err.message, cases[i].says);
        assert_memory_equal(&back, &before, sizeof back);
        str_done(&texts[0]);
        str_done(&texts[1]);
    }
}

static void other_files_are_told_apart(void **state) {
    struct modelfile back;
    put_file(in_dir(state, "text"), "not a model", 11);
    assert_int_equal(modelfile_read(in_dir(state, "text"), &back, &err), ERR_INVALID);
    assert_int_equal(modelfile_read(in_dir(state, "nowhere"), &back, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "nowhere"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(everything_comes_back),
        in_temp_dir(averaged_weights_take_the_place_of_the_parameters),
        cmocka_unit_test(a_montage_longer_than_a_model_file_holds_is_an_error),
        in_temp_dir(a_bound_of_bf16_that_is_no_positive_number_is_an_error),
        in_temp_dir(what_is_optional_has_a_value_when_it_is_missing),
        in_temp_dir(what_is_missing_or_wrong_is_named_and_nothing_is_returned),
        in_temp_dir(other_files_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
