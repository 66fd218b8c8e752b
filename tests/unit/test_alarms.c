/* The alarm rule, its latch, and the sets of a model file. */

#include "detect/alarms.h"
#include "unit/cmocka_all.h"

static void alarm_switches_the_moment_the_rule_holds(void **state) {
    (void)state;
    struct alarm_rule rule = {.config = {.on = 0.8, .off = 0.5, .min_onset = 3, .min_offset = 2}};
    static const float p[] = {0.9f, 0.9f, 0.7f, 0.9f, 0.9f, 0.9f, 0.4f, 0.6f, 0.4f, 0.4f, 0.9f};
    static const int want[] = {0, 0, 0, 0, 0, 1, 0, 0, 0, -1, 0};
    for (size_t i = 0; i < sizeof p / sizeof *p; i++)
        assert_int_equal(alarm_rule_push(&rule, p[i]), want[i]);
}

/* Bursts of a probability every 20 samples: without a latch each is an alarm, with one of 100 samples there is one. */
static void a_latched_alarm_stays_on_for_its_time(void **state) {
    (void)state;
    for (int latch = 0; latch <= 100; latch += 100) {
        struct alarm_rule rule = {.config = {.on = 0.8, .off = 0.5, .min_onset = 3, .min_offset = 5, .latch = latch}};
        int ons = 0, offs = 0;
        for (int i = 0; i < 400; i++) {
            float p = i < 200 && i % 20 < 6 ? 0.9f : 0.1f;
            int change = alarm_rule_push(&rule, p), at = i % 20;
            ons += change > 0;
            offs += change < 0;
            if (!latch && i < 200)
                assert_int_equal(change, at == 2 ? 1 : at == 10 ? -1 : 0);
            if (latch && change)
                assert_true(change > 0 ? i == 2 || i == 122 : i == 102 + 8 || i == 222);
        }
        assert_int_equal(ons, latch ? 2 : 10);
        assert_int_equal(offs, ons);
    }
}

/* An alarm goes off when its latch is over, not later, if the rule held before. */
static void the_latch_ends_with_its_last_sample(void **state) {
    (void)state;
    struct alarm_rule rule = {.config = {.on = 0.5, .off = 0.5, .min_onset = 1, .min_offset = 1, .latch = 10}};
    assert_int_equal(alarm_rule_push(&rule, 1), 1);
    for (int i = 1; i < 10; i++)
        assert_int_equal(alarm_rule_push(&rule, 0), 0);
    assert_int_equal(alarm_rule_push(&rule, 0), -1);
}

static struct alarm_sets two_sets(void) {
    struct alarm_sets s = {.n = 2};
    for (int i = 0; i < 2; i++)
        s.sets[i] = (struct alarm_set){.rate = alarm_rates[i],
                                       .rule = {0.9 - 0.1 * i, 0.5, 256 << i, 128, 60 * 256},
                                       .alarm_hop_s = 5,
                                       .hours = 12.5,
                                       .seizures = 7,
                                       .patients = 3,
                                       .sensitivity = 0.75,
                                       .false_alarms_per_24h = 0.5 + i,
                                       .delay_p50_s = 7.25};
    return s;
}

static int parse(const char *text, struct alarm_sets *ret, struct err *err) {
    struct json *j = NULL;
    assert_int_equal(json_parse(text, strlen(text), "alarms", &j, NULL), 0);
    int rc = alarm_sets_from_json(j, ret, err);
    json_free(j);
    return rc;
}

static void sets_read_back_what_was_written(void **state) {
    (void)state;
    struct alarm_sets sets = two_sets(), back;
    struct str text;
    struct json_writer w;
    struct err err;
    str_init(&text, 1 << 16);
    json_writer_init(&w, &text);
    alarm_sets_to_json(&sets, &w, NULL);
    assert_int_equal(parse(str_cstr(&text), &back, &err), 0);
    assert_int_equal(back.n, 2);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(&back.sets[i], &sets.sets[i], sizeof sets.sets[i]);
    str_done(&text);
    assert_ptr_equal(alarm_sets_find(&back, 5, &err), &back.sets[1]);
    assert_null(alarm_sets_find(&back, 10, &err));
    assert_int_equal(err.code, ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "for 10 false alarms per 24 h, only for 1, 5"));
    assert_null(alarm_sets_find(&(struct alarm_sets){.n = 0}, 5, &err));
    assert_non_null(strstr(err.message, "brrctl tune"));
}

static void sets_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "{}",
        "[{}]",
        "[{\"rate\":2,\"on\":0.5,\"off\":0.5,\"min_onset\":1,\"min_offset\":1,\"latch\":0}]",
        "[{\"rate\":5,\"on\":0.5,\"off\":0.6,\"min_onset\":1,\"min_offset\":1,\"latch\":0}]",
        "[{\"rate\":5,\"on\":0.5,\"off\":0.5,\"min_onset\":0,\"min_offset\":1,\"latch\":0}]",
        "[{\"rate\":5,\"on\":0.5,\"off\":0.5,\"min_onset\":1,\"min_offset\":1}]",
        "[{\"rate\":5,\"on\":0.5,\"off\":0.5,\"min_onset\":1,\"min_offset\":1,\"latch\":0},"
        "{\"rate\":5,\"on\":0.5,\"off\":0.5,\"min_onset\":1,\"min_offset\":1,\"latch\":0}]",
    };
    struct alarm_sets sets;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(parse(bad[i], &sets, NULL), ERR_INVALID);
    assert_int_equal(parse("[]", &sets, NULL), 0);
    assert_int_equal(sets.n, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alarm_switches_the_moment_the_rule_holds), cmocka_unit_test(a_latched_alarm_stays_on_for_its_time),
        cmocka_unit_test(the_latch_ends_with_its_last_sample),      cmocka_unit_test(sets_read_back_what_was_written),
        cmocka_unit_test(sets_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
