/* With `--dump FILE` it prints what the reader makes of a file as one JSON line, for test_edf_values.py. */

#include "base/json.h"
#include "formats/edf_decode.h"
#include "skip.h"
#include "tests/edf_records.h"
#include "unit/cmocka_all.h"
#include "unit/edf_fixture.h"

static void plain_file_is_read_to_the_digit(void **state) {
    (void)state;
    for (int bdf = 0; bdf < 2; bdf++) {
        struct opened o;
        struct written_file f = {.n_signals = 2, .n_records = 3, .signals = PLAIN};
        assert_int_equal(open_written(&o, &f, bdf), 0);
        assert_int_equal(o.info->bdf, bdf);
        assert_int_equal(o.info->n_records, 3);
        assert_int_equal(o.info->n_signals, 2);
        assert_int_equal(o.info->n_repairs, 0);
        assert_int_equal(o.info->n_segments, 1);
        assert_int_equal(o.info->segments[0].n_records, 3);
        assert_true(o.info->duration_s == 3 && o.info->record_s == 1);
        assert_string_equal(o.info->signals[0].label, "EEG Fp1-REF");
        assert_string_equal(o.info->signals[0].unit, "uV");
        assert_true(o.info->signals[0].usable && o.info->signals[0].volt);
        assert_true(o.info->signals[0].rate_hz == 8);
        char text[32];
        assert_string_equal(eegfile_start_text(o.edf, text, sizeof text), "2002-03-02 04:05:06");
        float a[24], b[24];
        float *uv[2] = {b, a};
        assert_int_equal(eegfile_read(o.edf, (int[]){1, 0}, 2, (struct eeg_range){0, 24}, uv, &o.err), 0);
        for (int r = 0; r < 3; r++)
            for (int i = 0; i < 8; i++) {
                assert_float_equal(a[r * 8 + i], 0.1 * written_sample(0, r, i), 1e-4);
                assert_float_equal(b[r * 8 + i], 0.1 * written_sample(1, r, i), 1e-4);
            }
        float one[8];
        assert_int_equal(edf_read(o.edf, 1, 2, 1, one, &o.err), 0);
        assert_memory_equal(one, b + 16, sizeof one);
        done(&o);
    }
}

static void a_part_of_a_record_is_that_of_the_whole(void **state) {
    (void)state;
    struct opened o;
    struct written_file f = {.n_signals = 2, .n_records = 3, .signals = PLAIN};
    assert_int_equal(open_written(&o, &f, false), 0);
    float whole[2][24], part[2][24];
    assert_int_equal(eegfile_read(o.edf, (int[]){0, 1}, 2, (struct eeg_range){0, 24}, (float *[]){whole[0], whole[1]}, &o.err), 0);
    for (int first = 0; first < 24; first++)
        for (int n = 1; first + n <= 24; n++) {
            const struct eeg_range range = {first, n};
            assert_int_equal(eegfile_read(o.edf, (int[]){0, 1}, 2, range, (float *[]){part[0], part[1]}, &o.err), 0);
            for (int s = 0; s < 2; s++)
                assert_memory_equal(part[s], whole[s] + first, (size_t)n * sizeof(float));
        }
    assert_int_equal(eegfile_read(o.edf, (int[]){0}, 1, (struct eeg_range){22, 3}, (float *[]){part[0]}, &o.err), ERR_RANGE);
    done(&o);
}

static void reads_outside_the_file_are_refused(void **state) {
    (void)state;
    struct opened o;
    struct written_file f = {
        .n_signals = 2, .n_records = 3, .signals = PLUS, .reserved = "EDF+C", .keepers = (const char *[]){"+0", "+1", "+2"}};
    assert_int_equal(open_written(&o, &f, false), 0);
    float uv[24];
    assert_int_equal(edf_read(o.edf, 0, 0, 4, uv, &o.err), ERR_RANGE);
    assert_int_equal(edf_read(o.edf, 0, 3, 1, uv, &o.err), ERR_RANGE);
    assert_int_equal(edf_read(o.edf, 0, -1, 1, uv, &o.err), ERR_RANGE);
    assert_int_equal(edf_read(o.edf, 0, INT64_MAX, 2, uv, &o.err), ERR_RANGE);
    assert_int_equal(edf_read(o.edf, 0, 1, INT64_MAX, uv, &o.err), ERR_RANGE);
    assert_int_equal(edf_read(o.edf, 2, 0, 1, uv, &o.err), ERR_RANGE);
    assert_int_equal(edf_read(o.edf, -1, 0, 1, uv, &o.err), ERR_RANGE);
    assert_int_equal(edf_read(o.edf, 1, 0, 1, uv, &o.err), ERR_PRECONDITION);
    assert_non_null(strstr(o.err.message, "annotations"));
    assert_int_equal(edf_read(o.edf, 0, 3, 0, uv, &o.err), 0);
    done(&o);
}

