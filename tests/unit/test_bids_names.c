#include "unit/cmocka_all.h"
#include "windows/bids.h"

static void names_come_from_entities_or_the_patient(void **state) {
    (void)state;
    static const struct {
        const char *path, *wanted;
    } cases[] = {
        {"sub-01/eeg/sub-01_task-rest_run-2_eeg.edf", "sub-01/eeg/sub-01_task-rest_run-2_eeg.edf"},
        {"a/sub-X1_ses-03_task-szMonitoring_acq-ward_run-07_eeg.edf",
         "sub-X1/ses-03/eeg/sub-X1_ses-03_task-szMonitoring_acq-ward_run-07_eeg.edf"},
        {"sub-01/sub-01_run-01_eeg.edf", "sub-01/eeg/sub-01_task-szMonitoring_run-01_eeg.edf"},
        {"chb21/chb21_03.edf", "sub-chb01/eeg/sub-chb01_task-szMonitoring_eeg.edf"},
        {"night 7 (b).edf", "sub-night7b/eeg/sub-night7b_task-szMonitoring_eeg.edf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bids_name name;
        struct err err;
        char path[256];
        assert_int_equal(bids_name_of(cases[i].path, &name, &err), 0);
        assert_int_equal(bids_path(&name, "_eeg.edf", path, sizeof path, &err), 0);
        assert_string_equal(path, cases[i].wanted);
        assert_int_equal(bids_path(&name, "_eeg.edf", path, 20, &err), ERR_RANGE);
    }
}

static void a_name_without_letters_is_refused(void **state) {
    (void)state;
    struct bids_name name;
    struct err err;
    assert_int_equal(bids_name_of("--.edf", &name, &err), ERR_RANGE);
    assert_non_null(strstr(err.message, "sub-LABEL"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_come_from_entities_or_the_patient),
                                       cmocka_unit_test(a_name_without_letters_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
