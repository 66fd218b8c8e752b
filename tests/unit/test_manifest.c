#include "base/base.h"
#include "corpus_case.h"

static void recordings_come_sorted_with_patients_and_window_classes(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    struct manifest *m = open_corpus(&config);
    assert_int_equal(manifest_count(m), 5);
    assert_int_equal(manifest_inputs(m), 19);
    const struct manifest_entry *e = manifest_entry(m, 0);
    assert_string_equal(e->relative_path, "sub-01/sub-01_run-01_eeg.edf");
    assert_string_equal(e->patient, "sub-01");
    assert_string_equal(e->split, "");
    assert_null(e->error);
    /* 59 windows of 2 s; seizure 20.5–30.5 s: starts 19 and 20, 29 and 30 partial, 21 … 28 full. */
    assert_int_equal(e->windows[WINDOW_PARTIAL], 4);
    assert_int_equal(e->windows[WINDOW_FULL], 8);
    assert_int_equal(e->windows[WINDOW_NONE], 47);
    assert_int_equal(manifest_entry(m, 3)->windows[WINDOW_NONE], 29);
    assert_int_equal(manifest_entry(m, 4)->windows[WINDOW_FULL], 19);
    manifest_close(m);
}

/* macOS writes the ü of a file's name as two characters, and so may somebody who copies it into a job file. */
static void patients_are_the_same_in_either_way_of_writing_letters(void **state) {
    (void)state;
    static const char *const ways[] = {"sub-M\xC3\xBCller", "sub-Mu\xCC\x88ller"};
    static const char *const others[] = {"sub-M\xC3\xB6ller"};
    static const char *const files[] = {"sub-M\xC3\xBCller_run-01_eeg.edf", "sub-Mu\xCC\x88ller_run-02_eeg.edf",
                                        "sub-M\xC3\xB6ller_eeg.edf"};
    char own[4200];
    snprintf(own, sizeof own, "%s/letters", folder);
    for (int i = 0; i < 3; i++)
        corpus_file(own, files[i], 60, FIXTURE_EVENTS "20.5\t10\tsz\tn/a\tn/a\tn/a\t60\n");
    struct manifest_config config = corpus_config(own, cache);
    struct manifest *m = open_corpus(&config);
    assert_int_equal(manifest_count(m), 3);
    for (int way = 0; way < 2; way++) {
        uint8_t role[3];
        const struct split_config split = {.train = others, .n_train = 1, .validation = &ways[way], .n_validation = 1};
        assert_int_equal(manifest_split(m, &split, role, NULL), 0);
        for (int64_t i = 0; i < 3; i++)
            assert_int_equal(role[i], strcmp(manifest_entry(m, i)->patient, ways[0]) ? 1 : 2);
    }
    manifest_close(m);
}

static void the_hash_depends_on_the_data_and_settings_alone(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    struct manifest *m = open_corpus(&config);
    char hash[65];
    snprintf(hash, sizeof hash, "%s", manifest_hash(m));
    assert_int_equal(strlen(hash), 64);
    manifest_close(m);
    config.workers = 5;
    m = open_corpus(&config);
    assert_string_equal(manifest_hash(m), hash);
    manifest_close(m);
    config.frontend.notch_hz = 60;
    m = open_corpus(&config);
    assert_string_not_equal(manifest_hash(m), hash);
    manifest_close(m);
    config.frontend.notch_hz = 50;
    config.max_files = 2;
    m = open_corpus(&config);
    assert_int_equal(manifest_count(m), 2);
    assert_string_not_equal(manifest_hash(m), hash);
    manifest_close(m);
}

