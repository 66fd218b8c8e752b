#include "eeg/frontend.h"
#include "eeg/montage.h"
#include "eeg/montage_partial.h"
#include "unit/cmocka_all.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const char *const order_19[] = {"Fp1", "F3",  "C3", "P3", "F7", "T3", "T5", "O1", "Fz", "Cz",
                                       "Pz",  "Fp2", "F4", "C4", "P4", "F8", "T4", "T6", "O2"};
static const char *const chbmit[] = {"FP1-F7", "F7-T7", "T7-P7", "P7-O1",  "FP1-F3",   "F3-C3",   "C3-P3", "P3-O1",
                                     "FP2-F4", "F4-C4", "C4-P4", "P4-O2",  "FP2-F8",   "F8-T8",   "T8-P8", "P8-O2",
                                     "FZ-CZ",  "CZ-PZ", "P7-T7", "T7-FT9", "FT9-FT10", "FT10-T8", "T8-P8"};

static void assert_clean(const char *label, const char *expected) {
    char text[MONTAGE_LABEL_SIZE];
    montage_clean(label, text);
    assert_string_equal(text, expected);
}

static void names_as_written_by_many_systems_clean_to_one_form(void **state) {
    (void)state;
    assert_clean("EEG FP1-REF", "Fp1");
    assert_clean("EEG Fp1-LE", "Fp1");
    assert_clean("EEG fz-Ref", "Fz");
    assert_clean("eeg  c3 - ar", "C3");
    assert_clean("Fp1-Avg", "Fp1");
    assert_clean("C3-CS2", "C3");
    assert_clean("Fc5.", "FC5");
    assert_clean("Cz..", "Cz");
    assert_clean("EEG T7", "T3");
    assert_clean("P8-Ref", "T6");
    assert_clean("T8-P8-0", "T4-T6");
    assert_clean("T8-P8-1", "T4-T6");
    static const char *const references[] = {"-REF",   "_REF", ":REF",  " Ref",  "/LE",      "-LER",  "-AR",
                                             "-Av",    " AVE", "-AVG",  "-CAR",  "-Average", "-A1A2", "-A1+A2",
                                             "_A1-A2", "-A12", "-M1M2", "(REF)", "-linked"};
    for (size_t i = 0; i < sizeof references / sizeof *references; i++) {
        char label[64];
        str_format(label, sizeof label, "EEG T7%s", references[i]);
        assert_clean(label, "T3");
    }
    assert_clean("T3/T7", "T3");
    assert_clean("T7/T3-REF", "T3");
    assert_clean("T3(T7)", "T3");
    assert_clean("EEG T6 (P8)-AVG", "T6");
    assert_clean("Fp1_F7", "Fp1-F7");
    assert_clean("C3-A2", "C3-A2");
    assert_clean("C3-Cz", "C3-Cz");
    assert_clean("F7-T3-REF", "F7-T3");
    assert_clean("T3/T5", "T3/T5");
    assert_clean("EEG_Fp2", "Fp2");
    assert_clean("CAR", "CAR");
    assert_clean("Fp1AVG", "Fp1");
    assert_clean("FP1-F7", "Fp1-F7");
    assert_clean("01", "O1");
    assert_clean("T5-02", "T5-O2");
    assert_clean("EEG EKG1-REF", "EKG1");
    assert_clean("Photic PH", "PHOTICPH");
    assert_clean("EEG", "EEG");
    assert_clean("-", "-");
    assert_clean("1", "1");
    assert_clean("", "");
}

static void electrodes_are_counted_once(void **state) {
    (void)state;
    const char *const labels[] = {"EEG Fp1-REF", "FP1-F7", "F7-T7", "T3", "DC1", "LA1", "A1"};
    assert_int_equal(montage_electrodes(labels, 7), 3);
    assert_int_equal(montage_electrodes(labels + 4, 3), 0);
}

static struct montage *make(const char *spec, const char *const *labels, int n) {
    struct montage *m = NULL;
    struct err err = {0};
    if (montage_new(spec, labels, n, &m, &err))
        fail_msg("%s", err.message);
    return m;
}

