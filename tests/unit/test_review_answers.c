/* Answers of readers as label files: what a second answer does to the first, what stands in the file where nobody has answered,
 * what training reads in it, whose files are replaced; and their way into a folder: moved ends, two readers, interrupted saves. */
#include <signal.h>
#include <sys/resource.h>

#include "eeg/correction.h"
#include "store/outputs.h"
#include "unit/cmocka_all.h"
#include "unit/edf_writer.h"
#include "unit/temp_dir.h"

static const struct events_header header = {.start_text = "2020-02-01 23:30:00", .recording_s = 600};
static struct answers list;
static struct err err;
static char path[512], recording[512];

static int make(void **state) {
    list = (struct answers){0};
    return temp_dir_make(state) || !str_format(path, sizeof path, "%s/night_events.tsv", (char *)*state) ||
           !str_format(recording, sizeof recording, "%s/night.edf", (char *)*state);
}
static int clear(void **state) {
    answers_done(&list);
    return temp_dir_remove(state);
}

static struct answer answer(double onset_s, double end_s, const char *type) {
    struct answer a = {.onset_s = onset_s, .end_s = end_s, .confidence = NAN, .reader = "Ana B"};
    str_copy(a.type, sizeof a.type, type);
    return a;
}

static void put(double onset_s, double end_s, const char *type) {
    const struct answer a = answer(onset_s, end_s, type);
    if (answers_put(&list, &a, 600, &err))
        fail_msg("%s", err.message);
}

static void is(const char *expected) {
    char text[512] = "";
    for (size_t i = 0; i < list.n; i++)
        str_format(text + strlen(text), sizeof text - strlen(text), "%s%g-%g %s", i ? ", " : "", list.items[i].onset_s,
                   list.items[i].end_s, list.items[i].type);
    assert_string_equal(text, expected);
}

static void write_file(const struct labels *labels) {
    const struct answers_file file = {.path = path, .header = &header, .labels = labels};
    if (answers_write(&list, &file, &err))
        fail_msg("%s", err.message);
}

/* The labels that training reads in the file. */
static void labelled(const char *expected) {
    struct labels labels;
    char text[512] = "";
    assert_int_equal(labels_load(recording, "auto", NULL, &labels, &err), 0);
    assert_int_equal(labels.source, LABELS_BIDS_TSV);
    for (size_t i = 0; i < labels.n_runs + labels.n_unknown; i++) {
        const struct label_run *run = i < labels.n_runs ? &labels.runs[i] : &labels.unknown[i - labels.n_runs];
        str_format(text + strlen(text), sizeof text - strlen(text), "%s%g-%g %s", i ? ", " : "", run->onset_s, run->end_s,
                   i < labels.n_runs ? run->code : "?");
    }
    labels_done(&labels);
    assert_string_equal(text, expected);
}

static void a_later_answer_replaces_an_earlier_one(void **state) {
    (void)state;
    put(100, 130, "bckg");
    put(300, 330, "sz");
    put(110, 120, "sz_foc_ia_nm");
    is("100-110 bckg, 110-120 sz_foc_ia_nm, 120-130 bckg, 300-330 sz");
    put(105, 115, "sz"); /* moved: nothing of the seizure before is left */
    is("100-105 bckg, 105-115 sz, 120-130 bckg, 300-330 sz");
    put(310, 320, "unknown");
    is("100-105 bckg, 105-115 sz, 120-130 bckg, 310-320 unknown");
    assert_string_equal(answers_find(&list, 100, 121)->type, "sz");
    assert_string_equal(answers_find(&list, 100, 105)->type, "bckg");
    assert_null(answers_find(&list, 130, 310));
}