/* Bytes of a recording made unreadable behind an unchanged size and time. */
static void spoil(const char *name) {
    char path[4300];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(stat(path, &st), 0);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fputs("no longer an EDF", f);
    fclose(f);
    const struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static int64_t partial_windows(const struct manifest *m) {
    int64_t n = 0;
    for (int64_t i = 0; i < manifest_count(m); i++)
        n += manifest_entry(m, i)->windows[WINDOW_PARTIAL];
    return n;
}

static void a_second_opening_takes_unchanged_recordings_from_the_index(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    struct manifest *m = open_corpus(&config);
    char hash[65];
    snprintf(hash, sizeof hash, "%s", manifest_hash(m));
    int64_t partial = partial_windows(m);
    manifest_close(m);
    spoil("sub-01/sub-01_run-01_eeg.edf");
    m = open_corpus(&config); /* nobody looked into it */
    assert_string_equal(manifest_hash(m), hash);
    assert_int_equal(partial_windows(m), partial);
    assert_null(manifest_entry(m, 0)->error);
    manifest_close(m);
    config.window = 2 * CORPUS_WINDOW; /* the grid is no part of the index */
    m = open_corpus(&config);
    assert_null(manifest_entry(m, 0)->error);
    assert_int_not_equal(partial_windows(m), partial);
    manifest_close(m);
    config.window = CORPUS_WINDOW;
    config.rebuild = true;
    m = open_corpus(&config);
    assert_non_null(manifest_entry(m, 0)->error);
    manifest_close(m);
    config.rebuild = false;
    config.frontend.notch_hz = 60; /* another index */
    m = open_corpus(&config);
    assert_non_null(manifest_entry(m, 0)->error);
    manifest_close(m);
}

static void changed_labels_and_recordings_are_looked_at_again(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    struct manifest *m = open_corpus(&config);
    int64_t partial = partial_windows(m);
    char events[4300], edf[4300];
    manifest_close(m);
    snprintf(events, sizeof events, "%s/sub-03/sub-03_run-01_events.tsv", root);
    static const char seizure[] = FIXTURE_EVENTS "10.5\t20\tsz\tn/a\tn/a\tn/a\t60\n";
    assert_int_equal(fsio_write_atomic(events, seizure, strlen(seizure), NULL), 0);
    m = open_corpus(&config);
    assert_int_equal(partial_windows(m), partial + 4);
    manifest_close(m);
    snprintf(edf, sizeof edf, "%s/sub-04/sub-04_run-01_eeg.edf", root);
    assert_int_equal(unlink(edf), 0);
    m = open_corpus(&config);
    assert_int_equal(manifest_count(m), 4);
    manifest_close(m);
    corpus_write(root);
    m = open_corpus(&config); /* and is no longer there for a file that came back */
    assert_int_equal(manifest_count(m), 5);
    assert_int_equal(partial_windows(m), partial);
    manifest_close(m);
}

static void faults_of_the_sources_are_kept_with_the_index(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    char events[4300], edf[4300];
    static const char outside[] = FIXTURE_EVENTS "10.5\t5\tsz\tn/a\tn/a\tn/a\t60\n5000\t10\tsz\tn/a\tn/a\tn/a\t60\n"
                                                 "-20\t5\tsz\tn/a\tn/a\tn/a\t60\n6000\t1\tsz\tn/a\tn/a\tn/a\t60\n";
    snprintf(events, sizeof events, "%s/sub-01/sub-01_run-01_events.tsv", root);
    assert_int_equal(fsio_write_atomic(events, outside, strlen(outside), NULL), 0);
    static const char partly[] = FIXTURE_EVENTS "-2\t5\tsz\tn/a\tn/a\tn/a\t60\n"
                                                "30\t40\tsz\tn/a\tn/a\tn/a\t60\n";
    snprintf(events, sizeof events, "%s/sub-03/sub-03_run-01_events.tsv", root);
    assert_int_equal(fsio_write_atomic(events, partly, strlen(partly), NULL), 0);
    snprintf(edf, sizeof edf, "%s/sub-02/sub-02_run-01_eeg.edf", root);
    assert_int_equal(truncate(edf, 256 + 19 * 256 + 40 * 19 * 512), 0); /* within the 40th of 60 records of 1 s */
    for (int again = 0; again < 2; again++) {
        struct manifest *m = open_corpus(&config);
        struct recording_info info[3];
        for (int i = 0; i < 3; i++)
            recording_info(manifest_entry(m, i)->recording, &info[i]);
        assert_string_equal(
            info[0].faults,
            "the seizure at -20 to -15 s in sub-01_run-01_events.tsv lies outside the recording of 60 s and is ignored; "
            "the seizure at 5000 to 5010 s in sub-01_run-01_events.tsv lies outside the recording of 60 s and is ignored; "
            "and so do 1 others");
        assert_int_equal(info[0].n_seizures, 1);
        assert_string_equal(info[1].faults, "file ends early: 39 of 60 records are there, the last one cut and left out");
        assert_string_equal(
            info[2].faults,
            "the seizure at -2 to 3 s in sub-03_run-01_events.tsv lies partly outside the recording of 60 s and is cut; "
            "the seizure at 30 to 70 s in sub-03_run-01_events.tsv lies partly outside the recording of 60 s and is cut");
        manifest_close(m);
        if (!again)
            spoil("sub-01/sub-01_run-01_eeg.edf");
    }
}

static int spoil_index(void *ctx, const char *relative_path, int64_t size_bytes, struct err *err) {
    char path[4400];
    int *found = ctx;
    (void)err;
    snprintf(path, sizeof path, "%s/manifests/%s", cache, relative_path);
    assert_int_equal(truncate(path, size_bytes / 2), 0);
    ++*found;
    return 0;
}

static void a_damaged_index_is_made_anew(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    struct manifest *m = open_corpus(&config);
    char hash[65], indices[4300];
    snprintf(hash, sizeof hash, "%s", manifest_hash(m));
    manifest_close(m);
    int found = 0;
    snprintf(indices, sizeof indices, "%s/manifests", cache);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(fsio_walk(indices, spoil_index, &found, NULL), 0);
        m = open_corpus(&config);
        assert_string_equal(manifest_hash(m), hash);
        manifest_close(m);
    }
    assert_int_equal(found, 2);
}

