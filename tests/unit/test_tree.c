#include "eeg/tree.h"
#include "unit/cmocka_all.h"
#include "unit/temp_dir.h"

struct seen {
    char paths[1024], notes[2048];
};

static int visit(void *ctx, const struct tree_recording *recording, struct err *err) {
    struct seen *s = ctx;
    size_t used = strlen(s->paths);
    (void)err;
    str_format(s->paths + used, sizeof s->paths - used, "%s%s%s", used ? " " : "", recording->path, recording->absent ? "?" : "");
    return 0;
}

static void note(void *ctx, const char *text) {
    struct seen *s = ctx;
    size_t used = strlen(s->notes);
    str_format(s->notes + used, sizeof s->notes - used, "%s\n", text);
}

static int walk(const char *root, enum labels_patient_rule rule, struct seen *s, struct err *err) {
    *s = (struct seen){0};
    const struct tree_config config = {.root = root, .patient = rule, .note = note, .ctx = s};
    return tree_walk(&config, visit, err);
}

static void put(const char *path, const char *bytes, size_t len) {
    assert_int_equal(fsio_mkdirs_above(path, NULL), 0);
    assert_int_equal(fsio_write_atomic(path, bytes, len, NULL), 0);
}

static void put_link(const char *target, const char *path) {
    assert_int_equal(fsio_mkdirs_above(path, NULL), 0);
    assert_int_equal(symlink(target, path), 0);
}

static void a_tree_of_git_annex_has_each_recording_once(void **state) {
    assert_int_equal(chdir(*state), 0);
    struct seen s;
    struct err err = {0};
    put("d/.git/annex/objects/aa/K1.edf/K1.edf", "one", 3);
    put("d/.snapshot/sub-01_eeg.edf", "old", 3);
    put("d/derivatives/clean/sub-01_eeg.edf", "made", 4);
    put_link("../../.git/annex/objects/aa/K1.edf/K1.edf", "d/sub-01/eeg/sub-01_eeg.edf");
    put_link("../../.git/annex/objects/bb/K2.edf/K2.edf", "d/sub-02/eeg/sub-02_eeg.edf");
    put("d/sub-03/sub-03_eeg.edf", "/annex/objects/SHA256E-s5--abc.edf\n", 35);
    put("d/sub-04/sub-04_eeg.bdf", "version https://git-lfs.github.com/spec/v1\n", 43);
    put("d/sub-05/._sub-05_eeg.edf", "\0\x05\x16\x07 attributes", 15);
    put("d/sub-05/._real.edf", "0       X", 9);
    put_link(".", "d/loop");
    assert_int_equal(walk("d", LABELS_PATIENT_AUTO, &s, &err), 0);
    assert_string_equal(s.paths,
                        "sub-01/eeg/sub-01_eeg.edf sub-02/eeg/sub-02_eeg.edf? sub-03/sub-03_eeg.edf? sub-04/sub-04_eeg.bdf? "
                        "sub-05/._real.edf");
    assert_non_null(strstr(s.notes, "loop is a link to a folder, which is not followed"));
    assert_non_null(strstr(s.notes, "1 recording below derivatives/ left out"));
    assert_int_equal(tree_absent("sub-02_eeg.edf", &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "sub-02_eeg.edf: its content is not here; fetch it (datalad get"));
    assert_int_equal(walk("d/.snapshot", LABELS_PATIENT_AUTO, &s, &err), 0); /* named itself */
    assert_string_equal(s.paths, "sub-01_eeg.edf");
}

static void names_of_one_file_are_one_recording(void **state) {
    assert_int_equal(chdir(*state), 0);
    struct seen s;
    struct err err = {0};
    put("d/pool/0001.edf", "one", 3);
    put_link("../pool/0001.edf", "d/sub-01/sub-01_eeg.edf"); /* the name that says whose it is */
    put_link("sub-01_eeg.edf", "d/sub-01/sub-01_again_eeg.edf");
    put("d/a.edf", "two", 3);
    assert_int_equal(link("d/a.edf", "d/b.edf"), 0);
    put_link("a.edf", "d/Z.edf");
    assert_int_equal(walk("d", LABELS_PATIENT_AUTO, &s, &err), 0);
    assert_string_equal(s.paths, "a.edf sub-01/sub-01_again_eeg.edf");
    assert_non_null(strstr(s.notes, "a.edf and b.edf are one file"));
    assert_non_null(strstr(s.notes, "a.edf and Z.edf are one file"));
}

