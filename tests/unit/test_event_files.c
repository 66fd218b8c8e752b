#include "eeg/events.h"
#include "eeg/labels.h"
#include "formats/eegfile.h"
#include "unit/cmocka_all.h"
#include "unit/edf_writer.h"
#include "unit/temp_dir.h"

enum { MANY = 5000 };

static void write_recording(const char *path, const char *patient, const char *first_keeper) {
    const struct written_signal signals[2] = {{.label = "Fp1", .samples = 8},
                                              {.label = "EDF Annotations", .samples = 60, .tal = ""}};
    const char *keepers[] = {first_keeper, "+1.39"};
    const struct written_file f = {.n_signals = 2, .n_records = 2, .signals = signals, .reserved = "EDF+C", .keepers = keepers};
    OWNED(str_done) struct str bytes;
    struct err err;
    str_init(&bytes, 1 << 16);
    edf_write(&f, false, &bytes);
    memset(bytes.data + 8, ' ', 80);
    memcpy(bytes.data + 8, patient, strlen(patient));
    assert_int_equal(fsio_write_atomic(path, bytes.data, bytes.len, &err), 0);
}

/* Events on the grid of 1/256 s, as detections are. */
static size_t make_runs(struct label_run *runs, size_t n) {
    for (size_t i = 0; i < n; i++) {
        runs[i] = (struct label_run){
            .onset_s = (double)(i * 5000 + 77) / 256, .end_s = (double)(i * 5000 + 3001) / 256, .confidence = 0.75};
        str_copy(runs[i].code, sizeof runs[i].code, i % 2 ? "sz_foc" : "sz");
    }
    return n;
}

static void every_format_reads_back_as_the_same_labels(void **state) {
    assert_int_equal(chdir(*state), 0);
    OWNED_MEMORY struct label_run *runs = calloc(MANY, sizeof *runs);
    static const size_t counts[] = {0, 3, MANY};
    OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL;
    struct err err;
    write_recording("x_eeg.edf", "MCH-0234567 F 02-MAY-1951 Haagse_Harry", "+0.39");
    assert_int_equal(eegfile_open("x_eeg.edf", &edf, &err), 0);
    const struct events_header header = {
        .start_text = "2002-03-02 04:05:06", .recording_s = 100000, .record_name = "x_eeg.edf", .source = eegfile_info(edf)};
    for (int f = 0; f < EVENTS_FORMATS; f++) {
        const struct events_format *format = events_format_at(f);
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            size_t n = make_runs(runs, counts[k]);
            char path[64];
            OWNED(labels_done) struct labels labels = {0}, found = {0};
            assert_int_equal(events_path(format, "x_eeg.edf", path, sizeof path, &err), 0);
            assert_ptr_equal(events_format_of(path), format);
            assert_int_equal(events_write(format, path, runs, n, &header, &err), 0);
            assert_int_equal(labels_load("x_eeg.edf", format->name, edf, &labels, &err), 0);
            assert_int_equal(labels_load("x_eeg.edf", "auto", edf, &found, &err), 0);
            assert_int_equal(labels.n_runs, n);
            assert_int_equal(found.n_runs, n);
            assert_int_equal(found.source, labels.source);
            bool coarse = !strcmp(format->name, "tsv") || !strcmp(format->name, "csv_bi");
            for (size_t i = 0; i < n; i++) {
                assert_true(fabs(labels.runs[i].onset_s - runs[i].onset_s) <= (coarse ? 0.0051 : 1e-7));
                assert_true(fabs(labels.runs[i].end_s - runs[i].end_s) <= (coarse ? 0.0051 : 2e-7));
                if (strcmp(format->name, "csv_bi") != 0)
                    assert_string_equal(labels.runs[i].code, runs[i].code);
            }
            assert_int_equal(unlink(path), 0);
        }
    }
}

