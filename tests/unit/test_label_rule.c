/* Rules of labels: which texts are seizures, unsure, or something else. */

#include "unit/cmocka_all.h"

#include "eeg/channels.h"
#include "eeg/label_rule.h"

static void a_rule_tells_seizures_from_unsure_and_others(void **state) {
    (void)state;
    static const struct {
        const char *rule, *text;
        enum label_class class;
    } cases[] = {{NULL, "sz", LABEL_SEIZURE},
                 {NULL, "seizure?", LABEL_UNSURE},
                 {NULL, "?sz", LABEL_UNSURE},
                 {NULL, "(sz)", LABEL_SEIZURE},
                 {NULL, "seizure\xEF\xBC\x9F", LABEL_UNSURE},
                 {NULL, "unknown", LABEL_UNSURE},
                 {NULL, "unknown artefact", LABEL_OTHER},
                 {NULL, "seizure-free", LABEL_OTHER},
                 {NULL, "Seizure free interval", LABEL_OTHER},
                 {NULL, "nesz", LABEL_OTHER},
                 {NULL, "Szymon moved", LABEL_OTHER},
                 {NULL, "Electrographic seizure", LABEL_OTHER},
                 {NULL, "eyes open?", LABEL_OTHER},
                 {"auto\nanfall",
                  "Gro\xC3\x9F"
                  "er Anfall 3",
                  LABEL_SEIZURE},
                 {"auto\nanfall", "Anfallsende", LABEL_OTHER},
                 {"auto\nanfall*", "Anfallsende", LABEL_SEIZURE},
                 {"auto\nanfall", "Voranfall", LABEL_OTHER},
                 {"auto\n*anfall", "Voranfall?", LABEL_UNSURE},
                 {"auto\ncrise*", "CRISES toniques", LABEL_SEIZURE},
                 {"auto\n\xC3\xA9"
                  "pisode",
                  "\xC3\x89pisode", LABEL_SEIZURE},
                 {"auto\nelectrographic*seizure", "Electrographic (brief) seizure, left", LABEL_SEIZURE},
                 {"auto\nelectrographic*seizure", "Electrographic seizures", LABEL_OTHER},
                 {"auto\na*b*c", "aab bcbc c", LABEL_SEIZURE},
                 {"auto\nseizure\n!no seizure", "no seizure today", LABEL_OTHER},
                 {"auto\nseizure\n?possible seizure", "possible seizure", LABEL_UNSURE},
                 {"auto\n!sz", "sz", LABEL_OTHER}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (label_rule_class(cases[i].rule, cases[i].text) != cases[i].class)
            fail_msg("case %zu, '%s'", i, cases[i].text);
    char rule[LABEL_RULE_SIZE];
    struct err err;
    assert_int_equal(label_rule_write("auto", (const char *[]){"crise*", "!x"}, 2, rule, &err), 0);
    assert_string_equal(rule, "auto\ncrise*\n!x");
    assert_int_equal(label_rule_write("auto", (const char *[]){"! *"}, 1, rule, &err), ERR_INVALID);
    assert_int_equal(label_rule_write("auto", (const char *[]){""}, 1, rule, &err), ERR_INVALID);
}

static void a_pattern_with_a_digit_ends_with_the_number(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool found;
    } cases[] = {{"1", "1", true},
                 {"1", "10", false},
                 {"1", "21", false},
                 {"1", "-1", false},
                 {"1", "+1", false},
                 {"1", "1.5", false},
                 {"1", "2.1", false},
                 {"1", "1,5", false},
                 {"1", "2,1", false},
                 {"1", ".1", false},
                 {"1", "01", false},
                 {"1",
                  "\xE2\x88\x92"
                  "1",
                  false},
                 {"1", "1-2", false},
                 {"1", "2-1", false},
                 {"1", "(1)", true},
                 {"1", "1.", true},
                 {"1", "1, left", true},
                 {"1", "left, 1", true},
                 {"1", "code 1", true},
                 {"1", "code1", true},
                 {"1", "S-1", true},
                 {"1", "10, 1", true},
                 {"1", "10 11", false},
                 {"1", "#1", true},
                 {"S2", "S2", true},
                 {"S2", "S20", false},
                 {"S2", "S2.5", false},
                 {"S2", "S 2", false},
                 {"S2", "s2 left", true},
                 {"S2", "S2a", true},
                 {"S2", "S20 and S2", true},
                 {"S2", "S2-3", false},
                 {"2 sz", "2 sz", true},
                 {"2 sz", "12 sz", false},
                 {"2 sz", "-2 sz", false},
                 {"sz", "sz1", true},
                 {"sz", "1sz", true},
                 {"sz", "sz-1", true},
                 {"S*2", "S1 22 2", true},
                 {"S*2", "S12 22", true},

                 {"1*", "10", true},
                 {"*1", "21", true},
                 {"-1", "-1", true},
                 {"-1", "-10", false},
                 {"-1", "5-1", false},
                 {"769", "769", true},
                 {"769", "7690", false},
                 {".5", "1.5", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char rule[64], unsure[64], other[64];
        str_format(rule, sizeof rule, "auto\n%s", cases[i].pattern);
        str_format(unsure, sizeof unsure, "auto\n?%s", cases[i].pattern);
        str_format(other, sizeof other, "auto\n*\n!%s", cases[i].pattern);
        const bool found = cases[i].found, word = label_rule_class(NULL, cases[i].text) == LABEL_SEIZURE;
        if (label_rule_class(rule, cases[i].text) != (found || word ? LABEL_SEIZURE : LABEL_OTHER) ||
            label_rule_class(unsure, cases[i].text) != (found  ? LABEL_UNSURE
                                                        : word ? LABEL_SEIZURE
                                                               : LABEL_OTHER) ||
            label_rule_class(other, cases[i].text) != (found ? LABEL_OTHER : LABEL_SEIZURE))
            fail_msg("'%s' in '%s'", cases[i].pattern, cases[i].text);
    }
    char name[CHANNELS_LABEL_SIZE];
    channels_rename("T1\tF9", "T10", name);
    assert_string_equal(name, "T10");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_tells_seizures_from_unsure_and_others),
        cmocka_unit_test(a_pattern_with_a_digit_ends_with_the_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
