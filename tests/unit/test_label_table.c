/* One table with the seizures of many recordings: separators, numbers and times of spreadsheets, columns by their usual names or
 * those that are given, and where a row lies in a recording. */

#include "eeg/label_table.h"
#include "formats/eegfile.h"
#include "unit/cmocka_all.h"
#include "unit/temp_dir.h"

static const struct label_table_columns usual;
static const struct eeg_info night = {.duration_s = 7200, .start = {2020, 2, 1, 23, 30, 0, 0.5, true}};
static struct err err;
static char path[512];

static int make(void **state) { return temp_dir_make(state) || !str_format(path, sizeof path, "%s/t.csv", (char *)*state); }

static void put(const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    fclose(f);
}

/* The first row of a table in the recording `night`. Returns the code of the error, if any. */
static int first(const char *text, const struct label_table_columns *columns, bool clock, double span_s[2]) {
    struct label_table table;
    struct label_table_row row;
    bool more = false;
    put(text);
    int rc = label_table_open(&table, path, columns, &err);
    if (rc)
        return rc;
    if (!(rc = label_table_next(&table, &more, &row, &err))) {
        assert_true(more);
        assert_string_equal(row.file, "a.edf");
        rc = label_table_place(&table, &row, &night, clock, span_s, &err);
    }
    label_table_close(&table);
    return rc;
}

static void lies(const char *text, bool clock, double onset_s, double end_s) {
    double span_s[2];
    if (first(text, &usual, clock, span_s))
        fail_msg("%s", err.message);
    if (fabs(span_s[0] - onset_s) > 1e-6 || fabs(span_s[1] - end_s) > 1e-6)
        fail_msg("'%s' is %g to %g s; expected %g to %g", text, span_s[0], span_s[1], onset_s, end_s);
}

static void refused(const char *text, bool clock, const char *what) {
    double span_s[2];
    assert_int_not_equal(first(text, &usual, clock, span_s), 0);
    if (!strstr(err.message, what))
        fail_msg("'%s' does not say '%s'", err.message, what);
}

static void separators_and_numbers_of_spreadsheets(void **state) {
    (void)state;
    lies("file,onset,end\na.edf,10.5,20\n", false, 10.5, 20);
    lies("File;Start;Stop\r\na.edf;10,5;20,125\r\n", false, 10.5, 20.125);
    lies("sep=;\r\nfile;onset;duration\r\na.edf;10;9,5\r\n", false, 10, 19.5);
    lies("file\tonset\tduration\na.edf\t1,5\t2\n", false, 1.5, 3.5);
    lies("\xEF\xBB\xBF"
         "file;\"note, long\";onset;end\r;;;\ra.edf;\"x; y\";1;2\r",
         false, 1, 2);
    lies("file,onset,end,note\na.edf,\"1,5\",3,\n", false, 1.5, 3);
    refused("file,onset,end\na.edf,\"1,234\",3000\n", false, "t.csv:2: column 'onset' holds '1,234'");
}

/* The "CSV" of a spreadsheet is Windows-1252, unless somebody chose UTF-8. */
static void names_are_read_in_the_bytes_of_spreadsheets(void **state) {
    (void)state;
    static const char *const texts[] = {"Datei;Beginn;Ende\nM\xFCller \x80.edf;1;2\n",
                                        "Datei;Beginn;Ende\nM\xC3\xBCller \xE2\x82\xAC.edf;1;2\n"};
    struct label_table table;
    struct label_table_row row;
    bool more = false;
    for (size_t i = 0; i < 2; i++) {
        put(texts[i]);
        assert_int_equal(label_table_open(&table, path, &usual, &err), 0);
        assert_int_equal(label_table_next(&table, &more, &row, &err), 0);
        assert_string_equal(row.file, "M\xC3\xBCller \xE2\x82\xAC.edf");
        label_table_close(&table);
    }
}

/* One bad byte does not make Windows-1252 of a UTF-8 file. */
static void damaged_utf8_stays_utf8(void **state) {
    (void)state;
    struct label_table table;
    struct label_table_row row;
    bool more = false;
    put("Datei;Beginn;Ende\nM\xC3\xBCller.edf;1;2\nJ\xFCrgen.edf;3;4\n");
    assert_int_equal(label_table_open(&table, path, &usual, &err), 0);
    assert_int_equal(label_table_next(&table, &more, &row, &err), 0);
    assert_string_equal(row.file, "M\xC3\xBCller.edf");
    assert_int_equal(label_table_next(&table, &more, &row, &err), 0);
    assert_string_equal(row.file, "J\xFCrgen.edf");
    label_table_close(&table);
}