static void a_scrambled_file_maps_by_name_to_the_canonical_order(void **state) {
    (void)state;
    const char *labels[] = {"ECG",        "EEG O2-REF", "EEG T6-REF",  "EEG P8-REF",  "EEG T4-REF", "EEG F8-REF",
                            "EEG P4-REF", "EEG C4-REF", "EEG F4-REF",  "EEG FP2-REF", "EEG PZ-REF", "EEG CZ-REF",
                            "EEG FZ-REF", "EEG O1-REF", "EEG T5-REF",  "EEG T3-REF",  "EEG F7-REF", "EEG P3-REF",
                            "EEG C3-REF", "EEG F3-REF", "EEG FP1-REF", "A1"};
    struct montage *m = make("referential-19", labels, COUNT(labels));
    assert_int_equal(m->n_outputs, 19);
    assert_int_equal(m->n_sources, 19);
    assert_false(m->inverse);
    for (int o = 0; o < 19; o++) {
        assert_string_equal(m->names[o], order_19[o]);
        for (int s = 0; s < 19; s++) {
            char clean[MONTAGE_LABEL_SIZE];
            montage_clean(labels[m->sources[s]], clean);
            assert_true(m->matrix[o * 19 + s] == !strcmp(clean, order_19[o]));
        }
    }
    for (int s = 0; s < 19; s++)
        assert_int_not_equal(m->sources[s], 3); /* P8 is T6 again: the first one, at 2, is used */
    montage_free(m);
}

static void bipolar_outputs_are_exact_differences_of_a_referential_file(void **state) {
    (void)state;
    struct montage *m = make("bipolar-18", order_19, 19);
    assert_int_equal(m->n_outputs, 18);
    assert_string_equal(m->names[0], "Fp1-F7");
    assert_string_equal(m->names[17], "Cz-Pz");
    for (int o = 0; o < 18; o++) {
        int plus = 0, minus = 0;
        for (int s = 0; s < m->n_sources; s++) {
            double w = m->matrix[o * m->n_sources + s];
            plus += w == 1;
            minus += w == -1;
            assert_true(w == 1 || w == -1 || w == 0);
        }
        assert_int_equal(plus, 1);
        assert_int_equal(minus, 1);
    }
    assert_int_equal(m->n_loops, 0);
    montage_free(m);
}

static void a_reversed_derivation_is_used_with_its_sign(void **state) {
    (void)state;
    const char *labels[COUNT(chbmit)];
    memcpy(labels, chbmit, sizeof chbmit);
    labels[0] = "F7-FP1";
    struct montage *m = make("bipolar-18", labels, 18);
    assert_int_equal(m->n_sources, 18);
    assert_true(m->matrix[0] == -1);
    assert_int_equal(m->n_loops, 2);
    assert_true(m->loops[0].sign[0] == -1 && m->loops[0].sign[1] == 1 && m->loops[0].sign[4] == -1);
    montage_free(m);
}

static double potential(const char *electrode) {
    double v = 0;
    for (const char *c = electrode; *c; c++)
        v = v * 1.7 + *c;
    return fmod(v * 13.37, 101) - 50;
}

/* Feed a known potential field through the derivations and the inverse: what comes back is the field minus its mean within each
 * connected part, then minus the mean over the 19. */
static void check_inverse(const char *const *labels, int n_labels, bool one_part) {
    struct montage *m = make("referential-19", labels, n_labels);
    double field[19], mean = 0, got[19], left = 0, right = 0, middle = 0;
    assert_true(m->inverse);
    for (int e = 0; e < 19; e++)
        field[e] = potential(order_19[e]);
    for (int e = 0; e < 19; e++) {
        got[e] = 0;
        for (int s = 0; s < m->n_sources; s++) {
            char clean[MONTAGE_LABEL_SIZE], *dash;
            montage_clean(labels[m->sources[s]], clean);
            dash = strchr(clean, '-');
            assert_non_null(dash);
            *dash = 0;
            got[e] += m->matrix[e * m->n_sources + s] * (potential(clean) - potential(dash + 1));
        }
        mean += got[e];
    }
    assert_true(fabs(mean) < 1e-9); /* average reference */
    for (int e = 0; e < 19; e++) {
        if (e < 8)
            left += (got[e] - field[e]) / 8;
        else if (e < 11)
            middle += (got[e] - field[e]) / 3;
        else
            right += (got[e] - field[e]) / 8;
    }
    for (int e = 0; e < 19; e++)
        assert_true(fabs(got[e] - field[e] - (e < 8 ? left : e < 11 ? middle : right)) < 1e-9);
    if (one_part)
        assert_true(fabs(left - right) < 1e-9);
    montage_free(m);
}