static void skipped_recordings_are_remembered_too(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    char events[4300];
    config.unlabeled = "skip";
    snprintf(events, sizeof events, "%s/sub-02/sub-02_run-01_events.tsv", root);
    assert_int_equal(unlink(events), 0);
    for (int again = 0; again < 2; again++) {
        struct manifest *m = open_corpus(&config);
        assert_true(manifest_entry(m, 1)->skipped);
        assert_null(manifest_entry(m, 1)->recording);
        assert_null(manifest_entry(m, 1)->error);
        assert_non_null(manifest_entry(m, 0)->recording);
        manifest_close(m);
        if (!again)
            spoil("sub-02/sub-02_run-01_eeg.edf");
    }
}

static void bad_files_are_listed_and_the_rest_is_used(void **state) {
    (void)state;
    char bad[4300], text[800];
    struct manifest_config config = corpus_config(root, cache);
    struct manifest *m = NULL;
    struct err err = {0};
    snprintf(bad, sizeof bad, "%s/sub-02/sub-02_run-09_eeg.EDF", root);
    assert_int_equal(fsio_write_atomic(bad, "not an EDF", 10, NULL), 0);
    snprintf(bad, sizeof bad, "%s/sub-02/sub-02_run-09_events.tsv", root);
    assert_int_equal(fsio_write_atomic(bad, FIXTURE_EVENTS "0\t2\tsz\tn/a\tn/a\tn/a\t5\n", strlen(FIXTURE_EVENTS) + 22, NULL), 0);
    m = open_corpus(&config);
    assert_int_equal(manifest_count(m), 6);
    const struct manifest_entry *e = manifest_entry(m, 2);
    assert_null(e->recording);
    assert_non_null(e->error);
    assert_int_equal(manifest_describe_bad(m, 3, text, sizeof text), 1);
    assert_non_null(strstr(text, "1 of 6 recordings cannot be used"));
    assert_non_null(strstr(text, "sub-02_run-09_eeg.EDF"));
    manifest_close(m);
    config.fail_on_bad_file = true;
    assert_int_not_equal(manifest_open(&config, NULL, NULL, &m, &err), 0);
    assert_non_null(strstr(err.message, "sub-02_run-09_eeg.EDF"));
}