static void times_of_the_recording_and_of_the_day(void **state) {
    (void)state;
    lies("file;onset;end\na.edf;0:01:02,5;01:03:00\n", false, 62.5, 3780);
    lies("file;onset;end\na.edf;01:02;1:30.25\n", false, 62, 90.25);
    lies("file;onset;end\na.edf;23:31:00;23:32:00.5\n", true, 59.5, 120);
    lies("file;onset;end\na.edf;23:59:30;00:00:30\n", true, 1769.5, 1829.5);
    lies("file;onset;end\na.edf;23:40;00:10\n", true, 599.5, 2399.5);
    lies("file;onset;duration\na.edf;23:31:00;00:30\n", true, 59.5, 89.5);
    lies("file;onset;end\na.edf;2020-02-01 23:31:00;2020-02-02T00:01:00\n", false, 59.5, 1859.5);
    refused("file;onset;end\na.edf;23:31:00;23:32:00\n", false, "add --clock");
    refused("file;onset;end\na.edf;2020-02-03 10:00:00;2020-02-03 10:01:00\n", false, "which lasts 7200.0 s");
    refused("file;onset;end\na.edf;20;10\n", false, "would last -10.0 s");
    lies("file;onset;end\na.edf;7190;7201\n", false, 7190, 7200);
    refused("file;onset;end\na.edf;100;7202\n", false, "ends at second 7202.0 of a.edf, which lasts 7200.0 s");
    refused("file;onset;duration\na.edf;7000;300\n", false, "ends at second 7300.0");
    refused("file;onset;end\na.edf;-5;10\n", false, "the onset is second -5.0");
    refused("file;onset;end\na.edf;1:99:00;2:00:00\n", false, "expected seconds (12.5)");
    refused("file;onset;end\na.edf;01.02.2020 10:00;20\n", false, "YYYY-MM-DD");
}

static void a_recording_without_a_start_has_no_times_of_day(void **state) {
    (void)state;
    const struct eeg_info unknown = {.duration_s = 100};
    struct label_table table = {.table = {.path = "t"}};
    const struct label_table_row row = {
        .file = "a", .onset = {LABEL_TIME_CLOCK, 5, false}, .duration = {LABEL_TIME_SECONDS, 5, false}};
    double span_s[2];
    assert_int_equal(label_table_place(&table, &row, &unknown, true, span_s, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "does not state"));
    assert_int_equal(label_table_place(&table, &row, &unknown, false, span_s, &err), 0);
    assert_true(span_s[0] == 5 && span_s[1] == 10);
}

static void rows_without_times_and_halves_of_rows(void **state) {
    (void)state;
    double span_s[2];
    assert_int_equal(first("file,onset,end\na.edf,,\n", &usual, false, span_s), 0);
    assert_true(isnan(span_s[0]) && isnan(span_s[1]));
    refused("file,onset,end\na.edf,5,\n", false, "an onset and no end");
    refused("file,onset,end\na.edf,n/a,7\n", false, "an end and no onset");
    refused("file,onset,end\n,5,7\n", false, "t.csv:2: column 'file' is blank");
}

static void columns_are_named_or_usual(void **state) {
    (void)state;
    const struct label_table_columns named = {.file = "Aufnahme", .onset = "von (s)", .duration = "Dauer (s)"};
    double span_s[2];
    assert_int_equal(first("Nr,Aufnahme,von (s),Dauer (s),end\n7,a.edf,3,4,100\n", &named, false, span_s), 0);
    assert_true(span_s[0] == 3 && span_s[1] == 7); /* not the usual end beside a duration that was named */
    assert_int_equal(first("file,onset,end\na.edf,1,2\n", &named, false, span_s), ERR_INVALID);
    assert_non_null(strstr(err.message, "no column 'Aufnahme'; the header row has: file, onset, end"));
    refused("file,onset\na.edf,1\n", false, "no column 'end|stop|duration'; the header row has: file, onset; name it with --end");
    refused("wer,onset,end\na.edf,1,2\n", false, "name it with --file COLUMN");
    assert_int_equal(label_table_open(&(struct label_table){.type = 0}, "x.XLSX", &usual, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "save its sheet as CSV"));
}

static void columns_in_french_and_spanish(void **state) {
    (void)state;
    lies("Fichier;Début;Fin\na.edf;3;7\n", false, 3, 7);
    lies("Fichier;Debut (s);Durée (s)\na.edf;3,5;4\n", false, 3.5, 7.5);
    lies("archivo,inicio,duracion_min\na.edf,3,0.1\n", false, 3, 9);
}

