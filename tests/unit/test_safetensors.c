#include "unit/temp_dir.h"

#include "store/safetensors.h"

/* A file of the header text given and `bytes` data bytes 0, 1, 2, …; padding as given. */
static const char *raw_file(void **state, const char *header, size_t bytes) {
    const char *path = in_dir(state, "raw");
    size_t len = strlen(header);
    unsigned char *file = malloc(8 + len + bytes + 1);
    assert_non_null(file);
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)((uint64_t)len >> (8 * i));
    memcpy(file + 8, header, len);
    for (size_t i = 0; i < bytes; i++)
        file[8 + len + i] = (unsigned char)i;
    put_file(path, file, 8 + len + bytes);
    free(file);
    return path;
}

static struct safetensors *opened(const char *path) {
    struct safetensors *st = NULL;
    struct err err = {0};
    if (safetensors_open(path, &st, &err))
        fail_msg("%s", err.message);
    return st;
}

static void assert_refused(const char *path, int code, const char *why) {
    struct safetensors *st = NULL;
    struct err err = {0};
    assert_int_equal(safetensors_open(path, &st, &err), code);
    assert_null(st);
    if (!strstr(err.message, why))
        fail_msg("'%s' is not in: %s", why, err.message);
    assert_non_null(strstr(err.message, path));
}

static void what_is_written_reads_back_the_same(void **state) {
    const char *path = in_dir(state, "a");
    static const double f64[2] = {1.5, -2.5};
    static const float f32[6] = {1, 2, 3, 4, 5, 6};
    static const uint8_t u8[3] = {7, 8, 9};
    static const int64_t i64 = -1;
    const struct safetensors_entry entries[] = {
        {"small \"name\"/µ", SAFETENSORS_U8, 1, {3}, u8, 3},
        {"b", SAFETENSORS_F32, 2, {2, 3}, f32, 24},
        {"scalar", SAFETENSORS_I64, 0, {0}, &i64, 8},
        {"none", SAFETENSORS_F32, 2, {0, 5}, NULL, 0},
        {"a", SAFETENSORS_F64, 1, {2}, f64, 16},
    };
    const struct safetensors_pair pairs[] = {{"kind", "tést"}, {"empty", ""}};
    struct safetensors_content content = {entries, 5, pairs, 2};
    char sum[DIGEST_HEX_SIZE], again[DIGEST_HEX_SIZE];
    struct err err = {0};
    assert_int_equal(safetensors_write(path, &content, sum, &err), 0);
    assert_int_equal(digest_file(path, again, &err), 0);
    assert_string_equal(sum, again);
    struct safetensors *st = opened(path);
    assert_int_equal(safetensors_count(st), 5);
    for (size_t i = 0; i < 5; i++) {
        const struct safetensors_entry *e = safetensors_find(st, entries[i].name);
        assert_non_null(e);
        assert_int_equal(e->dtype, entries[i].dtype);
        assert_int_equal(e->rank, entries[i].rank);
        assert_memory_equal(e->shape, entries[i].shape, (size_t)e->rank * sizeof e->shape[0]);
        assert_int_equal(e->bytes, entries[i].bytes);
        assert_true(!e->bytes || !memcmp(e->data, entries[i].data, e->bytes));
        assert_true(!e->bytes || (uintptr_t)e->data % safetensors_dtype_bytes(e->dtype) == 0);
    }
    assert_string_equal(safetensors_metadata(st, "kind"), "tést");
    assert_string_equal(safetensors_metadata(st, "empty"), "");
    assert_null(safetensors_metadata(st, "other"));
    assert_null(safetensors_find(st, "__metadata__"));
    assert_null(safetensors_at(st, 5));
    safetensors_close(st);
    safetensors_close(NULL);
    assert_int_equal(safetensors_write(path, &content, again, &err), 0); /* the same content is the same file */
    assert_string_equal(sum, again);
}

static void every_dtype_has_a_name_and_a_width(void **state) {
    static const char *const names[] = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"};
    static const size_t widths[] = {8, 4, 2, 2, 8, 4, 2, 1, 8, 4, 2, 1, 1};
    for (int i = 0; i < 13; i++) {
        char header[200];
        assert_string_equal(safetensors_dtype_name((enum safetensors_dtype)i), names[i]);
        assert_int_equal(safetensors_dtype_bytes((enum safetensors_dtype)i), widths[i]);
        str_format(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[2],\"data_offsets\":[0,%zu]}}", names[i],
                   2 * widths[i]);
        struct safetensors *st = opened(raw_file(state, header, 2 * widths[i]));
        assert_int_equal(safetensors_at(st, 0)->dtype, i);
        safetensors_close(st);
    }
}