static void the_inverse_of_a_bipolar_file_restores_each_connected_part(void **state) {
    (void)state;
    check_inverse(chbmit, 18, false);
    check_inverse(chbmit, COUNT(chbmit), true); /* T7-FT9-FT10-T8 joins left and right */
}

/* Moore-Penrose: D X D = D, X D X = X, both products symmetric. */
static void the_inverse_is_the_pseudo_inverse(void **state) {
    (void)state;
    enum { NODES = 7, EDGES = 7 };
    const int plus[EDGES] = {0, 1, 2, 0, 4, 4, 3}, minus[EDGES] = {1, 2, 0, 3, 5, 5, 1};
    double d[EDGES][NODES] = {{0}}, x[NODES * EDGES], dx[EDGES][EDGES] = {{0}}, xd[NODES][NODES] = {{0}};
    assert_int_equal(montage_invert(plus, minus, EDGES, NODES, x, NULL), 0);
    for (int e = 0; e < EDGES; e++) {
        d[e][plus[e]] += 1;
        d[e][minus[e]] -= 1;
    }
    for (int i = 0; i < EDGES; i++)
        for (int j = 0; j < EDGES; j++)
            for (int k = 0; k < NODES; k++)
                dx[i][j] += d[i][k] * x[k * EDGES + j];
    for (int i = 0; i < NODES; i++)
        for (int j = 0; j < NODES; j++)
            for (int k = 0; k < EDGES; k++)
                xd[i][j] += x[i * EDGES + k] * d[k][j];
    for (int i = 0; i < EDGES; i++)
        for (int j = 0; j < NODES; j++) {
            double sum = 0, back = 0;
            for (int k = 0; k < EDGES; k++)
                sum += dx[i][k] * d[k][j];
            for (int k = 0; k < NODES; k++)
                back += xd[j][k] * x[k * EDGES + i];
            assert_true(fabs(sum - d[i][j]) < 1e-12);
            assert_true(fabs(back - x[j * EDGES + i]) < 1e-12);
        }
    for (int i = 0; i < EDGES; i++)
        for (int j = 0; j < EDGES; j++)
            assert_true(fabs(dx[i][j] - dx[j][i]) < 1e-12 && fabs(xd[i][j] - xd[j][i]) < 1e-12);
}

static void splines_keep_constants_and_follow_smooth_fields(void **state) {
    (void)state;
    const char *known[17];
    double w[17], sum = 0;
    int n = 0;
    for (int e = 0; e < 19; e++)
        if (strcmp(order_19[e], "Fz") && strcmp(order_19[e], "Pz"))
            known[n++] = order_19[e];
    assert_int_equal(montage_spline("Fz", known, n, w, NULL), 0);
    /* By numpy from the same formula: linear solve of the 18 × 18 system. */
    static const struct {
        const char *name;
        double weight;
    } expected[] = {{"F3", 0.700410},  {"F4", 0.700410},  {"Cz", 0.370036}, {"C3", -0.253963}, {"C4", -0.253963},
                    {"F8", -0.331721}, {"Fp1", 0.075388}, {"T4", 0.141301}, {"O2", 0.002317}};
    for (int k = 0; k < n; k++) {
        sum += w[k];
        for (int i = 0; i < COUNT(expected); i++)
            if (!strcmp(known[k], expected[i].name))
                assert_true(fabs(w[k] - expected[i].weight) < 1e-6);
    }
    assert_true(fabs(sum - 1) < 1e-9);
    /* A point that is known is returned as it is. */
    assert_int_equal(montage_spline("F3", known, n, w, NULL), 0);
    for (int k = 0; k < n; k++)
        assert_true(fabs(w[k] - !strcmp(known[k], "F3")) < 1e-6);
    assert_int_equal(montage_spline("X7", known, n, w, NULL), ERR_INVALID);
}