static void units_that_columns_state(void **state) {
    (void)state;
    lies("file,onset (s),end [s]\na.edf,3,7\n", false, 3, 7);
    lies("file,onset (ms),duration_ms\na.edf,3500,4000\n", false, 3.5, 7.5);
    lies("file;Beginn [min];Dauer (Sek)\na.edf;0,5;4\n", false, 30, 34);
    lies("file,start h,end h\na.edf,0.001,0:00:10\n", false, 3.6, 10); /* a time with colons has its own unit */
    lies("file,onset,end,duration\na.edf,3,7,4.2\n", false, 3, 7);
    refused("file,onset,end,duration\na.edf,3,7,40\n", false, "lasts 4.0 s by its end and 40.0 s by its duration");
    refused("file,onset (samples),end (samples)\na.edf,3,7\n", false, "column 'onset (samples)' counts samples; expected seconds");
}

/* A table whose column of types is not known is a table in which artefacts are seizures. */
static void columns_of_types_have_usual_names(void **state) {
    (void)state;
    static const char *const names[] = {"Typ",       "EREIGNIS",  "Art",       "Anfallstyp", "Seizure type", "Kind of event",
                                        "Kategorie", "Category",  "Class",     "Annotation", "tipo",         "Événement",
                                        "evento",    "Catégorie", "Categoría", "anotacion"};
    struct label_table table;
    struct label_table_row row;
    char text[256];
    bool more = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        str_format(text, sizeof text, "Datei;Arzt;Beginn;Ende;%s\na.edf;B;1;2;Bewegung\n", names[i]);
        put(text);
        assert_int_equal(label_table_open(&table, path, &usual, &err), 0);
        assert_int_equal(label_table_next(&table, &more, &row, &err), 0);
        assert_string_equal(row.type, "Bewegung");
        assert_true(label_table_reads(&table, 0) && label_table_reads(&table, 4) && !label_table_reads(&table, 1));
        label_table_close(&table);
    }
    put("Datei;Beginn;Ende;Art;Type\na.edf;1;2;x;sz\n"); /* the name that was usual before */
    assert_int_equal(label_table_open(&table, path, &usual, &err), 0);
    assert_int_equal(label_table_next(&table, &more, &row, &err), 0);
    assert_string_equal(row.type, "sz");
    assert_false(label_table_reads(&table, 3));
    label_table_close(&table);
}

static void a_column_says_yes_or_no(void **state) {
    (void)state;
    static const struct {
        const char *column, *said;
        int answer;
    } cells[] = {{"seizure", "yes", 1},    {"Seizure", "No", -1}, {"Anfall", "ja", 1},    {"Anfall", "nein", -1},
                 {"crise", "oui", 1},      {"crise", "non", -1},  {"is_seizure", "1", 1}, {"seizure", "0", -1},
                 {"seizure", "12", 1},     {"crisis", "sí", 1},   {"seizure", "TRUE", 1}, {"seizure", "false", -1},
                 {"seizure", "sz_foc", 0}, {"Art", "yes", 0}};
    struct label_table table;
    struct label_table_row row;
    char text[256];
    bool more = false;
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        for (int typed = 0; typed < 2; typed++) { /* beside a column of types, too */
            str_format(text, sizeof text, "file,onset,end,%s%s\na.edf,1,2,%s%s\n", typed ? "type," : "", cells[i].column,
                       typed ? "focal," : "", cells[i].said);
            put(text);
            assert_int_equal(label_table_open(&table, path, &usual, &err), 0);
            assert_int_equal(label_table_next(&table, &more, &row, &err), 0);
            assert_int_equal(row.answer, cells[i].answer);
            assert_string_equal(row.type, typed ? "focal" : cells[i].said);
            label_table_close(&table);
        }
    }
    refused("file,onset,end,seizure\na.edf,1,2,\n", false, "t.csv:2: column 'seizure' is blank; expected yes or no");
    const struct label_table_columns each = {.type = "none"}, art = {.type = "Art"};
    for (int i = 0; i < 2; i++) { /* another column decides */
        put("file,onset,end,seizure,Art\na.edf,1,2,no,sz\n");
        assert_int_equal(label_table_open(&table, path, i ? &art : &each, &err), 0);
        assert_int_equal(label_table_next(&table, &more, &row, &err), 0);
        assert_int_equal(row.answer, 0);
        assert_string_equal(row.type, i ? "sz" : "");
        label_table_close(&table);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(separators_and_numbers_of_spreadsheets),
        cmocka_unit_test(names_are_read_in_the_bytes_of_spreadsheets),
        cmocka_unit_test(damaged_utf8_stays_utf8),
        cmocka_unit_test(times_of_the_recording_and_of_the_day),
        cmocka_unit_test(a_recording_without_a_start_has_no_times_of_day),
        cmocka_unit_test(rows_without_times_and_halves_of_rows),
        cmocka_unit_test(columns_are_named_or_usual),
        cmocka_unit_test(columns_in_french_and_spanish),
        cmocka_unit_test(units_that_columns_state),
        cmocka_unit_test(columns_of_types_have_usual_names),
        cmocka_unit_test(a_column_says_yes_or_no),
    };
    return cmocka_run_group_tests(tests, make, temp_dir_remove);
}
