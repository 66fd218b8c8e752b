#include "unit/cmocka_all.h"

#include "eeg/labels.h"
#include "formats/eegfile.h"
#include "skip.h"
#include "store/outputs.h"
#include "unit/edf_writer.h"

struct place {
    char dir[64];
    char edf[160];
    struct labels labels;
    struct err err;
};

static int enter(void **state) {
    struct place *p = calloc(1, sizeof *p);
    str_copy(p->dir, sizeof p->dir, "/tmp/brr-labels-XXXXXX");
    if (!mkdtemp(p->dir))
        return -1;
    *state = p;
    return 0;
}

static int leave(void **state) {
    struct place *p = *state;
    labels_done(&p->labels);
    fsio_remove_tree(p->dir, NULL);
    free(p);
    return 0;
}

static void put_file(struct place *p, const char *name, const char *text) {
    char path[160];
    assert_true(str_format(path, sizeof path, "%s/%s", p->dir, name));
    assert_int_equal(fsio_write_atomic(path, text, strlen(text), &p->err), 0);
}

static int load(struct place *p, const char *name, const char *format) {
    labels_done(&p->labels);
    memset(&p->labels, 0, sizeof p->labels);
    assert_true(str_format(p->edf, sizeof p->edf, "%s/%s", p->dir, name));
    return labels_load(p->edf, format, NULL, &p->labels, &p->err);
}

static void put_edf(struct place *p, const char *name, const char *tal) {
    const struct written_signal s[2] = {{.label = "Fp1", .samples = 8}, {.label = "EDF Annotations", .samples = 60, .tal = tal}};
    const char *keepers[] = {"+0", "+1"};
    struct written_file f = {.n_signals = 2, .n_records = 2, .signals = s, .reserved = "EDF+C", .keepers = keepers};
    struct str bytes;
    char path[160];
    str_init(&bytes, 1 << 16);
    edf_write(&f, false, &bytes);
    assert_true(str_format(path, sizeof path, "%s/%s", p->dir, name));
    assert_int_equal(fsio_write_atomic(path, bytes.data, bytes.len, &p->err), 0);
    str_done(&bytes);
}

static void assert_runs(const struct labels *l, const char *want) {
    char text[1024] = "";
    for (size_t i = 0; i < l->n_runs; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%g-%g %s", i ? ", " : "", l->runs[i].onset_s, l->runs[i].end_s, l->runs[i].code);
    }
    assert_string_equal(text, want);
}

static void assert_fails(struct place *p, int rc, const char *where) {
    assert_int_equal(rc, ERR_INVALID);
    if (!strstr(p->err.message, where))
        fail_msg("'%s' does not mention '%s'", p->err.message, where);
}

static void bids_events_are_found_by_column_name(void **state) {
    struct place *p = *state;
    put_file(p, "sub-01_run-01_events.tsv",
             "eventType\tonset\tlateralization\tduration\tconfidence\trecordingDuration\tdateTime\r\n"
             "impd\t1.00\tn/a\t2.00\tn/a\t3600.00\t2000-01-01 00:00:00\r\n"
             "sz_foc_ia_nm\t100.50\tleft\t20.25\t0.75\t3600.00\t2000-01-01 00:00:00\r\n\r\n"
             "SZ\t110.00\tleft\t30.00\tn/a\t3600.00\t2000-01-01 00:00:00\r\n"
             "sz\t50.00\tleft\t5.00\tn/a\t3600.00\t2000-01-01 00:00:00");
    assert_int_equal(load(p, "sub-01_run-01_eeg.edf", "auto"), 0);
    assert_int_equal(p->labels.source, LABELS_BIDS_TSV);
    assert_runs(&p->labels, "50-55 sz, 100.5-140 sz_foc_ia_nm");
    assert_true(p->labels.recording_s == 3600);
    assert_true(p->labels.runs[1].confidence == 0.75 && isnan(p->labels.runs[0].confidence));
}

static void a_recording_in_capitals_finds_its_events(void **state) {
    struct place *p = *state;
    put_file(p, "X_events.tsv", "onset\tduration\teventType\n5\t10\tsz\n");
    static const char *const names[] = {"X_EEG.edf", "X_Eeg.EDF", "X.EDF"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(load(p, names[i], "auto"), 0);
        assert_int_equal(p->labels.source, LABELS_BIDS_TSV);
        assert_runs(&p->labels, "5-15 sz");
    }
}

static void a_background_row_is_a_label_without_seizures(void **state) {
    struct place *p = *state;
    put_file(p, "a_events.tsv", "onset\tduration\teventType\n0.00\t60.00\tbckg\n");
    assert_int_equal(load(p, "a.edf", "bids-tsv"), 0);
    assert_int_equal(p->labels.source, LABELS_BIDS_TSV);
    assert_int_equal(p->labels.n_runs, 0);
}

/* Whoever wrote "chewing" need not have looked for seizures, unless data.labels says that the file is of labels. */
static void a_file_of_other_events_alone_is_no_label(void **state) {
    struct place *p = *state;
    static const char *const rows[] = {"0\t60\tchewing\n", "n/a\tn/a\tchewing\n", "", "0\t60\tchewing\n0\t9\tbckg\n",
                                       "0\t60\tchewing\n0\t9\tunknown\n"};
    put_edf(p, "a.edf", "");
    for (int i = 0; i < 5; i++) {
        char text[100];
        str_format(text, sizeof text, "onset\tduration\teventType\n%s", rows[i]);
        put_file(p, "a_events.tsv", text);
        assert_int_equal(load(p, "a.edf", "auto"), 0);
        assert_int_equal(p->labels.source, i < 2 ? LABELS_NONE : LABELS_BIDS_TSV);
        if (i < 2)
            assert_string_equal(
                p->labels.without,
                "a_events.tsv has 1 event, none a seizure or bckg (data.labels: bids-tsv takes it for seizure-free)");
        assert_int_equal(load(p, "a.edf", "bids-tsv"), 0);
        assert_int_equal(p->labels.source, LABELS_BIDS_TSV);
    }
    put_file(p, "a_events.tsv", "onset\tduration\teventType\n0\t60\tchewing\n");
    put_file(p, "a.csv_bi", "channel,start_time,stop_time,label,confidence\nTERM,60,90,seiz,1\n");
    assert_int_equal(load(p, "a.edf", "auto"), 0);
    assert_runs(&p->labels, "60-90 seiz");
}