static void an_annotation_file_repeats_patient_and_start(void **state) {
    assert_int_equal(chdir(*state), 0);
    static const struct {
        const char *given, *wanted;
    } patients[] = {{"MCH-0234567 F 02-MAY-1951 Haagse_Harry", "MCH-0234567 F 02-MAY-1951 Haagse_Harry"},
                    {"X X X X", "X X X X"},
                    {"Harry from The Hague", "X X X Harry_from_The_Hague"},
                    {"MCH F 30-FEB-1951 Harry", "MCH F X Harry"},
                    {"MCH F 02-MAI-1951 Harry", "MCH F X Harry"},
                    {"code F 2-5-1951 name", "X X X code_F_2-5-1951_name"},
                    {"J\xF8rgen", "X X X J_rgen"}, /* Latin-1 */
                    {"", "X X X X"}};
    struct err err;
    for (size_t i = 0; i < sizeof patients / sizeof *patients; i++) {
        OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL, *written = NULL;
        write_recording("p.edf", patients[i].given, "+0.39");
        assert_int_equal(eegfile_open("p.edf", &edf, &err), 0);
        const struct events_header header = {.recording_s = 2, .source = eegfile_info(edf)};
        const struct label_run run = {.onset_s = 0.25, .end_s = 1.5, .confidence = NAN};
        assert_int_equal(events_write(events_format_find("edf+"), "p_annotations.edf", &run, 1, &header, &err), 0);
        assert_int_equal(eegfile_open("p_annotations.edf", &written, &err), 0);
        const struct eeg_info *info = eegfile_info(written);
        assert_string_equal(info->patient, patients[i].wanted);
        assert_string_equal(info->recording, "Startdate 02-MAR-2002 X X X");
        assert_memory_equal(&info->start, &eegfile_info(edf)->start, sizeof info->start);
        assert_true(info->start.subsecond == 0.39 && info->plus && !info->discontinuous && info->record_s == 0);
        assert_int_equal(info->n_repairs, 0);
        assert_int_equal(info->n_annotations, 1);
        assert_true(fabs(info->annotations[0].onset_s - 0.25) < 1e-12);
        assert_string_equal(info->annotations[0].text, "sz");
    }
}

