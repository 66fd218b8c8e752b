/* Recordings for the viewer: who sees which, and their samples: gaps, offsets, high rates, bins, large values. */

#include "base/json.h"
#include "daemon/viewer/recordings.h"
#include "unit/cmocka_all.h"
#include "unit/edf_writer.h"
#include "unit/temp_dir.h"

enum { RATE = 100, RECORDS = 20, SIGNALS = 3 };

/* An EDF+D file of 1 s records: two voltages, annotations, a gap after record 9. */
static void write_edf(const char *path, int rate, double gap_s) {
    const struct written_signal signals[SIGNALS] = {{.label = "EEG Fp1-REF", .samples = rate},
                                                    {.label = "ECG", .samples = rate},
                                                    {.label = "EDF Annotations",
                                                     .samples = 30,
                                                     .tal = "+3\x15"
                                                            "2\x14"
                                                            "spikes\x14@"}};
    static char texts[RECORDS][16];
    const char *keepers[RECORDS];
    struct str out;
    for (int i = 0; i < RECORDS; i++) {
        str_format(texts[i], sizeof texts[i], "+%g", i < 10 ? i : i + gap_s);
        keepers[i] = texts[i];
    }
    const struct written_file f = {
        .reserved = "EDF+D", .n_signals = SIGNALS, .n_records = RECORDS, .signals = signals, .keepers = keepers};
    str_init(&out, 1 << 24);
    edf_write(&f, false, &out);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(out.data, 1, out.len, file), out.len);
    assert_int_equal(fclose(file), 0);
    str_done(&out);
}

static float sample_uv(int signal, int rate, int64_t at) {
    return (float)written_sample(signal, (int)(at / rate), (int)(at % rate)) * 0.1F;
}

static struct recording_entry *shown(struct recordings *all, const char *path, const struct recording_request *extra) {
    const char *id = "0123";
    struct recording_request q = extra ? *extra : (struct recording_request){0};
    q.id = id;
    q.path = path;
    q.principal = "token:ana";
    assert_int_equal(recordings_add(all, &q, NULL), 0);
    assert_null(recordings_find(all, "token:bob", id));
    recording_drop(recordings_find(all, NULL, id));
    struct recording_entry *r = recordings_find(all, "token:ana", id);
    assert_non_null(r);
    return r;
}

struct parsed {
    struct str text;
    struct json *head;
    const uint8_t *values;
    int64_t n; /* of a row */
    double scale;
};

static void ask(struct recording_entry *r, struct traces_query q, struct parsed *p) {
    struct err err = {0};
    str_init(&p->text, TRACES_BYTES);
    assert_int_equal(recording_traces(r, &q, NULL, &p->text, &err), 0);
    const char *end = memchr(p->text.data, '\n', p->text.len);
    assert_int_equal((end + 1 - p->text.data) % 2, 0);
    assert_int_equal(json_parse(p->text.data, (size_t)(end - p->text.data), "head", &p->head, &err), 0);
    p->values = (const uint8_t *)end + 1;
    p->n = (p->text.data + p->text.len - (end + 1)) / 2 / (int64_t)json_count(json_get(p->head, "rows"));
    p->scale = json_f64(json_get(p->head, "scale"), 0);
}

static void parsed_done(struct parsed *p) {
    json_free(p->head);
    str_done(&p->text);
}

static double value_uv(const struct parsed *p, int row, int64_t at) {
    const uint8_t *b = p->values + 2 * (row * p->n + at);
    const int16_t units = (int16_t)(b[0] | b[1] << 8);
    return units == EEGRING_NONE ? NAN : units * p->scale;
}

/* "[[2,4],[7,8,0]]" */
static void check_held(const struct parsed *p, const char *wanted) {
    const struct json *held = json_get(p->head, "held");
    struct str text;
    str_init(&text, 1000);
    str_puts(&text, "[");
    for (size_t i = 0; i < json_count(held); i++)
        for (size_t k = 0, n = json_count(json_at(held, i)); k < n; k++)
            str_printf(&text, "%s%lld%s",
                       k   ? ","
                       : i ? ",["
                           : "[",
                       (long long)json_i64(json_at(json_at(held, i), k), -1), k + 1 < n ? "" : "]");
    str_puts(&text, "]");
    assert_string_equal(str_cstr(&text), wanted);
    str_done(&text);
}

