#include "eeg/channels.h"
#include "unit/cmocka_all.h"
#include "unit/edf_fixture.h"

static const struct frontend_config config = {.montage = "custom:Fp1,F3", .bandpass_hz = {0.5, 120}, .fill_gap_s = 2};

static int choose(const struct written_signal *signals, int n, struct channels *ret, struct err *err) {
    struct opened o;
    struct written_file f = {.n_signals = n, .n_records = 1, .signals = signals};
    assert_int_equal(open_written(&o, &f, false), 0);
    int rc = channels_choose(o.info, &config, ret, err);
    channels_done(&(struct channels){.labels = ret->labels, .signals = ret->signals});
    done(&o);
    return rc;
}

static void a_montage_takes_its_channels_by_name(void **state) {
    (void)state;
    struct channels c;
    struct err err = {0};
    const struct written_signal s[] = {
        {.label = "SpO2", .unit = "%", .samples = 1}, {.label = "F3", .samples = 8}, {.label = "EEG Fp1", .samples = 8}};
    assert_int_equal(choose(s, 3, &c, &err), 0);
    assert_int_equal(c.n, 3);
    assert_int_equal(c.n_outputs, 2);
    assert_true(c.rate_hz == 8 && c.samples_per_record == 8);
    assert_string_equal(c.faults, "");
}

static void labels_are_renamed_by_the_first_rule(void **state) {
    (void)state;
    struct str rules;
    struct err err;
    char name[CHANNELS_LABEL_SIZE];
    str_init(&rules, 1024);
    assert_int_equal(channels_add_rename(&rules, "*-XY", "*", &err), 0);
    assert_int_equal(channels_add_rename(&rules, "loc", "F7", &err), 0);
    assert_int_equal(channels_add_rename(&rules, "Ch*", "E*-REF", &err), 0);
    assert_int_equal(channels_add_rename(&rules, "a*b*", "c", &err), ERR_INVALID);
    assert_int_equal(channels_add_rename(&rules, "", "c", &err), ERR_INVALID);
    static const char *const cases[][2] = {{"Fp1-xy", "Fp1"},   {"LOC", "F7"}, {"LOC2", "LOC2"},
                                           {"ch12", "E12-REF"}, {"-XY", ""},   {"x", "x"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        channels_rename(str_cstr(&rules), cases[i][0], name);
        assert_string_equal(name, cases[i][1]);
    }
    channels_rename(NULL, "x", name);
    assert_string_equal(name, "x");
    const struct written_signal s[] = {{.label = "Fp1-XY", .samples = 8}, {.label = "CH3", .samples = 8}};
    struct written_file f = {.n_signals = 2, .n_records = 1, .signals = s};
    struct opened o;
    struct channels c;
    struct frontend_config renamed = config;
    renamed.montage = "custom:Fp1,E3";
    renamed.rename = str_cstr(&rules);
    assert_int_equal(open_written(&o, &f, false), 0);
    assert_int_equal(channels_choose(o.info, &renamed, &c, &err), 0);
    assert_int_equal(c.n_outputs, 2);
    channels_done(&c);
    done(&o);
    str_done(&rules);
}

static void a_unit_may_be_said_from_outside(void **state) {
    (void)state;
    const struct written_signal s[] = {{.label = "Fp1", .unit = "adc", .samples = 8}, {.label = "F3", .unit = "uV", .samples = 8}};
    struct written_file f = {.n_signals = 2, .n_records = 1, .signals = s};
    struct opened o;
    float before[8], after[8];
    assert_int_equal(open_written(&o, &f, false), 0);
    assert_int_equal(edf_read(o.edf, 0, 0, 1, before, &o.err), 0);
    assert_int_equal(eegfile_assume_unit(o.edf, "parsec", &o.err), ERR_INVALID);
    assert_int_equal(eegfile_assume_unit(o.edf, NULL, &o.err), 0);
    assert_false(o.info->signals[0].volt);
    assert_int_equal(eegfile_assume_unit(o.edf, "mV", &o.err), 0);
    assert_true(o.info->signals[0].volt);
    assert_int_equal(edf_read(o.edf, 0, 0, 1, after, &o.err), 0);
    assert_float_equal(after[3], 1000 * before[3], 0.01);
    assert_int_equal(edf_read(o.edf, 1, 0, 1, after, &o.err), 0);
    assert_float_equal(after[3], 0.1 * written_sample(1, 0, 3), 1e-4);
    done(&o);
}

static void a_channel_that_is_no_voltage_is_refused_by_name(void **state) {
    (void)state;
    struct channels c;
    struct err err = {0};
    const struct written_signal s[] = {{.label = "Fp1", .unit = "mm", .samples = 8}, {.label = "F3", .samples = 8}};
    assert_int_equal(choose(s, 2, &c, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "channel Fp1 has the unit 'mm'"));
}

static void channels_without_a_unit_are_read_as_microvolt_and_named(void **state) {
    (void)state;
    struct channels c;
    struct err err = {0};
    const struct written_signal one[] = {{.label = "Fp1", .samples = 8}, {.label = "F3", .unit = "", .samples = 8}};
    assert_int_equal(choose(one, 2, &c, &err), 0);
    assert_string_equal(c.faults, "channel F3 has no unit: its values are read as uV");
    const struct written_signal both[] = {{.label = "Fp1", .unit = "", .samples = 8}, {.label = "F3", .unit = "n/a", .samples = 8}};
    assert_int_equal(choose(both, 2, &c, &err), 0);
    assert_string_equal(c.faults, "2 channels, Fp1 the first of them, have no unit: their values are read as uV");
}

static void channels_of_different_rates_are_refused(void **state) {
    (void)state;
    struct channels c;
    struct err err = {0};
    const struct written_signal s[] = {{.label = "Fp1", .samples = 8}, {.label = "F3", .samples = 4}};
    assert_int_equal(choose(s, 2, &c, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "expected one rate"));
}

static void signals_that_cannot_be_used_are_named_with_the_reason(void **state) {
    (void)state;
    struct channels c;
    struct err err = {0};
    const struct written_signal flat[] = {{.label = "Fp1", .samples = 8, .physical_min = "5", .physical_max = "5"},
                                          {.label = "F3", .samples = 8}};
    assert_int_equal(choose(flat, 2, &c, &err), ERR_PRECONDITION);
    assert_string_equal(err.message, "montage custom:Fp1,F3 cannot be made: missing Fp1; ignored Fp1 (physical minimum equals "
                                     "physical maximum); labels present: F3");
    assert_int_equal(choose(flat, 1, &c, &err), ERR_PRECONDITION);
    assert_string_equal(err.message, "no usable signal: Fp1 (physical minimum equals physical maximum)");
    struct written_signal many[200];
    for (int i = 0; i < 200; i++)
        many[i] = (struct written_signal){.label = "A label of width", .samples = i ? 0 : 8};
    assert_int_equal(choose(many, 200, &c, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "; ignored A label of width (no samples); A label of width (no samples) and 197 more; "));
    assert_true(strlen(err.message) < 256);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_montage_takes_its_channels_by_name),
        cmocka_unit_test(labels_are_renamed_by_the_first_rule),
        cmocka_unit_test(a_unit_may_be_said_from_outside),
        cmocka_unit_test(a_channel_that_is_no_voltage_is_refused_by_name),
        cmocka_unit_test(channels_without_a_unit_are_read_as_microvolt_and_named),
        cmocka_unit_test(channels_of_different_rates_are_refused),
        cmocka_unit_test(signals_that_cannot_be_used_are_named_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
