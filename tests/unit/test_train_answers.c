/* train_answers: points of a curve count the first of the readers' answers, in an order that is drawn once; the rest is unknown. */
#include "base/base.h"
#include "train/train_answers.h"

#include "corpus_case.h"

#define HEAD "onset\tduration\teventType\tconfidence\tchannels\tdateTime\trecordingDuration\treader\n"
#define ROW  "\tn/a\tn/a\tn/a\t60\t"
/* Entry 0: a seizure, four spans of background, and a label that nobody has answered; entry 1: two answers; entry 2: none. */
static const char *const labels[] = {
    HEAD "20.5\t10\tsz" ROW "Ana\n35\t5\tbckg" ROW "Ana\n40\t5.001\tbckg" ROW "Ana\n45.001\t5\tbckg" ROW "Bo\n"
         "50.001\t100\tbckg" ROW "Bo\n2\t3\tsz" ROW "n/a\n",
    HEAD "20.5\t10\tsz_foc" ROW "Ana\n50\t5\tunknown" ROW "Bo\n",
};
enum { ANSWERS = 7 };

static uint8_t role[] = {PATIENT_TRAINING, PATIENT_TRAINING, PATIENT_TRAINING, PATIENT_VALIDATION, PATIENT_VALIDATION};

static int set_up_answers(void **state) {
    set_up(state);
    corpus_file(root, "sub-01/sub-01_run-01_eeg.edf", 60, labels[0]);
    corpus_file(root, "sub-02/sub-02_run-01_eeg.edf", 60, labels[1]);
    return 0;
}

static struct train_answers answers_of(const struct manifest *m, uint64_t seed) {
    struct train_answers a;
    assert_int_equal(train_answers_read(m, role, root, seed, &a, NULL), 0);
    return a;
}

static bool same_order(const struct train_answers *a, const struct train_answers *b) {
    for (int64_t i = 0; i < a->n; i++)
        if (a->items[i].entry != b->items[i].entry || a->items[i].span.first != b->items[i].span.first)
            return false;
    return a->n == b->n;
}

static void the_order_is_drawn_with_seizures_spread(void **state) {
    (void)state;
    struct manifest *m = open_corpus(NULL);
    struct train_answers a = answers_of(m, 1), again = answers_of(m, 1);
    bool other = false;
    assert_int_equal(a.n, ANSWERS); /* not the label without a reader */
    assert_true(same_order(&a, &again));
    train_answers_done(&again);
    for (uint64_t seed = 2; seed < 10; seed++) {
        struct train_answers drawn = answers_of(m, seed);
        other |= !same_order(&a, &drawn);
        train_answers_done(&drawn);
    }
    assert_true(other);
    assert_true(a.items[0].seizure); /* of seven answers two are seizures: at 0 and 1/2 of the order, between 0.4 and 0.6 */
    for (int64_t i = 1; i < a.n; i++)
        assert_int_equal(a.items[i].seizure, i == 3);
    role[0] = PATIENT_VALIDATION; /* its answers are not learned from */
    train_answers_done(&a);
    a = answers_of(m, 1);
    assert_int_equal(a.n, 2);
    role[0] = PATIENT_TRAINING;
    train_answers_done(&a);
    manifest_close(m);
}

/* Samples of this entry that are seizure, and that are unknown. */
static void count(const struct manifest *m, int64_t entry, int64_t *ret_seizure, int64_t *ret_unknown) {
    struct recording_info info;
    recording_info(manifest_entry(m, entry)->recording, &info);
    *ret_seizure = window_overlap(info.seizures, info.n_seizures, 0, info.samples);
    *ret_unknown = window_overlap(info.unknown, info.n_unknown, 0, info.samples);
    assert_int_equal(window_overlap(info.masked, info.n_masked, 0, info.samples), *ret_unknown);
}

