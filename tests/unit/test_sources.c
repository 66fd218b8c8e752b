/* Several sources of one training: the list in the job file; names of recordings and patients; splits within each source; and the
 * shares of an epoch's windows. */

#include "corpus_fixture.h"
#include "unit/cmocka_all.h"
#include "windows/sampler.h"
#include "work/job_source.h"

enum { EACH = 5, ALL = 2 * EACH };

static char folder[4096], first_root[4200], second_root[4200], cache[4200];
static struct err err;

static int set_up(void **state) {
    (void)state;
    fixture_folder(folder, sizeof folder);
    snprintf(first_root, sizeof first_root, "%s/one", folder);
    snprintf(second_root, sizeof second_root, "%s/two", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    corpus_write(first_root); /* patients of the same names */
    corpus_write(second_root);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fixture_remove(folder);
    return 0;
}

static struct manifest *open_sources(double first, double second) {
    const struct manifest_source sources[] = {{"b", first, first_root, NULL}, {"a", second, second_root, NULL}};
    struct manifest_config config = corpus_config("", cache);
    struct manifest *m = NULL;
    config.sources = sources;
    config.n_sources = 2;
    if (manifest_open(&config, NULL, NULL, &m, &err))
        fail_msg("%s", err.message);
    return m;
}

static void recordings_and_patients_have_their_source_in_front(void **state) {
    (void)state;
    struct manifest *m = open_sources(0, 0), *again = open_sources(2, 1);
    const struct manifest_source *sources;
    assert_int_equal(manifest_count(m), ALL);
    assert_int_equal(manifest_sources(m, &sources), 2);
    assert_string_equal(sources[1].name, "a");
    for (int64_t i = 0; i < ALL; i++) {
        const struct manifest_entry *e = manifest_entry(m, i);
        assert_int_equal(e->source, i < EACH); /* in order of the paths: a is the second source */
        assert_true(str_starts(e->relative_path, i < EACH ? "a/sub-0" : "b/sub-0"));
        assert_true(str_starts(e->patient, i < EACH ? "a/sub-0" : "b/sub-0"));
        assert_string_equal(e->own_patient, e->patient + 2);
        assert_int_equal(manifest_find(m, e->relative_path), i);
    }
    assert_string_equal(manifest_hash(m), manifest_hash(again)); /* weights are no data */
    manifest_close(m);
    manifest_close(again);
}

static void errors_name_the_source(void **state) {
    (void)state;
    const struct manifest_source sources[] = {{"b", 0, first_root, NULL}, {"a", 0, "/absent", NULL}};
    struct manifest *m = NULL;
    struct manifest_config config = corpus_config("", cache);
    config.sources = sources;
    config.n_sources = 2;
    assert_int_not_equal(manifest_open(&config, NULL, NULL, &m, &err), 0);
    assert_non_null(strstr(err.message, "data.source a"));
}

static void each_source_gives_its_share_of_validation_patients(void **state) {
    (void)state;
    struct manifest *m = open_sources(0, 0);
    for (uint64_t seed = 0; seed < 20; seed++) {
        uint8_t role[ALL];
        int validating[2] = {0};
        const struct split_config split = {.validation_fraction = 0.25, .seed = seed};
        assert_int_equal(manifest_split(m, &split, role, &err), 0);
        for (int64_t i = 0; i < ALL; i++) {
            bool counted = i && !strcmp(manifest_entry(m, i)->patient, manifest_entry(m, i - 1)->patient);
            validating[manifest_entry(m, i)->source] += role[i] == PATIENT_VALIDATION && !counted;
        }
        assert_int_equal(validating[0] + validating[1], 2);
        /* one each, unless the draw had to be corrected for a seizure */
        assert_true(validating[0] == 1 || validating[0] == 2 || validating[1] == 2);
    }
    const char *one[] = {"a/sub-01"};
    uint8_t role[ALL];
    assert_int_equal(manifest_split(m, &(struct split_config){.validation = one, .n_validation = 1}, role, &err), 0);
    for (int64_t i = 0; i < ALL; i++)
        assert_int_equal(role[i], i ? PATIENT_TRAINING : PATIENT_VALIDATION); /* b/sub-01 trains */
    manifest_close(m);
}

static void a_model_knows_patients_by_their_own_names(void **state) {
    (void)state;
    struct manifest *m = open_sources(0, 0);
    const char *one[] = {"a/sub-01"}, *test[] = {"b/sub-02"};
    const struct split_config split = {.validation = one, .n_validation = 1, .test = test, .n_test = 1};
    uint8_t role[ALL];
    assert_int_equal(manifest_split(m, &split, role, &err), 0);
    for (int all = 0; all < 2; all++) {
        struct known_patients *known = NULL;
        struct json *json = NULL;
        struct json_writer w;
        struct str text;
        str_init(&text, 10000);
        json_writer_init(&w, &text);
        patients_put_hashes(m, role, "salt", all, &w);
        assert_int_equal(json_parse(str_cstr(&text), text.len, "roles", &json, NULL), 0);
        assert_int_equal(known_patients_read(json, &known, NULL), 0);
        assert_int_equal(known_patients_role(known, all ? "a/sub-01" : "sub-01"), all ? PATIENT_VALIDATION : PATIENT_TRAINING);
        assert_int_equal(known_patients_role(known, all ? "b/sub-02" : "sub-02"), all ? PATIENT_TEST : PATIENT_TRAINING);
        assert_int_equal(known_patients_role(known, all ? "sub-01" : "a/sub-01"), -1);
        json_free(json);
        str_done(&text);
        known_patients_free(known);
    }
    manifest_close(m);
}

static struct sampler *open_sampler(const struct manifest *m, uint64_t seed, double hard) {
    static const uint8_t role[ALL] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const struct balance_config balance = {0.5, 2.5, true, 0, hard};
    struct sampler *s = NULL;
    if (sampler_new(m, role, &balance, seed, &s, &err))
        fail_msg("%s", err.message);
    return s;
}

static int class_of(const struct manifest *m, struct window_ref ref) {
    struct recording_info info;
    recording_info(manifest_entry(m, ref.entry)->recording, &info);
    return (int)manifest_count_window(&info, ref.start, CORPUS_WINDOW).class;
}

static void an_epoch_has_the_shares_of_the_weights(void **state) {
    (void)state;
    struct manifest *m = open_sources(3, 1), *plain = open_sources(0, 0);
    struct sampler *s = open_sampler(m, 7, 0), *alike = open_sampler(plain, 7, 0);
    static int64_t shown[ALL][64 * 256];
    int64_t total = sampler_epoch_windows(s);
    assert_int_equal(total, sampler_epoch_windows(alike)); /* both sources are the same here */
    int64_t own = total / 2;                               /* windows of a source's own epoch */
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        int64_t of[2] = {0};
        for (int64_t i = 0; i < total; i++) {
            struct window_ref ref = sampler_at(s, epoch, i);
            of[manifest_entry(m, ref.entry)->source]++;
            if (class_of(m, ref) == WINDOW_PARTIAL)
                shown[ref.entry][ref.start]++;
        }
        assert_int_equal(of[0], llround(0.75 * (double)total));
        assert_int_equal(of[0] + of[1], total);
    }
    /* 1.5 own epochs of b in each, 0.5 of a: after two, three of b and one of a, each of which has every partial window once. */
    assert_int_equal(2 * llround(0.75 * (double)total), 3 * own);
    for (int64_t entry = 0; entry < ALL; entry++)
        for (int64_t start = 0; start < 64 * 256; start++)
            assert_true(shown[entry][start] == 0 || shown[entry][start] == (entry < EACH ? 1 : 3));
    double prior, ratio, same;
    sampler_ratios(s, &prior, &ratio);
    sampler_ratios(alike, &same, NULL);
    assert_true(fabs(prior - same) < 1e-12 && ratio > 0 && ratio < 1);
    sampler_free(s);
    sampler_free(alike);
    manifest_close(m);
    manifest_close(plain);
}