static void samples_outside_the_declared_range_are_not_clamped(void **state) {
    (void)state;
    struct opened o;
    const struct written_signal narrow = {.label = "FP1-F7",
                                          .samples = 8,
                                          .physical_min = "-800",
                                          .physical_max = "800",
                                          .digital_min = "-2048",
                                          .digital_max = "2047"};
    struct written_file f = {.n_signals = 1, .n_records = 1, .signals = &narrow};
    assert_int_equal(open_written(&o, &f, false), 0);
    o.bytes.data[512] = (char)0xFF; /* 32767 */
    o.bytes.data[513] = 0x7F;
    float uv[8];
    assert_int_equal(edf_read(o.edf, 0, 0, 1, uv, &o.err), 0);
    assert_float_equal(uv[0], -800 + (32767.0 + 2048) * 1600 / 4095, 1e-3);
    done(&o);
}

static void units_become_microvolt_and_others_stay(void **state) {
    (void)state;
    static const struct {
        const char *unit;
        double factor;
        bool volt;
        bool assumed;
    } cases[] = {{"uV", 1, true, false},
                 {"     UV", 1, true, false},
                 {"mV", 1e3, true, false},
                 {"V", 1e6, true, false},
                 {"nV", 1e-3, true, false},
                 {"\xB5V", 1, true, false},
                 {"\xC2\xB5V", 1, true, false},
                 {"\xCE\xBCV", 1, true, false},
                 {"\xB5Volts", 1, true, false},
                 {"uVolts", 1, true, false},
                 {"microvol", 1, true, false},
                 {"microV", 1, true, false},
                 {"MVOLTS", 1e3, true, false},
                 {"millivol", 1e3, true, false},
                 {"Volts", 1e6, true, false},
                 {"Volt", 1e6, true, false},
                 {"nanovolt", 1e-3, true, false},
                 {"", 1, true, true},
                 {"n/a", 1, true, true},
                 {"%", 1, false, false},
                 {"mm", 1, false, false},
                 {"\x83\xCAV", 1, true, false},
                 {"\xA6\xCCV", 1, true, false},
                 {"\xE6V", 1, true, false},
                 {"\xC3\x82\xC2\xB5V", 1, true, false},
                 {"m", 1, false, false},
                 {"uVrms", 1, false, false},
                 {"V/s", 1, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened o;
        const struct written_signal s = {.label = "X", .unit = cases[i].unit, .samples = 8};
        struct written_file f = {.n_signals = 1, .n_records = 1, .signals = &s};
        assert_int_equal(open_written(&o, &f, false), 0);
        float uv[8];
        assert_int_equal(edf_read(o.edf, 0, 0, 1, uv, &o.err), 0);
        assert_true(fabs(uv[1] / (written_sample(0, 0, 1) * 0.1 * cases[i].factor) - 1) < 1e-6);
        assert_int_equal(o.info->signals[0].volt, cases[i].volt);
        assert_int_equal(o.info->signals[0].unit_assumed, cases[i].assumed);
        assert_int_equal(*o.info->signals[0].note != '\0', !cases[i].volt || cases[i].assumed);
        done(&o);
    }
}

static void inverted_physical_range_is_applied_as_written(void **state) {
    (void)state;
    struct opened o;
    const struct written_signal s = {.label = "X", .samples = 8, .physical_min = "3276.7", .physical_max = "-3276.8"};
    struct written_file f = {.n_signals = 1, .n_records = 1, .signals = &s};
    assert_int_equal(open_written(&o, &f, false), 0);
    float uv[8];
    assert_int_equal(edf_read(o.edf, 0, 0, 1, uv, &o.err), 0);
    assert_float_equal(uv[1], -0.1 * written_sample(0, 0, 1) - 0.1, 1e-3);
    assert_non_null(strstr(o.info->signals[0].note, "inverted"));
    done(&o);
}

static void channels_without_a_range_are_unusable_but_the_file_opens(void **state) {
    (void)state;
    struct opened o;
    const struct written_signal s[5] = {{.label = "-", .samples = 4, .physical_min = "0", .physical_max = "0"},
                                        {.label = ".", .samples = 4, .digital_min = "0", .digital_max = "0"},
                                        {.label = "none", .samples = 0},
                                        {.label = "blank", .samples = 4, .physical_min = "", .physical_max = ""},
                                        {.label = "Fp1", .samples = 4}};
    struct written_file f = {.n_signals = 5, .n_records = 2, .signals = s};
    assert_int_equal(open_written(&o, &f, false), 0);
    float uv[8];
    for (int i = 0; i < 4; i++) {
        assert_false(o.info->signals[i].usable);
        assert_non_null(strstr(o.info->signals[i].note, "unusable"));
        assert_int_equal(edf_read(o.edf, i, 0, 1, uv, &o.err), ERR_PRECONDITION);
        assert_non_null(strstr(o.err.message, o.info->signals[i].label));
    }
    assert_int_equal(edf_read(o.edf, 4, 0, 2, uv, &o.err), 0);
    assert_float_equal(uv[5], 0.1 * written_sample(4, 1, 1), 1e-4);
    done(&o);
}

static void record_count_comes_from_the_file_size(void **state) {
    (void)state;
    struct opened o;
    struct written_file f = {.n_signals = 2, .n_records = 5, .signals = PLAIN, .records = "-1"};
    assert_int_equal(open_written(&o, &f, false), 0);
    assert_int_equal(o.info->n_records, 5);
    assert_true(repaired(o.info, "number of records is -1"));
    put(&o, 236, "7", 8); /* says more than is there */
    assert_int_equal(reopen(&o, o.bytes.len - 3), 0);
    assert_int_equal(o.info->n_records, 4);
    assert_true(repaired(o.info, "ends early"));
    put(&o, 236, "3", 8); /* says less */
    assert_int_equal(reopen(&o, o.bytes.len), 0);
    assert_int_equal(o.info->n_records, 5);
    assert_true(repaired(o.info, "counts 3"));
    put(&o, 236, "4", 8); /* a stray byte */
    assert_int_equal(reopen(&o, o.bytes.len - 31), 0);
    assert_int_equal(o.info->n_records, 4);
    assert_true(repaired(o.info, "1 bytes after"));
    assert_int_equal(reopen(&o, 768), 0); /* header alone */
    assert_int_equal(o.info->n_records, 0);
    assert_int_equal(o.info->n_segments, 0);
    assert_true(o.info->duration_s == 0);
    done(&o);
}

static void junk_after_the_last_time_keeper_is_no_record(void **state) {
    (void)state;
    struct opened o;
    struct written_file f = {
        .n_signals = 2, .n_records = 2, .signals = PLUS, .reserved = "EDF+C", .keepers = (const char *[]){"+0", "+1"}};
    assert_int_equal(open_written(&o, &f, false), 0);
    char junk[500];
    memset(junk, 'j', sizeof junk);
    str_append(&o.bytes, junk, sizeof junk);
    assert_int_equal(reopen(&o, o.bytes.len), 0);
    assert_int_equal(o.info->n_records, 2);
    assert_true(repaired(o.info, "500 bytes after"));
    done(&o);
}

static void advisory_header_fields_are_corrected_and_reported(void **state) {
    (void)state;
    struct opened o;
    struct written_file f = {.n_signals = 2,
                             .n_records = 1,
                             .signals = PLAIN,
                             .header_bytes = "2104",
                             .date = "02:03:76",
                             .time = "4:5:6",
                             .recording = "X"};
    char text[32];
    assert_int_equal(open_written(&o, &f, false), 0);
    assert_string_equal(eegfile_start_text(o.edf, text, sizeof text), "2076-03-02 04:05:06");
    assert_true(repaired(o.info, "header-bytes") && repaired(o.info, "start date") && repaired(o.info, "start time"));
    done(&o);
    f = (struct written_file){.n_signals = 2, .n_records = 1, .signals = PLAIN, .date = "00.00.00", .time = "xx.yy"};
    assert_int_equal(open_written(&o, &f, false), 0);
    assert_false(o.info->start.known);
    assert_string_equal(eegfile_start_text(o.edf, text, sizeof text), "n/a");
    done(&o);
    f = (struct written_file){
        .n_signals = 2, .n_records = 1, .signals = PLAIN, .date = "01.02.84", .recording = "Startdate 01-FEB-2184 X"};
    assert_int_equal(open_written(&o, &f, false), 0);
    assert_int_equal(o.info->start.year, 2184);
    put(&o, 88, "Startdate X X X X", 80);
    put(&o, 168, "01.01.85", 8);
    o.bytes.data[8] = (char)0xE9; /* Latin-1 in the patient field */
    assert_int_equal(reopen(&o, o.bytes.len), 0);
    assert_int_equal(o.info->start.year, 1985);
    assert_false(o.info->start.known);
    assert_true(repaired(o.info, "non-ASCII"));
    assert_string_equal(o.info->patient, "\xC3\xA9 X X X");
    done(&o);
}

static void record_durations_are_exact_rationals(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t num, den;
    } cases[] = {{"1", 1, 1},   {"9.59375", 307, 32}, {"0.01", 1, 100}, {"1.000000", 1, 1},
                 {"0,5", 1, 2}, {"60", 60, 1},        {"1e-2", 1, 100}, {"2E1", 20, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened o;
        struct written_file f = {.n_signals = 2, .n_records = 4, .signals = PLAIN, .duration = cases[i].text};
        assert_int_equal(open_written(&o, &f, false), 0);
        assert_int_equal(o.info->duration_num, cases[i].num);
        assert_int_equal(o.info->duration_den, cases[i].den);
        assert_float_equal(o.info->duration_s, 4.0 * (double)cases[i].num / (double)cases[i].den, 1e-12);
        done(&o);
    }
}

/* As BioSig writes 300 and 256 Hz: a record of one sample, whose duration has eight characters. */
static void rounded_durations_are_those_of_whole_rates(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t samples, num, den;
    } cases[] = {
        {"0.003333", 1, 1, 300}, {"0.003906", 1, 1, 256}, {"0.333333", 100, 1, 3}, {"2", 999, 2, 1}, {"0.0039", 1, 39, 10000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened o;
        struct written_signal s = PLAIN[0];
        s.samples = (int)cases[i].samples;
        struct written_file f = {.n_signals = 1, .n_records = 4, .signals = &s, .duration = cases[i].text};
        assert_int_equal(open_written(&o, &f, false), 0);
        assert_int_equal(o.info->duration_num, cases[i].num);
        assert_int_equal(o.info->duration_den, cases[i].den);
        assert_true(o.info->signals[0].rate_hz == (double)(cases[i].samples * cases[i].den) / (double)cases[i].num);
        done(&o);
    }
}

static void discontinuous_files_keep_their_gaps(void **state) {
    (void)state;
    struct opened o;
    const char *keepers[] = {"+0.5", "+1.5", "+2.5004", "+10.25", "+11.25", "+12.5"};
    struct written_file f = {.n_signals = 2, .n_records = 6, .signals = PLUS, .reserved = "EDF+D_whatever", .keepers = keepers};
    assert_int_equal(open_written(&o, &f, false), 0);
    assert_true(o.info->plus && o.info->discontinuous);
    const struct eeg_segment *s;
    assert_int_equal(eegfile_segments(o.edf, &s), 3);
    assert_int_equal(s[0].n_records, 3);
    assert_true(s[0].start_s == 0);
    assert_int_equal(s[1].first_record, 3);
    assert_int_equal(s[1].n_records, 2);
    assert_float_equal(s[1].start_s, 9.75, 1e-9);
    assert_float_equal(s[2].start_s, 12.0, 1e-9);
    assert_float_equal(o.info->duration_s, 13.0, 1e-9);
    assert_float_equal(o.info->start.subsecond, 0.5, 1e-12);
    assert_int_equal(o.info->n_annotations, 1);
    assert_string_equal(o.info->annotations[0].text, "seizure");
    assert_float_equal(o.info->annotations[0].onset_s, 0.75, 1e-9);
    assert_float_equal(o.info->annotations[0].duration_s, 2, 0);
    done(&o);
}

/* A tenth of a second a record, which is within the tolerance of a rate of 8 Hz. */
static void records_that_drift_from_their_clock_begin_a_new_segment(void **state) {
    (void)state;
    struct opened o;
    const char *late[] = {"+0", "+1.1", "+2.2", "+3.3", "+4.4", "+5.5", "+6.6"};
    struct written_file f = {.n_signals = 2, .n_records = 7, .signals = PLUS, .reserved = "EDF+D", .keepers = late};
    assert_int_equal(open_written(&o, &f, false), 0);
    const struct eeg_segment *s;
    assert_int_equal(eegfile_segments(o.edf, &s), 3);
    assert_int_equal(s[0].n_records, 3);
    assert_int_equal(s[1].n_records, 3);
    assert_float_equal(s[1].start_s, 3.3, 1e-9);
    assert_float_equal(s[2].start_s, 6.6, 1e-9);
    assert_true(repaired(o.info, "clock and samples drift apart: 2 times by 0.25 s"));
    done(&o);
    const char *early[] = {"+0", "+0.9", "+1.8", "+2.7", "+3.6", "+4.5", "+5.4"};
    f.keepers = early;
    assert_int_equal(open_written(&o, &f, false), 0);
    assert_int_equal(eegfile_segments(o.edf, &s), 2);
    assert_int_equal(s[0].n_records, 3);
    assert_int_equal(s[1].first_record, 4);
    assert_int_equal(s[1].n_records, 3);
    assert_float_equal(s[1].start_s, 3.6, 1e-9);
    assert_true(repaired(o.info, "cover their time: 1"));
    done(&o);
}

static void a_bdf_may_call_itself_edf_plus(void **state) {
    (void)state;
    struct opened o;
    const char *keepers[] = {"+0", "+3", "+5"};
    const struct written_signal s[2] = {PLUS[0], {.label = "BDF Annotations", .samples = 20, .tal = ""}};
    struct written_file f = {.n_signals = 2, .n_records = 3, .signals = s, .reserved = "EDF+D", .keepers = keepers};
    assert_int_equal(open_written(&o, &f, true), 0);
    assert_true(o.info->bdf && o.info->discontinuous);
    assert_int_equal(o.info->n_segments, 3);
    done(&o);
}

static void faulty_time_keepers_follow_the_record_before(void **state) {
    (void)state;
    struct opened o;
    const char *keepers[] = {"+0", "x", "+1.9", "+8", "+8.9"};
    struct written_file f = {.n_signals = 2, .n_records = 5, .signals = PLUS, .reserved = "EDF+D", .keepers = keepers};
    assert_int_equal(open_written(&o, &f, false), 0);
    assert_int_equal(o.info->n_segments, 2);
    assert_int_equal(o.info->segments[0].n_records, 3);
    assert_float_equal(o.info->segments[1].start_s, 8, 0);
    assert_true(repaired(o.info, "without a time-keeper"));
    done(&o);
    static const char *const back[][5] = {
        {"+0", "+1", "+0.5", "+2", "+3"}, {"+0", "x", "+1.8", "+8", "+9"}, {"+5", "+6", "+7", "+60", "+7"}};
    static const char *const where[] = {"record 3 begins at 0.5 s", "record 3 begins at 1.8 s", "record 5 begins at 2 s"};
    for (int i = 0; i < 3; i++) { /* 8 samples a second: an overlap of more than one sample */
        f.keepers = back[i];
        assert_int_equal(open_written(&o, &f, false), ERR_INVALID);
        assert_non_null(strstr(o.err.message, where[i]));
        assert_non_null(strstr(o.err.message, "steps back"));
        done(&o);
    }
    f.reserved = "EDF+C";
    f.keepers = (const char *[]){"+0", "+1", "+60", "+61", "+62"};
    assert_int_equal(open_written(&o, &f, false), 0);
    assert_int_equal(o.info->n_segments, 1);
    assert_true(repaired(o.info, "header says continuous"));
    done(&o);
}

static void a_start_shifted_by_whole_seconds_moves_the_clock(void **state) {
    (void)state;
    struct opened o;
    char text[32];
    struct written_file f = {.n_signals = 2,
                             .n_records = 2,
                             .signals = PLUS,
                             .reserved = "EDF+C",
                             .time = "23.59.59",
                             .keepers = (const char *[]){"+2.25", "+3.25"}};
    assert_int_equal(open_written(&o, &f, false), 0);
    assert_string_equal(eegfile_start_text(o.edf, text, sizeof text), "2002-03-03 00:00:01");
    assert_float_equal(o.info->start.subsecond, 0.25, 1e-12);
    assert_int_equal(o.info->n_segments, 1);
    done(&o);
}

static void annotation_only_files_open(void **state) {
    (void)state;
    struct opened o;
    const struct written_signal s = {.label = "EDF Annotations",
                                     .samples = 60,
                                     .tal = "+5\x15"
                                            "30\x14Sleep\x14@+2\x14"
                                            "early\x14"};
    struct written_file f = {
        .n_signals = 1, .n_records = 1, .signals = &s, .duration = "0", .reserved = "EDF+C", .keepers = (const char *[]){"+0"}};
    assert_int_equal(open_written(&o, &f, false), 0);
    assert_int_equal(o.info->n_segments, 0);
    assert_int_equal(o.info->n_annotations, 2);
    assert_string_equal(o.info->annotations[0].text, "early");
    assert_true(isnan(o.info->annotations[0].duration_s));
    done(&o);
    f.signals = PLUS;
    f.n_signals = 2;
    assert_int_equal(open_written(&o, &f, false), 0);
    assert_false(o.info->signals[0].usable);
    done(&o);
}

static void annotations_in_an_unmarked_file_and_in_several_signals_are_read(void **state) {
    (void)state;
    struct opened o;
    const struct written_signal s[4] = {{.label = "EDF Annotations", .samples = 30, .tal = ""},
                                        {.label = "Fp1", .samples = 8},
                                        {.label = "EDF Annotations", .samples = 30, .tal = "+0.5\x14second\x14@"},
                                        {.label = "EDF Annotations",
                                         .samples = 30,
                                         .tal = "+0.25\x14"
                                                "first \xE9\x14@"}};
    struct written_file f = {.n_signals = 4, .n_records = 2, .signals = s, .keepers = (const char *[]){"+0", "+1"}};
    assert_int_equal(open_written(&o, &f, false), 0);
    assert_false(o.info->plus);
    assert_int_equal(o.info->n_annotations, 2);
    assert_string_equal(o.info->annotations[0].text, "first \xC3\xA9");
    assert_string_equal(o.info->annotations[1].text, "second");
    float uv[16];
    assert_int_equal(edf_read(o.edf, 1, 0, 2, uv, &o.err), 0);
    assert_float_equal(uv[9], 0.1 * written_sample(1, 1, 1), 1e-4);
    done(&o);
}

static void damaged_headers_are_refused_with_the_reason(void **state) {
    (void)state;
    static const struct {
        size_t at;
        const char *text;
        size_t width;
        const char *reason;
    } cases[] = {{0, "1", 8, "does not begin"},
                 {0, "<html>", 8, "does not begin"},
                 {252, "31 E", 4, "number of signals"},
                 {252, "0", 4, "number of signals"},
                 {252, "-1", 4, "number of signals"},
                 {252, "", 4, "number of signals"},
                 {252, "9999", 4, "ends inside its header"},
                 {236, "4 rec", 8, "number of records"},
                 {236, "", 8, "number of records"},
                 {244, "one", 8, "record duration"},
                 {244, "-1", 8, "record duration"},
                 {244, "nan", 8, "record duration"},
                 {244, "1e300", 8, "record duration"},
                 {256 + 2 * 104, "8e+003.5", 8, "physical minimum of signal 1"},
                 {256 + 2 * 120 + 8, "low", 8, "digital minimum of signal 2"},
                 {256 + 2 * 216, "-8", 8, "samples per record of signal 1"},
                 {256 + 2 * 216, "8.5", 8, "samples per record of signal 1"},
                 {256 + 2 * 216, "", 8, "samples per record of signal 1"},
                 {256 + 2 * 216, "0       0", 16, "no signal has samples"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened o;
        struct written_file f = {.n_signals = 2, .n_records = 2, .signals = PLAIN};
        assert_int_equal(open_written(&o, &f, false), 0);
        put(&o, cases[i].at, cases[i].text, cases[i].width);
        assert_int_equal(reopen(&o, o.bytes.len), ERR_INVALID);
        if (!strstr(o.err.message, cases[i].reason))
            fail_msg("case %zu: '%s' does not mention '%s'", i, o.err.message, cases[i].reason);
        assert_non_null(strstr(o.err.message, "damaged.edf"));
        done(&o);
    }
}

static void huge_records_and_short_files_do_not_overflow(void **state) {
    (void)state;
    struct opened o;
    struct written_file f = {.n_signals = 2, .n_records = 1, .signals = PLAIN};
    assert_int_equal(open_written(&o, &f, true), 0);
    put(&o, 256 + 2 * 216, "99999999", 8);
    put(&o, 236, "99999999", 8);
    assert_int_equal(reopen(&o, o.bytes.len), 0);
    assert_int_equal(o.info->n_records, 0);
    for (size_t len = 0; len < 768; len += 5)
        assert_int_equal(reopen(&o, len), ERR_INVALID);
    done(&o);
}

/* The bytes of a test as a file in a folder of its own. */
static void put_on_disk(const struct opened *o, char folder[64], char path[96]) {
    str_copy(folder, 64, "/tmp/brr-edf-XXXXXX");
    assert_non_null(mkdtemp(folder));
    str_format(path, 96, "%s/a.edf", folder);
    assert_int_equal(fsio_write_atomic(path, o->bytes.data, o->bytes.len, NULL), 0);
}

/* Short and long records, all signals and some, some records: from a file as from memory. */
static void a_file_gives_the_samples_that_memory_gives(void **state) {
    (void)state;
    static const int64_t lengths[] = {8, 3000, 70000, 210000};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        struct written_signal signals[3] = {{.label = "EEG Fp1-REF", .samples = (int)lengths[k]},
                                            {.label = "EEG F3-REF", .samples = 5},
                                            {.label = "EEG C3-REF", .samples = (int)lengths[k]}};
        struct written_file f = {.n_signals = 3, .n_records = k < 2 ? 60 : 3, .signals = signals};
        char folder[64], path[96];
        struct opened o;
        struct eegfile *edf = NULL;
        assert_int_equal(open_written(&o, &f, k & 1), 0);
        put_on_disk(&o, folder, path);
        assert_int_equal(eegfile_open(path, &edf, &o.err), 0);
        for (int first = 0; first < 3; first++) {
            static const int orders[3][2] = {{2, 0}, {1, -1}, {0, -1}};
            int wanted = 1 + (orders[first][1] >= 0);
            int64_t spr = signals[orders[first][0]].samples, all = f.n_records * spr, skip = first * (spr + 1);
            size_t n = (size_t)(all - skip);
            float *a = calloc(2 * n, sizeof *a), *b = calloc(2 * n, sizeof *b);
            const struct eeg_range range = {skip, all - skip};
            assert_int_equal(eegfile_read(edf, orders[first], wanted, range, (float *[]){a, a + n}, &o.err), 0);
            assert_int_equal(eegfile_read(o.edf, orders[first], wanted, range, (float *[]){b, b + n}, &o.err), 0);
            assert_memory_equal(a, b, 2 * n * sizeof *a);
            free(a);
            free(b);
        }
        eegfile_close(edf);
        done(&o);
        fsio_remove_tree(folder, NULL);
    }
}

static void a_file_cut_short_while_it_is_read_is_an_error(void **state) {
    (void)state;
    static const int64_t lengths[] = {3000, 70000}; /* records that are read many at a time, and in pieces */
    for (int k = 0; k < 2; k++) {
        struct written_signal signals[2] = {{.label = "EEG Fp1-REF", .samples = (int)lengths[k]},
                                            {.label = "EEG F3-REF", .samples = 8}};
        struct written_file f = {.n_signals = 2, .n_records = 4, .signals = signals};
        char folder[64], path[96];
        struct opened o;
        struct eegfile *edf = NULL;
        assert_int_equal(open_written(&o, &f, false), 0);
        put_on_disk(&o, folder, path);
        assert_int_equal(eegfile_open(path, &edf, &o.err), 0);
        float *uv = calloc((size_t)(4 * lengths[k]), sizeof *uv);
        assert_int_equal(edf_read(edf, 0, 0, 4, uv, &o.err), 0);
        assert_int_equal(truncate(path, 256 * 3 + eegfile_record_bytes(edf) * 2), 0);
        assert_int_equal(edf_read(edf, 0, 0, 2, uv, &o.err), 0);
        assert_int_equal(edf_read(edf, 0, 0, 4, uv, &o.err), ERR_DATA_LOSS);
        assert_non_null(strstr(o.err.message, path));
        assert_non_null(strstr(o.err.message, "changed while it was read"));
        assert_int_equal(truncate(path, 0), 0);
        assert_int_equal(edf_read(edf, 1, 1, 1, uv, &o.err), ERR_DATA_LOSS);
        free(uv);
        eegfile_close(edf);
        done(&o);
        fsio_remove_tree(folder, NULL);
    }
}

static void only_regular_files_open(void **state) {
    (void)state;
    char folder[] = "/tmp/brr-edf-XXXXXX", fifo[64];
    struct eegfile *edf = NULL;
    struct err err;
    assert_non_null(mkdtemp(folder));
    str_format(fifo, sizeof fifo, "%s/fifo", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(eegfile_open(fifo, &edf, &err), ERR_INVALID); /* and no writer is waited for */
    assert_non_null(strstr(err.message, "not a regular file"));
    assert_int_equal(eegfile_open(folder, &edf, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "is a directory; expected a file"));
    fsio_remove_tree(folder, NULL);
}

static void every_decoder_gives_the_same_bits(void **state) {
    (void)state;
    enum { N = 1003 };
    static uint8_t bytes[3 * N];
    static float plain[N], fast[N];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 131 + (i >> 3) * 17);
    struct edf_scale scale = {0.1953125 / 3, -17.03};
    for (int64_t n = 0; n <= N; n += n < 40 ? 1 : 321) {
        edf_decode_i16(bytes, n, scale, plain);
        edf_decoder(2)(bytes, n, scale, fast);
        assert_memory_equal(plain, fast, (size_t)n * sizeof *plain);
        edf_decode_i24(bytes, n, scale, plain);
        edf_decoder(3)(bytes, n, scale, fast);
        assert_memory_equal(plain, fast, (size_t)n * sizeof *plain);
    }
    edf_decode_i24((const uint8_t *)"\xFF\xFF\xFF\x00\x00\x80\xFF\xFF\x7F", 3, (struct edf_scale){1, 0}, plain);
    assert_true(plain[0] == -1 && plain[1] == -8388608 && plain[2] == 8388607);
}

/* ---- the optional folder of real files ---- */

static const char *eeg_dir(void) {
    const char *dir = getenv("BRR_EEG_DIR");
    if (!dir)
        dir = BRR_SOURCE_DIR "/../shared/eeg";
    return fsio_is_dir(dir) ? dir : NULL;
}

struct tally {
    const char *dir;
    int opened, refused;
};

static int try_file(void *ctx, const char *relative_path, int64_t size_bytes, struct err *err) {
    (void)size_bytes;
    struct tally *tally = ctx;
    char path[4096];
    if (!str_ends(relative_path, ".edf") && !str_ends(relative_path, ".bdf"))
        return 0;
    if (fsio_join(path, sizeof path, tally->dir, relative_path, err))
        return err->code;
    struct eegfile *edf;
    if (eegfile_open(path, &edf, err)) {
        assert_int_equal(err->code, ERR_INVALID);
        assert_true(str_ends(relative_path, "malformed_shifted_header.edf") || str_ends(relative_path, "prerau_0_01s_records.edf"));
        tally->refused++;
        return 0;
    }
    const struct eeg_info *info = eegfile_info(edf);
    for (int s = 0; s < info->n_signals; s++) {
        if (!info->signals[s].usable)
            continue;
        float *uv = malloc((size_t)(info->n_records * info->signals[s].samples_per_record) * sizeof *uv);
        assert_int_equal(edf_read(edf, s, 0, info->n_records, uv, err), 0);
        free(uv);
    }
    tally->opened++;
    eegfile_close(edf);
    return 0;
}

static void every_real_file_opens_but_the_malformed_ones(void **state) {
    (void)state;
    struct tally tally = {.dir = eeg_dir()};
    if (!tally.dir)
        skip_without_eeg();
    struct err err = {0};
    assert_int_equal(fsio_walk(tally.dir, try_file, &tally, &err), 0);
    assert_int_equal(tally.refused, 2);
    assert_true(tally.opened >= 60);
}

/* ---- dump for test_edf_values.py ---- */

static void dump_signal(struct json_writer *w, const struct eegfile *edf, int index) {
    const struct eeg_info *info = eegfile_info(edf);
    const struct eeg_signal *s = &info->signals[index];
    struct err err;
    json_begin_object(w, NULL);
    json_put_str(w, "label", s->label);
    json_put_bool(w, "usable", s->usable);
    json_put_bool(w, "annotation", s->annotation);
    json_put_bool(w, "volt", s->volt);
    json_put_f64(w, "rate", s->rate_hz);
    json_put_str(w, "note", s->note);
    int64_t n = info->n_records * s->samples_per_record;
    float *uv = malloc((size_t)n * sizeof *uv + 1);
    if (s->usable && uv && !edf_read(edf, index, 0, info->n_records, uv, &err)) {
        double sum = 0, square = 0;
        for (int64_t i = 0; i < n; i++) {
            sum += uv[i];
            square += (double)uv[i] * uv[i];
        }
        json_put_i64(w, "n", n);
        json_put_f64(w, "sum", sum);
        json_put_f64(w, "square", square);
        json_begin_array(w, "spots");
        for (int k = 0; k < 8 && n; k++)
            json_put_f64(w, NULL, uv[(n - 1) * k / 7]);
        json_end(w, ']');
    }
    free(uv);
    json_end(w, '}');
}

static int dump(const char *path) {
    struct eegfile *edf;
    struct err err = {0};
    struct str out;
    struct json_writer w;
    char text[32];
    str_init(&out, 1 << 24);
    json_writer_init(&w, &out);
    json_begin_object(&w, NULL);
    if (eegfile_open(path, &edf, &err)) {
        json_put_str(&w, "error", err.message);
    } else {
        const struct eeg_info *info = eegfile_info(edf);
        json_put_i64(&w, "records", info->n_records);
        json_put_f64(&w, "record_s", info->record_s);
        json_put_f64(&w, "duration_s", info->duration_s);
        json_put_f64(&w, "subsecond", info->start.subsecond);
        json_put_str(&w, "start", eegfile_start_text(edf, text, sizeof text));
        json_begin_array(&w, "segments");
        for (int i = 0; i < info->n_segments; i++) {
            json_begin_array(&w, NULL);
            json_put_i64(&w, NULL, info->segments[i].first_record);
            json_put_i64(&w, NULL, info->segments[i].n_records);
            json_put_f64(&w, NULL, info->segments[i].start_s);
            json_end(&w, ']');
        }
        json_end(&w, ']');
        json_begin_array(&w, "annotations");
        for (size_t i = 0; i < info->n_annotations; i++) {
            json_begin_array(&w, NULL);
            json_put_f64(&w, NULL, info->annotations[i].onset_s);
            json_put_f64(&w, NULL, info->annotations[i].duration_s);
            json_put_str(&w, NULL, info->annotations[i].text);
            json_end(&w, ']');
        }
        json_end(&w, ']');
        json_begin_array(&w, "repairs");
        for (int i = 0; i < info->n_repairs; i++)
            json_put_str(&w, NULL, info->repairs[i]);
        json_end(&w, ']');
        json_begin_array(&w, "signals");
        for (int i = 0; i < info->n_signals; i++)
            dump_signal(&w, edf, i);
        json_end(&w, ']');
        eegfile_close(edf);
    }
    json_end(&w, '}');
    puts(str_cstr(&out));
    str_done(&out);
    return 0;
}

static void recordings_are_known_by_the_end_of_their_names(void **state) {
    (void)state;
    assert_true(eegfile_named("a/b_eeg.edf") && eegfile_named("X.EDF") && eegfile_named("x.Bdf"));
    assert_false(eegfile_named(".edf") || eegfile_named("edf") || eegfile_named("") || eegfile_named("x.edf.gz") ||
                 eegfile_named("x.edf/y"));
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "--dump"))
        return dump(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordings_are_known_by_the_end_of_their_names),
        cmocka_unit_test(plain_file_is_read_to_the_digit),
        cmocka_unit_test(a_part_of_a_record_is_that_of_the_whole),
        cmocka_unit_test(reads_outside_the_file_are_refused),
        cmocka_unit_test(samples_outside_the_declared_range_are_not_clamped),
        cmocka_unit_test(units_become_microvolt_and_others_stay),
        cmocka_unit_test(inverted_physical_range_is_applied_as_written),
        cmocka_unit_test(channels_without_a_range_are_unusable_but_the_file_opens),
        cmocka_unit_test(record_count_comes_from_the_file_size),
        cmocka_unit_test(junk_after_the_last_time_keeper_is_no_record),
        cmocka_unit_test(advisory_header_fields_are_corrected_and_reported),
        cmocka_unit_test(record_durations_are_exact_rationals),
        cmocka_unit_test(rounded_durations_are_those_of_whole_rates),
        cmocka_unit_test(discontinuous_files_keep_their_gaps),
        cmocka_unit_test(records_that_drift_from_their_clock_begin_a_new_segment),
        cmocka_unit_test(a_bdf_may_call_itself_edf_plus),
        cmocka_unit_test(faulty_time_keepers_follow_the_record_before),
        cmocka_unit_test(a_start_shifted_by_whole_seconds_moves_the_clock),
        cmocka_unit_test(annotation_only_files_open),
        cmocka_unit_test(annotations_in_an_unmarked_file_and_in_several_signals_are_read),
        cmocka_unit_test(damaged_headers_are_refused_with_the_reason),
        cmocka_unit_test(huge_records_and_short_files_do_not_overflow),
        cmocka_unit_test(a_file_gives_the_samples_that_memory_gives),
        cmocka_unit_test(a_file_cut_short_while_it_is_read_is_an_error),
        cmocka_unit_test(only_regular_files_open),
        cmocka_unit_test(every_decoder_gives_the_same_bits),
        cmocka_unit_test(every_real_file_opens_but_the_malformed_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