static void recordings_of_no_or_absurd_length_are_bad_files(void **state) {
    (void)state;
    enum { DAY = 24 * 3600 };
    static const double gap[] = {0, 31.0 * DAY}, long_ago[] = {0, 25.0 * DAY, 50.0 * DAY, 75.0 * DAY}, night[] = {0, 1.0 * DAY};
    static const struct {
        const char *name, *error;
        int records;
        const double *onsets;
    } cases[] = {{"sub-05/sub-05_run-01_eeg.edf", "there are no samples", 0, NULL},
                 {"sub-05/sub-05_run-02_eeg.edf", "a gap of 31 days at 1 s", 2, gap},
                 {"sub-05/sub-05_run-03_eeg.edf", "it lasts 75 days by its clock", 4, long_ago},
                 {"sub-05/sub-05_run-04_eeg.edf", NULL, 2, night}};
    struct manifest_config config = corpus_config(root, cache);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[4300];
        snprintf(path, sizeof path, "%s/%s", root, cases[i].name);
        fixture_write(path, &(struct fixture){fixture_referential, 19, 256, cases[i].records, cases[i].onsets, FIXTURE_EVENTS});
    }
    struct manifest *m = open_corpus(&config);
    assert_int_equal(manifest_count(m), 9);
    for (int i = 0; i < 4; i++) {
        const struct manifest_entry *e = manifest_entry(m, 5 + i);
        assert_string_equal(e->relative_path, cases[i].name);
        if (!e->recording != (cases[i].error != NULL))
            fail_msg("%s: %s", e->relative_path, e->error ? e->error : "usable");
        if (cases[i].error && !strstr(e->error, cases[i].error))
            fail_msg("%s", e->error);
    }
    manifest_close(m);
}

static bool stop_at_once(void *ctx, int64_t done, int64_t total, const char *path) {
    int *calls = ctx;
    assert_true(done >= 0 && done <= total && total == 5);
    assert_non_null(strstr(path, "_eeg.edf"));
    ++*calls;
    return false;
}

static bool count_calls(void *ctx, int64_t done, int64_t total, const char *path) {
    int64_t *last = ctx;
    (void)total, (void)path;
    assert_true(done >= *last);
    *last = done;
    return true;
}

static void progress_is_told_and_can_stop_the_opening(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    struct manifest *m = NULL;
    struct err err;
    int calls = 0;
    int64_t last = 0;
    assert_int_equal(manifest_open(&config, count_calls, &last, &m, NULL), 0);
    assert_int_equal(last, 5);
    manifest_close(m);
    m = NULL;
    config.workers = 1;
    config.rebuild = true;
    assert_int_equal(manifest_open(&config, stop_at_once, &calls, &m, &err), ERR_CANCELLED);
    assert_int_equal(calls, 1);
    assert_null(m);
}

static void a_source_without_usable_files_says_why(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(folder, cache);
    struct manifest *m = NULL;
    struct err err;
    char empty[4300], none[4400];
    snprintf(empty, sizeof empty, "%s/empty", folder);
    assert_int_equal(fsio_mkdirs(empty, NULL), 0);
    config.root = empty;
    assert_int_equal(manifest_open(&config, NULL, NULL, &m, &err), ERR_NOT_FOUND);
    snprintf(none, sizeof none, "%s/x.edf", empty);
    assert_int_equal(fsio_write_atomic(none, "junk", 4, NULL), 0);
    assert_int_equal(manifest_open(&config, NULL, NULL, &m, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "x.edf"));
    for (int i = 0; i < 10; i++) {
        snprintf(none, sizeof none, "%s/sub-%02d_eeg.edf", empty, i);
        struct fixture f = {fixture_referential, 19, 256, 2, NULL, NULL};
        fixture_write(none, &f);
    }
    assert_int_equal(manifest_open(&config, NULL, NULL, &m, &err), ERR_PRECONDITION);
    static const char wanted[] = "11 of 11 recordings cannot be used: sub-00_eeg.edf (no labels (looked for sub-00_events.tsv";
    assert_memory_equal(err.message, wanted, strlen(wanted));
    assert_non_null(strstr(err.message, "; add label files, or set data.unlabeled to background or skip) and 9 more for the same "
                                        "reason; x.edf ("));
    config.root = "/nowhere/at/all";
    assert_int_not_equal(manifest_open(&config, NULL, NULL, &m, &err), 0);
    config = corpus_config(root, cache);
    config.workers = 0;
    assert_int_equal(manifest_open(&config, NULL, NULL, &m, &err), ERR_INVALID);
}