static void one_file_of_two_patients_is_an_error(void **state) {
    assert_int_equal(chdir(*state), 0);
    struct seen s;
    struct err err = {0};
    put("d/sub-01/sub-01_eeg.edf", "one", 3);
    put("d/sub-02/sub-02_eeg.edf", "two", 3);
    assert_int_equal(walk("d", LABELS_PATIENT_AUTO, &s, &err), 0);
    assert_int_equal(link("d/sub-01/sub-01_eeg.edf", "d/sub-02/sub-02_run-02_eeg.edf"), 0);
    assert_int_equal(walk("d", LABELS_PATIENT_AUTO, &s, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "sub-01/sub-01_eeg.edf and sub-02/sub-02_run-02_eeg.edf are one file under two patients"));
    assert_int_equal(unlink("d/sub-02/sub-02_run-02_eeg.edf"), 0);
    put_link("../sub-01/sub-01_eeg.edf", "d/sub-02/x.edf");
    assert_int_equal(walk("d", LABELS_PATIENT_FOLDER, &s, &err), ERR_INVALID);
    assert_int_equal(walk("d", LABELS_PATIENT_AUTO, &s, &err), ERR_INVALID);
    const struct tree_config all = {.root = "d", .all_names = true, .ctx = &s};
    s = (struct seen){0};
    assert_int_equal(tree_walk(&all, visit, &err), 0);
    assert_string_equal(s.paths, "sub-01/sub-01_eeg.edf sub-02/sub-02_eeg.edf sub-02/x.edf");
}

static void headers_on_one_file_of_samples_are_one_among_objects_too(void **state) {
    static const char header[] =
        "Brain Vision Data Exchange Header File Version 1.0\n[Common Infos]\nDataFile=a.eeg\nDataFormat=BINARY\n"
        "DataOrientation=MULTIPLEXED\nNumberOfChannels=1\nSamplingInterval=3906.25\n[Binary Infos]\nBinaryFormat=INT_16\n"
        "[Channel Infos]\nCh1=Fp1,,0.1,uV\n";
    assert_int_equal(chdir(*state), 0);
    struct seen s;
    struct err err = {0};
    put("d/a.vhdr", header, sizeof header - 1);
    put("d/b.vhdr", header, sizeof header - 1);
    put("d/x.edf", "one", 3);
    assert_int_equal(link("d/x.edf", "d/y.edf"), 0);
    for (int here = 0; here < 2; here++) { /* the samples of a mirror may come later */
        for (int one_header = 0; one_header < 2; one_header++) {
            s = (struct seen){0};
            const struct tree_config objects = {.root = "d", .all_names = true, .one_header = one_header, .ctx = &s};
            assert_int_equal(tree_walk(&objects, visit, &err), 0);
            assert_string_equal(s.paths, one_header ? "a.vhdr x.edf y.edf" : "a.vhdr b.vhdr x.edf y.edf");
        }
        put("d/a.eeg", "sample", 6);
    }
}

static void a_recording_of_two_formats_is_one(void **state) {
    assert_int_equal(chdir(*state), 0);
    struct seen s;
    struct err err = {0};
    put("d/a.vhdr", "Brain Vision Data Exchange Header File", 38);
    put("d/a.edf", "one", 3);
    put("d/a.x.edf", "two", 3);
    put("d/b.bdf", "three", 5);
    put("d/b.edf", "four", 4);
    put("d/c.set", "five", 4);
    put("d/c.vhdr", "six", 3);
    for (int all_names = 0; all_names < 2; all_names++) {
        s = (struct seen){0};
        const struct tree_config config = {.root = "d", .all_names = all_names, .note = note, .ctx = &s};
        assert_int_equal(tree_walk(&config, visit, &err), 0);
        assert_string_equal(s.paths, "a.edf a.x.edf b.bdf b.edf c.set");
        assert_string_equal(s.notes, "a.vhdr is left out: a.edf is the same recording in another format\n"
                                     "c.vhdr is left out: c.set is the same recording in another format\n");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(a_tree_of_git_annex_has_each_recording_once),
        in_temp_dir(names_of_one_file_are_one_recording),
        in_temp_dir(headers_on_one_file_of_samples_are_one_among_objects_too),
        in_temp_dir(a_recording_of_two_formats_is_one),
        in_temp_dir(one_file_of_two_patients_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