static void a_point_hides_what_it_does_not_count(void **state) {
    (void)state;
    for (int64_t counted = 0; counted <= ANSWERS; counted++) {
        struct manifest *m = open_corpus(NULL);
        struct train_answers a = answers_of(m, 1);
        int64_t hidden[2] = {0}, seizures[2] = {0}, windows = 0, of[2] = {0}, seizure, unknown;
        for (int64_t i = 0; i < a.n; i++) {
            const struct train_answer *x = &a.items[i];
            const int64_t end = x->span.end < 60 * 256 ? x->span.end : 60 * 256;
            of[x->entry] += i < counted;
            if (i >= counted && (x->seizure || x->entry == 0)) /* the answer of entry 1 that is none says unknown anyway */
                hidden[x->entry] += end - x->span.first;
            seizures[x->entry] += i < counted && x->seizure ? end - x->span.first : 0;
        }
        assert_int_equal(train_answers_hide(&a, counted, m, NULL), 0);
        for (int64_t e = 0; e < 2; e++) {
            count(m, e, &seizure, &unknown);
            for (int k = 0; k < 3; k++)
                windows += manifest_entry(m, e)->windows[k];
            if (!of[e]) { /* nobody has looked at it yet */
                assert_int_equal(unknown, 60 * 256);
                assert_int_equal(seizure, 0);
                continue;
            }
            assert_int_equal(seizure, seizures[e] + (e ? 0 : 3 * 256)); /* the label that nobody has answered stays */
            const int64_t expected = hidden[e] + (e ? 5 * 256 : 0);
            assert_true(unknown <= expected && unknown >= expected - 3); /* neighbours share a sample */
        }
        assert_true(counted ? windows > 0 : windows == 0);
        if (counted == ANSWERS)
            assert_int_equal(manifest_entry(m, 0)->windows[WINDOW_FULL], 8 + 2);
        train_answers_done(&a);
        manifest_close(m);
    }
}

/* The samples are read as before, and their labels without the seizure. */
static void what_is_hidden_has_no_label(void **state) {
    (void)state;
    static float x[CORPUS_WINDOW * 19];
    static uint8_t is[CORPUS_WINDOW];
    struct manifest *m = open_corpus(NULL);
    struct recording_info info;
    struct err err = {0};
    int64_t valid = 0;
    const struct window_span inside[] = {{22 * 256, 23 * 256}, {30 * 256, 33 * 256}};
    struct recording *rec = manifest_entry(m, 0)->recording;
    assert_int_equal(manifest_hide(m, 0, inside, 2, NULL), 0);
    recording_info(rec, &info);
    assert_int_equal(info.n_seizures, 3); /* 2 to 5, 20.5 to 22 and 23 to 30 s */
    assert_int_equal(info.seizures[1].end, 22 * 256);
    assert_int_equal(info.seizures[2].first, 23 * 256);
    assert_int_equal(info.seizures[2].end, 30 * 256);
    if (window_read(rec, 21 * 256 + 128, CORPUS_WINDOW, x, is, &valid, &err))
        fail_msg("%s (%s)", err.message, err.cause);
    assert_int_equal(valid, CORPUS_WINDOW);
    for (int i = 0; i < CORPUS_WINDOW; i++)
        assert_int_equal(is[i], i < 128 || i >= 384 ? 1 : WINDOW_LABEL_MASKED);
    manifest_close(m);
}

static void a_curve_needs_answers_and_recordings_to_score(void **state) {
    (void)state;
    struct train_config job = {.training.answers_curve = 3};
    uint8_t without[] = {PATIENT_UNUSED, PATIENT_UNUSED, PATIENT_TRAINING, PATIENT_TRAINING, PATIENT_VALIDATION};
    struct manifest *m = open_corpus(NULL);
    struct err err = {0};
    assert_int_equal(train_answers_check(&job, m, role, root, &err), 0);
    assert_int_equal(train_answers_check(&job, m, without, root, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "brrctl review"));
    without[4] = PATIENT_TRAINING;
    assert_int_equal(train_answers_check(&job, m, without, root, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "data.validation_fraction"));
    job.training.answers_curve = 0;
    assert_int_equal(train_answers_check(&job, m, without, root, &err), 0);
    manifest_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_is_drawn_with_seizures_spread),
        cmocka_unit_test(a_point_hides_what_it_does_not_count),
        cmocka_unit_test(what_is_hidden_has_no_label),
        cmocka_unit_test(a_curve_needs_answers_and_recordings_to_score),
    };
    return cmocka_run_group_tests(tests, set_up_answers, tear_down);
}