/* Readers such as EDFlib refuse a file whose two start dates differ. */
static void an_annotation_file_has_one_start_date(void **state) {
    assert_int_equal(chdir(*state), 0);
    static const struct {
        const char *given, *wanted;
    } cases[] = {{"Startdate 01-FEB-2020 PSG-1 NN amp", "Startdate 01-FEB-2020 PSG-1 NN amp"},
                 {"Startdate 01-FEV-2020 PSG-1 NN amp", "Startdate 01-FEB-2020 PSG-1 NN amp"},
                 {"Startdate 05-MAR-2019 PSG-1 NN amp", "Startdate 01-FEB-2020 PSG-1 NN amp"},
                 {"Startdate 30-FEB-2020 PSG-1", "Startdate 01-FEB-2020 X X X"},
                 {"Startdate X PSG-1 NN amp", "Startdate 01-FEB-2020 PSG-1 NN amp"},
                 {"anything", "Startdate 01-FEB-2020 X X X"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct eeg_info source = {
            .patient = "X X X X", .recording = cases[i].given, .start = {.year = 2020, .month = 2, .day = 1, .known = true}};
        const struct events_header header = {.recording_s = 2, .source = &source};
        OWNED_POINTER(eegfile_close) struct eegfile *written = NULL;
        struct err err;
        assert_int_equal(events_write(events_format_find("edf+"), "s_annotations.edf", NULL, 0, &header, &err), 0);
        assert_int_equal(eegfile_open("s_annotations.edf", &written, &err), 0);
        assert_string_equal(eegfile_info(written)->recording, cases[i].wanted);
        assert_int_equal(eegfile_info(written)->n_repairs, 0);
        assert_true(eegfile_info(written)->start.year == 2020 && eegfile_info(written)->start.day == 1);
    }
}

static void every_record_of_an_annotation_file_begins_with_its_time_keeper(void **state) {
    assert_int_equal(chdir(*state), 0);
    OWNED_MEMORY struct label_run *runs = calloc(MANY, sizeof *runs);
    OWNED_MEMORY char *bytes = NULL;
    size_t len;
    struct err err;
    OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL;
    const struct events_header header = {.recording_s = 100000};
    assert_int_equal(events_write(events_format_find("edf+"), "x_annotations.edf", runs, make_runs(runs, MANY), &header, &err), 0);
    assert_int_equal(fsio_read("x_annotations.edf", 1 << 20, &bytes, &len, &err), 0);
    assert_int_equal(eegfile_open("x_annotations.edf", &edf, &err), 0);
    const struct eeg_info *info = eegfile_info(edf);
    size_t record = (size_t)info->signals[0].samples_per_record * 2;
    assert_true(info->n_records > 10 && record <= 61440 && len == 512 + (size_t)info->n_records * record);
    assert_false(info->start.known);
    for (int64_t r = 0; r < info->n_records; r++)
        assert_memory_equal(bytes + 512 + (size_t)r * record, "+0\x14\x14", 5);
}

/* Its header states when its onsets begin; a date that lies elsewhere is that of the writer. */
static void an_annotation_file_that_begins_elsewhere_is_moved(void **state) {
    assert_int_equal(chdir(*state), 0);
    static const struct { int hour, day; } cases[] = {{4, 2}, {3, 2}, {4, 9}};
    struct err err;
    OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL;
    write_recording("x.edf", "X X X X", "+0");
    assert_int_equal(eegfile_open("x.edf", &edf, &err), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWNED(labels_done) struct labels labels = {0};
        struct eeg_info info = *eegfile_info(edf);
        info.start.hour = cases[i].hour;
        info.start.day = cases[i].day;
        const struct events_header header = {.recording_s = 2, .source = &info};
        const struct label_run run = {.onset_s = i == 1 ? 3600.25 : 0.25, .end_s = i == 1 ? 3601 : 1, .confidence = NAN};
        assert_int_equal(events_write(events_format_find("edf+"), "x_annotations.edf", &run, 1, &header, &err), 0);
        assert_int_equal(labels_load("x.edf", "auto", edf, &labels, &err), 0);
        assert_int_equal(labels.n_runs, 1);
        assert_true(fabs(labels.runs[0].onset_s - 0.25) < 1e-6);
        assert_int_equal(strstr(labels.note, "moved") != NULL, i == 1);
    }
}

static void an_annotation_file_is_no_recording(void **state) {
    assert_int_equal(chdir(*state), 0);
    assert_false(eegfile_named("a/x_annotations.edf") || eegfile_named("X_ANNOTATIONS.EDF"));
    assert_true(eegfile_named("a/annotations.edf"));
    assert_null(events_format_of("a/x_eeg.edf"));
    assert_null(events_format_find("vhs"));
    assert_ptr_equal(events_format_find(NULL), events_format_find("tsv"));
}

static void damaged_files_are_named_with_their_line(void **state) {
    assert_int_equal(chdir(*state), 0);
    static const struct {
        const char *path, *text, *where;
    } cases[] = {{"a_annotations.txt", "# MNE-Annotations\n1.0,2.0,sz\n3.0;1;sz\n", "a_annotations.txt:3"},
                 {"a_annotations.txt", "1.0,-2.0,sz\n", "a_annotations.txt:1"},
                 {"a_annotations.txt", "1e300,2.0,sz\n", "a_annotations.txt:1"},
                 {"a_annotations.json",
                  "{\"events\":[{\"onset_s\":1,\"end_s\":2,\"type\":\"sz\"},{\"onset_s\":3,\"end_s\":2,\"type\":\"sz\"}]}",
                  "event 2"},
                 {"a_annotations.json", "{\"events\":3}", "the array 'events'"},
                 {"a_annotations.json", "[", "a_annotations.json"},
                 {"a_annotations.edf", "no EDF", "a_annotations.edf"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct events_file file;
        struct err err;
        assert_int_equal(fsio_write_atomic(cases[i].path, cases[i].text, strlen(cases[i].text), &err), 0);
        assert_int_equal(events_read(cases[i].path, &file, &err), ERR_INVALID);
        if (!strstr(err.message, cases[i].where))
            fail_msg("'%s' lacks '%s'", err.message, cases[i].where);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(every_format_reads_back_as_the_same_labels),
        in_temp_dir(an_annotation_file_repeats_patient_and_start),
        in_temp_dir(an_annotation_file_has_one_start_date),
        in_temp_dir(every_record_of_an_annotation_file_begins_with_its_time_keeper),
        in_temp_dir(an_annotation_file_that_begins_elsewhere_is_moved),
        in_temp_dir(an_annotation_file_is_no_recording),
        in_temp_dir(damaged_files_are_named_with_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
