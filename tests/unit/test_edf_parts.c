/* EDF files of which a part is there: records as they arrive, a header, the first bytes. */

#include "formats/edf.h"
#include "unit/cmocka_all.h"
#include "unit/edf_fixture.h"

/* Records given in pieces of every size say what the whole file says, and only the last piece can be read. */
static void records_that_arrive_in_pieces_are_those_of_the_file(void **state) {
    (void)state;
    static const char *const reserved[] = {"", "EDF+C", "EDF+D"};
    const char *keepers[] = {"+2.5", "x", "+4.5004", "+10.25", "+11.2", "+12.5", "+13.5", "+20"};
    for (int i = 0; i < 9; i++) {
        struct opened o;
        struct eegfile *feed;
        struct written_file f = {.n_signals = 2, .n_records = 8, .signals = PLUS, .reserved = reserved[i % 3], .keepers = keepers};
        int64_t piece = i / 3 + 1, at = 0;
        assert_int_equal(open_written(&o, &f, i == 1), 0);
        assert_int_equal(edf_header_bytes(o.bytes.data), 768);
        put(&o, 236, "-1", 8);
        assert_int_equal(edf_open_feed(o.bytes.data, 768, "fed", &feed, &o.err), 0);
        assert_int_equal(eegfile_info(feed)->n_records, 0);
        assert_int_equal(eegfile_info(feed)->n_segments, 0);
        for (int64_t n; at < 8; at += n) {
            float fed[24], whole[24];
            n = 8 - at < piece ? 8 - at : piece;
            assert_int_equal(eegfile_feed(feed, o.bytes.data + 768 + at * eegfile_record_bytes(feed), n, &o.err), 0);
            assert_int_equal(edf_read(feed, 0, at, n, fed, &o.err), 0);
            assert_int_equal(edf_read(o.edf, 0, at, n, whole, &o.err), 0);
            assert_memory_equal(fed, whole, (size_t)n * 8 * sizeof *fed);
            assert_int_equal(edf_read(feed, 0, at + n, 1, fed, &o.err), ERR_RANGE);
            assert_int_equal(at ? edf_read(feed, 0, at - 1, 1, fed, &o.err) : ERR_RANGE, ERR_RANGE);
        }
        const struct eeg_info *info = eegfile_info(feed);
        assert_int_equal(info->n_segments, o.info->n_segments);
        assert_int_equal(info->n_segments > 1, i % 3 == 2);
        for (int k = 0; k < info->n_segments; k++) {
            assert_int_equal(info->segments[k].first_record, o.info->segments[k].first_record);
            assert_int_equal(info->segments[k].n_records, o.info->segments[k].n_records);
            assert_true(info->segments[k].start_s == o.info->segments[k].start_s);
        }
        assert_true(info->duration_s == o.info->duration_s);
        assert_true(info->start.second == o.info->start.second && info->start.subsecond == o.info->start.subsecond);
        eegfile_close(feed);
        done(&o);
    }
}

static void a_header_that_does_not_say_its_length_is_refused_by_the_feed(void **state) {
    (void)state;
    struct eegfile *edf = NULL;
    struct err err;
    char bytes[256];
    memset(bytes, ' ', sizeof bytes);
    assert_int_equal(edf_header_bytes(bytes), -1);
    assert_int_equal(edf_open_feed(bytes, sizeof bytes, "blank", &edf, &err), ERR_INVALID);
    assert_null(edf);
}