static void samples_gaps_and_marks_are_those_of_the_file(void **state) {
    const char *path = in_dir(state, "a.edf");
    const struct recording_mark mark = {.onset_s = 1, .end_s = 2.5, .text = "ward 0.9"};
    const uint8_t p[] = {0, 100, 200, 255};
    struct recordings *all = recordings_new();
    struct parsed got;
    double mean = 0;
    write_edf(path, RATE, 5);
    const struct recording_request request = {.marks = &mark, .n_marks = 1, .p = p, .n_p = sizeof p, .p_step_s = 1};
    struct recording_entry *r = shown(all, path, &request);
    for (int i = 0; i < 10 * RATE; i++)
        mean += sample_uv(0, RATE, i) / (10 * RATE);
    ask(r, (struct traces_query){.from = 900, .n = 700, .bin = 1}, &got);
    assert_int_equal(got.n, 700);
    check_held(&got, "[]"); /* 5 s are not bridged */
    assert_int_equal(json_count(json_get(got.head, "rows")), 2);
    assert_string_equal(json_str(json_at(json_get(got.head, "rows"), 0), ""), "Fp1");
    assert_int_equal(json_i64(json_at(json_get(got.head, "kept"), 1), 0), 2500);
    assert_float_equal(json_f64(json_get(got.head, "start_ms"), 0), 1015041906000.0, 0);
    for (int64_t i = 0; i < 700; i++) /* records 9 and, behind the gap, 10 */
        if (i >= 100 && i < 600)
            assert_true(isnan(value_uv(&got, 0, i)));
        else
            assert_float_equal(value_uv(&got, 0, i), sample_uv(0, RATE, i < 100 ? 900 + i : 400 + i) - mean, got.scale);
    const struct json *marks = json_get(got.head, "marks");
    assert_int_equal(json_count(marks), 2);
    assert_string_equal(json_str(json_get(json_at(marks, 0), "text"), ""), "ward 0.9");
    assert_int_equal(json_i64(json_get(json_at(marks, 0), "end"), 0), 250);
    assert_string_equal(json_str(json_get(json_at(marks, 1), "text"), ""), "spikes");
    assert_int_equal(json_i64(json_get(json_at(marks, 1), "first"), 0), 300);
    parsed_done(&got);
    ask(r, (struct traces_query){.from = 0, .n = 400, .bin = 1}, &got);
    assert_int_equal(json_i64(json_at(json_get(got.head, "p"), 2), 0), 1000);
    assert_int_equal(json_i64(json_at(json_get(got.head, "p"), 3), 0), -1);
    parsed_done(&got);
    ask(r, (struct traces_query){.from = 0, .n = 2500, .bin = 250}, &got);
    assert_int_equal(got.n, 20);
    float low = INFINITY, high = -INFINITY;
    for (int i = 250; i < 500; i++) {
        low = fminf(low, sample_uv(1, RATE, i));
        high = fmaxf(high, sample_uv(1, RATE, i));
    }
    assert_float_equal(value_uv(&got, 1, 3) - value_uv(&got, 1, 2), high - low, 2 * got.scale);
    assert_true(isnan(value_uv(&got, 1, 2 * 5))); /* 12.5 to 15 s: in the gap */
    parsed_done(&got);
    recording_drop(r);
    recordings_free(all);
}

static void high_rates_are_shown_as_means(void **state) {
    const char *path = in_dir(state, "fast.edf");
    struct recordings *all = recordings_new();
    struct parsed got;
    write_edf(path, 2000, 5);
    struct recording_entry *r = shown(all, path, NULL);
    ask(r, (struct traces_query){.from = 10, .n = 20, .bin = 1}, &got);
    assert_float_equal(json_f64(json_get(got.head, "rate"), 0), 500, 0);
    const double first = value_uv(&got, 0, 0), second = value_uv(&got, 0, 1);
    double mean[2] = {0};
    for (int i = 0; i < 8; i++)
        mean[i / 4] += sample_uv(0, 2000, 40 + i) / 4;
    assert_float_equal(second - first, mean[1] - mean[0], 2 * got.scale);
    parsed_done(&got);
    recording_drop(r);
    recordings_free(all);
}

/* 999 Hz, of which two samples make one: of the first behind the gap, which is in the middle of two, there is one alone. */
static void a_mean_beside_a_gap_is_of_the_samples_that_are_there(void **state) {
    const char *path = in_dir(state, "odd.edf");
    struct recordings *all = recordings_new();
    struct parsed got;
    write_edf(path, 999, 5);
    struct recording_entry *r = shown(all, path, NULL);
    ask(r, (struct traces_query){.from = 15 * 999 / 2 - 1, .n = 3, .bin = 1}, &got);
    assert_true(isnan(value_uv(&got, 0, 0)));
    const double lone = sample_uv(0, 999, 9990), pair = (sample_uv(0, 999, 9991) + sample_uv(0, 999, 9992)) / 2;
    assert_float_equal(value_uv(&got, 0, 1) - value_uv(&got, 0, 2), lone - pair, 2 * got.scale);
    parsed_done(&got);
    recording_drop(r);
    recordings_free(all);
}