static void missing_fz_and_pz_are_interpolated_and_said(void **state) {
    (void)state;
    const char *labels[17];
    int n = 0;
    for (int e = 0; e < 19; e++)
        if (strcmp(order_19[e], "Fz") && strcmp(order_19[e], "Pz"))
            labels[n++] = order_19[e];
    struct montage *m = make("referential-19", labels, n);
    assert_int_equal(m->interpolated, 2);
    assert_string_equal(m->note, "Fz interpolated, Pz interpolated");
    montage_free(m);
    m = make("bipolar-18", labels, n);
    assert_int_equal(m->interpolated, 2);
    montage_free(m);
}

static void anything_else_missing_is_an_error_that_names_it(void **state) {
    (void)state;
    const char *labels[18];
    struct montage *m = NULL;
    struct err err = {0};
    for (int e = 0, n = 0; e < 19; e++)
        if (strcmp(order_19[e], "C4"))
            labels[n++] = order_19[e];
    assert_int_equal(montage_new("referential-19", labels, 18, &m, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "missing C4"));
    assert_non_null(strstr(err.message, "Fp1, F3"));
    assert_null(strstr(err.message, "missing C4 "));
    assert_int_equal(montage_new("bipolar-18", labels, 18, &m, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "F4-C4 C4-P4; labels present: Fp1, F3, "));
    assert_int_equal(montage_new("referential-19", chbmit, 15, &m, &err), ERR_PRECONDITION); /* P8-O2 and the midline missing */
    assert_non_null(strstr(err.message, "Cz"));
    assert_null(m);
}

static void custom_lists_mix_electrodes_pairs_and_plain_labels(void **state) {
    (void)state;
    const char *labels[] = {"EEG C3-REF", "EEG C4-REF", "T7-P7", "ECG ECG1"};
    struct montage *m = make("custom:C4,C3-C4,P7-T7,ECG ECG1", labels, COUNT(labels));
    assert_int_equal(m->n_outputs, 4);
    const double expected[4][4] = {{0, 1, 0, 0}, {1, -1, 0, 0}, {0, 0, -1, 0}, {0, 0, 0, 1}};
    for (int o = 0; o < 4; o++)
        for (int s = 0; s < 4; s++)
            assert_true(m->matrix[o * 4 + s] == expected[o][s]);
    montage_free(m);
    struct err err = {0};
    assert_int_equal(montage_new("custom:C3,,C4", labels, 4, &m, &err), ERR_INVALID);
    assert_int_equal(montage_new("custom:C3,EEG C3-LE", labels, 4, &m, &err), ERR_INVALID);
    assert_int_equal(montage_new("monopolar", labels, 4, &m, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "referential-19"));
}