/* The windows of the second source in an epoch. */
static int64_t second_in_epoch(const struct manifest *m, struct sampler *s) {
    int64_t n = 0;
    for (int64_t i = 0; i < sampler_epoch_windows(s); i++)
        n += manifest_entry(m, sampler_at(s, 0, i).entry)->source;
    return n;
}

static void a_source_without_seizures_shows_all_its_background(void **state) {
    (void)state;
    struct manifest *m = open_sources(1, 1);
    uint8_t role[ALL] = {1, 1, 1, 1, 1};
    const struct balance_config balance = {0.5, 2.5, true, 0, 0};
    struct balance_counts found, used;
    struct sampler *s = NULL;
    for (int64_t i = EACH; i < ALL; i++)
        role[i] = !strcmp(manifest_entry(m, i)->own_patient, "sub-03");
    if (sampler_new(m, role, &balance, 7, &s, &err))
        fail_msg("%s", err.message);
    sampler_counts(s, &found, &used);
    int64_t background = 59 + 29; /* of sub-03 */
    assert_int_equal(second_in_epoch(m, s), llround((double)sampler_epoch_windows(s) / 2));
    assert_true(used.none >= background && found.none >= background);
    double prior, ratio;
    sampler_ratios(s, &prior, &ratio);
    assert_true(prior > 0 && ratio > 0 && ratio < 0.5);
    sampler_free(s);
    for (int64_t i = 0; i < ALL; i++)
        role[i] = !strcmp(manifest_entry(m, i)->own_patient, "sub-03");
    assert_int_equal(sampler_new(m, role, &balance, 7, &s, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "at least one seizure window"));
    manifest_close(m);
}