static void a_fraction_takes_whole_patients_with_a_seizure_on_both_sides(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    struct manifest *m = open_corpus(&config);
    uint8_t role[5], again[5];
    int moved = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct split_config split = {.validation_fraction = 0.25, .seed = seed};
        assert_int_equal(manifest_split(m, &split, role, NULL), 0);
        int64_t seizures[3] = {0}, patients[3] = {0};
        for (int i = 0; i < 5; i++) {
            const struct manifest_entry *e = manifest_entry(m, i);
            assert_true(role[i] == 1 || role[i] == 2);
            seizures[role[i]] += e->windows[WINDOW_PARTIAL] + e->windows[WINDOW_FULL];
            patients[role[i]] += i != 3; /* the fourth recording is the third's patient */
        }
        assert_int_equal(role[2], role[3]);
        assert_true(seizures[1] > 0 && seizures[2] > 0);
        assert_int_equal(patients[2], 1);
        assert_int_equal(manifest_split(m, &split, again, NULL), 0);
        assert_memory_equal(role, again, sizeof role);
        moved += role[0] == 2;
    }
    assert_true(moved > 3 && moved < 30); /* the seed decides */
    manifest_close(m);
}

static void seizures_in_clips_shorter_than_a_window_are_not_called_missing(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    config.window = 64 * FRONTEND_RATE_HZ;
    struct manifest *m = open_corpus(&config);
    uint8_t role[5];
    struct err err;
    const char *clip[] = {"sub-04"};
    struct split_config split = {.train = clip, .n_train = 1};
    assert_int_equal(manifest_split(m, &split, role, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "1 seizure in 1 recording, whose longest segment is 20 s"));
    assert_non_null(strstr(err.message, "needs at least 32 s; lower data.window_s"));
    manifest_close(m);
}

static void lists_name_patients_and_mistakes_are_said(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    struct manifest *m = open_corpus(&config);
    uint8_t role[5];
    struct err err;
    const char *one[] = {"sub-01"}, *three[] = {"sub-03"}, *two_and_one[] = {"sub-02", "sub-01"}, *ghost[] = {"sub-77"};
    struct split_config split = {.train = one, .n_train = 1, .validation = two_and_one, .n_validation = 1};
    assert_int_equal(manifest_split(m, &split, role, NULL), 0);
    assert_memory_equal(role, ((uint8_t[]){1, 2, 0, 0, 0}), 5);
    split = (struct split_config){.validation = one, .n_validation = 1};
    assert_int_equal(manifest_split(m, &split, role, NULL), 0);
    assert_memory_equal(role, ((uint8_t[]){2, 1, 1, 1, 1}), 5);
    split = (struct split_config){.train = one, .n_train = 1, .validation = two_and_one, .n_validation = 2};
    assert_int_equal(manifest_split(m, &split, role, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "sub-01"));
    split = (struct split_config){.train = ghost, .n_train = 1};
    assert_int_equal(manifest_split(m, &split, role, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "sub-77"));
    assert_non_null(strstr(err.message, "sub-04"));
    split = (struct split_config){.train = three, .n_train = 1};
    assert_int_equal(manifest_split(m, &split, role, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "the training set has no seizure: 1 patient, 2 recordings (2 with labels), 88 windows"));
    assert_non_null(strstr(err.message, "data.labels"));
    split = (struct split_config){.train = one, .n_train = 1, .validation = three, .n_validation = 1};
    assert_int_equal(manifest_split(m, &split, role, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "the validation set has no seizure"));
    split = (struct split_config){.official = true};
    assert_int_equal(manifest_split(m, &split, role, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "train/"));
    split = (struct split_config){.train = one, .n_train = 1, .validation_fraction = 0.5};
    assert_int_equal(manifest_split(m, &split, role, &err), ERR_PRECONDITION);
    split = (struct split_config){.validation_fraction = 1};
    assert_int_equal(manifest_split(m, &split, role, &err), ERR_INVALID);
    manifest_close(m);
}