static void short_gaps_are_held_as_a_stream_holds_them(void **state) {
    static const struct {
        int rate;
        double gap_s;
        struct traces_query q;
        const char *held;
    } cases[] = {{RATE, 2, {.from = 900, .n = 700, .bin = 1}, "[[1000,1200]]"},
                 {RATE, 2.01, {.from = 900, .n = 700, .bin = 1}, "[]"},
                 {RATE, 2, {.from = 1100, .n = 50, .bin = 1}, "[[1100,1150]]"},
                 {RATE, 1.5, {.from = 0, .n = 2000, .bin = 400}, "[[800,1200]]"},
                 {RATE, 0.1, {.from = 0, .n = 2000, .bin = 7}, "[[994,1015]]"},
                 {999, 1, {.from = 4950, .n = 900, .bin = 1}, "[[4995,5495]]"}}; /* the last value has one sample of the gap */
    const char *path = in_dir(state, "a.edf");
    struct recordings *all = recordings_new();
    struct parsed got;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_edf(path, cases[i].rate, cases[i].gap_s);
        struct recording_entry *r = shown(all, path, NULL);
        ask(r, cases[i].q, &got);
        check_held(&got, cases[i].held);
        parsed_done(&got);
        recording_drop(r);
        recordings_free(all);
        all = recordings_new();
    }
    recordings_free(all);
}

static void samples_that_are_no_number_are_missing_and_no_others(void **state) {
    static const char header[] = "Brain Vision Data Exchange Header File Version 1.0\n[Common Infos]\nDataFile=f.eeg\n"
                                 "DataFormat=BINARY\nDataOrientation=MULTIPLEXED\nNumberOfChannels=2\nSamplingInterval=10000\n"
                                 "[Binary Infos]\nBinaryFormat=IEEE_FLOAT_32\n[Channel Infos]\nCh1=Fp1,,1,\302\265V\n"
                                 "Ch2=F3,,1,\302\265V\n";
    float samples[15 * RATE][2];
    struct recordings *all = recordings_new();
    struct parsed got;
    for (int i = 0; i < 15 * RATE; i++)
        samples[i][0] = i == 3 ? NAN : i == 1200 ? INFINITY : i % 2 ? 7 : 5, samples[i][1] = i >= 1200 && i < 1300 ? NAN : 0;
    put_file(in_dir(state, "f.eeg"), samples, sizeof samples);
    const char *path = in_dir(state, "f.vhdr");
    put_file(path, header, strlen(header));
    struct recording_entry *r = shown(all, path, NULL);
    ask(r, (struct traces_query){.from = 0, .n = 15 * RATE, .bin = 1}, &got);
    assert_float_equal(got.scale, EEGRING_UV, 1e-9);
    check_held(&got, "[[3,4,0],[1200,1201],[1201,1300,1]]");
    for (int i = 0; i < 15 * RATE; i++)
        if (i == 3 || i == 1200)
            assert_true(isnan(value_uv(&got, 0, i)));
        else
            assert_true(fabs(value_uv(&got, 0, i) - (i % 2 ? 1 : -1)) <= got.scale);
    parsed_done(&got);
    recording_drop(r);
    recordings_free(all);
}

static void what_cannot_be_shown_is_an_error_and_the_oldest_goes(void **state) {
    const char *path = in_dir(state, "a.edf");
    struct recordings *all = recordings_new();
    struct str out;
    struct err err;
    const struct recording_request q = {.id = "first", .path = path, .principal = "token:ana"},
                                   other = {.id = "other", .path = path, .principal = "token:ana"},
                                   much = {.id = "much", .path = path, .principal = "", .n_marks = RECORDINGS_MARKS + 1},
                                   rare = {.id = "rare", .path = path, .principal = "", .n_p = 1, .p_step_s = INFINITY};
    assert_int_equal(recordings_add(all, &much, &err), ERR_INVALID);
    assert_int_equal(recordings_add(all, &rare, &err), ERR_INVALID);
    assert_int_equal(recordings_add(all, &q, &err), 0);
    struct recording_entry *held = recordings_find(all, "token:ana", "first");
    for (int i = 0; i < RECORDINGS; i++)
        assert_int_equal(recordings_add(all, &other, &err), 0);
    assert_null(recordings_find(all, "token:ana", "first"));
    str_init(&out, TRACES_BYTES);
    const struct traces_query few = {.from = 0, .n = 10, .bin = 1}, many = {.from = 0, .n = 10000, .bin = 1};
    assert_int_equal(recording_traces(held, &few, NULL, &out, &err), ERR_NOT_FOUND); /* held without the table, and not there */
    write_edf(path, RATE, 5);
    assert_int_equal(recording_traces(held, &many, NULL, &out, &err), ERR_INVALID);
    str_clear(&out);
    const atomic_bool gone = true;
    assert_int_equal(recording_traces(held, &few, &gone, &out, &err), ERR_CANCELLED);
    assert_int_equal(out.len, 0);
    assert_int_equal(recording_traces(held, &few, NULL, &out, &err), 0);
    str_done(&out);
    assert_ptr_equal(recordings_share(all), all);
    recordings_free(all); /* the daemon's; a thread still reads */
    recording_drop(recordings_find(all, "token:ana", "other"));
    recordings_free(all);
    recording_drop(held);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(samples_gaps_and_marks_are_those_of_the_file, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(high_rates_are_shown_as_means, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(a_mean_beside_a_gap_is_of_the_samples_that_are_there, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(short_gaps_are_held_as_a_stream_holds_them, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(samples_that_are_no_number_are_missing_and_no_others, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(what_cannot_be_shown_is_an_error_and_the_oldest_goes, temp_dir_make, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