static void no_source_is_shown_more_often_than_allowed(void **state) {
    (void)state;
    struct manifest *m = open_sources(1, 9), *plain = open_sources(0, 0);
    struct sampler *s = open_sampler(m, 7, 0);
    int64_t total = sampler_epoch_windows(s), own = total / 2;
    assert_int_equal(second_in_epoch(m, s), llround(0.9 * (double)total)); /* 1.8 times its own */
    assert_int_equal(sampler_limit(s, 1.25, &err), 0);
    assert_in_range(sampler_epoch_windows(s), total - 1, total + 1);
    assert_int_equal(second_in_epoch(m, s), (int64_t)(1.25 * (double)own));
    assert_int_equal(sampler_limit(s, 3, &err), 0); /* more than the weights ask for */
    assert_int_equal(second_in_epoch(m, s), llround(0.9 * (double)total));
    assert_int_equal(sampler_limit(s, 0.9, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "data.balance.most_shown"));
    sampler_free(s);
    s = open_sampler(plain, 7, 0);
    assert_int_equal(sampler_limit(s, 1, &err), 0);
    assert_int_equal(sampler_limit(s, 0.9, &err), ERR_PRECONDITION);
    sampler_free(s);
    manifest_close(m);
    manifest_close(plain);
}

static void a_window_of_weighted_sources_depends_on_seed_epoch_and_index_alone(void **state) {
    (void)state;
    struct manifest *m = open_sources(5, 2);
    struct sampler *a = open_sampler(m, 7, 0.5), *b = open_sampler(m, 7, 0.5), *other = open_sampler(m, 8, 0.5);
    int64_t total = sampler_epoch_windows(a), n, differences = 0;
    const struct window_ref *background = sampler_background(a, &n);
    sampler_set_jitter(a);
    sampler_set_jitter(b);
    for (int64_t i = 1; i < n; i++) /* of both, in order */
        assert_true(background[i].entry > background[i - 1].entry ||
                    (background[i].entry == background[i - 1].entry && background[i].start > background[i - 1].start));
    struct window_ref hard[] = {background[0], background[1], background[n - 2], background[n - 1]};
    assert_int_equal(sampler_set_hard(a, hard, 4, NULL) + sampler_set_hard(b, hard, 4, NULL), 0);
    for (int64_t epoch = 0; epoch < 3; epoch++)
        for (int64_t i = 0; i < total; i++) {
            struct window_ref y = sampler_at(b, 2 - epoch, total - 1 - i); /* b walks backwards */
            struct window_ref x = sampler_at(a, 2 - epoch, total - 1 - i), z = sampler_at(other, 2 - epoch, total - 1 - i);
            assert_true(x.entry == y.entry && x.start == y.start);
            differences += x.entry != z.entry || x.start != z.start;
        }
    assert_true(differences > total);
    sampler_free(a);
    sampler_free(b);
    sampler_free(other);
    manifest_close(m);
}