static const char *validating(const struct manifest *m, const struct split_config *config, char *buf, size_t size) {
    uint8_t *role = calloc((size_t)manifest_count(m), 1);
    struct str names;
    assert_non_null(role);
    assert_int_equal(manifest_split(m, config, role, NULL), 0);
    str_init(&names, size);
    patients_list(m, role, PATIENT_VALIDATION, size, &names);
    snprintf(buf, size, "%s", str_cstr(&names));
    str_done(&names);
    free(role);
    return buf;
}

static void new_patients_leave_the_roles_of_others(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    struct split_config split = {.validation_fraction = 0.25, .seed = 1};
    static const char *const seizure = FIXTURE_EVENTS "5\t5\tsz\tn/a\tn/a\tn/a\t20\n";
    char before[100], after[100];
    uint64_t lowest = UINT64_MAX;
    char expected[16] = "";
    for (int i = 1; i <= 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "sub-%02d", i);
        if (i != 3 && patient_hash("1", name) < lowest) { /* sub-03 has no seizure */
            lowest = patient_hash("1", name);
            snprintf(expected, sizeof expected, "%s", name);
        }
    }
    struct manifest *m = open_corpus(&config);
    assert_string_equal(validating(m, &split, before, sizeof before), expected);
    manifest_close(m);
    for (int i = 10; i < 30; i++) { /* those with higher hashes change nothing */
        char path[64], name[16];
        snprintf(name, sizeof name, "sub-%02d", i);
        snprintf(path, sizeof path, "%s/%s_eeg.edf", name, name);
        if (patient_hash("1", name) > lowest)
            corpus_file(root, path, 20, seizure);
    }
    m = open_corpus(&config);
    assert_true(manifest_count(m) > 8);
    split.validation_fraction = 0.01;
    assert_string_equal(validating(m, &split, after, sizeof after), before);
    manifest_close(m);
}

static void kept_roles_outlive_patients_who_come_and_go(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    struct known_patients *kept = NULL;
    struct json *json = NULL;
    struct str text;
    struct json_writer w;
    struct err err;
    const char *one[] = {"sub-01"};
    uint8_t role[6] = {0};
    struct manifest *m = open_corpus(&config);
    struct split_config split = {.validation = one, .n_validation = 1};
    assert_int_equal(manifest_split(m, &split, role, NULL), 0);
    str_init(&text, 10000);
    json_writer_init(&w, &text);
    patients_put_hashes(m, role, "", true, &w);
    assert_int_equal(json_parse(str_cstr(&text), text.len, "roles", &json, NULL), 0);
    assert_int_equal(known_patients_read(json, &kept, NULL), 0);
    assert_int_equal(known_patients_role(kept, "sub-01"), PATIENT_VALIDATION);
    assert_int_equal(known_patients_role(kept, "sub-04"), PATIENT_TRAINING);
    assert_int_equal(known_patients_role(kept, "sub-10"), -1);
    assert_int_equal(known_patients_count(kept, PATIENT_TRAINING), 3);
    json_free(json);
    str_done(&text);
    manifest_close(m);
    corpus_file(root, "sub-10/sub-10_eeg.edf", 20, FIXTURE_EVENTS "5\t5\tsz\tn/a\tn/a\tn/a\t20\n");
    m = open_corpus(&config);
    split = (struct split_config){.validation_fraction = 0.5, .kept = kept};
    assert_int_equal(manifest_split(m, &split, role, NULL), 0);
    assert_memory_equal(role, ((uint8_t[]){2, 1, 1, 1, 1, 0}), 6);
    manifest_close(m);
    char gone[4300];
    snprintf(gone, sizeof gone, "%s/sub-01/sub-01_run-01_eeg.edf", root);
    assert_int_equal(unlink(gone), 0);
    m = open_corpus(&config);
    assert_int_equal(manifest_split(m, &split, role, &err), ERR_PRECONDITION); /* nothing to select on any more */
    assert_non_null(strstr(err.message, "the validation set has no seizure: 0 patients"));
    manifest_close(m);
    known_patients_free(kept);
    assert_int_equal(json_parse("{\"salt\":\"\",\"training\":[\"0123\"]}", 31, "roles", &json, NULL), 0);
    assert_int_equal(known_patients_read(json, &kept, &err), ERR_INVALID);
    json_free(json);
}