static void a_misaligned_tensor_is_given_out_aligned(void **state) {
    /* With an even and an odd header: in one of the two b stands at an odd address. */
    static const char *const headers[] = {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                          "\"b\":{\"dtype\":\"U16\",\"shape\":[2],\"data_offsets\":[1,5]}}",
                                          "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                          "\"b\":{\"dtype\":\"U16\",\"shape\":[2],\"data_offsets\":[1,5]}} "};
    for (int i = 0; i < 2; i++) {
        struct safetensors *st = opened(raw_file(state, headers[i], 5));
        const struct safetensors_entry *b = safetensors_find(st, "b");
        assert_int_equal((uintptr_t)b->data % 2, 0);
        assert_memory_equal(b->data, "\1\2\3\4", 4);
        safetensors_close(st);
    }
}

static void tensors_may_stand_in_any_order_without_gaps(void **state) {
    struct safetensors *st = opened(raw_file(state,
                                             "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]},"
                                             "\"none\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]},"
                                             "\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}",
                                             3));
    assert_int_equal(safetensors_count(st), 3);
    assert_int_equal(((const uint8_t *)safetensors_find(st, "b")->data)[1], 2);
    safetensors_close(st);
}

#define T(name, dtype, shape, offsets) "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void every_malformed_header_is_refused_by_name(void **state) {
    static const struct {
        const char *header;
        size_t bytes;
        int code;
        const char *why;
    } cases[] = {
        {"[]", 0, ERR_INVALID, "no JSON object"},
        {"7", 0, ERR_INVALID, "no JSON object"},
        {"{", 0, ERR_INVALID, "not valid JSON"},
        {"", 0, ERR_INVALID, "not valid JSON"},
        {"{\"a\":1}", 0, ERR_INVALID, "dtype '(none)'"},
        {"{\"a\":null}", 0, ERR_INVALID, "tensor 'a'"},
        {"{" T("a", "F31", "[1]", "[0,4]") "}", 4, ERR_INVALID, "dtype 'F31', which is unknown"},
        {"{" T("a", "f32", "[1]", "[0,4]") "}", 4, ERR_INVALID, "dtype 'f32'"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ERR_INVALID, "dtype '(none)'"},
        {"{\"a\":{\"dtype\":5,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ERR_INVALID, "dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, ERR_INVALID, "lacks a shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, ERR_INVALID, "data_offsets"},
        {"{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, ERR_INVALID, "rank ≤ 8"},
        {"{" T("a", "U8", "{}", "[0,1]") "}", 1, ERR_INVALID, "lacks a shape"},
        {"{" T("a", "U8", "[1]", "[0]") "}", 1, ERR_INVALID, "data_offsets"},
        {"{" T("a", "U8", "[1]", "[0,1,2]") "}", 1, ERR_INVALID, "data_offsets"},
        {"{" T("a", "U8", "[1]", "{\"x\":0,\"y\":1}") "}", 1, ERR_INVALID, "do not fit"},
        {"{" T("a", "U8", "[-1]", "[0,1]") "}", 1, ERR_INVALID, "do not fit"},
        {"{" T("a", "U8", "[1.0]", "[0,1]") "}", 1, ERR_INVALID, "do not fit"},
        {"{" T("a", "U8", "[\"1\"]", "[0,1]") "}", 1, ERR_INVALID, "do not fit"},
        {"{" T("a", "F32", "[1]", "[0,3]") "}", 3, ERR_INVALID, "[0, 3) do not fit"},
        {"{" T("a", "U8", "[1]", "[-1,0]") "}", 1, ERR_INVALID, "do not fit"},
        {"{" T("a", "U8", "[1]", "[1,0]") "}", 1, ERR_INVALID, "do not fit"},
        {"{" T("a", "F64", "[4294967296,4294967296]", "[0,0]") "}", 0, ERR_INVALID, "do not fit"},
        {"{" T("a", "U8", "[9223372036854775807]", "[0,9223372036854775807]") "}", 8, ERR_DATA_LOSS, "truncated"},
        {"{" T("a", "U8", "[8]", "[0,8]") "}", 7, ERR_DATA_LOSS, "ends at byte 8 of 7"},
        {"{" T("a", "U8", "[8]", "[0,8]") "}", 9, ERR_INVALID, "1 bytes after the last tensor"},
        {"{}", 1, ERR_INVALID, "1 bytes after the last tensor"},
        {"{" T("a", "U8", "[2]", "[0,2]") "," T("b", "U8", "[2]", "[1,3]") "}", 3, ERR_INVALID, "'a' and 'b' overlap"},
        {"{" T("a", "U8", "[2]", "[0,2]") "," T("b", "U8", "[2]", "[0,2]") "}", 2, ERR_INVALID, "overlap"},
        {"{" T("a", "U8", "[1]", "[0,1]") "," T("b", "U8", "[1]", "[2,3]") "}", 3, ERR_INVALID, "1 bytes before tensor 'b'"},
        {"{" T("a", "U8", "[1]", "[1,2]") "}", 2, ERR_INVALID, "1 bytes before tensor 'a'"},
        {"{" T("a", "U8", "[1]", "[0,1]") "," T("a", "U8", "[1]", "[1,2]") "}", 2, ERR_INVALID, "duplicate"},
        {"{\"__metadata__\":[]}", 0, ERR_INVALID, "__metadata__ is not an object"},
        {"{\"__metadata__\":{\"n\":5}}", 0, ERR_INVALID, "maps 'n' to something other than a string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(raw_file(state, cases[i].header, cases[i].bytes), cases[i].code, cases[i].why);
}

static void a_file_that_is_cut_anywhere_is_refused(void **state) {
    char path[512];
    static const float x[4] = {1, 2, 3, 4};
    const struct safetensors_entry entry = {"x", SAFETENSORS_F32, 1, {4}, x, 16};
    struct safetensors_content content = {.entries = &entry, .n_entries = 1};
    char sum[DIGEST_HEX_SIZE], *text;
    size_t len;
    str_copy(path, sizeof path, in_dir(state, "whole"));
    assert_int_equal(safetensors_write(path, &content, sum, NULL), 0);
    assert_int_equal(fsio_read(path, 4096, &text, &len, NULL), 0);
    for (size_t cut = 0; cut < len; cut++) {
        struct safetensors *st = NULL;
        put_file(in_dir(state, "cut"), text, cut);
        int rc = safetensors_open(in_dir(state, "cut"), &st, NULL);
        assert_true(rc == ERR_INVALID || rc == ERR_DATA_LOSS);
        assert_null(st);
    }
    free(text);
    safetensors_close(opened(path));
}

/* As cp, rsync --inplace or NFS do it. */
static void a_file_that_is_cut_while_it_is_open_stays_what_it_was(void **state) {
    const char *path = raw_file(state, "{\"a\":{\"dtype\":\"U8\",\"shape\":[20000],\"data_offsets\":[0,20000]}}", 20000);
    struct safetensors *st = opened(path);
    assert_int_equal(truncate(path, 10), 0);
    const uint8_t *data = safetensors_find(st, "a")->data;
    for (int i = 0; i < 20000; i++)
        assert_int_equal(data[i], (uint8_t)i);
    safetensors_close(st);
}

static void a_header_alone_has_names_and_no_data(void **state) {
    const char *path = raw_file(state, "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}", 3);
    struct safetensors *st = NULL;
    assert_int_equal(safetensors_open_header(path, &st, NULL), 0);
    const struct safetensors_entry *e = safetensors_find(st, "a");
    assert_true(e && e->bytes == 3 && e->shape[0] == 3 && !e->data);
    safetensors_close(st);
    assert_int_equal(truncate(path, 8 + 53 + 2), 0);
    assert_int_equal(safetensors_open_header(path, &st, NULL), ERR_DATA_LOSS);
}

static void a_header_longer_than_file_or_bound_is_refused(void **state) {
    const char *path = in_dir(state, "a");
    put_file(path, "\x03\0\0\0\0\0\0\0{}", 10);
    assert_refused(path, ERR_INVALID, "header of 3 bytes in a file of 10");
    put_file(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    assert_refused(path, ERR_INVALID, "not a safetensors file");
    struct safetensors *st = NULL;
    struct err err;
    assert_int_equal(safetensors_open(path, &st, &err), ERR_INVALID);
    assert_null(strstr(err.message, "18446744073709551615"));
    put_file(path, "\1\0\0", 3);
    assert_refused(path, ERR_DATA_LOSS, "3 bytes are too few");
    put_file(path, "", 0);
    assert_refused(path, ERR_DATA_LOSS, "0 bytes are too few");
    assert_refused(in_dir(state, "none"), ERR_NOT_FOUND, "cannot open");
}

/* Such an upload of 60 MB took gigabytes. */
static void a_header_of_too_many_nodes_is_refused_before_it_is_parsed(void **state) {
    OWNED(str_done) struct str header;
    str_init(&header, SAFETENSORS_MAX_HEADER + 100);
    str_puts(&header, "{\"a\":[0");
    for (int i = 0; i < SAFETENSORS_MAX_NODES; i++)
        str_puts(&header, ",0");
    str_puts(&header, "]}");
    const char *path = raw_file(state, str_cstr(&header), 0);
    assert_refused(path, ERR_INVALID, "nodes; at most 262144");
    while (header.len <= SAFETENSORS_MAX_HEADER)
        str_puts(&header, "                ");
    path = raw_file(state, str_cstr(&header), 0);
    assert_refused(path, ERR_INVALID, "a header of 16777");
}

static void the_writer_refuses_what_no_reader_would_take(void **state) {
    const char *path = in_dir(state, "a");
    static const float x[2] = {1, 2};
    const struct safetensors_entry good = {"x", SAFETENSORS_F32, 1, {2}, x, 8}, two[] = {good, good};
    struct safetensors_entry bad[4] = {good, good, good, good};
    bad[0].bytes = 4;
    bad[1].shape[0] = -2;
    bad[2].rank = 9;
    bad[3].name = "__metadata__";
    char sum[DIGEST_HEX_SIZE] = "untouched";
    struct err err = {0};
    for (int i = 0; i < 4; i++) {
        struct safetensors_content content = {.entries = &bad[i], .n_entries = 1};
        assert_int_equal(safetensors_write(path, &content, sum, &err), ERR_INVALID);
    }
    struct safetensors_content twice = {.entries = two, .n_entries = 2};
    assert_int_equal(safetensors_write(path, &twice, sum, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "'x' is given twice"));
    const struct safetensors_pair pairs[] = {{"k", "1"}, {"k", "2"}};
    struct safetensors_content meta = {.entries = &good, .n_entries = 1, .metadata = pairs, .n_metadata = 2};
    assert_int_equal(safetensors_write(path, &meta, sum, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "'k' is given twice"));
    assert_string_equal(sum, "untouched");
    assert_false(fsio_exists(path));
}

static void a_failed_write_leaves_the_old_file(void **state) {
    static const float x[1] = {1};
    const struct safetensors_entry entry = {"x", SAFETENSORS_F32, 1, {1}, x, 4};
    struct safetensors_content content = {.entries = &entry, .n_entries = 1};
    char sum[DIGEST_HEX_SIZE] = "untouched";
    struct err err = {0};
    assert_int_equal(safetensors_write(in_dir(state, "no/dir"), &content, sum, &err), ERR_NOT_FOUND);
    assert_string_equal(sum, "untouched");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(what_is_written_reads_back_the_same),
        in_temp_dir(every_dtype_has_a_name_and_a_width),
        in_temp_dir(a_misaligned_tensor_is_given_out_aligned),
        in_temp_dir(tensors_may_stand_in_any_order_without_gaps),
        in_temp_dir(every_malformed_header_is_refused_by_name),
        in_temp_dir(a_file_that_is_cut_anywhere_is_refused),
        in_temp_dir(a_file_that_is_cut_while_it_is_open_stays_what_it_was),
        in_temp_dir(a_header_alone_has_names_and_no_data),
        in_temp_dir(a_header_longer_than_file_or_bound_is_refused),
        in_temp_dir(a_header_of_too_many_nodes_is_refused_before_it_is_parsed),
        in_temp_dir(the_writer_refuses_what_no_reader_would_take),
        in_temp_dir(a_failed_write_leaves_the_old_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