static void channel_names_of_a_montage_can_be_listed(void **state) {
    (void)state;
    const char *const *names;
    int n = 0;
    assert_int_equal(montage_channels("referential-19", &names, &n, NULL), 0);
    assert_int_equal(n, 19);
    assert_string_equal(names[18], "O2");
    montage_channels_free(names);
    assert_int_equal(montage_channels("custom:Cz,EEG Pz-REF", &names, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_string_equal(names[1], "Pz");
    montage_channels_free(names);
    assert_int_equal(montage_channels("bipolar-18", NULL, &n, NULL), 0);
    assert_int_equal(n, 18);
    assert_int_equal(montage_channels("x", NULL, &n, NULL), ERR_INVALID);
}

static void assert_part(const char *const *labels, int n, int least, const char *expected) {
    char spec[MONTAGE_PARTIAL_SIZE];
    struct err err = {0};
    int rc = montage_partial(labels, n, least, spec, &err);
    if (rc)
        fail_msg("%s", err.message);
    assert_string_equal(spec, expected);
    struct montage *m = NULL;
    assert_int_equal(montage_new(spec, labels, n, &m, NULL), 0); /* it can be made of these labels */
    montage_free(m);
}

static void a_part_of_the_montage_skips_what_is_missing(void **state) {
    (void)state;
    static const char *const neonate[] = {"EEG O2-REF", "C3", "ECG", "T7", "Fp2", "O1", "C4", "T8", "Fp1", "C3"};
    static const char *const worn[] = {"F7-T3", "T3-F7", "Fp2-F8", "EMG-L"};
    static const char *const midline[] = {"Fz", "Cz", "Fp1", "O1"};
    char spec[MONTAGE_PARTIAL_SIZE];
    struct err err = {0};
    assert_part(neonate, COUNT(neonate), 8, "custom:Fp1-T3,T3-O1,Fp1-C3,C3-O1,Fp2-C4,C4-O2,Fp2-T4,T4-O2");
    assert_part(worn, COUNT(worn), 2, "custom:F7-T3,Fp2-F8");
    assert_part(midline, COUNT(midline), 4, "custom:Fp1-O1,Fz-Cz"); /* the chains of a side share their ends */
    assert_part(chbmit, 18, 18,
                "custom:Fp1-F7,F7-T3,T3-T5,T5-O1,Fp1-F3,F3-C3,C3-P3,P3-O1,Fp2-F4,F4-C4,C4-P4,P4-O2,Fp2-F8,F8-T4,"
                "T4-T6,T6-O2,Fz-Cz,Cz-Pz");
    assert_int_equal(montage_partial(neonate, COUNT(neonate), 9, spec, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "8 channels can be used, and at least 9"));
    assert_int_equal(montage_partial(worn + 3, 1, 1, spec, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "--rename"));
}

static void the_rest_of_a_montage_is_what_can_be_made(void **state) {
    (void)state;
    static const char *const central[] = {"EEG Fp1-REF", "F3", "C3", "P3", "O1", "EKG", "Fz", "Cz", "Pz"};
    struct montage_rest rest;
    struct err err = {0};
    assert_int_equal(montage_rest_of("bipolar-18", central, COUNT(central), 6, &rest, &err), 0);
    assert_string_equal(rest.spec, "custom:Fp1-F3,F3-C3,C3-P3,P3-O1,Fz-Cz,Cz-Pz");
    assert_int_equal(rest.channels, 6);
    assert_true(rest.absent == 0xff0f); /* channels 4 to 7, 16 and 17 are there */
    assert_int_equal(montage_rest_of("bipolar-18", chbmit, 18, 18, &rest, &err), 0);
    assert_true(rest.channels == 18 && !rest.absent);
    assert_int_equal(montage_rest_of("bipolar-18", central, COUNT(central), 7, &rest, &err), ERR_PRECONDITION);
    assert_non_null(
        strstr(err.message, "6 of the 18 channels of montage bipolar-18 can be made, and at least 7 are needed: Fp1-F3"));
    assert_int_equal(montage_rest_of("bipolar-18", central + 5, 1, 0, &rest, &err), ERR_PRECONDITION);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_as_written_by_many_systems_clean_to_one_form),
        cmocka_unit_test(electrodes_are_counted_once),
        cmocka_unit_test(a_part_of_the_montage_skips_what_is_missing),
        cmocka_unit_test(the_rest_of_a_montage_is_what_can_be_made),
        cmocka_unit_test(a_scrambled_file_maps_by_name_to_the_canonical_order),
        cmocka_unit_test(bipolar_outputs_are_exact_differences_of_a_referential_file),
        cmocka_unit_test(a_reversed_derivation_is_used_with_its_sign),
        cmocka_unit_test(the_inverse_of_a_bipolar_file_restores_each_connected_part),
        cmocka_unit_test(the_inverse_is_the_pseudo_inverse),
        cmocka_unit_test(splines_keep_constants_and_follow_smooth_fields),
        cmocka_unit_test(missing_fz_and_pz_are_interpolated_and_said),
        cmocka_unit_test(anything_else_missing_is_an_error_that_names_it),
        cmocka_unit_test(custom_lists_mix_electrodes_pairs_and_plain_labels),
        cmocka_unit_test(channel_names_of_a_montage_can_be_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
