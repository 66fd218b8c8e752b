/* The order in which a training needs its recordings. */

#include "corpus_fixture.h"
#include "unit/cmocka_all.h"
#include "windows/arrival.h"

static char folder[4096], root[4200], cache[4200];
static struct manifest *corpus;
static const uint8_t role[5] = {1, 1, 1, 1, 2};

static int set_up(void **state) {
    (void)state;
    corpus_make(folder, root, cache);
    struct manifest_config config = corpus_config(root, cache);
    return manifest_open(&config, NULL, NULL, &corpus, NULL);
}

static int tear_down(void **state) {
    (void)state;
    manifest_close(corpus);
    fixture_remove(folder);
    return 0;
}

static struct sampler *open_sampler(double none) {
    const struct balance_config balance = {1, none, true, 0, 0};
    struct sampler *s = NULL;
    assert_int_equal(sampler_new(corpus, role, &balance, 7, &s, NULL), 0);
    return s;
}

static const struct arrival_config from_the_start = {
    .role = role, .training = 1, .validation = 2, .batch_size = 4, .windows = 1 << 20, .windows_to_validation = 8};

/* Entries in order of arrival, each as a digit. */
static void assert_order(struct sampler *s, const struct arrival_config *config, char got[8]) {
    struct recording **order = NULL;
    int64_t n = 0;
    assert_int_equal(arrival_order(corpus, s, config, &order, &n, NULL), 0);
    assert_true(n < 8);
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < 5; e++)
            if (manifest_entry(corpus, e)->recording == order[i])
                got[i] = (char)('0' + e);
    got[n] = '\0';
    free(order);
}

static void each_recording_comes_once_by_its_first_window(void **state) {
    (void)state;
    struct sampler *s = open_sampler(9);
    char want[8] = "", got[8];
    struct arrival_config config = from_the_start;
    config.windows_to_validation = config.windows;
    assert_order(s, &config, got);
    for (int64_t i = 0; strlen(want) < 4; i++) {
        char entry = (char)('0' + sampler_at(s, 0, i).entry);
        if (!strchr(want, entry))
            want[strlen(want)] = entry;
    }
    assert_memory_equal(got, want, 4);
    assert_string_equal(got + 4, "4"); /* what validates comes last here */
    sampler_free(s);
}

static void validation_comes_when_it_is_due(void **state) {
    (void)state;
    struct sampler *s = open_sampler(9);
    char got[8];
    struct arrival_config config = from_the_start;
    config.windows_to_validation = 0;
    assert_order(s, &config, got);
    assert_int_equal(got[0], '4');
    assert_int_equal(strlen(got), 5);
    config.windows_to_validation = 1;
    assert_order(s, &config, got);
    assert_int_equal(got[0], '0' + (int)sampler_at(s, 0, 0).entry);
    assert_int_equal(got[1], '4');
    sampler_free(s);
}

static void a_resumed_training_begins_where_it_stands(void **state) {
    (void)state;
    struct sampler *s = open_sampler(9);
    char got[8];
    struct arrival_config config = from_the_start;
    config.epoch = 3;
    config.index = 8;
    assert_order(s, &config, got);
    assert_int_equal(got[0], '0' + (int)sampler_at(s, 3, 8).entry);
    sampler_free(s);
}

static void what_a_short_training_never_shows_is_not_asked_for(void **state) {
    (void)state;
    struct sampler *s = open_sampler(9);
    char got[8];
    struct arrival_config config = from_the_start;
    config.windows = 1;
    assert_order(s, &config, got);
    assert_int_equal(strlen(got), 2); /* one to train on, one to validate on */
    assert_int_equal(got[1], '4');
    sampler_free(s);
}

static void what_no_window_shows_comes_last(void **state) {
    (void)state;
    struct sampler *s = open_sampler(0); /* seizures alone: entries 2 and 3 have none */
    char got[8];
    assert_order(s, &from_the_start, got);
    assert_int_equal(strlen(got), 5);
    assert_string_equal(got + 3, "23");
    sampler_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_recording_comes_once_by_its_first_window),
        cmocka_unit_test(validation_comes_when_it_is_due),
        cmocka_unit_test(a_resumed_training_begins_where_it_stands),
        cmocka_unit_test(what_a_short_training_never_shows_is_not_asked_for),
        cmocka_unit_test(what_no_window_shows_comes_last),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
