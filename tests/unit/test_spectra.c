/* Tables of spectra: what is read, what is refused and with which words; the formula; classical rules against known scores. */

#include "geodesic/interpolate.h"
#include "geodesic/spectra.h"
#include "geodesic/spectrum_score.h"
#include "skip.h"
#include "unit/cmocka_all.h"
#include "unit/temp_dir.h"

static struct err err;
static char path[512];

static void ok(int rc) {
    if (rc)
        fail_msg("%s", err.message);
}

static const char *file_of(const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static void refused(const char *text, const char *what) {
    struct spectra s;
    assert_int_not_equal(spectra_read(file_of(text), &s, &err), 0);
    if (!strstr(err.message, what))
        fail_msg("'%s' does not say '%s'", err.message, what);
}

static void columns_and_rows_are_sorted(void **state) {
    (void)state;
    struct spectra s;
    ok(spectra_read(file_of("\xEF\xBB\xBFnm,20,0,10\r\n201,1,2,3\r\n\r\n200.5,4,5,6\r\n"), &s, &err));
    assert_int_equal(s.n, 3);
    assert_int_equal(s.width, 2);
    const double concentrations[] = {0, 10, 20}, wavelengths[] = {200.5, 201}, absorbance[] = {5, 2, 6, 3, 4, 1};
    assert_memory_equal(s.concentrations, concentrations, sizeof concentrations);
    assert_memory_equal(s.wavelengths, wavelengths, sizeof wavelengths);
    assert_memory_equal(s.absorbance, absorbance, sizeof absorbance);
    spectra_done(&s);
}

static void errors_name_line_and_column(void **state) {
    (void)state;
    refused("nm,0,10,20\n200,1,nan,3\n201,1,2,3\n", "spectra.csv:2: column '10' holds 'nan'");
    refused("nm,0,10,20\n200,1,2,3\n201,1,2,inf\n", "spectra.csv:3: column '20' holds 'inf'");
    refused("nm,0,10,20\n200,1,2,3\n201,1,,3\n", "spectra.csv:3: column '10' holds ''");
    refused("nm,0,10,20\n200,1,2,3\n201,1,2\n", "spectra.csv:3: 3 fields; expected 4");
    refused("nm,0,10,20\n200,1,2,3,4\n", "spectra.csv:2: more fields than the 4 columns");
    refused("nm,0,10,0\n200,1,2,3\n201,1,2,3\n", "2 different concentrations; expected at least 3");
    refused("nm,0,ten,20\n200,1,2,3\n", "column 3 is named 'ten'; expected a concentration");
    refused("nm,0\n200,1\n201,1\n", "spectra.csv:1: 1 concentration; expected at least 3");
    refused("200,0,10,20\n201,1,2,3\n", "expected a name such as Wavelength");
    refused("nm,0,10,20\n200,1,2,3\n201,1,2,3\n200,4,5,6\n", "spectra.csv:4: the wavelength 200 is also on line 2");
    refused("nm,0,10,20\n200,1,2,3\n", "1 rows of absorbances");
    refused("", "no header row");
}

static void a_hundred_thousand_wavelengths_are_read(void **state) {
    (void)state;
    enum { MANY = 100000 };
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("nm,0,10,20,30\n", f);
    for (int i = MANY; i > 0; i--)
        fprintf(f, "%.3f,%d,2,3,4\n", 200 + 0.01 * i, i);
    fclose(f);
    struct spectra s;
    ok(spectra_read(path, &s, &err));
    assert_int_equal(s.width, MANY);
    assert_true(s.absorbance[0] == 1 && s.absorbance[MANY - 1] == MANY);
    spectra_done(&s);
}

static void too_many_columns_or_wavelengths_are_refused(void **state) {
    (void)state;
    struct str text;
    str_init(&text, 1 << 20);
    str_puts(&text, "nm");
    for (int i = 0; i < 40; i++)
        str_printf(&text, ",%d", i);
    str_puts(&text, "\n");
    refused(str_cstr(&text), "40 concentrations; there may be at most 31");
    str_done(&text);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("nm,0,10,20\n", f);
    for (int i = 0; i <= SPECTRA_MAX_WAVELENGTHS; i++)
        fprintf(f, "%d,1,2,3\n", i);
    fclose(f);
    struct spectra s;
    assert_int_equal(spectra_read(path, &s, &err), ERR_RANGE);
}

static void the_formula_has_its_known_values(void **state) {
    (void)state;
    struct spectra s;
    ok(spectra_formula(&s, &err));
    double mean = 0, square = 0;
    for (int i = 0; i < s.n * s.width; i++) {
        mean += s.absorbance[i] / (double)(s.n * s.width);
        square += s.absorbance[i] * s.absorbance[i] / (double)(s.n * s.width);
    }
    assert_true(fabs(mean - .106072) < 5e-7);
    assert_true(fabs(sqrt(square - mean * mean) - .018551) < 5e-7);
    assert_true(fabs(s.absorbance[2 * 601 + 463] - .125683) < 5e-7);
    assert_true(fabs(s.absorbance[5 * 601] - .252405) < 5e-7);
    spectra_done(&s);
}

/* ---- rules, each concentration left out in turn ---------------------------------------------------------------- */

struct bar {
    enum interpolate_rule rule;
    double r2[6];
};

static struct spectrum_score left_out(const struct spectra *s, enum interpolate_rule rule, int held) {
    double x[5], *y = malloc((size_t)(5 * s->width) * sizeof *y), *found = malloc((size_t)s->width * sizeof *found);
    int n = 0;
    assert_true(y && found);
    for (int k = 0; k < s->n; k++)
        if (k != held) {
            x[n] = s->concentrations[k];
            memcpy(y + n++ * s->width, s->absorbance + k * s->width, (size_t)s->width * sizeof *y);
        }
    struct interpolate a = {rule, n, x, y, s->width, s->concentrations[held], 15, 0.1};
    ok(interpolate(&a, found, &err));
    struct spectrum_score score = spectrum_score(s->wavelengths, found, s->absorbance + held * s->width, s->width);
    free(y);
    free(found);
    return score;
}

static void meets(const struct spectra *s, const struct bar *bars, size_t n, double tolerance) {
    for (size_t i = 0; i < n; i++)
        for (int held = 0; held < 6; held++) {
            double r2 = left_out(s, bars[i].rule, held).r2;
            if (!(fabs(r2 - bars[i].r2[held]) <= tolerance))
                fail_msg("%s without spectrum %d: R2 %.5f, expected %.4f", interpolate_name(bars[i].rule), held, r2,
                         bars[i].r2[held]);
        }
}

static void rules_score_on_the_formula_what_they_are_known_to(void **state) {
    (void)state;
    static const struct bar bars[] = {
        {INTERPOLATE_LINEAR_CLAMPED, {.4675, .9910, .7540, .9974, .8969, .9844}},
        {INTERPOLATE_NOT_A_KNOT, {-2.2273, .8122, .9291, .9715, .8634, -15.5706}},
        {INTERPOLATE_NATURAL, {.9655, .9682, .9431, .9885, .9864, -.4694}},
        {INTERPOLATE_GP_RBF, {.7407, .9994, .8976, .9958, .9696, .9572}},
        {INTERPOLATE_GP_EVIDENCE, {.73369, .99835, .78057, .99913, .96548, .99818}}, /* by NumPy, with inverses and determinants */
    };
    struct spectra s;
    ok(spectra_formula(&s, &err));
    meets(&s, bars, sizeof bars / sizeof *bars, 1e-4);
    spectra_done(&s);
}

/* The measured spectra of an arsenic assay: BRR_SPECTRA_CSV, or beside the sources. */
static void rules_score_on_measured_spectra_what_they_are_known_to(void **state) {
    (void)state;
    static const struct bar bars[] = {
        {INTERPOLATE_NOT_A_KNOT, {-6.146, .649, .894, .928, .539, -34.129}},
        {INTERPOLATE_LINEAR_CLAMPED, {-.636, .772, .714, .997, .703, .798}},
        {INTERPOLATE_LINEAR, {-.033, .772, .714, .997, .703, -.683}},
        {INTERPOLATE_NATURAL, {-.033, .847, .902, .953, .931, -1.614}},
        {INTERPOLATE_PCHIP, {-.276, .819, .769, .995, .806, -.627}},
        {INTERPOLATE_NEAREST, {-.636, -.443, .589, .653, .531, .798}},
        {INTERPOLATE_MEAN, {-.312, .754, .180, .830, .696, .885}},
        {INTERPOLATE_GP_RBF, {-.078, .831, .866, .977, .905, .906}},
        {INTERPOLATE_GP_EVIDENCE, {-.1158, .8077, .7132, .9915, .8107, .8216}},
    };
    const char *named = getenv("BRR_SPECTRA_CSV");
    char beside[600];
    struct spectra s;
    str_format(beside, sizeof beside, "%s/../shared/data/0.30MB_AuNP_As.csv", BRR_SOURCE_DIR);
    const char *from = named ? named : beside;
    if (access(from, R_OK))
        skip_because(SKIP_DATA, "no measured spectra at %s (BRR_SPECTRA_CSV)", from);
    ok(spectra_read(from, &s, &err));
    meets(&s, bars, sizeof bars / sizeof *bars, 6e-4);
    struct spectrum_score cubic = left_out(&s, INTERPOLATE_NOT_A_KNOT, 5);
    assert_true(fabs(cubic.rmse - .138067) < 1e-6 && fabs(cubic.mape_percent - 100.75) < 0.01 && cubic.peak_error_nm == 459);
    spectra_done(&s);
}

/* With two and three points the splines are the line and the parabola through them. */
static void few_points_give_the_polynomial(void **state) {
    (void)state;
    const double x[] = {0, 1, 3}, y[] = {1, 2, 10}; /* 1 + x², but for the line */
    double found;
    for (int n = 2; n <= 3; n++) {
        struct interpolate a = {INTERPOLATE_NOT_A_KNOT, n, x, y, 1, 2, 15, 0.1};
        ok(interpolate(&a, &found, &err));
        assert_true(fabs(found - (n == 2 ? 3 : 5)) < 1e-12);
        for (int rule = 0; rule < INTERPOLATE_RULES; rule++) {
            a.rule = (enum interpolate_rule)rule;
            ok(interpolate(&a, &found, &err));
            assert_true(isfinite(found));
        }
    }
}

/* As spreadsheets save them: semicolons and decimal commas, units in the header, replicates, whose mean counts. */
static void tables_of_spreadsheets_are_read(void **state) {
    (void)state;
    struct spectra s;
    ok(spectra_read(file_of("Wavelength (nm);0 mM;10,5 mM;20mM;20 mM\r\n200;0,1;0,2;0,25;0,35\r\n201,5;1;2;3;4\r\n"), &s, &err));
    assert_true(s.n == 3 && s.width == 2 && s.concentrations[1] == 10.5 && s.concentrations[2] == 20);
    assert_true(s.wavelengths[1] == 201.5 && s.absorbance[2] == 0.2);
    assert_true(fabs(s.absorbance[4] - 0.3) < 1e-15 && s.absorbance[5] == 3.5);
    spectra_done(&s);
}

static int make(void **state) { return temp_dir_make(state) || !str_format(path, sizeof path, "%s/spectra.csv", (char *)*state); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_and_rows_are_sorted),
        cmocka_unit_test(errors_name_line_and_column),
        cmocka_unit_test(tables_of_spreadsheets_are_read),
        cmocka_unit_test(a_hundred_thousand_wavelengths_are_read),
        cmocka_unit_test(too_many_columns_or_wavelengths_are_refused),
        cmocka_unit_test(the_formula_has_its_known_values),
        cmocka_unit_test(rules_score_on_the_formula_what_they_are_known_to),
        cmocka_unit_test(rules_score_on_measured_spectra_what_they_are_known_to),
        cmocka_unit_test(few_points_give_the_polynomial),
    };
    return cmocka_run_group_tests(tests, make, temp_dir_remove);
}