static void a_source_without_windows_to_train_on_is_named(void **state) {
    (void)state;
    struct manifest *m = open_sources(5, 2);
    static const uint8_t role[ALL] = {1, 1, 1, 1, 1};
    const struct balance_config balance = {0.5, 2.5, true, 0, 0};
    struct sampler *s = NULL;
    assert_int_equal(sampler_new(m, role, &balance, 1, &s, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "data.source b"));
    manifest_close(m);
}

static void the_list_is_read_from_the_job_file(void **state) {
    (void)state;
    static const struct {
        const char *list, *words; /* words: of the message, or NULL */
    } cases[] = {
        {"[{uri: eeg/one, weight: 2}, {uri: 'file:///x/one/', name: other}]", NULL},
        {"[eeg/one, eeg/two]", NULL},
        {"[]", "is empty"},
        {"[{weight: 2}]", "data.source[0]: expected a source's uri"},
        {"[eeg/one, {uri: x/one}]", "data.source[1]: another source has the name one"},
        {"[{uri: one, weight: 0}]", "data.source[0].weight: expected uri"},
        {"[{uri: one, wieght: 1}]", "data.source[0].wieght: expected uri"},
        {"[{uri: 'a b'}]", "its name must consist of"},
        {"[one, [two]]", "data.source[1]: expected a source's uri"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena;
        struct jobfile job;
        char set[400];
        const char *overrides[] = {set};
        arena_init(&arena, 1 << 24);
        snprintf(set, sizeof set, "data.source=%s", cases[i].list);
        int rc = jobfile_parse("kind: train\n", "j.yaml", overrides, 1, &arena, &job, &err);
        if (cases[i].words ? !rc || !strstr(err.message, cases[i].words) : rc)
            fail_msg("%s: %s", cases[i].list, rc ? err.message : "accepted");
        if (!rc) {
            assert_int_equal(job.data->n_sources, 2);
            assert_string_equal(job.data->source, i ? "eeg/one eeg/two" : "eeg/one file:///x/one/");
            assert_string_equal(job.data->sources[1].root, i ? "eeg/two" : "file:///x/one/");
            assert_int_equal(job_source_place(&job, "/one\nstore://s/two", &arena, &err), 0);
            assert_string_equal(job.data->sources[0].root, "/one");
            assert_string_equal(job.data->sources[1].root, "store://s/two");
            assert_int_equal(job_source_place(&job, "/one", &arena, &err), ERR_INVALID);
            assert_string_equal(job.data->sources[1].name, i ? "two" : "other");
            assert_true(fabs(job.data->sources[0].weight - (i ? 0 : 2)) < 1e-12);
            assert_true(fabs(job.data->sources[1].weight - (i ? 0 : 1)) < 1e-12);
        }
        arena_done(&arena);
    }
}

static void other_kinds_say_what_they_cannot_use(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"kind: detect\ndata: { source: [a, b] }\ndetect: { model: line_length }\n", "a detect job reads one source"},
        {"kind: evaluate\ndata: { source: [{uri: a, weight: 2}] }\nevaluate: { checkpoint: line_length }\n",
         "data.source[0].weight: it has no effect"},
        {"kind: evaluate\ndata: { source: [a, b] }\nevaluate: { checkpoint: line_length }\n", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena;
        struct jobfile job;
        arena_init(&arena, 1 << 24);
        int rc = jobfile_parse(cases[i].text, "j.yaml", NULL, 0, &arena, &job, &err);
        if (cases[i].words ? !rc || !strstr(err.message, cases[i].words) : rc)
            fail_msg("%s: %s", cases[i].text, rc ? err.message : "accepted");
        arena_done(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordings_and_patients_have_their_source_in_front),
        cmocka_unit_test(errors_name_the_source),
        cmocka_unit_test(each_source_gives_its_share_of_validation_patients),
        cmocka_unit_test(a_model_knows_patients_by_their_own_names),
        cmocka_unit_test(an_epoch_has_the_shares_of_the_weights),
        cmocka_unit_test(a_source_without_seizures_shows_all_its_background),
        cmocka_unit_test(no_source_is_shown_more_often_than_allowed),
        cmocka_unit_test(a_window_of_weighted_sources_depends_on_seed_epoch_and_index_alone),
        cmocka_unit_test(a_source_without_windows_to_train_on_is_named),
        cmocka_unit_test(the_list_is_read_from_the_job_file),
        cmocka_unit_test(other_kinds_say_what_they_cannot_use),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