static void an_answer_that_cannot_be_is_refused(void **state) {
    (void)state;
    const struct {
        double onset_s, end_s, confidence;
        const char *type, *reader, *comment, *what;
    } cases[] = {{-1, 5, NAN, "sz", "A", "", "no span"},
                 {5, 5, NAN, "sz", "A", "", "no span"},
                 {590, 601, NAN, "sz", "A", "", "no span"},
                 {NAN, 5, NAN, "sz", "A", "", "no span"},
                 {1, 5, 1.5, "sz", "A", "", "between 0 and 1"},
                 {1, 5, NAN, "sz_foc_ix", "A", "", "no type of events"},
                 {1, 5, NAN, "", "A", "", "no type of events"},
                 {1, 5, NAN, "sz", "", "", "name of its reader"},
                 {1, 5, NAN, "sz", "n/a", "", "name of its reader"},
                 {1, 5, NAN, "sz", "A", "a\tb", "control characters"},
                 {1, 5, NAN, "sz", "\xe4", "", "UTF-8"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a = answer(cases[i].onset_s, cases[i].end_s, cases[i].type);
        a.confidence = cases[i].confidence;
        str_copy(a.reader, sizeof a.reader, cases[i].reader);
        str_copy(a.comment, sizeof a.comment, cases[i].comment);
        assert_int_equal(answers_put(&list, &a, 600, &err), ERR_INVALID);
        if (!strstr(err.message, cases[i].what))
            fail_msg("'%s' does not say '%s'", err.message, cases[i].what);
    }
    is("");
}

static void time_that_nobody_judged_is_masked_without_labels(void **state) {
    (void)state;
    put(100, 130, "sz");
    put(200, 210.5, "bckg");
    write_file(NULL);
    labelled("100-130 sz, 0-100 ?, 130-200 ?, 210.5-600 ?");
    assert_int_equal(answers_complete(&list, "Ana B", 600, NULL, &err), 0);
    write_file(NULL);
    labelled("100-130 sz");
}

static void labels_of_the_recording_stay_where_nobody_judged(void **state) {
    (void)state;
    struct label_run runs[2] = {{.onset_s = 100, .end_s = 160, .confidence = NAN, .code = "cpsz"},
                                {.onset_s = 400, .end_s = 420, .confidence = NAN}};
    struct label_run unknown = {.onset_s = 500, .end_s = 510, .confidence = NAN};
    const struct labels labels = {.runs = runs, .n_runs = 2, .unknown = &unknown, .n_unknown = 1};
    put(95, 140, "sz");
    write_file(&labels);
    labelled("95-140 sz, 400-420 sz, 500-510 ?"); /* the end was moved */
    assert_int_equal(answers_complete(&list, "Ana B", 600, &labels, &err), 0);
    is("0-95 bckg, 95-140 sz, 140-400 bckg, 420-500 bckg, 510-600 bckg");
}

static void what_was_written_is_read_again(void **state) {
    (void)state;
    struct answer a = answer(100.25, 130.5, "sz_gen_m_tonicClonic");
    a.confidence = 0.9;
    str_copy(a.comment, sizeof a.comment, "\"chewing\" at first");
    assert_int_equal(answers_put(&list, &a, 600, &err), 0);
    put(10, 20, "bckg");
    write_file(NULL);
    answers_done(&list);
    assert_int_equal(answers_read(path, &list, &err), 0);
    is("10-20 bckg, 100.25-130.5 sz_gen_m_tonicClonic");
    assert_true(fabs(list.items[1].confidence - 0.9) < 1e-9 && isnan(list.items[0].confidence));
    assert_string_equal(list.items[1].reader, "Ana B");
    assert_string_equal(list.items[1].comment, "\"chewing\" at first");
    assert_string_equal(list.items[0].comment, "");
}

static void files_of_others_are_not_replaced(void **state) {
    (void)state;
    const char theirs[] = "onset\tduration\teventType\n1\t2\tsz\n";
    assert_int_equal(fsio_write_atomic(path, theirs, sizeof theirs - 1, &err), 0);
    put(100, 130, "sz");
    struct answers_file file = {.path = path, .header = &header};
    assert_int_equal(answers_write(&list, &file, &err), ERR_EXISTS);
    labelled("1-3 sz");
    file.force = true;
    assert_int_equal(answers_write(&list, &file, &err), 0);
    file.force = false;
    assert_int_equal(answers_write(&list, &file, &err), 0); /* its own */
    labelled("100-130 sz, 0-100 ?, 130-600 ?");
}

/* ---- corrections ---- */

/* night.edf of 600 s, and the place of its answers below the folder "answers". */
static struct correction_place place_of(void **state) {
    static char folder[512], eeg[512];
    const struct written_signal signal = {.label = "EEG Cz-REF", .samples = 2};
    const struct written_file file = {.n_signals = 1, .n_records = 600, .signals = &signal};
    struct str edf;
    str_init(&edf, 1 << 20);
    edf_write(&file, false, &edf);
    put_file(recording, edf.data, edf.len);
    str_done(&edf);
    str_copy(folder, sizeof folder, in_dir(state, "answers"));
    str_format(path, sizeof path, "%s/ward/night_events.tsv", folder);
    str_copy(eeg, sizeof eeg, recording);
    return (struct correction_place){.eeg = eeg, .folder = folder, .relative = "ward/night.edf"};
}

static bool replaces; /* corrections are saved in place of those that they overlap */

/* Saves a correction of the event from 100 to 160 s, and takes the answers; returns the code. */
static int correct(const struct correction_place *place, enum correction_verb verb, double onset_s, double end_s, const char *seen,
                   correction_revision ret_revision) {
    struct correction c = {
        .verb = verb, .answer = answer(onset_s, end_s, ""), .has_event = verb != CORRECTION_ADD, .replace = replaces};
    struct answers now;
    c.event_onset_s = 100;
    c.event_end_s = 160;
    const int rc = correction_save(place, &c, seen, &now, ret_revision, &err);
    if (!rc) {
        answers_done(&list);
        list = now;
    }
    return rc;
}

static void corrections_are_saved_beside_a_link(void **state) {
    const struct correction_place place = place_of(state);
    correction_revision revision;
    struct stat a, b;
    assert_int_equal(correct(&place, CORRECTION_ACCEPT, 95, 140, "", revision), 0);
    is("95-140 sz, 140-160 bckg"); /* the end was moved */
    str_copy(recording, sizeof recording, in_dir(state, "answers/ward/night.edf"));
    labelled("95-140 sz, 0-95 ?, 160-600 ?");
    assert_int_equal(stat(place.eeg, &a) || stat(recording, &b), 0);
    assert_int_equal(a.st_ino, b.st_ino);
    assert_int_equal(correct(&place, CORRECTION_ADD, 300, 310, revision, revision), 0);
    assert_int_equal(correct(&place, CORRECTION_WITHDRAW, 95, 140, revision, revision), 0);
    is("140-160 bckg, 300-310 sz");
    assert_int_equal(correct(&place, CORRECTION_WITHDRAW, 95, 140, revision, revision), ERR_NOT_FOUND);
    assert_int_equal(correct(&place, CORRECTION_DONE, 0, 600, revision, revision), 0);
    labelled("300-310 sz");
}

/* Background gives way; an answer of a seizure or of unsure time only to who says so. */
static void an_overlapped_answer_is_named_and_kept(void **state) {
    const struct correction_place place = place_of(state);
    correction_revision revision;
    assert_int_equal(correct(&place, CORRECTION_REJECT, 100, 160, NULL, revision), 0);
    assert_int_equal(correct(&place, CORRECTION_ADD, 300, 310, NULL, revision), 0);
    assert_int_equal(correct(&place, CORRECTION_ACCEPT, 110, 150, NULL, revision), 0);
    is("100-110 bckg, 110-150 sz, 150-160 bckg, 300-310 sz");
    for (int verb = CORRECTION_ACCEPT; verb <= CORRECTION_ADD; verb++) {
        assert_int_equal(correct(&place, (enum correction_verb)verb, 149, 305, NULL, revision), ERR_EXISTS);
        assert_non_null(strstr(err.message, "110.00 to 150.00 s has the answer sz by Ana B already"));
    }
    assert_int_equal(correct(&place, CORRECTION_ACCEPT, 170, 180, NULL, revision), ERR_EXISTS); /* the event that it leaves */
    assert_int_equal(answers_read(path, &list, &err), 0);
    is("100-110 bckg, 110-150 sz, 150-160 bckg, 300-310 sz");
    replaces = true;
    assert_int_equal(correct(&place, CORRECTION_UNSURE, 149, 305, NULL, revision), 0);
    replaces = false;
    is("100-110 bckg, 149-305 unknown");
}

/* The folder keeps the old file of a recording that was replaced; answers about the new one do not come beside it. */
static void answers_do_not_come_beside_another_recording(void **state) {
    const struct correction_place place = place_of(state);
    correction_revision revision;
    char *eeg;
    size_t n;
    assert_int_equal(correct(&place, CORRECTION_REJECT, 100, 160, NULL, revision), 0);
    assert_int_equal(fsio_read(place.eeg, 1 << 20, &eeg, &n, &err), 0);
    assert_int_equal(fsio_write_atomic(place.eeg, eeg, n, &err), 0); /* another file of the same bytes */
    assert_int_equal(correct(&place, CORRECTION_ADD, 300, 310, NULL, revision), 0);
    eeg[n - 1] ^= 1;
    assert_int_equal(fsio_write_atomic(place.eeg, eeg, n, &err), 0);
    free(eeg);
    assert_int_equal(correct(&place, CORRECTION_ADD, 400, 410, NULL, revision), ERR_EXISTS);
    assert_non_null(strstr(err.message, "answers/ward/night.edf is another file"));
    assert_int_equal(answers_read(path, &list, &err), 0);
    is("100-160 bckg, 300-310 sz");
}

static void of_two_readers_the_second_one_is_told(void **state) {
    const struct correction_place place = place_of(state);
    correction_revision first, second;
    struct answers found;
    assert_int_equal(correction_read(&place, &found, first, &err), 0);
    assert_string_equal(first, "");
    assert_int_equal(correct(&place, CORRECTION_REJECT, 100, 160, first, second), 0);
    assert_int_equal(correct(&place, CORRECTION_UNSURE, 100, 160, first, first), ERR_ABORTED);
    assert_int_equal(correction_read(&place, &found, first, &err), 0);
    assert_string_equal(first, second);
    assert_int_equal(found.n, 1);
    assert_string_equal(found.items[0].type, "bckg");
    answers_done(&found);
}

/* Whichever file a killed process leaves, the old one or the new one, the next answer replaces it. */
static void an_interrupted_save_does_not_lock_the_file(void **state) {
    const struct correction_place place = place_of(state);
    correction_revision revision;
    char digest[DIGEST_HEX_SIZE];
    const char next[] = "onset\tduration\teventType\tconfidence\treader\n1.00\t2.00\tsz\tn/a\tAna B\n";
    for (int renamed = 0; renamed < 2; renamed++) {
        assert_int_equal(correct(&place, CORRECTION_REJECT, 100, 160, NULL, revision), 0);
        assert_true(digest_bytes(next, sizeof next - 1, digest));
        assert_int_equal(outputs_announce_copy(path, digest, &err), 0);
        if (renamed)
            put_file(path, next, sizeof next - 1);
        assert_int_equal(correct(&place, CORRECTION_ADD, 300, 310, NULL, revision), 0);
        is(renamed ? "1-3 sz, 300-310 sz" : "100-160 bckg, 300-310 sz");
    }
    put_file(path, "onset\tduration\teventType\tconfidence\n", 36); /* by hand */
    assert_int_equal(correct(&place, CORRECTION_ADD, 300, 310, NULL, revision), ERR_EXISTS);
}

static void a_full_volume_leaves_what_was_there(void **state) {
    const struct correction_place place = place_of(state);
    struct rlimit limit;
    correction_revision revision;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit full = {.rlim_cur = 20, .rlim_max = limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    for (int old = 0; old < 2; old++) {
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
        assert_int_not_equal(correct(&place, CORRECTION_REJECT, 100, 160, NULL, revision), 0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(fsio_exists(path), old);
        assert_int_equal(fsio_exists(in_dir(state, "answers/ward/night.edf")), old); /* no recording without labels */
        replaces = old;
        assert_int_equal(correct(&place, CORRECTION_ADD, 300, 310, NULL, revision), 0);
        replaces = false;
    }
    is("300-310 sz");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_later_answer_replaces_an_earlier_one, make, clear),
        cmocka_unit_test_setup_teardown(an_answer_that_cannot_be_is_refused, make, clear),
        cmocka_unit_test_setup_teardown(time_that_nobody_judged_is_masked_without_labels, make, clear),
        cmocka_unit_test_setup_teardown(labels_of_the_recording_stay_where_nobody_judged, make, clear),
        cmocka_unit_test_setup_teardown(what_was_written_is_read_again, make, clear),
        cmocka_unit_test_setup_teardown(files_of_others_are_not_replaced, make, clear),
        cmocka_unit_test_setup_teardown(corrections_are_saved_beside_a_link, make, clear),
        cmocka_unit_test_setup_teardown(an_overlapped_answer_is_named_and_kept, make, clear),
        cmocka_unit_test_setup_teardown(answers_do_not_come_beside_another_recording, make, clear),
        cmocka_unit_test_setup_teardown(of_two_readers_the_second_one_is_told, make, clear),
        cmocka_unit_test_setup_teardown(an_interrupted_save_does_not_lock_the_file, make, clear),
        cmocka_unit_test_setup_teardown(a_full_volume_leaves_what_was_there, make, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