static void a_field_beyond_the_header_is_padding(void **state) {
    (void)state;
    static const struct {
        const char *field;
        int64_t padding;
    } cases[] = {{"768", 0}, {"1792", 1024}, {"512", 0}, {"99999999", 0}, {"x", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened o;
        struct written_file f = {.n_signals = 2, .n_records = 1, .signals = PLAIN, .header_bytes = cases[i].field};
        assert_int_equal(open_written(&o, &f, false), 0);
        assert_int_equal(edf_header_padding(o.bytes.data), cases[i].padding);
        done(&o);
    }
}

static void days_that_do_not_exist_are_unknown(void **state) {
    (void)state;
    static const struct {
        const char *date, *recording;
        bool known;
        const char *repair;
    } cases[] = {{"30.02.20", "X", false, "no day of the calendar"},
                 {"31.04.20", "X", false, "no day of the calendar"},
                 {"29.02.20", "X", true, NULL},
                 {"29.02.00", "X", true, NULL},
                 {"29.02.21", "X", false, "no day of the calendar"},
                 {"00.01.20", "X", false, "no day of the calendar"},
                 {"01.13.20", "X", false, "no day of the calendar"},
                 {"1st Feb", "X", false, "not dd.mm.yy"},
                 {"01.02.20", "Startdate 01-FEV-2020 X X X", true, "which is not the start date"},
                 {"01.02.20", "Startdate 05-MAR-2019 X X X", true, "which is not the start date"},
                 {"01.02.20", "Startdate X X X X", true, NULL},
                 {"01.02.20", "Startdate 01-FEB-2020 X X X", true, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened o;
        struct written_file f = {
            .n_signals = 2, .n_records = 1, .signals = PLAIN, .date = cases[i].date, .recording = cases[i].recording};
        assert_int_equal(open_written(&o, &f, false), 0);
        assert_int_equal(o.info->start.known, cases[i].known);
        assert_int_equal(o.info->n_repairs, cases[i].repair != NULL);
        assert_true(!cases[i].repair || repaired(o.info, cases[i].repair));
        done(&o);
    }
}

/* Read as samples, the second header would be events. */
static void a_header_that_stands_twice_is_refused(void **state) {
    (void)state;
    for (int bdf = 0; bdf < 2; bdf++) {
        struct opened o;
        const struct written_file f = {.n_signals = 2, .n_records = 90, .signals = PLAIN};
        assert_int_equal(open_written(&o, &f, bdf), 0);
        char header[768];
        memcpy(header, o.bytes.data, sizeof header);
        struct str whole = str_of(MAX_BYTES);
        str_append(&whole, header, sizeof header);
        str_append(&whole, o.bytes.data, o.bytes.len);
        str_done(&o.bytes);
        o.bytes = whole;
        assert_int_equal(reopen(&o, whole.len), ERR_INVALID);
        assert_non_null(strstr(o.err.message, "the header stands twice: remove the first 768 bytes"));
        o.bytes.data[768 + 700] ^= 1; /* samples that look alike up to there */
        assert_int_equal(reopen(&o, whole.len), 0);
        done(&o);
    }
}

/* The header's own field and the size of the file decide together where the records begin. */
static void a_padded_header_is_read_to_its_end(void **state) {
    (void)state;
    static const struct {
        const char *field, *records;
        int padding, cut;
        char fill;
        bool padded;
    } cases[] = {{"1792", NULL, 1024, 0, 'x', true}, {"1792", "-1", 1024, 0, 'x', false}, {"1024", "-1", 256, 0, ' ', true},
                 {"1792", NULL, 1024, 5, ' ', true}, {"1792", NULL, 1024, 5, 'x', false}, {"1792", NULL, 0, 0, 'x', false},
                 {"512", NULL, 0, 0, 'x', false},    {"soon", NULL, 0, 0, 'x', false},    {"99999999", NULL, 0, 0, 'x', false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str plain, bytes;
        struct eegfile *edf;
        struct err err;
        const struct written_file f = {
            .n_signals = 2, .n_records = 3, .signals = PLAIN, .header_bytes = cases[i].field, .records = cases[i].records};
        str_init(&plain, 1 << 16);
        str_init(&bytes, 1 << 16);
        edf_write(&f, false, &plain);
        str_append(&bytes, plain.data, 768);
        for (int k = 0; k < cases[i].padding; k++)
            str_append(&bytes, &cases[i].fill, 1);
        str_append(&bytes, plain.data + 768, plain.len - 768 - (size_t)cases[i].cut);
        assert_int_equal(edf_open_memory(bytes.data, bytes.len, "padded", &edf, &err), 0);
        assert_int_equal(repaired(eegfile_info(edf), "padded"), cases[i].padded);
        if (cases[i].padded || !cases[i].padding) {
            float uv[8];
            assert_int_equal(edf_read(edf, 1, 1, 1, uv, &err), 0);
            assert_float_equal(uv[3], 0.1 * written_sample(1, 1, 3), 1e-4);
        }
        eegfile_close(edf);
        str_done(&plain);
        str_done(&bytes);
    }
}

static void a_header_alone_tells_time_but_no_annotations(void **state) {
    (void)state;
    static const char *const reserved[] = {"EDF+C", "EDF+D"};
    const char *keepers[] = {"+0.5", "+1.5", "+8.5"};
    for (int i = 0; i < 2; i++) {
        struct written_file f = {.n_signals = 2, .n_records = 3, .signals = PLUS, .reserved = reserved[i], .keepers = keepers};
        char path[] = "/tmp/brr-test-edf-XXXXXX";
        struct str text;
        struct eegfile *edf = NULL;
        float uv[8192];
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        str_init(&text, 1 << 20);
        edf_write(&f, false, &text);
        assert_int_equal(write(fd, str_cstr(&text), text.len), text.len);
        close(fd);
        assert_int_equal(eegfile_open_header(path, &edf, NULL), 0);
        const struct eeg_info *info = eegfile_info(edf);
        assert_int_equal(info->n_annotations, 0);
        assert_int_equal(info->n_segments, 1 + i); /* the keepers of a continuous file decide nothing */
        assert_float_equal(info->duration_s, i ? 9 : 3, 1e-9);
        assert_float_equal(info->start.subsecond, 0.5, 1e-12);
        assert_true(3 * info->signals[0].samples_per_record <= 8192);
        assert_int_equal(edf_read(edf, 0, 0, 3, uv, NULL), 0);
        eegfile_close(edf);
        assert_int_equal(eegfile_open(path, &edf, NULL), 0);
        assert_int_equal(eegfile_info(edf)->n_annotations, 1);
        eegfile_close(edf);
        unlink(path);
        str_done(&text);
    }
}

static void a_head_says_what_the_file_says_or_that_it_is_not_enough(void **state) {
    (void)state;
    const char *keepers[] = {"+0", "+1", "+7"};
    const struct written_signal s[2] = {PLUS[0],
                                        {.label = "EDF Annotations",
                                         .samples = 20,
                                         .tal = "+1\x15"
                                                "1\x14seizure\x14"}};
    static const struct {
        const char *reserved;
        int64_t missing_bytes; /* of the three records */
        bool enough;
    } cases[] = {{"EDF+C", 3, true}, {"EDF+D", 3, false}, {"EDF+D", 0, true}, {"", 3, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[] = "/tmp/brr-test-head-XXXXXX";
        int fd = mkstemp(path);
        struct str text;
        struct eegfile *head = NULL, *whole = NULL;
        bool enough = false;
        float uv[1000];
        struct written_file f = {.n_signals = 2, .n_records = 3, .signals = s, .reserved = cases[i].reserved, .keepers = keepers};
        str_init(&text, 1 << 20);
        edf_write(&f, false, &text);
        assert_int_equal(edf_open_memory(str_cstr(&text), text.len, "whole", &whole, NULL), 0);
        assert_int_equal(write(fd, str_cstr(&text), text.len - (size_t)cases[i].missing_bytes),
                         text.len - (size_t)cases[i].missing_bytes);
        close(fd);
        assert_int_equal(edf_open_head(path, (int64_t)text.len, &head, &enough, NULL), 0);
        assert_int_equal(enough, cases[i].enough);
        assert_false(eegfile_annotations_known(head));
        assert_true(eegfile_annotations_known(whole));
        if (enough) {
            assert_int_equal(eegfile_info(head)->n_records, 3);
            assert_int_equal(eegfile_info(head)->n_segments, eegfile_info(whole)->n_segments);
            assert_true(eegfile_info(head)->duration_s == eegfile_info(whole)->duration_s);
        }
        assert_int_equal(edf_read(head, 0, 0, 2, uv, NULL), 0);
        assert_int_equal(edf_read(head, 0, 2, 1, uv, NULL), cases[i].missing_bytes ? ERR_PRECONDITION : 0);
        eegfile_close(head);
        eegfile_close(whole);
        unlink(path);
        str_done(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_that_arrive_in_pieces_are_those_of_the_file),
        cmocka_unit_test(a_header_that_does_not_say_its_length_is_refused_by_the_feed),
        cmocka_unit_test(days_that_do_not_exist_are_unknown),
        cmocka_unit_test(a_header_that_stands_twice_is_refused),
        cmocka_unit_test(a_padded_header_is_read_to_its_end),
        cmocka_unit_test(a_field_beyond_the_header_is_padding),
        cmocka_unit_test(a_header_alone_tells_time_but_no_annotations),
        cmocka_unit_test(a_head_says_what_the_file_says_or_that_it_is_not_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