static void what_is_unknown_stands_apart_from_the_seizures(void **state) {
    struct place *p = *state;
    put_file(p, "a_events.tsv",
             "onset\tduration\teventType\n30\t20\tUnknown\n20\t10\tsz\n0\t20\tunknown\n10\t5\tunknown\n50\t1\tunknown_kind\n");
    assert_int_equal(load(p, "a.edf", "auto"), 0);
    assert_runs(&p->labels, "20-30 sz");
    assert_int_equal(p->labels.n_unknown, 2);
    assert_true(p->labels.unknown[0].onset_s == 0 && p->labels.unknown[0].end_s == 20);
    assert_true(p->labels.unknown[1].onset_s == 30 && p->labels.unknown[1].end_s == 50);
}

static void faulty_events_name_file_and_line(void **state) {
    struct place *p = *state;
    static const struct {
        const char *text, *where;
    } cases[] = {{"onset\tduration\tseizure_info\n1\t2\ttcs\n", "events.tsv:1: no column 'eventType"},
                 {"onset\tduration\teventType\n1\t2\tsz\nx\t2\tsz\n", "events.tsv:3: column 'onset' holds 'x'"},
                 {"onset\tduration\teventType\n1\t-2\tsz\n", "events.tsv:2"},
                 {"onset\tduration\teventType\n1\tn/a\tsz\n", "no duration above 0"},
                 {"onset\tduration\teventType\n1\t2\n", "events.tsv:2: column 'eventType' is blank"},
                 {"onset\tduration\teventType\n1\t2\tsz\t4\n", "events.tsv:2: more fields"},
                 {"onset\tduration\teventType\n1e300\t2\tsz\n", "events.tsv:2"},
                 {"", "no header row"},
                 {"\n\n# only comments\n", "no header row"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_file(p, "b_events.tsv", cases[i].text);
        assert_fails(p, load(p, "b_eeg.edf", "auto"), cases[i].where);
    }
    put_file(p, "b_events.tsv", "onset\tduration\teventType\n1\tn/a\tbckg\n");
    assert_int_equal(load(p, "b_eeg.edf", "auto"), 0);
}

static void tusz_csv_is_the_union_over_channels_and_codes(void **state) {
    struct place *p = *state;
    put_file(p, "aaaaaaac_s001_t000.csv",
             "# version = csv_v1.0.0\n# duration = 301.00 secs\n#\nchannel,start_time,stop_time,label,confidence\n"
             "FP1-F7,36.8868,183.3055,cpsz,1.0000\nF7-T3,30.0,40.0,fnsz,1.0\nT3-T5,0,36,bckg,1\nF8-T4,183.3055,190,tnsz,1\n"
             "FP1-F7,200,201,gnsz,1\nFP1-F7,202,203,absz,1\nFP1-F7,204,205,spsz,1\nFP1-F7,206,207,tcsz,1\n"
             "FP1-F7,208,209,mysz,1\nFP1-F7,210,211,seiz,1\nFP1-F7,220,230,artf,1\n");
    assert_int_equal(load(p, "aaaaaaac_s001_t000.edf", "auto"), 0);
    assert_int_equal(p->labels.source, LABELS_TUSZ_CSV);
    assert_runs(&p->labels, "30-190 fnsz, 200-201 gnsz, 202-203 absz, 204-205 spsz, 206-207 tcsz, 208-209 mysz, 210-211 seiz");
    assert_true(p->labels.recording_s == 301);
}

static void tusz_csv_bi_is_read_and_its_faults_are_named(void **state) {
    struct place *p = *state;
    put_file(p, "t.csv_bi",
             "# version = csv_v1.0.0\nchannel,start_time,stop_time,label,confidence\nTERM,224.0071,258.9804,seiz,0.5\n");
    assert_int_equal(load(p, "t.EDF", "csv_bi"), 0);
    assert_int_equal(p->labels.source, LABELS_TUSZ_CSV_BI);
    assert_runs(&p->labels, "224.007-258.98 seiz");
    assert_int_equal(load(p, "t.edf", "tusz-csv"), 0);
    assert_int_equal(p->labels.source, LABELS_NONE);
    put_file(p, "t.csv_bi", "channel,start_time,stop_time,label,confidence\nTERM,5,4,seiz,1\n");
    assert_fails(p, load(p, "t.edf", "auto"), "t.csv_bi:2: start 5 is not before stop 4");
    put_file(p, "t.csv_bi", "a,b\n1,2\n");
    assert_fails(p, load(p, "t.edf", "auto"), "t.csv_bi:1: no column 'start_time'; the header row has: a, b");
}

static const char SUMMARY[] = "Data Sampling Rate: 256 Hz\nChannel 1: FP1-F7\n\n"
                              "File Name: chb12_06.edf\nFile Start Time: 22:44:34\nNumber of Seizures in File: 2\n"
                              "Seizure 1 Start Time: 1665 seconds\nSeizure 1 End Time:  1726 seconds\n"
                              "Seizure 2 Start Time: 3415 seconds\nSeizure 2 End Time: 3447 seconds\n\nChannels changed:\n"
                              "File Name: chb12_07.edf\nNumber of Seizures in File: 0\n\n"
                              "File Name: chb12_08.edf\r\nNumber of Seizures in File: 1\r\n"
                              "Seizure Start Time: 10 seconds\r\nSeizure End Time: 20 seconds\r\n";

static void chbmit_summary_is_read_in_both_forms(void **state) {
    struct place *p = *state;
    put_file(p, "chb12-summary.txt", SUMMARY);
    assert_int_equal(load(p, "chb12_06.edf", "auto"), 0);
    assert_int_equal(p->labels.source, LABELS_CHBMIT_SUMMARY);
    assert_runs(&p->labels, "1665-1726 sz, 3415-3447 sz");
    assert_int_equal(load(p, "chb12_08.edf", "chbmit-summary"), 0);
    assert_runs(&p->labels, "10-20 sz");
    assert_int_equal(load(p, "chb12_07.edf", "chbmit-summary"), 0);
    assert_int_equal(p->labels.source, LABELS_CHBMIT_SUMMARY);
    assert_int_equal(p->labels.n_runs, 0);
    assert_int_equal(load(p, "chb12_99.edf", "chbmit-summary"), 0);
    assert_int_equal(p->labels.source, LABELS_NONE);
    char why[LABELS_TRIED_SIZE];
    assert_non_null(strstr(labels_tried(&p->labels, why), "chb12-summary.txt does not name this recording; looked for"));
}

/* ---- the same table by many programs ---- */

static const char *const LINE_ENDS[] = {"\n", "\r\n", "\r"};

/* text with other line ends; "mixed" (number 3) takes them in turn. */
static void put_with_ends(struct place *p, const char *name, const char *text, int kind) {
    struct str out;
    int line = 0;
    str_init(&out, 1 << 16);
    for (; *text; text++)
        if (*text == '\n')
            str_puts(&out, LINE_ENDS[kind == 3 ? line++ % 3 : kind]);
        else
            str_append(&out, text, 1);
    put_file(p, name, str_cstr(&out));
    str_done(&out);
}

static void every_text_format_is_read_with_every_line_end(void **state) {
    struct place *p = *state;
    static const struct {
        const char *name, *text, *recording, *wanted;
    } files[] = {
        {"a_events.tsv", "onset\tduration\teventType\tsample\n5\t2\tartf\t1\n60\t30\tsz\t15360\n", "a.edf", "60-90 sz"},
        {"a_annotations.txt", "# MNE-Annotations\n# onset, duration, description\n5,nan,artf\n60,30,sz\n", "a.edf", "60-90 sz"},
        {"a.csv_bi", "# version = csv_v1.0.0\n#\nchannel,start_time,stop_time,label,confidence\nTERM,60,90,seiz,1\n", "a.edf",
         "60-90 seiz"},
        {"a.csv", "# version = csv_v1.0.0\nchannel,start_time,stop_time,label,confidence\nFP1-F7,60,90,fnsz,1\n", "a.edf",
         "60-90 fnsz"},
        {"a_annotations.json", "{\"events\":[\n{\"onset_s\":60,\n\"end_s\":90,\"type\":\"sz\"}\n]}\n", "a.edf", "60-90 sz"},
        {"chb12-summary.txt",
         "File Name: chb12_06.edf\nNumber of Seizures in File: 1\nSeizure Start Time: 60 seconds\n"
         "Seizure End Time: 90 seconds\n",
         "chb12_06.edf", "60-90 sz"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (int kind = 0; kind < 8; kind++) {
            char path[160], text[1024];
            assert_true(str_format(text, sizeof text, "%s%s", kind < 4 ? "" : "\xEF\xBB\xBF", files[i].text));
            put_with_ends(p, files[i].name, text, kind % 4);
            assert_int_equal(load(p, files[i].recording, "auto"), 0);
            assert_runs(&p->labels, files[i].wanted);
            assert_true(str_format(path, sizeof path, "%s/%s", p->dir, files[i].name));
            assert_int_equal(unlink(path), 0);
        }
}

static void utf_16_is_read_and_other_bytes_are_named(void **state) {
    struct place *p = *state;
    static const char text[] = "onset\tduration\teventType\r\n60\t30\tsz\r\n";
    for (int high = 0; high < 2; high++) {
        char bytes[2 + 2 * sizeof text], path[160];
        memcpy(bytes, high ? "\xFE\xFF" : "\xFF\xFE", 2);
        for (size_t i = 0; i < sizeof text - 1; i++) {
            bytes[2 + 2 * i + (size_t)high] = text[i];
            bytes[3 + 2 * i - (size_t)high] = '\0';
        }
        assert_true(str_format(path, sizeof path, "%s/a_events.tsv", p->dir));
        assert_int_equal(fsio_write_atomic(path, bytes, 2 * sizeof text, &p->err), 0);
        assert_int_equal(load(p, "a.edf", "auto"), 0);
        assert_runs(&p->labels, "60-90 sz");
        assert_int_equal(fsio_write_atomic(path, bytes + 2, 2 * sizeof text - 2, &p->err), 0);
        assert_fails(p, load(p, "a.edf", "auto"), "is NUL; expected a text file");
    }
}

static void cells_in_quotes_are_unquoted(void **state) {
    struct place *p = *state;
    static const struct {
        const char *name, *text, *wanted;
    } files[] = {{"a_events.tsv", "onset\tduration\teventType\n60\t30\t\"sz\"\n", "60-90 sz"},
                 {"a_events.tsv", "\"onset\"\t\"duration\"\t\"eventType\"\n\"60\"\t\"30\"\t \"sz\" \n", "60-90 sz"},
                 {"a_events.tsv", "note\tonset\tduration\teventType\n\"two\nlines\"\t60\t30\tsz\n", "60-90 sz"},
                 {"a_events.tsv", "note\tonset\tduration\teventType\n5\" nail\t1\t2\tartf\n\"open\t60\t30\tsz\nx\"y\t3\t1\tartf\n",
                  "60-90 sz"},
                 {"a_events.tsv", "onset\tduration\teventType\t\t\n60\t30\tsz\t\t\t\n", "60-90 sz"},
                 {"a.csv_bi",
                  "\"# version = csv_v1.0.0\"\nchannel,start_time,stop_time,label,confidence\n\"TERM\",60,90,\"seiz\",1\n",
                  "60-90 seiz"},
                 {"a.csv_bi", "channel,start_time,stop_time,label,confidence\n\"a,b \"\"c\"\"\",60,90,\"seiz\",1\n", "60-90 seiz"},
                 {"a_annotations.txt", "\"60\",\"30\",\"sz\",\"Fp1:F7\"\n", "60-90 sz"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[160];
        put_file(p, files[i].name, files[i].text);
        assert_int_equal(load(p, "a.edf", "auto"), 0);
        assert_runs(&p->labels, files[i].wanted);
        assert_true(str_format(path, sizeof path, "%s/%s", p->dir, files[i].name));
        assert_int_equal(unlink(path), 0);
    }
    put_file(p, "a_events.tsv", "onset\tduration\teventType\tnote\n1\t2\tartf\t\"a\nb\"\nx\t2\tsz\t\n");
    assert_fails(p, load(p, "a.edf", "auto"), "events.tsv:4: column 'onset' holds 'x'");
}

static void other_separators_and_decimal_commas(void **state) {
    struct place *p = *state;
    put_file(p, "a_events.tsv", "onset\tduration\teventType\n60,5\t29,25\tsz\n1234,500\t0,125\tsz\n");
    assert_int_equal(load(p, "a.edf", "auto"), 0);
    assert_runs(&p->labels, "60.5-89.75 sz, 1234.5-1234.62 sz");
    static const struct {
        const char *text, *where;
    } cases[] = {{"onset,duration,eventType\n60,30,sz\n", "separated by commas; expected tabs"},
                 {"onset;duration;eventType\n60;30;sz\n", "separated by semicolons; expected tabs"},
                 {"onset\tduration\teventType\n1,234\t30\tsz\n", "holds '1,234'; expected a number with a decimal point"},
                 {"onset\tduration\teventType\n1,234.5\t30\tsz\n", "holds '1,234.5'"},
                 {"onset\tduration\teventType\n00:01:00\t30\tsz\n", "holds '00:01:00'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_file(p, "a_events.tsv", cases[i].text);
        assert_fails(p, load(p, "a.edf", "auto"), cases[i].where);
    }
    put_file(p, "b.csv_bi", "channel;start_time;stop_time;label;confidence\nTERM;60;90;seiz;1\n");
    assert_fails(p, load(p, "b.edf", "auto"), "separated by semicolons; expected commas");
}

static void words_decide_what_is_a_seizure(void **state) {
    (void)state;
    static const char *const seizures[] = {"sz",      "SZ",       "sz_foc_ia_nm", "sz-foc", "sz 2", "sz1",  "seiz",
                                           "Seizure", "seizures", "fnsz",         "gnsz",   "spsz", "cpsz", "absz",
                                           "tnsz",    "cnsz",     "tcsz",         "atsz",   "mysz", "CNSZ"};
    static const char *const others[] = {"bckg", "nesz", "Szymon", "szene",          "seizing",
                                         "artf", "impd", "",       "Sz\xC3\xA9kely", "xcnsz"};
    for (size_t i = 0; i < sizeof seizures / sizeof *seizures; i++)
        if (!events_is_seizure(seizures[i]))
            fail_msg("%s is a seizure", seizures[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (events_is_seizure(others[i]))
            fail_msg("%s is no seizure", others[i]);
}

static void a_row_that_is_no_seizure_never_refuses_the_file(void **state) {
    struct place *p = *state;
    put_file(p, "a_events.tsv", "onset\tduration\teventType\nn/a\t0\tmarker\n5\t-1\tboundary\n60\t30\tsz\n");
    assert_int_equal(load(p, "a.edf", "auto"), 0);
    assert_runs(&p->labels, "60-90 sz");
    assert_non_null(
        strstr(p->labels.note, "a_events.tsv:2: a row that is no seizure has no readable times and is skipped, and others"));
    put_file(p, "a_events.tsv", "onset\tduration\teventType\nn/a\t0\tsz\n");
    assert_fails(p, load(p, "a.edf", "auto"), "events.tsv:2: column 'onset' holds 'n/a'");
    put_file(p, "b.csv_bi", "channel,start_time,stop_time,label,confidence\nTERM,n/a,n/a,bckg,1\nTERM,60,90,seiz,1\n");
    assert_int_equal(load(p, "b.edf", "auto"), 0);
    assert_runs(&p->labels, "60-90 seiz");
    assert_non_null(strstr(p->labels.note, "b.csv_bi:2"));
}

static void times_from_another_origin_are_moved(void **state) {
    struct place *p = *state;
    static const struct {
        const char *origin;
        double shift_s;
    } cases[] = {{"2002-03-02 04:04:36.000000", -30}, {"2002-03-02T04:05:16.500000+00:00", 10.5}, {"2002-03-02 05:05:06+01:00", 0}};
    put_edf(p, "x.edf", "+0\x14rest\x14@"); /* 2002-03-02 04:05:06 */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200], wanted[64];
        str_format(text, sizeof text, "# MNE-Annotations\n# orig_time : %s\n# onset, duration, description\n90.0,30.0,sz\n",
                   cases[i].origin);
        put_file(p, "x_annotations.txt", text);
        assert_int_equal(load(p, "x.edf", "auto"), 0);
        str_format(wanted, sizeof wanted, "%g-%g sz", 90 + cases[i].shift_s, 120 + cases[i].shift_s);
        assert_runs(&p->labels, wanted);
        assert_int_equal(strstr(p->labels.note, "moved by") != NULL, cases[i].shift_s != 0);
    }
}

static void faulty_summaries_name_the_line(void **state) {
    struct place *p = *state;
    static const struct {
        const char *text, *where;
    } cases[] = {{"File Name: chb12_06.edf\nSeizure Start Time: 5 seconds\n", "a seizure start without its end"},
                 {"File Name: chb12_06.edf\nSeizure End Time: 5 seconds\n", "summary.txt:2"},
                 {"File Name: chb12_06.edf\nSeizure Start Time: 5 seconds\nSeizure End Time: 4 seconds\n", "summary.txt:3"},
                 {"File Name: chb12_06.edf\nSeizure Start Time: soon\n", "summary.txt:2: 'Seizure Start Time: soon'"},
                 {"File Name: chb12_06.edf\nNumber of Seizures in File: 2\n", "2 seizures announced, 0 listed"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_file(p, "chb12-summary.txt", cases[i].text);
        assert_fails(p, load(p, "chb12_06.edf", "auto"), cases[i].where);
    }
}

static void edf_annotations_give_seizures(void **state) {
    struct place *p = *state;
    put_edf(p, "x.edf",
            "+0.5\x15"
            "0.5\x14Seizure focal\x14@+1\x14sz start\x14@+1.5\x14sz END\x14@+0\x14"
            "bend\x14@");
    assert_int_equal(load(p, "x.edf", "auto"), 0);
    assert_int_equal(p->labels.source, LABELS_EDF_ANNOTATIONS);
    assert_runs(&p->labels, "0.5-1.5 sz");
    assert_true(p->labels.recording_s == 2);
    put_edf(p, "x.edf", "+0.5\x14Seizure\x14@");
    assert_fails(p, load(p, "x.edf", "auto"), "no duration and no end");
    put_edf(p, "x.edf", "+0.5\x14seizure end\x14@");
    assert_fails(p, load(p, "x.edf", "auto"), "no matching seizure start");
}

static void assert_unknown(const struct labels *l, const char *want) {
    char text[512] = "";
    for (size_t i = 0; i < l->n_unknown; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%g-%g", i ? ", " : "", l->unknown[i].onset_s, l->unknown[i].end_s);
    }
    assert_string_equal(text, want);
}

static void unsure_events_are_kept_apart_and_others_are_counted(void **state) {
    struct place *p = *state;
    put_file(p, "a_events.tsv",
             "onset\tduration\teventType\n1\t2\tartf\n5\t1\tartf\n0\t99\tbckg\n10\t5\tseizure?\n12\t8\tunknown\n"
             "60\t30\tsz\n70\tn/a\tsz?\n80\t1\tAnfall\n");
    assert_int_equal(load(p, "a.edf", "auto"), 0);
    assert_runs(&p->labels, "60-90 sz");
    assert_unknown(&p->labels, "10-20");
    assert_int_equal(p->labels.n_others, 2);
    assert_string_equal(p->labels.others[0].text, "artf");
    assert_int_equal(p->labels.others[0].count, 2);
    assert_string_equal(p->labels.others[1].text, "Anfall");
    assert_non_null(strstr(p->labels.note, "'sz?' at 70.00 s has no duration"));
    assert_int_equal(load(p, "a.edf", "auto\nanfall\n!artf"), 0);
    assert_runs(&p->labels, "60-90 sz");
    put_file(p, "a_events.tsv", "onset\tduration\teventType\nn/a\t1\tAnfall\n");
    assert_fails(p, load(p, "a.edf", "auto\nanfall"), "a_events.tsv:2: the times of 'Anfall' cannot be read");
    put_edf(p, "x.edf",
            "+0.25\x15"
            "0.5\x14seizure?\x14@+1\x14sz start\x14@+1.25\x14sz?\x14@+1.5\x14sz END\x14@+1.75\x14"
            "blink\x14@");
    assert_int_equal(load(p, "x.edf", "auto"), 0);
    assert_runs(&p->labels, "1-1.5 sz");
    assert_unknown(&p->labels, "0.25-0.75");
    assert_string_equal(p->labels.others[0].text, "blink");
    assert_non_null(strstr(p->labels.note, "annotation 'sz?' at 1.250 s has no duration and masks nothing"));
    put_edf(p, "x.edf", "+0.5\x14Seizure?\x14@");
    assert_int_equal(load(p, "x.edf", "auto"), 0);
    assert_int_equal(p->labels.source, LABELS_NONE);
    put_edf(p, "x.edf",
            "+0.5\x15"
            "1\x14"
            "Anfall\x14@");
    assert_int_equal(load(p, "x.edf", "auto\nanfall"), 0);
    assert_int_equal(p->labels.source, LABELS_EDF_ANNOTATIONS);
    assert_runs(&p->labels, "0.5-1.5 sz");
}

static void no_source_is_told_from_no_seizure(void **state) {
    struct place *p = *state;
    put_edf(p, "y_eeg.edf",
            "+0.5\x14"
            "eyes closed\x14@");
    assert_int_equal(load(p, "y_eeg.edf", "auto"), 0);
    assert_int_equal(p->labels.source, LABELS_NONE);
    assert_string_equal(labels_source_name(p->labels.source), "none");
    const char *names[] = {"y_events.tsv", "y_eeg.csv", "y_eeg.csv_bi", "chbNN-summary.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_non_null(strstr(p->labels.tried, names[i]));
    assert_string_equal(p->labels.without, "1 annotation of the recording, none a seizure");
    assert_int_equal(load(p, "y_eeg.edf", "edf-annotations"), 0);
    assert_int_equal(p->labels.source, LABELS_EDF_ANNOTATIONS);
    assert_int_equal(p->labels.n_runs, 0);
    assert_fails(p, load(p, "y_eeg.edf", "tsuz"), "'tsuz' is unknown");
    assert_int_equal(load(p, "missing.edf", "auto"), ERR_NOT_FOUND);
}

static void none_looks_for_nothing(void **state) {
    struct place *p = *state;
    put_edf(p, "x_eeg.edf", "+0.5\x14Seizure?\x14@");
    put_file(p, "x_events.tsv", "not even a table");
    assert_int_equal(load(p, "x_eeg.edf", "auto"), ERR_INVALID);
    assert_int_equal(load(p, "x_eeg.edf", "none"), 0);
    assert_int_equal(p->labels.source, LABELS_NONE);
    assert_int_equal(p->labels.n_runs, 0);
    assert_false(p->labels.undecided);
}

static void auto_prefers_bids_then_csv_then_csv_bi_then_annotations(void **state) {
    struct place *p = *state;
    static const char csv[] = "channel,start_time,stop_time,label,confidence\nTERM,1,2,seiz,1\n";
    put_edf(p, "chb12_06.edf",
            "+0.5\x15"
            "0.5\x14seizure\x14@");
    assert_int_equal(load(p, "chb12_06.edf", "auto"), 0);
    assert_int_equal(p->labels.source, LABELS_EDF_ANNOTATIONS);
    put_file(p, "chb12-summary.txt", SUMMARY);
    assert_int_equal(load(p, "chb12_06.edf", "auto"), 0);
    assert_int_equal(p->labels.source, LABELS_CHBMIT_SUMMARY);
    put_file(p, "chb12_06.csv_bi", csv);
    assert_int_equal(load(p, "chb12_06.edf", "auto"), 0);
    assert_int_equal(p->labels.source, LABELS_TUSZ_CSV_BI);
    put_file(p, "chb12_06.csv", csv);
    assert_int_equal(load(p, "chb12_06.edf", "auto"), 0);
    assert_int_equal(p->labels.source, LABELS_TUSZ_CSV);
    put_file(p, "chb12_06_events.tsv", "onset\tduration\teventType\n");
    assert_int_equal(load(p, "chb12_06.edf", "auto"), 0);
    assert_int_equal(p->labels.source, LABELS_BIDS_TSV);
}

static void written_events_read_back(void **state) {
    struct place *p = *state;
    const struct label_run runs[2] = {{.onset_s = 1.004, .end_s = 10.006, .confidence = 0.876, .code = "sz_foc"},
                                      {.onset_s = 20, .end_s = 30.5, .confidence = NAN}};
    const struct events_header header = {.start_text = "2002-03-02 04:05:06", .recording_s = 3600, .record_name = "w"};
    char path[160];
    assert_true(str_format(path, sizeof path, "%s/w_events.tsv", p->dir));
    assert_int_equal(events_write(events_format_find("tsv"), path, runs, 2, &header, &p->err), 0);
    char *text;
    size_t len;
    assert_int_equal(fsio_read(path, 10000, &text, &len, &p->err), 0);
    assert_string_equal(text, "onset\tduration\teventType\tconfidence\tchannels\tdateTime\trecordingDuration\ttrial_type\n"
                              "1.00\t9.01\tsz_foc\t0.88\tn/a\t2002-03-02 04:05:06\t3600.00\tsz_foc\n"
                              "20.00\t10.50\tsz\tn/a\tn/a\t2002-03-02 04:05:06\t3600.00\tsz\n");
    free(text);
    struct events_file events;
    assert_int_equal(events_read(path, &events, &p->err), 0);
    assert_int_equal(events.n_rows, 2);
    assert_string_equal(events.rows[0].type, "sz_foc");
    assert_true(events.rows[0].confidence == 0.88 && isnan(events.rows[1].confidence) && events.recording_s == 3600);
    assert_string_equal(events.start_text, "2002-03-02 04:05:06");
    events_done(&events);
    assert_int_equal(events_write(events_format_find("tsv"), path, NULL, 0, &(struct events_header){.recording_s = 12.5}, &p->err),
                     0);
    assert_int_equal(fsio_read(path, 10000, &text, &len, &p->err), 0);
    assert_non_null(strstr(text, "\n0.00\t12.50\tbckg\tn/a\tn/a\tn/a\t12.50\tbckg\n"));
    free(text);
    assert_true(str_format(path, sizeof path, "%s/w.csv_bi", p->dir));
    assert_int_equal(events_write(events_format_find("csv_bi"), path, runs, 2, &header, &p->err), 0);
    assert_int_equal(load(p, "w.edf", "csv_bi"), 0);
    assert_runs(&p->labels, "1.004-10.006 seiz, 20-30.5 seiz");
    assert_true(p->labels.recording_s == 3600);
    assert_int_equal(events_write(events_format_find("csv_bi"), path, NULL, 0, &header, &p->err), 0);
    assert_int_equal(load(p, "w.edf", "csv_bi"), 0);
    assert_int_equal(p->labels.source, LABELS_TUSZ_CSV_BI);
    assert_int_equal(p->labels.n_runs, 0);
}

static void patients_and_splits_come_from_the_path(void **state) {
    (void)state;
    static const struct {
        const char *path, *patient, *split;
    } cases[] = {{"sub-01/ses-01/eeg/sub-01_ses-01_task-szMonitoring_run-00_eeg.edf", "sub-01", ""},
                 {"sub-07_run-01_eeg.edf", "sub-07", ""},
                 {"chb01/chb01_03.edf", "chb01", ""},
                 {"chb21/chb21_03.edf", "chb01", ""},
                 {"chb17a_03.edf", "chb17", ""},
                 {"chb02_16+.edf", "chb02", ""},
                 {"edf/dev/aaaaaajy/s001_2003/02_tcp_le/aaaaaajy_s001_t000.edf", "aaaaaajy", "dev"},
                 {"train/p12/s1/x.edf", "p12", "train"},
                 {"eval/x.edf", "eval/x", "eval"},
                 {"aaaaaajy_s001_t000.edf", "aaaaaajy", ""},
                 {"PN00/PN00-1.EDF", "PN00/PN00-1", ""},
                 {"trained/x.bdf", "trained/x", ""}};
    char buf[64];
    struct err err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(labels_patient(cases[i].path, LABELS_PATIENT_AUTO, buf, sizeof buf, NULL, &err), 0);
        assert_string_equal(buf, cases[i].patient);
        assert_string_equal(labels_split(cases[i].path), cases[i].split);
    }
    assert_int_equal(labels_patient("abcdef.edf", LABELS_PATIENT_AUTO, buf, 4, NULL, &err), ERR_RANGE);
}

static void a_rule_makes_patients_of_folders_or_prefixes(void **state) {
    (void)state;
    static const struct {
        const char *path, *automatic, *folder, *prefix;
        bool lone;
    } cases[] = {{"PN00/PN00-1.edf", "PN00/PN00-1", "PN00", "PN00", true},
                 {"PN00/ses1/PN00_2.edf", "PN00/ses1/PN00_2", "PN00", "PN00", true},
                 {"PN05-3.bdf", "PN05-3", "PN05-3", "PN05", true},
                 {"a b.edf", "a b", "a b", "a", true},
                 {"x/-1.edf", "x/-1", "x", "x/-1", true},
                 {"data/sub-07_run-01_eeg.edf", "sub-07", "data", "sub-07", false},
                 {"CHB21/CHB21_03.edf", "chb01", "CHB21", "CHB21", false},
                 {"chb/sub-21.edf", "sub-21", "chb", "sub-21", false}};
    char buf[64];
    bool lone;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(labels_patient(cases[i].path, LABELS_PATIENT_AUTO, buf, sizeof buf, &lone, NULL), 0);
        assert_string_equal(buf, cases[i].automatic);
        assert_int_equal(lone, cases[i].lone);
        assert_int_equal(labels_patient(cases[i].path, LABELS_PATIENT_FOLDER, buf, sizeof buf, &lone, NULL), 0);
        assert_string_equal(buf, cases[i].folder);
        assert_false(lone);
        assert_int_equal(labels_patient(cases[i].path, LABELS_PATIENT_PREFIX, buf, sizeof buf, &lone, NULL), 0);
        assert_string_equal(buf, cases[i].prefix);
    }
}

/* ---- the optional folder of real files ---- */

static int count_summary(void *ctx, const char *path, int64_t size, struct err *err) {
    (void)size;
    int *counts = ctx;
    if (!strstr(path, "-summary.txt"))
        return 0;
    char full[512], *text, name[64];
    size_t len;
    const char *dir = getenv("BRR_EEG_DIR") ? getenv("BRR_EEG_DIR") : BRR_SOURCE_DIR "/../shared/eeg";
    assert_true(str_format(full, sizeof full, "%s/chbmit/%s", dir, path));
    if (fsio_read(full, 1 << 20, &text, &len, err))
        return err->code;
    for (char *line = text; (line = strstr(line, "File Name: ")) != NULL;) {
        line += 11;
        assert_true(str_format(name, sizeof name, "%.*s", (int)strcspn(line, "\r\n"), line));
        struct labels l;
        assert_true(str_format(full, sizeof full, "%s/chbmit/%s", dir, name));
        if (labels_load(full, "chbmit-summary", NULL, &l, err))
            return err->code;
        assert_int_equal(l.source, LABELS_CHBMIT_SUMMARY);
        counts[0] += (int)l.n_runs;
        counts[1] += l.n_runs > 0;
        labels_done(&l);
    }
    free(text);
    return 0;
}

static void real_label_files_are_read(void **state) {
    (void)state;
    const char *dir = getenv("BRR_EEG_DIR") ? getenv("BRR_EEG_DIR") : BRR_SOURCE_DIR "/../shared/eeg";
    if (!fsio_is_dir(dir))
        skip_without_eeg();
    char path[512];
    struct labels l;
    struct err err = {0};
    static const struct {
        const char *name, *format;
        size_t runs;
        double first;
    } cases[] = {{"annotations/sub-109_ses-01_task-szMonitoring_run-03_eeg.edf", "auto", 28, 48600},
                 {"annotations/sub-001_ses-01_task-szMonitoring_run-03_eeg.edf", "auto", 1, 57975},
                 {"annotations/sub-066_ses-01_task-szMonitoring_run-01_eeg.edf", "auto", 0, 0},
                 {"annotations/aaaaaool_s004_t002.edf", "auto", 2, 224.0071},
                 {"annotations/aaaaahln_s001_t000.edf", "auto", 0, 0},
                 {"chbmit/chb01_18_gap_D.edf", "auto", 1, 20}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(str_format(path, sizeof path, "%s/%s", dir, cases[i].name));
        assert_int_equal(labels_load(path, cases[i].format, NULL, &l, &err), 0);
        assert_int_not_equal(l.source, LABELS_NONE);
        assert_int_equal(l.n_runs, cases[i].runs);
        if (l.n_runs)
            assert_true(l.runs[0].onset_s == cases[i].first);
        labels_done(&l);
    }
    assert_true(str_format(path, sizeof path, "%s/chbmit", dir));
    int counts[2] = {0};
    assert_int_equal(fsio_walk(path, count_summary, counts, &err), 0);
    assert_int_equal(counts[0], 198);
    assert_int_equal(counts[1], 141);
}

/* What brrd found is no label until somebody has changed it; nor is a file of somebody else ever brrd's to replace. */
static void own_events_are_no_labels_until_they_are_corrected(void **state) {
    struct place *p = *state;
    char path[160], before[LABELS_STAMP_SIZE], after[LABELS_STAMP_SIZE];
    put_file(p, "a_events.tsv", "onset\tduration\teventType\n2\t5\tsz\n");
    str_format(path, sizeof path, "%s/a_events.tsv", p->dir);
    assert_false(outputs_own(path));
    assert_int_equal(outputs_check(path, false, &p->err), ERR_EXISTS);
    assert_int_equal(outputs_check(path, true, &p->err), 0);
    assert_int_equal(outputs_add(path, &p->err), 0);
    assert_true(outputs_own(path));
    assert_int_equal(outputs_check(path, false, &p->err), 0);
    put_edf(p, "a_eeg.edf", "");
    assert_int_equal(load(p, "a_eeg.edf", "auto"), 0);
    assert_int_equal(p->labels.source, LABELS_NONE);
    assert_non_null(strstr(p->labels.without, "a_events.tsv was written by brrd"));
    assert_int_equal(labels_stamp(p->edf, "auto", before, &p->err), 0);
    put_file(p, "a_events.tsv", "onset\tduration\teventType\n2\t6\tsz\n"); /* corrected */
    assert_int_equal(outputs_check(path, false, &p->err), ERR_EXISTS);
    assert_int_equal(load(p, "a_eeg.edf", "auto"), 0);
    assert_int_equal(p->labels.source, LABELS_BIDS_TSV);
    assert_int_equal(p->labels.n_runs, 1);
    assert_int_equal(labels_stamp(p->edf, "auto", after, &p->err), 0);
    assert_string_not_equal(before, after);
    assert_int_equal(outputs_add_copy(path, &p->err), 0); /* fetched: labels that brrd may replace */
    assert_false(outputs_own(path));
    assert_int_equal(outputs_check(path, false, &p->err), 0);
    assert_int_equal(load(p, "a_eeg.edf", "auto"), 0);
    assert_int_equal(p->labels.source, LABELS_BIDS_TSV);
    put_file(p, OUTPUTS_LIST, "[no list"); /* a list that cannot be read names nothing, and is replaced */
    assert_false(outputs_own(path));
    assert_int_equal(outputs_announce(path, "0000", &p->err), 0);
    assert_false(outputs_own(path));
    assert_int_equal(outputs_check(p->dir, false, &p->err), 0); /* a folder */
    assert_int_equal(outputs_check("/dev/null", false, &p->err), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bids_events_are_found_by_column_name, enter, leave),
        cmocka_unit_test_setup_teardown(a_recording_in_capitals_finds_its_events, enter, leave),
        cmocka_unit_test_setup_teardown(a_background_row_is_a_label_without_seizures, enter, leave),
        cmocka_unit_test_setup_teardown(a_file_of_other_events_alone_is_no_label, enter, leave),
        cmocka_unit_test_setup_teardown(what_is_unknown_stands_apart_from_the_seizures, enter, leave),
        cmocka_unit_test_setup_teardown(faulty_events_name_file_and_line, enter, leave),
        cmocka_unit_test_setup_teardown(tusz_csv_is_the_union_over_channels_and_codes, enter, leave),
        cmocka_unit_test_setup_teardown(tusz_csv_bi_is_read_and_its_faults_are_named, enter, leave),
        cmocka_unit_test_setup_teardown(chbmit_summary_is_read_in_both_forms, enter, leave),
        cmocka_unit_test_setup_teardown(every_text_format_is_read_with_every_line_end, enter, leave),
        cmocka_unit_test_setup_teardown(utf_16_is_read_and_other_bytes_are_named, enter, leave),
        cmocka_unit_test_setup_teardown(cells_in_quotes_are_unquoted, enter, leave),
        cmocka_unit_test_setup_teardown(other_separators_and_decimal_commas, enter, leave),
        cmocka_unit_test(words_decide_what_is_a_seizure),
        cmocka_unit_test_setup_teardown(a_row_that_is_no_seizure_never_refuses_the_file, enter, leave),
        cmocka_unit_test_setup_teardown(times_from_another_origin_are_moved, enter, leave),
        cmocka_unit_test_setup_teardown(faulty_summaries_name_the_line, enter, leave),
        cmocka_unit_test_setup_teardown(edf_annotations_give_seizures, enter, leave),
        cmocka_unit_test_setup_teardown(unsure_events_are_kept_apart_and_others_are_counted, enter, leave),
        cmocka_unit_test_setup_teardown(no_source_is_told_from_no_seizure, enter, leave),
        cmocka_unit_test_setup_teardown(none_looks_for_nothing, enter, leave),
        cmocka_unit_test_setup_teardown(auto_prefers_bids_then_csv_then_csv_bi_then_annotations, enter, leave),
        cmocka_unit_test_setup_teardown(written_events_read_back, enter, leave),
        cmocka_unit_test_setup_teardown(own_events_are_no_labels_until_they_are_corrected, enter, leave),
        cmocka_unit_test(patients_and_splits_come_from_the_path),
        cmocka_unit_test(a_rule_makes_patients_of_folders_or_prefixes),
        cmocka_unit_test(real_label_files_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