static void test_patients_take_no_part(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    struct manifest *m = open_corpus(&config);
    uint8_t role[5];
    struct err err;
    const char *one[] = {"sub-01"}, *two[] = {"sub-02"};
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct split_config split = {.test = two, .n_test = 1, .validation_fraction = 0.4, .seed = seed};
        assert_int_equal(manifest_split(m, &split, role, NULL), 0);
        assert_int_equal(role[1], PATIENT_TEST);
        assert_int_equal((role[0] == PATIENT_VALIDATION) + (role[2] == PATIENT_VALIDATION) + (role[4] == PATIENT_VALIDATION), 1);
    }
    struct split_config split = {.test = one, .n_test = 1, .train = one, .n_train = 1};
    assert_int_equal(manifest_split(m, &split, role, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "patient sub-01 stands in two of train, validation and test"));
    manifest_close(m);
}

static void every_patient_is_kept_for_a_test_in_one_fold(void **state) {
    (void)state;
    struct manifest_config config = corpus_config(root, cache);
    struct manifest *m = open_corpus(&config);
    struct err err;
    uint8_t role[5];
    for (int64_t folds = 2; folds <= 4; folds++)
        for (uint64_t seed = 0; seed < 10; seed++) {
            int tests[5] = {0};
            for (int64_t fold = 1; fold <= folds; fold++) {
                struct split_config split = {.folds = folds, .fold = fold, .seed = seed};
                int of_fold = 0, seizures = 0;
                assert_int_equal(manifest_split(m, &split, role, &err), 0); /* no fold keeps all seizures for its test */
                for (int i = 0; i < 5; i++) {
                    seizures += role[i] == PATIENT_TEST && i != 2 && i != 3;
                    tests[i] += role[i] == PATIENT_TEST;
                    of_fold += role[i] == PATIENT_TEST;
                    assert_true(role[i] == PATIENT_TEST || role[i] == PATIENT_TRAINING || !manifest_entry(m, i)->recording);
                }
                assert_true(of_fold > 0 && (folds > 3 || seizures > 0)); /* three of the four patients have seizures */
            }
            for (int i = 0; i < 5; i++)
                assert_int_equal(tests[i], manifest_entry(m, i)->recording != NULL);
        }
    struct split_config many = {.folds = 9, .fold = 1};
    assert_int_equal(manifest_split(m, &many, role, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "data.split.folds is 9"));
    manifest_close(m);
}

static void recordings_that_are_patients_of_their_own_are_counted_by_folder(void **state) {
    (void)state;
    struct lone_patients lone;
    char corpus[4200];
    static const char *const seizure = FIXTURE_EVENTS "5\t5\tsz\tn/a\tn/a\tn/a\t20\n";
    struct manifest_config config = corpus_config(root, cache);
    struct manifest *m = open_corpus(&config);
    assert_false(patients_lone(m, &lone)); /* BIDS */
    manifest_close(m);
    snprintf(corpus, sizeof corpus, "%s/siena", folder);
    corpus_file(corpus, "PN00/PN00-1_eeg.edf", 20, seizure);
    corpus_file(corpus, "PN00/PN00-2_eeg.edf", 20, seizure);
    corpus_file(corpus, "PN00/PN00-3_eeg.edf", 20, seizure);
    corpus_file(corpus, "PN01/PN01-1_eeg.edf", 20, seizure);
    corpus_file(corpus, "PN02/PN02-1_eeg.edf", 20, seizure);
    corpus_file(corpus, "PN02/PN02-2_eeg.edf", 20, seizure);
    config = corpus_config(corpus, cache);
    m = open_corpus(&config);
    assert_string_equal(manifest_entry(m, 0)->patient, "PN00/PN00-1_eeg");
    assert_true(patients_lone(m, &lone));
    assert_int_equal(lone.folders, 2);
    assert_int_equal(lone.patients, 5);
    assert_string_equal(lone.first, "PN00/PN00-1_eeg.edf");
    manifest_close(m);
    config.patient = LABELS_PATIENT_FOLDER;
    m = open_corpus(&config);
    assert_string_equal(manifest_entry(m, 0)->patient, "PN00");
    assert_false(patients_lone(m, &lone));
    manifest_close(m);
}

static void folders_of_the_official_split_are_obeyed(void **state) {
    (void)state;
    char tusz[4200];
    uint8_t role[4];
    struct err err;
    static const char *const seizure = FIXTURE_EVENTS "5\t5\tsz\tn/a\tn/a\tn/a\t20\n";
    snprintf(tusz, sizeof tusz, "%s/tusz", folder);
    corpus_file(tusz, "edf/dev/aaaaaabb/s001_2010/01_tcp_ar/aaaaaabb_s001_t000_eeg.edf", 20, seizure);
    corpus_file(tusz, "edf/eval/aaaaaacc/s001_2010/01_tcp_ar/aaaaaacc_s001_t000_eeg.edf", 20, seizure);
    corpus_file(tusz, "edf/train/aaaaaaaa/s001_2010/01_tcp_ar/aaaaaaaa_s001_t000_eeg.edf", 20, seizure);
    struct manifest_config config = corpus_config(tusz, cache);
    struct manifest *m = open_corpus(&config);
    for (int official = 0; official < 2; official++) {
        struct split_config split = {.official = official, .validation_fraction = 0.2};
        assert_int_equal(manifest_split(m, &split, role, NULL), 0);
        assert_memory_equal(role, ((uint8_t[]){2, 0, 1}), 3);
    }
    manifest_close(m);
    corpus_file(tusz, "edf/train/aaaaaabb/s001_2010/01_tcp_ar/aaaaaabb_s002_t000_eeg.edf", 20, seizure);
    m = open_corpus(&config);
    struct split_config split = {.official = true};
    assert_int_equal(manifest_split(m, &split, role, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "aaaaaabb"));
    manifest_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(recordings_come_sorted_with_patients_and_window_classes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_hash_depends_on_the_data_and_settings_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_opening_takes_unchanged_recordings_from_the_index, set_up, tear_down),
        cmocka_unit_test_setup_teardown(changed_labels_and_recordings_are_looked_at_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(faults_of_the_sources_are_kept_with_the_index, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_index_is_made_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(skipped_recordings_are_remembered_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_files_are_listed_and_the_rest_is_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(recordings_of_no_or_absurd_length_are_bad_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(progress_is_told_and_can_stop_the_opening, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_source_without_usable_files_says_why, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_fraction_takes_whole_patients_with_a_seizure_on_both_sides, set_up, tear_down),
        cmocka_unit_test_setup_teardown(seizures_in_clips_shorter_than_a_window_are_not_called_missing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lists_name_patients_and_mistakes_are_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(patients_are_the_same_in_either_way_of_writing_letters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(new_patients_leave_the_roles_of_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kept_roles_outlive_patients_who_come_and_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_patients_take_no_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_patient_is_kept_for_a_test_in_one_fold, set_up, tear_down),
        cmocka_unit_test_setup_teardown(recordings_that_are_patients_of_their_own_are_counted_by_folder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(folders_of_the_official_split_are_obeyed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
